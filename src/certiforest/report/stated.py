"""The report on statements about a whole model, as a page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from certiforest.report.sections import Facts, Page, Plot, Section, Table, Tiles, Words
from certiforest.words import ANSWERS

MOST_SHOWN = 40  # columns of an input


def stated_page(model: str, answers: Sequence[dict[str, Any]], bands: Sequence[Plot], origin: Facts) -> Page:
    """Return the report as a page.

    Parameters
    ----------
    model : str
    answers : sequence of dict
        For each statement its ``words``, whether it ``holds`` (None: not decided), ``seconds``, and the ``inputs`` that
        refute it, by column.
    bands : sequence of Plot
        Scores along columns.
    origin : Facts
    """
    counts = [sum(answer["holds"] is value for answer in answers) for value in ANSWERS]
    lines = [(answer["words"], ANSWERS[answer["holds"]], f"{answer['seconds']:.2f}") for answer in answers]
    return Page(
        f"Statements about {model}",
        [
            Words(
                "Each statement is about all inputs of the domain, and proved or refuted, not sampled.", is_soft=True
            ),
            Tiles([(word.capitalize(), f"{n}", "") for word, n in zip(ANSWERS.values(), counts, strict=True)]),
            Section("Statements", [Table(("Statement", "Answer", "Seconds"), lines, 2)]),
            *(Section(f"Refuted: {answer['words']}", [inputs_table(answer["inputs"])]) for answer in answers),
            *(Section(f"Scores along {band.x_label}", [band]) for band in bands),
            Section("Where this comes from", [origin]),
        ],
    )


def inputs_table(records: Sequence[dict[str, Any]], heads: Sequence[str] = ("First", "Second")) -> Table:
    """Return inputs as columns of a table; where there are two, columns in which they differ come first, marked."""
    if not records:
        return Table((), [])
    differs = {name for name in records[0] if any(record[name] != records[0][name] for record in records)}
    names = sorted(records[0], key=lambda name: name not in differs)
    rows = [
        [("* " if name in differs else "") + name, *(_cell(record[name]) for record in records)]
        for name in names[:MOST_SHOWN]
    ]
    if len(names) > MOST_SHOWN:
        rows.append([f"... {len(names) - MOST_SHOWN} more (--json)", *["" for _ in records]])
    return Table(("Column", *(("Input",) if len(records) == 1 else heads)), rows)


def records_of(inputs: Any) -> list[dict[str, Any]]:
    """Return inputs as plain data, by column; what is missing is None."""
    if inputs is None:
        return []
    names = list(map(str, getattr(inputs, "columns", range(inputs.shape[1]))))
    rows = getattr(inputs, "to_numpy", lambda **_: inputs)(dtype=object)
    return [{name: _plain(value) for name, value in zip(names, row, strict=True)} for row in rows]


def _plain(value: Any) -> Any:
    value = getattr(value, "item", lambda: value)()
    return None if value is None or value != value else value


def _cell(value: Any) -> str:
    if value is None:
        return "missing"
    return repr(int(value)) if isinstance(value, float) and value == int(value) and abs(value) < 2**53 else str(value)

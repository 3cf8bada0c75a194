"""What `check` and `measure` share: a model file, the domain of its inputs, and how inputs are shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from certiforest.cli import console
from certiforest.cli.options import ReadingOptions, check_work
from certiforest.files import check_readable

if TYPE_CHECKING:
    from certiforest.ensemble import TreeEnsemble
    from certiforest.formats.opened import Opened
    from certiforest.statements.domain import Domain

MOST_SHOWN = 20  # columns of an input; --json has all


@dataclass(frozen=True, kw_only=True)
class WholeModelOptions(ReadingOptions):
    """Where inputs lie, what a score is, and how long to work on a question."""

    domain: Annotated[
        str,
        typer.Option(metavar="DATA|JSON", help="Table whose columns tell where inputs lie, or a domain's own file."),
    ]
    outputs: Annotated[
        str, typer.Option(metavar="KIND", help="What scores of classifiers are: probability, or score for their sums.")
    ] = "probability"
    time_limit: Annotated[float, typer.Option(metavar="SECONDS", help="For each statement, or quantity.")] = 60.0

    def open(self, model: Path) -> tuple[Opened, Domain]:
        """Read the model, which may be a regressor, and the domain as it sees it."""
        from certiforest.formats.doors import open_model

        check_work(self.time_limit, 1)
        check_readable(model, "model file")
        opened = open_model(model)
        return opened, self._domain_of(opened.ensemble)

    def _domain_of(self, ensemble: TreeEnsemble) -> Domain:
        from certiforest.ensemble.categories import are_numbers
        from certiforest.statements.domain import Domain

        if Path(self.domain).suffix.lower() == ".json":
            domain, scaling = Domain.load(self.domain), ensemble.scaling
        else:
            table, own_scaling = self.source_of(self.domain).open(ensemble)
            scaling = ensemble.scaling or own_scaling
            values: dict[int | str, list[Any]] = {}
            for f, known in (ensemble.categories or {}).items():
                codes = table.X[:, f].tolist()
                text = dict(zip(codes, table.texts[f].tolist() if f in table.texts else codes, strict=True))
                there = sorted(code for code in text if code == code)
                stand = [known[int(code)] if 0 <= code < len(known) else text[code] for code in there]
                values[f] = there if are_numbers(known) else stand
            names = ensemble.feature_names or table.feature_names
            domain = Domain.from_data(table.X, columns=names, values=values)
        return domain if scaling is None else domain.scaled(scaling)


def as_records(inputs: Any) -> list[dict[str, Any]]:
    """Return inputs as plain data, by column; what is missing is None."""
    if inputs is None:
        return []
    names = list(map(str, getattr(inputs, "columns", range(inputs.shape[1]))))
    rows = getattr(inputs, "to_numpy", lambda **_: inputs)(dtype=object)
    return [{name: _plain(value) for name, value in zip(names, row, strict=True)} for row in rows]


def _plain(value: Any) -> Any:
    value = getattr(value, "item", lambda: value)()
    return None if value is None or value != value else value


def show_inputs(title: str, heads: Sequence[str], records: Sequence[dict[str, Any]], *, marks: bool) -> None:
    """Print inputs as columns of a table; if wanted, those in which they differ come first and have a mark."""
    differs = {name for name in records[0] if marks and any(record[name] != records[0][name] for record in records)}
    names = sorted(records[0], key=lambda name: name not in differs)
    rows = [
        [("* " if name in differs else "") + name, *(_cell(record[name]) for record in records)]
        for name in names[:MOST_SHOWN]
    ]
    if len(names) > MOST_SHOWN:
        rows.append([f"... {len(names) - MOST_SHOWN} more (--json)", *["" for _ in records]])
    console.show_table(title, ["Column", *heads], rows)


def _cell(value: Any) -> str:
    if value is None:
        return "missing"
    return repr(int(value)) if isinstance(value, float) and value == int(value) and abs(value) < 2**53 else str(value)

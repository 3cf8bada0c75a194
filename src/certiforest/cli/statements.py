"""``certiforest check`` and ``measure``: statements about all inputs of a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from certiforest.cli import console
from certiforest.cli.options import (
    BestIteration,
    InputError,
    Jobs,
    ModelPath,
    OutputOptions,
    Part,
    ReadingOptions,
    check_jobs,
    check_time_limit,
)
from certiforest.cli.outcomes import GateOptions, Outcome
from certiforest.files import check_readable
from certiforest.words import ANSWERS, counted, finite_or_none

if TYPE_CHECKING:
    from certiforest.ensemble import TreeEnsemble
    from certiforest.formats.opened import Opened
    from certiforest.report.sections import Page, Plot
    from certiforest.statements.domain import Domain
    from certiforest.statements.results import Results

NOT_ALL_HOLD = 1
SECONDS_FOR_A_BAND = 20.0
Proof = Annotated[Path | None, typer.Option(metavar="FILE", help="Write what shows it, to be checked by audit.")]


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
    best_iteration: BestIteration = None

    def open(self, model: Path) -> tuple[Opened, Domain]:
        """Read the model, which may be a regressor, and the domain as it sees it."""
        from certiforest.formats.doors import open_model

        check_time_limit("--time-limit", self.time_limit)
        check_readable(model, "model file")
        opened = open_model(model, self.best_iteration)
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


def check(
    model: ModelPath,
    contract: Annotated[Path, typer.Argument(metavar="CONTRACT", help="JSON file of statements.")],
    options: WholeModelOptions,
    output: GateOptions,
    *,
    rows: Annotated[
        str | None, typer.Option(metavar="DATA", help="Labelled rows that statements about robustness speak of.")
    ] = None,
    part: Part = None,
    jobs: Jobs = 1,
    report: Annotated[Path | None, typer.Option(metavar="HTML", help="Also write a report, with pictures.")] = None,
    proof: Proof = None,
) -> None:
    """Prove or refute statements about all inputs of a model.

    [bold]Examples[/bold]

      certiforest check m.json contract.json --domain a.csv --target y

      certiforest check m.json contract.json --domain domain.json --junit c.xml

    A contract is JSON text: a format, a version, and statements:

      {"format": "certiforest-contract", "version": 1, "statements": [
        {"insensitive": ["sex"]}, {"monotone": "income", "direction": "up"}]}

    Exit code 0: all hold; 1: one does not hold, and inputs that show it
    are printed, or one is not decided within --time-limit.
    """
    if report is not None and report.suffix.lower() != ".html":
        raise InputError(f"Expected --report to end in .html, got {str(report)!r}.")
    inputs: list[str | Path] = [model, contract, options.domain, *([] if rows is None else [rows])]
    output.check({"--report": report, "--proof": proof}, inputs)
    check_jobs(jobs)
    from certiforest.report.html import as_html
    from certiforest.report.stated import records_of
    from certiforest.statements.bands import bands_of
    from certiforest.statements.checking import check
    from certiforest.statements.kinds import read_contract

    statements = read_contract(contract)
    opened, domain = options.open(model)
    given = None
    if rows is not None:
        sample = options.source_of(rows).load(opened.ensemble, part)
        given = sample.X, sample.y
    with console.progress_bar(str(contract), len(statements)) as advance:
        results = check(
            opened,
            statements,
            domain,
            rows=given,
            outputs=options.outputs,
            time_limit=options.time_limit,
            n_jobs=jobs,
            proof=proof is not None,
            progress=lambda *_: advance(1),
        )
    if proof is not None:
        results.save(proof, replace=output.force)
    outcomes = [
        Outcome(str(r.statement), r.holds, str(r), "\n".join(map(str, records_of(r.pair))), r.seconds) for r in results
    ]
    output.write_outcomes(f"certiforest check {model}", outcomes)
    if report is not None:
        seconds = min(options.time_limit, SECONDS_FOR_A_BAND)
        with console.progress_bar("pictures", None):
            bands = bands_of(results, opened, domain, outputs=options.outputs, time_limit=seconds)
        output.write(report, as_html(_page(results, model, opened, domain, bands)))
    if output.as_json:
        console.say_json(_summarise(results, model))
    else:
        _show(results, model)
        _say_how_to_audit(proof)
    if not results.holds:
        raise typer.Exit(NOT_ALL_HOLD)


def measure(
    model: ModelPath,
    quantity: Annotated[str, typer.Argument(metavar="QUANTITY", help="range, gap, fall or difference.")],
    options: WholeModelOptions,
    output: OutputOptions,
    *,
    columns: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN", help="For gap: column that may change; repeat for more.")
    ] = None,
    column: Annotated[str | None, typer.Option(metavar="COLUMN", help="For fall: column that grows.")] = None,
    direction: Annotated[str, typer.Option(metavar="up|down", help="For fall: down measures how it rises.")] = "up",
    other: Annotated[Path | None, typer.Option(metavar="MODEL", help="For difference: the other model.")] = None,
    proof: Proof = None,
) -> None:
    """Find how far a model goes: its exact range, gap, fall or difference.

    [bold]Examples[/bold]

      certiforest measure m.json range --domain a.csv --target y

      certiforest measure m.json gap --columns sex --domain domain.json

      certiforest measure m.json difference --other v2.json --domain a.csv

    What was reached, by inputs that are printed, and what is proved: they
    are equal, but for rounding, unless --time-limit ends the search.
    """
    output.check({"--proof": proof}, [model, options.domain, *([] if other is None else [other])])
    from certiforest.data.sources import find_features
    from certiforest.report.stated import inputs_table, records_of
    from certiforest.statements.checking import measure

    opened, domain = options.open(model)
    names, n_features = domain.columns or opened.ensemble.feature_names, opened.ensemble.n_features
    place = find_features(None if column is None else [column], names, n_features, "column")
    found = measure(
        opened,
        quantity,
        domain,
        columns=find_features(columns, names, n_features, "columns"),
        column=None if place is None else place[0],
        direction=direction,
        other=other,
        outputs=options.outputs,
        time_limit=options.time_limit,
        proof=proof is not None,
    )
    if proof is not None:
        found.save(proof, replace=output.force)
    if quantity == "range":
        (low_proved, low), (high, high_proved) = found.bounds
        ends = [("lowest", low, low_proved), ("highest", high, high_proved)]
        records = [record for inputs in found.pair for record in records_of(inputs)]
    else:
        ends, records = [(quantity, *found.bounds)], records_of(found.pair)
    if output.as_json:
        bounds = {
            name: {"reached": finite_or_none(reached), "proved": finite_or_none(proved)}
            for name, reached, proved in ends
        }
        console.say_json({"model": str(model), **bounds, "inputs": records, "seconds": round(found.seconds, 4)})
        return
    lines = [(name, f"{reached:.6g}", f"{proved:.6g}") for name, reached, proved in ends]
    console.show_table(f"{model}: {quantity}", ["Score", "Reached", "Proved"], lines)
    if records:
        table = inputs_table(records, ("Lowest", "Highest") if quantity == "range" else ("First", "Second"))
        console.show_table("Reached by", table.head, table.rows)
    _say_how_to_audit(proof)


def _say_how_to_audit(proof: Path | None) -> None:
    if proof is not None:
        console.say(f"Proofs: {proof}, to be checked by: certiforest audit MODEL {proof}")


def _page(results: Results, model: Path, opened: Opened, domain: Domain, bands: Sequence[Plot]) -> Page:
    from certiforest.report.sections import Facts
    from certiforest.report.stated import stated_page
    from certiforest.version import __version__

    origin = Facts(
        [
            ("SHA-256 of the model's content", opened.ensemble.sha256),
            ("Columns", str(len(domain.low))),
            ("Version of certiforest", __version__),
        ]
    )
    return stated_page(model.name, _summarise(results, model)["statements"], bands, origin)


def _summarise(results: Results, model: Path) -> dict[str, Any]:
    from certiforest.report.stated import records_of

    return {
        "model": str(model),
        "holds": results.holds,
        "statements": [
            {
                "statement": result.statement.to_document(),
                "words": str(result.statement),
                "holds": result.holds,
                "inputs": records_of(result.pair),
                "proved": finite_or_none(result.bounds[0]),
                "reached": finite_or_none(result.bounds[1]),
                "seconds": round(result.seconds, 4),
            }
            for result in results
        ],
    }


def _show(results: Results, model: Path) -> None:
    from certiforest.report.stated import inputs_table, records_of

    n_hold = sum(result.holds is True for result in results)
    lines = [(str(r.statement), ANSWERS[r.holds], f"{r.seconds:.2f} s") for r in results]
    title = f"{model}: {n_hold} of {counted(len(results), 'statement')} are proved"
    console.show_table(title, ["Statement", "Answer", "Time"], lines, n_left=2)
    for result in results:
        table = inputs_table(records_of(result.pair))
        if table.rows:
            console.show_table(f"Refuted: {result.statement}", table.head, table.rows)

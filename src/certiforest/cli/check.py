"""``certiforest check``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from certiforest.cli import console
from certiforest.cli.options import Jobs, ModelPath, OutputOptions, Part, check_jobs
from certiforest.cli.whole_models import WholeModelOptions, as_records, show_inputs
from certiforest.words import counted, finite_or_none, printable

if TYPE_CHECKING:
    from certiforest.statements.results import Results

NOT_ALL_HOLD = 1
ANSWERS = {True: "holds", False: "does not hold", None: "not decided"}


def check(
    model: ModelPath,
    contract: Annotated[Path, typer.Argument(metavar="CONTRACT", help="JSON file of statements.")],
    options: WholeModelOptions,
    output: OutputOptions,
    rows: Annotated[
        str | None, typer.Option(metavar="DATA", help="Labelled rows that statements about robustness speak of.")
    ] = None,
    part: Part = None,
    jobs: Jobs = 1,
    junit: Annotated[Path | None, typer.Option(metavar="XML", help="Also write the answers as JUnit tests.")] = None,
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
    output.check({"--junit": junit}, [model, contract, options.domain, *([] if rows is None else [rows])])
    check_jobs(jobs)
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
            progress=lambda *_: advance(1),
        )
    if junit is not None:
        output.write(junit, _as_junit(results, str(model)))
    if output.as_json:
        console.say_json(_summarise(results, model))
    else:
        _show(results, model)
    if not results.holds:
        raise typer.Exit(NOT_ALL_HOLD)


def _summarise(results: Results, model: Path) -> dict[str, Any]:
    return {
        "model": str(model),
        "holds": results.holds,
        "statements": [
            {
                "statement": result.statement.to_document(),
                "words": str(result.statement),
                "holds": result.holds,
                "inputs": as_records(result.pair),
                "proved": finite_or_none(result.bounds[0]),
                "reached": finite_or_none(result.bounds[1]),
                "seconds": round(result.seconds, 4),
            }
            for result in results
        ],
    }


def _show(results: Results, model: Path) -> None:
    n_hold = sum(result.holds is True for result in results)
    lines = [(str(r.statement), ANSWERS[r.holds], f"{r.seconds:.2f} s") for r in results]
    title = f"{model}: {n_hold} of {counted(len(results), 'statement')} are proved"
    console.show_table(title, ["Statement", "Answer", "Time"], lines, n_left=2)
    for result in results:
        records = as_records(result.pair)
        if records:
            heads = ["Input"] if len(records) == 1 else ["First", "Second"]
            show_inputs(f"Refuted: {result.statement}", heads, records, marks=len(records) > 1)


def _as_junit(results: Results, model: str) -> str:
    """Return a test for each statement; one that is not decided is an error, one that does not hold a failure."""
    from xml.etree import ElementTree as Xml

    counts = {"tests": len(results)}
    counts |= {name: sum(r.holds is value for r in results) for name, value in (("failures", False), ("errors", None))}
    facts = {"name": f"certiforest check {printable(model)}", **{name: str(count) for name, count in counts.items()}}
    suite = Xml.Element("testsuite", facts)
    for result in results:
        words = printable(str(result.statement))
        test = Xml.SubElement(suite, "testcase", classname="certiforest", name=words, time=f"{result.seconds:.3f}")
        if result.holds is not True:
            kind = "failure" if result.holds is False else "error"
            failure = Xml.SubElement(test, kind, message=printable(str(result)))
            failure.text = printable("\n".join(map(str, as_records(result.pair))))
    return Xml.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"

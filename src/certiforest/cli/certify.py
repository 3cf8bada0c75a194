"""``certiforest certify``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from certiforest.cli import INTERRUPTED, console
from certiforest.cli.options import CertifyingOptions, DataOptions, InputError, ModelPath, OutputOptions

BELOW_REQUIRED = 1


def certify(
    model: ModelPath,
    data: DataOptions,
    options: CertifyingOptions,
    output: OutputOptions,
    radius: Annotated[bool, typer.Option("--radius", help="Also find each row's smallest breaking eps.")] = False,
    witness: Annotated[bool, typer.Option("--witness", help="Also write the changed rows into --out.")] = False,
    out: Annotated[Path | None, typer.Option(metavar="CSV", help="Write one line per row.")] = None,
    report: Annotated[Path | None, typer.Option(metavar="HTML", help="Write a report to look at.")] = None,
    proof: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write proofs and witnesses, to be checked by audit.")
    ] = None,
    require: Annotated[
        float | None,
        typer.Option(metavar="SHARE", help="Exit with 1 if proved robust accuracy is below, e.g. 0.9."),
    ] = None,
) -> None:
    """Prove, row by row, whether an attacker can change the prediction.

    [bold]Examples[/bold]

      certiforest certify m.json test.csv --target y --eps 0.02

      certiforest certify m.json b.csv --target -1 --norm 2 --eps 0.1

      certiforest certify m.json digits --eps 0.015 --require 0.9 --json

    Rows are scaled by the scaling inside the model file, if it has one;
    eps and radius are in scaled units, witnesses in those of the data.
    Without --target there are predictions and stability but no verdicts.
    What --proof writes is checked by certiforest audit, for a model that
    is a file of certiforest (convert writes one).
    """
    output.check({"--out": out, "--report": report, "--proof": proof}, [model, data.data])
    if require is not None and not 0 <= require <= 1:
        raise InputError(f"Expected --require between 0 and 1, got {require}.")
    if witness and out is None:
        raise InputError("Expected --out with --witness: changed rows are written there.")
    from certiforest.cli.certifying import ask
    from certiforest.cli.summaries import rows_as_csv, show_summary, summarise
    from certiforest.report import SpreadFacts, gather, render

    question = ask(model, data, options)
    if require is not None and question.rows.y is None:
        raise InputError("Expected labels with --require, got none: name the label column by --target.")
    for_report = report is not None
    run = question.answer(radius=radius or for_report, witness=witness or for_report, proof=proof is not None)
    found, spread = run.found, SpreadFacts.of(run.ensemble, run.attacker)
    summary = summarise(run, spread)
    if found.is_interrupted:
        if not output.as_json:
            show_summary(summary)
        raise typer.Exit(INTERRUPTED)
    if out is not None:
        output.write(out, rows_as_csv(found, run.rows, radius=radius, witness=witness))
    if proof is not None:
        found.save(proof, replace=output.force)
    if report is not None:
        findings = gather(found, spread=spread, **run.names_for_report)
        output.write(report, render(findings, report.suffix))
    if output.as_json:
        console.say_json(summary)
    else:
        show_summary(summary)
        if out is not None:
            console.say(f"One line per row: {out}")
        if proof is not None:
            console.say(f"Proofs: {proof}, to be checked by: certiforest audit MODEL {proof}")
        if report is not None:
            console.say(f"Report: {report}")
    if require is not None and found.robust_accuracy < require:
        console.complain(f"Robust accuracy {found.robust_accuracy:.4f} is below the required {require}.")
        raise typer.Exit(BELOW_REQUIRED)

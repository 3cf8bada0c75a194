"""``certiforest certify``."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from certiforest.cli import INTERRUPTED, console
from certiforest.cli.options import (
    CertifyingOptions,
    DataOptions,
    InputError,
    ModelPath,
    OutputOptions,
    StreamOptions,
    find_label,
)
from certiforest.words import shown

BELOW_REQUIRED = 1


def certify(
    model: ModelPath,
    data: DataOptions,
    options: CertifyingOptions,
    streaming: StreamOptions,
    output: OutputOptions,
    radius: Annotated[bool, typer.Option("--radius", help="Also find each row's smallest breaking eps.")] = False,
    witness: Annotated[bool, typer.Option("--witness", help="Also write the changed rows into --out.")] = False,
    out: Annotated[
        Path | None,
        typer.Option(metavar="PATH", help="Write one line per row: .csv, .parquet, or a directory of Parquet parts."),
    ] = None,
    report: Annotated[Path | None, typer.Option(metavar="HTML", help="Write a report to look at.")] = None,
    proof: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write proofs and witnesses, to be checked by audit.")
    ] = None,
    require: Annotated[
        list[str] | None,
        typer.Option(metavar="SHARE", help="Exit with 1 if robust accuracy, or recall of LABEL=SHARE, is below."),
    ] = None,
) -> None:
    """Prove, row by row, whether an attacker can change the prediction.

    [bold]Examples[/bold]

      certiforest certify m.json test.csv --target y --eps 0.02

      certiforest certify m.json b.csv --target -1 --norm 2 --eps 0.1

      certiforest certify m.json digits --eps 0.015 --require 0.9 --json

      certiforest certify m.json 'rows-*.parquet' --eps 0.1 --out found

      certiforest certify m.json b.csv --target bad --attacker fraud.json
          --attacked 1 --require 1=0.8

    Rows are scaled by the scaling inside the model file, if it has one;
    eps and radius are in scaled units, witnesses in those of the data.
    Without --target there are predictions and stability but no verdicts.
    What --proof writes is checked by certiforest audit, for a model that
    is a file of certiforest (convert writes one).

    Files are read block by block, and --out is written block by block: a
    run that was stopped, in whatever way, goes on where it stopped when
    the same command is given again.
    """
    if report is not None:
        output.check_report("--report", report)
    inputs = options.inputs(model, data.data)
    output.check({"--report": report, "--proof": proof}, inputs)
    streaming.check()
    shares = [_read_required(text) for text in require or ()]
    if witness and out is None:
        raise InputError("Expected --out with --witness: changed rows are written there.")
    if out is not None:
        output.check_place("--out", out, {"--report": report, "--proof": proof}, inputs)
    if radius and streaming.radius_rows is not None:
        raise InputError("Expected --radius, for all rows, or --radius-rows, for some, got both.")
    from certiforest.cli.certifying import Asked, ask_stream
    from certiforest.cli.summaries import show_summary, summarise
    from certiforest.report import render, spread_facts

    question = ask_stream(model, data, options, streaming)
    labels = question.ensemble.classes.tolist()
    wanted = [(None if text is None else find_label("--require", text, labels), at) for text, at in shares]
    if wanted and question.stream.first.y is None:
        raise InputError("Expected labels with --require, got none: name the label column by --target.")
    start = time.perf_counter()
    run = question.answer(Asked(radius, witness, proof is not None, report is not None), out, replace=output.force)
    seconds = time.perf_counter() - start
    spread = spread_facts(question.ensemble, question.attacker)
    summary = summarise(run, spread, seconds)
    if proof is not None and not run.is_interrupted:
        run.save_proofs(proof, replace_file=output.force)
    if report is not None and run.n_done:
        output.write(report, render(run.findings(spread), report.suffix))
    if output.as_json:
        console.say_json(summary)
    elif run.n_done:
        show_summary(summary)
        if out is not None and not run.is_interrupted:
            console.say(f"One line per row: {out}")
        if proof is not None and not run.is_interrupted:
            console.say(f"Proofs: {proof}, to be checked by: certiforest audit MODEL {proof}")
        if report is not None and run.n_done:
            console.say(f"Report: {report}")
    if run.is_interrupted:
        written = report if run.n_done and not output.force else None
        if run.parts is not None and run.parts.directory.exists():
            more = "" if written is None else f", with --force to replace {written},"
            console.complain(
                f"What was found is kept in {run.parts.directory}: the same command{more} goes on from there."
            )
        raise typer.Exit(INTERRUPTED)
    is_below = False
    for label, least in wanted:
        tally = run.tally
        assert tally is not None
        share = tally.robust_accuracy_bounds[0] if label is None else tally.robust_recall.get(label, 0.0)
        if not share >= least:
            what = "Robust accuracy" if label is None else f"Robust recall of {label}"
            console.complain(f"{what} {share:.4f} is below the required {least}.")
            is_below = True
    if is_below:
        raise typer.Exit(BELOW_REQUIRED)


def _read_required(text: str) -> tuple[str | None, float]:
    """Read a share of all rows, or LABEL=SHARE, a share of one label's rows."""
    label, _, share = text.rpartition("=")
    try:
        number = float(share)
    except ValueError:
        number = -1.0
    if not 0 <= number <= 1:
        raise InputError(f"Expected --require between 0 and 1, or LABEL=SHARE, got {shown(text)}.")
    return label or None, number

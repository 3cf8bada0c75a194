"""``certiforest certify``."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from certiforest.cli import INTERRUPTED, console
from certiforest.cli.options import (
    DataOptions,
    InputError,
    ModelPath,
    find_label,
    open_model,
    open_regressor,
)
from certiforest.cli.outcomes import GateOptions, Outcome
from certiforest.cli.questions import REPORT_SECONDS, CertifyingOptions, StreamOptions, ask, rows_reported
from certiforest.words import shown

if TYPE_CHECKING:
    from certiforest.data.streams import StreamRun

BELOW_REQUIRED = 1


def certify(
    model: ModelPath,
    data: DataOptions,
    options: CertifyingOptions,
    streaming: StreamOptions,
    output: GateOptions,
    *,
    radius: Annotated[bool, typer.Option("--radius", help="Also find each row's smallest breaking eps.")] = False,
    witness: Annotated[bool, typer.Option("--witness", help="Also write the changed rows into --out.")] = False,
    out: Annotated[
        Path | None,
        typer.Option(metavar="PATH", help="Write one line per row: .csv, .parquet, or a directory of Parquet parts."),
    ] = None,
    report: Annotated[Path | None, typer.Option(metavar="HTML", help="Write a report to look at.")] = None,
    tolerance: Annotated[
        float | None,
        typer.Option(metavar="T", help="For a regressor: how far what it says of a row may move; finds its range."),
    ] = None,
    outputs: Annotated[
        bool, typer.Option("--outputs", help="Also find the range of the second class's probability.")
    ] = False,
    evidence: Annotated[
        Path | None, typer.Option(metavar="HTML", help="Write a sheet for those who assess the model, or its .txt.")
    ] = None,
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
    if evidence is not None:
        output.check_report("--evidence", evidence, as_sheet=True)
    written = {"--report": report, "--evidence": evidence, "--proof": proof}
    output.check(written, options.inputs(model, data.data), place=out)
    streaming.check()
    shares = [_read_required(text) for text in require or ()]
    if output.junit is not None and not shares:
        raise InputError("Expected --require with --junit: each is a test.")
    if witness and out is None:
        raise InputError("Expected --out with --witness: changed rows are written there.")
    if radius and streaming.radius_rows is not None:
        raise InputError("Expected --radius, for all rows, or --radius-rows, for some, got both.")
    from certiforest.certifier import Certifier
    from certiforest.cli.summaries import facts_of, summarise
    from certiforest.data.row_sample import RowSample
    from certiforest.data.streams import StreamRun
    from certiforest.report import render, spread_facts
    from certiforest.report.evidence import certificate_facts, evidence_page

    if tolerance is not None and not tolerance >= 0:
        raise InputError(f"Expected --tolerance to be a number >= 0, got {tolerance}.")
    if tolerance is not None and proof is not None:
        raise InputError("Expected --proof for a classifier, got --tolerance, for a regressor, too.")
    opens = open_model if tolerance is None else open_regressor
    question = ask(model, data, options, as_stream=True, open_by=opens)
    ensemble, stream = question.ensemble, question.stream
    assert stream is not None
    labels = ensemble.classes.tolist()
    wanted = [(None if text is None else find_label("--require", text, labels), at) for text, at in shares]
    if wanted and stream.first.y is None:
        raise InputError("Expected labels with --require, got none: name the label column by --target.")
    start = time.perf_counter()
    is_reported_with_proofs = proof is not None and report is not None  # such a report is about all rows
    certifier = Certifier(
        ensemble if tolerance is None and not outputs else model,
        question.attacker,
        radius=radius or is_reported_with_proofs,
        witness=witness or is_reported_with_proofs,
        proof=proof is not None,
        tolerance=tolerance,
        outputs=outputs,
        attacked=options.attacked_labels(ensemble),
        time_limit=options.time_limit,
        n_jobs=options.jobs,
    )
    size, is_asked = streaming.radius_rows, radius or streaming.radius_rows is not None
    if size is None:
        size = rows_reported(ensemble.n_features) if report is not None or radius else 0
    run = StreamRun(
        certifier,
        stream,
        RowSample(size, streaming.seed),
        seconds=streaming.total_time_limit,
        sample_seconds=math.inf if is_asked else REPORT_SECONDS,
        progress=console.progress_bar,
        model=str(model),
    )
    with streaming.workers_at_hand() as (submit, n_at_once):
        run.run(out, replace_file=output.force, submit=submit, n_at_once=n_at_once)
    seconds = time.perf_counter() - start
    spread = spread_facts(ensemble, question.attacker)
    summary = summarise(run, spread, seconds)
    if proof is not None and not run.is_interrupted:
        run.save_proofs(proof, replace_file=output.force)
    if report is not None and run.n_done:
        output.write(report, render(run.findings(spread), report.suffix))
    if evidence is not None and run.n_done:
        proofs = None if proof is None or run.is_interrupted else certificate_facts(proof)
        sheet = {**run.findings(spread), "certificate": proofs}
        output.write(evidence, render(sheet, evidence.suffix, evidence_page))
    title, facts = facts_of(summary) if run.n_done else ("", [])
    if output.as_json:
        console.say_json(summary)
    elif run.n_done:
        console.show_facts(title, facts)
        if out is not None and not run.is_interrupted:
            console.say(f"One line per row: {out}")
        if proof is not None and not run.is_interrupted:
            console.say(f"Proofs: {proof}, to be checked by: certiforest audit MODEL {proof}")
        if report is not None:
            console.say(f"Report: {report}")
        if evidence is not None:
            console.say(f"Evidence: {evidence}")
    if run.is_interrupted:
        if run.parts is not None and run.parts.directory.exists():
            is_in_the_way = report is not None and run.n_done and not output.force
            more = f", with --force to replace {report}," if is_in_the_way else ""
            console.complain(
                f"What was found is kept in {run.parts.directory}: the same command{more} goes on from there."
            )
        raise typer.Exit(INTERRUPTED)
    outcomes = [_compare_share(run, label, least) for label, least in wanted]
    output.write_outcomes(title, outcomes, facts)
    below = [outcome for outcome in outcomes if not outcome.holds]
    for outcome in below:
        console.complain(outcome.reason)
    if below:
        raise typer.Exit(BELOW_REQUIRED)


def _compare_share(run: StreamRun, label: Any, least: float) -> Outcome:
    """Tell whether a share of robust rows, all of them or those of a label, is what was required."""
    assert run.row_counts is not None
    share = run.row_counts.robust_accuracy_bounds[0] if label is None else run.row_counts.robust_recall.get(label, 0.0)
    what = "Robust accuracy" if label is None else f"Robust recall of {label}"
    reason = f"{what} {share:.4f} is below the required {least}."
    return Outcome(f"{what} of at least {least}", share >= least, "" if share >= least else reason)


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

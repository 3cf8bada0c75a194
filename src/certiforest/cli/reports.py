"""``certiforest report``, ``explain`` and ``compare``: what is shown of rows that are certified in memory."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from certiforest.cli import INTERRUPTED, console
from certiforest.cli.options import DataOptions, InputError, ModelPath, OutputOptions
from certiforest.cli.outcomes import GateOptions, Outcome
from certiforest.cli.questions import REPORT_SECONDS, CertifyingOptions, Question, ask, rows_reported
from certiforest.words import counted, interval

if TYPE_CHECKING:
    from certiforest.attack.attacker import Attacker

ALL_ROWS = 2**62
N_BUDGETS = 24  # at which curves are drawn, up to three times the larger eps


def report(
    model: ModelPath,
    data: DataOptions,
    options: CertifyingOptions,
    output: OutputOptions,
    radius: Annotated[
        bool, typer.Option("--radius", help="Find the radii of all rows, however long it takes.")
    ] = False,
    out: Annotated[Path, typer.Option(metavar="FILE", help="Report: .html, .json or .txt.")] = Path("report.html"),
) -> None:
    """Certify and write a report to show to others.

    [bold]Examples[/bold]

      certiforest report m.json test.csv --target y --eps 0.02

      certiforest report m.json digits --eps 0.015 --out findings.json

    Verdicts, certified curve, radii, fragile rows, attacked features and
    spread. The HTML file is self-contained: no script, nothing fetched.
    Every figure's data is in the JSON, which --json prints instead. Where
    radii would take longer than ten seconds and than verdicts, only those
    of some rows, drawn at random, are found; the report says so.
    """
    if not output.as_json:
        output.check_report("--out", out)
        output.check({"--out": out}, options.inputs(model, data.data))
    from certiforest.certifier import Certifier
    from certiforest.data.row_sample import RowSample
    from certiforest.data.streams import StreamRun
    from certiforest.report import render, spread_facts

    question = ask(model, data, options, as_stream=True)
    ensemble, attacker, stream = question.ensemble, question.attacker, question.stream
    assert stream is not None
    limits: dict[str, Any] = {"time_limit": options.time_limit, "n_jobs": options.jobs}
    certifier = Certifier(ensemble, attacker, attacked=options.attacked_labels(ensemble), **limits)
    run = StreamRun(
        certifier,
        stream,
        RowSample(ALL_ROWS if radius else rows_reported(ensemble.n_features), 0),
        seconds=math.inf,
        sample_seconds=math.inf if radius else REPORT_SECONDS,
        progress=console.progress_bar,
        model=str(model),
    )
    run.run(None, replace_file=False)
    if run.is_interrupted:
        raise typer.Exit(INTERRUPTED)
    findings = run.findings(spread_facts(ensemble, attacker))
    if output.as_json:
        console.say_json(findings)
        return
    output.write(out, render(findings, out.suffix))
    console.say(f"Report: {out}")


def explain(
    model: ModelPath,
    data: DataOptions,
    options: CertifyingOptions,
    output: OutputOptions,
    row: Annotated[int, typer.Option(metavar="N", help="Row of the data, counted from 0, as in certify --out.")],
    out: Annotated[Path | None, typer.Option(metavar="HTML", help="Also write a page with pictures.")] = None,
) -> None:
    """Explain one row: what an attacker changes, or what protects it.

    [bold]Examples[/bold]

      certiforest explain m.json test.csv --target y --eps 0.02 --row 17

      certiforest explain m.json digits --eps 0.1 --row 3 --out row3.html

    Tells which changes are enough and why, which features would have to be
    frozen to make the row stable, how little of each feature alone would
    do, and for stable rows how the trees prove it.
    """
    output.check_page(out, options.inputs(model, data.data))
    from certiforest.explanation import explain

    question = ask(model, data, options)
    rows = question.rows
    places = (rows.row_numbers == row).nonzero()[0]
    if not places.size:
        n_rows = counted(len(rows.row_numbers), "row")
        raise InputError(f"Expected --row to be one of the {n_rows} of the {rows.part} part, got {row}.")
    explanation = explain(
        question.ensemble,
        rows.X[places[0]],
        question.attacker,
        time_limit=options.time_limit,
        feature_names=rows.feature_names,
        scaling=rows.scaling,
        image_shape=rows.image_shape,
        name=f"row {row}",
        about=rows.origin(question.model),
    )
    output.show(explanation, out)


def compare(
    model: ModelPath,
    other: Annotated[Path, typer.Argument(metavar="OTHER", help="The model to compare with; may be the same.")],
    data: DataOptions,
    options: CertifyingOptions,
    output: GateOptions,
    other_eps: Annotated[float | None, typer.Option(metavar="E", help="Budget of the other attacker.")] = None,
    other_norm: Annotated[str | None, typer.Option(metavar="P", help="Norm of the other attacker.")] = None,
    out: Annotated[Path | None, typer.Option(metavar="HTML", help="Also write a page with both curves.")] = None,
) -> None:
    """Compare two models, or two attackers, on the same rows.

    [bold]Examples[/bold]

      certiforest compare a.json b.json test.csv --target y --eps 0.02

      certiforest compare m.json m.json digits --eps 0.1 --other-norm 1

    Rows won and lost, and how likely such a difference comes about by
    chance (exact McNemar test). If the models scale columns differently,
    eps is in the units of the first for both.
    """
    output.check_page(out, options.inputs(model, other, data.data))
    import numpy as np

    from certiforest.comparison import bracket_radii, compare
    from certiforest.report.attackers import attacker_name, describe_attacker

    rival = replace(
        options,
        eps=options.eps if other_eps is None else other_eps,
        norm=options.norm if other_norm is None else other_norm,
    )
    first, second = ask(model, data, options), ask(other, data, rival)
    if first.rows.row_numbers.tolist() != second.rows.row_numbers.tolist():
        raise InputError(f"Expected both models to be certified on the same rows of {data.data}, got others.")
    questions = [first, replace(second, attacker=_in_units_of(first, second))]
    names = [Path(question.model).name for question in questions]
    if names[0] == names[1] or rival != options:
        names = [
            f"{name} against {attacker_name(describe_attacker(question.attacker))}"
            for name, question in zip(names, questions, strict=True)
        ]
    found = [
        question.certify(radius=False, witness=False, title=name)
        for name, question in zip(names, questions, strict=True)
    ]
    budgets = None
    if out is not None:
        eps = [question.attacker.eps for question in questions]
        budgets = np.union1d(np.linspace(0, 3 * max(eps), N_BUDGETS + 1), eps)
        with console.progress_bar("curves", 2 * len(budgets)) as advance:
            found = [
                bracket_radii(one, question.rows.X, budgets, advance)
                for one, question in zip(found, questions, strict=True)
            ]
    comparison = compare(found[0], found[1], (names[0], names[1]), first.rows.row_numbers, budgets)
    won, lost = len(comparison.won), len(comparison.lost)
    reason = f"{counted(lost, 'row')} lost, {won} won (p = {comparison.p_value:.2g})."
    outcome = Outcome(f"As many rows are proved for {names[1]} as for {names[0]}", won >= lost, reason)
    facts = [(side["name"], interval(side["proved"], ".2%")) for side in comparison.facts["sides"]]
    output.write_outcomes("certiforest compare", [outcome], facts)
    output.show(comparison, out)


def _in_units_of(first: Question, second: Question) -> Attacker:
    """Return the attacker of the second, to whom eps means as much, column by column, as to that of the first."""
    import numpy as np

    ours, theirs, attacker = first.rows, second.rows, second.attacker
    if ours.scaling == theirs.scaling or attacker.norm == 0:
        return attacker
    ranges = [np.ones(rows.X.shape[1]) if rows.scaling is None else rows.scaling.range for rows in (ours, theirs)]
    columns = [rows.feature_names or range(rows.X.shape[1]) for rows in (ours, theirs)]
    unit = dict(zip(columns[0], ranges[0].tolist(), strict=True))
    in_own_units = [name for name in ("scale", "domain", "integer") if getattr(attacker, name) is not None]
    if in_own_units or not unit.keys() >= set(columns[1]):
        raise InputError(
            f"Expected two models that scale the same columns alike, got {first.model} and {second.model}: then eps is"
            " in the units of the first only with --eps, --norm and --frozen, and for columns that both have."
        )
    scale = np.array([unit[column] for column in columns[1]]) / ranges[1]
    return attacker.replace(scale=scale).resolve(len(scale), theirs.feature_names)

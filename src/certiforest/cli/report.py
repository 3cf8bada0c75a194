"""``certiforest report``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from certiforest.cli import console
from certiforest.cli.options import CertifyingOptions, DataOptions, ModelPath, OutputOptions


def report(
    model: ModelPath,
    data: DataOptions,
    options: CertifyingOptions,
    output: OutputOptions,
    out: Annotated[Path, typer.Option(metavar="FILE", help="Report: .html, .json or .txt.")] = Path("report.html"),
) -> None:
    """Certify and write a report to show to others.

    [bold]Examples[/bold]

      certiforest report m.json test.csv --target y --eps 0.02

      certiforest report m.json digits --eps 0.015 --out findings.json

    Verdicts, certified curve, radii, fragile rows, attacked features and
    spread. The HTML file is self-contained: no script, nothing fetched.
    Every figure's data is in the JSON, which --json prints instead.
    """
    from certiforest.report import gather, render

    if not output.as_json:
        output.check_report("--out", out)
        output.check({"--out": out}, options.inputs(model, data.data))
    from certiforest.cli.certifying import ask_sample

    question = ask_sample(model, data, options)
    found = question.answer(radius=question.attacker.has_norm, witness=True, title="Certifying for the report")
    findings = gather(found, **question.rows.names_for_report(question.model))
    if output.as_json:
        console.say_json(findings)
        return
    output.write(out, render(findings, out.suffix))
    console.say(f"Report: {out}")

"""``certiforest compare``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from certiforest.cli.options import CertifyingOptions, DataOptions, InputError, ModelPath, OutputOptions


def compare(
    model: ModelPath,
    other: Annotated[Path, typer.Argument(metavar="OTHER", help="The model to compare with; may be the same.")],
    data: DataOptions,
    options: CertifyingOptions,
    output: OutputOptions,
    other_eps: Annotated[float | None, typer.Option(metavar="E", help="Budget of the other attacker.")] = None,
    other_norm: Annotated[str | None, typer.Option(metavar="P", help="Norm of the other attacker.")] = None,
    out: Annotated[Path | None, typer.Option(metavar="HTML", help="Also write a page with both curves.")] = None,
) -> None:
    """Compare two models, or two attackers, on the same rows.

    [bold]Examples[/bold]

      certiforest compare a.json b.json test.csv --target y --eps 0.02

      certiforest compare m.json m.json digits --eps 0.1 --other-norm 1

    Rows won and lost, and how likely such a difference comes about by
    chance (exact McNemar test).
    """
    output.check_page(out, [model, other, data.data])
    from certiforest.cli.certifying import ask_sample
    from certiforest.comparison import compare
    from certiforest.words import norm_name

    rival = replace(
        options,
        eps=options.eps if other_eps is None else other_eps,
        norm=options.norm if other_norm is None else other_norm,
    )
    questions = [ask_sample(model, data, options), ask_sample(other, data, rival)]
    if questions[0].rows.row_numbers.tolist() != questions[1].rows.row_numbers.tolist():
        raise InputError(f"Expected both models to be certified on the same rows of {data.data}, got others.")
    names = [Path(question.model).name for question in questions]
    if names[0] == names[1] or rival != options:
        names = [
            f"{name} against L{norm_name(question.attacker.norm)}, eps {question.attacker.eps:g}"
            for name, question in zip(names, questions, strict=True)
        ]
    found = [
        question.answer(radius=out is not None and not question.attacker.menu_columns, witness=False, title=name)
        for name, question in zip(names, questions, strict=True)
    ]
    comparison = compare(found[0], found[1], (names[0], names[1]), questions[0].rows.row_numbers)
    output.show(comparison, out)

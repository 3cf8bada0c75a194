"""``certiforest compare``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from certiforest.cli import console
from certiforest.cli.options import CertifyingOptions, DataOptions, InputError, ModelPath, OutputOptions

if TYPE_CHECKING:
    from certiforest.attack.attacker import Attacker
    from certiforest.cli.certifying import SampleQuestion

N_BUDGETS = 24  # at which curves are drawn, up to three times the larger eps


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
    chance (exact McNemar test). If the models scale columns differently,
    eps is in the units of the first for both.
    """
    output.check_page(out, options.inputs(model, other, data.data))
    import numpy as np

    from certiforest.cli.certifying import ask_sample
    from certiforest.comparison import bracket_radii, compare
    from certiforest.report.attackers import attacker_name, describe_attacker

    rival = replace(
        options,
        eps=options.eps if other_eps is None else other_eps,
        norm=options.norm if other_norm is None else other_norm,
    )
    first, second = ask_sample(model, data, options), ask_sample(other, data, rival)
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
        question.answer(radius=False, witness=False, title=name)
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
    output.show(comparison, out)


def _in_units_of(first: SampleQuestion, second: SampleQuestion) -> Attacker:
    """Return the attacker of the second, to whom eps means as much, column by column, as to that of the first."""
    import numpy as np

    ours, theirs, attacker = first.rows, second.rows, second.attacker
    if ours.scaling == theirs.scaling or attacker.norm == 0:
        return attacker
    ranges = [np.ones(rows.X.shape[1]) if rows.scaling is None else rows.scaling.range for rows in (ours, theirs)]
    columns = [rows.names or range(rows.X.shape[1]) for rows in (ours, theirs)]
    unit = dict(zip(columns[0], ranges[0].tolist(), strict=True))
    in_own_units = [name for name in ("scale", "domain", "integer") if getattr(attacker, name) is not None]
    if in_own_units or not unit.keys() >= set(columns[1]):
        raise InputError(
            f"Expected two models that scale the same columns alike, got {first.model} and {second.model}: then eps is"
            " in the units of the first only with --eps, --norm and --frozen, and for columns that both have."
        )
    scale = np.array([unit[column] for column in columns[1]]) / ranges[1]
    return attacker.replace(scale=scale).resolve(len(scale), theirs.names)

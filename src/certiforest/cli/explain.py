"""``certiforest explain``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from certiforest.cli.options import CertifyingOptions, DataOptions, InputError, ModelPath, OutputOptions


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
    from certiforest.cli.certifying import ask_sample
    from certiforest.explanation import explain
    from certiforest.words import counted

    question = ask_sample(model, data, options)
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
        feature_names=rows.names,
        scaling=rows.scaling,
        image_shape=rows.image_shape,
        name=f"row {row}",
        about=rows.origin(question.model),
    )
    output.show(explanation, out)

"""``certiforest reproduce``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from certiforest.cli import console
from certiforest.cli.options import AsJson, DataDir, Download


def reproduce(
    experiment: Annotated[
        str,
        typer.Argument(
            metavar="EXPERIMENT",
            help="table3, table4, table5, figure3, figure4, figure5, tuning or importance.",
        ),
    ],
    dataset: Annotated[str, typer.Option(metavar="NAME", help="mnist26, fashion03, rewema or webspam.")] = "mnist26",
    out_dir: Annotated[
        Path, typer.Option(metavar="DIR", help="Results, cell by cell; what is there is not run again.")
    ] = Path("reproduction-results"),
    quick: Annotated[bool, typer.Option("--quick", help="A small version: few rows, small models.")] = False,
    trees: Annotated[
        int | None, typer.Option(metavar="N", help="Only the paper's models of so many trees: 25 or 101.")
    ] = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown instead of a table.")] = False,
    data_dir: DataDir = None,
    download: Download = False,
    as_json: AsJson = False,
) -> None:
    """Repeat an experiment of the paper, its numbers beside ours.

    [bold]Examples[/bold]

      certiforest reproduce table3 --dataset mnist26 --download --quick

      certiforest reproduce table4 --dataset fashion03 --data-dir ~/data

      certiforest reproduce tuning --dataset mnist26 --trees 25

    table3: accuracy and robust accuracy; table4: by norm; table5: time
    and memory of verification; figure3: rows decided within a time limit;
    figure4, figure5: training time by trees and by depth; tuning: the
    grid search; importance: permutation importance, models side by side.
    A run that was stopped goes on where it stopped.
    """
    from dataclasses import asdict

    from certiforest import reproduction

    with console.progress_bar(f"{experiment}, {dataset}", 1) as advance:
        outcome = reproduction.reproduce(
            experiment,
            dataset,
            out_dir=out_dir,
            data_dir=data_dir,
            download=download,
            quick=quick,
            trees=trees,
            progress=advance.show,
        )
    if as_json:
        console.say_json(asdict(outcome))
    elif markdown:
        console.say(reproduction.as_markdown(outcome))
    else:
        n_columns = len(outcome.columns)
        console.show_table(f"{outcome.dataset}: {outcome.title}", outcome.columns, outcome.rows, n_left=n_columns)
        for note in outcome.notes:
            console.say(f"- {note}")

"""``certiforest convert``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from certiforest.cli import console
from certiforest.cli.options import ModelPath, OutputOptions, open_model


def convert(
    model: ModelPath,
    out: Annotated[Path, typer.Option(metavar="JSON", help="Where to write the model.")],
    output: OutputOptions,
) -> None:
    """Write a model of any kind as a file of certiforest.

    [bold]Example[/bold]

      certiforest convert xgboost.ubj --out m.json

    The new file predicts as the model does on every row; nothing but this
    library, or the format's description, is needed to read it.
    """
    output.check({"--out": out}, [model])
    ensemble = open_model(model)
    ensemble.save(out, replace=output.force)
    if output.as_json:
        from certiforest.cli.summaries import describe_model

        console.say_json({"model": describe_model(ensemble, str(out)), "source": str(model)})
        return
    facts = [
        ("Trees, nodes, features", f"{ensemble.n_trees}, {ensemble.n_nodes}, {ensemble.n_features}"),
        ("Trees", "vote" if ensemble.combine == "vote" else "have scores, which add up"),
        ("Model file", str(out)),
    ]
    console.show_facts(f"{model} as a file of certiforest", facts)

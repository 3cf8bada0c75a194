"""``certiforest datasets``."""

from __future__ import annotations

from typing import Annotated

import typer

from certiforest.cli import console
from certiforest.cli.options import AsJson


def datasets(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="Show one in detail.")] = None,
    as_json: AsJson = False,
) -> None:
    """List the datasets known by name.

    [bold]Examples[/bold]

      certiforest datasets

      certiforest datasets mnist26

    Source, licence, checksum, split and scaling of each. Nothing is
    downloaded unless --download is given where a dataset is used.
    """
    from certiforest.data.datasets import DATASETS, dataset_info
    from certiforest.data.split import SPLIT_TEXT

    infos = list(DATASETS.values()) if name is None else [dataset_info(name)]
    documents = [
        {
            "name": info.name,
            "title": info.title,
            "size": info.size,
            "source": info.source,
            "licence": info.licence,
            "split": SPLIT_TEXT,
            "scaling": info.scaling_text,
            "sha256": info.sha256,
        }
        for info in infos
    ]
    if as_json:
        console.say_json(documents if name is None else documents[0])
    elif name is None:
        rows = [(info.name, info.title, info.size, info.licence) for info in infos]
        console.show_table(None, ("Name", "What it is", "Size", "Licence"), rows, n_left=4)
        console.say("'certiforest datasets NAME' tells source, checksum, split and scaling.")
    else:
        console.show_facts(name, [(key.capitalize(), value or "not recorded") for key, value in documents[0].items()])

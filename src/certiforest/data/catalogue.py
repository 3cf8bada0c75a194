"""The datasets known by name: where each comes from, under which licence, how it is checked, split and scaled.

What is known about them stands in ``datasets.json``.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from importlib.resources import files
from typing import Any

from certiforest.data.split import SPLIT_TEXT
from certiforest.words import shown


class DatasetError(ValueError):
    """A dataset is unknown, not at hand, or not what it should be."""


@dataclass(frozen=True)
class DatasetInfo:
    """What is known about a dataset before it is loaded.

    ``scaled_by`` says which rows give the minimum and maximum of each feature: all of them (the paper's
    protocol), the training rows, or none because the range is fixed. ``n_features`` and ``first_index`` tell the
    columns of a LIBSVM file.
    """

    name: str
    title: str
    source: str
    licence: str
    size: str
    scaled_by: str
    files: tuple[str, ...] = ()
    openml_id: int | None = None
    sha256: str | None = None
    image_shape: tuple[int, int] | None = None
    n_features: int | None = None
    first_index: int | None = None

    @property
    def scaling_text(self) -> str:
        """How features are scaled, in words."""
        return {
            "all rows": "each feature to [0, 1] by its minimum and maximum over all rows, as the paper does",
            "training rows": "each feature to [0, 1] by its minimum and maximum over the training rows",
            "sixteenths": "every pixel divided by 16, its largest value",
            "nothing": "none: the file is scaled already",
        }[self.scaled_by]

    @property
    def split_text(self) -> str:
        """How rows are split, in words."""
        return SPLIT_TEXT


def _read_infos() -> dict[str, DatasetInfo]:
    text = files("certiforest.data").joinpath("datasets.json").read_text(encoding="utf-8")
    entries: list[dict[str, Any]] = [
        {k: tuple(v) if isinstance(v, list) else v for k, v in e.items()} for e in json.loads(text)["datasets"]
    ]
    return {entry["name"]: DatasetInfo(**entry) for entry in entries}


DATASETS = _read_infos()
PAIR = re.compile(r"(mnist|fashion)([0-9])([0-9])")


def is_dataset(name: str) -> bool:
    """Tell whether a name is one of `DATASETS` or a pair of classes like ``mnist26``."""
    pair = PAIR.fullmatch(name)
    return name in DATASETS or (pair is not None and pair[2] != pair[3])


def dataset_info(name: str) -> DatasetInfo:
    """Return what is known about a dataset; a pair of classes like ``mnist26`` has the facts of its whole."""
    if not is_dataset(name):
        raise DatasetError(
            f"Expected one of {', '.join(DATASETS)}, mnist26, fashion03 or another pair, got {shown(name)}."
        )
    if name in DATASETS:
        return DATASETS[name]
    whole, first, second = PAIR.fullmatch(name).groups()  # type: ignore[union-attr]
    return replace(
        DATASETS[whole],
        name=name,
        title=f"{DATASETS[whole].title.split(',')[0]}: class {first} against {second}",
    )

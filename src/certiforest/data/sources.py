"""Sources: what was typed about data, a file or the name of a dataset, turned into rows as a model sees them."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from certiforest.data.datasets import dataset_info, is_dataset, load_dataset, split_rows
from certiforest.data.tables import Table, read_table
from certiforest.ensemble import TreeEnsemble
from certiforest.ensemble.scaling import Scaling

PARTS = ("train", "test", "all")


class SourceError(ValueError):
    """What was typed about the data cannot be done."""


def check_part(part: str) -> None:
    """Refuse what is not the name of a part of the rows."""
    if part not in PARTS:
        raise SourceError(f"Expected --part to be {' or '.join(PARTS)}, got {part!r}.")


@dataclass(frozen=True)
class Sample:
    """Rows as a model sees them, and where they come from: which rows of which file, counted from 0."""

    X: NDArray[np.float64]
    y: NDArray | None
    names: tuple[str, ...] | None
    row_numbers: NDArray[np.int64]
    source: str
    part: str
    scaling: Scaling | None
    image_shape: tuple[int, int] | None


@dataclass(frozen=True)
class Source:
    """What was typed about the data: a file or the name of a dataset, and how to read it."""

    data: str
    target: str | None
    drop: list[str] | None
    kind: str | None
    header: bool | None
    data_dir: Path | None
    download: bool

    @property
    def is_named(self) -> bool:
        """Whether this is the name of a dataset; a file of that name comes first."""
        return not Path(self.data).exists() and is_dataset(self.data)

    def _read(self, n_features: int | None) -> Table:
        path = Path(self.data)
        if not path.exists() and not path.suffix and os.sep not in self.data:
            raise SourceError(
                f"Expected a data file or the name of a dataset, got {self.data!r}, which is neither."
                " 'certiforest datasets' lists the names."
            )
        return read_table(
            path, self.target, drop=self.drop or (), kind=self.kind, header=self.header, n_features=n_features
        )

    def open(self, n_features: int | None = None) -> tuple[Table, Callable[[str], NDArray[np.int64]], Scaling | None]:
        """Return the whole table, what gives the rows of a part of it, and the dataset's own scaling."""
        if self.is_named:
            dataset = load_dataset(self.data, data_dir=self.data_dir, download=self.download)
            return dataset.table, dataset.parts.__getitem__, dataset.scaling
        table = self._read(n_features)
        return table, lambda part: _rows_of_part(table, part), None

    def load(self, ensemble: TreeEnsemble, part: str | None) -> Sample:
        """Return the rows that a model is to be certified on, in its units."""
        if part is not None:
            check_part(part)
        part = part or ("test" if self.is_named else "all")
        table, rows_of, own_scaling = self.open(ensemble.n_features)
        row_numbers = rows_of(part)
        table = table.take(row_numbers).with_features(ensemble.feature_names, ensemble.n_features)
        # A model without a scaling, of a dataset that has one, was trained on rows scaled as documented.
        scaling = ensemble.scaling or own_scaling
        X = table.X if scaling is None else scaling.apply(table.X)
        names = ensemble.feature_names or table.feature_names
        image_shape = dataset_info(self.data).image_shape if self.is_named else None
        return Sample(X, table.y, names, row_numbers, self.data, part, scaling, image_shape)


def _rows_of_part(table: Table, part: str) -> NDArray[np.int64]:
    if part == "all":
        return np.arange(len(table))
    if table.y is None:
        raise SourceError("Expected labels to split the rows by, got none: name the label column by --target.")
    train_rows, test_rows = split_rows(table.y)
    return train_rows if part == "train" else test_rows


def find_features(wanted: Sequence[str] | None, names: Sequence[str] | None, n_features: int) -> list[int] | None:
    """Return the indices of features given by name or index; None if none are."""
    if not wanted:
        return None
    found = []
    for feature in wanted:
        if names is not None and feature in names:
            found.append(list(names).index(feature))
        elif feature.isdecimal() and int(feature) < n_features:
            found.append(int(feature))
        else:
            how = "one of the model's columns" if names is not None else f"an index from 0 to {n_features - 1}"
            raise SourceError(f"Expected --frozen to be {how}, got {feature!r}.")
    return found

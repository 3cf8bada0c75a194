"""Datasets by name, loaded, split and scaled.

Nothing is downloaded unless asked for. Two datasets ship with scikit-learn; the others are files in a directory that
``data_dir`` or the environment variable ``CERTIFOREST_DATA`` names, or come from OpenML with ``download=True``.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from certiforest.data.catalogue import DATASETS, PAIR, DatasetInfo, dataset_info
from certiforest.data.dataset_files import check_contents, find_table
from certiforest.data.split import split_rows
from certiforest.data.tables import Table
from certiforest.ensemble.scaling import Scaling


@dataclass(frozen=True)
class Dataset:
    """A dataset in memory: rows in the units of its source, the scaling for them, and the split."""

    info: DatasetInfo
    table: Table
    scaling: Scaling | None
    train_rows: NDArray[np.int64]
    test_rows: NDArray[np.int64]

    @property
    def parts(self) -> dict[str, NDArray[np.int64]]:
        """Row indices of each part by name."""
        return {"train": self.train_rows, "test": self.test_rows, "all": np.arange(len(self.table))}

    def scaled_split(self) -> tuple[NDArray, NDArray, NDArray, NDArray]:
        """Return X_train, X_test, y_train, y_test in scaled units."""
        X = self.table.X if self.scaling is None else self.scaling.apply(self.table.X)
        y = self.table.y
        assert y is not None
        return X[self.train_rows], X[self.test_rows], y[self.train_rows], y[self.test_rows]


SCALINGS: dict[str, Callable[[NDArray, NDArray], Scaling | None]] = {
    "all rows": lambda X, train_rows: Scaling.of(X),
    "training rows": lambda X, train_rows: Scaling.of(X[train_rows]),
    "sixteenths": lambda X, train_rows: Scaling(np.zeros(X.shape[1]), np.full(X.shape[1], 16.0)),
    "nothing": lambda X, train_rows: None,
}


def load_dataset(name: str, *, data_dir: str | os.PathLike[str] | None = None, download: bool = False) -> Dataset:
    """Load a dataset by name.

    Parameters
    ----------
    name : str
        A name in `DATASETS`, or two classes of an image dataset: ``mnist26`` has label 0 for digit 2 and 1
        for 6.
    data_dir : path, optional
        Directory with the files; that named by the environment variable ``CERTIFOREST_DATA`` if not given.
    download : bool, default=False
        Whether to fetch from OpenML what is not in the directory.

    Raises
    ------
    DatasetError
        If the dataset is unknown, not at hand, or its contents are not those published.
    """
    info = dataset_info(name)
    pair = PAIR.fullmatch(name)
    whole = DATASETS[pair[1]] if pair else info
    table = find_table(whole, data_dir, download)
    check_contents(whole, table)
    if pair:
        table = _keep_pair(table, int(pair[2]), int(pair[3]))
    assert table.y is not None
    train_rows, test_rows = split_rows(table.y)
    scaling = SCALINGS[info.scaled_by](table.X, train_rows)
    return Dataset(info, replace(table, source=name), scaling, train_rows, test_rows)


def _keep_pair(table: Table, zero: int, one: int) -> Table:
    assert table.y is not None
    chosen = np.flatnonzero(np.isin(table.y, (zero, one)))
    return replace(table.take(chosen), y=np.where(table.y[chosen] == one, 1, 0))

"""Sources: a file or the name of a dataset, and how to read it, turned into rows as a model sees them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from certiforest.data.catalogue import dataset_info, is_dataset
from certiforest.data.datasets import load_dataset
from certiforest.data.readers import read_table
from certiforest.data.split import TrainingRecord, check_part, rows_of_part
from certiforest.data.tables import Table
from certiforest.ensemble import TreeEnsemble
from certiforest.ensemble.scaling import Scaling
from certiforest.words import setting, shown


class SourceError(ValueError):
    """What is said about the data cannot be done."""


@dataclass(frozen=True)
class Sample:
    """Rows as a model sees them, and where they come from: which rows of which file, counted from 0.

    ``is_checked`` tells that the part of the rows is known to be the one that the model did, or did not, learn;
    ``n_left_out`` counts the rows of the other part.
    """

    X: NDArray[np.float64]
    y: NDArray | None
    names: tuple[str, ...] | None
    row_numbers: NDArray[np.int64]
    source: str
    part: str
    scaling: Scaling | None
    image_shape: tuple[int, int] | None
    is_checked: bool = True
    n_left_out: int = 0


@dataclass(frozen=True)
class Source:
    """A file or the name of a dataset, and how to read it; the parameters are those of `read_table`."""

    data: str
    target: str | None = None
    drop: Sequence[str] = ()
    kind: str | None = None
    header: bool | None = None
    data_dir: Path | None = None
    download: bool = False
    first_index: int | None = None

    @property
    def is_named(self) -> bool:
        """Whether this is the name of a dataset; a file of that name comes first."""
        return not os.path.lexists(self.data) and is_dataset(self.data)

    def open(
        self, n_features: int | None = None, first_index: int | None = None, *, missing: bool = False
    ) -> tuple[Table, Scaling | None]:
        """Return the whole table, and the scaling that a named dataset has of its own."""
        if self.is_named:
            dataset = load_dataset(self.data, data_dir=self.data_dir, download=self.download)
            return dataset.table, dataset.scaling
        if not os.path.lexists(self.data) and not Path(self.data).suffix and os.sep not in self.data:
            raise SourceError(
                f"Expected a data file or the name of a dataset, got {shown(self.data)}, which is neither."
                " 'certiforest datasets' lists the names."
            )
        if None not in (self.first_index, first_index) and self.first_index != first_index:
            raise SourceError(
                f"Expected {setting('first_index')} to be {first_index}, as in the file that the model learned, got"
                f" {self.first_index}."
            )
        return read_table(
            self.data,
            self.target,
            drop=self.drop,
            kind=self.kind,
            header=self.header,
            n_features=n_features,
            first_index=first_index if self.first_index is None else self.first_index,
            missing=missing,
        ), None

    def load(self, ensemble: TreeEnsemble, part: str | None) -> Sample:
        """Return the rows that a model is to be certified on, in its units.

        Raises
        ------
        SplitError
            If only some of the rows are asked for, and the table is not the one that the model was trained on.
        """
        if part is not None:
            check_part(part)
        part = part or ("test" if self.is_named else "all")
        record = TrainingRecord.read(ensemble.training)
        first_index = None if record is None else record.first_index
        table, own_scaling = self.open(ensemble.n_features, first_index, missing=ensemble.missing_left is not None)
        table = table.with_features(ensemble.feature_names, ensemble.n_features)
        if part != "all" and record is not None:
            record.check(table, part)
        row_numbers = rows_of_part(table, part)
        # A model without a scaling, of a dataset that has one, was trained on rows scaled as documented.
        scaling = ensemble.scaling or own_scaling
        rows = table.take(row_numbers)
        return Sample(
            rows.X if scaling is None else scaling.apply(rows.X),
            rows.y,
            ensemble.feature_names or table.feature_names,
            row_numbers,
            self.data,
            part,
            scaling,
            dataset_info(self.data).image_shape if self.is_named else None,
            is_checked=part == "all" or record is not None or self.is_named,
            n_left_out=len(table.X) - len(row_numbers),
        )


def find_features(wanted: Sequence[str] | None, names: Sequence[str] | None, n_features: int) -> list[int] | None:
    """Return the indices of features given by name or index; None if none are."""
    if not wanted:
        return None
    place = {} if names is None else {name: index for index, name in enumerate(names)}
    found = []
    for feature in wanted:
        if feature in place:
            found.append(place[feature])
        elif feature.isascii() and feature.isdecimal() and len(feature) < 10 and int(feature) < n_features:
            found.append(int(feature))
        else:
            how = "one of the model's columns" if names is not None else f"an index from 0 to {n_features - 1}"
            raise SourceError(f"Expected {setting('frozen')} to be {how}, got {shown(feature)}.")
    return found

"""Sources: a file or the name of a dataset, and how to read it, turned into rows as a model sees them."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from glob import glob, has_magic
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from certiforest.data.cells import TableError, as_labels, text_codes
from certiforest.data.datasets import dataset_info, is_dataset, load_dataset
from certiforest.data.readers import count_rows, read_blocks, read_table
from certiforest.data.split import TrainingRecord, check_part, rows_of_part
from certiforest.data.tables import Table
from certiforest.ensemble import TreeEnsemble
from certiforest.ensemble.blocks import block_rows
from certiforest.ensemble.scaling import Scaling
from certiforest.words import setting, shown


@dataclass(frozen=True, kw_only=True)
class InputRows(Table):
    """Rows as a model takes them, scaled as it wants them, and where they come from."""

    row_numbers: NDArray[np.int64]  # which rows of the files they are, counted from 0
    part: str = "all"  # of the rows of the files
    scaling: Scaling | None = None
    image_shape: tuple[int, int] | None = None
    is_checked: bool = True  # whether the part is known to be the one that the model did, or did not, learn
    n_left_out: int = 0  # rows of the other part
    digests: dict[str, str] = field(default_factory=dict)  # SHA-256 of files that were read through, by path

    def take(self, rows: NDArray[np.int64] | NDArray[np.bool_] | slice) -> Self:
        """Return some of the rows."""
        return replace(super().take(rows), row_numbers=self.row_numbers[rows])

    @classmethod
    def concat(cls, parts: Sequence[Self]) -> Self:
        """Put rows that come from one place below each other."""
        return replace(super().concat(parts), row_numbers=np.concatenate([part.row_numbers for part in parts]))

    def origin(self, model: str) -> dict[str, Any]:
        """Return where a model and these rows come from: files with their digests, and how many rows are left out."""
        origin: dict[str, Any] = {}
        for name, path in (("model_file", model), ("data_file", self.source)):
            origin[name] = Path(path).name
            if path in self.digests:
                origin[f"{name}_sha256"] = self.digests[path]
            elif Path(path).is_file():
                with open(path, "rb") as file:
                    origin[f"{name}_sha256"] = hashlib.file_digest(file, "sha256").hexdigest()
        return {**origin, "rows_left_out": self.n_left_out}

    def names_for_report(self, model: str) -> dict[str, Any]:
        """Return what a report calls a model, these rows and their features."""
        return {
            "model": Path(model).name,
            "data": Path(self.source).name + (f" ({self.part} part)" if self.part != "all" else ""),
            "feature_names": self.feature_names,
            "row_numbers": self.row_numbers,
            "scaling": self.scaling,
            "image_shape": self.image_shape,
        }


class Block(NamedTuple):
    """Rows of one file, which are read when asked for; a block that is not, before the next one comes, is passed over.

    ``read`` takes how many rows come before the block, in all files and in its own.
    """

    path: str
    read: Callable[[int, int], InputRows]


class Stream:
    """Rows as a model takes them, block by block: only one block has to be in memory besides the first.

    ``n_rows`` is None where it is not known before they are read. The first block is read at once, and never again.
    """

    def __init__(self, source: Source, n_rows: int | None, blocks: Iterator[Block]) -> None:
        block = next(blocks, None)
        first = None if block is None else block.read(0, 0)
        if block is None or first is None or not len(first):
            raise TableError(f"Expected rows, got none in {source.files[0]}.")
        self.source, self.files, self.n_rows, self.first = source, source.files, n_rows, first
        self.blocks = chain([block._replace(read=lambda *_: first)], blocks)


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
    labels: Mapping[str, str] = field(default_factory=dict)  # what is read for a label that has this text
    digests: dict[str, str] = field(default_factory=dict)

    @property
    def is_named(self) -> bool:
        """Whether this is the name of a dataset; a file of that name comes first."""
        return not os.path.lexists(self.data) and is_dataset(self.data)

    def open(self, ensemble: TreeEnsemble | None = None) -> tuple[Table, Scaling | None]:
        """Return the whole table, as a model takes it if there is one, and the scaling that a named dataset has."""
        if self.is_named:
            dataset = load_dataset(self.data, data_dir=self.data_dir, download=self.download)
            table = dataset.table
            if ensemble is not None:
                table = table.with_features(ensemble.feature_names, ensemble.n_features)
            return self._with_labels(table), dataset.scaling
        path, *others = self.files
        if others:
            raise TableError(f"Expected one file, got {len(others) + 1} that match {shown(self.data)}.")
        return self._with_labels(read_table(path, self.target, **self._reading(ensemble))), None

    def _with_labels(self, table: Table, classes: NDArray | None = None) -> Table:
        """Return a table whose labels are read as `labels` says; those that are not named stay."""
        if table.y is None or not self.labels:
            return table
        texts = list(map(str, as_labels(table.y, self.data).tolist()))
        return replace(table, y=as_labels([self.labels.get(text, text) for text in texts], self.data, classes=classes))

    def _reading(self, ensemble: TreeEnsemble | None) -> dict[str, Any]:
        """Return how to read files, for a model or to learn from them."""
        how = {"drop": tuple(self.drop), "kind": self.kind, "header": self.header, "digests": self.digests}
        if ensemble is None:
            return {**how, "first_index": self.first_index, "missing": True}
        record, first_index = TrainingRecord.read(ensemble.training), self.first_index
        learned = None if record is None else record.first_index
        if None not in (first_index, learned) and first_index != learned:
            raise TableError(
                f"Expected {setting('first_index')} to be {learned}, as in the file that the model learned, got"
                f" {first_index}."
            )
        return {
            **how,
            "first_index": learned if first_index is None else first_index,
            "n_features": ensemble.n_features,
            "feature_names": ensemble.feature_names,
            "missing": ensemble.missing_left is not None,
            "codes": text_codes(ensemble),
        }

    @cached_property
    def files(self) -> tuple[str, ...]:
        """The files that are meant: one, or all that match a pattern such as ``rows-*.parquet``, sorted."""
        if os.path.lexists(self.data) or self.is_named:
            return (self.data,)
        if not has_magic(self.data):
            if Path(self.data).suffix or os.sep in self.data:
                return (self.data,)
            raise TableError(
                f"Expected a data file or the name of a dataset, got {shown(self.data)}, which is neither."
                " 'certiforest datasets' lists the names."
            )
        found = tuple(sorted(path for path in glob(self.data, recursive=True) if os.path.isfile(path)))
        if not found:
            raise TableError(f"Expected files that match {shown(self.data)}, got none.")
        return found

    def stream(self, ensemble: TreeEnsemble, part: str | None) -> Stream:
        """Return the rows that a model is to be certified on, block by block.

        A named dataset, and a part of a file, which takes the whole file to find, are in memory as a whole.
        """
        files = self.files
        if self.is_named or part not in (None, "all"):
            if len(files) > 1:
                raise TableError(f"Expected one file with {setting('part')}, got {len(files)} files.")
            rows = self.load(ensemble, part)
            cuts = range(0, len(rows), block_rows(rows.X.shape[1]))
            pieces = (rows.take(slice(start, start + cuts.step)) for start in cuts)
            return Stream(self, len(rows), (Block(self.data, lambda *_, piece=piece: piece) for piece in pieces))
        reading = self._reading(ensemble)

        def read_rows(read: Callable[[int], Table], start: int, start_in_file: int) -> InputRows:
            table = self._with_labels(read(start_in_file), ensemble.classes)
            return self._rows(table, ensemble, ensemble.scaling, np.arange(start, start + len(table)))

        blocks = (
            Block(path, partial(read_rows, read))
            for path in files
            for read in read_blocks(path, self.target, classes=None if self.labels else ensemble.classes, **reading)
        )
        sizes = [count_rows(path, self.kind) for path in files]
        return Stream(self, None if None in sizes else sum(filter(None, sizes)), blocks)

    def load(self, ensemble: TreeEnsemble, part: str | None) -> InputRows:
        """Return the rows that a model is to be certified on."""
        if part is not None:
            check_part(part)
        part = part or ("test" if self.is_named else "all")
        table, own_scaling = self.open(ensemble)
        record = TrainingRecord.read(ensemble.training)
        if part != "all" and record is not None:
            record.check(table, part)
        row_numbers = rows_of_part(table, part, has_classes=not ensemble.is_regressor)
        # A model without a scaling, of a dataset that has one, was trained on rows scaled as documented.
        rows = self._rows(table.take(row_numbers), ensemble, ensemble.scaling or own_scaling, row_numbers)
        return replace(
            rows,
            part=part,
            image_shape=dataset_info(self.data).image_shape if self.is_named else None,
            is_checked=part == "all" or record is not None or self.is_named,
            n_left_out=len(table) - len(row_numbers),
        )

    def _rows(
        self, table: Table, ensemble: TreeEnsemble, scaling: Scaling | None, row_numbers: NDArray[np.int64]
    ) -> InputRows:
        return InputRows(
            table.X if scaling is None else scaling.apply(table.X),
            table.y,
            ensemble.feature_names or table.feature_names,
            self.data,
            texts=table.texts,
            row_numbers=row_numbers,
            scaling=scaling,
            digests=self.digests,
        )


def find_features(
    wanted: Sequence[str] | None, names: Sequence[str] | None, n_features: int, option: str = "frozen"
) -> list[int] | None:
    """Return the indices of features given by name or index; None if none are."""
    if not wanted:
        return None
    place = {name: index for index, name in enumerate(names or ())}
    found = []
    for feature in wanted:
        if feature in place:
            found.append(place[feature])
        elif feature.isascii() and feature.isdecimal() and len(feature) < 10 and int(feature) < n_features:
            found.append(int(feature))
        else:
            how = "one of the model's columns" if names is not None else f"an index from 0 to {n_features - 1}"
            raise TableError(f"Expected {setting(option)} to be {how}, got {shown(feature)}.")
    return found

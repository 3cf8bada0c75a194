"""Sources: a file or the name of a dataset, and how to read it, turned into rows as a model sees them."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from glob import glob, has_magic
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from certiforest.data.datasets import dataset_info, is_dataset, load_dataset
from certiforest.data.readers import count_rows, read_block, read_blocks, read_table
from certiforest.data.split import TrainingRecord, check_part, rows_of_part
from certiforest.data.tables import ReadBlock, Table
from certiforest.data.text_columns import TextColumns
from certiforest.ensemble import TreeEnsemble
from certiforest.ensemble.blocks import block_rows
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
    texts: dict[int, NDArray] = field(default_factory=dict)  # by feature that was text in the file, what it was
    digests: dict[str, str] = field(default_factory=dict)  # SHA-256 of files that were read through, by path

    def take(self, rows: NDArray[np.int64] | NDArray[np.bool_] | slice) -> Sample:
        """Return some of the rows."""
        y = None if self.y is None else self.y[rows]
        texts = {f: own[rows] for f, own in self.texts.items()}
        return replace(self, X=self.X[rows], y=y, row_numbers=self.row_numbers[rows], texts=texts)

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
            "feature_names": self.names,
            "row_numbers": self.row_numbers,
            "scaling": self.scaling,
            "image_shape": self.image_shape,
        }


@dataclass(frozen=True)
class Stream:
    """Rows as a model sees them, block by block: only one block has to be in memory besides the first.

    Attributes
    ----------
    files : tuple of str
        Where the rows come from; a name alone if that is a dataset.
    n_rows : int or None
        How many there are, if that is known before they are read.
    blocks : iterator of Block
        All rows, once.
    first : Sample
        The rows of the first block.
    """

    files: tuple[str, ...]
    n_rows: int | None
    blocks: Iterator[Block]
    first: Sample

    @classmethod
    def of(cls, files: tuple[str, ...], n_rows: int | None, blocks: Iterator[Block]) -> Stream:
        """Read the first block, which is not read again."""
        block = next(blocks, None)
        first = None if block is None else block.read(0, 0)
        if block is None or first is None or not len(first.X):
            raise SourceError(f"Expected rows, got none in {files[0]}.")
        return cls(files, n_rows, chain([block._replace(read=lambda *_: first)], blocks), first)


class Block(NamedTuple):
    """Rows of one file, which are read when asked for; a block that is not, before the next one comes, is passed over.

    ``read`` takes how many rows come before the block, in all files and in its own.
    """

    path: str
    read: Callable[[int, int], Sample]


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
            return table, dataset.scaling
        path, *others = self.files
        if others:
            raise SourceError(f"Expected one file, got {len(others) + 1} that match {shown(self.data)}.")
        return read_table(path, self.target, **self._reading(ensemble)), None

    def _reading(self, ensemble: TreeEnsemble | None) -> dict[str, Any]:
        """Return how to read files, for a model or to learn from them."""
        how = {"drop": tuple(self.drop), "kind": self.kind, "header": self.header, "digests": self.digests}
        if ensemble is None:
            return {**how, "first_index": self.first_index, "missing": True}
        record, first_index = TrainingRecord.read(ensemble.training), self.first_index
        learned = None if record is None else record.first_index
        if None not in (first_index, learned) and first_index != learned:
            raise SourceError(
                f"Expected {setting('first_index')} to be {learned}, as in the file that the model learned, got"
                f" {first_index}."
            )
        return {
            **how,
            "first_index": learned if first_index is None else first_index,
            "n_features": ensemble.n_features,
            "feature_names": ensemble.feature_names,
            "missing": ensemble.missing_left is not None,
            "texts": TextColumns.of(ensemble),
        }

    @property
    def files(self) -> tuple[str, ...]:
        """The files that are meant: one, or all that match a pattern such as ``rows-*.parquet``, sorted."""
        if os.path.lexists(self.data) or self.is_named:
            return (self.data,)
        if not has_magic(self.data):
            if Path(self.data).suffix or os.sep in self.data:
                return (self.data,)
            raise SourceError(
                f"Expected a data file or the name of a dataset, got {shown(self.data)}, which is neither."
                " 'certiforest datasets' lists the names."
            )
        found = tuple(sorted(path for path in glob(self.data, recursive=True) if os.path.isfile(path)))
        if not found:
            raise SourceError(f"Expected files that match {shown(self.data)}, got none.")
        return found

    def stream(self, ensemble: TreeEnsemble, part: str | None) -> Stream:
        """Return the rows that a model is to be certified on, block by block, in its units.

        A named dataset, and a part of a file, which takes the whole file to find, are in memory as a whole.
        """
        files = self.files
        if self.is_named or part not in (None, "all"):
            if len(files) > 1:
                raise SourceError(f"Expected one file with {setting('part')}, got {len(files)} files.")
            return whole(self.load(ensemble, part))
        reading = self._reading(ensemble)

        def blocks() -> Iterator[Block]:
            for path in files:
                for read in read_blocks(path, self.target, **reading):
                    yield Block(path, partial(read_sample, read))

        def read_sample(read: ReadBlock, start: int, start_in_file: int) -> Sample:
            table = read_block(read, start_in_file, ensemble.classes, missing=reading["missing"])
            X = table.X if ensemble.scaling is None else ensemble.scaling.apply(table.X)
            numbers = np.arange(start, start + len(table))
            names = ensemble.feature_names or table.feature_names
            sample = Sample(X, table.y, names, numbers, self.data, "all", ensemble.scaling, None, texts=table.texts)
            return replace(sample, digests=self.digests)

        sizes = [count_rows(path, self.kind) for path in files]
        n_rows = None if None in sizes else sum(size for size in sizes if size is not None)
        return Stream.of(files, n_rows, blocks())

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
        table, own_scaling = self.open(ensemble)
        record = TrainingRecord.read(ensemble.training)
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
            texts=rows.texts,
            digests=self.digests,
        )


def whole(rows: Sample) -> Stream:
    """Return rows in memory as blocks."""
    size = block_rows(rows.X.shape[1])

    def blocks() -> Iterator[Block]:
        for start in range(0, len(rows.X), size):
            yield Block(rows.source, lambda *_, start=start: rows.take(slice(start, start + size)))

    return Stream.of((rows.source,), len(rows.X), blocks())


def find_features(
    wanted: Sequence[str] | None, names: Sequence[str] | None, n_features: int, option: str = "frozen"
) -> list[int] | None:
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
            raise SourceError(f"Expected {setting(option)} to be {how}, got {shown(feature)}.")
    return found

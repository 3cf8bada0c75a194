"""Table: finite float64 rows, labels and column names, from whatever file they come.

What cannot be read exactly so is refused with the column and row at fault: nothing is guessed, imputed, rounded or
encoded, but for text that is a category of a model. Here is what all kinds of files share: what is asked of a file,
which of its columns are features, and which is the label.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from certiforest.data.cells import TableError
from certiforest.ensemble.categories import Codes
from certiforest.words import listed, setting, shown

MOST_EMPTY_CELLS, CELLS_A_BYTE = 2**25, 100  # of a table in memory, and of a file that fills it


@dataclass(frozen=True)
class Table:
    """Rows from a file.

    Attributes
    ----------
    X : ndarray of float64, shape (n, n_features)
        Finite numbers, in the units of the file.
    y : ndarray, shape (n,), or None
        Labels: integers if all are whole numbers, else strings. Of a block, what the file has.
    feature_names : tuple of str, or None
        Names of the columns of ``X``, if the file has names.
    source : str
        Where the rows come from, for messages.
    target_name : str or None
        Name of the label column, if it has one.
    first_index : {0, 1} or None
        Which number the first column has in a LIBSVM file.
    texts : dict of int to ndarray of str
        By column of ``X`` that was text in the file, what it was.
    """

    X: NDArray[np.float64]
    y: Any
    feature_names: tuple[str, ...] | None
    source: str
    target_name: str | None = None
    first_index: int | None = None
    texts: dict[int, NDArray] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.X)

    def take(self, rows: NDArray[np.int64] | NDArray[np.bool_] | slice) -> Self:
        """Return some of the rows."""
        texts = {f: text[rows] for f, text in self.texts.items()}
        return replace(self, X=self.X[rows], y=None if self.y is None else self.y[rows], texts=texts)

    @classmethod
    def concat(cls, parts: Sequence[Self]) -> Self:
        """Put tables with the same columns below each other."""
        first = parts[0]
        if len(parts) == 1:
            return first
        y = None if any(part.y is None for part in parts) else np.concatenate([part.y for part in parts])
        common = [f for f in first.texts if all(f in part.texts for part in parts)]
        texts = {f: np.concatenate([part.texts[f] for part in parts]) for f in common}
        return replace(first, X=np.concatenate([part.X for part in parts]), y=y, texts=texts)

    def with_features(self, names: Sequence[str] | None, n_features: int) -> Table:
        """Return the table with the columns a model was trained on, in its order.

        Names are compared where both sides have them, else only their number.
        """
        if names is None or self.feature_names is None:
            if self.X.shape[1] != n_features:
                more = f" Name the label by {setting('target')} and leave others out by {setting('drop')}."
                raise TableError(
                    f"Expected {n_features} feature columns, as the model was trained on, got"
                    f" {self.X.shape[1]} in {self.source}." + (more if self.X.shape[1] > n_features else "")
                )
            return self
        if tuple(names) == self.feature_names:
            return self
        place = {name: index for index, name in enumerate(self.feature_names)}
        missing = [name for name in names if name not in place]
        if missing:
            raise TableError(
                f"Expected the columns the model was trained on, got no {listed(missing)} in {self.source}."
                " Add what is missing, or train a model without it."
            )
        wanted = set(names)
        extra = [name for name in self.feature_names if name not in wanted]
        if extra:
            raise TableError(
                f"Expected the {len(names)} columns the model was trained on, got {listed(extra)} as well in"
                f" {self.source}. If it is the label, say {setting('target', extra[0])}; leave out what is no feature"
                f" by {setting('drop', extra[0])}."
            )
        order = [place[name] for name in names]
        texts = {f: self.texts[column] for f, column in enumerate(order) if column in self.texts}
        return replace(self, X=self.X[:, order], feature_names=tuple(names), texts=texts)


@dataclass(frozen=True)
class Request:
    """What is asked of a file."""

    path: str | os.PathLike[str]
    target: str | int | None  # column of the label: name or index, -1 the last; an array of npz files, "y" if None
    block_rows: int  # rows of a block, but for the last one
    drop: Sequence[str | int] = ()  # columns to leave out
    header: bool | None = None  # whether a CSV file starts with names; None: if no cell of its first line is a number
    n_features: int | None = None  # has to be that of the file; rows of LIBSVM files leave out zeros
    feature_names: tuple[str, ...] | None = None  # features come in this order; the file may have another
    # Which number the first column has in a LIBSVM file, 0 or 1. If not given, it is 0 where that number occurs, else
    # 1, unless n_features leaves both possible, which is refused.
    first_index: int | None = None
    missing: bool = False  # whether NaN, and in CSV files empty cells and NA, are taken for NaN instead of refused
    codes: Mapping[int, Codes] = field(default_factory=dict)  # by feature that may be text, the number of each text
    classes: NDArray | None = None  # labels that a model knows; those of a block would be such as these
    is_whole: bool = False  # whether all blocks are to be in memory at once
    digests: dict[str, str] = field(default_factory=dict)  # takes the SHA-256, by path, of files read to the end


#: Reads one block of a file: its rows, in the order of the file's columns, and its labels as the file has them.
ReadBlock = Callable[[], Table]


@dataclass(frozen=True)
class Columns:
    """Which columns of a file are features, which is the label, and how the text in features, by place, is numbered."""

    features: Sequence[int]
    target: int | None = None
    names: tuple[str, ...] | None = None
    codes: Mapping[int, Codes] = field(default_factory=dict)

    def table(self, X: NDArray[np.float64], y: Any, request: Request, texts: dict[int, NDArray] | None = None) -> Table:
        """Return rows of these columns."""
        names = None if self.names is None else tuple(self.names[index] for index in self.features)
        target_name = None if self.names is None or self.target is None else self.names[self.target]
        return Table(X, y, names, str(request.path), target_name, texts=texts or {})

    def in_message(self, index: int) -> str:
        """Return what a message calls a column of the file."""
        return f"column {index}" if self.names is None else f"column {shown(self.names[index])}"

    def as_option(self, index: int) -> str:
        """Return what an option such as ``drop`` calls a column: its name, or its index in a file without names."""
        return str(index) if self.names is None else self.names[index]


def choose_columns(request: Request, names: tuple[str, ...] | None, n_columns: int) -> Columns:
    """Find label and features among the columns of a file."""
    if names is not None and len(set(names)) < len(names):
        twice = Counter(names).most_common(1)[0][0]
        raise TableError(f"Expected every column name once, got {shown(twice)} twice in {request.path}.")
    place = {name: index for index, name in enumerate(names or ())}
    target = None if request.target is None else _find(request.target, "target", place, n_columns, request.path)
    dropped = {_find(column, "drop", place, n_columns, request.path) for column in request.drop}
    features = [index for index in range(n_columns) if index != target and index not in dropped]
    if not features:
        raise TableError(f"Expected at least one feature column beside the label, got none in {request.path}.")
    codes = request.codes
    if names is not None and request.feature_names is not None:
        order = {names[index]: place for place, index in enumerate(features)}
        codes = {order[name]: text for f, text in codes.items() if (name := request.feature_names[f]) in order}
    return Columns(features, target, names, codes)


def check_shape(request: Request, n_rows: int, wanted: Columns) -> None:
    """Compare what a file says of itself with what a model takes, and with its size, before it is read."""
    n_features = len(wanted.features)
    if request.n_features is not None:
        wanted.table(np.empty((0, n_features)), None, request).with_features(request.feature_names, request.n_features)
    n_cells, n_bytes = n_rows * n_features, os.path.getsize(request.path)
    if request.is_whole and n_cells > max(MOST_EMPTY_CELLS, CELLS_A_BYTE * n_bytes):
        raise TableError(
            f"Expected a table that fits into memory, got {n_rows:,} rows of {n_features:,} columns, nearly all cells"
            f" zero or alike, in {n_bytes:,} bytes of {request.path}. Leave out rows or columns that tell nothing."
        )


def _find(column: str | int, parameter: str, place: dict[str, int], n: int, path: Any) -> int:
    if str(column) in place:
        return place[str(column)]
    try:
        index = int(column)
    except ValueError:
        has = f"the columns {listed(list(place))}" if place else f"{n} columns without names"
        how = "a column of the file" if place else f"an index from 0 to {n - 1} (or -1 for the last)"
        raise TableError(f"Expected {setting(parameter)} to be {how}, got {shown(column)}; {path} has {has}.") from None
    if not -n <= index < n:
        raise TableError(
            f"Expected {setting(parameter)} between {-n} and {n - 1}, got {shown(index)}; {path} has {n} columns."
        )
    return index % n

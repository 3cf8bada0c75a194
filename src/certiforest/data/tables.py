"""Tables of rows and labels from files: CSV, Parquet, npz and LIBSVM.

A file becomes a `Table`: finite float64 rows, labels, column names where the file has them. What cannot be
read exactly so is refused with the column and row at fault. A CSV file has a header iff no cell of its
first line is a number; ``header`` settles it where that guess is wrong.
"""

from __future__ import annotations

import csv
import io
import os
import shlex
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

DELIMITERS = ",;\t"
SUFFIXES = {
    ".csv": "csv",
    ".tsv": "csv",
    ".txt": "csv",
    ".data": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".npz": "npz",
    ".libsvm": "libsvm",
    ".svm": "libsvm",
    ".svmlight": "libsvm",
}


class TableError(ValueError):
    """A data file, or what is asked of it, is not what it should be."""


@dataclass(frozen=True)
class Table:
    """Rows from a file.

    Attributes
    ----------
    X : ndarray of float64, shape (n, n_features)
        Finite numbers, in the units of the file.
    y : ndarray, shape (n,), or None
        Labels: integers if all are whole numbers, else strings.
    feature_names : tuple of str, or None
        Names of the columns of ``X``, if the file has names.
    source : str
        Where the rows come from, for messages.
    """

    X: NDArray[np.float64]
    y: NDArray | None
    feature_names: tuple[str, ...] | None
    source: str

    def __len__(self) -> int:
        return len(self.X)

    def take(self, rows: NDArray[np.int64]) -> Table:
        """Return some of the rows."""
        return replace(self, X=self.X[rows], y=None if self.y is None else self.y[rows])

    def with_features(self, names: Sequence[str] | None, n_features: int) -> Table:
        """Return the table with the columns a model was trained on, in its order.

        Names are compared where both sides have them, else only their number.

        Raises
        ------
        TableError
            If columns are missing or left over.
        """
        if names is None or self.feature_names is None:
            if self.X.shape[1] != n_features:
                more = self.X.shape[1] > n_features
                raise TableError(
                    f"Expected {n_features} feature columns, as the model was trained on, got"
                    f" {self.X.shape[1]} in {self.source}."
                    + (" Name the label by --target and leave others out by --drop." if more else "")
                )
            return self
        missing = [name for name in names if name not in self.feature_names]
        if missing:
            raise TableError(
                f"Expected the columns the model was trained on, got no {_listed(missing)} in {self.source}."
                " Add what is missing, or train a model without it."
            )
        extra = [name for name in self.feature_names if name not in set(names)]
        if extra:
            raise TableError(
                f"Expected the {len(names)} columns the model was trained on, got {_listed(extra)} as well in"
                f" {self.source}. If it is the label, say --target {extra[0]!r}; leave out what is no feature by"
                f" --drop {extra[0]!r}."
            )
        place = {name: index for index, name in enumerate(self.feature_names)}
        return replace(self, X=self.X[:, [place[name] for name in names]], feature_names=tuple(names))


def read_table(
    path: str | os.PathLike[str],
    target: str | int | None = None,
    *,
    drop: Sequence[str | int] = (),
    kind: str | None = None,
    header: bool | None = None,
    n_features: int | None = None,
) -> Table:
    """Read rows and labels from a file.

    Parameters
    ----------
    path : str or path
        The file.
    target : str or int, optional
        Label column: its name, or its index (-1 is the last). For npz files the name of the label array,
        ``"y"`` if not given. LIBSVM files hold their labels and take none.
    drop : sequence of str or int
        Columns to leave out.
    kind : {"csv", "parquet", "npz", "libsvm"}, optional
        Told by the file's suffix if not given.
    header : bool, optional
        Whether the first line of a CSV file holds names; guessed if not given.
    n_features : int, optional
        Number of features of a LIBSVM file, whose rows leave out zeros.

    Raises
    ------
    TableError
        If the file or a column is missing, or holds anything but finite numbers.
    """
    path = Path(path)
    _check_file(path)
    kind = kind or SUFFIXES.get(path.suffix.lower())
    if kind not in READERS:
        raise TableError(
            f"Expected a file that ends in {', '.join(SUFFIXES)}, got {path}."
            f" Say what it holds by --format {'|'.join(READERS)}."
        )
    table = READERS[kind](path, _Request(target, tuple(drop), header, n_features))
    if len(table) == 0:
        raise TableError(f"Expected rows, got none in {path}.")
    _check_finite(table)
    return table


@dataclass(frozen=True)
class _Request:
    """What is asked of a file."""

    target: str | int | None
    drop: tuple[str | int, ...]
    header: bool | None
    n_features: int | None


def _check_file(path: Path) -> None:
    if path.is_dir():
        raise TableError(f"Expected a data file, got the directory {str(path)!r}.")
    if not path.exists():
        raise TableError(f"Expected a data file, got {path}, which does not exist.")
    if path.stat().st_size == 0:
        raise TableError(f"Expected rows, got the empty file {path}.")


def _read_csv(path: Path, request: _Request) -> Table:
    text = _read_text(path)
    first = text[: text.find("\n") if "\n" in text else None]
    delimiter = max(DELIMITERS, key=first.count)
    cells = next(csv.reader([first.strip("\r")], delimiter=delimiter))
    has_header = not any(map(_is_number, cells)) if request.header is None else request.header
    names = tuple(cell.strip() for cell in cells) if has_header else None
    wanted = _choose_columns(request, names, len(cells), path)
    options: dict[str, Any] = {
        "delimiter": delimiter,
        "skiprows": int(has_header),
        "comments": None,
        "quotechar": '"',
    }
    if not text[len(first) :].strip() and has_header:
        raise TableError(f"Expected rows below the header, got none in {path}.")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # about blank lines, which hold no row
            X = np.loadtxt(io.StringIO(text), dtype=np.float64, usecols=wanted.features, ndmin=2, **options)
            y = None
            if wanted.target is not None:
                y = np.loadtxt(io.StringIO(text), dtype=str, usecols=wanted.target, ndmin=1, **options)
    except (ValueError, IndexError) as error:
        # The fast reader does not say which cell; look at each until one is at fault.
        raise _find_fault(text, delimiter, has_header, wanted, path) or TableError(
            f"Expected a table in {path}, got something else ({error})."
        ) from None
    return Table(X, None if y is None else _as_labels(y, path), wanted.names_of_features, str(path))


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise TableError(
            f"Expected text in {path}, got bytes that are not UTF-8. Is it a CSV file? Else use --format."
        ) from None
    except OSError as error:
        raise TableError(f"Expected a readable file, got {path} ({error.strerror}).") from None


@dataclass(frozen=True)
class _Columns:
    """Which columns of a file are features and which is the label."""

    features: list[int]
    target: int | None
    names: tuple[str, ...] | None

    @property
    def names_of_features(self) -> tuple[str, ...] | None:
        return None if self.names is None else tuple(self.names[index] for index in self.features)

    def shown(self, index: int) -> str:
        return f"column {index}" if self.names is None else f"column {self.names[index]!r}"


def _choose_columns(request: _Request, names: tuple[str, ...] | None, n: int, path: Path) -> _Columns:
    target = None if request.target is None else _find_column(request.target, names, n, path, "--target")
    dropped = {_find_column(column, names, n, path, "--drop") for column in request.drop}
    features = [index for index in range(n) if index != target and index not in dropped]
    if not features:
        raise TableError(f"Expected at least one feature column beside the label, got none in {path}.")
    if names is not None and len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise TableError(f"Expected every column name once, got {twice!r} twice in {path}.")
    return _Columns(features, target, names)


def _find_column(column: str | int, names: tuple[str, ...] | None, n: int, path: Path, option: str) -> int:
    if names is not None and column in names:
        return names.index(str(column))
    try:
        index = int(column)
    except ValueError:
        has = f"the columns {_listed(names)}" if names is not None else f"{n} columns without names"
        how = "a column of the file" if names is not None else f"an index from 0 to {n - 1} (or -1 for the last)"
        raise TableError(f"Expected {option} to be {how}, got {column!r}; {path} has {has}.") from None
    if not -n <= index < n:
        raise TableError(f"Expected {option} between {-n} and {n - 1}, got {index}; {path} has {n} columns.")
    return index % n


def _find_fault(text: str, delimiter: str, has_header: bool, wanted: _Columns, path: Path) -> TableError | None:
    lines = csv.reader(io.StringIO(text), delimiter=delimiter)
    if has_header:
        next(lines)
    n_cells = None
    for cells in lines:
        if not cells:
            continue
        n_cells = len(cells) if n_cells is None else n_cells
        if len(cells) != n_cells:
            return TableError(
                f"Expected {n_cells} columns per line, got {len(cells)} in line {lines.line_num} of {path}."
            )
        for index in wanted.features:
            if not _is_number(cells[index]):
                where = f"line {lines.line_num}, {wanted.shown(index)} of {path}"
                if cells[index].strip() in ("", "?"):
                    return TableError(
                        f"Expected a number, got a missing value in {where}. Remove or fill such rows first."
                    )
                name = index if wanted.names is None else wanted.names[index]
                return TableError(
                    f"Expected a number, got {cells[index]!r} in {where}. Encode text as numbers, leave the"
                    f" column out by --drop {shlex.quote(str(name))}, or name it by --target if it is the label."
                )
    return None


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell  # float("1_000") is Python's own habit


def _read_parquet(path: Path, request: _Request) -> Table:
    frame = _open_parquet(path)
    names = tuple(map(str, frame.columns))
    wanted = _choose_columns(request, names, len(names), path)
    X = np.empty((len(frame), len(wanted.features)))
    for place, index in enumerate(wanted.features):
        column = frame[frame.columns[index]].to_numpy()
        try:
            X[:, place] = column if column.dtype.kind in "biuf" else _refuse(column)
        except (TypeError, ValueError):
            raise TableError(
                f"Expected numbers, got {column.dtype} in {wanted.shown(index)} of {path}."
                f" Encode it as numbers, or leave it out by --drop {shlex.quote(names[index])}."
            ) from None
    y = None
    if wanted.target is not None:
        y = _as_labels(frame[frame.columns[wanted.target]].to_numpy(), path)
    return Table(X, y, wanted.names_of_features, str(path))


def _refuse(column: NDArray) -> NDArray:
    raise TypeError(column.dtype)


def _open_parquet(path: Path) -> Any:
    try:
        import polars
    except ImportError:
        try:
            import pandas
            import pyarrow  # noqa: F401
        except ImportError:
            raise TableError(
                f"Expected a reader for {path}, got none: pip install polars, or save it as CSV or npz."
            ) from None
        read: Callable[[Path], Any] = pandas.read_parquet
    else:
        read = polars.read_parquet
    try:
        return read(path)
    except Exception as error:  # readers raise errors of their own kinds
        raise TableError(f"Expected a Parquet file, got {path} ({str(error).splitlines()[0]}).") from None


def _read_npz(path: Path, request: _Request) -> Table:
    label = "y" if request.target is None else str(request.target)
    try:
        with np.load(path, allow_pickle=False) as arrays:
            if not hasattr(arrays, "files"):
                raise TableError(f"Expected an npz file with an array 'X', got the single array {path}.")
            if "X" not in arrays:
                raise TableError(f"Expected an array 'X' of rows, got {_listed(arrays.files)} in {path}.")
            if label not in arrays and request.target is not None:
                raise TableError(f"Expected --target among {_listed(arrays.files)}, got {label!r} for {path}.")
            X, y = arrays["X"], arrays.get(label)
            names = tuple(map(str, arrays["feature_names"])) if "feature_names" in arrays else None
    except TableError:
        raise
    except Exception as error:  # zip, format and pickle errors, each of another kind
        raise TableError(f"Expected an npz file without pickled objects, got {path} ({error}).") from None
    if X.ndim != 2 or X.dtype.kind not in "biuf" or 0 in X.shape:
        raise TableError(f"Expected X as a table of numbers, got shape {X.shape} of {X.dtype} in {path}.")
    if y is not None and y.shape != X.shape[:1]:
        raise TableError(f"Expected one label per row, {len(X)} in all, got shape {y.shape} in {path}.")
    if names is not None and len(names) != X.shape[1]:
        raise TableError(f"Expected {X.shape[1]} feature names, got {len(names)} in {path}.")
    wanted = _choose_columns(replace(request, target=None), names, X.shape[1], path)
    X = X[:, wanted.features].astype(np.float64)
    return Table(X, None if y is None else _as_labels(y, path), wanted.names_of_features, str(path))


def _read_libsvm(path: Path, request: _Request) -> Table:
    from sklearn.datasets import load_svmlight_file

    if request.target is not None or request.drop:
        raise TableError(f"Expected no --target and no --drop for the LIBSVM file {path}: its lines start with labels.")
    try:
        X, y = load_svmlight_file(str(path), n_features=request.n_features)
    except (ValueError, OSError, OverflowError) as error:
        raise TableError(f"Expected a LIBSVM file, got {path} ({error}).") from None
    return Table(X.toarray().astype(np.float64), _as_labels(y, path), None, str(path))


READERS: dict[str, Callable[[Path, _Request], Table]] = {
    "csv": _read_csv,
    "parquet": _read_parquet,
    "npz": _read_npz,
    "libsvm": _read_libsvm,
}


def _as_labels(values: NDArray, path: Path) -> NDArray:
    """Return labels as integers if all are whole numbers, else as strings."""
    if values.dtype.kind in "iub":
        return values.astype(np.int64)
    if values.dtype.kind == "f":
        if not np.isfinite(values).all():
            raise TableError(f"Expected a label in every row, got {values[~np.isfinite(values)][0]} in {path}.")
        whole = (values == np.round(values)).all() and np.abs(values).max(initial=0) < 2**53
        return values.astype(np.int64) if whole else values.astype(str)
    text = np.array([str(value).strip() for value in values])
    empty = np.flatnonzero((text == "") | np.array([value is None for value in values]))
    if empty.size:
        raise TableError(f"Expected a label in every row, got none in row {empty[0]} of {path}.")
    if all(map(_is_number, text)):
        return _as_labels(text.astype(np.float64), path)
    return text


def _check_finite(table: Table) -> None:
    finite = np.isfinite(table.X)
    if finite.all():
        return
    row, column = np.argwhere(~finite)[0]
    name = f"column {column}" if table.feature_names is None else f"column {table.feature_names[column]!r}"
    raise TableError(
        f"Expected finite numbers, got {table.X[row, column]} in row {row}, {name} of {table.source}."
        " Remove or fill such rows first."
    )


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(repr(str(name)) for name in names[:6])
    return shown if len(names) <= 6 else f"{shown}, ... ({len(names)} in all)"

"""Files of every kind, each read by one module, block by block: `read_blocks` finds the one for a file.

A table is its blocks put together, and a file that is larger than memory is read one block at a time.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from certiforest.data.cells import TableError, as_labels
from certiforest.data.readers import parquet_files
from certiforest.data.tables import Request, Table
from certiforest.ensemble.blocks import block_rows
from certiforest.files import FileError, check_readable
from certiforest.words import setting, shown

KINDS = {
    "csv": (".csv", ".tsv", ".txt", ".data"),
    "parquet": (".parquet", ".pq"),
    "npz": (".npz",),
    "libsvm": (".libsvm", ".svm", ".svmlight"),
}
SUFFIXES = {suffix: kind for kind, suffixes in KINDS.items() for suffix in suffixes}


def read_table(path: str | os.PathLike[str], target: str | int | None = None, **options: Any) -> Table:
    """Read all rows and labels of a file; the parameters are those of `read_blocks`."""
    parts: list[Table] = []
    n_rows = 0
    for read in read_blocks(path, target, is_whole=True, **options):
        parts.append(read(n_rows))
        n_rows += len(parts[-1])
    if not n_rows:
        raise TableError(f"Expected rows, got none in {path}.")
    table = Table.concat(parts)
    return table if table.y is None else replace(table, y=as_labels(table.y, path))


def read_blocks(
    path: str | os.PathLike[str], target: str | int | None = None, *, kind: str | None = None, **options: Any
) -> Iterator[Callable[[int], Table]]:
    """Yield what reads the rows and labels of a file, block by block; a block that is not asked for is passed over.

    How a file is cut depends on the file and on ``n_features`` alone. Blocks have to be read in their order, and take
    the number of their first row, for messages. Labels are as the file has them if it is not told which there are.

    Parameters
    ----------
    path, target, **options
        What is asked of the file; see `Request`.
    kind : {"csv", "parquet", "npz", "libsvm"}, optional
        Told by the file's suffix if not given.
    """
    path = Path(path)
    with _errors_of(path):
        check_readable(path, "data file")
        if path.stat().st_size == 0:
            raise TableError(f"Expected rows, got the empty file {path}.")
    kind = _kind_of(path, kind)
    if kind not in KINDS:
        raise TableError(
            f"Expected a file that ends in {', '.join(SUFFIXES)}, got {path}."
            f" Say what it holds by {setting('kind', None, '--format')}: {', '.join(KINDS)}."
        )
    request = Request(path, target, block_rows(options.get("n_features")), **options)
    if request.first_index not in (None, 0, 1):
        raise TableError(f"Expected {setting('first_index')} to be 0 or 1, got {request.first_index!r}.")
    remaining = import_module(f"certiforest.data.readers.{kind}_files").blocks(request)
    while True:
        with _errors_of(path):
            read = next(remaining, None)
        if read is None:
            return
        yield partial(_read_checked, read, request)


def _read_checked(read: Callable[[], Table], request: Request, start: int = 0) -> Table:
    with _errors_of(request.path):
        table = read()
        if request.n_features is not None:
            table = table.with_features(request.feature_names, request.n_features)
    if request.classes is not None and table.y is not None:
        table = replace(table, y=as_labels(table.y, table.source, start, request.classes))
    finite = ~np.isinf(table.X) if request.missing else np.isfinite(table.X)
    if not finite.all():
        row, column = np.argwhere(~finite)[0]
        name = f"column {column}" if table.feature_names is None else f"column {shown(table.feature_names[column])}"
        raise TableError(
            f"Expected finite numbers, got {table.X[row, column]} in row {start + row}, {name} of {table.source},"
            " counted from 0. Remove or fill such rows first."
        )
    return table


def count_rows(path: str | os.PathLike[str], kind: str | None = None) -> int | None:
    """Return how many rows a file has, None if that takes reading it."""
    return parquet_files.count_rows(path) if _kind_of(Path(path), kind) == "parquet" else None


def _kind_of(path: Path, kind: str | None) -> str | None:
    return kind or SUFFIXES.get(path.suffix.lower())


@contextmanager
def _errors_of(path: Any) -> Iterator[None]:
    try:
        yield
    except FileError as error:
        raise TableError(str(error)) from None
    except OSError as error:
        raise TableError(f"Expected a readable file, got {path} ({error.strerror or error}).") from None

"""Files of every kind, each read by one module, block by block: `read_blocks` finds the one for a file.

A table is its blocks put together, and a file that is larger than memory is read one block at a time.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from certiforest.data.tables import ReadBlock, Request, Table, TableError, as_labels, check_finite
from certiforest.data.text_columns import TextColumns
from certiforest.ensemble.blocks import block_rows
from certiforest.files import FileError, check_readable
from certiforest.words import setting

KINDS = ("csv", "parquet", "npz", "libsvm")
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


def read_table(
    path: str | os.PathLike[str], target: str | int | None = None, *, missing: bool = False, **options: Any
) -> Table:
    """Read all rows and labels of a file; the parameters are those of `read_blocks`.

    Raises
    ------
    TableError
        If the file or a column is missing, or holds anything but finite numbers.
    """
    parts = [read() for read in read_blocks(path, target, missing=missing, is_whole=True, **options)]
    if not sum(map(len, parts)):
        raise TableError(f"Expected rows, got none in {path}.")
    table = replace(parts[0], X=np.concatenate([part.X for part in parts]) if len(parts) > 1 else parts[0].X)
    table = replace(table, texts={f: np.concatenate([part.texts[f] for part in parts]) for f in table.texts})
    if table.y is not None:
        labels = [part.y for part in parts if part.y is not None]
        is_list = isinstance(table.y, list)
        y = [text for part in labels for text in part] if is_list else np.concatenate(labels)
        table = replace(table, y=as_labels(y, path))
    return check_finite(table, missing=missing)


def read_block(read: ReadBlock, start: int, classes: NDArray, *, missing: bool = False) -> Table:
    """Read one block for a model that knows some classes; ``start`` is the number of its first row."""
    table = read()
    if table.y is not None:
        table = replace(table, y=as_labels(table.y, table.source, start, classes))
    return check_finite(table, start, missing=missing)


def read_blocks(
    path: str | os.PathLike[str],
    target: str | int | None = None,
    *,
    drop: Sequence[str | int] = (),
    kind: str | None = None,
    header: bool | None = None,
    n_features: int | None = None,
    first_index: int | None = None,
    missing: bool = False,
    texts: TextColumns | None = None,
    feature_names: tuple[str, ...] | None = None,
    is_whole: bool = False,
) -> Iterator[ReadBlock]:
    """Yield what reads the rows and labels of a file, block by block; a block that is not asked for is passed over.

    How a file is cut depends on the file and on ``n_features`` alone. Blocks have to be read in their order.

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
        Whether the first line of a CSV file holds names. If not given, it does iff no cell of it is a number.
    n_features : int, optional
        Number of features, which has to be that of the file; rows of LIBSVM files leave out zeros.
    first_index : {0, 1}, optional
        Which number the first column has in a LIBSVM file. If not given, it is 0 where that number occurs, else 1,
        unless ``n_features`` leaves both possible, which is refused.
    missing : bool, default=False
        Whether values may be missing: NaN, and in CSV files empty cells and NA, become NaN instead of being refused.
    texts : TextColumns, optional
        Columns that may be text, in CSV and Parquet files: the categories of a model.
    feature_names : tuple of str, optional
        Names of the features, which come in this order; the file may have them in another.
    is_whole : bool, default=False
        Whether all blocks are to be in memory at once.

    Raises
    ------
    TableError
        If the file or a column is missing, or holds anything but numbers.
    """
    path = Path(path)
    with _errors_of(path):
        check_readable(path, "data file")
        if path.stat().st_size == 0:
            raise TableError(f"Expected rows, got the empty file {path}.")
    kind = kind or SUFFIXES.get(path.suffix.lower())
    if kind not in KINDS:
        raise TableError(
            f"Expected a file that ends in {', '.join(SUFFIXES)}, got {path}."
            f" Say what it holds by {setting('kind', None, '--format')}: {', '.join(KINDS)}."
        )
    if first_index not in (None, 0, 1):
        raise TableError(f"Expected {setting('first_index')} to be 0 or 1, got {first_index!r}.")
    blocks: Callable[[Request], Iterator[ReadBlock]] = import_module(f"certiforest.data.readers.{kind}_files").blocks
    request = Request(
        path,
        target,
        tuple(drop),
        header,
        n_features,
        first_index,
        block_rows(n_features),
        missing,
        texts,
        feature_names,
        is_whole,
    )
    remaining = blocks(request)
    while True:
        with _errors_of(path):
            read = next(remaining, None)
        if read is None:
            return
        yield _guarded(read, request)


def _guarded(read: ReadBlock, request: Request) -> ReadBlock:
    def guarded() -> Table:
        with _errors_of(request.path):
            table = read()
            n_features = request.n_features
            return table if n_features is None else table.with_features(request.feature_names, n_features)

    return guarded


@contextmanager
def _errors_of(path: Any) -> Iterator[None]:
    try:
        yield
    except FileError as error:
        raise TableError(str(error)) from None
    except OSError as error:
        raise TableError(f"Expected a readable file, got {path} ({error.strerror or error}).") from None

"""Files of every kind, each read by one module: `read_table` finds the one for a file."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path

from certiforest.data.tables import Request, Table, TableError, check_finite
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
    path: str | os.PathLike[str],
    target: str | int | None = None,
    *,
    drop: Sequence[str | int] = (),
    kind: str | None = None,
    header: bool | None = None,
    n_features: int | None = None,
    first_index: int | None = None,
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
        Whether the first line of a CSV file holds names. If not given, it does iff no cell of it is a number.
    n_features : int, optional
        Number of features of a LIBSVM file, whose rows leave out zeros.
    first_index : {0, 1}, optional
        Which number the first column has in a LIBSVM file. If not given, it is 0 where that number occurs, else 1,
        unless ``n_features`` leaves both possible, which is refused.

    Raises
    ------
    TableError
        If the file or a column is missing, or holds anything but finite numbers.
    """
    path = Path(path)
    try:
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
        read: Callable[[Request], Table] = import_module(f"certiforest.data.readers.{kind}_files").read
        table = read(Request(path, target, tuple(drop), header, n_features, first_index))
    except FileError as error:
        raise TableError(str(error)) from None
    except OSError as error:
        raise TableError(f"Expected a readable file, got {path} ({error.strerror}).") from None
    if len(table) == 0:
        raise TableError(f"Expected rows, got none in {path}.")
    return check_finite(table)

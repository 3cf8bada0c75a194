"""npz: NumPy arrays ``X``, ``y`` and, if there are names, ``feature_names``; never unpickled.

What the headers of the arrays say is checked before anything is unpacked, and rows are unpacked block by block.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from certiforest.data.cells import LONGEST_LABEL, TableError, as_floats
from certiforest.data.tables import Columns, ReadBlock, Request, Table, check_shape, choose_columns
from certiforest.words import listed, reason, setting, shown

ZIP, SINGLE_ARRAY = b"PK", b"\x93NUMPY"


def blocks(request: Request) -> Iterator[ReadBlock]:
    """Yield what reads each block of an npz file; see `read_blocks`."""
    path = request.path
    label = "y" if request.target is None else str(request.target)
    with open(path, "rb") as file:
        start = file.read(len(SINGLE_ARRAY))
        if start == SINGLE_ARRAY:
            raise TableError(f"Expected an npz file, got the single array {path}; save it by np.savez(path, X=X, y=y).")
        if not start.startswith(ZIP):
            raise TableError(f"Expected an npz file, got {path}, which is none; save one by np.savez(path, X=X, y=y).")
        with _errors_of(path):
            archive = zipfile.ZipFile(file)
            for name in archive.namelist():
                archive.open(name).close()  # a name that stands twice in the file stands there alike
            members = {name.removesuffix(".npy"): name for name in archive.namelist()}
            if "X" not in members:
                raise TableError(f"Expected an array 'X' of rows, got {listed(list(members))} in {path}.")
            if label not in members and request.target is not None:
                raise TableError(
                    f"Expected {setting('target')} among {listed(list(members))}, got {shown(label)} for {path}."
                )
            X = _Array(archive, members["X"])
            y = _Array(archive, members[label]) if label in members else None
            names = _Array(archive, members["feature_names"]) if "feature_names" in members else None
            _check_headers(X, y, names, path)
            named = None if names is None else tuple(map(str, names.rows(0, X.shape[1])))
            wanted = choose_columns(replace(request, target=None), named, X.shape[1])
        check_shape(request, X.shape[0], wanted)
        for first in range(0, X.shape[0], request.block_rows):
            yield partial(_read_block, X, y, first, wanted, label if named else None, request)


def _read_block(
    X: _Array, y: _Array | None, first: int, wanted: Columns, target_name: str | None, request: Request
) -> Table:
    n_rows = min(request.block_rows, X.shape[0] - first)
    with _errors_of(request.path):
        rows, labels = X.rows(first, n_rows), None if y is None else y.rows(first, n_rows)
    if len(wanted.features) < rows.shape[1]:
        rows = rows[:, wanted.features]
    floats = as_floats(rows, f"X of {request.path}")
    return replace(wanted.table(floats, labels, request), target_name=target_name)


class _Array:
    """An array in an archive, of which rows are unpacked when they are asked for, in their order."""

    def __init__(self, archive: zipfile.ZipFile, member: str) -> None:
        self._stream = archive.open(member)
        read_header = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
        version = npy.read_magic(self._stream)
        if version not in read_header:
            raise ValueError(f"array of format {version}")
        self.shape, self._is_by_columns, self.dtype = read_header[version](self._stream)
        if self.dtype.hasobject:
            raise ValueError(f"{member} holds objects")
        self._start = self._stream.tell()
        self._whole: NDArray | None = None

    def rows(self, first: int, n_rows: int) -> NDArray:
        """Return some rows. An array that is stored by columns has to be unpacked as a whole."""
        if self._is_by_columns and len(self.shape) > 1:
            if self._whole is None:
                self._whole = self._unpack(0, self.shape[0]).reshape(self.shape[::-1]).T
            return self._whole[first : first + n_rows]
        return self._unpack(first, n_rows)

    def _unpack(self, first: int, n_rows: int) -> Any:
        shape = n_rows, *self.shape[1:]
        row_bytes = int(np.prod(self.shape[1:], dtype=object)) * self.dtype.itemsize
        begin = self._start + first * row_bytes
        if self._stream.tell() > begin:
            self._stream.seek(begin)
        # Rows that nobody wants are read, too: some versions of Python 3.12 seek forwards in the wrong member, and
        # none compares the checksum afterwards.
        while (ahead := begin - self._stream.tell()) > 0 and self._stream.read(min(ahead, 2**20)):
            pass
        content = self._stream.read(n_rows * row_bytes)
        if first + n_rows == self.shape[0] and self._stream.read(1):  # which also compares the checksum
            raise ValueError("an array that is longer than its header says")
        return np.frombuffer(content, self.dtype).reshape(shape)


def _check_headers(X: _Array, y: _Array | None, names: _Array | None, path: Any) -> None:
    if len(X.shape) != 2 or X.dtype.kind not in "biuf" or 0 in X.shape:
        raise TableError(f"Expected X as a table of numbers, got shape {X.shape} of {X.dtype} in {path}.")
    if y is not None and y.shape != X.shape[:1]:
        raise TableError(f"Expected one label per row, {X.shape[0]} in all, got shape {y.shape} in {path}.")
    if names is not None and names.shape != X.shape[1:]:
        raise TableError(f"Expected {X.shape[1]} feature names, got shape {names.shape} in {path}.")
    for array in (y, names):
        if array is not None and array.dtype.itemsize > 4 * LONGEST_LABEL:
            raise TableError(
                f"Expected labels and names of up to {LONGEST_LABEL} characters, got {array.dtype} in {path}."
            )


@contextmanager
def _errors_of(path: Any) -> Iterator[None]:
    try:
        yield
    except TableError:
        raise
    except Exception as error:  # zip and format errors, each of another kind
        raise TableError(f"Expected an npz file without pickled objects, got {path} ({reason(error)}).") from None

"""LIBSVM text: a label, then ``column:value`` for what is not zero. Columns are numbered from 1, in some files from 0.

Which of the two is never guessed where it matters. A column 0 settles it, and so does a last column that only one way
of counting allows; else ``first_index`` has to say it. A file to learn from, which fixes how many columns there are,
is taken to start at 1 if no line has a column 0, and the model remembers that.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from certiforest.data.cells import TableError
from certiforest.data.tables import Columns, ReadBlock, Request, Table, check_shape
from certiforest.ensemble.blocks import block_rows
from certiforest.words import reason, setting

UNDERSCORE = re.compile(rb"^[^#\n]*_", re.MULTILINE)  # Python reads 1_0 as 10


def blocks(request: Request) -> Iterator[ReadBlock]:
    """Yield what reads each block of a LIBSVM file; see `read_blocks`."""
    path = request.path
    if request.target is not None or request.drop:
        raise TableError(
            f"Expected no {setting('target')} and no {setting('drop')} for the LIBSVM file {path}: its lines start with"
            " labels."
        )
    n_features, first, n_lines = request.n_features, request.first_index, request.block_rows
    if first is None or n_features is None:
        extent = _look_through(request)
        first = _first_index(extent, request)
        if n_features is None:
            n_features = extent.most + 1 - first
            n_lines = block_rows(n_features)
            check_shape(request, extent.n_rows, Columns(range(n_features)))
    for lines in _lines(path, n_lines):
        yield partial(_read_block, lines, n_features, replace(request, first_index=first))


class _Extent(NamedTuple):
    """What a file holds, before it is known which column is the first."""

    n_rows: int
    least: int
    most: int


def _look_through(request: Request) -> _Extent:
    n_rows, least, most = 0, 2**62, -1
    for lines in _lines(request.path, request.block_rows):
        X, _ = _parse(lines, request.path)
        n_rows += X.shape[0]
        columns = X.indices.astype(np.int64)  # which has room for initial, whatever scipy made them
        least, most = int(columns.min(initial=least)), int(columns.max(initial=most))
    return _Extent(n_rows, least, most)


def _lines(path: Any, n_lines: int) -> Iterator[bytes]:
    """Yield the lines of a file, some of them together; comments alone are left out."""
    with open(path, "rb") as file:
        while lines := list(islice(file, n_lines)):
            if any(line.partition(b"#")[0].strip() for line in lines):
                yield b"".join(lines)


def _parse(lines: bytes, path: Any) -> tuple[Any, NDArray[np.float64]]:
    from sklearn.datasets import load_svmlight_file

    try:
        if b"_" in lines and UNDERSCORE.search(lines):
            raise ValueError("a number with an underscore")
        return load_svmlight_file(io.BytesIO(lines), zero_based=True)
    except (ValueError, OverflowError) as error:
        raise TableError(f"Expected a LIBSVM file, got {path} ({reason(error)}).") from None


def _read_block(lines: bytes, n_features: int, request: Request) -> Table:
    X, y = _parse(lines, request.path)
    columns = X.indices.astype(np.int64)
    extent = _Extent(len(y), int(columns.min(initial=2**62)), int(columns.max(initial=-1)))
    first = _first_index(extent, replace(request, n_features=n_features))
    rows = np.zeros((len(y), n_features))
    rows[np.repeat(np.arange(len(y)), np.diff(X.indptr)), columns - first] = X.data
    return Table(rows, y, None, str(request.path), first_index=first)


def _first_index(extent: _Extent, request: Request) -> int:
    least, most, first = extent.least, extent.most, request.first_index
    if most < 0:
        if request.n_features is None:
            raise TableError(f"Expected numbered columns, got rows of zeros only in {request.path}.")
        return first or 0
    if first is None:
        first = 0 if least == 0 else 1
        if least > 0 and request.n_features is not None and most < request.n_features:
            raise TableError(
                f"Expected columns numbered from 0 or from 1, got both as possible in {request.path}: {least} to {most}"
                f" of {request.n_features}. Say which number the first column has by {setting('first_index')}."
            )
    if least < first:
        raise TableError(f"Expected columns numbered from {first}, got column {least} in {request.path}.")
    if request.n_features is not None and most - first >= request.n_features:
        raise TableError(
            f"Expected {request.n_features} columns, numbered {first} to {request.n_features + first - 1}, got column"
            f" {most} in {request.path}."
        )
    return first

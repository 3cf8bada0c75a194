"""LIBSVM text: a label, then ``column:value`` for what is not zero. Columns are numbered from 1, in some files from 0.

Which of the two is never guessed where it matters. A column 0 settles it, and so does a last column that only one way
of counting allows; else ``first_index`` has to say it. A file to learn from, which fixes how many columns there are,
is taken to start at 1 if no line has a column 0, and the model remembers that.
"""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

import numpy as np

from certiforest.data.tables import Request, Table, TableError, as_labels
from certiforest.words import reason, setting

UNDERSCORE = re.compile(rb"^[^#\n]*_", re.MULTILINE)  # Python reads 1_0 as 10
MOST_EMPTY_CELLS, LEAST_FILLED = 2**25, 0.001


def read(request: Request) -> Table:
    """Read a LIBSVM file; see `read_table`."""
    from sklearn.datasets import load_svmlight_file

    path = request.path
    if request.target is not None or request.drop:
        raise TableError(
            f"Expected no {setting('target')} and no {setting('drop')} for the LIBSVM file {path}: its lines start with"
            " labels."
        )
    content = Path(path).read_bytes()
    try:
        if b"_" in content and UNDERSCORE.search(content):
            raise ValueError("a number with an underscore")
        X, y = load_svmlight_file(io.BytesIO(content), zero_based=True)
    except (ValueError, OverflowError) as error:
        raise TableError(f"Expected a LIBSVM file, got {path} ({reason(error)}).") from None
    first = _first_index(X.indices, request)
    n_features = int(X.indices.max(initial=0)) + 1 - first if request.n_features is None else request.n_features
    _check_size(len(y), n_features, X.nnz, path)
    rows = np.zeros((len(y), n_features))
    rows[np.repeat(np.arange(len(y)), np.diff(X.indptr)), X.indices - first] = X.data
    return Table(rows, as_labels(y, path), None, str(path), first_index=first)


def _first_index(columns: Any, request: Request) -> int:
    least, most = int(columns.min(initial=2**62)), int(columns.max(initial=-1))
    first = request.first_index
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


def _check_size(n_rows: int, n_features: int, n_filled: int, path: Any) -> None:
    n_cells = n_rows * n_features
    if n_cells > MOST_EMPTY_CELLS and n_filled < LEAST_FILLED * n_cells:
        raise TableError(
            f"Expected a table that fits into memory, got {n_rows:,} rows of {n_features:,} columns, nearly all cells"
            f" zero, in {path}. Leave out or renumber columns that are hardly used."
        )

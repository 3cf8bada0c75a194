"""npz: NumPy arrays ``X``, ``y`` and, if there are names, ``feature_names``; never unpickled."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from certiforest.data.tables import ReadBlock, Request, Table, TableError, as_floats, choose_columns
from certiforest.words import listed, reason, setting, shown

ZIP, SINGLE_ARRAY = b"PK", b"\x93NUMPY"


def blocks(request: Request) -> Iterator[ReadBlock]:
    """Read an npz file, which is in memory as a whole; see `read_blocks`."""
    table = _read(request)
    for start in range(0, len(table), request.n_rows):
        yield partial(table.take, np.arange(start, min(start + request.n_rows, len(table))))


def _read(request: Request) -> Table:
    path = request.path
    label = "y" if request.target is None else str(request.target)
    with open(path, "rb") as file:
        start = file.read(len(SINGLE_ARRAY))
    if start == SINGLE_ARRAY:
        raise TableError(f"Expected an npz file, got the single array {path}; save it by np.savez(path, X=X, y=y).")
    if not start.startswith(ZIP):
        raise TableError(f"Expected an npz file, got {path}, which is none; save one by np.savez(path, X=X, y=y).")
    try:
        with zipfile.ZipFile(path) as archive:
            for name in archive.namelist():
                archive.open(name).close()  # a name that stands twice in the file stands there alike
        with np.load(path, allow_pickle=False) as arrays:
            if "X" not in arrays:
                raise TableError(f"Expected an array 'X' of rows, got {listed(arrays.files)} in {path}.")
            if label not in arrays and request.target is not None:
                raise TableError(
                    f"Expected {setting('target')} among {listed(arrays.files)}, got {shown(label)} for {path}."
                )
            X, y = arrays["X"], arrays.get(label)
            names = tuple(map(str, arrays["feature_names"])) if "feature_names" in arrays else None
    except TableError:
        raise
    except Exception as error:  # zip, format and pickle errors, each of another kind
        raise TableError(f"Expected an npz file without pickled objects, got {path} ({reason(error)}).") from None
    if X.ndim != 2 or X.dtype.kind not in "biuf" or 0 in X.shape:
        raise TableError(f"Expected X as a table of numbers, got shape {X.shape} of {X.dtype} in {path}.")
    if y is not None and y.shape != X.shape[:1]:
        raise TableError(f"Expected one label per row, {len(X)} in all, got shape {y.shape} in {path}.")
    if names is not None and len(names) != X.shape[1]:
        raise TableError(f"Expected {X.shape[1]} feature names, got {len(names)} in {path}.")
    wanted = choose_columns(replace(request, target=None), names, X.shape[1])
    if len(wanted.features) < X.shape[1]:
        X = X[:, wanted.features]
    return Table(as_floats(X, f"X of {path}"), y, wanted.names_of_features, str(path), label if names else None)

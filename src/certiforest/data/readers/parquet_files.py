"""Parquet, read by pyarrow, or by polars where that is not installed."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from certiforest.data.tables import Request, Table, TableError, as_floats, as_labels, choose_columns
from certiforest.words import reason, setting


def read(request: Request) -> Table:
    """Read a Parquet file; see `read_table`."""
    names, columns = _open(request)
    wanted = choose_columns(request, names, len(names))
    X = np.empty((len(columns[0]), len(wanted.features)))
    for place, index in enumerate(wanted.features):
        column = _as_array(columns[index], request)
        if column.dtype.kind not in "biuf":
            raise TableError(
                f"Expected numbers, got {_type_of(columns[index])} in {wanted.shown(index)} of {request.path}. Encode"
                f" it as numbers, or leave it out by {setting('drop', wanted.typed(index))}."
            )
        X[:, place] = as_floats(column, f"{wanted.shown(index)} of {request.path}")
    y = None if wanted.target is None else as_labels(_as_array(columns[wanted.target], request), request.path)
    return Table(X, y, wanted.names_of_features, str(request.path), wanted.name_of_target)


def _open(request: Request) -> tuple[tuple[str, ...], list[Any]]:
    """Return the names and the columns, as the reader at hand holds them."""
    try:
        from pyarrow.parquet import read_table as read_arrow
    except ImportError:
        return _open_by_polars(request)
    try:
        # An open file, not its path: readers take a path with brackets for a pattern.
        with open(request.path, "rb") as file:
            frame = read_arrow(file)
        return tuple(frame.column_names), list(frame.columns)
    except Exception as error:  # readers raise errors of their own kinds
        raise _no_parquet(request, error) from None


def _open_by_polars(request: Request) -> tuple[tuple[str, ...], list[Any]]:
    try:
        import polars
    except ImportError:
        raise TableError(
            f"Expected a reader for {request.path}, got none: pip install pyarrow, or save it as CSV or npz."
        ) from None
    try:
        with open(request.path, "rb") as file:
            frame = polars.read_parquet(file)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a reader in Rust may panic, which is no Exception
        raise _no_parquet(request, error) from None
    return tuple(map(str, frame.columns)), frame.get_columns()


def _as_array(column: Any, request: Request) -> NDArray:
    try:
        return column.to_numpy()
    except Exception as error:
        raise _no_parquet(request, error) from None


def _type_of(column: Any) -> str:
    return str(getattr(column, "type", None) or column.dtype)


def _no_parquet(request: Request, error: BaseException) -> TableError:
    return TableError(f"Expected a Parquet file, got {request.path} ({reason(error)}).")

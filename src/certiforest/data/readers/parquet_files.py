"""Parquet, read by pyarrow: row groups are cut into blocks.

A block that spans row groups is put together from them, so that blocks do not depend on how a writer cut its file.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from certiforest.data.cells import TableError, as_floats, code_of
from certiforest.data.tables import Columns, ReadBlock, Request, Table, check_shape, choose_columns
from certiforest.ensemble.categories import Codes
from certiforest.words import reason, setting

BUFFER_BYTES = 2**16  # of each column


def blocks(request: Request) -> Iterator[ReadBlock]:
    """Yield what reads each block of a Parquet file; see `read_blocks`."""
    try:
        from pyarrow.parquet import ParquetFile
    except ImportError:
        raise TableError(
            f"Expected a reader for {request.path}, got none: pip install pyarrow, or save it as CSV or npz."
        ) from None
    # An open file, not its path: readers take a path with brackets for a pattern.
    with open(request.path, "rb") as handle:
        try:
            # Not ahead of what is asked for, or memory holds whole row groups more than once.
            file = ParquetFile(handle, pre_buffer=False, buffer_size=BUFFER_BYTES)
            names, n_rows = tuple(file.schema_arrow.names), file.metadata.num_rows
        except Exception as error:  # readers raise errors of their own kinds
            raise _no_parquet(request, error) from None
        wanted = choose_columns(request, names, len(names))
        check_shape(request, n_rows, wanted)
        rows = _Rows(file, request)
        try:
            for start in range(0, max(n_rows, 1), request.block_rows):
                yield partial(_read_block, rows, start, min(request.block_rows, n_rows - start), wanted, request)
        finally:
            rows.close()


def count_rows(path: Any) -> int | None:
    """Return how many rows a file has, None if that takes reading it."""
    try:
        from pyarrow.parquet import read_metadata
    except ImportError:
        return None
    try:
        with open(path, "rb") as file:
            return int(read_metadata(file).num_rows)
    except Exception:  # what is wrong with it is said when it is read
        return None


class _Rows:
    """Reads runs of rows; the next run is where the last one ended, as a rule."""

    def __init__(self, file: Any, request: Request) -> None:
        self._file, self._request = file, request
        self._place = -1
        self._batches: Iterator[Any] = iter(())
        self._left: Any = None  # what of a batch was not asked for yet

    def read(self, start: int, n_rows: int) -> Any:
        """Return some rows as a table of Arrow."""
        import pyarrow

        if start != self._place:
            self._batches, self._left, self._place = self._from(start), None, start
        parts: list[Any] = []
        while n_rows > 0:
            while self._left is None or self._left.num_rows == 0:
                self._left = next(self._batches)
            part = self._left.slice(0, n_rows)
            self._left = self._left.slice(part.num_rows)
            n_rows -= part.num_rows
            self._place += part.num_rows
            parts.append(part)
        return pyarrow.Table.from_batches(parts, schema=self._file.schema_arrow)

    def close(self) -> None:
        """Let go of what was read: it refers to this reader, and would stay until the next search for cycles."""
        self._batches, self._left = iter(()), None

    def _from(self, start: int) -> Iterator[Any]:
        """Yield batches of one row group after the other: a reader of all of them keeps what it has read."""
        metadata = self._file.metadata
        for group in range(metadata.num_row_groups):
            if start >= metadata.row_group(group).num_rows:
                start -= metadata.row_group(group).num_rows
                continue
            for batch in self._file.iter_batches(self._request.block_rows, row_groups=[group], use_threads=False):
                yield batch.slice(min(start, batch.num_rows))  # empty if all of it comes before
                start = max(start - batch.num_rows, 0)


def _read_block(rows: _Rows, start: int, n_rows: int, wanted: Columns, request: Request) -> Table:
    try:
        columns = rows.read(start, n_rows).columns
    except Exception as error:
        raise _no_parquet(request, error) from None
    X = np.empty((len(columns[0]), len(wanted.features)))
    texts: dict[int, NDArray] = {}
    for place, index in enumerate(wanted.features):
        if place in wanted.codes and _is_text(columns[index], wanted.codes[place]):
            cells = columns[index].to_pylist()
            where = f"{wanted.in_message(index)} of {request.path}"
            X[:, place] = [code_of(cell, where, wanted.codes[place], missing=request.missing) for cell in cells]
            texts[place] = np.array(["" if cell is None else str(cell) for cell in cells], object)
            continue
        column = _as_array(columns[index], request)
        if column.dtype.kind not in "biuf":
            raise TableError(
                f"Expected numbers, got {columns[index].type} in {wanted.in_message(index)} of {request.path}. Encode"
                f" it as numbers, or leave it out by {setting('drop', wanted.as_option(index))}."
            )
        X[:, place] = as_floats(column, f"{wanted.in_message(index)} of {request.path}")
    y = None if wanted.target is None else _as_array(columns[wanted.target], request)
    return wanted.table(X, y, request, texts)


def _is_text(column: Any, codes: Codes) -> bool:
    """Tell whether a column holds categories, not numbers that stand for them."""
    kind = str(column.type)
    return kind.startswith(("string", "large_string", "dictionary", "null")) or (
        codes.unseen == "hashed" and "int" in kind
    )


def _as_array(column: Any, request: Request) -> NDArray:
    try:
        return column.to_numpy()
    except Exception as error:
        raise _no_parquet(request, error) from None


def _no_parquet(request: Request, error: BaseException) -> TableError:
    return TableError(f"Expected a Parquet file, got {request.path} ({reason(error)}).")

"""Parquet, read by pyarrow, or by polars where that is not installed: row groups are cut into blocks.

A block that spans row groups is put together from them, so that blocks do not depend on how a writer cut its file.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from certiforest.data.tables import ReadBlock, Request, Table, TableError, as_floats, check_shape, choose_columns
from certiforest.data.text_columns import code_of
from certiforest.ensemble.categories import Codes
from certiforest.words import reason, setting

BUFFER_BYTES = 2**16  # of each column


def blocks(request: Request) -> Iterator[ReadBlock]:
    """Read a Parquet file; see `read_blocks`."""
    try:
        from pyarrow.parquet import ParquetFile
    except ImportError:
        yield from _blocks_by_polars(request)
        return
    # An open file, not its path: readers take a path with brackets for a pattern.
    with open(request.path, "rb") as handle:
        try:
            # Not ahead of what is asked for, or memory holds whole row groups more than once.
            file = ParquetFile(handle, pre_buffer=False, buffer_size=BUFFER_BYTES)
            names, n_rows = tuple(file.schema_arrow.names), file.metadata.num_rows
        except Exception as error:  # readers raise errors of their own kinds
            raise _no_parquet(request, error) from None
        check_shape(request, n_rows, choose_columns(request, names, len(names)))
        rows = _Rows(file, request)
        try:
            for start in range(0, max(n_rows, 1), request.n_rows):
                yield partial(rows.read, names, start, min(request.n_rows, n_rows - start))
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
        self._place = 0
        self._batches: Iterator[Any] = iter(())
        self._left: Any = None  # what of a batch was not asked for yet

    def read(self, names: tuple[str, ...], start: int, n_rows: int) -> Table:
        """Return some rows."""
        try:
            if start != self._place or self._left is None:
                self._seek(start)
            parts: list[Any] = []
            while n_rows > 0:
                while self._left is None or self._left.num_rows == 0:
                    self._left = next(self._batches)
                part = self._left.slice(0, n_rows)
                self._left = self._left.slice(part.num_rows)
                n_rows -= part.num_rows
                self._place += part.num_rows
                parts.append(part)
            import pyarrow

            table = pyarrow.Table.from_batches(parts, schema=self._file.schema_arrow)
        except Exception as error:
            raise _no_parquet(self._request, error) from None
        return _as_table(names, list(table.columns), self._request)

    def close(self) -> None:
        """Let go of what was read: it refers to this reader, and would stay until the next search for cycles."""
        self._batches, self._left = iter(()), None

    def _seek(self, start: int) -> None:
        """Go to the row group of a row, and forward to the row."""
        metadata = self._file.metadata
        sizes = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
        ends = np.cumsum(sizes, dtype=np.int64)
        first = int(np.searchsorted(ends, start, side="right"))
        self._batches = self._read_groups(first, len(sizes))
        ahead = start - (int(ends[first - 1]) if first else 0)
        self._place, self._left = start, None
        while ahead > 0:
            batch = next(self._batches)
            self._left, ahead = batch.slice(min(ahead, batch.num_rows)), ahead - batch.num_rows

    def _read_groups(self, first: int, end: int) -> Iterator[Any]:
        """Yield batches of one row group after the other: a reader of all of them keeps what it has read."""
        for group in range(first, end):
            yield from self._file.iter_batches(batch_size=self._request.n_rows, row_groups=[group], use_threads=False)


def _as_table(names: tuple[str, ...], columns: list[Any], request: Request) -> Table:
    wanted = choose_columns(request, names, len(names))
    X = np.empty((len(columns[0]), len(wanted.features)))
    coded = {} if request.texts is None else request.texts.places(wanted.names_of_features)
    texts: dict[int, NDArray] = {}
    for place, index in enumerate(wanted.features):
        if place in coded and _is_text(columns[index], coded[place]):
            cells = columns[index].to_pylist() if hasattr(columns[index], "to_pylist") else columns[index].to_list()
            where = f"{wanted.shown(index)} of {request.path}"
            X[:, place] = [code_of(cell, coded[place], where, missing=request.missing) for cell in cells]
            texts[place] = np.array(["" if cell is None else str(cell) for cell in cells], object)
            continue
        column = _as_array(columns[index], request)
        if column.dtype.kind not in "biuf":
            raise TableError(
                f"Expected numbers, got {_type_of(columns[index])} in {wanted.shown(index)} of {request.path}. Encode"
                f" it as numbers, or leave it out by {setting('drop', wanted.typed(index))}."
            )
        X[:, place] = as_floats(column, f"{wanted.shown(index)} of {request.path}")
    y = None if wanted.target is None else _as_array(columns[wanted.target], request)
    return Table(X, y, wanted.names_of_features, str(request.path), wanted.name_of_target, texts=texts)


def _is_text(column: Any, codes: Codes) -> bool:
    """Tell whether a column holds categories, not numbers that stand for them."""
    kind = _type_of(column).lower()
    return kind.startswith(("string", "large_string", "dictionary", "categorical", "enum", "null")) or (
        codes.unseen == "hashed" and "int" in kind
    )


def _blocks_by_polars(request: Request) -> Iterator[ReadBlock]:
    try:
        import polars
    except ImportError:
        raise TableError(
            f"Expected a reader for {request.path}, got none: pip install pyarrow, or save it as CSV or npz."
        ) from None
    try:
        with open(request.path, "rb") as file:
            frame = polars.read_parquet(file)  # whole: polars has no reader that goes forward block by block
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a reader in Rust may panic, which is no Exception
        raise _no_parquet(request, error) from None
    names = tuple(map(str, frame.columns))
    for start in range(0, max(len(frame), 1), request.n_rows):
        yield partial(_as_table, names, frame.slice(start, request.n_rows).get_columns(), request)


def _as_array(column: Any, request: Request) -> NDArray:
    try:
        return column.to_numpy()
    except Exception as error:
        raise _no_parquet(request, error) from None


def _type_of(column: Any) -> str:
    return str(getattr(column, "type", None) or column.dtype)


def _no_parquet(request: Request, error: BaseException) -> TableError:
    return TableError(f"Expected a Parquet file, got {request.path} ({reason(error)}).")

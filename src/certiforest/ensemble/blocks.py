"""Rows that come block by block, from whatever holds more of them than memory does."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from certiforest.ensemble.rows import RowError
from certiforest.words import shown

BLOCK_ROWS, BLOCK_BYTES = 2**13, 2**23  # a block has no more rows, and they take no more bytes


def block_rows(n_features: int | None) -> int:
    """Return how many rows a block has."""
    return BLOCK_ROWS if n_features is None else max(1, min(BLOCK_ROWS, BLOCK_BYTES // (8 * max(n_features, 1))))


def blocks_of(source: Any, target: str | None, n_features: int) -> Iterator[tuple[Any, Any]]:
    """Yield rows and labels, block by block; labels are None where there are none.

    They come from an array or memory map, a frame, a polars LazyFrame, an Arrow dataset, reader or Parquet file, or an
    iterable of blocks, each of them rows or a pair of rows and labels. Frames hold labels in the column ``target``.
    """
    for block in _cut(source, block_rows(n_features)):
        X, y = block if isinstance(block, tuple) and len(block) == 2 else (block, None)
        if target is not None:
            if y is not None or not hasattr(X, "columns"):
                raise RowError(f"Expected blocks that are frames with the column {shown(target)}, got others.")
            names = list(getattr(X, "column_names", X.columns))
            if target not in names:
                raise RowError(f"Expected the label column {shown(target)}, got none in a block.")
            rest = [name for name in names if name != target]
            X, y = X.select(rest) if hasattr(X, "select") else X[rest], X[target]
            y = y.to_numpy(zero_copy_only=False) if hasattr(y, "type") else y.to_numpy()
        yield X, y


def _cut(source: Any, n_rows: int) -> Iterable[Any]:
    if hasattr(source, "collect_batches"):  # polars, lazy
        return source.collect_batches(chunk_size=n_rows, maintain_order=True)
    if hasattr(source, "iter_batches"):  # a Parquet file of Arrow
        return source.iter_batches(batch_size=n_rows)
    if hasattr(source, "to_batches") and not hasattr(source, "shape"):  # a dataset of Arrow
        return source.to_batches(batch_size=n_rows)
    if len(getattr(source, "shape", ())) == 2:
        rows = getattr(source, "iloc", source)
        return (rows[start : start + n_rows] for start in range(0, source.shape[0], n_rows))
    if isinstance(source, Iterable) and not isinstance(source, (str, bytes, dict)):
        return source
    raise RowError(f"Expected rows, or an iterable of blocks of rows, got a {type(source).__name__}.")

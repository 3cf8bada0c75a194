"""Rows as they enter: any array or data frame, checked and handed out in blocks of contiguous float64.

Blocks keep memory flat: whatever the type of the input, only a block of it is converted at a time, and a block
of ordinary width stays in the processor's cache while the trees walk over it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

BLOCK_BYTES = 2**20


class RowError(ValueError):
    """Rows are not what the ensemble expects."""


class Rows:
    """Finite float64 rows of a given width, read block by block.

    Parameters
    ----------
    X : array-like or data frame, shape (n, n_features)
    n_features : int
        Expected width.
    feature_names : sequence of str, optional
        Names the ensemble was trained with; a data frame must have the same ones in the same order.
    """

    def __init__(self, X: Any, n_features: int, feature_names: Sequence[str] | None = None) -> None:
        if hasattr(X, "toarray"):
            raise RowError("Expected dense rows, got a sparse matrix; call X.toarray() first.")
        names = list(X.columns) if hasattr(X, "columns") else None
        if names is None and not hasattr(X, "dtype"):
            try:
                X = np.asarray(X)
            except ValueError:
                raise RowError("Expected rows of equal length, got rows of different lengths.") from None
        if len(X.shape) != 2:
            raise RowError(
                f"Expected rows as a table of shape (n, {n_features}), got shape {tuple(X.shape)}."
                " For a single row use X.reshape(1, -1)."
            )
        if X.shape[1] != n_features:
            raise RowError(
                f"Expected {n_features} features per row, got {X.shape[1]}."
                " Give the columns the model was trained on, without the label."
            )
        for i, (name, trained) in enumerate(zip(names or (), feature_names or (), strict=False)):
            if _differ(name, trained):
                raise RowError(
                    f"Expected column {i} to be {trained!r}, got {name!r}."
                    " Give the columns in the order the model was trained on."
                )
        self._X = X
        self._is_frame = names is not None
        self.n_features = n_features

    def __len__(self) -> int:
        return int(self._X.shape[0])

    def blocks(self) -> Iterator[slice]:
        """Yield slices that cover all rows, each about a megabyte."""
        size = max(1, BLOCK_BYTES // (8 * self.n_features))
        for start in range(0, len(self), size):
            yield slice(start, min(start + size, len(self)))

    def __getitem__(self, block: slice) -> NDArray[np.float64]:
        """Return the rows of a block, contiguous float64, all finite."""
        # A slice of a pandas frame with an index of floats would go by labels.
        rows = self._X.iloc[block] if hasattr(self._X, "iloc") else self._X[block]
        if self._is_frame:
            rows = rows.to_numpy()
        if np.ma.is_masked(rows):
            raise RowError("Expected finite numbers, got a masked array with values missing; fill or remove them.")
        try:
            if np.iscomplexobj(rows):
                raise TypeError
            rows = np.ascontiguousarray(rows, dtype=np.float64)
        except (TypeError, ValueError):
            raise RowError(
                f"Expected numbers, got something else between rows {block.start} and {block.stop - 1}."
                " Encode text columns as numbers first."
            ) from None
        # A sum of finite numbers is finite unless it overflows; only then look at each.
        with np.errstate(over="ignore", invalid="ignore"):
            total = rows.sum()
        if not np.isfinite(total) and not np.isfinite(rows).all():
            row, column = np.argwhere(~np.isfinite(rows))[0]
            raise RowError(
                f"Expected finite numbers, got {rows[row, column]} in row {block.start + row}, feature {column}."
                " Remove or impute such rows."
            )
        return rows


def _differ(name: Any, trained: Any) -> bool:
    """Tell whether two names differ, but for what libraries do to names: numbers become text, spaces underscores."""
    return name != trained and str(name).replace(" ", "_") != str(trained).replace(" ", "_")

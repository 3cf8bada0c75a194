"""Trees whose nodes compare in their own way, as `Nodes`: one builder for the formats that name each comparison."""

from __future__ import annotations

import numpy as np
from numpy.typing import DTypeLike, NDArray

from certiforest.ensemble import ModelError, Nodes
from certiforest.ensemble.tree_kernels import LARGEST
from certiforest.formats.float32_rows import deployed_thresholds

COMPARISONS = ("<=", "<", ">=", ">")


def as_nodes(
    children: tuple[NDArray[np.int64], NDArray[np.int64]],
    feature: NDArray[np.int64],
    comparison: NDArray[np.str_],
    threshold: NDArray[np.float64],
    leaf: NDArray[np.int64],
    missing_first: NDArray[np.bool_],
    *,
    dtype: DTypeLike,
    is_rounded: bool = False,
    subset: NDArray[np.int64] | None = None,
) -> Nodes:
    """Return a tree whose splits send a row to the first of two ``children`` iff ``x comparison threshold``.

    Children of leaves are -1. Thresholds and rows are of ``dtype``, to which rows are rounded, unless they are so
    before the trees (``is_rounded``). ``missing_first`` tells which splits send a missing value to the first child.
    Those that test for a ``subset`` send it there, whatever they compare by.
    """
    is_leaf = children[0] < 0
    is_set = np.zeros(len(is_leaf), bool) if subset is None else subset >= 0
    others = sorted({*comparison[~is_leaf].tolist()}.difference(COMPARISONS))
    if others:
        raise ModelError(
            f"Expected splits that compare with a threshold by {', '.join(COMPARISONS)}, got {others[0]}: splits for"
            " categories are read from the files of the library that trained the model."
        )
    v = np.where(is_leaf, 0.0, threshold)
    if np.isnan(v).any():
        raise ModelError("Expected numbers as thresholds, got NaN.")
    below = np.nextafter(v.astype(dtype), np.array(-np.inf, dtype)).astype(np.float64)
    v = np.where(np.isin(comparison, ("<", ">=")) & ~is_leaf, below, v)
    if np.dtype(dtype) == np.float32 and not is_rounded:
        v = deployed_thresholds(v)
    swaps = ~is_leaf & np.isin(comparison, (">", ">="))  # what is not above goes left
    missing_left = missing_first ^ swaps
    none_left = np.isneginf(v)  # of numbers: all of them go right, or left where missing values go right, too
    swaps ^= none_left & ~missing_left
    v = np.where(none_left, np.where(missing_left, np.nan, LARGEST), np.minimum(v, LARGEST))
    return Nodes(
        left=np.where(swaps, children[1], children[0]),
        right=np.where(swaps, children[0], children[1]),
        feature=feature,
        threshold=np.where(is_set, np.nan, v),
        leaf=leaf,
        missing_left=(missing_left | none_left) & ~is_leaf,
        subset=subset,
    )

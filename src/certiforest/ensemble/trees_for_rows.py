"""Trees as kernels take them: for all rows, or made for rows that miss the same values and have the same categories."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from certiforest.ensemble.tree_kernels import Aside, Trees, settle

if TYPE_CHECKING:
    from certiforest.ensemble.tree_ensemble import TreeEnsemble

MOST_SETTLED = 2**22  # nodes of trees that are kept for rows: 50 MB
LONGEST_STRIDE = 8  # steps a row takes down a tree before asking whether it has arrived


def trees_of(ensemble: TreeEnsemble) -> Trees:
    """Return the trees of an ensemble for all rows."""
    is_leaf = ensemble.feature < 0
    depth = np.maximum.reduceat(ensemble.node_depth, ensemble.tree_start[:-1])
    return Trees(
        feature=np.where(is_leaf, 0, ensemble.feature).astype(np.uint32),
        threshold=np.where(is_leaf, np.nan, ensemble.threshold),
        right=np.where(is_leaf, np.arange(ensemble.n_nodes), ensemble.right).astype(np.uint32),
        leaf=ensemble.leaf,
        above=_next(ensemble, ensemble.threshold),
        first=_next(ensemble, ensemble.low),
        high=ensemble.high,
        tree_start=ensemble.tree_start,
        stride=np.clip(depth, 1, LONGEST_STRIDE),
        aside=_aside(ensemble),
    )


def _next(ensemble: TreeEnsemble, value: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the next number above a value of the feature that each node tests, of those that are not missing."""
    with np.errstate(over="ignore"):
        following = np.nextafter(value, np.inf)
        if ensemble.blanks is None:
            return following
        low, high = ensemble.blank_bounds[:, ensemble.feature]
        return np.where(following == low, np.nextafter(high, np.inf), following)


def _aside(ensemble: TreeEnsemble) -> Aside | None:
    if ensemble.missing_left is None and ensemble.subset is None:
        return None
    nodes, sets = ensemble.nodes, ensemble.subsets or ()
    start, value = np.cumsum([0, *map(len, sets)]), np.concatenate([np.empty(0), *sets])
    return Aside(nodes.missing_left, nodes.subset, start, value)


def settled(
    ensemble: TreeEnsemble,
    trees: Trees,
    X: NDArray[np.float64],
    free: tuple[NDArray[np.bool_], NDArray[np.bool_]] | None = None,
) -> Iterator[tuple[slice, Trees]]:
    """Yield runs of rows that miss the same values and have the same categories, and trees made for them.

    Parameters
    ----------
    ensemble : TreeEnsemble
    trees : Trees
        Its own.
    X : ndarray of float64, shape (n, n_features)
    free : pair of ndarray of bool, shape (n_features,) each, optional
        Where an attacker can change the category, and where it can blank or fill. With any of the latter, every
        row has trees of its own.

    Yields
    ------
    slice, Trees
        No split of which depends on a value that is missing or a category: see `tree_Trees`.
    """
    is_missing = np.isnan(X) if trees.aside is not None else None
    if is_missing is None or not (is_missing.any() or len(ensemble.categorical) or free is not None):
        yield slice(None), trees._replace(aside=None)
        return
    may_change, may_blank = (np.zeros(ensemble.n_features, bool),) * 2 if free is None else free
    pattern = np.column_stack([is_missing, np.nan_to_num(X if may_blank.any() else X[:, ensemble.categorical])])
    starts = np.flatnonzero(np.append(True, (pattern[1:] != pattern[:-1]).any(axis=1)))
    known: dict[bytes, Trees] = {}
    for start, end in zip(starts.tolist(), [*starts[1:].tolist(), len(X)], strict=True):
        key = pattern[start].tobytes()
        if key not in known:
            if (len(known) + 1) * ensemble.n_nodes > MOST_SETTLED:
                known.clear()
            made = trees._replace(threshold=trees.threshold.copy(), right=trees.right.copy(), aside=None)
            if free is not None:
                made = made._replace(feature=trees.feature.copy(), above=trees.above.copy())
            settle(trees, X[start], may_change, may_blank, made.threshold, made.right, made.feature, made.above)
            known[key] = made
        yield slice(start, end), known[key]

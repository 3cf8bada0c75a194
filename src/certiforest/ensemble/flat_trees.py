"""Trees as flat read-only arrays: where rows go, whatever leaves mean.

From them come the trees that say the same on fewer rows (in a box, of whole numbers, with nothing missing), and the
trees as kernels take them, for all rows or for rows that miss the same values and have the same categories.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from certiforest.ensemble import tree_kernels as kernels
from certiforest.ensemble.nodes import ModelError, cut_to_box
from certiforest.ensemble.numbers import Immutable
from certiforest.ensemble.tree_kernels import LARGEST, Aside, NodeColumns, Trees

MOST_SETTLED = 2**22  # nodes of trees that are kept for rows: 50 MB
LONGEST_STRIDE = 8  # steps a row takes down a tree before asking whether it has arrived


class FlatTrees(Immutable):
    """Nodes of all trees, column by column, in preorder: `certiforest.TreeEnsemble` without what leaves mean."""

    n_features: int
    feature: NDArray
    threshold: NDArray[np.float64]
    leaf: NDArray
    right: NDArray
    tree_start: NDArray
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    missing_left: NDArray[np.bool_] | None
    subset: NDArray | None
    subsets: tuple[NDArray[np.float64], ...] | None
    required: tuple[int, ...]
    blanks: dict[int, tuple[float, float]] | None

    def _trim(self, nodes: NodeColumns, low: ArrayLike, high: ArrayLike, *, may_miss: bool | NDArray[np.bool_]) -> None:
        columns: dict[str, Any] = cut_to_box(nodes, low, high, may_miss=may_miss)
        if may_miss is False:
            columns |= {"missing_left": None, "required": ()}
        if self.subsets is None:
            columns["subset"] = None
        self._set(**columns)

    def _with_nodes(
        self,
        nodes: NodeColumns,
        low: ArrayLike = -np.inf,
        high: ArrayLike = LARGEST,
        *,
        may_miss: bool | NDArray[np.bool_] = True,
    ) -> Self:
        other = object.__new__(type(self))
        other._set(**self.__getstate__())
        other._trim(nodes, low, high, may_miss=False if self.missing_left is None else may_miss)
        return other

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what is made from the rest: it neither travels to other processes nor is copied."""
        return {name: value for name, value in vars(self).items() if not hasattr(type(self), name)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for value in state.values():
            if isinstance(value, np.ndarray):
                value.flags.writeable = False
        self._set(**state)

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return len(self.tree_start) - 1

    @property
    def n_nodes(self) -> int:
        """Number of reachable nodes in all trees, leaves included."""
        return len(self.feature)

    @cached_property
    def nodes(self) -> NodeColumns:
        """All columns of the nodes, also those that were not given."""
        missing_left = np.zeros(self.n_nodes, bool) if self.missing_left is None else self.missing_left
        subset = np.full(self.n_nodes, -1, np.int32) if self.subset is None else self.subset
        return NodeColumns(self.feature, self.threshold, self.leaf, missing_left, subset)

    @cached_property
    def blank_bounds(self) -> NDArray[np.float64]:
        """The smallest and the largest number that counts as missing, (2, n_features); NaN where there is none."""
        bounds = np.full((2, self.n_features), np.nan)
        for feature, pair in (self.blanks or {}).items():
            bounds[:, feature] = pair
        return bounds

    @cached_property
    def node_depth(self) -> NDArray[np.int64]:
        """Number of splits above each node, shape (n_nodes,)."""
        depth = np.zeros(self.n_nodes, np.int64)
        kernels.mark_depth(self.feature, self.right, depth)
        depth.flags.writeable = False
        return depth

    @cached_property
    def parent(self) -> NDArray[np.int64]:
        """The split above each node, -1 at roots, shape (n_nodes,)."""
        parent, split = np.full(self.n_nodes, -1), np.flatnonzero(self.feature >= 0)
        parent[split + 1] = parent[self.right[split]] = split
        return parent

    @property
    def tree_of_node(self) -> NDArray[np.int64]:
        """Tree index of each node, shape (n_nodes,)."""
        return np.repeat(np.arange(self.n_trees), np.diff(self.tree_start))

    @cached_property
    def number_splits(self) -> NDArray[np.int64]:
        """The nodes that compare numbers with a threshold, sorted by feature, then threshold, then node."""
        node = np.flatnonzero((self.feature >= 0) & ~np.isnan(self.threshold))
        feature = self.feature[node].astype(np.min_scalar_type(self.n_features))  # short ones are sorted sooner
        return node[np.lexsort((self.threshold[node], feature))]

    @cached_property
    def categorical(self) -> NDArray[np.int32]:
        """The features that are tested for sets of values, in order."""
        return np.unique(self.feature[[] if self.subset is None else self.subset >= 0])

    def values_in_sets(self, feature: int) -> NDArray[np.float64]:
        """Return the values in the sets that a feature is tested for, in order."""
        is_tested = (self.feature == feature) & (self.nodes.subset >= 0)
        sets = np.unique(self.nodes.subset[is_tested]).tolist()
        return np.unique(np.concatenate([np.empty(0), *((self.subsets or ())[s] for s in sets)]))

    @cached_property
    def trees(self) -> Trees:
        """The arrays as kernels take them, for all rows."""
        is_leaf = self.feature < 0
        depth = np.maximum.reduceat(self.node_depth, self.tree_start[:-1])
        aside = None
        if self.missing_left is not None or self.subset is not None:
            sets = self.subsets or ()
            start, value = np.cumsum([0, *map(len, sets)]), np.concatenate([np.empty(0), *sets])
            aside = Aside(self.nodes.missing_left, self.nodes.subset, start, value)
        return Trees(
            feature=np.where(is_leaf, 0, self.feature).astype(np.uint32),
            threshold=np.where(is_leaf, np.nan, self.threshold),
            right=np.where(is_leaf, np.arange(self.n_nodes), self.right).astype(np.uint32),
            leaf=self.leaf,
            above=self._next(self.threshold),
            first=self._next(self.low),
            high=self.high,
            tree_start=self.tree_start,
            stride=np.clip(depth, 1, LONGEST_STRIDE),
            aside=aside,
        )

    def _next(self, value: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the next number above a value of the feature that each node tests, of those that are not missing."""
        with np.errstate(over="ignore"):
            following = np.nextafter(value, np.inf)
            low, high = self.blank_bounds[:, self.feature]
            return np.where(following == low, np.nextafter(high, np.inf), following)

    def _trees_for(self, X: NDArray[np.float64]) -> Trees:
        """Return the trees without what rows of numbers have no need of."""
        trees = self.trees
        with np.errstate(over="ignore", invalid="ignore"):
            if trees.aside is None or len(self.categorical) or np.isnan(X.sum()):
                return trees
        return trees._replace(aside=None)

    def within(self, low: NDArray, high: NDArray) -> Self:
        """Return the ensemble that does the same on rows with ``low <= x <= high`` and has no other branches."""
        low, high = np.maximum(low, -LARGEST), np.minimum(high, LARGEST)
        with np.errstate(over="ignore"):
            if self.blanks is not None:  # it ends where numbers begin that count as missing
                first, last = self.blank_bounds
                start = np.where((first <= low) & (low <= last) & (last < high), np.nextafter(last, np.inf), low)
                high = np.where((first <= high) & (high <= last) & (low < first), np.nextafter(first, -np.inf), high)
                low = start
            return self._with_nodes(self.nodes, np.nextafter(low, -np.inf), high)

    def on_whole_numbers(self, which: NDArray[np.bool_]) -> Self:
        """Return the ensemble that does the same on rows that are whole in some columns, its thresholds there whole."""
        threshold = np.where(which[self.feature] & (self.feature >= 0), np.floor(self.threshold), self.threshold)
        return self._with_nodes(self.nodes._replace(threshold=threshold))

    @cached_property
    def of_numbers(self) -> Self:
        """The ensemble that says the same of rows in which nothing is missing, and has no place for others."""
        if self.blanks is not None:
            raise ModelError("Expected a model of numbers, got one in which some numbers count as missing.")
        return self._with_nodes(self.nodes, may_miss=False)

    def never_missing(self, features: NDArray[np.bool_]) -> Self:
        """Return the ensemble that says the same of rows in which these features, a mask, are not missing."""
        return self._with_nodes(self.nodes, may_miss=~features)

    def ranges_of_trees(self, value: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the lowest and highest values of the leaves of each tree, shape (2, n_trees, n_columns).

        ``value`` (n_values, n_columns) are those that leaves are rows of.
        """
        row, start = self._leaf_rows
        columns = (column[row] for column in np.ascontiguousarray(value.T))  # all at once would be much
        return np.stack([[end.reduceat(of_leaf, start) for end in (np.minimum, np.maximum)] for of_leaf in columns], 2)

    @cached_property
    def _leaf_rows(self) -> tuple[NDArray, NDArray]:
        """The values that leaves have, and where those of each tree begin."""
        is_leaf = self.feature < 0
        return self.leaf[is_leaf], np.append(0, np.cumsum(is_leaf))[self.tree_start[:-1]]


def settled(
    ensemble: FlatTrees,
    trees: Trees,
    X: NDArray[np.float64],
    free: tuple[NDArray[np.bool_], NDArray[np.bool_]] | None = None,
) -> Iterator[tuple[slice, Trees]]:
    """Yield runs of rows that miss the same values and have the same categories, and trees made for them.

    No split of these, which are made of the ensemble's ``trees``, depends on a value that is missing or a category: see
    `Trees`. ``free`` tells, by feature, where an attacker can change the category, and where it can blank or fill. With
    any of the latter, every row has trees of its own.
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
            kernels.settle(trees, X[start], may_change, may_blank, made.threshold, made.right, made.feature, made.above)
            known[key] = made
        yield slice(start, end), known[key]

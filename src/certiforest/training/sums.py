"""What trainers of sums share: rows with weights, where sums begin, and trees with values as an ensemble."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from certiforest.ensemble import Nodes, TreeEnsemble
from certiforest.training.leaves_in_reach import Tree

GRID = 2.0**-32  # values are whole multiples of this, so that sums of them are exact
LEAST_SHARE = 1e-6  # of the weight of a class, so that its logarithm is finite


class LabelledRows(NamedTuple):
    """Rows with class indices and weights, shapes (n_rows, n_features), (n_rows,) and (n_rows,)."""

    X: NDArray[np.float64]
    y_index: NDArray
    weight: NDArray[np.float64]

    @classmethod
    def weighted(cls, X: NDArray[np.float64], y_index: NDArray, weight: NDArray[np.float64] | None) -> LabelledRows:
        """Return the rows that have a weight; all count alike if there are none."""
        rows = cls(X, y_index, np.ones(len(X)) if weight is None else weight)
        return rows if rows.weight.all() else rows.take(np.flatnonzero(rows.weight))

    def take(self, rows: NDArray[np.int64]) -> LabelledRows:
        """Return some of the rows."""
        return LabelledRows(self.X[rows], self.y_index[rows], self.weight[rows])


def class_offsets(rows: LabelledRows, n_classes: int, is_exponential: bool) -> NDArray[np.float64]:
    """Return the sums that fit best without trees, shape (n_classes,)."""
    share = np.bincount(rows.y_index, weights=rows.weight, minlength=n_classes) / rows.weight.sum()
    return on_grid(np.log(np.maximum(share, LEAST_SHARE)) * (0.5 if is_exponential else 1.0))


def on_grid(value: NDArray[np.float64]) -> NDArray[np.float64]:
    """Round to whole multiples of `GRID`."""
    return np.round(value / GRID) * GRID


def sum_ensemble(
    trees: Sequence[Tree], values: Sequence[NDArray[np.float64]], base: NDArray[np.float64], n_features: int,
    classes: NDArray, feature_names: list[str] | None,
) -> TreeEnsemble:  # fmt: skip
    """Return trees whose leaves add ``values[tree]``, shape (n_nodes, n_classes), to the sums of the classes.

    Two classes share one output, the second's sum minus the first's.
    """
    offset = np.cumsum([0, *map(len, values)])
    value = np.concatenate([*values, base[None]])
    if len(base) == 2:
        value, base = value[:, 1:] - value[:, :1], base[1:] - base[:1]
    nodes = [
        Nodes(tree.left, tree.right, tree.feature, tree.threshold, np.arange(len(own)) + first, tree.missing_left)
        for tree, own, first in zip(trees, values, offset, strict=False)
    ]
    if not nodes:  # an ensemble has at least one tree: a leaf that adds nothing
        value = np.zeros_like(value)
        nodes = [Nodes([-1], [-1], [-1], [0.0], [0], [False])]
    return TreeEnsemble.from_trees(
        nodes, n_features=n_features, classes=classes, feature_names=feature_names, scores=value, base=base
    )

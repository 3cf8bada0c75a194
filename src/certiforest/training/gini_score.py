"""GiniScore: what a split is worth when the attacker moves the rows near it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from certiforest.training import grower_kernels as kernels
from certiforest.training.grower import Found, Frontier, GrowthData
from certiforest.training.split_kernels import mark_worse_sides, search_gini


class GiniScore:
    """The worst-case gain in Gini impurity; a leaf says the class that weighs most.

    Trees whose leaves get values of their own later may use it just as well: if weights are the slopes of the rows'
    losses, the gain is that of a Newton step whose curvature is the slope, as it is for the exponential loss.

    Parameters
    ----------
    class_index : ndarray of int, shape (n_rows,)
    n_classes : int
    min_samples_leaf : int
        Rows that each side of a split must have.
    moves_by_class : bool
        What the attacker does with near rows. False: the worst of moving none, all left, all right or all across;
        near rows then belong to both children. True: rows of each class go to the side that suits it less.
    is_held : ndarray of bool, shape (n_classes,), optional
        The classes whose rows nobody moves; none if not given.
    """

    def __init__(
        self, class_index: NDArray, n_classes: int, min_samples_leaf: int, moves_by_class: bool = False,
        is_held: NDArray[np.bool_] | None = None,
    ) -> None:  # fmt: skip
        self.class_index = class_index.astype(np.min_scalar_type(n_classes - 1))
        self.n_classes = n_classes
        self.min_samples_leaf = min_samples_leaf
        self.moves_by_class = moves_by_class
        self.is_held = np.zeros(n_classes, bool) if is_held is None else is_held

    def totals(self, frontier: Frontier) -> NDArray[np.float64]:
        """Return the weight of each class in each node, shape (n_nodes, n_classes)."""
        weights = np.zeros((len(frontier.node), self.n_classes))
        kernels.sum_class_weights(frontier.row, frontier.weight, frontier.start, self.class_index, weights)
        return weights

    def leaves(self, frontier: Frontier, totals: NDArray[np.float64]) -> tuple[NDArray, NDArray[np.bool_]]:
        """Return the heaviest class of each node, and whether it is the only one or has too few rows to part."""
        is_small = np.diff(frontier.start) < 2 * self.min_samples_leaf
        return totals.argmax(axis=1), ((totals > 0).sum(axis=1) <= 1) | is_small

    def search(
        self, data: GrowthData, frontier: Frontier, totals: NDArray[np.float64], node: NDArray, feature: NDArray,
        block: slice, out: Found,
    ) -> None:  # fmt: skip
        """Search the entries of a block."""
        search_gini(
            data.bins, data.centre, data.reach, data.ledger.claims,
            frontier.row, frontier.weight, frontier.start, frontier.tree, totals, self.class_index,
            node, feature, block.start, block.stop, self.min_samples_leaf, self.moves_by_class,
            self.is_held, out,
        )  # fmt: skip

    def near_sides(
        self, data: GrowthData, frontier: Frontier, totals: NDArray[np.float64], split: NDArray, feature: NDArray,
        threshold: NDArray, missing_side: NDArray[np.int8],
    ) -> NDArray[np.int8]:  # fmt: skip
        """Send near rows to both sides, or those of each class to the side that suits it less; held ones stay."""
        if not self.moves_by_class:
            side = np.where(self.is_held, kernels.OWN, kernels.BOTH).astype(np.int8)
            return np.tile(side, (len(split), 1))
        goes_left = np.empty((len(split), self.n_classes), np.bool_)
        mark_worse_sides(
            data.bins.code, data.centre, data.reach, frontier.row, frontier.weight, frontier.start,
            self.class_index, split, feature, threshold, missing_side, totals, self.is_held, goes_left,
        )  # fmt: skip
        side = np.where(goes_left, kernels.LEFT, kernels.RIGHT)
        return np.where(self.is_held, kernels.OWN, side).astype(np.int8)

"""GiniScore: what a split is worth when the attacker moves the rows near it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from certiforest.training import grower_kernels as kernels
from certiforest.training.grower import Chosen, Entries, Found, Frontier, GrowthData
from certiforest.training.split_kernels import GiniRule, Rows, mark_worse_sides, search_gini


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
        What the attacker does with near rows when a split is scored. False: the worst of moving none, all left, all
        right or all across. True: rows of each class go to the side that suits it less.
    min_samples_split : int
        Rows that a node must have to be split.
    keeps_both : bool
        Whether near rows then belong to both children, or to the side to which the score moved them.
    is_held : ndarray of bool, shape (n_classes,), optional
        The classes whose rows nobody moves; none if not given.
    """

    def __init__(
        self, class_index: NDArray, n_classes: int, min_samples_leaf: int, moves_by_class: bool = False,
        min_samples_split: int = 2, keeps_both: bool = True, is_held: NDArray[np.bool_] | None = None,
    ) -> None:  # fmt: skip
        self.class_index = class_index.astype(np.min_scalar_type(n_classes - 1))
        self._keeps_both = keeps_both
        self._least_rows = max(min_samples_split, 2 * min_samples_leaf)
        is_held = np.zeros(n_classes, bool) if is_held is None else is_held
        self._rule = GiniRule(self.class_index, min_samples_leaf, moves_by_class, is_held, bool(is_held.any()))

    def totals(self, frontier: Frontier) -> NDArray[np.float64]:
        """Return the weight of each class in each node, shape (n_nodes, n_classes)."""
        weights = np.zeros((len(frontier.node), len(self._rule.is_held)))
        kernels.sum_class_weights(frontier, self.class_index, weights)
        return weights

    def leaves(self, frontier: Frontier, totals: NDArray[np.float64]) -> tuple[NDArray, NDArray[np.bool_]]:
        """Return the heaviest class of each node, and whether it is the only one or has too few rows to part."""
        is_small = np.diff(frontier.start) < self._least_rows
        return totals.argmax(axis=1), ((totals > 0).sum(axis=1) <= 1) | is_small

    def search(
        self, data: GrowthData, frontier: Frontier, totals: NDArray[np.float64], entries: Entries, out: Found
    ) -> None:
        """Search the best open split of each entry."""
        rows = Rows(data.bins, data.uncommon, data.reach)
        search_gini(rows, data.ledger.claims, frontier, totals, self._rule, not data.closes, entries, out)

    def near_sides(
        self, data: GrowthData, frontier: Frontier, totals: NDArray[np.float64], chosen: Chosen
    ) -> NDArray[np.int8]:
        """Send near rows to both sides, or those of each class to the side that suits it less; held ones stay."""
        is_held, n_splits = self._rule.is_held, len(chosen.node)
        if self._keeps_both:
            return np.tile(np.where(is_held, kernels.OWN, kernels.BOTH).astype(np.int8), (n_splits, 1))
        goes_left = np.empty((n_splits, len(is_held)), np.bool_)
        mark_worse_sides(data.bins, data.reach, frontier, totals, self._rule, chosen, goes_left)
        side = np.where(goes_left, kernels.LEFT, kernels.RIGHT)
        return np.where(is_held, kernels.OWN, side).astype(np.int8)

"""Margins: how safely each training row wins the vote when every tree does its worst.

A forest grown in rounds turns to the rows whose margin is small. The margin of a row is the number of trees that
vote for its class whatever the attacker does, minus the number that can be made to vote for the strongest rival:
with large spread and norm inf, the row is robust iff this is positive (or zero, if it wins the tie).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from certiforest.training import margin_kernels as kernels
from certiforest.training.grower import GrownTrees
from certiforest.training.leaves_in_reach import LeavesInReach

LARGEST_EXPONENT = 100.0  # keeps weights above zero


class Margins:
    """Worst-case votes for the training rows.

    Parameters
    ----------
    X : ndarray of float64, shape (n_rows, n_features)
    class_index : ndarray of int, shape (n_rows,)
    n_classes : int
    reach : ndarray of float64, shape (n_features,)
        How far the attacker moves each feature.
    """

    def __init__(
        self, X: NDArray[np.float64], class_index: NDArray, n_classes: int, reach: NDArray[np.float64]
    ) -> None:
        self._class_index = class_index
        self._leaves = LeavesInReach(X, reach)
        self._own = np.zeros(len(X), np.int64)
        self._rival = np.zeros((len(X), n_classes), np.int64)

    def add(self, grown: GrownTrees) -> None:
        """Count the votes of some more trees."""
        for root in grown.roots():
            self._count(*self._leaves.of(grown, root), grown.leaf, 1)

    def weights(self, focus: float) -> NDArray[np.float64]:
        """Return how much each row still matters, from 1 (undecided) to 0 (surely won or lost), shape (n_rows,).

        This is four times the slope of the logistic function of ``focus`` times the margin, in whole multiples of
        2**-20: sums of such numbers are exact, so that no result depends on the order of rows.
        """
        margin = self._own - self._rival.max(axis=1)
        slope = 1 / np.cosh(np.minimum(focus / 2 * np.abs(margin), LARGEST_EXPONENT)) ** 2
        return np.ceil(slope * 2**20) / 2**20

    def relabel(self, grown: GrownTrees, sample_weight: NDArray[np.float64], focus: float, n_sweeps: int) -> None:
        """Let each leaf, tree after tree, say what helps most the rows that can reach it, given the other trees."""
        weight = np.empty((len(grown.leaf), self._rival.shape[1]))
        for _ in range(n_sweeps):
            for root in grown.roots():
                start, leaf = self._leaves.of(grown, root)
                self._count(start, leaf, grown.leaf, -1)
                reached = np.unique(leaf)
                weight[reached] = 0.0
                kernels.sum_leaf_weights(start, leaf, self._class_index, sample_weight * self.weights(focus), weight)
                grown.leaf[reached] = weight[reached].argmax(axis=1)
                self._count(start, leaf, grown.leaf, 1)

    def _count(self, start: NDArray, leaf: NDArray, says: NDArray, sign: int) -> None:
        kernels.count_worst_votes(start, leaf, says, self._class_index, sign, self._own, self._rival)

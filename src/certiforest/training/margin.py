"""Margins: how safely each training row wins the vote when every tree does its worst.

A forest grown in rounds turns to the rows whose margin is small. The margin of a row is the number of trees that
vote for its class whatever the attacker does, minus the number that can be made to vote for the strongest rival:
with large spread and norm inf, the row is robust iff this is positive (or zero, if it wins the tie).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from certiforest.training.grower import GrownTrees
from certiforest.training.worst_case import WorstCase
from certiforest.training.worst_case_kernels import sum_leaf_weights

LARGEST_EXPONENT = 100.0  # keeps weights above zero


class Margins:
    """Worst-case votes for the training rows.

    Parameters
    ----------
    case : WorstCase
        The rows, without trees.
    n_classes : int
    """

    def __init__(self, case: WorstCase, n_classes: int) -> None:
        self._case = case
        self._votes = np.eye(n_classes)  # what a leaf of each class adds

    def add(self, grown: GrownTrees) -> None:
        """Count the votes of some more trees."""
        value = self._votes[grown.leaf]
        for root in grown.roots():
            self._case.add(self._case.reached(grown, root), value)

    def weights(self, focus: float) -> NDArray[np.float64]:
        """Return how much each row still matters, from 1 (undecided) to 0 (surely won or lost), shape (n_rows,).

        This is four times the slope of the logistic function of ``focus`` times the margin, in whole multiples of
        2**-20: sums of such numbers are exact, so that no result depends on the order of rows.
        """
        margin = self._case.margin()
        margin[np.arange(len(margin)), self._case.class_index] = np.inf
        slope = 1 / np.cosh(np.minimum(focus / 2 * np.abs(margin.min(axis=1)), LARGEST_EXPONENT)) ** 2
        return np.ceil(slope * 2**20) / 2**20

    def relabel(self, grown: GrownTrees, sample_weight: NDArray[np.float64], focus: float, n_sweeps: int) -> None:
        """Let each leaf, tree after tree, say what helps most the rows that can reach it, given the other trees."""
        weight = np.empty((len(grown.leaf), len(self._votes)))
        for _ in range(n_sweeps):
            for root in grown.roots():
                reached = self._case.reached(grown, root)
                self._case.add(reached, self._votes[grown.leaf], -1.0)
                leaves = np.unique(reached.leaf)
                weight[leaves] = 0.0
                sum_leaf_weights(reached, self._case.class_index, sample_weight * self.weights(focus), weight)
                grown.leaf[leaves] = weight[leaves].argmax(axis=1)
                self._case.add(reached, self._votes[grown.leaf])

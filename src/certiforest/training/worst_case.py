"""WorstCase: the margins of some rows in a sum of trees when every tree does its worst, and the loss of them.

With large spread and norm inf these margins are exact: attacks on different trees never meet, so the worst case of
the sum is the sum of the worst cases. The loss is convex in the values of the leaves of one tree, and of all.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from certiforest.training import worst_case_kernels as kernels
from certiforest.training.grower import GrownTrees
from certiforest.training.leaves_in_reach import LeavesInReach

GRID = 2.0**-32  # values are whole multiples of this, so that sums of them are exact
LARGEST_VALUE = 4.0  # of a leaf, before shrinkage: exp(4) is 55 to 1
WEIGHT_GRID = 2.0**-20  # weights are whole multiples: no split depends on the order in which rows are added up
LARGEST_WEIGHT = 2.0**20


class WorstCase:
    """Rows with their worst-case margins.

    Parameters
    ----------
    X : ndarray of float64, shape (n_rows, n_features)
    class_index : ndarray of int, shape (n_rows,)
    weight : ndarray of float64, shape (n_rows,)
    reach : ndarray of float64, shape (n_features,)
        How far the attacker moves each feature.
    base : ndarray of float64, shape (n_classes,)
        Where the sum of each class begins.
    is_exponential : bool
        Whether the loss is ``sum_c exp(-margin[c])`` instead of ``log(1 + sum_c exp(-margin[c]))``.

    Attributes
    ----------
    margin : ndarray of float64, shape (n_rows, n_classes)
        By how much, at least, each row's class leads each rival; 0 in the column of its own class.
    """

    def __init__(
        self, X: NDArray[np.float64], class_index: NDArray, weight: NDArray[np.float64], reach: NDArray[np.float64],
        base: NDArray[np.float64], is_exponential: bool,
    ) -> None:  # fmt: skip
        self._class_index = class_index
        self._weight = weight
        self._leaves = LeavesInReach(X, reach)
        self._is_exponential = is_exponential
        self.margin = base[class_index][:, None] - base

    def loss(self) -> float:
        """Return the mean loss."""
        return kernels.sum_losses(self.margin, self._class_index, self._weight, self._is_exponential) / (
            self._weight.sum()
        )

    def row_weights(self) -> NDArray[np.float64]:
        """Return how fast the loss falls with the margins of each row, shape (n_rows,)."""
        slope = np.empty(len(self.margin))
        kernels.sum_rivals(self.margin, self._class_index, self._is_exponential, slope)
        return np.minimum(np.ceil(slope / WEIGHT_GRID) * WEIGHT_GRID, LARGEST_WEIGHT) * self._weight

    def add(self, grown: GrownTrees, value: NDArray[np.float64], sign: float = 1.0) -> None:
        """Add one tree's values, or take them away with sign -1.0."""
        start, leaf = self._leaves.of(grown, 0)
        kernels.add_worst_case(start, leaf, value, self._class_index, sign, self.margin)

    def fit_values(self, grown: GrownTrees, value: NDArray[np.float64], l2: float, n_steps: int) -> NDArray[np.float64]:
        """Improve a tree's values given the margins of the other trees.

        Each step is Newton's for the leaves to which the attacker sends each row against each rival at the best
        values so far. It is halved whenever it does not help: the loss has kinks where the attacker is indifferent.

        Parameters
        ----------
        grown : GrownTrees
            One tree, not added.
        value : ndarray of float64, shape (n_nodes, n_classes)
            Where to begin.
        l2 : float
            Weight of half the sum of squared values.
        n_steps : int
        """
        start, leaf = self._leaves.of(grown, 0)
        n_classes = value.shape[1]
        step = (n_classes - 1) / n_classes  # classes move together: one degree of freedom less
        best, best_loss, direction = value, np.inf, np.zeros_like(value)
        for _ in range(n_steps + 1):
            slope, curvature = l2 * value, np.full_like(value, l2)
            loss = 0.5 * l2 * (value**2).sum() + kernels.sum_slopes(
                start, leaf, value, self.margin, self._class_index, self._weight, self._is_exponential,
                slope, curvature,
            )  # fmt: skip
            if loss < best_loss:
                best, best_loss = value, loss
                direction = np.divide(-slope, curvature, out=np.zeros_like(slope), where=curvature > 0)
            else:
                step /= 2
            value = np.clip(best + step * direction, -LARGEST_VALUE, LARGEST_VALUE)
        return best

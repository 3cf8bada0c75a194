"""WorstLoss: the loss of worst-case margins, which boosting lowers. It is convex in the values of the leaves."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from certiforest.training import worst_loss_kernels as kernels
from certiforest.training.leaves_in_reach_kernels import Reached
from certiforest.training.worst_case import WorstCase

LARGEST_VALUE = 4.0  # of a leaf, before shrinkage: exp(4) is 55 to 1
WEIGHT_GRID = 2.0**-20  # weights are whole multiples: no split depends on the order in which rows are added up
LARGEST_WEIGHT = 2.0**20
DISCOUNT_GRID = 2.0**-10
SMALLEST_ODDS = 1e-300  # that have a logarithm


class WorstLoss:
    """The loss of some rows in a sum of trees.

    Parameters
    ----------
    case : WorstCase
        The rows with the margins of the trees so far.
    weight : ndarray of float64, shape (n_rows,)
    is_exponential : bool
        Whether the loss is ``sum_c exp(-margin[c])`` instead of ``log(1 + sum_c exp(-margin[c]))``.
    forgiveness : float
        If q > 0, a row with this loss l counts as ``(1 - exp(-q * l)) / q``: no row can cost more than 1 / q.
    """

    def __init__(
        self, case: WorstCase, weight: NDArray[np.float64], is_exponential: bool, forgiveness: float = 0.0
    ) -> None:
        self.case = case
        self._weight = weight
        self._is_exponential = is_exponential
        self._forgiveness = forgiveness

    def forgiving(self) -> WorstLoss:
        """Return the convex loss that lies above this one and touches it at the present margins.

        What counts is concave in a row's loss, so its tangent lies above: the same loss with less weight on rows that
        are lost. What lowers it lowers this loss.
        """
        if self._forgiveness == 0.0:
            return self
        discount = np.ceil(np.exp(-self._forgiveness * self._rows()[0]) / DISCOUNT_GRID) * DISCOUNT_GRID
        return WorstLoss(self.case, self._weight * discount, self._is_exponential)

    def against_rest(self, one: int) -> WorstLoss:
        """Return the loss as that of two classes, all others (0) and one (1), while nothing but sums of the one change.

        If a tree for that class changes margins by z, the loss of a row of the class that had margins m is

            log(1 + sum_c exp(-m[c] - z))  =  log(1 + exp(log(sum_c exp(-m[c])) - z)),

        as if it had the margin ``-log(sum_c exp(-m[c]))``; and that of any other row, with r summed over other rivals,

            log(1 + r + exp(-m[one] - z))  =  log(1 + r) + log(1 + exp(-m[one] - log(1 + r) - z)).

        Without the logarithm r plays no part.
        """
        margin, class_index = self.case.margin(), self.case.class_index
        is_one = class_index == one
        odds = np.exp(np.minimum(-margin, kernels.LARGEST_EXPONENT))
        odds[np.arange(len(margin)), class_index] = 0.0
        total = odds.sum(axis=1)
        two = np.zeros((len(margin), 2))
        two[is_one, 0] = -np.log(np.maximum(total[is_one], SMALLEST_ODDS))
        two[~is_one, 1] = margin[~is_one, one]
        if not self._is_exponential:
            two[~is_one, 1] += np.log1p(np.maximum(total - odds[:, one], 0.0)[~is_one])
        return WorstLoss(self.case.with_margin(is_one.astype(np.uint8), two), self._weight, self._is_exponential)

    def mean(self) -> float:
        """Return the mean loss."""
        loss, q = self._rows()[0], self._forgiveness
        return float(np.average(-np.expm1(-q * loss) / q if q > 0 else loss, weights=self._weight))

    def row_weights(self) -> NDArray[np.float64]:
        """Return how fast the loss falls with the margins of each row, shape (n_rows,)."""
        slope = self._rows()[1]
        return np.minimum(np.ceil(slope / WEIGHT_GRID) * WEIGHT_GRID, LARGEST_WEIGHT) * self._weight

    def _rows(self) -> NDArray[np.float64]:
        """Return the loss of each row and its slope, not forgiven, shape (2, n_rows)."""
        margin = self.case.margin()
        out = np.empty((2, len(margin)))
        kernels.sum_rivals(margin, self.case.class_index, self._is_exponential, out)
        return out

    def fit_values(self, reached: Reached, value: NDArray[np.float64], l2: float, n_steps: int) -> NDArray[np.float64]:
        """Improve a tree's values given the margins of the other trees.

        Each step is Newton's for the leaves to which the attacker sends each row against each rival at the best
        values so far. It is halved whenever it does not help: the loss has kinks where the attacker is indifferent.

        Parameters
        ----------
        reached : Reached
            What the rows reach in a tree that is not added.
        value : ndarray of float64, shape (n_nodes, n_classes)
            Where to begin.
        l2 : float
            Weight of half the sum of squared values.
        n_steps : int
        """
        margin, price = self.case.margin_and_price()
        n_classes = value.shape[1]
        step = (n_classes - 1) / n_classes  # classes move together: one degree of freedom less
        best, best_loss, direction = value, np.inf, np.zeros_like(value)
        for _ in range(n_steps + 1):
            out = np.stack([l2 * value, np.full_like(value, l2)])
            loss = 0.5 * l2 * (value**2).sum() + kernels.sum_slopes(
                reached, value, margin, price, self.case.class_index, self._weight, self._is_exponential, out
            )
            if loss < best_loss:
                best, best_loss = value, loss
                direction = np.divide(-out[0], out[1], out=np.zeros_like(value), where=out[1] > 0)
            else:
                step /= 2
            value = np.clip(best + step * direction, -LARGEST_VALUE, LARGEST_VALUE)
        return best

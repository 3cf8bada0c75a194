"""WorstCase: by how much each row's class leads every rival when the attacker has done the worst; and its loss.

Trees that vote have leaves of value 1 for their class; trees that add up have values of their own. Which leaves are in
reach is asked by the rule of verdicts itself (`other_side_is_near`). For norm inf the attacker may do the worst to
every tree at once: with large spread, what training counts as robust is what `certify` calls so, to the last bit.

Other norms give the attacker one budget B for all trees, and the worst case of a row is a knapsack. For any price
p >= 0 of a unit of cost it is no worse than

    sum over trees of the least (lead of a leaf + p * cost of reaching it)  -  p * B

which is a sum over trees again. It is kept for several prices; the best of them is the row's margin (a bound from
below, and nearly exact where trees are many and small).
"""

from __future__ import annotations

import math
from copy import copy

import numpy as np
from numpy.typing import NDArray

from certiforest.attack.attacker import Attacker
from certiforest.ensemble import Nodes
from certiforest.training import worst_case_kernels as kernels
from certiforest.training.worst_case_kernels import EXPONENTIAL, SQUARED, Reach, Reached, TreeSplits

SHARE_OF_BUDGET = 0.125  # that the attacker is thought to spend on one feature where costs add up
LARGEST_VALUE = 4.0  # of a leaf, before shrinkage: exp(4) is 55 to 1
WEIGHT_GRID = 2.0**-20  # weights are whole multiples: no split depends on the order in which rows are added up
LARGEST_WEIGHT = 2.0**20
DISCOUNT_GRID = 2.0**-10
SMALLEST_ODDS = 1e-300  # that have a logarithm
LOSSES = ("log_loss", "exponential", "squared_error", "absolute_error")  # as kernels number them
TIED = np.array([[0.0, 0.0, 0.0], [0.0, 1.0, -1.0], [0.0, -1.0, 1.0]])  # outputs that are a number and its negative


def tied(kind: int, slope: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return slopes in what is added to outputs, (..., n_classes): those of numbers move against each other."""
    return slope @ TIED if kind >= SQUARED else slope


class WorstCase:
    """Rows with their worst-case margins.

    Parameters
    ----------
    X : ndarray of float64, shape (n_rows, n_features)
    class_index : ndarray of int, shape (n_rows,)
    n_classes : int
    attacker : Attacker
    base : ndarray of float64, shape (n_classes,), optional
        Where the sum of each class begins; at zero if not given.
    charges : ndarray of float64, shape (n_prices,), optional
        What the whole budget costs at each price. For norm inf, where moves cost nothing, there is only 0.
    is_held : ndarray of bool, shape (n_classes,), optional
        The classes whose rows nobody moves: these count at their own leaves. None if not given.
    """

    def __init__(
        self, X: NDArray[np.float64], class_index: NDArray, n_classes: int, attacker: Attacker,
        base: NDArray[np.float64] | None = None, charges: NDArray[np.float64] | None = None,
        is_held: NDArray[np.bool_] | None = None,
    ) -> None:  # fmt: skip
        self.class_index = class_index
        self._is_held = (np.zeros(n_classes, bool) if is_held is None else is_held)[class_index]
        self._columns = np.ascontiguousarray(X.T)  # rows go down one tree together
        self._has_missing = bool(np.isnan(X).any())
        self._found = Reached(np.empty(len(X) + 1, np.int64), np.empty(2 * len(X), np.int64), np.empty(2 * len(X)))
        # For norm inf moves cost nothing, else powers of distances that add up; norm 0 counts moves of any size.
        is_box, n_features, budget = attacker.norm == math.inf, X.shape[1], total_budget(attacker)
        unit = np.ones((2, n_features)) if attacker.norm == 0 else attacker.scales(n_features)
        self._reach = Reach(attacker.moves(n_features).budgets(), unit, -1 if is_box else int(attacker.norm), budget)
        self._charges = np.zeros(1) if charges is None or is_box else charges
        self._prices = self._charges / (1.0 if is_box else budget)
        start = np.zeros(n_classes) if base is None else base
        self._margins = np.empty((len(self._prices), len(X), n_classes))
        self._margins[:] = start[class_index][:, None] - start

    def copy(self) -> WorstCase:
        """Return the same rows and margins, to go on from here in another way."""
        other = copy(self)
        other._margins = self._margins.copy()
        return other

    def with_margin(self, class_index: NDArray, margin: NDArray[np.float64]) -> WorstCase:
        """Return the same rows with other classes and margins, shape (n_rows, n_classes); for norm inf only."""
        other = copy(self)
        other.class_index, other._margins = class_index, margin[None]
        return other

    def reached(self, tree: Nodes) -> Reached:
        """Return the leaves of a tree that each row can be moved to; valid until the next call."""
        left, right = np.array(tree.left, np.int64), np.array(tree.right, np.int64)
        feature = np.where(left < 0, -1, np.asarray(tree.feature, np.int64))
        low, high = np.empty((2, len(left)))
        missing_left = np.zeros(len(left), bool) if tree.missing_left is None else np.array(tree.missing_left)
        splits = TreeSplits(feature, np.array(tree.threshold, np.float64), left, right, low, high, missing_left)
        stack, parent = np.empty((2, len(left) + 1), np.int64)
        kernels.bound_splits(splits, self._has_missing, stack, parent)
        args = splits, self._columns, self._is_held, self._reach, stack, np.empty(len(stack))
        n_leaves = kernels.list_leaves_in_reach(*args, self._found)
        if n_leaves > len(self._found.leaf):
            self._found = Reached(self._found.start, np.empty(2 * n_leaves, np.int64), np.empty(2 * n_leaves))
            kernels.list_leaves_in_reach(*args, self._found)
        return Reached(self._found.start, self._found.leaf[:n_leaves], self._found.cost[:n_leaves])

    def add(self, reached: Reached, value: NDArray[np.float64], sign: float = 1.0) -> None:
        """Add a tree with leaf values of shape (n_nodes, n_classes), or take it away (sign -1.0)."""
        kernels.add_worst_case(reached, value, self.class_index, self._prices, sign, self._margins)

    def margin(self) -> NDArray[np.float64]:
        """Return the worst-case lead over each class, shape (n_rows, n_classes); 0 in the column of a row's own."""
        return self.margin_and_price()[0]

    def margin_and_price(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the margins and the price at which each was found, shape (n_rows, n_classes) each."""
        if not self._charges.any():  # moves cost nothing
            margin, price = self._margins[0].copy(), np.zeros(self._margins.shape[1:])
        else:
            best = (self._margins - self._charges[:, None, None]).argmax(axis=0)
            charge, price = self._charges[best], self._prices[best]
            charge[self._is_held] = 0.0  # no budget is spent on them
            margin = np.take_along_axis(self._margins, best[None], axis=0)[0] - charge
        margin[np.arange(len(margin)), self.class_index] = 0.0
        return margin, price

    def is_won(self) -> NDArray[np.bool_]:
        """Return which rows keep their class whatever the attacker does, shape (n_rows,); of equals the first wins."""
        margin, own = self.margin(), self.class_index[:, None].astype(np.int64)
        return ((margin > 0) | ((margin == 0) & (own <= np.arange(margin.shape[1])))).all(axis=1)


def total_budget(attacker: Attacker) -> float:
    """Return what all moves together may cost: the power of eps, rounded; eps itself for norm 0, no limit for inf."""
    if attacker.norm == math.inf:
        return math.inf
    return attacker.eps if attacker.norm == 0 else attacker.eps**attacker.norm


def as_box(attacker: Attacker) -> Attacker:
    """Return an attacker who moves every feature at once, as one with a budget for all can be thought to; norm inf.

    Where costs add up, a feature gets a share of the budget: ``eps * SHARE_OF_BUDGET**(1 / norm)``. For norm 0 nobody
    moves: every threshold is in reach of every row, a score that counts rows in reach would find all splits worthless,
    and what protects a forest is only that each feature belongs to one tree.
    """
    if attacker.norm == math.inf:
        return attacker
    eps = 0.0 if attacker.norm == 0 else attacker.eps * SHARE_OF_BUDGET ** (1 / attacker.norm)
    return attacker.replace(norm=math.inf, eps=eps)


class WorstLoss:
    """The loss of the worst case of some rows in a sum of trees, convex in the values of the leaves.

    Parameters
    ----------
    case : WorstCase
        The rows with the margins of the trees so far.
    weight : ndarray of float64, shape (n_rows,)
    kind : int
        Which of `LOSSES`, see `worst_case_kernels.weigh_rivals`.
    forgiveness : float
        If q > 0, a row with this loss l counts as ``(1 - exp(-q * l)) / q``: no row can cost more than 1 / q.
    """

    def __init__(self, case: WorstCase, weight: NDArray[np.float64], kind: int, forgiveness: float = 0.0) -> None:
        self.case = case
        self._weight = weight
        self._kind = kind
        self._forgiveness = forgiveness

    def forgiving(self) -> WorstLoss:
        """Return the convex loss that lies above this one and touches it at the present margins.

        What counts is concave in a row's loss, so its tangent lies above: the same loss with less weight on rows that
        are lost. What lowers it lowers this loss.
        """
        if self._forgiveness == 0.0:
            return self
        discount = np.ceil(np.exp(-self._forgiveness * self._rows()[0]) / DISCOUNT_GRID) * DISCOUNT_GRID
        return WorstLoss(self.case, self._weight * discount, self._kind)

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
        if self._kind != EXPONENTIAL:
            two[~is_one, 1] += np.log1p(np.maximum(total - odds[:, one], 0.0)[~is_one])
        return WorstLoss(self.case.with_margin(is_one.astype(np.uint8), two), self._weight, self._kind)

    def sides(self) -> NDArray[np.uint8]:
        """Return which sums of those that are to be numbers should rise (1) or fall (0), shape (n_rows,)."""
        margin = self.case.margin()
        return (margin[:, 1] >= margin[:, 2]).astype(np.uint8)

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
        loss, slope = np.empty(len(margin)), np.empty_like(margin)
        kernels.weigh_rows(margin, self.case.class_index, self._kind, loss, slope)
        return np.stack([loss, slope.sum(axis=1)])

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
        is_tied, largest = self._kind >= SQUARED, LARGEST_VALUE if self._kind < SQUARED else np.inf
        step = 1.0 if is_tied else (n_classes - 1) / n_classes  # classes move together: one degree of freedom less
        best, best_loss, direction = value, np.inf, np.zeros_like(value)
        for _ in range(n_steps + 1):
            out = np.stack([l2 * value, np.full_like(value, l2)])
            loss = 0.5 * l2 * (value**2).sum() + kernels.sum_slopes(
                reached, value, margin, price, self.case.class_index, self._weight, self._kind, out
            )
            if is_tied:
                out = np.stack([tied(self._kind, out[0]), out[1] @ np.abs(TIED)])
            if loss < best_loss:
                best, best_loss = value, loss
                direction = np.divide(-out[0], out[1], out=np.zeros_like(value), where=out[1] > 0)
            else:
                step /= 2
            value = np.clip(best + step * direction, -largest, largest)
        return best

"""WorstCase: by how much each row's class leads every rival when the attacker has done the worst.

The one worst case of training. Trees that vote have leaves of value 1 for their class; trees that add up have values of
their own. For norm inf the attacker may do the worst to every tree at once, and with large spread that is exact.

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
from certiforest.training import worst_case_kernels as kernels
from certiforest.training.leaves_in_reach import LeavesInReach, Tree, total_budget
from certiforest.training.leaves_in_reach_kernels import Reached

SHARE_OF_BUDGET = 0.125  # that the attacker is thought to spend on one feature where costs add up


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
        self._leaves = LeavesInReach(X, attacker, self._is_held)
        if charges is None or attacker.norm == math.inf:
            charges = np.zeros(1)
        self._charges = charges
        self._prices = charges / (1.0 if attacker.norm == math.inf else total_budget(attacker))
        start = np.zeros(n_classes) if base is None else base
        self._margins = np.empty((len(charges), len(X), n_classes))
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

    def reached(self, tree: Tree, root: int = 0) -> Reached:
        """Return the leaves below a root that each row can be moved to; valid until the next call."""
        return self._leaves.of(tree, root)

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

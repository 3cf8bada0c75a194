"""Cells: the local problem of one row; nothing behind it knows a norm.

Near one row only a few values matter. `Local` lists them: variables (features that can cross a threshold), their cells
with the price of getting there, and which cells each leaf in reach allows. Proofs and attacks are found on these alone.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import partial

import numpy as np
from numpy.typing import NDArray

from certiforest.attack.moves import Moves
from certiforest.verification import cells_kernels as kernels
from certiforest.verification import leaves_kernels
from certiforest.verification.cells_kernels import BUDGET
from certiforest.verification.verifier import Verifier


class Local:
    """What an attacker can do to one row.

    Parameters
    ----------
    verifier : Verifier
    x : ndarray, shape (n_features,)
    moves : Moves, optional
        Those verifier for, if not given, or the same with another budget.

    Attributes
    ----------
    cells : Cells
    leaves : Leaves
    fixed : ndarray of int64
        Leaf nodes of the trees that have only one in reach.
    budget : int
        What prices may add up to; 0 for L-inf.
    """

    def __init__(self, verifier: Verifier, x: NDArray[np.float64], moves: Moves | None = None) -> None:
        ensemble, ranks = verifier.ensemble, verifier.ranks
        allowance = verifier.allowance if moves is None else verifier.allowance_of(moves)
        self.verifier, self.x, self.moves = verifier, x, moves or verifier.moves
        moves = self.moves
        budgets, unit, norm, limit, slack = allowance
        ((_, trees, (row,)),) = verifier.runs(x[None], moves)
        leaf, turn_start, turn, first_leaf = leaves_kernels.list_leaves_of_row(
            trees, row, budgets, unit, norm, limit + slack
        )
        if moves.norm == 0:  # what a budget allows at most, however large: every feature
            unit = np.full(unit.shape, min(max(moves.eps, 1.0), ensemble.n_features))
        self._values, cut_of = moves.values(x), np.empty(len(ranks.feature), np.int64)
        self._menus = moves.menus(self._values, BUDGET)
        self.cells = kernels.list_cells(self._values, turn, ranks, budgets, unit, norm, self._menus, cut_of)
        variable_of = np.empty(len(self._values), np.int64)
        self.leaves = leaves_kernels.list_conditions(
            leaf, turn_start, turn, first_leaf, ranks, cut_of, self.cells, variable_of
        )
        self.fixed = leaf[first_leaf[:-1][np.diff(first_leaf) == 1]]
        self.budget = 0 if norm == -1 else BUDGET
        if slack == math.inf:
            self._price_exactly()

    def row(self, choice: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the cheapest row in the chosen cells."""
        return self.moves.row(self.x, self.cells.feature, self.cells.value[choice])

    def is_affordable(self, z: NDArray[np.float64]) -> bool:
        """Tell whether a row in reach of each feature alone is within the budget, exactly."""
        return bool(self.moves.affords_rows(self.x[None], z[None])[0])

    def is_beyond(self, low: NDArray[np.int64], high: NDArray[np.int64]) -> bool:
        """Tell whether every row in a box of cells costs more than the budget, exactly."""
        cells, choice = self.cells, np.clip(self.cells.own, low, high)
        can_jump = self._has_menu | (cells.value[cells.first[1:] - 1] == math.inf)
        for v in np.flatnonzero((choice != cells.own) & can_jump).tolist():  # prices of cells are no more than bounds
            choice[v] = min(range(low[v], high[v] + 1), key=partial(self._exact_price, v))
        return not self.is_affordable(self.row(choice))

    def _exact_price(self, v: int, cell: int) -> Fraction:
        f = int(self.cells.feature[v])
        return self.moves.price_of(f, float(self._values[f]), float(self.cells.value[cell]))

    @property
    def _has_menu(self) -> NDArray[np.bool_]:
        first = self._menus.first
        return first[self.cells.feature + 1] > first[self.cells.feature]

    def _price_exactly(self) -> None:
        """Price cells in rationals: the budget is too small for floats."""
        budget, cells = self.moves.budget, self.cells
        for v in np.flatnonzero(~self._has_menu).tolist():  # menus are priced exactly
            for c in range(cells.first[v], cells.first[v + 1]):
                cells.price[c] = min(math.floor(self._exact_price(v, c) * BUDGET / budget), 4 * BUDGET)
            kernels.lower_towards(cells.price, cells.first[v], cells.own[v], cells.first[v + 1] - 1)

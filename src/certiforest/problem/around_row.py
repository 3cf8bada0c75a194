"""The problem of one row: what an attacker can do to it, as cells and leaves; nothing behind it knows a norm.

Near one row only a few values matter. Variables are the features that can cross a threshold there, and groups of them;
their cells have the price of getting there, and the leaves in reach allow some of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from certiforest.attack.moves import Moves
from certiforest.problem import cells_kernels as kernels
from certiforest.problem.leaves_kernels import list_around_row, new_scratch
from certiforest.problem.problem import BUDGET, Cells, Leaves, Problem
from certiforest.problem.verifier import Verifier


class RowProblem:
    """What an attacker can do to one row.

    Parameters
    ----------
    verifier : Verifier
    x : ndarray, shape (n_features,)
    moves : Moves, optional
        Those prepared for, if not given, or the same with another budget.
    found : Cells, Leaves and fixed leaves, optional
        What `leaves_kernels.list_around_row` returned for the row.

    Attributes
    ----------
    cells : Cells
    leaves : Leaves
    fixed : ndarray of int64
        Leaf nodes of the trees that have only one in reach.
    budget : int
        What prices may add up to; 0 for L-inf.
    is_open : bool
        Whether some cells that would do were left, neither with a row that counts nor without one.
    """

    is_open = False
    #: Takes cells that hold nothing from a box, if there is something to go by; see `Search`.
    shrink: Callable[..., tuple[list[tuple[int, int, bool]], bool]] | None = None

    def __init__(
        self,
        verifier: Verifier,
        x: NDArray[np.float64],
        moves: Moves | None = None,
        found: tuple[Cells, Leaves, NDArray[np.int64]] | None = None,
    ) -> None:
        allowance = verifier.allowance if moves is None else verifier.allowance_of(moves)
        self.verifier, self.x, self.moves = verifier, x, moves or verifier.moves
        moves = self.moves
        self.budget, self._values = BUDGET if moves.is_shared else 0, moves.values(x)
        self._price_lists = moves.price_lists(self._values, BUDGET)
        if found is not None:
            self.cells, self.leaves, self.fixed = found
            return
        ((_, trees, (row,)),) = verifier.rows_by_pattern(x[None], moves)
        scratch = new_scratch(trees, verifier.ranks, len(self._values))
        self.cells, self.leaves, self.fixed, _ = list_around_row(
            trees, row, self._values, allowance, verifier.ranks, self._price_lists, scratch
        )
        if allowance.slack == math.inf:
            self._price_exactly()

    def row(self, choice: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the cheapest row in the chosen cells."""
        return self.moves.row(self.x, self.cells.name, self.cells.value[choice])

    def point(
        self, z: NDArray[np.float64], choice: NDArray[np.int64], *, is_limited: bool
    ) -> NDArray[np.float64] | None:
        """Return a row in chosen cells, of which ``z`` is the cheapest, that counts: within the budget, if limited."""
        return z if not is_limited or self.is_affordable(z) else None

    def is_affordable(self, z: NDArray[np.float64]) -> bool:
        """Tell whether a row in reach of each feature alone is within the budget, exactly."""
        return bool(self.moves.affords_rows(self.x[None], z[None])[0])

    def is_beyond(self, low: NDArray[np.int64], high: NDArray[np.int64]) -> bool:
        """Tell whether every row in a box of cells costs more than the budget, exactly."""
        cells, choice = self.cells, np.clip(self.cells.home, low, high)
        can_jump = self._is_listed | (cells.value[cells.first[1:] - 1] == math.inf)
        for v in np.flatnonzero((choice != cells.home) & can_jump).tolist():  # prices of cells are no more than bounds
            choice[v] = min(range(low[v], high[v] + 1), key=partial(self._exact_price, v))
        return not self.is_affordable(self.row(choice))

    def be_free(self) -> None:
        """Let moves cost nothing."""
        self.budget, self.cells.price[:] = 0, 0

    def divide(self, choice: Any, low: Any, high: Any) -> tuple[int, int] | None:
        """Return where to cut a box in which cells would do, but do not count; see `Search`."""
        return None

    def _exact_price(self, v: int, cell: int) -> Fraction:
        f = int(self.cells.name[v])
        return self.moves.price_of(f, float(self._values[f]), float(self.cells.value[cell]))

    @property
    def _is_listed(self) -> NDArray[np.bool_]:
        first = self._price_lists.first
        return first[self.cells.name + 1] > first[self.cells.name]

    def _price_exactly(self) -> None:
        """Price cells in rationals: the budget is too small for floats."""
        budget, cells = self.moves.budget, self.cells
        for v in np.flatnonzero(~self._is_listed).tolist():  # price lists are exact
            for c in range(cells.first[v], cells.first[v + 1]):
                cells.price[c] = min(math.floor(self._exact_price(v, c) * BUDGET / budget), 4 * BUDGET)
            kernels.lower_towards(cells.price, cells.first[v], cells.home[v], cells.first[v + 1] - 1)


class Goal:
    """What an attacker wants of a row: leaves that gain so much for a rival of its class.

    Parameters
    ----------
    row : RowProblem
    y, rival : int
    need : int, optional
        What they are to gain; what it takes to be predicted, if not given.

    Attributes
    ----------
    problem : Problem
    unit : Fraction
        What a gain of one is in scores.
    """

    def __init__(self, row: RowProblem, y: int, rival: int, need: int | None = None) -> None:
        self._row, self._y, self._rival, self._need = row, y, rival, need
        gain, least, self.unit = row.verifier.gains.against(row.leaves.node, row.fixed, y, rival, need)
        self.problem = Problem(row.cells, row.leaves, gain, least, row.budget)

    def is_reached(self, z: NDArray[np.float64]) -> bool:
        """Tell exactly whether a row does what is wanted."""
        verifier = self._row.verifier
        if self._need is None:
            return verifier.predict(z) != self._y
        return verifier.gain_at(z, self._y, self._rival) >= self._need

    def attack(self, choice: NDArray[np.int64], *, is_limited: bool = False) -> NDArray[np.float64] | None:
        """Return a row in some cells if it does what is wanted; it may cost more than the budget, unless limited."""
        z = self._row.row(choice)
        found = self._row.point(z, choice, is_limited=is_limited) if self.is_reached(z) else None
        return found if found is None or found is z or self.is_reached(found) else None

    def attack_within_budget(self, choice: NDArray[np.int64]) -> NDArray[np.float64] | None:
        """Return the same if it is within the budget, exactly."""
        return self.attack(choice, is_limited=True)

"""Requirements: whether some cells meet them all, and how far one of them can be raised.

Boxes of cells are examined and cut in two where the bound falls most, as in `search`. Floats choose; whole numbers
prove; and cells count as found only if they meet the requirements exactly.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from certiforest.problem.problem import ENOUGH, JointProblem, Problem
from certiforest.proof.clock import Clock
from certiforest.proof.moves_kernels import Balance, Several
from certiforest.proof.search_kernels import FOUND, OPEN, WEIGHT, examine_box, find_split, weighted
from certiforest.proof.tables_kernels import NO_BOUND, Tables, narrow, new_tables, whole_bound

LEAST = -int(ENOUGH >> 12)  # less than any cells give to requirements that grow
FIRST_SWEEPS, MOST_SWEEPS = 100, 20
FIRST_TRIES, MOST_TRIES = 40, 1
# Boxes that wait hold no more numbers than so many, 8 bytes each; beyond it, a problem stays open.
MOST_NUMBERS = 2**27


class Found(NamedTuple):
    """What is known of a joint problem.

    Attributes
    ----------
    choice : ndarray of int64, shape (n_variables,), or None
        Cells that meet the requirements, the best that were found.
    reached : int or None
        How much more than the need they give to the requirements that grow, at least.
    bound : int
        How much more no cells give.
    n_boxes : int
    """

    choice: NDArray[np.int64] | None
    reached: int | None
    bound: int
    n_boxes: int

    @property
    def is_none(self) -> bool:
        """Whether provably no cells meet the requirements that do not grow."""
        return self.bound < LEAST


class _Box(NamedTuple):
    """A box of cells that waits: tables and weights to start from, and how much more than the need it may give."""

    low: NDArray[np.int64]
    high: NDArray[np.int64]
    start: NDArray[np.float64] | None
    balance: Balance
    bound: int


def find_cells(problem: JointProblem, exact: Callable[[NDArray[np.int64]], int | None], clock: Clock) -> Found:
    """Find cells that meet the requirements; where ``bound`` is below 0 there are provably none.

    Parameters
    ----------
    problem : JointProblem
    exact : callable
        Returns how much more than the need cells give to the requirements that grow, rounded down, or None where they
        do not meet the others; both exactly.
    clock : Clock
        When it is up, what is known so far is returned, but not before one box is examined.
    """
    return _search(problem, exact, clock, None)


def find_most(
    problem: JointProblem, exact: Callable[[NDArray[np.int64]], int | None], clock: Clock, resolution: int
) -> Found:
    """Find the cells that give most to the requirements that grow, to within ``resolution``; see `find_cells`."""
    return _search(problem, exact, clock, resolution)


def _search(
    problem: JointProblem, exact: Callable[[NDArray[np.int64]], int | None], clock: Clock, resolution: int | None
) -> Found:
    """Return what `find_most` does; any cells that meet the requirements will do without a resolution."""
    cells, leaves, gain, need, grows, lowest, highest = problem
    tables, n_boxes, n_pushed = new_tables(cells, leaves), 0, 0
    best: int | None = None
    kept: NDArray[np.int64] | None = None
    log, step, way = np.zeros(len(need)), np.full(len(need), 0.5), np.zeros(len(need))
    equal = Balance(np.full(len(need), WEIGHT // len(need)), log, step, way)
    waiting: list[tuple[int, int, _Box]] = []
    most_waiting = MOST_NUMBERS // (len(tables.table) + 2 * len(lowest) + 1)

    def push(box: _Box) -> None:
        """Let a box wait: the largest bound comes first, then, or without a resolution, the last that was pushed."""
        nonlocal n_pushed
        n_pushed += 1
        heapq.heappush(waiting, (0 if resolution is None else -box.bound, -n_pushed, box))

    push(_Box(lowest, highest, None, equal, int(ENOUGH)))
    dropped = -int(ENOUGH)  # the most that boxes which were left may give
    while waiting and (n_boxes == 0 or not (clock.is_up or len(waiting) > most_waiting)):
        box = heapq.heappop(waiting)[-1]
        target = 0
        if resolution is not None:
            target = best + resolution if best is not None else LEAST
        if box.bound < target:
            dropped = max(dropped, box.bound)
            continue
        tables.low[:], tables.high[:] = box.low, box.high
        tables.table[:] = 0.0 if box.start is None else box.start
        balance = Balance(*(part.copy() for part in box.balance))
        sweeps, tries = (FIRST_SWEEPS, FIRST_TRIES) if box.start is None else (MOST_SWEEPS, MOST_TRIES)
        several = Several(gain, need + grows * target, grows, balance, tries, n_boxes)
        status = examine_box(weighted(cells, leaves, several), several, tables, sweeps, int(ENOUGH), False)
        n_boxes += 1
        bound = target - 1
        if status in (OPEN, FOUND):
            bound = min(box.bound, _bound(weighted(cells, leaves, several), several, tables, target))
        if bound < target:
            dropped = max(dropped, bound)
            continue
        value = exact(tables.choice) if status == FOUND else None
        if value is not None and value >= target:
            is_first, best, kept = best is None, value, tables.choice.copy()
            if resolution is None:
                return Found(kept, best, bound, n_boxes)
            # Weights found before there was a target are of no use.
            push(box if is_first else box._replace(start=tables.table.copy(), balance=balance, bound=bound))
            continue
        start = tables.table.copy()
        variable, cut = find_split(weighted(cells, leaves, several), tables)
        low, high = tables.low.copy(), tables.high.copy()
        if variable < 0:  # a single cell of each variable
            value = exact(low)
            if value is not None and value >= target:
                best, kept = value, low
                if resolution is None:
                    return Found(kept, best, bound, n_boxes)
            dropped = max(dropped, target - 1 if value is None else value)
            continue
        dropped = max(dropped, target - 1)  # what `find_split` has taken from the ends
        last, first = high.copy(), low.copy()
        last[variable], first[variable] = cut, cut + 1
        halves = [_Box(low, last, start, balance, bound), _Box(first, high, start, balance, bound)]
        for half in halves if tables.choice[variable] > cut else halves[::-1]:
            push(half)
    open_bound = max((box.bound for _, _, box in waiting), default=-int(ENOUGH))
    return Found(kept, best, max(open_bound, dropped, -int(ENOUGH) if best is None else best), n_boxes)


def _bound(problem: Problem, several: Several, tables: Tables, target: int) -> int:
    """Return how much more than the need the cells of a box can give, as far as tables show."""
    whole, grown = int(whole_bound(narrow(problem, tables), tables)), int(several.balance.weight @ several.grows)
    if whole >= problem.need and (whole == NO_BOUND or grown == 0):
        return int(ENOUGH)
    return target + (whole - int(problem.need)) // max(grown, 1)

"""Requirements: whether some cells meet them all, and how far one of them can be raised.

Boxes of cells are examined (`requirements_kernels`) and cut in two where the bound falls most, as in `search`. Floats
choose; whole numbers prove; and cells count as found only if they meet the requirements exactly.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from certiforest.problem.problem import Cells, Leaves, Problem
from certiforest.proof import requirements_kernels as kernels
from certiforest.proof.clock import Clock, OutOfTime
from certiforest.proof.requirements_kernels import ENOUGH, Requirements
from certiforest.proof.search_kernels import FOUND, OPEN, find_split
from certiforest.proof.tables_kernels import new_tables

FIRST_SWEEPS, MOST_SWEEPS = 100, 20
FIRST_TRIES, MOST_TRIES = 40, 1


class Question(NamedTuple):
    """Cells of some variables, what alternatives of each table allow, and what they are to add up to.

    ``leaves.node`` numbers the alternatives; ``low`` and ``high`` (n_variables,) are the first and the last cell of
    each variable that count.
    """

    cells: Cells
    leaves: Leaves
    requirements: Requirements
    low: NDArray[np.int64]
    high: NDArray[np.int64]


class Found(NamedTuple):
    """What is known of a question.

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


class _Box(NamedTuple):
    low: NDArray[np.int64]
    high: NDArray[np.int64]
    start: NDArray[np.float64] | None
    balance: kernels.Balance
    bound: int


def find_cells(question: Question, exact: Callable[[NDArray[np.int64]], int | None], clock: Clock) -> Found:
    """Find cells that meet the requirements; where ``bound`` is below 0 there are provably none.

    Parameters
    ----------
    question : Question
    exact : callable
        Returns how much more than the need cells give to the requirements that grow, rounded down, or None where they
        do not meet the others; both exactly.
    clock : Clock
        When it is up, what is known so far is returned, but not before one box is examined.
    """
    return _search(question, exact, clock, lambda best: 0, goes_on=False)


def find_most(
    question: Question, exact: Callable[[NDArray[np.int64]], int | None], clock: Clock, resolution: int
) -> Found:
    """Find the cells that give most to the requirements that grow, to within ``resolution``; see `find_cells`."""
    lowest = -int(ENOUGH >> 12)
    return _search(question, exact, clock, lambda best: lowest if best is None else best + resolution, goes_on=True)


def _search(
    question: Question,
    exact: Callable[[NDArray[np.int64]], int | None],
    clock: Clock,
    target_beyond: Callable[[int | None], int],
    *,
    goes_on: bool,
) -> Found:
    cells, leaves, requirements, lowest, highest = question
    tables = new_tables(cells, leaves)
    out, n_boxes = np.empty(2, np.int64), 0
    best: int | None = None
    kept: NDArray[np.int64] | None = None
    root = _Box(lowest, highest, None, kernels.new_balance(len(requirements.need)), int(ENOUGH))
    waiting = [(0, 0, root)]
    n_pushed = 0

    def push(box: _Box) -> None:
        nonlocal n_pushed
        n_pushed += 1
        heapq.heappush(waiting, (-box.bound if goes_on else 0, -n_pushed, box))

    dropped = -int(ENOUGH)  # the largest target below which boxes were left
    while waiting:
        target = target_beyond(best)
        _, _, box = heapq.heappop(waiting)
        if box.bound < target:
            dropped = max(dropped, box.bound)
            continue
        try:
            if n_boxes > 0:
                clock.check()
        except OutOfTime:
            push(box)
            break
        tables.low[:], tables.high[:] = box.low, box.high
        tables.table[:] = 0.0 if box.start is None else box.start
        balance = kernels.Balance(*(part.copy() for part in box.balance))
        sweeps, tries = (FIRST_SWEEPS, FIRST_TRIES) if box.start is None else (MOST_SWEEPS, MOST_TRIES)
        status = kernels.examine(cells, leaves, requirements, balance, tables, target, sweeps, tries, n_boxes, out)
        n_boxes += 1
        if status not in (OPEN, FOUND):
            dropped = max(dropped, target - 1)
            continue
        bound = min(box.bound, int(out[0]))
        if status == FOUND:
            value = exact(tables.choice)
            if value is not None and value >= target:
                best, kept = value, tables.choice.copy()
                if not goes_on:
                    return Found(kept, best, bound, n_boxes)
                push(box._replace(start=tables.table.copy(), balance=balance, bound=bound))
                continue
        start = tables.table.copy()
        need = kernels.weighted_need(requirements, balance, target)
        worth = np.empty(len(leaves.node), np.int64)
        kernels.weigh(requirements, balance, leaves.node, worth)
        variable, cut = find_split(Problem(cells, leaves, worth, need, 0), tables)
        low, high = tables.low.copy(), tables.high.copy()
        if variable < 0:  # a single cell of each variable
            value = exact(low)
            if value is not None and value >= target:
                best, kept = value, low
                if not goes_on:
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
    bound = max(open_bound, dropped, -int(ENOUGH) if best is None else best)
    return Found(kept, best, bound, n_boxes)

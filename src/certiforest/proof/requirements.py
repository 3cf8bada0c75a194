"""Requirements: whether some cells meet them all, and how far one of them can be raised.

Boxes of cells are examined and cut in two where the bound falls most, as in `search`. Floats choose; whole numbers
prove; and cells count as found only if they meet the requirements exactly.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from certiforest.problem.masks_kernels import masks_of
from certiforest.problem.problem import ENOUGH, JointProblem, Leaves, Problem
from certiforest.proof.ascent_kernels import Several, wander
from certiforest.proof.clock import Clock
from certiforest.proof.cuts_kernels import look_ahead
from certiforest.proof.focus_kernels import pack
from certiforest.proof.search_kernels import FOUND, OPEN, UNREACHABLE, WEIGHT, examine_box, weighted
from certiforest.proof.tables_kernels import NO_BOUND, Tables, coarsen, narrow, new_tables, whole_bound

LEAST = -int(ENOUGH >> 12)  # less than any cells give to requirements that grow
FIRST_SWEEPS, MOST_SWEEPS = 100, 12
FIRST_TRIES, FEWEST_TRIES = 200, 4  # to find cells in a box: ever fewer, as the first boxes
BOXES_OF_WALK = 3  # after so many, tries begin at cells of the box at hand, wherever others have come
OPEN_END, SINGLE = -2, -1  # of a proof, in place of the number of a bound: none, and none is needed
# Boxes that wait hold no more numbers than so many, 8 bytes each; beyond it, a problem stays open.
MOST_NUMBERS = 2**27


class Bound(NamedTuple):
    """Weights of requirements, and tables: ``value * 2**shift`` in some segments, 0 in the others."""

    weight: list[int]
    shift: int
    segment: NDArray[np.int64]
    value: NDArray[np.int64]


class Proof:
    """Why no cells give more than a bound: a tree of cuts, at each of whose ends a bound holds for what is left.

    Attributes
    ----------
    bounds : list of Bound
    """

    def __init__(self) -> None:
        self.bounds: list[Bound] = []
        self._nodes: list[Any] = [OPEN_END]

    def cut(self, node: int, variable: int, cell: int) -> tuple[int, int]:
        """Cut what is left at a node after a cell of a variable; return the nodes below."""
        n = len(self._nodes)
        self._nodes[node] = variable, cell, n
        self._nodes += [OPEN_END, OPEN_END]
        return n, n + 1

    def close(self, node: int, bound: int) -> None:
        """Note which bound holds at a node; `SINGLE` if a single choice of cells is left."""
        self._nodes[node] = bound

    def add(self, leaves: Leaves, several: Several, tables: Tables, shift: int = 0) -> int:
        """Keep tables of a box as a bound; return its number."""
        n_segments = np.diff(leaves.first_segment)
        v = np.repeat(leaves.scope, n_segments)
        is_inside = (leaves.end >= tables.low[v]) & (leaves.begin <= tables.high[v])
        table = np.where(is_inside, np.rint(np.ldexp(tables.table, -shift)), -np.inf)
        # The same number in all of a table changes nothing: let it be such that most are 0.
        most = np.maximum.reduceat(table, leaves.first_segment[:-1]) if len(table) else table
        value = np.where(is_inside, table - np.repeat(most, n_segments), 0.0).astype(np.int64)
        segment = np.flatnonzero(value)
        self.bounds.append(Bound(several.weight.tolist(), shift, segment, value[segment]))
        return len(self.bounds) - 1

    def tree(self) -> list[Any] | None:
        """Return the cuts, (variable, cell), and the bounds that ends have; what is below a cut follows it, low first.

        None if there is no bound for some end.
        """
        found, waiting = [], [0]
        while waiting:
            node = self._nodes[waiting.pop()]
            if node == OPEN_END:
                return None
            if isinstance(node, tuple):
                variable, cell, first = node
                waiting += [first + 1, first]
                node = variable, cell
            found.append(node)
        return found


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
    """A box of cells that waits: tables and weights, and how much more than the need it may give, as these show."""

    low: NDArray[np.int64]
    high: NDArray[np.int64]
    start: NDArray[np.float64]
    weight: NDArray[np.int64]
    bound: int
    node: int  # of the proof
    is_new: bool = False  # whether to sweep from nothing


def find(
    problem: JointProblem,
    exact: Callable[[NDArray[np.int64]], int | None],
    clock: Clock,
    *,
    resolution: int | None = None,
    proof: Proof | None = None,
) -> Found:
    """Find cells that meet the requirements; where ``bound`` is below 0 there are provably none.

    Parameters
    ----------
    problem : JointProblem
    exact : callable
        Returns how much more than the need cells give to the requirements that grow, rounded down, or None where they
        do not meet the others; both exactly.
    clock : Clock
        When it is up, what is known so far is returned, but not before one box is examined.
    resolution : int, optional
        To find the cells that give most to the requirements that grow, to within so much; any will do without it.
    proof : Proof, optional
        A new one, in which is noted why ``bound`` holds.
    """
    cells, leaves, gain, need, grows, lowest, highest = problem
    tables, n_boxes, n_pushed = new_tables(cells, leaves), 0, 0
    best: int | None = None
    kept: NDArray[np.int64] | None = None
    (first_word, mask, place), walk = masks_of(leaves), lowest.copy()
    rng = np.random.default_rng(0)
    # Others count when that makes the bound smaller: until then, sweeps pass over their tables.
    counted = grows if grows.any() else np.ones_like(grows)
    first_weight = counted * (WEIGHT // counted.sum())
    waiting: list[tuple[int, int, _Box]] = []
    most_waiting = MOST_NUMBERS // (len(tables.table) + 2 * len(lowest) + 1)

    def push(box: _Box) -> None:
        """Let a box wait: the largest bound comes first, then the last that was pushed."""
        nonlocal n_pushed
        n_pushed += 1
        heapq.heappush(waiting, (-box.bound, -n_pushed, box))

    def enter(box: _Box, target: int) -> tuple[Several, Problem]:
        """Let the tables be those of a box; return the requirements, and what is left there of their weighted sum."""
        tables.low[:], tables.high[:], tables.table[:] = box.low, box.high, box.start
        several = Several(leaves, gain, need + grows * target, grows, box.weight.copy(), first_word, mask, place)
        return several, narrow(weighted(cells, leaves, several), tables)

    def close(box: _Box, target: int) -> None:
        """Note that tables of a box show that nothing in it gives as much as a target."""
        if proof is not None:
            several, inside = enter(box, target)
            proof.close(box.node, proof.add(leaves, several, tables, coarsen(inside, tables)))

    push(_Box(lowest, highest, tables.table.copy(), first_weight, int(ENOUGH), 0, True))
    dropped = -int(ENOUGH)  # the most that boxes which were left may give
    while waiting and (n_boxes == 0 or not (clock.is_up or len(waiting) > most_waiting)):
        box = heapq.heappop(waiting)[-1]
        target = 0
        if resolution is not None:
            target = best + resolution if best is not None else LEAST
        if box.bound < target:
            dropped = max(dropped, box.bound if proof is None else target - 1)
            close(box, target)
            continue
        several, inside = enter(box, target)
        if box.is_new:  # weights found before there was a target are of no use, either
            tables.table[:], several.weight[:] = 0.0, first_weight
            inside = weighted(cells, inside.leaves, several)
        inside, packed, segment = pack(inside, tables)
        start, leaves_inside = packed.table.copy(), inside.leaves
        sweeps, tries = FIRST_SWEEPS if box.is_new else MOST_SWEEPS, max(FEWEST_TRIES, FIRST_TRIES // (n_boxes + 1))
        status = examine_box(inside, several, packed, (sweeps, int(ENOUGH)), False, None)
        inside = weighted(cells, leaves_inside, several)  # the weights may be others
        is_found, candidate, bound = status == FOUND, tables.choice, target - 1
        if status == OPEN:
            if n_boxes % BOXES_OF_WALK == 0:
                walk = candidate.copy() if n_boxes % (2 * BOXES_OF_WALK) == 0 else rng.integers(lowest, highest + 1)
            is_found, candidate = wander(several, lowest, highest, walk, tries, n_boxes) >= 0, walk
        n_boxes += 1
        if status in (OPEN, FOUND):
            bound = _bound(inside, several, packed, target)
            if bound > box.bound:  # the tables were better before
                bound, packed.table[:], several.weight[:] = box.bound, start, box.weight
                inside = weighted(cells, leaves_inside, several)
        elif status == UNREACHABLE:
            packed.table[:] = 0.0
        box = box._replace(
            start=_unpacked(packed.table, segment, tables), weight=several.weight, bound=bound, is_new=False
        )
        if bound < target:
            dropped = max(dropped, bound if proof is None else target - 1)
            close(box, target)
            continue
        value = exact(candidate) if is_found else None
        if value is not None and value >= target:
            push(box._replace(is_new=best is None))
            best, kept = value, candidate.copy()
            if resolution is None:
                return Found(kept, best, bound, n_boxes)
            continue
        chosen = tables.choice.copy()
        variable, cut, starts = look_ahead(inside, packed, proof is None)
        low, high = tables.low.copy(), tables.high.copy()
        if variable < 0 and (low < high).any():
            variable = int(np.argmax(high - low))  # of cells that look lost, which would have to be shown
            cut, starts = min(int(chosen[variable]), int(high[variable]) - 1), np.array([packed.table] * 2)
        if variable < 0:  # a single cell of each variable
            value = exact(low)
            if value is not None and value >= target:
                best, kept = value, low
                if resolution is None:
                    return Found(kept, best, bound, n_boxes)
            dropped = max(dropped, target - 1 if value is None else value)
            if proof is not None:
                proof.close(box.node, SINGLE)
            continue
        dropped = max(dropped, target - 1)  # what `look_ahead` has taken from the ends
        last, first = high.copy(), low.copy()
        last[variable], first[variable] = cut, cut + 1
        nodes = (0, 0) if proof is None else proof.cut(box.node, variable, cut)
        halves = []
        for node, ends, start in zip(nodes, ((low, last), (first, high)), starts, strict=True):
            half = box._replace(low=ends[0], high=ends[1], node=node)
            tables.low[:], tables.high[:], packed.table[:] = *ends, start
            bound = _bound(inside, several, packed, target)
            halves.append(
                half if bound > box.bound else half._replace(bound=bound, start=_unpacked(start, segment, tables))
            )
        for half in halves if chosen[variable] > cut else halves[::-1]:
            push(half)
    open_bound = max((box.bound for _, _, box in waiting), default=-int(ENOUGH))
    bound = max(open_bound, dropped, -int(ENOUGH) if best is None else best)
    for _, _, box in waiting:
        if box.bound < ENOUGH:
            close(box, bound + 1)
    return Found(kept, best, bound, n_boxes)


def _unpacked(start: NDArray[np.float64], segment: NDArray[np.int64], tables: Tables) -> NDArray[np.float64]:
    """Return tables of all segments from those that `pack` left; others stay as they are."""
    return np.where(segment >= 0, np.append(start, 0.0)[segment], tables.table)


def _bound(problem: Problem, several: Several, tables: Tables, target: int) -> int:
    """Return how much more than the need the cells of a box can give, as far as tables show."""
    problem = narrow(problem, tables)
    if (np.diff(problem.leaves.first) == 0).any():  # a tree has no leaf there
        return -int(ENOUGH)
    whole, grown = int(whole_bound(problem, tables)), int(several.weight @ several.grows)
    if whole >= problem.need and (whole == NO_BOUND or grown == 0):
        return int(ENOUGH)
    return target + (whole - int(problem.need)) // max(grown, 1)

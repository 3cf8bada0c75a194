"""Search: cells that give what is needed, or a proof that there are none.

Message passing (`tables_kernels`) settles nearly every problem at once. Where it does not, the box of cells is cut in
two where the bound falls most, and each half is examined. Floats choose; whole numbers prove; and cells count only if
whoever asks confirms them exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from certiforest.problem.problem import ENOUGH, Cells, Problem
from certiforest.proof import search_kernels as kernels
from certiforest.proof.clock import Clock, OutOfTime
from certiforest.proof.cuts_kernels import find_split
from certiforest.proof.tables_kernels import (
    NO_BOUND,
    OUTSIDE,
    Tables,
    coarsen,
    narrow,
    new_tables,
    size_up,
    whole_bound,
)

# A box is cut in two after so many sweeps at the latest; a quick look takes no more than so many.
MOST_SWEEPS, LOOK_SWEEPS = 32, 4
# Sweeps pause for a look at the clock after so many steps, a fifth of a second.
MOST_STEPS = 2**23
Point = TypeVar("Point")


class CellBox(NamedTuple):
    """A box of cells that waits for its turn: first and last cell of each variable.

    ``start`` are tables to start from, ``proof`` the part of the proof (docs/certificate_format.md) to be filled in.
    Without ``may_enumerate``, the box is to be proved by tables although single moves could be tried.
    """

    low: NDArray[np.int64]
    high: NDArray[np.int64]
    start: tuple[NDArray[np.float64], ...]
    proof: dict[str, Any]
    may_enumerate: bool = True


def _start_of(tables: Tables) -> tuple[NDArray[np.float64], ...]:
    """Return copies of the tables and of lambda, for a box to start from."""
    return tables.table.copy(), tables.lambda_.copy()


class Search(Generic[Point]):
    """Look for cells that give what is needed, or a proof that there are none.

    Parameters
    ----------
    problem : Problem
    confirm : callable
        Gains and prices are rounded in favour of cells: it tells exactly what these are good for, and returns the point
        that they stand for, None if it is none.
    is_beyond : callable, optional
        Tells exactly, of first and last cells, whether everything in this box costs more than the budget, or, by a part
        of a proof, why else nothing in it counts.
    divide : callable, optional
        Returns, given cells that were not confirmed, and the first and last cells of their box, a variable and the cell
        after which to cut the box; None if the bound is to tell.
    shrink : callable, optional
        Takes cells from the ends of a box, whose first and last cells change, in which no row counts; returns one by
        one of which variable, after which cell it was cut, and whether the upper part was dropped; and whether nothing
        is left.
    keep_proof : bool, default=False
        Whether `prove` will be asked.
    begun : pair of int and Tables, optional
        What `examine_box` has said of all cells, and the tables that it left.
    improve : callable, optional
        Returns the problem that asks for more than a point gives; without it the search ends with the first point.

    Attributes
    ----------
    n_boxes : int
        How many boxes were examined to find out.
    """

    def __init__(
        self,
        problem: Problem,
        confirm: Callable[[NDArray[np.int64]], Point | None],
        is_beyond: Callable[[NDArray[np.int64], NDArray[np.int64]], Any] = lambda low, high: False,
        *,
        divide: Callable[..., tuple[int, int] | None] = lambda choice, low, high: None,
        shrink: Callable[..., tuple[list[tuple[int, int, bool]], bool]] | None = None,
        keep_proof: bool = False,
        begun: tuple[int, Tables] | None = None,
        improve: Callable[[Point], Problem] | None = None,
    ) -> None:
        self._problem, self._confirm, self._is_beyond, self._keep_proof = problem, confirm, is_beyond, keep_proof
        self._improve, self._waiting, self._divide, self._shrink = improve, list[CellBox](), divide, shrink
        said, tables = begun or (kernels.OPEN, new_tables(problem.cells, problem.leaves))
        self._said: int = kernels.PAUSED if said == kernels.OPEN else said  # more sweeps may help
        self._tables: Tables = tables
        # For the proof: boxes with the tables that proved them, and boxes that are known to hold nothing.
        self._proof: dict[str, Any] = {}
        self._proved: list[CellBox] = []
        self._settled: list[CellBox] = []
        self.n_boxes = 0

    def run(self, clock: Clock) -> Point | None:
        """Return a point, None if there is provably none, or none that is better than all that were found.

        Raises
        ------
        OutOfTime
            Not before one box is examined, if that takes no longer than a moment.
        """
        tables = self._tables
        root = CellBox(tables.low.copy(), tables.high.copy(), _start_of(tables), self._proof)
        return self._examine([root], clock)

    @property
    def bound(self) -> int:
        """What cells in boxes that still wait, after `OutOfTime`, gain at most, as far as their tables show."""
        return max(map(self._bound_of, self._waiting))

    def _bound_of(self, box: CellBox) -> int:
        self._enter(box)
        problem = narrow(self._problem, self._tables)
        if (np.diff(problem.leaves.first) == 0).any():  # a tree has no leaf there
            return -int(ENOUGH)
        whole = int(whole_bound(problem, self._tables))
        return whole if whole < NO_BOUND else int(size_up(problem)[0])

    def _enter(self, box: CellBox) -> None:
        """Let the tables be those of a box."""
        tables = self._tables
        tables.low[:], tables.high[:] = box.low, box.high
        tables.table[:], tables.lambda_[:] = box.start

    def prove(self, clock: Clock, unit: Fraction, price: Fraction) -> dict[str, Any] | None:
        """Return why there is no point, after a search that found none and was to keep a proof; None if time is up.

        It is as docs/certificate_format.md has it; ``unit`` is what a gain of one is there, and ``price`` a price.
        """
        n_boxes = self.n_boxes
        try:
            while self._settled:
                boxes, self._settled = self._settled, []
                if self._examine(boxes, clock) is not None:
                    raise AssertionError("A part without a point holds one: please report this as a defect.")
        except OutOfTime:
            return None
        finally:
            self.n_boxes = n_boxes
        for box in self._proved:
            self._write_tables(box, unit, price)
        return self._proof

    def _examine(self, waiting: list[CellBox], clock: Clock) -> Point | None:
        """Examine boxes and what they are cut into; see `run`."""
        tables, self._waiting, most = self._tables, waiting, (MOST_SWEEPS, MOST_STEPS)
        may_tighten = not self._keep_proof if len(self._problem.leaves.place) > kernels.MUCH else None
        while waiting:
            if self.n_boxes > 0:
                clock.check()
            if self._shrink is not None and self._is_shrunk_away(waiting):
                continue
            box = waiting[-1]  # which waits until it is examined
            self._enter(box)
            problem = self._problem
            status, self._said = self._said, kernels.PAUSED
            while status == kernels.PAUSED:
                status = kernels.examine_box(problem, None, tables, most, box.may_enumerate, may_tighten)
                if status == kernels.PAUSED:
                    clock.check()
            waiting.pop()
            self.n_boxes += self.n_boxes > 0 or status != kernels.BOUNDED
            if status == kernels.PROVED and self._keep_proof:
                self._proved.append(box._replace(start=_start_of(tables)))
            if status == kernels.ENUMERATED and self._keep_proof:
                self._settled += self._by_moved(box)
            if status in (kernels.PROVED, kernels.BOUNDED, kernels.UNREACHABLE, kernels.ENUMERATED):
                continue
            if status == kernels.FOUND:
                point = self._confirm(tables.choice)
                if point is not None and self._improve is None:
                    return point
                if point is not None and self._improve is not None:
                    self._problem = self._improve(point)
                    waiting.append(box._replace(start=_start_of(tables)))
                    self.n_boxes -= 1  # it is the same
                    continue
                if self._is_settled(box):
                    continue
                where = self._divide(tables.choice, box.low, box.high)
                if where is not None:
                    waiting += self._halves(box, _start_of(tables), *where)
                    continue
            start = _start_of(tables)
            variable, cut = find_split(problem, tables)
            if self._keep_proof:
                box, sides = self._tightened(box, tables, start)
                self._settled += sides
            box = box._replace(low=tables.low.copy(), high=tables.high.copy())
            if variable >= 0:
                halves = self._halves(box, start, variable, cut)
                # The half with the more promising cells is next.
                waiting += halves if tables.choice[variable] > cut else halves[::-1]
            elif (point := self._confirm(box.low)) is not None:  # a single cell of each variable, so this is exact
                if self._improve is None:
                    return point
                self._problem = self._improve(point)
            else:
                self._is_settled(box)
        return None

    def _is_shrunk_away(self, waiting: list[CellBox]) -> bool:
        """Take from the next box what holds nothing; tell whether that is all of it."""
        assert self._shrink is not None
        box = waiting[-1]
        low, high = box.low.copy(), box.high.copy()
        steps, is_empty = self._shrink(low, high)
        if is_empty and not self._keep_proof:
            waiting.pop()
            return True
        for variable, cut, is_upper in steps if self._keep_proof else ():
            halves = self._halves(box, box.start, variable, cut)
            box, side = halves if is_upper else halves[::-1]
            if not self._is_settled(side):
                self._settled.append(side)
        waiting[-1] = box._replace(low=low, high=high)
        if is_empty and self._is_settled(waiting[-1]):
            waiting.pop()
            return True
        return False

    def _is_settled(self, box: CellBox) -> bool:
        """Tell whether nothing in a box counts, and write down why."""
        reason = self._is_beyond(box.low, box.high)
        if isinstance(reason, dict):
            box.proof.update(reason)
        return bool(reason)

    def _halves(self, box: CellBox, start: tuple[NDArray, ...], variable: int, cut: int) -> tuple[CellBox, CellBox]:
        """Cut a box after a cell of a variable."""
        last, first = box.high.copy(), box.low.copy()
        last[variable], first[variable] = cut, cut + 1
        low, high = CellBox(box.low, last, start, {}), CellBox(first, box.high, start, {})
        cells = self._problem.cells
        where = [int(cells.name[variable]), float(cells.top[cut])]
        box.proof.update(split=where, low=low.proof, high=high.proof)
        return low, high

    def _tightened(self, box: CellBox, tables: Tables, start: tuple[NDArray, ...]) -> tuple[CellBox, list[CellBox]]:
        """Return what is left of a box after `tighten`, and the sides that were taken from it."""
        sides = []
        for v in np.flatnonzero((tables.low > box.low) | (tables.high < box.high)).tolist():
            if tables.low[v] > box.low[v]:
                side, box = self._halves(box, start, v, int(tables.low[v]) - 1)
                sides.append(side)
            if tables.high[v] < box.high[v]:
                box, side = self._halves(box, start, v, int(tables.high[v]))
                sides.append(side)
        return box, sides

    def _by_moved(self, box: CellBox) -> list[CellBox]:
        """Divide a box in which one variable at most can move, by which one does.

        In the part that is left no variable moves, and the bound without tables is exact.
        """
        cells, leaves = self._problem.cells, self._problem.leaves
        start = _start_of(new_tables(cells, leaves))
        home = np.clip(cells.home, box.low, box.high)
        sides = []
        for v in np.argsort(-np.diff(leaves.first_tester), kind="stable").tolist():
            for cut in (home[v] - 1, home[v]):
                if not box.low[v] <= cut < box.high[v]:
                    continue
                low, high = self._halves(box, start, v, cut)
                moved, box = (low, high) if cut < home[v] else (high, low)
                sides.append(moved._replace(may_enumerate=False))
        return sides

    def _write_tables(self, box: CellBox, unit: Fraction, price: Fraction) -> None:
        """Write the tables that proved a box, rounded as much as the proof bears."""
        cells, leaves, *_ = self._problem
        tables, proof = self._tables, box.proof
        tables.low[:], tables.high[:] = box.low, box.high
        tables.table[:], tables.lambda_[:] = box.start
        shift = coarsen(self._problem, tables)
        first, whole, begin, end = (a.tolist() for a in (cells.first, tables.whole, leaves.begin, leaves.end))
        written, scope, first_segment, outside = [], leaves.scope.tolist(), leaves.first_segment.tolist(), int(OUTSIDE)
        for t, tree in enumerate(leaves.name.tolist()):
            for s in range(leaves.first_scope[t], leaves.first_scope[t + 1]):
                v = scope[s]
                inside = [g for g in range(first_segment[s], first_segment[s + 1]) if whole[g] != outside]
                least = min(whole[g] for g in inside)  # a constant cancels
                if any(whole[g] > least for g in inside):
                    table = [0] * (first[v + 1] - first[v])
                    for g in inside:
                        size = end[g] + 1 - begin[g]
                        table[begin[g] - first[v] : end[g] + 1 - first[v]] = [(whole[g] - least) >> shift] * size
                    written.append([tree, int(cells.name[v]), table])
        if written:
            coarse = unit * 2**shift
            proof["unit"], proof["tables"] = [coarse.numerator, coarse.denominator], written
        if tables.lambda_[1] > 0:
            rate = Fraction(float(tables.lambda_[1])) * unit / price
            proof["lambda"] = [rate.numerator, rate.denominator]


class QuickLook(Generic[Point]):
    """Quick looks for a point in ever smaller parts of one problem.

    Each takes a few sweeps only, and starts from the tables of the one before.

    Parameters
    ----------
    problem, confirm
        See `Search`; a point may cost slightly more than the budget here.

    Attributes
    ----------
    is_proved : bool
        Whether the last look has shown that there is no point in that part.
    """

    def __init__(self, problem: Problem, confirm: Callable[[NDArray[np.int64]], Point | None]) -> None:
        self._problem, self._confirm, self.is_proved = problem, confirm, False
        self._tables = new_tables(problem.cells, problem.leaves)

    def look(
        self, budget: int, low: NDArray[np.int64] | None = None, high: NDArray[np.int64] | None = None
    ) -> Point | None:
        """Return a point within a budget (0: at any price) if a few sweeps find one, else None; see `is_proved`.

        ``low`` and ``high`` (n_variables,) are the first and last cells of the part to look at: all if not given.
        """
        cells, tables = self._problem.cells, self._tables
        tables.low[:] = cells.first[:-1] if low is None else low
        tables.high[:] = cells.first[1:] - 1 if high is None else high
        problem, tables.pace[0] = self._problem._replace(budget=budget), 0.0
        status = kernels.examine_box(problem, None, tables, (LOOK_SWEEPS, MOST_STEPS), True, None)
        self.is_proved = status not in (kernels.OPEN, kernels.FOUND, kernels.PAUSED)
        return self._confirm(tables.choice) if status == kernels.FOUND else None


def parts_of(proofs: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the parts of some proofs (docs/certificate_format.md): each split, and the two parts that it holds."""
    waiting = list(proofs)
    while waiting:
        part = waiting.pop()
        waiting += [part[side] for side in ("low", "high") if side in part]
        yield part


def cuts_of(cells: Cells, proofs: list[dict[str, Any]]) -> list[list[Any]]:
    """Return the thresholds between the cells of every variable that tables of some proofs speak of."""
    used = {name for part in parts_of(proofs) for _, name, _ in part.get("tables", ())}
    return [
        [name, cells.top[cells.first[v] : cells.first[v + 1] - 1].tolist()]
        for v, name in enumerate(cells.name.tolist())
        if name in used
    ]

"""Search: a proof that no row in reach is predicted otherwise, or such a row, on the cells of one row.

Message passing (`tables_kernels`) settles nearly every row at once. Where it does not, the box of cells is cut in two
where the bound falls most, and each half is examined. Floats choose; whole numbers prove; and a row is an attack only
if the ensemble itself predicts it otherwise and its exact price is within the budget.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from certiforest.verification import search_kernels as kernels
from certiforest.verification.cells import BUDGET, Local
from certiforest.verification.clock import Clock, OutOfTime
from certiforest.verification.tables_kernels import OUTSIDE, Contest, Tables, coarsen, new_tables

# A box is cut in two after so many sweeps at the latest; a glance takes no more than so many.
MOST_SWEEPS, GLANCE_SWEEPS = 400, 4
# Sweeps pause for a look at the clock after so many steps, a fifth of a second.
MOST_STEPS = 2**23


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


class Search:
    """Look for an attack in favour of one rival, or a proof that there is none.

    Parameters
    ----------
    local : Local
    contest : Contest
    unit : Fraction
        What a worth of one is in scores.
    is_attack : callable
        Tells whether a row gives the rival what it needs.
    keep_proof : bool, default=False
        Whether `prove` will be asked.

    Attributes
    ----------
    n_boxes : int
        How many boxes were examined to find out.
    """

    def __init__(
        self,
        local: Local,
        contest: Contest,
        unit: Fraction,
        is_attack: Callable[[NDArray[np.float64]], bool],
        *,
        keep_proof: bool = False,
    ) -> None:
        self._local, self._contest, self._unit = local, contest, unit
        self._is_attack, self._keep_proof = is_attack, keep_proof
        self._budget = local.moves.budget
        self._tables = new_tables(local.cells, local.leaves)
        # For the proof: boxes with the tables that proved them, and boxes that are known to hold no attack.
        self._proof: dict[str, Any] = {}
        self._proved: list[CellBox] = []
        self._settled: list[CellBox] = []
        self.n_boxes = 0

    def run(self, clock: Clock) -> NDArray[np.float64] | None:
        """Return an attack, None if there is provably none.

        Raises
        ------
        OutOfTime
            Not before one box is examined, if that takes no longer than a moment.
        """
        tables = self._tables
        root = CellBox(tables.low.copy(), tables.high.copy(), _start_from(tables), self._proof)
        return self._examine([root], clock)

    def prove(self, clock: Clock) -> dict[str, Any] | None:
        """Return why there is no attack, after a search that found none and was to keep a proof; None if time is up."""
        n_boxes = self.n_boxes
        try:
            while self._settled:
                boxes, self._settled = self._settled, []
                if self._examine(boxes, clock) is not None:
                    raise AssertionError("A part without an attack holds one: please report this as a defect.")
        except OutOfTime:
            return None
        finally:
            self.n_boxes = n_boxes
        for box in self._proved:
            self._write_tables(box)
        return self._proof

    def _examine(self, waiting: list[CellBox], clock: Clock) -> NDArray[np.float64] | None:
        """Examine boxes and what they are cut into; see `run`."""
        cells, leaves, tables = self._local.cells, self._local.leaves, self._tables
        while waiting:
            if self.n_boxes > 0:
                clock.check()
            box = waiting.pop()
            tables.low[:], tables.high[:] = box.low, box.high
            tables.table[:], tables.lambda_[:] = box.start
            given = cells, leaves, self._contest, tables, MOST_SWEEPS, MOST_STEPS, box.may_enumerate
            while (status := kernels.examine_box(*given)) == kernels.PAUSED:
                clock.check()
            self.n_boxes += self.n_boxes > 0 or status != kernels.BOUNDED
            if status == kernels.PROVED and self._keep_proof:
                self._proved.append(box._replace(start=_start_from(tables)))
            if status == kernels.ENUMERATED and self._keep_proof:
                self._settled += self._by_moved(box)
            if status in (kernels.PROVED, kernels.BOUNDED, kernels.UNREACHABLE, kernels.ENUMERATED):
                continue
            if status == kernels.ATTACKED:
                z = self._local.row(tables.choice)
                if self._works(z):
                    return z
                if self._local.is_beyond(box.low, box.high):
                    continue
            start = _start_from(tables)
            variable, cut = kernels.find_split(cells, leaves, self._contest, tables)
            if self._keep_proof:
                box, sides = self._tightened(box, tables, start)
                self._settled += sides
            box = box._replace(low=tables.low.copy(), high=tables.high.copy())
            if variable >= 0:
                halves = self._halves(box, start, variable, cut)
                # The half with the more promising cells is next.
                waiting += halves if tables.choice[variable] > cut else halves[::-1]
            elif self._works(z := self._local.row(box.low)):  # a single cell of each variable, so this is exact
                return z
        return None

    def _works(self, z: NDArray[np.float64]) -> bool:
        return self._is_attack(z) and self._local.is_affordable(z)

    def _halves(self, box: CellBox, start: tuple[NDArray, ...], variable: int, cut: int) -> tuple[CellBox, CellBox]:
        """Cut a box after a cell of a variable."""
        last, first = box.high.copy(), box.low.copy()
        last[variable], first[variable] = cut, cut + 1
        low, high = CellBox(box.low, last, start, {}), CellBox(first, box.high, start, {})
        cells = self._local.cells
        where = [int(cells.feature[variable]), float(cells.top[cut])]
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
        cells, leaves = self._local.cells, self._local.leaves
        start = _start_from(new_tables(cells, leaves))
        home = np.clip(cells.own, box.low, box.high)
        sides = []
        for v in np.argsort(-np.diff(leaves.first_tester), kind="stable").tolist():
            for cut in (home[v] - 1, home[v]):
                if not box.low[v] <= cut < box.high[v]:
                    continue
                low, high = self._halves(box, start, v, cut)
                moved, box = (low, high) if cut < home[v] else (high, low)
                sides.append(moved._replace(may_enumerate=False))
        return sides

    def _write_tables(self, box: CellBox) -> None:
        """Write the tables that proved a box, rounded as much as the proof bears."""
        cells, leaves, tables, proof = self._local.cells, self._local.leaves, self._tables, box.proof
        tables.low[:], tables.high[:] = box.low, box.high
        tables.table[:], tables.lambda_[:] = box.start
        shift = coarsen(cells, leaves, self._contest, tables)
        written = []
        for t, tree in enumerate(leaves.tree.tolist()):
            for s in range(leaves.first_scope[t], leaves.first_scope[t + 1]):
                v = leaves.scope[s]
                segments = range(leaves.first_segment[s], leaves.first_segment[s + 1])
                inside = [g for g in segments if tables.whole[g] != OUTSIDE]
                least = int(tables.whole[inside].min())  # a constant cancels
                if tables.whole[inside].max() > least:
                    table = np.zeros(cells.first[v + 1] - cells.first[v], np.int64)
                    for g in inside:
                        place = slice(leaves.begin[g] - cells.first[v], leaves.end[g] + 1 - cells.first[v])
                        table[place] = (tables.whole[g] - least) >> shift
                    written.append([tree, int(cells.feature[v]), table.tolist()])
        if written:
            unit = self._unit * 2**shift
            proof["unit"], proof["tables"] = [unit.numerator, unit.denominator], written
        if tables.lambda_[1] > 0:
            price = Fraction(float(tables.lambda_[1])) * self._unit * BUDGET / self._budget
            proof["lambda"] = [price.numerator, price.denominator]


class Glance:
    """Quick looks for attacks in favour of one rival, in ever smaller parts of one local problem.

    Each takes a few sweeps only, and starts from the tables of the one before.

    Parameters
    ----------
    local, contest, is_attack
        See `Search`.

    Attributes
    ----------
    is_proved : bool
        Whether the last look has shown that there is no attack in that part.
    """

    def __init__(self, local: Local, contest: Contest, is_attack: Callable[[NDArray[np.float64]], bool]) -> None:
        self.local, self._contest, self._is_attack = local, contest, is_attack
        self._tables = new_tables(local.cells, local.leaves)
        self.is_proved = False

    def look(
        self, budget: int, low: NDArray[np.int64] | None = None, high: NDArray[np.int64] | None = None
    ) -> NDArray[np.float64] | None:
        """Return a row that gives the rival what it needs; its price may be slightly above the budget.

        ``low`` and ``high`` (n_variables,) are the first and last cells of the part to look at; all, if not given.
        """
        cells, tables = self.local.cells, self._tables
        tables.low[:] = cells.first[:-1] if low is None else low
        tables.high[:] = cells.first[1:] - 1 if high is None else high
        contest, tables.pace[0] = self._contest._replace(budget=budget), 0.0
        status = kernels.examine_box(cells, self.local.leaves, contest, tables, GLANCE_SWEEPS, MOST_STEPS, True)
        self.is_proved = status not in (kernels.OPEN, kernels.ATTACKED, kernels.PAUSED)
        if status != kernels.ATTACKED:
            return None
        z = self.local.row(tables.choice)
        return z if self._is_attack(z) else None


def _start_from(tables: Tables) -> tuple[NDArray[np.float64], ...]:
    return tables.table.copy(), tables.lambda_.copy()


def parts_of(proofs: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield all parts of some proofs, those that are cut in two before their halves."""
    waiting = list(proofs)
    while waiting:
        part = waiting.pop()
        waiting += [part[side] for side in ("low", "high") if side in part]
        yield part


def cuts_of(local: Local, proofs: list[dict[str, Any]]) -> list[list[Any]]:
    """Return the thresholds between the cells of every feature that tables of some proofs speak of."""
    used = {feature for part in parts_of(proofs) for _, feature, _ in part.get("tables", ())}
    cells = local.cells
    return [
        [f, cells.top[cells.first[v] : cells.first[v + 1] - 1].tolist()]
        for v, f in enumerate(cells.feature.tolist())
        if f in used
    ]

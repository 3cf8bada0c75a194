"""Ranges: the lowest and the highest sum that an attacker can bring a row to, with rows that have them, and proofs.

A model of one sum is made one of three classes: the sum is inside an interval, above it, or below it. That no sum in
reach is beyond an end then means that a rival does not win. So what answers for classes answers for sums, too.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from certiforest.ensemble import TreeEnsemble
from certiforest.problem.around_row import Goal, RowProblem
from certiforest.problem.problem import BUDGET
from certiforest.problem.verifier import Verifier
from certiforest.proof.clock import Clock, OutOfTime
from certiforest.proof.search import Search, cuts_of
from certiforest.rows.decider import method_of
from certiforest.rows.related_row import row_problem
from certiforest.verdicts import Method

SIDES = INSIDE, ABOVE, BELOW = range(3)


def as_sides(ensemble: TreeEnsemble, sign: int = 1) -> TreeEnsemble:
    """Return a model of one sum, or of votes for two classes, as three: inside an interval, above it, below it.

    The interval is from ``low`` to ``high`` where the base is ``[0, -high, low]``. The sum is that of the last output,
    times a sign, or the number of votes for the second class.
    """
    scores, base = ([[0.0], [1.0]], [0.0]) if ensemble.combine == "vote" else ensemble.summands()
    # The base becomes a tree of one leaf, so that ends of intervals, which take its place, are not rounded.
    last = sign * np.vstack([np.asarray(scores)[:, -1:], np.asarray(base)[-1:]])
    table, leaf = np.hstack([0.0 * last, last, -last]), len(last) - 1
    return ensemble.with_leaves([leaf], classes=SIDES, scores=table, base=np.zeros(3))


class End(NamedTuple):
    """The largest sum in reach for one side; below, sums have the other sign.

    Attributes
    ----------
    proved : Fraction
        No sum in reach is larger.
    reached : Fraction
    row : ndarray, shape (n_features,)
        One in reach that has that sum.
    """

    proved: Fraction
    reached: Fraction
    row: NDArray[np.float64]


class Range(NamedTuple):
    """What sums are in reach of one row; ``proof`` (docs/certificate_format.md) shows both ends, if it was kept."""

    above: End
    below: End
    method: Method
    proof: dict[str, Any] | None


def find_range(verifier: Verifier, x: NDArray[np.float64], clock: Clock, *, keep_proof: bool = False) -> Range:
    """Find the range of one row of a model made by `as_sides`; nothing can change where the method is COMPOSED."""
    row = row_problem(verifier, x)
    found = _range_of(row, clock, keep_proof=keep_proof)
    if row.is_open:  # what is proved without relations holds with them
        wider = _range_of(RowProblem(verifier, x), clock)
        above, below = (end._replace(proved=w.proved) for end, w in zip(found[:2], wider[:2], strict=True))
        return Range(above, below, found.method, None)
    return found


def _range_of(row: RowProblem, clock: Clock, *, keep_proof: bool = False) -> Range:
    searches = {side: _EndSearch(row, side, keep_proof=keep_proof) for side in (ABOVE, BELOW)}
    above, below = (search.run(clock.share(share)) for search, share in zip(searches.values(), (0.5, 1.0), strict=True))
    method = method_of(max(search.n_boxes for search in searches.values())) if len(row.leaves.name) else Method.COMPOSED
    proofs = [{"rival": side, **found} for side, s in searches.items() if (found := s.prove(clock)) is not None]
    proof = {"cuts": cuts_of(row.cells, proofs), "rivals": proofs} if len(proofs) == len(searches) else None
    return Range(above, below, method, proof)


class _EndSearch:
    """Looks for the largest sum in reach for one side: each row that is found asks for a larger sum."""

    def __init__(self, row: RowProblem, side: int, *, keep_proof: bool) -> None:
        self._row, self._side, self._gains, self._keep_proof = row, side, row.verifier.gains, keep_proof
        self._best, self._z, self._is_proved = row.verifier.gain_at(row.x, INSIDE, side), row.x, False
        goal = self._goal
        self._unit = goal.unit
        self._search = Search(
            goal.problem, self._confirm, row.is_beyond, row.sharpen, keep_proof=keep_proof,
            improve=lambda _: self._goal.problem,
        )  # fmt: skip

    @property
    def _goal(self) -> Goal:
        return Goal(self._row, INSIDE, self._side, self._best + 1)

    @property
    def n_boxes(self) -> int:
        """How many boxes were examined."""
        return self._search.n_boxes

    def run(self, clock: Clock) -> End:
        """Return the largest sum, within bounds if there is no time to find it."""
        unit, most = self._gains.unit, self._best
        try:
            self._search.run(clock)
            self._is_proved, most = True, self._best
        except OutOfTime:
            fixed = self._row.verifier.ensemble.leaf[self._row.fixed]
            of_trees = math.floor(self._search.bound * self._unit / unit)
            most = max(of_trees + self._gains.total(fixed, INSIDE, self._side), self._best)
        return End(most * unit, self._best * unit, self._z)

    def prove(self, clock: Clock) -> dict[str, Any] | None:
        """Return the proof that no sum in reach is larger, after it was found; None if time is up."""
        if not (self._is_proved and self._keep_proof):
            return None
        return self._search.prove(clock, self._unit, self._row.moves.budget / BUDGET)

    def _confirm(self, choice: NDArray[np.int64]) -> NDArray[np.float64] | None:
        z = self._row.row(choice)
        gain = self._row.verifier.gain_at(z, INSIDE, self._side)
        found = self._row.point(z, choice, is_limited=True) if gain > self._best else None
        if found is not None:
            self._best, self._z = gain, found
        return found

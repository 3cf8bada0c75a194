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
    """The largest sum in reach for one side (below, sums have the other sign), and a row that has what was reached."""

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
    ends, proofs, n_boxes = [], [], 0
    for side, share in ((ABOVE, 0.5), (BELOW, 1.0)):
        end, search, unit = _find_end(row, side, clock.share(share), keep_proof=keep_proof)
        ends.append(end)
        n_boxes = max(n_boxes, search.n_boxes)
        if keep_proof and end.proved == end.reached:
            proof = search.prove(clock, unit, row.moves.budget / BUDGET)
            proofs += [] if proof is None else [{"rival": side, **proof}]
    method = method_of(n_boxes) if len(row.leaves.name) else Method.COMPOSED
    proof = {"cuts": cuts_of(row.cells, proofs), "rivals": proofs} if len(proofs) == 2 else None
    return Range(ends[0], ends[1], method, proof)


def _find_end(
    row: RowProblem, side: int, clock: Clock, *, keep_proof: bool
) -> tuple[End, Search[NDArray[np.float64]], Fraction]:
    """Find the largest sum in reach for one side: each row that is found asks for a larger sum."""
    verifier, z = row.verifier, row.x
    best, unit = verifier.gain_at(z, INSIDE, side), verifier.gains.unit

    def asked() -> Goal:
        return Goal(row, INSIDE, side, best + 1)

    def confirm(choice: NDArray[np.int64]) -> NDArray[np.float64] | None:
        nonlocal best, z
        here = row.row(choice)
        found = row.point(here, choice, is_limited=True) if verifier.gain_at(here, INSIDE, side) > best else None
        gain = best if found is None else verifier.gain_at(found, INSIDE, side)
        if found is None or gain <= best:
            return None
        best, z = gain, found
        return found

    goal = asked()
    search = Search(
        goal.problem,
        confirm,
        row.is_beyond,
        divide=row.divide,
        shrink=row.shrink,
        keep_proof=keep_proof,
        improve=lambda _: asked().problem,
    )
    try:
        search.run(clock)
        most = best
    except OutOfTime:
        fixed = verifier.gains.total(verifier.ensemble.leaf[row.fixed], INSIDE, side)
        most = max(fixed + math.floor(search.bound * goal.unit / unit), best)
    return End(most * unit, best * unit, z), search, goal.unit

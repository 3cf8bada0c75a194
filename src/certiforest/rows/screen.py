"""Screen: verdicts on whole blocks of rows, tree by tree.

For L-inf each tree goes to its own worst leaf, and the sum of these is the worst case: linear time, no search. For the
other norms leaves share a budget, and the worst case is a knapsack problem (`knapsack_kernels`). A vote is a score of
one. Where trees meet, a row is left open unless it withstands each tree at its worst.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from certiforest.attack.prices import Budgets
from certiforest.ensemble.score_kernels import Scores
from certiforest.problem.verifier import Verifier
from certiforest.proof.clock import Clock
from certiforest.rows import screen_kernels as kernels
from certiforest.rows.certified_rows import Results
from certiforest.rows.one_move_kernels import decide_by_one_move
from certiforest.rows.push_kernels import find_lean
from certiforest.rows.radius_kernels import composed_radii
from certiforest.rows.rate_kernels import decide_by_rate
from certiforest.rows.screen_kernels import BORDERLINE, UNFINISHED, UNKNOWN, Stakes
from certiforest.verdicts import STABLE

# Sums that a knapsack keeps at a time and comparisons that it makes at first; with each of so many trials there are
# twice the room and four times the work.
FIRST_ROOM, FIRST_WORK, MOST_TRIALS = 2**12, 2**16, 10


class Screen:
    """The screen for one ensemble and attacker.

    Parameters
    ----------
    verifier : Verifier
        With a margin, a row is stable, or unstable, only if what decides is beyond it on that side of zero.
    """

    def __init__(self, verifier: Verifier) -> None:
        self._verifier, self._allowance = verifier, verifier.allowance
        ensemble, scores = verifier.ensemble, verifier.ensemble.prepared_scores
        margin = verifier.margin
        if margin > 0:  # no lead is larger than twice the largest sum: a larger margin says no more.
            margin = min(margin, max(4 * ensemble.largest_sum, 1e-300))
        if not verifier.is_box:
            # Knapsacks multiply costs and gains: a power of two brings scores to where products stay in range.
            shift = -math.frexp(scores.slack)[1]
            with np.errstate(over="ignore"):  # of scores that no leaf has any more, and of steps between these
                value, step = (
                    np.nan_to_num(np.ldexp(part, shift), posinf=0.0, neginf=0.0) for part in (scores.value, scores.step)
                )
            scores = Scores(value, scores.digit, math.ldexp(scores.slack, shift), float(step))
            margin = max(math.ldexp(margin, shift), 5e-324) if margin > 0 else 0.0
            if self._allowance.slack > 0:  # steps along hulls are added up, too
                slack = self._allowance.slack + 8.0 * ensemble.n_nodes * 2.0**-53
                self._allowance = self._allowance._replace(slack=slack)
        self._stakes = _stakes(verifier, scores, margin)
        self._is_whole = scores.step > 0 and margin == 0
        self._is_one_move = _is_one_move(verifier)

    def decide(
        self, X: NDArray[np.float64], order: VisitOrder, clock: Clock, out_prediction: NDArray, out_stable: NDArray
    ) -> NDArray[np.float64]:
        """Write the predicted class index and 1, 0, -1 or BORDERLINE for each row; return the seconds each has spent.

        That is stable, unstable, unknown, or unknown because of rounding alone. A row spends half of its seconds here
        at most.
        """
        spent, first = np.zeros(len(X)), -1 if len(self._stakes.lowest) else 0
        self._decide(X, order, first, out_prediction, out_stable)
        for i in np.flatnonzero(out_stable == UNFINISHED):
            half, row = clock.start().share(0.5), slice(i, i + 1)
            for trial in range(first + 1, MOST_TRIALS + 1):
                if out_stable[i] != UNFINISHED or (trial > 0 and (half.is_up or half.left < 3 * half.spent)):
                    break  # a trial takes about three times as long as all before it
                self._decide(X[row], order, trial, out_prediction[row], out_stable[row])
            spent[i] = half.spent
        out_stable[out_stable == UNFINISHED] = UNKNOWN
        if not self._is_whole:
            out_stable[out_stable == BORDERLINE] = UNKNOWN
        if self._stakes.margin == 0:  # else what is within rounding of it would depend on the order
            order.improve(self._stakes.reach)
        return spent

    def _decide(
        self, X: NDArray[np.float64], order: VisitOrder, trial: int, out_prediction: NDArray, out_stable: NDArray
    ) -> None:
        """Write what a trial finds out; one below 0 is made at rates."""
        verifier, allowance = self._verifier, self._allowance
        for run, trees, rows in verifier.rows_by_pattern(X, verifier.moves):
            results = out_prediction[run], out_stable[run]
            if verifier.is_box:
                kernels.decide_within_box(trees, rows, allowance.budgets, self._stakes, order, *results)
            elif self._is_one_move:
                decide_by_one_move(trees, rows, allowance, self._stakes, order, *results)
            elif trial < 0:
                decide_by_rate(trees, rows, allowance, self._stakes, order, *results)
            else:
                effort = FIRST_ROOM * 2**trial, FIRST_WORK * 4**trial
                kernels.decide_by_price(trees, rows, allowance, self._stakes, order, effort, *results)

    def composed_radii(self, X: NDArray[np.float64], out_radius: NDArray, out_works: NDArray) -> None:
        """Write what it costs at least to change each row under L-inf, each tree taken on its own.

        That is rounded up, exact where the scale is 1, and inf if there is no change. Also write whether the changes of
        all trees work together.
        """
        verifier = self._verifier
        allowance, scores = verifier.endless_allowance(), verifier.ensemble.prepared_scores
        for run, trees, rows in verifier.rows_by_pattern(X):
            composed_radii(trees, rows, allowance, scores, out_radius[run], out_works[run])


def prove_without_tables(
    verifier: Verifier,
    X: NDArray[np.float64],
    order: VisitOrder,
    clock: Clock,
    found: Results,
    is_open: NDArray[np.bool_],
) -> int:
    """Write the proofs of rows that withstand each tree at its worst; return how many more are done."""
    boxed, n_classes = verifier.boxed, verifier.ensemble.n_classes
    places = np.flatnonzero(is_open & (found.stable == STABLE))
    if boxed is None or found.proof is None or not len(places):
        return 0
    stable = found.stable[places]
    if boxed is not verifier:  # else it has called them stable already
        boxed.made(Screen).decide(X[places], order, clock, np.empty(len(places), np.int64), stable)
    for i in places[stable == STABLE]:
        rivals = [{"rival": c} for c in range(n_classes) if c != found.prediction[i]]
        found.proof[i], found.is_decided[i], is_open[i] = {"cuts": [], "rivals": rivals}, True, False
    return int((stable == STABLE).sum())


class VisitOrder(NamedTuple):
    """In which order trees are visited: those that attackers seldom move, and whose word counts most, come first.

    Trees that cannot be moved, and hold a majority, are then found sooner. It learns from each block of rows, and no
    verdict depends on it. Each thread has its own.

    Attributes
    ----------
    place : ndarray of int64, shape (n_trees,)
        Trees in the order of visits.
    moved : ndarray of int64, shape (n_trees, 2)
        How often each tree was visited, and how often an attacker could perhaps move it.
    """

    place: NDArray[np.int64]
    moved: NDArray[np.int64]

    @classmethod
    def of(cls, n_trees: int) -> VisitOrder:
        """Return the order of the trees themselves."""
        return cls(np.arange(n_trees), np.zeros((n_trees, 2), np.int64))

    def improve(self, weight: NDArray[np.float64]) -> None:
        """Sort by how often each tree could be moved so far, and by weight, (n_trees,)."""
        visits, moves = self.moved.T
        self.place[:] = np.argsort((moves / np.maximum(visits, 1) - 1) * weight, kind="stable")


def _is_one_move(verifier: Verifier) -> bool:
    return verifier.moves.norm == 0 and verifier.moves.is_plain and verifier.allowance.limit < 2


def _stakes(verifier: Verifier, scores: Scores, margin: float) -> Stakes:
    """Return what decides: see `Stakes`."""
    ensemble, value, n_classes = verifier.ensemble, scores.value, scores.value.shape[1]
    others = [[c for c in range(n_classes) if c != y] for y in range(n_classes)]
    ahead = np.column_stack(
        [value[:, y] - value[:, rest].max(axis=1, initial=-np.inf) for y, rest in enumerate(others)]
    )
    favourite = ahead[:-1].argmax(axis=1)
    reach = ensemble.ranges_of_trees(np.ptp(value, axis=1, keepdims=True))[1, :, 0]
    lowest, highest = ensemble.ranges_of_trees(value[:, 1:] - value[:, :1] if n_classes == 2 else value)
    span, few = (highest - lowest).max(axis=1) * (1.0 if n_classes == 2 else 2.0), math.inf
    if verifier.moves.norm == 0 and not verifier.is_box and not len(verifier.unclaimed):
        few = float(-np.sort(-span)[: int(min(verifier.allowance.limit, len(span)))].sum())
    has_rates = not (verifier.is_box or len(verifier.unclaimed) or _is_one_move(verifier))
    has_rates = has_rates and verifier.allowance.slack < math.inf
    ends = np.empty((2, ensemble.n_nodes if has_rates else 0, n_classes))
    if has_rates:
        kernels.find_ends(verifier.trees, value, *ends)
    return Stakes(
        scores=scores,
        margin=margin,
        span=span,
        reach=reach,
        favourite=favourite,
        ahead=ahead[np.arange(len(favourite)), favourite],
        base_ahead=ahead[-1],
        enough=float(reach.sum()) + scores.slack + margin,
        few=few,
        unclaimed=verifier.unclaimed,
        push=_push(verifier, value[:-1], margin),
        lowest=ends[0],
        highest=ends[1],
    )


def _push(verifier: Verifier, value: NDArray[np.float64], margin: float) -> NDArray[np.float64]:
    """Return how far to push features away from each class, see `Stakes`: where trees can meet in a box."""
    budgets: Budgets = verifier.allowance.budgets  # type: ignore[assignment]
    n_classes = value.shape[1]
    if margin > 0 or not verifier.is_box or not len(verifier.unclaimed) or verifier.moves.relations:
        return np.empty((0, 0))
    lean = np.zeros((n_classes, len(budgets.near)))
    find_lean(verifier.trees, value, lean)
    away = lean * n_classes - lean.sum(axis=0)
    farthest, is_whole = budgets.rounded.copy(), np.zeros(len(budgets.near), bool)
    is_whole[: verifier.ensemble.n_features] = verifier.moves.numbers.is_whole
    farthest[:, is_whole] = np.floor(np.where(budgets.rest < 0, np.nextafter(farthest, -1.0), farthest)[:, is_whole])
    farthest[~((farthest > 0) & (farthest < math.inf))] = 0.0
    return np.where(away < 0, farthest[1], np.where(away > 0, -farthest[0], 0.0))

"""Sums: verdicts on whole blocks of rows where scores add up.

For L-inf each tree goes to its own worst leaf, and the sum of these is the worst case: linear time, no search. For the
other norms leaves share a budget, and the worst case is a knapsack problem (`knapsack`). Kernels settle nearly all
rows by bounds; the rest are looked at one by one in floats, and where rounding could matter they stay open.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from certiforest.attack.moves import Moves
from certiforest.ensemble import TreeEnsemble
from certiforest.ensemble.score_kernels import Scores
from certiforest.problem.verifier import Allowance, Verifier
from certiforest.proof.clock import Clock, OutOfTime
from certiforest.rows import sums_kernels as kernels
from certiforest.rows.knapsack import can_buy
from certiforest.rows.knapsack_kernels import Fronts, Goal
from certiforest.rows.sums_kernels import ListedLeaves, Scoring
from certiforest.rows.votes import VisitOrder
from certiforest.rows.votes_kernels import BORDERLINE
from certiforest.verdicts import STABLE, UNKNOWN, UNSTABLE


class Sums:
    """The screen for scores that add up, for one prepared ensemble.

    Parameters
    ----------
    prepared : Verifier
    margin : float, default=0.0
        A row is stable, or unstable, only if what decides is beyond this on that side of zero; else it is undecided.
    """

    def __init__(self, prepared: Verifier, margin: float = 0.0) -> None:
        self._prepared = prepared
        ensemble = self._ensemble = prepared.ensemble
        # No lead is larger than twice the largest sum: a larger margin says no more, and is hard to calculate with.
        margin, scores = min(margin, max(4 * ensemble.largest_sum, 1e-300)), ensemble.prepared_scores
        span = _spans(ensemble, scores.value)
        self._scoring = Scoring(scores, margin, span)
        # Knapsacks multiply costs and gains: a power of two brings scores to where products stay in range.
        value, digit, slack = scores
        shift = -math.frexp(slack)[1]
        with np.errstate(over="ignore"):  # of scores that no leaf has any more
            scaled = Scores(np.ldexp(value, shift), digit, math.ldexp(slack, shift))
        scaled_margin = max(math.ldexp(margin, shift), 5e-324) if margin > 0 else 0.0
        self._scaled = Scoring(scaled, scaled_margin, np.ldexp(span, shift))
        self._allowance = prepared.allowance
        if self._allowance.slack > 0:  # steps along hulls are added up, too
            self._allowance = self._allowance._replace(slack=self._allowance.slack + 8.0 * ensemble.n_nodes * 2.0**-53)

    def decide(
        self, X: NDArray[np.float64], order: VisitOrder, clock: Clock, out_prediction: NDArray, out_stable: NDArray
    ) -> NDArray[np.float64]:
        """Write the predicted class index and 1, 0 or -1 (stable, unstable, unknown) for each row.

        Return the seconds that each row has spent: half of its own at most. All trees speak for every row, so that
        their order plays no role.
        """
        prepared = self._prepared
        for run, trees, rows in prepared.runs(X, prepared.moves):
            results = prepared.unclaimed, out_prediction[run], out_stable[run]
            if prepared.is_box:
                kernels.decide_within_box(trees, rows, self._allowance.budgets, self._scoring, *results)
            else:
                kernels.decide_by_price(trees, rows, self._allowance, self._scaled, *results)
        borderline = np.flatnonzero(out_stable == BORDERLINE)
        leaves, spent = _Leaves(prepared) if borderline.size else None, np.zeros(len(X))
        for i in borderline:
            assert leaves is not None
            half = clock.start().share(0.5)
            out_stable[i] = self._look_closer(X[i], int(out_prediction[i]), leaves, half)
            spent[i] = half.spent
        return spent

    def _look_closer(self, x: NDArray[np.float64], y: int, leaves: _Leaves, clock: Clock) -> int:
        """Decide a row at which no trees meet as a knapsack problem in floats, if rounding cannot matter."""
        limit, slack = self._allowance.limit, self._allowance.slack
        value, _, gain_slack = self._scaled.scores
        band = gain_slack + self._scaled.margin
        if slack == math.inf:
            return UNKNOWN
        leaves.list(x, self._allowance, self._prepared.moves)
        leads = [(rival, leaves.lead(value, y, rival)) for rival in range(self._ensemble.n_classes) if rival != y]
        if self._scaled.margin > 0 and min(lead for _, lead in leads) <= band:
            return UNKNOWN
        is_open = False
        for rival, lead in leads:
            fronts = leaves.fronts(value, y, rival)
            try:
                if not can_buy(fronts, Goal(limit + slack, lead - band, slack, band), clock):
                    continue
                if can_buy(fronts, Goal(limit - slack, lead + band, slack, band), clock):
                    return UNSTABLE
            except OutOfTime:  # another rival may be easier
                pass
            is_open = True
        return UNKNOWN if is_open else STABLE

    def composed_radii(self, X: NDArray[np.float64], out_radius: NDArray, out_works: NDArray) -> None:
        """Write what it costs at least to change each row under L-inf; see `Votes.composed_radii`."""
        ensemble, leaves = self._ensemble, _Leaves(self._prepared)
        allowance = self._prepared.endless_allowance()
        prediction = ensemble.class_index(X)
        out_radius[:], out_works[:], usual = math.inf, False, math.inf
        for i, y in enumerate(prediction.tolist()):
            # Most leaves are much farther than what it takes for rows like this one.
            for limit in (usual, math.inf):
                leaves.list(X[i], allowance._replace(limit=limit))
                for rival in range(ensemble.n_classes):
                    cost = leaves.cheapest_break(self._scoring.scores, y, rival) if rival != y else math.inf
                    if cost < out_radius[i]:
                        out_radius[i] = cost
                        out_works[i] = self._prepared.predict(leaves.enter()) != y
                if out_radius[i] < math.inf:
                    usual = 2.0 * out_radius[i]
                    break


class _Leaves:
    """The leaves of all trees within a limit, listed for one row after another."""

    def __init__(self, prepared: Verifier) -> None:
        ensemble, self._prepared, self._trees = prepared.ensemble, prepared, prepared.trees
        n_nodes, n_trees = ensemble.n_nodes, ensemble.n_trees
        self._ensemble = ensemble
        self._stacks = np.empty(n_nodes + 1, np.int64), np.empty(n_nodes + 1)
        self._listed = ListedLeaves(
            np.empty(n_nodes + 1, np.int64), np.empty(n_nodes + 1), np.empty(n_trees + 1, np.int64)
        )
        self._row = np.empty(0)
        self._pick, self._leaf = np.empty(n_trees, np.int64), np.empty(n_trees, np.int64)

    def list(self, x: NDArray, allowance: Allowance, moves: Moves | None = None) -> None:
        """List the leaves within a limit, see `reach_kernels.list_leaves` and `Verifier.runs`."""
        ((_, self._trees, (self._row,)),) = self._prepared.runs(x[None], moves)
        kernels.list_row(self._trees, self._row, allowance, *self._stacks, self._listed)

    def lead(self, value: NDArray[np.float64], y: int, rival: int) -> float:
        """Return the lead of ``y`` over a rival at the row itself, in floats."""
        rows = np.append(self._ensemble.leaf[self._listed.node[self._listed.start[:-1]]], len(value) - 1)
        return float((value[rows, y] - value[rows, rival]).sum())

    def fronts(self, value: NDArray[np.float64], y: int, rival: int) -> Fronts:
        """Return what the leaves offer to a rival."""
        n = self._listed.start[-1]
        cost, gain, start = Fronts(np.empty(n), np.empty(n), np.empty(self._ensemble.n_trees + 1, np.int64))
        n_fronts = kernels.list_fronts(value, self._ensemble.leaf, self._listed, y, rival, Fronts(cost, gain, start))
        n = start[n_fronts]
        return Fronts(cost[:n], gain[:n], start[: n_fronts + 1])

    def cheapest_break(self, scores: Scores, y: int, rival: int) -> float:
        """Return the least L-inf cost at which a rival overtakes ``y``, each tree in its worst leaf so far."""
        order = np.argsort(self._listed.cost[: self._listed.start[-1]], kind="stable")
        return kernels.cheapest_break(self._trees, scores, self._listed, order, y, rival, self._pick, self._leaf)

    def enter(self) -> NDArray[np.float64]:
        """Return the row moved into the leaves of the last break."""
        z = self._row.copy()
        kernels.enter_leaves(self._trees, self._leaf, z)
        return z[: self._ensemble.n_features]


def _spans(ensemble: TreeEnsemble, value: NDArray[np.float64]) -> NDArray[np.float64]:
    """Bound by how much each tree can change the lead of any class over any other, shape (n_trees,)."""
    is_pair = value.shape[1] == 2
    worth = value[:, 1:] - value[:, :1] if is_pair else value
    is_leaf = (ensemble.feature < 0)[:, None]
    rows = worth[ensemble.leaf]
    starts = ensemble.tree_start[:-1]
    highest = np.maximum.reduceat(np.where(is_leaf, rows, -np.inf), starts)
    lowest = np.minimum.reduceat(np.where(is_leaf, rows, np.inf), starts)
    return (highest - lowest).max(axis=1) * (1.0 if is_pair else 2.0)

"""Summing: exact verdicts for ensembles whose scores add up, where trees do not meet.

For L-inf each tree goes to its own worst leaf, and the sum of these is the worst case: linear time, no search. For the
other norms leaves share a budget, and the worst case is a knapsack problem (`knapsack`): NP-hard, exact all the same,
with a limit on time. Kernels settle nearly all rows by bounds; the rest are looked at one by one, first in floats,
then, if rounding could matter, in whole numbers.
"""

from __future__ import annotations

import math
import time
from fractions import Fraction
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray

from certiforest.attack.attacker import Attacker, Budgets
from certiforest.ensemble import TreeEnsemble
from certiforest.ensemble.score_kernels import Scores
from certiforest.verification import summing_kernels as kernels
from certiforest.verification.certificates import STABLE, UNDECIDED, UNSTABLE
from certiforest.verification.composition import MARGIN, VANISHING, Composition, Tariff, VisitOrder
from certiforest.verification.composition_kernels import BORDERLINE, write_witness
from certiforest.verification.knapsack import Fronts, Purchase, UndecidedError, find_purchase, least_cost
from certiforest.verification.offers import Offers, WholeScores
from certiforest.verification.rationals import Change, exact_budget


class Summing(Composition):
    """One ensemble of scores against one attacker, ready to decide rows.

    Parameters
    ----------
    ensemble : TreeEnsemble
    attacker : Attacker
    margin : float, default=0.0
        A row is stable, or unstable, only if what decides is beyond this on that side of zero; else it is unknown.
    time_limit : float, default=inf
        Seconds for the closer look at one row.
    """

    def __init__(
        self, ensemble: TreeEnsemble, attacker: Attacker, *, margin: float = 0.0, time_limit: float = math.inf
    ) -> None:
        super().__init__(ensemble, attacker)
        # No lead is larger than twice the largest sum: a larger margin says no more, and is hard to calculate with.
        self.margin = min(margin, max(4 * self.ensemble.largest_sum, 1e-300))
        self.time_limit = time_limit
        self.scores = self.ensemble.prepared_scores
        self.span = _spans(self.ensemble, self.scores.value)
        # Knapsacks multiply costs and gains: a power of two brings scores to where products stay in range.
        self._shift = -math.frexp(self.scores.slack)[1]
        value, digit, slack = self.scores
        self.scaled_scores = Scores(np.ldexp(value, self._shift), digit, math.ldexp(slack, self._shift))
        if self.slack > 0:
            self.slack += 8.0 * self.ensemble.n_nodes * 2.0**-53  # steps along hulls are added up, too

    @cached_property
    def whole_scores(self) -> WholeScores:
        """The scores as whole numbers."""
        return WholeScores(self.scores)

    @property
    def band(self) -> float:
        """How far from a tie, in scaled scores, a sum in floats must be to decide."""
        return self.scaled_scores.slack + self._scaled_margin

    @property
    def _scaled_margin(self) -> float:
        """The margin in scaled scores, above zero if it is."""
        return max(math.ldexp(self.margin, self._shift), 5e-324) if self.margin > 0 else 0.0

    @property
    def tariff(self) -> Tariff:
        """How leaves are priced against the attacker's budget."""
        return Tariff(self.budgets, self.unit, int(self.attacker.norm), self.limit + self.slack, self.attacker.eps)

    def decide(
        self, X: NDArray[np.float64], order: VisitOrder, out_prediction: NDArray, out_stable: NDArray[np.int8]
    ) -> None:
        """Write the predicted class index and 1, 0 or -1 (stable, unstable, unknown) for each row.

        All trees speak for every row, so that their order plays no role.
        """
        trees, watch = self.ensemble.trees, not self.has_large_spread
        if self.is_box:
            kernels.decide_within_box(
                trees, X, *self.budgets, *self.scores, self.margin, self.span, watch, out_prediction, out_stable
            )
            return
        prices = self.unit, int(self.attacker.norm), self.limit, self.slack
        margin, span = self._scaled_margin, np.ldexp(self.span, self._shift)
        kernels.decide_by_price(
            trees, X, *self.budgets, *prices, *self.scaled_scores, margin, span, watch, out_prediction, out_stable
        )
        borderline = np.flatnonzero(out_stable == BORDERLINE)
        if borderline.size:
            pricing = self.pricing()
            for i in borderline:
                out_stable[i] = pricing.look_closer(X[i])

    def write_witnesses(self, X: NDArray[np.float64], unstable: NDArray[np.int64], out: NDArray) -> None:
        """Write, for each unstable row (by index), a row within the attacker's reach that is predicted otherwise."""
        pricing = self.pricing()
        for i in unstable:
            out[i] = X[i]
            leaf, target = pricing.find_change(X[i])
            write_witness(self.ensemble.trees, leaf, target, out[i])
        self.check_witnesses(X[unstable], out[unstable])

    def pricing(self) -> SumPricing:
        """Return scratch space to price rows; each thread needs its own."""
        return SumPricing(self)

    @property
    def has_float_costs(self) -> bool:
        """Whether `change_radii` can price changes: L-inf without scale."""
        return super().has_float_costs and self.attacker.norm == math.inf

    def change_radii(
        self,
        X: NDArray[np.float64],
        movable: NDArray[np.bool_],
        out_radius: NDArray[np.float64],
        out_works: NDArray[np.bool_],
        out_witness: NDArray[np.float64],
    ) -> None:
        """Price the cheapest composed change of each row; see `Composition.change_radii`."""
        pricing = self.pricing()
        ones = np.ones(self.ensemble.n_features)
        tariff = Tariff(Budgets(np.where(movable, math.inf, -1.0), 0.0 * ones), ones, -1, math.inf, 1.0)
        for i, x in enumerate(X):
            out_witness[i] = x
            out_radius[i], leaf, target = pricing.cheapest_break(x, tariff)
            write_witness(self.ensemble.trees, leaf, target, out_witness[i])
        out_works[:] = self.ensemble.class_index(X) != self.ensemble.class_index(out_witness)


class SumPricing:
    """Scratch space to price the changes of one row after another."""

    def __init__(self, summing: Summing) -> None:
        self.summing, self.ensemble = summing, summing.ensemble
        n_nodes, n_trees = self.ensemble.n_nodes, self.ensemble.n_trees
        self._node, self._cost = np.empty(n_nodes + 1, np.int64), np.empty(n_nodes + 1)
        self._start = np.empty(n_trees + 1, np.int64)
        self._stacks = np.empty(n_nodes + 1, np.int64), np.empty(n_nodes + 1)
        self._leaf, self._pick = np.empty(n_trees, np.int64), np.empty(n_trees, np.int64)

    def look_closer(self, x: NDArray[np.float64]) -> int:
        """Decide a row, by the clock: STABLE, UNSTABLE or UNDECIDED."""
        try:
            change = self._find_change(x, self._deadline())
        except UndecidedError:
            return UNDECIDED
        return STABLE if change is None else UNSTABLE

    def find_change(self, x: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return an attack on an unstable row: leaf and target as in `Change`."""
        change = self._find_box_change(x) if self.summing.is_box else self._find_change(x, math.inf)
        if change is None:
            raise AssertionError("An unstable row has no attack: please report this as a defect.")
        return change

    def _find_box_change(self, x: NDArray[np.float64]) -> tuple[NDArray, NDArray] | None:
        """Send every tree to its worst leaf, in favour of the rival that ends up furthest ahead."""
        y = self._predict(x)
        best, change = 0, None
        for rival in self._rivals(y):
            kernels.find_worst_leaves(
                self.ensemble.trees, self.summing.scores.value, x, *self.summing.budgets, y, rival,
                *self._stacks, self._node, self._cost, self._leaf,
            )  # fmt: skip
            need = self.summing.whole_scores.need(self.ensemble.leaf[self._leaf], y, rival)
            if need < best or (need == 0 and change is None):
                best, change = need, _all_of(self._leaf)
        return change

    def _find_change(self, x: NDArray[np.float64], deadline: float) -> tuple[NDArray, NDArray] | None:
        """Find an attack within the budget; None if there is none."""
        summing, y = self.summing, self._predict(x)
        limit, slack, band = summing.limit, summing.slack, summing.band
        self._list_leaves(x, summing.tariff)
        leads = {rival: self._lead(y, rival) for rival in self._rivals(y)}
        if summing.margin > 0 and min(leads.values()) <= band:
            raise UndecidedError
        unclear, is_open = [], False
        for rival, lead in leads.items():
            fronts = self._fronts(y, rival)
            if slack < math.inf:
                buy = partial(find_purchase, fronts, cost_slack=slack, gain_slack=band, deadline=deadline)
                try:
                    purchase = buy(limit + slack, lead - band)
                    if purchase is None:
                        continue
                    if purchase.cost > limit - slack or purchase.gain < lead + band:
                        purchase = buy(limit - slack, lead + band)
                except UndecidedError:  # another rival may be easier
                    is_open = True
                    continue
                if purchase is not None:
                    return self._bought(fronts, purchase)
            unclear.append(rival)
        if unclear and summing.margin == 0:
            budget = exact_budget(summing.attacker)
            offers = Offers(self.ensemble, summing.whole_scores, summing.attacker, x, budget)
            for rival in unclear:
                fronts, need = offers.fronts(y, rival)
                try:
                    purchase = find_purchase(fronts, offers.in_units(budget), need, deadline=deadline)
                except UndecidedError:
                    is_open = True
                    continue
                if purchase is not None:
                    return self._bought(fronts, purchase)
        if is_open or (unclear and summing.margin > 0):
            raise UndecidedError
        return None

    def cheapest_break(self, x: NDArray[np.float64], tariff: Tariff) -> tuple[float, NDArray, NDArray]:
        """Return the least L-inf cost, in floats, at which the prediction changes, with leaf and target."""
        y = self._predict(x)
        self._list_leaves(x, tariff)
        n = self._start[-1]
        node, cost = self._node[:n], self._cost[:n]
        order = np.argsort(cost, kind="stable")
        nothing = np.full(self.ensemble.n_trees, -1)
        best, change = math.inf, (nothing[:, None], nothing)
        for rival in self._rivals(y):
            price = kernels.cheapest_break(
                self.ensemble.trees, *self.summing.scores, node, cost, self._start, y, rival, order,
                self._pick, self._leaf,
            )  # fmt: skip
            if price < best:
                best, change = price, _all_of(self._leaf)
        return best, *change

    def exact_change(self, x: NDArray[np.float64], attacker: Attacker, tariff: Tariff | None) -> Change:
        """Return the cheapest change in exact arithmetic; floats, unless there is no tariff, find what matters.

        Where the search takes too long, the cost is a lower bound.
        """
        nothing = np.full(self.ensemble.n_trees, -1)
        never = Change(math.inf, nothing, nothing[:, None])
        y = self._predict(x)
        if attacker.norm == math.inf:
            price = math.inf if tariff is None else self.cheapest_break(x, tariff)[0]
            if tariff is not None and price == math.inf:
                return never
            ceiling = math.inf if tariff is None else tariff.ceiling(price)
            offers = Offers(self.ensemble, self.summing.whole_scores, attacker, x, ceiling)
            return offers.cheapest_break(y) or never
        rivals, ceiling = list(self._rivals(y)), math.inf
        deadline = self._deadline()
        try:
            if tariff is not None:
                price, rivals, change = self._weigh_rivals(x, y, tariff, deadline)
                if not rivals or change is not None:
                    return change or never
                ceiling = tariff.ceiling(price)
            offers = Offers(self.ensemble, self.summing.whole_scores, attacker, x, ceiling)
            limit, best = offers.in_units(ceiling), never
            for rival in rivals:
                fronts, need = offers.fronts(y, rival)
                purchase = find_purchase(fronts, limit, need, cheapest=True, deadline=deadline)
                if purchase is not None and (best is never or purchase.cost < limit):
                    limit = purchase.cost
                    leaf, target = self._bought(fronts, purchase)
                    best = Change(Fraction(limit, offers.unit), target, leaf)
            return best
        except UndecidedError:
            return Change(self._lower_bound(x, y, tariff), nothing, nothing[:, None], is_exact=False)

    def _weigh_rivals(
        self, x: NDArray[np.float64], y: int, tariff: Tariff, deadline: float
    ) -> tuple[float, list[int], Change | None]:
        """Return about what the cheapest change costs, or a little more, and the rivals it may be in favour of.

        For L0, whose costs are whole, floats may know the change itself.
        """
        band = self.summing.band
        self._list_leaves(x, tariff)
        least, ceiling, sure = {}, tariff.limit, None
        for rival in self._rivals(y):
            fronts, lead = self._fronts(y, rival), self._lead(y, rival)
            low, high = (
                find_purchase(fronts, ceiling, need, gain_slack=band, cheapest=True, deadline=deadline)
                for need in (lead - band, lead + band)
            )
            if low is not None:
                least[rival] = low.cost
            if high is not None and high.cost * (1 + MARGIN) < ceiling:
                ceiling, sure = high.cost * (1 + MARGIN), (fronts, high)
        change = None
        if tariff.norm == 0 and sure is not None and sure[1].cost <= min(least.values()):
            leaf, target = self._bought(*sure)
            change = Change(Fraction(sure[1].cost), target, leaf)
        return ceiling, [rival for rival, price in least.items() if price <= ceiling * (1 + MARGIN)], change

    def _lower_bound(self, x: NDArray[np.float64], y: int, tariff: Tariff | None) -> Fraction:
        """Return what a change costs at least, as if leaves could be bought in parts."""
        if tariff is None:
            return Fraction(0)
        self._list_leaves(x, tariff)
        price = min(
            least_cost(self._fronts(y, rival), self._lead(y, rival) - self.summing.band) for rival in self._rivals(y)
        )
        price = max(0.0, min(price, tariff.limit) * (1 - 3 * MARGIN) - VANISHING)
        return Fraction(0) if price == math.inf else Fraction(price) * Fraction(tariff.budget) ** max(tariff.norm, 1)

    def _deadline(self) -> float:
        return time.monotonic() + self.summing.time_limit

    def _predict(self, x: NDArray[np.float64]) -> int:
        return int(self.ensemble.class_index(x[None])[0])

    def _rivals(self, y: int) -> list[int]:
        return [c for c in range(self.ensemble.n_classes) if c != y]

    def _list_leaves(self, x: NDArray[np.float64], tariff: Tariff) -> None:
        kernels.list_row(
            self.ensemble.trees, x, *tariff.budgets, tariff.unit, tariff.norm, tariff.limit,
            *self._stacks, self._node, self._cost, self._start,
        )  # fmt: skip

    def _lead(self, y: int, rival: int) -> float:
        """Return the lead of ``y`` over a rival, in scaled floats, for the row whose leaves are listed."""
        value = self.summing.scaled_scores.value
        rows = np.append(self.ensemble.leaf[self._node[self._start[:-1]]], len(value) - 1)
        return float((value[rows, y] - value[rows, rival]).sum())

    def _fronts(self, y: int, rival: int) -> Fronts:
        """Return what the leaves listed offer to a rival, in floats."""
        n, n_trees = self._start[-1], self.ensemble.n_trees
        node, cost, gain = np.empty(n, np.int64), np.empty(n), np.empty(n)
        start, tree = np.empty(n_trees + 1, np.int64), np.empty(n_trees, np.int64)
        n_fronts = kernels.list_fronts(
            self.summing.scaled_scores.value, self.ensemble.leaf, self._node, self._cost, self._start, y, rival,
            node, cost, gain, start, tree,
        )  # fmt: skip
        n = start[n_fronts]
        return Fronts(cost[:n], gain[:n], start[: n_fronts + 1], node[:n], tree[:n_fronts])

    def _bought(self, fronts: Fronts, purchase: Purchase) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return a purchase as leaf and target, see `Change`."""
        leaf, target = np.full((self.ensemble.n_trees, 1), -1), np.full(self.ensemble.n_trees, -1)
        for place in purchase.leaves:
            tree = fronts.tree[np.searchsorted(fronts.start, place, side="right") - 1]
            leaf[tree, 0], target[tree] = fronts.node[place], 0
        return leaf, target


def _all_of(leaf: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Send every tree to its leaf: leaf and target as in `Change`."""
    return leaf[:, None].copy(), np.zeros(len(leaf), np.int64)


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

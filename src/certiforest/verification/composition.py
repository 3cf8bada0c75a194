"""Composition: exact verdicts where trees do not meet, for every norm.

A `Composition` prepares one ensemble against one attacker; it then decides blocks of rows, prices their cheapest
change and writes witnesses. Two trees *meet* at a row if both have a split on one feature that the attacker can
turn there. An ensemble of large spread has no such row; in any other one, the rows without such a pair are decided
all the same, and what is left is UNKNOWN. Here trees vote; `summing` does the same for scores.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from certiforest.attack.attacker import Attacker, Budgets
from certiforest.attack.spread import has_large_spread
from certiforest.ensemble import TreeEnsemble
from certiforest.verification import composition_kernels as kernels
from certiforest.verification import radius_kernels
from certiforest.verification.rationals import Change, exact_budget, exact_change

# How much larger than its float price a leaf may be and still matter, and the price below which floats vanish.
MARGIN, VANISHING = 1e-9, 1e-290
# Below this a product eps * scale has fewer than 53 bits, and no bound on relative errors holds.
SMALLEST_UNIT = 1e-300


class Tariff(NamedTuple):
    """How leaves are priced in floats: moves in multiples of ``unit``, to the power of the norm, added up.

    A ``norm`` of -1 stands for L-inf, where the largest move counts. Leaves above ``limit`` are left out. ``budget`` is
    the norm that costs 1.
    """

    budgets: Budgets
    unit: NDArray[np.float64]
    norm: int
    limit: float
    budget: float

    def ceiling(self, price: float) -> Fraction | float:
        """Return a bound, exact and in powers of norms, on what costs about ``price`` or less."""
        if price == math.inf:
            return math.inf
        exponent = max(self.norm, 1)
        return (Fraction(float(price)) * Fraction(1 + MARGIN) + Fraction(VANISHING)) * Fraction(self.budget) ** exponent


class Reach(NamedTuple):
    """How far an attacker comes: what each feature may spend, and all of them together.

    Costs are in multiples of ``unit``, to the power of the norm; together they may reach ``limit``. Rounding takes a
    sum of them no further than ``slack``.
    """

    budgets: Budgets
    unit: NDArray[np.float64]
    limit: float
    slack: float


class Composition:
    """One ensemble against one attacker, ready to decide rows.

    Parameters
    ----------
    ensemble : TreeEnsemble
    attacker : Attacker

    Attributes
    ----------
    ensemble : TreeEnsemble
        Without the branches outside the attacker's domain, and without splits that change no vote.
    has_large_spread : bool
        Whether trees can meet at no row at all.
    """

    def __init__(self, ensemble: TreeEnsemble, attacker: Attacker) -> None:
        n_features = ensemble.n_features
        self.attacker = attacker
        self.scale = attacker.scale_of(n_features)
        if attacker.domain is not None:
            ensemble = ensemble.within(*attacker.bounds(n_features))
        self.ensemble = ensemble.without_idle_splits
        self.has_large_spread = has_large_spread(self.ensemble, attacker)
        self.is_box = attacker.norm == math.inf or not attacker.can_move
        self.budgets, self.unit, self.limit, self.slack = self.reach(attacker)

    def reach(self, attacker: Attacker) -> Reach:
        """Return how far an attacker comes; this one, or the same with another budget."""
        n_features = self.ensemble.n_features
        budgets = attacker.budgets(n_features)
        if not attacker.can_move:
            budgets = Budgets(np.zeros(n_features), np.zeros(n_features))
        elif attacker.norm == 0:
            budgets = Budgets(np.where(budgets.high < 0, -1.0, math.inf), np.zeros(n_features))
        # Sums are kept in units of the budget, so that the budget is 1 whatever its size; L0 counts features.
        counts = attacker.norm == 0
        unit = np.ones(n_features) if counts else np.where(budgets.high > 0, budgets.high, 1.0)
        slack = 0.0
        if attacker.can_move and 0 < attacker.norm < math.inf:
            depth = int(self.ensemble.node_depth.max())
            slack = rounding_slack(self.ensemble.n_trees, depth, attacker.norm)
            if unit.min() < SMALLEST_UNIT:  # no sum can be trusted: every one is looked at exactly
                slack = math.inf
        return Reach(budgets, unit, attacker.eps if counts else 1.0, slack)

    def decide(
        self, X: NDArray[np.float64], order: VisitOrder, out_prediction: NDArray, out_stable: NDArray[np.int8]
    ) -> None:
        """Write the predicted class index and 1, 0 or -1 (stable, unstable, unknown) for each row."""
        trees, n_classes = self.ensemble.trees, self.ensemble.n_classes
        watch = not self.has_large_spread
        results = order.place, order.moved, out_prediction, out_stable
        if self.is_box:
            kernels.decide_within_box(trees, X, *self.budgets, n_classes, watch, *results)
        else:
            pricing = self.unit, int(self.attacker.norm), self.limit, self.slack
            kernels.decide_by_price(trees, X, *self.budgets, *pricing, n_classes, watch, *results)
            for i in np.flatnonzero(out_stable == kernels.BORDERLINE):
                out_stable[i] = self.exact_change(X[i]).cost > exact_budget(self.attacker)
        order.improve()

    def exact_change(self, x: NDArray[np.float64]) -> Change:
        """Return the cheapest change of one row up to the budget, in rational arithmetic."""
        ceiling = [exact_budget(self.attacker)] * self.ensemble.n_trees
        return exact_change(self.ensemble, x, self.attacker, ceiling)

    def write_witnesses(self, X: NDArray[np.float64], unstable: NDArray[np.int64], out: NDArray) -> None:
        """Write, for each unstable row (by index), a row within the attacker's reach that is predicted otherwise.

        Raises
        ------
        AssertionError
            If the ensemble does not predict a witness otherwise. That would be a defect of this library: the check
            stands between a verdict and its reader.
        """
        pricing = RowPricing(self.ensemble)
        norm = -1 if self.is_box else int(self.attacker.norm)
        limit = math.inf if self.is_box else self.limit - self.slack
        for i in unstable:
            out[i] = X[i]
            pricing.price(X[i], self.budgets, self.unit, norm, limit)
            total = pricing.cheapest_change(is_max=self.is_box)
            leaf, target = pricing.leaf, pricing.target
            if total > limit or total == math.inf:
                change = self.exact_change(X[i])
                leaf, target = change.leaf, change.target
            kernels.write_witness(self.ensemble.trees, leaf, target, out[i])
        self.check_witnesses(X[unstable], out[unstable])

    def check_witnesses(self, X: NDArray[np.float64], witness: NDArray[np.float64]) -> None:
        """Raise AssertionError if a witness is predicted as its row is."""
        if (self.ensemble.class_index(X) == self.ensemble.class_index(witness)).any():
            raise AssertionError("A witness does not change the prediction: please report this as a defect.")

    def pricing(self) -> Pricing:
        """Return scratch space to price rows; each thread needs its own."""
        return RowPricing(self.ensemble)

    @property
    def has_float_costs(self) -> bool:
        """Whether `change_radii` can price changes: L0, and L-inf without scale."""
        scale = self.attacker.scale_of(self.ensemble.n_features)
        return self.attacker.norm == 0 or (self.attacker.norm == math.inf and bool((scale == 1).all()))

    def change_radii(
        self,
        X: NDArray[np.float64],
        movable: NDArray[np.bool_],
        out_radius: NDArray[np.float64],
        out_works: NDArray[np.bool_],
        out_witness: NDArray[np.float64],
    ) -> None:
        """Price the cheapest composed change of each row in a norm whose costs are floats.

        Writes its cost (inf if there is none), whether it works as a whole, and its result.
        """
        norm = -1 if self.attacker.norm == math.inf else 0
        trees, n_classes = self.ensemble.trees, self.ensemble.n_classes
        radius_kernels.change_radii(trees, X, movable, norm, n_classes, out_radius, out_works, out_witness)


class VisitOrder:
    """In which order trees are visited: those that attackers seldom move come first.

    A majority of trees that cannot be moved is then found sooner. It learns from each block of rows, and no verdict
    depends on it. Each thread has its own.

    Attributes
    ----------
    place : ndarray of int64, shape (n_trees,)
        Trees in the order of visits.
    moved : ndarray of int64, shape (n_trees, 2)
        How often each tree was visited, and how often it could be moved.
    """

    def __init__(self, n_trees: int) -> None:
        self.place = np.arange(n_trees)
        self.moved = np.zeros((n_trees, 2), np.int64)

    def improve(self) -> None:
        """Sort by how often each tree could be moved so far."""
        visits, moves = self.moved.T
        self.place = np.argsort(moves / np.maximum(visits, 1), kind="stable")


class Pricing(Protocol):
    """What prices rows in exact arithmetic."""

    def exact_change(self, x: NDArray[np.float64], attacker: Attacker, tariff: Tariff | None) -> Change:
        """Return the cheapest change; floats, unless there is no tariff, find what matters."""


class RowPricing:
    """Scratch space to price the cheapest change of one row after another."""

    def __init__(self, ensemble: TreeEnsemble) -> None:
        n_trees, n_classes = ensemble.n_trees, ensemble.n_classes
        self.ensemble, self.trees = ensemble, ensemble.trees
        self.n_classes = n_classes
        self.cost = np.empty((n_trees, n_classes))
        self.leaf = np.empty((n_trees, n_classes), np.int64)
        self.vote = np.empty(n_trees, np.int64)
        self.target = np.full(n_trees, -1)
        self._stack = np.empty(ensemble.n_nodes + 1, np.int64)
        self._stack_cost = np.empty(ensemble.n_nodes + 1)
        self._best = np.empty(n_trees + 2)
        self._choice = np.empty((n_trees, n_trees + 2), np.int8)

    def price(self, x: NDArray, budgets: Budgets, unit: NDArray, norm: int, limit: float) -> None:
        """Fill ``cost``, ``leaf`` and ``vote`` for a row (see `reach_kernels.visit_priced`)."""
        kernels.price_row(
            self.trees, x, *budgets, unit, norm, limit, self._stack, self._stack_cost, self.cost, self.leaf, self.vote,
        )  # fmt: skip

    def exact_change(self, x: NDArray, attacker: Attacker, tariff: Tariff | None) -> Change:
        """Return the cheapest change in rational arithmetic; floats, unless there is no tariff, find what matters."""
        ceiling: list[Fraction | float] = [math.inf] * len(self.vote)
        if tariff is not None:
            self.price(x, tariff.budgets, tariff.unit, tariff.norm, tariff.limit)
            if self.cheapest_change(is_max=tariff.norm == -1) == math.inf:
                return Change(math.inf, self.target, self.leaf)
            dearest = np.where(np.isfinite(self.cost), self.cost, 0.0).max(axis=1)
            ceiling = [tariff.ceiling(price) for price in dearest]
        return exact_change(self.ensemble, x, attacker, ceiling)

    def cheapest_change(self, *, is_max: bool) -> float:
        """Return the cost of the cheapest change and fill ``target``."""
        y = kernels.most_voted(self.vote, self.n_classes)
        return kernels.cheapest_change(self.cost, self.vote, y, is_max, self._best, self._choice, self.target)


def rounding_slack(n_trees: int, depth: int, norm: float) -> float:
    """Bound the rounding error of a cost composed of paths in several trees, relative to a budget of 1.

    A distance over its unit is within 3 roundings of the truth, its p-th power within 4p; a path adds and takes
    away at most ``depth`` pairs of such terms, none above 1 plus this slack, and a composition adds up at most
    ``n_trees`` paths whose sum is near 1 where it matters. Doubled, so that second-order terms need no argument.
    """
    exponent = int(norm) if norm < math.inf else 1
    return 2.0 * (n_trees + 1) * (depth + 1) * (8 * exponent + 8) * 2.0**-53

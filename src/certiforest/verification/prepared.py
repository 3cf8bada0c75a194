"""Prepared: one ensemble against one attacker, made ready once and asked by everyone.

Everything here holds for trees that vote and for scores that add up.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from certiforest.attack.attacker import Attacker, Budgets
from certiforest.attack.spread import has_large_spread
from certiforest.ensemble import TreeEnsemble
from certiforest.ensemble.tree_kernels import Trees
from certiforest.verification.leads import Leads
from certiforest.verification.prices import price_move

# Below this a product eps * scale has fewer than 53 bits, and no bound on relative errors holds.
SMALLEST_UNIT = 1e-300


class Reach(NamedTuple):
    """How far an attacker comes: what each feature may spend, and all of them together.

    Costs are in multiples of ``unit``, to the power of the norm; together they may reach ``limit``. Rounding takes a
    sum of them no further than ``slack``.
    """

    budgets: Budgets
    unit: NDArray[np.float64]
    limit: float
    slack: float


class Prepared:
    """One ensemble against one attacker.

    Parameters
    ----------
    ensemble : TreeEnsemble
    attacker : Attacker

    Attributes
    ----------
    ensemble : TreeEnsemble
        Without the branches outside the attacker's domain, and without splits that change nothing.
    scale : ndarray of float64, shape (n_features,)
    has_large_spread : bool
        Whether trees can meet at no row at all: two trees *meet* at a row if both have a split on one feature that the
        attacker can turn there.
    is_box : bool
        Whether features do not share a budget: L-inf, or no move at all.
    reach : Reach
    leads : Leads
    """

    def __init__(self, ensemble: TreeEnsemble, attacker: Attacker) -> None:
        n_features = ensemble.n_features
        self.attacker, self.scale = attacker, attacker.scale_of(n_features)
        if attacker.domain is not None:
            ensemble = ensemble.within(*attacker.bounds(n_features))
        self.ensemble = ensemble.without_idle_splits
        self.has_large_spread = has_large_spread(self.ensemble, attacker)
        self.is_box = attacker.norm == math.inf or not attacker.can_move
        self.reach = self.reach_of(attacker)
        self.leads = Leads(self.ensemble)

    def reach_of(self, attacker: Attacker) -> Reach:
        """Return how far an attacker comes: this one with another budget."""
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

    def parts(self, X: NDArray[np.float64]) -> Iterator[tuple[slice, Trees]]:
        """Yield runs of rows for which the same splits are settled, and the trees for them: `TreeEnsemble.settled`."""
        return self.ensemble.settled(self.ensemble.trees, X)

    @cached_property
    def ranks(self) -> Ranks:
        """The thresholds numbered by feature and value."""
        return Ranks(self.ensemble)

    @cached_property
    def largest_threshold(self) -> float:
        """The largest size of a threshold."""
        return float(np.abs(self.ensemble.threshold[self.ensemble.number_splits]).max(initial=0.0))

    def predict(self, z: NDArray[np.float64]) -> int:
        """Return the predicted class index of one row, which is known to be sound."""
        return self.ensemble.index_of(z)

    def price(self, x: NDArray[np.float64], z: NDArray[np.float64]) -> Fraction:
        """Return the exact price of moving ``x`` to ``z``, in powers of the norm (the norm itself for L-inf and L0)."""
        norm = self.attacker.norm
        prices = [
            price_move(float(x[f]), float(z[f]), float(self.scale[f]), norm)
            for f in np.flatnonzero((z < x) | (z > x)).tolist()  # what is missing stays so
        ]
        return max(prices, default=Fraction(0)) if norm == math.inf else sum(prices, Fraction(0))


class Ranks:
    """The thresholds of an ensemble numbered by feature and value.

    Attributes
    ----------
    of_node : ndarray of int64, shape (n_nodes,)
        Rank of a split's threshold, 0 at leaves.
    feature, value : ndarray, shape (n_ranks,)
    """

    def __init__(self, ensemble: TreeEnsemble) -> None:
        split = ensemble.number_splits
        feature, value = ensemble.feature[split].astype(np.int64), ensemble.threshold[split]
        order = np.lexsort((value, feature))
        feature, value = feature[order], value[order]
        is_new = np.append(True, (feature[1:] != feature[:-1]) | (value[1:] != value[:-1]))[: len(order)]
        self.of_node = np.zeros(ensemble.n_nodes, np.int64)
        self.of_node[split[order]] = np.cumsum(is_new) - 1
        self.feature, self.value = feature[is_new], value[is_new]


def rounding_slack(n_trees: int, depth: int, norm: float) -> float:
    """Bound the rounding error of a cost composed of paths in several trees, relative to a budget of 1.

    A distance over its unit is within 3 roundings of the truth, its p-th power within 4p; a path adds and takes
    away at most ``depth`` pairs of such terms, none above 1 plus this slack, and a composition adds up at most
    ``n_trees`` paths whose sum is near 1 where it matters. Doubled, so that second-order terms need no argument.
    """
    exponent = int(norm) if norm < math.inf else 1
    return 2.0 * (n_trees + 1) * (depth + 1) * (8 * exponent + 8) * 2.0**-53

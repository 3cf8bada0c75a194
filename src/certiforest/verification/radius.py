"""Radius: the smallest float eps at which a row is unstable.

Up to the budget at which two trees meet for the first time, composition is exact, so a composed change that costs
less is the radius; without one, that budget is a lower bound. For L-inf the composed cost is a lower bound whether or
not trees meet, since each tree is taken at its own worst, and it is the radius if the composed change works as a whole.

L-inf without scale and L0 have costs that are floats, or round to them, and are done in kernels; for the others the
kernels find the leaves that matter and rational arithmetic finds the float.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from certiforest.attack.attacker import Budgets
from certiforest.attack.spread import sorted_thresholds
from certiforest.ensemble.tree_kernels import LARGEST
from certiforest.verification import radius_kernels as kernels
from certiforest.verification.certificates import STABLE, UNDECIDED, UNSTABLE
from certiforest.verification.composition import MARGIN, SMALLEST_UNIT, Composition, Tariff, rounding_slack
from certiforest.verification.composition_kernels import write_witness
from certiforest.verification.rationals import Change, ceil_root

# Moves below this are rounded up without overflow.
LARGEST_MOVE = LARGEST / 2


class Radii:
    """Radii of rows for one ensemble and one attacker, whose budget plays no role.

    Parameters
    ----------
    composition : Composition
    """

    def __init__(self, composition: Composition) -> None:
        self.composition = composition
        self.ensemble, self.attacker = composition.ensemble, composition.attacker
        n_features = self.ensemble.n_features
        self.scale = self.attacker.scale_of(n_features)
        self.movable = ~self.attacker.is_frozen(n_features)
        thresholds = sorted_thresholds(self.ensemble, self.attacker)
        self._feature, start = np.unique(thresholds.feature, return_index=True)
        self._start = np.append(start, len(thresholds.feature))
        self._value, self._tree = thresholds.value, thresholds.tree
        depth = int(self.ensemble.node_depth.max())
        self._has_sharp_prices = rounding_slack(self.ensemble.n_trees, depth, self.attacker.norm) < MARGIN
        self._is_max = self.attacker.norm == math.inf

    def measure(
        self,
        X: NDArray[np.float64],
        out_radius: NDArray[np.float64],
        out_upper: NDArray[np.float64],
        out_witness: NDArray[np.float64] | None = None,
    ) -> None:
        """Write the radius of each row, or a lower bound; the upper bound is then inf, else the radius.

        Where it is exact and finite, ``out_witness`` receives a row at that distance that is predicted otherwise.
        """
        meeting = self._meeting_radii(X)
        works = np.empty(len(X), bool)
        witness = np.empty_like(X) if out_witness is None else out_witness
        is_bound = np.zeros(len(X), bool)
        if self.composition.has_float_costs:
            self.composition.change_radii(X, self.movable, out_radius, works, witness)
        else:
            pricing = self.composition.pricing()
            for i, x in enumerate(X):
                tariff = self._tariff(x, math.inf if self._is_max else meeting[i])
                if tariff is None and not len(self._value):
                    out_radius[i], works[i] = math.inf, False
                    continue
                change = pricing.exact_change(x, self.attacker, tariff)
                out_radius[i], works[i] = self._try_change(x, change, witness[i])
                is_bound[i] = not change.is_exact
        if self._is_max:
            is_exact = works | (out_radius == math.inf)
        else:
            # At the meeting radius itself trees do meet, so a change must cost less.
            is_exact = ((out_radius < meeting) | (meeting == math.inf)) & ~is_bound
            np.minimum(out_radius, meeting, out=out_radius)
        out_upper[:] = np.where(is_exact, out_radius, math.inf)

    def settle(self, X: NDArray[np.float64], out_stable: NDArray[np.int8], out_witness: NDArray | None) -> None:
        """Decide rows, undecided because trees meet within the budget, whose radius tells all the same."""
        undecided = np.flatnonzero(out_stable == UNDECIDED)
        if not undecided.size:
            return
        radius, upper = np.empty(len(undecided)), np.empty(len(undecided))
        witness = np.empty((len(undecided), X.shape[1]))
        self.measure(X[undecided], radius, upper, witness)
        eps = self.attacker.eps
        out_stable[undecided[radius > eps]] = STABLE
        is_broken = upper <= eps
        out_stable[undecided[is_broken]] = UNSTABLE
        if out_witness is not None:
            out_witness[undecided[is_broken]] = witness[is_broken]

    def _meeting_radii(self, X: NDArray[np.float64]) -> NDArray[np.float64]:
        meeting = np.empty(len(X))
        if self.attacker.norm == 0:
            # Any threshold is in reach of one change: trees meet as soon as they share a feature.
            same = (self._tree[self._start[:-1]].repeat(np.diff(self._start)) == self._tree).all()
            meeting[:] = math.inf if same else 1.0
            return meeting
        kernels.meeting_radii(self._feature, self._start, self._value, self._tree, self.scale, X, meeting)
        return meeting

    def _tariff(self, x: NDArray[np.float64], meeting: float) -> Tariff | None:
        """Return how to price changes that cost up to ``meeting`` in floats, None if floats cannot be trusted."""
        norm = -1 if self._is_max else int(self.attacker.norm)
        if norm == 0:
            high = np.where(self.movable, math.inf, -1.0)
            return Tariff(Budgets(high, np.zeros_like(high)), np.ones_like(high), norm, meeting, 1.0)
        # Prices are in units of a budget that no relevant change exceeds by much, so that powers stay in range.
        budget = meeting if meeting < math.inf else self._span(x)
        if budget == -math.inf:
            return None
        with np.errstate(over="ignore"):
            unit = np.where(self.movable, budget * self.scale, 1.0)
            high = np.where(self.movable, unit * (1 + MARGIN) if meeting < math.inf else math.inf, -1.0)
        if not (self._has_sharp_prices and math.isfinite(unit.max()) and unit.min() >= SMALLEST_UNIT):
            return None
        limit = 1 + MARGIN if meeting < math.inf else math.inf
        return Tariff(Budgets(high, np.zeros_like(high)), unit, norm, limit, budget)

    def _try_change(self, x: NDArray[np.float64], change: Change, out_witness: NDArray) -> tuple[float, bool]:
        """Write the changed row; return the smallest float eps that pays for it, and whether it works."""
        if change.cost == math.inf:
            return math.inf, False
        out_witness[:] = x
        write_witness(self.ensemble.trees, change.leaf, change.target, out_witness)
        before, after = self.ensemble.class_index(np.stack([x, out_witness]))
        return ceil_root(Fraction(change.cost), self.attacker.norm), before != after

    def _span(self, x: NDArray[np.float64]) -> float:
        """Return about the largest move that any threshold can ask for, -inf if there are none, inf if out of range."""
        if not len(self._value):
            return -math.inf
        ends = np.stack([self._value[self._start[:-1]], self._value[self._start[1:] - 1]])
        with np.errstate(over="ignore"):
            # To the right, a move ends at the float after the threshold.
            move = np.maximum(np.abs(x[self._feature] - ends), np.abs(x[self._feature] - np.nextafter(ends, math.inf)))
            return float((move / self.scale[self._feature]).max()) if move.max() < LARGEST_MOVE else math.inf

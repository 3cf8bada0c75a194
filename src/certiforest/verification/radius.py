"""Radius: the smallest float eps at which a row is unstable.

Up to the budget at which two trees meet for the first time, composition is exact, so the cheapest composed change
below it is the radius. If there is none, that budget is a lower bound of the radius. L-inf without scale and L0 have
costs that are floats, or round to them, and are done in kernels; for the others the kernels find the leaves that
matter and rational arithmetic finds the float.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from certiforest.attacker import Budgets
from certiforest.spread import sorted_thresholds
from certiforest.verification import radius_kernels as kernels
from certiforest.verification.composition import Composition, RowPricing, rounding_slack
from certiforest.verification.rationals import ceil_root, exact_change

# How much larger than its float price a leaf may be and still matter, and the price below which floats vanish.
MARGIN, VANISHING = 1e-9, 1e-290


class Radii:
    """Radii of rows for one ensemble and one attacker, whose budget plays no role.

    Parameters
    ----------
    composition : Composition
    """

    def __init__(self, composition: Composition) -> None:
        self.ensemble, self.attacker = composition.ensemble, composition.attacker
        n_features = self.ensemble.n_features
        self.scale = self.attacker.scale_of(n_features)
        self.movable = ~self.attacker.is_frozen(n_features)
        thresholds = sorted_thresholds(self.ensemble, self.attacker)
        self._feature, start = np.unique(thresholds.feature, return_index=True)
        self._start = np.append(start, len(thresholds.feature))
        self._value, self._tree = thresholds.value, thresholds.tree
        self._has_float_costs = self.attacker.norm == 0 or (
            self.attacker.norm == math.inf and bool((self.scale == 1).all())
        )

    def measure(self, X: NDArray[np.float64], out_radius: NDArray, out_is_exact: NDArray[np.bool_]) -> None:
        """Write the radius of each row, or a lower bound where it is not exact."""
        meeting = self._meeting_radii(X)
        if self._has_float_costs:
            norm = -1 if self.attacker.norm == math.inf else 0
            kernels.change_radii(
                self.ensemble.trees, X, meeting, self.movable, norm, self.ensemble.n_classes, out_radius
            )
        else:
            pricing = RowPricing(self.ensemble)
            for i, x in enumerate(X):
                out_radius[i] = self._change_radius(pricing, x, meeting[i])
        # At the meeting radius itself trees meet, so a change must cost less; with no meeting at all, none is exact, too.
        out_is_exact[:] = (out_radius < meeting) | (meeting == math.inf)
        np.minimum(out_radius, meeting, out=out_radius)

    def _meeting_radii(self, X: NDArray[np.float64]) -> NDArray[np.float64]:
        meeting = np.empty(len(X))
        if self.attacker.norm == 0:
            # Any threshold is in reach of one change: trees meet as soon as they share a feature.
            same = (self._tree[self._start[:-1]].repeat(np.diff(self._start)) == self._tree).all()
            meeting[:] = math.inf if same else 1.0
            return meeting
        kernels.meeting_radii(self._feature, self._start, self._value, self._tree, self.scale, X, meeting)
        return meeting

    def _change_radius(self, pricing: RowPricing, x: NDArray[np.float64], meeting: float) -> float:
        """Return the smallest float eps at which the composed change is affordable, inf if beyond ``meeting``."""
        is_max = self.attacker.norm == math.inf
        norm = -1 if is_max else int(self.attacker.norm)
        # Prices are in units of a budget that no relevant change exceeds by much, so that powers stay in range.
        budget = meeting if meeting < math.inf else self._span(x)
        if not 0 < budget < math.inf:
            return math.inf
        unit = np.where(self.movable, budget * self.scale, 1.0)
        high = np.where(self.movable, unit * (1 + MARGIN) if meeting < math.inf else math.inf, -1.0)
        limit = 1 + MARGIN if meeting < math.inf else math.inf
        if not math.isfinite(unit.max()) or rounding_slack(self.ensemble, self.attacker, unit.min()) > MARGIN:
            prices = np.full(self.ensemble.n_trees, math.inf)  # too coarse to exclude anything
        else:
            pricing.price(x, Budgets(high, np.zeros_like(high)), unit, norm, limit)
            if pricing.cheapest_change(is_max=is_max) == math.inf:
                return math.inf
            prices = np.where(np.isfinite(pricing.cost), pricing.cost, 0.0).max(axis=1)
        exponent = 1 if is_max else norm
        ceiling = [
            math.inf
            if price == math.inf
            else (Fraction(float(price)) * Fraction(1 + MARGIN) + Fraction(VANISHING)) * Fraction(budget) ** exponent
            for price in prices
        ]
        change = exact_change(self.ensemble, x, self.attacker, ceiling)
        return math.inf if change.cost == math.inf else ceil_root(Fraction(change.cost), self.attacker.norm)

    def _span(self, x: NDArray[np.float64]) -> float:
        """Return about the largest move that any threshold can ask for."""
        if not len(self._value):
            return math.inf
        ends = np.stack([self._value[self._start[:-1]], self._value[self._start[1:] - 1]])
        with np.errstate(over="ignore"):
            return float((np.abs(x[self._feature] - ends) / self.scale[self._feature]).max())


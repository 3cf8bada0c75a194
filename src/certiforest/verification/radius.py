"""Radius: the smallest float eps at which a row is unstable, from verdicts at the few budgets that matter.

A first bound comes for whole blocks of rows: what it costs under L-inf if each tree is moved on its own. Where trees
meet the true cost may be higher, and in no other norm is it lower.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from certiforest.attack.attacker import UP
from certiforest.attack.columns import AttackerError
from certiforest.ensemble.tree_kernels import LARGEST
from certiforest.verification.certificates import STABLE
from certiforest.verification.clock import Clock, OutOfTime
from certiforest.verification.prepared import Prepared
from certiforest.verification.prices import ceil_root, price_move
from certiforest.verification.roads import Roads
from certiforest.verification.sums import Sums
from certiforest.verification.votes import Votes

# A cost in floats is this near to the exact one, relatively and absolutely: a difference, a quotient, a norm.
SLACK, TINY = 1e-9, 1e-300
# The smallest float above zero.
SMALLEST = 5e-324
# As many costs are priced exactly without regret.
FEW = 8
# Bounds this near to each other are closed by asking right below the upper one.
NEAR = 1.02


class Radius(NamedTuple):
    """Bounds of a radius, equal unless time was up.

    ``attack`` is a row that shows the upper bound, if one was found; ``proof`` (docs/certificate_format.md) shows the
    lower one, if it was to be kept.
    """

    lower: float
    upper: float
    attack: NDArray[np.float64] | None = None
    proof: dict[str, Any] | None = None


class Crossings(NamedTuple):
    """Moves of a row that just cross a threshold.

    Attributes
    ----------
    feature : ndarray of int, shape (n_moves,)
    start, end, unit : ndarray of float, shape (n_moves,)
        Values before and after, and the scale of the feature.
    cost : ndarray of float, shape (n_moves,)
        About the distance; infinite where it overflowed.
    """

    feature: NDArray
    start: NDArray
    end: NDArray
    unit: NDArray
    cost: NDArray

    def between(self, lower: float, upper: float) -> Crossings:
        """Return the moves that may cost from ``lower`` to ``upper``."""
        is_near = (self.cost >= lower * (1 - SLACK) - TINY) & (self.cost <= upper * (1 + SLACK) + TINY)
        return Crossings(*(column[is_near | np.isinf(self.cost)] for column in self))


def bound_radii(
    rule: Votes | Sums, prepared: Prepared, X: NDArray[np.float64], out_lower: NDArray, out_upper: NDArray
) -> None:
    """Write bounds of the radii of a block of rows; the upper ones are inf unless equal to the lower ones."""
    attacker = prepared.attacker
    works = np.empty(len(X), bool)
    rule.composed_radii(X, out_lower, works)
    is_exact = attacker.norm == math.inf and bool((prepared.scale == 1).all()) and not prepared.has_menus
    out_upper[:] = np.where(works & is_exact, out_lower, math.inf)
    never = out_lower == math.inf
    if not is_exact:
        out_lower[:] = 1.0 if attacker.norm == 0 else np.maximum(out_lower * (1 - SLACK) - TINY, 0.0)
    # A distance beyond the floats looks like none at all, and its cost may yet be below others: scales differ.
    largest = max(float(np.fmax.reduce(np.abs(X), axis=None, initial=0.0)), prepared.largest_threshold)
    is_far = largest > LARGEST / 4 * min(float(prepared.scale.min()), 1.0)
    if is_far and not is_exact:
        np.minimum(out_lower, LARGEST / max(float(prepared.scale.max()), 1.0) * (1 - SLACK), out=out_lower)
    out_lower[never] = 0.0 if is_far else math.inf


def measure(
    roads: Roads, x: NDArray[np.float64], known: tuple[float, float], clock: Clock, *, keep_proof: bool = False
) -> Radius:
    """Return the radius of a row, which is known not to be below one number, nor above another."""
    search = RadiusSearch(roads, x, known, clock)
    # A budget that is out of the range of floats ends the search like one of time.
    try:
        search.run()
        if keep_proof:
            search.prove()
    except (OutOfTime, AttackerError):
        pass
    return Radius(search.lower, search.upper, search.attack, search.proof)


class RadiusSearch:
    """Close in on the radius of one row, which is from ``lower`` to ``upper``."""

    def __init__(self, roads: Roads, x: NDArray[np.float64], known: tuple[float, float], clock: Clock) -> None:
        self._roads, self._attacker, self._x, self._clock = roads, roads.attacker, x, clock
        self._own = roads.prepared.predict(x)
        self.lower, self.upper = map(float, known)
        self.attack: NDArray[np.float64] | None = None
        self.proof: dict[str, Any] | None = None

    def run(self) -> None:
        """Search until the bounds are equal, or no budget is left to ask about, or `OutOfTime` is raised."""
        if self.lower == self.upper:
            return
        crossings = self._crossings()
        self._gallop(np.sort(np.minimum(crossings.cost, LARGEST)), self._farthest(crossings))
        if self.upper == math.inf:
            return
        if self._attacker.norm == math.inf:
            self._bisect_crossings(crossings)
        else:
            self._bisect()

    def prove(self) -> None:
        """Find the attack at the upper bound and the proof below the lower one, where they are not known yet."""
        if self.attack is None and self.upper < math.inf:
            self._try(self.upper)
        if self.lower > 0:
            self.proof = self._roads.prove_below(self._x, self.lower, self._clock)

    def _raise_lower(self, eps: float) -> None:
        self.lower = min(max(eps, self.lower), self.upper)

    def _try(self, eps: float) -> None:
        """Find out whether there is an attack within a budget."""
        finding = self._roads.decide_against(self._x, self._attacker.with_eps(eps), self._clock)
        if finding.attack is not None:
            z = self._thin(finding.attack)
            upper = ceil_root(self._roads.prepared.price(self._x, z), self._attacker.norm)
            if upper <= self.upper:
                self.upper, self.attack = upper, z
        elif finding.stable == STABLE:
            self._raise_lower(math.floor(eps) + 1.0 if self._attacker.norm == 0 else math.nextafter(eps, math.inf))
        else:
            raise OutOfTime

    def _thin(self, z: NDArray[np.float64]) -> NDArray[np.float64]:
        """Take moves back that an attack does not need, the dearest first."""
        prepared, moved = self._roads.prepared, np.flatnonzero(z != self._x)
        with np.errstate(over="ignore"):
            cost = np.abs(z - self._x)[moved] / prepared.scale[(z > self._x)[moved].astype(int), moved]
        for f in moved[np.argsort(-cost, kind="stable")].tolist():
            columns = prepared.columns_with(f)
            kept = z[columns]
            z[columns] = self._x[columns]
            if prepared.predict(z) == self._own:
                z[columns] = kept
                if self._attacker.norm == math.inf:
                    break
        return z

    def _gallop(self, costs: NDArray[np.float64], largest: float) -> None:
        """Widen the budget until there is an attack, no threshold is left to cross, or it leaves the range of floats.

        It is doubled, or goes to where twice as many thresholds are within it: those may be of very different sizes.
        """
        # Beyond this, eps * scale may not be a float.
        scale = float(self._roads.prepared.scale.max())
        most = LARGEST if scale <= 1 else LARGEST / scale * (1 - SLACK)
        while self.upper == math.inf:
            if self.lower > largest:
                self.lower = math.inf
                return
            if self._attacker.norm == 0:
                self._try(min(max(2 * self.lower, 1.0), largest))
                continue
            if self.lower > most:
                return
            n_within = int(np.searchsorted(costs, self.lower))
            wider = float(costs[min(2 * n_within, len(costs) - 1)]) if len(costs) else 0.0
            self._try(min(max(2 * self.lower, wider * (1 + SLACK)), largest, most))

    def _bisect(self) -> None:
        """Halve what is left of the budgets, for norms whose costs add up."""
        while self.lower < self.upper:
            below = self.upper - 1.0 if self._attacker.norm == 0 else math.nextafter(self.upper, 0.0)
            middle = 0.5 * self.lower + 0.5 * self.upper
            if self.upper > 4.0 * self.lower:
                middle = math.sqrt(max(self.lower, SMALLEST)) * math.sqrt(self.upper)
            if self._attacker.norm == 0:
                self._try(math.floor(middle) if math.floor(middle) < self.upper else below)
            else:
                self._try(below if self.upper <= NEAR * self.lower or not middle < below else middle)

    def _bisect_crossings(self, crossings: Crossings) -> None:
        """Halve the list of thresholds that can be crossed, for L-inf: the radius is what crossing one of them costs.

        Any budget may be asked about, so a float near the cost does while there are many; the few that are left at
        the end are priced exactly.
        """
        n_left = len(crossings.cost) + 1
        while FEW < len((crossings := crossings.between(self.lower, self.upper)).cost) < n_left:
            n_left = len(crossings.cost)
            middle = float(np.partition(crossings.cost, (n_left - 1) // 2)[(n_left - 1) // 2])
            if not self.lower <= middle < self.upper:
                break
            self._try(middle)
        moves = set(zip(crossings.start.tolist(), crossings.end.tolist(), crossings.unit.tolist(), strict=True))
        costs = np.unique([ceil_root(price_move(*move, math.inf), math.inf) for move in moves])
        while len(costs := costs[(costs >= self.lower) & (costs < self.upper)]):
            self._try(float(costs[(len(costs) - 1) // 2]))
        self.lower = self.upper

    def _crossings(self) -> Crossings:
        """List the thresholds that a move can cross."""
        ensemble = self._roads.ensemble
        split = ensemble.number_splits
        split = split[~np.isnan(self._x[ensemble.feature[split]])]
        way = (self._x[ensemble.feature[split]] <= ensemble.threshold[split]).astype(int)
        can_move = self._attacker.may_move(ensemble.n_features)[way, ensemble.feature[split]]
        split, way = split[can_move], way[can_move]
        feature, threshold = ensemble.feature[split], ensemble.threshold[split]
        start, unit = self._x[feature], self._roads.prepared.scale[way, feature]
        end = np.where(way == UP, self._roads.prepared.trees.above[split], threshold)
        # A move of some cost is one from 0.
        told, cost = self._roads.prepared.told_moves()
        feature, unit = np.append(feature, told), np.append(unit, np.ones(len(told)))
        start, end = np.append(start, np.zeros(len(told))), np.append(end, cost)
        with np.errstate(over="ignore"):
            return Crossings(feature, start, end, unit, np.abs(end - start) / unit)

    def _farthest(self, crossings: Crossings) -> float:
        """Return a budget that crosses every threshold, hardly more than it takes; 0 if there is none to cross."""
        norm = self._attacker.norm
        if not len(crossings.feature) or norm == 0:
            return float(len(np.unique(crossings.feature)))
        dearest = np.zeros(self._roads.ensemble.n_features)
        np.maximum.at(dearest, crossings.feature, crossings.cost)
        # Shares of the largest do not overflow.
        most = min(max(float(dearest.max()), TINY), LARGEST)
        share = float(np.linalg.norm(np.minimum(dearest, most) / most, norm))
        return min(most * share * (1 + SLACK) + TINY, LARGEST)

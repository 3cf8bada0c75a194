"""Radius: the smallest float eps at which a row is unstable, from verdicts at the few budgets that matter.

A first bound comes for whole blocks of rows: what it costs under L-inf if each tree is moved on its own. Where trees
meet the true cost may be higher, and in no other norm is it lower.
"""

from __future__ import annotations

import math
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from certiforest.attack.moves import UP
from certiforest.attack.parameters import AttackerError
from certiforest.attack.prices import ceil_root
from certiforest.attack.relations import binding
from certiforest.ensemble.tree_kernels import LARGEST
from certiforest.problem.around_row import RowProblem
from certiforest.problem.verifier import Verifier
from certiforest.proof.clock import Clock, OutOfTime
from certiforest.proof.search import QuickLook
from certiforest.rows.decider import Decider
from certiforest.rows.related_row import row_problem
from certiforest.rows.screen import Screen
from certiforest.verdicts import STABLE, UNKNOWN, UNSTABLE

# A cost in floats is this near to the exact one, relatively and absolutely: a difference, a quotient, a norm.
SLACK, TINY = 1e-9, 1e-300
# The smallest float above zero.
SMALLEST = 5e-324
# Budgets grow by this factor until there is an attack.
WIDER = 1.5
# Bounds this near to each other are closed by a proof right below the upper one, if costs add up.
NEAR = 1.02
# So few thresholds between bounds of L-inf are left to a proof.
FEW = 2
# Budgets that are tried, at most, to make an attack cheaper.
MOST_LOOKS = 20
# Bounds of the radius of a row with relations are closed up to this factor: rows that keep them cost what they cost.
CLOSE = 1 + 1e-6
# The share of the time that goes to that proof; what is left is for a smaller budget, which is easier.
MOST_TIME = 0.8


class Radius(NamedTuple):
    """Bounds of a radius, equal unless time was up.

    ``attack`` is a row that shows the upper bound, if one was found; ``proof`` (docs/certificate_format.md) shows the
    lower one, if it was to be kept.
    """

    lower: float
    upper: float
    attack: NDArray[np.float64] | None = None
    proof: dict[str, Any] | None = None


class Known(NamedTuple):
    """What is known before: bounds of a radius, and whether the row is stable against the attacker itself."""

    lower: float
    upper: float
    stable: int


def bound_radii(
    screen: Screen, verifier: Verifier, X: NDArray[np.float64], out_lower: NDArray, out_upper: NDArray
) -> None:
    """Write bounds of the radii of a block of rows; the upper ones are inf unless equal to the lower ones."""
    moves = verifier.moves
    works = np.empty(len(X), bool)
    screen.composed_radii(X, out_lower, works)
    is_exact = (
        moves.norm == math.inf and bool((moves.numbers.scale == 1).all()) and moves.is_plain and not moves.relations
    )
    out_upper[:] = np.where(works & is_exact, out_lower, math.inf)
    never = out_lower == math.inf
    if not is_exact:
        out_lower[:] = 1.0 if moves.norm == 0 else np.maximum(out_lower * (1 - SLACK) - TINY, 0.0)
    # A distance beyond the floats looks like none at all, and its cost may yet be below others: scales differ.
    largest = max(float(np.fmax.reduce(np.abs(X), axis=None, initial=0.0)), verifier.largest_threshold)
    is_far = largest > LARGEST / 4 * min(float(moves.numbers.scale.min()), 1.0)
    if is_far and not is_exact:
        np.minimum(out_lower, LARGEST / max(float(moves.numbers.scale.max()), 1.0) * (1 - SLACK), out=out_lower)
    out_lower[never] = 0.0 if is_far else math.inf


def find_radius(
    decider: Decider,
    x: NDArray[np.float64],
    known: Known,
    clock: Clock,
    *,
    keep_attack: bool = False,
    keep_proof: bool = False,
) -> Radius:
    """Return the radius of a row, on demand with an attack at its upper bound and a proof below its lower one."""
    is_related = bool(binding(decider.verifier.moves.relations, x))
    search: RadiusSearch = (RelatedRadiusSearch if is_related else RadiusSearch)(decider, x, known, clock)
    # A budget beyond the floats ends the search like one of time. What was found is proved all the same.
    steps = [search.run] + [search.attack_within] * (keep_attack or keep_proof) + [search.prove] * keep_proof
    for step in steps:
        with suppress(OutOfTime, AttackerError):
            step()
    return Radius(search.lower, search.upper, search.attack, search.proof)


class RadiusSearch:
    """Close in on the radius of one row, which is from ``lower`` to ``upper``."""

    def __init__(self, decider: Decider, x: NDArray[np.float64], known: Known, clock: Clock) -> None:
        self._decider, self._verifier, self._x, self._clock = decider, decider.verifier, x, clock
        self._moves = decider.verifier.moves
        self._class = self._verifier.predict(x)
        self.lower, self.upper = float(known.lower), float(known.upper)
        eps = min(self._moves.eps, float(len(x))) if self._moves.norm == 0 else self._moves.eps
        if known.stable == STABLE:
            self._raise_lower(eps)
        elif known.stable == UNSTABLE:
            self.upper = min(self.upper, eps)
        self.attack: NDArray[np.float64] | None = None
        self.proof: dict[str, Any] | None = None
        self._hopeless = self.lower  # up to here, quick looks have found nothing

    def run(self) -> None:
        """Search until the bounds are equal, or no budget is left to ask about, or `OutOfTime` is raised.

        Quick looks make the upper bound small. Then one proof right below it is all there is to do, unless that finds
        a cheaper attack.
        """
        if self.lower == self.upper:
            return
        self._clock.check()
        if self.upper == math.inf:
            feature, cost = self._crossings()
            self._widen(np.sort(np.minimum(cost, LARGEST)), self._farthest(feature, cost))
        else:
            self._look(self.upper)
        while self.lower < self.upper < math.inf:
            below = self.upper - 1.0 if self._moves.norm == 0 else math.nextafter(self.upper, 0.0)
            if not self._try(below, self._clock.share(MOST_TIME)):
                if self.lower < self._hopeless < self.upper:
                    self._try(self._hopeless, self._clock)
                raise OutOfTime

    def attack_within(self) -> None:
        """Find the attack at the upper bound, where it is not known yet."""
        if self.attack is None and self.upper < math.inf:
            self._try(self.upper, self._clock)

    def prove(self) -> None:
        """Find the proof below the lower bound."""
        if self.lower > 0:
            self.proof = self._decider.prove_below(self._x, self._class, self.lower, self._clock)

    def _raise_lower(self, eps: float) -> None:
        """Note that there is no attack within a budget."""
        above = math.floor(eps) + 1.0 if self._moves.norm == 0 else math.nextafter(eps, math.inf)
        self.lower = min(max(above, self.lower), self.upper)

    def _local(self, eps: float) -> RowProblem:
        return RowProblem(self._verifier, self._x, self._moves.within(eps))

    def _try(self, eps: float, clock: Clock) -> bool:
        """Find out whether there is an attack within a budget; tell whether there was time to."""
        row = self._local(eps)
        answer = self._decider.decide_on(row, self._class, clock)
        if answer.attack is not None:
            self._descend(row, answer.attack)
        elif answer.stable == STABLE:
            self._raise_lower(eps)
        return answer.stable != UNKNOWN

    def _look(self, eps: float) -> None:
        """Look for an attack within a budget, and for cheaper ones."""
        self._clock.check()
        row, is_proved = self._local(eps), True
        for quick in self._decider.looks(row, self._class):
            attack = quick.look(row.budget)
            if attack is not None and self._take(attack):
                self._descend(row, attack)
                return
            is_proved &= quick.is_proved
        if is_proved:
            self._raise_lower(eps)

    def _take(self, z: NDArray[np.float64]) -> bool:
        """Make an attack the upper bound, unless it costs more; tell whether it does not."""
        z = self._thin(z)
        upper = ceil_root(self._moves.price_of_row(self._x, z), self._moves.norm)
        if upper > self.upper:
            return False
        self.upper, self.attack = upper, z
        return True

    def _descend(self, row: RowProblem, attack: NDArray[np.float64]) -> None:
        """Look for attacks that cost less, by halving budgets; what is not found soon may yet be there."""
        self._take(attack)
        if self._hopeless >= self.upper:  # looks do not see what is there
            return
        rival = self._verifier.predict(attack)
        (quick,) = self._decider.looks(row, self._class, rival)
        costs = self._cell_costs(row)
        for _ in range(MOST_LOOKS):
            self._clock.check()
            middle = self._between(costs)
            if middle is None:
                break
            before, z = self.upper, self._look_within(row, quick, costs, middle)
            if z is not None:
                self._take(z)
            if self.upper == before:
                self._hopeless = middle

    def _between(self, costs: NDArray[np.float64]) -> float | None:
        """Return a budget below the upper bound at which an attack is not hopeless; None if it is not worth a look."""
        lower, upper, norm = self._hopeless, self.upper, self._moves.norm
        if norm == math.inf:
            costs = np.unique(costs[(costs > lower) & (costs < upper * (1 - SLACK))])
            return float(costs[2 * len(costs) // 3]) if len(costs) > FEW else None
        middle = 0.5 * lower + 0.5 * upper
        if norm == 0:
            return math.floor(middle) if lower < math.floor(middle) < upper else None
        if upper > 4.0 * lower:
            middle = math.sqrt(max(lower, SMALLEST)) * math.sqrt(upper)
        return middle if upper > NEAR * lower and lower < middle < upper else None

    def _look_within(
        self, row: RowProblem, quick: QuickLook[NDArray[np.float64]], costs: NDArray[np.float64], eps: float
    ) -> NDArray[np.float64] | None:
        """Look for an attack within a smaller budget than that of the row problem."""
        norm = self._moves.norm
        if norm == math.inf:
            within, first = costs <= eps * (1 + SLACK), row.cells.first[:-1]
            is_below = np.arange(len(costs)) < np.repeat(row.cells.home, np.diff(row.cells.first))
            n_below = np.add.reduceat(within & is_below, first)
            low = row.cells.home - n_below
            return quick.look(0, low, low + np.add.reduceat(within, first) - 1)
        whole = min(row.moves.eps, self._verifier.ensemble.n_features) if norm == 0 else row.moves.eps
        return quick.look(max(int(row.budget * (eps / whole) ** max(norm, 1)), 1))

    def _cell_costs(self, row: RowProblem) -> NDArray[np.float64]:
        """Return about what it costs under L-inf to get into each cell; nothing, if its variable has a price list."""
        cells, n_features = row.cells, len(self._x)
        feature = np.repeat(cells.name, np.diff(cells.first))
        column = np.minimum(feature, n_features - 1)
        costs = self._moves.rough_costs(column, self._x[column], cells.value)
        costs[feature >= n_features] = 0.0
        costs[cells.home] = 0.0
        return costs

    def _thin(self, z: NDArray[np.float64]) -> NDArray[np.float64]:
        """Take moves back that an attack does not need, the dearest first."""
        verifier, moved = self._verifier, np.flatnonzero(z != self._x)
        cost = self._moves.rough_costs(moved, self._x[moved], z[moved])
        for f in moved[np.argsort(-cost, kind="stable")].tolist():
            columns = self._moves.columns_with(f)
            kept = z[columns]
            z[columns] = self._x[columns]
            if verifier.predict(z) == self._class:
                z[columns] = kept
                if self._moves.norm == math.inf:
                    break
        return z

    def _widen(self, costs: NDArray[np.float64], largest: float) -> None:
        """Widen the budget until there is an attack, no threshold is left to cross, or it leaves the range of floats.

        It grows by a factor, or to where as many thresholds more are within it: those may be of very different sizes.
        """
        # Beyond this, eps * scale may not be a float.
        scale, eps = float(self._moves.numbers.scale.max()), self.lower
        most = LARGEST if scale <= 1 else LARGEST / scale * (1 - SLACK)
        while self.upper == math.inf:
            if self.lower > largest:
                self.lower = math.inf
                return
            if self._moves.norm == 0:
                eps = min(max(2 * eps, 1.0), largest)
            else:
                if self.lower > most:
                    return
                n_within = int(WIDER * np.searchsorted(costs, eps))
                wider = float(costs[min(n_within, len(costs) - 1)]) if len(costs) else 0.0
                eps = max(WIDER * eps, wider * (1 + SLACK), math.nextafter(eps, math.inf))
                eps = min(eps, largest, most)
            if eps < min(largest, most):
                self._look(eps)
            elif not self._try(eps, self._clock):
                raise OutOfTime

    def _crossings(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return features whose thresholds a move can just cross, and about what it costs: inf where that overflows."""
        ensemble = self._verifier.ensemble
        split = ensemble.number_splits
        split = split[~np.isnan(self._x[ensemble.feature[split]])]
        way = (self._x[ensemble.feature[split]] <= ensemble.threshold[split]).astype(int)
        can_move = self._moves.numbers.may_move[way, ensemble.feature[split]]
        split, way = split[can_move], way[can_move]
        feature, threshold = ensemble.feature[split], ensemble.threshold[split]
        start, unit = self._x[feature], self._moves.numbers.scale[way, feature]
        end = np.where(way == UP, self._verifier.trees.above[split], threshold)
        # A move of some cost is one from 0.
        jumping, cost = self._moves.jumps
        feature, unit = np.append(feature, jumping), np.append(unit, np.ones(len(jumping)))
        start, end = np.append(start, np.zeros(len(jumping))), np.append(end, cost)
        with np.errstate(over="ignore"):
            return feature, np.abs(end - start) / unit

    def _farthest(self, feature: NDArray[np.int64], cost: NDArray[np.float64]) -> float:
        """Return a budget that crosses every threshold, hardly more than it takes; 0 if there is none to cross."""
        norm = self._moves.norm
        if not len(feature) or norm == 0:
            return float(len(np.unique(feature)))
        dearest = np.zeros(self._verifier.ensemble.n_features)
        np.maximum.at(dearest, feature, cost)
        # Shares of the largest do not overflow.
        most = min(max(float(dearest.max()), TINY), LARGEST)
        share = float(np.linalg.norm(np.minimum(dearest, most) / most, norm))
        return min(most * share * (1 + SLACK) + TINY, LARGEST)


class RelatedRadiusSearch(RadiusSearch):
    """The same for a row that keeps relations: without them it is no larger, and verdicts halve what is left."""

    def __init__(self, decider: Decider, x: NDArray[np.float64], known: Known, clock: Clock) -> None:
        super().__init__(decider, x, known._replace(upper=math.inf, stable=UNKNOWN), clock)
        self._known = known

    def run(self) -> None:
        """Search until the bounds are close, or no verdict is found, or `OutOfTime` is raised."""
        moves = self._moves
        try:
            super().run()
        finally:
            if self.attack is None or not moves.counts_rows(self._x[None], self.attack[None])[0]:
                self.upper, self.attack = math.inf, None
        if self.attack is not None:
            return
        if self._known.stable == STABLE:
            self._raise_lower(moves.eps)
        if self.lower == math.inf:
            return
        if self._known.stable == UNSTABLE:
            self._ask(moves.eps)
        if self.upper == math.inf and self._ask(len(self._x), norm=0) == STABLE:
            self.lower = math.inf
        while self.lower < self.upper:
            lower, upper = self.lower, self.upper
            middle = 2.0 * lower if upper == math.inf else lower + (upper - lower) / 2
            if upper < math.inf and lower > 0 and upper > 4 * lower:
                middle = math.sqrt(lower) * math.sqrt(upper)
            middle = math.floor(middle) if moves.norm == 0 else middle
            is_close = upper <= lower * CLOSE or not lower < middle < upper
            before = math.nextafter(upper, 0.0) if moves.norm else upper - 1.0
            middle = before if is_close and upper < math.inf else max(middle, SMALLEST)
            if self._ask(middle) == UNKNOWN or is_close:
                return

    def _ask(self, eps: float, norm: float | None = None) -> int:
        """Find out whether there is an attack within a budget, and note what that says of the radius."""
        row = row_problem(self._verifier, self._x, self._moves.within(eps, norm))
        answer = self._decider.decide_on(row, self._class, self._clock.share(1 / 4))
        if answer.attack is not None:
            upper = ceil_root(self._moves.price_of_row(self._x, answer.attack), self._moves.norm)
            if upper < self.upper:
                self.upper, self.attack = upper, answer.attack
        elif answer.stable == STABLE and norm is None:
            self._raise_lower(eps)
        return answer.stable

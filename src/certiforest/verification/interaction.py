"""Interaction: exact verdicts and radii where trees do meet, by a constraint solver.

Near one row only few thresholds are in reach, so what remains is a small Boolean problem (`attack_model`), for trees
that vote and for scores that add up alike: a leaf gives the predicted class a lead over a rival, in whole numbers, and
the attacker must turn enough of it. Three cheap looks come first: what all trees together can give at most; a greedy
attack; and, for L-inf, small groups of trees that share no feature with others, which are solved apart.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import suppress
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from certiforest.attack.attacker import Attacker, AttackerError
from certiforest.attack.reach_kernels import enter_leaf
from certiforest.ensemble.tree_kernels import LARGEST, find_leaf
from certiforest.verification import interaction_kernels as kernels
from certiforest.verification.attack_model import AttackModel, LocalProblem, Timeout
from certiforest.verification.certificates import STABLE, UNDECIDED, UNSTABLE
from certiforest.verification.composition import Composition
from certiforest.verification.rationals import ceil_root, exact_budget, price_move
from certiforest.verification.summing import Summing

# A cost in floats is this near to the exact one, relatively and absolutely: a difference, a quotient, a norm.
SLACK, TINY = 1e-9, 1e-300
# As many costs are priced exactly without regret.
FEW = 8
# As many leaves are tried in a group of trees before it is left to the solver: about a millisecond.
N_STEPS = 10_000
# As many leaves are visited to guess an attack: about a tenth of a second.
N_VISITS = 1_000_000


class Contest(NamedTuple):
    """What a rival of the predicted class must gain, and what leaves gain it.

    Attributes
    ----------
    gain : ndarray of int, shape (n_leaves,)
        Counted from the leaf of the same tree that is best for the predicted class.
    need : int
    """

    gain: NDArray
    need: int


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


class Interaction:
    """One ensemble against one attacker, ready to decide rows at which trees meet.

    Parameters
    ----------
    composition : Composition
    time_limit : float
        Seconds per row.
    """

    def __init__(self, composition: Composition, time_limit: float) -> None:
        self.composition = composition
        self.ensemble, self.attacker = composition.ensemble, composition.attacker
        self.time_limit = time_limit
        self.scale = self.attacker.scale_of(self.ensemble.n_features)
        self.tree_of_node = self.ensemble.tree_of_node
        self._is_started = False
        # How far from zero a lead must be, in whole numbers, to decide.
        self.margin = 0
        if isinstance(composition, Summing) and composition.margin > 0:
            self.margin = 1 + math.floor(Fraction(composition.margin) / composition.whole_scores.unit)

    @cached_property
    def _members(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Trees that test each feature: those of feature f are ``tree[start[f]:start[f + 1]]``."""
        is_split = self.ensemble.feature >= 0
        pairs = np.unique(np.stack([self.ensemble.feature[is_split], self.tree_of_node[is_split]]), axis=1)
        return pairs[1].astype(np.int64), np.searchsorted(pairs[0], np.arange(self.ensemble.n_features + 1))

    def decide(self, x: NDArray[np.float64], deadline: float) -> tuple[int, NDArray[np.float64] | None]:
        """Return whether a row is stable (1, 0, or -1 if it is not known), and a witness if it is not."""
        self._start_up(x)
        deadline = min(deadline, time.monotonic() + self.time_limit)
        y = self._predict(x)
        try:
            problem = self._local_problem(x, self.attacker)
            if self.margin == 0:
                z = self._find_attack(x, problem, y, self.attacker, None, deadline)
                return (STABLE, None) if z is None else (UNSTABLE, z)
            # Between a lead of -margin and one of margin, nothing is said.
            if self._least_lead(x, y) < self.margin:
                return UNDECIDED, None
            if self._find_attack(x, problem, y, self.attacker, 1 - self.margin, deadline) is None:
                return STABLE, None
            z = self._find_attack(x, problem, y, self.attacker, self.margin, deadline)
            return (UNDECIDED, None) if z is None else (UNSTABLE, z)
        except Timeout:
            return UNDECIDED, None

    def measure(
        self, x: NDArray[np.float64], known: tuple[float, float], stable: int, deadline: float
    ) -> tuple[float, float]:
        """Return bounds of the radius of a row, equal unless time is up.

        Parameters
        ----------
        x : ndarray, shape (n_features,)
        known : (float, float)
            What is known so far: the radius is not below the first, nor above the second.
        stable : int
            What is known about the attacker's own budget: 1, 0 or -1.
        deadline : float
        """
        self._start_up(x)
        search = _RadiusSearch(self, x, known, min(deadline, time.monotonic() + self.time_limit))
        if stable == STABLE:
            search.exclude(self.attacker.eps)
        elif stable == UNSTABLE:
            search.upper = min(search.upper, self.attacker.eps)
        # A budget that is out of the range of floats ends the search like one of time.
        with suppress(Timeout, AttackerError):
            search.run()
        return search.lower, search.upper

    def find_attack(self, x: NDArray[np.float64], attacker: Attacker, deadline: float) -> NDArray[np.float64] | None:
        """Return a row within an attacker's reach that is predicted otherwise, None if there is none.

        Raises
        ------
        Timeout
        """
        return self._find_attack(x, self._local_problem(x, attacker), self._predict(x), attacker, None, deadline)

    def find_cheapest(
        self, x: NDArray[np.float64], attacker: Attacker, deadline: float
    ) -> tuple[NDArray[np.float64] | None, Fraction | None]:
        """Return the cheapest attack within an attacker's budget, None if there is none; not for L-inf.

        Where time ran out, the attack is the cheapest that was found, and the second number what any attack costs at
        least, else None.
        """
        problem, y = self._local_problem(x, attacker), self._predict(x)
        best: NDArray[np.float64] | None = None
        least: Fraction | None = None
        for rival in self._rivals(x, y):
            gain, need = self._contest(problem, y, rival)
            if _most_gain(problem, gain) < need:
                continue
            try:
                model = AttackModel(self.ensemble, x, problem, gain, need, attacker, deadline)
                if best is not None:
                    model.undercut(self.price(x, best))
                while (z := model.find_cheapest(deadline)) is not None:
                    if self._predict(z) == y or self.price(x, z) > exact_budget(attacker):
                        model.refine()
                        continue
                    best = z
                    model.undercut(self.price(x, z))
            except Timeout as timeout:
                least = timeout.least_price if least is None else min(least, timeout.least_price)
        if least is not None and best is not None:
            least = min(least, self.price(x, best))
        return best, least

    def price(self, x: NDArray[np.float64], z: NDArray[np.float64]) -> Fraction:
        """Return the exact price of moving ``x`` to ``z``, in powers of the norm."""
        prices = [
            price_move(float(x[f]), float(z[f]), float(self.scale[f]), self.attacker.norm)
            for f in np.flatnonzero(z != x).tolist()
        ]
        return max(prices, default=Fraction(0)) if self.attacker.norm == math.inf else sum(prices, Fraction(0))

    def _start_up(self, x: NDArray[np.float64]) -> None:
        """Compile kernels and import the solver before the first row's time starts."""
        if self._is_started:
            return
        import ortools.sat.python.cp_model  # noqa: F401

        problem, y = self._local_problem(x, self.attacker), self._predict(x)
        for rival in self._rivals(x, y)[:1]:
            for _ in self._guesses(x, problem, y, rival, self.attacker):
                pass
        self._solve_groups(problem, np.zeros(len(problem.leaf), np.int64), 0)
        self._is_started = True

    def _find_attack(
        self,
        x: NDArray[np.float64],
        problem: LocalProblem,
        y: int,
        attacker: Attacker,
        margin: int | None,
        deadline: float,
    ) -> NDArray[np.float64] | None:
        """Find an attack after which a rival leads by at least ``margin`` (None: is predicted)."""
        is_open = False
        for rival in self._rivals(x, y):
            try:
                z = self._attack_for(x, problem, y, rival, attacker, margin, deadline)
            except Timeout:
                is_open = True
                continue
            if z is not None:
                return z
        if is_open:
            raise Timeout
        return None

    def _attack_for(
        self,
        x: NDArray[np.float64],
        problem: LocalProblem,
        y: int,
        rival: int,
        attacker: Attacker,
        margin: int | None,
        deadline: float,
    ) -> NDArray[np.float64] | None:
        gain, need = self._contest(problem, y, rival)
        if margin is not None:
            need += margin - (1 if rival > y else 0)
        if _most_gain(problem, gain) < need:
            return None
        if time.monotonic() >= deadline:
            raise Timeout

        def works(z: NDArray[np.float64]) -> bool:
            is_turned = self._predict(z) != y if margin is None else self._lead(z, y, rival) <= -margin
            return is_turned and self.price(x, z) <= exact_budget(attacker)

        for z in self._guesses(x, problem, y, rival, attacker):
            if works(z):
                return z
        taken = np.zeros(0, np.int64)
        if attacker.norm == math.inf:
            gain, need, taken = self._solve_groups(problem, gain, need)
            if _most_gain(problem, gain) < need:
                return None
            if need <= 0:
                z = self._send(x.copy(), problem.leaf[taken])
                if works(z):
                    return z
                raise AssertionError("The attack on groups does not work: please report this as a defect.")
        model = AttackModel(self.ensemble, x, problem, gain, need, attacker, deadline)
        while (found := model.find(deadline)) is not None:
            if works(self._send(found, problem.leaf[taken])):
                return found
            model.refine()
        return None

    def _send(self, z: NDArray[np.float64], leaves: NDArray[np.int64]) -> NDArray[np.float64]:
        """Move a row, in place, into leaves."""
        for leaf in leaves.tolist():
            enter_leaf(self.ensemble.trees, self.tree_of_node[leaf], leaf, z)
        return z

    def _guesses(
        self, x: NDArray[np.float64], problem: LocalProblem, y: int, rival: int, attacker: Attacker
    ) -> Iterator[NDArray[np.float64]]:
        """Yield rows that may be attacks: trees turned one after the other, then features moved one after the other."""
        z = np.empty_like(x)
        gain = self._float_gains(problem, y, rival)
        kernels.try_greedily(self.ensemble.trees, x, *problem, gain, z)
        yield z
        is_box = attacker.norm == math.inf
        reach = self.composition.reach(attacker)
        split = np.unique(problem.turn >> 1)
        cuts = np.unique(
            np.stack([self.ensemble.feature[split].astype(np.float64), self.ensemble.threshold[split]]), axis=1
        )
        feature, start = np.unique(cuts[0].astype(np.int64), return_index=True)
        worth = np.zeros(self.ensemble.n_nodes)
        worth[problem.leaf] = gain
        z = z if is_box else x.copy()
        kernels.climb(
            self.ensemble.trees, x, feature, cuts[1], np.append(start, cuts.shape[1]), *self._members,
            reach.unit, -1 if is_box else int(attacker.norm), reach.limit - reach.slack, worth, N_VISITS, z,
        )  # fmt: skip
        yield z

    def _solve_groups(self, problem: LocalProblem, gain: NDArray, need: int) -> tuple[NDArray, int, NDArray[np.int64]]:
        """Take small groups of trees that share no feature with others out of an L-inf problem.

        What such a group gains at most, it gains whatever the other trees do.

        Returns
        -------
        gain, need
            Of the problem that remains.
        leaf : ndarray of int64
            Places of the leaves that are taken.
        """
        if _most_gain(problem, gain) >= 2**62:
            return gain, need, np.zeros(0, np.int64)
        taken = np.empty(self.ensemble.n_trees, np.int64)
        kernels.solve_groups(self.ensemble.trees, *problem, gain.astype(np.int64), N_STEPS, taken)
        is_open = np.repeat(taken == kernels.OPEN, np.diff(problem.first_leaf))
        taken = taken[taken >= 0]
        return np.where(is_open, gain, 0), need - int(gain[taken].sum()), taken

    def _local_problem(self, x: NDArray[np.float64], attacker: Attacker) -> LocalProblem:
        """List the leaves that an attacker can reach from a row."""
        reach = self.composition.reach(attacker)
        is_box = attacker.norm == math.inf or not attacker.can_move
        n_nodes = self.ensemble.n_nodes
        pricing = reach.unit, -1 if is_box else int(attacker.norm), math.inf if is_box else reach.limit + reach.slack
        scratch = (
            np.empty(n_nodes + 1, np.int64),
            np.empty(n_nodes + 1),
            np.empty(n_nodes + 1, np.int64),
            np.empty(n_nodes + 1, np.int64),
        )
        leaf, turn = np.empty(4 * self.ensemble.n_trees, np.int64), np.empty(0, np.int64)
        while True:
            end = np.empty(len(leaf), np.int64)
            n_leaves, n_turns = kernels.list_leaves(
                self.ensemble.trees, x, *reach.budgets, *pricing, *scratch, leaf, end, turn
            )
            if n_leaves <= len(leaf) and n_turns <= len(turn):
                break
            leaf, turn = np.empty(n_leaves, np.int64), np.empty(n_turns, np.int64)
        first_leaf = np.searchsorted(self.tree_of_node[leaf[:n_leaves]], np.arange(self.ensemble.n_trees + 1))
        return LocalProblem(leaf[:n_leaves], np.append(0, end[:n_leaves]), turn[:n_turns], first_leaf)

    def _contest(self, problem: LocalProblem, y: int, rival: int) -> Contest:
        given = self.ensemble.leaf[problem.leaf]
        base = 0
        if isinstance(self.composition, Summing):
            scores = self.composition.whole_scores
            lead = scores.leads(given, y, rival)
            base = scores.lead(given[:0], y, rival)
        else:
            lead = (given == y).astype(np.int64) - (given == rival)
        most = np.maximum.reduceat(lead, problem.first_leaf[:-1])
        need = int(most.sum()) + base + (1 if rival > y else 0)
        return Contest(np.repeat(most, np.diff(problem.first_leaf)) - lead, need)

    def _float_gains(self, problem: LocalProblem, y: int, rival: int) -> NDArray[np.float64]:
        """Return about what leaves gain, see `Contest`."""
        given = self.ensemble.leaf[problem.leaf]
        if isinstance(self.composition, Summing):
            value = self.composition.scores.value
            worth = value[given, rival] - value[given, y]
        else:
            worth = (given == rival) - (given == y).astype(np.float64)
        least = np.minimum.reduceat(worth, problem.first_leaf[:-1])
        return worth - np.repeat(least, np.diff(problem.first_leaf))

    def _predict(self, z: NDArray[np.float64]) -> int:
        return int(self.ensemble.class_index(z[None])[0])

    def _lead(self, z: NDArray[np.float64], y: int, rival: int) -> int:
        """Return the lead of ``y`` over a rival at a row, in whole numbers of scores."""
        assert isinstance(self.composition, Summing)
        trees = self.ensemble.trees
        leaves = [find_leaf(trees, tree, z) for tree in range(self.ensemble.n_trees)]
        return self.composition.whole_scores.lead(self.ensemble.leaf[leaves], y, rival)

    def _least_lead(self, x: NDArray[np.float64], y: int) -> int:
        return min(self._lead(x, y, rival) for rival in range(self.ensemble.n_classes) if rival != y)

    def _rivals(self, x: NDArray[np.float64], y: int) -> list[int]:
        """Return the other classes, those nearest to being predicted first."""
        if self.ensemble.n_classes == 2:
            return [1 - y]
        if self.ensemble.combine == "vote":
            strength = self.ensemble.votes(x[None])[0].astype(np.float64)
        else:
            strength = self.ensemble.decision_function(x[None])[0]
        return [int(c) for c in np.argsort(-strength, kind="stable") if c != y]


class _RadiusSearch:
    """Close in on the radius of one row, which is from ``lower`` to ``upper``."""

    def __init__(
        self, interaction: Interaction, x: NDArray[np.float64], known: tuple[float, float], deadline: float
    ) -> None:
        self._interaction, self._attacker = interaction, interaction.attacker
        self._x, self._deadline = x, deadline
        self.lower, self.upper = map(float, known)

    def run(self) -> None:
        """Search until the bounds are equal, or `Timeout` is raised."""
        crossings = self._crossings()
        # Where most thresholds are decides where to start: one that is far away may be very far.
        finite = crossings.cost[np.isfinite(crossings.cost)]
        self._gallop(float(np.median(finite)) * 2.0**-10 if len(finite) else 0.0, self._farthest(crossings))
        if self.lower == self.upper:
            return
        if self._attacker.norm == math.inf:
            self._bisect(crossings)
            return
        z, least = self._interaction.find_cheapest(self._x, self._attacker.with_eps(self.upper), self._deadline)
        if z is not None:
            self._note(z)
        elif least is None:
            raise AssertionError("An attack is not found again: please report this as a defect.")
        self.raise_lower(self.upper if least is None else ceil_root(least, self._attacker.norm))

    def raise_lower(self, eps: float) -> None:
        """Note that no attack costs less than ``eps``."""
        self.lower = min(max(eps, self.lower), self.upper)

    def exclude(self, eps: float) -> None:
        """Note that there is no attack within a budget."""
        self.raise_lower(math.floor(eps) + 1.0 if self._attacker.norm == 0 else math.nextafter(eps, math.inf))

    def _note(self, z: NDArray[np.float64]) -> None:
        self.upper = min(self.upper, ceil_root(self._interaction.price(self._x, z), self._attacker.norm))

    def _try(self, eps: float) -> None:
        """Find out whether there is an attack within a budget."""
        z = self._interaction.find_attack(self._x, self._attacker.with_eps(eps), self._deadline)
        if z is None:
            self.exclude(eps)
        else:
            self._note(z)

    def _gallop(self, smallest: float, largest: float) -> None:
        """Double the budget until there is an attack, or no threshold is left to cross."""
        while self.upper == math.inf:
            if self.lower > largest:
                self.lower = math.inf
                return
            budget = min(max(2 * self.lower, smallest), largest)
            self._try(math.ceil(budget) if self._attacker.norm == 0 else budget)

    def _bisect(self, crossings: Crossings) -> None:
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
        ensemble = self._interaction.ensemble
        split = np.flatnonzero(ensemble.feature >= 0)
        split = split[~self._attacker.is_frozen(ensemble.n_features)[ensemble.feature[split]]]
        feature, threshold = ensemble.feature[split], ensemble.threshold[split]
        start, unit = self._x[feature], self._interaction.scale[feature]
        end = np.where(start <= threshold, np.nextafter(threshold, math.inf), threshold)
        with np.errstate(over="ignore"):
            return Crossings(feature, start, end, unit, np.abs(end - start) / unit)

    def _farthest(self, crossings: Crossings) -> float:
        """Return a budget that crosses every threshold, hardly more than it takes; 0 if there is none to cross."""
        norm = self._attacker.norm
        if not len(crossings.feature) or norm == 0:
            return float(len(np.unique(crossings.feature)))
        dearest = np.zeros(self._interaction.ensemble.n_features)
        np.maximum.at(dearest, crossings.feature, crossings.cost)
        # Shares of the largest do not overflow.
        most = min(max(float(dearest.max()), TINY), LARGEST)
        share = float(np.linalg.norm(np.minimum(dearest, most) / most, norm))
        return min(most * share * (1 + SLACK) + TINY, LARGEST)


def _most_gain(problem: LocalProblem, gain: NDArray) -> int:
    """Return what all trees together gain at most, each in its worst leaf."""
    return int(np.maximum.reduceat(gain, problem.first_leaf[:-1]).sum())

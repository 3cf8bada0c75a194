"""The Boolean problem of an attack on one row, as a constraint solver takes it.

::

    one variable per threshold in reach       z[f] <= v, and so for every larger v on f
    one variable per leaf that helps          at most one of a tree, none on a side of a threshold that is not taken
    what those leaves gain                    at least what the rival needs
    the price of the sides taken              at most the budget (nothing to do for L-inf)

Gains and prices are whole numbers of any length. The solver's have 64 bits: longer ones are shortened first, gains up
and savings up, so that "no solution" is a proof. A solution is turned into a row; if that turns out to be no attack,
which only happens within rounding of what is needed, `AttackModel.refine` adds the same bounds in digits, with
carries, and the solver goes on with exact ones.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from certiforest.attack.attacker import Attacker
from certiforest.ensemble import TreeEnsemble
from certiforest.verification.rationals import exact_budget, price_move

# Shortened numbers add up to less than 2**SHORT_BITS; exact ones are cut into digits of DIGIT_BITS.
SHORT_BITS, DIGIT_BITS = 50, 32


class LocalProblem(NamedTuple):
    """What an attacker can do to one row: reachable leaves and the turns they ask for.

    Attributes
    ----------
    leaf : ndarray of int64, shape (n_leaves,)
        Leaf nodes, tree by tree; the row's own leaf comes first in each tree.
    turn_start : ndarray of int64, shape (n_leaves + 1,)
    turn : ndarray of int64
        Turns of leaf k are ``turn[turn_start[k]:turn_start[k + 1]]``, each ``2 * split + side``.
    first_leaf : ndarray of int64, shape (n_trees + 1,)
        Leaves of tree t are ``first_leaf[t]:first_leaf[t + 1]``.
    """

    leaf: NDArray[np.int64]
    turn_start: NDArray[np.int64]
    turn: NDArray[np.int64]
    first_leaf: NDArray[np.int64]


class Timeout(Exception):  # noqa: N818 -- an outcome, not an error of the caller
    """The solver ran out of time; ``least_price`` is what an attack costs at least, as far as it came."""

    def __init__(self, least_price: Fraction = Fraction(0)) -> None:
        super().__init__("The solver ran out of time.")
        self.least_price = least_price


class AttackModel:
    """Look for a row at which leaves gain a rival what it needs.

    Parameters
    ----------
    ensemble : TreeEnsemble
    x : ndarray, shape (n_features,)
    problem : LocalProblem
    gain : ndarray of int, shape (n_leaves,)
        What each leaf gains, >= 0, counted from the leaf of its tree that gains least.
    need : int
        What must be gained in all.
    attacker : Attacker
        Prices and, unless the norm is L-inf, the budget. The norm's own reach is in ``problem``.
    deadline : float
        When it is given up to state the problem.

    Raises
    ------
    Timeout
    """

    def __init__(
        self,
        ensemble: TreeEnsemble,
        x: NDArray[np.float64],
        problem: LocalProblem,
        gain: NDArray,
        need: int,
        attacker: Attacker,
        deadline: float,
    ) -> None:
        from ortools.sat.python import cp_model

        self._cp = cp_model
        self.model = cp_model.CpModel()
        self._x, self._attacker = x, attacker
        self._literal: dict[tuple[int, float], Any] = {}
        self._feature, self._threshold = ensemble.feature, ensemble.threshold
        leaves = np.flatnonzero(gain > 0).tolist()
        taken = [self.model.new_bool_var("") for _ in leaves]
        tree_of = np.searchsorted(problem.first_leaf, leaves, side="right").tolist()
        for _, group in itertools.groupby(zip(tree_of, leaves, taken, strict=True), key=lambda member: member[0]):
            if time.monotonic() >= deadline:
                raise Timeout
            self._add_tree([(k, variable) for _, k, variable in group], problem)
        self._order()
        self._bounds = [([int(gain[k]) for k in leaves], taken, need)]
        self.unit = 1
        if 0 <= attacker.norm < math.inf:
            self._add_prices()
        self.is_exact = True
        for bound in self._bounds:
            self.is_exact &= _add_short(self.model, *bound)

    def find(self, deadline: float) -> NDArray[np.float64] | None:
        """Return a row that may be an attack, None if there is none.

        Raises
        ------
        Timeout
        """
        status, solver = self._solve(deadline)
        return None if status == self._cp.INFEASIBLE else self._row(solver)

    def find_cheapest(self, deadline: float) -> NDArray[np.float64] | None:
        """Return a row that may be an attack, of least price as far as shortened numbers tell; None if there is none.

        Raises
        ------
        Timeout
        """
        prices, saved, _ = self._bounds[1]
        shift = _excess(prices)
        short = [price >> shift for price in prices]
        self.model.minimize(self._cp.LinearExpr.weighted_sum([literal.negated() for literal in saved], short))
        status, solver = self._solve(deadline)
        self.model.clear_objective()
        if status == self._cp.INFEASIBLE:
            return None
        if status == self._cp.FEASIBLE:
            least = max(0, math.floor(solver.best_objective_bound)) << shift
            raise Timeout(Fraction(least, self.unit))
        return self._row(solver)

    def refine(self) -> None:
        """Add exact bounds, after a row that was found turned out to be no attack."""
        if self.is_exact:
            raise AssertionError("The solver's attack does not work: please report this as a defect.")
        self.is_exact = True
        for bound in self._bounds:
            _add_digits(self.model, *bound)

    def undercut(self, price: Fraction) -> None:
        """Ask for attacks that cost less than ``price``, exactly."""
        prices, saved, _ = self._bounds[1]
        most = math.ceil(price * self.unit) - 1
        self._bounds[1] = bound = prices, saved, sum(prices) - most
        if not _add_short(self.model, *bound):
            _add_digits(self.model, *bound)

    def _solve(self, deadline: float) -> tuple[Any, Any]:
        left = deadline - time.monotonic()
        if left <= 0:
            raise Timeout
        solver = self._cp.CpSolver()
        solver.parameters.num_workers = 1
        solver.parameters.max_time_in_seconds = left
        # The relaxation settles most problems at once if it has all constraints, and the time to be solved.
        solver.parameters.linearization_level = 2
        solver.parameters.add_lp_constraints_lazily = False
        solver.parameters.root_lp_iterations = 20_000
        # "No solution" must be a proof, and presolve in OR-Tools 9.15 calls some models infeasible that are not.
        solver.parameters.cp_model_presolve = False
        solver.parameters.catch_sigint_signal = False  # Ctrl-C is Python's, and so the caller's
        status = solver.solve(self.model)
        if status not in (self._cp.INFEASIBLE, self._cp.FEASIBLE, self._cp.OPTIMAL):
            raise Timeout
        return status, solver

    def _add_tree(self, leaves: Sequence[tuple[int, Any]], problem: LocalProblem) -> None:
        """Take at most one leaf of a tree, and none that is not on its side of every threshold.

        Leaves of a tree exclude each other wherever they are, so one constraint holds all that are on one side of a
        threshold: the relaxation is much tighter than with one for each leaf, or for each split.
        """
        self.model.add_at_most_one([variable for _, variable in leaves])
        # (feature, side) -> the turn that binds a leaf most, and all leaves that it binds.
        bound: dict[tuple[int, int], dict[float, tuple[int, list[Any]]]] = {}
        for k, variable in leaves:
            tightest: dict[tuple[int, int], tuple[float, int]] = {}
            for turn in problem.turn[problem.turn_start[k] : problem.turn_start[k + 1]].tolist():
                split, is_right = turn >> 1, turn & 1
                key = int(self._feature[split]), is_right
                reach = -float(self._threshold[split]) if is_right else float(self._threshold[split])
                if key not in tightest or reach < tightest[key][0]:
                    tightest[key] = reach, turn
            for key, (reach, turn) in tightest.items():
                bound.setdefault(key, {}).setdefault(reach, (turn, []))[1].append(variable)
        for by_reach in bound.values():
            within: list[Any] = []
            for _, (turn, variables) in sorted(by_reach.items(), key=lambda item: item[0]):
                within.extend(variables)
                self.model.add_at_most_one([*within, self._side(turn).negated()])

    def _side(self, turn: int) -> Any:
        """Return the literal that is true on a side of a split."""
        split = turn >> 1
        key = int(self._feature[split]), float(self._threshold[split])
        if key not in self._literal:
            self._literal[key] = self.model.new_bool_var("")
        return self._literal[key].negated() if turn & 1 else self._literal[key]

    def _cuts(self) -> dict[int, list[tuple[float, Any]]]:
        cuts: dict[int, list[tuple[float, Any]]] = {}
        for (f, v), literal in sorted(self._literal.items(), key=lambda item: item[0]):
            cuts.setdefault(f, []).append((v, literal))
        return cuts

    def _order(self) -> None:
        """Left of a threshold is left of every larger one."""
        for cuts in self._cuts().values():
            for (_, lower), (_, upper) in itertools.pairwise(cuts):
                self.model.add_implication(lower, upper)

    def _add_prices(self) -> None:
        """Price the sides: each threshold crossed adds what it costs more than the one before.

        What is not crossed is saved, and enough must be saved: a bound from below, like that of gains.
        """
        budget = exact_budget(self._attacker)
        scale = self._attacker.scale_of(len(self._x))
        steps: list[Fraction] = []
        stays: list[Any] = []
        for f, cuts in self._cuts().items():
            value = float(self._x[f])
            right = [(math.nextafter(v, math.inf), literal) for v, literal in cuts if value <= v]
            left = [(v, literal.negated()) for v, literal in reversed(cuts) if value > v]
            for side in (right, left):
                paid = Fraction(0)
                for target, stay in side:
                    price = price_move(value, target, float(scale[f]), self._attacker.norm)
                    if price > paid:
                        steps.append(price - paid)
                        stays.append(stay)
                        paid = price
        self.unit = math.lcm(budget.denominator, *{step.denominator for step in steps})
        prices = [step.numerator * (self.unit // step.denominator) for step in steps]
        self._bounds.append((prices, stays, sum(prices) - math.floor(budget * self.unit)))

    def _row(self, solver: Any) -> NDArray[np.float64]:
        """Return the row nearest to ``x`` that is on the chosen side of every threshold."""
        z = self._x.copy()
        for (f, v), literal in self._literal.items():
            z[f] = min(z[f], v) if solver.boolean_value(literal) else max(z[f], math.nextafter(v, math.inf))
        return z


def _excess(weights: Sequence[int]) -> int:
    """Return how many bits the sum of weights has too many."""
    return max(0, sum(weights).bit_length() - SHORT_BITS)


def _add_short(model: Any, weights: Sequence[int], literals: Sequence[Any], bound: int) -> bool:
    """Require that the weights of true literals add up to a bound, rounded in favour of it; tell whether it is exact.

    If ``sum(w) >= bound``, then ``sum(ceil(w / unit)) >= floor(bound / unit)``.
    """
    if bound <= 0:
        return True
    shift = _excess(weights)
    short = [-(-weight >> shift) for weight in weights]
    # Beyond what all together reach, a bound says no more than that it cannot be met.
    model.add(_weighted(literals, short) >= min(bound >> shift, sum(short) + 1))
    return shift == 0


def _add_digits(model: Any, weights: Sequence[int], literals: Sequence[Any], bound: int) -> None:
    """Require the same, exactly: digit by digit, each with what is carried over from the one below.

    A sum reaches its bound iff there are whole carries such that, in each digit, ``sum + carry from below - bound >=
    carry * 2**DIGIT_BITS``, and at the top ``>= 0``.
    """
    if bound <= 0:
        return
    most = 1 + len(weights)
    n_digits = -(-max(sum(weights), bound).bit_length() // DIGIT_BITS)
    mask = 2**DIGIT_BITS - 1
    below: Any = 0
    for place in range(n_digits):
        shift = place * DIGIT_BITS
        total = _weighted(literals, [weight >> shift & mask for weight in weights])
        is_top = place == n_digits - 1
        carry = 0 if is_top else model.new_int_var(-most, most, "")
        model.add(total + below - (bound >> shift & mask) >= carry * 2**DIGIT_BITS)
        below = carry


def _weighted(literals: Sequence[Any], weights: Sequence[int]) -> Any:
    from ortools.sat.python import cp_model

    return cp_model.LinearExpr.weighted_sum(literals, weights)

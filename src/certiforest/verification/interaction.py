"""Interaction: exact verdicts where trees do meet, by a constraint solver.

Near one row only few thresholds are in reach, so what remains is a small Boolean problem::

    one variable per threshold in reach       z[f] <= v, and so for every larger v on f
    one variable per leaf that helps          implies the side of each split on its path
    the votes gained by those leaves          at least what the rival needs
    the price of the sides taken              at most the budget (nothing to do for L-inf)

CP-SAT decides it. Prices are whole numbers to the solver, rounded down, so that "no solution" is a proof. A solution is
turned into a row, which is priced exactly and predicted again; if it fails, which only happens when its price lies within
rounding of the budget, it is excluded and the solver goes on.
"""

from __future__ import annotations

import math
import time
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from certiforest.ensemble import TreeEnsemble
from certiforest.verdict import STABLE, UNDECIDED, UNSTABLE
from certiforest.verification import interaction_kernels as kernels
from certiforest.verification.composition import Composition
from certiforest.verification.rationals import exact_budget, price_move

# The budget, as the solver sees it, is this many units; prices are rounded down to units.
UNITS = 2**40


class LocalProblem(NamedTuple):
    """What an attacker can do to one row: reachable leaves and the turns they ask for.

    Attributes
    ----------
    leaf : ndarray of int64, shape (n_leaves,)
        Leaf nodes, tree by tree; the row's own leaf comes first in each tree.
    turn_start : ndarray of int64, shape (n_leaves + 1,)
    turn : ndarray of int64
        Turns of leaf k are ``turn[turn_start[k]:turn_start[k + 1]]``, each ``2 * split + side``.
    """

    leaf: NDArray[np.int64]
    turn_start: NDArray[np.int64]
    turn: NDArray[np.int64]


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

    def decide(self, x: NDArray[np.float64], deadline: float) -> tuple[int, NDArray[np.float64] | None]:
        """Return whether a row is stable (1, 0, or -1 if time ran out), and a witness if it is not."""
        deadline = min(deadline, time.monotonic() + self.time_limit)
        problem = self.local_problem(x)
        votes = self.ensemble.votes(x[None])[0]
        y = int(votes.argmax())
        verdict = STABLE
        for rival in np.argsort(-votes, kind="stable"):
            if rival == y:
                continue
            answer, witness = self._attack(x, problem, y, int(rival), deadline)
            if answer == UNSTABLE:
                return UNSTABLE, witness
            if answer == UNDECIDED:
                verdict = UNDECIDED
        return verdict, None

    def local_problem(self, x: NDArray[np.float64]) -> LocalProblem:
        """List the leaves that the attacker can reach from a row."""
        c = self.composition
        n_nodes = self.ensemble.n_nodes
        norm = -1 if c.is_box else int(self.attacker.norm)
        limit = math.inf if c.is_box else c.limit + c.slack
        scratch = (
            np.empty(n_nodes + 1, np.int64),
            np.empty(n_nodes + 1),
            np.empty(n_nodes + 1, np.int64),
            np.empty(n_nodes + 1, np.int64),
        )
        leaf, end, turn = np.empty(4 * self.ensemble.n_trees, np.int64), np.empty(0, np.int64), np.empty(0, np.int64)
        while True:
            end = np.empty(len(leaf), np.int64)
            n_leaves, n_turns = kernels.list_leaves(
                self.ensemble.trees, x, *c.budgets, c.unit, norm, limit, *scratch, leaf, end, turn
            )
            if n_leaves <= len(leaf) and n_turns <= len(turn):
                return LocalProblem(leaf[:n_leaves], np.append(0, end[:n_leaves]), turn[:n_turns])
            leaf, turn = np.empty(n_leaves, np.int64), np.empty(n_turns, np.int64)

    def _attack(
        self, x: NDArray[np.float64], problem: LocalProblem, y: int, rival: int, deadline: float
    ) -> tuple[int, NDArray[np.float64] | None]:
        """Look for an attack that makes ``rival`` overtake ``y``."""
        from ortools.sat.python import cp_model

        margin = leaf_margins(self.ensemble, y, rival)[problem.leaf]  # what each leaf gives y over the rival
        tree = self.tree_of_node[problem.leaf]
        first = np.flatnonzero(np.append(True, tree[1:] != tree[:-1]))
        most = np.maximum.reduceat(margin, first)
        least = np.minimum.reduceat(margin, first)
        wins_ties = rival > y  # y keeps a tie against a later class
        needed = int(most.sum()) + (1 if wins_ties else 0)  # gains, counted from each tree's best case for y
        gain = most[np.cumsum(np.isin(np.arange(len(tree)), first)) - 1] - margin
        if int((most - least).sum()) < needed:
            return STABLE, None
        model = cp_model.CpModel()
        literals = _ThresholdLiterals(model, self.ensemble)
        helping = np.flatnonzero(gain > 0)
        taken = {}
        for k in helping:
            taken[k] = model.new_bool_var("")
            for turn in problem.turn[problem.turn_start[k] : problem.turn_start[k + 1]].tolist():
                model.add_implication(taken[k], literals.of_turn(turn))
        literals.order()
        for t in range(len(first)):
            stop = first[t + 1] if t + 1 < len(first) else len(tree)
            own = [taken[k] for k in range(first[t], stop) if k in taken]
            if len(own) > 1:
                model.add_at_most_one(own)
        model.add(sum(int(gain[k]) * taken[k] for k in helping.tolist()) >= needed)
        if not self.composition.is_box:
            self._add_budget(model, literals, x)
        solver = cp_model.CpSolver()
        solver.parameters.num_workers = 1
        while True:
            left = deadline - time.monotonic()
            if left <= 0:
                return UNDECIDED, None
            solver.parameters.max_time_in_seconds = left
            status = solver.solve(model)
            if status == cp_model.INFEASIBLE:
                return STABLE, None
            if status not in (cp_model.FEASIBLE, cp_model.OPTIMAL):
                return UNDECIDED, None
            z = literals.row(solver, x)
            if self.is_attack(x, z, y):
                return UNSTABLE, z
            model.add_bool_or(literals.negation(solver))  # within rounding of the budget: exclude it and go on

    def _add_budget(self, model: Any, literals: _ThresholdLiterals, x: NDArray[np.float64]) -> None:
        """Bound the price of the sides taken: each threshold crossed adds what it costs more than the one before."""
        budget = exact_budget(self.attacker)
        terms = []
        for f, cuts in literals.by_feature().items():
            value = float(x[f])
            right = [(v, literal.negated()) for v, literal in cuts if value <= v]
            left = [(v, literal) for v, literal in reversed(cuts) if value > v]
            for side in (right, left):
                paid = 0
                for v, crossed in side:
                    target = math.nextafter(v, math.inf) if value <= v else v
                    price = price_move(value, target, float(self.scale[f]), self.attacker.norm)
                    # Differences of prices that are rounded down add up to a price that is rounded down.
                    units = UNITS + 1 if price > budget else math.floor(price / budget * UNITS)
                    if units > paid:
                        terms.append((units - paid) * crossed)
                        paid = units
        model.add(sum(terms) <= UNITS)

    def is_attack(self, x: NDArray[np.float64], z: NDArray[np.float64], y: int) -> bool:
        """Tell whether ``z`` is within the budget, exactly, and not predicted as class ``y``."""
        moved = np.flatnonzero(z != x)
        prices = [
            price_move(float(x[f]), float(z[f]), float(self.scale[f]), self.attacker.norm) for f in moved.tolist()
        ]
        price = max(prices, default=Fraction(0)) if self.attacker.norm == math.inf else sum(prices, Fraction(0))
        return price <= exact_budget(self.attacker) and int(self.ensemble.votes(z[None])[0].argmax()) != y


def leaf_margins(ensemble: TreeEnsemble, y: int, rival: int) -> NDArray[np.int64]:
    """Return what each leaf gives class ``y`` over its rival: 1, -1 or 0; shape (n_nodes,)."""
    return (ensemble.leaf == y).astype(np.int64) - (ensemble.leaf == rival)


class _ThresholdLiterals:
    """One Boolean per threshold in reach, true iff the row is moved to its left or stays there."""

    def __init__(self, model: Any, ensemble: TreeEnsemble) -> None:
        self._model = model
        self._feature, self._threshold = ensemble.feature, ensemble.threshold
        self._literal: dict[tuple[int, float], Any] = {}

    def of_turn(self, turn: int) -> Any:
        split = turn >> 1
        key = int(self._feature[split]), float(self._threshold[split])
        if key not in self._literal:
            self._literal[key] = self._model.new_bool_var("")
        literal = self._literal[key]
        return literal.negated() if turn & 1 else literal

    def by_feature(self) -> dict[int, list[tuple[float, Any]]]:
        cuts: dict[int, list[tuple[float, Any]]] = {}
        for (f, v), literal in sorted(self._literal.items(), key=lambda item: item[0]):
            cuts.setdefault(f, []).append((v, literal))
        return cuts

    def order(self) -> None:
        """Left of a threshold is left of every larger one."""
        for cuts in self.by_feature().values():
            for (_, lower), (_, upper) in zip(cuts, cuts[1:], strict=False):
                self._model.add_implication(lower, upper)

    def row(self, solver: Any, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the row nearest to ``x`` that is on the chosen side of every threshold."""
        z = x.copy()
        for (f, v), literal in self._literal.items():
            z[f] = min(z[f], v) if solver.boolean_value(literal) else max(z[f], math.nextafter(v, math.inf))
        return z

    def negation(self, solver: Any) -> list[Any]:
        return [
            literal.negated() if solver.boolean_value(literal) else literal for literal in self._literal.values()
        ]

"""What other solvers say of questions about a whole model: CP-SAT, HiGHS and Veritas, a processor each.

CP-SAT and HiGHS get the usual program: a variable for each threshold of a column, 1 where the column is no larger, and
one for each leaf, 1 where an input ends in it. The leaves left of a split are no more than its threshold's variable,
those right of it no more than the rest, and one leaf of a tree is 1. Of two inputs that differ in one column, only
that column and the trees that test it are there twice. CP-SAT takes scores in steps of 2**-20.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from certiforest import TreeEnsemble

Terms = Counter[int]
EXACT, STEPS = 1e-5, 2**20


class Program:
    """Rows ``low <= sum of coefficients <= high`` of variables that are 0 or 1, and what each input's score is."""

    def __init__(
        self,
        ensemble: TreeEnsemble,
        low: np.ndarray,
        high: np.ndarray,
        column: int | None = None,
        ordered: bool = False,
    ) -> None:
        self.n_variables, self.n_cuts = 0, 0
        self.rows: list[tuple[Terms, float, float]] = []
        splits = ensemble.feature >= 0
        cuts = {f: np.unique(ensemble.threshold[splits & (ensemble.feature == f)]) for f in range(ensemble.n_features)}
        places = (0,) if column is None else (0, 1)
        self._below = [dict[tuple[int, float], int]() for _ in places]
        for f, thresholds in cuts.items():
            inside = [t for t in thresholds.tolist() if low[f] <= t < high[f]]
            for place in places if f == column else (0,):
                found = {(f, t): self._add() for t in inside}
                for below in self._below if f != column else self._below[place : place + 1]:
                    below.update(found)
                for one, next_one in pairwise(inside):
                    self.rows.append((Terms({found[f, one]: 1, found[f, next_one]: -1}), -math.inf, 0))
            if f == column and ordered:  # the second input has the larger value
                for t in inside:
                    pair = self._below[1][f, t], self._below[0][f, t]
                    self.rows.append((Terms({pair[0]: 1, pair[1]: -1}), -math.inf, 0))
        self.n_cuts = self.n_variables
        self.base = float(ensemble.base[0])
        self.scores: list[dict[int, float]] = [{} for _ in places]
        for t in range(ensemble.n_trees):
            nodes = range(ensemble.tree_start[t], ensemble.tree_start[t + 1])
            is_double = column is not None and column in ensemble.feature[nodes.start : nodes.stop]
            for place in places if is_double else (0,):
                leaves = self._leaves(ensemble, nodes.start, (low, high), place, places if not is_double else (place,))
                self.rows.append((Terms(dict.fromkeys(leaves, 1)), 1, 1))

    def _add(self) -> int:
        self.n_variables += 1
        return self.n_variables - 1

    def _leaves(
        self, ensemble: TreeEnsemble, node: int, ends: tuple[np.ndarray, np.ndarray], place: int, of: Sequence[int]
    ) -> list[int]:
        """Return the variables of the leaves below a node, and write their rows."""
        f, threshold = int(ensemble.feature[node]), float(ensemble.threshold[node])
        if f < 0:
            variable = self._add()
            for input_ in of:
                self.scores[input_][variable] = float(ensemble.scores[ensemble.leaf[node], 0])
            return [variable]
        sides = []
        if ends[0][f] <= threshold:
            sides.append(self._leaves(ensemble, node + 1, ends, place, of))
        if ends[1][f] > threshold:
            sides.append(self._leaves(ensemble, int(ensemble.right[node]), ends, place, of))
        if len(sides) == 2:
            below = self._below[place][f, threshold]
            self.rows.append((Terms({below: -1, **dict.fromkeys(sides[0], 1)}), -math.inf, 0))
            self.rows.append((Terms({below: 1, **dict.fromkeys(sides[1], 1)}), -math.inf, 1))
        return [leaf for side in sides for leaf in side]

    def goal(self, signs: Sequence[int]) -> dict[int, float]:
        """Return the weighted sum of scores, but for the base."""
        total = Counter[int]()
        for sign, scores in zip(signs, self.scores, strict=False):
            for variable, score in scores.items():
                total[variable] += sign * score  # type: ignore[assignment]
        return dict(total)


def highs(program: Program, goal: dict[int, float], needs: Sequence[tuple[Terms, float, float]], seconds: float) -> Any:
    """Return the most of a sum (None: not known in time, -inf: nothing meets the needs), by HiGHS through SciPy."""
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import coo_array

    rows = [*program.rows, *needs]
    places = [i for i, (terms, _, _) in enumerate(rows) for _ in terms]
    variables = [v for terms, _, _ in rows for v in terms]
    values = [float(c) for terms, _, _ in rows for c in terms.values()]
    shape = len(rows), program.n_variables
    limits = LinearConstraint(
        coo_array((values, (places, variables)), shape).tocsr(), [low for _, low, _ in rows], [h for *_, h in rows]
    )
    cost = np.zeros(program.n_variables)
    cost[list(goal)] = [-value for value in goal.values()]
    found = milp(
        cost, integrality=np.arange(len(cost)) < program.n_cuts, bounds=Bounds(0, 1), constraints=limits,
        options={"time_limit": seconds, "mip_rel_gap": EXACT / 10},
    )  # fmt: skip
    return {0: -found.fun if found.x is not None else None, 2: -math.inf}.get(found.status)


def cp_sat(
    program: Program, goal: dict[int, float], needs: Sequence[tuple[Terms, float, float]], seconds: float
) -> Any:
    """Return the same by CP-SAT."""
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    variables = [model.new_bool_var("") for _ in range(program.n_variables)]
    for whole, rows in ((1, program.rows), (STEPS, needs)):
        for terms, low, high in rows:
            total = sum(round(c * whole) * variables[v] for v, c in terms.items())
            if low > -math.inf:
                model.add(total >= math.ceil(low * whole))
            if high < math.inf:
                model.add(total <= math.floor(high * whole))
    if goal:
        model.maximize(sum(round(c * STEPS) * variables[v] for v, c in goal.items()))
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds, solver.parameters.num_workers = seconds, 1
    status = solver.solve(model)
    return {cp_model.INFEASIBLE: -math.inf, cp_model.OPTIMAL: solver.objective_value / STEPS if goal else 0.0}.get(
        status
    )


def veritas(ensemble: TreeEnsemble, low: np.ndarray, high: np.ndarray, sign: int, seconds: float) -> float | None:
    """Return the most of the sum, or of the negated sum, by Veritas; None if it is not known in time."""
    import veritas

    model = veritas.AddTree(1, veritas.AddTreeType.REGR)
    for t in range(ensemble.n_trees):
        tree = model.add_tree()
        places = {int(ensemble.tree_start[t]): tree.root()}
        for node in range(ensemble.tree_start[t], ensemble.tree_start[t + 1]):
            f, threshold = int(ensemble.feature[node]), float(ensemble.threshold[node])
            if f < 0:
                tree.set_leaf_value(places[node], 0, sign * float(ensemble.scores[ensemble.leaf[node], 0]))
                continue
            tree.split(places[node], f, math.nextafter(threshold, math.inf))  # left where below
            places[node + 1], places[int(ensemble.right[node])] = tree.left(places[node]), tree.right(places[node])
    box = [veritas.Interval(a, math.nextafter(b, math.inf)) for a, b in zip(low.tolist(), high.tolist(), strict=True)]
    search, began = veritas.Config(veritas.HeuristicType.MAX_OUTPUT).get_search(model, box), time.monotonic()
    done = veritas.StopReason.OPTIMAL, veritas.StopReason.NO_MORE_OPEN
    while time.monotonic() - began < seconds:
        if search.step_for(min(1.0, seconds), 100) in done:
            return float(search.get_solution(0).output)
    return None


def answers(
    ensemble: TreeEnsemble, low: np.ndarray, high: np.ndarray, question: tuple[Any, ...], seconds: float
) -> dict[str, Callable[[], Any]]:
    """Return what each solver is to do for ("range",), ("fall", column) or ("sensitive", column, level).

    What they return are the lowest and the highest sum, the most it falls, or 1 where inputs are found and -inf where
    there are none.
    """
    kind, *about = question
    if kind == "range":
        program = Program(ensemble, low, high)

        def both_ends(solve: Callable[[int], float | None]) -> tuple[float, ...] | None:
            ends = [None if (most := solve(sign)) is None else sign * most + program.base for sign in (-1, 1)]
            return None if None in ends else tuple(ends)  # type: ignore[arg-type]

        return {
            "CP-SAT": lambda: both_ends(lambda sign: cp_sat(program, program.goal([sign]), [], seconds / 2)),
            "HiGHS": lambda: both_ends(lambda sign: highs(program, program.goal([sign]), [], seconds / 2)),
            "Veritas": lambda: both_ends(lambda sign: veritas(ensemble, low, high, sign, seconds / 2)),
        }
    program = Program(ensemble, low, high, about[0], ordered=kind == "fall")
    goal = program.goal([1, -1]) if kind == "fall" else {}
    needs: list[Any] = []
    if kind == "sensitive":
        first, second = (program.goal(signs) for signs in ([1, 0], [0, 1]))
        needs = [(first, about[1] - program.base, math.inf), (second, -math.inf, -about[1] - program.base)]
    return {
        "CP-SAT": lambda: cp_sat(program, goal, needs, seconds),
        "HiGHS": lambda: highs(program, goal, needs, seconds),
    }

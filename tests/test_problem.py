"""The problem around a row, for attackers of every kind: cells and prices, what leaves allow and gain, exactly."""

import itertools
import math
import random
from fractions import Fraction

import numpy as np
import pytest

from cases import attacker_of, ensemble_of, random_case, real_case, rule_case
from certiforest import TreeEnsemble
from certiforest.ensemble.tree_kernels import find_leaf
from certiforest.problem.around_row import Goal, RowProblem
from certiforest.problem.gains import Gains
from certiforest.problem.problem import BUDGET
from certiforest.problem.verifier import Verifier
from certiforest.proof.moves_kernels import allows

DRAWS = {"numbers": random_case, "real": real_case, "rules": rule_case}


def problems(kind, combine, n):
    """Yield problems of rows at which trees can be moved."""
    rng = random.Random(f"{kind} {combine}")
    while n:
        case = DRAWS[kind](rng, combine=combine)
        row = RowProblem(Verifier(ensemble_of(case), attacker_of(case).resolve(len(case.x))), np.array(case.x))
        if len(row.leaves.name):
            n -= 1
            yield row


def some_choices(row, n):
    """Yield some of the ways to choose a cell for each variable."""
    ends = itertools.pairwise(row.cells.first.tolist())
    yield from (np.array(choice) for choice in itertools.islice(itertools.product(*(range(*pair) for pair in ends)), n))


@pytest.mark.parametrize("combine", ["vote", "sum"])
@pytest.mark.parametrize("kind", DRAWS)
def test_cells_divide_what_is_in_reach_and_cost_no_more_than_it_does(kind, combine):
    for row in problems(kind, combine, 100):
        cells, values = row.cells, row.moves.values(row.x)
        budget = min(row.moves.budget, len(row.x)) if row.moves.norm == 0 else row.moves.budget  # no more can move
        for v, (first, end) in enumerate(itertools.pairwise(cells.first.tolist())):
            name, home = int(cells.name[v]), cells.home[v]
            assert cells.value[home] == values[name]
            assert cells.price[home] == 0
            for c in range(first, end):
                below = cells.top[c - 1] if c > first else -math.inf
                assert below < cells.value[c] <= cells.top[c]
                exact = row.moves.price_of(name, float(values[name]), float(cells.value[c]))
                assert cells.price[c] * budget <= exact * BUDGET
                assert row.budget or cells.price[c] == 0


@pytest.mark.parametrize("combine", ["vote", "sum"])
@pytest.mark.parametrize("kind", DRAWS)
def test_leaves_are_those_of_the_rows_in_their_cells_and_gain_what_they_do(kind, combine):
    n_reached = 0
    for row in problems(kind, combine, 100):
        verifier, leaves = row.verifier, row.leaves
        y = verifier.predict(row.x)
        for choice in some_choices(row, 60):
            z = row.row(choice)
            if not row.is_affordable(z):
                continue
            allowed = [
                [k for k in range(*ends) if allows(leaves, k, choice)]
                for ends in itertools.pairwise(leaves.first.tolist())
            ]
            assert all(len(of_tree) == 1 for of_tree in allowed)
            chosen = np.array([of_tree[0] for of_tree in allowed])
            entered = {find_leaf(verifier.ensemble.trees, t, z) for t in range(verifier.ensemble.n_trees)}
            assert entered == {*leaves.node[chosen].tolist(), *row.fixed.tolist()}
            for rival in set(range(verifier.ensemble.n_classes)) - {y}:
                goal = Goal(row, y, rival)
                has_enough = goal.problem.gain[chosen].sum() >= goal.problem.need
                wins = verifier.gain_at(z, y, rival) >= (rival > y)  # the first of equals is predicted
                assert has_enough == wins or (has_enough and goal.unit > verifier.gains.unit)  # rounded up, if at all
                assert goal.is_reached(z) == wins or verifier.ensemble.n_classes > 2
                n_reached += has_enough
    assert n_reached > 20


@pytest.mark.parametrize("exponents", [(0, 1), (-30, 30), (-320, -300), (-300, 308)])
def test_gains_are_exact_but_for_the_last_bits_and_rounded_up(exponents):
    """Also where scores have many digits, no digit (one class of a tree), or the largest and smallest exponents."""
    rng = np.random.default_rng(np.abs(exponents))
    for _ in range(100):
        n_trees, n_values, n_classes = rng.integers(1, 6), rng.integers(2, 8), rng.integers(2, 5)
        scores = rng.normal(size=(n_values, n_classes)) * 10.0 ** rng.integers(*exponents, size=(n_values, 1))
        scores[rng.random(scores.shape) < rng.random()] = 0
        leaf = np.column_stack([np.full(n_trees, -1), rng.integers(n_values, size=(n_trees, 2))])
        shape = {"feature": np.tile([0, -1, -1], n_trees), "threshold": np.tile([0.5, 0, 0], n_trees), "n_features": 1}
        base = rng.normal(size=n_classes)
        ensemble = TreeEnsemble(leaf=leaf.ravel(), classes=range(n_classes), scores=scores, base=base, **shape)
        gains, rows = Gains(ensemble), ensemble.leaf[ensemble.feature < 0]
        for y, rival in itertools.permutations(range(n_classes), 2):
            exact = [Fraction(a[rival]) - Fraction(a[y]) for a in (*scores[rows].tolist(), base.tolist())]
            assert gains.total(rows, y, rival) * gains.unit == sum(exact)
            nodes = np.flatnonzero(ensemble.feature < 0)
            found, _, unit = gains.against(nodes, nodes[:0], y, rival)
            assert found.tolist() == [math.ceil(gain / unit) for gain in exact[:-1]]
            assert 2**45 < np.abs(found).max() < 2**51 or not any(exact[:-1])

"""The worst case of training against verdicts: with large spread and norm inf they are the same thing."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier

from certiforest import Attacker, Nodes, TreeEnsemble, Verdict, certify
from certiforest.training.pruning import _as_nodes, prune_forest
from certiforest.training.worst_case import WorstCase
from trainers import stump


def votes_won(X, y, n_classes, attacker, trees, is_held=None):
    case = WorstCase(X, y, n_classes, attacker, is_held=is_held)
    for tree in trees:
        case.add(case.reached(tree), np.eye(n_classes)[tree.leaf])
    return case


@pytest.mark.parametrize(("classes", "n_trees"), [((3, 8), 9), ((3, 8), 8), ((1, 7, 8, 9), 8)])
def test_rows_that_are_won_are_the_robust_ones(classes, n_trees):
    X, y = load_digits(return_X_y=True)
    X, y = X[np.isin(y, classes)] / 16, np.searchsorted(classes, y[np.isin(y, classes)])
    attacker = Attacker(np.inf, 0.02)
    forest = RandomForestClassifier(2 * n_trees, max_depth=3, random_state=0).fit(X, y)
    pruned = prune_forest(
        [_as_nodes(tree.tree_, np.arange(64)) for tree in forest.estimators_],
        n_trees,
        preference=np.zeros(2 * n_trees),
        attacker=attacker,
        value_range=(np.zeros(64), np.ones(64)),
        shift_range=(0.5, 1.0),
        max_iter=100,
        generator=np.random.default_rng(0),
    )
    assert len(pruned.trees) == n_trees
    ensemble = TreeEnsemble.from_trees(pruned.trees, n_features=64, classes=np.arange(len(classes)))
    is_robust = certify(ensemble, X, y, attacker, require_exact=True).verdict == Verdict.ROBUST
    assert 0 < is_robust.mean() < 1
    case = votes_won(X, y, len(classes), attacker, pruned.trees)
    np.testing.assert_array_equal(case.is_won(), is_robust)


GRID = st.integers(-3, 12).map(lambda i: i / 8)


@st.composite
def trees(draw, n_features, n_classes):
    """Draw a tree whose paths may ask for one feature again and again, so that some of its boxes are empty."""
    left, right, feature, threshold, leaf, missing_left = [], [], [], [], [], []

    def grow(depth):
        node = len(left)
        is_leaf = depth == 0 or draw(st.integers(0, 3)) == 0
        left.append(-1), right.append(-1)
        feature.append(-1 if is_leaf else draw(st.integers(0, n_features - 1)))
        threshold.append(0.0 if is_leaf else draw(GRID) + draw(st.sampled_from([0.0, 1e-16, -1e-16])))
        leaf.append(draw(st.integers(0, n_classes - 1)))
        missing_left.append(draw(st.booleans()))
        if missing_left[node] and draw(st.integers(0, 7)) == 0:
            threshold[node] = np.nan  # all numbers go right
        if not is_leaf:
            left[node] = grow(depth - 1)
            right[node] = grow(depth - 1)
        return node

    grow(draw(st.integers(0, 4)))
    return Nodes(left, right, feature, threshold, leaf, missing_left)


@st.composite
def problems(draw):
    """Draw trees on features of their own (large spread for every attacker), rows and an L-inf attacker."""
    n_classes, n_trees = draw(st.integers(2, 3)), draw(st.integers(1, 3))
    forest = []
    for tree in range(n_trees):
        own = draw(trees(2, n_classes))
        forest.append(own._replace(feature=[f if f < 0 else f + 2 * tree for f in own.feature]))
    values = st.one_of(GRID, GRID, st.just(np.nan)) if draw(st.booleans()) else GRID
    X = np.array(draw(st.lists(st.lists(values, min_size=6, max_size=6), min_size=1, max_size=8)))
    y = np.array(draw(st.lists(st.integers(0, n_classes - 1), min_size=len(X), max_size=len(X))))
    scale = draw(st.sampled_from([None, 0.3, [1.0, 0.5, 2.0, 1.0, 1.0, 1.0]]))
    frozen = draw(st.sampled_from([None, [0], [1, 2]]))
    return forest, X, y, n_classes, Attacker(np.inf, draw(st.integers(0, 6)) / 8, scale, frozen)


@settings(max_examples=300, deadline=None)
@given(problems())
@example(([stump(0, 0.5)], np.full((1, 6), 0.25), np.zeros(1, int), 2, Attacker(np.inf, 0.25)))
def test_every_count_of_robust_rows_is_that_of_certify(problem):
    forest, X, y, n_classes, attacker = problem
    ensemble = TreeEnsemble.from_trees(forest, n_features=6, classes=np.arange(n_classes))
    is_robust = certify(ensemble, X, y, attacker, require_exact=True).verdict == Verdict.ROBUST
    np.testing.assert_array_equal(votes_won(X, y, n_classes, attacker, forest).is_won(), is_robust)
    found = certify(ensemble, X, y, attacker, require_exact=True, attacked=[1])
    case = votes_won(X, y, n_classes, attacker, forest, np.arange(n_classes) != 1)
    np.testing.assert_array_equal(case.is_won(), found.verdict == Verdict.ROBUST)


@settings(max_examples=150, deadline=None)
@given(problems(), st.sampled_from([0, 1, 2]), st.integers(1, 3))
def test_with_one_budget_for_all_trees_no_row_is_won_that_is_not_robust(problem, norm, eps):
    forest, X, y, n_classes, box = problem
    attacker = Attacker(norm, eps if norm == 0 else eps / 3, box.scale, box.frozen)
    ensemble = TreeEnsemble.from_trees(forest, n_features=6, classes=np.arange(n_classes))
    is_robust = certify(ensemble, X, y, attacker, require_exact=True).verdict == Verdict.ROBUST
    case = WorstCase(X, y, n_classes, attacker, charges=np.array([0.0, 0.4, 1.1, 2.2]))
    held = WorstCase(X, y, n_classes, attacker, charges=np.array([0.4, 1.1]), is_held=np.ones(n_classes, bool))
    for tree in forest:
        case.add(case.reached(tree), np.eye(n_classes)[tree.leaf])
        held.add(held.reached(tree), np.eye(n_classes)[tree.leaf])
    assert not (case.is_won() & ~is_robust).any()
    np.testing.assert_array_equal(held.is_won(), ensemble.predict(X) == y)


def test_a_price_tells_what_the_budget_can_buy():
    # Three stumps on features of their own, each 0.4 away: a budget of 1 in norm 1 turns two of them.
    X, forest, attacker = np.full((1, 3), 0.1), [stump(f, 0.5) for f in range(3)], Attacker(1, 1.0)
    case = WorstCase(X, np.zeros(1, int), 2, attacker, charges=np.array([0.0, 5.0]))
    for tree in forest:
        case.add(case.reached(tree), np.eye(2)[tree.leaf])
    # At price 5 turning a stump gains 2 and costs 5 * 0.4: no tree turns, and the budget is charged.
    assert case.margin()[0].tolist() == [0.0, -2.0]
    assert case.margin_and_price()[1][0, 1] == 5.0


def test_trees_can_be_taken_away_again():
    X, y = np.array([[0.1], [0.45], [0.55], [0.9], [0.95]]), np.array([0, 0, 1, 1, 0])
    case = votes_won(X, y, 2, Attacker("inf", 0.1), [stump(0, 0.5)])
    assert case.is_won().tolist() == [True, False, False, True, False]
    assert case.margin()[[0, 1, 3, 4], [1, 1, 0, 1]].tolist() == [1, -1, 1, -1]
    other = case.copy()
    other.add(other.reached(stump(0, 0.5)), np.eye(2)[[0, 0, 1]], -1.0)
    assert not other.margin().any()
    assert case.margin().any()

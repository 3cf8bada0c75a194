"""Votes in the worst case against verdicts: with large spread and norm inf they are the same thing."""

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier

from certiforest import Attacker, Nodes, TreeEnsemble, Verdict, certify
from certiforest.training.pruning import _as_nodes, prune_forest
from certiforest.training.worst_votes import WorstVotes


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
    weight = np.random.default_rng(0).integers(1, 5, len(X)).astype(float)
    votes = WorstVotes(X, y, len(classes), weight, attacker)
    ensemble = TreeEnsemble.from_trees(pruned.trees, n_features=64, classes=np.arange(len(classes)))
    is_robust = certify(ensemble, X, y, attacker, require_exact=True).verdict == Verdict.ROBUST
    assert 0 < is_robust.mean() < 1
    assert votes.weigh_won(votes.leads(pruned.trees)) == weight[is_robust].sum()

    halves = votes.leads(pruned.trees[:3]) + votes.leads(pruned.trees[3:])
    assert votes.weigh_won(halves) == weight[is_robust].sum()


def test_share_of_rows_on_which_a_tree_is_robust():
    X, y = np.array([[0.1], [0.45], [0.55], [0.9], [0.95]]), np.array([0, 0, 1, 1, 0])
    stump = Nodes([1, -1, -1], [2, -1, -1], [0, -1, -1], [0.5, 0.0, 0.0], [-1, 0, 1])
    votes = WorstVotes(X, y, 2, np.array([1.0, 1.0, 1.0, 2.0, 3.0]), Attacker("inf", 0.1))
    assert votes.robust_shares([stump, stump]).tolist() == [3 / 8, 3 / 8]
    assert votes.leads([stump])[[0, 1, 3, 4], [1, 1, 0, 1]].tolist() == [1, -1, 1, -1]

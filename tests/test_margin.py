"""Worst-case votes of training rows, against the verifier's own verdicts."""

import numpy as np
import pytest

from certiforest import Attacker, TreeEnsemble, Verdict, certify
from certiforest.training.grower import GrownTrees
from certiforest.training.margin import Margins
from certiforest.training.worst_case import WorstCase

# Two stumps on two features: x0 <= 0.5 and x1 <= 0.5, left says 0, right says 1.
STUMPS = GrownTrees(
    tree=np.array([0, 1, 0, 0, 1, 1], np.int32),
    feature=np.array([0, 1, -1, -1, -1, -1], np.int32),
    threshold=np.array([0.5, 0.5, 0, 0, 0, 0]),
    missing_left=np.zeros(6, bool),
    left=np.array([2, 4, -1, -1, -1, -1]),
    right=np.array([3, 5, -1, -1, -1, -1]),
    leaf=np.array([0, 0, 0, 1, 0, 1]),
    is_starved=np.zeros(6, bool),
    n_rows=np.ones(6, np.int64),
    gain=np.ones(6),
)
X = np.array([[0.1, 0.1], [0.45, 0.1], [0.45, 0.55], [0.9, 0.9]])


def margins(y, n_classes=2):
    found = Margins(WorstCase(X, np.array(y), n_classes, Attacker(np.inf, 0.1)), n_classes)
    found.add(STUMPS)
    return found


def test_a_tree_in_reach_of_two_leaves_votes_against_the_row():
    found = margins([0, 0, 0, 1])
    # 2 sure votes; 1 sure and 1 lost; both lost; 2 sure
    assert found.weights(2.0) == pytest.approx(1 / np.cosh([2, 0, -2, 2]) ** 2, abs=2**-20)


def test_the_strongest_rival_counts():
    found = margins([2, 2, 0, 1], n_classes=3)
    assert found.weights(2.0) == pytest.approx(1 / np.cosh([-2, -2, -2, 2]) ** 2, abs=2**-20)


def test_rows_of_positive_margin_are_robust_and_those_of_zero_if_they_win_ties():
    ensemble = TreeEnsemble.from_trees([STUMPS.nodes(0), STUMPS.nodes(1)], n_features=2, classes=[0, 1])
    verdict = certify(ensemble, X, [0, 0, 0, 1], Attacker(np.inf, 0.1)).verdict
    assert verdict.tolist() == [Verdict.ROBUST, Verdict.ROBUST, Verdict.FRAGILE, Verdict.ROBUST]


def test_leaves_are_relabelled_for_the_rows_that_reach_them():
    wrong = STUMPS._replace(leaf=np.array([0, 0, 1, 1, 0, 1]))  # the first stump always says 1
    found = Margins(WorstCase(X[[0, 1, 3]], np.array([0, 0, 1]), 2, Attacker(np.inf, 0.0)), 2)
    found.add(wrong)
    found.relabel(wrong, np.ones(3), 1.0, n_sweeps=1)
    assert wrong.leaf.tolist() == STUMPS.leaf.tolist()

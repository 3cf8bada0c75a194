"""LargeSpreadAdditiveClassifier: conventions, exact worst cases, and attackers with one budget for all features."""

import warnings
from functools import partial

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.preprocessing import minmax_scale

from certiforest import Attacker, LargeSpreadAdditiveClassifier, Verdict, certify, has_large_spread
from certiforest.training.additive import balanced_tree, cut_features
from certiforest.training.additive_kernels import Batch, sum_slopes, worst_cell
from certiforest.training.estimator import ConstantWarning

small = partial(LargeSpreadAdditiveClassifier, max_cells=8, random_state=0)


@pytest.mark.parametrize(("norm", "eps"), [(0, 2), (1, 0.2), (2, 0.1), (3, 0.1), (np.inf, 0.05)])
def test_it_withstands_the_attacker_it_was_trained_for(cancer, norm, eps):
    X, y = cancer
    clf = small(norm=norm, eps=eps).fit(X[::2], y[::2])
    assert has_large_spread(clf.ensemble_, clf.attacker_)
    found = certify(clf, X[1::2], y[1::2], clf.attacker_, require_exact=True)
    assert found.robust_accuracy > 0.75  # the larger class has 0.63
    assert clf.train_loss_[-1] < clf.train_loss_[0]


@pytest.mark.parametrize(("norm", "eps"), [(0, 2), (1, 0.4), (2, 0.3), (np.inf, 0.1)])
def test_a_positive_margin_is_a_proof(cancer, norm, eps):
    X, y = cancer
    attacker = Attacker(norm, eps)
    clf = small(norm=norm, eps=eps, n_epochs=5).fit(X, y)
    robust = certify(clf, X, y, attacker, require_exact=True).verdict == Verdict.ROBUST
    cells = cut_features(X, attacker, 8, np.zeros(2, bool))
    values = np.zeros((30, 8))
    for f in range(30):
        middle = np.concatenate([cells.threshold[f, : cells.n_cells[f] - 1], [X[:, f].max()]])
        rows = np.zeros((len(middle), 30))
        rows[:, f] = middle
        values[f, : len(middle)] = clf.decision_function(rows) - clf.decision_function(np.zeros((1, 30)))
    start = clf.decision_function(np.zeros((1, 30)))[0]
    own = np.array([np.searchsorted(cells.threshold[f, : cells.n_cells[f] - 1], X[:, f]) for f in range(30)]).T
    for i in range(0, len(X), 5):
        sign = 1 if y[i] == 1 else -1
        charges = [0.0] if norm == np.inf else [0.3, 1.0, 2.0, 4.0]
        bounds = []
        for charge in charges:
            price = charge / (cells.budget or 1.0)
            lead = sign * values
            floor = np.array([lead[f, : cells.n_cells[f]].min() for f in range(30)])
            least = [worst_cell(cells, f, X[i, f], own[i, f], lead, floor, price)[1] for f in range(30)]
            bounds.append(sign * start + sum(least) - charge)
        assert robust[i] or max(bounds) <= 1e-9
        if norm == np.inf:  # no budget to share: the bound is the verdict
            assert robust[i] == (bounds[0] > -1e-9)


def test_slopes_are_those_of_the_loss(cancer):
    X, y = cancer
    attacker = Attacker(2, 0.3)
    cells = cut_features(X, attacker, 4, np.zeros(2, bool))
    own = np.array([np.searchsorted(cells.threshold[f, : cells.n_cells[f] - 1], X[:, f]) for f in range(30)]).T
    rng = np.random.default_rng(0)
    value, base, price = rng.normal(0, 0.1, (30, 5, 2)), np.zeros(2), np.full((len(X), 2), 20.0)

    def loss(values):
        slope = np.zeros_like(values)
        batch = Batch(X, own.astype(np.uint8), y.astype(np.int64), np.ones(len(X)), price.copy())
        return sum_slopes(cells, batch, values, base, 0.1, slope, np.zeros(2)), slope

    _, slope = loss(value)
    for place in [(0, 1, 0), (7, 2, 1), (20, 0, 1)]:
        moved = [value.copy(), value.copy()]
        moved[0][place] += 1e-6
        moved[1][place] -= 1e-6
        assert slope[place] == pytest.approx((loss(moved[0])[0] - loss(moved[1])[0]) / 2e-6, abs=1e-3)


@pytest.mark.parametrize("n_thresholds", [0, 1, 2, 7, 12])
@pytest.mark.parametrize("has_missing", [False, True])
def test_a_balanced_tree_tells_the_cell(n_thresholds, has_missing):
    thresholds = np.arange(n_thresholds) + 0.5
    tree = balanced_tree(3, thresholds, has_missing)
    for cell, x in enumerate([*range(n_thresholds + 1), np.nan][: n_thresholds + 1 + has_missing]):
        node = 0
        while tree.left[node] >= 0:
            is_left = x <= tree.threshold[node] or (np.isnan(x) and tree.missing_left[node])
            node = tree.left[node] if is_left else tree.right[node]
        assert tree.leaf[node] == cell


def test_frozen_features_and_scale_count(cancer):
    X, y = cancer
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConstantWarning)
        clf = small(norm=1, eps=5.0, frozen=[0]).fit(X, y)
        scaled = small(norm=1, eps=5.0, scale=1e-3).fit(X, y)
    free = small(norm=1, eps=0.005).fit(X, y)
    assert certify(clf, X, y, clf.attacker_).robust_accuracy > 0.8  # feature 0 alone tells much
    np.testing.assert_array_equal(scaled.predict(X), free.predict(X))


def test_many_classes_and_the_same_seed():
    X, y = load_iris(return_X_y=True)
    X = minmax_scale(X)
    clf = small(norm=2, eps=0.1, n_epochs=60, batch_size=16).fit(X, y.astype(str))
    assert certify(clf, X, y.astype(str), clf.attacker_).robust_accuracy > 0.75
    assert clf.predict_proba(X).shape == (150, 3)
    again = small(norm=2, eps=0.1, n_epochs=60, batch_size=16).fit(X, y.astype(str))
    assert again.ensemble_ == clf.ensemble_

"""LargeSpreadBoostingClassifier: conventions, large spread, and a worst case that is the true one."""

import itertools
from functools import partial

import numpy as np
import pytest
from sklearn.datasets import load_digits, load_iris
from sklearn.metrics import log_loss
from sklearn.preprocessing import minmax_scale

from certiforest import (
    Attacker,
    LargeSpreadBoostingClassifier,
    LargeSpreadForestClassifier,
    certify,
)
from certiforest.training.boosted_trees import boost_trees
from certiforest.training.worst_case import WorstCase, WorstLoss
from trainers import training_set


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    return minmax_scale(X), y


small = partial(LargeSpreadBoostingClassifier, n_estimators=9, max_depth=3, eps=0.02, random_state=0)


def worst_margins(ensemble, X, y, eps):
    """Return the least lead of each row's class over each rival, by trying a point of every cell in reach."""
    n_classes = len(ensemble.classes)
    margins = np.full((len(X), n_classes), np.inf)
    for i, row in enumerate(X):
        choices = []
        for f in range(ensemble.n_features):
            cuts = np.unique(ensemble.threshold[ensemble.feature == f])
            places = np.unique(np.concatenate([[row[f]], cuts, np.nextafter(cuts, np.inf)]))
            choices.append(places[np.abs(places - row[f]) <= eps])
        points = np.array(list(itertools.product(*choices)))
        sums = ensemble.decision_function(points)
        if sums.ndim == 1:
            sums = np.column_stack([np.zeros(len(sums)), sums])
        margins[i] = (sums[:, [y[i]]] - sums).min(axis=0)
    return margins


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("kind", [False, True])
@pytest.mark.parametrize("n_refits", [0, 2])
def test_the_worst_case_is_that_of_brute_force(n_classes, kind, n_refits):
    rng = np.random.default_rng(n_classes)
    X = rng.random((40, 3))
    y = (X[:, 0] * n_classes).astype(int)
    eps = 0.06
    rows = training_set(X, y, Attacker(np.inf, eps))
    boosted = boost_trees(
        rows, n_estimators=6, max_depth=3, learning_rate=0.5,
        kind=kind, max_features=1.0, min_samples_leaf=1, l2=0.5, thrift=0.5, min_gain=0.0,
        n_steps=5, n_refits=n_refits, random_state=0,
    )  # fmt: skip
    assert len(boosted.trees) > 1
    worst_case = WorstCase(X, y, n_classes, Attacker(np.inf, eps), boosted.base)
    loss = WorstLoss(worst_case, np.ones(40), kind)
    for tree, value in zip(boosted.trees, boosted.values, strict=True):
        worst_case.add(worst_case.reached(tree.nodes), value)
    ensemble = boosted.ensemble(rows)
    np.testing.assert_array_equal(worst_case.margin(), worst_margins(ensemble, X, y, eps))
    assert loss.mean() == pytest.approx(boosted.train_loss[-1], rel=1e-12)
    margins = worst_case.margin()[np.arange(n_classes) != y[:, None]].reshape(40, -1)
    losses = np.exp(-margins).sum(axis=1)
    assert loss.mean() == pytest.approx(np.mean(losses if kind else np.log1p(losses)))


def test_certify_agrees_with_brute_force(iris):
    X, y = iris
    clf = small(eps=0.06).fit(X, y)
    found = certify(clf, X, y, clf.attacker_)
    margin = worst_margins(clf.ensemble_, X, y, 0.06)
    rank = np.arange(3)
    is_robust = ((margin > 0) | ((margin == 0) & (rank >= y[:, None]))).all(axis=1)
    assert found.robust_accuracy == is_robust.mean()
    assert found.accuracy == clf.score(X, y)


def test_fitted_values_are_the_best_of_their_neighbourhood(cancer):
    X, y = cancer
    rows = training_set(X, y, Attacker(np.inf, 0.05))
    options = dict(max_depth=2, learning_rate=1.0, kind=False, max_features=1.0, min_samples_leaf=5)
    boosted = boost_trees(
        rows, n_estimators=1, l2=1.0, thrift=0.0, min_gain=0.0, n_steps=60, n_refits=0,
        random_state=0, **options,
    )  # fmt: skip
    tree, value = boosted.trees[0].nodes, boosted.values[0]

    def loss(values):
        worst_case = WorstCase(X, y, 2, Attacker(np.inf, 0.05), boosted.base)
        worst_case.add(worst_case.reached(tree), values)
        return WorstLoss(worst_case, rows.weight, False).mean() * len(X) + 0.5 * (values**2).sum()

    fitted = loss(value)
    for leaf in np.flatnonzero(tree.left < 0):
        for change in (-0.05, 0.05):
            moved = value.copy()
            moved[leaf] += [-change, change]
            assert loss(moved) > fitted - 1e-3 * fitted


def test_the_robust_curve_falls_and_stages_end_in_the_whole(cancer):
    X, y = cancer
    clf = small().fit(X, y)
    assert len(clf.train_loss_) == 1 + clf.n_estimators_
    assert (np.diff(clf.train_loss_) < 0).all()
    assert clf.validation_loss_.size == 0
    *_, sums = clf.staged_decision_function(X)
    np.testing.assert_array_equal(sums, clf.decision_function(X))
    stages = list(clf.staged_predict(X))
    assert len(stages) == clf.n_estimators_
    np.testing.assert_array_equal(stages[-1], clf.predict(X))


@pytest.mark.parametrize("loss", ["log_loss", "exponential"])
def test_probabilities_follow_the_loss(cancer, iris, loss):
    for X, y in (cancer, iris):
        clf = small(loss=loss, eps=1e-3, n_estimators=20).fit(X, y)
        probability = clf.predict_proba(X)
        np.testing.assert_allclose(probability.sum(axis=1), 1)
        np.testing.assert_array_equal(clf.classes_[probability.argmax(axis=1)], clf.predict(X))
        assert log_loss(y, probability) < 0.15


def test_early_stopping_keeps_the_best_stage(cancer):
    X, y = cancer
    clf = small(n_estimators=60, eps=0.005, n_iter_no_change=3, learning_rate=1.0).fit(X, y)
    assert clf.n_estimators_ < 60
    assert clf.n_estimators_ == clf.validation_loss_.argmin()
    assert len(clf.validation_loss_) == len(clf.train_loss_)


def test_training_stops_when_thresholds_run_out():
    # At eps 0.3 one feature in [0, 1] has room for two trees at most.
    y = np.arange(200) % 2
    X = np.where(y == 1, 0.9, 0.1)[:, None] + 0.1 * np.random.default_rng(0).random((200, 1))
    clf = small(eps=0.3, n_estimators=50, n_refits=3).fit(X, y)
    assert clf.n_estimators_ <= 2
    assert len(clf.train_loss_) == 1 + clf.n_estimators_ + 3
    assert (np.diff(clf.train_loss_) < 0).all()


def test_when_the_attacker_leaves_nothing_the_majority_is_predicted():
    X = np.linspace(0, 1, 30)[:, None]
    y = np.repeat(["no", "yes"], [20, 10])
    clf = small(eps=5.0).fit(X, y)
    assert set(clf.predict(X)) == {"no"}
    assert clf.train_loss_.size == 1
    assert clf.feature_importances_.sum() == 0


def test_weights_count_as_repeated_rows(cancer):
    X, y = cancer
    X = np.round(X, 2)  # one bin per value: bins of equal shares of the rows would not be the same
    weight = np.random.default_rng(0).integers(0, 3, len(y))
    weighted = small().fit(X, y, weight)
    repeated = small().fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    np.testing.assert_allclose(weighted.decision_function(X), repeated.decision_function(X), atol=1e-6)


def test_the_automatic_rate_follows_the_share_that_a_threshold_closes(cancer):
    for eps, rate in ((0.001, 0.1), (0.05, 0.2), (0.1, 0.4), (0.3, 0.4)):
        assert small(eps=eps, n_estimators=1).fit(*cancer).learning_rate_ == pytest.approx(rate)


def test_importance_is_of_features_that_are_used(cancer):
    clf = small().fit(*cancer)
    assert clf.feature_importances_.sum() == pytest.approx(1)
    used = np.unique(clf.ensemble_.feature[clf.ensemble_.feature >= 0])
    np.testing.assert_array_equal(np.flatnonzero(clf.feature_importances_), used)


def test_automatic_depth_is_larger_where_a_threshold_closes_a_feature(cancer):
    X, y = cancer  # 569 rows: log2 is 9.2
    assert depth_of(small(max_depth="auto", eps=0.3, min_gain=0.0).fit(X, y).ensemble_) == 7
    assert depth_of(small(max_depth="auto", eps=0.02).fit(X, y).ensemble_) == 4


def depth_of(ensemble):
    """Return the largest number of splits on a path; trees stand in preorder."""
    deepest, waiting = 0, []
    for tree in range(ensemble.n_trees):
        waiting = [0]
        for node in range(ensemble.tree_start[tree], ensemble.tree_start[tree + 1]):
            depth = waiting.pop()
            deepest = max(deepest, depth)
            if ensemble.feature[node] >= 0:
                waiting += [depth + 1, depth + 1]
    return deepest


def test_thresholds_stand_where_fewest_rows_are_near():
    # Values 0, 1, ..., 9, reach 1.7, the classes part between 4 and 5. In the middle of the gap, at 4.5, four values
    # are near and could be moved across; in either outer part of it only three.
    X = np.repeat(np.arange(10.0), 20)[:, None]
    clf = small(n_estimators=1, max_depth=1, eps=1.7, max_features=None).fit(X, X[:, 0] > 4)
    threshold = clf.ensemble_.threshold[0]
    assert np.sum(np.abs(X[:, 0] - threshold) <= 1.7) == 3 * 20


def test_automatic_choice_of_features_leaves_no_small_table_wanting(iris):
    X, y = iris  # four features, far fewer than are always looked at
    X = np.column_stack([X, np.zeros((len(X), 3))])
    for seed in range(3):
        trees = small(max_features="auto", random_state=seed).fit(X, y).ensemble_
        assert trees == small(max_features=None, random_state=seed).fit(X, y).ensemble_
        assert trees != small(max_features=0.2, random_state=seed).fit(X, y).ensemble_


@pytest.mark.parametrize("trainer", [LargeSpreadBoostingClassifier, LargeSpreadForestClassifier])
@pytest.mark.parametrize(("norm", "eps"), [(1, 0.7), (2, 0.3)])
def test_a_budget_for_all_features_leaves_more_than_one_class(trainer, norm, eps):
    X, y = load_digits(return_X_y=True)
    X, y = X[np.isin(y, (3, 6))] / 16, y[np.isin(y, (3, 6))]
    model = trainer(40, max_depth=2, norm=norm, eps=eps, random_state=0).fit(X[::2], y[::2])
    found = certify(model, X[1::2], y[1::2], model.attacker_, require_exact=True)
    assert found.robust_accuracy > 0.6  # one class: 0.5

"""RobustBoostingClassifier: conventions, exact verdicts without large spread, and what sharing thresholds gains."""

from functools import partial

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.preprocessing import minmax_scale

from certiforest import (
    Attacker,
    LargeSpreadBoostingClassifier,
    RobustBoostingClassifier,
    Verdict,
    certify,
    has_large_spread,
)
from certiforest.training.boosted_trees import boost_trees
from certiforest.training.worst_case import WorstCase, WorstLoss
from trainers import add_trees, stump, training_set

small = partial(RobustBoostingClassifier, n_estimators=12, max_depth=5, learning_rate=0.3, eps=0.02, random_state=0)


def test_trees_share_thresholds_and_every_row_is_decided(cancer):
    X, y = cancer
    clf = small().fit(X[::2], y[::2])
    assert not has_large_spread(clf.ensemble_, clf.attacker_)
    found = certify(clf, X[1::2], y[1::2], clf.attacker_)
    assert (found.stable >= 0).all()
    assert found.robust_accuracy > 0.85
    assert clf.train_loss_[-1] < 0.5 * clf.train_loss_[0]


def test_what_is_trained_is_a_bound_of_what_is_certified(cancer):
    X, y = cancer
    clf = small().fit(X, y)
    ensemble = clf.ensemble_
    robust = certify(clf, X, y, clf.attacker_).verdict == Verdict.ROBUST
    case = WorstCase(X, y, 2, clf.attacker_, np.array([0.0, ensemble.base[0]]))
    add_trees(case, ensemble)
    assert not (case.is_won() & ~robust).any()
    assert case.is_won().mean() > 0.8


def test_where_features_are_few_sharing_them_gains_much():
    rng = np.random.default_rng(0)
    X = rng.random((3000, 3))
    y = (np.sin(9 * X[:, 0]) + np.cos(7 * X[:, 1]) * X[:, 2] > 0.3).astype(int)
    attacker = Attacker(np.inf, 0.02)
    figures = [
        certify(model.fit(X[:2000], y[:2000]), X[2000:], y[2000:], attacker)
        for model in (
            RobustBoostingClassifier(40, eps=0.02, learning_rate=0.2, random_state=0),
            LargeSpreadBoostingClassifier(40, eps=0.02, random_state=0),
        )
    ]
    assert figures[0].accuracy > figures[1].accuracy + 0.02
    assert figures[0].robust_accuracy > figures[1].robust_accuracy


def test_each_of_many_classes_has_trees_of_its_own():
    X, y = load_iris(return_X_y=True)
    X = minmax_scale(X)
    clf = small(min_samples_leaf=2).fit(X, y)
    ensemble = clf.ensemble_
    assert clf.n_estimators_ == ensemble.n_trees == 3 * clf.n_estimators
    for tree in range(ensemble.n_trees):
        leaf = ensemble.leaf[ensemble.tree_start[tree] : ensemble.tree_start[tree + 1]]
        assert not ensemble.scores[leaf[leaf >= 0]][:, np.arange(3) != tree % 3].any()
    assert len(clf.train_loss_) == clf.n_estimators + 1
    assert (np.diff(clf.train_loss_) < 0).all()
    assert certify(clf, X, y, clf.attacker_).robust_accuracy > 0.85


def test_early_stopping_drops_whole_rounds():
    X, y = load_iris(return_X_y=True)
    clf = small(n_estimators=60, n_iter_no_change=3, eps=0.1, validation_fraction=0.3).fit(minmax_scale(X), y)
    assert clf.n_estimators_ == 3 * np.argmin(clf.validation_loss_) < 3 * 60


@pytest.mark.parametrize("kind", [False, True])
def test_one_class_against_the_rest_has_the_loss_of_all_classes(kind):
    rng = np.random.default_rng(0)
    X, y = rng.random((40, 2)), rng.integers(4, size=40).astype(np.uint8)
    base, weight = rng.normal(size=4), rng.random(40)
    attacker = Attacker(np.inf, 0.1)
    tree = stump(0, 0.5)
    for one in range(4):
        changes = []
        for scale in (0.0, 1.0):
            case = WorstCase(X, y, 4, attacker, base)
            loss = WorstLoss(case, weight, kind)
            two = loss.against_rest(one)
            value = scale * np.array([[0.0], [-0.7], [0.4]])
            case.add(case.reached(tree), value * (np.arange(4) == one))
            two.case.add(two.case.reached(tree), value * [0.0, 1.0])
            changes.append((loss.mean(), two.mean()))
        before, after = np.array(changes)
        assert abs((after - before)[0]) > 1e-3
        assert (after - before)[0] == pytest.approx((after - before)[1])


@pytest.mark.parametrize("kind", [False, True])
def test_what_is_lowered_lies_above_the_forgiving_loss_and_touches_it(kind):
    rng = np.random.default_rng(0)
    X, y, weight = rng.random((40, 2)), rng.integers(3, size=40).astype(np.uint8), rng.random(40)
    case = WorstCase(X, y, 3, Attacker(np.inf, 0.1), np.array([0.5, 0.0, -0.5]))
    forgiving = WorstLoss(case, weight, kind, 1.0)
    above = forgiving.forgiving()
    before, before_above = forgiving.mean(), above.mean() * above._weight.sum() / weight.sum()
    assert before < min(1.0, WorstLoss(case, weight, kind).mean())
    tree = stump(0, 0.5)
    value, changes = rng.normal(size=(3, 3)), []
    for step in (1e-3, 1.0, 3.0):
        reached = case.reached(tree)
        case.add(reached, step * value)
        changes.append((forgiving.mean() - before, above.mean() * above._weight.sum() / weight.sum() - before_above))
        case.add(reached, step * value, -1.0)
    near, *far = changes
    assert near[0] == pytest.approx(near[1], abs=5e-6)
    assert all(change < change_above for change, change_above in far)


def test_forgiveness_gives_wrong_labels_less_say():
    X = np.random.default_rng(0).random((400, 1))
    y = (X[:, 0] > 0.5).astype(int)
    wrong = np.where(np.arange(400) % 10 == 0, 1 - y, y)
    plain, forgiving = (small(eps=0.02, forgiveness=q).fit(X, wrong) for q in (0.0, 1.0))
    sums = [np.abs(clf.decision_function(X)).mean() for clf in (plain, forgiving)]
    assert sums[1] > sums[0]
    assert (np.diff(forgiving.train_loss_) <= 1e-12).all()


def test_bags_are_models_of_their_own_and_are_averaged():
    X, y = load_iris(return_X_y=True)
    X, drawn, seen = minmax_scale(X), np.random.RandomState(3), []
    rows = training_set(X, y, Attacker(np.inf, 0.02))
    alone = [
        boost_trees(
            rows, has_spread=False, n_estimators=4, max_depth=5, learning_rate=0.3, kind=False,
            max_features="auto", min_samples_leaf=5, keeps_both=True, l2="auto", random_state=drawn,
        )
        for _ in range(3)
    ]  # fmt: skip
    clf = small(n_estimators=4, n_bags=3, random_state=3, callback=lambda *rounds: seen.append(rounds)).fit(X, y)
    models = [bag.ensemble(rows) for bag in alone]
    assert len({model.sha256 for model in models}) == 3
    mean = np.mean([model.decision_function(X) for model in models], axis=0)
    assert clf.decision_function(X) == pytest.approx(mean, abs=1e-7)
    assert clf.n_estimators_ == sum(model.n_trees for model in models)
    assert clf.train_loss_.tolist() == [loss for bag in alone for loss in bag.train_loss]
    assert seen == [(n_rounds, 12) for n_rounds in range(1, 13)]
    *_, last = clf.staged_decision_function(X)
    assert (last == clf.decision_function(X)).all()
    assert certify(clf, X, y, clf.attacker_).robust_accuracy > 0.85


def test_rows_near_a_threshold_grow_both_sides_of_it_in_bags(cancer):
    X, y = cancer
    one, bags = (small(n_estimators=1, eps=0.1, n_bags=n_bags).fit(X, y) for n_bags in (1, 2))
    first = bags.ensemble_.tree_start[1]
    assert bags.ensemble_.threshold[0] == one.ensemble_.threshold[0]  # scored alike
    assert first > one.ensemble_.n_nodes


def test_trees_can_grow_on_some_of_the_rows(cancer):
    X, y = cancer
    clf = small(max_samples=0.3).fit(X[::2], y[::2])
    assert certify(clf, X[1::2], y[1::2], clf.attacker_).robust_accuracy > 0.85
    assert not np.array_equal(clf.train_loss_, small().fit(X[::2], y[::2]).train_loss_)


def test_nodes_with_few_rows_are_not_split(cancer):
    X, y = cancer
    n_splits = [
        (small(n_estimators=1, min_samples_split=n).fit(X, y).ensemble_.feature >= 0).sum() for n in (2, 200, len(X))
    ]
    assert n_splits[0] > n_splits[1] > n_splits[2] == 1

"""Grown forests: large spread always, worst-case splits, the same for any number of threads."""

import numpy as np
import pytest

from certiforest import (
    Attacker,
    LargeSpreadBoostingClassifier,
    LargeSpreadForestClassifier,
    RobustBoostingClassifier,
    TreeEnsemble,
    Verdict,
    certify,
)
from certiforest.training import binning
from certiforest.training.binning import Bins
from certiforest.training.estimator import ConstantWarning
from certiforest.training.grower import Frontier, GrowthData, Splits, gini_rule
from certiforest.training.growing import GrowthWarning, Margins, _deal_features, grow_forest
from certiforest.training.split_kernels import search_gini
from certiforest.training.worst_case import WorstCase
from trainers import stump, training_set


def grow(X, y, n_classes, sample_weight, attacker, **params):
    rows = training_set(X, y, attacker, sample_weight, n_classes)
    return grow_forest(rows, **{"max_features": X.shape[1], **params})


def blobs(n_rows=300, n_features=6, n_classes=3, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(n_classes, size=n_rows)
    centre = rng.random((n_classes, n_features))
    return np.clip(centre[y] + rng.normal(0, 0.15, (n_rows, n_features)), 0, 1), y


def test_without_an_attacker_it_learns_as_a_forest_does():
    X, y = blobs(n_rows=600, seed=1)
    ensemble = grow(X[:400], y[:400], 3, None, Attacker(np.inf, 0), n_estimators=30, max_depth=6, random_state=0)
    assert (ensemble.predict(X[400:]) == y[400:]).mean() > 0.9


def test_the_split_is_placed_where_the_attacker_reaches_fewest_rows():
    # Feature 0 parts the classes by a hair's breadth, feature 1 nearly as well and with a wide gap.
    rng = np.random.default_rng(0)
    y = np.arange(200) % 2
    near = np.where(y == 1, 0.501, 0.499) + 0.0005 * rng.random(200)
    wide = np.where(y == 1, 0.9, 0.1) + 0.01 * rng.random(200)
    wide[:4] = 1 - wide[:4]
    X = np.column_stack([near, wide])
    for eps, feature in ((0, 0), (0.1, 1)):
        stump = grow(X, y, 2, None, Attacker(np.inf, eps), n_estimators=1, max_depth=1, bootstrap=False, random_state=0)
        assert stump.feature[0] == feature
    assert stump.threshold[0] == pytest.approx(0.5, abs=0.01)


def test_trees_share_a_gap():
    # One feature, one gap [0, 1): at eps 0.1 three trees fit, more than 0.2 apart and out of all rows' reach.
    X = np.repeat([[0.0], [1.0]], 50, axis=0)
    y = np.repeat([0, 1], 50)
    ensemble = grow(X, y, 2, None, Attacker(np.inf, 0.1), n_estimators=3, max_depth=1, bootstrap=False, random_state=0)
    assert np.count_nonzero(ensemble.feature == 0) == 3
    assert (ensemble.predict(X) == y).all()


def test_sample_weights_count_as_repeated_rows():
    X, y = blobs(200, seed=3)
    weight = np.random.default_rng(0).integers(1, 4, 200)
    options = {"n_estimators": 7, "max_depth": 4, "random_state": 0}
    attacker = Attacker(np.inf, 0.01)
    weighted = grow(X, y, 3, weight.astype(float), attacker, **options)
    repeated = grow(np.repeat(X, weight, axis=0), np.repeat(y, weight), 3, None, attacker, **options)
    assert weighted == repeated


def test_rows_without_weight_play_no_role():
    X, y = blobs(100, seed=4)
    labels = np.concatenate([y, 2 - y])
    weight = np.repeat([1.0, 0.0], 100)
    options = {"n_estimators": 5, "max_depth": 3, "bootstrap": False, "random_state": 0}
    attacker = Attacker(np.inf, 0.01)
    weighted = grow(np.tile(X, (2, 1)), labels, 3, weight, attacker, **options)
    assert weighted == grow(X, y, 3, None, attacker, **options)


def test_the_result_does_not_depend_on_threads():
    X, y = blobs(500, 30, seed=2)
    attacker = Attacker(np.inf, 0.03)
    options = {"n_estimators": 40, "max_depth": 5}
    forests = [grow(X, y, 3, None, attacker, **options, random_state=7, n_jobs=n_jobs) for n_jobs in (1, 2, 3)]
    assert forests[0] == forests[1] == forests[2]
    assert grow(X, y, 3, None, attacker, **options, random_state=8) != forests[0]


def mostly_zero(n_rows=600, n_features=40, seed=9):
    rng = np.random.default_rng(seed)
    X = np.where(rng.random((n_rows, n_features)) < 0.15, np.round(rng.random((n_rows, n_features)), 2), 0.0)
    y = (X[:, :6].sum(axis=1) > 0.4).astype(int) + (X[:, 6:12].sum(axis=1) > 0.4)
    X[rng.random(X.shape) < 0.03] = np.nan
    return X, y


@pytest.mark.parametrize(
    "trainer",
    [
        LargeSpreadForestClassifier(8, 5, max_features=None, eps=0.01, random_state=0),
        LargeSpreadBoostingClassifier(8, eps=0.01, random_state=0),
        RobustBoostingClassifier(4, max_features=None, eps=0.01, attacked=[0, 2], random_state=0),
        RobustBoostingClassifier(4, max_features=None, max_samples=300, n_bags=2, eps=0.01, random_state=0),
    ],
)
def test_reading_rows_or_columns_makes_the_same_trees(trainer, monkeypatch):
    X, y = mostly_zero()
    listed = []
    list_uncommon = Bins.uncommon
    monkeypatch.setattr(Bins, "uncommon", lambda bins: listed.append(list_uncommon(bins)) or listed[-1])
    by_row = trainer.fit(X, y).ensemble_
    assert all(len(uncommon.cell) for uncommon in listed)
    monkeypatch.setattr(binning, "LARGEST_UNCOMMON_SHARE", 0.0)
    assert trainer.fit(X, y).ensemble_ == by_row
    assert len(listed[-1].cell) == 0


@pytest.mark.parametrize("share", [0.0, 0.25])
def test_where_trees_share_thresholds_only_the_best_split_of_a_node_is_told(share, monkeypatch):
    monkeypatch.setattr(binning, "LARGEST_UNCOMMON_SHARE", share)
    X, y = mostly_zero()
    rule = gini_rule(y, np.zeros(3, bool), min_samples_leaf=5, moves_by_class=True)
    rows, n_features = np.arange(len(X), dtype=np.uint32), X.shape[1]
    frontier = Frontier.of(np.zeros(2, np.int32), np.array([0, 200, len(X)]), rows, np.ones(len(X)), rule)
    every, best = (Splits.on(np.tile(np.arange(n_features, dtype=np.int32), 2)) for _ in range(2))
    for only_best, found in ((False, every), (True, best)):
        data = GrowthData.of(X, Attacker(np.inf, 0.01), closes=not only_best)
        search_gini(data.rows, data.ledger.claims, frontier, rule, only_best, np.repeat([0, 1], n_features), found)
    is_told = best.gain > 0
    for part in (np.s_[:n_features], np.s_[n_features:]):
        chosen = every.gain[part].argmax()
        assert best.gain[part].argmax() == chosen
        assert best.gain[part][chosen] == every.gain[part][chosen] > 0
    assert 2 <= is_told.sum() < (every.gain > 0).sum()
    np.testing.assert_array_equal(best.threshold[is_told], every.threshold[is_told])
    np.testing.assert_array_equal(best.missing_side[is_told], every.missing_side[is_told])


def test_constant_rows_and_one_class_make_single_leaves():
    attacker = Attacker(np.inf, 0.1)
    constant = grow(np.ones((10, 2)), np.arange(10) % 2, 2, None, attacker, n_estimators=3, max_depth=4)
    assert constant.n_nodes == 3
    X, y = np.arange(20.0).reshape(10, 2), np.zeros(10, int)
    assert grow(X, y, 1, None, attacker, n_estimators=3, max_depth=4).n_nodes == 3


def test_features_are_dealt_to_as_many_trees_as_fit():
    X = np.column_stack([np.linspace(0, 1, 50), np.linspace(0, 0.3, 50), np.zeros(50), np.linspace(0, 1, 50)])
    data = GrowthData.of(X, Attacker(np.inf, 0.2, frozen=[3]))
    allowed = _deal_features(data, 10, np.random.default_rng(0))
    assert allowed.sum(axis=0).tolist() == [3, 1, 0, 10]  # more than 0.4 apart on [0, 1]: three; constant: none
    hands = allowed.sum(axis=1)
    assert hands.max() - hands.min() <= 1


def test_trees_that_stay_small_are_warned_of_with_what_would_fit():
    X, y = blobs(300, 3, n_classes=2, seed=6)
    with pytest.warns(GrowthWarning, match=r"eps=0\.1 the 30 trees.* about n_estimators=\d+, eps=.* or max_depth=\d"):
        grow(X, y, 2, None, Attacker(np.inf, 0.1), n_estimators=30, max_depth=8, random_state=0)


def test_a_forest_that_says_always_the_same_is_warned_of():
    X = np.random.default_rng(0).random((200, 3))
    y = np.where(X[:, 0] > 0.7, "spam", "ham")
    forest = LargeSpreadForestClassifier(3, 2, eps=0.9, random_state=0)
    share = (y == "ham").mean()
    with (
        pytest.warns(GrowthWarning, match="much smaller eps"),
        pytest.warns(ConstantWarning, match=f"class 'ham' was learned: it is right for {share:.3f} of the training"),
    ):
        forest.fit(X, y)


def test_later_rounds_save_rows_that_the_first_lose():
    X, y = blobs(600, 10, n_classes=2, seed=7)
    robust = []
    for focus in (0.0, 10.0):
        attacker = Attacker(np.inf, 0.03)
        ensemble = grow(X[:400], y[:400], 2, None, attacker, n_estimators=15, max_depth=3, focus=focus, random_state=0)
        robust.append(certify(ensemble, X[400:], y[400:], attacker).robust_accuracy)
    assert robust[1] >= robust[0]


# x0 <= 0.5 and x1 <= 0.5, left says 0, right says 1.
STUMPS = [stump(0, 0.5), stump(1, 0.5)]
NEAR = np.array([[0.1, 0.1], [0.45, 0.1], [0.45, 0.55], [0.9, 0.9]])


def margins(y, n_classes=2):
    found = Margins(WorstCase(NEAR, np.array(y), n_classes, Attacker(np.inf, 0.1)), n_classes)
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
    ensemble = TreeEnsemble.from_trees(STUMPS, n_features=2, classes=[0, 1])
    verdict = certify(ensemble, NEAR, [0, 0, 0, 1], Attacker(np.inf, 0.1)).verdict
    assert verdict.tolist() == [Verdict.ROBUST, Verdict.ROBUST, Verdict.FRAGILE, Verdict.ROBUST]


def test_leaves_are_relabelled_for_the_rows_that_reach_them():
    wrong = [stump(0, 0.5, 1, 1), stump(1, 0.5)]  # the first always says 1
    found = Margins(WorstCase(NEAR[[0, 1, 3]], np.array([0, 0, 1]), 2, Attacker(np.inf, 0.0)), 2)
    found.add(wrong)
    found.relabel(wrong, np.ones(3), 1.0, n_sweeps=1)
    assert [tree.leaf[1:].tolist() for tree in wrong] == [[0, 1]] * 2

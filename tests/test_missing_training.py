"""Trainers on rows with missing values: a side for them at every split, worst cases in which they stay missing."""

import warnings

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier
from sklearn.preprocessing import minmax_scale
from sklearn.utils import get_tags

from certiforest import (
    Attacker,
    LargeSpreadBoostingClassifier,
    LargeSpreadForestClassifier,
    TreeEnsemble,
    Verdict,
    as_ensemble,
    certify,
)
from certiforest.training.binning import bin_features
from certiforest.training.split_kernels import CHANCE
from certiforest.training.worst_case import WorstCase
from trainers import add_trees, small_trainers

TRAINERS = small_trainers(0.02, 0.01, 0.02, 0.05, 0.02, 0.1)


@pytest.fixture(scope="module")
def holed():
    X, y = load_breast_cancer(return_X_y=True)
    X = minmax_scale(X)
    X[np.random.default_rng(0).random(X.shape) < 0.3] = np.nan
    X[:, 4] = np.nan  # never there
    X[:, 5] = np.where(np.isnan(X[:, 5]), np.nan, 0.5)  # there or not
    return X, y


@pytest.mark.parametrize("kind", TRAINERS)
def test_rows_with_missing_values_are_learned_certified_and_saved(holed, kind, tmp_path):
    X, y = holed
    clf = TRAINERS[kind]().fit(X[::2], y[::2])
    found = certify(clf, X[1::2], y[1::2], clf.attacker_, witness=True)
    assert clf.score(X[1::2], y[1::2]) == found.accuracy > 0.8
    assert (found.stable >= 0).all()
    assert 0.6 < found.robust_accuracy < found.accuracy
    broken = found.stable == 0
    assert (np.isnan(found.witness[broken]) == np.isnan(X[1::2][broken])).all()
    assert (clf.predict(found.witness[broken]) != found.prediction[broken]).all()
    clf.ensemble_.save(tmp_path / "model.json")
    assert TreeEnsemble.load(tmp_path / "model.json") == clf.ensemble_ == as_ensemble(clf)
    assert 0 < clf.ensemble_.missing_left.sum() < (clf.ensemble_.feature >= 0).sum()
    assert get_tags(clf).input_tags.allow_nan


@pytest.mark.parametrize("kind", ["boosting", "boosting, one budget", "robust boosting"])
def test_the_loss_is_that_of_a_worst_case_in_which_missing_values_stay_missing(holed, kind):
    """What training counts as won, `certify` proves."""
    X, y = holed
    clf = TRAINERS[kind]().fit(X, y)
    assert (np.diff(clf.train_loss_) < 0).all()
    for missing in (X, np.where(np.arange(30) < 10, np.nan, X)):
        case = WorstCase(missing, y, 2, clf.attacker_, np.append(0.0, clf.ensemble_.base))
        add_trees(case, clf.ensemble_)
        verdict = certify(clf, missing, y, clf.attacker_).verdict
        assert 0.4 < case.is_won().mean() < 1
        assert (verdict[case.is_won()] == Verdict.ROBUST).all()


@pytest.mark.parametrize("kind", TRAINERS)
def test_what_is_missing_may_be_all_that_tells(kind):
    """No attacker fills or blanks: such a split withstands any budget."""
    rng = np.random.default_rng(1)
    y = np.arange(300) % 2
    X = rng.random((300, 3))
    X[:, 1] = np.where(y == 1, np.nan, 0.25 if kind.startswith("pruned") else X[:, 1])
    stumps = RandomForestClassifier(9, max_depth=1, max_features=None, random_state=0).fit(X, y)
    if kind.startswith("pruned") and stumps.score(X, y) < 1:
        pytest.skip("this scikit-learn, whose trees are pruned, does not split what is constant but for missing values")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        clf = TRAINERS[kind](eps=0.3, **({"max_features": None} if "forest" in kind else {})).fit(X, y)
    found = certify(clf, X, y, Attacker(np.inf, 0.3))
    assert found.accuracy == 1.0
    assert found.robust_accuracy > 0.95


def worth(left, classes, is_by_missing):
    """Return the purity of a split; one by what is missing only has to beat chance, too."""
    parts = classes[left].sum(axis=0), classes[~left].sum(axis=0)
    purity = sum((part**2).sum() / part.sum() for part in parts if part.sum() > 0)
    return purity - (CHANCE * (1 - (classes.mean(axis=0) ** 2).sum()) if is_by_missing else 0.0)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.booleans())
@example(272136, False)  # no number above the last threshold
def test_the_first_split_is_the_best_of_all_thresholds_and_sides(seed, is_forest):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 5, (30, 2)) / 4.0
    X[rng.random(X.shape) < rng.choice([0.1, 0.5])] = np.nan
    assume(np.isnan(X).any())  # else the model has no side for what is missing
    y = np.arange(30) % 2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if is_forest:
            clf = LargeSpreadForestClassifier(1, 1, eps=1e-6, focus=0.0, max_features=None, random_state=0).fit(X, y)
        else:
            clf = LargeSpreadBoostingClassifier(1, 1, eps=1e-6, thrift=0.0, min_gain=0.0, max_features=None).fit(X, y)
    best, classes = 0.0, np.eye(2)[y]
    for f in range(2):
        is_missing = np.isnan(X[:, f])
        for v in (-1.0, 0.125, 0.375, 0.625, 0.875):
            for side in (False, True):
                left = np.where(is_missing, side, X[:, f] <= v)
                best = max(best, worth(left, classes, len(set(left[~is_missing])) < 2))  # all numbers on one side
    tree = clf.ensemble_
    f, v = tree.feature[0], tree.threshold[0]
    left = np.where(np.isnan(X[:, f]), tree.missing_left[0], X[:, f] <= v)
    assert worth(left, classes, np.isnan(v)) == pytest.approx(best)


def test_where_none_is_missing_the_side_is_that_of_more_rows():
    X = np.column_stack([np.repeat([0.0, 1.0], [20, 10]), np.full(30, np.nan)])
    for column, more in ((X[:, 0], True), (1 - X[:, 0], False)):
        clf = LargeSpreadBoostingClassifier(1, 1, eps=0.1).fit(np.column_stack([column, X[:, 1]]), X[:, 0] > 0.5)
        assert clf.ensemble_.feature.tolist() == [0, -1, -1]
        assert clf.ensemble_.missing_left[0] == more


def test_a_feature_that_was_never_missing_adds_nothing_to_an_additive_model(holed):
    X, y = holed
    X = X.copy()
    X[:, 0] = np.random.default_rng(2).random(len(X))
    clf = TRAINERS["additive"](max_columns=1).fit(X, y)
    root = np.flatnonzero(np.isnan(clf.ensemble_.threshold))
    added = clf.ensemble_.scores[clf.ensemble_.leaf[root + 1], 0]
    assert clf.ensemble_.feature[root[added == 0]].tolist() == [0]


@pytest.mark.parametrize("kind", TRAINERS)
def test_models_of_numbers_have_no_place_for_missing_values(holed, kind):
    X, y = np.nan_to_num(holed[0]), holed[1]
    clf = TRAINERS[kind]().fit(X, y)
    assert clf.ensemble_.missing_left is None
    with pytest.raises(ValueError, match=r"^Expected finite numbers in X, got NaN in row 0, .*train on some that miss"):
        clf.predict(holed[0])
    with pytest.raises(ValueError, match=r"^Expected finite numbers in X, got infinity in row 0, feature 0; remove"):
        TRAINERS[kind]().fit(np.where(np.arange(30) == 0, np.inf, X), y)


def test_rows_put_aside_may_be_the_only_ones_that_miss_values(holed):
    y = holed[1]
    for seed in range(8):
        X = np.nan_to_num(holed[0])
        X[np.random.default_rng(seed).integers(len(X)), :3] = np.nan
        clf = LargeSpreadBoostingClassifier(
            5, 3, eps=0.02, n_iter_no_change=2, validation_fraction=0.5, random_state=0
        ).fit(X, y)
        assert clf.ensemble_.missing_left is not None
        assert clf.score(X, y) > 0.8
        *_, sums = clf.staged_decision_function(X)
        np.testing.assert_array_equal(sums, clf.decision_function(X))


def test_missing_values_have_a_code_after_all_bins():
    X = np.array([[np.nan, np.nan], [1.0, np.nan], [0.0, np.nan], [1.0, np.nan]])
    bins = bin_features(X, max_bins=2)
    assert bins.n_bins.tolist() == [1, 0]
    assert bins.has_missing.tolist() == [True, True]
    assert bins.code.tolist() == [[1, 0, 0, 0], [0, 0, 0, 0]]
    assert bins.widths().tolist() == [1.0, 0.0]
    many = bin_features(np.append(np.arange(1000.0), np.nan)[:, None])
    assert (many.n_bins[0], many.code.max(), many.code.dtype) == (255, 255, np.uint8)

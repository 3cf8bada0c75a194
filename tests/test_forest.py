"""LargeSpreadForestClassifier as a scikit-learn estimator: conventions, inputs, sentences for bad input."""

from functools import partial

import numpy as np
import pytest
from sklearn.datasets import load_digits, load_iris

from certiforest import Attacker, certify, has_large_spread
from certiforest.training.forest import LargeSpreadForestClassifier, ShortfallError, ShortfallWarning
from shared_data import needs_shared, paper_split

small = partial(LargeSpreadForestClassifier, n_estimators=9, max_depth=3, eps=0.01, random_state=0)


def test_verdicts_are_exact_for_every_row(cancer):
    forest = small().fit(*cancer)
    found = certify(forest, *cancer, forest.attacker_, require_exact=True)
    assert found.accuracy == forest.score(*cancer)
    assert found.robust_accuracy_bounds[0] == found.robust_accuracy_bounds[1] <= found.accuracy


def test_probabilities_are_vote_shares(cancer):
    X, y = cancer
    forest = small().fit(X, y)
    assert np.array_equal(forest.predict_proba(X) * 9, forest.ensemble_.votes(X))
    assert np.array_equal(forest.predict(X), forest.ensemble_.predict(X))


def test_many_classes_with_string_labels():
    X, y = load_digits(return_X_y=True)
    names = np.array([f"digit {i}" for i in range(10)])
    forest = small(n_estimators=20, max_depth=5, n_partitions=2, pool_factor=3).fit(X / 16, names[y])
    assert np.array_equal(forest.classes_, names)
    assert np.array_equal(forest.ensemble_.classes, names)
    assert forest.score(X / 16, names[y]) > 0.8
    assert forest.predict_proba(X / 16).shape == (len(X), 10)


def test_data_frames(frames):
    X, y = load_iris(return_X_y=True)
    names = ["sepal length", "sepal width", "petal length", "petal width"]
    frame = frames.DataFrame({name: X[:, i] for i, name in enumerate(names)})
    labels = frames.Series(np.array(["setosa", "versicolor", "virginica"])[y])
    forest = small(eps=0.02, n_estimators=3, pool_factor=4).fit(frame, labels)
    assert forest.feature_names_in_.tolist() == names
    assert forest.ensemble_.feature_names == tuple(names)
    assert (forest.predict(frame) == np.asarray(labels)).mean() > 0.9
    assert np.array_equal(certify(forest, frame, attacker=forest.attacker_).prediction, forest.predict(frame))


def test_class_weights_move_the_vote(cancer):
    X, y = cancer
    plain = small().fit(X, y).predict(X).mean()
    assert small(class_weight={0: 50, 1: 1}).fit(X, y).predict(X).mean() < plain
    assert small(class_weight={0: 1, 1: 50}).fit(X, y).predict(X).mean() > plain


@pytest.mark.parametrize("class_weight", ["balanced", "balanced_subsample"])
def test_named_class_weights(cancer, class_weight):
    assert small(class_weight=class_weight).fit(*cancer).score(*cancer) > 0.9


def test_norm_0_gives_every_tree_features_of_its_own(cancer):
    forest = small(norm=0, eps=3).fit(*cancer)
    assert has_large_spread(forest.ensemble_, Attacker(0, 3))
    assert forest.score(*cancer) > 0.85


def test_shortfall_raises_one_clear_sentence(cancer):
    with pytest.raises(ShortfallError, match=r"Expected 40 trees .* got \d+ before .* raise n_partitions, pool_factor"):
        small(n_estimators=40, eps=0.2, method="prune").fit(*cancer)


def test_shortfall_can_be_kept(cancer):
    with pytest.warns(ShortfallWarning, match=r"Expected 40 trees .* got \d+"):
        forest = small(n_estimators=40, eps=0.2, on_shortfall="keep", method="prune").fit(*cancer)
    assert 1 <= forest.ensemble_.n_trees < 40
    assert has_large_spread(forest.ensemble_, forest.attacker_)


@needs_shared
def test_a_tuned_setting_of_the_paper():
    X_train, X_test, y_train, y_test = paper_split("mnist26")
    forest = LargeSpreadForestClassifier(
        101, 6, eps=0.01, max_iter=500, pool_factor=6, random_state=0, method="prune"
    ).fit(X_train, y_train)
    found = certify(forest, X_test, y_test, forest.attacker_, require_exact=True)
    assert found.accuracy >= 0.97
    assert found.robust_accuracy >= 0.94

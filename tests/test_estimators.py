"""All trainers as scikit-learn estimators: conventions, seeds, weights, progress, sentences for bad input."""

import inspect
import logging
import pickle
import re
from functools import partial

import numpy as np
import pytest
import sklearn
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from certiforest import (
    LargeSpreadAdditiveClassifier,
    LargeSpreadAdditiveRegressor,
    LargeSpreadBoostingClassifier,
    LargeSpreadForestClassifier,
    RobustBoostingClassifier,
    RobustBoostingRegressor,
    TreeEnsemble,
)
from trainers import small_trainers

forest, boosting = LargeSpreadForestClassifier, LargeSpreadBoostingClassifier
robust, additive = RobustBoostingClassifier, LargeSpreadAdditiveClassifier
few_cells = partial(additive, max_cells=8, n_epochs=20, batch_size=16, eps=0.01)


def expected_failures(estimator):
    """Tell why an estimator fails a check of scikit-learn's."""
    weights = "check_sample_weight_equivalence_on_dense_data"
    if isinstance(estimator, (additive, LargeSpreadAdditiveRegressor)):
        return {weights: "small batches are drawn: two rows are not one of weight two"}
    if isinstance(estimator, boosting) and estimator.n_iter_no_change is not None:
        return {weights: "rows are put aside for early stopping, as in HistGradientBoostingClassifier: others then"}
    if not isinstance(estimator, forest) or estimator.method == "grow":
        return {}
    failures = {
        weights: "rows are drawn with replacement, as in RandomForestClassifier, which fails it too: weighting a row"
        " twice and having it twice are equal in distribution only"
    }
    if tuple(map(int, sklearn.__version__.split(".")[:2])) < (1, 9):
        failures["check_class_weight_classifiers"] = (
            "RandomForestClassifier, which is pruned here, drew rows without regard to their weights until 1.9 and"
            " fails it too, unless min_weight_fraction_leaf is set"
        )
    return failures


@parametrize_with_checks(
    [
        forest(5, 3, eps=1e-3),
        forest(4, eps=1e-3, n_partitions=2, relabel=True, on_shortfall="keep", method="prune"),
        forest(on_shortfall="keep", method="prune"),
        forest(eps=1e-3),
        forest(1, norm=0, eps=1),
        boosting(5, 3, eps=1e-3),
        boosting(5, eps=1e-3, n_iter_no_change=2, n_refits=1),
        boosting(5),
        boosting(5, norm=0, eps=1),
        robust(5, 4, 0.3, min_samples_leaf=1),
        RobustBoostingRegressor(20, 4, 0.3, min_samples_leaf=1, eps=1e-3),
        RobustBoostingRegressor(20, 4, 0.3, min_samples_leaf=1, eps=1e-3, loss="absolute_error"),
        few_cells(learning_rate=0.1),
        few_cells(norm=np.inf),
        LargeSpreadAdditiveRegressor(learning_rate=0.03, eps=1e-3),
        LargeSpreadAdditiveRegressor(learning_rate=0.03, eps=1e-3, max_columns=1, loss="absolute_error"),
    ],
    expected_failed_checks=expected_failures,
)
@pytest.mark.filterwarnings("ignore::certiforest.training.forest.ShortfallWarning")
@pytest.mark.filterwarnings("ignore::certiforest.training.growing.GrowthWarning")
def test_scikit_learn_conventions(estimator, check):
    check(estimator)


TRAINERS = small_trainers(0.01, 0.01, 0.02, 0.2, 0.02, 0.1)
of_every_kind = pytest.mark.parametrize("kind", TRAINERS)


@of_every_kind
def test_help_tells_every_parameter(kind):
    """Also those that all trainers share, which are written down once."""
    trainer = TRAINERS[kind].func
    entries = re.findall(r"^(\w[\w, ]*) : ", inspect.getdoc(trainer), re.MULTILINE)
    told = {name for entry in entries for name in entry.split(", ")}
    assert {*inspect.signature(trainer).parameters, "ensemble_", "attacker_", "classes_"} <= told


def test_what_other_docstrings_refer_to_stays_theirs():
    class Careful(additive):
        """A trainer.

        Parameters
        ----------
        eps, alpha
            See `RobustClassifier`.
        beta
            See `Another`.
        """

    assert inspect.getdoc(Careful).endswith("eps, alpha\n    See `RobustClassifier`.\nbeta\n    See `Another`.")
    assert type("Silent", (additive,), {}).__doc__ is None


@of_every_kind
def test_same_seed_same_trees_whatever_the_number_of_jobs(cancer, kind):
    jobs = [{"n_jobs": n_jobs} for n_jobs in (None, 1, 2)] if kind != "additive" else [{}, {}]
    first, *others = (TRAINERS[kind](**options).fit(*cancer).ensemble_ for options in jobs)
    assert all(first == other for other in others)
    assert first != TRAINERS[kind](random_state=1).fit(*cancer).ensemble_


@of_every_kind
def test_class_and_row_weights_multiply(cancer, kind):
    X, y = cancer
    plain = TRAINERS[kind]().fit(X, y)
    assert TRAINERS[kind]().fit(X, y, np.ones(len(y))).ensemble_ == plain.ensemble_
    by_class = TRAINERS[kind](class_weight={0: 3, 1: 1}).fit(X, y)
    assert by_class.ensemble_ == TRAINERS[kind]().fit(X, y, np.where(y == 0, 3, 1)).ensemble_ != plain.ensemble_
    with pytest.raises(ValueError, match="Negative values"):
        TRAINERS[kind]().fit(X, y, np.where(y == 0, -1, 1))


@of_every_kind
def test_it_works_with_the_rest_of_scikit_learn(kind, tmp_path):
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    labels = y.map({0: "malignant", 1: "benign"})
    assert cross_val_score(make_pipeline(MinMaxScaler(), TRAINERS[kind]()), X, labels, cv=3).mean() > 0.85
    clf = TRAINERS[kind](frozen=[0, 1]).fit(X, labels)
    assert list(clf.ensemble_.feature_names) == list(X.columns)
    again = pickle.loads(pickle.dumps(clone(clf).fit(X, labels)))  # noqa: S301
    np.testing.assert_array_equal(again.predict(X), clf.predict(X))
    clf.ensemble_.save(tmp_path / "model.json")
    assert TreeEnsemble.load(tmp_path / "model.json") == clf.ensemble_ == again.ensemble_


def test_searches_try_pairs_as_values(cancer):
    grid = {"pool_factor": [2, 3], "shift_range": [(0.5, 1.0), (1.0, 1.5)]}
    search = GridSearchCV(TRAINERS["pruned forest"](method="prune"), grid, cv=2, n_jobs=2)
    assert search.fit(*cancer).best_score_ > 0.85


@of_every_kind
def test_two_fits_are_two_for_dask(cancer, kind):
    """Dask tells objects apart by their fields, and must not give the answers of another model."""
    tokenize = pytest.importorskip("dask.base").tokenize
    X, y = cancer
    models = [TRAINERS[kind]().fit(X[rows], y[rows]) for rows in (slice(300), slice(300), slice(200, None))]
    one, same, other = map(tokenize, models)
    assert one == same != other


@of_every_kind
def test_progress_is_reported_and_never_printed(cancer, kind, caplog, capsys):
    calls = []
    with caplog.at_level(logging.INFO, logger="certiforest"):
        TRAINERS[kind](verbose=1, callback=lambda *call: calls.append(call)).fit(*cancer)
    wanted = calls[-1][1]
    assert calls == sorted(calls)
    assert calls[-1] == (wanted, wanted)
    assert caplog.messages[-1] == f"{wanted} of {wanted} trees"
    assert capsys.readouterr() == ("", "")


EVERY = tuple(TRAINERS)
FORESTS, BOOSTINGS = EVERY[:2], EVERY[2:5]
WRONG = [
    (EVERY, {"eps": 0}, "Expected eps to be a number > 0, got 0; without"),
    (EVERY, {"eps": -0.1}, "Expected eps to be a number > 0, got -0.1; without"),
    (EVERY, {"eps": np.nan}, "Expected eps to be a number > 0, got nan; without"),
    (EVERY, {"eps": "0.1"}, "Expected eps to be a number > 0, got '0.1'; without"),
    (EVERY, {"eps": np.inf}, "Expected eps to be a finite number >= 0, got inf."),
    (EVERY, {"norm": -1}, "Expected norm to be 0, 1, 2, 3, ... or inf, got -1."),
    (EVERY, {"norm": 0, "eps": 0.5}, "Expected eps >= 1 with norm 0, where it counts features, got 0.5."),
    (
        EVERY,
        {"frozen": range(30)},
        "Expected a feature that the attacker can change, got all 30 frozen, or whole with eps",
    ),
    (EVERY, {"frozen": [30]}, "Expected frozen features between 0 and 29, got 30."),
    (EVERY, {"scale": [1, 2]}, "Expected scale for 30 features, got 2 values."),
    (EVERY, {"scale": -1}, "Expected every scale to be a finite number > 0, got -1.0."),
    (EVERY[:5], {"n_estimators": 0}, "Expected n_estimators to be an integer >= 1, got 0."),
    (EVERY[:5], {"n_estimators": 2.0}, "Expected n_estimators to be an integer >= 1, got 2.0."),
    (EVERY[:5], {"min_samples_leaf": -3}, "Expected min_samples_leaf to be an integer >= 1, got -3."),
    (EVERY[:5], {"min_samples_leaf": "a"}, "Expected min_samples_leaf to be a number in (0, 1] or an integer >= 1"),
    (EVERY[:5], {"max_features": 0}, "Expected max_features to be an integer >= 1, got 0."),
    (FORESTS, {"max_depth": 0}, "Expected max_depth to be an integer >= 1 or None, got 0."),
    (FORESTS, {"max_iter": 0}, "Expected max_iter to be an integer >= 1, got 0."),
    (FORESTS, {"pool_factor": 1.5}, "Expected pool_factor to be an integer >= 1, got 1.5."),
    (FORESTS, {"n_partitions": 0}, "Expected n_partitions to be an integer >= 1, got 0."),
    (FORESTS, {"shift_range": 1.0}, "Expected shift_range to be a pair of numbers with 0 < low <= high, got 1.0; the"),
    (FORESTS, {"shift_range": (1, 0.5)}, "Expected shift_range to be a pair of numbers with 0 < low <= high, got (1,"),
    (FORESTS, {"method": "prunes"}, "Expected method to be 'grow' or 'prune', got 'prunes'."),
    (FORESTS, {"n_rounds": 0}, "Expected n_rounds to be an integer >= 1, got 0."),
    (FORESTS, {"focus": -1}, "Expected focus to be a number >= 0, got -1."),
    (FORESTS, {"on_shortfall": "warn"}, "Expected on_shortfall to be 'raise' or 'keep', got 'warn'."),
    (
        FORESTS[:1],
        {"max_features": "half"},
        "Expected max_features to be 'auto' or 'sqrt' or 'log2' or None, got",
    ),
    (
        FORESTS[1:],
        {"n_partitions": 10},
        "got n_partitions=10 for n_estimators=5 and n_features=30; lower",
    ),
    (FORESTS[1:], {"norm": 0, "eps": 1, "n_estimators": 31}, "per tree with norm 0, got 30 that are not frozen for 31"),
    (BOOSTINGS, {"max_depth": "deep"}, "Expected max_depth to be an integer >= 1 or 'auto' or None, got 'deep'."),
    (BOOSTINGS, {"max_depth": 0}, "Expected max_depth to be an integer >= 1 or 'auto' or None, got 0."),
    (BOOSTINGS, {"learning_rate": 0.0}, "Expected learning_rate to be a number in (0, 1] or 'auto', got 0.0."),
    (BOOSTINGS, {"learning_rate": "slow"}, "Expected learning_rate to be a number in (0, 1] or 'auto', got 'slow'."),
    (BOOSTINGS, {"loss": "hinge"}, "Expected loss to be 'log_loss' or 'exponential', got 'hinge'."),
    (BOOSTINGS, {"max_features": 1.5}, "Expected max_features to be a number in (0, 1] or an integer >= 1, got 1.5."),
    (
        BOOSTINGS,
        {"max_features": "some"},
        "Expected max_features to be a number in (0, 1] or an integer >= 1, got",
    ),
    (BOOSTINGS, {"l2_regularization": "much"}, "Expected l2_regularization to be a number >= 0 or 'auto', got 'much'."),
    (BOOSTINGS[:2], {"thrift": 1}, "Expected thrift to be a number in [0, 1), got 1."),
    (BOOSTINGS[:2], {"n_refits": -1}, "Expected n_refits to be an integer >= 0, got -1."),
    (BOOSTINGS[2:], {"max_samples": 0}, "Expected max_samples to be an integer >= 1, got 0."),
    (BOOSTINGS[2:], {"min_samples_split": 1}, "Expected min_samples_split to be an integer >= 2, got 1."),
    (BOOSTINGS[2:], {"n_bags": 0}, "Expected n_bags to be an integer >= 1, got 0."),
    (BOOSTINGS[2:], {"forgiveness": -1}, "Expected forgiveness to be a number >= 0, got -1."),
    (EVERY[5:], {"max_cells": 1}, "Expected max_cells to be an integer >= 2, got 1."),
    (EVERY[5:], {"max_cells": 256}, "Expected max_cells to be at most 255, got 256."),
    (EVERY[5:], {"max_columns": 3}, "Expected max_columns to be 1, 2 or 4, got 3."),
    (EVERY[5:], {"n_epochs": 0}, "Expected n_epochs to be an integer >= 1 or 'auto', got 0."),
    (EVERY[5:], {"learning_rate": 2}, "Expected learning_rate to be a number in (0, 1], got 2."),
    (EVERY[5:], {"l2_regularization": -1}, "Expected l2_regularization to be a number >= 0, got -1."),
]


@pytest.mark.parametrize(("kinds", "options", "sentence"), WRONG, ids=[str(options) for _, options, _ in WRONG])
def test_bad_parameters_get_one_clear_sentence(cancer, kinds, options, sentence):
    for kind in kinds:
        with pytest.raises(ValueError) as caught:
            TRAINERS[kind](**options).fit(*cancer)
        assert sentence in str(caught.value)
        assert "\n" not in str(caught.value)


@of_every_kind
def test_bad_rows_get_one_clear_sentence(cancer, kind):
    X, y = cancer
    broken = X.copy()
    broken[3, 7] = np.nan
    with pytest.raises(ValueError, match=r"^Expected finite numbers in X, got NaN in row 3, feature 7; the model was"):
        TRAINERS[kind]().fit(X, y).predict(broken)
    broken[3, 7] = np.inf
    for rows, labels, sentence in [
        (broken, y, r"^Expected finite numbers in X, got infinity in row 3, feature 7; remove or"),
        (X[y == 1], y[y == 1], r"^Expected labels of at least two classes, got one class only \(.*1.*\); add"),
        (np.ones_like(X), y, r"^Expected a feature with at least two .*, got 30 constant ones; nothing"),
        (
            np.where(X.max() == X, 1e39, X),
            y,
            r"^Expected numbers up to 3.4e\+38, .* got 1e\+39; rescale the features",
        ),
    ]:
        with pytest.raises(ValueError, match=sentence):
            TRAINERS[kind]().fit(rows, labels)

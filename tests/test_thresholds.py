"""A probability other than one half at which the second class is said; regressors that become two classes."""

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.ensemble import (
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from certiforest import (
    Attacker,
    LargeSpreadBoostingClassifier,
    LargeSpreadForestClassifier,
    ModelError,
    as_ensemble,
    certify,
)
from certiforest.formats.agreement import threshold_rows
from certiforest.formats.opened import log_odds
from small_models import catboost, lgb, stumps, xgb

X, Y = load_breast_cancer(return_X_y=True)
Y = np.where(np.random.default_rng(0).random(len(Y)) < 0.15, 1 - Y, Y)  # probabilities of all sizes
NAMES = np.array(["benign", "malignant"])


CLASSIFIERS = {
    "tree": lambda: DecisionTreeClassifier(max_depth=3),
    "forest": lambda: RandomForestClassifier(9, max_depth=4, random_state=0),
    "boosting": lambda: GradientBoostingClassifier(n_estimators=8),
    "exponential boosting": lambda: GradientBoostingClassifier(loss="exponential", n_estimators=8),
    "histogram boosting": lambda: HistGradientBoostingClassifier(max_iter=8),
    "own forest": lambda: LargeSpreadForestClassifier(n_estimators=7, max_depth=3, eps=0.01, random_state=0),
    "own boosting": lambda: LargeSpreadBoostingClassifier(n_estimators=7, max_depth=3, eps=0.01, random_state=0),
    "xgboost": xgb,
    "lightgbm": lambda: lgb(sigmoid=0.7),
    "lightgbm forest": lambda: lgb(boosting_type="rf", bagging_freq=1, bagging_fraction=0.7),
    "catboost": catboost,
}
REGRESSORS = {
    "tree": lambda: DecisionTreeRegressor(max_depth=3),
    "forest": lambda: RandomForestRegressor(9, max_depth=4, random_state=0),
    "extra trees": lambda: ExtraTreesRegressor(9, max_depth=4, random_state=0),
    "boosting": lambda: GradientBoostingRegressor(n_estimators=8),
    "histogram boosting": lambda: HistGradientBoostingRegressor(max_iter=8),
    "xgboost": lambda: xgb("Regressor"),
    "lightgbm": lambda: lgb("Regressor"),
    "catboost": lambda: catboost("Regressor"),
}


@pytest.mark.parametrize("kind", CLASSIFIERS)
@pytest.mark.parametrize("threshold", [0.2, 0.5, 0.87])
def test_the_second_class_is_said_from_the_threshold_on(kind, threshold):
    y = Y if kind in ("xgboost",) else NAMES[Y]
    model = CLASSIFIERS[kind]().fit(X, y)
    ensemble = as_ensemble(model, threshold=threshold)
    labels = np.array(model.classes_)
    for rows in (X, threshold_rows(ensemble, 2_000, seed=7)):
        expected = labels[(model.predict_proba(rows)[:, 1] >= threshold).astype(int)]
        differ = ensemble.predict(rows) != expected
        if differ.any():  # only sums that rounding decides
            assert kind in ("xgboost", "lightgbm", "lightgbm forest", "catboost")
            bound = ensemble.rounding_bound(np.float32 if kind == "xgboost" else np.float64) + 2.0**-19
            assert (np.abs(ensemble.decision_function(rows[differ])) <= bound).all()
    assert as_ensemble(model, threshold=threshold) == ensemble
    if threshold != 0.5:
        assert (ensemble.predict(X) != as_ensemble(model).predict(X)).any()
        assert as_ensemble(model) != ensemble  # remembered apart


@pytest.mark.parametrize("kind", REGRESSORS)
def test_regressors_with_a_threshold_have_two_classes(kind):
    rows, y = load_diabetes(return_X_y=True)
    model = REGRESSORS[kind]().fit(rows, y)
    ensemble = as_ensemble(model, threshold=150.0)
    assert (ensemble.predict(rows) == (model.predict(rows) >= 150)).all()
    assert 0.1 < ensemble.predict(rows).mean() < 0.9
    with pytest.raises(ModelError, match=r"Expected a classifier, or a threshold.*as_ensemble\(model, threshold"):
        as_ensemble(model)
    c = certify(ensemble, rows[:50], None, Attacker(np.inf, 0.01), witness=True)
    broken = np.flatnonzero(c.stable == 0)
    assert len(broken)
    assert ((model.predict(c.witness[broken]) >= 150) != c.prediction[broken]).all()


def test_thresholds_of_files(tmp_path):
    model = xgb().fit(X, Y)
    model.save_model(tmp_path / "m.json")
    assert as_ensemble(tmp_path / "m.json", threshold=0.3) == as_ensemble(model, threshold=0.3).with_columns(None)


@pytest.mark.parametrize("n_trees", [1, 4, 5])
def test_quorums(n_trees):
    """Every number of votes against every threshold around it."""
    trees = stumps(*((0, tree + 0.5) for tree in range(n_trees)), classes=["a", "b"])
    rows = np.arange(n_trees + 1.0)[:, None]
    assert trees.votes(rows)[:, 1].tolist() == list(range(n_trees + 1))
    for k in range(n_trees + 1):
        for t in (k / n_trees, np.nextafter(k / n_trees, 0), np.nextafter(k / n_trees, 1)):
            if 0 < t < 1:
                quorum = as_ensemble(trees, threshold=t)
                assert ((quorum.predict(rows) == "b") == (trees.votes(rows)[:, 1] / n_trees >= t)).all()
                assert quorum.combine == "vote"


def test_log_odds():
    assert log_odds(0.5) == 0
    for p in (1e-300, 0.1, 0.25, 0.5 + 1e-12, 0.75, 0.9, 1 - 2.0**-53):
        from decimal import Decimal, getcontext

        getcontext().prec = 60
        exact = (Decimal(p) / (1 - Decimal(p))).ln()
        assert abs(Decimal(log_odds(p)) - exact) <= abs(exact) * Decimal(2) ** -52


@pytest.mark.parametrize(
    ("threshold", "message"),
    [(0, "between 0 and 1"), (1.0, "between 0 and 1"), (float("nan"), "to be a number"), ("0.2", "to be a number"),
     (True, "to be a number")],
)  # fmt: skip
def test_thresholds_that_are_none(threshold, message):
    with pytest.raises(ModelError, match=message):
        as_ensemble(DecisionTreeClassifier(max_depth=2).fit(X, Y), threshold=threshold)


def test_models_that_have_no_threshold():
    iris = load_iris(return_X_y=True)
    with pytest.raises(ModelError, match="threshold=None for a model of 3 classes"):
        as_ensemble(RandomForestClassifier(3).fit(*iris), threshold=0.2)
    summing = as_ensemble(HistGradientBoostingClassifier(max_iter=2).fit(X, Y))
    with pytest.raises(ModelError, match="does not say what probability"):
        as_ensemble(summing, threshold=0.2)
    hinge = xgb(objective="binary:hinge", n_estimators=2).fit(X, Y)
    with pytest.raises(ModelError, match="does not say what probability"):
        as_ensemble(hinge, threshold=0.2)

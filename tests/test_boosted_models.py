"""Boosted models of other libraries: on thresholds and one step beside them they must do here what they do there."""

import re

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_iris

from certiforest import ModelError, TreeEnsemble, as_ensemble
from certiforest.formats.lightgbm_models import ZERO
from certiforest.formats.proof import prove, threshold_rows
from certiforest.formats.xgboost_models import PROBABILITY_SLACK

TWO, MANY = load_breast_cancer(return_X_y=True), load_iris(return_X_y=True)


def fit_xgboost(data, **options):
    xgboost = pytest.importorskip("xgboost")
    return xgboost.XGBClassifier(**{"n_estimators": 12, "n_jobs": 1, **options}).fit(*data)


def fit_lightgbm(data, **options):
    lightgbm = pytest.importorskip("lightgbm")
    options = {"n_estimators": 12, "n_jobs": 1, "verbose": -1, "num_leaves": 8, **options}
    return lightgbm.LGBMClassifier(**options).fit(*data)


def fit_catboost(data, **options):
    catboost = pytest.importorskip("catboost")
    options = {"iterations": 12, "depth": 4, "verbose": 0, "thread_count": 1, "allow_writing_files": False, **options}
    return catboost.CatBoostClassifier(**options).fit(*data)


def lead(ensemble, rows):
    """By how much the largest sum is ahead of the next."""
    sums = ensemble.decision_function(rows)
    return np.abs(sums) if sums.ndim == 1 else np.diff(np.sort(sums, axis=1)[:, -2:]).ravel()


XGBOOST = {
    "logistic": (TWO, {}),
    "given base": (TWO, {"base_score": 0.3}),
    "hinge": (TWO, {"objective": "binary:hinge"}),
    "pruned nodes": (TWO, {"gamma": 5.0, "tree_method": "exact"}),
    "dart": (TWO, {"booster": "dart", "rate_drop": 0.5}),
    "softprob": (MANY, {}),
    "softmax": (MANY, {"objective": "multi:softmax", "base_score": 0.25}),
    "parallel trees": (MANY, {"num_parallel_tree": 3, "subsample": 0.5}),
    "vector leaves": (MANY, {"multi_strategy": "multi_output_tree"}),
    "dart for many": (MANY, {"booster": "dart", "rate_drop": 0.5, "num_parallel_tree": 2}),
}
LIGHTGBM = {
    "binary": (TWO, {}),
    "text labels": ((TWO[0], np.array(["m", "b"])[TWO[1]]), {}),
    "steep": (TWO, {"sigmoid": 2.0}),
    "forest": (TWO, {"boosting_type": "rf", "bagging_freq": 1, "bagging_fraction": 0.5}),
    "multiclass": (MANY, {}),
    "one against the rest": (MANY, {"objective": "multiclassova"}),
    "forest for many": (MANY, {"boosting_type": "rf", "bagging_freq": 1, "bagging_fraction": 0.5}),
}
CATBOOST = {
    "two": (TWO, {"boost_from_average": True}),
    "text labels": ((TWO[0], np.array(["m", "b"])[TWO[1]]), {}),
    "many": (MANY, {}),
    "one against the rest": (MANY, {"loss_function": "MultiClassOneVsAll"}),
    "not symmetric": (MANY, {"grow_policy": "Lossguide"}),
    "ties": (([[0.0], [0.0], [1.0], [1.0]], [0, 1, 0, 1]), {"boost_from_average": False}),
}


@pytest.mark.parametrize("case", XGBOOST)
def test_xgboost_predicts_the_same(case, tmp_path):
    data, options = XGBOOST[case]
    model = fit_xgboost(data, **options)
    ensemble = as_ensemble(model)
    rows = np.vstack([threshold_rows(ensemble, 3_000, seed=7), data[0]])
    differs = ensemble.predict(rows) != model.predict(rows)
    assert (lead(ensemble, rows)[differs] <= ensemble.rounding_bound(np.float32) + PROBABILITY_SLACK).all()
    assert differs.mean() < 0.01
    assert as_ensemble(model.get_booster()) == ensemble
    for name in ("model.json", "model.ubj"):
        model.save_model(tmp_path / name)
        assert as_ensemble(tmp_path / name) == ensemble


@pytest.mark.parametrize("case", LIGHTGBM)
def test_lightgbm_predicts_the_same(case, tmp_path):
    data, options = LIGHTGBM[case]
    model = fit_lightgbm(data, **options)
    ensemble = as_ensemble(model)
    rows = np.vstack([threshold_rows(ensemble, 3_000, seed=7), data[0]])
    np.testing.assert_array_equal(ensemble.predict(rows), model.predict(rows))
    model.booster_.save_model(tmp_path / "model.txt")
    from_file = as_ensemble(tmp_path / "model.txt")
    np.testing.assert_array_equal(from_file.class_index(rows), ensemble.class_index(rows))
    assert as_ensemble(model.booster_) == from_file


@pytest.mark.parametrize("case", CATBOOST)
def test_catboost_predicts_the_same(case, tmp_path):
    data, options = CATBOOST[case]
    model = fit_catboost(data, **options)
    ensemble = as_ensemble(model)
    rows = np.vstack([threshold_rows(ensemble, 3_000, seed=7), data[0]])
    np.testing.assert_array_equal(ensemble.predict(rows), np.ravel(model.predict(rows)))
    model.save_model(tmp_path / "model.json", format="json")
    assert as_ensemble(tmp_path / "model.json") == ensemble


@pytest.mark.parametrize("threshold", [0.0, -0.0, 1e-36, -1e-36, ZERO, -ZERO, 5e-324])
@pytest.mark.parametrize("decision", [0, 2, 4, 6, 8, 10])  # every way to treat what is missing, default left or right
def test_tiny_numbers_are_zero_to_lightgbm(threshold, decision):
    lightgbm = pytest.importorskip("lightgbm")
    text = fit_lightgbm(TWO, n_estimators=1, num_leaves=2).booster_.model_to_string()
    for name, value in (("threshold", repr(threshold)), ("decision_type", decision), ("split_feature", 0)):
        text = re.sub(rf"^{name}=.*$", f"{name}={value}", text, flags=re.MULTILINE)
    booster = lightgbm.Booster(model_str=re.sub("tree_sizes=.*\n", "", text))
    near = np.array([0.0, 5e-324, 1e-36, np.nextafter(ZERO, 0), ZERO, np.nextafter(ZERO, 1), 1e-34, 1.0])
    rows = np.zeros((16, 30))
    rows[:, 0] = np.concatenate([near, -near])
    np.testing.assert_array_equal(as_ensemble(booster).predict(rows), booster.predict(rows) > 0.5)


def test_a_wrong_comparison_is_found_by_the_proof():
    model = fit_xgboost(MANY)
    sound = as_ensemble(model)
    for step in (-np.inf, np.inf):  # as if `<` and `<=`, or their rounding, had been mixed up
        wrong = TreeEnsemble(
            sound.feature, np.nextafter(sound.threshold, step), sound.leaf,
            n_features=4, classes=[0, 1, 2], scores=sound.scores, base=sound.base,
        )  # fmt: skip
        with pytest.raises(
            ModelError, match=r"Expected the translation of this XGBClassifier to .* x\[0\] = "
        ) as caught:
            prove(
                wrong, "XGBClassifier", model.predict, lambda X: model.predict(X, output_margin=True), dtype=np.float32
            )
        assert caught.value.row.shape == (4,)

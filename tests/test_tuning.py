"""Scorers that certify."""

import functools

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.model_selection import GridSearchCV, HalvingGridSearchCV, StratifiedShuffleSplit, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler

from certiforest import Attacker, LargeSpreadForestClassifier, RobustBoostingClassifier, certify
from certiforest.tuning import certified_scores, mean_accuracy, robust_accuracy

GRID = {"pool_factor": [2, 3], "shift_range": [(0.5, 1.0), (1.0, 1.5)]}


def forest(**options):
    defaults = {"n_estimators": 5, "max_depth": 3, "eps": 0.02, "method": "prune", "random_state": 0}
    return LargeSpreadForestClassifier(**(defaults | options))


def test_scorers_agree_with_certify(cancer):
    fitted = forest().fit(*cancer)
    found = certify(fitted, *cancer, fitted.attacker_)
    assert robust_accuracy(fitted, *cancer) == found.robust_accuracy
    assert mean_accuracy(fitted, *cancer) == (found.accuracy + found.robust_accuracy) / 2
    assert certified_scores(fitted, *cancer)["accuracy"] == fitted.score(*cancer)


def test_scorers_against_another_attacker(cancer):
    fitted = forest().fit(*cancer)
    weak = functools.partial(robust_accuracy, attacker=Attacker(np.inf, 0.001))
    assert weak(fitted, *cancer) > robust_accuracy(fitted, *cancer)


def test_scorers_name_what_is_missing(cancer):
    with pytest.raises(ValueError, match=r"^Expected an attacker, got none, and RandomForestClassifier"):
        robust_accuracy(RandomForestClassifier(2).fit(*cancer), *cancer)


def test_scorers_as_scoring(cancer):
    assert cross_val_score(forest(), *cancer, cv=2, scoring=robust_accuracy).mean() > 0.5
    split = StratifiedShuffleSplit(1, test_size=0.2, random_state=0)
    grid = GridSearchCV(forest(), GRID, scoring=certified_scores, refit="mean_accuracy", cv=split).fit(*cancer)
    assert set(grid.cv_results_) >= {"mean_test_accuracy", "mean_test_robust_accuracy"}
    assert grid.best_score_ == grid.cv_results_["mean_test_mean_accuracy"].max()


@pytest.mark.parametrize("resource", ["n_samples", "n_estimators"])
def test_a_search_by_halves(cancer, resource):
    options = {"max_resources": 8, "min_resources": 2} if resource == "n_estimators" else {"min_resources": 100}
    attackers = [Attacker(np.inf, 0.001), Attacker("l1", 0.05, frozen=[0]), Attacker(np.inf, 0.3)]
    scoring = functools.partial(robust_accuracy, attacker=Attacker(np.inf, 0.02))
    model = RobustBoostingClassifier(4, 3, 0.3, random_state=0)
    search = HalvingGridSearchCV(
        model, {"attacker": attackers}, scoring=scoring, cv=2, factor=2, resource=resource, random_state=0, **options
    )
    assert np.isfinite(search.fit(*cancer).cv_results_["mean_test_score"]).all()
    assert search.best_estimator_.attacker_ == search.best_params_["attacker"].resolve(30)


SCORERS = [robust_accuracy, mean_accuracy, certified_scores]


@pytest.mark.parametrize("scorer", SCORERS)
def test_a_scorer_of_a_pipeline_attacks_what_certify_attacks(scorer):
    """An attacker is in the units of the rows that are given, everywhere."""
    X, y = load_breast_cancer(return_X_y=True)
    pipeline = make_pipeline(MinMaxScaler(), forest()).fit(X, y)
    attacker = Attacker(np.inf, 0.02, scale=np.ptp(X, axis=0))
    found = certify(pipeline, X, y, attacker)
    assert found.robust_accuracy != robust_accuracy(pipeline, X, y, attacker=attacker, transformed=True)
    scores = found.accuracy, found.robust_accuracy, (found.accuracy + found.robust_accuracy) / 2
    expected = dict(zip(("accuracy", "robust_accuracy", "mean_accuracy"), scores, strict=True))
    assert scorer(pipeline, X, y, attacker=attacker) == expected.get(scorer.__name__, expected)


@pytest.mark.parametrize("scorer", SCORERS)
def test_behind_transformers_rows_are_attacked_only_if_that_is_said(scorer):
    X, y = load_breast_cancer(return_X_y=True)
    pipeline = make_pipeline(MinMaxScaler(), forest()).fit(X, y)
    seen, last = pipeline[:-1].transform(X), pipeline[-1]
    with pytest.raises(ValueError, match=r"^Expected attacker= in the units of X, or transformed=True, got neither"):
        scorer(pipeline, X, y)
    assert scorer(pipeline, X, y, transformed=True) == scorer(last, seen, y)
    weak = Attacker(np.inf, 0.001)
    assert scorer(pipeline, X, y, attacker=weak, transformed=True) == scorer(last, seen, y, attacker=weak)
    assert scorer(last, seen, y, transformed=True) == scorer(last, seen, y)
    bare = make_pipeline("passthrough", forest()).fit(seen, y)
    assert scorer(bare, seen, y) == scorer(bare[-1], seen, y)

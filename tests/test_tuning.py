"""Scorers that certify, and a search that survives being stopped."""

import functools
import json
from contextlib import nullcontext

import joblib
import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import GridSearchCV, ParameterGrid, StratifiedShuffleSplit, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, minmax_scale

from certiforest import Attacker, LargeSpreadForestClassifier, certify
from certiforest.tuning import (
    PAPER_GRID,
    JournalError,
    certified_scores,
    mean_accuracy,
    robust_accuracy,
    search,
)

GRID = {"pool_factor": [2, 3], "shift_range": [(0.5, 1.0), (1.0, 1.5)]}


@pytest.fixture(scope="module")
def cancer():
    X, y = load_breast_cancer(return_X_y=True)
    return minmax_scale(X), y


def forest(**options):
    defaults = {"n_estimators": 5, "max_depth": 3, "eps": 0.02, "method": "prune", "random_state": 0}
    return LargeSpreadForestClassifier(**(defaults | options))


def test_the_papers_grid_has_72_combinations():
    assert len(ParameterGrid(PAPER_GRID)) == 72
    assert set(PAPER_GRID) <= set(forest().get_params())


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


def test_search_finds_what_grid_search_finds(cancer, tmp_path):
    split = StratifiedShuffleSplit(1, test_size=0.2, random_state=0)
    grid = GridSearchCV(forest(), GRID, scoring=mean_accuracy, cv=split).fit(*cancer)
    result = search(forest(), *cancer, GRID, journal=tmp_path / "journal.json")
    assert result.best.params == grid.best_params_
    assert result.best.objective == grid.best_score_
    assert result.best_estimator.ensemble_ == grid.best_estimator_.ensemble_
    assert [trial.objective for trial in result.trials] == grid.cv_results_["mean_test_score"].tolist()


def test_a_stopped_search_goes_on_where_it_stopped(cancer, tmp_path, monkeypatch):
    journal = tmp_path / "journal.json"

    def stop(n_done, n_trials, trial):
        if n_done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        search(forest(), *cancer, GRID, journal=journal, progress=stop)
    n_fits = []
    fit = LargeSpreadForestClassifier.fit
    monkeypatch.setattr(LargeSpreadForestClassifier, "fit", lambda self, *rows: n_fits.append(1) or fit(self, *rows))
    seen = []
    report = lambda n_done, n_trials, trial: seen.append((n_done, n_trials))  # noqa: E731
    result = search(forest(n_jobs=1, verbose=0), *cancer, GRID, journal=journal, progress=report, refit=False)
    assert len(n_fits) == 1
    assert seen == [(1, 4), (2, 4), (3, 4), (4, 4)]
    whole = search(forest(), *cancer, GRID, journal=tmp_path / "other.json", refit=False)
    assert [(t.params, t.scores) for t in result.trials] == [(t.params, t.scores) for t in whole.trials]


@pytest.mark.parametrize("backend", ["loky", "threading", "dask"])
def test_a_search_on_every_backend_of_joblib(cancer, tmp_path, backend):
    alone = search(forest(), *cancer, GRID, journal=tmp_path / "alone.json", refit=False)
    distributed = pytest.importorskip("distributed") if backend == "dask" else None
    with (
        distributed.Client(n_workers=2, threads_per_worker=1, dashboard_address=None) if distributed else nullcontext(),
        joblib.parallel_config(backend, n_jobs=2),
    ):
        together = search(forest(), *cancer, GRID, journal=tmp_path / "together.json", refit=False)
    assert [(t.params, t.scores) for t in alone.trials] == [(t.params, t.scores) for t in together.trials]


def test_a_combination_that_cannot_be_trained_is_written_down(cancer, tmp_path):
    grid = {"n_partitions": [1, 6]}  # five trees do not make six partitions
    result = search(forest(), *cancer, grid, journal=tmp_path / "journal.json", refit=False)
    assert result.best.params == {"n_partitions": 1}
    assert result.trials[1].scores is None
    assert "lower n_partitions" in result.trials[1].error


def test_a_search_in_which_nothing_can_be_trained_says_why(cancer, tmp_path):
    with pytest.raises(ValueError, match=r"^Expected a combination .*, got 2 that .* lower n_partitions"):
        search(forest(), *cancer, {"n_partitions": [6, 7]}, journal=tmp_path / "journal.json")


def in_pipeline():
    return make_pipeline(MinMaxScaler(), forest())


@pytest.mark.parametrize(
    ("estimator", "step", "parameter"),
    [(forest(eps=0.03), 1, "pool_factor"), (forest(), -1, "pool_factor"),
     (in_pipeline(), 1, "largespreadforestclassifier__pool_factor")],
)  # fmt: skip
def test_the_journal_of_another_search_is_refused(cancer, tmp_path, estimator, step, parameter):
    X, y = cancer
    journal = tmp_path / "journal.json"
    search(forest(), X, y, {"pool_factor": [2]}, journal=journal, refit=False)
    with pytest.raises(JournalError, match=r"^Expected .* to be the journal of this search, got one over"):
        search(estimator, X[::step], y[::step], {parameter: [2]}, journal=journal)


NO_TRIALS = '{"format": "certiforest-search", "version": 1, "trials": [], "search": ""}'
NO_SEARCH = '{"format": "certiforest-search", "version": 1, "trials": {}}'
ODD_TRIAL = NO_SEARCH.replace("{}", '{"a": {"scores": {"accuracy": "x"}, "error": null, "seconds": 1}}, "search": ""')


@pytest.mark.parametrize("text", ["", "[]", "{}", NO_TRIALS, ODD_TRIAL, NO_SEARCH, "[" * 100_000])
def test_a_damaged_journal_is_refused(cancer, tmp_path, text):
    journal = tmp_path / "journal.json"
    journal.write_text(text)
    with pytest.raises(JournalError, match=r"^Expected .* to be the journal of a search, got something else"):
        search(forest(), *cancer, GRID, journal=journal)


def test_a_longer_grid_goes_on_from_a_shorter_one(cancer, tmp_path):
    journal = tmp_path / "journal.json"
    search(forest(), *cancer, {"pool_factor": [2]}, journal=journal, refit=False)
    search(forest(), *cancer, {"pool_factor": [2, 3]}, journal=journal, refit=False)
    assert len(json.loads(journal.read_text())["trials"]) == 2


def test_search_over_data_frames(cancer, tmp_path, frames):
    X, y = cancer
    frame = frames.DataFrame({f"x{i}": X[:, i] for i in range(30)})
    result = search(forest(), frame, frames.Series(y), {"pool_factor": [2]}, journal=tmp_path / "journal.json")
    assert result.best_estimator.feature_names_in_[0] == "x0"


def test_a_journal_is_about_the_whole_attacker(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(60, 12))
    y = (X[:, 0] > 0.5).astype(int)
    scale = np.ones(12)
    other = scale.copy()
    other[11] = 2.0  # beyond what repr shows
    forest = LargeSpreadForestClassifier(3, 2, eps=0.05, random_state=0)
    options = {"journal": tmp_path / "journal.json"}
    search(forest, X, y, {"max_depth": [1]}, attacker=Attacker("linf", 0.05, scale=scale), **options)
    with pytest.raises(JournalError):
        search(forest, X, y, {"max_depth": [1]}, attacker=Attacker("linf", 0.05, scale=other), **options)

"""The models that stand side by side: a traditional forest, the paper's, and ours."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from numpy.typing import NDArray
from settings import Setting
from sklearn.ensemble import RandomForestClassifier

from certiforest import LargeSpreadBoostingClassifier, LargeSpreadForestClassifier, TreeEnsemble, as_ensemble

SEED = 0
MOST_PARTITIONS = 12


def _train_traditional(X: NDArray, y: NDArray, setting: Setting) -> tuple[TreeEnsemble, dict[str, Any]]:
    forest = RandomForestClassifier(setting.trees, max_depth=setting.depth, random_state=SEED).fit(X, y)
    return as_ensemble(forest, voting="hard"), {}


def _train_pruned(X: NDArray, y: NDArray, setting: Setting) -> tuple[TreeEnsemble, dict[str, Any]]:
    """Train with the paper's tuned parameters; with more partitions where these do not give all trees."""
    best = None
    for n_partitions in range(setting.tuned["n_partitions"], MOST_PARTITIONS + 1):
        params = {**setting.tuned, "n_partitions": n_partitions}
        ensemble = _fit_forest(X, y, setting, method="prune", on_shortfall="keep", **params)
        if best is None or ensemble.n_trees > best[0].n_trees:
            best = ensemble, params
        if ensemble.n_trees == setting.trees:
            break
    assert best is not None
    return best


def train_as_in_figures(X: NDArray, y: NDArray, setting: Setting) -> tuple[TreeEnsemble, dict[str, Any]]:
    """Prune with the parameters for which the paper measures training: those that take longest."""
    params = {"max_iter": 500, "pool_factor": 6, "shift_range": [1.0, 1.5], "n_partitions": 6}
    return _fit_forest(X, y, setting, method="prune", on_shortfall="keep", **params), params


def _train_grown(X: NDArray, y: NDArray, setting: Setting) -> tuple[TreeEnsemble, dict[str, Any]]:
    return _fit_forest(X, y, setting, method="grow"), {}


def _train_boosted(X: NDArray, y: NDArray, setting: Setting) -> tuple[TreeEnsemble, dict[str, Any]]:
    return _fit(LargeSpreadBoostingClassifier, X, y, setting), {}


def _fit_forest(X: NDArray, y: NDArray, setting: Setting, **params: Any) -> TreeEnsemble:
    if "shift_range" in params:
        params["shift_range"] = tuple(params["shift_range"])
    return _fit(LargeSpreadForestClassifier, X, y, setting, **params)


def _fit(trainer: type, X: NDArray, y: NDArray, setting: Setting, **params: Any) -> TreeEnsemble:
    estimator = trainer(
        n_estimators=setting.trees, max_depth=setting.depth, eps=setting.eps, random_state=SEED, n_jobs=1, **params
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a shortfall is in the result: the number of trees
        return as_ensemble(estimator.fit(X, y))


Train = Callable[[NDArray, NDArray, Setting], tuple[TreeEnsemble, dict[str, Any]]]
#: What stands side by side; a further model is one more entry.
MODELS: dict[str, Train] = {
    "traditional": _train_traditional,
    "pruned": _train_pruned,
    "grown": _train_grown,
    "boosted": _train_boosted,
}
LARGE_SPREAD = tuple(kind for kind in MODELS if kind != "traditional")


def model_name(kind: str, setting: Setting) -> str:
    """Return the name of the cell, and of the file, of a model."""
    if kind == "traditional":  # trained without an attacker, but certified for one
        return f"{kind}-{setting.trees}x{setting.depth}-certified-{setting.eps:g}"
    return f"{kind}-{setting.trees}x{setting.depth}-{setting.eps:g}"

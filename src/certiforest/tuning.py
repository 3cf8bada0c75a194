"""Tuning: scorers that certify, the paper's grid, and a search that goes on where it was stopped.

Every scorer is a plain function ``scorer(estimator, X, y)``, made to be given as ``scoring=`` to
scikit-learn; ``functools.partial(scorer, attacker=...)`` scores against another attacker than the one trained
for.
"""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.model_selection import ParameterGrid, StratifiedShuffleSplit
from sklearn.pipeline import Pipeline

from certiforest.attack.attacker import Attacker
from certiforest.certification import certify
from certiforest.files import write_atomically
from certiforest.training.forest import ShortfallError

#: The 72 combinations that the paper searches for each dataset, size and budget.
PAPER_GRID: dict[str, list] = {
    "max_iter": [100, 500],
    "pool_factor": [2, 4, 6],
    "shift_range": [(0.5, 1.0), (1.0, 1.5)],
    "n_partitions": [1, 2, 3, 4, 5, 6],
}
JOURNAL_FORMAT = "certiforest-search"
JOURNAL_VERSION = 1
SCORES = ("accuracy", "robust_accuracy", "mean_accuracy")
WITHOUT_EFFECT = ("callback", "verbose", "n_jobs")  # on the result of training


class JournalError(ValueError):
    """A journal is damaged, or belongs to another search."""


def robust_accuracy(
    estimator: Any, X: Any, y: Any, *, attacker: Attacker | None = None, transformed: bool = False
) -> float:
    """Return the share of rows that are proved robust, as ``certify(estimator, X, y, attacker)`` does.

    Parameters
    ----------
    estimator : fitted estimator
        Anything that `certify` takes.
    X : array-like or data frame of shape (n, n_features)
    y : array-like of shape (n,)
    attacker : Attacker, optional
        In the units of ``X``. If not given, the one that the estimator was trained for; a pipeline whose last step was
        trained behind transformers is refused then, because that attacker is in other units.
    transformed : bool, default=False
        For pipelines: attack rows as the last step sees them, behind all transformers, in the units there.

    Returns
    -------
    float
        Rows for which nothing could be proved do not count as robust. Classes that the estimator was told are not
        attacked (``attacked``) are not attacked here.
    """
    return certified_scores(estimator, X, y, attacker=attacker, transformed=transformed)["robust_accuracy"]


def mean_accuracy(
    estimator: Any, X: Any, y: Any, *, attacker: Attacker | None = None, transformed: bool = False
) -> float:
    """Return the mean of accuracy and robust accuracy; see `robust_accuracy`."""
    return certified_scores(estimator, X, y, attacker=attacker, transformed=transformed)["mean_accuracy"]


def certified_scores(
    estimator: Any, X: Any, y: Any, *, attacker: Attacker | None = None, transformed: bool = False
) -> dict[str, float]:
    """Return ``accuracy``, ``robust_accuracy`` and ``mean_accuracy``; see `robust_accuracy`.

    As ``scoring=`` of a search it records all three; ``refit="mean_accuracy"`` then chooses by their mean.
    """
    last, is_transformed = estimator, False
    if isinstance(estimator, Pipeline):
        last = estimator[-1]
        is_transformed = any(step not in (None, "passthrough") for _, step in estimator.steps[:-1])
    if transformed and last is not estimator:
        X, estimator, is_transformed = estimator[:-1].transform(X), last, False
    if attacker is None:
        attacker = getattr(last, "attacker_", None)
        if attacker is None:
            raise ValueError(
                f"Expected an attacker, got none, and {type(last).__name__} was not trained for one;"
                " use functools.partial(scorer, attacker=Attacker(...))."
            )
        if is_transformed:
            raise ValueError(
                f"Expected attacker= in the units of X, or transformed=True, got neither: {type(last).__name__} was"
                " trained for an attacker in the units behind the pipeline's transformers. Use"
                " functools.partial(scorer, attacker=Attacker(...)), or functools.partial(scorer, transformed=True)"
                " to attack rows as the last step sees them."
            )
    found = certify(estimator, X, y, attacker, attacked=getattr(last, "attacked_", None)).unless_interrupted()
    accuracy, robust = found.accuracy, found.robust_accuracy
    return dict(zip(SCORES, (accuracy, robust, (accuracy + robust) / 2), strict=True))


@dataclass(frozen=True)
class Trial:
    """One combination of parameters, and what came of it.

    ``scores`` is what `certified_scores` returned on the validation rows, None if training failed; ``error``
    is then the reason.
    """

    params: dict[str, Any]
    scores: dict[str, float] | None
    error: str | None
    seconds: float

    @property
    def objective(self) -> float:
        """Mean of accuracy and robust accuracy; minus infinity if training failed."""
        return -math.inf if self.scores is None else self.scores["mean_accuracy"]


@dataclass(frozen=True)
class SearchResult:
    """All trials in the order of the grid, the best of them, and the estimator it gives on all rows."""

    trials: list[Trial]
    best: Trial
    best_estimator: BaseEstimator | None


def search(
    estimator: BaseEstimator,
    X: Any,
    y: Any,
    grid: Mapping[str, Sequence] | Sequence[Mapping[str, Sequence]] = PAPER_GRID,
    *,
    journal: str | Path,
    attacker: Attacker | None = None,
    validation_share: float = 0.2,
    random_state: int = 0,
    refit: bool = True,
    n_jobs: int | None = None,
    progress: Callable[[int, int, Trial], None] | None = None,
) -> SearchResult:
    """Try every combination of a grid on a stratified validation set, writing down each result at once.

    A search that was stopped, in whatever way, goes on where it stopped when it is called again with the same
    arguments: trials found in the journal are not run again. A longer grid goes on from a shorter one, too.

    Parameters
    ----------
    estimator : estimator
        `LargeSpreadForestClassifier` or a pipeline that ends in one; give it an int as ``random_state``.
    X : array-like or data frame of shape (n, n_features)
    y : array-like of shape (n,)
    grid : dict of lists, or list of such, default=PAPER_GRID
        As for `sklearn.model_selection.GridSearchCV`.
    journal : path
        JSON file that keeps the trials; written whole or not at all.
    attacker : Attacker, optional
        Whom the validation rows are certified against; the one trained for, if not given.
    validation_share : float, default=0.2
        Share of rows that trials are scored on and not trained on.
    random_state : int, default=0
        Which rows those are.
    refit : bool, default=True
        Whether to train the best combination on all rows in the end.
    n_jobs : int, optional
        How many trials run at once, by joblib: None means 1, or what ``joblib.parallel_config`` says, whose backend
        (processes, threads, ``"dask"``) is taken.
    progress : callable, optional
        Called as ``progress(n_done, n_trials, trial)`` after every trial, those from the journal included.

    Returns
    -------
    SearchResult
        The best trial has the highest mean of accuracy and robust accuracy, the first of several.

    Raises
    ------
    JournalError
        If the journal is damaged or was written by a search over other data, estimator or split.
    ValueError
        If no combination can be trained.
    """
    combinations = list(ParameterGrid(grid))
    split = StratifiedShuffleSplit(n_splits=1, test_size=validation_share, random_state=random_state)
    train, validate = next(split.split(np.zeros(len(y)), y))
    fingerprint = _fingerprint(estimator, X, y, combinations, attacker, validation_share, random_state)
    known = _read_journal(Path(journal), fingerprint)
    rows = _rows(X, train), _rows(y, train), _rows(X, validate), _rows(y, validate)
    trials = []
    missing = {key: params for params in combinations if (key := _key(params)) not in known}
    # Trials come back in their order: what is done is in the journal, but for some that overtook an earlier one.
    tried = Parallel(n_jobs=n_jobs, return_as="generator")(
        delayed(_try)(clone(estimator).set_params(**params), *rows, attacker) for params in missing.values()
    )
    for n_done, params in enumerate(combinations, start=1):
        key = _key(params)
        if key not in known:
            known[key] = next(tried)
            _write_journal(Path(journal), fingerprint, known)
        trials.append(replace(known[key], params=params))
        if progress is not None:
            progress(n_done, len(combinations), trials[-1])
    best = max(trials, key=lambda trial: trial.objective)
    if best.scores is None:
        raise ValueError(
            f"Expected a combination that can be trained, got {len(trials)} that cannot; the first says: {best.error}"
        )
    return SearchResult(trials, best, clone(estimator).set_params(**best.params).fit(X, y) if refit else None)


def _try(
    estimator: BaseEstimator, X: Any, y: Any, X_validate: Any, y_validate: Any, attacker: Attacker | None
) -> Trial:
    start = time.perf_counter()
    scores, error = None, None
    try:
        scores = certified_scores(estimator.fit(X, y), X_validate, y_validate, attacker=attacker)
    except (ShortfallError, ValueError) as failure:
        error = str(failure)
    return Trial({}, scores, error, time.perf_counter() - start)


def _rows(table: Any, rows: NDArray[np.int64]) -> Any:
    """Return some rows of an array, a list or a pandas or polars frame or series."""
    if hasattr(table, "iloc"):
        return table.iloc[rows]
    return table[rows] if hasattr(table, "shape") else np.asarray(table)[rows]


def _key(params: Mapping[str, Any]) -> str:
    return json.dumps(params, sort_keys=True, default=repr)


def _fingerprint(
    estimator: BaseEstimator,
    X: Any,
    y: Any,
    combinations: list[dict],
    attacker: Attacker | None,
    validation_share: float,
    random_state: int,
) -> str:
    """Return a digest of all that the result of a trial depends on but its own parameters."""
    searched = set().union(*combinations)
    fixed = [
        (name, _plain(value))
        for name, value in sorted(estimator.get_params().items())
        if name not in searched and name.split("__")[-1] not in WITHOUT_EFFECT
    ]
    against = None if attacker is None else attacker.to_document()  # the whole of it, which repr would cut
    described = [type(estimator).__name__, fixed, against, validation_share, random_state]
    digest = hashlib.sha256(json.dumps(described, default=repr).encode())
    for table in (np.asarray(X), np.asarray(y)):
        digest.update(f"{table.dtype}{table.shape}".encode())
        digest.update(repr(table.tolist()).encode() if table.dtype == object else table.tobytes())
    return digest.hexdigest()


def _plain(value: Any) -> Any:
    """Return a parameter as text-like data that is the same in every process."""
    if hasattr(value, "get_params"):  # its own parameters are listed, too
        return type(value).__name__
    if isinstance(value, (list, tuple)):
        return [_plain(entry) for entry in value]
    return value.tolist() if isinstance(value, np.ndarray) else repr(value)


def _read_journal(path: Path, fingerprint: str) -> dict[str, Trial]:
    if not path.exists():
        return {}
    try:
        if not path.is_file():  # a pipe without a writer would be waited for without end
            raise ValueError
        document = json.loads(path.read_text(encoding="utf-8"))
        is_journal = (document["format"], document["version"]) == (JOURNAL_FORMAT, JOURNAL_VERSION)
        found, known = document["search"], {key: _read_trial(entry) for key, entry in document["trials"].items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        is_journal = False
    if not is_journal:
        raise JournalError(f"Expected {path} to be the journal of a search, got something else; name another file.")
    if found != fingerprint:
        raise JournalError(
            f"Expected {path} to be the journal of this search, got one over other rows or parameters,"
            " or with another split; name another file, or remove it to start anew."
        )
    return known


def _read_trial(entry: dict[str, Any]) -> Trial:
    scores, error, seconds = entry["scores"], entry["error"], float(entry["seconds"])
    if scores is not None:
        scores = {name: float(scores[name]) for name in SCORES}
    if (scores is None) != isinstance(error, str):
        raise ValueError("A trial has scores, or an error.")
    return Trial({}, scores, error, seconds)


def _write_journal(path: Path, fingerprint: str, known: dict[str, Trial]) -> None:
    trials = {
        key: {"scores": trial.scores, "error": trial.error, "seconds": trial.seconds} for key, trial in known.items()
    }
    document = {"format": JOURNAL_FORMAT, "version": JOURNAL_VERSION, "search": fingerprint, "trials": trials}
    write_atomically(path, json.dumps(document, indent=1))

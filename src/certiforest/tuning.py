"""Tuning: scorers that certify, made to be given as ``scoring=`` to scikit-learn's searches.

Every scorer is a plain function ``scorer(estimator, X, y)``; ``functools.partial(scorer, attacker=...)`` scores against
another attacker than the one trained for.
"""

from __future__ import annotations

from typing import Any

from sklearn.pipeline import Pipeline

from certiforest.attack.attacker import Attacker
from certiforest.certification import certify


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
    return {"accuracy": accuracy, "robust_accuracy": robust, "mean_accuracy": (accuracy + robust) / 2}

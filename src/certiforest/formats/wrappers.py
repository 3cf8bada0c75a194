"""scikit-learn's wrappers around models: searches, thresholds, pipelines, votes, boosts and calibrations of trees.

What they decide is brought back to one ensemble in the columns that they themselves take, or refused.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    StackingClassifier,
    VotingClassifier,
)
from sklearn.model_selection import FixedThresholdClassifier, GridSearchCV, TunedThresholdClassifierCV
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier, OutputCodeClassifier
from sklearn.pipeline import Pipeline
from sklearn.tree import DecisionTreeClassifier

from certiforest.ensemble import ModelError, TreeEnsemble
from certiforest.ensemble.categories import are_numbers
from certiforest.ensemble.tree_kernels import LARGEST
from certiforest.formats.float32_rows import LARGEST_ROUNDED
from certiforest.formats.folding import fold, last_left
from certiforest.formats.library_code import is_of
from certiforest.formats.opened import Function, Opened, asker
from certiforest.formats.pipelines import PipelineSteps
from certiforest.formats.sklearn_models import refuse_unfitted, takes_missing

SEARCH = GridSearchCV.__mro__[1]  # what all searches are
THRESHOLDS = (FixedThresholdClassifier, TunedThresholdClassifierCV)
COMBINED = (VotingClassifier, BaggingClassifier, AdaBoostClassifier)
NO_SUM = {
    StackingClassifier: "a model of models' predictions; give the models one by one",
    OneVsRestClassifier: "a largest of several models' probabilities; fit one model of all classes instead",
    OneVsOneClassifier: "a vote of pairs of classes; fit one model of all classes instead",
    OutputCodeClassifier: "a code of several models' predictions; fit one model of all classes instead",
}
WRAPPERS = (SEARCH, Pipeline, CalibratedClassifierCV, *THRESHOLDS, *COMBINED, *NO_SUM)

Enter = Callable[..., Opened]  # of a model, and whether its probabilities are needed


def is_wrapper(model: Any) -> bool:
    """Tell whether a model is one of scikit-learn's wrappers."""
    return isinstance(model, WRAPPERS)


def has_parts(model: Any) -> bool:
    """Tell whether a model, or a step of a pipeline, is made of others."""
    return isinstance(model, (*WRAPPERS, ColumnTransformer))


def parts_of(model: Any) -> list[Any]:
    """Return the fitted models and steps that decide what a wrapper predicts."""
    name = type(model).__name__
    for kind, what in NO_SUM.items():
        if isinstance(model, kind):
            raise ModelError(f"Expected a sum or vote of trees, got {name}, {what}.")
    if isinstance(model, SEARCH) and not model.refit:
        raise ModelError(f"Expected a {name} with its best model, got refit=False; fit with refit=True.")
    refuse_unfitted(model)
    if isinstance(model, SEARCH):
        return [model.best_estimator_]
    if isinstance(model, Pipeline):
        return [step for _, step in model.steps if step not in (None, "passthrough")]
    if isinstance(model, ColumnTransformer):
        return [step for _, step, _ in model.transformers_ if not isinstance(step, str)]
    if isinstance(model, THRESHOLDS):
        return [model.estimator_]
    if isinstance(model, CalibratedClassifierCV):
        return [part for c in model.calibrated_classifiers_ for part in (c.estimator, *c.calibrators)]
    return list(model.estimators_)


def open_wrapper(model: Any, enter: Enter, threshold: float | None) -> Opened:
    """Translate a fitted wrapper; ``threshold`` is what will be put on it, ``enter`` opens the models inside."""
    name = type(model).__name__
    if isinstance(model, THRESHOLDS):
        opened = _open_threshold(model, enter)
    elif isinstance(model, SEARCH):
        opened = enter(model.best_estimator_, needs_probability=threshold is not None)
    elif isinstance(model, Pipeline):
        opened = _open_pipeline(model, enter(model.steps[-1][1], needs_probability=threshold is not None))
    elif isinstance(model, CalibratedClassifierCV):
        opened = _open_calibrated(model, enter)
    elif isinstance(model, AdaBoostClassifier):
        opened = _open_weighted(model, enter)
    else:
        opened = _open_mean(model, enter)

    ask = opened.ask or asker({}, _names_of(model))

    def predict(rows: NDArray[np.float64]) -> NDArray:
        return model.predict(ask(rows))

    row = np.full(opened.ensemble.n_features, np.nan)
    for f in opened.ensemble.required:
        values = (opened.ensemble.categories or {}).get(f, ())
        row[f] = values[0] if are_numbers(values) else float(not values)  # numbers: 1 has a logarithm
    if not takes_missing(predict, row):
        opened = opened._replace(ensemble=opened.ensemble.of_numbers)
    return opened._replace(name=name, predict=predict)


def _names_of(model: Any) -> Any:
    """Return the names of columns, None if there are none; a pipeline asks its first step, which may be no object."""
    return getattr(parts_of(model)[0] if isinstance(model, Pipeline) else model, "feature_names_in_", None)


def _open_threshold(model: Any, enter: Enter) -> Opened:
    """Translate a model with a threshold of its own."""
    opened = enter(model.estimator_, needs_probability=True)
    fitted, fixed = isinstance(model, TunedThresholdClassifierCV), getattr(model, "threshold", None)
    method = model.response_method
    if method == "auto":
        method = "predict_proba" if hasattr(model.estimator_, "predict_proba") else "decision_function"
    positive = getattr(model, "pos_label", None)
    if method != "predict_proba" or positive not in (None, model.classes_[1]):
        raise ModelError(
            "Expected a threshold on the probability of the second class, got one on"
            f" {method} of the class {positive!r}; give the model inside and as_ensemble(..., threshold=...)."
        )
    cut: Any = model.best_threshold_ if fitted else 0.5 if fixed == "auto" else fixed
    return opened.with_threshold(float(cut))._replace(has_threshold=True)


def _open_calibrated(model: Any, enter: Enter) -> Opened:
    """Translate one model with a calibration that never turns the order: a threshold on what the model says."""
    if len(model.calibrated_classifiers_) != 1 or len(model.classes_) != 2:
        raise ModelError(
            "Expected one model of two classes in a CalibratedClassifierCV, got"
            f" {len(model.calibrated_classifiers_)} of {len(model.classes_)}, a mean of models that are no sum; fit"
            " with ensemble=False."
        )
    (fitted,) = model.calibrated_classifiers_
    (calibrator,) = fitted.calibrators
    slope = -calibrator.a_ if fitted.method == "sigmoid" else float(getattr(calibrator, "increasing_", False))
    if fitted.method not in ("sigmoid", "isotonic") or not slope > 0:
        raise ModelError("Expected a calibration, sigmoid or isotonic, that rises with the score, got another.")
    opened = enter(fitted.estimator, needs_probability=True)
    ask = opened.ask or asker({}, _names_of(model))
    inner = float if hasattr(fitted.estimator, "decision_function") else opened.sum_at  # what the calibration looks at
    ends = (-LARGEST, LARGEST) if inner is float else (0.0, 1.0)
    if inner is None:
        raise ModelError(f"Expected probabilities that sums of trees stand for, got {opened.name}.")

    def sum_at(probability: float) -> float:
        """Return the sum of the first score that is calibrated to a probability."""

        def is_below(score: NDArray[np.float64]) -> NDArray[np.bool_]:
            with np.errstate(over="ignore"):
                return np.asarray(calibrator.predict(score)) < probability

        if is_below(np.array(ends)).tolist() != [True, False]:
            raise ModelError(
                f"Expected calibrated probabilities on both sides of {probability:.3g}, got one side only."
            )
        (last,) = last_left(is_below, *np.array(ends)[:, None])
        return float(inner(float(np.nextafter(last, np.inf))))

    # The second class is said where its probability is larger than that of the first.
    usual, score = float(np.nextafter(0.5, 1.0)), lambda rows: model.predict_proba(ask(rows))[:, 1]
    has_steps = fitted.method == "isotonic"
    return opened._replace(score=score, sum_at=sum_at, n_averaged=0, usual_threshold=usual, has_steps=has_steps)


def _open_mean(model: Any, enter: Enter) -> Opened:
    """Translate a mean of probabilities that are means themselves."""
    name, parts = type(model).__name__, parts_of(model)
    is_hard = isinstance(model, VotingClassifier) and model.voting == "hard"
    if is_hard and not all(isinstance(part, DecisionTreeClassifier) for part in parts):
        raise ModelError(
            f"Expected a vote of trees, got a {name} that votes by what whole models predict; use voting='soft'."
        )
    n_features, classes = model.n_features_in_, model.classes_
    weights = [1.0] * len(parts)
    if isinstance(model, VotingClassifier) and model.weights is not None:
        weights = [w for w, (_, given) in zip(model.weights, model.estimators, strict=True) if given != "drop"]
    columns = getattr(model, "estimators_features_", [np.arange(n_features)] * len(parts))
    members = []
    for part, weight, places in zip(parts, weights, columns, strict=True):
        opened = enter(part, needs_probability=not is_hard)
        ensemble = opened.ensemble
        if not opened.n_averaged and ensemble.combine != "vote":
            raise ModelError(
                f"Expected means of what trees say in a {name}, got {opened.name}, whose probabilities are no sum of"
                " its trees'; give the models one by one."
            )
        table = np.eye(ensemble.n_classes) if ensemble.scores is None else ensemble.scores
        scores = np.zeros((len(table), len(classes)))
        # Models inside learn the numbers of classes; of some of them, where their rows had no others.
        learned = slice(None) if ensemble.n_classes == len(classes) else [int(label) for label in ensemble.classes]
        scores[:, learned] = table * (weight / ensemble.n_trees)
        members.append((ensemble, np.asarray(places), scores))
    ensemble = _joined(members, classes, n_features, getattr(model, "feature_names_in_", None))
    ask, total = asker({}, _names_of(model)), float(np.sum(weights))
    if is_hard:
        return Opened(ensemble, name)
    return Opened(
        ensemble,
        name,
        raw=lambda rows: model.predict_proba(ask(rows)) * total,
        score=lambda rows: model.predict_proba(ask(rows))[:, 1],
        sum_at=lambda score: Fraction(total) * Fraction(score),
        n_averaged=len(parts),
    )


def _open_weighted(model: Any, enter: Enter) -> Opened:
    """Translate AdaBoost: each tree adds its weight to the class it votes for, and takes from the others."""
    if not all(isinstance(part, DecisionTreeClassifier) for part in model.estimators_):
        raise ModelError(
            "Expected an AdaBoostClassifier of trees, got one of other models, whose votes are no sum of trees."
        )
    classes, weights = model.classes_, model.estimator_weights_[: len(model.estimators_)]
    n, members = len(classes), []
    for part, weight in zip(model.estimators_, weights.tolist(), strict=True):
        voted = np.full((n, n), -weight / (n - 1))
        np.fill_diagonal(voted, weight)
        ensemble = enter(part, needs_probability=False).ensemble
        scores = voted[np.searchsorted(classes, ensemble.classes)]
        members.append((ensemble, np.arange(model.n_features_in_), scores[:, 1:] if n == 2 else scores))
    ensemble = _joined(members, classes, model.n_features_in_, getattr(model, "feature_names_in_", None))
    ask, total = asker({}, _names_of(model)), weights.sum() / (2 if n == 2 else 1)
    return Opened(ensemble, "AdaBoostClassifier", raw=lambda rows: model.decision_function(ask(rows)) * total)


def _joined(
    members: list[tuple[TreeEnsemble, NDArray, NDArray]], classes: NDArray, n_features: int, names: Any
) -> TreeEnsemble:
    """Put ensembles together that have columns and scores of their own."""
    ensembles = [ensemble for ensemble, _, _ in members]
    if any(ensemble.subset is not None or ensemble.blanks is not None for ensemble in ensembles):
        raise ModelError(
            "Expected models of thresholds inside a wrapper, got splits on categories or numbers as missing."
        )
    starts = np.cumsum([0] + [len(scores) for _, _, scores in members])
    may_miss = all(ensemble.missing_left is not None for ensemble in ensembles)
    required = {int(columns[f]) for ensemble, columns, _ in members for f in ensemble.required}
    ensembles = ensembles if may_miss else [ensemble.of_numbers for ensemble in ensembles]
    return TreeEnsemble(
        np.concatenate(
            [np.where(e.feature < 0, -1, c[e.feature]) for e, (_, c, _) in zip(ensembles, members, strict=True)]
        ),
        np.concatenate([e.threshold for e in ensembles]),
        np.concatenate([np.where(e.leaf < 0, -1, e.leaf + s) for e, s in zip(ensembles, starts[:-1], strict=True)]),
        n_features=n_features,
        classes=classes,
        feature_names=None if names is None else names.tolist(),
        scores=np.concatenate([scores for _, _, scores in members]),
        missing_left=np.concatenate([e.missing_left for e in ensembles]) if may_miss else None,
        required=sorted(required),
    )


def _open_pipeline(model: Pipeline, opened: Opened) -> Opened:
    """Fold the steps before a model into its splits."""
    names, last, first = _names_of(model), model.steps[-1][1], parts_of(model)[0]
    made = (lambda rows: rows) if opened.ask is not None else asker({}, _names_of(last))
    limit = _largest_taken(lambda rows: last.predict(made(rows)), np.zeros(opened.ensemble.n_features))
    absent = np.nan if is_of("xgboost", last) else 0.0
    steps = PipelineSteps(model[:-1], names, first.n_features_in_, absent, limit)
    ensemble = fold(opened.ensemble, steps).with_columns(None if names is None else names.tolist())
    after = opened.asked_by(lambda rows: made(steps.transform(rows)))
    return after._replace(ensemble=ensemble, ask=steps.ask)


def _largest_taken(predict: Function, row: NDArray[np.float64]) -> float:
    """Return the largest number that a model takes, infinity if it takes that."""
    return next((x for x in (np.inf, LARGEST) if takes_missing(predict, row + x)), LARGEST_ROUNDED)

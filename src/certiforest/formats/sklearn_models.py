"""scikit-learn's tree classifiers, translated to what they do on float64 rows and compared.

Trees, forests and gradient boosting round rows to float32 and compare with float64 thresholds; histogram gradient
boosting compares in float64. Forests average the probabilities of their trees, here a sum; the majority of their trees
is another model, which ``voting="hard"`` asks for.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    IsolationForest,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
from sklearn.utils.validation import check_is_fitted

from certiforest.ensemble import ModelError, Nodes, TreeEnsemble
from certiforest.ensemble.scores import ScoreTable
from certiforest.ensemble.tree_kernels import LARGEST
from certiforest.formats.float32_rows import deployed_thresholds
from certiforest.formats.opened import LOGISTIC_SLACK, Opened, asker, log_odds, unfitted

TREES = (DecisionTreeClassifier, DecisionTreeRegressor)
FORESTS = (RandomForestClassifier, ExtraTreesClassifier, RandomForestRegressor, ExtraTreesRegressor)
BOOSTED = (GradientBoostingClassifier, GradientBoostingRegressor)
HISTOGRAM = (HistGradientBoostingClassifier, HistGradientBoostingRegressor)
REGRESSORS = (DecisionTreeRegressor, *FORESTS[2:], BOOSTED[1], HISTOGRAM[1])
# Strategies of dummies that look at no row and draw no lot.
CONSTANT = ("prior", "most_frequent", "constant", "mean", "median", "quantile")
# What a prediction of histogram boosting was as a sum, by loss.
REGRESSION: dict[str, Callable[[float], float]] = dict.fromkeys(("squared_error", "absolute_error", "quantile"), float)
REGRESSION |= dict.fromkeys(("poisson", "gamma"), math.log)


def is_sklearn_model(model: Any) -> bool:
    """Tell whether a model is one that `open_sklearn` takes."""
    return isinstance(model, (*FORESTS, *BOOSTED, *HISTOGRAM, *TREES, IsolationForest))


def refuse_unfitted(model: Any) -> None:
    """Refuse an estimator of scikit-learn that has learned nothing yet."""
    try:
        check_is_fitted(model)
    except ValueError:
        raise unfitted(model) from None


def content_of_sklearn(model: Any) -> list[NDArray]:
    """Return the arrays that decide what a fitted classifier predicts, but for the plain attributes that it has."""
    refuse_unfitted(model)
    if isinstance(model, HISTOGRAM):
        parts = [p for round_ in model._predictors for p in round_]
        arrays = [array for p in parts for array in (p.nodes, p.raw_left_cat_bitsets)]
        _, known = _categories_of(model)
        texts = [np.array([str(value) for value in values], "U") for values in known.values()]
        return [*arrays, np.asarray(model._baseline_prediction), *texts]
    if isinstance(model, IsolationForest):
        learned = [*model.estimators_features_, *model._decision_path_lengths, *model._average_path_length_per_tree]
        return [*learned, *(tree.tree_.__getstate__()["nodes"] for tree in model.estimators_)]
    states = [tree.tree_.__getstate__() for tree in _trees_of(model)]
    arrays = [state[column] for state in states for column in ("nodes", "values")]
    return [*arrays, _base_of(model)] if isinstance(model, BOOSTED) else arrays


def _trees_of(model: Any) -> list:
    return [model] if isinstance(model, TREES) else np.ravel(model.estimators_).tolist()


def _base_of(model: Any) -> NDArray[np.float64]:
    """Return where the sums of gradient boosting begin."""
    init = model.init_
    if init != "zero" and not (isinstance(init, (DummyClassifier, DummyRegressor)) and init.strategy in CONSTANT):
        raise ModelError(
            f"Expected init to be None or 'zero', got {type(init).__name__}: sums that begin with another model's"
            " prediction are not supported."
        )
    return model._raw_predict_init(np.zeros((1, model.n_features_in_)))[0]


def open_sklearn(model: Any, voting: str | None, *, needs_probability: bool) -> Opened:
    """Translate a fitted model. ``voting`` is for forests; a single tree has probabilities only if they are needed."""
    name = type(model).__name__
    if isinstance(model, BOOSTED):
        trees = _trees_of(model)  # by rounds, within each by outputs
        nodes = [translate_tree(tree.tree_, may_miss=False) for tree in trees]
        scores = [model.learning_rate * tree.tree_.value[:, 0, 0] for tree in trees]
        return _add_up(model, name, nodes, scores, _base_of(model), second_wins_ties=True)
    if isinstance(model, HISTOGRAM):
        return _open_histogram_boosting(model, name)
    if model.n_outputs_ != 1:
        raise ModelError(f"Expected a model with one output, got a {name} with {model.n_outputs_}.")
    asks_mean = needs_probability or isinstance(model, FORESTS)
    is_mean = isinstance(model, REGRESSORS) or (voting != "hard" and asks_mean)
    return _open_trees(model, name, is_vote=not is_mean)


def _open_trees(model: Any, name: str, *, is_vote: bool) -> Opened:
    """Translate a tree or forest by the majority of its trees, or the mean of what leaves hold.

    That is probabilities, or a regressor's values.
    """
    trees, is_regressor = _trees_of(model), isinstance(model, REGRESSORS)
    may_miss = takes_missing(model.predict, np.full(model.n_features_in_, np.nan))
    classes = np.array([0, 1]) if is_regressor else model.classes_
    table, nodes = ScoreTable(1 if is_regressor else len(classes)), []
    for tree in (tree.tree_ for tree in trees):
        value = tree.value[:, :, 0] if is_regressor else tree.value[:, 0, :]
        leaf = value.argmax(axis=1) if is_vote else table.add(value, is_leaf=leaves_of(tree))
        nodes.append(translate_tree(tree, leaf, may_miss=may_miss))
    scores = None if is_vote else table.table()
    ensemble = TreeEnsemble.from_trees(nodes, **_columns(model), classes=classes, scores=scores)

    def mean(rows: NDArray) -> NDArray:
        return model.predict(rows) if is_regressor else model.predict_proba(rows)

    def shares(rows: NDArray) -> NDArray:
        votes = np.zeros((len(rows), len(classes)), np.int64)
        for tree in trees:
            votes[np.arange(len(rows)), tree.predict_proba(rows).argmax(axis=1)] += 1
        return votes / len(trees)

    if is_vote:
        return Opened(
            ensemble,
            name,
            predict=lambda rows: classes[shares(rows).argmax(axis=1)],
            score=lambda rows: shares(rows)[:, 1],
        )
    return Opened(
        ensemble,
        name,
        predict=model.predict,
        raw=lambda rows: mean(rows) * len(trees),
        score=lambda rows: mean(rows) if is_regressor else mean(rows)[:, 1],
        sum_at=lambda score: len(trees) * Fraction(score),
        is_regressor=is_regressor,
        n_averaged=len(trees),
    )


def _open_histogram_boosting(model: Any, name: str) -> Opened:
    if isinstance(model, REGRESSORS) and model.loss not in REGRESSION:
        raise ModelError(f"Expected one of the losses {', '.join(REGRESSION)}, got {model.loss!r} of {name}.")
    predictors = [predictor for round_ in model._predictors for predictor in round_]
    place, values = _categories_of(model)
    subsets: list[NDArray] = []
    trees = [_translate_histogram_tree(predictor, place, values, subsets) for predictor in predictors]
    base = np.ravel(model._baseline_prediction)
    scores = [predictor.nodes["value"] for predictor in predictors]
    known = {f: (found if found.dtype.kind == "U" else found.astype(float)).tolist() for f, found in values.items()}
    if not known:
        return _add_up(model, name, trees, scores, base, second_wins_ties=False)
    # To what was not seen, and to what is missing, splits do the same.
    sets = {"subsets": subsets, "categories": known, "unseen": dict.fromkeys(known, "other")}
    opened = _add_up(model, name, trees, scores, base, second_wins_ties=False, **sets)
    return opened.asked_by(asker(known, getattr(model, "feature_names_in_", None)))


def _categories_of(model: Any) -> tuple[NDArray[np.int64], dict[int, NDArray]]:
    """Return the column that each feature of the trees is, and by column the values that an encoder numbers."""
    preprocessor = getattr(model, "_preprocessor", None)
    if preprocessor is None:
        is_categorical = model.is_categorical_
        if is_categorical is not None and is_categorical.any():
            raise ModelError("Expected categories with an encoder, got none; this version of the library is not known.")
        return np.arange(model.n_features_in_), {}
    is_categorical = model.is_categorical_
    place = np.concatenate([np.flatnonzero(is_categorical), np.flatnonzero(~is_categorical)])
    known = [
        np.asarray([v for v in found.tolist() if v == v and v is not None])
        for found in preprocessor.named_transformers_["encoder"].categories_
    ]
    return place, dict(zip(np.flatnonzero(is_categorical).tolist(), known, strict=True))


def _add_up(
    model: Any,
    name: str,
    trees: list[Nodes],
    scores: list[NDArray],
    base: NDArray,
    *,
    second_wins_ties: bool,
    **sets: Any,
) -> Opened:
    """Make an ensemble of trees that add to the outputs by turns; ``sets`` is what it knows about categories."""
    n_outputs, is_regressor = len(base), isinstance(model, REGRESSORS)
    # With a single output, the first class wins ties here; where the second does in the model, it has to come first.
    sign = -1 if second_wins_ties and n_outputs == 1 else 1
    table = ScoreTable(n_outputs)
    ensemble = TreeEnsemble.from_trees(
        [
            tree._replace(leaf=table.add(sign * score, i % n_outputs, np.asarray(tree.left) == -1))
            for i, (tree, score) in enumerate(zip(trees, scores, strict=True))
        ],
        **_columns(model),
        classes=([0, 1] if is_regressor else model.classes_.tolist())[::sign],
        scores=table.table(),
        base=sign * base,
        **sets,
    )
    unit = 0.5 if getattr(model, "loss", None) == "exponential" else 1.0  # of log-odds
    link = REGRESSION.get(model.loss, float) if is_regressor else None
    return Opened(
        ensemble,
        name,
        predict=model.predict,
        raw=lambda rows: sign * (model.predict if is_regressor else model.decision_function)(rows),
        score=lambda rows: model.predict(rows) if is_regressor else model.predict_proba(rows)[:, 1],
        sum_at=link or (lambda score: unit * log_odds(score)) if n_outputs == 1 else None,
        sign=sign,
        slack=0.0 if link is float else LOGISTIC_SLACK,
        is_regressor=is_regressor,
        has_softmax=n_outputs > 1,
    )


def _columns(model: Any) -> dict[str, Any]:
    names = getattr(model, "feature_names_in_", None)
    return {"n_features": model.n_features_in_, "feature_names": None if names is None else names.tolist()}


def takes_missing(predict: Callable[[NDArray], Any], row: NDArray[np.float64]) -> bool:
    """Tell whether a model predicts a row of NaN; that may depend on its version, its options, what is around it."""
    with warnings.catch_warnings(), np.errstate(over="ignore"):  # where it is rounded to float32
        warnings.simplefilter("ignore", UserWarning)  # that the row is without the names of its columns
        try:
            predict(row[None])
        except ValueError:
            return False
    return True


def leaves_of(tree: Any) -> NDArray[np.bool_]:
    """Tell which nodes of a tree are leaves."""
    return tree.children_left == -1


def translate_tree(tree: Any, leaf: NDArray | None = None, *, may_miss: bool) -> Nodes:
    """Return a tree that rounds rows to float32, its leaves as given."""
    nodes = tree.__getstate__()["nodes"]
    categorical = [name for name in nodes.dtype.names if "cat" in name]
    if any(np.any(nodes[name]) for name in categorical):
        raise ModelError(
            "Expected thresholds only, got categorical splits, which are not supported;"
            " fit with one-hot encoded categories instead."
        )
    return Nodes(
        left=tree.children_left,
        right=tree.children_right,
        feature=tree.feature,
        threshold=deployed_thresholds(tree.threshold),
        leaf=np.full(tree.node_count, -1) if leaf is None else leaf,
        missing_left=nodes["missing_go_to_left"] != 0 if may_miss else None,
    )


def _translate_histogram_tree(
    predictor: Any, place: NDArray[np.int64], values: dict[int, NDArray], subsets: list[NDArray]
) -> Nodes:
    nodes = predictor.nodes
    is_leaf = nodes["is_leaf"].astype(bool)
    threshold = np.where(is_leaf, 0.0, nodes["num_threshold"])
    feature = place[np.where(is_leaf, 0, nodes["feature_idx"].astype(np.int64))]
    left, right = (np.where(is_leaf, -1, nodes[side].astype(np.int64)) for side in ("left", "right"))
    missing_left = ~is_leaf & (nodes["missing_go_to_left"] != 0)
    is_set = ~is_leaf & (nodes["is_categorical"] != 0)
    subset = np.full(len(nodes), -1)
    for node in np.flatnonzero(is_set):
        words = predictor.raw_left_cat_bitsets[nodes["bitset_idx"][node]]
        known = values[int(feature[node])]
        is_left = np.array([words[code // 32] >> (code % 32) & 1 for code in range(len(known))], bool)
        # What was not seen goes where missing values go: the other known ones are the set.
        codes = np.flatnonzero(is_left != missing_left[node])
        subset[node] = len(subsets)
        subsets.append(known[codes].astype(np.float64) if known.dtype.kind in "biuf" else codes.astype(np.float64))
    swaps = is_set & missing_left
    return Nodes(
        left=np.where(swaps, right, left),
        right=np.where(swaps, left, right),
        feature=feature,
        # Infinity parts missing values from all others: no number goes right.
        threshold=np.where(is_set, np.nan, np.where(np.isposinf(threshold), LARGEST, threshold)),
        leaf=np.full(len(nodes), -1),
        missing_left=missing_left & ~is_set,
        subset=subset,
    )

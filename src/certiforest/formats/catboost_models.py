"""CatBoost's classifiers, from objects and from the JSON files they are saved to.

The JSON is read as data, without CatBoost. It rounds rows to float32 and sends them right iff ``x > border``. Most of
its trees are symmetric: all splits of one level are the same, and the outcomes are the bits of the leaf's index, the
first split the lowest.
"""

from __future__ import annotations

import math
import re
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from certiforest.ensemble import ModelError, Nodes, TreeEnsemble
from certiforest.ensemble.documents import entries, entry, integer, integers, numbers, read_json, sound, string
from certiforest.ensemble.numbers import shown
from certiforest.formats.float32_rows import deployed_thresholds, singles
from certiforest.formats.opened import LOGISTIC_SLACK, Opened, log_odds
from certiforest.formats.score_table import ScoreTable

CATBOOST_KEYS = re.compile(rb'"(oblivious_trees|features_info)"\s*:')
CATBOOST_BINARY = b"CBM1"
LOSSES = ("Logloss", "MultiClass", "MultiClassOneVsAll")
REGRESSION = ("RMSE", "MAE")  # the sum is the prediction
LABEL_TYPES = {"Integer": int, "Float": float, "String": str, "Boolean": bool}


def is_catboost_model(model: Any) -> bool:
    """Tell whether a model is one of CatBoost's."""
    catboost = sys.modules.get("catboost")
    return catboost is not None and isinstance(model, catboost.CatBoost)


def content_of_catboost(model: Any) -> bytes:
    """Return all that decides what a fitted ``CatBoostClassifier`` predicts, as JSON."""
    import catboost

    name = type(model).__name__
    if not isinstance(model, (catboost.CatBoostClassifier, catboost.CatBoostRegressor)):
        raise ModelError(f"Expected a CatBoostClassifier or CatBoostRegressor, got {name}.")
    if not model.is_fitted():
        raise ModelError(f"Expected a fitted model, got an unfitted {name}; call fit first.")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.json"
        try:
            model.save_model(str(path), format="json")
        except catboost.CatBoostError as error:
            raise ModelError(
                f"Expected a model that CatBoost can write as JSON, got one it cannot ({error})."
            ) from None
        return path.read_bytes()


def open_catboost(model: Any, content: bytes) -> Opened:
    """Translate a model, given its content."""
    classes = getattr(model, "classes_", None)
    opened = _translate(_read(content), classes if classes is not None and len(classes) else None)

    def score(rows: NDArray) -> NDArray:
        return model.predict(rows) if opened.is_regressor else model.predict_proba(rows)[:, 1]

    return opened._replace(
        name=type(model).__name__,
        predict=lambda rows: np.ravel(model.predict(rows)).astype(opened.ensemble.classes.dtype),
        raw=lambda rows: model.predict(rows, prediction_type="RawFormulaVal"),
        score=score,
    )


def parse_catboost(content: bytes, *, source: str = "the content") -> Opened:
    """Read what ``save_model(path, format="json")`` writes; ``source`` names it in errors."""
    with sound(source, "CatBoost classifier"):
        if content.startswith(CATBOOST_BINARY):
            raise ModelError("Expected JSON, got CatBoost's binary format; save with save_model(path, format='json').")
        return _translate(_read(content), None)


def _read(content: bytes) -> Any:
    """Read JSON in which every number is a float: at another one CatBoost stops, and knows only the trees before it."""

    def whole(text: str) -> int:
        finite(text)
        return int(text)

    def finite(text: str) -> float:
        value = float(text)
        if math.isinf(value):
            raise ModelError(f"Expected numbers within the range of floats, got {shown(text)}.")
        return value

    return read_json(content, finite, whole)


def _translate(document: Any, classes: ArrayLike | None) -> Opened:
    loss = string(document, "model_info", "params", "loss_function", "type")
    if loss not in LOSSES + REGRESSION:
        raise ModelError(f"Expected one of the losses {', '.join(LOSSES + REGRESSION)}, got {shown(loss)}.")
    is_regressor = loss in REGRESSION
    if str(entry(document, "model_info").get("binclass_probability_threshold", "0.5")) != "0.5":
        raise ModelError("Expected classes to be parted at probability 0.5, got a model with a threshold of its own.")
    labels = [0, 1] if is_regressor else _read_labels(entry(document, "model_info", "class_params"))
    scale, *bias = entries(document, "scale_and_bias") or [None]
    if type(scale) not in (int, float) or scale != 1 or len(bias) != 1:
        raise ModelError(f"Expected sums with a bias that are not scaled, got the scale {shown(scale)}.")
    base = numbers({"bias": bias[0]}, "bias")
    n_outputs = 1 if loss in ("Logloss", *REGRESSION) else len(labels)
    if len(base) != n_outputs or len(labels) < 2:
        raise ModelError(f"Expected a bias for each of {n_outputs} outputs, got {len(base)}.")
    columns, names = _read_features(document)
    table = ScoreTable(n_outputs)
    if _has(document, "oblivious_trees") == _has(document, "trees"):
        raise ModelError("Expected trees or oblivious_trees, got neither or both.")
    if _has(document, "trees"):
        trees = [_read_nested(i, t, columns, table) for i, t in enumerate(entries(document, "trees"))]
    else:
        trees = [_read_symmetric(i, t, columns, table) for i, t in enumerate(entries(document, "oblivious_trees"))]
    ensemble = TreeEnsemble.from_trees(
        trees,
        n_features=int(columns.place.max()) + 1,
        classes=labels if classes is None else classes,
        feature_names=names,
        scores=table.table(),
        base=base,
    )
    return Opened(
        ensemble,
        "this file of CatBoost",
        sum_at=float if is_regressor else log_odds if loss == "Logloss" else None,
        slack=0.0 if is_regressor else LOGISTIC_SLACK,
        is_regressor=is_regressor,
    )


def _has(document: Any, name: str) -> bool:
    return isinstance(document, dict) and name in document


def _read_labels(parameters: Any) -> list:
    labels = entries(parameters, "class_names")
    kind = string(parameters, "class_label_type")
    if not all(type(label) is LABEL_TYPES.get(kind) for label in labels):
        raise ModelError(f"Expected class_names of the class_label_type {shown(kind)}, got {shown(labels)}.")
    if integers(parameters, "class_to_label").tolist() != list(range(len(labels))):
        raise ModelError("Expected class_to_label to number the classes in order, got another order.")
    if _has(parameters, "classes_count") and integer(parameters, "classes_count") not in (0, len(labels)):
        raise ModelError(f"Expected classes_count to be 0 or {len(labels)}, the number of class_names, got another.")
    return labels


class _Columns(NamedTuple):
    """The columns that trees may test, and all borders that they have; splits point to them by ``split_index``."""

    place: NDArray[np.int64]  # of each float feature in a row
    missing_left: NDArray[np.bool_]  # of each float feature: whether NaN is below all borders, else above
    feature: NDArray[np.int64]  # of each border, its float feature
    border: NDArray[np.float32]


def _read_features(document: Any) -> tuple[_Columns, list[str] | None]:
    info = entry(document, "features_info")
    for kind in info if isinstance(info, dict) else ():
        if kind.endswith("_features") and kind != "float_features" and entries(document, "features_info", kind):
            raise ModelError(
                f"Expected features that are numbers, got {kind.replace('_', ' ')}, splits on which are not supported;"
                " fit with one-hot encoded categories instead."
            )
    features = entries(document, "features_info", "float_features")
    place = np.array([integer(feature, "flat_feature_index", may_be_text=False) for feature in features], np.int64)
    if not len(place) or place.min() < 0 or (np.diff(place) <= 0).any():
        raise ModelError("Expected features that are numbers, each with a flat_feature_index above the last, got none.")
    if [integer(feature, "feature_index", may_be_text=False) for feature in features] != list(range(len(features))):
        raise ModelError("Expected float_features to be numbered in order by feature_index, got another order.")
    borders = [
        singles(feature, "borders") if _has(feature, "borders") else np.empty(0, np.float32) for feature in features
    ]
    if not all(np.isfinite(own).all() and (np.diff(own) > 0).all() for own in borders):
        raise ModelError("Expected the borders of each feature to be finite and to rise, got others.")
    treatment = [string(feature, "nan_value_treatment") for feature in features]
    if not set(treatment) <= {"AsIs", "AsFalse", "AsTrue"}:
        raise ModelError(f"Expected nan_value_treatment to be AsIs, AsFalse or AsTrue, got {shown(treatment)}.")
    if [entry(feature, "has_nans") for feature in features] != [word != "AsIs" for word in treatment]:
        raise ModelError("Expected has_nans where nan_value_treatment is not AsIs, got it otherwise.")
    names = [str(feature.get("feature_id", "")) for feature in features]
    keeps_names = all(names) and place.tolist() == list(range(len(place)))
    of_border = np.repeat(np.arange(len(features)), [len(own) for own in borders])
    missing_left = np.array([word != "AsTrue" for word in treatment])
    return _Columns(place, missing_left, of_border, np.concatenate(borders)), names if keeps_names else None


def _read_split(index: int, split: Any, columns: _Columns) -> tuple[int, float, bool]:
    """Return feature, border and whether NaN goes left.

    The file gives the border twice: with the split, and at its index in all borders.
    """
    kind = string(split, "split_type")
    if kind != "FloatFeature":
        raise ModelError(f"Expected thresholds only, got a split of the kind {shown(kind)} in tree {index}.")
    # CatBoost reads a number that is written as text as 0.
    feature, place = (integer(split, name, may_be_text=False) for name in ("float_feature_index", "split_index"))
    (border,) = singles({"border": [entry(split, "border")]}, "border")
    if not 0 <= place < len(columns.border) or (feature, border) != (columns.feature[place], columns.border[place]):
        raise ModelError(
            f"Expected a split of tree {index} to have the feature and border that its split_index {place} has in"
            " features_info, got others."
        )
    return int(columns.place[feature]), float(border), bool(columns.missing_left[feature])


def _read_symmetric(index: int, tree: Any, columns: _Columns, table: ScoreTable) -> Nodes:
    splits = [_read_split(index, split, columns) for split in entries(tree, "splits")]
    depth = len(splits)
    value = numbers(tree, "leaf_values")
    if depth > 20 or len(value) != table.n_outputs << depth:
        raise ModelError(f"Expected {table.n_outputs} scores for each of 2**{depth} leaves of tree {index}.")
    n_inner, n_leaves = 2**depth - 1, 2**depth
    # Nodes by levels: those of level i are 2**i - 1 to 2**(i+1) - 2, and the last outcome is the last bit of a place.
    level = np.repeat(np.arange(depth), 2 ** np.arange(depth))
    columns_of_splits = zip(*splits, strict=True) if depth else ([], [], [])
    feature, border, missing_left = (np.array(column)[level] for column in columns_of_splits)
    bits = np.arange(n_leaves)[:, None] >> np.arange(depth)[::-1] & 1
    leaf = table.add(value.reshape(n_leaves, -1)[bits @ (1 << np.arange(depth))])
    left = 2 * np.arange(n_inner) + 1
    none = np.full(n_leaves, -1)
    return Nodes(
        left=np.concatenate([left, none]),
        right=np.concatenate([left + 1, none]),
        feature=np.concatenate([np.asarray(feature, np.int64), none]),
        threshold=np.concatenate([deployed_thresholds(np.asarray(border, np.float64)), np.zeros(n_leaves)]),
        leaf=np.concatenate([np.full(n_inner, -1), leaf]),
        missing_left=np.concatenate([np.asarray(missing_left, bool), np.zeros(n_leaves, bool)]),
    )


def _read_nested(index: int, tree: Any, columns: _Columns, table: ScoreTable) -> Nodes:
    nodes: tuple[list[Any], ...] = ([], [], [], [], [], [])
    left, right, feature, border, leaf, missing_left = nodes
    waiting: list[tuple[Any, list[int] | None, int]] = [(tree, None, 0)]
    while waiting:
        node, children, parent = waiting.pop()
        if children is not None:
            children[parent] = len(left)
        if _has(node, "split"):
            f, v, m = _read_split(index, entry(node, "split"), columns)
            waiting += [(entry(node, "right"), right, len(left)), (entry(node, "left"), left, len(left))]
            row = -1
        else:
            value = entry(node, "value")
            scores = numbers({"value": value if isinstance(value, list) else [value]}, "value", size=table.n_outputs)
            f, v, m, row = -1, 0.0, False, int(table.add(scores[None])[0])
        for column, number in zip(nodes, (-1, -1, f, v, row, m), strict=True):
            column.append(number)
    return Nodes(left, right, feature, deployed_thresholds(np.array(border)), leaf, missing_left)

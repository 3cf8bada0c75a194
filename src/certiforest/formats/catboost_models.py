"""CatBoost's classifiers, from objects and from the JSON files they are saved to.

The JSON is read as data, without CatBoost. It rounds rows to float32 and sends them right iff ``x > border``. Most of
its trees are symmetric: all splits of one level are the same, and the outcomes are the bits of the leaf's index, the
first split the lowest. A split on a category sends one value right, which it knows by its hash. What CatBoost makes of
the target's statistics of categories (CTR) is refused.
"""

from __future__ import annotations

import math
import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from certiforest.ensemble import ModelError, Nodes, TreeEnsemble
from certiforest.ensemble.categories import HASHES, text_of
from certiforest.ensemble.documents import entries, entry, has, integer, integers, numbers, read_json, sound, string
from certiforest.ensemble.scores import ScoreTable
from certiforest.formats.float32_rows import deployed_thresholds, singles
from certiforest.formats.opened import LOGISTIC_SLACK, Function, Opened, check_fitted, log_odds
from certiforest.words import shown

CATBOOST_KEYS = re.compile(rb'"(oblivious_trees|features_info)"\s*:')
CATBOOST_BINARY = b"CBM1"
LOSSES = ("Logloss", "MultiClass", "MultiClassOneVsAll")
# What a prediction was as a sum, by loss.
REGRESSION: dict[str, Callable[[float], float]] = dict.fromkeys(
    ("RMSE", "MAE", "Quantile", "MAPE", "Huber", "LogCosh", "Expectile"), float
)
REGRESSION |= dict.fromkeys(("Poisson", "Tweedie"), math.log)
LABEL_TYPES = {"Integer": (int,), "Float": (float, int), "String": (str,), "Boolean": (bool,)}  # it writes 1 for 1.0


def content_of_catboost(model: Any) -> bytes:
    """Return all that decides what a fitted ``CatBoostClassifier`` predicts, in CatBoost's own, quickest format."""
    import catboost

    check_fitted(model, catboost.CatBoostClassifier, catboost.CatBoostRegressor)
    return _written(model, "cbm")


def _written(model: Any, form: str) -> bytes:
    import catboost

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        try:
            model.save_model(str(path), format=form)
        except catboost.CatBoostError as error:
            raise ModelError(
                f"Expected a model that CatBoost can write as {form}, got one it cannot ({error})."
            ) from None
        return path.read_bytes()


def open_catboost(model: Any, content: bytes) -> Opened:
    """Translate a model; its content, which is not read, only tells that it is still the same."""
    classes = getattr(model, "classes_", None)
    opened = _translate(_read(_written(model, "json")), classes if classes is not None and len(classes) else None)

    def score(rows: NDArray) -> NDArray:
        return model.predict(rows) if opened.is_regressor else model.predict_proba(rows)[:, 1]

    opened = opened._replace(
        name=type(model).__name__,
        predict=lambda rows: np.ravel(model.predict(rows)).astype(opened.ensemble.classes.dtype),
        raw=lambda rows: model.predict(rows, prediction_type="RawFormulaVal"),
        score=score,
    )
    return opened.asked_by(with_texts(list(opened.ensemble.unseen))) if opened.ensemble.unseen else opened


def with_texts(columns: list[int]) -> Function:
    """Return what makes of rows such that have texts in the place of hashes."""

    def ask(rows: NDArray[np.float64]) -> Any:
        cells = rows.astype(object)
        for f in columns:
            texts = {number: text_of(int(number)) for number in np.unique(rows[:, f]).tolist()}
            cells[:, f] = [texts[number] for number in rows[:, f].tolist()]
        return cells

    return ask


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
    if loss not in (*LOSSES, *REGRESSION):
        raise ModelError(f"Expected one of the losses {', '.join((*LOSSES, *REGRESSION))}, got {shown(loss)}.")
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
    if has(document, "oblivious_trees") == has(document, "trees"):
        raise ModelError("Expected trees or oblivious_trees, got neither or both.")
    if has(document, "trees"):
        trees = [_read_nested(i, t, columns, table) for i, t in enumerate(entries(document, "trees"))]
    else:
        trees = [_read_symmetric(i, t, columns, table) for i, t in enumerate(entries(document, "oblivious_trees"))]
    categorical = columns.of_categories.tolist()
    ensemble = TreeEnsemble.from_trees(
        trees,
        n_features=max([*columns.place.tolist(), *categorical]) + 1,
        classes=labels if classes is None else classes,
        feature_names=names,
        scores=table.table(),
        base=base,
        subsets=[[HASHES + value % 2**32] for value in columns.value.tolist()] if categorical else None,
        categories=dict.fromkeys(categorical, ()) or None,
        unseen=dict.fromkeys(categorical, "hashed"),
        required=categorical,
    )
    return Opened(
        ensemble,
        "this file of CatBoost",
        sum_at=REGRESSION.get(loss, log_odds if loss == "Logloss" else None),
        slack=0.0 if REGRESSION.get(loss) is float else LOGISTIC_SLACK,
        is_regressor=is_regressor,
        has_softmax=loss == "MultiClass",
    )


def _read_labels(parameters: Any) -> list:
    labels = entries(parameters, "class_names")
    kind = string(parameters, "class_label_type")
    types = LABEL_TYPES.get(kind, ())
    if not all(type(label) in types for label in labels):
        raise ModelError(f"Expected class_names of the class_label_type {shown(kind)}, got {shown(labels)}.")
    if integers(parameters, "class_to_label").tolist() != list(range(len(labels))):
        raise ModelError("Expected class_to_label to number the classes in order, got another order.")
    if has(parameters, "classes_count") and integer(parameters, "classes_count") not in (0, len(labels)):
        raise ModelError(f"Expected classes_count to be 0 or {len(labels)}, the number of class_names, got another.")
    return [types[0](label) for label in labels]


class _Columns(NamedTuple):
    """The columns that trees may test, and all borders and values that they have; splits point to them, in this order.

    Values are hashes of categories.
    """

    place: NDArray[np.int64]  # of each float feature in a row
    missing_left: NDArray[np.bool_]  # of each float feature: whether NaN is below all borders, else above
    feature: NDArray[np.int64]  # of each border, its float feature
    border: NDArray[np.float32]
    of_categories: NDArray[np.int64]  # of each categorical feature, its place in a row
    category: NDArray[np.int64]  # of each value, its categorical feature
    value: NDArray[np.int64]


class _Split(NamedTuple):
    """A split: ``subset`` is the number of the value that goes right, -1 where there is a border."""

    feature: int
    border: float
    missing_left: bool
    subset: int


LEAF = _Split(-1, 0.0, missing_left=False, subset=-1)


def _read_features(document: Any) -> tuple[_Columns, list[str] | None]:
    info = entry(document, "features_info")
    for kind in info if isinstance(info, dict) else ():
        is_known = kind in ("float_features", "categorical_features")
        if not is_known and (kind.endswith("_features") or kind == "ctrs") and entries(document, "features_info", kind):
            raise ModelError(
                "Expected numbers and categories that are compared one by one, got"
                f" {'statistics of the target (CTR)' if kind == 'ctrs' else kind.replace('_', ' ')}, numbers that"
                " CatBoost makes of other rows; fit with one_hot_max_size of at least the number of categories."
            )
    features, categorical = (
        entries(info, kind) if has(info, kind) else [] for kind in ("float_features", "categorical_features")
    )
    place, of_categories = _places(features), _places(categorical)
    if not len(features) + len(categorical) or set(place) & set(of_categories):
        raise ModelError("Expected features, each with a flat_feature_index of its own, got none or one twice.")
    borders = [
        singles(feature, "borders") if has(feature, "borders") else np.empty(0, np.float32) for feature in features
    ]
    if not all(np.isfinite(own).all() and (np.diff(own) > 0).all() for own in borders):
        raise ModelError("Expected the borders of each feature to be finite and to rise, got others.")
    values = [integers(feature, "values") if has(feature, "values") else np.empty(0, int) for feature in categorical]
    if not all(len({*own.tolist()}) == len(own) and ((own >= -(2**31)) & (own < 2**31)).all() for own in values):
        raise ModelError("Expected the values of each category to be hashes of 32 bits, each once, got others.")
    treatment = [string(feature, "nan_value_treatment") for feature in features]
    if not set(treatment) <= {"AsIs", "AsFalse", "AsTrue"}:
        raise ModelError(f"Expected nan_value_treatment to be AsIs, AsFalse or AsTrue, got {shown(treatment)}.")
    has_nans = [entry(feature, "has_nans") for feature in features]
    if not all(found is (word != "AsIs") for found, word in zip(has_nans, treatment, strict=True)):  # 1 is not true
        raise ModelError("Expected has_nans where nan_value_treatment is not AsIs, got it otherwise.")
    by_place = dict(zip([*place, *of_categories], [*features, *categorical], strict=True))
    names = [str(by_place[f].get("feature_id", "")) for f in sorted(by_place)]
    keeps_names = all(names) and sorted(by_place) == list(range(len(by_place)))
    columns = _Columns(
        place=np.array(place, np.int64),
        missing_left=np.array([word != "AsTrue" for word in treatment], bool),
        feature=np.repeat(np.arange(len(features)), [len(own) for own in borders]),
        border=np.concatenate([np.empty(0, np.float32), *borders]),
        of_categories=np.array(of_categories, np.int64),
        category=np.repeat(np.arange(len(categorical)), [len(own) for own in values]),
        value=np.concatenate([np.empty(0, np.int64), *values]),
    )
    return columns, names if keeps_names else None


def _places(features: list[Any]) -> list[int]:
    """Return the places of features in a row, which rise."""
    place = [integer(feature, "flat_feature_index", may_be_text=False) for feature in features]
    if min(place, default=0) < 0 or sorted({*place}) != place:
        raise ModelError("Expected features each with a flat_feature_index above the last, got others.")
    if [integer(feature, "feature_index", may_be_text=False) for feature in features] != list(range(len(features))):
        raise ModelError("Expected features of a kind to be numbered in order by feature_index, got another order.")
    return place


def _read_split(index: int, split: Any, columns: _Columns) -> _Split:
    """Read a split. The file gives its border or value twice: with the split, and at its index in all of them."""
    kind = string(split, "split_type")
    if kind not in ("FloatFeature", "OneHotFeature"):
        raise ModelError(f"Expected borders and values only, got a split of the kind {shown(kind)} in tree {index}.")
    is_set = kind == "OneHotFeature"
    # CatBoost reads a number that is written as text as 0.
    names = ("cat_feature_index" if is_set else "float_feature_index", "split_index")
    feature, place = (integer(split, name, may_be_text=False) for name in names)
    if is_set:
        given: Any = integer(split, "value", may_be_text=False)
        owner, place = columns.category, place - len(columns.border)
    else:
        (given,) = singles({"border": [entry(split, "border")]}, "border")
        owner = columns.feature
    number: NDArray = columns.value if is_set else columns.border
    if not 0 <= place < len(number) or (feature, given) != (owner[place], number[place]):
        raise ModelError(
            f"Expected a split of tree {index} to have the feature and the border or value that its split_index has in"
            " features_info, got others."
        )
    if is_set:
        return _Split(int(columns.of_categories[feature]), math.nan, missing_left=False, subset=place)
    return _Split(int(columns.place[feature]), float(given), bool(columns.missing_left[feature]), subset=-1)


def _read_symmetric(index: int, tree: Any, columns: _Columns, table: ScoreTable) -> Nodes:
    written = [] if has(tree, "splits") and tree["splits"] is None else entries(tree, "splits")
    splits = [_read_split(index, split, columns) for split in written]
    depth = len(splits)
    value = numbers(tree, "leaf_values")
    if depth > 20 or len(value) != table.n_outputs << depth:
        raise ModelError(f"Expected {table.n_outputs} scores for each of 2**{depth} leaves of tree {index}.")
    n_inner, n_leaves = 2**depth - 1, 2**depth
    # Nodes by levels: those of level i are 2**i - 1 to 2**(i+1) - 2, and the last outcome is the last bit of a place.
    level = np.repeat(np.arange(depth), 2 ** np.arange(depth))
    splits = [splits[i] for i in level]
    bits = np.arange(n_leaves)[:, None] >> np.arange(depth)[::-1] & 1
    leaf = table.add(value.reshape(n_leaves, -1)[bits @ (1 << np.arange(depth))])
    left = 2 * np.arange(n_inner) + 1
    none = np.full(n_leaves, -1)
    sides = np.concatenate([left, none]), np.concatenate([left + 1, none])
    return _as_nodes(*sides, [*splits, *[LEAF] * n_leaves], np.concatenate([np.full(n_inner, -1), leaf]))


def _as_nodes(left: ArrayLike, right: ArrayLike, splits: list[_Split], leaf: ArrayLike) -> Nodes:
    """Return nodes, of which those that test for a value send it left."""
    feature, border, missing_left, subset = (np.array(column) for column in zip(*splits, strict=True))
    is_set = subset >= 0
    threshold = deployed_thresholds(np.where(is_set, 0.0, border))
    return Nodes(
        left=np.where(is_set, right, left),
        right=np.where(is_set, left, right),
        feature=feature,
        threshold=np.where(is_set, np.nan, threshold),
        leaf=leaf,
        missing_left=missing_left,
        subset=subset,
    )


def _read_nested(index: int, tree: Any, columns: _Columns, table: ScoreTable) -> Nodes:
    left, right, leaf, splits = list[int](), list[int](), list[int](), list[_Split]()
    waiting: list[tuple[Any, list[int] | None, int]] = [(tree, None, 0)]
    while waiting:
        node, children, parent = waiting.pop()
        if children is not None:
            children[parent] = len(left)
        if has(node, "split"):
            splits.append(_read_split(index, entry(node, "split"), columns))
            waiting += [(entry(node, "right"), right, len(left)), (entry(node, "left"), left, len(left))]
            leaf.append(-1)
        else:
            value = entry(node, "value")
            scores = numbers({"value": value if isinstance(value, list) else [value]}, "value", size=table.n_outputs)
            splits.append(LEAF)
            leaf.append(int(table.add(scores[None])[0]))
        left.append(-1)
        right.append(-1)
    return _as_nodes(left, right, splits, leaf)

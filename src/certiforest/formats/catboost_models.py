"""CatBoost's classifiers, from objects and from the JSON files they are saved to.

The JSON is read as data, without CatBoost. It rounds rows to float32 and sends them right iff ``x > border``. Most of
its trees are symmetric: all splits of one level are the same, and the outcomes are the bits of the leaf's index, the
first split the lowest.
"""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from certiforest.ensemble import ModelError, Nodes, TreeEnsemble
from certiforest.formats.documents import entries, entry, integer, integers, numbers, read_json, singles
from certiforest.formats.float32_rows import deployed_thresholds
from certiforest.formats.proof import prove
from certiforest.formats.score_table import ScoreTable

CATBOOST_KEYS = re.compile(rb'"(oblivious_trees|features_info)"\s*:')
CATBOOST_BINARY = b"CBM1"
LOSSES = ("Logloss", "MultiClass", "MultiClassOneVsAll")


def is_catboost_model(model: Any) -> bool:
    """Tell whether a model is one of CatBoost's."""
    catboost = sys.modules.get("catboost")
    return catboost is not None and isinstance(model, catboost.CatBoost)


def translate_catboost(model: Any) -> TreeEnsemble:
    """Translate a fitted ``CatBoostClassifier`` and prove the translation."""
    import catboost

    name = type(model).__name__
    if not isinstance(model, catboost.CatBoostClassifier):
        raise ModelError(f"Expected a CatBoostClassifier, got {name}.")
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
        content = path.read_bytes()
    ensemble = _translate(read_json(content), model.classes_)
    prove(
        ensemble,
        name,
        predict=lambda rows: np.ravel(model.predict(rows)).astype(ensemble.classes.dtype),
        raw=lambda rows: model.predict(rows, prediction_type="RawFormulaVal"),
    )
    return ensemble


def parse_catboost(content: bytes, *, source: str = "the content") -> TreeEnsemble:
    """Read what ``save_model(path, format="json")`` writes; ``source`` names it in errors."""
    try:
        if content.startswith(CATBOOST_BINARY):
            raise ModelError("Expected JSON, got CatBoost's binary format; save with save_model(path, format='json').")
        return _translate(read_json(content), None)
    except ModelError as error:
        raise ModelError(f"{source} is not a sound CatBoost classifier. {error}") from None


def _translate(document: Any, classes: ArrayLike | None) -> TreeEnsemble:
    info = entry(document, "model_info")
    loss = entry(info, "params", "loss_function", "type")
    if loss not in LOSSES:
        raise ModelError(f"Expected one of the losses {', '.join(LOSSES)}, got {str(loss)[:40]!r}.")
    if str(info.get("binclass_probability_threshold", "0.5")) != "0.5":
        raise ModelError("Expected classes to be parted at probability 0.5, got a model with a threshold of its own.")
    labels = entries(info, "class_params", "class_names")
    if not all(isinstance(label, (bool, int, float, str)) for label in labels):
        raise ModelError("Expected plain labels as class_names, got others.")
    if integers(info, "class_params", "class_to_label").tolist() != list(range(len(labels))):
        raise ModelError("Expected class_to_label to number the classes in order, got another order.")
    scale, *bias = entries(document, "scale_and_bias") or [None]
    if scale != 1 or len(bias) != 1:
        raise ModelError(f"Expected sums with a bias that are not scaled, got the scale {str(scale)[:40]}.")
    base = numbers({"bias": bias[0]}, "bias")
    n_outputs = 1 if loss == "Logloss" else len(labels)
    if len(base) != n_outputs or len(labels) < 2:
        raise ModelError(f"Expected a bias for each of {n_outputs} outputs, got {len(base)}.")
    for kind, others in entry(document, "features_info").items():
        if kind.endswith("_features") and kind != "float_features" and others:
            raise ModelError(
                f"Expected features that are numbers, got {kind.replace('_', ' ')}, splits on which are not supported;"
                " fit with one-hot encoded categories instead."
            )
    features = entries(document, "features_info", "float_features")
    place = np.array([integer(feature, "flat_feature_index") for feature in features], np.int64)
    if not len(place) or place.min() < 0:
        raise ModelError("Expected features that are numbers, got none.")
    names = [str(feature.get("feature_id", "")) for feature in features]
    keeps_names = all(names) and place.tolist() == list(range(len(place)))
    table = ScoreTable(n_outputs)
    if "oblivious_trees" in document:
        trees = [_read_symmetric(i, t, place, table) for i, t in enumerate(entries(document, "oblivious_trees"))]
    else:
        trees = [_read_nested(i, t, place, table) for i, t in enumerate(entries(document, "trees"))]
    return TreeEnsemble.from_trees(
        trees,
        n_features=int(place.max()) + 1,
        classes=labels if classes is None else classes,
        feature_names=names if keeps_names else None,
        scores=table.table(),
        base=base,
    )


def _read_split(index: int, split: Any, place: NDArray[np.int64]) -> tuple[int, float]:
    """Return feature and border."""
    kind = entry(split, "split_type")
    if kind != "FloatFeature":
        raise ModelError(f"Expected thresholds only, got a split of the kind {str(kind)[:40]!r} in tree {index}.")
    feature = integer(split, "float_feature_index")
    if not 0 <= feature < len(place):
        raise ModelError(f"Expected float_feature_index between 0 and {len(place) - 1} in tree {index}, got {feature}.")
    (border,) = singles({"border": [entry(split, "border")]}, "border")
    if not np.isfinite(border):
        raise ModelError(f"Expected finite borders, got another in tree {index}.")
    return int(place[feature]), float(border)


def _read_symmetric(index: int, tree: Any, place: NDArray[np.int64], table: ScoreTable) -> Nodes:
    splits = [_read_split(index, split, place) for split in entries(tree, "splits")]
    depth = len(splits)
    value = numbers(tree, "leaf_values")
    if depth > 20 or len(value) != table.n_outputs << depth:
        raise ModelError(f"Expected {table.n_outputs} scores for each of 2**{depth} leaves of tree {index}.")
    n_inner, n_leaves = 2**depth - 1, 2**depth
    # Nodes by levels: those of level i are 2**i - 1 to 2**(i+1) - 2, and the last outcome is the last bit of a place.
    level = np.repeat(np.arange(depth), 2 ** np.arange(depth))
    feature, border = (np.array(column)[level] for column in zip(*splits, strict=True)) if depth else ([], [])
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
    )


def _read_nested(index: int, tree: Any, place: NDArray[np.int64], table: ScoreTable) -> Nodes:
    columns: tuple[list[Any], ...] = ([], [], [], [], [])
    left, right, feature, border, leaf = columns
    waiting: list[tuple[Any, list[int] | None, int]] = [(tree, None, 0)]
    while waiting:
        node, children, parent = waiting.pop()
        if children is not None:
            children[parent] = len(left)
        if "split" in entry({"node": node}, "node"):
            f, v = _read_split(index, entry(node, "split"), place)
            waiting += [(entry(node, "right"), right, len(left)), (entry(node, "left"), left, len(left))]
            row = -1
        else:
            value = entry(node, "value")
            scores = numbers({"value": value if isinstance(value, list) else [value]}, "value", size=table.n_outputs)
            f, v, row = -1, 0.0, int(table.add(scores[None])[0])
        for column, number in zip(columns, (-1, -1, f, v, row), strict=True):
            column.append(number)
    return Nodes(left, right, feature, deployed_thresholds(np.array(border)), leaf)

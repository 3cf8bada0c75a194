"""XGBoost's classifiers, from objects and from the files they are saved to.

The JSON or UBJSON that XGBoost writes is read as data, without XGBoost. It rounds rows to float32 and sends them left
iff ``x < v``; leaves and base score are float32, which float64 holds exactly. An object is written to UBJSON in memory,
read the same way, and proved.
"""

from __future__ import annotations

import math
import re
import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from certiforest.ensemble import ModelError, Nodes, TreeEnsemble
from certiforest.formats.documents import (
    entries,
    entry,
    integer,
    integers,
    parse_single,
    read_json,
    read_ubjson,
    singles,
)
from certiforest.formats.float32_rows import deployed_strict_thresholds
from certiforest.formats.proof import prove
from certiforest.formats.score_table import ScoreTable

UBJSON_OBJECT = re.compile(rb"\{[iUIlL]")  # a size comes first, where JSON has a quotation mark
XGBOOST_KEY = re.compile(rb'"learner"\s*:')
TWO_CLASSES = ("binary:logistic", "binary:hinge")
MANY_CLASSES = ("multi:softprob", "multi:softmax")

# Probabilities in float32 may be equal where sums are not: exp, an addition and a division, a few units of 2**-24.
PROBABILITY_SLACK = 2.0**-21


def is_xgboost_model(model: Any) -> bool:
    """Tell whether a model is one of XGBoost's."""
    xgboost = sys.modules.get("xgboost")
    return xgboost is not None and isinstance(model, (xgboost.Booster, xgboost.XGBModel))


def translate_xgboost(model: Any) -> TreeEnsemble:
    """Translate a fitted ``XGBClassifier`` or ``Booster`` and prove the translation."""
    import xgboost

    name = type(model).__name__
    if isinstance(model, xgboost.Booster):
        return _translate_booster(model, name)
    if not isinstance(model, xgboost.XGBClassifier):
        raise ModelError(f"Expected a classifier, got {name}.")
    if not model.__sklearn_is_fitted__():
        raise ModelError(f"Expected a fitted model, got an unfitted {name}; call fit first.")
    if not (isinstance(model.missing, float) and math.isnan(model.missing)):
        raise ModelError(
            f"Expected missing=nan, got missing={model.missing!r}: that a number counts as missing is not supported;"
            " fit without it."
        )
    booster = model.get_booster()
    best = booster.attr("best_iteration")  # predict leaves out the rounds after it
    n_rounds = None if best is None else int(best) + 1
    ensemble = _translate(read_ubjson(bytes(booster.save_raw("ubj"))), n_rounds)
    prove(
        ensemble,
        name,
        predict=lambda rows: model.predict(rows, validate_features=False),
        raw=lambda rows: model.predict(rows, output_margin=True, validate_features=False),
        dtype=np.float32,
        slack=PROBABILITY_SLACK,
    )
    return ensemble


def _translate_booster(booster: Any, name: str) -> TreeEnsemble:
    ensemble = _translate(read_ubjson(bytes(booster.save_raw("ubj"))), None)

    def predict(rows: NDArray) -> NDArray:
        value = np.asarray(booster.inplace_predict(rows, validate_features=False))
        if value.ndim == 2:
            return value.argmax(axis=1)
        return (value if ensemble.n_classes > 2 else value > 0.5).astype(np.int64)  # multi:softmax gives labels

    def raw(rows: NDArray) -> NDArray:
        return booster.inplace_predict(rows, predict_type="margin", validate_features=False)

    prove(ensemble, name, predict, raw, dtype=np.float32, slack=PROBABILITY_SLACK)
    return ensemble


def parse_xgboost(content: bytes, *, source: str = "the content") -> TreeEnsemble:
    """Read what ``save_model`` writes, JSON or UBJSON; ``source`` names it in errors."""
    try:
        document = read_ubjson(content) if UBJSON_OBJECT.match(content) else read_json(content, parse_single)
        n_rounds = None
        attributes = entry(document, "learner").get("attributes")
        if isinstance(attributes, dict) and "best_iteration" in attributes:
            n_rounds = integer(attributes, "best_iteration") + 1
        return _translate(document, n_rounds, is_file=True)
    except ModelError as error:
        raise ModelError(f"{source} is not a sound XGBoost classifier. {error}") from None


def _translate(document: Any, n_rounds: int | None, *, is_file: bool = False) -> TreeEnsemble:
    learner = entry(document, "learner")
    objective = entry(learner, "objective", "name")
    parameters = entry(learner, "learner_model_param")
    if integer({"num_target": 1, **parameters}, "num_target") != 1:
        raise ModelError("Expected one label per row, got a model of several targets.")
    if objective in TWO_CLASSES:
        n_classes, n_outputs = 2, 1
    elif objective in MANY_CLASSES:
        n_classes = n_outputs = integer(parameters, "num_class")
    else:
        raise ModelError(
            f"Expected one of the objectives {', '.join(TWO_CLASSES + MANY_CLASSES)}, got {str(objective)[:40]!r}."
        )
    n_features = integer(parameters, "num_feature")
    trees, output, weight = _read_booster(entry(learner, "gradient_booster"), n_outputs)
    if n_outputs > max(len(trees), *(_leaf_size(tree) for tree in trees[:1]), 1):
        raise ModelError(f"Expected a tree for each of {n_outputs} classes, got {len(trees)} trees.")
    base = _read_base(parameters, objective, n_outputs)
    n_used = _count_used(entry(learner, "gradient_booster"), n_outputs, len(trees), n_rounds)
    if is_file and n_used < len(trees):
        raise ModelError(
            f"Expected a file whose trees are all used, got one that says that round {n_rounds} was the best:"
            " XGBClassifier would leave out the trees after it, Booster would not. Save booster[: best_iteration + 1],"
            " or give the object itself."
        )
    names = entries(learner, "feature_names") if "feature_names" in learner else []
    table = ScoreTable(n_outputs)
    nodes = [_translate_tree(i, trees[i], names, n_outputs, output[i], weight[i], table) for i in range(n_used)]
    return TreeEnsemble.from_trees(
        nodes,
        n_features=n_features,
        classes=np.arange(n_classes),
        feature_names=names if names else None,
        scores=table.table(),
        base=base,
    )


def _read_base(parameters: Any, objective: str, n_outputs: int) -> NDArray[np.float64]:
    """Return the base score as a sum; for log-loss it is written as a probability."""
    text = str(entry(parameters, "base_score"))
    try:
        written = singles({"base_score": [parse_single(word) for word in text.strip("[]").split(",")]}, "base_score")
    except ValueError:
        raise ModelError(f"Expected numbers as base_score, got {text[:40]!r}.") from None
    if objective == "binary:logistic":
        if not ((written > 0) & (written < 1)).all():
            raise ModelError(f"Expected a base_score between 0 and 1, got {text[:40]!r}.")
        # In float32, as XGBoost does it; the logarithm is rounded once.
        odds = np.float32(1) / written - np.float32(1)
        written = (-np.log(odds.astype(np.float64))).astype(np.float32)
    if len(written) not in (1, n_outputs):
        raise ModelError(f"Expected a base_score for each of {n_outputs} outputs, got {len(written)}.")
    return np.broadcast_to(written.astype(np.float64), n_outputs).copy()


def _read_booster(booster: Any, n_outputs: int) -> tuple[list, NDArray[np.int64], NDArray[np.float64]]:
    """Return the trees, the output that each adds to and the weight that it has."""
    kind = entry(booster, "name")
    if kind not in ("gbtree", "dart"):
        raise ModelError(f"Expected trees (booster gbtree or dart), got the booster {str(kind)[:40]!r}.")
    model = entry(booster, "model") if kind == "gbtree" else entry(booster, "gbtree", "model")
    trees = entries(model, "trees")
    output = integers(model, "tree_info", size=len(trees))
    if len(output) and not 0 <= output.min() <= output.max() < n_outputs:
        raise ModelError(f"Expected tree_info between 0 and {n_outputs - 1}, got {output.min()} to {output.max()}.")
    weight = singles(booster, "weight_drop", size=len(trees)) if kind == "dart" else np.ones(len(trees), np.float32)
    if not np.isfinite(weight).all():
        raise ModelError("Expected finite weights of trees, got others.")
    return trees, output, weight.astype(np.float64)


def _count_used(booster: Any, n_outputs: int, n_trees: int, n_rounds: int | None) -> int:
    """Return how many trees the first rounds have."""
    if n_rounds is None:
        return n_trees
    model = entry(booster, "model") if "model" in booster else entry(booster, "gbtree", "model")
    if "iteration_indptr" in model:
        ends = integers(model, "iteration_indptr").tolist()
    else:  # before version 2
        step = n_outputs * integer(model, "gbtree_model_param", "num_parallel_tree")
        ends = list(range(0, n_trees + 1, max(1, step)))
    if not 1 <= n_rounds < len(ends) or not 0 < ends[n_rounds] <= n_trees:
        raise ModelError(f"Expected a best round between 1 and {len(ends) - 1}, got {n_rounds}.")
    return ends[n_rounds]


def _translate_tree(
    index: int, tree: Any, names: list, n_outputs: int, output: int, weight: float, table: ScoreTable
) -> Nodes:
    left = integers(tree, "left_children")
    right, feature = (integers(tree, name, size=len(left)) for name in ("right_children", "split_indices"))
    value = singles(tree, "split_conditions", size=len(left))
    kept = _hanging(index, left, right)
    is_leaf = left[kept] == -1
    if "split_type" in tree:  # not before version 1.3
        categorical = kept[~is_leaf & (integers(tree, "split_type", size=len(left))[kept] != 0)]
        if len(categorical):
            f = int(feature[categorical[0]])
            shown = repr(names[f]) if 0 <= f < len(names) else str(f)
            raise ModelError(
                f"Expected thresholds only, got a categorical split on feature {shown} in tree {index}, which is not"
                " supported; fit with one-hot encoded categories instead."
            )
    n_values = _leaf_size(tree)
    if not np.isfinite(value[kept] if n_values <= 1 else value[kept[~is_leaf]]).all():
        raise ModelError(f"Expected finite thresholds and leaves, got others in tree {index}.")
    if n_values > 1:  # one vector per leaf, whose place stands where other nodes have their right child
        if n_values != n_outputs or "leaf_weights" not in tree:
            raise ModelError(
                f"Expected {n_outputs} scores in each leaf of tree {index}, in leaf_weights, got {n_values} elsewhere:"
                " older versions of XGBoost write vector leaves in another way; save the model with a newer one."
            )
        vectors = singles(tree, "leaf_weights").astype(np.float64)
        place = np.where(is_leaf, right[kept], 0)
        if len(vectors) % n_values or not ((place >= 0) & (place < len(vectors) // n_values)).all():
            raise ModelError(f"Expected {n_values} scores for each leaf of tree {index}, got {len(vectors)} in all.")
        leaf = table.add(weight * vectors.reshape(-1, n_values)[place], is_leaf=is_leaf)
    else:
        leaf = table.add(weight * value[kept].astype(np.float64), output, is_leaf)  # exact, as both are float32
    place = np.full(len(left) + 1, -1)  # the last for -1, no child
    place[kept] = np.arange(len(kept))
    return Nodes(
        left=place[left[kept]],
        right=np.where(is_leaf, -1, place[np.where(is_leaf, -1, right[kept])]),
        feature=np.where(is_leaf, -1, feature[kept]),
        threshold=deployed_strict_thresholds(np.where(is_leaf, np.float32(0), value[kept])),
        leaf=leaf,
    )


def _leaf_size(tree: Any) -> int:
    return integer({"size_leaf_vector": 1, **entry(tree, "tree_param")}, "size_leaf_vector")


def _hanging(index: int, left: NDArray[np.int64], right: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the nodes that hang below the root, the root first. Pruning leaves others in the file."""
    size = len(left)
    found, level, n_found = [], np.zeros(min(size, 1), np.int64), 0
    while len(level):
        found.append(level)
        n_found += len(level)
        inner = level[left[level] != -1]
        level = np.concatenate([left[inner], right[inner]])
        if n_found + len(level) > size or (len(level) and not 0 <= level.min() <= level.max() < size):
            raise ModelError(f"Expected the nodes of tree {index} to form a tree, got children that do not.")
    return np.concatenate(found) if found else np.empty(0, np.int64)

"""XGBoost's classifiers, from objects and from the files they are saved to.

The JSON or UBJSON that XGBoost writes is read as data, without XGBoost. It rounds rows to float32 and sends them left
iff ``x < v``; leaves and base score are float32, which float64 holds exactly. An object is written to UBJSON in memory,
read the same way, and compared.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from certiforest.ensemble import ModelError, Nodes, TreeEnsemble
from certiforest.ensemble.documents import (
    entries,
    entry,
    has,
    integer,
    integers,
    read_json,
    read_ubjson,
    sound,
    string,
    strings,
)
from certiforest.ensemble.numbers import NUMBER, is_number
from certiforest.ensemble.scores import ScoreTable
from certiforest.formats.float32_rows import deployed_strict_thresholds, parse_single, rounds_to, singles
from certiforest.formats.opened import Opened, check_fitted, log_odds, of_one_kind
from certiforest.words import listed, shown

UBJSON_OBJECT = re.compile(rb"\{[iUIlL]")  # a size comes first, where JSON has a quotation mark
XGBOOST_KEY = re.compile(rb'"learner"\s*:')
TWO_CLASSES = ("binary:logistic", "binary:hinge")
MANY_CLASSES = ("multi:softprob", "multi:softmax")
# What a prediction was as a sum, by objective.
IDENTITY = ("squarederror", "absoluteerror", "pseudohubererror", "quantileerror", "squaredlogerror")
REGRESSION: dict[str, Callable[[float], float]] = {f"reg:{name}": float for name in IDENTITY}
REGRESSION |= dict.fromkeys(("count:poisson", "reg:gamma", "reg:tweedie"), math.log)
LARGEST_CATEGORY = 2**24
NO_PARENT = (-1, 2**31 - 1)
BOOSTER_KEYS = {"name", "model", "gbtree", "weight_drop"}
MODEL_KEYS = {"gbtree_model_param", "trees", "tree_info", "iteration_indptr", "cats", "weight_drop"}

# Probabilities in float32 may be equal where sums are not: exp, an addition and a division, a few units of 2**-24.
PROBABILITY_SLACK = 2.0**-21


def content_of_xgboost(model: Any) -> bytes:
    """Return all that decides what a fitted ``XGBClassifier`` or ``Booster`` predicts, as UBJSON."""
    import xgboost

    if isinstance(model, xgboost.Booster):
        return bytes(model.save_raw("ubj"))
    check_fitted(model, xgboost.XGBClassifier, xgboost.XGBRegressor)
    if not is_number(model.missing) or math.isinf(model.missing):
        raise ModelError(f"Expected missing to be NaN or a finite number, got missing={model.missing!r}.")
    return bytes(model.get_booster().save_raw("ubj"))


def open_xgboost(model: Any, content: bytes) -> Opened:
    """Translate a model, given its content."""
    import xgboost

    document = read_ubjson(content)
    is_booster = isinstance(model, xgboost.Booster)
    # The classes with scikit-learn's names leave out the rounds after the best one in predict.
    opened = _translate(document, None if is_booster else _best_round(document), may_cut=True)
    n_classes, is_regressor = opened.ensemble.n_classes, opened.is_regressor
    if isinstance(model, xgboost.XGBRegressor) and not is_regressor:
        raise ModelError(
            "Expected an XGBRegressor with an objective of regression, got one that predicts probabilities; fit an"
            " XGBClassifier, or give model.get_booster()."
        )
    missing = math.nan if is_booster else float(model.missing)
    if not math.isnan(missing):  # as well as NaN
        blanks = dict.fromkeys(range(opened.ensemble.n_features), rounds_to(missing))
        opened = opened._replace(ensemble=opened.ensemble.replace(blanks=blanks))

    ask = model.inplace_predict if is_booster else model.predict
    value = partial(ask if is_booster or is_regressor else model.predict_proba, validate_features=False)
    raw = partial(ask, validate_features=False, **{"predict_type": "margin"} if is_booster else {"output_margin": True})

    def predict(rows: NDArray) -> NDArray:
        if not is_booster:
            return ask(rows, validate_features=False)
        found = value(rows)
        if found.ndim == 2:
            return found.argmax(axis=1)
        return (found if n_classes > 2 else found > 0.5).astype(np.int64)  # multi:softmax gives labels

    def score(rows: NDArray) -> NDArray:
        found = value(rows)
        return found[:, 1] if found.ndim == 2 else found

    return opened._replace(name=type(model).__name__, predict=predict, raw=raw, score=score)


def parse_xgboost(content: bytes, best_iteration: bool | None = None, *, source: str = "the content") -> Opened:
    """Read what ``save_model`` writes, JSON or UBJSON; ``source`` names it in errors."""
    with sound(source, "XGBoost classifier"):
        is_binary = UBJSON_OBJECT.match(content)
        document = read_ubjson(content) if is_binary else read_json(content, parse_single, allows_nan=True)
        best = _best_round(document)
        if best is None and best_iteration:
            raise ModelError("Expected a file that says which round was the best, got one that does not.")
        return _translate(document, None if best_iteration is False else best, may_cut=best_iteration is not None)


def _best_round(document: Any) -> int | None:
    """Return the number of rounds up to the best one, None if no round is called the best."""
    learner = entry(document, "learner")
    if not has(learner, "attributes") or not has(learner["attributes"], "best_iteration"):
        return None
    return integer(learner, "attributes", "best_iteration") + 1


def _translate(document: Any, n_rounds: int | None, *, may_cut: bool) -> Opened:
    learner = entry(document, "learner")
    objective, n_classes, n_outputs = _read_outputs(learner)
    n_features = integer(learner, "learner_model_param", "num_feature")
    trees, output, weight, round_ends = _read_booster(entry(learner, "gradient_booster"), n_outputs)
    if n_outputs > max(len(trees), *(_leaf_size(tree) for tree in trees[:1]), 1):
        raise ModelError(f"Expected a tree for each of {n_outputs} classes, got {len(trees)} trees.")
    n_used = len(trees)
    if n_rounds is not None:
        if not 1 <= n_rounds < len(round_ends):
            raise ModelError(f"Expected a best round between 1 and {len(round_ends) - 1}, got {n_rounds}.")
        n_used = round_ends[n_rounds]
    if n_used < len(trees) and not may_cut:
        raise ModelError(
            f"Expected a file whose trees are all used, got one that says that round {n_rounds} was the best:"
            " XGBClassifier would leave out the trees after it, Booster would not. Say which, as_ensemble(path,"
            " best_iteration=True) or False, certiforest convert --best-iteration or --all-trees, or give the object."
        )
    names = strings(learner, "feature_names") if "feature_names" in learner else []
    table = ScoreTable(n_outputs)
    nodes = [_translate_tree(i, trees[i], n_features, (n_outputs, output[i]), weight[i], table) for i in range(n_used)]
    ensemble = TreeEnsemble.from_trees(
        nodes,
        n_features=n_features,
        classes=np.arange(n_classes),
        feature_names=names if names else None,
        scores=table.table(),
        base=_read_base(learner, objective, n_outputs),
        subsets=table.subsets or None,
        categories=_read_categories(learner) if table.subsets else None,
    )
    sum_at = REGRESSION.get(objective, log_odds if objective == "binary:logistic" else None)
    slack = 0.0 if sum_at is float else PROBABILITY_SLACK
    if sum_at is math.log:  # that of the base may be rounded otherwise
        slack += 2.0**-23 * float(np.abs(ensemble.summands()[1]).max())
    return Opened(
        ensemble,
        "this file of XGBoost",
        sum_at=sum_at,
        dtype=np.float32,
        slack=slack,
        is_regressor=objective in REGRESSION,
        has_softmax=objective in MANY_CLASSES,
    )


def _read_categories(learner: Any) -> dict[int, list] | None:
    """Return the values that codes stand for, which newer versions keep of data frames."""
    booster = entry(learner, "gradient_booster")
    model = booster.get("model", booster.get("gbtree", {}).get("model", {}))
    found = model.get("cats", {}).get("enc") if isinstance(model.get("cats"), dict) else None
    if not isinstance(found, list):
        return None
    categories: dict[int, list] = {}
    for feature, encoded in enumerate(found):
        values = integers(encoded, "values").tolist()
        if has(encoded, "offsets"):
            ends = integers(encoded, "offsets").tolist()
            texts = [bytes(v % 256 for v in values[a:b]) for a, b in pairwise(ends)]
            values = [text.decode(errors="replace") for text in texts]
        if values:
            categories[feature] = values
    return of_one_kind(categories)


def _read_outputs(learner: Any) -> tuple[str, int, int]:
    """Return the objective, the number of classes and that of sums."""
    objective = string(learner, "objective", "name")
    parameters = entry(learner, "learner_model_param")
    if has(parameters, "num_target") and integer(parameters, "num_target") != 1:
        raise ModelError("Expected one label per row, got a model of several targets.")
    if objective in (*TWO_CLASSES, *REGRESSION):
        n_classes, n_outputs, written = 2, 1, [0, 1]
    elif objective in MANY_CLASSES:
        n_classes = n_outputs = integer(learner, "objective", "softmax_multiclass_param", "num_class")
        written = [n_classes]
    else:
        raise ModelError(
            f"Expected one of the objectives {', '.join((*TWO_CLASSES, *MANY_CLASSES, *REGRESSION))},"
            f" got {shown(objective)}."
        )
    if integer(parameters, "num_class") not in written:
        raise ModelError(
            f"Expected num_class to be {written[0]}, as the objective {objective} says, got"
            f" {integer(parameters, 'num_class')}."
        )
    return objective, n_classes, n_outputs


def _read_base(learner: Any, objective: str, n_outputs: int) -> NDArray[np.float64]:
    """Return the base score as a sum; for log-loss it is written as a probability."""
    text = string(learner, "learner_model_param", "base_score")  # before version 3.1 a bare number
    words = (text[1:-1] if text.startswith("[") and text.endswith("]") else text).split(",")
    if not all(NUMBER.fullmatch(word) for word in words):
        raise ModelError(f"Expected numbers as base_score, got {shown(text)}.")
    written = singles({"base_score": [parse_single(word) for word in words]}, "base_score")
    if objective == "binary:logistic":
        if not ((written > 0) & (written < 1)).all():
            raise ModelError(f"Expected a base_score between 0 and 1, got {shown(text)}.")
        # In float32, as XGBoost does it; the logarithm is rounded once.
        odds = np.float32(1) / written - np.float32(1)
        written = (-np.log(odds.astype(np.float64))).astype(np.float32)
    elif REGRESSION.get(objective) is math.log:
        if not (written > 0).all():
            raise ModelError(f"Expected a base_score above 0, got {shown(text)}.")
        written = np.log(written.astype(np.float64)).astype(np.float32)
    if len(written) not in (1, n_outputs):
        raise ModelError(f"Expected a base_score for each of {n_outputs} outputs, got {len(written)}.")
    return np.broadcast_to(written.astype(np.float64), n_outputs).copy()


def _read_booster(booster: Any, n_outputs: int) -> tuple[list, NDArray[np.int64], NDArray[np.float64], list[int]]:
    """Return the trees, the output that each adds to, the weight that it has, and where rounds end."""
    kind = string(booster, "name")
    if kind not in ("gbtree", "dart"):
        raise ModelError(f"Expected trees (booster gbtree or dart), got the booster {shown(kind)}.")
    model = entry(booster, "model") if kind == "gbtree" else entry(booster, "gbtree", "model")
    trees = entries(model, "trees")
    if integer(model, "gbtree_model_param", "num_trees") != len(trees):
        raise ModelError(
            f"Expected {integer(model, 'gbtree_model_param', 'num_trees')} trees, as num_trees says, got {len(trees)}."
        )
    output = integers(model, "tree_info", size=len(trees))
    if len(output) and not 0 <= output.min() <= output.max() < n_outputs:
        raise ModelError(f"Expected tree_info between 0 and {n_outputs - 1}, got {output.min()} to {output.max()}.")
    unknown = sorted([*(set(booster) - BOOSTER_KEYS), *(set(model) - MODEL_KEYS)])
    if unknown:
        raise ModelError(
            f"Expected a booster as XGBoost up to 3.4 writes it, got one with {listed(unknown)}, which may change what"
            " it predicts; please report it."
        )
    held = booster if kind == "dart" else model  # from version 3.4 on, weights of dropped trees are in the model
    has_weights = kind == "dart" or has(model, "weight_drop")
    weight = singles(held, "weight_drop", size=len(trees)) if has_weights else np.ones(len(trees), np.float32)
    if not np.isfinite(weight).all():
        raise ModelError("Expected finite weights of trees, got others.")
    return trees, output, weight.astype(np.float64), _read_rounds(model, n_outputs, len(trees))


def _read_rounds(model: Any, n_outputs: int, n_trees: int) -> list[int]:
    """Return the number of trees up to each round, zero first."""
    if has(model, "iteration_indptr"):
        ends = integers(model, "iteration_indptr").tolist()
    else:  # before version 2
        step = n_outputs * integer(model, "gbtree_model_param", "num_parallel_tree")
        ends = list(range(0, n_trees + 1, max(1, step)))
    if not ends or ends[0] != 0 or ends[-1] != n_trees or sorted(ends) != ends:
        raise ModelError(f"Expected rounds (iteration_indptr) that go from 0 to all {n_trees} trees, got others.")
    return ends


def _translate_tree(
    index: int, tree: Any, n_features: int, outputs: tuple[int, int], weight: float, table: ScoreTable
) -> Nodes:
    n_outputs, output = outputs
    left = integers(tree, "left_children")
    right, feature, missing_left = (
        integers(tree, name, size=len(left)) for name in ("right_children", "split_indices", "default_left")
    )
    value = singles(tree, "split_conditions", size=len(left))
    _check_sizes(index, tree, len(left), n_features)
    kept = _hanging(index, left, right, integers(tree, "parents", size=len(left)))
    is_leaf = left[kept] == -1
    subset = _read_sets(index, tree, left, table.subsets)
    is_set = subset[kept] >= 0
    n_values = _leaf_size(tree)
    if not np.isfinite(value[kept] if n_values <= 1 else value[kept[~is_leaf]]).all():
        raise ModelError(f"Expected finite thresholds and leaves, got others in tree {index}.")
    if n_values > 1:  # one vector per leaf, whose place stands where other nodes have their right child
        if n_values != n_outputs or not has(tree, "leaf_weights"):
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
    sides = place[left[kept]], np.where(is_leaf, -1, place[np.where(is_leaf, -1, right[kept])])
    threshold = deployed_strict_thresholds(np.where(is_leaf | is_set, np.float32(0), value[kept]))
    return Nodes(
        left=np.where(is_set, *sides[::-1]),  # XGBoost sends its sets right
        right=np.where(is_set, *sides),
        feature=feature[kept],
        threshold=np.where(is_set, np.nan, threshold),
        leaf=leaf,
        missing_left=np.where(is_leaf, 0, missing_left[kept] ^ is_set),
        subset=subset[kept],
    )


def _read_sets(index: int, tree: Any, left: NDArray[np.int64], subsets: list[list[int]]) -> NDArray[np.int64]:
    """Return for each node the number of the set that it tests for, -1 if it does not; sets are added to a list."""
    subset = np.full(len(left), -1)
    if not has(tree, "split_type"):  # not before version 1.3
        return subset
    kind = integers(tree, "split_type", size=len(left))
    if not np.isin(kind, (0, 1)).all():
        raise ModelError(f"Expected split_type 0 (numbers) or 1 (categories) in tree {index}, got {kind.max()}.")
    is_set = (kind == 1) & (left != -1)
    node = integers(tree, "categories_nodes") if has(tree, "categories_nodes") else np.empty(0, np.int64)
    if sorted(node.tolist()) != np.flatnonzero(is_set).tolist():
        raise ModelError(f"Expected categories_nodes of tree {index} to be its categorical splits, got others.")
    if not len(node):
        return subset
    values = integers(tree, "categories")
    start, size = (integers(tree, name, size=len(node)) for name in ("categories_segments", "categories_sizes"))
    if start.tolist() != np.cumsum([0, *size])[:-1].tolist() or size.min() < 0 or size.sum() != len(values):
        raise ModelError(f"Expected categories of tree {index} in segments that follow one another, got others.")
    if values.min(initial=0) < 0 or values.max(initial=0) >= LARGEST_CATEGORY:
        raise ModelError(f"Expected categories from 0 to {LARGEST_CATEGORY - 1} in tree {index}, got others.")
    for place, begin, length in zip(node.tolist(), start.tolist(), size.tolist(), strict=True):
        subset[place] = len(subsets)
        subsets.append(values[begin : begin + length].tolist())
    return subset


def _leaf_size(tree: Any) -> int:
    parameters = entry(tree, "tree_param")
    size = integer(parameters, "size_leaf_vector") if has(parameters, "size_leaf_vector") else 1
    return max(size, 1)  # older versions write 0 for single numbers


def _check_sizes(index: int, tree: Any, n_nodes: int, n_features: int) -> None:
    if has(tree, "id") and integer(tree, "id") != index:
        raise ModelError(f"Expected tree {index} to have the id {index}, got {integer(tree, 'id')}.")
    for name, size in (("num_nodes", n_nodes), ("num_feature", n_features)):
        if integer(tree, "tree_param", name) != size:
            raise ModelError(
                f"Expected tree {index} to have {name} {size}, as the rest of the file says, got"
                f" {integer(tree, 'tree_param', name)}."
            )


def _hanging(
    index: int, left: NDArray[np.int64], right: NDArray[np.int64], parent: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the nodes that hang below the root, the root first. Pruning leaves others in the file."""
    size = len(left)
    found, level, n_found = [], np.zeros(min(size, 1), np.int64), 0
    is_sound = size > 0 and parent[0] in NO_PARENT
    while len(level) and is_sound:
        found.append(level)
        n_found += len(level)
        inner = level[left[level] != -1]
        level = np.concatenate([left[inner], right[inner]])
        is_sound = n_found + len(level) <= size and (not len(level) or 0 <= level.min() <= level.max() < size)
        is_sound = is_sound and (parent[level] == np.concatenate([inner, inner])).all()
    if not is_sound:
        raise ModelError(f"Expected the nodes of tree {index} to form a tree, got children or parents that do not.")
    return np.concatenate(found)

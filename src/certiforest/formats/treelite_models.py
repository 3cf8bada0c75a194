"""treelite's models, from objects, checkpoints and what ``dump_as_json`` writes, as its ``gtil.predict`` runs them.

Rows are rounded to the type of thresholds, float32 or float64; scores add up in the type of leaves.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from certiforest.ensemble import ModelError, Nodes, TreeEnsemble
from certiforest.ensemble.documents import entries, entry, has, integer, integers, numbers, read_json, sound, string
from certiforest.ensemble.numbers import is_number
from certiforest.ensemble.scores import ScoreTable
from certiforest.formats.branches import as_nodes
from certiforest.formats.opened import LOGISTIC_SLACK, Opened, log_odds
from certiforest.formats.treelite_checkpoint import CHECKPOINT, read_checkpoint
from certiforest.words import shown

TREELITE_KEY = re.compile(rb'"leaf_vector_shape"\s*:')
NO_THRESHOLD = re.compile(rb'"threshold"\s*:\s*,')  # which is infinite: of that, dump_as_json writes nothing
FLOATS: dict[str, type] = {"float32": np.float32, "float64": np.float64}
SINGLE_SLACK = 2.0**-21  # of probabilities in float32


def content_of_treelite(model: Any) -> bytes:
    """Return all that decides what a ``treelite.Model`` predicts, as a checkpoint."""
    if type(model).__name__ != "Model":
        raise ModelError(f"Expected a treelite.Model, got {type(model).__name__}.")
    return bytes(model.serialize_bytes())


def open_treelite(model: Any, content: bytes) -> Opened:
    """Translate a model, given its content."""
    import treelite

    opened = parse_treelite(content, source="this treelite.Model")
    n_classes = opened.ensemble.n_classes

    def value(rows: NDArray) -> NDArray:
        with np.errstate(over="ignore"):
            found = treelite.gtil.predict(model, np.asarray(rows).astype(model.input_type), nthread=1)
        return np.asarray(found).reshape(len(rows), -1)

    def predict(rows: NDArray) -> NDArray:
        found = value(rows)
        return found.argmax(axis=1) if n_classes > 2 else (found[:, -1] > 0.5).astype(np.int64)

    score = (lambda rows: value(rows)[:, -1]) if opened.sum_at is not None else None
    return opened._replace(name="treelite.Model", predict=predict, score=score)


def parse_treelite(content: bytes, *, source: str = "the text") -> Opened:
    """Read a checkpoint, or what ``dump_as_json`` writes; ``source`` names it. Classes are numbered from 0."""
    with sound(source, "treelite model"):
        is_checkpoint = CHECKPOINT.match(content)
        if not is_checkpoint and NO_THRESHOLD.search(content):
            raise ModelError(
                "Expected a threshold at each split, got none, as dump_as_json leaves out infinite ones: give a"
                " checkpoint (treelite.Model.serialize), or the treelite.Model itself."
            )
        document = read_checkpoint(content) if is_checkpoint else read_json(content)
        types = [string(document, name) for name in ("threshold_type", "leaf_output_type")]
        if not FLOATS.keys() >= {*types}:
            raise ModelError(f"Expected thresholds and leaves of float32 or float64, got {' and '.join(types)}.")
        task, link = string(document, "task_type"), string(document, "postprocessor")
        n_outputs = _n_outputs(document)
        trees, table = entries(document, "trees"), ScoreTable(n_outputs)
        outputs = integers(document, "class_id", size=len(trees)).tolist()
        nodes = [_read_tree(tree, output, table, FLOATS[types[0]]) for tree, output in zip(trees, outputs, strict=True)]
        base, divisor = numbers(document, "base_scores", size=n_outputs), 1
        if not np.isfinite(base).all():
            raise ModelError("Expected finite base_scores, got others.")
        if document.get("average_tree_output") is True:
            if base.any() or (n_outputs > 1 and {*outputs} != {-1}):
                raise ModelError("Expected a mean of trees that score all classes, without base_scores, got another.")
            divisor = len(trees)
        sum_at = _decide(task, link, n_outputs, divisor, document)
        if task == "kBinaryClf" and link == "identity":  # a share is compared with one half
            nodes.append(Nodes([-1], [-1], [-1], [0.0], table.add([[-divisor / 2]]), [False], [-1]))
        ensemble = TreeEnsemble.from_trees(
            nodes,
            n_features=integer(document, "num_feature", may_be_text=False),
            classes=np.arange(max(2, n_outputs)),
            scores=table.table(),
            base=base,
            subsets=table.subsets or None,
        )
        dtype: DTypeLike = FLOATS[types[1]]
        slack = SINGLE_SLACK if dtype == np.float32 else LOGISTIC_SLACK
        if task == "kRegressor":
            slack = float(np.finfo(dtype).eps) * ensemble.largest_sum if divisor > 1 or link != "identity" else 0.0
        return Opened(
            ensemble,
            "this file of treelite",
            sum_at=sum_at,
            dtype=dtype,
            slack=slack,
            is_regressor=task == "kRegressor",
        )


def _n_outputs(document: Any) -> int:
    """Return how many sums there are."""
    n_classes, shape = integers(document, "num_class").tolist(), integers(document, "leaf_vector_shape").tolist()
    if integer(document, "num_target", may_be_text=False) != 1 or len(n_classes) != 1 or n_classes[0] < 1:
        raise ModelError("Expected one label per row, got a model of several targets.")
    if shape not in ([1, 1], [1, n_classes[0]]) or n_classes[0] > 2**20:
        raise ModelError(f"Expected leaves of one score, or one a class, got leaf_vector_shape {shown(shape)}.")
    return n_classes[0]


def _decide(task: str, link: str, n: int, divisor: int, document: Any) -> Callable[[float], Any] | None:
    """Return the sum at which the score has a given value, None where classes have no single score."""
    kind = task, link, n > 1
    if kind == ("kBinaryClf", "hinge", False):
        return None
    if kind == ("kBinaryClf", "sigmoid", False):
        alpha = document.get("sigmoid_alpha")
        if not is_number(alpha) or not 0 < alpha < math.inf:
            raise ModelError(f"Expected sigmoid_alpha above 0, got {shown(alpha)}.")
        return partial(_sum_at, log_odds, float(np.float32(alpha)), divisor, 0)
    if kind == ("kBinaryClf", "identity", False):
        return partial(_sum_at, float, 1.0, divisor, Fraction(divisor, 2))
    if kind == ("kRegressor", "identity", False):
        return partial(_sum_at, float, 1.0, divisor, 0)
    if kind == ("kRegressor", "exponential", False) and divisor == 1:
        return partial(_sum_at, math.log, 1.0, 1, 0)
    if task == "kMultiClf" and link in ("softmax", "identity_multiclass") and n > 1:
        return None
    raise ModelError(
        "Expected a classifier with the postprocessor sigmoid, softmax or a share of trees, or a regressor with"
        f" identity or exponential, got {shown(task)} with {shown(link)}; give the model that treelite was given."
    )


def _sum_at(link: Callable[[float], float], alpha: float, factor: int, less: Any, score: float) -> Fraction:
    return factor * Fraction(link(score)) / Fraction(alpha) - less


def _read_tree(tree: Any, output: int, table: ScoreTable, dtype: DTypeLike) -> Nodes:
    found = entries(tree, "nodes")
    if [integer(node, "node_id", may_be_text=False) for node in found] != [*range(len(found))] or not found:
        raise ModelError("Expected nodes that are numbered in order, got others.")
    if not -1 <= output < table.n_outputs:
        raise ModelError(f"Expected class_id from -1 to {table.n_outputs - 1}, got {output}.")
    is_leaf = np.array([has(node, "leaf_value") for node in found])
    scores = np.zeros((len(found), table.n_outputs))
    columns: list[tuple[Any, ...]] = []
    for node, leaf in zip(found, is_leaf.tolist(), strict=True):
        subset, swaps, kind, threshold = -1, False, "<=", 0.0
        if leaf:
            value = node["leaf_value"]
            given = numbers({"leaf_value": value if isinstance(value, list) else [value]}, "leaf_value")
            if len(given) != (table.n_outputs if output == -1 else 1) or not np.isfinite(given).all():
                raise ModelError(f"Expected finite scores of leaves, one for each class or one, got {shown(value)}.")
            scores[len(columns), slice(None) if output == -1 else slice(output, output + 1)] = given
            columns.append((-1, -1, -1, kind, threshold, False, subset))
            continue
        sides = [integer(node, f"{side}_child", may_be_text=False) for side in ("left", "right")]
        goes_left = entry(node, "default_left")
        if string(node, "node_type") == "categorical_test_node":
            values = integers(node, "category_list")
            if (values < 0).any():
                raise ModelError("Expected categories from 0 on, got others.")
            subset, swaps = len(table.subsets), entry(node, "category_list_right_child") is True
            table.subsets.append(values.tolist())
        else:
            kind, threshold = string(node, "comparison_op"), entry(node, "threshold")
        if not isinstance(goes_left, bool) or not is_number(threshold) or min(sides) < 1:
            raise ModelError(f"Expected splits as treelite writes them, got {shown(node)}.")
        feature = integer(node, "split_feature_id", may_be_text=False)
        columns.append((*sides[:: -1 if swaps else 1], feature, kind, float(threshold), goes_left ^ swaps, subset))
    held = [np.array(column) for column in zip(*columns, strict=True)]
    leaf = table.add(scores, is_leaf=is_leaf)
    return as_nodes((held[0], held[1]), held[2], held[3], held[4], leaf, held[5], dtype=dtype, subset=held[6])

"""The operators of ai.onnx.ml that hold trees, as the trees and scores that onnxruntime makes of them.

Two of them list nodes by tree and number, ``TreeEnsembleClassifier`` and ``TreeEnsembleRegressor``; ``TreeEnsemble``
(opset 5) lists splits and leaves apart. Rows, thresholds and sums are all float32, or float64 if rows are.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from certiforest.ensemble import ModelError, Nodes
from certiforest.ensemble.scores import ScoreTable
from certiforest.formats.branches import as_nodes
from certiforest.formats.opened import log_odds

MODES = {"BRANCH_LEQ": "<=", "BRANCH_LT": "<", "BRANCH_GTE": ">=", "BRANCH_GT": ">", "BRANCH_EQ": "==",
         "BRANCH_NEQ": "!=", "BRANCH_MEMBER": "membership in a set"}  # fmt: skip
AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")  # as TreeEnsemble numbers them
TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")


class Trees(NamedTuple):
    """Trees whose leaves add up, what they begin with, and what becomes of the sums.

    ``divisor`` is what sums are divided by, ``labels`` what classes are called, None if trees name none.
    """

    nodes: list[Nodes]
    table: ScoreTable
    base: NDArray[np.float64]
    dtype: DTypeLike
    divisor: int = 1
    labels: NDArray | None = None
    sum_at: Callable[[float], float | Fraction] | None = float


def read_trees(operator: str, given: dict[str, Any], dtype: DTypeLike, *, is_rounded: bool) -> Trees:
    """Read an operator with its attributes; rows come in ``dtype``, and are so already if ``is_rounded``."""
    if operator == "TreeEnsemble":
        return _read_one_list(given, dtype, is_rounded)
    kind = "class" if operator == "TreeEnsembleClassifier" else "target"
    labels = _labels(given) if kind == "class" else None
    n_given = int(given.get("n_targets", 1)) if labels is None else len(labels)
    tree = _whole(given, "nodes_treeids")
    size = len(tree)
    number = _whole(given, "nodes_nodeids", size)
    feature, first, second = (
        _whole(given, f"nodes_{name}", size) for name in ("featureids", "truenodeids", "falsenodeids")
    )
    mode = np.array([MODES.get(word, word) for word in _texts(given, "nodes_modes", size)], object)
    threshold = _floats(given, "nodes_values", dtype, size)
    missing = _whole(given, "nodes_missing_value_tracks_true", size, default=0) == 1
    starts = np.flatnonzero(np.diff(tree, prepend=tree[:1] - 1))
    if not size or len(np.unique(tree)) != len(starts):
        raise ModelError("Expected the nodes of each tree one after the other, got others.")
    place = {pair: i for i, pair in enumerate(zip(tree.tolist(), number.tolist(), strict=True))}
    if len(place) < size:
        raise ModelError("Expected a number for each node of a tree, got one twice.")
    of_tree, of_node, output = (_whole(given, f"{kind}_{name}") for name in ("treeids", "nodeids", "ids"))
    weight = _floats(given, f"{kind}_weights", dtype, len(output))
    if not len(of_tree) == len(of_node) == len(output) or not len(output):
        raise ModelError(f"Expected {kind}_treeids, {kind}_nodeids and {kind}_ids of one length, got others.")
    is_leaf = mode == "LEAF"
    try:
        where = np.array([place[pair] for pair in zip(of_tree.tolist(), of_node.tolist(), strict=True)])
        sides = [
            np.array([-1 if leaf else place[t, c] for t, c, leaf in zip(tree, side, is_leaf, strict=True)])
            for side in (first, second)
        ]
    except KeyError as error:
        raise ModelError(f"Expected nodes that are there, got tree and node {error}.") from None
    n_outputs, output = _n_outputs(given, kind, n_given, output)
    kept = is_leaf[where]  # weights elsewhere are not looked at
    if (
        len(np.unique(where[kept] * n_outputs + output[kept])) < kept.sum()
        or not np.isin(np.flatnonzero(is_leaf), where[kept]).all()
    ):
        raise ModelError("Expected each leaf to have weights, one for an output, got none or several.")
    table, nodes = ScoreTable(n_outputs), []
    order = np.argsort(where, kind="stable")
    order = order[kept[order]]
    speaks = np.zeros(n_outputs, bool)  # in every leaf of some tree
    for start, end in zip(starts.tolist(), [*starts[1:].tolist(), size], strict=True):
        mine = order[np.searchsorted(where[order], start) : np.searchsorted(where[order], end)]
        scores = np.zeros((end - start, n_outputs))
        scores[where[mine] - start, output[mine]] = weight[mine]
        part = slice(start, end)
        leaves = is_leaf[part]
        speaks |= np.bincount(output[mine], minlength=n_outputs) == leaves.sum()
        yes, no = (np.where(leaves, -1, side[part] - start) for side in sides)
        nodes.append(
            as_nodes((yes, no), feature[part], mode[part], threshold[part], table.add(scores, is_leaf=leaves),
                     missing[part], dtype=dtype, is_rounded=is_rounded)
        )  # fmt: skip
    has_base = not given.keys().isdisjoint(("base_values", "base_values_as_tensor"))
    base = _floats(given, "base_values", dtype) if has_base else np.zeros(0)
    trees = Trees(nodes, table, _base(base, n_outputs), dtype, labels=labels)
    if labels is None:
        return _aggregated(trees, given.get("aggregate_function", "SUM"), given.get("post_transform", "NONE"))
    return _decided(trees, given, weight, speaks, has_base=len(base) > 0)


def _n_outputs(given: dict[str, Any], kind: str, n: int, output: NDArray[np.int64]) -> tuple[int, NDArray[np.int64]]:
    """Return how many sums there are, and the one that each weight adds to."""
    if not (1 <= n <= len(output) or n == 2) or not 0 <= output.min() <= output.max() < n:
        raise ModelError(f"Expected weights for each of {n} outputs, got others.")
    if kind == "target" or n > 2:
        return n, output
    if (output != 0).any():
        raise ModelError(
            "Expected weights of two classes to be those of class 0 in the file, as its sum alone decides, got weights"
            " of class 1: onnxruntime then says the second class wherever its sum is above zero."
        )
    return 1, output


def _decided(
    trees: Trees, given: dict[str, Any], weight: NDArray[np.float64], speaks: NDArray[np.bool_], *, has_base: bool
) -> Trees:
    """Return the trees of a classifier, which onnxruntime lets decide by their sums, before any transformation."""
    transform = given.get("post_transform", "NONE")
    if trees.table.n_outputs > 1:
        if not (has_base or speaks.all()):
            raise ModelError(
                "Expected a score for each class in every row, got leaves without: onnxruntime leaves such classes out."
            )
        return trees._replace(sum_at=None)
    is_share = (weight >= 0).all()  # then onnxruntime compares with one half, whatever the transformation
    if is_share:
        leaf = trees.table.add([[-0.5]])
        trees.nodes.append(Nodes([-1], [-1], [-1], [0.0], leaf, [False]))
    half = Fraction(int(is_share), 2)
    links = {"LOGISTIC": partial(sum_of, log_odds, 1, half)} | (
        {"NONE": partial(sum_of, float, 1, half)} if is_share else {}
    )
    return trees._replace(sum_at=links.get(transform))


def sum_of(link: Callable[[float], float], factor: int | Fraction, less: Fraction, score: float) -> Fraction:
    """Return the sum that a score was made of."""
    return factor * Fraction(link(score)) - less


def _read_one_list(given: dict[str, Any], dtype: DTypeLike, is_rounded: bool) -> Trees:
    """Read the operator that has all splits in one list and all leaves in another."""
    feature = _whole(given, "nodes_featureids")
    size = len(feature)
    names = ("truenodeids", "trueleafs", "falsenodeids", "falseleafs")
    first, first_leaf, second, second_leaf = (_whole(given, f"nodes_{name}", size) for name in names)
    threshold, mode = _floats(given, "nodes_splits", dtype, size), _floats(given, "nodes_modes", np.uint8, size)
    missing = _whole(given, "nodes_missing_value_tracks_true", size, default=0) == 1
    output = _whole(given, "leaf_targetids")
    weight, n_outputs = _floats(given, "leaf_weights", dtype, len(output)), int(given.get("n_targets", 1))
    if not 1 <= n_outputs <= max(len(output), 1) or not 0 <= output.min(initial=0) <= output.max(initial=0) < n_outputs:
        raise ModelError(f"Expected weights for each of {n_outputs} outputs, got others.")
    words = np.array([[*MODES.values(), "?"][min(int(m), len(MODES))] for m in mode], object)
    table, met = ScoreTable(n_outputs), np.zeros(size, bool)
    nodes = []
    for root in _whole(given, "tree_roots").tolist():
        # Children as they are met, leaves below zero: one that two splits share becomes two.
        found: list[int] = [root]
        sides: tuple[list[int], list[int]] = [], []
        for split in found:
            if split < 0:
                for side in sides:
                    side.append(-1)
                continue
            if not split < size or met[split]:
                raise ModelError("Expected splits that form trees, got others.")
            met[split] = True
            for side, ids, leaves in zip(sides, (first, second), (first_leaf, second_leaf), strict=True):
                child = int(ids[split])
                if not 0 <= child < (len(output) if leaves[split] else size):
                    raise ModelError("Expected splits and leaves that are there, got others.")
                side.append(len(found))
                found.append(~child if leaves[split] else child)
        node = np.array(found)
        is_end, at = node < 0, np.maximum(node, 0)
        scores = np.zeros((len(node), n_outputs))
        scores[is_end, output[~node[is_end]]] = weight[~node[is_end]]
        nodes.append(
            as_nodes((np.array(sides[0]), np.array(sides[1])), feature[at], words[at], threshold[at],
                     table.add(scores, is_leaf=is_end), missing[at], dtype=dtype, is_rounded=is_rounded)
        )  # fmt: skip
    trees = Trees(nodes, table, np.zeros(n_outputs), dtype)
    aggregate, transform = (int(given.get(name, n)) for name, n in (("aggregate_function", 1), ("post_transform", 0)))
    if not (0 <= aggregate < len(AGGREGATES) and 0 <= transform < len(TRANSFORMS)):
        raise ModelError("Expected an aggregate_function and a post_transform of ai.onnx.ml 5, got others.")
    return _aggregated(trees, AGGREGATES[aggregate], TRANSFORMS[transform])


def _aggregated(trees: Trees, aggregate: str, transform: str) -> Trees:
    """Return the trees of a regressor."""
    if aggregate not in ("SUM", "AVERAGE") or transform != "NONE":
        raise ModelError(
            f"Expected trees that add up, or their mean, with post_transform NONE, got {aggregate} and {transform}."
        )
    if aggregate == "SUM":
        return trees
    if trees.base.any():
        raise ModelError("Expected a mean of trees without base_values, got some.")
    return trees._replace(divisor=len(trees.nodes), sum_at=partial(sum_of, float, len(trees.nodes), Fraction(0)))


def _base(given: NDArray[np.float64], n_outputs: int) -> NDArray[np.float64]:
    if len(given) not in (0, n_outputs):
        raise ModelError(f"Expected no base_values or {n_outputs}, got {len(given)}.")
    return given if len(given) else np.zeros(n_outputs)


def _labels(given: dict[str, Any]) -> NDArray:
    texts, wholes = given.get("classlabels_strings", []), given.get("classlabels_int64s", [])
    labels = [word.decode() for word in texts] if texts else [*wholes]
    if len(labels) < 2 or len({*labels}) < len(labels):
        raise ModelError(f"Expected two labels of classes or more, all different, got {len(labels)}.")
    return np.array(labels)


def _whole(given: dict[str, Any], name: str, size: int | None = None, default: int | None = None) -> NDArray[np.int64]:
    found = given.get(name)
    if found is None and default is not None and size is not None:
        return np.full(size, default)
    array = np.array(found if found is not None else [], np.int64)
    if found is None or array.ndim != 1 or (size is not None and len(array) != size):
        raise ModelError(f"Expected {'a list of' if size is None else size} whole numbers as {name}, got others.")
    return array


def _texts(given: dict[str, Any], name: str, size: int) -> list[str]:
    found = given.get(name, [])
    if len(found) != size:
        raise ModelError(f"Expected {size} words as {name}, got {len(found)}.")
    return [word.decode(errors="replace") for word in found]


def _floats(given: dict[str, Any], name: str, dtype: DTypeLike, size: int | None = None) -> NDArray[np.float64]:
    """Return a list of float32, or a tensor of the type that rows have."""
    found = given.get(f"{name}_as_tensor", given.get(name))
    is_tensor = isinstance(found, np.ndarray)
    if found is None or (is_tensor and (found.dtype != dtype or found.ndim != 1)):
        raise ModelError(f"Expected {name} of the type {np.dtype(dtype)}, as rows are, got others.")
    numbers = np.asarray(found if is_tensor else np.array(found, np.float32)).astype(np.float64)
    if (size is not None and len(numbers) != size) or (not name.startswith("nodes") and not np.isfinite(numbers).all()):
        raise ModelError(f"Expected {'finite numbers' if size is None else size} as {name}, got others.")
    return numbers

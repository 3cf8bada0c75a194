"""treelite's checkpoints of version 4, read as data: what ``dump_as_json`` writes, and infinite thresholds.

treelite's own reader is not given files: it crashes or hangs on some that were altered.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from certiforest.ensemble import ModelError
from certiforest.words import shown

# A checkpoint begins with three numbers of a version, and two types that are 2 or 3.
CHECKPOINT = re.compile(rb"[\x02-\x09]\0\0\0.\0\0\0.\0\0\0[\x02\x03][\x02\x03]", re.DOTALL)
FLOATS = {2: ("float32", "<f4"), 3: ("float64", "<f8")}
TASKS = ("kBinaryClf", "kRegressor", "kMultiClf", "kLearningToRank", "kIsolationForest")
COMPARISONS = (None, "==", "<", "<=", ">", ">=")
LEAF, NUMBERS, CATEGORIES = range(3)  # types of nodes
UNUSED = ("<u8", "u1", "<f8", "u1", "<f8", "u1")  # of rows that came by: their counts, weights and gains


class _Fields:
    """The fields of a checkpoint, one after the other."""

    def __init__(self, content: bytes) -> None:
        self._content, self._place = content, 0

    def many(self, kind: str, size: int | None = None, n: int | None = None) -> list[Any]:
        """Return numbers of a kind: ``n``, or as many as it says here, which have to be ``size``."""
        counted = int(self.one("<u8")) if n is None else n
        n_bytes, n_left = counted * np.dtype(kind).itemsize, len(self._content) - self._place
        if size not in (None, counted):
            raise ModelError(f"Expected {size} entries, got {counted}.")
        if not 0 <= n_bytes <= n_left:
            raise ModelError(f"Expected {n_bytes} bytes more, got {n_left}.")
        start, self._place = self._place, self._place + n_bytes
        return np.frombuffer(self._content[start : self._place], kind).tolist()

    def one(self, kind: str) -> Any:
        return self.many(kind, n=1)[0]

    def choice(self, kind: str, names: tuple[Any, ...] | dict[int, Any]) -> Any:
        """Return what a number stands for."""
        number = self.one(kind)
        if number not in (names if isinstance(names, dict) else range(len(names))):
            raise ModelError(f"Expected one of {len(names)} numbers, got {number}.")
        return names[number]

    def text(self) -> str:
        return bytes(self.many("u1")).decode(errors="replace")

    def end(self) -> None:
        if self._place != len(self._content):
            raise ModelError(f"Expected a checkpoint of {self._place} bytes, got {len(self._content)}.")

    def no_more(self) -> None:
        """Refuse fields that may be added by another version."""
        if (n := self.one("<i4")) != 0:
            raise ModelError(f"Expected no optional fields, got {n}.")


def read_checkpoint(content: bytes) -> dict[str, Any]:
    """Return a checkpoint as the document that ``dump_as_json`` writes."""
    fields = _Fields(content)
    version = fields.many("<i4", n=3)
    if version[0] != 4:
        raise ModelError(f"Expected a checkpoint of treelite 4, got one of {'.'.join(map(str, version))}.")
    (threshold, kind), (leaf, kind_of_leaf) = fields.choice("u1", FLOATS), fields.choice("u1", FLOATS)
    n_trees = fields.one("<u8")
    document = {
        "threshold_type": threshold,
        "leaf_output_type": leaf,
        "num_feature": fields.one("<i4"),
        "task_type": fields.choice("u1", TASKS),
        "average_tree_output": fields.choice("u1", (False, True)),
        "num_target": fields.one("<i4"),
        "num_class": fields.many("<i4"),
        "leaf_vector_shape": fields.many("<i4", 2),
        "target_id": fields.many("<i4", n_trees),
        "class_id": fields.many("<i4", n_trees),
        "postprocessor": fields.text(),
        "sigmoid_alpha": fields.one("<f4"),
        "ratio_c": fields.one("<f4"),
        "base_scores": fields.many("<f8"),
        "attributes": fields.text(),
    }
    fields.no_more()
    document["trees"] = [{"nodes": _read_nodes(fields, kind, kind_of_leaf)} for _ in range(n_trees)]
    fields.end()
    return document


def _read_nodes(fields: _Fields, kind: str, kind_of_leaf: str) -> list[dict[str, Any]]:
    n, _ = fields.one("<i4"), fields.choice("u1", (False, True))
    types = fields.many("i1", n)
    left, right, feature = (fields.many("<i4", n) for _ in range(3))
    missing_left, leaf, threshold = fields.many("u1", n), fields.many(kind_of_leaf, n), fields.many(kind, n)
    compared, swapped = fields.many("i1", n), fields.many("u1", n)
    vectors = fields.many(kind_of_leaf), fields.many("<u8", n), fields.many("<u8", n)
    categories = fields.many("<u4"), fields.many("<u8", n), fields.many("<u8", n)
    for unused in UNUSED:
        fields.many(unused)
    fields.no_more()
    fields.no_more()
    nodes: list[dict[str, Any]] = []
    for i, node_type in enumerate(types):
        node: dict[str, Any] = {"node_id": i}
        (vector, listed) = (_part(*held, i) for held in (vectors, categories))
        is_sound = {missing_left[i], swapped[i]} <= {0, 1} and compared[i] in range(len(COMPARISONS))
        if not is_sound or node_type not in (LEAF, NUMBERS, CATEGORIES) or (left[i] == -1) != (node_type == LEAF):
            raise ModelError(f"Expected nodes as treelite writes them, got another type of node {i}.")
        if node_type == LEAF:
            node["leaf_value"] = vector or leaf[i]
        else:
            node |= {"split_feature_id": feature[i], "default_left": missing_left[i] == 1}
            node |= {"left_child": left[i], "right_child": right[i]}
            if node_type == NUMBERS:
                node |= {"node_type": "numerical_test_node", "comparison_op": COMPARISONS[compared[i]]}
                node["threshold"] = threshold[i]
            else:
                node |= {"node_type": "categorical_test_node", "category_list": listed}
                node["category_list_right_child"] = swapped[i] == 1
        nodes.append(node)
    return nodes


def _part(values: list[Any], begin: list[int], end: list[int], i: int) -> list[Any]:
    if not begin[i] <= end[i] <= len(values):
        raise ModelError(f"Expected values of node {i} among {len(values)}, got {shown((begin[i], end[i]))}.")
    return values[begin[i] : end[i]]

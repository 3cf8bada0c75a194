"""LightGBM's ``dump_model`` as JSON: it holds what the text file holds, as which it is read (`lightgbm_models`)."""

from __future__ import annotations

import json
import math
import re
from typing import Any

from certiforest.ensemble import ModelError
from certiforest.ensemble.documents import entries, entry, has, integer, read_json, sound, string, strings
from certiforest.ensemble.numbers import is_number
from certiforest.formats.lightgbm_models import GOES_LEFT, IS_CATEGORICAL, ZERO_IS_MISSING, parse_lightgbm
from certiforest.formats.opened import Opened
from certiforest.words import shown

DUMP_KEY = re.compile(rb'"tree_info"\s*:')
MISSING = {"None": 0, "Zero": ZERO_IS_MISSING, "NaN": 2 * ZERO_IS_MISSING}
INFINITE = 1e300  # what a dump has for infinity, at splits between numbers and missing values
HEADER = ("num_class", "num_tree_per_iteration", "max_feature_idx")


def parse_dump(content: bytes, *, source: str = "the text") -> Opened:
    """Read what ``json.dump(booster.dump_model(), file)`` writes; ``source`` names it in errors."""
    with sound(source, "dump of LightGBM"):
        document = read_json(content)
        names = strings(document, "feature_names")
        infos = entry(document, "feature_infos")
        lines = ["tree", *(f"{name}={integer(document, name)}" for name in HEADER)]
        lines += [f"objective={string(document, 'objective')}", f"feature_names={' '.join(names)}"]
        lines.append("feature_infos=" + " ".join(_info(infos, name) for name in names))
        if document.get("average_output", False) is True:
            lines.append("average_output")
        for index, tree in enumerate(entries(document, "tree_info")):
            lines += ["", f"Tree={index}", *_tree(index, tree)]
        lines += ["", "end of trees", "", "pandas_categorical:" + json.dumps(document.get("pandas_categorical"))]
        text = "\n".join(lines)
        if len(text.split("\n")) != len(lines):
            raise ModelError("Expected names and an objective of one line each, got more.")
    return parse_lightgbm(text, source=source)


def _info(infos: Any, name: str) -> str:
    if not has(infos, name):
        return "none"
    values = entries(infos, name, "values") if has(infos[name], "values") else []
    return ":".join(str(value) for value in values) if values else "[:]"


def _tree(index: int, tree: Any) -> list[str]:
    """Return the lines of a tree, whose splits and leaves say where they stand in them."""
    n_leaves = integer(tree, "num_leaves")
    splits, leaves, sets = dict[int, tuple[Any, ...]](), dict[int, Any](), list[list[int]]()
    waiting = [entry(tree, "tree_structure")]
    while waiting:
        node = waiting.pop()
        if not has(node, "split_index"):
            if has(node, "leaf_coeff") or has(node, "leaf_const"):
                raise ModelError(f"Expected constant leaves, got linear models in the leaves of tree {index}.")
            leaves[_place(node, n_leaves)] = _number(node, "leaf_value")
            continue
        kind, threshold = string(node, "decision_type"), entry(node, "threshold")
        missing, goes_left = string(node, "missing_type"), entry(node, "default_left")
        if kind not in ("<=", "==") or missing not in MISSING or not isinstance(goes_left, bool):
            raise ModelError(f"Expected a split as LightGBM writes it, got {shown(node)} in tree {index}.")
        bits = MISSING[missing] + GOES_LEFT * goes_left
        if kind == "==":
            words = threshold.split("||") if isinstance(threshold, str) else [str(threshold)]
            if not all(re.fullmatch(r"[0-9]{1,7}", word) for word in words):
                raise ModelError(f"Expected categories joined by ||, got {shown(threshold)} in tree {index}.")
            bits, threshold = bits | IS_CATEGORICAL, len(sets)
            sets.append([int(word) for word in words])
        else:
            threshold = _number(node, "threshold")
            threshold = math.inf if threshold == INFINITE else threshold
        children = [entry(node, side) for side in ("left_child", "right_child")]
        places = [
            integer(child, "split_index") if has(child, "split_index") else ~_place(child, n_leaves)
            for child in children
        ]
        splits[integer(node, "split_index")] = integer(node, "split_feature"), repr(threshold), bits, *places
        waiting += children
    if sorted(leaves) != [*range(n_leaves)] or sorted(splits) != [*range(n_leaves - 1)]:
        raise ModelError(f"Expected tree {index} of {n_leaves} leaves to number its splits and leaves, got others.")
    lines = [f"num_leaves={n_leaves}", f"num_cat={len(sets)}"]
    columns = zip(*(splits[place] for place in range(n_leaves - 1)), strict=True)
    names = ("split_feature", "threshold", "decision_type", "left_child", "right_child")
    lines += [f"{name}={' '.join(map(str, column))}" for name, column in zip(names, columns, strict=False)]
    if sets:
        packed = [_bits(values) for values in sets]
        ends = [sum(map(len, packed[:n])) for n in range(len(packed) + 1)]
        lines.append("cat_boundaries=" + " ".join(map(str, ends)))
        lines.append("cat_threshold=" + " ".join(str(word) for part in packed for word in part))
    return [*lines, "leaf_value=" + " ".join(repr(leaves[place]) for place in range(n_leaves))]


def _place(leaf: Any, n_leaves: int) -> int:
    return 0 if n_leaves == 1 else integer(leaf, "leaf_index")


def _bits(values: list[int]) -> list[int]:
    """Return whole numbers as bits of words of 32."""
    words = [0] * (max(values) // 32 + 1)
    for value in values:
        words[value // 32] |= 1 << value % 32
    return words


def _number(node: Any, name: str) -> float:
    found = entry(node, name)
    if not is_number(found):
        raise ModelError(f"Expected a number at {name!r}, got {shown(found)}.")
    return float(found)

"""Nodes of trees: whether they are sound, in preorder, and which of them rows can reach."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from certiforest.ensemble import tree_kernels as kernels
from certiforest.ensemble.numbers import InexactError, exact_floats, owned


class ModelError(ValueError):
    """A model, or the file it comes from, is not what it should be."""


class Nodes(NamedTuple):
    """One tree as most libraries hold it: children by index, in any order, node 0 the root.

    ``left[i] == -1`` marks a leaf; ``leaf[i]`` is then its class index, or its row of scores (ignored at splits).
    ``missing_left`` and ``subset`` as for `TreeEnsemble`; all trees have them, or none.
    """

    left: ArrayLike
    right: ArrayLike
    feature: ArrayLike
    threshold: ArrayLike
    leaf: ArrayLike
    missing_left: ArrayLike | None = None
    subset: ArrayLike | None = None


def link(feature: NDArray) -> tuple[NDArray, NDArray]:
    """Return the right child of each node (-1 at leaves) and where trees start, of nodes in preorder."""
    size = len(feature)
    right, tree_start = np.empty(size, np.int32), np.empty(size + 1, np.int64)
    n_trees = kernels.link_preorder(feature, right, tree_start, np.empty(size, np.int64))
    if n_trees < 0:
        raise ModelError("Expected whole trees, got a last tree that is cut short.")
    return right, tree_start[: n_trees + 1].copy()


def check_nodes(
    columns: tuple[ArrayLike, ArrayLike, ArrayLike, ArrayLike | None, ArrayLike | None],
    n_features: int,
    n_values: int,
    n_subsets: int,
) -> kernels.NodeColumns:
    """Return nodes in preorder; ``n_values`` and ``n_subsets`` is what leaves and splits on categories choose from.

    ``columns`` are feature, threshold, leaf, missing_left and subset.
    """
    feature, leaf = _integers(columns[0], "feature"), _integers(columns[2], "leaf")
    threshold = floats_of(columns[1], "threshold") + 0.0  # a copy with one kind of zero
    missing_left = np.zeros(feature.shape, bool) if columns[3] is None else _flags(columns[3], "missing_left")
    subset = np.full(feature.shape, -1) if columns[4] is None else _integers(columns[4], "subset")
    shapes = [column.shape for column in (feature, threshold, leaf, missing_left, subset)]
    if feature.ndim != 1 or len(set(shapes)) > 1:
        raise ModelError(
            "Expected feature, threshold, leaf, missing_left and subset of one length, got shapes"
            f" {', '.join(map(str, shapes))}."
        )
    if feature.size == 0:
        raise ModelError("Expected at least one tree, got none.")
    if feature.size > 2**31 - 2:
        raise ModelError(f"Expected fewer than 2**31 - 1 nodes, got {feature.size}.")
    if feature.min() < -1 or feature.max() >= n_features:
        raise ModelError(
            f"Expected feature indices from 0 to {n_features - 1}, or -1 at leaves,"
            f" got {feature.min() if feature.min() < -1 else feature.max()}."
        )
    is_leaf = feature < 0
    if subset.min() < -1 or subset.max() >= n_subsets:
        raise ModelError(
            f"Expected subset to be between 0 and {n_subsets - 1}, or -1 where there is none, got {subset.min()} to"
            f" {subset.max()}."
        )
    threshold[is_leaf], missing_left[is_leaf], subset[is_leaf], leaf[~is_leaf] = 0.0, False, -1, -1
    has_none = np.isnan(threshold)
    if np.isinf(threshold).any() or (has_none & (subset < 0) & ~missing_left).any():
        raise ModelError("Expected finite thresholds, got NaN or infinity.")
    if (~has_none & (subset >= 0)).any() or np.isin(feature[~has_none & ~is_leaf], feature[subset >= 0]).any():
        raise ModelError("Expected a feature to be compared with thresholds or with sets of values, got both.")
    if leaf[is_leaf].min(initial=0) < 0 or leaf[is_leaf].max(initial=0) >= n_values:
        raise ModelError(
            f"Expected the class index, or row of scores, of every leaf to be between 0 and {n_values - 1},"
            f" got {leaf[is_leaf].min()} to {leaf[is_leaf].max()}."
        )
    return kernels.NodeColumns(
        feature.astype(np.int32), threshold, leaf.astype(np.int32), missing_left, subset.astype(np.int32)
    )


def move_below(nodes: kernels.NodeColumns, blanks: NDArray[np.float64]) -> kernels.NodeColumns:
    """Put thresholds among numbers that count as missing, (2, n_features), right below them: no number is between."""
    low, high = blanks[:, nodes.feature]
    is_inside = (low <= nodes.threshold) & (nodes.threshold <= high) & (nodes.feature >= 0)
    with np.errstate(over="ignore"):  # of ranges without a lower end, where no threshold is
        return nodes._replace(threshold=np.where(is_inside, np.nextafter(low, -np.inf), nodes.threshold))


def _flags(values: ArrayLike, name: str) -> NDArray[np.bool_]:
    array = np.array(values)
    if array.size and (array.dtype.kind not in "biu" or not ((array == 0) | (array == 1)).all()):
        raise ModelError(f"Expected {name} to hold 0 and 1, got others.")
    return array.astype(bool)


def _integers(values: ArrayLike, name: str) -> NDArray[np.int64]:
    try:
        array = np.array(values)
    except ValueError:
        array = np.empty(1, object)
    if array.size and (array.dtype.kind not in "iu" or array.max() > np.iinfo(np.int64).max):
        raise ModelError(f"Expected {name} to hold integers of 64 bits at most, got {array.dtype}.")
    return array.astype(np.int64)


def floats_of(values: ArrayLike, name: str) -> NDArray[np.float64]:
    """Return numbers as float64, exactly; ``name`` is what they are called in errors."""
    try:
        return exact_floats(values)
    except InexactError as error:
        raise ModelError(f"Expected {name} to hold numbers, got {error}.") from None


def preorder(index: int, tree: Nodes) -> tuple[NDArray | None, ...]:
    """Return the columns of one tree's nodes in preorder; every node must be met exactly once."""
    left, right = _integers(tree.left, "left"), _integers(tree.right, "right")
    feature, leaf = _integers(tree.feature, "feature"), _integers(tree.leaf, "leaf")
    threshold = floats_of(tree.threshold, "threshold")
    more = [None if column is None else np.asarray(column) for column in (tree.missing_left, tree.subset)]
    given = [left, right, feature, threshold, leaf, *(column for column in more if column is not None)]
    shapes = [column.shape for column in given]
    size = left.size
    if set(shapes) != {(size,)} or size == 0:
        raise ModelError(
            f"Expected every node of tree {index} to have a left, right, feature, threshold and leaf entry,"
            f" got columns of the shapes {shapes}."
        )
    order, met = np.empty(size, np.int64), np.zeros(size, bool)
    n_met, node = kernels.walk(left, right, order, met)
    if node >= 0:
        children = int(left[node]), int(right[node])
        if children == (-1, -1) or all(0 <= child < size for child in children):
            raise ModelError(f"Expected tree {index} to be a tree, got node {node} as a child twice.")
        raise ModelError(
            f"Expected children of node {node} of tree {index} between 0 and {size - 1}, or both -1 at"
            f" a leaf, got {children[0]} and {children[1]}."
        )
    if n_met != size:
        raise ModelError(f"Expected every node of tree {index} to hang below its root, got {size - n_met} that do not.")
    is_split = left[order] != -1
    if (feature[order][is_split] < 0).any():
        raise ModelError(f"Expected splits of tree {index} to test a feature >= 0, got a negative index.")
    columns = np.where(is_split, feature[order], -1), threshold[order], leaf[order]
    return *columns, *(None if column is None else column[order] for column in more)


def cut_to_box(
    nodes: kernels.NodeColumns, low: ArrayLike, high: ArrayLike, *, may_miss: bool | NDArray[np.bool_]
) -> dict[str, NDArray]:
    """Return the nodes, given in preorder, that rows in the box ``(low, high]`` reach: columns, linked and read-only.

    ``may_miss`` tells whether values may be missing, of all features or of each.
    """
    feature = nodes.feature
    right, tree_start = link(feature)
    size = len(feature)
    # Bounds of the tested features only: a small file may claim any number of features.
    tested = np.unique(np.append(feature[feature >= 0], 0))
    low, high, may_miss = (
        np.full(len(tested), bound) if np.ndim(bound) == 0 else np.asarray(bound)[tested]
        for bound in (low, high, may_miss)
    )
    place_of_node = np.where(feature >= 0, np.searchsorted(tested, feature), -1).astype(np.int32)
    out = kernels.NodeColumns(
        np.empty(size, np.int32),
        np.empty(size),
        np.empty(size, np.int32),
        np.empty(size, bool),
        np.empty(size, np.int32),
    )
    out_box = kernels.Box(np.empty(size), np.empty(size), np.empty(size, bool))
    box = kernels.Box(low, high, may_miss)
    size = kernels.trim(
        nodes._replace(feature=place_of_node), right, tree_start, box, np.empty(size, np.int64), out, out_box
    )
    out = kernels.NodeColumns(*(column[:size] for column in out))
    out = out._replace(feature=np.where(out.feature >= 0, tested[out.feature], -1).astype(np.int32))
    right, tree_start = link(out.feature)
    columns = out._asdict() | {"low": out_box.low[:size], "high": out_box.high[:size]}
    columns |= {"right": right, "tree_start": tree_start}
    return {name: owned(column) for name, column in columns.items()}

"""Walk nodes and rows: cut dead branches, count votes.

A tree is stored in preorder, so the left child of node ``i`` is ``i + 1`` and only the right child needs
an entry. A leaf has ``feature == -1``::

    node       0       1     2       3     4
    feature    7      -1     4      -1    -1           x[7] <= .5 ? leaf 1 : (x[4] <= .2 ? leaf 3 : leaf 4)
    right      2      -1     4      -1    -1
"""

import math
from typing import NamedTuple

import numpy as np
from numpy import ndarray

from certiforest.compiled import kernel

LARGEST = float(np.finfo(np.float64).max)


class Aside(NamedTuple):
    """What splits do with values that are not compared: missing ones, and categories.

    ``missing_left`` (n_nodes,) tells the splits that send NaN left. ``subset`` (n_nodes,) is the number of the set of
    values that a split on categories sends left, -1 at the others; set ``s`` is ``value[start[s]:start[s + 1]]``,
    sorted.
    """

    missing_left: ndarray
    subset: ndarray
    start: ndarray
    value: ndarray


class Trees(NamedTuple):
    """The arrays of a `certiforest.ensemble.TreeEnsemble`, as kernels take them.

    Here a leaf is a split that always leads back to itself (``right[i] == i``, threshold NaN, feature 0), so that a
    row may take ``stride[tree]`` steps at a time without asking whether it has arrived: that question, wrongly
    guessed by the processor, costs more than the steps.

    ``above`` is the smallest value that goes right. The path above a split leaves the values from ``first`` to ``high``
    to the feature that it tests.

    ``aside`` is an `Aside`, or None where all values are numbers. Only predictions look at it. Verification takes trees
    that were made for its row by `settle`, in which a split that the row's missing values or categories decide has no
    threshold (NaN: near to no value) and leads where the row goes, by ``right``. One that an attacker can turn by
    another category, by blanking or by filling tests a feature of no meaning instead, which costs nothing to move.
    """

    feature: ndarray
    threshold: ndarray
    right: ndarray
    leaf: ndarray
    above: ndarray
    first: ndarray
    high: ndarray
    tree_start: ndarray
    stride: ndarray
    aside: Aside | None


class NodeColumns(NamedTuple):
    """Nodes in preorder, column by column."""

    feature: ndarray
    threshold: ndarray
    leaf: ndarray
    missing_left: ndarray
    subset: ndarray


class Box(NamedTuple):
    """What rows there are: the numbers ``(low, high]`` of each feature, and whether it may be missing."""

    low: ndarray
    high: ndarray
    may_miss: ndarray


@kernel
def walk(left, right, out_order, out_met):
    """Write the nodes of a tree in preorder; return how many, and a node met twice or with a child that is none, or -1.

    Both children of a leaf are -1.
    """
    size, n, depth = left.shape[0], 0, 1
    waiting = np.zeros(size + 1, np.int64)
    while depth:
        depth -= 1
        node = waiting[depth]
        if out_met[node]:
            return n, node
        out_met[node], out_order[n] = True, node
        n += 1
        if left[node] == -1 and right[node] == -1:
            continue
        for child in (right[node], left[node]):
            if not 0 <= child < size:
                return n, node
            waiting[depth] = child
            depth += 1
    return n, -1


@kernel
def link_preorder(feature, right, tree_start, stack):
    """Fill ``right`` and ``tree_start`` from which nodes are leaves; return the number of trees, or -1.

    -1 means that the last tree is cut short. ``stack`` needs one entry per node.
    """
    n_trees = 0
    n_missing = 0  # subtrees of the current tree that have not begun
    depth = 0  # stack[:depth]: splits whose right child has not begun
    for node in range(feature.shape[0]):
        if n_missing == 0:
            tree_start[n_trees] = node
            n_trees += 1
            n_missing = 1
        right[node] = -1
        if feature[node] >= 0:
            stack[depth] = node
            depth += 1
            n_missing += 1
        else:
            n_missing -= 1
            if n_missing > 0:
                # A leaf ends the left side of the innermost waiting split: its right child comes next.
                depth -= 1
                right[stack[depth]] = node + 1
    tree_start[n_trees] = feature.shape[0]
    return n_trees if n_missing == 0 else -1


@kernel
def trim(nodes, right, tree_start, box, stack, out, out_box):
    """Copy the nodes that some row in a box can reach; return how many there are.

    A split with a dead side is replaced by its live side. One that numbers pass on one side only, because of the path
    above it, is left to missing values: it has no threshold (NaN) and sends them left and numbers right. Sets of
    categories are not compared with one another, so that splits on them keep both sides.

    ``out_box`` receives what the path above a split leaves to the feature that it tests. ``box`` holds one entry per
    feature, is changed on the way and restored. ``stack`` needs one entry per node.
    """
    low, high, may_miss = box
    n_out = 0
    for tree in range(tree_start.shape[0] - 1):
        node = tree_start[tree]
        depth = 0  # stack[:depth]: open splits by their place in the output; ~place once the right side began
        while True:
            f = nodes.feature[node]
            if f >= 0:
                v, to_left = nodes.threshold[node], nodes.missing_left[node]
                is_set = nodes.subset[node] >= 0
                goes_left = is_set or low[f] < v
                goes_right = is_set or (low[f] < high[f] if v != v else v < high[f])
                if not (goes_left or (to_left and may_miss[f])):
                    node = right[node]
                    continue
                if not (goes_right or (not to_left and may_miss[f])):
                    node = node + 1
                    continue
                left, other = node + 1, right[node]
                out.feature[n_out] = f
                out.subset[n_out] = nodes.subset[node]
                out.missing_left[n_out] = to_left and may_miss[f]
                out.threshold[n_out] = v
                out_box.low[n_out], out_box.high[n_out], out_box.may_miss[n_out] = low[f], high[f], may_miss[f]
                if goes_left and goes_right:
                    if not is_set:
                        high[f] = v
                        may_miss[f] = out.missing_left[n_out]
                else:
                    if goes_left:
                        left, other = other, left
                    out.threshold[n_out] = math.nan
                    out.missing_left[n_out] = True
                    low[f], high[f] = math.inf, -math.inf
                out.leaf[n_out] = other  # parked here until the right side begins
                stack[depth] = n_out
                depth += 1
                n_out += 1
                node = left
                continue
            out.feature[n_out] = out.subset[n_out] = -1
            out.threshold[n_out] = 0.0
            out.missing_left[n_out] = False
            out.leaf[n_out] = nodes.leaf[node]
            out_box.low[n_out] = out_box.high[n_out] = 0.0
            n_out += 1
            while depth > 0 and stack[depth - 1] < 0:  # both sides done: give the interval back
                depth -= 1
                split = ~stack[depth]
                f = out.feature[split]
                low[f], high[f], may_miss[f] = out_box.low[split], out_box.high[split], out_box.may_miss[split]
            if depth == 0:
                break
            split = stack[depth - 1]
            stack[depth - 1] = ~split
            node = out.leaf[split]
            out.leaf[split] = -1
            f, v = out.feature[split], out.threshold[split]
            low[f], high[f] = out_box.low[split], out_box.high[split]
            if out.subset[split] < 0:
                low[f] = v if v == v else low[f]
                may_miss[f] = out_box.may_miss[split] and not out.missing_left[split]
    return n_out


@kernel
def mark_depth(feature, right, out):
    """Write the number of splits above each node to ``out``, which starts at zero."""
    for node in range(feature.shape[0]):  # preorder: a parent comes before its children
        if feature[node] >= 0:
            out[node + 1] = out[right[node]] = out[node] + 1


@kernel
def mark_agreement(feature, right, leaf, worth, out):
    """Write a value of leaves that is worth what those of all leaves below each node are, or -1 if they differ."""
    for node in range(feature.shape[0] - 1, -1, -1):  # backwards: children come before their parent
        if feature[node] < 0:
            out[node] = leaf[node]
        else:
            a, b = out[node + 1], out[right[node]]
            out[node] = a if a == b or (min(a, b) >= 0 and (worth[a] == worth[b]).all()) else -1


@kernel
def is_in_set(start, value, s, x):
    """Tell whether a value is in a set of `Aside`; NaN is in none."""
    low, end = start[s], start[s + 1]
    high = end
    while low < high:
        middle = (low + high) // 2
        if value[middle] < x:
            low = middle + 1
        else:
            high = middle
    return low < end and value[low] == x


@kernel
def settle(trees, x, may_change, may_blank, out_threshold, out_right, out_feature, out_above):
    """Write trees for rows which miss what ``x`` misses and have its categories: see `Trees`.

    ``may_change`` and ``may_blank`` (n_features,) tell where an attacker can change the category, and blank or fill.
    Splits that this can turn test one more feature, number ``n_features``, which is 0 in all rows. Outputs, (n_nodes,)
    each, start as the trees are.
    """
    for node in range(trees.right.shape[0]):
        if trees.right[node] == node:
            continue
        f = trees.feature[node]
        value, is_set = x[f], trees.aside.subset[node] >= 0
        is_left = value <= trees.threshold[node] if value == value else trees.aside.missing_left[node]
        if is_set:
            is_left |= is_in_set(trees.aside.start, trees.aside.value, trees.aside.subset[node], value)
        is_free = (is_set and may_change[f]) or (
            may_blank[f] and (value != value or is_left != trees.aside.missing_left[node])
        )
        if is_free:
            out_feature[node] = may_change.shape[0]
            out_threshold[node], out_above[node] = (0.0, 1.0) if is_left else (-1.0, 0.0)
        elif value != value or is_set or trees.threshold[node] != trees.threshold[node]:
            out_threshold[node] = math.nan
            if is_left:
                out_right[node] = node + 1


@kernel
def find_leaf(trees, tree, x):
    """Return the leaf of a tree in which row ``x`` ends."""
    return walk_down(trees.aside, trees, trees.tree_start[tree], trees.stride[tree], x)


@kernel
def walk_down(aside, trees, node, stride, x):
    """Return the leaf below a node in which row ``x`` ends.

    Arrays have names of their own, as a tuple's are counted anew (ten times what a step takes), and sides are chosen
    in either case of a split, so that the processor need not guess.
    """
    feature, threshold, right = trees.feature, trees.threshold, trees.right
    node = np.uint32(node)  # which is not asked whether it counts from behind
    if aside is None:
        while right[node] != node:
            for _ in range(stride):
                node = np.uint32(node + 1) if x[feature[node]] <= threshold[node] else right[node]
        return node
    missing_left, subset, start, value = aside
    while right[node] != node:
        for _ in range(stride):
            v = x[feature[node]]
            is_left = (v <= threshold[node]) | ((v != v) & missing_left[node])
            if subset[node] < 0:
                node = np.uint32(node + 1) if is_left else right[node]
            else:
                node = np.uint32(node + 1) if is_left or is_in_set(start, value, subset[node], v) else right[node]
    return node


@kernel
def count_votes(trees, X, out):
    """Add each tree's vote for each row to ``out`` (n_rows, n_classes), which starts at zero."""
    for i in range(X.shape[0]):
        for tree in range(trees.tree_start.shape[0] - 1):
            out[i, trees.leaf[find_leaf(trees, tree, X[i])]] += 1

"""Walk nodes and rows: cut dead branches, count votes.

A tree is stored in preorder, so the left child of node ``i`` is ``i + 1`` and only the right child needs
an entry. A leaf has ``feature == -1``::

    node       0       1     2       3     4
    feature    7      -1     4      -1    -1           x[7] <= .5 ? leaf 1 : (x[4] <= .2 ? leaf 3 : leaf 4)
    right      2      -1     4      -1    -1
"""

from typing import NamedTuple

from numpy import finfo, float64, ndarray

from certiforest.compiled import kernel

LARGEST = float(finfo(float64).max)


class Trees(NamedTuple):
    """The arrays of a `certiforest.ensemble.TreeEnsemble`, as kernels take them.

    Here a leaf is a split that always leads back to itself (``right[i] == i``, threshold NaN, feature 0), so that a
    row may take ``stride[tree]`` steps at a time without asking whether it has arrived: that question, wrongly
    guessed by the processor, costs more than the steps.

    ``above`` is the smallest value that goes right. The path above a split leaves the values from ``first`` to ``high``
    to the feature that it tests.
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
def trim(
    feature,
    threshold,
    leaf,
    right,
    tree_start,
    low,
    high,
    stack,
    out_feature,
    out_threshold,
    out_leaf,
    out_low,
    out_high,
):
    """Copy the nodes that some row in the box ``(low, high]`` can reach; return how many there are.

    A split with a dead side is replaced by its live side. ``out_low`` and ``out_high`` receive the interval
    which the path above a split leaves to the feature that it tests. ``low`` and ``high`` hold one entry per
    feature, are changed on the way and restored. ``stack`` needs one entry per node.
    """
    n_out = 0
    for tree in range(tree_start.shape[0] - 1):
        node = tree_start[tree]
        depth = 0  # stack[:depth]: open splits by their place in the output; ~place once the right side began
        while True:
            f = feature[node]
            if f >= 0:
                v = threshold[node]
                if not low[f] < v:  # nobody goes left
                    node = right[node]
                    continue
                if not v < high[f]:  # nobody goes right
                    node = node + 1
                    continue
                out_feature[n_out] = f
                out_threshold[n_out] = v
                out_leaf[n_out] = right[node]  # parked here until the right side begins
                out_low[n_out] = low[f]
                out_high[n_out] = high[f]
                high[f] = v
                stack[depth] = n_out
                depth += 1
                n_out += 1
                node = node + 1
                continue
            out_feature[n_out] = -1
            out_threshold[n_out] = 0.0
            out_leaf[n_out] = leaf[node]
            out_low[n_out] = 0.0
            out_high[n_out] = 0.0
            n_out += 1
            while depth > 0 and stack[depth - 1] < 0:  # both sides done: give the interval back
                depth -= 1
                split = ~stack[depth]
                low[out_feature[split]] = out_low[split]
            if depth == 0:
                break
            split = stack[depth - 1]
            stack[depth - 1] = ~split
            node = out_leaf[split]
            out_leaf[split] = -1
            high[out_feature[split]] = out_high[split]
            low[out_feature[split]] = out_threshold[split]
    return n_out


@kernel
def mark_depth(feature, right, out):
    """Write the number of splits above each node to ``out``, which starts at zero."""
    for node in range(feature.shape[0]):  # preorder: a parent comes before its children
        if feature[node] >= 0:
            out[node + 1] = out[right[node]] = out[node] + 1


@kernel
def mark_agreement(feature, right, leaf, out):
    """Write the class on which all leaves below each node agree, or -1."""
    for node in range(feature.shape[0] - 1, -1, -1):  # backwards: children come before their parent
        if feature[node] < 0:
            out[node] = leaf[node]
        else:
            out[node] = out[node + 1] if out[node + 1] == out[right[node]] else -1


@kernel
def find_leaf(trees, tree, x):
    """Return the leaf of a tree in which row ``x`` ends."""
    node = trees.tree_start[tree]
    while trees.right[node] != node:
        for _ in range(trees.stride[tree]):
            node = node + 1 if x[trees.feature[node]] <= trees.threshold[node] else trees.right[node]
    return node


@kernel
def count_votes(trees, X, out):
    """Add each tree's vote for each row to ``out`` (n_rows, n_classes), which starts at zero."""
    for i in range(X.shape[0]):
        for tree in range(trees.tree_start.shape[0] - 1):
            out[i, trees.leaf[find_leaf(trees, tree, X[i])]] += 1

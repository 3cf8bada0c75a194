"""Count what trees vote in the worst case, row by row through all trees: a row is loaded once for all of them."""

import numpy as np

from certiforest.attack.rounding_kernels import is_within
from certiforest.compiled import kernel


@kernel
def mark_classes_in_reach(trees, tree, x, budget_high, budget_low, stack, out):
    """Mark the classes of the leaves of a tree that a row can be moved into, feature by feature."""
    out[:] = False
    n_marked = 0
    stack[0] = trees.tree_start[tree]
    depth = 1
    while depth > 0 and n_marked < out.shape[0]:
        depth -= 1
        node = stack[depth]
        if trees.right[node] == node:
            n_marked += not out[trees.leaf[node]]
            out[trees.leaf[node]] = True
            continue
        f, v = trees.feature[node], trees.threshold[node]
        if x[f] <= v or is_within(x[f], v, budget_high[f], budget_low[f]):
            stack[depth] = node + 1
            depth += 1
        if x[f] > v or is_within(v, x[f], budget_high[f], budget_low[f]):
            stack[depth] = trees.right[node]
            depth += 1
    return n_marked


@kernel
def weigh_robust_rows(trees, X, y_index, row_weight, budget_high, budget_low, stack, can_say, out):
    """Add the weight of each row to ``out[tree]`` for each tree that is robust on it all alone.

    ``stack`` needs one entry per node of the largest tree, ``can_say`` one per class.
    """
    for i in range(X.shape[0]):
        for tree in range(out.shape[0]):
            n_classes = mark_classes_in_reach(trees, tree, X[i], budget_high, budget_low, stack, can_say)
            if n_classes == 1 and can_say[y_index[i]]:
                out[tree] += row_weight[i]


@kernel
def add_leads(trees, X, y_index, budget_high, budget_low, stack, can_say, out):
    """Add to ``out[row, rival]`` the votes that are sure for the row's class, less those the rival can be given."""
    for i in range(X.shape[0]):
        for tree in range(trees.tree_start.shape[0] - 1):
            n_classes = mark_classes_in_reach(trees, tree, X[i], budget_high, budget_low, stack, can_say)
            is_sure = n_classes == 1 and can_say[y_index[i]]
            for rival in range(out.shape[1]):
                out[i, rival] += np.int64(is_sure) - np.int64(can_say[rival])

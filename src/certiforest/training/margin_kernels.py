"""Count what trees vote in the worst case: which leaves of a tree a row can be moved to, and what they say."""

import numpy as np

from certiforest.compiled import kernel


@kernel
def list_leaves_in_reach(feature, threshold, left, right, root, X, reach, stack, out_start, out_leaf):
    """List the leaves of one tree that each row can reach: ``out_leaf[out_start[i]:out_start[i + 1]]`` for row i.

    Leaves beyond the length of the output are counted, not written; return how many there are.
    """
    n_leaves = 0
    for i in range(X.shape[0]):
        out_start[i] = n_leaves
        stack[0] = root
        n_waiting = 1
        while n_waiting > 0:
            n_waiting -= 1
            node = stack[n_waiting]
            f = feature[node]
            if f < 0:
                if n_leaves < out_leaf.shape[0]:
                    out_leaf[n_leaves] = node
                n_leaves += 1
                continue
            if X[i, f] - reach[f] <= threshold[node]:
                stack[n_waiting] = left[node]
                n_waiting += 1
            if X[i, f] + reach[f] > threshold[node]:
                stack[n_waiting] = right[node]
                n_waiting += 1
    out_start[X.shape[0]] = n_leaves
    return n_leaves


@kernel
def count_worst_votes(start, leaf, says, class_index, sign, own, rival):
    """Add (sign 1) or take away (-1) one tree's votes.

    The tree votes for a row's own class if it can say nothing else, and for each other class that it can say.
    """
    n_classes = rival.shape[1]
    can_say = np.zeros(n_classes, np.bool_)
    for i in range(start.shape[0] - 1):
        is_sure = True
        for j in range(start[i], start[i + 1]):
            can_say[says[leaf[j]]] = True
            is_sure &= says[leaf[j]] == class_index[i]
        if is_sure:
            own[i] += sign
        for c in range(n_classes):
            if can_say[c] and c != class_index[i]:
                rival[i, c] += sign
            can_say[c] = False


@kernel
def sum_leaf_weights(start, leaf, class_index, weight, out):
    """Add the weight of each row to every leaf it can reach, ``out`` of shape (n_nodes, n_classes)."""
    for i in range(start.shape[0] - 1):
        for j in range(start[i], start[i + 1]):
            out[leaf[j], class_index[i]] += weight[i]

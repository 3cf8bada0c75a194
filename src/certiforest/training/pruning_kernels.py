"""Count overlaps between trees and push overlapping thresholds apart, feature by feature.

A *threshold* here is a distinct (tree, feature, value): splits of one tree that test the same thing move
together. Thresholds on different features never overlap, so a feature without overlaps needs no other look,
and the thresholds of one feature form a *segment*::

    segment        0            1      2
    value       .1 .1 .3 .2 |  .5 .7 | .4 .4 .4       in the order in which their trees joined
    tree         0  0  1  2 |   0  2 |  0  1  2
"""

import numpy as np
from numba import njit

from certiforest.ensemble_kernels import find_leaf
from certiforest.rounding_kernels import is_within


@njit(cache=True, nogil=True)
def mark_overlapping_groups(
    group_start,
    group_feature,
    value,
    kept_value,
    kept_start,
    n_kept,
    has_changed,
    budget_high,
    budget_low,
    out,
):
    """Tell which groups have a threshold within budget of a kept one; only groups on features that changed.

    A group holds the thresholds of one tree on one feature: ``value[group_start[g]:group_start[g + 1]]``.
    Kept thresholds on feature ``f`` are ``kept_value[kept_start[f]:][:n_kept[f]]``, sorted.
    """
    for g in range(group_feature.shape[0]):
        f = group_feature[g]
        if not has_changed[f]:
            continue
        out[g] = False
        kept = kept_value[kept_start[f] : kept_start[f] + n_kept[f]]
        for i in range(group_start[g], group_start[g + 1]):
            above = np.searchsorted(kept, value[i])
            if (
                above < kept.shape[0] and is_within(kept[above], value[i], budget_high[f], budget_low[f])
            ) or (above > 0 and is_within(value[i], kept[above - 1], budget_high[f], budget_low[f])):
                out[g] = True
                break


@njit(cache=True, nogil=True)
def find_best_tree(tree_group_start, is_overlapping, is_available):
    """Return the available tree with fewest overlapping groups, the first of several."""
    best, fewest = -1, 0
    for tree in range(is_available.shape[0]):
        if not is_available[tree]:
            continue
        n_overlaps = 0
        for g in range(tree_group_start[tree], tree_group_start[tree + 1]):
            n_overlaps += is_overlapping[g]
        if best < 0 or n_overlaps < fewest:
            best, fewest = tree, n_overlaps
    return best


@njit(cache=True, nogil=True)
def list_pairs(order, value, tree, next_stranger, high, low, out_earlier, out_later):
    """Write the overlapping pairs of one segment as positions ``earlier < later``; return how many there are.

    ``value`` and ``tree`` are sorted by value, ``order`` tells their positions in the segment. Pairs beyond
    the length of the outputs are counted, not written.
    """
    size = order.shape[0]
    # Jumping over the rest of the own tree's thresholds keeps the work proportional to the pairs found.
    for i in range(size - 1, -1, -1):
        if i + 1 == size or tree[i + 1] != tree[i]:
            next_stranger[i] = i + 1
        else:
            next_stranger[i] = next_stranger[i + 1]
    n_pairs = 0
    for i in range(size):
        j = next_stranger[i]
        while j < size and is_within(value[j], value[i], high, low):
            if tree[j] == tree[i]:
                j = next_stranger[j]
                continue
            if n_pairs < out_earlier.shape[0]:
                out_earlier[n_pairs] = min(order[i], order[j])
                out_later[n_pairs] = max(order[i], order[j])
            n_pairs += 1
            j += 1
    return n_pairs


@njit(cache=True, nogil=True)
def sort_pairs(key, other, size, count, out_key, out_other):
    """Sort pairs by ``key`` (< size), keeping the order of equals, by counting."""
    count[: size + 1] = 0
    for k in key:
        count[k + 1] += 1
    for i in range(size):
        count[i + 1] += count[i]
    for i in range(key.shape[0]):
        place = count[key[i]]
        count[key[i]] += 1
        out_key[place] = key[i]
        out_other[place] = other[i]


@njit(cache=True, nogil=True)
def push_pairs(
    earlier, later, start, step, lowest, highest, first_shift, last_shift, generator, has_moved, value
):
    """Push pairs apart: the lower threshold down, the upper one up, both by one draw.

    All moves of a round start from the values at its start, so each threshold moves once, for the first pair
    that can move it, and never out of ``[lowest, highest]``. ``value`` enters as a copy of ``start``.
    """
    for i in range(earlier.shape[0]):
        lower, upper = earlier[i], later[i]
        if start[upper] < start[lower]:
            lower, upper = upper, lower
        shift = (first_shift + (last_shift - first_shift) * generator.random()) * step
        if not has_moved[lower] and start[lower] - shift >= lowest:
            value[lower] = start[lower] - shift
            has_moved[lower] = True
        if not has_moved[upper] and start[upper] + shift <= highest:
            value[upper] = start[upper] + shift
            has_moved[upper] = True


@njit(cache=True, nogil=True)
def push_apart(
    segment_start, segment_feature, tree, budget_high, budget_low, step, lowest, highest,
    first_shift, last_shift, max_iter, generator, value,
):  # fmt: skip
    """Push overlapping thresholds apart in rounds; return how many it took, -1 if some overlap still.

    A round lists the overlaps at its start, segment by segment, pairs in the order in which their trees
    joined. A segment without overlaps is done. ``value`` is changed in place and means nothing if this fails.
    """
    longest = 0
    for s in range(segment_feature.shape[0]):
        longest = max(longest, segment_start[s + 1] - segment_start[s])
    next_stranger, count = np.empty(longest, np.int64), np.empty(longest + 1, np.int64)
    has_moved = np.empty(longest, np.bool_)
    n_room = 4 * longest
    earlier, later = np.empty(n_room, np.int64), np.empty(n_room, np.int64)
    spare_earlier, spare_later = np.empty(n_room, np.int64), np.empty(n_room, np.int64)
    active = np.arange(segment_feature.shape[0])
    n_active = active.shape[0]
    for n_rounds in range(max_iter + 1):
        n_left = 0
        for s in active[:n_active]:
            f, here = segment_feature[s], slice(segment_start[s], segment_start[s + 1])
            start = value[here].copy()
            order = np.argsort(start, kind="mergesort")
            size = order.shape[0]
            neighbours = start[order], tree[here][order]
            n_pairs = list_pairs(
                order, *neighbours, next_stranger, budget_high[f], budget_low[f], earlier, later
            )
            if n_pairs == 0:
                continue
            if n_rounds == max_iter:
                return -1
            if n_pairs > n_room:
                n_room = 2 * n_pairs
                earlier, later = np.empty(n_room, np.int64), np.empty(n_room, np.int64)
                spare_earlier, spare_later = np.empty(n_room, np.int64), np.empty(n_room, np.int64)
                list_pairs(order, *neighbours, next_stranger, budget_high[f], budget_low[f], earlier, later)
            sort_pairs(later[:n_pairs], earlier[:n_pairs], size, count, spare_later, spare_earlier)
            sort_pairs(spare_earlier[:n_pairs], spare_later[:n_pairs], size, count, earlier, later)
            has_moved[:size] = False
            push_pairs(
                earlier[:n_pairs], later[:n_pairs], start, step[f], lowest[f], highest[f],
                first_shift, last_shift, generator, has_moved, value[here],
            )  # fmt: skip
            active[n_left] = s
            n_left += 1
        n_active = n_left
        if n_active == 0:
            return n_rounds
    return -1


@njit(cache=True, nogil=True)
def is_robust_alone(trees, tree, x, label, budget_high, budget_low, stack):
    """Tell whether every leaf of a tree that a row can be moved into, feature by feature, is of its class."""
    stack[0] = trees.tree_start[tree]
    depth = 1
    while depth > 0:
        depth -= 1
        node = stack[depth]
        if trees.right[node] == node:
            if trees.leaf[node] != label:
                return False
            continue
        f, v = trees.feature[node], trees.threshold[node]
        if x[f] <= v or is_within(x[f], v, budget_high[f], budget_low[f]):
            stack[depth] = node + 1
            depth += 1
        if x[f] > v or is_within(v, x[f], budget_high[f], budget_low[f]):
            stack[depth] = trees.right[node]
            depth += 1
    return True


@njit(cache=True, nogil=True)
def weigh_robust_rows(trees, X, y_index, sample_weight, budget_high, budget_low, stack, out):
    """Add the weight of each row to ``out[tree]`` for each tree that is robust on it all alone.

    ``stack`` needs one entry per node of the largest tree.
    """
    for i in range(X.shape[0]):
        for tree in range(out.shape[0]):
            if is_robust_alone(trees, tree, X[i], y_index[i], budget_high, budget_low, stack):
                out[tree] += sample_weight[i]


@njit(cache=True, nogil=True)
def weigh_leaves(trees, X, y_index, sample_weight, out):
    """Add the weight of each row to ``out[leaf, class]`` for the leaf it reaches in each tree."""
    for i in range(X.shape[0]):
        for tree in range(trees.tree_start.shape[0] - 1):
            out[find_leaf(trees, tree, X[i]), y_index[i]] += sample_weight[i]

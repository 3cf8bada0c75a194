"""Count overlaps between trees and push overlapping thresholds apart, feature by feature.

A *threshold* here is a distinct (tree, feature, value): splits of one tree that test the same thing move
together. Thresholds on different features never overlap, so a feature without overlaps needs no other look,
and the thresholds of one feature form a *segment*::

    segment        0            1      2
    value       .1 .1 .3 .2 |  .5 .7 | .4 .4 .4       in the order in which their trees joined
    tree         0  0  1  2 |   0  2 |  0  1  2
"""

from typing import NamedTuple

import numpy as np
from numpy import ndarray

from certiforest.attack.reach_kernels import is_within
from certiforest.compiled import kernel
from certiforest.ensemble.tree_kernels import find_leaf


class Pool(NamedTuple):
    """The distinct thresholds of a forest, sorted by tree, feature and value; a *group*: one tree's on one feature."""

    value: ndarray  # (n_thresholds,)
    tree_start: ndarray  # (n_trees + 1,) the first threshold of each tree
    group_start: ndarray  # (n_groups + 1,) of each group
    group_feature: ndarray  # (n_groups,)
    tree_group_start: ndarray  # (n_trees + 1,) the first group of each tree
    by_feature: ndarray  # (n_thresholds,) thresholds, sorted by feature, then as above
    feature_start: ndarray  # (n_features + 1,) where those of each feature begin


class Pushing(NamedTuple):
    """How thresholds on each feature are pushed apart, (n_features,) each.

    Those within ``distances`` (see `certiforest.attack.spread.Distances`) are moved by ``step`` times a draw from the
    range ``shifts``, and never out of ``lowest`` to ``highest``.
    """

    distances: tuple
    step: ndarray
    lowest: ndarray
    highest: ndarray
    shifts: tuple


@kernel
def mark_overlapping_groups(pool, features, rank, value, distances, out):
    """Tell which groups on some features have a threshold too close to the value of a kept one, which has a rank."""
    start = pool.feature_start
    kept_value, n_kept = np.empty(value.shape[0]), np.full(start.shape[0] - 1, -1)
    for f in features:
        n = 0
        for threshold in pool.by_feature[start[f] : start[f + 1]]:
            if rank[threshold] >= 0:
                kept_value[start[f] + n] = value[threshold]
                n += 1
        kept_value[start[f] : start[f] + n].sort()
        n_kept[f] = n
    for g in range(pool.group_feature.shape[0]):
        f = pool.group_feature[g]
        if n_kept[f] < 0:
            continue
        out[g] = False
        high, low, kept = distances.rounded[f], distances.rest[f], kept_value[start[f] : start[f] + n_kept[f]]
        for v in pool.value[pool.group_start[g] : pool.group_start[g + 1]]:
            above = np.searchsorted(kept, v)
            if (above < kept.shape[0] and is_within(kept[above], v, high, low)) or (
                above > 0 and is_within(v, kept[above - 1], high, low)
            ):
                out[g] = True
                break


@kernel
def find_best_tree(tree_group_start, is_overlapping, is_available, preference):
    """Return the available tree with fewest overlapping groups, of several the preferred, of those the first."""
    best, fewest = -1, 0
    for tree in range(is_available.shape[0]):
        if not is_available[tree]:
            continue
        n_overlaps = 0
        for g in range(tree_group_start[tree], tree_group_start[tree + 1]):
            n_overlaps += is_overlapping[g]
        if best < 0 or n_overlaps < fewest or (n_overlaps == fewest and preference[tree] > preference[best]):
            best, fewest = tree, n_overlaps
    return best


@kernel
def has_overlap(value, tree, high, low):
    """Tell whether thresholds of two trees overlap in a segment sorted by value.

    The closest pair of two trees is always a pair of neighbours: between its ends the tree changes somewhere.
    """
    for i in range(1, value.shape[0]):
        if tree[i] != tree[i - 1] and is_within(value[i], value[i - 1], high, low):
            return True
    return False


@kernel
def push_segment(value, tree, f, pushing, generator, out):
    """Push overlapping pairs on feature ``f`` apart by one draw each: the lower down, the upper up. Sorted by value.

    All moves start from ``value``, so each threshold moves once, for the first pair that can move it. Pairs come by
    their lower, then their upper threshold. ``out`` enters as a copy of ``value``.
    """
    high, low, (first_shift, last_shift) = pushing.distances.rounded[f], pushing.distances.rest[f], pushing.shifts
    step, lowest, highest = pushing.step[f], pushing.lowest[f], pushing.highest[f]
    size = value.shape[0]
    next_stranger, has_moved = np.empty(size, np.int64), np.empty(size, np.bool_)
    # Jumping over the rest of the own tree's thresholds keeps the work proportional to the pairs found.
    for i in range(size - 1, -1, -1):
        has_moved[i] = False
        if i + 1 == size or tree[i + 1] != tree[i]:
            next_stranger[i] = i + 1
        else:
            next_stranger[i] = next_stranger[i + 1]
    for i in range(size):
        j = next_stranger[i]
        while j < size and is_within(value[j], value[i], high, low):
            if tree[j] == tree[i]:
                j = next_stranger[j]
                continue
            shift = (first_shift + (last_shift - first_shift) * generator.random()) * step
            if not has_moved[i] and value[i] - shift >= lowest:
                out[i] = value[i] - shift
                has_moved[i] = True
            if not has_moved[j] and value[j] + shift <= highest:
                out[j] = value[j] + shift
                has_moved[j] = True
            j += 1


@kernel
def push_apart(segment_start, segment_feature, tree, pushing, max_iter, generator, value):
    """Push overlapping thresholds apart in rounds; return how many it took, -1 if some overlap still.

    A round goes through the segments; one without overlaps is done. Equal thresholds count as sorted by the
    order in which their trees joined. ``value`` is changed in place and means nothing if this fails.
    """
    distances = pushing.distances
    active = np.arange(segment_feature.shape[0])
    n_active = active.shape[0]
    for n_rounds in range(max_iter + 1):
        n_left = 0
        for s in active[:n_active]:
            f, here = segment_feature[s], slice(segment_start[s], segment_start[s + 1])
            order = np.argsort(value[here], kind="mergesort")
            sorted_value, sorted_tree = value[here][order], tree[here][order]
            if not has_overlap(sorted_value, sorted_tree, distances.rounded[f], distances.rest[f]):
                continue
            if n_rounds == max_iter:
                return -1
            pushed = sorted_value.copy()
            push_segment(sorted_value, sorted_tree, f, pushing, generator, pushed)
            value[here][order] = pushed
            active[n_left] = s
            n_left += 1
        n_active = n_left
        if n_active == 0:
            return n_rounds
    return -1


@kernel
def weigh_leaves(trees, X, y_index, sample_weight, out):
    """Add the weight of each row to ``out[leaf, class]`` for the leaf it reaches in each tree."""
    for i in range(X.shape[0]):
        for tree in range(trees.tree_start.shape[0] - 1):
            out[find_leaf(trees, tree, X[i]), y_index[i]] += sample_weight[i]

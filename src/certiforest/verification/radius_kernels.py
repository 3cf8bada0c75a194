"""How far a row can be moved before trees meet, and before its prediction changes."""

import math

import numpy as np

from certiforest.attack.rounding_kernels import ceil_difference, successor
from certiforest.compiled import kernel
from certiforest.ensemble.tree_kernels import LARGEST, find_leaf
from certiforest.verification.composition_kernels import cheapest_change, most_voted, price_row, write_witness


@kernel
def distance_to(x, v):
    """Return the smallest float not below the distance from ``x`` across the threshold ``v``, the largest at most."""
    return min(ceil_difference(successor(v), x) if x <= v else ceil_difference(x, v), LARGEST)


@kernel
def meeting_distance(value, tree, x):
    """Return how far ``x`` must move to be able to cross thresholds of two trees, inf if it never is.

    ``value`` holds the thresholds of one feature in ascending order and ``tree`` their trees. From the row outwards
    the first threshold belongs to some tree; the answer is the distance to the first one of another tree::

        tree     2    7    7  x  7      5
                               |------->|       7 is nearest, then 7, 7 again, then 5
    """
    below = np.searchsorted(value, x, side="left") - 1  # the last threshold that x is right of
    above = below + 1
    first_tree = -1
    while below >= 0 or above < value.shape[0]:
        down = distance_to(x, value[below]) if below >= 0 else math.inf
        up = distance_to(x, value[above]) if above < value.shape[0] else math.inf
        if down <= up:
            step, t = down, tree[below]
            below -= 1
        else:
            step, t = up, tree[above]
            above += 1
        if first_tree < 0:
            first_tree = t
        elif t != first_tree:
            return step
    return math.inf


@kernel
def meeting_radii(feature, feature_start, value, tree, scale, X, out):
    """Write, for each row, the smallest budget at which two trees meet on some feature.

    Thresholds of ``feature[k]`` are ``value[feature_start[k]:feature_start[k + 1]]``, in ascending order.
    The result is exact for a scale of 1, and at most a few floats too small for any other.
    """
    for i in range(X.shape[0]):
        out[i] = math.inf
        for k in range(feature.shape[0]):
            f = feature[k]
            part = slice(feature_start[k], feature_start[k + 1])
            radius = meeting_distance(value[part], tree[part], X[i, f])
            if scale[f] != 1.0:
                radius = (radius / scale[f]) * (1.0 - 1e-15)
            out[i] = min(out[i], radius)


@kernel
def changes_vote(trees, x, y, leaf, target, z):
    """Write row ``x``, moved into the leaves of all its targets, to ``z``; tell whether ``y`` no longer wins."""
    z[:] = x
    write_witness(trees, leaf, target, z)
    vote = np.empty_like(target)
    for tree in range(target.shape[0]):
        vote[tree] = trees.leaf[find_leaf(trees, tree, z)]
    return most_voted(vote, leaf.shape[1]) != y


@kernel
def change_radii(trees, X, movable, norm, n_classes, out_radius, out_works, out_witness):
    """Write the cost of each row's cheapest composed change, inf if there is none, whether it works, and its result.

    For norms whose costs are floats: L-inf (norm -1) and L0. ``movable`` (n_features,) is False for frozen features.
    """
    n_trees = trees.tree_start.shape[0] - 1
    stack = np.empty(trees.feature.shape[0] + 1, np.int64)
    stack_cost = np.empty(trees.feature.shape[0] + 1)
    cost = np.empty((n_trees, n_classes))
    leaf = np.empty((n_trees, n_classes), np.int64)
    vote = np.empty(n_trees, np.int64)
    best = np.empty(n_trees + 2)
    choice = np.empty((n_trees, n_trees + 2), np.int8)
    target = np.empty(n_trees, np.int64)
    high = np.where(movable, math.inf, -1.0)
    low = np.zeros(X.shape[1])
    unit = np.ones(X.shape[1])
    for i in range(X.shape[0]):
        price_row(trees, X[i], high, low, unit, norm, math.inf, stack, stack_cost, cost, leaf, vote)
        y = most_voted(vote, n_classes)
        out_radius[i] = cheapest_change(cost, vote, y, norm == -1, best, choice, target)
        out_works[i] = out_radius[i] < math.inf and changes_vote(trees, X[i], y, leaf, target, out_witness[i])

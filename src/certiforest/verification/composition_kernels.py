"""Put the trees together: whether the vote of a row is beyond the attacker's reach, and what a change costs.

Where no two trees share a feature that the attacker can move across thresholds of both, each tree can be attacked
on its own and costs combine: the largest of them for L-inf, their sum otherwise.
"""

import math

import numpy as np
from numba import njit

from certiforest.reach_kernels import claim, enter_leaf, other_side_is_near, visit_priced

STABLE, UNSTABLE, UNKNOWN, BORDERLINE = 1, 0, -1, 2


@njit(cache=True, nogil=True)
def holds_majority(count, n_trees, c):
    """Tell whether ``count`` votes for class ``c`` win whatever the other trees vote: ties go to the lowest class."""
    rest = n_trees - count
    return count > rest or (count == rest and c == 0)


@njit(cache=True, nogil=True)
def decide_within_box(trees, X, high, low, n_classes, watch, order, out_prediction, out_stable):
    """Decide every row against an L-inf attacker.

    A tree that can say one thing only is fixed. Against rival c the worst case gives the predicted class y its
    fixed trees and c every tree that can vote for it, so y is safe iff ``fixed[y] > reachable[c]``, or equal and
    y wins ties. As soon as the fixed trees of one class hold the majority, the row is stable and predicted so.
    ``order`` (n_trees,) is the order of visits. No verdict depends on it; trees that are seldom fixed drift to its
    end, so that the majority is found sooner. With ``watch``, trees that meet leave a row UNKNOWN.
    """
    # The visit of a tree stands here in full, on plain arrays: calls with many arrays would double the time.
    feature, threshold, right, leaf = trees.feature, trees.threshold, trees.right, trees.leaf
    tree_start, stride = trees.tree_start, trees.stride
    n_trees = tree_start.shape[0] - 1
    stack = np.empty(feature.shape[0] + 1, np.int64)
    owner = np.empty(X.shape[1] if watch else 0, np.int64)
    seen = np.empty(n_classes, np.int64)  # seen[c] == tree: class c was met in this tree
    votes = np.empty(n_classes, np.int64)
    fixed = np.empty(n_classes, np.int64)
    reachable = np.empty(n_classes, np.int64)
    for i in range(X.shape[0]):
        x = X[i]
        owner[:] = -1
        seen[:] = -1
        votes[:] = 0
        fixed[:] = 0
        reachable[:] = 0
        meet = False
        last_was_movable = False
        out_stable[i] = UNKNOWN
        for place in range(n_trees):
            tree = order[place]
            node, depth = tree_start[tree], 0
            while right[node] != node:
                for _ in range(stride[tree]):  # as `descend`: down the row's own path, noting splits nearby
                    f, v = feature[node], threshold[node]
                    stack[depth] = node
                    depth += abs(x[f] - v) <= high[f]
                    node = node + 1 if x[f] <= v else right[node]
            vote = leaf[node]
            votes[vote] += 1
            seen[vote] = tree
            reachable[vote] += 1
            n_seen = 1
            while depth > 0 and (n_seen < n_classes or watch):
                depth -= 1
                node = stack[depth]
                f, v = feature[node], threshold[node]
                if not other_side_is_near(x[f], v, high[f], low[f]):
                    continue
                if watch and claim(owner, f, tree):
                    meet = True
                node = right[node] if x[f] <= v else node + 1
                while right[node] != node:
                    f, v = feature[node], threshold[node]
                    stack[depth] = node
                    depth += abs(x[f] - v) <= high[f]
                    node = node + 1 if x[f] <= v else right[node]
                c = leaf[node]
                if seen[c] != tree:
                    seen[c] = tree
                    reachable[c] += 1
                    n_seen += 1
            if n_seen == 1:
                fixed[vote] += 1
                if last_was_movable:  # both visited already: the fixed one goes before the movable one
                    order[place - 1], order[place] = order[place], order[place - 1]
                if holds_majority(fixed[vote], n_trees, vote):
                    out_prediction[i] = vote
                    out_stable[i] = STABLE
                    break
            last_was_movable = n_seen > 1
        if out_stable[i] == STABLE:
            continue
        y = np.argmax(votes)
        out_prediction[i] = y
        safe = True
        for c in range(n_classes):
            if c != y and (fixed[y] < reachable[c] or (fixed[y] == reachable[c] and c < y)):
                safe = False
        if safe:  # each tree at its own worst: true whether or not trees meet
            out_stable[i] = STABLE
        elif not meet:
            out_stable[i] = UNSTABLE


@njit(cache=True, nogil=True)
def price_row(trees, x, high, low, unit, norm, limit, owner, stack, stack_cost, out_cost, out_leaf, out_vote):
    """Find the cheapest leaf of each tree and class (see `visit_priced`); return whether trees meet at this row."""
    owner[:] = -1
    meet = False
    for tree in range(trees.tree_start.shape[0] - 1):
        vote, _, meets = visit_priced(
            trees, tree, x, high, low, unit, norm, limit, owner, stack, stack_cost, out_cost[tree], out_leaf[tree]
        )
        out_vote[tree] = vote
        meet = meet or meets
    return meet


@njit(cache=True, nogil=True)
def decide_by_price(trees, X, high, low, unit, norm, limit, slack, n_classes, watch, order, out_prediction, out_stable):
    """Decide every row against an attacker whose costs add up.

    ``limit`` is the budget in the unit of the costs. A sum within ``slack`` of it is BORDERLINE: the exact sum may
    lie on either side. ``order`` and ``watch`` as in `decide_within_box`.
    """
    feature, threshold, right = trees.feature, trees.threshold, trees.right
    tree_start, stride = trees.tree_start, trees.stride
    n_trees = tree_start.shape[0] - 1
    stack = np.empty(feature.shape[0] + 1, np.int64)
    stack_cost = np.empty(feature.shape[0] + 1)
    owner = np.empty(X.shape[1] if watch else 0, np.int64)
    cost = np.empty((n_trees, n_classes))
    leaf = np.empty((n_trees, n_classes), np.int64)
    vote = np.empty(n_trees, np.int64)
    votes = np.empty(n_classes, np.int64)
    fixed = np.empty(n_classes, np.int64)
    best = np.empty(n_trees + 2)
    choice = np.empty((n_trees, n_trees + 2), np.int8)
    target = np.empty(n_trees, np.int64)
    for i in range(X.shape[0]):
        x = X[i]
        owner[:] = -1
        votes[:] = 0
        fixed[:] = 0
        meet = False
        last_was_movable = False
        out_stable[i] = UNKNOWN
        for place in range(n_trees):
            tree = order[place]
            # Most trees have no split near the row's path: seen here at once, without a call.
            node, is_near = tree_start[tree], False
            while right[node] != node:
                for _ in range(stride[tree]):
                    f, v = feature[node], threshold[node]
                    is_near |= abs(x[f] - v) <= high[f]
                    node = node + 1 if x[f] <= v else right[node]
            c = trees.leaf[node]
            n_seen, meets = 1, False
            if is_near:
                _, n_seen, meets = visit_priced(
                    trees, tree, x, high, low, unit, norm, limit + slack, owner, stack, stack_cost, cost[tree],
                    leaf[tree],
                )  # fmt: skip
            else:
                cost[tree, :] = math.inf
                cost[tree, c] = 0.0
            vote[tree] = c
            votes[c] += 1
            meet = meet or meets
            if n_seen == 1:
                fixed[c] += 1
                if last_was_movable:  # both visited already: the fixed one goes before the movable one
                    order[place - 1], order[place] = order[place], order[place - 1]
                if holds_majority(fixed[c], n_trees, c):
                    out_prediction[i] = c
                    out_stable[i] = STABLE
                    break
            last_was_movable = n_seen > 1
        if out_stable[i] == STABLE:
            continue
        y = np.argmax(votes)
        out_prediction[i] = y
        if meet:
            continue
        total = cheapest_change(cost, vote, votes, y, False, best, choice, target)
        if total > limit + slack:
            out_stable[i] = STABLE
        elif total <= limit - slack:
            out_stable[i] = UNSTABLE
        else:
            out_stable[i] = BORDERLINE


@njit(cache=True, nogil=True)
def votes_to_gain(votes, y, rival):
    """Return by how many votes the rival has to improve on ``y`` to overtake it: ties go to the lower class."""
    return votes[y] - votes[rival] + (1 if rival > y else 0)


@njit(cache=True, nogil=True)
def cheapest_change(cost, vote, votes, y, is_max, best, choice, out_target):
    """Return the least cost at which some class overtakes ``y``, inf if there is none; see `cheapest_gain`."""
    least = math.inf
    for rival in range(cost.shape[1]):
        if rival != y:
            lead = votes_to_gain(votes, y, rival)
            total = cheapest_gain(cost, vote, y, rival, lead, is_max, least, math.inf, best, choice, out_target)
            least = min(least, total)
    return least


@njit(cache=True, nogil=True)
def cheapest_gain(cost, vote, y, rival, lead, is_max, least, never, best, choice, out_target):
    """Return the least cost at which ``rival`` gains ``lead`` votes on ``y``, ``never`` or more if it cannot.

    ``cost`` (n_trees, n_classes) holds what it takes to make a tree vote for a class, ``vote`` (n_trees,) what it
    votes now; ``never`` stands for what is impossible, above any sum of costs. Costs combine by their maximum if
    ``is_max``, else by their sum. If the result is below ``least``,
    ``out_target`` (n_trees,) receives the class each tree is to be moved to, -1 for none. ``best`` (n_trees + 2,)
    and ``choice`` (n_trees, n_trees + 2) are scratch. Works on floats when compiled, and on whole numbers of any
    size as ``cheapest_gain.py_func``.
    """
    n_trees, n_classes = cost.shape
    if n_classes == 2:
        # Every flip gains 2: take the cheapest.
        own = np.flatnonzero(vote == y)
        order = own[np.argsort(cost[own, rival])]
        total = cost[order[0], rival]
        for k in range(1, (lead + 1) // 2):
            price = cost[order[k], rival]
            total = max(total, price) if is_max else total + price
        if total < least:
            for tree in range(n_trees):
                out_target[tree] = -1
            for k in range((lead + 1) // 2):
                out_target[order[k]] = rival
        return total

    # Moving a tree from y to the rival gains 2, from y elsewhere 1, from elsewhere to the rival 1. best[g] is the
    # least cost of a gain of g or more with the trees so far, choice[tree, g] the gain taken from the tree for it.
    best[0] = cost[0, vote[0]]  # the zero of the costs' own type
    for gain in range(1, lead + 1):
        best[gain] = never
    for tree in range(n_trees):
        one, two = never, never
        if vote[tree] == y:
            two = cost[tree, rival]
            for c in range(n_classes):
                if c != y and cost[tree, c] < one:
                    one = cost[tree, c]
        elif vote[tree] != rival:
            one = cost[tree, rival]
        for gain in range(lead, 0, -1):
            choice[tree, gain] = 0
            total = max(best[gain - 1], one) if is_max else best[gain - 1] + one
            if total < best[gain]:
                best[gain] = total
                choice[tree, gain] = 1
            total = max(best[max(gain - 2, 0)], two) if is_max else best[max(gain - 2, 0)] + two
            if total < best[gain]:
                best[gain] = total
                choice[tree, gain] = 2
    if best[lead] < least:
        gain = lead
        for tree in range(n_trees - 1, -1, -1):
            out_target[tree] = -1
            taken = choice[tree, gain] if gain > 0 else 0
            if taken == 2 or (taken == 1 and vote[tree] != y):
                out_target[tree] = rival
            elif taken == 1:
                for c in range(n_classes):
                    if c != y and (out_target[tree] < 0 or cost[tree, c] < cost[tree, out_target[tree]]):
                        out_target[tree] = c
            gain = max(gain - taken, 0)
    return best[lead]


@njit(cache=True, nogil=True)
def write_witness(trees, leaf, target, z):
    """Move row ``z`` into the leaf of its target class in every tree that has one."""
    for tree in range(target.shape[0]):
        if target[tree] >= 0:
            enter_leaf(trees, tree, leaf[tree, target[tree]], z)

"""Put the trees together: whether the vote of a row is beyond the attacker's reach, and what a change costs.

Where no two trees share a feature that the attacker can move across thresholds of both, each tree can be attacked
on its own and costs combine: the largest of them for L-inf, their sum otherwise.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy import ndarray

from certiforest.attack.reach_kernels import claim, descend, enter_leaf, other_side_is_near, visit_priced
from certiforest.compiled import kernel
from certiforest.ensemble.tree_kernels import find_leaf

STABLE, UNSTABLE, UNKNOWN, BORDERLINE = 1, 0, -1, 2


class Plan(NamedTuple):
    """Which trees to move: ``target`` (n_trees,) is the class each is to vote for, -1 if it is not to be moved.

    ``best`` (n_trees + 2,) and ``choice`` (n_trees, n_trees + 2) are scratch, see `cheapest_gain`.
    """

    target: ndarray
    best: ndarray
    choice: ndarray


@kernel
def new_plan(n_trees):
    """Return a plan to be filled in."""
    return Plan(np.empty(n_trees, np.int64), np.empty(n_trees + 2), np.empty((n_trees, n_trees + 2), np.int8))


@kernel
def holds_majority(count, n_trees, c):
    """Tell whether ``count`` votes for class ``c`` win whatever the other trees vote: ties go to the lowest class."""
    rest = n_trees - count
    return count > rest or (count == rest and c == 0)


@kernel
def decide_within_box(trees, X, budgets, n_classes, unclaimed, order, out_prediction, out_stable):
    """Decide every row against an L-inf attacker.

    A tree that can say one thing only is fixed. As soon as the fixed trees of one class hold the majority, the row is
    stable and predicted so. Otherwise, against rival c the worst case gives the predicted class y its fixed trees and
    c every tree that can vote for it, so y is safe iff ``fixed[y] > reachable[c]``, or equal and y wins ties.

    Trees that meet leave a row UNKNOWN; ``unclaimed`` (n_features,) is where `claim` starts, or empty if none can meet.
    ``order`` is a `VisitOrder`, which notes how often each tree was visited, and how often it was not fixed.
    """
    n_trees = trees.tree_start.shape[0] - 1
    stack = np.empty(trees.feature.shape[0] + 1, np.int64)
    owner, watch = unclaimed.copy(), unclaimed.shape[0] > 0
    seen = np.empty(n_classes, np.int64)  # seen[c] == tree: class c was met in this tree
    vote = np.empty(n_trees, np.int64)
    fixed = np.empty(n_classes, np.int64)
    reachable = np.empty(n_classes, np.int64)
    for i in range(X.shape[0]):
        x = X[i]
        owner[:] = unclaimed
        seen[:] = -1
        fixed[:] = 0
        reachable[:] = 0
        meet = False
        is_stable = False
        for place in range(n_trees):
            tree = order.place[place]
            node, depth = descend(trees, trees.tree_start[tree], trees.stride[tree], x, budgets.near, stack, 0)
            own = trees.leaf[node]
            vote[tree] = own
            seen[own] = tree
            reachable[own] += 1
            n_seen = 1
            while depth > 0 and (n_seen < n_classes or watch):
                depth -= 1
                node = stack[depth]
                f, v = trees.feature[node], trees.threshold[node]
                side = 0 if x[f] > v else 1
                if not other_side_is_near(x[f], v, trees.above[node], budgets.rounded[side, f], budgets.rest[side, f]):
                    continue
                if watch and claim(owner, f, tree):
                    meet = True
                node = trees.right[node] if x[f] <= v else node + 1
                node, depth = descend(trees, node, 1, x, budgets.near, stack, depth)
                c = trees.leaf[node]
                if seen[c] != tree:
                    seen[c] = tree
                    reachable[c] += 1
                    n_seen += 1
            fixed[own] += n_seen == 1
            order.moved[tree, 0] += 1
            order.moved[tree, 1] += n_seen > 1
            if holds_majority(fixed[own], n_trees, own):
                is_stable = True
                break
        y = own if is_stable else most_voted(vote, n_classes)
        out_prediction[i] = y
        # Each tree at its own worst: a row that is safe then is stable whether or not trees meet.
        if is_stable or is_safe(y, fixed, reachable):
            out_stable[i] = STABLE
        else:
            out_stable[i] = UNKNOWN if meet else UNSTABLE


@kernel
def scan_row(trees, x, budgets, order, out_vote, out_fixed, out_near):
    """Let the trees vote, and see which of them have no split near the row's path: nobody can move those.

    As soon as such trees of one class hold the majority, the row is stable: return that class and stop. Otherwise
    return -1 and the number of trees with a split nearby, listed in ``out_near``; ``out_fixed`` counts the others by
    class.
    """
    feature, threshold, right = trees.feature, trees.threshold, trees.right
    n_trees = trees.tree_start.shape[0] - 1
    out_fixed[:] = 0
    n_near = 0
    for place in range(n_trees):
        tree = order.place[place]
        node = trees.tree_start[tree]
        is_near = False
        while right[node] != node:
            for _ in range(trees.stride[tree]):
                value, v = x[feature[node]], threshold[node]
                is_near |= abs(value - v) <= budgets.near[feature[node]]
                node = node + 1 if value <= v else right[node]
        c = trees.leaf[node]
        out_vote[tree] = c
        out_near[n_near] = tree
        n_near += is_near
        out_fixed[c] += not is_near
        order.moved[tree, 0] += 1
        order.moved[tree, 1] += is_near
        if holds_majority(out_fixed[c], n_trees, c):
            return c, n_near
    return -1, n_near


@kernel
def is_safe(y, fixed, reachable):
    """Tell whether class ``y`` wins against every rival at its best."""
    for c in range(fixed.shape[0]):
        if c != y and (fixed[y] < reachable[c] or (fixed[y] == reachable[c] and c < y)):
            return False
    return True


@kernel
def most_voted(vote, n_classes):
    """Return the class with most votes, the lowest on ties."""
    return np.argmax(count_by_class(vote, n_classes))


@kernel
def count_by_class(vote, n_classes):
    """Return how many trees vote for each class."""
    votes = np.zeros(n_classes, np.int64)
    for tree in range(vote.shape[0]):
        votes[vote[tree]] += 1
    return votes


@kernel
def decide_by_price(trees, X, allowance, n_classes, unclaimed, order, out_prediction, out_stable):
    """Decide every row against an attacker whose costs add up.

    A sum within the slack of the `Allowance` from its limit is BORDERLINE: the exact sum may lie on either side. The
    other arguments as in `decide_within_box`.
    """
    budgets, unit, norm, limit, slack = allowance
    n_trees = trees.tree_start.shape[0] - 1
    stack = np.empty(trees.feature.shape[0] + 1, np.int64)
    stack_cost = np.empty(trees.feature.shape[0] + 1)
    owner = unclaimed.copy()
    cost = np.empty((n_trees, n_classes))
    leaf = np.empty((n_trees, n_classes), np.int64)
    vote = np.empty(n_trees, np.int64)
    near = np.empty(n_trees + 1, np.int64)
    fixed = np.empty(n_classes, np.int64)
    plan = new_plan(n_trees)
    for i in range(X.shape[0]):
        x = X[i]
        winner, n_near = scan_row(trees, x, budgets, order, vote, fixed, near)
        if winner >= 0:
            out_prediction[i] = winner
            out_stable[i] = STABLE
            continue
        owner[:] = unclaimed
        cost[:] = math.inf
        for tree in range(n_trees):
            cost[tree, vote[tree]] = 0.0
        meet = False
        winner = most_voted(vote, n_classes)
        out_prediction[i] = winner
        for k in range(n_near):
            tree = near[k]
            n_seen, meets = visit_priced(
                trees, tree, x, budgets, unit, norm, limit + slack, owner, stack, stack_cost, cost[tree], leaf[tree]
            )
            meet = meet or meets
            fixed[vote[tree]] += n_seen == 1
            if holds_majority(fixed[winner], n_trees, winner):
                break
        if holds_majority(fixed[winner], n_trees, winner):
            out_stable[i] = STABLE
            continue
        if meet:
            out_stable[i] = UNKNOWN
            continue
        total = cheapest_change(cost, vote, winner, False, plan)
        if total > limit + slack:
            out_stable[i] = STABLE
        elif total <= limit - slack:
            out_stable[i] = UNSTABLE
        else:
            out_stable[i] = BORDERLINE


@kernel
def votes_to_gain(votes, y, rival):
    """Return by how many votes the rival has to improve on ``y`` to overtake it: ties go to the lower class."""
    return votes[y] - votes[rival] + (1 if rival > y else 0)


@kernel
def cheapest_change(cost, vote, y, is_max, plan):
    """Return the least cost at which some class overtakes ``y``, inf if there is none; see `cheapest_gain`."""
    votes = count_by_class(vote, cost.shape[1])
    least = math.inf
    for rival in range(cost.shape[1]):
        if rival != y:
            need = votes_to_gain(votes, y, rival)
            total = cheapest_gain(cost, vote, y, rival, need, is_max, least, plan)
            least = min(least, total)
    return least


@kernel
def cheapest_gain(cost, vote, y, rival, need, is_max, least, plan):
    """Return the least cost at which ``rival`` gains ``need`` votes on ``y``, inf if it cannot.

    ``cost`` (n_trees, n_classes) holds what it takes to make a tree vote for a class, inf if that is impossible, and
    ``vote`` (n_trees,) what it votes now. Costs combine by their maximum if ``is_max``, else by their sum. If the
    result is below ``least``, the plan receives the targets.
    """
    (target, best, choice), (n_trees, n_classes) = plan, cost.shape
    if n_classes == 2:
        # Every flip gains 2: take the cheapest.
        own = np.flatnonzero(vote == y)
        order = own[np.argsort(cost[own, rival])]
        total = cost[order[0], rival]
        for k in range(1, (need + 1) // 2):
            price = cost[order[k], rival]
            total = max(total, price) if is_max else total + price
        if total < least:
            for tree in range(n_trees):
                target[tree] = -1
            for k in range((need + 1) // 2):
                target[order[k]] = rival
        return total

    # Moving a tree from y to the rival gains 2, from y elsewhere 1, from elsewhere to the rival 1. best[g] is the
    # least cost of a gain of g or more with the trees so far, choice[tree, g] the gain taken from the tree for it.
    best[0] = 0.0
    best[1 : need + 1] = math.inf
    for tree in range(n_trees):
        one = two = math.inf
        if vote[tree] == y:
            two = cost[tree, rival]
            for c in range(n_classes):
                if c != y and cost[tree, c] < one:
                    one = cost[tree, c]
        elif vote[tree] != rival:
            one = cost[tree, rival]
        for gain in range(need, 0, -1):
            choice[tree, gain] = 0
            total = max(best[gain - 1], one) if is_max else best[gain - 1] + one
            if total < best[gain]:
                best[gain] = total
                choice[tree, gain] = 1
            total = max(best[max(gain - 2, 0)], two) if is_max else best[max(gain - 2, 0)] + two
            if total < best[gain]:
                best[gain] = total
                choice[tree, gain] = 2
    if best[need] < least:
        gain = need
        for tree in range(n_trees - 1, -1, -1):
            target[tree] = -1
            taken = choice[tree, gain] if gain > 0 else 0
            if taken == 2 or (taken == 1 and vote[tree] != y):
                target[tree] = rival
            elif taken == 1:
                for c in range(n_classes):
                    if c != y and (target[tree] < 0 or cost[tree, c] < cost[tree, target[tree]]):
                        target[tree] = c
            gain = max(gain - taken, 0)
    return best[need]


@kernel
def changes_vote(trees, x, y, leaf, target):
    """Tell whether ``y`` no longer wins where row ``x`` is moved into the leaves of all its targets."""
    z = x.copy()
    for tree in range(target.shape[0]):
        if target[tree] >= 0:
            enter_leaf(trees, tree, leaf[tree, target[tree]], z)
    vote = np.empty_like(target)
    for tree in range(target.shape[0]):
        vote[tree] = trees.leaf[find_leaf(trees, tree, z)]
    return most_voted(vote, leaf.shape[1]) != y


@kernel
def composed_radii(trees, X, allowance, n_classes, out_radius, out_works):
    """Write the L-inf cost of each row's cheapest composed change, inf if there is none, and whether it works.

    The allowance has no limits where a move is allowed.
    """
    budgets, unit, norm, limit, _ = allowance
    n_trees = trees.tree_start.shape[0] - 1
    stack = np.empty(trees.feature.shape[0] + 1, np.int64)
    stack_cost = np.empty(trees.feature.shape[0] + 1)
    cost = np.empty((n_trees, n_classes))
    leaf = np.empty((n_trees, n_classes), np.int64)
    vote = np.empty(n_trees, np.int64)
    nobody, plan = np.empty(0, np.int64), new_plan(n_trees)
    for i in range(X.shape[0]):
        x = X[i]
        for tree in range(n_trees):
            vote[tree] = trees.leaf[find_leaf(trees, tree, x)]
            visit_priced(trees, tree, x, budgets, unit, norm, limit, nobody, stack, stack_cost, cost[tree], leaf[tree])
        y = most_voted(vote, n_classes)
        out_radius[i] = cheapest_change(cost, vote, y, True, plan)
        out_works[i] = out_radius[i] < math.inf and changes_vote(trees, x, y, leaf, plan.target)

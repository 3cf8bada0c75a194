"""Which leaves to buy: most gain for a budget, one leaf per tree at most.

A tree offers leaves, each dearer and worth more than the one before. Choosing from many trees is the multiple-choice
knapsack. It is solved by going from tree to tree and keeping the sums of cost and gain that no other one beats; a sum
is dropped as soon as the trees that are left cannot bring it to the gain that is needed, even if leaves could be bought
in parts. In parts, the best purchase is simple: all steps along the upper hulls of the offers, the most gain per cost
first::

    gain |         o          o leaves of a tree, * their upper hull
         |    o  *            steps of the hull get flatter to the right
         |  *
         |*____________ cost
"""

import math
from typing import NamedTuple

import numpy as np
from numpy import ndarray

from certiforest.compiled import kernel
from certiforest.problem.sorting_kernels import sort_by

NO, YES, OPEN = 0, 1, -1


class ParetoLeaves(NamedTuple):
    """What trees offer: leaves of the k-th are ``start[k]:start[k + 1]``, costs and gains rising from above zero."""

    cost: ndarray
    gain: ndarray
    start: ndarray


class Demand(NamedTuple):
    """What leaves are to gain, ``need`` or more, and what they may cost, ``limit`` or less.

    Sums are compared with these as they are; the slacks bound rounding errors of costs and gains, and only keep
    purchases from being dropped too early.
    """

    limit: float
    need: float
    cost_slack: float
    gain_slack: float


class HullSteps(NamedTuple):
    """Steps along the upper hulls, the most gain per cost first: what each costs and gains more, and its tree.

    Trees are numbered in the order of ``tree``, which holds those of `ParetoLeaves`: who can gain most comes first.
    """

    cost: ndarray
    gain: ndarray
    place: ndarray
    tree: ndarray


@kernel
def list_steps(leaves):
    """Return the `HullSteps` of what trees offer."""
    cost, gain, start = leaves
    n_trees, n_leaves = start.shape[0] - 1, cost.shape[0]
    tree, flatness, corner = np.arange(n_trees), np.empty(n_leaves), np.empty(n_leaves, np.int64)
    for k in range(n_trees):
        flatness[k] = -gain[start[k + 1] - 1]
    sort_by(flatness, tree, 0, n_trees)
    steps = HullSteps(np.empty(n_leaves), np.empty(n_leaves), np.empty(n_leaves, np.int64), tree)
    n = 0
    for k in range(n_trees):
        bottom = n
        for i in range(start[tree[k]], start[tree[k] + 1]):
            while True:
                before = corner[n - 1] if n > bottom else -1
                c, g = (cost[i] - cost[before], gain[i] - gain[before]) if n > bottom else (cost[i], gain[i])
                if n == bottom or steps.gain[n - 1] * c > g * steps.cost[n - 1]:
                    break
                n -= 1  # the last corner is below the line to this leaf
            steps.cost[n], steps.gain[n], steps.place[n], corner[n] = c, g, k, i
            n += 1
    for k in range(n):
        corner[k] = k
        flatness[k] = -steps.gain[k] / steps.cost[k] if steps.cost[k] > 0.0 else -math.inf
    sort_by(flatness, corner, 0, n)
    order = corner[:n]
    return HullSteps(steps.cost[order], steps.gain[order], steps.place[order], tree)


@kernel
def most_gain(steps, budget):
    """Return the most that can be gained within a budget if leaves can be bought in parts."""
    total = 0.0
    for k in range(steps.cost.shape[0]):
        if steps.cost[k] > budget:
            return total + steps.gain[k] * (budget / steps.cost[k])
        budget -= steps.cost[k]
        total += steps.gain[k]
    return total


@kernel
def buy_greedily(steps, limit, need):
    """Take the steps in order, as far as they are within the limit, until the gain is what is needed; return it."""
    is_closed = np.zeros(steps.tree.shape[0], np.bool_)  # a step of this tree was left out, so must be those behind it
    total_cost = total_gain = 0.0
    for k in range(steps.cost.shape[0]):
        place = steps.place[k]
        if is_closed[place] or total_cost + steps.cost[k] > limit:
            is_closed[place] = True
            continue
        total_cost += steps.cost[k]
        total_gain += steps.gain[k]
        if total_gain >= need:
            break
    return total_gain


@kernel
def add_leaf(leaves, tree, n, rest, n_rest, demand, cost, gain):
    """Let each of ``n`` sums, `cost` and `gain`, take one leaf of a tree or none; append what is worth keeping.

    Sums stand in order of cost, and so of gain. One is kept if no other one has more gain for its cost, and if its gain
    can still reach what is needed within the limit: with what ``rest`` (2, n_rest + 1), costs and gains, says about the
    steps of the trees to come, added up in order. The first sum that reaches the goal is the last one kept.

    Return the end of the new sums, which begin at ``n``; -1 if there is no room.
    """
    limit, need, cost_slack, gain_slack = demand
    leaf_first = leaves.start[tree]
    # Without a leaf, and with each: that many sorted lists are merged.
    n_lists = leaves.start[tree + 1] - leaf_first + 1
    place = np.zeros(n_lists, np.int64)
    end, n_paid, top = n, n_rest, gain[0]
    while True:
        best = -1
        best_cost, best_gain = limit, top
        for k in range(n_lists):
            if place[k] == n:
                continue
            c, g = cost[place[k]], gain[place[k]]
            if k > 0:
                c, g = c + leaves.cost[leaf_first + k - 1], g + leaves.gain[leaf_first + k - 1]
            if best < 0 or c < best_cost or (c == best_cost and g > best_gain):
                best, best_cost, best_gain = k, c, g
        if best < 0 or best_cost > limit:
            return end
        place[best] += 1
        if end > n and best_gain <= top:
            continue
        budget = limit - best_cost + cost_slack
        while n_paid > 0 and rest[0, n_paid] > budget:
            n_paid -= 1
        missing = need - best_gain - rest[1, n_paid] - gain_slack
        if missing > 0:
            if n_paid == n_rest:
                continue
            # the part of the next step that is needed, against the part that can be paid
            needed = missing * (rest[0, n_paid + 1] - rest[0, n_paid])
            if needed > (budget - rest[0, n_paid]) * (rest[1, n_paid + 1] - rest[1, n_paid]):
                continue
        if end == cost.shape[0]:
            return -1
        cost[end], gain[end] = best_cost, best_gain
        end += 1
        top = best_gain
        if top >= need:
            return end


@kernel
def can_buy(leaves, steps, demand, room, most_work):
    """Tell whether leaves, one per tree at most, reach what is demanded: YES or NO.

    OPEN if that takes more than ``room`` sums at a time, or more comparisons than ``most_work``.
    """
    if demand.need <= 0.0:
        return YES
    cost, gain, n = np.empty(room), np.empty(room), 1
    cost[0] = gain[0] = 0.0
    rest = np.zeros((2, steps.cost.shape[0] + 1))
    for place in range(steps.tree.shape[0]):
        n_rest = 0
        for k in range(steps.cost.shape[0]):
            if steps.place[k] > place:
                rest[0, n_rest + 1] = rest[0, n_rest] + steps.cost[k]
                rest[1, n_rest + 1] = rest[1, n_rest] + steps.gain[k]
                n_rest += 1
        tree = steps.tree[place]
        most_work -= n * (leaves.start[tree + 1] - leaves.start[tree] + 1) ** 2
        end = add_leaf(leaves, tree, n, rest, n_rest, demand, cost, gain) if most_work >= 0 else -1
        if end < 0:
            return OPEN
        if end == n:
            return NO
        if gain[end - 1] >= demand.need:
            return YES
        for k in range(end - n):
            cost[k], gain[k] = cost[n + k], gain[n + k]
        n = end - n
    return NO

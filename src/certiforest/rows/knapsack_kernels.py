"""Which leaves to buy: most gain for a budget, one leaf per tree at most.

A tree offers a *front* of leaves, each dearer and worth more than the one before. Choosing from many fronts is the
multiple-choice knapsack. It is solved by going from front to front and keeping the *states*, pairs of cost and gain,
that no other one beats; a state is dropped as soon as the fronts that are left cannot bring it to the gain that is
needed, even if leaves could be bought in parts. In parts, the best purchase is simple: all steps along the upper hulls
of the fronts, the most gain per cost first::

    gain |         o          o leaves of a front, * its upper hull
         |    o  *            steps of the hull get flatter to the right
         |  *
         |*____________ cost
"""

import math
from typing import NamedTuple

import numpy as np
from numpy import ndarray

from certiforest.compiled import kernel


class Fronts(NamedTuple):
    """What trees offer: leaves of front ``k`` are ``start[k]:start[k + 1]``, costs and gains rising from above zero."""

    cost: ndarray
    gain: ndarray
    start: ndarray


class HullSteps(NamedTuple):
    """Steps along the upper hulls of fronts: what each costs and gains more than the one before, and its front."""

    cost: ndarray
    gain: ndarray
    front: ndarray


class Purchases(NamedTuple):
    """What purchases cost and gain in all."""

    cost: ndarray
    gain: ndarray


class Goal(NamedTuple):
    """What a purchase is to gain, ``need`` or more, and what it may cost, ``limit`` or less.

    Sums are compared with these as they are; the slacks bound rounding errors of costs and gains, and only keep
    purchases from being dropped too early.
    """

    limit: float
    need: float
    cost_slack: float
    gain_slack: float


@kernel
def keep_hull(cost, gain, first, last, out):
    """Write the leaves ``first .. last - 1`` of one front that are on its upper hull to ``out``; return how many.

    Costs and gains rise along a front, from above zero: staying costs and gains nothing.
    """
    n = 0
    for i in range(first, last):
        while n > 0:
            # Drop the last corner if the line from the one before it to the new point passes above it.
            cost_before = cost[out[n - 2]] if n > 1 else 0.0
            gain_before = gain[out[n - 2]] if n > 1 else 0.0
            corner = out[n - 1]
            rise = (gain[corner] - gain_before) * (cost[i] - cost_before)
            if rise > (gain[i] - gain_before) * (cost[corner] - cost_before):
                break
            n -= 1
        out[n] = i
        n += 1
    return n


@kernel
def add_steps(steps, front, out):
    """Add up, in the order given, the steps of the fronts after ``front``; return how many there are.

    Entry ``k`` of ``out``, which are `Purchases`, receives the sums of the first ``k`` of them.
    """
    n = 0
    for k in range(steps.cost.shape[0]):
        if steps.front[k] > front:
            out.cost[n + 1] = out.cost[n] + steps.cost[k]
            out.gain[n + 1] = out.gain[n] + steps.gain[k]
            n += 1
    return n


@kernel
def extend_states(states, first, last, fronts, front, rest, n_rest, goal):
    """Let each state ``first .. last - 1`` buy one leaf of the next front or none; append what is worth keeping.

    States stand in order of cost, and so of gain. A state is kept if no other one has more gain for its cost, and if
    its gain can still reach what is needed within the limit: with what ``rest`` (see `add_steps`) says about the
    ``n_rest`` steps of the fronts to come. The first state that reaches the goal is the last one kept.

    Return the end of the new states, which begin at ``last``; -1 if there is no room.
    """
    (cost, gain), (rest_cost, rest_gain), (limit, need, cost_slack, gain_slack) = states, rest, goal
    leaf_first = fronts.start[front]
    # Without a leaf, and with each: that many sorted lists are merged.
    n_lists = fronts.start[front + 1] - leaf_first + 1
    place = np.empty(n_lists, np.int64)
    for k in range(n_lists):
        place[k] = first
    end = last
    n_paid = n_rest
    top = gain[first]
    while True:
        best = -1
        best_cost, best_gain = limit, top
        for k in range(n_lists):
            if place[k] == last:
                continue
            c, g = cost[place[k]], gain[place[k]]
            if k > 0:
                c, g = c + fronts.cost[leaf_first + k - 1], g + fronts.gain[leaf_first + k - 1]
            if best < 0 or c < best_cost or (c == best_cost and g > best_gain):
                best, best_cost, best_gain = k, c, g
        if best < 0 or best_cost > limit:
            return end
        place[best] += 1
        if end > last and best_gain <= top:
            continue
        budget = limit - best_cost + cost_slack
        while n_paid > 0 and rest_cost[n_paid] > budget:
            n_paid -= 1
        missing = need - best_gain - rest_gain[n_paid] - gain_slack
        if missing > 0:
            if n_paid == n_rest:
                continue
            # the part of the next step that is needed, against the part that can be paid
            needed = missing * (rest_cost[n_paid + 1] - rest_cost[n_paid])
            if needed > (budget - rest_cost[n_paid]) * (rest_gain[n_paid + 1] - rest_gain[n_paid]):
                continue
        if end == cost.shape[0]:
            return -1
        cost[end], gain[end] = best_cost, best_gain
        end += 1
        top = best_gain
        if top >= need:
            return end


@kernel
def list_steps(fronts, scratch, out):
    """Write the steps along the upper hull of each front; return how many there are."""
    cost, gain, start = fronts
    n = 0
    for front in range(start.shape[0] - 1):
        size = keep_hull(cost, gain, start[front], start[front + 1], scratch)
        last_cost = last_gain = 0.0
        for k in range(size):
            corner = scratch[k]
            out.cost[n] = cost[corner] - last_cost
            out.gain[n] = gain[corner] - last_gain
            out.front[n] = front
            last_cost, last_gain = cost[corner], gain[corner]
            n += 1
    return n


@kernel
def sort_steps(step_cost, step_gain):
    """Return the steps in order of gain per cost, the most first; steps of one front stay in their order."""
    flatness = np.empty(step_cost.shape[0])
    for k in range(step_cost.shape[0]):
        flatness[k] = -step_gain[k] / step_cost[k] if step_cost[k] > 0.0 else -math.inf
    return np.argsort(flatness, kind="mergesort")


@kernel
def most_gain(steps, order, budget):
    """Return the most that can be gained within a budget if leaves can be bought in parts."""
    total = 0.0
    for k in order:
        if steps.cost[k] > budget:
            return total + steps.gain[k] * (budget / steps.cost[k])
        budget -= steps.cost[k]
        total += steps.gain[k]
    return total


@kernel
def buy_greedily(steps, order, n_fronts, limit, need):
    """Take the steps in order, as far as they are within the limit, until the gain is what is needed; return it."""
    is_closed = np.zeros(n_fronts, np.bool_)  # a step of this front was left out, so must be those behind it
    total_cost = total_gain = 0.0
    for k in order:
        front = steps.front[k]
        if is_closed[front] or total_cost + steps.cost[k] > limit:
            is_closed[front] = True
            continue
        total_cost += steps.cost[k]
        total_gain += steps.gain[k]
        if total_gain >= need:
            break
    return total_gain

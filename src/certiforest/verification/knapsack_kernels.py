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

import numpy as np

from certiforest.compiled import kernel


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
def add_steps(step_cost, step_gain, step_front, front, out_cost, out_gain):
    """Add up, in the order given, the steps of the fronts after ``front``; return how many there are.

    ``out_cost[k]`` and ``out_gain[k]`` receive the sums of the first ``k`` of them.
    """
    n = 0
    for k in range(step_cost.shape[0]):
        if step_front[k] > front:
            out_cost[n + 1] = out_cost[n] + step_cost[k]
            out_gain[n + 1] = out_gain[n] + step_gain[k]
            n += 1
    return n


@kernel
def extend_states(
    cost, gain, first, last, leaf_cost, leaf_gain, leaf_first, leaf_last,
    rest_cost, rest_gain, n_rest, limit, need, cost_slack, gain_slack, place,
):  # fmt: skip
    """Let each state ``first .. last - 1`` buy one leaf of the next front or none; append what is worth keeping.

    States stand in order of cost, and so of gain. A state is kept if no other one has more gain for its cost, and if
    its gain can still reach ``need`` within ``limit``: with what ``rest_cost`` and ``rest_gain`` (see `add_steps`) say
    about the ``n_rest`` steps of the fronts to come. Slacks make up for rounding. The first state that reaches ``need``
    is the last one kept. ``place`` needs an entry per leaf of the front and one more.

    Return the end of the new states, which begin at ``last``; -1 if there is no room.
    """
    n_lists = leaf_last - leaf_first + 1  # without a leaf, and with each: that many sorted lists are merged
    for k in range(n_lists):
        place[k] = first
    end = last
    rest = n_rest
    top = gain[first]
    while True:
        best = -1
        best_cost, best_gain = limit, top
        for k in range(n_lists):
            if place[k] == last:
                continue
            c, g = cost[place[k]], gain[place[k]]
            if k > 0:
                c, g = c + leaf_cost[leaf_first + k - 1], g + leaf_gain[leaf_first + k - 1]
            if best < 0 or c < best_cost or (c == best_cost and g > best_gain):
                best, best_cost, best_gain = k, c, g
        if best < 0 or best_cost > limit:
            return end
        place[best] += 1
        if end > last and best_gain <= top:
            continue
        budget = limit - best_cost + cost_slack
        while rest > 0 and rest_cost[rest] > budget:
            rest -= 1
        missing = need - best_gain - rest_gain[rest] - gain_slack
        if missing > 0:
            if rest == n_rest:
                continue
            # the part of the next step that is needed, against the part that can be paid
            needed = missing * (rest_cost[rest + 1] - rest_cost[rest])
            if needed > (budget - rest_cost[rest]) * (rest_gain[rest + 1] - rest_gain[rest]):
                continue
        if end == cost.shape[0]:
            return -1
        cost[end], gain[end] = best_cost, best_gain
        end += 1
        top = best_gain
        if top >= need:
            return end


@kernel
def list_steps(cost, gain, front_start, scratch, out_cost, out_gain, out_front):
    """Write the steps along the upper hull of each front; return how many there are."""
    n = 0
    for front in range(front_start.shape[0] - 1):
        size = keep_hull(cost, gain, front_start[front], front_start[front + 1], scratch)
        last_cost = last_gain = 0.0
        for k in range(size):
            corner = scratch[k]
            out_cost[n] = cost[corner] - last_cost
            out_gain[n] = gain[corner] - last_gain
            out_front[n] = front
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
def most_gain(step_cost, step_gain, order, budget):
    """Return the most that can be gained within a budget if leaves can be bought in parts."""
    total = 0.0
    for k in order:
        if step_cost[k] > budget:
            return total + step_gain[k] * (budget / step_cost[k])
        budget -= step_cost[k]
        total += step_gain[k]
    return total


@kernel
def buy_greedily(step_cost, step_gain, step_front, order, n_fronts, limit, need):
    """Take the steps in order, as far as they are within the limit, until the gain is what is needed; return it."""
    is_closed = np.zeros(n_fronts, np.bool_)  # a step of this front was left out, so must be those behind it
    total_cost = total_gain = 0.0
    for k in order:
        front = step_front[k]
        if is_closed[front] or total_cost + step_cost[k] > limit:
            is_closed[front] = True
            continue
        total_cost += step_cost[k]
        total_gain += step_gain[k]
        if total_gain >= need:
            break
    return total_gain

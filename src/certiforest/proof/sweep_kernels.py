"""Sweeps: message passing, which makes the bound of `tables_kernels` smaller, tree by tree.

The tables of one tree are set while those of the others stay. First each of its variables gets a part of what the tree
could add there: for a segment, what the best leaf that allows it is gain, with the best cells that the other trees
leave. No leaf adds anything beyond its tables then, but most fall short of them, because they are not the best in every
segment they allow. So one variable after the other is taken down, segment by segment, to what leaves there still need.
That second step takes two thirds more time and saves four sweeps of five; what the first sweep settles does without.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy import ndarray

from certiforest.compiled import kernel

# The step from one place to the next. Places are unsigned here, where the time goes: for others the compiler has to
# look whether they count from the end. For the same reason arrays have names of their own, and max() is spelt out.
ONE = np.uint64(1)


class SweepScratch(NamedTuple):
    """Scratch of sweeps over the leaves of a box, and ``share`` (n_scopes,) from `share_of_variables`.

    For the tree at hand, ``offer`` is what may be had by segment, then by variable in any segment, then by condition
    (n_segments + n_scopes + n_conditions,). ``bracket`` (n_leaves,) is what a leaf is gain with the best offers it
    allows. ``rest`` is the bracket of the best leaf that allows a segment without that variable's offer, then of the
    best that has no condition on a variable (n_segments + n_scopes,). ``cursor`` (n_leaves,) is the condition of a leaf
    that is next.
    """

    share: ndarray
    offer: ndarray
    bracket: ndarray
    rest: ndarray
    cursor: ndarray


class Conditions(NamedTuple):
    """What leaves allow, from `Leaves`, by unsigned places.

    ``free`` is where offers and rests of variables begin, ``after`` where offers of conditions do.
    """

    first: ndarray
    place: ndarray
    low: ndarray
    high: ndarray
    free: np.uint64
    after: np.uint64


@kernel
def new_sweep_scratch(leaves, tables):
    """Return scratch for sweeps over leaves that come from `narrow`."""
    n_leaves, n_scopes = leaves.node.shape[0], leaves.scope.shape[0]
    n = leaves.begin.shape[0] + n_scopes
    share = np.empty(n_scopes)
    share_of_variables(leaves, tables, share)
    return SweepScratch(
        share, np.empty(n + leaves.place.shape[0]), np.empty(n_leaves), np.empty(n), np.empty(n_leaves, np.uint64)
    )


@kernel
def share_of_variables(leaves, tables, out):
    """Write which part of what a tree adds goes to each variable of its scope (n_scopes,): they add up to one.

    Any parts will do. The more trees test a variable, the more there is to be agreed on; one that has a single cell
    left gets nothing.
    """
    for t in range(leaves.name.shape[0]):
        scopes, total = range(leaves.first_scope[t], leaves.first_scope[t + 1]), 0.0
        for s in scopes:
            v = leaves.scope[s]
            is_open = tables.low[v] < tables.high[v]
            out[s] = math.sqrt(leaves.first_tester[v + 1] - leaves.first_tester[v]) if is_open else 0.0
            total += out[s]
        for s in scopes:
            out[s] = out[s] / total if total > 0.0 else 1.0 / len(scopes)


@kernel
def sweep(leaves, gain, tables, span, takes_down, scratch):
    """Set the tables of one tree after the other; every tree's bracket is then at most zero.

    Trees whose leaves all gain the same are left without tables; return what they gain.

    ``leaves`` and ``gain`` come from `narrow`; ``span`` is more than all trees can differ by. Without ``takes_down``,
    the second step is left out.
    """
    share, offer, bracket, rest, cursor = scratch
    theta, table = tables.theta, tables.table
    first_scope, first_leaf = leaves.first_scope.view(np.uint64), leaves.first.view(np.uint64)
    first_segment = leaves.first_segment.view(np.uint64)
    begin, end = leaves.begin.view(np.uint64), leaves.end.view(np.uint64)
    free = np.uint64(begin.shape[0])
    conditions = Conditions(
        leaves.first_condition.view(np.uint64), leaves.place.view(np.uint32), leaves.low.view(np.uint32),
        leaves.high.view(np.uint32), free, free + np.uint64(leaves.scope.shape[0]),
    )  # fmt: skip
    settled = 0.0
    for t in range(np.uint64(leaves.name.shape[0])):
        ends = first_leaf[t], first_leaf[t + ONE]
        if is_settled(gain, ends):
            settled += gain[ends[0]]
            for g in range(first_segment[first_scope[t]], first_segment[first_scope[t + ONE]]):
                for c in range(begin[g], end[g] + ONE):
                    theta[c] -= table[g]
                table[g] = 0.0
            continue
        for s in range(first_scope[t], first_scope[t + ONE]):
            best = -math.inf
            for g in range(first_segment[s], first_segment[s + ONE]):
                most = -math.inf  # and so it stays where the segment is not in the box
                for c in range(begin[g], end[g] + ONE):
                    if theta[c] > most:
                        most = theta[c]
                most -= table[g]
                offer[g] = most
                if most > best:
                    best = most
            offer[free + s] = best
        weigh_leaves(conditions, ends, (first_scope[t], first_scope[t + ONE]), gain, offer, bracket, cursor)
        most = -math.inf
        for k in range(ends[0], ends[1]):
            if bracket[k] > most:
                most = bracket[k]
        for s in range(first_scope[t], first_scope[t + ONE]):
            segments = first_segment[s], first_segment[s + ONE]
            find_rests(conditions, ends, s, segments, scratch)
            best = -math.inf
            for g in range(segments[0], segments[1]):
                if offer[g] > -math.inf:
                    # A segment that no leaf in reach allows is gain little, but a number.
                    value = max(offer[g] + max(rest[g], rest[free + s]), most - span)
                    offer[g] -= share[s] * value
                    if offer[g] > best:
                        best = offer[g]
            offer[free + s] = best
        # What is offered now are the new tables, with the other sign.
        if takes_down:
            weigh_leaves(conditions, ends, (first_scope[t], first_scope[t + ONE]), gain, offer, bracket, cursor)
            for s in range(first_scope[t], first_scope[t + ONE]):
                segments = first_segment[s], first_segment[s + ONE]
                find_rests(conditions, ends, s, segments, scratch)
                best = -math.inf
                for g in range(segments[0], segments[1]):
                    if offer[g] > -math.inf:
                        offer[g] = -max(rest[g], rest[free + s], -span - offer[g])
                        if offer[g] > best:
                            best = offer[g]
                weigh_again(conditions, ends, s, best, scratch)
        for g in range(first_segment[first_scope[t]], first_segment[first_scope[t + ONE]]):
            if offer[g] > -math.inf:
                change = -offer[g] - table[g]
                table[g] = -offer[g]
                for c in range(begin[g], end[g] + ONE):
                    theta[c] += change
    return settled


@kernel
def is_settled(gain, ends):
    """Tell whether all leaves of a tree gain the same: no tables are better than nothing there."""
    k = ends[0] + ONE
    while k < ends[1] and gain[k] == gain[ends[0]]:
        k += ONE
    return k == ends[1]


@kernel
def weigh_leaves(conditions, ends, scopes, gain, offer, bracket, cursor):
    """Write the brackets of a tree's leaves, and the offers that each condition leaves."""
    first, place, low, high, free, after = conditions
    everywhere = 0.0
    for s in range(scopes[0], scopes[1]):
        everywhere += offer[free + s]
    for k in range(ends[0], ends[1]):
        value = gain[k] + everywhere
        i, last = first[k], first[k + ONE]
        cursor[k] = i
        while i < last:
            start, s = i, place[i]
            best = -math.inf
            while i < last and place[i] == s:
                for g in range(low[i], high[i] + ONE):
                    if offer[g] > best:
                        best = offer[g]
                i += ONE
            offer[after + start] = best
            value += best - offer[free + s]
        bracket[k] = value


@kernel
def find_rests(conditions, ends, s, segments, scratch):
    """Write the rests of the variable at place ``s`` and of its segments, and go on to the conditions after it."""
    first, place, low, high, free, after = conditions
    _, offer, bracket, rest, cursor = scratch
    for g in range(segments[0], segments[1]):
        rest[g] = -math.inf
    anywhere = -math.inf
    for k in range(ends[0], ends[1]):
        i, last = cursor[k], first[k + ONE]
        if i < last and place[i] == s:
            value = bracket[k] - offer[after + i]
            while i < last and place[i] == s:
                for g in range(low[i], high[i] + ONE):
                    if value > rest[g]:
                        rest[g] = value
                i += ONE
            cursor[k] = i
        else:
            value = bracket[k] - offer[free + s]
            if value > anywhere:
                anywhere = value
    rest[free + s] = anywhere


@kernel
def weigh_again(conditions, ends, s, best_offer, scratch):
    """Change the brackets of leaves as the offers at place ``s`` have changed; the cursor has just passed it."""
    first, place, low, high, free, after = conditions
    _, offer, bracket, _, cursor = scratch
    change = best_offer - offer[free + s]
    for k in range(ends[0], ends[1]):
        i = cursor[k]
        if i == first[k] or place[i - ONE] != s:
            bracket[k] += change
            continue
        best = -math.inf
        while i > first[k] and place[i - ONE] == s:
            i -= ONE
            for g in range(low[i], high[i] + ONE):
                if offer[g] > best:
                    best = offer[g]
        bracket[k] += best - offer[after + i]
    offer[free + s] = best_offer


@kernel
def overshoot(leaves, tables, before, factor):
    """Move the tables further the way they came from ``before`` (n_segments,), which becomes what they were."""
    theta, table, begin, end = tables.theta, tables.table, leaves.begin.view(np.uint64), leaves.end.view(np.uint64)
    for g in range(before.shape[0]):
        change = factor * (table[g] - before[g])
        before[g] = table[g]
        table[g] += change
        for c in range(begin[g], end[g] + ONE):
            theta[c] += change

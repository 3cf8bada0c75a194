"""Sweeps: message passing, which makes the bound of `tables_kernels` smaller, tree by tree.

The tables of one tree are set while those of the others stay. First each of its variables gets a part of what the tree
could add there: for a segment, what the best leaf that allows it is gain, with the best cells that the other trees
leave. No leaf adds anything beyond its tables then, but most fall short of them, because they are not the best in every
segment they allow. So one variable after the other is taken down, segment by segment, to what leaves there still need.
That second step takes two thirds more time and saves four sweeps of five; what the first sweep settles does without.
Leaves of a tree that have the same conditions on a variable are weighed together.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy import ndarray

from certiforest.compiled import kernel

# The step from one place to the next. Places are unsigned here, where the time goes: for others the compiler has to
# look whether they count from the end. For the same reason arrays have names of their own.
ONE, TWO, THREE, FOUR = np.uint64(1), np.uint64(2), np.uint64(3), np.uint64(4)
# So many leaves of a tree are kept in mind as its best.
N_LEADERS = 8


class Alike(NamedTuple):
    """Leaves that have the same conditions at one place, in groups.

    Those of place ``s`` are ``first[s]`` to ``first[s + 1]``. Group ``r`` is ``leaf[first_leaf[r]:first_leaf[r + 1]]``,
    and allows segments from ``low[i]`` to ``high[i]`` for any ``i`` from ``first_range[r]`` to ``first_range[r + 1]``.
    """

    first: ndarray
    first_leaf: ndarray
    leaf: ndarray
    first_range: ndarray
    low: ndarray
    high: ndarray


class SweepScratch(NamedTuple):
    """Scratch of sweeps over the leaves of a box, and ``share`` (n_scopes,) from `share_of_variables`.

    For the tree at hand, ``offer`` is what may be had by segment, then by variable in any segment, then by group of
    leaves that are alike (n_segments + n_scopes + n_groups,). ``lead`` (n_leaves,) is what a leaf is gain with the best
    offers it allows, less the best offers of all variables. ``rest`` (n_segments,) is the most of leaves that allow a
    segment, without that variable's offer. ``best`` (N_LEADERS,) holds the leaves with the largest leads.
    """

    share: ndarray
    alike: Alike
    offer: ndarray
    lead: ndarray
    rest: ndarray
    best: ndarray


@kernel
def new_sweep_scratch(leaves, tables):
    """Return scratch for sweeps over leaves that come from `narrow`."""
    n_leaves, n_scopes, n_segments = leaves.node.shape[0], leaves.scope.shape[0], leaves.begin.shape[0]
    share, alike = np.empty(n_scopes), find_alike(leaves)
    share_of_variables(leaves, tables, share)
    n = n_segments + n_scopes + alike.first_leaf.shape[0] - 1
    return SweepScratch(
        share, alike, np.empty(n), np.empty(n_leaves), np.empty(n_segments), np.empty(N_LEADERS, np.uint64)
    )


@kernel
def find_alike(leaves):
    """Return groups of leaves that have the same conditions at a place, those that begin in one segment together."""
    place, low, high = leaves.place, leaves.low, leaves.high
    n, n_scopes, n_groups, n_ranges = place.shape[0], leaves.scope.shape[0], 0, 0
    newest = np.full(leaves.begin.shape[0], -1, np.int32)  # of the groups that begin in a segment
    group_of, older = np.empty(n, np.int32), np.empty(n, np.int32)
    start, size, length = np.empty(n, np.int32), np.empty(n, np.int32), np.empty(n, np.int32)
    for k in range(leaves.node.shape[0]):
        i, last = leaves.first_condition[k], leaves.first_condition[k + 1]
        while i < last:
            begin, s = i, place[i]
            i += 1
            while i < last and place[i] == s:
                i += 1
            r = newest[low[begin]]
            while r >= 0:
                j = 0
                while j < min(length[r], i - begin):
                    if low[start[r] + j] != low[begin + j] or high[start[r] + j] != high[begin + j]:
                        break
                    j += 1
                if j == i - begin and j == length[r]:
                    break
                r = older[r]
            if r < 0:
                r, g = n_groups, low[begin]
                older[r], newest[g], start[r], size[r], length[r] = newest[g], r, begin, 0, i - begin
                n_groups += 1
                n_ranges += i - begin
            size[r] += 1
            group_of[begin] = r
    first, first_leaf = np.empty(n_scopes + 1, np.int64), np.empty(n_groups + 1, np.int64)
    first_range, out_low, out_high = (
        np.empty(n_groups + 1, np.int64),
        np.empty(n_ranges, np.uint32),
        np.empty(n_ranges, np.uint32),
    )
    next_leaf = np.empty(n_groups, np.int64)
    q = n_members = n_ranges = 0
    for s in range(n_scopes):
        first[s] = q
        for g in range(leaves.first_segment[s], leaves.first_segment[s + 1]):
            r = newest[g]
            while r >= 0:
                first_leaf[q], first_range[q], next_leaf[r] = n_members, n_ranges, n_members
                n_members += size[r]
                for i in range(start[r], start[r] + length[r]):
                    out_low[n_ranges], out_high[n_ranges] = low[i], high[i]
                    n_ranges += 1
                q += 1
                r = older[r]
    first[n_scopes], first_leaf[n_groups], first_range[n_groups] = q, n_members, n_ranges
    leaf = np.empty(n_members, np.uint32)
    for k in range(leaves.node.shape[0]):
        for i in range(leaves.first_condition[k], leaves.first_condition[k + 1]):
            if i == leaves.first_condition[k] or place[i] != place[i - 1]:
                r = group_of[i]
                leaf[next_leaf[r]] = k
                next_leaf[r] += 1
    return Alike(
        first.view(np.uint64), first_leaf.view(np.uint64), leaf, first_range.view(np.uint64), out_low, out_high
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
    _, alike, offer, lead, _, leaders = scratch
    theta, table = tables.theta, tables.table
    first_scope, first_leaf = leaves.first_scope.view(np.uint64), leaves.first.view(np.uint64)
    first_segment = leaves.first_segment.view(np.uint64)
    begin, end = leaves.begin.view(np.uint64), leaves.end.view(np.uint64)
    free = np.uint64(begin.shape[0])
    settled = 0.0
    for t in range(np.uint64(leaves.name.shape[0])):
        ends, scopes = (first_leaf[t], first_leaf[t + ONE]), (first_scope[t], first_scope[t + ONE])
        if is_settled(gain, ends):
            settled += gain[ends[0]]
            for g in range(first_segment[scopes[0]], first_segment[scopes[1]]):
                for c in range(begin[g], end[g] + ONE):
                    theta[c] -= table[g]
                table[g] = 0.0
            continue
        for s in range(scopes[0], scopes[1]):
            best = -math.inf
            for g in range(first_segment[s], first_segment[s + ONE]):
                most = largest_between(theta, begin[g], end[g] + ONE) - table[g]  # -inf where it is not in the box
                offer[g] = most
                best = max(best, most)
            offer[free + s] = best
        for k in range(ends[0], ends[1]):
            lead[k] = gain[k]
        everywhere = weigh_leaves(alike, scopes, free, offer, lead)
        least = everywhere + find_leaders(ends, lead, leaders) - span
        set_offers(leaves, (ends, scopes), everywhere, least, False, scratch)
        if takes_down:
            for k in range(ends[0], ends[1]):
                lead[k] = gain[k]
            everywhere = weigh_leaves(alike, scopes, free, offer, lead)
            set_offers(leaves, (ends, scopes), everywhere, -span, True, scratch)
        # What is offered now are the new tables, with the other sign.
        for g in range(first_segment[scopes[0]], first_segment[scopes[1]]):
            if offer[g] > -math.inf:
                change = -offer[g] - table[g]
                table[g] = -offer[g]
                for c in range(begin[g], end[g] + ONE):
                    theta[c] += change
    return settled


@kernel
def set_offers(leaves, tree, everywhere, least, is_again, scratch):
    """Take down what a tree offers, one variable after the other.

    Each of its variables gets its share of what the best leaf that allows a segment is gain there. If that is done
    again, an offer becomes what leaves that allow the segment still need, and counts at once. One that no leaf in reach
    allows is gain little, but a number: ``least``.

    ``tree`` are its first leaf and place, and those of the next one; ``everywhere`` are its best offers together.
    """
    share, (first, first_leaf, leaf, first_range, low, high), offer, lead, rest, leaders = scratch
    ends, scopes = tree
    first_segment, free = leaves.first_segment.view(np.uint64), np.uint64(leaves.begin.shape[0])
    of_group = free + np.uint64(first.shape[0] - 1)
    for s in range(scopes[0], scopes[1]):
        here, best = offer[free + s], -math.inf
        for g in range(first_segment[s], first_segment[s + ONE]):
            rest[g] = -math.inf
        for r in range(first[s], first[s + ONE]):
            most = -math.inf
            for j in range(first_leaf[r], first_leaf[r + ONE]):
                most = max(most, lead[leaf[j]])
            most += everywhere - offer[of_group + r]
            for i in range(first_range[r], first_range[r + ONE]):
                for g in range(np.uint64(low[i]), np.uint64(high[i]) + ONE):
                    rest[g] = max(rest[g], most)
        anywhere = -math.inf
        if first_leaf[first[s + ONE]] - first_leaf[first[s]] < ends[1] - ends[0]:
            near = 1e-12 * least - everywhere if is_again else -math.inf
            anywhere = everywhere - here + find_free(leaves.first_condition, leaves.place, ends, s, near, lead, leaders)
        for g in range(first_segment[s], first_segment[s + ONE]):
            if offer[g] > -math.inf:
                if is_again:
                    offer[g] = -max(rest[g], anywhere, least - offer[g])
                else:
                    offer[g] -= share[s] * max(offer[g] + max(rest[g], anywhere), least)
                best = max(best, offer[g])
        offer[free + s] = best
        if is_again:
            everywhere += best - here
            for r in range(first[s], first[s + ONE]):
                change = best_allowed(offer, low, high, (first_range[r], first_range[r + ONE])) - best
                change -= offer[of_group + r] - here
                for j in range(first_leaf[r], first_leaf[r + ONE]):
                    lead[leaf[j]] += change


@kernel
def largest_between(values, start, stop):
    """Return the largest of some values, -inf if there is none: four at a time, as each waits for the one before."""
    a = b = c = d = -math.inf
    while start + FOUR <= stop:
        a = values[start] if values[start] > a else a
        b = values[start + ONE] if values[start + ONE] > b else b
        c = values[start + TWO] if values[start + TWO] > c else c
        d = values[start + THREE] if values[start + THREE] > d else d
        start += FOUR
    while start < stop:
        a = values[start] if values[start] > a else a
        start += ONE
    a, c = a if a > b else b, c if c > d else d
    return a if a > c else c


@kernel
def best_allowed(offer, low, high, ranges):
    """Return the best offer of the segments that a group of leaves allows."""
    best = -math.inf
    for i in range(ranges[0], ranges[1]):
        for g in range(np.uint64(low[i]), np.uint64(high[i]) + ONE):
            best = max(best, offer[g])
    return best


@kernel
def weigh_leaves(alike, scopes, free, offer, lead):
    """Add what their conditions cost to the leads of a tree's leaves; return the best offers, all together."""
    first, first_leaf, leaf, first_range, low, high = alike
    of_group, everywhere = free + np.uint64(first.shape[0] - 1), 0.0
    for s in range(scopes[0], scopes[1]):
        everywhere += offer[free + s]
        for r in range(first[s], first[s + ONE]):
            best = best_allowed(offer, low, high, (first_range[r], first_range[r + ONE]))
            offer[of_group + r] = best
            best -= offer[free + s]
            for j in range(first_leaf[r], first_leaf[r + ONE]):
                lead[leaf[j]] += best
    return everywhere


@kernel
def find_leaders(ends, lead, best):
    """Write the leaves of a tree with the largest leads to ``best``, in order; return the largest lead."""
    n = 0
    for k in range(ends[0], ends[1]):
        if n == N_LEADERS and not lead[k] > lead[best[N_LEADERS - 1]]:
            continue
        i = n if n < N_LEADERS else N_LEADERS - 1
        n = i + 1
        while i > 0 and lead[k] > lead[best[i - 1]]:
            best[i] = best[i - 1]
            i -= 1
        best[i] = k
    for i in range(n, N_LEADERS):
        best[i] = best[0]
    return lead[best[0]]


@kernel
def find_free(first_condition, place, ends, s, near, lead, leaders):
    """Return the largest lead of a leaf without a condition at place ``s``; -inf if there is none.

    The leaders are asked first: in order, any that is ``near`` the top will do.
    """
    for i in range(N_LEADERS):
        k = leaders[i]
        if lead[k] >= near and not has_condition(first_condition, place, k, s):
            return lead[k]
    most = -math.inf
    for k in range(ends[0], ends[1]):
        if lead[k] > most and not has_condition(first_condition, place, k, s):
            most = lead[k]
            if near > -math.inf:
                leaders[s & THREE] = k
    return most


@kernel
def has_condition(first_condition, place, k, s):
    """Tell whether a leaf has a condition at a place."""
    for i in range(first_condition[k], first_condition[k + ONE]):
        if place[i] >= s:
            return place[i] == s
    return False


@kernel
def is_settled(gain, ends):
    """Tell whether all leaves of a tree gain the same: no tables are better than nothing there."""
    k = ends[0] + ONE
    while k < ends[1] and gain[k] == gain[ends[0]]:
        k += ONE
    return k == ends[1]


@kernel
def accelerated_sweep(leaves, gain, tables, span, takes_down, momentum, scratch):
    """Let the tables overshoot, and sweep; return what `sweep` does.

    They go on a part of the way that they came from ``before``, the larger the longer the bound has been falling
    (Nesterov's momentum, with restarts), which takes a third of the sweeps.
    """
    theta, table, before = tables.theta, tables.table, tables.before
    begin, end = leaves.begin.view(np.uint64), leaves.end.view(np.uint64)
    factor = (momentum - 1.0) / (momentum + 2.0) if momentum > 1.0 else 0.0
    for g in range(before.shape[0]):
        change = factor * (table[g] - before[g])
        before[g] = table[g]
        if change != 0.0:
            table[g] += change
            for c in range(begin[g], end[g] + ONE):
                theta[c] += change
    return sweep(leaves, gain, tables, span, takes_down, scratch)

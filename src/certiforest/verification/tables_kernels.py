"""Tables: numbers that prove a box of cells, found by message passing in floats, checked in whole numbers.

For any tables m (one number for each tree, variable it tests and segment) and any lambda >= 0, no row in a box of cells
has leaves that are worth more to a rival than ::

    lambda * budget  +  sum over trees      max over leaves  [worth - sum over variables  min over allowed cells  m]
                     +  sum over variables  max over cells   [sum over trees m - lambda * price]

because the leaves and cells of any one row make each bracket at least what it is there, and the m cancel. A sweep
goes through the trees and sets the tables of one to what makes this smallest while the others stay; every tree's
bracket is then at most zero. Floats find tables, `whole_bound` decides with them rounded to whole numbers.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy import ndarray

from certiforest.compiled import kernel
from certiforest.verification.box_kernels import leaves_in_reach

# lambda is a whole number of 2**-shift; with prices up to 4 * BUDGET, products stay below 2**63.
LAMBDA_BITS = 20
# Stands in whole tables where a segment has no cell in the box: more than any entry, so that it is never the least.
OUTSIDE = np.int64(2**61)
# More than any need.
NO_BOUND = np.int64(2**62)


class Contest(NamedTuple):
    """What the leaves of a local problem (see `Leaves`) do for one rival of the predicted class.

    ``worth`` (n_leaves,) int64 is what a leaf is worth to the rival, rounded up (see `worths.Worths`); the rival is
    predicted only if the leaves of all trees are worth ``need`` or more. ``budget`` is what prices may add up to, 0 for
    L-inf.
    """

    worth: ndarray
    need: int
    budget: int


class Tables(NamedTuple):
    """A box of cells, the numbers of its proof, and what is derived from them.

    ``low`` and ``high`` (n_variables,) are the box, the first and last cell of each variable. ``table`` and ``whole``
    (n_segments,) are the tables, in floats and rounded; ``lambda_`` (2,) is lambda, in floats and rounded. ``theta``
    (n_cells,) is the sum of the tables over trees, less lambda times the price, ``sum`` the same of rounded ones;
    ``choice`` (n_variables,) a cell of each variable; ``loss`` (n_cells,) how much the rounded bound falls if a
    variable is held in a cell.
    """

    table: ndarray
    whole: ndarray
    theta: ndarray
    sum: ndarray
    low: ndarray
    high: ndarray
    choice: ndarray
    loss: ndarray
    lambda_: ndarray


@kernel
def new_tables(cells, leaves):
    """Return tables that hold nothing, for the box of all cells."""
    n_segments, n_cells = leaves.begin.shape[0], cells.top.shape[0]
    return Tables(
        np.zeros(n_segments), np.zeros(n_segments, np.int64), np.zeros(n_cells), np.zeros(n_cells, np.int64),
        cells.first[:-1].copy(), cells.first[1:] - 1, cells.own.copy(),
        np.zeros(n_cells, np.int64), np.zeros(2),
    )  # fmt: skip


@kernel
def is_in_box(leaves, tables, v, g):
    """Tell whether a segment of a variable has cells in the box."""
    return leaves.begin[g] <= tables.high[v] and leaves.end[g] >= tables.low[v]


@kernel
def shares(leaves, tables, out):
    """Write which part of what a tree adds goes to each variable of its scope (n_scopes,): they add up to one.

    Any parts will do. The more trees test a variable, the more there is to be agreed on; one that has a single cell
    left gets nothing.
    """
    for t in range(leaves.tree.shape[0]):
        scopes, total = range(leaves.first_scope[t], leaves.first_scope[t + 1]), 0.0
        for s in scopes:
            v = leaves.scope[s]
            is_open = tables.low[v] < tables.high[v]
            out[s] = float(leaves.first_tester[v + 1] - leaves.first_tester[v]) if is_open else 0.0
            total += out[s]
        for s in scopes:
            out[s] = out[s] / total if total > 0.0 else 1.0 / len(scopes)


class SweepRoom(NamedTuple):
    """Scratch of a sweep.

    ``bracket`` (n_leaves,) holds what a leaf is worth with the largest theta it allows, ``peak`` (n_segments + n_scopes
    + n_conditions,) the largest theta without this tree's part by segment, variable and condition, and ``rest``
    (n_segments + n_scopes,) the bracket of the best leaf that allows a segment, without that variable's part.
    """

    bracket: ndarray
    peak: ndarray
    rest: ndarray


@kernel
def new_sweep_room(leaves):
    """Return scratch for sweeps."""
    n = leaves.begin.shape[0] + leaves.scope.shape[0]
    return SweepRoom(np.empty(leaves.node.shape[0]), np.empty(n + leaves.place.shape[0]), np.empty(n))


@kernel
def sweep(leaves, worth, tables, in_reach, share, span, room):
    """Set the tables of one tree after the other so that the bound is smallest while those of the others stay.

    ``in_reach`` (n_leaves,) tells which leaves count; ``share`` comes from `shares`; ``room`` is scratch.
    """
    # Comparisons instead of max(), and arrays under names of their own: this is where the time goes.
    bracket, peak, rest = room
    theta, table, scope, place = tables.theta, tables.table, leaves.scope, leaves.place
    begin, end, low, high = leaves.begin, leaves.end, leaves.low, leaves.high
    first_segment, first_condition = leaves.first_segment, leaves.first_condition
    n_segments, n_scopes = begin.shape[0], scope.shape[0]
    for t in range(leaves.tree.shape[0]):
        first_scope, end_scope = leaves.first_scope[t], leaves.first_scope[t + 1]
        first_leaf, end_leaf = leaves.first[t], leaves.first[t + 1]
        everywhere = 0.0
        for s in range(first_scope, end_scope):
            lowest, highest = tables.low[scope[s]], tables.high[scope[s]]
            best = -math.inf
            for g in range(first_segment[s], first_segment[s + 1]):
                most = -math.inf  # and so it stays where the segment is not in the box
                for c in range(max(begin[g], lowest), min(end[g], highest) + 1):
                    if theta[c] > most:
                        most = theta[c]
                most -= table[g]
                rest[g], peak[g] = -math.inf, most
                if most > best:
                    best = most
            rest[n_segments + s], peak[n_segments + s] = -math.inf, best
            everywhere += best
        most = -math.inf
        for k in range(first_leaf, end_leaf):
            if not in_reach[k]:
                continue
            value = worth[k] + everywhere
            i, last = first_condition[k], first_condition[k + 1]
            while i < last:
                first, s = i, place[i]
                best = -math.inf
                while i < last and place[i] == s:
                    for g in range(low[i], high[i] + 1):
                        if peak[g] > best:
                            best = peak[g]
                    i += 1
                peak[n_segments + n_scopes + first] = best
                value += best - peak[n_segments + s]
            bracket[k] = value
            if value > most:
                most = value
        for k in range(first_leaf, end_leaf):
            if not in_reach[k]:
                continue
            i, last = first_condition[k], first_condition[k + 1]
            for s in range(first_scope, end_scope):
                if i < last and place[i] == s:
                    value = bracket[k] - peak[n_segments + n_scopes + i]
                    while i < last and place[i] == s:
                        for g in range(low[i], high[i] + 1):
                            if value > rest[g]:
                                rest[g] = value
                        i += 1
                else:
                    value = bracket[k] - peak[n_segments + s]
                    if value > rest[n_segments + s]:
                        rest[n_segments + s] = value
        for s in range(first_scope, end_scope):
            for g in range(first_segment[s], first_segment[s + 1]):
                if peak[g] == -math.inf:
                    continue
                # A segment that no leaf in reach allows is worth little, but a number.
                value = max(peak[g] + max(rest[g], rest[n_segments + s]), most - span) * share[s] - peak[g]
                change = value - table[g]
                table[g] = value
                for c in range(begin[g], end[g] + 1):
                    theta[c] += change


@kernel
def overshoot(leaves, tables, before, factor):
    """Move the tables further the way they came from ``before`` (n_segments,), which becomes what they were."""
    for g in range(before.shape[0]):
        change = factor * (tables.table[g] - before[g])
        before[g] = tables.table[g]
        tables.table[g] += change
        for c in range(leaves.begin[g], leaves.end[g] + 1):
            tables.theta[c] += change


@kernel
def best_lambda(cells, contest, tables):
    """Return the lambda for which the bound is smallest while the tables stay."""
    low, high = 0.0, max(2.0 * tables.lambda_[0], 1e-9)
    while spent(cells, tables, high) > contest.budget and high < 1e30:
        low, high = high, 4.0 * high
    for _ in range(40):
        middle = 0.5 * (low + high)
        if spent(cells, tables, middle) > contest.budget:
            low = middle
        else:
            high = middle
        if high - low <= 1e-6 * high:
            break
    return high


@kernel
def spent(cells, tables, lambda_):
    """Return the price of the best cells for another lambda."""
    total = 0
    for v in range(tables.low.shape[0]):
        best, price = -math.inf, 0
        for c in range(tables.low[v], tables.high[v] + 1):
            value = tables.theta[c] + (tables.lambda_[0] - lambda_) * cells.price[c]
            if value > best:
                best, price = value, cells.price[c]
        total += price
    return total


@kernel
def set_lambda(cells, tables, lambda_):
    """Change lambda, and theta with it."""
    for c in range(tables.theta.shape[0]):
        tables.theta[c] += (tables.lambda_[0] - lambda_) * cells.price[c]
    tables.lambda_[0] = lambda_


@kernel
def float_bound(contest, tables):
    """Return the bound in floats after a sweep, when trees add nothing; choose the best cell of each variable."""
    total = tables.lambda_[0] * contest.budget
    for v in range(tables.low.shape[0]):
        best = -math.inf
        for c in range(tables.low[v], tables.high[v] + 1):
            if tables.theta[c] > best:
                best = tables.theta[c]
                tables.choice[v] = c
        total += best
    return total


@kernel
def whole_bound(cells, leaves, contest, tables, in_reach):
    """Round the tables to whole numbers and return the bound that they give, `NO_BOUND` if they are too large.

    Everything is 64-bit arithmetic. Before, floats make sure that nothing leaves 62 bits: the largest entries of all
    tables and worths together.
    """
    size = 0.0
    for s in range(leaves.scope.shape[0]):
        largest = 0.0
        for g in range(leaves.first_segment[s], leaves.first_segment[s + 1]):
            if not abs(tables.table[g]) <= largest:
                largest = abs(tables.table[g])
        size += largest
    for t in range(leaves.tree.shape[0]):
        largest = 0.0
        for k in range(leaves.first[t], leaves.first[t + 1]):
            largest = max(largest, abs(contest.worth[k]))
        size += largest
    if not size < 2.0**60:
        return NO_BOUND
    for e in range(tables.table.shape[0]):
        tables.whole[e] = np.int64(np.rint(tables.table[e]))
    # lambda as a whole number of 2**-shift, rounded up.
    shift, price = 0, 0
    if tables.lambda_[0] > 0.0:
        shift = LAMBDA_BITS - 1 - math.floor(math.log2(tables.lambda_[0]))
        if shift < 0 or shift > 100:
            return NO_BOUND
        price = math.ceil(math.ldexp(tables.lambda_[0], shift))
    tables.lambda_[1] = math.ldexp(float(price), -shift)
    bound = shifted_product(price, contest.budget, shift) + (1 if price > 0 else 0)
    for v in range(tables.low.shape[0]):
        for c in range(tables.low[v], tables.high[v] + 1):
            tables.sum[c] = -shifted_product(price, cells.price[c], shift)
    least = np.empty(leaves.scope.shape[0], np.int64)
    conditions, first_condition = (leaves.place, leaves.low, leaves.high), leaves.first_condition
    for t in range(leaves.tree.shape[0]):
        for s in range(leaves.first_scope[t], leaves.first_scope[t + 1]):
            v = leaves.scope[s]
            for g in range(leaves.first_segment[s], leaves.first_segment[s + 1]):
                first, last = max(leaves.begin[g], tables.low[v]), min(leaves.end[g], tables.high[v])
                for c in range(first, last + 1):
                    tables.sum[c] += tables.whole[g]
                if first > last:
                    tables.whole[g] = OUTSIDE
        scopes = range(leaves.first_scope[t], leaves.first_scope[t + 1])
        total = least_in_box(leaves.first_segment, tables.whole, scopes, least)
        best = np.int64(-(2**62))
        for k in range(leaves.first[t], leaves.first[t + 1]):
            if in_reach[k]:
                taken = least_entries(
                    conditions, tables.whole, (first_condition[k], first_condition[k + 1]), least, total
                )
                best = max(best, contest.worth[k] - taken)
        bound += best
    for v in range(tables.low.shape[0]):
        best = tables.sum[tables.low[v]]
        for c in range(tables.low[v] + 1, tables.high[v] + 1):
            best = max(best, tables.sum[c])
        bound += best
    return bound


@kernel
def shifted_product(lambda_, price, shift):
    """Return ``lambda_ * price * 2**-shift``, rounded down."""
    return (lambda_ * price) >> shift if shift < 63 else 0


@kernel
def least_in_box(first_segment, whole, scopes, out):
    """Write the smallest number of some tables to ``out`` (n_scopes,); return their sum."""
    total = np.int64(0)
    for s in scopes:
        out[s] = whole[first_segment[s]]
        for g in range(first_segment[s] + 1, first_segment[s + 1]):
            if whole[g] < out[s]:
                out[s] = whole[g]
        total += out[s]
    return total


@kernel
def least_entry(conditions, whole, i, end):
    """Return the smallest number of a table where the conditions of one place, from ``i`` on, allow it.

    ``conditions`` are the arrays ``place``, ``low`` and ``high`` of `Leaves`. Also return the first of another place.
    """
    place, low, high = conditions
    s, best = place[i], OUTSIDE
    while i < end and place[i] == s:
        for g in range(low[i], high[i] + 1):
            if whole[g] < best:
                best = whole[g]
        i += 1
    return best, i


@kernel
def least_entries(conditions, whole, ends, least, total):
    """Return what the tables of a tree take from a leaf at least: the smallest number of every variable it tests.

    ``ends`` are the first condition of the leaf and of the next one; ``least`` and ``total`` come from `least_in_box`
    and hold where the leaf has no condition.
    """
    i, end = ends
    while i < end:
        s = conditions[0][i]
        entry, i = least_entry(conditions, whole, i, end)
        total += entry - least[s]
    return total


@kernel
def coarsen(cells, leaves, contest, tables):
    """Round tables that prove the box to multiples of the largest ``2**shift`` that still do; return ``shift``."""
    in_reach = leaves_in_reach(cells, leaves, contest, tables)
    table = tables.table.copy()
    largest = 1.0
    for e in range(table.shape[0]):
        largest = max(largest, abs(table[e]))
    for shift in range(int(math.log2(largest)), -1, -1):
        for e in range(table.shape[0]):
            tables.table[e] = np.rint(math.ldexp(table[e], -shift)) * 2.0**shift
        if whole_bound(cells, leaves, contest, tables, in_reach) < contest.need:
            return shift
    return 0

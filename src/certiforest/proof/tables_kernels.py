"""Tables: numbers that prove a box of cells, found by message passing in floats, checked in whole numbers.

For any tables m (one number for each tree, variable it tests and segment) and any lambda >= 0, no cells in a box have
leaves that gain more than ::

    lambda * budget  +  sum over trees      max over leaves  [gain - sum over variables  min over allowed cells  m]
                     +  sum over variables  max over cells   [sum over trees m - lambda * price]

because cells and their leaves make each bracket at least what it is there, and the m cancel. Floats find tables
(`sweep_kernels`), `whole_bound` decides with them rounded to whole numbers.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy import ndarray

from certiforest.compiled import kernel
from certiforest.problem.problem import Leaves, Problem

# lambda is a whole number of 2**-shift; with prices up to 4 * BUDGET, products stay below 2**63.
LAMBDA_BITS = 20
# Stands in whole tables where a segment has no cell in the box: more than any entry, so that it is never the least.
OUTSIDE = np.int64(2**61)
# More than any need.
NO_BOUND = np.int64(2**62)


class Tables(NamedTuple):
    """A box of cells, the numbers of its proof, and what is derived from them.

    ``low`` and ``high`` (n_variables,) are the box, the first and last cell of each variable. ``table`` and ``whole``
    (n_segments,) are the tables, in floats and rounded; ``lambda_`` (2,) is lambda, in floats and rounded. ``theta``
    (n_cells,) is, within the box, the sum of the tables over trees, less lambda times the price, ``sum`` the same of
    rounded ones; ``choice`` (n_variables,) a cell of each variable; ``loss`` (n_cells,) how much the rounded bound
    falls if a variable is held in a cell. ``before`` (n_segments,) and ``pace`` (6,) are where sweeps paused, to go on
    from there: the tables a sweep earlier; how many there were (0: none is waiting), momentum, bounds, the next climb.
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
    before: ndarray
    pace: ndarray


@kernel
def new_tables(cells, leaves):
    """Return tables that hold nothing, for the box of all cells."""
    n_segments, n_cells = leaves.begin.shape[0], cells.top.shape[0]
    return Tables(
        np.zeros(n_segments), np.zeros(n_segments, np.int64), np.zeros(n_cells), np.zeros(n_cells, np.int64),
        cells.first[:-1].copy(), cells.first[1:] - 1, cells.home.copy(),
        np.zeros(n_cells, np.int64), np.zeros(2), np.zeros(n_segments), np.zeros(6),
    )  # fmt: skip


@kernel
def add_up(cells, leaves, tables):
    """Write the sums of tables, less what lambda takes, to ``theta``."""
    for c in range(cells.price.shape[0]):
        tables.theta[c] = -tables.lambda_[0] * cells.price[c]
    for g in range(leaves.begin.shape[0]):
        if tables.table[g] != 0.0:  # none is, to begin with
            for c in range(leaves.begin[g], leaves.end[g] + 1):
                tables.theta[c] += tables.table[g]


@kernel
def best_lambda(cells, budget, tables):
    """Return the lambda for which the bound is smallest while the tables stay."""
    low, high = 0.0, max(2.0 * tables.lambda_[0], 1e-9)
    while spent(cells, tables, high) > budget and high < 1e30:
        low, high = high, 4.0 * high
    for _ in range(40):
        middle = 0.5 * (low + high)
        if spent(cells, tables, middle) > budget:
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
def float_bound(budget, tables):
    """Return the bound in floats after a sweep, which leaves brackets of trees at 0 at most; choose the best cells."""
    total = tables.lambda_[0] * budget
    for v in range(tables.low.shape[0]):
        best = -math.inf
        for c in range(tables.low[v], tables.high[v] + 1):
            if tables.theta[c] > best:
                best = tables.theta[c]
                tables.choice[v] = c
        total += best
    return total


@kernel
def whole_bound(problem, tables):
    """Round the tables to whole numbers and return the bound that they give, `NO_BOUND` if they are too large.

    The problem comes from `narrow`. Everything is 64-bit arithmetic. Before, floats make sure that nothing leaves 62
    bits: the largest entries of all tables and gains together.
    """
    cells, leaves, gain, _, budget = problem
    size = 0.0
    for s in range(leaves.scope.shape[0]):
        largest = 0.0
        for g in range(leaves.first_segment[s], leaves.first_segment[s + 1]):
            if not abs(tables.table[g]) <= largest:
                largest = abs(tables.table[g])
        size += largest
    for t in range(leaves.name.shape[0]):
        largest = 0.0
        for k in range(leaves.first[t], leaves.first[t + 1]):
            largest = max(largest, abs(gain[k]))
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
    bound = shifted_product(price, budget, shift) + (1 if price > 0 else 0)
    for v in range(tables.low.shape[0]):
        for c in range(tables.low[v], tables.high[v] + 1):
            tables.sum[c] = -shifted_product(price, cells.price[c], shift)
    least = np.empty(leaves.scope.shape[0], np.int64)
    conditions, first_condition = (leaves.place, leaves.low, leaves.high), leaves.first_condition
    for t in range(leaves.name.shape[0]):
        for s in range(leaves.first_scope[t], leaves.first_scope[t + 1]):
            for g in range(leaves.first_segment[s], leaves.first_segment[s + 1]):
                for c in range(leaves.begin[g], leaves.end[g] + 1):
                    tables.sum[c] += tables.whole[g]
                if leaves.begin[g] > leaves.end[g]:
                    tables.whole[g] = OUTSIDE
        scopes = range(leaves.first_scope[t], leaves.first_scope[t + 1])
        total = least_in_box(leaves.first_segment, tables.whole, scopes, least)
        best = np.int64(-(2**62))
        for k in range(leaves.first[t], leaves.first[t + 1]):
            ends = first_condition[k], first_condition[k + 1]
            best = max(best, gain[k] - least_entries(conditions, tables.whole, ends, least, total))
        bound += best
    for v in range(tables.low.shape[0]):
        best = tables.sum[tables.low[v]]
        for c in range(tables.low[v] + 1, tables.high[v] + 1):
            best = max(best, tables.sum[c])
        bound += best
    return bound


@kernel
def shifted_product(lambda_, price, shift):
    """Return ``lambda_ * price * 2**-shift``, rounded down; both are at least 0, and their product below 2**63."""
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
def coarsen(problem, tables):
    """Round tables that prove the box to multiples of the largest ``2**shift`` that still do; return ``shift``."""
    problem = narrow(problem, tables)
    table = tables.table.copy()
    largest = 1.0
    for e in range(table.shape[0]):
        largest = max(largest, abs(table[e]))
    for shift in range(int(math.log2(largest)), -1, -1):
        for e in range(table.shape[0]):
            tables.table[e] = np.rint(math.ldexp(table[e], -shift)) * 2.0**shift
        if whole_bound(problem, tables) < problem.need:
            return shift
    return 0


@kernel
def least_prices(cells, tables, budget, out):
    """Write the least price of each variable in the box; return their sum."""
    total = 0
    for v in range(out.shape[0]):
        out[v] = 0
        if budget > 0 and not tables.low[v] <= cells.home[v] <= tables.high[v]:
            # Prices grow from home outwards.
            out[v] = cells.price[tables.low[v]] if tables.low[v] > cells.home[v] else cells.price[tables.high[v]]
        total += out[v]
    return total


@kernel
def allowed_price(cells, leaves, tables, s, i, end):
    """Return the least price of a variable in the box where conditions from ``i`` on allow it; -1 if nowhere.

    Also the first condition of another place.
    """
    v = leaves.scope[s]
    home, best = cells.home[v], -1
    while i < end and leaves.place[i] == s:
        low, high = max(leaves.begin[leaves.low[i]], tables.low[v]), min(leaves.end[leaves.high[i]], tables.high[v])
        if low <= high:
            price = 0
            if low > home:
                price = cells.price[low]
            elif high < home:
                price = cells.price[high]
            if best < 0 or price < best:
                best = price
        i += 1
    return best, i


@kernel
def is_in_reach(cells, leaves, tables, k, least, total, budget):
    """Tell whether the cheapest cells of the box that leaf ``k`` allows are within the budget.

    ``least`` and ``total`` come from `least_prices`.
    """
    i, end = leaves.first_condition[k], leaves.first_condition[k + 1]
    while i < end:
        s = leaves.place[i]
        price, i = allowed_price(cells, leaves, tables, s, i, end)
        if price < 0:
            return False
        total += price - least[leaves.scope[s]]
    return total <= budget


@kernel
def narrow(problem, tables):
    """Return what is left of a problem in a box: the leaves that are in reach within it.

    Segments keep their numbers, but end where the box does: ``begin > end`` for those outside. Conditions that hold in
    all of the box are left out.
    """
    cells, leaves, gain, need, budget = problem
    begin, end, is_narrow = np.empty_like(leaves.begin), np.empty_like(leaves.end), budget == 0
    for s in range(leaves.scope.shape[0]):
        v = leaves.scope[s]
        for g in range(leaves.first_segment[s], leaves.first_segment[s + 1]):
            begin[g], end[g] = max(leaves.begin[g], tables.low[v]), min(leaves.end[g], tables.high[v])
            is_narrow &= leaves.begin[g] > leaves.end[g] or (begin[g] == leaves.begin[g] and end[g] == leaves.end[g])
    if is_narrow:
        return problem
    least = np.empty(tables.low.shape[0], np.int64)
    total, n_leaves = least_prices(cells, tables, budget, least), leaves.node.shape[0]
    first, node = np.empty(leaves.first.shape[0], np.int64), np.empty(n_leaves, np.int64)
    gained, first_condition = np.empty(n_leaves, np.int64), np.empty(n_leaves + 1, np.int64)
    place, low, high = np.empty_like(leaves.place), np.empty_like(leaves.low), np.empty_like(leaves.high)
    n = m = 0
    for t in range(leaves.name.shape[0]):
        first[t] = n
        for k in range(leaves.first[t], leaves.first[t + 1]):
            if not is_in_reach(cells, leaves, tables, k, least, total, budget):
                continue
            node[n], gained[n], first_condition[n] = leaves.node[k], gain[k], m
            n += 1
            i, last = leaves.first_condition[k], leaves.first_condition[k + 1]
            while i < last:
                s, m_before, is_needed = leaves.place[i], m, True
                v = leaves.scope[s]
                while i < last and leaves.place[i] == s:
                    is_needed &= begin[leaves.low[i]] > tables.low[v] or end[leaves.high[i]] < tables.high[v]
                    place[m], low[m], high[m] = s, leaves.low[i], leaves.high[i]
                    m += 1
                    i += 1
                if not is_needed:
                    m = m_before
    first[leaves.name.shape[0]], first_condition[n] = n, m
    inside = Leaves(
        leaves.name, first, node[:n], first_condition[: n + 1], place[:m], low[:m], high[:m], leaves.first_scope,
        leaves.scope, leaves.first_segment, begin, end, leaves.tester, leaves.first_tester,
    )  # fmt: skip
    return Problem(cells, inside, gained[:n], need, budget)


@kernel
def size_up(problem):
    """Return what the best leaves gain, how much more that is than the first do, and more than trees can differ by."""
    leaves, gain = problem.leaves, problem.gain
    most, hoped, span = np.int64(0), 0.0, 1.0
    for t in range(leaves.name.shape[0]):
        first = smallest = largest = gain[leaves.first[t]]
        for k in range(leaves.first[t], leaves.first[t + 1]):
            smallest, largest = min(smallest, gain[k]), max(largest, gain[k])
        most += largest
        hoped += largest - first
        span += 2.0 * (largest - smallest)
    return most, hoped, span

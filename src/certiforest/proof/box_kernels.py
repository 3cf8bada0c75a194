"""A box of cells against the budget: what it costs at least, and what is left of a problem within it."""

import numpy as np

from certiforest.compiled import kernel
from certiforest.problem.problem import Leaves, Problem


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
    own = cells.home[v]
    best = -1
    while i < end and leaves.place[i] == s:
        low, high = max(leaves.begin[leaves.low[i]], tables.low[v]), min(leaves.end[leaves.high[i]], tables.high[v])
        if low <= high:
            price = 0
            if low > own:
                price = cells.price[low]
            elif high < own:
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
    if budget == 0 and (tables.low == cells.first[:-1]).all() and (tables.high == cells.first[1:] - 1).all():
        return problem
    begin, end = np.empty_like(leaves.begin), np.empty_like(leaves.end)
    for s in range(leaves.scope.shape[0]):
        v = leaves.scope[s]
        for g in range(leaves.first_segment[s], leaves.first_segment[s + 1]):
            begin[g], end[g] = max(leaves.begin[g], tables.low[v]), min(leaves.end[g], tables.high[v])
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

"""A box of cells against the budget: what it costs at least, and which leaves are in reach within it."""

import numpy as np

from certiforest.compiled import kernel


@kernel
def least_prices(cells, tables, budget, out):
    """Write the least price of each variable in the box; return their sum."""
    total = 0
    for v in range(out.shape[0]):
        out[v] = 0
        if budget > 0 and not tables.low[v] <= cells.own[v] <= tables.high[v]:
            # Prices grow from the row's own cell outwards.
            out[v] = cells.price[tables.low[v]] if tables.low[v] > cells.own[v] else cells.price[tables.high[v]]
        total += out[v]
    return total


@kernel
def allowed_price(cells, leaves, tables, s, i, end):
    """Return the least price of a variable in the box where conditions from ``i`` on allow it; -1 if nowhere.

    Also the first condition of another place.
    """
    v = leaves.scope[s]
    own = cells.own[v]
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
def leaves_in_reach(cells, leaves, contest, tables):
    """Return which leaves are in reach within the box, see `is_in_reach`."""
    least = np.empty(tables.low.shape[0], np.int64)
    total = least_prices(cells, tables, contest.budget, least)
    in_reach = np.empty(leaves.node.shape[0], np.bool_)
    for k in range(in_reach.shape[0]):
        in_reach[k] = is_in_reach(cells, leaves, tables, k, least, total, contest.budget)
    return in_reach

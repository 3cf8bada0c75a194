"""The cells of a problem around a row: the few values that matter near a row.

The thresholds on a feature that the attacker can cross at the row cut what is in reach of it into cells. A leaf in
reach allows some cells of the features that its path tests and all cells of the others::

    feature 7      v = .2      v = .5
    cells        0     |    1     |     2          x in cell 1; the path "x[7] > .2" allows cells 1 to 2

A variable that takes a few values only has a list of them, each with its price, and every cell holds some of these.
One-hot columns are one such variable, whose values 0, 1, 2, ... tell which of them is set; a split on column j asks
whether the value is j, and a path "is not j" leaves a hole in what a leaf allows. So is a column of categories that can
be changed: its splits send some of its values right, wherever these stand. A value that can go missing, or be filled,
has one more cell, the last one, above all numbers: inf stands for what is missing.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy import ndarray

from certiforest.attack.reach_kernels import other_side_is_near, power
from certiforest.compiled import kernel
from certiforest.problem.masks_kernels import next_bit, set_bit
from certiforest.problem.problem import BUDGET, Cells


class Ranks(NamedTuple):
    """The thresholds of an ensemble numbered by variable and value, and what its splits send right.

    Node ``i`` tests ``variable[i]`` and sends right what is above rank ``after[j]`` and up to rank ``upto[j]`` (-1: no
    end), for any ``j`` in ``first[i]:first[i + 1]``, which increase. ``feature``, ``value`` and ``above`` (n_ranks,)
    tell the variable, the threshold and the smallest value above it of a rank. Variables from ``n_features`` on are
    groups of one-hot columns. No node has more than ``most`` such ``j``.
    """

    variable: ndarray
    first: ndarray
    after: ndarray
    upto: ndarray
    feature: ndarray
    value: ndarray
    above: ndarray
    most: int


@kernel
def sorted_cuts(turn, ranks):
    """Return the ranks of the splits turned by some leaf, each once."""
    is_cut, n = np.zeros((ranks.feature.shape[0] >> 6) + 1, np.uint64), 0
    for i in range(turn.shape[0]):
        node = turn[i] >> 1
        for j in range(ranks.first[node], ranks.first[node + 1]):
            for rank in (ranks.after[j], ranks.upto[j]):
                n += rank >= 0 and set_bit(is_cut, rank)
    cuts, rank = np.empty(n, np.int64), np.int64(-1)
    for i in range(n):
        rank = next_bit(is_cut, rank + 1)
        cuts[i] = rank
    return cuts


@kernel
def list_cells(x, turn, ranks, allowance, lists, cut_of):
    """Return the `Cells` that the splits turned by some leaf make.

    ``x`` holds the values of all variables. ``cut_of`` (n_ranks,) receives, for the ranks that occur, the last cell
    below them.
    """
    unit, norm, limit = allowance.unit, allowance.norm, min(max(allowance.limit, 1.0), float(x.shape[0]))
    cuts = sorted_cuts(turn, ranks)
    n_cuts, n_variables = cuts.shape[0], 0
    for i in range(n_cuts):
        n_variables += i == 0 or ranks.feature[cuts[i]] != ranks.feature[cuts[i - 1]]
    n_cells = n_cuts + n_variables
    name, first = np.empty(n_variables, np.int64), np.empty(n_variables + 1, np.int64)
    home = np.empty(n_variables, np.int64)
    top, value, price = np.empty(n_cells), np.empty(n_cells), np.zeros(n_cells, np.int64)
    cells = Cells(name, first, home, top, value, price)
    cell = cut = 0
    for v in range(n_variables):
        f = ranks.feature[cuts[cut]]
        name[v], first[v], home[v] = f, cell, -1
        end = cut
        while end < n_cuts and ranks.feature[cuts[end]] == f:
            end += 1
        if lists.first[f + 1] > lists.first[f]:
            cell = cut_list(x[f], v, cuts[cut:end], ranks, lists, cells, cut_of)
            lower_towards(price, first[v], home[v], cell - 1)
            cut = end
            continue
        has_blank = ranks.above[cuts[end - 1]] == math.inf
        last = -1  # cut below the cell
        for i in range(cut, end + 1):
            if has_blank and i < end and not is_cut(x[f], f, cuts[i], ranks, allowance.budgets, lists):
                cut_of[cuts[i]] = cell - (x[f] > ranks.value[cuts[i]])
                continue
            top[cell] = ranks.value[cuts[i]] if i < end else math.inf
            if x[f] > top[cell]:
                value[cell] = top[cell]
                if i == end - 1 and x[f] == math.inf:  # numbers above all thresholds
                    value[cell] = ranks.above[last] if last >= 0 else lists.fill[f]
            elif home[v] < 0:
                home[v] = cell
                value[cell] = x[f]
            else:
                value[cell] = ranks.above[last]
            if value[cell] != x[f]:
                if value[cell] == math.inf or x[f] == math.inf:
                    price[cell] = lists.missing
                else:
                    price[cell] = whole_price(
                        abs(value[cell] - x[f]) / unit[1 if value[cell] > x[f] else 0, f], norm, limit
                    )
            if i < end:
                last = cuts[i]
                cut_of[last] = cell
            cell += 1
        if has_blank:
            lower_towards(price, first[v], home[v], cell - 1)
        cut = end
    first[n_variables] = cell
    return Cells(name, first, home, top[:cell], value[:cell], price[:cell])


@kernel
def is_cut(x, f, cut, ranks, budgets, lists):
    """Tell whether a variable that can go missing can be on both sides of a threshold."""
    if ranks.above[cut] == math.inf:
        return lists.may_blank[f]
    side = 0 if x > ranks.value[cut] else 1
    return x == math.inf or other_side_is_near(
        x, ranks.value[cut], ranks.above[cut], budgets.rounded[side, f], budgets.rest[side, f]
    )


@kernel
def cut_list(x, v, cuts, ranks, lists, cells, cut_of):
    """Divide the values on the price list of a variable among cells, none of them empty; return the number of cells."""
    f, cell = cells.name[v], cells.first[v]
    begin, last = lists.first[f], lists.first[f + 1]
    for i in range(cuts.shape[0] + 1):
        end = last
        if i < cuts.shape[0]:
            end = begin
            while end < last and lists.value[end] <= ranks.value[cuts[i]]:
                end += 1
            if end in (begin, last):  # nothing new below, or nothing above
                cut_of[cuts[i]] = cell - (end == begin)
                continue
            cut_of[cuts[i]] = cell
        cells.top[cell] = ranks.value[cuts[i]] if end < last else math.inf
        best = begin
        for j in range(begin, end):
            if lists.value[j] == x or (lists.value[best] != x and lists.price[j] < lists.price[best]):
                best = j
        cells.value[cell], cells.price[cell] = lists.value[best], lists.price[best]
        if lists.value[best] == x:
            cells.home[v] = cell
        begin = end
        cell += 1
    return cell


@kernel
def lower_towards(price, first, home, last):
    """Let prices grow from home outwards: none is above that of a cell beyond."""
    for c in range(first + 1, home):
        price[c] = min(price[c], price[c - 1])
    for c in range(last - 1, home, -1):
        price[c] = min(price[c], price[c + 1])


@kernel
def whole_price(cost, norm, limit):
    """Return the price of a move in shares of the budget, rounded down; ``limit`` is how many of L0 there can be."""
    if norm == -1:
        return 0
    if norm == 0:
        return BUDGET // np.int64(limit)
    share = power(cost, norm) * (1.0 - 1e-12)
    return np.int64(min(share, 4.0) * BUDGET)

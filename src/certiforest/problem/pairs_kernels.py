"""Pairs of rows: the tables of two rows that share all variables but a few.

Both rows have the cells of one local problem. Variables in which they may differ have a twin, which the second row
takes in their place. A tree that tests none of these ends in one leaf for both rows; of any other tree, every two
leaves that agree on what is shared, and are in order where there is one, are an alternative::

    tree     x0 <= 3 ? a : (x1 <= 5 ? b : c)            x0 has a twin, x0'
    pairs    a a    a b    a c    b a    b b    c a    c c         not b c: x1 is either up to 5 or above
    x0 <= x0'     a a    a b    a c    b b    c c
"""

from typing import NamedTuple

import numpy as np
from numpy import ndarray

from certiforest.compiled import kernel
from certiforest.problem.leaves_kernels import Alternatives, in_segments
from certiforest.problem.masks_kernels import masks_of


class Pairs(NamedTuple):
    """Tables of pairs: what they allow, and the leaves in which the first and the second row end.

    ``here`` and ``there`` are (n_alternatives,); where a table is about something else, they are -1.
    """

    here: ndarray
    there: ndarray
    allowed: Alternatives


class Order(NamedTuple):
    """A variable of which the first row's cell is no further up than the second's; if not ``is_up``, no further down.

    Neither is beyond ``last``, in what is missing. There is no order if ``variable`` is -1.
    """

    variable: int
    is_up: bool
    last: int


@kernel
def pair_leaves(cells, leaves, twin, kept, order):
    """Return the leaves of pairs of rows.

    Parameters
    ----------
    cells : Cells
        Those of all variables, twins among them: cells of a twin follow one another as those of its variable do.
    leaves : Leaves
        Those of one row.
    twin : ndarray of int64, shape (n_variables,)
        The twin of each variable, -1 where both rows share it.
    kept : ndarray of bool, shape (n_tables,)
        Which trees matter.
    order : Order

    Returns
    -------
    Pairs
    """
    first_word, mask, _ = masks_of(leaves)
    masks = first_word, mask
    counts = write_pairs(cells, leaves, masks, twin, kept, order, empty_pairs(0, 0, 0, 0))
    out = empty_pairs(*counts)
    write_pairs(cells, leaves, masks, twin, kept, order, out)
    return out


@kernel
def empty_pairs(n_tables, n_pairs, n_conditions, n_scopes):
    """Return arrays to be filled in by `write_pairs`."""
    allowed = Alternatives(
        np.zeros(n_tables + 1, np.int64), np.zeros(n_pairs + 1, np.int64), np.empty(n_conditions, np.int64),
        np.empty(n_conditions, np.int64), np.empty(n_conditions, np.int64), np.zeros(n_tables + 1, np.int64),
        np.empty(n_scopes, np.int64),
    )  # fmt: skip
    return Pairs(np.empty(n_pairs, np.int64), np.empty(n_pairs, np.int64), allowed)


@kernel
def leaves_of(cells, pairs):
    """Return the `Leaves` of pairs, by number; conditions of the pairs are changed on the way."""
    n_tables, n_pairs = pairs.allowed.first.shape[0] - 1, pairs.here.shape[0]
    return in_segments(cells, np.arange(n_tables), np.arange(n_pairs), pairs.allowed)


@kernel
def write_pairs(cells, leaves, masks, twin, kept, order, out):
    """Write tables, pairs, conditions and scopes, if there is room; return how many there are."""
    n_tables = n = m = n_scopes = 0
    allowed, is_written = out.allowed, out.allowed.first.shape[0] > 1
    shift = np.zeros(twin.shape[0], np.int64)  # from cells of a variable to those of its twin
    for v in range(twin.shape[0]):
        shift[v] = cells.first[twin[v]] - cells.first[v] if twin[v] >= 0 else 0
    for t in range(leaves.name.shape[0]):
        places = leaves.first_scope[t], leaves.first_scope[t + 1]
        base, is_doubled = n_scopes, False
        for s in range(places[0], places[1]):
            is_doubled |= twin[leaves.scope[s]] >= 0
        if not kept[t]:
            continue
        n_scopes += places[1] - places[0]
        if is_written:
            for s in range(places[0], places[1]):
                allowed.scope[base + s - places[0]] = leaves.scope[s]
        for s in range(places[0], places[1]):  # the twins come after the rest of the scope
            if twin[leaves.scope[s]] >= 0:
                if is_written:
                    allowed.scope[n_scopes] = twin[leaves.scope[s]]
                n_scopes += 1
        common = np.zeros((leaves.first[t + 1] - leaves.first[t] + 63) >> 6, np.uint64)
        for k in range(leaves.first[t], leaves.first[t + 1]):
            if is_doubled:
                agree(leaves, masks, twin, k, common)
            for i in range(leaves.first[t + 1] - leaves.first[t] if is_doubled else 1):
                if is_doubled and not common[i >> 6] >> np.uint64(i & 63) & np.uint64(1):
                    continue
                other = leaves.first[t] + i if is_doubled else k
                if not are_in_order(leaves, k, other, order):
                    continue
                m = write_conditions(leaves, shift, (k, other), places, base, m, allowed, is_written)
                if is_written:
                    out.here[n], out.there[n], allowed.first_condition[n + 1] = k, other, m
                n += 1
        n_tables += 1
        if is_written:
            allowed.first[n_tables], allowed.first_scope[n_tables] = n, n_scopes
    return n_tables, n, m, n_scopes


@kernel
def agree(leaves, masks, twin, k, common):
    """Write which leaves of its tree agree with one on all that is shared to ``common``, as a mask."""
    first_word, mask = masks
    common[:] = ~np.uint64(0)
    i, end = leaves.first_condition[k], leaves.first_condition[k + 1]
    while i < end:
        s, others = leaves.place[i], np.zeros_like(common)
        while i < end and leaves.place[i] == s:
            for g in range(leaves.low[i], leaves.high[i] + 1):
                others |= mask[first_word[g] : first_word[g + 1]]
            i += 1
        if twin[leaves.scope[s]] < 0:
            common &= others


@kernel
def are_in_order(leaves, here, there, order):
    """Tell whether two rows may be in two leaves of a tree, as far as the order goes."""
    if order.variable < 0:
        return True
    lower, _ = cells_allowed(leaves, here if order.is_up else there, order.variable)
    _, upper = cells_allowed(leaves, there if order.is_up else here, order.variable)
    return lower <= min(upper, order.last)


@kernel
def cells_allowed(leaves, k, v):
    """Return the first and the last cell of a variable that a leaf allows."""
    low, high = np.int64(-1), np.int64(2**61)
    for i in range(leaves.first_condition[k], leaves.first_condition[k + 1]):
        if leaves.scope[leaves.place[i]] == v:
            low = leaves.begin[leaves.low[i]] if low < 0 else low
            high = leaves.end[leaves.high[i]]
    return low, high


@kernel
def write_conditions(leaves, shift, pair, places, base, m, out, is_written):
    """Write the conditions of a pair of leaves from ``m`` on; return where they end."""
    first_condition, scope, begin, end = leaves.first_condition, leaves.scope, leaves.begin, leaves.end
    i, i_last = first_condition[pair[0]], first_condition[pair[0] + 1]
    j, j_last = first_condition[pair[1]], first_condition[pair[1] + 1]
    for s in range(places[0], places[1]):
        p, q = i, j
        while i < i_last and leaves.place[i] == s:
            i += 1
        while j < j_last and leaves.place[j] == s:
            j += 1
        is_one = shift[scope[s]] > 0 or pair[0] == pair[1]  # what the first row allows is all there is
        if is_one or p == i or q == j:
            chosen = (p, i) if is_one or q == j else (q, j)
            for one in range(chosen[0], chosen[1]):
                m = put(out, m, s - places[0] + base, begin[leaves.low[one]], end[leaves.high[one]], is_written)
            continue
        while p < i and q < j:  # what both rows allow
            bottom, top = max(begin[leaves.low[p]], begin[leaves.low[q]]), min(end[leaves.high[p]], end[leaves.high[q]])
            if bottom <= top:
                m = put(out, m, s - places[0] + base, bottom, top, is_written)
            if end[leaves.high[p]] < end[leaves.high[q]]:
                p += 1
            else:
                q += 1
    j, place = first_condition[pair[1]], base + places[1] - places[0]
    for s in range(places[0], places[1]):
        move = shift[scope[s]]
        while j < j_last and leaves.place[j] == s:
            if move > 0:
                m = put(out, m, place, begin[leaves.low[j]] + move, end[leaves.high[j]] + move, is_written)
            j += 1
        place += move > 0
    return m


@kernel
def put(out, m, place, bottom, top, is_written):
    """Write one condition if it is to be written; return where the next one goes."""
    if is_written:
        out.place[m], out.low[m], out.high[m] = place, bottom, top
    return m + 1

"""Pairs of rows: the tables of two rows that share all variables but a few.

Both rows have the cells of one local problem. Variables in which they may differ have a twin, which the second row
takes in their place. A tree that tests none of these ends in one leaf for both rows; of any other tree, every two
leaves that agree on what is shared are an alternative::

    tree     x0 <= 3 ? a : (x1 <= 5 ? b : c)            x0 has a twin, x0'
    pairs    a a    a b    a c    b a    b b    c a    c c         not b c: x1 is either up to 5 or above
"""

from typing import NamedTuple

import numpy as np
from numpy import ndarray

from certiforest.compiled import kernel
from certiforest.problem.leaves_kernels import cut_segments
from certiforest.problem.problem import Leaves


class Pairs(NamedTuple):
    """Alternatives of tables, as in `Leaves`, but with conditions that speak of cells.

    ``here`` and ``there`` (n_alternatives,) are the leaves in which the first and the second row end.
    """

    first: ndarray
    here: ndarray
    there: ndarray
    first_condition: ndarray
    place: ndarray
    low: ndarray
    high: ndarray
    first_scope: ndarray
    scope: ndarray


@kernel
def pair_leaves(cells, leaves, twin, keeps_shared):
    """Return the leaves of pairs of rows.

    Parameters
    ----------
    cells : Cells
        Those of all variables, twins among them: cells of a twin follow one another as those of its variable do.
    leaves : Leaves
        Those of one row.
    twin : ndarray of int64, shape (n_variables,)
        The twin of each variable, -1 where both rows share it.
    keeps_shared : bool
        Whether trees in which both rows end in one leaf matter.

    Returns
    -------
    Pairs
    """
    counts = write_pairs(cells, leaves, twin, keeps_shared, empty_pairs(0, 0, 0, 0), False)
    out = empty_pairs(*counts)
    write_pairs(cells, leaves, twin, keeps_shared, out, True)
    return out


@kernel
def empty_pairs(n_tables, n_pairs, n_conditions, n_scopes):
    """Return arrays to be filled in by `write_pairs`."""
    return Pairs(
        np.zeros(n_tables + 1, np.int64), np.empty(n_pairs, np.int64), np.empty(n_pairs, np.int64),
        np.zeros(n_pairs + 1, np.int64), np.empty(n_conditions, np.int64), np.empty(n_conditions, np.int64),
        np.empty(n_conditions, np.int64), np.zeros(n_tables + 1, np.int64), np.empty(n_scopes, np.int64),
    )  # fmt: skip


@kernel
def finish_pairs(cells, pairs):
    """Return `Leaves` of pairs, by number, which this changes: conditions speak of segments then."""
    first_segment, begin, end = cut_segments(
        cells, pairs.first, pairs.first_condition, pairs.place, pairs.low, pairs.high, pairs.first_scope, pairs.scope
    )
    first_tester, tester = np.zeros(cells.name.shape[0] + 1, np.int64), np.empty(pairs.scope.shape[0], np.int64)
    for v in pairs.scope:
        first_tester[v + 1] += 1
    first_tester = np.cumsum(first_tester)
    filled = first_tester[:-1].copy()
    n_tables = pairs.first.shape[0] - 1
    for t in range(n_tables):
        for s in range(pairs.first_scope[t], pairs.first_scope[t + 1]):
            tester[filled[pairs.scope[s]]] = t
            filled[pairs.scope[s]] += 1
    return Leaves(
        np.arange(n_tables), pairs.first, np.arange(pairs.here.shape[0]), pairs.first_condition, pairs.place, pairs.low,
        pairs.high, pairs.first_scope, pairs.scope, first_segment, begin, end, tester, first_tester,
    )  # fmt: skip


@kernel
def write_pairs(cells, leaves, twin, keeps_shared, out, is_written):
    """Write tables, pairs, conditions and scopes, or only count them; return how many there are."""
    first, here, there, first_condition, place, low, high, first_scope, scope = out
    n_tables = n = m = n_scopes = 0
    for t in range(leaves.name.shape[0]):
        places = leaves.first_scope[t], leaves.first_scope[t + 1]
        base, n_shared, is_doubled = n_scopes, places[1] - places[0], False
        for s in range(places[0], places[1]):
            is_doubled |= twin[leaves.scope[s]] >= 0
        if not is_doubled and not keeps_shared:
            continue
        n_scopes += n_shared
        if is_written:
            scope[base:n_scopes] = leaves.scope[places[0] : places[1]]
        for s in range(places[0], places[1]):  # the twins come after the rest of the scope
            if twin[leaves.scope[s]] >= 0:
                if is_written:
                    scope[n_scopes] = twin[leaves.scope[s]]
                n_scopes += 1
        for k in range(leaves.first[t], leaves.first[t + 1]):
            for other in range(leaves.first[t] if is_doubled else k, leaves.first[t + 1] if is_doubled else k + 1):
                end = write_conditions(cells, leaves, twin, (k, other), places, base, m, (place, low, high), is_written)
                if end < 0:
                    continue
                m = end
                if is_written:
                    here[n], there[n], first_condition[n + 1] = k, other, m
                n += 1
        n_tables += 1
        if is_written:
            first[n_tables], first_scope[n_tables] = n, n_scopes
    return n_tables, n, m, n_scopes


@kernel
def write_conditions(cells, leaves, twin, pair, places, base, m, out, is_written):
    """Write the conditions of a pair of leaves from ``m`` on; return where they end, -1 if no two rows end there."""
    first_condition, begin, end = leaves.first_condition, leaves.begin, leaves.end
    i, i_last = first_condition[pair[0]], first_condition[pair[0] + 1]
    j, j_last = first_condition[pair[1]], first_condition[pair[1] + 1]
    for s in range(places[0], places[1]):
        i_end, j_end, before = i, j, m
        while i_end < i_last and leaves.place[i_end] == s:
            i_end += 1
        while j_end < j_last and leaves.place[j_end] == s:
            j_end += 1
        if twin[leaves.scope[s]] >= 0 or pair[0] == pair[1] or j == j_end:  # what the first row allows
            for q in range(i, i_end):
                m = put(out, m, s - places[0] + base, begin[leaves.low[q]], end[leaves.high[q]], is_written)
        elif i == i_end:  # what the second row allows
            for q in range(j, j_end):
                m = put(out, m, s - places[0] + base, begin[leaves.low[q]], end[leaves.high[q]], is_written)
        else:
            p, q = i, j
            while p < i_end and q < j_end:
                bottom = max(begin[leaves.low[p]], begin[leaves.low[q]])
                top = min(end[leaves.high[p]], end[leaves.high[q]])
                if bottom <= top:
                    m = put(out, m, s - places[0] + base, bottom, top, is_written)
                if end[leaves.high[p]] < end[leaves.high[q]]:
                    p += 1
                else:
                    q += 1
            if m == before:
                return -1
        i, j = i_end, j_end
    j, place = first_condition[pair[1]], base + places[1] - places[0]
    for s in range(places[0], places[1]):
        v = leaves.scope[s]
        shift = cells.first[twin[v]] - cells.first[v]
        while j < j_last and leaves.place[j] == s:
            if twin[v] >= 0:
                m = put(out, m, place, begin[leaves.low[j]] + shift, end[leaves.high[j]] + shift, is_written)
            j += 1
        place += twin[v] >= 0
    return m


@kernel
def put(out, m, place, bottom, top, is_written):
    """Write one condition if it is to be written; return where the next one goes."""
    if is_written:
        out[0][m], out[1][m], out[2][m] = place, bottom, top
    return m + 1

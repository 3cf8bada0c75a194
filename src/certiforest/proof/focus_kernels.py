"""Focus: sweeps over what matters, where there is much to sweep over.

Few cells of a large box are nearly as good as the best of their variable, and their trees have few leaves there. What
tables come out of that is a guess for all others, as good as any; the next sweep over all of them tells.
"""

import math

import numpy as np

from certiforest.compiled import kernel
from certiforest.problem.problem import Leaves, Problem
from certiforest.proof.ascent_kernels import copy
from certiforest.proof.sweep_kernels import accelerated_sweep, new_sweep_scratch
from certiforest.proof.tables_kernels import Tables, add_up, best_lambda, float_bound, narrow, set_lambda, size_up

# So many sweeps at most are over what is in focus, fewer if eight of them bring less than this share of what lacks.
MOST_IN_FOCUS, CLOSE = 32, 0.1


@kernel
def sweep_in_focus(problem, tables, most_lost):
    """Sweep over the cells that lose no more than so much against the best of their variable, and those between.

    These are few where there are many; the tables of the others stay.
    """
    cells, budget, low, high = problem.cells, problem.budget, tables.low.copy(), tables.high.copy()
    for v in range(low.shape[0]):
        home, least = min(max(cells.home[v], low[v]), high[v]), tables.theta[tables.choice[v]] - most_lost
        while tables.low[v] < home and tables.theta[tables.low[v]] < least:
            tables.low[v] += 1
        while tables.high[v] > home and tables.theta[tables.high[v]] < least:
            tables.high[v] -= 1
    problem, inside, segment = pack(narrow(problem, tables), tables)
    leaves, (_, _, span), n_sweeps = problem.leaves, size_up(problem), 0
    scratch = new_sweep_scratch(leaves, inside)
    add_up(cells, leaves, inside)
    momentum, last, lowest, mark = 0.0, math.inf, math.inf, math.inf
    copy(inside.table, inside.before)
    while n_sweeps < MOST_IN_FOCUS:
        settled = accelerated_sweep(leaves, problem.gain, inside, span, True, momentum, scratch)
        if budget > 0:
            set_lambda(cells, inside, best_lambda(cells, budget, inside))
        bound = settled + float_bound(budget, inside)
        momentum = momentum + 1.0 if bound <= last else 1.0
        last, lowest, n_sweeps = bound, min(lowest, bound), n_sweeps + 1
        if n_sweeps % 8 == 0:
            if lowest < problem.need - most_lost or mark - lowest < CLOSE * abs(lowest - problem.need):
                break
            mark = lowest
    for g in range(segment.shape[0]):
        if segment[g] >= 0:
            tables.table[g] = inside.table[segment[g]]
    copy(low, tables.low)
    copy(high, tables.high)


@kernel
def pack(problem, tables):
    """Return a problem that comes from `narrow` without segments outside the box, and places where one is left.

    Segments that no leaf tells apart become one, and their tables the least of them: the bound does not grow. Also
    return tables of the packed problem, which share all but what there is by segment, and the number each segment has
    there (n_segments,), -1 if none.
    """
    cells, leaves, gain, need, budget = problem
    n_scopes, n, n_all = leaves.scope.shape[0], leaves.place.shape[0], leaves.begin.shape[0]
    starts = np.zeros(n_all + 1, np.bool_)
    for i in range(n):
        starts[leaves.low[i]] = starts[leaves.high[i] + 1] = True
    number, segment = np.zeros(n_all + 1, np.int64), np.full(n_all, -1, np.int64)
    place_of = np.full(n_scopes, -1, np.int32)
    first_scope, first_segment = np.empty_like(leaves.first_scope), np.zeros(n_scopes + 1, np.int64)
    scope, table = np.empty(n_scopes, np.int64), np.empty(n_all)
    begin, end = np.empty(n_all, np.int64), np.empty(n_all, np.int64)
    n_kept = n_segments = 0
    for t in range(leaves.name.shape[0]):
        first_scope[t] = n_kept
        for s in range(leaves.first_scope[t], leaves.first_scope[t + 1]):
            n_before, last = n_segments, leaves.first_segment[s + 1]
            for g in range(leaves.first_segment[s], last):
                if leaves.begin[g] <= leaves.end[g]:
                    if starts[g] or n_segments == n_before:
                        begin[n_segments], table[n_segments] = leaves.begin[g], tables.table[g]
                        n_segments += 1
                    segment[g], end[n_segments - 1] = n_segments - 1, leaves.end[g]
                    table[n_segments - 1] = min(table[n_segments - 1], tables.table[g])
                number[g + 1] = n_segments
            for g in range(leaves.first_segment[s], last):
                if segment[g] >= 0:
                    tables.table[g] = table[segment[g]]
            if n_segments < n_before + 2:
                n_segments = n_before
                segment[leaves.first_segment[s] : last] = -1
                number[leaves.first_segment[s] + 1 : last + 1] = n_before
                continue
            place_of[s], scope[n_kept], n_kept = n_kept, leaves.scope[s], n_kept + 1
            first_segment[n_kept] = n_segments
    first_scope[leaves.name.shape[0]] = n_kept
    first_condition = np.empty_like(leaves.first_condition)
    place, low, high = np.empty(n, np.int32), np.empty(n, np.int32), np.empty(n, np.int32)
    m = 0
    for k in range(leaves.node.shape[0]):
        first_condition[k] = m
        for i in range(leaves.first_condition[k], leaves.first_condition[k + 1]):
            if number[leaves.low[i]] < number[leaves.high[i] + 1]:
                place[m] = place_of[leaves.place[i]]
                low[m], high[m] = number[leaves.low[i]], number[leaves.high[i] + 1] - 1
                m += 1
    first_condition[leaves.node.shape[0]] = m
    packed = Leaves(
        leaves.name, leaves.first, leaves.node, first_condition, place[:m], low[:m], high[:m], first_scope,
        scope[:n_kept], first_segment[: n_kept + 1], begin[:n_segments], end[:n_segments], leaves.tester,
        leaves.first_tester,
    )  # fmt: skip
    inside = Tables(
        table[:n_segments], np.empty(n_segments, np.int64), tables.theta, tables.sum, tables.low, tables.high,
        tables.choice, tables.loss, tables.lambda_, np.zeros(n_segments), tables.pace,
    )  # fmt: skip
    return Problem(cells, packed, gain, need, budget), inside, segment

"""One box of cells: prove it, find cells that break it, or tell where to cut it in two."""

import math

import numpy as np

from certiforest.compiled import kernel
from certiforest.verification.moves_kernels import best_move, climb, fits_one_move
from certiforest.verification.tables_kernels import (
    best_lambda,
    float_bound,
    least_entries,
    least_entry,
    least_in_box,
    least_prices,
    reach_in,
    set_lambda,
    update_tree,
    whole_bound,
)

PROVED, ATTACKED, OPEN, UNREACHABLE, ENUMERATED = 1, 0, -1, 2, 3
# Rounds in which the chosen cells are improved.
MOST_ROUNDS = 16


@kernel
def examine_box(cells, leaves, contest, tables, most_sweeps, patience, may_enumerate):
    """Try to prove that nothing in the box reaches what is needed, or find cells that do.

    Return PROVED (``whole`` holds the tables), ATTACKED (``choice`` holds the cells), UNREACHABLE (the box costs more
    than the budget), ENUMERATED (one move fits the budget, and none is an attack; if it may) or OPEN. The search gives
    up when a sweep does less than a share ``patience`` of what is missing.
    """
    n_variables, n_rules = tables.low.shape[0], leaves.place.shape[0]
    least = np.empty(n_variables, np.int64)
    total = least_prices(cells, tables, contest.budget, least)
    if total > contest.budget:
        return UNREACHABLE
    if may_enumerate and fits_one_move(cells, contest, tables, least, total):
        return ATTACKED if best_move(cells, leaves, contest, tables, least, total) >= contest.need else ENUMERATED
    reach = reach_in(cells, leaves, contest, tables)
    for t in range(leaves.tree.shape[0]):
        if not reach[leaves.first[t] : leaves.first[t + 1]].any():
            return UNREACHABLE
    n_segments, n_scopes = leaves.begin.shape[0], leaves.scope.shape[0]
    worth, rest = np.empty(leaves.node.shape[0]), np.empty(n_segments + n_scopes)
    peak = np.empty(n_segments + n_scopes + n_rules)
    scratch = np.empty(cells.top.shape[0], np.int64)
    span, gain = 1.0, 0.0
    for t in range(leaves.tree.shape[0]):
        own = smallest = largest = contest.lead[leaves.first[t]]
        for k in range(leaves.first[t], leaves.first[t + 1]):
            smallest, largest = min(smallest, contest.lead[k]), max(largest, contest.lead[k])
        span += 2.0 * (largest - smallest)
        gain += largest - own
    if contest.budget > 0 and tables.lambda_[0] == 0.0:
        # Where the best lambda usually is; from zero it would creep there.
        set_lambda(cells, tables, 0.1 * gain / contest.budget)
    last = math.inf
    for sweep in range(most_sweeps):
        for t in range(leaves.tree.shape[0]):
            update_tree(cells, leaves, contest, tables, t, reach, span, worth, peak, rest)
        if contest.budget > 0:
            set_lambda(cells, tables, best_lambda(cells, contest, tables))
        bound = float_bound(contest, tables)
        if bound < contest.need - 0.5 and whole_bound(cells, leaves, contest, tables, reach, scratch):
            return PROVED
        if sweep & (sweep + 1) == 0 and climb(cells, leaves, contest, tables, MOST_ROUNDS) >= contest.need:
            return ATTACKED
        if sweep > 0 and last - bound < patience * (bound - contest.need):
            break
        last = bound
    whole_bound(cells, leaves, contest, tables, reach, scratch)
    estimate_losses(cells, leaves, contest, tables, reach, np.empty(tables.table.shape[0]))
    return OPEN


@kernel
def estimate_losses(cells, leaves, contest, tables, reach, worth):
    """Write to ``loss``, for each cell of the box, about how much the bound falls if its variable is held there.

    That is what theta and each tree lose there against their best, as the tables stand. ``worth`` (n_segments,) is
    scratch.
    """
    for v in range(tables.low.shape[0]):
        best = -math.inf
        for c in range(tables.low[v], tables.high[v] + 1):
            best = max(best, tables.theta[c])
        for c in range(tables.low[v], tables.high[v] + 1):
            tables.loss[c] = best - tables.theta[c]
    place, low, high = rules = leaves.place, leaves.low, leaves.high
    whole, n_scopes = tables.whole, leaves.scope.shape[0]
    least, free = np.empty(n_scopes, np.int64), np.empty(n_scopes)
    for t in range(leaves.tree.shape[0]):
        scopes = range(leaves.first_scope[t], leaves.first_scope[t + 1])
        total = least_in_box(leaves.first_segment, whole, scopes, least)
        free[scopes.start : scopes.stop] = -math.inf  # what the best leaf without a rule there is worth
        worth[leaves.first_segment[scopes.start] : leaves.first_segment[scopes.stop]] = -math.inf
        most = -math.inf
        for k in range(leaves.first[t], leaves.first[t + 1]):
            if not reach[k]:
                continue
            i, end = leaves.first_rule[k], leaves.first_rule[k + 1]
            value = float(contest.lead[k] - least_entries(rules, whole, (i, end), least, total))
            if value > most:
                most = value
            for s in scopes:
                if i == end or place[i] != s:
                    if value > free[s]:
                        free[s] = value
                    continue
                start = i
                entry, i = least_entry(rules, whole, i, end)
                for j in range(start, i):
                    for g in range(low[j], high[j] + 1):
                        if value + entry > worth[g]:
                            worth[g] = value + entry
        for s in scopes:
            v = leaves.scope[s]
            for g in range(leaves.first_segment[s], leaves.first_segment[s + 1]):
                lost = most - (max(worth[g], free[s] + least[s]) - whole[g])
                for c in range(max(leaves.begin[g], tables.low[v]), min(leaves.end[g], tables.high[v]) + 1):
                    tables.loss[c] += lost


@kernel
def find_split(cells, tables):
    """Return the variable and the cell after which to cut it so that both sides lose most; -1 if there is none left.

    Where prices count, a variable that is as good in a dear cell as in a cheap one is what the bound buys in parts:
    the difference of prices, at lambda, is lost on either side.
    """
    chosen, most, cut = -1, -1.0, 0
    for v in range(tables.low.shape[0]):
        low, high = tables.low[v], tables.high[v]
        for c in range(low, high):
            left, right = low, c + 1
            for i in range(low, c + 1):
                if tables.loss[i] < tables.loss[left]:
                    left = i
            for i in range(c + 1, high + 1):
                if tables.loss[i] < tables.loss[right]:
                    right = i
            smaller = min(tables.loss[left], tables.loss[right])
            larger = max(tables.loss[left], tables.loss[right])
            bought = tables.lambda_[0] * abs(cells.price[left] - cells.price[right])
            score = smaller + max(bought - larger, 0.0) + 0.01 * larger
            if chosen < 0 or score > most:  # any cut is better than none, even if a loss is not a number
                chosen, most, cut = v, score, c
    return chosen, cut

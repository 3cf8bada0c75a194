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
    least_prices,
    reach_in,
    set_lambda,
    update_tree,
    whole_bound,
)

PROVED, ATTACKED, OPEN, UNREACHABLE, ENUMERATED = 1, 0, -1, 2, 3


@kernel
def examine_box(cells, leaves, contest, tables, most_sweeps, patience, may_enumerate):
    """Try to prove that nothing in the box reaches the need, or find cells that do.

    Return PROVED (``whole`` holds the tables), ATTACKED (``choice`` holds the cells), UNREACHABLE (the box costs more
    than the budget), ENUMERATED (the budget has room for one move at most, and none reaches the need; only if
    ``may_enumerate``) or OPEN (``loss`` tells where to cut). A box is OPEN after ``most_sweeps``, or when a sweep
    brings the bound nearer to the need by less than a share ``patience``.
    """
    n_variables, n_rules = tables.low.shape[0], leaves.place.shape[0]
    least = np.empty(n_variables, np.int64)
    total = least_prices(cells, tables, contest.budget, least)
    if total > contest.budget:
        return UNREACHABLE
    if may_enumerate and fits_one_move(cells, contest, tables, least, total):
        return ATTACKED if best_move(cells, leaves, contest, tables, least, total) >= contest.need else ENUMERATED
    reach = reach_in(cells, leaves, contest, tables)
    worth, peak = np.empty(leaves.node.shape[0]), np.empty(leaves.scope.shape[0] + n_rules)
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
            update_tree(cells, leaves, contest, tables, t, reach, span, worth, peak)
        if contest.budget > 0:
            set_lambda(cells, tables, best_lambda(cells, contest, tables))
        bound = float_bound(contest, tables)
        if bound < contest.need - 0.5 and whole_bound(cells, leaves, contest, tables, reach, scratch):
            return PROVED
        if sweep & (sweep + 1) == 0 and climb(cells, leaves, contest, tables, 4) >= contest.need:
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

    That is what theta and each tree lose there against their best, as the tables stand. ``worth`` (n_entries,) is
    scratch.
    """
    for v in range(tables.low.shape[0]):
        best = -math.inf
        for c in range(tables.low[v], tables.high[v] + 1):
            best = max(best, tables.theta[c])
        for c in range(tables.low[v], tables.high[v] + 1):
            tables.loss[c] = best - tables.theta[c]
    for t in range(leaves.tree.shape[0]):
        begin, end = leaves.first_scope[t], leaves.first_scope[t + 1]
        worth[leaves.first_entry[begin] : leaves.first_entry[end]] = -math.inf
        most = -math.inf
        for k in range(leaves.first[t], leaves.first[t + 1]):
            if not reach[k]:
                continue
            value = float(contest.lead[k] - least_entries(cells, leaves, tables, t, k))
            most = max(most, value)
            i, last = leaves.first_rule[k], leaves.first_rule[k + 1]
            for s in range(begin, end):
                v = leaves.scope[s]
                entry = leaves.first_entry[s] - cells.first[v]
                first = i
                smallest, i = least_entry(cells, leaves, tables, s, first, last)
                if i == first:  # no rule: every cell
                    for c in range(tables.low[v], tables.high[v] + 1):
                        worth[entry + c] = max(worth[entry + c], value + (smallest - tables.whole[entry + c]))
                for j in range(first, i):
                    for c in range(max(leaves.low[j], tables.low[v]), min(leaves.high[j], tables.high[v]) + 1):
                        worth[entry + c] = max(worth[entry + c], value + (smallest - tables.whole[entry + c]))
        for s in range(begin, end):
            v = leaves.scope[s]
            entry = leaves.first_entry[s] - cells.first[v]
            for c in range(tables.low[v], tables.high[v] + 1):
                tables.loss[c] += most - worth[entry + c]


@kernel
def find_split(cells, tables):
    """Return a variable and the cell after which to cut it so that the bounds of both sides fall most.

    The variable is -1 if each has one cell left. Where prices count, a variable that is about as good in a dear cell as
    in a cheap one is what the bound buys in parts; cut between them, it loses the difference of prices times lambda.
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
            if score > most:
                chosen, most, cut = v, score, c
    return chosen, cut

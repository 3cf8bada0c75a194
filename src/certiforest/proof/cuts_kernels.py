"""Cuts: where to cut a box of cells in two that was examined and is still open."""

import math

import numpy as np

from certiforest.compiled import kernel
from certiforest.proof.ascent_kernels import copy
from certiforest.proof.moves_kernels import allows
from certiforest.proof.sweep_kernels import new_sweep_scratch, sweep
from certiforest.proof.tables_kernels import (
    NO_BOUND,
    OUTSIDE,
    add_up,
    float_bound,
    least_entries,
    least_entry,
    least_in_box,
    narrow,
    size_up,
    whole_bound,
)

# Less than any leaf gains.
NOTHING = np.int64(-(2**61))
# So many columns are looked at, fewer if so many in a row are no better, then two more cuts of the best one.
# What falls more counts for this share.
MOST_LOOKS, VAIN_LOOKS, LARGER_SHARE = 8, 2, 0.3


@kernel
def is_worth_tightening(tables, gap):
    """Tell whether a fifth of the box goes if cells do that lose more than the bound is above the need."""
    n_cells = n_idle = 0
    for v in range(tables.low.shape[0]):
        low, high, least = tables.low[v], tables.high[v], tables.theta[tables.choice[v]] - gap
        n_cells += high - low
        while low < high and tables.theta[low] < least:
            low += 1
        while low < high and tables.theta[high] < least:
            high -= 1
        n_idle += tables.high[v] - tables.low[v] - (high - low)
    return 5 * n_idle > n_cells


@kernel
def tighten(problem, tables):
    """Take cells from the ends of the box, but one of each variable, in which the whole bound is below the need.

    The problem comes from `narrow`, here and below.
    """
    bound = whole_bound(problem, tables)
    if bound == NO_BOUND:
        tables.loss[:] = 0
        return
    find_losses(problem, tables)
    for v in range(tables.low.shape[0]):
        while tables.low[v] < tables.high[v] and bound - tables.loss[tables.low[v]] < problem.need:
            tables.low[v] += 1
        while tables.low[v] < tables.high[v] and bound - tables.loss[tables.high[v]] < problem.need:
            tables.high[v] -= 1


@kernel
def find_losses(problem, tables):
    """Write to ``loss``, for each cell of the box, how much the whole bound falls if its variable is held there.

    That is what the sum of tables and each tree lose there against their best, as the tables stand.
    """
    leaves, gain = problem.leaves, problem.gain
    here = np.empty(tables.whole.shape[0], np.int64)  # what the best leaf that allows a segment gains
    for v in range(tables.low.shape[0]):
        best = tables.sum[tables.low[v]]
        for c in range(tables.low[v], tables.high[v] + 1):
            best = max(best, tables.sum[c])
        for c in range(tables.low[v], tables.high[v] + 1):
            tables.loss[c] = best - tables.sum[c]
    place, low, high = conditions = leaves.place, leaves.low, leaves.high
    whole, n_scopes = tables.whole, leaves.scope.shape[0]
    least, free = np.empty(n_scopes, np.int64), np.empty(n_scopes, np.int64)
    for t in range(leaves.name.shape[0]):
        scopes = range(leaves.first_scope[t], leaves.first_scope[t + 1])
        total = least_in_box(leaves.first_segment, whole, scopes, least)
        free[scopes.start : scopes.stop] = NOTHING  # what the best leaf without a condition there gains
        here[leaves.first_segment[scopes.start] : leaves.first_segment[scopes.stop]] = NOTHING
        most = NOTHING
        for k in range(leaves.first[t], leaves.first[t + 1]):
            i, end = leaves.first_condition[k], leaves.first_condition[k + 1]
            value = gain[k] - least_entries(conditions, whole, (i, end), least, total)
            if value > most:
                most = value
            for s in scopes:
                if i == end or place[i] != s:
                    if value > free[s]:
                        free[s] = value
                    continue
                start = i
                entry, i = least_entry(conditions, whole, i, end)
                for j in range(start, i):
                    for g in range(low[j], high[j] + 1):
                        if value + entry > here[g]:
                            here[g] = value + entry
        for s in scopes:
            for g in range(leaves.first_segment[s], leaves.first_segment[s + 1]):
                if whole[g] == OUTSIDE:
                    continue
                lost = most - (max(here[g], free[s] + least[s]) - whole[g])
                for c in range(leaves.begin[g], leaves.end[g] + 1):
                    tables.loss[c] += lost


@kernel
def find_split(problem, tables):
    """Tighten a box that was examined, and find where to cut it so that both sides lose most.

    Return the variable and the cell after which to cut it; -1 if there is none left.
    """
    score, cut = find_splits(problem, tables)
    v = np.argmax(score) if score.shape[0] else -1
    return (v, cut[v]) if v >= 0 and score[v] >= 0.0 else (-1, 0)


@kernel
def find_splits(problem, tables):
    """Tighten a box that was examined; return what speaks for the best cut of each variable (-1: none is left), and it.

    The bound is above what the chosen cells give because trees, and the sums of tables, would like to be in other ones:
    what each of them hopes for there counts for the cuts between. Where prices count, a variable that is as good in a
    dear cell as in a cheap one is what the bound buys in parts: the difference of prices, at lambda, is lost on either
    side.
    """
    tighten(narrow(problem, tables), tables)
    cells, loss, hope = problem.cells, tables.loss, find_hopes(narrow(problem, tables), tables)
    score, cut, right = np.full(tables.low.shape[0], -1.0), tables.low.copy(), np.empty(loss.shape[0], np.int64)
    for v in range(score.shape[0]):
        low, high = tables.low[v], tables.high[v]
        for c in range(high, low, -1):  # where least is lost beyond
            right[c] = c if c == high or loss[c] <= loss[right[c + 1]] else right[c + 1]
        left = low
        for c in range(low, high):
            if loss[c] < loss[left]:
                left = c
            smaller, larger = min(loss[left], loss[right[c + 1]]), max(loss[left], loss[right[c + 1]])
            bought = tables.lambda_[0] * abs(cells.price[left] - cells.price[right[c + 1]])
            value = hope[c] + smaller + max(bought - larger, 0.0) + 0.01 * larger
            if c == low or value > score[v]:
                # Any cut is better than none, even if a loss is not a number.
                score[v], cut[v] = value if value >= 0.0 else 0.0, c
    return score, cut


@kernel
def look_ahead(problem, tables, tightens):
    """Cut a box that was examined where a sweep over both halves makes their bounds fall most, of some cuts.

    Return the variable (-1 if there is none left), the cell after which to cut it, and tables (2, n_segments) of the
    halves. The box is tightened first, or the cuts are chosen as if it were.
    """
    low, high, start = tables.low.copy(), tables.high.copy(), tables.table.copy()
    score, cut = find_splits(problem, tables)
    if tightens:
        copy(tables.low, low)
        copy(tables.high, high)
    box, bound = (low, high, start), float(whole_bound(narrow(problem, tables), tables))
    chosen, best_cut, most, n_vain, is_proved = -1, np.int64(0), -1.0, 0, False
    found, tried = np.empty((2, start.shape[0])), np.empty((2, start.shape[0]))
    for _ in range(MOST_LOOKS):
        v = np.argmax(score) if score.shape[0] else -1
        if v < 0 or score[v] < 0.0 or n_vain == VAIN_LOOKS or is_proved:
            break
        score[v] = -1.0
        value, is_proved = look_at(problem, tables, box, (v, cut[v]), bound, tried)
        n_vain += 1
        if chosen < 0 or value > most:
            chosen, best_cut, most, n_vain = v, cut[v], value, 0
            found, tried = tried, found
    if chosen >= 0 and not is_proved:
        c = best_cut
        for other in ((low[chosen] + c) // 2, (c + 1 + high[chosen]) // 2):
            if other != c and other < high[chosen]:
                value, _ = look_at(problem, tables, box, (chosen, other), bound, tried)
                if value > most:
                    best_cut, most = other, value
                    found, tried = tried, found
    copy(low, tables.low)
    copy(high, tables.high)
    copy(start, tables.table)
    return chosen, best_cut, found


@kernel
def look_at(problem, tables, box, cut, bound, out):
    """Sweep once over both halves of a box that is cut, and write their tables to ``out`` (2, n_segments).

    Return what speaks for the cut, and whether both halves are proved.
    """
    (low, high, start), (v, c), fall, n_proved = box, cut, np.empty(2), 0
    for side in range(2):
        copy(low, tables.low)
        copy(high, tables.high)
        copy(start, tables.table)
        if side == 0:
            tables.high[v] = c
        else:
            tables.low[v] = c + 1
        below = max(bound_after_sweep(narrow(problem, tables), tables), float(problem.need))
        n_proved += below <= problem.need
        fall[side] = bound - below
        copy(tables.table, out[side])
    return min(fall[0], fall[1]) + LARGER_SHARE * max(fall[0], fall[1]), n_proved == 2


@kernel
def bound_after_sweep(problem, tables):
    """Return the bound in floats after one sweep; -inf where a tree has no leaf."""
    leaves = problem.leaves
    for t in range(leaves.name.shape[0]):
        if leaves.first[t] == leaves.first[t + 1]:
            tables.table[:] = 0.0
            return -math.inf
    add_up(problem.cells, leaves, tables)
    _, _, span = size_up(problem)
    settled = sweep(leaves, problem.gain, tables, span, True, new_sweep_scratch(leaves, tables))
    return settled + float_bound(0, tables)


@kernel
def find_hopes(problem, tables):
    """Return, for each cell (n_cells,), what is hoped for beyond a cut after it, seen from the chosen cells."""
    leaves, gain = problem.leaves, problem.gain
    whole, choice = tables.whole, tables.choice
    hope, least = np.zeros(tables.sum.shape[0]), np.empty(leaves.scope.shape[0], np.int64)
    for v in range(choice.shape[0]):
        best = choice[v]
        for c in range(tables.low[v], tables.high[v] + 1):
            if tables.sum[c] > tables.sum[best]:
                best = c
        for c in range(min(choice[v], best), max(choice[v], best)):
            hope[c] += tables.sum[best] - tables.sum[choice[v]]
    conditions = leaves.place, leaves.low, leaves.high
    for t in range(leaves.name.shape[0]):
        scopes = range(leaves.first_scope[t], leaves.first_scope[t + 1])
        total = least_in_box(leaves.first_segment, whole, scopes, least)
        best, most, here = -1, NOTHING, NOTHING
        for k in range(leaves.first[t], leaves.first[t + 1]):
            if here == NOTHING and allows(leaves, k, choice):
                here = gain[k]
            ends = leaves.first_condition[k], leaves.first_condition[k + 1]
            value = gain[k] - least_entries(conditions, whole, ends, least, total)
            if value > most:
                best, most = k, value
        for s in scopes:
            g = leaves.first_segment[s]
            while leaves.end[g] < choice[leaves.scope[s]]:
                g += 1
            here -= whole[g]
        if best < 0 or here < NOTHING // 2 or most <= here:
            continue
        i, end = leaves.first_condition[best], leaves.first_condition[best + 1]
        while i < end:
            s = leaves.place[i]
            c, nearest, distance = choice[leaves.scope[s]], 0, np.int64(2**61)
            while i < end and leaves.place[i] == s:
                target = min(max(c, leaves.begin[leaves.low[i]]), leaves.end[leaves.high[i]])
                if abs(target - c) < distance:
                    nearest, distance = target, abs(target - c)
                i += 1
            for h in range(min(c, nearest), max(c, nearest)):
                hope[h] += most - here
    return hope

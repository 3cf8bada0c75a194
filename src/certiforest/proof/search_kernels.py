"""One box of cells: prove it, find cells that break it, or tell where to cut it in two.

Where there are several requirements, cells that meet them all also meet their weighted sum, whatever the weights, so
that a bound on that sum proves a box empty. Weights are whole numbers, and change as
far as that makes the bound smaller.
"""

import math

import numpy as np

from certiforest.compiled import kernel
from certiforest.problem.problem import Problem
from certiforest.proof.ascent_kernels import ascend, copy
from certiforest.proof.moves_kernels import MOST_ROUNDS, allows, best_move, climb, fits_one_move
from certiforest.proof.sweep_kernels import new_sweep_scratch, overshoot, sweep
from certiforest.proof.tables_kernels import (
    NO_BOUND,
    OUTSIDE,
    add_up,
    best_lambda,
    float_bound,
    least_entries,
    least_entry,
    least_in_box,
    least_prices,
    narrow,
    set_lambda,
    whole_bound,
)

# Those above FOUND say that nothing in the box reaches what is needed.
PROVED, FOUND, OPEN, UNREACHABLE, ENUMERATED, BOUNDED, PAUSED = 1, 0, -1, 2, 3, 4, -2
# Less than any leaf gains.
NOTHING = np.int64(-(2**61))
# Weights of requirements are up to this. Leaves of all trees are worth less than 2**40 to a requirement, and their
# tables are not much larger than that, so that whole numbers have room for weighted sums of them all.
WEIGHT = 1 << 10
# A box is left when so many sweeps bring the bound nearer to what is needed by less than this share, each.
PATIENT_SWEEPS, PATIENCE = 4, 0.05


@kernel
def examine_box(problem, several, tables, most_sweeps, most_steps, may_enumerate):
    """Try to prove that nothing in the box reaches what is needed, or find cells that do.

    Return PROVED (``whole`` holds the tables), BOUNDED (no tables are needed: each tree is at its own worst), FOUND
    (``choice`` holds the cells), UNREACHABLE (the box costs more than the budget), ENUMERATED (one move fits the
    budget, and none will do; if it may), OPEN, or PAUSED: sweeps have looked at more than so many leaves,
    conditions and cells, and the next call goes on.

    ``several`` is None if there is one requirement; else `Several`, of which the problem is the `weighted` sum. Their
    weights are changed.

    The tables overshoot: after a sweep they go on a part of the way that they came, the larger the longer the bound
    has been falling (Nesterov's momentum, with restarts), which takes a third of the sweeps.
    """
    cells, budget = problem.cells, problem.budget
    least = np.empty(tables.low.shape[0], np.int64)
    total = least_prices(cells, tables, budget, least)
    if total > budget:
        return UNREACHABLE
    pace = tables.pace
    n_before, momentum, last, lowest, mark, next_climb = pace[0], pace[1], pace[2], pace[3], pace[4], pace[5]
    pace[0] = 0.0
    is_enumerated = n_before == 0.0 and may_enumerate and fits_one_move(cells, budget, tables, least, total)
    if is_enumerated and best_move(problem, tables, least, total) >= problem.need:
        return FOUND
    problem = narrow(problem, tables)
    leaves = problem.leaves
    for t in range(leaves.name.shape[0]):
        if leaves.first[t] == leaves.first[t + 1]:
            return UNREACHABLE
    most, hoped, span = size_up(problem)
    if most < problem.need:
        tables.table[:], tables.whole[:], tables.lambda_[:] = 0.0, 0, 0.0
        return BOUNDED
    if is_enumerated:
        return ENUMERATED
    scratch, before = new_sweep_scratch(leaves, tables), tables.before
    add_up(cells, leaves, tables)
    if budget > 0 and tables.lambda_[0] == 0.0:
        # Where the best lambda usually is; from zero it would creep there.
        set_lambda(cells, tables, 0.1 * hoped / budget)
    if n_before == 0.0:
        momentum, last, lowest, mark, next_climb = 0.0, math.inf, math.inf, math.inf, 1.0
        copy(tables.table, before)
    n_steps, steps_of_sweep = 0, leaves.node.shape[0] + leaves.place.shape[0]
    for g in range(leaves.begin.shape[0]):
        steps_of_sweep += max(leaves.end[g] + 1 - leaves.begin[g], 0)
    for n_sweeps in range(int(n_before) + 1, most_sweeps + 1):
        if momentum > 1.0:
            overshoot(leaves, tables, before, (momentum - 1.0) / (momentum + 2.0))
        else:
            copy(tables.table, before)
        settled = sweep(leaves, problem.gain, tables, span, n_sweeps > 1, scratch)
        if budget > 0:
            set_lambda(cells, tables, best_lambda(cells, budget, tables))
        bound = settled + float_bound(budget, tables)
        if bound < problem.need - 0.5 and whole_bound(problem, tables) < problem.need:
            return PROVED
        if n_sweeps == next_climb:
            next_climb *= 4.0
            if is_met(problem, several, tables):
                return FOUND
        momentum = momentum + 1.0 if bound <= last else 1.0
        last, lowest = bound, min(lowest, bound)
        if n_sweeps % PATIENT_SWEEPS == 0:
            if mark - lowest < PATIENT_SWEEPS * PATIENCE * (lowest - problem.need):
                break
            mark = lowest
        may_shift = several is not None and several.need.shape[0] > 1 and n_sweeps % 2 == 0 and n_sweeps < most_sweeps
        if may_shift and shift_weights(problem, several, tables.table):
            problem = weighted(cells, leaves, several)
            _, _, span = size_up(problem)
            momentum, last, lowest, mark = 0.0, math.inf, math.inf, math.inf
        n_steps += steps_of_sweep
        if n_steps > most_steps and n_sweeps < most_sweeps:
            pace[0], pace[1], pace[2], pace[3], pace[4], pace[5] = n_sweeps, momentum, last, lowest, mark, next_climb
            return PAUSED
    if is_met(problem, several, tables):
        return FOUND
    return OPEN


@kernel
def is_met(problem, several, tables):
    """Improve the chosen cells; tell whether they meet what is asked: of the one problem, if several is None."""
    if several is None:
        return climb(problem, tables, MOST_ROUNDS) >= problem.need
    return ascend(several, tables.low, tables.high, tables.choice) >= 0


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


@kernel
def weighted(cells, leaves, several):
    """Return the problem that the weighted sum of several requirements is; ``leaves.node`` numbers the leaves."""
    weight, need = several.weight, np.int64(0)
    gain = np.zeros(leaves.node.shape[0], np.int64)
    for r in range(weight.shape[0]):
        need += weight[r] * several.need[r]
        for k in range(gain.shape[0]):
            gain[k] += weight[r] * several.gain[leaves.node[k], r]
    return Problem(cells, leaves, gain, need, np.int64(0))


@kernel
def shift_weights(problem, several, table):
    """Change the weights, one after the other, as far as the bound falls while the tables stay; tell if one is new.

    The bound is convex in the weights. It has a kink where requirements are against each other in many trees, which
    only equal weights make nothing of: no step is taken across it.
    """
    leaves, weight = problem.leaves, several.weight
    taken = np.empty(leaves.node.shape[0])  # what tables take from each leaf
    least = np.empty(leaves.scope.shape[0])
    for t in range(leaves.name.shape[0]):
        everywhere = 0.0
        for s in range(leaves.first_scope[t], leaves.first_scope[t + 1]):
            least[s] = least_between(leaves, table, leaves.first_segment[s], leaves.first_segment[s + 1])
            everywhere += least[s]
        for k in range(leaves.first[t], leaves.first[t + 1]):
            taken[k] = everywhere
            i, end = leaves.first_condition[k], leaves.first_condition[k + 1]
            while i < end:
                s, entry = leaves.place[i], math.inf
                while i < end and leaves.place[i] == s:
                    entry = min(entry, least_between(leaves, table, leaves.low[i], leaves.high[i] + 1))
                    i += 1
                taken[k] += entry - least[s]
    one, others, is_new = np.empty(taken.shape[0]), np.empty(taken.shape[0]), False
    for r in range(weight.shape[0]):
        rest = weight.sum() - weight[r]
        if rest == 0:
            continue
        need = several.need[r], ((several.need * weight).sum() - several.need[r] * weight[r]) / rest
        for k in range(taken.shape[0]):
            gain = several.gain[leaves.node[k]]
            one[k], others[k] = gain[r], ((gain * weight).sum() - gain[r] * weight[r]) / rest
        low, high = 0, WEIGHT
        while low < high:
            middle = (low + high) // 2
            if tilted_bound(leaves, one, others, need, taken, middle) <= tilted_bound(
                leaves, one, others, need, taken, middle + 1
            ):
                high = middle
            else:
                low = middle + 1
        before = tilted_bound(leaves, one, others, need, taken, weight[r])
        if tilted_bound(leaves, one, others, need, taken, low) < before - 1e-9 * abs(before):
            is_new = True
            for q in range(weight.shape[0]):
                weight[q] = low if q == r else np.int64(np.rint(weight[q] * ((WEIGHT - low) / rest)))
    return is_new


@kernel
def tilted_bound(leaves, one, others, need, taken, part):
    """Return the bound, but for what stays, if one requirement has so much of all weight, and the others the rest."""
    bound = -(part * need[0] + (WEIGHT - part) * need[1])
    for t in range(leaves.name.shape[0]):
        most = -math.inf
        for k in range(leaves.first[t], leaves.first[t + 1]):
            most = max(most, part * one[k] + (WEIGHT - part) * others[k] - taken[k])
        bound += most
    return bound


@kernel
def least_between(leaves, table, start, stop):
    """Return the smallest entry of a table in some segments, of those that are in the box."""
    least = math.inf
    for g in range(start, stop):
        if leaves.begin[g] <= leaves.end[g] and table[g] < least:
            least = table[g]
    return least


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

    Return the variable and the cell after which to cut it; -1 if there is none left. The bound is above what the chosen
    cells give because trees, and the sums of tables, would like to be in other ones: what each of them hopes for there
    counts for the cuts between. Where prices count, a variable that is as good in a dear cell as in a cheap one is what
    the bound buys in parts: the difference of prices, at lambda, is lost on either side.
    """
    tighten(narrow(problem, tables), tables)
    cells, hope = problem.cells, find_hopes(narrow(problem, tables), tables)
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
            score = hope[c] + smaller + max(bought - larger, 0.0) + 0.01 * larger
            if chosen < 0 or score > most:  # any cut is better than none, even if a loss is not a number
                chosen, most, cut = v, score, c
    return chosen, cut


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
        hope[min(choice[v], best) : max(choice[v], best)] += tables.sum[best] - tables.sum[choice[v]]
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
            hope[min(c, nearest) : max(c, nearest)] += most - here
    return hope

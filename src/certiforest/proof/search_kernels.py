"""One box of cells: prove it, or find cells that break it; `cuts_kernels` tells where to cut it in two.

Where there are several requirements, cells that meet them all also meet their weighted sum, whatever the weights, so
that a bound on that sum proves a box empty. Weights are whole numbers, and change as far as that makes the bound
smaller.
"""

import math

import numpy as np

from certiforest.compiled import kernel
from certiforest.problem.problem import Problem
from certiforest.proof.ascent_kernels import ascend, copy
from certiforest.proof.cuts_kernels import is_worth_tightening, tighten
from certiforest.proof.focus_kernels import CLOSE, sweep_in_focus
from certiforest.proof.moves_kernels import MOST_ROUNDS, best_move, climb, fits_one_move
from certiforest.proof.sweep_kernels import accelerated_sweep, new_sweep_scratch
from certiforest.proof.tables_kernels import (
    add_up,
    best_lambda,
    float_bound,
    least_prices,
    narrow,
    set_lambda,
    size_up,
    whole_bound,
)

# Those above FOUND say that nothing in the box reaches what is needed.
PROVED, FOUND, OPEN, UNREACHABLE, ENUMERATED, BOUNDED, PAUSED = 1, 0, -1, 2, 3, 4, -2
# Weights of requirements are up to this. Leaves of all trees are worth less than 2**40 to a requirement, and their
# tables are not much larger than that, so that whole numbers have room for weighted sums of them all.
WEIGHT = 1 << 10
# A box is left when so many sweeps bring the bound nearer to what is needed by less than this share, each.
PATIENT_SWEEPS, PATIENCE = 4, 0.05
# Boxes with more conditions than this are swept over by what is in focus, after a few sweeps over all: cells that lose
# no more than a share of what the bound is above the need.
MUCH, FIRST_SWEEPS, FOCUS = 5000, 4, 0.05


@kernel
def examine_box(problem, several, tables, most, may_enumerate, may_tighten):
    """Try to prove that nothing in the box reaches what is needed, or find cells that do.

    Return PROVED (``whole`` holds the tables), BOUNDED (no tables are needed: each tree is at its own worst), FOUND
    (``choice`` holds the cells), UNREACHABLE (the box costs more than the budget), ENUMERATED (one move fits the
    budget, and none will do; if it may), OPEN, or PAUSED: sweeps have looked at more than so many leaves,
    conditions and cells, and the next call goes on. ``most`` are sweeps, and what they look at.

    Most sweeps are over what matters, but where ``may_tighten`` is None (that needs less to be compiled). If it may,
    the box becomes smaller on the way; what is said then holds of what was left out, too.

    ``several`` is None if there is one requirement; else `Several`, of which the problem is the `weighted` sum. Their
    weights are changed.
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
    if (leaves.first[1:] == leaves.first[:-1]).any():
        return UNREACHABLE
    gained, hoped, span = size_up(problem)
    if gained < problem.need:
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
    n_steps, steps_of_sweep = 0, count_steps(leaves)
    may_focus = may_tighten is not None and leaves.place.shape[0] > MUCH
    n_first = 2 if tables.table.any() else FIRST_SWEEPS
    for n_sweeps in range(int(n_before) + 1, most[0] + 1):
        settled = accelerated_sweep(leaves, problem.gain, tables, span, n_sweeps > 1, momentum, scratch)
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
        n_steps += steps_of_sweep
        # What is None for the compiler is left out.
        if may_tighten is not None and may_focus and n_sweeps >= n_first and n_sweeps % 2 == 0 and n_sweeps < most[0]:
            if mark - lowest < CLOSE * (lowest - problem.need):
                break
            mark = lowest
            if may_tighten and is_worth_tightening(tables, bound - problem.need):
                tighten(problem, tables)
                problem = narrow(problem, tables)
                leaves = problem.leaves
                if (leaves.first[1:] == leaves.first[:-1]).any():
                    return UNREACHABLE
                scratch, steps_of_sweep = new_sweep_scratch(leaves, tables), count_steps(leaves)
                add_up(cells, leaves, tables)
                float_bound(budget, tables)  # which chooses the best cells again
            sweep_in_focus(problem, tables, FOCUS * (bound - problem.need))
            add_up(cells, leaves, tables)
            copy(tables.table, before)
            momentum, last = 0.0, math.inf
        if not may_focus and n_sweeps % PATIENT_SWEEPS == 0:
            if mark - lowest < PATIENT_SWEEPS * PATIENCE * (lowest - problem.need):
                break
            mark = lowest
        may_shift = several is not None and several.need.shape[0] > 1 and n_sweeps % 2 == 0 and n_sweeps < most[0]
        if may_shift and shift_weights(problem, several, tables.table):
            problem = weighted(cells, leaves, several)
            _, _, span = size_up(problem)
            momentum, last, lowest, mark = 0.0, math.inf, math.inf, math.inf
        if n_steps > most[1] and n_sweeps < most[0]:
            pace[0], pace[1], pace[2], pace[3], pace[4], pace[5] = n_sweeps, momentum, last, lowest, mark, next_climb
            return PAUSED
    if is_met(problem, several, tables):
        return FOUND
    return OPEN


@kernel
def count_steps(leaves):
    """Return how many leaves, conditions and cells a sweep looks at."""
    n_steps = leaves.node.shape[0] + leaves.place.shape[0]
    for g in range(leaves.begin.shape[0]):
        n_steps += max(leaves.end[g] + 1 - leaves.begin[g], 0)
    return n_steps


@kernel
def is_met(problem, several, tables):
    """Improve the chosen cells; tell whether they meet what is asked: of the one problem, if several is None."""
    if several is None:
        return climb(problem, tables, MOST_ROUNDS) >= problem.need
    return ascend(several, tables.low, tables.high, tables.choice) >= 0


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

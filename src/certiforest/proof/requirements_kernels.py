"""Several requirements at once: weights that make one of them, and cells that meet them all.

Requirement r asks leaves to be worth ``need[r]`` together, and ``grows[r] * target`` more. Cells that meet all of them
also meet their weighted sum, whatever the weights, so that the bound of `tables_kernels` on that sum proves a box
empty. Weights are whole numbers; those of requirements that the bound finds hard to meet are raised.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy import ndarray

from certiforest.compiled import kernel
from certiforest.problem.problem import Problem
from certiforest.proof.box_kernels import narrow
from certiforest.proof.moves_kernels import allows
from certiforest.proof.search_kernels import FOUND, OPEN, PROVED, UNREACHABLE
from certiforest.proof.sweep_kernels import new_sweep_room, overshoot, sweep
from certiforest.proof.tables_kernels import NO_BOUND, add_up, float_bound, whole_bound

# Weights are up to this. Leaves of all trees are worth less than 2**40 to a requirement, and their tables are not much
# larger than that, so that whole numbers have room for weighted sums of them all.
WEIGHT = 1 << 8
# What cells lose that are not allowed: more than all leaves are worth.
FORBIDDEN = np.int64(1 << 40)
# More than any surplus.
ENOUGH = np.int64(1 << 61)
PATIENT_SWEEPS, PATIENCE = 4, 0.05


class Requirements(NamedTuple):
    """What leaves are worth to each requirement, ``gain`` (n_leaves, n_requirements) int64, and what is asked.

    ``need`` and ``grows`` (n_requirements,) int64: ``grows`` is 1 where a target is added to the need, else 0.
    """

    gain: ndarray
    need: ndarray
    grows: ndarray


class Balance(NamedTuple):
    """Weights (n_requirements,) in whole numbers, their logarithms, and the last steps and directions of these."""

    weight: ndarray
    log: ndarray
    step: ndarray
    way: ndarray


@kernel
def new_balance(n_requirements):
    """Return equal weights."""
    n = n_requirements
    return Balance(np.full(n, WEIGHT // n), np.zeros(n), np.full(n, 0.5), np.zeros(n))


@kernel
def weigh(requirements, balance, node, out):
    """Write what leaves, given by number, are worth to the weighted sum."""
    for k in range(node.shape[0]):
        total = np.int64(0)
        for r in range(balance.weight.shape[0]):
            total += balance.weight[r] * requirements.gain[node[k], r]
        out[k] = total


@kernel
def weighted_need(requirements, balance, target):
    """Return what the weighted sum must reach."""
    total = np.int64(0)
    for r in range(balance.weight.shape[0]):
        total += balance.weight[r] * (requirements.need[r] + requirements.grows[r] * target)
    return total


@kernel
def most_target(requirements, balance, bound):
    """Return a target that is beyond reach, plus one: the largest that a bound on the weighted sum leaves possible."""
    rest, grown = bound - weighted_need(requirements, balance, 0), np.int64(0)
    for r in range(balance.weight.shape[0]):
        grown += balance.weight[r] * requirements.grows[r]
    return rest // grown if grown > 0 else ENOUGH


@kernel
def examine(cells, leaves, requirements, balance, tables, target, most_sweeps, n_tries, seed, out):
    """Try to prove that no cells of the box meet the requirements, or find such cells.

    ``leaves.node`` numbers the leaves. Return PROVED, FOUND (``choice`` holds the cells), UNREACHABLE or OPEN.
    ``out`` (2,) receives a target that bounds what can be met in the box, and the best that was met.
    """
    inside = narrow(Problem(cells, leaves, leaves.node, 0, 0), tables).leaves
    for t in range(inside.name.shape[0]):
        if inside.first[t] == inside.first[t + 1]:
            return UNREACHABLE
    worth = np.empty(inside.node.shape[0], np.int64)
    weigh(requirements, balance, inside.node, worth)
    need = weighted_need(requirements, balance, target)
    scratch = np.empty((cells.top.shape[0], requirements.need.shape[0]), np.int64)
    out[0], out[1] = ENOUGH, -ENOUGH
    room, before = new_sweep_room(inside, tables), tables.table.copy()
    add_up(cells, inside, tables)
    span = span_of(inside, worth)
    momentum, last, lowest, mark, next_try = 0.0, math.inf, math.inf, math.inf, 1
    for n_sweeps in range(1, most_sweeps + 1):
        if momentum > 1.0:
            overshoot(inside, tables, before, (momentum - 1.0) / (momentum + 2.0))
        else:
            before[:] = tables.table
        sweep(inside, worth, tables, span, n_sweeps > 1, room)
        excess = float_bound(0, tables) - need
        if excess < -0.5:
            bound = whole_bound(Problem(cells, inside, worth, need, 0), tables)
            if bound < need:
                return PROVED
        if n_sweeps == next_try:
            next_try *= 4
            out[1] = max(out[1], ascend(leaves, requirements, balance, tables, target, scratch))
            if out[1] >= 0:
                return FOUND
        momentum = momentum + 1.0 if excess <= last else 1.0
        last, lowest = excess, min(lowest, excess)
        if n_sweeps % PATIENT_SWEEPS == 0:
            if mark - lowest < PATIENT_SWEEPS * PATIENCE * lowest:
                break
            mark = lowest
        if requirements.need.shape[0] > 1 and n_sweeps % 2 == 0 and n_sweeps < most_sweeps:
            shift_weights(inside, worth, requirements, balance, tables, target)
            weigh(requirements, balance, inside.node, worth)
            need, span = weighted_need(requirements, balance, target), span_of(inside, worth)
            lowest = mark = last = math.inf
            momentum = 0.0
    bound = whole_bound(Problem(cells, inside, worth, need, 0), tables)
    if bound != NO_BOUND:
        out[0] = most_target(requirements, balance, bound)
        if bound < need:
            return PROVED
    out[1] = max(out[1], ascend(leaves, requirements, balance, tables, target, scratch))
    if out[1] < 0 and n_tries > 0:
        out[1] = max(out[1], wander(leaves, requirements, balance, tables, target, n_tries, seed, scratch))
    return FOUND if out[1] >= 0 else OPEN


@kernel
def span_of(leaves, worth):
    """Return more than all trees can differ by."""
    span = 1.0
    for t in range(leaves.name.shape[0]):
        least = most = worth[leaves.first[t]]
        for k in range(leaves.first[t], leaves.first[t + 1]):
            least, most = min(least, worth[k]), max(most, worth[k])
        span += 2.0 * (most - least)
    return span


@kernel
def shift_weights(leaves, worth, requirements, balance, tables, target):
    """Raise the weights of requirements that the best leaves of all trees, as the tables stand, leave short.

    The bound is convex in the weights, and what the best leaves have beyond the need is its slope. Steps grow while
    they keep their direction, and are halved where it turns.
    """
    surplus = -(requirements.need + requirements.grows * target).astype(np.float64)
    table = tables.table
    for t in range(leaves.name.shape[0]):
        best, most = 0, -math.inf
        start, stop = leaves.first_scope[t], leaves.first_scope[t + 1]
        least = np.empty(stop - start)
        everywhere = 0.0
        for s in range(start, stop):
            least[s - start] = math.inf
            for g in range(leaves.first_segment[s], leaves.first_segment[s + 1]):
                if leaves.begin[g] <= leaves.end[g] and table[g] < least[s - start]:
                    least[s - start] = table[g]
            everywhere += least[s - start]
        for k in range(leaves.first[t], leaves.first[t + 1]):
            value = worth[k] - everywhere
            i, end = leaves.first_condition[k], leaves.first_condition[k + 1]
            while i < end:
                s, entry = leaves.place[i], math.inf
                while i < end and leaves.place[i] == s:
                    for g in range(leaves.low[i], leaves.high[i] + 1):
                        if leaves.begin[g] <= leaves.end[g] and table[g] < entry:
                            entry = table[g]
                    i += 1
                value += least[s - start] - entry
            if value > most:
                best, most = leaves.node[k], value
        for r in range(surplus.shape[0]):
            surplus[r] += requirements.gain[best, r]
    mean = 0.0
    for r in range(surplus.shape[0]):
        mean += balance.weight[r] * surplus[r]
    mean /= balance.weight.sum()
    largest = -math.inf
    for r in range(surplus.shape[0]):
        way = 1.0 if surplus[r] < mean else -1.0
        balance.step[r] = min(balance.step[r] * 1.2, 1.0) if way == balance.way[r] else 0.5 * balance.step[r]
        balance.way[r] = way
        balance.log[r] += way * balance.step[r]
        largest = max(largest, balance.log[r])
    total = 0.0
    for r in range(surplus.shape[0]):
        balance.log[r] = max(balance.log[r] - largest, -10.0)
        total += math.exp(balance.log[r])
    for r in range(surplus.shape[0]):
        balance.weight[r] = np.int64(np.rint(WEIGHT * math.exp(balance.log[r]) / total))


@kernel
def add_gains(leaves, requirements, choice, out):
    """Write what the leaves of the chosen cells are worth to each requirement."""
    out[:] = 0
    for t in range(leaves.name.shape[0]):
        for k in range(leaves.first[t], leaves.first[t + 1]):
            if allows(leaves, k, choice):
                for r in range(out.shape[0]):
                    out[r] += requirements.gain[leaves.node[k], r]
                break


@kernel
def gains_by_cell(leaves, requirements, tables, v, out):
    """Write what the trees that test a variable are worth to each requirement in each of its cells in the box."""
    choice, n_requirements = tables.choice, requirements.need.shape[0]
    low, high = tables.low[v], tables.high[v]
    out[low : high + 1] = 0
    for j in range(leaves.first_tester[v], leaves.first_tester[v + 1]):
        t = leaves.tester[j]
        for k in range(leaves.first[t], leaves.first[t + 1]):
            i, end = leaves.first_condition[k], leaves.first_condition[k + 1]
            mine, fits = end, True
            while i < end and fits:
                s = leaves.place[i]
                c = choice[leaves.scope[s]]
                if leaves.scope[s] == v:
                    mine = i
                fits = leaves.scope[s] == v
                while i < end and leaves.place[i] == s:
                    fits |= leaves.begin[leaves.low[i]] <= c <= leaves.end[leaves.high[i]]
                    i += 1
            if not fits:
                continue
            if mine == end:
                for c in range(low, high + 1):
                    for r in range(n_requirements):
                        out[c, r] += requirements.gain[leaves.node[k], r]
                continue
            for i in range(mine, end):
                if leaves.place[i] != leaves.place[mine]:
                    break
                for c in range(max(leaves.begin[leaves.low[i]], low), min(leaves.end[leaves.high[i]], high) + 1):
                    for r in range(n_requirements):
                        out[c, r] += requirements.gain[leaves.node[k], r]


@kernel
def least_surplus(requirements, total, change, r_change, target):
    """Return how far the requirement that is shortest is beyond its need; those that do not grow count if not met."""
    least = ENOUGH
    for r in range(total.shape[0]):
        surplus = total[r] + change[r] - r_change[r] - requirements.need[r] - requirements.grows[r] * target
        if requirements.grows[r] == 1 or surplus < 0:
            least = min(least, surplus)
    return least


@kernel
def ascend(leaves, requirements, balance, tables, target, scratch):
    """Improve the chosen cells one variable at a time while that helps; return the least surplus.

    What is best is first what the shortest requirement has, then the weighted sum of all.
    """
    choice, n_variables = tables.choice, tables.choice.shape[0]
    total, nothing = np.empty(requirements.need.shape[0], np.int64), np.zeros(requirements.need.shape[0], np.int64)
    for v in range(n_variables):
        choice[v] = min(max(choice[v], tables.low[v]), tables.high[v])
    add_gains(leaves, requirements, choice, total)
    best = least_surplus(requirements, total, nothing, nothing, target)
    v = n_quiet = 0
    while n_quiet < n_variables:
        has_moved = False
        if tables.low[v] < tables.high[v] and leaves.first_tester[v] < leaves.first_tester[v + 1]:
            gains_by_cell(leaves, requirements, tables, v, scratch)
            here, goal, most = choice[v], choice[v], 0
            for c in range(tables.low[v], tables.high[v] + 1):
                surplus, more = least_surplus(requirements, total, scratch[c], scratch[here], target), np.int64(0)
                for r in range(total.shape[0]):
                    more += balance.weight[r] * (scratch[c, r] - scratch[here, r])
                if surplus > best or (surplus == best and more > most):
                    best, most, goal = surplus, more, c
            if goal != here:
                total += scratch[goal] - scratch[here]
                choice[v] = goal
                has_moved = True
        n_quiet = 1 if has_moved else n_quiet + 1
        v = v + 1 if v + 1 < n_variables else 0
    return best


@kernel
def wander(leaves, requirements, balance, tables, target, n_tries, seed, scratch):
    """Leave the chosen cells at random in a few variables and ascend again; keep the best; return its surplus."""
    best, kept = ascend(leaves, requirements, balance, tables, target, scratch), tables.choice.copy()
    state = np.uint64(seed) * np.uint64(2862933555777941757) + np.uint64(3037000493)
    for _ in range(n_tries):
        if best >= 0:
            break
        for _ in range(4):
            state = state * np.uint64(6364136223846793005) + np.uint64(1442695040888963407)
            v = np.int64((state >> np.uint64(33)) % np.uint64(kept.shape[0]))
            state = state * np.uint64(6364136223846793005) + np.uint64(1442695040888963407)
            n = np.uint64(tables.high[v] - tables.low[v] + 1)
            tables.choice[v] = tables.low[v] + np.int64((state >> np.uint64(33)) % n)
        surplus = ascend(leaves, requirements, balance, tables, target, scratch)
        if surplus >= best:
            best = surplus
            kept[:] = tables.choice
        else:
            tables.choice[:] = kept
    tables.choice[:] = kept
    return best

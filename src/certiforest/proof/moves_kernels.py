"""Moves: cells that give what is needed, found one variable at a time."""

import math

import numpy as np

from certiforest.compiled import kernel
from certiforest.problem.sorting_kernels import sort_by

# Rounds in which the chosen cells are improved.
MOST_ROUNDS = 6


@kernel
def allows(leaves, k, choice):
    """Tell whether a leaf allows the chosen cells."""
    i, end = leaves.first_condition[k], leaves.first_condition[k + 1]
    while i < end:
        s = leaves.place[i]
        c = choice[leaves.scope[s]]
        fits = False
        while i < end and leaves.place[i] == s:
            fits |= leaves.begin[leaves.low[i]] <= c <= leaves.end[leaves.high[i]]
            i += 1
        if not fits:
            return False
    return True


@kernel
def conditions_on(leaves, k, v, choice):
    """Return where the conditions of leaf ``k`` on variable ``v`` begin and end, if it allows the others' chosen cells.

    Both are 0 if it does not. Without a condition on ``v`` there is one past its last, which for `cells_of` is none.
    """
    i, end = leaves.first_condition[k], leaves.first_condition[k + 1]
    first, last = end, end + 1
    while i < end:
        start, s = i, leaves.place[i]
        u, fits = leaves.scope[s], False
        while i < end and leaves.place[i] == s:
            fits |= leaves.begin[leaves.low[i]] <= choice[u] <= leaves.end[leaves.high[i]]
            i += 1
        if u == v:
            first, last = start, i
        elif not fits:
            return 0, 0
    return first, last


@kernel
def cells_of(leaves, k, i, low, high):
    """Return the cells from ``low`` to ``high`` that the ``i``-th condition of a leaf allows: all, if it is none."""
    if i == leaves.first_condition[k + 1]:
        return low, high
    return max(leaves.begin[leaves.low[i]], low), min(leaves.end[leaves.high[i]], high)


@kernel
def weigh_moves(problem, tables, change):
    """Write what is gained if one variable leaves its chosen cell for another one of the box.

    ``change`` is (n_cells,). Return what the leaves that allow the chosen cells gain.
    """
    leaves, gain = problem.leaves, problem.gain
    choice, place, total = tables.choice, leaves.place, np.int64(0)
    change[:] = 0
    for t in range(leaves.name.shape[0]):
        here = gain[leaves.first[t]]
        for k in range(leaves.first[t], leaves.first[t + 1]):
            here = min(here, gain[k])  # where the chosen cells cost too much, no leaf may allow them
        for k in range(leaves.first[t], leaves.first[t + 1]):
            if allows(leaves, k, choice):
                here = gain[k]
                break
        total += here
        for k in range(leaves.first[t], leaves.first[t + 1]):
            if gain[k] == here:
                continue
            # A leaf is one move away if the chosen cells break its conditions in one place only.
            broken, n_broken = -1, 0
            i, end = leaves.first_condition[k], leaves.first_condition[k + 1]
            while i < end and n_broken < 2:
                first, s = i, place[i]
                c = choice[leaves.scope[s]]
                fits = False
                while i < end and place[i] == s:
                    fits |= leaves.begin[leaves.low[i]] <= c <= leaves.end[leaves.high[i]]
                    i += 1
                if not fits:
                    broken = first
                    n_broken += 1
            if n_broken != 1:
                continue
            v = leaves.scope[place[broken]]
            for i in range(broken, end):
                if place[i] != place[broken]:
                    break
                begin, last = leaves.begin[leaves.low[i]], leaves.end[leaves.high[i]]
                for c in range(max(begin, tables.low[v]), min(last, tables.high[v]) + 1):
                    change[c] += gain[k] - here
    return total


@kernel
def weigh_variable(problem, tables, v, change):
    """Write to ``change`` what is gained if one variable leaves its chosen cell for another one of the box."""
    leaves, gain = problem.leaves, problem.gain
    low, high = tables.low[v], tables.high[v]
    change[low : high + 1] = 0
    for t in leaves.tester[leaves.first_tester[v] : leaves.first_tester[v + 1]]:
        least = gain[leaves.first[t]]  # where no leaf allows the cells, the worst one stands for it
        for k in range(leaves.first[t], leaves.first[t + 1]):
            least = min(least, gain[k])
        for k in range(leaves.first[t], leaves.first[t + 1]):
            if gain[k] == least:
                continue
            first, last = conditions_on(leaves, k, v, tables.choice)
            for i in range(first, last):
                bottom, top = cells_of(leaves, k, i, low, high)
                for c in range(bottom, top + 1):
                    change[c] += gain[k] - least
    here = change[tables.choice[v]]
    for c in range(low, high + 1):
        change[c] -= here


@kernel
def best_target(cells, budget, tables, v, change, spent_so_far):
    """Return the cell that a variable had best go to within the budget, and what that gains for its price."""
    target, most, here = tables.choice[v], 0.0, cells.price[tables.choice[v]]
    for c in range(tables.low[v], tables.high[v] + 1):
        more = cells.price[c] - here
        if change[c] > 0 and spent_so_far + more <= budget:
            rate = change[c] / (max(more, 0) + 0.01 * budget + 1.0)
            if rate > most:
                target, most = c, rate
    return target, most


@kernel
def climb(problem, tables, most_rounds):
    """Improve the chosen cells, within box and budget; return what leaves gain there.

    In a round every variable is weighed, and then they move, the best first; those whose trees others have moved are
    weighed again. Moves that cost more than the budget allows are taken back first, those that lose least for what they
    save before. Rounds gain less and less: when what the last one gained, or single moves promise, would not do for the
    rest of them, the climb ends.
    """
    cells, leaves, _, need, budget = problem
    choice, n_variables = tables.choice, tables.choice.shape[0]
    change = np.empty(cells.top.shape[0], np.int64)
    target, value = np.empty(n_variables, np.int64), np.empty(n_variables)
    order, key = np.empty(n_variables, np.int64), np.empty(n_variables)
    is_touched, last = np.empty(leaves.name.shape[0], np.bool_), np.int64(-(2**62))
    for n_rounds in range(most_rounds):
        total = weigh_moves(problem, tables, change)
        spent_so_far = 0
        for v in range(n_variables):
            spent_so_far += cells.price[choice[v]]
        if spent_so_far > budget:
            for v in range(n_variables):
                target[v] = min(max(cells.home[v], tables.low[v]), tables.high[v])
                saved = cells.price[choice[v]] - cells.price[target[v]]
                value[v] = -change[target[v]] / saved if saved > 0 else math.inf
                key[v], order[v] = value[v], v
            sort_by(key, order, 0, n_variables)
            for v in order:
                if spent_so_far <= budget or value[v] == math.inf:
                    break
                spent_so_far -= cells.price[choice[v]] - cells.price[target[v]]
                choice[v] = target[v]
            if spent_so_far > budget:
                return np.int64(-(2**62))
            continue
        promised = 0.0
        for v in range(n_variables):
            target[v], value[v] = best_target(cells, budget, tables, v, change, spent_so_far)
            promised += change[target[v]] if value[v] > 0.0 else 0
            key[v], order[v] = -value[v], v
        if last > -(2**62):
            promised = min(promised, float(total - last))
        if total >= need or promised * (most_rounds - n_rounds) < need - total:
            return total
        last = total
        is_touched[:] = False
        is_done = True
        sort_by(key, order, 0, n_variables)
        for v in order:
            if value[v] == 0.0 or total >= need:
                break
            testers = leaves.tester[leaves.first_tester[v] : leaves.first_tester[v + 1]]
            is_new = False
            for t in testers:
                is_new |= is_touched[t]
            if is_new:
                weigh_variable(problem, tables, v, change)
            c, rate = best_target(cells, budget, tables, v, change, spent_so_far)
            if rate == 0.0:
                continue
            for t in testers:
                is_touched[t] = True
            spent_so_far += cells.price[c] - cells.price[choice[v]]
            total += change[c]
            choice[v] = c
            is_done = False
        if is_done:
            return total
    return weigh_moves(problem, tables, change)


@kernel
def fits_one_move(cells, budget, tables, least, total):
    """Tell whether the budget has no room for two variables to leave their cheapest cells in the box.

    ``least`` and ``total`` come from `least_prices`.
    """
    if budget == 0:
        return False
    cheapest = budget + 1
    for v in range(least.shape[0]):
        c = min(max(cells.home[v], tables.low[v]), tables.high[v])
        if c > tables.low[v]:
            cheapest = min(cheapest, cells.price[c - 1] - least[v])
        if c < tables.high[v]:
            cheapest = min(cheapest, cells.price[c + 1] - least[v])
    return total + 2 * cheapest > budget


@kernel
def best_move(problem, tables, least, total):
    """Return the most that leaves gain after at most one move within the budget, and choose the cells for it."""
    cells, choice, change = problem.cells, tables.choice, np.empty(problem.cells.top.shape[0], np.int64)
    for v in range(choice.shape[0]):
        choice[v] = min(max(cells.home[v], tables.low[v]), tables.high[v])
    base = weigh_moves(problem, tables, change)
    most, best, moved = base, -1, -1
    for v in range(choice.shape[0]):
        for c in range(tables.low[v], tables.high[v] + 1):
            if base + change[c] > most and total - least[v] + cells.price[c] <= problem.budget:
                most, best, moved = base + change[c], c, v
    if moved >= 0:
        choice[moved] = best
    return most

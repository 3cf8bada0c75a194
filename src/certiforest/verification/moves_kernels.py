"""Moves: cells that give a rival the lead it needs, found one variable at a time.

Cells are chosen on the local problem alone; whether they are an attack is for the ensemble to say.
"""

import math

import numpy as np

from certiforest.compiled import kernel


@kernel
def next_broken(leaves, i, end, choice):
    """Return the first of the rules from ``i`` on that the chosen cells break, ``end`` if they keep all of them.

    Rules of one place are broken together. Also return the first rule of the next place.
    """
    while i < end:
        first, s = i, leaves.place[i]
        c = choice[leaves.scope[s]]
        is_kept = False
        while i < end and leaves.place[i] == s:
            is_kept |= leaves.low[i] <= c <= leaves.high[i]
            i += 1
        if not is_kept:
            return first, i
    return end, end


@kernel
def lead_of(leaves, contest, t, choice):
    """Return what tree ``t`` adds to the rival's lead in the chosen cells."""
    for k in range(leaves.first[t], leaves.first[t + 1]):
        end = leaves.first_rule[k + 1]
        if next_broken(leaves, leaves.first_rule[k], end, choice)[0] == end:
            return contest.lead[k]
    return np.int64(-(2**62))  # beyond the budget


@kernel
def climb(cells, leaves, contest, tables, most_rounds):
    """Improve the chosen cells one variable at a time, within box and budget; return the rival's lead.

    While the chosen cells cost more than the budget, the variable that gains least for its price goes back first.
    """
    choice = tables.choice
    n_trees = leaves.tree.shape[0]
    spent_so_far = 0
    for v in range(choice.shape[0]):
        spent_so_far += cells.price[choice[v]]
    leads = np.empty(n_trees, np.int64)
    for t in range(n_trees):
        leads[t] = lead_of(leaves, contest, t, choice)
    for _ in range(choice.shape[0]):
        if spent_so_far <= contest.budget:
            break
        worst, least_loss, home = -1, math.inf, 0
        for v in range(choice.shape[0]):
            own = min(max(cells.own[v], tables.low[v]), tables.high[v])
            saved = cells.price[choice[v]] - cells.price[own]
            if saved <= 0:
                continue
            old, loss = choice[v], 0.0
            choice[v] = own
            for i in range(leaves.first_tester[v], leaves.first_tester[v + 1]):
                t = leaves.tester[i]
                loss += leads[t] - lead_of(leaves, contest, t, choice)
            choice[v] = old
            if loss / saved < least_loss:
                worst, least_loss, home = v, loss / saved, own
        if worst < 0:
            break
        spent_so_far -= cells.price[choice[worst]] - cells.price[home]
        choice[worst] = home
        for i in range(leaves.first_tester[worst], leaves.first_tester[worst + 1]):
            t = leaves.tester[i]
            leads[t] = lead_of(leaves, contest, t, choice)
    for _ in range(most_rounds):
        improved = False
        for v in range(choice.shape[0]):
            old = choice[v]
            best, best_cell = 0, old
            for c in range(tables.low[v], tables.high[v] + 1):
                more = cells.price[c] - cells.price[old]
                if c == old or spent_so_far + more > contest.budget:
                    continue
                choice[v] = c
                gain = 0
                for i in range(leaves.first_tester[v], leaves.first_tester[v + 1]):
                    t = leaves.tester[i]
                    gain += lead_of(leaves, contest, t, choice) - leads[t]
                if gain > best or (gain == best and cells.price[c] < cells.price[best_cell]):
                    best, best_cell = gain, c
            choice[v] = best_cell
            if best_cell != old:
                improved = True
                spent_so_far += cells.price[best_cell] - cells.price[old]
                for i in range(leaves.first_tester[v], leaves.first_tester[v + 1]):
                    t = leaves.tester[i]
                    leads[t] = lead_of(leaves, contest, t, choice)
        total = leads.sum()
        if not improved or total >= contest.need:
            break
    return leads.sum() if spent_so_far <= contest.budget else np.int64(-(2**62))


@kernel
def fits_one_move(cells, contest, tables, least, total):
    """Tell whether the budget has no room for two variables to leave their cheapest cells in the box.

    ``least`` and ``total`` come from `least_prices`.
    """
    if contest.budget == 0:
        return False
    cheapest = contest.budget + 1
    for v in range(least.shape[0]):
        own = min(max(cells.own[v], tables.low[v]), tables.high[v])
        if own > tables.low[v]:
            cheapest = min(cheapest, cells.price[own - 1] - least[v])
        if own < tables.high[v]:
            cheapest = min(cheapest, cells.price[own + 1] - least[v])
    return total + 2 * cheapest > contest.budget


@kernel
def best_move(cells, leaves, contest, tables, least, total):
    """Return the rival's largest lead after at most one move within the budget, and choose the cells for it.

    ``least`` and ``total`` come from `least_prices`.
    """
    choice = tables.choice
    for v in range(choice.shape[0]):
        choice[v] = min(max(cells.own[v], tables.low[v]), tables.high[v])
    base = np.int64(0)
    gain = np.zeros(cells.top.shape[0], np.int64)
    for t in range(leaves.tree.shape[0]):
        home = lead_of(leaves, contest, t, choice)
        base += home
        for k in range(leaves.first[t], leaves.first[t + 1]):
            # A leaf is one move away if the chosen cells break its rules in one place only.
            end = leaves.first_rule[k + 1]
            broken, after = next_broken(leaves, leaves.first_rule[k], end, choice)
            if broken == end or next_broken(leaves, after, end, choice)[0] < end:
                continue
            v = leaves.scope[leaves.place[broken]]
            for i in range(broken, after):
                for c in range(max(leaves.low[i], tables.low[v]), min(leaves.high[i], tables.high[v]) + 1):
                    gain[c] += contest.lead[k] - home
    most, best, moved = base, -1, -1
    for v in range(choice.shape[0]):
        for c in range(tables.low[v], tables.high[v] + 1):
            if base + gain[c] > most and total - least[v] + cells.price[c] <= contest.budget:
                most, best, moved = base + gain[c], c, v
    if moved >= 0:
        choice[moved] = best
    return most

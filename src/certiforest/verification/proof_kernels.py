"""Message passing: numbers that prove a row stable, found in floats, checked in whole numbers.

For any tables m (one number for each tree, variable it tests and cell) and any lambda >= 0, no row in a box of cells
gives a rival more than ::

    lambda * budget  +  sum over trees      max over leaves  [lead - sum over variables  min over allowed cells  m]
                     +  sum over variables  max over cells   [sum over trees m - lambda * price]

because the leaves and cells of any one row make each bracket at least what it is there, and the m cancel. A sweep
goes through the trees and sets the tables of one to what makes this smallest while the others stay; every tree's
bracket is then at most zero. Floats find tables, `whole_bound` decides with them rounded to whole numbers.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy import ndarray

from certiforest.compiled import kernel

PROVED, ATTACKED, OPEN, UNREACHABLE, ENUMERATED = 1, 0, -1, 2, 3
# lambda is a whole number of 2**-shift; with prices up to 4 * BUDGET, products stay below 2**63.
LAMBDA_BITS = 20


class Contest(NamedTuple):
    """What the leaves of a local problem (see `Leaves`) do for one rival of the predicted class.

    ``lead`` (n_leaves,) int64 is what a leaf adds to the rival's lead, rounded up; the rival is predicted only if the
    leads of all trees add up to ``need`` or more. ``budget`` bounds the prices of all moves, 0 for L-inf.
    """

    lead: ndarray
    need: int
    budget: int


class Tables(NamedTuple):
    """The numbers of a proof and what is derived from them.

    ``table`` and ``whole`` (n_entries,) are the tables, in floats and rounded; ``theta`` (n_cells,) adds them up over
    trees, less lambda times the price. ``low`` and ``high`` (n_variables,) are the box, first and last cell, ``choice``
    (n_variables,) a cell of each, ``loss`` (n_cells,) what is lost in a cell. ``price`` holds lambda, in
    floats, and in its second place what whole numbers made of it.
    """

    table: ndarray
    whole: ndarray
    theta: ndarray
    low: ndarray
    high: ndarray
    choice: ndarray
    loss: ndarray
    price: ndarray


@kernel
def new_tables(cells, leaves):
    """Return tables that hold nothing, for the box of all cells."""
    n_entries, n_cells = leaves.first_entry[-1], cells.top.shape[0]
    return Tables(
        np.zeros(n_entries), np.zeros(n_entries, np.int64), np.zeros(n_cells),
        cells.first[:-1].copy(), cells.first[1:] - 1, cells.own.copy(), np.zeros(n_cells), np.zeros(2),
    )  # fmt: skip


@kernel
def least_prices(cells, tables, budget, out):
    """Write the least price of each variable in the box; return their sum."""
    total = 0
    for v in range(out.shape[0]):
        out[v] = 0
        if budget > 0 and not tables.low[v] <= cells.own[v] <= tables.high[v]:
            # Prices grow from the row's own cell outwards.
            out[v] = cells.price[tables.low[v]] if tables.low[v] > cells.own[v] else cells.price[tables.high[v]]
        total += out[v]
    return total


@kernel
def allowed_price(cells, leaves, tables, k, s, i, end):
    """Return the least price of a variable in the box where rules from ``i`` on allow it; -1 if nowhere.

    Also the first rule of another place.
    """
    v = leaves.scope[s]
    own = cells.own[v]
    best = -1
    while i < end and leaves.place[i] == s:
        low, high = max(leaves.low[i], tables.low[v]), min(leaves.high[i], tables.high[v])
        if low <= high:
            price = 0
            if low > own:
                price = cells.price[low]
            elif high < own:
                price = cells.price[high]
            if best < 0 or price < best:
                best = price
        i += 1
    return best, i


@kernel
def is_in_reach(cells, leaves, tables, k, least, total, budget):
    """Tell whether a leaf meets the box at a price within the budget, the other variables at their least."""
    i, end = leaves.first_rule[k], leaves.first_rule[k + 1]
    while i < end:
        s = leaves.place[i]
        price, i = allowed_price(cells, leaves, tables, k, s, i, end)
        if price < 0:
            return False
        total += price - least[leaves.scope[s]]
    return total <= budget


@kernel
def reach_in(cells, leaves, contest, tables):
    """Return which leaves are in reach within the box, see `is_in_reach`."""
    least = np.empty(tables.low.shape[0], np.int64)
    total = least_prices(cells, tables, contest.budget, least)
    reach = np.empty(leaves.node.shape[0], np.bool_)
    for k in range(reach.shape[0]):
        reach[k] = is_in_reach(cells, leaves, tables, k, least, total, contest.budget)
    return reach


@kernel
def update_tree(cells, leaves, contest, tables, t, reach, span, worth, peak):
    """Set the tables of one tree so that the bound is smallest while those of the others stay.

    ``reach`` (n_leaves,) tells which leaves count; ``worth`` (n_leaves,) and ``peak`` (n_scopes + n_rules,) are
    scratch.
    """
    theta, table = tables.theta, tables.table
    scope, place, rule_low, rule_high = leaves.scope, leaves.place, leaves.low, leaves.high
    begin, end = leaves.first_scope[t], leaves.first_scope[t + 1]
    n_scopes = scope.shape[0]
    everywhere = 0.0
    for s in range(begin, end):
        v = scope[s]
        shift = leaves.first_entry[s] - cells.first[v]
        best = -math.inf
        for c in range(tables.low[v], tables.high[v] + 1):
            theta[c] -= table[shift + c]
            best = max(best, theta[c])
        peak[s] = best
        everywhere += best
    most = -math.inf
    for k in range(leaves.first[t], leaves.first[t + 1]):
        if not reach[k]:
            continue
        value = contest.lead[k] + everywhere
        i = leaves.first_rule[k]
        while i < leaves.first_rule[k + 1]:
            first, s = i, place[i]
            v = scope[s]
            best = -math.inf
            while i < leaves.first_rule[k + 1] and place[i] == s:
                for c in range(max(rule_low[i], tables.low[v]), min(rule_high[i], tables.high[v]) + 1):
                    best = max(best, theta[c])
                i += 1
            peak[n_scopes + first] = best
            value += best - peak[s]
        worth[k] = value
        most = max(most, value)
    # What the best leaf that allows a cell is worth, less the variable's own part: first in the table itself.
    for s in range(begin, end):
        shift = leaves.first_entry[s] - cells.first[scope[s]]
        for c in range(tables.low[scope[s]], tables.high[scope[s]] + 1):
            table[shift + c] = -math.inf
    for k in range(leaves.first[t], leaves.first[t + 1]):
        if not reach[k]:
            continue
        i = leaves.first_rule[k]
        for s in range(begin, end):
            v = scope[s]
            shift = leaves.first_entry[s] - cells.first[v]
            if i < leaves.first_rule[k + 1] and place[i] == s:
                rest = worth[k] - peak[n_scopes + i]
                while i < leaves.first_rule[k + 1] and place[i] == s:
                    for c in range(max(rule_low[i], tables.low[v]), min(rule_high[i], tables.high[v]) + 1):
                        table[shift + c] = max(table[shift + c], rest)
                    i += 1
            else:
                rest = worth[k] - peak[s]
                for c in range(tables.low[v], tables.high[v] + 1):
                    table[shift + c] = max(table[shift + c], rest)
    share = 1.0 / (end - begin)
    for s in range(begin, end):
        v = scope[s]
        shift = leaves.first_entry[s] - cells.first[v]
        for c in range(tables.low[v], tables.high[v] + 1):
            # A cell that no leaf in reach allows is worth little, but a number.
            total_worth = max(theta[c] + table[shift + c], most - span)
            new = total_worth * share
            table[shift + c] = new - theta[c]
            theta[c] = new


@kernel
def best_lambda(cells, contest, tables):
    """Return the lambda for which the bound is smallest while the tables stay."""
    low, high = 0.0, max(2.0 * tables.price[0], 1e-9)
    while spent(cells, tables, high) > contest.budget and high < 1e30:
        low, high = high, 4.0 * high
    for _ in range(40):
        middle = 0.5 * (low + high)
        if spent(cells, tables, middle) > contest.budget:
            low = middle
        else:
            high = middle
        if high - low <= 1e-6 * high:
            break
    return high


@kernel
def spent(cells, tables, price):
    """Return what the best cells cost in all if a unit of the budget is worth ``price``."""
    total = 0
    for v in range(tables.low.shape[0]):
        best, cost = -math.inf, 0
        for c in range(tables.low[v], tables.high[v] + 1):
            value = tables.theta[c] + (tables.price[0] - price) * cells.price[c]
            if value > best:
                best, cost = value, cells.price[c]
        total += cost
    return total


@kernel
def set_lambda(cells, tables, price):
    """Change lambda, and theta with it."""
    for c in range(tables.theta.shape[0]):
        tables.theta[c] += (tables.price[0] - price) * cells.price[c]
    tables.price[0] = price


@kernel
def float_bound(contest, tables):
    """Return the bound in floats, where no tree's bracket is above zero; note the best cell of each variable."""
    total = tables.price[0] * contest.budget
    for v in range(tables.low.shape[0]):
        best = -math.inf
        for c in range(tables.low[v], tables.high[v] + 1):
            if tables.theta[c] > best:
                best = tables.theta[c]
                tables.choice[v] = c
        total += best
    return total


@kernel
def whole_bound(cells, leaves, contest, tables, reach, scratch):
    """Round the tables to whole numbers and tell whether they prove that nothing in the box reaches what is needed.

    Everything is 64-bit arithmetic. Before, floats make sure that nothing leaves 62 bits: the largest entries of all
    tables and leads together. (What is far below zero may wrap around; it is then taken for more than it is.)
    """
    size = 0.0
    for s in range(leaves.scope.shape[0]):
        largest = 0.0
        for e in range(leaves.first_entry[s], leaves.first_entry[s + 1]):
            if not abs(tables.table[e]) <= largest:
                largest = abs(tables.table[e])
        size += largest
    for t in range(leaves.tree.shape[0]):
        largest = 0.0
        for k in range(leaves.first[t], leaves.first[t + 1]):
            largest = max(largest, abs(contest.lead[k]))
        size += largest
    if not size < 2.0**60:
        return False
    for e in range(tables.table.shape[0]):
        tables.whole[e] = np.int64(np.rint(tables.table[e]))
    # lambda as a whole number of 2**-shift, rounded up.
    shift, price = 0, 0
    if tables.price[0] > 0.0:
        shift = LAMBDA_BITS - 1 - math.floor(math.log2(tables.price[0]))
        if shift < 0 or shift > 100:
            return False
        price = math.ceil(math.ldexp(tables.price[0], shift))
    tables.price[1] = math.ldexp(float(price), -shift)
    bound = share_of(price, contest.budget, shift) + (1 if price > 0 else 0)
    for v in range(tables.low.shape[0]):
        for c in range(tables.low[v], tables.high[v] + 1):
            scratch[c] = -share_of(price, cells.price[c], shift)
    for t in range(leaves.tree.shape[0]):
        best = np.int64(-(2**62))
        for k in range(leaves.first[t], leaves.first[t + 1]):
            if reach[k]:
                best = max(best, contest.lead[k] - least_entries(cells, leaves, tables, t, k))
        bound += best
        for s in range(leaves.first_scope[t], leaves.first_scope[t + 1]):
            v = leaves.scope[s]
            entry = leaves.first_entry[s] - cells.first[v]
            for c in range(tables.low[v], tables.high[v] + 1):
                scratch[c] += tables.whole[entry + c]
    for v in range(tables.low.shape[0]):
        best = scratch[tables.low[v]]
        for c in range(tables.low[v] + 1, tables.high[v] + 1):
            best = max(best, scratch[c])
        bound += best
    return bound < contest.need


@kernel
def is_bounded(cells, leaves, contest, tables):
    """Tell whether the box is proved without any tables: each tree at its own worst."""
    reach = reach_in(cells, leaves, contest, tables)
    return whole_bound(cells, leaves, contest, tables, reach, np.empty(cells.top.shape[0], np.int64))


@kernel
def coarsen(cells, leaves, contest, tables):
    """Round tables that prove the box as much as it bears; return the power of two they are then multiples of."""
    reach = reach_in(cells, leaves, contest, tables)
    scratch = np.empty(cells.top.shape[0], np.int64)
    table = tables.table.copy()
    largest = 1.0
    for e in range(table.shape[0]):
        largest = max(largest, abs(table[e]))
    for shift in range(int(math.log2(largest)), -1, -1):
        for e in range(table.shape[0]):
            tables.table[e] = np.rint(math.ldexp(table[e], -shift)) * 2.0**shift
        if whole_bound(cells, leaves, contest, tables, reach, scratch):
            return shift
    return 0


@kernel
def share_of(price, cost, shift):
    """Return ``price * cost * 2**-shift``, rounded down."""
    return (price * cost) >> shift if shift < 63 else 0


@kernel
def least_entries(cells, leaves, tables, t, k):
    """Return what the tables of a tree take from a leaf at least: the smallest entry of every variable it tests."""
    total = 0
    i, end = leaves.first_rule[k], leaves.first_rule[k + 1]
    for s in range(leaves.first_scope[t], leaves.first_scope[t + 1]):
        v = leaves.scope[s]
        entry = leaves.first_entry[s] - cells.first[v]
        best = np.int64(2**62)
        if i < end and leaves.place[i] == s:
            while i < end and leaves.place[i] == s:
                for c in range(max(leaves.low[i], tables.low[v]), min(leaves.high[i], tables.high[v]) + 1):
                    best = min(best, tables.whole[entry + c])
                i += 1
        else:
            for c in range(tables.low[v], tables.high[v] + 1):
                best = min(best, tables.whole[entry + c])
        total += best
    return total


@kernel
def allows(leaves, k, choice):
    """Tell whether a leaf allows the chosen cells."""
    i, end = leaves.first_rule[k], leaves.first_rule[k + 1]
    while i < end:
        s = leaves.place[i]
        c = choice[leaves.scope[s]]
        fits = False
        while i < end and leaves.place[i] == s:
            fits |= leaves.low[i] <= c <= leaves.high[i]
            i += 1
        if not fits:
            return False
    return True


@kernel
def lead_of(leaves, contest, t, choice):
    """Return what a tree adds to the rival's lead where the chosen cells are."""
    for k in range(leaves.first[t], leaves.first[t + 1]):
        if allows(leaves, k, choice):
            return contest.lead[k]
    return np.int64(-(2**62))  # beyond the budget


@kernel
def climb(cells, leaves, contest, tables, most_rounds):
    """Improve the chosen cells one variable at a time, within box and budget; return the rival's lead.

    Moves that cost more than the budget allows are taken back first, those that gain least for their price before.
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
    """Tell whether the budget has room for one variable to leave its cheapest cell in the box, and for no two."""
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
    """Return the rival's largest lead after at most one move within the budget, and choose the cells for it."""
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
            broken, n_broken = -1, 0
            i, end = leaves.first_rule[k], leaves.first_rule[k + 1]
            while i < end:
                first, s = i, leaves.place[i]
                c = choice[leaves.scope[s]]
                fits = False
                while i < end and leaves.place[i] == s:
                    fits |= leaves.low[i] <= c <= leaves.high[i]
                    i += 1
                if not fits:
                    broken = first
                    n_broken += 1
            if n_broken != 1:
                continue
            i = broken
            v = leaves.scope[leaves.place[broken]]
            while i < end and leaves.place[i] == leaves.place[broken]:
                for c in range(max(leaves.low[i], tables.low[v]), min(leaves.high[i], tables.high[v]) + 1):
                    gain[c] += contest.lead[k] - home
                i += 1
    most, best, moved = base, -1, -1
    for v in range(choice.shape[0]):
        for c in range(tables.low[v], tables.high[v] + 1):
            if base + gain[c] > most and total - least[v] + cells.price[c] <= contest.budget:
                most, best, moved = base + gain[c], c, v
    if moved >= 0:
        choice[moved] = best
    return most


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
                if i < last and leaves.place[i] == s:
                    start = i
                    smallest = np.int64(2**62)
                    while i < last and leaves.place[i] == s:
                        for c in range(max(leaves.low[i], tables.low[v]), min(leaves.high[i], tables.high[v]) + 1):
                            smallest = min(smallest, tables.whole[entry + c])
                        i += 1
                    for j in range(start, i):
                        for c in range(max(leaves.low[j], tables.low[v]), min(leaves.high[j], tables.high[v]) + 1):
                            here = value + (smallest - tables.whole[entry + c])
                            worth[entry + c] = max(worth[entry + c], here)
                else:
                    smallest = np.int64(2**62)
                    for c in range(tables.low[v], tables.high[v] + 1):
                        smallest = min(smallest, tables.whole[entry + c])
                    for c in range(tables.low[v], tables.high[v] + 1):
                        worth[entry + c] = max(worth[entry + c], value + (smallest - tables.whole[entry + c]))
        for s in range(begin, end):
            v = leaves.scope[s]
            entry = leaves.first_entry[s] - cells.first[v]
            for c in range(tables.low[v], tables.high[v] + 1):
                tables.loss[c] += most - worth[entry + c]


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
            bought = tables.price[0] * abs(cells.price[left] - cells.price[right])
            score = smaller + max(bought - larger, 0.0) + 0.01 * larger
            if chosen < 0 or score > most:  # any cut is better than none, even if a loss is not a number
                chosen, most, cut = v, score, c
    return chosen, cut


@kernel
def examine_box(cells, leaves, contest, tables, most_sweeps, patience, may_enumerate):
    """Try to prove that nothing in the box reaches what is needed, or find cells that do.

    Return PROVED (``whole`` holds the tables), ATTACKED (``choice`` holds the cells), UNREACHABLE (the box, or every
    leaf of some tree in it, costs more than the budget), ENUMERATED (one move fits the budget, and none is an attack;
    if it may) or OPEN. The search gives up when a sweep does less than a share ``patience`` of what is missing.
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
    worth, peak = np.empty(leaves.node.shape[0]), np.empty(leaves.scope.shape[0] + n_rules)
    scratch = np.empty(cells.top.shape[0], np.int64)
    span, gain = 1.0, 0.0
    for t in range(leaves.tree.shape[0]):
        own = smallest = largest = contest.lead[leaves.first[t]]
        for k in range(leaves.first[t], leaves.first[t + 1]):
            smallest, largest = min(smallest, contest.lead[k]), max(largest, contest.lead[k])
        span += 2.0 * (largest - smallest)
        gain += largest - own
    if contest.budget > 0 and tables.price[0] == 0.0:
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

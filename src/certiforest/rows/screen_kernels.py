"""The screen: whether what a row is predicted is beyond the attacker's reach, and what a change costs.

Against a rival class, a leaf is worth what it adds to the rival's lead over the predicted class; a vote is a score of
one. Where no two trees share a feature that the attacker can move across thresholds of both, each tree can be sent to
its worst leaf (L-inf), or to leaves that share a budget (the other norms, see `knapsack_kernels`). Sums in floats
decide where they are further from a tie than rounding can take them; else digits do, or the row is left open.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy import ndarray

from certiforest.attack.reach_kernels import (
    claim,
    descend,
    difference,
    list_leaves,
    new_priced_nodes,
    other_side_is_near,
)
from certiforest.compiled import kernel
from certiforest.ensemble.score_kernels import Scores, add_up, exact_sign
from certiforest.rows.knapsack_kernels import (
    OPEN,
    YES,
    Demand,
    ParetoLeaves,
    buy_greedily,
    can_buy,
    list_steps,
    most_gain,
    sort_by,
)
from certiforest.rows.push_kernels import falls_to_push

# BORDERLINE is unknown because of rounding alone, UNFINISHED because it takes more work.
STABLE, UNSTABLE, UNKNOWN, BORDERLINE, UNFINISHED = 1, 0, -1, 2, 3


class Stakes(NamedTuple):
    """What decides.

    Attributes
    ----------
    scores : Scores
    margin : float
        If above zero, leads that are not beyond it on either side leave a row UNKNOWN.
    span, reach : ndarray of float64, shape (n_trees,)
        The most that a tree can change any lead by, and the most that it can take from one.
    favourite : ndarray of int64, shape (n_values,)
        The class of the largest score of each value of a leaf.
    ahead : ndarray of float64, shape (n_values,)
        By how much it is the largest.
    base_ahead : ndarray of float64, shape (n_classes,)
        By how much the base of each class is, which may be less than nothing.
    enough : float
        What is beyond this cannot be taken by all trees together.
    few : float
        The most that as many trees can take as the attacker can move at all: for norm 0 where trees cannot meet, else
        inf.
    unclaimed : ndarray of int64, shape (n_features,) or (0,)
        For `claim`; empty if no trees can meet.
    push : ndarray of float64, shape (n_classes, n_features) or (0, 0)
        See `falls_to_push`; empty if nothing is pushed.
    lowest, highest : ndarray of float64, shape (n_nodes, n_classes) or (0, n_classes)
        The ends of what leaves below each node are worth to a class, for `rate_kernels`; empty where that is not used.
    """

    scores: Scores
    margin: float
    span: ndarray
    reach: ndarray
    favourite: ndarray
    ahead: ndarray
    base_ahead: ndarray
    enough: float
    few: float
    unclaimed: ndarray
    push: ndarray
    lowest: ndarray
    highest: ndarray


class RowState(NamedTuple):
    """Room for what is known of one row.

    What trees say and whether they have splits near the row's path (n_trees,), the sums of all classes (n_classes,),
    the rivals of the predicted one and its leads over them (n_classes - 1,), which tree claims a feature, and what
    trees say if the row is pushed (n_trees,).
    """

    pick: ndarray
    is_near: ndarray
    total: ndarray
    rival: ndarray
    lead: ndarray
    owner: ndarray
    pushed: ndarray


@kernel
def new_row_state(stakes):
    """Return room for the rows of a block."""
    n_trees, n_classes = stakes.span.shape[0], stakes.base_ahead.shape[0]
    return RowState(
        np.empty(n_trees, np.int64), np.empty(n_trees, np.bool_), np.empty(n_classes),
        np.empty(n_classes - 1, np.int64), np.empty(n_classes - 1), stakes.unclaimed.copy(),
        np.empty(n_trees, np.int64),
    )  # fmt: skip


@kernel
def walk(trees, x, near, stakes, order, row_state):
    """Send a row down the trees until it is clear what they say; return the class that nobody can change, or -1.

    A tree with no split near the row's path says what it says, whatever the attacker does. As soon as such trees are
    ahead for one class by more than all others could take from it (with votes: as soon as they hold the majority), the
    row is stable. Otherwise ``pick`` and ``is_near`` of the `RowState` are what leaves say, and which trees have splits
    near the path; nearness as in `reach_kernels.descend`. ``order`` is a `VisitOrder`, which notes how often each tree
    was visited, and how often it had such splits.
    """
    # Arrays have names of their own: those of a tuple are counted anew where they are used.
    place, moved = order
    reach, favourite, ahead, enough = stakes.reach, stakes.favourite, stakes.ahead, stakes.enough
    tree_start, stride, leaf = trees.tree_start, trees.stride, trees.leaf
    feature, threshold, right = trees.feature, trees.threshold, trees.right
    pick, is_near_of, total = row_state.pick, row_state.is_near, row_state.total
    for c in range(total.shape[0]):
        total[c] = stakes.base_ahead[c]
    for tree in place:
        node, is_near = np.uint32(tree_start[tree]), False
        while right[node] != node:
            for _ in range(stride[tree]):
                value, v = x[feature[node]], threshold[node]
                is_near |= abs(value - v) <= near[feature[node]]
                node = np.uint32(node + 1) if value <= v else right[node]
        row = leaf[node]
        c = favourite[row]
        pick[tree], is_near_of[tree] = row, is_near
        moved[tree, 0] += 1
        moved[tree, 1] += is_near
        total[c] += 0.0 if is_near else ahead[row] + reach[tree]  # the processor need not guess
        if total[c] > enough:
            return c
    return -1


@kernel
def find_ends(trees, value, lowest, highest):
    """Write the least and the most that leaves below each node are worth to a class, (n_nodes, n_classes) each."""
    for node in range(trees.right.shape[0] - 1, -1, -1):
        right = np.int64(trees.right[node])
        for c in range(value.shape[1]):
            lowest[node, c] = highest[node, c] = value[trees.leaf[node], c]
            if right != node:
                lowest[node, c] = min(lowest[node + 1, c], lowest[right, c])
                highest[node, c] = max(highest[node + 1, c], highest[right, c])


@kernel
def open_row(stakes, row_state):
    """Return the predicted class of a row after its `walk`, its smallest lead, and the most that near trees can take.

    Rivals and leads are filled in, and no feature is claimed.
    """
    pick, is_near, total, rival, lead, owner, _ = row_state
    y = add_up(stakes.scores, pick, total)
    least, most, k = math.inf, 0.0, 0
    for c in range(total.shape[0]):
        if c != y:
            rival[k], lead[k] = c, total[y] - total[c]
            least = min(least, lead[k])
            k += 1
    for tree in range(pick.shape[0]):
        if is_near[tree]:
            most += stakes.span[tree]
    for f in range(owner.shape[0]):
        owner[f] = stakes.unclaimed[f]
    return y, least, most


@kernel
def is_worth_more(value, row, other, rival, y):
    """Compare what two leaves are worth, exactly, where their worths round to the same float."""
    return difference(value[row, rival], value[row, y])[1] > difference(value[other, rival], value[other, y])[1]


@kernel
def decide_within_box(trees, X, budgets, stakes, order, out_prediction, out_stable):
    """Decide every row against an L-inf attacker.

    Trees that meet leave a row UNKNOWN, unless it withstands each tree at its worst.
    """
    (value, digit, slack, step), margin, span, reach = stakes[:4]
    feature, threshold, right, leaf = trees.feature, trees.threshold, trees.right, trees.leaf
    pick, is_near, _, rival, lead, owner, _ = row_state = new_row_state(stakes)
    n_trees, n_rivals, watch, band = span.shape[0], rival.shape[0], owner.shape[0] > 0, slack + margin
    stack = np.empty(feature.shape[0] + 1, np.int64)
    worst, worth = np.empty((n_rivals, n_trees), np.int64), np.empty(n_rivals)
    for i in range(X.shape[0]):
        x = X[i]
        winner = walk(trees, x, budgets.near, stakes, order, row_state)
        out_prediction[i], out_stable[i] = winner, STABLE
        if winner >= 0:
            continue
        y, own_lead, rest = open_row(stakes, row_state)
        out_prediction[i] = y
        is_stable, meet = own_lead - rest > band, False
        if is_stable:
            continue
        if stakes.push.shape[0] > 0 and falls_to_push(trees, x, budgets, stakes.push[y], stakes.scores, row_state, y):
            out_stable[i] = UNSTABLE
            continue
        for k in range(n_rivals):
            for tree in range(n_trees):
                worst[k, tree] = pick[tree]
        for tree in order.place:
            if not is_near[tree]:
                continue
            own = pick[tree]
            for k in range(n_rivals):
                worth[k] = value[own, rival[k]] - value[own, y]
                lead[k] += worth[k]
            _, depth = descend(trees, trees.tree_start[tree], trees.stride[tree], x, budgets.near, stack, 0)
            while depth > 0:
                depth -= 1
                node = stack[depth]
                f, v = feature[node], threshold[node]
                side = 0 if x[f] > v else 1
                if not other_side_is_near(x[f], v, trees.above[node], budgets.rounded[side, f], budgets.rest[side, f]):
                    continue
                if watch and claim(owner, f, tree):
                    meet = True
                node = right[node] if x[f] <= v else node + 1
                node, depth = descend(trees, node, 1, x, budgets.near, stack, depth)
                row = leaf[node]
                if row == own:
                    continue
                least = math.inf
                for k in range(n_rivals):
                    new = value[row, rival[k]] - value[row, y]
                    if new > worth[k] or (
                        new == worth[k] and step == 0.0 and is_worth_more(value, row, worst[k, tree], rival[k], y)
                    ):
                        worth[k], worst[k, tree] = new, row
                    least = min(least, worth[k])
                if least >= reach[tree] and step > 0.0 and not watch:
                    break  # no leaf is worth more to anyone
            least = math.inf
            for k in range(n_rivals):
                lead[k] -= worth[k]
                least = min(least, lead[k])
            rest -= span[tree]
            is_stable = least - rest > band
            if is_stable or (meet and least < -band):  # neither is any more for the screen to decide
                break
        if is_stable:
            continue
        is_broken = is_unsure = False
        for k in range(n_rivals):
            if lead[k] > band:
                continue
            if margin > 0.0:
                is_certain = lead[k] < -band and own_lead > band
                is_broken |= is_certain
                is_unsure |= not is_certain
                continue
            sign = -1 if lead[k] < -band else exact_sign(digit, worst[k], y, rival[k])
            is_broken |= sign < 0 or (sign == 0 and rival[k] < y)
        if is_broken and not meet:
            out_stable[i] = UNSTABLE
        else:
            out_stable[i] = UNKNOWN if is_broken or is_unsure else STABLE


@kernel
def needs_of(lead, band, step, margin, wins_ties):
    """Return less than what is surely too little for a rival to gain, and what is surely enough."""
    if step > 0.0 and margin == 0.0:  # sums are exact
        need = step * (np.ceil(lead / step) if wins_ties else np.floor(lead / step) + 1.0)
        return need, need
    return lead - band, lead + band


@kernel
def list_pareto_leaves(value, leaf, node, cost, start, y, rival, out):
    """Keep, of the leaves of each tree, those that gain more for the rival than every cheaper one.

    Leaves of the k-th tree, sorted by cost, are ``start[k, 0]:start[k + 1, 0]``, the value of the row's own leaf is
    ``start[k, 1]``. Trees that have nothing to offer are left out. ``out`` has room for all nodes.
    """
    n = n_trees = 0
    out.start[0] = 0
    for k in range(start.shape[0] - 1):
        best = 0.0
        for place in range(start[k, 0], start[k + 1, 0]):
            row = leaf[node[place]]
            gain = (value[row, rival] - value[row, y]) - (value[start[k, 1], rival] - value[start[k, 1], y])
            if gain > best:
                if n > out.start[n_trees] and cost[place] == out.cost[n - 1]:
                    n -= 1  # the same cost, and more gain
                out.cost[n], out.gain[n] = cost[place], gain
                best = gain
                n += 1
        n_trees += n > out.start[n_trees]
        out.start[n_trees] = n
    return ParetoLeaves(out.cost[:n], out.gain[:n], out.start[: n_trees + 1])


@kernel
def weigh_rival(leaves, limit, slack, low, high, band, room, work):
    """Tell whether a rival can gain what it needs within the limit: STABLE, UNSTABLE, BORDERLINE or UNFINISHED.

    ``slack`` bounds errors of costs, ``band`` those of gains: less than ``low`` is surely too little, and ``high``
    surely enough. ``room`` and ``work`` are those of `can_buy`.
    """
    steps = list_steps(leaves)
    if most_gain(steps, limit + 2.0 * slack) < low - band:
        return STABLE
    if buy_greedily(steps, limit - slack, high) >= high:
        return UNSTABLE
    answer = can_buy(leaves, steps, Demand(limit + slack, low, slack, band), room, work)
    if answer == YES:
        answer = can_buy(leaves, steps, Demand(limit - slack, high, slack, band), room, work)
        return UNSTABLE if answer == YES else UNFINISHED if answer == OPEN else BORDERLINE
    return UNFINISHED if answer == OPEN else STABLE


@kernel
def decide_by_price(trees, X, allowance, stakes, order, effort, out_prediction, out_stable):
    """Decide every row against an attacker whose costs add up.

    A row is BORDERLINE if rounding decides, UNFINISHED if ``effort``, room and work of `can_buy`, does not suffice.
    """
    budgets, _, _, limit, slack = allowance  # slack bounds errors of costs, that of scores those of their sums
    (value, _, gain_slack, step), margin, span = stakes[:3]
    pick, is_near, _, rival, lead, owner, _ = row_state = new_row_state(stakes)
    n_nodes, n_trees, n_rivals, band = trees.feature.shape[0], span.shape[0], rival.shape[0], gain_slack + margin
    stack, found = new_priced_nodes(trees), new_priced_nodes(trees)
    node, cost = found.node, found.cost
    start = np.empty((n_trees + 1, 2), np.int64)  # of the leaves of each tree, and the score row of its own
    safe_lead = np.empty(n_rivals)  # leads if each tree had the whole budget
    scratch = ParetoLeaves(np.empty(n_nodes), np.empty(n_nodes), np.empty(n_trees + 1, np.int64))
    for i in range(X.shape[0]):
        x = X[i]
        winner = walk(trees, x, budgets.near, stakes, order, row_state)
        out_prediction[i], out_stable[i] = winner, STABLE
        if winner >= 0:
            continue
        y, own_lead, rest = open_row(stakes, row_state)
        out_prediction[i] = y
        is_stable, meet = own_lead - min(rest, stakes.few) > band, False
        if is_stable:
            continue
        for k in range(n_rivals):
            safe_lead[k] = lead[k]
        n = n_near = 0
        for tree in range(n_trees):
            if not is_near[tree]:
                continue
            start[n_near, 0], start[n_near, 1] = n, pick[tree]
            first = n
            n, meets = list_leaves(trees, tree, x, allowance, owner, stack, found, n)
            meet |= meets
            least = math.inf
            for k in range(n_rivals):
                worth = value[pick[tree], rival[k]] - value[pick[tree], y]
                best = worth
                for place in range(first + 1, n):
                    row = trees.leaf[node[place]]
                    best = max(best, value[row, rival[k]] - value[row, y])
                safe_lead[k] -= best - worth
                least = min(least, safe_lead[k])
            n_near += 1
            rest -= span[tree]
            is_stable = least - rest > band
            if is_stable or (meet and least <= band):
                break
        if is_stable:
            continue
        start[n_near, 0] = n
        for k in range(n_near if not meet else 0):
            sort_by(cost, node, start[k, 0], start[k + 1, 0])
        for k in range(n_rivals):
            if safe_lead[k] > band:
                continue
            if meet:
                out_stable[i] = UNKNOWN
                break
            low, high = needs_of(lead[k], band, step, margin, rival[k] < y)
            leaves = list_pareto_leaves(value, trees.leaf, node, cost, start[: n_near + 1], y, rival[k], scratch)
            answer = weigh_rival(leaves, limit, slack, low, high, band, *effort)
            if answer == UNSTABLE and (margin == 0.0 or own_lead > band):
                out_stable[i] = UNSTABLE
                break
            if answer != STABLE:
                out_stable[i] = max(out_stable[i], BORDERLINE if answer == UNSTABLE else answer)

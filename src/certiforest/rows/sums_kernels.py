"""Put scores together: whether the sums of a row can be turned within the attacker's reach.

Against a rival class, a leaf is worth what it adds to the rival's lead over the predicted class. Where no two trees
meet, each tree can be sent to its worst leaf (L-inf), or to leaves that share a budget (the other norms, see
`knapsack_kernels`). Sums in floats decide where they are further from a tie than rounding can take them; else digits
do, or the row is left to a closer look.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy import ndarray

from certiforest.attack.reach_kernels import claim, descend, enter_leaf, list_leaves, other_side_is_near
from certiforest.attack.rounding_kernels import difference
from certiforest.compiled import kernel
from certiforest.ensemble.score_kernels import Scores, exact_sign, find_winner
from certiforest.rows.knapsack_kernels import Fronts, HullSteps, buy_greedily, list_steps, most_gain, sort_steps
from certiforest.rows.votes_kernels import BORDERLINE, STABLE, UNKNOWN, UNSTABLE


class Scoring(NamedTuple):
    """What decides: ``scores`` are `Scores`, ``span`` (n_trees,) bounds what a tree can change any lead by.

    With a ``margin`` above zero, leads that are not beyond it on either side leave a row UNKNOWN.
    """

    scores: Scores
    margin: float
    span: ndarray


class ListedLeaves(NamedTuple):
    """Leaves in reach of a row: those of tree ``t``, the row's own first, stand at ``start[t] : start[t + 1]``."""

    node: ndarray
    cost: ndarray
    start: ndarray


@kernel
def walk_row(trees, value, x, near, out_stack, out_start, out_chosen, out_total):
    """Send a row down all trees: add up its scores and note the splits near its path.

    Fills ``out_chosen`` (n_trees,) with rows of ``value`` and ``out_total`` (n_classes,) with their sums; the splits of
    tree ``t`` that are near stand in ``out_stack[out_start[t] : out_start[t + 1]]``. Nearness as in
    `reach_kernels.descend`.
    """
    n_classes = value.shape[1]
    out_total[:] = value[value.shape[0] - 1]
    depth = 0
    for tree in range(out_chosen.shape[0]):
        out_start[tree] = depth
        node, depth = descend(trees, trees.tree_start[tree], trees.stride[tree], x, near, out_stack, depth)
        row = trees.leaf[node]
        out_chosen[tree] = row
        for c in range(n_classes):
            out_total[c] += value[row, c]
    out_start[out_chosen.shape[0]] = depth


@kernel
def list_rivals(total, y, out_rival, out_lead):
    """Write every class but ``y``, and the lead of ``y`` over it; return the smallest lead."""
    least = math.inf
    k = 0
    for c in range(total.shape[0]):
        if c != y:
            out_rival[k] = c
            out_lead[k] = total[y] - total[c]
            least = min(least, out_lead[k])
            k += 1
    return least


@kernel
def sum_of_spans(span, start):
    """Return the most that trees with a split nearby can change a lead by."""
    total = 0.0
    for tree in range(span.shape[0]):
        if start[tree + 1] > start[tree]:
            total += span[tree]
    return total


@kernel
def keeps_lead(digit, chosen, start, worst, k, y, rival, pick):
    """Tell, exactly, whether ``y`` wins against a rival when every tree is in its worst leaf.

    ``worst[tree, k]`` holds the score row of that leaf for trees with a split nearby; others stay as ``chosen``.
    """
    for tree in range(chosen.shape[0]):
        pick[tree] = worst[tree, k] if start[tree + 1] > start[tree] else chosen[tree]
    sign = exact_sign(digit, pick, y, rival)
    return sign > 0 or (sign == 0 and y < rival)


@kernel
def decide_within_box(trees, X, budgets, scoring, unclaimed, out_prediction, out_stable):
    """Decide every row against an L-inf attacker.

    Trees that meet (see `unclaimed` in `votes_kernels`) leave a row UNKNOWN, unless it withstands each tree at its
    worst.
    """
    (value, digit, slack), margin, span = scoring
    n_trees, n_rivals = span.shape[0], value.shape[1] - 1
    stack = np.empty(2 * trees.feature.shape[0] + 2, np.int64)
    start = np.empty(n_trees + 1, np.int64)
    chosen = np.empty(n_trees, np.int64)
    pick = np.empty(n_trees, np.int64)
    total = np.empty(n_rivals + 1)
    rival = np.empty(n_rivals, np.int64)
    lead = np.empty(n_rivals)
    worst = np.empty((n_trees, n_rivals), np.int64)
    worth = np.empty(n_rivals)
    owner, watch = unclaimed.copy(), unclaimed.shape[0] > 0
    band = slack + margin
    for i in range(X.shape[0]):
        x = X[i]
        walk_row(trees, value, x, budgets.near, stack, start, chosen, total)
        y = find_winner(total, slack, digit, chosen)
        out_prediction[i] = y
        own_lead = list_rivals(total, y, rival, lead)
        rest = sum_of_spans(span, start)
        is_stable = own_lead - rest > band
        meet = False
        owner[:] = unclaimed
        for tree in range(n_trees):
            if is_stable:
                break
            if start[tree + 1] == start[tree]:
                continue
            # The visit goes on from the splits noted before, on top of the stack.
            own = chosen[tree]
            for k in range(n_rivals):
                worst[tree, k] = own
                worth[k] = value[own, rival[k]] - value[own, y]
                lead[k] += worth[k]
            bottom = start[n_trees]
            depth = bottom
            for place in range(start[tree], start[tree + 1]):
                stack[depth] = stack[place]
                depth += 1
            while depth > bottom:
                depth -= 1
                node = stack[depth]
                f, v = trees.feature[node], trees.threshold[node]
                side = 0 if x[f] > v else 1
                if not other_side_is_near(x[f], v, trees.above[node], budgets.rounded[side, f], budgets.rest[side, f]):
                    continue
                if watch and claim(owner, f, tree):
                    meet = True
                node = trees.right[node] if x[f] <= v else node + 1
                node, depth = descend(trees, node, 1, x, budgets.near, stack, depth)
                row = trees.leaf[node]
                for k in range(n_rivals):
                    new = value[row, rival[k]] - value[row, y]
                    if new > worth[k] or (new == worth[k] and is_worth_more(value, row, worst[tree, k], rival[k], y)):
                        worth[k] = new
                        worst[tree, k] = row
            least = math.inf
            for k in range(n_rivals):
                lead[k] -= worth[k]
                least = min(least, lead[k])
            rest -= span[tree]
            is_stable = least - rest > band
        if is_stable:
            out_stable[i] = STABLE
            continue
        is_broken = is_unsure = False
        for k in range(n_rivals):
            if lead[k] > band:
                continue
            if margin > 0.0:
                is_certain = lead[k] < -band and own_lead > band
                is_broken |= is_certain
                is_unsure |= not is_certain
            elif lead[k] < -band or not keeps_lead(digit, chosen, start, worst, k, y, rival[k], pick):
                is_broken = True
        if is_broken and not meet:
            out_stable[i] = UNSTABLE
        else:
            out_stable[i] = UNKNOWN if is_broken or is_unsure else STABLE


@kernel
def is_worth_more(value, row, other, rival, y):
    """Compare what two leaves are worth, exactly, where their worths round to the same float."""
    return difference(value[row, rival], value[row, y])[1] > difference(value[other, rival], value[other, y])[1]


@kernel
def enter_leaves(trees, leaf, z):
    """Move row ``z`` into a leaf of every tree."""
    for tree in range(leaf.shape[0]):
        enter_leaf(trees, tree, leaf[tree], z)


@kernel
def list_row(trees, x, allowance, stack, stack_cost, out):
    """List the leaves of every tree within the limit, see `reach_kernels.list_leaves`."""
    budgets, unit, norm, limit, slack = allowance
    nobody = np.empty(0, np.int64)
    n = 0
    for tree in range(out.start.shape[0] - 1):
        out.start[tree] = n
        n, _ = list_leaves(
            trees, tree, x, budgets, unit, norm, limit + slack, nobody, stack, stack_cost, n, out.node, out.cost
        )
    out.start[out.start.shape[0] - 1] = n


@kernel
def list_fronts(value, leaf, listed, y, rival, out):
    """Keep, of the leaves listed for each tree, those that gain more for the rival than every cheaper one.

    ``leaf`` (n_nodes,) holds score rows. Trees that have nothing to offer get no front. Return the number of fronts.
    """
    node, cost, start = listed
    out_cost, out_gain, out_start = out
    n = n_fronts = 0
    for tree in range(start.shape[0] - 1):
        own = leaf[node[start[tree]]]
        worth = value[own, rival] - value[own, y]
        out_start[n_fronts] = n
        best = 0.0
        order = np.argsort(cost[start[tree] : start[tree + 1]])
        for place in order:
            k = start[tree] + place
            row = leaf[node[k]]
            gain = (value[row, rival] - value[row, y]) - worth
            if gain > best:
                if n > out_start[n_fronts] and cost[k] == out_cost[n - 1]:
                    n -= 1  # the same cost, and more gain
                out_cost[n], out_gain[n] = cost[k], gain
                best = gain
                n += 1
        n_fronts += n > out_start[n_fronts]
    out_start[n_fronts] = n
    return n_fronts


@kernel
def weigh_rival(fronts, limit, need, slack, band, scratch, steps):
    """Tell whether a rival can gain what it needs within the limit: STABLE, UNSTABLE or, if unclear, BORDERLINE.

    ``slack`` bounds errors of costs, ``band`` those of gains. What comes after them is scratch, one entry per leaf.
    """
    n = list_steps(fronts, scratch, steps)
    order = sort_steps(steps.cost[:n], steps.gain[:n])
    if most_gain(steps, order, limit + 2.0 * slack) < need - 2.0 * band:
        return STABLE
    gained = buy_greedily(steps, order, fronts.start.shape[0] - 1, limit - slack, need + band)
    return UNSTABLE if gained >= need + band else BORDERLINE


@kernel
def decide_by_price(trees, X, allowance, scoring, unclaimed, out_prediction, out_stable):
    """Decide every row against an attacker whose costs add up.

    What neither bounds nor a greedy purchase can tell is BORDERLINE. The other arguments as in `decide_within_box`.
    """
    budgets, unit, norm, limit, slack = allowance  # slack bounds errors of costs, gain_slack those of sums of scores
    (value, digit, gain_slack), margin, span = scoring
    n_nodes = trees.feature.shape[0]
    n_trees, n_rivals = span.shape[0], value.shape[1] - 1
    stack = np.empty(n_nodes + 1, np.int64)
    stack_cost = np.empty(n_nodes + 1)
    near = np.empty(n_nodes + 1, np.int64)
    near_start = np.empty(n_trees + 1, np.int64)
    node = np.empty(n_nodes + 1, np.int64)
    cost = np.empty(n_nodes + 1)
    start = np.empty(n_trees + 1, np.int64)
    chosen = np.empty(n_trees, np.int64)
    total = np.empty(n_rivals + 1)
    rival = np.empty(n_rivals, np.int64)
    lead = np.empty(n_rivals)
    safe_lead = np.empty(n_rivals)  # what is left of the lead if every tree could spend the whole budget
    owner = unclaimed.copy()
    room = Fronts(np.empty(n_nodes), np.empty(n_nodes), np.empty(n_trees + 1, np.int64))
    steps = HullSteps(np.empty(n_nodes), np.empty(n_nodes), np.empty(n_nodes, np.int64))
    scratch = np.empty(n_nodes, np.int64)
    band = gain_slack + margin
    for i in range(X.shape[0]):
        x = X[i]
        walk_row(trees, value, x, budgets.near, near, near_start, chosen, total)
        y = find_winner(total, gain_slack, digit, chosen)
        out_prediction[i] = y
        own_lead = list_rivals(total, y, rival, lead)
        rest = sum_of_spans(span, near_start)
        is_stable = own_lead - rest > band
        meet = False
        owner[:] = unclaimed
        safe_lead[:] = lead
        n = n_near = 0
        for tree in range(n_trees):
            if is_stable:
                break
            if near_start[tree + 1] == near_start[tree]:
                continue
            start[n_near] = n
            n, meets = list_leaves(
                trees, tree, x, budgets, unit, norm, limit + slack, owner, stack, stack_cost, n, node, cost
            )
            meet |= meets
            least = math.inf
            for k in range(n_rivals):
                worth = value[chosen[tree], rival[k]] - value[chosen[tree], y]
                best = worth
                for place in range(start[n_near] + 1, n):
                    row = trees.leaf[node[place]]
                    best = max(best, value[row, rival[k]] - value[row, y])
                safe_lead[k] -= best - worth
                least = min(least, safe_lead[k])
            n_near += 1
            rest -= span[tree]
            is_stable = least - rest > band
        if is_stable:
            out_stable[i] = STABLE
            continue
        start[n_near] = n
        out_stable[i] = STABLE
        for k in range(n_rivals):
            if safe_lead[k] > band:
                continue
            if meet:
                out_stable[i] = UNKNOWN
                break
            listed = ListedLeaves(node, cost, start[: n_near + 1])
            n_fronts = list_fronts(value, trees.leaf, listed, y, rival[k], room)
            fronts = Fronts(room.cost, room.gain, room.start[: n_fronts + 1])
            answer = weigh_rival(fronts, limit, lead[k], slack, band, scratch, steps)
            if answer == UNSTABLE and (margin == 0.0 or own_lead > band):
                out_stable[i] = UNSTABLE
                break
            if answer != STABLE:
                out_stable[i] = BORDERLINE


@kernel
def cheapest_break(trees, scores, listed, order, y, rival, pick, out_leaf):
    """Return the least L-inf cost at which the rival overtakes ``y``, inf if it never does.

    ``order`` sorts the costs of the leaves listed. ``out_leaf`` (n_trees,) receives the leaf each tree is then in.
    ``pick`` (n_trees,) is scratch.
    """
    value, digit, slack = scores
    node, cost, start = listed
    n_trees = out_leaf.shape[0]
    base = value.shape[0] - 1
    lead = value[base, y] - value[base, rival]
    tree_of = np.empty(node.shape[0], np.int64)
    for tree in range(n_trees):
        own = node[start[tree]]
        out_leaf[tree] = own
        pick[tree] = trees.leaf[own]
        lead += value[pick[tree], y] - value[pick[tree], rival]
        tree_of[start[tree] : start[tree + 1]] = tree
    for place in order:  # from the nearest leaf outwards, each tree in the worst leaf so far
        tree = tree_of[place]
        row = trees.leaf[node[place]]
        new = value[row, rival] - value[row, y]
        old = value[pick[tree], rival] - value[pick[tree], y]
        if new > old or (new == old and is_worth_more(value, row, pick[tree], rival, y)):
            lead -= new - old
            pick[tree] = row
            out_leaf[tree] = node[place]
            if lead <= slack:
                sign = -1 if lead < -slack else exact_sign(digit, pick, y, rival)
                if sign < 0 or (sign == 0 and rival < y):
                    return cost[place]
    return math.inf

"""Rates: whether leaves that share a budget can gain what is needed, found without listing them all.

Let each unit of cost be charged at some rate, and every tree go to the leaf that is best for it then. What these leaves
gain after costs, and what the whole budget would be charged, is together no less than what leaves within the budget can
gain; at the right rate it is little more. Leaves that are best at one rate make a line over all rates, and the bound is
the highest of these lines: where one that spends too much (it falls) and one that spends too little meet, the next rate
is tried. Few leaves are visited for that, since it is known what all leaves below a node are worth at most.
"""

import numpy as np

from certiforest.attack.reach_kernels import crossing_cost, descend, new_priced_nodes, other_side_is_near
from certiforest.compiled import kernel
from certiforest.rows.screen_kernels import STABLE, UNFINISHED, UNSTABLE, needs_of, new_row_state, open_row, walk

# So many rates are tried. The first one is this share of what is needed, over the budget: from one on, none proves it.
MOST_RATES, FIRST_RATE = 24, 0.5


@kernel
def best_at_rate(trees, tree, x, allowance, stakes, classes, own, rate, stack):
    """Return what the leaf of a tree that is best at a rate gains beyond the row's own one, and what it costs.

    ``classes`` are the predicted one and the rival, ``own`` is what the row's leaf is worth; ``stack`` are
    `PricedNodes`.
    """
    y, rival = classes
    budgets, unit, norm, limit, slack = allowance
    value, lowest, highest = stakes.scores.value, stakes.lowest, stakes.highest
    node, best, gain, cost = trees.tree_start[tree], 0.0, 0.0, 0.0
    if highest[node, rival] - lowest[node, y] <= own:
        return gain, cost
    _, depth = descend(trees, node, trees.stride[tree], x, budgets.near, stack.node, 0)
    stack.cost[:depth] = 0.0
    while depth > 0:
        depth -= 1
        split, paid = stack.node[depth], stack.cost[depth]
        f, v, above = trees.feature[split], trees.threshold[split], trees.above[split]
        side = 0 if x[f] > v else 1
        node = np.int64(trees.right[split]) if side == 1 else split + 1
        most = highest[node, rival] - lowest[node, y] - own
        if most - rate * paid <= best:
            continue
        if not other_side_is_near(x[f], v, above, budgets.rounded[side, f], budgets.rest[side, f]):
            continue
        paid = crossing_cost(paid, x[f], v, above, trees.first[split], trees.high[split], unit[side, f], norm)
        if paid > limit + slack or most - rate * paid <= best:
            continue
        height = depth
        node, depth = descend(trees, node, 1, x, budgets.near, stack.node, depth)
        stack.cost[height:depth] = paid
        row = trees.leaf[node]
        more = value[row, rival] - value[row, y] - own
        if more - rate * paid > best:
            best, gain, cost = more - rate * paid, more, paid
    return gain, cost


@kernel
def weigh_at_rates(trees, x, allowance, stakes, classes, needs, row_state, stack):
    """Tell whether a rival can gain what it needs: STABLE, UNSTABLE, or UNFINISHED if rates do not tell.

    Less than the first of ``needs`` is surely too little, the second surely enough, the third what trees gain at most.
    """
    (low, high, most), value, span, is_near = needs, stakes.scores.value, stakes.span, row_state.is_near
    n, limit, budget = span.shape[0], allowance.limit - allowance.slack, allowance.limit + 2.0 * allowance.slack
    # By side, of the last two lines that meet: what each tree gains and costs, and all of them. One spends too much.
    gain, cost, total = np.zeros((2, n)), np.zeros((2, n)), np.zeros((2, 2))
    has_left, rate = False, FIRST_RATE * low / budget
    for _ in range(MOST_RATES):
        if not rate > 0.0:
            return UNFINISHED
        new_gain, new_cost, left = np.zeros(n), np.zeros(n), most
        # No term of the sum is larger than this, and none is rounded more often.
        enough = low - rate * budget - 2.0**-50 * (n + 8) * (most + rate * budget)
        for tree in range(n):
            if is_near[tree]:
                row = row_state.pick[tree]
                own = value[row, classes[1]] - value[row, classes[0]]
                g, c = best_at_rate(trees, tree, x, allowance, stakes, classes, own, rate, stack)
                new_gain[tree], new_cost[tree] = g, c
                left -= span[tree] - (g - rate * c)
                if left < enough:
                    return STABLE
        all_gain, all_cost = new_gain.sum(), new_cost.sum()
        if all_cost <= limit and all_gain >= high:
            return UNSTABLE
        side = 0 if all_cost > limit else 1
        if total[side, 0] == all_gain and total[side, 1] == all_cost:
            break
        gain[side], cost[side], total[side, 0], total[side, 1] = new_gain, new_cost, all_gain, all_cost
        has_left |= side == 0
        rate = (total[0, 0] - total[1, 0]) / (total[0, 1] - total[1, 1]) if has_left else 0.25 * rate
    # Where both meet, each tree may be on either side: as many spend more as the budget allows.
    for tree in range(n):
        more = cost[0, tree] - cost[1, tree]
        if gain[0, tree] > gain[1, tree] and total[1, 1] + more <= limit:
            total[1, 1] += more
            gain[1, tree], cost[1, tree] = gain[0, tree], cost[0, tree]
    return UNSTABLE if cost[1].sum() <= limit and gain[1].sum() >= high else UNFINISHED


@kernel
def decide_by_rate(trees, X, allowance, stakes, order, out_prediction, out_stable):
    """Decide rows against an attacker whose costs add up, where trees cannot meet; leave UNFINISHED what is close."""
    gain_slack, step, margin = stakes.scores.slack, stakes.scores.step, stakes.margin
    row_state, stack, band = new_row_state(stakes), new_priced_nodes(trees), gain_slack + margin
    for i in range(X.shape[0]):
        winner = walk(trees, X[i], allowance.budgets.near, stakes, order, row_state)
        out_prediction[i], out_stable[i] = winner, STABLE
        if winner >= 0:
            continue
        y, own_lead, rest = open_row(stakes, row_state)
        out_prediction[i] = y
        for k in range(row_state.rival.shape[0] if own_lead - min(rest, stakes.few) <= band else 0):
            rival, lead = row_state.rival[k], row_state.lead[k]
            low, high = needs_of(lead, band, step, margin, rival < y)
            answer = weigh_at_rates(
                trees, X[i], allowance, stakes, (y, rival), (low - band, high, rest), row_state, stack
            )
            if answer == UNSTABLE and (margin == 0.0 or own_lead > band):
                out_stable[i] = UNSTABLE
                break
            if answer != STABLE:
                out_stable[i] = UNFINISHED

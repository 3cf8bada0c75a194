"""One move: whether a row withstands any value of any one feature, which is all that norm 0 allows with a budget of 1.

Trees may meet. Behind the splits that a feature alone can turn, a leaf of a tree gains something while the feature has
a value between two ends; what all trees gain together is largest where one of these intervals begins.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy import ndarray

from certiforest.attack.reach_kernels import descend, other_side_is_near
from certiforest.compiled import kernel
from certiforest.problem.sorting_kernels import sort_by
from certiforest.rows.screen_kernels import BORDERLINE, STABLE, UNSTABLE, needs_of, new_row_state, open_row, walk


class Intervals(NamedTuple):
    """Where moving one feature takes a tree: arrays with room for all nodes of a model.

    If ``feature`` (n,) moves to a value from ``low`` to ``high`` (n,), both included, the tree ends in a leaf of the
    value ``after`` (n,) instead of ``before`` (n,). Intervals of a tree and a feature leave no gap.
    """

    feature: ndarray
    low: ndarray
    high: ndarray
    before: ndarray
    after: ndarray


@kernel
def new_intervals(size):
    """Return room for intervals."""
    return Intervals(
        np.empty(size, np.int64), np.empty(size), np.empty(size), np.empty(size, np.int64), np.empty(size, np.int64)
    )


@kernel
def list_intervals(trees, tree, x, budgets, own, stack, waiting, out, n):
    """Append the intervals of a tree, whose leaf has the value ``own``; return how many there are.

    ``stack`` (n_nodes + 1,) holds the splits on the row's path, ``waiting`` nodes beyond one of them.
    """
    feature, threshold, right = trees.feature, trees.threshold, trees.right
    _, depth = descend(trees, trees.tree_start[tree], trees.stride[tree], x, budgets.near, stack, 0)
    for split in stack[:depth]:
        f, v, above = feature[split], threshold[split], trees.above[split]
        side = 0 if x[f] > v else 1
        if not other_side_is_near(x[f], v, above, budgets.rounded[side, f], budgets.rest[side, f]):
            continue
        waiting.feature[0], waiting.low[0], waiting.high[0] = split + 1, trees.first[split], v
        if side == 1:
            waiting.feature[0], waiting.low[0], waiting.high[0] = right[split], above, trees.high[split]
        height = 1
        while height > 0:
            height -= 1
            node, low, high = waiting.feature[height], waiting.low[height], waiting.high[height]
            while right[node] != node:
                v = threshold[node]
                if feature[node] == f and v == v:
                    waiting.feature[height], waiting.low[height] = right[node], trees.above[node]
                    waiting.high[height] = high
                    height += 1
                    node, high = node + 1, v
                else:
                    node = node + 1 if x[feature[node]] <= v else np.int64(right[node])
            out.feature[n], out.low[n], out.high[n] = f, low, high
            out.before[n], out.after[n] = own, trees.leaf[node]
            n += 1
    return n


@kernel
def most_of_intervals(intervals, gain, chosen):
    """Return the most that chosen intervals gain together at one value."""
    n = chosen.shape[0]
    key, number = np.append(intervals.low[chosen], intervals.high[chosen]), np.arange(2 * n)
    sort_by(key, number, 0, 2 * n)  # what begins comes before what ends there
    total, most, began = 0.0, 0.0, False
    for i in range(2 * n):
        begins, is_beyond = number[i] < n, i > 0 and key[i] > key[i - 1]
        # The total is that of a value where all that begins there has begun and nothing that ends there has ended.
        if (began and is_beyond) if begins else (began or is_beyond):
            most = max(most, total)
        total += gain[chosen[number[i]]] if begins else -gain[chosen[number[i] - n]]
        began = begins
    return most


@kernel
def decide_by_one_move(trees, X, allowance, stakes, order, out_prediction, out_stable):
    """Decide every row against an attacker who moves one feature; a row is BORDERLINE if rounding decides."""
    value, step, margin = stakes.scores.value, stakes.scores.step, stakes.margin
    row_state, band, size = new_row_state(stakes), stakes.scores.slack + margin, trees.right.shape[0] + 1
    stack, waiting, found = np.empty(size, np.int64), new_intervals(size), new_intervals(size)
    gain, promised = np.empty(size), np.zeros(X.shape[1])
    for i in range(X.shape[0]):
        winner = walk(trees, X[i], allowance.budgets.near, stakes, order, row_state)
        out_prediction[i], out_stable[i] = winner, STABLE
        if winner >= 0:
            continue
        y, own_lead, rest = open_row(stakes, row_state)
        out_prediction[i] = y
        if own_lead - min(rest, stakes.few) > band:
            continue
        n = 0
        for tree in range(row_state.pick.shape[0]):
            if row_state.is_near[tree]:
                own = row_state.pick[tree]
                n = list_intervals(trees, tree, X[i], allowance.budgets, own, stack, waiting, found, n)
        for k in range(row_state.rival.shape[0]):
            rival, most, total = row_state.rival[k], 0.0, 0.0
            for j in range(n):
                before, after = found.before[j], found.after[j]
                gain[j] = (value[after, rival] - value[after, y]) - (value[before, rival] - value[before, y])
                promised[found.feature[j]] += max(gain[j], 0.0)
                total += abs(gain[j])
            low, high = needs_of(row_state.lead[k], band, step, margin, rival < y)
            rounding = 2.0**-52 * n * total if step == 0.0 else 0.0
            for j in range(n):
                f = found.feature[j]
                if promised[f] >= max(most, low - rounding):
                    most = max(most, most_of_intervals(found, gain, np.flatnonzero(found.feature[:n] == f)))
                promised[f] = -math.inf
            promised[:] = 0.0
            if most >= high + rounding and (margin == 0.0 or own_lead > band):
                out_stable[i] = UNSTABLE
                break
            if most >= low - rounding:
                out_stable[i] = BORDERLINE

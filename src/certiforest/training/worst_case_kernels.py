"""To which leaves of a tree the attacker can move each row, which of them is worst against each rival, and its loss.

A row of class y can be moved to some leaves of a tree. Against rival c it ends in the leaf where y's value exceeds
c's least; where moves cost, after the cost times the price of a unit of cost is added:

    leaf         3     8     9
    value y     .5    .1   -.2
    value c    -.4    .3   -.1
    y over c    .9   -.2   -.1        without costs the attacker chooses leaf 8 against c: the margin falls by .2
    cost        0.    2.    1.        at price .2: .9, .2, .1, and leaf 9 is the worst
"""

from typing import NamedTuple

import numpy as np

from certiforest.attack.reach_kernels import crossing_cost, other_side_is_near, successor
from certiforest.compiled import kernel

LARGEST_EXPONENT = 30.0
LOG_LOSS, EXPONENTIAL, SQUARED, ABSOLUTE = range(4)
LEAST_ERROR = 2.0**-6  # in slopes the absolute error is a parabola up to here: its kink at zero tells no way to go


class TreeSplits(NamedTuple):
    """The nodes of one tree; ``(low, high]`` is what the path above a split leaves to the feature that it tests.

    A split without threshold (NaN) sends all numbers right.
    """

    feature: np.ndarray  # (n_nodes,) int, -1 at leaves
    threshold: np.ndarray  # (n_nodes,) float64
    left: np.ndarray  # (n_nodes,) int
    right: np.ndarray  # (n_nodes,) int
    low: np.ndarray  # (n_nodes,) float64
    high: np.ndarray  # (n_nodes,) float64
    missing_left: np.ndarray  # (n_nodes,) bool


class Reach(NamedTuple):
    """How far one attacker moves rows: each feature for itself, and all of them together."""

    budgets: tuple  # see certiforest.attack.prices.Budgets
    unit: np.ndarray  # (2, n_features) float64, of moves down and up
    norm: int  # -1 for L-inf, whose moves cost nothing
    budget: float  # what all moves together may cost, as a sum of powers


class Reached(NamedTuple):
    """Row ``i`` can be moved to ``leaf[start[i]:start[i + 1]]`` at ``cost``, its own leaf first."""

    start: np.ndarray  # (n_rows + 1,) int64
    leaf: np.ndarray  # (start[-1],) int64
    cost: np.ndarray  # (start[-1],) float64


@kernel
def bound_splits(splits, has_missing, stack, parent):
    """Fill ``splits.low`` and ``splits.high``, and let parents skip splits of which one side is an empty box.

    If rows have missing values, such a split loses its threshold instead: missing values may still go to either side.
    ``stack`` and ``parent`` need one entry per node.
    """
    parent[0] = -1
    stack[0], n_waiting = 0, 1
    while n_waiting > 0:
        n_waiting -= 1
        node = stack[n_waiting]
        f = splits.feature[node]
        if f < 0:
            continue
        splits.low[node], splits.high[node] = -np.inf, np.inf
        below, above = node, parent[node]
        while above >= 0:
            if splits.feature[above] == f and splits.threshold[above] == splits.threshold[above]:
                if below == splits.left[above]:
                    splits.high[node] = min(splits.high[node], splits.threshold[above])
                else:
                    splits.low[node] = max(splits.low[node], splits.threshold[above])
            below, above = above, parent[above]
        above = parent[node]
        is_right = splits.low[node] >= splits.threshold[node]
        is_left = not is_right and splits.threshold[node] >= splits.high[node]
        if has_missing and (is_right or is_left):
            splits.threshold[node] = np.nan
            if is_left:
                splits.left[node], splits.right[node] = splits.right[node], splits.left[node]
                splits.missing_left[node] = not splits.missing_left[node]
        elif is_right or is_left:
            only = splits.right[node] if is_right else splits.left[node]
            if splits.left[above] == node:
                splits.left[above] = only
            else:
                splits.right[above] = only
            parent[only] = above
            stack[n_waiting] = only
            n_waiting += 1
            continue
        for child in (splits.left[node], splits.right[node]):
            parent[child] = node
            stack[n_waiting] = child
            n_waiting += 1


@kernel
def list_leaves_in_reach(splits, columns, is_held, reach, stack, stack_cost, out):
    """List the leaves that each row of some columns can reach into ``out``; return how many there are.

    Leaves beyond the length of the output are counted, not written. No box is empty (see `bound_splits`): for L-inf a
    leaf is in reach iff every split on its path is. A value that is missing stays where it is,
    and so does a row that is held.
    """
    n_leaves, capacity = 0, out.leaf.shape[0]
    is_free = reach.norm < 0
    for i in range(columns.shape[1]):
        out.start[i] = n_leaves
        stack[0], stack_cost[0], n_waiting = 0, 0.0, 1
        can_move = not is_held[i]
        while n_waiting > 0:
            n_waiting -= 1
            node, cost = stack[n_waiting], stack_cost[n_waiting]
            f = splits.feature[node]
            while f >= 0:  # go down on the row's own side and leave the other, if it is in reach, for later
                x, v = columns[f, i], splits.threshold[node]
                own, other, side = splits.left[node], splits.right[node], 1
                if not x <= v and (x == x or not splits.missing_left[node]):
                    own, other, side = other, own, 0
                rounded, rest = reach.budgets.rounded[side, f], reach.budgets.rest[side, f]
                if can_move and abs(x - v) <= rounded and other_side_is_near(x, v, successor(v), rounded, rest):
                    other_cost = cost
                    if not is_free:
                        first, last = successor(splits.low[node]), splits.high[node]
                        unit = reach.unit[side, f]
                        other_cost = crossing_cost(cost, x, v, successor(v), first, last, unit, reach.norm)
                    if other_cost <= reach.budget:
                        stack[n_waiting], stack_cost[n_waiting] = other, other_cost
                        n_waiting += 1
                node = own
                f = splits.feature[node]
            if n_leaves < capacity:
                out.leaf[n_leaves], out.cost[n_leaves] = node, cost
            n_leaves += 1
    out.start[columns.shape[1]] = n_leaves
    return n_leaves


@kernel
def worst_leaf(reached, i, own, rival, value, price):
    """Return the leaf in reach of row i that is worst for ``own`` against ``rival``, and how bad it is."""
    worst, least = -1, np.inf
    for j in range(reached.start[i], reached.start[i + 1]):
        leaf = reached.leaf[j]
        lead = value[leaf, own] - value[leaf, rival] + price * reached.cost[j]
        if lead < least:
            worst, least = leaf, lead
    return worst, least


@kernel
def add_worst_case(reached, value, class_index, prices, sign, margins):
    """Add (sign 1.0) or take away (-1.0) one tree's worst case at each price, ``margins`` (n_prices, n, n_classes)."""
    for k in range(prices.shape[0]):
        for i in range(margins.shape[1]):
            own = class_index[i]
            for c in range(margins.shape[2]):
                if c != own:
                    margins[k, i, c] += sign * worst_leaf(reached, i, own, c, value, prices[k])[1]


@kernel
def sum_leaf_weights(reached, class_index, weight, out):
    """Add the weight of each row to every leaf it can reach, ``out`` of shape (n_nodes, n_classes)."""
    for i in range(reached.start.shape[0] - 1):
        for j in range(reached.start[i], reached.start[i + 1]):
            out[reached.leaf[j], class_index[i]] += weight[i]


@kernel
def weigh_rivals(margin, own, kind, out):
    """Write how fast a row's loss falls with its margin against each rival; return the loss.

    The loss is ``log(1 + sum_c exp(-margin[c]))``, without the logarithm ``sum_c exp(-margin[c])``, or for sums that
    are to be numbers the square, or the size, of the error ``max_c -margin[c]`` (see `TrainingSet.target`).
    """
    if kind >= SQUARED:
        out[:] = 0.0
        worst = 1 if margin[1] < margin[2] else 2
        error = -margin[worst]
        out[worst] = 2.0 * error if kind == SQUARED else min(1.0, error / LEAST_ERROR)
        return error * error if kind == SQUARED else error
    total = 0.0
    for c in range(margin.shape[0]):
        out[c] = 0.0 if c == own else np.exp(min(LARGEST_EXPONENT, -margin[c]))
        total += out[c]
    if kind == EXPONENTIAL:
        return total
    for c in range(margin.shape[0]):
        out[c] /= 1.0 + total
    return np.log1p(total)


@kernel
def curvature_of(kind, slope, margin):
    """Return how fast the slope of a row's loss against one rival falls with the margin."""
    if slope == 0.0 or kind == EXPONENTIAL:
        return slope
    if kind == LOG_LOSS:
        return slope * (1.0 - slope)
    return 2.0 if kind == SQUARED else 1.0 / max(-margin, LEAST_ERROR)


@kernel
def sum_slopes(reached, value, margin, price, class_index, weight, kind, out):
    """Add up slope and curvature of the loss at each leaf and class for a tree's values; return the loss.

    ``margin`` is that of the other trees, ``price`` that of a unit of cost, (n_rows, n_classes) each; ``out`` is
    (2, n_nodes, n_classes).
    """
    n_classes = margin.shape[1]
    worst = np.empty(n_classes, np.int64)
    moved, slope = np.empty(n_classes), np.empty(n_classes)
    out_slope, out_curvature = out[0], out[1]
    loss = 0.0
    for i in range(margin.shape[0]):
        if weight[i] == 0.0:
            continue
        own = class_index[i]
        for c in range(n_classes):
            if c != own:
                worst[c], lead = worst_leaf(reached, i, own, c, value, price[i, c])
                moved[c] = margin[i, c] + lead
        loss += weight[i] * weigh_rivals(moved, own, kind, slope)
        for c in range(n_classes):
            if c != own:
                curvature = curvature_of(kind, slope[c], moved[c])
                out_slope[worst[c], own] -= weight[i] * slope[c]
                out_slope[worst[c], c] += weight[i] * slope[c]
                out_curvature[worst[c], own] += weight[i] * curvature
                out_curvature[worst[c], c] += weight[i] * curvature
    return loss


@kernel
def weigh_rows(margin, class_index, kind, out_loss, out_slope):
    """Write each row's loss, (n_rows,), and how fast it falls with the margin against each rival, as `weigh_rivals`."""
    for i in range(margin.shape[0]):
        out_loss[i] = weigh_rivals(margin[i], class_index[i], kind, out_slope[i])

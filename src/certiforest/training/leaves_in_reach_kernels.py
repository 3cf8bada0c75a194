"""List the leaves of a tree to which a row can be moved, and what moving it there costs."""

from typing import NamedTuple

import numpy as np

from certiforest.attack.reach_kernels import crossing_cost, other_side_is_near, successor
from certiforest.compiled import kernel


class Splits(NamedTuple):
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
def bound_splits(splits, root, has_missing, stack, parent):
    """Fill ``splits.low`` and ``splits.high``, and let parents skip splits of which one side is an empty box.

    If rows have missing values, such a split loses its threshold instead: missing values may still go to either side.
    ``stack`` and ``parent`` need one entry per node.
    """
    parent[root] = -1
    stack[0], n_waiting = root, 1
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
def list_leaves_in_reach(splits, root, X, is_held, reach, stack, stack_cost, out):
    """List the leaves below a root that each row can reach into ``out`` and return how many there are.

    Leaves beyond the length of the output are counted, not written. No box is empty (see `bound_splits`): for L-inf a
    leaf is in reach iff every split on its path is. A value that is missing stays where it is,
    and so does a row that is held.
    """
    n_leaves, capacity = 0, out.leaf.shape[0]
    is_free = reach.norm < 0
    for i in range(X.shape[0]):
        out.start[i] = n_leaves
        stack[0], stack_cost[0], n_waiting = root, 0.0, 1
        can_move = not is_held[i]
        while n_waiting > 0:
            n_waiting -= 1
            node, cost = stack[n_waiting], stack_cost[n_waiting]
            f = splits.feature[node]
            while f >= 0:  # go down on the row's own side and leave the other, if it is in reach, for later
                x, v = X[i, f], splits.threshold[node]
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
    out.start[X.shape[0]] = n_leaves
    return n_leaves

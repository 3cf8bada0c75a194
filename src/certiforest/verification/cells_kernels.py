"""The local problem of a row: the few values that matter near it, and what each leaf in reach allows.

The thresholds on a feature that the attacker can cross at the row cut what is in reach of it into cells. A leaf in
reach allows some cells of the features that its path tests and all cells of the others::

    feature 7      v = .2      v = .5
    cells        0     |    1     |     2          x in cell 1; the path "x[7] > .2" allows cells 1 to 2
"""

import math
from typing import NamedTuple

import numpy as np
from numpy import ndarray

from certiforest.attack.reach_kernels import crossing_cost, other_side_is_near, power
from certiforest.attack.rounding_kernels import successor
from certiforest.compiled import kernel

# The budget of a norm whose costs add up, in the whole numbers that prices are rounded down to.
BUDGET = 1 << 40


class Cells(NamedTuple):
    """The variables of a local problem and their cells, those of variable ``v`` at ``first[v]:first[v + 1]``.

    ``feature`` (n_variables,), ``own`` (n_variables,) the row's own cell; ``top`` (n_cells,) the largest value of a
    cell (inf for the last), ``value`` (n_cells,) its value nearest to the row, ``price`` (n_cells,) int64 what it costs
    at least to get there, in shares of a budget of `BUDGET` (L-inf: nothing).
    """

    feature: ndarray
    first: ndarray
    own: ndarray
    top: ndarray
    value: ndarray
    price: ndarray


class Leaves(NamedTuple):
    """The leaves in reach of the trees that have more than one, and what they allow.

    Leaves of the local tree ``t``, tree ``tree[t]`` of the ensemble, are ``node[first[t]:first[t + 1]]``. The variables
    it tests are its scope, ``scope[first_scope[t]:first_scope[t + 1]]``. Its own thresholds cut the cells of such a
    variable into segments, between which it tells no difference: those of place ``s`` in the scopes are numbered from
    ``first_segment[s]`` on, and ``g`` holds the cells ``begin[g]`` to ``end[g]``. Tables have a number for each.

    Leaf ``k`` has the rules ``first_rule[k]`` to ``first_rule[k + 1]``, sorted by place: a variable is in a segment
    from ``low`` to ``high``, or, where rules of one place follow one another, in one of any of them; anywhere if there
    is none. Trees that test variable ``v`` are ``tester[first_tester[v]:first_tester[v + 1]]``.
    """

    tree: ndarray
    first: ndarray
    node: ndarray
    first_rule: ndarray
    place: ndarray
    low: ndarray
    high: ndarray
    first_scope: ndarray
    scope: ndarray
    first_segment: ndarray
    begin: ndarray
    end: ndarray
    tester: ndarray
    first_tester: ndarray


@kernel
def list_leaves(
    trees, x, high, low, unit, norm, limit, stack, stack_cost, stack_turns, path, out_leaf, out_turn_end, out_turn
):
    """List the leaves that cost at most ``limit``, tree by tree, the row's own leaf first.

    The turns of a leaf are the splits on its path that the attacker can turn there, each as ``2 * split + side``, side
    1 for right. Turns of the k-th leaf end at ``out_turn_end[k]`` and begin where those of the leaf before end. Return
    how many leaves and turns there are; those beyond the length of the outputs are counted, not written.

    ``path`` holds the turns above the current node. A side that waits on the stack remembers how many of them are
    its own (``stack_turns``): what is visited before it only changes turns further down.
    """
    n_leaves = 0
    n_turns = 0
    for tree in range(trees.tree_start.shape[0] - 1):
        stack[0] = trees.tree_start[tree]
        stack_cost[0] = 0.0
        stack_turns[0] = 0
        depth = 1
        while depth > 0:
            depth -= 1
            node, cost, length = stack[depth], stack_cost[depth], stack_turns[depth]
            if length < 0:  # the other side of a split: its turn is not on the path yet
                length = ~length
                split = path[length] >> 1
                path[length] = 2 * split + (node == trees.right[split])
                length += 1
            while trees.right[node] != node:
                f, v = trees.feature[node], trees.threshold[node]
                value = x[f]
                own = node + 1 if value <= v else trees.right[node]
                if other_side_is_near(value, v, high[f], low[f]):
                    other = node + 1 if value > v else trees.right[node]
                    raised = crossing_cost(cost, value, v, trees.low[node], trees.high[node], unit[f], norm)
                    path[length] = 2 * node + (value > v)
                    if raised <= limit:
                        stack[depth] = other
                        stack_cost[depth] = raised
                        stack_turns[depth] = ~length
                        depth += 1
                    length += 1
                node = own
            if n_leaves < out_leaf.shape[0]:
                out_leaf[n_leaves] = node
                out_turn_end[n_leaves] = n_turns + length
            for k in range(length):
                if n_turns < out_turn.shape[0]:
                    out_turn[n_turns] = path[k]
                n_turns += 1
            n_leaves += 1
    return n_leaves, n_turns


@kernel
def list_cells(x, turn, rank, feature_of, value_of, unit, norm, cut_of):
    """Return the `Cells` that the splits turned by some leaf make.

    ``rank`` (n_nodes,) numbers the thresholds of the ensemble by feature and value, ``feature_of`` and ``value_of``
    tell them by rank. ``cut_of`` (n_ranks,) receives, for the ranks that occur, the cell whose top they are.
    """
    ranks = np.empty(turn.shape[0], np.int64)
    for i in range(turn.shape[0]):
        ranks[i] = rank[turn[i] >> 1]
    ranks.sort()
    n_cuts = n_variables = 0
    for i in range(ranks.shape[0]):
        if i == 0 or ranks[i] != ranks[i - 1]:
            n_variables += n_cuts == 0 or feature_of[ranks[i]] != feature_of[ranks[n_cuts - 1]]
            ranks[n_cuts] = ranks[i]
            n_cuts += 1
    n_cells = n_cuts + n_variables
    feature, first = np.empty(n_variables, np.int64), np.empty(n_variables + 1, np.int64)
    own = np.empty(n_variables, np.int64)
    top, value, price = np.empty(n_cells), np.empty(n_cells), np.zeros(n_cells, np.int64)
    cell = cut = 0
    for v in range(n_variables):
        f = feature_of[ranks[cut]]
        feature[v], first[v], own[v] = f, cell, -1
        above = -math.inf
        while True:
            is_last = cut == n_cuts or feature_of[ranks[cut]] != f
            top[cell] = math.inf if is_last else value_of[ranks[cut]]
            if x[f] > top[cell]:
                value[cell] = top[cell]
            elif own[v] < 0:
                own[v] = cell
                value[cell] = x[f]
            else:
                value[cell] = successor(above)
            if value[cell] != x[f]:
                price[cell] = whole_price(x[f], value[cell], unit[f], norm)
            cell += 1
            if is_last:
                break
            cut_of[ranks[cut]] = cell - 1
            above = top[cell - 1]
            cut += 1
    first[n_variables] = cell
    return Cells(feature, first, own, top, value, price)


@kernel
def whole_price(x, z, unit, norm):
    """Return the price of a move in shares of the budget, rounded down; ``unit`` is what the budget allows at most."""
    if norm == -1:
        return 0
    if norm == 0:
        return BUDGET // np.int64(unit)
    share = power(abs(z - x) / unit, norm) * (1.0 - 1e-12)
    return np.int64(min(share, 4.0) * BUDGET)


@kernel
def list_rules(leaf, turn_start, turn, first_leaf, rank, feature_of, cut_of, cells, variable_of):
    """Return the `Leaves` of a local problem.

    ``leaf``, ``turn_start``, ``turn`` and ``first_leaf`` come from `list_leaves`. ``variable_of`` (n_features,) is
    scratch.
    """
    n_variables = cells.feature.shape[0]
    for v in range(n_variables):
        variable_of[cells.feature[v]] = v
    n_trees = n_leaves = 0
    for t in range(first_leaf.shape[0] - 1):
        size = first_leaf[t + 1] - first_leaf[t]
        if size > 1:
            n_trees += 1
            n_leaves += size
    tree, first = np.empty(n_trees, np.int64), np.empty(n_trees + 1, np.int64)
    node, first_rule = np.empty(n_leaves, np.int64), np.empty(n_leaves + 1, np.int64)
    n_turns = turn.shape[0]
    place, low, high = np.empty(n_turns, np.int64), np.empty(n_turns, np.int64), np.empty(n_turns, np.int64)
    first_scope, scope = np.empty(n_trees + 1, np.int64), np.empty(n_turns, np.int64)
    place_of = np.full(n_variables, -1, np.int64)
    first_tester = np.zeros(n_variables + 1, np.int64)
    lowest, highest = np.empty(n_variables, np.int64), np.empty(n_variables, np.int64)
    n_scopes = n_rules = k = i = 0
    for t in range(first_leaf.shape[0] - 1):
        if first_leaf[t + 1] - first_leaf[t] < 2:
            continue
        tree[i], first[i], first_scope[i] = t, k, n_scopes
        for j in range(turn_start[first_leaf[t]], turn_start[first_leaf[t + 1]]):
            v = variable_of[feature_of[rank[turn[j] >> 1]]]
            if place_of[v] < first_scope[i]:
                place_of[v] = n_scopes
                scope[n_scopes] = v
                first_tester[v + 1] += 1
                n_scopes += 1
        for source in range(first_leaf[t], first_leaf[t + 1]):
            node[k], first_rule[k] = leaf[source], n_rules
            for s in range(first_scope[i], n_scopes):
                lowest[scope[s]], highest[scope[s]] = cells.first[scope[s]], cells.first[scope[s] + 1] - 1
            for j in range(turn_start[source], turn_start[source + 1]):
                cut = cut_of[rank[turn[j] >> 1]]
                v = variable_of[feature_of[rank[turn[j] >> 1]]]
                if turn[j] & 1:
                    lowest[v] = max(lowest[v], cut + 1)
                else:
                    highest[v] = min(highest[v], cut)
            for s in range(first_scope[i], n_scopes):
                v = scope[s]
                if lowest[v] > cells.first[v] or highest[v] < cells.first[v + 1] - 1:
                    place[n_rules], low[n_rules], high[n_rules] = s, lowest[v], highest[v]
                    n_rules += 1
            k += 1
        i += 1
    first[n_trees], first_scope[n_trees], first_rule[n_leaves] = k, n_scopes, n_rules
    first_segment, begin, end = cut_segments(cells, first, first_rule, place, low, high, first_scope, scope[:n_scopes])
    first_tester = np.cumsum(first_tester)
    filled = first_tester[:-1].copy()
    tester = np.empty(n_scopes, np.int64)
    for i in range(n_trees):
        for s in range(first_scope[i], first_scope[i + 1]):
            tester[filled[scope[s]]] = i
            filled[scope[s]] += 1
    return Leaves(
        tree, first, node, first_rule, place[:n_rules], low[:n_rules], high[:n_rules],
        first_scope, scope[:n_scopes], first_segment, begin, end, tester, first_tester,
    )  # fmt: skip


@kernel
def cut_segments(cells, first, first_rule, place, low, high, first_scope, scope):
    """Cut the cells of each tree's variables into segments, and let rules speak of these instead of cells."""
    n_cells = cells.top.shape[0]
    starts = np.full(n_cells + 1, -1, np.int64)  # starts[c] == s: a segment of place s starts at cell c
    number = np.empty(n_cells + 1, np.int64)  # number[c]: the segment of the current place that cell c is in
    first_segment = np.empty(scope.shape[0] + 1, np.int64)
    most = scope.shape[0] + 2 * place.shape[0]
    begin, end = np.empty(most, np.int64), np.empty(most, np.int64)
    n = 0
    for t in range(first.shape[0] - 1):
        rules = first_rule[first[t]], first_rule[first[t + 1]]
        for s in range(first_scope[t], first_scope[t + 1]):
            v = scope[s]
            first_segment[s] = n
            starts[cells.first[v]] = s
            for i in range(rules[0], rules[1]):
                if place[i] == s:
                    starts[low[i]] = s
                    if high[i] + 1 < cells.first[v + 1]:
                        starts[high[i] + 1] = s
            for c in range(cells.first[v], cells.first[v + 1]):
                if starts[c] == s:
                    begin[n] = c
                    n += 1
                number[c] = n - 1
                end[n - 1] = c
            for i in range(rules[0], rules[1]):
                if place[i] == s:
                    # A place is visited once, so that cells are not mistaken for segments.
                    low[i], high[i] = number[low[i]], number[high[i]]
    first_segment[scope.shape[0]] = n
    return first_segment, begin[:n], end[:n]

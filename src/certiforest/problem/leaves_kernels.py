"""The problem around one row: the leaves in reach of it, and which of its cells (see `cells_kernels`) each allows."""

from typing import NamedTuple

import numpy as np
from numpy import ndarray

from certiforest.attack.reach_kernels import crossing_cost, other_side_is_near
from certiforest.compiled import kernel
from certiforest.problem.cells_kernels import list_cells
from certiforest.problem.masks_kernels import next_bit, set_bit
from certiforest.problem.problem import Leaves
from certiforest.problem.sorting_kernels import sort_by


class Scratch(NamedTuple):
    """Scratch for one row after another.

    It has room for any path of a tree (``stack`` to ``path``), for some leaves and turns, for ranks (``cut_of``: the
    last cell below each that occurs) and for variables (``variable_of``: the place of each that occurs).
    """

    stack: ndarray
    stack_cost: ndarray
    stack_turns: ndarray
    path: ndarray
    leaf: ndarray
    turn_end: ndarray
    turn: ndarray
    cut_of: ndarray
    variable_of: ndarray


class Alternatives(NamedTuple):
    """What leaves allow, as in `Leaves`, but with conditions that speak of cells."""

    first: ndarray
    first_condition: ndarray
    place: ndarray
    low: ndarray
    high: ndarray
    first_scope: ndarray
    scope: ndarray


class LocalLeaves(NamedTuple):
    """The leaves in reach of a row, by tree, and their turns: splits on the path that can be turned there.

    Those of tree ``t`` are ``leaf[first_leaf[t]:first_leaf[t + 1]]``. The turns of leaf ``k``,
    ``turn[turn_start[k]:turn_start[k + 1]]``, are ``2 * split + side``, side 1 for right.
    """

    leaf: ndarray
    turn_start: ndarray
    turn: ndarray
    first_leaf: ndarray


@kernel
def list_around_row(trees, row, values, allowance, ranks, lists, scratch):
    """Return `Cells`, `Leaves`, the leaves of trees that have only one in reach, and scratch for the next row.

    ``row`` is as trees take it, ``values`` are those of all variables.
    """
    local, scratch = list_local_leaves(trees, row, allowance, scratch)
    return *list_what_they_allow(local, values, allowance, ranks, lists, scratch), scratch


@kernel
def list_what_they_allow(local, values, allowance, ranks, lists, scratch):
    """Return `Cells`, `Leaves` and the leaves of trees that have only one in reach, for `LocalLeaves`."""
    cells = list_cells(values, local.turn, ranks, allowance, lists, scratch.cut_of)
    leaves = list_conditions(local, ranks, cells, scratch)
    leaf, first_leaf = local.leaf, local.first_leaf
    n_trees = first_leaf.shape[0] - 1
    fixed = np.empty(n_trees - leaves.name.shape[0], np.int64)
    n = 0
    for t in range(n_trees):
        if first_leaf[t + 1] == first_leaf[t] + 1:
            fixed[n] = leaf[first_leaf[t]]
            n += 1
    return cells, leaves, fixed


@kernel
def new_scratch(trees, ranks, n_variables):
    """Return scratch for the rows of an ensemble."""
    size, n_leaves = trees.right.shape[0] + 1, 8 * (trees.tree_start.shape[0] - 1)
    return Scratch(
        np.empty(size, np.int64), np.empty(size), np.empty(size, np.int64), np.empty(size, np.int64),
        np.empty(n_leaves, np.int64), np.empty(n_leaves, np.int64), np.empty(8 * n_leaves, np.int64),
        np.empty(ranks.feature.shape[0], np.int64), np.empty(n_variables, np.int64),
    )  # fmt: skip


@kernel
def list_local_leaves(trees, x, allowance, scratch):
    """Return the `LocalLeaves` within an allowance, and scratch for the next row: larger if there was too little."""
    n_leaves, n_turns = visit_leaves(trees, x, allowance, scratch)
    if n_leaves > scratch.leaf.shape[0] or n_turns > scratch.turn.shape[0]:
        leaf, turn_end, turn = np.empty(n_leaves, np.int64), np.empty(n_leaves, np.int64), np.empty(n_turns, np.int64)
        stack, stack_cost, stack_turns, path, _, _, _, cut_of, variable_of = scratch
        scratch = Scratch(stack, stack_cost, stack_turns, path, leaf, turn_end, turn, cut_of, variable_of)
        visit_leaves(trees, x, allowance, scratch)
    leaf, turn_start = scratch.leaf[:n_leaves], np.zeros(n_leaves + 1, np.int64)
    for k in range(n_leaves):
        turn_start[k + 1] = scratch.turn_end[k]
    first_leaf, k = np.empty(trees.tree_start.shape[0], np.int64), 0
    for t in range(first_leaf.shape[0]):
        while k < n_leaves and leaf[k] < trees.tree_start[t]:
            k += 1
        first_leaf[t] = k
    return LocalLeaves(leaf, turn_start, scratch.turn[:n_turns], first_leaf), scratch


@kernel
def visit_leaves(trees, x, allowance, scratch):
    """Write leaves and turns, see `LocalLeaves`, as far as there is room; return how many there are.

    ``path`` holds the turns above the current node. A side that waits on the stack remembers how many of them are
    above it (``stack_turns``): what is visited before it only changes turns further down.
    """
    budgets, unit, norm, limit, slack = allowance
    stack, stack_cost, stack_turns, path, out_leaf, out_turn_end, out_turn, _, _ = scratch
    most = limit + slack
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
                here = node + 1 if value <= v else trees.right[node]
                above = trees.above[node]
                side = 0 if value > v else 1
                if other_side_is_near(value, v, above, budgets.rounded[side, f], budgets.rest[side, f]):
                    other = node + 1 if value > v else trees.right[node]
                    price = unit[side, f]
                    raised = crossing_cost(cost, value, v, above, trees.first[node], trees.high[node], price, norm)
                    path[length] = 2 * node + (value > v)
                    if raised <= most:
                        stack[depth] = other
                        stack_cost[depth] = raised
                        stack_turns[depth] = ~length
                        depth += 1
                    length += 1
                node = here
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
def list_conditions(local, ranks, cells, scratch):
    """Return the `Leaves` of a local problem but those that allow nothing, which holes and price lists make possible.

    ``local`` are `LocalLeaves`, ``scratch.cut_of`` comes from `list_cells`.
    """
    leaf, turn_start, turn, first_leaf = local
    cut_of, variable_of = scratch.cut_of, scratch.variable_of
    n_variables = cells.name.shape[0]
    for v in range(n_variables):
        variable_of[cells.name[v]] = v
    n_trees = n_leaves = 0
    for t in range(first_leaf.shape[0] - 1):
        size = first_leaf[t + 1] - first_leaf[t]
        if size > 1:
            n_trees += 1
            n_leaves += size
    tree, first = np.empty(n_trees, np.int64), np.empty(n_trees + 1, np.int64)
    node, first_condition = np.empty(n_leaves, np.int64), np.empty(n_leaves + 1, np.int64)
    n_turns = turn.shape[0]
    most = n_turns * (1 + ranks.most)  # every hole makes two conditions of one
    place, low, high = np.empty(most, np.int64), np.empty(most, np.int64), np.empty(most, np.int64)
    first_scope, scope = np.empty(n_trees + 1, np.int64), np.empty(n_turns, np.int64)
    place_of = np.full(n_variables, -1, np.int64)
    lowest, highest = np.empty(n_variables, np.int64), np.empty(n_variables, np.int64)
    leaf_of, places = np.full(n_variables, -1, np.int64), np.empty(n_variables, np.int64)  # that a leaf has turns of
    hole_of = np.full(cells.top.shape[0] + 1, -1, np.int64)  # hole_of[c] == source: cell c is a hole of this leaf
    n_scopes = n_conditions = k = i = 0
    for t in range(first_leaf.shape[0] - 1):
        if first_leaf[t + 1] - first_leaf[t] < 2:
            continue
        tree[i], first[i], first_scope[i] = t, k, n_scopes
        for j in range(turn_start[first_leaf[t]], turn_start[first_leaf[t + 1]]):
            v = variable_of[ranks.variable[turn[j] >> 1]]
            if place_of[v] < first_scope[i]:
                place_of[v] = n_scopes
                scope[n_scopes] = v
                n_scopes += 1
        for source in range(first_leaf[t], first_leaf[t + 1]):
            node[k], first_condition[k] = leaf[source], n_conditions
            n_places, has_holes = 0, False
            for j in range(turn_start[source], turn_start[source + 1]):
                split = turn[j] >> 1
                v = variable_of[ranks.variable[split]]
                if leaf_of[v] != source:
                    leaf_of[v] = source
                    lowest[v], highest[v] = cells.first[v], cells.first[v + 1] - 1
                    places[n_places] = place_of[v]
                    n_places += 1
                first_interval, last_interval = ranks.first[split], ranks.first[split + 1] - 1
                if first_interval == last_interval and ranks.upto[first_interval] < 0:  # a threshold, and no more
                    cut = cut_of[ranks.after[first_interval]]
                    if turn[j] & 1:
                        lowest[v] = max(lowest[v], cut + 1)
                    else:
                        highest[v] = min(highest[v], cut)
                    continue
                bottom, end = cells.first[v], cells.first[v + 1] - 1
                for interval in range(first_interval, last_interval + 1):
                    after, upto = ranks.after[interval], ranks.upto[interval]
                    start = bottom if after < 0 else cut_of[after] + 1
                    stop = end if upto < 0 else cut_of[upto]
                    if turn[j] & 1:  # neither below the interval, nor between it and the one before
                        has_holes |= forbid(bottom, start - 1, v, cells, lowest, highest, hole_of, source)
                        bottom = stop + 1
                    else:
                        has_holes |= forbid(start, stop, v, cells, lowest, highest, hole_of, source)
                if turn[j] & 1:
                    has_holes |= forbid(bottom, end, v, cells, lowest, highest, hole_of, source)
            is_possible = True
            sort_by(places, places, 0, n_places)
            for s in places[:n_places]:
                v, before, begin = scope[s], n_conditions, lowest[scope[s]]
                for c in range(lowest[v] if has_holes else highest[v] + 1, highest[v] + 1):
                    if hole_of[c] == source:
                        if begin < c:
                            place[n_conditions], low[n_conditions], high[n_conditions] = s, begin, c - 1
                            n_conditions += 1
                        begin = c + 1
                is_whole = begin == cells.first[v] and highest[v] == cells.first[v + 1] - 1
                if begin <= highest[v] and not is_whole:
                    place[n_conditions], low[n_conditions], high[n_conditions] = s, begin, highest[v]
                    n_conditions += 1
                is_possible &= is_whole or n_conditions > before
            if is_possible:
                k += 1
            else:
                n_conditions = first_condition[k]
        i += 1
    first[n_trees], first_scope[n_trees], first_condition[k] = k, n_scopes, n_conditions
    allowed = Alternatives(
        first, first_condition[: k + 1], place[:n_conditions], low[:n_conditions], high[:n_conditions], first_scope,
        scope[:n_scopes],
    )  # fmt: skip
    return in_segments(cells, tree, node[:k], allowed)


@kernel
def forbid(begin, stop, v, cells, lowest, highest, hole_of, source):
    """Take cells from what a leaf allows; tell whether they are holes, neither first nor last of the variable's."""
    if begin > stop:
        return False
    if begin == cells.first[v]:
        lowest[v] = max(lowest[v], stop + 1)
        return False
    if stop == cells.first[v + 1] - 1:
        highest[v] = min(highest[v], begin - 1)
        return False
    hole_of[begin : stop + 1] = source
    return True


@kernel
def in_segments(cells, name, node, allowed):
    """Return the `Leaves` of trees and leaves of some names, by what they allow; conditions are changed on the way."""
    first, first_condition, place, low, high, first_scope, scope = allowed
    n_cells = cells.top.shape[0]
    begins, number = np.zeros((n_cells >> 6) + 1, np.uint64), np.empty(n_cells + 1, np.int64)
    first_segment = np.empty(scope.shape[0] + 1, np.int64)
    most = scope.shape[0] + 2 * place.shape[0]
    begin, end = np.empty(most, np.int64), np.empty(most, np.int64)
    first_tester = np.zeros(cells.name.shape[0] + 1, np.int64)
    n = first_segment[0] = 0
    for t in range(first.shape[0] - 1):
        conditions = range(first_condition[first[t]], first_condition[first[t + 1]])
        for s in range(first_scope[t], first_scope[t + 1]):
            set_bit(begins, cells.first[scope[s]])
            first_segment[s + 1] = 1
        for i in conditions:  # a segment begins at cell c where bit c of ``begins`` is set
            s = place[i]
            first_segment[s + 1] += set_bit(begins, low[i])
            if high[i] + 1 < cells.first[scope[s] + 1]:
                first_segment[s + 1] += set_bit(begins, high[i] + 1)
        for s in range(first_scope[t], first_scope[t + 1]):
            first_tester[scope[s] + 1] += 1
            c, stop = cells.first[scope[s]], n + first_segment[s + 1]
            while n < stop:
                c = next_bit(begins, c)
                begins[c >> 6] &= ~(np.uint64(1) << np.uint64(c & 63))
                number[c], begin[n] = n, c
                if n > first_segment[s]:
                    end[n - 1] = c - 1
                n += 1
            end[n - 1] = cells.first[scope[s] + 1] - 1
            first_segment[s + 1] = n
        for i in conditions:
            s, after = place[i], high[i] + 1
            low[i] = number[low[i]]
            high[i] = (number[after] if after < cells.first[scope[s] + 1] else first_segment[s + 1]) - 1
    for v in range(1, first_tester.shape[0]):
        first_tester[v] += first_tester[v - 1]
    filled, tester = first_tester[:-1].copy(), np.empty(scope.shape[0], np.int64)
    for t in range(first.shape[0] - 1):
        for s in range(first_scope[t], first_scope[t + 1]):
            tester[filled[scope[s]]] = t
            filled[scope[s]] += 1
    return Leaves(
        name, first, node, first_condition, place.astype(np.int32), low.astype(np.int32), high.astype(np.int32),
        first_scope, scope, first_segment, begin[:n], end[:n], tester, first_tester,
    )  # fmt: skip

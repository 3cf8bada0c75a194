"""What a change of each row costs at least under L-inf, if each tree is moved on its own."""

import math
from typing import NamedTuple

import numpy as np
from numpy import ndarray

from certiforest.attack.reach_kernels import Allowance, enter_leaf, list_leaves, new_priced_nodes
from certiforest.compiled import kernel
from certiforest.ensemble.score_kernels import add_up, exact_sign
from certiforest.ensemble.tree_kernels import find_leaf
from certiforest.rows.knapsack_kernels import sort_by
from certiforest.rows.screen_kernels import is_worth_more


class NearLeaves(NamedTuple):
    """Leaves in reach of a row, from the nearest outwards: each one's node, L-inf cost and tree."""

    node: ndarray
    cost: ndarray
    tree: ndarray


@kernel
def gains_no_more(value, row, other, y):
    """Tell whether a leaf is worth no more than another one, to any rival, as far as floats tell."""
    for c in range(value.shape[1]):
        if value[row, c] - value[row, y] >= value[other, c] - value[other, y] and c != y and row != other:
            return False
    return True


@kernel
def list_near_leaves(trees, x, value, y, allowance, limit, stack, out):
    """Return `NearLeaves` of a row that cost at most ``limit`` and are worth more than cheaper ones of their tree.

    ``out``, with room for all nodes, holds them on the way.
    """
    allowance = Allowance(allowance.budgets, allowance.unit, allowance.norm, limit, 0.0)
    nobody, leaf, n = np.empty(0, np.int64), trees.leaf, 0
    for tree in range(trees.tree_start.shape[0] - 1):
        first = n
        end, _ = list_leaves(trees, tree, x, allowance, nobody, stack, out, n)
        own = leaf[out.node[first]]
        for k in range(first + 1, end):
            node, cost, is_useful = out.node[k], out.cost[k], not gains_no_more(value, leaf[out.node[k]], own, y)
            for other in range(first, n):
                if not is_useful:
                    break
                is_useful = out.cost[other] > cost or not gains_no_more(value, leaf[node], leaf[out.node[other]], y)
            if is_useful:
                out.node[n], out.cost[n], out.tree[n] = node, cost, tree
                n += 1
    near = NearLeaves(out.node[:n], out.cost[:n], out.tree[:n])
    order = np.arange(n)
    sort_by(near.cost, order, 0, n)
    return NearLeaves(near.node[order], near.cost, near.tree[order])


@kernel
def cheapest_break(leaf, scores, near, own, y, rival, below):
    """Return the least cost at which the rival overtakes ``y``, inf if that is not below a cost.

    Also return the leaf that each tree is then in; ``own`` (n_trees,) are the leaves of the row.
    """
    value, digit, slack, step = scores
    base = value.shape[0] - 1
    lead = value[base, y] - value[base, rival]
    reached, pick = own.copy(), leaf[own]
    for tree in range(own.shape[0]):
        lead += value[pick[tree], y] - value[pick[tree], rival]
    for k in range(near.node.shape[0]):  # each tree in the worst leaf so far
        if near.cost[k] >= below:
            break
        tree, row = near.tree[k], leaf[near.node[k]]
        new = value[row, rival] - value[row, y]
        old = value[pick[tree], rival] - value[pick[tree], y]
        if new > old or (new == old and step == 0.0 and is_worth_more(value, row, pick[tree], rival, y)):
            lead -= new - old
            reached[tree], pick[tree] = near.node[k], row
            if lead <= slack:
                sign = -1 if lead < -slack else exact_sign(digit, pick, y, rival)
                if sign < 0 or (sign == 0 and rival < y):
                    return near.cost[k], reached
    return math.inf, reached


@kernel
def composed_radii(trees, X, allowance, scores, out_radius, out_works):
    """Write the L-inf cost of each row's cheapest composed change, inf if there is none, and whether it works.

    The allowance has no limits where a move is allowed.
    """
    n_nodes, n_trees = trees.feature.shape[0], trees.tree_start.shape[0] - 1
    stack = new_priced_nodes(trees)
    room = NearLeaves(np.empty(n_nodes + 1, np.int64), np.empty(n_nodes + 1), np.empty(n_nodes + 1, np.int64))
    own, pick, total = np.empty(n_trees, np.int64), np.empty(n_trees, np.int64), np.empty(scores.value.shape[1])
    usual = math.inf
    for i in range(X.shape[0]):
        for tree in range(n_trees):
            own[tree] = find_leaf(trees, tree, X[i])
            pick[tree] = trees.leaf[own[tree]]
        y = add_up(scores, pick, total)
        out_radius[i], out_works[i] = math.inf, False
        limit, changed = usual, own
        while True:  # most leaves are much farther than what it takes for rows like those before
            near = list_near_leaves(trees, X[i], scores.value, y, allowance, limit, stack, room)
            for rival in range(total.shape[0]):
                if rival != y:
                    cost, reached = cheapest_break(trees.leaf, scores, near, own, y, rival, out_radius[i])
                    if cost < out_radius[i]:
                        out_radius[i], changed = cost, reached
            if out_radius[i] < math.inf or limit == math.inf:
                break
            limit = 4.0 * limit if limit < 16.0 * usual else math.inf
        if out_radius[i] < math.inf:
            usual = 2.0 * out_radius[i] if usual == math.inf else 0.875 * usual + 0.25 * out_radius[i]
            z = X[i].copy()
            for tree in range(n_trees):
                if changed[tree] != own[tree]:
                    enter_leaf(trees, tree, changed[tree], z)
            for tree in range(n_trees):
                pick[tree] = trees.leaf[find_leaf(trees, tree, z)]
            out_works[i] = add_up(scores, pick, total) != y

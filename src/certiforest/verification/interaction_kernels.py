"""What an attacker can do to a row: reachable leaves, the turns they ask for, and attacks found without a solver."""

import math

import numpy as np

from certiforest.attack.reach_kernels import crossing_cost, other_side_is_near, power
from certiforest.attack.rounding_kernels import successor
from certiforest.compiled import kernel
from certiforest.ensemble.tree_kernels import find_leaf

OPEN = -2  # a tree of a group that was too large to go through


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
def try_greedily(trees, x, leaf, turn_start, turn, first_leaf, gain, out_z):
    """Turn one tree after the other as long as their turns agree, and write the row that does it all.

    Leaves of tree t are ``first_leaf[t]:first_leaf[t + 1]`` and ``gain`` is what each is worth to the attacker. Trees
    whose cheapest turn moves fewest features come first. This is a guess: whether it is an attack is for the caller
    to find out.
    """
    n_trees = first_leaf.shape[0] - 1
    moves = np.zeros(leaf.shape[0], np.int64)
    for k in range(leaf.shape[0]):
        for i in range(turn_start[k], turn_start[k + 1]):
            split = turn[i] >> 1
            moves[k] += (x[trees.feature[split]] > trees.threshold[split]) != (turn[i] & 1)
    fewest = np.empty(n_trees)
    for t in range(n_trees):
        fewest[t] = math.inf
        for k in range(first_leaf[t], first_leaf[t + 1]):
            if gain[k] > 0:
                fewest[t] = min(fewest[t], moves[k])
    above = np.full(x.shape[0], -math.inf)  # z[f] must be above this
    below = np.full(x.shape[0], math.inf)  # and at most this
    for t in np.argsort(fewest):
        best = -1
        for k in range(first_leaf[t], first_leaf[t + 1]):
            if gain[k] <= 0:
                continue
            agrees = True
            for i in range(turn_start[k], turn_start[k + 1]):
                f, v = trees.feature[turn[i] >> 1], trees.threshold[turn[i] >> 1]
                if (turn[i] & 1 and below[f] <= v) or (not turn[i] & 1 and above[f] >= v):
                    agrees = False
                    break
            if agrees and (best < 0 or gain[k] > gain[best] or (gain[k] == gain[best] and moves[k] < moves[best])):
                best = k
        if best >= 0:
            for i in range(turn_start[best], turn_start[best + 1]):
                f, v = trees.feature[turn[i] >> 1], trees.threshold[turn[i] >> 1]
                if turn[i] & 1:
                    above[f] = max(above[f], v)
                else:
                    below[f] = min(below[f], v)
    for f in range(x.shape[0]):
        out_z[f] = x[f]
        if x[f] <= above[f]:
            out_z[f] = successor(above[f])
        elif x[f] > below[f]:
            out_z[f] = below[f]


@kernel
def solve_groups(trees, leaf, turn_start, turn, first_leaf, gain, n_steps, out_taken):
    """Find what small groups of trees gain at most, if all thresholds in reach can be crossed at once (L-inf).

    Trees are of one group if they ask for turns on the same feature on the ways to leaves that gain. ``out_taken[t]``
    is the leaf that tree t takes where its group gains most, -1 if it takes none; OPEN where ``n_steps`` leaves were
    tried in vain. Gains are whole numbers whose sum does not overflow.
    """
    n_trees = first_leaf.shape[0] - 1
    root = np.arange(n_trees)
    owner = np.full(trees.feature.max() + 2, -1)
    for t in range(n_trees):
        for k in range(first_leaf[t], first_leaf[t + 1]):
            if gain[k] > 0:
                for i in range(turn_start[k], turn_start[k + 1]):
                    f = trees.feature[turn[i] >> 1]
                    if owner[f] >= 0:
                        root[_find_root(root, owner[f])] = _find_root(root, t)
                    owner[f] = t
    for t in range(n_trees):
        root[t] = _find_root(root, t)
    order = np.argsort(root)
    above = np.full(owner.shape[0], -math.inf)  # z[f] must be above this
    below = np.full(owner.shape[0], math.inf)  # and at most this
    first = 0
    while first < n_trees:
        last = first + 1
        while last < n_trees and root[order[last]] == root[order[first]]:
            last += 1
        members = order[first:last]
        if not _solve_group(trees, turn_start, turn, first_leaf, gain, members, n_steps, above, below, out_taken):
            for t in members:
                out_taken[t] = OPEN
        first = last


@kernel
def _find_root(root, t):
    while root[t] != t:
        root[t] = root[root[t]]
        t = root[t]
    return t


@kernel
def _solve_group(trees, turn_start, turn, first_leaf, gain, members, n_steps, above, below, out_taken):
    """Go through the leaves of one tree after the other, the best first, as long as more may be gained than before.

    Return whether that ended within ``n_steps`` leaves.
    """
    n_members = members.shape[0]
    # Options of the d-th tree are option[start[d]:start[d + 1]], leaves that gain most first; the last takes no leaf.
    start = np.zeros(n_members + 1, np.int64)
    for d in range(n_members):
        start[d + 1] = start[d] + first_leaf[members[d] + 1] - first_leaf[members[d]] + 1
    option = np.empty(start[-1], np.int64)
    for d in range(n_members):
        begin, end = first_leaf[members[d]], first_leaf[members[d] + 1]
        option[start[d] : start[d + 1] - 1] = begin + np.argsort(-gain[begin:end])
        option[start[d + 1] - 1] = -1
    still = np.zeros(n_members + 1, np.int64)  # what the trees from the d-th on gain at most
    for d in range(n_members - 1, -1, -1):
        still[d] = still[d + 1] + max(0, gain[option[start[d]]])
    tried = start[:-1].copy()
    so_far = np.zeros(n_members + 1, np.int64)
    undo_start = np.zeros(n_members + 1, np.int64)
    undo_feature = np.empty(turn.shape[0], np.int64)
    undo_above, undo_below = np.empty(turn.shape[0]), np.empty(turn.shape[0])
    taken = np.full(n_members, -1)
    n_tried, best, n_undo, d = 0, -1, 0, 0
    while d >= 0:
        while n_undo > undo_start[d]:
            n_undo -= 1
            above[undo_feature[n_undo]], below[undo_feature[n_undo]] = undo_above[n_undo], undo_below[n_undo]
        k = option[tried[d]] if tried[d] < start[d + 1] else -1
        worth = max(0, gain[k]) if k >= 0 else 0
        if n_tried == n_steps or tried[d] == start[d + 1] or so_far[d] + worth + still[d + 1] <= best:
            d -= 1
            continue
        n_tried += 1
        tried[d] += 1
        agrees = True
        if worth > 0:
            for i in range(turn_start[k], turn_start[k + 1]):
                f, v = trees.feature[turn[i] >> 1], trees.threshold[turn[i] >> 1]
                undo_feature[n_undo], undo_above[n_undo], undo_below[n_undo] = f, above[f], below[f]
                n_undo += 1
                if turn[i] & 1:
                    above[f] = max(above[f], v)
                else:
                    below[f] = min(below[f], v)
                if above[f] >= below[f]:
                    agrees = False
                    break
        if not agrees:
            continue
        taken[d] = k if worth > 0 else -1
        if d == n_members - 1:
            best = so_far[d] + worth
            for e in range(n_members):
                out_taken[members[e]] = taken[e]
            continue
        so_far[d + 1] = so_far[d] + worth
        d += 1
        tried[d] = start[d]
        undo_start[d] = n_undo
    return n_tried < n_steps


@kernel
def climb(trees, x, feature, cut, cut_start, member, member_start, unit, norm, limit, worth, n_visits, z):
    """Move one feature at a time, as long as it is worth more and the budget lasts; ``z`` is where to start and end.

    Cuts of ``feature[i]`` are ``cut[cut_start[i]:cut_start[i + 1]]``, ascending, and ``member[member_start[f] :
    member_start[f + 1]]`` the trees that test feature f. ``worth`` (n_nodes,) is what leaves are worth. Costs as in
    `reach_kernels.raised_cost`, in floats: whether the result is an attack is for the caller to find out. After
    ``n_visits`` leaves there are no more moves.
    """
    n_trees = trees.tree_start.shape[0] - 1
    at = np.empty(n_trees)
    for t in range(n_trees):
        at[t] = worth[find_leaf(trees, t, z)]
    spent = 0.0
    if norm >= 0:
        for i in range(feature.shape[0]):
            spent += move_cost(x[feature[i]], z[feature[i]], unit[feature[i]], norm)
    for _ in range(64 + 2 * feature.shape[0]):  # gains that round to more than zero may lead round in circles
        improved = False
        best_rate, best_feature, best_value = 0.0, -1, 0.0
        for i in range(feature.shape[0]):
            f = feature[i]
            own = z[f]
            paid = 0.0 if norm < 0 else move_cost(x[f], own, unit[f], norm)
            best_gain, best = 0.0, own
            for cell in range(cut_start[i], cut_start[i + 1] + 1):
                # The value nearest to x that is above the cut before this cell, and not above the cut after it.
                value = x[f]
                if cell > cut_start[i] and value <= cut[cell - 1]:
                    value = successor(cut[cell - 1])
                if cell < cut_start[i + 1] and value > cut[cell]:
                    value = cut[cell]
                if value == own:
                    continue
                extra = 0.0 if norm < 0 else move_cost(x[f], value, unit[f], norm) - paid
                n_visits -= member_start[f + 1] - member_start[f]
                if n_visits < 0 or (norm >= 0 and spent + extra > limit):
                    continue
                z[f] = value
                gain = 0.0
                for k in range(member_start[f], member_start[f + 1]):
                    gain += worth[find_leaf(trees, member[k], z)] - at[member[k]]
                if norm < 0 and gain > best_gain:
                    best_gain, best = gain, value
                elif norm >= 0 and gain > 0.0 and gain / max(extra, 1e-12) > best_rate:
                    best_rate, best_feature, best_value = gain / max(extra, 1e-12), f, value
            z[f] = best
            if best != own:  # L-inf: nothing to save, so take it at once
                improved = True
                for k in range(member_start[f], member_start[f + 1]):
                    at[member[k]] = worth[find_leaf(trees, member[k], z)]
        if best_feature >= 0:
            improved = True
            f = best_feature
            spent += move_cost(x[f], best_value, unit[f], norm) - move_cost(x[f], z[f], unit[f], norm)
            z[f] = best_value
            for k in range(member_start[f], member_start[f + 1]):
                at[member[k]] = worth[find_leaf(trees, member[k], z)]
        if not improved or n_visits < 0:
            break


@kernel
def move_cost(x, z, unit, norm):
    """Return the cost of moving one feature."""
    if z == x:
        return 0.0
    return 1.0 if norm == 0 else power(abs(z - x) / unit, norm)

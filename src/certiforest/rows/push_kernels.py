"""Pushes: attacks by guess, in which each feature goes as far as it may, one way or the other.

Most rows that can be attacked at all fall to one of these, for little more than a prediction. In which direction a
feature goes is a guess; where the row comes to is found exactly, and so is what is predicted there.
"""

import math

import numpy as np

from certiforest.attack.reach_kernels import other_side_is_near
from certiforest.compiled import kernel
from certiforest.ensemble.score_kernels import add_up
from certiforest.problem.masks_kernels import set_bit
from certiforest.proof.ascent_kernels import copy

# How often leaves vote on where features of a row go, and how many of these may turn round.
MOST_VOTES, MOST_TURNS = 2, 16


@kernel
def find_lean(trees, value, out):
    """Write what going right adds to the score of each class, by feature, to ``out`` (n_classes, n_features).

    That is the difference of what both sides of a split are worth, leaves being reached by tossing coins. Splits far
    down count as much as others: weighted by how many rows they see, they would break far fewer rows.
    """
    n_classes, most = value.shape[1], 1
    for tree in range(trees.tree_start.shape[0] - 1):
        most = max(most, trees.tree_start[tree + 1] - trees.tree_start[tree])
    mean = np.empty((most, n_classes))
    for tree in range(trees.tree_start.shape[0] - 1):
        start, end = trees.tree_start[tree], trees.tree_start[tree + 1]
        for node in range(end - 1, start - 1, -1):
            left, right = node + 1 - start, np.int64(trees.right[node]) - start
            for c in range(n_classes):
                if right == node - start:
                    mean[node - start, c] = value[trees.leaf[node], c]
                    continue
                mean[node - start, c] = 0.5 * (mean[left, c] + mean[right, c])
                if not math.isnan(trees.threshold[node]):
                    out[c, trees.feature[node]] += mean[right, c] - mean[left, c]


@kernel
def falls_to_push(trees, x, budgets, push, scores, row_state, y):
    """Tell whether a row changes its class if every feature goes as far as it may, away from class ``y``.

    ``push`` (n_features,) is how far that is, about: what budgets say decides where floats might not.
    """
    pick, is_near, total, _, _, _, pushed = row_state
    feature, threshold, right = trees.feature, trees.threshold, trees.right
    for tree in range(pick.shape[0]):
        pushed[tree] = pick[tree]
        if not is_near[tree]:
            continue
        node = np.uint32(trees.tree_start[tree])
        while right[node] != node:
            f, v = feature[node], threshold[node]
            z = x[f] + push[f]
            if abs(z - v) <= 1e-9 * abs(push[f]) + 1e-14 * abs(z) + 1e-300:
                value = x[f]
                side = 0 if value > v else 1
                is_turned = (
                    (push[f] > 0.0) == (value <= v)
                    and push[f] != 0.0
                    and other_side_is_near(value, v, trees.above[node], budgets.rounded[side, f], budgets.rest[side, f])
                )
                goes_left = (value <= v) != is_turned
            else:
                goes_left = z <= v
            node = np.uint32(node + 1) if goes_left else right[node]
        pushed[tree] = trees.leaf[node]
    return add_up(scores, pushed, total) != y


@kernel
def agree_on_push(trees, x, local, gain, need, toward):
    """Let leaves in reach of a row vote on where features go; tell whether leaves then gain what is needed.

    A leaf votes for its turns with what it gains beyond the least of its tree, at first; later with the less, the more
    of them go the other way. Then features turn round one by one, as long as that helps. ``local`` are `LocalLeaves`,
    ``gain`` (n_values,) is what values of leaves gain. ``toward`` (2, n_features) is zero at first; its first row
    receives the votes for going up less those for going down. Also return the chosen leaf of each tree.
    """
    leaf, turn_start, turn, first_leaf = local
    n_leaves, n_trees, vote, more = leaf.shape[0], first_leaf.shape[0] - 1, toward[0], toward[1]
    chosen, worth, hope = first_leaf[:-1].copy(), np.empty(n_leaves, np.int64), np.int64(0)
    column, n_against = np.empty(turn.shape[0], np.int64), np.zeros(n_leaves, np.int64)
    for k in range(n_leaves):
        worth[k] = gain[trees.leaf[leaf[k]]]
    for i in range(turn.shape[0]):
        column[i] = trees.feature[turn[i] >> 1]
    total = before = np.int64(-(2**62))
    for _ in range(MOST_VOTES):
        for i in range(turn.shape[0]):
            vote[column[i]] = 1e-9
        hope = np.int64(0)
        for t in range(n_trees):
            least = most = worth[first_leaf[t]]
            for k in range(first_leaf[t] + 1, first_leaf[t + 1]):
                least, most = min(least, worth[k]), max(most, worth[k])
            hope += most
            for k in range(first_leaf[t], first_leaf[t + 1]):
                if worth[k] > least:
                    weight = (worth[k] - least) / (1 << min(n_against[k], 40))
                    for i in range(turn_start[k], turn_start[k + 1]):
                        vote[column[i]] += weight if turn[i] & 1 else -weight
        if hope < need:
            return False, chosen
        total = np.int64(0)
        for t in range(n_trees):
            for k in range(first_leaf[t], first_leaf[t + 1]):
                n_against[k] = 0
                for i in range(turn_start[k], turn_start[k + 1]):
                    n_against[k] += (vote[column[i]] > 0.0) != (turn[i] & 1)
                if n_against[k] == 0:
                    chosen[t] = k
                    total += worth[k]
        if total >= need:
            return True, chosen
        if total <= before:
            break
        before = total
    for _ in range(MOST_TURNS):
        for t in range(n_trees):
            here = worth[chosen[t]]
            for k in range(first_leaf[t], first_leaf[t + 1]):
                if n_against[k] == 0 or worth[k] == here:
                    continue
                alone, n_alone = -1, 0  # the feature that all turns against are of
                for i in range(turn_start[k], turn_start[k + 1]):
                    if (vote[column[i]] > 0.0) != (turn[i] & 1) and (alone < 0 or column[i] == alone):
                        alone = column[i]
                        n_alone += 1
                if n_alone == n_against[k]:
                    more[alone] += worth[k] - here
        best = 0
        for i in range(turn.shape[0]):
            if more[column[i]] > more[column[best]]:
                best = i
        turned, most = column[best], more[column[best]]
        for i in range(turn.shape[0]):
            more[column[i]] = 0.0
        if most <= 0.0:
            break
        vote[turned] = -vote[turned]
        total = np.int64(0)
        for t in range(n_trees):
            for k in range(first_leaf[t], first_leaf[t + 1]):
                for i in range(turn_start[k], turn_start[k + 1]):
                    if column[i] == turned:
                        n_against[k] += 1 if (vote[turned] > 0.0) != (turn[i] & 1) else -1
                if n_against[k] == 0:
                    chosen[t] = k
                    total += worth[k]
        if total >= need:
            return True, chosen
    return False, chosen


@kernel
def write_push(trees, x, local, chosen, out_row):
    """Write a row that goes no further than it takes to be in the chosen leaf of each tree (n_trees,)."""
    copy(x, out_row)
    for t in range(chosen.shape[0]):
        for i in range(local.turn_start[chosen[t]], local.turn_start[chosen[t] + 1]):
            split = local.turn[i] >> 1
            f, v = trees.feature[split], trees.threshold[split]
            if local.turn[i] & 1:
                out_row[f] = max(out_row[f], trees.above[split]) if x[f] <= v else out_row[f]
            elif x[f] > v:
                out_row[f] = min(out_row[f], v)


@kernel
def take_back(trees, x, local, gain, need, row):
    """Let features of a pushed row be as they were, one by one, where its leaves still gain what is needed."""
    leaf, turn_start, turn, _ = local
    worth, n_against = gain[trees.leaf[leaf]], np.zeros(leaf.shape[0], np.int64)
    column, owner = np.empty(turn.shape[0], np.int64), np.empty(turn.shape[0], np.int64)
    is_tried, total = np.zeros((x.shape[0] >> 6) + 1, np.uint64), np.int64(0)
    for k in range(leaf.shape[0]):
        for i in range(turn_start[k], turn_start[k + 1]):
            column[i], owner[i] = trees.feature[turn[i] >> 1], k
            n_against[k] += (row[column[i]] > trees.threshold[turn[i] >> 1]) != (turn[i] & 1)
        total += worth[k] if n_against[k] == 0 else 0
    for f in column:
        moved = row[f]
        if moved == x[f] or not set_bit(is_tried, f):
            continue
        for value in (x[f], moved):
            for i in range(turn.shape[0]):
                if column[i] != f:
                    continue
                k, v, side = owner[i], trees.threshold[turn[i] >> 1], turn[i] & 1
                more = np.int64((value > v) != side) - np.int64((row[f] > v) != side)
                total -= worth[k] if n_against[k] == 0 else 0
                n_against[k] += more
                total += worth[k] if n_against[k] == 0 else 0
            row[f] = value
            if total >= need:
                break

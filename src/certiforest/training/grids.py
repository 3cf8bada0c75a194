"""Grids: which columns a tree owns, where they are cut into steps, and the tree that this makes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from certiforest.ensemble import Nodes
from certiforest.training.additive_kernels import Grids, Prices, Rows, grow_grid, list_uncommon
from certiforest.training.training_set import TrainingSet
from certiforest.training.worst_case import total_budget

MOST_CELLS = 576  # of a tree of several columns: two have 24 steps each, four have 4
RARE = 1e-3  # of the rows: columns that vary in fewer together are no match
CHARGES = 0.01 * 1.05 ** np.arange(184.0)  # what the whole budget may cost
FIRST_LEVEL = 115
LARGEST = np.finfo(np.float64).max  # distance: what is at infinity is out of reach


def cut(values: NDArray[np.float64], n_columns: int, max_cells: int, is_whole: bool) -> NDArray[np.float64]:
    """Cut a column, its values sorted, into steps: thresholds between two values that follow each other.

    A column that has a tree of its own is cut into ``max_cells`` at most, half of them of equal widths, half of equal
    numbers of different values, however rare; columns that share a tree into fewer, all of the latter kind.
    """
    different = values[np.append(True, values[1:] > values[:-1])] if len(values) else values
    if len(different) < 2:
        return np.empty(0)
    n = max_cells if n_columns == 1 else min(int(MOST_CELLS ** (1 / n_columns) + 1e-9), max_cells)
    low, high, n_wide = different[0], different[-1], n // 2 if n_columns == 1 else 0
    n = min(n - n_wide, len(different))
    place = np.arange(1, n) * len(different) // n
    cuts = different[place - 1] + (different[place] - different[place - 1]) / 2
    if n_wide:
        cuts = np.unique(np.append(cuts, low + (high - low) * ((np.arange(n_wide) + 0.5) / n_wide)))
    if is_whole:
        cuts = np.unique(np.floor(cuts) + 0.5)
    return cuts[(low <= cuts) & (cuts < high)]


def lay_grids(rows: TrainingSet, trees: Sequence[Sequence[int]], max_cells: int) -> Grids:
    """Return a grid for each tree over the features that it owns."""
    feature = np.array([f for tree in trees for f in tree], np.int64)
    size = [len(tree) for tree in trees for _ in tree]
    columns = rows.X.T[feature]
    has_missing = bool(np.isnan(rows.X).any())
    is_whole = rows.attacker.is_integer(rows.X.shape[1])[feature]
    cuts = [
        cut(np.sort(x[~np.isnan(x)]), n, max_cells, whole) for x, n, whole in zip(columns, size, is_whole, strict=True)
    ]
    n_steps = np.array([len(own) + 1 for own in cuts], np.int64)
    threshold = np.full((len(feature), int(n_steps.max(initial=1)) - 1), np.inf)
    for own, line in zip(cuts, threshold, strict=True):
        line[: len(own)] = own
    first_column = np.cumsum([0, *map(len, trees)])
    stride, n_cells = np.ones(len(feature), np.int64), []
    for first, last in itertools.pairwise(first_column):
        room = n_steps[first:last] + has_missing
        stride[first : last - 1] = room[:0:-1].cumprod()[::-1]
        n_cells.append(room.prod())
    first_cell = np.cumsum([0, *n_cells])
    edge, none = np.stack([threshold, threshold]), np.empty((2, 0))
    (low, high), is_there = rows.attacker.bounds(rows.X.shape[1]), np.isfinite(threshold)
    edge[:, is_whole] = np.floor(threshold[is_whole]), np.floor(threshold[is_whole]) + 1.0
    edge[0, is_there & (edge[0] < low[feature][:, None])] = -np.inf
    edge[1, is_there & ((edge[1] > high[feature][:, None]) | (threshold >= high[feature][:, None]))] = np.inf
    grids = Grids(first_column, first_cell, feature, threshold, n_steps, stride, edge, none, none, 0, 0.0, rows.is_held)
    return against(grids, rows, 1.0)


def against(grids: Grids, rows: TrainingSet, share: float) -> Grids:
    """Return the grids with how far an attacker with so much of eps moves their columns."""
    attacker, n_features = rows.attacker, rows.X.shape[1]
    unit, norm = attacker.scales(n_features), attacker.norm
    share_of = np.where(attacker.is_integer(n_features), min(share, 1.0), share)  # a whole step more is none
    reach = np.nextafter(attacker.eps * share_of * unit, np.inf) if norm else np.full((2, n_features), LARGEST)
    reach[~attacker.may_move(n_features)] = -1.0
    is_box = norm == math.inf
    return grids._replace(
        reach=reach.take(grids.feature, axis=1),
        unit=unit.take(grids.feature, axis=1),
        norm=-1 if is_box else int(norm),
        budget=0.0 if is_box else total_budget(attacker) * share**norm,
    )


def place_rows(rows: TrainingSet, grids: Grids, kind: int) -> tuple[Rows, Prices]:
    """Return where rows lie in grids, and what a unit of cost may be worth to the attacker."""
    X = np.ascontiguousarray(rows.X.take(grids.feature, axis=1))
    n_rows, n_classes = len(X), len(rows.classes)
    step = np.empty(X.shape, np.min_scalar_type(grids.threshold.shape[1] + 1))
    common, common_step = np.empty(X.shape[1]), np.empty(X.shape[1], step.dtype)
    for j, (thresholds, n_steps) in enumerate(zip(grids.threshold, grids.n_steps, strict=True)):
        x = X[:, j]
        step[:, j] = np.searchsorted(thresholds[: n_steps - 1], x) + np.isnan(x)
        values, count = np.unique(x[~np.isnan(x)], return_counts=True)
        common[j] = values[count.argmax()]
        common_step[j] = np.searchsorted(thresholds[: n_steps - 1], common[j])
    start, tree = np.empty(n_rows + 1, np.int64), np.empty(0, np.int32)
    while (n_listed := list_uncommon(X, common, grids.first_column, start, tree)) > len(tree):
        tree = np.empty(n_listed, np.int32)
    is_free = grids.norm < 0
    level = np.full((n_rows, n_classes), 0 if is_free else FIRST_LEVEL, np.uint8)
    push, weight = np.zeros((n_rows, n_classes)), rows.weight / rows.weight.mean()
    price = np.zeros(1) if is_free else CHARGES / grids.budget
    placed = Rows(X, step, start, tree, rows.y_index, weight, rows.leads(), kind, level, push)
    return placed, Prices(price, common, common_step)


def match_columns(Z: NDArray[np.float32], push: NDArray[np.float32], max_columns: int) -> list[list[int]]:
    """Put columns together that tell more than each alone: to pairs, pairs to fours, while there may be as many.

    Two columns whose product goes with what would help a class, more than chance has it, belong together.

    Parameters
    ----------
    Z : ndarray of float32, shape (n_rows, n_columns)
        Columns, centred.
    push : ndarray of float32, shape (n_rows, n_classes)
        How fast the loss of each row rises with the sum of each class.
    max_columns : int

    Returns
    -------
    list of list of int
        Each column once.
    """
    strength = np.zeros((Z.shape[1], Z.shape[1]))
    for by in push.T:
        strength += (Z.T @ (Z * by[:, None])).astype(np.float64) ** 2
    square = Z * Z
    strength = np.sqrt(strength / (square.T @ square + RARE * len(Z)))
    np.fill_diagonal(strength, 0.0)
    groups, size = [[f] for f in range(len(strength))], 2
    while size <= max_columns and len(groups) > 1:
        first, second = np.triu_indices(len(groups), 1)
        found = strength[first, second]
        is_free, members = np.ones(len(groups), bool), []
        for k in np.argsort(-found, kind="stable"):
            pair = [first[k], second[k]]
            if found[k] > 0 and is_free[pair].all():
                is_free[pair] = False
                members.append(pair)
        members += [[a] for a in np.flatnonzero(is_free)]
        membership = np.zeros((len(members), len(groups)))
        for line, own in zip(membership, members, strict=True):
            line[own] = 1.0
        groups = [sorted(f for a in own for f in groups[a]) for own in members]
        strength = membership @ strength @ membership.T
        size *= 2
    return groups


def grow(grids: Grids, t: int, has_missing: bool) -> Nodes:
    """Return a tree that tells into which cell of its grid a row falls; leaf ``k`` is the k-th cell.

    Columns are cut in halves again and again, one after the other. If values may be missing, those that are part first.
    """
    n_nodes = 2 * int(grids.first_cell[t + 1] - grids.first_cell[t]) - 1
    left, right, feature, leaf = np.full((4, n_nodes), -1)
    threshold = np.zeros(n_nodes)
    grow_grid(grids, t, has_missing, left, right, feature, threshold, leaf)
    return Nodes(left, right, feature, threshold, leaf, np.isnan(threshold))

"""Ranks: the thresholds of an ensemble by variable and value, and what its splits send right in terms of these."""

from __future__ import annotations

import math

import numpy as np

from certiforest.attack.moves import Moves
from certiforest.ensemble import TreeEnsemble
from certiforest.ensemble.tree_kernels import LARGEST, Trees
from certiforest.problem.cells_kernels import Ranks


def rank_thresholds(ensemble: TreeEnsemble, trees: Trees, moves: Moves) -> Ranks:
    """Return the thresholds of an ensemble, numbered by variable and value, and what splits send right.

    Columns whose category can be changed, or whose value can be blanked or filled, have one more, above all numbers.
    """
    n_features, n_nodes = ensemble.n_features, ensemble.n_nodes
    may_change, may_blank = moves.turnable()
    variable = ensemble.feature.astype(np.int64)
    split, column = ensemble.number_splits, ensemble.feature[ensemble.number_splits]
    # Intervals that splits send right: nodes, and ends by value and the next value above, NaN where there is none.
    top, none = np.array([[LARGEST], [math.inf]]), np.full((2, 1), math.nan)
    after, upto = np.stack([ensemble.threshold[split], trees.above[split]]), np.full((2, len(split)), math.nan)
    upto[:, may_blank[column]] = top
    for g, group in enumerate(moves.groups):
        for place, member in enumerate(group):
            here = column == member
            variable[split[here]] = n_features + g
            after[:, here], upto[:, here] = [[place - 1], [place]], [[place], [place + 1]]
    nodes, starts, ends = [split], [after], [upto]
    can_jump = (may_change | may_blank)[ensemble.feature] & (ensemble.feature >= 0)
    for node in np.flatnonzero(can_jump & np.isnan(ensemble.threshold)).tolist():
        members = np.empty(0)
        if ensemble.subset is not None and ensemble.subsets is not None and ensemble.subset[node] >= 0:
            members = ensemble.subsets[ensemble.subset[node]]
        nodes.append(np.full(len(members) + 1, node))
        starts.append(np.hstack([none, [members, np.nextafter(members, math.inf)]]))
        ends.append(np.hstack([[np.nextafter(members, -math.inf), members], top]))
    if can_jump.any() and ensemble.missing_left is not None:
        beyond = np.flatnonzero(can_jump & ~ensemble.missing_left)
        nodes, starts = [*nodes, beyond], [*starts, np.repeat(top, len(beyond), axis=1)]
        ends.append(np.full((2, len(beyond)), math.nan))
    of_node = np.concatenate(nodes)
    value, above = np.hstack([*starts, *ends])
    owner, end = np.tile(variable[of_node], 2), np.flatnonzero(~np.isnan(value))
    by_value = end[np.lexsort((value[end], owner[end].astype(np.min_scalar_type(owner.max(initial=0)))))]
    one, other = by_value[1:], by_value[:-1]
    is_new = np.append(True, (owner[one] != owner[other]) | (value[one] != value[other]))[: len(by_value)]
    rank = np.full(len(value), -1)
    rank[by_value] = np.cumsum(is_new) - 1
    chosen = by_value[is_new]
    order = np.argsort(of_node, kind="stable")
    first = np.append(0, np.cumsum(np.bincount(of_node, minlength=n_nodes)))
    after, upto = rank[: len(of_node)][order], rank[len(of_node) :][order]
    most = int(np.diff(first).max(initial=1))
    return Ranks(variable, first, after, upto, owner[chosen], value[chosen], above[chosen], most)

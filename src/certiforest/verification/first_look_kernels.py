"""A first look at many rows: the local problem of each, and its box of all cells, in one go.

It settles nearly every row at which trees meet, without going back to Python in between.
"""

from typing import NamedTuple

import numpy as np
from numpy import ndarray

from certiforest.compiled import kernel
from certiforest.verification.cells_kernels import Menus, Ranks, list_cells
from certiforest.verification.leaves_kernels import list_leaves, list_rules
from certiforest.verification.search_kernels import ATTACKED, examine_box
from certiforest.verification.tables_kernels import Contest, new_tables


class Setting(NamedTuple):
    """What is the same for all rows: how far the attacker comes, and what leaves are worth to the other class.

    ``budgets``, ``unit``, ``norm`` and ``limit`` are those of `list_leaves`; ``ranks`` and ``menus``, which are empty,
    those of `list_cells`. ``lead`` (2, n_values) is what the values of leaves add to the lead of the other class if a
    class is predicted, rounded up, and ``need`` (2,) what all trees must add up to.
    """

    budgets: tuple
    unit: ndarray
    norm: int
    limit: float
    ranks: Ranks
    menus: Menus
    lead: ndarray
    need: ndarray
    budget: int


@kernel
def look_at_rows(trees, X, prediction, setting, most_sweeps, out_status, out_row):
    """Write what `examine_box` says about all cells of each row, and the row that it suggests as an attack."""
    n_nodes, n_trees = trees.right.shape[0], trees.tree_start.shape[0] - 1
    stack, stack_cost = np.empty(n_nodes + 1, np.int64), np.empty(n_nodes + 1)
    stack_turns, path = np.empty(n_nodes + 1, np.int64), np.empty(n_nodes + 1, np.int64)
    leaf, end, turn = np.empty(8 * n_trees, np.int64), np.empty(8 * n_trees, np.int64), np.empty(64 * n_trees, np.int64)
    first_leaf, variable_of = np.empty(n_trees + 1, np.int64), np.empty(X.shape[1], np.int64)
    cut_of = np.empty(setting.ranks.feature.shape[0], np.int64)
    for row in range(X.shape[0]):
        x, lead = X[row], setting.lead[prediction[row]]
        while True:
            n_leaves, n_turns = list_leaves(
                trees, x, setting.budgets, setting.unit, setting.norm, setting.limit,
                stack, stack_cost, stack_turns, path, leaf, end, turn,
            )  # fmt: skip
            if n_leaves <= leaf.shape[0] and n_turns <= turn.shape[0]:
                break
            leaf, end, turn = np.empty(n_leaves, np.int64), np.empty(n_leaves, np.int64), np.empty(n_turns, np.int64)
        turn_start, n_before, need = np.zeros(n_leaves + 1, np.int64), 0, setting.need[prediction[row]]
        turn_start[1:] = end[:n_leaves]
        for t in range(n_trees):
            first_leaf[t] = n_before
            while n_before < n_leaves and leaf[n_before] < trees.tree_start[t + 1]:
                n_before += 1
            if n_before == first_leaf[t] + 1:
                need -= lead[trees.leaf[leaf[n_before - 1]]]
        first_leaf[n_trees] = n_before
        turns = turn[:n_turns]
        cells = list_cells(x, turns, setting.ranks, setting.budgets, setting.unit, setting.norm, setting.menus, cut_of)
        leaves = list_rules(leaf, turn_start, turns, first_leaf, setting.ranks, cut_of, cells, variable_of)
        contest = Contest(lead[trees.leaf[leaves.node]], need, setting.budget)
        tables = new_tables(cells, leaves)
        out_status[row] = examine_box(cells, leaves, contest, tables, most_sweeps, True)
        if out_status[row] == ATTACKED:
            out_row[row] = x
            for v in range(cells.feature.shape[0]):
                out_row[row, cells.feature[v]] = cells.value[tables.choice[v]]

"""A first look at many rows: the local problem of each, and its box of all cells, in one go.

It settles nearly every row at which trees meet, without going back to Python in between.
"""

from typing import NamedTuple

import numpy as np
from numpy import ndarray

from certiforest.compiled import kernel
from certiforest.verification.cells_kernels import Ranks, list_cells
from certiforest.verification.leaves_kernels import list_conditions, list_local_leaves, new_room
from certiforest.verification.search_kernels import ATTACKED, examine_box
from certiforest.verification.tables_kernels import Contest, new_tables


class LookSetting(NamedTuple):
    """What is the same for all rows: how far the attacker comes, and what leaves are worth to the other class.

    ``allowance`` is an `Allowance`, ``menus`` are `Menus` that hold nothing, ``ranks`` are those of `list_cells`.
    ``worth`` (2, n_values) is what the values of leaves are worth to the other class if a class is predicted, rounded
    up, and ``need`` (2,) what all trees must add up to.
    """

    allowance: tuple
    ranks: Ranks
    menus: tuple
    worth: ndarray
    need: ndarray
    budget: int


@kernel
def look_at_rows(trees, X, prediction, setting, most_sweeps, most_steps, out_status, out_row):
    """Write what `examine_box` says about all cells of each row, and the row that it suggests as an attack."""
    (budgets, unit, norm, limit, slack), ranks = setting.allowance, setting.ranks
    room, variable_of = new_room(trees), np.empty(X.shape[1], np.int64)
    cut_of = np.empty(ranks.feature.shape[0], np.int64)
    for row in range(X.shape[0]):
        x, worth, need = X[row], setting.worth[prediction[row]], setting.need[prediction[row]]
        leaf, turn_start, turn, first_leaf, room = list_local_leaves(trees, x, budgets, unit, norm, limit + slack, room)
        for t in range(first_leaf.shape[0] - 1):
            if first_leaf[t + 1] == first_leaf[t] + 1:
                need -= worth[trees.leaf[leaf[first_leaf[t]]]]
        cells = list_cells(x, turn, ranks, budgets, unit, norm, setting.menus, cut_of)
        leaves = list_conditions(leaf, turn_start, turn, first_leaf, ranks, cut_of, cells, variable_of)
        contest = Contest(worth[trees.leaf[leaves.node]], need, setting.budget)
        tables = new_tables(cells, leaves)
        out_status[row] = examine_box(cells, leaves, contest, tables, most_sweeps, most_steps, True)
        if out_status[row] == ATTACKED:
            out_row[row] = x
            for v in range(cells.feature.shape[0]):
                out_row[row, cells.feature[v]] = cells.value[tables.choice[v]]

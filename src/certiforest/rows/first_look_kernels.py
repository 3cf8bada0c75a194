"""A first look at many rows: the problem of each, and its box of all cells, in one go.

It settles nearly every row at which trees meet, without going back to Python in between.
"""

from typing import NamedTuple

import numpy as np
from numpy import ndarray

from certiforest.compiled import kernel
from certiforest.problem.cells_kernels import Ranks
from certiforest.problem.leaves_kernels import new_room
from certiforest.problem.problem import Problem
from certiforest.problem.row_kernels import list_around_row
from certiforest.proof.search_kernels import FOUND, examine_box
from certiforest.proof.tables_kernels import new_tables


class LookSetting(NamedTuple):
    """What is the same for all rows: how far the attacker comes, and what leaves gain for the other class.

    ``allowance`` is an `Allowance`, ``menus`` are `Menus` that hold nothing, ``ranks`` are those of `list_cells`.
    ``gain`` (2, n_values) is what the values of leaves gain for the other class if a class is predicted, rounded up,
    and ``need`` (2,) what all trees must add up to.
    """

    allowance: tuple
    ranks: Ranks
    menus: tuple
    gain: ndarray
    need: ndarray
    budget: int


@kernel
def look_at_rows(trees, X, prediction, setting, most_sweeps, most_steps, out_status, out_row):
    """Write what `examine_box` says about all cells of each row, and the row that it suggests as an attack."""
    allowance, ranks, menus = setting.allowance, setting.ranks, setting.menus
    room, variable_of = new_room(trees), np.empty(X.shape[1], np.int64)
    cut_of = np.empty(ranks.feature.shape[0], np.int64)
    for row in range(X.shape[0]):
        x, gain, need = X[row], setting.gain[prediction[row]], setting.need[prediction[row]]
        cells, leaves, fixed, room = list_around_row(
            trees, x, x, allowance, allowance.unit, ranks, menus, room, cut_of, variable_of
        )
        for i in range(fixed.shape[0]):
            need -= gain[trees.leaf[fixed[i]]]
        problem = Problem(cells, leaves, gain[trees.leaf[leaves.node]], need, setting.budget)
        tables = new_tables(cells, leaves)
        out_status[row] = examine_box(problem, tables, most_sweeps, most_steps, True)
        if out_status[row] == FOUND:
            out_row[row] = x
            for v in range(cells.name.shape[0]):
                out_row[row, cells.name[v]] = cells.value[tables.choice[v]]

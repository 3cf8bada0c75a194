"""The problem around one row: its cells and leaves, in one go."""

import numpy as np

from certiforest.compiled import kernel
from certiforest.problem.cells_kernels import list_cells
from certiforest.problem.leaves_kernels import list_conditions, list_local_leaves, new_room


@kernel
def list_around_row(trees, row, values, allowance, unit, ranks, menus, room, cut_of, variable_of):
    """Return `Cells`, `Leaves`, the leaves of trees that have only one in reach, and room for the next row.

    ``row`` is as trees take it, ``values`` are those of all variables. ``allowance`` is an `Allowance`; ``unit`` is its
    own, as prices of cells need it. ``room`` comes from `new_room`; ``cut_of`` (n_ranks,) and ``variable_of``, one
    entry for every variable, are scratch.
    """
    budgets, path_unit, norm, limit, slack = allowance
    leaf, turn_start, turn, first_leaf, room = list_local_leaves(
        trees, row, budgets, path_unit, norm, limit + slack, room
    )
    cells = list_cells(values, turn, ranks, budgets, unit, norm, menus, cut_of)
    leaves = list_conditions(leaf, turn_start, turn, first_leaf, ranks, cut_of, cells, variable_of)
    n_trees = first_leaf.shape[0] - 1
    fixed = np.empty(n_trees - leaves.name.shape[0], np.int64)
    n = 0
    for t in range(n_trees):
        if first_leaf[t + 1] == first_leaf[t] + 1:
            fixed[n] = leaf[first_leaf[t]]
            n += 1
    return cells, leaves, fixed, room


@kernel
def list_around_one_row(trees, row, values, allowance, unit, ranks, menus):
    """Return cells, leaves and fixed leaves, see `list_around_row`, without room for other rows."""
    cut_of, variable_of = np.empty(ranks.feature.shape[0], np.int64), np.empty(values.shape[0], np.int64)
    cells, leaves, fixed, _ = list_around_row(
        trees, row, values, allowance, unit, ranks, menus, new_room(trees), cut_of, variable_of
    )
    return cells, leaves, fixed

"""A first look at many rows: the problem of each, and its box of all cells, in one go.

It settles nearly every row at which trees meet, without going back to Python in between.
"""

from typing import NamedTuple

import numpy as np
from numpy import ndarray

from certiforest.compiled import kernel
from certiforest.problem.cells_kernels import Ranks
from certiforest.problem.leaves_kernels import list_local_leaves, list_what_they_allow, new_scratch
from certiforest.problem.problem import Cells, Leaves, Problem
from certiforest.proof.search_kernels import BOUNDED, FOUND, examine_box
from certiforest.proof.tables_kernels import Tables, new_tables
from certiforest.rows.push_kernels import agree_on_push, take_back, write_push


class LookSetting(NamedTuple):
    """What is the same for all rows: how far the attacker comes, and what leaves gain for the other class.

    ``allowance`` is an `Allowance`, ``lists`` are `PriceLists` that hold nothing, ``ranks`` are those of `list_cells`.
    ``gain`` (n_classes, n_classes, n_values) is what the values of leaves gain, if the first class is predicted, for
    the second, rounded up, and ``need`` (n_classes, n_classes) what all trees must add up to. ``keeps_attacks`` tells
    whether anybody will see the attacks.
    """

    allowance: tuple
    ranks: Ranks
    lists: tuple
    gain: ndarray
    need: ndarray
    budget: int
    keeps_attacks: bool


class Look(NamedTuple):
    """What a look at one row has made: its problem (see `RowProblem`), and what `examine_box` said of all cells."""

    cells: Cells
    leaves: Leaves
    fixed: ndarray
    status: int
    tables: Tables


@kernel
def look_at_leaves(trees, y, rival, setting, most, allowed):
    """Return a `Look` at a row of class ``y`` and one rival, given cells, leaves and fixed ones.

    ``most`` are sweeps, and steps of them.
    """
    cells, leaves, fixed = allowed
    gain, need = setting.gain[y, rival], setting.need[y, rival]
    for i in range(fixed.shape[0]):
        need -= gain[trees.leaf[fixed[i]]]
    problem = Problem(cells, leaves, gain[trees.leaf[leaves.node]], need, setting.budget)
    tables = new_tables(cells, leaves)
    status = examine_box(problem, None, tables, most, True, None)
    return Look(cells, leaves, fixed, status, tables)


@kernel
def falls_at_once(trees, x, y, setting, local, toward, out_row):
    """Tell whether a row falls to a push that its leaves in reach agree on, and write where it goes.

    With ``setting.keeps_attacks``, no more features move than it takes.
    """
    is_found = False
    for rival in range(setting.need.shape[0] if setting.budget == 0 else 0):
        if rival != y and not is_found:
            is_found, chosen = agree_on_push(trees, x, local, setting.gain[y, rival], setting.need[y, rival], toward)
            if is_found:
                write_push(trees, x, local, chosen, out_row)
                if setting.keeps_attacks:
                    take_back(trees, x, local, setting.gain[y, rival], setting.need[y, rival], out_row)
            for i in range(local.turn.shape[0]):
                toward[:, trees.feature[local.turn[i] >> 1]] = 0.0
    return is_found


@kernel
def write_attack(look, out_row):
    """Move a row into the chosen cells."""
    cells, choice = look.cells, look.tables.choice
    for v in range(cells.name.shape[0]):
        out_row[cells.name[v]] = cells.value[choice[v]]


@kernel
def look_at_rows(trees, X, prediction, setting, most, out_status, out_row):
    """Write what `examine_box` says about all cells of each row, and move rows for which it suggests an attack.

    Where there are several rivals, that is what it says of the first that is not shown to lose.
    """
    scratch, toward = new_scratch(trees, setting.ranks, X.shape[1]), np.zeros((2, X.shape[1]))
    for row in range(X.shape[0]):
        x, y = X[row], prediction[row]
        local, scratch = list_local_leaves(trees, x, setting.allowance, scratch)
        if falls_at_once(trees, x, y, setting, local, toward, out_row[row]):
            out_status[row] = FOUND
            continue
        allowed = list_what_they_allow(local, x, setting.allowance, setting.ranks, setting.lists, scratch)
        out_status[row] = BOUNDED
        for rival in range(setting.need.shape[0]):
            if rival == y:
                continue
            look = look_at_leaves(trees, y, rival, setting, most, allowed)
            if look.status != BOUNDED:
                out_status[row] = look.status
            if look.status == FOUND:
                write_attack(look, out_row[row])
            if look.status <= FOUND:
                break

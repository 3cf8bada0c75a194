"""A first look at many rows: the problem of each, and its box of all cells, in one go.

It settles nearly every row at which trees meet, without going back to Python in between.
"""

from typing import NamedTuple

from numpy import ndarray

from certiforest.compiled import kernel
from certiforest.problem.cells_kernels import Ranks
from certiforest.problem.leaves_kernels import list_around_row, new_scratch
from certiforest.problem.problem import Cells, Leaves, Problem
from certiforest.proof.search_kernels import FOUND, examine_box
from certiforest.proof.tables_kernels import Tables, new_tables


class LookSetting(NamedTuple):
    """What is the same for all rows: how far the attacker comes, and what leaves gain for the other class.

    ``allowance`` is an `Allowance`, ``lists`` are `PriceLists` that hold nothing, ``ranks`` are those of `list_cells`.
    ``gain`` (2, n_values) is what the values of leaves gain for the other class if a class is predicted, rounded up,
    and ``need`` (2,) what all trees must add up to.
    """

    allowance: tuple
    ranks: Ranks
    lists: tuple
    gain: ndarray
    need: ndarray
    budget: int


class Look(NamedTuple):
    """What a look at one row has made: its problem (see `RowProblem`), and what `examine_box` said of all cells."""

    cells: Cells
    leaves: Leaves
    fixed: ndarray
    status: int
    tables: Tables


@kernel
def look_at_row(trees, x, y, setting, most, scratch):
    """Return a `Look` at a row of class ``y``, and scratch for the next one.

    ``most`` are sweeps, and steps of them; see `list_around_row` for the rest.
    """
    gain, need = setting.gain[y], setting.need[y]
    cells, leaves, fixed, scratch = list_around_row(
        trees, x, x, setting.allowance, setting.ranks, setting.lists, scratch
    )
    for i in range(fixed.shape[0]):
        need -= gain[trees.leaf[fixed[i]]]
    problem = Problem(cells, leaves, gain[trees.leaf[leaves.node]], need, setting.budget)
    tables = new_tables(cells, leaves)
    status = examine_box(problem, None, tables, most[0], most[1], True)
    return Look(cells, leaves, fixed, status, tables), scratch


@kernel
def write_attack(look, out_row):
    """Move a row into the chosen cells."""
    cells, choice = look.cells, look.tables.choice
    for v in range(cells.name.shape[0]):
        out_row[cells.name[v]] = cells.value[choice[v]]


@kernel
def look_at_rows(trees, X, prediction, setting, most, out_status, out_row):
    """Write what `examine_box` says about all cells of each row, and move rows for which it suggests an attack."""
    scratch = new_scratch(trees, setting.ranks, X.shape[1])
    for row in range(X.shape[0]):
        x = X[row]
        look, scratch = look_at_row(trees, x, prediction[row], setting, most, scratch)
        out_status[row] = look.status
        if look.status == FOUND:
            write_attack(look, out_row[row])

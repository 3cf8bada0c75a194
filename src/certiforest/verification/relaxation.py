"""Relaxation: the best tables of a row's cells by linear programming, for the few rows on which splits are slow.

The bound of `tables_kernels` is the least value of a linear program in tables and lambda. HiGHS solves it in floats;
its tables are rounded and checked in whole numbers like any others.
"""

from __future__ import annotations

import numpy as np

from certiforest.verification import relaxation_kernels, tables_kernels
from certiforest.verification.cells import Local
from certiforest.verification.tables_kernels import Contest, Tables


def improve_tables(local: Local, contest: Contest, tables: Tables, seconds: float) -> bool:
    """Replace the tables by the best ones there are for the box; tell whether they were found in time."""
    from scipy.optimize import linprog
    from scipy.sparse import csr_array

    cells, leaves = local.cells, local.leaves
    reach = tables_kernels.reach_in(cells, leaves, contest, tables)
    column, number, row_end, leaf, n_choices = relaxation_kernels.list_rows(cells, leaves, tables, reach)
    n_segments, n_trees, n_variables = len(leaves.begin), len(leaves.tree), len(cells.feature)
    n_columns = n_segments + n_trees + n_variables + 1 + n_choices
    # Numbers near 1 suit the solver: leads in shares of the largest, prices in shares of the budget.
    unit, budget = max(float(np.abs(contest.lead).max(initial=0)), 1.0), float(max(contest.budget, 1))
    is_price = column == n_segments + n_trees + n_variables
    rows = csr_array(
        (np.where(is_price, -number / budget, -number), column, np.append(0, row_end)),
        shape=(len(row_end), n_columns),
    )
    cost = np.zeros(n_columns)
    cost[n_segments : n_segments + n_trees + n_variables] = 1.0
    cost[n_segments + n_trees + n_variables] = 1.0  # lambda times the budget
    bounds = np.full((n_columns, 2), np.inf)
    bounds[:, 0] = -np.inf
    bounds[:n_segments, 0] = 0.0  # a constant in a table cancels
    bounds[n_segments + n_trees + n_variables] = 0.0, np.inf if contest.budget > 0 else 0.0
    sides = np.where(leaf >= 0, -contest.lead[leaf] / unit, 0.0)
    found = linprog(cost, A_ub=rows, b_ub=sides, bounds=bounds, method="highs", options={"time_limit": seconds})
    if found.x is None:
        return False
    price = max(float(found.x[n_segments + n_trees + n_variables]), 0.0) * unit / budget
    relaxation_kernels.set_tables(cells, leaves, tables, np.maximum(found.x[:n_segments], 0.0) * unit, price)
    return True

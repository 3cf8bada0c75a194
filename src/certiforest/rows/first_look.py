"""First look: verdicts on whole blocks of rows at which trees meet, where that is quick."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from certiforest.problem.problem import BUDGET, Cells, Leaves
from certiforest.problem.verifier import Verifier
from certiforest.proof import search
from certiforest.proof import search_kernels as statuses
from certiforest.proof.clock import Clock
from certiforest.proof.tables_kernels import Tables
from certiforest.rows.first_look_kernels import LookSetting, look_at_one_row, look_at_rows
from certiforest.verdicts import STABLE, UNKNOWN, UNSTABLE, Method

# Rows are looked at in blocks of this size, fewer where trees have more nodes, with so many sweeps for each at most.
N_ROWS, MOST_NODES, LOOK_SWEEPS = 32, 2**24, 32


class Begun(NamedTuple):
    """What a look at one row has made: its cells and leaves, see `RowProblem`, and what was said of all cells, why."""

    cells: Cells
    leaves: Leaves
    fixed: NDArray[np.int64]
    status: int
    tables: Tables


class FirstLook:
    """One ensemble of two classes against one attacker, if what it changes are numbers; else it settles nothing.

    Parameters
    ----------
    verifier : Verifier
    """

    def __init__(self, verifier: Verifier) -> None:
        self._verifier, self._setting = verifier, _setting(verifier)

    def look(
        self, X: NDArray[np.float64], prediction: NDArray[np.int64], clock: Clock
    ) -> Iterator[tuple[slice, NDArray[np.int8], NDArray[np.int8], NDArray[np.float64]]]:
        """Yield block by block what is known of rows: verdicts (-1 where there is none yet), methods and attacks."""
        if self._setting is None:
            return
        for run, trees, _ in self._verifier.rows_by_pattern(X):
            start, stop, _ = run.indices(len(X))
            size = max(1, min(N_ROWS, MOST_NODES // self._verifier.ensemble.n_nodes))
            for first in range(start, stop, size):
                if clock.is_up:
                    return
                block = slice(first, min(first + size, stop))
                x, y, status = X[block], prediction[block], np.empty(block.stop - first, np.int64)
                attack = np.full(x.shape, np.nan)
                look_at_rows(trees, x, y, self._setting, _most(), status, attack)
                stable = np.where(status > statuses.FOUND, STABLE, UNKNOWN).astype(np.int8)  # see `examine_box`
                found = np.flatnonzero(status == statuses.FOUND)
                # One call for all: threads that go in and out of kernels wait for each other.
                found = found[self._verifier.ensemble.index_of(attack[found]) != y[found]]
                stable[found[self._verifier.moves.affords_rows(x[found], attack[found])]] = UNSTABLE
                method = np.where(status == statuses.BOUNDED, Method.BOUNDED, Method.PROVED).astype(np.int8)
                yield block, stable, method, attack

    def begin(self, x: NDArray[np.float64], y: int) -> Begun | None:
        """Look at one row of class ``y``, and keep what was found for a search to go on with."""
        if self._setting is None:
            return None
        ((_, trees, _),) = self._verifier.rows_by_pattern(x[None])
        status, cells, leaves, fixed, tables = look_at_one_row(trees, x, y, self._setting, _most())
        return Begun(cells, leaves, fixed, status, tables)


def _most() -> tuple[int, int]:
    return min(LOOK_SWEEPS, search.MOST_SWEEPS), search.MOST_STEPS


def _setting(verifier: Verifier) -> LookSetting | None:
    allowance = verifier.allowance
    is_sized = verifier.moves.norm > 0 and allowance.slack < math.inf
    if not (is_sized and verifier.ensemble.n_classes == 2 and verifier.moves.is_plain):
        return None
    gains, needs = zip(*(verifier.gains.rough(y, 1 - y) for y in (0, 1)), strict=True)
    lists = verifier.moves.price_lists(np.empty(0), BUDGET)
    gain, need, budget = np.array(gains), np.array(needs, np.int64), 0 if verifier.is_box else BUDGET
    return LookSetting(allowance, verifier.ranks, lists, gain, need, budget)

"""Votes: verdicts on whole blocks of rows where trees vote.

Rows are decided tree by tree: for L-inf by what each tree can be made to say, for other norms by what that costs.
Where trees meet, a row is left open unless it withstands each tree at its worst.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from certiforest.problem.verifier import Verifier
from certiforest.proof.clock import Clock
from certiforest.rows import votes_kernels as kernels


class Votes:
    """The screen for trees that vote, for one prepared ensemble.

    Parameters
    ----------
    prepared : Verifier
    """

    def __init__(self, prepared: Verifier) -> None:
        self._prepared = prepared

    def decide(
        self, X: NDArray[np.float64], order: VisitOrder, clock: Clock, out_prediction: NDArray, out_stable: NDArray
    ) -> NDArray[np.float64]:
        """Write the predicted class index and 1, 0, -1 or BORDERLINE for each row; return the seconds each has spent.

        That is stable, unstable, unknown, or unknown because of rounding alone. No row spends seconds of its own here.
        """
        prepared = self._prepared
        allowance, ensemble = prepared.allowance, prepared.ensemble
        for run, trees, rows in prepared.runs(X, prepared.moves):
            results = ensemble.n_classes, prepared.unclaimed, order, out_prediction[run], out_stable[run]
            if prepared.is_box:
                kernels.decide_within_box(trees, rows, allowance.budgets, *results)
            else:
                kernels.decide_by_price(trees, rows, allowance, *results)
        order.improve()
        return np.zeros(len(X))

    def composed_radii(self, X: NDArray[np.float64], out_radius: NDArray, out_works: NDArray) -> None:
        """Write what it costs at least to change each row under L-inf, each tree taken on its own.

        That is rounded up, exact where the scale is 1, and inf if there is no change. Also write whether the changes of
        all trees work together.
        """
        prepared = self._prepared
        allowance, n_classes = prepared.endless_allowance(), prepared.ensemble.n_classes
        for run, trees, rows in prepared.runs(X):
            kernels.composed_radii(trees, rows, allowance, n_classes, out_radius[run], out_works[run])


class VisitOrder(NamedTuple):
    """In which order trees are visited: those that attackers seldom move come first.

    A majority of trees that cannot be moved is then found sooner. It learns from each block of rows, and no verdict
    depends on it. Each thread has its own.

    Attributes
    ----------
    place : ndarray of int64, shape (n_trees,)
        Trees in the order of visits.
    moved : ndarray of int64, shape (n_trees, 2)
        How often each tree was visited, and how often it could be moved.
    """

    place: NDArray[np.int64]
    moved: NDArray[np.int64]

    @classmethod
    def of(cls, n_trees: int) -> VisitOrder:
        """Return the order of the trees themselves."""
        return cls(np.arange(n_trees), np.zeros((n_trees, 2), np.int64))

    def improve(self) -> None:
        """Sort by how often each tree could be moved so far."""
        visits, moves = self.moved.T
        self.place[:] = np.argsort(moves / np.maximum(visits, 1), kind="stable")

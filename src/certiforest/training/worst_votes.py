"""WorstVotes: how the training rows fare when every tree of a finished forest votes as badly as it can be made to.

Moves within eps on every feature at once stand for every norm. For large spread and norm inf that is the verdict
itself; for other norms it asks for more than the attacker can do.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from certiforest.attack.attacker import Attacker
from certiforest.ensemble import Nodes, TreeEnsemble
from certiforest.training import worst_votes_kernels as kernels


class WorstVotes:
    """Counts votes for the training rows.

    Parameters
    ----------
    X : ndarray of float64, shape (n_rows, n_features)
    y_index : ndarray of int64, shape (n_rows,)
        Class indices.
    n_classes : int
    row_weight : ndarray of float64, shape (n_rows,)
    attacker : Attacker
    """

    def __init__(
        self,
        X: NDArray[np.float64],
        y_index: NDArray[np.int64],
        n_classes: int,
        row_weight: NDArray[np.float64],
        attacker: Attacker,
    ) -> None:
        self._X, self._y_index, self._row_weight = X, y_index, row_weight
        self._n_classes = n_classes
        self._budgets = attacker.budgets(X.shape[1])

    def robust_shares(self, trees: Sequence[Nodes]) -> NDArray[np.float64]:
        """Return the weighted share of the rows on which each tree alone is robust, shape (n_trees,)."""
        ensemble, stack, can_say = self._prepare(trees)
        weight = np.zeros(ensemble.n_trees)
        kernels.weigh_robust_rows(
            ensemble.trees, self._X, self._y_index, self._row_weight, *self._budgets, stack, can_say, weight
        )
        return weight / self._row_weight.sum()

    def leads(self, trees: Sequence[Nodes]) -> NDArray[np.int64]:
        """Return by how many votes each row's class stays ahead of each class, shape (n_rows, n_classes).

        Leads of different trees add up. The column of the row's own class means nothing.
        """
        lead = np.zeros((len(self._X), self._n_classes), np.int64)
        ensemble, stack, can_say = self._prepare(trees)
        kernels.add_leads(ensemble.trees, self._X, self._y_index, *self._budgets, stack, can_say, lead)
        return lead

    def weigh_won(self, lead: NDArray[np.int64]) -> float:
        """Return the weight of the rows whose class is ahead of all others; of equals the first class wins."""
        own, rivals = self._y_index[:, None], np.arange(self._n_classes)
        is_ahead = (lead > 0) | ((lead == 0) & (own < rivals)) | (own == rivals)
        return float(self._row_weight[is_ahead.all(axis=1)].sum())

    def _prepare(self, trees: Sequence[Nodes]) -> tuple[TreeEnsemble, NDArray[np.int64], NDArray[np.bool_]]:
        n_features, classes = self._X.shape[1], np.arange(self._n_classes)
        ensemble = TreeEnsemble.from_trees(trees, n_features=n_features, classes=classes)
        largest = int(np.diff(ensemble.tree_start).max())
        return ensemble, np.empty(largest, np.int64), np.empty(self._n_classes, np.bool_)

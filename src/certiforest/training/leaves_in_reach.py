"""LeavesInReach: to which leaves of a tree the attacker can move each row."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from certiforest.training import margin_kernels as kernels
from certiforest.training.grower import GrownTrees


class LeavesInReach:
    """Lists leaves of one tree after the other in the same memory.

    Parameters
    ----------
    X : ndarray of float64, shape (n_rows, n_features)
    reach : ndarray of float64, shape (n_features,)
        How far the attacker moves each feature.
    """

    def __init__(self, X: NDArray[np.float64], reach: NDArray[np.float64]) -> None:
        self._X = X
        self._reach = reach
        self._start = np.empty(len(X) + 1, np.int64)
        self._leaf = np.empty(2 * len(X), np.int64)

    def of(self, grown: GrownTrees, root: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """List the leaves below a root that each row can be moved to.

        Returns
        -------
        start, leaf : ndarray of int64, shape (n_rows + 1,), (start[-1],)
            Row ``i`` reaches the nodes ``leaf[start[i]:start[i + 1]]``. Valid until the next call.
        """
        nodes = grown.feature, grown.threshold, grown.left, grown.right
        stack = np.empty(len(grown.feature) + 1, np.int64)
        n_leaves = kernels.list_leaves_in_reach(*nodes, root, self._X, self._reach, stack, self._start, self._leaf)
        if n_leaves > len(self._leaf):
            self._leaf = np.empty(2 * n_leaves, np.int64)
            kernels.list_leaves_in_reach(*nodes, root, self._X, self._reach, stack, self._start, self._leaf)
        return self._start, self._leaf[:n_leaves]

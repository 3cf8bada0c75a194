"""The scores of leaves while an ensemble is being translated."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from certiforest.ensemble import ModelError

LARGEST_TABLE = 2**27  # scores: a gigabyte


class ScoreTable:
    """Rows of scores that leaves point to; equal rows are kept once, of which forests have many.

    Parameters
    ----------
    n_outputs : int
        Length of a row.
    """

    def __init__(self, n_outputs: int) -> None:
        self.n_outputs = n_outputs
        self._place: dict[bytes, int] = {}
        self.subsets: list[list[int]] = []  # of values, that splits on categories send left

    def add(
        self, scores: ArrayLike, output: int | None = None, is_leaf: NDArray[np.bool_] | None = None
    ) -> NDArray[np.int64]:
        """Return the row of the table for each of the given scores.

        Parameters
        ----------
        scores : array-like of float, shape (n, n_outputs), or (n,) where ``output`` is given
        output : int, optional
            The only output that the scores are for; they add nothing to the others.
        is_leaf : ndarray of bool, shape (n,), optional
            Which of the scores count. The others have no row; -1 stands for them.
        """
        if is_leaf is not None:
            place = np.full(len(is_leaf), -1, np.int64)
            place[is_leaf] = self.add(np.asarray(scores)[is_leaf], output)
            return place
        rows = np.asarray(scores, np.float64)
        group: NDArray[np.int64] | slice = slice(None)
        if output is not None:
            distinct, group = np.unique(rows, return_inverse=True)
            self._check_size(len(self._place) + len(distinct))  # the rows may be far longer than what they are made of
            rows = np.zeros((len(distinct), self.n_outputs))
            rows[:, output] = distinct
        index = [self._place.setdefault(row.tobytes(), len(self._place)) for row in rows + 0.0]  # one kind of zero
        self._check_size(len(self._place))
        return np.array(index, np.int64)[group]

    def _check_size(self, n_rows: int) -> None:
        if n_rows * self.n_outputs > LARGEST_TABLE:
            raise ModelError(f"Expected at most {LARGEST_TABLE} scores of leaves, got more.")

    def table(self) -> NDArray[np.float64]:
        """Return all rows, shape (n, n_outputs)."""
        return np.frombuffer(b"".join(self._place), np.float64).reshape(-1, self.n_outputs)

"""Gains: what leaves gain for a rival of the predicted class, in whole numbers, for votes and for sums.

That is what a leaf adds to the rival's score less what it adds to that of the predicted class. A vote is a score of one
for its class, so that both are the same question: a rival is predicted instead only if the leaves of all trees, and the
base, gain what it needs.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from certiforest.ensemble import TreeEnsemble
from certiforest.ensemble.score_kernels import DIGIT_BITS

# Gains of all trees together have about this many bits, votes so many behind the point.
GAIN_BITS, VOTE_BITS = 50, 20


class Pair(NamedTuple):
    """What leaves gain for one rival of one class.

    Attributes
    ----------
    exact : ndarray of int, shape (n_values + 1,)
        By value of a leaf (class or row of scores), in units of `Gains.unit`; the base comes last.
    short : ndarray of int64, shape (n_values,)
        The same times ``2**bits``, rounded up; 0 for values that no leaf has.
    bits : int
    """

    exact: NDArray
    short: NDArray[np.int64]
    bits: int


class Gains:
    """What the leaves of an ensemble gain for rivals.

    Parameters
    ----------
    ensemble : TreeEnsemble
    """

    def __init__(self, ensemble: TreeEnsemble) -> None:
        self.ensemble = ensemble
        self._is_vote = ensemble.combine == "vote"
        self._pairs: dict[tuple[int, int], Pair] = {}

    @cached_property
    def whole(self) -> NDArray:
        """The values of leaves as whole numbers, the base last, shape (n_values + 1, n_classes)."""
        if self._is_vote:
            return np.eye(self.ensemble.n_classes + 1, self.ensemble.n_classes, dtype=np.int64)
        digit = self.ensemble.prepared_scores.digit
        if digit.shape[2] == 1:
            return digit[:, :, 0]
        place = np.array([1 << (DIGIT_BITS * k) for k in range(digit.shape[2])], object)
        return (digit.astype(object) * place).sum(axis=2)

    @cached_property
    def unit(self) -> Fraction:
        """What a gain of one is in scores."""
        if self._is_vote:
            return Fraction(1)
        value = self.ensemble.prepared_scores.value
        if not value.any():
            return Fraction(1)
        row, c = np.argwhere(value)[0]
        return Fraction(float(value[row, c])) / int(self.whole[row, c])

    def against(
        self, node: NDArray[np.int64], fixed: NDArray[np.int64], y: int, rival: int, need: int | None = None
    ) -> tuple[NDArray[np.int64], int, Fraction]:
        """Return what leaves gain for a rival, what that must add up to, and what a gain of one is in scores.

        Parameters
        ----------
        node : ndarray of int64, shape (n_leaves,)
            Leaves of trees that have a choice.
        fixed : ndarray of int64
            Leaves of the other trees.
        y, rival : int
        need : int, optional
            What leaves and base are to gain; what it takes to be predicted, if not given.
        """
        pair, value = self._pair(y, rival), self.ensemble.leaf
        if need is None:
            need = 1 if rival > y else 0
            if self._is_vote and self.ensemble.n_classes == 2:
                need += (need - self.ensemble.n_trees) % 2  # such gains are all even, or all odd
        need -= int(pair.exact[value[fixed]].sum()) + int(pair.exact[-1])
        need = need << pair.bits if pair.bits >= 0 else need >> -pair.bits
        return pair.short[value[node]], max(min(need, 2**61), -(2**61)), self.unit / Fraction(2) ** pair.bits

    def rough(self, y: int, rival: int) -> tuple[NDArray[np.int64], int]:
        """Return what values of leaves gain for a rival, rounded up, and what all trees must add up to."""
        nothing = np.empty(0, np.int64)
        return self._pair(y, rival).short, self.against(nothing, nothing, y, rival)[1]

    def total(self, values: NDArray[np.int64], y: int, rival: int) -> int:
        """Return, exactly, what leaves of some values and the base gain for a rival, all together."""
        exact = self._pair(y, rival).exact
        return int(exact[values].sum()) + int(exact[-1])

    def _pair(self, y: int, rival: int) -> Pair:
        if (y, rival) not in self._pairs:
            exact = self.whole[:, rival] - self.whole[:, y]
            bits = VOTE_BITS
            if not self._is_vote:
                size = np.abs(exact)[self.ensemble.leaf]
                size[self.ensemble.feature >= 0] = 0
                most = int(np.maximum.reduceat(size, self.ensemble.tree_start[:-1]).sum())
                bits = GAIN_BITS - max(most, 1).bit_length()
            short = np.zeros(len(exact) - 1, np.int64)
            used = np.unique(self.ensemble.leaf[self.ensemble.feature < 0])
            short[used] = exact[used] << bits if bits >= 0 else -(-exact[used] >> -bits)
            self._pairs[y, rival] = Pair(exact, short, bits)
        return self._pairs[y, rival]

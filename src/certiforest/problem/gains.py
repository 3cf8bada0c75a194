"""Gains: what leaves gain for a rival of the predicted class, in whole numbers, for votes and for sums.

That is what a leaf adds to the rival's score less what it adds to that of the predicted class. A vote is a score of one
for its class, so that both are the same question: a rival is predicted instead only if the leaves of all trees, and the
base, gain what it needs.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from certiforest.ensemble import TreeEnsemble
from certiforest.ensemble.score_kernels import DIGIT_BITS
from certiforest.ensemble.tree_kernels import LARGEST

# Gains of all trees together have about this many bits, votes so many behind the point.
GAIN_BITS, VOTE_BITS = 50, 20


class Pair(NamedTuple):
    """What leaves gain for one rival of one class, in units of ``2**-bits`` of `Gains.unit`.

    ``short`` (n_values,) is that by value of a leaf (class or row of scores), rounded up; 0 for values no leaf has.
    """

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
        self._is_vote, self._scores = ensemble.combine == "vote", ensemble.prepared_scores
        self._pairs: dict[tuple[int, int], Pair] = {}

    @cached_property
    def _is_used(self) -> NDArray[np.bool_]:
        """Which values leaves have, shape (n_values,)."""
        is_used = np.zeros(len(self._scores.value) - 1, bool)
        is_used[self.ensemble.leaf[self.ensemble.feature < 0]] = True
        return is_used

    @cached_property
    def whole(self) -> NDArray[np.object_]:
        """The values of leaves as whole numbers, the base last, (n_values + 1, n_classes): much for large models."""
        return _whole(self._scores.digit)

    @cached_property
    def unit(self) -> Fraction:
        """What a gain of one is in scores."""
        value = self._scores.value
        place = np.unravel_index(int((value != 0).argmax()), value.shape)
        return Fraction(float(value[place])) / _whole(self._scores.digit[place]) if value[place] else Fraction(1)

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
        need -= self.total(value[fixed], y, rival)
        need = need << pair.bits if pair.bits >= 0 else need >> -pair.bits
        return pair.short[value[node]], max(min(need, 2**61), -(2**61)), self.unit / Fraction(2) ** pair.bits

    def rough(self, y: int, rival: int) -> tuple[NDArray[np.int64], int]:
        """Return what values of leaves gain for a rival, rounded up, and what all trees must add up to."""
        nothing = np.empty(0, np.int64)
        return self._pair(y, rival).short, self.against(nothing, nothing, y, rival)[1]

    def total(self, values: NDArray[np.int64], y: int, rival: int) -> int:
        """Return, exactly, what leaves of some values and the base gain for a rival, all together."""
        rows, digit = np.append(values, -1), self._scores.digit
        digits = (digit[rows, rival] - digit[rows, y]).sum(axis=0).tolist()
        return sum(value << (DIGIT_BITS * k) for k, value in enumerate(digits))

    def _pair(self, y: int, rival: int) -> Pair:
        if (y, rival) not in self._pairs:
            bits, (value, digit, *_) = VOTE_BITS, self._scores
            if not self._is_vote:
                with np.errstate(over="ignore"):
                    gain = np.clip(value[:, [rival]] - value[:, [y]], -LARGEST, LARGEST)
                most = np.abs(self.ensemble.ranges_of_trees(gain)).max(axis=0)
                exponent = math.frexp(float(most.max()))[1]  # scaled by it, no sum is beyond the range of floats
                length = math.frexp(float(np.ldexp(most, -exponent).sum()))[1] + exponent - math.frexp(self.unit)[1] + 1
                bits = GAIN_BITS - (length if most.any() else 1)
            short = _shifted(digit[:-1, rival] - digit[:-1, y], bits)
            self._pairs[y, rival] = Pair(np.where(self._is_used, short, 0), bits)
        return self._pairs[y, rival]


def _whole(digits: NDArray[np.int64]) -> Any:
    """Return the whole numbers that some digits make, shape (..., n_digits), the lowest first: of any size."""
    place = np.array([1 << (DIGIT_BITS * k) for k in range(digits.shape[-1])], object)
    return (digits.astype(object) * place).sum(axis=-1)


def _shifted(digits: NDArray[np.int64], bits: int) -> NDArray[np.int64]:
    """Return the whole numbers of some digits, shape (n, n_digits), times ``2**bits``, rounded up: those of 64 bits."""
    total = np.zeros(len(digits), np.int64)
    for k, digit in enumerate(digits.T):
        shift = DIGIT_BITS * k + bits
        if shift < 0:
            total = -(-(total + digit) >> min(-shift, DIGIT_BITS))
        elif shift < 64:  # what is higher cancels
            total += digit << shift
    return total

"""Scores of leaves: collected while a model is translated, and made ready for exact sums."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from certiforest.ensemble.nodes import ModelError
from certiforest.ensemble.score_kernels import DIGIT_BITS, DIGIT_MASK, Scores

LARGEST_TABLE = 2**27  # scores: a gigabyte


class ScoreTable:
    """Rows of ``n_outputs`` scores that leaves point to; equal rows are kept once, of which forests have many."""

    def __init__(self, n_outputs: int) -> None:
        self.n_outputs = n_outputs
        self._place: dict[bytes, int] = {}
        self.subsets: list[list[int]] = []  # of values, that splits on categories send left

    def add(
        self, scores: ArrayLike, output: int | None = None, is_leaf: NDArray[np.bool_] | None = None
    ) -> NDArray[np.int64]:
        """Return the row of the table for each of the given scores, (n, n_outputs), or (n,) for the one ``output``.

        ``is_leaf`` tells which of them count; -1 stands for the row of the others.
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


def prepare_scores(
    scores: NDArray[np.float64], base: NDArray[np.float64], n_classes: int, n_nodes: int, total: float
) -> Scores:
    """Return scores (n_scores, n_outputs) and their base (n_outputs,) as kernels take them.

    No sum over the leaves of an ensemble has more terms than its ``n_nodes``, nor is it larger than ``total``.
    """
    value = np.vstack([scores, base])
    if value.shape[1] < n_classes:
        value = np.hstack([np.zeros_like(value), value])
    # A difference of two classes between two leaves is at most four scores large and three roundings wrong; sums of
    # n_nodes such terms, their differences and the sums they are compared with stay within this bound. It is above
    # zero, so that no tie is decided in floats.
    slack = 16.0 * (n_nodes + 4) * 2.0**-53 * total + float(np.finfo(np.float64).tiny)
    digit = digits_of(value)
    return Scores(value, digit, slack, _step(value, digit[..., 0]) if digit.shape[2] == 1 and n_nodes < 2**18 else 0.0)


def _step(value: NDArray[np.float64], whole: NDArray[np.int64]) -> float:
    """Return what all differences between leads that scores give are multiples of; ``whole`` are values in some unit.

    Values are below 2**32 units, so that sums over less than 2**18 nodes are below 2**50 and exact in floats.
    """
    used = whole != 0
    lead = whole[:-1, 1:] - whole[:-1, :1]
    step = max(int(np.gcd.reduce((lead - lead[:1]).ravel(), initial=0)), 1)
    return step * float(value[used][0] / whole[used][0]) if used.any() else 1.0


def digits_of(value: NDArray[np.float64]) -> NDArray[np.int64]:
    """Write finite floats as whole numbers of one unit, in digits of base 2**32, the lowest first.

    Every digit, (*value.shape, n_digits), has the sign of its value; there are as many as the values need.
    """
    used = value != 0  # where trees speak for one class each, few are
    if not used.any():
        return np.zeros((*value.shape, 1), np.int64)
    fraction, exponent = np.frexp(value[used])
    whole = np.abs(fraction * 2.0**53).astype(np.int64)
    exponent = exponent.astype(np.int64) - 53
    n_trailing = np.frexp((whole & -whole).astype(np.float64))[1] - 1  # zeros at the end of each whole number
    unit = (exponent + n_trailing).min()
    n_digits = int(-((unit - 53 - exponent.max()) // DIGIT_BITS))
    shift = exponent - unit
    whole >>= np.clip(-shift, 0, 63)  # zeros only
    place, shift = np.divmod(np.maximum(shift, 0), DIGIT_BITS)
    low, high = (whole & DIGIT_MASK) << shift, (whole >> DIGIT_BITS) << shift
    middle = (low >> DIGIT_BITS) + (high & DIGIT_MASK)
    parts = low & DIGIT_MASK, middle & DIGIT_MASK, (high >> DIGIT_BITS) + (middle >> DIGIT_BITS)
    of_used = np.zeros((len(whole), n_digits + 2), np.int64)
    sign = np.where(value[used] < 0, -1, 1)
    for offset, part in enumerate(parts):
        np.put_along_axis(of_used, (place + offset)[:, None], (sign * part)[:, None], axis=1)
    digits = np.zeros((*value.shape, n_digits), np.int64)
    digits[used] = of_used[:, :n_digits]
    return digits

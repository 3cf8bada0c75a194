"""Scores of leaves, made ready for exact sums."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from certiforest.ensemble.score_kernels import DIGIT_BITS, DIGIT_MASK, Scores


def prepare_scores(
    scores: NDArray[np.float64], base: NDArray[np.float64], n_classes: int, n_nodes: int, total: float
) -> Scores:
    """Return scores as kernels take them.

    Parameters
    ----------
    scores : ndarray of float64, shape (n_scores, n_outputs)
    base : ndarray of float64, shape (n_outputs,)
    n_classes : int
    n_nodes : int
        Number of nodes of the ensemble: no sum over its leaves has more terms.
    total : float
        The largest absolute sum that can occur.
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

    Parameters
    ----------
    value : ndarray of float64, any shape

    Returns
    -------
    ndarray of int64, shape (*value.shape, n_digits)
        Every digit has the sign of its value; there are as many as the values need.
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

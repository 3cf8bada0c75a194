"""Exact prices of moves, and what each feature alone may spend, in rational arithmetic.

The norm is whole, so all powers of norms are rational and every comparison is exact.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from certiforest.attack.parameters import AttackerError


def exponent_of(norm: float) -> int:
    """Return the power in which moves of single features are added up: 1 for L-inf and L0."""
    return int(norm) if 0 < norm < math.inf else 1


def price_move(value: float, target: float, unit: float, norm: float) -> Fraction:
    """Return the p-th power of a move of one feature (the move itself for L-inf, 1 for L0)."""
    if norm == 0:
        return Fraction(1)
    return (abs(Fraction(target) - Fraction(value)) / Fraction(unit)) ** exponent_of(norm)


def ceil_root(value: Fraction, norm: float) -> float:
    """Return the smallest float whose p-th power (the float itself for L-inf and L0) is at least ``value`` > 0."""
    exponent = exponent_of(norm)
    # Bring the value near 1 by a power of two, so that its root is found in floats without over- or underflow.
    shift = (value.numerator.bit_length() - value.denominator.bit_length()) // exponent
    root = float(value / Fraction(2) ** (shift * exponent)) ** (1.0 / exponent)
    try:
        root = math.ldexp(root, shift)
    except OverflowError:
        return math.inf
    while root > 0 and Fraction(math.nextafter(root, 0.0)) ** exponent >= value:
        root = math.nextafter(root, 0.0)
    while root < math.inf and Fraction(root) ** exponent < value:
        root = math.nextafter(root, math.inf)
    return root


class Budgets(NamedTuple):
    """What one feature alone may spend, down and up: exactly ``eps * scale``, as ``rounded + rest``.

    ``rounded`` (2, n_features) is the float nearest to the exact product and ``rest`` the largest float not above what
    is left, so that a difference of two floats, written as the rounded difference ``d`` and its rounding error ``e``,
    is within budget iff ``d < rounded or (d == rounded and e <= rest)``. A move that is not allowed has -1: no
    difference is within it. ``near`` (n_features,) is the larger ``rounded``, for a first look.
    """

    near: NDArray[np.float64]
    rounded: NDArray[np.float64]
    rest: NDArray[np.float64]

    @classmethod
    def of(cls, rounded: NDArray[np.float64], rest: NDArray[np.float64] | None = None) -> Budgets:
        """Return budgets of which one half is known."""
        return cls(rounded.max(axis=0), rounded, np.zeros(rounded.shape) if rest is None else rest)

    @classmethod
    def without_limits(cls, may_move: NDArray[np.bool_]) -> Budgets:
        """Return budgets for moves of any size, where there may be any, shape (2, n_features)."""
        return cls.of(np.where(may_move, math.inf, -1.0))


def split_budgets(eps: Fraction, *scales: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return ``eps`` times the sum of some scales of one shape as ``rounded + rest``, see `Budgets`."""
    if all((scale == scale.flat[0]).all() for scale in scales):  # as nearly always, one product is all there is
        one, other = _split(eps * sum(Fraction(float(scale.flat[0])) for scale in scales))
        return np.full(scales[0].shape, one), np.full(scales[0].shape, other)
    units, place = np.unique(np.stack([scale.ravel() for scale in scales]), axis=1, return_inverse=True)
    pairs = [_split(eps * sum(map(Fraction, unit))) for unit in units.T.tolist()]
    rounded, rest = (np.array(column)[place.ravel()].reshape(scales[0].shape) for column in zip(*pairs, strict=True))
    return rounded, rest


def _split(value: Fraction) -> tuple[float, float]:
    """Write an exact value as the nearest float and the rest, the rest rounded down."""
    try:
        rounded = float(value)
    except OverflowError:
        raise AttackerError("Expected eps * scale to be a finite number, got one above 1.7e308.") from None
    left = value - Fraction(rounded)
    rest = float(left)
    if Fraction(rest) > left:
        rest = math.nextafter(rest, -math.inf)
    return rounded, rest

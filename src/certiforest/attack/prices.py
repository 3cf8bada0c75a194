"""Exact prices: what a move costs, in rational arithmetic.

The norm is whole, so all powers of norms are rational and every comparison is exact.
"""

from __future__ import annotations

import math
from fractions import Fraction


def price_move(value: float, target: float, unit: float | Fraction, norm: float) -> Fraction:
    """Return the p-th power of a move of one feature (the move itself for L-inf, 1 for L0)."""
    if norm == 0:
        return Fraction(1)
    distance = abs(Fraction(target) - Fraction(value)) / Fraction(unit)
    return distance if norm == math.inf else distance ** int(norm)


def ceil_root(value: Fraction, norm: float) -> float:
    """Return the smallest float whose p-th power (the float itself for L-inf and L0) is at least ``value`` > 0."""
    exponent = int(norm) if 0 < norm < math.inf else 1
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

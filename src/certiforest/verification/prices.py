"""Exact prices: what a move costs, in rational arithmetic.

The norm is whole, so all powers of norms are rational and every comparison is exact.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from certiforest.attack.attacker import Attacker


def exact_budget(attacker: Attacker) -> Fraction:
    """Return the p-th power of eps (eps itself for L-inf and L0), the unit in which changes are priced here."""
    return Fraction(attacker.eps) ** (int(attacker.norm) if 0 < attacker.norm < math.inf else 1)


def price_move(value: float, target: float, unit: float | Fraction, norm: float) -> Fraction:
    """Return the p-th power of a move of one feature (the move itself for L-inf, 1 for L0)."""
    if norm == 0:
        return Fraction(1)
    distance = abs(Fraction(target) - Fraction(value)) / Fraction(unit)
    return distance if norm == math.inf else distance ** int(norm)


def is_surely_within(
    x: NDArray[np.float64], z: NDArray[np.float64], scale: NDArray[np.float64], attacker: Attacker
) -> bool:
    """Tell whether floats alone show that moving numbers from ``x`` to ``z`` is within a budget that moves share.

    A share of the budget, to the power p, is within 4p roundings of the truth, and a sum of n of them within n more:
    2e-10 for p up to 1e4 and n up to a million. What underflows is nothing next to that.
    """
    moved = np.flatnonzero(z != x)
    with np.errstate(over="ignore"):
        unit = scale[(z > x)[moved].astype(int), moved] * attacker.eps
        if not 0 < attacker.norm < 1e4 or len(moved) > 1e6 or not ((unit > 1e-300) & (unit < math.inf)).all():
            return False
        return bool(((np.abs(z - x)[moved] / unit) ** attacker.norm).sum() < 1 - 1e-9)


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

"""Numbers of libraries that hold them as float32, and their thresholds as they act on float64 rows.

Such a library rounds a row to float32 and then compares with a threshold ``v``. Let ``t`` be the largest float32 not
above ``v``; the row goes left iff its rounded value is at most ``t``. Rounding is to nearest, ties to the even
mantissa, so that holds iff the value itself is below the midpoint of ``t`` and the next float32, or equal to it if
``t`` is the even one of the two. The midpoint is a float64, hence so is the threshold as deployed.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from certiforest.ensemble import ModelError
from certiforest.ensemble.documents import numbers
from certiforest.ensemble.tree_kernels import LARGEST

LARGEST_ROUNDED = math.nextafter(2.0**128 - 2.0**103, 0.0)  # beyond, numbers round to infinity


def deployed_thresholds(threshold: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the float64 thresholds that act on float64 rows as the given ones act on rows rounded to float32.

    A threshold of +inf, with which scikit-learn parts missing values from all others, becomes the largest float64: no
    number goes right.
    """
    with np.errstate(over="ignore"):
        nearest = threshold.astype(np.float32)
        below = np.where(nearest > threshold, np.nextafter(nearest, np.float32(-np.inf)), nearest).astype(np.float32)
        above = np.nextafter(below, np.float32(np.inf)).astype(np.float64)
    if not (below[~np.isposinf(threshold)] > -np.inf).all():
        raise ModelError("Expected thresholds within the range of float32, got one below it.")
    # The float32 after the largest would be 2**128, halfway to which rounding goes to infinity.
    above = np.where(np.isinf(above), 2.0**128, above)
    middle = below.astype(np.float64) / 2 + above / 2
    is_even = (below.view(np.int32) & 1) == 0
    deployed = np.where(is_even, middle, np.nextafter(middle, -np.inf))
    return np.where(np.isposinf(threshold), LARGEST, deployed)


def deployed_strict_thresholds(threshold: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return the same for libraries that go left iff the rounded value is less than a float32 threshold."""
    return deployed_thresholds(np.nextafter(threshold, np.float32(-np.inf)).astype(np.float64))


def rounds_to(value: float) -> tuple[float, float]:
    """Return the smallest and the largest float64 that round to the float32 nearest to a value."""
    single = np.float32(value)
    below = np.nextafter(single, np.float32(-np.inf))
    low, high = deployed_thresholds(np.array([below, single], np.float64))
    return math.nextafter(low, math.inf), float(high)


def parse_single(text: str) -> float:
    """Return a float64 that rounds to the float32 nearest to the number written.

    Rounding twice, to float64 and then to float32, goes wrong where the first step lands halfway between two float32.
    """
    value = float(text)
    if math.isfinite(value):
        half_step = math.ldexp(1.0, max(math.frexp(value)[1] - 25, -150))
        if (value / half_step) % 2 == 1 and Fraction(text) != Fraction(value):
            return math.nextafter(value, math.inf if Fraction(text) > Fraction(value) else -math.inf)
    return value


def singles(document: Any, *path: str, size: int | None = None) -> NDArray[np.float32]:
    """Return the list of numbers at a path of a document as float32, NaN and infinity included."""
    with np.errstate(over="ignore"):
        return numbers(document, *path, size=size).astype(np.float32)

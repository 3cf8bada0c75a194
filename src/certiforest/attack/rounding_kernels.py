"""THE rounding rule: comparisons of differences of floats that are right to the last bit.

A difference of two floats is seldom a float, but it is always the sum of two: the rounded difference and its
rounding error (after Dekker: exact wherever the rounded difference is finite, since no step in between is larger than
the numbers themselves). A budget is kept the same way, as ``rounded + rest`` (see `attack.budgets.Budgets`). Rounding
is monotone, so the rounded parts decide unless they are equal, and then the errors do. No tolerance anywhere, and no
``fastmath``: the compiler must not simplify these lines.
"""

import math

import numpy as np

from certiforest.compiled import kernel


@kernel
def difference(a, b):
    """Return ``fl(a - b)`` and its error: their sum is ``a - b`` exactly."""
    d = a - b
    if abs(a) >= abs(b):
        return d, (a - d) - b
    return d, a - (d + b)


@kernel
def is_within(a, b, rounded, rest):
    """Tell whether ``a - b <= rounded + rest``, exactly."""
    d, e = difference(a, b)
    return d < rounded or (d == rounded and e <= rest)


@kernel
def successor(v):
    """Return the next float above ``v``."""
    return np.nextafter(v, math.inf)


@kernel
def ceil_difference(a, b):
    """Return the smallest float that is not below ``a - b``."""
    d, e = difference(a, b)
    return successor(d) if e > 0.0 else d


@kernel
def find_fraction(X, is_whole):
    """Return row and column of the first number that is not whole where it should be, (-1, -1) if there is none."""
    for row in range(X.shape[0]):
        x, n_fractions = X[row], 0
        for f in range(len(x)):  # without a way out in between, the compiler takes several at once
            n_fractions += is_whole[f] & (x[f] > np.floor(x[f]))
        if n_fractions:
            for f in range(len(x)):
                if is_whole[f] and x[f] > np.floor(x[f]):
                    return row, f
    return -1, -1

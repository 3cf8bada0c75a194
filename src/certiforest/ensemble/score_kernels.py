"""Sums of leaf scores: in floats, and exactly where floats cannot tell.

A score is also kept as digits of base 2**32 in units of the smallest power of two that occurs in any of them, so
that adding digits adds scores without error::

    score      0.75     -0.5      2**-40          unit 2**-40
    digit 0    0         0        1
    digit 1    0xc0     -0x80     0               0.75 = 0xc0 * 2**32 * 2**-40
"""

from typing import NamedTuple

from numpy import ndarray

from certiforest.compiled import kernel
from certiforest.ensemble.tree_kernels import find_leaf

DIGIT_BITS = 32
DIGIT_MASK = 2**DIGIT_BITS - 1


class Scores(NamedTuple):
    """The scores of a summing ensemble as kernels take them: one column per class, the base as the last row.

    An ensemble with one output for two classes has the columns 0 and score: "above zero" and "the lower class wins
    ties" then say the same.
    """

    value: ndarray  # (n_scores + 1, n_classes) float64
    digit: ndarray  # (n_scores + 1, n_classes, n_digits) int64, lowest digit first; digits have the sign of the score
    slack: float  # no sum or difference of sums, in floats, is further than this from the exact one
    step: float  # sums are exact in floats, and leaves of one tree differ in leads by multiples of this; 0 if not so


@kernel
def exact_sign(digit, chosen, a, b):
    """Return the sign of the sum of class ``a`` minus that of class ``b`` over the score rows ``chosen`` and the base.

    Digits stay below 2**32, so that 2**29 trees would have to come together before their sum leaves 64 bits.
    """
    last = digit.shape[2] - 1
    base = digit.shape[0] - 1
    carry = 0
    has_rest = False
    for k in range(last + 1):
        carry += digit[base, a, k] - digit[base, b, k]
        for i in range(chosen.shape[0]):
            carry += digit[chosen[i], a, k] - digit[chosen[i], b, k]
        if k < last:  # what is left below is at least 0 and less than one unit of the next digit
            has_rest |= (carry & DIGIT_MASK) != 0
            carry >>= DIGIT_BITS
    if carry < 0:
        return -1
    return 1 if carry > 0 or has_rest else 0


@kernel
def leads(total, slack, digit, chosen, a, b):
    """Tell whether class ``a`` has a larger exact sum than ``b``, or an equal one and the lower index."""
    ahead = total[a] - total[b]
    if abs(ahead) > slack:
        return ahead > 0.0
    sign = exact_sign(digit, chosen, a, b)
    return sign > 0 or (sign == 0 and a < b)


@kernel
def find_winner(total, slack, digit, chosen):
    """Return the class with the largest exact sum, the lowest on ties.

    ``total`` (n_classes,) holds the sums in floats, ``chosen`` (n_trees,) the score rows they are made of.
    """
    winner = 0
    for c in range(1, total.shape[0]):
        if leads(total, slack, digit, chosen, c, winner):
            winner = c
    return winner


@kernel
def add_scores(trees, X, value, out):
    """Add the base and each tree's score, in the order of the trees, to ``out`` (n_rows, n_outputs), zero at first."""
    base = value.shape[0] - 1
    for i in range(X.shape[0]):
        for c in range(value.shape[1]):
            out[i, c] += value[base, c]
        for tree in range(trees.tree_start.shape[0] - 1):
            row = trees.leaf[find_leaf(trees, tree, X[i])]
            for c in range(value.shape[1]):
                out[i, c] += value[row, c]


@kernel
def add_up(scores, chosen, out_total):
    """Write the sums of the score rows ``chosen`` and the base to ``out_total``; return the predicted class."""
    value = scores.value
    base = value.shape[0] - 1
    for c in range(out_total.shape[0]):
        out_total[c] = value[base, c]
    for tree in range(chosen.shape[0]):
        for c in range(out_total.shape[0]):
            out_total[c] += value[chosen[tree], c]
    return find_winner(out_total, scores.slack, scores.digit, chosen)


@kernel
def find_winners(trees, X, scores, chosen, total, out):
    """Write the predicted class of each row to ``out``; ``chosen`` (n_trees,), ``total`` (n_classes,) are scratch."""
    for i in range(X.shape[0]):
        for tree in range(chosen.shape[0]):
            chosen[tree] = trees.leaf[find_leaf(trees, tree, X[i])]
        out[i] = add_up(scores, chosen, total)

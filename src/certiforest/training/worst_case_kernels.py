"""Worst-case margins of sums of trees, and the slope of the loss at the leaves where the attacker sends each row.

A row of class y can be moved to some leaves of a tree. Against rival c it ends in the leaf where y's score exceeds
c's least:

    leaf         3     8     9
    score y     .5    .1   -.2
    score c    -.4    .3   -.1
    y over c    .9   -.2   -.1        against c the attacker chooses leaf 8, and the margin against c falls by .2
"""

import numpy as np

from certiforest.compiled import kernel

LARGEST_EXPONENT = 30.0


@kernel
def worst_leaf(start, leaf, i, own, rival, value):
    """Return the leaf in reach of row i in which ``own`` leads ``rival`` least."""
    worst = leaf[start[i]]
    least = value[worst, own] - value[worst, rival]
    for j in range(start[i] + 1, start[i + 1]):
        lead = value[leaf[j], own] - value[leaf[j], rival]
        if lead < least:
            worst, least = leaf[j], lead
    return worst


@kernel
def weigh_rivals(margin, own, is_exponential, out):
    """Write how fast a row's loss falls with its margin against each rival; return the loss.

    The loss is ``log(1 + sum_c exp(-margin[c]))``, or without the logarithm ``sum_c exp(-margin[c])``.
    """
    total = 0.0
    for c in range(margin.shape[0]):
        out[c] = 0.0 if c == own else np.exp(min(LARGEST_EXPONENT, -margin[c]))
        total += out[c]
    if is_exponential:
        return total
    for c in range(margin.shape[0]):
        out[c] /= 1.0 + total
    return np.log1p(total)


@kernel
def sum_slopes(
    start, leaf, value, margin, class_index, weight, is_exponential, out_slope, out_curvature
):  # fmt: skip
    """Add up slope and curvature of the loss at each leaf and class for a tree's values; return the loss.

    ``margin`` is that of the other trees, shape (n_rows, n_classes).
    """
    n_classes = margin.shape[1]
    worst = np.empty(n_classes, np.int64)
    moved, slope = np.empty(n_classes), np.empty(n_classes)
    loss = 0.0
    for i in range(margin.shape[0]):
        if weight[i] == 0.0:
            continue
        own = class_index[i]
        for c in range(n_classes):
            if c != own:
                worst[c] = worst_leaf(start, leaf, i, own, c, value)
                moved[c] = margin[i, c] + value[worst[c], own] - value[worst[c], c]
        loss += weight[i] * weigh_rivals(moved, own, is_exponential, slope)
        for c in range(n_classes):
            if c != own:
                curvature = slope[c] if is_exponential else slope[c] * (1.0 - slope[c])
                out_slope[worst[c], own] -= weight[i] * slope[c]
                out_slope[worst[c], c] += weight[i] * slope[c]
                out_curvature[worst[c], own] += weight[i] * curvature
                out_curvature[worst[c], c] += weight[i] * curvature
    return loss


@kernel
def add_worst_case(start, leaf, value, class_index, sign, margin):
    """Add (sign 1.0) or take away (-1.0) one tree's worst case to each row's margin against each rival."""
    for i in range(margin.shape[0]):
        own = class_index[i]
        for c in range(margin.shape[1]):
            if c != own:
                worst = worst_leaf(start, leaf, i, own, c, value)
                margin[i, c] += sign * (value[worst, own] - value[worst, c])


@kernel
def sum_losses(margin, class_index, weight, is_exponential):
    """Return the weighted sum of all rows' losses."""
    slope = np.empty(margin.shape[1])
    total = 0.0
    for i in range(margin.shape[0]):
        total += weight[i] * weigh_rivals(margin[i], class_index[i], is_exponential, slope)
    return total


@kernel
def sum_rivals(margin, class_index, is_exponential, out):
    """Write how fast each row's loss falls when its margins against all rivals rise together."""
    slope = np.empty(margin.shape[1])
    for i in range(margin.shape[0]):
        weigh_rivals(margin[i], class_index[i], is_exponential, slope)
        out[i] = slope.sum()

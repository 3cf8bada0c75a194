"""The loss of worst-case margins, and its slope at the leaves where the attacker sends each row."""

import numpy as np

from certiforest.compiled import kernel
from certiforest.training.worst_case_kernels import worst_leaf

LARGEST_EXPONENT = 30.0


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
def sum_slopes(reached, value, margin, price, class_index, weight, is_exponential, out):
    """Add up slope and curvature of the loss at each leaf and class for a tree's values; return the loss.

    ``margin`` is that of the other trees, ``price`` that of a unit of cost, (n_rows, n_classes) each; ``out`` is
    (2, n_nodes, n_classes).
    """
    n_classes = margin.shape[1]
    worst = np.empty(n_classes, np.int64)
    moved, slope = np.empty(n_classes), np.empty(n_classes)
    out_slope, out_curvature = out[0], out[1]
    loss = 0.0
    for i in range(margin.shape[0]):
        if weight[i] == 0.0:
            continue
        own = class_index[i]
        for c in range(n_classes):
            if c != own:
                worst[c], lead = worst_leaf(reached, i, own, c, value, price[i, c])
                moved[c] = margin[i, c] + lead
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
def sum_rivals(margin, class_index, is_exponential, out):
    """Write each row's loss and how fast it falls when the margins against all rivals rise together; (2, n_rows)."""
    slope = np.empty(margin.shape[1])
    for i in range(margin.shape[0]):
        out[0, i] = weigh_rivals(margin[i], class_index[i], is_exponential, slope)
        out[1, i] = slope.sum()

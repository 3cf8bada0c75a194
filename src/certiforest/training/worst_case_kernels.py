"""Worst cases of single trees: the leaf to which the attacker sends a row against each rival.

A row of class y can be moved to some leaves of a tree. Against rival c it ends in the leaf where y's value exceeds
c's least; where moves cost, after the cost times the price of a unit of cost is added:

    leaf         3     8     9
    value y     .5    .1   -.2
    value c    -.4    .3   -.1
    y over c    .9   -.2   -.1        without costs the attacker chooses leaf 8 against c: the margin falls by .2
    cost        0.    2.    1.        at price .2: .9, .2, .1, and leaf 9 is the worst
"""

import numpy as np

from certiforest.compiled import kernel


@kernel
def worst_leaf(reached, i, own, rival, value, price):
    """Return the leaf in reach of row i that is worst for ``own`` against ``rival``, and how bad it is."""
    worst, least = -1, np.inf
    for j in range(reached.start[i], reached.start[i + 1]):
        leaf = reached.leaf[j]
        lead = value[leaf, own] - value[leaf, rival] + price * reached.cost[j]
        if lead < least:
            worst, least = leaf, lead
    return worst, least


@kernel
def add_worst_case(reached, value, class_index, prices, sign, margins):
    """Add (sign 1.0) or take away (-1.0) one tree's worst case at each price, ``margins`` (n_prices, n, n_classes)."""
    for k in range(prices.shape[0]):
        for i in range(margins.shape[1]):
            own = class_index[i]
            for c in range(margins.shape[2]):
                if c != own:
                    margins[k, i, c] += sign * worst_leaf(reached, i, own, c, value, prices[k])[1]


@kernel
def sum_leaf_weights(reached, class_index, weight, out):
    """Add the weight of each row to every leaf it can reach, ``out`` of shape (n_nodes, n_classes)."""
    for i in range(reached.start.shape[0] - 1):
        for j in range(reached.start[i], reached.start[i + 1]):
            out[reached.leaf[j], class_index[i]] += weight[i]

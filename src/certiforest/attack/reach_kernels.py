"""How far an attacker comes, to the last bit: differences of floats, and the leaves of a tree that a row reaches.

THE rounding rule: a difference of two floats is seldom a float, but it is always the sum of two, the rounded
difference and its rounding error (after Dekker: exact wherever the rounded difference is finite, since no step in
between is larger than the numbers themselves). A budget is kept the same way, as ``rounded + rest`` (see
`attack.prices.Budgets`). Rounding is monotone, so the rounded parts decide unless they are equal, and then the errors
do. No tolerance anywhere, and no ``fastmath``: the compiler must not simplify these lines.

A visit to a tree goes down the path of the row itself and puts every other side that the attacker can reach on a stack.
Seen from the row, a side costs nothing or is the *other* side; because dead branches are cut when an ensemble is
built, a leaf is within an L-inf budget iff every split on its path is: three intervals of a line that meet in
pairs meet in one point. So L-inf needs no state, and other norms only the cost so far.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy import ndarray

from certiforest.compiled import kernel


class Allowance(NamedTuple):
    """What an attacker may spend on each feature, and on all of them together.

    Each feature alone is held to ``budgets`` (see `attack.prices.Budgets`). Costs are in multiples of ``unit``
    (2, n_features), down and up, to the power of the norm; together they may reach ``limit``. Rounding takes a sum of
    them no further than ``slack``. Columns that take one of a few values have an infinite unit: their values are
    listed, with prices. Where features do not share a budget, ``norm`` is -1 and there is no limit.
    """

    budgets: tuple
    unit: ndarray
    norm: int
    limit: float
    slack: float


class PricedNodes(NamedTuple):
    """Nodes, and what it costs to get there; arrays with room for all nodes of a model."""

    node: ndarray
    cost: ndarray


@kernel
def new_priced_nodes(trees):
    """Return room for the nodes of a model."""
    n = trees.feature.shape[0] + 1
    return PricedNodes(np.empty(n, np.int64), np.empty(n))


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


@kernel
def list_overlaps(feature, value, tree, budget_high, budget_low, out_first, out_second):
    """Write pairs ``(i, j)``, ``i < j``, of one feature and two trees with ``value[j] - value[i]`` within budget.

    Pairs beyond the length of the outputs are counted, not written; return how many there are.
    """
    n_pairs = 0
    for i in range(feature.shape[0]):
        f = feature[i]
        for j in range(i + 1, feature.shape[0]):
            if feature[j] != f or not is_within(value[j], value[i], budget_high[f], budget_low[f]):
                break
            if tree[i] != tree[j]:
                if n_pairs < out_first.shape[0]:
                    out_first[n_pairs] = i
                    out_second[n_pairs] = j
                n_pairs += 1
    return n_pairs


@kernel
def list_differences(a, b, out_rounded, out_error):
    """Write ``a - b`` entry by entry, as the rounded difference and its error."""
    for i in range(a.shape[0]):
        out_rounded[i], out_error[i] = difference(a[i], b[i])


@kernel
def other_side_is_near(value, threshold, above, rounded, rest):
    """Tell whether a feature may be moved across a threshold within its budget (see `Budgets`) that way, exactly.

    From the left side the target is ``above``, the smallest value on the right side, from the right the threshold
    itself. An infinite budget has no limit at all; a negative one belongs to a move that is not allowed.
    """
    distance = value - threshold
    # Rounding is monotone: if this exceeds the budget, so does the exact difference. Nothing is near to NaN.
    if not abs(distance) <= rounded:
        return False
    if rounded == math.inf:
        return True
    if distance <= 0.0:
        return is_within(above, value, rounded, rest)
    return is_within(value, threshold, rounded, rest)


@kernel
def claim(owner, feature, tree):
    """Note that ``tree`` has a split on ``feature`` that the attacker can turn; True if another one has, too.

    A feature that nobody has claimed has owner -1; one that no tree may have for itself has -2.
    """
    if owner[feature] == -1:
        owner[feature] = tree
    return owner[feature] != tree


@kernel
def descend(trees, node, stride, x, near, stack, depth):
    """Go down to the leaf of row ``x`` below a node and put every split near the path on the stack.

    Return the leaf and the new height of the stack. Nearness is judged by rounded numbers here and may be granted too
    often, never too seldom; nothing in the inner loop depends on a guess of the processor.
    """
    feature, threshold, right = trees.feature, trees.threshold, trees.right
    node = np.uint32(node)  # which is not asked whether it counts from behind
    while right[node] != node:
        for _ in range(stride):
            value, v = x[feature[node]], threshold[node]
            stack[depth] = node
            depth += abs(value - v) <= near[feature[node]]
            node = np.uint32(node + 1) if value <= v else right[node]
    return node, depth


@kernel
def power(base, exponent):
    """Return ``base ** exponent`` for a whole exponent >= 1, by multiplication."""
    result = base
    for _ in range(exponent - 1):
        result *= base
    return result


@kernel
def raised_cost(cost, x, bound, target, unit, norm):
    """Return the cost of a path after one of its features has to move on from ``bound`` to ``target``.

    ``bound`` is where the path so far makes the feature go (``x`` itself if nowhere). ``norm`` is -1 for L-inf,
    whose cost is the largest move (rounded up, exact for a unit of 1); otherwise costs are sums of p-th powers. A
    feature whose moves are counted elsewhere has an infinite unit, and costs nothing here.
    """
    if norm == -1:
        step = ceil_difference(max(x, target), min(x, target))
        return max(cost, step / unit)
    if norm == 0:
        return cost + 1.0 / unit if bound == x else cost
    moved = power(abs(target - x) / unit, norm)
    return cost + moved if bound == x else cost + (moved - power(abs(bound - x) / unit, norm))


@kernel
def crossing_cost(cost, x, v, above, first, last, unit, norm):
    """Return the cost of a path after crossing a threshold ``v`` to the side on which ``x`` is not.

    ``above`` is the smallest value on the right side. ``cost`` is that of the path so far, which leaves the values from
    ``first`` to ``last`` to the feature. ``unit`` is that of a move to this side.
    """
    if x > v:
        return raised_cost(cost, x, min(x, last), v, unit, norm)
    return raised_cost(cost, x, max(x, first), above, unit, norm)


@kernel
def list_leaves(trees, tree, x, allowance, owner, stack, out, n):
    """Append every leaf of one tree within the allowance, the row's own first, at place ``n`` of ``out``.

    Return the new number of leaves listed, and whether the tree has a split in reach on a feature that another tree has
    one on. ``owner`` (n_features,) is for `claim`; with length 0 the trees are not compared. ``stack`` and ``out`` are
    `PricedNodes`.
    """
    budgets, unit, norm, limit, slack = allowance
    stack_node, stack_cost, out_leaf, out_cost = stack.node, stack.cost, out.node, out.cost
    watch, most = owner.shape[0] > 0, limit + slack
    meets = False
    stride = trees.stride[tree]
    node, depth = descend(trees, trees.tree_start[tree], stride, x, budgets.near, stack_node, 0)
    out_leaf[n], out_cost[n] = node, 0.0
    n += 1
    for place in range(depth):
        stack_cost[place] = 0.0
    while depth > 0:
        depth -= 1
        split, cost = stack_node[depth], stack_cost[depth]
        f, v = trees.feature[split], trees.threshold[split]
        value = x[f]
        side = 0 if value > v else 1
        if not other_side_is_near(value, v, trees.above[split], budgets.rounded[side, f], budgets.rest[side, f]):
            continue
        other = split + 1 if value > v else trees.right[split]
        price = unit[side, f]
        cost = crossing_cost(cost, value, v, trees.above[split], trees.first[split], trees.high[split], price, norm)
        if cost > most:
            continue
        if watch and claim(owner, f, tree):
            meets = True
        height = depth
        node, depth = descend(trees, other, stride, x, budgets.near, stack_node, depth)
        for place in range(height, depth):
            stack_cost[place] = cost
        out_leaf[n], out_cost[n] = node, cost
        n += 1
    return n, meets


@kernel
def enter_leaf(trees, tree, leaf, z):
    """Move row ``z`` into the box of a leaf, each feature as little as possible; NaN is neither moved nor compared."""
    node = trees.tree_start[tree]
    while node != leaf:
        f, v = trees.feature[node], trees.threshold[node]
        if leaf < trees.right[node]:
            if z[f] > v:
                z[f] = v
            node += 1
        else:
            if z[f] <= v:
                z[f] = trees.above[node]
            node = trees.right[node]

"""What one tree can be made to say: which leaves an attacker reaches, and at what cost.

A visit goes down the path of the row itself and puts every other side that the attacker can reach on a stack.
Seen from the row, a side costs nothing or is the *other* side; because dead branches are cut when an ensemble is
built, a leaf is within an L-inf budget iff every split on its path is: three intervals of a line that meet in
pairs meet in one point. So L-inf needs no state, and other norms only the cost so far.
"""

import math

import numpy as np

from certiforest.attack.rounding_kernels import ceil_difference, is_within
from certiforest.compiled import kernel


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
def list_leaves(trees, tree, x, budgets, unit, norm, limit, owner, stack, stack_cost, n, out_leaf, out_cost):
    """Append every leaf of one tree that costs at most ``limit``, the row's own first, at place ``n`` of the outputs.

    Costs are powers of norms in units of ``unit`` (2, n_features), down and up, see `raised_cost`. Return the new
    number of leaves listed, and whether the tree has a split in reach on a feature that another tree has one on.
    ``owner`` (n_features,) is for `claim`; with length 0 the trees are not compared.
    """
    watch = owner.shape[0] > 0
    meets = False
    stride = trees.stride[tree]
    node, depth = descend(trees, trees.tree_start[tree], stride, x, budgets.near, stack, 0)
    out_leaf[n], out_cost[n] = node, 0.0
    n += 1
    for place in range(depth):
        stack_cost[place] = 0.0
    while depth > 0:
        depth -= 1
        split, cost = stack[depth], stack_cost[depth]
        f, v = trees.feature[split], trees.threshold[split]
        value = x[f]
        side = 0 if value > v else 1
        if not other_side_is_near(value, v, trees.above[split], budgets.rounded[side, f], budgets.rest[side, f]):
            continue
        other = split + 1 if value > v else trees.right[split]
        price = unit[side, f]
        cost = crossing_cost(cost, value, v, trees.above[split], trees.first[split], trees.high[split], price, norm)
        if cost > limit:
            continue
        if watch and claim(owner, f, tree):
            meets = True
        height = depth
        node, depth = descend(trees, other, stride, x, budgets.near, stack, depth)
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

"""Exact prices: the cheapest change of a row in rational arithmetic, for when floats cannot tell.

The kernels add up powers of distances with a known error. When the budget lies inside that error, and whenever a
radius is asked for in a norm whose value is not a float, the few leaves that matter are priced here again, in
`fractions.Fraction`. The norm is whole, so all powers of norms are rational and every comparison is exact.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from certiforest.attack.attacker import Attacker
from certiforest.ensemble import TreeEnsemble
from certiforest.verification.composition_kernels import cheapest_gain, votes_to_gain


class Change(NamedTuple):
    """The cheapest way to another prediction: the p-th power of its norm (inf if there is none), and how.

    ``target`` (n_trees,) is the class each tree is moved to, -1 for none, ``leaf`` (n_trees, n_classes) the leaves.
    Where scores add up there is one column of leaves, and the target is 0. If ``is_exact`` is False, the cost is a
    lower bound and there are no targets.
    """

    cost: Fraction | float
    target: NDArray[np.int64]
    leaf: NDArray[np.int64]
    is_exact: bool = True


def exact_budget(attacker: Attacker) -> Fraction:
    """Return the p-th power of eps (eps itself for L-inf and L0), the unit in which changes are priced here."""
    return Fraction(attacker.eps) ** (int(attacker.norm) if 0 < attacker.norm < math.inf else 1)


def exact_change(
    ensemble: TreeEnsemble, x: NDArray[np.float64], attacker: Attacker, ceiling: Sequence[Fraction | float]
) -> Change:
    """Return the cheapest change of a row at which no two trees meet, looking at leaves up to a ceiling.

    Parameters
    ----------
    ensemble : TreeEnsemble
        Already restricted to the attacker's domain.
    x : ndarray, shape (n_features,)
    attacker : Attacker
        Its budget plays no role.
    ceiling : sequence of length n_trees
        Leaves of a tree that cost more than this are not looked at.
    """
    shape = ensemble.n_trees, ensemble.n_classes
    cost, leaf = np.full(shape, math.inf, dtype=object), np.full(shape, -1)
    vote = np.empty(ensemble.n_trees, np.int64)
    scale, frozen = attacker.scale_of(ensemble.n_features), attacker.is_frozen(ensemble.n_features)
    for tree in range(ensemble.n_trees):
        vote[tree] = -1
        for node, price in priced_leaves(ensemble, tree, x, attacker.norm, scale, frozen, ceiling[tree]):
            c = int(ensemble.leaf[node])
            if vote[tree] < 0:
                vote[tree] = c
            if price < cost[tree, c]:
                cost[tree, c], leaf[tree, c] = price, node
    # Whole numbers over one denominator add and compare many times faster than fractions.
    finite = [price for price in cost.flat if price != math.inf]
    unit = math.lcm(*{price.denominator for price in finite})
    never = 1 + math.ceil(sum(finite) * unit)
    for place, price in enumerate(cost.flat):
        cost.flat[place] = never if price == math.inf else price.numerator * (unit // price.denominator)
    votes = np.bincount(vote, minlength=ensemble.n_classes)
    y = int(votes.argmax())
    is_max = attacker.norm == math.inf
    least = never
    target = np.full(ensemble.n_trees, -1)
    best = np.empty(ensemble.n_trees + 2, object)
    choice = np.empty((ensemble.n_trees, ensemble.n_trees + 2), np.int8)
    for rival in range(ensemble.n_classes):
        if rival != y:
            lead = votes_to_gain.py_func(votes, y, rival)
            total = cheapest_gain.py_func(cost, vote, y, rival, lead, is_max, least, never, best, choice, target)
            least = min(least, total)
    return Change(math.inf if least >= never else Fraction(least, unit), target, leaf)


def priced_leaves(
    ensemble: TreeEnsemble,
    tree: int,
    x: NDArray[np.float64],
    norm: float,
    scale: NDArray[np.float64],
    frozen: NDArray[np.bool_],
    ceiling: Fraction | float,
) -> Iterator[tuple[int, Fraction]]:
    """Yield the leaves of one tree that cost at most the ceiling, with their costs; the row's own comes first."""
    # (node, cost, price of the move of each moved feature)
    waiting: list[tuple[int, Fraction, dict[int, Fraction]]] = [(int(ensemble.tree_start[tree]), Fraction(0), {})]
    while waiting:
        node, cost, moves = waiting.pop()
        while ensemble.feature[node] >= 0:
            f, v = int(ensemble.feature[node]), float(ensemble.threshold[node])
            value = float(x[f])
            own, other = node + 1, int(ensemble.right[node])
            target = math.nextafter(v, math.inf)
            if value > v:
                own, other, target = other, own, v
            if not frozen[f]:
                price = price_move(value, target, float(scale[f]), norm)
                paid = moves.get(f, Fraction(0))
                raised = max(cost, price) if norm == math.inf else cost - paid + price
                if raised <= ceiling:
                    waiting.append((other, raised, {**moves, f: price}))
            node = own
        yield node, cost


def price_move(value: float, target: float, unit: float, norm: float) -> Fraction:
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

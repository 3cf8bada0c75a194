"""The referee: brute force over every cell of a small ensemble, in exact rationals.

Nothing here shares code with the package. Trees are nested tuples ``(feature, threshold, left, right)``, and leaves are
a class index, or a list of scores where a case has a base to add them to. The thresholds of all trees cut each feature
into intervals on which nothing changes; the best an attacker can do within an interval is to go to its float nearest to
the row. All combinations of intervals are tried.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from fractions import Fraction

INF = math.inf
LARGEST = 1.7976931348623157e308


@dataclass(frozen=True)
class Case:
    """One row, one ensemble, one attacker."""

    trees: list
    n_features: int
    n_classes: int
    x: list[float]
    norm: float
    eps: float
    scale: list[float] | None = None
    frozen: list[int] | None = None
    domain: tuple[list[float], list[float]] | None = None
    base: list[float] | None = None


def leaf_of(tree, x):
    while isinstance(tree, tuple):
        f, v, left, right = tree
        tree = left if x[f] <= v else right
    return tree


def predict(case: Case, x):
    leaves = [leaf_of(tree, x) for tree in case.trees]
    if case.base is None:
        votes = [leaves.count(c) for c in range(case.n_classes)]
        return votes.index(max(votes))
    sums = exact_sums(case.base, leaves)
    return int(sums[0] > 0) if len(sums) == 1 < case.n_classes else sums.index(max(sums))


def exact_sums(base, leaves) -> list[Fraction]:
    return [sum(map(Fraction, column), Fraction(0)) for column in zip(base, *leaves, strict=True)]


def splits(tree):
    if isinstance(tree, tuple):
        f, v, left, right = tree
        yield f, v
        yield from splits(left)
        yield from splits(right)


def reachable_values(case: Case, f: int) -> list[tuple[float, Fraction]]:
    """The nearest float of each interval of feature f, and the price of going there (p-th power of the move)."""
    x = case.x[f]
    if case.frozen is not None and f in case.frozen:
        return [(x, Fraction(0))]
    low, high = (-INF, INF) if case.domain is None else (case.domain[0][f], case.domain[1][f])
    low, high = max(low, -LARGEST), min(high, LARGEST)
    cuts = sorted({v for tree in case.trees for g, v in splits(tree) if g == f})
    values = []
    for left, right in itertools.pairwise([None, *cuts, None]):
        start = low if left is None else max(low, math.nextafter(left, INF))
        stop = high if right is None else min(high, right)
        if start <= stop:
            z = min(max(x, start), stop)
            values.append((z, price(case, f, z)))
    return values


def price(case: Case, f: int, z: float) -> Fraction:
    if z == case.x[f]:
        return Fraction(0)
    if case.norm == 0:
        return Fraction(1)
    scale = 1.0 if case.scale is None else case.scale[f]
    move = abs(Fraction(z) - Fraction(case.x[f])) / Fraction(scale)
    return move if case.norm == INF else move ** int(case.norm)


def total(case: Case, prices) -> Fraction:
    return max(prices) if case.norm == INF else sum(prices)


def budget(case: Case, eps: float) -> Fraction:
    return Fraction(eps) if case.norm in (0, INF) else Fraction(eps) ** int(case.norm)


def cheapest_change(case: Case) -> Fraction | None:
    """The least price (p-th power of a norm) at which the prediction changes, None if it never does."""
    own = predict(case, case.x)
    used = sorted({f for tree in case.trees for f, _ in splits(tree)})
    best = None
    z = list(case.x)
    for choice in itertools.product(*(reachable_values(case, f) for f in used)):
        cost = total(case, [p for _, p in choice]) if choice else Fraction(0)
        if best is not None and cost >= best:
            continue
        for f, (value, _) in zip(used, choice, strict=True):
            z[f] = value
        if predict(case, z) != own:
            best = cost
    return best

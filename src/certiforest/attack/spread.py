"""Spread: how far apart the thresholds of different trees are, and for which attacker that is far enough.

Large spread is what makes verification exact in polynomial time: if thresholds on one feature in different trees
are more than ``2 * eps`` apart, no change of that feature crosses both, so attacks on different trees touch
different features and their costs simply add up (the paper's theorem, ``docs/how_it_works.md``). Where a feature moves
one way only, ``eps`` is enough; where its units differ, what the budget allows down and up, added up.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from certiforest.attack import reach_kernels as kernels
from certiforest.attack.attacker import Attacker
from certiforest.attack.moves import Moves
from certiforest.attack.parameters import Column
from certiforest.attack.prices import split_budgets
from certiforest.ensemble import TreeEnsemble
from certiforest.ensemble.tree_kernels import LARGEST

# Below this, numbers have fewer bits than others.
TINY = 1e-290


class Thresholds(NamedTuple):
    """Every split of an ensemble, sorted by feature, then threshold, then node; columns of one length."""

    feature: NDArray[np.int32]
    value: NDArray[np.float64]
    tree: NDArray[np.int64]
    node: NDArray[np.int64]


class Overlaps(NamedTuple):
    """Pairs of splits on one feature, in different trees, at most ``2 * eps`` apart; columns of one length.

    The first split of a pair has the smaller threshold (or equal thresholds and the lower node index).
    """

    feature: NDArray[np.int32]
    first_node: NDArray[np.int64]
    second_node: NDArray[np.int64]


def sorted_thresholds(ensemble: TreeEnsemble, moves: Moves | None = None) -> Thresholds:
    """Return the splits of an ensemble sorted by feature and threshold.

    With what an attacker may do, only the splits that it could turn: not on frozen features, not outside its domain.
    Splits on a column that it can turn whatever they test, by another category or a blank, stand together at 0, those
    of one group as if on its first column.
    """
    node = ensemble.number_splits
    feature, value = ensemble.feature[node], ensemble.threshold[node]
    if moves is not None:
        is_whole = np.zeros(ensemble.n_features, bool)
        is_whole[[f for f, cost in moves.jump_costs.items() if moves.affords(cost)]] = True
        if is_whole.any():
            node = np.append(node[~is_whole[feature]], _splits_on(ensemble, moves, is_whole))
            feature = ensemble.feature[node]
            value = np.where(is_whole[feature], 0.0, ensemble.threshold[node])
        _, may_move, low, high, _ = moves.numbers
        can_move = is_whole | (may_move.any(axis=0) & ~moves.is_choice)
        is_inside = is_whole[feature] | ((low[feature] <= value) & (value < high[feature]))
        keep = np.flatnonzero(can_move[feature] & is_inside)
        node, feature, value = node[keep], _variables(moves)[feature[keep]].astype(feature.dtype), value[keep]
        if is_whole.any():
            order = np.lexsort((node, value, feature))
            node, feature, value = node[order], feature[order], value[order]
    return Thresholds(feature, value, ensemble.tree_of_node[node], node)


def _variables(moves: Moves) -> NDArray[np.int64]:
    """Return the column for which each one stands, shape (n_features,): itself, or the first of its group."""
    variable = np.arange(moves.n_features)
    for group in moves.groups:
        variable[list(group)] = group[0]
    return variable


def _splits_on(ensemble: TreeEnsemble, moves: Moves, columns: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return the splits on some columns, but those of one-hot columns that send 0 and 1 the same way."""
    node = np.flatnonzero((ensemble.feature >= 0) & columns[ensemble.feature])
    value = ensemble.threshold[node]
    return node[~moves.is_in_group[ensemble.feature[node]] | ((value >= 0) & (value < 1))]


def exact_spread(ensemble: TreeEnsemble, attacker: Attacker) -> Fraction | None:
    """Return the spread as an exact rational, None if no two trees share an attackable feature.

    The budget of the attacker plays no role. Distances are in shares of what a budget of 1/2 allows a feature down and
    up together: large spread means more than ``2 * eps``. Two trees that test one group, one column of categories, or
    one column whose values can go missing are at most twice as far apart as a budget has to be for such a change, and
    two on a whole feature at least as far as one has to be for a step of 1.
    """
    moves = moves_on(ensemble, attacker)
    by_jump = _jump_spread(ensemble, moves)
    feature, value, tree, _ = sorted_thresholds(ensemble, moves.within(0))
    # The closest pair of two trees is always a pair of neighbours: between its ends the tree changes somewhere.
    near = np.flatnonzero((feature[1:] == feature[:-1]) & (tree[1:] != tree[:-1]))
    if near.size == 0:
        return by_jump if by_jump is None or moves.norm != 0 else Fraction(1)
    if moves.norm == 0:  # two numbers differ in 0 or 1 coordinates
        return Fraction(int((value[near + 1] > value[near]).all()))
    down, up = (moves.numbers.scale * moves.numbers.may_move)[:, feature[near]]
    half = np.where(np.maximum(down, up) < 1, 1.0, 0.5)  # tiny units lose nothing, large ones do not overflow
    distance, error = np.empty(len(near)), np.empty(len(near))
    kernels.list_differences(value[near + 1], value[near], distance, error)
    with np.errstate(over="ignore"):
        gap = distance / (down * half + up * half) * (2 * half)
        step = np.where(moves.numbers.is_whole[feature[near]], 2.0 / np.maximum(down, up), 0.0)
        gap = np.maximum(gap, step)
        # Rounding moves a gap by less than a millionth of a millionth, or is tiny: only these can be the smallest.
        is_small = gap <= max(gap.min() * (1 + 1e-12), TINY)
    near, distance, error, down, up, step = (column[is_small] for column in (near, distance, error, down, up, step))
    # With one scale, the smallest exact distance is the smallest gap. Those that overflow are left to rationals.
    order = np.lexsort((error, distance, step, up, down))
    scales = np.stack([down, up, step])[:, order]
    is_first = np.append(True, (scales[:, 1:] != scales[:, :-1]).any(axis=0))
    chosen = order[is_first | np.isinf(distance[order])]
    gaps = [
        max(
            2 * (Fraction(float(value[i + 1])) - Fraction(float(value[i]))) / (Fraction(d) + Fraction(u)),
            2 / Fraction(max(d, u)) if s else Fraction(0),
        )
        for i, d, u, s in zip(*(column[chosen].tolist() for column in (near, down, up, step)), strict=True)
    ]
    return min([*gaps, *([] if by_jump is None else [by_jump])])


def moves_on(ensemble: TreeEnsemble, attacker: Attacker) -> Moves:
    """Return what an attacker may do on a model."""
    n_features = ensemble.n_features
    return attacker.resolve(n_features, ensemble.feature_names, ensemble.categorical).moves(n_features).on(ensemble)


def _jump_spread(ensemble: TreeEnsemble, moves: Moves) -> Fraction | None:
    """Return twice the least cost of turning any split on a variable that several trees test, by a jump."""
    costs, variable = moves.jump_costs, _variables(moves)
    split = _splits_on(ensemble, moves, np.isin(np.arange(ensemble.n_features), list(costs)))
    pairs = np.unique(np.stack([variable[ensemble.feature[split]], ensemble.tree_of_node[split]]), axis=1)
    column, n_trees = np.unique(pairs[0], return_counts=True)
    return min((2 * costs[f] for f in column[n_trees > 1].tolist()), default=None)


def spread(
    ensemble: TreeEnsemble,
    norm: float | str = np.inf,
    *,
    scale: ArrayLike | tuple[ArrayLike, ArrayLike] | None = None,
    frozen: Iterable[Column] | None = None,
    domain: tuple[ArrayLike, ArrayLike] | None = None,
    direction: str | Mapping[Column, str] | None = None,
    groups: Iterable[Iterable[Column]] | None = None,
    categories: Mapping[Column, float] | None = None,
    missing: float | None = None,
) -> float:
    """Return the smallest distance between two thresholds on one feature in different trees.

    Parameters
    ----------
    ensemble : TreeEnsemble
    norm : int, float or str, default=inf
        The same for every norm but 0, where two thresholds are 0 (equal) or 1 (different) apart.
    scale, frozen, domain, direction, groups, categories, missing : optional
        As in `Attacker`: distances are in units of ``scale``; frozen features and thresholds outside the domain
        do not count. On a feature that moves one way only distances count twice, since half of them is enough.

    Returns
    -------
    float
        Rounded down where the exact distance is not a float; ``inf`` if no two trees share such a feature.

    Examples
    --------
    >>> from certiforest import TreeEnsemble, spread
    >>> trees = TreeEnsemble([0, -1, -1, 0, -1, -1], [0.5, 0, 0, 0.75, 0, 0], [-1, 0, 1, -1, 0, 1],
    ...                      n_features=1, classes=[0, 1])
    >>> spread(trees)
    0.25
    """
    more = {"groups": groups, "categories": categories, "missing": missing}
    attacker = Attacker(norm, 0, scale, frozen, domain, direction=direction, **more)  # type: ignore[arg-type]
    return spread_against(ensemble, attacker)


def spread_against(ensemble: TreeEnsemble, attacker: Attacker) -> float:
    """Return the `spread` that counts against an attacker."""
    exact = exact_spread(ensemble, attacker)
    return math.inf if exact is None else _floor(exact)


def has_large_spread(ensemble: TreeEnsemble, attacker: Attacker) -> bool:
    """Tell whether every two thresholds of different trees are more than ``2 * eps`` apart, exactly; see `spread`."""
    exact = exact_spread(ensemble, attacker)
    return exact is None or exact > 2 * Fraction(attacker.eps)


def largest_certifiable_eps(ensemble: TreeEnsemble, attacker: Attacker) -> float:
    """Return the largest budget for which the ensemble has large spread (-1.0 if there is none)."""
    exact = exact_spread(ensemble, attacker)
    if exact is None:
        return math.inf
    if exact == 0:
        return -1.0
    eps = _floor(exact / 2)
    return eps if Fraction(eps) < exact / 2 else math.nextafter(eps, -math.inf)


class Distances(NamedTuple):
    """Exact distances by feature, as ``rounded + rest`` (see `Budgets`), each of shape (n_features,)."""

    rounded: NDArray[np.float64]
    rest: NDArray[np.float64]


def closing_distances(attacker: Attacker, n_features: int) -> Distances:
    """Return per feature the exact distance, ``2 * eps``, up to which thresholds of two trees are too close.

    That is what the budget allows down and up, added up. Features that stay have -1: no two thresholds are too close
    there.
    """
    may_move = attacker.may_move(n_features) & ~attacker.is_stuck(n_features)
    is_held = ~may_move.any(axis=0)
    if attacker.norm == 0:
        # Two thresholds are 0 or 1 apart, however far: within 2 * eps from eps = 0.5 on.
        rounded, rest = np.full(n_features, np.inf if attacker.eps >= 0.5 else 0.0), np.zeros(n_features)
    else:
        rounded, rest = split_budgets(Fraction(attacker.eps), *(attacker.scales(n_features) * may_move))
    rounded[is_held], rest[is_held] = -1.0, 0.0
    return Distances(rounded, rest)


def overlaps(ensemble: TreeEnsemble, attacker: Attacker) -> Overlaps:
    """List every pair of splits that keeps the ensemble from having large spread for an attacker.

    Costs O(N log N) for N splits, plus the number of pairs.
    """
    moves = moves_on(ensemble, attacker)
    thresholds = sorted_thresholds(ensemble, moves)
    columns = thresholds.feature, thresholds.value, thresholds.tree
    budget = closing_distances(attacker, ensemble.n_features)
    is_whole = [f for f, cost in moves.jump_costs.items() if moves.affords(cost)]
    budget.rounded[is_whole], budget.rest[is_whole] = math.inf, 0.0
    nothing = np.empty(0, np.int64)
    n_pairs = kernels.list_overlaps(*columns, *budget, nothing, nothing)
    first, second = np.empty(n_pairs, np.int64), np.empty(n_pairs, np.int64)
    kernels.list_overlaps(*columns, *budget, first, second)
    return Overlaps(thresholds.feature[first], thresholds.node[first], thresholds.node[second])


def _floor(value: Fraction) -> float:
    """Return the largest float not above ``value``."""
    try:
        nearest = float(value)
    except OverflowError:
        return LARGEST
    return nearest if Fraction(nearest) <= value else math.nextafter(nearest, -math.inf)

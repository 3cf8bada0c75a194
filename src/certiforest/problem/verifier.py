"""Verifier: one ensemble against one attacker, made ready when the first rows come, and asked for every row."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator
from copy import copy
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from certiforest.attack.attacker import Attacker
from certiforest.attack.moves import Moves
from certiforest.attack.parameters import called
from certiforest.attack.prices import Budgets
from certiforest.attack.reach_kernels import Allowance, find_fraction
from certiforest.attack.relations import find_broken
from certiforest.attack.spread import has_large_spread
from certiforest.ensemble import TreeEnsemble
from certiforest.ensemble.flat_trees import settled
from certiforest.ensemble.rows import RowError
from certiforest.ensemble.tree_kernels import LARGEST, Trees, find_leaf
from certiforest.problem.cells_kernels import Ranks
from certiforest.problem.gains import Gains
from certiforest.words import shown

# Below this a product eps * scale has fewer than 53 bits, and no bound on relative errors holds.
SMALLEST_UNIT = 1e-300
# Preparing so many nodes takes a second or more.
LARGE = 2**20
Made = TypeVar("Made")
logger = logging.getLogger(__name__)


class Verifier:
    """One ensemble against one attacker.

    Parameters
    ----------
    ensemble : TreeEnsemble
    attacker : Attacker
        With columns by index: see `Attacker.resolve`.
    margin : float, default=0.0
        See `certiforest.certify`.

    Attributes
    ----------
    moves : Moves
        What the attacker may do on the ensemble.
    ensemble : TreeEnsemble
        Without the branches outside the attacker's domain, with whole thresholds on whole columns, and without splits
        that change nothing.
    trees : Trees
        Those of the ensemble; ``above`` and ``first`` know of whole columns.
    has_large_spread : bool
        Whether trees can meet at no row at all: two trees *meet* at a row if both have a split on one feature, or one
        group, that the attacker can turn there.
    unclaimed : ndarray of int64, shape (n_features,) or (0,)
        For `reach_kernels.claim`; empty if trees can be looked at one by one without asking whether they meet.
    is_box : bool
        Whether features do not share a budget: L-inf, or no move at all.
    allowance : Allowance
    gains : Gains
    """

    def __init__(self, ensemble: TreeEnsemble, attacker: Attacker, margin: float = 0.0) -> None:
        self._made_from, n_features = (ensemble, attacker, margin), ensemble.n_features
        if ensemble.n_nodes >= LARGE:
            logger.info("preparing %d trees with %d nodes", ensemble.n_trees, ensemble.n_nodes)
        self._made: dict[Any, Any] = {}
        self.margin = margin
        self.moves = moves = attacker.moves(n_features).on(ensemble)
        low, high = moves.inside
        if ensemble.blanks or np.isfinite(moves.inside).any():
            ensemble = ensemble.within(low, high)
        whole = moves.numbers.is_whole
        self.has_large_spread = has_large_spread(ensemble.without_idle_splits, attacker)
        if whole.any():
            ensemble = ensemble.on_whole_numbers(whole)
        self.ensemble = ensemble.without_idle_splits
        self.trees = self.ensemble.trees
        if whole.any():
            of_node, trees = whole[self.trees.feature], self.trees
            above, first = (np.where(of_node, np.ceil(value), value) for value in (trees.above, trees.first))
            self.trees = self.trees._replace(above=above, first=first)
        is_apart = self.has_large_spread and moves.is_plain
        self.unclaimed = np.full(0 if is_apart else n_features + moves.has_jumps, -1)
        if not is_apart:
            self.unclaimed[:n_features][moves.is_choice] = -2
            self.unclaimed[n_features:] = -2
        self.allowance = self.allowance_of(moves)
        self.is_box = not moves.is_shared
        self.gains = Gains(self.ensemble)

    @classmethod
    def again(cls, ensemble: TreeEnsemble, attacker: Attacker, margin: float) -> Verifier:
        """Return what was made when the ensemble was last asked about, if that is the same; none of it ever changes."""
        last = ensemble.kept.get("verifier")
        if last is None or last._made_from[1:] != (attacker, margin):
            last = ensemble.kept["verifier"] = cls(ensemble, attacker, margin)
        return last

    def with_base(self, base: list[float]) -> Verifier:
        """Return the same for scores that begin with another base."""
        other = copy(self)
        vars(other).pop("boxed", None)
        other._made, other.ensemble = {}, self.ensemble.with_base(base)
        other.gains = Gains(other.ensemble)
        return other

    def made(self, kind: Callable[[Verifier], Made]) -> Made:
        """Return what one kind of question is answered with, ``kind(self)``, which is made once."""
        if kind not in self._made:
            self._made[kind] = kind(self)
        return self._made[kind]

    @cached_property
    def boxed(self) -> Verifier | None:
        """The same for someone who may spend the whole budget on each feature; None if it is not of that kind.

        A row that withstands each tree at its worst, as far as this one goes, needs no tables for a proof.
        """
        ensemble, attacker, margin = self._made_from
        if margin > 0 or self.is_box:
            return self if margin == 0 else None
        if attacker.norm == 0 or not (attacker.has_norm and self.moves.is_plain):
            return None
        return Verifier(ensemble, attacker.replace(norm=math.inf))

    def allowance_of(self, moves: Moves) -> Allowance:
        """Return what may be spent: this attacker's budget, or another one."""
        # Sums are kept in units of the budget, so that the budget is 1 whatever its size; L0 counts features.
        budgets, counts = moves.budgets(), moves.norm == 0
        unit = np.where((budgets.rounded > 0) & (not counts), budgets.rounded, 1.0)
        unit[:, moves.is_choice] = math.inf
        budgets, unit = self._with_free(budgets, unit)
        if not moves.is_shared:
            return Allowance(budgets, unit, -1, math.inf, 0.0)
        slack = 0.0
        if not counts:
            depth = int(self.ensemble.node_depth.max())
            slack = rounding_slack(self.ensemble.n_trees, depth, moves.norm)
            if unit.min() < SMALLEST_UNIT:  # no sum can be trusted: every one is looked at exactly
                slack = math.inf
        return Allowance(budgets, unit, int(moves.norm), moves.eps if counts else 1.0, slack)

    def _with_free(self, budgets: Budgets, unit: NDArray[np.float64]) -> tuple[Budgets, NDArray[np.float64]]:
        """Return budgets and units with those of the feature that costs nothing to move: see `tree_kernels.settle`."""
        if not self.moves.has_jumps:
            return budgets, unit
        endless = np.full((2, 1), math.inf)
        rounded, rest = np.hstack([budgets.rounded, endless]), np.hstack([budgets.rest, np.zeros((2, 1))])
        return Budgets.of(rounded, rest), np.hstack([unit, endless])

    def rows_by_pattern(
        self, X: NDArray[np.float64], moves: Moves | None = None
    ) -> Iterator[tuple[slice, Trees, NDArray[np.float64]]]:
        """Yield runs of rows for which the same splits are settled, trees for them, and the rows as these take them.

        Without moves, whatever can be changed at some cost counts as turned; see `flat_trees.settled`.
        """
        rows, free = X, None
        if self.moves.has_jumps:
            rows = np.hstack([X, np.zeros((len(X), 1))])
            may_change, may_blank = self.moves.turnable() if moves is None else moves.affordable
            free = may_change, may_blank
        for run, trees in settled(self.ensemble, self.trees, X, free):
            yield run, trees, rows[run]

    def endless_allowance(self) -> Allowance:
        """Return budgets without limits, and the units of costs under L-inf."""
        unit = self.moves.numbers.scale.copy()
        unit[:, self.moves.is_choice] = math.inf
        budgets = Budgets.without_limits(self.moves.numbers.may_move)
        return Allowance(*self._with_free(budgets, unit), -1, math.inf, 0.0)

    @cached_property
    def ranks(self) -> Ranks:
        """The thresholds numbered by feature and value."""
        return rank_thresholds(self.ensemble, self.trees, self.moves)

    @cached_property
    def largest_threshold(self) -> float:
        """The largest size of a threshold."""
        return float(np.abs(self.ensemble.threshold[self.ensemble.number_splits]).max(initial=0.0))

    def check_rows(self, X: NDArray[np.float64], first: int) -> None:
        """Refuse rows that the attacker could not find: outside the domain, not whole or not one-hot.

        ``first`` is the number of the first row.
        """
        (_, _, low, high, is_whole), names = self.moves.numbers, self.ensemble.feature_names
        if low.max() > -math.inf or high.min() < math.inf:
            is_outside = (low > X) | (high < X)
            if is_outside.any():
                row, f = np.argwhere(is_outside)[0]
                raise RowError(
                    f"Expected rows inside the attacker's domain, got {X[row, f]} in row {first + row}, feature"
                    f" {called(names, f)}, where the domain is [{low[f]}, {high[f]}]. Widen the domain or clip the row."
                )
        for g, group in enumerate(self.moves.groups):
            part = X[:, list(group)]
            is_one_hot = ((part == 0) | (part == 1)).all(axis=1) & (part.sum(axis=1) == 1)
            if not is_one_hot.all():
                row = int(np.argmin(is_one_hot))
                raise RowError(
                    f"Expected one 1 and else 0 in the columns of group {g}, got {shown(part[row].tolist())} in row"
                    f" {first + row}. Encode the column again or take the group back."
                )
        broken = find_broken(self.moves.relations, X) if self.moves.is_strict else np.zeros((1, 0), bool)
        if broken.any():
            row, r = np.argwhere(broken)[0]
            raise RowError(
                f"Expected rows that keep all relations, got row {first + row}, which breaks"
                f" {self.moves.relations[r].worded(names)}. Mend the row, or leave strict out."
            )
        row, f = find_fraction(X, is_whole) if is_whole.any() else (-1, -1)
        if row >= 0:
            raise RowError(
                f"Expected whole numbers in integer columns, got {X[row, f]} in row {first + row}, feature"
                f" {called(names, f)}. Round the row or take the column from integer."
            )

    def predict(self, z: NDArray[np.float64]) -> int:
        """Return the predicted class index of one row, which is known to be sound."""
        return int(self.ensemble.index_of(z[None])[0])

    def gain_at(self, z: NDArray[np.float64], y: int, rival: int) -> int:
        """Return, exactly, what the leaves of a row gain for a rival of class ``y``, all together."""
        leaves = [find_leaf(self.trees, tree, z) for tree in range(self.ensemble.n_trees)]
        return self.gains.total(self.ensemble.leaf[leaves], y, rival)


def rounding_slack(n_trees: int, depth: int, norm: float) -> float:
    """Bound the rounding error of a cost composed of paths in several trees, relative to a budget of 1.

    A distance over its unit is within 3 roundings of the truth, its p-th power within 4p; a path adds and takes
    away at most ``depth`` pairs of such terms, none above 1 plus this slack, and a composition adds up at most
    ``n_trees`` paths whose sum is near 1 where it matters. Doubled, so that second-order terms need no argument.
    """
    return 2.0 * (n_trees + 1) * (depth + 1) * (8 * int(norm) + 8) * 2.0**-53


def rank_thresholds(ensemble: TreeEnsemble, trees: Trees, moves: Moves) -> Ranks:
    """Return the thresholds of an ensemble, numbered by variable and value, and what splits send right.

    Columns whose category can be changed, or whose value can be blanked or filled, have one more, above all numbers.
    """
    n_features, n_nodes = ensemble.n_features, ensemble.n_nodes
    may_change, may_blank = moves.turnable()
    variable = ensemble.feature.astype(np.int64)
    split, column = ensemble.number_splits, ensemble.feature[ensemble.number_splits]
    # Intervals that splits send right: nodes, and ends by value and the next value above, NaN where there is none.
    top, none = np.array([[LARGEST], [math.inf]]), np.full((2, 1), math.nan)
    after, upto = np.stack([ensemble.threshold[split], trees.above[split]]), np.full((2, len(split)), math.nan)
    upto[:, may_blank[column]] = top
    for g, group in enumerate(moves.groups):
        for place, member in enumerate(group):
            here = column == member
            variable[split[here]] = n_features + g
            after[:, here], upto[:, here] = [[place - 1], [place]], [[place], [place + 1]]
    nodes, starts, ends = [split], [after], [upto]
    can_jump = (may_change | may_blank)[ensemble.feature] & (ensemble.feature >= 0)
    for node in np.flatnonzero(can_jump & np.isnan(ensemble.threshold)).tolist():
        members = np.empty(0)
        if ensemble.subset is not None and ensemble.subsets is not None and ensemble.subset[node] >= 0:
            members = ensemble.subsets[ensemble.subset[node]]
        nodes.append(np.full(len(members) + 1, node))
        starts.append(np.hstack([none, [members, np.nextafter(members, math.inf)]]))
        ends.append(np.hstack([[np.nextafter(members, -math.inf), members], top]))
    if can_jump.any() and ensemble.missing_left is not None:
        beyond = np.flatnonzero(can_jump & ~ensemble.missing_left)
        nodes, starts = [*nodes, beyond], [*starts, np.repeat(top, len(beyond), axis=1)]
        ends.append(np.full((2, len(beyond)), math.nan))
    of_node = np.concatenate(nodes)
    value, above = np.hstack([*starts, *ends])
    owner, end = np.tile(variable[of_node], 2), np.flatnonzero(~np.isnan(value))
    by_value = end[np.lexsort((value[end], owner[end].astype(np.min_scalar_type(owner.max(initial=0)))))]
    one, other = by_value[1:], by_value[:-1]
    is_new = np.append(True, (owner[one] != owner[other]) | (value[one] != value[other]))[: len(by_value)]
    rank = np.full(len(value), -1)
    rank[by_value] = np.cumsum(is_new) - 1
    chosen = by_value[is_new]
    order = np.argsort(of_node, kind="stable")
    first = np.append(0, np.cumsum(np.bincount(of_node, minlength=n_nodes)))
    after, upto = rank[: len(of_node)][order], rank[len(of_node) :][order]
    most = int(np.diff(first).max(initial=1))
    return Ranks(variable, first, after, upto, owner[chosen], value[chosen], above[chosen], most)

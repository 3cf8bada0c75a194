"""Prepared: one ensemble against one attacker, made ready once and asked by everyone.

Everything here holds for trees that vote and for scores that add up.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from certiforest.attack.attacker import DOWN, UP, Attacker
from certiforest.attack.budgets import Budgets
from certiforest.attack.columns import AttackerError
from certiforest.attack.rounding_kernels import find_fraction
from certiforest.attack.spread import has_large_spread
from certiforest.ensemble import TreeEnsemble
from certiforest.ensemble.rows import RowError
from certiforest.ensemble.tree_kernels import LARGEST, Trees
from certiforest.ensemble.trees_for_rows import settled
from certiforest.verification.cells_kernels import BUDGET, Menus, Ranks
from certiforest.verification.prices import exact_budget, price_move
from certiforest.verification.ranks import rank_thresholds
from certiforest.verification.worths import Worths
from certiforest.words import shown

# Below this a product eps * scale has fewer than 53 bits, and no bound on relative errors holds.
SMALLEST_UNIT = 1e-300


class Allowance(NamedTuple):
    """What an attacker may spend on each feature, and on all of them together.

    Costs are in multiples of ``unit`` (2, n_features), down and up, to the power of the norm; together they may reach
    ``limit``. Rounding takes a sum of them no further than ``slack``. Columns of groups, and those that rules speak of,
    have an infinite unit: what they cost is on menus. Where features do not share a budget, ``norm`` is -1 and there is
    no limit.
    """

    budgets: Budgets
    unit: NDArray[np.float64]
    norm: int
    limit: float
    slack: float


class Prepared:
    """One ensemble against one attacker.

    Parameters
    ----------
    ensemble : TreeEnsemble
    attacker : Attacker
        With columns by index: see `Attacker.resolve`.

    Attributes
    ----------
    attacker : Attacker
    ensemble : TreeEnsemble
        Without the branches outside the attacker's domain, with whole thresholds on whole columns, and without splits
        that change nothing.
    trees : Trees
        Those of the ensemble; ``above`` and ``first`` know of whole columns.
    scale : ndarray of float64, shape (2, n_features)
        Of moves down, and of moves up.
    has_large_spread : bool
        Whether trees can meet at no row at all: two trees *meet* at a row if both have a split on one feature, or one
        group, that the attacker can turn there.
    unclaimed : ndarray of int64, shape (n_features,) or (0,)
        For `reach_kernels.claim`; empty if trees can be looked at one by one without asking whether they meet.
    is_box : bool
        Whether features do not share a budget: L-inf, or no move at all.
    allowance : Allowance
    worths : Worths
    """

    def __init__(self, ensemble: TreeEnsemble, attacker: Attacker) -> None:
        n_features = ensemble.n_features
        self.attacker = attacker
        self.scale, self.groups = attacker.scales(n_features), attacker.group_columns
        self._grouped = np.array([column for group in self.groups for column in group], np.int64)
        self._listed = np.append(self._grouped, np.array(attacker.menu_columns, np.int64))
        self._bounds, whole = attacker.bounds(n_features), attacker.is_integer(n_features)
        if np.isin([*self._listed, *np.flatnonzero(whole)], list(ensemble.blanks or ())).any():
            raise AttackerError(
                "Expected integer, one-hot and rule columns without numbers that count as missing, got one with such."
            )
        if np.isin(self._listed, ensemble.categorical).any():
            raise AttackerError("Expected groups and rules of numbers, got a column of categories of the model.")
        self._change, self._blank = attacker.jump_costs(ensemble)
        self._has_jumps = bool((np.minimum(self._change, self._blank) < math.inf).any())
        self._categories: dict[int, list[float]] = {}
        for f in np.flatnonzero(self._change < math.inf).tolist():
            if f in ensemble.feature[ensemble.number_splits]:
                raise AttackerError(
                    f"Expected categories to name columns that the model tests for sets of values, got column {f},"
                    " which it compares with numbers; use scale, or groups of one-hot columns."
                )
            self._categories[f] = self._find_categories(ensemble, f)
        low, high = (bound.copy() for bound in self._bounds)
        if attacker.domain is not None or self.groups or ensemble.blanks:
            low[whole], high[whole] = np.ceil(low[whole]), np.floor(high[whole])
            low[self._grouped], high[self._grouped] = 0.0, 1.0
            if (low > high).any():
                raise AttackerError(
                    "Expected a domain that holds a whole number for every integer column, got another."
                )
            ensemble = ensemble.within(low, high)
        self.fill = self._find_fill(low, high, ensemble.blank_bounds)
        self.has_large_spread = has_large_spread(ensemble.without_idle_splits, attacker)
        if whole.any():
            ensemble = ensemble.on_whole_numbers(whole)
        self.ensemble = ensemble.without_idle_splits
        self.trees = self.ensemble.trees
        if whole.any():
            of_node, trees = whole[self.trees.feature], self.trees
            above, first = (np.where(of_node, np.ceil(value), value) for value in (trees.above, trees.first))
            self.trees = self.trees._replace(above=above, first=first)
        self._is_whole = whole
        is_apart = self.has_large_spread and not self.has_menus
        self.unclaimed = np.full(0 if is_apart else n_features + self._has_jumps, -1)
        self.unclaimed[self._listed] = -2
        self.unclaimed[n_features:] = -2
        self.allowance = self.allowance_of(attacker)
        self.is_box = self.allowance.norm == -1
        nobody = np.zeros(n_features, bool)
        self._no_menus = Menus(
            np.zeros(n_features + 1, np.int64), np.empty(0), np.empty(0, np.int64), nobody, 0, self.fill
        )
        self.worths = Worths(self.ensemble)

    def allowance_of(self, attacker: Attacker) -> Allowance:
        """Return what an attacker may spend: this one with another budget."""
        n_features = self.ensemble.n_features
        budgets = attacker.budgets(n_features)
        if not attacker.can_move:
            budgets = Budgets.of(np.zeros((2, n_features)))
        # Sums are kept in units of the budget, so that the budget is 1 whatever its size; L0 counts features.
        counts = attacker.norm == 0
        unit = np.ones((2, n_features)) if counts else np.where(budgets.rounded > 0, budgets.rounded, 1.0)
        unit[:, self._listed] = math.inf
        budgets, unit = self._with_free(budgets, unit)
        if attacker.norm == math.inf or not attacker.can_move:
            return Allowance(budgets, unit, -1, math.inf, 0.0)
        slack = 0.0
        if not counts:
            depth = int(self.ensemble.node_depth.max())
            slack = rounding_slack(self.ensemble.n_trees, depth, attacker.norm)
            if unit.min() < SMALLEST_UNIT:  # no sum can be trusted: every one is looked at exactly
                slack = math.inf
        return Allowance(budgets, unit, int(attacker.norm), attacker.eps if counts else 1.0, slack)

    @property
    def has_menus(self) -> bool:
        """Whether some variables do not move like numbers alone, so that screens are bounds only."""
        return len(self._listed) > 0 or self._has_jumps

    def _with_free(self, budgets: Budgets, unit: NDArray[np.float64]) -> tuple[Budgets, NDArray[np.float64]]:
        """Return budgets and units with those of the feature that costs nothing to move: see `tree_kernels.settle`."""
        if not self._has_jumps:
            return budgets, unit
        endless = np.full((2, 1), math.inf)
        rounded, rest = np.hstack([budgets.rounded, endless]), np.hstack([budgets.rest, np.zeros((2, 1))])
        return Budgets.of(rounded, rest), np.hstack([unit, endless])

    def runs(
        self, X: NDArray[np.float64], attacker: Attacker | None = None
    ) -> Iterator[tuple[slice, Trees, NDArray[np.float64]]]:
        """Yield runs of rows for which the same splits are settled, trees for them, and the rows as these take them.

        Without an attacker, whatever can be changed at some cost counts as turned; see `trees_for_rows.settled`.
        """
        rows, free = X, None
        if self._has_jumps:
            rows = np.hstack([X, np.zeros((len(X), 1))])
            free = self._change < math.inf, self._blank < math.inf
            free = free if attacker is None else self.affordable(attacker)
        for run, trees in settled(self.ensemble, self.trees, X, free):
            yield run, trees, rows[run]

    def affordable(self, attacker: Attacker) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Return where an attacker can change the category, and where it can blank or fill, (n_features,) each."""
        counts = attacker.can_move and attacker.norm == 0
        most = math.inf if counts else attacker.eps if attacker.can_move else 0.0
        return (self._change <= most) & (self._change < math.inf), (self._blank <= most) & (self._blank < math.inf)

    def endless_allowance(self) -> Allowance:
        """Return budgets without limits, and the units of costs under L-inf."""
        unit = self.scale.copy()
        unit[:, self._listed] = math.inf
        may_move = self.attacker.may_move(self.ensemble.n_features)
        return Allowance(*self._with_free(Budgets.without_limits(may_move), unit), -1, math.inf, 0.0)

    def jumps(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return the columns in which values can jump (see `Attacker.can_jump`), and what that costs, one by one."""
        pairs = [np.flatnonzero(cost < math.inf) for cost in (self._change, self._blank)]
        return np.concatenate(pairs), np.concatenate([self._change[pairs[0]], self._blank[pairs[1]]])

    def _find_categories(self, ensemble: TreeEnsemble, f: int) -> list[float]:
        """Return the values of a domain that a category may take, in order.

        Where the model lists none, those that are in no set are alike, and one will do. If the domain has any, then the
        first of them is its end or comes right after a number in a set, or after those that count as missing.
        """
        (low, high), (first, last) = (ends[:, f] for ends in (np.stack(self._bounds), ensemble.blank_bounds))
        values, others = ensemble.category_values(f), np.empty(0)
        if not (ensemble.categories or {}).get(f):
            before = np.array([*values[::-1], -1.0, last])
            with np.errstate(over="ignore"):
                after = np.maximum(np.floor(before) + 1, np.nextafter(before, math.inf))  # beyond 2**53, + 1 is lost
            others = np.setdiff1d(np.append(after, np.ceil(max(low, -LARGEST))), values)
        is_in = [(low <= v) & (v <= min(high, LARGEST)) & ~((first <= v) & (v <= last)) for v in (values, others)]
        return sorted([*values[is_in[0]].tolist(), *others[is_in[1]].tolist()[-1:]])

    def _find_fill(
        self, low: NDArray[np.float64], high: NDArray[np.float64], blanks: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return a number of a domain that a value which is missing may be filled with, (n_features,)."""
        fill, (first, last) = np.clip(0.0, low, high), blanks
        with np.errstate(over="ignore"):
            above, below = np.nextafter(last, math.inf), np.nextafter(first, -math.inf)
        is_blank = (first <= fill) & (fill <= last)
        fill = np.where(is_blank, np.where(above <= np.minimum(high, LARGEST), above, below), fill)
        if (is_blank & (fill < np.maximum(low, -LARGEST)))[self._blank < math.inf].any():
            raise AttackerError("Expected a domain that holds numbers that do not count as missing, got another.")
        return fill

    @cached_property
    def ranks(self) -> Ranks:
        """The thresholds numbered by feature and value."""
        return rank_thresholds(self.ensemble, self.trees, self.groups, self._change < math.inf, self._blank < math.inf)

    def values(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the values of all variables at a row: its features, then which column of each group is set.

        What is missing is inf, above all numbers, where it can be filled.
        """
        if not self.has_menus:
            return x
        x = np.where(np.isnan(x), math.inf, x) if self._has_jumps else x
        return np.append(x, [float(np.argmax(x[list(group)])) for group in self.groups])

    def row(
        self, x: NDArray[np.float64], variable: NDArray[np.int64], value: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return a row with other values of some variables."""
        z, n_features = x.copy(), len(x)
        is_column = variable < n_features
        z[variable[is_column]] = np.where(value[is_column] == math.inf, math.nan, value[is_column])
        for v, category in zip(variable[~is_column].tolist(), value[~is_column].tolist(), strict=True):
            group = self.groups[v - n_features]
            z[list(group)] = 0.0
            z[group[int(category)]] = 1.0
        return z

    def menus(self, x: NDArray[np.float64], attacker: Attacker) -> Menus:
        """Return what values variables take at a row where these are few, against this attacker with any budget."""
        if not self.has_menus:
            return self._no_menus
        values, first = self.values(x), np.zeros(len(x) + len(self.groups) + 1, np.int64)
        listed = sorted([*attacker.menu_columns, *self._categories, *range(len(x), len(values))])
        menus = [self._menu(variable, float(values[variable]), len(x), attacker) for variable in listed]
        first[np.array(listed, np.int64) + 1] = list(map(len, menus))
        pairs = [pair for menu in menus for pair in menu]
        has_budget = attacker.can_move and attacker.norm < math.inf
        share = BUDGET / exact_budget(attacker) if has_budget else Fraction(0)
        missing = Fraction(0) if attacker.missing is None else attacker.price_of(attacker.missing)
        price = [min(math.floor(cost * share), 4 * BUDGET) for cost in (*(cost for _, cost in pairs), missing)]
        whole, value = np.array(price, np.int64), np.array([value for value, _ in pairs], np.float64)
        may_blank = self.affordable(attacker)[1]
        return Menus(np.cumsum(first), value, whole[:-1], may_blank, int(whole[-1]), self.fill)

    def _menu(self, variable: int, value: float, n_features: int, attacker: Attacker) -> list[tuple[float, Fraction]]:
        """Return the values that a variable can take from a value, within the budget, and what each costs."""
        if variable not in self._categories:
            return attacker.menu(variable, value, n_features)
        may_change, may_blank = (mask[variable] for mask in self.affordable(attacker))
        others = self._categories[variable] if may_change or value == math.inf else []
        found = {value, *others, math.inf} if may_blank else {value, *others} if value < math.inf else {value}
        return [(z, self.price_of(variable, value, z, n_features)) for z in sorted(found)]

    def columns_with(self, feature: int) -> list[int]:
        """Return the columns that move together with one: its group's, or itself."""
        return next((list(group) for group in self.groups if feature in group), [feature])

    def check_rows(self, X: NDArray[np.float64], first: int) -> None:
        """Refuse rows that the attacker could not find: outside the domain, not whole or not one-hot.

        ``first`` is the number of the first row.
        """
        if self.attacker.domain is not None:
            low, high = self._bounds
            is_outside = (low > X) | (high < X)
            if is_outside.any():
                row, f = np.argwhere(is_outside)[0]
                raise RowError(
                    f"Expected rows inside the attacker's domain, got {X[row, f]} in row {first + row}, feature {f},"
                    f" where the domain is [{low[f]}, {high[f]}]. Widen the domain or clip the row."
                )
        for g, group in enumerate(self.groups):
            part = X[:, list(group)]
            is_one_hot = ((part == 0) | (part == 1)).all(axis=1) & (part.sum(axis=1) == 1)
            if not is_one_hot.all():
                row = int(np.argmin(is_one_hot))
                raise RowError(
                    f"Expected one 1 and else 0 in the columns of group {g}, got {shown(part[row].tolist())} in row"
                    f" {first + row}. Encode the column again or take the group back."
                )
        row, f = find_fraction(X, self._is_whole) if self._is_whole.any() else (-1, -1)
        if row >= 0:
            raise RowError(
                f"Expected whole numbers in integer columns, got {X[row, f]} in row {first + row}, feature {f}."
                " Round the row or take the column from integer."
            )

    @cached_property
    def largest_threshold(self) -> float:
        """The largest size of a threshold."""
        return float(np.abs(self.ensemble.threshold[self.ensemble.number_splits]).max(initial=0.0))

    def predict(self, z: NDArray[np.float64]) -> int:
        """Return the predicted class index of one row, which is known to be sound."""
        return self.ensemble.index_of(z)

    def price(self, x: NDArray[np.float64], z: NDArray[np.float64]) -> Fraction:
        """Return the exact price of moving ``x`` to ``z``, in powers of the norm (the norm itself for L-inf and L0)."""
        before, after = self.values(x), self.values(z)
        moved = (before < after) | (before > after)
        moved[self._grouped] = False
        if self.attacker.norm == math.inf:  # only the dearest counts, and floats tell which moves may be it
            plain = np.flatnonzero(moved[: len(x)] & np.isfinite(x) & np.isfinite(z))
            plain = plain[~np.isin(plain, [*self._listed, *self._categories])]
            cost = self.rough_costs(plain, x[plain], z[plain])
            most = cost.max(initial=0.0)
            if most < math.inf:
                moved[plain[cost < most * (1 - 1e-9) - 1e-300]] = False
        prices = [self.price_of(f, float(before[f]), float(after[f]), len(x)) for f in np.flatnonzero(moved).tolist()]
        return max(prices, default=Fraction(0)) if self.attacker.norm == math.inf else sum(prices, Fraction(0))

    def rough_costs(
        self, column: NDArray[np.int64], start: NDArray[np.float64], end: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return about what it costs under L-inf to move columns; NaN and inf are values that are missing."""
        with np.errstate(over="ignore", invalid="ignore"):
            costs = np.abs(end - start) / self.scale[(end > start).astype(int), column]
        costs = np.where(self._change[column] < math.inf, self._change[column], costs)
        return np.where(np.isfinite(start) & np.isfinite(end), costs, self._blank[column])

    def price_of(self, variable: int, before: float, after: float, n_features: int) -> Fraction:
        """Return the exact price of moving a variable."""
        if before == after:
            return Fraction(0)
        if math.inf in (before, after):
            return self.attacker.price_of(float(self._blank[variable]))
        if variable in self._categories:
            return self.attacker.price_of(float(self._change[variable]))
        if variable >= n_features or variable in self._listed:
            return dict(self.attacker.menu(variable, before, n_features))[after]
        unit = float(self.scale[UP if after > before else DOWN, variable])
        return price_move(before, after, unit, self.attacker.norm)


def rounding_slack(n_trees: int, depth: int, norm: float) -> float:
    """Bound the rounding error of a cost composed of paths in several trees, relative to a budget of 1.

    A distance over its unit is within 3 roundings of the truth, its p-th power within 4p; a path adds and takes
    away at most ``depth`` pairs of such terms, none above 1 plus this slack, and a composition adds up at most
    ``n_trees`` paths whose sum is near 1 where it matters. Doubled, so that second-order terms need no argument.
    """
    return 2.0 * (n_trees + 1) * (depth + 1) * (8 * int(norm) + 8) * 2.0**-53

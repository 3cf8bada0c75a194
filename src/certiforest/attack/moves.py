"""Moves: an attacker resolved: what may become of each variable of a row, and what that costs, exactly.

Behind this room nobody asks which kind of attacker there is. Variables are the columns of a model and, from
``n_features`` on, groups of one-hot columns, whose values 0, 1, 2, ... tell which column is 1. What is missing is inf,
above all numbers, where it can be filled. Nearly all variables are `Numbers`; some take one of a few values, which
`choices` lists. Certificates say the same, in the same form (docs/certificate_format.md).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from copy import copy
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from certiforest.attack.choices import FREE, Categories, Choice
from certiforest.attack.parameters import AttackerError, check_eps
from certiforest.attack.prices import Budgets, exponent_of, price_move, split_budgets
from certiforest.attack.relations import Relation, find_broken
from certiforest.ensemble import TreeEnsemble
from certiforest.ensemble.tree_kernels import LARGEST

DOWN, UP = 0, 1
CHANGE, BLANK = 0, 1


class Numbers(NamedTuple):
    """Columns whose values are numbers; what it says of columns that are something else plays no role.

    Attributes
    ----------
    scale : ndarray of float64, shape (2, n_features)
        Units of moves down, and of moves up.
    may_move : ndarray of bool, shape (2, n_features)
        Whether there are moves down, and moves up.
    low, high : ndarray of float64, shape (n_features,)
        The domain, in rows and after the attack.
    is_whole : ndarray of bool, shape (n_features,)
    """

    scale: NDArray[np.float64]
    may_move: NDArray[np.bool_]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    is_whole: NDArray[np.bool_]


class PriceLists(NamedTuple):
    """The values that variables can take at a row, where these are few, with prices, and what goes missing.

    Those of variable f, from the smallest on, stand at ``first[f]:first[f + 1]``, its value at the row among them;
    variables without a list take all values in reach. ``price`` is in whole shares of a budget. Where ``may_blank``
    (n_features,), values can go missing, or be filled, at the price ``missing``; ``fill`` (n_features,) is a number to
    fill with.
    """

    first: NDArray[np.int64]
    value: NDArray[np.float64]
    price: NDArray[np.int64]
    may_blank: NDArray[np.bool_]
    missing: int
    fill: NDArray[np.float64]


class Moves:
    """What an attacker may do.

    Parameters
    ----------
    norm, eps : float
    numbers : Numbers
    choices : dict of int and OneHot, Categories or Ruled
        By variable, those that take one of a few values.
    missing : float, optional
        What it costs to blank or to fill a value; nobody can if not given.
    relations : sequence of Relation
        What rows keep that do so from the start, with columns by index.
    is_strict : bool, default=False
        Whether rows that do not keep them are refused.

    Attributes
    ----------
    jump_cost : ndarray of float64, shape (2, n_features)
        What it costs to change a category, and to blank or to fill a value, inf where nobody can.
    fill : ndarray of float64, shape (n_features,)
        A number to fill with; known `on` a model.
    """

    def __init__(
        self,
        norm: float,
        eps: float,
        numbers: Numbers,
        choices: Mapping[int, Choice],
        missing: float | None = None,
        relations: Sequence[Relation] = (),
        *,
        is_strict: bool = False,
    ) -> None:
        self.norm, self.eps, self.numbers, self.choices, self.missing = norm, eps, numbers, choices, missing
        self.relations, self.is_strict = tuple(relations), is_strict
        self.n_features = len(numbers.low)
        self.jump_cost, self.fill = np.full((2, self.n_features), math.inf), np.zeros(self.n_features)
        for variable, choice in choices.items():
            if isinstance(choice, Categories):
                self.jump_cost[CHANGE, variable] = choice.cost
        if missing is not None:
            self.jump_cost[BLANK, numbers.may_move.any(axis=0) & ~self.is_in_group] = missing

    def within(self, eps: float, norm: float | None = None) -> Moves:
        """Return the same with another budget, and another norm if there is one."""
        same = copy(self)
        same.norm = self.norm if norm is None else norm
        same.eps = check_eps(eps, same.norm)
        return same

    def on(self, ensemble: TreeEnsemble) -> Moves:
        """Return the same on a model: with its categories, and blanks where it has a place for them.

        Columns that are something else in the model are refused.
        """
        of_categories = [v for v, choice in self.choices.items() if isinstance(choice, Categories)]
        is_listed = self.is_choice.copy()
        is_listed[of_categories] = False
        if (is_listed | self.numbers.is_whole)[list(ensemble.blanks or ())].any():
            raise AttackerError(
                "Expected integer, one-hot and rule columns without numbers that count as missing, got one with such."
            )
        if is_listed[ensemble.categorical].any():
            raise AttackerError("Expected groups and rules of numbers, got a column of categories of the model.")
        tied = {column for relation in self.relations for column in relation.columns}
        if tied & {*map(int, ensemble.categorical), *(ensemble.blanks or {})}:
            raise AttackerError(
                "Expected relations of numbers, got one of a column of categories, or with numbers that count as"
                " missing."
            )
        ends = self.numbers.low, self.numbers.high
        known = {v: c.on(ensemble, *ends) if isinstance(c, Categories) else c for v, c in self.choices.items()}
        same = Moves(self.norm, self.eps, self.numbers, known, self.missing, self.relations, is_strict=self.is_strict)
        stays = {*ensemble.required} | ({*map(int, ensemble.categorical)} - {*of_categories})
        same.jump_cost[BLANK, list(range(self.n_features) if ensemble.missing_left is None else stays)] = math.inf
        same.fill = same._find_fill(ensemble)
        return same

    def _find_fill(self, ensemble: TreeEnsemble) -> NDArray[np.float64]:
        (low, high), (first, last) = self.inside, ensemble.blank_bounds
        fill = np.clip(0.0, low, high)
        with np.errstate(over="ignore"):
            above, below = np.nextafter(last, math.inf), np.nextafter(first, -math.inf)
        is_blank = (first <= fill) & (fill <= last)
        fill = np.where(is_blank, np.where(above <= np.minimum(high, LARGEST), above, below), fill)
        if (is_blank & (fill < np.maximum(low, -LARGEST)))[self.jump_cost[BLANK] < math.inf].any():
            raise AttackerError("Expected a domain that holds numbers that do not count as missing, got another.")
        return fill

    @cached_property
    def inside(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The smallest and largest value that a column can have, each of shape (n_features,)."""
        whole, low, high = self.numbers.is_whole, self.numbers.low.copy(), self.numbers.high.copy()
        low[whole], high[whole] = np.ceil(low[whole]), np.floor(high[whole])
        low[self.is_in_group], high[self.is_in_group] = 0.0, 1.0
        if (low > high).any():
            raise AttackerError("Expected a domain that holds a whole number for every integer column, got another.")
        return low, high

    @cached_property
    def groups(self) -> list[tuple[int, ...]]:
        """The columns of each one-hot variable, in order."""
        return [choice.columns for variable, choice in self.choices.items() if variable >= self.n_features]

    @cached_property
    def is_in_group(self) -> NDArray[np.bool_]:
        """Which columns are one-hot, shape (n_features,)."""
        return np.isin(np.arange(self.n_features), [column for group in self.groups for column in group])

    @cached_property
    def is_choice(self) -> NDArray[np.bool_]:
        """Which columns take one of a few values, alone or with others, shape (n_features,)."""
        columns = [column for choice in self.choices.values() for column in choice.columns]
        return np.isin(np.arange(self.n_features), columns)

    @cached_property
    def is_plain(self) -> bool:
        """Whether all variables are numbers that never go missing."""
        return not self.choices and not self.has_jumps

    @property
    def can_move(self) -> bool:
        """Whether any change at all is within the budget."""
        return self.eps >= 1 if self.norm == 0 else self.eps > 0

    @property
    def is_shared(self) -> bool:
        """Whether variables pay from one budget; in L-inf each has its own, and so they do where nothing moves."""
        return self.can_move and self.norm < math.inf

    @property
    def budget(self) -> Fraction:
        """The p-th power of eps (eps itself for L-inf and L0), the unit of prices."""
        return Fraction(self.eps) ** exponent_of(self.norm)

    def price(self, cost: float | Fraction) -> Fraction:
        """Return the price of a move of some cost, in units of eps: a power of the norm."""
        return Fraction(1) if self.norm == 0 else Fraction(cost) ** exponent_of(self.norm)

    def affords(self, cost: float | Fraction) -> bool:
        """Tell whether a move of some cost, in units of eps, is within the budget alone; inf never is."""
        return self.can_move and cost < math.inf and (self.norm == 0 or cost <= Fraction(self.eps))

    @property
    def jump_costs(self) -> dict[int, Fraction]:
        """The least cost of turning whatever is tested on a column otherwise than by moving a number, by column."""
        chosen = {f: Fraction(c.least) for c in self.choices.values() if c.least < math.inf for f in c.columns}
        columns, costs = self.jumps
        for f, cost in zip(columns.tolist(), map(Fraction, costs.tolist()), strict=True):
            chosen[f] = min(cost, chosen.get(f, cost))
        return chosen

    @property
    def jumps(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """The columns whose category can change, and those that can be blanked, and what that costs, one by one."""
        kind, column = np.nonzero(self.jump_cost < math.inf)
        return column, self.jump_cost[kind, column]

    @cached_property
    def has_jumps(self) -> bool:
        """Whether some category can change, or some value go missing, at any cost."""
        return bool((self.jump_cost < math.inf).any())

    def turnable(self, budget: float = math.inf) -> NDArray[np.bool_]:
        """Return where the category can change, and where values can be blanked or filled, shape (2, n_features).

        ``budget`` is for one of them, in units of eps; those beyond it cannot.
        """
        return (self.jump_cost <= budget) & (self.jump_cost < math.inf)

    @property
    def affordable(self) -> NDArray[np.bool_]:
        """What is `turnable` within the budget."""
        most = math.inf if self.norm == 0 else self.eps
        return self.turnable(most if self.can_move else 0.0)

    def budgets(self) -> Budgets:
        """Return what each feature alone may spend; nothing limits those for which lists say what is in reach."""
        shape = 2, self.n_features
        if not self.can_move:
            return Budgets.of(np.zeros(shape))
        if self.norm == 0:  # counts moves
            rounded, rest = np.full(shape, np.inf), np.zeros(shape)
        else:
            rounded, rest = split_budgets(Fraction(self.eps), self.numbers.scale)
        is_held = ~self.numbers.may_move
        rounded[is_held], rest[is_held] = -1.0, 0.0
        for choice in self.choices.values():
            columns = list(choice.columns)
            rounded[:, columns], rest[:, columns] = (math.inf if self.affords(choice.least) else -1.0), 0.0
        return Budgets.of(rounded, rest)

    def values(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the values of all variables at a row."""
        if self.is_plain:
            return x
        x = np.where(np.isnan(x), math.inf, x) if self.has_jumps else x
        return np.append(x, [float(np.argmax(x[list(group)])) for group in self.groups])

    def row(
        self, x: NDArray[np.float64], variable: NDArray[np.int64], value: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return a row with other values of some variables."""
        z = x.copy()
        if self.is_plain:
            z[variable] = np.where(value == math.inf, math.nan, value)
            return z
        is_column = variable < self.n_features
        z[variable[is_column]] = np.where(value[is_column] == math.inf, math.nan, value[is_column])
        for v, place in zip(variable[~is_column].tolist(), value[~is_column].tolist(), strict=True):
            group = self.choices[v].columns
            z[list(group)] = 0.0
            z[group[int(place)]] = 1.0
        return z

    def columns_with(self, feature: int) -> list[int]:
        """Return the columns that move together with one: its group's, or itself."""
        return next((list(group) for group in self.groups if feature in group), [feature])

    def price_list(self, variable: int, value: float) -> list[tuple[float, Fraction]]:
        """Return the values that a variable with a choice can take from a value, within the budget, and their prices.

        Values increase; what a value may be filled with counts, too.
        """
        choice, blank = self.choices[variable], self._blank_of(variable)
        costs = choice.costs(value, Fraction(self.eps))
        if value == math.inf:
            costs = {**dict.fromkeys(costs, blank), value: FREE}
        elif blank < math.inf:
            costs[math.inf] = blank
        within = {z: cost for z, cost in costs.items() if not cost or self.affords(cost)}
        return sorted((z, self.price(cost) if cost else FREE) for z, cost in within.items())

    def _blank_of(self, variable: int) -> float:
        return float(self.jump_cost[BLANK, variable]) if variable < self.n_features else math.inf

    def price_lists(self, values: NDArray[np.float64], whole_budget: int) -> PriceLists:
        """Return the price lists at a row, given by the values of all variables; prices are shares of a budget."""
        return self._no_price_lists if self.is_plain else self._price_lists(values, whole_budget)

    @cached_property
    def _no_price_lists(self) -> PriceLists:
        return self._price_lists(np.empty(0), 0)

    def _price_lists(self, values: NDArray[np.float64], whole_budget: int) -> PriceLists:
        first = np.zeros(self.n_features + len(self.groups) + 1, np.int64)
        listed = sorted(self.choices)
        lists = [self.price_list(variable, float(values[variable])) for variable in listed]
        first[np.array(listed, np.int64) + 1] = list(map(len, lists))
        pairs = [pair for listed in lists for pair in listed]
        share = whole_budget / self.budget if self.is_shared else FREE
        missing = FREE if self.missing is None else self.price(self.missing)
        price = [min(math.floor(cost * share), 4 * whole_budget) for cost in (*(cost for _, cost in pairs), missing)]
        value = np.array([value for value, _ in pairs], np.float64)
        whole, may_blank = np.array(price, np.int64), self.affordable[BLANK]
        return PriceLists(np.cumsum(first), value, whole[:-1], may_blank, int(whole[-1]), self.fill)

    def price_of(self, variable: int, before: float, after: float) -> Fraction:
        """Return the exact price of moving a variable."""
        if before == after:
            return FREE
        if math.inf in (before, after):
            return self.price(self._blank_of(variable))
        if variable in self.choices:
            return self.price(self.choices[variable].costs(before, Fraction(self.eps))[after])
        unit = float(self.numbers.scale[UP if after > before else DOWN, variable])
        return price_move(before, after, unit, self.norm)

    def price_of_row(self, x: NDArray[np.float64], z: NDArray[np.float64]) -> Fraction:
        """Return the exact price of moving ``x`` to ``z``, in powers of the norm (the norm itself for L-inf and L0)."""
        before, after = self.values(x), self.values(z)
        moved = (before < after) | (before > after)
        moved[: len(x)] &= ~self.is_in_group
        if self.norm == math.inf:  # only the dearest counts, and floats tell which moves may be it
            plain = np.flatnonzero(moved[: len(x)] & np.isfinite(x) & np.isfinite(z) & ~self.is_choice)
            cost = self.rough_costs(plain, x[plain], z[plain])
            most = cost.max(initial=0.0)
            if most < math.inf:
                moved[plain[cost < most * (1 - 1e-9) - 1e-300]] = False
        prices = [self.price_of(f, float(before[f]), float(after[f])) for f in np.flatnonzero(moved).tolist()]
        return max(prices, default=FREE) if self.norm == math.inf else sum(prices, FREE)

    def affords_rows(self, X: NDArray[np.float64], Z: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Tell which rows in reach of each variable alone are within the budget, exactly."""
        if not self.is_shared:
            return np.ones(len(X), bool)
        within = self._are_surely_within(X, Z) if self.is_plain else np.zeros(len(X), bool)
        for i in np.flatnonzero(~within):
            within[i] = self.price_of_row(X[i], Z[i]) <= self.budget
        return within

    def counts_rows(self, X: NDArray[np.float64], Z: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Tell which rows in reach of each variable alone are within the budget, and keep the relations that bind."""
        counts = self.affords_rows(X, Z)
        if self.relations:
            counts &= ~(find_broken(self.relations, Z) & ~find_broken(self.relations, X)).any(axis=1)
        return counts

    def _are_surely_within(self, X: NDArray[np.float64], Z: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Tell of which rows floats alone show that moving numbers is within a budget that moves share.

        A share of the budget, to the power p, is within 4p roundings of the truth, and a sum of n of them within n
        more: 2e-10 for p up to 1e4 and n up to a million. What underflows is nothing next to that.
        """
        if not self.norm or X.shape[1] > 1e6:
            return np.zeros(len(X), bool)
        is_moved = Z != X
        with np.errstate(all="ignore"):
            unit = np.where(Z > X, self.numbers.scale[UP], self.numbers.scale[DOWN]) * self.eps
            share = np.where(is_moved, np.abs(Z - X) / unit, 0.0) ** self.norm
        is_sound = ~is_moved | ((unit > 1e-300) & (unit < math.inf))
        return is_sound.all(axis=1) & (share.sum(axis=1) < 1 - 1e-9)

    def rough_costs(
        self, column: NDArray[np.int64], start: NDArray[np.float64], end: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return about what it costs under L-inf to move columns; NaN and inf are values that are missing."""
        with np.errstate(over="ignore", invalid="ignore"):
            costs = np.abs(end - start) / self.numbers.scale[(end > start).astype(int), column]
        change, blank = self.jump_cost[:, column]
        costs = np.where(change < math.inf, change, costs)
        return np.where(np.isfinite(start) & np.isfinite(end), costs, blank)

"""Choices: variables that take one of a few values, and what that costs: one-hot columns, categories, rules."""

from __future__ import annotations

import heapq
import math
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from certiforest.attack.parameters import AttackerError, called
from certiforest.ensemble import TreeEnsemble
from certiforest.ensemble.tree_kernels import LARGEST

MOST_VALUES = 100_000  # that one variable may take by rules
FREE = Fraction(0)


class OneHot(NamedTuple):
    """Columns of which one is 1 and the others are 0: another one is a move of ``1 / scale``, and none if that is 0."""

    columns: tuple[int, ...]
    scale: float

    @property
    def least(self) -> Fraction | float:
        """The least cost of a move; inf if there is none."""
        return 1 / Fraction(self.scale) if self.scale else math.inf

    def costs(self, value: float, budget: Fraction) -> dict[float, Any]:
        """Return what it costs, in units of eps, to take values; those beyond the budget may be left out."""
        return {**dict.fromkeys(map(float, range(len(self.columns))), self.least), value: FREE}

    def document(self) -> dict[str, Any]:
        """Say the same as a certificate does."""
        return {"one_hot": list(self.columns), **({} if self.scale == 1 else {"scale": self.scale})}


class Categories(NamedTuple):
    """A column that a model tests for sets of values: another one of ``values`` is a move of ``cost``."""

    columns: tuple[int, ...]
    cost: float
    values: tuple[float, ...] = ()

    def on(self, ensemble: TreeEnsemble, low: NDArray[np.float64], high: NDArray[np.float64]) -> Categories:
        """Return the same with the values that a model and a domain, by column, leave, in order.

        Where the model lists none, those that are in no set are alike, and one will do. If the domain has any, then the
        first of them is its end or comes right after a number in a set, or after those that count as missing.
        """
        (f,) = self.columns
        if f in ensemble.feature[ensemble.number_splits]:
            raise AttackerError(
                "Expected categories to name columns that the model tests for sets of values, got column"
                f" {called(ensemble.feature_names, f)},"
                " which it compares with numbers; use scale, or groups of one-hot columns."
            )
        (first, last), end = ensemble.blank_bounds[:, f], max(low[f], -LARGEST)
        values, others = ensemble.category_values(f), np.empty(0)
        if not (ensemble.categories or {}).get(f):
            before = np.array([*values[::-1], -1.0, last])
            with np.errstate(over="ignore"):
                after = np.maximum(np.floor(before) + 1, np.nextafter(before, math.inf))  # beyond 2**53, + 1 is lost
            others = np.setdiff1d(np.append(after, np.ceil(end)), values)
        is_in = [(low[f] <= v) & (v <= min(high[f], LARGEST)) & ~((first <= v) & (v <= last)) for v in (values, others)]
        return self._replace(values=tuple(sorted([*values[is_in[0]].tolist(), *others[is_in[1]].tolist()[-1:]])))

    @property
    def least(self) -> float:
        """The least cost of a move."""
        return self.cost

    def costs(self, value: float, budget: Fraction) -> dict[float, Any]:
        """Return what it costs, in units of eps, to take values; those beyond the budget may be left out."""
        return {**dict.fromkeys(self.values, self.cost), value: FREE}

    def document(self) -> dict[str, Any]:
        """Say the same as a certificate does."""
        return {"categories": list(self.columns), "cost": self.cost}


class Rule(NamedTuple):
    """One rule: a number from ``low`` to ``high`` may be raised by ``post``, or one of ``values`` become ``post``."""

    is_numerical: bool
    low: float
    high: float
    values: tuple[Any, ...]
    post: Any
    cost: Fraction

    @property
    def ever_applies(self) -> bool:
        """Whether there is a number that the rule speaks of."""
        return self.low < math.inf and self.high > -math.inf

    def apply(self, value: Any) -> Any:
        """Return what becomes of a value, None if the rule does not speak of it."""
        if self.is_numerical:
            return value + self.post if self.low <= value <= self.high else None
        return self.post if value in self.values else None

    def document(self) -> dict[str, Any]:
        """Say the same as a certificate does."""
        if self.is_numerical:
            ends = {key: end for key, end in (("low", self.low), ("high", self.high)) if math.isfinite(end)}
            return {"add": self.post, **ends, "cost": float(self.cost)}
        values = [value for value in self.values if math.isfinite(value)]
        return {"become": self.post, "values": values, "cost": float(self.cost)}


class Ruled(NamedTuple):
    """A column, or one-hot columns by places, changed by rules, again and again, each time at a cost."""

    columns: tuple[int, ...]
    rules: tuple[Rule, ...]

    @property
    def least(self) -> Fraction | float:
        """A bound of the least cost of a move; inf if there is none."""
        return FREE if self.rules else math.inf

    def costs(self, value: float, budget: Fraction) -> dict[float, Any]:
        """Return what it costs, in units of eps, to take values; those beyond the budget are left out."""
        found: dict[float, Any] = {}
        waiting, n_seen = [(FREE, 0, value)], 0
        while waiting:
            cost, _, here = heapq.heappop(waiting)
            if here in found:
                continue
            found[here] = cost
            if len(found) > MOST_VALUES:
                raise AttackerError(f"Expected rules that lead to up to {MOST_VALUES:,} values, got more.")
            for rule in self.rules:
                new = rule.apply(here)
                if new is not None and new not in found and cost + rule.cost <= budget:
                    if not math.isfinite(new):
                        raise AttackerError("Expected rules that lead to finite numbers, got one that does not.")
                    n_seen += 1
                    heapq.heappush(waiting, (cost + rule.cost, n_seen, new))
        return found

    def document(self) -> dict[str, Any]:
        """Say the same as a certificate does."""
        kind = "ruled" if len(self.columns) == 1 else "one_hot"
        return {kind: list(self.columns), "rules": [rule.document() for rule in self.rules if rule.ever_applies]}


Choice = OneHot | Categories | Ruled

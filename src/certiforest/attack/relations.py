"""Relations: what ties columns together; an attacker with relations may only produce rows that keep them.

A relation is linear (``"3 nb_www + 4 nb_com <= length_url"``, see `comparisons`), an implication (``{"if": "nb_com >
0", "then": "nb_dots > 0"}``, either side one comparison of a column with a number, or a list of them, all of which
count), or a list of values (``{"column": "term", "values": [36, 60]}``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from certiforest.attack.comparisons import Comparison, column_text, find_held, number_text, parse
from certiforest.attack.parameters import AttackerError
from certiforest.ensemble.numbers import is_float
from certiforest.words import shown

FORMS = (
    'text such as "a <= b + 1", {"if": "a > 0", "then": "b > 0"} or {"column": "a", "values": [36, 60]}, with a name if'
    " you like"
)


class Relation(NamedTuple):
    """One relation: where all of ``when`` hold, all of ``then`` do; or ``column`` has one of ``values``."""

    then: tuple[Comparison, ...] = ()
    when: tuple[Comparison, ...] = ()
    column: Any = None
    values: tuple[float, ...] = ()
    name: str | None = None

    @property
    def columns(self) -> list[Any]:
        """The columns that it ties together, each once."""
        found = [column for comparison in (*self.when, *self.then) for column, _ in comparison.terms]
        return list(dict.fromkeys(found if self.column is None else [self.column]))

    def is_kept(self, row: Sequence[float] | Mapping[Any, float]) -> bool:
        """Tell whether a row keeps it, exactly; one in which a value is missing does not."""
        if any(not abs(row[column]) < np.inf for column in self.columns):
            return False
        if self.values:
            return row[self.column] in self.values
        return not all(c.holds(row) for c in self.when) or all(c.holds(row) for c in self.then)

    def is_kept_between(self, low: Mapping[Any, float], high: Mapping[Any, float]) -> bool | None:
        """Tell whether all rows between some (by column) keep it, or none; None: neither is sure."""
        if self.values:
            inside = [value for value in self.values if low[self.column] <= value <= high[self.column]]
            return (True if low[self.column] == high[self.column] else None) if inside else False
        when, then = ([c.holds_between(low, high) for c in side] for side in (self.when, self.then))
        if False in when or all(then):
            return True
        return False if all(when) and False in then else None

    def worded(self, names: Sequence[str] | None) -> str:
        """Return the relation in words, its columns, which are indices, by name if they have one."""
        return str(self if names is None else self.by(lambda column: names[column]))

    def by(self, place: Callable[[Any], Any]) -> Relation:
        """Return the same about columns of other names."""
        when, then = (tuple(part.by(place) for part in side) for side in (self.when, self.then))
        return self._replace(when=when, then=then, column=None if self.column is None else place(self.column))

    def document(self) -> Any:
        """Return the relation as files have it."""
        name = {} if self.name is None else {"name": self.name}
        if self.values:
            return {**name, "column": self.column, "values": list(self.values)}
        when, then = (list(map(str, side)) for side in (self.when, self.then))
        if when:
            return {**name, "if": when[0] if len(when) == 1 else when, "then": then[0] if len(then) == 1 else then}
        return {**name, "linear": then[0]} if name else then[0]

    def audited(self) -> dict[str, Any]:
        """Return the relation as certificates have it."""
        if self.values:
            return {"column": self.column, "values": list(self.values)}
        when, then = (list(map(str, side)) for side in (self.when, self.then))
        return {"if": when, "then": then} if when else {"linear": then[0]}

    def __str__(self) -> str:
        if self.values:
            return f"{column_text(self.column)} is {' or '.join(map(number_text, map(Fraction, self.values)))}"
        when, then = (" and ".join(map(str, side)) for side in (self.when, self.then))
        return f"if {when} then {then}" if when else then


def read_relation(given: Any) -> Relation:
    """Read one relation in any of its forms; what it has as ``about`` is a note."""
    if isinstance(given, Relation):
        return given
    if isinstance(given, str):
        return Relation((parse(given),))
    if not isinstance(given, Mapping) or not all(isinstance(key, str) for key in given):
        raise AttackerError(f"Expected a relation to be {FORMS}, got {shown(given)}.")
    name, kind = given.get("name"), sorted(set(given) - {"name", "about"})
    if "name" in given and not isinstance(name, str):
        raise AttackerError(f"Expected the name of a relation to be text, got {shown(name)}.")
    if kind == ["linear"]:
        return Relation((parse(given["linear"]),), name=name)
    if kind == ["if", "then"]:
        when, then = (tuple(_simple(text) for text in _listed(given[side])) for side in kind)
        return Relation(then, when, name=name)
    if kind == ["column", "values"]:
        column, values = given["column"], given["values"]
        if isinstance(column, bool) or not isinstance(column, (str, int)) or (isinstance(column, int) and column < 0):
            raise AttackerError(f"Expected the column of a relation to be a name or an index, got {shown(column)}.")
        if not isinstance(values, (list, tuple)) or not values or not all(map(is_float, values)):
            raise AttackerError(f"Expected values of a relation to be a list of finite numbers, got {shown(values)}.")
        return Relation(column=column, values=tuple(sorted({float(value) + 0.0 for value in values})), name=name)
    raise AttackerError(f"Expected a relation to be {FORMS}, got the entries {shown(sorted(given))}.")


def read_relations(given: Any, option: str = "relations") -> tuple[Relation, ...]:
    """Read a list of relations."""
    if isinstance(given, (str, bytes, Mapping)) or not hasattr(given, "__iter__"):
        raise AttackerError(f"Expected {option} to be a list, each entry {FORMS}, got {shown(given)}.")
    return tuple(map(read_relation, given))


def _listed(side: Any) -> Sequence[Any]:
    """Return the comparisons of one side of an implication."""
    if isinstance(side, (list, tuple)) and not side:
        raise AttackerError("Expected if and then of a relation to hold comparisons, got an empty list.")
    return side if isinstance(side, (list, tuple)) else [side]


def _simple(text: Any) -> Comparison:
    """Read a comparison of one column with a number."""
    found = parse(text)
    if len(found.terms) > 1:
        raise AttackerError(
            f"Expected if and then to compare one column with a number, got {shown(text)}; make the difference of the"
            " columns a column of its own, or say it as a relation without if."
        )
    ((column, factor),) = found.terms
    sign = 1 if factor > 0 else -1
    return Comparison(((column, Fraction(sign)),), found.sign, found.bound / abs(factor))


def binding(relations: Sequence[Relation], x: NDArray[np.float64]) -> list[Relation]:
    """Return the relations that bind a row: those that it keeps itself."""
    return [relation for relation in relations if relation.is_kept(x.tolist())]


def find_broken(relations: Sequence[Relation], X: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Tell which relations, with columns by index, rows break themselves, shape (n, n_relations)."""
    broken = np.ones((len(X), len(relations)), bool)
    for r, relation in enumerate(relations):
        is_there = np.isfinite(X[:, relation.columns]).all(axis=1)
        rows = X[is_there]
        if relation.values:
            broken[is_there, r] = ~np.isin(rows[:, relation.column], relation.values)
        else:
            when, then = (
                np.all([find_held(c, rows) for c in side] or np.ones((1, len(rows)), bool), axis=0)
                for side in (relation.when, relation.then)
            )
            broken[is_there, r] = when & ~then
    return broken


def count_broken(
    relations: Sequence[Relation] | None, blocks: Iterable[NDArray[np.float64]]
) -> NDArray[np.int64] | None:
    """Count the relations that each row of some blocks breaks itself; None where there are no relations."""
    if relations is None:
        return None
    return np.concatenate([np.zeros(0, np.int64), *(find_broken(relations, X).sum(axis=1) for X in blocks)])

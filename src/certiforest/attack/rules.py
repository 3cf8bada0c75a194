"""RuleAttacker: someone who changes columns by rules, each use of which costs something, out of one budget.

The rules are those of TREANT (``docs/choosing.md``). Columns are independent of each other, so that each has a few
values that it can take from where it is, and each of these a least cost.
"""

from __future__ import annotations

import ast
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from certiforest.attack.attacker import DESCRIBED, Attacker
from certiforest.attack.choices import Choice, Rule, Ruled
from certiforest.attack.parameters import (
    AttackerError,
    Column,
    called,
    check_apart,
    check_cost,
    check_eps,
    find_columns,
)
from certiforest.ensemble.numbers import is_float, is_number
from certiforest.words import shown

ENTRIES = {"pre", "post", "cost", "is_numerical"}


class RuleAttacker(Attacker):
    """Someone who changes columns by rules with costs, again and again, while a budget lasts.

    Parameters
    ----------
    rules : dict, or list of dicts
        Rules by column, a name or an index; lists of such, and a dict with the single entry ``"attacks"``, as published
        files have, will do. A rule is a dict of ``pre``, ``post``, ``cost`` and ``is_numerical``. Numerical: while the
        value is from ``pre[0]`` to ``pre[1]``, both included, ``post`` may be added, in float64. Else: where the value
        is one of ``pre``, it may become ``post``. Each use costs ``cost``. ``pre`` may be text that holds a tuple.
    budget : float
        What all uses of rules on all columns together may cost, >= 0.
    groups : dict, optional
        One-hot columns: by the name that rules use, a dict of categories and the columns that stand for them.

    Examples
    --------
    >>> RuleAttacker({"age": [{"pre": "(20, 70)", "post": -1, "cost": 10, "is_numerical": True}]}, budget=30)
    RuleAttacker(1 rule on 1 column, budget=30.0)
    """

    rules: dict[Column, tuple[Rule, ...]]
    members: dict[str, dict[Any, Column]]  # by name of a group, the column of each category

    def __init__(self, rules: Any, budget: float, *, groups: Mapping[str, Mapping[Any, Column]] | None = None) -> None:
        given = {} if groups is None else {name: dict(columns) for name, columns in dict(groups).items()}
        budget = check_eps(budget, 1, "budget")
        super().__init__(1, budget, groups=[list(columns.values()) for columns in given.values()] or None)
        self._set(rules=rules if isinstance(rules, Checked) else Checked(_read_rules(rules)), members=given)
        for name, columns in given.items():
            for rule in self.rules.get(name, ()):
                if rule.is_numerical or rule.post not in columns:
                    raise AttackerError(
                        f"Expected rules on {shown(name)} to lead to one of its categories, got {shown(rule.post)}."
                    )
        check_apart([*self.rules, *(column for columns in given.values() for column in columns.values())])

    def __repr__(self) -> str:
        n_rules = sum(map(len, self.rules.values()))
        what = f"{n_rules} rule{'s' * (n_rules != 1)} on {len(self.rules)} column{'s' * (len(self.rules) != 1)}"
        return f"RuleAttacker({what}, budget={self.eps})"

    def replace(self, **changes: Any) -> RuleAttacker:
        """Return the same rules with another budget, ``eps``."""
        if set(changes) - {"eps"}:
            raise AttackerError(f"Expected rules to stay as they are, got another {sorted(set(changes) - {'eps'})[0]}.")
        return RuleAttacker(self.rules, changes.get("eps", self.eps), groups=self.members)

    def resolve(
        self, n_features: int, names: Sequence[str] | None = None, of_sets: Iterable[int] | NDArray[np.int64] = ()
    ) -> RuleAttacker:
        """Return the attacker with all columns by index; see `Attacker.resolve`."""
        groups = {
            name: dict(zip(columns, find_columns(columns.values(), n_features, names, "groups"), strict=True))
            for name, columns in self.members.items()
        }
        columns = [column for column in self.rules if column not in groups]
        places = find_columns(columns, n_features, names, "rules")
        rules = {place: self.rules[column] for column, place in zip(columns, places, strict=True)}
        for place, of_column in rules.items():
            for rule in of_column:
                if not all(map(is_float, [rule.post, *rule.values])):
                    raise AttackerError(
                        f"Expected rules on column {called(names, place)} to speak of numbers, got {shown(rule.post)};"
                        " name its one-hot columns by groups."
                    )
        return RuleAttacker(
            Checked(rules | {name: self.rules.get(name, ()) for name in groups}), self.eps, groups=groups
        )

    def to_document(self) -> dict[str, Any]:
        """Return the attacker as it is written to files; rules on columns by index, on groups by place in them."""
        attacks = [
            {"column": name, "rules": [_documented(rule) for rule in rules]} for name, rules in self.rules.items()
        ]
        groups = [{"name": name, "columns": [list(pair) for pair in c.items()]} for name, c in self.members.items()]
        return {"budget": self.eps, "attacks": attacks, "groups": groups}

    @classmethod
    def from_document(cls, document: Any) -> Self:
        """Read what `to_document` returns."""
        try:
            groups = {group["name"]: dict(map(tuple, group["columns"])) for group in document.get("groups") or ()}
            attacks = document["attacks"]
            if all(isinstance(entry, dict) and set(entry) == {"column", "rules"} for entry in attacks):
                attacks = [{entry["column"]: entry["rules"]} for entry in attacks]
            return cls(attacks, document["budget"], groups=groups)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            if isinstance(error, AttackerError):
                raise
            raise AttackerError(
                "Expected an attacker with budget, attacks and, if you like, groups, got another."
            ) from None

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        budget: float | None = None,
        *,
        groups: Mapping[str, Mapping[Any, Column]] | None = None,
    ) -> Self:
        """Read a published file of rules, ``{"attacks": [...]}``, or, without a budget, what `save` wrote."""
        if budget is None:
            return super().load(path)
        return DESCRIBED.read_file(path, lambda document: cls(document, budget, groups=groups))

    @property
    def has_norm(self) -> bool:
        """Whether moves have sizes: they have not."""
        return False

    def _choices(self, n_features: int) -> Mapping[int, Choice]:
        alone = {int(f): Ruled((int(f),), rules) for f, rules in self.rules.items() if f not in self.members}
        groups = [Ruled(tuple(c.values()), self._by_place(name)) for name, c in self.members.items()]  # type: ignore
        return alone | dict(enumerate(groups, n_features))

    def _by_place(self, name: str) -> tuple[Rule, ...]:
        """Return the rules of a group, with places of columns for categories."""
        place = {category: float(i) for i, category in enumerate(self.members[name])}
        return tuple(
            rule._replace(values=tuple(place[v] for v in rule.values if v in place), post=place[rule.post])
            for rule in self.rules.get(name, ())
        )

    def may_move(self, n_features: int) -> NDArray[np.bool_]:
        """Return which features rules speak of, shape (2, n_features)."""
        mask = np.zeros((2, n_features), bool)
        for choice in self._choices(n_features).values():
            mask[:, list(choice.columns)] = choice.least < math.inf or len(choice.columns) == 1
        return mask

    def is_frozen(self, n_features: int) -> NDArray[np.bool_]:
        """Return which features no rule speaks of, shape (n_features,)."""
        return ~self.may_move(n_features)[0]


def load_attacker(path: str | os.PathLike[str], budget: float | None = None) -> Attacker:
    """Read an attacker of any kind from a file; a published file of rules needs a budget."""

    def read(document: Any) -> Attacker:
        is_published = isinstance(document, dict) and set(document) == {"attacks"}
        if is_published and budget is not None:
            return RuleAttacker(document, budget)
        if is_published or budget is not None:
            raise AttackerError("Expected a budget (--eps) for a file of rules without one, and for no other file.")
        return read_attacker(DESCRIBED.without_header(document))

    return DESCRIBED.read_file(path, read)


def read_attacker(document: Any) -> Attacker:
    """Read what `to_document` of an attacker of any kind returns."""
    return (RuleAttacker if "budget" in document else Attacker).from_document(document)


class Checked(dict):
    """Rules by column that have been read."""


def _read_rules(document: Any) -> dict[Column, tuple[Rule, ...]]:
    if isinstance(document, Mapping) and set(document) == {"attacks"}:
        document = document["attacks"]
    parts = [document] if isinstance(document, Mapping) else document
    if not isinstance(parts, (list, tuple)) or not all(isinstance(part, Mapping) for part in parts):
        raise AttackerError(f"Expected rules by column, got {shown(document)}.")
    rules: dict[Column, tuple[Rule, ...]] = {}
    for column, given in (entry for part in parts for entry in part.items()):
        if isinstance(column, bool) or not isinstance(column, (str, int)) or not isinstance(given, (list, tuple)):
            raise AttackerError(f"Expected a list of rules for a column, got {shown(given)} for {shown(column)}.")
        rules[column] = rules.get(column, ()) + tuple(_read_rule(rule, column) for rule in given)
    for column, found in rules.items():
        if len({rule.is_numerical for rule in found}) > 1:
            raise AttackerError(f"Expected all rules on {shown(column)} to be numerical, or none, got both.")
        if len({rule[:-1] for rule in found}) < len(found):
            raise AttackerError(f"Expected one cost for a rule, got two rules on {shown(column)} that do the same.")
    return rules


def _read_rule(rule: Any, column: Column) -> Rule:
    if not isinstance(rule, Mapping) or set(rule) != ENTRIES or not isinstance(rule["is_numerical"], bool):
        raise AttackerError(
            f"Expected rules of pre, post, cost and is_numerical, a truth value, got {shown(rule)} for {shown(column)}."
        )
    pre, post = list(_read_pre(rule["pre"], column)), rule["post"]
    cost = Fraction(check_cost(rule["cost"], "a rule"))
    if not rule["is_numerical"]:
        if isinstance(post, (list, dict)) or post is None:
            raise AttackerError(f"Expected post to be a value, got {shown(post)} for {shown(column)}.")
        return Rule(False, 0.0, 0.0, tuple(map(_plain, pre)), _plain(post), cost)
    pre = [float(v) if v in ("-inf", "inf") else v for v in pre]
    is_interval = len(pre) == 2 and all(is_float(v) or v in (-math.inf, math.inf) for v in pre) and pre[0] <= pre[1]
    if not is_interval or not is_float(post) or post == 0:
        raise AttackerError(
            "Expected a numerical rule with pre (low, high) and post other than 0, got"
            f" {shown(dict(rule))} for {shown(column)}."
        )
    return Rule(True, float(pre[0]), float(pre[1]), (), float(post), cost)


def _plain(value: Any) -> Any:
    """Return whole numbers as floats, so that 0 and 0.0 are one value of a column; text as it is."""
    return float(value) if is_float(value) else value


def _read_pre(pre: Any, column: Column) -> tuple[Any, ...]:
    """Return what a rule starts from; text holds a tuple as Python writes it, of numbers, np.inf and text."""
    if isinstance(pre, (list, tuple)):
        values = tuple(pre)
    elif isinstance(pre, str):
        try:
            values = _read_node(ast.parse(pre.strip(), mode="eval").body)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            raise AttackerError(f"Expected pre to hold a tuple, got {shown(pre)} for {shown(column)}.") from None
        values = values if isinstance(values, tuple) else (values,)
    else:
        values = (pre,)
    if not values or not all(isinstance(v, str) or (is_number(v) and v == v) for v in values):
        raise AttackerError(f"Expected pre to hold numbers or text, got {shown(pre)} for {shown(column)}.")
    return values


def _read_node(node: ast.AST) -> Any:
    """Return what a piece of parsed text means, of the few that have a meaning here; nothing is evaluated."""
    if isinstance(node, ast.Tuple):
        return tuple(map(_read_node, node.elts))
    if isinstance(node, ast.Constant) and type(node.value) in (int, float, str):
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_read_node(node.operand)
    if (
        isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and (node.value.id, node.attr) == ("np", "inf")
    ):
        return math.inf
    raise ValueError


def _documented(rule: Rule) -> dict[str, Any]:
    pre = [rule.low, rule.high] if rule.is_numerical else list(rule.values)
    pre = [str(v) if isinstance(v, float) and math.isinf(v) else v for v in pre]
    cost = int(rule.cost) if rule.cost.denominator == 1 else float(rule.cost)
    return {"pre": pre, "post": rule.post, "cost": cost, "is_numerical": rule.is_numerical}

"""Statements: what may be said about all inputs of a model, as plain data; contracts: statements in a file."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from certiforest.attack.attacker import DESCRIBED, Attacker
from certiforest.attack.parameters import Column
from certiforest.attack.rules import RuleAttacker, read_attacker
from certiforest.ensemble.described import Kind
from certiforest.words import named, shown


class StatementError(ValueError):
    """A statement is put in a way that has no meaning."""


CONTRACT = Kind("a contract", "certiforest-contract", StatementError)


@dataclass(frozen=True)
class Range:
    """No input has a score below ``low`` or above ``high``.

    Parameters
    ----------
    low, high : float, optional
        Probabilities or shares of votes of the second class, a regressor's own unit, or sums; see `check`.
    """

    low: float = -math.inf
    high: float = math.inf

    def __post_init__(self) -> None:
        _check_number(self.low, "low")
        _check_number(self.high, "high")
        if not self.low <= self.high or not (self.low > -math.inf or self.high < math.inf):
            raise StatementError(f"Expected a range from low to high, got {self.low} and {self.high}.")

    def __str__(self) -> str:
        ends = [f"at least {self.low:g}"] * (self.low > -math.inf) + [f"at most {self.high:g}"] * (self.high < math.inf)
        return f"The score is {' and '.join(ends)}."

    def to_document(self) -> dict[str, Any]:
        """Return the statement as a contract has it."""
        return {"range": [end if math.isfinite(end) else None for end in (self.low, self.high)]}


@dataclass(frozen=True)
class Insensitive:
    """No two inputs that differ only in some columns are decided differently.

    Parameters
    ----------
    columns : list of columns
    low, high : float, optional
        If given: no two such inputs have scores at or below ``low`` and at or above ``high``.
    """

    columns: Sequence[Column]
    low: float | None = None
    high: float | None = None

    def __post_init__(self) -> None:
        _check_columns(self.columns)
        object.__setattr__(self, "columns", tuple(self.columns))
        if (self.low is None) != (self.high is None):
            raise StatementError("Expected low and high together, or neither, got one of them.")
        if self.low is not None and self.high is not None:
            _check_number(self.low, "low", finite=True)
            _check_number(self.high, "high", finite=True)
            if self.low > self.high:
                raise StatementError(f"Expected low up to high, got {self.low} and {self.high}.")

    def __str__(self) -> str:
        where = named([str(column) for column in self.columns])
        if self.low is None:
            return f"A change of {where} alone never changes the decision."
        return f"A change of {where} alone never takes the score from {self.low:g} or less to {self.high:g} or more."

    def to_document(self) -> dict[str, Any]:
        """Return the statement as a contract has it."""
        ends = {} if self.low is None else {"low": self.low, "high": self.high}
        return {"insensitive": list(self.columns), **ends}


@dataclass(frozen=True)
class Monotone:
    """The score never falls where a column grows ("up"), or never rises ("down"), and nothing else changes.

    Parameters
    ----------
    column : column
    direction : {"up", "down"}
    tolerance : float, default=0.0
        How much it may.
    """

    column: Column
    direction: str = "up"
    tolerance: float = 0.0

    def __post_init__(self) -> None:
        _check_columns([self.column])
        if self.direction not in ("up", "down"):
            raise StatementError(f"Expected direction to be up or down, got {shown(self.direction)}.")
        _check_tolerance(self.tolerance)

    def __str__(self) -> str:
        word = "falls" if self.direction == "up" else "rises"
        more = f" by more than {self.tolerance:g}" if self.tolerance else ""
        return f"The score never {word}{more} where {self.column} grows."

    def to_document(self) -> dict[str, Any]:
        """Return the statement as a contract has it."""
        more = {"tolerance": self.tolerance} if self.tolerance else {}
        return {"monotone": self.column, "direction": self.direction, **more}


@dataclass(frozen=True, eq=False)
class Same:
    """Another model decides as this one does, or has scores within a tolerance of its scores.

    Parameters
    ----------
    other : model or path
        Of the same columns.
    tolerance : float, optional
        Decisions are compared if it is not given.
    """

    other: Any
    tolerance: float | None = None

    def __post_init__(self) -> None:
        if self.tolerance is not None:
            _check_tolerance(self.tolerance)

    def __str__(self) -> str:
        name = self.other if isinstance(self.other, str) else type(self.other).__name__
        if self.tolerance is None:
            return f"Decisions are those of {name}."
        return f"Scores are within {self.tolerance:g} of those of {name}."

    def to_document(self) -> dict[str, Any]:
        """Return the statement as a contract has it; the other model must be a path."""
        if not isinstance(self.other, str):
            raise StatementError("Expected the path of the other model in what is written to a file, got a model.")
        return {"same": self.other, **({} if self.tolerance is None else {"tolerance": self.tolerance})}


@dataclass(frozen=True)
class Robust:
    """At least a share of rows is predicted right, and no attack changes that.

    Parameters
    ----------
    attacker : Attacker or RuleAttacker
    at_least : float
        Of the rows that are given to `check`.
    """

    attacker: Attacker | RuleAttacker
    at_least: float

    def __post_init__(self) -> None:
        if not isinstance(self.attacker, (Attacker, RuleAttacker)):
            raise StatementError(f"Expected an Attacker or a RuleAttacker, got {type(self.attacker).__name__}.")
        _check_number(self.at_least, "at_least", finite=True)
        if not 0 <= self.at_least <= 1:
            raise StatementError(f"Expected at_least to be a share from 0 to 1, got {self.at_least}.")

    def __str__(self) -> str:
        return f"At least {self.at_least:.2%} of rows are right and cannot be changed by {self.attacker!r}."

    def to_document(self) -> dict[str, Any]:
        """Return the statement as a contract has it."""
        return {"robust": self.attacker.to_document(), "at_least": self.at_least}


Statement = Range | Insensitive | Monotone | Same | Robust


def read_contract(path: str | os.PathLike[str]) -> list[Statement]:
    """Read the statements of a contract; paths of other models start where the contract is.

    Raises
    ------
    StatementError
        That says which statement, counted from 1, is none.
    """

    def read(document: Any) -> list[Statement]:
        statements = CONTRACT.without_header(document)
        if set(statements) != {"statements"} or not isinstance(statements["statements"], list):
            raise StatementError(f"Expected a list, statements, and nothing else, got {shown(sorted(statements))}.")
        return [read_one(entry, number) for number, entry in enumerate(statements["statements"], 1)]

    def read_one(entry: Any, number: int) -> Statement:
        try:
            statement = read_statement(entry)
        except ValueError as error:
            raise StatementError(f"Statement {number}: {error}") from None
        if isinstance(statement, Same):
            return replace(statement, other=str(Path(path).parent / statement.other))
        return statement

    return CONTRACT.read_file(path, read)


def read_statement(document: Any) -> Statement:
    """Read what ``to_document`` of a statement returns.

    Raises
    ------
    StatementError
    """
    kinds = KINDS.keys() & document if isinstance(document, dict) else set()
    if len(kinds) != 1:
        raise StatementError(f"Expected a statement, one of {', '.join(sorted(KINDS))}, got {shown(document)}.")
    (kind,) = kinds
    read, known = KINDS[kind]
    told = {key: entry for key, entry in document.items() if key != kind}
    if not set(told) <= known:
        raise StatementError(f"Expected no other entries beside {kind}, got {shown(sorted(told))}.")
    return read(document[kind], **told)


def _read_range(ends: Any) -> Range:
    if not isinstance(ends, list) or len(ends) != 2:
        raise StatementError(f"Expected a range to be a list of low and high, got {shown(ends)}.")
    low, high = ends
    return Range(-math.inf if low is None else low, math.inf if high is None else high)


def _read_same(path: Any, **told: Any) -> Same:
    if not isinstance(path, str):
        raise StatementError(f"Expected the path of another model, got {shown(path)}.")
    return Same(path, **told)


def _read_robust(attacker: Any, at_least: Any = None) -> Robust:
    if at_least is None:
        raise StatementError("Expected at_least beside robust, got none.")
    if not isinstance(attacker, dict):
        raise StatementError(f"Expected an attacker, as Attacker.save writes it, got {shown(attacker)}.")
    return Robust(read_attacker(DESCRIBED.without_header(attacker) if "format" in attacker else attacker), at_least)


# The entry that a statement of each kind has in a contract, what reads it, and the entries that may stand beside it.
KINDS: dict[str, tuple[Callable[..., Statement], set[str]]] = {
    "range": (_read_range, set()),
    "insensitive": (Insensitive, {"low", "high"}),
    "monotone": (Monotone, {"direction", "tolerance"}),
    "same": (_read_same, {"tolerance"}),
    "robust": (_read_robust, {"at_least"}),
}


def _check_number(value: Any, name: str, *, finite: bool = False) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value != value:
        raise StatementError(f"Expected {name} to be a number, got {shown(value)}.")
    if (finite or isinstance(value, int)) and not abs(value) <= sys.float_info.max:
        raise StatementError(f"Expected {name} to be a finite number that float64 holds, got {shown(value)}.")


def _check_tolerance(value: Any) -> None:
    _check_number(value, "tolerance", finite=True)
    if value < 0:
        raise StatementError(f"Expected a tolerance of at least 0, got {value}.")


def _check_columns(columns: Any) -> None:
    if isinstance(columns, (str, bytes, dict)) or not hasattr(columns, "__iter__") or not list(columns):
        raise StatementError(f"Expected a list of columns, got {shown(columns)}.")
    for column in columns:
        if isinstance(column, bool) or not isinstance(column, (int, str)) or (isinstance(column, int) and column < 0):
            raise StatementError(f"Expected columns by name or index, got {shown(column)}.")

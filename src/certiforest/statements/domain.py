"""Domain: where the inputs of a model lie, column by column; statements speak of all of them."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from certiforest.attack.parameters import Column, check_columns, check_groups, find_columns
from certiforest.ensemble import TreeEnsemble
from certiforest.ensemble.described import Kind
from certiforest.ensemble.model_file import pieces
from certiforest.ensemble.numbers import Immutable, InexactError, exact_floats, is_float, is_number, owned
from certiforest.ensemble.scaling import Scaling
from certiforest.files import write_atomically
from certiforest.statements.plausible import fit_plausibility
from certiforest.words import shown

MOST_SCALED = 1000
PARTS = ("name", "low", "high", "integer", "values", "missing")


class DomainError(ValueError):
    """A domain is described in a way that has no meaning, or that does not fit a model."""


DESCRIBED = Kind("a domain", "certiforest domain", DomainError)


class Domain(Immutable):
    """Where inputs lie.

    Parameters
    ----------
    low, high : array-like of shape (n_features,)
        Smallest and largest value of each column, both included; NaN in columns whose ``values`` are text.
    integer : iterable of columns, optional
        Columns whose values are whole numbers.
    values : mapping of columns to lists of numbers or text, optional
        Columns that take no other values than these.
    groups : iterable of lists of columns, optional
        One-hot columns: exactly one of each list is 1, the others are 0.
    missing : iterable of columns, or bool, optional
        Columns in which values may be missing; True: in all.
    columns : sequence of str, optional
        Names of the columns.
    plausible : TreeEnsemble, optional
        One of a single sum; inputs lie where that is at least 0.

    Examples
    --------
    >>> domain = Domain([18, 0], [99, 1e6], integer=["age"], columns=["age", "income"])
    >>> domain.with_range("age", 18, 30).high.tolist()
    [30.0, 1000000.0]
    """

    low: NDArray[np.float64]
    high: NDArray[np.float64]
    integer: NDArray[np.bool_]
    values: dict[int, tuple[Any, ...]]
    groups: tuple[tuple[int, ...], ...]
    missing: NDArray[np.bool_]
    columns: tuple[str, ...] | None
    plausible: TreeEnsemble | None
    like: Any  # rows of the data, none of them, whose types `decode` gives back
    scaling: Scaling | None  # which `decode` undoes

    def __init__(
        self,
        low: ArrayLike,
        high: ArrayLike,
        *,
        integer: Iterable[Column] | None = None,
        values: Mapping[Column, Sequence[Any]] | None = None,
        groups: Iterable[Iterable[Column]] | None = None,
        missing: Iterable[Column] | bool | None = None,
        columns: Sequence[str] | None = None,
        plausible: TreeEnsemble | None = None,
    ) -> None:
        try:
            ends = [owned(np.ravel(exact_floats(end))) for end in (low, high)]
        except InexactError as error:
            raise DomainError(f"Expected low and high to hold numbers, got {error}.") from None
        n, names = len(ends[0]), None if columns is None else tuple(map(str, columns))
        if len(ends[1]) != n or n == 0 or (names is not None and len(names) != n):
            raise DomainError(
                f"Expected low, high and columns of one length, got {n} and {len(ends[1])}"
                + (f" and {len(names)} columns." if names is not None else ".")
            )
        if names is not None and len(set(names)) < n:
            raise DomainError("Expected every column name once, got one twice.")
        if plausible is not None and (plausible.n_features != n or len(plausible.summands()[1]) != 1):
            raise DomainError(f"Expected plausible to be an ensemble of one sum and {n} columns, got another one.")
        self._set(low=ends[0], high=ends[1], columns=names, plausible=plausible, like=None, scaling=None)
        listed = dict(zip(self._find(list(values), "values"), values.values(), strict=True)) if values else {}
        grouped = check_groups([] if groups is None else list(groups)) or ()
        everywhere = np.full(n, missing) if isinstance(missing, (bool, np.bool_)) else self._mask(missing, "missing")
        self._set(
            integer=self._mask(integer, "integer"),
            values={f: _check_values(kept, self.name(f)) for f, kept in listed.items()},
            groups=tuple(tuple(self._find(group, "groups")) for group in grouped),
            missing=everywhere,
        )
        self._check()

    def _find(self, columns: Any, option: str) -> list[int]:
        return find_columns(columns, len(self.low), self.columns, option)

    def _mask(self, columns: Any, option: str) -> NDArray[np.bool_]:
        mask, given = np.zeros(len(self.low), bool), check_columns([] if columns is None else columns, option)
        if isinstance(given, np.ndarray) and given.dtype == bool:
            if len(given) != len(mask):
                raise DomainError(f"Expected {option} for {len(mask)} columns, got {len(given)} values.")
            return given.copy()
        mask[self._find(given, option)] = True
        return mask

    def _check(self) -> None:
        for f, (low, high) in enumerate(zip(self.low.tolist(), self.high.tolist(), strict=True)):
            kept = self.values.get(f)
            if kept is not None and isinstance(kept[0], str):
                if not (math.isnan(low) and math.isnan(high)):
                    raise DomainError(f"Expected no range for {self.name(f)}, whose values are text, got one.")
                continue
            first = low
            if self.integer[f]:
                first = math.ceil(low) if math.isfinite(low) else high
            if not self._inside(f, kept or (first,)) or low == math.inf or high == -math.inf:
                raise DomainError(
                    f"Expected a value for {self.name(f)} from low to high, got none between {low} and {high}."
                )
        for group in self.groups:
            columns = list(group)
            if (self.low[columns] > 0).any() or (self.high[columns] < 1).any() or self.missing[columns].any():
                raise DomainError("Expected one-hot columns from 0 to 1 in which nothing is missing, got others.")
            if any(not {0, 1} <= {*self.listed(f)} for f in columns if f in self.values):
                raise DomainError("Expected 0 and 1 among the values of one-hot columns, got others.")

    def _inside(self, column: int, values: Sequence[Any]) -> list[Any]:
        """Return those of some numbers that a column can hold."""
        inside = [v for v in values if self.low[column] <= v <= self.high[column]]
        return [v for v in inside if math.isinf(v) or v == int(v)] if self.integer[column] else inside

    def listed(self, column: int) -> list[Any]:
        """Return the values of a column that lists some, without numbers beyond its ends."""
        kept = self.values[column]
        return list(kept) if isinstance(kept[0], str) else self._inside(column, kept)

    def name(self, column: int) -> str:
        """Return the name of a column, ``column 3`` where columns have none."""
        return f"column {column}" if self.columns is None else self.columns[column]

    @classmethod
    def from_data(
        cls,
        X: Any,
        plausible: float | None = None,
        *,
        columns: Sequence[str] | None = None,
        values: Mapping[Column, Sequence[Any]] | None = None,
    ) -> Domain:
        """Return the domain of some rows: what their columns hold, from the smallest to the largest.

        Columns all of whose numbers are whole hold whole numbers; text and categories are the values that occur; where
        a value is missing in some row, it may be missing. Columns of the kind ``country_DE``, ``country_FR`` that are
        one-hot in every row are a group.

        Parameters
        ----------
        X : data frame of pandas, or array-like of shape (n, n_features)
        plausible : float, optional
            A share of the rows, the most isolated ones as an isolation forest has it: inputs that are more isolated
            than all other rows are left out. It looks at columns of numbers in which nothing is missing.
        columns : sequence of str, optional
            Names of the columns of an array.
        values : mapping of indices to lists of numbers or text, optional
            Values of columns whose numbers in an array stand for these.
        """
        is_frame = hasattr(X, "iloc")
        try:
            table: Any = X if is_frame else exact_floats(X)
        except InexactError as error:
            raise DomainError(f"Expected a table of numbers, or a data frame of pandas, got {error}.") from None
        if len(table.shape) != 2 or 0 in table.shape:
            raise DomainError(f"Expected a table of at least one row and column, got shape {tuple(table.shape)}.")
        names = list(map(str, X.columns)) if is_frame else columns
        if plausible is not None and not (is_number(plausible) and 0 <= plausible < 1):
            raise DomainError(f"Expected plausible to be a share of rows from 0 to below 1, got {shown(plausible)}.")
        n, numbers_of = table.shape[1], np.zeros(table.shape)
        low, high = np.full(n, math.nan), np.full(n, math.nan)
        integer, missing = np.zeros(n, bool), np.zeros(n, bool)
        kept: dict[Column, Sequence[Any]] = dict(values or {})
        for f in range(n):
            column = X.iloc[:, f] if is_frame else table[:, f]
            there = column.dropna().to_numpy() if is_frame else column[~np.isnan(column)]
            missing[f] = len(there) < len(column)
            if is_frame and str(column.dtype) in ("object", "category", "string", "str"):
                kept[f] = sorted(dict.fromkeys(there.tolist()), key=str)
            if f in kept:
                if not any(isinstance(value, str) for value in _check_values(kept[f], f"column {f}")):
                    low[f], high[f] = min(kept[f]), max(kept[f])
                continue
            try:
                numbers = exact_floats(there) if len(there) else np.zeros(1)
            except InexactError as error:
                raise DomainError(f"Expected numbers or text in column {f}, got {error}.") from None
            low[f], high[f] = numbers.min(), numbers.max()
            integer[f] = bool((numbers == np.floor(numbers)).all())
            numbers_of[:, f] = 0.0 if missing[f] else numbers
        is_flag = integer & (low == 0) & (high == 1) & ~missing
        groups = None if names is None else _one_hot(table, names, is_flag)
        ensemble = None if plausible is None else fit_plausibility(numbers_of, plausible)
        domain = cls(
            low, high, integer=integer, values=kept, groups=groups, missing=missing, columns=names, plausible=ensemble
        )
        if is_frame:
            domain._set(like=X.iloc[:0])
        return domain

    def with_range(self, column: Column, low: float, high: float) -> Domain:
        """Return the domain whose column goes from low to high only."""
        (f,) = self._find([column], "column")
        if not (is_number(low) and is_number(high)):
            raise DomainError(f"Expected numbers as ends of {self.name(f)}, got {shown(low)} and {shown(high)}.")
        ends = self.low.copy(), self.high.copy()
        ends[0][f], ends[1][f] = low, high
        return self._with(low=ends[0], high=ends[1])

    def fixed(self, **values: Any) -> Domain:
        """Return the domain whose columns, by name, have these values and no others."""
        domain = self
        for name, value in values.items():
            (f,) = domain._find([name], "column")
            if f in domain.values and isinstance(value, str):
                if value not in domain.values[f]:
                    raise DomainError(f"Expected one of {shown(list(domain.values[f]))} in {name}, got {shown(value)}.")
                domain = domain._with(values=domain.values | {f: (value,)})
            else:
                domain = domain.with_range(f, value, value)
            missing = domain.missing.copy()
            missing[f] = False
            domain = domain._with(missing=missing)
        return domain

    def scaled(self, scaling: Scaling) -> Domain:
        """Return the domain as a model sees it that scales columns, and decodes rows to the units of the data.

        Of whole columns that take more than `MOST_SCALED` values, all numbers between the ends count, unless the
        scaling leaves them as they are; so it is with one-hot groups.
        """
        if len(self.low) != scaling.n_features:
            raise DomainError(f"Expected a domain of {scaling.n_features} columns, got {len(self.low)}.")
        is_same, values = (scaling.offset == 0) & (scaling.range == 1), dict(self.values)
        for f in np.flatnonzero(self.integer & ~is_same & (self.high - self.low < MOST_SCALED)).tolist():
            values.setdefault(f, tuple(np.arange(math.ceil(self.low[f]), self.high[f] + 0.5).tolist()))
        for f, kept in values.items():
            if not isinstance(kept[0], str):
                values[f] = tuple(((np.array(kept, float) - scaling.offset[f]) / scaling.range[f]).tolist())
        low, high = scaling.apply([self.low, self.high])
        groups = [group for group in self.groups if is_same[list(group)].all()]
        plausible = self.plausible
        if plausible is not None:  # of what the model sees
            f = np.maximum(plausible.feature, 0)
            threshold = (plausible.threshold - scaling.offset[f]) / scaling.range[f]
            plausible = plausible.replace(threshold=threshold, scaling=scaling)
        domain = self._with(
            low=low, high=high, integer=self.integer & is_same, values=values, groups=groups, plausible=plausible
        )
        domain._set(scaling=scaling, like=None)
        return domain

    def _with(self, **changes: Any) -> Domain:
        names = ("low", "high", "integer", "values", "groups", "missing", "columns", "plausible")
        domain = Domain(**{name: getattr(self, name) for name in names} | changes)
        domain._set(like=self.like, scaling=self.scaling)
        return domain

    def to_document(self) -> dict[str, Any]:
        """Return the domain as it is written to files."""
        columns = []
        for f in range(len(self.low)):
            ends = {"low": float(self.low[f]), "high": float(self.high[f])}
            entry: dict[str, Any] = {} if self.columns is None else {"name": self.columns[f]}
            entry |= {key: end for key, end in ends.items() if math.isfinite(end)}
            entry |= {"integer": True} if self.integer[f] else {}
            entry |= {"values": list(self.values[f])} if f in self.values else {}
            entry |= {"missing": True} if self.missing[f] else {}
            columns.append(entry)
        groups = {"groups": [list(group) for group in self.groups]} if self.groups else {}
        plausible = {} if self.plausible is None else {"plausible": json.loads("".join(pieces(self.plausible)))}
        return DESCRIBED.with_header({"columns": columns, **groups, **plausible})

    @classmethod
    def from_document(cls, document: Any) -> Domain:
        """Read what `to_document` returns."""
        document = DESCRIBED.without_header(document)
        columns, groups, given = (document.get(name) for name in ("columns", "groups", "plausible"))
        if not set(document) <= {"columns", "groups", "plausible"} or not isinstance(columns, list):
            raise DomainError("Expected the entries columns and, if there are any, groups and plausible, got others.")
        if not isinstance(groups, (list, type(None))):
            raise DomainError(f"Expected groups to be lists of columns, got {shown(groups)}.")
        for entry in columns:
            if not isinstance(entry, dict) or not set(entry) <= set(PARTS):
                raise DomainError(f"Expected columns with {', '.join(PARTS)}, got {shown(entry)}.")
            if any(not isinstance(entry.get(flag, False), bool) for flag in ("integer", "missing")):
                raise DomainError(f"Expected integer and missing to be true or false, got {shown(entry)}.")
            if not isinstance(entry.get("values", []), list):
                raise DomainError("Expected values to be a list, got something else.")
        names = [entry["name"] for entry in columns if entry.get("name") is not None]
        if len(names) not in (0, len(columns)) or not all(isinstance(name, str) for name in names):
            raise DomainError("Expected a name for every column, or for none, got some.")
        low, high = (
            [entry.get(key, math.nan if isinstance((entry.get("values") or [0])[0], str) else end) for entry in columns]
            for key, end in (("low", -math.inf), ("high", math.inf))
        )
        integer, missing = ([bool(entry.get(key)) for entry in columns] for key in ("integer", "missing"))
        values: dict[Column, Any] = {f: entry["values"] for f, entry in enumerate(columns) if "values" in entry}
        plausible = None if given is None else TreeEnsemble.from_text(json.dumps(given), source="plausible")
        return cls(
            low,
            high,
            integer=integer,
            values=values,
            groups=groups,
            missing=missing,
            columns=names or None,
            plausible=plausible,
        )

    def save(self, path: str | os.PathLike[str], *, replace: bool = True) -> None:
        """Write the domain as JSON text, to be edited and loaded; the file appears whole or not at all."""
        text = json.dumps(self.to_document(), indent=1, allow_nan=False)
        write_atomically(path, text + "\n", replace=replace)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Domain:
        """Read a domain that `save` wrote, or that was written by hand."""
        return DESCRIBED.read_file(path, cls.from_document)

    def __eq__(self, other: object) -> bool:
        """Two domains are equal iff they say the same."""
        if not isinstance(other, Domain):
            return NotImplemented
        return self.to_document() == other.to_document()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Domain({len(self.low)} columns)"


def _check_values(values: Any, name: str) -> tuple[Any, ...]:
    kept = tuple(values) if isinstance(values, (list, tuple, np.ndarray)) else ()
    kept = tuple(value.item() if isinstance(value, np.generic) else value for value in kept)
    is_text = [isinstance(value, str) for value in kept]
    if not kept or not (all(is_text) or all(map(is_float, kept))):
        raise DomainError(f"Expected a list of numbers, or of text, as values of {name}, got {shown(values)}.")
    return kept


def _one_hot(X: Any, names: Sequence[str], is_flag: NDArray[np.bool_]) -> list[list[int]]:
    """Return the columns that share what comes before their last underscore, of which exactly one is 1 in every row."""
    by_stem: dict[str, list[int]] = {}
    for f in np.flatnonzero(is_flag).tolist():
        stem, separator, _ = names[f].rpartition("_")
        if separator:
            by_stem.setdefault(stem, []).append(f)
    groups = [group for group in by_stem.values() if len(group) > 1]
    flags = X.iloc if hasattr(X, "iloc") else X
    return [group for group in groups if (np.asarray(flags[:, group], float).sum(axis=1) == 1).all()]

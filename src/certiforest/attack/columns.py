"""Columns as attackers name them: by index or by name, in lists, masks, groups and mappings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from certiforest.ensemble.numbers import is_float, owned
from certiforest.words import shown

Column = int | str
WAYS = ("up", "down", "both")


class AttackerError(ValueError):
    """An attacker is described in a way that has no meaning."""


def check_columns(columns: Any, option: str) -> NDArray | tuple[Column, ...] | None:
    """Return columns as an array of indices, a boolean mask, or, if names are among them, a tuple."""
    if columns is None:
        return None
    given: Any = None
    if hasattr(columns, "__iter__") and not isinstance(columns, (str, bytes, dict)):
        given = columns.tolist() if isinstance(columns, np.ndarray) else list(columns)
        is_plain = set(map(type, given)) <= {int}  # as nearly always, and there may be thousands
        if is_plain and 0 <= min(given, default=0) <= max(given, default=0) < 2**31:
            return owned(np.array(given, np.int64))
        if all(isinstance(column, (bool, np.bool_)) for column in given):
            return owned(np.array(given, bool))
    if given is None or not all(map(_is_column, given)):
        raise AttackerError(
            f"Expected {option} to list feature indices or names, or to be a boolean mask, got {shown(columns)}."
        )
    found = tuple(column if isinstance(column, str) else int(column) for column in given)
    lowest = min((column for column in found if isinstance(column, int)), default=0)
    if lowest < 0:
        raise AttackerError(f"Expected {option} feature indices >= 0, got {lowest}.")
    return found if any(isinstance(column, str) for column in found) else owned(np.array(found, np.int64))


def _is_column(column: Any) -> bool:
    if isinstance(column, (bool, np.bool_)):
        return False
    return isinstance(column, str) or (isinstance(column, (int, np.integer)) and abs(int(column)) < 2**31)


def check_direction(direction: Any) -> str | dict[Column, str] | None:
    """Return which way features can be moved: a word for all of them, or one by column."""
    if direction is None:
        return None
    words = list(direction.values()) if isinstance(direction, Mapping) else [direction]
    for word in words:
        if not isinstance(word, str) or word not in WAYS:
            raise AttackerError(f"Expected a direction to be up, down or both, got {shown(word)}.")
    if not isinstance(direction, Mapping):
        return str(direction)
    columns = check_columns(list(direction), "direction")
    if isinstance(columns, np.ndarray) and columns.dtype == bool:
        raise AttackerError(f"Expected direction by feature index or name, got {shown(dict(direction))}.")
    return dict(zip(columns.tolist() if isinstance(columns, np.ndarray) else columns or (), words, strict=True))


def documented_direction(direction: str | dict[Column, str]) -> str | dict[str, list[Column]]:
    """Return a direction as it is written: a word, or the columns of each word."""
    if isinstance(direction, str):
        return direction
    return {way: [column for column, word in direction.items() if word == way] for way in set(direction.values())}


def read_direction(document: Any) -> Any:
    """Read what `documented_direction` returns."""
    if not isinstance(document, dict):
        return document
    if not set(document) <= set(WAYS):
        raise AttackerError(f"Expected columns by up, down and both as direction, got {shown(sorted(document))}.")
    pairs = []
    for way, columns in document.items():
        if not isinstance(columns, list):
            raise AttackerError(f"Expected a list of columns that move {way}, got {shown(columns)}.")
        found = check_columns(columns, "direction")
        pairs += [(column, way) for column in (found.tolist() if isinstance(found, np.ndarray) else found or ())]
    if len(dict(pairs)) < len(pairs):
        raise AttackerError("Expected one direction for each column, got two for one of them.")
    return dict(pairs)


def check_categories(categories: Any) -> dict[Column, float] | None:
    """Return what changes of category cost, by column."""
    if categories is None:
        return None
    columns = check_columns(list(categories), "categories") if isinstance(categories, Mapping) else None
    if columns is None or (isinstance(columns, np.ndarray) and columns.dtype == bool):
        raise AttackerError(f"Expected categories to be costs by feature index or name, got {shown(categories)}.")
    named = columns.tolist() if isinstance(columns, np.ndarray) else columns
    return {column: check_cost(cost, "categories") for column, cost in zip(named, categories.values(), strict=True)}


def read_categories(document: Any) -> Any:
    """Read costs of changes as files have them: pairs of a column and a cost, or an object of names and costs."""
    if not isinstance(document, list):
        return document
    if not all(isinstance(pair, list) and len(pair) == 2 and _is_column(pair[0]) for pair in document):
        raise AttackerError(f"Expected categories to hold pairs of a column and a cost, got {shown(document)}.")
    if len({pair[0] for pair in document}) < len(document):
        raise AttackerError("Expected one cost for each column of categories, got two for one of them.")
    return dict(document)


def check_cost(cost: Any, option: str) -> float:
    """Return what a change costs."""
    if not is_float(cost) or cost <= 0:
        raise AttackerError(f"Expected {option} to cost a finite number > 0 that float64 holds, got {shown(cost)}.")
    return float(cost)


def check_groups(groups: Any) -> tuple[tuple[Column, ...], ...] | None:
    """Return groups of columns, of which none is in two."""
    if groups is None:
        return None
    if isinstance(groups, (str, bytes, Mapping)) or not hasattr(groups, "__iter__"):
        raise AttackerError(f"Expected groups to be lists of columns, got {shown(groups)}.")
    found = []
    for group in groups:
        columns = check_columns(group, "groups")
        if columns is None or len(columns) < 2 or (isinstance(columns, np.ndarray) and columns.dtype == bool):
            raise AttackerError(f"Expected a group to list two or more one-hot columns, got {shown(group)}.")
        found.append(tuple(columns.tolist() if isinstance(columns, np.ndarray) else columns))
    check_apart([column for group in found for column in group])
    return tuple(found)


def check_apart(columns: Sequence[Column]) -> None:
    """Refuse columns that are in two groups, or twice in one."""
    column, count = max(Counter(columns).items(), key=lambda entry: entry[1], default=(0, 1))
    if count > 1:
        raise AttackerError(f"Expected a column in one group at most, got column {shown(column)} in {count} places.")


def find_columns(columns: Any, n_features: int, names: Sequence[str] | None, option: str) -> list[int]:
    """Return the indices of columns, each once.

    Raises
    ------
    AttackerError
        If there is no such column, or one of this name and another of this index are one, or a name occurs twice.
    """
    found = []
    for column in columns.tolist() if isinstance(columns, np.ndarray) else columns:
        if isinstance(column, str):
            found.append(_find_name(column, names, option))
        elif column < n_features:
            found.append(int(column))
        else:
            raise AttackerError(f"Expected {option} features between 0 and {n_features - 1}, got {column}.")
    if len(set(found)) < len(found):
        if option in ("groups", "direction", "categories", "rules"):
            raise AttackerError(f"Expected every column once in {option}, got one by name and by index.")
        return sorted(set(found))
    return found


def _find_name(column: str, names: Sequence[str] | None, option: str) -> int:
    if names is None:
        raise AttackerError(
            f"Expected {option} features by index, since the model has no names for them, got {shown(column)}."
        )
    if Counter(names)[column] != 1:
        how = "which is none of them" if column not in names else "which several of them have"
        raise AttackerError(f"Expected {option} to name columns of the model, got {shown(column)}, {how}.")
    return list(names).index(column)

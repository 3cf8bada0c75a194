"""The parameters of an attacker: norm, eps and options, checked, shown, written and read; columns by index or name."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from certiforest.ensemble.numbers import InexactError, exact_floats, is_float, is_number, owned
from certiforest.words import shown

Column = int | str
WAYS = ("up", "down", "both")
LARGEST_FINITE_NORM = 100
LONGEST_REPR = 8  # numbers of one option that repr shows


class AttackerError(ValueError):
    """An attacker is described in a way that has no meaning."""


# ---- Numbers ---------------------------------------------------------------------------------------------------------


def check_norm(norm: Any) -> float:
    """Return a norm: 0, 1, 2, ... or inf."""
    if isinstance(norm, str):
        match = re.fullmatch(r"(?:l[_-]?)?([0-9]{1,9}|inf)", norm.strip().lower())
        number: Any = float(match.group(1)) if match else norm
    else:
        number = norm
    if is_number(number) and number == math.inf:
        return math.inf
    if not is_number(number) or number != number or number < 0 or number != int(number):
        raise AttackerError(f"Expected norm to be 0, 1, 2, 3, ... or inf, got {shown(norm)}.")
    if number > LARGEST_FINITE_NORM:
        raise AttackerError(
            f"Expected a norm up to {LARGEST_FINITE_NORM}, or inf, got {shown(norm)}; use norm=inf instead."
        )
    return int(number)


def check_eps(eps: Any, norm: float, name: str = "eps") -> float:
    """Return a budget; ``name`` is what it is called in errors."""
    try:
        number = float(exact_floats(eps)) if not isinstance(eps, (bool, np.bool_)) and np.ndim(eps) == 0 else math.nan
    except InexactError:
        number = math.nan
    if not 0 <= number < math.inf:
        raise AttackerError(f"Expected {name} to be a finite number >= 0, got {shown(eps)}.")
    if norm == 0 and number >= 1 and number != int(number):
        raise AttackerError(f"Expected eps to be a whole number of features with norm 0, got {shown(eps)}.")
    return number


def check_cost(cost: Any, option: str) -> float:
    """Return what a change costs."""
    if not is_float(cost) or cost <= 0:
        raise AttackerError(f"Expected {option} to cost a finite number > 0 that float64 holds, got {shown(cost)}.")
    return float(cost)


def check_numbers(values: Any, option: str) -> NDArray[np.float64]:
    """Return a number, or one per feature."""
    try:
        numbers = exact_floats(values)
    except InexactError as error:
        raise AttackerError(f"Expected {option} to hold numbers, got {error}.") from None
    if numbers.ndim > 1 or numbers.size == 0:
        raise AttackerError(f"Expected {option} to be a number or one per feature, got shape {numbers.shape}.")
    return owned(numbers)


def per_feature(values: NDArray, n_features: int, option: str) -> NDArray:
    """Return one value for each feature, shape (n_features,)."""
    if values.ndim == 1 and len(values) != n_features:
        raise AttackerError(f"Expected {option} for {n_features} features, got {len(values)} values.")
    return np.broadcast_to(values, n_features).copy()


# ---- Columns ---------------------------------------------------------------------------------------------------------


def check_columns(columns: Any, option: str) -> NDArray | tuple[Column, ...]:
    """Return columns as an array of indices, a boolean mask, or, if names are among them, a tuple."""
    given: Any = None
    if hasattr(columns, "__iter__") and not isinstance(columns, (str, bytes, dict)):
        given = columns.tolist() if isinstance(columns, np.ndarray) else list(columns)
        is_plain = set(map(type, given)) <= {int}  # as nearly always, and there may be thousands
        if is_plain and 0 <= min(given, default=0) <= max(given, default=0) < 2**31:
            return owned(np.array(given, np.int64))
        if all(isinstance(column, (bool, np.bool_)) for column in given):
            return owned(np.array(given, bool))
    if given is None or not all(map(is_column, given)):
        raise AttackerError(
            f"Expected {option} to list feature indices or names, or to be a boolean mask, got {shown(columns)}."
        )
    found = tuple(column if isinstance(column, str) else int(column) for column in given)
    lowest = min((column for column in found if isinstance(column, int)), default=0)
    if lowest < 0:
        raise AttackerError(f"Expected {option} feature indices >= 0, got {lowest}.")
    return found if any(isinstance(column, str) for column in found) else owned(np.array(found, np.int64))


def is_column(column: Any) -> bool:
    """Tell whether this can be a column: an index or a name."""
    if isinstance(column, (bool, np.bool_)):
        return False
    return isinstance(column, str) or (isinstance(column, (int, np.integer)) and abs(int(column)) < 2**31)


def check_by_column(given: Mapping, option: str, refusal: str) -> list[Column]:
    """Return the columns that a mapping names, by index or name, not by a mask."""
    columns = check_columns(list(given), option)
    if isinstance(columns, np.ndarray) and columns.dtype == bool:
        raise AttackerError(refusal)
    return list(columns.tolist() if isinstance(columns, np.ndarray) else columns)


def _check_direction(direction: Any, option: str) -> str | dict[Column, str]:
    """Return which way features can be moved: a word for all of them, or one by column.

    A mapping may also list the columns of each word, ``{"up": [...]}``.
    """
    if not isinstance(direction, Mapping):
        return _check_way(direction)
    pairs: list[tuple[Any, str]] = []
    for name, told in direction.items():
        if isinstance(told, str):
            pairs.append((name, _check_way(told)))
        elif name in WAYS:
            if not hasattr(told, "__iter__"):
                raise AttackerError(f"Expected a list of columns that move {name}, got {shown(told)}.")
            pairs += [(column, name) for column in write_columns(check_columns(told, option))]
        else:
            _check_way(told)
    if len(dict(pairs)) < len(pairs):
        raise AttackerError("Expected one direction for each column, got two for one of them.")
    refusal = f"Expected direction by feature index or name, got {shown(dict(direction))}."
    return dict(zip(check_by_column(dict(pairs), option, refusal), dict(pairs).values(), strict=True))


def _check_way(word: Any) -> str:
    if not isinstance(word, str) or word not in WAYS:
        raise AttackerError(f"Expected a direction to be up, down or both, got {shown(word)}.")
    return word


def _check_categories(categories: Any, option: str) -> dict[Column, float]:
    """Return what changes of category cost, by column."""
    refusal = f"Expected categories to be costs by feature index or name, got {shown(categories)}."
    if not isinstance(categories, Mapping):
        raise AttackerError(refusal)
    columns = check_by_column(categories, option, refusal)
    return {column: check_cost(cost, option) for column, cost in zip(columns, categories.values(), strict=True)}


def check_groups(groups: Any, option: str = "groups") -> tuple[tuple[Column, ...], ...]:
    """Return groups of columns, of which none is in two."""
    if isinstance(groups, (str, bytes, Mapping)) or not hasattr(groups, "__iter__"):
        raise AttackerError(f"Expected groups to be lists of columns, got {shown(groups)}.")
    found = []
    for group in groups:
        columns = check_columns(group, option)
        if len(columns) < 2 or (isinstance(columns, np.ndarray) and columns.dtype == bool):
            raise AttackerError(f"Expected a group to list two or more one-hot columns, got {shown(group)}.")
        found.append(tuple(columns.tolist() if isinstance(columns, np.ndarray) else columns))
    check_apart([column for group in found for column in group])
    return tuple(found)


def check_apart(columns: Sequence[Column]) -> None:
    """Refuse columns that are in two groups, or twice in one."""
    column, count = max(Counter(columns).items(), key=lambda entry: entry[1], default=(0, 1))
    if count > 1:
        raise AttackerError(f"Expected a column in one group at most, got column {shown(column)} in {count} places.")


def called(names: Sequence[str] | None, column: int) -> str:
    """Return how messages call a column: by index, and by name if it has one."""
    return str(column) if names is None else f"{column} ({shown(names[column])})"


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
        if option in ("groups", "direction", "categories", "rules", "scale", "domain"):
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


# ---- Options: shown, written and read --------------------------------------------------------------------------------


def written_option(option: Any) -> str:
    """Return how repr shows an option."""
    if isinstance(option, np.ndarray):
        words = [str(value).removesuffix(".0") for value in np.ravel(option)[:LONGEST_REPR].tolist()]
        return f"[{', '.join(words)}{', ...' if option.size > LONGEST_REPR else ''}]" if option.ndim else words[0]
    if isinstance(option, tuple) and isinstance(option[0], np.ndarray):
        return f"({', '.join(written_option(half) for half in option)})"
    if isinstance(option, tuple):  # columns, or groups of them
        return str([list(entry) if isinstance(entry, tuple) else entry for entry in option])
    return repr(option)


def write_columns(columns: Any) -> list[Any]:
    """Return columns as a list, those of a mask by index."""
    if isinstance(columns, np.ndarray):
        return (np.flatnonzero(columns) if columns.dtype == bool else columns).tolist()
    return list(columns)


def _write_direction(direction: str | dict[Column, str]) -> str | dict[str, list[Column]]:
    """Return a word, or the columns of each word."""
    if isinstance(direction, str):
        return direction
    return {way: [column for column, word in direction.items() if word == way] for way in set(direction.values())}


def write_pairs(by_column: Mapping[Column, Any]) -> list[list[Any]]:
    """Return what is told by column as pairs: keys of JSON are text, and columns may be indices."""
    return [list(pair) for pair in by_column.items()]


def read_pairs(document: Any, option: str) -> Any:
    """Read what files have by column: pairs of a column and something, or an object with names."""
    if not isinstance(document, list):
        return document
    if not all(isinstance(pair, list) and len(pair) == 2 and is_column(pair[0]) for pair in document):
        raise AttackerError(f"Expected {option} to hold pairs of a column and a number, got {shown(document)}.")
    if len({pair[0] for pair in document}) < len(document):
        raise AttackerError(f"Expected every column once in {option}, got one twice.")
    return dict(document)


def _check_flag(value: Any, option: str) -> bool:
    if not isinstance(value, (bool, np.bool_)):
        raise AttackerError(f"Expected {option} to be True or False, got {shown(value)}.")
    return bool(value)


def _as_it_is(value: Any) -> Any:
    return value


class Option(NamedTuple):
    """How one option of an attacker is checked, given its value and its name, written to files, read, and shown."""

    check: Callable[[Any, str], Any]
    write: Callable[[Any], Any] = _as_it_is
    read: Callable[[Any], Any] = _as_it_is
    show: Callable[[Any], str] = written_option


OPTIONS = {
    "frozen": Option(check_columns, write_columns),
    "direction": Option(_check_direction, _write_direction),
    "integer": Option(check_columns, write_columns),
    "groups": Option(check_groups, lambda groups: [list(group) for group in groups]),
    "categories": Option(_check_categories, write_pairs, partial(read_pairs, option="categories")),
    "missing": Option(check_cost),
    "only": Option(check_columns, write_columns),
    "strict": Option(_check_flag),
}


def check_attacked(attacked: Any, classes: NDArray) -> NDArray | None:
    """Return the labels of the classes that are attacked, in the model's order."""
    if attacked is None:
        return None
    if isinstance(attacked, (str, bytes)) or not hasattr(attacked, "__iter__"):
        raise ValueError(f"Expected attacked to be a list of labels, got {shown(attacked)}.")
    wanted = list(attacked)
    for label in wanted:
        if not any(label == known for known in classes.tolist()):
            raise ValueError(
                f"Expected attacked to hold labels of the model, {shown(classes.tolist())}, got {shown(label)}."
            )
    return classes[[known in wanted for known in classes.tolist()]]

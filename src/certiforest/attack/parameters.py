"""The numbers of an attacker: norm, eps, scale and domain, checked, shown and written."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from certiforest.attack.columns import AttackerError, Column
from certiforest.ensemble.numbers import InexactError, exact_floats, is_number, owned
from certiforest.words import shown

LARGEST_FINITE_NORM = 100
LONGEST_REPR = 8  # numbers of one option that repr shows


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


def check_scale(scale: Any) -> Any:
    """Return a scale, or a pair of them."""
    if scale is None:
        return None
    if isinstance(scale, tuple) and len(scale) == 2:
        return _check_units(scale[0]), _check_units(scale[1])
    return _check_units(scale)


def _check_units(scale: Any) -> NDArray[np.float64]:
    numbers = _numbers(scale, "scale")
    if not ((numbers > 0) & np.isfinite(numbers)).all():
        worst = numbers[~((numbers > 0) & np.isfinite(numbers))][0]
        raise AttackerError(
            f"Expected every scale to be a finite number > 0, got {worst}. To forbid a change, use frozen."
        )
    return numbers


def check_domain(domain: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
    """Return the smallest and the largest values."""
    if domain is None:
        return None
    is_list = isinstance(domain, (tuple, list)) or (isinstance(domain, np.ndarray) and domain.ndim > 0)
    if not is_list or len(domain) != 2:
        raise AttackerError(f"Expected domain to be a pair (low, high), got {shown(domain)}.")
    low, high = (_numbers(bound, "domain") for bound in domain)
    if low.ndim == high.ndim == 1 and low.shape != high.shape:
        raise AttackerError(f"Expected domain bounds of one length, got {len(low)} and {len(high)}.")
    if not (low <= high).all():  # NaN fails here, too
        raise AttackerError("Expected every domain to have low <= high, got one that has not.")
    return low, high


def _numbers(values: Any, name: str) -> NDArray[np.float64]:
    try:
        numbers = exact_floats(values)
    except InexactError as error:
        raise AttackerError(f"Expected {name} to hold numbers, got {error}.") from None
    if numbers.ndim > 1 or numbers.size == 0:
        raise AttackerError(f"Expected {name} to be a number or one per feature, got shape {numbers.shape}.")
    return owned(numbers)


def per_feature(values: NDArray, n_features: int, name: str) -> NDArray:
    """Return one value for each feature, shape (n_features,)."""
    if values.ndim == 1 and len(values) != n_features:
        raise AttackerError(f"Expected {name} for {n_features} features, got {len(values)} values.")
    return np.broadcast_to(values, n_features).copy()


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


def documented(columns: NDArray | tuple[Column, ...] | None) -> list[Any] | None:
    """Return columns as they are written to files."""
    if isinstance(columns, np.ndarray):
        return (np.flatnonzero(columns) if columns.dtype == bool else columns).tolist()
    return None if columns is None else list(columns)


def documented_scale(scale: Any) -> Any:
    """Return a scale, or a pair of them, as it is written to files."""
    if isinstance(scale, tuple):
        return {"down": scale[0].tolist(), "up": scale[1].tolist()}
    return scale.tolist()


def read_bound(bound: Any, end: float) -> Any:
    """Return a bound that may be text or null for infinity, or a list of such."""
    if isinstance(bound, list):
        return [read_bound(value, end) for value in bound]
    return end if bound is None else float(bound) if bound in ("inf", "-inf") else bound


def written(bound: Any) -> Any:
    """Return a bound, or a list of them, with infinities as text."""
    if isinstance(bound, list):
        return [written(value) for value in bound]
    return str(bound) if math.isinf(bound) else bound


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

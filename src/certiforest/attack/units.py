"""What holds of columns one by one: the unit of each and its limits, given for all of them, in order or by name."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from certiforest.attack.parameters import (
    LONGEST_REPR,
    AttackerError,
    Column,
    Option,
    check_by_column,
    check_numbers,
    find_columns,
    read_pairs,
    write_pairs,
    written_option,
)
from certiforest.ensemble.numbers import InexactError, exact_floats, is_number
from certiforest.ensemble.rows import NUMBERS
from certiforest.words import listed, shown

Pair = tuple[float, float]
HALVES = {"down", "up"}


# ---- Steps that a table suggests -------------------------------------------------------------------------------------


def scale_from(X: Any, by: str | tuple[float, float] = "range") -> dict[Column, float]:
    """Return a unit for each column of a table, as ``Attacker(scale=...)`` takes them.

    Parameters
    ----------
    X : array-like or data frame of shape (n, n_features)
        Training rows. Columns of a frame that hold no numbers are left out; values that are missing do not count.
    by : "range", "std" or pair of float, default="range"
        The distance between the smallest and the largest value, the standard deviation, or the distance between two
        quantiles, such as (0.05, 0.95).

    Returns
    -------
    dict
        By name, or by index. A constant column has unit 1. One that is not constant, but whose quantiles are equal, is
        left out: give its unit by hand, ``scale_from(X, (0.05, 0.95)) | {"gain": 1000}``, or freeze it.

    Examples
    --------
    >>> scale_from([[0, 10], [4, 10], [1, 10]])
    {0: 4.0, 1: 1.0}
    """
    quantiles: Any = (0.0, 1.0) if by == "range" else by
    is_pair = isinstance(quantiles, (tuple, list)) and len(quantiles) == 2 and all(map(is_number, quantiles))
    if by != "std" and not (is_pair and 0 <= quantiles[0] < quantiles[1] <= 1):
        raise AttackerError(f'Expected by to be "range", "std" or two quantiles such as (0.05, 0.95), got {shown(by)}.')
    units: dict[Column, float] = {}
    for name, column in _columns_of(X):
        values = column[~np.isnan(column)]
        if not values.size or values.min() == values.max():
            units[name] = 1.0
            continue
        low, high = (0.0, np.std(values)) if by == "std" else np.quantile(values, quantiles)
        if high > low:
            units[name] = float(high - low)
    return units


def _columns_of(X: Any) -> list[tuple[Column, NDArray[np.float64]]]:
    """Return the columns of a table that hold numbers, by name, or by index."""
    if not hasattr(X, "columns"):
        try:
            rows = exact_floats(X)
        except InexactError as error:
            raise AttackerError(f"Expected rows of numbers, got {error}.") from None
        if rows.ndim != 2 or not len(rows):
            raise AttackerError(f"Expected rows, got shape {rows.shape}.")
        return list(enumerate(rows.T))
    found: list[tuple[Column, NDArray[np.float64]]] = []
    for name in X.columns:
        if NUMBERS.fullmatch(str(X[name].dtype).lower()):
            how = {"dtype": np.float64, "na_value": np.nan} if hasattr(X, "iloc") else {}
            found.append((str(name), np.asarray(X[name].to_numpy(**how), np.float64)))
    return found


# ---- Checked ---------------------------------------------------------------------------------------------------------


def _by_column(told: Any) -> dict[Any, Any] | None:
    """Return what is told by column, as a mapping or a series with names; None if it is told otherwise."""
    if isinstance(told, Mapping) or (hasattr(told, "index") and hasattr(told, "items")):
        return dict(told.items())
    return None


def _check_scale(scale: Any, option: str) -> Any:
    """Return units: numbers, a pair (down, up) of these, or such a pair for each column that is named."""
    if isinstance(scale, tuple) and len(scale) == 2:
        return _check_units(scale[0], option), _check_units(scale[1], option)
    given = _by_column(scale)
    if given is None:
        return _check_units(scale, option)
    if len(given) == 1 and set(given) <= HALVES:
        raise AttackerError(f"Expected scale by down and up, both, or by column, got {shown(given)}.")
    if set(given) == HALVES:
        down, up = (_by_column(given[way]) for way in ("down", "up"))
        if down is None or up is None:
            return _check_scale((given["down"], given["up"]), option)
        if set(down) != set(up):
            odd = sorted(map(str, set(down) ^ set(up)))
            raise AttackerError(f"Expected scale for the same columns down and up, got one of them for {listed(odd)}.")
        given = {column: (down[column], up[column]) for column in down}
    pairs = _check_pairs({c: v if isinstance(v, (tuple, list)) else (v, v) for c, v in given.items()}, option)
    for column, pair in pairs.items():
        for unit in pair:
            if not 0 < unit < math.inf:
                raise _bad_unit(unit, f" for {shown(column)}")
    return pairs


def _check_units(scale: Any, option: str) -> NDArray[np.float64]:
    numbers = check_numbers(scale, option)
    is_sound = (numbers > 0) & np.isfinite(numbers)
    if not is_sound.all():
        place = np.flatnonzero(~is_sound)[0]
        raise _bad_unit(numbers.flat[place], f" for feature {place}" if numbers.ndim else "")
    return numbers


def _bad_unit(unit: float, where: str) -> AttackerError:
    return AttackerError(
        f"Expected every scale to be a finite number > 0, got {unit}{where}. To forbid a change, use frozen; a column"
        " that is constant takes any unit, as scale_from gives it."
    )


def _check_pairs(given: Mapping[Any, Any], option: str) -> dict[Column, Pair]:
    """Return pairs of numbers by column."""
    refusal = f"Expected {option} by feature index or name, got {shown(dict(given))}."
    pairs = {}
    for column, told in zip(check_by_column(given, option, refusal), given.values(), strict=True):
        try:
            pair = exact_floats(told)
        except InexactError as error:
            raise AttackerError(f"Expected {option} to hold numbers, got {error} for {shown(column)}.") from None
        if pair.shape != (2,):
            what = "a pair (low, high)" if option == "domain" else "a number, or a pair (down, up)"
            raise AttackerError(f"Expected {option} to be {what} for {shown(column)}, got {shown(told)}.")
        pairs[column] = float(pair[0]), float(pair[1])
    if not pairs:
        raise AttackerError(f"Expected {option} to name columns, got none.")
    return pairs


def _check_domain(domain: Any, option: str) -> Any:
    """Return the smallest and the largest values, or such a pair for each column that is named."""
    given = _by_column(domain)
    if given is not None:
        pairs = _check_pairs(given, option)
        for column, (least, most) in pairs.items():
            if not least <= most:  # NaN fails here, too
                raise AttackerError(f"Expected a domain with low <= high for {shown(column)}, got {least} and {most}.")
        return pairs
    is_list = isinstance(domain, (tuple, list)) or (isinstance(domain, np.ndarray) and domain.ndim > 0)
    if not is_list or len(domain) != 2:
        raise AttackerError(f"Expected domain to be a pair (low, high), or pairs by column, got {shown(domain)}.")
    low, high = (check_numbers(bound, option) for bound in domain)
    if low.ndim == high.ndim == 1 and low.shape != high.shape:
        raise AttackerError(f"Expected domain bounds of one length, got {len(low)} and {len(high)}.")
    if not (low <= high).all():
        raise AttackerError("Expected every domain to have low <= high, got one that has not.")
    return low, high


# ---- By index --------------------------------------------------------------------------------------------------------


def _by_index(
    pairs: dict[Column, Pair], n_features: int, names: Sequence[str] | None, option: str
) -> NDArray[np.float64]:
    """Return pairs for all features, shape (2, n_features), NaN for those that are not named."""
    found = np.full((2, n_features), np.nan)
    found[:, find_columns(list(pairs), n_features, names, option)] = np.array(list(pairs.values())).T
    return found


def scale_by_index(scale: Any, needs: NDArray[np.bool_], names: Sequence[str] | None) -> Any:
    """Return units of all features; those that have to have one, which ``needs`` tells, are refused without."""
    if not isinstance(scale, dict):
        if isinstance(scale, tuple) and scale[0].ndim == scale[1].ndim == 0 and set(names or ()) >= HALVES:
            raise AttackerError(
                "Expected a scale that can be read one way only, got a pair (down, up) for a model with columns down"
                " and up; give a list for one number per feature, or a pair of lists."
            )
        return scale
    units = _by_index(scale, len(needs), names, "scale")
    lacking = np.flatnonzero(np.isnan(units[0]) & needs)
    if lacking.size:
        which = listed([f if names is None else names[f] for f in lacking.tolist()])
        raise AttackerError(
            f"Expected scale to name every column that can be changed, got none for {which}: name them, too, or freeze"
            " them, as only=[...] does for all but a few."
        )
    units[np.isnan(units)] = 1.0
    return units[0] if (units[0] == units[1]).all() else (units[0], units[1])


def domain_by_index(domain: Any, n_features: int, names: Sequence[str] | None) -> Any:
    """Return the ends of all features; nothing limits those that are not named."""
    if not isinstance(domain, dict):
        return domain
    low, high = _by_index(domain, n_features, names, "domain")
    return np.where(np.isnan(low), -np.inf, low), np.where(np.isnan(high), np.inf, high)


# ---- Shown, written and read -----------------------------------------------------------------------------------------


def _plain(pair: Pair) -> Any:
    """Return one number where both are equal."""
    return pair[0] if pair[0] == pair[1] else list(pair)


def _write_scale(scale: Any) -> Any:
    if isinstance(scale, dict):
        return write_pairs({column: _plain(pair) for column, pair in scale.items()})
    return {"down": scale[0].tolist(), "up": scale[1].tolist()} if isinstance(scale, tuple) else scale.tolist()


def _read_scale(document: Any) -> Any:
    """Read a scale: a list whose first entry is a list holds pairs of a column and its unit."""
    is_by_column = isinstance(document, list) and document and isinstance(document[0], list)
    return read_pairs(document, "scale") if is_by_column else document


def _write_bound(bound: Any) -> Any:
    """Return a bound, or a list of them, with infinities as text."""
    if isinstance(bound, list):
        return [_write_bound(value) for value in bound]
    return str(bound) if math.isinf(bound) else bound


def _read_bound(bound: Any, end: float) -> Any:
    """Return a bound that may be text or null for infinity, or a list of such."""
    if isinstance(bound, list):
        return [_read_bound(value, end) for value in bound]
    return end if bound is None else float(bound) if bound in ("inf", "-inf") else bound


def _write_domain(domain: Any) -> Any:
    if isinstance(domain, dict):
        return write_pairs({column: _write_bound(list(pair)) for column, pair in domain.items()})
    return [_write_bound(bound.tolist()) for bound in domain]


def _read_domain(document: Any) -> Any:
    """Read a domain: a list whose first entry is a list with another in it holds pairs of a column and its ends."""
    first = document[0] if isinstance(document, list) and document else None
    if isinstance(first, list) and any(isinstance(entry, list) for entry in first):
        document = read_pairs(document, "domain")
    if isinstance(document, dict):
        return {column: _read_domain(pair) for column, pair in document.items()}
    if not isinstance(document, list):
        return document
    return tuple(_read_bound(bound, end) for bound, end in zip(document, (-np.inf, np.inf), strict=False))


def _shown(told: Any) -> str:
    """Return how repr shows it."""
    if not isinstance(told, dict):
        return written_option(told)
    first = [f"{column!r}: {_plain(told[column])}" for column in list(told)[:LONGEST_REPR]]
    return f"{{{', '.join(first)}{', ...' if len(told) > LONGEST_REPR else ''}}}"


SCALE = Option(_check_scale, _write_scale, _read_scale, _shown)
DOMAIN = Option(_check_domain, _write_domain, _read_domain, _shown)

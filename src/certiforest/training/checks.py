"""Checks at the doors of the estimators: parameters, the attacker they describe, and rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.validation import _check_sample_weight

from certiforest.attack.attacker import Attacker
from certiforest.words import named, shown

LARGEST_FLOAT32 = float(np.finfo(np.float32).max)


def check_integer(name: str, value: Any, least: int = 1, alternative: str | None = None) -> None:
    """Refuse what is not an integer from ``least`` on; ``alternative`` names what else is fine."""
    if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
        expected = f"an integer >= {least}" if alternative is None else f"an integer >= {least} or {alternative}"
        raise ValueError(f"Expected {name} to be {expected}, got {shown(value)}.")


def check_number(name: str, value: Any, interval: str, is_inside: Callable[[Any], bool]) -> None:
    """Refuse what is not a number, or not inside an interval."""
    if not isinstance(value, Real) or isinstance(value, bool) or not is_inside(value):
        raise ValueError(f"Expected {name} to be a number {interval}, got {shown(value)}.")


def check_share(name: str, value: Any) -> None:
    """Refuse what is neither a share of a whole nor a number of things."""
    if isinstance(value, Integral):
        check_integer(name, value)
    else:
        check_number(name, value, "in (0, 1] or an integer >= 1", lambda share: 0 < share <= 1)


def check_choice(name: str, value: Any, choices: tuple[str | None, ...]) -> None:
    """Refuse what is none of some words."""
    if not isinstance(value, str | None) or value not in choices:
        raise ValueError(f"Expected {name} to be {' or '.join(map(repr, choices))}, got {shown(value)}.")


def check_attacker(
    given: Attacker | None, described: Mapping[str, Any], defaults: Mapping[str, Any], without: str
) -> Attacker:
    """Return the attacker that is given, or described by parameters; refuse both, and what trainers do not know.

    ``without`` names what to use when there is none.
    """
    if given is None:
        eps = described["eps"]
        if not isinstance(eps, Real) or not float(eps) > 0:
            raise ValueError(
                f"Expected eps to be a number > 0, got {eps!r}; without an attacker, {without} is the better choice."
            )
        attacker = Attacker(**described)
        if not attacker.can_move:
            raise ValueError(f"Expected eps >= 1 with norm 0, where it counts features, got {eps!r}.")
        return attacker
    if not isinstance(given, Attacker):
        raise ValueError(f"Expected attacker to be an Attacker or a RuleAttacker, got {shown(given)}; make one.")
    for name, value in described.items():
        if value is not defaults[name] and not (isinstance(value, Real) and value == defaults[name]):
            raise ValueError(
                f"Expected attacker alone, or {named([*described])}, got attacker and {name}={shown(value)};"
                f" leave {name} out, or say it to the attacker."
            )
    if not given.can_move:
        raise ValueError(
            f"Expected an attacker who can move rows, got {given!r}; without one, {without} is the better choice."
        )
    can = {"groups": given.groups, "categories": given.categories or None, "missing": given.missing}
    unknown = [name for name, value in can.items() if value is not None]
    if unknown and given.has_norm:
        raise ValueError(
            f"Expected an attacker by {named([*described])}, or by rules, which trainers know, got {named(unknown)};"
            " leave that out of the one to train for, and certify against yours."
        )
    return given


def check_finite(X: NDArray[np.float64], takes_missing: bool) -> None:
    """Refuse infinity, and NaN where values must not be missing, and say where they are."""
    if np.isfinite(X).all():
        return
    is_bad = np.isinf(X) if takes_missing else ~np.isfinite(X)
    if not is_bad.any():
        return
    row, column = np.argwhere(is_bad)[0]
    found, advice = "infinity", "remove or impute such rows"
    if np.isnan(X[row, column]):
        found, advice = "NaN", "the model was trained on rows without: train on some that miss values, too, or impute"
    raise ValueError(f"Expected finite numbers in X, got {found} in row {row}, feature {column}; {advice}.")


def check_classes(classes: NDArray) -> None:
    """Refuse labels of one class only."""
    if len(classes) < 2:
        raise ValueError(
            f"Expected labels of at least two classes, got one class only ({classes.tolist()[0]!r}); add rows of"
            " another class."
        )


def check_learnable(X: NDArray[np.float64], attacker: Attacker, without: str) -> None:
    """Refuse rows from which nothing can be learned, and attackers that can change nothing."""
    n_features = X.shape[1]
    low, high, is_missing = np.fmin.reduce(X), np.fmax.reduce(X), np.isnan(X)
    if not ((low < high) | (is_missing.any(axis=0) & ~is_missing.all(axis=0))).any():
        raise ValueError(
            f"Expected a feature with at least two different values, got {n_features} constant ones;"
            " nothing can be learned from them."
        )
    largest = np.fmax.reduce(np.maximum(-low, high))
    if largest > LARGEST_FLOAT32:
        raise ValueError(
            f"Expected numbers up to {LARGEST_FLOAT32:.2g}, the largest that scikit-learn's trees can"
            f" handle, got {largest:.2g}; rescale the features."
        )
    if attacker.is_frozen(n_features).all():
        raise ValueError(
            f"Expected a feature that the attacker can change, got all {n_features} frozen, or whole with eps below"
            f" a step of 1; without an attacker, {without} is the better choice."
        )


def count_share(value: Any, whole: int) -> int:
    """Return an absolute number, or a share of a whole rounded up."""
    return min(int(value), whole) if isinstance(value, Integral) else max(1, math.ceil(value * whole))


def combine_weights(
    X: NDArray, y: NDArray, sample_weight: ArrayLike | None, class_weight: str | dict | None
) -> NDArray[np.float64]:
    """Return the product of row and class weights; 1 where there are none."""
    weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
    return weight if class_weight is None else weight * compute_sample_weight(class_weight, y)

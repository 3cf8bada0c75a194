"""Attacker: how far a row may be moved at test time, and which features may move at all."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

LARGEST_FINITE_NORM = 100


class AttackerError(ValueError):
    """An attacker is described in a way that has no meaning."""


class Budgets(NamedTuple):
    """What one feature alone may spend: exactly ``eps * scale``, as ``high + low`` (see `reach`).

    ``high`` is the float nearest to the exact product and ``low`` the largest float not above the rest, so that a
    difference of two floats, written as the rounded difference ``d`` and its rounding error ``e``, is within budget
    iff ``d < high or (d == high and e <= low)``. A frozen feature has ``high == -1``: no difference is within it.
    """

    high: NDArray[np.float64]
    low: NDArray[np.float64]


class Attacker:
    """Someone who may move a row by at most ``eps`` in an L_p norm.

    Parameters
    ----------
    norm : int, float or str
        p: 0, 1, 2, 3, ... or ``np.inf``; also ``"l0"``, ``"l1"``, ``"l2"``, ``"linf"``, ``"inf"``.
    eps : float
        Largest norm of the change, >= 0. For norm 0 it counts changed features.
    scale : float or array-like of shape (n_features,), optional
        Unit of each feature: a change of ``scale[f]`` in feature ``f`` costs 1. All ones if not given.
    frozen : iterable of int, or boolean mask of shape (n_features,), optional
        Features that cannot be changed.
    domain : pair of float or array-like of shape (n_features,), optional
        Smallest and largest value of the features. The attacker stays inside, and so must the rows.

    Examples
    --------
    >>> Attacker("linf", 0.1)
    Attacker(norm=inf, eps=0.1)
    >>> Attacker(2, 0.5, frozen=[0, 3], domain=(0, 1))
    Attacker(norm=2, eps=0.5, frozen=[0, 3], domain=(0, 1))
    """

    def __init__(
        self,
        norm: float | str = np.inf,
        eps: float = 0.0,
        scale: ArrayLike | None = None,
        frozen: Iterable[int] | None = None,
        domain: tuple[ArrayLike, ArrayLike] | None = None,
    ) -> None:
        if frozen is not None and not hasattr(frozen, "__len__"):
            frozen = list(frozen)
        self._given: dict[str, Any] = {"scale": scale, "frozen": frozen, "domain": domain}
        self.norm = _check_norm(norm)
        self.eps = _check_eps(eps, self.norm)
        self.scale = _check_scale(scale)
        self.frozen = _check_frozen(frozen)
        self.domain = _check_domain(domain)

    def __repr__(self) -> str:
        parts = [f"norm={self.norm}", f"eps={self.eps}"]
        parts += [f"{name}={value!r}" for name, value in self._given.items() if value is not None]
        return f"Attacker({', '.join(parts)})"

    def with_eps(self, eps: float) -> Attacker:
        """Return the same attacker with another budget."""
        return Attacker(self.norm, eps, **self._given)

    @property
    def can_move(self) -> bool:
        """Whether any change at all is within the budget."""
        return self.eps >= 1 if self.norm == 0 else self.eps > 0

    def scale_of(self, n_features: int) -> NDArray[np.float64]:
        """Return the unit of each feature, shape (n_features,)."""
        scale = np.ones(1) if self.scale is None else self.scale
        return _per_feature(scale, n_features, "scale")

    def is_frozen(self, n_features: int) -> NDArray[np.bool_]:
        """Return which features cannot be changed, shape (n_features,)."""
        mask = np.zeros(n_features, bool)
        if self.frozen is None:
            return mask
        if self.frozen.dtype == bool:
            return _per_feature(self.frozen, n_features, "frozen")
        if self.frozen.size and self.frozen.max() >= n_features:
            raise AttackerError(f"Expected frozen features between 0 and {n_features - 1}, got {self.frozen.max()}.")
        mask[self.frozen] = True
        return mask

    def bounds(self, n_features: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the smallest and largest value of each feature, each of shape (n_features,)."""
        if self.domain is None:
            return np.full(n_features, -np.inf), np.full(n_features, np.inf)
        low, high = (_per_feature(bound, n_features, "domain") for bound in self.domain)
        return low, high

    def budgets(self, n_features: int) -> Budgets:
        """Return what each feature alone may spend, shape (n_features,) each."""
        scale, frozen = self.scale_of(n_features), self.is_frozen(n_features)
        units, place = np.unique(scale, return_inverse=True)
        pairs = [_split(Fraction(self.eps) * Fraction(float(unit))) for unit in units]
        high, low = (np.array(column)[place] for column in zip(*pairs, strict=True))
        high[frozen], low[frozen] = -1.0, 0.0
        return Budgets(high, low)


def _split(value: Fraction) -> tuple[float, float]:
    """Write an exact value as the nearest float and the rest, the rest rounded down."""
    try:
        high = float(value)
    except OverflowError:
        raise AttackerError("Expected eps * scale to be a finite number, got one above 1.7e308.") from None
    rest = value - Fraction(high)
    low = float(rest)
    if Fraction(low) > rest:
        low = math.nextafter(low, -math.inf)
    return high, low


def _check_norm(norm: Any) -> float:
    if isinstance(norm, str):
        match = re.fullmatch(r"l?[_-]?(\d{1,9}|inf)", norm.strip().lower())
        number: Any = float(match.group(1)) if match else norm
    else:
        number = norm
    is_number = isinstance(number, (int, float, np.integer, np.floating)) and not isinstance(number, bool)
    if is_number and number == math.inf:
        return math.inf
    if not is_number or number != number or number < 0 or number != int(number):
        raise AttackerError(f"Expected norm to be 0, 1, 2, 3, ... or inf, got {norm!r}.")
    if number > LARGEST_FINITE_NORM:
        raise AttackerError(f"Expected a norm up to {LARGEST_FINITE_NORM}, or inf, got {norm!r}; use norm=inf instead.")
    return int(number)


def _check_eps(eps: Any, norm: float) -> float:
    try:
        number = float(eps)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not 0 <= number < math.inf:
        raise AttackerError(f"Expected eps to be a finite number >= 0, got {eps!r}.")
    if norm == 0 and number >= 1 and number != int(number):
        raise AttackerError(f"Expected eps to be a whole number of features with norm 0, got {eps!r}.")
    return number


def _check_scale(scale: Any) -> NDArray[np.float64] | None:
    if scale is None:
        return None
    numbers = _numbers(scale, "scale")
    if not ((numbers > 0) & np.isfinite(numbers)).all():
        worst = numbers[~((numbers > 0) & np.isfinite(numbers))][0]
        raise AttackerError(
            f"Expected every scale to be a finite number > 0, got {worst}. To forbid a change, use frozen."
        )
    return numbers


def _check_frozen(frozen: Any) -> NDArray | None:
    if frozen is None:
        return None
    indices = np.atleast_1d(np.asarray(frozen))
    if indices.size == 0:
        return np.empty(0, np.int64)
    if indices.ndim != 1 or indices.dtype.kind not in "iub":
        raise AttackerError(f"Expected frozen to list feature indices, or to be a boolean mask, got {frozen!r}.")
    if indices.dtype != bool and indices.min() < 0:
        raise AttackerError(f"Expected frozen feature indices >= 0, got {indices.min()}.")
    return indices


def _check_domain(domain: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
    if domain is None:
        return None
    try:
        low, high = domain
    except (TypeError, ValueError):
        raise AttackerError(f"Expected domain to be a pair (low, high), got {domain!r}.") from None
    bounds = _numbers(low, "domain"), _numbers(high, "domain")
    if len({len(bound) for bound in bounds} - {1}) > 1:
        raise AttackerError(f"Expected domain bounds of one length, got {len(bounds[0])} and {len(bounds[1])}.")
    if not (bounds[0] <= bounds[1]).all():  # NaN fails here, too
        raise AttackerError("Expected every domain to have low <= high, got one that has not.")
    return bounds


def _numbers(values: Any, name: str) -> NDArray[np.float64]:
    try:
        numbers = np.atleast_1d(np.array(values, dtype=np.float64))
    except (TypeError, ValueError):
        raise AttackerError(f"Expected {name} to hold numbers, got {values!r}.") from None
    if numbers.ndim != 1 or numbers.size == 0:
        raise AttackerError(f"Expected {name} to be a number or one per feature, got shape {numbers.shape}.")
    numbers.flags.writeable = False
    return numbers


def _per_feature(values: NDArray, n_features: int, name: str) -> NDArray:
    if len(values) not in (1, n_features) or (values.dtype == bool and len(values) != n_features):
        raise AttackerError(f"Expected {name} for {n_features} features, got {len(values)} values.")
    return np.broadcast_to(values, n_features).copy()

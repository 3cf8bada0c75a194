"""Attacker: how far a row may be moved at test time, and which features may move at all."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from certiforest.ensemble.numbers import Immutable, InexactError, exact_floats, is_number, owned, shown

LARGEST_FINITE_NORM = 100
OPTIONS = ("scale", "frozen", "domain")
LONGEST_REPR = 8  # numbers of one option that repr shows


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


class Attacker(Immutable):
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

    norm: float
    eps: float
    scale: NDArray[np.float64] | None
    frozen: NDArray | None
    domain: tuple[NDArray[np.float64], NDArray[np.float64]] | None

    def __init__(
        self,
        norm: float | str = np.inf,
        eps: float = 0.0,
        scale: ArrayLike | None = None,
        frozen: Iterable[int] | None = None,
        domain: tuple[ArrayLike, ArrayLike] | None = None,
    ) -> None:
        norm = _check_norm(norm)
        self._set(
            norm=norm,
            eps=_check_eps(eps, norm),
            scale=_check_scale(scale),
            frozen=_check_frozen(frozen),
            domain=_check_domain(domain),
        )

    def __repr__(self) -> str:
        parts = [f"norm={self.norm}", f"eps={self.eps}"]
        parts += [f"{name}={_listed(getattr(self, name))}" for name in OPTIONS if getattr(self, name) is not None]
        return f"Attacker({', '.join(parts)})"

    def with_eps(self, eps: float) -> Attacker:
        """Return the same attacker with another budget."""
        return Attacker(self.norm, eps, self.scale, self.frozen, self.domain)

    def to_document(self) -> dict[str, Any]:
        """Return the attacker as it is written to files: plain lists, numbers and text, infinities as text."""
        document: dict[str, Any] = {"norm": "inf" if self.norm == math.inf else int(self.norm), "eps": self.eps}
        document["scale"] = None if self.scale is None else self.scale.tolist()
        frozen = self.frozen if self.frozen is None or self.frozen.dtype != bool else np.flatnonzero(self.frozen)
        document["frozen"] = None if frozen is None else frozen.tolist()
        document["domain"] = None if self.domain is None else [_written(bound.tolist()) for bound in self.domain]
        return document

    @classmethod
    def from_document(cls, document: Any) -> Attacker:
        """Read what `to_document` returns."""
        entries = {"norm", "eps", *OPTIONS}
        if not isinstance(document, dict) or set(document) != entries:
            raise AttackerError(f"Expected an attacker with the entries {', '.join(sorted(entries))}.")
        domain = document["domain"]
        if isinstance(domain, list):
            domain = tuple(np.array(bound, np.float64) for bound in domain)
        return cls(document["norm"], document["eps"], document["scale"], document["frozen"], domain)

    @property
    def can_move(self) -> bool:
        """Whether any change at all is within the budget."""
        return self.eps >= 1 if self.norm == 0 else self.eps > 0

    def scale_of(self, n_features: int) -> NDArray[np.float64]:
        """Return the unit of each feature, shape (n_features,)."""
        scale = np.ones(()) if self.scale is None else self.scale
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
        """Return what each feature alone may spend, shape (n_features,) each; nothing that matters for norm 0."""
        scale, frozen = self.scale_of(n_features), self.is_frozen(n_features)
        if self.norm == 0:
            scale = np.ones(n_features)
        units, place = np.unique(scale, return_inverse=True)
        pairs = [_split(Fraction(self.eps) * Fraction(float(unit))) for unit in units]
        high, low = (np.array(column)[place] for column in zip(*pairs, strict=True))
        high[frozen], low[frozen] = -1.0, 0.0
        return Budgets(high, low)


def _written(bound: Any) -> Any:
    """Return a bound, or a list of them, with infinities as text."""
    if isinstance(bound, list):
        return [_written(value) for value in bound]
    return str(bound) if math.isinf(bound) else bound


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


def _check_eps(eps: Any, norm: float) -> float:
    try:
        number = float(exact_floats(eps)) if not isinstance(eps, (bool, np.bool_)) and np.ndim(eps) == 0 else math.nan
    except InexactError:
        number = math.nan
    if not 0 <= number < math.inf:
        raise AttackerError(f"Expected eps to be a finite number >= 0, got {shown(eps)}.")
    if norm == 0 and number >= 1 and number != int(number):
        raise AttackerError(f"Expected eps to be a whole number of features with norm 0, got {shown(eps)}.")
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
    indices = np.empty((), object)
    if hasattr(frozen, "__iter__") and not isinstance(frozen, (str, bytes, dict)):
        given = list(frozen)
        if not given:
            return owned(np.empty(0, np.int64))
        if len({isinstance(index, (bool, np.bool_)) for index in given}) == 1 and not any(map(np.ndim, given)):
            indices = np.array(given)
    if indices.ndim != 1 or indices.dtype.kind not in "iub":
        raise AttackerError(f"Expected frozen to list feature indices, or to be a boolean mask, got {shown(frozen)}.")
    if indices.dtype != bool and indices.min() < 0:
        raise AttackerError(f"Expected frozen feature indices >= 0, got {indices.min()}.")
    return owned(indices)


def _check_domain(domain: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
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


def _per_feature(values: NDArray, n_features: int, name: str) -> NDArray:
    if values.ndim == 1 and len(values) != n_features:
        raise AttackerError(f"Expected {name} for {n_features} features, got {len(values)} values.")
    return np.broadcast_to(values, n_features).copy()


def _listed(option: NDArray | tuple) -> str:
    if isinstance(option, tuple):
        return f"({', '.join(_listed(bound) for bound in option)})"
    words = [str(value).removesuffix(".0") for value in np.ravel(option)[:LONGEST_REPR].tolist()]
    return f"[{', '.join(words)}{', ...' if option.size > LONGEST_REPR else ''}]" if option.ndim else words[0]

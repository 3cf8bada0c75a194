"""Scaling: from the numbers in a data file to the numbers that an ensemble splits, and that eps refers to.

A change of ``eps`` means little while one feature counts bytes and the next is a share. With a scaling,
feature ``f`` enters the trees as ``(x[f] - offset[f]) / range[f]``, computed in float64 in this order, and
every threshold, eps, radius and witness is in these scaled units: ``eps=0.01`` is one percent of a
feature's range. The scaling travels inside the model file, so that this stays true wherever the model goes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from certiforest.ensemble.numbers import Immutable, InexactError, exact_floats, owned
from certiforest.ensemble.rows import RowError, Rows

# Numbers of so many digits are tried to undo a scaling, then so many floats to either side.
FEW_DIGITS, NEIGHBOURS = (6, 9, 12, 15, 16, 17), 8


class ScalingError(ValueError):
    """A scaling is not what it should be."""


class Scaling(Immutable):
    """Shift and stretch of each feature.

    Parameters
    ----------
    offset : array-like of shape (n_features,)
        Subtracted first; finite.
    range : array-like of shape (n_features,)
        Divides the difference; finite and > 0.

    Examples
    --------
    >>> from certiforest.ensemble.scaling import Scaling
    >>> scaling = Scaling.of([[0, 10], [4, 10]])
    >>> scaling.apply([[1, 10], [4, 11]])
    array([[0.25, 0.  ],
           [1.  , 1.  ]])
    """

    offset: NDArray[np.float64]
    range: NDArray[np.float64]

    def __init__(self, offset: ArrayLike, range: ArrayLike) -> None:
        self._set(offset=_numbers(offset, "offset"), range=_numbers(range, "range"))
        if len(self.offset) != len(self.range):
            raise ScalingError(f"Expected as many offsets as ranges, got {len(self.offset)} and {len(self.range)}.")
        if not (self.range > 0).all():
            raise ScalingError(f"Expected every range to be > 0, got {self.range[~(self.range > 0)][0]}.")

    @classmethod
    def of(cls, X: ArrayLike) -> Scaling:
        """Return the scaling that takes each feature of some rows to [0, 1]; a constant one goes to 0.

        Values that are missing (NaN) do not count.
        """
        X = _rows(X)
        if not len(X):
            raise ScalingError("Expected rows to scale by, got none.")
        low, high = (np.where(np.isnan(end), 0.0, end) for end in (np.fmin.reduce(X), np.fmax.reduce(X)))
        return cls(low, np.where(high > low, high - low, 1.0))

    @property
    def n_features(self) -> int:
        """Number of features."""
        return len(self.offset)

    def apply(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return rows in scaled units, shape (n, n_features)."""
        return (_rows(X, self.n_features) - self.offset) / self.range

    def invert(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return rows in the units of the data that `apply` takes to these scaled ones, shape (n, n_features).

        Of the numbers that do, the one with the fewest digits is chosen, so that data comes back as it was written;
        where no float64 does, the nearest.
        """
        X = _rows(X, self.n_features)
        raw = np.empty_like(X)
        for f in range(self.n_features):
            value, place = np.unique(X[:, f], return_inverse=True)
            raw[:, f] = self._invert_feature(f, value)[place]
        return raw

    def _invert_feature(self, f: int, scaled: NDArray[np.float64]) -> NDArray[np.float64]:
        with np.errstate(over="ignore", invalid="ignore"):
            near = scaled * self.range[f] + self.offset[f]
            raw, is_open = near.copy(), np.isfinite(near)
            for guess in self._guesses(near):
                fits = is_open & ((guess - self.offset[f]) / self.range[f] == scaled)
                raw[fits], is_open = guess[fits], is_open & ~fits
                if not is_open.any():
                    break
        return raw

    @staticmethod
    def _guesses(near: NDArray[np.float64]) -> Iterator[NDArray[np.float64]]:
        """Yield numbers near some: with few digits, then the floats around them."""
        for digits in FEW_DIGITS:
            yield np.array([float(f"{value:.{digits}g}") for value in near.tolist()])
        below = above = near
        for _ in range(NEIGHBOURS):
            below, above = np.nextafter(below, -np.inf), np.nextafter(above, np.inf)
            yield below
            yield above

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Scaling):
            return NotImplemented
        return np.array_equal(self.offset, other.offset) and np.array_equal(self.range, other.range)

    __hash__ = None  # type: ignore[assignment]


def _rows(X: Any, n_features: int | None = None) -> NDArray[np.float64]:
    try:
        if hasattr(X, "columns") and len(getattr(X, "shape", ())) == 2:  # a data frame
            X = Rows(X, X.shape[1])[slice(0, X.shape[0])]
        table = exact_floats(X)
    except (InexactError, RowError) as error:
        got = f"got {error}." if isinstance(error, InexactError) else str(error)
        raise ScalingError(f"The rows to scale are no numbers: {got}") from None
    if table.ndim != 2 or (n_features is not None and table.shape[1] != n_features):
        wanted = "rows" if n_features is None else f"rows of {n_features} features"
        raise ScalingError(f"Expected {wanted}, got shape {table.shape}.")
    return table


def _numbers(values: Any, name: str) -> NDArray[np.float64]:
    try:
        numbers = exact_floats(values)
    except InexactError as error:
        raise ScalingError(f"Expected {name} to hold numbers, got {error}.") from None
    if numbers.ndim != 1 or numbers.size == 0:
        raise ScalingError(f"Expected {name} to hold one number per feature, got shape {numbers.shape}.")
    if not np.isfinite(numbers).all():
        raise ScalingError(f"Expected finite numbers in {name}, got {numbers[~np.isfinite(numbers)][0]}.")
    return owned(numbers)

"""Numbers as they enter: turned into float64 exactly, or refused."""

from __future__ import annotations

import math
import re
import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from certiforest.words import shown

LARGEST_WHOLE = 2**53  # above it, float64 has no longer every whole number
MOST_THREADS = 10_000
NUMBER = re.compile(r"[-+]?[0-9]+(\.[0-9]*)?([eE][-+]?[0-9]+)?")  # in text; Python would read 1_0 and ١, too
KINDS = {"U": "text", "S": "text", "M": "dates", "m": "durations", "c": "complex numbers", "V": "records"}


class InexactError(ValueError):
    """Something is no number, or none that float64 holds. The text says what; ``place`` is where in the array."""

    def __init__(self, got: str, place: tuple[int, ...] | None = None) -> None:
        super().__init__(got)
        self.place = place


class Immutable:
    """An object that sets its attributes once, while it is made, so that whoever holds it can rely on it."""

    def _set(self, **attributes: Any) -> None:
        vars(self).update(attributes)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"Expected no change of {name}: a {type(self).__name__} stays as it is; make another one.")

    def __delattr__(self, name: str) -> None:
        self.__setattr__(name, None)


def is_number(value: Any) -> bool:
    """Tell whether a value is a real number of Python or numpy, of any size, inf and NaN included; bool is none."""
    return is_whole(value) or isinstance(value, (float, np.floating))


def is_float(value: Any) -> bool:
    """Tell whether a value is a finite number that float64 holds."""
    return is_number(value) and abs(value) <= sys.float_info.max and float(value) == value


def is_whole(value: Any) -> bool:
    """Tell whether a value is an integer of Python or numpy; bool is none."""
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def is_number_of_threads(value: Any) -> bool:
    """Tell whether a value is a number of threads as scikit-learn has them: below 0, from all cores downwards."""
    return is_whole(value) and value != 0 and abs(value) <= MOST_THREADS


def owned(array: NDArray) -> NDArray:
    """Return a copy that nobody can write to."""
    copy = np.array(array, order="C")
    copy.flags.writeable = False
    return copy


def are_equal(a: Any, b: Any) -> bool:
    """Tell whether two values are of one kind and equal; arrays are by their entries, and NaN equals NaN in them."""
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        if a.dtype == object:
            return a.shape == b.shape and all(map(are_equal, a, b))
        return np.array_equal(a, b, equal_nan=a.dtype.kind == b.dtype.kind == "f")
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(map(are_equal, a, b))
    return type(a) is type(b) and bool(a == b)


def exact_floats(values: Any) -> NDArray[np.float64]:
    """Return numbers of any kind as float64 of the same value; an array that is float64 already is not copied.

    Text, dates, numbers that float64 would round, ... raise an `InexactError`.
    """
    if np.ma.is_masked(values):
        raise InexactError("a masked array with values missing")
    try:
        array = np.asarray(values)
    except (ValueError, OverflowError):
        raise InexactError("lists of different lengths") from None
    if array.dtype.kind in KINDS:
        raise InexactError(KINDS[array.dtype.kind])
    if array.dtype.kind == "O":
        return _exact_objects(array)
    if array.dtype.kind in "iu" and array.dtype.itemsize > 4:
        return _exact_where(array, (array <= LARGEST_WHOLE) & (array >= -LARGEST_WHOLE))
    with np.errstate(over="ignore"):
        floats = array.astype(np.float64, copy=False)
    if array.dtype.itemsize > 8:
        return _exact_where(array, (floats == array) | np.isnan(array))
    # A list of mixed numbers has lost whole numbers above 2**53 already.
    if array is not values and array.dtype == np.float64 and not hasattr(values, "dtype"):
        large = np.abs(array) >= LARGEST_WHOLE
        if large.any() and np.isfinite(array[large]).any():
            return _exact_objects(np.array(values, dtype=object))
    return floats


def _exact_where(array: NDArray, fits: NDArray[np.bool_]) -> NDArray[np.float64]:
    if not fits.all():
        place = tuple(np.argwhere(~fits)[0].tolist())
        raise _too_long(array[place], place)
    return array.astype(np.float64)


def _exact_objects(array: NDArray) -> NDArray[np.float64]:
    floats = np.empty(array.size)
    for i, value in enumerate(array.ravel().tolist()):
        if not isinstance(value, (int, float, np.integer, np.floating, np.bool_)):
            raise InexactError(f"{shown(value)} ({type(value).__name__})", _place(i, array))
        if isinstance(value, (int, np.integer)) and not -LARGEST_WHOLE <= value <= LARGEST_WHOLE:
            raise _too_long(value, _place(i, array))
        floats[i] = float(value)
        if floats[i] != value and not math.isnan(floats[i]):
            raise _too_long(value, _place(i, array))
    return floats.reshape(array.shape)


def _place(i: int, array: NDArray) -> tuple[int, ...]:
    return tuple(int(k) for k in np.unravel_index(i, array.shape))


def _too_long(value: Any, place: tuple[int, ...]) -> InexactError:
    if isinstance(value, (int, np.integer)):
        return InexactError(f"{shown(int(value))}, beyond 2**53, where float64 does not hold every whole number", place)
    return InexactError(f"{shown(value)}, which float64 would round", place)

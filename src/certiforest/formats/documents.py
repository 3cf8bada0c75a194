"""Model files as trees of named entries: read as data, and every entry checked before it is used."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from certiforest.ensemble import ModelError

DEEPEST = 64  # levels of entries within entries; the libraries use less than ten

# Markers of UBJSON and the numbers that follow them, big end first.
SCALARS = {b"i": ">i1", b"U": ">u1", b"I": ">i2", b"l": ">i4", b"L": ">i8", b"d": ">f4", b"D": ">f8"}
CONSTANTS = {b"Z": None, b"N": None, b"T": True, b"F": False}


def read_json(content: bytes, parse_float: Callable[[str], float] = float) -> Any:
    """Read JSON text. ``parse_float`` turns the text of a number into a float."""
    try:
        return json.loads(content, parse_float=parse_float)
    except RecursionError:
        raise ModelError("Expected a model, got JSON that nests too deep.") from None
    except ValueError as error:  # JSONDecodeError, UnicodeDecodeError, whole numbers of thousands of digits
        raise ModelError(f"Expected whole JSON text, got something else ({error}): was it cut short?") from None


def parse_single(text: str) -> float:
    """Return a float64 that rounds to the float32 nearest to the number written.

    Rounding twice, to float64 and then to float32, goes wrong where the first step lands halfway between two float32.
    """
    value = float(text)
    if math.isfinite(value):
        half_step = math.ldexp(1.0, max(math.frexp(value)[1] - 25, -150))
        if (value / half_step) % 2 == 1 and Fraction(text) != Fraction(value):
            return math.nextafter(value, math.inf if Fraction(text) > Fraction(value) else -math.inf)
    return value


def read_ubjson(content: bytes) -> Any:
    """Read UBJSON, the binary form of JSON that XGBoost writes. Arrays of one type come as numpy arrays."""
    reader = _UbjsonReader(content)
    document = reader.value(reader.take(1), 0)
    return document


class _UbjsonReader:
    def __init__(self, content: bytes) -> None:
        self._content = content
        self._position = 0

    def take(self, size: int) -> bytes:
        """Return the next bytes; sizes are believed only as far as there are bytes."""
        end = self._position + size
        if size < 0 or end > len(self._content):
            raise ModelError(f"Expected {size} more bytes at byte {self._position}, got the end: was it cut short?")
        part = self._content[self._position : end]
        self._position = end
        return part

    def value(self, marker: bytes, depth: int) -> Any:
        if depth > DEEPEST:
            raise ModelError(f"Expected at most {DEEPEST} levels of entries, got more.")
        if marker in SCALARS:
            return np.frombuffer(self.take(int(SCALARS[marker][-1])), SCALARS[marker])[0].item()
        if marker in CONSTANTS:
            return CONSTANTS[marker]
        if marker == b"C":
            return self._text(1)
        if marker in (b"S", b"H"):
            return self._text(self._size())
        if marker == b"[":
            return self._array(depth)
        if marker == b"{":
            return self._object(depth)
        raise ModelError(f"Expected UBJSON, got the unknown marker {marker!r} at byte {self._position - 1}.")

    def _text(self, size: int) -> str:
        try:
            return self.take(size).decode("utf-8")
        except UnicodeDecodeError:
            raise ModelError(f"Expected UTF-8 text before byte {self._position}, got something else.") from None

    def _size(self) -> int:
        marker = self.take(1)
        if marker not in SCALARS or marker in (b"d", b"D"):
            raise ModelError(f"Expected a size at byte {self._position - 1}, got {marker!r}.")
        size = self.value(marker, 0)
        if size > len(self._content):  # every element takes a byte at least
            raise ModelError(f"Expected a size within the file at byte {self._position}, got {size}.")
        return size

    def _header(self) -> tuple[bytes | None, int | None, bytes]:
        """Return the type and number of elements as far as they are given, and the first marker after them."""
        kind, size, marker = None, None, self.take(1)
        if marker == b"$":
            kind, marker = self.take(1), self.take(1)
            if marker != b"#":
                raise ModelError(f"Expected the size of a typed array at byte {self._position - 1}, got {marker!r}.")
        if marker == b"#":
            size, marker = self._size(), b""
        return kind, size, marker

    def _array(self, depth: int) -> Any:
        kind, size, marker = self._header()
        if kind is not None and size is not None:
            if kind not in SCALARS:
                raise ModelError(f"Expected an array of numbers at byte {self._position}, got the type {kind!r}.")
            dtype = np.dtype(SCALARS[kind])
            return np.frombuffer(self.take(size * dtype.itemsize), dtype).astype(dtype.newbyteorder("="))
        if size is not None:
            return [self.value(self.take(1), depth + 1) for _ in range(size)]
        values = []
        while marker != b"]":
            values.append(self.value(marker, depth + 1))
            marker = self.take(1)
        return values

    def _object(self, depth: int) -> dict[str, Any]:
        kind, size, marker = self._header()
        if kind is not None or size is not None:
            raise ModelError(f"Expected an object without type and size at byte {self._position}.")
        entries = {}
        while marker != b"}":
            self._position -= 1  # a key is a size and text, without the marker of a string
            key = self._text(self._size())
            entries[key] = self.value(self.take(1), depth + 1)
            marker = self.take(1)
        return entries


def entry(document: Any, *path: str) -> Any:
    """Return the entry at a path of names."""
    for depth, name in enumerate(path):
        if not isinstance(document, dict) or name not in document:
            raise ModelError(f"Expected an entry {'/'.join(path[: depth + 1])!r}, got none.")
        document = document[name]
    return document


def entries(document: Any, *path: str) -> list:
    """Return the list at a path of names."""
    found = entry(document, *path)
    if isinstance(found, np.ndarray):
        return found.tolist()
    if not isinstance(found, list):
        raise ModelError(f"Expected a list at {'/'.join(path)!r}, got {type(found).__name__}.")
    return found


def numbers(document: Any, *path: str, size: int | None = None) -> NDArray[np.float64]:
    """Return the list of numbers at a path as float64, NaN and infinity included; ``size`` is its expected length."""
    found = entry(document, *path)
    name = "/".join(path)
    try:
        array = np.asarray(found)
        if array.size == 0:
            array = array.astype(np.float64)
        if array.ndim != 1 or array.dtype.kind not in "iufb":
            raise ValueError
    except (ValueError, OverflowError):
        raise ModelError(f"Expected a list of numbers at {name!r}, got something else.") from None
    if size is not None and len(array) != size:
        raise ModelError(f"Expected {size} numbers at {name!r}, got {len(array)}.")
    return array.astype(np.float64)


def singles(document: Any, *path: str, size: int | None = None) -> NDArray[np.float32]:
    """Return the list of numbers at a path as float32, NaN and infinity included."""
    with np.errstate(over="ignore"):
        return numbers(document, *path, size=size).astype(np.float32)


def integers(document: Any, *path: str, size: int | None = None) -> NDArray[np.int64]:
    """Return the list of whole numbers at a path."""
    array = numbers(document, *path, size=size)
    if not (np.abs(array) < 2.0**53).all() or (array != np.floor(array)).any():
        raise ModelError(f"Expected whole numbers at {'/'.join(path)!r}, got others.")
    return array.astype(np.int64)


def integer(document: Any, *path: str) -> int:
    """Return the whole number at a path, which may be written as text."""
    found = entry(document, *path)
    try:
        if isinstance(found, (bool, float)) or len(str(found)) > 18:
            raise ValueError
        return int(found)
    except (TypeError, ValueError):
        raise ModelError(f"Expected a whole number at {'/'.join(path)!r}, got {str(found)[:40]!r}.") from None

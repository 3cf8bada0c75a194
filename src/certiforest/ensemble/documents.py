"""Model files as trees of named entries: JSON or UBJSON, read as data; every entry is checked before it is used.

UBJSON is the binary form of JSON in which XGBoost saves models.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from certiforest.ensemble.nodes import ModelError
from certiforest.ensemble.numbers import InexactError, exact_floats
from certiforest.words import shown

WHOLE_NUMBER = re.compile(r"-?[0-9]{1,18}")
DEEPEST = 64  # levels of entries within entries; the libraries use less than ten

# Markers of UBJSON and the numbers that follow them, big end first.
SCALARS = {b"i": ">i1", b"U": ">u1", b"I": ">i2", b"l": ">i4", b"L": ">i8", b"d": ">f4", b"D": ">f8"}
CONSTANTS = {b"Z": None, b"T": True, b"F": False}


@contextmanager
def sound(source: str, kind: str) -> Iterator[None]:
    """Say in errors which file is not a sound model of its kind."""
    try:
        yield
    except ModelError as error:
        raise ModelError(f"{source} is not a sound {kind}. {error}") from None


def read_json(
    content: str | bytes,
    parse_float: Callable[[str], float] = float,
    parse_int: Callable[[str], int] = int,
    *,
    allows_nan: bool = False,
) -> Any:
    """Read JSON text in which every name stands once; ``parse_float`` and ``parse_int`` read the text of numbers."""
    constant = float if allows_nan else _refuse_constant
    try:
        return json.loads(
            content,
            parse_float=parse_float,
            parse_int=parse_int,
            parse_constant=constant,
            object_pairs_hook=named_once,
        )
    except RecursionError:
        raise ModelError("Expected JSON text, got some that nests too deep.") from None
    except ModelError:
        raise
    except ValueError as error:  # JSONDecodeError, UnicodeDecodeError, whole numbers of thousands of digits
        start = content.lstrip()[:12]
        if start[:1] not in ("{", b"{"):
            raise ModelError(f"Expected JSON text, got something that begins with {shown(start)}.") from None
        raise ModelError(f"Expected whole JSON text, got something else ({error}): was it cut short?") from None


def _refuse_constant(name: str) -> float:
    raise ModelError(f"Expected finite numbers, got {name}.")


def named_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the entries of an object, of which no two may have one name."""
    entries = dict(pairs)
    if len(entries) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for i, name in enumerate(names) if name in names[:i])
        raise ModelError(f"Expected every name once, got {shown(twice)} twice.")
    return entries


def read_ubjson(content: bytes) -> Any:
    """Read UBJSON in which every name stands once. Arrays of one type come as numpy arrays."""
    reader = _UbjsonReader(content)
    document = reader.value(reader.take(1), 0)
    reader.finish()
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

    def finish(self) -> None:
        if self._position < len(self._content):
            raise ModelError(f"Expected the end at byte {self._position}, got more.")

    def value(self, marker: bytes, depth: int) -> Any:
        if depth > DEEPEST:
            raise ModelError(f"Expected at most {DEEPEST} levels of entries, got more.")
        if marker in SCALARS:
            return np.frombuffer(self.take(int(SCALARS[marker][-1])), SCALARS[marker])[0].item()
        if marker in CONSTANTS:
            return CONSTANTS[marker]
        if marker == b"S":
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
        if not 0 <= size <= len(self._content):  # every element takes a byte at least
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
        pairs = []
        while marker != b"}":
            self._position -= 1  # a key is a size and text, without the marker of a string
            key = self._text(self._size())
            pairs.append((key, self.value(self.take(1), depth + 1)))
            marker = self.take(1)
        return named_once(pairs)


def has(document: Any, name: str) -> bool:
    """Tell whether an optional entry is there; versions of libraries differ in which they write."""
    return isinstance(document, dict) and name in document


def entry(document: Any, *path: str) -> Any:
    """Return the entry at a path of names."""
    for depth, name in enumerate(path):
        if not has(document, name):
            raise ModelError(f"Expected an entry {'/'.join(path[: depth + 1])!r}, got none.")
        document = document[name]
    return document


def entries(document: Any, *path: str) -> list:
    """Return the list at a path of names."""
    found = entry(document, *path)
    if isinstance(found, np.ndarray):
        return found.tolist()
    if not isinstance(found, list):
        raise ModelError(f"Expected a list at {'/'.join(path)!r}, got {shown(found)}.")
    return found


def string(document: Any, *path: str) -> str:
    """Return the string at a path of names."""
    found = entry(document, *path)
    if not isinstance(found, str):
        raise ModelError(f"Expected a string at {'/'.join(path)!r}, got {shown(found)}.")
    return found


def strings(document: Any, *path: str) -> list[str]:
    """Return the list of strings at a path of names."""
    found = entries(document, *path)
    if not all(isinstance(word, str) for word in found):
        raise ModelError(f"Expected a list of strings at {'/'.join(path)!r}, got others.")
    return found


def numbers(document: Any, *path: str, size: int | None = None) -> NDArray[np.float64]:
    """Return the list of numbers at a path as float64, NaN and infinity included; ``size`` is its expected length."""
    found, name = entry(document, *path), "/".join(path)
    if not isinstance(found, np.ndarray):
        others = [value for value in entries(document, *path) if type(value) not in (int, float)]
        if others:
            raise ModelError(f"Expected a list of numbers at {name!r}, got {shown(others[0])} among them.")
    if size is not None and len(found) != size:
        raise ModelError(f"Expected {size} numbers at {name!r}, got {len(found)}.")
    try:
        return exact_floats(found)
    except InexactError as error:
        raise ModelError(f"Expected a list of numbers at {name!r}, got {error}.") from None


def integers(document: Any, *path: str, size: int | None = None) -> NDArray[np.int64]:
    """Return the list of whole numbers at a path."""
    found = entry(document, *path)
    if isinstance(found, np.ndarray):
        is_whole = found.dtype.kind in "iu" or not found.size
    else:
        is_whole = all(type(value) is int for value in entries(document, *path))
    if not is_whole:
        raise ModelError(f"Expected whole numbers at {'/'.join(path)!r}, got others.")
    return numbers(document, *path, size=size).astype(np.int64)


def integer(document: Any, *path: str, may_be_text: bool = True) -> int:
    """Return the whole number at a path, which may be written as text unless that means something else."""
    found = entry(document, *path)
    text = found if may_be_text and isinstance(found, str) else shown(found)
    if isinstance(found, float) or not WHOLE_NUMBER.fullmatch(text):
        raise ModelError(f"Expected a whole number at {'/'.join(path)!r}, got {shown(found)}.")
    return int(text)

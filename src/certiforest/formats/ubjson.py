"""UBJSON, the binary form of JSON in which XGBoost saves models, read as data."""

from __future__ import annotations

from typing import Any

import numpy as np

from certiforest.ensemble import ModelError
from certiforest.ensemble.documents import named_once

DEEPEST = 64  # levels of entries within entries; the libraries use less than ten

# Markers of UBJSON and the numbers that follow them, big end first.
SCALARS = {b"i": ">i1", b"U": ">u1", b"I": ">i2", b"l": ">i4", b"L": ">i8", b"d": ">f4", b"D": ">f8"}
CONSTANTS = {b"Z": None, b"T": True, b"F": False}


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

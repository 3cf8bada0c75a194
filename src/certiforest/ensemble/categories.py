"""Categories: how a value without order becomes the number that splits test for, and what becomes of unseen values.

A column is one of three kinds::

    values         rows hold                          a split sends left
    text, ints     0, 1, 2, ...: places in the list   a set of places
    floats         the numbers themselves             a set of these numbers
    none, hashed   CatBoost's hashes of the text      a set of hashes
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

HASHES = 2**40  # is added to CatBoost's hashes, so that nobody takes other numbers for them
MASK = 2**64 - 1
K0, K1, K2, K3 = 0xC3A5C85C97CB3127, 0xB492B66FBE98F273, 0x9AE16A3B2F90404F, 0xC949D7C7509E6557
MIXER = 0x9DDFEA08EB382D69

# What becomes of a value that is not among the categories: nobody takes it, no set has it, or its hash is its number.
# Where nothing is said, data frames with such values are refused, and numbers that stand for none are in no set.
UNSEEN = ("refused", "other", "hashed")


class Codes(dict):
    """The number of each value of a category. What is not among the values is treated as ``unseen`` says.

    It is one of `UNSEEN` or None; ``codes[value]`` raises `KeyError` if the value is refused.
    """

    def __init__(self, values: Sequence[Any], unseen: str | None) -> None:
        self.holds_numbers = are_numbers(values)
        super().__init__((value, value if self.holds_numbers else code) for code, value in enumerate(values))
        self.unseen, self._n_values = unseen, len(values)

    @property
    def names(self) -> dict[float, Any]:
        """The values that numbers stand for, as far as they were met."""
        return {float(number): value for value, number in self.items()}

    def __missing__(self, value: Any) -> float:
        if self.unseen == "hashed" and isinstance(value, (str, int, np.integer)) and not isinstance(value, bool):
            self[value] = number = hash_of(str(value))
            return number
        is_text = isinstance(value, str)
        if self.unseen != "other" or (self.holds_numbers and is_text):
            raise KeyError(value)
        return float(value) if self.holds_numbers else self._n_values


def are_numbers(values: Sequence[Any]) -> bool:
    """Tell whether categories stand for themselves."""
    return bool(values) and isinstance(values[0], float)


def numbers_of(values: Sequence[Any]) -> NDArray[np.float64]:
    """Return the numbers that stand for categories: themselves, or their places."""
    return np.array(values if are_numbers(values) else range(len(values)), np.float64)


def hash_of(text: str) -> int:
    """Return the number by which CatBoost knows a category, above `HASHES`: the low half of CityHash64, version 1.0.

    (Pike and Alakuijala, 2011.)
    """
    return HASHES + (_city_hash(text.encode("utf-8", "surrogatepass")) & (2**32 - 1))


def text_of(number: int) -> str:
    """Return a text that has a hash, one of many, by running the hash of 16 bytes backwards.

    CatBoost's files hold hashes and no text: so what was read can be compared with the model's own predictions.
    """
    last = int.from_bytes(b"category", "little")
    rotated = _rotate(last + 16, 16)
    inverse = pow(MIXER, -1, 2**64)
    for high in range(2**20):  # about one in 500 consists of plain characters
        mixed = (high * K1 << 32 & MASK | number - HASHES) ^ last
        b = _unshift(mixed * inverse & MASK) * inverse & MASK
        first = (_unshift(b ^ rotated) * inverse & MASK) ^ rotated
        text = first.to_bytes(8, "little") + b"category"
        if text.isascii() and b"\0" not in text:
            return text.decode()
    raise AssertionError("No text has this hash: please report this as a defect.")


def _unshift(mixed: int) -> int:
    """Return what `_shift` made a number of; it is its own inverse."""
    return mixed ^ (mixed >> 47)


_shift = _unshift


def _rotate(value: int, n_bits: int) -> int:
    value &= MASK
    return (value >> n_bits | value << (64 - n_bits)) & MASK


def _mix(u: int, v: int) -> int:
    a = _shift(((u ^ v) & MASK) * MIXER & MASK)
    return _shift(((v ^ a) & MASK) * MIXER & MASK) * MIXER & MASK


def _city_hash(s: bytes) -> int:
    """Return the 64 bits that CityHash 1.0 makes of bytes."""
    n = len(s)

    def word(place: int, size: int = 8) -> int:
        place += n if place < 0 else 0
        return int.from_bytes(s[place : place + size], "little")

    if n == 0:
        return K2
    if n < 4:
        y, z = s[0] + (s[n >> 1] << 8), n + (s[-1] << 2)
        return _shift((y * K2 ^ z * K3) & MASK) * K2 & MASK
    if n <= 8:
        return _mix(n + (word(0, 4) << 3), word(-4, 4))
    if n <= 16:
        return _mix(word(0), _rotate(word(-8) + n, n)) ^ word(-8)
    if n <= 32:
        a, b, c, d = word(0) * K1, word(8), word(-8) * K2, word(-16) * K0
        return _mix(_rotate(a - b, 43) + _rotate(c, 30) + d, a + _rotate(b ^ K3, 20) - c + n)
    if n <= 64:
        v = _halves(word(0) + (n + word(-16)) * K0, word(24), word(8), word(16))
        w = _halves(word(16) + word(-32), word(-8), word(-24), word(-16))
        r = _shift(((v[0] + w[1]) * K2 + (w[0] + v[1]) * K0) & MASK)
        return _shift((r * K0 + v[1]) & MASK) * K2 & MASK
    x, y, z = word(0), word(-16) ^ K1, word(-56) ^ K0
    v, w = _weak([word(-64 + 8 * i) for i in range(4)], n, y), _weak([word(-32 + 8 * i) for i in range(4)], n * K1, K0)
    z += _shift(v[1]) * K1
    x, y = _rotate(z + x, 39) * K1, _rotate(y, 33) * K1
    for place in range(0, n - 1 & ~63, 64):
        words = [word(place + 8 * i) for i in range(8)]
        x, y = _rotate(x + y + v[0] + words[2], 37) * K1, _rotate(y + v[1] + words[6], 42) * K1
        x, y, z = (x ^ w[1]) & MASK, (y ^ v[0]) & MASK, _rotate(z ^ w[0], 33)
        v = _weak(words[:4], v[1] * K1, x + w[0])
        w = _weak(words[4:], z + w[1], y)
        x, z = z, x
    return _mix((_mix(v[0], w[0]) + _shift(y & MASK) * K1 + z) & MASK, (_mix(v[1], w[1]) + x) & MASK)


def _halves(a: int, z: int, more: int, most: int) -> tuple[int, int]:
    b, c = _rotate(a + z, 52), _rotate(a, 37)
    a += more
    c += _rotate(a, 7)
    a += most
    return (a + z) & MASK, (b + _rotate(a, 31) + c) & MASK


def _weak(words: list[int], a: int, b: int) -> tuple[int, int]:
    a += words[0]
    b = _rotate(b + a + words[3], 21)
    c = a
    a += words[1] + words[2]
    b += _rotate(a, 44)
    return (a + words[3]) & MASK, (b + c) & MASK

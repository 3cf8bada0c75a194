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

from certiforest.ensemble.category_hashes import hash_of

# What becomes of a value that is not among the categories: nobody takes it, no set has it, or its hash is its number.
# Where nothing is said, data frames with such values are refused, and numbers that stand for none are in no set.
UNSEEN = ("refused", "other", "hashed")


class Codes(dict):
    """The number of each value of a category. What is not among the values is found as a library treats it.

    Parameters
    ----------
    values : sequence
        The values, all of one type.
    unseen : str, optional
        One of `UNSEEN`.

    Raises
    ------
    KeyError
        From ``codes[value]``, if the value is refused.
    """

    def __init__(self, values: Sequence[Any], unseen: str | None) -> None:
        self.holds_numbers = are_numbers(values)
        super().__init__((value, value if self.holds_numbers else code) for code, value in enumerate(values))
        self.unseen, self._n_values = unseen, len(values)

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

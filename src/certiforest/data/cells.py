"""Cells: what is read from one, or from a column of them: a number, a label or a category, exactly or not at all.

Text is taken for a number as files write it, and refused where float64 would not hold that number. A text that is a
category of a model becomes its number, and text again in what people see.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from certiforest.ensemble import TreeEnsemble
from certiforest.ensemble.categories import Codes
from certiforest.ensemble.numbers import LARGEST_WHOLE
from certiforest.words import setting, shown

LONGEST_LABEL = 1000
MISSING = frozenset({"", "?", "NA", "N/A", "NaN", "nan", "NULL", "null", "None"})
WHOLE_NUMBER = re.compile(r"[+-]?[0-9]+")


class TableError(ValueError):
    """A data file, or what is asked of it, is not what it should be."""


def is_number(cell: str) -> bool:
    """Tell whether a text is a number as files write it: not as Python does (1_000), nor in digits of other scripts."""
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell and cell.isascii()


def as_floats(column: NDArray, where: str) -> NDArray[np.float64]:
    """Return numbers as float64, exactly."""
    if column.dtype.kind not in "biuf":
        raise TableError(f"Expected numbers, got {column.dtype} in {where}.")
    with np.errstate(over="ignore"):
        floats = column.astype(np.float64)
    if column.dtype.kind == "f":
        lost = (floats != column) & ~np.isnan(column)
    else:
        lost = np.abs(floats) >= LARGEST_WHOLE
        lost[lost] = [int(number) != int(exact) for number, exact in zip(floats[lost], column[lost], strict=True)]
    if lost.any():
        raise TableError(
            f"Expected numbers that float64 holds exactly, got {column[lost][0]} in {where}; it would become"
            f" {floats[lost][0]:.17g}. Leave the column out, or make its numbers smaller."
        )
    return floats


def as_labels(values: Any, path: Any, start: int = 0, classes: NDArray | None = None) -> NDArray:
    """Return labels as integers if all are whole numbers, else as strings.

    Parameters
    ----------
    values : ndarray or sequence of str
    path : path
        Where they stand, for messages.
    start : int
        Number of the first row.
    classes : ndarray, optional
        Labels that a model knows. A block of a file does not tell what the others look like: where the classes are
        strings, each label is the one that it would be among such as these, ``1`` beside ``0.5`` the text ``1.0``.
    """
    values = np.asarray(values, dtype=None if isinstance(values, np.ndarray) else object)
    kind = values.dtype.kind
    if kind in "ib" or (kind == "u" and values.max(initial=0) < 2**63):
        return values.astype(np.int64)
    if kind == "f":
        if not np.isfinite(values).all():
            raise TableError(f"Expected a label in every row, got {values[~np.isfinite(values)][0]} in {path}.")
        if classes is not None and classes.dtype.kind == "U":
            return values.astype(str)
        is_whole = (values == np.round(values)).all() and np.abs(values).max(initial=0) < LARGEST_WHOLE
        return values.astype(np.int64) if is_whole else values.astype(str)
    if kind not in "OUSTu":
        raise TableError(f"Expected labels that are numbers or texts, got {values.dtype} in {path}.")
    return _as_text_labels([_as_text(value, path) for value in values.tolist()], path, start, classes)


def _as_text_labels(texts: list[str], path: Any, start: int, classes: NDArray | None) -> NDArray:
    if not texts:
        raise TableError(f"Expected rows, got none in {path}.")
    for row, text in enumerate(texts, start):
        if text in MISSING:
            raise TableError(
                f"Expected a label in every row, got {text!r} in row {row} of {path}, counted from 0. Remove such rows,"
                " or name that class otherwise."
            )
        if "\0" in text:  # NumPy drops it
            raise TableError(f"Expected labels of characters, got a zero byte in row {row} of {path}, counted from 0.")
        if len(text) > LONGEST_LABEL:
            raise TableError(
                f"Expected labels of up to {LONGEST_LABEL} characters, got one of {len(text)} in row {row} of {path},"
                f" counted from 0. Does {setting('target')} name the label?"
            )
    if classes is not None and classes.dtype.kind == "U":
        known = set(classes.tolist())
        return np.array([text if text in known or not is_number(text) else str(float(text)) for text in texts])
    if all(map(WHOLE_NUMBER.fullmatch, texts)):
        whole = list(map(int, texts))
        return np.array(whole, np.int64) if max(map(abs, whole)) < 2**63 else np.array(texts)
    if all(map(is_number, texts)):
        floats = np.array(texts, np.float64)
        return as_labels(floats, path) if np.abs(floats).max() < LARGEST_WHOLE else np.array(texts)
    return np.array(texts)


def _as_text(value: Any, path: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bytes):
        try:
            value = value.decode()
        except UnicodeDecodeError:
            raise TableError(f"Expected labels that are numbers or texts, got {shown(value)} in {path}.") from None
    if not isinstance(value, (str, int, float)):
        raise TableError(f"Expected labels that are numbers or texts, got {shown(value)} in {path}.")
    return str(value).strip()


def text_codes(ensemble: TreeEnsemble) -> dict[int, Codes]:
    """Return, by feature, the codes of categories that files have as text; those that are floats have none."""
    codes = {f: Codes(values, ensemble.unseen.get(f)) for f, values in (ensemble.categories or {}).items()}
    return {f: numbers for f, numbers in codes.items() if not numbers.holds_numbers}


def code_of(value: Any, where: str, codes: Codes, *, missing: bool) -> float:
    """Return the number of a text, NaN if it is missing; ``where`` it stands is said in errors.

    A text that is a category is one, whatever else it may look like.
    """
    is_text = isinstance(value, str)
    if is_text and WHOLE_NUMBER.fullmatch(value.strip()) and any(isinstance(known, int) for known in codes):
        value = int(value)
    if value in codes:
        return codes[value]
    if value is None or value != value or (is_text and value.strip() in MISSING):
        if not missing:
            raise TableError(f"Expected a category, got a missing value in {where}. Remove or fill such rows first.")
        return np.nan
    is_code = codes.unseen != "hashed" and is_text and is_number(value)
    try:
        if is_code and codes and not any(is_number(str(known)) for known in codes):
            raise KeyError(value)
        return codes[value]
    except KeyError:
        kind = "categories, written as text," if is_code else "categories"
        raise TableError(
            f"Expected one of the {len(codes)} {kind} that the model knows, got {shown(value)} in {where}. Leave such"
            f" rows out{', or leave the cell empty' if missing else ''}."
        ) from None


def texts_of(
    number: NDArray[np.float64], before: NDArray[np.float64], texts: NDArray, codes: Codes
) -> NDArray[np.str_]:
    """Return numbers as text: that of the row where nothing changed, that of a category else, none for NaN.

    Parameters
    ----------
    number, before : ndarray of float64, shape (n,)
        Of changed rows, and of rows as they were read.
    texts : ndarray of str, shape (n,)
        What the latter were read from.
    codes : Codes
    """
    known = {code: str(text) for text, code in codes.items()}
    columns = zip(number.tolist(), before.tolist(), texts.tolist(), strict=True)
    found = ["" if z != z else text if z == x else known.get(z, "") for z, x, text in columns]
    return np.array(found, dtype=str)

"""How numbers, norms, shares, lists and settings are worded, once: for messages, tables and reports alike."""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence
from typing import Any

#: What becomes of a statement.
ANSWERS = {True: "holds", False: "does not hold", None: "not decided"}


def listed(values: Sequence[Any], most: int = 6) -> str:
    """Return the first few values as Python writes them, and how many there are if not all are shown."""
    return _shortened([shown(getattr(value, "item", lambda value=value: value)()) for value in values[:most]], values)


def named(names: Sequence[str], most: int = 8) -> str:
    """Return the first few names as they are, and how many there are if not all are shown."""
    return _shortened([cut(name, 60) for name in names[:most]], names)


def _shortened(first: list[str], values: Sequence[Any]) -> str:
    return ", ".join(first) + (f", ... ({len(values)} in all)" if len(values) > len(first) else "")


def shown(value: Any, longest: int = 60) -> str:
    """Return a value as Python writes it, in one line, cut where it is long."""
    if isinstance(value, int) and abs(value) >= 10**longest:  # Python refuses to write numbers of thousands of digits
        return f"a number of {value.bit_length()} bits"
    try:
        text = repr(value[:longest] if isinstance(value, (str, bytes, list, tuple)) else value)
    except (ValueError, RecursionError):
        text = f"a {type(value).__name__}"
    return cut(" ".join(text.split()), longest)


def cut(text: str, longest: int) -> str:
    """Return a text, its end replaced by an ellipsis where it is long."""
    return text if len(text) <= longest else text[: longest - 1] + "…"


def reason(error: BaseException) -> str:
    """Return what a library says about an error: in one line that is not long."""
    return cut(" ".join(str(error).split()), 200) or type(error).__name__


def printable(text: str) -> str:
    """Return a text with everything that is no visible character, space or line end written as an escape."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in text)


def setting(name: str, value: str | None = None, option: str | None = None) -> str:
    """Name a parameter to those who call from Python and to those who type: ``target (--target)``.

    Parameters
    ----------
    name : str
        The parameter in Python.
    value : str, optional
        What to give; it is quoted for either.
    option : str, optional
        The option on the command line, if it has another name.
    """
    option = option or "--" + name.replace("_", "-")
    if value is None:
        return f"{name} ({option})"
    return f"{name} {cut(value, 60)!r} ({option} {shlex.quote(cut(value, 60))})"


def norm_name(norm: float) -> str:
    """Return a norm as it is typed: 0, 1, 2, ... or inf."""
    return "inf" if math.isinf(norm) else str(int(norm))


def interval(bounds: Sequence[float], style: str) -> str:
    """Return an interval with both ends written in a style like ``.1%``, one number if they are equal."""
    low, high = bounds
    return f"{low:{style}}" if low == high else f"{low:{style}} to {high:{style}}"


def counted(number: int, thing: str) -> str:
    """Return ``1 feature``, ``2 features`` and so on."""
    return f"{number:,} {thing}" + ("" if number == 1 else "s")


def class_name(label: str) -> str:
    """Return a class as sentences name it: by its label, or, where that is a number, as ``class 1``."""
    return f"class {label}" if label.lstrip("-")[:1].isdigit() else label


def finite_or_none(value: float) -> float | None:
    """JSON has no infinity and no NaN; null stands for them."""
    return float(value) if math.isfinite(value) else None


def feature_name(names: Sequence[str] | None, index: int) -> str:
    """Return a feature's name, one made of its index if there are no names."""
    return f"feature_{index}" if names is None else names[index]

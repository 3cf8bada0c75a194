"""Boxes: how far columns of a row may move, all at once, while the decision stays."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from certiforest.ensemble import TreeEnsemble

Ends = tuple[NDArray[np.float64], NDArray[np.float64]]
# Tells of the values from some ends to others whether the decision stays (None: not known), and where it does not.
Ask = Callable[[NDArray[np.float64], NDArray[np.float64]], tuple[bool | None, NDArray[np.float64] | None]]


class Side(NamedTuple):
    """Where a column of a box ends.

    Attributes
    ----------
    column : int
    is_upper : bool
    end : float
        The last value in the box.
    beyond : ndarray, shape (n_features,), or None
        An input that is decided otherwise and leaves the box on this side alone, before the next threshold. None at the
        end of the domain, or if time was up.
    is_last : bool
        Whether the box cannot be extended: there is such an input, or the domain ends.
    """

    column: int
    is_upper: bool
    end: float
    beyond: NDArray[np.float64] | None
    is_last: bool


def largest_box(
    ensemble: TreeEnsemble, x: NDArray[np.float64], domain: Ends, columns: Sequence[int], is_whole: NDArray, ask: Ask
) -> list[Side]:
    """Extend some columns of numbers, one side after the other, as far as the decision stays; others have their ends.

    A side that cannot be extended still cannot when others are: so no side of the whole box can in the end.

    Parameters
    ----------
    ensemble : TreeEnsemble
    x : ndarray, shape (n_features,)
    domain : pair of ndarray
        Ends of all columns. What is asked about, to begin with, are these, and of the columns the row's own value.
    columns : sequence of int
    is_whole : ndarray of bool, shape (n_features,)
        Columns of whole numbers.
    ask : callable
    """
    low, high = (end.copy() for end in domain)
    low[columns] = high[columns] = x[columns]
    sides = []
    for f in columns:
        for is_upper in (False, True):
            end = high if is_upper else low
            steps = _steps(ensemble, float(x[f]), (domain[1] if is_upper else domain[0])[f], f, is_upper, is_whole[f])
            kept, beyond, first_beyond, next_try = -1, None, len(steps), len(steps) - 1
            while kept + 1 < first_beyond:
                end[f] = steps[next_try]
                stays, other = ask(low, high)
                if stays:
                    kept = next_try
                else:
                    first_beyond = next_try
                    if other is not None:  # the first step that goes so far
                        first_beyond = next(i for i, step in enumerate(steps) if _is_within(other[f], step, is_upper))
                    beyond = other
                next_try = (kept + first_beyond) // 2
            end[f] = steps[kept] if kept >= 0 else x[f]
            is_last = beyond is not None or kept == len(steps) - 1
            sides.append(Side(f, is_upper, float(end[f]), beyond, is_last))
    return sides


def list_sides(sides: Sequence[Side], names: Sequence[str]) -> list[dict[str, Any]]:
    """Return the ends of each column as plain data, and why it ends: another decision, the domain, or time."""
    ends = {True: "decision", False: "domain", None: "time"}
    pairs = zip(sides[::2], sides[1::2], strict=True)
    return [
        {"feature": names[low.column], "low": low.end, "high": high.end}
        | {name: ends[s.beyond is not None if s.is_last else None] for name, s in (("below", low), ("above", high))}
        for low, high in pairs
    ]


def _is_within(value: float, step: float, is_upper: bool) -> bool:
    return value <= step if is_upper else value >= step


def _steps(ensemble: TreeEnsemble, start: float, end: float, f: int, is_upper: bool, is_whole: bool) -> list[float]:
    """Return where a side may end, from a value outwards: before the next threshold, ..., and at the domain's end."""
    cuts = ensemble.threshold[ensemble.number_splits[ensemble.feature[ensemble.number_splits] == f]]
    if is_upper:
        steps = np.append(cuts[(start < cuts) & (cuts < end)], end)
    else:
        above = np.nextafter(cuts, math.inf)
        steps = np.append(above[(end < above) & (above < start)], end)
    if is_whole:
        steps = np.floor(steps) if is_upper else np.ceil(steps)
    found = sorted({*steps.tolist()} - {start})
    return found if is_upper else found[::-1]

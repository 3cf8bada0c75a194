"""Repair: from cells in which relations fail to a row there that keeps them, or to multipliers that show there is none.

Floats find about where the cheapest such row is; its values are then fixed one by one, each where rationals leave room.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from certiforest.attack.comparisons import Comparison
from certiforest.attack.moves import Moves
from certiforest.ensemble.tree_kernels import LARGEST
from certiforest.rows.repair_kernels import N_ROUNDS, pull, settle

N_SWEEPS = 40
# Where prices are no smooth powers of moves, this one stands in; multipliers have so many bits.
NEARLY_ONE, BITS = 1.125, 24
# Beyond this, floats are not asked where columns are best; nor for values so many times as large as those at hand.
FAR, FARTHER = 1e100, 4096.0


class RelatedBox(NamedTuple):
    """Linear relations in a box of cells.

    ``low`` and ``high`` hold the ends of columns, ``rows`` the comparisons that may fail there, by number of the
    relation, ``listed`` the columns that are no numbers: what they are is not to be chosen.
    """

    low: dict[int, float]
    high: dict[int, float]
    rows: list[tuple[int, Comparison]]
    listed: set[int]


def find_nearest(
    box: RelatedBox, x: NDArray[np.float64], moves: Moves
) -> tuple[dict[int, float], list[tuple[int, Fraction]]]:
    """Return about where moves that keep linear relations cost least, by column, and multipliers of the relations.

    Those are in units of prices (where no budget is shared, in any).
    """
    columns, factor, bound = _matrix(box)
    low, high = (np.clip([ends[c] for c in columns], -FAR, FAR) for ends in (box.low, box.high))
    start, is_sized = x[columns], 0 < moves.norm < math.inf
    unit = np.maximum(np.maximum(high - start, start - low), 1e-9)
    if is_sized:
        unit = moves.numbers.scale[:, columns].max(axis=0) * moves.eps
    power = 2.0 if moves.norm == math.inf else max(float(moves.norm), NEARLY_ONE)
    multiplier, point = np.zeros(len(box.rows)), np.clip(start, low, high)
    is_equal = np.array([row.sign == "=" for _, row in box.rows])
    with np.errstate(all="ignore"):
        region = np.stack([start, low, high, np.clip(unit**-power, 1e-250, 1e250)])
        pull(region, factor, bound, is_equal, power, N_SWEEPS, multiplier, point)
    target = dict(zip(columns, point.tolist(), strict=True))
    most = float(np.abs(multiplier).max(initial=0.0))
    if not 0 < most < math.inf:
        return target, []
    unit_of_price = moves.budget if is_sized else Fraction(1)
    shift = 2.0 ** (BITS - math.frexp(most)[1])
    whole = (np.rint(multiplier * shift) / shift).tolist()
    return target, [(r, Fraction(m) * unit_of_price) for (r, _), m in zip(box.rows, whole, strict=True) if m]


def _matrix(box: RelatedBox) -> tuple[list[int], NDArray[np.float64], NDArray[np.float64]]:
    """Return the numbers that are to be chosen, and relations between them: factors and bounds."""
    columns = list(dict.fromkeys(c for _, row in box.rows for c, _ in row.terms if c not in box.listed))
    place = {c: k for k, c in enumerate(columns)}
    factor, bound = np.zeros((len(box.rows), len(columns))), np.empty(len(box.rows))
    for i, (_, row) in enumerate(box.rows):
        least = Fraction(0)
        for column, a in row.terms:
            if column in box.listed:
                least += min(a * Fraction(box.low[column]), a * Fraction(box.high[column]))
            else:
                factor[i, place[column]] = a
        bound[i] = row.bound - least
    return columns, factor, bound


def repair_about(
    target: dict[int, float], box: RelatedBox, x: NDArray[np.float64], moves: Moves
) -> dict[int, float] | None:
    """Return values near some at which linear relations hold, as far as floats tell; None if they are not found."""
    columns, factor, bound = _matrix(box)
    value = np.array([target[c] for c in columns])
    most = FARTHER * float(np.abs([*x[columns], *value, *bound]).max(initial=1e-290))  # sums lose digits beyond
    region = np.clip([x[columns], [box.low[c] for c in columns], [box.high[c] for c in columns]], -most, most)
    sign = np.array([{"=": 0, "<": -1, "<=": 1}[row.sign] for _, row in box.rows], np.int64)
    if not settle(region, factor, bound, sign, moves.numbers.is_whole[columns], value):
        return None
    return {**target, **dict(zip(columns, value.tolist(), strict=True))}


def repair(
    target: dict[int, float], box: RelatedBox, x: NDArray[np.float64], moves: Moves, *, is_coarse: bool
) -> dict[int, float] | None:
    """Return values near some at which linear relations hold exactly; None if they are not found.

    Coarse values add up to floats where fine ones do not.
    """
    low, high = ({c: Fraction(end) for c, end in ends.items()} for ends in (box.low, box.high))
    rows, whole, fixed = [row for _, row in box.rows], moves.numbers.is_whole, dict[int, float]()
    if not _narrow(low, high, rows, whole, box.listed):
        return None
    largest = max(max(abs(low[c]), abs(high[c])) for c in target)
    grid = Fraction(2) ** (math.frexp(float(largest))[1] - 30)
    for c, value in target.items():
        near, start = Fraction(value), Fraction(float(x[c]))
        if is_coarse:
            near = round(near / grid) * grid
        if abs(near - start) <= abs(near) * Fraction(1e-9):
            near = start
        near = min(max(near, low[c]), high[c])
        if whole[c]:
            near = Fraction(min(max(round(near), math.ceil(low[c])), math.floor(high[c])))
        fixed[c] = float_towards(near, float(low[c]) if near > low[c] else math.inf)
        low[c] = high[c] = Fraction(fixed[c])
        touched = [row for row in rows if any(column == c for column, _ in row.terms)]
        if not _narrow(low, high, touched, whole, box.listed):
            return None
    return fixed


def _narrow(
    low: dict[int, Fraction], high: dict[int, Fraction], rows: list[Comparison], whole: NDArray, listed: set[int]
) -> bool:
    """Take from the ends of columns what linear relations leave no room for; tell whether something is left."""
    for _ in range(N_ROUNDS):
        has_changed = False
        for row, sign in [*((row, 1) for row in rows), *((row, -1) for row in rows if row.sign == "=")]:
            least = sum(sign * a * (low[c] if sign * a > 0 else high[c]) for c, a in row.terms)
            room = sign * row.bound - least
            if room < 0 or (room == 0 and row.sign == "<"):
                return False
            if row.sign == "<":  # some way below the bound
                room -= min(room, sum(abs(a) * (high[c] - low[c]) for c, a in row.terms)) / Fraction(2**20)
            for c, a in row.terms:
                step = room / abs(a)
                if high[c] - low[c] <= step or c in listed:
                    continue
                has_changed = True
                if sign * a > 0:
                    high[c] = Fraction(math.floor(low[c] + step)) if whole[c] else low[c] + step
                else:
                    low[c] = Fraction(math.ceil(high[c] - step)) if whole[c] else high[c] - step
        if not has_changed:
            break
    return True


def float_towards(value: Fraction, end: float) -> float:
    """Return the float nearest to a value on the side of another one, or the value itself if it is one."""
    try:
        near = float(value)
    except OverflowError:
        near = math.copysign(LARGEST, value)
    if (Fraction(near) > value) if end < near else (Fraction(near) < value and end > near):
        near = math.nextafter(near, end)
    return near

"""The cells of columns that are tied: cut where trees and where relations of one column alone turn."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from certiforest.attack.moves import DOWN, UP, Moves
from certiforest.attack.relations import Relation
from certiforest.ensemble.tree_kernels import LARGEST
from certiforest.problem.cells_kernels import lower_towards
from certiforest.problem.problem import BUDGET, Cells, Leaves, Problem
from certiforest.proof.tables_kernels import narrow, new_tables
from certiforest.rows.repair import float_towards


class RelatedCells(NamedTuple):
    """Cells and leaves of a row, and the ends of each cell of a variable of relations, ``low`` and ``high`` (n_cells,).

    Between these are all values in it that one move can bring about; for a group they are the value of the cell.
    """

    cells: Cells
    leaves: Leaves
    low: NDArray[np.float64]
    high: NDArray[np.float64]


class _Cell(NamedTuple):
    """A cell of a variable of relations: its ends, the value nearest to the row, and the price of that."""

    top: float
    low: float
    high: float
    value: float
    price: Any


def cut_cells(
    cells: Cells, leaves: Leaves, x: NDArray[np.float64], moves: Moves, relations: Sequence[Relation]
) -> RelatedCells:
    """Cut the cells of variables of relations where these turn, and leave out those that nobody gets to."""
    columns = dict.fromkeys(c for relation in relations for c in relation.columns)
    group_of = {c: len(x) + g for g, group in enumerate(moves.groups) for c in group}
    tops = dict(zip(cells.name.tolist(), np.split(cells.top, cells.first[1:-1]), strict=False))
    values, found = moves.values(x), dict[int, list[_Cell]]()
    for name in dict.fromkeys(group_of.get(column, column) for column in columns):
        if name >= len(x):  # a group: a cell for each column that can be set
            listed = moves.price_list(name, float(values[name]))
            found[name] = [_Cell(value, value, value, value, price) for value, price in listed]
        else:
            cuts = sorted({math.inf, *tops.get(name, ()), *_cuts(name, relations)})
            found[name] = list(_number_cells(name, cuts, x, moves, relations))
    return _with_cells(cells, leaves, values, moves, found)


def _reach(f: int, x: float, moves: Moves) -> tuple[float, float]:
    """Return the least and the largest value of a column of numbers that one move can bring about."""
    low, high = (float(ends[f]) for ends in moves.inside)
    can_move = moves.numbers.may_move[:, f] & moves.can_move
    ends = [x, x]
    for way, sign in ((DOWN, -1), (UP, 1)):
        if can_move[way]:
            step = Fraction(moves.eps) * Fraction(float(moves.numbers.scale[way, f]))
            ends[way] = float_towards(Fraction(x) + sign * step, x) if moves.norm > 0 else sign * LARGEST
    low, high = max(low, ends[DOWN], -LARGEST), min(high, ends[UP], LARGEST)
    return (math.ceil(low) + 0.0, math.floor(high) + 0.0) if moves.numbers.is_whole[f] else (low, high)


def _cuts(f: int, relations: Iterable[Relation]) -> set[float]:
    """Return the tops of cells between which relations of a column alone turn."""
    found: set[float] = set()
    for relation in relations:
        if relation.column == f:
            found.update(relation.values)
        for comparison in (*relation.when, *relation.then):
            if len(comparison.terms) == 1 and comparison.terms[0][0] == f:
                value = comparison.bound / comparison.terms[0][1]
                top = float_towards(value, -math.inf)
                found.update([top, math.nextafter(top, -math.inf)] if top == value else [top])
    return {top for top in found if abs(top) < LARGEST}


def _number_cells(
    f: int, tops: list[float], row: NDArray[np.float64], moves: Moves, relations: Iterable[Relation]
) -> Iterator[_Cell]:
    """Yield the cells of a column of numbers in which there is one that it can take."""
    x, bottom, is_whole = float(row[f]), -math.inf, bool(moves.numbers.is_whole[f])
    low, high = _reach(f, x, moves)
    allowed = [relation for relation in relations if relation.column == f]
    for top in tops:
        begin = math.floor(bottom) + 1.0 if is_whole and bottom > -math.inf else math.nextafter(bottom, math.inf)
        begin, end = max(begin, low), min(math.floor(top) + 0.0 if is_whole and top < math.inf else top, high)
        for relation in allowed:
            inside = [value for value in relation.values if begin <= value <= end]
            begin, end = (inside[0], inside[-1]) if inside else (math.inf, -math.inf)
        if begin <= end:
            value = min(max(x, begin), end)
            yield _Cell(top, begin, end, value, moves.price_of(f, x, value))
        bottom = top


def _with_cells(
    old: Cells, leaves: Leaves, values: NDArray[np.float64], moves: Moves, found: dict[int, list[_Cell]]
) -> RelatedCells:
    """Put cells of some variables in the place of those there are; leaves allow them as they allowed those."""
    names = [*old.name.tolist(), *(name for name in found if name not in old.name)]
    parts: list[list[_Cell]] = []
    begin, end, n = np.empty(len(old.top), np.int64), np.empty(len(old.top), np.int64), 0
    for v, name in enumerate(names):
        places = range(old.first[v], old.first[v + 1]) if v < len(old.name) else range(0)
        listed = found.get(name) or [_Cell(old.top[c], math.nan, math.nan, old.value[c], old.price[c]) for c in places]
        value = np.array([cell.value for cell in listed])
        tops = np.array([*old.top[places.start : places.stop - 1], math.inf]) if places else np.empty(0)
        n_upto = np.searchsorted(value, tops, side="right")
        here = slice(places.start, places.stop)
        begin[here], end[here] = n + np.append(0, n_upto[:-1])[: len(places)], n + n_upto - 1
        parts.append(listed)
        n += len(listed)
    first = np.cumsum([0, *map(len, parts)])
    top, low, high, value = np.array([cell[:4] for listed in parts for cell in listed], np.float64).T.copy()
    top[first[1:] - 1] = math.inf
    price, home = np.zeros(n, np.int64), np.append(old.home, np.zeros(len(names) - len(old.name), np.int64))
    for v, name in enumerate(names):
        here = slice(first[v], first[v + 1])
        home[v] = first[v] + int(np.argmax(value[here] == values[name]))
        if name not in found:
            price[here] = [cell.price for cell in parts[v]]
        elif moves.is_shared:
            share = BUDGET / moves.budget
            price[here] = [min(math.floor(cell.price * share), 4 * BUDGET) for cell in parts[v]]
            lower_towards(price, first[v], home[v], first[v + 1] - 1)
    cells = Cells(np.array(names, np.int64), first, home, top, value, price)
    tester = np.append(leaves.first_tester, np.full(len(names) - len(old.name), len(leaves.tester)))
    leaves = leaves._replace(begin=begin[leaves.begin], end=end[leaves.end], first_tester=tester)
    # Leaves are left out whose cells hold nothing that can be.
    free, nothing = cells._replace(price=np.zeros_like(price)), np.zeros(len(leaves.node), np.int64)
    leaves = narrow(Problem(free, leaves, nothing, 0, 1), new_tables(cells, leaves)).leaves
    return RelatedCells(cells, leaves, low, high)

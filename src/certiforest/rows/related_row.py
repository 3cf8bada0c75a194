"""The problem of one row whose columns are tied by relations: cells cut where these turn, and rows that keep them.

Relations make what an attacker can do smaller. So what is proved without them holds, and an attack counts only if it
keeps them, exactly. Where cells that would do hold no such row, multipliers show it (`repair_kernels`): a weighted
sum of linear relations and of the budget that no row there keeps. Such a sum has a part for each variable, as prices
have. It becomes the budget of what is searched next, whose bound then knows of relations.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from certiforest.attack.comparisons import Comparison
from certiforest.attack.moves import DOWN, UP, Moves
from certiforest.attack.relations import Relation, binding
from certiforest.problem.around_row import RowProblem
from certiforest.problem.problem import BUDGET
from certiforest.problem.verifier import Verifier
from certiforest.rows.related_cells import cut_cells
from certiforest.rows.repair import RelatedBox, find_nearest, float_towards, repair, repair_about
from certiforest.rows.shrinking_kernels import SLACK, Ties, ends_of, shrink


def row_problem(verifier: Verifier, x: NDArray[np.float64], moves: Moves | None = None, **known: Any) -> RowProblem:
    """Return the problem of a row, with the relations that bind it if there are any."""
    bound = binding((moves or verifier.moves).relations, x)
    return RelatedRow(verifier, x, moves, bound) if bound else RowProblem(verifier, x, moves, **known)


class RelatedRow(RowProblem):
    """What an attacker can do to one row that keeps some relations; see `RowProblem`.

    Attributes
    ----------
    is_open : bool
        Whether some cells that would do were left, neither with a row that keeps all relations nor without one.
    """

    def __init__(
        self, verifier: Verifier, x: NDArray[np.float64], moves: Moves | None, relations: list[Relation]
    ) -> None:
        super().__init__(verifier, x, moves)
        self.is_open, self._rate = False, Fraction(int(self.moves.is_shared))
        numbers = {relation: r for r, relation in enumerate(self.moves.relations)}
        self._relations = [(numbers[relation], relation) for relation in relations]
        self._unrepaired: set[bytes] = set()
        self._multipliers: dict[bytes, list[tuple[int, Fraction]]] = {}
        n, columns = len(x), dict.fromkeys(c for relation in relations for c in relation.columns)
        self._group_of = {c: n + g for g, group in enumerate(self.moves.groups) for c in group}
        self.cells, self.leaves, self._low, self._high = cut_cells(self.cells, self.leaves, x, self.moves, relations)
        self._variable = {int(f): v for v, f in enumerate(self.cells.name)}
        self._columns = {c: self._variable[self._group_of.get(c, c)] for c in columns}
        self._place = {c: k for k, c in enumerate(columns)}
        self._numbers = np.array([c for c in columns if c not in self._group_of], np.int64)
        self._is_number = np.array([c not in self._group_of for c in columns], bool)
        self._linear = [(r, relation) for r, relation in self._relations if not relation.when and not relation.values]
        self._ties = self._tie()

    def _tie(self) -> Ties:
        """Return the relations as kernels take them."""
        cells, moves, n = self.cells, self.moves, len(self._place)
        first, x = cells.first, np.append(self.x, np.zeros(len(moves.groups)))
        at, skip, low, high = np.array([*self._columns.values()], np.int64), np.zeros(n, np.int64), [], []
        n_cells = 0
        for k, column in enumerate(self._place):
            here, group = slice(first[at[k]], first[at[k] + 1]), self._group_of.get(column)
            skip[k] = n_cells - here.start
            if group is None:
                low.append(self._low[here])
                high.append(self._high[here])
            else:
                is_set = cells.value[here] == moves.choices[group].columns.index(column)
                low.append(is_set * 1.0)
                high.append(is_set * 1.0)
            n_cells += here.stop - here.start
        reach = np.full((2, n), math.inf)
        if moves.is_shared:
            places = np.flatnonzero(self._is_number)
            limit = BUDGET // int(moves.eps) if moves.norm == 0 else moves.eps * moves.numbers.scale[:, self._numbers]
            reach[:, places] = limit
        factor = np.zeros((len(self._linear), n))
        for i, (_, relation) in enumerate(self._linear):
            for column, a in relation.then[0].terms:
                factor[i, self._place[column]] = a
        then, start, about, of, holds = [], [0], [], [], list[NDArray[np.int8]]()
        for _, relation in self._relations:
            if not relation.when:
                continue
            for comparison in (*relation.then, *relation.when):
                ((column, _),) = comparison.terms
                k = self._place[column]
                about.append(int(at[k]))
                of.append(sum(map(len, holds)) - first[at[k]])
                holds.append(self._states(comparison, column, low[k], high[k]))
            then.append(start[-1] + len(relation.then))
            start.append(len(about))
        power = 1.0 if moves.norm == math.inf else float(moves.norm)
        bound = np.array([float(relation.then[0].bound) for _, relation in self._linear])
        is_equal = np.array([relation.then[0].sign == "=" for _, relation in self._linear], bool)
        columns = np.array([*self._place], np.int64)
        return Ties(
            at, skip, np.concatenate(low), np.concatenate(high), x[columns], reach, power, factor, bound, is_equal,
            np.array(start, np.int64), np.array(then, np.int64), np.array(about, np.int64), np.array(of, np.int64),
            np.concatenate([*holds, np.zeros(0, np.int8)]),
        )  # fmt: skip

    @staticmethod
    def _states(
        comparison: Comparison, column: int, low: NDArray[np.float64], high: NDArray[np.float64]
    ) -> NDArray[np.int8]:
        """Return of which cells a comparison of a column holds: 1 everywhere, 0 nowhere, 2 somewhere."""
        said = [
            comparison.holds_between({column: begin}, {column: end})
            for begin, end in zip(low.tolist(), high.tolist(), strict=True)
        ]
        return np.array([2 if one is None else int(one) for one in said], np.int8)

    # ---- Boxes of cells ----------------------------------------------------------------------------------------------

    def _ends(
        self, low: NDArray[np.int64], high: NDArray[np.int64], *, is_limited: bool = True
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the least and the largest values of columns that are tied, in a box of cells, as the budget goes."""
        return ends_of(self._ties, self.cells, self.budget if is_limited else 0, low, high)

    def _box(self, low: NDArray[np.int64], high: NDArray[np.int64]) -> RelatedBox | int:
        """Return the linear relations in a box of cells, or the number of a relation that no row there keeps."""
        return self._box_of(*self._ends(low, high))

    def _box_of(
        self, least: NDArray[np.float64], most: NDArray[np.float64], *, may_break: bool = False
    ) -> RelatedBox | int:
        """Return the linear relations that may fail between some ends, or the number of one that no row there keeps."""
        with np.errstate(all="ignore"):
            up, down = np.maximum(self._ties.factor, 0.0), np.minimum(self._ties.factor, 0.0)
            lowest, highest = up @ least + down @ most, up @ most + down @ least
            slack = SLACK * (
                np.abs(self._ties.factor) @ np.maximum(np.abs(least), np.abs(most)) + np.abs(self._ties.bound) + 1e-290
            )
            is_sure = (
                np.isfinite(slack)
                & (np.abs(lowest - self._ties.bound) > slack)
                & (np.abs(highest - self._ties.bound) > slack)
            )
            is_kept = is_sure & (highest < self._ties.bound) & ~self._ties.is_equal
            is_broken = is_sure & ((lowest > self._ties.bound) | (self._ties.is_equal & (highest < self._ties.bound)))
        low, high = (dict(zip(self._place, ends.tolist(), strict=True)) for ends in (least, most))
        rows = []
        for i, (r, relation) in enumerate(self._linear):
            if is_broken[i] or not (is_kept[i] or is_sure[i]):
                said = False if is_broken[i] else relation.is_kept_between(low, high)
                if said is False and not may_break:
                    return r
                is_kept[i] = said is True
            if not is_kept[i]:
                rows.append((r, relation.then[0]))
        for r, relation in self._relations:
            if (relation.when or relation.values) and not may_break and relation.is_kept_between(low, high) is False:
                return r
        return RelatedBox(low, high, rows, {*self._group_of})

    def _parts(self, multipliers: list[tuple[int, Fraction]]) -> tuple[NDArray[np.float64], float, float]:
        """Return what each cell has of a sum of relations and of the budget, at least; what all may have; and its size.

        At most, that is, as floats tell: rounding is in favour of cells.
        """
        rate, moves, cells = float(self._rate), self.moves, self.cells
        part = rate * cells.price * (float(moves.budget) / BUDGET)
        slope: dict[int, Fraction] = {}
        bound = Fraction(moves.budget if rate else 0)
        relations = dict(self._relations)
        for r, multiplier in multipliers:
            row = relations[r].then[0]
            bound += multiplier * row.bound
            for column, a in row.terms:
                slope[column] = slope.get(column, Fraction(0)) + multiplier * a
        size, total = abs(float(bound)), float(bound)
        for v in dict.fromkeys(self._columns[c] for c in slope):
            here, name = slice(cells.first[v], cells.first[v + 1]), int(cells.name[v])
            if name >= len(self.x):
                group = moves.choices[name].columns
                more = np.array([float(slope.get(group[int(place)], 0.0)) for place in cells.value[here]])
                part[here] += more - SLACK * (np.abs(more) + part[here])
                size += float(np.abs(more).max())
            else:
                part[here], largest = self._least(name, self._low[here], self._high[here], float(slope[name]), rate)
                size += largest
        return part, total, size

    def _least(
        self, f: int, low: NDArray[np.float64], high: NDArray[np.float64], slope: float, rate: float
    ) -> tuple[NDArray[np.float64], float]:
        """Return the least of ``rate * price + slope * value`` in cells of a column, and how large that is."""
        x, norm, scale = float(self.x[f]), self.moves.norm, self.moves.numbers.scale[:, f]
        points = [low, high, np.clip(x, low, high)]
        with np.errstate(all="ignore"):
            if rate and norm >= 2:
                size = (abs(slope) * scale[int(slope < 0)] ** norm / (rate * norm)) ** (1 / (norm - 1))
                points.append(np.clip(x - math.copysign(size, slope), low, high))
            values = []
            for z in points:
                share = np.abs(z - x) / np.where(z > x, scale[UP], scale[DOWN])
                price = (z != x) * 1.0 if norm == 0 else share**norm if norm < math.inf else share
                paid = rate * price if rate else 0.0
                values.append(paid + slope * z - SLACK * (np.abs(paid) + np.abs(slope * z)))
            least = np.minimum.reduce(values)
            largest = np.abs(least).max() + abs(slope) * np.maximum(np.abs(low), np.abs(high)).max()
        return np.where(np.isfinite(least), least, -math.inf), float(largest)

    def _is_empty(
        self, multipliers: list[tuple[int, Fraction]], low: NDArray[np.int64], high: NDArray[np.int64]
    ) -> bool:
        """Tell whether a sum of relations and of the budget is beyond what it may be, everywhere in a box of cells."""
        part, most, size = self._parts(multipliers)
        least = sum(float(part[low[v] : high[v] + 1].min()) for v in range(len(low)))
        return bool(least > most + SLACK * (size + abs(least)))

    def point(
        self, z: NDArray[np.float64], choice: NDArray[np.int64], *, is_limited: bool
    ) -> NDArray[np.float64] | None:
        """Return a row in chosen cells that keeps all relations, if one is found; see `RowProblem.point`."""
        if self._keeps(z):
            return z if not is_limited or self.is_affordable(z) else None
        found = self._repaired(z, choice, is_limited=is_limited)
        return self._nearby(z, is_limited=is_limited) if found is None else found

    def _repaired(
        self, z: NDArray[np.float64], choice: NDArray[np.int64], *, is_limited: bool
    ) -> NDArray[np.float64] | None:
        """Return a row in chosen cells that keeps all relations, or None, and note multipliers if there is none."""
        box = self._box(choice, choice)
        is_open = isinstance(box, RelatedBox)
        if not isinstance(box, RelatedBox):
            box = self._box_of(*self._ends(choice, choice, is_limited=False), may_break=True)
        assert isinstance(box, RelatedBox)
        target, multipliers = find_nearest(box, self.x, self.moves)
        self._multipliers[choice.tobytes()] = multipliers
        if not is_open or self._is_empty(multipliers, choice, choice):
            return None
        found = self._fixed(z, target, box, is_limited=is_limited, is_thorough=True)
        if found is None:
            self._unrepaired.add(choice.tobytes())
        return found

    def _fixed(
        self, z: NDArray[np.float64], target: dict[int, float], box: RelatedBox, *, is_limited: bool, is_thorough: bool
    ) -> NDArray[np.float64] | None:
        """Return a row that keeps all relations, with values near some in the place of those of z."""
        for is_coarse in (None, False, True) if target else ():
            if is_coarse is None:
                values = repair_about(target, box, z, self.moves)
            else:
                values = repair(target, box, z, self.moves, is_coarse=is_coarse)
            if values is None and not is_thorough:
                return None
            if values is None:
                continue
            other = z.copy()
            other[list(values)] = list(values.values())
            if self._keeps(other):
                return other if not is_limited or self.is_affordable(other) else None
        return None

    def _nearby(self, z: NDArray[np.float64], *, is_limited: bool) -> NDArray[np.float64] | None:
        """Return a row near z, in whatever cells, that keeps all relations and is in reach; None if none is found."""
        first, last = self.cells.first[:-1], self.cells.first[1:] - 1
        least, most = self._ends(first, last)
        least[~self._is_number] = most[~self._is_number] = z[[c for c in self._place if c in self._group_of]]
        for _, relation in self._relations:
            if relation.when and not relation.is_kept(z.tolist()):
                for comparison in relation.then:
                    ((column, a),) = comparison.terms
                    k, end = self._place[column], float_towards(comparison.bound / a, math.inf if a < 0 else -math.inf)
                    if comparison.sign == "<" and Fraction(end) == comparison.bound / a:
                        end = math.nextafter(end, math.inf if a < 0 else -math.inf)
                    if self.moves.numbers.is_whole[column]:
                        end = math.ceil(end) if a < 0 else math.floor(end)
                    least[k], most[k] = (max(least[k], end), most[k]) if a < 0 else (least[k], min(most[k], end))
        box = self._box_of(least, most, may_break=True)
        if not isinstance(box, RelatedBox) or (least > most).any():
            return None
        start = z.copy()
        start[self._numbers] = np.clip(z[self._numbers], least[self._is_number], most[self._is_number])
        target = dict(zip(self._numbers.tolist(), start[self._numbers].tolist(), strict=True))
        target |= find_nearest(box, start, self.moves)[0]
        return self._fixed(start, target, box, is_limited=is_limited, is_thorough=False)

    def _keeps(self, z: NDArray[np.float64]) -> bool:
        row = z.tolist()
        return all(relation.is_kept(row) for _, relation in self._relations)

    def be_free(self) -> None:
        """Let moves cost nothing."""
        super().be_free()
        self._rate = Fraction(0)

    def shrink(self, low: NDArray[np.int64], high: NDArray[np.int64]) -> tuple[list[tuple[int, int, bool]], bool]:
        """Take cells from the ends of a box that no row in it can be in; see `Search`."""
        steps = np.empty((len(self.cells.price) + 1, 3), np.int64)
        n_steps, is_empty = shrink(self._ties, self.cells, self.budget, low, high, steps)
        return [(v, cut, bool(upper)) for v, cut, upper in steps[:n_steps].tolist()], is_empty

    # ---- What a search asks ------------------------------------------------------------------------------------------

    def is_beyond(self, low: NDArray[np.int64], high: NDArray[np.int64]) -> Any:
        """Tell whether no row in a box of cells keeps the relations and the budget, exactly, and how that is shown."""
        box = self._box(low, high)
        if isinstance(box, int):
            return {"broken": box}
        if super().is_beyond(low, high):
            return True
        multipliers = find_nearest(box, self.x, self.moves)[1] if box.rows else []
        if multipliers and self._is_empty(multipliers, low, high):
            rate = {"lambda": [self._rate.numerator, self._rate.denominator]} if self._rate else {}
            return {"sum": {**rate, "relations": [[r, m.numerator, m.denominator] for r, m in multipliers]}}
        if (low == high).all() and low.tobytes() in self._unrepaired:
            self.is_open = True
        return False

    def divide(
        self, choice: NDArray[np.int64], low: NDArray[np.int64], high: NDArray[np.int64]
    ) -> tuple[int, int] | None:
        """Return where to cut a box in which cells would do, but hold no row that counts: variable and cell."""
        broken = self._box(choice, choice)
        relation = dict(self._relations)[broken] if isinstance(broken, int) else None
        if relation is not None and (relation.when or relation.values or len(relation.columns) == 1):
            return self._cut_at(relation, choice, low, high)
        multipliers = self._multipliers.get(choice.tobytes(), [])
        if isinstance(broken, int) and not self._is_empty(multipliers, choice, choice):
            multipliers = [(broken, Fraction(1))]
        return self._cut_between(multipliers, choice, low, high)

    def _cut_between(
        self,
        multipliers: list[tuple[int, Fraction]],
        choice: NDArray[np.int64],
        low: NDArray[np.int64],
        high: NDArray[np.int64],
    ) -> tuple[int, int] | None:
        """Return where to cut a box so that the cells which make a sum of relations too large are by themselves."""
        part, most, where = self._parts(multipliers)[0], 0.0, None
        for v in range(len(low)) if multipliers else ():
            cheapest = low[v] + int(np.argmin(part[low[v] : high[v] + 1]))
            more = float(part[choice[v]]) - float(part[cheapest]) if part[choice[v]] > part[cheapest] else 0.0
            if more > most:
                most, where = more, (v, int(choice[v]) - int(cheapest < choice[v]))
        return where

    def _cut_at(
        self, relation: Relation, choice: NDArray[np.int64], low: NDArray[np.int64], high: NDArray[np.int64]
    ) -> tuple[int, int] | None:
        """Return where, within a box, a relation that is broken in chosen cells turns nearest to them."""
        best = None
        for v in dict.fromkeys(self._columns[column] for column in relation.columns):
            for c in range(low[v], high[v] + 1):
                other, distance = choice.copy(), abs(c - int(choice[v]))
                other[v] = c
                is_near = best is None or distance < best[0]
                ends = [
                    dict(zip(self._place, ends.tolist(), strict=True))
                    for ends in self._ends(other, other, is_limited=False)
                ]
                if is_near and relation.is_kept_between(*ends) is not False:
                    best = distance, v, c if c < choice[v] else c - 1
        return None if best is None else best[1:]

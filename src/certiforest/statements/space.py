"""Space: the cells of a whole domain for one model or several, and questions about one input or two.

The thresholds of all trees cut the domain into cells, as those in reach of an attacker do near a row: a domain is an
attacker who may go anywhere in it. Several models are one ensemble whose leaves have a score for each of their outputs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from certiforest.attack.attacker import Attacker
from certiforest.attack.columns import AttackerError, Column, find_columns
from certiforest.ensemble import TreeEnsemble
from certiforest.ensemble.tree_kernels import LARGEST, find_leaf
from certiforest.problem.around_row import RowProblem
from certiforest.problem.pairs_kernels import Pairs, finish_pairs, pair_leaves
from certiforest.problem.problem import Cells
from certiforest.problem.verifier import Verifier
from certiforest.proof.requirements import Question
from certiforest.proof.requirements_kernels import FORBIDDEN, Requirements
from certiforest.statements.domain import Domain, DomainError
from certiforest.words import shown

# What leaves are worth to one requirement has about this many bits, all trees together.
GAIN_BITS = 38


class Requirement(NamedTuple):
    """What a weighted sum of the outputs of two inputs, or of one, must at least be.

    Attributes
    ----------
    here, there : sequence of int, length n_outputs
        Weights of the outputs of the first and of the second input; where there is only one, ``there`` is all zero.
    need : Fraction, or None
        None: what is the same for all inputs; for what is to be as large as possible.
    is_strict : bool, default=False
        Whether the sum must be more than that.
    grows : bool, default=False
        Whether it is to be as large as possible.
    """

    here: Sequence[int]
    there: Sequence[int]
    need: Fraction | None
    is_strict: bool = False
    grows: bool = False


class Space:
    """A domain as models see it.

    Parameters
    ----------
    ensemble : TreeEnsemble
        See `joined.join`.
    domain : Domain

    Attributes
    ----------
    start : ndarray of float64, shape (n_features,)
        Some input.
    names : sequence of str, or None
        What columns are called.
    """

    def __init__(self, ensemble: TreeEnsemble, domain: Domain) -> None:
        n = ensemble.n_features
        if len(domain.low) != n:
            raise DomainError(f"Expected a domain of {n} columns, got {len(domain.low)}.")
        names = ensemble.feature_names
        if names is not None and domain.columns is not None and tuple(map(str, names)) != domain.columns:
            other = next(f for f in range(n) if str(names[f]) != domain.columns[f])
            raise DomainError(
                f"Expected column {other} of the domain to be {shown(names[other])}, got"
                f" {shown(domain.columns[other])}."
            )
        self.domain, self.names = domain, domain.columns or names
        self._codes = {f: sorted({*domain.codes(ensemble, f).values()}) for f in domain.values}
        is_category = np.isin(np.arange(n), ensemble.categorical)
        low, high = np.maximum(domain.low, -LARGEST), np.minimum(domain.high, LARGEST)
        for f, codes in self._codes.items():
            if is_category[f] or math.isnan(low[f]):
                low[f], high[f] = min(codes), max(codes)
        self._may_miss = domain.missing | np.isin(np.arange(n), list(ensemble.blanks or ()))
        whole = np.flatnonzero(domain.integer & ~is_category)
        attacker = Attacker(
            0, n, domain=(low, high), integer=whole.tolist(), groups=domain.groups or None,
            categories=dict.fromkeys(ensemble.categorical.tolist(), 1.0) or None,
            missing=1.0 if self._may_miss.any() and ensemble.missing_left is not None else None,
        )  # fmt: skip
        try:
            self._verifier = Verifier(ensemble, attacker.resolve(n))
        except AttackerError as error:
            raise DomainError(f"The domain does not fit the model. {error}") from None
        self.start = self._some_input(low, high)
        self._local = RowProblem(self._verifier, self.start)
        self._local.cells.price[:] = 0
        self._box, self._holes = self._allowed()

    def _some_input(self, low: NDArray[np.float64], high: NDArray[np.float64]) -> NDArray[np.float64]:
        whole = self.domain.integer
        x = np.clip(0.0, np.where(whole, np.ceil(low), low), np.where(whole, np.floor(high), high))
        for f, codes in self._codes.items():
            x[f] = next(code for code in codes if low[f] <= code <= high[f])
        for group in self.domain.groups:
            x[list(group)] = np.arange(len(group)) == 0
        return x

    def _allowed(self) -> tuple[tuple[NDArray[np.int64], NDArray[np.int64]], dict[int, NDArray[np.bool_]]]:
        """Return the first and last cell of each variable that the domain allows, and where there are holes, which."""
        cells = self._local.cells
        low, high = cells.first[:-1].copy(), cells.first[1:] - 1
        holes = {}
        for v, f in enumerate(cells.name.tolist()):
            here = slice(cells.first[v], cells.first[v + 1])
            allowed, values = np.ones(here.stop - here.start, bool), cells.value[here]
            is_blank = values == math.inf
            if f < len(self.start):
                allowed[is_blank] = self._may_miss[f]
            if f in self._codes:
                codes, bottom = np.array(self._codes[f]), -math.inf
                for c, top in enumerate(cells.top[here].tolist()):
                    if is_blank[c]:
                        continue
                    inside = codes[(bottom < codes) & (codes <= top)]
                    allowed[c], bottom = len(inside) > 0, top
                    if len(inside):
                        values[c] = inside[0]
            places = np.flatnonzero(allowed)
            low[v], high[v] = here.start + places[0], here.start + places[-1]
            if not allowed[places[0] : places[-1] + 1].all():
                holes[v] = allowed
        return (low, high), holes

    def frame(self, rows: Sequence[NDArray[np.float64]]) -> Any:
        """Return inputs as the domain's data had them."""
        return self.domain.decode(self._verifier.ensemble, np.stack(rows))

    def variables_of(self, columns: Sequence[Column]) -> list[int]:
        """Return the variables, by place among the cells, that columns are; those that no tree tests are left out."""
        found = find_columns(list(columns), len(self.start), self.names, "columns")
        groups = [len(self.start) + g for g, group in enumerate(self.domain.groups) if set(group) & set(found)]
        for g in groups:
            group = set(self.domain.groups[g - len(self.start)])
            if not group <= set(found):
                raise DomainError("Expected all columns of a one-hot group, got some of them; name the others, too.")
            found = [f for f in found if f not in group]
        return [v for v, f in enumerate(self._local.cells.name.tolist()) if f in {*found, *groups}]

    def ask(
        self,
        requirements: Sequence[Requirement],
        columns: Sequence[Column] = (),
        ordered: tuple[Column, str] | None = None,
    ) -> Asked:
        """Return a question about two inputs that differ in some columns only, or about one input.

        Parameters
        ----------
        requirements : sequence of Requirement
        columns : sequence of columns
            Those in which inputs may differ.
        ordered : column and {"up", "down"}, optional
            A column, one of those, in which the second input is larger, or smaller, if they are not equal.
        """
        variables = self.variables_of(columns)
        cells, twin = _with_twins(self._local.cells, variables)
        return Asked(self, requirements, cells, twin, None if ordered is None else self._order(ordered, twin))

    def _order(self, ordered: tuple[Column, str], twin: NDArray[np.int64]) -> tuple[int, int] | None:
        """Return the variable that must not be larger, and the one that must not be smaller."""
        variables = self.variables_of([ordered[0]])
        if not variables:
            return None
        (v,) = variables
        cells = self._local.cells
        if cells.name[v] >= len(self.start) or cells.name[v] in self._verifier.ensemble.categorical:
            raise DomainError(f"Expected a column of numbers, got {shown(ordered[0])}, which has no order.")
        return (v, int(twin[v])) if ordered[1] == "up" else (int(twin[v]), v)


class Asked:
    """A question, and what an answer means.

    Attributes
    ----------
    question : Question
    unit : Fraction
        What a target of one is, in outputs.
    """

    def __init__(
        self,
        space: Space,
        requirements: Sequence[Requirement],
        cells: Cells,
        twin: NDArray[np.int64],
        order: tuple[int, int] | None,
    ) -> None:
        self.space, self._requirements, self._cells, self._twin, self._order = space, requirements, cells, twin, order
        local, verifier = space._local, space._verifier
        whole, score = verifier.gains.whole, verifier.gains.unit
        if verifier.ensemble.summands()[0].shape[1] == 1:  # a single output stands in the second of two columns
            whole = whole[:, 1:]
        self._whole = whole
        leaf = verifier.ensemble.leaf
        here = np.array([r.here for r in requirements], object).T
        there = np.array([r.there for r in requirements], object).T
        values = whole.astype(object)
        at_here, at_there = values @ here, values @ there
        fixed = leaf[local.fixed]
        shared = at_here + at_there
        same = [int(shared[-1, i]) + int(shared[fixed, i].sum()) for i in range(len(requirements))]
        needs = [
            0 if r.need is None else _least_whole(r.need / score, r.is_strict) - part
            for r, part in zip(requirements, same, strict=True)
        ]
        self._need = [need + part for need, part in zip(needs, same, strict=True)]
        keeps_shared = bool((shared[:-1] != 0).any())
        n_twins = len(cells.name) - len(local.cells.name)
        pairs = pair_leaves(cells, local.leaves, np.append(twin, np.full(n_twins, -1)), keeps_shared)
        size = [self._size(pairs, local, leaf, at_here[:, i], at_there[:, i]) for i in range(len(requirements))]
        growing = max((size[i] for i, r in enumerate(requirements) if r.grows), default=1)
        shifts = [GAIN_BITS - (growing if r.grows else size[i]).bit_length() for i, r in enumerate(requirements)]
        self._shift = next((shift for shift, r in zip(shifts, requirements, strict=True) if r.grows), 0)
        self._score_unit, self.unit = score, score / Fraction(2) ** self._shift
        nodes = local.leaves.node
        gain = np.zeros((len(pairs.here), len(requirements)), np.int64)
        need = np.empty(len(requirements), np.int64)
        for i, shift in enumerate(shifts):
            ends = leaf[nodes[pairs.here]], leaf[nodes[pairs.there]]
            gain[:, i] = _gains(at_here[:, i], ends[0], shift) + _gains(at_there[:, i], ends[1], shift)
            alike = np.flatnonzero(ends[0] == ends[1])  # where two roundings would add up to more than one
            gain[alike, i] = _gains(shared[:, i], ends[0][alike], shift)
            # Beyond these no leaves meet it, or all that are allowed do.
            need[i] = max(min(_shifted(needs[i], shift), 1 << 39), -(1 << 39))
        pairs, gain = self._with_tables(pairs, gain)
        low, high = (_extended(ends, twin, cells) for ends in space._box)
        grows = np.array([r.grows for r in requirements], np.int64)
        self.question = Question(cells, finish_pairs(cells, pairs), Requirements(gain, need, grows), low, high)

    def _size(self, pairs: Pairs, local: RowProblem, leaf: NDArray, at_here: NDArray, at_there: NDArray) -> int:
        """Return the most that leaves of all tables together can be worth, in size."""
        if not len(pairs.here):
            return 1
        nodes = local.leaves.node
        sizes = np.abs([at_here, at_there])
        drop = max(int(sizes.max()).bit_length() - 900, 0)  # for floats
        one, other = ((sizes >> drop) + (drop > 0)).astype(float)[:, leaf[nodes]]
        total = np.maximum.reduceat(one[pairs.here] + other[pairs.there], pairs.first[:-1]).sum()
        return (int(total * (1 + 1e-9)) + 1) << drop

    def _with_tables(self, pairs: Pairs, gain: NDArray[np.int64]) -> tuple[Pairs, NDArray[np.int64]]:
        """Add a table for each variable with holes, and one for the order of two, in which nothing is worth enough."""
        tables: list[tuple[list[int], list[tuple[list[tuple[int, int, int]], int]]]] = []
        cells = self._cells
        for v, allowed in self.space._holes.items():
            for w in [v, *([int(self._twin[v])] if self._twin[v] >= 0 else [])]:
                runs = np.flatnonzero(np.append(True, np.diff(allowed.astype(int)) != 0))
                ends = np.append(runs[1:], len(allowed))
                first = int(cells.first[w])
                alternatives = [
                    ([(0, first + int(a), first + int(b) - 1)], 0 if allowed[a] else -int(FORBIDDEN))
                    for a, b in zip(runs, ends, strict=True)
                ]
                tables.append(([w], alternatives))
        if self._order is not None:
            tables.append(self._order_table(*self._order))
        for scope, alternatives in tables:
            n, m = len(pairs.here), len(pairs.place)
            conditions = [condition for listed, _ in alternatives for condition in listed]
            counts = np.cumsum([len(listed) for listed, _ in alternatives])
            place, low, high = (np.array([condition[i] for condition in conditions], np.int64) for i in range(3))
            nothing = np.full(len(alternatives), -1)
            pairs = Pairs(
                np.append(pairs.first, n + len(alternatives)), np.append(pairs.here, nothing),
                np.append(pairs.there, nothing), np.append(pairs.first_condition, m + counts),
                np.append(pairs.place, place + len(pairs.scope)), np.append(pairs.low, low),
                np.append(pairs.high, high), np.append(pairs.first_scope, len(pairs.scope) + len(scope)),
                np.append(pairs.scope, np.array(scope, np.int64)),
            )  # fmt: skip
            worth = np.array([value for _, value in alternatives], np.int64)
            gain = np.vstack([gain, np.repeat(worth[:, None], gain.shape[1], axis=1)])
        return pairs, gain

    def _order_table(self, small: int, large: int) -> tuple[list[int], list]:
        """Return the table that forbids the first variable to be larger than the second, and either to be missing."""
        cells = self._cells
        at, to = int(cells.first[small]), int(cells.first[large])
        size = int(cells.first[small + 1]) - at
        n = size - (cells.value[at + size - 1] == math.inf)
        alternatives: list[tuple[list[tuple[int, int, int]], int]] = []
        for c in range(size):
            if c < n:
                alternatives.append(([(0, at + c, at + c), (1, to + c, to + n - 1)], 0))
            if c >= n:
                alternatives.append(([(0, at + c, at + c)], -int(FORBIDDEN)))
                continue
            if c > 0:
                alternatives.append(([(0, at + c, at + c), (1, to, to + c - 1)], -int(FORBIDDEN)))
            if n < size:
                alternatives.append(([(0, at + c, at + c), (1, to + n, to + size - 1)], -int(FORBIDDEN)))
        return [small, large], alternatives

    def rows(self, choice: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the two inputs in chosen cells."""
        cells, n = self._cells, len(self._twin)
        first = choice[:n]
        second = np.where(self._twin >= 0, choice[self._twin], first)
        moves, start = self.space._verifier.moves, self.space.start
        here, there = (moves.row(start, cells.name[:n], cells.value[place]) for place in (first, second))
        return here, there

    def surpluses(self, choice: NDArray[np.int64]) -> list[int]:
        """Return what the outputs in chosen cells have beyond each need, exactly, in whole units of scores."""
        sums = [self._sums(row) for row in self.rows(choice)]
        found = []
        for r, need in zip(self._requirements, self._need, strict=True):
            total = sum(int(a) * s for a, s in zip(r.here, sums[0], strict=True))
            found.append(total + sum(int(b) * s for b, s in zip(r.there, sums[1], strict=True)) - need)
        return found

    def sum_at(self, target: int) -> Fraction:
        """Return the sum of outputs that a target for the only requirement stands for."""
        return target * self.unit + self._need[0] * self._score_unit

    def sum_in(self, choice: NDArray[np.int64]) -> Fraction:
        """Return the exact sum of outputs in chosen cells, for the only requirement."""
        return (self.surpluses(choice)[0] + self._need[0]) * self._score_unit

    def _sums(self, row: NDArray[np.float64]) -> list[int]:
        verifier = self.space._verifier
        trees, leaf = verifier.ensemble.trees, verifier.ensemble.leaf
        places = [leaf[find_leaf(trees, tree, row)] for tree in range(verifier.ensemble.n_trees)]
        return [int(v) for v in self._whole[[*places, -1]].astype(object).sum(axis=0)]

    def exact(self, choice: NDArray[np.int64]) -> int | None:
        """Return how much more than their need the outputs that grow have; see `requirements.find_cells`."""
        if not self._is_allowed(choice):
            return None
        grown = []
        for r, surplus in zip(self._requirements, self.surpluses(choice), strict=True):
            if r.grows:
                grown.append(_floored(surplus, self._shift))
            elif surplus < 0:
                return None
        return min(grown, default=0)

    def _is_allowed(self, choice: NDArray[np.int64]) -> bool:
        cells = self._cells
        for v, allowed in self.space._holes.items():
            twins = [v, int(self._twin[v])] if self._twin[v] >= 0 else [v]
            if not all(allowed[choice[w] - cells.first[w]] for w in twins):
                return False
        if self._order is None:
            return True
        small, large = self._order
        a, b = cells.value[choice[small]], cells.value[choice[large]]
        return bool(a <= b < math.inf)


def _with_twins(cells: Cells, variables: Sequence[int]) -> tuple[Cells, NDArray[np.int64]]:
    """Return the cells with those of some variables once more at their end, and the twin of each variable, or -1."""
    n, twin = len(cells.name), np.full(len(cells.name), -1)
    twin[list(variables)] = np.arange(n, n + len(variables))
    spans = [slice(cells.first[v], cells.first[v + 1]) for v in variables]
    sizes = [span.stop - span.start for span in spans]
    starts = cells.first[-1] + np.cumsum([0, *sizes])
    again = [np.concatenate([part, *(part[span] for span in spans)]) for part in cells[3:]]
    own = [cells.home[v] - cells.first[v] + start for v, start in zip(variables, starts[:-1].tolist(), strict=True)]
    return Cells(
        np.append(cells.name, cells.name[list(variables)]), np.append(cells.first, starts[1:]),
        np.append(cells.home, np.array(own, np.int64)), *again,
    ), twin  # fmt: skip


def _extended(ends: NDArray[np.int64], twin: NDArray[np.int64], cells: Cells) -> NDArray[np.int64]:
    """Return first or last cells with those of twins."""
    variables = np.flatnonzero(twin >= 0)
    variables = variables[np.argsort(twin[variables])]
    return np.append(ends, ends[variables] - cells.first[variables] + cells.first[twin[variables]])


def _gains(worth: NDArray, ends: NDArray, shift: int) -> NDArray[np.int64]:
    """Return what leaves are worth in whole numbers, rounded up, by their values."""
    values, number = np.unique(ends, return_inverse=True)
    return np.array([_shifted(int(v), shift) for v in worth[values]], np.int64)[number]


def _least_whole(need: Fraction, is_strict: bool) -> int:
    """Return the least whole number that is at least a need, or more than it."""
    return math.floor(need) + 1 if is_strict else math.ceil(need)


def _shifted(value: int, shift: int) -> int:
    """Return ``value * 2**shift``, rounded up."""
    return value << shift if shift >= 0 else -(-value >> -shift)


def _floored(value: int, shift: int) -> int:
    return value << shift if shift >= 0 else value >> -shift

"""Questions about inputs of a domain, one or two that differ in some columns: what weighted sums of outputs must be."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from certiforest.attack.parameters import Column
from certiforest.ensemble.tree_kernels import find_leaf
from certiforest.problem.leaves_kernels import Alternatives
from certiforest.problem.pairs_kernels import Order, Pairs, leaves_of, pair_leaves
from certiforest.problem.problem import FORBIDDEN, Cells, JointProblem
from certiforest.proof.clock import Clock
from certiforest.proof.requirements import Found, Proof, find
from certiforest.statements.proofs import case_of
from certiforest.statements.space import Rule, Space, with_ends_of_twins, with_twins

Rows = tuple[NDArray[np.float64], NDArray[np.float64]]
# What leaves gain for one requirement has about this many bits, all trees together; the most is found to within
# `RESOLUTION`.
GAIN_BITS, RESOLUTION = 38, 1 << 13


class Requirement(NamedTuple):
    """What a weighted sum of the outputs of two inputs must at least be.

    Attributes
    ----------
    weights : ndarray of int, shape (2, n_outputs)
        For the first and for the second input, which may be the same.
    need : Fraction, or None
        None: what is the same for all inputs; for what is to be as large as possible.
    is_strict : bool, default=False
        Whether the sum must be more than that.
    grows : bool, default=True
        Whether it is to be as large as possible.
    """

    weights: NDArray[np.object_]
    need: Fraction | None
    is_strict: bool = False
    grows: bool = True


class InputQuestion:
    """A question about two inputs of a space that differ in some columns only, or about one input.

    Parameters
    ----------
    space : Space
    requirements : sequence of Requirement
    columns : sequence of columns, optional
        Those in which the inputs may differ; they are one and the same if there are none.
    ordered : column and {"up", "down"}, optional
        A column, one of those, in which the second input is larger, or smaller, if they are not equal.

    Attributes
    ----------
    unit : Fraction
        What a target of one is, in outputs.
    """

    def __init__(
        self,
        space: Space,
        requirements: Sequence[Requirement],
        columns: Sequence[Column] = (),
        ordered: tuple[Column, str] | None = None,
    ) -> None:
        n_rows = 2 if columns else 1
        self._space, self._requirements = space, _and_plausible(requirements, space, n_rows)
        self._n_rows, self._n_variables = n_rows, len(space.problem.cells.name)
        self._cells, self._twin = with_twins(space.problem.cells, space.variables_of(columns))
        self._names = space.names_of(columns)
        self._rules = self._make_rules(ordered)
        self._find_gains()
        self._problem = self._joint_problem()

    def _make_rules(self, ordered: tuple[Column, str] | None) -> list[Rule]:
        cells, twin = self._cells, self._twin
        holes = [Rule((w,), is_allowed) for (v,), is_allowed in self._space.holes for w in (v, int(twin[v])) if w >= 0]
        v = None if ordered is None else self._space.variable_of_numbers(ordered[0])
        self._order = Order(-1, True, 0)
        if ordered is None or v is None:
            return holes
        is_there, is_up = cells.value[cells.first[v] : cells.first[v + 1]] < math.inf, ordered[1] == "up"
        self._order = Order(v, is_up, int(cells.first[v] + np.flatnonzero(is_there)[-1]))
        place = np.arange(len(is_there))
        is_ordered = place[:, None] <= place
        is_ordered[~is_there] = is_ordered[:, ~is_there] = False
        return [*holes, Rule((v, int(twin[v])) if is_up else (int(twin[v]), v), is_ordered)]

    def _find_gains(self) -> None:
        """Find what each row of the scores of leaves gains for requirements, and what these need, in whole units."""
        verifier, problem = self._space.verifier, self._space.problem
        whole, self._score_unit = verifier.gains.whole, verifier.gains.unit
        # A single output stands in the second of two columns; the last row is the base.
        self._scores = whole[:, 1:] if verifier.ensemble.summands()[0].shape[1] == 1 else whole
        self._gains = [self._scores @ np.stack([r.weights[k] for r in self._requirements], axis=1) for k in (0, 1)]
        both = self._gains[0] + self._gains[1]
        fixed = both[-1] + both[verifier.ensemble.leaf[problem.fixed]].sum(axis=0)  # what is the same for all inputs
        self._needs = [
            int(same) if r.need is None else _least_whole(r.need / self._score_unit, r.is_strict)
            for r, same in zip(self._requirements, fixed, strict=True)
        ]
        self._needs_of_tables = [need - int(same) for need, same in zip(self._needs, fixed, strict=True)]

    def _merged_gains(self) -> tuple[list[NDArray[np.object_]], NDArray[np.int64], NDArray[np.bool_]]:
        """Return gains by row, the row of each leaf, and which trees are there: of those that split alike, the first.

        Its leaves gain what all these do, which is nothing where models are the same.
        """
        leaves, gains = self._space.problem.leaves, self._gains
        row_of = self._space.verifier.ensemble.leaf[leaves.node].astype(np.int64)
        is_doubled = np.logical_or.reduceat(self._twin[leaves.scope] >= 0, leaves.first_scope[:-1])
        kept = is_doubled | bool((gains[0] + gains[1])[:-1].any())
        for trees in self._space.alike:
            if len(trees) > 1:
                members = [row_of[leaves.first[t] : leaves.first[t + 1]] for t in trees]
                sums = [sum(gain[rows] for rows in members) for gain in gains]
                members[0][:] = len(gains[0]) + np.arange(len(members[0]))
                gains = [np.vstack([gain, total]) for gain, total in zip(gains, sums, strict=True)]
                kept[trees[1:]] = False
        return gains, row_of, kept

    def _joint_problem(self) -> JointProblem:
        space, cells, twin = self._space, self._cells, self._twin
        problem, (here, there), row_of, kept = space.problem, *self._merged_gains()
        both = here + there
        pairs = pair_leaves(cells, problem.leaves, twin, kept, self._order)
        score_rows = row_of[pairs.here], row_of[pairs.there]
        alike = score_rows[0] == score_rows[1]  # where two roundings would add up to more than one
        sizes = [
            _largest_total(pairs.allowed.first, (here[:, i], there[:, i]), score_rows) for i in range(len(self._needs))
        ]
        grown = max((size for size, r in zip(sizes, self._requirements, strict=True) if r.grows), default=1)
        self._shift = GAIN_BITS - grown.bit_length()
        self.unit = self._score_unit / Fraction(2) ** self._shift
        gain, need = np.zeros((len(pairs.here), len(sizes)), np.int64), np.empty(len(sizes), np.int64)
        self._shifts = [
            self._shift if r.grows else GAIN_BITS - size.bit_length()
            for r, size in zip(self._requirements, sizes, strict=True)
        ]
        for i, shift in enumerate(self._shifts):
            apart = _rounded_up(here[:, i], score_rows[0], shift) + _rounded_up(there[:, i], score_rows[1], shift)
            gain[:, i] = np.where(alike, _rounded_up(both[:, i], score_rows[0], shift), apart)
            # Beyond these no leaves meet it, or all that are allowed do.
            need[i] = max(min(_shifted(self._needs_of_tables[i], shift), 1 << 39), -(1 << 39))
        # What a certificate calls tables: trees by number, then the order; it has no tables for what is not allowed.
        trees = np.searchsorted(problem.leaves.first, pairs.here[pairs.allowed.first[:-1]], "right") - 1
        self._tables = problem.leaves.name[trees]
        for rule in self._rules:
            pairs, gain = _with_rule(cells, pairs, gain, rule)
            number = space.verifier.ensemble.n_trees if len(rule.variables) == 2 else -1
            self._tables = np.append(self._tables, number)
        low, high = (with_ends_of_twins(ends, twin, cells.first) for ends in (space.low, space.high))
        grows = np.array([r.grows for r in self._requirements], np.int64)
        return JointProblem(cells, leaves_of(cells, pairs), gain, need, grows, low, high)

    def find(self, clock: Clock, is_counted: Callable[[Rows], bool], proof: Proof | None = None) -> Found:
        """Look for inputs that meet the requirements and are counted; see `requirements.find`."""

        def exact(choice: NDArray[np.int64]) -> int | None:
            value = self._exact(choice)
            return value if value is None or value < 0 or is_counted(self.rows(choice)) else None

        return find(self._problem, exact, clock, proof=proof)

    def find_most(self, clock: Clock, proof: Proof | None = None) -> Found:
        """Look for the inputs for which sums that grow are largest; see `requirements.find`."""
        found = find(self._problem, self._exact, clock, resolution=RESOLUTION, proof=proof)
        if found.choice is None or self._shift >= 0:
            return found
        return found._replace(bound=found.bound + 1)  # what cells give was rounded down

    def case(self, proof: Proof) -> dict[str, Any] | None:
        """Return what a certificate says of a proof; None if something is left open."""
        n, space = self._n_variables, self._space
        numbers, doubled = self._cells.name.tolist(), np.flatnonzero(self._twin[:n] >= 0).tolist()
        original = [*range(n), *doubled]
        numbers[n:] = [space.n_names + self._names.index(name) for name in numbers[n:]]
        found = case_of(proof, self._problem, numbers, self._tables, lambda v: space.contents(original[v]))
        unit = self._score_unit.denominator.bit_length() - self._score_unit.numerator.bit_length()
        return None if found is None else {"bits": [shift + unit for shift in self._shifts], **found}

    def rows(self, choice: NDArray[np.int64]) -> Rows:
        """Return the two inputs in chosen cells."""
        n, problem = self._n_variables, self._space.problem
        name, twin = self._cells.name[:n], self._twin[:n]
        first = choice[:n]
        cells = first, np.where(twin >= 0, choice[twin], first)
        here, there = (problem.moves.row(problem.x, name, self._cells.value[places]) for places in cells)
        return here, there

    def frame(self, rows: Rows) -> Any:
        """Return inputs as the domain's data had them: two, or the one."""
        return self._space.frame(rows[: self._n_rows])

    def sum_at(self, target: int) -> Fraction:
        """Return the sum of outputs that a target for the first requirement stands for."""
        return target * self.unit + self._needs[0] * self._score_unit

    def sum_in(self, choice: NDArray[np.int64]) -> Fraction:
        """Return the exact sum of outputs in chosen cells, for the first requirement."""
        return self._sums(choice)[0] * self._score_unit

    def _sums(self, choice: NDArray[np.int64]) -> list[int]:
        """Return the exact sums for all requirements, in whole units of scores."""
        outputs = np.stack([self._outputs(row) for row in self.rows(choice)])
        return [int((r.weights * outputs).sum()) for r in self._requirements]

    def _outputs(self, row: NDArray[np.float64]) -> NDArray[np.object_]:
        ensemble = self._space.verifier.ensemble
        score_rows = [ensemble.leaf[find_leaf(ensemble.trees, tree, row)] for tree in range(ensemble.n_trees)]
        return self._scores[[*score_rows, -1]].sum(axis=0)

    def _exact(self, choice: NDArray[np.int64]) -> int | None:
        """Return how much more than their need the sums that grow are; see `requirements.find`."""
        places = choice - self._cells.first[:-1]
        if not all(rule.is_allowed[tuple(places[list(rule.variables)])] for rule in self._rules):
            return None
        more = [total - need for total, need in zip(self._sums(choice), self._needs, strict=True)]
        if any(m < 0 and not r.grows for m, r in zip(more, self._requirements, strict=True)):
            return None
        return min(
            (-_shifted(-m, self._shift) for m, r in zip(more, self._requirements, strict=True) if r.grows), default=0
        )


def _and_plausible(requirements: Sequence[Requirement], space: Space, n_rows: int) -> list[Requirement]:
    """Return requirements, and that each input is plausible, of which the last output tells."""
    if space.domain.plausible is None:
        return list(requirements)
    nothing = np.zeros((2, 1), object)
    wider = [r._replace(weights=np.hstack([r.weights, nothing])) for r in requirements]
    last = np.zeros((n_rows, *wider[0].weights.shape), object)
    last[range(n_rows), range(n_rows), -1] = 1
    return [*wider, *(Requirement(weights, Fraction(0), grows=False) for weights in last)]


def _with_rule(cells: Cells, pairs: Pairs, gain: NDArray[np.int64], rule: Rule) -> tuple[Pairs, NDArray[np.int64]]:
    """Add a table for a rule, in which what is not allowed loses more than leaves gain, and nothing gains."""
    alternatives = list(_alternatives(cells, rule))
    conditions = np.array([condition for listed, _ in alternatives for condition in listed], np.int64)
    old = pairs.allowed
    ends = len(old.place) + np.cumsum([len(listed) for listed, _ in alternatives])
    nothing, scope = np.full(len(alternatives), -1), np.array(rule.variables, np.int64)
    gains = np.array([0 if is_allowed else -int(FORBIDDEN) for _, is_allowed in alternatives], np.int64)
    allowed = Alternatives(
        np.append(old.first, len(gain) + len(alternatives)), np.append(old.first_condition, ends),
        np.append(old.place, conditions[:, 0] + len(old.scope)), np.append(old.low, conditions[:, 1]),
        np.append(old.high, conditions[:, 2]), np.append(old.first_scope, len(old.scope) + len(scope)),
        np.append(old.scope, scope),
    )  # fmt: skip
    pairs = Pairs(np.append(pairs.here, nothing), np.append(pairs.there, nothing), allowed)
    return pairs, np.vstack([gain, np.repeat(gains[:, None], gain.shape[1], axis=1)])


def _alternatives(cells: Cells, rule: Rule) -> Iterator[tuple[list[tuple[int, int, int]], bool]]:
    """Yield which cells are allowed together and which are not: conditions (place in the scope, first, last cell)."""
    *outer, inner = (int(cells.first[v]) for v in rule.variables)
    for c, is_allowed in enumerate(np.atleast_2d(rule.is_allowed)):
        starts = np.flatnonzero(np.append(True, is_allowed[1:] != is_allowed[:-1]))
        for start, end in zip(starts.tolist(), [*starts[1:].tolist(), len(is_allowed)], strict=True):
            fixed = [(0, first + c, first + c) for first in outer]
            yield [*fixed, (len(outer), inner + start, inner + end - 1)], bool(is_allowed[start])


def _largest_total(first: NDArray[np.int64], gain: tuple[NDArray, NDArray], score_rows: tuple[NDArray, NDArray]) -> int:
    """Return the most that alternatives of all tables together can gain, in size; `_rounded_up` has the parameters."""
    if not len(score_rows[0]):
        return 1
    sizes = np.abs(gain)
    drop = max(int(sizes.max()).bit_length() - 900, 0)  # for floats
    one, other = ((sizes >> drop) + (drop > 0)).astype(float)
    total = np.maximum.reduceat(one[score_rows[0]] + other[score_rows[1]], first[:-1]).sum()
    return (int(total * (1 + 1e-9)) + 1) << drop


def _rounded_up(gain: NDArray, score_rows: NDArray[np.int64], shift: int) -> NDArray[np.int64]:
    """Return ``gain[score_rows] * 2**shift``, rounded up; ``gain`` holds Python's integers, of any size."""
    used, number = np.unique(score_rows, return_inverse=True)
    return np.array([_shifted(int(v), shift) for v in gain[used]], np.int64)[number]


def _least_whole(need: Fraction, is_strict: bool) -> int:
    """Return the least whole number that is at least a need, or more than it."""
    return math.floor(need) + 1 if is_strict else math.ceil(need)


def _shifted(value: int, shift: int) -> int:
    """Return ``value * 2**shift``, rounded up."""
    return value << shift if shift >= 0 else -(-value >> -shift)

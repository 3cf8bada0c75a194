"""Checker: one model in one domain, asked about statements one after the other.

A statement fails if some input, or two, meet requirements on sums of scores: each way in which it can fail is a
question for `requirements`. Where levels are stated (`Range`, `Insensitive`), what the library's own rounding can make
counts against the statement; where two sums are compared (`Monotone`, `Same`), it does not count.
"""

from __future__ import annotations

import heapq
import math
import time
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from certiforest.attack.columns import Column
from certiforest.certification import certify
from certiforest.proof.clock import Clock
from certiforest.proof.requirements import Found, find_cells, find_most
from certiforest.proof.requirements_kernels import ENOUGH
from certiforest.statements.domain import Domain
from certiforest.statements.joined import join
from certiforest.statements.kinds import Insensitive, Monotone, Range, Robust, Same, Statement, StatementError
from certiforest.statements.results import StatementResult
from certiforest.statements.scored import ScoredModel
from certiforest.statements.space import Asked, Requirement, Space
from certiforest.words import setting

Rows = tuple[NDArray[np.float64], NDArray[np.float64]]
# The most of a quantity is found to within this, where all leaves together can be worth 2**38.
RESOLUTION = 1 << 17
PROBABILITY_RESOLUTION = 1e-5


class Most(NamedTuple):
    """The most of a difference: what was reached, by which inputs, and what is proved."""

    reached: float
    proved: float
    pair: Any


class Case(NamedTuple):
    """One way in which a statement can fail: a question, and what the library has to say to two inputs.

    Where it is about one input, ``n_rows`` is 1, and both inputs are that one.
    """

    asked: Asked
    is_shown: Callable[[Rows], bool] | None
    n_rows: int


class Checker:
    """A model and a domain, asked about one statement after the other."""

    def __init__(self, scored: ScoredModel, domain: Domain, outputs: str, rows: tuple[Any, Any] | None) -> None:
        self._scored, self._domain, self._outputs, self._rows = scored, domain, outputs, rows
        self._space = Space(join([scored.ensemble]), domain)
        self._others: list[tuple[Any, ScoredModel]] = []

    def check(self, statement: Statement, clock: Clock) -> StatementResult:
        """Prove or refute one statement."""
        began = time.monotonic()
        if isinstance(statement, Robust):
            return self._check_rows(statement, clock.left)
        if isinstance(statement, Monotone | Same) and self._compares_probabilities(statement):
            return self._check_probabilities(statement, clock)
        proved, reached, is_open = -math.inf, -math.inf, False
        for case in self._cases(statement):
            found, is_unsure = _decide(case, clock)
            unit = float(case.asked.unit)
            if found.choice is not None:
                pair = case.asked.space.frame(case.asked.rows(found.choice)[: case.n_rows])
                bounds = math.inf, (found.reached or 0) * unit
                return StatementResult(statement, False, pair, bounds, time.monotonic() - began)
            is_open |= is_unsure or found.bound >= 0
            proved = max(proved, found.bound * unit if found.bound < ENOUGH else math.inf)
        holds = None if is_open else True
        return StatementResult(statement, holds, None, (proved, reached), time.monotonic() - began)

    def _compares_probabilities(self, statement: Monotone | Same) -> bool:
        """Tell whether differences of scores are no differences of sums."""
        if isinstance(statement, Monotone) and statement.tolerance > 0:
            return not self._scored.is_linear
        if isinstance(statement, Same) and statement.tolerance is not None:
            return not (self._scored.is_linear and self._other(statement.other).is_linear)
        return False

    def _check_probabilities(self, statement: Monotone | Same, clock: Clock) -> StatementResult:
        began, tolerance = time.monotonic(), statement.tolerance or 0.0
        asks: list[tuple[Any, Any, Any]]
        if isinstance(statement, Monotone):
            asks = [((statement.column,), (statement.column, statement.direction), None)]
        else:
            asks = [((), None, (statement.other, sign)) for sign in (1, -1)]
        proved = reached = -math.inf
        for ask in asks:
            most = self.difference(*ask, clock, stop=tolerance)
            if most.reached > tolerance:
                bounds = most.proved - tolerance, most.reached - tolerance
                return StatementResult(statement, False, most.pair, bounds, time.monotonic() - began)
            proved, reached = max(proved, most.proved), max(reached, most.reached)
        holds = True if proved <= tolerance else None
        bounds = proved - tolerance, reached - tolerance
        return StatementResult(statement, holds, None, bounds, time.monotonic() - began)

    def _check_rows(self, statement: Robust, time_limit: float) -> StatementResult:
        if self._rows is None or len(self._rows) != 2 or self._rows[1] is None:
            raise StatementError(f"Expected {setting('rows')} with labels for a statement about robustness, got none.")
        began = time.monotonic()
        if self._scored.is_regressor:
            raise StatementError("Expected a classifier for a statement about robustness, got a regressor.")
        (X, y), ensemble = self._rows, self._scored.ensemble
        attacker = statement.attacker.resolve(ensemble.n_features, self._space.names)
        certificates = certify(ensemble, X, y, attacker, total_time_limit=time_limit)
        low, high = certificates.robust_accuracy_bounds
        holds = True if low >= statement.at_least else False if high < statement.at_least else None
        bounds = statement.at_least - low, statement.at_least - high
        return StatementResult(statement, holds, None, bounds, time.monotonic() - began)

    def _cases(self, statement: Statement) -> Iterator[Case]:
        scored = self._scored
        if isinstance(statement, Range):
            scored.check_score()
            for sign, end in ((1, statement.high), (-1, statement.low)):
                if math.isfinite(end) and not self._is_empty(sign, end):
                    yield self._beyond(sign, end)
        elif isinstance(statement, Insensitive) and statement.low is not None and statement.high is not None:
            scored.check_score()
            yield self._apart(statement.columns, statement.low, statement.high)
        elif isinstance(statement, Insensitive):
            yield from self._flips(statement.columns)
        elif isinstance(statement, Monotone):
            scored.check_score()
            ordered = statement.column, statement.direction
            yield from self._differences((statement.column,), ordered, None, statement.tolerance)
        elif isinstance(statement, Same) and statement.tolerance is None:
            yield from self._decided_otherwise(statement.other)
        elif isinstance(statement, Same):
            scored.check_score()
            for sign in (1, -1):
                yield from self._differences((), None, (statement.other, sign), statement.tolerance or 0.0)

    def _beyond(self, sign: int, end: float) -> Case:
        """Ask for an input whose score is above an end, or, with the sign -1, below it."""
        scored = self._scored
        if not self._can_reach(end):
            raise StatementError(f"Expected the ends of a range between 0 and 1 where scores are shares, got {end}.")
        need = sign * scored.level(end) - scored.slack_at(end)
        nothing = [0] * scored.n_outputs
        asked = self._space.ask([Requirement(scored.weights(sign), nothing, need, is_strict=True, grows=True)])
        scores = scored.scores
        is_shown = None if scores is None else (lambda rows: bool(sign * (scores(rows[0][None])[0] - end) > 0))
        return Case(asked, is_shown, 1)

    def _is_empty(self, sign: int, end: float) -> bool:
        """Tell whether no probability is beyond an end."""
        return not (self._scored.is_linear or self._scored.is_regressor) and (end >= 1 if sign > 0 else end <= 0)

    def _can_reach(self, end: float) -> bool:
        return self._scored.is_linear or self._scored.is_regressor or 0 < end < 1

    def _apart(self, columns: Sequence[Column], low: float, high: float) -> Case:
        scored, nothing = self._scored, [0] * self._scored.n_outputs
        if not (self._can_reach(low) and self._can_reach(high)):
            raise StatementError(f"Expected low and high between 0 and 1, got {low} and {high}.")
        asked = self._space.ask(
            [
                Requirement(scored.weights(), nothing, scored.level(high) - scored.slack_at(high), grows=True),
                Requirement(nothing, scored.weights(-1), -scored.level(low) - scored.slack_at(low), grows=True),
            ],
            columns,
        )
        scores = scored.scores

        def is_shown(rows: Rows) -> bool:
            assert scores is not None
            one, other = scores(np.stack(rows))
            return bool(one >= high and other <= low)

        return Case(asked, None if scores is None else is_shown, 2)

    def _flips(self, columns: Sequence[Column]) -> Iterator[Case]:
        """Ask for two inputs that differ in columns, one of each pair of classes."""
        scored = self._scored
        if scored.is_regressor:
            raise StatementError("Expected low and high for a regressor, which has no decisions, got neither.")
        nothing = [0] * scored.n_outputs
        for a in range(1, scored.ensemble.n_classes):
            for b in range(a):
                asked = self._space.ask(
                    [*self._says(a, nothing, is_second=False), *self._says(b, nothing, is_second=True)], columns
                )
                classes = scored.ensemble.classes
                yield Case(asked, _are_predicted((scored, scored), (classes[a], classes[b])), 2)

    def _says(self, c: int, nothing: list[int], *, is_second: bool) -> list[Requirement]:
        """Return what it takes to predict a class for the first input, or for the second one."""
        margin = self._scored.tie
        return [
            Requirement(
                *((nothing, weights) if is_second else (weights, nothing)), -margin, strict and not margin, True
            )
            for weights, strict in self._scored.decides(c)
        ]

    def _other(self, model: Any) -> ScoredModel:
        """Return another model, or the path of one, translated once."""
        for known, scored in self._others:
            if known is model:
                return scored
        scored = ScoredModel(model, self._outputs)
        self._others.append((model, scored))
        return scored

    def _joined(self, other: Any) -> tuple[ScoredModel, Space]:
        second = self._other(other)
        if second.is_regressor != self._scored.is_regressor:
            raise StatementError("Expected two classifiers or two regressors, got one of each.")
        return second, Space(join([self._scored.ensemble, second.ensemble]), self._domain)

    def _decided_otherwise(self, other: Any) -> Iterator[Case]:
        """Ask for an input that two models decide differently."""
        scored = self._scored
        second, space = self._joined(other)
        if scored.is_regressor:
            raise StatementError("Expected a tolerance for regressors, which have no decisions, got none.")
        labels = scored.ensemble.classes.tolist(), second.ensemble.classes.tolist()
        nothing = [0] * (scored.n_outputs + second.n_outputs)
        for a, label in enumerate(labels[0]):
            for b, other_label in enumerate(labels[1]):
                if label == other_label:
                    continue
                asks = []
                for model, c, place in ((scored, a, 0), (second, b, scored.n_outputs)):
                    for weights, strict in model.decides(c):
                        row = list(nothing)
                        row[place : place + len(weights)] = weights
                        # What rounding alone may turn is not counted: a model is the same as its own copy.
                        asks.append(Requirement(row, nothing, model.tie, strict or model.tie > 0, True))
                yield Case(space.ask(asks), _are_predicted((scored, second), (label, other_label)), 1)

    def _two(
        self, columns: Sequence[Column], other: tuple[Any, int] | None
    ) -> tuple[ScoredModel, ScoredModel, Space, list[int], list[int], int]:
        """Return whose scores are compared: two models, where they are asked, and their weights for one sum each.

        The last says about how many inputs.
        """
        first = second = self._scored
        space, nothing = self._space, [0] * first.n_outputs
        if other is None:
            return first, second, space, first.weights(), first.weights(-1), 2
        second, space = self._joined(other[0])
        second.check_score()
        second.speak_for(first.label)
        nothing = [0] * second.n_outputs
        one, two = [*first.weights(), *nothing], [*[0] * first.n_outputs, *second.weights(-1)]
        if other[1] < 0:  # the other way round
            one, two = [-w for w in two], [-w for w in one]
            first, second = second, first
        return first, second, space, one, two, 1

    def _differences(
        self,
        columns: Sequence[Column],
        ordered: tuple[Column, str] | None,
        other: tuple[Any, int] | None,
        tolerance: float,
    ) -> Iterator[Case]:
        """Ask for a score that is above another one by more than a tolerance and what rounding can make."""
        first, second, space, one, two, n_rows = self._two(columns, other)
        scores = first.scores, second.scores

        def is_shown(rows: Rows) -> bool:
            here, there = scores
            assert here is not None
            assert there is not None
            return bool(here(rows[0][None])[0] - there(rows[1][None])[0] > tolerance)

        shows = None if None in scores else is_shown
        if first.is_linear and second.is_linear:
            need, slack, sizes = _scaled_difference(first, second, tolerance)
            left, right = [sizes[0] * w for w in one], [sizes[1] * w for w in two]
            requirement = Requirement(left, right, need + slack, is_strict=True, grows=True)
            yield Case(space.ask([requirement], columns, ordered), shows, n_rows)
            return
        # Probabilities of one model are compared without a tolerance: its sums will do.
        requirement = Requirement(one, two, 2 * Fraction(first.margin), is_strict=True, grows=True)
        yield Case(space.ask([requirement], columns, ordered), None, 2)

    def extreme(self, sign: int, clock: Clock) -> tuple[float, float, Any]:
        """Return the highest score that was reached, what is proved, and the input; the lowest for the sign -1."""
        scored, nothing = self._scored, [0] * self._scored.n_outputs
        asked = self._space.ask([Requirement(scored.weights(sign), nothing, None, grows=True)])
        found = find_most(asked.question, asked.exact, clock, RESOLUTION)
        assert found.choice is not None  # any input will do
        rows = asked.rows(found.choice)[:1]
        return scored.score_of(rows[0]), scored.bound_at(asked.sum_at(found.bound), sign), self._space.frame(rows)

    def difference(
        self,
        columns: Sequence[Column],
        ordered: tuple[Column, str] | None,
        other: tuple[Any, int] | None,
        clock: Clock,
        stop: float = math.inf,
    ) -> Most:
        """Return the most that a score is above another one; what is above ``stop`` will do."""
        first, second, space, one, two, n_rows = self._two(columns, other)
        if not (first.is_linear and second.is_linear):
            return self._difference_of_probabilities(columns, ordered, other, clock, stop)
        _, slack, sizes = _scaled_difference(first, second, 0.0)
        left, right = [sizes[0] * w for w in one], [sizes[1] * w for w in two]
        offset = sizes[0] * first.level(0.0) - sizes[1] * second.level(0.0)
        asked = space.ask([Requirement(left, right, None, grows=True)], columns, ordered)
        found = find_most(asked.question, asked.exact, clock, RESOLUTION)
        if found.choice is None:  # no two inputs differ so
            return Most(-math.inf, -math.inf, None)
        size = sizes[0] * (first.level(1.0) - first.level(0.0))
        reached, proved = asked.sum_in(found.choice), asked.sum_at(found.bound) + slack
        rows = asked.rows(found.choice)[:n_rows]
        most = math.nextafter(float((proved - offset) / size), math.inf)
        return Most(float((reached - offset) / size), most, space.frame(rows))

    def _difference_of_probabilities(
        self,
        columns: Sequence[Column],
        ordered: tuple[Column, str] | None,
        other: tuple[Any, int] | None,
        clock: Clock,
        stop: float,
    ) -> Most:
        """Return the most that a probability is above another one, which is looked for in parts.

        Where the lower one is between two values, the difference is at most the highest that the other one can be, less
        the first of them. The part with the largest such bound is cut in two.
        """
        first, second, space, one, two, n_rows = self._two(columns, other)
        nothing = [0] * len(one)
        best = Most(-math.inf, math.inf, None)

        def bound_of(low: float, high: float) -> float:
            """Bound the difference where the lower probability is between two values; note what was reached."""
            nonlocal best
            highest = Requirement(one, nothing, None, grows=True)
            asks = [highest]
            if high < 1:
                asks.append(Requirement(nothing, two, -second.level(high) - second.slack_at(high)))
            asked = space.ask(asks, columns, ordered)
            found = find_most(asked.question, asked.exact, clock, RESOLUTION)
            if found.choice is None:
                return -math.inf if found.bound < 0 else 1.0
            rows = asked.rows(found.choice)[:n_rows]
            reached = first.score_of(rows[0]) - second.score_of(rows[-1])  # as the libraries have it, if at hand
            if reached > best.reached:
                best = Most(reached, best.proved, rows)
            return math.nextafter(first.bound_at(asked.sum_at(found.bound), 1) - low, math.inf)

        parts = [(-bound_of(low, low + 0.25), low, low + 0.25) for low in (0.0, 0.25, 0.5, 0.75)]
        heapq.heapify(parts)
        while -parts[0][0] > max(best.reached + PROBABILITY_RESOLUTION, 0.0) and not clock.is_up:
            if best.reached > stop or -parts[0][0] <= stop < math.inf:
                break
            _, low, high = heapq.heappop(parts)
            middle = 0.5 * (low + high)
            for ends in ((low, middle), (middle, high)):
                heapq.heappush(parts, (-bound_of(*ends), *ends))
        pair = None if best.pair is None else space.frame(best.pair)
        return Most(best.reached, max(-parts[0][0], best.reached), pair)


def _are_predicted(models: tuple[ScoredModel, ScoredModel], labels: tuple[Any, Any]) -> Callable[[Rows], bool] | None:
    """Return what tells whether two inputs are predicted so, each by its model; None if a model is not at hand."""
    one, other = (model.predict for model in models)
    if one is None or other is None:
        return None
    return lambda rows: (one(rows[0][None]).ravel()[0], other(rows[1][None]).ravel()[0]) == labels


def _scaled_difference(
    first: ScoredModel, second: ScoredModel, tolerance: float
) -> tuple[Fraction, Fraction, tuple[int, int]]:
    """Return what a scaled difference of sums must be above for scores to differ by a tolerance, and its slack.

    The sums are to be multiplied by two whole numbers, which are returned last.
    """
    sizes = [model.level(1.0) - model.level(0.0) for model in (first, second)]
    common = sizes[0] * sizes[1]
    scale = [common / size for size in sizes]
    whole = math.lcm(scale[0].denominator, scale[1].denominator)
    shared = math.gcd(int(scale[0] * whole), int(scale[1] * whole))
    times = int(scale[0] * whole) // shared, int(scale[1] * whole) // shared
    need = Fraction(tolerance) * times[0] * sizes[0]
    need += times[0] * first.level(0.0) - times[1] * second.level(0.0)
    slack = sum((k * Fraction(model.margin) for k, model in zip(times, (first, second), strict=True)), Fraction(0))
    return need, slack, times


def _decide(case: Case, clock: Clock) -> tuple[Found, bool]:
    """Look for inputs that show a case; also tell whether some were found that the library may or may not confirm."""
    is_unsure = False

    def exact(choice: NDArray[np.int64]) -> int | None:
        nonlocal is_unsure
        value = case.asked.exact(choice)
        if value is None or value < 0 or case.is_shown is None or case.is_shown(case.asked.rows(choice)):
            return value
        is_unsure = True
        return None

    return find_cells(case.asked.question, exact, clock), is_unsure

"""Scores that are compared, of one model for two inputs or of two models for one, and what is asked about them.

Where levels are stated (`Range`, `Insensitive`), what the library's own rounding can make counts against a statement;
where two sums are compared (`Monotone`, `Same`), it does not.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from certiforest.attack.parameters import Column
from certiforest.formats.opened import Function
from certiforest.formats.scored import ScoredModel
from certiforest.problem.problem import ENOUGH
from certiforest.proof.clock import Clock
from certiforest.proof.requirements import Proof
from certiforest.statements.domain import DomainError
from certiforest.statements.kinds import StatementError
from certiforest.statements.question import InputQuestion, Requirement, Rows
from certiforest.statements.space import Space

PROBABILITY_RESOLUTION = 1e-5
Test = Callable[[Any, Any], bool] | None


class Answer(NamedTuple):
    """What is known of one way in which a statement can fail; ``bounds`` and ``pair`` as in `StatementResult`.

    ``shown`` is what shows it, if a certificate is wanted: as in `Most`, or the inputs that fail as the model has them.
    """

    holds: bool | None
    bounds: tuple[float, float]
    pair: Any = None
    shown: Any = None


class Most(NamedTuple):
    """The most of a difference: what was reached, what is proved, and by which inputs.

    ``shown`` is what a certificate says of what is proved, in parts of the second score: where they end, and a case for
    each; ``rows`` are the inputs as the model has them.
    """

    reached: float
    proved: float
    pair: Any = None
    rows: Rows | None = None
    shown: list[tuple[float, float, Any]] | None = None


class Side(NamedTuple):
    """One of two scores: of which model, for the first input (0) or the second (1), after how many other outputs."""

    model: ScoredModel
    place: int
    before: int
    n_outputs: int

    def weigh(self, weights: Sequence[int]) -> NDArray[np.object_]:
        """Return weights of the model's outputs among those of all outputs of both inputs."""
        table = np.zeros((2, self.n_outputs), object)
        table[self.place, self.before : self.before + len(weights)] = weights
        return table

    def total(self, sign: int = 1) -> NDArray[np.object_]:
        """Return the weights that make the sum, times a sign."""
        return self.weigh(self.model.weights(sign))

    def beyond(self, score: float, sign: int, *, is_strict: bool = False, grows: bool = True) -> Requirement:
        """Ask for a score as high as this one, or, with the sign -1, as low."""
        if self.model.is_probability and not 0 < score < 1:
            raise StatementError(f"Expected levels between 0 and 1, as probabilities are, got {score}.")
        need = sign * self.model.level(score) - self.model.slack_at(score)
        return Requirement(self.total(sign), need, is_strict, grows)

    def says(self, c: int, slack: Fraction) -> list[Requirement]:
        """Ask for sums of a class that lead by a slack, or are no more than one behind where it is negative."""
        return [
            Requirement(self.weigh(weights), slack, slack > 0 or (is_strict and slack == 0))
            for weights, is_strict in self.model.decides(c)
        ]


class Compared(NamedTuple):
    """Two scores, and the inputs they are about; ``columns`` and ``ordered`` as in `InputQuestion`."""

    first: Side
    second: Side
    space: Space
    columns: Sequence[Column] = ()
    ordered: tuple[Column, str] | None = None
    is_proof_wanted: bool = False

    @property
    def swapped(self) -> Compared:
        """The other one first; for one input."""
        return self._replace(first=self.second._replace(place=0), second=self.first._replace(place=1))

    @property
    def models(self) -> tuple[ScoredModel, ScoredModel]:
        """Whose scores they are."""
        return self.first.model, self.second.model

    @property
    def is_linear(self) -> bool:
        """Whether differences of scores are differences of sums."""
        return all(model.is_linear for model in self.models)

    def ask(self, *requirements: Requirement) -> InputQuestion:
        """Return a question about the inputs."""
        return InputQuestion(self.space, requirements, self.columns, self.ordered)

    def refuted_by(self, requirements: Sequence[Requirement], asked: str, test: Test, clock: Clock) -> Answer:
        """Answer that a statement holds where no inputs meet requirements.

        Where they do, and the library has both models at hand, what it says of them (``asked``: predict or scores)
        must pass a test, if there is one; otherwise the answer is open.
        """
        one, other = (getattr(model, asked, None) for model in self.models)
        is_unsure = False

        def is_counted(rows: Rows) -> bool:
            nonlocal is_unsure
            if test is None or one is None or other is None or test(_says(one, rows[0]), _says(other, rows[1])):
                return True
            is_unsure = True
            return False

        question, proof = self.ask(*requirements), Proof() if self.is_proof_wanted else None
        found, unit = question.find(clock, is_counted, proof), float(question.unit)
        if found.choice is not None:
            rows = question.rows(found.choice)
            return Answer(False, (math.inf, (found.reached or 0) * unit), question.frame(rows), rows)
        proved = found.bound * unit if found.bound < ENOUGH else math.inf
        if is_unsure or found.bound >= 0:
            return Answer(None, (proved, -math.inf))
        return Answer(True, (proved, -math.inf), None, [(0.0, 1.0, question.case(proof))] if proof else None)

    def stays_within(self, end: float, sign: int, clock: Clock) -> Answer:
        """Answer whether no score is above an end, or, with the sign -1, below it."""
        asked = self.first.beyond(end, sign, is_strict=True)
        return self.refuted_by([asked], "scores", lambda score, _: sign * (score - end) > 0, clock)

    def never_apart(self, low: float, high: float, clock: Clock) -> Answer:
        """Answer whether no first score is at ``high`` or above while the second is at ``low`` or below."""
        asked = [self.first.beyond(high, 1), self.second.beyond(low, -1)]
        return self.refuted_by(asked, "scores", lambda one, other: one >= high and other <= low, clock)

    def decide_alike(self, clock: Clock) -> Iterator[Answer]:
        """Answer, for one pair of different classes after the other, whether the two are never decided so."""
        here, there = self.models
        is_one_model = here is there
        for a, label in enumerate(here.ensemble.classes.tolist()):
            for b, other_label in enumerate(there.ensemble.classes.tolist()):
                if label == other_label or (is_one_model and a < b):  # of two inputs, either comes first
                    continue
                # What rounding alone may turn counts for one model; but a model is the same as its own copy.
                sign = -1 if is_one_model else 1
                asked = [*self.first.says(a, sign * here.tie), *self.second.says(b, sign * there.tie)]
                yield self.refuted_by(asked, "predict", partial(_are, (label, other_label)), clock)

    def never_exceeds(self, tolerance: float, clock: Clock) -> Answer:
        """Answer whether no first score is above the second by more than a tolerance and what rounding can make."""
        total = self.first.total() + self.second.total(-1)
        if self.is_linear:
            steps = self._steps()
            asked = Requirement(
                steps.total, Fraction(tolerance) * steps.size + steps.offset + steps.slack, is_strict=True
            )
            return self.refuted_by([asked], "scores", lambda one, other: one - other > tolerance, clock)
        if tolerance == 0 and self.first.model is self.second.model:  # sums of one model will do
            asked = Requirement(total, 2 * Fraction(self.first.model.margin), is_strict=True)
            return self.refuted_by([asked], "", None, clock)
        most = self.most(clock, stop=tolerance)
        bounds = most.proved - tolerance, most.reached - tolerance
        if most.reached > tolerance:
            return Answer(False, bounds, most.pair, most.rows)
        return Answer(True if most.proved <= tolerance else None, bounds, None, most.shown)

    def extreme(self, sign: int, clock: Clock) -> Most:
        """Return the highest first score; the lowest for the sign -1."""
        model, question = self.first.model, self.ask(Requirement(self.first.total(sign), None))
        proof = Proof() if self.is_proof_wanted else None
        found = question.find_most(clock, proof)
        shown = [(0.0, 1.0, question.case(proof))] if proof else None
        if found.is_none:
            raise DomainError("Expected plausible inputs in the domain, got none; take in a larger share of the rows.")
        proved = model.bound_at(question.sum_at(found.bound), sign)
        if found.choice is None:  # none was found in time
            return Most(-sign * math.inf, proved, shown=shown)
        rows = question.rows(found.choice)
        return Most(model.score_of(rows[0]), proved, question.frame(rows), rows, shown)

    def most(self, clock: Clock, stop: float = math.inf) -> Most:
        """Return the most that the first score is above the second one; what is above ``stop`` will do."""
        if not self.is_linear:
            return self._most_in_parts(clock, stop)
        steps = self._steps()
        question, proof = self.ask(Requirement(steps.total, None)), Proof() if self.is_proof_wanted else None
        found = question.find_most(clock, proof)
        if found.is_none:  # no two inputs differ so
            return Most(-math.inf, -math.inf)
        shown = [(0.0, 1.0, question.case(proof))] if proof else None
        proved = question.sum_at(found.bound) + steps.slack
        most = math.nextafter(float((proved - steps.offset) / steps.size), math.inf)
        if found.choice is None:  # none were found in time
            return Most(-math.inf, most, shown=shown)
        reached, rows = question.sum_in(found.choice), question.rows(found.choice)
        return Most(float((reached - steps.offset) / steps.size), most, question.frame(rows), rows, shown)

    def _steps(self) -> _Steps:
        models = self.models
        sizes = [model.level(1.0) - model.level(0.0) for model in models]
        scale = [sizes[0] * sizes[1] / size for size in sizes]
        whole = math.lcm(*(s.denominator for s in scale))
        shared = math.gcd(*(int(s * whole) for s in scale))
        one, other = (int(s * whole) // shared for s in scale)
        return _Steps(
            total=one * self.first.total() + other * self.second.total(-1),
            size=one * sizes[0],
            offset=one * models[0].level(0.0) - other * models[1].level(0.0),
            slack=one * Fraction(models[0].margin) + other * Fraction(models[1].margin),
        )

    def _most_in_parts(self, clock: Clock, stop: float) -> Most:
        """Return the most that a score is above another one where equal steps of sums are not equal steps of scores.

        Where the lower one is between two values, the difference is at most the highest that the other one can be, less
        the first of them. The part with the largest such bound is cut in two.
        """
        (here, there), highest = self.models, Requirement(self.first.total(), None)
        best, pair, rows = -math.inf, None, None
        cases: dict[tuple[float, float], Any] = {}

        def bound_of(low: float, high: float) -> float:
            """Bound the difference where the lower probability is between two values; note what was reached."""
            nonlocal best, pair, rows
            proof = Proof() if self.is_proof_wanted else None
            question = self.ask(highest, *([self.second.beyond(high, -1, grows=False)] if high < ends[-1] else []))
            found = question.find_most(clock, proof)
            cases[low, high] = question.case(proof) if proof else None
            if found.is_none:
                return -math.inf
            if found.choice is not None:
                inputs = question.rows(found.choice)
                reached = here.score_of(inputs[0]) - there.score_of(inputs[1])  # as the libraries have it, if at hand
                if reached > best:
                    best, pair, rows = reached, question.frame(inputs), inputs
            return math.nextafter(here.bound_at(question.sum_at(found.bound), 1) - low, math.inf)

        ends, top, close = [0.0, 0.25, 0.5, 0.75, 1.0], 1.0, PROBABILITY_RESOLUTION
        if not there.is_probability:
            one = self.swapped._replace(columns=(), ordered=None)
            lowest, top = (one.extreme(sign, clock.share(0.1)).proved for sign in (-1, 1))
            below = lowest - 1e-6 * (top - lowest if there.is_linear else lowest)  # where no score is
            ends = [there.ends[0], below, *(below + share * (top - below) for share in (0.25, 0.5, 0.75)), math.inf]
            close *= max(1.0, abs(top))
        parts = [(-bound_of(low, high), low, high) for low, high in pairwise(ends)]
        heapq.heapify(parts)
        while -parts[0][0] > max(best + close, 0.0) and not clock.is_up:
            if best > stop or -parts[0][0] <= stop < math.inf:
                break
            _, low, high = heapq.heappop(parts)
            middle = 0.5 * (low + min(high, max(top, 2 * low)))
            for part in ((low, middle), (middle, high)):
                heapq.heappush(parts, (-bound_of(*part), *part))
        shown = [(low, high, cases[low, high]) for low, high in sorted((low, high) for _, low, high in parts)]
        return Most(best, max(-parts[0][0], best), pair, rows, shown if self.is_proof_wanted else None)


class _Steps(NamedTuple):
    """A difference of two sums, multiplied by whole numbers, so that equal steps are equal steps of scores.

    ``total`` holds the weights of all outputs, ``size`` is what a difference of scores of one is, ``offset`` what one
    of zero is, and ``slack`` what rounding can make.
    """

    total: NDArray[np.object_]
    size: Fraction
    offset: Fraction
    slack: Fraction


def _are(expected: tuple[Any, Any], one: Any, other: Any) -> bool:
    return (one, other) == expected


def _says(function: Function, row: NDArray[np.float64]) -> Any:
    """Return what a library says of an input."""
    return np.ravel(function(row[None]))[0]

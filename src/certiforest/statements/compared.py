"""Scores that are compared, of one model for two inputs or of two models for one, and what is asked about them.

Where levels are stated (`Range`, `Insensitive`), what the library's own rounding can make counts against a statement;
where two sums are compared (`Monotone`, `Same`), it does not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import partial
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
from certiforest.statements.proofs import Shown, link_of
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
        known = _Apart()
        shown = self._at_most(tolerance, known, clock)
        bounds = -math.inf if shown else math.inf, known.reached - tolerance
        if known.reached > tolerance:
            return Answer(False, bounds, known.pair, known.rows)
        return Answer(True if shown else None, bounds, None, shown)

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

    def most(self, clock: Clock) -> Most:
        """Return the most that the first score is above the second one."""
        if not self.is_linear:
            return self._most_in_parts(clock)
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
        sizes, starts = zip(
            *((model.level(1.0) - model.level(0.0), model.level(0.0)) for model in self.models), strict=True
        )
        return self._weighed(sizes, starts, Fraction(1), [Fraction(0)] * 2)

    def _weighed(
        self, sizes: Sequence[Fraction], starts: Sequence[Fraction], slope: Fraction, spare: Sequence[Fraction]
    ) -> _Steps:
        """Return a difference of two sums, less start and by size, the second of which has a weight.

        What rounding makes is a model's margin, and what is to be spared beside it.
        """
        factors = 1 / sizes[0], slope / sizes[1]
        unit = Fraction(math.gcd(*(f.numerator for f in factors)), math.lcm(*(f.denominator for f in factors)))
        one, other = (int(factor / unit) for factor in factors)
        return _Steps(
            total=one * self.first.total() + other * self.second.total(-1),
            size=1 / unit,
            offset=one * starts[0] - other * starts[1],
            slack=one * (Fraction(self.models[0].margin) + spare[0])
            + other * (Fraction(self.models[1].margin) + spare[1]),
        )

    def _most_in_parts(self, clock: Clock) -> Most:
        """Return the most that a score is above another one where equal steps of sums are not equal steps of scores.

        Ever smaller differences are proved to be the most, until one is near what inputs reach.
        """
        known, share = _Apart(), 0.25
        proved, shown = math.inf if self.first.model.is_regressor else 1.0, None
        for weights in ((1, 1), (1, 2), (2, 1)):  # inputs that are far apart, to begin with
            question = self.ask(Requirement(self.first.total(weights[0]) + self.second.total(-weights[1]), None))
            found = question.find_most(clock.share(0.1))
            if found.is_none:  # no two inputs differ so
                return Most(-math.inf, -math.inf)
            known.note(self, question, found.choice)
        if proved == math.inf:
            one = self.swapped._replace(columns=(), ordered=None)
            highest = self._replace(columns=(), ordered=None).extreme(1, clock.share(0.1)).proved
            proved = highest - min(one.extreme(-1, clock.share(0.1)).proved, highest)
        rounding = sum(
            float(model.slack_at(0.5) / abs(model.level(0.75) - model.level(0.5)))
            for model in self.models
            if model.is_probability
        )
        close = max(PROBABILITY_RESOLUTION, rounding) * max(1.0, proved)
        while (shown is None or proved - known.reached > close) and not clock.is_up:
            at_least = max(known.reached, 0.0)
            aim = proved if shown is None else at_least + max(share * (proved - at_least), 0.5 * close)
            found_parts = self._at_most(aim, known, clock.share(0.4))
            share = 0.25 if found_parts or known.reached > at_least else 0.5 * (1 + share)
            shown = shown or []
            if found_parts:
                proved, shown = aim, found_parts
        return Most(known.reached, max(proved, known.reached), known.pair, known.rows, shown or None)

    def _at_most(self, most: float, known: _Apart, clock: Clock) -> Shown:
        """Prove that no first score is more than so much above the second one; return the parts of the second, and why.

        There are none where inputs that are farther apart are found, and noted, or the proof is not. What does not show
        it yet is made closer where inputs were found that are not farther apart: by one more tangent, or by two parts.
        """
        waiting, shown = [(self.second.model.ends[0], self.second.model.ends[1])], list[tuple[float, float, Any]]()
        while waiting:
            low, high = waiting.pop()
            if low + most >= self.first.model.ends[1]:
                shown.append((low, high, None))
                continue
            points = self._points(most, known.lower)
            question = self.ask(*self._needs_of_part(most, low, high), *(self._tangent(*point) for point in points))
            proof = Proof() if self.is_proof_wanted else None
            found = question.find(clock, lambda _: True, proof)
            if found.choice is None and found.bound < 0:
                case = question.case(proof) if proof else None
                shown.append((low, high, case | {"tangents": points} if case and points else case))
                continue
            n_points, middle = len(points), 0.5 * (low + high) if high < math.inf else max(2 * low, 1.0)
            if found.choice is None or known.note(self, question, found.choice) > most:
                return []
            if points:
                waiting.append((low, high))
            else:
                waiting += [(middle, high), (low, middle)]
            is_same = len(self._points(most, known.lower)) == n_points if points else middle - low < 1e-9 * middle
            if is_same or clock.is_up:
                return []
        return shown

    def _needs_of_part(self, most: float, low: float, high: float) -> list[Requirement]:
        """Return that the first score is high enough, and the second one in a part."""
        (here, there), needs = self.models, list[Requirement]()
        if low + most > here.ends[0]:
            needs.append(self.first.beyond(low + most, 1, grows=False))
        if high < there.ends[1]:
            needs.append(self.second.beyond(high, -1, grows=False))
        if low > there.ends[0]:
            needs.append(self.second.beyond(low, 1, grows=False))
        return needs

    def _points(self, most: float, lower: Sequence[float]) -> list[tuple[float, float]]:
        """Return where tangents are made: a second score each, and a difference that rounding makes no larger one of.

        How high the first sum must be for the first score to be so much above the second is convex in the second sum
        where scores are exponentials or probabilities of sums; it is above any tangent then. Else there are none.
        """
        links = [link_of(model) for model in self.models]
        if links[0] is None or links[1] is None or not links[0][0] or links[0][0] != links[1][0]:
            return []
        is_log = links[0][0] == "log"
        off = 0.0 if is_log else sum(model.opened.slack / 4 for model in self.models)
        t = math.floor(max(most - off, 0.0) * 2**40) / 2**40
        near = [1.0] if is_log else [0.5 * (1 - t)]
        rounded = {
            math.ldexp(round(math.ldexp(p, 16 - e)), e - 16) for p in (*near, *lower) for e in (math.frexp(p)[1],)
        }
        return [(p, t) for p in sorted(rounded) if p > 0 and (is_log or p + t < 1)]

    def _tangent(self, p: float, t: float) -> Requirement:
        """Return what follows for sums where the first score is t above the second, by the tangent at p."""
        links = [link for model in self.models if (link := link_of(model))]
        lower, upper = Fraction(p), Fraction(p) + Fraction(t)
        slope, spare = lower / upper, [Fraction(0)] * 2
        if links[0][0] == "log_odds":
            slope *= (1 - lower) / (1 - upper)
            lower, upper = lower / (1 - lower), upper / (1 - upper)
        else:  # what rounding makes of exponentials is told in sums
            spare = [Fraction(model.opened.slack) for model in self.models]
        steps = self._weighed([size for _, size, _ in links], [start for *_, start in links], slope, spare)
        at_upper, at_lower = Fraction(math.log(upper)), slope * Fraction(math.log(lower))
        least = at_upper - at_lower - (abs(at_lower) + abs(at_upper) + 1) / 10**12
        return Requirement(steps.total, least * steps.size + steps.offset - steps.slack, grows=False)


class _Apart:
    """Inputs whose scores are far apart, the farthest that were found, and by how much; and the lower scores of all."""

    def __init__(self) -> None:
        self.reached, self.lower = -math.inf, list[float]()
        self.pair: Any = None
        self.rows: Rows | None = None

    def note(self, scores: Compared, question: InputQuestion, choice: NDArray[np.int64] | None) -> float:
        """Note chosen inputs if their scores are farther apart, as the libraries have them; return how far they are."""
        if choice is None:
            return -math.inf
        rows = question.rows(choice)
        self.lower.append(scores.second.model.score_of(rows[1]))
        reached = scores.first.model.score_of(rows[0]) - self.lower[-1]
        if reached > self.reached:
            self.reached, self.pair, self.rows = reached, question.frame(rows), rows
        return reached


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

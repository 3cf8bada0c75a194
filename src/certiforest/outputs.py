"""Outputs: what an attacker can make a model say of rows, in the model's own unit, as its own library says it.

Sums are exact; what the library's rounding can make of them is allowed for. Whoever has no library at hand, as for a
file, gets the exact sum for what the model says.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from certiforest.attack.attacker import Attacker
from certiforest.ensemble import ModelError
from certiforest.ensemble.numbers import is_number
from certiforest.formats.scored import ScoredModel
from certiforest.problem.verifier import Verifier
from certiforest.proof.clock import Clock
from certiforest.rows.certified_rows import Results
from certiforest.rows.decider import Decider
from certiforest.rows.radius import Known, find_radius
from certiforest.rows.ranges import ABOVE, INSIDE, Range, as_sides, find_range
from certiforest.verdicts import STABLE, UNKNOWN, UNSTABLE, Method
from certiforest.words import shown

ROWS_AT_ONCE = 100  # of which a library is asked what it says
WRONG_BOUND = "The model says what is proved that it cannot: please report this as a defect."


class Outputs:
    """The outputs of a model against one attacker.

    Parameters
    ----------
    model : regressor, classifier of two classes, TreeEnsemble or path
    attacker : Attacker
    tolerance : float, optional
        For a regressor: how far what it says of a row may move while the row is stable.

    Attributes
    ----------
    ensemble : TreeEnsemble
        As `ScoredModel` has it.
    is_regressor : bool
    """

    def __init__(self, model: Any, attacker: Attacker, tolerance: float | None = None) -> None:
        scored = ScoredModel(model)
        scored.check_score()
        if scored.is_regressor != (tolerance is not None):
            instead = "Expected tolerance=..., how far what a regressor says may move, for a regressor, got none."
            raise ModelError(instead if tolerance is None else "Expected no tolerance for a classifier, got one.")
        if tolerance is not None and not (is_number(tolerance) and tolerance >= 0):
            raise ValueError(f"Expected tolerance to be a number >= 0, got {shown(tolerance)}.")
        # A file need not be there where this arrives.
        self._model = scored.opened if isinstance(model, (str, os.PathLike)) else model
        self._attacker, self._most = attacker, 0.0 if tolerance is None else float(tolerance)
        self.ensemble, self.is_regressor, self.scored = scored.ensemble, scored.is_regressor, scored

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in ("scored", "verifier")}

    @cached_property
    def scored(self) -> ScoredModel:
        """The model, which is opened again where it arrives."""
        return ScoredModel(self._model)

    @cached_property
    def verifier(self) -> Verifier:
        """The model as three classes: see `as_sides`."""
        sides = as_sides(self.ensemble, self.scored.sign)
        return Verifier(sides, self._attacker.resolve(sides.n_features, sides.feature_names, sides.categorical))

    def of(self, X: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return what the model says of rows, shape (n,)."""
        if self.scored.scores is not None:
            return np.ravel(self.scored.scores(X))
        return np.array([self.scored.score_at(self._sum(x)) for x in X])

    def _sum(self, x: NDArray[np.float64]) -> Fraction:
        return self.verifier.gain_at(x, INSIDE, ABOVE) * self.verifier.gains.unit

    def find(self, X: NDArray[np.float64], out: Results, clock: Clock, *, keep_proof: bool) -> Iterator[int]:
        """Find out what is in reach of rows, and write it; yield how many more are done."""
        for first in range(0, len(X), ROWS_AT_ONCE):
            part = slice(first, first + ROWS_AT_ONCE)
            ranges = [find_range(self.verifier, x, clock.start(), keep_proof=keep_proof) for x in X[part]]
            self._write(X[part], ranges, out[part])
            yield len(ranges)

    def find_radii(self, X: NDArray[np.float64], out: Results, clock: Clock, *, keep_proof: bool) -> Iterator[int]:
        """Find the smallest eps at which what is said of a row leaves the tolerance; yield how many more are done."""
        for i, (x, said) in enumerate(zip(X, self.of(X).tolist(), strict=True)):
            verifier = self._around(said)
            if verifier is not None:
                known = Known(0.0, math.inf, out.stable[i])
                found = find_radius(Decider(verifier), x, known, clock.start(), keep_proof=keep_proof)
                out.radius[i], out.radius_upper[i], attack = found.lower, found.upper, found.attack
                if attack is not None and self._is_near(said, float(self.of(attack[None])[0])):  # by rounding
                    out.radius_upper[i], attack = math.inf, None
                if out.radius_proof is not None and out.radius_witness is not None:
                    out.radius_proof[i], out.radius_witness[i] = found.proof, attack
            out.is_measured[i] = True
            yield 1

    def _write(self, X: NDArray[np.float64], ranges: Sequence[Range], out: Results) -> None:
        """Write what was found about rows."""
        above, below = np.stack([found.above.row for found in ranges]), np.stack([found.below.row for found in ranges])
        out.is_decided[:], out.output[:] = True, self.of(X)
        out.high_reached[:], out.low_reached[:] = self.of(above), self.of(below)
        if out.low_witness is not None and out.high_witness is not None:
            out.high_witness[:], out.low_witness[:] = above, below
        for i, (up, down, method, proof) in enumerate(ranges):
            said, low, high = (float(column[i]) for column in (out.output, out.low_reached, out.high_reached))
            out.range_is_exact[i] = up.proved == up.reached and down.proved == down.reached
            out.low[i], out.high[i] = low, high
            if method != Method.COMPOSED:  # else nothing can change, not even how the library rounds
                out.low[i], out.high[i] = self.scored.bound_at(down.proved, -1), self.scored.bound_at(up.proved, 1)
            if not out.low[i] <= low <= high <= out.high[i]:
                raise AssertionError(WRONG_BOUND)
            if not self.is_regressor:
                continue
            is_proved, is_reached = (
                [self._is_near(said, float(end)) for end in ends] for ends in ((out.low[i], out.high[i]), (low, high))
            )
            out.stable[i] = STABLE if all(is_proved) else UNKNOWN if all(is_reached) else UNSTABLE
            out.method[i] = method
            if out.proof is not None:
                out.proof[i] = proof
            if out.witness is not None and out.stable[i] == UNSTABLE:
                out.witness[i] = above[i] if high - said > said - low else below[i]

    def _is_near(self, said: float, other: float) -> bool:
        """Tell, exactly, whether two outputs differ by no more than the tolerance."""
        if math.isinf(other) or math.isinf(self._most):
            return math.isinf(self._most)
        return abs(Fraction(other) - Fraction(said)) <= Fraction(self._most)

    def _around(self, said: float) -> Verifier | None:
        """Return the verifier that calls a row stable only while what is said stays within the tolerance of this.

        None if rounding alone may go beyond.
        """
        most = 4.0 * max(self.ensemble.largest_sum, 1.0)
        ends = []
        for sign in (-1, 1):
            try:
                end = sign * _rounded_down(sign * Fraction(said) + Fraction(self._most))
                inner = sign * self.scored.level(end) - self.scored.slack_at(end)
            except (ValueError, OverflowError):  # no sum is so low, or so high
                inner = Fraction(most)
            ends.append(_rounded_down(min(inner, Fraction(most))))
        low, high = -ends[0], ends[1]
        return self.verifier.with_base([0.0, -high, low]) if low <= high else None


def _rounded_down(value: Fraction) -> float:
    number = float(value)
    return number if number <= value else math.nextafter(number, -math.inf)

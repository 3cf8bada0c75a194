"""Models with a score: what their sums stand for, which is a probability, a share of votes, or a regressor's unit."""

from __future__ import annotations

import math
import warnings
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from certiforest.ensemble import ModelError, TreeEnsemble
from certiforest.formats.doors import open_model
from certiforest.formats.opened import Function, Opened
from certiforest.words import setting, shown


class ScoredModel:
    """A translated model, its decisions, and its score if it has one.

    Parameters
    ----------
    model : classifier, regressor, TreeEnsemble, path, or what such a path holds
    outputs : {"probability", "score"}
        What is called the score of a classifier: the probability of its second class, or the sum that decides.

    Attributes
    ----------
    ensemble : TreeEnsemble
    n_outputs : int
        How many columns the scores of leaves have; votes have one for each class.
    margin : float
        How far from exact the library's own sums can be.
    """

    def __init__(self, model: Any, outputs: str = "probability") -> None:
        self.opened = model if isinstance(model, Opened) else open_model(model)
        self.ensemble: TreeEnsemble = self.opened.ensemble
        self.is_regressor = self.opened.is_regressor
        self._is_vote = self.ensemble.combine == "vote"
        self._is_sum = outputs == "score" and not (self.is_regressor or self._is_vote)
        self.n_outputs = self.ensemble.n_classes if self._is_vote else len(self.ensemble.summands()[1])
        is_one_leaf = self.ensemble.n_trees == self.opened.n_averaged == 1
        self._is_exact = (self.opened.predict is None or is_one_leaf) and self.opened.dtype == np.float64
        self.margin = 0.0 if self._is_vote or self._is_exact else self.ensemble.rounding_bound(self.opened.dtype)
        if math.isinf(self.margin):
            raise ModelError(f"Expected scores whose sums {np.dtype(self.opened.dtype)} holds, got larger ones.")
        most = math.log(float(np.finfo(self.opened.dtype).max)) - 2
        if self.is_regressor and not self.is_linear and self.ensemble.largest_sum > most:
            raise ModelError(f"Expected sums up to {most:.0f}, whose exponentials are floats, got larger ones.")

    def check_score(self) -> None:
        """Refuse models without a score."""
        if (n_classes := self.ensemble.n_classes) != 2:
            raise ModelError(
                f"Expected a regressor or a model of two classes, got one of {n_classes}; such a model has decisions,"
                " but no single score."
            )
        if self.opened.has_steps and not self._is_sum:
            raise ModelError("Expected calibrated probabilities that rise with the sum, got steps (isotonic).")
        if self.opened.sum_at is None and not (self._is_vote or self._is_sum):
            raise ModelError(
                f"Expected {setting('outputs', 'score')}: {self.opened.name} does not say what probability its sums"
                " stand for. Give the fitted model of the library that trained it, or ask about sums."
            )

    @property
    def sign(self) -> int:
        """-1 where the score falls as the sum of the last output rises."""
        return self.opened.sign

    @property
    def is_linear(self) -> bool:
        """Whether equal steps of the score are equal steps of the sum."""
        if self._is_vote or self.opened.n_averaged or self._is_sum:
            return True
        assert self.opened.sum_at is not None  # see `check_score`
        try:
            steps = np.diff([float(self.opened.sum_at(score)) for score in (0.0, 0.5, 1.0)])
        except ValueError:  # a logarithm
            return False
        return bool(steps[0] == steps[1])

    @property
    def ends(self) -> tuple[float, float]:
        """What no sum takes the score to, or beyond."""
        return (-math.inf, math.inf) if self.is_linear else (0.0, math.inf if self.is_regressor else 1.0)

    @property
    def is_probability(self) -> bool:
        """Whether the score is a probability that no sum takes to 0 or 1, or beyond."""
        return not (self.is_linear or self.is_regressor)

    def level(self, score: float) -> Fraction:
        """Return the sum at which the score has a value."""
        if self._is_sum:
            return Fraction(score)
        if self.opened.sum_at is None:  # of votes
            return Fraction(score) * self.ensemble.n_trees
        if score <= self.ends[0] and self.is_regressor:
            return Fraction(-4 * max(self.ensemble.largest_sum, 1.0))  # below all sums
        return Fraction(self.opened.sum_at(score))

    def score_at(self, total: Fraction) -> float:
        """Return the score at a sum, right to about the last bit."""
        if self.is_linear:
            start = self.level(0.0)
            return float((total - start) / (self.level(1.0) - start))
        low, high = 0.0, 1.0
        while self.is_regressor and self.level(high) < total:
            low, high = high, 2 * high
        for _ in range(1100):
            middle = 0.5 * (low + high)
            if middle in (low, high):
                break
            low, high = (middle, high) if self.level(middle) <= total else (low, middle)
        return high

    def bound_at(self, total: Fraction, sign: int) -> float:
        """Return what the library's own score is never above where the sum is at most a total.

        For the sign -1: what it is never below where the sum is at least minus the total.
        """
        if not self.is_probability:
            if not self.is_linear:  # exponentials of more than there can be are no floats
                total = min(total, Fraction(1.001 * self.ensemble.largest_sum))
            slack = self.slack_at(self.score_at(sign * total))
            end = self.score_at(sign * (total + slack))
            is_beyond = self._is_exact and self.is_linear and sign * self.level(end) >= total
            return end if is_beyond else math.nextafter(end, sign * math.inf)
        inner, outer = (0.0, 1.0)[::sign]
        while (middle := 0.5 * (inner + outer)) not in (inner, outer):
            is_beyond = sign * self.level(middle) - self.slack_at(middle) >= total
            inner, outer = (inner, middle) if is_beyond else (middle, outer)
        return outer

    def score_of(self, row: NDArray[np.float64]) -> float:
        """Return the score of an input, the library's own where it is at hand."""
        if self.scores is not None:
            return float(self.scores(row[None])[0])
        total = self.ensemble.votes(row[None])[0] if self._is_vote else self.ensemble.decision_function(row[None])
        return self.score_at(Fraction(float(np.ravel(total)[-1])) * self.opened.sign)

    def slack_at(self, score: float) -> Fraction:
        """Bound how far the exact sum is from ``level(score)`` where the library's own, rounded score is ``score``."""
        steepness = 1.0
        if self.is_probability:
            steepness = max(4 * score * (1 - score), 1e-300)
        rounding = Fraction(0) if self._is_exact else abs(self.level(score)) / 2**50
        return Fraction(self.margin) + Fraction(self.opened.slack / steepness) + rounding

    @property
    def label(self) -> Any:
        """The class that scores speak for."""
        return self.ensemble.classes.tolist()[1 if self._is_vote else self.opened.sign > 0]

    def speak_for(self, label: Any) -> None:
        """Let sums speak for the other one of two classes, if they do not for a given one, which is the last there."""
        if self.is_regressor or self.label == label or label not in self.ensemble.classes.tolist():
            return
        if not self._is_sum:
            raise ModelError(
                f"Expected scores of the class {shown(label)}, got a model with those of {shown(self.label)}."
            )
        self.opened = self.opened._replace(sign=1 if label == self.ensemble.classes.tolist()[1] else -1)

    @property
    def tie(self) -> Fraction:
        """How far apart sums may be of which the library says the lower one's class, or either."""
        return Fraction(self.margin) + Fraction(self.opened.slack)

    def weights(self, sign: int = 1) -> list[int]:
        """Return the weights of the outputs that make the sum, times a sign."""
        return [*[0] * (self.n_outputs - 1), sign * self.opened.sign]

    def decides(self, c: int) -> list[tuple[list[int], bool]]:
        """Return the weights of outputs whose sums are above zero, or not below it, iff a class is predicted.

        With each stands whether zero is not enough.
        """
        if self.n_outputs == 1:
            return [([1 if c == 1 else -1], c == 1)]
        found = []
        for rival in range(self.ensemble.n_classes):
            if rival != c:
                found.append(([int(i == c) - int(i == rival) for i in range(self.n_outputs)], rival < c))
        return found

    @property
    def predict(self) -> Function | None:
        """What the library's own model predicts; None if it is not at hand, as of files, or if nothing is rounded."""
        return _quietly(self.opened.predict)

    @property
    def scores(self) -> Function | None:
        """The library's own scores of rows; None as for `predict`."""
        score, raw, sign = self.opened.score, self.opened.raw, self.opened.sign
        if self._is_sum:
            score = None if raw is None else (lambda rows: sign * np.asarray(raw(rows)).reshape(len(rows), -1)[:, -1])
        quiet = _quietly(score)  # in double precision, in which they are compared with ends
        return None if quiet is None else (lambda rows: quiet(rows).astype(np.float64))


def _quietly(function: Function | None) -> Function | None:
    """Return a function of rows without its `UserWarning`: libraries warn of rows without names of columns."""
    if function is None:
        return None

    def quiet(rows: NDArray[np.float64]) -> NDArray:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            return np.asarray(function(rows))

    return quiet

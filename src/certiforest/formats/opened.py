"""A model as a door hands it over, the threshold that may be put on it, and the way out: compared (`agreement`).

A threshold becomes one more tree, of a single leaf that adds what a sum must reach. Sums and what they are compared
with stay apart, so that `TreeEnsemble.rounding_bound` knows the sizes of all that a library adds up.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from certiforest.ensemble import ModelError, TreeEnsemble
from certiforest.ensemble.numbers import is_number
from certiforest.formats.agreement import check_agreement, threshold_rows
from certiforest.words import shown

LOGISTIC_SLACK = 2.0**-50  # a probability made of a sum in float64: exp, an addition and a division

Function = Callable[[NDArray[np.float64]], Any]


def unfitted(model: Any) -> ModelError:
    """Return the error of a model that has learned nothing yet."""
    return ModelError(f"Expected a fitted model, got an unfitted {type(model).__name__}; call fit first.")


def check_fitted(model: Any, *kinds: Any) -> None:
    """Refuse an estimator that is none of some kinds, or not fitted."""
    if not isinstance(model, kinds):
        raise ModelError(f"Expected a classifier or a regressor, got {type(model).__name__}.")
    if not (model.is_fitted if hasattr(model, "is_fitted") else model.__sklearn_is_fitted__)():
        raise unfitted(model)


class Opened(NamedTuple):
    """A translated model, and the model's own functions of rows, with which the translation is compared."""

    ensemble: TreeEnsemble
    name: str  # of the model, in errors
    predict: Function | None = None  # labels, shape (n,); None for files, which are not given to a library
    raw: Function | None = None  # sums, in the shape of ``decision_function``
    score: Function | None = None  # what a threshold is compared with: a probability, or a regressor's value, (n,)
    sum_at: Callable[[float], float | Fraction] | None = None  # the sum at which the library's score has a given value
    sign: int = 1  # -1 where sums have the other sign than the library's
    dtype: DTypeLike = np.float64  # in which the library adds up
    slack: float = 0.0  # how far from a tie, beyond rounding, it may take two sums for equal
    is_regressor: bool = False  # whose classes are "below the threshold" and "not below"
    n_averaged: int = 0  # how many trees' probabilities the model takes the mean of; 0 if it does something else
    has_softmax: bool = False  # whether probabilities are exponentials of the sums, over the sum of these
    has_steps: bool = False  # whether many sums have one score, as with isotonic calibration
    has_threshold: bool = False  # of its own
    usual_threshold: float | None = None  # that is put on the model if no other one is asked for
    ask: Function | None = None  # makes of rows what the model takes, where that is something else

    def finish(self, threshold: float | None) -> TreeEnsemble:
        """Put a threshold on the model if there is one, compare it with the model and return it."""
        if threshold is None and self.is_regressor:
            raise ModelError(
                "Expected a classifier, or a threshold that makes two classes of what a regressor says, got"
                f" {self.name} and no threshold; call as_ensemble(model, threshold=...), or certify(...,"
                " tolerance=...) for what it says itself."
            )
        opened = self.with_usual_threshold() if threshold is None else self.with_threshold(threshold)
        opened.compare()
        return opened.ensemble

    def compare(self) -> None:
        """Compare the translation with the model, if it is at hand: a regressor, with a threshold amid what it says."""
        if self.is_regressor and self.score is not None:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # that these rows are without the names of their columns
                says = np.asarray(self.score(threshold_rows(self.ensemble, 64)))
            self.with_threshold(float(np.sort(says)[len(says) // 2]))._replace(is_regressor=False).compare()
        elif self.predict is not None:
            check_agreement(self.ensemble, self.name, self.predict, self.raw, dtype=self.dtype, slack=self.slack)

    def asked_by(self, ask: Function) -> Opened:
        """Return the model whose functions take what ``ask`` makes of rows."""

        def after(function: Function | None) -> Function | None:
            return None if function is None else lambda rows: function(ask(rows))

        raw, score = after(self.raw), after(self.score)
        return self._replace(predict=after(self.predict), raw=raw, score=score, ask=ask)

    def with_usual_threshold(self) -> Opened:
        """Return the model as it decides by itself."""
        if self.usual_threshold is None:
            return self
        return self.with_threshold(self.usual_threshold)._replace(has_threshold=True)

    def with_threshold(self, threshold: float) -> Opened:
        """Return the model that says its second class iff its score is at least the threshold."""
        self._check_threshold(threshold)
        ensemble, score = self.ensemble, self.score
        first, second = ensemble.classes.tolist()[:: self.sign]
        labels = np.array([first, second], ensemble.classes.dtype)
        predict = None if score is None else (lambda rows: labels[(np.asarray(score(rows)) >= threshold).astype(int)])
        if ensemble.combine == "vote":
            voted = _with_quorum(ensemble, threshold)
            extra = int(voted.leaf[-1] == 1) * (voted.n_trees - ensemble.n_trees)

            def votes_at(score: float) -> Fraction:
                return Fraction(score) * ensemble.n_trees + extra

            return self._replace(ensemble=voted, predict=predict, raw=None, sum_at=votes_at)
        sum_at = self.sum_at
        assert sum_at is not None  # checked above
        (scores, base), cut = ensemble.summands(), float(sum_at(threshold))
        # The first class wins ties, so that the second one, which has a score equal to the threshold, comes first.
        table = np.vstack([-self.sign * scores[:, -1:], [[cut]]])
        changes = {"classes": labels[::-1], "scores": table, "base": -self.sign * base[-1:]}
        other = ensemble.with_leaves([len(table) - 1], **changes)
        steepness = 1.0 if self.is_regressor else 4 * threshold * (1 - threshold)  # of the score, against that at 0.5
        return self._replace(
            ensemble=other, predict=predict, raw=None, sign=-1, slack=self.slack / steepness, usual_threshold=None,
            sum_at=lambda score: Fraction(sum_at(score)) - Fraction(cut),
        )  # fmt: skip

    def _check_threshold(self, threshold: Any) -> None:
        if not is_number(threshold) or not math.isfinite(threshold):
            raise ModelError(f"Expected threshold to be a number, got {shown(threshold)}.")
        if self.has_threshold:
            raise ModelError(f"Expected threshold=None for a {self.name}, which has a threshold of its own.")
        if (n_classes := self.ensemble.n_classes) != 2:
            raise ModelError(f"Expected threshold=None for a model of {n_classes} classes, got a threshold.")
        if self.ensemble.combine == "sum" and self.sum_at is None:
            raise ModelError(
                f"Expected threshold=None: {self.name} does not say what probability its sums stand for; give the"
                " fitted model of the library that trained it."
            )
        if self.is_regressor and self.sum_at is not None:
            try:
                self.sum_at(threshold)
            except ValueError:  # of a logarithm
                raise ModelError(f"Expected a threshold above 0, as predictions are, got {shown(threshold)}.") from None
        if not self.is_regressor and not 0 < threshold < 1:
            raise ModelError(f"Expected threshold to be a probability between 0 and 1, got {shown(threshold)}.")


def of_one_kind(categories: dict[int, Any]) -> dict[int, list] | None:
    """Return the features whose categories are all text or all whole numbers; data frames of others are refused."""
    kept = {
        feature: values
        for feature, values in categories.items()
        if isinstance(values, list) and {*map(type, values)} in ({str}, {int}) and len({*values}) == len(values)
    }
    return kept or None


def log_odds(probability: float) -> float:
    """Return ``log(p / (1 - p))``, right to about the last bit."""
    if 0.25 <= probability <= 0.75:
        return 2 * math.atanh(2 * probability - 1)  # exact up to here
    return math.log(probability) - math.log1p(-probability)


def _with_quorum(ensemble: TreeEnsemble, threshold: float) -> TreeEnsemble:
    """Add trees of one leaf, so that the second class wins iff its share of the votes is at least a threshold."""
    n = ensemble.n_trees
    quorum = int(np.argmax(np.arange(n + 1) / n >= threshold))
    # It wins iff 2 * votes > n + extra: extra votes for the first class, or, below zero, for the second.
    extra = 2 * quorum - 1 - n
    return ensemble.with_leaves([int(extra < 0)] * abs(extra))


def asker(
    categories: Mapping[int, Sequence[Any]], names: NDArray | None, missing: Mapping[int, Any] | None = None
) -> Callable[[NDArray[np.float64]], Any]:
    """Return what makes rows as a model was fitted to them: a frame if columns have names, text in the place of codes.

    ``categories`` has, by feature, the values of codes; codes beyond stand for a text that is none of them. ``missing``
    says, by feature, what the model takes for missing text: NaN if nothing is said.
    """
    texts = {f: [*values] for f, values in categories.items() if len(values) and isinstance(values[0], str)}
    words = {
        f: np.array([*values, max(values) + "'", (missing or {}).get(f, np.nan)], object) for f, values in texts.items()
    }

    def ask(rows: NDArray[np.float64]) -> Any:
        if names is None and not words:
            return rows
        columns: list[Any] = [*rows.T]
        for f, word in words.items():
            place = np.where(np.isnan(rows[:, f]), len(word) - 1, np.minimum(rows[:, f], len(word) - 2))
            columns[f] = word[place.astype(np.int64)]
        if names is None:
            return np.column_stack([np.asarray(column, object) for column in columns])
        import pandas

        return pandas.DataFrame(dict(enumerate(columns))).set_axis(names, axis=1)

    return ask

"""BoostingClassifier: what boosting with and without large spread share."""

from __future__ import annotations

from collections.abc import Iterator
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import train_test_split

from certiforest.attack.attacker import Attacker
from certiforest.ensemble import TreeEnsemble
from certiforest.training.boosted_trees import BoostedTrees, average_bags, boost_trees
from certiforest.training.checks import check_choice, check_integer, check_number, check_share, count_share
from certiforest.training.estimator import GivenRows, SummingClassifier
from certiforest.training.sums import LabelledRows

LOSSES = ("log_loss", "exponential")
UNLIMITED = int(np.iinfo(np.int32).max)
N_STEPS = 8


class BoostingClassifier(SummingClassifier):
    """Base of the trainers that boost; other parameters as documented there.

    Parameters
    ----------
    loss : {"log_loss", "exponential"}, default="log_loss"
        ``log(1 + sum_c exp(-margin[c]))`` or ``sum_c exp(-margin[c])`` over the worst-case margins against each rival
        class. The exponential loss fits hard rows harder.
    l2_regularization : "auto" or float, default="auto"
        Weight of half the sum of squared leaf values of a tree, in units of row weights. ``"auto"``: the root of the
        sum of all weights, over 20 and over the number of rival classes.
    validation_fraction : int or float, default=0.1
        Number, or share, of rows put aside for early stopping; without effect if ``n_iter_no_change`` is None.
    n_iter_no_change : int or None, default=None
        Stop when the worst-case loss of the rows put aside has not fallen for so many rounds of trees, and drop the
        trees after the best. None: no early stopping, all rows train.
    tol : float, default=0.0
        By how much the loss must fall to count.
    n_jobs : int or None, default=None
        Threads for training; the result does not depend on it.

    Attributes
    ----------
    learning_rate_ : float
        Share of fitted values that was kept.
    feature_importances_ : ndarray of float64, shape (n_features,)
        Share of each feature in the worst-case gains of all splits.
    """

    WITHOUT_ATTACKER = "sklearn.ensemble.HistGradientBoostingClassifier"

    n_estimators: int
    max_depth: int | str | None
    learning_rate: float | str
    loss: str
    forgiveness: float = 0.0
    max_features: float | str | None
    min_samples_leaf: float
    min_samples_split: int = 2
    max_samples: float | None = None
    n_bags: int = 1
    l2_regularization: float | str
    validation_fraction: float
    n_iter_no_change: int | None
    tol: float
    n_jobs: int | None

    def _spread_options(self) -> dict[str, Any]:
        """Return what `boost_trees` is told about large spread."""
        return {}

    def _train(self, given: GivenRows, attacker: Attacker, random_state: np.random.RandomState) -> TreeEnsemble:
        """Boost one bag after the other and average them."""
        rows = LabelledRows.weighted(*given)
        boosted = average_bags([self._boost(rows, attacker, random_state, bag) for bag in range(self.n_bags)])
        ensemble = boosted.ensemble(given.X.shape[1], self.classes_, self._names)
        self.n_estimators_ = ensemble.n_trees
        self.learning_rate_ = boosted.learning_rate
        self.train_loss_ = np.array(boosted.train_loss)
        self.validation_loss_ = np.array(boosted.validation_loss)
        self.feature_importances_ = boosted.importances(given.X.shape[1])
        return ensemble

    def _boost(
        self, rows: LabelledRows, attacker: Attacker, random_state: np.random.RandomState, bag: int
    ) -> BoostedTrees:
        """Boost one bag; if asked for, on the rows that are not put aside."""
        validation = None
        if self.n_iter_no_change is not None:
            train, aside = self._put_aside(rows.y_index, random_state)
            rows, validation = rows.take(train), rows.take(aside)
        n_features, n_before = rows.X.shape[1], bag * self.n_estimators
        return boost_trees(
            rows,
            len(self.classes_),
            attacker,
            has_spread=self.PROMISES_SPREAD,
            is_held=self._is_held,
            validation=validation,
            n_estimators=self.n_estimators,
            max_depth=self._depth(),
            learning_rate=None if self.learning_rate == "auto" else float(self.learning_rate),
            is_exponential=self.loss == "exponential",
            forgiveness=self.forgiveness,
            max_features=self._share_of_features(n_features),
            min_samples_leaf=count_share(self.min_samples_leaf, len(rows.X)),
            min_samples_split=self.min_samples_split,
            max_samples=None if self.max_samples is None else count_share(self.max_samples, len(rows.X)),
            keeps_both=self.n_bags > 1,
            l2=None if self.l2_regularization == "auto" else float(self.l2_regularization),
            n_steps=N_STEPS,
            n_iter_no_change=self.n_iter_no_change,
            tol=self.tol,
            random_state=random_state,
            n_jobs=self.n_jobs,
            progress=lambda n_rounds, _: self._report_progress(n_before + n_rounds, self.n_bags * self.n_estimators),
            **self._spread_options(),
        )

    @property
    def log_odds_per_unit(self) -> float:
        """What the loss makes of a unit of the sums."""
        return 2.0 if self.loss == "exponential" else 1.0

    def staged_decision_function(self, X: Any) -> Iterator[NDArray[np.float64]]:
        """Yield the sums of scores after one, two, ... trees, each as `decision_function` returns them."""
        X = self._check_rows(X)
        ensemble = self.ensemble_
        start = ensemble.tree_start
        sums = np.zeros(1)
        for tree in range(ensemble.n_trees):
            # Scores lie on a grid: adding one tree after the other gives the very sums of the whole.
            nodes = slice(start[tree], start[tree + 1])
            single = TreeEnsemble(
                ensemble.feature[nodes],
                ensemble.threshold[nodes],
                ensemble.leaf[nodes],
                n_features=ensemble.n_features,
                classes=ensemble.classes,
                scores=ensemble.scores,
                base=ensemble.base if tree == 0 else None,
                missing_left=None if ensemble.missing_left is None else ensemble.missing_left[nodes],
            )
            sums = sums + single.decision_function(X)
            yield sums

    def staged_predict(self, X: Any) -> Iterator[NDArray]:
        """Yield the predicted labels after one, two, ... trees, each of shape (n,)."""
        for sums in self.staged_decision_function(X):
            yield self.classes_[sums.argmax(axis=1) if sums.ndim == 2 else (sums > 0).astype(np.intp)]

    def _put_aside(
        self, y_index: NDArray, random_state: np.random.RandomState
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the rows to train on and those to validate on, with equal shares of classes where possible."""
        n_aside, n_of_class = count_share(self.validation_fraction, len(y_index)), np.bincount(y_index)
        n_of_class = n_of_class[n_of_class > 0]
        has_shares = n_of_class.min() > 1 and len(n_of_class) <= min(n_aside, len(y_index) - n_aside)
        train, aside = train_test_split(
            np.arange(len(y_index)),
            test_size=n_aside,
            random_state=random_state,
            stratify=y_index if has_shares else None,
        )
        return np.sort(train), np.sort(aside)

    def _depth(self) -> int | None:
        if self.max_depth == "auto":
            return None
        return UNLIMITED if self.max_depth is None else int(self.max_depth)

    def _share_of_features(self, n_features: int) -> float | None:
        if self.max_features == "auto":
            return None
        if self.max_features is None:
            return 1.0
        if isinstance(self.max_features, Integral):
            return min(1.0, int(self.max_features) / n_features)
        return float(self.max_features)

    def _check_params(self) -> None:
        check_integer("n_estimators", self.n_estimators)
        if self.max_depth is not None and self.max_depth != "auto":
            check_integer("max_depth", self.max_depth, alternative="'auto' or None")
        if self.learning_rate != "auto":
            check_number("learning_rate", self.learning_rate, "in (0, 1] or 'auto'", lambda rate: 0 < rate <= 1)
        check_choice("loss", self.loss, LOSSES)
        check_number("forgiveness", self.forgiveness, ">= 0", lambda weight: 0 <= weight < np.inf)
        check_share("min_samples_leaf", self.min_samples_leaf)
        check_integer("min_samples_split", self.min_samples_split, least=2)
        check_share("validation_fraction", self.validation_fraction)
        check_integer("n_bags", self.n_bags)
        if self.max_samples is not None:
            check_share("max_samples", self.max_samples)
        if self.max_features is not None and self.max_features != "auto":
            check_share("max_features", self.max_features)
        if self.l2_regularization != "auto":
            check_number(
                "l2_regularization", self.l2_regularization, ">= 0 or 'auto'", lambda weight: 0 <= weight < np.inf
            )
        if self.n_iter_no_change is not None:
            check_integer("n_iter_no_change", self.n_iter_no_change, alternative="None")
        check_number("tol", self.tol, ">= 0", lambda tol: 0 <= tol < np.inf)

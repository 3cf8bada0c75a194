"""Boosting: boosted trees trained for the worst case, and those with large spread.

``fit`` lets `boosted_trees` make trees whose sum has the least worst-case loss that it can find.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import train_test_split

from certiforest.ensemble import TreeEnsemble
from certiforest.ensemble.tree_ensemble import NODES
from certiforest.training.boosted_trees import BoostedTrees, average_bags, boost_trees
from certiforest.training.checks import check_choice, check_integer, check_number, check_share, count_share
from certiforest.training.estimator import RobustEstimator, SummingClassifier
from certiforest.training.training_set import TrainingSet
from certiforest.training.worst_case import LOSSES


@dataclass(eq=False, repr=False)
class Boosting(RobustEstimator):
    """Base of the trainers that boost; other parameters as documented there.

    Parameters
    ----------
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

    LOSSES: ClassVar[tuple[str, ...]]  # to choose from, the default first

    n_estimators: int = 100
    max_depth: int | str | None = "auto"
    learning_rate: float | str = "auto"
    _: KW_ONLY
    loss: str
    max_features: float | str | None = "auto"
    min_samples_leaf: float = 1
    l2_regularization: float | str = "auto"
    validation_fraction: float = 0.1
    n_iter_no_change: int | None = None
    tol: float = 0.0
    n_jobs: int | None = None

    n_bags = 1  # how many models are averaged; a parameter of one trainer only
    forgiveness = 0.0

    def _options(self, n_rows: int) -> dict[str, Any]:
        """Return what `boost_trees` is told of parameters that the other trainer does not have."""
        raise NotImplementedError

    def _train(self, rows: TrainingSet, random_state: np.random.RandomState) -> TreeEnsemble:
        """Boost one bag after the other and average them."""
        rows = rows.that_weigh()
        boosted = average_bags([self._boost(rows, random_state, bag) for bag in range(self.n_bags)])
        ensemble = boosted.ensemble(rows)
        self.n_estimators_ = ensemble.n_trees
        self.learning_rate_ = boosted.learning_rate
        self.train_loss_, self.validation_loss_ = (
            rows.loss_unit(self.loss) * np.array(curve) for curve in (boosted.train_loss, boosted.validation_loss)
        )
        self.feature_importances_ = boosted.importances(rows.X.shape[1])
        return ensemble

    def _boost(self, rows: TrainingSet, random_state: np.random.RandomState, bag: int) -> BoostedTrees:
        """Boost one bag; if asked for, on the rows that are not put aside."""
        validation = None
        if self.n_iter_no_change is not None:
            train, aside = self._put_aside(rows.y_index, random_state)
            rows, validation = rows.take(train), rows.take(aside)
        n_before = bag * self.n_estimators
        return boost_trees(
            rows,
            validation,
            n_estimators=self.n_estimators,
            max_depth=self.max_depth,
            learning_rate=self.learning_rate,
            kind=LOSSES.index(self.loss),
            max_features=self.max_features,
            min_samples_leaf=count_share(self.min_samples_leaf, len(rows.X)),
            l2=self.l2_regularization,
            n_iter_no_change=self.n_iter_no_change,
            tol=self.tol / rows.loss_unit(self.loss),
            random_state=random_state,
            n_jobs=self.n_jobs,
            progress=lambda n_rounds, _: self._report_progress(n_before + n_rounds, self.n_bags * self.n_estimators),
            **self._options(len(rows.X)),
        )

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

    def _check_params(self) -> None:
        check_integer("n_estimators", self.n_estimators)
        if self.max_depth is not None and self.max_depth != "auto":
            check_integer("max_depth", self.max_depth, alternative="'auto' or None")
        if self.learning_rate != "auto":
            check_number("learning_rate", self.learning_rate, "in (0, 1] or 'auto'", lambda rate: 0 < rate <= 1)
        check_choice("loss", self.loss, self.LOSSES)
        check_share("min_samples_leaf", self.min_samples_leaf)
        check_share("validation_fraction", self.validation_fraction)
        if self.max_features is not None and self.max_features != "auto":
            check_share("max_features", self.max_features)
        if self.l2_regularization != "auto":
            check_number(
                "l2_regularization", self.l2_regularization, ">= 0 or 'auto'", lambda weight: 0 <= weight < np.inf
            )
        if self.n_iter_no_change is not None:
            check_integer("n_iter_no_change", self.n_iter_no_change, alternative="None")
        check_number("tol", self.tol, ">= 0", lambda tol: 0 <= tol < np.inf)


@dataclass(eq=False, repr=False)
class BoostingClassifier(Boosting, SummingClassifier):
    """Base of the classifiers that boost.

    Parameters
    ----------
    loss : {"log_loss", "exponential"}, default="log_loss"
        ``log(1 + sum_c exp(-margin[c]))`` or ``sum_c exp(-margin[c])`` over the worst-case margins against each rival
        class. The exponential loss fits hard rows harder.
    l2_regularization, validation_fraction, n_iter_no_change, tol, n_jobs
        See `Boosting`.

    Attributes
    ----------
    learning_rate_, feature_importances_
        See `Boosting`.
    """

    WITHOUT_ATTACKER = "sklearn.ensemble.HistGradientBoostingClassifier"
    LOSSES = LOSSES[:2]

    _: KW_ONLY
    loss: str = "log_loss"

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
            own = (getattr(ensemble, name) for name in NODES)
            nodes = [None if column is None else column[start[tree] : start[tree + 1]] for column in own]
            base = ensemble.base if tree == 0 else None
            single = ensemble.replace(**dict(zip(NODES, nodes, strict=True)), base=base)
            sums = sums + single.decision_function(X)
            yield sums

    def staged_predict(self, X: Any) -> Iterator[NDArray]:
        """Yield the predicted labels after one, two, ... trees, each of shape (n,)."""
        for sums in self.staged_decision_function(X):
            yield self.classes_[sums.argmax(axis=1) if sums.ndim == 2 else (sums > 0).astype(np.intp)]


@dataclass(eq=False, repr=False)
class LargeSpreadBoostingClassifier(BoostingClassifier):
    """Boosted trees whose scores add up, with thresholds of different trees more than ``2 * eps`` apart.

    Training minimises the loss of the worst case: for norm inf, exactly the quantity that `certify` computes. For
    other norms, whose costs add up, it minimises a bound of it (see `worst_case`), and splits are chosen as if the
    attacker spent an eighth of the budget on each feature; `LargeSpreadAdditiveClassifier` withstands those better.
    Large spread is that of the norm itself, so that verdicts are exact.

    Parameters
    ----------
    n_estimators : int, default=100
        Largest number of trees. Training stops before when thresholds have run out.
    max_depth : "auto", int or None, default="auto"
        Largest number of splits on a path; None for no limit. ``"auto"`` halves the rows down to leaves of four,
        ``log2(n) - 2`` times, if there are two classes and a threshold closes more than half of a feature to other
        trees (few deep trees then make the most of each feature), else half of ``log2(n)`` times; three at least. For
        norms other than inf it is three.
    learning_rate : "auto" or float, default="auto"
        Share of each tree's fitted leaf values that is kept, in (0, 1]. ``"auto"`` takes larger steps where there will
        be few trees: the share of a feature's range that a threshold closes to other trees, but between 0.1 and 0.4.
    norm, eps, scale, frozen, direction, attacker, attacked
        Who attacks, see `RobustClassifier`.
    max_features : "auto", int, float or None, default="auto"
        Number, or share, of the features with open thresholds on which each tree grows; None for all. ``"auto"``: all
        if a threshold closes 0.4 or more of a feature to other trees, in proportion less if it closes less, down to a
        fifth; but 32 features at least.
    min_samples_leaf : int or float, default=1
        Number, or share, of the rows that each side of a split must have.
    thrift : float, default=0.85
        How much less, as a share in [0, 1), a gain counts on a feature that is new to the tree, if a threshold closes
        all of that feature to other trees; in proportion if it closes less, as it does for small eps.
    min_gain : float, default=1e-5
        What such a gain must still be, as a share of the weight of all rows.
    n_refits : int, default=10
        How often the leaf values of all trees are fitted again, tree by tree given all others, if thresholds ran out
        before there were ``n_estimators`` trees.
    loss, l2_regularization, validation_fraction, n_iter_no_change, tol, n_jobs
        See `BoostingClassifier`.
    class_weight, random_state, verbose, callback
        See `RobustClassifier`.

    Attributes
    ----------
    ensemble_, attacker_, attacked_, classes_, n_features_in_, feature_names_in_
        See `RobustClassifier`.
    learning_rate_, feature_importances_
        See `BoostingClassifier`.
    n_estimators_ : int
        Number of trees, at most ``n_estimators``.
    train_loss_, validation_loss_ : ndarray of float64, shape (n_stages,)
        Robust training curve: mean worst-case loss without trees, after each tree, and after each refit of all
        values. ``validation_loss_`` is empty without early stopping.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import minmax_scale
    >>> from certiforest import LargeSpreadBoostingClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> boosting = LargeSpreadBoostingClassifier(n_estimators=10, eps=0.05, random_state=0)
    >>> boosting.fit(minmax_scale(X), y).ensemble_
    TreeEnsemble(10 trees, ... nodes, 30 features, 2 classes, scores add up)
    """

    _: KW_ONLY
    thrift: float = 0.85
    min_gain: float = 1e-5
    n_refits: int = 10

    def _options(self, n_rows: int) -> dict[str, Any]:
        return {"thrift": self.thrift, "min_gain": self.min_gain, "n_refits": self.n_refits}

    def _check_params(self) -> None:
        super()._check_params()
        check_number("thrift", self.thrift, "in [0, 1)", lambda share: 0 <= share < 1)
        check_number("min_gain", self.min_gain, "in [0, 1)", lambda share: 0 <= share < 1)
        check_integer("n_refits", self.n_refits, least=0)

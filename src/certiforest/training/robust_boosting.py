"""Robust boosting: trees that share features and thresholds freely, of classes or of numbers."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from certiforest.training.boosting import Boosting, BoostingClassifier
from certiforest.training.checks import check_integer, check_number, check_share, count_share
from certiforest.training.estimator import RobustRegressor
from certiforest.training.worst_case import LOSSES


@dataclass(eq=False, repr=False)
class RobustBoosting(Boosting):
    """Base of the trainers without large spread.

    Parameters
    ----------
    learning_rate : float, default=0.05
        Share of each tree's fitted leaf values that is kept, in (0, 1].
    min_samples_split : int, default=2
        Number of rows, of those the tree grows on, that a node must have to be split.
    max_samples : int, float or None, default=None
        Number, or share, of the rows on which each tree grows, drawn in proportion to what the loss makes of them; None
        for all. Values of leaves are fitted to all rows. With many rows, a tenth saves most of the time.
    n_bags : int, default=1
        Number of models that are boosted on their own and averaged. One model levels off when it has won or given up
        every row; the mean of a few goes on, because chance decides which rows each gives up. Trees of bags fit closer:
        a row near a threshold grows both sides of it.

    Attributes
    ----------
    learning_rate_, feature_importances_
        See `Boosting`.
    n_estimators_ : int
        Number of trees of all classes and bags.
    """

    PROMISES_SPREAD = False

    n_estimators: int = 200
    max_depth: int | str | None = 12
    learning_rate: float | str = 0.05
    _: KW_ONLY
    min_samples_leaf: float = 5
    min_samples_split: int = 2
    max_samples: float | None = None
    n_bags: int = 1

    def _options(self, n_rows: int) -> dict[str, Any]:
        return {
            "has_spread": False,
            "forgiveness": self.forgiveness,
            "min_samples_split": self.min_samples_split,
            "max_samples": None if self.max_samples is None else count_share(self.max_samples, n_rows),
            "keeps_both": self.n_bags > 1,
        }

    def _check_params(self) -> None:
        super()._check_params()
        check_integer("min_samples_split", self.min_samples_split, least=2)
        check_integer("n_bags", self.n_bags)
        if self.max_samples is not None:
            check_share("max_samples", self.max_samples)


@dataclass(eq=False, repr=False)
class RobustBoostingClassifier(RobustBoosting, BoostingClassifier):
    """Boosted trees trained for the worst case, without large spread.

    Training minimises the loss when every tree does its own worst within reach: a bound, because trees that share
    features cannot all do so at once. `certify` decides each row exactly all the same; where trees meet at a row that
    is NP-hard in general and takes milliseconds in practice. The trainer for tables and small ``eps`` of norm inf: no
    threshold is closed to any tree, so accuracy comes near to that of plain boosting. For other
    norms `LargeSpreadAdditiveClassifier` is the one. With more than two classes every class gets a tree of its own in
    each round.

    Parameters
    ----------
    n_estimators : int, default=200
        Largest number of trees; of trees for each class, if there are more than two.
    max_depth : int or None, default=12
        Largest number of splits on a path; None for no limit. Between 6 (noisy labels) and 20 (clear ones): choose by
        folds of the training rows.
    learning_rate
        See `RobustBoosting`.
    norm, eps, scale, frozen, direction, attacker, attacked
        Who attacks, see `RobustClassifier`.
    forgiveness : float, default=0.0
        If q > 0, a row's loss l counts as ``(1 - exp(-q * l)) / q``: rows that are lost anyway pull less at the trees.
    max_features : "auto", int, float or None, default="auto"
        Number, or share, of the features on which each tree grows; None for all. ``"auto"``: a fifth, but 32 features
        at least. With more than two classes each split draws anew.
    min_samples_leaf : int or float, default=5
        Number, or share, of the rows that each side of a split must have.
    min_samples_split, max_samples, n_bags
        See `RobustBoosting`.
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
    n_estimators_
        See `RobustBoosting`.
    train_loss_, validation_loss_ : ndarray of float64, shape (n_stages,)
        Mean worst-case loss without trees and after each round, one bag after the other; ``validation_loss_`` is empty
        without early stopping. For norms other than inf, of an attacker who spends an eighth of the budget on each
        feature, as training thinks of it: no bound of the worst case.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import minmax_scale
    >>> from certiforest import RobustBoostingClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> boosting = RobustBoostingClassifier(n_estimators=10, eps=0.05, random_state=0)
    >>> boosting.fit(minmax_scale(X), y).ensemble_
    TreeEnsemble(10 trees, ... nodes, 30 features, 2 classes, scores add up)
    """

    _: KW_ONLY
    loss: str = "log_loss"
    forgiveness: float = 0.0

    def _check_params(self) -> None:
        super()._check_params()
        check_number("forgiveness", self.forgiveness, ">= 0", lambda weight: 0 <= weight < np.inf)


@dataclass(eq=False, repr=False)
class RobustBoostingRegressor(RobustRegressor, RobustBoosting):
    """Boosted trees that predict numbers, trained for the largest error that an attacker can cause.

    The error of a row is the distance of its true value from the farther end of what every tree, at its own worst, lets
    the attacker reach: a bound of what ``certify(regressor, X, y, attacker, tolerance=...)`` finds exactly.

    Parameters
    ----------
    n_estimators : int, default=200
        Largest number of trees.
    max_depth : int or None, default=4
        Largest number of splits on a path; None for no limit.
    learning_rate
        See `RobustBoosting`.
    norm, eps, scale, frozen, direction, attacker
        Who attacks, see `RobustEstimator`.
    loss
        See `RobustRegressor`.
    max_features : "auto", int, float or None, default="auto"
        Number, or share, of the features on which each tree grows; None for all. ``"auto"``: a fifth, but 32 features
        at least.
    min_samples_leaf : int or float, default=20
        Number, or share, of the rows that each side of a split must have.
    min_samples_split, max_samples, n_bags
        See `RobustBoosting`.
    l2_regularization, validation_fraction, n_iter_no_change, tol, n_jobs
        See `Boosting`.
    random_state, verbose, callback
        See `RobustEstimator`.

    Attributes
    ----------
    ensemble_, attacker_, n_features_in_, feature_names_in_
        See `RobustEstimator`.
    learning_rate_, feature_importances_
        See `Boosting`.
    n_estimators_
        See `RobustBoosting`.
    train_loss_, validation_loss_ : ndarray of float64, shape (n_stages,)
        Mean worst-case error, or its square, without trees and after each tree, one bag after the other;
        ``validation_loss_`` is empty without early stopping. For norms other than inf no bound of the worst case.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from certiforest import Attacker, RobustBoostingRegressor, certify
    >>> X, y = load_diabetes(return_X_y=True)
    >>> attacker = Attacker(eps=0.05, scale=X.max(axis=0) - X.min(axis=0))
    >>> model = RobustBoostingRegressor(n_estimators=20, max_depth=3, attacker=attacker, random_state=0).fit(X, y)
    >>> c = certify(model, X[:5], y[:5], attacker, tolerance=40)
    >>> bool((c.low <= model.predict(X[:5])).all() and (model.predict(X[:5]) <= c.high).all())
    True
    """

    LOSSES = LOSSES[2:]

    max_depth: int | str | None = 4
    _: KW_ONLY
    min_samples_leaf: float = 20

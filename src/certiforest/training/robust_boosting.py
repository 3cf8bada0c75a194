"""RobustBoostingClassifier: boosted trees trained for the worst case that share features and thresholds freely."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from certiforest.attack.attacker import Attacker
from certiforest.training.boosting_base import BoostingClassifier


class RobustBoostingClassifier(BoostingClassifier):
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
    learning_rate : float, default=0.05
        Share of each tree's fitted leaf values that is kept, in (0, 1].
    norm, eps, scale, frozen, direction, attacker, attacked
        Who attacks, see `RobustClassifier`.
    forgiveness : float, default=0.0
        If q > 0, a row's loss l counts as ``(1 - exp(-q * l)) / q``: rows that are lost anyway pull less at the trees.
    max_features : "auto", int, float or None, default="auto"
        Number, or share, of the features on which each tree grows; None for all. ``"auto"``: a fifth, but 32 features
        at least. With more than two classes each split draws anew.
    min_samples_leaf : int or float, default=5
        Number, or share, of the rows that each side of a split must have.
    min_samples_split : int, default=2
        Number of rows, of those the tree grows on, that a node must have to be split.
    max_samples : int, float or None, default=None
        Number, or share, of the rows on which each tree grows, drawn in proportion to what the loss makes of them; None
        for all. Values of leaves are fitted to all rows. With many rows, a tenth saves most of the time.
    n_bags : int, default=1
        Number of models that are boosted on their own and averaged. One model levels off when it has won or given up
        every row; the mean of a few goes on, because chance decides which rows each gives up. Trees of bags fit closer:
        a row near a threshold grows both sides of it.
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
        Number of trees of all classes and bags.
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

    PROMISES_SPREAD = False

    def __init__(
        self,
        n_estimators: int = 200,
        max_depth: int | None = 12,
        learning_rate: float = 0.05,
        *,
        norm: float | str = np.inf,
        eps: float = 0.01,
        scale: ArrayLike | None = None,
        frozen: Iterable[int] | None = None,
        loss: str = "log_loss",
        forgiveness: float = 0.0,
        max_features: float | str | None = "auto",
        min_samples_leaf: float = 5,
        min_samples_split: int = 2,
        max_samples: float | None = None,
        n_bags: int = 1,
        l2_regularization: float | str = "auto",
        class_weight: str | dict | None = None,
        validation_fraction: float = 0.1,
        n_iter_no_change: int | None = None,
        tol: float = 0.0,
        random_state: int | np.random.RandomState | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        callback: Callable[[int, int], None] | None = None,
        direction: str | Mapping[int | str, str] | None = None,
        attacked: Iterable[Any] | None = None,
        attacker: Attacker | None = None,
    ) -> None:
        self.n_estimators = n_estimators
        self.max_depth = max_depth
        self.learning_rate = learning_rate
        self.norm = norm
        self.eps = eps
        self.scale = scale
        self.frozen = frozen
        self.direction = direction
        self.attacked = attacked
        self.attacker = attacker
        self.loss = loss
        self.forgiveness = forgiveness
        self.max_features = max_features
        self.min_samples_leaf = min_samples_leaf
        self.min_samples_split = min_samples_split
        self.max_samples = max_samples
        self.n_bags = n_bags
        self.l2_regularization = l2_regularization
        self.class_weight = class_weight
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.tol = tol
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.callback = callback

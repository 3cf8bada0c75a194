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
    norm : int, float or str, default=inf
        Norm of the attacker: 0, 1, 2, ... or inf, or its name as in `Attacker`.
    eps : float, default=0.01
        Budget of the attacker, > 0; the number of features for norm 0.
    scale : float or array-like of shape (n_features,), optional
        Unit of each feature, see `Attacker`.
    frozen : iterable of int, or boolean mask of shape (n_features,), optional
        Features that the attacker cannot change.
    direction : "up", "down", "both" or dict of columns, optional
        Which way the attacker can move features, see `Attacker`.
    attacker : Attacker or RuleAttacker, optional
        Who attacks, instead of ``norm``, ``eps``, ``scale``, ``frozen`` and ``direction``, which then keep their
        defaults. Of what else holds an `Attacker` back, training takes no notice. For rules, trees are trained for
        their reach within the budget, as if every column could go all the way at once.
    attacked : list of labels, optional
        The classes whose rows are attacked; all if not given. Rows of other classes count as they are.
    loss : {"log_loss", "exponential"}, default="log_loss"
        ``log(1 + sum_c exp(-margin[c]))`` or ``sum_c exp(-margin[c])`` over the worst-case margins against each rival
        class.
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
    l2_regularization : "auto" or float, default="auto"
        Weight of half the sum of squared leaf values of a tree, in units of row weights. ``"auto"``: the root of the
        sum of all weights, over 20 and over the number of rival classes.
    class_weight : "balanced", dict or None, default=None
        As in `sklearn.ensemble.HistGradientBoostingClassifier`.
    validation_fraction : int or float, default=0.1
        Number, or share, of rows put aside for early stopping; without effect if ``n_iter_no_change`` is None.
    n_iter_no_change : int or None, default=None
        Stop when the worst-case loss of the rows put aside has not fallen for so many rounds, and drop the trees after
        the best. None: no early stopping, all rows train.
    tol : float, default=0.0
        By how much the loss must fall to count.
    random_state : int, RandomState or None, default=None
        Source of all randomness; an int makes ``fit`` repeatable.
    n_jobs : int or None, default=None
        Threads for training; the result does not depend on it.
    verbose : int, default=0
        If positive, progress is logged at level INFO by the logger ``certiforest.training.robust_boosting``.
    callback : callable, optional
        Called as ``callback(n_rounds, n_wanted)`` after each round, over all bags.

    Attributes
    ----------
    ensemble_ : TreeEnsemble
        The trees. Scores are whole multiples of 2**-32, so that their sums are exact.
    attacker_ : Attacker
        The attacker it was trained for.
    attacked_ : ndarray or None
        Labels of the classes that are attacked, if not all are.
    classes_ : ndarray of shape (n_classes,)
        Class labels.
    n_estimators_ : int
        Number of trees of all classes and bags.
    learning_rate_ : float
        Share of fitted values that was kept.
    train_loss_, validation_loss_ : ndarray of float64, shape (n_stages,)
        Mean worst-case loss without trees and after each round, one bag after the other; ``validation_loss_`` is empty
        without early stopping. For norms other than inf, of an attacker who spends an eighth of the budget on each
        feature, as training thinks of it: no bound of the worst case.
    feature_importances_ : ndarray of float64, shape (n_features,)
        Share of each feature in the worst-case gains of all splits.
    n_features_in_ : int
        Number of features seen during ``fit``.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of features seen during ``fit``, if all are strings.

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

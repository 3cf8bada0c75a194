"""LargeSpreadBoostingClassifier: boosted trees trained for exactly what is certified.

``fit`` checks its parameters and data, lets `boosted_trees` make trees whose sum has the least worst-case loss it can
find, and proves that they have large spread for the attacker described by ``norm``, ``eps``, ``scale``, ``frozen``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.model_selection import train_test_split

from certiforest.attack.attacker import Attacker
from certiforest.ensemble import TreeEnsemble
from certiforest.training.boosted_trees import boost_trees
from certiforest.training.checks import check_choice, check_integer, check_number, count_share
from certiforest.training.estimator import SummingClassifier
from certiforest.training.sums import LabelledRows

LOSSES = ("log_loss", "exponential")
UNLIMITED = int(np.iinfo(np.int32).max)
N_STEPS = 8


class LargeSpreadBoostingClassifier(SummingClassifier):
    """Boosted trees whose scores add up, with thresholds of different trees more than ``2 * eps`` apart.

    Training minimises the loss of the worst case: for norm inf, exactly the quantity that `certify` computes. For
    other finite norms the attacker may move every feature by ``eps`` while training (the norm inf ball holds all
    others), for norm 0 none while training; large spread is that of the norm itself, so that verdicts stay exact.

    Parameters
    ----------
    n_estimators : int, default=100
        Largest number of trees. Training stops before when thresholds have run out.
    max_depth : "auto", int or None, default="auto"
        Largest number of splits on a path; None for no limit. ``"auto"`` halves the rows down to leaves of four,
        ``log2(n) - 2`` times, if there are two classes and a threshold closes more than half of a feature to other
        trees (few deep trees then make the most of each feature), else half of ``log2(n)`` times; three at least.
    learning_rate : "auto" or float, default="auto"
        Share of each tree's fitted leaf values that is kept, in (0, 1]. ``"auto"`` takes larger steps where there will
        be few trees: the share of a feature's range that a threshold closes to other trees, but between 0.1 and 0.4.
    norm : int, float or str, default=inf
        Norm of the attacker: 0, 1, 2, ... or inf, or its name as in `Attacker`. For norm 0 every tree gets features
        of its own.
    eps : float, default=0.01
        Budget of the attacker, > 0; the number of features for norm 0.
    scale : float or array-like of shape (n_features,), optional
        Unit of each feature, see `Attacker`.
    frozen : iterable of int, or boolean mask of shape (n_features,), optional
        Features that the attacker cannot change. Trees share them freely.
    loss : {"log_loss", "exponential"}, default="log_loss"
        ``log(1 + sum_c exp(-margin[c]))`` or ``sum_c exp(-margin[c])`` over the worst-case margins against each rival
        class. The exponential loss fits hard rows harder.
    max_features : "auto", int, float or None, default="auto"
        Number, or share, of the features with open thresholds on which each tree grows; None for all. ``"auto"``: all
        if a threshold closes 0.4 or more of a feature to other trees, in proportion less if it closes less, down to a
        fifth; but 32 features at least.
    min_samples_leaf : int or float, default=1
        Number, or share, of the rows that each side of a split must have.
    l2_regularization : "auto" or float, default="auto"
        Weight of half the sum of squared leaf values of a tree, in units of row weights. ``"auto"``: the root of the
        sum of all weights, over 20 and over the number of rival classes.
    thrift : float, default=0.85
        How much less, as a share in [0, 1), a gain counts on a feature that is new to the tree, if a threshold closes
        all of that feature to other trees; in proportion if it closes less, as it does for small eps.
    min_gain : float, default=1e-5
        What such a gain must still be, as a share of the weight of all rows.
    n_refits : int, default=10
        How often the leaf values of all trees are fitted again, tree by tree given all others, if thresholds ran out
        before there were ``n_estimators`` trees.
    class_weight : "balanced", dict or None, default=None
        As in `sklearn.ensemble.HistGradientBoostingClassifier`.
    validation_fraction : int or float, default=0.1
        Number, or share, of rows put aside for early stopping; without effect if ``n_iter_no_change`` is None.
    n_iter_no_change : int or None, default=None
        Stop when the worst-case loss of the rows put aside has not fallen for so many trees, and drop the trees after
        the best. None: no early stopping, all rows train.
    tol : float, default=0.0
        By how much the loss must fall to count.
    random_state : int, RandomState or None, default=None
        Source of all randomness; an int makes ``fit`` repeatable.
    n_jobs : int or None, default=None
        Threads for training; the result does not depend on it.
    verbose : int, default=0
        If positive, progress is logged at level INFO by the logger ``certiforest.training.boosting``.
    callback : callable, optional
        Called as ``callback(n_trees, n_estimators)`` after each tree.

    Attributes
    ----------
    ensemble_ : TreeEnsemble
        The trees. Scores are whole multiples of 2**-32, so that their sums are exact.
    attacker_ : Attacker
        The attacker for which the ensemble has large spread.
    classes_ : ndarray of shape (n_classes,)
        Class labels.
    n_estimators_ : int
        Number of trees, at most ``n_estimators``.
    learning_rate_ : float
        Share of fitted values that was kept.
    train_loss_, validation_loss_ : ndarray of float64, shape (n_stages,)
        Robust training curve: mean worst-case loss without trees, after each tree, and after each refit of all
        values. ``validation_loss_`` is empty without early stopping.
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
    >>> from certiforest import LargeSpreadBoostingClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> boosting = LargeSpreadBoostingClassifier(n_estimators=10, eps=0.05, random_state=0)
    >>> boosting.fit(minmax_scale(X), y).ensemble_
    TreeEnsemble(10 trees, ... nodes, 30 features, 2 classes, scores add up)
    """

    WITHOUT_ATTACKER = "sklearn.ensemble.HistGradientBoostingClassifier"

    def __init__(
        self,
        n_estimators: int = 100,
        max_depth: int | str | None = "auto",
        learning_rate: float | str = "auto",
        *,
        norm: float | str = np.inf,
        eps: float = 0.01,
        scale: ArrayLike | None = None,
        frozen: Iterable[int] | None = None,
        loss: str = "log_loss",
        max_features: float | str | None = "auto",
        min_samples_leaf: float = 1,
        l2_regularization: float | str = "auto",
        thrift: float = 0.85,
        min_gain: float = 1e-5,
        n_refits: int = 10,
        class_weight: str | dict | None = None,
        validation_fraction: float = 0.1,
        n_iter_no_change: int | None = None,
        tol: float = 0.0,
        random_state: int | np.random.RandomState | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        callback: Callable[[int, int], None] | None = None,
    ) -> None:
        self.n_estimators = n_estimators
        self.max_depth = max_depth
        self.learning_rate = learning_rate
        self.norm = norm
        self.eps = eps
        self.scale = scale
        self.frozen = frozen
        self.loss = loss
        self.max_features = max_features
        self.min_samples_leaf = min_samples_leaf
        self.l2_regularization = l2_regularization
        self.thrift = thrift
        self.min_gain = min_gain
        self.n_refits = n_refits
        self.class_weight = class_weight
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.tol = tol
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.callback = callback

    def _train(
        self,
        X: NDArray[np.float64],
        y_index: NDArray[np.int64],
        weight: NDArray[np.float64] | None,
        attacker: Attacker,
        random_state: np.random.RandomState,
    ) -> TreeEnsemble:
        """Put rows aside if asked for, and boost on the others."""
        rows = LabelledRows.weighted(X, y_index, weight)
        validation = None
        if self.n_iter_no_change is not None:
            train, aside = self._put_aside(rows.y_index, random_state)
            rows, validation = rows.take(train), rows.take(aside)
        boosted = boost_trees(
            rows,
            len(self.classes_),
            attacker,
            validation=validation,
            n_estimators=self.n_estimators,
            max_depth=self._depth(),
            learning_rate=None if self.learning_rate == "auto" else float(self.learning_rate),
            is_exponential=self.loss == "exponential",
            max_features=self._share_of_features(X.shape[1]),
            min_samples_leaf=count_share(self.min_samples_leaf, len(rows.X)),
            l2=None if self.l2_regularization == "auto" else float(self.l2_regularization),
            thrift=self.thrift,
            min_gain=self.min_gain,
            n_steps=N_STEPS,
            n_refits=self.n_refits,
            n_iter_no_change=self.n_iter_no_change,
            tol=self.tol,
            random_state=random_state,
            n_jobs=self.n_jobs,
            progress=self._report_progress,
        )
        ensemble = boosted.ensemble(X.shape[1], self.classes_, self._names)
        self.n_estimators_ = ensemble.n_trees
        self.learning_rate_ = boosted.learning_rate
        self.train_loss_ = np.array(boosted.train_loss)
        self.validation_loss_ = np.array(boosted.validation_loss)
        self.feature_importances_ = boosted.importances(X.shape[1])
        return ensemble

    @property
    def _log_odds_per_unit(self) -> float:
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
        for name in ("max_features", "min_samples_leaf", "validation_fraction"):
            value = getattr(self, name)
            if isinstance(value, Integral):
                check_integer(name, value)
            elif not (name == "max_features" and (value is None or value == "auto")):
                check_number(name, value, "in (0, 1] or an integer >= 1", lambda share: 0 < share <= 1)
        if self.l2_regularization != "auto":
            check_number(
                "l2_regularization", self.l2_regularization, ">= 0 or 'auto'", lambda weight: 0 <= weight < np.inf
            )
        check_number("thrift", self.thrift, "in [0, 1)", lambda share: 0 <= share < 1)
        check_number("min_gain", self.min_gain, "in [0, 1)", lambda share: 0 <= share < 1)
        check_integer("n_refits", self.n_refits, least=0)
        if self.n_iter_no_change is not None:
            check_integer("n_iter_no_change", self.n_iter_no_change, alternative="None")
        check_number("tol", self.tol, ">= 0", lambda tol: 0 <= tol < np.inf)

"""LargeSpreadBoostingClassifier: boosted trees trained for exactly what is certified.

``fit`` checks its parameters and data, lets `boosted_trees` make trees whose sum has the least worst-case loss it can
find, and proves that they have large spread for the attacker described by ``norm``, ``eps``, ``scale``, ``frozen``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from certiforest.attack.attacker import Attacker
from certiforest.training.boosting_base import BoostingClassifier
from certiforest.training.checks import check_integer, check_number


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

    def _spread_options(self) -> dict[str, Any]:
        return {"thrift": self.thrift, "min_gain": self.min_gain, "n_refits": self.n_refits}

    def _check_params(self) -> None:
        super()._check_params()
        check_number("thrift", self.thrift, "in [0, 1)", lambda share: 0 <= share < 1)
        check_number("min_gain", self.min_gain, "in [0, 1)", lambda share: 0 <= share < 1)
        check_integer("n_refits", self.n_refits, least=0)

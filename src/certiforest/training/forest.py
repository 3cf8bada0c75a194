"""LargeSpreadForestClassifier: a voting forest whose robustness can be verified exactly and fast.

``fit`` lets one of two methods make a `TreeEnsemble`: `growing`, or the paper's `pruning`.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import KW_ONLY, dataclass
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from certiforest.ensemble import TreeEnsemble
from certiforest.training.checks import check_choice, check_integer, check_number, check_share, count_share
from certiforest.training.estimator import RobustClassifier
from certiforest.training.growing import grow_forest
from certiforest.training.pruning import train_pruned_forest
from certiforest.training.training_set import TrainingSet

METHODS = ("grow", "prune")
ON_SHORTFALL = ("raise", "keep")


class ShortfallError(RuntimeError):
    """Training could not fit in as many trees as asked for."""


class ShortfallWarning(UserWarning):
    """Training kept fewer trees than asked for."""


@dataclass(eq=False, repr=False)
class LargeSpreadForestClassifier(RobustClassifier):
    """A forest whose trees vote, with thresholds of different trees more than ``2 * eps`` apart.

    Parameters
    ----------
    n_estimators : int, default=25
        Number of trees.
    max_depth : int or None, default=6
        Largest number of splits on a path.
    norm, eps, scale, frozen, direction, attacker, attacked
        Who attacks, see `RobustClassifier`.
    method : {"grow", "prune"}, default="grow"
        ``"grow"``: grow all trees under the constraint, each split chosen for what the attacker leaves of it.
        ``"prune"``: train a random forest, keep the trees that can be made to have large spread by moving
        thresholds (the paper's algorithm).
    min_samples_leaf : int or float, default=1
        As in `sklearn.ensemble.RandomForestClassifier`.
    max_features : {"auto", "sqrt", "log2", None}, int or float, default="auto"
        Features looked at for a split, as in `sklearn.ensemble.RandomForestClassifier`. ``"auto"`` means the square
        root of their number, but for ``"grow"`` at least a tenth of them.
    class_weight : {"balanced", "balanced_subsample"}, dict or None, default=None
        As in `sklearn.ensemble.RandomForestClassifier`.
    bootstrap : bool, default=False
        Grow: whether each tree sees a bootstrap sample of the rows.
    n_rounds : int, default=10
        Grow: number of rounds in which the trees grow, at most one per tree; each round turns to the rows that the
        trees so far leave in danger.
    focus : float, default=10.0
        Grow: how strongly; 0 makes all rows count alike.
    max_iter : int, default=100
        Prune: rounds of pushing thresholds apart for each tree (the paper's MAX_ITER).
    pool_factor : int, default=2
        Prune: the forest to choose from has ``pool_factor * n_estimators`` trees (MULT).
    shift_range : pair of float, default=(0.5, 1.0)
        Prune: how far a threshold is pushed at a time, drawn from this range, in multiples of ``eps`` (INTV).
    n_partitions : int, default=1
        Prune: number of random partitions of the features, trained one after the other (l). With norm 0 there
        is one per tree.
    n_orders : int, default=32
        Prune: in how many ways to decide between trees that overlap equally, which the paper leaves open. The first
        takes the tree that is most robust alone; the others stray from it at random. What keeps the most trees,
        then the most training rows robust, is the result.
    relabel : bool, default=False
        Prune: whether each leaf finally gets the class of most training rows in it.
    on_shortfall : {"raise", "keep"}, default="raise"
        What to do when fewer than ``n_estimators`` trees could be fitted in: raise a `ShortfallError`, or
        keep the smaller ensemble with a `ShortfallWarning`.
    n_jobs : int or None, default=None
        Threads for training; the result does not depend on it.
    random_state, verbose, callback
        See `RobustClassifier`.

    Attributes
    ----------
    ensemble_, attacker_, attacked_, classes_, n_features_in_, feature_names_in_
        See `RobustClassifier`.
    n_iter_ : int
        Prune: most rounds that a kept tree took, at least 1; if it is near ``max_iter``, more may help.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import minmax_scale
    >>> from certiforest.training.forest import LargeSpreadForestClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> forest = LargeSpreadForestClassifier(n_estimators=11, max_depth=3, eps=0.01, random_state=0)
    >>> forest.fit(minmax_scale(X), y).ensemble_
    TreeEnsemble(11 trees, ... nodes, 30 features, 2 classes)
    """

    WITHOUT_ATTACKER = "sklearn.ensemble.RandomForestClassifier"

    n_estimators: int = 25
    max_depth: int | None = 6
    _: KW_ONLY
    method: str = "grow"
    min_samples_leaf: float = 1
    max_features: str | float | None = "auto"
    bootstrap: bool = False
    n_rounds: int = 10
    focus: float = 10.0
    max_iter: int = 100
    pool_factor: int = 2
    shift_range: tuple[float, float] = (0.5, 1.0)
    n_partitions: int = 1
    n_orders: int = 32
    relabel: bool = False
    on_shortfall: str = "raise"
    n_jobs: int | None = None

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the share of trees that vote for each class, shape (n, n_classes)."""
        X = self._check_rows(X)
        return self.ensemble_.votes(X) / self.ensemble_.n_trees

    def _train(self, rows: TrainingSet, random_state: np.random.RandomState) -> TreeEnsemble:
        """Train by the chosen method and set ``n_iter_``."""
        n_rows, n_features = rows.X.shape
        common: dict[str, Any] = {
            "n_estimators": self.n_estimators,
            "random_state": random_state,
            "n_jobs": self.n_jobs,
            "progress": self._report_progress,
        }
        if self.method == "grow":
            self.n_iter_ = min(self.n_rounds, self.n_estimators)
            return grow_forest(
                rows,
                **common,
                max_depth=self.max_depth,
                max_features=self._count_features(n_features),
                min_samples_leaf=count_share(self.min_samples_leaf, n_rows),
                bootstrap=self.bootstrap,
                n_rounds=self.n_rounds,
                focus=self.focus,
            )
        self._check_partitions(rows)
        forest_params: dict[str, Any] = {
            "max_depth": self.max_depth,
            "min_samples_leaf": self.min_samples_leaf,
            "max_features": "sqrt" if self.max_features == "auto" else self.max_features,
            "class_weight": "balanced_subsample" if self.class_weight == "balanced_subsample" else None,
        }
        ensemble, n_rounds = train_pruned_forest(
            rows,
            **common,
            max_iter=self.max_iter,
            pool_factor=self.pool_factor,
            shift_range=(float(self.shift_range[0]), float(self.shift_range[1])),
            n_partitions=self.n_partitions,
            n_orders=self.n_orders,
            relabel=self.relabel,
            forest_params=forest_params,
        )
        self.n_iter_ = max(1, n_rounds)
        if ensemble.n_trees < self.n_estimators:
            self._report_shortfall(ensemble.n_trees)
        return ensemble

    def _count_features(self, n_features: int) -> int:
        """Return how many features a node of a growing tree looks at first."""
        named: dict[Any, int] = {
            "auto": max(math.ceil(math.sqrt(n_features)), n_features // 10),
            "sqrt": math.isqrt(n_features),
            "log2": int(math.log2(n_features)),
            None: n_features,
        }
        if isinstance(self.max_features, Real):
            return count_share(self.max_features, n_features)
        check_choice("max_features", self.max_features, tuple(named))
        return max(1, named[self.max_features])

    def _class_weight(self) -> str | dict | None:
        if self.class_weight == "balanced_subsample":  # growing trees all see the same rows
            return "balanced" if self.method == "grow" else None
        return self.class_weight

    def _check_params(self) -> None:
        check_integer("n_estimators", self.n_estimators)
        if self.max_depth is not None:
            check_integer("max_depth", self.max_depth, alternative="None")
        check_choice("method", self.method, METHODS)
        check_share("min_samples_leaf", self.min_samples_leaf)
        if isinstance(self.max_features, Real):
            check_share("max_features", self.max_features)
        check_integer("n_rounds", self.n_rounds)
        check_number("focus", self.focus, ">= 0", lambda focus: 0 <= focus < np.inf)
        check_integer("max_iter", self.max_iter)
        check_integer("pool_factor", self.pool_factor)
        check_integer("n_partitions", self.n_partitions)
        check_integer("n_orders", self.n_orders)
        check_choice("on_shortfall", self.on_shortfall, ON_SHORTFALL)
        try:
            low, high = self.shift_range
            is_range = bool(0 < low <= high < np.inf)
        except (TypeError, ValueError):
            is_range = False
        if not is_range:
            raise ValueError(
                "Expected shift_range to be a pair of numbers with 0 < low <= high,"
                f" got {self.shift_range!r}; the paper's ranges are (0.5, 1.0) and (1.0, 1.5)."
            )

    def _check_partitions(self, rows: TrainingSet) -> None:
        """Refuse to prune more partitions than there are features or trees."""
        attacker = rows.attacker
        n_movable = int((~attacker.is_frozen(rows.X.shape[1])).sum())
        if attacker.norm == 0 and n_movable < self.n_estimators:
            raise ValueError(
                f"Expected at least one feature per tree with norm 0, got {n_movable} that are not frozen for"
                f" {self.n_estimators} trees; lower n_estimators to {n_movable} or less."
            )
        if attacker.norm != 0 and self.n_partitions > min(n_movable, self.n_estimators):
            raise ValueError(
                "Expected at least one tree and one feature that is not frozen for each partition, got"
                f" n_partitions={self.n_partitions} for n_estimators={self.n_estimators} and"
                f" n_features={n_movable}; lower n_partitions."
            )

    def _report_shortfall(self, n_trees: int) -> None:
        shortfall = (
            f"Expected {self.n_estimators} trees with large spread for {self._budget}, got {n_trees} before"
            f" the forest of {self.pool_factor} times as many was used up"
        )
        advice = "raise n_partitions, pool_factor, n_orders or max_iter, or lower n_estimators, max_depth or eps"
        if self.on_shortfall == "raise":
            raise ShortfallError(f"{shortfall}; {advice}, or keep the smaller ensemble by on_shortfall='keep'.")
        warnings.warn(f"{shortfall}; to get all, {advice}.", ShortfallWarning, stacklevel=4)

"""RobustEstimator, RobustClassifier, RobustRegressor: what all trainers share as estimators of scikit-learn.

A trainer checks its parameters and makes an ensemble; everything else is here, once: checks of rows and labels, the
attacker, weights, the proof of large spread, the warning that one thing only is ever said, predictions, progress.
"""

from __future__ import annotations

import inspect
import logging
import re
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import Tags, check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from certiforest.attack.attacker import Attacker
from certiforest.attack.parameters import check_attacked
from certiforest.attack.spread import has_large_spread
from certiforest.ensemble import TreeEnsemble
from certiforest.training.checks import check_attacker, check_classes, check_finite, check_learnable, combine_weights
from certiforest.training.rule_reach import RuleReach
from certiforest.training.training_set import TrainingSet, on_grid

LARGEST_TARGET = 1e100  # whose square, summed over rows, is a float
DESCRIPTION = ("norm", "eps", "scale", "frozen", "direction")  # what trainers know of an attacker who has no rules
# Entries of a docstring: one for some names, and several that are as in a base.
ENTRY = re.compile(r"^(\w[\w, ]*) : .*\n(?:    .*\n)+", re.MULTILINE)
SHARED_ENTRY = re.compile(r"^(\w[\w, ]*)\n    .*[Ss]ee `(\w+)`\.\n", re.MULTILINE)


class ConstantWarning(UserWarning):
    """A model says always the same, because the attacker leaves no more."""


@dataclass(eq=False, repr=False, kw_only=True)
class RobustEstimator(BaseEstimator):
    """What all trainers share. One has these parameters and more, and implements the methods that are open here.

    Parameters
    ----------
    norm : int, float or str
        Norm of the attacker: 0, 1, 2, ... or inf, or its name as in `Attacker`. Large spread is the same condition for
        all norms but 0, for which every tree gets features of its own.
    eps : float
        Budget of the attacker, > 0; the number of features for norm 0.
    scale : float or array-like of shape (n_features,), or a pair of these, optional
        Unit of each feature, see `Attacker`.
    frozen : iterable of int, or boolean mask of shape (n_features,), optional
        Features that the attacker cannot change. Trees share them freely.
    direction : "up", "down", "both" or dict of columns, optional
        Which way the attacker can move features, see `Attacker`; one-way features close half as many thresholds.
    attacker : Attacker or RuleAttacker, optional
        Who attacks, instead of ``norm``, ``eps``, ``scale``, ``frozen`` and ``direction``, which then keep their
        defaults. Columns that stay whole are frozen if eps is less than a step; of what else holds an `Attacker`
        back, training takes no notice, but for whole steps and the domain where trees own their columns. For rules,
        trees are trained for their reach within the budget, as if every column could go all the way at once.
    random_state : int, RandomState or None, default=None
        Source of all randomness; an int makes ``fit`` repeatable.
    verbose : int, default=0
        If positive, progress is logged at level INFO by the logger of the trainer's module.
    callback : callable, optional
        Called as ``callback(n_done, n_wanted)`` after each tree, round of trees, or pass over the rows.

    Attributes
    ----------
    ensemble_ : TreeEnsemble
        The trees. Scores, if trees add up, are whole multiples of 2**-32, so that their sums are exact.
    attacker_ : Attacker
        The attacker it was trained for. Trainers of large spread promise it for this one, if it has a norm.
    n_features_in_ : int
        Number of features seen during ``fit``.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of features seen during ``fit``, if all are strings.
    """

    WITHOUT_ATTACKER: ClassVar[str]  # what to use when there is none
    PROMISES_SPREAD: ClassVar[bool] = True
    SAYS: ClassVar[str] = "the class"

    norm: float | str = np.inf
    eps: float = 0.01
    scale: ArrayLike | None = None
    frozen: Iterable[int] | None = None
    direction: str | Mapping[int | str, str] | None = None
    attacker: Attacker | None = None
    random_state: int | np.random.RandomState | None = None
    verbose: int = 0
    callback: Callable[[int, int], None] | None = None

    # What `fit` learns: who compares estimators by their fields must not take two for one.
    ensemble_: TreeEnsemble = field(init=False)
    attacker_: Attacker = field(init=False)

    def __init_subclass__(cls, **options: Any) -> None:
        """Say in the docstring of a trainer what it says by reference to this class: help() shows one class only."""
        super().__init_subclass__(**options)
        said = {base.__name__: _entries(base) for base in cls.__mro__[1:] if issubclass(base, RobustEstimator)}

        def tell(reference: re.Match[str]) -> str:
            entries, names = said.get(reference[2], {}), reference[1].split(", ")
            return "".join(dict.fromkeys(entries[name] for name in names)) if {*names} <= {*entries} else reference[0]

        cls.__doc__ = cls.__doc__ and SHARED_ENTRY.sub(tell, inspect.cleandoc(cls.__doc__))

    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Train for the attacker.

        Parameters
        ----------
        X : array-like or data frame of shape (n, n_features)
            Finite numbers, or NaN where a value is missing. Each split learns a side for missing values: the better
            one, or that of more weight if no row there misses the feature. Nobody blanks or fills values. If none is
            missing in any row, the model has no place for NaN, and refuses it later.
        y : array-like of shape (n,)
            Labels of at least two classes, or a regressor's finite numbers.
        sample_weight : array-like of shape (n,), optional
            Weight of each row, >= 0.

        Returns
        -------
        RobustEstimator
            The fitted estimator itself.

        Warns
        -----
        ConstantWarning
            If the model says the same of every training row.
        """
        self._check_params()
        described = {name: getattr(self, name) for name in DESCRIPTION}
        defaults = {name: getattr(type(self), name) for name in DESCRIPTION}
        attacker = check_attacker(self.attacker, described, defaults, self.WITHOUT_ATTACKER)
        is_numeric = self.SAYS == "the number"
        X, y = validate_data(
            self, X, y, dtype=np.float64, order="C", ensure_all_finite=False, y_numeric=is_numeric,
            ensure_min_samples=1 + is_numeric,
        )  # fmt: skip
        names = list(self.feature_names_in_) if hasattr(self, "feature_names_in_") else None
        self.attacker_ = attacker = attacker.resolve(X.shape[1], names)
        check_finite(X, takes_missing=True)
        reach = None if attacker.has_norm else RuleReach.of(X, attacker)
        if reach is not None:
            seen, known = reach.stretch(X), reach.attacker
        else:  # one who is given may be held back by more
            told = {name: getattr(attacker, name) for name in (*DESCRIPTION, "integer", "domain")}
            held = attacker.is_frozen(X.shape[1]) | attacker.is_stuck(X.shape[1])
            seen, known = X, Attacker(**told | {"frozen": held})
        rows = self._training_set(seen, y, sample_weight, known)._replace(feature_names=names)
        check_learnable(seen, known, self.WITHOUT_ATTACKER)
        ensemble = self._train(rows, check_random_state(self.random_state))
        if not np.isnan(X).any():
            ensemble = ensemble.of_numbers
        # With rules, on stretched columns: no rule takes a training value past thresholds of two trees.
        if self.PROMISES_SPREAD and not has_large_spread(ensemble, known):
            raise AssertionError("Training broke its promise of large spread; please report this.")
        self.ensemble_ = ensemble if reach is None else reach.restore(ensemble)
        self._warn_if_constant(X, y)
        return self

    def predict(self, X: Any) -> NDArray:
        """Return what is said of each row, shape (n,): a number, or the first of the strongest classes."""
        X = self._check_rows(X)
        return self.ensemble_.predict(X)

    @property
    def _budget(self) -> str:
        """How far the attacker goes, in words."""
        return f"eps={self.attacker_.eps:g}" if self.attacker_.has_norm else f"a budget of {self.attacker_.eps:g}"

    def _check_params(self) -> None:
        """Check parameters that need no data, except those that describe the attacker."""
        raise NotImplementedError

    def _training_set(
        self, X: NDArray[np.float64], y: NDArray, sample_weight: ArrayLike | None, attacker: Attacker
    ) -> TrainingSet:
        """Check what is to be learned, and return it with the rows."""
        raise NotImplementedError

    def _train(self, rows: TrainingSet, random_state: np.random.RandomState) -> TreeEnsemble:
        """Return an ensemble, all splits of which have a side for missing values."""
        raise NotImplementedError

    def _check_rows(self, X: Any) -> NDArray[np.float64]:
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=np.float64, ensure_all_finite=False)
        check_finite(X, takes_missing=self.ensemble_.missing_left is not None)
        return X

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def _warn_if_constant(self, X: NDArray[np.float64], y: NDArray) -> None:
        said = self.ensemble_.predict(X)
        if (said != said[0]).any():
            return
        has_norm = self.attacker_.has_norm
        advice = "lower eps, or freeze features that cannot be attacked" if has_norm else "lower the budget"
        if self.attacker_.norm < np.inf and has_norm:
            kind = "Regressor" if self.ensemble_.is_regressor else "Classifier"
            advice += f"; for norms other than inf LargeSpreadAdditive{kind} is strongest"
        warnings.warn(
            f"Nothing but {self.SAYS} {said[0].item()!r} was learned: it is right for"
            f" {(y == said).mean():.3f} of the training rows, as saying it without any model is. With"
            f" {self._budget} nothing that was found withstands the attacker better; {advice}.",
            ConstantWarning,
            stacklevel=3,
        )

    def _report_progress(self, n_trees: int, n_wanted: int) -> None:
        if self.verbose > 0:
            logging.getLogger(type(self).__module__).info("%d of %d trees", n_trees, n_wanted)
        if self.callback is not None:
            self.callback(n_trees, n_wanted)


def _entries(of: type) -> dict[str, str]:
    """Return what a docstring says of each name."""
    entries = ENTRY.finditer(f"{inspect.getdoc(of)}\n")
    return {name: entry[0] for entry in entries for name in entry[1].split(", ")}


@dataclass(eq=False, repr=False, kw_only=True)
class RobustClassifier(ClassifierMixin, RobustEstimator):
    """What all trainers of classifiers share.

    Parameters
    ----------
    norm, eps, scale, frozen, direction, attacker
        See `RobustEstimator`.
    attacked : list of labels, optional
        The classes whose rows are attacked; all if not given. Rows of other classes count as they are.
    class_weight : "balanced", dict or None, default=None
        As in `sklearn.ensemble.RandomForestClassifier`.
    random_state, verbose, callback
        See `RobustEstimator`.

    Attributes
    ----------
    ensemble_, attacker_, n_features_in_, feature_names_in_
        See `RobustEstimator`.
    attacked_ : ndarray or None
        Labels of the classes that are attacked, if not all are.
    classes_ : ndarray of shape (n_classes,)
        Class labels.
    """

    attacked: Iterable[Any] | None = None
    class_weight: str | dict | None = None

    attacked_: NDArray | None = field(init=False)
    classes_: NDArray = field(init=False)

    def _class_weight(self) -> str | dict | None:
        """Return the weights of classes that hold for all trees alike."""
        return self.class_weight

    def _training_set(
        self, X: NDArray[np.float64], y: NDArray, sample_weight: ArrayLike | None, attacker: Attacker
    ) -> TrainingSet:
        check_classification_targets(y)
        self.classes_, y_index = np.unique(y, return_inverse=True)
        check_classes(self.classes_)
        self.attacked_ = check_attacked(self.attacked, self.classes_)
        is_held = np.zeros(len(self.classes_), bool)
        if self.attacked_ is not None:
            is_held = ~np.isin(self.classes_, self.attacked_)
        if is_held.all():
            raise ValueError(
                "Expected attacked to name at least one class, got none; without an attacker,"
                f" {self.WITHOUT_ATTACKER} is the better choice."
            )
        weight = combine_weights(X, y, sample_weight, self._class_weight())
        return TrainingSet(X, y_index.astype(np.int64), weight, self.classes_, attacker, is_held)


@dataclass(eq=False, repr=False, kw_only=True)
class SummingClassifier(RobustClassifier):
    """Base of the trainers whose trees add up."""

    @property
    def log_odds_per_unit(self) -> float:
        """What the loss makes of a unit of the sums."""
        return 1.0

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Return the sums of scores, shape (n,) for two classes (above zero: the second), else (n, n_classes)."""
        X = self._check_rows(X)
        return self.ensemble_.decision_function(X)

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return class probabilities, shape (n, n_classes): the sums are read as the loss implies, as log-odds."""
        sums = self.decision_function(X) * self.log_odds_per_unit
        if sums.ndim == 1:
            sums = np.column_stack([np.zeros(len(sums)), sums])
        odds = np.exp(sums - sums.max(axis=1, keepdims=True))
        return odds / odds.sum(axis=1, keepdims=True)


@dataclass(eq=False, repr=False, kw_only=True)
class RobustRegressor(RegressorMixin, RobustEstimator):
    """What all trainers of regressors share; the error of a row is that of the farther end of what is in reach.

    Parameters
    ----------
    loss : {"squared_error", "absolute_error"}, default="squared_error"
        What the model makes small, in the mean over rows. Sums begin at the mean, or at the median, of ``y``.
    """

    WITHOUT_ATTACKER = "sklearn.ensemble.HistGradientBoostingRegressor"
    SAYS = "the number"

    loss: str = "squared_error"

    def _training_set(
        self, X: NDArray[np.float64], y: NDArray, sample_weight: ArrayLike | None, attacker: Attacker
    ) -> TrainingSet:
        """Return targets in a unit of about their mean distance from where sums begin."""
        weight, y = combine_weights(X, y, sample_weight, None), np.asarray(y, np.float64)
        if (most := np.abs(y).max()) > LARGEST_TARGET:
            raise ValueError(f"Expected numbers to learn up to {LARGEST_TARGET:g}, got {most:.2g}; rescale them.")
        place = np.argsort(y)
        middle = np.searchsorted(weight[place].cumsum(), 0.5 * weight.sum())
        start = np.average(y, weights=weight) if self.loss == "squared_error" else y[place[min(middle, len(y) - 1)]]
        spread = float(np.average(np.abs(y - start), weights=weight))
        unit = float(2.0 ** np.ceil(np.log2(spread))) if spread > 0 else 1.0
        start, sides = float(on_grid(start / unit) * unit), np.arange(3)  # see `TrainingSet`
        target = (y - start) / unit
        return TrainingSet(
            X, np.zeros(len(y), np.int64), weight, sides, attacker, sides < 0, target=target, start=start, unit=unit
        )

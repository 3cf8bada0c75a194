"""LargeSpreadAdditiveClassifier: one tree per feature, fitted for attackers with one budget for all features.

`additive_values` fits a step function for each feature. No feature belongs to two trees, so the ensemble has large
spread for every attacker, and every verdict is exact.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from certiforest.attack.attacker import Attacker
from certiforest.ensemble import TreeEnsemble
from certiforest.training.additive_values import fit_additive
from certiforest.training.checks import check_integer, check_number
from certiforest.training.estimator import GivenRows, SummingClassifier
from certiforest.training.sums import LabelledRows


class LargeSpreadAdditiveClassifier(SummingClassifier):
    """A sum of step functions, one tree for each feature, fitted for the worst case in any norm.

    The trainer for norms whose costs add up (0, 1, 2, ...): the attacker's one budget for all features is part of what
    is minimised. Features do not interact; where they must (most tables), boosted trees are stronger for norm inf.

    Parameters
    ----------
    max_cells : int, default=32
        Largest number of steps of each function, at least 2. Half of them have equal widths, half hold equal numbers
        of rows.
    norm, eps, scale, frozen, direction, attacker, attacked
        Who attacks, see `RobustClassifier`.
    n_epochs : "auto" or int, default="auto"
        Passes over the training rows. ``"auto"``: as many as make 3,000 steps, but 20 at least.
    batch_size : int, default=128
        Rows whose slopes are averaged for one step.
    learning_rate : float, default=0.01
        How far a value moves in the first step; later steps are shorter.
    l2_regularization : float, default=1e-4
        Weight of half the sum of squared values, beside the mean loss.
    class_weight, random_state, verbose, callback
        See `RobustClassifier`.

    Attributes
    ----------
    ensemble_, attacker_, attacked_, classes_, n_features_in_, feature_names_in_
        See `RobustClassifier`.
    train_loss_ : ndarray of float64, shape (n_epochs + 1,)
        Mean worst-case loss in each pass, while values move, and at last a bound of that of the ensemble.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import minmax_scale
    >>> from certiforest import LargeSpreadAdditiveClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> additive = LargeSpreadAdditiveClassifier(norm=2, eps=0.1, random_state=0)
    >>> additive.fit(minmax_scale(X), y).ensemble_
    TreeEnsemble(30 trees, ... nodes, 30 features, 2 classes, scores add up)
    """

    WITHOUT_ATTACKER = "sklearn.ensemble.HistGradientBoostingClassifier"

    def __init__(
        self,
        max_cells: int = 32,
        *,
        norm: float | str = 2,
        eps: float = 0.5,
        scale: ArrayLike | None = None,
        frozen: Iterable[int] | None = None,
        n_epochs: int | str = "auto",
        batch_size: int = 128,
        learning_rate: float = 0.01,
        l2_regularization: float = 1e-4,
        class_weight: str | dict | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
        callback: Callable[[int, int], None] | None = None,
        direction: str | Mapping[int | str, str] | None = None,
        attacked: Iterable[Any] | None = None,
        attacker: Attacker | None = None,
    ) -> None:
        self.max_cells = max_cells
        self.norm = norm
        self.eps = eps
        self.scale = scale
        self.frozen = frozen
        self.direction = direction
        self.attacked = attacked
        self.attacker = attacker
        self.n_epochs = n_epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.l2_regularization = l2_regularization
        self.class_weight = class_weight
        self.random_state = random_state
        self.verbose = verbose
        self.callback = callback

    def _train(self, rows: GivenRows, attacker: Attacker, random_state: np.random.RandomState) -> TreeEnsemble:
        model = fit_additive(
            LabelledRows.weighted(*rows),
            len(self.classes_),
            attacker,
            is_held=self._is_held,
            max_cells=self.max_cells,
            n_epochs=None if self.n_epochs == "auto" else int(self.n_epochs),
            batch_size=self.batch_size,
            learning_rate=float(self.learning_rate),
            l2=float(self.l2_regularization),
            random_state=random_state,
            progress=self._report_progress,
        )
        self.train_loss_ = np.array(model.train_loss)
        return model.ensemble(rows.X.shape[1], self.classes_, self._names)

    def _check_params(self) -> None:
        check_integer("max_cells", self.max_cells, least=2)
        if self.n_epochs != "auto":
            check_integer("n_epochs", self.n_epochs, alternative="'auto'")
        check_integer("batch_size", self.batch_size)
        check_number("learning_rate", self.learning_rate, "in (0, 1]", lambda rate: 0 < rate <= 1)
        check_number("l2_regularization", self.l2_regularization, ">= 0", lambda weight: 0 <= weight < np.inf)

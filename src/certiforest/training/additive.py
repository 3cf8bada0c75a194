"""The additive trainers: trees that own a column or two each, fitted for attackers with one budget for all.

No feature belongs to two trees, so the ensemble has large spread for every attacker, and every verdict is exact. Where
the costs of moves add up, the attacker has one budget for all features, and that is what `descent` fits the trees for.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

import numpy as np

from certiforest.ensemble import TreeEnsemble
from certiforest.training.checks import check_choice, check_integer, check_number
from certiforest.training.descent import fit_additive
from certiforest.training.estimator import RobustEstimator, RobustRegressor, SummingClassifier
from certiforest.training.training_set import TrainingSet
from certiforest.training.worst_case import LOSSES


@dataclass(eq=False, repr=False)
class LargeSpreadAdditive(RobustEstimator):
    """Base of the additive trainers.

    Parameters
    ----------
    max_cells : int, default=64
        Largest number of steps of a column that has a tree of its own, 2 to 255: half of them have equal widths, half
        hold equal numbers of different values. Two columns of a tree have at most 24 each, four have 4.
    max_columns : {1, 2, 4}, default=2
        Largest number of columns of a tree, but for `n_frozen_trees`. With 1 the model is a sum of functions of single
        columns, and so it is with more where that is better for the rows put aside.
    n_frozen_trees : int, default=200
        Largest number of boosted trees on columns that the attacker cannot change, to whose sums the others add: such
        columns may belong to many trees. Rows put aside tell how many. 0: none, and each tree has columns of its own.
    n_epochs : "auto" or int, default="auto"
        Passes over the training rows. ``"auto"``: as many as look at 400 batches, but 16 at least;
        half as many again where columns may share trees. A tenth of the rows, drawn at random, takes part in the
        last passes only: until then it tells which passes gain.
    batch_size : int, default=500
        Rows whose slopes are averaged before values move.
    learning_rate : float, default=0.006
        How far a value moves at first, up to six times as far where its column is to
        stay alone; later moves are shorter.
    l2_regularization : float, default=1e-4
        Weight of half the sum of squared values, beside the mean loss.
    attacked_share : float, default=1.0
        Weight of the worst case in the loss of a row that is attacked, above 0; the rest is for the row as it is. Less
        gives up rows that the attacker wins anyway for more accuracy.

    Attributes
    ----------
    train_loss_ : ndarray of float64, shape (n_passes + 1,)
        Mean loss in each pass that led to the model, while values move, and at last a bound of that of the ensemble.
    """

    loss = "log_loss"  # of classes

    max_cells: int = 64
    _: KW_ONLY
    max_columns: int = 2
    n_frozen_trees: int = 200
    norm: float | str = 2
    eps: float = 0.5
    n_epochs: int | str = "auto"
    batch_size: int = 500
    learning_rate: float = 0.006
    l2_regularization: float = 1e-4
    attacked_share: float = 1.0

    def _train(self, rows: TrainingSet, random_state: np.random.RandomState) -> TreeEnsemble:
        rows = rows.that_weigh()
        model = fit_additive(
            rows,
            kind=LOSSES.index(self.loss),
            max_columns=self.max_columns,
            max_cells=self.max_cells,
            n_epochs=self.n_epochs,
            batch_size=self.batch_size,
            learning_rate=float(self.learning_rate),
            l2=float(self.l2_regularization),
            attacked_share=float(self.attacked_share),
            n_frozen_trees=self.n_frozen_trees,
            random_state=random_state,
            progress=self._report_progress,
        )
        self.train_loss_ = rows.loss_unit(self.loss) * np.array(model.train_loss)
        return model.ensemble(rows)

    def _check_params(self) -> None:
        check_integer("max_columns", self.max_columns)
        if self.max_columns not in (1, 2, 4):
            raise ValueError(f"Expected max_columns to be 1, 2 or 4, got {self.max_columns!r}.")
        check_integer("max_cells", self.max_cells, least=2)
        if self.max_cells > 255:
            raise ValueError(f"Expected max_cells to be at most 255, got {self.max_cells!r}.")
        check_integer("n_frozen_trees", self.n_frozen_trees, least=0)
        if self.n_epochs != "auto":
            check_integer("n_epochs", self.n_epochs, alternative="'auto'")
        check_integer("batch_size", self.batch_size)
        check_number("learning_rate", self.learning_rate, "in (0, 1]", lambda rate: 0 < rate <= 1)
        check_number("attacked_share", self.attacked_share, "in (0, 1]", lambda share: 0 < share <= 1)
        check_number("l2_regularization", self.l2_regularization, ">= 0", lambda weight: 0 <= weight < np.inf)


@dataclass(eq=False, repr=False)
class LargeSpreadAdditiveClassifier(LargeSpreadAdditive, SummingClassifier):
    """A sum of small trees that share no column, fitted for the worst case in any norm.

    The trainer for norms whose costs add up (0, 1, 2, ...): the attacker's one budget for all features is part of what
    is minimised. Only columns of the same tree interact; where many must (most tables), boosted trees are stronger for
    norm inf.

    Parameters
    ----------
    max_cells, max_columns, n_frozen_trees
        See `LargeSpreadAdditive`.
    norm, eps, scale, frozen, direction, attacker, attacked
        Who attacks, see `RobustClassifier`.
    n_epochs, batch_size, learning_rate, l2_regularization, attacked_share
        See `LargeSpreadAdditive`.
    class_weight, random_state, verbose, callback
        See `RobustClassifier`.

    Attributes
    ----------
    ensemble_, attacker_, attacked_, classes_, n_features_in_, feature_names_in_
        See `RobustClassifier`.
    train_loss_
        See `LargeSpreadAdditive`.

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


@dataclass(eq=False, repr=False)
class LargeSpreadAdditiveRegressor(LargeSpreadAdditive, RobustRegressor):
    """A sum of small trees that share no column and predict numbers, fitted for the largest error in any norm.

    The trainer of regressors for norms whose costs add up (0, 1, 2, ...). The error of a row is the distance of its
    true value from the farther end of its range, which ``certify(regressor, X, y, attacker, tolerance=...)`` finds.

    Parameters
    ----------
    max_cells, max_columns, n_frozen_trees
        See `LargeSpreadAdditive`.
    norm, eps, scale, frozen, direction, attacker
        Who attacks, see `RobustEstimator`.
    loss
        See `RobustRegressor`.
    n_epochs, batch_size, learning_rate, l2_regularization, attacked_share
        See `LargeSpreadAdditive`.
    random_state, verbose, callback
        See `RobustEstimator`.

    Attributes
    ----------
    ensemble_, attacker_, n_features_in_, feature_names_in_
        See `RobustEstimator`.
    train_loss_
        See `LargeSpreadAdditive`.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.preprocessing import minmax_scale
    >>> from certiforest import LargeSpreadAdditiveRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> additive = LargeSpreadAdditiveRegressor(norm=2, eps=0.1, random_state=0).fit(minmax_scale(X), y)
    >>> additive.ensemble_
    TreeEnsemble(10 trees, ... nodes, 10 features, a regressor, scores add up)
    """

    LOSSES = LOSSES[2:]

    _: KW_ONLY
    loss: str = "squared_error"

    def _check_params(self) -> None:
        super()._check_params()
        check_choice("loss", self.loss, self.LOSSES)

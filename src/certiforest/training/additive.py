"""LargeSpreadAdditiveClassifier: one tree per feature, fitted for attackers with one budget for all features.

No feature belongs to two trees, so the ensemble has large spread for every attacker, and every verdict is exact. Where
the costs of moves add up, the attacker has one budget for all features. At a price for a unit of cost the worst case of
a row is a sum over features (see `worst_case`), so that one pass over the rows gives the slopes of the loss in every
value of every step function. Prices are kept per row and rival and follow the attacker's spending; values follow the
slopes of small batches (Adam). At given prices the loss is convex.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from certiforest.attack.attacker import Attacker
from certiforest.ensemble import Nodes, TreeEnsemble
from certiforest.training import additive_kernels as kernels
from certiforest.training.additive_kernels import Batch, FeatureCells
from certiforest.training.checks import check_integer, check_number
from certiforest.training.estimator import SummingClassifier
from certiforest.training.training_set import TrainingSet, on_grid
from certiforest.training.worst_case import total_budget

FIRST_CHARGE = 2.0  # what the whole budget costs before anything is known
PRICE_RATE = 0.3  # logarithm of the factor by which prices move at first; falls to zero as the steps do
FEWEST_STEPS, FEWEST_EPOCHS = 3000, 20
MEMORIES = 0.9, 0.999  # of Adam, for slopes and for their squares


@dataclass(eq=False, repr=False)
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

    max_cells: int = 32
    _: KW_ONLY
    norm: float | str = 2
    eps: float = 0.5
    n_epochs: int | str = "auto"
    batch_size: int = 128
    learning_rate: float = 0.01
    l2_regularization: float = 1e-4

    def _train(self, rows: TrainingSet, random_state: np.random.RandomState) -> TreeEnsemble:
        rows = rows.that_weigh()
        model = fit_additive(
            rows,
            max_cells=self.max_cells,
            n_epochs=self.n_epochs,
            batch_size=self.batch_size,
            learning_rate=float(self.learning_rate),
            l2=float(self.l2_regularization),
            random_state=random_state,
            progress=self._report_progress,
        )
        self.train_loss_ = np.array(model.train_loss)
        return model.ensemble(rows)

    def _check_params(self) -> None:
        check_integer("max_cells", self.max_cells, least=2)
        if self.n_epochs != "auto":
            check_integer("n_epochs", self.n_epochs, alternative="'auto'")
        check_integer("batch_size", self.batch_size)
        check_number("learning_rate", self.learning_rate, "in (0, 1]", lambda rate: 0 < rate <= 1)
        check_number("l2_regularization", self.l2_regularization, ">= 0", lambda weight: 0 <= weight < np.inf)


class AdditiveModel(NamedTuple):
    """Step functions, one for each feature that varies.

    Attributes
    ----------
    columns : ndarray of int64, shape (n_columns,)
        Features that have several cells, missing being one: no other can tell anything.
    cells : FeatureCells
        Where their functions step.
    value : ndarray of float64, shape (n_columns, max_cells + 1, n_classes)
        What each cell adds to the sum of each class: nothing for a feature that was never missing, and is.
    base : ndarray of float64, shape (n_classes,)
        Where the sums begin.
    train_loss : list of float
        Mean worst-case loss in each epoch, and of the values that the last one left.
    """

    columns: NDArray[np.int64]
    cells: FeatureCells
    value: NDArray[np.float64]
    base: NDArray[np.float64]
    train_loss: list[float]

    def ensemble(self, rows: TrainingSet) -> TreeEnsemble:
        """Return one balanced tree for each function."""
        thresholds = (row[: n - 1] for row, n in zip(self.cells.threshold, self.cells.n_cells, strict=True))
        has_missing = bool(np.isnan(rows.X).any())
        trees = [balanced_tree(*own, has_missing) for own in zip(self.columns.tolist(), thresholds, strict=True)]
        values = [value[np.asarray(tree.leaf)] for value, tree in zip(self.value, trees, strict=True)]
        return rows.sum_ensemble(trees, values, self.base)


def balanced_tree(feature: int, thresholds: NDArray[np.float64], has_missing: bool) -> Nodes:
    """Return a tree that tells into which cell of a feature a value falls; leaf ``k`` is the k-th cell.

    If values may be missing, the root parts those that are: their cell is the one after the last.
    """
    left: list[int] = []
    right: list[int] = []
    threshold: list[float] = []
    leaf: list[int] = []
    if has_missing:
        left, right, threshold, leaf = [1, -1], [2, -1], [math.nan, 0.0], [0, len(thresholds) + 1]

    def grow(first: int, last: int) -> int:
        node, middle = len(left), (first + last) // 2
        is_leaf = first == last
        left.append(-1)
        right.append(-1)
        threshold.append(0.0 if is_leaf else thresholds[middle])
        leaf.append(first)
        if not is_leaf:
            left[node] = grow(first, middle)
            right[node] = grow(middle + 1, last)
        return node

    grow(0, len(thresholds))
    is_leaf = np.array(left) < 0
    return Nodes(left, right, np.where(is_leaf, -1, feature), threshold, leaf, np.isnan(threshold))


def cut_features(
    X: NDArray[np.float64], attacker: Attacker, max_cells: int, is_held: NDArray[np.bool_]
) -> FeatureCells:
    """Cut each feature into at most so many cells, half of them by equal widths and half by equal numbers of rows."""
    n_features, n_wide = X.shape[1], max_cells // 2
    shares = np.arange(1, max_cells - n_wide) / (max_cells - n_wide)
    threshold, n_cells = np.full((n_features, max_cells - 1), np.inf), np.ones(n_features, np.int32)
    for f in range(n_features):
        column = X[~np.isnan(X[:, f]), f]
        values = np.unique(column)
        if len(values) < 2:
            continue
        low, high = values[0], values[-1]
        wide = low + (high - low) * ((np.arange(n_wide) + 0.5) / n_wide)
        place = np.searchsorted(values, np.quantile(column, shares), side="right").clip(1, len(values) - 1)
        cuts = np.unique(np.concatenate([wide, values[place - 1] + (values[place] - values[place - 1]) / 2]))
        cuts = cuts[(low <= cuts) & (cuts < high)]
        threshold[f, : len(cuts)], n_cells[f] = cuts, len(cuts) + 1
    unit = attacker.scales(n_features)
    reach = np.full((2, n_features), np.inf) if attacker.norm == 0 else np.nextafter(attacker.eps * unit, np.inf)
    reach[~attacker.may_move(n_features)] = -1.0
    norm = -1 if attacker.norm == math.inf else int(attacker.norm)
    return FeatureCells(threshold, n_cells, reach, unit, norm, 0.0 if norm == -1 else total_budget(attacker), is_held)


def fit_additive(
    rows: TrainingSet,
    *,
    max_cells: int,
    n_epochs: int | str,
    batch_size: int,
    learning_rate: float,
    l2: float,
    random_state: np.random.RandomState,
    progress: Callable[[int, int], None],
) -> AdditiveModel:
    """Fit step functions for the worst case to rows of positive weight; parameters as in the classifier."""
    n_classes = len(rows.classes)
    rng = np.random.default_rng(random_state.randint(2**31 - 1, size=4))
    is_missing = np.isnan(rows.X)
    cells = cut_features(rows.X, rows.attacker, max_cells, rows.is_held)
    columns = np.flatnonzero((cells.n_cells > 1) | (is_missing.any(axis=0) & ~is_missing.all(axis=0)))
    reach, unit = (sides.take(columns, axis=1) for sides in (cells.reach, cells.unit))
    cells = cells._replace(threshold=cells.threshold[columns], n_cells=cells.n_cells[columns], reach=reach, unit=unit)
    X, n_rows, n_columns = rows.X.take(columns, axis=1), len(rows.X), len(columns)
    own_cell = np.empty(X.shape, np.min_scalar_type(max_cells))
    for f, n_cells in enumerate(cells.n_cells):
        own_cell[:, f] = np.searchsorted(cells.threshold[f, : n_cells - 1], X[:, f]) + np.isnan(X[:, f])
    weight = rows.weight / rows.weight.mean()
    price = np.full((n_rows, n_classes), 0.0 if cells.norm == -1 else FIRST_CHARGE / cells.budget)
    fitted, slope, memory, square = np.zeros((4, n_columns + 1, max_cells + 1, n_classes))
    # Values and, after them, the base: it is fitted as they are, but nobody can move a row away from it.
    value, base = fitted[:-1], fitted[-1, 0]
    base[:] = rows.class_offsets(is_exponential=False)
    train_loss = []
    n_batches, n_steps = -(-n_rows // batch_size), 0
    n_epochs = max(FEWEST_EPOCHS, -(-FEWEST_STEPS // n_batches)) if n_epochs == "auto" else int(n_epochs)
    for epoch in range(n_epochs):
        loss = 0.0
        for chosen in np.array_split(rng.permutation(n_rows), n_batches):
            ahead = 1.0 - n_steps / (n_epochs * n_batches)  # what is left of the way
            n_steps += 1
            batch = Batch(X[chosen], own_cell[chosen], rows.y_index[chosen], weight[chosen], price[chosen])
            slope[:] = 0.0
            loss += kernels.sum_slopes(cells, batch, value, base, PRICE_RATE * ahead, slope[:-1], slope[-1, 0])
            price[chosen] = batch.price
            slope *= 1.0 / len(chosen)
            slope[:-1] += l2 * value
            memory += (1 - MEMORIES[0]) * (slope - memory)
            square += (1 - MEMORIES[1]) * (slope**2 - square)
            width = np.sqrt(square / (1 - MEMORIES[1] ** n_steps)) + 1e-8
            fitted -= learning_rate * ahead / (1 - MEMORIES[0] ** n_steps) * memory / width
        train_loss.append(loss / n_rows)
        progress(epoch + 1, n_epochs)
    fitted[:] = on_grid(fitted)
    batch = Batch(X, own_cell, rows.y_index, weight, price)
    train_loss.append(kernels.sum_slopes(cells, batch, value, base, 0.0, slope[:-1], slope[-1, 0]) / n_rows)
    return AdditiveModel(columns, cells, value, base, train_loss)

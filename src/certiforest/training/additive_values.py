"""Fit an additive model for the worst case: one step function per feature, all of them at once.

Where the costs of moves add up, the attacker has one budget for all features. At a price for a unit of cost the
worst case of a row is a sum over features (see `worst_case`), so that one pass over the rows gives the slopes of the
loss in every value of every step function. Prices are kept per row and rival and follow the attacker's spending;
values follow the slopes of small batches (Adam). At given prices the loss is convex.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from certiforest.attack.attacker import Attacker
from certiforest.ensemble import Nodes, TreeEnsemble
from certiforest.training import additive_kernels as kernels
from certiforest.training.additive_kernels import Batch, FeatureCells
from certiforest.training.leaves_in_reach import total_budget
from certiforest.training.sums import LabelledRows, class_offsets, on_grid, sum_ensemble

FIRST_CHARGE = 2.0  # what the whole budget costs before anything is known
PRICE_RATE = 0.3  # logarithm of the factor by which prices move at first; falls to zero as the steps do
FEWEST_STEPS, FEWEST_EPOCHS = 3000, 20
MEMORIES = 0.9, 0.999  # of Adam, for slopes and for their squares


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
    has_missing : bool
        Whether any value of any row was missing.
    base : ndarray of float64, shape (n_classes,)
        Where the sums begin.
    train_loss : list of float
        Mean worst-case loss in each epoch, and of the values that the last one left.
    """

    columns: NDArray[np.int64]
    cells: FeatureCells
    value: NDArray[np.float64]
    has_missing: bool
    base: NDArray[np.float64]
    train_loss: list[float]

    def ensemble(self, n_features: int, classes: NDArray, feature_names: list[str] | None) -> TreeEnsemble:
        """Return one balanced tree for each function."""
        thresholds = (row[: n - 1] for row, n in zip(self.cells.threshold, self.cells.n_cells, strict=True))
        trees = [balanced_tree(*own, self.has_missing) for own in zip(self.columns.tolist(), thresholds, strict=True)]
        values = [value[np.asarray(tree.leaf)] for value, tree in zip(self.value, trees, strict=True)]
        return sum_ensemble(trees, values, self.base, n_features, classes, feature_names)


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
    rows: LabelledRows,
    n_classes: int,
    attacker: Attacker,
    *,
    is_held: NDArray[np.bool_],
    max_cells: int,
    n_epochs: int | None,
    batch_size: int,
    learning_rate: float,
    l2: float,
    random_state: np.random.RandomState,
    progress: Callable[[int, int], None],
) -> AdditiveModel:
    """Fit step functions for the worst case.

    Parameters
    ----------
    rows : LabelledRows
        Finite values or NaN, positive weights.
    n_classes : int
    attacker : Attacker
    is_held : ndarray of bool, shape (n_classes,)
        The classes whose rows are not attacked.
    max_cells : int
        Largest number of steps of a function, at least 2.
    n_epochs : int or None
        Passes over the rows. None: as many as make `FEWEST_STEPS`, but `FEWEST_EPOCHS` at least.
    batch_size : int
        Rows whose slopes are averaged for one step.
    learning_rate : float
        How far a value moves in the first step; falls to zero in equal parts.
    l2 : float
        Weight of half the sum of squared values, beside the mean loss.
    random_state : RandomState
    progress : callable
        Called as ``progress(epoch, n_epochs)`` after each pass.
    """
    rng = np.random.default_rng(random_state.randint(2**31 - 1, size=4))
    is_missing = np.isnan(rows.X)
    cells = cut_features(rows.X, attacker, max_cells, is_held)
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
    base[:] = class_offsets(rows, n_classes, is_exponential=False)
    train_loss = []
    n_batches, n_steps = -(-n_rows // batch_size), 0
    if n_epochs is None:
        n_epochs = max(FEWEST_EPOCHS, -(-FEWEST_STEPS // n_batches))
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
    return AdditiveModel(columns, cells, value, bool(is_missing.any()), base, train_loss)

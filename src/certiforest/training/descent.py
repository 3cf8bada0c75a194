"""Descent: values of grids that follow the slopes of the worst-case loss, for `additive`.

At a price for a unit of cost the worst case of a row is a sum over trees (see `worst_case`), so that one pass over the
rows gives the slopes of the loss in every cell of every tree. At given prices the loss is convex.

0. Columns that nobody moves may belong to many trees: boosted ones, to whose sums all others add.
1. A linear model is fitted for the worst case (`linear_start`): functions of single columns begin as its steps.
2. These follow the slopes of small batches; prices, one a row and rival, follow the attacker's spending.
3. Columns whose products go with the slopes that are left share a tree (`match_columns`), and each cell of its grid
   has a value beside those of its steps. A tenth of the rows is put aside and tells whether this is better, and when:
   no model is worse there than the one it began as. All rows take part in the last passes.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from certiforest.ensemble import TreeEnsemble
from certiforest.training import additive_kernels as kernels
from certiforest.training.additive_kernels import Grids
from certiforest.training.boosted_trees import BoostedTrees, boost_trees
from certiforest.training.grids import against, grow, lay_grids, match_columns, place_rows
from certiforest.training.linear_start import MEMORIES, batches, fit_linear
from certiforest.training.training_set import TrainingSet, on_grid
from certiforest.training.worst_case import WorstCase, as_box, tied

SHARES = 1.15, 1.0, 1.3  # of eps to train for: at first, where columns stay alone, and where they share trees
RATES = 0.5, 6.0, 0.5  # of the learning rate, then
MANY_COLUMNS, SLOWER = 64, 4 / 3  # alone, and more of them go slower: the sum of a row moves by all of them
FEWEST_STEPS, FEWEST_EPOCHS = 400, 16
PART_FIRST, PART_LAST = 4, 8  # one pass of so many is before columns share trees, and after it is known whether they do
PART_ASIDE, N_LOOKS = 10, 8  # one row of so many tells, and how often it does
PACES_FIRST, PACES_AGAIN = (32, 16, 8, 4, 4, 2, 2, 1, 1, 1, 0), (4, 2, 1, 0)  # of prices of rows that were put aside
FROZEN: dict[str, Any] = {  # trees on columns that nobody moves
    "max_depth": 8, "learning_rate": 0.1, "max_features": None, "min_samples_leaf": 5, "l2": "auto",
    "n_iter_no_change": 10,
}  # fmt: skip
LARGEST_PACE = 4  # of the others
MOST_ROWS_TO_MATCH = 4000


class AdditiveModel(NamedTuple):
    """Grids of cells, and what these add.

    Attributes
    ----------
    grids : Grids
    value : ndarray of float64, shape (n_cells, n_classes)
        What each cell adds to the sum of each class.
    base : ndarray of float64, shape (n_classes,)
        Where the sums begin.
    train_loss : list of float
        Mean loss in each epoch, and of the values that the last one left.
    frozen : BoostedTrees
        Trees on columns that nobody moves, which come first.
    """

    grids: Grids
    value: NDArray[np.float64]
    base: NDArray[np.float64]
    train_loss: list[float]
    frozen: BoostedTrees

    def ensemble(self, rows: TrainingSet) -> TreeEnsemble:
        """Return the trees on columns that nobody moves, and one for each grid."""
        has_missing = bool(np.isnan(rows.X).any())
        trees = [grow(self.grids, t, has_missing) for t in range(len(self.grids.first_cell) - 1)]
        values = [
            self.value[first + np.asarray(tree.leaf)]
            for first, tree in zip(self.grids.first_cell.tolist(), trees, strict=False)
        ]
        trees, values = [*(tree.nodes for tree in self.frozen.trees), *trees], [*self.frozen.values, *values]
        return rows.sum_ensemble(trees, values, self.base)


class Descent:
    """Values of grids that follow the slopes of small batches against the attacker (Adam).

    What a cell adds is what its steps add, ``by_step`` (n_columns, most steps + 1, n_classes), and where trees have
    several columns what it adds itself, ``by_cell`` (n_cells, n_classes).
    """

    def __init__(
        self, rows: TrainingSet, kind: int, grids: Grids, share: float, by_step: NDArray[np.float64],
        base: NDArray[np.float64], attacked_share: float,
    ) -> None:  # fmt: skip
        self.grids = against(grids, rows, share)
        self.rows, self._prices = place_rows(rows, self.grids, kind)
        self.by_step, self.base, self.attacked_share = by_step, base, attacked_share
        n_cells = grids.first_cell[-1] if len(grids.feature) >= len(grids.first_cell) else 0
        self.by_cell = np.zeros((n_cells, len(base)))

    def value(self) -> NDArray[np.float64]:
        """Return what each cell adds, shape (n_cells, n_classes)."""
        value = np.zeros((self.grids.first_cell[-1], len(self.base)))
        value[: len(self.by_cell)] = self.by_cell
        kernels.share_steps(self.grids, self.by_step, value, False)
        return value

    def run(
        self, kept: NDArray[np.int64], n_epochs: int, batch_size: int, rates: tuple[float, float], l2: float,
        rng: np.random.Generator,
    ) -> Iterator[float]:  # fmt: skip
        """Pass over some rows so many times, rates going from first to last; yield the mean loss of each pass."""
        parts = self.by_step, self.by_cell, self.base
        memory = [np.zeros((2, part.size)) for part in parts]
        n_rows, n_seen, loss = len(kept), 0, 0.0
        for n, (chosen, way) in enumerate(batches(n_rows, batch_size, n_epochs, rng), start=1):
            slopes = [np.zeros_like(part) for part in parts]
            value, pace = self.value(), max(1, round(LARGEST_PACE * (1.0 - way)))
            slope = np.zeros_like(value)
            loss += self._sum_slopes(self.grids, kept[chosen], value, pace, slope, slopes[2])
            slope, slopes[2] = tied(self.rows.kind, slope), tied(self.rows.kind, slopes[2])
            kernels.share_steps(self.grids, slopes[0], slope, True)
            if len(self.by_cell):
                slopes[1] = slope
            rate = rates[0] + (rates[1] - rates[0]) * way
            for part, down, room in zip(parts, slopes, memory, strict=True):
                down /= len(chosen)
                weight = 0.0 if part is self.base else l2
                kernels.follow(down.reshape(-1), weight, rate, MEMORIES, n, *room, part.reshape(-1))
            n_seen += len(chosen)
            if n_seen == n_rows:
                yield loss / n_rows
                n_seen, loss = 0, 0.0

    def parts(self) -> list[NDArray[np.float64]]:
        """Return copies of what moves: values of steps and cells, and base."""
        return [part.copy() for part in (self.by_step, self.by_cell, self.base)]

    def worst_loss(
        self, rows: TrainingSet, chosen: NDArray[np.int64], value: NDArray[np.float64], paces: tuple[int, ...]
    ) -> float:
        """Return the mean loss of some rows against the attacker of all, after prices moved at these paces."""
        grids = against(self.grids, rows, 1.0)
        for pace in paces:
            slopes = np.zeros_like(value), np.zeros_like(self.base)
            loss = self._sum_slopes(grids, chosen, value, pace, *slopes)
        return loss / max(len(chosen), 1)

    def end(self, rows: TrainingSet) -> tuple[NDArray[np.float64], float]:
        """Round what cells and base add; return that of cells, and the mean loss against the attacker of the rows."""
        value, self.grids = on_grid(self.value()), against(self.grids, rows, 1.0)
        self.base[:] = on_grid(self.base)
        return value, self.worst_loss(rows, np.arange(len(rows.X)), value, (1, 1, 0))

    def _sum_slopes(
        self, grids: Grids, chosen: NDArray[np.int64], value: NDArray[np.float64], pace: int, *slopes: NDArray
    ) -> float:
        order, loss = chosen[np.argsort(self.rows.class_index[chosen], kind="stable")], 0.0
        held, as_they_are = grids.is_held, 1.0 - self.attacked_share
        for is_held, share in (np.ones_like(held), as_they_are * ~held), (held, 1.0 - as_they_are * ~held):
            some = order[share[self.rows.class_index[order]] > 0]
            known = grids._replace(is_held=is_held), self.rows, self._prices
            loss += kernels.sum_slopes(*known, some, share, (value, self.base), pace, slopes) if len(some) else 0.0
        return loss


def fit_additive(
    rows: TrainingSet,
    *,
    kind: int,
    max_columns: int,
    max_cells: int,
    n_epochs: int | str,
    batch_size: int,
    learning_rate: float,
    l2: float,
    attacked_share: float,
    n_frozen_trees: int,
    random_state: np.random.RandomState,
    progress: Callable[[int, int], None],
) -> AdditiveModel:
    """Fit grids for the worst case to rows of positive weight; ``kind`` is which of `LOSSES`."""
    rng = np.random.default_rng(random_state.randint(2**31 - 1, size=4))
    everybody = np.arange(len(rows.X))
    aside, kept = np.split(rng.permutation(everybody), [len(rows.X) // PART_ASIDE])
    frozen, rows = boost_frozen(rows, kept, aside, kind=kind, n_estimators=n_frozen_trees, random_state=random_state)
    weight, mean, base = fit_linear(rows, kind, rng, l2)
    is_there = ~np.isnan(rows.X)
    low = np.where(is_there, rows.X, np.inf).min(axis=0)
    high = np.where(is_there, rows.X, -np.inf).max(axis=0)
    features = np.flatnonzero((low < high) | (is_there.any(axis=0) & ~is_there.all(axis=0)))
    grids = lay_grids(rows, features[:, None].tolist(), max_cells)
    by_step = np.zeros((len(features), grids.threshold.shape[1] + 2, len(base)))
    for f, cuts, n, own in zip(features, grids.threshold, grids.n_steps, by_step, strict=True):
        ends = np.concatenate([low[[f]], cuts[: n - 1], high[[f]]])
        own[:n] = ((ends[1:] + ends[:-1]) / 2 - mean[f])[:, None] * weight[f]
    if n_epochs == "auto":
        n_epochs = max(FEWEST_EPOCHS, -(-FEWEST_STEPS // -(-len(rows.X) // batch_size)))
        n_epochs += n_epochs // 2 if max_columns > 1 else 0
    n_epochs = int(n_epochs)
    n_first, n_last = -(-n_epochs // PART_FIRST), n_epochs // PART_LAST
    n_middle, n_done, n_rivals = n_epochs - n_first - n_last, itertools.count(1), 1 + (max_columns > 1)

    def go_on(descent: Descent, chosen: NDArray[np.int64], n: int, first: float, last: float) -> Iterator[float]:
        for loss in descent.run(chosen, n, batch_size, (learning_rate * first, learning_rate * last), l2, rng):
            progress(next(n_done), n_epochs + (n_rivals - 1) * n_middle)
            yield loss

    found: list[tuple[float, Descent, list[NDArray[np.float64]], float, list[float]]] = []

    def follow(descent: Descent, n: int, first: float, last: float, losses: list[float]) -> None:
        """Go on, and keep what rows put aside fare best with; without such rows, what comes last."""
        passes, look = go_on(descent, kept, n, first, last), max(1, n // N_LOOKS)
        for k in range(n + 1):
            losses += [next(passes)] if k else []
            if k % look == 0 or k == n:
                loss = descent.worst_loss(rows, aside, descent.value(), PACES_AGAIN if found else PACES_FIRST)
                if not found or loss <= found[0][0]:
                    found[:] = [(loss, descent, descent.parts(), last, losses.copy())]

    alone = Descent(rows, kind, grids, SHARES[0], by_step, base, attacked_share)
    losses: list[float] = []
    follow(alone, n_first, RATES[0], RATES[0] / 2, losses)
    slower = min(1.0, MANY_COLUMNS / max(len(features), 1)) ** SLOWER
    rivals = [(alone, RATES[1] * slower)]
    if n_rivals > 1:
        several = regrouped(rows, features, alone, mean, max_columns, max_cells, rng.permutation(kept))
        rivals.append((several, RATES[2]))
    alone.grids = against(alone.grids, rows, SHARES[1])
    for descent, rate in rivals:
        follow(descent, n_middle, rate, rate / PART_LAST, losses.copy())
    _, best, parts, rate, losses = found[0]
    best.by_step, best.by_cell, best.base = parts
    losses += go_on(best, everybody, n_last, rate, 0.0)
    value, loss = best.end(rows)
    return AdditiveModel(best.grids, value, best.base, [*losses, loss], frozen)


def boost_frozen(
    rows: TrainingSet, kept: NDArray[np.int64], aside: NDArray[np.int64], *, n_estimators: int, **options: Any
) -> tuple[BoostedTrees, TrainingSet]:
    """Boost trees on the columns that nobody moves, which all may share; return them, and rows that know their sums.

    Rows put aside tell how many trees there are, at most ``n_estimators``.
    """
    is_frozen = rows.attacker.is_frozen(rows.X.shape[1]) & (np.ptp(np.nan_to_num(rows.X), axis=0) > 0)
    if not (is_frozen.any() and len(aside) and n_estimators):
        return BoostedTrees([], [], np.empty(0), 0.0, [], []), rows
    seen = rows._replace(X=np.where(is_frozen, rows.X, 0.0))
    train, validation = seen.take(kept), seen.take(aside)
    boosted = boost_trees(train, validation, has_spread=False, n_estimators=n_estimators, **FROZEN, **options)
    case = WorstCase(seen.X, rows.y_index, len(rows.classes), as_box(rows.attacker), is_held=rows.is_held)
    for tree, value in zip(boosted.trees, boosted.values, strict=True):
        case.add(case.reached(tree.nodes), value)
    return boosted, rows._replace(lead=case.margin())


def regrouped(
    rows: TrainingSet, features: NDArray[np.int64], alone: Descent, mean: NDArray[np.float64], max_columns: int,
    max_cells: int, kept: NDArray[np.int64],
) -> Descent:  # fmt: skip
    """Return a descent that goes on with trees of several columns, matched by the first of these rows."""
    some = kept[:MOST_ROWS_TO_MATCH]
    Z = np.nan_to_num(rows.X[some][:, features] - mean[features])
    width = np.ptp(Z, axis=0)
    Z /= np.where(width > 0, width, 1.0)
    push = tied(alone.rows.kind, alone.rows.push[some]).astype(np.float32)
    trees = match_columns(Z.astype(np.float32), push, max_columns)
    grids = lay_grids(rows, [features[tree].tolist() for tree in trees], max_cells)
    by_step = np.zeros((len(features), grids.threshold.shape[1] + 2, len(alone.base)))
    kind = alone.rows.kind
    descent = Descent(rows, kind, grids, SHARES[2], by_step, alone.base.copy(), alone.attacked_share)
    for j, k in enumerate(f for tree in trees for f in tree):  # a step begins with the mean of what its rows had
        step, finer = descent.rows.step[:, j], alone.rows.step[:, k]
        count = np.maximum(np.bincount(step), 1)
        for c, own in enumerate(alone.by_step[k].T):
            by_step[j, : len(count), c] = np.bincount(step, own[finer]) / count
    descent.rows.level[:] = alone.rows.level
    return descent

"""A linear model fitted for the worst case: where the additive trainer begins."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from certiforest.training.additive_kernels import follow
from certiforest.training.training_set import TrainingSet
from certiforest.training.worst_case import tied
from certiforest.training.worst_case_kernels import weigh_rows

N_EPOCHS, BATCH_SIZE, RATE = 12, 500, 0.03
MEMORIES = 0.9, 0.99  # of Adam, for slopes and for their squares
LARGEST_POWER = 16.0  # of the dual norm: beyond, its slope is that of a single column


def batches(n_rows: int, size: int, n_epochs: int, rng: np.random.Generator) -> Iterator[tuple[NDArray, float]]:
    """Yield all rows, in batches, as often as there are epochs, and which share of the way lies behind each batch."""
    n_batches = -(-n_rows // size)
    for epoch in range(n_epochs):
        for k, chosen in enumerate(np.array_split(rng.permutation(n_rows), n_batches)):
            yield chosen, (epoch + k / n_batches) / n_epochs


def fit_linear(
    rows: TrainingSet, kind: int, rng: np.random.Generator, l2: float
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Fit a linear model to the worst-case loss, by small batches; missing values count as the mean.

    Returns
    -------
    weight : ndarray of float64, shape (n_features, n_classes)
    mean : ndarray of float64, shape (n_features,)
        Rows count from here; 0 where all values are missing.
    base : ndarray of float64, shape (n_classes,)
    """
    is_there = ~np.isnan(rows.X)
    mean = np.where(is_there, rows.X, 0.0).sum(axis=0) / np.maximum(is_there.sum(axis=0), 1)
    Z = np.where(is_there, rows.X - mean, 0.0)
    width = np.ptp(Z, axis=0)
    width[width == 0] = 1.0
    Z = (Z / width).astype(np.float32)
    penalty, share, leads = Penalty(rows, width), rows.weight / rows.weight.mean(), rows.leads()
    weight = np.zeros((Z.shape[1] + 1, len(rows.classes)))  # the last line is the base
    weight[-1] = rows.class_offsets(is_exponential=False)
    memory, square = np.zeros((2, weight.size))
    for n, (chosen, way) in enumerate(batches(len(Z), BATCH_SIZE, N_EPOCHS, rng), start=1):
        slope = tied(kind, penalty.slope(Z[chosen], rows.y_index[chosen], leads[chosen], share[chosen], kind, weight))
        follow(slope.reshape(-1), l2, RATE * (1.0 - way), MEMORIES, n, memory, square, weight.reshape(-1))
    return weight[:-1] / width[:, None], mean, weight[-1]


class Penalty:
    """What the attacker takes from the lead of a linear model: eps times the dual norm of its weights.

    Columns are in units of their widths, shape (n_features,). Norm 0 counts as norm 1 in these units, which takes more.
    """

    def __init__(self, rows: TrainingSet, width: NDArray[np.float64]) -> None:
        attacker, n_features = rows.attacker, rows.X.shape[1]
        norm = 1 if attacker.norm == 0 else attacker.norm
        self._power = 1.0 if norm == math.inf else LARGEST_POWER if norm == 1 else norm / (norm - 1)
        unit = np.ones((2, n_features)) if attacker.norm == 0 else attacker.scales(n_features) / width
        self._unit = np.where(attacker.may_move(n_features), unit, 0.0) * attacker.eps
        self._is_held = rows.is_held

    def of(self, own: int, lead: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        """Return what is taken from rows of a class that leads by these weights, (n_features,), and its slope."""
        taken = np.maximum(self._unit[0] * lead, -self._unit[1] * lead)  # down where the weight is positive
        most = taken.max(initial=0.0)
        if self._is_held[own] or most == 0.0:
            return 0.0, np.zeros(len(lead))
        total = most * float(((taken / most) ** self._power).sum()) ** (1 / self._power)
        return total, (taken / total) ** (self._power - 1) * np.where(lead > 0, self._unit[0], -self._unit[1])

    def slope(
        self, Z: NDArray, y_index: NDArray, leads: NDArray, share: NDArray, kind: int, weight: NDArray
    ) -> NDArray[np.float64]:
        """Return the slope of the mean worst-case loss of some rows in the weights, base last."""
        n_classes, row = weight.shape[1], np.arange(len(Z))
        sums = Z @ weight[:-1].astype(np.float32) + weight[-1]
        margin = leads + sums[row, y_index][:, None] - sums
        taken = {
            (own, c): self.of(own, weight[:-1, own] - weight[:-1, c])
            for own in np.unique(y_index)
            for c in range(n_classes)
            if c != own
        }
        for (own, c), (most, _) in taken.items():
            margin[y_index == own, c] -= most
        push = np.empty_like(margin)
        weigh_rows(margin, y_index, kind, np.empty(len(Z)), push)
        push *= (share / len(Z))[:, None]
        push[row, y_index] = -push.sum(axis=1)
        slope = np.concatenate([Z.T @ push.astype(np.float32), push.sum(axis=0)[None]]).astype(np.float64)
        for (own, c), (_, by) in taken.items():
            total = push[y_index == own, c].sum() * by
            slope[:-1, own] += total
            slope[:-1, c] -= total
        return slope

"""TrainingSet: rows and who attacks them; and what trainers of sums share: where these begin, and their ensemble."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from certiforest.attack.attacker import Attacker
from certiforest.ensemble import Nodes, TreeEnsemble

GRID = 2.0**-32  # values are whole multiples of this, so that sums of them are exact
LEAST_SHARE = 1e-6  # of the weight of a class, so that its logarithm is finite


class TrainingSet(NamedTuple):
    """Rows to learn from, and who attacks them.

    Attributes
    ----------
    X : ndarray of float64, shape (n_rows, n_features)
        Finite values, or NaN where one is missing.
    y_index : ndarray of int64, shape (n_rows,)
        Class index of each row.
    weight : ndarray of float64, shape (n_rows,)
        At least 0.
    classes : ndarray, shape (n_classes,)
        Labels.
    attacker : Attacker
        Of any norm.
    is_held : ndarray of bool, shape (n_classes,)
        The classes whose rows are not attacked.
    feature_names : list of str, optional
    target : ndarray of float64, shape (n_rows,), optional
        Numbers that sums are to be, instead of classes. Training then takes the sum of a row for that of three classes
        ``[0, sum - target, target - sum]``, all rows being of the first: the others lead it by how far the sum is too
        high, or too low.
    lead : ndarray of float64, shape (n_rows, n_classes), optional
        By how much each row leads each class before anything is added up; 0 if not given.
    start, unit : float
        The numbers that are learned are ``start + unit * target``; the unit is a power of two.
    """

    X: NDArray[np.float64]
    y_index: NDArray[np.int64]
    weight: NDArray[np.float64]
    classes: NDArray
    attacker: Attacker
    is_held: NDArray[np.bool_]
    feature_names: list[str] | None = None
    target: NDArray[np.float64] | None = None
    lead: NDArray[np.float64] | None = None
    start: float = 0.0
    unit: float = 1.0

    def take(self, rows: NDArray[np.int64]) -> TrainingSet:
        """Return some of the rows."""
        of_rows = "X", "y_index", "weight", "target", "lead"
        taken = {name: getattr(self, name)[rows] for name in of_rows if getattr(self, name) is not None}
        return self._replace(**taken)

    def that_weigh(self) -> TrainingSet:
        """Return the rows whose weight is above 0."""
        return self if self.weight.all() else self.take(np.flatnonzero(self.weight))

    def class_offsets(self, is_exponential: bool) -> NDArray[np.float64]:
        """Return the sums that fit best without trees, shape (n_classes,); zeros where there is a target."""
        if self.target is not None:
            return np.zeros(len(self.classes))
        share = np.bincount(self.y_index, weights=self.weight, minlength=len(self.classes)) / self.weight.sum()
        return on_grid(np.log(np.maximum(share, LEAST_SHARE)) * (0.5 if is_exponential else 1.0))

    def leads(self) -> NDArray[np.float64]:
        """Return `lead`, that over classes which stand for numbers included, shape (n_rows, n_classes)."""
        lead = np.zeros((len(self.X), len(self.classes))) if self.lead is None else self.lead
        return lead if self.target is None else lead + np.outer(self.target, [0.0, 1.0, -1.0])

    def loss_unit(self, loss: str) -> float:
        """Return the unit in which a loss is counted while training."""
        return self.unit ** (2 if loss == "squared_error" else 1)

    def ensemble(
        self, trees: Iterable[Nodes], scores: NDArray | None = None, base: NDArray | None = None
    ) -> TreeEnsemble:
        """Return trees as an ensemble of these classes, which votes or has scores, or that says a number."""
        classes = self.classes if self.target is None else None
        return TreeEnsemble.from_trees(
            trees, n_features=self.X.shape[1], classes=classes, feature_names=self.feature_names,
            scores=scores, base=base,
        )  # fmt: skip

    def sum_ensemble(
        self, trees: Sequence[Nodes], values: Sequence[NDArray[np.float64]], base: NDArray[np.float64]
    ) -> TreeEnsemble:
        """Return trees whose leaves add ``values[tree]``, shape (n_nodes, n_classes), to the sums of the classes.

        Two classes share one output, the second's sum minus the first's. Numbers are again in their own unit.
        """
        offset = np.cumsum([0, *map(len, values)])
        value = np.concatenate([*values, base[None]])
        if self.target is not None:
            value, base = self.unit * value[:, 1:2], self.start + self.unit * base[1:2]
        elif len(base) == 2:
            value, base = value[:, 1:] - value[:, :1], base[1:] - base[:1]
        if not trees:  # an ensemble has at least one tree: a leaf that adds nothing
            return self.ensemble([Nodes([-1], [-1], [-1], [0.0], [0], [False])], np.zeros_like(value), base)
        nodes = [
            tree._replace(leaf=np.arange(len(own)) + first)
            for tree, own, first in zip(trees, values, offset, strict=False)
        ]
        return self.ensemble(nodes, value, base)


def on_grid(value: NDArray[np.float64]) -> NDArray[np.float64]:
    """Round to whole multiples of `GRID`."""
    return np.round(value / GRID) * GRID

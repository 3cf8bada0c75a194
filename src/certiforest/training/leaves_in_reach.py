"""LeavesInReach: to which leaves of a tree the attacker can move each row, and at what cost.

Every worst case in training begins here, with the rule of verdicts itself (`other_side_is_near`): for large spread and
norm inf, what training counts as robust is what `certify` calls so, to the last bit.
"""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from certiforest.attack.attacker import Attacker
from certiforest.training import leaves_in_reach_kernels as kernels
from certiforest.training.leaves_in_reach_kernels import Reach, Reached, Splits


class Tree(Protocol):
    """Children by index, ``left[i] == -1`` at leaves: `Nodes` and `GrownTrees` are such."""

    @property
    def left(self) -> ArrayLike: ...  # noqa: D102
    @property
    def right(self) -> ArrayLike: ...  # noqa: D102
    @property
    def feature(self) -> ArrayLike: ...  # noqa: D102
    @property
    def threshold(self) -> ArrayLike: ...  # noqa: D102
    @property
    def missing_left(self) -> ArrayLike | None: ...  # noqa: D102


class LeavesInReach:
    """Lists leaves of one tree after the other in the same memory.

    Parameters
    ----------
    X : ndarray of float64, shape (n_rows, n_features)
    attacker : Attacker
        For norm inf moves cost nothing, else powers of distances (norm 0: one each) that add up.
    is_held : ndarray of bool, shape (n_rows,)
        Rows that nobody moves.
    """

    def __init__(self, X: NDArray[np.float64], attacker: Attacker, is_held: NDArray[np.bool_]) -> None:
        self._is_held = is_held
        self._X = np.asfortranarray(X)  # rows go down one tree together: values of a feature side by side
        self._has_missing = bool(np.isnan(X).any())
        self._reach = _reach(attacker, X.shape[1])
        self._found = Reached(np.empty(len(X) + 1, np.int64), np.empty(2 * len(X), np.int64), np.empty(2 * len(X)))

    def of(self, tree: Tree, root: int = 0) -> Reached:
        """List the leaves below a root that each row can be moved to; valid until the next call."""
        left, right = np.array(tree.left, np.int64), np.array(tree.right, np.int64)
        feature = np.where(left < 0, -1, tree.feature)
        low, high = np.empty((2, len(left)))
        missing_left = np.zeros(len(left), bool) if tree.missing_left is None else np.array(tree.missing_left)
        splits = Splits(feature, np.array(tree.threshold, np.float64), left, right, low, high, missing_left)
        stack, parent = np.empty((2, len(left) + 1), np.int64)
        kernels.bound_splits(splits, root, self._has_missing, stack, parent)
        args = splits, root, self._X, self._is_held, self._reach, stack, np.empty(len(stack))
        n_leaves = kernels.list_leaves_in_reach(*args, self._found)
        if n_leaves > len(self._found.leaf):
            self._found = Reached(self._found.start, np.empty(2 * n_leaves, np.int64), np.empty(2 * n_leaves))
            kernels.list_leaves_in_reach(*args, self._found)
        return Reached(self._found.start, self._found.leaf[:n_leaves], self._found.cost[:n_leaves])


def _reach(attacker: Attacker, n_features: int) -> Reach:
    budgets = attacker.moves(n_features).budgets()
    norm = -1 if attacker.norm == math.inf else int(attacker.norm)
    budget = math.inf if norm == -1 else total_budget(attacker)
    # Norm 0 counts moves, whatever their size.
    unit = np.ones((2, n_features)) if norm == 0 else attacker.scales(n_features)
    return Reach(budgets, unit, norm, budget)


def total_budget(attacker: Attacker) -> float:
    """Return what all moves together may cost: the power of eps, rounded; eps itself for norm 0."""
    return attacker.eps if attacker.norm == 0 else attacker.eps**attacker.norm

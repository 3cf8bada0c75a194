"""Grow a forest with large spread: trees that vote, grown in rounds, each round turned to the rows in danger.

1. Features are dealt out: each goes to as many trees as can hold a threshold on it without closing it to one
   another, so that no tree starves however large eps is.
2. Trees grow in rounds (`grower`), all trees of a round together. A row weighs the more, the smaller its worst-case
   margin in the vote of the trees so far (`Margins`).
3. Finally each leaf says what helps most the rows that the attacker can move to it.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from certiforest.attack.attacker import Attacker
from certiforest.ensemble import Nodes, TreeEnsemble
from certiforest.training.binning import Bins
from certiforest.training.grower import Frontier, GrownTree, GrowthData, gini_rule, grow_trees
from certiforest.training.split_kernels import GiniRule
from certiforest.training.training_set import TrainingSet
from certiforest.training.worst_case import WorstCase, as_box
from certiforest.training.worst_case_kernels import sum_leaf_weights

N_RELABEL_SWEEPS = 2
TRIMMED_SHARE = 0.1
LARGEST_EXPONENT = 100.0  # keeps weights above zero


class GrowthWarning(UserWarning):
    """A forest is smaller than asked for, because the attacker leaves no more."""


class Margins:
    """How safely each training row wins the vote when every tree does its worst.

    The margin of a row is the number of trees that vote for its class whatever the attacker does, minus the number that
    can be made to vote for the strongest rival: with large spread and norm inf, the row is robust iff this is positive
    (or zero, if it wins the tie).

    Parameters
    ----------
    case : WorstCase
        The rows, without trees.
    n_classes : int
    """

    def __init__(self, case: WorstCase, n_classes: int) -> None:
        self._case = case
        self._votes = np.eye(n_classes)  # what a leaf of each class adds

    def add(self, trees: Sequence[Nodes]) -> None:
        """Count the votes of some more trees."""
        for tree in trees:
            self._case.add(self._case.reached(tree), self._votes[np.asarray(tree.leaf)])

    def weights(self, focus: float) -> NDArray[np.float64]:
        """Return how much each row still matters, from 1 (undecided) to 0 (surely won or lost), shape (n_rows,).

        This is four times the slope of the logistic function of ``focus`` times the margin, in whole multiples of
        2**-20: sums of such numbers are exact, so that no result depends on the order of rows.
        """
        margin = self._case.margin()
        margin[np.arange(len(margin)), self._case.class_index] = np.inf
        slope = 1 / np.cosh(np.minimum(focus / 2 * np.abs(margin.min(axis=1)), LARGEST_EXPONENT)) ** 2
        return np.ceil(slope * 2**20) / 2**20

    def relabel(self, trees: Sequence[Nodes], sample_weight: NDArray[np.float64], focus: float, n_sweeps: int) -> None:
        """Let each leaf, tree after tree, say what helps most the rows that can reach it, given the other trees."""
        for tree in itertools.chain.from_iterable([trees] * n_sweeps):
            leaf: NDArray[np.int64] = np.asarray(tree.leaf)
            reached = self._case.reached(tree)
            self._case.add(reached, self._votes[leaf], -1.0)
            leaves, weight = np.unique(reached.leaf), np.zeros((len(leaf), len(self._votes)))
            sum_leaf_weights(reached, self._case.class_index, sample_weight * self.weights(focus), weight)
            leaf[leaves] = weight[leaves].argmax(axis=1)
            self._case.add(reached, self._votes[leaf])


def grow_forest(
    rows: TrainingSet,
    *,
    n_estimators: int,
    max_depth: int | None,
    max_features: int,
    min_samples_leaf: int = 1,
    bootstrap: bool = False,
    n_rounds: int = 10,
    focus: float = 10.0,
    random_state: int | np.random.RandomState | None = None,
    n_jobs: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> TreeEnsemble:
    """Grow a forest of ``n_estimators`` trees that has large spread for the attacker.

    Parameters are those of `LargeSpreadForestClassifier`, in numbers of rows and features: a node looks at
    ``max_features`` first, and at all others only if these offer nothing.

    Warns
    -----
    GrowthWarning
        If thresholds ran out so that trees stayed much smaller than asked for.
    """
    rng = np.random.default_rng(check_random_state(random_state).randint(2**31 - 1, size=4))
    rows, attacker = rows.that_weigh(), rows.attacker
    X, weight = np.asfortranarray(rows.X), rows.weight  # bins and worst cases read it by column: turned once for both
    data, rule = GrowthData.of(X, attacker), gini_rule(rows.y_index, rows.is_held, min_samples_leaf)
    n_classes = len(rows.classes)
    margins = Margins(WorstCase(X, rule.class_index, n_classes, as_box(attacker), is_held=rows.is_held), n_classes)
    allowed = _deal_features(data, n_estimators, rng)
    steepness = focus / n_estimators
    grown: list[GrownTree] = []
    for trees in np.array_split(np.arange(n_estimators, dtype=np.int32), min(n_rounds, n_estimators)):
        roots = _roots(trees, weight * _trim(margins.weights(steepness), weight), rule, bootstrap, rng)
        grown += grow_trees(
            data, roots, rule, allowed, max_depth=max_depth, max_features=max_features, rng=rng, n_jobs=n_jobs
        )
        margins.add([tree.nodes for tree in grown[-len(trees) :]])
        if progress is not None:
            progress(len(grown), n_estimators)
    forest = [tree.nodes for tree in grown]
    if focus > 0:
        margins.relabel(forest, weight, steepness, N_RELABEL_SWEEPS)
    if attacker.can_move and allowed.any():
        _warn_if_starved(grown, attacker)
    return rows.ensemble(forest)


def _deal_features(data: GrowthData, n_trees: int, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Deal each feature to as many trees as fit on it; return who may use what, shape (n_trees, n_features).

    Trees fit on a feature if each can hold a threshold more than ``2 * eps`` from those of the others. Cards are
    dealt round the table, features in random order, so that hands differ by one card at most:

        feature 5 (room for 2): trees 0 1      feature 2 (room for 3): trees 2 3 0      feature 7 ...
    """
    n_fitting = _trees_that_fit(data.rows.bins, data.ledger.claims.distance_high, n_trees)
    order = rng.permutation(np.flatnonzero(n_fitting))
    feature = np.repeat(order, n_fitting[order])
    allowed = np.zeros((n_trees, len(n_fitting)), bool)
    allowed[np.arange(len(feature)) % n_trees, feature] = True
    return allowed


def _trees_that_fit(bins: Bins, distance: NDArray[np.float64], n_trees: int) -> NDArray[np.int64]:
    """Return to how many trees each feature has something to offer, shape (n_features,)."""
    with np.errstate(divide="ignore"):
        fitting = np.where(distance > 0, 1 + np.floor(bins.widths() / np.abs(distance)), n_trees)
    fitting = np.where(bins.n_bins > 1, np.minimum(fitting, n_trees), 0)
    # A column of one value, or none: where that is missing is all it tells, which no tree takes from another.
    return np.where(bins.has_missing & (bins.n_bins == 1), n_trees, fitting).astype(np.int64)


def _trim(importance: NDArray[np.float64], weight: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the importance of rows with the least important, which hold a small share of all, set to zero.

    In later rounds these are many rows: those that are surely won. Rows of equal importance stay or go together.
    """
    place = np.unique(importance, return_inverse=True)[1]
    held = np.cumsum(np.bincount(place, weights=importance * weight))
    return np.where(held[place] <= TRIMMED_SHARE * held[-1], 0.0, importance)


def _roots(
    trees: NDArray[np.int32], weight: NDArray[np.float64], rule: GiniRule, bootstrap: bool, rng: np.random.Generator
) -> Frontier:
    """Return the root of each tree with its rows: all of them, or those drawn, weighing as often as they were."""
    rows, weights = [], []
    for _ in trees:
        n_draws = np.bincount(rng.integers(len(weight), size=len(weight)), minlength=len(weight)) if bootstrap else 1
        tree_weight = weight * n_draws
        row = np.flatnonzero(tree_weight)
        rows.append(row.astype(np.uint32))
        weights.append(tree_weight[row])
    start = np.cumsum([0, *map(len, rows)])
    return Frontier.of(trees, start, np.concatenate(rows), np.concatenate(weights), rule)


def _warn_if_starved(grown: Sequence[GrownTree], attacker: Attacker) -> None:
    """Warn if more than half of the rows ended in leaves that should have been split."""
    is_leaf = np.concatenate([tree.nodes.left for tree in grown]) < 0
    is_starved = np.concatenate([tree.is_starved for tree in grown])
    n_rows = np.concatenate([tree.n_rows for tree in grown])
    share = n_rows[is_starved].sum() / n_rows[is_leaf].sum()
    if share <= 0.5:
        return
    n_trees = len(grown)
    n_splits = np.count_nonzero(~is_leaf) / n_trees
    fits = f"about n_estimators={max(1, int(n_trees * (1 - share)))}, eps={attacker.eps * (1 - share):.2g} or"
    fits += f" max_depth={max(1, int(np.log2(n_splits + 1)))} would fit"
    if share > 0.95:
        fits = "a much smaller eps is needed"
    warnings.warn(
        f"Thresholds ran out: with eps={attacker.eps:g} the {n_trees} trees have {n_splits:.1f} splits on average"
        f" and {share:.0%} of the rows ended in leaves that no open threshold could split; {fits}.",
        GrowthWarning,
        stacklevel=3,
    )

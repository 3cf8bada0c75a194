"""Grow a forest with large spread: trees that vote, grown in rounds, each round turned to the rows in danger.

1. Features are dealt out: each goes to as many trees as can hold a threshold on it without closing it to one
   another, so that no tree starves however large eps is.
2. Trees grow in rounds (`grower`), all trees of a round together. A row weighs the more, the smaller its worst-case
   margin in the vote of the trees so far (`margin`).
3. Finally each leaf says what helps most the rows that the attacker can move to it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from certiforest.attack.attacker import Attacker
from certiforest.ensemble import TreeEnsemble
from certiforest.training.binning import Bins
from certiforest.training.gini_score import GiniScore
from certiforest.training.grower import Frontier, GrownTrees, GrowthData, grow_trees
from certiforest.training.margin import Margins
from certiforest.training.sums import LabelledRows
from certiforest.training.worst_case import WorstCase, as_box

N_RELABEL_SWEEPS = 2
TRIMMED_SHARE = 0.1


class GrowthWarning(UserWarning):
    """A forest is smaller than asked for, because the attacker leaves no more."""


def grow_forest(
    X: NDArray[np.float64],
    y_index: NDArray,
    classes: NDArray,
    sample_weight: NDArray[np.float64] | None,
    attacker: Attacker,
    *,
    is_held: NDArray[np.bool_] | None = None,
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
    feature_names: list[str] | None = None,
) -> TreeEnsemble:
    """Grow a forest that has large spread for an attacker.

    Parameters
    ----------
    X : ndarray of float64, shape (n_rows, n_features)
        Finite values, or NaN.
    y_index : ndarray of int, shape (n_rows,)
        Class index of each row.
    classes : ndarray, shape (n_classes,)
        Labels.
    sample_weight : ndarray of float64, shape (n_rows,), or None
        Weight of each row, >= 0.
    attacker : Attacker
    is_held : ndarray of bool, shape (n_classes,), optional
        The classes whose rows are not attacked.
    n_estimators, max_depth, min_samples_leaf, bootstrap, n_rounds, focus
        As in `LargeSpreadForestClassifier`; ``min_samples_leaf`` is a number of rows.
    max_features : int
        Features that a node looks at first; all others only if these offer nothing.
    random_state : int, RandomState or None
    n_jobs : int or None
        Threads; the result does not depend on it.
    progress : callable, optional
        Called as ``progress(n_grown, n_estimators)`` after each round.
    feature_names : list of str, optional

    Returns
    -------
    TreeEnsemble
        ``n_estimators`` trees.

    Warns
    -----
    GrowthWarning
        If thresholds ran out so that trees stayed much smaller than asked for.
    """
    rng = np.random.default_rng(check_random_state(random_state).randint(2**31 - 1, size=4))
    X, y_index, weight = LabelledRows.weighted(X, y_index, sample_weight)
    X = np.asfortranarray(X)  # bins and worst cases read it by column: turned once for both
    n_classes, data = len(classes), GrowthData.of(X, attacker)
    score = GiniScore(y_index, n_classes, min_samples_leaf, is_held=is_held)
    case = WorstCase(X, score.class_index, n_classes, as_box(attacker), is_held=is_held)
    margins = Margins(case, n_classes)
    allowed = _deal_features(data, n_estimators, rng)
    steepness = focus / n_estimators
    rounds = []
    for trees in np.array_split(np.arange(n_estimators, dtype=np.int32), min(n_rounds, n_estimators)):
        roots = _roots(trees, weight * _trim(margins.weights(steepness), weight), bootstrap, rng)
        grown = grow_trees(
            data, roots, score, allowed, max_depth=np.iinfo(np.int32).max if max_depth is None else max_depth,
            max_features=max_features, rng=rng, n_jobs=n_jobs,
        )  # fmt: skip
        margins.add(grown)
        rounds.append(grown)
        if progress is not None:
            progress(int(trees[-1]) + 1, n_estimators)
    grown = GrownTrees.join(rounds)
    if focus > 0:
        margins.relabel(grown, weight, steepness, N_RELABEL_SWEEPS)
    if attacker.can_move and allowed.any():
        _warn_if_starved(grown, attacker)
    return TreeEnsemble.from_trees(
        (grown.nodes(tree) for tree in range(n_estimators)),
        n_features=X.shape[1], classes=classes, feature_names=feature_names,
    )  # fmt: skip


def _deal_features(data: GrowthData, n_trees: int, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Deal each feature to as many trees as fit on it; return who may use what, shape (n_trees, n_features).

    Trees fit on a feature if each can hold a threshold more than ``2 * eps`` from those of the others. Cards are
    dealt round the table, features in random order, so that hands differ by one card at most:

        feature 5 (room for 2): trees 0 1      feature 2 (room for 3): trees 2 3 0      feature 7 ...
    """
    n_fitting = _trees_that_fit(data.bins, data.ledger.claims.distance_high, n_trees)
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
    trees: NDArray[np.int32], weight: NDArray[np.float64], bootstrap: bool, rng: np.random.Generator
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
    return Frontier(np.arange(len(trees)), trees, start, np.concatenate(rows), np.concatenate(weights))


def _warn_if_starved(grown: GrownTrees, attacker: Attacker) -> None:
    """Warn if more than half of the rows ended in leaves that should have been split."""
    is_leaf = grown.left < 0
    share = grown.n_rows[grown.is_starved].sum() / grown.n_rows[is_leaf].sum()
    if share <= 0.5:
        return
    n_trees = len(grown.roots())
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

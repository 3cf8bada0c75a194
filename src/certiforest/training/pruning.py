"""Pruning: keep trees of a random forest that can be made to have large spread (the paper's Algorithm 1).

A forest with more trees than wanted is trained first. One tree is drawn; then, again and again, the tree that
overlaps with the kept ones on the fewest features is tried: all overlapping thresholds are pushed apart, in
rounds, until none overlap (the tree is kept, with every mutation) or the rounds are used up (it is dropped,
and the kept trees stay as they were). Often many trees overlap on equally few features, and the paper does not say
which of them to take: several orders of preference are followed to the end, and the training rows choose.
Partitions of the features are trained one after the other; their trees never overlap.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from certiforest.attack.attacker import Attacker
from certiforest.attack.spread import closing_distances
from certiforest.ensemble import Nodes, TreeEnsemble
from certiforest.training import pruning_kernels as kernels
from certiforest.training.training_set import TrainingSet
from certiforest.training.worst_case import WorstCase, as_box

Progress = Callable[[int, int], None]

# How far orders of preference stray from "most robust first", as a share of the training rows.
STRAY = 0.1


class Pruned(NamedTuple):
    """Trees that have large spread together, in the order in which they joined."""

    trees: list[Nodes]
    n_rounds: int  # most rounds that any of them took


def prune_forest(
    forest: Sequence[Nodes],
    n_keep: int,
    *,
    preference: NDArray[np.float64],
    attacker: Attacker,
    value_range: tuple[NDArray[np.float64], NDArray[np.float64]],
    shift_range: tuple[float, float],
    max_iter: int,
    generator: np.random.Generator,
    progress: Progress | None = None,
) -> Pruned:
    """Choose and mutate trees so that together they have large spread.

    Each try costs O(N log N) for the N thresholds on features that overlap, and each round that again for
    those that still do, plus the number of overlapping pairs.

    Parameters
    ----------
    forest : sequence of Nodes
        The trees to choose from.
    n_keep : int
        How many trees to keep, at least 1; fewer are kept if the forest is used up.
    preference : ndarray of float64, shape (n_trees,)
        Of trees that overlap on equally few features the one with the largest is taken, the first of several.
    attacker : Attacker
        Of any norm but 0.
    value_range : pair of ndarray of float64, shape (n_features,)
        Smallest and largest value of each feature; no threshold is pushed out of it.
    shift_range : pair of float
        Range of the draws, as multiples of ``eps * scale`` of the feature.
    max_iter : int
        Rounds per tree.
    generator : numpy.random.Generator
        Draws the first tree, then one number per overlapping pair and round.
    progress : callable, optional
        Called with the numbers of trees kept and wanted after every tree tried.
    """
    n_features = len(value_range[0])
    pool, threshold_of_node = _list_thresholds(forest, n_features)
    distances = closing_distances(attacker, n_features)
    step = attacker.eps * attacker.scale_of(n_features)
    pushing = kernels.Pushing(distances, step, *value_range, shift_range)
    value = pool.value.copy()
    rank = np.full(len(value), -1)  # place of each threshold's tree among the kept ones, -1 if it is none of them
    is_available = np.ones(len(forest), bool)
    is_overlapping = np.zeros(len(pool.group_feature), bool)
    trees: list[int] = []

    def keep(tree: int) -> None:
        rank[pool.tree_start[tree] : pool.tree_start[tree + 1]] = len(trees)
        trees.append(tree)
        groups = slice(*pool.tree_group_start[tree : tree + 2])
        kernels.mark_overlapping_groups(pool, pool.group_feature[groups], rank, value, distances, is_overlapping)

    def fit_in(tree: int) -> int:
        """Push apart what overlaps with ``tree`` and keep it; return the rounds taken, -1 on failure."""
        groups = np.arange(*pool.tree_group_start[tree : tree + 2])
        groups = groups[is_overlapping[groups]]
        features, segments = pool.group_feature[groups], []
        for g, f in zip(groups, features, strict=True):
            kept = pool.by_feature[pool.feature_start[f] : pool.feature_start[f + 1]]
            kept = kept[rank[kept] >= 0]
            kept = kept[rank[kept].argsort(kind="stable")]
            segments.append(np.concatenate((kept, np.arange(*pool.group_start[g : g + 2]))))
        members = np.concatenate([*segments, np.empty(0, np.int64)])
        segment_start = np.cumsum([0, *map(len, segments)])
        rank_of_member, pushed = rank[members], value[members]
        rank_of_member[rank_of_member < 0] = len(trees)
        n_rounds = kernels.push_apart(segment_start, features, rank_of_member, pushing, max_iter, generator, pushed)
        if n_rounds >= 0:
            value[members] = pushed
            keep(tree)
        return n_rounds

    most_rounds = 0
    first = int(generator.integers(len(forest)))
    is_available[first] = False
    keep(first)
    while len(trees) < n_keep and is_available.any():
        tree = kernels.find_best_tree(pool.tree_group_start, is_overlapping, is_available, preference)
        is_available[tree] = False
        most_rounds = max(most_rounds, fit_in(tree))
        if progress is not None:
            progress(len(trees), n_keep)
    mutated = []
    for tree in trees:
        threshold, place = np.array(forest[tree].threshold), threshold_of_node[tree]
        threshold[place >= 0] = value[pool.tree_start[tree] + place[place >= 0]]
        mutated.append(forest[tree]._replace(threshold=threshold))
    return Pruned(mutated, most_rounds)


def _list_thresholds(forest: Sequence[Nodes], n_features: int) -> tuple[kernels.Pool, list[NDArray[np.int64]]]:
    """Return the distinct thresholds of a forest, and for each tree which of its own each node holds, -1 at leaves."""
    features, values, threshold_of_node = [], [], []
    for tree in forest:
        split = np.flatnonzero((np.asarray(tree.left) >= 0) & ~np.isnan(tree.threshold))
        feature, value = np.asarray(tree.feature)[split], np.asarray(tree.threshold)[split]
        order = np.lexsort((value, feature))
        feature, value = feature[order], value[order]
        is_new = np.ones(len(split), bool)
        is_new[1:] = (feature[1:] != feature[:-1]) | (value[1:] != value[:-1])
        of_node = np.full(len(np.asarray(tree.left)), -1)
        of_node[split[order]] = np.cumsum(is_new) - 1
        features.append(feature[is_new].astype(np.int64))
        values.append(value[is_new])
        threshold_of_node.append(of_node)
    feature, tree_start = np.concatenate(features), np.cumsum([0, *map(len, features)])
    tree_of_threshold = np.repeat(np.arange(len(forest)), np.diff(tree_start))
    is_first = np.ones(len(feature), bool)  # of its group
    is_first[1:] = (tree_of_threshold[1:] != tree_of_threshold[:-1]) | (feature[1:] != feature[:-1])
    pool = kernels.Pool(
        value=np.concatenate(values),
        tree_start=tree_start,
        group_start=np.append(np.flatnonzero(is_first), len(feature)),
        group_feature=feature[is_first],
        tree_group_start=np.searchsorted(tree_of_threshold[is_first], np.arange(len(forest) + 1)),
        by_feature=feature.argsort(kind="stable"),
        feature_start=np.append(0, np.bincount(feature, minlength=n_features).cumsum()),
    )
    return pool, threshold_of_node


def train_pruned_forest(
    rows: TrainingSet,
    *,
    n_estimators: int,
    max_iter: int,
    pool_factor: int,
    shift_range: tuple[float, float],
    n_partitions: int,
    n_orders: int,
    relabel: bool,
    forest_params: dict,
    random_state: np.random.RandomState,
    n_jobs: int | None,
    progress: Progress | None = None,
) -> tuple[TreeEnsemble, int]:
    """Train random forests on partitions of the features and prune each (the paper's hierarchical training).

    Frozen features belong to every partition: trees may share them at will. Partitions are trained one after the other,
    and what one falls short of is asked of those that follow, and at last of those before. In each, ``n_orders`` of
    preference are followed: the one that keeps the most trees wins, then the one whose votes, with those of the
    partitions before, are robust on most training rows. With norm 0 there is one tree per partition.

    Parameters are those of `LargeSpreadForestClassifier`, and further ones of `RandomForestClassifier`. Returned are
    the ensemble, with fewer trees than ``n_estimators`` if forests were used up before, and the most rounds that a kept
    tree took.
    """
    X, y_index, row_weight, classes, attacker, is_held, *_ = rows
    is_frozen = attacker.is_frozen(X.shape[1])
    shared, movable = np.flatnonzero(is_frozen), np.flatnonzero(~is_frozen)
    if attacker.norm == 0:
        n_partitions, pool_factor = n_estimators, 1
    value_range = np.fmin.reduce(X), np.fmax.reduce(X)  # of values that are not missing
    votes = np.eye(len(classes))
    n_kept = n_reported = 0

    def report(n_more: int, n_wanted: int) -> None:
        nonlocal n_reported
        if progress is not None and n_kept + n_more > n_reported:  # every order starts from one tree again
            n_reported = n_kept + n_more
            progress(n_reported, n_estimators)

    def with_votes(case: WorstCase, trees: Sequence[Nodes]) -> WorstCase:
        case = case.copy()
        for tree in trees:
            case.add(case.reached(tree), votes[np.asarray(tree.leaf)])
        return case

    def weight_won(case: WorstCase) -> float:
        return float(row_weight[case.is_won()].sum())

    def prune(pool: list[Nodes], seed: int, preference: NDArray[np.float64], n_keep: int) -> Pruned:
        return prune_forest(
            pool,
            n_keep,
            preference=preference,
            attacker=attacker,
            value_range=value_range,
            shift_range=shift_range,
            max_iter=max_iter,
            generator=np.random.default_rng(seed),
            progress=report,
        )

    from sklearn.ensemble import RandomForestClassifier  # slow to import, and growing does without

    case = untouched = WorstCase(X, y_index, len(classes), as_box(attacker), is_held=is_held)
    partitions = []
    for index, part in enumerate(np.array_split(random_state.permutation(movable), n_partitions)):
        n_keep = -((n_kept - n_estimators) // (n_partitions - index))
        columns = np.sort(np.concatenate((part, shared)))
        forest = RandomForestClassifier(
            n_estimators=pool_factor * n_keep,
            random_state=random_state.randint(np.iinfo(np.int32).max),
            n_jobs=n_jobs,
            **forest_params,
        )
        forest.fit(X[:, columns], y_index, None if (row_weight == 1.0).all() else row_weight)
        pool = [_as_nodes(tree.tree_, columns) for tree in forest.estimators_]
        seed = random_state.randint(np.iinfo(np.int32).max)
        again: Callable[[int], Pruned]  # prunes the forest as it was pruned, to another number of trees
        if attacker.norm == 0:
            again, pruned = functools.partial(prune, pool, seed, np.zeros(1)), Pruned(pool, 0)
        else:
            shares = np.array([weight_won(with_votes(untouched, [tree])) for tree in pool]) / row_weight.sum()
            best: tuple[int, float] | None = None
            for order in range(n_orders):  # the same first tree and draws: only ties differ
                stray = STRAY * np.random.default_rng((seed, order)).standard_normal(len(pool)) if order > 0 else 0.0
                candidate = functools.partial(prune, pool, seed, shares + stray)
                kept = candidate(n_keep)
                of_kept = with_votes(case, kept.trees)
                merit = len(kept.trees), weight_won(of_kept)
                if best is None or merit > best:
                    best, again, pruned, case_after = merit, candidate, kept, of_kept
            case = case_after
        partitions.append((again, pruned))
        n_kept += len(pruned.trees)
        report(0, n_keep)

    # Partitions with room to spare make up for what the last ones lack: the same choice goes on.
    for index, (again, pruned) in enumerate(partitions):
        if n_kept < n_estimators:
            n_kept -= len(pruned.trees)
            partitions[index] = again, again(n_estimators - n_kept)
            n_kept += len(partitions[index][1].trees)

    ensemble = rows.ensemble([tree for _, pruned in partitions for tree in pruned.trees])
    n_rounds = max(pruned.n_rounds for _, pruned in partitions)
    return (_relabelled(ensemble, X, y_index, row_weight) if relabel else ensemble), n_rounds


def _as_nodes(tree: Any, columns: NDArray[np.int64]) -> Nodes:
    """Return a fitted scikit-learn tree over some columns as nodes over all features."""
    is_leaf = tree.children_left < 0
    # Infinity parts numbers, on its left, from missing values. Here such splits have no threshold and turn round.
    turns = np.isposinf(tree.threshold)
    return Nodes(
        left=np.where(turns, tree.children_right, tree.children_left),
        right=np.where(turns, tree.children_left, tree.children_right),
        feature=np.where(is_leaf, -1, columns[np.where(is_leaf, 0, tree.feature)]),
        threshold=np.where(is_leaf, 0.0, np.where(turns, np.nan, tree.threshold)),
        leaf=tree.value[:, 0, :].argmax(axis=1),
        missing_left=~is_leaf & (turns | (tree.missing_go_to_left != 0)),
    )


def _relabelled(ensemble: TreeEnsemble, X: NDArray, y_index: NDArray, row_weight: NDArray) -> TreeEnsemble:
    """Give each leaf the class with most weight among the rows that reach it; an empty leaf keeps its own."""
    weight = np.zeros((ensemble.n_nodes, ensemble.n_classes))
    kernels.weigh_leaves(ensemble.trees, X, y_index, row_weight, weight)
    leaf = np.where(weight.any(axis=1), weight.argmax(axis=1), ensemble.leaf)
    return ensemble.replace(leaf=leaf)

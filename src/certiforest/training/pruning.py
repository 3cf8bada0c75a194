"""Pruning: keep trees of a random forest that can be made to have large spread (the paper's Algorithm 1).

A forest with more trees than wanted is trained first. One tree is drawn; then, again and again, the tree that
overlaps with the kept ones on the fewest features is tried: all overlapping thresholds are pushed apart, in
rounds, until none overlap (the tree is kept, with every mutation) or the rounds are used up (it is dropped,
and the kept trees stay as they were). Often many trees overlap on equally few features, and the paper does not say
which of them to take: several orders of preference are followed to the end, and the training rows choose.
Partitions of the features are trained one after the other; their trees never overlap.
"""

from __future__ import annotations

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


class Choice(NamedTuple):
    """What was kept of the forest of one partition, and all that is needed to go on from there."""

    pool: list[Nodes]
    seed: int  # of the first tree and the draws
    preference: NDArray[np.float64]  # (n_trees,)
    pruned: Pruned


class PoolThresholds(NamedTuple):
    """The distinct thresholds of a forest, sorted by tree, feature and value, and which nodes hold them."""

    feature: NDArray[np.int64]  # (n_thresholds,)
    value: NDArray[np.float64]  # (n_thresholds,)
    group_start: NDArray[np.int64]  # (n_groups + 1,); a group: one tree's thresholds on one feature
    group_feature: NDArray[np.int64]  # (n_groups,)
    tree_group_start: NDArray[np.int64]  # (n_trees + 1,)
    threshold_of_node: list[NDArray[np.int64]]  # per tree (n_nodes,), -1 at leaves

    def of_tree(self, tree: int) -> slice:
        """Return where the thresholds of a tree are."""
        first, last = self.tree_group_start[tree : tree + 2]
        return slice(int(self.group_start[first]), int(self.group_start[last]))


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
        The trees to choose from; they are not changed.
    n_keep : int
        How many trees to keep, at least 1.
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

    Returns
    -------
    Pruned
        Fewer than ``n_keep`` trees if the forest is used up.
    """
    pool = _list_thresholds(forest)
    n_features = len(value_range[0])
    distances = closing_distances(attacker, n_features)
    step = attacker.eps * attacker.scale_of(n_features)
    pushing = kernels.Pushing(distances, step, *value_range, shift_range)

    # Kept thresholds live in one row of slots per feature, long enough for the whole pool.
    kept_start = np.concatenate(([0], np.cumsum(np.bincount(pool.feature, minlength=n_features))))
    n_kept = np.zeros(n_features, np.int64)
    kept = np.empty(len(pool.value), np.int64)  # thresholds, in the order in which their trees joined
    kept_value = np.empty(len(pool.value))  # their values, sorted
    rank = np.zeros(len(pool.value), np.int64)  # place of each threshold's tree among the kept ones

    value = pool.value.copy()
    is_available = np.ones(len(forest), bool)
    is_overlapping = np.zeros(len(pool.group_feature), bool)

    def keep(tree: int, changed: NDArray[np.int64]) -> None:
        """Add a tree; ``changed`` lists features on which values of kept thresholds have changed."""
        has_changed = np.zeros(n_features, bool)
        has_changed[changed] = True
        here = pool.of_tree(tree)
        rank[here] = len(trees)
        for threshold in range(here.start, here.stop):
            f = pool.feature[threshold]
            kept[kept_start[f] + n_kept[f]] = threshold
            n_kept[f] += 1
            has_changed[f] = True
        for f in np.flatnonzero(has_changed):
            slots = slice(kept_start[f], kept_start[f] + n_kept[f])
            kept_value[slots] = np.sort(value[kept[slots]])
        trees.append(tree)
        groups = kernels.Groups(pool.group_start, pool.group_feature, pool.value)
        kept_thresholds = kernels.Kept(kept_start, n_kept, kept_value)
        kernels.mark_overlapping_groups(groups, kept_thresholds, has_changed, distances, is_overlapping)

    def fit_in(tree: int) -> int:
        """Push apart what overlaps with ``tree`` and keep it; return the rounds taken, -1 on failure."""
        groups = np.arange(*pool.tree_group_start[tree : tree + 2])
        groups = groups[is_overlapping[groups]]
        features = pool.group_feature[groups]
        segments = [
            np.concatenate((kept[kept_start[f] : kept_start[f] + n_kept[f]], np.arange(*pool.group_start[g : g + 2])))
            for g, f in zip(groups, features, strict=True)
        ]
        members = np.concatenate([*segments, np.empty(0, np.int64)])
        segment_start = np.cumsum([0, *map(len, segments)])
        rank[pool.of_tree(tree)] = len(trees)
        pushed = value[members]
        n_rounds = kernels.push_apart(segment_start, features, rank[members], pushing, max_iter, generator, pushed)
        if n_rounds >= 0:
            value[members] = pushed
            keep(tree, features)
        return n_rounds

    trees: list[int] = []
    most_rounds = 0
    first = int(generator.integers(len(forest)))
    is_available[first] = False
    keep(first, np.empty(0, np.int64))
    while len(trees) < n_keep and is_available.any():
        tree = kernels.find_best_tree(pool.tree_group_start, is_overlapping, is_available, preference)
        is_available[tree] = False
        most_rounds = max(most_rounds, fit_in(tree))
        if progress is not None:
            progress(len(trees), n_keep)
    return Pruned([_with_thresholds(forest[tree], value, pool.threshold_of_node[tree]) for tree in trees], most_rounds)


def _list_thresholds(forest: Sequence[Nodes]) -> PoolThresholds:
    splits = [np.flatnonzero((np.asarray(tree.left) >= 0) & ~np.isnan(tree.threshold)) for tree in forest]
    tree_of_split = np.repeat(np.arange(len(forest)), [len(nodes) for nodes in splits])
    feature = np.concatenate([np.asarray(tree.feature)[at] for tree, at in zip(forest, splits, strict=True)])
    value = np.concatenate([np.asarray(tree.threshold)[at] for tree, at in zip(forest, splits, strict=True)])

    order = np.lexsort((value, feature, tree_of_split))
    tree_of_split, feature, value = tree_of_split[order], feature[order], value[order]
    is_new_group = np.ones(len(value), bool)
    is_new_group[1:] = (tree_of_split[1:] != tree_of_split[:-1]) | (feature[1:] != feature[:-1])
    is_new = is_new_group.copy()
    is_new[1:] |= value[1:] != value[:-1]
    threshold_of_split = np.empty(len(value), np.int64)
    threshold_of_split[order] = np.cumsum(is_new) - 1

    threshold_of_node = []
    ends = np.cumsum([len(nodes) for nodes in splits])
    for tree, at, end in zip(forest, splits, ends, strict=True):
        of_node = np.full(len(np.asarray(tree.left)), -1)
        of_node[at] = threshold_of_split[end - len(at) : end]
        threshold_of_node.append(of_node)
    group_start = np.append(np.flatnonzero(is_new_group[is_new]), is_new.sum())
    group_tree = tree_of_split[is_new_group]
    return PoolThresholds(
        feature=feature[is_new].astype(np.int64),
        value=value[is_new],
        group_start=group_start,
        group_feature=feature[is_new_group].astype(np.int64),
        tree_group_start=np.searchsorted(group_tree, np.arange(len(forest) + 1)),
        threshold_of_node=threshold_of_node,
    )


def _with_thresholds(tree: Nodes, value: NDArray[np.float64], threshold_of_node: NDArray[np.int64]) -> Nodes:
    is_split = threshold_of_node >= 0
    threshold = np.array(tree.threshold)
    threshold[is_split] = value[threshold_of_node[is_split]]
    return tree._replace(threshold=threshold)


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
    X, y_index, row_weight, classes, attacker, is_held, _ = rows
    is_frozen = attacker.is_frozen(X.shape[1])
    shared, movable = np.flatnonzero(is_frozen), np.flatnonzero(~is_frozen)
    if attacker.norm == 0:
        n_partitions, pool_factor = n_estimators, 1
    value_range = np.fmin.reduce(X), np.fmax.reduce(X)  # of values that are not missing
    untouched = WorstCase(X, y_index, len(classes), as_box(attacker), is_held=is_held)
    votes = np.eye(len(classes))
    case = untouched

    choices: list[Choice] = []  # one per partition
    n_kept = n_reported = 0

    def report(n_more: int, n_wanted: int) -> None:
        nonlocal n_reported
        if progress is not None and n_kept + n_more > n_reported:  # every order starts from one tree again
            n_reported = n_kept + n_more
            progress(n_reported, n_estimators)

    def prune(pool: list[Nodes], n_keep: int, seed: int, preference: NDArray[np.float64]) -> Choice:
        pruned = prune_forest(
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
        return Choice(pool, seed, preference, pruned)

    from sklearn.ensemble import RandomForestClassifier  # slow to import, and growing does without

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
        if attacker.norm == 0:
            choices.append(Choice(pool, seed, np.zeros(1), Pruned(pool, 0)))
            n_kept += 1
            report(0, 1)
            continue

        shares = np.empty(len(pool))
        for number, tree in enumerate(pool):
            alone = untouched.copy()
            alone.add(alone.reached(tree), votes[np.asarray(tree.leaf)])
            shares[number] = row_weight[alone.is_won()].sum() / row_weight.sum()
        best: tuple[int, float] | None = None
        for order in range(n_orders):
            stray = STRAY * np.random.default_rng((seed, order)).standard_normal(len(pool)) if order > 0 else 0.0
            candidate = prune(pool, n_keep, seed, shares + stray)  # the same first tree and draws: only ties differ
            candidate_case = case.copy()
            for tree in candidate.pruned.trees:
                candidate_case.add(candidate_case.reached(tree), votes[np.asarray(tree.leaf)])
            merit = len(candidate.pruned.trees), float(row_weight[candidate_case.is_won()].sum())
            if best is None or merit > best:
                best, choice, choice_case = merit, candidate, candidate_case
        case = choice_case
        choices.append(choice)
        n_kept += len(choice.pruned.trees)

    # Partitions with room to spare make up for what the last ones lack: the same choice goes on.
    for index, choice in enumerate(choices):
        if n_kept == n_estimators:
            break
        n_own = len(choice.pruned.trees)
        n_kept -= n_own
        choices[index] = prune(choice.pool, n_estimators - n_kept, choice.seed, choice.preference)
        n_kept += len(choices[index].pruned.trees)

    trees = [tree for choice in choices for tree in choice.pruned.trees]
    n_rounds = max(choice.pruned.n_rounds for choice in choices)
    ensemble = rows.ensemble(trees)
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

"""Grow trees that have large spread by construction, each split chosen for what the attacker leaves of it.

All trees grow together, level by level, so that no tree takes every good threshold first. One level:

1. every node draws some features; `split_kernels` finds the best open threshold on each (in threads);
2. nodes, in random order, claim their best split in the `ThresholdLedger`; a node whose threshold was claimed by
   another tree meanwhile searches that one feature again, until its best split is open or nothing is left;
3. the rows of the nodes that split are routed to the children, which form the next level.

`grow_trees` knows nothing of votes: a `SplitScore` tells what a split is worth and what a leaf says.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import NamedTuple, Protocol

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from certiforest.attacker import Attacker
from certiforest.ensemble import Nodes, TreeEnsemble
from certiforest.spread import has_large_spread
from certiforest.training import growing_kernels as kernels
from certiforest.training.binning import Bins, bin_features
from certiforest.training.split_kernels import search_gini
from certiforest.training.threshold_ledger import ThresholdLedger

MAX_CANDIDATES = 2_000_000  # splits remembered at a time: bounds the memory of a level
ENTRIES_PER_TASK = 4096


class Frontier(NamedTuple):
    """The nodes of one level of all trees, and the training rows in them.

    Attributes
    ----------
    node, tree : ndarray of int64, int32, shape (n_nodes,)
        Place of each node in the node table, and the tree it belongs to.
    start : ndarray of int64, shape (n_nodes + 1,)
        Rows of node ``i`` are ``row[start[i]:start[i + 1]]``.
    row, weight : ndarray of uint32, float64, shape (start[-1],)
        Training rows and their weights.
    """

    node: NDArray[np.int64]
    tree: NDArray[np.int32]
    start: NDArray[np.int64]
    row: NDArray[np.uint32]
    weight: NDArray[np.float64]


class Task(NamedTuple):
    """What every split search of one training needs."""

    bins: Bins
    centre: NDArray[np.float64]
    reach: NDArray[np.float64]
    ledger: ThresholdLedger
    min_samples_leaf: int


class SplitScore(Protocol):
    """What a split is worth and what a leaf says."""

    def leaves(self, frontier: Frontier) -> tuple[NDArray, NDArray[np.bool_]]:
        """Return what each node would say as a leaf, and whether no split can improve on it; (n_nodes,) each."""

    def search(
        self, task: Task, frontier: Frontier, node: NDArray, feature: NDArray, block: slice,
        out_gain: NDArray, out_threshold: NDArray,
    ) -> None:  # fmt: skip
        """Write gain and threshold of the best open split of each entry (node, feature) of a block of entries."""


class GiniScore:
    """Votes: the worst-case gain in Gini impurity; a leaf says the class that weighs most.

    Parameters
    ----------
    class_index : ndarray of int, shape (n_rows,)
    n_classes : int
    """

    def __init__(self, class_index: NDArray, n_classes: int) -> None:
        self.class_index = class_index.astype(np.min_scalar_type(n_classes - 1))
        self.n_classes = n_classes

    def leaves(self, frontier: Frontier) -> tuple[NDArray, NDArray[np.bool_]]:
        """Return the heaviest class of each node, and whether it is the only one."""
        weights = np.zeros((len(frontier.node), self.n_classes))
        kernels.sum_class_weights(frontier.row, frontier.weight, frontier.start, self.class_index, weights)
        return weights.argmax(axis=1), (weights > 0).sum(axis=1) <= 1

    def search(
        self, task: Task, frontier: Frontier, node: NDArray, feature: NDArray, block: slice,
        out_gain: NDArray, out_threshold: NDArray,
    ) -> None:  # fmt: skip
        """Search the entries of a block."""
        bins = task.bins
        search_gini(
            bins.code, task.centre, bins.low, bins.high, bins.n_bins, bins.common, task.reach, task.ledger.claims,
            frontier.row, frontier.weight, frontier.start, frontier.tree, self.class_index,
            node, feature, block.start, block.stop, task.min_samples_leaf, self.n_classes,
            out_gain, out_threshold,
        )  # fmt: skip


class GrownTrees(NamedTuple):
    """Nodes of all trees in the order in which they were made; a child comes after its parent.

    Attributes
    ----------
    tree, feature, left, right : ndarray of int, shape (n_nodes,)
        ``left == -1`` marks a leaf.
    threshold : ndarray of float64, shape (n_nodes,)
    leaf : ndarray, shape (n_nodes,)
        What the node says as a leaf.
    """

    tree: NDArray[np.int32]
    feature: NDArray[np.int32]
    threshold: NDArray[np.float64]
    left: NDArray[np.int64]
    right: NDArray[np.int64]
    leaf: NDArray

    def nodes(self, tree: int) -> Nodes:
        """Return one tree with children as indices into itself."""
        own = np.flatnonzero(self.tree == tree)
        place = np.full(len(self.tree) + 1, -1)  # the last entry serves left == -1
        place[own] = np.arange(len(own))
        return Nodes(
            place[self.left[own]], place[self.right[own]], self.feature[own], self.threshold[own], self.leaf[own]
        )


def grow_trees(
    task: Task,
    roots: Frontier,
    score: SplitScore,
    allowed: NDArray[np.bool_],
    *,
    max_depth: int,
    max_features: int,
    route_both: bool,
    rng: np.random.Generator,
    n_jobs: int,
) -> GrownTrees:
    """Grow all trees together, level by level.

    Parameters
    ----------
    task : Task
        Its ledger gains the thresholds of the trees.
    roots : Frontier
        One node per tree.
    score : SplitScore
    allowed : ndarray of bool, shape (n_trees, n_features)
        Features that each tree may use; ``roots.tree`` indexes its lines.
    max_depth, max_features : int
    route_both : bool
        Whether rows that can be moved across a threshold go to both children.
    rng : Generator
    n_jobs : int
        Threads; the result does not depend on it.
    """
    levels: list[GrownTrees] = []
    frontier, n_nodes = roots, len(roots.node)
    reach = task.reach if route_both else np.zeros_like(task.reach)
    with _thread_pool(n_jobs) as pool:
        for depth in range(max_depth + 1):
            leaf, is_done = score.leaves(frontier)
            feature = np.full(len(frontier.node), -1, np.int32)
            threshold = np.zeros(len(frontier.node))
            if depth < max_depth:
                n_rows = np.diff(frontier.start)
                open_nodes = rng.permutation(np.flatnonzero(~is_done & (n_rows >= 2 * task.min_samples_leaf)))
                for chunk in _chunks(open_nodes, MAX_CANDIDATES // max_features):
                    _split_nodes(task, frontier, chunk, score, allowed, max_features, rng, pool, feature, threshold)
            split = np.flatnonzero(feature >= 0)
            left, right = np.full((2, len(feature)), -1)
            left[split] = n_nodes + 2 * np.arange(len(split))
            right[split] = left[split] + 1
            levels.append(GrownTrees(frontier.tree, feature, threshold, left, right, leaf))
            if len(split) == 0:
                break
            children = np.arange(n_nodes, n_nodes + 2 * len(split))
            frontier = _route(task, frontier, split, feature[split], threshold[split], reach, children)
            n_nodes += 2 * len(split)
    return GrownTrees(*map(np.concatenate, zip(*levels, strict=True)))


def _split_nodes(
    task: Task, frontier: Frontier, nodes: NDArray, score: SplitScore, allowed: NDArray[np.bool_],
    max_features: int, rng: np.random.Generator, pool: ThreadPoolExecutor,
    out_feature: NDArray, out_threshold: NDArray,
) -> None:  # fmt: skip
    """Choose and claim the splits of some nodes of a level; nodes without one keep feature -1."""
    task.ledger.reserve(len(nodes))
    order = _draw_features(allowed, frontier.tree[nodes], rng)
    # Nodes to which the features drawn first offer nothing see all the others.
    for drawn in (order[:, :max_features], order[:, max_features:]):
        nodes_left = np.flatnonzero(out_feature[nodes] < 0)
        if drawn.shape[1] == 0 or len(nodes_left) == 0:
            return
        feature = np.ascontiguousarray(drawn[nodes_left])
        gain, threshold = np.zeros(feature.shape), np.zeros(feature.shape)
        asked = feature >= 0
        pending = np.arange(len(nodes_left))
        while len(pending):
            line, column = np.nonzero(asked)
            found = _search(task, frontier, nodes[nodes_left[line]], feature[asked], score, pool)
            gain[asked], threshold[asked] = found
            choice = np.empty(len(pending), np.int64)
            waiting = gain[pending]
            kernels.claim_best(
                task.ledger.claims, frontier.tree[nodes[nodes_left[pending]]], feature[pending], waiting,
                threshold[pending], choice,
            )  # fmt: skip
            won = np.flatnonzero(choice >= 0)
            place = pending[won], choice[won]
            chosen = nodes[nodes_left[pending[won]]]
            out_feature[chosen], out_threshold[chosen] = feature[place], threshold[place]
            again = choice == kernels.ASK_AGAIN
            pending = pending[again]
            asked = np.zeros(feature.shape, bool)
            asked[pending] = np.isnan(waiting[again])


def _search(
    task: Task, frontier: Frontier, node: NDArray, feature: NDArray, score: SplitScore, pool: ThreadPoolExecutor
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return gain and threshold of entries (node, feature), searched in threads."""
    gain, threshold = np.empty(len(node)), np.empty(len(node))
    blocks = [slice(i, min(i + ENTRIES_PER_TASK, len(node))) for i in range(0, len(node), ENTRIES_PER_TASK)]
    list(pool.map(lambda block: score.search(task, frontier, node, feature, block, gain, threshold), blocks))
    return gain, threshold


def _draw_features(allowed: NDArray[np.bool_], tree: NDArray, rng: np.random.Generator) -> NDArray[np.int32]:
    """Return the features that each node may use in random order, -1 after the last; (n_nodes, n_features)."""
    key = rng.random((len(tree), allowed.shape[1]), dtype=np.float32)
    key[~allowed[tree]] = 2.0
    order = key.argsort(axis=1).astype(np.int32)
    order[np.arange(order.shape[1]) >= allowed[tree].sum(axis=1)[:, None]] = -1
    return order[:, : allowed.sum(axis=1).max()]


def _route(
    task: Task, frontier: Frontier, split: NDArray, feature: NDArray, threshold: NDArray, reach: NDArray,
    children: NDArray,
) -> Frontier:  # fmt: skip
    """Return the children of the nodes that split as the next level."""
    n_rows = int(np.diff(frontier.start)[split].sum()) * (2 if reach.any() else 1)
    row, weight = np.empty(n_rows, np.uint32), np.empty(n_rows)
    start = np.empty(2 * len(split) + 1, np.int64)
    kernels.route(
        task.bins.code, task.centre, reach, frontier.row, frontier.weight, frontier.start, split, feature,
        threshold, row, weight, start,
    )  # fmt: skip
    return Frontier(children, np.repeat(frontier.tree[split], 2), start, row[: start[-1]], weight[: start[-1]])


def _chunks(values: NDArray, size: int) -> Iterator[NDArray]:
    for start in range(0, len(values), max(1, size)):
        yield values[start : start + max(1, size)]


@contextmanager
def _thread_pool(n_jobs: int) -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(max_workers=effective_n_jobs(n_jobs)) as pool:
        yield pool


def grow_forest(
    X: NDArray[np.float64],
    y_index: NDArray,
    n_classes: int,
    sample_weight: NDArray[np.float64] | None,
    attacker: Attacker,
    *,
    n_estimators: int,
    max_depth: int,
    max_features: int = 80,
    bootstrap: bool = True,
    min_samples_leaf: int = 1,
    deal_features: bool = False,
    route_both: bool = False,
    random_state: int | np.random.RandomState | None = None,
    n_jobs: int | None = None,
) -> TreeEnsemble:
    n_rows, n_features = X.shape
    rng = np.random.default_rng(check_random_state(random_state).randint(2**31 - 1, size=4))
    bins = bin_features(X)
    reach = np.where(attacker.is_frozen(n_features) | (attacker.norm == 0), 0.0, attacker.eps * attacker.scale_of(n_features))
    with np.errstate(invalid="ignore"):
        centre = bins.low + (bins.high - bins.low) / 2
    ledger = ThresholdLedger(attacker, n_features)
    task = Task(bins, centre, reach, ledger, min_samples_leaf)
    weight = np.ones(n_rows) if sample_weight is None else sample_weight
    roots = _roots(weight, n_estimators, bootstrap, rng)
    allowed = np.broadcast_to(bins.n_bins > 1, (n_estimators, n_features))
    if deal_features:
        allowed = allowed & _deal(bins, attacker, n_estimators, rng)
    grown = grow_trees(
        task, roots, GiniScore(y_index, n_classes), allowed, max_depth=max_depth, max_features=max_features,
        route_both=route_both, rng=rng, n_jobs=n_jobs or 1,
    )
    ensemble = TreeEnsemble.from_trees(
        (grown.nodes(tree) for tree in range(n_estimators)), n_features=n_features, classes=np.arange(n_classes)
    )
    assert has_large_spread(ensemble, attacker)
    return ensemble


def _deal(bins, attacker, n_trees, rng):
    n_features = len(bins.n_bins)
    out = np.zeros((n_trees, n_features), bool)
    order = rng.permutation(n_features)
    out[np.arange(n_features) % n_trees, order] = True
    return out


def _roots(weight: NDArray[np.float64], n_trees: int, bootstrap: bool, rng: np.random.Generator) -> Frontier:
    """Return the root of each tree with its rows: all, or a bootstrap sample, in which weights count draws."""
    rows, weights = [], []
    n_rows = len(weight)
    for _ in range(n_trees):
        drawn = np.bincount(rng.integers(n_rows, size=n_rows), minlength=n_rows) if bootstrap else 1
        tree_weight = weight * drawn
        row = np.flatnonzero(tree_weight > 0)
        rows.append(row.astype(np.uint32))
        weights.append(tree_weight[row])
    start = np.concatenate([[0], np.cumsum([len(row) for row in rows])])
    return Frontier(
        np.arange(n_trees), np.arange(n_trees, dtype=np.int32), start, np.concatenate(rows), np.concatenate(weights)
    )

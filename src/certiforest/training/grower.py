"""The grower: trees that have large spread by construction, each split chosen for what the attacker leaves of it.

Trees grow together, level by level, so that no tree takes every good threshold first. One level:

1. every node draws some features; `split_kernels` finds the best open threshold on each (in threads);
2. nodes, in random order, claim their best split in the `ThresholdLedger`; a node whose threshold was claimed by
   another tree meanwhile searches that one feature again, until its best split is open or nothing is left;
3. the rows of the nodes that split are routed to the children, which form the next level.

`grow_trees` knows nothing of votes: a `SplitScore` tells what a split is worth and what a leaf says.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, Protocol

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import NDArray

from certiforest.attack.attacker import Attacker
from certiforest.ensemble import Nodes
from certiforest.training import grower_kernels as kernels
from certiforest.training.binning import Bins, UncommonCodes, bin_features
from certiforest.training.threshold_ledger import ThresholdLedger
from certiforest.training.worst_case import as_box

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


class GrowthData(NamedTuple):
    """What all trees of one training share: the data they grow on and the thresholds they hold.

    Attributes
    ----------
    bins : Bins
    reach : ndarray of float64, shape (2, n_features)
        How far the attacker can move each feature, down and up.
    ledger : ThresholdLedger
    closes : bool
        Whether thresholds of one tree close any to others.
    uncommon : UncommonCodes
        The codes of the bins once more, by row.
    """

    bins: Bins
    reach: NDArray[np.float64]
    ledger: ThresholdLedger
    closes: bool
    uncommon: UncommonCodes

    @classmethod
    def of(
        cls, X: NDArray[np.float64], attacker: Attacker, closes: bool = True, cells_per_reach: float | None = None
    ) -> GrowthData:
        """Bin the rows and open a ledger for an attacker; unless it ``closes`` thresholds, trees share them freely.

        With ``cells_per_reach`` values that are nearer to each other than such a part of the reach count as one.
        """
        n_features = X.shape[1]
        reach = as_box(attacker).eps * attacker.scales(n_features)
        reach[~attacker.may_move(n_features)] = 0.0
        bins = bin_features(X)
        if cells_per_reach is not None:
            bins.merge(reach.max(axis=0) / cells_per_reach)
        return cls(bins, reach, ThresholdLedger(attacker if closes else None, n_features), closes, bins.uncommon())

    def take(self, rows: NDArray) -> GrowthData:
        """Return some rows side by side, with the same ledger: far apart they would be slow to read again and again."""
        bins = self.bins._replace(code=self.bins.code.take(rows, axis=1))
        return self._replace(bins=bins, uncommon=self.uncommon.take(rows))


class Discount(NamedTuple):
    """How a gain counts on a feature on which the tree holds no threshold yet.

    Attributes
    ----------
    factor : ndarray of float64, shape (n_features,)
        What it is multiplied with.
    least_gain : float
        What it must reach then, else it counts as nothing.
    """

    factor: NDArray[np.float64]
    least_gain: float


class Entries(NamedTuple):
    """Pairs of a node of a level and a feature on which a split is to be searched, (n_entries,) each."""

    node: NDArray[np.int64]
    feature: NDArray[np.int32]


class Chosen(NamedTuple):
    """The nodes of a level that split, and how, (n_splits,) each; see `Found`."""

    node: NDArray[np.int64]
    feature: NDArray[np.int32]
    threshold: NDArray[np.float64]
    missing_side: NDArray[np.int8]


class Found(NamedTuple):
    """The best open splits of some nodes on some features, in whatever shape nodes and features come.

    Attributes
    ----------
    gain, threshold : ndarray of float64
        A split without threshold (NaN) parts values that are missing, which go left, from all numbers.
    missing_side : ndarray of int8
        Where missing values go: `LEFT`, `RIGHT` or, if there were none, `LARGER` of `grower_kernels`.
    """

    gain: NDArray[np.float64]
    threshold: NDArray[np.float64]
    missing_side: NDArray[np.int8]

    @classmethod
    def of(cls, shape: int | tuple[int, ...]) -> Found:
        """Return splits that gain nothing."""
        return cls(np.zeros(shape), np.zeros(shape), np.full(shape, kernels.LARGER, np.int8))

    def put(self, place: Any, found: Found) -> None:
        """Write splits to some places."""
        self.gain[place], self.threshold[place], self.missing_side[place] = found

    def at(self, place: Any) -> Found:
        """Return the splits of some places."""
        return Found(self.gain[place], self.threshold[place], self.missing_side[place])


class SplitScore(Protocol):
    """What a split is worth and what a leaf says. Its *totals* are what it adds up over the rows of a node."""

    class_index: NDArray

    def totals(self, frontier: Frontier) -> NDArray[np.float64]:
        """Return the totals of each node, shape (n_nodes, n_totals)."""

    def leaves(self, frontier: Frontier, totals: NDArray[np.float64]) -> tuple[NDArray, NDArray[np.bool_]]:
        """Return what each node says as a leaf, and whether it need not be split further; (n_nodes,) each."""

    def search(
        self, data: GrowthData, frontier: Frontier, totals: NDArray[np.float64], entries: Entries, out: Found
    ) -> None:
        """Write the best open split of each entry."""

    def near_sides(
        self, data: GrowthData, frontier: Frontier, totals: NDArray[np.float64], chosen: Chosen
    ) -> NDArray[np.int8]:
        """Return where the attacker's reach puts the rows of each class near a split, shape (n_splits, n_classes).

        `LEFT`, `RIGHT`, `BOTH` or, where they are not moved, `OWN` of `grower_kernels`.
        """


class GrownTrees(NamedTuple):
    """Nodes of all trees in the order in which they were made; a child comes after its parent.

    Attributes
    ----------
    tree, feature, left, right : ndarray of int, shape (n_nodes,)
        ``left == -1`` marks a leaf.
    threshold : ndarray of float64, shape (n_nodes,)
        NaN where all numbers go right.
    missing_left : ndarray of bool, shape (n_nodes,)
        Which splits send missing values left.
    leaf : ndarray, shape (n_nodes,)
        What the node says as a leaf.
    is_starved : ndarray of bool, shape (n_nodes,)
        Leaves that were to be split, but no open threshold gained anything.
    n_rows : ndarray of int64, shape (n_nodes,)
        Training rows in the node.
    gain : ndarray of float64, shape (n_nodes,)
        What the split was worth, 0 at leaves.
    """

    tree: NDArray[np.int32]
    feature: NDArray[np.int32]
    threshold: NDArray[np.float64]
    missing_left: NDArray[np.bool_]
    left: NDArray[np.int64]
    right: NDArray[np.int64]
    leaf: NDArray
    is_starved: NDArray[np.bool_]
    n_rows: NDArray[np.int64]
    gain: NDArray[np.float64]

    @classmethod
    def join(cls, batches: Sequence[GrownTrees]) -> GrownTrees:
        """Put trees that grew one batch after the other into one table."""
        offset = np.cumsum([0, *(len(batch.tree) for batch in batches)])
        moved = [
            batch._replace(
                left=np.where(batch.left >= 0, batch.left + first, -1),
                right=np.where(batch.right >= 0, batch.right + first, -1),
            )
            for batch, first in zip(batches, offset, strict=False)
        ]
        return cls(*map(np.concatenate, zip(*moved, strict=True)))

    def roots(self) -> NDArray[np.int64]:
        """Return the root of each tree, shape (n_trees,)."""
        return np.unique(self.tree, return_index=True)[1]

    def nodes(self, tree: int) -> Nodes:
        """Return one tree with children as indices into itself."""
        own = np.flatnonzero(self.tree == tree)
        place = np.full(len(self.tree) + 1, -1)  # the last entry serves left == -1
        place[own] = np.arange(len(own))
        return Nodes(
            place[self.left[own]], place[self.right[own]], self.feature[own], self.threshold[own], self.leaf[own],
            self.missing_left[own],
        )  # fmt: skip


def grow_trees(
    data: GrowthData,
    roots: Frontier,
    score: SplitScore,
    allowed: NDArray[np.bool_],
    *,
    max_depth: int,
    max_features: int,
    rng: np.random.Generator,
    n_jobs: int | None,
    discount: Discount | None = None,
) -> GrownTrees:
    """Grow some trees together, level by level.

    A row that the attacker can move across a threshold goes to one child or to both, as the score says. Missing values
    go where that is better, and to the side of more weight if none of a node's rows misses the feature.

    Parameters
    ----------
    data : GrowthData
        Its ledger gains the thresholds of the trees.
    roots : Frontier
        One node per tree.
    score : SplitScore
    allowed : ndarray of bool, shape (n_trees, n_features)
        Features that each tree may use; ``roots.tree`` indexes its lines.
    max_depth, max_features : int
        Largest number of splits on a path, and of features that a node looks at first.
    rng : Generator
    n_jobs : int or None
        Threads; the result does not depend on it.
    discount : Discount, optional
        How much is asked of a feature on which the tree holds no threshold yet.
    """
    levels: list[GrownTrees] = []
    frontier, n_nodes = roots, len(roots.node)
    with ThreadPoolExecutor(max_workers=effective_n_jobs(n_jobs)) as pool:
        for depth in itertools.count():
            totals = score.totals(frontier)
            leaf, is_done = score.leaves(frontier, totals)
            search = functools.partial(_search, data, frontier, totals, score, pool)
            is_open = ~is_done & (depth < max_depth)
            feature = np.full(len(leaf), -1, np.int32)
            best = Found.of(len(leaf))
            for chunk in _chunks(rng.permutation(np.flatnonzero(is_open)), MAX_CANDIDATES // max_features):
                order = _draw_features(allowed, frontier.tree[chunk], rng)
                # Nodes to which the features drawn first offer nothing look at all the others.
                for drawn in (order[:, :max_features], order[:, max_features:]):
                    _split_nodes(data, frontier, chunk, drawn, search, discount, feature, best)
            split = np.flatnonzero(feature >= 0)
            left, right = np.full((2, len(leaf)), -1)
            left[split] = n_nodes + 2 * np.arange(len(split))
            right[split] = left[split] + 1
            n_rows = np.diff(frontier.start)
            is_starved = is_open & (feature < 0)
            missing_left = best.missing_side == kernels.LEFT
            level = frontier.tree, feature, best.threshold, missing_left, left, right, leaf, is_starved, n_rows
            levels.append(GrownTrees(*level, best.gain))
            if len(split) == 0:
                return GrownTrees(*map(np.concatenate, zip(*levels, strict=True)))
            children = np.arange(n_nodes, n_nodes + 2 * len(split))
            chosen = Chosen(split, feature[split], best.threshold[split], best.missing_side[split])
            frontier = _route(data, frontier, totals, score, chosen, children)
            weight_left, weight_right = (
                np.diff(np.append(0.0, frontier.weight.cumsum())[frontier.start]).reshape(-1, 2).T
            )
            missing_left[split] |= (best.missing_side[split] == kernels.LARGER) & (weight_left > weight_right)
            n_nodes += 2 * len(split)
    raise AssertionError("Levels end when no node splits.")


def _split_nodes(
    data: GrowthData, frontier: Frontier, nodes: NDArray, drawn: NDArray,
    search: Callable[[Entries], Found], discount: Discount | None, out_feature: NDArray, out: Found,
) -> None:  # fmt: skip
    """Choose and claim splits on drawn features, for nodes of a level without one; some may keep feature -1."""
    is_pending = out_feature[nodes] < 0
    pending, feature = nodes[is_pending], drawn[is_pending]
    found = Found.of(feature.shape)
    asked = feature >= 0
    while asked.any():
        line, _ = np.nonzero(asked)
        found.put(asked, search(Entries(pending[line], feature[asked])))
        tree, threshold, gain = frontier.tree[pending], found.threshold, found.gain
        if discount is not None:
            kernels.discount_new(data.ledger.claims, tree, feature, threshold, asked, *discount, gain)
        choice = np.full(len(pending), kernels.NOT_YET)
        while (choice == kernels.NOT_YET).any():
            data.ledger.reserve(1)
            kernels.claim_best(data.ledger.claims, tree, feature, threshold, gain, choice)
        won = np.flatnonzero(choice >= 0)
        out_feature[pending[won]] = feature[won, choice[won]]
        out.put(pending[won], found.at((won, choice[won])))
        again = choice == kernels.ASK_AGAIN
        pending, feature, found = pending[again], feature[again], found.at(again)
        asked = np.isnan(found.gain)


def _search(
    data: GrowthData, frontier: Frontier, totals: NDArray, score: SplitScore, pool: ThreadPoolExecutor, entries: Entries
) -> Found:
    """Return the best splits of entries, searched in threads."""
    (node, feature), found = entries, Found.of(len(entries.node))

    def search(start: int, stop: int) -> None:
        block = slice(start, stop)
        score.search(data, frontier, totals, Entries(node[block], feature[block]), found.at(block))

    # Tasks of about the same size; all entries of a node belong to the same one.
    ends = np.append(np.flatnonzero(node[1:] != node[:-1]) + 1, len(node))
    cuts = np.unique(ends[np.searchsorted(ends, np.arange(ENTRIES_PER_TASK, len(node), ENTRIES_PER_TASK))])
    list(pool.map(search, [0, *cuts], [*cuts, len(node)]))
    return found


def _draw_features(allowed: NDArray[np.bool_], tree: NDArray, rng: np.random.Generator) -> NDArray[np.int32]:
    """Return the features that each node may use in random order, -1 after the last; (n_nodes, n_features)."""
    key = rng.random((len(tree), allowed.shape[1]), dtype=np.float32)
    key[~allowed[tree]] = 2.0
    order = key.argsort(axis=1).astype(np.int32)
    order[np.arange(order.shape[1]) >= allowed[tree].sum(axis=1)[:, None]] = -1
    return order[:, : allowed.sum(axis=1).max()]


def _route(
    data: GrowthData, frontier: Frontier, totals: NDArray, score: SplitScore, chosen: Chosen, children: NDArray
) -> Frontier:
    """Return the children of the nodes that split as the next level."""
    n_rows = 2 * int(np.diff(frontier.start)[chosen.node].sum())
    tree, start = np.repeat(frontier.tree[chosen.node], 2), np.empty(len(children) + 1, np.int64)
    level = Frontier(children, tree, start, np.empty(n_rows, np.uint32), np.empty(n_rows))
    near_side = score.near_sides(data, frontier, totals, chosen)
    kernels.route(data.bins, data.reach, frontier, score.class_index, chosen, near_side, level)
    return level._replace(row=level.row[: start[-1]].copy(), weight=level.weight[: start[-1]].copy())


def _chunks(values: NDArray, size: int) -> Iterator[NDArray]:
    for start in range(0, len(values), max(1, size)):
        yield values[start : start + max(1, size)]

"""The grower: trees that have large spread by construction, each split chosen for what the attacker leaves of it.

Trees grow together, level by level, so that no tree takes every good threshold first. One level:

1. every node draws some features; `split_kernels` finds the best open threshold on each (in threads);
2. nodes, in random order, claim their best split in the `ThresholdLedger`; a node whose threshold was claimed by
   another tree meanwhile searches that one feature again, until its best split is open or nothing is left;
3. the rows of the nodes that split are routed to the children, which form the next level.

A leaf says the class that weighs most. Where leaves get values of their own later, weights are the slopes of the rows'
losses: the gain in Gini impurity is that of a Newton step whose curvature is the slope, as it is for the exponential
loss.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import NDArray

from certiforest.attack.attacker import Attacker
from certiforest.attack.spread import Distances, closing_distances
from certiforest.ensemble import Nodes
from certiforest.training import grower_kernels as kernels
from certiforest.training.binning import bin_features
from certiforest.training.ledger_kernels import Claims
from certiforest.training.split_kernels import GiniRule, Rows, search_gini
from certiforest.training.worst_case import as_box

MAX_CANDIDATES = 2_000_000  # splits remembered at a time: bounds the memory of a level
ENTRIES_PER_TASK = 4096
FIRST_CAPACITY = 4  # of the ledger


class ThresholdLedger:
    """The thresholds claimed so far, by feature and tree.

    A threshold is *open* to a tree if no other tree holds one within ``2 * eps`` (scaled, exactly) on that feature; a
    tree's own claims never close anything to it. Growing trees that claim only open thresholds makes large spread a
    matter of construction. Frozen features are always open. For norm 0 a feature belongs to the first tree that claims
    it.

    Parameters
    ----------
    attacker : Attacker or None
        None if no threshold closes any other: trees share features freely.
    n_features : int
    """

    def __init__(self, attacker: Attacker | None, n_features: int) -> None:
        self.closes = attacker is not None
        distances = Distances(np.full(n_features, -1.0), np.zeros(n_features))
        if attacker is not None:
            distances = closing_distances(attacker, n_features)
        shape = n_features, FIRST_CAPACITY
        self.claims = Claims(np.empty(shape), np.empty(shape, np.int32), np.zeros(n_features, np.int32), *distances)

    def reserve(self) -> None:
        """Make room for one more claim on every feature; kernels never allocate."""
        value, tree = self.claims.value, self.claims.tree
        if self.claims.n_claims.max() == value.shape[1]:
            value, tree = (np.pad(array, ((0, 0), (0, value.shape[1]))) for array in (value, tree))
            self.claims = self.claims._replace(value=value, tree=tree)


class GrowthData(NamedTuple):
    """What all trees of one training share: the rows they grow on and the thresholds they hold."""

    rows: Rows
    ledger: ThresholdLedger

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
        return cls(Rows(bins, bins.uncommon(), reach), ThresholdLedger(attacker if closes else None, n_features))

    def take(self, rows: NDArray) -> GrowthData:
        """Return some rows side by side, with the same ledger: far apart they would be slow to read again and again."""
        bins, uncommon, reach = self.rows
        bins = bins._replace(code=bins.code.take(rows, axis=1))
        return self._replace(rows=Rows(bins, uncommon.take(rows), reach))


class Frontier(NamedTuple):
    """The nodes of one level of all trees, and the training rows in them.

    Attributes
    ----------
    tree : ndarray of int32, shape (n_nodes,)
        The tree that each node belongs to.
    start : ndarray of int64, shape (n_nodes + 1,)
        Rows of node ``i`` are ``row[start[i]:start[i + 1]]``.
    row, weight : ndarray of uint32, float64, shape (start[-1],)
        Training rows and their weights.
    class_weight : ndarray of float64, shape (n_nodes, n_classes)
        The weight of each class in each node.
    """

    tree: NDArray[np.int32]
    start: NDArray[np.int64]
    row: NDArray[np.uint32]
    weight: NDArray[np.float64]
    class_weight: NDArray[np.float64]

    @classmethod
    def of(cls, tree: NDArray, start: NDArray, row: NDArray, weight: NDArray, rule: GiniRule) -> Frontier:
        """Add up the weights of classes."""
        frontier = cls(tree, start, row, weight, np.zeros((len(tree), len(rule.is_held))))
        kernels.sum_class_weights(frontier, rule.class_index)
        return frontier


class Splits(NamedTuple):
    """Splits of nodes, in whatever shape these come.

    Attributes
    ----------
    feature : ndarray of int32
        -1 if there is none.
    threshold : ndarray of float64
        A split without threshold (NaN) parts values that are missing, which go left, from all numbers.
    missing_side : ndarray of int8
        Where missing values go: `LEFT`, `RIGHT` or, if there were none, `LARGER` of `grower_kernels`.
    gain : ndarray of float64
    """

    feature: NDArray[np.int32]
    threshold: NDArray[np.float64]
    missing_side: NDArray[np.int8]
    gain: NDArray[np.float64]

    @classmethod
    def on(cls, feature: NDArray[np.int32]) -> Splits:
        """Return splits on features that gain nothing."""
        shape = feature.shape
        return cls(feature, np.zeros(shape), np.full(shape, kernels.LARGER, np.int8), np.zeros(shape))

    def put(self, place: Any, splits: Splits) -> None:
        """Write splits to some places."""
        for name, values in splits._asdict().items():
            getattr(self, name)[place] = values

    def at(self, place: Any) -> Splits:
        """Return the splits of some places."""
        return Splits(*(own[place] for own in self))


class Discount(NamedTuple):
    """How a gain counts on a feature on which the tree holds no threshold yet.

    It is multiplied with the factor of the feature, (n_features,), and counts as nothing below ``least_gain``.
    """

    factor: NDArray[np.float64]
    least_gain: float


class GrownTree(NamedTuple):
    """A tree and what growing knows of its nodes, (n_nodes,) each.

    Attributes
    ----------
    nodes : Nodes
        Arrays; a child comes after its parent, and ``leaf`` is what each node would say as a leaf.
    is_starved : ndarray of bool
        Leaves that were to be split, but no open threshold gained anything.
    n_rows : ndarray of int64
        Training rows in the node.
    gain : ndarray of float64
        What the split was worth, 0 at leaves.
    """

    nodes: Nodes
    is_starved: NDArray[np.bool_]
    n_rows: NDArray[np.int64]
    gain: NDArray[np.float64]

    @classmethod
    def of_levels(cls, trees: NDArray[np.int32], levels: Sequence[tuple[NDArray, ...]]) -> list[GrownTree]:
        """Return the nodes of each tree, with children as indices into itself, from what is known of each level."""
        tree, left, *known = map(np.concatenate, zip(*levels, strict=True))
        grown = []
        for number in trees:
            own = np.flatnonzero(tree == number)
            place = np.full(len(tree) + 1, -1)  # the last entry serves left == -1
            place[own] = np.arange(len(own))
            first = place[left[own]]
            feature, threshold, leaf, missing_left, *others = (column[own] for column in known)
            nodes = Nodes(first, np.where(first < 0, -1, first + 1), feature, threshold, leaf, missing_left)
            grown.append(cls(nodes, *others))
        return grown


def gini_rule(
    class_index: NDArray, is_held: NDArray[np.bool_], min_samples_leaf: int, *, min_samples_split: int = 2,
    moves_by_class: bool = False, keeps_both: bool = True,
) -> GiniRule:  # fmt: skip
    """Return what splits are worth; ``is_held`` (n_classes,) tells the classes whose rows nobody moves."""
    class_index = class_index.astype(np.min_scalar_type(len(is_held) - 1))
    least_rows = max(min_samples_split, 2 * min_samples_leaf)
    return GiniRule(class_index, is_held, bool(is_held.any()), min_samples_leaf, least_rows, moves_by_class, keeps_both)


def grow_trees(
    data: GrowthData,
    roots: Frontier,
    rule: GiniRule,
    allowed: NDArray[np.bool_],
    *,
    max_depth: int | None,
    max_features: int,
    rng: np.random.Generator,
    n_jobs: int | None,
    discount: Discount | None = None,
) -> list[GrownTree]:
    """Grow some trees together, level by level.

    A row that the attacker can move across a threshold goes to one child or to both, as the rule says. Missing values
    go where that is better, and to the side of more weight if none of a node's rows misses the feature.

    Parameters
    ----------
    data : GrowthData
        Its ledger gains the thresholds of the trees.
    roots : Frontier
        One node per tree.
    rule : GiniRule
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
    levels = []
    frontier, n_nodes = roots, len(roots.tree)
    with ThreadPoolExecutor(max_workers=effective_n_jobs(n_jobs)) as pool:
        for depth in itertools.count():
            n_rows, leaf = np.diff(frontier.start), frontier.class_weight.argmax(axis=1)
            is_open = ((frontier.class_weight > 0).sum(axis=1) > 1) & (n_rows >= rule.least_rows)
            is_open &= max_depth is None or depth < max_depth
            search = functools.partial(_search, data, frontier, rule, pool)
            best = Splits.on(np.full(len(leaf), -1, np.int32))
            for chunk in _chunks(rng.permutation(np.flatnonzero(is_open)), MAX_CANDIDATES // max_features):
                order = _draw_features(allowed, frontier.tree[chunk], rng)
                # Nodes to which the features drawn first offer nothing look at all the others.
                for drawn in (order[:, :max_features], order[:, max_features:]):
                    _split_nodes(data.ledger, frontier.tree, chunk, drawn, search, discount, best)
            split = np.flatnonzero(best.feature >= 0)
            left, missing_left = np.full(len(leaf), -1), best.missing_side == kernels.LEFT
            left[split] = n_nodes + 2 * np.arange(len(split))
            is_starved = is_open & (best.feature < 0)
            known = best.feature, best.threshold, leaf, missing_left, is_starved, n_rows, best.gain
            levels.append((frontier.tree, left, *known))
            if len(split) == 0:
                return GrownTree.of_levels(roots.tree, levels)
            frontier = _route(data.rows, frontier, rule, split, best.at(split))
            weight = np.diff(np.append(0.0, frontier.weight.cumsum())[frontier.start]).reshape(-1, 2)
            missing_left[split] |= (best.missing_side[split] == kernels.LARGER) & (weight[:, 0] > weight[:, 1])
            n_nodes += 2 * len(split)
    raise AssertionError("Levels end when no node splits.")


def _split_nodes(
    ledger: ThresholdLedger, tree_of_node: NDArray, nodes: NDArray, drawn: NDArray,
    search: Callable[[NDArray, Splits], None], discount: Discount | None, out: Splits,
) -> None:  # fmt: skip
    """Choose and claim splits on drawn features, for nodes of a level without one; some may keep feature -1."""
    is_pending = out.feature[nodes] < 0
    pending, found = nodes[is_pending], Splits.on(drawn[is_pending])
    asked = found.feature >= 0
    while asked.any():
        entries, tree = found.at(asked), tree_of_node[pending]
        search(pending[np.nonzero(asked)[0]], entries)
        found.put(asked, entries)
        if discount is not None:
            kernels.discount_new(ledger.claims, tree, found, asked, *discount)
        choice = np.full(len(pending), kernels.NOT_YET)
        while (choice == kernels.NOT_YET).any():
            ledger.reserve()
            kernels.claim_best(ledger.claims, tree, found, choice)
        won = np.flatnonzero(choice >= 0)
        out.put(pending[won], found.at((won, choice[won])))
        again = choice == kernels.ASK_AGAIN
        pending, found = pending[again], found.at(again)
        asked = np.isnan(found.gain)


def _search(
    data: GrowthData, frontier: Frontier, rule: GiniRule, pool: ThreadPoolExecutor, node: NDArray, out: Splits
) -> None:
    """Search the best splits of nodes on the features of ``out``, in threads."""

    def search(start: int, stop: int) -> None:
        here = slice(start, stop)
        search_gini(data.rows, data.ledger.claims, frontier, rule, not data.ledger.closes, node[here], out.at(here))

    # Tasks of about the same size; all entries of a node belong to the same one.
    ends = np.append(np.flatnonzero(node[1:] != node[:-1]) + 1, len(node))
    cuts = np.unique(ends[np.searchsorted(ends, np.arange(ENTRIES_PER_TASK, len(node), ENTRIES_PER_TASK))])
    list(pool.map(search, [0, *cuts], [*cuts, len(node)]))


def _draw_features(allowed: NDArray[np.bool_], tree: NDArray, rng: np.random.Generator) -> NDArray[np.int32]:
    """Return the features that each node may use in random order, -1 after the last; (n_nodes, n_features)."""
    key = rng.random((len(tree), allowed.shape[1]), dtype=np.float32)
    key[~allowed[tree]] = 2.0
    order = key.argsort(axis=1).astype(np.int32)
    order[np.arange(order.shape[1]) >= allowed[tree].sum(axis=1)[:, None]] = -1
    return order[:, : allowed.sum(axis=1).max()]


def _route(rows: Rows, frontier: Frontier, rule: GiniRule, node: NDArray, splits: Splits) -> Frontier:
    """Return the children of the nodes that split as the next level."""
    # Near rows go to both sides, or those of each class to the side that suits it less; held ones stay.
    near_side = np.tile(np.where(rule.is_held, kernels.OWN, kernels.BOTH).astype(np.int8), (len(node), 1))
    if not rule.keeps_both:
        kernels.mark_worse_sides(rows, frontier, rule, node, splits, near_side)
    n_rows = 2 * int(np.diff(frontier.start)[node].sum())
    tree, start = np.repeat(frontier.tree[node], 2), np.empty(2 * len(node) + 1, np.int64)
    row, weight = np.empty(n_rows, np.uint32), np.empty(n_rows)
    out = frontier._replace(start=start, row=row, weight=weight)
    kernels.route(rows, frontier, rule.class_index, node, splits, near_side, out)
    return Frontier.of(tree, start, row[: start[-1]].copy(), weight[: start[-1]].copy(), rule)


def _chunks(values: NDArray, size: int) -> Iterator[NDArray]:
    for start in range(0, len(values), max(1, size)):
        yield values[start : start + max(1, size)]

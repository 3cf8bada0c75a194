"""Boost trees for the worst case: each tree lowers the worst-case loss of the trees before it.

1. A row's margin is its exact worst case so far (`worst_case`): the sum over trees of the worst leaf it can be moved
   to. Rows weigh as much as their loss falls with their margin.
2. A tree grows on some of the features on which thresholds are still open (`grower`). Near rows of each class go to
   the side that suits the class less; thresholds on features that the tree already holds are preferred, because a
   feature claimed is a feature closed, wholly or in part, to all trees that follow.
3. The values of its leaves are fitted against the exact worst case, shrunk, and rounded to a grid on which sums are
   exact.
4. Where trees share thresholds and there are more than two classes, every class gets a tree of its own in each round:
   the class against all others, weighed by what the loss of all classes makes of its sums (`WorstLoss.against_rest`).
5. When thresholds have run out, the values of all trees are fitted again, tree by tree given all the others: what
   further trees would have added is left to those that stand.
6. Where one model levels off, several that know nothing of each other are averaged (`average_bags`).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from numbers import Integral
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from certiforest.ensemble import TreeEnsemble
from certiforest.training.grower import Discount, Frontier, GrownTree, GrowthData, gini_rule, grow_trees
from certiforest.training.ledger_kernels import mark_open_features
from certiforest.training.training_set import TrainingSet, on_grid
from certiforest.training.worst_case import WEIGHT_GRID, WorstCase, WorstLoss, as_box
from certiforest.training.worst_case_kernels import EXPONENTIAL

SCARCE = 0.5  # a threshold that closes more of a feature than this leaves one tree to a feature: few, deep trees
RATES = (0.1, 0.4)  # else: smallest and largest automatic learning rate
SHARES = (0.2, 1.0)  # smallest and largest automatic share of the features on which a tree grows
CLOSED_FOR_ALL = 0.4  # a threshold that closes as much of a feature makes features scarce: trees choose from all
FEWEST_FEATURES = 32  # that a tree chooses from, if as many are open: fewer cost nothing and leave too little choice
ROOT_PER_L2 = 20.0  # the automatic l2 is the root of the number of rows over this, for each rival class
LEAST_DEPTH = 3  # that is chosen automatically
CELLS_PER_REACH = 6  # where classes have trees of their own: values nearer to each other count as one in growing
CHARGES = 2.0 ** np.arange(-1.0, 5.0, 0.5)  # what a whole budget may cost; the least is what trees begin with


class BoostedTrees(NamedTuple):
    """Trees whose leaf values add up.

    Attributes
    ----------
    trees : list of GrownTree
    values : list of ndarray of float64, shape (n_nodes, n_classes)
        What the leaves of each tree add to the sum of each class.
    base : ndarray of float64, shape (n_classes,)
        Where the sums begin.
    learning_rate : float
        Share of fitted values that was kept.
    train_loss, validation_loss : list of float
        Mean worst-case loss without trees, after each tree and after each time all values were fitted again.
    """

    trees: list[GrownTree]
    values: list[NDArray[np.float64]]
    base: NDArray[np.float64]
    learning_rate: float
    train_loss: list[float]
    validation_loss: list[float]

    def importances(self, n_features: int) -> NDArray[np.float64]:
        """Return the share of each feature in the gains of all splits, shape (n_features,); zeros without splits."""
        gain = np.zeros(n_features)
        for tree in self.trees:
            feature = np.asarray(tree.nodes.feature)
            np.add.at(gain, feature[feature >= 0], tree.gain[feature >= 0])
        return gain / gain.sum() if gain.any() else gain

    def ensemble(self, rows: TrainingSet) -> TreeEnsemble:
        """Return the trees, trained on such rows, as an ensemble."""
        return rows.sum_ensemble([tree.nodes for tree in self.trees], self.values, self.base)


def average_bags(bags: Sequence[BoostedTrees]) -> BoostedTrees:
    """Return the mean of models that were boosted on their own, with one's losses after the other's."""
    trees, values, train_loss, validation_loss = (
        list(itertools.chain.from_iterable(parts))
        for parts in zip(*((bag.trees, bag.values, bag.train_loss, bag.validation_loss) for bag in bags), strict=True)
    )
    base = on_grid(np.mean([bag.base for bag in bags], axis=0))
    values = [on_grid(value / len(bags)) for value in values]
    return BoostedTrees(trees, values, base, bags[0].learning_rate, train_loss, validation_loss)


def boost_trees(
    rows: TrainingSet,
    validation: TrainingSet | None = None,
    *,
    has_spread: bool = True,
    n_estimators: int,
    max_depth: int | str | None,
    learning_rate: float | str,
    kind: int,
    forgiveness: float = 0.0,
    max_features: float | str | None,
    min_samples_leaf: int,
    min_samples_split: int = 2,
    max_samples: int | None = None,
    keeps_both: bool = False,
    l2: float | str,
    n_steps: int = 8,
    thrift: float = 0.0,
    min_gain: float = 0.0,
    n_refits: int = 0,
    n_iter_no_change: int | None = None,
    tol: float = 0.0,
    random_state: int | np.random.RandomState | None = None,
    n_jobs: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> BoostedTrees:
    """Boost trees for an attacker.

    What is not named here is as in `LargeSpreadBoostingClassifier` and `RobustBoostingClassifier`; rows are counted.

    Parameters
    ----------
    rows : TrainingSet
        Of positive weights.
    validation : TrainingSet, optional
        Rows whose worst-case loss decides when to stop.
    has_spread : bool
        Whether trees keep large spread; else they share thresholds freely, thrift has no meaning, and with more than
        two classes each has trees of its own.
    kind : int
        Which of `LOSSES`.
    keeps_both : bool
        Whether near rows belong to both children of a split, see `GiniRule`.
    l2 : float or "auto"
        Weight of half the sum of squared leaf values of a tree.
    n_steps : int
        How leaf values are fitted, see `WorstLoss.fit_values`.
    """
    rng = np.random.default_rng(check_random_state(random_state).randint(2**31 - 1, size=4))
    rows = rows._replace(X=np.asfortranarray(rows.X))  # bins and worst cases read it by column: turned once for both
    attacker, is_held, n_classes, n_features = rows.attacker, rows.is_held, len(rows.classes), rows.X.shape[1]
    has_class_trees = not has_spread and n_classes > 2 and rows.target is None
    data = GrowthData.of(rows.X, attacker, has_spread, CELLS_PER_REACH if has_class_trees else None)
    n_sides = 2 if has_class_trees else n_classes  # that a tree parts
    questions: list[tuple[NDArray, NDArray]] = [(rows.y_index, is_held)]
    if has_class_trees:
        # Of all others together, near rows stay only if none of these classes is attacked.
        questions = [(rows.y_index == c, np.array([np.delete(is_held, c).all(), is_held[c]])) for c in range(n_classes)]
    base = rows.class_offsets(kind == EXPONENTIAL)
    adds_up = has_spread and attacker.norm < np.inf  # costs of attacks on different trees do
    seen, charges = (attacker, CHARGES) if adds_up else (as_box(attacker), None)
    losses = []
    for part in (rows,) if validation is None else (rows, validation):
        class_index = part.y_index.astype(np.min_scalar_type(n_classes - 1))
        case = WorstCase(part.X, class_index, n_classes, seen, base, charges, is_held)
        if part.target is not None:
            case = case.with_margin(class_index, part.leads())
        losses.append(WorstLoss(case, part.weight, kind, forgiveness))
    train = losses[0]
    closed = _closed_shares(data)
    varies = data.rows.bins.n_bins > 1
    scarcity = float(np.median(closed[varies] if varies.any() else closed))
    rate = float(np.clip(scarcity, *RATES)) if isinstance(learning_rate, str) else float(learning_rate)
    if isinstance(l2, str):
        l2 = float(np.sqrt(rows.weight.sum())) / (ROOT_PER_L2 * (n_sides - 1))
    if isinstance(max_depth, str):
        # Deep trees: measured to help two classes only. Where costs add up they leave too few trees to turn.
        is_scarce = scarcity > SCARCE and n_classes == 2
        max_depth = LEAST_DEPTH if adds_up else _automatic_depth(is_scarce, rows.weight.sum())
    fewest = 1
    if isinstance(max_features, str):
        share, fewest = float(np.clip(scarcity / CLOSED_FOR_ALL, *SHARES)), FEWEST_FEATURES
    elif isinstance(max_features, Integral):
        share = min(1.0, int(max_features) / n_features)
    else:
        share = 1.0 if max_features is None else float(max_features)
    boosted = BoostedTrees([], [], base, rate, [], [])
    curves = [boosted.train_loss, boosted.validation_loss][: len(losses)]
    _record(curves, losses)
    n_looked_at, shares = n_features, sorted({share, 1.0})  # if features drawn offer nothing: look at all
    if has_class_trees:
        n_looked_at, shares = max(fewest, int(np.ceil(share * n_features))), [1.0]
    n_trees, has_run_out = [0], False
    while len(n_trees) <= n_estimators:
        for one, (asked, stays) in enumerate(questions):
            loss, tree = train.forgiving(), len(boosted.trees)
            if has_class_trees:
                loss = loss.against_rest(one)
            if rows.target is not None:
                asked, stays = loss.sides(), np.zeros(2, bool)
            weight, drawn = loss.row_weights(), data
            row, row_weight = _draw_rows(weight, max_samples, rng)
            if max_samples is not None:
                drawn, asked = data.take(row), asked[row]
                row = np.arange(len(row), dtype=row.dtype)
            rule = gini_rule(
                asked, stays, min_samples_leaf, min_samples_split=min_samples_split, moves_by_class=True,
                keeps_both=keeps_both,
            )  # fmt: skip
            root = Frontier.of(np.array([tree], np.int32), np.array([0, len(row)]), row, row_weight, rule)
            for share in shares:
                (grown,) = grow_trees(
                    drawn, root, rule, _draw_features(data, tree, share, fewest, rng),
                    max_depth=max_depth, max_features=n_looked_at, rng=rng, n_jobs=n_jobs,
                    discount=Discount(1.0 - thrift * closed, min_gain * weight.sum()) if has_spread else None,
                )  # fmt: skip
                if len(grown.gain) > 1:
                    break
            else:
                continue
            start, reached = np.zeros((len(grown.gain), n_sides)), train.case.reached(grown.nodes)
            value = on_grid(rate * loss.fit_values(reached, start, l2, n_steps))
            if has_class_trees:
                value = (value[:, 1:] - value[:, :1]) * (np.arange(n_classes) == one)
            boosted.trees.append(grown)
            boosted.values.append(value)
            train.case.add(reached, value)
            for other in losses[1:]:
                other.case.add(other.case.reached(grown.nodes), value)
        has_run_out = len(boosted.trees) == n_trees[-1]
        if has_run_out:
            break
        n_trees.append(len(boosted.trees))
        _record(curves, losses)
        if progress is not None:
            progress(len(n_trees) - 1, n_estimators)
        if n_iter_no_change is not None and _has_stalled(boosted.validation_loss, n_iter_no_change, tol):
            break
    if n_iter_no_change is not None:
        _keep_best(boosted, losses, n_trees)
    for _ in range(n_refits if has_run_out and boosted.trees else 0):
        _refit(boosted, losses, l2, n_steps)
        _record(curves, losses)
    return boosted


def _closed_shares(data: GrowthData) -> NDArray[np.float64]:
    """Return which share of each feature's range a claim in its middle closes to other trees, shape (n_features,)."""
    closed, width = 2 * np.maximum(data.ledger.claims.distance_high, 0.0), data.rows.bins.widths()
    return np.minimum(1.0, np.divide(closed, width, out=np.ones_like(width), where=width > 0))


def _automatic_depth(is_scarce: bool, n_rows: float) -> int:
    """Return how deep trees grow on so many rows, by weight.

    A tree may use the features it holds again and again. Where no other tree can use them, few deep trees with four
    rows to a leaf make the most of each feature; where many trees can share a feature, many shallow ones do.
    """
    n_halvings = np.log2(n_rows)
    return max(LEAST_DEPTH, int(n_halvings - 2 if is_scarce else n_halvings / 2))


def _draw_features(
    data: GrowthData, tree: int, share: float, fewest: int, rng: np.random.Generator
) -> NDArray[np.bool_]:
    """Draw a share of the features on which thresholds are open to a tree, but at least so many of them.

    Returns the tree's line of an array of shape (tree + 1, n_features).
    """
    bins = data.rows.bins
    is_open = np.empty(len(bins.n_bins), np.bool_)
    mark_open_features(data.ledger.claims, tree, bins, is_open)
    drawn = rng.permutation(np.flatnonzero(is_open))
    allowed = np.zeros((tree + 1, len(is_open)), bool)
    allowed[tree, drawn[: max(fewest, int(np.ceil(share * len(drawn))))]] = True
    return allowed


def _draw_rows(
    weight: NDArray[np.float64], max_samples: int | None, rng: np.random.Generator
) -> tuple[NDArray[np.uint32], NDArray[np.float64]]:
    """Return rows and their weights: all, or about so many, each as likely as it is heavy."""
    row = np.arange(len(weight), dtype=np.uint32)
    if max_samples is None:
        return row, weight
    chance = np.minimum(1.0, max_samples / weight.sum() * weight)
    row = row[rng.random(len(row)) < chance]
    return row, np.ceil(weight[row] / chance[row] / WEIGHT_GRID) * WEIGHT_GRID


def _record(curves: list[list[float]], losses: list[WorstLoss]) -> None:
    for curve, loss in zip(curves, losses, strict=True):
        curve.append(loss.mean())


def _has_stalled(curve: list[float], n_iter_no_change: int, tol: float) -> bool:
    """Tell whether none of the last trees is better than all before them by more than ``tol``."""
    before, last = curve[:-n_iter_no_change], curve[-n_iter_no_change:]
    return len(before) > 0 and min(last) > min(before) - tol


def _keep_best(boosted: BoostedTrees, losses: list[WorstLoss], n_trees: list[int]) -> None:
    """Drop the trees after the smallest validation loss, but not the first; ``n_trees`` is how many each loss is of."""
    n_kept = max(n_trees[:2][-1], n_trees[int(np.argmin(boosted.validation_loss))])
    for grown, value in zip(boosted.trees[n_kept:], boosted.values[n_kept:], strict=True):
        for loss in losses:
            loss.case.add(loss.case.reached(grown.nodes), value, -1.0)
    del boosted.trees[n_kept:], boosted.values[n_kept:]


def _refit(boosted: BoostedTrees, losses: list[WorstLoss], l2: float, n_steps: int) -> None:
    """Move the values of each tree towards what is best given all other trees."""
    for tree, grown in enumerate(boosted.trees):
        old = boosted.values[tree]
        reached = [loss.case.reached(grown.nodes) for loss in losses]
        for loss, found in zip(losses, reached, strict=True):
            loss.case.add(found, old, -1.0)
        best = losses[0].fit_values(reached[0], old, l2, n_steps)
        boosted.values[tree] = on_grid(old + boosted.learning_rate * (best - old))
        for loss, found in zip(losses, reached, strict=True):
            loss.case.add(found, boosted.values[tree])

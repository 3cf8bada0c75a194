"""A small trainer of every kind, for what holds for all of them."""

from functools import partial

import numpy as np

from certiforest import (
    LargeSpreadAdditiveClassifier,
    LargeSpreadBoostingClassifier,
    LargeSpreadForestClassifier,
    Nodes,
    RobustBoostingClassifier,
)
from certiforest.training.training_set import TrainingSet

KINDS = {
    "grown forest": partial(LargeSpreadForestClassifier, n_estimators=15, max_depth=4),
    "pruned forest": partial(
        LargeSpreadForestClassifier, n_estimators=5, max_depth=4, method="prune", on_shortfall="keep"
    ),
    "boosting": partial(LargeSpreadBoostingClassifier, n_estimators=15),
    "boosting, one budget": partial(LargeSpreadBoostingClassifier, n_estimators=10, norm=1),
    "robust boosting": partial(RobustBoostingClassifier, n_estimators=15, max_depth=5, learning_rate=0.2),
    "additive": partial(LargeSpreadAdditiveClassifier, max_cells=8, n_epochs=40),
}


def small_trainers(*eps):
    """Return functions that make a trainer, by kind, each with its eps."""
    return {
        kind: partial(make, eps=budget, random_state=0) for (kind, make), budget in zip(KINDS.items(), eps, strict=True)
    }


def stump(feature, threshold, left=0, right=1):
    """Return a tree of one split, whose leaves say two classes."""
    leaf = np.array([-1, left, right])
    return Nodes([1, -1, -1], [2, -1, -1], [feature, -1, -1], [threshold, 0.0, 0.0], leaf, [False] * 3)


def training_set(X, y, attacker, sample_weight=None, n_classes=None):
    """Return rows of classes 0, 1, ..., all of them attacked, for the functions behind the trainers."""
    n_classes = y.max() + 1 if n_classes is None else n_classes
    weight = np.ones(len(X)) if sample_weight is None else sample_weight
    return TrainingSet(X, y, weight, np.arange(n_classes), attacker, np.zeros(n_classes, bool))


def add_trees(case, ensemble):
    """Add the trees of an ensemble to a `WorstCase`."""
    for start, stop in zip(ensemble.tree_start[:-1], ensemble.tree_start[1:], strict=True):
        own = slice(start, stop)
        is_leaf = ensemble.feature[own] < 0
        left = np.where(is_leaf, -1, np.arange(stop - start) + 1)
        right, leaf = np.where(is_leaf, -1, ensemble.right[own] - start), np.where(is_leaf, ensemble.leaf[own], 0)
        missing_left = None if ensemble.missing_left is None else ensemble.missing_left[own]
        value = np.eye(ensemble.n_classes)[leaf] if ensemble.scores is None else ensemble.scores[leaf]
        if value.shape[1] == 1:
            value = np.column_stack([np.zeros(len(leaf)), value])
        tree = Nodes(left, right, ensemble.feature[own], ensemble.threshold[own], leaf, missing_left)
        case.add(case.reached(tree), value)

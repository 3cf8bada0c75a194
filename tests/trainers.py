"""A small trainer of every kind, for what holds for all of them."""

from functools import partial

from certiforest import (
    LargeSpreadAdditiveClassifier,
    LargeSpreadBoostingClassifier,
    LargeSpreadForestClassifier,
    RobustBoostingClassifier,
)

KINDS = {
    "grown forest": partial(LargeSpreadForestClassifier, 15, 4),
    "pruned forest": partial(LargeSpreadForestClassifier, 5, 4, method="prune", on_shortfall="keep"),
    "boosting": partial(LargeSpreadBoostingClassifier, 15),
    "boosting, one budget": partial(LargeSpreadBoostingClassifier, 10, norm=1),
    "robust boosting": partial(RobustBoostingClassifier, 15, 5, 0.2),
    "additive": partial(LargeSpreadAdditiveClassifier, 8, n_epochs=40),
}


def small_trainers(*eps):
    """Return functions that make a trainer, by kind, each with its eps."""
    return {
        kind: partial(make, eps=budget, random_state=0) for (kind, make), budget in zip(KINDS.items(), eps, strict=True)
    }

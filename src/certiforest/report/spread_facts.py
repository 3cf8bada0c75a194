"""What is known about the spread of an ensemble: how far apart, for which budget that is enough, and where."""

from __future__ import annotations

from typing import Any

import numpy as np

from certiforest.attack.attacker import Attacker
from certiforest.attack.spread import largest_certifiable_eps, moves_on, sorted_thresholds, spread_against
from certiforest.ensemble import TreeEnsemble
from certiforest.ensemble.tree_kernels import LARGEST
from certiforest.words import finite_or_none


def spread_facts(ensemble: TreeEnsemble, attacker: Attacker) -> dict[str, Any]:
    """Return how far apart thresholds of two trees are, for JSON.

    ``spread`` is null if no two trees share a feature that can be attacked, ``largest_eps``, up to which that is large
    spread, is null for any budget and for none, and ``has_large_spread`` is about the attacker's own budget.
    """
    largest = largest_certifiable_eps(ensemble, attacker)
    return {
        "spread": finite_or_none(spread_against(ensemble, attacker)),
        "largest_eps": None if largest < 0 else finite_or_none(largest),
        "has_large_spread": attacker.eps <= largest,
    }


def map_spread(ensemble: TreeEnsemble, attacker: Attacker, names: list[str], n_shown: int) -> dict[str, Any]:
    """Return the thresholds along the attackable features that have most of them, and the closest pair of two trees."""
    moves = moves_on(ensemble, attacker)
    feature, value, tree, _ = sorted_thresholds(ensemble, moves)
    # As `spread` measures: in shares of what a budget of 1/2 allows down and up together.
    unit = np.mean(moves.numbers.scale * moves.numbers.may_move, axis=0)
    near = np.flatnonzero((feature[1:] == feature[:-1]) & (tree[1:] != tree[:-1]))
    closest = None
    if near.size:
        with np.errstate(over="ignore"):  # what overflows is cut to the largest float
            gap = np.minimum(np.minimum(value[near + 1] - value[near], LARGEST) / unit[feature[near]], LARGEST)
        i = int(near[gap.argmin()])
        closest = {
            "feature": names[feature[i]],
            "thresholds": [float(value[i]), float(value[i + 1])],
            "trees": [int(tree[i]), int(tree[i + 1])],
            "distance": float(gap.min()),
        }
    used, counts = np.unique(feature, return_counts=True)
    shown = used[np.argsort(-counts, kind="stable")[:n_shown]].tolist()
    if near.size and int(feature[i]) not in shown:
        shown[-1] = int(feature[i])
    return {
        "closest_pair": closest,
        "n_features_used": len(used),
        "features": [
            {
                "feature": names[f],
                "thresholds": value[feature == f].tolist(),
                "trees": tree[feature == f].tolist(),
            }
            for f in shown
        ],
    }

"""What is known about the spread of an ensemble: how far apart, for which budget that is enough, and where."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from certiforest.attack.attacker import Attacker
from certiforest.attack.spread import largest_certifiable_eps, moves_on, sorted_thresholds, spread_against
from certiforest.ensemble import TreeEnsemble
from certiforest.ensemble.tree_kernels import LARGEST
from certiforest.words import finite_or_none


@dataclass(frozen=True)
class SpreadFacts:
    """The spread of an ensemble against an attacker.

    Attributes
    ----------
    width : float
        Distance of the closest thresholds of two trees, inf if no two trees share a feature that can be attacked.
    largest : float
        The largest budget for which the ensemble has large spread, -1 if there is none.
    eps : float
        The attacker's budget.
    """

    width: float
    largest: float
    eps: float

    @classmethod
    def of(cls, ensemble: TreeEnsemble, attacker: Attacker) -> SpreadFacts:
        """Measure the spread of an ensemble."""
        return cls(spread_against(ensemble, attacker), largest_certifiable_eps(ensemble, attacker), attacker.eps)

    @property
    def is_shared(self) -> bool:
        """Whether two trees share a feature that can be attacked."""
        return math.isfinite(self.width)

    @property
    def is_large(self) -> bool:
        """Whether the ensemble has large spread for the attacker."""
        return self.eps <= self.largest

    @property
    def spread(self) -> float | None:
        """The width for JSON: null for infinity."""
        return finite_or_none(self.width)

    @property
    def largest_eps(self) -> float | None:
        """The largest budget for JSON: null for any, and for none."""
        return None if self.largest < 0 else finite_or_none(self.largest)

    @property
    def spread_in_words(self) -> str:
        """The width for people."""
        return repr(self.width) if self.is_shared else "no two trees share a feature"

    @property
    def largest_eps_in_words(self) -> str:
        """For which budgets every verdict is exact."""
        if not self.is_shared:
            return "any eps"
        return f"eps up to {self.largest!r}" if self.largest >= 0 else "no eps"


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

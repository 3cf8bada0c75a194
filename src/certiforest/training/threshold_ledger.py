"""ThresholdLedger: which thresholds each tree holds, and which are therefore closed to the others.

Growing trees that may only claim open thresholds makes large spread a matter of construction: whatever the order
of claims, thresholds of different trees end up more than ``2 * eps`` apart on every feature that can be attacked.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from certiforest.attack.attacker import Attacker
from certiforest.attack.spread import Distances, closing_distances
from certiforest.training import threshold_ledger_kernels as kernels

FIRST_CAPACITY = 4


class ThresholdLedger:
    """The thresholds claimed so far, by feature and tree.

    A threshold is *open* to a tree if no other tree holds one within ``2 * eps`` (scaled, exactly) on that feature;
    a tree's own claims never close anything to it. Frozen features are always open. For norm 0 a feature belongs
    to the first tree that claims it.

    Parameters
    ----------
    attacker : Attacker or None
        None if no threshold closes any other: trees share features freely.
    n_features : int

    Examples
    --------
    >>> ledger = ThresholdLedger(Attacker("linf", 0.1), n_features=1)
    >>> ledger.claim(feature=0, tree=0, threshold=0.5)
    True
    >>> ledger.claim(feature=0, tree=1, threshold=0.6)
    False
    >>> ledger.open_threshold(feature=0, tree=1, low=0.6, high=0.8) > 0.7
    True
    """

    def __init__(self, attacker: Attacker | None, n_features: int) -> None:
        distances = Distances(np.full(n_features, -1.0), np.zeros(n_features))
        if attacker is not None:
            distances = closing_distances(attacker, n_features)
        self.claims = kernels.Claims(
            np.empty((n_features, FIRST_CAPACITY)),
            np.empty((n_features, FIRST_CAPACITY), np.int32),
            np.zeros(n_features, np.int32),
            distances.rounded,
            distances.rest,
        )

    def reserve(self, n_claims: int) -> None:
        """Make room for ``n_claims`` more claims on every feature; kernels never allocate."""
        value, tree, count, *distances = self.claims
        needed = int(count.max()) + n_claims
        if needed > value.shape[1]:
            columns = max(needed, 2 * value.shape[1]) - value.shape[1]
            value, tree = (np.pad(array, ((0, 0), (0, columns))) for array in (value, tree))
            self.claims = kernels.Claims(value, tree, count, *distances)

    def is_open(self, feature: int, tree: int, threshold: float) -> bool:
        """Tell whether a tree may split a feature at a threshold."""
        return kernels.closing_claim(self.claims, feature, tree, threshold) < 0

    def open_threshold(self, feature: int, tree: int, low: float, high: float) -> float:
        """Return the threshold in ``[low, high)`` open to a tree that is nearest to the middle, NaN if none is."""
        return kernels.open_threshold(self.claims, feature, tree, low, high)

    def claim(self, feature: int, tree: int, threshold: float) -> bool:
        """Claim a threshold for a tree; return False, and change nothing, if it is closed to that tree."""
        if not self.is_open(feature, tree, threshold):
            return False
        self.reserve(1)
        kernels.claim_threshold(self.claims, feature, tree, threshold)
        return True

    def thresholds(self, feature: int) -> tuple[NDArray[np.float64], NDArray[np.int32]]:
        """Return the thresholds claimed on a feature, in ascending order, and the trees that hold them."""
        count = self.claims.n_claims[feature]
        return self.claims.value[feature, :count].copy(), self.claims.tree[feature, :count].copy()

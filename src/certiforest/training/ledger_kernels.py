"""Find and claim open thresholds, exactly (the rounding rule is in `certiforest.attack.reach_kernels`).

Claims of one feature, sorted, with the trees that hold them; tree 7 asks for a place in the gap [a, b):

    claims       3.......7..............3
    closed    [-----]           [-------------]     2 * eps either side of the claims of the others
    gap               [a ................ b)
    open              =========                     its own claim closes nothing
"""

from typing import NamedTuple

import numpy as np

from certiforest.attack.reach_kernels import is_within
from certiforest.compiled import kernel

FLOAT_STEP = np.finfo(np.float64).eps


class Claims(NamedTuple):
    """Thresholds that trees hold, per feature in ascending order, and how close another tree may not come."""

    value: np.ndarray  # (n_features, capacity) float64
    tree: np.ndarray  # (n_features, capacity) int32
    n_claims: np.ndarray  # (n_features,) int32
    distance_high: np.ndarray  # (n_features,) float64: see certiforest.attack.prices.Budgets
    distance_low: np.ndarray  # (n_features,) float64


@kernel
def first_claim_above(claims, feature, threshold):
    """Return how many claims on a feature are not above a threshold."""
    start, stop = 0, claims.n_claims[feature]
    while start < stop:
        middle = (start + stop) // 2
        if claims.value[feature, middle] <= threshold:
            start = middle + 1
        else:
            stop = middle
    return start


@kernel
def closing_claim(claims, feature, tree, threshold):
    """Return a claim of another tree that closes a threshold to a tree, -1 if it is open."""
    high, low = claims.distance_high[feature], claims.distance_low[feature]
    place = first_claim_above(claims, feature, threshold)
    for i in range(place - 1, -1, -1):
        if not is_within(threshold, claims.value[feature, i], high, low):
            break
        if claims.tree[feature, i] != tree:
            return i
    for i in range(place, claims.n_claims[feature]):
        if not is_within(claims.value[feature, i], threshold, high, low):
            break
        if claims.tree[feature, i] != tree:
            return i
    return -1


@kernel
def step_past(claims, feature, claim, direction):
    """Return a threshold just out of a claim's reach, below it (direction -1.0) or above it (1.0)."""
    value, high = claims.value[feature, claim], claims.distance_high[feature]
    threshold = value + direction * high
    above, below = (threshold, value) if direction > 0.0 else (value, threshold)
    if is_within(above, below, high, claims.distance_low[feature]):
        # The sum was rounded, by half a step at most: a few steps further is surely out.
        threshold += direction * 4.0 * FLOAT_STEP * max(abs(value), high)
        threshold = np.nextafter(threshold, direction * np.inf)  # a step from zero
    return threshold


@kernel
def middle_of(low, high):
    """Return the middle of ``[low, high)``, or ``low`` if rounding leaves nothing between."""
    middle = low + (high - low) / 2.0
    return middle if middle < high else low


@kernel
def open_threshold(claims, feature, tree, low, high):
    """Return the threshold in ``[low, high)`` open to a tree that is nearest to the middle, NaN if none is."""
    middle = middle_of(low, high)
    claim = closing_claim(claims, feature, tree, middle)
    if claim < 0:
        return middle
    best = np.nan
    for direction in (-1.0, 1.0):
        # Each step leaves one claim behind for good, so there are at most as many steps as claims.
        threshold, blocked = middle, claim
        while blocked >= 0 and low <= threshold < high:
            threshold = step_past(claims, feature, blocked, direction)
            blocked = closing_claim(claims, feature, tree, threshold)
        if blocked < 0 and low <= threshold < high and not abs(threshold - middle) >= abs(best - middle):
            best = threshold
    return best


@kernel
def claim_threshold(claims, feature, tree, threshold):
    """Enter an open threshold, keeping the order; a tree's second claim of one value is not entered twice."""
    place = first_claim_above(claims, feature, threshold)
    if place > 0 and claims.value[feature, place - 1] == threshold and claims.tree[feature, place - 1] == tree:
        return
    for i in range(claims.n_claims[feature], place, -1):
        claims.value[feature, i] = claims.value[feature, i - 1]
        claims.tree[feature, i] = claims.tree[feature, i - 1]
    claims.value[feature, place] = threshold
    claims.tree[feature, place] = tree
    claims.n_claims[feature] += 1


@kernel
def mark_open_features(claims, tree, bins, out):
    """Tell for each feature whether some threshold between two of its bins is open to a tree, or values are missing."""
    low, high, n_bins = bins.low, bins.high, bins.n_bins
    for f in range(out.shape[0]):
        out[f] = bins.has_missing[f]
        for k in range(n_bins[f] - 1):
            if not np.isnan(open_threshold(claims, f, tree, high[f, k], low[f, k + 1])):
                out[f] = True
                break

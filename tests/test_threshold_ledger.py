"""The ledger against exact rationals: open means more than 2 * eps from every claim of another tree."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from certiforest import Attacker
from certiforest.training.grower import ThresholdLedger
from certiforest.training.ledger_kernels import claim_threshold, closing_claim, open_threshold

# Multiples of a tenth: 0.1 + 0.2 is not 0.3, so rounding decides whether two thresholds touch.
tenths = st.integers(-30, 30).map(lambda k: k / 10)
numbers = tenths | st.floats(-3, 3)
budgets = st.sampled_from([0.0, 0.05, 0.1, 0.15, 0.3, 1e-17]) | st.floats(0, 1)
scales = st.sampled_from([1.0, 0.1, 3.0, 1 / 3])
wanted_claims = st.lists(st.tuples(st.integers(0, 3), numbers), max_size=12)


def claim(ledger, feature, tree, threshold):
    """Claim a threshold if it is open."""
    is_open = closing_claim(ledger.claims, feature, tree, threshold) < 0
    if is_open:
        ledger.reserve()
        claim_threshold(ledger.claims, feature, tree, threshold)
    return is_open


def is_open_exactly(held, tree, threshold, eps, scale):
    distance = 2 * Fraction(eps) * Fraction(scale)
    return all(other == tree or abs(Fraction(threshold) - Fraction(value)) > distance for other, value in held)


@settings(deadline=None)
@given(wanted_claims, budgets, scales)
def test_only_open_thresholds_are_claimed(wanted, eps, scale):
    ledger = ThresholdLedger(Attacker(2, eps, scale=[scale]), n_features=1)
    held = []
    for tree, threshold in wanted:
        expected = is_open_exactly(held, tree, threshold, eps, scale)
        assert claim(ledger, 0, tree, threshold) == expected
        if expected:
            held.append((tree, threshold))
    value, tree = (column[0, : ledger.claims.n_claims[0]] for column in (ledger.claims.value, ledger.claims.tree))
    assert sorted(zip(tree.tolist(), value.tolist(), strict=True)) == sorted(set(held))
    assert (np.diff(value) >= 0).all()


@settings(deadline=None)
@given(wanted_claims, budgets, scales, numbers, numbers)
def test_an_open_threshold_in_a_gap_is_found_if_there_is_one(wanted, eps, scale, one, other):
    low, high = min(one, other), max(one, other)
    assume(low < high)
    ledger = ThresholdLedger(Attacker(np.inf, eps, scale=[scale]), n_features=1)
    held = [pair for pair in wanted if claim(ledger, 0, *pair)]
    threshold = open_threshold(ledger.claims, 0, 9, low, high)
    if np.isnan(threshold):
        # A gap with room has room at an end of it or beside a closed stretch; slivers of a few rounding steps
        # beside a closed stretch are not searched.
        distance = 2 * eps * scale
        edges = [low, high, *(value + side * distance for _, value in held for side in (-1, 1))]
        for edge in edges:
            for step in (-4e-14, 4e-14):
                wide = [edge + share * step for share in (0.1, 1.0)]
                assert not all(low <= v < high and is_open_exactly(held, 9, v, eps, scale) for v in wide)
    else:
        assert low <= threshold < high
        assert is_open_exactly(held, 9, threshold, eps, scale)


def test_the_middle_of_a_gap_comes_first_then_what_is_nearest_to_it():
    ledger = ThresholdLedger(Attacker(np.inf, 0.05), n_features=1)
    assert open_threshold(ledger.claims, 0, 0, 0.0, 1.0) == 0.5
    claim(ledger, 0, 0, 0.52)
    assert open_threshold(ledger.claims, 0, 0, 0.0, 1.0) == 0.5
    assert open_threshold(ledger.claims, 0, 1, 0.0, 1.0) == pytest.approx(0.42)
    claim(ledger, 0, 2, 0.4)
    assert open_threshold(ledger.claims, 0, 1, 0.0, 1.0) == pytest.approx(0.62)
    assert np.isnan(open_threshold(ledger.claims, 0, 1, 0.45, 0.55))


def test_equal_thresholds_are_too_close_even_for_an_attacker_who_cannot_move():
    ledger = ThresholdLedger(Attacker(np.inf, 0), n_features=1)
    assert claim(ledger, 0, 0, 0.0)
    assert not claim(ledger, 0, 1, 0.0)
    assert open_threshold(ledger.claims, 0, 1, 0.0, 1e-300) > 0


@pytest.mark.parametrize("norm", [0, 1, np.inf])
def test_frozen_features_are_always_open(norm):
    ledger = ThresholdLedger(Attacker(norm, 5, frozen=[1]), n_features=2)
    assert claim(ledger, 1, 0, 0.5)
    assert claim(ledger, 1, 1, 0.5)
    assert claim(ledger, 0, 0, 0.5)
    assert not claim(ledger, 0, 1, 0.7)


def test_norm_0_gives_a_feature_to_one_tree():
    ledger = ThresholdLedger(Attacker(0, 1), n_features=1)
    assert claim(ledger, 0, 3, 0.5)
    assert claim(ledger, 0, 3, 1e9)
    assert not claim(ledger, 0, 1, -1e300)
    assert np.isnan(open_threshold(ledger.claims, 0, 1, -1.0, 0.0))

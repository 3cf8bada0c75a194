"""Spread: the fast answers against all pairs in rationals."""

import itertools
import math
import random
from fractions import Fraction

import pytest

from cases import attacker_of, ensemble_of, random_case
from certiforest import Attacker, TreeEnsemble, has_large_spread, overlaps, spread
from certiforest.attack.spread import exact_spread, largest_certifiable_eps


def all_pairs(ensemble, attacker):
    """Distance of every pair of splits on one attackable feature in different trees."""
    low, high = attacker.bounds(ensemble.n_features)
    frozen = attacker.is_frozen(ensemble.n_features)
    scale = attacker.scale_of(ensemble.n_features)
    tree = ensemble.tree_of_node
    nodes = [
        n for n, f in enumerate(ensemble.feature)
        if f >= 0 and not frozen[f] and low[f] <= ensemble.threshold[n] < high[f]
    ]  # fmt: skip
    for a, b in itertools.combinations(nodes, 2):
        if ensemble.feature[a] == ensemble.feature[b] and tree[a] != tree[b]:
            gap = abs(Fraction(float(ensemble.threshold[a])) - Fraction(float(ensemble.threshold[b])))
            if attacker.norm == 0:
                yield a, b, Fraction(int(gap > 0))
            else:
                yield a, b, gap / Fraction(float(scale[ensemble.feature[a]]))


def test_against_all_pairs():
    rng = random.Random(11)
    n_large = n_small = 0
    for _ in range(2_000):
        case = random_case(rng)
        ensemble, attacker = ensemble_of(case), attacker_of(case)
        if rng.random() < 0.3 and case.norm != 0:  # an eps right at half a gap
            gaps = [gap for _, _, gap in all_pairs(ensemble, attacker)]
            if gaps:
                eps = float(rng.choice(gaps) / 2)
                attacker = attacker.with_eps(rng.choice([eps, math.nextafter(eps, 0), math.nextafter(eps, 9)]))
        pairs = list(all_pairs(ensemble, attacker))
        closest = min((gap for _, _, gap in pairs), default=None)
        options = dict(scale=case.scale, frozen=case.frozen, domain=case.domain)
        got = spread(ensemble, case.norm, **options)
        if closest is None:
            assert got == math.inf
        else:
            assert Fraction(got) <= closest < Fraction(math.nextafter(got, math.inf))
        is_large = closest is None or closest > 2 * Fraction(attacker.eps)
        assert has_large_spread(ensemble, attacker) == is_large
        n_large += is_large
        n_small += not is_large
        listed = overlaps(ensemble, attacker)
        assert {frozenset(p) for p in zip(listed.first_node.tolist(), listed.second_node.tolist(), strict=True)} == {
            frozenset((a, b)) for a, b, gap in pairs if gap <= 2 * Fraction(attacker.eps)
        }
        assert len(listed.feature) == len(listed.first_node)
        assert (ensemble.threshold[listed.first_node] <= ensemble.threshold[listed.second_node]).all()
        largest = largest_certifiable_eps(ensemble, attacker)
        if 0 <= largest < math.inf and case.norm != 0:
            assert has_large_spread(ensemble, attacker.with_eps(largest))
            assert not has_large_spread(ensemble, attacker.with_eps(math.nextafter(largest, math.inf)))
    assert min(n_large, n_small) > 200


def two_stumps(v, w, f=0, g=0):
    return TreeEnsemble([f, -1, -1, g, -1, -1], [v, 0, 0, w, 0, 0], [-1, 0, 1] * 2, n_features=2, classes=[0, 1])


@pytest.mark.parametrize("scale", [None, [1.0, 3.0], [0.1, 0.1]])
@pytest.mark.parametrize(
    "values", [[k / 10 for k in range(40)], [k / 255 for k in range(0, 255, 7)], [-1.7e308, 1.7e308]]
)
def test_gaps_that_differ_by_less_than_rounding(values, scale):
    stumps = [(f, v * (1 - 0.5 * f)) for f in (0, 1) for v in values]
    feature = [n for f, _ in stumps for n in (f, -1, -1)]
    threshold = [n for _, v in stumps for n in (v, 0, 0)]
    ensemble = TreeEnsemble(feature, threshold, [-1, 0, 1] * len(stumps), n_features=2, classes=[0, 1])
    attacker = Attacker("linf", 0.0, scale)
    assert exact_spread(ensemble, attacker) == min(gap for _, _, gap in all_pairs(ensemble, attacker))


def test_norm_0_asks_for_features_of_their_own():
    assert spread(two_stumps(0.1, 0.9), 0) == 1
    assert spread(two_stumps(0.1, 0.1), 0) == 0
    assert spread(two_stumps(0.1, 0.1, 0, 1), 0) == math.inf
    assert not has_large_spread(two_stumps(0.1, 0.9), Attacker(0, 1))
    assert has_large_spread(two_stumps(0.1, 0.9, 0, 1), Attacker(0, 1))
    assert len(overlaps(two_stumps(0.1, 0.9), Attacker(0, 1)).feature) == 1


def test_equality_is_not_large():
    e = two_stumps(0.25, 0.5)
    assert not has_large_spread(e, Attacker("linf", 0.125))
    assert has_large_spread(e, Attacker("linf", math.nextafter(0.125, 0)))


@pytest.mark.parametrize("options", [{"frozen": [0]}, {"domain": (0.4, 1)}, {"domain": (0.0, 0.5)}])
def test_what_cannot_be_attacked_does_not_count(options):
    e = two_stumps(0.25, 0.5)
    assert spread(e, **options) == math.inf
    assert has_large_spread(e, Attacker("linf", 10, **options))


def test_scale_is_the_unit():
    assert spread(two_stumps(0.25, 0.5), scale=0.5) == 0.5


def test_trees_on_a_whole_column_meet_only_if_a_whole_step_is_in_reach():
    e, options = two_stumps(0.25, 0.5), {"scale": 0.25, "integer": [0]}
    assert has_large_spread(e, Attacker("linf", math.nextafter(4, 0), **options))
    assert not has_large_spread(e, Attacker("linf", 4, **options))
    assert not has_large_spread(e, Attacker("linf", math.nextafter(4, 0), scale=0.25))

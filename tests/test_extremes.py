"""The ends of the floats: verdicts, radii and witnesses where numbers of all sizes meet."""

import math

import pytest

import oracle
import referee
from cases import LARGEST, attacker_of, ensemble_of, extreme_case
from certiforest import certify, spread
from certiforest.rows.radius import RadiusSearch
from oracle import Case

MEETING = [
    (0, 0.5, (1, 0.5, 0, 1), (1, 0.5, 0, 1)),
    (0, 0.5, (1, 0.2, 0, 1), (1, 0.7, 1, 1)),
    (1, 0.5, (0, 0.5, 0, 1), (0, 0.7, 0, 1)),
]


@pytest.mark.parametrize("combine", ["vote", "sum"])
@pytest.mark.parametrize("chunk", range(2))
def test_extreme_cases_agree_with_the_oracle(chunk, combine):
    referee.run(500, seed=9_000 + chunk, time_limit=60, combine=combine, draw=extreme_case)


@pytest.mark.parametrize("norm", [1, 2, math.inf])
def test_a_difference_that_overflows_on_the_way(norm):
    case = Case([(0, -LARGEST, 0, 1)], 1, 2, [-5.214684383060529e307], norm, 1.276224696556263e308)
    assert referee.judge(case, time_limit=60) == ([], "unstable, radius exact")


@pytest.mark.parametrize("v", [LARGEST, -LARGEST, 1.6e308])
def test_an_attack_on_the_largest_floats_is_found_again(v):
    scores = [(-1.0, 3.0), (1.0, 3.0), (-3.0, 1.0)]
    trees = [(0, cut, [a], [b]) for cut, (a, b) in zip((v / 2, v / 2, v), scores, strict=True)]
    for x in (0.0, v / 2, v / 3, -v / 4):
        case = Case(trees, 1, 2, [x], 1, 0.2, base=[0.0])
        assert referee.judge(case, time_limit=60)[0] == []


@pytest.mark.parametrize("eps", [2.0**53, 2.0**62, 2.0**63, 1e300])
def test_a_budget_of_more_features_than_a_whole_number_counts(eps):
    """From 2**63 on, rows at which trees meet were called stable."""
    for x in ([0.1, 0.1], [0.1, 0.6], [0.6, 0.9]):
        assert referee.judge(Case(MEETING, 2, 2, x, 0, eps), time_limit=60)[0] == []


@pytest.mark.parametrize("scale", [[5e-324, 1e-300], [1.7e308, 1e308]])
def test_scale_plays_no_role_where_features_are_counted(scale):
    """A tiny scale made the radius infinite, a large one was refused."""
    for eps in (0.0, 2.0):
        assert referee.judge(Case(MEETING, 2, 2, [1e10, 1e10], 0, eps, scale), time_limit=60)[0] == []


def test_a_cost_beyond_the_floats_is_not_none():
    case = Case([(0, 1.0, 0, 1)], 1, 2, [0.0], math.inf, 0.0, [1 / LARGEST])
    assert referee.judge(case, time_limit=60) == ([], "stable, radius exact")


@pytest.mark.parametrize("norm", [1, 2, math.inf])
def test_sizes_far_apart_take_no_more_steps(norm, monkeypatch):
    """The budget was doubled from the smallest threshold to the largest: a thousand steps and more."""
    asked = []
    make = RadiusSearch._local
    monkeypatch.setattr(RadiusSearch, "_local", lambda self, eps: (asked.append(eps), make(self, eps))[1])
    trees = [(0, 1e-300, 0, 1), (0, 1e300, 1, 0), (0, 1.0, (0, 1e-100, 0, 0), 0), (0, 1e150, 0, 1), (0, 1e299, 0, 1)]
    case = Case(trees, 1, 2, [-1e-300], norm, 0.0)
    assert referee.judge(case, time_limit=60)[0] == []
    assert len(asked) < 60


def test_a_radius_that_scale_takes_beyond_the_floats_is_bounded():
    trees = [(0, 1e300, 0, 1), (0, 2e300, 0, 1), (1, 0.0, 0, 1)]
    case = Case(trees, 2, 2, [0.0, -1.0], 2, 0.0, [1e-5, 1e10])
    c = certify(ensemble_of(case), [case.x], None, attacker_of(case), radius=True)
    assert referee.judge_radius(case, oracle.cheapest_change(case), c.radius[0], c.radius_upper[0]) == []


def test_a_distance_beyond_the_floats_may_cost_less_than_one_within_them():
    trees = [(1, -1.4134115042059252e111, 1, 0), (0, -1.4134115042059252e111, 0, 2), (0, -2.8268230084118503e111, 2, 1)]
    x, scale = [LARGEST, -1.4134115042059252e111], [1.0716011639105835e147, 1e-162]
    assert referee.judge(Case(trees, 2, 3, x, math.inf, 8.387883456107925e160, scale), time_limit=60)[0] == []


@pytest.mark.parametrize("direction", [None, "up"])
@pytest.mark.parametrize("unit", [5e-324, LARGEST])
def test_spread_in_the_smallest_and_the_largest_unit(unit, direction):
    ensemble = ensemble_of(Case([(0, 0.5, 0, 1), (0, 0.5, 0, 1), (0, 1.0, 0, 1)], 1, 2, [0.0], 1, 0.0))
    assert spread(ensemble, scale=unit, direction=direction) == 0.0
    apart = ensemble_of(Case([(0, 0.0, 0, 1), (0, LARGEST / 2, 0, 1)], 1, 2, [0.0], 1, 0.0))
    assert spread(apart, scale=LARGEST, direction=direction) == (0.5 if direction is None else 1.0)

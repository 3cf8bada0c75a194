"""Interaction: the solver against the oracle, on cases that composition could decide and on those it cannot."""

import itertools
import math
import random
import time

import numpy as np
import pytest

import oracle
import referee
from cases import attacker_of, ensemble_of, random_case
from certiforest import Attacker, Verdict, certify
from certiforest.verification import interaction
from certiforest.verification.attack_model import AttackModel, Timeout
from certiforest.verification.composition import Composition
from certiforest.verification.interaction import Interaction
from certiforest.verification.summing import Summing


def interaction_of(case):
    compose = Composition if case.base is None else Summing
    return Interaction(compose(ensemble_of(case), attacker_of(case)), time_limit=60)


def judge(case):
    answer, witness = interaction_of(case).decide(np.array(case.x), time.monotonic() + 60)
    best = oracle.cheapest_change(case)
    is_stable = best is None or best > oracle.budget(case, case.eps)
    wrong = [] if answer == is_stable else [f"answered {answer}, should be {int(is_stable)}"]
    if answer == 0:
        own = oracle.predict(case, case.x)
        wrong += referee._judge_witness(case, own, witness.tolist())
    return wrong


@pytest.mark.parametrize("combine", ["vote", "sum"])
@pytest.mark.parametrize("norm", [0, 1, 2, 3, math.inf])
def test_the_solver_agrees_with_the_oracle(norm, combine):
    rng = random.Random(f"interaction {norm}")
    for _ in range(300):
        case = random_case(rng, norm=norm, apart=rng.random() < 0.1, combine=combine)
        assert judge(case) == [], case


@pytest.mark.parametrize("combine", ["vote", "sum"])
@pytest.mark.parametrize("n_steps", [0, 4])
def test_groups_left_to_the_solver_agree_with_the_oracle(monkeypatch, n_steps, combine):
    monkeypatch.setattr(interaction, "N_STEPS", n_steps)
    rng = random.Random(f"groups {n_steps}")
    for _ in range(300):
        case = random_case(rng, norm=math.inf, apart=False, combine=combine)
        wrong, _ = referee.judge(case, time_limit=60)
        assert wrong == [], case


def test_small_groups_need_no_solver(monkeypatch):
    """Trees 0 and 1 meet on feature 0, trees 2 and 3 on feature 1: of each pair, one tree can be turned."""

    def fail(*arguments):
        raise AssertionError("the solver was asked")

    monkeypatch.setattr(interaction, "AttackModel", fail)
    trees = [(f, v, left, right) for f in (0, 1) for v, left, right in ((0.5, 0, 1), (0.4, 1, 0))]
    for others, is_stable in (((1, 0, 0), True), ((1, 1, 0), False)):
        case = oracle.Case([*trees, *others], 2, 2, [0.45, 0.45], math.inf, 0.06)
        assert judge(case) == []
        assert interaction_of(case).decide(np.array(case.x), time.monotonic() + 60)[0] == is_stable


def test_time_runs_out_honestly():
    n_open = 0
    for seed in range(30):
        case = random_case(random.Random(seed), norm=math.inf, apart=False)
        answer, witness = interaction_of(case).decide(np.array(case.x), deadline=time.monotonic() - 1)
        best = oracle.cheapest_change(case)
        assert answer == -1 or best is None or best > oracle.budget(case, case.eps), seed
        assert witness is None
        n_open += answer == -1
    assert 0 < n_open < 30


@pytest.mark.parametrize("combine", ["vote", "sum"])
@pytest.mark.parametrize("chunk", range(4))
def test_with_the_solver_every_generated_case_is_decided(chunk, combine):
    outcomes = referee.run(400, seed=5_000 + chunk, time_limit=60, combine=combine)
    assert not any("unknown" in name or "bounded" in name for name in outcomes)


@pytest.mark.parametrize("combine", ["vote", "sum"])
def test_bounds_hold_whenever_the_solver_gives_up(monkeypatch, combine):
    rng = random.Random(f"giving up {combine}")
    for name in ("find", "find_cheapest"):
        method = getattr(AttackModel, name)

        def give_up_at_times(self, deadline, method=method):
            if rng.random() < 0.5:
                raise Timeout
            return method(self, deadline)

        monkeypatch.setattr(AttackModel, name, give_up_at_times)
    n_open = 0
    for _ in range(600):
        case = random_case(rng, combine=combine, apart=False)
        ensemble, attacker = ensemble_of(case), attacker_of(case)
        c = certify(ensemble, [case.x], [0], attacker, radius=True, time_limit=60)
        best = oracle.cheapest_change(case)
        assert referee._judge_radius(case, best, c.radius[0], c.radius_upper[0]) == [], case
        assert c.stable[0] in (-1, best is None or best > oracle.budget(case, case.eps)), case
        n_open += not c.radius_is_exact[0]
    assert n_open > 10


def test_sums_within_rounding_are_refined_in_digits(monkeypatch):
    n_refined = 0
    refine = AttackModel.refine

    def count(self):
        nonlocal n_refined
        n_refined += 1
        refine(self)

    monkeypatch.setattr(AttackModel, "refine", count)
    rng = random.Random("digits")
    for _ in range(600):
        case = random_case(rng, combine="sum", apart=False)
        assert judge(case) == [], case
    assert n_refined > 0


def test_ctrl_c_keeps_what_is_decided():
    trees = [(f, v, (1 - f, v, 0, 1), (1 - f, v + 0.1, 1, 0)) for v in (0.0, 0.05, 0.1) for f in (0, 1)] + [0]
    ensemble = ensemble_of(oracle.Case(trees, 2, 2, [0, 0], 1, 0.2))
    X = np.random.default_rng(0).uniform(-0.3, 0.5, size=(300, 2))
    options = {"attacker": Attacker(1, 0.1), "witness": True, "radius": True}
    full = certify(ensemble, X, ensemble.predict(X), **options)
    counter = itertools.count()

    def interrupt(_):
        if next(counter) == 5:
            raise KeyboardInterrupt

    part = certify(ensemble, X, ensemble.predict(X), progress=interrupt, **options)
    assert part.is_interrupted
    assert not full.is_interrupted
    assert full.radius_is_exact.all()
    np.testing.assert_array_equal(part.prediction, full.prediction)
    known = part.stable >= 0
    assert 0 < known.sum() < len(X)
    np.testing.assert_array_equal(part.stable[known], full.stable[known])
    assert part.counts[Verdict.UNKNOWN] == (~known).sum()
    assert np.isnan(part.witness[~known]).all()
    assert (part.radius[~known] == 0).all()


def test_presolve_does_not_decide():
    # OR-Tools 9.15 with presolve finds no solution here; there is an attack of norm 1.763.
    trees = [
        (2, -0.6, (2, -0.7, 0, 1), (0, 0.3, 0, 1)),
        (1, 0.8, (1, 0.6, 1, 0), 0),
        (1, 0.7814983074274174, (0, 0.24442693978935945, 0, 1), (1, 1.3, 1, 0)),
        (2, -2.2, 1, 0),
    ]
    case = oracle.Case(trees, 3, 2, [-1.1, 2.05, -2.16], 3, 2.032594301711369)
    wrong, _ = referee.judge(case, time_limit=60)
    assert wrong == []


@pytest.mark.parametrize("combine", ["vote", "sum"])
def test_a_bound_for_one_rival_is_none_for_the_row(monkeypatch, combine):
    """At times the solver stops right after it has found the optimum, with its bound and without the proof."""
    rng = random.Random(f"half way {combine}")
    solve = AttackModel._solve

    def stop_half_way(self, deadline):
        status, solver = solve(self, deadline)
        if status == self._cp.OPTIMAL and self.model.has_objective() and rng.random() < 0.5:
            status = self._cp.FEASIBLE
        return status, solver

    monkeypatch.setattr(AttackModel, "_solve", stop_half_way)
    n_open = 0
    for _ in range(1_500):
        case = random_case(rng, norm=rng.choice([1, 2, 3]), combine=combine, apart=False)
        if case.n_classes == 2:
            continue
        c = certify(ensemble_of(case), [case.x], None, attacker_of(case), radius=True, time_limit=60)
        best = oracle.cheapest_change(case)
        assert referee._judge_radius(case, best, c.radius[0], c.radius_upper[0]) == [], case
        n_open += not c.radius_is_exact[0]
    assert n_open > 10


@pytest.mark.parametrize("norm", [1, math.inf])
def test_gains_that_round_do_not_lead_round_in_circles(norm):
    worth = [
        [-0.5, 0.5, -0.3, 0.5], [-0.4, 0.5, 0.5, 0.4], [0.3, 0.3, -0.5, -0.3],
        [0.3, 0.0, 0.2, -0.5], [-0.1, -0.5, -0.5, -0.3], [0.9, -0.3, 1.1, 0.7],
    ]  # fmt: skip
    trees = [(0, 0.5, (1, 0.5, [-a], [-b]), (1, 0.5, [-c], [-d])) for a, b, c, d in worth]
    case = oracle.Case(trees, 2, 2, [0.4, 0.4], norm, 0.2 if norm == math.inf else 0.5, base=[0.7])
    wrong, _ = referee.judge(case, time_limit=60)
    assert wrong == []


def test_a_budget_beyond_the_floats_ends_the_search():
    trees = [(0, 1e300, (1, 1.0, 0, 1), (1, 1.0, 1, 0)), (1, 1.0, (0, 1e300, 0, 1), (0, 1e300, 1, 1)), (0, 1e300, 0, 0)]
    case = oracle.Case(trees, 2, 2, [0.0, 0.0], 2, 0.1, scale=[1.0, 1e10])
    c = certify(ensemble_of(case), [case.x], None, attacker_of(case), radius=True)
    assert referee._judge_radius(case, oracle.cheapest_change(case), c.radius[0], c.radius_upper[0]) == []


def test_far_thresholds_do_not_end_the_search_for_a_radius():
    """Most crossings cost more than the largest float; the one that matters costs 0.15."""
    far = [(0, v, a, b) for v, a, b in ((1e308, 2, 1), (-5e307, 1, 1), (1e308, 2, 0), (1e308, 1, 2), (-5e307, 2, 0))]
    near = [(1, 0.1, 2, 0), (1, 0.1, 0, 1), (1, 0.3, 2, 1), (1, 0.1, 1, 2)]
    trees = [*far, *near, (0, 0.0, 0, 0), (0, 1e308, 0, 1), (0, 1e308, 1, 2)]
    for eps in (0.01, 0.2):
        case = oracle.Case(trees, 2, 3, [-1e308, 0.15], math.inf, eps)
        c = certify(ensemble_of(case), [case.x], None, attacker_of(case), radius=True, time_limit=60)
        assert c.radius_is_exact.all()
        assert referee._judge_radius(case, oracle.cheapest_change(case), c.radius[0], c.radius_upper[0]) == []


def test_guesses_and_models_of_large_problems_end(monkeypatch):
    case = random_case(random.Random(8), norm=1, apart=False)
    solver = interaction_of(case)
    x = np.array(case.x)
    problem = solver._local_problem(x, solver.attacker)
    gain = np.ones(len(problem.leaf), np.int64)
    with pytest.raises(Timeout):
        AttackModel(solver.ensemble, x, problem, gain, 1, solver.attacker, deadline=time.monotonic() - 1)
    monkeypatch.setattr(interaction, "N_VISITS", 0)
    *_, last = solver._guesses(x, problem, 0, 1, solver.attacker)
    assert (last == x).all()  # no visit, no move

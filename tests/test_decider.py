"""Message passing and splits against the oracle, on rows at which trees meet and on those where they do not."""

import bisect
import functools
import itertools
import math
import random
import threading

import numpy as np
import pytest

import oracle
import referee
from cases import attacker_of, crowded_case, ensemble_of, random_case, real_case
from certiforest import Attacker, Verdict, certifier, certify
from certiforest.ensemble import score_kernels
from certiforest.problem.around_row import RowProblem
from certiforest.problem.problem import Problem
from certiforest.problem.verifier import Verifier
from certiforest.proof import cuts_kernels, moves_kernels, search, search_kernels, sweep_kernels, tables_kernels
from certiforest.proof.clock import Clock, OutOfTime
from certiforest.proof.focus_kernels import sweep_in_focus
from certiforest.rows.decider import Decider
from small_models import stumps


@pytest.mark.parametrize("combine", ["vote", "sum"])
@pytest.mark.parametrize("norm", [0, 1, 2, 3, math.inf])
def test_verdicts_agree_with_the_oracle(norm, combine):
    rng = random.Random(f"interaction {norm}")
    for _ in range(300):
        case = random_case(rng, norm=norm, apart=rng.random() < 0.1, combine=combine)
        assert referee.judge_alone(case, 60)[0] == [], case


@pytest.mark.parametrize("combine", ["vote", "sum"])
@pytest.mark.parametrize("norm", [0, 1])
def test_two_thousand_trees_agree_with_the_oracle(monkeypatch, norm, combine):
    predict, known = oracle.predict, {}

    def predict_cell(case, z):  # once for all rows of an ensemble
        if id(case.trees) not in known:
            splits = [split for tree in case.trees for split in oracle.splits(tree)]
            cuts = [sorted({v for g, v in splits if g == f}) for f in range(case.n_features)]
            known[id(case.trees)] = case.trees, cuts, {}
        _, cuts, of_cell = known[id(case.trees)]
        cell = tuple(map(bisect.bisect_left, cuts, z))
        if cell not in of_cell:
            of_cell[cell] = predict(case, z)
        return of_cell[cell]

    monkeypatch.setattr(oracle, "predict", predict_cell)
    draw = functools.partial(crowded_case, norm=norm)
    found = referee.run(60, seed=9_000 + norm, combine=combine, time_limit=60, draw=draw, n_rows=30)
    assert {name.split()[2] for name in found} == {"stable,", "unstable,"}


@pytest.mark.parametrize("draw", [random_case, real_case])
@pytest.mark.parametrize("combine", ["vote", "sum"])
@pytest.mark.parametrize("most_sweeps", [0, 1])
def test_splits_do_without_sweeps(monkeypatch, most_sweeps, combine, draw):
    monkeypatch.setattr(search, "MOST_SWEEPS", most_sweeps)
    rng = random.Random(f"splits {most_sweeps}")
    for _ in range(250):
        case = draw(rng, apart=False, combine=combine)
        assert referee.judge_alone(case, 60)[0] == [], case


@pytest.mark.parametrize("norm", [1, 2, math.inf])
def test_attacks_of_a_block_are_predicted_in_one_call(monkeypatch, norm):
    """A call for each row, after which threads wait for each other, made two threads fifteen times slower than one."""
    calls, find_winners = [], score_kernels.find_winners
    monkeypatch.setattr(score_kernels, "find_winners", lambda *rows: calls.append(rows) or find_winners(*rows))
    model = stumps(*itertools.product(range(4), (0.4, 0.5, 0.6)), scores=[[-1.0], [1.0]])
    X = np.random.default_rng(0).random((320, 4))
    found = certify(model, X, None, Attacker(norm, 0.2))
    assert (found.stable == 0).sum() > 3 * len(calls)


@pytest.mark.parametrize("norm", [1, 2])
def test_the_clock_is_read_between_sweeps(monkeypatch, norm):
    """One call of up to 400 sweeps, seconds each for large models, went on when time was up."""
    readings, check = [], Clock.check
    monkeypatch.setattr(search, "MOST_STEPS", 0)
    monkeypatch.setattr(Clock, "check", lambda clock: readings.append(clock) or check(clock))
    rng = random.Random(f"pauses {norm}")
    for _ in range(60):
        case = random_case(rng, norm=norm, apart=False, combine="sum")
        assert referee.judge_alone(case, 60)[0] == [], case
    assert len(readings) > 5


def test_nothing_is_begun_when_time_is_up_for_all_rows(monkeypatch):
    rng = random.Random(4)
    monkeypatch.setattr(search_kernels, "examine_box", None)
    for _ in range(20):
        case = random_case(rng, apart=False)
        c = certify(ensemble_of(case), [case.x], None, attacker_of(case), total_time_limit=0, radius=True, witness=True)
        assert c.stable.tolist() == [-1]
        assert c.prediction.tolist() == [oracle.predict(case, case.x)]


def test_the_time_that_preparing_a_model_takes_counts(monkeypatch):
    case, clocks, made = random_case(random.Random(4), apart=False), [], Verifier.again
    monkeypatch.setattr(certifier, "Clock", lambda *given: clocks.append(given) or Clock(*given))
    monkeypatch.setattr(Verifier, "again", lambda *given: clocks.append("preparation") or made(*given))
    certify(ensemble_of(case), [case.x], None, attacker_of(case), total_time_limit=60)
    assert [type(entry) for entry in clocks[:2]] == [tuple, str]


def test_time_runs_out_honestly(monkeypatch):
    monkeypatch.setattr(search_kernels, "examine_box", lambda *box: search_kernels.OPEN)
    draw = functools.partial(random_case, norm=math.inf, apart=False)
    outcomes = referee.run(100, 3, draw=draw, judged=referee.judge_alone)
    assert outcomes["norm inf: unknown, solved"] > 5


@pytest.mark.parametrize("seconds", [0.0, 60.0])
def test_a_row_is_decided_once_also_where_a_proof_is_kept(monkeypatch, seconds):
    rng, asked, n_asked, n_proofs = random.Random(f"once {seconds}"), [], 0, 0
    decide = Decider.decide

    def counting(*given, **options):
        asked.append(1)
        return decide(*given, **options)

    monkeypatch.setattr(Decider, "decide", counting)
    for _ in range(150):
        case = random_case(rng, apart=False)
        question = ensemble_of(case), [case.x], None, attacker_of(case)
        plain = certify(*question, time_limit=seconds)
        asked.clear()
        proved = certify(*question, time_limit=seconds, proof=True)
        assert len(asked) == 1 or (not asked and proved.method[0] in ("composed", "bounded", "proved"))
        n_asked += len(asked)
        assert plain.stable[0] in (-1, proved.stable[0])
        n_proofs += proved.proof[0] is not None
        assert proved.proof[0] is None or proved.stable[0] == 1
        assert proved.proof[0] is not None or proved.stable[0] < 1 or seconds == 0
    assert n_proofs > 20
    assert n_asked > 20


def test_seconds_that_a_row_has_spent_are_not_spent_again():
    clock = Clock(1000.0)
    assert clock.start(spent=400.0).spent >= 400.0
    assert clock.start(spent=400.0).left <= 600.0
    assert clock.start(spent=1000.0).is_up
    assert not clock.start(spent=1000.0, at_least=2000.0).is_up


@pytest.mark.parametrize("draw", [random_case, real_case])
@pytest.mark.parametrize("combine", ["vote", "sum"])
@pytest.mark.parametrize("chunk", range(4))
def test_every_generated_case_is_decided(chunk, combine, draw):
    outcomes = referee.run(400, seed=5_000 + chunk, time_limit=60, combine=combine, draw=draw)
    assert not any("unknown" in name or "bounded" in name for name in outcomes)


@pytest.mark.parametrize("combine", ["vote", "sum"])
def test_bounds_hold_whenever_the_search_gives_up(monkeypatch, combine):
    rng = random.Random(f"giving up {combine}")
    run = search.Search.run

    def give_up_at_times(self, clock):
        if rng.random() < 0.3:
            raise OutOfTime
        return run(self, clock)

    monkeypatch.setattr(search.Search, "run", give_up_at_times)
    n_open = 0
    for _ in range(600):
        case = random_case(rng, combine=combine, apart=False)
        ensemble, attacker = ensemble_of(case), attacker_of(case)
        c = certify(ensemble, [case.x], [0], attacker, radius=True, time_limit=60)
        best = oracle.cheapest_change(case)
        assert referee.judge_radius(case, best, c.radius[0], c.radius_upper[0]) == [], case
        assert c.stable[0] in (-1, best is None or best > oracle.budget(case, case.eps)), case
        n_open += not c.radius_is_exact[0]
    assert n_open > 10


@pytest.mark.parametrize("radius", [False, True])
def test_ctrl_c_keeps_what_is_decided(radius):
    trees = [(f, v, (1 - f, v, 0, 1), (1 - f, v + 0.1, 1, 0)) for v in (0.0, 0.05, 0.1) for f in (0, 1)] + [0]
    ensemble = ensemble_of(oracle.Case(trees, 2, 2, [0, 0], 1, 0.2))
    X = np.random.default_rng(0).uniform(-0.3, 0.5, size=(300, 2))
    options = {"attacker": Attacker(1, 0.1), "witness": True, "radius": radius}
    full = certify(ensemble, X, ensemble.predict(X), **options)
    counter = itertools.count()

    def interrupt(_):
        if next(counter) == 2:
            raise KeyboardInterrupt

    part = certify(ensemble, X, ensemble.predict(X), progress=interrupt, **options)
    assert part.is_interrupted
    assert not full.is_interrupted
    np.testing.assert_array_equal(part.prediction, full.prediction)
    known = part.stable >= 0
    np.testing.assert_array_equal(part.stable[known], full.stable[known])
    assert part.counts[Verdict.UNKNOWN] == (~known).sum()
    assert np.isnan(part.witness[~known]).all()
    if radius:  # verdicts come first
        assert known.all()
        assert full.radius_is_exact.all()
        assert 0 < part.radius_is_exact.sum() < len(X)
    else:
        assert 0 < known.sum() < len(X)
        assert set(part.method[~known]) == {"none"}


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_kernels_leave_the_main_thread_to_ctrl_c(monkeypatch, n_jobs):
    """There it ended the process: numba makes named tuples of results with the interrupt pending."""
    rng, decide, threads = random.Random(4), Decider.decide, []
    monkeypatch.setattr(Decider, "decide", lambda *row, **o: threads.append(threading.get_ident()) or decide(*row, **o))
    for _ in range(20):
        case = random_case(rng, apart=False)
        certify(ensemble_of(case), [case.x], None, attacker_of(case), proof=True, radius=True, n_jobs=n_jobs)
    assert threads
    assert threading.main_thread().ident not in threads


def test_an_attack_that_a_constraint_solver_missed():
    # There is an attack of norm 1.763.
    trees = [
        (2, -0.6, (2, -0.7, 0, 1), (0, 0.3, 0, 1)),
        (1, 0.8, (1, 0.6, 1, 0), 0),
        (1, 0.7814983074274174, (0, 0.24442693978935945, 0, 1), (1, 1.3, 1, 0)),
        (2, -2.2, 1, 0),
    ]
    case = oracle.Case(trees, 3, 2, [-1.1, 2.05, -2.16], 3, 2.032594301711369)
    assert referee.judge(case, time_limit=60)[0] == []


@pytest.mark.parametrize("norm", [1, math.inf])
def test_gains_that_round_do_not_lead_round_in_circles(norm):
    worth = [
        [-0.5, 0.5, -0.3, 0.5], [-0.4, 0.5, 0.5, 0.4], [0.3, 0.3, -0.5, -0.3],
        [0.3, 0.0, 0.2, -0.5], [-0.1, -0.5, -0.5, -0.3], [0.9, -0.3, 1.1, 0.7],
    ]  # fmt: skip
    trees = [(0, 0.5, (1, 0.5, [-a], [-b]), (1, 0.5, [-c], [-d])) for a, b, c, d in worth]
    case = oracle.Case(trees, 2, 2, [0.4, 0.4], norm, 0.2 if norm == math.inf else 0.5, base=[0.7])
    assert referee.judge(case, time_limit=60)[0] == []


def test_a_box_of_several_cells_can_always_be_cut():
    """Losses that are no numbers made a box look like a single cell, which would end the search in it."""
    trees = [(0, 0.5, (0, 0.2, 0, 1), 1), (0, 0.4, 0, 1)]
    case = oracle.Case(trees, 1, 2, [0.3], 1, 0.3)
    attacker = attacker_of(case)
    row = RowProblem(Verifier(ensemble_of(case), attacker), np.array(case.x))
    tables = tables_kernels.new_tables(row.cells, row.leaves)
    problem = Problem(row.cells, row.leaves, np.zeros(len(row.leaves.node), np.int64), 0, row.budget)
    tables.lambda_[:] = math.nan
    assert cuts_kernels.find_split(problem, tables)[0] >= 0
    tables.high[:] = tables.low
    assert cuts_kernels.find_split(problem, tables)[0] == -1


def gain_of(leaves, gain, choice):
    """Return what the leaves that allow some cells gain, one of each tree."""
    allowed = [
        [gain[k] for k in range(*ends) if moves_kernels.allows(leaves, k, choice)]
        for ends in itertools.pairwise(leaves.first.tolist())
    ]
    assert all(len(values) == 1 for values in allowed)
    return sum(values[0] for values in allowed)


@pytest.mark.parametrize("norm", [1, math.inf])
def test_sweeps_bound_what_is_left_of_a_box(norm):
    """Leaves and conditions that a box makes idle are left out; no sweep may go below what the rest is worth."""
    rng, n_compared = random.Random(f"sweeps {norm}"), 0
    for _ in range(600):
        case = random_case(rng, norm=norm, apart=False, combine="sum")
        attacker = attacker_of(case)
        row = RowProblem(Verifier(ensemble_of(case), attacker), np.array(case.x))
        cells, leaves = row.cells, row.leaves
        if not len(leaves.name):
            continue
        gain = np.array([rng.randint(-1000, 1000) for _ in leaves.node])
        tables, problem = tables_kernels.new_tables(cells, leaves), Problem(cells, leaves, gain, 0, row.budget)
        for v in range(len(cells.home)):
            first, last = sorted(rng.choices(range(cells.first[v], cells.first[v + 1]), k=2))
            tables.low[v], tables.high[v] = min(first, cells.home[v]), max(last, cells.home[v])
        inside = tables_kernels.narrow(problem, tables)
        box = [range(low, high + 1) for low, high in zip(tables.low, tables.high, strict=True)]
        choices = (np.array(choice) for choice in itertools.product(*box))
        most = -math.inf
        for choice in itertools.islice((c for c in choices if cells.price[c].sum() <= row.budget), 500):
            value = gain_of(leaves, gain, choice)
            assert gain_of(inside.leaves, inside.gain, choice) == value
            most, n_compared = max(most, value), n_compared + 1
        scratch = sweep_kernels.new_sweep_scratch(inside.leaves, tables)
        for n_sweeps in range(3):
            for takes_down in (False, True):
                settled = sweep_kernels.sweep(inside.leaves, inside.gain, tables, 1e5, takes_down, scratch)
                shown = settled + tables_kernels.float_bound(row.budget, tables)
                assert shown >= most - 1e-6, (case, n_sweeps)
                assert tables_kernels.whole_bound(inside, tables) >= most
            low, high = tables.low.copy(), tables.high.copy()
            sweep_in_focus(inside, tables, rng.choice([0.0, 10.0, 1000.0]))  # a guess, which is no less true
            assert (tables.low == low).all()
            assert (tables.high == high).all()
            assert tables_kernels.whole_bound(inside, tables) >= most
            tables_kernels.add_up(cells, inside.leaves, tables)
    assert n_compared > 500


def test_thousands_of_leaves_of_a_tree_can_be_proved():
    """Their leads, all added up, did not fit into 60 bits, although a row is in one of them only."""
    rng = random.Random("leaves")

    def tree(first, last):
        if first == last:
            return [-rng.random()]
        middle = (first + last) // 2
        return (0, float(middle), tree(first, middle), tree(middle + 1, last))

    case = oracle.Case([tree(0, 4095), tree(0, 4095)], 1, 2, [7.5], math.inf, 1e5, base=[-0.01])
    c = certify(ensemble_of(case), [case.x], None, attacker_of(case), proof=True)
    assert c.stable[0] == 1
    assert c.proof[0] is not None


def test_a_budget_beyond_the_floats_ends_the_search():
    trees = [(0, 1e300, (1, 1.0, 0, 1), (1, 1.0, 1, 0)), (1, 1.0, (0, 1e300, 0, 1), (0, 1e300, 1, 1)), (0, 1e300, 0, 0)]
    case = oracle.Case(trees, 2, 2, [0.0, 0.0], 2, 0.1, scale=[1.0, 1e10])
    c = certify(ensemble_of(case), [case.x], None, attacker_of(case), radius=True)
    assert referee.judge_radius(case, oracle.cheapest_change(case), c.radius[0], c.radius_upper[0]) == []


def test_far_thresholds_do_not_end_the_search_for_a_radius():
    """Most crossings cost more than the largest float; the one that matters costs 0.15."""
    far = [(0, v, a, b) for v, a, b in ((1e308, 2, 1), (-5e307, 1, 1), (1e308, 2, 0), (1e308, 1, 2), (-5e307, 2, 0))]
    near = [(1, 0.1, 2, 0), (1, 0.1, 0, 1), (1, 0.3, 2, 1), (1, 0.1, 1, 2)]
    trees = [*far, *near, (0, 0.0, 0, 0), (0, 1e308, 0, 1), (0, 1e308, 1, 2)]
    for eps in (0.01, 0.2):
        case = oracle.Case(trees, 2, 3, [-1e308, 0.15], math.inf, eps)
        c = certify(ensemble_of(case), [case.x], None, attacker_of(case), radius=True, time_limit=60)
        assert c.radius_is_exact.all()
        assert referee.judge_radius(case, oracle.cheapest_change(case), c.radius[0], c.radius_upper[0]) == []

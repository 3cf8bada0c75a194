"""The screen, on trees and offers made for it: order and early ends, votes as scores of one, knapsacks."""

import itertools
import math
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import attacker_of, ensemble_of, extreme_case, random_case, real_case
from certiforest import Attacker, TreeEnsemble, certify
from certiforest.problem import masks_kernels as masks
from certiforest.problem.verifier import Verifier
from certiforest.proof.clock import Clock
from certiforest.rows import knapsack_kernels as knapsack
from certiforest.rows import screen
from certiforest.rows.decider import Decider
from certiforest.rows.knapsack_kernels import Demand, ParetoLeaves
from certiforest.rows.screen import Screen, VisitOrder
from certiforest.rows.screen_kernels import BORDERLINE, STABLE, UNFINISHED, UNKNOWN, UNSTABLE, weigh_rival
from small_models import stumps

ATTACKERS = [Attacker(0, 1), Attacker(1, 0.2), Attacker(2, 0.15), Attacker(math.inf, 0.1)]


def forest(n_trees, n_classes, seed, shares=False, **options):
    """Trees of depth 2, each on two features of its own unless they share them, and rows."""
    rng = np.random.default_rng(seed)
    feature, threshold, leaf, n_kinds = [], [], [], len(options.get("scores", range(n_classes)))
    for t in range(n_trees):
        f = 2 * (t // 2 if shares else t)
        feature += [f, f + 1, -1, -1, f + 1, -1, -1]
        threshold += [*rng.random(2).round(1), 0, 0, round(rng.random(), 1), 0, 0]
        leaf += [-1, -1, *rng.integers(0, n_kinds, 2), -1, *rng.integers(0, n_kinds, 2)]
    shape = dict(n_features=2 * n_trees, classes=range(n_classes))
    return TreeEnsemble(feature, threshold, leaf, **shape, **options), rng.random((40, 2 * n_trees)).round(2)


@pytest.mark.parametrize("attacker", ATTACKERS, ids=str)
@pytest.mark.parametrize("n_classes", [1, 2, 3, 5])
@pytest.mark.parametrize("n_trees", [6, 15])
def test_a_vote_is_a_score_of_one(n_trees, n_classes, attacker):
    """Tenths are no floats: their sums are rounded, and ties are settled in digits. Votes are counted."""
    votes, X = forest(n_trees, n_classes, n_trees)
    others = [forest(n_trees, n_classes, n_trees, scores=0.1 * np.eye(n_classes))[0]]
    assert votes.prepared_scores.step == (2.0 if n_classes == 2 else 1.0)
    assert others[0].prepared_scores.step == 0.0
    if n_classes == 2:
        others.append(forest(n_trees, n_classes, n_trees, scores=[[-1.0], [1.0]])[0])
    expected, *found = (certify(e, X, None, attacker, radius=True) for e in (votes, *others))
    for c in found:
        for name in ("prediction", "stable", "radius", "radius_is_exact"):
            np.testing.assert_array_equal(getattr(c, name), getattr(expected, name))
    assert n_classes == 1 or 0 < (expected.stable == 1).sum() < len(X)


SCORES = [[0.3], [-1.7], [0.2]], [[0.5, 2.0, 1.0], [1.0, 0.0, 3.0], [2.0, 1.0, 0.1]]


@pytest.mark.parametrize("attacker", ATTACKERS, ids=str)
@pytest.mark.parametrize(("n_classes", "options"), [(3, {}), (2, {"scores": SCORES[0]}), (3, {"scores": SCORES[1]})])
def test_no_verdict_depends_on_the_order_of_visits(n_classes, options, attacker):
    ensemble, X = forest(12, n_classes, 0, shares=attacker.norm > 0, **options)
    screen, rng, found = Screen(Verifier(ensemble, attacker)), np.random.default_rng(1), []
    for _ in range(6):
        order = VisitOrder.of(ensemble.n_trees)
        order.place[:] = rng.permutation(ensemble.n_trees)
        prediction, stable = np.empty(len(X), np.int64), np.empty(len(X), np.int8)
        screen.decide(X, order, Clock(60), prediction, stable)
        np.testing.assert_array_equal(prediction, ensemble.class_index(X))
        assert sorted(order.place) == list(range(ensemble.n_trees))
        assert (order.moved[:, 1] <= order.moved[:, 0]).all()
        found.append(stable)
    np.testing.assert_array_equal(found, found[:1] * 6)
    assert len(set(found[0].tolist())) > 1


@pytest.mark.parametrize("attacker", ATTACKERS, ids=str)
def test_threads_and_blocks_do_not_change_anything(attacker, monkeypatch):
    ensemble, X = forest(15, 3, 9, scores=np.random.default_rng(9).normal(size=(20, 3)))
    options = {"attacker": attacker, "radius": True, "witness": True, "time_limit": math.inf}
    whole = certify(ensemble, X, **options)
    monkeypatch.setattr("certiforest.ensemble.rows.BLOCK_BYTES", 8 * 30 * 7)
    parts = certify(ensemble, X, n_jobs=2, **options)
    for name in ("prediction", "stable", "radius", "radius_is_exact", "witness"):
        np.testing.assert_array_equal(getattr(whole, name), getattr(parts, name))
    assert 0 < (whole.stable == 1).sum() < len(X)


@pytest.mark.parametrize("attacker", ATTACKERS[1:3], ids=str)
def test_knapsacks_in_floats_and_cells_in_whole_numbers_agree(attacker):
    ensemble, X = forest(15, 3, 10, scores=np.random.default_rng(10).normal(size=(20, 3)).round(1))
    verifier = Verifier(ensemble, attacker)
    prediction, stable = np.empty(len(X), np.int64), np.empty(len(X), np.int8)
    Screen(verifier).decide(X, VisitOrder.of(ensemble.n_trees), Clock(60), prediction, stable)
    on_cells = np.array([Decider(verifier).decide(x, Clock(60).start()).stable for x in X])
    decided = stable >= 0
    np.testing.assert_array_equal(stable[decided], on_cells[decided])
    assert decided.mean() > 0.9
    assert 0 < (stable == 1).sum() < len(X)


def test_a_row_ends_where_a_majority_cannot_be_moved():
    ensemble = TreeEnsemble([-1] * 7, [0] * 7, [1, 1, 0, 1, 1, 0, 0], n_features=1, classes=[0, 1])
    order, prediction, stable = VisitOrder.of(7), np.empty(1, np.int64), np.empty(1, np.int8)
    Screen(Verifier(ensemble, Attacker(1, 1.0))).decide(np.zeros((1, 1)), order, Clock(1), prediction, stable)
    assert stable[0] == STABLE
    assert order.moved[:, 0].tolist() == [1, 1, 1, 1, 1, 0, 0]


@given(st.lists(st.sampled_from([-math.inf, -1.0, 0.0, 0.5, 2.0, math.inf]), max_size=60))
def test_what_is_sorted_keeps_its_order_among_equals(keys):
    key, number = np.array(keys, np.float64), np.arange(len(keys))
    knapsack.sort_by(key, number, 0, len(keys))
    assert number.tolist() == sorted(range(len(keys)), key=keys.__getitem__)
    assert key.tolist() == sorted(keys)


@pytest.mark.parametrize("attacker", [*ATTACKERS[1:3], Attacker(0, 2)], ids=str)
@pytest.mark.parametrize(("n_classes", "options"), [(3, {}), (2, {"scores": SCORES[0]}), (3, {"scores": SCORES[1]})])
def test_rates_say_what_knapsacks_say(n_classes, options, attacker):
    n_decided, said = 0, set()
    for seed in range(10):
        ensemble, X = forest(15, n_classes, seed, **options)
        of_rows, order, prediction = Screen(Verifier(ensemble, attacker)), VisitOrder.of(15), np.empty(40, np.int64)
        at_rates, bought = np.empty((2, len(X)), np.int8)
        for trial, stable in ((-1, at_rates), (0, bought)):
            of_rows._decide(X, order, trial, prediction, stable)
        decided = at_rates != UNFINISHED
        assert at_rates[decided].tolist() == bought[decided].tolist()
        n_decided, said = n_decided + decided.sum(), said | {*at_rates[decided].tolist()}
    assert n_decided > 0.8 * 400
    assert said == {STABLE, UNSTABLE}


def random_offers(rng):
    cost, gain, start = [], [], [0]
    for _ in range(rng.randint(1, 6)):
        size = rng.randint(1, 4)
        cost += sorted(rng.sample(range(1, 30), size))
        gain += sorted(rng.sample(range(1, 30), size))
        start.append(len(cost))
    return ParetoLeaves(np.array(cost, np.float64), np.array(gain, np.float64), np.array(start))


def purchases(leaves):
    """All costs and gains of leaves, one per tree at most."""
    choices = [[None, *range(a, b)] for a, b in itertools.pairwise(leaves.start.tolist())]
    for pick in itertools.product(*choices):
        yield tuple(sum(column[k] for k in pick if k is not None) for column in leaves[:2])


def test_what_can_be_bought_is_bought():
    rng = random.Random(3)
    outcomes, most_work = [], 2**40
    for _ in range(400):
        leaves = random_offers(rng)
        totals = list(purchases(leaves))
        need, limit = float(rng.randint(1, 90)), float(rng.randint(1, 90))
        best = min((c for c, g in totals if g >= need), default=math.inf)
        steps = knapsack.list_steps(leaves)
        outcomes.append(knapsack.can_buy(leaves, steps, Demand(limit, need, 0.0, 0.0), 2**12, most_work))
        assert outcomes[-1] == (best <= limit)
        assert weigh_rival(leaves, limit, 0.0, need, need, 0.0, 2**12, most_work) == (best > limit)
        # bounds: leaves in parts gain no less than the best purchase, steps in order no more
        most = max(g for c, g in totals if c <= limit)
        assert knapsack.buy_greedily(steps, limit, math.inf) <= most <= knapsack.most_gain(steps, limit) * (1 + 1e-12)
    assert 50 < sum(outcomes) < 350


def test_rounding_that_decides_is_told():
    leaves = ParetoLeaves(np.array([1.0]), np.array([1.0]), np.array([0, 1]))
    answers = [weigh_rival(leaves, limit, 1e-9, 1.0, 1.0, 1e-9, 8, 100) for limit in (0.9, 1.0, 1.1)]
    assert answers == [STABLE, BORDERLINE, UNSTABLE]


def test_too_many_sums_are_undecided():
    rng = random.Random(6)
    cost = np.array([rng.uniform(1, 2) for _ in range(30)])
    leaves = ParetoLeaves(cost, cost + 1e-5 * np.arange(30), np.arange(31))
    for room, work in ((8, 2**40), (2**20, 100)):
        assert weigh_rival(leaves, 20.0, 0.0, 20.0001, 20.0001, 0.0, room, work) == UNFINISHED


@pytest.mark.filterwarnings("error")
def test_scores_of_no_leaf_do_not_count_however_large():
    scores = [[1e-300, 0, 0], [0, 1e-300, 0], [1e307, 1e307, 1e307]]
    e = stumps((0, 0.5), classes=[0, 1, 2], scores=scores)
    assert certify(e, [[0.4], [0.1]], None, Attacker(2, 0.2)).stable.tolist() == [0, 1]
    same = TreeEnsemble([-1], [0], [1], n_features=1, classes=[0, 1], scores=[[-(2.0**53)], [0.0]])
    assert certify(same, [[0.4]], None, Attacker(2, 0.2)).stable.tolist() == [1]


@pytest.mark.parametrize("combine", ["vote", "sum"])
def test_a_push_breaks_only_rows_that_can_be_broken(combine, monkeypatch):
    """Whole columns, moves one way, scales, ends and huge or tiny numbers among them."""
    rng, n_pushed = random.Random(f"push {combine}"), 0
    for draw in [random_case, real_case, extreme_case] * 60:
        case = draw(rng, norm=math.inf, combine=combine)
        question = [case.x], None, attacker_of(case)
        pushed = certify(ensemble_of(case), *question, time_limit=60)
        with monkeypatch.context() as patch:
            patch.setattr(screen, "_push", lambda *_: np.empty((0, 0)))
            plain = certify(ensemble_of(case), *question, time_limit=60)
        assert pushed.stable.tolist() == plain.stable.tolist()
        n_pushed += pushed.stable[0] == 0 and pushed.method[0] == "composed" != plain.method[0]
    assert n_pushed > 5


@pytest.mark.parametrize(("n_classes", "options"), [(3, {}), (2, {"scores": SCORES[0]}), (3, {"scores": SCORES[1]})])
def test_one_move_is_decided_though_trees_meet(n_classes, options):
    """Moves up only, moves of some columns, and whole columns among them."""
    for attacker in (Attacker(0, 1), Attacker(0, 1, direction="up"), Attacker(0, 1, frozen=[0], integer=[3])):
        ensemble, X = forest(12, n_classes, 3, shares=True, **options)
        X[:, 3] = X[:, 3].round()
        verifier, prediction, stable = Verifier(ensemble, attacker), np.empty(40, np.int64), np.empty(40, np.int8)
        Screen(verifier).decide(X, VisitOrder.of(ensemble.n_trees), Clock(60), prediction, stable)
        on_cells = np.array([Decider(verifier).decide(x, Clock(60).start()).stable for x in X])
        decided = stable != UNKNOWN  # else a sum is as near to a tie as rounding takes it
        assert stable[decided].tolist() == on_cells[decided].tolist()
        assert decided.mean() > 0.9
        assert 0 < (stable == STABLE).sum() < len(X)


@pytest.mark.parametrize("eps", [2, 3])
def test_norm_0_asks_few_trees(eps, monkeypatch):
    for seed in range(4):
        ensemble, X = forest(15, 3, seed, scores=np.random.default_rng(seed).normal(size=(5, 3)).round(1))
        found = certify(ensemble, X, None, Attacker(0, eps), time_limit=60)
        with monkeypatch.context() as patch:
            patch.setattr(
                Verifier, "has_large_spread", property(lambda self: False, lambda self, _: None), raising=False
            )
            assert len(Verifier(ensemble, Attacker(0, eps)).unclaimed)
            again = forest(15, 3, seed, scores=np.random.default_rng(seed).normal(size=(5, 3)).round(1))[0]
            expected = certify(again, X, None, Attacker(0, eps), time_limit=60)
        assert found.stable.tolist() == expected.stable.tolist()
        assert eps == 3 or (found.stable == 1).any()


@given(st.sets(st.integers(0, 300), min_size=1))
def test_sets_of_numbers_are_read_in_order(numbers):
    bits, found, i = np.zeros(5, np.uint64), [], 0
    assert all(masks.set_bit(bits, number) for number in numbers)
    assert not any(masks.set_bit(bits, number) for number in numbers)
    while len(found) < len(numbers):
        found.append(int(masks.next_bit(bits, i)))
        i = found[-1] + 1
    assert found == sorted(numbers)

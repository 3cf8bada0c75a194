"""Sums of scores: exact arithmetic, margins and limits on time."""

import itertools
import math
import random
from fractions import Fraction

import numpy as np
import pytest

import oracle
from cases import attacker_of, ensemble_of, random_case
from certiforest import Attacker, ModelError, TreeEnsemble, Verdict, certify, save_silva
from certiforest.ensemble.scores import digits_of
from small_models import stumps

PAIR = dict(n_features=1, classes=[0, 1])


def random_score(rng):
    return rng.choice([
        0.0, -0.0, 1.0, -1.0, 0.1, -0.3, 5e-324, -2.5e-310, 1e300, rng.uniform(-1, 1),
        rng.uniform(-1, 1) * 2.0 ** rng.randint(-1000, 900),
    ])  # fmt: skip


def test_digits_are_the_scores():
    rng = random.Random(0)
    for _ in range(2_000):
        value = np.array([random_score(rng) for _ in range(rng.randint(1, 6))])
        digits = digits_of(value)
        assert np.abs(digits).max() < 2**32
        whole = [sum(int(d) << (32 * k) for k, d in enumerate(row)) for row in digits]
        units = {Fraction(v) / n for v, n in zip(value.tolist(), whole, strict=True) if n}
        assert len(units) <= 1
        assert [n == 0 for n in whole] == (value == 0).tolist()


def test_predictions_follow_the_exact_sum():
    rng = random.Random(1)
    n_close = 0
    for _ in range(2_000):
        scores = [random_score(rng) for _ in range(rng.randint(1, 6))]
        scores += [-s for s in rng.sample(scores, rng.randint(0, len(scores)))]
        rng.shuffle(scores)
        n = len(scores)
        e = TreeEnsemble([-1] * n, [0] * n, range(n), scores=np.reshape(scores, (n, 1)), **PAIR)
        exact = sum(map(Fraction, scores), Fraction(0))
        (float_sum,) = e.decision_function([[0.0]])
        n_close += (exact > 0) != (float_sum > 0)
        assert e.predict([[0.0]])[0] == (exact > 0)
        assert abs(Fraction(float_sum) - exact) <= Fraction(e.rounding_bound(np.float64))
    assert n_close > 20  # floats alone would be wrong


def test_the_lowest_class_wins_ties_of_many_outputs():
    options = dict(n_features=1, classes=["a", "b", "c"])
    e = TreeEnsemble([-1, -1], [0, 0], [0, 1], scores=[[0.1, 0.3, 0.0], [0.2, 0.0, 0.3]], **options)
    assert e.decision_function([[0.0]]).shape == (1, 3)
    assert e.predict([[0.0]]) == ["a"]  # 0.1 + 0.2 is above 0.3, in floats and exactly
    e = TreeEnsemble([-1], [0], [0], scores=[[0.0, 0.5, 0.25]], base=[0.5, 0.0, 0.25], **options)
    assert e.predict([[0.0]]) == ["a"]


def test_rounding_bound_covers_float32_sums_in_any_order():
    rng = random.Random(2)
    for _ in range(200):
        scores = [rng.uniform(-1, 1) * 10.0 ** rng.randint(-3, 3) for _ in range(rng.randint(1, 60))]
        n = len(scores)
        e = TreeEnsemble([-1] * n, [0] * n, range(n), scores=np.reshape(scores, (n, 1)), base=[0.1], **PAIR)
        terms = [0.1, *scores]
        exact = sum(map(Fraction, terms))
        for _ in range(3):
            rng.shuffle(terms)
            total = np.float32(0)
            for term in terms:
                total += np.float32(term)
            assert abs(Fraction(float(total)) - exact) <= Fraction(e.rounding_bound(np.float32))
    assert TreeEnsemble([-1], [0], [0], scores=[[1e39]], **PAIR).rounding_bound(np.float32) == math.inf


def hard_ensemble(n_trees, rng):
    """Stumps on features of their own whose gain is their cost and a little: the hardest knapsacks there are."""
    threshold = [rng.uniform(0.5, 1.0) for _ in range(n_trees)]
    scores = [[-t - rng.uniform(0, 1e-4)] for t in threshold]
    feature = [k for t in range(n_trees) for k in (t, -1, -1)]
    leaf = [k for t in range(n_trees) for k in (-1, n_trees, t)]
    columns = feature, [v for t in threshold for v in (t, 0, 0)], leaf
    shape = dict(n_features=n_trees, classes=[0, 1], scores=[*scores, [0.0]])
    return TreeEnsemble(*columns, **shape, base=[0.4 * sum(threshold)])


def test_time_runs_out_honestly():
    ensemble = hard_ensemble(60, random.Random(4))
    x = np.zeros((1, 60))
    attacker = Attacker("l1", 0.4 * float(ensemble.threshold.sum()) - 1e-3)
    c = certify(ensemble, x, [1], attacker, time_limit=1e-3, radius=True)
    assert c.verdict[0] is Verdict.UNKNOWN
    assert not c.radius_is_exact[0]
    assert 0 < c.radius[0] < 0.4 * float(ensemble.threshold.sum())
    # the same, small enough to be finished, agrees with trying everything
    ensemble = hard_ensemble(10, random.Random(5))
    c = certify(ensemble, np.zeros((1, 10)), [1], Attacker("l1", 1.0), time_limit=math.inf, radius=True)
    price = [Fraction(math.nextafter(v, 1)) for v in ensemble.threshold[ensemble.feature >= 0]]
    gain = [-Fraction(s) for s in ensemble.scores[:10, 0].tolist()]
    need = Fraction(float(ensemble.base[0]))
    best = min(
        sum(itertools.compress(price, pick))
        for pick in itertools.product([0, 1], repeat=10)
        if sum(itertools.compress(gain, pick)) >= need
    )
    assert c.radius_is_exact[0]
    assert Fraction(math.nextafter(c.radius[0], 0)) < best <= Fraction(float(c.radius[0]))


def reachable_leads(case):
    """The lead of the row's class over its best rival, for every row in reach: exact."""
    used = sorted({f for tree in case.trees for f, _ in oracle.splits(tree)})
    for choice in itertools.product(*(oracle.reachable_values(case, f) for f in used)):
        if choice and oracle.total(case, [p for _, p in choice]) > oracle.budget(case, case.eps):
            continue
        z = list(case.x)
        for f, (value, _) in zip(used, choice, strict=True):
            z[f] = value
        yield lead_at(case, z)


def lead_at(case, z):
    own = oracle.predict(case, case.x)
    sums = oracle.exact_sums(case.base, [oracle.leaf_of(tree, z) for tree in case.trees])
    sums = [Fraction(0), *sums] if len(sums) < case.n_classes else sums
    return sums[own] - max(total for c, total in enumerate(sums) if c != own)


def test_a_margin_leaves_what_is_close_unknown():
    rng = random.Random(7)
    outcomes = []
    for _ in range(1_500):
        case = random_case(rng, combine="sum", apart=True)
        scale = max(abs(s) for tree in case.trees for s in _scores(tree))
        margin = max(scale, 1e-320) * rng.choice([1e-9, 0.1, 0.5])
        ensemble = ensemble_of(case)
        c = certify(ensemble, [case.x], [0], attacker_of(case), margin=margin, witness=True)
        leads = list(reachable_leads(case))
        if c.stable[0] == 1:
            assert min(leads) > margin
        elif c.stable[0] == 0:
            assert min(leads) < -margin
            assert oracle.predict(case, c.witness[0].tolist()) != c.prediction[0]
        elif case.norm in (0, math.inf):
            # nothing is left open without reason: floats widen the margin by no more than their rounding
            assert min(leads) <= Fraction(margin) + 2 * Fraction(ensemble.prepared_scores.slack)
        if lead_at(case, case.x) <= margin:
            assert (c.stable[0], c.method[0]) == (-1, "composed")  # nothing had to be looked for
        outcomes.append(int(c.stable[0]))
    assert min(outcomes.count(k) for k in (-1, 0, 1)) > 50


def _scores(tree):
    return _scores(tree[2]) + _scores(tree[3]) if isinstance(tree, tuple) else tree


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(margin=-1.0), "margin to be a number >= 0, got -1.0"),
        (dict(margin=math.nan), "margin to be a number >= 0"),
        (dict(margin=0.1, radius=True), "margin=0 where a radius is asked for"),
    ],
)
def test_bad_margins_are_named(options, message):
    e = stumps((0, 0.5), scores=[[-1.0], [1.0]], **PAIR)
    with pytest.raises(ValueError, match=message):
        certify(e, [[0.1]], [0], Attacker("linf", 0.1), **options)


def test_votes_and_scores_are_not_confused(tmp_path):
    vote = stumps((0, 0.5), **PAIR)
    scores = stumps((0, 0.5), scores=[[-1.0], [1.0]], **PAIR)
    assert (vote.combine, scores.combine) == ("vote", "sum")
    assert vote != scores
    assert vote.predict([[0.4], [0.6]]).tolist() == scores.predict([[0.4], [0.6]]).tolist() == [0, 1]
    with pytest.raises(ModelError, match="use decision_function instead"):
        scores.votes([[0.1]])
    with pytest.raises(ModelError, match="use votes instead"):
        vote.decision_function([[0.1]])
    with pytest.raises(ModelError, match=r"Expected trees that vote for a \.silva file"):
        save_silva(scores, tmp_path / "model.silva")
    with pytest.raises(ValueError, match="margin=0 for trees that vote"):
        certify(vote, [[0.1]], [0], Attacker("linf", 0.1), margin=0.1)


ATTACKERS = [Attacker(0, 3), Attacker(1, 0.3), Attacker(2, 0.15), Attacker(math.inf, 0.05)]


def test_a_single_class_is_stable():
    e = stumps((0, 0.5), classes=["a"], scores=[[-1.0], [1.0]])
    for attacker in ATTACKERS:
        c = certify(e, [[0.5]], ["a"], attacker, radius=True, witness=True)
        assert (c.stable[0], c.radius[0], c.verdict[0]) == (1, math.inf, Verdict.ROBUST)


@pytest.mark.parametrize("norm", [1, math.inf])
@pytest.mark.parametrize("margin", [5e-324, 1e308, math.inf])
def test_margins_may_be_tiny_or_huge(norm, margin):
    e = stumps((0, 0.5), scores=[[-1.0], [1.0]])
    c = certify(e, [[0.2], [0.45]], None, Attacker(norm, 0.1), margin=margin, witness=True)
    assert c.stable.tolist() == ([1, 0] if margin < 1 else [-1, -1])


def test_a_hard_rival_does_not_hide_an_easy_one():
    """Class 1 is an even knapsack with an odd budget; class 2 wins by one move."""
    cost = 2.0 * np.random.default_rng(40).integers(10**8, 10**9, 40)
    budget = float(cost.sum() // 4 * 2 + 1)
    scores = [[0.0, 0.0, 0.0], *([0.0, c, 0.0] for c in cost), [0.0, 0.0, 2 * budget]]
    feature = [v for f in range(41) for v in (f, -1, -1)]
    leaf = [v for f in range(41) for v in (-1, f + 1, 0)]
    e = TreeEnsemble(
        feature, np.zeros(123), leaf, n_features=41, classes=[0, 1, 2], scores=scores, base=[budget, 0.0, 0.0]
    )
    x = np.append(cost, 1.0)[None]
    c = certify(e, x, None, Attacker(1, budget), witness=True)
    assert c.stable.tolist() == [0]
    assert e.predict(c.witness)[0] != c.prediction[0]


def test_one_class_has_an_infinite_radius_where_trees_meet():
    e = stumps((0, 0.5), (0, 0.6), classes=[0], scores=[[1.0], [2.0]])
    assert certify(e, [[0.2]], None, Attacker(1, 0.1), radius=True).radius.tolist() == [math.inf]

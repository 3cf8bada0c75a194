"""The verdicts: against the oracle, against the published ones, and at the door."""

import json
import math
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier

import oracle
import referee
from cases import attacker_of, ensemble_of, random_case
from certiforest import Attacker, SpreadError, TreeEnsemble, Verdict, as_ensemble, certify, has_large_spread
from certiforest.ensemble.rows import RowError
from shared_data import needs_shared, paper_split, shared
from small_models import stumps

CHUNKS, CASES_PER_CHUNK = 4, 1_000  # `referee.py` asks for more
STUMP = stumps((0, 0.5))


@pytest.mark.parametrize("combine", ["vote", "sum"])
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_generated_cases_agree_with_the_oracle(chunk, combine):
    outcomes = referee.run(CASES_PER_CHUNK, 1_000 + chunk, combine)
    assert outcomes.total() == CASES_PER_CHUNK
    decided = sum(count for name, count in outcomes.items() if "unknown" not in name)
    assert decided > 0.8 * CASES_PER_CHUNK  # a verifier that answers UNKNOWN to everything is right, and useless


@settings(max_examples=400, deadline=None)
@given(st.randoms(use_true_random=False), st.sampled_from(["vote", "sum"]))
def test_cases_found_by_hypothesis_agree_with_the_oracle(rng, combine):
    wrong, _ = referee.judge(random_case(rng, combine=combine))
    assert wrong == []


LARGEST = float(np.finfo(np.float64).max)
ON_THRESHOLD = [(1, 1e-300, (0, 1.0, 0, 1), 0)], 2, 2, [1.0, 0.0]


@pytest.mark.parametrize(
    "case",
    [
        # The row is on one threshold, so the only move is one float long; the other threshold is much nearer.
        *(oracle.Case(*ON_THRESHOLD, norm, 0.1) for norm in (1, 2, 3, 100)),
        oracle.Case([(1, 1e-20, (0, 1e308, 0, 1), 0)], 2, 2, [1e308, 0.0], math.inf, 1e300, scale=[2.0, 2.0]),
        # Distances beyond the floats that are ordinary ones after division by the scale.
        oracle.Case([(0, 1e308, 0, 1)] * 2, 1, 2, [-1e308], 1, 1.0, scale=[1e300]),
        oracle.Case([(0, 0.0, 0, 1)], 1, 2, [-LARGEST], math.inf, 1.0, scale=[3e300]),
    ],
    ids=lambda case: f"L{case.norm} {case.x}",
)
def test_radii_hold_at_the_ends_of_the_floats(case):
    c = certify(ensemble_of(case), [case.x], None, attacker_of(case), radius=True, time_limit=60)
    assert referee.judge_radius(case, oracle.cheapest_change(case), c.radius[0], c.radius_upper[0]) == []


@pytest.mark.parametrize("combine", ["vote", "sum"])
def test_the_referee_notices_a_wrong_verdict(monkeypatch, combine):
    """The oracle must be able to fail the verifier: a budget one float too large is enough."""

    def generous(ensemble, X, y, attacker, **options):
        return certify(ensemble, X, y, attacker.with_eps(math.nextafter(attacker.eps, math.inf)), **options)

    monkeypatch.setattr(referee, "certify", generous)
    rng = random.Random(5)
    drawn = (random_case(rng, norm=norm, combine=combine) for norm in [1, 2, math.inf] * 100)
    assert any(referee.judge(case)[0] for case in drawn)


def test_the_referee_notices_a_score_that_is_one_float_off(monkeypatch):
    def careless(ensemble, X, y, attacker, **options):
        base = np.nextafter(ensemble.base, math.inf)
        columns = ensemble.feature, ensemble.threshold, ensemble.leaf
        shape = dict(n_features=ensemble.n_features, classes=ensemble.classes, scores=ensemble.scores)
        return certify(TreeEnsemble(*columns, **shape, base=base), X, y, attacker, **options)

    monkeypatch.setattr(referee, "certify", careless)
    rng = random.Random(5)
    assert any(referee.judge(random_case(rng, combine="sum"))[0] for _ in range(300))


@needs_shared
def test_published_models_get_the_published_verdicts():
    _, X, _, y = paper_split("mnist26")
    letters = dict(zip(Verdict, "RFVBU", strict=True))
    expected = json.loads((shared() / "expected" / "carve_mnist26.json").read_text())["mnist26"]
    assert len(expected) == 18
    for entry in expected:
        pattern = f"lse*_{entry['trees']}_{entry['depth']}_{entry['eps']}_*.silva"
        (path,) = (shared() / "models" / "mnist26").glob(pattern)
        c = certify(path, X, y, Attacker(entry["norm"], entry["eps"]), n_jobs=2)
        assert "".join(letters[verdict] for verdict in c.verdict) == entry["verdicts"], (path.name, entry["norm"])


@pytest.fixture(scope="module")
def forest_and_rows():
    X, y = load_breast_cancer(return_X_y=True)
    X = (X - X.min(0)) / (X.max(0) - X.min(0))
    forest = RandomForestClassifier(n_estimators=15, max_depth=4, random_state=0).fit(X[:300], y[:300])
    return as_ensemble(forest, voting="hard"), X, y


@pytest.mark.parametrize("norm", [0, 1, 2, math.inf])
def test_threads_and_blocks_do_not_change_anything(forest_and_rows, norm, monkeypatch):
    ensemble, X, y = forest_and_rows
    attacker = Attacker(norm, 1 if norm == 0 else 0.002)
    X, y = X[:200], y[:200]
    options = {"radius": norm in (0, math.inf), "witness": True, "time_limit": math.inf}
    whole = certify(ensemble, X, y, attacker, **options)
    monkeypatch.setattr("certiforest.ensemble.rows.BLOCK_BYTES", 8 * 30 * 16)
    done = []
    parts = certify(ensemble, X, y, attacker, n_jobs=2, progress=done.append, **options)
    assert sum(done) == len(X)
    assert len(done) > 10
    np.testing.assert_array_equal(whole.prediction, parts.prediction)
    np.testing.assert_array_equal(whole.stable, parts.stable)
    np.testing.assert_array_equal(whole.witness, parts.witness)
    if whole.radius is not None:
        np.testing.assert_array_equal(whole.radius, parts.radius)


def test_the_predictions_are_the_ensembles_own(forest_and_rows):
    ensemble, X, y = forest_and_rows
    c = certify(ensemble, X, y, Attacker("linf", 0.01))
    np.testing.assert_array_equal(c.prediction, ensemble.predict(X))


def test_summary_figures_count_rows():
    c = certify(STUMP, [[0.2], [0.45], [0.9], [0.55]], [0, 0, 0, 0], Attacker("linf", 0.1))
    assert [v.name for v in c.verdict] == ["ROBUST", "FRAGILE", "VULNERABLE", "BROKEN"]
    assert c.counts == {
        Verdict.ROBUST: 1, Verdict.FRAGILE: 1, Verdict.VULNERABLE: 1, Verdict.BROKEN: 1, Verdict.UNKNOWN: 0
    }  # fmt: skip
    assert (c.accuracy, c.robust_accuracy, c.robust_accuracy_bounds) == (0.5, 0.25, (0.25, 0.25))
    assert len(c) == 4


def test_unknown_rows_leave_an_interval(forest_and_rows, monkeypatch):
    monkeypatch.setattr("certiforest.proof.search.MOST_SWEEPS", 0)
    ensemble, X, y = forest_and_rows
    attacker = Attacker("l2", 0.02)
    assert not has_large_spread(ensemble, attacker)
    open_ended = certify(ensemble, X, y, attacker, time_limit=0)
    n_unknown = open_ended.counts[Verdict.UNKNOWN]
    assert n_unknown > 5
    low, high = open_ended.robust_accuracy_bounds
    assert round((high - low) * len(X)) == (open_ended.correct & (open_ended.stable == -1)).sum() > 0
    solved = certify(ensemble, X, y, attacker, time_limit=60, witness=True)
    assert solved.counts[Verdict.UNKNOWN] == 0
    assert low <= solved.robust_accuracy <= high
    assert set(solved.method[open_ended.stable == -1]) <= {"proved", "solved"}
    known = open_ended.stable >= 0
    np.testing.assert_array_equal(open_ended.stable[known], solved.stable[known])
    unstable = solved.stable == 0
    assert (ensemble.predict(solved.witness[unstable]) != solved.prediction[unstable]).all()
    assert (np.linalg.norm(solved.witness[unstable] - X[unstable], axis=1) <= 0.02 * (1 + 1e-12)).all()


@pytest.mark.parametrize("limit", [-1, math.nan, "1", None, True])
def test_bad_time_limits(limit):
    with pytest.raises(ValueError, match=f"Expected a time limit in seconds >= 0, got {limit!r}"):
        certify(STUMP, [[0.1]], [0], Attacker("linf", 0.1), time_limit=limit)


def test_labels_may_be_text_and_are_optional():
    model = stumps((0, 0.5), classes=["ham", "spam"])
    c = certify(model, [[0.2]], ["ham"], Attacker("linf", 0.1))
    assert c.verdict[0] is Verdict.ROBUST
    c = certify(model, [[0.2]], attacker=Attacker("linf", 0.1))
    assert c.prediction.tolist() == ["ham"]
    assert c.stable.tolist() == [1]
    with pytest.raises(ValueError, match="pass y to certify"):
        _ = c.verdict


def test_no_rows_at_all():
    c = certify(STUMP, np.empty((0, 1)), [], Attacker("linf", 0.1), radius=True, witness=True)
    assert len(c) == 0
    assert c.witness.shape == (0, 1)


def test_require_exact_names_the_spread_and_the_largest_eps():
    ensemble = stumps((0, 0.25), (0, 0.5))
    largest = math.nextafter(0.125, 0)
    certify(ensemble, [[0.3]], [0], Attacker("linf", largest), require_exact=True)
    with pytest.raises(SpreadError, match=rf"spread 0\.25\. It can be certified for eps up to {largest!r}"):
        certify(ensemble, [[0.3]], [0], Attacker("linf", 0.125), require_exact=True)


@pytest.mark.parametrize(
    ("X", "y", "attacker", "message"),
    [
        ([[math.nan]], [0], Attacker("linf", 0.1), "Expected finite numbers, got nan in row 0, feature 0"),
        ([[0.1], [math.inf]], [0, 0], Attacker("linf", 0.1), "got inf in row 1, feature 0"),
        ([[0.1, 0.2]], [0], Attacker("linf", 0.1), "Expected 1 features per row, got 2"),
        ([0.1], [0], Attacker("linf", 0.1), "Expected rows as a table"),
        ([["a"]], [0], Attacker("linf", 0.1), "Expected numbers"),
        ([[0.1]], [2], Attacker("linf", 0.1), "Expected labels among 0, 1, got 2"),
        ([[0.1]], [0, 1], Attacker("linf", 0.1), "Expected one label per row"),
        ([[0.1]], [0], Attacker("linf", 0.1, domain=(0.2, 1)), "Expected rows inside the attacker's domain, got 0.1"),
        ([[0.1]], [0], Attacker("linf", 0.1, scale=[1, 2]), "Expected scale for 1 features, got 2 values"),
        ([[0.1]], [0], Attacker("linf", 0.1, frozen=[1]), "Expected frozen features between 0 and 0, got 1"),
    ],
)
def test_bad_rows_are_named(X, y, attacker, message):
    with pytest.raises(ValueError, match=message) as caught:
        certify(STUMP, X, y, attacker)
    assert isinstance(caught.value, RowError) == ("frozen" not in message and "scale" not in message)


def test_an_attacker_is_needed():
    with pytest.raises(TypeError, match="Expected an Attacker"):
        certify(STUMP, [[0.1]], [0])
    with pytest.raises(TypeError, match="name it, attacker="):
        certify(STUMP, [[0.2]], Attacker("linf", 0.1))


@pytest.mark.parametrize("n_jobs", [0, True, "2"])
def test_bad_n_jobs(n_jobs):
    with pytest.raises(ValueError, match="Expected n_jobs"):
        certify(STUMP, [[0.1]], [0], Attacker("linf", 0.1), n_jobs=n_jobs)


def test_eps_zero_and_tiny_budgets_change_nothing():
    for norm in (0, 1, 2, 3, math.inf):
        c = certify(STUMP, [[0.5], [math.nextafter(0.5, 1)]], [0, 1], Attacker(norm, 0), radius=True)
        assert c.stable.tolist() == [1, 1]
        assert (c.radius > 0).all()
    # one float to the left: the smallest step there is
    step = math.nextafter(0.5, 1) - 0.5
    for norm in (1, 2, 3, math.inf):
        c = certify(STUMP, [[math.nextafter(0.5, 1)]], [1], Attacker(norm, step), radius=True, witness=True)
        assert c.stable.tolist() == [0]
        assert c.radius.tolist() == [step]
        assert c.witness.tolist() == [[0.5]]
        assert certify(STUMP, [[math.nextafter(0.5, 1)]], [1], Attacker(norm, math.nextafter(step, 0))).stable == [1]


def test_values_at_the_ends_of_the_float_range():
    big = 1.7e308
    model = TreeEnsemble(
        [0, -1, -1, 1, -1, -1, 2, -1, -1], [big, 0, 0, -big, 0, 0, 5e-324, 0, 0], [-1, 0, 1] * 3,
        n_features=3, classes=[0, 1],
    )  # fmt: skip
    for norm in (0, 1, 2, math.inf):
        c = certify(model, [[-big, big, 0.0]], [0], Attacker(norm, 1.0), radius=True, witness=True)
        assert c.prediction.tolist() == [0]
        assert c.stable.tolist() == [0]  # 5e-324 -> 1e-323 is within any budget, and makes two of three

"""What regressors, and probabilities of classifiers, can become in reach of rows, against enumeration."""

import itertools
import math
import pickle
import random
from fractions import Fraction

import numpy as np
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

import oracle
from cases import attacker_of, ensemble_of, random_case, real_case, rule_case
from certiforest import Attacker, Certifier, ModelError, Verdict, as_ensemble, certify
from certiforest.ensemble.rows import RowError
from certiforest.problem.verifier import Verifier
from certiforest.proof.clock import Clock
from certiforest.rows.ranges import as_sides, find_range
from small_models import catboost, lgb, xgb


def sums_in_reach(case):
    """Return the least and the largest sum, or number of votes, of all rows in reach, exactly."""
    sums, z, most = [], list(case.x), oracle.budget(case, case.eps)
    for choice in itertools.product(*oracle.choices(case)):
        if choice and oracle.total(case, [price for _, price in choice]) > most:
            continue
        for values, _ in choice:
            for f, value in values.items():
                z[f] = value
        leaves = [oracle.leaf_of(tree, z) for tree in case.trees]
        sums.append(Fraction(sum(leaves)) if case.base is None else oracle.exact_sums(case.base, leaves)[0])
    return min(sums), max(sums)


@pytest.mark.parametrize("draw", [random_case, real_case, rule_case])
@pytest.mark.parametrize("combine", ["vote", "sum"])
def test_ranges_agree_with_the_oracle(draw, combine):
    rng, n_done = random.Random(f"{draw.__name__} {combine}"), 0
    while n_done < 150:
        case = draw(rng, combine=combine)
        if case.n_classes != 2 or (case.base is not None and len(case.base) != 1):
            continue
        n_done += 1
        ensemble = ensemble_of(case)
        attacker = attacker_of(case).resolve(ensemble.n_features, ensemble.feature_names)
        found = find_range(Verifier(as_sides(ensemble), attacker), np.array(case.x), Clock(60).start(), keep_proof=True)
        low, high = sums_in_reach(case)
        assert found.above[:2] == (high, high), case
        assert found.below[:2] == (-low, -low), case
        assert [part["rival"] for part in found.proof["rivals"]] == [1, 2]
        for end in (found.above, found.below):
            cost = oracle.price_of_row(case, end.row.tolist())
            assert cost is not None
            assert cost <= oracle.budget(case, case.eps)


LIBRARIES = {
    "tree": lambda: DecisionTreeRegressor(max_depth=4, random_state=0),
    "forest": lambda: RandomForestRegressor(5, max_depth=4, random_state=0),
    "histogram boosting": lambda: HistGradientBoostingRegressor(max_iter=6, max_depth=3, min_samples_leaf=5),
    "xgboost": lambda: xgb("Regressor"),
    "lightgbm": lambda: lgb("Regressor", min_child_samples=5),
    "catboost": lambda: catboost("Regressor"),
    "histogram boosting, gamma": lambda: HistGradientBoostingRegressor(loss="gamma", max_iter=6, min_samples_leaf=9),
    "xgboost, poisson": lambda: xgb("Regressor", objective="count:poisson"),
    "xgboost, gamma": lambda: xgb("Regressor", objective="reg:gamma", base_score=30.0),
    "xgboost, quantile": lambda: xgb("Regressor", objective="reg:quantileerror", quantile_alpha=0.8),
    "lightgbm, tweedie": lambda: lgb("Regressor", objective="tweedie", min_child_samples=5),
    "lightgbm, poisson forest": lambda: lgb(
        "Regressor", objective="poisson", boosting_type="rf", bagging_freq=1, bagging_fraction=0.5, min_child_samples=5
    ),
    "catboost, poisson": lambda: catboost("Regressor", loss_function="Poisson"),
    "catboost, quantile": lambda: catboost("Regressor", loss_function="Quantile:alpha=0.3"),
}


def table(seed=0, n=120):
    rng = np.random.default_rng(seed)
    X = np.round(rng.normal(size=(n, 3)), 1)
    return X, 3 * X[:, 0] * X[:, 1] + np.sin(3 * X[:, 2]) + 5


def values_near(ensemble, x, f, eps):
    """Return what matters of the values from ``x - eps`` to ``x + eps``, exactly: one in each cell."""
    cuts = ensemble.threshold[ensemble.feature == f]
    found = {x, *cuts.tolist(), *np.nextafter(cuts, np.inf).tolist()}
    return [z for z in found if abs(Fraction(z) - Fraction(x)) <= Fraction(eps)]


def rows_near(ensemble, x, eps):
    return np.array(list(itertools.product(*(values_near(ensemble, v, f, eps) for f, v in enumerate(x.tolist())))))


@pytest.mark.parametrize("kind", LIBRARIES)
def test_regressors_agree_with_enumeration_by_their_own_libraries(kind):
    """Rows and ends of what is in reach lie on thresholds, one float beside, and elsewhere."""
    X, y = table()
    model = LIBRARIES[kind]().fit(X, np.abs(y) + 0.1)
    ensemble, rng = as_ensemble(model, threshold=5.0), np.random.default_rng(1)
    rows, eps = X[:24].copy(), 0.25
    cuts = [ensemble.threshold[ensemble.feature == f] for f in range(3)]
    for x, way in zip(rows, itertools.cycle([0, np.inf, -np.inf])):
        f = rng.integers(3)
        cut = rng.choice(cuts[f]) + rng.choice([0.0, eps, -eps])
        x[f] = np.nextafter(cut, way) if way else cut
    reach = [np.ravel(model.predict(rows_near(ensemble, x, eps))).astype(float) for x in rows]
    moves = np.unique([np.abs(says - said).max() for says, said in zip(reach, model.predict(rows), strict=True)])
    tolerance = moves[len(moves) // 2 - 1 :][:2].mean()
    c = certify(model, rows, model.predict(rows), Attacker("linf", eps), tolerance=tolerance, witness=True)
    assert c.range_is_exact.all()
    assert (c.prediction == model.predict(rows)).all()
    for i, (x, says) in enumerate(zip(rows, reach, strict=True)):
        assert c.low[i] <= says.min() <= c.low_reached[i] <= says.min() + 1e-5
        assert c.high[i] >= says.max() >= c.high_reached[i] >= says.max() - 1e-5
        assert c.high[i] - c.low[i] <= np.ptp(says) + 1e-4
        assert c.stable[i] == (np.abs(says - c.prediction[i]).max() <= tolerance)
        ends = np.stack([c.low_witness[i], c.high_witness[i]])
        assert (np.ravel(model.predict(ends)) == [c.low_reached[i], c.high_reached[i]]).all()
        assert (np.abs(ends - x) <= eps + 1e-12).all()
        assert np.isnan(c.witness[i]).all() == (c.stable[i] == 1)
    if kind == "tree":  # nothing is rounded
        assert (c.low == c.low_reached).all()
        assert (c.high == c.high_reached).all()
    assert {*c.stable.tolist()} == {0, 1}
    assert {*c.verdict} == {Verdict.ROBUST, Verdict.FRAGILE}


@pytest.mark.parametrize("kind", ["tree", "xgboost", "lightgbm", "catboost, poisson"])
def test_the_radius_is_the_least_eps_that_leaves_the_tolerance(kind):
    X, y = table(2)
    model = LIBRARIES[kind]().fit(X, np.abs(y))
    ensemble = as_ensemble(model, threshold=5.0)
    c = certify(model, X[:20], None, Attacker("linf", 0.2), tolerance=1.0, radius=True)
    assert c.radius_is_exact.all()
    for i, x in enumerate(X[:20]):
        rows = rows_near(ensemble, x, 1e9)
        beyond = np.abs(np.ravel(model.predict(rows)) - c.prediction[i]) > 1.0
        least = np.abs(rows[beyond] - x).max(axis=1).min() if beyond.any() else math.inf
        assert c.radius[i] == pytest.approx(least, rel=1e-12)
        assert c.stable[i] == (c.radius[i] > 0.2)


@pytest.mark.parametrize(
    "model",
    [
        GradientBoostingClassifier(n_estimators=5, random_state=0),
        CalibratedClassifierCV(GradientBoostingClassifier(n_estimators=4, random_state=0), ensemble=False, cv=2),
        xgb(n_estimators=5),
        lgb(n_estimators=5),
        catboost(iterations=5),
    ],
    ids=lambda model: type(model).__name__,
)
def test_ranges_of_probabilities(model):
    X, y = table(3)
    model, attacker = model.fit(X, (y > 5).astype(int)), Attacker("linf", 0.2)
    ensemble = as_ensemble(model)
    c = certify(model, X[:12], (y > 5).astype(int)[:12], attacker, outputs=True)
    plain = certify(model, X[:12], (y > 5).astype(int)[:12], attacker)
    assert (c.stable == plain.stable).all()
    assert (c.verdict == plain.verdict).all()
    for i, x in enumerate(X[:12]):
        says = model.predict_proba(rows_near(ensemble, x, 0.2))[:, 1].astype(float)
        assert c.low[i] <= says.min()
        assert c.high[i] >= says.max()
        assert c.low_reached[i] == pytest.approx(says.min(), abs=1e-6)
        assert c.high_reached[i] == pytest.approx(says.max(), abs=1e-6)
        assert c.high[i] - c.low[i] <= np.ptp(says) + 1e-5


def test_without_time_there_are_bounds():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 8))
    model = xgb("Regressor", n_estimators=60, max_depth=5).fit(X, np.sin(5 * X).sum(axis=1))
    asked = {"attacker": Attacker("l2", 0.8), "tolerance": 0.5, "witness": True}
    hasty, patient = (certify(model, X[:4], time_limit=seconds, **asked) for seconds in (0, 60))
    assert not hasty.range_is_exact.any()
    assert patient.range_is_exact.all()
    assert ((hasty.low <= patient.low) & (patient.high <= hasty.high)).all()
    assert ((hasty.low_reached >= patient.low_reached) & (patient.high_reached >= hasty.high_reached)).all()
    assert (hasty.low_reached == model.predict(hasty.low_witness)).all()
    assert ((hasty.high > hasty.high_reached) & (hasty.low < hasty.low_reached)).any()


def test_certifiers_of_regressors_travel(tmp_path):
    X, y = table()
    model = lgb("Regressor").fit(X, y)
    model.booster_.save_model(tmp_path / "model.txt")
    whole = certify(model, X, y, Attacker("linf", 0.1), tolerance=0.5, radius=True)
    assert [*whole.to_frame()][-5:] == ["low", "high", "low_reached", "high_reached", "range_is_exact"]
    assert whole.robust_accuracy == (whole.verdict == Verdict.ROBUST).mean()
    certifiers = [
        Certifier(given, Attacker("linf", 0.1), tolerance=0.5, radius=True) for given in (model, tmp_path / "model.txt")
    ]
    (tmp_path / "model.txt").unlink()
    for certifier in certifiers:
        arrived = pickle.loads(pickle.dumps(certifier))  # noqa: S301
        parts = [slice(0, 50), slice(50, 120)]
        for part, found in zip(parts, arrived.stream((X[part], y[part]) for part in parts), strict=True):
            expected = whole[part].to_frame()
            same = ["stable", "verdict", "radius", "range_is_exact"]
            assert (found[same].to_numpy() == expected[same].to_numpy()).all()
            for name in ("prediction", "low", "high", "low_reached", "high_reached"):
                assert found[name].to_numpy() == pytest.approx(expected[name].to_numpy(), abs=1e-12)


def test_a_row_that_no_tree_can_turn_stays_as_it_is():
    X, y = table()
    model = xgb("Regressor").fit(X, y)
    c = certify(model, X[:9], None, Attacker("linf", 0.0), tolerance=0.0)
    assert (c.low == c.prediction).all()
    assert (c.high == c.prediction).all()
    assert (c.stable == 1).all()
    assert {*c.method.tolist()} == {"composed"}


def test_what_cannot_be_asked_is_refused():
    X, y = table()
    attacker, model = Attacker("linf", 0.1), DecisionTreeRegressor(max_depth=2).fit(X, y)
    classifier = DecisionTreeClassifier(max_depth=2).fit(X, y > 5)
    with pytest.raises(ModelError, match=r"tolerance=\.\.\."):
        certify(model, X, None, attacker)
    with pytest.raises(ModelError, match=r"tolerance=\.\.\., .* got none"):
        certify(model, X, None, attacker, outputs=True)
    with pytest.raises(ValueError, match="tolerance to be a number >= 0, got -1"):
        certify(model, X, None, attacker, tolerance=-1)
    with pytest.raises(ModelError, match="no tolerance for a classifier"):
        certify(classifier, X, None, attacker, tolerance=0.1)
    with pytest.raises(ModelError, match="two classes, got one of 3"):
        certify(DecisionTreeClassifier().fit(X, np.arange(len(X)) % 3), X, None, attacker, outputs=True)
    with pytest.raises(RowError, match="finite number for every row"):
        certify(model, X, [math.nan] * len(X), attacker, tolerance=1)
    with pytest.raises(ValueError, match="attacked to hold labels"):
        certify(model, X, y, attacker, tolerance=1, attacked=[1])

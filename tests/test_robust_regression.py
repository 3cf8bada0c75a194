"""Trainers of regressors: the worst case they were trained for, exact ranges, weights, missing values, ways out."""

import itertools
import json
import warnings
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from sklearn.datasets import load_diabetes
from sklearn.preprocessing import minmax_scale

from certiforest import (
    Attacker,
    LargeSpreadAdditiveRegressor,
    ModelError,
    RobustBoostingRegressor,
    TreeEnsemble,
    as_ensemble,
    audit,
    certify,
    has_large_spread,
    save_onnx,
)
from certiforest.training.boosted_trees import boost_trees
from certiforest.training.descent import fit_additive
from certiforest.training.estimator import ConstantWarning
from test_trainers import rows_in_reach, some_rows

small = partial(RobustBoostingRegressor, 8, learning_rate=0.3, min_samples_leaf=3)
additive = partial(LargeSpreadAdditiveRegressor, 6, learning_rate=0.02)


@pytest.fixture(scope="module")
def diabetes():
    X, y = load_diabetes(return_X_y=True)
    return minmax_scale(X), y


def exact_sums(ensemble, rows):
    """Return the sums of rows as fractions."""
    scores, base = ensemble.summands()
    sums = []
    for x in rows:
        total = Fraction(base[0])
        for node in ensemble.tree_start[:-1]:
            while ensemble.feature[node] >= 0:
                value = x[ensemble.feature[node]]
                goes_left = value <= ensemble.threshold[node]
                if np.isnan(value):
                    goes_left = ensemble.missing_left[node]
                node = node + 1 if goes_left else ensemble.right[node]
            total += Fraction(scores[ensemble.leaf[node], 0])
        sums.append(total)
    return sums


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("loss", ["squared_error", "absolute_error"])
def test_no_row_in_reach_is_worse_than_training_said_and_ranges_are_exact(seed, loss):
    rng = np.random.default_rng(seed)
    X, _ = some_rows(rng)  # constant columns, and missing values now and then
    y = 1e3 ** rng.integers(-1, 3) * (np.nan_to_num(X) @ rng.normal(size=6) + 0.1 * rng.standard_cauchy(len(X)) + 7)
    weight = rng.integers(0, 3, len(X)).astype(float) if seed % 2 else np.ones(len(X))
    options = {"scale": (rng.choice([0.5, 1.0], 6), rng.choice([0.3, 1.0], 6))} if seed % 3 else {"direction": "up"}
    options["n_bags"] = int(rng.integers(1, 3))
    model = small(max_depth=3, loss=loss, eps=0.06, random_state=seed, **options).fit(X, y, weight)
    assert model.train_loss_[-1] < model.train_loss_[0]
    worst, exponent = worst_errors(model, X, y), 2 if loss == "squared_error" else 1
    if model.n_bags == 1:
        assert np.average(worst**exponent, weights=weight) <= model.train_loss_[-1] * (1 + 1e-9)
    start = np.average(np.abs(y - model.ensemble_.summands()[1][0]) ** exponent, weights=weight)
    assert model.train_loss_[0] == pytest.approx(start)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("loss", ["squared_error", "absolute_error"])
@pytest.mark.parametrize(("norm", "eps"), [(np.inf, 0.06), (0, 1), (1, 0.1), (2, 0.1)])
def test_an_additive_regressor_is_no_worse_than_training_said_in_any_norm(seed, loss, norm, eps):
    rng = np.random.default_rng(seed)
    X, _ = some_rows(rng)
    y = 1e3 ** rng.integers(-1, 3) * (np.nan_to_num(X) @ rng.normal(size=6) + 0.1 * rng.standard_cauchy(len(X)) + 7)
    weight = rng.integers(0, 3, len(X)).astype(float) if seed % 2 else np.ones(len(X))
    model = additive(max_columns=2 - seed % 2, loss=loss, norm=norm, eps=eps, random_state=seed).fit(X, y, weight)
    assert has_large_spread(model.ensemble_, model.attacker_)
    some = np.arange(0, len(X), 1 if norm == np.inf else 6)
    worst, exponent = worst_errors(model, X[some], y[some]), 2 if loss == "squared_error" else 1
    if norm == np.inf:
        certified = np.average(worst**exponent, weights=weight)
        assert certified == pytest.approx(model.train_loss_[-1], rel=1e-9)
    found = certify(model, X, y, model.attacker_, tolerance=0.0)
    errors = np.maximum(found.high - y, y - found.low)
    assert np.average(errors**exponent, weights=weight) <= model.train_loss_[-1] * (1 + 1e-9)


def worst_errors(model, X, y):
    """Return the largest error in reach of each row, by trying all, after `certify` has named the same ends."""
    worst = []
    for x, said in zip(X, y, strict=True):
        reached = exact_sums(model.ensemble_, rows_in_reach(model, x))
        worst.append(float(max(abs(total - Fraction(said)) for total in reached)))
        found = certify(model, x[None], said[None], model.attacker_, tolerance=0.0)
        slack = 1e-12 * np.abs(y).max()
        assert float(max(reached)) <= found.high[0] <= float(max(reached)) + slack
        assert float(min(reached)) >= found.low[0] >= float(min(reached)) - slack
    return np.array(worst)


@pytest.mark.parametrize("loss", ["squared_error", "absolute_error"])
def test_what_is_handed_over_has_the_sums_that_training_ended_with(diabetes, loss, monkeypatch):
    ends = []

    def remember(rows, *args, **options):
        ends.append((rows, boost_trees(rows, *args, **options)))
        return ends[-1][1]

    monkeypatch.setattr("certiforest.training.boosting.boost_trees", remember)
    model = small(eps=0.02, loss=loss, n_iter_no_change=3, random_state=0).fit(*diabetes)
    (rows, boosted), unit = ends[0], ends[0][0].unit
    assert 0.5 < np.abs(rows.target).mean() < 2
    totals = [Fraction(rows.start)] * len(rows.X)
    for tree, value in zip(boosted.trees, boosted.values, strict=True):
        assert (value[:, 1] == -value[:, 2]).all()
        assert not value[:, 0].any()
        for i, x in enumerate(rows.X):
            node = 0
            while tree.nodes.left[node] >= 0:
                goes_left = x[tree.nodes.feature[node]] <= tree.nodes.threshold[node]
                node = tree.nodes.left[node] if goes_left else tree.nodes.right[node]
            totals[i] += Fraction(value[node, 1]) * Fraction(unit)
    assert exact_sums(model.ensemble_, rows.X) == totals
    assert [float(total) for total in totals] == model.predict(rows.X).tolist()
    assert model.n_estimators_ == max(1, np.argmin(model.validation_loss_))


@pytest.mark.parametrize("loss", ["squared_error", "absolute_error"])
def test_what_an_additive_regressor_hands_over_has_the_sums_of_training(diabetes, loss, monkeypatch):
    ends = []

    def remember(rows, **options):
        ends.append((rows, fit_additive(rows, **options)))
        return ends[-1][1]

    monkeypatch.setattr("certiforest.training.additive.fit_additive", remember)
    model = additive(eps=0.1, loss=loss, random_state=0).fit(*diabetes)
    (rows, end), grids = ends[0], ends[0][1].grids
    np.testing.assert_array_equal(end.value @ np.diag([0.0, 1.0, 1.0]), end.value[:, 1:2] * [0.0, 1.0, -1.0])
    totals = [Fraction(rows.start) + Fraction(end.base[1]) * Fraction(rows.unit)] * len(rows.X)
    for first, columns in zip(grids.first_cell, itertools.pairwise(grids.first_column), strict=False):
        cell = np.full(len(rows.X), first)
        for j in range(*columns):
            cell += grids.stride[j] * np.searchsorted(grids.threshold[j], rows.X[:, grids.feature[j]])
        totals = [a + Fraction(v) * Fraction(rows.unit) for a, v in zip(totals, end.value[cell, 1], strict=True)]
    assert exact_sums(model.ensemble_, rows.X) == totals


def test_errors_in_reach_are_smaller_than_those_of_a_model_that_knew_of_nobody(diabetes):
    X, y = diabetes
    attacker, worst = Attacker(eps=0.05), {}
    for eps in (1e-9, 0.05):
        model = RobustBoostingRegressor(60, 3, eps=eps, random_state=0).fit(X[::2], y[::2])
        found = certify(model, X[1::2], y[1::2], attacker, tolerance=40)
        assert found.range_is_exact.all()
        worst[eps] = np.mean(np.maximum(found.high - y[1::2], y[1::2] - found.low) ** 2)
    constant = np.mean((y[1::2] - y[::2].mean()) ** 2)
    assert worst[0.05] < 0.9 * min(constant, worst[1e-9])


def test_the_absolute_error_takes_no_notice_of_how_far_off_an_outlier_is(diabetes):
    X, y = diabetes
    wild = np.where(np.arange(len(y)) % 40 == 0, 1e5, y)
    absolute, squared = (
        np.abs(small(eps=0.01, loss=loss, random_state=0).fit(X, wild).predict(X) - y).mean()
        for loss in ("absolute_error", "squared_error")
    )
    assert absolute < 60 < squared


def test_a_regressor_is_no_classifier(diabetes, tmp_path):
    X, y = diabetes
    model = small(eps=0.02, random_state=0).fit(X, y)
    with pytest.raises(ModelError, match=r"or a threshold .* got RobustBoostingRegressor and no threshold"):
        as_ensemble(model)
    ensemble = as_ensemble(model, threshold=150)
    np.testing.assert_array_equal(ensemble.predict(X), model.predict(X) >= 150)
    with pytest.raises(ModelError, match=r"tolerance=\.\.\.\) for what it says itself"):
        certify(model, X, y, Attacker(eps=0.02))
    own = certify(model, X[:20], y[:20], Attacker(eps=0.02), tolerance=40)
    save_onnx(model, tmp_path / "model.onnx")
    model.ensemble_.save(tmp_path / "model.json")
    for path in (tmp_path / "model.onnx", tmp_path / "model.json"):
        same = certify(path, X[:20], y[:20], Attacker(eps=0.02), tolerance=40)
        np.testing.assert_allclose(same.high, own.high, rtol=1e-5)
        np.testing.assert_array_equal(same.stable, own.stable)
        with pytest.raises(ModelError, match="or a threshold"):
            as_ensemble(path)


def test_a_file_says_that_its_sum_is_a_number(diabetes, tmp_path):
    X, y = diabetes
    model = LargeSpreadAdditiveRegressor(eps=0.1, random_state=0).fit(X, y)
    assert (model.attacker_.norm, model.loss) == (2, "squared_error")
    model.ensemble_.save(tmp_path / "model.json")
    ensemble = TreeEnsemble.load(tmp_path / "model.json")
    assert ensemble == model.ensemble_
    assert ensemble != ensemble.replace(classes=[0, 1])
    assert ensemble.is_regressor
    assert ensemble.replace(feature_names=None).is_regressor
    np.testing.assert_array_equal(ensemble.predict(X), model.predict(X))
    with pytest.raises(ModelError, match="or a threshold"):
        certify(ensemble, X, None, model.attacker_)
    assert certify(ensemble, X[:3], None, model.attacker_, tolerance=1.0).range_is_exact.all()
    np.testing.assert_array_equal(as_ensemble(ensemble, threshold=150.0).predict(X), model.predict(X) >= 150)
    document = json.loads((tmp_path / "model.json").read_text())
    assert document["classes"] is None
    for broken in (document | {"combine": "vote"}, {k: v for k, v in document.items() if k != "classes"}):
        (tmp_path / "broken.json").write_text(json.dumps(broken))
        with pytest.raises(ModelError):
            TreeEnsemble.load(tmp_path / "broken.json")
        with pytest.raises(audit.Refusal):
            audit.Model(broken)
    judged = audit.Model(document)
    assert (judged.is_regressor, judged.sha256) == (True, ensemble.sha256)
    proved = certify(ensemble.replace(classes=[0, 1]), X[:2], None, model.attacker_, proof=True)
    proved.save(tmp_path / "rows.jsonl")
    header = json.loads((tmp_path / "rows.jsonl").read_text().splitlines()[0])
    with pytest.raises(audit.Refusal, match="a model with classes"):
        audit.Audit(header | {"model_sha256": ensemble.sha256}, judged)


def test_nothing_to_tell_rows_apart_by_is_said(diabetes):
    X, y = diabetes
    for values, eps in ((np.full(len(y), 3.5), 0.01), (y, 2.0)):
        with pytest.warns(ConstantWarning, match="Nothing but the number"):
            model = small(eps=eps, random_state=0).fit(X, values)
        assert np.ptp(model.predict(X)) == 0
        assert model.predict(X[:1])[0] == pytest.approx(values.mean())
    with pytest.raises(ValueError, match=r"up to 1e\+100, got 3.5e\+200; rescale"):
        small(eps=0.01).fit(X, y * 1e200 / y.max() * 3.5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        small(eps=0.01, random_state=0).fit(X, y.astype(int).astype(object))

"""Bands of scores along a column against enumeration, their pictures, and reports on statements."""

import itertools
import math

import numpy as np
import pandas as pd
import pytest
from sklearn.tree import DecisionTreeRegressor

from certiforest import Domain, DomainError, Monotone, Range, as_ensemble, check
from certiforest.report.html import as_svg
from certiforest.report.plots import draw
from certiforest.statements.bands import band_along, bands_of
from small_models import lgb, xgb


def table(n=200):
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.normal(size=n).round(2), "n": rng.integers(0, 9, n), "w": rng.choice(["u", "v"], n)})
    return X.astype({"w": "category"}), X["a"] * X["n"] + 5.0 * (X["w"] == "u")


def grid(X, ensemble, f):
    """Return what matters of all inputs of the box: of each column, one value in each cell."""
    cells = []
    for g, column in enumerate(X):
        if X[column].dtype == "category":
            cells.append([0.0, 1.0])
            continue
        low, high = X[column].min(), X[column].max()
        cuts = ensemble.threshold[ensemble.feature == g]
        cuts = np.concatenate([cuts, np.nextafter(cuts, np.inf), [low, high]])
        cells.append(np.unique(cuts[(low <= cuts) & (cuts <= high)]).tolist())
    cells[1] = list(range(9))
    return np.array(list(itertools.product(*cells)), float)


@pytest.mark.parametrize("column", ["a", "n"])
def test_a_band_holds_all_scores_and_no_more(column):
    X, y = table()
    model = xgb("Regressor", enable_categorical=True).fit(X, y)
    ensemble, f = as_ensemble(model, threshold=0.0), [*X].index(column)
    inputs = grid(X, ensemble, f)
    frame = pd.DataFrame(inputs, columns=[*X]).astype({"n": int})
    frame["w"] = pd.Categorical.from_codes(inputs[:, 2].astype(int), X["w"].cat.categories)
    says = model.predict(frame).astype(float)
    band = band_along(model, column, Domain.from_data(X))
    ((edges, lows, highs, *_),) = band.columns
    assert 3 < len(lows) <= 20
    assert (edges[0], edges[-1]) == (X[column].min(), X[column].max())
    n_filled = 0
    for k, (low, high) in enumerate(zip(lows, highs, strict=True)):
        first = inputs[:, f] > edges[k] if k else np.ones(len(inputs), bool)
        here = says[first & (inputs[:, f] <= edges[k + 1])]
        n_filled += len(here)
        assert low <= here.min() <= low + 1e-4
        assert high >= here.max() >= high - 1e-4
    assert n_filled == len(inputs)


def test_pictures_mark_what_refutes_a_statement():
    pytest.importorskip("matplotlib").use("Agg")
    X, y = table()
    model, domain = lgb("Regressor", n_estimators=5).fit(X, y), Domain.from_data(X)
    results = check(model, [Monotone("a", "up"), Range(-5.0, 3.0), Monotone("n", "down", tolerance=1e9)], domain)
    fall, limits, held = bands_of(results, model, domain)
    assert [result.holds for result in results] == [False, False, True]
    assert [point[0] for point in fall.points] == results[0].pair["a"].tolist()
    assert [point[1] for point in fall.points] == pytest.approx(model.predict(results[0].pair).tolist())
    assert (limits.limits, len(limits.points), held.points) == ([-5.0, 3.0], 1, [])
    edges = fall.columns[0].edges
    assert as_svg(fall).count("<circle") == 2
    assert as_svg(fall).count("<rect") == len(edges) - 1
    axes = draw(fall)
    assert axes.get_xlim() == (edges[0], edges[-1])
    assert len(axes.patches) == len(edges) - 1


def test_what_has_no_band_is_refused():
    X, y = table()
    model = lgb("Regressor", n_estimators=2).fit(X, y)
    with pytest.raises(DomainError, match="a column of numbers between two ends, got w"):
        band_along(model, "w", Domain.from_data(X))
    tree = DecisionTreeRegressor(max_depth=2).fit([[0], [1], [2]], [0, 1, 2])
    with pytest.raises(DomainError, match="between two ends"):
        band_along(tree, 0, Domain([0], [math.inf]))
    assert band_along(tree, 0, Domain([0], [2])).columns[0].low == pytest.approx([0, 1, 2], abs=1e-6)

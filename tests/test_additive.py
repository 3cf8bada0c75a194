"""LargeSpreadAdditiveClassifier: conventions, exact worst cases, and attackers with one budget for all features."""

import itertools
import warnings
from functools import partial

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.preprocessing import minmax_scale

from certiforest import Attacker, LargeSpreadAdditiveClassifier, Verdict, certify, has_large_spread
from certiforest.training.additive_kernels import move_row, new_choices, sum_slopes, write_leads
from certiforest.training.descent import fit_additive
from certiforest.training.estimator import ConstantWarning
from certiforest.training.grids import grow, lay_grids, place_rows
from certiforest.training.worst_case_kernels import LOG_LOSS
from trainers import training_set

small = partial(LargeSpreadAdditiveClassifier, max_cells=8, random_state=0)


@pytest.mark.parametrize(("norm", "eps"), [(0, 2), (1, 0.2), (2, 0.1), (3, 0.1), (np.inf, 0.05)])
def test_it_withstands_the_attacker_it_was_trained_for(cancer, norm, eps):
    X, y = cancer
    clf = small(norm=norm, eps=eps).fit(X[::2], y[::2])
    assert has_large_spread(clf.ensemble_, clf.attacker_)
    found = certify(clf, X[1::2], y[1::2], clf.attacker_, require_exact=True)
    assert found.robust_accuracy > 0.7  # the larger class has 0.63
    assert clf.train_loss_[-1] < clf.train_loss_[0]


def fitted(rows, max_columns, n_epochs=5):
    return fit_additive(
        rows, kind=LOG_LOSS, max_cells=8, max_columns=max_columns, n_epochs=n_epochs, batch_size=100,
        learning_rate=0.01, l2=1e-4, attacked_share=1.0, n_frozen_trees=5, random_state=np.random.RandomState(0),
        progress=lambda *_: None,
    )  # fmt: skip


def worst_leads(model, rows, charge):
    """Return by how much each row leads at its worst, if the whole budget costs so much, by the kernel of training."""
    placed, _ = place_rows(rows, model.grids, LOG_LOSS)
    n_trees, room, found = len(model.grids.first_cell) - 1, new_choices(model.grids), []
    trees, least = np.arange(n_trees, dtype=np.int32), np.empty(n_trees)
    for x, step, own in zip(placed.X, placed.step, rows.y_index, strict=True):
        lead = np.empty(len(model.value))
        write_leads(model.grids, model.value, own, 1 - own, lead, least)
        out = np.empty(n_trees, np.int32), np.empty(n_trees), np.empty(n_trees)
        price = charge / (model.grids.budget or 1.0)
        move_row(model.grids, trees, x, step, lead, least, price, room, *out)
        found.append(model.base[own] - model.base[1 - own] + out[1].sum() - charge)
    return np.array(found)


@pytest.mark.parametrize("max_columns", [1, 2, 4])
@pytest.mark.parametrize(("norm", "eps"), [(0, 2), (1, 0.4), (2, 0.3), (np.inf, 0.1003)])
def test_a_positive_margin_is_a_proof(cancer, norm, eps, max_columns):
    X, y = cancer
    rows = training_set(X, y, Attacker(norm, eps))
    model = fitted(rows, max_columns)
    ensemble = model.ensemble(rows)
    robust = certify(ensemble, X, y, rows.attacker, require_exact=True).verdict == Verdict.ROBUST
    leads = [worst_leads(model, rows, charge) for charge in ([0.0] if norm == np.inf else [0.3, 1.0, 2.0, 4.0])]
    assert 0 < robust.mean() < 1
    assert robust[np.max(leads, axis=0) > 1e-9].all()
    if norm == np.inf:  # no budget to share: the bound is the verdict
        assert (robust == (leads[0] > -1e-9)).all()


@pytest.mark.parametrize(("norm", "n_columns"), [(0, 2), (1, 3), (2, 3), (np.inf, 3)])
def test_the_worst_cell_is_that_of_all_cells(norm, n_columns):
    rng = np.random.default_rng(5)
    X = rng.random((60, n_columns))
    X[rng.random(X.shape) < 0.1] = np.nan
    rows = training_set(
        X, np.arange(60) % 2, Attacker(norm, 0.3 if norm else 1, scale=([0.7] * n_columns, [1.2] * n_columns))
    )
    grids = lay_grids(rows, [list(range(n_columns))], 4)
    lead, price = rng.normal(size=grids.first_cell[-1]), 0.0 if norm == np.inf else 3.0
    placed, _ = place_rows(rows, grids, LOG_LOSS)
    for x, step in zip(placed.X, placed.step, strict=True):
        best = np.inf
        for steps in itertools.product(*[range(n + 1) for n in grids.n_steps]):
            costs = []
            for j, k in enumerate(steps):
                up = grids.threshold[j, k - 1] - x[j] if step[j] < k < grids.n_steps[j] else -1.0
                down = x[j] - grids.threshold[j, k] if k < step[j] < grids.n_steps[j] else -1.0
                distance = max(up / 1.2, down / 0.7)
                is_cut_off = k != step[j] and (np.isnan(x[j]) or k == grids.n_steps[j] or (norm and distance > 0.3))
                costs.append(np.inf if is_cut_off else float(k != step[j]) if norm == 0 else max(distance, 0.0) ** norm)
            cost = (0.0 if max(costs) < np.inf else np.inf) if norm == np.inf else sum(costs)
            if cost < np.inf:
                best = min(best, lead[(steps * grids.stride).sum()] + price * cost)
        out = np.empty(1, np.int32), np.empty(1), np.empty(1)
        move_row(grids, np.zeros(1, np.int32), x, step, lead, lead[[lead.argmin()]], price, new_choices(grids), *out)
        assert out[1][0] == pytest.approx(best, abs=1e-12)
        assert lead[out[0][0]] + price * out[2][0] == pytest.approx(best, abs=1e-12)


@pytest.mark.parametrize("max_columns", [1, 2])
def test_slopes_are_those_of_the_loss(cancer, max_columns):
    """Whether rows share common values, as these do that are rounded, or not."""
    X, y = np.round(cancer[0] * 3) / 3, cancer[1]
    rows = training_set(X, y, Attacker(2, 0.3))
    grids = lay_grids(rows, np.arange(30).reshape(-1, max_columns).tolist(), 4)
    placed, prices = place_rows(rows, grids, LOG_LOSS)
    assert 0 < len(placed.tree) < len(X) * 30 / max_columns
    rng = np.random.default_rng(0)
    value, base, order = rng.normal(0, 0.1, (grids.first_cell[-1], 2)), np.zeros(2), np.argsort(y, kind="stable")

    def loss(values):
        slopes = np.zeros_like(values), np.zeros(2)
        return sum_slopes(grids, placed, prices, order, np.ones(2), (values, base), 0, slopes), *slopes

    _, slope, base_slope = loss(value)
    assert slope.sum() == pytest.approx(0, abs=1e-9)
    for place in [(0, 0), (7, 1), (20, 0), tuple(np.unravel_index(np.abs(slope).argmax(), slope.shape))]:
        moved = [value.copy(), value.copy()]
        moved[0][place] += 1e-6
        moved[1][place] -= 1e-6
        assert slope[place] == pytest.approx((loss(moved[0])[0] - loss(moved[1])[0]) / 2e-6, abs=1e-3)
    assert base_slope == pytest.approx(placed.push.sum(axis=0))


@pytest.mark.parametrize("n_columns", [1, 2, 3])
@pytest.mark.parametrize("has_missing", [False, True])
def test_a_tree_tells_the_cell(n_columns, has_missing):
    rng = np.random.default_rng(1)
    X = np.round(rng.random((40, n_columns)) * 4)
    X[:, -1] = 1.0
    if has_missing:
        X[rng.random(X.shape) < 0.3] = np.nan
    grids = lay_grids(training_set(X, np.arange(40) % 2, Attacker(2, 0.3)), [list(range(n_columns))], 8)
    tree = grow(grids, 0, has_missing)
    for x in X:
        node = 0
        while tree.left[node] >= 0:
            value, threshold = x[tree.feature[node]], tree.threshold[node]
            is_left = value <= threshold or (np.isnan(value) and tree.missing_left[node])
            node = tree.left[node] if is_left else tree.right[node]
        steps = [
            n if np.isnan(value) else (cuts[: n - 1] < value).sum()
            for value, cuts, n in zip(x, grids.threshold, grids.n_steps, strict=True)
        ]
        assert tree.leaf[node] == (np.array(steps) * grids.stride).sum()


def test_columns_that_tell_only_together_share_a_tree():
    rng = np.random.default_rng(3)
    X = rng.random((2000, 6))
    y = ((X[:, 1] > 0.5) ^ (X[:, 4] > 0.5)).astype(np.int64)
    clf = LargeSpreadAdditiveClassifier(norm=2, eps=0.05, random_state=0).fit(X, y)
    ensemble = clf.ensemble_
    trees = [set(ensemble.feature[a:b]) - {-1} for a, b in itertools.pairwise(ensemble.tree_start)]
    assert {1, 4} in trees
    assert certify(clf, X, y, clf.attacker_, require_exact=True).robust_accuracy > 0.7
    alone = LargeSpreadAdditiveClassifier(max_columns=1, norm=2, eps=0.05, random_state=0).fit(X, y)
    assert alone.score(X, y) < 0.6


def test_columns_that_need_many_steps_stay_alone():
    X = np.random.default_rng(4).random((3000, 4))
    y = (np.floor(X[:, 0] * 30) % 2).astype(np.int64)
    clf = LargeSpreadAdditiveClassifier(norm=2, eps=0.001, random_state=0).fit(X, y)
    ensemble = clf.ensemble_
    assert all(len(set(ensemble.feature[a:b]) - {-1}) == 1 for a, b in itertools.pairwise(ensemble.tree_start))
    assert clf.score(X, y) > 0.8


def test_few_rows_are_enough():
    X, y = np.array([[0.0, 0.2], [0.1, 1.0], [1.0, 0.1], [0.9, 0.8]]), np.array([0, 0, 1, 1])
    for n_epochs in (1, 2, "auto"):
        clf = LargeSpreadAdditiveClassifier(norm=2, eps=0.1, n_epochs=n_epochs, random_state=0).fit(X, y)
        assert len(clf.train_loss_) == (601 if n_epochs == "auto" else n_epochs + 1)  # no row is put aside
    assert clf.score(X, y) == 1.0


def test_trees_share_columns_that_nobody_moves(cancer):
    X, y = cancer
    attacked = {"norm": 2, "eps": 0.3, "frozen": range(10), "max_columns": 1}
    for n_frozen_trees in (0, 3, 200):
        clf = small(**attacked, n_frozen_trees=n_frozen_trees).fit(X[::2], y[::2])
        ensemble = clf.ensemble_
        assert has_large_spread(ensemble, clf.attacker_)
        n_more = ensemble.n_trees - small(**attacked, n_frozen_trees=0).fit(X[::2], y[::2]).ensemble_.n_trees
        assert 0 <= n_more <= n_frozen_trees
        assert (n_more > 0) == (n_frozen_trees > 0)
        found = certify(clf, X[1::2], y[1::2], clf.attacker_, require_exact=True)
        assert found.robust_accuracy > 0.8  # the larger class has 0.63
    first = ensemble.feature[: ensemble.tree_start[n_more]]
    assert set(first.tolist()) <= {-1, *range(10)}


def test_frozen_features_and_scale_count(cancer):
    X, y = cancer
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConstantWarning)
        clf = small(norm=1, eps=5.0, frozen=[0]).fit(X, y)
        scaled = small(norm=1, eps=5.0, scale=1e-3).fit(X, y)
    free = small(norm=1, eps=0.005).fit(X, y)
    assert certify(clf, X, y, clf.attacker_).robust_accuracy > 0.8  # feature 0 alone tells much
    np.testing.assert_array_equal(scaled.predict(X), free.predict(X))


def test_many_classes_and_the_same_seed():
    X, y = load_iris(return_X_y=True)
    X = minmax_scale(X)
    clf = small(norm=2, eps=0.1, n_epochs=60, batch_size=16).fit(X, y.astype(str))
    assert certify(clf, X, y.astype(str), clf.attacker_).robust_accuracy > 0.75
    assert clf.predict_proba(X).shape == (150, 3)
    again = small(norm=2, eps=0.1, n_epochs=60, batch_size=16).fit(X, y.astype(str))
    assert again.ensemble_ == clf.ensemble_


@pytest.mark.filterwarnings("ignore::certiforest.training.estimator.ConstantWarning")
@pytest.mark.parametrize("attacked_share", [1.0, 0.4])
@pytest.mark.parametrize(("norm", "eps"), [(0, 1), (1, 0.5), (2, 0.5), (np.inf, 0.5)])
def test_whole_columns_move_by_whole_steps_within_the_domain(norm, eps, attacked_share):
    """What training reported is no less than the worst of all rows that the attacker can make, and close to it."""
    rng = np.random.default_rng(3)
    X = rng.integers(0, 4, (80, 3)).astype(float)
    y = (X.sum(axis=1) + rng.normal(0, 1, 80) > 4.5).astype(int)
    units = np.array([1.0, 2.0, 4.0])  # of the first one, none is in reach
    attacker = Attacker(norm, eps, scale=units, integer=[0, 1, 2], domain=(0, 3))
    clf = small(attacker=attacker, attacked_share=attacked_share).fit(X, y)
    every = np.array(list(itertools.product(range(4), repeat=3)), float)
    losses = np.log1p(np.exp(np.where(y, -1, 1)[:, None] * clf.decision_function(every)))
    moved = np.abs(every - X[:, None]) / units
    size = (moved > 0).sum(axis=2) if norm == 0 else np.linalg.norm(moved, norm, axis=2)
    worst = np.where(size <= eps + 1e-9, losses, -np.inf).max(axis=1).mean()
    own = np.log1p(np.exp(np.where(y, -1, 1) * clf.decision_function(X))).mean()
    true, said = attacked_share * worst + (1 - attacked_share) * own, clf.train_loss_[-1]
    assert true - 1e-9 <= said < true + (1e-9 if norm == np.inf else 0.1)


def test_less_weight_of_the_worst_case_leaves_more_accuracy(cancer):
    X, y = cancer
    own, worst = [], []
    for attacked_share in (1.0, 0.05):
        clf = small(norm=2, eps=0.3, attacked_share=attacked_share).fit(X, y)
        found = certify(clf, X, y, clf.attacker_)
        own.append(found.accuracy)
        worst.append(found.robust_accuracy)
    assert own[1] > own[0] + 0.01
    assert worst[1] < worst[0] - 0.01

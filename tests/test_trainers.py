"""All trainers: what `fit` hands over is what its training ended with, and withstands what training said it does."""

import itertools
import warnings
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from certiforest import Attacker, certify, has_large_spread
from certiforest.training import boosted_trees, growing, pruning
from certiforest.training.descent import fit_additive
from certiforest.training.worst_case import WorstCase
from trainers import KINDS, add_trees

LOSSES = [kind for kind in KINDS if "forest" not in kind]


def some_rows(rng):
    """Return rows with columns on a grid, of any numbers, constant, missing now and then, constant or missing."""
    n_rows, n_classes = 60, int(rng.integers(2, 4))
    X = np.column_stack([rng.integers(0, 9, n_rows) / 8, rng.random((n_rows, 2)), np.full((n_rows, 3), 0.25)])
    score = X[:, 0] + X[:, 1] + 0.3 * rng.normal(size=n_rows)
    y = np.digitize(score, np.quantile(score, np.arange(1, n_classes) / n_classes))
    if rng.random() < 0.5:
        for f, share in ((1, 0.2), (4, 0.5), (5, 1.0)):
            X[rng.random(n_rows) < share, f] = np.nan
    return X, y


def some_options(rng, kind, n_classes):
    # Without large spread, training for other norms looks at a box and says so: its loss is no bound.
    norms = {"robust boosting": [np.inf], "boosting, one budget": [1, 2]}
    norm = rng.choice(norms.get(kind, [np.inf, 1, 2, 0]))
    options = {"norm": norm, "eps": 1.0 if norm == 0 else float(rng.choice([0.03, 0.125, 0.3]))}
    if rng.random() < 0.3:
        options["scale"] = (rng.choice([0.5, 1.0, 0.3], 6), rng.choice([0.5, 1.0, 0.3], 6))
    if rng.random() < 0.3:
        options["frozen"] = [int(rng.integers(3))]
    if rng.random() < 0.3:
        options["direction"] = str(rng.choice(["up", "down"]))
    if rng.random() < 0.3:
        options["attacked"] = [int(rng.integers(n_classes))]
    if rng.random() < 0.3:
        options["class_weight"] = "balanced"
    if kind == "additive":
        options["max_columns"] = int(rng.choice([1, 2, 4]))
    if "boosting" in kind:
        options["n_iter_no_change"] = [None, 2][int(rng.integers(2))]
        options["loss"] = str(rng.choice(["log_loss", "exponential"]))
    return options


def fitted(kind, seed):
    """Return a model, the weights of its rows, and what it was told."""
    rng = np.random.default_rng(seed)
    X, y = some_rows(rng)
    options = some_options(rng, kind, y.max() + 1)
    weight = rng.integers(0, 3, len(X)).astype(float) if rng.random() < 0.5 else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = KINDS[kind](**options, random_state=seed).fit(X, y, weight)
    weight = np.ones(len(X)) if weight is None else weight
    if model.class_weight == "balanced":
        weight = weight * (len(y) / (y.max() + 1) / np.bincount(y))[y]
    return model, weight, options


@settings(max_examples=60)
@given(
    st.sampled_from(["grown forest", "pruned forest", "boosting", "boosting, one budget"]),
    st.sampled_from([(0, 1), (0, 2), (1, 1), (2, 2), (3, 1), ("l2", 1), (np.inf, 1), (np.inf, 2)]),
    st.sampled_from([None, 0.01, 0.1, [0.01, 0.1, 0.02, 0.05]]),
    st.sampled_from([None, [0], [0, 1]]),
    st.integers(2, 4),
    st.integers(0, 10),
)
def test_every_ensemble_has_large_spread(kind, attacker, scale, frozen, n_classes, seed):
    options = {"norm": attacker[0], "eps": attacker[1], "scale": scale, "frozen": frozen}
    rng = np.random.default_rng(seed)
    X, y = np.round(rng.random((60, 4)) * 8) / 8, np.arange(60) % n_classes  # many ties
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        size = 2 if kind == "pruned forest" else 5
        ensemble = KINDS[kind](n_estimators=size, max_depth=3, **options, random_state=seed).fit(X, y).ensemble_
    assert has_large_spread(ensemble, Attacker(**options))
    assert ensemble.n_trees == size or (ensemble.n_trees < size and kind != "grown forest")
    assert ensemble.n_nodes <= size * (2**4 - 1)


def sums_of(model, X):
    sums = model.decision_function(X)
    return np.column_stack([np.zeros(len(X)), sums]) if sums.ndim == 1 else sums


def loss_of(sums, own, is_exponential):
    total = np.exp(np.delete(sums, own, axis=1) - sums[:, [own]]).sum(axis=1)
    return total if is_exponential else np.log1p(total)


def rows_in_reach(model, x):
    """Return a row in each cell that the attacker can reach; each value is the nearest of its cell."""
    attacker, ensemble = model.attacker_, model.ensemble_
    scale, may_move = attacker.scales(len(x)), attacker.may_move(len(x))
    exponent = 1 if attacker.norm == np.inf else int(attacker.norm)
    budget = Fraction(attacker.eps) ** max(exponent, 1)
    moves = []
    for f, own in enumerate(x.tolist()):
        found = [(own, Fraction(0))]
        for cut in np.unique(ensemble.threshold[(ensemble.feature == f) & ~np.isnan(ensemble.threshold)]).tolist():
            value = cut if own > cut else float(np.nextafter(cut, np.inf))
            side = int(value > own)
            if own == own and may_move[side, f]:
                cost = (abs(Fraction(value) - Fraction(own)) / Fraction(scale[side, f])) ** exponent
                found += [(value, cost)] if cost <= budget else []
        moves.append(found)
    rows = []
    for chosen in itertools.product(*moves):
        costs = [cost for _, cost in chosen]
        if (max(costs) if attacker.norm == np.inf else sum(costs)) <= budget:
            rows.append([value for value, _ in chosen])
    return np.array(rows)


def reported_loss(model):
    """Return what training said of the trees that it kept."""
    if not hasattr(model, "n_estimators_") or model.n_iter_no_change is None:
        return model.train_loss_[-1]
    n_stages = len(model.train_loss_)
    n_rounds = model.n_estimators_
    if not model.PROMISES_SPREAD and len(model.classes_) > 2:
        n_rounds //= len(model.classes_)
    return model.train_loss_[-1] if n_rounds >= n_stages else model.train_loss_[n_rounds]


@pytest.mark.parametrize("kind", LOSSES)
@pytest.mark.parametrize("seed", range(12))
def test_the_worst_case_is_no_worse_than_training_said(kind, seed, monkeypatch):
    """The loss that was reported is that of the worst of all rows in reach, or above."""
    seen = []
    boost = boosted_trees.boost_trees
    monkeypatch.setattr(
        "certiforest.training.boosting.boost_trees",
        lambda rows, *args, **options: seen.append(rows) or boost(rows, *args, **options),
    )
    monkeypatch.setattr(
        "certiforest.training.additive.fit_additive",
        lambda rows, *args, **options: seen.append(rows) or fit_additive(rows, *args, **options),
    )
    model, weight, options = fitted(kind, seed)
    rows, is_exponential = seen[0], options.get("loss") == "exponential"
    worst = []
    for x, own in zip(rows.X, rows.y_index, strict=True):
        is_attacked = model.attacked_ is None or own in model.attacked_
        reached = rows_in_reach(model, x) if is_attacked else x[None]
        worst.append(loss_of(sums_of(model, reached), own, is_exponential).max())
    assert np.average(worst, weights=rows.weight) <= reported_loss(model) + 1e-9
    if options.get("n_iter_no_change") is None:
        np.testing.assert_array_equal(rows.weight, weight[weight > 0])


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("additive", "pruned forest")])
@pytest.mark.parametrize("seed", range(8))
def test_margins_of_what_is_handed_over_are_those_that_training_ended_with(kind, seed, monkeypatch):
    cases = []

    def remember(*args, **options):
        cases.append((WorstCase(*args, **options), args, options))
        return cases[-1][0]

    for module in (boosted_trees, growing):
        monkeypatch.setattr(module, "WorstCase", remember)
    ensemble = fitted(kind, seed)[0].ensemble_
    assert cases
    for case, args, options in cases:  # training rows, and those put aside
        fresh = WorstCase(*args, **options)
        add_trees(fresh, ensemble)
        np.testing.assert_allclose(fresh.margin(), case.margin(), rtol=0, atol=1e-9)


@pytest.mark.parametrize("seed", range(8))
def test_sums_of_an_additive_model_are_those_that_training_ended_with(seed, monkeypatch):
    ends = []

    def remember(rows, *args, **options):
        ends.append((rows, fit_additive(rows, *args, **options)))
        return ends[-1][1]

    monkeypatch.setattr("certiforest.training.additive.fit_additive", remember)
    model = fitted("additive", seed)[0]
    (rows, end), grids = ends[0], ends[0][1].grids
    step = np.empty((len(rows.X), len(grids.feature)), np.int64)
    for j, (f, n, thresholds) in enumerate(zip(grids.feature, grids.n_steps, grids.threshold, strict=True)):
        step[:, j] = np.searchsorted(thresholds[: n - 1], rows.X[:, f]) + np.isnan(rows.X[:, f])
    sums = np.tile(end.base, (len(rows.X), 1))
    for first, columns in zip(grids.first_cell, itertools.pairwise(grids.first_column), strict=False):
        own = slice(*columns)
        sums += end.value[first + step[:, own] @ grids.stride[own]]
    for (nodes, *_), value in zip(end.frozen.trees, end.frozen.values, strict=True):
        assert rows.attacker.is_frozen(6)[np.array(nodes.feature)[np.array(nodes.feature) >= 0]].all()
        for i, x in enumerate(rows.X):
            node = 0
            while nodes.left[node] >= 0:
                at = x[nodes.feature[node]]
                goes_left = nodes.missing_left[node] if np.isnan(at) else at <= nodes.threshold[node]
                node = nodes.left[node] if goes_left else nodes.right[node]
            sums[i] += value[node]
    handed_over = sums_of(model, rows.X)
    np.testing.assert_array_equal(handed_over - handed_over[:, :1], sums - sums[:, :1])


@pytest.mark.parametrize("seed", range(8))
def test_of_all_pruned_forests_the_one_that_keeps_most_rows_is_handed_over(seed, monkeypatch):
    cases, forests, prune = [], [], pruning.prune_forest

    def remember(*args, **options):
        cases.append(lambda: WorstCase(*args, **options))
        return cases[-1]()

    def remember_trees(*args, **options):
        forests.append(prune(*args, **options))
        return forests[-1]

    monkeypatch.setattr(pruning, "WorstCase", remember)
    monkeypatch.setattr(pruning, "prune_forest", remember_trees)
    X, y = some_rows(np.random.default_rng(seed))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ensemble = KINDS["pruned forest"](eps=0.1, random_state=seed).fit(X, y).ensemble_
    merits = []
    for trees in (pruned.trees for pruned in forests):
        case = cases[0]()
        for tree in trees:
            case.add(case.reached(tree), np.eye(y.max() + 1)[tree.leaf])
        merits.append((len(trees), case.is_won().sum()))
    case = cases[0]()
    add_trees(case, ensemble)
    assert (ensemble.n_trees, case.is_won().sum()) == max(merits)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "boosting, one budget"])
def test_whole_columns_without_a_step_in_reach_count_as_frozen(kind):
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(0, 2, 300), rng.integers(0, 2, 300), rng.random((300, 2))]).astype(float)
    y = (X[:, 0] + X[:, 1] > 0.5).astype(int)
    attacker = Attacker(1, 0.6, integer=[0, 1])
    model = KINDS[kind](attacker=attacker, random_state=0).fit(X, y)
    assert certify(model, X, y, attacker, require_exact=model.PROMISES_SPREAD).robust_accuracy > 0.95
    assert has_large_spread(model.ensemble_, attacker) or not model.PROMISES_SPREAD

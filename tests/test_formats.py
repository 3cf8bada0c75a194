"""Doors: a model that enters must do what it did outside, on thresholds and one step beside them."""

import math
from types import SimpleNamespace

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.base import clone
from sklearn.datasets import load_iris, make_classification
from sklearn.ensemble import (
    AdaBoostClassifier,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from certiforest import Attacker, ModelError, TreeEnsemble, as_ensemble, certify, save_silva
from certiforest.formats import agreement
from certiforest.formats.float32_rows import deployed_thresholds
from certiforest.formats.silva_text import parse_silva
from shared_data import needs_shared, shared
from small_models import differs


def threshold_rows(model, X, n_rows=4_000, seed=0):
    """Rows with values on thresholds, on their float32 roundings, on midpoints, and a step of either kind beside."""
    rng = np.random.default_rng(seed)
    trees = [tree.tree_ for tree in getattr(model, "estimators_", [model])]
    feature = np.concatenate([tree.feature for tree in trees])
    cuts = np.concatenate([tree.threshold for tree in trees])
    rows = X[rng.integers(len(X), size=n_rows)].astype(np.float64)
    for f in range(X.shape[1]):
        own = cuts[(feature == f) & np.isfinite(cuts)]
        if not own.size:
            continue
        v = rng.choice(own, n_rows)
        v32 = v.astype(np.float32)
        middle = (v32.astype(float) + np.nextafter(v32, np.float32(np.inf)).astype(float)) / 2
        below = (v32.astype(float) + np.nextafter(v32, np.float32(-np.inf)).astype(float)) / 2
        kinds = [
            v, np.nextafter(v, np.inf), np.nextafter(v, -np.inf),
            v32, np.nextafter(v32, np.float32(np.inf)), np.nextafter(v32, np.float32(-np.inf)),
            middle, np.nextafter(middle, np.inf), np.nextafter(middle, -np.inf),
            below, np.nextafter(below, np.inf), np.nextafter(below, -np.inf),
        ]  # fmt: skip
        rows[:, f] = np.choose(rng.integers(len(kinds), size=n_rows), [kind.astype(float) for kind in kinds])
    return rows


def hard_votes(model, X):
    trees = getattr(model, "estimators_", [model])
    votes = np.zeros((len(X), len(model.classes_)), int)
    for tree in trees:
        votes[np.arange(len(X)), tree.predict_proba(X).argmax(axis=1)] += 1
    return votes


@pytest.mark.parametrize("kind", [RandomForestClassifier, ExtraTreesClassifier, DecisionTreeClassifier])
@pytest.mark.parametrize("n_classes", [2, 4])
def test_sklearn_models_vote_the_same(kind, n_classes):
    X, y = make_classification(600, 12, n_informative=8, n_classes=n_classes, random_state=1)
    X = np.round(X, 2)  # so that thresholds fall between few distinct values
    options = {} if kind is DecisionTreeClassifier else {"n_estimators": 20}
    model = kind(max_depth=7, random_state=0, **options).fit(X, np.array(list("abcd"))[y])
    ensemble = as_ensemble(model, voting="hard")
    assert ensemble.classes.tolist() == model.classes_.tolist()
    rows = threshold_rows(model, X)
    np.testing.assert_array_equal(ensemble.votes(rows), hard_votes(model, rows))
    if kind is DecisionTreeClassifier:
        np.testing.assert_array_equal(as_ensemble(model).predict(rows), model.predict(rows))


floats = st.floats(width=64, allow_nan=False, min_value=-3e38, max_value=3e38)


@given(arrays(np.float64, 20, elements=floats), floats)
def test_deployed_thresholds_act_as_rounding_does(x, v):
    near = np.float32(v).astype(float)
    steps = [near, v, (near + np.nextafter(np.float32(v), np.float32(np.inf)).astype(float)) / 2]
    steps += [np.nextafter(s, side) for s in steps for side in (-np.inf, np.inf)]
    x = np.concatenate([x, steps])
    with np.errstate(over="ignore"):
        outside = x.astype(np.float32).astype(np.float64) <= v
    inside = x <= deployed_thresholds(np.array([v]))[0]
    np.testing.assert_array_equal(inside, outside)


def test_missing_values_in_training_do_not_matter_to_finite_rows():
    X, y = load_iris(return_X_y=True)
    X = X.copy()
    X[::7, 2] = np.nan
    forest = RandomForestClassifier(10, random_state=0).fit(X, y)
    ensemble = as_ensemble(forest, voting="hard")
    rows = threshold_rows(forest, np.nan_to_num(X))
    np.testing.assert_array_equal(ensemble.votes(rows), hard_votes(forest, rows))


SUMMING = {
    "forest": RandomForestClassifier(20),
    "even and shallow": RandomForestClassifier(4, max_depth=2, bootstrap=False),
    "extra trees": ExtraTreesClassifier(20),
    "boosting": GradientBoostingClassifier(n_estimators=10),
    "boosting from zero": GradientBoostingClassifier(n_estimators=10, init="zero"),
    "histogram boosting": HistGradientBoostingClassifier(max_iter=10),
}


@pytest.mark.parametrize("case", SUMMING)
@pytest.mark.parametrize("n_classes", [2, 4])
def test_sklearn_models_add_up_the_same(case, n_classes):
    X, y = make_classification(600, 12, n_informative=8, n_classes=n_classes, random_state=1)
    X = np.round(X, 2)
    model = clone(SUMMING[case]).set_params(random_state=0).fit(X, np.array(list("abcd"))[y])
    ensemble = as_ensemble(model)
    assert ensemble.combine == "sum"
    rows = np.vstack([X, agreement.threshold_rows(ensemble, 4_000, seed=3)])
    if hasattr(model, "estimators_"):
        trees = np.ravel(model.estimators_).tolist()
        rows = np.vstack([rows, threshold_rows(SimpleNamespace(estimators_=trees), X)])
    assert not differs(ensemble, model, rows, np.float64, slack=0.0).any()
    assert (ensemble.predict(rows) != model.predict(rows)).mean() < 0.01


def test_ties_go_where_the_model_puts_them():
    X, y = [[0.0], [0.0], [1.0], [1.0]], [3, 5, 3, 5]
    for model in (
        GradientBoostingClassifier(n_estimators=2, init="zero"),  # zero or above is the second class
        GradientBoostingClassifier(n_estimators=2),
        HistGradientBoostingClassifier(max_iter=2),  # above zero is
        RandomForestClassifier(10, bootstrap=False),
        DecisionTreeClassifier(),
    ):
        model.fit(X, y)
        np.testing.assert_array_equal(as_ensemble(model).predict(X), model.predict(X))


def test_forests_average_unless_asked_to_vote():
    X, y = load_iris(return_X_y=True)
    forest = RandomForestClassifier(3, max_depth=2, random_state=0).fit(X, y)
    assert as_ensemble(forest) == as_ensemble(forest, voting="soft") != as_ensemble(forest, voting="hard")
    np.testing.assert_array_equal(certify(forest, X, y, Attacker("linf", 0.1)).prediction, forest.predict(X))
    boosted = GradientBoostingClassifier(n_estimators=2).fit(X, y)
    with pytest.raises(ModelError, match="do not combine by hard voting"):
        as_ensemble(boosted, voting="hard")
    for regressor in (RandomForestRegressor(2), DecisionTreeRegressor()):
        with pytest.raises(ModelError, match="do not combine by hard voting"):
            as_ensemble(regressor.fit(X, y), voting="hard", threshold=0.5)
    with pytest.raises(ModelError, match="'soft', 'hard' or None, got 'majority'"):
        as_ensemble(forest, voting="majority")


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (RandomForestClassifier(), "unfitted RandomForestClassifier; call fit first"),
        (GradientBoostingClassifier(), "unfitted GradientBoostingClassifier; call fit first"),
        (HistGradientBoostingClassifier(), "unfitted HistGradientBoostingClassifier; call fit first"),
        (AdaBoostClassifier(), "unfitted AdaBoostClassifier; call fit first"),
        (LogisticRegression(), "got LogisticRegression"),
        (
            GradientBoostingClassifier(n_estimators=1, init=DecisionTreeClassifier()).fit([[0.0], [1.0]], [0, 1]),
            "init to be None or 'zero', got DecisionTreeClassifier",
        ),
        (3, "got int"),
        (None, "got NoneType"),
        ("no/such/file.json", "does not exist"),
        (".", "directory"),
        (
            DecisionTreeClassifier().fit([[0.0], [1.0]], [[0, 1], [1, 0]]),
            "one output, got a DecisionTreeClassifier with 2",
        ),
    ],
)
def test_other_models_are_refused_by_name(model, message):
    with pytest.raises(ModelError, match=message):
        as_ensemble(model, voting="hard")


def test_data_frames_keep_their_names():
    frame, y = load_iris(return_X_y=True, as_frame=True)
    tree = DecisionTreeClassifier(max_depth=3, random_state=0).fit(frame, y)
    ensemble = as_ensemble(tree)
    assert ensemble.feature_names == tuple(frame.columns)
    attacker = Attacker("l2", 0.1)
    expected = certify(ensemble, frame.to_numpy(), y, attacker).stable
    np.testing.assert_array_equal(certify(ensemble, frame, y, attacker).stable, expected)
    np.testing.assert_array_equal(certify(ensemble, pl.from_pandas(frame), y, attacker).stable, expected)
    np.testing.assert_array_equal(ensemble.predict(frame.astype(np.float32)), tree.predict(frame.astype(np.float32)))
    for other in (frame[frame.columns[::-1]], pl.from_pandas(frame[frame.columns[::-1]])):  # columns go by name
        np.testing.assert_array_equal(certify(ensemble, other, y, attacker).stable, expected)
    with pytest.raises(ValueError, match="Expected numbers"):
        certify(ensemble, frame.assign(**{frame.columns[0]: "wide"}), y, attacker)
    assert isinstance(frame, pd.DataFrame)


def test_rows_may_be_of_any_layout():
    X, y = load_iris(return_X_y=True)
    ensemble = as_ensemble(DecisionTreeClassifier(max_depth=3, random_state=0).fit(X, y))
    expected = ensemble.predict(X)
    for rows in (np.asfortranarray(X), X[:, ::-1][:, ::-1], X.tolist(), (X * 10).astype(int) / 10):
        np.testing.assert_array_equal(ensemble.predict(rows), expected)
    from scipy.sparse import csr_matrix

    with pytest.raises(ValueError, match="sparse"):
        ensemble.predict(csr_matrix(X))
    with pytest.raises(ValueError, match="different lengths"):
        ensemble.predict([[1, 2, 3, 4], [1, 2]])


def test_silva_files_come_back_the_same(tmp_path):
    X, y = load_iris(return_X_y=True)
    forest = ExtraTreesClassifier(7, random_state=0).fit(X, y)
    ensemble = as_ensemble(forest, voting="hard")
    save_silva(ensemble, tmp_path / "m.silva")
    assert as_ensemble(tmp_path / "m.silva") == ensemble.of_numbers
    named = TreeEnsemble([-1], [0], [0], n_features=1, classes=["ham and eggs"])
    with pytest.raises(ModelError, match="white space"):
        save_silva(named, tmp_path / "n.silva")
    assert [p.name for p in tmp_path.iterdir()] == ["m.silva"]


@needs_shared
def test_published_silva_files_are_read():
    paths = sorted((shared() / "models" / "mnist26").glob("*.silva"))
    assert len(paths) == 8
    for path in paths:
        ensemble = as_ensemble(str(path))
        assert (ensemble.n_features, ensemble.classes.tolist()) == (784, [0, 1])
        assert ensemble.n_trees in (25, 101)


NO_NUMBERS = "half", "nan", "infinity", "1_0", "0x1", "1e999"
TREE = "classifier-decision-tree 2 2\n0 1\nSPLIT 0 0.5\nLEAF 1 0\nLEAF 0 1\n"


def test_a_single_tree_and_ties():
    ensemble = parse_silva(TREE.replace("LEAF 0 1", "LEAF 2.5 2.5"))
    assert ensemble.n_trees == 1
    assert ensemble.leaf[ensemble.feature < 0].tolist() == [0, 0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("classifier-forest 2\n" + TREE, "of tree 1, got the end of the file"),
        ("classifier-forest 0\n", "got the end of the file"),
        ("classifier-forest x\n" + TREE, "in line 1, got 'classifier-forest x'"),
        ("classifier-forest 99999999999\n" + TREE, "in line 1"),
        (TREE + TREE, "the end of the file after 1 trees in line 6"),
        (TREE[:-9], "SPLIT or LEAF, got the end of the file"),
        (TREE.replace("SPLIT 0", "SPLIT 2"), "feature index below 2 in line 3"),
        *((TREE.replace("0.5", word), "finite numbers in line 3") for word in NO_NUMBERS),
        (TREE.replace("LEAF 1 0", "LEAF 1"), "'LEAF' with 2 weights in line 4"),
        (TREE.replace("0 1\n", "0 1 2\n", 1), "2 labels in line 2"),
        ("classifier-forest 2\n" + TREE + TREE.replace("tree 2", "tree 3"), "the same features"),
        ("regression-forest 2\n", "classifier-decision-tree"),
    ],
)
def test_malformed_silva_text(text, message):
    with pytest.raises(ModelError, match=message) as caught:
        parse_silva(text, source="m.silva")
    assert str(caught.value).startswith("m.silva is not a sound .silva model.")


def test_thresholds_beyond_float32():
    assert deployed_thresholds(np.array([math.inf]))[0] == np.finfo(float).max
    with pytest.raises(ModelError, match="range of float32"):
        deployed_thresholds(np.array([-1e300]))

"""Statements about whole models: against enumeration, and against what the libraries themselves predict."""

import copy
import itertools
import json
import math
import random
import re
import subprocess
import sys
from fractions import Fraction
from io import BytesIO

import numpy as np
import pandas as pd
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import (
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
    VotingClassifier,
)
from sklearn.model_selection import FixedThresholdClassifier
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

import statement_referee
from certiforest import (
    Attacker,
    Domain,
    DomainError,
    Insensitive,
    ModelError,
    Monotone,
    Nodes,
    Range,
    Robust,
    Same,
    StatementError,
    TreeEnsemble,
    as_ensemble,
    audit,
    check,
    measure,
)
from certiforest.ensemble.model_file import pieces
from certiforest.ensemble.rows import RowError
from certiforest.ensemble.scaling import Scaling
from certiforest.statements.kinds import read_statement
from small_models import catboost, lgb, xgb


@pytest.mark.parametrize("seed", range(4))
def test_results_are_those_of_enumeration(seed):
    wrong = [line for i in range(60) for line in statement_referee.judge(random.Random(f"suite {seed} {i}"))[0]]
    assert wrong == []


@pytest.mark.parametrize("kind", ["logistic", "poisson", "forest", "votes", "three classes"])
def test_the_auditor_alone_confirms_what_is_said_of_each_kind(kind, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.random((150, 3))
    y = (2 * X[:, 0] + rng.random(150) > 1.3).astype(int)
    models = {
        "logistic": lambda n: GradientBoostingClassifier(n_estimators=n, max_depth=2, random_state=0).fit(X, y),
        "poisson": lambda n: HistGradientBoostingRegressor(loss="poisson", max_iter=n, max_depth=2).fit(X, X[:, 0] + y),
        "forest": lambda n: RandomForestRegressor(n, max_depth=3, random_state=0).fit(X, X[:, 0] + y),
        "votes": lambda n: DecisionTreeClassifier(max_depth=n, random_state=0).fit(X, y),
        "three classes": lambda n: GradientBoostingClassifier(n_estimators=2, max_depth=n, random_state=0).fit(
            X, y + (X[:, 1] > 0.5)
        ),
    }
    model, other = models[kind](3), models[kind](2)
    domain = Domain([0, 0, 0], [1, 1, 0.5], plausible=None)
    said = [] if kind in ("poisson", "forest") else [Insensitive([1, 2]), Same(other)]
    if kind != "three classes":
        (_, low), (high, _) = measure(model, "range", domain).bounds
        middle = (low + high) / 2
        said += [Range(low - 0.001, high + 0.001), Range(low + 0.001, high), Monotone(0), Monotone(1, "down", 0.01)]
        said += [Insensitive([2], middle - 0.2, middle + 0.2), Same(other, 0.2), Same(other, 2.0)]
    found = [check(model, said, domain, proof=True)]
    if kind != "three classes":
        options = {"gap": {"columns": [1]}, "fall": {"column": 0}, "difference": {"other": other}, "range": {}}
        found += [measure(model, quantity, domain, proof=True, **more) for quantity, more in options.items()]
    found[0].model.save(tmp_path / "m.json")
    check(
        other, Insensitive([0]) if kind in ("votes", "three classes") else Monotone(0), domain, proof=True
    ).model.save(tmp_path / "other.json")
    for results in found:
        results.save(tmp_path / "c.jsonl")
        command = [
            sys.executable,
            "-I",
            audit.__file__,
            *(str(tmp_path / name) for name in ("m.json", "c.jsonl", "other.json")),
        ]
        said = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (said.returncode, said.stderr) == (0, "")
        assert ", 0 open, 0 not proved." in said.stdout
    assert {result.holds for result in found[0]} == {True, False}


def test_results_without_proofs_are_not_saved(tmp_path):
    model = DecisionTreeRegressor(max_depth=1).fit([[0.0], [1.0]], [0.0, 1.0])
    domain, asked = Domain([0], [1]), (Range(0, 1), "range")
    for found in (check(model, asked[0], domain), measure(model, asked[1], domain)):
        with pytest.raises(StatementError, match="proof=True"):
            found.save(tmp_path / "c.jsonl")


def test_a_certificate_says_nothing_of_rows(tmp_path):
    X = np.random.default_rng(0).random((60, 2))
    y = (X[:, 0] > 0.5).astype(int)
    model = DecisionTreeClassifier(max_depth=2, random_state=0).fit(X, y)
    results = check(model, [Robust(Attacker(1, 0.1), 0), Range(0, 1)], Domain.from_data(X), rows=(X, y), proof=True)
    assert [result.holds for result in results] == [True, True]
    assert results[0].proof is None
    results.save(tmp_path / "c.jsonl")
    results.model.save(tmp_path / "m.json")
    assert audit.main([str(tmp_path / "m.json"), str(tmp_path / "c.jsonl")]) == 0


def test_what_was_reached_exactly_is_not_above_what_is_proved():
    assert statement_referee.judge(random.Random("11 260")) == ([], "most")  # where gains are rounded
    assert statement_referee.judge(random.Random("35004 9")) == ([], "same")  # and one tree always adds the same


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(
        {
            "age": rng.integers(18, 90, 400),
            "income": rng.normal(30, 10, 400).round(2),
            "country": pd.Categorical(rng.choice(["de", "fr", "it"], 400)),
            "debt": np.where(rng.random(400) < 0.1, np.nan, rng.exponential(5, 400).round(1)),
        }
    )
    score = X["income"] / 10 - X["debt"].fillna(4) / 4 + (X["country"] == "fr") - (X["age"] < 25)
    return X, (score + rng.normal(0, 0.5, 400) > 1.5).astype(int)


@pytest.fixture(scope="module")
def numbers(table):
    X, y = table
    return X.drop(columns="country").fillna(-1.0), y


def boosted(X, y, **settings):
    return xgb(n_estimators=12, enable_categorical=True, **settings).fit(X, y)


def test_inputs_that_refute_are_rows_that_the_library_takes_as_they_are(table):
    X, y = table
    model, domain = boosted(X, y), Domain.from_data(X)
    (result,) = check(model, Insensitive(["country"]), domain)
    assert result.holds is False
    assert list(result.pair.columns) == list(X.columns)
    assert result.pair["country"].dtype == X["country"].dtype
    assert model.predict(result.pair)[0] != model.predict(result.pair)[1]
    same = result.pair.drop(columns="country")
    assert same.iloc[0].equals(same.iloc[1])
    (result,) = check(model, Range(0.0, 0.9), domain)
    assert result.holds is False
    assert model.predict_proba(result.pair)[0, 1] > 0.9


@pytest.mark.parametrize("direction", ["up", "down"])
def test_a_constrained_column_is_proved_monotone(numbers, direction):
    X, y = numbers
    sign = 1 if direction == "up" else -1
    model = boosted(X, y if sign > 0 else 1 - y, monotone_constraints={"income": sign})
    domain = Domain.from_data(X)
    results = check(model, [Monotone("income", direction), Monotone("income", "down" if sign > 0 else "up")], domain)
    assert [result.holds for result in results] == [True, False]
    proba = model.predict_proba(results[1].pair)[:, 1]
    income = results[1].pair["income"]
    assert (income[0] - income[1]) * (proba[0] - proba[1]) * sign > 0


@pytest.mark.parametrize(
    "estimator",
    [
        GradientBoostingClassifier(n_estimators=10, max_depth=3, random_state=0),
        HistGradientBoostingClassifier(max_iter=10, max_depth=3, random_state=0),
        RandomForestClassifier(8, max_depth=4, random_state=0),
        DecisionTreeClassifier(max_depth=4, random_state=0),
        RandomForestRegressor(8, max_depth=4, random_state=0),
        HistGradientBoostingRegressor(max_iter=10, max_depth=3, random_state=0),
        FixedThresholdClassifier(GradientBoostingClassifier(n_estimators=5, random_state=0), threshold=0.3),
        VotingClassifier(
            [("a", DecisionTreeClassifier(max_depth=2)), ("b", RandomForestClassifier(3, max_depth=3))],
            voting="soft",
            weights=[1, 2],
        ),
        CalibratedClassifierCV(GradientBoostingClassifier(n_estimators=5, random_state=0), ensemble=False, cv=2),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
def test_the_range_is_what_the_library_says_at_both_ends(numbers, estimator):
    X, y = numbers
    model = estimator.fit(X, y)
    says = model.predict if not hasattr(model, "predict_proba") else lambda rows: model.predict_proba(rows)[:, 1]
    found = measure(model, "range", Domain.from_data(X))
    (low_proved, low), (high, high_proved) = found.bounds
    assert low_proved <= low <= says(X).min()
    assert says(X).max() <= high <= high_proved
    assert high_proved - high < 1e-4
    assert says(found.pair[0])[0] == pytest.approx(low, abs=1e-6)
    assert says(found.pair[1])[0] == pytest.approx(high, abs=1e-6)
    outside, inside = Range(low - 0.01, high + 0.01), Range(low + 0.01, high)
    assert [result.holds for result in check(model, [outside, inside], Domain.from_data(X))] == [True, False]


def test_answers_and_quantities_show_themselves_in_words(numbers):
    X, y = numbers
    model, domain = DecisionTreeClassifier(max_depth=2, random_state=0).fit(X, y), Domain.from_data(X)
    found = check(model, [Range(high=1), Range(high=0.01)], domain)
    assert re.fullmatch(r"Holds: The score is at most 1\. \(.* s\)\nDoes not hold: .*", repr(found))
    assert repr(found[1]) == f"{found[1]}\n{found[1].pair}"
    assert re.match(
        r"range: 0\S* to \S+ reached, no more than \S+ to \S+ proved", repr(measure(model, "range", domain))
    )
    assert re.match(r"gap: \S+ reached, no more than \S+ proved", repr(measure(model, "gap", domain, columns=[0])))


@pytest.mark.parametrize(
    "domain", [Domain([0, 0, 0], [1, 1, 1]), Domain([0, 0, 0], [1, 0, 1]), Domain([0, 0, 0], [1, 1, 0])]
)
def test_columns_that_the_model_cannot_tell_apart_change_no_decision(domain, tmp_path):
    """However near to a tie sums are: the score 0 is decided by rounding, but alike."""
    scores = [[0.1], [-0.1], [-0.1], [0.1]]
    model = TreeEnsemble.from_trees(
        [Nodes([1, -1, -1], [2, -1, -1], [f, -1, -1], [0.5, 0, 0], [0, a, b]) for f, a, b in ((0, 0, 1), (2, 2, 3))],
        n_features=3, classes=[0, 1], scores=scores, base=[0.0],
    )  # fmt: skip
    found = check(model, [Insensitive([1]), Insensitive([2])], domain, proof=True)
    assert [result.holds for result in found] == [True, domain.high[2] == 0]
    found.save(tmp_path / "c.jsonl")
    model.save(tmp_path / "m.json")
    assert audit.main([str(tmp_path / "m.json"), str(tmp_path / "c.jsonl")], lambda *_: None) == 0


def test_inputs_have_numbers_of_few_digits():
    lightgbm = pytest.importorskip("lightgbm")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3)).round(2)
    X[rng.random(300) < 0.6, 2] = 0
    booster = lightgbm.LGBMClassifier(n_estimators=8, verbose=-1, n_jobs=1).fit(X, X[:, 0] + X[:, 1] * X[:, 2] > 0)
    (found,) = check(booster, [Insensitive([0])], Domain.from_data(X))
    one, other = booster.predict(found.pair)
    assert one != other
    assert all(len(repr(number)) <= 7 for number in found.pair.ravel().tolist())


def test_inputs_that_a_type_does_not_hold_are_of_another_one():
    """Of float32 columns, and of whole numbers beyond those of their type."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.random(200).astype(np.float32), "n": rng.integers(0, 9, 200).astype(np.uint8)})
    model = HistGradientBoostingClassifier(max_iter=5, max_depth=3).fit(X, X["a"] + X["n"] / 9 > 0.8)
    domain = Domain.from_data(X).with_range("n", 0, 300).with_range("a", 0.3, 0.8)
    found = measure(model, "range", domain)
    for pair, reached in zip(found.pair, (found.bounds[0][1], found.bounds[1][0]), strict=True):
        assert model.predict_proba(pair)[0, 1] == reached
        assert pair["a"].between(0.3, 0.8).all()
    (low,) = check(model, Range(0.999), domain.with_range("n", 300, 300))
    assert low.pair["n"].tolist() == [300]


@pytest.mark.parametrize(
    ("low", "high", "options", "holds"),
    [
        (1, 5, {}, True),  # no number in here counts as missing
        (0, 5, {}, False),
        (0, 5, {"integer": [0]}, False),
        (0, 0, {}, False),
        (0, 5, {"values": {0: [0, 2, 5]}}, False),
        (0, 5, {"values": {0: [2, 5]}}, True),
        (1, 5, {"missing": [0]}, False),
    ],
)
def test_numbers_that_count_as_missing_are_inputs_where_the_domain_holds_them(low, high, options, holds):
    X = np.append(np.zeros(80), np.linspace(0.5, 5, 120)).reshape(-1, 1)
    model = xgb(n_estimators=3, max_depth=2, missing=0.0).fit(X, X[:, 0] == 0)
    (result,) = check(model, Range(0, 0.5), Domain([low], [high], **options))
    assert result.holds is holds
    if not holds:
        assert model.predict_proba(result.pair)[0, 1] > 0.5
        assert np.isnan(result.pair[0, 0]) == ("missing" in options)


def test_every_text_is_an_input_where_a_model_knows_only_some_hashes():
    words = ["ash", "elm", "fir", "oak", "yew", "box"]
    X = pd.DataFrame({"word": words * 20})
    for one, other in itertools.combinations(words, 2):
        model = catboost("Regressor", iterations=2, depth=2, one_hot_max_size=9, cat_features=["word"])
        model.fit(X, (X["word"] == one) + 2.0 * (X["word"] == other))
        found = measure(model, "range", Domain.from_data(X))
        assert found.bounds[0][1] == model.predict(X).min()
        assert found.bounds[1][0] == model.predict(X).max()
        assert model.predict(found.pair[1]) == model.predict(X).max()


@pytest.mark.parametrize(("words", "most"), [(["a", "new"], 1), (["a", "b"], 0), (["new"], 1)])
def test_text_that_a_model_never_saw_is_an_input_where_the_domain_has_it(words, most):
    model = TreeEnsemble(
        [0, -1, -1], [math.nan, 0, 0], [-1, 0, 1], n_features=1, classes=[0, 1], missing_left=[0] * 3,
        subset=[0, -1, -1], subsets=[[0, 1, 2]], categories={0: ["a", "b", "c"]}, unseen={0: "other"},
    )  # fmt: skip
    assert measure(model, "range", Domain([math.nan], [math.nan], values={0: words})).bounds[1][0] == most


@pytest.fixture(scope="module")
def numbered():
    """Columns a and c, whose whole numbers are categories, and labels that follow both."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.normal(size=400).round(2), "c": rng.choice([10, 20, 30], 400)})
    return X, (0.9 * (X.c == 20) + X.a > 0.7).astype(int)


@pytest.mark.parametrize("make", [catboost, xgb, lgb])
def test_whole_numbers_that_are_categories_are_inputs_as_the_data_have_them(numbered, make):
    X, y = numbered
    options = {"enable_categorical": True} if make is xgb else {"min_data_per_group": 1} if make is lgb else {}
    X = X.astype({"c": "category"})
    model = make(**{"cat_features": ["c"], "one_hot_max_size": 9} if make is catboost else options).fit(X, y)
    domain = Domain.from_data(X)
    (result,) = check(model, Insensitive(["c"]), domain)
    assert result.holds is False
    assert {*result.pair["c"]} <= {10, 20, 30}
    assert len({*model.predict(result.pair.astype(X.dtypes))}) == 2
    for narrow in (domain.fixed(c=20), domain.with_range("c", 11, 29)):
        assert check(model, Insensitive(["c"]), narrow)[0].holds


def test_a_range_of_numbers_that_are_categories_is_refused(numbered):
    X, y = numbered
    model = catboost(cat_features=["c"], one_hot_max_size=9).fit(X, y)
    for domain in (Domain.from_data(X), Domain.from_data(X.to_numpy())):
        with pytest.raises(DomainError, match="holds categories of the model, got a range"):
            check(model, Insensitive(["c" if domain.columns else 1]), domain)
    assert check(model, Insensitive(["c"]), Domain.from_data(X, values={1: [10, 20, 30]}))[0].holds is False


def test_listed_values_beyond_the_ends_are_no_inputs():
    model = DecisionTreeRegressor().fit([[1.0], [2.5], [5.0]], [1.0, 2.5, 5.0])
    found = measure(model, "range", Domain([0], [3], values={0: [1, 5]}))
    assert [inputs.tolist() for inputs in found.pair] == [[[1.0]], [[1.0]]]


def test_text_is_handed_out_as_text():
    """CatBoost knows hashes of it, and a model that never asks for it does not know it at all."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.random(200), "word": rng.choice(["ash", "elm", "fir"], 200)})
    model = catboost(iterations=4, depth=2, one_hot_max_size=9, cat_features=["word"])
    model.fit(X, (X["word"] == "elm") | (X["a"] > 0.7))
    (result,) = check(model, Insensitive(["word"]), Domain.from_data(X))
    assert result.pair["word"].isin(X["word"]).all()
    assert len(set(model.predict(result.pair).tolist())) == 2
    X["word"] = X["word"].astype("category")
    model = boosted(X, X["a"] > 0.5, feature_weights=[1, 0], colsample_bynode=0.5)
    result = check(model, Range(0, 0.6), Domain.from_data(X))[0]
    assert result.pair["word"].isin(X["word"]).all()
    assert check(model, Insensitive(["word"]), Domain.from_data(X))[0].holds is True


def test_decisions_are_those_of_rounded_probabilities():
    """A sum above zero, of 2e-8, is a probability of 0.5 in single precision, and the first class."""
    X = np.array([[0.0], [1.0]] * 10)
    model = xgb(n_estimators=1, max_depth=1, base_score=0.5, min_child_weight=0).fit(X, X[:, 0] > 0)
    document = json.loads(model.get_booster().save_raw("json"))
    (tree,) = document["learner"]["gradient_booster"]["model"]["trees"]
    tree["split_conditions"][1:] = [2e-8, 1e-3]
    model.load_model(bytearray(json.dumps(document).encode()))
    assert model.predict(X[:2]).tolist() == [0, 1]
    assert check(model, Insensitive([0]), Domain([0], [1]))[0].holds is not True


def test_scores_of_any_size_are_bounded():
    X = np.array([[0.0], [1.0]])
    model = DecisionTreeRegressor().fit(X, [5e-324, 1e300])
    (low_proved, low), (high, high_proved) = measure(model, "range", Domain([0], [1])).bounds
    assert low_proved <= low == 5e-324
    assert 1e300 == high <= high_proved
    assert [r.holds for r in check(model, [Monotone(0), Monotone(0, "down")], Domain([0], [1]))] == [True, False]
    with pytest.raises(ModelError, match="larger ones"):
        check(DecisionTreeRegressor().fit(X, [0.0, 1.7e308]), Range(0, 1), Domain([0], [1]))


def test_probabilities_differ_by_what_enumeration_finds():
    """Two stumps a model: every input is one of nine."""
    rng = np.random.default_rng(1)
    X = rng.random((200, 2))
    one = GradientBoostingClassifier(n_estimators=3, max_depth=1, random_state=0).fit(X, X[:, 0] > 0.4)
    two = GradientBoostingClassifier(n_estimators=5, max_depth=2, random_state=0).fit(X, X.sum(axis=1) > 1)
    domain = Domain([0, 0], [1, 1])
    grid = np.linspace(0, 1, 301)
    rows = np.stack(np.meshgrid(grid, grid), -1).reshape(-1, 2)
    gap = np.abs(one.predict_proba(rows)[:, 1] - two.predict_proba(rows)[:, 1]).max()
    found = measure(one, "difference", domain, other=two)
    assert found.bounds[0] == pytest.approx(gap, abs=1e-3)
    assert found.bounds[0] <= found.bounds[1] <= found.bounds[0] + 1e-4
    results = check(one, [Same(two, gap + 0.01), Same(two, gap - 0.01), Same(two)], domain)
    assert [result.holds for result in results] == [True, False, False]
    x = results[1].pair
    assert abs(one.predict_proba(x)[0, 1] - two.predict_proba(x)[0, 1]) > gap - 0.01
    assert one.predict(results[2].pair) != two.predict(results[2].pair)


@pytest.mark.parametrize(("tolerance", "outputs"), [(None, "probability"), (0.0, "score")])
@pytest.mark.parametrize(
    "library", ["XGBoost", "scikit-learn"]
)  # whose second class wins ties, and comes first in a file
def test_a_model_is_the_same_as_its_own_copy(numbers, tmp_path, library, tolerance, outputs):
    X, y = numbers
    model = (
        boosted(X, y) if library == "XGBoost" else GradientBoostingClassifier(n_estimators=3, random_state=0).fit(X, y)
    )
    as_ensemble(model).save(tmp_path / "copy.json")
    (result,) = check(model, Same(str(tmp_path / "copy.json"), tolerance), Domain.from_data(X), outputs=outputs)
    assert result.holds is True


def test_ends_are_compared_in_double_precision():
    """An end just above a prediction in single precision is not reached."""
    X = np.array([[0.0], [1.0]] * 10)
    model = xgb("Regressor", n_estimators=1, max_depth=1).fit(X, X[:, 0] / 3)
    most = math.nextafter(float(model.predict(X).max()), math.inf)
    assert check(model, Insensitive([0], most, most), Domain([0], [1]))[0].holds is not False


def test_text_that_only_one_of_two_models_asks_for_is_handed_out(table):
    X, y = table
    one = boosted(X[["age", "country"]], y, feature_weights=[1, 0], colsample_bynode=0.5)
    other = boosted(X[["age", "country"]], X["country"] == "fr")
    (result,) = check(one, Same(other), Domain.from_data(X[["age", "country"]]))
    assert one.predict(result.pair)[0] != other.predict(result.pair)[0]
    assert result.pair["country"].notna().all()


def test_a_gate_on_rows_stands_beside_statements_about_all_inputs(cancer):
    X, y = cancer
    model = RandomForestClassifier(5, max_depth=3, random_state=0).fit(X, y)
    statements = [Robust(Attacker("linf", 0.0), 0.9), Robust(Attacker("linf", 1.0), 0.9)]
    results = check(model, statements, Domain.from_data(X), rows=(X[:50], y[:50]))
    assert [result.holds for result in results] == [True, False]
    assert "Does not hold" in str(results)
    with pytest.raises(StatementError, match="with labels"):
        check(model, statements[0], Domain.from_data(X))
    begun: list = []
    with pytest.raises(RowError, match="Expected labels among"):  # before any work is done
        check(model, [Range(0, 1), statements[0]], Domain.from_data(X), rows=(X, y + 7), progress=begun.append)
    assert not begun


def test_a_domain_is_narrowed_by_name(table):
    X, y = table
    model, domain = boosted(X, y), Domain.from_data(X)
    narrow = domain.with_range("age", 30, 40).fixed(country="de", income=25.0)
    (low, _), (high, _) = measure(model, "range", narrow).bounds
    (wide_low, _), (wide_high, _) = measure(model, "range", domain).bounds
    assert wide_low <= low
    assert high <= wide_high
    assert check(model, Insensitive(["country"]), narrow)[0].holds is True


def test_a_domain_goes_to_a_file_and_back(table, tmp_path):
    X, _ = table
    domain = Domain.from_data(X)
    domain.save(tmp_path / "domain.json")
    assert Domain.load(tmp_path / "domain.json") == domain
    assert domain.missing.tolist() == [False, False, False, True]
    assert domain.integer.tolist() == [True, False, False, False]
    assert domain.values == {2: ("de", "fr", "it")}


def test_one_hot_columns_of_a_frame_are_found():
    X = pd.get_dummies(pd.DataFrame({"n": [1.5, 2.0, 3.0], "c": ["a", "b", "a"], "d": ["x", "x", "x"]}), dtype=float)
    assert Domain.from_data(X).groups == ((1, 2),)


DOMAIN = {"format": "certiforest domain", "version": 1}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Domain([0], [1, 2]), "one length"),
        (lambda: Domain([2], [1]), "got none between"),
        (lambda: Domain([0.2], [0.8], integer=[0]), "got none between"),
        (lambda: Domain([0, 0], [1, 1], columns=["a", "a"]), "once"),
        (lambda: Domain([0], [1], values={0: []}), "list of numbers"),
        (lambda: Domain([0], [1], values={0: ["a"]}), "whose values are text"),
        (lambda: Domain([0], [1], values={0: [10**400]}), "list of numbers"),
        (lambda: Domain([math.inf], [math.inf]), "got none between"),
        (lambda: Domain([0], [1]).with_range(0, "a", 1), "Expected numbers as ends"),
        (lambda: Domain.from_document(DOMAIN | {"columns": [{"values": ["a"], "low": 1}]}), "whose values are text"),
        (lambda: Domain.from_document(DOMAIN | {"columns": [{"low": 0, "high": 1}], "groups": 3}), "lists of columns"),
        (lambda: Domain.from_data([["a"]]), "got text"),
        (lambda: Domain.from_data(pd.DataFrame({"a": [2**53 + 1]})), "beyond 2"),
        (lambda: Domain.from_data(pd.DataFrame({"a": ["x", 3]})), "or of text"),
        (lambda: Domain.from_data(pd.DataFrame({"a": pd.to_datetime(["2020-01-01"])})), "got dates"),
        (lambda: Domain([0, 0], [1, 1], groups=[[0, 1]], missing=True), "one-hot"),
        (lambda: Domain([0, 0], [1, 1], groups=[[0, 1]], values={0: [1]}), "one-hot"),
        (lambda: Range(), "from low to high"),
        (lambda: Range(math.nan, 1), "number"),
        (lambda: Insensitive([]), "list of columns"),
        (lambda: Insensitive("sex"), "list of columns"),
        (lambda: Insensitive(["sex"], low=0.2), "together"),
        (lambda: Monotone("a", "sideways"), "up or down"),
        (lambda: Monotone("a", "up", -1.0), "at least 0"),
        (lambda: Robust(Attacker("l2", 1), 1.5), "share"),
        (lambda: read_statement({"range": [0, 1], "same": "x"}), "one of"),
        (lambda: read_statement({"range": [0, 1], "low": 3}), "no other entries"),
        (lambda: read_statement({"range": 3}), "list of low and high"),
    ],
)
def test_what_has_no_meaning_is_refused_with_a_sentence(make, message):
    with pytest.raises((DomainError, StatementError), match=message):
        make()


def test_statements_go_to_a_file_and_back():
    attacker = Attacker("l2", 0.5, frozen=[1])
    statements = [
        Range(high=0.9),
        Insensitive(["sex", 3], 0.25, 0.75),
        Insensitive([0]),
        Monotone("income", "down", 0.1),
        Robust(attacker, 0.5),
    ]
    for statement in statements:
        assert read_statement(json.loads(json.dumps(statement.to_document()))) == statement
    with pytest.raises(StatementError, match="path"):
        Same(attacker).to_document()


def test_steps_of_a_calibration_are_no_scores_to_compare(numbers):
    X, y = numbers
    tree = DecisionTreeClassifier(max_depth=3, random_state=0)
    model = CalibratedClassifierCV(tree, method="isotonic", ensemble=False, cv=2).fit(X, y)
    with pytest.raises(ModelError, match="isotonic"):
        check(model, Monotone(0, "up"), Domain.from_data(X))
    assert check(model, Insensitive([0]), Domain.from_data(X))[0].holds is not None


def test_questions_that_a_model_does_not_answer_are_refused(table, numbers):
    X, y = numbers
    domain = Domain.from_data(X)
    three = RandomForestClassifier(3, max_depth=2, random_state=0).fit(X, np.arange(len(X)) % 3)
    with pytest.raises(ModelError, match="two classes"):
        check(three, Range(0, 0.5), domain)
    assert check(three, Insensitive(["age"]), domain)[0].holds in (True, False)
    model = boosted(X, y)
    with pytest.raises(ModelError, match="outputs 'score'"):
        check(as_ensemble(model), Range(0, 0.5), domain)
    assert check(as_ensemble(model), Range(-1e6, 1e6), domain, outputs="score")[0].holds is True
    with pytest.raises(DomainError, match="column 0 of the domain"):
        check(model, Range(0, 0.5), Domain.from_data(X[["income", "age", "debt"]]))
    with pytest.raises(DomainError, match="no order"):
        check(boosted(*table), Monotone("country"), Domain.from_data(table[0]))
    with pytest.raises(StatementError, match="Expected columns"):
        measure(model, "gap", domain)
    with pytest.raises(StatementError, match="up or down"):
        measure(model, "fall", domain, column="age", direction="sideways")
    with pytest.raises(StatementError, match="at least, got none"):
        check(model, [], domain)
    with pytest.raises(StatementError, match="Expected a Domain"):
        check(model, Range(0, 0.5), X)
    with pytest.raises(StatementError, match="got a regressor"):
        check(RandomForestRegressor(2).fit(X, y), Robust(Attacker("l2", 1), 0.5), domain, rows=(X, y))


def test_results_are_a_frame(numbers):
    X, y = numbers
    model, statements, seen = boosted(X, y), [Range(0.0, 1.0), Insensitive(["age"])], []
    results = check(model, statements, Domain.from_data(X), n_jobs=2, progress=lambda *done: seen.append(done))
    assert seen == [(1, 2), (2, 2)]
    assert [result.statement for result in results] == statements
    frame = results.to_frame()
    assert frame["holds"].tolist() == [result.holds for result in results]
    assert "<table" in results._repr_html_()


def test_plausible_inputs_are_those_no_more_isolated_than_the_data(table, tmp_path):
    X, y = table
    model, everywhere, domain = boosted(X, y), Domain.from_data(X), Domain.from_data(X, plausible=0.2)
    rows = np.column_stack(
        [X["age"], X["income"], np.zeros(len(X)), np.zeros(len(X))]
    )  # numbers that are never missing
    sums = domain.plausible.decision_function(rows)
    assert 0.7 < np.mean(sums >= 0) <= 0.8
    domain.save(tmp_path / "d.json")
    assert Domain.load(tmp_path / "d.json") == domain != everywhere
    found = measure(model, "range", domain, time_limit=600)
    for side, (inner, outer) in zip(found.pair, (found.bounds[0][::-1], found.bounds[1]), strict=True):
        assert domain.plausible.decision_function([[*side.iloc[0, :2], 0, 0]])[0] >= 0
        assert model.predict_proba(side)[0, 1] == pytest.approx(inner, abs=1e-12)
        assert abs(outer - inner) < 1e-5
    (refuted,) = check(model, Insensitive(["age"]), domain)
    assert refuted.holds is False
    assert (domain.plausible.decision_function([[*row[:2], 0, 0] for row in refuted.pair.to_numpy()]) >= 0).all()


def test_a_scaled_model_sees_plausible_inputs_as_the_data_have_them(numbers):
    X, _ = numbers
    scaling = Scaling.of(X.to_numpy())
    domain = Domain.from_data(X, plausible=0.1)
    scaled = domain.scaled(scaling)
    expected = domain.plausible.decision_function(X.to_numpy()) >= 0
    assert ((scaled.plausible.decision_function(scaling.apply(X.to_numpy())) >= 0) == expected).all()


def test_where_nothing_is_plausible_statements_hold_and_nothing_is_measured(numbers):
    X, y = numbers
    model, domain = boosted(X, y), Domain.from_data(X)
    never = TreeEnsemble([-1], [0.0], [0], n_features=3, classes=[0, 1], scores=[[-1.0]], base=[0.0])
    nothing = Domain(domain.low, domain.high, columns=domain.columns, plausible=never)
    assert check(model, Range(0.4, 0.5), nothing)[0].holds is True
    with pytest.raises(DomainError, match="got none"):
        measure(model, "range", nothing)
    with pytest.raises(DomainError, match="share of rows"):
        Domain.from_data(X, plausible=1.0)
    with pytest.raises(DomainError, match="1 columns"):
        Domain([0], [1], plausible=nothing.plausible)


def test_differences_of_probabilities_are_certified_by_tangents(numbers, tmp_path):
    X, y = numbers
    model, domain = (
        HistGradientBoostingClassifier(max_iter=8, max_depth=3, random_state=0).fit(X, y),
        Domain.from_data(X),
    )
    found = measure(model, "gap", domain, columns=["income"], proof=True, time_limit=600)
    assert 0 <= found.bounds[1] - found.bounds[0] < 2e-5
    first, second = model.predict_proba(found.pair)[:, 1]
    assert first - second == pytest.approx(found.bounds[0], abs=1e-12)
    found.save(tmp_path / "c.jsonl")
    header, line, end = map(json.loads, (tmp_path / "c.jsonl").read_text().splitlines())
    assert line["cases"][0]["tangents"]

    def outcome(line):
        text = "\n".join(map(json.dumps, (header, line, end)))
        told = audit.audit(BytesIO("".join(pieces(found.model)).encode()), BytesIO(text.encode()))
        return told.counts["hold"]

    assert outcome(line) == 1
    lower = copy.deepcopy(line)
    lower["statement"]["most"] = found.bounds[0] - 1e-3
    assert outcome(lower) == 0  # it is not true
    for i in range(len(line["cases"][0]["tangents"])):
        lower["cases"][0]["tangents"][i][1] -= 2e-3  # as if made for that
    assert outcome(lower) == 0
    farther = copy.deepcopy(line)
    farther["cases"][0]["tangents"][0][1] += 1e-3  # a difference that is more than what is stated
    assert outcome(farther) == 0


@pytest.mark.parametrize("link", ["log", "log_odds"])
def test_tangents_are_below_what_follows(link):
    rng = random.Random(link)
    model = audit.Model(json.loads("".join(pieces(as_ensemble(DecisionTreeClassifier().fit([[0], [1]], [0, 1]))))))
    said = {"sign": 1, "link": link, "scale": [3, 2], "shift": [-1, 4]}
    one, other = (audit.Score(said, [0.0, 0.0], model, (0, place)) for place in (0, 1))

    def sum_of(score):
        return 1.5 * (math.log(score / (1 - score)) if link == "log_odds" else math.log(score)) - 0.25

    for _ in range(300):
        most = rng.choice([0.0, rng.random()])
        points = sorted(rng.random() * (1 - most) for _ in range(2)) if link == "log_odds" else [rng.random() * 9, 1.0]
        (need,) = one.tangent(other, (points[0], most), Fraction(most))
        (first,), (second,) = ([w for (_, place, _), w in need.weights.items() if place == x] for x in (0, 1))
        slack = 1e-9 * (1 + abs(first) + abs(second))
        for lower in points:  # where scores are so far apart, and at the tangent's own point exactly
            total = first * sum_of(lower + most) + second * sum_of(lower)
            assert total >= need.least - slack
        assert first * sum_of(points[0] + most) + second * sum_of(points[0]) == pytest.approx(
            float(need.least), abs=slack
        )
    with pytest.raises(audit.Refusal):
        one.tangent(other, (0.1, 0.3), Fraction(1, 4))
    with pytest.raises(audit.Refusal):
        one.tangent(other, (0.0, 0.3), Fraction(1, 2))

"""Attacker: what it accepts, and what its budgets are worth."""

import json
import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from certiforest import Attacker, RuleAttacker, scale_from
from certiforest.attack.attacker import AttackerError
from certiforest.words import shown


@pytest.mark.parametrize(
    ("norm", "expected"),
    [(0, 0), (1, 1), (2.0, 2), ("l1", 1), ("L2", 2), ("linf", math.inf), ("inf", math.inf), (np.inf, math.inf),
     ("l0", 0), (np.int64(3), 3), ("7", 7)],
)  # fmt: skip
def test_norms(norm, expected):
    assert Attacker(norm, 1).norm == expected


@pytest.mark.parametrize(
    "norm",
    [0.5, -1, "l", "two", math.nan, None, True, 1.5, -math.inf, [2], "l-2x", "-1", "-inf", "_2", "+1", "l--1", "١"],
)
def test_bad_norms(norm):
    with pytest.raises(AttackerError, match=r"Expected norm to be 0, 1, 2, 3, \.\.\. or inf, got"):
        Attacker(norm, 1)


@pytest.mark.parametrize("norm", [10_000, 10**400, 10**5000], ids=shown)
def test_enormous_norms_are_refused(norm):
    with pytest.raises(AttackerError, match="use norm=inf"):
        Attacker(norm, 0.1)


BAD_EPS = [-0.1, math.nan, math.inf, -math.inf, "much", None, 10**400, 10**5000, "0.1", True, [0.1], Decimal("0.1")]


@pytest.mark.parametrize("eps", [*BAD_EPS, 2**53 + 1], ids=shown)
def test_bad_eps(eps):
    with pytest.raises(AttackerError, match="Expected eps to be a finite number >= 0, got"):
        Attacker(2, eps)


def test_norm_0_counts_features():
    with pytest.raises(AttackerError, match="whole number of features"):
        Attacker(0, 1.5)
    assert not Attacker(0, 0.5).can_move
    assert Attacker(0, 1).can_move
    assert not Attacker(2, 0).can_move


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"scale": 0}, "Expected every scale to be a finite number > 0, got 0.0"),
        ({"scale": [1, -2]}, "got -2.0"),
        ({"scale": [1, math.nan]}, "got nan"),
        ({"scale": "wide"}, "Expected scale to hold numbers"),
        ({"scale": [[1]]}, "got shape"),
        ({"frozen": [-1]}, "Expected frozen feature indices >= 0, got -1"),
        ({"frozen": [0.5]}, "Expected frozen to list feature indices"),
        ({"scale": [10**400]}, "a number of 1329 bits"),
        ({"scale": ["1"]}, "got text"),
        ({"scale": np.array([1, 2], "m8[s]")}, "got durations"),
        ({"frozen": 0}, "Expected frozen to list feature indices or names, or to be a boolean mask, got 0"),
        ({"frozen": "0"}, "Expected frozen to list"),
        ({"frozen": [True, 2]}, "Expected frozen to list"),
        ({"frozen": [[0], [1, 2]]}, "Expected frozen to list"),
        ({"frozen": [10**400]}, "Expected frozen to list"),
        ({"domain": {0, 1}}, r"pair \(low, high\)"),
        ({"domain": {0: 1, 1: 2}}, r"pair \(low, high\)"),
        ({"domain": np.array(1.0)}, r"pair \(low, high\)"),
        ({"domain": (0, 10**400)}, "a number of 1329 bits"),
        ({"domain": 3}, r"pair \(low, high\)"),
        ({"domain": (1, 0)}, "low <= high"),
        ({"domain": (math.nan, 0)}, "low <= high"),
        ({"domain": ([0, 0], [1, 1, 1])}, "of one length, got 2 and 3"),
        ({"direction": "sideways"}, "up, down or both, got 'sideways'"),
        ({"direction": {0: "left"}}, "up, down or both, got 'left'"),
        ({"direction": {True: "up"}}, "direction by feature index or name"),
        ({"direction": 3}, "up, down or both, got 3"),
        ({"integer": "bytes"}, "Expected integer to list"),
        ({"integer": [1.5]}, "Expected integer to list"),
        ({"groups": [[0, 1], [1, 2]]}, "one group at most, got column 1 in 2 places"),
        ({"groups": [[0]]}, "two or more one-hot columns"),
        ({"groups": [0, 1]}, "Expected groups to list"),
        ({"groups": "ab"}, "lists of columns"),
        ({"groups": [[True, False]]}, "two or more one-hot columns"),
        ({"scale": (1.0, -1.0)}, "finite number > 0, got -1.0"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(AttackerError, match=message):
        Attacker(2, 0.1, **options)


def test_a_budget_beyond_all_floats_is_refused():
    with pytest.raises(AttackerError, match="finite number, got one above"):
        Attacker(2, 1e200, scale=1e200).moves(1).budgets()


def test_masks_indices_and_generators():
    assert Attacker(2, 1, frozen=[2, 0]).is_frozen(3).tolist() == [True, False, True]
    assert Attacker(2, 1, frozen=[True, False, True]).is_frozen(3).tolist() == [True, False, True]
    assert Attacker(2, 1, frozen=(f for f in [1])).is_frozen(3).tolist() == [False, True, False]
    assert Attacker(2, 1, frozen=[]).is_frozen(2).tolist() == [False, False]
    with pytest.raises(AttackerError, match="frozen for 2 features, got 3"):
        Attacker(2, 1, frozen=[True, False, True]).is_frozen(2)


positive = st.floats(min_value=5e-324, max_value=1e150)


@given(positive, positive, st.floats(0, 1e300), st.floats(0, 1e300))
def test_budgets_decide_as_rationals_do(eps, scale, a, b):
    from certiforest.attack.reach_kernels import is_within

    _, (high, _), (low, _) = Attacker(2, eps, scale=scale).moves(1).budgets()
    exact = Fraction(eps) * Fraction(scale)
    assert is_within(a, b, high[0], low[0]) == (Fraction(a) - Fraction(b) <= exact)
    # and right at the budget, where it matters
    for step in (-math.inf, math.inf):
        near = math.nextafter(high[0], step)
        for value in (high[0], near):
            if 0 <= value < math.inf:
                assert is_within(value, 0.0, high[0], low[0]) == (Fraction(value) <= exact)


def test_one_number_in_a_list_is_for_one_feature():
    for options in ({"scale": [2.0]}, {"domain": ([0.0], [1.0])}):
        with pytest.raises(AttackerError, match="for 3 features, got 1 values"):
            Attacker(2, 0.1, **options).scale_of(3), Attacker(2, 0.1, **options).bounds(3)
    assert Attacker(2, 0.1, scale=2.0).scale_of(3).tolist() == [2.0, 2.0, 2.0]


def test_with_eps_keeps_the_rest():
    attacker = Attacker(2, 0.1, scale=[1, 2], frozen=[1], domain=(0, 1)).with_eps(0.3)
    assert attacker.eps == 0.3
    assert repr(attacker) == "Attacker(norm=2, eps=0.3, scale=[1, 2], frozen=[1], domain=(0, 1))"


def test_costs_of_categories_and_missing_values_are_kept_and_written(tmp_path):
    assert Attacker("linf", 0.1, missing=None).to_document() == Attacker("linf", 0.1).to_document()
    attacker = Attacker(1, 2, categories={"color": 1, 3: 0.5}, missing=2)
    assert repr(attacker) == "Attacker(norm=1, eps=2.0, categories={'color': 1.0, 3: 0.5}, missing=2.0)"
    attacker.save(tmp_path / "attacker.json")
    assert Attacker.load(tmp_path / "attacker.json").to_document() == attacker.to_document()
    by_name = Attacker.from_document({"norm": 1, "eps": 2, "categories": {"color": 1}, "missing": 2})
    assert by_name.categories == {"color": 1.0}
    assert attacker.resolve(4, ["color", "a", "b", "size"]).categories == {0: 1.0, 3: 0.5}
    assert attacker.with_eps(3).missing == 2.0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"missing": 0}, "Expected missing to cost a finite number > 0"),
        ({"missing": True}, "Expected missing to cost a finite number > 0"),
        ({"missing": math.nan}, "Expected missing to cost a finite number > 0"),
        ({"missing": 2**53 + 1}, "Expected missing to cost a finite number > 0 that float64 holds"),
        ({"categories": {0: math.inf}}, "Expected categories to cost a finite number > 0"),
        ({"categories": {0: "dear"}}, "Expected categories to cost a finite number > 0"),
        ({"categories": [0]}, "Expected categories to be costs by feature index or name"),
        ({"categories": {True: 1.0}}, "Expected categories to be costs by feature index or name"),
        ({"categories": {5: 1.0}}, "between 0 and 1"),
        ({"categories": {"size": 1.0, 1: 2.0}}, "Expected every column once in categories"),
        ({"categories": {"size": 1.0}, "integer": [1]}, "Expected column 1 .'size'. of categories in no group"),
        ({"categories": {"size": 1.0}, "direction": {1: "up"}}, "Expected column 1 .'size'. of categories in no group"),
        ({"categories": {"size": 1.0}, "groups": [[0, 1]]}, "Expected column 1 .'size'. of categories in no group"),
    ],
)
def test_costs_that_have_no_meaning_are_refused_in_a_sentence(options, words):
    with pytest.raises(AttackerError, match=words):
        Attacker("linf", 0.1, **options).resolve(2, ["color", "size"])


@pytest.mark.parametrize("document", [[[0, 1.0], [0, 2.0]], [[0, 1.0, 2.0]], ["color"], [[True, 1.0]]])
def test_pairs_of_columns_and_costs_are_read_one_way_only(document):
    with pytest.raises(AttackerError, match="Expected"):
        Attacker.from_document({"norm": 1, "eps": 2, "categories": document})


def test_attackers_that_were_told_the_same_are_equal():
    told = dict(scale=[1.0, 2.0], frozen=["b"], direction={"a": "up"})
    assert Attacker("l2", 0.5, **told) == Attacker(2, 0.5, **told)
    assert hash(Attacker("l2", 0.5, **told)) == hash(Attacker(2, 0.5))
    assert Attacker(2, 0.5, **told) != Attacker(2, 0.5, **told | {"scale": [1.0, np.nextafter(2.0, 3.0)]})
    assert Attacker(1, 0.5) != RuleAttacker({0: []}, 0.5)
    assert Attacker(1, 0.5) != 0.5


NAMES = ["age", "gain", "job"]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"direction": {"up": ["age", "gain"]}}, {"direction": {"age": "up", "gain": "up"}}),
        ({"direction": {"up": ["age"], "gain": "down"}}, {"direction": {"age": "up", "gain": "down"}}),
        ({"direction": {"down": "up"}}, {"direction": {"up": ["down"]}}),  # a column that is called so
        ({"scale": {"age": 5, "gain": (1, 2), "job": 1}}, {"scale": {"age": [5, 5], "gain": [1, 2], "job": 1}}),
        ({"scale": {"down": {"age": 1}, "up": {"age": 2}}}, {"scale": {"age": (1, 2)}}),
        ({"scale": {"down": 1, "up": [1, 2, 3]}}, {"scale": (1, [1, 2, 3])}),
        ({"domain": {"age": (17, 99)}}, {"domain": {"age": [17, 99]}}),
    ],
)
def test_columns_are_told_by_one_grammar_in_python_and_in_files(one, other):
    attacker, same = Attacker(1, 2, **one), Attacker(1, 2, **other)
    assert attacker == same
    assert Attacker.from_document(json.loads(json.dumps({"norm": 1, "eps": 2, **one}))) == attacker
    assert Attacker.from_document(json.loads(json.dumps(attacker.to_document()))) == attacker


def test_what_is_told_by_column_is_shown_as_it_is_typed():
    attacker = Attacker(1, 2, scale={"age": 5, "gain": (1, 2)}, domain={0: (17, math.inf)})
    assert (
        repr(attacker) == "Attacker(norm=1, eps=2.0, scale={'age': 5.0, 'gain': [1.0, 2.0]}, domain={0: [17.0, inf]})"
    )


def test_units_and_limits_by_name_are_those_by_index():
    told = {"scale": {"age": 5, 1: (1, 2)}, "frozen": ["job"], "domain": {"gain": (0, math.inf), 0: (17, 99)}}
    resolved = Attacker("linf", 0.1, **told).resolve(3, NAMES)
    assert resolved == Attacker(
        "linf", 0.1, scale=([5, 1, 1], [5, 2, 1]), frozen=[2], domain=([17, 0, -math.inf], [99, math.inf, math.inf])
    ).resolve(3)
    assert Attacker("linf", 0.1, scale={"age": 5, "gain": 5}).resolve(3, NAMES, of_sets=[2]).scales(3)[0, 0] == 5


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"scale": {"age": 0.0}}, "got 0.0 for 'age'"),
        ({"scale": [1, 0, 1]}, "got 0.0 for feature 1"),
        ({"scale": {"age": 1}}, "Expected scale to name every column that can be changed, got none for 'gain', 'job'"),
        ({"scale": {"age": 1, 0: 2, "gain": 1}, "frozen": ["job"]}, "Expected every column once in scale"),
        ({"scale": {"size": 1}}, "Expected scale to name columns of the model, got 'size'"),
        ({"scale": {"age": (1, 2, 3)}}, r"a number, or a pair \(down, up\) for 'age'"),
        ({"scale": {"age": "5"}}, "got text for 'age'"),
        ({"scale": {"down": {"age": 1}, "up": {"gain": 1}}}, "the same columns down and up"),
        ({"scale": {}}, "Expected scale to name columns, got none"),
        ({"domain": {"age": (2, 1)}}, "low <= high for 'age', got 2.0 and 1.0"),
        ({"domain": {"age": 1}}, r"a pair \(low, high\) for 'age'"),
        ({"direction": {"up": ["age"], "down": ["age"]}}, "one direction for each column"),
        ({"direction": {"upwards": ["age"]}}, "up, down or both, got"),
        ({"direction": {"up": "age"}}, "up, down or both, got 'age'"),
    ],
)
def test_what_is_told_by_column_and_means_nothing_is_refused_by_name(options, words):
    with pytest.raises(AttackerError, match=words):
        Attacker("linf", 0.1, **options).resolve(3, NAMES)


def test_a_pair_of_units_is_read_one_way_only():
    with pytest.raises(AttackerError, match="read one way only"):
        Attacker(1, 1, scale={"down": 1, "up": 2}).resolve(3, ["up", "down", "age"])


def test_units_are_taken_from_tables():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"age": [20, 30, 40, None], "gain": [0, 0, 0, 9], "job": list("abca"), "one": 1.0})
    assert scale_from(frame) == {"age": 20.0, "gain": 9.0, "one": 1.0}
    assert scale_from(frame, "std") == {"age": np.std([20, 30, 40]), "gain": np.std([0, 0, 0, 9]), "one": 1.0}
    assert scale_from(frame, (0.25, 0.5)) == {"age": 5.0, "one": 1.0}  # quantiles of gain are equal
    assert scale_from(frame[["age", "gain"]].to_numpy()) == {0: 20.0, 1: 9.0}
    numbers = frame[["age", "gain"]]
    series = Attacker(1, 1, scale=numbers.max() - numbers.min(), frozen=["job"])  # a series has names
    assert series == Attacker(1, 1, scale=scale_from(numbers), frozen=["job"])
    with pytest.raises(AttackerError, match="got none for 'gain'"):
        Attacker(1, 1, scale=scale_from(frame, (0.25, 0.5)), frozen=["job"]).resolve(4, list(frame))
    with pytest.raises(AttackerError, match='Expected by to be "range"'):
        scale_from(frame, "width")

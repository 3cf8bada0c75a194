"""Attacker: what it accepts, and what its budgets are worth."""

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from certiforest import Attacker, RuleAttacker
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
        ({"categories": {"size": 1.0}, "integer": [1]}, "Expected column 1 of categories in no group"),
        ({"categories": {"size": 1.0}, "direction": {1: "up"}}, "Expected column 1 of categories in no group"),
        ({"categories": {"size": 1.0}, "groups": [[0, 1]]}, "Expected column 1 of categories in no group"),
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

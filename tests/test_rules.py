"""RuleAttacker: rules with costs, against the oracle, as files, and as another way to write an L1 attacker."""

import json
import math
import random
from dataclasses import replace

import numpy as np
import pytest

import oracle
import referee
from cases import attacker_of, ensemble_of, real_case, rule_case
from certiforest import Attacker, AttackerError, RuleAttacker, certify, has_large_spread
from shared_data import needs_shared, shared
from small_models import stumps

STUMPS = stumps((0, 2.5), (1, 0.5), classes=["ham", "spam"], feature_names=["links", "caps"])
ONE_UP = {"pre": "(0, np.inf)", "post": 1, "cost": 10, "is_numerical": True}


@pytest.mark.parametrize("combine", ["vote", "sum"])
@pytest.mark.parametrize("chunk", range(2))
def test_every_generated_case_is_decided(chunk, combine):
    outcomes = referee.run(300, seed=9_000 + chunk, time_limit=60, combine=combine, draw=rule_case)
    assert not any("unknown" in name for name in outcomes)


def test_rules_that_mimic_an_l1_attacker_agree_with_it():
    rng = random.Random("mimic")
    n_unstable = 0
    for _ in range(200):
        case = real_case(rng, norm=1, combine=rng.choice(["vote", "sum"]), apart=False)
        whole = [f for f in range(case.n_features) if oracle.group_of(case, f) is None]
        x = [math.floor(v) if f in whole else v for f, v in enumerate(case.x)]
        plain = replace(case, x=x, scale=None, scale_up=None, domain=None, direction=None, frozen=None, integer=whole)
        steps = [(True, [-math.inf, math.inf], 1.0, 1.0), (True, [-math.inf, math.inf], -1.0, 1.0)]
        rules = dict.fromkeys(whole, steps)
        for g, group in enumerate(plain.groups or []):
            places = [float(i) for i in range(len(group))]
            rules[-1 - g] = [(False, places, place, 1.0) for place in places]
        other = replace(plain, rules=rules)
        found = [certify(ensemble_of(c), [x], None, attacker_of(c), time_limit=60).stable[0] for c in (plain, other)]
        assert found[0] == found[1] >= 0, plain
        n_unstable += found[0] == 0
    assert n_unstable > 20


def test_cheap_detours_are_found():
    """Far values may be cheaper than near ones, and the way there may lead through others."""
    tree = (0, 0.5, 0, (0, 1.5, 1, (0, 7.5, 0, 1)))
    rules = {0: [(True, [0.0, 20.0], 4.0, 1.0), (False, [8.0], 1.0, 1.0)]}
    case = oracle.Case([tree], 1, 2, [0.0], 1, 3.0, rules=rules)
    with pytest.raises(AttackerError, match="to be numerical, or none"):
        attacker_of(case)
    case = replace(case, rules={0: [(True, [0.0, 20.0], 4.0, 1.0), (True, [8.0, 8.0], -7.0, 0.5)]})
    for eps in (0.5, 1.0, 1.5, 2.0, 2.5, 3.0):
        assert referee.judge(replace(case, eps=eps), time_limit=60)[0] == []


def test_names_documents_and_files(tmp_path):
    rules = {"links": [ONE_UP], "caps": [{"pre": [0], "post": 1, "cost": 25, "is_numerical": False}]}
    attacker = RuleAttacker(rules, 60)
    found = certify(STUMPS, [[0, 0], [0, 0.5]], ["ham", "ham"], attacker, witness=True, proof=True)
    assert found.stable.tolist() == [0, 1]
    assert found.witness[0].tolist() == [3, 1]
    attacker.save(tmp_path / "a.json")
    assert RuleAttacker.load(tmp_path / "a.json").to_document() == attacker.to_document()
    (tmp_path / "rules.json").write_text(json.dumps({"attacks": [{name: of} for name, of in rules.items()]}))
    assert RuleAttacker.load(tmp_path / "rules.json", 60).to_document() == attacker.to_document()
    assert certify(STUMPS, [[0, 0]], None, RuleAttacker.load(tmp_path / "rules.json", 54)).stable[0] == 1
    assert repr(attacker) == "RuleAttacker(2 rules on 2 columns, budget=60.0)"


def test_text_columns_are_one_hot_groups():
    rules = {"colour": [{"pre": "('red', 'blue')", "post": "green", "cost": 5, "is_numerical": False}]}
    groups = {"colour": {"red": "is_red", "green": "is_green", "blue": "is_blue"}}
    model = stumps((1, 0.5), n_features=3, feature_names=["is_red", "is_green", "is_blue"])
    found = certify(model, np.eye(3), None, RuleAttacker(rules, 5, groups=groups), witness=True)
    assert found.stable.tolist() == [0, 1, 0]  # green stays green
    assert found.witness[0].tolist() == found.witness[2].tolist() == [0, 1, 0]
    assert certify(model, np.eye(3), None, RuleAttacker(rules, 4.9, groups=groups)).stable.tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ({**ONE_UP, "cost": 0}, "finite number > 0"),
        ({**ONE_UP, "cost": -3}, "finite number > 0"),
        ({**ONE_UP, "cost": True}, "finite number > 0"),
        ({**ONE_UP, "cost": 2**53 + 1}, "that float64 holds"),
        ({**ONE_UP, "cost": 10**400}, "that float64 holds"),
        ({**ONE_UP, "pre": [2**53 + 1, 2**60]}, "pre \\(low, high\\)"),
        ({**ONE_UP, "pre": [0, 10**400]}, "pre \\(low, high\\)"),
        ({**ONE_UP, "post": 10**400}, "post other than 0"),
        ({**ONE_UP, "post": 0}, "post other than 0"),
        ({**ONE_UP, "post": "up"}, "post other than 0"),
        ({**ONE_UP, "pre": "(5, 3)"}, "pre \\(low, high\\)"),
        ({**ONE_UP, "pre": "(1, 2, 3)"}, "pre \\(low, high\\)"),
        ({**ONE_UP, "pre": "__import__('os')"}, "Expected pre to hold a tuple"),
        ({**ONE_UP, "pre": "(0, np.inf"}, "Expected pre to hold a tuple"),
        ({**ONE_UP, "pre": "(" * 500}, "Expected pre to hold a tuple"),
        ({**ONE_UP, "pre": "(0, os.inf)"}, "Expected pre to hold a tuple"),
        ({**ONE_UP, "pre": None}, "numbers or text"),
        ({**ONE_UP, "is_numerical": 1}, "a truth value"),
        ({"pre": "(0, 1)", "post": 1}, "a truth value"),
        ("(0, 1)", "a truth value"),
    ],
)
def test_bad_rules_get_one_sentence(rule, words):
    with pytest.raises(AttackerError, match=words):
        RuleAttacker({"links": [rule]}, 10)


@pytest.mark.parametrize(
    ("rules", "budget", "groups", "words"),
    [
        ({"links": [ONE_UP, {**ONE_UP, "cost": 3}]}, 1, None, "two rules on 'links' that do the same"),
        ({"links": [ONE_UP]}, -1, None, "budget to be a finite number >= 0"),
        ({"links": [ONE_UP]}, math.inf, None, "budget to be a finite number >= 0"),
        ({"links": ONE_UP}, 1, None, "a list of rules"),
        ([1], 1, None, "rules by column"),
        ("links", 1, None, "rules by column"),
        ({"links": [ONE_UP]}, 1, {"caps": {"a": 0, "b": 0}}, "one group at most"),
        ({"kind": [{**ONE_UP, "is_numerical": False}]}, 1, {"kind": {"a": 0, "b": 1}}, "one of its categories"),
    ],
)
def test_rules_without_meaning_get_one_sentence(rules, budget, groups, words):
    with pytest.raises(AttackerError, match=words):
        RuleAttacker(rules, budget, groups=groups)


def test_a_category_may_be_called_as_infinity_is():
    rules = {"kind": [{"pre": ["inf"], "post": "b", "cost": 1, "is_numerical": False}]}
    attacker = RuleAttacker(rules, 1, groups={"kind": {"inf": 0, "b": 1}})
    assert attacker.moves(2).price_list(2, 0.0) == [(0.0, 0), (1.0, 1)]
    assert attacker.to_document() == RuleAttacker.from_document(attacker.to_document()).to_document()


def test_rules_and_model_must_fit():
    for rules, words in [
        ({"size": [ONE_UP]}, "got 'size'"),
        ({5: [ONE_UP]}, "between 0 and 1, got 5"),
        ({"links": [ONE_UP], 0: [ONE_UP]}, "by name and by index|every column"),
        ({"links": [{"pre": "('a', 'b')", "post": "c", "cost": 1, "is_numerical": False}]}, "speak of numbers"),
    ]:
        with pytest.raises(AttackerError, match=words):
            certify(STUMPS, [[0, 0]], None, RuleAttacker(rules, 10))
    with pytest.raises(AttackerError, match="up to 100,000 values"):
        RuleAttacker({0: [{**ONE_UP, "cost": 1e-9}]}, 10).moves(2).price_list(0, 0.0)
    with pytest.raises(ValueError, match="Expected no radius with rules"):
        certify(STUMPS, [[0, 0]], None, RuleAttacker({"links": [ONE_UP]}, 10), radius=True)


@needs_shared
@pytest.mark.parametrize("name", ["malware", "census", "credit"])
def test_published_files_are_read(name):
    path = shared() / "data" / "tabular" / "treant" / f"{name}.attacks.json"
    attacker = RuleAttacker.load(path, 40)
    document = json.loads(path.read_text())
    assert sorted(attacker.rules) == sorted(column for part in document["attacks"] for column in part)
    assert RuleAttacker.from_document(attacker.to_document()).to_document() == attacker.to_document()


def test_a_rule_attacker_cannot_be_confused_with_a_plain_one():
    with pytest.raises(AttackerError, match="norm, eps"):
        Attacker.from_document({"budget": 1, "attacks": []})


def test_trees_that_share_a_group_of_rules_have_no_spread():
    groups = {"kind": {"a": 0, "b": 1}}
    attacker = RuleAttacker(
        {"kind": [{"pre": ["a"], "post": "b", "cost": 0.1, "is_numerical": False}]}, 0.5, groups=groups
    )
    assert not has_large_spread(STUMPS.replace(threshold=[0.5, 0, 0, 0.5, 0, 0]), attacker)
    assert has_large_spread(STUMPS, attacker)  # nobody gets to 2.5

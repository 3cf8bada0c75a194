"""Training for rules: everything that rules do to training rows is within the reach that trees are trained for."""

import numpy as np
import pandas
import pytest
from sklearn.base import clone

from certiforest import Attacker, RuleAttacker, certify, has_large_spread
from certiforest.attack.parameters import AttackerError
from certiforest.training.rule_reach import RuleReach
from trainers import KINDS

KINDS_FOR_RULES = {kind: make for kind, make in KINDS.items() if kind != "boosting, one budget"}  # that has a norm
UP = {"pre": "(0, 4)", "post": 1, "cost": 10, "is_numerical": True}
COLOURS = {"red": "is_red", "green": "is_green", "blue": "is_blue"}
NAMES = ["links", "pay", *COLOURS.values(), "age"]
RULES = RuleAttacker(
    {
        "links": [UP],
        "pay": [{**UP, "pre": "(-1.5, 5)", "post": -1.5}, {**UP, "pre": "(3, 9)", "post": 0.25, "cost": 15}],
        "colour": [{"pre": ["red", "blue"], "post": "green", "cost": 10, "is_numerical": False}],
    },
    20,
    groups={"colour": COLOURS},
)


def a_table(n_rows, seed, missing=0.0):
    """Return rows of six columns, of which rules change five, and labels that need links, pay and colours."""
    rng = np.random.default_rng(seed)
    colour = np.eye(3)[rng.integers(3, size=n_rows)]
    pay = np.round(rng.normal(2, 4, n_rows), 1)
    X = np.column_stack([rng.integers(0, 12, n_rows), pay, colour, rng.random(n_rows)])
    y = (X[:, 0] > 3) & (X[:, 5] > 0.3) | (pay > 2) & (colour[:, 0] == 1)
    X[rng.random(X.shape) < missing * np.isin(NAMES, ["links", "pay", "age"])] = np.nan
    return X, y.astype(int)


def random_rules(rng):
    """Return steps on one column and a jump on another."""
    distinct = {}
    for _ in range(rng.integers(1, 4)):
        low, step = float(rng.integers(-6, 6)), float(rng.choice([-3, -2.5, -1, -0.1, 0.1, 0.7, 2]))
        pre = [low, low + float(rng.integers(0, 8))]
        distinct[low, step] = {"pre": pre, "post": step, "cost": 1, "is_numerical": True}
    values = [float(v) for v in rng.choice(np.arange(-5, 6), 3)]
    jump = {"pre": values[:2], "post": values[2], "cost": 2, "is_numerical": False}
    return RuleAttacker({0: list(distinct.values()), 1: [jump]}, int(rng.integers(1, 5)))


@pytest.mark.parametrize("seed", range(40))
def test_all_that_rules_do_is_within_reach(seed):
    rng = np.random.default_rng(seed)
    attacker = random_rules(rng).resolve(2)
    X = np.where(rng.random((60, 2)) < 0.1, np.nan, np.round(rng.uniform(-7, 7, (60, 2)), rng.integers(0, 3)))
    moves = attacker.moves(2)
    menus = {f: {v: [w for w, _ in moves.price_list(f, v)] for v in X[~np.isnan(X[:, f]), f]} for f in (0, 1)}
    moving = [f for f, of in menus.items() if max(map(len, of.values())) > 1]
    if not moving:
        with pytest.raises(AttackerError, match="change a value of the training rows"):
            RuleReach.of(X, attacker)
        return
    reach = RuleReach.of(X, attacker)
    assert sorted(reach.columns) == moving
    assert (np.isnan(reach.stretch(X)) == np.isnan(X)).all()
    down, up = np.maximum(reach.attacker.moves(2).budgets().rounded, 0)
    for f, column in reach.columns.items():
        for value, menu in menus[f].items():
            moves = column.stretch(np.array(menu)) - column.stretch(np.array([value]))
            assert -down[f] <= moves.min() <= moves.max() <= up[f]
        # A threshold between two places is between the same two values.
        halfway = (column.place[1:] + column.place[:-1]) / 2
        threshold = np.concatenate([halfway, column.place, column.place - 1e-9, [-99.0, 1e9]])
        is_left = column.place[:, None] <= threshold
        assert ((column.value[:, None] <= column.restore(threshold)) == is_left).all()


def test_values_that_no_rule_connects_are_out_of_reach():
    education = RuleAttacker({0: [{"pre": "(13, 16)", "post": -1, "cost": 20, "is_numerical": True}]}, 60).resolve(2)
    reach = RuleReach.of(np.column_stack([np.arange(8.0, 17), np.zeros(9)]), education)
    place = reach.columns[0].place
    assert reach.attacker.direction == {0: "down"}
    assert reach.attacker.is_frozen(2).tolist() == [False, True]
    assert 3 <= reach.attacker.scales(2)[0, 0] < 3.0001 < np.diff(place)[:4].min()  # up to 12 nobody moves
    assert np.diff(place)[4:] == pytest.approx(1)


@pytest.mark.filterwarnings("ignore:Expected 5 trees")
@pytest.mark.parametrize("missing", [0.0, 0.2])
@pytest.mark.parametrize("kind", KINDS_FOR_RULES)
def test_what_training_counts_as_stable_is_stable(kind, missing):
    """The trees on stretched rows, against the reach, are a bound of what `certify` says of training rows."""
    X, y = a_table(400, 0, missing)
    frame, attacker = pandas.DataFrame(X, columns=NAMES), RULES
    model = clone(KINDS_FOR_RULES[kind](attacker=attacker, random_state=0)).fit(frame, y)
    assert isinstance(model.attacker_, RuleAttacker)
    found = certify(model, frame, y, attacker)
    assert (found.stable >= 0).all()
    assert found.robust_accuracy > 0.7
    reach = RuleReach.of(X, attacker.resolve(6, NAMES))
    stretched = KINDS_FOR_RULES[kind](attacker=reach.attacker, random_state=0).fit(reach.stretch(X), y)
    bound = certify(stretched, reach.stretch(X), y, reach.attacker)
    assert (bound.prediction == found.prediction).all()
    assert (found.stable >= bound.stable).all()
    assert (found.stable == 0).any() or kind == "additive"
    assert kind == "robust boosting" or has_large_spread(stretched.ensemble_, reach.attacker)
    assert certify(model, a_table(50, 1)[0], None, attacker).stable.min() >= 0


@pytest.mark.filterwarnings("ignore:Expected 5 trees")
@pytest.mark.parametrize("kind", KINDS_FOR_RULES)
def test_an_attacker_is_the_same_as_its_description(kind):
    X, y = a_table(200, 2)
    options = {"eps": 0.3, "scale": [1, 2, 1, 1, 1, 0.2], "frozen": [2, 3, 4], "direction": {1: "up"}, "norm": np.inf}
    described = KINDS_FOR_RULES[kind](**options, random_state=0).fit(X, y)
    attacker = Attacker(**options, domain=(-99, 99))
    given = KINDS_FOR_RULES[kind](attacker=attacker, random_state=0).fit(X, y)
    assert given.ensemble_ == described.ensemble_
    assert given.attacker_ == attacker.resolve(6)


@pytest.mark.parametrize("kind", KINDS_FOR_RULES)
def test_bad_attackers_get_one_sentence(kind):
    X, y = a_table(50, 3)
    make = KINDS_FOR_RULES[kind]
    up = RuleAttacker({0: [UP]}, 20)
    for options, words in [
        ({"attacker": up, "eps": 0.3}, "Expected attacker alone, .* got attacker and eps=0.3; leave eps out"),
        ({"attacker": up, "norm": 3}, "got attacker and norm=3"),
        ({"attacker": up, "scale": [1.0] * 6}, "got attacker and scale="),
        ({"attacker": up, "frozen": []}, "got attacker and frozen="),
        ({"attacker": Attacker(1, 1), "direction": "up"}, "got attacker and direction='up'"),
        ({"attacker": "linf"}, "to be an Attacker or a RuleAttacker, got 'linf'"),
        ({"attacker": Attacker(1, 0)}, "who can move rows, got Attacker.norm=1, eps=0.0."),
        ({"attacker": up.with_eps(0)}, "who can move rows, got RuleAttacker"),
        ({"attacker": up.with_eps(9)}, "change a value of the training rows within the budget, got none; raise"),
        ({"attacker": Attacker(1, 1, groups=[[2, 3, 4]])}, "or by rules, which trainers know, got groups"),
        ({"attacker": Attacker(1, 1, missing=1)}, "which trainers know, got missing; leave that out"),
        ({"attacker": Attacker(1, 1, categories={0: 1})}, "which trainers know, got categories"),
        ({"attacker": RuleAttacker({"links": [UP]}, 20)}, "got 'links'"),
    ]:
        with pytest.raises(ValueError, match=words):
            make(**options).fit(X, y)


def test_a_budget_that_leaves_one_class_is_warned_of():
    X, y = np.arange(10.0)[:, None], np.arange(10) >= 5
    attacker = RuleAttacker({0: [{**UP, "pre": "(-99, 99)"}, {**UP, "pre": "(-99, 99)", "post": -1}]}, 200)
    with pytest.warns(UserWarning, match="With a budget of 200 nothing that was found .* better; lower the budget.$"):
        KINDS["robust boosting"](attacker=attacker).fit(X, y)

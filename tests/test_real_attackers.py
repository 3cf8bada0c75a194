"""Attackers as they are: one way only, by whole numbers, one-hot columns together; and who attacks at all."""

import json
import math
import random
from dataclasses import replace

import numpy as np
import pytest

import oracle
import referee
from cases import NORMS, attacker_of, ensemble_of, real_case
from certiforest import Attacker, AttackerError, Certificates, RowError, TreeEnsemble, audit, certify, has_large_spread
from certiforest import spread as spread_of
from certiforest.attack.spread import overlaps
from small_models import stumps


def stable_of(case):
    return certify(ensemble_of(case), [case.x], None, attacker_of(case), time_limit=60).stable[0]


@pytest.mark.parametrize("norm", NORMS)
def test_whatever_holds_an_attacker_back_only_weakens_it(norm):
    rng = random.Random(f"order {norm}")
    n_weaker = 0
    for _ in range(150):
        case = replace(real_case(rng, norm=norm, combine=rng.choice(["vote", "sum"]), apart=False), scale_up=None)
        held = rng.choice([f for f in range(case.n_features) if oracle.group_of(case, f) is None])
        low = case.domain or ([min(case.x)] * case.n_features, [max(case.x)] * case.n_features)
        stronger = [
            replace(case, direction=None),
            replace(case, integer=None),
            replace(case, frozen=None),
            replace(case, domain=None),
            replace(case, groups=None) if norm in (0, math.inf) else case,
        ]
        weaker = [
            replace(case, direction={**(case.direction or {}), held: "up"}) if not case.direction else case,
            replace(case, frozen=sorted({*(case.frozen or ()), held})),
            replace(case, domain=low) if case.domain is None and not case.groups and not case.integer else case,
        ]
        if norm == 0 and case.groups:  # a category more costs one feature with the group, two without
            stronger[-1] = replace(case, groups=None, eps=2 * case.eps)
        own = stable_of(case)
        for other in stronger:
            if stable_of(other) == 1:
                assert own == 1, (case, other)
        for other in weaker:
            if own == 1:
                assert stable_of(other) == 1, (case, other)
            n_weaker += own == 0 and stable_of(other) == 1
    assert n_weaker > 0


@pytest.mark.parametrize("norm", [1, 2, math.inf])
def test_order_on_a_trained_forest(norm):
    from sklearn.ensemble import RandomForestClassifier

    rng = np.random.default_rng(0)
    X = rng.integers(0, 40, size=(400, 6)).astype(float)
    y = (X[:, 0] + X[:, 1] - X[:, 2] + rng.normal(0, 8, 400) > 20).astype(int)
    forest = RandomForestClassifier(25, max_depth=5, random_state=0).fit(X[:200], y[:200])
    plain = Attacker(norm, 2.5)
    options = {"both": {}, "up": {"direction": "up"}, "whole": {"integer": range(6)}}
    options["both of these"] = {"direction": "up", "integer": range(6)}
    found = {name: certify(forest, X[200:], y[200:], plain.replace(**o), witness=True) for name, o in options.items()}
    for weak, strong in (("up", "both"), ("whole", "both"), ("both of these", "up"), ("both of these", "whole")):
        assert not np.any((found[weak].stable == 0) & (found[strong].stable == 1))
        assert (found[weak].stable == 1).sum() > (found[strong].stable == 1).sum()
    for name in ("up", "whole", "both of these"):
        broken = found[name].stable == 0
        z, x = found[name].witness[broken], X[200:][broken]
        assert broken.any()
        assert (forest.predict(z) != forest.predict(x)).all()
        assert "up" not in name or (z >= x).all()
        assert name == "up" or (z == np.floor(z)).all()


def test_witnesses_of_a_one_hot_table_are_one_hot():
    from sklearn.ensemble import RandomForestClassifier

    rng = np.random.default_rng(1)
    colour, shape, size = rng.integers(0, 4, 500), rng.integers(0, 3, 500), rng.uniform(size=500)
    X = np.column_stack([np.eye(4)[colour], np.eye(3)[shape], size])
    y = ((colour % 2) ^ (shape == 1) ^ (size > 0.5)).astype(int)
    forest = RandomForestClassifier(15, max_depth=6, random_state=0).fit(X[:300], y[:300])
    groups = [[0, 1, 2, 3], [4, 5, 6]]
    for attacker in (Attacker(0, 1, groups=groups), Attacker(0, 2, groups=groups), Attacker(1, 1.2, groups=groups)):
        found = certify(forest, X[300:], y[300:], attacker, witness=True, radius=True)
        assert (found.stable >= 0).all()
        z = found.witness[found.stable == 0]
        assert len(z) > 20
        for group in groups:
            assert np.isin(z[:, group], (0, 1)).all()
            assert (z[:, group].sum(axis=1) == 1).all()
        assert (forest.predict(z) != found.prediction[found.stable == 0]).all()
    # A group whose change is out of reach does not move at all.
    held = certify(forest, X[300:], y[300:], Attacker("linf", 0.9, groups=groups, domain=(0, 1)), witness=True)
    assert (held.witness[held.stable == 0][:, :7] == X[300:][held.stable == 0][:, :7]).all()


def test_one_way_needs_half_the_spread():
    trees = stumps((0, 0.5), (0, 0.75))
    assert spread_of(trees) == 0.25
    assert spread_of(trees, direction="up") == 0.5
    assert spread_of(trees, scale=([1.0], [3.0])) == 0.125
    for eps, both, up in ((0.124, True, True), (0.125, False, True), (0.249, False, True), (0.25, False, False)):
        assert has_large_spread(trees, Attacker("linf", eps)) == both
        assert has_large_spread(trees, Attacker("linf", eps, direction={0: "up"})) == up
        assert (len(overlaps(trees, Attacker("linf", eps, direction="up")).feature) == 0) == up


def test_trees_that_test_one_group_are_close_if_it_can_change():
    trees = stumps((0, 0.5), (1, 0.5))
    assert spread_of(trees) == math.inf
    assert spread_of(trees, groups=[[0, 1]], scale=0.5) == 4.0
    assert has_large_spread(trees, Attacker("linf", 1.9, scale=0.5, groups=[[0, 1]]))
    assert not has_large_spread(trees, Attacker("linf", 2.0, scale=0.5, groups=[[0, 1]]))
    assert len(overlaps(trees, Attacker("linf", 2.0, scale=0.5, groups=[[0, 1]])).feature) == 1
    assert not has_large_spread(trees, Attacker(0, 1, groups=[[0, 1]]))


# ---- Names and files -------------------------------------------------------------------------------------------------

NAMED = TreeEnsemble(
    [0, -1, 1, -1, -1],
    [2.5, 0, 0.5, 0, 0],
    [-1, 0, -1, 0, 1],
    n_features=4,
    classes=["ham", "spam"],
    feature_names=["bytes", "red", "green", "age"],
)


def test_columns_go_by_name_or_index():
    by_name = Attacker(1, 2, direction={"bytes": "up"}, integer=["bytes"], groups=[["red", "green"]], frozen=["age"])
    by_index = Attacker(1, 2, direction={0: "up"}, integer=[0], groups=[[1, 2]], frozen=[3])
    found = certify(NAMED, [[1, 0, 1, 7]], None, by_name, witness=True)
    assert found.witness.tolist() == [[3, 1, 0, 7]] or found.stable[0] == 1
    assert found == certify(NAMED, [[1, 0, 1, 7]], None, by_index, witness=True)
    assert found.attacker.to_document() == by_index.to_document()
    wider = certify(NAMED, [[1, 0, 1, 7]], None, by_name.with_eps(3), witness=True)
    assert wider.witness.tolist() == [[3, 1, 0, 7]]


def test_attackers_are_saved_and_loaded(tmp_path):
    path = tmp_path / "attacker.json"
    for attacker in [
        Attacker("linf", 0.1),
        Attacker(2, 0.1, scale=(1, 2.5), direction="down", integer=[3, 1]),
        Attacker(0, 2, frozen=["a", 3], groups=[["x", "y", 7]], domain=(0, math.inf)),
        Attacker(1, 9, scale=([1.0, 2.0], [0.1, 3.0]), direction={"a": "up", 4: "down", "b": "both"}),
    ]:
        attacker.save(path)
        assert Attacker.load(path).to_document() == attacker.to_document()
        assert repr(Attacker.load(path)) == repr(attacker) or isinstance(attacker.direction, dict)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"format": "certiforest attacker", "version": 2, "norm": 1, "eps": 1}', "Expected version 1, got 2"),
        ('{"norm": 1, "eps": 1}', 'Expected the entry "format"'),
        ('{"format": "certiforest attacker", "version": 1, "norm": 1}', "with norm, eps"),
        ('{"format": "certiforest attacker", "version": 1, "norm": 1, "eps": 1, "mood": 2}', "with norm, eps"),
        ('{"format": "certiforest attacker", "version": 1, "norm": 1, "eps": 1, "eps": 2}', "every name once"),
        ('{"format": "certiforest attacker", "version": 1, "norm": 1, "eps": NaN}', "finite numbers, got NaN"),
        ('{"format": "certiforest attacker", "version": 1, "norm": 1, "eps": -1}', "eps to be a finite number >= 0"),
        ('{"format": "certiforest attacker", "version": 1, "norm": 1, "eps": 1, "direction": {"up": 3}}', "a list of"),
        (
            '{"format": "certiforest attacker", "version": 1, "norm": 1, "eps": 1, "direction": {"left": []}}',
            "up, down",
        ),
        ('{"format": "certiforest attacker", "version": 1, "norm": 1, "eps": 1, "scale": {"up": 1}}', "down and up"),
        ("[1", "JSON text"),
        ("[1]", 'Expected the entry "format"'),
        ("[" * 100_000, "JSON text"),
    ],
)
def test_bad_files_get_one_sentence(text, words, tmp_path):
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(AttackerError, match=words):
        Attacker.load(tmp_path / "a.json")


@pytest.mark.parametrize(
    ("attacker", "words"),
    [
        (Attacker(1, 1, frozen=["blue"]), "got 'blue', which is none of them"),
        (Attacker(1, 1, direction={"blue": "up"}), "got 'blue'"),
        (Attacker(1, 1, integer=[9]), "integer features between 0 and 3, got 9"),
        (Attacker(1, 1, groups=[["red", 1]]), "Expected every column once in groups"),
        (Attacker(1, 1, groups=[["red", "green"], [2, 3]]), "one group at most"),
        (Attacker(1, 1, groups=[["red", "green"]], frozen=["red"]), "frozen, or none"),
        (Attacker(1, 1, groups=[["red", "green"]], scale=[1, 1, 2, 1]), "one scale for all columns of group 0"),
        (Attacker(1, 1, groups=[["red", "green"]], direction="up"), "to move both ways"),
        (Attacker(1, 1, groups=[["red", "green"]], domain=(0, 0.5)), "holds 0 and 1"),
        (Attacker(1, 1, integer=[3], domain=(0.2, 0.8)), "holds a whole number"),
    ],
)
def test_columns_that_do_not_fit_the_model_get_one_sentence(attacker, words):
    with pytest.raises(AttackerError, match=words):
        certify(NAMED, [[1, 0, 1, 0.5]], None, attacker)


def test_a_pair_of_scales_for_two_features_could_mean_two_things():
    model = stumps((0, 0.5), n_features=2)
    with pytest.raises(AttackerError, match="read one way only"):
        certify(model, [[0, 0]], None, Attacker(1, 1, scale=(1.0, 2.0)))
    assert certify(model, [[0, 0]], None, Attacker(1, 1, scale=[1.0, 2.0])).stable[0] == 0
    assert certify(model, [[0, 0]], None, Attacker(1, 1, scale=([1.0, 1.0], [0.5, 2.0]))).stable[0] == 1


def test_names_need_a_model_that_has_some():
    model = stumps((0, 0.5), n_features=2)
    with pytest.raises(AttackerError, match="the model has no names for them, got 'bytes'"):
        certify(model, [[0, 0]], None, Attacker(1, 1, frozen=["bytes"]))


@pytest.mark.parametrize(
    ("row", "options", "words"),
    [
        ([0, 1, 1, 0], {"groups": [[1, 2]]}, "one 1 and else 0 in the columns of group 0"),
        ([0, 0, 0, 0], {"groups": [[1, 2]]}, "one 1 and else 0"),
        ([0, 0.5, 0.5, 0], {"groups": [[1, 2]]}, "one 1 and else 0"),
        ([0.5, 0, 1, 0], {"integer": [0]}, "whole numbers in integer columns, got 0.5 in row 1, feature 0"),
        ([5, 0, 1, 0], {"domain": (0, 1)}, "inside the attacker's domain"),
    ],
)
def test_rows_that_the_attacker_could_not_find_get_one_sentence(row, options, words):
    with pytest.raises(RowError, match=words):
        certify(NAMED, [[0, 1, 0, 1], row], None, Attacker(1, 1, **options))


# ---- Who attacks -----------------------------------------------------------------------------------------------------


@pytest.fixture
def fraud():
    """Few frauds, a forest, rows to certify."""
    from sklearn.ensemble import RandomForestClassifier

    rng = np.random.default_rng(2)
    X = rng.normal(size=(900, 5))
    y = (X[:, 0] + X[:, 1] + rng.normal(0, 0.3, 900) > 2).astype(int)
    forest = RandomForestClassifier(25, max_depth=5, random_state=0).fit(X[:500], y[:500])
    return forest, X[500:], y[500:]


def test_only_rows_of_attacked_classes_are_attacked(fraud):
    forest, X, y = fraud
    attacker = Attacker("linf", 0.2)
    every = certify(forest, X, y, attacker, radius=True, witness=True)
    some = certify(forest, X, y, attacker, radius=True, witness=True, attacked=[1])
    is_spared = y == 0
    assert (some.stable[is_spared] == 1).all()
    assert set(some.method[is_spared]) == {"spared"}
    assert np.isinf(some.radius[is_spared]).all()
    assert np.isnan(some.witness[is_spared]).all()
    for name in ("stable", "method", "radius", "prediction"):
        np.testing.assert_array_equal(getattr(some, name)[~is_spared], getattr(every, name)[~is_spared])
    assert some.recall == every.recall
    assert some.recall[1] == np.mean(some.prediction[y == 1] == 1)
    assert some.robust_recall[0] == some.recall[0]
    assert some.robust_recall[1] == every.robust_recall[1] < every.recall[1]
    assert every.robust_recall[0] < some.robust_recall[0]
    by_prediction = certify(forest, X, None, attacker, attacked=[1])
    assert set(by_prediction.method[by_prediction.prediction == 0]) == {"spared"}
    assert "spared" not in by_prediction.method[by_prediction.prediction == 1]


@pytest.mark.parametrize("labels", [[2], "1", [None], 1, ["0"]])
def test_attacked_labels_are_those_of_the_model(fraud, labels):
    forest, X, y = fraud
    with pytest.raises(ValueError, match="Expected attacked to"):
        certify(forest, X[:3], y[:3], Attacker("linf", 0.2), attacked=labels)


def test_the_auditor_knows_who_attacks(fraud, tmp_path, capsys):
    forest, X, y = fraud
    from certiforest import as_ensemble

    model = as_ensemble(forest)
    model.save(tmp_path / "m.json")
    rows = np.r_[np.flatnonzero(y == 1)[:10], np.flatnonzero(y == 0)[:10]]
    paths = [str(tmp_path / "m.json"), str(tmp_path / "c.jsonl")]
    for label in (y[rows], None):
        found = certify(model, X[rows], label, Attacker("linf", 0.2), attacked=[1], proof=True, radius=True)
        found.save(paths[1])
        assert Certificates.load(paths[1]) == found
        assert audit.main(paths) == 0
        assert "Only rows of these classes are attacked: 1." in capsys.readouterr().out
    header, *lines = (tmp_path / "c.jsonl").read_text().splitlines()
    without = {name: value for name, value in json.loads(header).items() if name != "attacked"}
    (tmp_path / "c.jsonl").write_text("\n".join([json.dumps(without), *lines]) + "\n")
    assert audit.main(paths) == 1
    capsys.readouterr()
    (tmp_path / "c.jsonl").write_text("\n".join([json.dumps({**without, "attacked": [7]}), *lines]) + "\n")
    assert audit.main(paths) == 2


def test_a_change_of_category_turns_two_columns_and_is_one_change():
    tree = (1, 0.5, 0, (0, 0.5, 1, 0))  # set, and the first one not: another category
    for norm in NORMS:
        case = oracle.Case([tree], 2, 2, [1.0, 0.0], norm, 1.0, groups=[[0, 1]])
        assert referee.judge(case, time_limit=60) == ([], "unstable, radius exact")
        below = replace(case, eps=0.0 if norm == 0 else math.nextafter(1.0, 0.0))
        assert referee.judge(below, time_limit=60) == ([], "stable, radius exact")


# ---- Training --------------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("kind", ["grow", "prune", "boosting", "robust boosting"])
def test_trainers_know_one_way_attackers(kind):
    from certiforest import LargeSpreadBoostingClassifier, LargeSpreadForestClassifier, RobustBoostingClassifier

    rng = np.random.default_rng(5)
    X = rng.uniform(size=(600, 5))
    y = (X[:, 0] + 0.3 * X[:, 1] > 0.65).astype(int)
    common = {"eps": 0.08, "random_state": 0}

    def fitted(direction):
        if kind == "boosting":
            model = LargeSpreadBoostingClassifier(20, 2, direction=direction, **common)
        elif kind == "robust boosting":
            model = RobustBoostingClassifier(20, 3, direction=direction, **common)
        else:
            more = {"method": kind, "on_shortfall": "keep", "direction": direction}
            model = LargeSpreadForestClassifier(15, 3, **more, **common)
        return model.fit(X[:400], y[:400])

    attacker = Attacker("linf", 0.08, direction="up")
    one_way, both = fitted("up"), fitted(None)
    assert one_way.attacker_.direction == "up"
    found = certify(one_way, X[400:], y[400:], attacker)
    assert (found.stable >= 0).all()
    if kind != "robust boosting":
        assert has_large_spread(one_way.ensemble_, attacker)
        assert not has_large_spread(one_way.ensemble_, Attacker("linf", 0.08))
        assert one_way.ensemble_.n_trees >= both.ensemble_.n_trees  # a threshold closes half as much
    if "boosting" in kind:
        assert found.robust_accuracy > 0.8

"""Attackers that are told what it costs to change a category, to blank and to fill: on trained models, end to end."""

import json
import sys

import numpy as np
import pytest

from certiforest import (
    Attacker,
    TreeEnsemble,
    as_ensemble,
    audit,
    certify,
    explain,
    has_large_spread,
    overlaps,
    spread,
)
from certiforest.attack.parameters import AttackerError
from small_models import audited, stumps
from test_categories import MODELS, WORDS, table

LARGEST = sys.float_info.max

pd = pytest.importorskip("pandas")
ATTACKERS = {
    "linf": Attacker("linf", 0.1, categories={"tree": 0.1}, missing=0.1),
    "l1": Attacker(1, 1.0, categories={"tree": 0.6}, missing=0.5),
    "l2": Attacker(2, 1.0, categories={"tree": 0.6}, missing=0.9),
    "l0": Attacker(0, 1, categories={"tree": 3}, missing=3),
    "only categories": Attacker("linf", 0.1, categories={1: 0.05}),
    "only missing": Attacker(1, 1.0, missing=0.5),
}


def frame_of(rows):
    """Write rows of codes as the frame that a library takes."""
    names = [None if code != code else WORDS_SORTED[int(code)] for code in rows[:, 1]]
    category = pd.Categorical(names, categories=WORDS_SORTED)
    return pd.DataFrame({"a": rows[:, 0], "tree": category, "b": rows[:, 2]})


WORDS_SORTED = sorted(WORDS)


@pytest.mark.parametrize("attacker", ATTACKERS)
@pytest.mark.parametrize("kind", MODELS)
def test_witnesses_flip_the_library_and_stable_rows_withstand_samples(kind, attacker, tmp_path):
    frame, y = table()
    model, attacker = MODELS[kind]().fit(frame, y), ATTACKERS[attacker]
    ensemble, rows = as_ensemble(model), frame[:30]
    c = certify(model, rows, None, attacker, radius=True, witness=True, proof=True, time_limit=20)
    broken = c.stable == 0
    assert broken.any()
    assert (c.stable >= 0).all()
    assert (model.predict(frame_of(c.witness[broken])) != model.predict(rows[broken])).all()
    assert (c.radius[broken] <= attacker.eps).all()
    assert (c.radius[~broken] > attacker.eps).all()
    assert c.radius_is_exact.all()
    found = audited(ensemble, c, tmp_path)
    assert found.doubts == []
    assert found.counts["stable"] == (~broken).sum()
    rng = np.random.default_rng(1)
    X = c.rows[~broken]
    for _ in range(300):
        assert (ensemble.predict(sampled(rng, X, attacker)) == c.prediction[~broken]).all()


def sampled(rng, X, attacker):
    """Return rows changed within the budget: one by one, in random order, while it lasts."""
    Z = X.copy()
    change = (attacker.categories or {}).get("tree", (attacker.categories or {}).get(1))
    for x, z in zip(X, Z, strict=True):
        left = attacker.eps if attacker.norm in (0, 1) else attacker.eps**2 if attacker.norm == 2 else None
        for f in rng.permutation(3):
            kinds = ["move", "blank", "change"] if f == 1 else ["move", "blank"]
            kind = rng.choice(kinds)
            missing = np.isnan(x[f])
            if kind == "change" and change is not None and not missing:
                cost, value = change, float(rng.integers(0, 8))
            elif kind == "blank" and attacker.missing is not None and (f != 1 or change is not None):
                filled = float(rng.integers(0, 8)) if f == 1 else rng.normal()
                cost, value = attacker.missing, filled if missing else np.nan
            elif kind == "move" and f != 1 and not missing:
                cost = rng.uniform(0, attacker.eps)
                value = x[f] + rng.choice([-1, 1]) * cost * 0.999
            else:
                continue
            if left is None:
                z[f] = value if cost <= attacker.eps else z[f]
                continue
            price = 1 if attacker.norm == 0 else cost**attacker.norm
            if price <= left:
                left, z[f] = left - price, value
    return Z


def test_costs_above_eps_are_no_costs_at_all():
    frame, y = table()
    model = MODELS["lightgbm"]().fit(frame, y)
    for norm in ("linf", 1, 2):
        plain = certify(model, frame[:60], None, Attacker(norm, 0.1))
        dear = certify(model, frame[:60], None, Attacker(norm, 0.1, categories={"tree": 0.2}, missing=0.2))
        assert (plain.stable == dear.stable).all()


def test_more_to_choose_from_never_makes_rows_stable():
    frame, y = table()
    model = MODELS["xgboost, sets"]().fit(frame, y)
    told = {"categories": {"tree": 0.3}, "missing": 0.2}
    for norm, eps in (("linf", 0.3), (1, 0.5), (0, 1)):
        before = certify(model, frame[:60], None, Attacker(norm, eps)).stable
        for more in ({"categories": told["categories"]}, told, {**told, "missing": 0.1}):
            after = certify(model, frame[:60], None, Attacker(norm, eps, **more), time_limit=20).stable
            assert (after <= before).all()
            before = after
        held = certify(model, frame[:60], None, Attacker(norm, eps, frozen=["tree", "a", "b"], **told)).stable
        assert (held == 1).all()


def one_split(feature, **more):
    """Two trees that test one column: for a set of values, or with a place for missing values."""
    return TreeEnsemble(
        [feature, -1, -1] * 2, more.pop("threshold", [np.nan, 0, 0] * 2), [-1, 0, 1] * 2,
        n_features=2, classes=[0, 1], **more,
    )  # fmt: skip


def test_nobody_blanks_a_category_that_the_model_requires():
    sets = one_split(1, subset=[0, -1, -1] * 2, subsets=[[0]], missing_left=[1, 0, 0] * 2)
    attacker = Attacker("linf", 0.2, categories={1: 0.25}, missing=0.2)
    assert certify(sets, [[0, 1]], None, attacker).stable == [0]
    assert certify(sets.replace(required=[1]), [[0, 1]], None, attacker).stable == [1]


def test_spread_knows_what_changes_cost():
    sets = one_split(1, subset=[0, -1, -1, 1, -1, -1], subsets=[[0], [1]])
    assert spread(sets) == np.inf
    assert spread(sets, categories={1: 0.25}) == 0.5
    assert spread(sets, categories={1: 0.25}, frozen=[1]) == np.inf
    assert spread(sets, 0, categories={1: 0.25}) == 1
    assert not has_large_spread(sets, Attacker(1, 0.25, categories={1: 0.25}))
    assert has_large_spread(sets, Attacker(1, 0.2, categories={1: 0.25}))
    assert len(overlaps(sets, Attacker(1, 0.25, categories={1: 0.25})).feature) == 1
    numbers = one_split(0, threshold=[1, 0, 0, 2, 0, 0], missing_left=[1, 0, 0] * 2)
    assert spread(numbers) == 1
    assert spread(numbers, missing=0.25) == 0.5
    assert spread(numbers, missing=3) == 1
    assert len(overlaps(numbers, Attacker(1, 0.25, missing=0.25)).feature) == 1
    assert len(overlaps(numbers, Attacker(1, 0.25, missing=0.3)).feature) == 0


def test_a_model_without_a_place_for_missing_values_has_nothing_to_blank():
    stump = stumps((0, 0.5))
    assert certify(stump, [[0.0]], None, Attacker("linf", 0.1, missing=0.1)).stable.tolist() == [1]


def test_a_column_of_numbers_has_no_category_to_change():
    stump = stumps((0, 0.5))
    with pytest.raises(AttackerError, match="Expected categories to name columns that the model tests for sets"):
        certify(stump, [[0.0]], None, Attacker("linf", 0.1, categories={0: 0.1}))


def test_a_witness_in_which_all_is_missing_is_kept_in_the_file(tmp_path):
    stump = stumps((0, 0.5), missing_left=[0, 0, 0])
    c = certify(stump, [[0.0]], None, Attacker("linf", 0.1, missing=0.1), witness=True, proof=True, radius=True)
    assert (c.stable.tolist(), c.radius.tolist()) == ([0], [0.1])
    stump.save(tmp_path / "model.json")
    c.save(tmp_path / "rows.jsonl")
    assert audit.main([str(tmp_path / "model.json"), str(tmp_path / "rows.jsonl")]) == 0


def test_explanations_and_commands_name_categories(run, tmp_path):
    frame, y = table(300)
    model = MODELS["lightgbm"]().fit(frame, y)
    attacker = Attacker(0, 1, categories={"tree": 1})
    c = certify(model, frame[:40], None, attacker, witness=True)
    changed = np.flatnonzero((c.stable == 0) & (c.witness[:, 1] != c.rows[:, 1]) & ~np.isnan(c.rows[:, 1]))
    told = explain(model, frame[changed[0] : changed[0] + 1], attacker=attacker)
    assert any(change.get("to_in_data") in WORDS for change in told.facts["changes"])
    as_ensemble(model).save(tmp_path / "model.json")
    frame.assign(label=y).to_csv(tmp_path / "rows.csv", index=False)
    document = {"format": "certiforest attacker", "version": 1, "norm": 0, "eps": 1, "categories": {"tree": 1}}
    (tmp_path / "attacker.json").write_text(json.dumps(document))
    files = [str(tmp_path / name) for name in ("model.json", "rows.csv", "attacker.json", "proof.jsonl", "r.html")]
    options = ["--target", "label", "--attacker", files[2], "--part", "all", "--json"]
    code, out, err = run("certify", *files[:2], *options, "--proof", files[3], "--report", files[4])
    assert code == 0, err
    assert json.loads(out)["attacker"]["categories"] == [[1, 1.0]]
    assert "the category of tree" in (tmp_path / "r.html").read_text()
    assert audit.main([files[0], files[3]]) == 0


HASH = 2.0**40
HASHED = {"categories": {0: []}, "unseen": {0: "hashed"}}


@pytest.mark.parametrize(
    ("members", "low", "high", "more", "other"),
    [
        ([1, 2], -np.inf, np.inf, {}, 3),
        ([1, 2], 0, 2, {}, 0),
        ([1, 2], 1, 2, {}, None),
        ([1, 2], 1, 3, {}, 3),
        ([1, 3], 1, 3, {}, 2),
        ([-2], -5.5, -2, {}, -5),
        ([-2], -np.inf, -2, {}, -LARGEST),
        ([2**53], 2**53, np.inf, {}, 2**53 + 2),
        ([0], -np.inf, np.inf, {"blanks": {0: (1, 2**52 + 0.5)}}, 2**52 + 1),
        ([0], 0, 2**52, {"blanks": {0: (1, 2**52 + 0.5)}}, None),
        ([HASH, HASH + 2], HASH, HASH + 2, HASHED, HASH + 1),
        ([0], 0, 5, {"categories": {0: ["a"]}}, None),
    ],
)
def test_a_category_in_no_set_is_one_of_the_domain(members, low, high, more, other, tmp_path):
    """The number after all sets may be outside of it, when another one is not."""
    nodes = [0, -1, -1], [np.nan, 0, 0], [-1, 0, 1]
    stump = {"n_features": 1, "classes": [0, 1], "missing_left": [0, 0, 0], "subset": [0, -1, -1]}
    ensemble = TreeEnsemble(*nodes, **stump, subsets=[members], **more)
    attacker = Attacker(np.inf, 1, domain=(low, high), categories={0: 0.5})
    found = certify(ensemble, [[members[0]]], None, attacker, radius=True, proof=True)
    assert found.witness[0].tolist() == [other] if other is not None else found.radius.tolist() == [np.inf]
    ensemble.save(tmp_path / "m.json")
    found.save(tmp_path / "c.jsonl")
    assert audit.main([str(tmp_path / "m.json"), str(tmp_path / "c.jsonl")]) == 0

"""Boosted models of other libraries: on thresholds and one step beside them they must do here what they do there."""

import json
import re

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer, load_iris

from certiforest import ModelError, RowError, TreeEnsemble, as_ensemble
from certiforest.cli import main
from certiforest.ensemble import scores
from certiforest.formats.agreement import check_agreement, threshold_rows
from certiforest.formats.float32_rows import parse_single
from certiforest.formats.lightgbm_models import ZERO
from certiforest.formats.xgboost_models import PROBABILITY_SLACK, parse_xgboost
from small_models import catboost, differs, lgb, xgb

TWO, MANY = load_breast_cancer(return_X_y=True), load_iris(return_X_y=True)


XGBOOST = {
    "logistic": (TWO, {}),
    "given base": (TWO, {"base_score": 0.3}),
    "hinge": (TWO, {"objective": "binary:hinge"}),
    "pruned nodes": (TWO, {"gamma": 5.0, "tree_method": "exact"}),
    "dart": (TWO, {"booster": "dart", "rate_drop": 0.5}),
    "softprob": (MANY, {}),
    "softmax": (MANY, {"objective": "multi:softmax", "base_score": 0.25}),
    "parallel trees": (MANY, {"num_parallel_tree": 3, "subsample": 0.5}),
    "vector leaves": (MANY, {"multi_strategy": "multi_output_tree"}),
    "dart for many": (MANY, {"booster": "dart", "rate_drop": 0.5, "num_parallel_tree": 2}),
}
LIGHTGBM = {
    "binary": (TWO, {}),
    "text labels": ((TWO[0], np.array(["m", "b"])[TWO[1]]), {}),
    "steep": (TWO, {"sigmoid": 2.0}),
    "forest": (TWO, {"boosting_type": "rf", "bagging_freq": 1, "bagging_fraction": 0.5}),
    "multiclass": (MANY, {}),
    "one against the rest": (MANY, {"objective": "multiclassova"}),
    "forest for many": (MANY, {"boosting_type": "rf", "bagging_freq": 1, "bagging_fraction": 0.5}),
}
CATBOOST = {
    "two": (TWO, {"boost_from_average": True}),
    "text labels": ((TWO[0], np.array(["m", "b"])[TWO[1]]), {}),
    "float labels": ((TWO[0], TWO[1] + 1.0), {}),  # written as 1 and 2
    "float labels, not all whole": ((TWO[0], TWO[1] / 2 + 0.5), {}),
    "many": (MANY, {}),
    "one against the rest": (MANY, {"loss_function": "MultiClassOneVsAll"}),
    "not symmetric": (MANY, {"grow_policy": "Lossguide"}),
    "ties": (([[0.0], [0.0], [1.0], [1.0]], [0, 1, 0, 1]), {"boost_from_average": False}),
}


@pytest.mark.parametrize("case", XGBOOST)
def test_xgboost_predicts_the_same(case, tmp_path):
    data, options = XGBOOST[case]
    model = xgb(**options).fit(*data)
    ensemble = as_ensemble(model)
    rows = np.vstack([threshold_rows(ensemble, 3_000, seed=7), data[0]])
    assert not differs(ensemble, model, rows, slack=PROBABILITY_SLACK).any()
    assert (ensemble.predict(rows) != model.predict(rows)).mean() < 0.01
    assert as_ensemble(model.get_booster()) == ensemble
    for name in ("model.json", "model.ubj"):
        model.save_model(tmp_path / name)
        assert as_ensemble(tmp_path / name) == ensemble


def test_xgboost_files_weigh_dropped_trees_in_one_of_two_places(tmp_path):
    """Up to version 3.3 beside the trees, from 3.4 on in the model; what else a newer one may write is refused."""
    model = xgb(booster="dart", rate_drop=0.5).fit(*TWO)
    document = json.loads(model.get_booster().save_raw("json"))
    booster = document["learner"]["gradient_booster"]
    inner = booster["gbtree"]["model"] if booster["name"] == "dart" else booster["model"]
    weight = (booster if booster["name"] == "dart" else inner).pop("weight_drop")
    assert min(weight) < 1
    written = {
        "old": {"name": "dart", "gbtree": {"name": "gbtree", "model": inner}, "weight_drop": weight},
        "new": {"name": "gbtree", "model": {**inner, "weight_drop": weight}},
        "newer": {"name": "gbtree", "model": {**inner, "tree_gain": weight}},
    }
    for name, booster in written.items():
        document["learner"]["gradient_booster"] = booster
        (tmp_path / f"{name}.json").write_text(json.dumps(document))
    expected = as_ensemble(model.get_booster())
    assert as_ensemble(tmp_path / "old.json") == expected
    assert as_ensemble(tmp_path / "new.json") == expected
    with pytest.raises(ModelError, match=r"got one with 'tree_gain', which may change what it predicts"):
        as_ensemble(tmp_path / "newer.json")


@pytest.mark.parametrize("case", LIGHTGBM)
def test_lightgbm_predicts_the_same(case, tmp_path):
    data, options = LIGHTGBM[case]
    model = lgb(**options).fit(*data)
    ensemble = as_ensemble(model)
    rows = np.vstack([threshold_rows(ensemble, 3_000, seed=7), data[0]])
    np.testing.assert_array_equal(ensemble.predict(rows), model.predict(rows))
    model.booster_.save_model(tmp_path / "model.txt")
    from_file = as_ensemble(tmp_path / "model.txt")
    np.testing.assert_array_equal(from_file.class_index(rows), ensemble.class_index(rows))
    assert as_ensemble(model.booster_) == from_file


@pytest.mark.parametrize("case", CATBOOST)
def test_catboost_predicts_the_same(case, tmp_path):
    data, options = CATBOOST[case]
    model = catboost(**options).fit(*data)
    ensemble = as_ensemble(model)
    rows = np.vstack([threshold_rows(ensemble, 3_000, seed=7), data[0]])
    np.testing.assert_array_equal(ensemble.predict(rows), np.ravel(model.predict(rows)))
    model.save_model(tmp_path / "model.json", format="json")
    assert as_ensemble(tmp_path / "model.json") == ensemble


def test_catboost_trees_without_splits(tmp_path):
    path = tmp_path / "model.json"
    catboost().fit(*TWO).save_model(path, format="json")
    document = json.loads(path.read_text())
    document["oblivious_trees"][0] = {"leaf_values": [0.5], "leaf_weights": [1], "splits": None}  # as it writes them
    path.write_text(json.dumps(document))
    model = pytest.importorskip("catboost").CatBoostClassifier().load_model(path, format="json")
    ensemble = as_ensemble(path)
    assert ensemble.tree_start[1] == 1
    np.testing.assert_allclose(
        ensemble.decision_function(TWO[0]), model.predict(TWO[0], prediction_type="RawFormulaVal"), atol=1e-14
    )


@pytest.mark.parametrize("threshold", [0.0, -0.0, 1e-36, -1e-36, ZERO, -ZERO, 5e-324])
@pytest.mark.parametrize("decision", [0, 2, 4, 6, 8, 10])  # every way to treat what is missing, default left or right
def test_tiny_numbers_are_zero_to_lightgbm(threshold, decision):
    lightgbm = pytest.importorskip("lightgbm")
    text = lgb(n_estimators=1, num_leaves=2).fit(*TWO).booster_.model_to_string()
    for name, value in (("threshold", repr(threshold)), ("decision_type", decision), ("split_feature", 0)):
        text = re.sub(rf"^{name}=.*$", f"{name}={value}", text, flags=re.MULTILINE)
    booster = lightgbm.Booster(model_str=re.sub("tree_sizes=.*\n", "", text))
    near = np.array([0.0, 5e-324, 1e-36, np.nextafter(ZERO, 0), ZERO, np.nextafter(ZERO, 1), 1e-34, 1.0])
    rows = np.zeros((16, 30))
    rows[:, 0] = np.concatenate([near, -near])
    np.testing.assert_array_equal(as_ensemble(booster).predict(rows), booster.predict(rows) > 0.5)


def test_a_wrong_comparison_is_found_by_the_proof():
    model = xgb().fit(*MANY)
    sound = as_ensemble(model)
    for step in (-np.inf, np.inf):  # as if `<` and `<=`, or their rounding, had been mixed up
        wrong = TreeEnsemble(
            sound.feature, np.nextafter(sound.threshold, step), sound.leaf,
            n_features=4, classes=[0, 1, 2], scores=sound.scores, base=sound.base,
        )  # fmt: skip
        with pytest.raises(
            ModelError, match=r"Expected the translation of this XGBClassifier to .* x\[0\] = "
        ) as caught:
            check_agreement(
                wrong, "XGBClassifier", model.predict, lambda X: model.predict(X, output_margin=True), dtype=np.float32
            )
        assert caught.value.row.shape == (4,)


def test_a_model_that_gives_no_single_label_is_refused():
    model = xgb(objective="multi:softprob", num_class=2).fit(*TWO)  # its predict gives two columns
    with pytest.raises(ModelError, match=r"Expected XGBClassifier to predict one label per row, got shape \(4096, 2\)"):
        as_ensemble(model)


def test_rounds_after_the_best_are_left_out_as_predict_does(tmp_path):
    xgboost = pytest.importorskip("xgboost")
    X, y = TWO
    model = xgboost.XGBClassifier(n_estimators=50, early_stopping_rounds=2, n_jobs=1)
    model.fit(X[::2], y[::2], eval_set=[(X[1::2], y[1::2])], verbose=False)
    booster, n_used = model.get_booster(), model.best_iteration + 1
    assert n_used < booster.num_boosted_rounds()
    assert as_ensemble(model).n_trees == n_used
    assert as_ensemble(booster).n_trees == booster.num_boosted_rounds()  # Booster.predict uses all of them
    model.save_model(tmp_path / "all.json")
    with pytest.raises(ModelError, match=f"says that round {n_used} was the best: XGBClassifier would leave out"):
        as_ensemble(tmp_path / "all.json")
    assert as_ensemble(tmp_path / "all.json", best_iteration=True) == as_ensemble(model)
    assert as_ensemble(tmp_path / "all.json", best_iteration=False) == as_ensemble(booster)
    booster[:n_used].save_model(tmp_path / "best.json")
    assert as_ensemble(tmp_path / "best.json") == as_ensemble(model)
    lightgbm = pytest.importorskip("lightgbm")
    train = lightgbm.Dataset(X[::2], y[::2])
    booster = lightgbm.train(
        {"objective": "binary", "verbose": -1, "num_threads": 1}, train, 80,
        valid_sets=[lightgbm.Dataset(X[1::2], y[1::2], reference=train)],
        callbacks=[lightgbm.early_stopping(2, verbose=False)],
    )  # fmt: skip
    assert as_ensemble(booster).n_trees == booster.best_iteration < 80


def test_data_frames_keep_their_names():
    frame, y = load_breast_cancer(return_X_y=True, as_frame=True)
    frame = frame.iloc[:, :3].set_axis(["radius", "texture", "size"], axis=1)
    for make in (xgb, lgb, catboost):
        assert as_ensemble(make().fit(frame, y)).feature_names == ("radius", "texture", "size")
        assert as_ensemble(make().fit(frame.to_numpy(), y)).feature_names is None


def with_categories(model):
    rng = np.random.default_rng(0)
    label = np.resize([0, 1], 400)
    frame = pd.DataFrame({"size": rng.random(400), "colour": pd.Categorical(3 * label + rng.integers(4, size=400))})
    return model.fit(frame, label)


def test_early_stopped_files_keep_their_categories_and_slices_say_if_they_do_not(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"job": pd.Categorical(rng.choice(["cook", "smith", "tailor"], 300)), "age": rng.random(300)})
    label = ((frame["job"] == "cook") & (frame["age"] > 0.4)).astype(int) ^ (rng.random(300) < 0.1)
    model = xgb(n_estimators=50, enable_categorical=True, early_stopping_rounds=2)
    model.fit(frame[:200], label[:200], eval_set=[(frame[200:], label[200:])], verbose=False)
    booster, path, out = model.get_booster(), tmp_path / "all.ubj", tmp_path / "model.json"
    assert model.best_iteration + 1 < booster.num_boosted_rounds()
    model.save_model(path)
    for option, meant in (("--best-iteration", model), ("--all-trees", booster)):
        assert main(["convert", str(path), option, "--out", str(out), "--force"]) == 0
        assert as_ensemble(out) == as_ensemble(meant)
    with pytest.raises(ModelError, match=r"Expected best_iteration for .* XGBoost only, got .*model.json"):
        as_ensemble(out, best_iteration=True)
    with pytest.raises(ModelError, match="Expected best_iteration for a file of XGBoost only, got a XGBClassifier"):
        as_ensemble(model, best_iteration=True)
    booster[:2].save_model(path)
    with pytest.raises(ModelError, match="Expected a file that says which round was the best"):
        as_ensemble(path, best_iteration=True)
    if (sliced := as_ensemble(path)).categories:  # since XGBoost 3.4
        assert (sliced.predict(frame) == (booster[:2].inplace_predict(frame) > 0.5)).all()
        return
    with pytest.raises(RowError, match=r"categories in the column 'job', got category: .* Give the whole model"):
        sliced.predict(frame)


REFUSED = {
    "CatBoost categories": (
        lambda: with_categories(catboost(cat_features=["colour"])),
        "statistics of the target .CTR., .* fit with one_hot_max_size",
    ),
    "linear booster": (lambda: xgb(booster="gblinear").fit(*TWO), "got the booster 'gblinear'"),
    "raw output": (lambda: xgb(objective="binary:logitraw").fit(*TWO), "objectives .*, got 'binary:logitraw'"),
    "infinity as missing": (lambda: xgb(missing=-np.inf).fit(*TWO), "Expected missing to be NaN or a finite"),
    "linear leaves": (lambda: lgb(linear_tree=True).fit(*TWO), "linear models in the leaves of tree 0"),
    "rounded to one": (
        lambda: lgb(objective="multiclassova", n_estimators=500).fit(*MANY),
        "fit with the objective multiclass instead",
    ),
    "other loss": (lambda: catboost(loss_function="CrossEntropy").fit(*TWO), "losses .*, got 'CrossEntropy'"),
    "own threshold": (lambda: at_threshold(catboost().fit(*TWO)), "parted at probability 0.5"),
    "regressor": (lambda: xgb("Regressor").fit(*TWO), "got XGBRegressor"),
    "unfitted XGBoost": (xgb, "unfitted XGBClassifier; call fit"),
    "unfitted LightGBM": (
        lgb,
        "unfitted LGBMClassifier; call fit",
    ),
    "unfitted CatBoost": (catboost, "unfitted CatBoostClassifier"),
}


def at_threshold(model):
    model.set_probability_threshold(0.3)
    return model


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_translated_is_refused_by_name(case):
    make, message = REFUSED[case]
    with pytest.raises(ModelError, match=message) as caught:
        as_ensemble(make())
    assert "\n" not in str(caught.value)


def test_the_command_line_reads_them(tmp_path, capsys):
    X, y = TWO
    np.savetxt(tmp_path / "rows.csv", np.column_stack([X, y])[:20], delimiter=",", fmt="%.17g")
    xgb().fit(*TWO).save_model(tmp_path / "model.ubj")
    lgb().fit(*TWO).booster_.save_model(tmp_path / "model.txt")
    for name in ("model.ubj", "model.txt"):
        assert main(["spread", str(tmp_path / name)]) == 0
        rows = [str(tmp_path / "rows.csv"), "--target", "30", "--no-header"]
        assert main(["certify", str(tmp_path / name), *rows, "--norm", "inf", "--eps", "1e-9"]) == 0
    (tmp_path / "model.txt").write_text((tmp_path / "model.txt").read_text()[:2_000])
    assert main(["spread", str(tmp_path / "model.txt")]) == 2
    assert "is not a sound LightGBM classifier. Expected" in capsys.readouterr().err


def test_sizes_are_not_believed(monkeypatch):
    for claim in (b"{L", b"{i\x01a[$d#L", b"{i\x01a[#L", b"{i\x01aSL"):
        with pytest.raises(ModelError, match="Expected a size within the file"):
            parse_xgboost(claim + b"\x7f" * 8)
    with pytest.raises(ModelError, match="levels"):
        parse_xgboost(b"{i\x01a" + b"[" * 10_000)
    with pytest.raises(ModelError, match="too deep"):
        parse_xgboost(b' {"a":' + b"[" * 100_000)
    monkeypatch.setattr(scores, "LARGEST_TABLE", 20)
    table = scores.ScoreTable(10)
    assert table.add([0.5, 0.5], 3).tolist() == [0, 0]
    with pytest.raises(ModelError, match="at most 20 scores of leaves, got more"):
        table.add([0.25, 0.75], 3)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0.1", np.float32(0.1)),
        ("16777217", 16777216),  # halfway, to the even one
        ("16777217.000000001", 16777218),  # a little more than halfway, which float64 does not see
        ("16777218.999999999", 16777218),
        ("-16777217.000000001", -16777218),
        ("2.1019476964872256e-45", np.float32(2e-45)),  # nearly one and a half of the smallest float32
    ],
)
def test_numbers_are_rounded_to_float32_once(text, value):
    assert np.float32(parse_single(text)) == value


def test_lightgbm_splits_between_numbers_and_missing_values():
    lightgbm = pytest.importorskip("lightgbm")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    y = (X[:, 0] > 0).astype(int)
    X[rng.random(400) < 0.5, 1] = np.nan
    y[np.isnan(X[:, 1])] ^= rng.random(np.isnan(X[:, 1]).sum()) < 0.9
    model = lightgbm.LGBMClassifier(n_estimators=10, min_child_samples=5, verbose=-1, n_jobs=1).fit(X, y)
    assert "threshold=" in model.booster_.model_to_string()
    assert any("inf" in line for line in model.booster_.model_to_string().splitlines() if line.startswith("threshold="))
    rows = np.nan_to_num(X)
    np.testing.assert_array_equal(as_ensemble(model).predict(rows), model.predict(rows))


def test_a_regressor_that_predicts_probabilities_is_refused():
    X = np.random.default_rng(0).random((50, 2))
    model = xgb("Regressor", n_estimators=2, objective="binary:logistic").fit(X, X[:, 0] > 0.5)
    with pytest.raises(ModelError, match="predicts probabilities"):
        as_ensemble(model)
    assert as_ensemble(model.get_booster()).n_trees == 2

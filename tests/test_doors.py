"""Files that contradict themselves or hold no model are refused in one sentence; translations are remembered safely."""

import gc
import hashlib
import json
import os
import re
import tracemalloc

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.ensemble import (
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.tree import DecisionTreeClassifier

from certiforest import Attacker, ModelError, Nodes, TreeEnsemble, as_ensemble, certify
from certiforest.ensemble import model_file
from certiforest.formats import doors
from hostile.model_files import read_pairs, sources, to_ubjson
from small_models import catboost, lgb, refusal, xgb

TWO, MANY = load_breast_cancer(return_X_y=True), load_iris(return_X_y=True)


def changed(kind, index, path, value):
    """Return a file with another value at a path; a function makes it of the one that was there."""
    pytest.importorskip(kind.split()[0].lower())
    document = json.loads(sources(kind)[index])
    *above, last = path
    place = document
    for name in above:
        place = place[name]
    place[last] = value(place[last]) if callable(value) else value
    return json.dumps(document)


LEARNER, BOOSTER = ("learner",), ("learner", "gradient_booster", "model")
PARAMETERS, TREE = ("learner", "learner_model_param"), (*BOOSTER, "trees", 0)
XGBOOST = {
    "no learner": (0, LEARNER, [], "Expected an entry 'objective', got none"),
    "no parameters": (0, PARAMETERS, [], "'num_class', got none"),
    "text for parameters": (0, PARAMETERS, "x", "'num_class', got none"),
    "no tree parameters": (0, (*TREE, "tree_param"), 3, "got none"),
    "classes of a logistic": (0, (*PARAMETERS, "num_class"), "5", "num_class to be 0.*got 5"),
    "classes of a softmax": (1, (*PARAMETERS, "num_class"), "4", "num_class to be 3.*got 4"),
    "number of trees": (0, (*BOOSTER, "gbtree_model_param", "num_trees"), "7", "Expected 7 trees.*got 2"),
    "rounds": (0, (*BOOSTER, "iteration_indptr"), [0, 1], "from 0 to all 2 trees"),
    "order of trees": (0, (*TREE, "id"), 1, "tree 0 to have the id 0, got 1"),
    "number of nodes": (0, (*TREE, "tree_param", "num_nodes"), "5", "num_nodes"),
    "features of a tree": (0, (*TREE, "tree_param", "num_feature"), "9", "num_feature"),
    "parents": (0, (*TREE, "parents"), lambda p: [*p[:-1], 1], "children or parents that do not"),
    "a category": (0, (*TREE, "categories_nodes"), [0], "categorical split"),
    "a type of splits that there is not": (0, (*TREE, "split_type"), lambda t: [3, *t[1:]], "categories.*got 3"),
    "a boolean as child": (0, (*TREE, "left_children"), lambda c: [True, *c[1:]], "whole numbers"),
    "an underscore in a number": (0, (*PARAMETERS, "base_score"), "0.5_0", "numbers as base_score"),
    "half a list as base": (0, (*PARAMETERS, "base_score"), "[0.5", "numbers as base_score"),
    "a base of another type": (0, (*PARAMETERS, "base_score"), 0.5, "a string at 'learner_model"),
    "a number of 400 digits": (0, (*TREE, "split_conditions"), lambda v: [10**400, *v[1:]], "a number of 1329 bits"),
}
FLOATS = ("features_info", "float_features")
CATBOOST = {
    "features_info a list": (0, ("features_info",), [], "flat_feature_index of its own, got none"),
    "a number in trees": (0, ("oblivious_trees",), [3], "'splits', got none"),
    "border": (0, ("oblivious_trees", 0, "splits", 0, "border"), lambda v: v + 1, "its split_index .* got others"),
    "split_index": (0, ("oblivious_trees", 0, "splits", 0, "split_index"), lambda i: 1 - i, "its split_index"),
    "features_info borders": (0, FLOATS, lambda f: [*f[:-1], f[-1] | {"borders": [0.0]}], "its split_index"),
    "borders out of order": (
        2,
        FLOATS,
        lambda f: [one | {"borders": one["borders"][::-1]} for one in f],
        "borders .* to be finite and to rise",
    ),
    "nested border": (3, ("trees", 0, "split", "border"), lambda v: v + 1, "its split_index"),
    "order of features": (0, (*FLOATS, 0, "feature_index"), 1, "numbered in order"),
    "type of labels": (0, ("model_info", "class_params", "class_label_type"), "String", "of the class_label_type"),
    "number of classes": (0, ("model_info", "class_params", "classes_count"), 7, "classes_count to be 0 or 2"),
    "1 for true": (6, FLOATS, lambda f: [f[0] | {"has_nans": 1}, *f[1:]], "Expected has_nans where"),
    "true as scale": (0, ("scale_and_bias", 0), True, "not scaled"),
    "an object for a name": (0, ("model_info", "class_params", "class_label_type"), {}, "Expected a string at"),
    "an object for a loss": (0, ("model_info", "params", "loss_function", "type"), {}, "Expected a string at"),
    "two kinds of trees": (0, ("trees",), [], "neither or both"),
}


KINDS = {"XGBoost JSON": XGBOOST, "CatBoost": CATBOOST}


@pytest.mark.parametrize(("kind", "case"), [(kind, case) for kind, cases in KINDS.items() for case in cases])
def test_files_that_contradict_themselves(kind, case, tmp_path):
    *change, message = KINDS[kind][case]
    assert re.search(message, refusal(changed(kind, *change), tmp_path))


LIGHTGBM = {
    "num_class": ("num_class=3", "num_class=5", "Expected 3 classes.*num_class 3 and 5"),
    "num_class of the objective": ("num_class:3", "num_class:5", "Expected 3 classes.*num_class 3 and 5"),
    "trees per round": ("num_tree_per_iteration=3", "num_tree_per_iteration=2", "Expected 2 classes"),
    "tree sizes": ("tree_sizes=", "tree_sizes=1", "tree_sizes"),
    "number of features": ("max_feature_idx=3", "max_feature_idx=4", "of 5 features, as max_feature_idx says"),
    "a line without a name": ("shrinkage=1\n", "shrinkage=1\n12\n", "form name=value, got '12'"),
    "a line of spaces": ("shrinkage=1\n", "shrinkage=1\n \n", "form name=value, got ' '"),
    "a tree that begins elsewhere": ("Tree=1\n", "", "Expected tree 1 or 'end of trees'"),
    "an underscore in a number": ("num_class=3", "num_class=0_3", "whole numbers as num_class"),
    "an unknown way to treat gaps": ("decision_type=2", "decision_type=12", "decision_type between 0 and 11"),
}


@pytest.mark.parametrize("case", LIGHTGBM)
def test_lightgbm_files_that_contradict_themselves(case, tmp_path):
    pytest.importorskip("lightgbm")
    old, new, message = LIGHTGBM[case]
    text = sources("LightGBM")[1].decode()
    if case not in ("tree sizes",):
        text = re.sub("tree_sizes=.*\n", "", text)
    assert old in text
    assert re.search(message, refusal(text.replace(old, new, 1), tmp_path))


def test_names_that_stand_twice(tmp_path):
    own = sources("certiforest")[0].decode()
    twice = {
        "n_features": own.replace('"n_features":', '"n_features":1,"n_features":'),
        "learner": sources("XGBoost JSON")[0].decode().replace('"learner":', '"learner":{},"learner":'),
        "features_info": sources("CatBoost")[0]
        .decode()
        .replace('"features_info"', '"features_info":1,"features_info"'),
        "a": b"{i\x01aTi\x01aF}",
    }
    for name, content in twice.items():
        assert f"Expected every name once, got '{name}' twice" in refusal(content, tmp_path)


@pytest.mark.parametrize("path", [("learner", "objective", "name"), ("learner", "gradient_booster", "name")])
@pytest.mark.parametrize("value", [[], [1, 2], {}, None, 3])
def test_ubjson_with_an_array_for_a_name(path, value, tmp_path):
    text = changed("XGBoost JSON", 0, path, value)
    assert "Expected a string at" in refusal(to_ubjson(read_pairs(text)), tmp_path)
    assert "Expected a string at" in refusal(text, tmp_path)


@pytest.mark.parametrize("number", ["9" * 400, "1e400", "-1e999"])
def test_catboost_with_a_number_that_is_no_float(number, tmp_path):
    """The library ends its reading there and predicts by the trees before, also where the number means nothing."""
    content = sources("CatBoost")[0].decode().replace('"model_guid":', f'"weight":{number},"model_guid":')
    assert "Expected numbers within the range of floats" in refusal(content, tmp_path)


@pytest.mark.parametrize("name", ["split_index", "float_feature_index"])
def test_catboost_with_text_for_a_number(name, tmp_path):
    """The library takes it for 0."""
    content = sources("CatBoost")[0].decode()
    text = re.sub(rf'"{name}"\s*:\s*([0-9]+)', rf'"{name}":"\1"', content, count=1)
    assert text != content
    assert f"Expected a whole number at {name!r}" in refusal(text, tmp_path)


def test_ubjson_with_more_after_its_end(tmp_path):
    content = sources("XGBoost UBJSON")[0]
    (tmp_path / "model").write_bytes(content)
    as_ensemble(tmp_path / "model")
    assert "Expected the end at byte" in refusal(content + b"\0", tmp_path)


def test_indices_of_64_bits_without_sign_are_not_taken_for_leaves():
    with pytest.raises(ModelError, match="integers of 64 bits"):
        TreeEnsemble(np.array([2**64 - 1], np.uint64), [0.0], [0], n_features=1, classes=[0, 1])
    with pytest.raises(ModelError, match="columns of the shapes"):
        TreeEnsemble.from_trees([Nodes(-1, -1, 0, 0.0, 0)], n_features=1, classes=[0, 1])
    with pytest.raises(ModelError, match="threshold to hold numbers, got a number of"):
        TreeEnsemble([0, -1, -1], [10**400, 0, 0], [-1, 0, 1], n_features=1, classes=[0, 1])
    with pytest.raises(ModelError, match="2 feature names, got 'ab'"):
        TreeEnsemble([-1], [0], [0], n_features=2, classes=[0], feature_names="ab")


OTHERS = {
    b"\x80\x04\x95": "a pickle, as joblib.dump writes, .*as_ensemble\\(joblib.load\\(path\\)\\)",
    b"\x78\x9c\x00": "a compressed file; unpack it first. If it is a pickle",
    b"\x1f\x8b\x08": "a compressed file",
    b"\x93NUMPY\x01": "an array of numpy .* not a model",
    b"PK\x03\x04": "a zip archive",
    b'<?xml version="1.0"?><PMML>': "as PMML is",
    b"PAR1": "Parquet",
    b"binf": "old binary format",
    b"CBM1": "CatBoost's binary format",
    b"junk": "Expected JSON text, got something that begins with b'junk",
    b"": "Expected JSON text, got something that begins with b''",
    b'{"a": 1': "whole JSON text, got something else .*: was it cut short",
}


@pytest.mark.parametrize("content", OTHERS)
def test_files_that_hold_no_model_are_called_by_their_name(content, tmp_path):
    assert re.search(OTHERS[content], refusal(content + b"\0" * 20 if content else b"", tmp_path))


def test_a_real_joblib_file_is_not_called_cut_short(tmp_path):
    joblib = pytest.importorskip("joblib")
    for compress in (0, 3):
        joblib.dump(DecisionTreeClassifier().fit([[0.0], [1.0]], [0, 1]), tmp_path / "m.joblib", compress=compress)
        message = refusal((tmp_path / "m.joblib").read_bytes(), tmp_path)
        assert "pickle" in message
        assert "cut short" not in message


def test_a_pipe_without_a_writer_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ModelError, match="a pipe or device"):
        as_ensemble(tmp_path / "pipe")
    with pytest.raises(ModelError, match="readable model file"):
        as_ensemble(tmp_path / ("x" * 300))


def test_a_small_file_may_not_claim_200_million_features(tmp_path):
    text = "classifier-decision-tree 200000000 2\n0 1\nSPLIT 199999999 0.5\nLEAF 1 0\nLEAF 0 1\n"
    tracemalloc.start()
    assert "n_features between 1 and 16777216, got 200000000" in refusal(text, tmp_path)
    assert tracemalloc.get_traced_memory()[1] < 2**20
    tracemalloc.stop()


def test_a_small_file_may_not_claim_a_billion_classes(tmp_path):
    document = json.loads(changed("XGBoost JSON", 5, (*PARAMETERS, "num_class"), str(10**9)))
    document["learner"]["objective"]["softmax_multiclass_param"]["num_class"] = str(10**9)
    for tree in document["learner"]["gradient_booster"]["model"]["trees"]:
        tree["tree_param"]["size_leaf_vector"] = str(10**9)
    tracemalloc.start()
    assert "scores for each leaf of tree 0" in refusal(json.dumps(document), tmp_path)
    assert tracemalloc.get_traced_memory()[1] < 2**20
    tracemalloc.stop()


@pytest.mark.parametrize("size", [2, model_file.PIECE])
def test_sha256_is_that_of_the_saved_document(tmp_path, monkeypatch, size):
    monkeypatch.setattr(model_file, "PIECE", size)
    for content in sources("certiforest"):
        (tmp_path / "model").write_bytes(content)
        ensemble = TreeEnsemble.load(tmp_path / "model")
        ensemble.save(tmp_path / "model")
        assert (tmp_path / "model").read_bytes() == content
        text = json.dumps(json.loads(content), sort_keys=True, separators=(",", ":"), allow_nan=False)
        assert ensemble.sha256 == hashlib.sha256(text.encode()).hexdigest()
        assert ensemble.with_columns().sha256 != ensemble.with_columns(["a"] * ensemble.n_features).sha256


# Translations are remembered for as long as a model lives unchanged ---------------------------------------------------


MODELS = {
    "xgboost": lambda: xgb(n_estimators=3),
    "lightgbm": lambda: lgb(n_estimators=3),
    "catboost": lambda: catboost(iterations=3),
    "tree": lambda: DecisionTreeClassifier(max_depth=3),
    "forest": lambda: RandomForestClassifier(3, max_depth=3),
    "boosting": lambda: GradientBoostingClassifier(n_estimators=3),
    "histogram": lambda: HistGradientBoostingClassifier(max_iter=3),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_model_is_translated_once_and_again_when_it_is_fitted_again(name):
    model = MODELS[name]().fit(*TWO)
    first = as_ensemble(model)
    assert as_ensemble(model) is first
    X, y = TWO
    model.fit(X[::2], 1 - y[::2])
    second = as_ensemble(model)
    assert second is not first
    assert (second.predict(X) == np.ravel(model.predict(X))).all()
    assert certify(model, X[:1], None, Attacker("linf", 0.0)).prediction[0] == np.ravel(model.predict(X[:1]))[0]
    n_remembered = len(doors._remembered)
    del model
    gc.collect()
    assert len(doors._remembered) < n_remembered


@pytest.mark.parametrize("name", ["tree", "forest", "boosting", "histogram"])
def test_arrays_changed_in_place_are_seen(name):
    model = MODELS[name]().fit(*TWO)
    first = as_ensemble(model)
    if name == "histogram":
        nodes = model._predictors[0][0].nodes
        nodes["num_threshold"][0] += 1.0
    else:
        tree = model if name == "tree" else np.ravel(model.estimators_)[0]
        tree.tree_.threshold[0] += 1.0
    assert as_ensemble(model) != first
    before = as_ensemble(model)
    if name == "histogram":
        nodes["value"][-1] += 1.0
    else:
        tree.tree_.value[-1, 0, 0] += 5.0 if name == "boosting" else 0.0
        tree.tree_.value[-1, 0] = tree.tree_.value[-1, 0][::-1] if name != "boosting" else tree.tree_.value[-1, 0]
    assert as_ensemble(model) != before


def test_parameters_that_change_predictions_are_seen():
    model = MODELS["boosting"]().fit(*TWO)
    first = as_ensemble(model)
    model.learning_rate = 0.5
    assert as_ensemble(model) != first
    forest = MODELS["forest"]().fit(*TWO)
    soft, hard = as_ensemble(forest), as_ensemble(forest, voting="hard")
    assert (soft.combine, hard.combine) == ("sum", "vote")
    assert as_ensemble(forest) is soft
    assert as_ensemble(forest, voting="hard") is hard
    forest.estimators_ = forest.estimators_[:2]
    assert as_ensemble(forest).n_trees == 2
    forest.classes_ = np.array([5, 6])
    assert as_ensemble(forest).classes.tolist() == [5, 6]


def test_boosters_changed_in_place_are_seen():
    xgboost = pytest.importorskip("xgboost")
    data = xgboost.DMatrix(*TWO)
    booster = xgboost.train({"objective": "binary:logistic", "nthread": 1}, data, 2)
    assert as_ensemble(booster) is as_ensemble(booster)
    booster.update(data, 2)
    assert as_ensemble(booster).n_trees == 3
    before = as_ensemble(booster)
    booster.load_model(
        bytearray(xgboost.train({"nthread": 1, "objective": "binary:logistic", "eta": 0.9}, data, 3).save_raw("ubj"))
    )
    assert as_ensemble(booster).n_trees == 3
    assert as_ensemble(booster) != before
    booster.load_model(bytearray(booster[:1].save_raw("ubj")))
    assert as_ensemble(booster).n_trees == 1
    model = MODELS["xgboost"]().fit(*TWO)
    as_ensemble(model)
    model.missing = 0.0
    assert as_ensemble(model).blanks is not None
    lightgbm = pytest.importorskip("lightgbm")
    rows = lightgbm.Dataset(*TWO, free_raw_data=False)
    booster = lightgbm.train(
        {"objective": "binary", "verbose": -1, "num_threads": 1}, rows, 2, keep_training_booster=True
    )
    assert as_ensemble(booster) is as_ensemble(booster)
    booster.update()
    assert as_ensemble(booster).n_trees == 3
    before = as_ensemble(booster)
    booster.set_leaf_output(0, 0, 7.0)
    assert as_ensemble(booster) != before
    booster.best_iteration = 1
    assert as_ensemble(booster).n_trees == 1
    model = MODELS["catboost"]().fit(*TWO)
    as_ensemble(model)
    model.set_scale_and_bias(1.0, 3.0)
    assert as_ensemble(model).base.tolist() == [3.0]
    model.set_probability_threshold(0.3)
    with pytest.raises(ModelError, match="parted at probability"):
        as_ensemble(model)

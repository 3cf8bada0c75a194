"""ONNX files, written and read: onnxruntime predicts what the ensemble predicts, on thresholds and one step beside."""

import random
import sys

import numpy as np
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_iris
from sklearn.ensemble import (
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.tree import DecisionTreeClassifier

from certiforest import (
    LargeSpreadBoostingClassifier,
    LargeSpreadForestClassifier,
    ModelError,
    TreeEnsemble,
    as_ensemble,
    save_onnx,
)
from certiforest.formats.agreement import threshold_rows
from certiforest.formats.doors import open_model
from hostile.drawn_onnx import draw_onnx
from small_models import catboost, lgb, xgb

X, Y = load_iris(return_X_y=True)
FOREST = RandomForestClassifier(9, random_state=0).fit(X, Y)
TWO = GradientBoostingClassifier(n_estimators=5, random_state=0).fit(X, np.where(Y == 1, "yes", "no"))
ONE_LEAF = {"feature": [-1, 0, -1, -1], "threshold": [0, 0.5, 0, 0], "leaf": [1, -1, 0, 1], "n_features": 1}
CASES = {
    "votes": as_ensemble(FOREST, voting="hard"),
    "scores of several classes in a leaf": as_ensemble(FOREST),
    "one output, text labels": as_ensemble(TWO),
    "a tree of one leaf, true or false": TreeEnsemble(**ONE_LEAF, classes=[False, True]),
    "nothing to add": TreeEnsemble([-1], [0], [0], n_features=1, classes=[0.5, 1.5], scores=[[0.0]], base=[1.0]),
}


@pytest.mark.parametrize("case", CASES)
def test_onnxruntime_predicts_the_same(case, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    ensemble = CASES[case]
    save_onnx(ensemble, tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    rows = threshold_rows(ensemble, 5_000, seed=11)
    label, scores = session.run(["label", "scores"], {"X": rows})
    np.testing.assert_array_equal(label.astype(ensemble.classes.dtype), ensemble.predict(rows))
    if ensemble.combine == "vote":
        np.testing.assert_array_equal(scores, ensemble.votes(rows))
    else:
        expected = ensemble.decision_function(rows).reshape(scores.shape)
        assert np.abs(scores - expected).max() <= 2 * ensemble.rounding_bound(np.float64)


def test_what_is_missing_is_named(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(ModelError, match=r"pip install 'certiforest\[onnx\]'"):
        save_onnx(CASES["votes"], tmp_path / "model.onnx")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("case", CASES)
def test_own_files_are_read_back(case, tmp_path):
    onnx = pytest.importorskip("onnx")
    ensemble, path = CASES[case], tmp_path / "model.onnx"
    save_onnx(ensemble, path)
    rows = threshold_rows(ensemble, 2_000, seed=12)
    for read in (as_ensemble(path), as_ensemble(onnx.load(path))):  # the object is compared with onnxruntime
        np.testing.assert_array_equal(read.predict(rows).astype(ensemble.classes.dtype), ensemble.predict(rows))


@pytest.mark.parametrize("operator", ["TreeEnsembleClassifier", "TreeEnsembleRegressor", "TreeEnsemble"])
def test_drawn_models_are_what_onnxruntime_makes_of_them(operator):
    """All comparisons, both float types, missing values, shares and logistic sums, steps before the trees."""
    pytest.importorskip("onnx")
    for seed in range(40):
        open_model(
            draw_onnx(random.Random(seed), operator)
        )  # compared with onnxruntime: a ModelError where they differ


def converted(model, X, y):
    skl2onnx = pytest.importorskip("skl2onnx")
    shape = skl2onnx.common.data_types.FloatTensorType([None, X.shape[1]])
    options = {"target_opset": {"": 18, "ai.onnx.ml": 3}, "initial_types": [("X", shape)]}
    try:
        return skl2onnx.to_onnx(model.fit(X, y), **options)
    except ValueError as error:  # it writes booleans as whole numbers, which protobuf refuses from 7.34 on
        pytest.skip(f"skl2onnx does not convert {type(model).__name__}: {str(error)[:80]}")


SMALL = {"n_estimators": 5, "max_depth": 3, "random_state": 0}
CONVERTED = {
    "tree": DecisionTreeClassifier(max_depth=4),
    "forest": RandomForestClassifier(**SMALL),
    "boosting": GradientBoostingClassifier(**SMALL),
    "histogram": HistGradientBoostingClassifier(max_iter=4),
    "pipeline": make_pipeline(SimpleImputer(), StandardScaler(), MinMaxScaler(), RandomForestClassifier(**SMALL)),
    "regressor": RandomForestRegressor(**SMALL),
}


@pytest.mark.parametrize("case", CONVERTED)
def test_models_that_skl2onnx_wrote(case):
    for y in (Y, np.where(Y == 1, 1, 0)):
        model = CONVERTED[case]
        opened = open_model(converted(model, X, y))  # compared with onnxruntime
        if not opened.is_regressor:
            assert (opened.ensemble.predict(X) == model.predict(X)).mean() > 0.98  # which is not the model in float32


def test_probabilities_and_missing_values():
    rows = np.where(np.random.default_rng(0).random(X.shape) < 0.2, np.nan, X)
    model = CONVERTED["histogram"]
    onnx_model = converted(model, rows, np.where(Y == 1, "yes", "no"))
    ensemble = as_ensemble(onnx_model, threshold=0.2)
    assert ensemble.missing_left is not None
    assert (ensemble.predict(rows) == np.where(model.predict_proba(rows)[:, 1] >= 0.2, "yes", "no")).mean() > 0.98
    assert as_ensemble(converted(CONVERTED["regressor"], X, Y), threshold=1.0).predict(X).any()


LABELS = np.array(["no", "yes", "may be"])
WRITTEN = {
    "forest": (RandomForestClassifier(**SMALL), LABELS[Y]),
    "second class first": (GradientBoostingClassifier(**SMALL), LABELS[(Y > 0).astype(int)]),
    "softmax": (HistGradientBoostingClassifier(max_iter=4), Y),
    "xgboost": (lambda: xgb(), Y),
    "lightgbm": (lambda: lgb(), Y),
    "catboost": (lambda: catboost(), Y),
    "pipeline": (lambda: make_pipeline(StandardScaler(), xgb()), (Y > 0).astype(int)),
    "calibrated": (CalibratedClassifierCV(RandomForestClassifier(**SMALL), ensemble=False), (Y > 0).astype(int)),
    "votes": (LargeSpreadForestClassifier(n_estimators=5, max_depth=3, eps=0.01, random_state=0), Y),
    "boosted votes": (LargeSpreadBoostingClassifier(n_estimators=4, max_depth=3, eps=0.01, random_state=0), Y > 0),
    "mean": (RandomForestRegressor(**SMALL), Y),
    "logarithm": (lambda: xgb("Regressor", objective="count:poisson"), Y),
    "sum": (lambda: lgb("Regressor"), Y),
}


@pytest.mark.parametrize("case", WRITTEN)
def test_models_are_written_with_their_probabilities(case, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    made, y = WRITTEN[case]
    rows = X / X.max(axis=0) if "votes" in case else X
    model = (made if hasattr(made, "fit") else made()).fit(rows, y)
    save_onnx(model, tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    names = [one.name for one in session.get_outputs()]
    found = dict(zip(names, session.run(None, {"X": rows}), strict=True))
    if "value" in found:
        np.testing.assert_allclose(found["value"][:, 0], model.predict(rows), rtol=1e-6, atol=1e-6)
    else:
        assert (found["label"].astype(y.dtype) == np.ravel(model.predict(rows))).all()
        np.testing.assert_allclose(found["probabilities"], model.predict_proba(rows), atol=1e-6)
    assert open_model(tmp_path / "model.onnx").is_regressor == ("value" in found)  # and are read back


def test_models_are_written_with_a_threshold(tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    model = RandomForestClassifier(**SMALL).fit(X, Y > 0)
    save_onnx(model, tmp_path / "model.onnx", threshold=0.9)
    (label,) = onnxruntime.InferenceSession(tmp_path / "model.onnx").run(["label"], {"X": X})
    assert (label == (model.predict_proba(X)[:, 1] >= 0.9)).all()


def changed(change, **kinds):
    """Return a drawn model's bytes after a change of its operator's attributes, or of the whole."""
    model = draw_onnx(random.Random(kinds.get("seed", 0)), kinds.get("operator", "TreeEnsembleClassifier"))
    change(model)
    return model.SerializeToString()


def attribute(name):
    def find(model):
        trees = next(node for node in model.graph.node if node.op_type.startswith("TreeEnsemble"))
        return next(one for one in trees.attribute if one.name == name)

    return find


def normalized(node):
    node.op_type, node.domain = "Normalizer", "ai.onnx.ml"
    node.ClearField("attribute")
    del node.input[1:]


REFUSED = {
    "cut short": (lambda m: None, "an ONNX file, got something else"),
    "splits for categories": (lambda m: attribute("nodes_modes")(m).strings.__setitem__(0, b"BRANCH_EQ"), "got =="),
    "a node twice": (lambda m: attribute("nodes_nodeids")(m).ints.__setitem__(1, 0), "one twice"),
    "no such child": (lambda m: attribute("nodes_truenodeids")(m).ints.__setitem__(0, 99), "nodes that are there"),
    "the second class's sum": (
        lambda m: attribute("class_ids")(m).ints.__setitem__(slice(None), [1] * len(attribute("class_ids")(m).ints)),
        "whose|its sum alone decides",
    ),
    "another step": (lambda m: normalized(m.graph.node[0]), "Expected a graph of trees.*Normal"),
    "an operator that there is not": (lambda m: setattr(m.graph.node[0], "op_type", "Odd"), "of which onnx says"),
    "whole numbers as rows": (
        lambda m: setattr(m.graph.input[0].type.tensor_type, "elem_type", 7),
        "inputs of one type, float or double",
    ),
    "an unknown number of columns": (
        lambda m: m.graph.input[0].type.tensor_type.shape.dim[1].Clear(),
        "the number of columns in the shape",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_onnx_files_that_are_refused(case, tmp_path):
    pytest.importorskip("onnx")
    change, message = REFUSED[case]
    content = changed(change, seed=3)
    (tmp_path / "m.onnx").write_bytes(content[:-40] if case == "cut short" else content)
    with pytest.raises(ModelError, match=message) as caught:
        as_ensemble(tmp_path / "m.onnx")
    assert "\n" not in str(caught.value)

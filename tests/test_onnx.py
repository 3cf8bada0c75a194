"""ONNX files: onnxruntime must predict from them what the ensemble predicts, on thresholds and one step beside them."""

import sys

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier

from certiforest import ModelError, TreeEnsemble, as_ensemble, save_onnx
from certiforest.formats.agreement import threshold_rows

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

"""MLflow's evaluator, by MLflow itself and a store of files."""

import tomllib
from importlib import import_module
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier

from certiforest import Attacker, audit, certify

mlflow = pytest.importorskip("mlflow")


@pytest.fixture
def evaluate(tmp_path, monkeypatch):
    """Return what evaluates a model by the evaluator that the package names, and the client of the store."""
    from mlflow.models.evaluation.evaluator_registry import _model_evaluation_registry as registry

    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
    module, _, name = project["entry-points"]["mlflow.model_evaluator"]["certiforest"].partition(":")
    monkeypatch.setitem(registry._registry, "certiforest", getattr(import_module(module), name))
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    before = mlflow.get_tracking_uri()
    mlflow.set_tracking_uri((tmp_path / "store").as_uri())

    def evaluate(model, data, **config):
        with mlflow.start_run() as run:
            stored = mlflow.sklearn.log_model(model, name="model", serialization_format="cloudpickle")
            result = mlflow.models.evaluate(
                stored.model_uri, data, targets="y", model_type="classifier", evaluators="certiforest",
                evaluator_config=config,
            )  # fmt: skip
        return result, mlflow.MlflowClient().get_run(run.info.run_id)

    yield evaluate
    mlflow.set_tracking_uri(before)


def test_a_run_gets_metrics_a_report_and_a_certificate_that_is_confirmed(evaluate, tmp_path):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.random((60, 3)), columns=["a", "b", "c"])
    y = np.where(X["a"] + X["b"] > 1, "yes", "no")
    model, attacker = RandomForestClassifier(5, max_depth=3, random_state=0).fit(X, y), Attacker("inf", 0.02)
    result, run = evaluate(model, X.assign(y=y), attacker=attacker)
    expected = certify(model, X, y, attacker)
    assert run.data.metrics == {f"certiforest_{name}": value for name, value in expected.to_dict().items()}
    assert result.metrics == run.data.metrics
    place = Path(mlflow.artifacts.download_artifacts(run_id=run.info.run_id, dst_path=str(tmp_path / "got")))
    place /= "certiforest"
    assert "certiforest" in (place / "report.html").read_text()
    assert audit.main([str(place / "model.json"), str(place / "rows.cert.jsonl")]) == 0
    names = {f"certiforest/{name}" for name in ("report.html", "model.json", "rows.cert.jsonl")}
    assert result.artifacts.keys() == names
    result.save(tmp_path / "saved")
    again = mlflow.models.EvaluationResult.load(tmp_path / "saved").artifacts
    for name, artifact in result.artifacts.items():
        downloaded = Path(mlflow.artifacts.download_artifacts(artifact.uri, dst_path=str(tmp_path)))
        assert downloaded.read_text() == artifact.content == again[name].content
    rows = mlflow.load_table("certiforest/rows.json", run_ids=[run.info.run_id])
    assert rows["verdict"].tolist() == expected.to_frame()["verdict"].astype(str).tolist()
    with pytest.raises(ValueError, match="Expected a model, and evaluator_config"):
        evaluate(model, X.assign(y=y))

"""MLflow: ``mlflow.models.evaluate(..., evaluators="certiforest")`` certifies, and logs what was found."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import mlflow
from mlflow.models import EvaluationResult
from mlflow.models.evaluation import ModelEvaluator
from mlflow.models.evaluation.artifacts import TextEvaluationArtifact

from certiforest.certification import certify
from certiforest.formats import as_ensemble


class RobustnessEvaluator(ModelEvaluator):
    """Logs `Certificates.to_dict` as metrics, and as artifacts a report, a table of rows, model and certificate.

    ``evaluator_config`` has ``attacker``, and what else `certify` takes; the model is one that `as_ensemble` takes.
    """

    @classmethod
    def can_evaluate(cls, *, model_type: str, evaluator_config: dict[str, Any], **_: Any) -> bool:
        """Tell whether labels are compared with predictions."""
        return model_type == "classifier"

    def evaluate(
        self, *, dataset: Any, run_id: str, evaluator_config: dict[str, Any], model: Any = None, **kwargs: Any
    ) -> EvaluationResult:
        """Certify the rows of a dataset."""
        if model is None or "attacker" not in evaluator_config:
            raise ValueError('Expected a model, and evaluator_config={"attacker": Attacker(...)}, got one without.')
        options = {"proof": True, "witness": True, **evaluator_config}
        ensemble = as_ensemble(model.get_raw_model())
        found = certify(ensemble, dataset.features_data, dataset.labels_data, **options)
        metrics = {f"certiforest_{name}": float(value) for name, value in found.to_dict().items()}
        of_model = {"model_id": kwargs["model_id"]} if kwargs.get("model_id") else {}  # from MLflow 3 on
        mlflow.log_metrics(metrics, run_id=run_id, **of_model)
        with TemporaryDirectory() as folder:
            found.report(Path(folder, "report.html"))
            ensemble.save(Path(folder, "model.json"))
            if options["proof"]:
                found.save(Path(folder, "rows.cert.jsonl"))
            mlflow.log_artifacts(folder, "certiforest", run_id=run_id)
            place = mlflow.get_run(run_id).info.artifact_uri
            artifacts = {
                f"certiforest/{file.name}": TextEvaluationArtifact(f"{place}/certiforest/{file.name}", file.read_text())
                for file in sorted(Path(folder).iterdir())
            }
        mlflow.log_table(found.to_frame().reset_index(), "certiforest/rows.json", run_id=run_id)
        return EvaluationResult(metrics=metrics, artifacts=artifacts)

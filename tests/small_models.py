"""Small models that many tests ask about, and what others say of them: stumps, classifiers of other libraries."""

import numpy as np
import pytest

from certiforest import ModelError, TreeEnsemble, as_ensemble, audit


def stumps(*splits, **options):
    """Return a tree for each split (feature, threshold): the first class up to the threshold, the second beyond."""
    features, thresholds = zip(*splits, strict=True)
    nodes = [node for feature in features for node in (feature, -1, -1)]
    options = {"n_features": max(features) + 1, "classes": [0, 1]} | options
    return TreeEnsemble(nodes, np.repeat(thresholds, 3), [-1, 0, 1] * len(splits), **options)


# Mail is spam where it is long, very long, or has many links, for two of the three.
VOTERS = stumps((0, 0.5), (1, 0.5), (0, 0.8), classes=["ham", "spam"], feature_names=["length", "links"])


def differs(ensemble, model, rows, dtype=np.float32, slack=2.0**-20):
    """Tell which rows a model labels otherwise than its translation although no rounding decides that."""
    other = ensemble.predict(rows) != np.ravel(model.predict(rows))
    if ensemble.combine == "sum":
        sums = ensemble.decision_function(rows)
        lead = np.abs(sums) if sums.ndim == 1 else np.diff(np.sort(sums, axis=1)[:, -2:]).ravel()
        other &= lead > ensemble.rounding_bound(dtype) + slack
    return other


def refusal(content, tmp_path):
    """Write a file, and return the sentence with which it is refused as a model."""
    path = tmp_path / "model"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ModelError) as caught:
        as_ensemble(path)
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)
    return str(caught.value)


def audited(ensemble, c, tmp_path):
    """Save an ensemble as ``m.json`` and certificates as ``c.jsonl``; return what the auditor finds."""
    ensemble.save(tmp_path / "m.json")
    c.save(tmp_path / "c.jsonl")
    with (tmp_path / "m.json").open("rb") as model, (tmp_path / "c.jsonl").open("rb") as certificate:
        return audit.audit(model, certificate)


def xgb(kind="Classifier", **options):
    library = pytest.importorskip("xgboost")
    return getattr(library, f"XGB{kind}")(**{"n_estimators": 8, "max_depth": 3, "n_jobs": 1} | options)


def lgb(kind="Classifier", **options):
    library = pytest.importorskip("lightgbm")
    return getattr(library, f"LGBM{kind}")(**{"n_estimators": 8, "num_leaves": 8, "n_jobs": 1, "verbose": -1} | options)


def catboost(kind="Classifier", **options):
    library = pytest.importorskip("catboost")
    defaults = {"iterations": 8, "depth": 3, "verbose": 0, "thread_count": 1, "allow_writing_files": False}
    return getattr(library, f"CatBoost{kind}")(**defaults | options)

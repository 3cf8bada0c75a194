"""Small models that many tests ask about: stumps that vote, and quick classifiers of other libraries."""

import numpy as np
import pytest

from certiforest import TreeEnsemble


def stumps(*splits, **options):
    """Return a tree for each split (feature, threshold): the first class up to the threshold, the second beyond."""
    features, thresholds = zip(*splits, strict=True)
    nodes = [node for feature in features for node in (feature, -1, -1)]
    options = {"n_features": max(features) + 1, "classes": [0, 1]} | options
    return TreeEnsemble(nodes, np.repeat(thresholds, 3), [-1, 0, 1] * len(splits), **options)


# Mail is spam where it is long, very long, or has many links, for two of the three.
VOTERS = stumps((0, 0.5), (1, 0.5), (0, 0.8), classes=["ham", "spam"], feature_names=["length", "links"])


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

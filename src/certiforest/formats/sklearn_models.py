"""scikit-learn's tree classifiers, translated to what they do on float64 rows, which most of them round to float32."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.validation import check_is_fitted

from certiforest.ensemble import ModelError, Nodes, TreeEnsemble
from certiforest.formats.float32_rows import deployed_thresholds

FORESTS = (RandomForestClassifier, ExtraTreesClassifier)


def is_sklearn_forest(model: Any) -> bool:
    """Tell whether a model is one that `translate_sklearn` takes."""
    return isinstance(model, (*FORESTS, DecisionTreeClassifier))


def translate_sklearn(model: Any, voting: str | None) -> TreeEnsemble:
    """Translate a fitted forest whose trees vote, or a single tree."""
    name = type(model).__name__
    try:
        check_is_fitted(model)
    except ValueError:
        raise ModelError(f"Expected a fitted model, got an unfitted {name}; call fit first.") from None
    if isinstance(model, FORESTS) and voting != "hard":
        raise ModelError(
            f"Expected voting='hard': scikit-learn's {name} averages the probabilities of its trees, which is not"
            " supported yet. as_ensemble(model, voting='hard') takes the majority of its trees instead, which may"
            " predict otherwise on some rows."
        )
    if model.n_outputs_ != 1:
        raise ModelError(f"Expected a model with one output, got a {name} with {model.n_outputs_}.")
    trees = [estimator.tree_ for estimator in model.estimators_] if isinstance(model, FORESTS) else [model.tree_]
    names = getattr(model, "feature_names_in_", None)
    return TreeEnsemble.from_trees(
        [_translate_tree(tree) for tree in trees],
        n_features=model.n_features_in_,
        classes=model.classes_,
        feature_names=None if names is None else names.tolist(),
    )


def _translate_tree(tree: Any) -> Nodes:
    nodes = tree.__getstate__()["nodes"]
    categorical = [name for name in nodes.dtype.names if "cat" in name]
    if any(np.any(nodes[name]) for name in categorical):
        raise ModelError(
            "Expected thresholds only, got categorical splits, which are not supported;"
            " fit with one-hot encoded categories instead."
        )
    is_split = tree.children_left != -1
    return Nodes(
        left=tree.children_left,
        right=tree.children_right,
        feature=np.where(is_split, tree.feature, -1),
        threshold=deployed_thresholds(np.where(is_split, tree.threshold, 0.0)),
        leaf=tree.value[:, 0, :].argmax(axis=1),
    )

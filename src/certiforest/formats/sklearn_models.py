"""scikit-learn's tree classifiers, translated to what they do on float64 rows.

scikit-learn rounds a row to float32 and then compares with a float64 threshold ``v``. Let ``t`` be the largest float32
not above ``v``; the row goes left iff its rounded value is at most ``t``. Rounding is to nearest, ties to the even
mantissa, so that holds iff the value itself is below the midpoint of ``t`` and the next float32, or equal to it if
``t`` is the even one of the two. The midpoint is a float64, hence so is the threshold as deployed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.validation import check_is_fitted

from certiforest.ensemble import LARGEST, ModelError, Nodes, TreeEnsemble

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


def deployed_thresholds(threshold: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the float64 thresholds that act on float64 rows as the given ones act on rows rounded to float32.

    A threshold of +inf, with which scikit-learn parts missing values from all others, becomes the largest float64:
    rows here are finite, so that nobody goes right.
    """
    with np.errstate(over="ignore"):
        nearest = threshold.astype(np.float32)
        below = np.where(nearest > threshold, np.nextafter(nearest, np.float32(-np.inf)), nearest).astype(np.float32)
        above = np.nextafter(below, np.float32(np.inf)).astype(np.float64)
    if not (below[~np.isposinf(threshold)] > -np.inf).all():
        raise ModelError("Expected thresholds within the range of float32, got one below it.")
    # The float32 after the largest would be 2**128, halfway to which rounding goes to infinity.
    above = np.where(np.isinf(above), 2.0**128, above)
    middle = below.astype(np.float64) / 2 + above / 2
    is_even = (below.view(np.int32) & 1) == 0
    deployed = np.where(is_even, middle, np.nextafter(middle, -np.inf))
    return np.where(np.isposinf(threshold), LARGEST, deployed)

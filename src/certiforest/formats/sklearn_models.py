"""scikit-learn's tree classifiers, translated to what they do on float64 rows and proved.

Trees, forests and gradient boosting round rows to float32 and compare with float64 thresholds; histogram gradient
boosting compares in float64. Forests average the probabilities of their trees, here a sum; the majority of their trees
is another model, which ``voting="hard"`` asks for.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import (
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.validation import check_is_fitted

from certiforest.ensemble import ModelError, Nodes, TreeEnsemble
from certiforest.ensemble.tree_kernels import LARGEST
from certiforest.formats.float32_rows import deployed_thresholds
from certiforest.formats.proof import prove
from certiforest.formats.score_table import ScoreTable

FORESTS = (RandomForestClassifier, ExtraTreesClassifier)
BOOSTED = (GradientBoostingClassifier, HistGradientBoostingClassifier)
CONSTANT = ("prior", "most_frequent", "constant")  # strategies of DummyClassifier that look at no row and draw no lot


def is_sklearn_model(model: Any) -> bool:
    """Tell whether a model is one that `translate_sklearn` takes."""
    return isinstance(model, (*FORESTS, *BOOSTED, DecisionTreeClassifier))


def content_of_sklearn(model: Any) -> list[NDArray]:
    """Return the arrays that decide what a fitted classifier predicts, but for the plain attributes that it has."""
    name = type(model).__name__
    try:
        check_is_fitted(model)
    except ValueError:
        raise ModelError(f"Expected a fitted model, got an unfitted {name}; call fit first.") from None
    if isinstance(model, HistGradientBoostingClassifier):
        return [*(p.nodes for round_ in model._predictors for p in round_), model._baseline_prediction]
    states = [tree.tree_.__getstate__() for tree in _trees_of(model)]
    arrays = [state[column] for state in states for column in ("nodes", "values")]
    return [*arrays, _base_of(model)] if isinstance(model, GradientBoostingClassifier) else arrays


def _trees_of(model: Any) -> list:
    return [model] if isinstance(model, DecisionTreeClassifier) else np.ravel(model.estimators_).tolist()


def _base_of(model: Any) -> NDArray[np.float64]:
    """Return where the sums of gradient boosting begin."""
    init = model.init_
    if init != "zero" and not (isinstance(init, DummyClassifier) and init.strategy in CONSTANT):
        raise ModelError(
            f"Expected init to be None or 'zero', got {type(init).__name__}: sums that begin with another model's"
            " prediction are not supported."
        )
    return model._raw_predict_init(np.zeros((1, model.n_features_in_)))[0]


def translate_sklearn(model: Any, voting: str | None) -> TreeEnsemble:
    """Translate a fitted classifier and prove the translation. ``voting`` is for forests only."""
    name = type(model).__name__
    if isinstance(model, GradientBoostingClassifier):
        return _translate_boosting(model, name)
    if isinstance(model, HistGradientBoostingClassifier):
        return _translate_histogram_boosting(model, name)
    if model.n_outputs_ != 1:
        raise ModelError(f"Expected a model with one output, got a {name} with {model.n_outputs_}.")
    if isinstance(model, FORESTS) and voting != "hard":
        return _translate_averaging(model, name)
    return _translate_voting(model, name)


def _translate_voting(model: Any, name: str) -> TreeEnsemble:
    trees = _trees_of(model)
    ensemble = TreeEnsemble.from_trees(
        [_translate_tree(tree.tree_, tree.tree_.value[:, 0, :].argmax(axis=1)) for tree in trees],
        **_columns(model),
        classes=model.classes_,
    )

    def predict(rows: NDArray) -> NDArray:
        votes = np.zeros((len(rows), len(model.classes_)), np.int64)
        for tree in trees:
            votes[np.arange(len(rows)), tree.predict_proba(rows).argmax(axis=1)] += 1
        return model.classes_[votes.argmax(axis=1)]

    prove(ensemble, name, predict)
    return ensemble


def _translate_averaging(model: Any, name: str) -> TreeEnsemble:
    table = ScoreTable(len(model.classes_))
    nodes = [tree.tree_ for tree in model.estimators_]
    trees = [_translate_tree(tree, table.add(tree.value[:, 0, :], is_leaf=_is_leaf(tree))) for tree in nodes]
    ensemble = TreeEnsemble.from_trees(trees, **_columns(model), classes=model.classes_, scores=table.table())
    prove(ensemble, name, model.predict, lambda rows: model.predict_proba(rows) * len(trees))
    return ensemble


def _translate_boosting(model: Any, name: str) -> TreeEnsemble:
    trees = _trees_of(model)  # by rounds, within each by outputs
    return _add_up(
        model,
        name,
        [_translate_tree(tree.tree_) for tree in trees],
        [model.learning_rate * tree.tree_.value[:, 0, 0] for tree in trees],
        _base_of(model),
        second_wins_ties=True,
    )


def _translate_histogram_boosting(model: Any, name: str) -> TreeEnsemble:
    is_categorical = model.is_categorical_
    if is_categorical is not None and is_categorical.any():
        names = getattr(model, "feature_names_in_", np.arange(model.n_features_in_))
        raise ModelError(
            f"Expected thresholds only, got a {name} with the categorical feature {names[is_categorical][0]!s},"
            " which is not supported; fit with one-hot encoded categories instead."
        )
    nodes = [predictor.nodes for round_ in model._predictors for predictor in round_]
    return _add_up(
        model,
        name,
        [_translate_histogram_tree(tree) for tree in nodes],
        [tree["value"] for tree in nodes],
        model._baseline_prediction[0],
        second_wins_ties=False,
    )


def _add_up(
    model: Any, name: str, trees: list[Nodes], scores: list[NDArray], base: NDArray, *, second_wins_ties: bool
) -> TreeEnsemble:
    """Make an ensemble of trees that add to the outputs by turns, and prove it."""
    n_outputs = len(base)
    # With a single output, the first class wins ties here; where the second does in the model, it has to come first.
    sign, classes = (-1, model.classes_[::-1]) if second_wins_ties and n_outputs == 1 else (1, model.classes_)
    table = ScoreTable(n_outputs)
    ensemble = TreeEnsemble.from_trees(
        [
            tree._replace(leaf=table.add(sign * score, i % n_outputs, np.asarray(tree.left) == -1))
            for i, (tree, score) in enumerate(zip(trees, scores, strict=True))
        ],
        **_columns(model),
        classes=classes,
        scores=table.table(),
        base=sign * base,
    )
    prove(ensemble, name, model.predict, lambda rows: sign * model.decision_function(rows))
    return ensemble


def _columns(model: Any) -> dict[str, Any]:
    names = getattr(model, "feature_names_in_", None)
    return {"n_features": model.n_features_in_, "feature_names": None if names is None else names.tolist()}


def _is_leaf(tree: Any) -> NDArray[np.bool_]:
    return tree.children_left == -1


def _translate_tree(tree: Any, leaf: NDArray | None = None) -> Nodes:
    nodes = tree.__getstate__()["nodes"]
    categorical = [name for name in nodes.dtype.names if "cat" in name]
    if any(np.any(nodes[name]) for name in categorical):
        raise ModelError(
            "Expected thresholds only, got categorical splits, which are not supported;"
            " fit with one-hot encoded categories instead."
        )
    is_split = ~_is_leaf(tree)
    return Nodes(
        left=tree.children_left,
        right=tree.children_right,
        feature=np.where(is_split, tree.feature, -1),
        threshold=deployed_thresholds(np.where(is_split, tree.threshold, 0.0)),
        leaf=np.full(tree.node_count, -1) if leaf is None else leaf,
    )


def _translate_histogram_tree(nodes: NDArray) -> Nodes:
    is_leaf = nodes["is_leaf"].astype(bool)
    threshold = np.where(is_leaf, 0.0, nodes["num_threshold"])
    return Nodes(
        left=np.where(is_leaf, -1, nodes["left"].astype(np.int64)),
        right=np.where(is_leaf, -1, nodes["right"].astype(np.int64)),
        feature=np.where(is_leaf, -1, nodes["feature_idx"].astype(np.int64)),
        # Infinity parts missing values from all others: no finite row goes right.
        threshold=np.where(np.isposinf(threshold), LARGEST, threshold),
        leaf=np.full(len(nodes), -1),
    )

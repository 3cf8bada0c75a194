"""scikit-learn's IsolationForest: its trees add up how deep a row ends, and rows that end early are outliers.

The score is Liu, Ting and Zhou's, ``-score_samples(X)``: 2 to the power of minus the mean depth over a norm. It falls
as the sum of depths rises, so that trees add minus their depths.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from sklearn.ensemble import IsolationForest

from certiforest.ensemble import ModelError, TreeEnsemble
from certiforest.ensemble.scores import ScoreTable
from certiforest.formats.opened import Opened
from certiforest.formats.sklearn_models import leaves_of, takes_missing, translate_tree


def open_isolation(model: IsolationForest) -> Opened:
    """Translate a fitted forest; its second class, -1, are outliers."""
    norm = len(model.estimators_) * _mean_depth(model.max_samples_)
    if not norm > 0:
        raise ModelError("Expected an IsolationForest that learned from two rows or more, got one of a single row.")
    may_miss = takes_missing(model.predict, np.full(model.n_features_in_, np.nan))
    table, nodes = ScoreTable(1), []
    parts = zip(
        model.estimators_, model.estimators_features_, model._decision_path_lengths,
        model._average_path_length_per_tree, strict=True,
    )  # fmt: skip
    for tree, columns, depth, more in parts:
        leaf = table.add(-(depth + more - 1.0), 0, leaves_of(tree.tree_))
        node = translate_tree(tree.tree_, leaf, may_miss=may_miss)
        nodes.append(node._replace(feature=np.where(leaves_of(tree.tree_), -1, columns[np.maximum(node.feature, 0)])))
    names = getattr(model, "feature_names_in_", None)
    ensemble = TreeEnsemble.from_trees(
        nodes,
        n_features=model.n_features_in_,
        feature_names=None if names is None else names.tolist(),
        classes=[1, -1],
        scores=table.table(),
    )
    return Opened(
        ensemble,
        "IsolationForest",
        predict=model.predict,
        score=lambda rows: -model.score_samples(rows),
        sum_at=lambda score: Fraction(norm * math.log2(score)),
        slack=norm * 2.0**-48,
        usual_threshold=math.nextafter(-model.offset_, math.inf),  # an outlier's score is above
    )


def _mean_depth(n: int) -> float:
    """Return the mean depth of a search tree of n rows, in the library's own arithmetic."""
    from sklearn.ensemble._iforest import _average_path_length

    return float(_average_path_length([n])[0])

"""Plausible inputs: those no more isolated than a share of the data, as one more tree ensemble has it.

An isolation forest parts rows by thresholds drawn at random; where data lie, that takes long paths. An input is
plausible iff the lengths of its paths add up to as much as those of all rows but a share.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from certiforest.ensemble import Nodes, TreeEnsemble
from certiforest.formats.float32_rows import deployed_thresholds

N_TREES, ROWS_OF_A_TREE = 25, 256
UNIT = 2.0**-20  # of lengths, so that sums of floats are exact
LARGEST_FLOAT32 = float(np.finfo(np.float32).max)


def fit_plausibility(X: NDArray[np.float64], share: float) -> TreeEnsemble:
    """Return an ensemble whose sum is at least 0 iff an input is plausible.

    Parameters
    ----------
    X : ndarray of float64, shape (n, n_features)
        Columns that are the same in all rows count for nothing.
    share : float
        Of the rows, the share that is not plausible: those most isolated.
    """
    from sklearn.ensemble import IsolationForest

    rows = np.clip(X, -LARGEST_FLOAT32, LARGEST_FLOAT32)
    forest = IsolationForest(n_estimators=N_TREES, max_samples=min(ROWS_OF_A_TREE, len(rows)), random_state=0).fit(rows)
    trees, lengths = [], np.zeros(0)
    for tree in (fitted.tree_ for fitted in forest.estimators_):
        is_leaf = tree.children_left < 0
        nodes = Nodes(
            left=tree.children_left,
            right=tree.children_right,
            feature=np.where(is_leaf, -1, tree.feature),
            threshold=deployed_thresholds(np.where(is_leaf, 0.0, tree.threshold)),
            leaf=np.where(is_leaf, len(lengths) + np.arange(len(is_leaf)), -1),
            missing_left=np.zeros(len(is_leaf), bool),
        )
        trees.append(nodes)
        # A leaf with many rows stands for the paths that would part them.
        depth = tree.compute_node_depths() + _length_of_paths(tree.n_node_samples)
        lengths = np.append(lengths, np.rint(depth / UNIT) * UNIT)
    ensemble = TreeEnsemble.from_trees(
        trees, n_features=X.shape[1], classes=[0, 1], scores=lengths[:, None], base=[0.0]
    )
    sums = np.sort(np.ravel(ensemble.decision_function(X)))
    return ensemble.replace(base=[-sums[int(share * len(sums))]])


def _length_of_paths(n: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return how long paths are on average that part ``n`` rows at random."""
    many = np.maximum(n, 3.0)
    return np.where(n > 2, 2 * (np.log(many - 1) + np.euler_gamma) - 2 * (many - 1) / many, n - 1.0)

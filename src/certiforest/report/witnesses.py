"""Witnesses as people should see them: with no more changes than needed, and how many the world may not have."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from certiforest.ensemble import TreeEnsemble
from certiforest.ensemble.scaling import Scaling


def trim(ensemble: TreeEnsemble, x: NDArray[np.float64], z: NDArray[np.float64]) -> NDArray[np.float64]:
    """Take back every change of a row that its changed prediction does not need, the largest first.

    Parameters
    ----------
    ensemble : TreeEnsemble
    x, z : ndarray of shape (n_features,)
        A row, and one that is predicted otherwise.

    Returns
    -------
    ndarray of shape (n_features,)
        Predicted otherwise than ``x``, and nowhere further from it than ``z``.
    """
    z = z.copy()
    before = ensemble.class_index(x[None])[0]
    with np.errstate(over="ignore"):
        changed = np.flatnonzero(x != z)
        changed = changed[np.argsort(-np.abs(z - x)[changed], kind="stable")]
    for feature in changed:
        kept, z[feature] = z[feature], x[feature]
        if ensemble.class_index(z[None])[0] == before:
            z[feature] = kept
    return z


def count_fractions(X: NDArray[np.float64], witness: NDArray[np.float64], scaling: Scaling | None) -> int:
    """Count the witnesses with a fraction in a column whose values are all whole numbers in the data.

    Parameters
    ----------
    X : ndarray of shape (n, n_features)
        Rows in the units of the model.
    witness : ndarray of shape (m, n_features)
        Changed rows in these units.
    scaling : Scaling or None
        Leads back to the units of the data, but for rounding.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        rows, changed = (values if scaling is None else scaling.invert(values) for values in (X, witness))
        is_whole = _are_whole(rows).all(axis=0)
        return int((~_are_whole(changed[:, is_whole])).any(axis=1).sum())


def _are_whole(values: NDArray[np.float64]) -> NDArray[np.bool_]:
    return np.abs(values - np.rint(values)) <= 1e-9 * np.maximum(np.abs(values), 1.0)

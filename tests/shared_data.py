"""Where reference data that is no part of the product lives, and the paper's splits of it.

It is looked for in the directory that the environment variable CERTIFOREST_SHARED names, else in ``shared``
beside the repository. Tests that need it are skipped where it is absent.
"""

import functools
import os
from pathlib import Path

import numpy as np
import pytest
from sklearn.model_selection import train_test_split

PAIRS = {"mnist26": ("mnist.npz", 2, 6), "fashion03": ("fashion.npz", 0, 3)}


def shared() -> Path | None:
    """Return the directory of reference data, None if there is none."""
    named = os.environ.get("CERTIFOREST_SHARED")
    directory = Path(named) if named else Path(__file__).resolve().parents[2] / "shared"
    return directory if directory.is_dir() else None


needs_shared = pytest.mark.skipif(
    shared() is None, reason="needs the reference data (set CERTIFOREST_SHARED to its directory)"
)


@functools.cache
def paper_split(dataset: str):
    """Return X_train, X_test, y_train, y_test as the paper splits them; the second class is 1."""
    directory = shared()
    if directory is None:
        raise FileNotFoundError("Expected CERTIFOREST_SHARED to name the directory of reference data.")
    file, zero, one = PAIRS[dataset]
    with np.load(directory / "data" / file) as images:
        chosen = np.isin(images["y"], (zero, one))
        X, y = images["X"][chosen].astype(np.float64), (images["y"][chosen] == one).astype(np.int64)
    low, high = X.min(axis=0), X.max(axis=0)
    X = (X - low) / np.where(high > low, high - low, 1.0)
    return tuple(train_test_split(X, y, test_size=0.3, random_state=7, stratify=y))

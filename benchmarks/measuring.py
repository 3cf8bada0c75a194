"""What the benchmarks share: rows, clocks and exponents."""

import time

import numpy as np
from sklearn.datasets import make_classification
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import minmax_scale

from certiforest import certify
from certiforest.data.datasets import load_dataset


def load_rows(data_dir):
    """Return X_train, X_test, y_train, y_test: the paper's split of MNIST 2 against 6, or synthetic rows like it."""
    if data_dir is not None:
        return load_dataset("mnist26", data_dir=data_dir).scaled_split()
    X, y = make_classification(13_866, 784, n_informative=60, random_state=0)
    return train_test_split(minmax_scale(X), y, test_size=0.3, random_state=7, stratify=y)


def best_time(function, repeats):
    """Return the fewest CPU seconds that a call took, after one that warms up."""
    function()
    times = []
    for _ in range(repeats):
        began = time.process_time()
        function()
        times.append(time.process_time() - began)
    return min(times)


def certify_unprepared(ensemble, X, y, attacker):
    """Certify as if the ensemble were seen for the first time: it keeps what certifying has prepared."""
    vars(ensemble).pop("without_idle_splits", None)
    return certify(ensemble, X, y, attacker)


def fit_time(model, X, y):
    began = time.process_time()
    model.fit(X, y)
    return time.process_time() - began


def exponent(sizes, times):
    """Return the exponent with which times grow with sizes."""
    return np.polyfit(np.log(sizes), np.log(times), 1)[0]


def print_growth(of, sizes, times):
    print(f"{of:<5} {list(sizes)}: {np.round(times, 2).tolist()} s, exponent {exponent(sizes, times):.2f}")

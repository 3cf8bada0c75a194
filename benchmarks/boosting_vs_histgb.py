"""Time boosting with large spread against scikit-learn's histogram gradient boosting.

Times `LargeSpreadBoostingClassifier.fit` (default parameters) against `HistGradientBoostingClassifier.fit` with as
many trees of the same depth on the same rows, one thread, CPU seconds, best of several repeats in turn, all in one
run; prints the ratio and how the cost increases with rows and with trees.

    python benchmarks/boosting_vs_histgb.py --data-dir DIR      rows of MNIST, 2 against 6, from DIR/mnist.npz
    python benchmarks/boosting_vs_histgb.py                     synthetic rows of the same shape
"""

import argparse
import os
import time
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = "1"  # before scikit-learn is imported: its boosting takes all cores otherwise

import numpy as np
from sklearn.datasets import make_classification
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.preprocessing import minmax_scale

from certiforest import Attacker, LargeSpreadBoostingClassifier, has_large_spread

DEPTH = 6


def load_rows(data_dir):
    """Return X and y of the standard training rows, in the unit interval."""
    if data_dir is None:
        X, y = make_classification(11_876, 784, n_informative=60, random_state=0)
        return minmax_scale(X), y
    with np.load(Path(data_dir) / "mnist.npz") as digits:
        chosen = np.isin(digits["y"], (2, 6)) & digits["is_train"].astype(bool)
        return digits["X"][chosen].reshape(chosen.sum(), -1) / 255.0, (digits["y"][chosen] == 6).astype(int)


def ours(trees, eps):
    return LargeSpreadBoostingClassifier(trees, DEPTH, eps=eps, random_state=0, n_jobs=1)


def theirs(trees):
    return HistGradientBoostingClassifier(
        max_iter=trees, max_depth=DEPTH, max_leaf_nodes=None, early_stopping=False, random_state=0
    )


def seconds(model, X, y):
    began = time.process_time()
    model.fit(X, y)
    return time.process_time() - began


def exponent(sizes, times):
    return np.polyfit(np.log(sizes), np.log(times), 1)[0]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    X, y = load_rows(arguments.data_dir)
    ours(2, 0.015).fit(X[:500], y[:500])  # compile
    print(f"{len(X)} rows, {X.shape[1]} features, depth {DEPTH}, one thread")
    for eps in (0.015, 0.3):
        model = ours(100, eps).fit(X, y)  # at large eps thresholds run out: compare with as many trees as there are
        assert has_large_spread(model.ensemble_, Attacker(np.inf, eps))
        trees = model.n_estimators_
        times = [(seconds(model, X, y), seconds(theirs(trees), X, y)) for _ in range(arguments.repeats)]
        own, other = np.min(times, axis=0)
        print(
            f"eps {eps}: {trees} trees, {own:.2f} s, HistGradientBoostingClassifier {other:.2f} s, ratio"
            f" {own / other:.2f}",
            flush=True,
        )
    rows = (np.array([0.25, 0.5, 1.0]) * len(X)).astype(int)
    by_rows = [min(seconds(ours(50, 0.015), X[:n], y[:n]) for _ in range(arguments.repeats)) for n in rows]
    trees = np.array([12, 25, 50, 100])
    by_trees = [min(seconds(ours(m, 0.015), X, y) for _ in range(arguments.repeats)) for m in trees]
    print(f"rows  {rows.tolist()}: {np.round(by_rows, 2).tolist()} s, exponent {exponent(rows, by_rows):.2f}")
    print(f"trees {trees.tolist()}: {np.round(by_trees, 2).tolist()} s, exponent {exponent(trees, by_trees):.2f}")


if __name__ == "__main__":
    main()

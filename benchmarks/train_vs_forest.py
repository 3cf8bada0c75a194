"""Time growing a large-spread forest against scikit-learn's random forest.

Times `LargeSpreadForestClassifier.fit` (default method and parameters) against `RandomForestClassifier.fit` with the
same trees, depth and rows, one thread, CPU seconds, best of several repeats in turn, all in one run; prints the ratio
and how the cost of growing increases with rows and with trees.

    python benchmarks/train_vs_forest.py --data-dir DIR      rows of MNIST, 2 against 6, from DIR/mnist.npz
    python benchmarks/train_vs_forest.py                     synthetic rows of the same shape
"""

import argparse
import time
from pathlib import Path

import numpy as np
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split

from certiforest import Attacker, has_large_spread
from certiforest.training.forest import LargeSpreadForestClassifier

EPS, TREES, DEPTH = 0.015, 101, 6


def load_rows(data_dir):
    """Return X and y of the paper's training rows, scaled to the unit interval."""
    if data_dir is None:
        X, y = make_classification(13_866, 784, n_informative=60, random_state=0)
    else:
        with np.load(Path(data_dir) / "mnist.npz") as digits:
            chosen = np.isin(digits["y"], (2, 6))
            X, y = digits["X"][chosen].astype(np.float64), (digits["y"][chosen] == 6).astype(int)
    low, high = X.min(axis=0), X.max(axis=0)
    X = (X - low) / np.where(high > low, high - low, 1)
    X_train, _, y_train, _ = train_test_split(X, y, test_size=0.3, random_state=7, stratify=y)
    return X_train, y_train


def grown(trees):
    return LargeSpreadForestClassifier(trees, DEPTH, eps=EPS, random_state=0, n_jobs=1)


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
    grown(2).fit(X[:500], y[:500])  # compile

    model, forest = grown(TREES), RandomForestClassifier(TREES, max_depth=DEPTH, random_state=0, n_jobs=1)
    times = [(seconds(model, X, y), seconds(forest, X, y)) for _ in range(arguments.repeats)]
    ours, theirs = np.min(times, axis=0)
    assert has_large_spread(model.ensemble_, Attacker(np.inf, EPS))
    print(f"{len(X)} rows, {X.shape[1]} features, {TREES} trees of depth {DEPTH}, eps {EPS}, one thread")
    print(f"grow {ours:.2f} s, RandomForestClassifier {theirs:.2f} s, ratio {ours / theirs:.2f}")

    shares = np.array([0.25, 0.5, 1.0])
    rows = (shares * len(X)).astype(int)
    by_rows = [min(seconds(grown(TREES), X[:n], y[:n]) for _ in range(arguments.repeats)) for n in rows]
    trees = np.array([25, 50, 101, 202])
    by_trees = [min(seconds(grown(m), X, y) for _ in range(arguments.repeats)) for m in trees]
    print(f"rows  {rows.tolist()}: {np.round(by_rows, 2).tolist()} s, exponent {exponent(rows, by_rows):.2f}")
    print(f"trees {trees.tolist()}: {np.round(by_trees, 2).tolist()} s, exponent {exponent(trees, by_trees):.2f}")


if __name__ == "__main__":
    main()

"""Time growing a large-spread forest against scikit-learn's random forest.

Times `LargeSpreadForestClassifier.fit` (default method and parameters) against `RandomForestClassifier.fit` with the
same trees, depth and rows, one thread, CPU seconds, best of several repeats in turn, all in one run; prints the ratio
and how the cost of growing increases with rows and with trees.

    python benchmarks/train_vs_forest.py --data-dir DIR      rows of MNIST, 2 against 6, from DIR/mnist.npz
    python benchmarks/train_vs_forest.py                     synthetic rows of the same shape
"""

import argparse
from pathlib import Path

import numpy as np
from sklearn.ensemble import RandomForestClassifier

from certiforest import Attacker, has_large_spread
from certiforest.training.forest import LargeSpreadForestClassifier
from measuring import fit_time, load_rows, print_growth

EPS, TREES, DEPTH = 0.015, 101, 6


def grown(trees):
    return LargeSpreadForestClassifier(trees, DEPTH, eps=EPS, random_state=0, n_jobs=1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    X, _, y, _ = load_rows(arguments.data_dir)
    grown(2).fit(X[:500], y[:500])  # compile

    model, forest = grown(TREES), RandomForestClassifier(TREES, max_depth=DEPTH, random_state=0, n_jobs=1)
    times = [(fit_time(model, X, y), fit_time(forest, X, y)) for _ in range(arguments.repeats)]
    ours, theirs = np.min(times, axis=0)
    assert has_large_spread(model.ensemble_, Attacker(np.inf, EPS))
    print(f"{len(X)} rows, {X.shape[1]} features, {TREES} trees of depth {DEPTH}, eps {EPS}, one thread")
    print(f"grow {ours:.2f} s, RandomForestClassifier {theirs:.2f} s, ratio {ours / theirs:.2f}")

    shares = np.array([0.25, 0.5, 1.0])
    rows = (shares * len(X)).astype(int)
    by_rows = [min(fit_time(grown(TREES), X[:n], y[:n]) for _ in range(arguments.repeats)) for n in rows]
    print_growth("rows", rows.tolist(), by_rows)
    trees = [25, 50, 101, 202]
    by_trees = [min(fit_time(grown(m), X, y) for _ in range(arguments.repeats)) for m in trees]
    print_growth("trees", trees, by_trees)


if __name__ == "__main__":
    main()

"""Time boosting with large spread against scikit-learn's histogram gradient boosting.

Times `LargeSpreadBoostingClassifier.fit` (default parameters) against `HistGradientBoostingClassifier.fit` with as
many trees of the same depth on the same rows, one thread, CPU seconds, best of several repeats in turn, all in one
run; prints the ratio and how the cost increases with rows and with trees.

    python benchmarks/boosting_vs_histgb.py --data-dir DIR      rows of MNIST, 2 against 6, from DIR/mnist.npz
    python benchmarks/boosting_vs_histgb.py                     synthetic rows of the same shape
"""

import argparse
import os
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = "1"  # before scikit-learn is imported: its boosting takes all cores otherwise

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier

from certiforest import Attacker, LargeSpreadBoostingClassifier, has_large_spread
from measuring import fit_time, load_rows, print_growth

DEPTH = 6


def ours(trees, eps):
    return LargeSpreadBoostingClassifier(trees, DEPTH, eps=eps, random_state=0, n_jobs=1)


def theirs(trees):
    return HistGradientBoostingClassifier(
        max_iter=trees, max_depth=DEPTH, max_leaf_nodes=None, early_stopping=False, random_state=0
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    X, _, y, _ = load_rows(arguments.data_dir)
    ours(2, 0.015).fit(X[:500], y[:500])  # compile
    print(f"{len(X)} rows, {X.shape[1]} features, depth {DEPTH}, one thread")
    for eps in (0.015, 0.3):
        model = ours(100, eps).fit(X, y)  # at large eps thresholds run out: compare with as many trees as there are
        assert has_large_spread(model.ensemble_, Attacker(np.inf, eps))
        trees = model.n_estimators_
        times = [(fit_time(model, X, y), fit_time(theirs(trees), X, y)) for _ in range(arguments.repeats)]
        own, other = np.min(times, axis=0)
        print(
            f"eps {eps}: {trees} trees, {own:.2f} s, HistGradientBoostingClassifier {other:.2f} s, ratio"
            f" {own / other:.2f}",
            flush=True,
        )
    rows = (np.array([0.25, 0.5, 1.0]) * len(X)).astype(int)
    by_rows = [min(fit_time(ours(50, 0.015), X[:n], y[:n]) for _ in range(arguments.repeats)) for n in rows]
    print_growth("rows", rows.tolist(), by_rows)
    trees = [12, 25, 50, 100]
    by_trees = [min(fit_time(ours(m, 0.015), X, y) for _ in range(arguments.repeats)) for m in trees]
    print_growth("trees", trees, by_trees)


if __name__ == "__main__":
    main()

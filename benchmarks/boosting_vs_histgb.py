"""Time our trainers of sums against scikit-learn's histogram gradient boosting.

Times ``fit`` of boosting with large spread, of boosting without and of the additive trainer against
`HistGradientBoostingClassifier.fit` with as many trees of the same depth (the additive one: 100) on the same rows, one
thread, CPU seconds, best of several repeats in turn, all in one run; then the same where 30 % of the values are
missing; then how the cost increases with rows, trees and classes.

    python benchmarks/boosting_vs_histgb.py --data-dir DIR      rows of MNIST, 2 against 6, from DIR/mnist.npz
    python benchmarks/boosting_vs_histgb.py                     synthetic rows of the same shape
"""

import argparse
import os
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = "1"  # before scikit-learn is imported: its boosting takes all cores otherwise

import numpy as np
from sklearn.datasets import make_classification
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.preprocessing import minmax_scale

from certiforest import (
    LargeSpreadAdditiveClassifier,
    LargeSpreadBoostingClassifier,
    RobustBoostingClassifier,
    has_large_spread,
)
from measuring import fit_time, load_rows, print_growth

DEPTH, TREES, MISSING = 6, 100, 0.3


def large_spread(trees, eps=0.015):
    return LargeSpreadBoostingClassifier(trees, DEPTH, eps=eps, random_state=0, n_jobs=1)


def robust(trees, eps=0.015):
    return RobustBoostingClassifier(trees, DEPTH, eps=eps, random_state=0, n_jobs=1)


def alone(_, eps=0.5):
    return LargeSpreadAdditiveClassifier(max_columns=1, norm=2, eps=eps, random_state=0)


def additive(_, eps=0.5):
    return LargeSpreadAdditiveClassifier(norm=2, eps=eps, random_state=0)


def theirs(trees):
    return HistGradientBoostingClassifier(
        max_iter=trees, max_depth=DEPTH, max_leaf_nodes=None, early_stopping=False, random_state=0
    )


QUESTIONS = (
    ("large spread, eps .015", large_spread, 0.015),
    ("large spread, eps .3", large_spread, 0.3),
    ("robust, eps .015", robust, 0.015),
    ("additive, L2 .5", additive, 0.5),
    ("the same, single columns", alone, 0.5),
)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--rows", type=int, help="rows to train on; all if not given")
    arguments = parser.parse_args()
    X, _, y, _ = load_rows(arguments.data_dir)
    X, y = X[: arguments.rows], y[: arguments.rows]
    holed = np.where(np.random.default_rng(0).random(X.shape) < MISSING, np.nan, X)
    for _, ours, eps in QUESTIONS:
        ours(2, eps).fit(X[:500], y[:500])  # compile
    print(f"{len(X)} rows, {X.shape[1]} features, depth {DEPTH}, one thread; HistGB is HistGradientBoostingClassifier")
    for name, rows in (("", X), (f", {MISSING:.0%} missing", holed)):
        for kind, ours, eps in QUESTIONS:
            model = ours(TREES, eps).fit(rows, y)  # at large eps thresholds run out: as many trees as there are
            assert ours is robust or has_large_spread(model.ensemble_, model.attacker_)
            trees = TREES if ours in (additive, alone) else model.n_estimators_
            times = [(fit_time(model, rows, y), fit_time(theirs(trees), rows, y)) for _ in range(arguments.repeats)]
            own, other = np.min(times, axis=0)
            print(
                f"{kind + name:38} {model.ensemble_.n_trees:4} trees {own:7.2f} s, HistGB {trees:4} trees"
                f" {other:7.2f} s, ratio {own / other:6.2f}",
                flush=True,
            )
    sizes = (np.array([0.25, 0.5, 1.0]) * len(X)).astype(int)
    for kind, ours, eps in QUESTIONS[:1] + QUESTIONS[2:]:
        print(kind)
        by_rows = [min(fit_time(ours(50, eps), X[:n], y[:n]) for _ in range(arguments.repeats)) for n in sizes]
        print_growth("rows", sizes.tolist(), by_rows)
        if ours not in (additive, alone):
            trees = [25, 50, 100]
            print_growth(
                "trees", trees, [min(fit_time(ours(m, eps), X, y) for _ in range(arguments.repeats)) for m in trees]
            )
        classes = [2, 4, 8]
        tables = [
            make_classification(4000, 50, n_informative=20, n_classes=n, n_clusters_per_class=1, random_state=0)
            for n in classes
        ]
        tables = [(minmax_scale(table), labels) for table, labels in tables]
        by_classes = [min(fit_time(ours(25, eps), *table) for _ in range(arguments.repeats)) for table in tables]
        print_growth("classes", classes, by_classes)


if __name__ == "__main__":
    main()

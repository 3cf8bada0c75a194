"""Grow forests with the default parameters of the estimator and certify them, beside the paper's figures.

    python studies/grown_forests.py --data-dir DIR [--seeds 0 1 2] [--only paper larger small ten]

DIR holds mnist.npz and fashion.npz with arrays X (70000, 784), y and is_train in the original order, and, for the
small tables, a directory ``tabular`` with spambase, ClaMP, breast-cancer-wisconsin and diabetes. Every figure is from
test rows that took no part in training or in choosing a parameter; every ensemble passes the exact large-spread check.

paper   two classes of MNIST and Fashion-MNIST, the paper's split, sizes and eps; mean over the seeds
larger  MNIST 2 against 6, eps 0.1 and 0.3
small   small tables, 5 folds: grown, pruned (the paper's way) and scikit-learn's forest
ten     all ten digits of MNIST, standard test set, eps 0.1
"""

import argparse
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import StratifiedKFold, train_test_split

from certiforest import Attacker, as_ensemble, certify, has_large_spread
from certiforest.training.forest import LargeSpreadForestClassifier, ShortfallWarning
from certiforest.training.growing import GrowthWarning

PAIRS = {"mnist26": ("mnist.npz", 2, 6), "fashion03": ("fashion.npz", 0, 3)}
EPS = (0.005, 0.01, 0.015)
# (dataset, trees, depth): the paper's accuracy of the traditional forest; accuracy and robust accuracy of its
# large-spread forests for each eps.
PAPER = {
    ("mnist26", 25, 4): (0.97, [(0.97, 0.96), (0.97, 0.90), (0.97, 0.83)]),
    ("mnist26", 101, 6): (0.99, [(0.99, 0.97), (0.99, 0.97), (0.99, 0.94)]),
    ("fashion03", 25, 4): (0.93, [(0.92, 0.90), (0.92, 0.87), (0.91, 0.88)]),
    ("fashion03", 101, 6): (0.96, [(0.96, 0.93), (0.94, 0.91), (0.92, 0.89)]),
}
# eps, trees, depth: chosen on a validation part of the training rows.
LARGER = [(0.1, 25, 6), (0.3, 15, 6), (0.3, 15, 8)]
TABLES = ("spambase", "ClaMP", "breast-cancer", "diabetes")
SMALL_TREES, SMALL_DEPTH = 25, 6


def unit_scaled(X):
    low, high = X.min(axis=0), X.max(axis=0)
    return (X - low) / np.where(high > low, high - low, 1.0)


def pair(directory, dataset):
    """Return X_train, X_test, y_train, y_test of two classes as the paper splits them."""
    file, zero, one = PAIRS[dataset]
    with np.load(directory / file) as images:
        chosen = np.isin(images["y"], (zero, one))
        X, y = images["X"][chosen].astype(np.float64), (images["y"][chosen] == one).astype(np.int64)
    return train_test_split(unit_scaled(X), y, test_size=0.3, random_state=7, stratify=y)


def table(directory, name):
    """Return X, scaled to the unit interval, and y of a small table."""
    path = next((directory / "tabular").glob(f"{name}*"))
    if name == "spambase":
        frame = pd.read_csv(path, header=None)
    elif name == "breast-cancer":
        frame = pd.read_csv(path, header=None, na_values="?").dropna().drop(columns=0)
    else:
        frame = pd.read_csv(path)
    label = frame.iloc[:, -1].to_numpy()
    X = frame.iloc[:, :-1].select_dtypes("number").to_numpy(np.float64)
    return unit_scaled(X), np.unique(label, return_inverse=True)[1]


def evaluate(split, attacker, trees, depth, seed, **params):
    """Return accuracy, robust accuracy, CPU seconds of training and the forest."""
    X_train, X_test, y_train, y_test = split
    forest = LargeSpreadForestClassifier(
        trees, depth, norm=attacker.norm, eps=attacker.eps, random_state=seed, n_jobs=1, **params
    )
    began = time.process_time()
    forest.fit(X_train, y_train)
    seconds = time.process_time() - began
    assert has_large_spread(forest.ensemble_, attacker)
    found = certify(forest, X_test, y_test, attacker)
    assert (found.stable >= 0).all()  # no row is left undecided
    return found.accuracy, found.robust_accuracy, seconds, forest


def paper_tables(directory, seeds):
    print("dataset    size   eps    accuracy  robust (worst seed)  train s | paper: accuracy robust, traditional")
    for (dataset, trees, depth), (traditional, figures) in PAPER.items():
        split = pair(directory, dataset)
        for eps, (accuracy, robust) in zip(EPS, figures, strict=True):
            runs = [evaluate(split, Attacker(np.inf, eps), trees, depth, seed)[:3] for seed in seeds]
            mean, worst = np.mean(runs, axis=0), np.min(runs, axis=0)
            print(
                f"{dataset:<10} {trees:>3}x{depth}  {eps:<6} {mean[0]:.4f}    {mean[1]:.4f} ({worst[1]:.4f})"
                f"      {mean[2]:5.1f}   | {accuracy:.2f} {robust:.2f}, {traditional:.2f}",
                flush=True,
            )


def larger_attackers(directory, seeds):
    split = pair(directory, "mnist26")
    print("mnist26    size   eps    accuracy  robust (worst seed)  train s")
    for eps, trees, depth in LARGER:
        runs = [evaluate(split, Attacker(np.inf, eps), trees, depth, seed)[:3] for seed in seeds]
        mean, worst = np.mean(runs, axis=0), np.min(runs, axis=0)
        print(
            f"           {trees:>3}x{depth}  {eps:<6} {mean[0]:.4f}    {mean[1]:.4f} ({worst[1]:.4f})"
            f"      {mean[2]:5.1f}",
            flush=True,
        )


def small_tables(directory, seeds):
    print(f"5 folds, {SMALL_TREES} trees of depth {SMALL_DEPTH}; accuracy / robust accuracy, sd of robust over folds")
    print("table          eps   grown                  pruned (trees)               scikit-learn (its majority vote)")
    for name in TABLES:
        X, y = table(directory, name)
        folds = list(StratifiedKFold(5, shuffle=True, random_state=0).split(X, y))
        for eps in (0.01, 0.05, 0.1):
            attacker = Attacker(np.inf, eps)
            grown, pruned, usual = [], [], []
            for train, test in folds:
                split = X[train], X[test], y[train], y[test]
                grown.append(evaluate(split, attacker, SMALL_TREES, SMALL_DEPTH, seeds[0])[:2])
                *figures, _, forest = evaluate(
                    split, attacker, SMALL_TREES, SMALL_DEPTH, seeds[0], method="prune", on_shortfall="keep"
                )
                pruned.append((*figures, forest.ensemble_.n_trees))
                other = RandomForestClassifier(SMALL_TREES, max_depth=SMALL_DEPTH, random_state=seeds[0])
                other.fit(X[train], y[train])
                found = certify(as_ensemble(other, voting="hard"), X[test], y[test], attacker)
                usual.append((other.score(X[test], y[test]), *found.robust_accuracy_bounds))
            ours, theirs, forest = (np.mean(runs, axis=0) for runs in (grown, pruned, usual))
            print(
                f"{name:<14} {eps:<5} {ours[0]:.3f} / {ours[1]:.3f} +- {np.std(grown, axis=0)[1]:.3f}"
                f"   {theirs[0]:.3f} / {theirs[1]:.3f} ({theirs[2]:.1f} trees)"
                f"   {forest[0]:.3f} / between {forest[1]:.3f} and {forest[2]:.3f}",
                flush=True,
            )


def ten_digits(directory, seeds):
    with np.load(directory / "mnist.npz") as digits:
        X, y, is_train = digits["X"] / 255.0, digits["y"].astype(np.int64), digits["is_train"].astype(bool)
    split = X[is_train], X[~is_train], y[is_train], y[~is_train]
    print("ten digits  size   eps  accuracy  robust  train s")
    for trees, depth in ((25, 8), (51, 10)):
        accuracy, robust, seconds, _ = evaluate(split, Attacker(np.inf, 0.1), trees, depth, seeds[0])
        print(f"           {trees:>3}x{depth:<3} 0.1  {accuracy:.4f}    {robust:.4f}  {seconds:.1f}", flush=True)


def main():
    parts = {"paper": paper_tables, "larger": larger_attackers, "small": small_tables, "ten": ten_digits}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--only", nargs="+", choices=parts, default=list(parts))
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", ShortfallWarning)  # the tables show how many trees were kept
    warnings.simplefilter("ignore", GrowthWarning)
    for part in arguments.only:
        parts[part](arguments.data_dir, arguments.seeds)
        print()


if __name__ == "__main__":
    main()

"""Boost trees for tables without large spread and certify them, beside the records and the best plain model.

    python studies/robust_boosting_records.py --data-dir DIR [--seeds 0 1 2] [--only ordinary cod-rna ...]

DIR holds a directory ``tabular``. `RobustBoostingClassifier` with its default parameters except for the depth, which is
the best of `DEPTHS` by certified accuracy on a fifth of (at most 10,000) training rows. Test rows take part in nothing
else. Verdicts are exact; rows not decided in a second count as not certified, their number is printed. CPU seconds,
one thread; mean and worst of the seeds.

ordinary        make_classification, 50 features, 20 informative, scaled to [0, 1]; 50,000 rows train, 3,000 test
cod-rna, ijcnn  as published, in [0, 1]; 20,000 random test rows; rows of ijcnn follow each other in time and overlap:
                its depth is chosen on the first 10,000, the last fifth of which is judged
spambase, ClaMP  five folds instead of seeds, each of which chooses its own depth; scaled to [0, 1]
breast-cancer, diabetes  the split of the record: rows in file order, 80% for training, scaled by these; as they are
                small, number of trees, learning rate, leaf size and the share of eps to train for are chosen with the
                depth, by five folds of training rows twice; verdicts are for all of eps, in folds, too
MNIST, Fashion  two classes of mnist.npz and fashion.npz of DIR, standard split; settings (`FIXED`) were chosen on 3,000
                training rows put aside

Fresh tables, named before anything was run on them: digits (ten classes), wdbc, blurred (make_classification, 30
features, 10 informative, a tenth of the labels wrong). "constant" is the share of the commonest class in the test rows;
HistGB is the accuracy of scikit-learn's HistGradientBoostingClassifier, which certifies nothing.
"""

import argparse
import itertools
import time
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer, load_digits, make_classification
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import RepeatedStratifiedKFold, StratifiedKFold, train_test_split

from certiforest import Attacker, RobustBoostingClassifier, certify

DEPTHS = (6, 12, 20)
N_TUNE, N_TEST = 10_000, 20_000
# eps and the record
TABLES = {
    "spambase": (0.01, 0.843),
    "ClaMP": (0.05, 0.939),
    "diabetes": (0.05, 0.695),
    "breast-cancer": (0.3, 0.934),
    "ijcnn .02": (0.02, 0.905),
    "ijcnn .05": (0.05, 0.905),
    "cod-rna": (0.025, 0.787),
    "MNIST 1v5": (0.3, 0.987),
    "MNIST 2v6": (0.3, 0.962),
    "Fashion 5v7": (0.1, 0.923),
    "digits": (0.05, None),
    "wdbc": (0.05, None),
    "blurred": (0.02, None),
    "ordinary": (0.01, 0.830),
}
FOLDED = ("spambase", "ClaMP")
FEW_ROWS = ("breast-cancer", "diabetes")
ORDERED = ("ijcnn .02", "ijcnn .05")
PAIRS = {"MNIST 1v5": (1, 5), "MNIST 2v6": (2, 6), "Fashion 5v7": (5, 7)}
BOOSTED = dict(n_estimators=60, learning_rate=0.1, l2_regularization=1.0, forgiveness=1.0)
DEEPER = dict(max_depth=24, max_features=None, **BOOSTED)
FIXED = {"MNIST 1v5": BOOSTED, "MNIST 2v6": DEEPER, "Fashion 5v7": DEEPER}
SMALL = {
    "max_depth": (1, 2, 3, 5, 8),
    "n_estimators": (20, 60, 200),
    "learning_rate": (0.05, 0.2),
    "min_samples_leaf": (5, 20),
}
SHARES_OF_EPS = (1.0, 0.8)  # to train for


def unit_scaled(X, by=None):
    low, high = (X if by is None else by).min(axis=0), (X if by is None else by).max(axis=0)
    return (X - low) / np.where(high > low, high - low, 1.0)


def frame_of(directory, name):
    path = next((directory / "tabular").glob(f"{name}*"))
    if name == "breast-cancer":
        frame = pd.read_csv(path, header=None, na_values="?").dropna()
    else:
        frame = pd.read_csv(path, header=None if name == "spambase" else "infer")
    X = frame.iloc[:, :-1].select_dtypes("number").to_numpy(np.float64)
    return X, np.unique(frame.iloc[:, -1], return_inverse=True)[1]


def split_of(directory, name, seed):
    """Return X_train, X_test, y_train, y_test."""
    if name in FOLDED:
        X, y = frame_of(directory, name)
        train, test = list(StratifiedKFold(5, shuffle=True, random_state=0).split(X, y))[seed]
        X = unit_scaled(X)
        return X[train], X[test], y[train], y[test]
    if name in FEW_ROWS:
        X, y = frame_of(directory, name)
        n_train = int(0.8 * len(X))
        X = unit_scaled(X, X[:n_train])
        return X[:n_train], X[n_train:], y[:n_train], y[n_train:]
    if name.split()[0] in ("cod-rna", "ijcnn"):
        paths = [directory / "tabular" / f"{name.split()[0]}.{part}.csv.gz" for part in ("train", "test")]
        train, test = (pd.read_csv(path, header=None).to_numpy(np.float64) for path in paths)
        test = test[np.random.default_rng(0).permutation(len(test))[:N_TEST]]  # files are sorted by class
        return train[:, 1:], test[:, 1:], train[:, 0].astype(int), test[:, 0].astype(int)
    if name in PAIRS:
        with np.load(directory / f"{name.split()[0].lower()}.npz") as data:
            chosen, second = np.isin(data["y"], PAIRS[name]), PAIRS[name][1]
            X, y, is_train = data["X"][chosen], data["y"][chosen] == second, data["is_train"][chosen].astype(bool)
        X, y = X.reshape(len(X), -1) / 255.0, y.astype(int)
        return X[is_train], X[~is_train], y[is_train], y[~is_train]
    if name == "ordinary":
        X, y = make_classification(70_000, 50, n_informative=20, random_state=0)
        X = unit_scaled(X)
        return X[:50_000], X[50_000:53_000], y[:50_000], y[50_000:53_000]
    if name == "blurred":
        X, y = make_classification(13_000, 30, n_informative=10, flip_y=0.2, random_state=42)
        X = unit_scaled(X)
        return X[:10_000], X[10_000:], y[:10_000], y[10_000:]
    X, y = (load_digits if name == "digits" else load_breast_cancer)(return_X_y=True)
    return train_test_split(unit_scaled(X), y, test_size=0.3, random_state=0, stratify=y)


def evaluate(split, eps, seed, parameters):
    """Return accuracy, certified accuracy, undecided rows, CPU seconds of training and of verification.

    ``parameters`` may have another eps to train for; verdicts are for ``eps``.
    """
    X_train, X_test, y_train, y_test = split
    model = RobustBoostingClassifier(**{"eps": eps, "random_state": seed, **parameters})
    began = time.process_time()
    model.fit(X_train, y_train)
    trained = time.process_time()
    found = certify(model, X_test, y_test, Attacker(np.inf, eps))
    undecided = int((found.stable < 0).sum())
    return found.accuracy, found.robust_accuracy, undecided, trained - began, time.process_time() - trained


def best_by_folds(split, eps):
    X, y = split[0], split[2]
    folds = list(RepeatedStratifiedKFold(n_splits=5, n_repeats=2, random_state=0).split(X, y))
    choices = {**SMALL, "eps": [share * eps for share in SHARES_OF_EPS]}
    grid = [dict(zip(choices, values, strict=True)) for values in itertools.product(*choices.values())]
    reached = [
        np.mean([
            evaluate((X[train], X[test], y[train], y[test]), eps, seed, chosen)[1]
            for seed, (train, test) in enumerate(folds)
        ])
        for chosen in grid
    ]  # fmt: skip
    print(f"  best of {len(grid)} on training rows: {max(reached):.4f}", flush=True)
    return grid[int(np.argmax(reached))]


def best_depth(split, eps, is_ordered):
    X, y = split[0], split[2]
    if is_ordered:
        part = train_test_split(X[:N_TUNE], y[:N_TUNE], test_size=0.2, shuffle=False)
    else:
        rows = np.random.default_rng(11).permutation(len(X))[:N_TUNE]
        part = train_test_split(X[rows], y[rows], test_size=0.2, random_state=11, stratify=y[rows])
    reached = [evaluate(part, eps, 11, {"max_depth": depth})[1] for depth in DEPTHS]
    print("  depths", DEPTHS, "reach", [round(figure, 4) for figure in reached], "on training rows", flush=True)
    return {"max_depth": DEPTHS[int(np.argmax(reached))]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--only", nargs="+", choices=TABLES, default=list(TABLES))
    arguments = parser.parse_args()
    print("data eps depth: accuracy (worst) certified (worst), undecided, train s, certify s | constant HistGB record")
    for name in arguments.only:
        eps, record = TABLES[name]
        chosen, runs, constants, plain = None, [], [], []
        for seed in range(5) if name in FOLDED else arguments.seeds:
            split = split_of(arguments.data_dir, name, seed)
            if name in FIXED:
                chosen = FIXED[name]
            elif chosen is None or name in FOLDED:
                chosen = best_by_folds(split, eps) if name in FEW_ROWS else best_depth(split, eps, name in ORDERED)
            runs.append(evaluate(split, eps, seed, chosen))
            constants.append(np.bincount(split[3]).max() / len(split[3]))
            plain.append(HistGradientBoostingClassifier(random_state=0).fit(split[0], split[2]).score(*split[1::2]))
        mean, worst = np.mean(runs, axis=0), np.min(runs, axis=0)
        print(
            f"{name} {eps} {list(chosen.values())}: {mean[0]:.4f} ({worst[0]:.4f}) {mean[1]:.4f} ({worst[1]:.4f}),"
            f" {sum(run[2] for run in runs)}, {mean[3]:.1f}, {mean[4]:.1f} | {np.mean(constants):.3f}"
            f" {np.mean(plain):.3f} {record}",
            flush=True,
        )


if __name__ == "__main__":
    main()

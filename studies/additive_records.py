"""Train additive trees for norms whose costs add up and certify them, beside the records of the literature.

    python studies/additive_records.py --data-dir DIR [--seeds 0 1 2] [--only pairs fresh]

DIR holds mnist.npz and fashion.npz with arrays X (70000, 784), y and is_train in the original order. Pixels are divided
by 255; standard training and test rows of two classes; `LargeSpreadAdditiveClassifier` with its default parameters.
Every figure is from test rows that took no part in training or in choosing a parameter. Every verdict is exact: rows
that are not decided in a second count as not certified, and their number is printed. CPU seconds, one thread.

pairs   the pairs and attackers of the records
fresh   pairs at which nobody looked while defaults were chosen

Seeds run one after the other through all lines; the last table has mean and worst of the seeds. "constant" is the
share of the commoner class in the test rows. Records: smoothed stumps (de-randomised smoothing), whose
certificate is about the smoothed classifier.
"""

import argparse
import time
from pathlib import Path

import numpy as np

from certiforest import Attacker, LargeSpreadAdditiveClassifier, certify, has_large_spread

# file, the two classes, {(norm, eps): record}
PAIRS = {
    "MNIST 2 v 6": ("mnist.npz", (2, 6), {(2, 0.5): 0.930, (2, 1.0): 0.863, (1, 1.0): 0.939, (1, 2.0): 0.887}),
    "MNIST 1 v 5": ("mnist.npz", (1, 5), {(2, 0.5): 0.936, (2, 1.0): 0.890, (1, 1.0): 0.941, (1, 2.0): 0.899}),
    "Fashion 5 v 7": ("fashion.npz", (5, 7), {(2, 0.5): 0.796, (2, 1.0): 0.700, (1, 1.0): 0.802, (1, 2.0): 0.732}),
}
# Chosen before anything was run on them.
FRESH = {
    "MNIST 0 v 8": ("mnist.npz", (0, 8), {(2, 1.0): None}),
    "MNIST 4 v 7": ("mnist.npz", (4, 7), {(2, 0.5): None}),
    "Fashion 1 v 3": ("fashion.npz", (1, 3), {(1, 1.0): None}),
}


def standard_split(directory, file, classes):
    with np.load(directory / file) as data:
        chosen = np.isin(data["y"], classes)
        X, y, is_train = data["X"][chosen], data["y"][chosen], data["is_train"][chosen].astype(bool)
    X = X.reshape(len(X), -1) / 255.0
    return X[is_train], X[~is_train], y[is_train], y[~is_train]


def evaluate(split, attacker, seed):
    """Return accuracy, certified accuracy, undecided rows, CPU seconds of training and of verification."""
    X_train, X_test, y_train, y_test = split
    model = LargeSpreadAdditiveClassifier(norm=attacker.norm, eps=attacker.eps, random_state=seed)
    began = time.process_time()
    model.fit(X_train, y_train)
    trained = time.process_time()
    assert has_large_spread(model.ensemble_, attacker)
    found = certify(model, X_test, y_test, attacker)
    undecided = int((found.stable < 0).sum())
    return found.accuracy, found.robust_accuracy, undecided, trained - began, time.process_time() - trained


def main():
    parts = {"pairs": PAIRS, "fresh": FRESH}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--only", nargs="+", choices=parts, default=list(parts))
    arguments = parser.parse_args()
    runs = {}
    for part in arguments.only:
        for seed in arguments.seeds:
            for name, (file, classes, records) in parts[part].items():
                split = standard_split(arguments.data_dir, file, classes)
                constant = np.unique(split[3], return_counts=True)[1].max() / len(split[3])
                for (norm, eps), record in records.items():
                    key = name, norm, eps, constant, record
                    runs.setdefault(key, []).append(evaluate(split, Attacker(norm, eps), seed))
                    print(
                        f"seed {seed} {name} L{norm} {eps}: " + "{:.4f} {:.4f} {} {:.1f} {:.1f}".format(*runs[key][-1])
                    )
    print(
        "data           norm eps  accuracy (worst)  certified (worst)  undecided  train s  certify s | constant record"
    )
    for (name, norm, eps, constant, record), found in runs.items():
        mean, worst = np.mean(found, axis=0), np.min(found, axis=0)
        print(
            f"{name:<14} {norm:<4} {eps:<4} {mean[0]:.4f} ({worst[0]:.4f})   {mean[1]:.4f} ({worst[1]:.4f})  "
            f"{sum(run[2] for run in found):9d}  {mean[3]:7.1f}  {mean[4]:9.1f} | {constant:.3f}    {record}"
        )


if __name__ == "__main__":
    main()

"""Rows that miss values: our trainers against HistGradientBoosting, and what of it can be proved.

OMP_NUM_THREADS=1 python studies/missing_values.py DIR [--data table spambase] [--share 0.3] [--seeds 0] [--eps 0.01]

DIR holds spambase.csv. "table" is made: 50 features, 20 of them informative. Columns are scaled to [0, 1] by the
training rows, 70 % of a shuffle; then cells are blanked, each with the same chance, in training and test rows. The
attacker moves every feature by eps (L-inf) and can neither blank nor fill; the additive model is trained and certified
for L1, ten times eps.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
from sklearn.datasets import make_classification
from sklearn.ensemble import HistGradientBoostingClassifier

from certiforest import (
    LargeSpreadAdditiveClassifier,
    LargeSpreadBoostingClassifier,
    LargeSpreadForestClassifier,
    RobustBoostingClassifier,
    certify,
)


def load(folder: Path, name: str):
    if name == "spambase":
        table = np.loadtxt(folder / "spambase.csv", delimiter=",")
        return table[:, :-1], table[:, -1].astype(int)
    return make_classification(10_000, 50, n_informative=20, random_state=0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--data", nargs="+", default=["table", "spambase"])
    parser.add_argument("--share", type=float, default=0.3)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--eps", type=float, default=0.01)
    options = parser.parse_args()
    print("data       seed  model              accuracy certified unknown  train s certify s")
    for name in options.data:
        X, y = load(options.folder, name)
        for seed in options.seeds:
            rng = np.random.default_rng(seed)
            order, n_train = rng.permutation(len(X)), int(0.7 * len(X))
            train, test = order[:n_train], order[n_train:]
            low, high = X[train].min(axis=0), X[train].max(axis=0)
            holed = (X - low) / np.where(high > low, high - low, 1.0)
            holed[rng.random(X.shape) < options.share] = np.nan
            print(f"{name:10}{seed:5}  {'constant class':18}{np.bincount(y[test]).max() / len(test):9.3f}")
            common = {"eps": options.eps, "random_state": seed}
            models = {
                "HistGB": HistGradientBoostingClassifier(random_state=seed),
                "forest": LargeSpreadForestClassifier(51, 6, **common),
                "boosting": LargeSpreadBoostingClassifier(**common),
                "robust boosting": RobustBoostingClassifier(**common),
                "additive, L1": LargeSpreadAdditiveClassifier(norm=1, eps=10 * options.eps, random_state=seed),
            }
            for kind, model in models.items():
                begin = time.process_time()
                model.fit(holed[train], y[train])
                seconds = time.process_time() - begin
                line = f"{name:10}{seed:5}  {kind:18}{model.score(holed[test], y[test]):9.3f}"
                if kind == "HistGB":
                    print(f"{line}{'':18}{seconds:9.1f}", flush=True)
                    continue
                begin = time.process_time()
                found = certify(model, holed[test], y[test], model.attacker_)
                shares = f"{found.robust_accuracy:10.3f}{np.mean(found.stable == -1):8.3f}"
                print(f"{line}{shares}{seconds:9.1f}{time.process_time() - begin:10.1f}", flush=True)


if __name__ == "__main__":
    main()

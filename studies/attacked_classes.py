"""Who attacks: models trained as if all rows were attacked, and as if only fraud were, certified against the latter.

OMP_NUM_THREADS=1 python studies/attacked_classes.py [--seeds 0] [--rows 20000] [--eps 0.02]

The table is made: 30 features, 12 of them informative, 5 % fraud, 1 % of labels wrong. Columns are scaled to [0, 1] by
the training rows, 70 % of a shuffle. The attacker is L-inf, for the additive model L1 and ten times eps. Classes weigh
alike in training (class_weight="balanced"), so that recall is what is sought. "Constant" would be recall 1 and 0.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from sklearn.datasets import make_classification

from certiforest import (
    LargeSpreadAdditiveClassifier,
    LargeSpreadBoostingClassifier,
    LargeSpreadForestClassifier,
    RobustBoostingClassifier,
    certify,
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--eps", type=float, default=0.02)
    options = parser.parse_args()
    print("seed  model            trained for  recall good, fraud   certified recall good, fraud  unknown  train s")
    for seed in options.seeds:
        X, y = make_classification(
            options.rows, 30, n_informative=12, n_clusters_per_class=3, weights=[0.95], flip_y=0.01, random_state=seed
        )
        order = np.random.default_rng(seed).permutation(len(X))
        train, test = np.split(order, [int(0.7 * len(X))])
        low, high = X[train].min(axis=0), X[train].max(axis=0)
        X = (X - low) / (high - low)
        common = {"random_state": seed, "class_weight": "balanced"}
        models = {
            "forest": LargeSpreadForestClassifier(51, 6, eps=options.eps, **common),
            "boosting": LargeSpreadBoostingClassifier(eps=options.eps, **common),
            "robust boosting": RobustBoostingClassifier(n_estimators=100, eps=options.eps, **common),
            "additive, L1": LargeSpreadAdditiveClassifier(norm=1, eps=10 * options.eps, **common),
        }
        for name, model in models.items():
            for attacked in (None, [1]):
                begin = time.process_time()
                model.set_params(attacked=attacked).fit(X[train], y[train])
                seconds = time.process_time() - begin
                found = certify(model, X[test], y[test], model.attacker_, attacked=[1])
                recall, robust = (f"{shares[0]:.3f} {shares[1]:.3f}" for shares in (found.recall, found.robust_recall))
                print(
                    f"{seed:4}  {name:16} {'all rows' if attacked is None else 'fraud':12} {recall:20} {robust:29}"
                    f"{np.mean(found.stable == -1):7.3f}{seconds:9.1f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()

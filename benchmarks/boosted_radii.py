"""Radii of a LightGBM model and verdicts on an XGBoost model of 500 trees each, at rows where nearly all trees meet.

    python benchmarks/boosted_radii.py [--rows 300] [--time-limit 1]

CPU seconds of one thread, compilation not included. A radius is exact if its bounds are equal.
"""

import argparse
import time

import numpy as np
from sklearn.datasets import make_classification

import certiforest


def models():
    """Return both models, and rows that they have not seen."""
    import lightgbm
    import xgboost

    X, y = make_classification(20_000, 80, n_informative=20, random_state=0)
    options = {"n_estimators": 500, "random_state": 0, "n_jobs": 1}
    light = lightgbm.LGBMClassifier(num_leaves=31, verbose=-1, **options).fit(X[:14_000], y[:14_000])
    extreme = xgboost.XGBClassifier(**options).fit(X[:14_000], y[:14_000])
    return certiforest.as_ensemble(light), certiforest.as_ensemble(extreme), X[14_000:]


def measure(name, model, X, attacker, **options):
    """Print what certifying rows took, and what came out."""
    certiforest.certify(model, X[:20], None, attacker, **options)
    certifier, took = certiforest.Certifier(model, attacker, **options), [time.process_time()]
    found = certifier.certify(X, progress=lambda n_done: took.append(time.process_time()))
    ms = 1e3 * (time.process_time() - took[0]) / len(X)
    stable, unstable, unknown = (int((found.stable == verdict).sum()) for verdict in (1, 0, -1))
    line = f"{name:32}{ms:8.2f} ms a row; {stable} stable, {unstable} unstable, {unknown} unknown"
    if options.get("radius"):
        line += f"; {found.radius_is_exact.mean():.1%} of radii exact, median {1e3 * np.median(np.diff(took)):.1f} ms"
    print(line, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=300)
    parser.add_argument("--time-limit", type=float, default=1.0)
    options = parser.parse_args()
    light, extreme, X = models()
    X, limit = X[: options.rows], {"time_limit": options.time_limit}
    near, one = certiforest.Attacker(np.inf, 0.05), certiforest.Attacker(0, 1)
    measure("LightGBM, L-inf .05, verdicts", light, X, near, **limit)
    measure("LightGBM, L-inf, radii", light, X, near, radius=True, **limit)
    measure("XGBoost, L0 1, verdicts", extreme, X, one, **limit)


if __name__ == "__main__":
    main()

"""What certifying and training cost against another version of this library, side by side in one run.

    python benchmarks/versus_release.py --old SRC --data-dir DIR --models MODELS [--repeat 3] [--only NAME ...]

SRC is the ``src`` folder of the other version (``git worktree add ../old TAG``), DIR holds ``mnist.npz``, MODELS those
published with the paper. Each task runs in processes of their own, the two versions in turn; the least CPU seconds of
each count, compilation not included. A ratio below 1 means that this version is quicker.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

NEW = Path(__file__).resolve().parents[1] / "src"
PUBLISHED, TRADITIONAL = (
    "lse_part_rand_101_6_0.015_500_0_m2_s4_mnpert0.0075_mxpert0.015.silva",
    "rf_101_6_0_valFalse.silva",
)
TASKS = {
    "certify 101x6 large spread, L-inf .015": ("certify", PUBLISHED, "inf", 0.015),
    "certify 101x6 large spread, L2 .015": ("certify", PUBLISHED, 2, 0.015),
    "certify 101x6 large spread, L1 .015": ("certify", PUBLISHED, 1, 0.015),
    "certify traditional 101x6, L-inf .005": ("certify", TRADITIONAL, "inf", 0.005),
    "certify traditional 101x6, L-inf .01": ("certify", TRADITIONAL, "inf", 0.01),
    "certify traditional 101x6, L-inf .015": ("certify", TRADITIONAL, "inf", 0.015),
    "certify boosted, 500 trees, L-inf .05": ("certify", "boosted", "inf", 0.05),
    "certify ten classes, forest 50x6, L-inf 1": ("certify", "digits", "inf", 1.0, 200),
    "radii traditional 101x6, L-inf, 60 rows": ("radius", TRADITIONAL, "inf", 0.015, 60),
    "radii traditional 101x6, L2, 4 rows": ("radius", TRADITIONAL, 2, 0.015, 4),
    "proofs traditional 101x6, L-inf .015": ("proof", TRADITIONAL, "inf", 0.015, 300),
    "proofs traditional 101x6, L-inf .1, attacked": ("proof", TRADITIONAL, "inf", 0.1, 100),
    "fit forest, grow 25x4": ("fit", "LargeSpreadForestClassifier", {"n_estimators": 25, "max_depth": 4}),
    "fit forest, prune 11x4": (
        "fit",
        "LargeSpreadForestClassifier",
        {"n_estimators": 11, "max_depth": 4, "method": "prune"},
    ),
    "fit boosting, 30 trees": ("fit", "LargeSpreadBoostingClassifier", {"n_estimators": 30}),
    "fit robust boosting, 30 trees": ("fit", "RobustBoostingClassifier", {"n_estimators": 30, "max_depth": 6}),
    "scikit-learn predict, 101x6": ("predict",),
}


def rows(data_dir):
    import numpy as np
    from sklearn.model_selection import train_test_split

    with np.load(Path(data_dir) / "mnist.npz") as images:
        chosen = np.isin(images["y"], (2, 6))
        X, y = images["X"][chosen].astype(np.float64), (images["y"][chosen] == 6).astype(np.int64)
    low, high = X.min(axis=0), X.max(axis=0)
    X = (X - low) / np.where(high > low, high - low, 1.0)
    return train_test_split(X, y, test_size=0.3, random_state=7, stratify=y)


def work(task, options):
    """Return a function to be timed, and what it gives."""
    import numpy as np

    import certiforest

    kind, *details = TASKS[task]
    X_train, X_test, y_train, y_test = rows(options.data_dir)
    if kind == "fit":
        trainer, parameters = details
        model = getattr(certiforest, trainer)(**parameters, eps=0.015, random_state=0)
        return lambda: model.fit(X_train, y_train).score(X_test, y_test)
    if kind == "predict":
        from sklearn.ensemble import RandomForestClassifier

        model = RandomForestClassifier(101, max_depth=6, random_state=0, n_jobs=1).fit(X_train, y_train)
        return lambda: model.predict(X_test).mean()
    name, norm, eps, *n_rows = details
    if name == "digits":
        from sklearn.datasets import load_digits
        from sklearn.ensemble import RandomForestClassifier

        X, y = load_digits(return_X_y=True)
        X_test, y_test = X[1200:], y[1200:]
        model = RandomForestClassifier(50, max_depth=6, random_state=0, n_jobs=1).fit(X[:1200], y[:1200])
        model = certiforest.as_ensemble(model)
    elif name == "boosted":
        import lightgbm
        from sklearn.datasets import make_classification

        X, y = make_classification(20_000, 80, n_informative=20, random_state=0)
        X_test, y_test = X[14_000:], y[14_000:]
        model = lightgbm.LGBMClassifier(n_estimators=500, num_leaves=31, random_state=0, n_jobs=1, verbose=-1).fit(
            X[:14_000], y[:14_000]
        )
        model = certiforest.as_ensemble(model)
    else:
        model = certiforest.as_ensemble(str(Path(options.models) / name))
    attacker = certiforest.Attacker(np.inf if norm == "inf" else norm, eps)
    block, asked = slice(*n_rows or [None]), {} if kind == "certify" else {kind: True}
    return lambda: certiforest.certify(model, X_test[block], y_test[block], attacker, **asked).robust_accuracy


def measure(task, options):
    run = work(task, options)
    run()
    best = float("inf")
    for _ in range(options.repeat):
        start = time.process_time()
        value = run()
        best = min(best, time.process_time() - start)
    print(json.dumps({"seconds": best, "value": value}))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--old", type=Path, required=True)
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--models", type=Path, required=True)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--only", nargs="*", default=list(TASKS))
    parser.add_argument("--task", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.task:
        measure(options.task, options)
        return
    print(f"{'':44}{'old s':>9}{'new s':>9}{'ratio':>8}   robust accuracy or score")
    for task in options.only:
        found = []
        for source in (options.old, NEW):
            environment = {**os.environ, "PYTHONPATH": str(source), "OMP_NUM_THREADS": "1"}
            command = [sys.executable, "-W", "ignore", __file__, *sys.argv[1:], "--task", task]
            answer = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
            found.append(json.loads(answer.splitlines()[-1]))
        old, new = found
        ratio = new["seconds"] / old["seconds"]
        print(
            f"{task:44}{old['seconds']:9.3f}{new['seconds']:9.3f}{ratio:8.2f}   {old['value']:.4f} {new['value']:.4f}",
            flush=True,
        )


if __name__ == "__main__":
    main()

"""What verdicts on hard rows cost: against predicting, and how many there are, beside another version in one run.

    python benchmarks/hard_rows.py speed --old SRC --data-dir DIR --models MODELS [--repeat 3] [--only NAME ...]
    python benchmarks/hard_rows.py budgets --old SRC --data-dir DIR [--rows 12] [--seconds 1 10] [--only NAME ...]

SRC is the ``src`` folder of the other version, DIR holds ``mnist.npz`` and ``fashion.npz``, MODELS those published
with the paper. ``speed``: CPU microseconds a row (milliseconds a call for one row), in brackets how many times
``predict`` of the same version that is. ``budgets``: the share of rows that stay UNKNOWN within CPU seconds a row.
The versions take turns, each in a process of its own; kernels are compiled before.
"""

import argparse
import itertools
import json
import math
import os
import subprocess
import sys
import time
from pathlib import Path

NEW = Path(__file__).resolve().parents[1] / "src"
PUBLISHED = "lse_part_rand_101_6_0.015_500_0_m2_s4_mnpert0.0075_mxpert0.015.silva"
SPEED = {
    **{f"Fashion forest 101x6, L-inf {eps}": ("fashion", (0, 3), "hard", math.inf, eps) for eps in (0.03, 0.06, 0.1)},
    "Fashion soft votes, L-inf .06": ("fashion", (0, 3), "soft", math.inf, 0.06),
    "MNIST forest 101x6, L-inf .03": ("mnist", (2, 6), "hard", math.inf, 0.03),
    "Fashion XGBoost 200x6, L-inf .06": ("fashion", (0, 3), "xgboost", math.inf, 0.06),
    **{f"MNIST XGBoost 200x6, L-inf {eps}": ("mnist", (2, 6), "xgboost", math.inf, eps) for eps in (0.01, 0.03, 0.06)},
    **{f"large spread 101x6, norm {norm}, {eps}": ("mnist", (2, 6), "spread", norm, eps)
       for norm, eps in ((math.inf, 0.015), (2, 0.015), (1, 0.015), (0, 1), (0, 2))},
    "Fashion forest, L2 .3, 300 rows": ("fashion", (0, 3), "hard", 2, 0.3, 300),
    "one row of XGBoost 200x6": ("mnist", (2, 6), "booster", math.inf, 0.01),
}  # fmt: skip
PAIRS = ("mnist", (2, 6)), ("mnist", (3, 8)), ("fashion", (0, 3))
BUDGETS = {
    f"{name} {a} {b}, {kind}, L{norm} {eps}": (name, (a, b), kind, norm, eps)
    for (name, (a, b)), kind, (norm, eps) in itertools.product(
        PAIRS, ("robust", "hard"), ((1, 1.0), (1, 2.0), (1, 3.0), (2, 0.5), (2, 1.0), (2, 1.5))
    )
}


def rows(data_dir, name, pair):
    import numpy as np
    from sklearn.model_selection import train_test_split

    with np.load(Path(data_dir) / f"{name}.npz") as images:
        chosen = np.isin(images["y"], pair)
        X, y = images["X"][chosen] / 255, (images["y"][chosen] == pair[1]).astype(np.int64)
    return train_test_split(X, y, test_size=0.3, random_state=7, stratify=y)


def model_of(kind, norm, eps, X, y, options):
    from sklearn.ensemble import RandomForestClassifier

    import certiforest

    if kind == "spread":
        return certiforest.as_ensemble(str(Path(options.models) / PUBLISHED))
    if kind in ("xgboost", "booster"):
        import xgboost

        model = xgboost.XGBClassifier(n_estimators=200, max_depth=6, n_jobs=1).fit(X, y)
        return model if kind == "booster" else certiforest.as_ensemble(model)
    if kind == "robust":
        return certiforest.RobustBoostingClassifier(norm=norm, eps=eps, random_state=0).fit(X, y).ensemble_
    forest = RandomForestClassifier(101, max_depth=6, random_state=0, n_jobs=1).fit(X, y)
    return certiforest.as_ensemble(forest, voting="hard" if kind == "hard" else None)


def best_time(function, repeat):
    times = []
    for _ in range(repeat + 1):  # the first one compiles
        began = time.process_time()
        function()
        times.append(time.process_time() - began)
    return min(times[1:])


def speed(task, options):
    import numpy as np

    import certiforest

    name, pair, kind, norm, eps, *n_rows = SPEED[task]
    X_train, X, y_train, _ = rows(options.data_dir, name, pair)
    model, attacker = model_of(kind, norm, eps, X_train, y_train, options), certiforest.Attacker(norm, eps)
    if kind == "booster":
        seconds = best_time(lambda: [certiforest.certify(model, X[:1], None, attacker) for _ in range(20)], 3) / 20
        return {"cost": 1e3 * seconds}
    X = X[: n_rows[0]] if n_rows else X
    verdicts = certiforest.certify(model, X, None, attacker).stable
    cost = best_time(lambda: certiforest.certify(model, X, None, attacker), options.repeat)
    predicted = best_time(lambda: model.predict(X), options.repeat)
    return {"cost": 1e6 * cost / len(X), "ratio": cost / predicted, "verdicts": np.bincount(verdicts + 1).tolist()}


def budgets(task, options):
    import numpy as np

    import certiforest

    name, pair, kind, norm, eps = BUDGETS[task]
    path = Path(options.kept) / f"{task}.json"
    X_train, X, y_train, _ = rows(options.data_dir, name, pair)
    if not path.exists():
        model_of(kind, norm, eps, X_train, y_train, options).save(path)
    model, attacker = certiforest.as_ensemble(str(path)), certiforest.Attacker(norm, eps)
    time.monotonic = time.process_time  # whatever else the machine does
    chosen = X[np.random.default_rng(0).permutation(len(X))[: options.rows]]
    certiforest.certify(model, chosen[:1], None, attacker, time_limit=30)
    found = {}
    for seconds in options.seconds:
        began = time.process_time()
        stable = certiforest.certify(model, chosen, None, attacker, time_limit=seconds).stable
        found[f"{seconds:g} s"] = {"unknown": float((stable < 0).mean()), "stable": float((stable == 1).mean()),
                                   "seconds": (time.process_time() - began) / len(chosen)}  # fmt: skip
    return found


def both(task, options):
    """Return what both versions find, the new one first: it keeps the models that both are asked about."""
    found = []
    for source in (NEW, options.old):
        environment = {**os.environ, "PYTHONPATH": str(source), "OMP_NUM_THREADS": "1"}
        command = [sys.executable, "-W", "ignore", __file__, *sys.argv[1:], "--task", task]
        answer = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True).stdout
        found.append(json.loads(answer.splitlines()[-1]))
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("speed", "budgets"))
    parser.add_argument("--old", type=Path, required=True)
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--models", type=Path)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--rows", type=int, default=12)
    parser.add_argument("--seconds", type=float, nargs="+", default=[1.0, 10.0])
    parser.add_argument("--kept", type=Path, default=Path("models_of_budgets"), help="a folder for trained models")
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--task", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.task:
        print(json.dumps((speed if options.what == "speed" else budgets)(options.task, options)))
        return
    options.kept.mkdir(exist_ok=True)
    for task in options.only or (SPEED if options.what == "speed" else BUDGETS):
        new, old = both(task, options)
        if options.what == "speed":
            is_equal = old.get("verdicts") == new.get("verdicts")
            times = [
                f"{one['cost']:9.2f} ({one['ratio']:6.1f})" if "ratio" in one else f"{one['cost']:9.2f}"
                for one in (old, new)
            ]
            print(f"{task:40} {times[0]:>18} {times[1]:>18} {new['cost'] / old['cost']:6.2f}", end="   ")
            print("verdicts are equal" if is_equal else "VERDICTS ARE NOT EQUAL", flush=True)
            continue
        for limit, one in new.items():
            print(f"{task:32} {limit:>6}   UNKNOWN {old[limit]['unknown']:5.1%} {one['unknown']:5.1%}   stable"
                  f" {old[limit]['stable']:5.1%} {one['stable']:5.1%}   s a row {old[limit]['seconds']:6.3f}"
                  f" {one['seconds']:6.3f}", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()

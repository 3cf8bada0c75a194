"""What proofs cost: rows without one, bytes a row, time with proofs over time without, and the auditor's speed.

    python studies/proof_figures.py --data-dir DIR --models MODELS [--rows N] [--only published traditional ...]

DIR holds ``mnist.npz`` and ``tabular/spambase.csv``, MODELS the models published with the paper. Every certificate is
written, read back and audited; one thread, CPU seconds, compilation not included.
"""

import argparse
import io
import json
import tempfile
import time
from contextlib import redirect_stdout
from pathlib import Path

import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split

from certiforest import Attacker, LargeSpreadBoostingClassifier, as_ensemble, audit, certify

SPREAD = "lse_part_rand_101_6_0.015_500_0_m2_s4_mnpert0.0075_mxpert0.015.silva"
FOREST = "rf_101_6_0_valFalse.silva"


def digits(data_dir, classes):
    with np.load(data_dir / "mnist.npz") as images:
        chosen = np.isin(images["y"], classes)
        X, y = images["X"][chosen].astype(np.float64), images["y"][chosen].astype(np.int64)
    low, high = X.min(axis=0), X.max(axis=0)
    X = (X - low) / np.where(high > low, high - low, 1.0)
    y = (y == classes[1]).astype(np.int64) if len(classes) == 2 else y
    return train_test_split(X, y, test_size=0.3, random_state=7, stratify=y)


def spam(data_dir):
    table = np.loadtxt(data_dir / "tabular" / "spambase.csv", delimiter=",")
    X, y = table[:, :-1], table[:, -1].astype(np.int64)
    X = (X - X.min(axis=0)) / (X.max(axis=0) - X.min(axis=0))
    return train_test_split(X, y, test_size=0.3, random_state=7, stratify=y)


def settings(options):
    """Yield a name, an ensemble, rows, labels and attackers."""
    only = options.only
    X_train, X, y_train, y = digits(options.data_dir, (2, 6))
    if "published" in only:
        attackers = [Attacker(norm, 0.015) for norm in ("inf", 2, 1)]
        yield "published large spread 101x6", as_ensemble(str(options.models / SPREAD)), X, y, attackers
    if "traditional" in only:
        attackers = [Attacker("inf", 0.015), Attacker(2, 0.05)]
        yield "published traditional 101x6", as_ensemble(str(options.models / FOREST)), X, y, attackers
    if "boosted" in only:
        model = LargeSpreadBoostingClassifier(n_estimators=60, max_depth=3, eps=0.3, random_state=0).fit(
            X_train, y_train
        )
        yield "boosted, large spread", model.ensemble_, X, y, [Attacker(1, 0.3), Attacker(2, 0.3)]
    if "xgboost" in only:
        import xgboost

        a, X, b, y = spam(options.data_dir)
        model = xgboost.XGBClassifier(n_estimators=200, max_depth=6, n_jobs=1, random_state=0).fit(a, b)
        yield "XGBoost on spambase, 200x6", as_ensemble(model), X, y, [Attacker("inf", 0.001), Attacker("inf", 0.003)]
    if "ten" in only:
        a, X, b, y = digits(options.data_dir, tuple(range(10)))
        model = RandomForestClassifier(51, max_depth=8, random_state=0).fit(a[:20_000], b[:20_000])
        yield "ten classes, forest 51x8", as_ensemble(model), X, y, [Attacker("inf", 0.005)]


def cpu(function, *arguments, **options):
    start = time.process_time()
    result = function(*arguments, **options)
    return result, time.process_time() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--models", type=Path, required=True)
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--only", nargs="*", default=["published", "traditional", "boosted", "xgboost", "ten"])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        model, certificate = Path(folder) / "m.json", Path(folder) / "c.jsonl"
        for name, ensemble, X, y, attackers in settings(options):
            X, y = X[: options.rows], y[: options.rows]
            ensemble.save(model)
            for attacker in attackers:
                certify(ensemble, X[:5], y[:5], attacker, proof=True)
                _, without = cpu(certify, ensemble, X, y, attacker)
                c, with_proofs = cpu(certify, ensemble, X, y, attacker, proof=True)
                c.save(certificate)
                stable = np.flatnonzero(c.stable == 1)
                missing = sum(c.proof[i] is None for i in stable)
                sizes = [len(json.dumps(c.proof[i], separators=(",", ":"))) for i in stable if c.proof[i] is not None]
                with redirect_stdout(io.StringIO()) as said:
                    code, seconds = cpu(audit.main, [str(model), str(certificate)])
                print(
                    f"{name}, {attacker}: {len(X)} rows, {len(stable)} stable, {(c.stable == 0).sum()} unstable,"
                    f" {(c.stable == -1).sum()} unknown; {missing} without proof; bytes median"
                    f" {np.median(sizes or [0]):.0f}, largest {max(sizes, default=0)}; time"
                    f" {with_proofs:.2f} s over {without:.2f} s; auditor {len(X) / seconds:.0f} rows/s:"
                    f" {said.getvalue().splitlines()[-1]} (exit {code})",
                    flush=True,
                )


if __name__ == "__main__":
    main()

"""Import XGBoost and LightGBM models that nobody trained for verification, compare predictions, certify them.

    python studies/imported_models.py --data-dir DIR [--only mnist26 spambase] [--rows N] [--time-limit S]

DIR holds mnist.npz (arrays X (70000, 784), y and is_train) and tabular/spambase.csv. Each library trains 200 trees
(XGBoost: depth 6, LightGBM: 31 leaves, defaults otherwise) on the training rows. The imported ensemble is then compared
with the model on 100,000 random rows and 100,000 rows on thresholds and one float32 or float64 step beside them, and
certified on the test rows against L-inf attackers of three sizes, one thread.

equal      rows with the same label, which stands beside
rounding   rows with another label, which are closer to a tie than the model's own rounding (its bound is printed)
wrong      rows with another label beyond that: must be 0
"""

import argparse
import tempfile
import time
from collections import Counter
from pathlib import Path

import lightgbm
import numpy as np
import xgboost

from certiforest import Attacker, as_ensemble, certify
from certiforest.data.datasets import load_dataset
from certiforest.formats.agreement import threshold_rows

EPS = (0.005, 0.01, 0.015)
N_ROWS, BLOCK = 100_000, 4_000
PROBABILITIES = 2.0**-21  # how far from a tie float32 probabilities may be equal, besides the sums' own rounding


def models():
    yield "XGBoost", np.float32, xgboost.XGBClassifier(n_estimators=200, max_depth=6, n_jobs=1, random_state=0)
    options = {"n_estimators": 200, "num_leaves": 31, "n_jobs": 1, "random_state": 0, "verbose": -1}
    yield "LightGBM", np.float64, lightgbm.LGBMClassifier(**options, deterministic=True, force_row_wise=True)


def random_rows(X, n_rows, seed):
    """Training rows of which half of the features are replaced by random numbers from the unit interval."""
    rng = np.random.default_rng(seed)
    rows = X[rng.integers(len(X), size=n_rows)]
    return np.where(rng.random(rows.shape) < 0.5, rng.random(rows.shape), rows)


def compare(model, ensemble, dtype, make_rows):
    """Count rows with equal labels, with others within rounding, and with wrong ones; find the largest gap of sums."""
    found, gap = Counter(), 0.0
    raw = {"output_margin": True} if isinstance(model, xgboost.XGBClassifier) else {"raw_score": True}
    bound = ensemble.rounding_bound(dtype) + (PROBABILITIES if dtype == np.float32 else 0.0)
    for block in range(N_ROWS // BLOCK):
        rows = make_rows(block)
        label, sums = model.predict(rows), ensemble.decision_function(rows)
        differs = ensemble.predict(rows) != label
        is_close = np.abs(sums[differs]) <= bound
        gap = max(gap, float(np.abs(model.predict(rows, **raw) - sums).max()))
        found.update({f"equal ({ensemble.classes[k]})": int((~differs & (label == k)).sum()) for k in (0, 1)})
        found.update(rounding=int(is_close.sum()), wrong=int((~is_close).sum()))
    return found, gap


def as_file(model, directory):
    path = Path(directory) / ("model.json" if isinstance(model, xgboost.XGBClassifier) else "model.txt")
    (model if path.suffix == ".json" else model.booster_).save_model(path)
    return path


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--only", nargs="+", default=["mnist26", "spambase"], choices=["mnist26", "spambase"])
    parser.add_argument("--rows", type=int, default=None, help="certify the first N test rows only")
    parser.add_argument("--time-limit", type=float, default=1.0, help="seconds per row")
    options = parser.parse_args()
    for name in options.only:
        X, X_test, y, y_test = load_dataset(name, data_dir=options.data_dir).scaled_split()
        X_test, y_test = X_test[: options.rows], y_test[: options.rows]
        for library, dtype, model in models():
            model.fit(X, y)
            start = time.perf_counter()
            ensemble = as_ensemble(model)
            took = time.perf_counter() - start
            accuracy = float(np.mean(model.predict(X_test) == y_test))
            print(f"\n{name}, {library}: {ensemble}, accuracy {accuracy:.4f}, imported and proved in {took:.2f} s")
            with tempfile.TemporaryDirectory() as directory:
                start = time.perf_counter()
                same = as_ensemble(as_file(model, directory)) == ensemble
                print(
                    f"  read from its file in {time.perf_counter() - start:.2f} s: {'the same' if same else 'ANOTHER'}"
                )
            print(f"  rounding bound {ensemble.rounding_bound(dtype):.2g} of sums in {np.dtype(dtype).name}")
            for kind, make in (
                ("random", lambda seed, X=X: random_rows(X, BLOCK, seed)),
                ("threshold", lambda seed, e=ensemble: threshold_rows(e, BLOCK, seed + 1)),
            ):
                found, gap = compare(model, ensemble, dtype, make)
                counts = ", ".join(f"{count} {what}" for what, count in found.items())
                print(f"  {kind:9} rows: {counts}; sums differ by {gap:.1e} at most")
            for eps in EPS:
                start = time.perf_counter()
                c = certify(ensemble, X_test, y_test, Attacker("inf", eps), time_limit=options.time_limit)
                took = time.perf_counter() - start
                verdicts = Counter(verdict.name for verdict in c.verdict)
                low, high = c.robust_accuracy_bounds
                print(
                    f"  eps {eps}: robust accuracy {low:.4f} to {high:.4f}, {took:.1f} s for {len(X_test)} rows;"
                    f" {', '.join(f'{count} {what}' for what, count in sorted(verdicts.items()))};"
                    f" {', '.join(f'{count} {what}' for what, count in sorted(Counter(c.method.tolist()).items()))}"
                )


if __name__ == "__main__":
    main()

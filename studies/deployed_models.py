"""Models as they are deployed, held against their own libraries: missing values, categories, thresholds, wrappers.

    python studies/deployed_models.py --rows 200000 --certified 2000 --samples 10000

For each model: labels on rows that sit on thresholds, miss values and have categories that were never seen (those that
differ although their sums are further from a tie than rounding takes them count as wrong); rows certified with L-inf;
witnesses that flip the library's own predict; samples around stable rows that do not.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings

import catboost
import lightgbm
import numpy as np
import xgboost
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    VotingClassifier,
)
from sklearn.impute import SimpleImputer
from sklearn.model_selection import GridSearchCV, TunedThresholdClassifierCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from certiforest import Attacker, ModelError, as_ensemble, certify
from certiforest.formats.proof import threshold_rows

N_NUMBERS, N_CATEGORIES, EPS = 8, 12, 0.05
CATEGORY = N_NUMBERS  # the last column
BLOCK = 20_000


def table(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw rows with 30% missing values; the last column is a category, in a tenth of the rows missing."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, N_NUMBERS + 1))
    X[:, CATEGORY] = rng.integers(0, N_CATEGORIES, n)
    score = X[:, 0] + X[:, 1] * X[:, 2] + np.isin(X[:, CATEGORY], [1, 4, 7, 9]) - 0.4
    y = (score + rng.normal(scale=0.5, size=n) > 0).astype(int)
    X[:, :CATEGORY][rng.random((n, N_NUMBERS)) < 0.3] = np.nan
    X[rng.random(n) < 0.1, CATEGORY] = np.nan
    return X, y


def models() -> dict:
    """Return how each model is made, and whether it takes the category, missing values, or neither."""
    kinds = ["q"] * N_NUMBERS + ["c"]
    options = {"n_estimators": 40, "n_jobs": 1}
    xgb = {"max_depth": 5, "enable_categorical": True, "feature_types": kinds, "max_cat_to_onehot": 2, **options}
    lgb = {"num_leaves": 15, "verbose": -1, **options}
    cat = {"iterations": 40, "depth": 5, "verbose": 0, "allow_writing_files": False, "thread_count": 1}
    hist = {"max_iter": 40, "max_depth": 5}
    tree, forest = DecisionTreeClassifier(max_depth=5), RandomForestClassifier(20, max_depth=6, random_state=0)
    filled = ColumnTransformer(
        [("a", make_pipeline(SimpleImputer(), StandardScaler()), [0, 1, 2, 3])], remainder="passthrough"
    )
    return {
        "XGBoost": (xgboost.XGBClassifier(**xgb), "category", {}),
        "LightGBM": (lightgbm.LGBMClassifier(**lgb), "category", {"categorical_feature": [CATEGORY]}),
        "HistGradientBoosting": (
            HistGradientBoostingClassifier(**hist, categorical_features=[CATEGORY]), "category", {}),
        "CatBoost": (catboost.CatBoostClassifier(**cat), "missing", {}),
        "Pipeline(StandardScaler, XGB)": (
            make_pipeline(StandardScaler(), xgboost.XGBClassifier(max_depth=5, **options)), "missing", {}),
        "Pipeline(ColumnTransformer, LightGBM)": (
            make_pipeline(filled, lightgbm.LGBMClassifier(**lgb)), "missing", {}),
        "GridSearchCV(Pipeline)": (
            GridSearchCV(make_pipeline(StandardScaler(), HistGradientBoostingClassifier(**hist)),
                         {"histgradientboostingclassifier__max_depth": [3, 5]}, cv=2), "missing", {}),
        "VotingClassifier(soft)": (VotingClassifier([("a", forest), ("b", tree)], voting="soft"), "numbers", {}),
        "BaggingClassifier": (BaggingClassifier(tree, 15, max_features=0.7, random_state=0), "missing", {}),
        "AdaBoostClassifier": (AdaBoostClassifier(DecisionTreeClassifier(max_depth=2), n_estimators=20), "numbers", {}),
        "CalibratedClassifierCV": (
            CalibratedClassifierCV(HistGradientBoostingClassifier(**hist), ensemble=False, cv=3), "missing", {}),
        "TunedThresholdClassifierCV": (TunedThresholdClassifierCV(forest, cv=3), "missing", {}),
        "VotingClassifier of boosting": (
            VotingClassifier([("a", HistGradientBoostingClassifier(**hist)), ("b", tree)], voting="soft"),
            "missing", {}),
        "CalibratedClassifierCV(ensemble=True)": (CalibratedClassifierCV(forest, cv=3), "missing", {}),
    }  # fmt: skip


def main() -> None:
    """Print a line for each model."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--certified", type=int, default=200)
    parser.add_argument("--samples", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    for name, (model, kind, fitting) in models().items():
        X, y = table(4_000, options.seed)
        X = X if kind == "category" else X[:, :CATEGORY]
        X = np.nan_to_num(X) if kind == "numbers" else X
        model.fit(X, y, **fitting)
        try:
            sys.stdout.write(f"{name}: {judge(model, X, options)}\n")
        except ModelError as refusal:
            sys.stdout.write(f"{name}: refused. {refusal}\n")
        sys.stdout.flush()


def judge(model, X, options) -> str:
    """Return what was found out about a model."""
    start = time.perf_counter()
    ensemble = as_ensemble(model)
    seconds = time.perf_counter() - start
    n_wrong = n_close = 0
    for first in range(0, options.rows, BLOCK):
        rows = threshold_rows(ensemble, min(BLOCK, options.rows - first), seed=options.seed + first + 1)
        ours, theirs = ensemble.predict(rows), np.ravel(model.predict(rows))
        differ = np.flatnonzero(ours != theirs)
        sums = ensemble.decision_function(rows[differ])
        gap = np.abs(sums if sums.ndim == 1 else sums[:, 0] - sums[:, 1])
        is_close = gap <= ensemble.rounding_bound(np.float32) + 2.0**-20
        n_wrong, n_close = n_wrong + int((~is_close).sum()), n_close + int(is_close.sum())
    rows = X[: options.certified]
    margin = ensemble.rounding_bound(np.float32) + 2.0**-20
    c = certify(ensemble, rows, None, Attacker(np.inf, EPS), witness=True, margin=margin)
    broken, stable = np.flatnonzero(c.stable == 0), np.flatnonzero(c.stable == 1)
    n_flipped = int((np.ravel(model.predict(c.witness[broken])) != c.prediction[broken]).sum()) if len(broken) else 0
    rng, n_fallen = np.random.default_rng(options.seed), 0
    for i in stable:
        z = np.repeat(rows[i][None], options.samples, axis=0)
        z[:, :N_NUMBERS] += rng.choice([-EPS, EPS, 0.0, 0.5 * EPS], z[:, :N_NUMBERS].shape) * (1 - 1e-12)
        n_fallen += int((np.ravel(model.predict(z)) != c.prediction[i]).any())
    return (
        f"{n_wrong} of {options.rows:,} labels differ beyond rounding ({n_close} within); {len(stable)} of"
        f" {len(rows):,} rows stable, {n_fallen} of them fell to {options.samples:,} samples each; {n_flipped} of"
        f" {len(broken)} witnesses flip the library's prediction; imported and proved in {seconds:.1f} s."
    )


if __name__ == "__main__":
    main()

"""Models as they are deployed, held against their own libraries: missing values, categories, thresholds, wrappers.

    python studies/deployed_models.py --rows 200000 --certified 2000 --samples 10000

For each model: labels on rows that sit on thresholds, miss values and have categories that were never seen (those that
differ although their sums are further from a tie than rounding takes them count as wrong); rows certified with L-inf,
a twentieth of them with a category that was never seen; witnesses that flip the library's own predict; samples around
stable rows that do not. In the end, a pipeline in the units of the data against its model on transformed rows.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings

import catboost
import lightgbm
import numpy as np
import pandas
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
from sklearn.preprocessing import MaxAbsScaler, OneHotEncoder, OrdinalEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier

from certiforest import Attacker, ModelError, as_ensemble, certify
from certiforest.formats.agreement import threshold_rows
from certiforest.formats.catboost_models import with_texts

N_NUMBERS, N_CATEGORIES, EPS = 8, 12, 0.05
NUMBERS = [f"n{f}" for f in range(N_NUMBERS)]
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


def as_frame(X: np.ndarray, missing: object = np.nan) -> pandas.DataFrame:
    """Return rows with text for the codes of the category; codes beyond are a text that was never seen."""
    frame = pandas.DataFrame(X, columns=[*NUMBERS, "kind"])
    texts = [missing if code != code else f"kind {int(code)}" for code in X[:, CATEGORY]]
    return frame.assign(kind=pandas.Series(texts, dtype=object))


def for_catboost(X: np.ndarray) -> pandas.DataFrame:
    """Return the same for CatBoost, to which a category is never missing."""
    return as_frame(X, "missing")


# What models are fitted to, and what makes it of the numbers that their ensembles take.
GIVEN = {
    "category": (lambda X: X, lambda rows: rows),
    "missing": (lambda X: X[:, :CATEGORY], lambda rows: rows),
    "numbers": (lambda X: np.nan_to_num(X[:, :CATEGORY]), lambda rows: rows),
    "frame": (as_frame, None),  # as_frame, but for the order of codes
    "hashed": (for_catboost, with_texts([CATEGORY])),
}


def encoded(encoder, numbers="passthrough", **options) -> ColumnTransformer:
    """Return a step that encodes the category."""
    return ColumnTransformer([("n", numbers, NUMBERS), ("c", encoder, ["kind"])], **options)


def models() -> dict:
    """Return how each model is made, what it takes, and further arguments of fit."""
    kinds = ["q"] * N_NUMBERS + ["c"]
    options = {"n_estimators": 40, "n_jobs": 1}
    xgb = {"max_depth": 5, "enable_categorical": True, "feature_types": kinds, "max_cat_to_onehot": 2, **options}
    lgb = {"num_leaves": 15, "verbose": -1, **options}
    cat = {"iterations": 40, "depth": 5, "verbose": 0, "allow_writing_files": False, "thread_count": 1}
    hist = {"max_iter": 40, "max_depth": 5}
    tree, forest = DecisionTreeClassifier(max_depth=5), RandomForestClassifier(20, max_depth=6, random_state=0)
    filled = make_pipeline(SimpleImputer(), StandardScaler())
    one_hot, ordinal = (
        OneHotEncoder(handle_unknown="ignore"),
        OrdinalEncoder(
            handle_unknown="use_encoded_value", unknown_value=N_CATEGORIES, encoded_missing_value=N_CATEGORIES + 1
        ),
    )
    rare = make_pipeline(
        SimpleImputer(strategy="most_frequent"), OneHotEncoder(handle_unknown="infrequent_if_exist", max_categories=9)
    )
    whole = make_pipeline(encoded(one_hot, filled), lightgbm.LGBMClassifier(**lgb))
    return {
        "XGBoost": (xgboost.XGBClassifier(**xgb), "category", {}),
        "LightGBM": (lightgbm.LGBMClassifier(**lgb), "category", {"categorical_feature": [CATEGORY]}),
        "HistGradientBoosting": (
            HistGradientBoostingClassifier(**hist, categorical_features=[CATEGORY]), "category", {}),
        "HistGradientBoosting, text": (
            HistGradientBoostingClassifier(**hist, categorical_features=["kind"]), "frame", {}),
        "CatBoost, one-hot splits": (
            catboost.CatBoostClassifier(**cat, cat_features=["kind"], one_hot_max_size=N_CATEGORIES + 1),
            "hashed", {}),
        "CatBoost, statistics": (catboost.CatBoostClassifier(**cat, cat_features=["kind"]), "hashed", {}),
        "Pipeline(StandardScaler, XGB)": (
            make_pipeline(StandardScaler(), xgboost.XGBClassifier(max_depth=5, **options)), "missing", {}),
        "Pipeline(imputer + scaler, one-hot; LightGBM)": (whole, "frame", {}),
        "GridSearchCV over it": (
            GridSearchCV(whole, {"lgbmclassifier__num_leaves": [7, 15]}, cv=2), "frame", {}),
        "Pipeline(one-hot of the frequent; forest)": (make_pipeline(encoded(rare), forest), "frame", {}),
        "Pipeline(one-hot, sparse; XGB)": (
            make_pipeline(encoded(one_hot, sparse_threshold=1.0), xgboost.XGBClassifier(max_depth=5, **options)),
            "frame", {}),
        "Pipeline(ordinal; HistGradientBoosting of sets)": (
            make_pipeline(encoded(ordinal), HistGradientBoostingClassifier(**hist, categorical_features=[CATEGORY])),
            "frame", {}),
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
    parser.add_argument("--only", default="", help="models whose names begin so")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    for name, (model, kind, fitting) in models().items():
        if not name.startswith(options.only):
            continue
        X, y = table(4_000, options.seed)
        given, back = GIVEN[kind]
        model.fit(given(X), y, **fitting)
        X[np.random.default_rng(options.seed).random(len(X)) < 0.05, CATEGORY] = N_CATEGORIES
        try:
            sys.stdout.write(f"{name}: {judge(model, given(X), back, options)}\n")
        except ModelError as refusal:
            sys.stdout.write(f"{name}: refused. {refusal}\n")
        sys.stdout.flush()
    if "Units".startswith(options.only):
        sys.stdout.write(f"Units of the data against scaled ones: {compare_units(options)}\n")


def judge(model, given, back, options) -> str:
    """Return what was found out about a model; ``given`` are rows to certify, ``back`` makes such of numbers."""
    start = time.perf_counter()
    ensemble = as_ensemble(model)
    seconds = time.perf_counter() - start
    back = back or _texts_of(ensemble)
    n_wrong = n_close = 0
    for first in range(0, options.rows, BLOCK):
        rows = threshold_rows(ensemble, min(BLOCK, options.rows - first), seed=options.seed + first + 1)
        ours, theirs = ensemble.predict(rows), np.ravel(model.predict(back(rows)))
        differ = np.flatnonzero(ours != theirs)
        sums = ensemble.decision_function(rows[differ])
        gap = np.abs(sums if sums.ndim == 1 else sums[:, 0] - sums[:, 1])
        is_close = gap <= ensemble.rounding_bound(np.float32) + 2.0**-20
        n_wrong, n_close = n_wrong + int((~is_close).sum()), n_close + int(is_close.sum())
    rows = given[: options.certified]
    margin = ensemble.rounding_bound(np.float32) + 2.0**-20
    c = certify(ensemble, rows, None, Attacker(np.inf, EPS), witness=True, margin=margin)
    broken, stable = np.flatnonzero(c.stable == 0), np.flatnonzero(c.stable == 1)
    changed = np.ravel(model.predict(back(c.witness[broken]))) if len(broken) else []
    n_flipped = int((changed != c.prediction[broken]).sum()) if len(broken) else 0
    rng, n_fallen = np.random.default_rng(options.seed), 0
    for i in stable:
        z = np.repeat(c.rows[i][None], options.samples, axis=0)
        z[:, :N_NUMBERS] += rng.choice([-EPS, EPS, 0.0, 0.5 * EPS], z[:, :N_NUMBERS].shape) * (1 - 1e-12)
        n_fallen += int((np.ravel(model.predict(back(z))) != c.prediction[i]).any())
    return (
        f"{n_wrong} of {options.rows:,} labels differ beyond rounding ({n_close} within); {len(stable)} of"
        f" {len(rows):,} rows stable, {n_fallen} of them fell to {options.samples:,} samples each; {n_flipped} of"
        f" {len(broken)} witnesses flip the library's prediction; imported and proved in {seconds:.1f} s."
    )


def _texts_of(ensemble):
    """Return what makes rows with text of rows with the codes that an ensemble has."""
    known = [int(text.removeprefix("kind ")) for text in ensemble.categories[CATEGORY]]

    def back(rows):
        codes = np.array([*known, N_CATEGORIES, np.nan])
        place = np.where(np.isnan(rows[:, CATEGORY]), -1, np.minimum(rows[:, CATEGORY], len(known)))
        return as_frame(np.column_stack([rows[:, :CATEGORY], codes[place.astype(int)]]))

    return back


def compare_units(options) -> str:
    """Certify a pipeline in the units of the data, and its model on transformed rows with translated budgets.

    Scales are powers of two, and rows have few digits, so that nothing is rounded.
    """
    X, y = table(4_000, options.seed)
    X[:, :CATEGORY] = np.round(X[:, :CATEGORY] * 64) / 64
    scaler, frame = MaxAbsScaler(), as_frame(X)
    steps = encoded(OneHotEncoder(handle_unknown="ignore", sparse_output=False), scaler)
    model = make_pipeline(steps, HistGradientBoostingClassifier(max_iter=40, max_depth=5)).fit(frame, y)
    scaler = model[0].named_transformers_["n"]
    unit = np.exp2(np.arange(N_NUMBERS) % 5 - 2.0)
    scaler.max_abs_[:] = scaler.scale_[:] = unit
    rows, found = frame[: options.certified], []
    made = model[0].transform(rows)
    for norm, eps in ((np.inf, 0.25), (2, 0.5), (1, 0.5), (0, 1)):
        raw = certify(model, rows, None, Attacker(norm, eps, scale=[*unit, 1.0]), time_limit=10)
        frozen = list(range(N_NUMBERS, made.shape[1]))
        scaled = certify(model[-1], made, None, Attacker(norm, eps, frozen=frozen), time_limit=10)
        both = (raw.stable >= 0) & (scaled.stable >= 0)
        n_other = int((raw.stable[both] != scaled.stable[both]).sum())
        n_broken = int((raw.stable == 0).sum())
        found.append(f"L{norm}: {n_other} of {both.sum():,} verdicts differ ({n_broken} unstable)")
    return "; ".join(found) + "."


if __name__ == "__main__":
    main()

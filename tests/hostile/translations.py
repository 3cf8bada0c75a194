"""A trial of doors: random small models of every format and kind, compared with what their library makes of them.

    python tests/hostile/translations.py --models 1000 --seed 1 [--format treelite ...] [--kind xgboost ...]

Every model is compared on 4,096 rows, an eighth of them random and the others on a threshold or one float32 or float64
step beside, some values missing (`formats/agreement.py`). The table says, by format and kind, how many models were the
same, how many were refused, and by which sentence, and how many a converter did not make. Of each kind, models are
drawn until ``--models`` were compared, or twice as many drawn, or so many drawn of which none could be compared.

skl2onnx converts histogram boosting beside protobuf below 7.34 only: it writes booleans as whole numbers.
"""

from __future__ import annotations

import argparse
import functools
import json
import random
import re
import sys
import tempfile
import time
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
from sklearn import ensemble as forests
from sklearn.calibration import CalibratedClassifierCV
from sklearn.feature_selection import RFE, SelectFromModel, SelectKBest, VarianceThreshold
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    MinMaxScaler,
    PowerTransformer,
    QuantileTransformer,
    StandardScaler,
)

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # as pytest does, when this file is run by itself

from certiforest import ModelError, as_ensemble, save_onnx
from certiforest.formats.doors import open_model
from hostile.deployed import lightgbm_model, sklearn_model, xgboost_model
from hostile.drawn_onnx import draw_onnx

DIFFERS = "Expected the translation"
OPERATORS = ("TreeEnsembleClassifier", "TreeEnsembleRegressor", "TreeEnsemble")


def table(rng, *, n_classes=2, may_miss=False, is_positive=False):
    """Draw 80 rows of two to four columns on a grid, and labels."""
    draw = np.random.default_rng(rng.getrandbits(32))
    n, step = rng.choice([2, 3, 4]), rng.choice([1 / 8, 0.1, 0.37, 10.0])
    X = draw.integers(0 if is_positive else -4, 9, (80, n)) * step + (step if is_positive else 0)
    signal = X @ draw.normal(size=n) + draw.normal(size=80) * step
    y = np.searchsorted(np.quantile(signal, [0.5] if n_classes == 2 else [0.35, 0.7]), signal)
    if may_miss:
        X[draw.random(X.shape) < 0.15] = np.nan
    return X, y


def tree_model(rng, kind):
    """Draw a model of scikit-learn, XGBoost or LightGBM, a classifier."""
    if kind == "xgboost":
        return xgboost_model(rng)
    return lightgbm_model(rng) if kind == "lightgbm" else sklearn_model(rng, kind)


def regressor(rng, kind):
    import lightgbm
    import xgboost

    size = {"n_estimators": rng.randint(1, 4), "max_depth": rng.choice([1, 2, 3])}
    return {
        "xgboost": lambda: xgboost.XGBRegressor(**size, n_jobs=1),
        "lightgbm": lambda: lightgbm.LGBMRegressor(**size, n_jobs=1, verbose=-1, min_child_samples=4),
        "RandomForestRegressor": lambda: forests.RandomForestRegressor(**size),
        "GradientBoostingRegressor": lambda: forests.GradientBoostingRegressor(**size),
    }[kind]()


CLASSIFIERS = ("tree", "RandomForestClassifier", "ExtraTreesClassifier", "GradientBoostingClassifier", "histogram")
BOOSTED = ("xgboost", "lightgbm")
REGRESSORS = ("RandomForestRegressor", "GradientBoostingRegressor")
TAKE_MISSING = ("histogram", *BOOSTED)


def fitted(rng, kind):
    """Fit a model of a kind, with the steps before it that the kind names."""
    steps, _, kind = kind.rpartition(" + ")
    n_classes = rng.choice([2, 3])
    X, y = table(rng, n_classes=n_classes, may_miss=kind in TAKE_MISSING and not steps and rng.random() < 0.5)
    model = regressor(rng, kind.split()[0]) if "egressor" in kind else tree_model(rng, kind)
    if steps:
        model = make_pipeline(SimpleImputer(), StandardScaler(), *rng.choice([[], [MinMaxScaler()]]), model)
    return model.fit(X, y), X


def to_onnx(rng, kind, folder):
    import onnxmltools
    import skl2onnx
    from onnxmltools.convert.common.data_types import FloatTensorType

    model, X = fitted(rng, kind)
    shape = [("X", FloatTensorType([None, X.shape[1]]))]
    for library in BOOSTED:
        if kind.startswith(library):
            return getattr(onnxmltools, f"convert_{library}")(model, initial_types=shape, target_opset=15)
    shape = [("X", skl2onnx.common.data_types.FloatTensorType([None, X.shape[1]]))]
    return skl2onnx.to_onnx(model, target_opset={"": 18, "ai.onnx.ml": 3}, initial_types=shape)


def own_onnx(rng, kind, folder):
    """Write an ensemble of votes or sums as ONNX, whose object is compared with onnxruntime."""
    import onnx

    model, _ = fitted(rng, rng.choice(["RandomForestClassifier", "GradientBoostingClassifier"]))
    voting = "hard" if kind == "votes" and isinstance(model, forests.RandomForestClassifier) else None
    save_onnx(as_ensemble(model, voting=voting), folder / "model.onnx")
    return onnx.load(folder / "model.onnx")


def to_treelite(rng, kind, folder):
    import treelite

    model, _ = fitted(rng, kind)
    if kind.startswith("xgboost"):
        return treelite.frontend.from_xgboost(model.get_booster())
    if kind.startswith("lightgbm"):
        return treelite.frontend.from_lightgbm(model.booster_)
    return treelite.sklearn.import_model(model)


class Pair:
    """A file that must be read as another one is, which is compared by `hostile/models.py`."""

    def __init__(self, path, other):
        self.path, self.other = path, other


def lightgbm_dump(rng, kind, folder):
    X, y = table(rng, n_classes=3 if kind == "three classes" else 2, may_miss=rng.random() < 0.5)
    model, options = lightgbm_model(rng, zero_as_missing=rng.random() < 0.3), {}
    if kind == "categories":
        X[:, 0], options = np.floor(np.abs(np.nan_to_num(X[:, 0]))) % 5, {"categorical_feature": [0]}
    booster = model.fit(X, y, **options).booster_
    booster.save_model(folder / "model.txt")
    (folder / "model.json").write_text(json.dumps(booster.dump_model()))
    return Pair(folder / "model.json", folder / "model.txt")


def machine(rng, kind, folder):
    from interpret.glassbox import ExplainableBoostingClassifier, ExplainableBoostingRegressor

    X, y = table(rng, n_classes=3 if kind == "three classes" else 2, may_miss=kind != "pairs" and rng.random() < 0.5)
    made = ExplainableBoostingRegressor if kind == "regressor" else ExplainableBoostingClassifier
    options = {"max_rounds": 5, "outer_bags": 1, "n_jobs": 1, "interactions": 1 if kind == "pairs" else 0}
    return made(**options, random_state=rng.randrange(99)).fit(X, y)


def stepped(rng, kind, folder):
    """Fit a pipeline with a step of a kind."""
    name = rng.choice(["tree", "RandomForestClassifier", "GradientBoostingClassifier", *BOOSTED])
    X, y = table(rng, is_positive=kind in ("box-cox", "log", "sqrt", "log1p"), n_classes=rng.choice([2, 3]))
    step = {
        "SelectKBest": lambda: SelectKBest(k=2),
        "VarianceThreshold": lambda: VarianceThreshold(1e-3),
        "SelectFromModel": lambda: SelectFromModel(sklearn_model(rng, "tree")),
        "RFE": lambda: RFE(sklearn_model(rng, "tree"), n_features_to_select=1),
        "QuantileTransformer": lambda: QuantileTransformer(n_quantiles=rng.choice([5, 20, 80])),
        "normal quantiles": lambda: QuantileTransformer(n_quantiles=20, output_distribution="normal"),
        "yeo-johnson": lambda: PowerTransformer(),
        "box-cox": lambda: PowerTransformer("box-cox", standardize=rng.random() < 0.5),
        "KBinsDiscretizer": lambda: KBinsDiscretizer(
            rng.choice([3, 6]), encode="ordinal", quantile_method="averaged_inverted_cdf"
        ),
        "KBinsDiscretizer, columns": lambda: KBinsDiscretizer(3, quantile_method="averaged_inverted_cdf"),
        **{f: lambda f=f: FunctionTransformer(getattr(np, f)) for f in ("log", "log1p", "sqrt", "exp", "arctan")},
    }[kind]()
    return make_pipeline(step, tree_model(rng, name)).fit(X, y)


def wrapped(rng, kind, folder):
    X, y = table(rng, may_miss=kind == "IsolationForest" and rng.random() < 0.5)
    if kind == "IsolationForest":
        options = {"max_features": rng.choice([0.5, 1.0]), "contamination": rng.choice(["auto", 0.1])}
        return forests.IsolationForest(n_estimators=rng.randint(1, 6), max_samples=32, **options).fit(X)
    forest = sklearn_model(rng, "RandomForestClassifier")
    model = {
        "calibrated": lambda: CalibratedClassifierCV(forest, ensemble=False, cv=2, method=rng.choice(METHODS)),
        "calibrated, a mean": lambda: CalibratedClassifierCV(forest, ensemble=True, cv=2),
        "soft vote of forests": lambda: forests.VotingClassifier([("a", forest), ("b", forest)], voting="soft"),
        "soft vote of boosted": lambda: forests.VotingClassifier([("a", xgboost_model(rng))] * 1, voting="soft"),
    }[kind]()
    return model.fit(X, y)


METHODS = ["sigmoid", "isotonic"]
SKLEARN = ("SelectKBest", "VarianceThreshold", "SelectFromModel", "RFE", "QuantileTransformer", "normal quantiles",
           "yeo-johnson", "box-cox", "KBinsDiscretizer", "KBinsDiscretizer, columns", "log", "log1p", "sqrt", "exp",
           "arctan")  # fmt: skip
WRAPPED = ("IsolationForest", "calibrated", "calibrated, a mean", "soft vote of forests", "soft vote of boosted")
FORMATS = {
    "ONNX, drawn": (lambda rng, kind, folder: draw_onnx(rng, kind), OPERATORS),
    "ONNX, own files": (own_onnx, ("votes", "sums")),
    "ONNX, skl2onnx": (to_onnx, (*CLASSIFIERS, *REGRESSORS, "steps + RandomForestClassifier")),
    "ONNX, onnxmltools": (to_onnx, (*BOOSTED, "xgboost regressor", "lightgbm regressor")),
    "treelite": (to_treelite, (*BOOSTED, *CLASSIFIERS[1:], *REGRESSORS, "xgboost regressor", "lightgbm regressor")),
    "LightGBM dump": (lightgbm_dump, ("two classes", "three classes", "categories")),
    "InterpretML": (machine, ("mains", "pairs", "three classes", "regressor")),
    "scikit-learn, steps": (stepped, SKLEARN),
    "scikit-learn, others": (wrapped, WRAPPED),
}


def judge(model):
    """Return what became of a model: a word, and a sentence where it is not the same."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if isinstance(model, Pair):
                same = open_model(model.path).ensemble == open_model(model.other).ensemble
                return ("same", "") if same else ("differed", "another ensemble than the text gives")
            opened = open_model(model)
            if opened.is_regressor:  # compared with a threshold amid what it says
                assert opened.score is not None
    except ModelError as error:
        return "differed" if DIFFERS in str(error) else "refused", str(error)
    return "same", ""


def trial(formats, n_models, seed, print_row=print, kinds=None):
    """Judge models of formats, of all kinds or those named; return how many differed."""
    n_wrong, reasons = 0, Counter()
    widths = {"models": 8, "same": 8, "refused": 9, "differed": 10, "not made": 10}
    print_row(f"{'format':22}{'kind':34}" + "".join(f"{word:>{width}}" for word, width in widths.items()))
    cells = [(name, kind) for name in formats for kind in FORMATS[name][1] if not kinds or kind in kinds]
    for name, kind in cells:
        count, drawn, compared = Counter(), 0, 0
        with tempfile.TemporaryDirectory() as folder:
            while compared < n_models and drawn < n_models * (1 + (compared > 0)):
                rng, drawn = random.Random(f"{seed} {name} {kind} {drawn}"), drawn + 1
                try:
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")
                        model = FORMATS[name][0](rng, kind, Path(folder))
                except Exception as error:  # of a converter, or of training
                    outcome, why = "not made", f"{type(error).__name__}: {error}"
                else:
                    outcome, why = judge(model)
                    count["models"] += 1
                count[outcome] += 1
                compared = count["same"] + count["differed"]
                if why:
                    reasons[name, kind, outcome, re.sub(r"[-+.e0-9]*[0-9]", "#", why)[:230]] += 1
        n_wrong += count["differed"]
        print_row(f"{name:22}{kind:34}" + "".join(f"{count[word]:{width},}" for word, width in widths.items()))
    for (name, kind, outcome, why), n in reasons.most_common():
        print_row(f"{outcome}: {n:,} {name}, {kind}: {why}")
    return n_wrong


def main() -> None:
    """Run the trial and print its table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--format", nargs="*", choices=[*FORMATS], default=[*FORMATS])
    parser.add_argument("--kind", nargs="*", choices=sorted({kind for _, kinds in FORMATS.values() for kind in kinds}))
    options = parser.parse_args()
    start = time.process_time()
    n_wrong = trial(options.format, options.models, options.seed, functools.partial(print, flush=True), options.kind)
    print(f"seed {options.seed}, {time.process_time() - start:.0f} s of the processor")
    sys.exit(n_wrong > 0)


if __name__ == "__main__":
    main()

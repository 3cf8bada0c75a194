"""Wrappers of scikit-learn around models of trees: folded exactly, or refused with a sentence that helps."""

import numpy as np
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    IsolationForest,
    RandomForestClassifier,
    RandomForestRegressor,
    StackingClassifier,
    VotingClassifier,
)
from sklearn.feature_selection import RFE, SelectFromModel, SelectKBest, VarianceThreshold
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import (
    FixedThresholdClassifier,
    GridSearchCV,
    RandomizedSearchCV,
    TunedThresholdClassifierCV,
)
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    PowerTransformer,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
)
from sklearn.tree import DecisionTreeClassifier

from certiforest import Attacker, LargeSpreadForestClassifier, ModelError, as_ensemble, certify
from certiforest.ensemble.rows import RowError
from certiforest.formats.agreement import threshold_rows
from certiforest.formats.pipelines import PipelineSteps
from small_models import differs, lgb, xgb

X, Y = load_breast_cancer(return_X_y=True)
Y = np.where(np.random.default_rng(0).random(len(Y)) < 0.1, 1 - Y, Y)
HOLED = np.where(np.random.default_rng(1).random(X.shape) < 0.2, np.nan, X)
MANY = load_iris(return_X_y=True)
LABELS = np.array(["no", "yes"])


def tree(depth=3):
    return DecisionTreeClassifier(max_depth=depth, random_state=0)


def forest(n=6):
    return RandomForestClassifier(n, max_depth=3, random_state=0)


def gradient():
    return GradientBoostingClassifier(n_estimators=8)


def own():
    return LargeSpreadForestClassifier(n_estimators=5, max_depth=3, eps=0.01, random_state=0)


def histogram():
    return HistGradientBoostingClassifier(max_iter=8, max_depth=3)


def parted():
    return ColumnTransformer(
        [("middle", make_pipeline(SimpleImputer(strategy="median"), StandardScaler()), [4, 0, 7, 1]),
         ("range", MinMaxScaler(clip=True), slice(10, 20)), ("out", "drop", [2])],
        remainder="passthrough",
    )  # fmt: skip


NORMAL, BINS = {"output_distribution": "normal"}, {"encode": "ordinal", "quantile_method": "averaged_inverted_cdf"}
DEPTHS = {"histgradientboostingclassifier__max_depth": [2, 3]}
EXACT = {
    "scaled xgboost": (lambda: make_pipeline(StandardScaler(), xgb()), X),
    "scaled lightgbm": (lambda: make_pipeline(MinMaxScaler(), lgb()), X),
    "scaled twice": (lambda: make_pipeline(RobustScaler(), MaxAbsScaler(), forest()), X),
    "scaled with missing values": (lambda: make_pipeline(StandardScaler(), histogram()), HOLED),
    "filled": (lambda: make_pipeline(SimpleImputer(), StandardScaler(), gradient()), HOLED),
    "filled for a model that need not": (lambda: make_pipeline(SimpleImputer(strategy="median"), xgb()), HOLED),
    "passed through": (lambda: make_pipeline("passthrough", tree()), X),
    "columns": (lambda: make_pipeline(parted(), lgb()), HOLED),
    "best columns": (lambda: make_pipeline(VarianceThreshold(), SelectKBest(k=9), StandardScaler(), forest()), X),
    "columns of a model": (lambda: make_pipeline(SelectFromModel(forest()), lgb()), X),
    "columns one by one": (lambda: make_pipeline(RFE(tree(), n_features_to_select=25), tree()), X),
    "quantiles": (lambda: make_pipeline(SimpleImputer(), QuantileTransformer(n_quantiles=60), forest()), HOLED),
    "normal quantiles": (lambda: make_pipeline(QuantileTransformer(n_quantiles=40, **NORMAL), histogram()), X),
    "powers": (lambda: make_pipeline(PowerTransformer(), xgb()), HOLED),
    "powers of numbers above 0": (lambda: make_pipeline(PowerTransformer("box-cox"), lgb()), X + 1),
    "bins": (lambda: make_pipeline(KBinsDiscretizer(8, **BINS), forest()), X),
    "logarithms": (lambda: make_pipeline(FunctionTransformer(np.log1p), StandardScaler(), histogram()), X),
    "logarithms before xgboost": (lambda: make_pipeline(FunctionTransformer(np.log1p), xgb()), HOLED),
    "roots before trees": (lambda: make_pipeline(FunctionTransformer(np.sqrt), gradient()), X),
    "exponentials": (lambda: make_pipeline(MaxAbsScaler(), FunctionTransformer(np.exp), forest()), X),
    "search": (lambda: GridSearchCV(forest(), {"max_depth": [2, 3]}, cv=2), X),
    "search over a pipeline": (
        lambda: RandomizedSearchCV(make_pipeline(StandardScaler(), histogram()), DEPTHS, n_iter=2, cv=2),
        HOLED,
    ),
    "fixed threshold": (lambda: FixedThresholdClassifier(forest(), threshold=0.3), X),
    "fixed threshold on a tree": (lambda: FixedThresholdClassifier(tree(4), threshold=0.3), X),
    "tuned threshold": (lambda: TunedThresholdClassifierCV(make_pipeline(StandardScaler(), xgb()), cv=2), X),
    "soft vote": (lambda: VotingClassifier([("a", forest()), ("b", tree(4))], voting="soft", weights=[2, 1]), X),
    "hard vote of trees": (lambda: VotingClassifier([("a", tree(1)), ("b", tree(4)), ("c", tree(2))]), X),
    "bagged trees": (lambda: BaggingClassifier(tree(), n_estimators=5, max_features=0.6, random_state=0), HOLED),
    "bagged forests": (lambda: BaggingClassifier(forest(3), n_estimators=3, random_state=0), X),
    "adaboost": (lambda: AdaBoostClassifier(tree(2), n_estimators=6, random_state=0), X),
    "sigmoid": (lambda: CalibratedClassifierCV(histogram(), ensemble=False, cv=3), X),
    "isotonic": (lambda: CalibratedClassifierCV(forest(), method="isotonic", ensemble=False, cv=3), X),
    "sigmoid of xgboost": (lambda: CalibratedClassifierCV(xgb(), ensemble=False, cv=3), X),
    "own forest": (lambda: make_pipeline(MinMaxScaler(), own()), X),
    "own forest, searched": (lambda: GridSearchCV(own(), {"max_depth": [2, 3]}, cv=2), X),
}  # fmt: skip


@pytest.mark.parametrize("kind", EXACT)
def test_wrappers_are_folded_exactly(kind):
    make, rows = EXACT[kind]
    y = Y if "xgboost" in kind or kind == "powers" or "need not" in kind or "tuned" in kind else LABELS[Y]
    model = make().fit(rows, y)
    ensemble = as_ensemble(model)
    assert as_ensemble(model) is ensemble or kind == "own forest, searched"  # remembered
    assert ensemble.n_features == rows.shape[1]
    assert (ensemble.predict(rows) == model.predict(rows)).all()
    assert not differs(ensemble, model, threshold_rows(ensemble, 1_500, seed=9)).any()
    attacker = Attacker(np.inf, 0.3, scale=np.nanstd(rows, axis=0))
    c = certify(model, rows[:80], None, attacker, witness=True)
    broken = np.flatnonzero(c.stable == 0)
    assert len(broken)
    assert (model.predict(c.witness[broken]) != c.prediction[broken]).all()


def test_wrappers_of_three_classes():
    for model in (
        make_pipeline(StandardScaler(), histogram()), BaggingClassifier(tree(), n_estimators=4, random_state=0),
        AdaBoostClassifier(tree(1), n_estimators=5, random_state=0), VotingClassifier([("a", forest())], voting="soft"),
    ):  # fmt: skip
        model.fit(*MANY)
        assert (as_ensemble(model).predict(MANY[0]) == model.predict(MANY[0])).all()


def test_a_pipeline_in_raw_units_is_the_model_in_scaled_units():
    """Scales that are powers of two round nothing, so that both ways are exact."""
    rows = np.round(X / X.max(axis=0) * 64)
    scaler = MaxAbsScaler()
    model = make_pipeline(scaler, histogram()).fit(rows, Y)
    scaler.max_abs_[:] = scaler.scale_[:] = np.exp2(5 + np.arange(rows.shape[1]) % 3)
    unit = scaler.scale_
    for norm, eps in ((np.inf, 0.02), (2, 0.05), (1, 0.0625)):
        raw = certify(model, rows, Y, Attacker(norm, eps, scale=unit), radius=norm == np.inf, time_limit=5)
        scaled = certify(model[-1], scaler.transform(rows), Y, Attacker(norm, eps), radius=norm == np.inf, time_limit=5)
        assert 0 < raw.stable.mean() < 1
        assert (raw.stable == scaled.stable).all()
        if norm == np.inf:
            np.testing.assert_allclose(raw.radius, scaled.radius, rtol=1e-12)


def test_thresholds_through_wrappers():
    model = make_pipeline(StandardScaler(), histogram()).fit(X, Y)
    expected = model.predict_proba(X)[:, 1] >= 0.3
    assert (as_ensemble(model, threshold=0.3).predict(X) == expected).all()
    calibrated = CalibratedClassifierCV(histogram(), ensemble=False, cv=3).fit(X, Y)
    expected = calibrated.predict_proba(X)[:, 1] >= 0.3
    assert (as_ensemble(calibrated, threshold=0.3).predict(X) == expected).all()
    fixed = FixedThresholdClassifier(forest(), threshold=0.3).fit(X, Y)
    with pytest.raises(ModelError, match="which has a threshold of its own"):
        as_ensemble(fixed, threshold=0.2)
    regressor = make_pipeline(StandardScaler(), RandomForestRegressor(5, max_depth=3, random_state=0)).fit(X, Y)
    assert (as_ensemble(regressor, threshold=0.5).predict(X) == (regressor.predict(X) >= 0.5)).all()


def test_frames_of_pipelines():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(HOLED, columns=[f"c{f}" for f in range(HOLED.shape[1])])
    steps = ColumnTransformer([("a", SimpleImputer(), ["c3", "c1"])], remainder="passthrough")
    model = make_pipeline(steps, histogram()).fit(frame, Y)
    ensemble = as_ensemble(model)
    assert ensemble.feature_names == tuple(frame.columns)
    assert (ensemble.predict(frame) == model.predict(frame)).all()


def test_models_inside_that_saw_some_classes_only():
    """They know classes by number, which may be the label of another one."""
    y = np.digitize(X[:, 0], [7.7, 15.0]) + 1
    model = BaggingClassifier(make_pipeline(StandardScaler(), tree()), n_estimators=8, max_samples=30, random_state=0)
    model.fit(X, y)
    assert [1, 2] in [part.classes_.tolist() for part in model.estimators_]
    assert (as_ensemble(model).predict(X) == model.predict(X)).all()


def test_what_changes_inside_is_seen():
    model = make_pipeline(StandardScaler(), tree()).fit(X, Y)
    before = as_ensemble(model)
    model[0].mean_ += 1
    assert as_ensemble(model) != before
    vote = VotingClassifier([("a", tree()), ("b", tree(5))], voting="soft", weights=(1, 9)).fit(X, Y)
    steps = ColumnTransformer([("a", StandardScaler(), [0, 1])], remainder="passthrough", transformer_weights={"a": 1})
    model = make_pipeline(steps, tree(5)).fit(X[:, :3], Y)
    for changed, part, rows, options in (
        (vote, vote, X, {"weights": (9, 1)}),
        (model, model[0], X[:, :3], {"transformer_weights": {"a": 3}}),
    ):
        before = as_ensemble(changed)
        part.set_params(**options)
        assert (before.predict(rows) != changed.predict(rows)).any()
        assert (as_ensemble(changed).predict(rows) == changed.predict(rows)).all()


REFUSED = {
    "another step": (lambda: make_pipeline(Normalizer(), tree()), "each column for itself.*got Normalizer"),
    "bins as columns": (lambda: make_pipeline(KBinsDiscretizer(3), tree()), "encode='ordinal'.*got KBinsDiscretizer"),
    "a function that falls": (lambda: make_pipeline(FunctionTransformer(np.square), tree()), "rising.*got FunctionTr"),
    "quantiles of scaled columns": (
        lambda: make_pipeline(StandardScaler(), QuantileTransformer(n_quantiles=9), tree()),
        "nothing else has changed.*got QuantileTransformer",
    ),
    "an indicator": (lambda: make_pipeline(SimpleImputer(add_indicator=True), tree()), "got SimpleImputer"),
    "no model of trees": (lambda: make_pipeline(StandardScaler(), LogisticRegression()), "got LogisticRegression"),
    "no best model": (lambda: GridSearchCV(tree(), {"max_depth": [2]}, cv=2, refit=False), "refit=True"),
    "a vote of models": (lambda: VotingClassifier([("a", forest()), ("b", tree())]), "what whole models predict"),
    "probabilities that are no sum": (
        lambda: VotingClassifier([("a", histogram()), ("b", tree())], voting="soft"),
        "Expected means of what trees say.*HistGradientBoostingClassifier",
    ),
    "bagged boosting": (lambda: BaggingClassifier(histogram(), n_estimators=2), "Expected means of what trees say"),
    "boosted forests": (lambda: AdaBoostClassifier(forest(), n_estimators=2), "AdaBoostClassifier of trees"),
    "several calibrations": (lambda: CalibratedClassifierCV(forest(), cv=2), "fit with ensemble=False"),
    "stacking": (lambda: StackingClassifier([("a", forest())], cv=2), "a model of models' predictions"),
    "one against the rest": (lambda: OneVsRestClassifier(forest()), "fit one model of all classes"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_wrappers_that_cannot_be_folded(kind):
    make, message = REFUSED[kind]
    with pytest.raises(ModelError, match=message) as caught:
        as_ensemble(make().fit(HOLED if kind == "an indicator" else X, Y))
    assert "\n" not in str(caught.value)


def test_numbers_that_functions_do_not_take():
    """They count as missing where the model takes that, else rows that have them are refused, and nobody goes there."""
    y = (X[:, 0] > 15).astype(int)
    missing = make_pipeline(FunctionTransformer(np.log1p), histogram()).fit(X[:, :1], y)
    rows = np.array([[-5.0], [-1.0], [0.0], [16.0]])
    with np.errstate(all="ignore"):
        assert (as_ensemble(missing).predict(rows) == missing.predict(rows)).all()
    refused = make_pipeline(FunctionTransformer(np.sqrt), gradient()).fit(X[:, :1], y)
    with pytest.raises(RowError, match="feature 0"):
        as_ensemble(refused).predict(rows)
    zero = make_pipeline(FunctionTransformer(np.log), tree()).fit(X[:, :1], y)  # minus infinity is not taken
    assert as_ensemble(zero).required == (0,)
    c = certify(refused, rows[2:], None, Attacker(np.inf, 20.0), witness=True)
    assert c.stable.tolist() == [0, 0]
    assert (refused.predict(c.witness) != c.prediction).all()


def test_models_that_refuse_rows_on_their_thresholds_are_refused():
    far = np.linspace(0, 88, 40)[:, None]
    model = make_pipeline(FunctionTransformer(np.exp), tree()).fit(far, far[:, 0] > 87)
    with pytest.raises(ModelError, match=r"Expected .* to predict rows on its thresholds .* too large for dtype"):
        as_ensemble(model)


def test_rounding_that_turns_the_order_is_refused(monkeypatch):
    """A step whose result wavers around a threshold has none that acts the same."""
    model = make_pipeline(FunctionTransformer(np.log1p), tree(1)).fit(X, Y)
    rise = PipelineSteps.transform

    def waver(self, rows, **options):
        made, odd = rise(self, rows, **options), (np.asarray(rows).view(np.int64) & 1) == 1
        return np.where(odd, np.nextafter(made.astype(np.float32), np.float32(np.inf)).astype(float), made)

    monkeypatch.setattr(PipelineSteps, "transform", waver)
    with pytest.raises(ModelError, match="keep the order of numbers, with their rounding"):
        as_ensemble(model)


def test_isolation_forests():
    for rows, options in ((X, {"contamination": 0.1}), (HOLED, {"max_features": 0.5})):
        model = IsolationForest(n_estimators=20, max_samples=64, random_state=0, **options).fit(rows)
        ensemble = as_ensemble(model)
        assert not differs(ensemble, model, threshold_rows(ensemble, 3_000, seed=9), np.float64, 1e-12).any()
        expected = np.where(-model.score_samples(rows) >= 0.45, -1, 1)
        assert (as_ensemble(model, threshold=0.45).predict(rows) == expected).all()
    before = as_ensemble(model)
    model.offset_ = -0.4
    assert (as_ensemble(model).predict(rows) == model.predict(rows)).all()
    assert as_ensemble(model) != before
    c = certify(model, HOLED[:20], None, Attacker(np.inf, 0.5, scale=X.std(axis=0)), outputs=True)
    scores = -model.score_samples(HOLED[:20])
    assert ((c.low <= scores) & (scores <= c.high)).all()
    with pytest.raises(ModelError, match="two rows or more"):
        as_ensemble(IsolationForest(n_estimators=2).fit(X[:1]))


def test_wrappers_that_are_not_fitted():
    for model in (make_pipeline(StandardScaler(), tree()), VotingClassifier([("a", tree())]), GridSearchCV(tree(), {})):
        with pytest.raises(ModelError, match="call fit first"):
            as_ensemble(model)

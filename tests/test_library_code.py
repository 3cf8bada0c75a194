"""Models that predict by code that is not their library's are refused, and those that only add to it are welcome."""

import dataclasses
import functools

import numpy as np
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import (
    BaggingClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    VotingClassifier,
)
from sklearn.model_selection import FixedThresholdClassifier, GridSearchCV, StratifiedKFold
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.tree import DecisionTreeClassifier

from certiforest import Attacker, LargeSpreadForestClassifier, ModelError, Nodes, TreeEnsemble, as_ensemble, certify

X, Y = load_breast_cancer(return_X_y=True)
X = X[:, :5]
KINDS = {
    "tree": (DecisionTreeClassifier, {"max_depth": 2}),
    "forest": (RandomForestClassifier, {"n_estimators": 2, "max_depth": 2}),
    "boosting": (GradientBoostingClassifier, {"n_estimators": 2}),
    "histogram": (HistGradientBoostingClassifier, {"max_iter": 2}),
    "ours": (LargeSpreadForestClassifier, {"n_estimators": 2, "eps": 0.01}),
    "xgboost": ("XGBClassifier", {"n_estimators": 2, "n_jobs": 1}),
    "lightgbm": ("LGBMClassifier", {"n_estimators": 2, "n_jobs": 1, "verbose": -1}),
    "catboost": ("CatBoostClassifier", {"iterations": 2, "verbose": 0, "allow_writing_files": False}),
}


def base_of(kind):
    base, options = KINDS[kind]
    return (getattr(pytest.importorskip(kind), base) if isinstance(base, str) else base), options


def forest(base=RandomForestClassifier):
    return base(n_estimators=2, max_depth=2, random_state=0)


def calling(base, *names):
    """Return a subclass whose methods do what those of its base do, which nothing can know."""
    own = {name: (lambda self, *a, _name=name, **k: getattr(base, _name)(self, *a, **k)) for name in names}
    return type("Ruled", (base,), own)


def is_refused(model, *words):
    with pytest.raises(ModelError, match=r"by its library's own code.*hand over a fitted") as caught:
        as_ensemble(model)
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_a_rule_beyond_all_rows_that_are_compared_is_no_false_certificate():
    class Ruled(RandomForestClassifier):
        def predict(self, rows):
            return np.where(np.asarray(rows)[:, 1] > 1000, 1, super().predict(rows))

    rng = np.random.default_rng(0)
    rows = rng.uniform(0, 90, (300, 2))
    model = forest(Ruled).fit(rows, (rows[:, 0] > 45).astype(int))
    assert model.predict([[0.1, 999.5]]) != model.predict([[0.1, 1000.4]])
    with pytest.raises(ModelError, match=r"Ruled\.predict"):
        certify(model, [[0.1, 999.5]], [0], Attacker(norm=np.inf, eps=1, scale=[1e-3, 1]))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["predict", "predict_proba", "__getattribute__"])
def test_methods_of_a_subclass(kind, name):
    base, options = base_of(kind)
    is_refused(calling(base, name)(**options).fit(X, Y), f"Ruled.{name}", base.__name__)


@pytest.mark.parametrize("kind", KINDS)
def test_methods_of_an_instance_and_of_a_class_that_is_patched(kind, monkeypatch):
    base, options = base_of(kind)
    model = base(**options).fit(X, Y)
    as_ensemble(model)  # which is remembered
    model.predict = lambda rows: np.zeros(len(rows))
    is_refused(model, "an instance with predict of its own")
    del model.predict
    monkeypatch.setattr(base, "predict", functools.wraps(base.predict)(lambda self, rows: np.zeros(len(rows))))
    is_refused(model, f"another {base.__name__}.predict")
    monkeypatch.undo()
    as_ensemble(model)
    model.__class__ = calling(base, "predict")
    is_refused(model, "Ruled.predict")


@pytest.mark.parametrize("kind", KINDS)
def test_what_only_adds_is_welcome(kind):
    base, options = base_of(kind)

    class Mixin:
        description = "text"

        @property
        def size(self):
            return 3

        def predict_with_reasons(self, rows):
            return [(label, "reason") for label in self.predict(rows)]

    class After:
        def predict(self, rows):
            return np.zeros(len(rows))

    class Mine(Mixin, base, After):
        """Trains on less, and shows itself in another way."""

        def fit(self, rows, y):
            return super().fit(rows[:300], y[:300])

        def score(self, rows, y):
            return 1.0

        def __repr__(self):
            return "Mine"

    model = Mine(**options).fit(X, Y)
    model.note = "kept"
    assert (as_ensemble(model).predict(X) == np.ravel(model.predict(X))).all()


def test_methods_that_prediction_calls_and_properties():
    class Rounding(RandomForestClassifier):
        def _validate_X_predict(self, rows):  # noqa: N802
            return super()._validate_X_predict(np.round(rows))

    class Named(RandomForestClassifier):
        @property
        def classes_(self):
            return self.labels

        @classes_.setter
        def classes_(self, labels):
            self.labels = labels

    class Late(RandomForestClassifier):
        def __getattr__(self, name):
            raise AttributeError(name)

    is_refused(forest(Rounding).fit(X, Y), "Rounding._validate_X_predict")
    is_refused(forest(Named).fit(X, Y), "Named.classes_")
    is_refused(forest(Late).fit(X, Y), "Late.__getattr__")


def ruled_forest():
    return forest(calling(RandomForestClassifier, "predict_proba"))


PARTS = {
    "a step": lambda: make_pipeline(calling(StandardScaler, "transform")(), forest()),
    "a step in columns": lambda: make_pipeline(
        ColumnTransformer([("a", calling(StandardScaler, "transform")(), [0, 1])]), forest()
    ),
    "a step that does nothing": lambda: make_pipeline(calling(FunctionTransformer, "transform")(), forest()),
    "a pipeline": lambda: calling(Pipeline, "predict")([("forest", forest())]),
    "a search": lambda: calling(GridSearchCV, "predict")(forest(), {"max_depth": [2]}, cv=2),
    "a model in a search": lambda: GridSearchCV(ruled_forest(), {"max_depth": [2]}, cv=2),
    "a voter": lambda: VotingClassifier([("forest", ruled_forest())], voting="soft"),
    "a part of a bag": lambda: BaggingClassifier(ruled_forest(), 2),
    "a model with a threshold": lambda: FixedThresholdClassifier(ruled_forest(), threshold=0.3),
}


@pytest.mark.parametrize("part", PARTS)
def test_parts_of_wrappers(part):
    is_refused(PARTS[part]().fit(X, Y), "Ruled.")


def test_parts_of_models():
    def nothing(*args, **options):
        return None

    model = forest().fit(X, Y)
    model.estimators_[1].predict_proba = nothing
    is_refused(model, "a DecisionTreeClassifier inside a RandomForestClassifier", "predict_proba")
    model = HistGradientBoostingClassifier(max_iter=2).fit(X, Y)
    model._predictors[0][0].predict = nothing
    is_refused(model, "TreePredictor inside a HistGradientBoostingClassifier")
    model = CalibratedClassifierCV(forest(), ensemble=False).fit(X, Y)
    model.calibrated_classifiers_[0].calibrators[0].predict = nothing
    is_refused(model, "_SigmoidCalibration")
    for kind, part, name in (("xgboost", "_Booster", "inplace_predict"), ("lightgbm", "_le", "inverse_transform")):
        base, options = base_of(kind)
        model = base(**options).fit(X, Y)
        setattr(getattr(model, part), name, nothing)
        is_refused(model, f"{name} of its own")


def test_what_only_passes_for_a_model():
    class Proxy:
        def __init__(self, model):
            self.model = model

        @property
        def __class__(self):
            return type(self.model)

        def __getattr__(self, name):
            return getattr(self.model, name)

        def transform(self, rows):
            return -self.model.transform(rows)

    is_refused(Proxy(forest().fit(X, Y)), "a Proxy that passes for one")
    pipeline = make_pipeline(StandardScaler(), forest()).fit(X, Y)
    pipeline.steps[0] = ("scaler", Proxy(pipeline[0]))
    is_refused(pipeline, "a StandardScaler inside a Pipeline", "Proxy")


def test_code_of_training_is_nobodys_business():
    class Stop(pytest.importorskip("xgboost").callback.TrainingCallback):
        def after_iteration(self, model, epoch, evals_log):
            return False

    class Folds(StratifiedKFold):
        def split(self, rows, y=None, groups=None):
            return super().split(rows, y, groups)

    base, options = base_of("xgboost")
    model = GridSearchCV(base(**options, callbacks=[Stop()]), {"max_depth": [2]}, cv=Folds(2)).fit(X, Y)
    model.best_estimator_.itself = [model]
    assert as_ensemble(model).n_trees == 2


def test_what_python_gives_to_every_dataclass_from_3_13_on(monkeypatch):
    base, options = KINDS["ours"]
    monkeypatch.setattr(base, "__replace__", dataclasses.replace, raising=False)
    assert as_ensemble(base(**options).fit(X, Y)).n_trees == 2


def test_an_ensemble_that_another_library_s_model_keeps_is_not_what_it_predicts():
    model = forest().fit(X, Y)
    model.ensemble_ = as_ensemble(model)
    model.fit(X, 1 - Y)
    assert (as_ensemble(model).predict(X) == model.predict(X)).all()

    class Other:
        ensemble_ = model.ensemble_

    class Ruled(TreeEnsemble):
        def predict(self, rows):
            return np.zeros(len(rows))

    with pytest.raises(ModelError, match=r"got Other\.$"):
        as_ensemble(Other())
    is_refused(Ruled.from_trees([Nodes([-1], [-1], [-1], [0.0], [0])], n_features=1, classes=[0, 1]), "Ruled.predict")


def test_lightgbm_that_leaves_out_trees_row_by_row():
    base, options = base_of("lightgbm")
    model = base(**options, pred_early_stop=True).fit(X, Y)
    with pytest.raises(ModelError, match=r"pred_early_stop.*set_params\(pred_early_stop=False\)"):
        as_ensemble(model)
    assert as_ensemble(model.set_params(pred_early_stop=False)).n_trees == 2

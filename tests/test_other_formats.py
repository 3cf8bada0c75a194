"""treelite, LightGBM's dumps and InterpretML's models are what their libraries say; what is refused says what it is."""

import contextlib
import json
import random
import re

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.ensemble import (
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    IsolationForest,
    RandomForestClassifier,
    RandomForestRegressor,
)

from certiforest import Attacker, ModelError, as_ensemble, certify
from certiforest.formats.agreement import check_agreement
from certiforest.formats.doors import open_model
from small_models import lgb, refusal, xgb

X, Y = load_breast_cancer(return_X_y=True)
HOLED = np.where(np.random.default_rng(0).random(X.shape) < 0.2, np.nan, X)
MANY = load_iris(return_X_y=True)
CODED = HOLED[:, :5].copy()
CODED[:, 1] = np.floor(np.nan_to_num(CODED[:, 1], nan=3))
OF_CODES = ((CODED[:, 1] % 3 == 0) ^ (Y == 1)).astype(int)
FRAME = pd.DataFrame(CODED, columns=list("abcde")).assign(b=pd.Categorical([f"k{int(v)}" for v in CODED[:, 1]]))
FOREST, BAGGED = (
    {"n_estimators": 5, "max_depth": 3},
    {"boosting_type": "rf", "bagging_freq": 1, "bagging_fraction": 0.5},
)
SETS = {"min_data_per_group": 5, "cat_smooth": 1}


def fitted(model, X, y, categories=None):
    return model.fit(X, y) if categories is None else model.fit(X, y, categorical_feature=categories)


def treelite_of(model):
    treelite = pytest.importorskip("treelite")
    kind = type(model).__name__
    if kind.startswith("XGB"):
        return treelite.frontend.from_xgboost(model.get_booster())
    if kind.startswith("LGB"):
        return treelite.frontend.from_lightgbm(model.booster_)
    return treelite.sklearn.import_model(model)


TREELITE = {
    "xgboost": (lambda: xgb(), (HOLED, Y)),
    "xgboost, three classes": (lambda: xgb(), MANY),
    "xgboost, hinge": (lambda: xgb(objective="binary:hinge"), (HOLED, Y)),
    "xgboost, categories": (
        lambda: xgb(enable_categorical=True, feature_types=list("qcqqq"), max_cat_to_onehot=1), (CODED, OF_CODES),
    ),
    "xgboost, regressor": (lambda: xgb("Regressor"), (HOLED, Y)),
    "xgboost, counts": (lambda: xgb("Regressor", objective="count:poisson"), (HOLED, Y)),
    "lightgbm": (lambda: lgb(), (HOLED, Y)),
    "lightgbm, three classes": (lambda: lgb(), MANY),
    "lightgbm, categories": (lambda: lgb(**SETS), (CODED, OF_CODES, [1])),
    "lightgbm, bagged": (lambda: lgb(**BAGGED), (HOLED, Y)),
    "forest": (lambda: RandomForestClassifier(**FOREST), (X, Y)),
    "forest, three classes": (lambda: RandomForestClassifier(**FOREST), MANY),
    "forest, regressor": (lambda: RandomForestRegressor(**FOREST), (X, Y)),
    "gradient boosting": (lambda: GradientBoostingClassifier(**FOREST), MANY),
    "histogram boosting": (lambda: HistGradientBoostingRegressor(max_iter=4), (HOLED, Y)),
}  # fmt: skip


@pytest.mark.parametrize("case", TREELITE)
def test_treelite_models_are_what_gtil_makes_of_them(case, tmp_path):
    make, data = TREELITE[case]
    model = treelite_of(fitted(make(), *data))
    opened = open_model(model)  # compared
    (tmp_path / "model.json").write_text(model.dump_as_json())
    assert open_model(tmp_path / "model.json").ensemble == opened.ensemble
    model.serialize(tmp_path / "checkpoint")
    assert open_model(tmp_path / "checkpoint").ensemble == opened.ensemble
    if not opened.is_regressor:
        check_agreement(opened.ensemble, case, opened.predict, dtype=opened.dtype, slack=opened.slack, seed=5)
    if opened.sum_at is not None and not opened.is_regressor:
        assert (as_ensemble(model, threshold=0.3).predict(data[0]) == (opened.score(data[0]) >= 0.3)).all()


DUMPS = {
    "two classes": (lgb(), (HOLED, Y)),
    "three classes": (lgb(), MANY),
    "regressor": (lgb("Regressor", objective="poisson"), (HOLED, Y)),
    "bagged": (lgb(**BAGGED), (HOLED, Y)),
    "zero as missing": (lgb(zero_as_missing=True), (HOLED, Y)),
    "codes": (lgb(**SETS), (CODED, OF_CODES, [1])),
    "categories of a frame": (lgb(**SETS), (FRAME, OF_CODES)),
    "single leaves": (lgb(n_estimators=2), (X, np.arange(len(X)) == 0)),
}


@pytest.mark.parametrize("case", DUMPS)
def test_lightgbm_dumps_are_read_as_the_text_is(case, tmp_path):
    model, data = DUMPS[case]
    booster = fitted(model, *data).booster_
    booster.save_model(tmp_path / "model.txt")
    (tmp_path / "model.json").write_text(json.dumps(booster.dump_model()))
    text, dump = open_model(tmp_path / "model.txt"), open_model(tmp_path / "model.json")
    assert dump.ensemble == text.ensemble
    assert dump.is_regressor == text.is_regressor


def test_dumps_that_contradict_themselves(tmp_path):
    document = lgb(n_estimators=2).fit(X, Y).booster_.dump_model()
    text, tree = json.dumps(document), document["tree_info"][0]["tree_structure"]
    for change, message in (
        (text.replace('"split_index": 1,', '"split_index": 0,', 1), "number its splits and leaves"),
        (text.replace('"missing_type": "None"', '"missing_type": "none"', 1), "a split as LightGBM writes it"),
        (text.replace('"objective": "binary', '"objective": "binary\\nx=1'), "one line each"),
        (text.replace(f'"threshold": {tree["threshold"]}', '"threshold": "a"'), "a number at 'threshold'"),
        (text[:-30], "cut short"),
    ):
        assert change != text
        assert re.search(message, refusal(change, tmp_path))


def test_checkpoints_of_treelite_that_are_not_whole_are_refused(tmp_path):
    content = bytes(treelite_of(xgb(n_estimators=2).fit(X, Y)).serialize_bytes())
    for wrong, words in (
        (b"\x05" + content[1:], "checkpoint of treelite 4, got one of 5"),
        (content[:-1], "bytes more, got 3"),
        (content + b"\0", f"checkpoint of {len(content)} bytes"),
        (content[:13] + b"\x03" + content[14:], ""),
        (content[:14] + b"\xff" * 8 + content[22:], "entries, got 2"),
        (content[:26] + b"\x09" + content[27:], "one of 5 numbers, got 9"),
    ):
        assert words in refusal(wrong, tmp_path)
    rng = random.Random(5)
    for _ in range(300):
        place = rng.randrange(14, len(content))
        altered = content[:place] + bytes([rng.randrange(256)]) + content[place + 1 :]
        (tmp_path / "altered").write_bytes(altered)
        with contextlib.suppress(ModelError):  # in a sentence, or it is another model
            open_model(tmp_path / "altered")


def test_infinite_thresholds_that_treelite_does_not_write_are_asked_for():
    X = np.array([[1.0], [2.0], [np.nan], [np.nan]] * 10)
    model = treelite_of(HistGradientBoostingClassifier(max_iter=2, min_samples_leaf=4).fit(X, np.isnan(X[:, 0])))
    assert '"threshold": ,' in model.dump_as_json()
    assert as_ensemble(model).predict([[-1e300], [np.nan]]).tolist() == [0, 1]


def test_a_dump_of_xgboost_is_one_text_for_several_models():
    """Which is why none is read: a threshold of a column of whole numbers is rounded."""
    xgboost, pd = pytest.importorskip("xgboost"), pytest.importorskip("pandas")
    rows = pd.DataFrame({"n": np.arange(40) % 8})
    model = xgboost.XGBClassifier(n_estimators=1, max_depth=1, tree_method="exact").fit(rows, rows["n"] > 3)
    text, other = bytes(model.get_booster().save_raw("json")).decode(), xgboost.Booster()
    assert '"split_conditions":[3.5,' in text.replace("E0", "")
    other.load_model(bytearray(text.replace("[3.5", "[4", 1).encode()))
    assert other.get_dump() == model.get_booster().get_dump()
    between = np.array([[3.75]])
    assert (
        other.inplace_predict(between, validate_features=False)
        != model.predict_proba(between, validate_features=False)[0, 1]
    )


def test_what_lacks_something_says_so(tmp_path):
    booster = xgb(n_estimators=2).fit(X, Y).get_booster()
    for format_ in ("json", "text"):
        booster.dump_model(tmp_path / "dump", dump_format=format_)
        assert "lacks base score, objective" in refusal((tmp_path / "dump").read_bytes(), tmp_path)
    assert "lacks base score, objective" in refusal(booster.get_dump(dump_format="json")[0], tmp_path)
    text = treelite_of(xgb(n_estimators=2).fit(X, Y)).dump_as_json()
    for old, new, message in (
        ('"postprocessor": "sigmoid"', '"postprocessor": "signed_square"', "Expected a classifier with the postpro"),
        ('"left_child": 1,', '"left_child": 0,', "splits as treelite writes them"),
        ('"num_target": 1', '"num_target": 2', "several targets"),
        ('"threshold": ', '"threshold": , "was": ', "leaves out infinite ones"),
        ('"comparison_op": "<"', '"comparison_op": "=="', "compare with a threshold"),
    ):
        assert old in text
        assert message in refusal(text.replace(old, new), tmp_path)
    with pytest.raises(ModelError, match="kIsolationForest"):
        as_ensemble(treelite_of(IsolationForest(n_estimators=2).fit(X)))
    with pytest.raises(ModelError, match="multiclass_ova"):
        as_ensemble(treelite_of(lgb(objective="multiclassova").fit(*MANY)))


def ebm(kind="Classifier", **options):
    glassbox = pytest.importorskip("interpret.glassbox")
    defaults = {"max_rounds": 25, "outer_bags": 2, "n_jobs": 1, "random_state": 0}
    return getattr(glassbox, f"ExplainableBoosting{kind}")(**defaults | options)


KINDS = np.array(["ash", "elm", "fir", None], object)
MIXED = pd.DataFrame(HOLED[:, :3], columns=list("abc")).assign(k=KINDS[np.arange(len(X)) % 4])
MACHINES = {
    "mains": (lambda: ebm(interactions=0), (HOLED[:, :6], Y)),
    "pairs": (lambda: ebm(interactions=3), (X[:, :4], np.array(["no", "yes"])[Y])),
    "three classes": (lambda: ebm(interactions=0), MANY),
    "text": (lambda: ebm(interactions=4), (MIXED, Y ^ (MIXED["k"] == "elm"))),
    "regressor": (lambda: ebm("Regressor", interactions=2), (HOLED[:, :4], X[:, 7])),
    "counts": (lambda: ebm("Regressor", objective="poisson_deviance", interactions=1), (X[:, :4], Y)),
}


@pytest.mark.filterwarnings("ignore:.*")  # of the library, that there are missing values
@pytest.mark.parametrize("case", MACHINES)
def test_explainable_boosting_machines(case):
    make, data = MACHINES[case]
    model = make().fit(*data)
    opened = open_model(model)  # compared
    ensemble = opened.ensemble
    if opened.is_regressor:
        assert np.abs(ensemble.decision_function(data[0]) - model._predict_score(data[0])).max() <= 1e-12
        return
    assert (ensemble.predict(data[0]) == model.predict(data[0])).all()
    check_agreement(ensemble, case, opened.predict, opened.raw, slack=opened.slack, seed=5)
    attacker = Attacker(np.inf, 0.2, scale=np.nanstd(data[0], axis=0)) if case != "text" else Attacker(np.inf, 0.5)
    c = certify(model, data[0][:: len(data[0]) // 40], None, attacker, witness=True)
    broken = np.flatnonzero(c.stable == 0)
    assert len(broken) or case == "text"
    if case != "text":
        assert (model.predict(c.witness[broken]) != c.prediction[broken]).all()


@pytest.mark.filterwarnings("ignore:.*")
def test_machines_of_unseen_categories_and_refused_ones():
    model = ebm(interactions=1).fit(MIXED, Y)
    rows = MIXED.assign(k=np.array(["oak", "elm", None], object)[np.arange(len(X)) % 3])
    assert (as_ensemble(model).predict(rows) == model.predict(rows)).all()
    before = as_ensemble(model)
    model.term_scores_[3][1] += 9.0
    assert as_ensemble(model) != before
    with pytest.raises(ModelError, match="Expected categories of column 3"):
        as_ensemble(
            ebm(interactions=0, feature_types=["continuous"] * 3 + ["nominal"]).fit(np.column_stack([X[:, :3], Y]), Y)
        )
    with pytest.raises(ModelError, match="call fit first"):
        as_ensemble(ebm())

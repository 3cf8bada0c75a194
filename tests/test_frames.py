"""Data frames in, data frames out: columns by name, witnesses as the rows were, labels that belong to the rows."""

import numpy as np
import pytest

from certiforest import Attacker, Certificates, certify, explain
from certiforest.ensemble.rows import RowError
from small_models import stumps

pd = pytest.importorskip("pandas")
JOBS = ["clerk", "cook", "nurse", "pilot", "smith"]


def people(n=400, seed=0):
    """Return rows with text, whole numbers, numbers that may be missing and float32, and labels."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "job": pd.Categorical(rng.choice(JOBS, n), categories=JOBS[::-1]),
            "age": rng.integers(18, 70, n),
            "hours": rng.integers(0, 60, n).astype(np.float32),
            "gain": pd.array(np.where(rng.random(n) < 0.2, np.nan, rng.integers(0, 9, n)), dtype="Int64"),
        },
        index=[f"p{i}" for i in range(n)],
    )
    score = frame["age"] / 50 + frame["job"].isin(["pilot", "nurse"]) + frame["gain"].fillna(0).astype(float) / 9
    return frame, pd.Series(np.where(score + rng.normal(0, 0.2, n) > 1.4, "yes", "no"), frame.index)


def xgboost_model(X, y):
    xgb = pytest.importorskip("xgboost")
    booster = xgb.XGBClassifier(n_estimators=20, max_depth=3, enable_categorical=True, n_jobs=1, max_cat_to_onehot=1)
    return booster.fit(X, (y == "yes").astype(int)), (y == "yes").astype(int)


def lightgbm_model(X, y):
    lgb = pytest.importorskip("lightgbm")
    return lgb.LGBMClassifier(n_estimators=20, max_depth=3, n_jobs=1, min_cat_group=1, verbose=-1).fit(X, y), y


def sklearn_model(X, y):
    from sklearn.ensemble import HistGradientBoostingClassifier

    return HistGradientBoostingClassifier(max_iter=20, max_depth=3, categorical_features="from_dtype").fit(X, y), y


def catboost_model(X, y):
    catboost = pytest.importorskip("catboost")
    model = catboost.CatBoostClassifier(
        iterations=20, depth=3, one_hot_max_size=9, verbose=0, allow_writing_files=False
    )
    return model.fit(X, y, cat_features=["job"]), y


@pytest.mark.parametrize("make", [xgboost_model, lightgbm_model, sklearn_model, catboost_model])
@pytest.mark.parametrize("integer", [["age", "gain"], None])
def test_libraries_predict_witnesses_as_they_are(make, integer):
    X, y = people()
    if make in (sklearn_model, catboost_model):
        X = X.astype({"gain": float})
    model, y = make(X, y)
    only = ["age", "hours", "gain"]
    attacker = Attacker(1, 4, only=[*only, "job"], integer=integer, categories={"job": 1})
    found = certify(model, X, y, attacker, witness=True)
    changed = found.witnesses()
    assert len(changed) == (found.stable == 0).sum() > 50
    assert list(changed.columns) == list(X.columns)
    assert changed.index.equals(X.index[found.stable == 0])
    kinds = {"job": X["job"].dtype, "hours": np.float32} | ({} if integer is None else dict(X[integer].dtypes))
    for name, kind in kinds.items():
        assert changed[name].dtype in (kind, np.float64)  # 31.5 is a float32, the next float64 after it is none
    assert changed["job"].dtype == X["job"].dtype
    assert (changed["job"] != X.loc[changed.index, "job"]).any()
    said = np.ravel(model.predict(changed))
    assert (said != found.prediction[found.stable == 0]).all()
    assert changed.equals(found[found.stable == 0].witnesses())
    assert changed.equals(Certificates.concat([found[:100], found[100:]]).witnesses())


def test_witnesses_of_arrays_are_arrays():
    found = certify(stumps((0, 0.5)), [[0.2], [0.45]], None, Attacker("linf", 0.1), witness=True)
    assert found.witnesses().tolist() == [[0.5000000000000001]] or found.witnesses().tolist() == [[0.5]]
    with pytest.raises(ValueError, match="witness=True"):
        certify(stumps((0, 0.5)), [[0.2]], None, Attacker("linf", 0.1)).witnesses()


def test_columns_go_by_name_and_witnesses_have_the_order_of_the_model():
    model = stumps((0, 0.5), (1, 5.0), feature_names=["a", "b"])
    frame = pd.DataFrame({"b": [5.0, 4.0], "a": [0.45, 0.1]}, index=[7, 9])
    found = certify(model, frame, None, Attacker("linf", 0.1), witness=True)
    assert found == certify(model, frame[["a", "b"]], None, Attacker("linf", 0.1), witness=True)
    if (found.stable == 0).any():
        assert list(found.witnesses().columns) == ["a", "b"]
    for other, words in (
        (frame.assign(id=1), "got 'id', which the model does not know"),
        (frame[["a"]], "got no 'b'"),
        (frame.rename(columns={"b": "c"}), "got no 'b' and 'c', which the model does not know"),
        (frame.set_axis(["a", "a"], axis=1), "got no 'b' and several called 'a'"),
    ):
        with pytest.raises(RowError, match=words):
            certify(model, other, None, Attacker("linf", 0.1))


def test_labels_of_other_rows_are_refused():
    X, y = people(60)
    model, y = xgboost_model(X, y)
    attacker = Attacker("linf", 1, only=["age"])
    expected = certify(model, X, y, attacker).verdict
    for other in (y.to_numpy(), y.tolist(), y[::-1].loc[X.index]):
        assert (certify(model, X, other, attacker).verdict == expected).all()
    for other in (y[::-1], y.reset_index(drop=True)):
        with pytest.raises(RowError, match="Expected labels with the index of the rows, got"):
            certify(model, X, other, attacker)


@pytest.mark.parametrize("pick", [lambda X: X.iloc[3], lambda X: X.iloc[3].to_dict(), lambda X: X.iloc[3][::-1]])
def test_a_row_is_explained_as_it_comes(pick):
    X, y = people()
    model, _ = xgboost_model(X, y)
    attacker = Attacker(1, 4, only=["age", "job"], categories={"job": 1})
    assert explain(model, pick(X), attacker).facts["changes"] == explain(model, X.iloc[[3]], attacker).facts["changes"]


def test_errors_about_rows_name_the_column():
    model = stumps((0, 0.5), (1, 5.0), feature_names=["a", "b"])
    with pytest.raises(RowError, match=r"got nan in row 1, feature 1 \('b'\)"):
        model.predict(pd.DataFrame({"a": [1.0, 1.0], "b": [1.0, np.nan]}))

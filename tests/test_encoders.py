"""Encoders in pipelines: folded into sets of values, unseen and missing ones as the pipeline treats them."""

import numpy as np
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.model_selection import FixedThresholdClassifier, GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import KBinsDiscretizer, OneHotEncoder, OrdinalEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier

from certiforest import Attacker, ModelError, TreeEnsemble, as_ensemble, certify
from certiforest.ensemble.rows import RowError
from certiforest.formats import folding
from small_models import differs, lgb, xgb

pd = pytest.importorskip("pandas")
WORDS = np.array(["oak", "ash", "elm", "fir", "yew", "box"])
SIZES = np.array([1.5, 2.0, 4.0, 11.0])


def table(n=700, seed=0, *, has_gaps=True):
    """A frame of a number, a text, a number that is a category, and a number that is one."""
    rng = np.random.default_rng(seed)
    code, size = rng.choice(6, n, p=[0.3, 0.25, 0.2, 0.15, 0.07, 0.03]), rng.integers(0, 4, n)
    frame = pd.DataFrame(
        {"a": rng.normal(size=n), "tree": WORDS[code].astype(object), "size": SIZES[size], "b": rng.normal(size=n) * 9}
    )
    y = (frame["a"] > 0) ^ np.isin(code, [1, 3]) ^ (size == 2) ^ (rng.random(n) < 0.05)
    if has_gaps:
        for name in frame:
            frame.loc[rng.random(n) < 0.15, name] = np.nan
    return frame, y.to_numpy().astype(int)


def forest():
    return RandomForestClassifier(8, max_depth=6, random_state=0)


def gradient():
    return GradientBoostingClassifier(n_estimators=8)


def histogram(**options):
    return HistGradientBoostingClassifier(max_iter=8, max_depth=4, **options)


def columns(text, size="passthrough", number="passthrough", **options):
    parts = [("n", number, ["a", "b"]), ("t", text, ["tree"]), ("s", size, ["size"])]
    return ColumnTransformer(parts, **options)


def filled():
    return make_pipeline(SimpleImputer(), StandardScaler())


ONE_HOT = {
    "ignored": lambda: OneHotEncoder(handle_unknown="ignore"),
    "dense": lambda: OneHotEncoder(handle_unknown="ignore", sparse_output=False),
    "first dropped": lambda: OneHotEncoder(drop="first", handle_unknown="ignore"),
    "one dropped": lambda: OneHotEncoder(drop="if_binary", handle_unknown="ignore"),
    "rare together": lambda: OneHotEncoder(min_frequency=0.1, handle_unknown="infrequent_if_exist"),
    "few": lambda: OneHotEncoder(max_categories=3, handle_unknown="infrequent_if_exist", sparse_output=False),
    "filled": lambda: make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder(handle_unknown="ignore")),
    "named missing": lambda: make_pipeline(
        SimpleImputer(strategy="constant", fill_value="none"), OneHotEncoder(handle_unknown="ignore")
    ),
    "scaled": lambda: make_pipeline(OneHotEncoder(handle_unknown="ignore"), StandardScaler(with_mean=False)),
    "ordinal": lambda: OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1, encoded_missing_value=-2),
}
EXACT = {
    f"{kind}, forest": (lambda make=make: make_pipeline(columns(make()), forest())) for kind, make in ONE_HOT.items()
}
EXACT |= {
    f"{kind}, lightgbm": (lambda make=make: make_pipeline(columns(make()), lgb())) for kind, make in ONE_HOT.items()
}
EXACT |= {
    "dense, xgboost": lambda: make_pipeline(columns(ONE_HOT["dense"](), sparse_threshold=0), xgb()),
    "few, xgboost": lambda: make_pipeline(columns(ONE_HOT["few"](), sparse_threshold=0), xgb()),
    "sparse, xgboost": lambda: make_pipeline(
        columns(ONE_HOT["ignored"](), ONE_HOT["ignored"](), sparse_threshold=1.0), xgb()
    ),
    "numbers encoded": lambda: make_pipeline(columns(ONE_HOT["ignored"](), ONE_HOT["ignored"](), filled()), gradient()),
    "numbers and histogram": lambda: make_pipeline(columns(ONE_HOT["dense"](), ONE_HOT["dense"]()), histogram()),
    "ordinal, sets": lambda: make_pipeline(columns(ONE_HOT["ordinal"]()), histogram(categorical_features=[2, 3])),
    "ordinal, missing": lambda: make_pipeline(
        columns(OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=np.nan)),
        histogram(categorical_features=[2]),
    ),
    "searched": lambda: GridSearchCV(
        make_pipeline(columns(ONE_HOT["ignored"](), "drop", filled()), lgb()),
        {"lgbmclassifier__num_leaves": [4, 8]},
        cv=2,
    ),
    "threshold": lambda: FixedThresholdClassifier(make_pipeline(columns(ONE_HOT["ignored"]()), lgb()), threshold=0.45),
}  # fmt: skip


def codes(ensemble, frame):
    """The rows that an ensemble takes in the place of a frame."""
    rows = ensemble.rows(frame)
    return np.vstack([rows[block] for block in rows.blocks()])


def unseen(frame, seed=3):
    """A frame in which some values were never seen."""
    rng, frame = np.random.default_rng(seed), frame.copy()
    frame.loc[rng.random(len(frame)) < 0.2, "tree"] = "pine"
    frame.loc[rng.random(len(frame)) < 0.2, "size"] = 3.25
    return frame


@pytest.mark.parametrize("kind", EXACT)
def test_encoders_are_folded_exactly(kind, tmp_path):
    frame, y = table()
    model = EXACT[kind]().fit(frame, y)
    ensemble = as_ensemble(model)
    assert as_ensemble(model) is ensemble
    assert 1 in ensemble.categorical
    for rows in (frame, table(seed=1)[0], unseen(frame)):
        assert not differs(ensemble, model, rows).any()
    ensemble.save(tmp_path / "m.json")
    assert TreeEnsemble.load(tmp_path / "m.json") == ensemble
    found = certify(ensemble, unseen(frame)[:150], None, Attacker(np.inf, 0.4), witness=True, time_limit=5)
    broken = np.flatnonzero(found.stable == 0)
    assert len(broken)
    moved = unseen(frame).iloc[broken].copy()
    assert np.array_equal(found.witness[broken, 1], codes(ensemble, moved)[:, 1], equal_nan=True)
    moved["a"], moved["b"] = found.witness[broken, 0], found.witness[broken, 3]
    if 2 not in ensemble.categorical:
        moved["size"] = found.witness[broken, 2]
    assert (model.predict(moved) != found.prediction[broken]).all()


def test_what_an_encoder_refuses_is_refused():
    frame, y = table(has_gaps=False)
    holed = frame.assign(a=frame["a"].where(frame["a"] > -1))
    model = make_pipeline(columns(OneHotEncoder(), OneHotEncoder(), filled()), gradient()).fit(holed, y)
    ensemble = as_ensemble(model)
    assert ensemble.required == (1, 2)
    assert (ensemble.predict(holed) == model.predict(holed)).all()
    for name, value, message in (
        ("tree", "pine", "'pine' in row 0, column 1"),
        ("size", 3.25, "3.25 in row 0, column 2"),
        ("tree", None, "no place for missing values there"),
        ("size", np.nan, "no place for missing values there"),
    ):
        other = holed.assign(**{name: pd.Series([value] * len(holed), dtype=object if name == "tree" else float)})
        with pytest.raises(ValueError, match=r"unknown categories|NaN|missing"):
            model.predict(other)
        with pytest.raises(RowError, match=message):
            ensemble.predict(other)
    with pytest.raises(RowError, match=r"got 6\.0 in row 0, column 1"):
        ensemble.predict([[0.0, 6.0, 2.0, 0.0]])


def test_encoders_of_arrays():
    frame, y = table()
    rows = np.nan_to_num(frame[["a", "size"]].to_numpy())
    model = make_pipeline(
        ColumnTransformer([("s", OneHotEncoder(handle_unknown="ignore"), [1])], remainder="passthrough"), forest()
    ).fit(rows, y)
    ensemble = as_ensemble(model)
    assert (ensemble.predict(rows) == model.predict(rows)).all()
    text = frame[["tree"]].fillna("none").to_numpy(object)
    model = make_pipeline(OneHotEncoder(), DecisionTreeClassifier()).fit(text, y)
    ensemble = as_ensemble(model)
    assert ensemble.missing_left is None
    assert (ensemble.predict(pd.DataFrame(text)) == model.predict(text)).all()


def test_sets_of_a_model_behind_steps():
    frame, y = table()
    model = make_pipeline(columns("drop", number=filled()), histogram(categorical_features=[2])).fit(frame, y)
    ensemble = as_ensemble(model)
    assert ensemble.categorical.tolist() == [2]
    for rows in (frame, unseen(frame)):
        rows = rows.assign(tree=0.0)
        assert (ensemble.predict(rows) == model.predict(rows)).all()


def test_columns_that_are_dropped_may_hold_anything():
    frame, y = table()
    frame.insert(1, "name", [f"row {i}" for i in range(len(frame))])
    for text in ("drop", OneHotEncoder(handle_unknown="ignore")):
        model = make_pipeline(columns(text), lgb()).fit(frame, y)
        ensemble = as_ensemble(model)
        assert (ensemble.predict(frame) == model.predict(frame)).all()
        other = frame.assign(name=None)
        assert (ensemble.predict(other) == model.predict(other)).all()
        other = frame.assign(name=7.5)
        assert (ensemble.predict(other) == model.predict(other)).all()


def test_sparse_zeros_are_missing_to_xgboost():
    frame, y = table()
    frame["b"] = frame["b"].where(np.random.default_rng(5).random(len(frame)) < 0.6, 0.0)
    model = make_pipeline(columns(ONE_HOT["ignored"](), sparse_threshold=1.0), xgb()).fit(frame, y)
    ensemble = as_ensemble(model)
    assert ensemble.blanks is not None
    assert not differs(ensemble, model, frame).any()
    steps = columns(ONE_HOT["ignored"](), number=SimpleImputer(strategy="median"), sparse_threshold=1.0)
    with pytest.raises(ModelError, match="sparse_threshold=0"):
        as_ensemble(make_pipeline(steps, xgb()).fit(frame, y))


def test_what_changes_in_an_encoder_is_seen():
    frame, y = table()
    model = make_pipeline(columns(OneHotEncoder(handle_unknown="ignore")), forest()).fit(frame, y)
    before = as_ensemble(model)
    model[0].named_transformers_["t"].categories_[0][0] = "pine"
    assert as_ensemble(model) != before


REFUSED = {
    "bins": (lambda: columns(OneHotEncoder(), number=KBinsDiscretizer()), "got KBinsDiscretizer"),
    "scaled before": (
        lambda: columns(OneHotEncoder(), make_pipeline(StandardScaler(), OneHotEncoder())),
        "nothing else has changed.*got OneHotEncoder",
    ),
    "many": (
        lambda: ColumnTransformer([("b", OneHotEncoder(), ["b"]), ("a", OneHotEncoder(), ["a"])]),
        "Expected fewer categories, got 700 in column 3",
    ),
    "both": (
        lambda: ColumnTransformer([("t", OneHotEncoder(), ["tree", "size"]), ("n", StandardScaler(), ["size", "a"])]),
        "column 2, which is both",
    ),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_encoders_that_cannot_be_folded(kind, monkeypatch):
    monkeypatch.setattr(folding, "MOST_CELLS", 2**16)
    frame, y = table(has_gaps=False)
    make, message = REFUSED[kind]
    with pytest.raises(ModelError, match=message) as caught:
        as_ensemble(make_pipeline(make(), forest()).fit(frame, y))
    assert "\n" not in str(caught.value)

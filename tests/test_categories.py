"""Splits on categories: sets of values, unseen and missing ones as the library treats them, frames as it saw them."""

import json

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier

from certiforest import Attacker, ModelError, TreeEnsemble, as_ensemble, certify
from certiforest.ensemble.categories import HASHES, hash_of, text_of
from certiforest.ensemble.rows import RowError
from certiforest.formats.agreement import threshold_rows
from small_models import catboost, lgb, xgb

pd = pytest.importorskip("pandas")
WORDS = np.array(["oak", "ash", "elm", "fir", "yew", "box", "bay", "fig"])


def table(n=900, seed=0):
    rng = np.random.default_rng(seed)
    numbers, code = rng.normal(size=(n, 2)), rng.integers(0, 8, n)
    y = (numbers[:, 0] > 0) ^ np.isin(code, [1, 3, 6]) ^ (rng.random(n) < 0.05)
    numbers[rng.random(numbers.shape) < 0.2] = np.nan
    frame = pd.DataFrame({"a": numbers[:, 0], "tree": pd.Categorical(WORDS[code]), "b": numbers[:, 1]})
    frame.loc[rng.random(n) < 0.1, "tree"] = None
    return frame, y.astype(int)


def codes(frame):
    code = frame["tree"].cat.codes.to_numpy().astype(float)
    return np.column_stack([frame["a"], np.where(code < 0, np.nan, code), frame["b"]])


MODELS = {
    "xgboost, sets": lambda: xgb(max_depth=4, enable_categorical=True, max_cat_to_onehot=1),
    "xgboost, one by one": lambda: xgb(max_depth=4, enable_categorical=True, max_cat_to_onehot=100),
    "lightgbm": lambda: lgb(num_leaves=12, min_child_samples=5, cat_smooth=1),
    "histogram boosting": lambda: HistGradientBoostingClassifier(max_iter=9, max_depth=4),
}


@pytest.mark.parametrize("kind", MODELS)
def test_categories_are_split_as_the_library_does(kind, tmp_path):
    frame, y = table()
    model = MODELS[kind]().fit(frame, y)
    ensemble = as_ensemble(model)
    assert ensemble.categorical.tolist() == [1]
    assert (ensemble.predict(frame) == model.predict(frame)).all()
    assert (ensemble.predict(codes(frame)) == model.predict(frame)).all()
    other = table(seed=1)[0]
    other["tree"] = other["tree"].cat.set_categories([*WORDS[::-1]])  # another order, other codes
    assert (ensemble.predict(other) == model.predict(other)).all()
    assert (ensemble.predict(other.astype({"tree": object})) == model.predict(other)).all()
    if kind in ("lightgbm", "histogram boosting"):  # what was not seen is missing to them
        other["tree"] = pd.Categorical(["pine"] * len(other))
        assert (ensemble.predict(other) == model.predict(other)).all()
    else:
        with pytest.raises(RowError, match="'pine' in row 0, column 1"):
            ensemble.predict(other.assign(tree=pd.Categorical(["pine"] * len(other))))
        unseen = codes(frame)
        unseen[:, 1] = 11
        assert (ensemble.predict(unseen) == model.predict(unseen)).all()
    ensemble.save(tmp_path / "m.json")
    assert TreeEnsemble.load(tmp_path / "m.json") == ensemble
    with pytest.raises(RowError, match=r"code of a category, a whole number, got 2\.5"):
        ensemble.predict([[0.0, 2.5, 0.0]])


@pytest.mark.parametrize("kind", MODELS)
def test_categories_stay_as_they_are(kind):
    frame, y = table()
    model = MODELS[kind]().fit(frame, y)
    ensemble, rows = as_ensemble(model), codes(frame)[:150]
    c = certify(ensemble, frame[:150], y[:150], Attacker(np.inf, 0.1), witness=True, radius=True, time_limit=5)
    assert set(c.stable.tolist()) == {0, 1}
    broken = np.flatnonzero(c.stable == 0)
    assert np.array_equal(c.witness[broken, 1], rows[broken, 1], equal_nan=True)
    assert (np.isnan(c.witness[broken]) == np.isnan(rows[broken])).all()
    moved = frame.iloc[broken].copy()
    moved["a"], moved["b"] = c.witness[broken, 0], c.witness[broken, 2]
    assert (model.predict(moved) != c.prediction[broken]).all()
    rng = np.random.default_rng(0)
    for i in np.flatnonzero(c.stable == 1)[:12]:
        moved = pd.concat([frame.iloc[[i]]] * 200)
        for name in "ab":
            moved[name] += rng.uniform(-0.1, 0.1, 200)
        assert (model.predict(moved) == c.prediction[i]).all()


def test_categories_that_are_numbers():
    frame, y = table()
    rows = codes(frame)
    rows[:, 1] = 10 * rows[:, 1] + 3
    model = HistGradientBoostingClassifier(max_iter=9, max_depth=4, categorical_features=[1]).fit(rows, y)
    ensemble = as_ensemble(model)
    beside = threshold_rows(ensemble, 3_000, seed=4)
    for X in (rows, beside):
        assert (ensemble.predict(X) == model.predict(X)).all()
    X = rows.copy()
    X[:, 1] = 4
    assert (ensemble.predict(X) == model.predict(X)).all()


def test_files_of_categories_are_read(tmp_path):
    frame, y = table()
    for kind in ("xgboost, sets", "lightgbm"):
        model = MODELS[kind]().fit(frame, y)
        path = tmp_path / ("model.json" if "xgb" in kind else "model.txt")
        (model.get_booster() if "xgb" in kind else model.booster_).save_model(str(path))
        assert as_ensemble(path) == as_ensemble(model)


def test_groups_of_categories_are_refused():
    frame, y = table()
    ensemble = as_ensemble(MODELS["histogram boosting"]().fit(frame, y))
    with pytest.raises(ValueError, match="of categories of the model"):
        certify(ensemble, codes(frame)[:3], None, Attacker(np.inf, 0.1, groups=[[1, 2]]))


def test_text_for_a_model_of_numbers_is_refused():
    frame, y = table()
    model = HistGradientBoostingClassifier(max_iter=2).fit(frame[["a", "b"]], y)
    with pytest.raises(RowError, match="Expected numbers, got the column 'b'"):
        as_ensemble(model).predict(frame[["a", "tree"]].rename(columns={"tree": "b"}))


def catboost_table(seed=0):
    frame, y = table(seed=seed)
    frame["tree"] = frame["tree"].astype(object).fillna("none").astype(object)
    return frame.assign(year=np.random.default_rng(seed).integers(1990, 1995, len(frame))), y


@pytest.mark.parametrize("policy", ["SymmetricTree", "Lossguide", "Depthwise"])
def test_catboost_splits_on_hashes(policy, tmp_path):
    frame, y = catboost_table()
    model = catboost(depth=4, one_hot_max_size=60, grow_policy=policy, cat_features=[1, 3]).fit(
        frame, y ^ (frame["year"] > 1992)
    )
    ensemble = as_ensemble(model)
    assert ensemble.categorical.tolist() == [1, 3]
    other = catboost_table(seed=1)[0]
    rng = np.random.default_rng(2)
    other.loc[rng.random(len(other)) < 0.2, "tree"] = "a tree that nobody has seen, with a name longer than 32 letters"
    other.loc[rng.random(len(other)) < 0.2, "year"] = 2001
    for rows in (frame, other):
        assert (ensemble.predict(rows) == model.predict(rows)).all()
        texts = rows.assign(year=rows["year"].astype(str))
        assert (ensemble.predict(texts) == model.predict(rows)).all()
    model.save_model(str(tmp_path / "model.json"), format="json")
    assert as_ensemble(tmp_path / "model.json") == ensemble
    ensemble.save(tmp_path / "own.json")
    assert TreeEnsemble.load(tmp_path / "own.json") == ensemble
    c = certify(ensemble, other[:150], None, Attacker(np.inf, 0.2), witness=True, time_limit=5)
    broken = np.flatnonzero(c.stable == 0)
    assert len(broken)
    moved = other.iloc[broken].assign(a=c.witness[broken, 0], b=c.witness[broken, 2])
    assert (model.predict(moved) != c.prediction[broken]).all()
    for rows, message in (
        (frame.assign(tree=None), "no place for missing values there"),
        (frame.assign(year=1991.0), "got 1991.0 in row 0, column 3"),
        (np.ones((1, 4)), "got 1.0 in row 0, column 1"),
    ):
        with pytest.raises(RowError, match=message):
            ensemble.predict(rows)


def test_catboost_statistics_are_refused():
    frame, y = catboost_table()
    model = catboost(cat_features=[1, 3], one_hot_max_size=2)
    with pytest.raises(ModelError, match=r"statistics of the target \(CTR\).*one_hot_max_size of at least"):
        as_ensemble(model.fit(frame, y))


def test_hashes_are_those_of_catboost(tmp_path):
    """Of texts of every length, in any script; a text is found for every hash."""
    rng = np.random.default_rng(0)
    texts = ["".join(rng.choice([*"abc XYZ09äüß語"], size)) for size in [*range(1, 70, 3), 70, 100, 128, 129, 200]]
    frame = pd.DataFrame({"text": np.tile(texts, 9)})
    model = catboost(depth=4, one_hot_max_size=60, iterations=200, cat_features=[0])
    model.fit(frame, np.tile(np.arange(len(texts)) % 2, 9)).save_model(str(tmp_path / "model.json"), format="json")
    document = json.loads((tmp_path / "model.json").read_text())
    found = {HASHES + value % 2**32 for value in document["features_info"]["categorical_features"][0]["values"]}
    assert len(found) > 20
    assert found <= {hash_of(text) for text in texts}
    assert {hash_of(text_of(number)) for number in found} == found
    assert hash_of("") == HASHES + (0x9AE16A3B2F90404F & (2**32 - 1))


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("library", ["polars", "pyarrow"])
def test_categories_of_other_frames(kind, library):
    frames = pytest.importorskip(library)
    frame, y = table()
    model = MODELS[kind]().fit(frame, y)
    ensemble, expected = as_ensemble(model), model.predict(frame)
    if library == "pyarrow":
        given = [frames.Table.from_pandas(frame, preserve_index=False)]
        assert frames.types.is_dictionary(given[0].schema.field("tree").type)
        given.append(frames.Table.from_pandas(frame.astype({"tree": object}), preserve_index=False))
    else:
        text = frame.astype({"tree": object}).to_dict("list")
        text["tree"] = [word if isinstance(word, str) else None for word in text["tree"]]
        kinds = [frames.String, frames.Categorical, frames.Enum([*WORDS[::-1]])]
        given = [frames.DataFrame(text).with_columns(frames.col("tree").cast(to)) for to in kinds]
    for other in given:
        assert (ensemble.predict(other) == expected).all()


def test_frames_of_categories_that_are_numbers():
    frame, y = table()
    frame["tree"] = pd.Categorical(frame["tree"].cat.codes.where(frame["tree"].notna()) * 10 + 3)
    model = HistGradientBoostingClassifier(max_iter=9, max_depth=4).fit(frame, y)
    ensemble = as_ensemble(model)
    assert ensemble.categorical.tolist() == [1]
    other = frame.assign(tree=pd.Categorical([4.5] * len(frame)))
    for rows in (frame, other):
        assert (ensemble.predict(rows) == model.predict(rows)).all()
        numbers = rows.assign(tree=rows["tree"].astype(float))
        assert (ensemble.predict(numbers) == model.predict(rows)).all()
    with pytest.raises(RowError, match="'pine' in row 0, column 1"):
        ensemble.predict(frame.assign(tree=pd.Categorical(["pine"] * len(frame))))

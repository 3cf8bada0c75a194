"""Text columns of CSV and Parquet files for models that have categories: read, certified, and written back as text."""

import csv
import json

import numpy as np
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from certiforest import as_ensemble
from certiforest.data.sources import Source
from small_models import catboost, lgb

pd = pytest.importorskip("pandas")
WORDS = np.array(["oak", "ash", "elm, dry", "fir"])


def table(n=300, seed=0):
    rng = np.random.default_rng(seed)
    code, year = rng.integers(0, 4, n), rng.integers(1990, 1993, n)
    frame = pd.DataFrame({"a": rng.normal(size=n), "tree": WORDS[code].astype(object), "year": year})
    y = (frame["a"] > 0) ^ np.isin(code, [1, 2]) ^ (year == 1991)
    frame.loc[rng.random(n) < 0.15, "a"] = np.nan
    frame.loc[rng.random(n) < 0.15, "tree"] = np.nan
    return frame, y.to_numpy().astype(int)


def encoded(**options):
    steps = [("t", OneHotEncoder(sparse_output=False, **options), ["tree"])]
    return make_pipeline(
        ColumnTransformer(steps, remainder="passthrough"), HistGradientBoostingClassifier(max_iter=9, max_depth=4)
    )


def made(kind, tmp_path):
    """A model file, what predicts a frame, and a frame with unseen text."""
    frame, y = table()
    if kind == "lightgbm":
        frame = frame.astype({"tree": "category"})
    if kind == "catboost":
        frame["tree"] = frame["tree"].fillna("none")
    models = {
        "encoder": lambda: encoded(handle_unknown="ignore"),
        "lightgbm": lambda: lgb(num_leaves=12, min_child_samples=5, cat_smooth=1),
        "catboost": lambda: catboost(depth=4, cat_features=[1, 2], one_hot_max_size=9),
    }
    model = models[kind]()
    model.fit(frame, y)
    as_ensemble(model).save(tmp_path / "m.json")
    other = table(seed=1)[0]
    if kind == "catboost":
        other["tree"] = other["tree"].fillna("none")
    other.loc[::7, "tree"] = "pine"
    return tmp_path / "m.json", model, other


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@pytest.mark.parametrize("kind", ["encoder", "lightgbm", "catboost"])
def test_text_is_read_and_written_back(run, kind, suffix, tmp_path):
    path, model, frame = made(kind, tmp_path)
    data, out = tmp_path / f"rows{suffix}", tmp_path / f"out{suffix}"
    turned = frame[["year", "tree", "a"]]  # the columns of the model in another order
    turned.to_csv(data, index=False) if suffix == ".csv" else turned.to_parquet(data)
    code, _, error = run("certify", path, data, "--eps", 0.3, "--witness", "--out", out)
    assert code == 0, error
    found = pd.read_csv(out, float_precision="round_trip") if suffix == ".csv" else pd.read_parquet(out)
    given = frame.astype({"tree": "category"}) if kind == "lightgbm" else frame
    assert (found["prediction"] == model.predict(given)).all()
    broken = found[found["stable"] == 0]
    assert len(broken) > 3
    moved = broken.rename(columns=lambda name: name.removeprefix("witness_"))[["a", "tree", "year"]]
    moved["tree"] = moved["tree"].replace("", np.nan)
    was = frame["tree"].loc[broken.index]
    assert ((moved["tree"] == was) | (moved["tree"].isna() & was.isna())).all()
    if kind == "catboost":
        assert (moved["year"].astype(int) == frame["year"].loc[broken.index]).all()
        moved["year"] = moved["year"].astype(int)
    if kind == "lightgbm":
        moved["tree"] = moved["tree"].astype("category")
    assert (model.predict(moved) != broken["prediction"]).all()
    assert {"pine"} <= set(broken["witness_tree"])


def test_rows_of_a_source_are_those_of_the_frame(tmp_path):
    path, model, frame = made("encoder", tmp_path)
    frame.to_csv(tmp_path / "rows.csv", index=False)
    ensemble = as_ensemble(path)
    rows = Source(str(tmp_path / "rows.csv")).load(ensemble, None)
    assert (ensemble.predict(rows.X) == model.predict(frame)).all()
    assert rows.texts[1][0] == "pine"
    assert rows.take(slice(1, 2)).texts[1].tolist() == [frame["tree"][1]]
    for block in Source(str(tmp_path / "rows.csv")).stream(ensemble, None).blocks:
        assert np.array_equal(block.read(0, 0).X, rows.X, equal_nan=True)


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ("pine", "Expected one of the 4 categories that the model knows, got 'pine' in line 2, column 'tree'"),
        ("3", "Expected one of the 4 categories, written as text, that the model knows, got '3'"),
        ("", "Expected a category, got a missing value in line 2, column 'tree'"),
    ],
)
def test_text_that_is_refused(refuse, cell, message, tmp_path):
    frame, y = table()
    frame = frame.fillna({"a": 0.0, "tree": "oak"})
    steps = ColumnTransformer([("t", OneHotEncoder(), ["tree"])], remainder="passthrough")
    model = make_pipeline(steps, GradientBoostingClassifier(n_estimators=5)).fit(frame, y)
    as_ensemble(model).save(tmp_path / "m.json")
    with open(tmp_path / "rows.csv", "w", newline="") as file:
        csv.writer(file).writerows([["a", "tree", "year"], [0.5, cell, 1991]])
    assert message in refuse("certify", tmp_path / "m.json", tmp_path / "rows.csv", "--eps", 0.1)


@pytest.mark.parametrize("kind", ["encoder", "catboost"])
def test_proofs_of_rows_with_text_are_audited(run, kind, tmp_path):
    path, _, frame = made(kind, tmp_path)
    frame[:60].to_csv(tmp_path / "rows.csv", index=False)
    code, _, error = run("certify", path, tmp_path / "rows.csv", "--eps", 0.2, "--proof", tmp_path / "proof.json")
    assert code == 0, error
    code, _, error = run("audit", path, tmp_path / "proof.json")
    assert code == 0, error


def test_columns_that_a_pipeline_drops(run, tmp_path):
    frame, y = table()
    frame["name"] = [f"row {i}" for i in range(len(frame))]
    steps = ColumnTransformer([("t", OneHotEncoder(sparse_output=False), ["tree"]), ("a", "passthrough", ["a"])])
    model = make_pipeline(steps, HistGradientBoostingClassifier(max_iter=5)).fit(frame, y)
    as_ensemble(model).save(tmp_path / "m.json")
    frame.to_csv(tmp_path / "rows.csv", index=False)
    out = tmp_path / "out.csv"
    code, _, error = run("certify", tmp_path / "m.json", tmp_path / "rows.csv", "--eps", 0.3, "--witness", "--out", out)
    assert code == 0, error
    found = pd.read_csv(out)
    assert (found["prediction"] == model.predict(frame)).all()
    broken = found["stable"] == 0
    assert (found["witness_name"][broken] == frame["name"][broken]).all()


def test_units_are_read_from_a_table_with_text(run, tmp_path):
    path, _, frame = made("encoder", tmp_path)
    frame.to_csv(tmp_path / "rows.csv", index=False)
    words = ("certify", path, tmp_path / "rows.csv", "--eps", 0.1, "--scale-from", tmp_path / "rows.csv", "--json")
    code, out, error = run(*words)
    assert code == 0, error
    assert json.loads(out)["attacker"]["scale"][0] == frame["a"].max() - frame["a"].min()

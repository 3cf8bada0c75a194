"""Rows with missing values: predicted as the library does, certified, attacked, proved, audited, saved."""

import io
import json

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.ensemble import (
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.tree import DecisionTreeClassifier

import aside_referee
from certiforest import Attacker, Certificates, TreeEnsemble, as_ensemble, audit, certify, save_onnx
from certiforest.cli import main
from certiforest.ensemble.rows import RowError
from certiforest.formats.agreement import threshold_rows
from small_models import audited, catboost, differs, lgb, stumps, xgb


def holed(data, share=0.3):
    X, y = data(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    X[np.random.default_rng(0).random(X.shape) < share] = np.nan
    return X, y


TWO, MANY = holed(load_breast_cancer), holed(load_iris)


MODELS = {
    "tree": lambda: DecisionTreeClassifier(max_depth=4, random_state=0),
    "forest": lambda: RandomForestClassifier(15, max_depth=4, random_state=0),
    "extra trees": lambda: ExtraTreesClassifier(15, max_depth=4, random_state=0),
    "histogram boosting": lambda: HistGradientBoostingClassifier(max_iter=12, max_depth=3),
    "xgboost": xgb,
    "xgboost dart": lambda: xgb(booster="dart"),
    "lightgbm": lgb,
    "lightgbm, NaN as zero": lambda: lgb(use_missing=False),
    "catboost": catboost,
    "catboost above": lambda: catboost(nan_mode="Max"),
    "catboost grown by depth": lambda: catboost(grow_policy="Depthwise"),
}


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("data", [TWO, MANY], ids=["two classes", "three classes"])
def test_missing_values_go_where_the_library_sends_them(kind, data):
    X, y = data
    model = MODELS[kind]().fit(X, y)
    ensemble = as_ensemble(model)
    assert (ensemble.predict(X) == np.ravel(model.predict(X))).all()
    rows = threshold_rows(ensemble, 3_000, seed=3)
    assert 0.02 < np.isnan(rows[:, np.unique(ensemble.feature[ensemble.feature >= 0])]).mean() < 0.6
    dtype = np.float32 if "xgboost" in kind else np.float64
    assert not differs(ensemble, model, rows, dtype, slack=2.0**-21).any()


@pytest.mark.parametrize("kind", MODELS)
def test_models_trained_on_numbers_take_missing_values_as_the_library_does(kind):
    X, y = load_breast_cancer(return_X_y=True)
    model = MODELS[kind]().fit(X, y)
    X[np.random.default_rng(1).random(X.shape) < 0.3] = np.nan
    assert (as_ensemble(model).predict(X) == np.ravel(model.predict(X))).all()


@pytest.mark.parametrize("kind", ["forest", "histogram boosting", "xgboost", "lightgbm", "catboost above"])
@pytest.mark.parametrize("norm", [np.inf, 2, 0])
def test_rows_with_missing_values_are_certified(kind, norm, tmp_path):
    """Witnesses flip the library's own prediction and miss what the row does; samples do not flip stable rows."""
    X, y = TWO
    model = MODELS[kind]().fit(X, y)
    ensemble, rng = as_ensemble(model), np.random.default_rng(2)
    attacker, n = Attacker(norm, 1 if norm == 0 else 0.2), 60
    c = certify(ensemble, X[:n], y[:n], attacker, witness=True, radius=True, proof=True, time_limit=10)
    assert (c.prediction == np.ravel(model.predict(X[:n]))).all()
    assert set(c.stable.tolist()) == {0, 1}
    broken = np.flatnonzero(c.stable == 0)
    assert (np.isnan(c.witness[broken]) == np.isnan(X[broken])).all()
    assert (np.ravel(model.predict(c.witness[broken])) != c.prediction[broken]).all()
    for i in np.flatnonzero(c.stable == 1)[:15]:
        z = np.repeat(X[i][None], 300, axis=0)
        if norm == 0:
            z[np.arange(300), rng.integers(X.shape[1], size=300)] = rng.uniform(-3, 3, 300)
            z[:, np.isnan(X[i])] = np.nan
        else:
            step = rng.uniform(-1, 1, z.shape)
            z += 0.2 * (step if norm == np.inf else step / np.linalg.norm(step, axis=1, keepdims=True))
        assert (np.ravel(model.predict(z)) == c.prediction[i]).all()
    found = audited(ensemble, c, tmp_path)
    assert TreeEnsemble.load(tmp_path / "m.json") == ensemble
    assert np.array_equal(Certificates.load(tmp_path / "c.jsonl").rows, X[:n], equal_nan=True)
    assert found.doubts == []
    assert found.counts["stable"] + found.counts["unstable"] == n


ZEROS = {
    "xgboost": lambda: xgb(missing=0.0),
    "xgboost, another number": lambda: xgb(missing=0.1),
    "lightgbm": lambda: lgb(zero_as_missing=True),
}


@pytest.mark.parametrize("kind", ZEROS)
def test_numbers_that_count_as_missing(kind, tmp_path):
    """Nobody moves a value onto such a number or off it, and witnesses do not end up there."""
    rng = np.random.default_rng(3)
    blank = 0.1 if "another" in kind else 0.0
    X = rng.normal(scale=0.3, size=(900, 4))
    X[rng.random(X.shape) < 0.3] = blank
    y = (X[:, 0] > 0) ^ (X[:, 1] == blank) ^ (rng.random(900) < 0.1)
    model = ZEROS[kind]().fit(X, y.astype(int))
    ensemble = as_ensemble(model)
    X[::5, 2] = np.nan
    tiny = [blank, np.nextafter(blank, 1), blank + 5e-46, blank + 1e-44, blank - 1e-36, blank + 1.1e-35, -1e-30, 1e-9]
    X[: 8 * len(tiny), 0] = np.repeat(tiny, 8)
    assert (ensemble.predict(X) == model.predict(X)).all()
    c = certify(ensemble, X[:200], None, Attacker(np.inf, 0.15), witness=True, radius=True, proof=True)
    broken = np.flatnonzero(c.stable == 0)
    assert len(broken) > 20
    assert (model.predict(c.witness[broken]) != c.prediction[broken]).all()
    assert (np.isnan(c.witness[broken]) == np.isnan(ensemble.rows(X)[broken[0] : broken[0] + 1][0]))[0].all()
    assert audited(ensemble, c, tmp_path).counts["refuted"] == 0
    assert TreeEnsemble.load(tmp_path / "m.json") == ensemble


def test_a_category_that_counts_as_missing():
    """Rows that ask the library about it are whole, as categories are."""
    rng = np.random.default_rng(4)
    X = np.column_stack([rng.integers(6, size=300), rng.normal(size=300)]).astype(float)
    y = (X[:, 0] % 2 == 1) ^ (X[:, 1] > 0.5)
    options = {"feature_types": ["c", "q"], "enable_categorical": True, "max_cat_to_onehot": 1}
    model = xgb(missing=2.0, **options).fit(X, y.astype(int))
    ensemble = as_ensemble(model)
    assert (ensemble.predict(X) == model.predict(X)).all()
    c = certify(ensemble, X[:60], None, Attacker(0, 1, categories={0: 1}), witness=True)
    assert (model.predict(c.witness[c.stable == 0]) != c.prediction[c.stable == 0]).all()
    assert not (c.witness[:, 0] == 2).any()


def test_thresholds_at_a_number_that_counts_as_missing():
    """From below, the other side begins above it; from above, below it."""
    stump = stumps((0, 0.0), missing_left=[0, 0, 0], blanks={0: (-0.5, 0.5)})
    rows = [[-0.75], [-0.5], [0.5], [0.75], [np.nan]]
    assert stump.predict(rows).tolist() == [0, 1, 1, 1, 1]
    c = certify(stump, rows, None, Attacker(np.inf, 2), witness=True, radius=True)
    assert c.stable.tolist() == [0, 1, 1, 0, 1]
    assert c.witness[0] == np.nextafter(0.5, 1)
    assert c.witness[3] == np.nextafter(-0.5, -1)
    assert c.radius.tolist() == [np.nextafter(1.25, 2), np.inf, np.inf, np.nextafter(1.25, 2), np.inf]


@pytest.mark.parametrize(
    ("blank", "more"),
    [
        ((0.4, 0.6), {"integer": [1]}),  # the next whole number of one column is not that of the other
        ((0.4, 0.6), {"domain": (0, 0.6)}),
        ((0.5, np.finfo(float).max), {"norm": 0, "eps": 1}),
    ],
    ids=["another column is whole", "the domain ends among them", "no number is above"],
)
def test_nobody_goes_where_numbers_count_as_missing(blank, more):
    ensemble = TreeEnsemble(
        [0, -1, 1, -1, -1], [0.5, 0, 0, 0, 0], [-1, 0, -1, 1, 1], n_features=2, classes=[0, 1],
        missing_left=[1, 0, 1, 0, 0], blanks={0: blank},
    )  # fmt: skip
    attacker = Attacker(**{"norm": np.inf, "eps": 0.1, **more})
    c = certify(ensemble, [[0.35, 0.0]], None, attacker, radius=True)
    assert c.stable.tolist() == [1]
    assert c.radius[0] == (pytest.approx(0.25) if "integer" in more else np.inf)


def test_certificates_of_the_command_line_know_which_numbers_count_as_missing(tmp_path, run):
    stump = stumps((0, 0.5), missing_left=[1, 0, 0], blanks={0: (0, 0)})
    stump.save(tmp_path / "model.json")
    (tmp_path / "rows.csv").write_text("a\n0\n0.3\n2\n")
    files = tmp_path / "model.json", tmp_path / "rows.csv", tmp_path / "rows.cert"
    assert run("certify", *files[:2], "--eps", 0.3, "--proof", files[2])[0] == 0
    assert run("audit", files[0], files[2])[0] == 0


def test_witnesses_that_fill_or_blank_are_refused(tmp_path):
    X, y = TWO
    ensemble = as_ensemble(MODELS["histogram boosting"]().fit(X, y))
    c = certify(ensemble, X[:40], None, Attacker(np.inf, 0.3), proof=True)
    ensemble.save(tmp_path / "model.json")
    c.save(tmp_path / "rows.jsonl")
    header, *lines, _ = (tmp_path / "rows.jsonl").read_text().splitlines()
    line = next(json.loads(line) for line in lines if "witness" in line)
    hole, number = line["row"].index(None), next(f for f, x in enumerate(line["row"]) if x is not None)
    for f, value in ((hole, 0.0), (number, None)):
        line["witness"][f], kept = value, line["witness"][f]
        content = "\n".join([header, json.dumps(line), '{"end": 1}']).encode()
        found = audit.audit(io.BytesIO((tmp_path / "model.json").read_bytes()), io.BytesIO(content))
        assert "a witness within the attacker's reach" in found.doubts[0]
        line["witness"][f] = kept


@pytest.mark.parametrize("combine", ["vote", "sum"])
def test_cases_against_the_oracle(combine):
    assert aside_referee.run(600, 5, combine).total() == 600


def test_splits_between_numbers_and_missing_values():
    """A branch that is dead for numbers is alive for what is missing, and stays out of the attacker's reach."""
    # x <= 5 (missing right), right of it x <= 3 (missing left): only what is missing gets to the leaf of class 1.
    trees = TreeEnsemble(
        [0, -1, 0, -1, -1], [5, 0, 3, 0, 0], [-1, 0, -1, 1, 0],
        n_features=1, classes=[0, 1], missing_left=[False, False, True, False, False],
    )  # fmt: skip
    assert np.array_equal(trees.threshold, [5, 0, np.nan, 0, 0], equal_nan=True)
    assert trees.predict([[4.0], [6.0], [np.nan]]).tolist() == [0, 0, 1]
    c = certify(trees, [[4.0], [6.0], [np.nan]], None, Attacker(np.inf, 10), radius=True)
    assert c.stable.tolist() == [1, 1, 1]
    assert (c.radius == np.inf).all()
    assert trees.of_numbers.predict([[4.0], [6.0]]).tolist() == [0, 0]
    swapped = TreeEnsemble(
        [0, 0, -1, -1, -1], [5, 7, 0, 0, 0], [-1, -1, 0, 1, 0],
        n_features=1, classes=[0, 1], missing_left=[True, False, False, False, False],
    )  # fmt: skip
    assert swapped.predict([[4.0], [6.0], [np.nan]]).tolist() == [0, 0, 1]


def test_models_without_a_place_refuse_missing_values():
    X, y = load_breast_cancer(return_X_y=True)
    model = GradientBoostingClassifier(n_estimators=3).fit(X, y)
    X[3, 4] = np.nan
    with pytest.raises(RowError, match="nan in row 3, feature 4: this model has no place for missing values"):
        certify(model, X, y, Attacker(np.inf, 0.1))
    takes = as_ensemble(HistGradientBoostingClassifier(max_iter=2).fit(X, y))
    X[3, 4] = np.inf
    with pytest.raises(RowError, match="got inf in row 3"):
        takes.predict(X)


def test_frames_with_missing_values():
    pd, pl, pa = (pytest.importorskip(name) for name in ("pandas", "polars", "pyarrow"))
    X, y = MANY
    model = HistGradientBoostingClassifier(max_iter=5, min_samples_leaf=5).fit(X, y)
    ensemble, expected = as_ensemble(model), model.predict(X)
    columns = [[None if np.isnan(v) else v for v in column] for column in X.T.tolist()]
    names = [f"c{f}" for f in range(len(columns))]
    whole = [None if v is None else round(v) for v in columns[0]]
    by_name = dict(zip(names, columns, strict=True))
    for frame in (pd.DataFrame(X), pd.DataFrame(X).convert_dtypes(), pl.DataFrame(by_name), pa.table(by_name)):
        assert (ensemble.predict(frame) == expected).all()
    X = X.copy()
    X[:, 0] = np.round(X[:, 0])
    mixed = dict(zip(names, [whole, *columns[1:]], strict=True))
    for frame in (pd.DataFrame(mixed).astype({"c0": "Int64"}), pl.DataFrame(mixed), pa.table(mixed)):
        assert (ensemble.predict(frame) == model.predict(X)).all()
    whole[whole.index(0)] = 2**53 + 1
    for frame in (pd.DataFrame(mixed | {"c0": pd.array(whole, "Int64")}), pl.DataFrame(mixed), pa.table(mixed)):
        with pytest.raises(RowError, match="beyond 2"):
            ensemble.predict(frame)
    with pytest.raises(RowError, match="'a'"):
        ensemble.predict(pd.DataFrame({name: pd.Series(["a", None], dtype=object) for name in names}))


def test_onnx_files_take_missing_values(tmp_path):
    pytest.importorskip("onnxruntime")
    X, _ = TWO
    y = np.isnan(X[:, 0])  # so that splits part what is missing from numbers
    ensemble = as_ensemble(MODELS["histogram boosting"]().fit(X, y))
    assert np.isnan(ensemble.threshold).any()
    save_onnx(ensemble, tmp_path / "model.onnx")  # proved with missing values before the file appears
    assert (tmp_path / "model.onnx").exists()


def test_empty_cells_of_csv_files(tmp_path, capsys):
    X, y = MANY
    as_ensemble(HistGradientBoostingClassifier(max_iter=4, min_samples_leaf=5).fit(X, y)).save(tmp_path / "model.json")
    rows = [["" if np.isnan(v) else repr(v) for v in row] for row in X.tolist()]
    lines = [",".join([*row, str(label)]) for row, label in zip(rows, y, strict=True)]
    lines[3] = "NA" + lines[3][lines[3].index(",") :]
    (tmp_path / "rows.csv").write_text("\n".join(["a,b,c,d,y", *lines]) + "\n")
    command = ["certify", str(tmp_path / "model.json"), str(tmp_path / "rows.csv"), "--target", "y", "--eps", "0.01"]
    assert main([*command, "--out", str(tmp_path / "out.csv")]) == 0
    assert len((tmp_path / "out.csv").read_text().splitlines()) == len(X) + 1
    as_ensemble(GradientBoostingClassifier(n_estimators=2).fit(np.nan_to_num(X), y)).save(tmp_path / "model.json")
    assert main(command) == 2
    assert "missing value" in capsys.readouterr().err

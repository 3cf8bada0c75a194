"""Certifier: the same findings however rows are cut, in whatever kind of table, here or in another process."""

import pickle
from copy import copy

import numpy as np
import pandas
import polars
import pyarrow
import pyarrow.dataset
import pyarrow.parquet
import pytest
from sklearn.ensemble import RandomForestClassifier

import certiforest
from certiforest import Attacker, Certifier, RowError, TreeEnsemble, as_ensemble, certify
from certiforest.compiled import in_python
from certiforest.ensemble import blocks
from certiforest.problem.verifier import Verifier
from certiforest.proof import search_kernels
from certiforest.rows import decider

ATTACKER = Attacker("linf", 0.05)


@pytest.fixture(scope="module")
def case():
    rng = np.random.default_rng(5)
    X = rng.random((40, 4))
    y = (X[:, 0] + X[:, 1] * X[:, 2] > 0.7) + 2 * (X[:, 3] > 0.8)
    forest = RandomForestClassifier(n_estimators=7, max_depth=4, random_state=0).fit(X, y)
    return as_ensemble(forest), rng.random((40, 4)), rng.permutation(y)


def test_it_says_what_certify_says(case):
    ensemble, X, y = case
    found = certify(ensemble, X, y, ATTACKER, radius=True, witness=True)
    frame = Certifier(ensemble, ATTACKER, radius=True, witness=True)(X, y)
    pandas.testing.assert_frame_equal(frame, found.to_frame())
    assert list(frame)[:7] == ["prediction", "stable", "method", "verdict", "radius", "radius_is_exact", "radius_upper"]
    assert list(frame)[7:] == [f"witness_feature_{i}" for i in range(4)]
    assert frame["verdict"].tolist() == [verdict.name for verdict in found.verdict]
    assert np.array_equal(frame.iloc[:, 7:].to_numpy(), found.witness, equal_nan=True)


@pytest.mark.parametrize("size", [1, 7, 40])
def test_every_cut_gives_the_same(case, size):
    ensemble, X, y = case
    certifier = Certifier(ensemble, ATTACKER, radius=True, witness=True)
    whole = certifier(X, y)
    parts = [certifier(X[start : start + size], y[start : start + size]) for start in range(0, len(X), size)]
    pandas.testing.assert_frame_equal(pandas.concat(parts, ignore_index=True), whole)
    assert certifier(X[:0], y[:0]).dtypes.equals(whole.dtypes)


def test_the_index_of_the_rows_is_kept(case):
    ensemble, X, y = case
    names = [f"row {i}" for i in range(len(X))]
    frame = Certifier(ensemble, ATTACKER)(pandas.DataFrame(X, index=names), pandas.Series(y, index=names))
    assert frame.index.tolist() == names
    assert certify(ensemble, X, y, ATTACKER) == certify(ensemble, pandas.DataFrame(X, index=names), y, ATTACKER)


@pytest.mark.parametrize(
    "make",
    [
        pandas.DataFrame,
        lambda X: polars.DataFrame(X, schema=list("abcd")),
        lambda X: pyarrow.table(dict(zip("abcd", X.T, strict=True))),
        lambda X: pyarrow.table(dict(zip("abcd", X.T, strict=True))).to_batches()[0],
    ],
    ids=["pandas", "polars", "arrow table", "arrow batch"],
)
def test_blocks_of_every_kind(case, make):
    ensemble, X, y = case
    certifier = Certifier(ensemble, ATTACKER)
    pandas.testing.assert_frame_equal(certifier(make(X), y), certifier(X, y))


def test_streams_of_every_kind(case, tmp_path, monkeypatch):
    ensemble, X, y = case
    monkeypatch.setattr(blocks, "BLOCK_ROWS", 9)
    certifier = Certifier(ensemble, ATTACKER, radius=True)
    np.save(tmp_path / "rows.npy", X)
    frame = pandas.DataFrame(X, columns=list("abcd"))
    frame.assign(label=y).to_parquet(tmp_path / "rows.parquet", index=False)
    unlabelled = [
        np.load(tmp_path / "rows.npy", mmap_mode="r"),
        frame,
        polars.from_pandas(frame).lazy(),
        polars.from_pandas(frame),
        (X[start : start + 7] for start in range(0, 40, 7)),
        [frame[:30], X[30:]],
    ]
    labelled = [
        polars.scan_parquet(tmp_path / "rows.parquet"),
        pyarrow.dataset.dataset(tmp_path / "rows.parquet"),
        pyarrow.parquet.ParquetFile(tmp_path / "rows.parquet"),
        pyarrow.Table.from_pandas(frame.assign(label=y)).to_reader(max_chunksize=11),
        [frame.assign(label=y)],
    ]
    for source in unlabelled:
        found = pandas.concat(certifier.stream(source), ignore_index=True)
        pandas.testing.assert_frame_equal(found, certifier(X))
    for source in labelled:
        parts = list(certifier.stream(source, target="label"))
        pandas.testing.assert_frame_equal(pandas.concat(parts, ignore_index=True), certifier(X, y))
    pairs = ((X[start : start + 7], y[start : start + 7]) for start in range(0, 40, 7))
    pandas.testing.assert_frame_equal(pandas.concat(certifier.stream(pairs), ignore_index=True), certifier(X, y))
    for source, target, word in [(7, None, "a int"), (X, "label", "frames"), (frame, "label", "'label', got none")]:
        with pytest.raises(RowError, match=word):
            list(certifier.stream(source, target))


def test_it_travels_small_and_says_the_same_there(case):
    ensemble, X, y = case
    certifier = Certifier(ensemble, ATTACKER, radius=True)
    fresh = len(pickle.dumps(certifier))
    here = certifier(X, y)
    assert len(pickle.dumps(certifier)) == fresh, "what was made for the rows does not travel"
    arrays = sum(getattr(ensemble, name).nbytes for name in ("feature", "threshold", "leaf", "right", "low", "high"))
    assert fresh < arrays + 4000
    again = pickle.loads(pickle.dumps(certifier))  # noqa: S301
    pandas.testing.assert_frame_equal(again(X, y), here)
    assert not again.ensemble.threshold.flags.writeable


def test_radii_after_all_verdicts(case):
    ensemble, X, y = case
    certifier = Certifier(ensemble, ATTACKER)
    found = certifier.measure(X, certifier.certify(X, y))
    whole = certify(ensemble, X, y, ATTACKER, radius=True)
    assert found == whole
    stump = TreeEnsemble([-1], [0], [0], n_features=4, classes=[0, 1], scores=[[1.0]])
    certifier = Certifier(stump, ATTACKER, margin=0.5)
    found = certifier.certify(X)
    with pytest.raises(ValueError, match="margin=0"):
        certifier.measure(X, found)


def test_asking_for_something_else_prepares_nothing_again(case, monkeypatch):
    ensemble, X, y = case
    certifier = Certifier(copy(ensemble), ATTACKER, radius=True, witness=True)
    other = certifier.asking(witness=True)
    expected = certify(ensemble, X, y, ATTACKER, witness=True)
    made, make = [], Verifier.__init__
    monkeypatch.setattr(Verifier, "__init__", lambda *given: made.append(1) or make(*given))
    assert other.certify(X, y) == expected
    assert (certifier.certify(X, y).radius > 0).all()
    assert other.asking().certify(X, y).witness is None
    assert len(made) == 1
    with pytest.raises(ValueError, match="margin=0 where a radius is asked for"):
        Certifier(ensemble, ATTACKER, margin=0.1).asking(radius=True)


def test_the_same_question_again_prepares_nothing_anew(case):
    ensemble, X, _ = case
    verifier = Certifier(ensemble, ATTACKER).verifier
    assert Certifier(ensemble, Attacker("linf", 0.05), radius=True).verifier is verifier
    assert Certifier(ensemble, ATTACKER.with_eps(0.2)).verifier is not verifier
    assert Certifier(ensemble, Attacker("linf", 0.05, frozen=[1])).attacker.frozen.tolist() == [1]
    assert Certifier(copy(ensemble), ATTACKER).verifier is not verifier
    for eps in (0.01, 0.3, 0.01):
        fresh = certify(copy(ensemble), X, None, Attacker("linf", eps)).stable
        assert np.array_equal(certify(ensemble, X, None, Attacker("linf", eps)).stable, fresh)


def test_refusals(case):
    ensemble, X, _ = case
    with pytest.raises(TypeError, match="Expected an Attacker"):
        Certifier(ensemble, 0.1)
    with pytest.raises(RowError, match="Expected 4 features"):
        Certifier(ensemble, ATTACKER)(X[:, :2])
    with pytest.raises(ValueError, match="time limit"):
        Certifier(ensemble, ATTACKER, time_limit=-1)
    assert "Certifier" in certiforest.__all__


@pytest.mark.parametrize("proof", [False, True])
def test_a_row_is_searched_once(case, proof, monkeypatch):
    _, X, _ = case
    forest = as_ensemble(RandomForestClassifier(n_estimators=15, random_state=0).fit(X, X[:, 0] > X[:, 1]))
    looked, examined, look_at_rows, look_at_row = [], [], decider.look_at_rows, in_python(decider.look_at_row)
    at_rows = lambda *given: (looked.extend(map(bytes, given[1])), look_at_rows(*given))  # noqa: E731
    monkeypatch.setattr("certiforest.rows.screen._push", lambda *_: np.empty((0, 0)))  # which settles nearly all
    monkeypatch.setattr(decider, "look_at_rows", at_rows)
    monkeypatch.setattr(decider, "look_at_row", lambda *given: (looked.append(bytes(given[1])), look_at_row(*given))[1])
    monkeypatch.setattr(search_kernels, "examine_box", lambda *box: examined.append(box))
    found = certify(forest, X, None, Attacker("linf", 0.1), proof=proof)
    assert {0, 1} <= set(found.stable)
    assert not proof or all(found.proof[found.stable == 1])
    assert len(set(looked)) == len(looked) > 5
    assert examined == []  # what the look has found is enough, also for proofs

"""Rows of dask: lazy, native, and the same bits as in memory, however they are cut and wherever they are certified."""

import pickle
from dataclasses import replace

import numpy as np
import pandas
import pytest
from sklearn.ensemble import RandomForestClassifier

from certiforest import Attacker, Certifier, RowError, as_ensemble, certify

dask = pytest.importorskip("dask")
da, dd = pytest.importorskip("dask.array"), pytest.importorskip("dask.dataframe")
ATTACKER = Attacker("linf", 0.05)
ASKED = {"radius": True, "witness": True}


class Case:
    def __init__(self, n_rows=60):
        rng = np.random.default_rng(5)
        self.X = rng.random((n_rows, 4))
        self.y = np.array(["ham", "spam", "eggs"])[(self.X[:, 0] > 0.5) + (self.X[:, 3] > 0.8) * 1]
        forest = RandomForestClassifier(n_estimators=7, max_depth=4, random_state=0).fit(self.X, self.y)
        self.model = as_ensemble(forest)
        self.y = rng.permutation(self.y)
        # Lazy certificates do not keep the rows.
        self.whole = replace(certify(self.model, self.X, self.y, ATTACKER, **ASKED), rows=None)
        self.frame = pandas.DataFrame(self.X, columns=list("abcd"), index=np.arange(n_rows) * 10)
        self.labels = pandas.Series(self.y, index=self.frame.index)


@pytest.fixture(scope="module")
def case():
    return Case()


@pytest.fixture(scope="module")
def cluster():
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


def check(case, found):
    assert found.compute() == case.whole
    assert float(found.accuracy) == case.whole.accuracy
    assert tuple(map(float, found.robust_accuracy_bounds)) == case.whole.robust_accuracy_bounds
    assert {verdict: int(count) for verdict, count in found.counts.items()} == case.whole.counts


@pytest.mark.parametrize("chunks", [(60, 4), (17, 4), (17, 2), (1, 1), ((20, 0, 40), (4,))], ids=str)
def test_arrays_however_they_are_cut(case, chunks):
    found = certify(case.model, da.from_array(case.X, chunks=chunks), da.from_array(case.y, 11), ATTACKER, **ASKED)
    check(case, found)
    for name in ("prediction", "stable", "method", "radius", "radius_upper", "radius_is_exact", "witness", "correct"):
        field, expected = getattr(found, name), getattr(case.whole, name)
        assert dask.is_dask_collection(field)
        assert field.dtype == expected.dtype
        assert np.array_equal(field.compute(), expected, equal_nan=name == "witness")
    assert found.stable.chunks[0] == da.from_array(case.X, chunks=chunks).chunks[0]
    assert found.verdict.compute().tolist() == list(case.whole.verdict)
    frame = found.to_frame()
    assert frame.dtypes.equals(case.whole.to_frame().dtypes)
    pandas.testing.assert_frame_equal(frame.compute().reset_index(drop=True), case.whole.to_frame())


@pytest.mark.parametrize("n_partitions", [1, 3, 60])
def test_frames_keep_their_index_and_partitions(case, n_partitions):
    X = dd.from_pandas(case.frame, npartitions=n_partitions)
    y = dd.from_pandas(case.labels, npartitions=2)  # partitioned otherwise, and aligned by known divisions
    found = certify(case.model, X, y, ATTACKER, **ASKED)
    check(case, found)
    frame, expected = found.to_frame(), certify(case.model, case.frame, case.labels, ATTACKER, **ASKED).to_frame()
    assert frame.divisions == X.divisions
    assert frame.dtypes.equals(expected.dtypes)
    pandas.testing.assert_frame_equal(frame.compute(), expected)
    assert found.verdict.compute().tolist() == expected["verdict"].tolist()
    assert list(found.witness.columns) == [f"witness_feature_{i}" for i in range(4)]


def test_nothing_is_done_before_it_is_asked_for(case, monkeypatch):
    asked = []
    certified = Certifier.certify
    monkeypatch.setattr(Certifier, "certify", lambda self, X, y=None: asked.append(len(X)) or certified(self, X, y))
    found = certify(case.model, da.from_array(case.X, chunks=(20, 4)), case.y, ATTACKER)
    assert repr(found).startswith("Certificates of rows in 3 partitions, not made yet")
    assert "%" not in repr(found)
    assert set(asked) <= {0}
    with dask.config.set(scheduler="synchronous"):
        found.stable.blocks[1].compute()
    assert sum(asked) == 20


def test_empty_partitions_and_unknown_chunks(case):
    frame = dd.from_pandas(case.frame.assign(label=case.y), npartitions=5)
    some = frame[frame["a"] > 0.7]  # some partitions may be empty, none has a known length
    none = frame[frame["a"] > 2]
    kept = case.X[:, 0] > 0.7
    expected = certify(case.model, case.X[kept], case.y[kept], ATTACKER)
    found = certify(case.model, some[list("abcd")], some["label"], ATTACKER)
    assert found.compute() == expected
    arrays = some[list("abcd")].to_dask_array(), some["label"].to_dask_array()
    assert np.isnan(arrays[0].chunks[0]).all()
    assert certify(case.model, *arrays, ATTACKER).compute() == expected
    empty = certify(case.model, none[list("abcd")], none["label"], ATTACKER)
    assert len(empty.compute()) == 0
    assert int(empty.row_counts.n_rows) == 0


def test_without_labels(case):
    found = certify(case.model, da.from_array(case.X, chunks=(20, 4)), None, ATTACKER)
    assert found.compute() == certify(case.model, case.X, None, ATTACKER)
    assert int(found.row_counts.count(1)) == (case.whole.stable == 1).sum()
    with pytest.raises(ValueError, match="Expected labels"):
        _ = found.accuracy
    with pytest.raises(AttributeError, match="radius"):
        _ = found.radius


@pytest.mark.parametrize("scheduler", ["synchronous", "threads", "processes"])
def test_every_scheduler(case, scheduler):
    X = da.from_array(case.X, chunks=(20, 4))
    with dask.config.set(scheduler=scheduler):
        check(case, certify(case.model, X, case.y, ATTACKER, **ASKED))


def test_a_cluster_gets_the_model_once(case, cluster):
    X = da.from_array(case.X, chunks=(3, 4))
    found = certify(case.model, X, case.y, ATTACKER, **ASKED)
    check(case, found)
    check(
        case,
        certify(
            case.model, dd.from_pandas(case.frame, npartitions=7), dd.from_pandas(case.labels, 2), ATTACKER, **ASKED
        ),
    )
    graph = pickle.dumps(dict(found.stable.__dask_graph__()))
    assert b"certiforest.dask_rows" in graph
    assert b"certiforest.certifier" not in graph, "tasks refer to the model and do not hold it"


def test_a_worker_that_is_killed(case, cluster):
    import os
    import signal

    slow = da.from_array(case.X, chunks=(2, 4)).map_blocks(_slowly, dtype=float, meta=np.empty((0, 0)))
    found = certify(case.model, slow, case.y, ATTACKER, **ASKED)
    future = cluster.compute(found.found)
    victim = next(iter(cluster.run(os.getpid).values()))
    os.kill(victim, signal.SIGKILL)
    assert np.array_equal(future.result(timeout=120)["stable"], case.whole.stable)


def _slowly(block):
    import time

    time.sleep(0.1)
    return block


def test_refusals(case):
    X = da.from_array(case.X, chunks=(20, 4))
    frame = dd.from_pandas(case.frame, npartitions=3)
    for options, word in [
        ({"total_time_limit": 5}, "time_limit"),
        ({"n_jobs": 2}, "workers"),
        ({"proof": True}, "in memory"),
        ({"progress": print}, "progress"),
    ]:
        with pytest.raises(ValueError, match=word):
            certify(case.model, X, case.y, ATTACKER, **options)
    with pytest.raises(RowError, match="Expected 4 features"):
        certify(case.model, X[:, :3], case.y, ATTACKER)
    with pytest.raises(RowError, match="shape"):
        certify(case.model, X[0], None, ATTACKER)
    with pytest.raises(RowError, match="Expected one label per row"):
        certify(case.model, X, case.y[:9], ATTACKER)
    with pytest.raises(RowError, match="Expected y as a dask series"):
        certify(case.model, frame, case.y, ATTACKER)
    labels = dd.from_pandas(case.labels, npartitions=2).clear_divisions()
    with pytest.raises(RowError, match="3 partitions of X, got 2"):
        certify(case.model, frame.clear_divisions(), labels, ATTACKER)
    with pytest.raises(RowError, match="type"):
        certify(case.model, frame.assign(d=frame["d"].astype(str)), None, ATTACKER)
    with pytest.raises(RowError, match="dask array or frame, got a Bag"):
        certify(case.model, pytest.importorskip("dask.bag").from_sequence([1]), None, ATTACKER)


def test_a_partition_of_other_types_or_rows(case):
    def spoil(frame):
        return frame.assign(d="text") if frame.index[0] == 0 else frame

    frame = dd.from_pandas(case.frame, npartitions=3)
    with pytest.raises(RowError, match="'d' of type"):
        certify(case.model, frame.map_partitions(spoil, meta=case.frame[:0]), None, ATTACKER).compute()
    other = dd.from_pandas(case.labels[::-1].reset_index(drop=True), npartitions=3).clear_divisions()
    with pytest.raises(RowError, match="other rows in one of them"):
        certify(case.model, frame.clear_divisions(), other, ATTACKER).compute()

"""Datasets by name: what is promised about each is true, and what is not at hand is said in one sentence."""

import gzip

import numpy as np
import pytest
import sklearn.datasets
from sklearn.model_selection import train_test_split

from certiforest.data import datasets
from certiforest.data.datasets import DATASETS, DatasetError, dataset_info, is_dataset, load_dataset
from certiforest.data.split import SplitError, TrainingRecord, digest, split_rows
from certiforest.data.tables import Table
from shared_data import needs_shared, paper_split, shared


@pytest.fixture(autouse=True)
def _no_directory(monkeypatch):
    monkeypatch.delenv("CERTIFOREST_DATA", raising=False)


@pytest.mark.parametrize(
    ("name", "n_rows", "n_features", "n_classes"), [("digits", 1797, 64, 10), ("breast_cancer", 569, 30, 2)]
)
def test_shipped_datasets(name, n_rows, n_features, n_classes):
    dataset = load_dataset(name)
    assert dataset.table.X.shape == (n_rows, n_features)
    assert len(np.unique(dataset.table.y)) == n_classes
    X_train, X_test, y_train, y_test = dataset.scaled_split()
    assert len(X_train) + len(X_test) == n_rows
    assert len(X_test) == len(y_test) == int(np.ceil(0.3 * n_rows))
    assert len(y_train) == len(X_train)
    assert X_train.min() == 0.0
    assert X_train.max() == 1.0


@pytest.mark.parametrize("name", ["digits", "breast_cancer"])
def test_shipped_datasets_are_those_of_scikit_learn(name):
    bunch = getattr(sklearn.datasets, f"load_{name}")()
    table = load_dataset(name).table
    np.testing.assert_array_equal(table.X, bunch.data)
    np.testing.assert_array_equal(table.y, bunch.target)
    assert table.feature_names == tuple(bunch.feature_names)


@pytest.mark.parametrize("seed", range(200))
def test_rows_are_split_as_scikit_learn_does(seed):
    random = np.random.default_rng(seed)
    n_rows, n_classes = random.integers(2, 400), random.integers(1, 9)
    y = random.integers(0, n_classes, n_rows)
    if seed % 3 == 0:  # many classes of the same size: remainders are equal
        y = np.arange(n_rows) % n_classes
    if seed % 2:
        y = np.array(["ham", "spam", "eggs", "a", "b", "c", "d", "e", "f"])[y]
    try:
        expected = train_test_split(np.arange(n_rows), test_size=0.3, random_state=7, stratify=y)
    except ValueError:
        with pytest.raises(SplitError, match="at least two rows"):
            split_rows(y)
        return
    for ours, theirs in zip(split_rows(y), expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_every_dataset_is_described():
    for info in DATASETS.values():
        for text in (info.title, info.source, info.licence, info.size, info.scaling_text):
            assert text


def test_names():
    assert is_dataset("mnist26")
    assert is_dataset("fashion90")
    assert not is_dataset("mnist22")
    assert not is_dataset("mnist2")
    assert dataset_info("mnist26").title == "MNIST digits: class 2 against 6"
    with pytest.raises(DatasetError, match="mnist26"):
        load_dataset("mnits")


@pytest.mark.parametrize("name", ["mnist26", "fashion", "webspam", "rewema", "spambase"])
def test_nothing_is_downloaded_unasked(name, tmp_path):
    with pytest.raises(DatasetError, match=r"--data-dir\) or CERTIFOREST_DATA") as caught:
        load_dataset(name)
    assert ("--download" in str(caught.value)) == (DATASETS[name.rstrip("0123456789")].openml_id is not None)
    with pytest.raises(DatasetError, match="got none in"):
        load_dataset(name, data_dir=tmp_path)
    with pytest.raises(DatasetError, match="which is none"):
        load_dataset(name, data_dir=tmp_path / "nowhere")


def test_a_network_that_fails_is_one_sentence(monkeypatch):
    def fail(**_):
        raise OSError("no route to host")

    monkeypatch.setattr("sklearn.datasets.fetch_openml", fail)
    with pytest.raises(DatasetError, match="got no answer"):
        load_dataset("mnist26", download=True)


def test_altered_contents_are_refused(tmp_path):
    np.savez(tmp_path / "mnist.npz", X=np.zeros((20, 784), np.uint8), y=np.arange(20) % 10)
    with pytest.raises(DatasetError, match="SHA-256"):
        load_dataset("mnist26", data_dir=tmp_path)


def test_the_split_is_a_stratified_partition():
    y = np.repeat([0, 1], [300, 100])
    train, test = split_rows(y)
    assert sorted([*train, *test]) == list(range(400))
    assert y[test].mean() == 0.25
    with pytest.raises(SplitError, match="--part all"):
        split_rows(np.array([0, 1]))


@pytest.mark.parametrize("names", [("REWEMA.csv", "webspam_wc_normalized_unigram.svm"), ("rewema.csv", "webspam.svm")])
def test_files_as_wide_as_the_published_ones(tmp_path, names):
    """REWEMA has 630 columns and a label, Webspam 254 unigrams, few of them in a row, labels -1 and 1."""
    rng = np.random.default_rng(0)
    X, y = rng.integers(0, 5, (60, 630)), rng.integers(0, 2, 60)
    columns = [f"call_{i}" for i in range(630)]
    table, header = np.column_stack([X, y]), ",".join([*columns, "class"])
    np.savetxt(tmp_path / names[0], table, delimiter=",", header=header, comments="", fmt="%d")
    rewema = load_dataset("rewema", data_dir=tmp_path)
    assert rewema.table.feature_names == tuple(columns)
    np.testing.assert_array_equal(rewema.table.X, X)
    np.testing.assert_array_equal(rewema.table.y, y)
    X_train, X_test, _, _ = rewema.scaled_split()
    assert (len(X_train), len(X_test)) == (42, 18)
    assert 0 <= X_train.min() <= X_train.max() <= 1
    lines = []
    for i in range(80):
        used = sorted(rng.choice(254, 20, replace=False) + 1)
        lines.append(f"{1 if i % 3 else -1} " + " ".join(f"{c}:{rng.random():.6g}" for c in used))
    (tmp_path / names[1]).write_text("\n".join(lines) + "\n")
    webspam = load_dataset("webspam", data_dir=tmp_path)
    assert webspam.scaling is None
    assert webspam.table.X.shape == (80, 254)
    assert set(webspam.table.y.tolist()) == {-1, 1}
    assert ((webspam.table.X > 0).sum(axis=1) == 20).all()
    (tmp_path / names[0]).write_text("a,class\nx,1\n")
    with pytest.raises(DatasetError, match="cannot be read"):
        load_dataset("rewema", data_dir=tmp_path)


@needs_shared
@pytest.mark.parametrize("name", ["mnist26", "fashion03"])
def test_image_pairs_are_split_and_scaled_as_the_paper_does(name, monkeypatch):
    monkeypatch.setenv("CERTIFOREST_DATA", str(shared() / "data"))
    for ours, papers in zip(load_dataset(name).scaled_split(), paper_split(name), strict=True):
        np.testing.assert_array_equal(ours, papers)


@needs_shared
def test_original_idx_files(tmp_path):
    with np.load(shared() / "data" / "mnist.npz") as arrays:
        X, y = arrays["X"], arrays["y"].astype(np.uint8)
    for part, rows in (("train", slice(0, 60000)), ("t10k", slice(60000, None))):
        n = len(y[rows])
        images = b"\0\0\x08\x03" + np.array([n, 28, 28], ">u4").tobytes() + X[rows].tobytes()
        labels = b"\0\0\x08\x01" + np.array([n], ">u4").tobytes() + y[rows].tobytes()
        (tmp_path / f"{part}-images-idx3-ubyte").write_bytes(images)
        (tmp_path / f"{part}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(labels, 1))
    assert len(load_dataset("mnist26", data_dir=tmp_path).table) == 13866
    (tmp_path / "t10k-images-idx3-ubyte").write_bytes(images[:-1])
    with pytest.raises(DatasetError, match="cut short"):
        load_dataset("mnist26", data_dir=tmp_path)


def test_no_more_of_an_idx_file_is_unpacked_than_can_be_right(tmp_path):
    (tmp_path / "train-labels-idx1-ubyte.gz").write_bytes(gzip.compress(bytes(10**6)))
    assert len(datasets._read_bytes(tmp_path / "train-labels-idx1-ubyte.gz", 1000)) == 1001


@needs_shared
def test_spambase():
    dataset = load_dataset("spambase", data_dir=shared() / "data")
    assert dataset.table.X.shape == (4601, 57)
    assert dataset.table.y.sum() == 1813


def test_the_digest_of_a_table_tells_rows_labels_and_order_apart():
    table = Table(np.array([[1.0, -0.0], [2.0, 3.0]]), np.array([0, 1]), None, "here")
    same = Table(np.array([[1, 0], [2, 3]], float, order="F"), np.array([0, 1]), ("a", "b"), "there")
    assert digest(table) == digest(same)
    for X, y in [
        ([[2, 3], [1, 0]], [1, 0]),
        ([[1, 0], [2, 3]], [1, 0]),
        ([[1, 0], [2, 3.5]], [0, 1]),
        ([[1, 0, 2, 3]], [0]),
    ]:
        assert digest(Table(np.array(X, float), np.array(y), None, "elsewhere")) != digest(table)


@pytest.mark.parametrize(
    "entry",
    [
        {},
        {"part": "train"},
        {"part": "some", "n_rows": 1, "sha256": "", "first_index": None},
        {"part": "all", "n_rows": True, "sha256": "", "first_index": None},
        {"part": "all", "n_rows": 1, "sha256": "", "first_index": 2},
    ],
)
def test_a_record_of_training_that_is_none(entry):
    with pytest.raises(SplitError, match="training"):
        TrainingRecord.read(entry)

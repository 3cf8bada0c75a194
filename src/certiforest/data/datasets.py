"""Datasets by name: where each comes from, under which licence, how it is checked, split and scaled.

Nothing is downloaded unless asked for. Two datasets ship with scikit-learn; the others are files in a
directory that ``data_dir`` or the environment variable ``CERTIFOREST_DATA`` names, or come from OpenML with
``download=True``.

Every dataset is split 70/30, stratified, with seed 7, which is the paper's protocol.
"""

from __future__ import annotations

import gzip
import hashlib
import math
import os
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from certiforest.data.tables import Table, TableError, read_table
from certiforest.ensemble.scaling import Scaling

DATA_DIR_VARIABLE = "CERTIFOREST_DATA"
TEST_SIZE, SPLIT_SEED = 0.3, 7


class DatasetError(ValueError):
    """A dataset is unknown, not at hand, or not what it should be."""


@dataclass(frozen=True)
class DatasetInfo:
    """What is known about a dataset before it is loaded.

    ``scaled_by`` says which rows give the minimum and maximum of each feature: all of them (the paper's
    protocol), the training rows, or none because the range is fixed.
    """

    name: str
    title: str
    source: str
    licence: str
    size: str
    scaled_by: str
    files: tuple[str, ...] = ()
    openml_id: int | None = None
    sha256: str | None = None
    image_shape: tuple[int, int] | None = None
    target: int = -1
    n_features: int | None = None

    @property
    def scaling_text(self) -> str:
        """How features are scaled, in words."""
        return {
            "all rows": "each feature to [0, 1] by its minimum and maximum over all rows, as the paper does",
            "training rows": "each feature to [0, 1] by its minimum and maximum over the training rows",
            "sixteenths": "every pixel divided by 16, its largest value",
            "nothing": "none: the file is scaled already",
        }[self.scaled_by]

    @property
    def split_text(self) -> str:
        """How rows are split, in words."""
        return f"{1 - TEST_SIZE:.0%} training, {TEST_SIZE:.0%} test, stratified, seed {SPLIT_SEED}"


@dataclass(frozen=True)
class Dataset:
    """A dataset in memory: rows in the units of its source, the scaling for them, and the split."""

    info: DatasetInfo
    table: Table
    scaling: Scaling | None
    train_rows: NDArray[np.int64]
    test_rows: NDArray[np.int64]

    @property
    def parts(self) -> dict[str, NDArray[np.int64]]:
        """Row indices of each part by name."""
        return {"train": self.train_rows, "test": self.test_rows, "all": np.arange(len(self.table))}

    def scaled_split(self) -> tuple[NDArray, NDArray, NDArray, NDArray]:
        """Return X_train, X_test, y_train, y_test in scaled units."""
        X = self.table.X if self.scaling is None else self.scaling.apply(self.table.X)
        y = self.table.y
        assert y is not None
        return X[self.train_rows], X[self.test_rows], y[self.train_rows], y[self.test_rows]


DATASETS = {
    info.name: info
    for info in (
        DatasetInfo(
            name="digits",
            title="Handwritten digits, 8 x 8 pixels, ten classes",
            source="ships with scikit-learn (UCI Optical Recognition of Handwritten Digits, test part)",
            licence="CC BY 4.0",
            size="1,797 rows, 64 features",
            scaled_by="sixteenths",
            sha256="f6d9e39f37dc45d327f6db33428ee58970ccceabb2535a5c179de35886b70443",
            image_shape=(8, 8),
        ),
        DatasetInfo(
            name="breast_cancer",
            title="Breast cancer Wisconsin (diagnostic), two classes",
            source="ships with scikit-learn (UCI)",
            licence="CC BY 4.0",
            size="569 rows, 30 features",
            scaled_by="training rows",
            sha256="25e2eb7b7a8745b1bde5ba18bc4969983d2e2f403291ecd5bde4a29ef30c3859",
        ),
        DatasetInfo(
            name="mnist",
            title="MNIST digits, 28 x 28 pixels, ten classes; mnist26: 2 against 6, and so on",
            source="OpenML 554, or mnist.npz (X, y) or the original idx files in the data directory",
            licence="CC BY-SA 3.0",
            size="70,000 rows, 784 features (mnist26: 13,866 rows)",
            scaled_by="all rows",
            files=("mnist.npz",),
            openml_id=554,
            sha256="b3fe36794a3a345d09632e9d79f122d61ca91a07e5a22f8536973655bacf2a78",
            image_shape=(28, 28),
        ),
        DatasetInfo(
            name="fashion",
            title="Fashion-MNIST, 28 x 28 pixels, ten classes; fashion03: T-shirt against dress, and so on",
            source="OpenML 40996, or fashion.npz (X, y) or the original idx files in the data directory",
            licence="MIT",
            size="70,000 rows, 784 features (fashion03: 14,000 rows)",
            scaled_by="all rows",
            files=("fashion.npz",),
            openml_id=40996,
            sha256="75979490032625d6583ff7101de6f9243d07d0a8d33d3c9b3b7e79b4c59382af",
            image_shape=(28, 28),
        ),
        DatasetInfo(
            name="webspam",
            title="Webspam, unigram, two classes",
            source="LIBSVM site, webspam_wc_normalized_unigram.svm in the data directory",
            licence="not stated by its source",
            size="350,000 rows, 254 features",
            scaled_by="nothing",
            files=("webspam_wc_normalized_unigram.svm", "webspam.svm", "webspam.libsvm"),
            n_features=254,
        ),
        DatasetInfo(
            name="rewema",
            title="REWEMA malware, two classes",
            source="Kaggle, rewema.csv in the data directory, label in the last column",
            licence="not stated by its source",
            size="6,271 rows, 630 features",
            scaled_by="all rows",
            files=("rewema.csv", "REWEMA.csv"),
        ),
        DatasetInfo(
            name="spambase",
            title="Spambase e-mails, two classes",
            source="UCI, spambase.csv or spambase.data in the data directory, or OpenML 44",
            licence="CC BY 4.0",
            size="4,601 rows, 57 features",
            scaled_by="training rows",
            files=("spambase.csv", "spambase.data", "tabular/spambase.csv"),
            openml_id=44,
            sha256="ac5f1044ec0e8fcde656ad01b11dcb23b294c852a64c1a0ca68be767a5e1e790",
        ),
    )
}
PAIR = re.compile(r"(mnist|fashion)([0-9])([0-9])")


def is_dataset(name: str) -> bool:
    """Tell whether a name is one of `DATASETS` or a pair of classes like ``mnist26``."""
    pair = PAIR.fullmatch(name)
    return name in DATASETS or (pair is not None and pair[2] != pair[3])


def dataset_info(name: str) -> DatasetInfo:
    """Return what is known about a dataset; a pair of classes like ``mnist26`` has the facts of its whole."""
    if not is_dataset(name):
        raise DatasetError(f"Expected one of {', '.join(DATASETS)}, mnist26, fashion03 or another pair, got {name!r}.")
    if name in DATASETS:
        return DATASETS[name]
    whole, first, second = PAIR.fullmatch(name).groups()  # type: ignore[union-attr]
    return replace(
        DATASETS[whole],
        name=name,
        title=f"{DATASETS[whole].title.split(',')[0]}: class {first} against {second}",
    )


def load_dataset(name: str, *, data_dir: str | os.PathLike[str] | None = None, download: bool = False) -> Dataset:
    """Load a dataset by name.

    Parameters
    ----------
    name : str
        A name in `DATASETS`, or two classes of an image dataset: ``mnist26`` has label 0 for digit 2 and 1
        for 6.
    data_dir : path, optional
        Directory with the files; that named by the environment variable ``CERTIFOREST_DATA`` if not given.
    download : bool, default=False
        Whether to fetch from OpenML what is not in the directory.

    Raises
    ------
    DatasetError
        If the dataset is unknown, not at hand, or its contents are not those published.
    """
    info = dataset_info(name)
    pair = PAIR.fullmatch(name)
    whole = DATASETS[pair[1]] if pair else info
    table = _find(whole, data_dir, download)
    _check_contents(whole, table)
    if pair:
        table = _keep_pair(table, int(pair[2]), int(pair[3]))
    assert table.y is not None
    train_rows, test_rows = split_rows(table.y)
    scaling = SCALINGS[info.scaled_by](table.X, train_rows)
    return Dataset(info, replace(table, source=name), scaling, train_rows, test_rows)


def split_rows(y: NDArray) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the row indices of training and test part by the paper's protocol: 70/30, stratified, seed 7.

    The rows, and their order, are those of scikit-learn's ``train_test_split``, drawn without it: that takes a
    second to import, and which rows are held out must not depend on a version.
    """
    n_rows = len(y)
    n_test = math.ceil(TEST_SIZE * n_rows)
    _, place, sizes = np.unique(y, return_inverse=True, return_counts=True)
    if n_rows == 0 or sizes.min() < 2 or min(n_test, n_rows - n_test) < len(sizes):
        raise DatasetError(
            "Expected at least two rows of every class, and enough to split, got"
            f" {n_rows} rows of {len(sizes)} classes."
            " Is --target the label? If so, --part all keeps the table whole."
        )
    random = np.random.RandomState(SPLIT_SEED)
    n_train_of = _shares(sizes, n_rows - n_test, random)
    n_test_of = _shares(sizes - n_train_of, n_test, random)
    train, test = [], []
    rows_by_class = np.argsort(place, kind="stable")
    for rows, n_train, n_held_out in zip(
        np.split(rows_by_class, np.cumsum(sizes)[:-1]), n_train_of, n_test_of, strict=True
    ):
        drawn = rows[random.permutation(len(rows))]
        train.append(drawn[:n_train])
        test.append(drawn[n_train : n_train + n_held_out])
    return random.permutation(np.concatenate(train)), random.permutation(np.concatenate(test))


def _shares(sizes: NDArray[np.int64], n_rows: int, random: np.random.RandomState) -> NDArray[np.int64]:
    """Deal rows out to classes in proportion to their sizes; largest remainders first, equal ones by lot."""
    exact = sizes / sizes.sum() * n_rows
    shares = np.floor(exact)
    remainder = exact - shares
    missing = int(n_rows - shares.sum())
    for value in np.unique(remainder)[::-1]:
        if missing <= 0:
            break
        candidates = np.flatnonzero(remainder == value)
        lucky = random.choice(candidates, size=min(len(candidates), missing), replace=False)
        shares[lucky] += 1
        missing -= len(lucky)
    return shares.astype(np.int64)


SCALINGS: dict[str, Callable[[NDArray, NDArray], Scaling | None]] = {
    "all rows": lambda X, train_rows: Scaling.of(X),
    "training rows": lambda X, train_rows: Scaling.of(X[train_rows]),
    "sixteenths": lambda X, train_rows: Scaling(np.zeros(X.shape[1]), np.full(X.shape[1], 16.0)),
    "nothing": lambda X, train_rows: None,
}


def _find(info: DatasetInfo, data_dir: str | os.PathLike[str] | None, download: bool) -> Table:
    if info.name in SHIPPED:
        return SHIPPED[info.name]()
    directory = data_dir if data_dir is not None else os.environ.get(DATA_DIR_VARIABLE)
    if directory is not None:
        folder = Path(directory)
        if not folder.is_dir():
            raise DatasetError(f"Expected a directory of datasets, got {folder}, which is none.")
        for file in info.files:
            if (folder / file).is_file():
                return _read_file(info, folder / file)
        if info.image_shape is not None:
            for place in (folder / info.name, folder):
                if _idx_file(place, "train-images-idx3-ubyte") is not None:
                    return _read_idx(info, place)
    if download and info.openml_id is not None:
        return _fetch_openml(info)
    wanted = f"{info.files[0]} or idx files" if info.image_shape is not None else " or ".join(info.files[:2])
    where = f"in {directory}" if directory is not None else "anywhere"
    fetch = f", or add --download to fetch it from OpenML ({info.openml_id})" if info.openml_id else ""
    raise DatasetError(
        f"Expected {wanted} for the dataset {info.name}, got none {where}."
        f" Name its directory by --data-dir or {DATA_DIR_VARIABLE}{fetch}."
    )


def _read_file(info: DatasetInfo, path: Path) -> Table:
    try:
        if path.suffix == ".npz":
            return read_table(path)
        if path.suffix in (".svm", ".libsvm"):
            return read_table(path, kind="libsvm", n_features=info.n_features)
        return read_table(path, info.target, kind="csv")
    except TableError as error:
        raise DatasetError(f"The file of dataset {info.name} cannot be read. {error}") from None


def _shipped_file(name: str) -> Path:
    """Return the path of a file inside scikit-learn, which is not imported for that: it takes a second."""
    package = find_spec("sklearn")
    path = None if package is None or package.origin is None else Path(package.origin).parent / "datasets/data" / name
    if path is None or not path.is_file():
        raise DatasetError(f"Expected {name} inside scikit-learn, got none; another version of it may help.")
    return path


def _load_digits() -> Table:
    with gzip.open(_shipped_file("digits.csv.gz"), "rt") as file:
        rows = np.loadtxt(file, delimiter=",")
    names = tuple(f"pixel_{row}_{column}" for row in range(8) for column in range(8))
    return Table(rows[:, :-1], rows[:, -1].astype(np.int64), names, "digits")


def _load_breast_cancer() -> Table:
    rows = np.loadtxt(_shipped_file("breast_cancer.csv"), delimiter=",", skiprows=1)
    measures = ["radius", "texture", "perimeter", "area", "smoothness", "compactness", "concavity", "concave points"]
    measures += ["symmetry", "fractal dimension"]
    names = [how.format(measure) for how in ("mean {}", "{} error", "worst {}") for measure in measures]
    return Table(rows[:, :-1], rows[:, -1].astype(np.int64), tuple(names), "breast_cancer")


SHIPPED = {"digits": _load_digits, "breast_cancer": _load_breast_cancer}


def _idx_file(folder: Path, name: str) -> Path | None:
    for candidate in (folder / name, folder / f"{name}.gz"):
        if candidate.is_file():
            return candidate
    return None


def _read_idx(info: DatasetInfo, folder: Path) -> Table:
    """Read the original files: training rows first, then test rows."""
    arrays = []
    for stem in ("images-idx3", "labels-idx1"):
        parts = []
        for part in ("train", "t10k"):
            path = _idx_file(folder, f"{part}-{stem}-ubyte")
            if path is None:
                raise DatasetError(f"Expected {part}-{stem}-ubyte or .gz for {info.name}, got none in {folder}.")
            content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
            n_dims = content[3] if len(content) > 3 else 0
            head = 4 + 4 * n_dims
            shape = np.frombuffer(content[4:head], ">u4") if len(content) >= head else np.zeros(1)
            body = np.frombuffer(content[head:], np.uint8)
            if n_dims not in (1, 3) or np.prod(shape, dtype=np.int64) != body.size:
                raise DatasetError(f"Expected a whole idx file, got {path}, which is cut short or altered.")
            parts.append(body.reshape(int(shape[0]), -1))
        arrays.append(np.concatenate(parts))
    return Table(arrays[0].astype(np.float64), arrays[1].ravel().astype(np.int64), None, info.name)


def _fetch_openml(info: DatasetInfo) -> Table:
    from sklearn.datasets import fetch_openml

    try:
        bunch = fetch_openml(data_id=info.openml_id, as_frame=False, parser="liac-arff")
    except Exception as error:  # the network fails in many ways
        raise DatasetError(
            f"Expected to fetch {info.name} from OpenML, got no answer ({type(error).__name__}: {error})."
            f" Put {info.files[0]} into a directory and name it by --data-dir."
        ) from None
    return Table(np.asarray(bunch.data, np.float64), np.asarray(bunch.target).astype(np.int64), None, info.name)


def _check_contents(info: DatasetInfo, table: Table) -> None:
    """Compare rows and labels with the published ones, whatever kind of file they came in."""
    if info.sha256 is None:
        return
    found = hashlib.sha256(table.X.astype("u1" if info.openml_id in (554, 40996) else "<f8").tobytes())
    assert table.y is not None
    if table.y.dtype.kind == "i":
        found.update(table.y.astype("<i8").tobytes())
    if found.hexdigest() != info.sha256:
        raise DatasetError(
            f"Expected the published {info.name} (SHA-256 {info.sha256[:12]}...), got others"
            f" ({found.hexdigest()[:12]}...) in {table.source}. To use another, give its path."
        )


def _keep_pair(table: Table, zero: int, one: int) -> Table:
    assert table.y is not None
    chosen = np.flatnonzero(np.isin(table.y, (zero, one)))
    return replace(table.take(chosen), y=np.where(table.y[chosen] == one, 1, 0))

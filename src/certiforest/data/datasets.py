"""Datasets by name: what is known about each (``datasets.json``), where its rows are, their scaling and their split.

Nothing is downloaded unless asked for. Two datasets ship with scikit-learn; the others are files in a directory that
``data_dir`` or the environment variable ``CERTIFOREST_DATA`` names, or come from OpenML with ``download=True``.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import math
import os
import re
import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from certiforest.data.readers import read_table
from certiforest.data.split import split_rows
from certiforest.data.tables import Table, TableError
from certiforest.ensemble.scaling import Scaling
from certiforest.words import setting, shown

DATA_DIR_VARIABLE = "CERTIFOREST_DATA"
MOST_IMAGES = 70_000  # of all that are known by name
BYTES = (554, 40996)  # OpenML's numbers of the datasets whose features are bytes
PAIR = re.compile(r"(mnist|fashion)([0-9])(?!\2)([0-9])")

#: What a dataset is scaled by: in words, and given all rows and the numbers of those to learn from.
SCALINGS: dict[str, tuple[str, Callable[[NDArray, NDArray], Scaling | None]]] = {
    "all rows": (
        "each feature to [0, 1] by its minimum and maximum over all rows, as the paper does",
        lambda X, train_rows: Scaling.of(X),
    ),
    "training rows": (
        "each feature to [0, 1] by its minimum and maximum over the training rows",
        lambda X, train_rows: Scaling.of(X[train_rows]),
    ),
    "sixteenths": (
        "every pixel divided by 16, its largest value",
        lambda X, train_rows: Scaling(np.zeros(X.shape[1]), np.full(X.shape[1], 16.0)),
    ),
    "nothing": ("none: the file is scaled already", lambda X, train_rows: None),
}


class DatasetError(ValueError):
    """A dataset is unknown, not at hand, or not what it should be."""


@dataclass(frozen=True)
class DatasetInfo:
    """What is known about a dataset before it is loaded; ``n_features`` and ``first_index`` are for LIBSVM files."""

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
    n_features: int | None = None
    first_index: int | None = None

    @property
    def scaling_text(self) -> str:
        """How features are scaled, in words."""
        return SCALINGS[self.scaled_by][0]


@dataclass(frozen=True)
class Dataset:
    """A dataset in memory: rows in the units of its source, the scaling for them, and the split."""

    table: Table
    scaling: Scaling | None
    train_rows: NDArray[np.int64]
    test_rows: NDArray[np.int64]

    def scaled_split(self) -> tuple[NDArray, NDArray, NDArray, NDArray]:
        """Return X_train, X_test, y_train, y_test in scaled units."""
        X = self.table.X if self.scaling is None else self.scaling.apply(self.table.X)
        y = self.table.y
        return X[self.train_rows], X[self.test_rows], y[self.train_rows], y[self.test_rows]


def _read_infos() -> dict[str, DatasetInfo]:
    entries = json.loads(files("certiforest.data").joinpath("datasets.json").read_text(encoding="utf-8"))["datasets"]
    plain: list[dict[str, Any]] = [
        {key: tuple(value) if isinstance(value, list) else value for key, value in entry.items()} for entry in entries
    ]
    return {entry["name"]: DatasetInfo(**entry) for entry in plain}


DATASETS = _read_infos()


def is_dataset(name: str) -> bool:
    """Tell whether a name is one of `DATASETS` or a pair of classes like ``mnist26``."""
    return name in DATASETS or PAIR.fullmatch(name) is not None


def dataset_info(name: str) -> DatasetInfo:
    """Return what is known about a dataset; a pair of classes like ``mnist26`` has the facts of its whole."""
    if name in DATASETS:
        return DATASETS[name]
    pair = PAIR.fullmatch(name)
    if pair is None:
        raise DatasetError(
            f"Expected one of {', '.join(DATASETS)}, mnist26, fashion03 or another pair, got {shown(name)}."
        )
    whole = DATASETS[pair[1]]
    return replace(whole, name=name, title=f"{whole.title.split(',')[0]}: class {pair[2]} against {pair[3]}")


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
    info, pair = dataset_info(name), PAIR.fullmatch(name)
    whole = DATASETS[pair[1]] if pair else info
    table = _load_table(whole, data_dir, download)
    _check_contents(whole, table)
    if pair:
        rows = np.flatnonzero(np.isin(table.y, (int(pair[2]), int(pair[3]))))
        table = replace(table.take(rows), y=(table.y[rows] == int(pair[3])).astype(np.int64))
    train_rows, test_rows = split_rows(table.y)
    scaling = SCALINGS[info.scaled_by][1](table.X, train_rows)
    return Dataset(replace(table, source=name), scaling, train_rows, test_rows)


def _load_table(info: DatasetInfo, data_dir: str | os.PathLike[str] | None, download: bool) -> Table:
    """Return all rows of a dataset: shipped with scikit-learn, from files of the directory, or fetched from OpenML."""
    if info.name in SHIPPED:
        return _read_shipped(info.name)
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
    fetch = f", or fetch it from OpenML ({info.openml_id}) by {setting('download')}" if info.openml_id else ""
    raise DatasetError(
        f"Expected {wanted} for the dataset {info.name}, got none {where}."
        f" Name its directory by {setting('data_dir')} or {DATA_DIR_VARIABLE}{fetch}."
    )


def _read_file(info: DatasetInfo, path: Path) -> Table:
    target = None if path.suffix in (".npz", ".svm", ".libsvm") else -1
    try:
        return read_table(path, target, n_features=info.n_features, first_index=info.first_index)
    except TableError as error:
        raise DatasetError(f"The file of dataset {info.name} cannot be read. {error}") from None


MEASURES = "radius,texture,perimeter,area,smoothness,compactness,concavity,concave points,symmetry,fractal dimension"
#: Files inside scikit-learn, how many lines they start with that are no rows, and the names of their features.
SHIPPED = {
    "digits": ("digits.csv.gz", 0, tuple(f"pixel_{row}_{column}" for row in range(8) for column in range(8))),
    "breast_cancer": (
        "breast_cancer.csv",
        1,
        tuple(how.format(measure) for how in ("mean {}", "{} error", "worst {}") for measure in MEASURES.split(",")),
    ),
}


def _read_shipped(name: str) -> Table:
    """Read a dataset from its file in the package scikit-learn, without the second that importing it takes."""
    file, n_before, names = SHIPPED[name]
    package = find_spec("sklearn")
    path = None if package is None or package.origin is None else Path(package.origin).parent / "datasets/data" / file
    if path is None or not path.is_file():
        raise DatasetError(f"Expected {file} inside scikit-learn, got none; another version of it may help.")
    rows = np.loadtxt(path, delimiter=",", skiprows=n_before)
    return Table(rows[:, :-1], rows[:, -1].astype(np.int64), names, name)


def _idx_file(folder: Path, name: str) -> Path | None:
    return next((path for path in (folder / name, folder / f"{name}.gz") if path.is_file()), None)


def _read_idx(info: DatasetInfo, folder: Path) -> Table:
    """Read the original files: training rows first, then test rows."""
    X, y = (
        np.concatenate([_read_idx_file(info, folder, f"{part}-{stem}-ubyte") for part in ("train", "t10k")])
        for stem in ("images-idx3", "labels-idx1")
    )
    return Table(X.astype(np.float64), y.ravel().astype(np.int64), None, info.name)


def _read_idx_file(info: DatasetInfo, folder: Path, name: str) -> NDArray[np.uint8]:
    path = _idx_file(folder, name)
    if path is None:
        raise DatasetError(f"Expected {name} or .gz for {info.name}, got none in {folder}.")
    content = _read_bytes(path, 16 + MOST_IMAGES * (1 if "labels" in name else math.prod(info.image_shape or ())))
    n_dims = content[3] if len(content) > 3 else 0
    head = 4 + 4 * n_dims
    shape = np.frombuffer(content[4:head], ">u4").tolist() if len(content) >= head else [0]
    body = np.frombuffer(content[head:], np.uint8)
    if n_dims not in (1, 3) or math.prod(shape) != body.size:
        raise DatasetError(f"Expected a whole idx file, got {path}, which is cut short or altered.")
    return body.reshape(shape[0], -1)


def _read_bytes(path: Path, most: int) -> bytes:
    """Return what a file holds, and no more of it than one byte too many."""
    try:
        with gzip.open(path) if path.suffix == ".gz" else open(path, "rb") as file:
            return file.read(most + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise DatasetError(f"Expected a whole idx file, got {path} ({error}).") from None


def _fetch_openml(info: DatasetInfo) -> Table:
    from sklearn.datasets import fetch_openml

    try:
        bunch = fetch_openml(data_id=info.openml_id, as_frame=False, parser="liac-arff")
    except Exception as error:  # the network fails in many ways
        raise DatasetError(
            f"Expected to fetch {info.name} from OpenML, got no answer ({type(error).__name__}: {error})."
            f" Put {info.files[0]} into a directory and name it by {setting('data_dir')}."
        ) from None
    return Table(np.asarray(bunch.data, np.float64), np.asarray(bunch.target).astype(np.int64), None, info.name)


def _check_contents(info: DatasetInfo, table: Table) -> None:
    """Compare rows and labels with the published ones, whatever kind of file they came in."""
    if info.sha256 is None:
        return
    found = hashlib.sha256(table.X.astype("u1" if info.openml_id in BYTES else "<f8").tobytes())
    if table.y.dtype.kind == "i":
        found.update(table.y.astype("<i8").tobytes())
    if found.hexdigest() != info.sha256:
        raise DatasetError(
            f"Expected the published {info.name} (SHA-256 {info.sha256[:12]}...), got others"
            f" ({found.hexdigest()[:12]}...) in {table.source}. To use another, give its path."
        )

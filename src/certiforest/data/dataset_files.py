"""Where the rows of named datasets are found: inside scikit-learn, in files of several kinds, or at OpenML."""

from __future__ import annotations

import gzip
import hashlib
import os
import zlib
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from certiforest.data.catalogue import DatasetError, DatasetInfo
from certiforest.data.readers import read_table
from certiforest.data.tables import Table, TableError
from certiforest.words import setting

DATA_DIR_VARIABLE = "CERTIFOREST_DATA"
MOST_IMAGES = 70_000  # of all that are known by name
BYTES = (554, 40996)  # OpenML's numbers of the datasets whose features are bytes


def find_table(info: DatasetInfo, data_dir: str | os.PathLike[str] | None, download: bool) -> Table:
    """Return the rows of a dataset; see `load_dataset`."""
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
    fetch = f", or fetch it from OpenML ({info.openml_id}) by {setting('download')}" if info.openml_id else ""
    raise DatasetError(
        f"Expected {wanted} for the dataset {info.name}, got none {where}."
        f" Name its directory by {setting('data_dir')} or {DATA_DIR_VARIABLE}{fetch}."
    )


def _read_file(info: DatasetInfo, path: Path) -> Table:
    try:
        if path.suffix == ".npz":
            return read_table(path)
        if path.suffix in (".svm", ".libsvm"):
            return read_table(path, kind="libsvm", n_features=info.n_features, first_index=info.first_index)
        return read_table(path, -1, kind="csv")
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
            size = 1 if stem.startswith("labels") else int(np.prod(info.image_shape or 1))
            content = _read_bytes(path, 16 + MOST_IMAGES * size)
            n_dims = content[3] if len(content) > 3 else 0
            head = 4 + 4 * n_dims
            shape = np.frombuffer(content[4:head], ">u4") if len(content) >= head else np.zeros(1)
            body = np.frombuffer(content[head:], np.uint8)
            if n_dims not in (1, 3) or np.prod(shape, dtype=object) != body.size:
                raise DatasetError(f"Expected a whole idx file, got {path}, which is cut short or altered.")
            parts.append(body.reshape(int(shape[0]), -1))
        arrays.append(np.concatenate(parts))
    return Table(arrays[0].astype(np.float64), arrays[1].ravel().astype(np.int64), None, info.name)


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


def check_contents(info: DatasetInfo, table: Table) -> None:
    """Compare rows and labels with the published ones, whatever kind of file they came in."""
    if info.sha256 is None:
        return
    found = hashlib.sha256(table.X.astype("u1" if info.openml_id in BYTES else "<f8").tobytes())
    assert table.y is not None
    if table.y.dtype.kind == "i":
        found.update(table.y.astype("<i8").tobytes())
    if found.hexdigest() != info.sha256:
        raise DatasetError(
            f"Expected the published {info.name} (SHA-256 {info.sha256[:12]}...), got others"
            f" ({found.hexdigest()[:12]}...) in {table.source}. To use another, give its path."
        )

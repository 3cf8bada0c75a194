"""Parts: findings on disk, block by block, so that a run that was stopped goes on where it stopped.

A directory holds ``run.json``, which says what was asked of which model, attacker and input, and a file ``part-N`` for
each block. Every file appears whole or not at all, and holds the same bytes however often the run was stopped. What
was asked for as one file is put together from the parts in the end, and the directory goes.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import numpy as np
from numpy.typing import NDArray

from certiforest.files import FileError, check_writable, write_atomically
from certiforest.words import listed, setting

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]

FORMAT, FORMAT_VERSION = "certiforest parts", 2
PARQUET = (".parquet", ".pq")
RUN = "certiforest run"  # the name under which a part says which run it belongs to
PartColumns = dict[str, NDArray]


class Parts:
    """The parts of one run.

    Parameters
    ----------
    out : path
        A directory, which is one that exists or has no suffix, keeps parts as Parquet files; any other path is a file
        that is written in the end, as Parquet or as CSV.
    key : dict of plain values
        All that the findings depend on.
    replace : bool
        Whether an existing file, and parts of other runs, may be replaced.
    """

    def __init__(self, out: Path, key: dict[str, Any], *, replace: bool) -> None:
        self.out, self._key, self._replace = out, key, replace
        self.is_directory = out.is_dir() or not out.suffix
        self.directory = out if self.is_directory else out.with_name(out.name + ".parts")
        self._suffix = ".parquet" if self.is_directory else ".npz"
        if self.is_directory or out.suffix.lower() in PARQUET:
            _need_pyarrow(out)
        self._lock = _lock(self.directory)
        try:
            if not self.is_directory:
                check_writable(out, replace=replace)
            self._check_run()
        except Exception:
            self.close()
            raise

    def _check_run(self) -> None:
        """Compare what was asked of the parts that are there."""
        path = self.directory / "run.json"
        try:
            found = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None
        except (ValueError, RecursionError):
            found = {}
        if found is None and any(self.directory.iterdir()):
            raise FileError(f"Expected a directory of parts or an empty one, got {self.directory}, with other files.")
        if found is None or found == self._document:
            return
        differ = sorted(name for name, value in self._key.items() if found.get(name) != value)
        if not self._replace:
            raise FileError(
                f"Expected {self.directory} to hold parts of this run, got those of one with another"
                f" {listed(differ) if differ else 'version of parts'}. Name another place, or allow to"
                f" {setting('replace', None, '--force')} them."
            )
        self.clear()

    @property
    def _document(self) -> dict[str, Any]:
        return {"format": FORMAT, "version": FORMAT_VERSION, **self._key}

    @property
    def _run(self) -> str:
        """What every part of this run carries."""
        return hashlib.sha256(json.dumps(self._document, sort_keys=True).encode()).hexdigest()

    def clear(self) -> None:
        """Remove all parts, and nothing else."""
        for pattern in ("part-*.parquet", "part-*.npz", "run.json"):
            for path in self.directory.glob(pattern):
                path.unlink(missing_ok=True)

    def _path(self, number: int) -> Path:
        return self.directory / f"part-{number:08}{self._suffix}"

    def read(self, number: int) -> PartColumns | None:
        """Return the columns of a part of this run, None if it is not there."""
        path = self._path(number)
        if not path.exists():
            return None
        try:
            run, columns = (_read_parquet if self.is_directory else _read_npz)(path)
        except Exception as error:  # zip and pyarrow raise errors of their own kinds
            raise FileError(f"Expected a part that certiforest wrote, got {path} ({error}); remove it.") from None
        if run != self._run:
            raise FileError(f"Expected a part of this run, got {path}, of another; remove it.")
        return columns

    def write(self, number: int, columns: PartColumns) -> None:
        """Write the columns of a part."""
        if not (self.directory / "run.json").exists():
            write_atomically(self.directory / "run.json", json.dumps(self._document, indent=1) + "\n")
        content = io.BytesIO()
        if self.is_directory:
            _write_parquet(content, columns, self._run)
        else:
            np.savez_compressed(content, **{RUN: self._run}, **columns)  # type: ignore[arg-type]  # no objects
        write_atomically(self._path(number), content.getvalue())

    def close(self) -> None:
        """Let others write to the directory, and remove it if nothing was written."""
        with suppress(OSError):  # it holds parts
            self.directory.rmdir()
        if self._lock is not None:
            os.close(self._lock)

    def finish(self, n_parts: int) -> None:
        """Put the parts together if one file was asked for."""
        if self.is_directory:
            return

        def parts() -> Iterator[PartColumns]:
            for number in range(n_parts):
                columns = self.read(number)
                if columns is None:
                    raise FileError(f"Expected {self._path(number)}, got none any more; give the same command again.")
                yield columns

        is_parquet = self.out.suffix.lower() in PARQUET
        content = _as_parquet(parts(), self.directory) if is_parquet else _as_csv(parts())
        write_atomically(self.out, content, replace=self._replace)
        self.clear()


def _lock(directory: Path) -> int | None:
    """Make a directory, if need be, and keep other runs out of it for as long as this process lives."""
    try:
        directory.mkdir(exist_ok=True)
    except FileNotFoundError:
        raise FileError(f"Expected an existing directory for {directory}, got none at {directory.parent}.") from None
    except FileExistsError:
        raise FileError(f"Expected a directory for parts, got the file {directory}.") from None
    if fcntl is None:
        return None
    lock = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(lock), os.stat(directory)):
            return lock
    except (BlockingIOError, FileNotFoundError):  # locked, or removed just now by who had locked it
        pass
    except OSError:  # a file system without locks
        return lock
    os.close(lock)
    raise FileError(
        f"Expected {directory} to be written by one run at a time, got another that is under way. Wait for its end, or"
        " name another place."
    )


def _read_npz(path: Path) -> tuple[str, PartColumns]:
    with np.load(path, allow_pickle=False) as arrays:
        columns = dict(arrays)
    return str(columns.pop(RUN, "")), columns


def _need_pyarrow(path: Path) -> None:
    try:
        import pyarrow.parquet  # noqa: F401
    except ImportError:
        raise FileError(
            f"Expected pyarrow, which writes Parquet files, for {path}, got none: pip install pyarrow, or name a file"
            " that ends in .csv."
        ) from None


def _write_parquet(file: Any, columns: PartColumns, run: str) -> None:
    import pyarrow
    from pyarrow import parquet

    parquet.write_table(pyarrow.table(columns).replace_schema_metadata({RUN: run}), file)


def _read_parquet(path: Path) -> tuple[str, PartColumns]:
    from pyarrow import parquet

    with open(path, "rb") as file:
        table = parquet.read_table(file)
    columns = {name: table[name].to_numpy() for name in table.column_names}
    plain = {name: column.astype(str) if column.dtype == object else column for name, column in columns.items()}
    return (table.schema.metadata or {}).get(RUN.encode(), b"").decode(), plain


def _as_parquet(parts: Iterator[PartColumns], directory: Path) -> Iterator[bytes]:
    """Yield the bytes of a Parquet file with one row group for each part."""
    import pyarrow
    from pyarrow import parquet

    writer = None
    with TemporaryFile(dir=directory) as file:
        for columns in parts:
            table = pyarrow.table(columns)
            writer = writer or parquet.ParquetWriter(file, table.schema)
            writer.write_table(table.cast(writer.schema))
        if writer is not None:
            writer.close()
        file.seek(0)
        yield from iter(partial(file.read, 2**20), b"")


def _as_csv(parts: Iterator[PartColumns]) -> Iterator[str]:
    """Yield the lines of a CSV file, names first; what is NaN is left blank."""
    has_header = False
    for columns in parts:
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        if not has_header:
            writer.writerow(columns)
        has_header = True
        writer.writerows(zip(*map(_cells, columns.values()), strict=True))
        yield text.getvalue()


def _cells(column: NDArray) -> list[Any]:
    cells = column.tolist()
    return ["" if cell != cell else cell for cell in cells] if column.dtype.kind == "f" else cells


def identify(files: tuple[str, ...]) -> list[list[Any]]:
    """Return what tells files from others, without reading them: names, sizes and times of the last change."""
    found: list[list[Any]] = []
    for path in files:
        known = os.stat(path) if os.path.isfile(path) else None
        found.append([path] if known is None else [os.path.abspath(path), known.st_size, known.st_mtime_ns])
    return found

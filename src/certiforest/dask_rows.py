"""Rows of dask: certified block by block, lazily, wherever dask runs; the one room that knows dask.

The input's partitions stay: each becomes one task, a call of one `Certifier`, which goes to each worker once. Nothing
is certified before something is computed.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any
from uuid import uuid4

import dask
import numpy as np
from dask import array as da
from numpy.typing import NDArray

from certiforest.certificates import Certificates
from certiforest.certifier import Certifier
from certiforest.ensemble.rows import RowError
from certiforest.rows.row_counts import CountedRows, RowCounts
from certiforest.verdicts import Verdict
from certiforest.words import reason

SPLIT_EVERY = 16  # counts of so many blocks are added up at a time
SECONDS_TO_ANSWER = 10  # for a scheduler
MADE = ("verdict", "radius_is_exact")  # from other findings


def certify_lazily(certifier: Certifier, X: Any, y: Any, total_time_limit: float, progress: Any) -> LazyCertificates:
    """Return what will be found about the rows of a dask array or frame; see `certiforest.certify`."""
    for name, is_given, why in [
        ("total_time_limit", total_time_limit < math.inf, "blocks do not know of each other: limit rows by time_limit"),
        ("progress", progress is not None, "dask has progress bars of its own"),
        ("n_jobs", certifier.n_jobs != 1, "threads are those of dask's workers"),
        ("proof", certifier.proof, "proofs are kept for rows in memory: certify a block of them"),
    ]:
        if is_given:
            raise ValueError(f"Expected no {name} for rows of dask, got one: {why}.")
    if isinstance(X, da.Array):
        return _of_array(certifier, X, y)
    from dask import dataframe as dd

    if isinstance(X, dd.DataFrame):
        return _of_frame(certifier, X, y)
    raise RowError(f"Expected rows as a dask array or frame, got a {type(X).__name__}; call X.compute() first.")


class NoWorkersError(ValueError):
    """There is no scheduler to ask for workers, or it has none."""


@contextmanager
def workers(address: str | None, n_workers: int | None) -> Iterator[tuple[Callable[..., Any], int]]:
    """Yield what has a function called on workers of dask, and how many such calls should be under way at once.

    Parameters
    ----------
    address : str, optional
        Of a scheduler; if not given, workers are started here.
    n_workers : int, optional
        How many processes to start.
    """
    from distributed import Client, LocalCluster

    # Rows go with their task, so that another worker can take over when one is lost.
    options = {"distributed.admin.large-graph-warning-threshold": "1GB", "distributed.logging.distributed": "error"}
    with dask.config.set(options), ExitStack() as opened:
        try:
            place: Any = address
            if address is None:
                local = LocalCluster(n_workers=n_workers, threads_per_worker=1, dashboard_address=None, silence_logs=50)
                place = opened.enter_context(local)
            client = opened.enter_context(Client(place, timeout=SECONDS_TO_ANSWER))
            n_threads = sum(worker["nthreads"] for worker in client.scheduler_info(n_workers=-1)["workers"].values())
        except (OSError, ValueError) as error:
            raise NoWorkersError(
                f"Expected a scheduler of dask at {address}, got none in {SECONDS_TO_ANSWER} seconds ({reason(error)})."
                " Start one by: dask scheduler, and workers by: dask worker ADDRESS."
            ) from None
        if not n_threads:
            raise NoWorkersError(f"Expected workers at {address}, got none; start some by: dask worker ADDRESS.")
        sent: dict[int, Any] = {}

        def submit(
            function: Callable[..., Any], advance: Callable[[int], None], certifier: Certifier, *rest: Any
        ) -> Any:
            if id(certifier) not in sent:
                sent[id(certifier)] = _sent(client, certifier), certifier
            future = client.submit(function, sent[id(certifier)][0], *rest, pure=False)
            n_rows = len(rest[0])
            future.add_done_callback(lambda _: advance(n_rows))
            return future

        yield submit, 2 * n_threads


@dataclass(frozen=True, eq=False, repr=False)
class LazyCertificates(CountedRows):
    """What will be proved about rows of dask: the attributes of `Certificates`, as dask collections.

    Of an array they are arrays with its row chunks; of a frame, series and frames with its index and partitions.

    Attributes
    ----------
    found : dask array of records, or dask frame
        All findings about a row together.
    """

    found: Any
    _row_counts: RowCounts
    _empty: Certificates

    def __repr__(self) -> str:
        of_none = repr(self._empty).partition("\n")[2]
        return f"Certificates of rows in {self.found.npartitions} partitions, not made yet: call compute()\n{of_none}"

    def __getattr__(self, name: str) -> Any:
        """Return one fact about each row: prediction, stable, method, label, radius, radius_upper, radius_is_exact."""
        if name.startswith("_") or name not in _names(self._empty):
            raise AttributeError(f"{type(self).__name__} has no {name!r}: was it asked for?")
        return self.found[name]

    @property
    def tolerance(self) -> float | None:  # type: ignore[override]
        """That of a regressor."""
        return self._empty.tolerance

    @property
    def witness(self) -> Any:
        """For each unstable row, a row in reach that is predicted otherwise; NaN elsewhere. None if not asked for."""
        if self._empty.witness is None:
            return None
        return self.found["witness"] if isinstance(self.found, da.Array) else self.found[_witness_names(self._empty)]

    @property
    def verdict(self) -> Any:
        """The `Verdict` of each row of an array, its name for rows of a frame; needs labels."""
        self._check_labels()
        names = self.found["verdict"]
        return da.map_blocks(_as_verdicts, names, dtype=object) if isinstance(names, da.Array) else names

    @property
    def row_counts(self) -> RowCounts:
        """How many rows of each class come out how, added up block by block, then group by group."""
        return self._row_counts

    def to_frame(self) -> Any:
        """Return a dask frame: the columns of `Certificates.to_frame`, the index and partitions of the rows."""
        empty = replace(self._empty, index=None).to_frame()
        if not isinstance(self.found, da.Array):
            return self.found[list(empty.columns)]
        from dask import dataframe as dd

        blocks = [dask.delayed(_as_frame)(block, self._empty) for block in self.found.to_delayed().ravel()]
        return dd.from_delayed(blocks, meta=empty, verify_meta=False)

    def compute(self, **options: Any) -> Certificates:
        """Certify all rows now; the options are those of ``dask.compute``."""
        (found,) = dask.compute(self.found, **options)
        return _certificates(found, self._empty)


def _certificates(found: Any, empty: Certificates) -> Certificates:
    """Return certificates of records, or of a frame, of findings."""
    kinds = {name: kind for name, kind in _names(empty).items() if name not in MADE}
    columns: dict[str, Any] = {name: np.asarray(found[name]).astype(kind) for name, kind in kinds.items()}
    if empty.witness is not None:
        is_array = isinstance(found, np.ndarray)
        columns["witness"] = found["witness"] if is_array else found[_witness_names(empty)].to_numpy()
    return replace(empty, index=getattr(found, "index", None), **columns)


def _names(empty: Certificates) -> dict[str, np.dtype]:
    """Return what is found about each row, and of which type, witnesses left out."""
    columns = dict(empty.to_columns())
    for name in _witness_names(empty):
        del columns[name]
    if empty.label is not None:
        columns["label"] = empty.label
    return {name: column.dtype for name, column in columns.items()}


def _witness_names(empty: Certificates) -> list[str]:
    return list(empty.to_columns())[-empty.witness.shape[1] :] if empty.witness is not None else []


def _of_array(certifier: Certifier, X: Any, y: Any) -> LazyCertificates:
    if X.ndim != 2 or X.shape[1] != certifier.ensemble.n_features:
        certifier.ensemble.rows(np.empty((0,) * X.ndim if X.ndim != 2 else (0, X.shape[1])))
    X = X.rechunk({1: -1})
    y = None if y is None else _labels_beside(X, y)
    empty = _empty(certifier, y)
    records = da.map_blocks(
        _records, X, *([] if y is None else [y[:, None]]), certifier=_shared(certifier), drop_axis=1,
        dtype=_dtype(empty), meta=np.empty(0, _dtype(empty)),
    )  # fmt: skip
    n_counts = len(empty.classes) * 6  # type: ignore[arg-type]
    counts = records.map_blocks(
        _count_records, empty, new_axis=1, chunks=((1,) * records.numblocks[0], (n_counts,)), dtype=np.int64,
        meta=np.empty((0, 0), np.int64),
    )  # fmt: skip
    return LazyCertificates(records, _added_up(counts, empty), empty)


def _of_frame(certifier: Certifier, X: Any, y: Any) -> LazyCertificates:
    from dask import dataframe as dd
    from dask.dataframe.dispatch import make_meta

    certifier.ensemble.rows(make_meta(X))
    y = None if y is None else _series_beside(X, y)
    empty = _empty(certifier, y)
    meta = _as_found(replace(empty, index=make_meta(X).index))
    found = dd.map_partitions(
        _frame, X, *([] if y is None else [y]), certifier=_shared(certifier), meta=meta, align_dataframes=False,
        enforce_metadata=False,
    )  # fmt: skip
    counts = found.map_partitions(_count_frame, empty, meta=_count_frame(meta, empty), enforce_metadata=False)
    return LazyCertificates(found, _added_up(counts.to_dask_array(lengths=[1] * X.npartitions), empty), empty)


def _labels_beside(X: Any, y: Any) -> Any:
    """Return labels with the row chunks of an array."""
    if hasattr(y, "to_dask_array"):
        y = y.to_dask_array()
    is_known = not any(math.isnan(size) for size in X.chunks[0])
    if not isinstance(y, da.Array):
        if not is_known:
            raise RowError("Expected y as a dask array beside rows in chunks of unknown size, got one in memory.")
        y = da.from_array(np.asarray(y), chunks=-1)
    if y.ndim != 1 or (not math.isnan(y.shape[0]) and is_known and y.shape[0] != X.shape[0]):
        raise RowError(f"Expected one label per row, {X.shape[0]} in all, got shape {y.shape}.")
    if is_known and not math.isnan(y.shape[0]):
        return y.rechunk((X.chunks[0],))
    if y.numblocks[0] != X.numblocks[0]:
        raise RowError(
            f"Expected y in the {X.numblocks[0]} chunks of X, got {y.numblocks[0]}, and sizes are unknown; call"
            " compute_chunk_sizes() on both first."
        )
    return y


def _series_beside(X: Any, y: Any) -> Any:
    """Return labels with the partitions of a frame."""
    from dask import dataframe as dd

    if not isinstance(y, dd.Series):
        raise RowError(f"Expected y as a dask series beside a dask frame, got a {type(y).__name__}.")
    if X.known_divisions and y.known_divisions and X.divisions != y.divisions:
        return y.repartition(divisions=X.divisions, force=True)
    if X.npartitions != y.npartitions:
        raise RowError(
            f"Expected y in the {X.npartitions} partitions of X, got {y.npartitions}, and divisions are unknown; take"
            " both from one frame, or set its index first."
        )
    return y


def _empty(certifier: Certifier, y: Any) -> Certificates:
    """Return the findings about no rows: they have the types of all others. The model stays out of the tasks."""
    classes = certifier.ensemble.classes
    found = certifier.certify(np.empty((0, certifier.ensemble.n_features)), None if y is None else classes[:0])
    return replace(found, ensemble=None)


def _shared(certifier: Certifier) -> Any:
    """Return a certifier that goes to each worker once: a result on the cluster, or one task that others depend on.

    What is on a cluster is known there alone: findings are computed there.
    """
    distributed = sys.modules.get("distributed")
    if distributed is not None and dask.config.get("scheduler", "dask.distributed") == "dask.distributed":
        try:
            return _sent(distributed.get_client(), certifier)
        except ValueError:  # there is no client
            pass
    return dask.delayed(certifier, traverse=False)


def _sent(client: Any, certifier: Certifier) -> Any:
    """Send a certifier to a scheduler, once: workers get it from each other, and it outlives any of them.

    As the result of a task it can be made again from what the scheduler keeps; scattered data cannot.
    """
    with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1TB"}):
        return client.submit(_held, certifier, pure=False, key=f"certifier-{uuid4().hex}")


def _held(certifier: Certifier) -> Certifier:
    return certifier


def _records(X: NDArray, y: NDArray | None = None, *, certifier: Certifier) -> NDArray:
    if y is not None and len(y) != len(X):
        raise RowError(f"Expected y in the chunks of X, got {len(y)} labels for a chunk of {len(X)} rows.")
    found = certifier.certify(X, None if y is None else y[:, 0]).unless_interrupted()
    records = np.empty(len(found), _dtype(found))
    for name in _names(found):
        records[name] = found.label if name == "label" else found.to_columns()[name]
    if found.witness is not None:
        records["witness"] = found.witness
    return records


def _dtype(found: Certificates) -> np.dtype:
    """Return the type of a record of findings; a witness is one field."""
    fields: list[tuple] = list(_names(found).items())
    if found.witness is not None:
        fields.append(("witness", np.float64, (found.witness.shape[1],)))
    return np.dtype(fields)


def _frame(X: Any, y: Any = None, *, certifier: Certifier) -> Any:
    if y is not None and not X.index.equals(y.index):
        raise RowError("Expected y in the partitions of X, got other rows in one of them; take both from one frame.")
    return _as_found(certifier.certify(X, y).unless_interrupted())


def _as_found(found: Certificates) -> Any:
    """Return findings and labels as a pandas frame."""
    frame = found.to_frame()
    return frame if found.label is None else frame.assign(label=found.label)


def _as_verdicts(names: NDArray[np.str_]) -> NDArray[np.object_]:
    verdicts = np.empty(len(names), object)
    verdicts[:] = [Verdict[name] for name in names]
    return verdicts


def _as_frame(records: NDArray, empty: Certificates) -> Any:
    return _certificates(records, empty).to_frame()


def _count_records(found: Any, empty: Certificates) -> NDArray[np.int64]:
    """Count the rows of a block, one row of counts."""
    return _certificates(found, empty).row_counts.table.reshape(1, -1)


def _count_frame(frame: Any, empty: Certificates) -> Any:
    table = _count_records(frame, empty)
    return type(frame)(table, columns=[f"count_{i}" for i in range(table.size)])


def _added_up(counts: Any, empty: Certificates) -> RowCounts:
    table = counts.sum(axis=0, split_every=SPLIT_EVERY).reshape(len(empty.classes), 3, 2)  # type: ignore[arg-type]
    return RowCounts(table, np.asarray(empty.classes), empty.label is not None)

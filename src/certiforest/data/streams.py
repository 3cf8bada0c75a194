"""Rows certified block by block: each block is read, certified, counted, and its part written; then comes the next.

A run that was stopped passes over the blocks whose parts are there. What a report tells of single rows, their radii and
witnesses, is found for a random sample of them: each row gets a number that depends on its own number and the seed
alone, and those with the smallest are the sample, however rows are cut and whether or not a run was stopped in between.
"""

from __future__ import annotations

import math
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, TextIO

import numpy as np
from numpy.typing import NDArray

from certiforest.certificates import Certificates
from certiforest.certifier import Certifier
from certiforest.data.cells import text_codes, texts_of
from certiforest.data.parts import PartColumns, Parts, identify
from certiforest.data.row_sample import CONFIDENCE, RowSample
from certiforest.data.sources import InputRows, Stream
from certiforest.files import FileError
from certiforest.report import gather
from certiforest.report.witnesses import witnesses_in_data
from certiforest.rows.certificate_file import lines_of, save_lines
from certiforest.rows.certified_rows import RANGES, about_now
from certiforest.rows.row_counts import RowCounts
from certiforest.verdicts import Method
from certiforest.version import __version__
from certiforest.words import feature_name

FIRST_MEASURED, MORE_MEASURED = 16, 4  # rows whose radii tell how long others take, and by how much more come next
# What a part says of its rows.
KEPT = "prediction", "stable", "method", "label", "radius", "radius_upper", "broken_relations", *RANGES
Advance = Callable[[int], None]
Progress = Callable[[str, int | None], AbstractContextManager[Advance]]
Submit = Callable[..., Any]


def work_here(function: Callable[..., Certificates], advance: Advance, *arguments: Any) -> Future[Certificates]:
    """Call a function in this process, at once."""
    future: Future[Certificates] = Future()
    future.set_result(function(*arguments, progress=advance))
    return future


class StreamRun:
    """A run through a stream of rows, and what came out of it so far.

    Parameters
    ----------
    certifier : Certifier
        Finds what is asked for all rows.
    stream : Stream
    sample : RowSample
        Rows that a report is about.
    seconds : float
        For all questions together.
    sample_seconds : float, default=inf
        For radii and witnesses of the sample, if verdicts did not take longer: rows that would take longer are left out
        of it.
    progress : callable
        Given a title and how many rows there are, yields what counts those that are done.
    model : str
        Path of the model, for reports.

    Attributes
    ----------
    parts : Parts or None
        Where findings are kept.
    row_counts : RowCounts or None
        Rows by outcome; ``methods`` counts them by what decided them.
    n_broken : int or None
        How many rows break relations of the attacker themselves; None where there are none.
    is_interrupted : bool
        Whether Ctrl-C came.
    """

    def __init__(
        self,
        certifier: Certifier,
        stream: Stream,
        sample: RowSample,
        *,
        seconds: float,
        progress: Progress,
        model: str,
        sample_seconds: float = math.inf,
    ) -> None:
        self.certifier, self.stream, self.sample = certifier, stream, sample
        self.progress, self.model = progress, model
        self.parts: Parts | None = None
        self.row_counts: RowCounts | None = None
        self.methods: Counter[str] = Counter()
        self.n_broken: int | None = None
        self.is_interrupted = False
        self._seconds, self._start, self._sample_seconds = seconds, time.monotonic(), sample_seconds
        self._proofs: TextIO | None = None
        self._proved: Certificates | None = None  # of the last block

    @property
    def n_rows(self) -> int:
        """How many rows were looked at."""
        return sum(self.methods.values())

    @property
    def n_done(self) -> int:
        """How many rows have a verdict."""
        return self.n_rows - self.methods[Method.NONE.name.lower()]

    @property
    def seconds_left(self) -> float:
        """Seconds that are left for all questions."""
        return max(self._seconds - (time.monotonic() - self._start), 0.0)

    def run(self, out: Path | None, *, replace_file: bool, submit: Submit = work_here, n_at_once: int = 1) -> None:
        """Find out all that is asked for, or as much as there is time for before Ctrl-C comes.

        Parameters
        ----------
        out : path or None
            Where findings are kept, see `Parts`; without it, or proofs, radii and witnesses are left to the sample.
        replace_file : bool
            Whether what is there may be replaced.
        submit : callable
            Has a function called with a certifier and further arguments, here or on a worker; returns what has the
            result.
        n_at_once : int
            How many blocks may be under way.
        """
        if out is None and not self.certifier.proof:
            self.certifier = self.certifier.asking()
        self.parts = None if out is None else Parts(out, self._key, replace=replace_file)
        with nullcontext() if self.parts is None else closing(self.parts):
            try:
                with self.progress("Rows", self.stream.n_rows) as advance:
                    n_blocks = self._certify_blocks(submit, n_at_once, advance)
                if self.parts is not None:
                    self.parts.finish(n_blocks)
            except KeyboardInterrupt:
                self.is_interrupted = True
            except OSError as error:
                if self.parts is None or error.errno is None or not any(self.parts.directory.iterdir()):
                    raise
                raise FileError(
                    f"Expected to write {error.filename or self.parts.directory}, got: {error.strerror}. Finished parts"
                    f" are kept in {self.parts.directory}: the same command goes on from there."
                ) from None
        self._measure_sample()

    @property
    def _key(self) -> dict[str, Any]:
        """All that verdicts depend on: parts that an earlier run left are taken over only if theirs is the same."""
        certifier, stream, source = self.certifier, self.stream, self.stream.source
        return {
            "model": certifier.ensemble.sha256,
            "attacker": certifier.attacker.to_document(),
            "attacked": None if certifier.attacked is None else certifier.attacked.tolist(),
            "input": identify(stream.files),
            "reading": [
                source.target,
                list(source.drop),
                source.kind,
                source.header,
                source.first_index,
                source.labels,
            ],
            "part": stream.first.part,
            "asked": {name: getattr(certifier, name) for name in ("radius", "witness", "time_limit", "tolerance")}
            | {"outputs": certifier.outputs is not None},
            "certiforest": __version__,
        }

    def _certify_blocks(self, submit: Submit, n_at_once: int, advance: Advance) -> int:
        """Certify the blocks whose parts are not there, count the rows of all in their order; return how many."""
        under_way: deque[tuple[int, InputRows, Any]] = deque()
        number, blocks, ahead = -1, self._blocks(), None
        has_threads = self.certifier.n_jobs > 1 or n_at_once > 1
        with ThreadPoolExecutor(1) as reader:
            while (found := next(blocks, None) if ahead is None else ahead.result()) is not None:
                number, kept, rows, read = found
                # The next one is read while this one is certified, but not before what is kept of one is counted.
                ahead = reader.submit(next, blocks, None) if has_threads and rows is not None else None
                if rows is not None:
                    arguments = self.certifier, rows.X, rows.y, self.seconds_left
                    under_way.append((number, rows, submit(_certify, advance, *arguments)))
                while under_way and (kept is not None or len(under_way) >= n_at_once):
                    self._finish(*under_way.popleft())
                if kept is not None:
                    advance(len(kept["row"]))
                    self._count(self._certificates(kept), kept["row"], read)
            while under_way:
                self._finish(*under_way.popleft())
        return number + 1

    def _blocks(self) -> Iterator[tuple[int, PartColumns | None, InputRows | None, Callable[[], InputRows]]]:
        """Yield the number of each block, what is kept of it or its rows, and what reads them."""
        start, start_of_file, path = 0, 0, ""
        for number, block in enumerate(self.stream.blocks):
            if block.path != path:
                start_of_file, path = start, block.path
            read = partial(block.read, start, start - start_of_file)
            kept = None if self.parts is None or self.certifier.proof else self.parts.read(number)
            rows = None
            if kept is None:
                rows = read()
                start += len(rows)
            else:
                start += len(kept["row"])
            yield number, kept, rows, read

    def _finish(self, number: int, rows: InputRows, future: Any) -> None:
        """Wait for what is found about a block, keep it, and count its rows."""
        found = replace(future.result(), ensemble=self.certifier.ensemble, rows=rows.X)
        if self.parts is not None and not found.is_interrupted:
            self.parts.write(number, columns_of(found, rows, self.certifier))
        if self.certifier.proof:
            self._keep_proofs(found)
        self._count(found, rows.row_numbers, lambda: rows)
        if found.is_interrupted:
            raise KeyboardInterrupt

    def _count(self, found: Certificates, row_numbers: NDArray[np.int64], read: Callable[[], InputRows]) -> None:
        """Count rows, and put those that belong to it into the sample."""
        self.row_counts = found.row_counts if self.row_counts is None else self.row_counts + found.row_counts
        if found.broken_relations is not None:
            self.n_broken = (self.n_broken or 0) + int((found.broken_relations > 0).sum())
        names, counts = np.unique(found.method, return_counts=True)
        self.methods.update(dict(zip(names.tolist(), counts.tolist(), strict=True)))
        wanted = self.sample.wants(row_numbers)
        if wanted.any():
            self.sample.add(read().take(wanted), replace(found[wanted], rows=None))

    def _certificates(self, columns: PartColumns) -> Certificates:
        """Return what a part says, but for witnesses, which are in the units of the data."""
        certifier, classes = self.certifier, self.certifier.classes
        fields: dict[str, Any] = {name: columns[name] for name in KEPT if name in columns}
        for name in {"prediction", "label"} & set(fields):
            fields[name] = fields[name].astype(np.float64 if certifier.is_regressor else classes.dtype)
        if certifier.witness:
            fields["witness"] = np.full((len(columns["row"]), certifier.ensemble.n_features), np.nan)
        names = certifier.ensemble.feature_names
        common: dict[str, Any] = {name: getattr(certifier, name) for name in ("attacker", "attacked", "tolerance")}
        return Certificates(**fields, **common, classes=classes, feature_names=names, ensemble=certifier.ensemble)

    @property
    def _verdict_seconds(self) -> float:
        """Seconds that verdicts took, once these are there."""
        return time.monotonic() - self._start

    def _measure_sample(self) -> None:
        """Find out the radii and witnesses of the rows that a report is about."""
        rows, found = self.sample.rows, self.sample.found
        if self.is_interrupted or rows is None or found is None or self.certifier.proof:
            return
        has_radii, order = self.certifier.attacker.has_norm, self.sample.as_drawn
        measurer, parts = self.certifier.asking(radius=has_radii, witness=True), list[Certificates]()
        start, n_done = time.monotonic(), 0
        end = start + max(self._sample_seconds, self._verdict_seconds)
        n_next = len(order) if math.isinf(end) else FIRST_MEASURED
        with self.progress("Radii and witnesses", len(found)) as advance:
            while n_next and n_done < len(order):
                which, before = order[n_done : n_done + n_next], time.monotonic()
                limits: dict[str, Any] = {"total_time_limit": self.seconds_left, "progress": advance}
                if has_radii:
                    parts.append(measurer.measure(rows.X[which], found[which], **limits))
                else:
                    label = None if found.label is None else found.label[which]
                    parts.append(measurer.certify(rows.X[which], label, **limits))
                n_done += len(which)
                now = time.monotonic()
                at_this_rate = len(which) * (end - now) / max(now - before, 1e-9)
                n_next = 0 if parts[-1].is_interrupted else int(max(0, min(MORE_MEASURED * len(which), at_this_rate)))
        self.sample.keep(order[:n_done], Certificates.concat(parts))
        self.is_interrupted = parts[-1].is_interrupted

    def _keep_proofs(self, found: Certificates) -> None:
        """Keep the lines of a block on disk: proofs of all rows may not fit into memory."""
        if self._proofs is None:
            self._proofs = TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115 -- it goes when the process ends
        rows = self.certifier.ensemble.rows(found.rows)
        self._proved = replace(found, rows=np.concatenate([rows[block] for block in rows.blocks()]))
        self._proofs.writelines(lines_of(self._proved))

    def save_proofs(self, path: Path, *, replace_file: bool) -> None:
        """Write the certificate of all rows."""
        assert self._proofs is not None
        assert self._proved is not None
        self._proofs.seek(0)
        save_lines(replace(self._proved, about=self.about), self._proofs, path, replace=replace_file)

    @property
    def remarks(self) -> list[str]:
        """What has to be known to read the findings right."""
        remarks, sample = [], self.sample
        if self.is_interrupted:
            of = "" if self.stream.n_rows is None else f" of {self.stream.n_rows:,}"
            remarks.append(f"Partial: stopped by Ctrl-C when {self.n_done:,}{of} rows had a verdict.")
        if not sample.is_all and sample.size:
            n_rows = 0 if sample.rows is None else len(sample.rows)
            remarks.append(
                f"Radii, curve and witnesses are those of {n_rows:,} of {self.n_rows:,} rows drawn at random"
                f" (seed {sample.seed}): with {CONFIDENCE:.0%} confidence, every share in them is within"
                f" {sample.half_width:.2%} of that of all rows."
            )
            if n_rows < min(sample.size, sample.n_offered) and not self.is_interrupted:
                remarks.append("Those of more rows would take long; --radius finds all of them.")
        return remarks

    @cached_property
    def about(self) -> dict[str, Any]:
        """How and from what it was made; files are read through for it."""
        return {**about_now(self.certifier.time_limit, self._seconds), **self.stream.first.origin(self.model)}

    def findings(self, spread: dict[str, Any]) -> dict[str, Any]:
        """Return what a report shows, as `gather` does: verdicts of all rows, radii and witnesses of the sample."""
        rows, found, row_counts = self.sample.rows, self.sample.found, self.row_counts
        assert row_counts is not None
        if rows is None or found is None:  # no radii at all were asked for
            rows, certifier = self.stream.first.take(slice(0)), self.certifier
            empty = np.empty(0, np.int64)
            found = Certificates(certifier.classes[empty], empty.astype(np.int8), np.empty(0, "<U8"))
            found = replace(found, attacker=certifier.attacker, classes=certifier.classes)
        found = replace(found, rows=rows.X, ensemble=self.certifier.ensemble, about=self.about)
        findings = gather(found, spread=spread, **rows.names_for_report(self.model))
        findings |= {
            "stability": row_counts.stability,
            "roads": dict(self.methods.most_common()),
            **row_counts.verdicts,
        }
        findings["data"] |= {"n_rows": self.n_rows, "n_broken": self.n_broken, "remarks": self.remarks}
        if not self.sample.is_all:
            findings["data"]["rows_sha256"] = None  # that of some rows says nothing
        return findings


def _certify(certifier: Certifier, X: Any, y: Any, seconds: float, progress: Advance | None = None) -> Certificates:
    found = certifier.certify(X, y, total_time_limit=seconds, progress=progress)
    return replace(found, ensemble=None, rows=None)  # they need not travel


def columns_of(found: Certificates, rows: InputRows, asked: Certifier) -> PartColumns:
    """Return one column for each fact about rows: row number, label, what `Certificates.to_frame` has.

    Witnesses are in the units of the data, categories as text where the file has text.
    """
    changed = witnesses_in_data(found, rows.scaling) if asked.witness else None
    radii = (found.radius, found.radius_upper) if asked.radius else (None, None)
    shown = replace(found, radius=radii[0], radius_upper=radii[1], witness=changed, feature_names=rows.feature_names)
    label = {} if found.label is None else {"label": found.label}
    columns = shown.to_columns()
    if changed is not None and found.ensemble is not None:
        known = text_codes(found.ensemble)
        for f, texts in rows.texts.items():
            name = f"witness_{feature_name(rows.feature_names, f)}"
            columns[name] = texts_of(changed[:, f], rows.X[:, f], texts, known[f])
    return {"row": rows.row_numbers, **label, **columns}

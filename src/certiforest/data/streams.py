"""Rows certified block by block: each block is read, certified, counted, and its part written; then comes the next.

A run that was stopped passes over the blocks whose parts are there.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, NamedTuple, TextIO

import numpy as np
from numpy.typing import NDArray

from certiforest.certificates import Certificates
from certiforest.certifier import Certifier
from certiforest.data.draw import CONFIDENCE, Draw
from certiforest.data.parts import PartColumns, Parts
from certiforest.data.sources import Sample, Stream
from certiforest.data.text_columns import TextColumns, texts_of
from certiforest.files import FileError
from certiforest.report import gather
from certiforest.report.witnesses import witnesses_in_data
from certiforest.rows.certificate_file import lines_of, save_lines
from certiforest.rows.certified_rows import about_now
from certiforest.rows.tally import Tally
from certiforest.verdicts import Method
from certiforest.words import feature_name

UNDONE = Method.NONE.name.lower()
KEPT = ("prediction", "stable", "method", "label", "radius", "radius_upper")  # what a part says of its rows
Advance = Callable[[int], None]
Progress = Callable[[str, int | None], AbstractContextManager[Advance]]
Submit = Callable[..., Any]


class Done(NamedTuple):
    """A result that is there already."""

    found: Certificates

    def result(self) -> Certificates:
        """Return it."""
        return self.found


def work_here(function: Callable[..., Certificates], advance: Advance, *arguments: Any) -> Done:
    """Call a function in this process."""
    return Done(function(*arguments, progress=advance))


class StreamRun:
    """A run through a stream of rows, and what came out of it so far.

    Parameters
    ----------
    certifier : Certifier
        Finds what is asked for all rows. Radii and witnesses are found for all rows only where parts keep them.
    stream : Stream
    parts : Parts or None
        Keeps what is found.
    draw : Draw
        Rows that a report is about.
    seconds : float
        For all questions together.
    progress : callable
        Given a title and how many rows there are, yields what counts those that are done.
    model : str
        Path of the model, for reports.

    Attributes
    ----------
    tally : Tally or None
        Rows by outcome.
    methods : Counter of str
        Rows by what decided them.
    is_interrupted : bool
        Whether Ctrl-C came.
    """

    def __init__(
        self,
        certifier: Certifier,
        stream: Stream,
        parts: Parts | None,
        draw: Draw,
        *,
        seconds: float,
        progress: Progress,
        model: str,
    ) -> None:
        self.certifier = certifier if parts is not None or certifier.proof else certifier.asking()
        self.stream, self.parts, self.draw, self.progress, self.model = stream, parts, draw, progress, model
        self.tally: Tally | None = None
        self.methods: Counter[str] = Counter()
        self.is_interrupted = False
        self._seconds, self._start = seconds, time.monotonic()
        self._proofs: TextIO | None = None
        self._proved: Certificates | None = None  # of the last block

    @property
    def n_rows(self) -> int:
        """How many rows were looked at."""
        return sum(self.methods.values())

    @property
    def n_done(self) -> int:
        """How many rows have a verdict."""
        return self.n_rows - self.methods[UNDONE]

    @property
    def seconds_left(self) -> float:
        """Seconds that are left for all questions."""
        return max(self._seconds - (time.monotonic() - self._start), 0.0)

    def run(self, submit: Submit = work_here, n_at_once: int = 1) -> None:
        """Find out all that is asked for, or as much as there is time for before Ctrl-C comes.

        Parameters
        ----------
        submit : callable
            Has a function called with a certifier and further arguments, here or on a worker; returns what has the
            result.
        n_at_once : int
            How many blocks may be under way.
        """
        n_blocks = 0
        try:
            with self.progress("Rows", self.stream.n_rows) as advance:
                for found, row_numbers, read in self._results(submit, n_at_once, advance):
                    n_blocks += 1
                    self._count(found, row_numbers, read)
            if self.parts is not None and not self.is_interrupted:
                self.parts.finish(n_blocks)
        except KeyboardInterrupt:
            self.is_interrupted = True
        except OSError as error:
            if self.parts is None or error.errno is None or not any(self.parts.directory.iterdir()):
                raise
            raise FileError(
                f"Expected to write {error.filename or self.parts.directory}, got: {error.strerror}. Finished parts are"
                f" kept in {self.parts.directory}: the same command goes on from there."
            ) from None

    def _results(
        self, submit: Submit, n_at_once: int, advance: Advance
    ) -> Iterator[tuple[Certificates, NDArray[np.int64], Callable[[], Sample]]]:
        """Yield what is found about each block, its row numbers and what reads it, until Ctrl-C comes; write parts."""
        pending: deque[tuple[int, Sample, Any]] = deque()

        def finish() -> tuple[Certificates, NDArray[np.int64], Callable[[], Sample]]:
            number, rows, future = pending.popleft()
            found = replace(future.result(), ensemble=self.certifier.ensemble, rows=rows.X)
            self.is_interrupted = self.is_interrupted or found.is_interrupted
            if self.parts is not None and not found.is_interrupted:
                self.parts.write(number, columns_of(found, rows, self.certifier))
            if self.certifier.proof:
                self._keep_proofs(found)
            return found, rows.row_numbers, lambda: rows

        start, start_of_file, path = 0, 0, ""
        for number, block in enumerate(self.stream.blocks):
            if block.path != path:
                start_of_file, path = start, block.path
            read = partial(block.read, start, start - start_of_file)
            kept = None if self.parts is None or self.certifier.proof else self.parts.read(number)
            if kept is None:
                rows = read()
                start += len(rows.X)
                arguments = self.certifier, rows.X, rows.y, self.seconds_left
                pending.append((number, rows, submit(_certify, advance, *arguments)))
            else:
                start += len(kept["row"])
                advance(len(kept["row"]))
            while pending and (kept is not None or len(pending) >= n_at_once) and not self.is_interrupted:
                yield finish()
            if self.is_interrupted:
                return
            if kept is not None:
                yield self._certificates(kept), kept["row"], read
        while pending and not self.is_interrupted:
            yield finish()

    def _count(self, found: Certificates, row_numbers: NDArray[np.int64], read: Callable[[], Sample]) -> None:
        """Count rows, and put those that belong to it into the sample."""
        self.tally = found.tally if self.tally is None else self.tally + found.tally
        names, counts = np.unique(found.method, return_counts=True)
        self.methods.update(dict(zip(names.tolist(), counts.tolist(), strict=True)))
        wanted = self.draw.wants(row_numbers)
        if wanted.any():
            self.draw.add(read().take(wanted), replace(found[wanted], rows=None))

    def _certificates(self, columns: PartColumns) -> Certificates:
        """Return what a part says, but for witnesses, which are in the units of the data."""
        certifier, classes = self.certifier, self.certifier.ensemble.classes
        fields: dict[str, Any] = {name: columns[name] for name in KEPT if name in columns}
        for name in {"prediction", "label"} & set(fields):
            fields[name] = fields[name].astype(classes.dtype)
        if certifier.witness:
            fields["witness"] = np.full((len(columns["row"]), certifier.ensemble.n_features), np.nan)
        names = certifier.ensemble.feature_names
        common: dict[str, Any] = {"attacker": certifier.attacker, "attacked": certifier.attacked}
        return Certificates(**fields, **common, classes=classes, feature_names=names, ensemble=certifier.ensemble)

    def measure_draw(self) -> None:
        """Find out the radii and witnesses of the rows that a report is about."""
        rows, found = self.draw.rows, self.draw.found
        if self.is_interrupted or rows is None or found is None or self.certifier.proof:
            return
        has_radii = self.certifier.attacker.has_norm
        measurer = self.certifier.asking(radius=has_radii, witness=True)
        with self.progress("Radii and witnesses", len(found)) as advance:
            limits: dict[str, Any] = {"total_time_limit": self.seconds_left, "progress": advance}
            if has_radii:
                self.draw.found = measurer.measure(rows.X, found, **limits)
            else:
                self.draw.found = measurer.certify(rows.X, found.label, **limits)
        self.is_interrupted = self.draw.found.is_interrupted

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
        remarks, draw = [], self.draw
        if self.is_interrupted:
            of = "" if self.stream.n_rows is None else f" of {self.stream.n_rows:,}"
            remarks.append(f"Partial: stopped by Ctrl-C when {self.n_done:,}{of} rows had a verdict.")
        if not draw.is_all and draw.size:
            remarks.append(
                f"Radii, curve and witnesses are those of {draw.size:,} of {self.n_rows:,} rows drawn at random"
                f" (seed {draw.seed}): with {CONFIDENCE:.0%} confidence, every share in them is within"
                f" {draw.half_width:.2%} of that of all rows."
            )
        return remarks

    @cached_property
    def about(self) -> dict[str, Any]:
        """How and from what it was made; files are read through for it."""
        return {**about_now(self.certifier.time_limit, self._seconds), **self.stream.first.origin(self.model)}

    def findings(self, spread: dict[str, Any]) -> dict[str, Any]:
        """Return what a report shows: verdicts of all rows, radii and witnesses of those that were drawn."""
        rows, found, tally = self.draw.rows, self.draw.found, self.tally
        assert tally is not None
        if rows is None or found is None:  # no radii at all were asked for
            rows, certifier = self.stream.first.take(slice(0)), self.certifier
            empty = np.empty(0, np.int64)
            found = Certificates(certifier.ensemble.classes[empty], empty.astype(np.int8), np.empty(0, "<U8"))
            found = replace(found, attacker=certifier.attacker, classes=certifier.ensemble.classes)
        found = replace(found, rows=rows.X, ensemble=self.certifier.ensemble, about=self.about)
        findings = gather(found, spread=spread, **rows.names_for_report(self.model))
        findings |= {"stability": tally.stability, "roads": dict(self.methods.most_common()), **tally.verdicts}
        findings["data"] |= {"n_rows": self.n_rows, "remarks": self.remarks}
        if not self.draw.is_all:
            findings["data"]["rows_sha256"] = None
        return findings


def _certify(certifier: Certifier, X: Any, y: Any, seconds: float, progress: Advance | None = None) -> Certificates:
    found = certifier.certify(X, y, total_time_limit=seconds, progress=progress)
    return replace(found, ensemble=None, rows=None)  # they need not travel


def columns_of(found: Certificates, rows: Sample, asked: Certifier) -> PartColumns:
    """Return one column for each fact about rows: row number, label, what `Certificates.to_frame` has.

    Witnesses are in the units of the data, categories as text where the file has text.
    """
    changed = witnesses_in_data(found, rows.scaling) if asked.witness else None
    radii = (found.radius, found.radius_upper) if asked.radius else (None, None)
    shown = replace(found, radius=radii[0], radius_upper=radii[1], witness=changed, feature_names=rows.names)
    label = {} if found.label is None else {"label": found.label}
    columns = shown.to_columns()
    if changed is not None and found.ensemble is not None:
        known = TextColumns.of(found.ensemble).codes
        for f, texts in rows.texts.items():
            name = f"witness_{feature_name(rows.names, f)}"
            columns[name] = texts_of(changed[:, f], rows.X[:, f], texts, known[f])
    return {"row": rows.row_numbers, **label, **columns}

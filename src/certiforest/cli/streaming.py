"""One walk through a stream of rows: all verdicts first, then what else was asked for, each block kept when done."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, NamedTuple, TextIO

import numpy as np
from numpy.typing import NDArray

from certiforest.certificates import Certificates
from certiforest.certifier import Certifier
from certiforest.cli import console
from certiforest.data.draw import Draw
from certiforest.data.parts import PartColumns, Parts
from certiforest.data.sources import Sample, Stream
from certiforest.data.text_columns import TextColumns, texts_of
from certiforest.files import FileError
from certiforest.report.witnesses import witnesses_in_data
from certiforest.verdicts import UNSTABLE, Method
from certiforest.verification.certificate_file import lines_of, save_lines
from certiforest.verification.tally import Tally
from certiforest.words import feature_name

UNDONE = Method.NONE.name.lower()
PIECE, KEEP_EVERY = 1024, 60.0  # radii are found so many rows at a time, and kept after so many seconds
KEPT = ("prediction", "stable", "method", "label", "radius", "radius_upper", "witness")  # of a block that is not done


class Task(NamedTuple):
    """A block of rows, what is known about them, and the rows about which something is to be found out.

    Several tasks may be about pieces of one block.
    """

    number: int
    rows: Sample
    known: Certificates | None
    todo: NDArray[np.bool_]
    is_last: bool = True


@dataclass
class Walk:
    """A walk through a stream of rows, and what came out of it so far.

    Attributes
    ----------
    certifier : Certifier
        Finds what is asked for all rows: verdicts, radii, witnesses, proofs.
    stream : Stream
    parts : Parts or None
        Keeps what is found, if all of it is asked for.
    draw : Draw
        Rows that a report is about.
    submit : callable
        Has a function called with a certifier and further arguments, here or on a worker; returns what has the result.
    n_at_once : int
        How many blocks may be under way.
    seconds : float
        For all questions together.
    tally, roads, n_parts, is_interrupted
        What came out: rows by outcome and by road, in how many blocks, whether Ctrl-C came.
    proved : Certificates or None
        Those of the last block, if proofs were asked for; ``proofs`` holds the lines of all blocks.
    """

    certifier: Certifier
    stream: Stream
    parts: Parts | None
    draw: Draw
    submit: Callable[..., Any]
    n_at_once: int
    seconds: float
    tally: Tally | None = None
    roads: Counter[str] = field(default_factory=Counter)
    n_parts: int = 0
    is_interrupted: bool = False
    proved: Certificates | None = None
    proofs: TextIO | None = None

    def __post_init__(self) -> None:
        self._start = time.monotonic()
        # Radii and witnesses come after all verdicts; proofs come with them.
        asked = self.certifier
        self._has_more = self.parts is not None and (asked.radius or asked.witness) and not asked.proof

    @property
    def n_rows(self) -> int:
        """How many rows were looked at."""
        return sum(self.roads.values())

    @property
    def n_done(self) -> int:
        """How many rows have a verdict."""
        return self.n_rows - self.roads[UNDONE]

    @property
    def seconds_left(self) -> float:
        """Seconds that are left for all questions."""
        return max(self.seconds - (time.monotonic() - self._start), 0.0)

    def run(self) -> None:
        """Find out all that is asked for, or as much as there is time for before Ctrl-C comes."""
        try:
            with console.progress_bar("Verdicts", self.stream.n_rows) as advance:
                self._find_verdicts(advance)
            if self._has_more and not self.is_interrupted:
                with console.progress_bar("Radii and witnesses", self.n_rows) as advance:
                    self._find_more(advance)
            if self.parts is not None and not self.is_interrupted:
                self.parts.finish(self.n_parts)
        except KeyboardInterrupt:
            self.is_interrupted = True
        except OSError as error:
            if self.parts is None or error.errno is None or not self.parts.directory.exists():
                raise
            raise FileError(
                f"Expected to write {error.filename or self.parts.directory}, got: {error.strerror}. Finished parts are"
                f" kept in {self.parts.directory}: the same command goes on from there."
            ) from None

    def measure_draw(self) -> None:
        """Find out the radii and witnesses of the rows that a report is about."""
        rows, found = self.draw.rows, self.draw.found
        if self.is_interrupted or rows is None or found is None or self.certifier.proof:
            return
        has_radii = self.certifier.attacker.has_norm
        measurer = self.certifier.asking(radius=has_radii, witness=True)
        with console.progress_bar("Radii and witnesses", len(found)) as advance:
            limits: dict[str, Any] = {"total_time_limit": self.seconds_left, "progress": advance}
            if has_radii:
                self.draw.found = measurer.measure(rows.X, found, **limits)
            else:
                self.draw.found = measurer.certify(rows.X, found.label, **limits)
        self.is_interrupted = self.draw.found.is_interrupted

    def _find_verdicts(self, advance: console.Steps) -> None:
        def tasks() -> Iterator[Task]:
            place = Place()
            for number, block in enumerate(self.stream.blocks()):
                place.enter(block.path)
                self.n_parts = number + 1
                kept = None if self.parts is None or self.certifier.proof else self.parts.read(number)
                known = None if kept is None else self._certificates(kept.columns)
                if kept is not None and known is not None and not (known.method == UNDONE).any():
                    self._count(known, kept.columns["row"], partial(block.read, *place.before))
                    place.add(len(known))
                    advance(len(known))
                    continue
                rows = block.read(*place.before)
                place.add(len(rows.X))
                todo = np.ones(len(rows.X), bool) if known is None else known.method == UNDONE
                advance(int((~todo).sum()))
                yield Task(number, rows, known, todo)

        certifier = self.certifier if self.certifier.proof else self.certifier.asking()
        for task, found in self._results(_certify, certifier, tasks(), advance):
            is_cut = found.is_interrupted if self.certifier.proof else bool((found.method == UNDONE).any())
            self._keep(task, found, is_open=self._has_more or is_cut)
            self._count(found, task.rows.row_numbers, lambda task=task: task.rows)  # type: ignore[misc]
            if self.certifier.proof:
                self._keep_proofs(found)

    def _keep_proofs(self, found: Certificates) -> None:
        """Keep the lines of a block on disk: proofs of all rows may not fit into memory."""
        if self.proofs is None:
            self.proofs = TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115 -- it goes when the process ends
        rows = self.certifier.ensemble.rows(found.rows)
        self.proved = replace(found, rows=np.concatenate([rows[block] for block in rows.blocks()]))
        self.proofs.writelines(lines_of(self.proved))

    def save_proofs(self, path: Path, about: dict[str, Any], *, replace_file: bool) -> None:
        """Write the certificate of all rows."""
        assert self.proofs is not None
        assert self.proved is not None
        self.proofs.seek(0)
        save_lines(replace(self.proved, about=about), self.proofs, path, replace=replace_file)

    def _find_more(self, advance: console.Steps) -> None:
        parts = self.parts
        assert parts is not None

        def tasks() -> Iterator[Task]:
            place = Place()
            for number, block in enumerate(self.stream.blocks()):
                place.enter(block.path)
                kept = parts.read(number)
                assert kept is not None
                known = self._certificates(kept.columns)
                if kept.is_open:
                    known, todo = self._open_rows(known)
                    advance(int((~todo).sum()))
                    rows, of_row = block.read(*place.before), np.cumsum(todo) - 1
                    for first in range(0, max(int(todo.sum()), 1), PIECE):
                        piece = todo & (first <= of_row) & (of_row < first + PIECE)
                        yield Task(number, rows, known, piece, first + PIECE >= todo.sum())
                else:
                    self.draw.update(kept.columns["row"], known)
                    advance(len(known))
                place.add(len(known))

        kept_at = time.monotonic()
        for task, found in self._results(_measure, self.certifier, tasks(), advance):
            is_open = found.is_interrupted or not task.is_last
            if task.is_last or found.is_interrupted or time.monotonic() - kept_at >= KEEP_EVERY:
                self._keep(task, found, is_open=is_open)
                kept_at = time.monotonic()
            if not is_open:
                self.draw.update(task.rows.row_numbers, found)

    def _open_rows(self, known: Certificates) -> tuple[Certificates, NDArray[np.bool_]]:
        """Return what is known about a block, with places for all that is asked, and which rows lack something."""
        n_rows = len(known)
        columns: dict[str, Any] = {}
        if self.certifier.radius and known.radius is None:
            columns = {"radius": np.zeros(n_rows), "radius_upper": np.full(n_rows, np.inf)}
        if self.certifier.witness and known.witness is None:
            columns["witness"] = np.full((n_rows, self.certifier.ensemble.n_features), np.nan)
        known, todo = replace(known, **columns), np.zeros(n_rows, bool)
        if known.radius is not None and known.radius_upper is not None:
            todo = (known.radius == 0) & (known.radius_upper == np.inf)
        if known.witness is not None:
            todo |= (known.stable == UNSTABLE) & np.isnan(known.witness).all(axis=1)
        return known, todo

    def _results(
        self, function: Callable[..., Certificates], certifier: Certifier, tasks: Iterator[Task], advance: console.Steps
    ) -> Iterator[tuple[Task, Certificates]]:
        """Have tasks done, several at once; yield them in their order, until Ctrl-C comes.

        With a task comes all that is found about its block until then.
        """
        pending: deque[tuple[Task, Any]] = deque()
        before: tuple[int, Certificates] | None = None

        def finish() -> tuple[Task, Certificates]:
            nonlocal before
            task, future = pending.popleft()
            if before is not None and before[0] == task.number:
                task = task._replace(known=before[1])
            found = _merged(task, future.result())
            before = task.number, found
            self.is_interrupted = self.is_interrupted or found.is_interrupted
            return task, replace(found, ensemble=self.certifier.ensemble, rows=task.rows.X)

        for task in tasks:
            rows = task.rows.take(task.todo)
            known = None if task.known is None else replace(task.known[task.todo], ensemble=None)
            arguments = certifier, rows.X, rows.y, known, self.seconds_left
            pending.append((task, self.submit(function, advance, *arguments)))
            if len(pending) >= self.n_at_once:
                yield finish()
            if self.is_interrupted:
                return
        while pending and not self.is_interrupted:
            yield finish()

    def _certificates(self, columns: PartColumns) -> Certificates:
        """Return what a part says, but for witnesses in the units of the data."""
        certifier, classes = self.certifier, self.certifier.ensemble.classes
        fields: dict[str, Any] = {name: columns[name] for name in KEPT if name in columns}
        for name in ("prediction", "label"):
            if name in fields:
                fields[name] = fields[name].astype(classes.dtype)
        names = certifier.ensemble.feature_names
        common: dict[str, Any] = {"attacker": certifier.attacker, "attacked": certifier.attacked}
        return Certificates(**fields, **common, classes=classes, feature_names=names, ensemble=certifier.ensemble)

    def _keep(self, task: Task, found: Certificates, *, is_open: bool) -> None:
        """Write what was found about a block: all of it as people want it, or what is there so far."""
        if self.parts is None:
            return
        if is_open:
            columns = {name: getattr(found, name) for name in KEPT if getattr(found, name) is not None}
            columns = {"row": task.rows.row_numbers, **columns}
        else:
            columns = columns_of(found, task.rows, radius=self.certifier.radius, witness=self.certifier.witness)
        self.parts.write(task.number, columns, is_open=is_open)

    def _count(self, found: Certificates, row_numbers: NDArray[np.int64], read: Callable[[], Sample]) -> None:
        """Count rows, and put those that belong to it into the sample."""
        self.tally = found.tally if self.tally is None else self.tally + found.tally
        names, counts = np.unique(found.method, return_counts=True)
        self.roads.update(dict(zip(names.tolist(), counts.tolist(), strict=True)))
        wanted = self.draw.wants(row_numbers)
        if wanted.any():
            if not self.certifier.proof:
                found = replace(found, radius=None, radius_upper=None, witness=None, rows=None)
            self.draw.add(read().take(wanted), found[wanted])


class Place:
    """How many rows come before the next block, in all files and in its own."""

    def __init__(self) -> None:
        self._start, self._start_of_file, self._path = 0, 0, ""

    def enter(self, path: str) -> None:
        """Say in which file the next block is."""
        if path != self._path:
            self._start_of_file, self._path = self._start, path

    def add(self, n_rows: int) -> None:
        """Pass a block."""
        self._start += n_rows

    @property
    def before(self) -> tuple[int, int]:
        """What a block's ``read`` takes."""
        return self._start, self._start - self._start_of_file


class Done(NamedTuple):
    """A result that is there already."""

    found: Certificates

    def result(self) -> Certificates:
        """Return it."""
        return self.found


def work_here(function: Callable[..., Certificates], advance: console.Steps, *arguments: Any) -> Done:
    """Call a function in this process."""
    return Done(function(*arguments, progress=advance))


def _certify(
    certifier: Certifier, X: Any, y: Any, known: None, seconds: float, progress: Callable[[int], None] | None = None
) -> Certificates:
    found = certifier.certify(X, y, total_time_limit=seconds, progress=progress)
    return replace(found, ensemble=None, rows=None)  # they need not travel


def _measure(
    certifier: Certifier,
    X: Any,
    y: Any,
    known: Certificates,
    seconds: float,
    progress: Callable[[int], None] | None = None,
) -> Certificates:
    return replace(certifier.measure(X, known, total_time_limit=seconds, progress=progress), rows=None)


def _merged(task: Task, found: Certificates) -> Certificates:
    """Return what is known about all rows of a block."""
    if task.known is None or task.todo.all():
        return found
    columns: dict[str, Any] = {}
    for name in KEPT:
        new, old = getattr(found, name), getattr(task.known, name)
        columns[name] = None  # what nobody asked for
        if new is not None and old is not None:
            columns[name] = old.copy()
            columns[name][task.todo] = new
    return replace(found, **columns)


def columns_of(found: Certificates, rows: Sample, *, radius: bool, witness: bool) -> PartColumns:
    """Return one column for each fact about rows: row number, label, what `Certificates.to_frame` has.

    Witnesses are in the units of the data, categories as text where the file has text.
    """
    changed = witnesses_in_data(found, rows.scaling) if witness else None
    radii = (found.radius, found.radius_upper) if radius else (None, None)
    shown = replace(found, radius=radii[0], radius_upper=radii[1], witness=changed, feature_names=rows.names)
    label = {} if found.label is None else {"label": found.label}
    columns = shown.to_columns()
    if changed is not None and found.ensemble is not None:
        known = TextColumns.of(found.ensemble).codes
        for f, texts in rows.texts.items():
            name = f"witness_{feature_name(rows.names, f)}"
            columns[name] = texts_of(changed[:, f], rows.X[:, f], texts, known[f])
    return {"row": rows.row_numbers, **label, **columns}

"""What `certify` and `report` share: a model, rows and an attacker, brought together and certified once."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from certiforest import __version__
from certiforest.attack.attacker import Attacker
from certiforest.certificates import Certificates
from certiforest.certification import certify
from certiforest.certifier import Certifier
from certiforest.cli import console
from certiforest.cli.options import (
    CertifyingOptions,
    DataOptions,
    InputError,
    StreamOptions,
    check_budget,
    check_work,
    open_model,
)
from certiforest.cli.streaming import Walk, work_here
from certiforest.data.draw import CONFIDENCE, Draw
from certiforest.data.parts import Parts, identify
from certiforest.data.readers import SUFFIXES
from certiforest.data.sources import Sample, Source, Stream
from certiforest.ensemble import TreeEnsemble
from certiforest.ensemble.blocks import block_rows
from certiforest.report import SpreadFacts, gather
from certiforest.verification.certified_rows import about_now
from certiforest.words import cut, feature_name


@dataclass(frozen=True)
class SampleQuestion:
    """Rows in memory, and the attacker from whom a model is to protect them: for `report`, `explain`, `compare`."""

    model: str
    ensemble: TreeEnsemble
    rows: Sample
    attacker: Attacker
    options: CertifyingOptions

    def answer(self, *, radius: bool, witness: bool, title: str) -> Certificates:
        """Certify the rows; Ctrl-C is passed on."""
        with console.progress_bar(title, len(self.rows.X)) as advance:
            found = certify(
                self.ensemble,
                self.rows.X,
                self.rows.y,
                self.attacker,
                radius=radius,
                witness=witness,
                attacked=self.options.attacked_labels(self.ensemble),
                time_limit=self.options.time_limit,
                n_jobs=self.options.jobs,
                progress=advance,
            )
        found = replace(found, about={**(found.about or {}), **origin_of(self.model, self.rows)})
        return found.unless_interrupted()


def origin_of(model: str, rows: Sample) -> dict[str, Any]:
    """Return where a model and rows come from: files with their digests, and how many rows of them are left out."""
    origin: dict[str, Any] = {}
    for name, path in (("model_file", model), ("data_file", rows.source)):
        origin[name] = Path(path).name
        if Path(path).is_file():
            with open(path, "rb") as file:
                origin[f"{name}_sha256"] = hashlib.file_digest(file, "sha256").hexdigest()
    origin["rows_left_out"] = rows.n_left_out
    return origin


def names_for_report(model: str, rows: Sample) -> dict[str, Any]:
    """Return what a report calls a model, rows and their features."""
    return {
        "model": Path(model).name,
        "data": Path(rows.source).name + (f" ({rows.part} part)" if rows.part != "all" else ""),
        "feature_names": rows.names,
        "row_numbers": rows.row_numbers,
        "scaling": rows.scaling,
        "image_shape": rows.image_shape,
    }


class Asked(NamedTuple):
    """What is to be found out about all rows, and whether a report is written."""

    radius: bool
    witness: bool
    proof: bool
    report: bool


@dataclass(frozen=True)
class StreamQuestion:
    """Rows that come block by block, and the attacker from whom a model is to protect them: for `certify`."""

    model: str
    ensemble: TreeEnsemble
    source: Source
    stream: Stream
    first: Sample
    attacker: Attacker
    options: CertifyingOptions
    streaming: StreamOptions

    def answer(self, asked: Asked, out: Path | None, *, replace: bool) -> StreamRun:
        """Certify the rows, verdicts first, and keep what is found."""
        start = time.perf_counter()
        certifier = Certifier(
            self.ensemble,
            self.attacker,
            radius=asked.radius or (asked.proof and asked.report),
            witness=asked.witness or (asked.proof and asked.report),
            proof=asked.proof,
            attacked=self.attacked,
            time_limit=self.options.time_limit,
            n_jobs=self.options.jobs,
        )
        parts = None if out is None else Parts(out, self._key(asked), replace=replace)
        size = self.streaming.radius_rows
        if size is None:  # as many as a block holds, if any are needed
            size = block_rows(self.ensemble.n_features) if asked.report or asked.radius else 0
        draw = Draw(size, self.streaming.seed)
        with ExitStack() as stack:
            if parts is not None:
                stack.callback(parts.close)
            submit, n_at_once = stack.enter_context(self._workers())
            walk = Walk(certifier, self.stream, parts, draw, submit, n_at_once, self.streaming.total_time_limit)
            walk.run()
        if asked.report or asked.radius or self.streaming.radius_rows:
            walk.measure_draw()
        return StreamRun(self, walk, time.perf_counter() - start)

    @contextmanager
    def _workers(self) -> Iterator[tuple[Callable[..., Any], int]]:
        if self.streaming.workers is None and self.streaming.scheduler is None:
            yield work_here, 1
            return
        if find_spec("distributed") is None:
            raise InputError("Expected dask for --workers or --scheduler, got none: pip install 'certiforest[dask]'.")
        from certiforest.dask_rows import NoWorkersError, workers

        try:
            with workers(self.streaming.scheduler, self.streaming.workers) as (submit, n_at_once):
                yield submit, n_at_once
        except NoWorkersError as error:
            raise InputError(str(error)) from None

    @property
    def attacked(self) -> list[Any] | None:
        """The labels of rows that are attacked; None: all."""
        return self.options.attacked_labels(self.ensemble)

    def _key(self, asked: Asked) -> dict[str, Any]:
        """Return all that findings depend on."""
        reading = self.source
        return {
            "model": self.ensemble.sha256,
            "attacker": self.attacker.to_document(),
            "attacked": self.attacked,
            "input": identify(self.stream.files),
            "reading": [reading.target, list(reading.drop), reading.kind, reading.header, reading.first_index],
            "part": self.first.part,
            "asked": {"radius": asked.radius, "witness": asked.witness, "time_limit": self.options.time_limit},
            "certiforest": __version__,
        }


@dataclass(frozen=True)
class StreamRun:
    """What was certified block by block, and what came out."""

    question: StreamQuestion
    walk: Walk
    seconds: float

    @cached_property
    def about(self) -> dict[str, Any]:
        """How and from what it was made; files are read through for it."""
        options, streaming = self.question.options, self.question.streaming
        about = about_now(options.time_limit, streaming.total_time_limit)
        return {**about, **origin_of(self.question.model, self.question.first)}

    @property
    def robust_accuracy(self) -> float:
        """Share of rows that are proved robust."""
        return float("nan") if self.walk.tally is None else self.walk.tally.robust_accuracy_bounds[0]

    @property
    def robust_recall(self) -> dict[Any, float]:
        """Share of each label's rows that are proved robust."""
        return {} if self.walk.tally is None else self.walk.tally.robust_recall

    @property
    def remarks(self) -> list[str]:
        """What has to be known to read the findings right."""
        walk, remarks = self.walk, []
        if walk.is_interrupted:
            n_rows = self.question.stream.n_rows
            of = "" if n_rows is None else f" of {n_rows:,}"
            remarks.append(f"Partial: stopped by Ctrl-C when {walk.n_done:,}{of} rows had a verdict.")
        if not walk.draw.is_all and walk.draw.size:
            remarks.append(
                f"Radii, curve and witnesses are those of {walk.draw.size:,} of {walk.n_rows:,} rows drawn at random"
                f" (seed {walk.draw.seed}): with {CONFIDENCE:.0%} confidence, every share in them is within"
                f" {walk.draw.half_width:.2%} of that of all rows."
            )
        return remarks

    def how_to_go_on(self, *, replacing: Path | None) -> list[str]:
        """Return what to tell who pressed Ctrl-C; a report that was written has to be replaced."""
        parts = self.walk.parts
        if parts is None or not parts.directory.exists():
            return []
        more = "" if replacing is None else f", with --force to replace {replacing},"
        return [f"What was found is kept in {parts.directory}: the same command{more} goes on from there."]

    def findings(self, spread: SpreadFacts) -> dict[str, Any]:
        """Return what a report shows: verdicts of all rows, radii and witnesses of those that were drawn."""
        question, walk, draw = self.question, self.walk, self.walk.draw
        rows, found, tally = draw.rows, draw.found, walk.tally
        assert tally is not None
        if rows is None or found is None:  # no radii at all were asked for
            rows = question.first.take(slice(0))
            empty = np.empty(0, np.int64)
            found = Certificates(question.ensemble.classes[empty], empty.astype(np.int8), np.empty(0, "<U8"))
            found = replace(found, attacker=question.attacker, classes=question.ensemble.classes)
        found = replace(found, rows=rows.X, ensemble=question.ensemble, about=self.about)
        findings = gather(found, spread=spread, **names_for_report(question.model, rows))
        findings |= {"stability": tally.stability, "roads": dict(walk.roads.most_common()), **tally.verdicts}
        findings["data"] |= {"n_rows": walk.n_rows, "remarks": self.remarks}
        if not draw.is_all:
            findings["data"]["rows_sha256"] = None
        return findings


def ask_stream(model: Path, data: DataOptions, options: CertifyingOptions, streaming: StreamOptions) -> StreamQuestion:
    """Read a model and the first rows, and make the attacker."""
    ensemble = _open(model, data, options)
    source = data.source()
    stream = source.stream(ensemble, options.part)
    first = next((block.read(0, 0) for block in stream.blocks()), None)
    if first is None or not len(first.X):
        raise InputError(f"Expected rows, got none in {stream.files[0]}.")
    attacker = _attacker(model, first, ensemble, options, data)
    return StreamQuestion(str(model), ensemble, source, stream, first, attacker, options, streaming)


def ask_sample(model: Path, data: DataOptions, options: CertifyingOptions) -> SampleQuestion:
    """Read a model and rows, and make the attacker."""
    ensemble = _open(model, data, options)
    rows = data.source().load(ensemble, options.part)
    return SampleQuestion(str(model), ensemble, rows, _attacker(model, rows, ensemble, options, data), options)


def _open(model: Path, data: DataOptions, options: CertifyingOptions) -> TreeEnsemble:
    check_work(options.time_limit, options.jobs)
    check_budget(options.attacker_file, options.eps)
    if Path(data.data).suffix.lower() == ".json" and model.suffix.lower() in SUFFIXES:
        raise InputError(f"Expected the model before the data, got {str(model)!r} before {data.data!r}.")
    ensemble = open_model(model)
    options.attacked_labels(ensemble)
    return ensemble


def _attacker(
    model: Path, rows: Sample, ensemble: TreeEnsemble, options: CertifyingOptions, data: DataOptions
) -> Attacker:
    attacker = options.whole_attacker(rows, ensemble, data)
    if not rows.is_checked:
        console.complain(
            f"warning: {model} does not say which rows it was trained on; the {rows.part} part of {rows.source} is that"
            " of the usual split, and may hold rows that the model has learned."
        )
    check_units(attacker, rows)
    return attacker


def check_units(attacker: Attacker, rows: Sample) -> None:
    """Refuse rules where columns are scaled; warn where eps is so large that it is likely meant in other units."""
    if not attacker.has_norm and rows.scaling is not None:
        raise InputError(
            "Expected rules, which speak of values as they are, without scaling, got both; train without --scale."
        )
    if attacker.norm == 0 or not attacker.has_norm:
        return
    n_features = rows.X.shape[1]
    if attacker.scale is not None:  # whoever gives units has thought of them
        return
    # Scaled features have a range of 1, whatever part of it these rows fill. Halves cannot overflow.
    # What is missing does not count.
    low, high = np.fmin.reduce(rows.X), np.fmax.reduce(rows.X)
    half = high / 2 - low / 2 if rows.scaling is None else np.full(n_features, 0.5)
    can_move = np.any(attacker.may_move(n_features), axis=0)
    can_move[[*rows.texts, *(column for group in attacker.group_columns for column in group)]] = False
    doubtful = np.flatnonzero((half > 0) & (attacker.eps > half) & can_move)
    if doubtful.size == 0:
        return
    first = int(doubtful[half[doubtful].argmin()])
    others = f" and of {doubtful.size - 1} others" if doubtful.size > 1 else ""
    where, advice = "in these rows", "With train --scale, eps is a share of each feature's range."
    if rows.scaling is not None:
        where, advice = "after scaling", "The model is scaled: eps is a share of each feature's range."
    width = 2 * float(half[first])
    console.complain(
        f"warning: eps {attacker.eps:g} exceeds half the range ({width:g} {where}) of feature"
        f" {cut(feature_name(rows.names, first), 60)}{others}. Is it meant in other units? {advice}"
    )

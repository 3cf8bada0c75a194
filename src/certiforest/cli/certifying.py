"""What `certify` and `report` share: a model, rows and an attacker, brought together and certified once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
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
from certiforest.data.draw import Draw
from certiforest.data.parts import Parts, identify
from certiforest.data.readers import SUFFIXES
from certiforest.data.sources import Sample, Source, Stream
from certiforest.data.streams import StreamRun, Submit, work_here
from certiforest.ensemble import TreeEnsemble
from certiforest.ensemble.blocks import block_rows
from certiforest.words import cut, feature_name

REPORTED_BLOCKS = 8  # of rows whose radii a report tells, if nobody says how many


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
        found = replace(found, about={**(found.about or {}), **self.rows.origin(self.model)})
        return found.unless_interrupted()


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
    attacker: Attacker
    options: CertifyingOptions
    streaming: StreamOptions

    def answer(self, asked: Asked, out: Path | None, *, replace: bool) -> StreamRun:
        """Certify the rows, and keep what is found."""
        streaming = self.streaming
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
        size = streaming.radius_rows
        if size is None:
            size = REPORTED_BLOCKS * block_rows(self.ensemble.n_features) if asked.report or asked.radius else 0
        with ExitStack() as stack:
            parts = None if out is None else stack.enter_context(Parts(out, self._key(asked), replace=replace))
            draw, limit = Draw(size, streaming.seed), streaming.total_time_limit
            how = console.progress_bar
            run = StreamRun(certifier, self.stream, parts, draw, seconds=limit, progress=how, model=self.model)
            run.run(*stack.enter_context(self._workers()))
        if size:
            run.measure_draw()
        return run

    @contextmanager
    def _workers(self) -> Iterator[tuple[Submit, int]]:
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
            "part": self.stream.first.part,
            "asked": {"radius": asked.radius, "witness": asked.witness, "time_limit": self.options.time_limit},
            "certiforest": __version__,
        }


def ask_stream(model: Path, data: DataOptions, options: CertifyingOptions, streaming: StreamOptions) -> StreamQuestion:
    """Read a model and the first rows, and make the attacker."""
    ensemble = _open(model, data, options)
    source = data.source()
    stream = source.stream(ensemble, options.part)
    attacker = _attacker(model, stream.first, ensemble, options, data)
    return StreamQuestion(str(model), ensemble, source, stream, attacker, options, streaming)


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

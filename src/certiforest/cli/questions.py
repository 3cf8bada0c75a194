"""What commands ask that certify rows: options that describe an attacker, and a model, rows and attacker together."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from certiforest.cli import console
from certiforest.cli.options import (
    DataOptions,
    InputError,
    Jobs,
    Part,
    check_between,
    check_jobs,
    check_time_limit,
    find_label,
    open_model,
)
from certiforest.words import cut, feature_name, shown

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from certiforest.attack.attacker import Attacker
    from certiforest.certificates import Certificates
    from certiforest.data.sources import InputRows, Stream
    from certiforest.data.streams import Submit
    from certiforest.ensemble import TreeEnsemble

REPORT_SECONDS = 10.0  # for radii that nobody asked for, if verdicts did not take longer
REPORTED_BLOCKS = 8  # of rows whose radii a report tells, if nobody says how many

Domain = Annotated[
    tuple[float, float] | None, typer.Option(metavar="LOW HIGH", help="The attacker keeps every feature inside.")
]
Attacked = Annotated[
    list[str] | None, typer.Option(metavar="LABEL", help="Class whose rows are attacked; repeat for more.")
]


@dataclass(frozen=True, kw_only=True)
class AttackerOptions:
    """An attacker, described by options or by a file."""

    eps: Annotated[
        float | None, typer.Option(metavar="E", help="How far the attacker may move a row; or give --attacker.")
    ] = None
    norm: Annotated[str, typer.Option(metavar="P", help="Norm of the attacker: 0, 1, 2, 3, ... or inf.")] = "inf"
    frozen: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN", help="Feature the attacker cannot change; repeat for more.")
    ] = None
    attacker_file: Annotated[
        Path | None, typer.Option("--attacker", metavar="FILE", help="JSON file that describes the whole attacker.")
    ] = None

    def check_budget(self) -> None:
        """Refuse an attacker of whom nothing says how far it goes."""
        if self.attacker_file is None and self.eps is None:
            raise InputError("Expected --eps, or --attacker FILE that says how far the attacker goes, got neither.")

    def attacker(
        self, names: Sequence[str] | None, n_features: int, of_sets: Iterable[int] | NDArray[np.int64] = (), **more: Any
    ) -> Attacker:
        """Return the attacker of rows whose features have these names; a file's has all columns by index.

        ``of_sets`` are columns that a model tests for sets of values, ``more`` what other options say.
        """
        from certiforest.attack.attacker import Attacker
        from certiforest.attack.rules import load_attacker
        from certiforest.data.sources import find_features

        if self.attacker_file is not None:
            told = {**more, "norm": self.norm if self.norm != "inf" else None, "frozen": self.frozen or None}
            others = [f"--{name}" for name, value in told.items() if value is not None]
            if others:
                raise InputError(f"Expected --attacker, or {', '.join(others)}, got both: say it all in the file.")
            return load_attacker(self.attacker_file, self.eps).resolve(n_features, names, of_sets)
        if self.norm.strip().startswith(("-", "_")):
            raise InputError(f"Expected --norm to be 0, 1, 2, 3, ... or inf, got {shown(self.norm)}.")
        return Attacker(self.norm, self.eps or 0.0, frozen=find_features(self.frozen, names, n_features), **more)


def _by_column(
    option: str,
    texts: Sequence[str] | None,
    names: Sequence[str] | None,
    n_features: int,
    read: Callable[[str], Any],
) -> Any:
    """Return what COLUMN=VALUE says, by index, or what a VALUE alone says of all columns; None if nothing is said."""
    from certiforest.data.sources import find_features

    told = [text.rpartition("=") for text in texts or ()]
    if not told:
        return None
    if len(told) == 1 and not told[0][1]:
        return read(told[0][2])
    if not all(equals for _, equals, _ in told):
        raise InputError(
            f"Expected --{option} for all columns, or COLUMN=VALUE for each, got {shown(list(texts or ()))}."
        )
    columns = find_features([column for column, _, _ in told], names, n_features, option) or []
    if len(set(columns)) < len(columns):
        raise InputError(f"Expected --{option} once for each column, got two for one of them.")
    return {column: read(value) for column, (_, _, value) in zip(columns, told, strict=True)}


def _read_way(text: str | None) -> Any:
    """Read how a table gives units: range, std, or two quantiles."""
    if text is None or text in ("range", "std"):
        return text or "range"
    try:
        return tuple(float(number) for number in text.split(","))
    except ValueError:
        raise InputError(f"Expected --scale-by to be range, std or two quantiles, got {shown(text)}.") from None


def _read_unit(text: str) -> Any:
    """Read a unit, or those down and up, as DOWN,UP."""
    try:
        units = [float(number) for number in text.split(",")]
    except ValueError:
        units = []
    if len(units) not in (1, 2):
        raise InputError(f"Expected --scale to be a number, or two as DOWN,UP, got {shown(text)}.")
    return units[0] if len(units) == 1 else (units[0], units[1])


@dataclass(frozen=True, kw_only=True)
class CertifyingOptions(AttackerOptions):
    """An attacker, and how long and how widely to look for its attacks."""

    domain: Domain = None
    only: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN", help="Only these features can be changed; repeat for more.")
    ] = None
    direction: Annotated[
        list[str] | None, typer.Option(metavar="[COLUMN=]WAY", help="Features move up, down or both; repeat for more.")
    ] = None
    integer: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN", help="Feature that stays a whole number; repeat for more.")
    ] = None
    scale: Annotated[
        list[str] | None,
        typer.Option(metavar="[COLUMN=]UNIT", help="What a change of 1 means, or DOWN,UP; repeat for more columns."),
    ] = None
    scale_from: Annotated[
        str | None, typer.Option(metavar="DATA", help="Table whose ranges are the columns' units: eps is a share.")
    ] = None
    scale_by: Annotated[
        str | None, typer.Option(metavar="HOW", help="Of that table: range, std, or two quantiles such as 0.05,0.95.")
    ] = None
    attacked: Attacked = None
    part: Part = None
    time_limit: Annotated[
        float, typer.Option(metavar="SECONDS", help="For a row at which trees meet; after it the row is UNKNOWN.")
    ] = 1.0
    jobs: Jobs = 1

    def whole_attacker(self, rows: InputRows, ensemble: TreeEnsemble, data: DataOptions) -> Attacker:
        """Return the attacker of some rows, with units that a table suggests if one is named."""
        from certiforest.data.sources import find_features

        names, n_features = rows.feature_names, ensemble.n_features
        more = {
            "domain": self.domain,
            "only": find_features(self.only, names, n_features, "only"),
            "direction": _by_column("direction", self.direction, names, n_features, str),
            "integer": find_features(self.integer, names, n_features, "integer"),
            "scale": _by_column("scale", self.scale, names, n_features, _read_unit),
        }
        attacker = self.attacker(names, n_features, ensemble.categorical, **more)
        if self.scale_by is not None and self.scale_from is None:
            raise InputError("Expected --scale-from DATA with --scale-by: it says which table.")
        if self.scale_from is not None:
            from certiforest.attack.units import scale_from

            own = attacker.scale
            if rows.scaling is not None or not (own is None or (isinstance(own, dict) and self.attacker_file is None)):
                raise InputError(
                    "Expected --scale-from where nothing else scales all columns, got a model or an attacker that does."
                )
            table, _ = data.source_of(self.scale_from).open(ensemble)
            units = scale_from(table.X, _read_way(self.scale_by))
            of_numbers = {column: unit for column, unit in units.items() if column not in table.texts}
            attacker = attacker.replace(scale=of_numbers | (own or {}))
        return attacker.resolve(n_features, names, ensemble.categorical)

    def inputs(self, *files: str | Path) -> list[str | Path]:
        """Return all files that are read: these, and those that describe the attacker."""
        return [*files, *(file for file in (self.attacker_file, self.scale_from) if file is not None)]

    def attacked_labels(self, ensemble: TreeEnsemble) -> list[Any] | None:
        """Return the labels of rows that are attacked; None: all."""
        if not self.attacked:
            return None
        return [find_label("--attacked", text, ensemble.classes.tolist()) for text in self.attacked]


@dataclass(frozen=True, kw_only=True)
class StreamOptions:
    """How long to work, how many radii to find, and who works."""

    total_time_limit: Annotated[
        float,
        typer.Option(metavar="SECONDS", help="For all rows; after it each gets one attempt. Verdicts come first."),
    ] = math.inf
    radius_rows: Annotated[
        int | None,
        typer.Option(metavar="N", help="Find radii and witnesses for the report of N random rows; 0 for none."),
    ] = None
    seed: Annotated[int, typer.Option(metavar="N", help="Which rows these are.")] = 0
    workers: Annotated[int | None, typer.Option(metavar="N", help="Processes to share the work (needs dask).")] = None
    scheduler: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Scheduler of dask whose workers share the work.")
    ] = None

    def check(self) -> None:
        """Refuse numbers that mean nothing."""
        check_time_limit("--total-time-limit", self.total_time_limit)
        check_between("--radius-rows", self.radius_rows, 0, 2**24)
        check_between("--seed", self.seed, 0, 2**63 - 1)
        check_between("--workers", self.workers, 1, 10_000)
        if self.workers is not None and self.scheduler is not None:
            raise InputError("Expected --workers, which are started here, or --scheduler, got both.")

    @contextmanager
    def workers_at_hand(self) -> Iterator[tuple[Submit, int]]:
        """Yield what submits work to those who do it, and how much of it may be under way at once."""
        from certiforest.data.streams import work_here

        if self.workers is None and self.scheduler is None:
            yield work_here, 1
            return
        if find_spec("distributed") is None:
            raise InputError("Expected dask for --workers or --scheduler, got none: pip install 'certiforest[dask]'.")
        from certiforest.dask_rows import NoWorkersError, workers

        try:
            with workers(self.scheduler, self.workers) as at_hand:
                yield at_hand
        except NoWorkersError as error:
            raise InputError(str(error)) from None


@dataclass(frozen=True)
class Question:
    """A model, rows, and the attacker from whom the model is to protect them; of a stream, the rows of its start."""

    model: str
    ensemble: TreeEnsemble
    rows: InputRows
    attacker: Attacker
    options: CertifyingOptions
    stream: Stream | None

    def certify(self, *, radius: bool, witness: bool, title: str) -> Certificates:
        """Certify the rows; Ctrl-C is passed on."""
        from certiforest.certification import certify

        with console.progress_bar(title, len(self.rows)) as advance:
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


def ask(
    model: Path,
    data: DataOptions,
    options: CertifyingOptions,
    *,
    as_stream: bool = False,
    open_by: Callable[[Path], TreeEnsemble] = open_model,
) -> Question:
    """Read a model and rows, or the first of a stream, and make the attacker."""
    from certiforest.data.readers import SUFFIXES

    check_time_limit("--time-limit", options.time_limit)
    check_jobs(options.jobs)
    options.check_budget()
    if Path(data.data).suffix.lower() == ".json" and model.suffix.lower() in SUFFIXES:
        raise InputError(f"Expected the model before the data, got {str(model)!r} before {data.data!r}.")
    ensemble = open_by(model)
    options.attacked_labels(ensemble)  # before rows are read
    source = data.source()
    stream = source.stream(ensemble, options.part) if as_stream else None
    rows = source.load(ensemble, options.part) if stream is None else stream.first
    attacker = options.whole_attacker(rows, ensemble, data)
    if not rows.is_checked:
        console.complain(
            f"warning: {model} does not say which rows it was trained on; the {rows.part} part of {rows.source} is that"
            " of the usual split, and may hold rows that the model has learned."
        )
    check_units(attacker, rows)
    return Question(str(model), ensemble, rows, attacker, options, stream)


def rows_reported(n_features: int) -> int:
    """Return how many rows a report tells the radii of, if nobody says how many."""
    from certiforest.ensemble.blocks import block_rows

    return REPORTED_BLOCKS * block_rows(n_features)


def check_units(attacker: Attacker, rows: InputRows) -> None:
    """Refuse rules where columns are scaled; warn where eps is so large that it is likely meant in other units."""
    if not attacker.has_norm and rows.scaling is not None:
        raise InputError(
            "Expected rules, which speak of values as they are, without scaling, got both; train without --scale."
        )
    if attacker.norm == 0 or not attacker.has_norm or attacker.scale is not None:  # who gives units has thought of them
        return
    import numpy as np

    n_features = rows.X.shape[1]
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
        f" {cut(feature_name(rows.feature_names, first), 60)}{others}. Is it meant in other units? {advice}"
    )

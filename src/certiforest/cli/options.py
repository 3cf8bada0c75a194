"""What commands share: options as records, of data and output, and what is refused before any work is done.

`command` spreads the fields of records among the options of a command, and gathers them again when it is called.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import wraps
from glob import glob
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from certiforest.cli import console
from certiforest.files import check_readable, check_writable, file_behind, write_atomically
from certiforest.words import listed, shown

if TYPE_CHECKING:
    from certiforest.comparison import Comparison
    from certiforest.data.sources import Source
    from certiforest.ensemble import TreeEnsemble
    from certiforest.explanation import Explanation


class InputError(ValueError):
    """What was typed cannot be done."""


def command(function: Callable[..., None]) -> Callable[..., None]:
    """Return a command whose options are those of a function, with the fields of records in place of the records."""
    hints = get_type_hints(function, include_extras=True)
    options: list[tuple[str, Any, Any]] = []
    records: dict[str, tuple[Any, list[str]]] = {}
    for parameter in inspect.signature(function).parameters.values():
        kind = hints[parameter.name]
        if is_dataclass(kind):
            own = get_type_hints(kind, include_extras=True)
            records[parameter.name] = kind, [field.name for field in fields(kind)]
            options += [(field.name, own[field.name], field.default) for field in fields(kind)]
        else:
            options.append((parameter.name, kind, parameter.default))

    @wraps(function)
    def run(**given: Any) -> None:
        for name, (kind, names) in records.items():
            given[name] = kind(**{field: given.pop(field) for field in names})
        function(**given)

    run.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                annotation=kind,
                default=inspect.Parameter.empty if default is MISSING else default,
            )
            for name, kind, default in options
        ]
    )
    run.__annotations__ = {name: kind for name, kind, _ in options}
    del run.__wrapped__  # its signature is another one
    return run


ModelPath = Annotated[
    Path,
    typer.Argument(
        metavar="MODEL", help="Model file of certiforest, XGBoost, LightGBM, CatBoost (JSON), ONNX or treelite."
    ),
]
ADDED_TO = "--summary"  # the option whose file may be there without --force
Part = Annotated[
    str | None,
    typer.Option(metavar="PART", help="train, test (the 30% that 'train' held out) or all; test for named data."),
]
Jobs = Annotated[int, typer.Option(metavar="N", help="Threads; -1 for all cores.")]
BestIteration = Annotated[
    bool | None,
    typer.Option(
        "--best-iteration/--all-trees", help="After early stopping of XGBoost: trees up to the best round, or all."
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]


@dataclass(frozen=True, kw_only=True)
class ReadingOptions:
    """How to read tables."""

    target: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Label column: its name, or its index (-1 is the last).")
    ] = None
    label: Annotated[
        list[str] | None,
        typer.Option(metavar="OLD=NEW", help="Read the label OLD as NEW, say -1=0 for a model's class 0; repeat."),
    ] = None
    drop: Annotated[list[str] | None, typer.Option(metavar="COLUMN", help="Column to leave out; repeat for more.")] = (
        None
    )
    kind: Annotated[
        str | None,
        typer.Option("--format", metavar="KIND", help="csv, parquet, npz or libsvm, if the suffix does not tell."),
    ] = None
    header: Annotated[
        bool | None,
        typer.Option("--header/--no-header", help="Whether a CSV file starts with names; guessed if not given."),
    ] = None
    first_index: Annotated[
        int | None, typer.Option(metavar="0|1", help="Number of the first column in a LIBSVM file, if in doubt.")
    ] = None
    data_dir: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Directory of named datasets, else that in CERTIFOREST_DATA.")
    ] = None
    download: Annotated[
        bool, typer.Option("--download", help="Fetch a named dataset from OpenML if it is not at hand.")
    ] = False

    def source_of(self, data: str) -> Source:
        """Return a table, and these options, as the library takes them."""
        from certiforest.data.sources import Source

        check_one_of("--format", self.kind, ("csv", "parquet", "npz", "libsvm"))
        pairs = [text.split("=") for text in self.label or ()]
        if not all(len(pair) == 2 and all(pair) for pair in pairs) or len({old for old, *_ in pairs}) < len(pairs):
            raise InputError(f"Expected --label OLD=NEW once for each label, got {shown(self.label)}.")
        labels = dict(pairs)
        how = self.kind, self.header, self.data_dir, self.download, self.first_index, labels
        return Source(data, self.target, tuple(self.drop or ()), *how)


@dataclass(frozen=True, kw_only=True)
class DataOptions(ReadingOptions):
    """A table: a file or the name of a dataset, and how to read it."""

    data: Annotated[
        str,
        typer.Argument(
            metavar="DATA",
            help="CSV, Parquet, npz or LIBSVM file, a pattern of such ('rows-*.parquet', for certify), or a name from"
            " 'certiforest datasets'.",
        ),
    ]

    def source(self) -> Source:
        """Return the table as the library takes it."""
        return self.source_of(self.data)


@dataclass(frozen=True, kw_only=True)
class OutputOptions:
    """Where and how results go."""

    force: Annotated[bool, typer.Option("--force", help="Replace existing output files.")] = False
    as_json: AsJson = False

    def check(
        self, files: dict[str, Path | None], inputs: Sequence[str | Path] = (), *, place: Path | None = None
    ) -> None:
        """Refuse, before any work is done, files that cannot be written, or that are asked to hold two things.

        Parameters
        ----------
        files : dict of paths
            Files to write, by the option that names them.
        inputs : sequence of paths
            Files that are read.
        place : path, optional
            What --out names if that may be a directory, which exists or has no suffix.
        """
        paths = [path for name in map(str, inputs) for path in (glob(name, recursive=True) or [name])]
        used = {file_behind(path): path for path in paths}
        for option, path in {**files, "--out": place or files.get("--out")}.items():
            if path is None:
                continue
            if path != place or not (path.is_dir() or not (path.suffix or os.path.lexists(path))):
                check_writable(path, replace=self.force or option == ADDED_TO)
            if file_behind(path) in used:
                where = used[file_behind(path)]
                raise InputError(f"Expected {option} to be a file of its own, got {path}, which is {where} too.")
            used[file_behind(path)] = option

    def write(self, path: Path, content: str) -> None:
        """Write a file whole, or not at all."""
        write_atomically(path, content, replace=self.force)

    @staticmethod
    def check_report(option: str, path: Path, *, as_sheet: bool = False) -> None:
        """Refuse a report, or a sheet of evidence, whose suffix does not say how it is written."""
        from certiforest.report import RENDERERS, SHEETS

        suffixes = SHEETS if as_sheet else tuple(RENDERERS)
        if path.suffix.lower() not in suffixes:
            raise InputError(f"Expected {option} to end in {' or '.join(suffixes)}, got {str(path)!r}.")

    def check_page(self, out: Path | None, inputs: Sequence[str | Path]) -> None:
        """Refuse a page that is no HTML, or that `check` refuses."""
        if out is not None and out.suffix.lower() != ".html":
            raise InputError(f"Expected --out to end in .html, got {str(out)!r}.")
        self.check({"--out": out}, inputs)

    def show(self, found: Explanation | Comparison, out: Path | None) -> None:
        """Print what was found as text or JSON; also write it as a page, if one is named."""
        if out is not None:
            found.report(out, replace=self.force)
        if self.as_json:
            console.say_json(found.facts)
            return
        for line in repr(found).splitlines():
            console.say(line)
        if out is not None:
            console.say(f"Page: {out}")


def find_label(option: str, text: str, labels: Sequence[Any]) -> Any:
    """Return the label that is written so."""
    found = [label for label in labels if str(label) == text]
    if not found:
        raise InputError(f"Expected {option} to name one of the model's labels, {listed(labels)}, got {shown(text)}.")
    return found[0]


def open_model(path: Path, best_iteration: bool | None = None) -> TreeEnsemble:
    """Read a model file of whatever kind."""
    from certiforest.formats import as_ensemble

    check_readable(path, "model file")
    return as_ensemble(path, best_iteration=best_iteration)


def open_regressor(path: Path) -> TreeEnsemble:
    """Read a file of a regressor, whose sums are what it says or become that."""
    from certiforest.formats.doors import open_model as open_whole

    check_readable(path, "model file")
    opened = open_whole(path)
    if not opened.is_regressor:
        raise InputError(f"Expected a regressor with --tolerance, got {opened.name}, a classifier.")
    return opened.ensemble


def check_one_of(option: str, value: Any, choices: Sequence[str]) -> None:
    """Refuse a value that is none of some words."""
    if value is not None and value not in choices:
        raise InputError(f"Expected {option} to be {' or '.join(choices)}, got {shown(value)}.")


def check_time_limit(option: str, seconds: float) -> None:
    """Refuse a limit that means nothing."""
    if not seconds >= 0:
        raise InputError(f"Expected {option} in seconds >= 0, got {seconds}.")


def check_between(option: str, value: int | None, least: int, most: int) -> None:
    """Refuse a number outside an interval."""
    if value is not None and not least <= value <= most:
        raise InputError(f"Expected {option} between {least} and {most}, got {shown(value)}.")


def check_jobs(jobs: int) -> None:
    """Refuse a number of threads that means nothing."""
    from certiforest.ensemble.numbers import is_number_of_threads

    if not is_number_of_threads(jobs):
        raise InputError(f"Expected --jobs to be a number of threads, or -1 for all cores, got {shown(jobs)}.")

"""What people type: ``certiforest demo | train | certify | spread | report | datasets | reproduce``.

Commands are thin: they read files, call the public API, and say what came out. Exit codes: 0 done, 1 robust
accuracy below ``--require``, 2 bad input (one line on stderr), 130 interrupted. Output files appear whole
or not at all, and no existing file is replaced without ``--force``. What is slow to import is imported
where it is needed.
"""

from __future__ import annotations

import csv
import io
import json
import math
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table as TextTable

from certiforest import __version__
from certiforest.attacker import Attacker
from certiforest.certify import certify
from certiforest.datasets import is_dataset, load_dataset, split_rows
from certiforest.ensemble import TreeEnsemble, write_atomically
from certiforest.formats import as_ensemble
from certiforest.scaling import Scaling
from certiforest.spread import exact_spread, has_large_spread, largest_certifiable_eps, overlaps, spread
from certiforest.tables import Table, read_table
from certiforest.verdict import STABLE, UNDECIDED, UNSTABLE, Certificates, Verdict

# typer carries a click of its own; its errors are reached through the one that it exports.
ClickError: Any = typer.BadParameter.__mro__[2]
DONE, BELOW_REQUIRED, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130
PARTS = ("train", "test", "all")

app = typer.Typer(
    name="certiforest",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)


class InputError(ValueError):
    """What was typed cannot be done."""


# Arguments and options that several commands share.
ModelPath = Annotated[Path, typer.Argument(metavar="MODEL", help="Model file: certiforest JSON or .silva.")]
DataName = Annotated[
    str,
    typer.Argument(
        metavar="DATA", help="CSV, Parquet, npz or LIBSVM file, or a name from 'certiforest datasets'."
    ),
]
Target = Annotated[
    str | None, typer.Option(metavar="COLUMN", help="Label column: its name, or its index (-1 is the last).")
]
Norm = Annotated[str, typer.Option(metavar="P", help="Norm of the attacker: 0, 1, 2, 3, ... or inf.")]
Eps = Annotated[
    float,
    typer.Option(metavar="E", help="How far the attacker may move a row, in the model's (scaled) units."),
]
Drop = Annotated[
    list[str] | None, typer.Option(metavar="COLUMN", help="Column to leave out; repeat for more.")
]
Frozen = Annotated[
    list[str] | None,
    typer.Option(metavar="COLUMN", help="Feature the attacker cannot change; repeat for more."),
]
Kind = Annotated[
    str | None,
    typer.Option(
        "--format", metavar="KIND", help="csv, parquet, npz or libsvm, if the suffix does not tell."
    ),
]
Header = Annotated[
    bool | None,
    typer.Option("--header/--no-header", help="Whether a CSV file starts with names; guessed if not given."),
]
DataDir = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Directory of named datasets [env: CERTIFOREST_DATA].")
]
Download = Annotated[
    bool, typer.Option("--download", help="Fetch a named dataset from OpenML if it is not at hand.")
]
Domain = Annotated[
    tuple[float, float] | None,
    typer.Option(metavar="LOW HIGH", help="The attacker keeps every feature inside."),
]
Jobs = Annotated[int, typer.Option(metavar="N", help="Threads; -1 for all cores.")]
Force = Annotated[bool, typer.Option("--force", help="Replace existing output files.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]


@app.callback(invoke_without_command=True)
def _front(
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    """Tree ensembles whose robustness against evasion attacks is proved, exactly and fast.

    An attacker may move a row by eps. Every verdict is exact: ROBUST (right, and no attack changes it),
    FRAGILE (right, an attack changes it), VULNERABLE (wrong, stable), BROKEN (wrong, unstable), or UNKNOWN
    where no proof was found.

    [bold]From a CSV file to a report[/bold]

      certiforest train spam.csv --target label --scale --eps 0.02 --out model.json
      certiforest certify model.json spam.csv --target label --part test --eps 0.02 --report report.html

    [bold]Nothing at hand?[/bold]

      certiforest demo
    """
    if version:
        _say(f"certiforest {__version__}")
        raise typer.Exit


# --- certify and spread -----------------------------------------------------------------------------------


@app.command("certify")
def certify_command(
    model: ModelPath,
    data: DataName,
    eps: Eps,
    target: Target = None,
    norm: Norm = "inf",
    part: Annotated[
        str | None, typer.Option(metavar="PART", help="train, test or all; see 'certiforest train'.")
    ] = None,
    frozen: Frozen = None,
    domain: Domain = None,
    radius: Annotated[
        bool, typer.Option("--radius", help="Also find each row's smallest breaking eps.")
    ] = False,
    witness: Annotated[
        bool, typer.Option("--witness", help="Also write the changed rows into --out.")
    ] = False,
    out: Annotated[Path | None, typer.Option(metavar="CSV", help="Write one line per row.")] = None,
    require: Annotated[
        float | None,
        typer.Option(metavar="SHARE", help="Exit with 1 if proved robust accuracy is below, e.g. 0.9."),
    ] = None,
    drop: Drop = None,
    kind: Kind = None,
    header: Header = None,
    data_dir: DataDir = None,
    download: Download = False,
    jobs: Jobs = 1,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Prove, row by row, whether an attacker can change the prediction.

    [bold]Examples[/bold]

      certiforest certify model.json test.csv --target label --eps 0.02

      certiforest certify model.json test.csv --target -1 --norm 2 --eps 0.1 --out rows.csv --radius

      certiforest certify model.json mnist26 --data-dir ~/data --eps 0.015 --require 0.9 --json

    Rows are scaled by the scaling inside the model file, if it has one; eps, radius and witness are in
    scaled units. Without --target there are predictions and stability but no verdicts.
    """
    _check_free(force, out)
    if require is not None and not 0 <= require <= 1:
        raise InputError(f"Expected --require between 0 and 1, got {require}.")
    if witness and out is None:
        raise InputError("Expected --out with --witness: changed rows are written there.")
    ensemble = as_ensemble(model)
    source = _Source(data, target, drop, kind, header, data_dir, download)
    rows = source.load(ensemble, part)
    if require is not None and rows.y is None:
        raise InputError("Expected labels with --require, got none: name the label column by --target.")
    attacker = Attacker(
        norm, eps, frozen=_find_features(frozen, rows.names, ensemble.n_features), domain=domain
    )
    _warn_of_units(attacker, rows)
    start = time.perf_counter()
    with _progress("Certifying", len(rows.X)) as advance:
        found = certify(
            ensemble, rows.X, rows.y, attacker, radius=radius, witness=witness, n_jobs=jobs, progress=advance
        )
    seconds = time.perf_counter() - start
    if out is not None:
        write_atomically(out, _rows_as_csv(found, rows))
    summary = _summarise(ensemble, attacker, found, model=str(model), rows=rows, seconds=seconds)
    if as_json:
        _say_json(summary)
    else:
        _show_summary(summary)
        if out is not None:
            _say(f"One line per row: {out}")
    if require is not None and found.robust_accuracy < require:
        _complain(f"Robust accuracy {found.robust_accuracy:.4f} is below the required {require}.")
        raise typer.Exit(BELOW_REQUIRED)


@app.command("spread")
def spread_command(
    model: ModelPath,
    norm: Norm = "inf",
    eps: Annotated[
        float | None, typer.Option(metavar="E", help="Also list what is too close for this eps.")
    ] = None,
    frozen: Frozen = None,
    domain: Domain = None,
    as_json: AsJson = False,
) -> None:
    """Tell how far apart the thresholds of a model are, and for which eps that is far enough.

    [bold]Examples[/bold]

      certiforest spread model.json

      certiforest spread forest.silva --eps 0.015

    With large spread, more than 2 * eps, every verdict is exact in polynomial time: no row is UNKNOWN.
    """
    ensemble = as_ensemble(model)
    frozen_features = _find_features(frozen, ensemble.feature_names, ensemble.n_features)
    attacker = Attacker(norm, 0.0 if eps is None else eps, frozen=frozen_features, domain=domain)
    width = spread(ensemble, attacker.norm, frozen=attacker.frozen, domain=attacker.domain)
    largest = largest_certifiable_eps(ensemble, attacker)
    summary: dict[str, Any] = {
        "model": _describe_model(ensemble, str(model)),
        "norm": _norm_name(attacker),
        "spread": _finite(width),
        "shares_features": exact_spread(ensemble, attacker) is not None,
        "largest_eps": None if largest < 0 else _finite(largest),
    }
    if eps is not None:
        pairs = overlaps(ensemble, attacker)
        summary["eps"] = eps
        summary["has_large_spread"] = has_large_spread(ensemble, attacker)
        summary["n_overlaps"] = len(pairs.feature)
        summary["overlapping_features"] = [
            _feature_name(ensemble.feature_names, int(f)) for f in np.unique(pairs.feature)
        ]
    if as_json:
        _say_json(summary)
        return
    table = _key_values(f"Spread of {model}")
    table.add_row("Trees, nodes, features", f"{ensemble.n_trees}, {ensemble.n_nodes}, {ensemble.n_features}")
    table.add_row(
        f"Spread (L{_norm_name(attacker)})",
        "no two trees share a feature" if math.isinf(width) else repr(width),
    )
    if math.isinf(largest):
        table.add_row("Every verdict is exact for", "any eps")
    else:
        table.add_row("Every verdict is exact for", f"eps up to {largest!r}" if largest >= 0 else "no eps")
    if eps is not None:
        answer = (
            "yes"
            if summary["has_large_spread"]
            else f"no: {summary['n_overlaps']} pairs of thresholds are too close"
        )
        table.add_row(f"Large spread for eps {eps}", answer)
        if summary["overlapping_features"]:
            table.add_row("On the features", _shortened(summary["overlapping_features"]))
    _show(table)


# --- demo -------------------------------------------------------------------------------------------------


@app.command()
def demo(as_json: AsJson = False) -> None:
    """Train, certify and report on data that ships with scikit-learn; takes under a minute.

    [bold]Example[/bold]

      certiforest demo
    """
    from certiforest.training.forest import LargeSpreadForestClassifier

    eps = 0.02
    dataset = load_dataset("breast_cancer")
    X_train, X_test, y_train, y_test = dataset.scaled_split()
    steps = len(DEMO_NORMS) + 1
    with _progress("Training and certifying (the first time, compiling)", steps) as advance:
        forest = LargeSpreadForestClassifier(25, 4, eps=eps, random_state=0).fit(X_train, y_train)
        advance(1)
        ensemble = forest.ensemble_.with_columns(dataset.table.feature_names, dataset.scaling)
        found = {}
        for norm in DEMO_NORMS:
            found[norm] = certify(ensemble, X_test, y_test, Attacker(norm, eps))
            advance(1)
    summary = {
        "data": "breast_cancer",
        "n_train": len(X_train),
        "n_test": len(X_test),
        "model": _describe_model(ensemble, None),
        "spread": _finite(spread(ensemble)),
        "eps": eps,
        "norms": {norm: _count(certificates) for norm, certificates in found.items()},
    }
    if as_json:
        _say_json(summary)
        return
    table = TextTable(
        title=f"{ensemble.n_trees} trees, {len(X_test)} unseen rows of breast_cancer, attacked by eps {eps}"
    )
    table.add_column("Attacker")
    for column in ("Accuracy", "Robust\naccuracy", *(verdict.name.capitalize() for verdict in Verdict)):
        table.add_column(column, justify="right")
    for norm, certificates in found.items():
        shares = f"{certificates.accuracy:.1%}", _interval(certificates.robust_accuracy_bounds)
        table.add_row(f"L{norm}", *shares, *map(str, certificates.counts.values()))
    _show(table)


DEMO_NORMS = ("inf", "2", "1")


# --- reading ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Rows:
    """Rows as a model sees them, and where they come from."""

    X: NDArray[np.float64]
    y: NDArray | None
    names: tuple[str, ...] | None
    source: str
    part: str
    scaling: Scaling | None
    image_shape: tuple[int, int] | None


@dataclass(frozen=True)
class _Source:
    """What was typed about the data: a file or the name of a dataset, and how to read it."""

    data: str
    target: str | None
    drop: list[str] | None
    kind: str | None
    header: bool | None
    data_dir: Path | None
    download: bool

    @property
    def is_named(self) -> bool:
        return not Path(self.data).exists() and is_dataset(self.data)

    def read(self, n_features: int | None = None) -> Table:
        path = Path(self.data)
        if not path.exists() and not path.suffix and os.sep not in self.data:
            raise InputError(
                f"Expected a data file or the name of a dataset, got {self.data!r}, which is neither."
                " 'certiforest datasets' lists the names."
            )
        return read_table(
            path, self.target, drop=self.drop or (), kind=self.kind, header=self.header, n_features=n_features
        )

    def load(self, ensemble: TreeEnsemble, part: str | None) -> _Rows:
        """Return the rows that a model is to be certified on, in its units."""
        _check_choice("--part", part, (None, *PARTS))
        scaling, image_shape = ensemble.scaling, None
        if self.is_named:
            dataset = load_dataset(self.data, data_dir=self.data_dir, download=self.download)
            table, part = dataset.table, part or "test"
            image_shape = dataset.info.image_shape
            scaling = scaling or dataset.scaling
            rows = dataset.parts[part]
            table = table.take(rows).with_features(ensemble.feature_names, ensemble.n_features)
        else:
            table = self.read(ensemble.n_features).with_features(ensemble.feature_names, ensemble.n_features)
            part = part or "all"
            if part != "all":
                table = table.take(_split(table)[part])
        X = table.X if scaling is None else scaling.apply(table.X)
        names = ensemble.feature_names or table.feature_names
        return _Rows(X, table.y, names, self.data, part, scaling, image_shape)


def _split(table: Table) -> dict[str, NDArray[np.int64]]:
    if table.y is None:
        raise InputError("Expected labels to split the rows by, got none: name the label column by --target.")
    train, test = split_rows(table.y)
    return {"train": train, "test": test, "all": np.arange(len(table))}


def _find_features(
    wanted: Sequence[str] | None, names: Sequence[str] | None, n_features: int
) -> list[int] | None:
    if not wanted:
        return None
    found = []
    for feature in wanted:
        if names is not None and feature in names:
            found.append(list(names).index(feature))
        elif feature.isdecimal() and int(feature) < n_features:
            found.append(int(feature))
        else:
            how = (
                "one of the model's columns" if names is not None else f"an index from 0 to {n_features - 1}"
            )
            raise InputError(f"Expected --frozen to be {how}, got {feature!r}.")
    return found


def _warn_of_units(attacker: Attacker, rows: _Rows) -> None:
    """Warn where eps is so large that it is likely meant in other units."""
    if attacker.norm == 0:
        return
    n_features = rows.X.shape[1]
    width = np.ptp(rows.X, axis=0)
    doubtful = np.flatnonzero((width > 0) & (attacker.eps > width / 2) & ~attacker.is_frozen(n_features))
    if doubtful.size == 0:
        return
    first = int(doubtful[width[doubtful].argmin()])
    others = f" and {doubtful.size - 1} others" if doubtful.size > 1 else ""
    advice = (
        "the model is scaled: eps is a share of a feature's range" if rows.scaling else "train with --scale"
    )
    _complain(
        f"warning: eps {attacker.eps:g} exceeds half the range ({width[first]:g}) of feature"
        f" {_feature_name(rows.names, first)}{others} in these rows. Is it meant in other units? ({advice})"
    )


def _check_choice(option: str, value: Any, choices: Sequence[Any]) -> None:
    if value not in choices:
        raise InputError(
            f"Expected {option} to be {' or '.join(str(c) for c in choices if c)}, got {value!r}."
        )


def _check_free(force: bool, *paths: Path | None) -> None:
    """Refuse, before any work is done, to write where a file is, or where none can be."""
    for path in paths:
        if path is None:
            continue
        if path.is_dir():
            raise InputError(f"Expected a file to write, got the directory {path}.")
        if path.exists() and not force:
            raise InputError(f"Expected a new file, got {path}, which exists. Add --force to replace it.")
        folder = path.parent
        if not folder.is_dir():
            raise InputError(f"Expected an existing directory for {path}, got none at {folder}.")
        if not os.access(folder, os.W_OK):
            raise InputError(f"Expected a directory that can be written to, got {folder}.")


# --- saying -----------------------------------------------------------------------------------------------


def _summarise(
    ensemble: TreeEnsemble,
    attacker: Attacker,
    found: Certificates,
    *,
    model: str,
    rows: _Rows,
    seconds: float,
) -> dict[str, Any]:
    largest = largest_certifiable_eps(ensemble, attacker)
    return {
        "model": _describe_model(ensemble, model),
        "data": {
            "source": rows.source,
            "part": rows.part,
            "n_rows": len(found),
            "scaled": rows.scaling is not None,
        },
        "attacker": {
            "norm": _norm_name(attacker),
            "eps": attacker.eps,
            "frozen": None if attacker.frozen is None else attacker.frozen.tolist(),
        },
        "has_large_spread": has_large_spread(ensemble, attacker),
        "largest_eps": None if largest < 0 else _finite(largest),
        **_count(found),
        "seconds": round(seconds, 4),
    }


def _describe_model(ensemble: TreeEnsemble, path: str | None) -> dict[str, Any]:
    return {
        "path": path,
        "n_trees": ensemble.n_trees,
        "n_nodes": ensemble.n_nodes,
        "n_features": ensemble.n_features,
        "classes": ensemble.classes.tolist(),
        "scaled": ensemble.scaling is not None,
    }


def _count(found: Certificates) -> dict[str, Any]:
    counts: dict[str, Any] = {
        "stable": int((found.stable == STABLE).sum()),
        "unstable": int((found.stable == UNSTABLE).sum()),
        "unknown": int((found.stable == UNDECIDED).sum()),
    }
    if found.label is not None:
        counts["verdicts"] = {verdict.name: count for verdict, count in found.counts.items()}
        counts["accuracy"] = found.accuracy
        counts["robust_accuracy"] = found.robust_accuracy
        counts["robust_accuracy_bounds"] = list(found.robust_accuracy_bounds)
    if found.radius is not None:
        counts["median_radius"] = _finite(float(np.median(found.radius)))
    return counts


def _show_summary(summary: dict[str, Any]) -> None:
    attacker, data = summary["attacker"], summary["data"]
    table = _key_values(f"{summary['model']['path']} against L{attacker['norm']}, eps {attacker['eps']}")
    rows = f"{data['n_rows']} ({data['source']}" + (
        f", {data['part']} part)" if data["part"] != "all" else ")"
    )
    table.add_row("Rows", rows)
    if "verdicts" in summary:
        table.add_row("Accuracy", f"{summary['accuracy']:.2%}")
        table.add_row("Robust accuracy", _interval(summary["robust_accuracy_bounds"], digits=2))
        for name, count in summary["verdicts"].items():
            table.add_row(f"  {name}", str(count))
    else:
        for name in ("stable", "unstable", "unknown"):
            table.add_row(name.capitalize(), str(summary[name]))
    if "median_radius" in summary:
        table.add_row("Median radius", str(summary["median_radius"]))
    table.add_row("Large spread", "yes: every verdict is proved" if summary["has_large_spread"] else "no")
    table.add_row("Time", f"{summary['seconds']:.2f} s")
    _show(table)


def _rows_as_csv(found: Certificates, rows: _Rows) -> str:
    columns: dict[str, list] = {"row": list(range(len(found)))}
    if found.label is not None:
        columns["label"] = found.label.tolist()
    columns["prediction"] = found.prediction.tolist()
    columns["stable"] = found.stable.tolist()
    if found.label is not None:
        columns["verdict"] = [verdict.name for verdict in found.verdict]
    if found.radius is not None and found.radius_is_exact is not None:
        columns["radius"] = found.radius.tolist()
        columns["radius_is_exact"] = found.radius_is_exact.tolist()
    if found.witness is not None:
        for index, column in enumerate(found.witness.T):
            name = f"witness_{_feature_name(rows.names, index)}"
            columns[name] = ["" if value != value else repr(value) for value in column.tolist()]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    return text.getvalue()


def _feature_name(names: Sequence[str] | None, index: int) -> str:
    return f"feature_{index}" if names is None else names[index]


def _norm_name(attacker: Attacker) -> str:
    return "inf" if math.isinf(attacker.norm) else str(int(attacker.norm))


def _interval(bounds: Sequence[float], digits: int = 1) -> str:
    low, high = bounds
    if low == high:
        return f"{low:.{digits}%}"
    return f"{low:.{digits}%} to {high:.{digits}%}"


def _finite(value: float) -> float | None:
    """JSON has no infinity; null stands for it."""
    return value if math.isfinite(value) else None


def _shortened(names: Sequence[str]) -> str:
    return ", ".join(names[:8]) + (f", ... ({len(names)} in all)" if len(names) > 8 else "")


def _key_values(title: str) -> TextTable:
    table = TextTable(title=title, show_header=False, title_justify="left")
    table.add_column(style="bold")
    table.add_column()
    return table


def _show(table: TextTable) -> None:
    console = Console()
    if not console.is_terminal:  # a file or pipe has no width to fit into
        console = Console(width=160)
    console.print(table)


def _say(text: str) -> None:
    Console(soft_wrap=True, highlight=False, markup=False).print(text)


def _say_json(document: Any) -> None:
    sys.stdout.write(json.dumps(document, indent=2, allow_nan=False) + "\n")


def _complain(text: str) -> None:
    sys.stderr.write(f"certiforest: {' '.join(text.split())}\n")


@contextmanager
def _progress(title: str, total: int) -> Iterator[Callable[[int], None]]:
    """Show a bar with the time left while standard error is a terminal; yields what counts steps."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(title, total=total)
        yield lambda steps: bar.advance(task, steps)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    try:
        result = typer.main.get_command(app).main(
            args=None if argv is None else list(argv), prog_name="certiforest", standalone_mode=False
        )
    except (typer.Abort, KeyboardInterrupt):
        _complain("Interrupted; nothing half done was written.")
        return INTERRUPTED
    except typer.Exit as exit_:
        return exit_.exit_code
    except ClickError as error:
        _complain(f"error: {error.format_message()}")
        return BAD_INPUT
    except (ValueError, OSError, MemoryError, RuntimeError) as error:
        if os.environ.get("CERTIFOREST_TRACEBACK"):
            raise
        _complain(f"error: {error or type(error).__name__}")
        return BAD_INPUT
    return result if isinstance(result, int) else DONE

"""What people type: ``certiforest demo | train | certify | spread | report | datasets | reproduce``.

Commands are thin: they read files, call the public API, and say what came out. Exit codes: 0 done, 1 robust
accuracy below ``--require``, 2 bad input (one line on stderr), 130 interrupted. Output files appear whole
or not at all, and no existing file is replaced without ``--force``. What is slow to import is imported
where it is needed.
"""

from __future__ import annotations

import gc
import itertools
import json
import math
import os
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer
from numpy.typing import NDArray
from rich.table import Table as TextTable

from certiforest import __version__
from certiforest.attack.attacker import Attacker
from certiforest.attack.spread import exact_spread, has_large_spread, largest_certifiable_eps, overlaps, spread
from certiforest.certify import certify
from certiforest.cli.console import (
    as_percent,
    complain,
    count_verdicts,
    describe_model,
    feature_name,
    finite_or_none,
    key_values,
    norm_name,
    progress_bar,
    rows_as_csv,
    say,
    say_json,
    shortened,
    show,
    show_summary,
    summarise,
)
from certiforest.data.datasets import DATASETS, dataset_info, load_dataset
from certiforest.data.sources import Sample, Source, check_part, find_features
from certiforest.data.tables import SUFFIXES
from certiforest.ensemble import TreeEnsemble
from certiforest.ensemble.scaling import Scaling
from certiforest.files import write_atomically
from certiforest.formats import as_ensemble
from certiforest.report.findings import as_html, as_text, find, gather
from certiforest.verification.certificates import Verdict

# typer carries a click of its own; its errors are reached through the one that it exports.
ClickError: Any = typer.BadParameter.__mro__[2]
DONE, BELOW_REQUIRED, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130

app = typer.Typer(
    name="certiforest",
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)


class InputError(ValueError):
    """What was typed cannot be done."""


# Arguments and options that several commands share.
ModelPath = Annotated[
    Path,
    typer.Argument(metavar="MODEL", help="Model file of certiforest, XGBoost, LightGBM or CatBoost (JSON), or .silva."),
]
DataName = Annotated[
    str,
    typer.Argument(metavar="DATA", help="CSV, Parquet, npz or LIBSVM file, or a name from 'certiforest datasets'."),
]
Target = Annotated[
    str | None, typer.Option(metavar="COLUMN", help="Label column: its name, or its index (-1 is the last).")
]
Norm = Annotated[str, typer.Option(metavar="P", help="Norm of the attacker: 0, 1, 2, 3, ... or inf.")]
Eps = Annotated[
    float,
    typer.Option(metavar="E", help="How far the attacker may move a row, in the model's (scaled) units."),
]
Part = Annotated[
    str | None,
    typer.Option(metavar="PART", help="train, test (the 30% that 'train' held out) or all; test for named data."),
]
Drop = Annotated[list[str] | None, typer.Option(metavar="COLUMN", help="Column to leave out; repeat for more.")]
Frozen = Annotated[
    list[str] | None,
    typer.Option(metavar="COLUMN", help="Feature the attacker cannot change; repeat for more."),
]
Kind = Annotated[
    str | None,
    typer.Option("--format", metavar="KIND", help="csv, parquet, npz or libsvm, if the suffix does not tell."),
]
Header = Annotated[
    bool | None,
    typer.Option("--header/--no-header", help="Whether a CSV file starts with names; guessed if not given."),
]
DataDir = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Directory of named datasets [env: CERTIFOREST_DATA].")
]
Download = Annotated[bool, typer.Option("--download", help="Fetch a named dataset from OpenML if it is not at hand.")]
Domain = Annotated[
    tuple[float, float] | None,
    typer.Option(metavar="LOW HIGH", help="The attacker keeps every feature inside."),
]
TimeLimit = Annotated[
    float, typer.Option(metavar="SECONDS", help="For a row at which trees meet; after it the row is UNKNOWN.")
]
Jobs = Annotated[int, typer.Option(metavar="N", help="Threads; -1 for all cores.")]
Force = Annotated[bool, typer.Option("--force", help="Replace existing output files.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]


@app.callback(invoke_without_command=True)
def _front(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    """Tree ensembles whose robustness against evasion attacks is proved.

    An attacker may move a row by eps. Verdicts are proved, not sampled:
    ROBUST (right, and no attack changes it), FRAGILE (right, an attack
    changes it), VULNERABLE (wrong, stable), BROKEN (wrong, unstable), and
    UNKNOWN where neither was proved.

    [bold]From a CSV file to a report[/bold]

      certiforest train a.csv --target y --scale --eps 0.02 --out m.json

      certiforest certify m.json a.csv --target y --part test --eps 0.02

      certiforest report m.json a.csv --target y --part test --eps 0.02

    [bold]Nothing at hand?[/bold]

      certiforest demo
    """
    if version:
        say(f"certiforest {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        context.get_help()
        raise typer.Exit


# --- certify and spread -----------------------------------------------------------------------------------


@app.command("certify")
def certify_command(
    model: ModelPath,
    data: DataName,
    eps: Eps,
    target: Target = None,
    norm: Norm = "inf",
    part: Part = None,
    frozen: Frozen = None,
    domain: Domain = None,
    radius: Annotated[bool, typer.Option("--radius", help="Also find each row's smallest breaking eps.")] = False,
    witness: Annotated[bool, typer.Option("--witness", help="Also write the changed rows into --out.")] = False,
    out: Annotated[Path | None, typer.Option(metavar="CSV", help="Write one line per row.")] = None,
    report: Annotated[Path | None, typer.Option(metavar="HTML", help="Write a report to look at.")] = None,
    require: Annotated[
        float | None,
        typer.Option(metavar="SHARE", help="Exit with 1 if proved robust accuracy is below, e.g. 0.9."),
    ] = None,
    drop: Drop = None,
    kind: Kind = None,
    header: Header = None,
    data_dir: DataDir = None,
    download: Download = False,
    time_limit: TimeLimit = 1.0,
    jobs: Jobs = 1,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Prove, row by row, whether an attacker can change the prediction.

    [bold]Examples[/bold]

      certiforest certify m.json test.csv --target y --eps 0.02

      certiforest certify m.json b.csv --target -1 --norm 2 --eps 0.1

      certiforest certify m.json digits --eps 0.015 --require 0.9 --json

    Rows are scaled by the scaling inside the model file, if it has one;
    eps, radius and witness are in scaled units. Without --target there
    are predictions and stability but no verdicts.
    """
    _check_free(force, out, report)
    if require is not None and not 0 <= require <= 1:
        raise InputError(f"Expected --require between 0 and 1, got {require}.")
    if witness and out is None:
        raise InputError("Expected --out with --witness: changed rows are written there.")
    _check_order(model, data)
    ensemble = as_ensemble(model)
    source = Source(data, target, drop, kind, header, data_dir, download)
    rows = source.load(ensemble, part)
    if require is not None and rows.y is None:
        raise InputError("Expected labels with --require, got none: name the label column by --target.")
    attacker = Attacker(norm, eps, frozen=find_features(frozen, rows.names, ensemble.n_features), domain=domain)
    _warn_of_units(attacker, rows)
    start = time.perf_counter()
    with progress_bar("Certifying", len(rows.X)) as advance:
        found = certify(
            ensemble,
            rows.X,
            rows.y,
            attacker,
            radius=radius or report is not None,
            witness=witness or report is not None,
            time_limit=time_limit,
            n_jobs=jobs,
            progress=advance,
        )
    seconds = time.perf_counter() - start
    if found.is_interrupted:
        if not as_json:
            show_summary(summarise(ensemble, attacker, found, model=str(model), rows=rows, seconds=seconds))
        raise typer.Exit(INTERRUPTED)
    if out is not None:
        write_atomically(out, rows_as_csv(found, rows, radius=radius, witness=witness))
    if report is not None:
        findings = gather(ensemble, rows.X, found, attacker, **_names_for_report(rows, str(model)))
        write_atomically(report, _render(report, findings))
    summary = summarise(ensemble, attacker, found, model=str(model), rows=rows, seconds=seconds)
    if as_json:
        say_json(summary)
    else:
        show_summary(summary)
        if out is not None:
            say(f"One line per row: {out}")
        if report is not None:
            say(f"Report: {report}")
    if require is not None and found.robust_accuracy < require:
        complain(f"Robust accuracy {found.robust_accuracy:.4f} is below the required {require}.")
        raise typer.Exit(BELOW_REQUIRED)


@app.command("spread")
def spread_command(
    model: ModelPath,
    norm: Norm = "inf",
    eps: Annotated[float | None, typer.Option(metavar="E", help="Also list what is too close for this eps.")] = None,
    frozen: Frozen = None,
    domain: Domain = None,
    as_json: AsJson = False,
) -> None:
    """Tell how far apart thresholds are, and for which eps that is enough.

    [bold]Examples[/bold]

      certiforest spread m.json

      certiforest spread forest.silva --eps 0.015

    With large spread, more than 2 * eps, every verdict is exact in
    polynomial time: no row is UNKNOWN.
    """
    ensemble = as_ensemble(model)
    frozen_features = find_features(frozen, ensemble.feature_names, ensemble.n_features)
    attacker = Attacker(norm, 0.0 if eps is None else eps, frozen=frozen_features, domain=domain)
    width = spread(ensemble, attacker.norm, frozen=attacker.frozen, domain=attacker.domain)
    largest = largest_certifiable_eps(ensemble, attacker)
    summary: dict[str, Any] = {
        "model": describe_model(ensemble, str(model)),
        "norm": norm_name(attacker),
        "spread": finite_or_none(width),
        "shares_features": exact_spread(ensemble, attacker) is not None,
        "largest_eps": None if largest < 0 else finite_or_none(largest),
    }
    if eps is not None:
        pairs = overlaps(ensemble, attacker)
        summary["eps"] = eps
        summary["has_large_spread"] = has_large_spread(ensemble, attacker)
        summary["n_overlaps"] = len(pairs.feature)
        summary["overlapping_features"] = [
            feature_name(ensemble.feature_names, int(f)) for f in np.unique(pairs.feature)
        ]
    if as_json:
        say_json(summary)
        return
    table = key_values(f"Spread of {model}")
    table.add_row("Trees, nodes, features", f"{ensemble.n_trees}, {ensemble.n_nodes}, {ensemble.n_features}")
    table.add_row(
        f"Spread (L{norm_name(attacker)})",
        "no two trees share a feature" if math.isinf(width) else repr(width),
    )
    if math.isinf(largest):
        table.add_row("Every verdict is exact for", "any eps")
    else:
        table.add_row("Every verdict is exact for", f"eps up to {largest!r}" if largest >= 0 else "no eps")
    if eps is not None:
        answer = (
            "yes" if summary["has_large_spread"] else f"no: {summary['n_overlaps']} pairs of thresholds are too close"
        )
        table.add_row(f"Large spread for eps {eps}", answer)
        if summary["overlapping_features"]:
            table.add_row("On the features", shortened(summary["overlapping_features"]))
    show(table)


# --- train --------------------------------------------------------------------------------------------------


class Trainer(NamedTuple):
    """An estimator that ``train --model`` offers; imported when chosen."""

    module: str
    name: str


TRAINERS = {
    "forest": Trainer("certiforest.training.forest", "LargeSpreadForestClassifier"),
    "boosting": Trainer("certiforest.training.boosting", "LargeSpreadBoostingClassifier"),
}


@app.command()
def train(
    data: DataName,
    eps: Eps,
    out: Annotated[Path, typer.Option(metavar="JSON", help="Where to write the model.")],
    target: Target = None,
    norm: Norm = "inf",
    model: Annotated[str, typer.Option(metavar="KIND", help=f"What to train: {' or '.join(TRAINERS)}.")] = "forest",
    method: Annotated[
        str | None, typer.Option(metavar="NAME", help="How to train it; the trainer's default if not given.")
    ] = None,
    trees: Annotated[
        int | None, typer.Option(metavar="N", help="Number of trees; the trainer's default if not given.")
    ] = None,
    depth: Annotated[
        int | None, typer.Option(metavar="N", help="Largest depth; the trainer's default if not given.")
    ] = None,
    scale: Annotated[
        bool, typer.Option("--scale", help="Scale every feature to [0, 1]; saved inside the model file.")
    ] = False,
    part: Annotated[
        str, typer.Option(metavar="PART", help="train (70% of the rows, the rest is held out), test or all.")
    ] = "train",
    param: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="Further parameter of the trainer; repeatable."),
    ] = None,
    frozen: Frozen = None,
    seed: Annotated[int, typer.Option(metavar="N", help="Source of all randomness.")] = 0,
    drop: Drop = None,
    kind: Kind = None,
    header: Header = None,
    data_dir: DataDir = None,
    download: Download = False,
    jobs: Jobs = 1,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Train a model whose robustness can be proved for every row.

    [bold]Examples[/bold]

      certiforest train a.csv --target y --scale --eps 0.02 --out m.json

      certiforest train a.parquet --target 0 --drop id --eps 2 --out m.json

      certiforest train digits --eps 0.03 --method prune --out m.json

    A stratified 70% of the rows is used; 'certify --part test' takes the
    other 30%, --part all uses all. With --scale, eps is a share of each
    feature's range in the training rows.
    """
    _check_free(force, out)
    _check_choice("--model", model, tuple(TRAINERS))
    check_part(part)
    source = Source(data, target, drop, kind, header, data_dir, download)
    table, rows_of, scaling = source.open()
    if table.y is None:
        raise InputError(f"Expected labels to learn, got none in {data}: name the label column by --target.")
    chosen = rows_of(part)
    if scale and scaling is None:
        scaling = Scaling.of(table.X[chosen])
    X = table.X if scaling is None else scaling.apply(table.X)
    n_features = X.shape[1]
    attacker = Attacker(norm, eps, frozen=find_features(frozen, table.feature_names, n_features))
    _warn_of_units(attacker, Sample(X[chosen], None, table.feature_names, chosen, data, part, scaling, None))
    chosen_by_user = {"n_estimators": trees, "max_depth": depth, "method": method}
    estimator = _make_estimator(
        model,
        {
            "norm": attacker.norm,
            "eps": eps,
            "frozen": attacker.frozen,
            "random_state": seed,
            "n_jobs": jobs,
            **{name: value for name, value in chosen_by_user.items() if value is not None},
        },
        param or (),
    )
    start = time.perf_counter()
    with progress_bar("Training", estimator.get_params()["n_estimators"]) as advance:
        _fit(estimator, X[chosen], table.y[chosen], advance)
    seconds = time.perf_counter() - start
    ensemble = estimator.ensemble_.with_columns(table.feature_names, scaling)
    summary: dict[str, Any] = {
        "model": describe_model(ensemble, str(out)),
        "data": {"source": data, "part": part, "n_rows": len(chosen), "scaled": scaling is not None},
        "attacker": {"norm": norm_name(attacker), "eps": eps},
        "spread": finite_or_none(spread(ensemble, attacker.norm, frozen=attacker.frozen)),
        "seconds": round(seconds, 3),
    }
    if part == "train":
        held_out = rows_of("test")
        found = certify(ensemble, X[held_out], table.y[held_out], attacker, n_jobs=jobs).unless_interrupted()
        summary["held_out"] = {"n_rows": len(found), **count_verdicts(found)}
    ensemble.save(out)
    if as_json:
        say_json(summary)
    else:
        _show_training(summary)


def _make_estimator(model: str, params: dict[str, Any], given: Sequence[str]) -> Any:
    trainer = TRAINERS[model]
    estimator = getattr(import_module(trainer.module), trainer.name)()
    known = estimator.get_params()
    if "method" in params and "method" not in known:
        raise InputError(f"Expected no --method with --model {model}, which has one only, got {params['method']!r}.")
    for entry in given:
        name, equals, text = entry.partition("=")
        if not equals or name not in known:
            names = ", ".join(sorted(set(known) - {"callback"}))
            raise InputError(f"Expected --param NAME=VALUE with a name among {names}, got {entry!r}.")
        try:
            params[name] = json.loads(text)
        except json.JSONDecodeError:
            params[name] = text
    return estimator.set_params(**params)


def _fit(estimator: Any, X: NDArray, y: NDArray, advance: Callable[[int], None]) -> None:
    """Fit with a progress bar, and say warnings in one line each."""
    done = 0

    def report(n_done: int, _: int) -> None:
        nonlocal done
        advance(n_done - done)
        done = n_done

    if "callback" in estimator.get_params():
        estimator.set_params(callback=report)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        try:
            estimator.fit(X, y)
        except RuntimeError as error:  # fewer trees than asked for
            raise InputError(f"{error} (Parameters are given by --param, e.g. --param n_partitions=4.)") from None
    for warning in caught:
        complain(f"warning: {warning.message}")


def _show_training(summary: dict[str, Any]) -> None:
    model, data, attacker = summary["model"], summary["data"], summary["attacker"]
    table = key_values(f"Trained on {data['source']} against L{attacker['norm']}, eps {attacker['eps']}")
    unit = "scaled to [0, 1]" if data["scaled"] else "as they are in the file"
    table.add_row("Rows, features", f"{data['n_rows']} ({data['part']} part), {model['n_features']} {unit}")
    table.add_row("Trees, nodes", f"{model['n_trees']}, {model['n_nodes']}")
    table.add_row("Spread", "no two trees share a feature" if summary["spread"] is None else repr(summary["spread"]))
    table.add_row("Time", f"{summary['seconds']:.2f} s")
    if "held_out" in summary:
        held_out = summary["held_out"]
        table.add_row("Held-out rows", f"{held_out['n_rows']} ('certify --part test' takes the same)")
        table.add_row("  Accuracy", f"{held_out['accuracy']:.2%}")
        table.add_row("  Robust accuracy", as_percent(held_out["robust_accuracy_bounds"], digits=2))
    table.add_row("Model file", model["path"])
    show(table)


# --- datasets -----------------------------------------------------------------------------------------------


@app.command()
def datasets(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="Show one in detail.")] = None,
    as_json: AsJson = False,
) -> None:
    """List the datasets known by name.

    [bold]Examples[/bold]

      certiforest datasets

      certiforest datasets mnist26

    Source, licence, checksum, split and scaling of each. Nothing is
    downloaded unless --download is given where a dataset is used.
    """
    infos = list(DATASETS.values()) if name is None else [dataset_info(name)]
    documents = [
        {
            "name": info.name,
            "title": info.title,
            "size": info.size,
            "source": info.source,
            "licence": info.licence,
            "split": info.split_text,
            "scaling": info.scaling_text,
            "sha256": info.sha256,
        }
        for info in infos
    ]
    if as_json:
        say_json(documents if name is None else documents[0])
    elif name is None:
        table = TextTable("Name", "What it is", "Size", "Licence")
        for info in infos:
            table.add_row(info.name, info.title, info.size, info.licence)
        show(table)
        say("'certiforest datasets NAME' tells source, checksum, split and scaling.")
    else:
        table = key_values(name)
        for key, value in documents[0].items():
            table.add_row(key.capitalize(), value or "not recorded")
        show(table)


# --- report and demo ----------------------------------------------------------------------------------------


@app.command()
def report(
    model: ModelPath,
    data: DataName,
    eps: Eps,
    out: Annotated[Path, typer.Option(metavar="FILE", help="Report: .html, .json or .txt.")] = Path("report.html"),
    target: Target = None,
    norm: Norm = "inf",
    part: Part = None,
    frozen: Frozen = None,
    domain: Domain = None,
    drop: Drop = None,
    kind: Kind = None,
    header: Header = None,
    data_dir: DataDir = None,
    download: Download = False,
    time_limit: TimeLimit = 1.0,
    jobs: Jobs = 1,
    force: Force = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON instead.")] = False,
) -> None:
    """Certify and write a report to show to others.

    [bold]Examples[/bold]

      certiforest report m.json test.csv --target y --eps 0.02

      certiforest report m.json digits --eps 0.015 --out findings.json

    Verdicts, certified curve, radii, fragile rows, attacked features and
    spread. The HTML file is self-contained: no script, nothing fetched.
    Every figure's data is in the JSON.
    """
    if not as_json:
        if out.suffix.lower() not in RENDERERS:
            raise InputError(f"Expected --out to end in {' or '.join(RENDERERS)}, got {str(out)!r}.")
        _check_free(force, out)
    _check_order(model, data)
    ensemble = as_ensemble(model)
    rows = Source(data, target, drop, kind, header, data_dir, download).load(ensemble, part)
    attacker = Attacker(norm, eps, frozen=find_features(frozen, rows.names, ensemble.n_features), domain=domain)
    _warn_of_units(attacker, rows)
    findings = _find(ensemble, rows, attacker, str(model), time_limit, jobs)
    if as_json:
        say_json(findings)
        return
    write_atomically(out, _render(out, findings))
    say(f"Report: {out}")


def _find(
    ensemble: TreeEnsemble, rows: Sample, attacker: Attacker, model: str, time_limit: float, jobs: int
) -> dict[str, Any]:
    with progress_bar("Certifying for the report", len(rows.X)) as advance:
        return find(
            ensemble,
            rows.X,
            rows.y,
            attacker,
            time_limit=time_limit,
            n_jobs=jobs,
            progress=advance,
            **_names_for_report(rows, model),
        )


def _names_for_report(rows: Sample, model: str) -> dict[str, Any]:
    return {
        "model": Path(model).name,
        "data": Path(rows.source).name + (f" ({rows.part} part)" if rows.part != "all" else ""),
        "feature_names": rows.names,
        "row_numbers": rows.row_numbers,
        "scaling": rows.scaling,
        "image_shape": rows.image_shape,
    }


RENDERERS: dict[str, Callable[[dict[str, Any]], str]] = {
    ".html": as_html,
    ".json": lambda findings: json.dumps(findings, indent=1, allow_nan=False) + "\n",
    ".txt": as_text,
}


def _render(path: Path, findings: dict[str, Any]) -> str:
    return RENDERERS.get(path.suffix.lower(), as_html)(findings)


@app.command()
def demo(
    out: Annotated[
        Path | None, typer.Option(metavar="HTML", help="Report; a new file in this directory if not given.")
    ] = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Train, certify and report on data that ships with scikit-learn; takes under a minute.

    [bold]Example[/bold]

      certiforest demo
    """
    out = _first_free("certiforest-demo", ".html") if out is None else out
    _check_free(force, out)
    eps = 0.02
    dataset = load_dataset("breast_cancer")
    X_train, X_test, y_train, y_test = dataset.scaled_split()
    estimator = _make_estimator("forest", {"n_estimators": 25, "max_depth": 4, "eps": eps, "random_state": 0}, ())
    with progress_bar("Training and certifying (the first time, compiling)", len(DEMO_NORMS) + 1) as advance:
        estimator.fit(X_train, y_train)
        advance(1)
        ensemble = estimator.ensemble_.with_columns(dataset.table.feature_names, dataset.scaling)
        found = {}
        for norm in DEMO_NORMS:
            for_report = norm == REPORTED_NORM
            certificates = certify(ensemble, X_test, y_test, Attacker(norm, eps), radius=for_report, witness=for_report)
            found[norm] = certificates.unless_interrupted()
            advance(1)
    names = dataset.table.feature_names
    rows = Sample(X_test, y_test, names, dataset.test_rows, "breast_cancer", "test", dataset.scaling, None)
    attacker = Attacker(REPORTED_NORM, eps)
    findings = gather(ensemble, X_test, found[REPORTED_NORM], attacker, **_names_for_report(rows, "demo model"))
    write_atomically(out, _render(out, findings))
    if as_json:
        say_json(
            {
                "data": "breast_cancer",
                "n_train": len(X_train),
                "n_test": len(X_test),
                "model": describe_model(ensemble, None),
                "spread": finite_or_none(spread(ensemble)),
                "eps": eps,
                "norms": {norm: count_verdicts(certificates) for norm, certificates in found.items()},
                "report": str(out),
            }
        )
        return
    table = TextTable(
        title=f"{ensemble.n_trees} trees, {len(X_test)} unseen rows of breast_cancer, attacked by eps {eps}"
    )
    table.add_column("Attacker")
    for column in ("Accuracy", "Robust\naccuracy", *(verdict.name.capitalize() for verdict in Verdict)):
        table.add_column(column, justify="right")
    for norm, certificates in found.items():
        shares = f"{certificates.accuracy:.1%}", as_percent(certificates.robust_accuracy_bounds)
        table.add_row(f"L{norm}", *shares, *map(str, certificates.counts.values()))
    show(table)
    say(f"Report: {out}")


DEMO_NORMS = ("inf", "2", "1")
REPORTED_NORM = "inf"


def _first_free(stem: str, suffix: str) -> Path:
    names = (f"{stem}{number}{suffix}" for number in itertools.chain([""], (f"-{n}" for n in itertools.count(2))))
    return next(path for path in map(Path, names) if not path.exists())


# --- reproduce ----------------------------------------------------------------------------------------------


@app.command("reproduce")
def reproduce_command(
    experiment: Annotated[
        str,
        typer.Argument(
            metavar="EXPERIMENT",
            help="table3, table4, table5, figure3, figure4, figure5, tuning or importance.",
        ),
    ],
    dataset: Annotated[str, typer.Option(metavar="NAME", help="mnist26, fashion03, rewema or webspam.")] = "mnist26",
    out_dir: Annotated[
        Path, typer.Option(metavar="DIR", help="Results, cell by cell; what is there is not run again.")
    ] = Path("reproduction-results"),
    quick: Annotated[bool, typer.Option("--quick", help="A small version: few rows, small models.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown instead of a table.")] = False,
    data_dir: DataDir = None,
    download: Download = False,
    as_json: AsJson = False,
) -> None:
    """Repeat an experiment of the paper, its numbers beside ours.

    [bold]Examples[/bold]

      certiforest reproduce table3 --dataset mnist26 --download --quick

      certiforest reproduce table4 --dataset fashion03 --data-dir ~/data

    table3: accuracy and robust accuracy; table4: by norm; table5: time
    and memory of verification; figure3: rows decided within a time limit;
    figure4, figure5: training time by trees and by depth; tuning: the
    grid search; importance: permutation importance, models side by side.
    A run that was stopped goes on where it stopped.
    """
    from certiforest.reproduction.experiments import as_markdown, reproduce

    with progress_bar(f"{experiment}, {dataset}", 1) as advance:
        outcome = reproduce(
            experiment,
            dataset,
            out_dir=out_dir,
            data_dir=data_dir,
            download=download,
            quick=quick,
            progress=advance.show,
        )
    if as_json:
        say_json(asdict(outcome))
    elif markdown:
        say(as_markdown(outcome))
    else:
        table = TextTable(*outcome.columns, title=f"{outcome.dataset}: {outcome.title}")
        for row in outcome.rows:
            table.add_row(*row)
        show(table)
        for note in outcome.notes:
            say(f"- {note}")


# --- checking ---------------------------------------------------------------------------------------------


def _warn_of_units(attacker: Attacker, rows: Sample) -> None:
    """Warn where eps is so large that it is likely meant in other units."""
    if attacker.norm == 0:
        return
    n_features = rows.X.shape[1]
    # Scaled features have a range of 1, whatever part of it these rows fill.
    width = np.ptp(rows.X, axis=0) if rows.scaling is None else np.ones(n_features)
    doubtful = np.flatnonzero((width > 0) & (attacker.eps > width / 2) & ~attacker.is_frozen(n_features))
    if doubtful.size == 0:
        return
    first = int(doubtful[width[doubtful].argmin()])
    others = f" and of {doubtful.size - 1} others" if doubtful.size > 1 else ""
    where, advice = "in these rows", "With train --scale, eps is a share of each feature's range."
    if rows.scaling is not None:
        where, advice = "after scaling", "The model is scaled: eps is a share of each feature's range."
    complain(
        f"warning: eps {attacker.eps:g} exceeds half the range ({width[first]:g} {where}) of feature"
        f" {feature_name(rows.names, first)}{others}. Is it meant in other units? {advice}"
    )


def _check_order(model: Path, data: str) -> None:
    """Refuse a table in place of the model where the model comes second."""
    if Path(data).suffix.lower() == ".json" and model.suffix.lower() in SUFFIXES:
        raise InputError(f"Expected the model before the data, got {str(model)!r} before {data!r}.")


def _check_choice(option: str, value: Any, choices: Sequence[Any]) -> None:
    if value not in choices:
        raise InputError(f"Expected {option} to be {' or '.join(str(c) for c in choices if c)}, got {value!r}.")


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


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    try:
        result = typer.main.get_command(app).main(
            args=None if argv is None else list(argv), prog_name="certiforest", standalone_mode=False
        )
        code = result if isinstance(result, int) else DONE
    except (typer.Abort, KeyboardInterrupt):
        code = INTERRUPTED
    except typer.Exit as exit_:
        code = exit_.exit_code
    except ClickError as error:
        complain(f"error: {error.format_message()}")
        code = BAD_INPUT
    except (ValueError, OSError, MemoryError, RuntimeError) as error:
        if os.environ.get("CERTIFOREST_TRACEBACK"):
            raise
        complain(f"error: {error or type(error).__name__}")
        code = BAD_INPUT
    if code == INTERRUPTED:  # some versions of typer turn Ctrl-C into this code themselves
        complain("Interrupted; nothing half done was written.")
    if argv is None:  # the process ends here: looking for cycles in what libraries loaded takes 0.4 s
        gc.freeze()
    return code

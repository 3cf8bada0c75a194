"""``certiforest train``."""

from __future__ import annotations

import csv
import io
import json
import time
import warnings
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from certiforest.cli import console
from certiforest.cli.options import (
    DataOptions,
    InputError,
    Jobs,
    OutputOptions,
    check_between,
    check_jobs,
    check_one_of,
    find_label,
)
from certiforest.cli.questions import Attacked, AttackerOptions, check_units
from certiforest.words import interval, listed, shown

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from certiforest.certificates import Certificates
    from certiforest.data.tables import Table

LARGEST_SEED, MOST_TREES = 2**32 - 1, 2**20
NOT_TYPED = ("attacker", "callback")  # parameters that no --param can give


TRAINERS = {  # what certiforest calls them; imported when chosen
    "forest": "LargeSpreadForestClassifier",
    "boosting": "LargeSpreadBoostingClassifier",
    "robust-boosting": "RobustBoostingClassifier",
    "additive": "LargeSpreadAdditiveClassifier",
    "robust-boosting-regressor": "RobustBoostingRegressor",
    "additive-regressor": "LargeSpreadAdditiveRegressor",
}


def train(
    data: DataOptions,
    out: Annotated[Path, typer.Option(metavar="JSON", help="Where to write the model.")],
    options: AttackerOptions,
    output: OutputOptions,
    *,
    attacked: Attacked = None,
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
    held_out: Annotated[
        Path | None, typer.Option(metavar="CSV", help="Write the rows that are held out, label last.")
    ] = None,
    param: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="Further parameter of the trainer; repeatable.")
    ] = None,
    seed: Annotated[int, typer.Option(metavar="N", help="Source of all randomness.")] = 0,
    jobs: Jobs = 1,
) -> None:
    """Train a model whose robustness can be proved for every row.

    [bold]Examples[/bold]

      certiforest train a.csv --target y --scale --eps 0.02 --out m.json

      certiforest train a.parquet --target 0 --drop id --eps 2 --out m.json

      certiforest train digits --eps 0.03 --method prune --out m.json

      certiforest train a.csv --target y --attacker attacker.json
        --attacked fraud --model robust-boosting --out m.json

      certiforest train a.csv --target price --scale --norm 2 --eps 0.1
        --model additive-regressor --out m.json

    A stratified 70% of the rows is used (of numbers, any 70%); 'certify
    --part test' takes the other 30%, --part all uses all. With --scale, eps is a share of each
    feature's range in the training rows. Of an attacker's file, training
    takes norm, eps, scale, frozen and direction, or the reach of rules
    (--eps is their budget); that values stay whole or in a domain only
    weakens the attacker, which counts when rows are certified. Groups,
    changes of categories and blanks are refused.
    """
    output.check({"--out": out, "--held-out": held_out}, [data.data, *filter(None, [options.attacker_file])])
    options.check_budget()
    check_one_of("--model", model, tuple(TRAINERS))
    check_jobs(jobs)
    check_between("--seed", seed, 0, LARGEST_SEED)
    check_between("--trees", trees, 1, MOST_TREES)
    if held_out is not None and part != "train":
        raise InputError(f"Expected --part train with --held-out, got {shown(part)}, which holds no rows out.")
    import numpy as np

    from certiforest.certification import certify
    from certiforest.cli.summaries import count_verdicts, describe_model
    from certiforest.data.sources import InputRows
    from certiforest.data.split import TrainingRecord, check_part, rows_of_part
    from certiforest.ensemble.rows import values_of
    from certiforest.ensemble.scaling import Scaling
    from certiforest.report import spread_facts
    from certiforest.report.attackers import describe_attacker
    from certiforest.training.estimator import DESCRIPTION

    check_part(part)
    table, scaling = data.source().open()
    if table.y is None:
        raise InputError(f"Expected labels to learn, got none in {data.data}: name the label column by --target.")
    has_classes = not TRAINERS[model].endswith("Regressor")
    chosen, y = rows_of_part(table, part, has_classes=has_classes), table.y
    if not has_classes:
        y = values_of(y, len(table))
    if scale and scaling is None:
        scaling = Scaling.of(table.X[chosen])
    X = table.X if scaling is None else scaling.apply(table.X)
    attacker = options.attacker(table.feature_names, X.shape[1])
    rows = InputRows(X[chosen], y[chosen], table.feature_names, data.data, row_numbers=chosen, scaling=scaling)
    check_units(attacker, rows)
    chosen_by_user = {"n_estimators": trees, "max_depth": depth, "method": method}
    given = {name: value for name, value in chosen_by_user.items() if value is not None}
    if options.attacker_file is None:
        fixed: dict[str, Any] = {name: getattr(attacker, name) for name in DESCRIPTION}
    else:
        fixed = {"attacker": attacker}
        _check_given_once("--attacker", DESCRIPTION, param or ())
    if attacked:
        if not has_classes:
            raise InputError(f"Expected no --attacked with --model {model}, which knows no classes, got it.")
        labels = np.unique(rows.y).tolist()
        fixed["attacked"] = [find_label("--attacked", text, labels) for text in attacked]
        _check_given_once("--attacked", ("attacked",), param or ())
    estimator = make_estimator(model, {**fixed, "random_state": seed, "n_jobs": jobs, **given}, param or ())
    start = time.perf_counter()
    with console.progress_bar("Training", estimator.get_params().get("n_estimators")) as advance:
        _fit(estimator, rows, advance, param or ())
    seconds = time.perf_counter() - start
    record = TrainingRecord.of(table, part).as_entry()
    ensemble = estimator.ensemble_.with_columns(table.feature_names, scaling, record)
    ensemble.save(out, replace=output.force)  # before rows are certified, which may be interrupted
    attacker, attacked_ = estimator.attacker_, estimator.attacked_ if has_classes else None
    summary: dict[str, Any] = {
        "model": describe_model(ensemble, str(out)),
        "data": {
            "source": data.data,
            "part": part,
            "n_rows": len(rows),
            "scaled": scaling is not None,
            "n_missing": int(np.isnan(rows.X).sum()),
        },
        "attacker": describe_attacker(attacker, table.feature_names),
        "attacked": None if attacked_ is None else attacked_.tolist(),
        "spread": spread_facts(ensemble, attacker)["spread"],
        "seconds": round(seconds, 3),
    }
    if part == "train":
        rest = rows_of_part(table, "test", has_classes=has_classes)
        asked = {"attacked": attacked_} if has_classes else {"tolerance": 0.0}
        found = certify(ensemble, X[rest], y[rest], attacker, n_jobs=jobs, **asked).unless_interrupted()
        held = count_verdicts(found) if has_classes else _mean_errors(found, y[rest])
        summary["held_out"] = {"n_rows": len(found), **held}
        if held_out is not None:
            output.write(held_out, _table_as_csv(table.take(rest)))
    if output.as_json:
        console.say_json(summary)
    else:
        _show_training(summary, held_out)


def make_estimator(model: str, params: dict[str, Any], given: Sequence[str]) -> Any:
    """Return an estimator with parameters of ours, and those given as NAME=VALUE."""
    estimator = getattr(import_module("certiforest"), TRAINERS[model])()
    known = estimator.get_params()
    if "method" in params and "method" not in known:
        raise InputError(f"Expected no --method with --model {model}, which has one only, got {params['method']!r}.")
    for option, name in (("--trees", "n_estimators"), ("--depth", "max_depth")):
        if name in params and name not in known:
            raise InputError(f"Expected no {option} with --model {model}, whose trees follow its columns, got one.")
    if "n_jobs" not in known:
        del params["n_jobs"]
    for entry in given:
        name, equals, text = entry.partition("=")
        if not equals or name not in known or name in NOT_TYPED:
            names = ", ".join(sorted(set(known) - {*NOT_TYPED}))
            raise InputError(f"Expected --param NAME=VALUE with a name among {names}, got {shown(entry)}.")
        params[name] = _read_value(text, entry)
    return estimator.set_params(**params)


def _check_given_once(option: str, names: Sequence[str], given: Sequence[str]) -> None:
    """Refuse parameters of the attacker that --param gives, too."""
    for entry in given:
        if entry.partition("=")[0] in names:
            raise InputError(f"Expected {option}, or the same by --param, got both ({shown(entry)}).")


def _read_value(text: str, entry: str) -> Any:
    def whole(digits: str) -> int:
        if len(digits) > 19 or not -(2**63) <= int(digits) < 2**63:
            raise InputError(f"Expected --param with numbers of 64 bits at most, got {shown(entry)}.")
        return int(digits)

    try:
        return json.loads(text, parse_int=whole)
    except json.JSONDecodeError:
        return text
    except RecursionError:
        raise InputError(f"Expected --param with a plain value, got {shown(entry)}.") from None


def _fit(estimator: Any, rows: Table, advance: Callable[[int], None], given: Sequence[str]) -> None:
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
            estimator.fit(rows.X, rows.y)
        except RuntimeError as error:  # fewer trees than asked for
            if not str(error).startswith("Expected "):
                raise
            raise InputError(f"{error} (Parameters are given by --param, e.g. --param n_partitions=4.)") from None
        except (ValueError, TypeError, ArithmeticError) as error:
            # Rows were checked, so what begins so is about a parameter; trainers do not examine all that --param gives.
            if str(error).startswith("Expected "):
                raise InputError(str(error)) from None
            if given:
                raise InputError(f"Expected --param that the trainer takes, got {listed(given)} ({error}).") from None
            raise
    for warning in caught:
        console.complain(f"warning: {warning.message}")


def _mean_errors(found: Certificates, y: NDArray) -> dict[str, Any]:
    """Return how far off a regressor is, and is at most whatever an attacker does, in the mean over rows."""
    import numpy as np

    said, low, high = (np.abs(np.asarray(side, float) - y) for side in (found.prediction, found.low, found.high))
    return {"mean_error": float(said.mean()), "mean_worst_error": float(np.maximum(low, high).mean())}


def _table_as_csv(table: Table) -> str:
    """Return rows as CSV that reads back as the same numbers, the label last; what is missing is left blank."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    if table.feature_names is not None:
        writer.writerow([*table.feature_names, table.target_name or "label"])
    for row, label in zip(table.X.tolist(), table.y.tolist(), strict=True):
        writer.writerow([*("" if value != value else repr(value) for value in row), label])
    return text.getvalue()


def _show_training(summary: dict[str, Any], held_out: Path | None) -> None:
    from certiforest.report.attackers import attacker_name

    model, data, attacker = summary["model"], summary["data"], summary["attacker"]
    unit = "scaled to [0, 1]" if data["scaled"] else "as they are in the file"
    spread = summary["spread"]
    facts = [
        ("Rows, features", f"{data['n_rows']} ({data['part']} part), {model['n_features']} {unit}"),
        ("Trees, nodes", f"{model['n_trees']}, {model['n_nodes']}"),
        ("Spread", "no two trees share a feature" if spread is None else repr(spread)),
        ("Time", f"{summary['seconds']:.2f} s"),
    ]
    if data["n_missing"]:
        facts.insert(1, ("Missing values", f"{data['n_missing']} in these rows; splits learned a side for them"))
    if "held_out" in summary:
        rest = summary["held_out"]
        facts.append(("Held-out rows", f"{rest['n_rows']} ('certify --part test' takes the same)"))
        if "accuracy" in rest:
            facts.append(("  Accuracy", f"{rest['accuracy']:.2%}"))
            facts.append(("  Robust accuracy", interval(rest["robust_accuracy_bounds"], ".2%")))
        else:
            facts.append(("  Mean error", f"{rest['mean_error']:.4g}"))
            facts.append(("  Mean error at worst", f"{rest['mean_worst_error']:.4g} at most"))
    if held_out is not None:
        facts.append(("  Written to", str(held_out)))
    facts.append(("Model file", model["path"]))
    console.show_facts(f"Trained on {data['source']} against {attacker_name(attacker)}", facts)

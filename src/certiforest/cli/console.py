"""What people see: lines and tables, JSON for machines, progress bars. The only place that prints."""

from __future__ import annotations

import csv
import io
import json
import math
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table as TextTable

from certiforest.attack.attacker import Attacker
from certiforest.attack.spread import has_large_spread, largest_certifiable_eps
from certiforest.data.sources import Sample
from certiforest.ensemble import TreeEnsemble
from certiforest.verification.certificates import STABLE, UNDECIDED, UNSTABLE, Certificates


def summarise(
    ensemble: TreeEnsemble,
    attacker: Attacker,
    found: Certificates,
    *,
    model: str,
    rows: Sample,
    seconds: float,
) -> dict[str, Any]:
    """Return what a certification found, for JSON and for a table."""
    largest = largest_certifiable_eps(ensemble, attacker)
    return {
        "model": describe_model(ensemble, model),
        "data": {
            "source": rows.source,
            "part": rows.part,
            "n_rows": len(found),
            "scaled": rows.scaling is not None,
        },
        "attacker": {
            "norm": norm_name(attacker),
            "eps": attacker.eps,
            "frozen": None if attacker.frozen is None else attacker.frozen.tolist(),
        },
        "has_large_spread": has_large_spread(ensemble, attacker),
        "largest_eps": None if largest < 0 else finite_or_none(largest),
        **count_verdicts(found),
        "seconds": round(seconds, 4),
    }


def describe_model(ensemble: TreeEnsemble, path: str | None) -> dict[str, Any]:
    """Return a model's sizes and classes, for JSON."""
    return {
        "path": path,
        "n_trees": ensemble.n_trees,
        "n_nodes": ensemble.n_nodes,
        "n_features": ensemble.n_features,
        "classes": ensemble.classes.tolist(),
        "scaled": ensemble.scaling is not None,
    }


def count_verdicts(found: Certificates) -> dict[str, Any]:
    """Return how rows came out, for JSON: counts, shares, and the median radius if there are radii."""
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
        counts["median_radius"] = finite_or_none(float(np.median(found.radius)))
    return counts


def show_summary(summary: dict[str, Any]) -> None:
    """Show what `summarise` returns as a table."""
    attacker, data = summary["attacker"], summary["data"]
    table = key_values(f"{summary['model']['path']} against L{attacker['norm']}, eps {attacker['eps']}")
    rows = f"{data['n_rows']} ({data['source']}" + (f", {data['part']} part" if data["part"] != "all" else "")
    rows += ", scaled)" if data["scaled"] else ")"
    table.add_row("Rows", rows)
    if "verdicts" in summary:
        table.add_row("Accuracy", f"{summary['accuracy']:.2%}")
        table.add_row("Robust accuracy", as_percent(summary["robust_accuracy_bounds"], digits=2))
        for name, count in summary["verdicts"].items():
            table.add_row(f"  {name}", str(count))
    else:
        for name in ("stable", "unstable", "unknown"):
            table.add_row(name.capitalize(), str(summary[name]))
    if "median_radius" in summary:
        median = summary["median_radius"]
        shown = "infinite" if median is None else f"{median:.6g}"
        table.add_row("Median radius", f"{shown} (lower bounds counted)")
    table.add_row("Large spread", "yes: no trees meet at any row" if summary["has_large_spread"] else "no")
    table.add_row("Time", f"{summary['seconds']:.2f} s")
    show(table)


def rows_as_csv(found: Certificates, rows: Sample, *, radius: bool, witness: bool) -> str:
    """Return one line per row: label, prediction, verdict, and on request radius and witness."""
    columns: dict[str, list] = {"row": rows.row_numbers.tolist()}
    if found.label is not None:
        columns["label"] = found.label.tolist()
    columns["prediction"] = found.prediction.tolist()
    columns["stable"] = found.stable.tolist()
    columns["method"] = found.method.tolist()
    if found.label is not None:
        columns["verdict"] = [verdict.name for verdict in found.verdict]
    if radius and not (found.radius is None or found.radius_upper is None or found.radius_is_exact is None):
        columns["radius"] = found.radius.tolist()
        columns["radius_is_exact"] = found.radius_is_exact.tolist()
        columns["radius_upper"] = found.radius_upper.tolist()
    if witness and found.witness is not None:
        for index, column in enumerate(found.witness.T):
            name = f"witness_{feature_name(rows.names, index)}"
            columns[name] = ["" if value != value else repr(value) for value in column.tolist()]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    return text.getvalue()


def feature_name(names: Sequence[str] | None, index: int) -> str:
    """Return a feature's name, one made of its index if there are no names."""
    return f"feature_{index}" if names is None else names[index]


def norm_name(attacker: Attacker) -> str:
    """Return a norm as it is typed."""
    return "inf" if math.isinf(attacker.norm) else str(int(attacker.norm))


def as_percent(bounds: Sequence[float], digits: int = 1) -> str:
    """Return an interval as percentages, one if both ends are equal."""
    low, high = bounds
    if low == high:
        return f"{low:.{digits}%}"
    return f"{low:.{digits}%} to {high:.{digits}%}"


def finite_or_none(value: float) -> float | None:
    """JSON has no infinity; null stands for it."""
    return value if math.isfinite(value) else None


def shortened(names: Sequence[str]) -> str:
    """Return the first few names, and how many there are."""
    return ", ".join(names[:8]) + (f", ... ({len(names)} in all)" if len(names) > 8 else "")


def key_values(title: str) -> TextTable:
    """Return an empty table of two columns: what, and how much."""
    table = TextTable(title=title, show_header=False)
    table.add_column(style="bold")
    table.add_column()
    return table


def show(table: TextTable) -> None:
    """Print a table."""
    console = Console()
    if not console.is_terminal:  # a file or pipe has no width to fit into
        console = Console(width=160)
    if table.title is not None:  # on a line of its own, as a table would wrap it to its own width
        console.print(table.title, soft_wrap=True, highlight=False, markup=False, style="italic")
        table.title = None
    console.print(table)


def say(text: str) -> None:
    """Print one line as it is."""
    Console(soft_wrap=True, highlight=False, markup=False).print(text)


def say_json(document: Any) -> None:
    """Print a document for machines."""
    sys.stdout.write(json.dumps(document, indent=2, allow_nan=False) + "\n")


def complain(text: str) -> None:
    """Print one line on standard error."""
    sys.stderr.write(f"certiforest: {' '.join(text.split())}\n")


class Steps:
    """Counts steps of a task on a progress bar."""

    def __init__(self, bar: Progress, title: str, total: int) -> None:
        self._bar, self._title = bar, title
        self._task = bar.add_task(title, total=total)

    def __call__(self, n_steps: int) -> None:
        """Count more steps as done."""
        self._bar.advance(self._task, n_steps)

    def show(self, n_done: int, total: int, step: str) -> None:
        """Say which step of how many is being done."""
        self._bar.update(self._task, completed=n_done, total=total, description=f"{self._title}: {step}")


@contextmanager
def progress_bar(title: str, total: int) -> Iterator[Steps]:
    """Show a bar with the time left while standard error is a terminal; yields what counts steps."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    bar = Progress(*columns, console=console, transient=True)
    with bar if console.is_terminal else nullcontext():  # a disabled bar leaves an empty line in older versions of rich
        yield Steps(bar, title, total)

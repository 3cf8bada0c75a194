"""What came out, as plain data for JSON, and in words."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING, Any

import numpy as np

from certiforest.cli import console
from certiforest.report.findings import SpreadFacts, count_stability
from certiforest.report.witnesses import witnesses_in_data
from certiforest.verdicts import Verdict
from certiforest.verification.certificates import Certificates
from certiforest.words import feature_name, finite_or_none, interval, norm_name

if TYPE_CHECKING:
    from certiforest.cli.certifying import Run
    from certiforest.data.sources import Sample
    from certiforest.ensemble import TreeEnsemble


def summarise(run: Run, spread: SpreadFacts) -> dict[str, Any]:
    """Return what a certification found, for JSON and for a table."""
    rows, attacker = run.rows, run.attacker
    return {
        "model": describe_model(run.ensemble, run.model),
        "data": {
            "source": rows.source,
            "part": rows.part,
            "n_rows": len(run.found),
            "scaled": rows.scaling is not None,
        },
        "attacker": {**attacker.to_document(), "norm": norm_name(attacker.norm)},
        "has_large_spread": spread.is_large,
        "largest_eps": spread.largest_eps,
        **count_verdicts(run.found),
        "provenance": run.found.about,
        "seconds": round(run.seconds, 4),
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
    counts: dict[str, Any] = dict(count_stability(found))
    if found.label is not None:
        counts["verdicts"] = {verdict.name: count for verdict, count in found.counts.items()}
        counts["accuracy"] = found.accuracy
        counts["robust_accuracy"] = found.robust_accuracy
        counts["robust_accuracy_bounds"] = list(found.robust_accuracy_bounds)
    if found.radius is not None:
        counts["median_radius"] = finite_or_none(_median(found.radius))
    return counts


def _median(values: np.ndarray) -> float:
    low, high = np.quantile(values, 0.5, method="lower"), np.quantile(values, 0.5, method="higher")
    return float(low / 2 + high / 2) if low < high else float(low)


def show_summary(summary: dict[str, Any]) -> None:
    """Show what `summarise` returns as a table."""
    attacker, data = summary["attacker"], summary["data"]
    part = f", {data['part']} part" if data["part"] != "all" else ""
    facts = [("Rows", f"{data['n_rows']} ({data['source']}{part}{', scaled' if data['scaled'] else ''})")]
    if "verdicts" in summary:
        facts.append(("Accuracy", f"{summary['accuracy']:.2%}"))
        facts.append(("Robust accuracy", interval(summary["robust_accuracy_bounds"], ".2%")))
        facts += [(f"  {Verdict[name].words}", str(count)) for name, count in summary["verdicts"].items()]
    else:
        facts += [(name.capitalize(), str(summary[name])) for name in ("stable", "unstable", "unknown")]
    if "median_radius" in summary:
        median = summary["median_radius"]
        facts.append(("Median radius", f"{'infinite' if median is None else f'{median:.6g}'} (lower bounds counted)"))
    facts.append(("Large spread", "yes: no trees meet at any row" if summary["has_large_spread"] else "no"))
    facts.append(("Time", f"{summary['seconds']:.2f} s"))
    console.show_facts(f"{summary['model']['path']} against L{attacker['norm']}, eps {attacker['eps']}", facts)


def rows_as_csv(found: Certificates, rows: Sample, *, radius: bool, witness: bool) -> str:
    """Return one line per row: label, prediction, verdict, and on request radius and witness."""
    columns: list[tuple[str, list]] = [("row", rows.row_numbers.tolist())]
    if found.label is not None:
        columns.append(("label", found.label.tolist()))
    columns.append(("prediction", found.prediction.tolist()))
    columns.append(("stable", found.stable.tolist()))
    columns.append(("method", found.method.tolist()))
    if found.label is not None:
        columns.append(("verdict", [verdict.name for verdict in found.verdict]))
    if radius and not (found.radius is None or found.radius_upper is None or found.radius_is_exact is None):
        columns.append(("radius", found.radius.tolist()))
        columns.append(("radius_is_exact", found.radius_is_exact.tolist()))
        columns.append(("radius_upper", found.radius_upper.tolist()))
    if witness and found.witness is not None:
        for index, column in enumerate(witnesses_in_data(found, rows.scaling).T):
            name = f"witness_{feature_name(rows.names, index)}"
            columns.append((name, ["" if value != value else repr(value) for value in column.tolist()]))
    return as_csv([name for name, _ in columns], zip(*(column for _, column in columns), strict=True))


def as_csv(header: list[str] | None, rows: Any) -> str:
    """Return lines of cells."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    if header is not None:
        writer.writerow(header)
    writer.writerows(rows)
    return text.getvalue()

"""What came out, as plain data for JSON, and in words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from certiforest.certificates import Certificates
from certiforest.report.attackers import attacker_name, broken_rows, describe_attacker
from certiforest.rows.row_counts import RowCounts
from certiforest.verdicts import Verdict
from certiforest.words import cut, finite_or_none, interval, listed

if TYPE_CHECKING:
    from certiforest.data.streams import StreamRun
    from certiforest.ensemble import TreeEnsemble


MOST_CLASSES = 10  # that a table shows


def summarise(run: StreamRun, spread: dict[str, Any], seconds: float) -> dict[str, Any]:
    """Return what a certification found, for JSON and for a table."""
    rows, certifier, row_counts, sample = run.stream.first, run.certifier, run.row_counts, run.sample
    radius = None if sample.found is None else sample.found.radius
    verdicts = {} if row_counts is None else _in_numbers(row_counts, radius)
    if radius is not None and len(radius) and not sample.is_all:
        ends = [max(0.5 - sample.half_width, 0.0), min(0.5 + sample.half_width, 1.0)]
        verdicts["median_radius_interval"] = [finite_or_none(_quantile(radius, end)) for end in ends]
    return {
        "model": describe_model(certifier.ensemble, run.model),
        "data": {
            "source": rows.source,
            "part": rows.part,
            "n_rows": run.n_rows,
            "scaled": rows.scaling is not None,
            **({} if run.n_broken is None else {"n_broken": run.n_broken}),
            **({"remarks": run.remarks} if run.remarks else {}),
        },
        "attacker": describe_attacker(certifier.attacker),
        **({"tolerance": certifier.tolerance} if certifier.is_regressor else {}),
        "attacked": None if certifier.attacked is None else certifier.attacked.tolist(),
        "has_large_spread": spread["has_large_spread"],
        "largest_eps": spread["largest_eps"],
        **verdicts,
        "origin": run.about,
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
    return _in_numbers(found.row_counts, found.radius)


def _in_numbers(row_counts: RowCounts, radius: NDArray[np.float64] | None) -> dict[str, Any]:
    counts: dict[str, Any] = dict(row_counts.stability)
    if row_counts.has_labels:
        bounds = row_counts.robust_accuracy_bounds
        counts |= {"verdicts": row_counts.verdicts["verdicts"], "accuracy": row_counts.accuracy}
        counts |= {"robust_accuracy": bounds[0], "robust_accuracy_bounds": list(bounds)}
        counts["recall"] = {str(label): share for label, share in row_counts.recall.items()}
        counts["robust_recall"] = {str(label): share for label, share in row_counts.robust_recall.items()}
    if radius is not None and len(radius):
        counts["median_radius"] = finite_or_none(_quantile(radius, 0.5))
    return counts


def _quantile(values: NDArray[np.float64], share: float) -> float:
    """Return the middle of what may be called a quantile; the lower bound alone where the upper one is infinite."""
    low, high = np.quantile(values, share, method="lower"), np.quantile(values, share, method="higher")
    return float(low / 2 + high / 2) if low < high else float(low)


def facts_of(summary: dict[str, Any]) -> tuple[str, list[tuple[str, str]]]:
    """Return what `summarise` returns in words: a title, and facts by name."""
    attacker, data = summary["attacker"], summary["data"]
    part = f", {data['part']} part" if data["part"] != "all" else ""
    facts = [("Rows", f"{data['n_rows']} ({data['source']}{part}{', scaled' if data['scaled'] else ''})")]
    if "verdicts" in summary:
        facts.append(("Accuracy", f"{summary['accuracy']:.2%}"))
        facts.append(("Robust accuracy", interval(summary["robust_accuracy_bounds"], ".2%")))
        facts += [(f"  {Verdict[name].words}", str(count)) for name, count in summary["verdicts"].items()]
        recall = list(summary["recall"].items())
        for label, share in recall[:MOST_CLASSES]:
            facts.append((f"Recall of {cut(label, 30)}", f"{share:.2%}, robust {summary['robust_recall'][label]:.2%}"))
        if len(recall) > MOST_CLASSES:
            facts.append(("Recall of the others", f"{len(recall) - MOST_CLASSES} classes, in --json"))
    else:
        facts += [(name.capitalize(), str(summary[name])) for name in ("stable", "unstable", "unknown")]
    if summary["attacked"] is not None:
        facts.append(("Attacked", f"rows of {listed(summary['attacked'])} only"))
    if "median_radius" in summary:
        median = summary["median_radius"]
        facts.append(("Median radius", f"{'infinite' if median is None else f'{median:.6g}'} (lower bounds counted)"))
    if "n_broken" in data:
        facts.append(broken_rows(data["n_broken"]))
    facts.append(("Large spread", "yes: no trees meet at any row" if summary["has_large_spread"] else "no"))
    facts.append(("Time", f"{summary['seconds']:.2f} s"))
    facts += [("Remark", remark) for remark in data.get("remarks", ())]
    return f"{summary['model']['path']} against {attacker_name(attacker)}", facts

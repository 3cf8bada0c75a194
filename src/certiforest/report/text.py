"""The report as a page of plain text, and certificates in six lines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from certiforest.report.attackers import attacker_facts, attacker_name
from certiforest.report.findings import count_roads
from certiforest.verdicts import Verdict
from certiforest.words import class_name, cut, interval, listed

if TYPE_CHECKING:
    from certiforest.verification.certificates import Certificates


#: What is said about where findings come from; other entries are versions of libraries.
ORIGINS = {
    "date": "Certified at",
    "time_limit": "Seconds for a question about a row",
    "total_time_limit": "Seconds for all questions",
    "model_file": "Model file",
    "model_file_sha256": "SHA-256 of the model file",
    "data_file": "Data file",
    "data_file_sha256": "SHA-256 of the data file",
    "rows_left_out": "Rows of the data left out",
}
N_CHANGES_SHOWN = 3


def summary_of(found: Certificates) -> list[tuple[str, str]]:
    """Return what certificates say in all: attacker, shares, verdicts and roads, each as a pair of texts."""
    attacker = repr(found.attacker)
    facts = [("attacker", attacker[attacker.find("(") + 1 : -1] if attacker.endswith(")") else attacker)]
    if found.label is None:
        facts.append(("stability", _with_counts(found.tally.stability)))
    else:
        facts.append(("accuracy", f"{found.accuracy:.1%}"))
        facts.append(("robust accuracy", interval(found.robust_accuracy_bounds, ".1%")))
        facts.append(("verdicts", _with_counts({verdict.words: n for verdict, n in found.counts.items()}, "; ")))
    facts.append(("roads", _with_counts(count_roads(found))))
    return facts


def _with_counts(counts: dict[str, int], between: str = ", ") -> str:
    return between.join(f"{n:,} {what}" for what, n in counts.items() if n) or "none"


def as_text(findings: dict[str, Any]) -> str:
    """Write the main findings as a page of plain text."""
    model, data, attacker = findings["model"], findings["data"], findings["attacker"]
    lines = [
        f"{model['name']} on {data['name']} against {attacker_name(attacker)}",
        f"{model['n_trees']} trees, {model['n_nodes']} nodes, {model['n_features']} features",
        f"{data['n_rows']} rows",
        *data.get("remarks", ()),
    ]
    if findings["verdicts"] is None:
        lines += [f"{name}: {count}" for name, count in findings["stability"].items()]
    else:
        robust = interval(findings["robust_accuracy_bounds"], ".2%")
        lines.append(f"accuracy {findings['accuracy']:.2%}, robust accuracy {robust}")
        lines += [f"{Verdict[name].words}: {count}" for name, count in findings["verdicts"].items()]
    closest = findings["spread_map"]["closest_pair"]
    if closest is not None:
        lines.append(f"closest thresholds of two trees: {closest['distance']:.6g} apart, on {closest['feature']}")
    if findings["fragile_rows"]:
        lines.append(
            "most fragile rows, each with a change that works (numbers; whether the world has them is not examined):"
        )
    lines += [fragile_line(row) for row in findings["fragile_rows"] or ()]
    if findings["attacked"] is not None:
        lines.append(f"Only rows of {listed(findings['attacked'])} are attacked.")
    lines += [f"{name}: {value}" for name, value in [*attacker_facts(attacker), *origin_facts(findings)]]
    return "\n".join(lines) + "\n"


def fragile_line(row: dict[str, Any]) -> str:
    """Write a fragile row of the findings in a line: what becomes of it, and by which changes."""
    changes = ", ".join(f"{change['feature']} {moved(change, ' -> ')}" for change in row["changes"][:N_CHANGES_SHOWN])
    more = f" and {row['n_changed'] - N_CHANGES_SHOWN} more" if row["n_changed"] > N_CHANGES_SHOWN else ""
    at = "" if row["radius"] is None else f" from eps {row['radius']:.6g} on, for instance"
    return f"  row {row['row']}: {prediction_change(row)}{at} by {changes}{more}"


def prediction_change(row: dict[str, Any]) -> str:
    """Say what a row is predicted, and what it becomes if it is changed."""
    names = [class_name(row[key]) for key in ("prediction", "changed_prediction") if row[key] is not None]
    return " becomes ".join(names)


def moved(change: dict[str, Any], arrow: str) -> str:
    """Write a change in the units of the data where these are known, with the digits that show it."""
    pair = ("from_in_data", "to_in_data") if "from_in_data" in change else ("from", "to")
    before, after = change[pair[0]], change[pair[1]]
    if not isinstance(before, float) or not isinstance(after, float):  # missing, or a category by name
        values = ["missing" if value is None else value for value in (before, after)]
        return arrow.join(_plain(value, 6) if isinstance(value, float) else cut(str(value), 60) for value in values)
    digits = next((d for d in range(4, 16) if f"{before:.{d}g}" != f"{after:.{d}g}"), 17)
    return f"{_plain(before, digits)}{arrow}{_plain(after, digits)}"


def _plain(value: float, digits: int) -> str:
    """Write a number without an exponent where that is readable."""
    text = f"{value:.{digits}g}"
    return f"{float(text):,.0f}" if "e+" in text and abs(value) < 1e12 else text


def origin_facts(findings: dict[str, Any]) -> list[tuple[str, str]]:
    """Return where model, rows and findings come from, as pairs of texts: enough to repeat and to compare."""
    model, data, made = findings["model"], findings["data"], findings["origin"]
    digests = {
        "SHA-256 of the model's content": model["sha256"],
        "SHA-256 of the rows as certified (float64)": data["rows_sha256"],
    }
    facts = [(name, value) for name, value in digests.items() if value is not None]
    for name, value in made.items():
        facts.append((ORIGINS.get(name, f"Version of {name}"), "no limit" if value is None else str(value)))
    return facts

"""Changes of a row, and where certificates come from, in words."""

from __future__ import annotations

from typing import Any

from certiforest.words import class_name, cut

#: What is said about where certificates come from; other entries are versions of libraries.
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


def fragile_line(row: dict[str, Any]) -> str:
    """Write a fragile row of the findings in a line: what becomes of it, and by which changes."""
    changes = ", ".join(f"{change['feature']} {moved(change)}" for change in row["changes"][:N_CHANGES_SHOWN])
    more = f" and {row['n_changed'] - N_CHANGES_SHOWN} more" if row["n_changed"] > N_CHANGES_SHOWN else ""
    at = "" if row["radius"] is None else f" from eps {row['radius']:.6g} on, for instance"
    return f"row {row['row']}: {prediction_change(row)}{at} by {changes}{more}"


def prediction_change(row: dict[str, Any]) -> str:
    """Say what a row is predicted, and what it becomes if it is changed."""
    names = [class_name(row[key]) for key in ("prediction", "changed_prediction") if row[key] is not None]
    return " becomes ".join(names)


def moved(change: dict[str, Any]) -> str:
    """Write a change in the units of the data where these are known, with the digits that show it."""
    pair = ("from_in_data", "to_in_data") if "from_in_data" in change else ("from", "to")
    before, after = change[pair[0]], change[pair[1]]
    if not isinstance(before, float) or not isinstance(after, float):  # missing, or a category by name
        values = ["missing" if value is None else value for value in (before, after)]
        return " -> ".join(_plain(value, 6) if isinstance(value, float) else cut(str(value), 60) for value in values)
    digits = next((d for d in range(4, 16) if f"{before:.{d}g}" != f"{after:.{d}g}"), 17)
    return f"{_plain(before, digits)} -> {_plain(after, digits)}"


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

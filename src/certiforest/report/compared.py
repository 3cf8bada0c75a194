"""Two certifications side by side: in words, and as a page with both curves in one picture."""

from __future__ import annotations

from html import escape
from typing import Any

from certiforest.report.attackers import attack_in_words, attacker_facts
from certiforest.report.charts import curve_chart
from certiforest.report.page import facts, figure, legend, page, section, shares, table, tiles
from certiforest.words import counted, interval, named

COLOURS = ("var(--accent)", "var(--BROKEN)")
N_ROWS_SHOWN = 20


def as_text(comparison: dict[str, Any]) -> str:
    """Write a comparison in a few lines."""
    lines = [f"{counted(comparison['n_rows'], 'row')}, {proved_word(comparison)}:"]
    for side in comparison["sides"]:
        accuracy = "" if side["accuracy"] is None else f" (accuracy {side['accuracy']:.2%})"
        lines.append(f"  {side['name']}: {interval(side['proved'], '.2%')}{accuracy}")
    first, second = (side["name"] for side in comparison["sides"])
    lines.append(f"  both: {comparison['both']:,}; neither: {comparison['neither']:,}")
    for who, rows in ((first, comparison["lost"]), (second, comparison["won"])):
        which = f" (rows {named([str(row) for row in rows])})" if rows else ""
        lines.append(f"  {who} only: {len(rows):,}{which}")
    return "\n".join([*lines, verdict_of(comparison)])


def proved_word(comparison: dict[str, Any]) -> str:
    """Return what is counted."""
    return "proved robust" if comparison["labelled"] else "proved stable"


def verdict_of(comparison: dict[str, Any]) -> str:
    """Say whether the difference may be chance."""
    n_won, n_lost = len(comparison["won"]), len(comparison["lost"])
    if n_won == n_lost:
        return "Neither is better on these rows."
    first, second = (side["name"] for side in comparison["sides"])
    better = second if n_won > n_lost else first
    p = comparison["p_value"]
    chance = f"p = {p:.2g}" if p >= 1e-4 else "p < 0.0001"
    return (
        f"{better} is better on these rows; were neither better on such rows, a difference as large would come about"
        f" with {chance} (exact McNemar test)."
    )


def as_html(comparison: dict[str, Any]) -> str:
    """Draw a comparison as one self-contained page."""
    first, second = comparison["sides"]
    title = f"{first['name']} and {second['name']} compared"
    what = proved_word(comparison)
    parts = [
        f"<h1>{escape(title)}</h1>",
        f"<p>{escape(verdict_of(comparison))}</p>",
        tiles(
            [("Rows", f"{comparison['n_rows']:,}", "")]
            + [(side["name"], interval(side["proved"], ".1%"), what) for side in (first, second)]
        ),
        section("Rows won and lost", _outcomes(comparison)),
        section("Class by class", _classes(first, second)),
        section("Certified curves", _curves(comparison)),
        *(section(f"Attacker of {side['name']}", _attacker(side)) for side in (first, second)),
    ]
    return page(title, parts)


def _outcomes(comparison: dict[str, Any]) -> str:
    first, second = (side["name"] for side in comparison["sides"])
    entries = [
        ("both", comparison["both"], "var(--ROBUST)", []),
        (f"{first} only", len(comparison["lost"]), COLOURS[0], comparison["lost"]),
        (f"{second} only", len(comparison["won"]), COLOURS[1], comparison["won"]),
        ("neither", comparison["neither"], "var(--UNKNOWN)", []),
    ]
    rows = [
        (
            f'<span class="swatch" style="background:{colour}"></span>{escape(name)}',
            named([str(row) for row in which], N_ROWS_SHOWN),
            f"{count:,}",
        )
        for name, count, colour, which in entries
    ]
    bar = shares([(name, count, colour) for name, count, colour, _ in entries])
    return bar + table((f"{proved_word(comparison).capitalize()} by", "Which rows", "Rows"), rows, n_left=2)


def _classes(first: dict[str, Any], second: dict[str, Any]) -> str:
    if first["by_class"] is None:
        return ""
    rows = [
        (
            escape(a["class"]),
            f"{a['n_rows']:,}",
            interval(a["robust_accuracy_bounds"], ".1%"),
            interval(b["robust_accuracy_bounds"], ".1%"),
        )
        for a, b in zip(first["by_class"], second["by_class"], strict=True)
    ]
    return table(("Class", "Rows", escape(first["name"]), escape(second["name"])), rows)


def _curves(comparison: dict[str, Any]) -> str:
    sides = comparison["sides"]
    if any(side["curve"] is None for side in sides):
        return ""
    curves = [(side["curve"], colour) for side, colour in zip(sides, COLOURS, strict=True)]
    eps = [side["attacker"]["eps"] for side in sides]
    what = "robust accuracy" if comparison["labelled"] else "share of stable rows"
    names = legend([(colour, side["name"]) for side, colour in zip(sides, COLOURS, strict=True)])
    return figure(names + curve_chart(curves, what, eps), f"At each eps, the {what} that is proved.")


def _attacker(side: dict[str, Any]) -> str:
    if side["attacker"] is None:
        return ""
    return facts([("May change", attack_in_words(side["attacker"])), *attacker_facts(side["attacker"])])

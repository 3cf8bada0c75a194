"""Two certifications side by side: in words, and as a page with both curves in one picture."""

from __future__ import annotations

from html import escape
from typing import Any

from certiforest.report.attackers import attack_in_words, attacker_facts, budget_of, units_in_words
from certiforest.report.charts import curve_chart
from certiforest.report.page import breakable, facts, figure, legend, page, section, shares, table, tiles
from certiforest.report.text import origin_facts
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
        which = f" ({'row' if len(rows) == 1 else 'rows'} {named([str(row) for row in rows])})" if rows else ""
        lines.append(f"  {who} only: {len(rows):,}{which}")
    return "\n".join([*lines, verdict_of(comparison)])


def proved_word(comparison: dict[str, Any]) -> str:
    """Return what is counted."""
    return "proved robust" if comparison["labelled"] else "proved stable"


def verdict_of(comparison: dict[str, Any]) -> str:
    """Say whether the difference may be chance."""
    n_won, n_lost = len(comparison["won"]), len(comparison["lost"])
    if n_won == n_lost:
        return f"As many rows are {proved_word(comparison)} for one as for the other."
    first, second = (side["name"] for side in comparison["sides"])
    better = second if n_won > n_lost else first
    p = comparison["p_value"]
    chance = f"p = {p:.2g}" if p >= 1e-4 else "p < 0.0001"
    return (
        f"More rows are {proved_word(comparison)} for {better}; were rows as likely won as lost, a difference as large"
        f" would come about with {chance} (exact McNemar test)."
    )


def as_html(comparison: dict[str, Any]) -> str:
    """Draw a comparison as one self-contained page."""
    first, second = comparison["sides"]
    title = f"{first['name']} and {second['name']} compared"
    what = proved_word(comparison)
    settings = [_setting(side) for side in (first, second)]
    common = [fact for fact in settings[0] if fact in settings[1]]
    parts = [
        f"<h1>{breakable(title)}</h1>",
        f"<p>{escape(verdict_of(comparison))}</p>",
        tiles(
            [("Rows", f"{comparison['n_rows']:,}", "")]
            + [(side["name"], interval(side["proved"], ".1%"), what + _accuracy(side)) for side in (first, second)]
        ),
        section("Rows won and lost", _outcomes(comparison)),
        section("Class by class", _classes(first, second)),
        section("Certified curves", _curves(comparison)),
        section("Setting of both", facts(common)),
        *(
            section(side["name"], facts([fact for fact in setting if fact not in common]))
            for side, setting in zip((first, second), settings, strict=True)
        ),
    ]
    return page(title, parts)


def _accuracy(side: dict[str, Any]) -> str:
    return "" if side["accuracy"] is None else f", accuracy {side['accuracy']:.1%}"


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
            f'<span class="swatch" style="background:{colour}"></span>{breakable(name)}',
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
    return table(("Class", "Rows", breakable(first["name"]), breakable(second["name"])), rows)


def _curves(comparison: dict[str, Any]) -> str:
    sides = comparison["sides"]
    if any(side["curve"] is None for side in sides):
        return ""
    curves = [(side["curve"], colour) for side, colour in zip(sides, COLOURS, strict=True)]
    eps = [budget_of(side["attacker"]) for side in sides]
    what = "robust accuracy" if comparison["labelled"] else "share of stable rows"
    names = legend([(colour, side["name"]) for side, colour in zip(sides, COLOURS, strict=True)])
    return figure(names + curve_chart(curves, what, eps), f"At each eps, the {what} that is proved.")


def _setting(side: dict[str, Any]) -> list[tuple[str, str]]:
    attacker = side["attacker"]
    if attacker is None:
        return origin_facts(side)
    words = f"{attack_in_words(attacker)}.{units_in_words(attacker, side['scaled'])}"
    return [("The attacker may change", words), *attacker_facts(attacker), *origin_facts(side)]

"""Two certifications side by side, as a page with both curves in one picture."""

from __future__ import annotations

from typing import Any

from certiforest.report.attackers import attack_in_words, attacker_facts, budget_of, units_in_words
from certiforest.report.certified import certified_curves
from certiforest.report.in_words import origin_facts
from certiforest.report.sections import Curve, Facts, Page, Plot, Section, Table, Tiles, Words
from certiforest.words import interval, named

COLOURS = ("accent", "BROKEN")
N_ROWS_SHOWN = 20


def comparison_page(comparison: dict[str, Any]) -> Page:
    """Return a comparison as a page."""
    first, second = sides = comparison["sides"]
    what = "proved robust" if comparison["labelled"] else "proved stable"
    settings = [_setting(side) for side in sides]
    common = [fact for fact in settings[0] if fact in settings[1]]
    outcomes = [
        ("both", comparison["both"], "ROBUST", []),
        (f"{first['name']} only", len(comparison["lost"]), COLOURS[0], comparison["lost"]),
        (f"{second['name']} only", len(comparison["won"]), COLOURS[1], comparison["won"]),
        ("neither", comparison["neither"], "UNKNOWN", []),
    ]
    rows = [(name, named([str(i) for i in which], N_ROWS_SHOWN), f"{n:,}") for name, n, _, which in outcomes]
    table = Table(
        (f"{what.capitalize()} by", "Which rows", "Rows"), rows, 2, [(n, colour) for _, n, colour, _ in outcomes]
    )
    return Page(
        f"{first['name']} and {second['name']} compared",
        [
            Words(_verdict(comparison, what)),
            Tiles(
                [("Rows", f"{comparison['n_rows']:,}", "")]
                + [(side["name"], interval(side["proved"], ".2%"), what + _accuracy(side)) for side in sides]
            ),
            Section("Rows won and lost", [table]),
            Section("Class by class", [_classes(first, second)]),
            Section("Certified curves", _curves(comparison)),
            Section("Setting of both", [Facts(common)], in_detail=True),
            *(
                Section(side["name"], [Facts([fact for fact in setting if fact not in common])], in_detail=True)
                for side, setting in zip(sides, settings, strict=True)
            ),
        ],
    )


def _verdict(comparison: dict[str, Any], what: str) -> str:
    """Say whether the difference may be chance."""
    n_won, n_lost = len(comparison["won"]), len(comparison["lost"])
    if n_won == n_lost:
        return f"As many rows are {what} for one as for the other."
    better = comparison["sides"][n_won > n_lost]["name"]
    p = comparison["p_value"]
    chance = f"p = {p:.2g}" if p >= 1e-4 else "p < 0.0001"
    return (
        f"More rows are {what} for {better}; were rows as likely won as lost, a difference as large would come about"
        f" with {chance} (exact McNemar test)."
    )


def _accuracy(side: dict[str, Any]) -> str:
    return "" if side["accuracy"] is None else f", accuracy {side['accuracy']:.2%}"


def _classes(first: dict[str, Any], second: dict[str, Any]) -> Table:
    rows = [
        (a["class"], f"{a['n_rows']:,}", *(interval(side["robust_accuracy_bounds"], ".1%") for side in (a, b)))
        for a, b in zip(first["by_class"] or (), second["by_class"] or (), strict=True)
    ]
    return Table(("Class", "Rows", first["name"], second["name"]), rows)


def _curves(comparison: dict[str, Any]) -> list[Plot]:
    sides = comparison["sides"]
    if any(side["curve"] is None for side in sides):
        return []
    curves = [Curve(side["curve"], colour, side["name"]) for side, colour in zip(sides, COLOURS, strict=True)]
    eps = [budget_of(side["attacker"]) for side in sides]
    return [certified_curves(curves, eps, has_labels=comparison["labelled"])]


def _setting(side: dict[str, Any]) -> list[tuple[str, str]]:
    attacker = side["attacker"]
    if attacker is None:
        return origin_facts(side)
    words = f"{attack_in_words(attacker)}.{units_in_words(attacker, side['scaled'])}"
    return [("The attacker may change", words), *attacker_facts(attacker), *origin_facts(side)]

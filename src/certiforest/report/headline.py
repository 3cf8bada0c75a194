"""The sentence that a report begins with: what an attacker reaches, in words that can be quoted."""

from __future__ import annotations

from typing import Any

from certiforest.report.attackers import budget_of
from certiforest.words import interval, named


def headline(findings: dict[str, Any]) -> str:
    """Return how many rows can be changed and by what, what attacks change most, and what is proved."""
    who, n_rows, stability = _who(findings), findings["data"]["n_rows"], findings["stability"]
    n_attacked = n_rows if findings["attacked"] is None or findings["by_class"] is None else _n_attacked(findings)
    if not n_attacked:
        return ""
    by, attacked = by_words(findings), findings["attacked_features"]
    at_least = "At least " if stability["unknown"] else ""
    becomes = "be predicted otherwise" if findings["tolerance"] is None else "leave the tolerance"
    words = f"{at_least}{stability['unstable'] / n_attacked:.1%} of {n_attacked:,} {who} can be made to {becomes} {by}"
    if not stability["unstable"]:
        words = f"No way was found to make any of {n_attacked:,} {who} {becomes} {by}"
        if not stability["unknown"]:
            words = f"None of {n_attacked:,} {who} can be made to {becomes} {by}: this is proved"
    if attacked and attacked["features"] and stability["unstable"]:
        first = attacked["features"][0]
        words += f"; {first['feature']} is in {first['n_witnesses']:,} of {attacked['n_witnesses']:,} attacks found"
    if findings["verdicts"] is not None:
        share = interval(findings["robust_accuracy_bounds"], ".1%")
        words += f". {share} of all are predicted right, and proved to stay so"
    return f"{words}."


def by_words(findings: dict[str, Any]) -> str:
    """Return what an attacker does, in a few words."""
    attacker, budget = findings["attacker"], budget_of(findings["attacker"])
    if "norm" not in attacker:
        return f"by rules, at a cost of up to {budget:g}"
    if attacker["norm"] == "0":
        of = f"{int(budget)} of {len(attacker['only'])}" if attacker.get("only") else f"{int(budget)}"
        return f"by changing {of} features" if of != "1" else "by changing 1 feature"
    unit = " of their units" if attacker.get("scale") is not None or findings["data"]["scaled"] else ""
    if attacker["norm"] == "inf":
        which = named(attacker["only"], 4) if attacker.get("only") else "features"
        return f"by moving {which} by up to {budget:g}{unit} each"
    return f"by changes of {budget:g}{unit} in all (L{attacker['norm']})"


def _who(findings: dict[str, Any]) -> str:
    if findings["attacked"] is None or findings["by_class"] is None:
        return "rows"
    return f"rows of {' and '.join(map(str, findings['attacked']))}"


def _n_attacked(findings: dict[str, Any]) -> int:
    attacked = {str(label) for label in findings["attacked"]}
    return sum(entry["n_rows"] for entry in findings["by_class"] if entry["class"] in attacked)

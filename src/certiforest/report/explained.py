"""One row explained, as a page: sentences, what changes, and what every tree says."""

from __future__ import annotations

from typing import Any

import numpy as np

from certiforest.report.attackers import attack_in_words, attacker_facts, units_in_words
from certiforest.report.certified import origin_facts
from certiforest.report.sections import Bars, Columns, Facts, Page, Pictures, Plot, Section, Table, Words
from certiforest.report.witnesses import moved, prediction_change
from certiforest.verdicts import STABLE, UNSTABLE
from certiforest.words import class_name, counted, named

N_ALONE_SHOWN = 20


def explanation_page(row: dict[str, Any]) -> Page:
    """Return an explanation as a page."""
    changes = [(change["feature"], moved(change)) for change in row["changes"]]
    may_change = ("May change", attack_in_words(row["attacker"]))
    return Page(
        f"{row['name'].capitalize()}: {prediction_change(row)}",
        [
            *map(Words, sentences(row)),
            Section("The row", [Pictures(row["original"], row["witness"]) if "original" in row else None]),
            Section("What changes", [Table(("Feature", "From and to"), changes, n_left=2)]),
            Section("How far these may go, all at once, while the decision stays", [_box(row)]),
            Section("What the trees say", [_trees(row)]),
            Section("Each feature alone", [_alone(row)]),
            Section("The attacker", [Facts([may_change, *attacker_facts(row["attacker"])])], in_detail=True),
            Section("Where this comes from", [Facts(origin_facts(row))], in_detail=True),
        ],
    )


def _alone(row: dict[str, Any]) -> Bars:
    bars = [(entry["feature"], entry["radius"][1], _radius(entry["radius"])) for entry in row["alone"][:N_ALONE_SHOWN]]
    tried = "" if row["alone_is_complete"] else " (time was up before all were tried)"
    return Bars(bars, f"The radius of the row if this feature alone can be changed{tried}; small ones are dangerous.")


def _box(row: dict[str, Any]) -> Table:
    beyond = {"decision": "another decision", "domain": "the domain ends", "time": "not found out in time"}
    sides = [
        (at["feature"], f"{at['low']:.6g}", f"{at['high']:.6g}", beyond[at["below"]], beyond[at["above"]])
        for at in row["box"] or ()
    ]
    return Table(("Feature", "From", "To", "Below", "Above"), sides)


def sentences(row: dict[str, Any]) -> list[str]:
    """Return what can be said about a row, sentence by sentence."""
    words = [
        f"{row['name'].capitalize()} is predicted {class_name(row['prediction'])}, by a lead of {_lead(row, 'lead')}"
        f" over {class_name(row['rival'])}.",
        f"An attacker may change {attack_in_words(row['attacker'])}.{units_in_words(row['attacker'], row['scaled'])}",
    ]
    if row["stable"] == STABLE:
        words += _why_stable(row)
    elif row["changed_prediction"] is not None:
        words += _why_unstable(row)
    elif row["stable"] == UNSTABLE:
        words.append("Some such change alters the prediction, but which one was not found out in time.")
    else:
        words.append("Whether that changes the prediction was not decided in time; a longer time limit may help.")
    if row["radius"] is None:  # rules have none
        return words
    if row["radius"] == [None, None]:
        words.append("No change of this kind, however large, changes the prediction.")
    else:
        words.append(f"The smallest budget that changes it (its radius) is {_radius(row['radius'])}.")
    return words


def _why_stable(row: dict[str, Any]) -> list[str]:
    n_trees, n_moved = len(row["trees"]), row["n_moved"]
    turned = f"{n_moved:,} of {n_trees:,} trees" if n_moved else f"None of the {n_trees:,} trees"
    words = [
        "No such change alters the prediction: this is proved.",
        f"{turned} can be turned against it, wherever the attacker goes.",
    ]
    if n_moved:
        ends = f"it would still win, by {_lead(row, 'worst_lead')}"
        if not row["each_at_worst_is_enough"]:
            ends = f"{class_name(row['rival'])} would win, by {_lead(row, 'worst_lead')}"
        each = "each of these" if n_moved > 1 else "this tree"
        words.append(f"Were {each} at its own worst, {ends}.")
    if not row["each_at_worst_is_enough"]:
        size = row["proof"] or {"n_numbers": 0, "n_parts": 0}
        words.append(
            "But their worst leaves exclude each other or cost too much together: the proof of that has"
            f" {counted(size['n_numbers'], 'number')} in {counted(size['n_parts'], 'part')}."
        )
    holders = [f"tree {entry['tree']} by {entry['worst']:.4g}" for entry in holding_trees(row)]
    if holders and not row["votes"]:
        words.append(f"Trees that hold most, even at their worst: {named(holders, 5)}.")
    return words


def holding_trees(row: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the trees that speak for the prediction even at their worst, the strongest first."""
    return sorted((entry for entry in row["trees"] if entry["worst"] > 0), key=lambda entry: -entry["worst"])


def _why_unstable(row: dict[str, Any]) -> list[str]:
    n_changed = counted(len(row["changes"]), "feature")
    after = "what was a lead becomes a tie, which it wins"
    if row["lead_on_witness"] < 0:
        after = f"a lead of {_lead(row, 'lead')} becomes one of {_lead(row, 'lead_on_witness')} for the other"
    words = [
        f"A change of {n_changed} makes it {class_name(row['changed_prediction'])}: it sends"
        f" {counted(row['n_turned'], 'tree')} of {len(row['trees']):,} to another leaf, and {after}.",
    ]
    if len(row["changes"]) > 1:
        words.append("Without any one of these changes the prediction would stay.")
    if row["freeze"] is not None:
        least = ", and no smaller set would do" if row["freeze_is_smallest"] and len(row["freeze"]) > 1 else ""
        words.append(f"If {named(row['freeze'])} could not be changed, the row would be stable{least}.")
    elif row["can_freeze"]:
        words.append("Which features would have to be frozen to make it stable was not found out in time.")
    return words


def _lead(row: dict[str, Any], name: str) -> str:
    lead = abs(row[name])
    return counted(round(lead), "vote") if row["votes"] else f"{lead:.6g}"


def _radius(bounds: list[float | None]) -> str:
    low, high = bounds
    if low == high:
        return "infinite" if low is None else f"{low:.6g}"
    return f"at least {low:.6g}" if high is None else f"between {low:.6g} and {high:.6g}"


def _trees(row: dict[str, Any]) -> Plot:
    """Draw for every tree what it adds to the lead, now and at its worst; the trees that hold most come first."""
    trees = sorted(row["trees"], key=lambda entry: (-entry["worst"], -entry["now"]))
    columns, edges = [], np.arange(len(trees) + 1.0)
    for key, colour, label in (("now", "UNKNOWN", "now"), ("worst", "accent", "at its worst")):
        values = np.array([entry[key] for entry in trees])
        titles = [f"tree {entry['tree']}, {key}: {entry[key]:.6g}" for entry in trees]
        columns.append(Columns(edges, np.minimum(values, 0), np.maximum(values, 0), colour, label, titles))
    low, high = min(bars.low.min() for bars in columns), max(bars.high.max() for bars in columns)
    return Plot(
        "trees, the firmest first",
        "adds to the lead",
        (low, high if high > low else low + 1.0),
        columns=columns,
        caption=f"What each tree adds to the lead of {class_name(row['prediction'])} over {class_name(row['rival'])}:"
        " on the row, and on the worst of its leaves that the attacker can reach.",
    )

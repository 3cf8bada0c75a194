"""The report on rows that were certified, as a page: sections for whatever was asked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from certiforest.report.attackers import attack_in_words, attacker_facts, broken_rows, budget_of, units_in_words
from certiforest.report.headline import headline
from certiforest.report.sections import (
    Bars,
    Card,
    Cards,
    Columns,
    Curve,
    Facts,
    Page,
    Part,
    Pictures,
    Plot,
    Section,
    Table,
    Thresholds,
    Tiles,
    Words,
)
from certiforest.report.witnesses import fragile_line, moved, prediction_change
from certiforest.verdicts import Verdict
from certiforest.words import counted, interval, listed

REALITY = (
    "A witness is a row of numbers that the model would answer otherwise. Whether such a row can exist in the world is"
    " not examined beyond what the attacker is told about it."
)
N_CHANGES_SHOWN = 6
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


def report_page(findings: dict[str, Any]) -> Page:
    """Return the report as a page."""
    return Page(
        f"Robustness of {findings['model']['name']} on {findings['data']['name']}",
        [
            Words(headline(findings)),
            Words(_attack_in_words(findings), is_soft=True),
            _tiles(findings),
            Section("Verdicts", [verdict_table(findings)]),
            Section("Class by class", [class_table(findings)]),
            Section("Certified curve", [curve_plot(findings)]),
            Section("Radii", [radius_plot(findings)]),
            Section("Most fragile rows", _fragile(findings)),
            Section("What attacks change", [feature_bars(findings)]),
            Section("Spread", [spread_plot(findings) if _has_distances(findings) else None]),
            Section("Setting", [_setting(findings)]),
            Section("Where this comes from", [Facts(origin_facts(findings))]),
        ],
    )


def _attack_in_words(findings: dict[str, Any]) -> str:
    attacker = findings["attacker"]
    unit = units_in_words(attacker, findings["data"]["scaled"])
    more = " More about the attacker stands under Setting." if attacker_facts(attacker) else ""
    if findings["attacked"] is not None:
        more += f" Only rows of {listed(findings['attacked'])} are attacked; the others are as they are."
    if findings["tolerance"] is not None:
        more += f" A prediction is changed, or wrong, where it differs by more than {findings['tolerance']:g}."
    remarks = "".join(f" {remark}" for remark in findings["data"].get("remarks", ()))
    return (
        f"The attacker may change {attack_in_words(attacker)}.{unit}{more} Every verdict below is proved, not sampled."
        f"{remarks}"
    )


def _has_distances(findings: dict[str, Any]) -> bool:
    """Tell whether distances of thresholds say anything of the attacker: none is enough for norm 0, or for rules."""
    return findings["attacker"].get("norm", "0") != "0"


def _tiles(findings: dict[str, Any]) -> Tiles:
    n_rows = findings["data"]["n_rows"]
    rows = ("Rows", f"{n_rows:,}", "")
    if findings["verdicts"] is None or not n_rows:
        words = {"stable": "Cannot be changed", "unstable": "Can be changed", "unknown": "Not decided"}
        return Tiles([rows] + [(words[name], f"{count:,}", name) for name, count in findings["stability"].items()])
    robust, lost = interval(findings["robust_accuracy_bounds"], ".1%"), findings["verdicts"]["FRAGILE"] / n_rows
    return Tiles(
        [
            rows,
            ("Accuracy", f"{findings['accuracy']:.1%}", "without an attacker"),
            ("Robust accuracy", robust, "proved against this attacker"),
            ("Lost to the attacker", f"{lost:.1%}", "of rows are right but can be changed"),
        ]
    )


def verdict_table(findings: dict[str, Any]) -> Table:
    """Return how many rows got which verdict."""
    verdicts = findings["verdicts"] or {}
    total = max(1, sum(verdicts.values()))
    rows = [(Verdict[name].words, name, f"{n:,}", f"{n / total:.2%}") for name, n in verdicts.items()]
    return Table(("Prediction", "Name", "Rows", "Share"), rows, 2, [(n, name) for name, n in verdicts.items()])


def class_table(findings: dict[str, Any]) -> Table:
    """Return shares class by class."""
    rows = [
        (of["class"], f"{of['n_rows']:,}", f"{of['accuracy']:.1%}", interval(of["robust_accuracy_bounds"], ".1%"))
        for of in findings["by_class"] or ()
    ]
    return Table(("Class", "Rows", "Accuracy", "Robust accuracy"), rows)


def certified_curves(
    curves: Sequence[Curve], budgets: Sequence[float], *, has_labels: bool, level: float | None = None, source: str = ""
) -> Plot:
    """Return certified curves in one picture; ``source`` says what they are read off."""
    what = "robust accuracy" if has_labels else "share of stable rows"
    is_open = any(curve.is_open for curve in curves)
    note = " The grey band is what radii known only as lower bounds leave open." if is_open else ""
    caption = f"At each eps, the {what} that is proved{source}.{note}"
    return Plot("eps", what, (0.0, 1.0), caption, curves, budgets=budgets, level=level)


def curve_plot(findings: dict[str, Any]) -> Plot | None:
    """Return the certified curve; None without radii."""
    if findings["certified_curve"] is None:
        return None
    return certified_curves(
        [Curve(findings["certified_curve"], "ROBUST", "proved")],
        [budget_of(findings["attacker"])],
        has_labels=findings["verdicts"] is not None,
        level=findings["accuracy"],
        source=", read off the radii",
    )


def radius_plot(findings: dict[str, Any]) -> Plot | None:
    """Return how many rows have which radius; None without radii."""
    histogram = findings["radius_histogram"]
    if histogram is None:
        return None
    edges, exact, at_least = (np.array(histogram[key]) for key in ("edges", "exact", "at_least"))
    beyond, known = int(exact[-1] + at_least[-1]), exact[:-1] + at_least[:-1]
    titles = [f"{n} rows" for n in exact[:-1]], [f"at least: {n}" for n in at_least[:-1]]
    columns = [Columns(edges, np.zeros(len(known)), exact[:-1], "accent", "exact radius", titles[0])]
    if at_least.any():
        columns.append(Columns(edges, exact[:-1], known, "UNKNOWN", "at least so large", titles[1]))
    who = " of a row predicted right" if findings["verdicts"] is not None else " of a row"
    note = f" {beyond:,} rows lie beyond the right edge." if beyond else ""
    return Plot(
        "radius",
        "rows",
        (0.0, float(max(1, known.max(initial=0)))),
        columns=columns,
        budgets=[budget_of(findings["attacker"])],
        caption=f"The radius{who} is the smallest eps that changes its prediction.{note}",
    )


def _fragile(findings: dict[str, Any]) -> list[Part]:
    rows, attacked = findings["fragile_rows"], findings["attacked_features"]
    right = "" if findings["verdicts"] is None else " predicted right"
    if rows is None:
        return []
    if not rows:
        return [Words(f"No row{right} can be changed by this attacker.")]
    fractions = ""
    if attacked["n_with_fractions"]:
        fractions = (
            f" Here {attacked['n_with_fractions']:,} of {attacked['n_witnesses']:,} witnesses hold a fraction in a"
            " column that holds whole numbers only; integer (--integer) keeps such columns whole."
        )
    words = (
        f"Rows{right} that take the smallest change to be predicted otherwise, each with a change within the"
        " attacker's reach that does so (its witness)"
    )
    words += ", without changes that it does not need." if findings["tolerance"] is None else ", the largest there is."
    words += " Rows that are changed alike, between the same thresholds, are shown once."
    return [Words(f"{words} {REALITY}{fractions}"), Cards(list(map(_card, rows)))]


def _card(row: dict[str, Any]) -> Card:
    radius, changes = "", row["changes"][:N_CHANGES_SHOWN]
    if row["radius"] is not None:
        at = "" if row["radius_is_exact"] else "at most the attacker's eps, at least "
        radius = f"radius {at}{row['radius']:.6g}; "
    alike = f"; {counted(row['n_alike'] - 1, 'other row')} alike" * (row["n_alike"] > 1)
    note = f"{radius}{counted(row['n_changed'], 'feature')} changed{alike}"
    part: Table | Pictures = Table((), [(change["feature"], moved(change)) for change in changes])
    if "original" in row:
        part = Pictures(row["original"], row["witness"])
    elif row["n_changed"] > len(changes):
        note += f", the {len(changes)} largest:"
    return Card(f"Row {row['row']}: {prediction_change(row)}", note, part, fragile_line(row))


def feature_bars(findings: dict[str, Any]) -> Bars | None:
    """Return in how many witnesses each feature is changed; None without witnesses."""
    attacked = findings["attacked_features"]
    if attacked is None:
        return None
    note = (
        f"In how many of {attacked['n_witnesses']:,} witnesses a feature has to be changed;"
        f" {attacked['n_features_used']} features are used in all. A witness is one attack that works, others may"
        f" exist. {REALITY}"
    )
    entries = [(entry["feature"], entry["n_witnesses"], f"{entry['n_witnesses']:,}") for entry in attacked["features"]]
    return Bars(entries, note, "witnesses that change it", attacked.get("picture"))


def spread_plot(findings: dict[str, Any]) -> Thresholds:
    """Return thresholds along the features that have most of them."""
    spread_map = findings["spread_map"]
    features, closest = spread_map["features"], spread_map["closest_pair"]
    ends = [end for entry in features for end in (min(entry["thresholds"]), max(entry["thresholds"]))]
    on_one_axis = findings["data"]["scaled"] or max(ends, default=0) / 2 - min(ends, default=0) / 2 < 2
    words = [f"Thresholds along the {len(features)} of {spread_map['n_features_used']} features that have most;"]
    words.append("a colour per tree" + ("." if on_one_axis else ", each feature on a scale of its own."))
    if closest is None:
        words.append("No two trees share a feature that the attacker can change.")
    else:
        first, second = closest["trees"]
        words.append(
            f"Framed: the closest pair of two trees ({first} and {second}), {closest['distance']:.6g} apart"
            f" on {closest['feature']}."
        )
        if _has_distances(findings):
            words.append(f"More than 2 eps = {2 * findings['attacker']['eps']:.6g} makes every verdict exact, fast.")
    return Thresholds(features, closest, on_one_axis, " ".join(words))


def _setting(findings: dict[str, Any]) -> Facts:
    model, data, attacker = findings["model"], findings["data"], findings["attacker"]
    lines = [
        ("Model", model["name"]),
        ("Trees, nodes, features", f"{model['n_trees']}, {model['n_nodes']}, {model['n_features']}"),
        ("Classes", ", ".join(model["classes"][:20]) or "none, a regressor"),
        *[("Spread", "no two trees share a feature" if model["spread"] is None else f"{model['spread']!r}")]
        * _has_distances(findings),
        ("Large spread for this attacker", "yes" if model["has_large_spread"] else "no"),
        ("Rows", f"{data['n_rows']:,} from {data['name']}"),
        ("How they were decided", ", ".join(f"{count:,} {method}" for method, count in findings["roads"].items())),
        ("Units", "scaled by the model's own scaling" if data["scaled"] else "as in the data"),
    ]
    if data.get("n_broken") is not None:
        lines.append(broken_rows(data["n_broken"]))
    if "norm" in attacker:
        lines.append(("Norm, eps", f"L{attacker['norm']}, {attacker['eps']!r}"))
    return Facts(lines + attacker_facts(attacker))


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

"""The report as one HTML file: inline SVG and pictures, no script, nothing fetched; light, dark and print.

Every function here draws a part of the findings and returns markup.
"""

from __future__ import annotations

from html import escape
from typing import Any

import numpy as np

from certiforest.report import png
from certiforest.report.attackers import attack_in_words, attacker_facts, budget_of, units_in_words
from certiforest.report.charts import Chart, curve_chart, placer, stroke, svg, tree_colour
from certiforest.report.page import bars, breakable, facts, figure, legend, page, section, shares, table, tiles
from certiforest.report.text import moved, origin_facts, prediction_change
from certiforest.verdicts import Verdict
from certiforest.words import counted, cut, interval, listed

REALITY = (
    "A witness is a row of numbers that the model would answer otherwise. Whether such a row can exist in the world is"
    " not examined beyond what the attacker is told about it."
)


def as_html(findings: dict[str, Any]) -> str:
    """Draw the findings as one self-contained HTML page."""
    model, data = findings["model"], findings["data"]
    title = f"Robustness of {model['name']} on {data['name']}"
    parts = [
        f"<h1>{breakable(title)}</h1>",
        f'<p class="soft">{escape(_attack_in_words(findings))}</p>',
        _tiles(findings),
        _verdict_section(findings),
        _class_section(findings),
        _curve_section(findings),
        _histogram_section(findings),
        _fragile_section(findings),
        _features_section(findings),
        _spread_section(findings),
        _setting_section(findings),
    ]
    return page(title, parts)


def _attack_in_words(findings: dict[str, Any]) -> str:
    attacker = findings["attacker"]
    unit = units_in_words(attacker, findings["data"]["scaled"])
    more = " More about the attacker stands under Setting." if attacker_facts(attacker) else ""
    if findings["attacked"] is not None:
        more += f" Only rows of {listed(findings['attacked'])} are attacked; the others are as they are."
    remarks = "".join(f" {remark}" for remark in findings["data"].get("remarks", ()))
    return (
        f"The attacker may change {attack_in_words(attacker)}.{unit}{more} Every verdict below is proved, not sampled."
        f"{remarks}"
    )


def _tiles(findings: dict[str, Any]) -> str:
    rows = ("Rows", f"{findings['data']['n_rows']:,}", "")
    if findings["verdicts"] is None or not findings["data"]["n_rows"]:
        words = {"stable": "Cannot be changed", "unstable": "Can be changed", "unknown": "Not decided"}
        return tiles([rows] + [(words[name], f"{count:,}", "") for name, count in findings["stability"].items()])
    low, high = findings["robust_accuracy_bounds"]
    fragile = findings["verdicts"]["FRAGILE"] / findings["data"]["n_rows"]
    return tiles(
        [
            rows,
            ("Accuracy", f"{findings['accuracy']:.1%}", "without an attacker"),
            ("Robust accuracy", interval((low, high), ".1%"), "proved against this attacker"),
            ("Lost to the attacker", f"{fragile:.1%}", "of rows are right but can be changed"),
        ]
    )


def _verdict_section(findings: dict[str, Any]) -> str:
    verdicts = findings["verdicts"]
    if verdicts is None:
        return ""
    total = max(1, sum(verdicts.values()))
    rows = [
        (
            f'<span class="swatch" style="background:var(--{name})"></span>{Verdict[name].words}',
            f'<span class="soft">{name}</span>',
            f"{count:,}",
            f"{count / total:.2%}",
        )
        for name, count in verdicts.items()
    ]
    return section(
        "Verdicts",
        shares([(Verdict[name].words, count, f"var(--{name})") for name, count in verdicts.items()])
        + table(("Prediction", "Name", "Rows", "Share"), rows, n_left=2),
    )


def _class_section(findings: dict[str, Any]) -> str:
    rows = [
        (
            escape(entry["class"]),
            f"{entry['n_rows']:,}",
            f"{entry['accuracy']:.1%}",
            interval(entry["robust_accuracy_bounds"], ".1%"),
        )
        for entry in findings["by_class"] or ()
    ]
    return section("Class by class", table(("Class", "Rows", "Accuracy", "Robust accuracy"), rows)) if rows else ""


def _curve_section(findings: dict[str, Any]) -> str:
    curve = findings["certified_curve"]
    if curve is None:
        return ""
    what = "robust accuracy" if findings["verdicts"] is not None else "share of stable rows"
    chart = curve_chart([(curve, "var(--ROBUST)")], what, [budget_of(findings["attacker"])], findings["accuracy"])
    is_open = any(high > low for low, high in zip(curve["low"], curve["high"], strict=True))
    note = " The grey band is what radii known only as lower bounds leave open." if is_open else ""
    caption = f"At each eps, the {what} that is proved, read off the radii of all rows.{note}"
    return section("Certified curve", figure(chart, caption))


def _histogram_section(findings: dict[str, Any]) -> str:
    histogram = findings["radius_histogram"]
    if histogram is None:
        return ""
    eps = budget_of(findings["attacker"])
    edges, exact, at_least = (np.array(histogram[key]) for key in ("edges", "exact", "at_least"))
    top = max(1, int((exact[:-1] + at_least[:-1]).max(initial=0)))
    chart = Chart(220, (0.0, float(edges[-1])), (0.0, float(top)))
    marks = [chart.axes(x_label="radius", y_label="rows", y_percent=False)]
    for i in range(len(edges) - 1):
        marks.append(chart.bar(edges[i], edges[i + 1], 0, exact[i], "var(--accent)", f"{exact[i]} rows"))
        known = exact[i] + at_least[i]
        marks.append(chart.bar(edges[i], edges[i + 1], exact[i], known, "var(--UNKNOWN)", f"at least: {at_least[i]}"))
    marks.append(chart.cut(eps, f"eps {eps:g}"))
    beyond = int(exact[-1] + at_least[-1])
    colours = [("var(--accent)", "exact radius"), ("var(--UNKNOWN)", "at least so large")]
    note = f" {beyond:,} rows lie beyond the right edge." if beyond else ""
    who = " of a row predicted right" if findings["verdicts"] is not None else " of a row"
    return section(
        "Radii",
        figure(
            legend(colours[: 1 + bool(at_least.any())]) + svg(220, "".join(marks), "Histogram of radii"),
            f"The radius{who} is the smallest eps that changes its prediction.{note}",
        ),
    )


def _fragile_section(findings: dict[str, Any]) -> str:
    rows = findings["fragile_rows"]
    if rows is None:
        return ""
    right = "" if findings["verdicts"] is None else " predicted right"
    if not rows:
        return section("Most fragile rows", f"<p>No row{right} can be changed by this attacker.</p>")
    cards = "".join(_fragile_card(row) for row in rows)
    return section(
        "Most fragile rows",
        f"<p>Rows{right} that take the smallest change to be predicted otherwise, each with a change within the"
        " attacker's reach that does so (its witness), without changes that it does not need."
        f' {REALITY}{_fractions(findings)}</p><div class="cards">{cards}</div>',
    )


def _fractions(findings: dict[str, Any]) -> str:
    attacked = findings["attacked_features"]
    if not attacked["n_with_fractions"]:
        return ""
    return (
        f" Here {attacked['n_with_fractions']:,} of {attacked['n_witnesses']:,} witnesses hold a fraction in a column"
        " that holds whole numbers only."
    )


def _fragile_card(row: dict[str, Any]) -> str:
    changed = counted(row["n_changed"], "feature")
    radius = ""
    if row["radius"] is not None:
        at = "" if row["radius_is_exact"] else "at most the attacker's eps, at least "
        radius = f"radius {at}{row['radius']:.6g}; "
    head = (
        f"<h3>Row {row['row']}: {escape(prediction_change(row))}</h3>"
        f'<p class="small soft">{radius}{changed} changed</p>'
    )
    if "original" in row:
        return f'<div class="card">{head}{pictures(row["original"], row["witness"])}</div>'
    lines = [(escape(change["feature"]), moved(change, " &rarr; ")) for change in row["changes"][:6]]
    more = f'<p class="small soft">and {row["n_changed"] - 6} more</p>' if row["n_changed"] > 6 else ""
    return f'<div class="card small">{head}{table((), lines)}{more}</div>'


def pictures(original: list[list[float]], changed: list[list[float]]) -> str:
    """Draw a row that is a picture, the changed one, and their difference."""
    before, after = np.array(original), np.array(changed)
    low, high = min(before.min(), after.min()), max(before.max(), after.max())
    span = high - low if high > low else 1.0
    grey = [png.grey((image - low) / span) for image in (before, after)]
    change = after - before
    largest = np.abs(change).max() or 1.0
    images = [*grey, png.signed(change / largest)]
    captions = ("original", "changed", "difference")
    cells = "".join(
        f'<div><img alt="{caption}" src="{image}"><span class="small soft">{caption}</span></div>'
        for image, caption in zip(images, captions, strict=True)
    )
    return f'<div class="pictures">{cells}</div>'


def _features_section(findings: dict[str, Any]) -> str:
    attacked = findings["attacked_features"]
    if attacked is None or not attacked["features"]:
        return ""
    total = attacked["n_witnesses"]
    note = (
        f"In how many of the {total:,} witnesses a feature is changed; {attacked['n_features_used']} features"
        f" are used in all. A witness is one attack that works, others may exist. {REALITY}"
    )
    picture = ""
    if "picture" in attacked:
        counts = np.array(attacked["picture"], dtype=float)
        heat = png.heat(counts / counts.max())
        picture = f'<img class="picture" alt="How often each pixel is changed" src="{heat}">'
    entries = [(entry["feature"], entry["n_witnesses"], f"{entry['n_witnesses']:,}") for entry in attacked["features"]]
    return section("What attacks change", figure(picture + bars(entries), note))


def _spread_section(findings: dict[str, Any]) -> str:
    spread_map = findings["spread_map"]
    if spread_map is None or not spread_map["features"]:
        return ""
    features, closest = spread_map["features"], spread_map["closest_pair"]
    thresholds = np.concatenate([entry["thresholds"] for entry in features])
    low, high = float(thresholds.min()), float(thresholds.max())
    shared_axis = findings["data"]["scaled"] or high / 2 - low / 2 < 2
    rows = []
    for entry in features:
        values = np.array(entry["thresholds"])
        place = placer(*((low, high) if shared_axis else (float(values.min()), float(values.max()))), 1, 99)
        marks = [stroke((0, 10), (100, 10), 'class="axis"')]
        for value, tree in zip(entry["thresholds"], entry["trees"], strict=True):
            colour = f'stroke="{tree_colour(tree)}" stroke-width="2"'
            marks.append(stroke((place(value), 3), (place(value), 17), colour, f"{value:.6g}, tree {tree}"))
        if closest is not None and entry["feature"] == closest["feature"]:
            a, b = (place(value) for value in closest["thresholds"])
            marks.append(
                f'<rect x="{a - 0.7:.2f}" y="0.5" width="{b - a + 1.4:.2f}" height="19" fill="none"'
                ' stroke="var(--BROKEN)" stroke-width="2"/>'
            )
        rows.append(
            f'<span>{escape(cut(entry["feature"], 40))}</span><svg viewBox="0 0 100 20" preserveAspectRatio="none"'
            f' role="img" aria-label="Thresholds">{"".join(marks)}</svg>'
        )
    if shared_axis:
        rows.append(f'<span></span><span class="ends soft small"><i>{low:.3g}</i><i>{high:.3g}</i></span>')
    words = [f"Thresholds along the {len(features)} of {spread_map['n_features_used']} features that have most;"]
    words.append("a colour per tree" + ("." if shared_axis else ", each feature on a scale of its own."))
    if closest is not None:
        first, second = closest["trees"]
        words.append(
            f"Framed: the closest pair of two trees ({first} and {second}), {closest['distance']:.6g} apart"
            f" on {closest['feature']}."
        )
        if "norm" in findings["attacker"]:
            words.append(f"More than 2 eps = {2 * findings['attacker']['eps']:.6g} makes every verdict exact, fast.")
    else:
        words.append("No two trees share a feature that the attacker can change.")
    return section("Spread", figure(f'<div class="bars">{"".join(rows)}</div>', escape(" ".join(words))))


def _setting_section(findings: dict[str, Any]) -> str:
    model, data, attacker = findings["model"], findings["data"], findings["attacker"]
    roads = ", ".join(f"{count:,} {road}" for road, count in findings["roads"].items())
    lines = [
        ("Model", model["name"]),
        ("Trees, nodes, features", f"{model['n_trees']}, {model['n_nodes']}, {model['n_features']}"),
        ("Classes", ", ".join(model["classes"][:20])),
        ("Spread", "no two trees share a feature" if model["spread"] is None else f"{model['spread']!r}"),
        ("Large spread for this attacker", "yes" if model["has_large_spread"] else "no"),
        ("Rows", f"{data['n_rows']:,} from {data['name']}"),
        ("How they were decided", roads),
        ("Units", "scaled by the model's own scaling" if data["scaled"] else "as in the data"),
    ]
    if "norm" in attacker:
        lines.append(("Norm, eps", f"L{attacker['norm']}, {attacker['eps']!r}"))
    return section("Setting", facts(lines + attacker_facts(attacker))) + section(
        "Where this comes from", facts(origin_facts(findings))
    )

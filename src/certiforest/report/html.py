"""The report as one HTML file: inline SVG and pictures, no script, nothing fetched; light, dark and print.

Every function here draws a part of the findings and returns markup.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from importlib.resources import files
from string import Template
from typing import Any

import numpy as np

from certiforest.report import png
from certiforest.report.charts import WIDTH, Chart, placer, stroke, svg, tree_colour
from certiforest.words import counted, cut, interval

REALITY = (
    "A witness is a row of numbers that the model would answer otherwise. Whether such a row can exist in the world is"
    " not examined: the attacker knows of no whole numbers, no categories, and no columns that depend on each other."
)
MEANINGS = {
    "ROBUST": "predicted right, and no attack changes it",
    "FRAGILE": "predicted right, but an attack changes it",
    "VULNERABLE": "predicted wrong, and no attack changes it",
    "BROKEN": "predicted wrong, and an attack changes it",
    "UNKNOWN": "neither proved: no attack found, none ruled out",
}


def as_html(findings: dict[str, Any]) -> str:
    """Draw the findings as one self-contained HTML page."""
    model, data, attacker = findings["model"], findings["data"], findings["attacker"]
    title = f"Robustness of {model['name']} on {data['name']}"
    parts = [
        f"<h1>{escape(title)}</h1>",
        f'<p class="soft">{escape(_attack_in_words(attacker, data))}</p>',
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
    template = Template(files("certiforest.report").joinpath("template.html").read_text(encoding="utf-8"))
    return template.substitute(title=escape(title), body="\n".join(part for part in parts if part))


def _attack_in_words(attacker: dict[str, Any], data: dict[str, Any]) -> str:
    eps = f"{attacker['eps']:g}"
    what = {
        "0": f"any {eps} features of a row by any amount",
        "1": f"a row by {eps} in all (L1: changes add up)",
        "2": f"a row by a distance of {eps} (L2)",
        "inf": f"every feature of a row by {eps} at once (L-infinity)",
    }.get(attacker["norm"], f"a row by {eps} in the L{attacker['norm']} norm")
    unit = ""
    if data["scaled"] and attacker["norm"] != "0":
        unit = " Features are scaled: 1 is the range of a feature, as saved in the model."
    frozen = f" {len(attacker['frozen'])} features cannot be changed." if attacker["frozen"] else ""
    return f"The attacker may change {what}.{unit}{frozen} Every verdict below is proved, not sampled."


def _tiles(findings: dict[str, Any]) -> str:
    rows = ("Rows attacked", f"{findings['data']['n_rows']:,}", "")
    if findings["verdicts"] is None:
        stability = findings["stability"]
        tiles = [rows] + [(name.capitalize(), f"{count:,}", "") for name, count in stability.items()]
    else:
        low, high = findings["robust_accuracy_bounds"]
        gap = f"{stability_gap(findings):.1%} of rows are right but can be changed"
        tiles = [
            rows,
            ("Accuracy", f"{findings['accuracy']:.1%}", "without an attacker"),
            ("Robust accuracy", interval((low, high), ".1%"), "proved against this attacker"),
            ("Lost to the attacker", f"{findings['accuracy'] - low:.1%}", gap),
        ]
    cells = "".join(
        f'<div class="tile"><span class="soft small">{escape(name)}</span><b>{escape(value)}</b>'
        f'<span class="soft small">{escape(note)}</span></div>'
        for name, value, note in tiles
    )
    return f'<div class="tiles">{cells}</div>'


def stability_gap(findings: dict[str, Any]) -> float:
    """Return the share of FRAGILE rows."""
    return findings["verdicts"]["FRAGILE"] / max(1, findings["data"]["n_rows"])


def _verdict_section(findings: dict[str, Any]) -> str:
    verdicts = findings["verdicts"]
    if verdicts is None:
        return ""
    total = max(1, sum(verdicts.values()))
    bar, x = [], 0.0
    for name, count in verdicts.items():
        width = WIDTH * count / total
        if count:
            bar.append(
                f'<rect x="{x:.2f}" y="0" width="{width:.2f}" height="34" fill="var(--{name})">'
                f"<title>{name}: {count}</title></rect>"
            )
        x += width
    rows = "".join(
        f'<tr><td><span class="swatch" style="background:var(--{name})"></span>{name}</td>'
        f'<td>{MEANINGS[name]}</td><td class="number">{count:,}</td>'
        f'<td class="number">{count / total:.2%}</td></tr>'
        for name, count in verdicts.items()
    )
    head = '<tr><th>Verdict</th><th>Meaning</th><th class="number">Rows</th><th class="number">Share</th></tr>'
    return _section(
        "Verdicts",
        svg(34, "".join(bar), "Share of each verdict") + f'<div class="scroll"><table>{head}{rows}</table></div>',
    )


def _class_section(findings: dict[str, Any]) -> str:
    by_class = findings["by_class"]
    if not by_class:
        return ""
    rows = "".join(
        f'<tr><td>{escape(entry["class"])}</td><td class="number">{entry["n_rows"]:,}</td>'
        f'<td class="number">{entry["accuracy"]:.1%}</td>'
        f'<td class="number">{interval(entry["robust_accuracy_bounds"], ".1%")}</td></tr>'
        for entry in by_class
    )
    head = (
        '<tr><th>Class</th><th class="number">Rows</th><th class="number">Accuracy</th>'
        '<th class="number">Robust accuracy</th></tr>'
    )
    return _section("Class by class", f'<div class="scroll"><table>{head}{rows}</table></div>')


def _curve_section(findings: dict[str, Any]) -> str:
    curve, eps = findings["certified_curve"], findings["attacker"]["eps"]
    chart = Chart(260, (0.0, curve["eps"][-1]), (0.0, 1.0))
    x = np.array(curve["eps"])
    low, high = np.array(curve["low"]), np.array(curve["high"])
    what = "robust accuracy" if findings["verdicts"] is not None else "share of stable rows"
    marks = [chart.axes(x_label="eps", y_label=what, y_percent=True)]
    if (high > low).any():
        marks.append(chart.band(x, low, high, "var(--UNKNOWN)"))
    marks.append(chart.line(x, low, "var(--ROBUST)"))
    if findings["accuracy"] is not None:
        marks.append(chart.level(findings["accuracy"], "accuracy without attacker"))
    marks.append(chart.cut(eps, f"eps {eps:g}"))
    note = " The grey band is what radii known only as lower bounds leave open." if (high > low).any() else ""
    return _section(
        "Certified curve",
        _figure(
            svg(260, "".join(marks), f"{what} against eps"),
            f"At each eps, the {what} that is proved, read off the radii of all rows.{note}",
        ),
    )


def _histogram_section(findings: dict[str, Any]) -> str:
    histogram, eps = findings["radius_histogram"], findings["attacker"]["eps"]
    edges, exact, at_least = (np.array(histogram[key]) for key in ("edges", "exact", "at_least"))
    top = max(1, int((exact[:-1] + at_least[:-1]).max(initial=0)))
    chart = Chart(220, (0.0, float(edges[-1])), (0.0, float(top)))
    bars = [chart.axes(x_label="radius", y_label="rows", y_percent=False)]
    for i in range(len(edges) - 1):
        bars.append(chart.bar(edges[i], edges[i + 1], 0, exact[i], "var(--accent)", f"{exact[i]} rows"))
        known = exact[i] + at_least[i]
        bars.append(chart.bar(edges[i], edges[i + 1], exact[i], known, "var(--UNKNOWN)", f"at least: {at_least[i]}"))
    bars.append(chart.cut(eps, f"eps {eps:g}"))
    beyond = int(exact[-1] + at_least[-1])
    legend = _legend(
        [("var(--accent)", "exact radius")] + ([("var(--UNKNOWN)", "at least so large")] if at_least.sum() else [])
    )
    note = f" {beyond:,} rows lie beyond the right edge." if beyond else ""
    return _section(
        "Radii",
        _figure(
            legend + svg(220, "".join(bars), "Histogram of radii"),
            "The radius of a row is the smallest eps that changes its prediction; rows predicted right are"
            f" counted.{note}",
        ),
    )


def _fragile_section(findings: dict[str, Any]) -> str:
    rows = findings["fragile_rows"]
    if not rows:
        return _section("Most fragile rows", "<p>No row that is predicted right can be changed by this attacker.</p>")
    cards = "".join(_fragile_card(row) for row in rows)
    return _section(
        "Most fragile rows",
        "<p>Rows predicted right that take the smallest change to be predicted otherwise, each with a change within the"
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
    at = "" if row["radius_is_exact"] else "at most the attacker's eps, at least "
    head = (
        f"<h3>Row {row['row']}: {escape(row['prediction'])} becomes {escape(row['changed_prediction'])}</h3>"
        f'<p class="small soft">radius {at}{row["radius"]:.6g}; {changed} changed</p>'
    )
    if "original" in row:
        return f'<div class="card">{head}{_pictures(row)}</div>'
    lines = "".join(
        f'<tr><td>{escape(change["feature"])}</td><td class="number">{_moved(change)}</td></tr>'
        for change in row["changes"][:6]
    )
    more = f'<p class="small soft">and {row["n_changed"] - 6} more</p>' if row["n_changed"] > 6 else ""
    return f'<div class="card">{head}<table class="small">{lines}</table>{more}</div>'


def _moved(change: dict[str, Any]) -> str:
    pair = ("from_in_data", "to_in_data") if "from_in_data" in change else ("from", "to")
    before, after = change[pair[0]], change[pair[1]]
    digits = next((d for d in range(4, 16) if f"{before:.{d}g}" != f"{after:.{d}g}"), 17)
    return f"{_plain(before, digits)} &rarr; {_plain(after, digits)}"


def _plain(value: float, digits: int) -> str:
    """Write a number without an exponent where that is readable."""
    text = f"{value:.{digits}g}"
    return f"{float(text):,.0f}" if "e+" in text and abs(value) < 1e12 else text


def _pictures(row: dict[str, Any]) -> str:
    before, after = np.array(row["original"]), np.array(row["witness"])
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
    if not attacked["features"]:
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
    bars = _bars([(entry["feature"], entry["n_witnesses"]) for entry in attacked["features"]])
    return _section("What attacks change", _figure(picture + bars, note))


def _bars(entries: Sequence[tuple[str, int]]) -> str:
    height = 20 * len(entries) + 4
    top = max(count for _, count in entries)
    left, right = 200, 60
    marks = []
    for i, (name, count) in enumerate(entries):
        y = 20 * i + 3
        width = (WIDTH - left - right) * count / top
        marks.append(
            f'<text x="{left - 8}" y="{y + 12}" text-anchor="end">{escape(cut(name, 30))}</text>'
            f'<rect x="{left}" y="{y}" width="{width:.2f}" height="15" fill="var(--accent)"/>'
            f'<text class="ink" x="{left + width + 6:.2f}" y="{y + 12}">{count:,}</text>'
        )
    return svg(height, "".join(marks), "How often each feature is changed")


def _spread_section(findings: dict[str, Any]) -> str:
    spread_map, eps = findings["spread_map"], findings["attacker"]["eps"]
    features = spread_map["features"]
    if not features:
        return ""
    thresholds = np.concatenate([entry["thresholds"] for entry in features])
    low, high = float(thresholds.min()), float(thresholds.max())
    shared_axis = findings["data"]["scaled"] or high / 2 - low / 2 < 2
    closest = spread_map["closest_pair"]
    left, right, row_height = 200, 20, 22
    marks = []
    for i, entry in enumerate(features):
        values = np.array(entry["thresholds"])
        bounds = (low, high) if shared_axis else (float(values.min()), float(values.max()))
        middle = row_height * i + row_height / 2 + 4
        marks.append(
            f'<text x="{left - 8}" y="{middle + 4:.1f}" text-anchor="end">'
            f"{escape(cut(entry['feature'], 30))}</text>"
            + stroke((left, middle), (WIDTH - right, middle), 'class="axis"')
        )
        place = placer(*bounds, left, WIDTH - right)
        for value, tree in zip(entry["thresholds"], entry["trees"], strict=True):
            ends = (place(value), middle - 7), (place(value), middle + 7)
            colour = f'stroke="{tree_colour(tree)}" stroke-width="2"'
            marks.append(stroke(*ends, colour, f"{value:.6g}, tree {tree}"))
        if closest is not None and entry["feature"] == closest["feature"]:
            a, b = (place(value) for value in closest["thresholds"])
            marks.append(
                f'<rect x="{a - 5:.2f}" y="{middle - 10:.1f}" width="{b - a + 10:.2f}" height="20" rx="4"'
                ' fill="none" stroke="var(--BROKEN)" stroke-width="2"/>'
            )
    height = row_height * len(features) + 8
    axis = ""
    if shared_axis:
        axis = (
            f'<text x="{left}" y="{height + 12}">{low:.3g}</text>'
            f'<text x="{WIDTH - right}" y="{height + 12}" text-anchor="end">{high:.3g}</text>'
        )
        height += 18
    words = [f"Thresholds along the {len(features)} of {spread_map['n_features_used']} features that have most;"]
    words.append("a colour per tree" + ("." if shared_axis else ", each feature on a scale of its own."))
    if closest is not None:
        first, second = closest["trees"]
        apart, needed = f"{closest['distance']:.6g}", f"{2 * eps:.6g}"
        if apart == needed and findings["model"]["has_large_spread"]:
            apart = f"just over {apart}"
        words.append(
            f"Framed: the closest pair of two trees ({first} and {second}), {apart} apart"
            f" on {closest['feature']}. More than 2 eps = {needed} makes every verdict exact, fast."
        )
    else:
        words.append("No two trees share a feature that the attacker can change.")
    return _section("Spread", _figure(svg(height, "".join(marks) + axis, "Spread map"), escape(" ".join(words))))


def _setting_section(findings: dict[str, Any]) -> str:
    model, data, attacker = findings["model"], findings["data"], findings["attacker"]
    spread = "no two trees share a feature" if model["spread"] is None else f"{model['spread']!r}"
    lines = [
        ("Model", model["name"]),
        ("Trees, nodes, features", f"{model['n_trees']}, {model['n_nodes']}, {model['n_features']}"),
        ("Classes", ", ".join(model["classes"][:20])),
        ("Spread", spread),
        ("Large spread for this attacker", "yes" if model["has_large_spread"] else "no"),
        ("Rows", f"{data['n_rows']:,} from {data['name']}"),
        ("Units", "scaled by the model's own scaling" if data["scaled"] else "as in the data"),
        ("Norm, eps", f"L{attacker['norm']}, {attacker['eps']!r}"),
        ("Features that cannot change", ", ".join(attacker["frozen"][:20]) or "none"),
    ]
    rows = "".join(f"<tr><th>{name}</th><td>{escape(value)}</td></tr>" for name, value in lines)
    return _section("Setting", f"<table>{rows}</table>")


def _section(title: str, content: str) -> str:
    return f"<section><h2>{title}</h2>{content}</section>"


def _figure(content: str, caption: str) -> str:
    return f"<figure>{content}<figcaption>{caption}</figcaption></figure>"


def _legend(entries: Sequence[tuple[str, str]]) -> str:
    items = "".join(
        f'<li class="small"><span class="swatch" style="background:{colour}"></span>{text}</li>'
        for colour, text in entries
    )
    return f'<ul class="legend">{items}</ul>'

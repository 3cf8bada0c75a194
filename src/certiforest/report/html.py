"""The report as one HTML file: inline SVG and pictures, no script, nothing fetched; light, dark and print.

Every function here draws a part of the findings and returns markup. Colours are names of the template's CSS
variables, so that one file suits both colour schemes and paper.
"""

from __future__ import annotations

import base64
import math
import struct
import zlib
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from string import Template
from typing import Any

import numpy as np
from numpy.typing import NDArray

WIDTH = 760
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
            ("Robust accuracy", _interval(low, high), "proved against this attacker"),
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
        _svg(34, "".join(bar), "Share of each verdict") + f'<div class="scroll"><table>{head}{rows}</table></div>',
    )


def _class_section(findings: dict[str, Any]) -> str:
    by_class = findings["by_class"]
    if not by_class:
        return ""
    rows = "".join(
        f'<tr><td>{escape(entry["class"])}</td><td class="number">{entry["n_rows"]:,}</td>'
        f'<td class="number">{entry["accuracy"]:.1%}</td>'
        f'<td class="number">{_interval(*entry["robust_accuracy_bounds"])}</td></tr>'
        for entry in by_class
    )
    head = (
        '<tr><th>Class</th><th class="number">Rows</th><th class="number">Accuracy</th>'
        '<th class="number">Robust accuracy</th></tr>'
    )
    return _section("Class by class", f'<div class="scroll"><table>{head}{rows}</table></div>')


def _curve_section(findings: dict[str, Any]) -> str:
    curve, eps = findings["certified_curve"], findings["attacker"]["eps"]
    chart = _Chart(260, (0.0, curve["eps"][-1]), (0.0, 1.0))
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
            _svg(260, "".join(marks), f"{what} against eps"),
            f"At each eps, the {what} that is proved, read off the radii of all rows.{note}",
        ),
    )


def _histogram_section(findings: dict[str, Any]) -> str:
    histogram, eps = findings["radius_histogram"], findings["attacker"]["eps"]
    edges, exact, at_least = (np.array(histogram[key]) for key in ("edges", "exact", "at_least"))
    top = max(1, int((exact[:-1] + at_least[:-1]).max(initial=0)))
    chart = _Chart(220, (0.0, float(edges[-1])), (0.0, float(top)))
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
            legend + _svg(220, "".join(bars), "Histogram of radii"),
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
        "<p>Rows predicted right that take the smallest change to be predicted otherwise, each with such a"
        f' change (its witness).</p><div class="cards">{cards}</div>',
    )


def _fragile_card(row: dict[str, Any]) -> str:
    changed = "1 feature" if row["n_changed"] == 1 else f"{row['n_changed']} features"
    at = "" if row["radius_is_exact"] else "at most the attacker's eps, at least "
    head = (
        f"<h3>Row {row['row']}: {escape(row['prediction'])} becomes {escape(row['changed_prediction'])}</h3>"
        f'<p class="small soft">at eps {at}{row["radius"]:.6g}; {changed} changed</p>'
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
    grey = [_png_grey((image - low) / span) for image in (before, after)]
    change = after - before
    largest = np.abs(change).max() or 1.0
    images = [*grey, _png_signed(change / largest)]
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
        " are used in all. A witness is one attack that works, others may exist."
    )
    picture = ""
    if "picture" in attacked:
        counts = np.array(attacked["picture"], dtype=float)
        heat = _png_heat(counts / counts.max())
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
            f'<text x="{left - 8}" y="{y + 12}" text-anchor="end">{escape(_short(name, 30))}</text>'
            f'<rect x="{left}" y="{y}" width="{width:.2f}" height="15" fill="var(--accent)"/>'
            f'<text class="ink" x="{left + width + 6:.2f}" y="{y + 12}">{count:,}</text>'
        )
    return _svg(height, "".join(marks), "How often each feature is changed")


def _spread_section(findings: dict[str, Any]) -> str:
    spread_map, eps = findings["spread_map"], findings["attacker"]["eps"]
    features = spread_map["features"]
    if not features:
        return ""
    thresholds = np.concatenate([entry["thresholds"] for entry in features])
    low, high = float(thresholds.min()), float(thresholds.max())
    shared_axis = findings["data"]["scaled"] or high - low < 4
    closest = spread_map["closest_pair"]
    left, right, row_height = 200, 20, 22
    marks = []
    for i, entry in enumerate(features):
        values = np.array(entry["thresholds"])
        bounds = (low, high) if shared_axis else (float(values.min()), float(values.max()))
        middle = row_height * i + row_height / 2 + 4
        marks.append(
            f'<text x="{left - 8}" y="{middle + 4:.1f}" text-anchor="end">'
            f"{escape(_short(entry['feature'], 30))}</text>"
            + _stroke((left, middle), (WIDTH - right, middle), 'class="axis"')
        )
        place = _placer(*bounds, left, WIDTH - right)
        for value, tree in zip(entry["thresholds"], entry["trees"], strict=True):
            ends = (place(value), middle - 7), (place(value), middle + 7)
            colour = f'stroke="{_tree_colour(tree)}" stroke-width="2"'
            marks.append(_stroke(*ends, colour, f"{value:.6g}, tree {tree}"))
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
    return _section("Spread", _figure(_svg(height, "".join(marks) + axis, "Spread map"), escape(" ".join(words))))


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


class _Chart:
    """A plot area with linear axes inside an SVG of the page's width."""

    def __init__(self, height: int, x_range: tuple[float, float], y_range: tuple[float, float]) -> None:
        self.left, self.right, self.top, self.bottom = 62, WIDTH - 16, 34, height - 42
        self.x_range, self.y_range = x_range, y_range
        self.x = _placer(*x_range, self.left, self.right)
        self.y = _placer(*y_range, self.bottom, self.top)

    def axes(self, *, x_label: str, y_label: str, y_percent: bool) -> str:
        marks = []
        for value in _ticks(*self.y_range):
            text = f"{value:.0%}" if y_percent else f"{value:g}"
            y = self.y(value)
            marks.append(_stroke((self.left, y), (self.right, y), 'class="axis"'))
            marks.append(f'<text x="{self.left - 6}" y="{y + 4:.1f}" text-anchor="end">{text}</text>')
        for value in _ticks(*self.x_range):
            x = self.x(value)
            marks.append(_stroke((x, self.bottom), (x, self.bottom + 4), 'class="axis"'))
            marks.append(f'<text x="{x:.1f}" y="{self.bottom + 18}" text-anchor="middle">{value:g}</text>')
        middle = (self.left + self.right) / 2
        marks.append(f'<text x="{middle:.0f}" y="{self.bottom + 36}" text-anchor="middle">{x_label}</text>')
        marks.append(f'<text x="4" y="11">{y_label}</text>')
        return "".join(marks)

    def line(self, x: NDArray, y: NDArray, colour: str) -> str:
        points = " ".join(f"{self.x(a):.1f},{self.y(b):.1f}" for a, b in zip(x, y, strict=True))
        return f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2.5"/>'

    def band(self, x: NDArray, low: NDArray, high: NDArray, colour: str) -> str:
        there = [f"{self.x(a):.1f},{self.y(b):.1f}" for a, b in zip(x, high, strict=True)]
        back = [f"{self.x(a):.1f},{self.y(b):.1f}" for a, b in zip(x[::-1], low[::-1], strict=True)]
        return f'<polygon points="{" ".join(there + back)}" fill="{colour}" opacity="0.3"/>'

    def bar(self, x0: float, x1: float, y0: float, y1: float, colour: str, title: str) -> str:
        if y1 <= y0:
            return ""
        width = max(0.5, self.x(x1) - self.x(x0) - 1)
        return (
            f'<rect x="{self.x(x0):.1f}" y="{self.y(y1):.1f}" width="{width:.1f}"'
            f' height="{self.y(y0) - self.y(y1):.1f}" fill="{colour}"><title>{title}</title></rect>'
        )

    def level(self, value: float, text: str) -> str:
        y = self.y(value)
        line = _stroke((self.left, y), (self.right, y), 'stroke="var(--soft)" stroke-dasharray="2 4"')
        beside = y + 15 if y < self.top + 20 else y - 5  # never on the topmost grid line
        return f'{line}<text x="{self.right}" y="{beside:.1f}" text-anchor="end">{text}</text>'

    def cut(self, value: float, text: str) -> str:
        x = self.x(value)
        line = _stroke((x, self.top), (x, self.bottom), 'stroke="var(--BROKEN)" stroke-dasharray="5 4"')
        return f'{line}<text class="ink" x="{x + 5:.1f}" y="{self.top - 6}">{text}</text>'


def _stroke(start: tuple[float, float], end: tuple[float, float], style: str, title: str = "") -> str:
    inside = f"<title>{title}</title>" if title else ""
    (x1, y1), (x2, y2) = start, end
    return f'<line x1="{x1:.2f}" y1="{y1:.1f}" x2="{x2:.2f}" y2="{y2:.1f}" {style}>{inside}</line>'


def _placer(low: float, high: float, start: float, end: float) -> Any:
    span = high - low if high > low else 1.0
    return lambda value: start + (end - start) * (value - low) / span


def _ticks(low: float, high: float) -> list[float]:
    """Return round numbers between two bounds, about five."""
    step = 10.0 ** math.floor(math.log10((high - low) / 4)) if high > low else 1.0
    step = next(step * factor for factor in (1, 2, 5, 10) if (high - low) / (step * factor) <= 5)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(i * step, 12) for i in range(first, last + 1)]


def _tree_colour(tree: int) -> str:
    """Return a colour far from those of neighbouring trees: steps of the golden angle around the circle."""
    return f"hsl({tree * 137.508 % 360:.0f} 65% {45 + 12 * (tree % 3)}%)"


def _section(title: str, content: str) -> str:
    return f"<section><h2>{title}</h2>{content}</section>"


def _figure(content: str, caption: str) -> str:
    return f"<figure>{content}<figcaption>{caption}</figcaption></figure>"


def _svg(height: float, content: str, label: str) -> str:
    return f'<svg viewBox="0 0 {WIDTH} {height:g}" role="img" aria-label="{escape(label)}">{content}</svg>'


def _legend(entries: Sequence[tuple[str, str]]) -> str:
    items = "".join(
        f'<li class="small"><span class="swatch" style="background:{colour}"></span>{text}</li>'
        for colour, text in entries
    )
    return f'<ul class="legend">{items}</ul>'


def _interval(low: float, high: float) -> str:
    return f"{low:.1%}" if low == high else f"{low:.1%} to {high:.1%}"


def _short(text: str, longest: int) -> str:
    return text if len(text) <= longest else text[: longest - 1] + "…"


def _png_grey(image: NDArray[np.float64]) -> str:
    """Return a picture of values in [0, 1], 1 the darkest, as a data address."""
    level = np.round(255 * (1 - np.clip(image, 0, 1))).astype(np.uint8)
    return _png(np.repeat(level[:, :, None], 3, axis=2))


def _png_signed(image: NDArray[np.float64]) -> str:
    """Return a picture of values in [-1, 1]: less is blue, more is red, nothing is white."""
    strength = np.abs(np.clip(image, -1, 1)) ** 0.5  # small changes should be seen, too
    toward = np.where((image > 0)[:, :, None], np.array([213, 40, 0.0]), np.array([0, 90, 200.0]))
    return _png(np.round(255 + strength[:, :, None] * (toward - 255)).astype(np.uint8))


def _png_heat(image: NDArray[np.float64]) -> str:
    """Return a picture of values in [0, 1] from white to deep blue."""
    strength = np.clip(image, 0, 1)[:, :, None] ** 0.5
    return _png(np.round(255 + strength * (np.array([8, 48, 107.0]) - 255)).astype(np.uint8))


def _png(pixels: NDArray[np.uint8]) -> str:
    """Encode (height, width, 3) pixels as PNG in a data address; a few hundred bytes for a small picture."""
    height, width, _ = pixels.shape
    lines = b"".join(b"\0" + line.tobytes() for line in np.ascontiguousarray(pixels))

    def chunk(kind: bytes, content: bytes) -> bytes:
        body = kind + content
        return struct.pack(">I", len(content)) + body + struct.pack(">I", zlib.crc32(body))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    image = (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(lines, 9)) + chunk(b"IEND", b"")
    )
    return "data:image/png;base64," + base64.b64encode(image).decode("ascii")

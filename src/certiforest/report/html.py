"""Pages drawn as one HTML file: inline SVG and pictures, no script, nothing fetched; light, dark and print."""

from __future__ import annotations

import base64
import math
import struct
import sys
import zlib
from collections.abc import Callable, Iterable
from html import escape
from pathlib import Path
from string import Template

import numpy as np
from numpy.typing import ArrayLike, NDArray

from certiforest.report import sections
from certiforest.words import cut

WIDTH = 560  # of a phone's screen to that of a page, texts stay readable


def as_html(page: sections.Page) -> str:
    """Return one self-contained page."""
    template = Template(Path(__file__).with_name("template.html").read_text(encoding="utf-8"))
    body = [f"<h1>{_breakable(page.title)}</h1>", *map(_part, page.parts)]
    return template.substitute(title=escape(page.title), body="\n".join(filter(None, body)))


def _part(part: sections.Part | None) -> str:
    match part:
        case sections.Section(title, parts):
            content = "".join(map(_part, parts))
            return f"<section><h2>{escape(title)}</h2>{content}</section>" if content else ""
        case sections.Words(words, is_soft):
            return f'<p class="soft">{escape(words)}</p>' if is_soft else f"<p>{escape(words)}</p>"
        case sections.Facts(entries):
            rows = "".join(f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in entries)
            return f'<table class="facts">{rows}</table>' if rows else ""
        case sections.Tiles(entries):
            small = '<span class="soft small">{}</span>'.format
            cells = "".join(
                f'<div class="tile">{small(escape(name))}<b>{escape(value)}</b>{small(escape(note))}</div>'
                for name, value, note in entries
            )
            return f'<div class="tiles">{cells}</div>'
        case sections.Cards(cards):
            content = "".join(
                f'<div class="card small"><h3>{escape(card.title)}</h3><p class="small soft">{escape(card.note)}</p>'
                f"{_part(card.part)}</div>"
                for card in cards
            )
            return f'<div class="cards">{content}</div>'
        case sections.Table():
            return _table(part) if part.rows else ""
        case sections.Plot():
            return _figure(_legend(part) + as_svg(part), part.caption)
        case sections.Bars():
            return _bars(part) if part.entries else ""
        case sections.Thresholds():
            return _thresholds(part) if part.features else ""
        case sections.Pictures():
            return _pictures(part)
    return ""


def _figure(content: str, caption: str) -> str:
    return f"<figure>{content}<figcaption>{escape(caption)}</figcaption></figure>"


def _breakable(name: str) -> str:
    """Return a text, often the name of a file or a feature, that may be broken after its underscores, too."""
    return escape(name).replace("_", "_<wbr>").replace(" -&gt; ", " &rarr; ")


def _table(table: sections.Table) -> str:
    def line(tag: str, cells: list[str]) -> str:
        kinds = ["" if i < table.n_left else ' class="number"' for i in range(len(cells))]
        marked = (f"<{tag}{kind}>{cell}</{tag}>" for kind, cell in zip(kinds, cells, strict=True))
        return f"<tr>{''.join(marked)}</tr>"

    lines, bar = [[_breakable(cell) for cell in row] for row in table.rows], ""
    for cells, (size, colour) in zip(lines, table.shares, strict=False):
        style = f"background:var(--{colour})"
        bar += f'<span style="flex:{size};{style}" title="{cells[0]}: {size}"></span>' if size else ""
        cells[0] = f'<span class="swatch" style="{style}"></span>{cells[0]}'
    bar = f'<div class="shares">{bar}</div>' if table.shares else ""
    head = line("th", list(map(_breakable, table.head))) if table.head else ""
    return f'{bar}<div class="scroll"><table>{head}{"".join(line("td", cells) for cells in lines)}</table></div>'


def _bars(bars: sections.Bars) -> str:
    top = max((abs(length) for _, length, _ in bars.entries), default=0.0) or 1.0
    rows = "".join(
        f"<span>{_breakable(name)}</span><span><i style='width:{75 * abs(length) / top:.1f}%'></i>{escape(text)}</span>"
        for name, length, text in bars.entries
    )
    picture = ""
    if bars.heat is not None:
        image = _towards((np.array(bars.heat) / np.max(bars.heat)) ** 0.5, [8, 48, 107])
        picture = f'<img class="picture" alt="How often each pixel is changed" src="{image}">'
    return _figure(f'{picture}<div class="bars">{rows}</div>', bars.caption)


def _pictures(row: sections.Pictures) -> str:
    """Draw the row, the changed one and their difference, in which less is blue, more is red, nothing is white."""
    before, after = np.array(row.original), np.array(row.changed)
    low, high = min(before.min(), after.min()), max(before.max(), after.max())
    span = high - low if high > low else 1.0
    change = after - before
    strength = (np.abs(change) / (np.abs(change).max() or 1.0)) ** 0.5  # small changes should be seen, too
    images = {
        "original": _towards((before - low) / span, [0, 0, 0]),
        "changed": _towards((after - low) / span, [0, 0, 0]),
        "difference": _towards(strength, np.where((change > 0)[:, :, None], [213, 40, 0], [0, 90, 200])),
    }
    cells = "".join(
        f'<div><img alt="{caption}" src="{image}"><span class="small soft">{caption}</span></div>'
        for caption, image in images.items()
    )
    return f'<div class="pictures">{cells}</div>'


def _thresholds(figure: sections.Thresholds) -> str:
    """Draw a line of marks for each feature."""
    everything = np.concatenate([entry["thresholds"] for entry in figure.features])
    rows = []
    for entry in figure.features:
        values = everything if figure.on_one_axis else np.array(entry["thresholds"])
        place = _placer(float(values.min()), float(values.max()), 1, 99)
        marks = [_line((0, 10), (100, 10), 'class="axis"')]
        for value, tree in zip(entry["thresholds"], entry["trees"], strict=True):
            # A colour far from those of neighbouring trees: steps of the golden angle around the circle.
            colour = f"hsl({tree * 137.508 % 360:.0f} 65% {45 + 12 * (tree % 3)}%)"
            style, title = f'stroke="{colour}" stroke-width="2"', f"{value:.6g}, tree {tree}"
            marks.append(_line((place(value), 3), (place(value), 17), style, title))
        if figure.closest is not None and entry["feature"] == figure.closest["feature"]:
            a, b = (place(value) for value in figure.closest["thresholds"])
            style = 'fill="none" stroke="var(--BROKEN)" stroke-width="2"'
            marks.append(f'<rect x="{a - 0.7:.2f}" y="0.5" width="{b - a + 1.4:.2f}" height="19" {style}/>')
        rows.append(
            f'<span>{escape(cut(entry["feature"], 40))}</span><svg viewBox="0 0 100 20" preserveAspectRatio="none"'
            f' role="img" aria-label="Thresholds">{"".join(marks)}</svg>'
        )
    if figure.on_one_axis:
        ends = f"<i>{everything.min():.3g}</i><i>{everything.max():.3g}</i>"
        rows.append(f'<span></span><span class="ends soft small">{ends}</span>')
    return _figure(f'<div class="bars">{"".join(rows)}</div>', figure.caption)


def _legend(plot: sections.Plot) -> str:
    items = "".join(
        f'<li class="small"><span class="swatch" style="background:var(--{colour})"></span>{escape(text)}</li>'
        for colour, text in plot.labels
    )
    return f'<ul class="legend">{items}</ul>' if items else ""


def as_svg(plot: sections.Plot) -> str:
    """Return the picture alone. Colours are names of CSS variables, so that it suits both colour schemes and paper."""
    height = 260 if plot.curves else 220
    left, right, top, bottom = 62, WIDTH - 24, 34, height - 42
    x, y = _placer(plot.x_start, plot.x_end, left, right), _placer(*plot.y_range, bottom, top)
    marks = [
        _text((left + right) / 2, bottom + 36, plot.x_label, "middle"),
        _text(4, 11, plot.y_label, "start"),
    ]
    for value in _ticks(*plot.y_range):
        marks.append(_line((left, y(value)), (right, y(value)), 'class="axis"'))
        marks.append(_text(left - 6, y(value) + 4, f"{value:.0%}" if plot.curves else f"{value:g}", "end"))
    for value in _ticks(plot.x_start, plot.x_end):
        marks.append(_line((x(value), bottom), (x(value), bottom + 4), 'class="axis"'))
        marks.append(_text(x(value), bottom + 18, f"{value:g}", "middle"))

    def points(values: Iterable[float], at: Iterable[float]) -> list[str]:
        return [f"{x(a):.1f},{y(b):.1f}" for a, b in zip(at, values, strict=True)]

    for curve in plot.curves:
        low, high = (points(curve.points[end], curve.points["eps"]) for end in ("low", "high"))
        if curve.is_open:
            marks.append(f'<polygon points="{" ".join(low + high[::-1])}" fill="var(--UNKNOWN)" opacity="0.3"/>')
        style = f'fill="none" stroke="var(--{curve.colour})" stroke-width="2.5"'
        marks.append(f'<polyline points="{" ".join(low)}" {style}/>')
    for columns in plot.columns:
        bars = zip(columns.edges[:-1], columns.edges[1:], columns.low, columns.high, columns.titles, strict=True)
        marks += [
            f'<rect x="{x(a):.1f}" y="{y(high):.1f}" width="{max(0.5, x(b) - x(a) - 1):.1f}"'
            f' height="{y(low) - y(high):.1f}" fill="var(--{columns.colour})"><title>{title}</title></rect>'
            for a, b, low, high, title in bars
            if high > low
        ]
    if plot.level is not None:
        at = y(plot.level)
        marks.append(_line((left, at), (right, at), 'stroke="var(--soft)" stroke-dasharray="2 4"'))
        beside = at + 15 if at < top + 20 else at - 5  # never on the topmost grid line
        marks.append(_text(right, beside, "accuracy without attacker", "end"))
    for eps in sorted(set(plot.budgets)):
        marks.append(_line((x(eps), top), (x(eps), bottom), 'stroke="var(--BROKEN)" stroke-dasharray="5 4"'))
        marks.append(f'<text class="ink" x="{x(eps) + 5:.1f}" y="{top - 6}">eps {eps:g}</text>')
    for value in plot.limits:
        marks.append(_line((left, y(value)), (right, y(value)), 'stroke="var(--soft)" stroke-dasharray="2 4"'))
    for a, b in plot.points:
        title = f"<title>{a:.6g}: {b:.6g}</title>"
        marks.append(f'<circle cx="{x(a):.1f}" cy="{y(b):.1f}" r="5" fill="var(--BROKEN)">{title}</circle>')
    label = escape(f"{plot.y_label} against {plot.x_label}")
    return f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{label}">{"".join(marks)}</svg>'


def _line(start: tuple[float, float], end: tuple[float, float], style: str, title: str = "") -> str:
    inside = f"<title>{title}</title>" if title else ""
    (x1, y1), (x2, y2) = start, end
    return f'<line x1="{x1:.2f}" y1="{y1:.1f}" x2="{x2:.2f}" y2="{y2:.1f}" {style}>{inside}</line>'


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _placer(low: float, high: float, start: float, end: float) -> Callable[[float], float]:
    """Return what takes the numbers from ``low`` to ``high`` evenly to places from ``start`` to ``end``."""
    unit = 0.25 if max(abs(low), abs(high)) > 1e300 else 1.0  # differences of the largest floats overflow
    span = high * unit - low * unit if high > low else 1.0
    return lambda value: start + (end - start) * ((value * unit - low * unit) / span)


def _ticks(low: float, high: float) -> list[float]:
    """Return round numbers between two bounds, about five."""
    if not (high - low) / 4 > sys.float_info.min:  # too close for numbers in between
        return [low]
    step = 10.0 ** math.floor(math.log10((high - low) / 4))
    step = next((step * factor for factor in (1, 2, 5) if (high - low) / (step * factor) <= 5), step * 10)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [float(f"{i * step:.12g}") for i in range(first, last + 1)]


def _towards(share: NDArray[np.float64], colour: ArrayLike) -> str:
    """Return a picture whose pixels go from white to a colour as shares go from 0 to 1, as a data address."""
    return _png(np.round(255 + share[:, :, None] * (np.asarray(colour) - 255)).astype(np.uint8))


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

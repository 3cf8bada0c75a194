"""Charts as SVG: axes, lines, bars and marks inside a picture of the page's width.

Colours are names of the template's CSS variables, so that one file suits both colour schemes and paper.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from html import escape

import numpy as np
from numpy.typing import NDArray

WIDTH = 560  # of a phone's screen to that of a page, texts stay readable


class Chart:
    """A plot area with linear axes inside an SVG of the page's width."""

    def __init__(self, height: int, x_range: tuple[float, float], y_range: tuple[float, float]) -> None:
        self.left, self.right, self.top, self.bottom = 62, WIDTH - 24, 34, height - 42
        self.x_range, self.y_range = x_range, y_range
        self.x = placer(*x_range, self.left, self.right)
        self.y = placer(*y_range, self.bottom, self.top)

    def axes(self, *, x_label: str, y_label: str, y_percent: bool) -> str:
        """Draw both axes with round numbers and what they show."""
        marks = []
        for value in _ticks(*self.y_range):
            text = f"{value:.0%}" if y_percent else f"{value:g}"
            y = self.y(value)
            marks.append(stroke((self.left, y), (self.right, y), 'class="axis"'))
            marks.append(f'<text x="{self.left - 6}" y="{y + 4:.1f}" text-anchor="end">{text}</text>')
        for value in _ticks(*self.x_range):
            x = self.x(value)
            marks.append(stroke((x, self.bottom), (x, self.bottom + 4), 'class="axis"'))
            marks.append(f'<text x="{x:.1f}" y="{self.bottom + 18}" text-anchor="middle">{value:g}</text>')
        middle = (self.left + self.right) / 2
        marks.append(f'<text x="{middle:.0f}" y="{self.bottom + 36}" text-anchor="middle">{x_label}</text>')
        marks.append(f'<text x="4" y="11">{y_label}</text>')
        return "".join(marks)

    def line(self, x: NDArray, y: NDArray, colour: str) -> str:
        """Draw a line through points."""
        points = " ".join(f"{self.x(a):.1f},{self.y(b):.1f}" for a, b in zip(x, y, strict=True))
        return f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2.5"/>'

    def band(self, x: NDArray, low: NDArray, high: NDArray, colour: str) -> str:
        """Fill what lies between two lines."""
        there = [f"{self.x(a):.1f},{self.y(b):.1f}" for a, b in zip(x, high, strict=True)]
        back = [f"{self.x(a):.1f},{self.y(b):.1f}" for a, b in zip(x[::-1], low[::-1], strict=True)]
        return f'<polygon points="{" ".join(there + back)}" fill="{colour}" opacity="0.3"/>'

    def bar(self, x0: float, x1: float, y0: float, y1: float, colour: str, title: str) -> str:
        """Draw a bar between two values of each axis."""
        if y1 <= y0:
            return ""
        width = max(0.5, self.x(x1) - self.x(x0) - 1)
        return (
            f'<rect x="{self.x(x0):.1f}" y="{self.y(y1):.1f}" width="{width:.1f}"'
            f' height="{self.y(y0) - self.y(y1):.1f}" fill="{colour}"><title>{title}</title></rect>'
        )

    def level(self, value: float, text: str) -> str:
        """Draw a level line with a text."""
        y = self.y(value)
        line = stroke((self.left, y), (self.right, y), 'stroke="var(--soft)" stroke-dasharray="2 4"')
        beside = y + 15 if y < self.top + 20 else y - 5  # never on the topmost grid line
        return f'{line}<text x="{self.right}" y="{beside:.1f}" text-anchor="end">{text}</text>'

    def cut(self, value: float, text: str) -> str:
        """Draw an upright line with a text."""
        x = self.x(value)
        line = stroke((x, self.top), (x, self.bottom), 'stroke="var(--BROKEN)" stroke-dasharray="5 4"')
        return f'{line}<text class="ink" x="{x + 5:.1f}" y="{self.top - 6}">{text}</text>'


def stroke(start: tuple[float, float], end: tuple[float, float], style: str, title: str = "") -> str:
    """Return one straight line."""
    inside = f"<title>{title}</title>" if title else ""
    (x1, y1), (x2, y2) = start, end
    return f'<line x1="{x1:.2f}" y1="{y1:.1f}" x2="{x2:.2f}" y2="{y2:.1f}" {style}>{inside}</line>'


def placer(low: float, high: float, start: float, end: float) -> Callable[[float], float]:
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


def tree_colour(tree: int) -> str:
    """Return a colour far from those of neighbouring trees: steps of the golden angle around the circle."""
    return f"hsl({tree * 137.508 % 360:.0f} 65% {45 + 12 * (tree % 3)}%)"


def curve_chart(
    curves: Sequence[tuple[dict[str, list[float]], str]], what: str, eps: Sequence[float], level: float | None = None
) -> str:
    """Draw certified curves in one picture.

    Parameters
    ----------
    curves : sequence of pairs
        A curve (eps, low, high) and its colour; where low and high differ, a band is drawn between them.
    what : str
        What the curves show.
    eps : sequence of float
        Budgets to mark.
    level : float, optional
        Accuracy without an attacker, as a line across.
    """
    chart = Chart(260, (0.0, max(curve["eps"][-1] for curve, _ in curves)), (0.0, 1.0))
    marks = [chart.axes(x_label="eps", y_label=what, y_percent=True)]
    for curve, colour in curves:
        x, low, high = (np.array(curve[key]) for key in ("eps", "low", "high"))
        if (high > low).any():
            marks.append(chart.band(x, low, high, "var(--UNKNOWN)"))
        marks.append(chart.line(x, low, colour))
    if level is not None:
        marks.append(chart.level(level, "accuracy without attacker"))
    marks += [chart.cut(budget, f"eps {budget:g}") for budget in sorted(set(eps))]
    return svg(260, "".join(marks), f"{what} against eps")


def svg(height: float, content: str, label: str) -> str:
    """Return a picture of the page's width."""
    return f'<svg viewBox="0 0 {WIDTH} {height:g}" role="img" aria-label="{escape(label)}">{content}</svg>'

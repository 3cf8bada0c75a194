"""Figures in matplotlib, for papers and notebooks; imported when asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from certiforest.report.sections import Bars, Figure, Plot, Thresholds

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Colours of figures by name, those of pages in light.
COLOURS = {"ROBUST": "#009e73", "BROKEN": "#d55e00", "UNKNOWN": "#8c959f", "accent": "#0969da", "soft": "#57606a"}


def draw(figure: Figure, ax: Axes | None = None) -> Axes:
    """Draw into axes, new ones if none are given."""
    ax = _axes() if ax is None else ax
    match figure:
        case Plot():
            _plot(figure, ax)
        case Bars(entries, _, x_label):
            ax.barh([name for name, _, _ in entries], [length for _, length, _ in entries], color=COLOURS["accent"])
            ax.invert_yaxis()
            ax.set(xlabel=x_label)
        case Thresholds(features):
            for y, entry in enumerate(features):
                values, trees = entry["thresholds"], entry["trees"]
                ax.scatter(values, [y] * len(values), c=trees, cmap="hsv", marker="|")
            ax.set_yticks(range(len(features)), [entry["feature"] for entry in features])
            ax.invert_yaxis()
            ax.set(xlabel="thresholds, a colour per tree")
    return ax


def _plot(plot: Plot, ax: Axes) -> None:
    for curve in plot.curves:
        points = curve.points
        ax.plot(points["eps"], points["low"], color=COLOURS[curve.colour], label=curve.label)
        if curve.is_open:
            band: dict[str, Any] = {"color": COLOURS["UNKNOWN"], "alpha": 0.4, "label": "not decided"}
            ax.fill_between(points["eps"], points["low"], points["high"], **band)
    for edges, low, high, colour, label, _ in plot.columns:
        ax.bar(edges[:-1], high - low, np.diff(edges), low, align="edge", color=COLOURS[colour], label=label)
    if plot.level is not None:
        ax.axhline(plot.level, color=COLOURS["soft"], linestyle=":", linewidth=1)
    for eps in plot.budgets:
        ax.axvline(eps, color=COLOURS["BROKEN"], linestyle="--", linewidth=1)
    for value in plot.limits:
        ax.axhline(value, color=COLOURS["soft"], linestyle=":", linewidth=1)
    if plot.points:
        ax.plot(*zip(*plot.points, strict=True), "o--", color=COLOURS["BROKEN"])
    if plot.labels:
        ax.legend()
    ax.set(xlabel=plot.x_label, ylabel=plot.y_label, xlim=(plot.x_start, plot.x_end), ylim=plot.y_range)


def _axes() -> Axes:
    try:
        from matplotlib import pyplot
    except ImportError:
        raise ImportError("Expected matplotlib to draw with, got none: pip install 'certiforest[plot]'.") from None
    return pyplot.subplots()[1]

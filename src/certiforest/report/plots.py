"""Figures for papers and notebooks, in matplotlib, from the same findings as the report; imported when asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PROVED, OPEN, MARK = "#009e73", "#8c959f", "#d55e00"


def plot_curve(findings: dict[str, Any], ax: Axes | None = None) -> Axes:
    """Draw certified accuracy against eps."""
    curve = _part(findings, "certified_curve", "radius")
    ax = _axes(ax)
    ax.plot(curve["eps"], curve["low"], color=PROVED, label="proved")
    if curve["low"] != curve["high"]:
        ax.fill_between(curve["eps"], curve["low"], curve["high"], color=OPEN, alpha=0.4, label="not decided")
        ax.legend()
    ax.axvline(findings["attacker"]["eps"], color=MARK, linestyle="--", linewidth=1)
    what = "share of stable rows" if findings["verdicts"] is None else "robust accuracy"
    ax.set(xlabel="eps", ylabel=what, xlim=(0, curve["eps"][-1]), ylim=(0, 1))
    return ax


def plot_radii(findings: dict[str, Any], ax: Axes | None = None) -> Axes:
    """Draw how many rows have which radius; those beyond the right edge are not drawn."""
    histogram = _part(findings, "radius_histogram", "radius")
    ax = _axes(ax)
    edges, exact, at_least = (np.array(histogram[key]) for key in ("edges", "exact", "at_least"))
    ax.bar(edges[:-1], exact[:-1], np.diff(edges), align="edge", color="#0969da", label="exact")
    if at_least.any():
        ax.bar(edges[:-1], at_least[:-1], np.diff(edges), exact[:-1], align="edge", color=OPEN, label="at least")
        ax.legend()
    ax.axvline(findings["attacker"]["eps"], color=MARK, linestyle="--", linewidth=1)
    ax.set(xlabel="radius", ylabel="rows")
    return ax


def plot_features(findings: dict[str, Any], ax: Axes | None = None) -> Axes:
    """Draw in how many witnesses each feature is changed."""
    entries = _part(findings, "attacked_features", "witness")["features"]
    ax = _axes(ax)
    ax.barh([entry["feature"] for entry in entries], [entry["n_witnesses"] for entry in entries], color="#0969da")
    ax.invert_yaxis()
    ax.set(xlabel="witnesses that change it")
    return ax


def plot_spread(findings: dict[str, Any], ax: Axes | None = None) -> Axes:
    """Draw thresholds along the features that have most of them, a colour per tree."""
    features = findings["spread_map"]["features"]
    ax = _axes(ax)
    for y, entry in enumerate(features):
        ax.scatter(entry["thresholds"], [y] * len(entry["thresholds"]), c=entry["trees"], cmap="hsv", marker="|")
    ax.set_yticks(range(len(features)), [entry["feature"] for entry in features])
    ax.invert_yaxis()
    ax.set(xlabel="thresholds, a colour per tree")
    return ax


def _part(findings: dict[str, Any], name: str, option: str) -> Any:
    if findings[name] is None:
        raise ValueError(f"Expected certificates made for this figure, got others: call certify(..., {option}=True).")
    return findings[name]


def _axes(ax: Axes | None) -> Axes:
    if ax is not None:
        return ax
    try:
        from matplotlib import pyplot
    except ImportError:
        raise ImportError("Expected matplotlib to draw with, got none: pip install 'certiforest[plot]'.") from None
    return pyplot.subplots()[1]

"""Certificates in a notebook: their summary and, if there are radii, the certified curve, in the page's own colours."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from certiforest.report.charts import curve_chart
from certiforest.report.findings import curve_of
from certiforest.report.text import summary_of
from certiforest.words import counted

if TYPE_CHECKING:
    from certiforest.verification.certificates import Certificates

# Notebooks have themes of their own: text and lines take their colour from it.
COLOURS = "--soft:currentColor;--line:#8888;--ROBUST:#009e73;--BROKEN:#d55e00;--UNKNOWN:#8c959f"
STYLE = (
    ".certiforest td{text-align:left;padding:.1em 1em .1em 0} .certiforest svg{max-width:36em;height:auto}"
    " .certiforest text{fill:currentColor;font-size:11px} .certiforest .axis{stroke:#8886}"
)


def as_cell(found: Certificates) -> str:
    """Return what a notebook shows of certificates."""
    rows = "".join(f"<tr><td>{escape(name)}</td><td>{escape(text)}</td></tr>" for name, text in summary_of(found))
    picture = ""
    if found.radius is not None and found.attacker is not None and len(found):
        what = "share of stable rows" if found.label is None else "robust accuracy"
        level = None if found.label is None else found.accuracy
        picture = curve_chart([(curve_of(found), "var(--ROBUST)")], what, [found.attacker.eps], level)
    return (
        f'<div class="certiforest" style="{COLOURS}"><style>{STYLE}</style>'
        f"<b>Certificates of {counted(len(found), 'row')}</b><table>{rows}</table>{picture}</div>"
    )

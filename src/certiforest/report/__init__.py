"""What certification found: as plain data, and drawn from it as one HTML page, as text and as figures."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from certiforest.files import write_atomically
from certiforest.report import html, shown
from certiforest.report.certified import report_page
from certiforest.report.findings import gather, spread_facts
from certiforest.report.sections import Page

__all__ = ["RENDERERS", "SHEETS", "as_html", "as_text", "gather", "render", "spread_facts", "write"]

Paging = Callable[[dict[str, Any]], Page]


def as_html(findings: dict[str, Any], paging: Paging = report_page) -> str:
    """Draw the report, or what else can be made of findings, as one self-contained page."""
    return html.as_html(paging(findings))


def as_text(findings: dict[str, Any], paging: Paging = report_page) -> str:
    """Write the same as plain text."""
    page = paging(findings)
    return f"{page.title}\n{shown.as_text(page)}\n"


def _as_json(findings: dict[str, Any], _: Paging) -> str:
    return json.dumps(findings, indent=1, allow_nan=False) + "\n"


#: What writes findings into a file, by its suffix.
RENDERERS: dict[str, Callable[[dict[str, Any], Paging], str]] = {
    ".html": as_html,
    ".json": _as_json,
    ".txt": as_text,
}
SHEETS = (".html", ".txt")  # of evidence, whose data are those of a report


def render(findings: dict[str, Any], suffix: str, paging: Paging = report_page) -> str:
    """Write findings as a suffix says."""
    return RENDERERS[suffix.lower()](findings, paging)


def write(
    findings: dict[str, Any], path: str | os.PathLike[str], *, paging: Paging = report_page, replace: bool = True
) -> None:
    """Write findings to a file, which appears whole or not at all."""
    suffix, known = Path(path).suffix.lower(), tuple(RENDERERS) if paging is report_page else SHEETS
    if suffix not in known:
        raise ValueError(f"Expected a path that ends in {' or '.join(known)}, got {str(path)!r}.")
    write_atomically(path, render(findings, suffix, paging), replace=replace)

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

__all__ = ["RENDERERS", "as_html", "as_text", "gather", "render", "spread_facts", "write"]


def as_html(findings: dict[str, Any]) -> str:
    """Draw the report as one self-contained page."""
    return html.as_html(report_page(findings))


def as_text(findings: dict[str, Any]) -> str:
    """Write the report as plain text."""
    page = report_page(findings)
    return f"{page.title}\n{shown.as_text(page)}\n"


#: What writes findings into a file, by its suffix.
RENDERERS: dict[str, Callable[[dict[str, Any]], str]] = {
    ".html": as_html,
    ".json": lambda findings: json.dumps(findings, indent=1, allow_nan=False) + "\n",
    ".txt": as_text,
}


def render(findings: dict[str, Any], suffix: str) -> str:
    """Write findings as a suffix says."""
    return RENDERERS[suffix.lower()](findings)


def write(findings: dict[str, Any], path: str | os.PathLike[str], *, replace: bool = True) -> None:
    """Write findings to a file, which appears whole or not at all."""
    suffix = Path(path).suffix.lower()
    if suffix not in RENDERERS:
        raise ValueError(f"Expected a path that ends in {' or '.join(RENDERERS)}, got {str(path)!r}.")
    write_atomically(path, render(findings, suffix), replace=replace)

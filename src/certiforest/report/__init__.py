"""Findings as plain data, as text and as one HTML page."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from certiforest.report.findings import find, gather
from certiforest.report.html import as_html
from certiforest.report.spread_facts import SpreadFacts
from certiforest.report.text import as_text

__all__ = ["RENDERERS", "SpreadFacts", "as_html", "as_text", "find", "gather", "render"]

#: What writes findings into a file, by its suffix.
RENDERERS: dict[str, Callable[[dict[str, Any]], str]] = {
    ".html": as_html,
    ".json": lambda findings: json.dumps(findings, indent=1, allow_nan=False) + "\n",
    ".txt": as_text,
}


def render(findings: dict[str, Any], suffix: str) -> str:
    """Write findings as a suffix says; as HTML if it is another one."""
    return RENDERERS.get(suffix.lower(), as_html)(findings)

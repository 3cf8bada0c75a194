"""Findings as plain data, as text, as one HTML page and as figures."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from certiforest.files import write_atomically
from certiforest.report.findings import gather
from certiforest.report.html import as_html
from certiforest.report.spread_facts import SpreadFacts
from certiforest.report.text import as_text

__all__ = ["RENDERERS", "SpreadFacts", "as_html", "as_text", "gather", "render", "write"]

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

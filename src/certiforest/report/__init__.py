"""Findings as plain data, as text and as one HTML page."""

from certiforest.report.findings import as_html, as_text, find, gather

__all__ = ["as_html", "as_text", "find", "gather"]

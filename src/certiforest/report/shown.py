"""Pages drawn as plain text, and what shows itself: as text at a prompt, in notebooks, and as a page."""

from __future__ import annotations

import os
from html import escape
from pathlib import Path

from certiforest.files import write_atomically
from certiforest.report.html import as_html
from certiforest.report.sections import Bars, Cards, Facts, Page, Part, Section, Table, Thresholds, Tiles, Words


class Shown:
    """What shows itself as text, in notebooks, and as a page."""

    @property
    def page(self) -> Page:
        """What there is to show."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return as_text(self.page)

    def _repr_html_(self) -> str:
        return f"<pre>{escape(repr(self))}</pre>"

    def report(self, path: str | os.PathLike[str], *, replace: bool = True) -> None:
        """Write one HTML page. Without ``replace``, a file that is there is kept and `FileExistsError` raised."""
        if Path(path).suffix.lower() != ".html":
            raise ValueError(f"Expected a path that ends in .html, got {str(path)!r}.")
        write_atomically(path, as_html(self.page), replace=replace)


def as_text(page: Page) -> str:
    """Return what a page says, without its title."""
    return "\n".join(filter(None, map(_part, page.parts)))


def _part(part: Part | None) -> str:
    """Write lines. A picture has none, but numbers and captions do."""
    match part:
        case Section(title, parts, in_detail):
            lines = [] if in_detail else [line for part in parts for line in _part(part).splitlines()]
            return "\n  ".join([f"{title}:", *lines]) if lines else ""
        case Words(words):
            return words
        case Facts(entries):
            return "\n".join(f"{name}: {value}" for name, value in entries)
        case Tiles(entries):
            return "\n".join(f"{name}: {value}" + f" ({note})" * bool(note) for name, value, note in entries)
        case Bars(entries, caption) if entries:
            return "\n".join([*(f"{name}: {text}" for name, _, text in entries), caption])
        case Thresholds() if part.features:
            return part.caption
        case Cards(cards):
            return "\n".join(card.line for card in cards)
        case Table(head, rows) if rows:
            texts = [head, *rows] if head else rows
            widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
            signs = ["<" if i < part.n_left else ">" for i in range(len(widths))]
            line = "  ".join(f"{{:{sign}{width}}}" for sign, width in zip(signs, widths, strict=True))
            return "\n".join(line.format(*cells).rstrip() for cells in texts)
    return ""

"""Parts that pages are made of: sections, figures, tables, tiles, bars; they fit whatever width a window has."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template

from certiforest.files import write_atomically


def page(title: str, parts: Iterable[str]) -> str:
    """Return one self-contained page; empty parts are left out."""
    template = Template(files("certiforest.report").joinpath("template.html").read_text(encoding="utf-8"))
    return template.substitute(title=escape(title), body="\n".join(part for part in parts if part))


def write_page(path: str | os.PathLike[str], content: str, *, replace: bool) -> None:
    """Write a page to a file that ends in .html, whole or not at all."""
    if Path(path).suffix.lower() != ".html":
        raise ValueError(f"Expected a path that ends in .html, got {str(path)!r}.")
    write_atomically(path, content, replace=replace)


def breakable(name: str) -> str:
    """Return a text, often the name of a file or a feature, that may be broken after its underscores, too."""
    return escape(name).replace("_", "_<wbr>")


def section(title: str, content: str) -> str:
    """Return a part with a heading; nothing if it has no content."""
    return f"<section><h2>{escape(title)}</h2>{content}</section>" if content else ""


def figure(content: str, caption: str) -> str:
    """Return a picture with what it shows below it."""
    return f"<figure>{content}<figcaption>{caption}</figcaption></figure>"


def table(head: Sequence[str], rows: Iterable[Sequence[str]], n_left: int = 1) -> str:
    """Return a table of markup; all but the first ``n_left`` columns are numbers. It scrolls where it is too wide."""

    def line(cells: Sequence[str], tag: str) -> str:
        kinds = ["" if i < n_left else ' class="number"' for i in range(len(cells))]
        return "".join(f"<{tag}{kind}>{cell}</{tag}>" for kind, cell in zip(kinds, cells, strict=True))

    body = "".join(f"<tr>{line(row, 'td')}</tr>" for row in rows)
    top = f"<tr>{line(head, 'th')}</tr>" if head else ""
    return f'<div class="scroll"><table>{top}{body}</table></div>'


def facts(entries: Iterable[tuple[str, str]]) -> str:
    """Return a table of two columns, what and how much, of texts."""
    rows = "".join(f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in entries)
    return f'<table class="facts">{rows}</table>' if rows else ""


def tiles(entries: Iterable[tuple[str, str, str]]) -> str:
    """Return large numbers side by side: name, number, note."""
    cells = "".join(
        f'<div class="tile"><span class="soft small">{escape(name)}</span><b>{escape(value)}</b>'
        f'<span class="soft small">{escape(note)}</span></div>'
        for name, value, note in entries
    )
    return f'<div class="tiles">{cells}</div>'


def shares(entries: Iterable[tuple[str, int, str]]) -> str:
    """Return one bar divided into shares: name, size, colour."""
    parts = "".join(
        f'<span style="flex:{size};background:{colour}" title="{escape(name)}: {size}"></span>'
        for name, size, colour in entries
        if size
    )
    return f'<div class="shares">{parts}</div>'


def bars(entries: Sequence[tuple[str, float, str]]) -> str:
    """Return a bar for each entry: name, length, what to write beside it."""
    top = max((abs(length) for _, length, _ in entries), default=0.0) or 1.0
    rows = "".join(
        f"<span>{breakable(name)}</span><span><i style='width:{75 * abs(length) / top:.1f}%'></i>{escape(text)}</span>"
        for name, length, text in entries
    )
    return f'<div class="bars">{rows}</div>'


def legend(entries: Iterable[tuple[str, str]]) -> str:
    """Return what colours mean: colour, text."""
    items = "".join(
        f'<li class="small"><span class="swatch" style="background:{colour}"></span>{escape(text)}</li>'
        for colour, text in entries
    )
    return f'<ul class="legend">{items}</ul>'

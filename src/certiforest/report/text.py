"""Pages drawn as plain text."""

from __future__ import annotations

from certiforest.report.sections import Bars, Cards, Facts, Page, Part, Section, Table, Thresholds, Tiles, Words


def as_text(page: Page) -> str:
    """Return what a page says, without its title."""
    return "\n".join(filter(None, map(_part, page.parts)))


def _part(part: Part) -> str:
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
        case Bars(entries, caption):
            return "\n".join([*(f"{name}: {text}" for name, _, text in entries), caption])
        case Thresholds():
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

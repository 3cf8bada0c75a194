"""What a page says, as plain data: a title, sections, and parts that `html`, `text` and `plots` know how to draw."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray


class Words(NamedTuple):
    """A paragraph, soft if it says what has to be known beside."""

    words: str
    is_soft: bool = False


class Facts(NamedTuple):
    """What and how much, pairs of texts."""

    entries: Sequence[tuple[str, str]]


class Tiles(NamedTuple):
    """Large numbers side by side: name, number, note."""

    entries: Sequence[tuple[str, str, str]]


class Table(NamedTuple):
    """A table of texts; all but the first ``n_left`` columns are numbers.

    ``shares`` has the size and colour of each row, for one bar above that is divided into them.
    """

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    n_left: int = 1
    shares: Sequence[tuple[int, str]] = ()


class Curve(NamedTuple):
    """Shares against eps (``eps``, ``low``, ``high``), a band where low and high differ."""

    points: Mapping[str, Sequence[float]]
    colour: str
    label: str

    @property
    def is_open(self) -> bool:
        """Whether it is known only within bounds somewhere."""
        return list(self.points["low"]) != list(self.points["high"])


class Columns(NamedTuple):
    """Upright bars between n + 1 edges, each with a title."""

    edges: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    colour: str
    label: str
    titles: Sequence[str]


class Plot(NamedTuple):
    """Curves and columns between two axes, with marks.

    Marked are budgets, the accuracy without an attacker (``level``), points, and values that are limits.
    """

    x_label: str
    y_label: str
    y_range: tuple[float, float]
    caption: str = ""
    curves: Sequence[Curve] = ()
    columns: Sequence[Columns] = ()
    budgets: Sequence[float] = ()
    level: float | None = None
    x_start: float = 0.0
    points: Sequence[tuple[float, float]] = ()
    limits: Sequence[float] = ()

    @property
    def x_end(self) -> float:
        """Where the axis ends."""
        return float(max([c.points["eps"][-1] for c in self.curves] + [c.edges[-1] for c in self.columns]))

    @property
    def labels(self) -> list[tuple[str, str]]:
        """What colours mean; nothing where there is only one."""
        labels = [(curve.colour, curve.label) for curve in self.curves]
        labels += [(columns.colour, columns.label) for columns in self.columns]
        labels += [("UNKNOWN", "not decided")] * any(curve.is_open for curve in self.curves)
        return labels if len(labels) > 1 else []


class Bars(NamedTuple):
    """A bar for each entry: name, length, what to write beside it; ``heat`` is a picture of lengths to show above."""

    entries: Sequence[tuple[str, float, str]]
    caption: str
    x_label: str = ""
    heat: list[list[float]] | None = None


class Thresholds(NamedTuple):
    """Thresholds along features (``feature``, ``thresholds``, ``trees``), a colour per tree, closest pair framed."""

    features: Sequence[dict[str, Any]]
    closest: dict[str, Any] | None
    on_one_axis: bool
    caption: str


class Pictures(NamedTuple):
    """A row that is a picture, and the changed one."""

    original: list[list[float]]
    changed: list[list[float]]


class Card(NamedTuple):
    """A small page in a page, and the line that stands for it in text."""

    title: str
    note: str
    part: Table | Pictures
    line: str


class Cards(NamedTuple):
    """Cards side by side."""

    cards: Sequence[Card]


class Section(NamedTuple):
    """Parts below a heading; those without content are left out. What is in detail is on the page only."""

    title: str
    parts: Sequence[Part | None]
    in_detail: bool = False


class Page(NamedTuple):
    """Sections, and parts that stand between them."""

    title: str
    parts: Sequence[Part | None]


Figure: TypeAlias = Plot | Bars | Thresholds
Part: TypeAlias = Words | Facts | Tiles | Table | Figure | Pictures | Cards | Section

"""A random sample of rows that come in blocks: each row draws a lot, and those with the smallest are the sample."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from certiforest.certificates import Certificates
from certiforest.data.sources import InputRows

CONFIDENCE = 0.95


class RowSample:
    """A random sample of at most ``size`` of rows that come in blocks, and what was found about them.

    Attributes
    ----------
    rows : InputRows or None
        In the order of their numbers.
    found : Certificates or None
        Likewise.
    n_offered : int
        How many rows the sample is drawn from.
    """

    def __init__(self, size: int, seed: int) -> None:
        self.size, self.seed, self.n_offered = size, seed, 0
        self.rows: InputRows | None = None
        self.found: Certificates | None = None
        self._lots = np.empty(0, np.uint64)

    def wants(self, row_numbers: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which of some rows belong to the sample of these and all before; they count as offered."""
        self.n_offered += len(row_numbers)
        lots = draw_lots(row_numbers, self.seed)
        everyone = np.concatenate([self._lots, lots])
        if len(everyone) <= self.size:
            return np.ones(len(lots), bool)
        return lots <= np.partition(everyone, self.size - 1)[self.size - 1] if self.size else np.zeros(len(lots), bool)

    def add(self, rows: InputRows, found: Certificates) -> None:
        """Take rows that were wanted, in place of others."""
        if self.rows is not None and self.found is not None:
            rows, found = InputRows.concat([self.rows, rows]), Certificates.concat([self.found, found])
        lots = draw_lots(rows.row_numbers, self.seed)
        kept = np.sort(np.argsort(lots, kind="stable")[: self.size])
        if len(kept) < len(lots):
            rows, found, lots = rows.take(kept), found[kept], lots[kept]
        self.rows, self.found, self._lots = rows, found, lots

    def keep(self, which: NDArray[np.int64], found: Certificates) -> None:
        """Keep some rows, of which this was found, those that were drawn first: they are a sample, too."""
        assert self.rows is not None
        order = np.argsort(which)
        self.rows, self.found, self._lots = self.rows.take(which[order]), found[order], self._lots[which[order]]

    @property
    def as_drawn(self) -> NDArray[np.int64]:
        """The places of rows in the order in which they were drawn."""
        return np.argsort(self._lots, kind="stable")

    @property
    def is_all(self) -> bool:
        """Whether the sample is all rows."""
        return self.n_offered == len(self._lots)

    @property
    def half_width(self) -> float:
        """How far any share of the sample is from that of all rows at most, all shares together, in 95 of 100 draws.

        For instance the share of radii above eps, for every eps at once (Dvoretzky, Kiefer, Wolfowitz and Massart; rows
        drawn without putting them back are closer).
        """
        if self.is_all:
            return 0.0
        return math.sqrt(math.log(2 / (1 - CONFIDENCE)) / (2 * len(self._lots))) if len(self._lots) else 1.0


def draw_lots(row_numbers: NDArray[np.int64], seed: int) -> NDArray[np.uint64]:
    """Return a number for each row that looks random (SplitMix64: no two rows have the same)."""
    with np.errstate(over="ignore"):
        z = (row_numbers.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(seed)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))

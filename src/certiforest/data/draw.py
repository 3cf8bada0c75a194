"""Draw: a random sample of rows that come in blocks, of which nobody knows how many there are.

Each row draws a number that depends on its own number and the seed alone, and those with the smallest numbers are the
sample: the same one however the rows are cut, and whether or not a run was stopped in between.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from certiforest.certificates import Certificates
from certiforest.data.sources import Sample

CONFIDENCE = 0.95


class Draw:
    """A sample of at most ``size`` rows, and what was found about them.

    Attributes
    ----------
    rows : Sample or None
        In the order of their numbers.
    found : Certificates or None
        Likewise.
    n_offered : int
        How many rows the sample is drawn from.
    """

    def __init__(self, size: int, seed: int) -> None:
        self.size, self.seed, self.n_offered = size, seed, 0
        self.rows: Sample | None = None
        self.found: Certificates | None = None
        self._lots = np.empty(0, np.uint64)

    def wants(self, row_numbers: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which of some rows belong to the sample of these and all before; they count as offered."""
        self.n_offered += len(row_numbers)
        lots = draw_lots(row_numbers, self.seed)
        everyone = np.concatenate([self._lots, lots])
        if len(everyone) <= self.size:
            return np.ones(len(lots), bool)
        last = np.partition(everyone, self.size - 1)[self.size - 1] if self.size else -1
        return lots <= last if self.size else np.zeros(len(lots), bool)

    def add(self, rows: Sample, found: Certificates) -> None:
        """Take rows that were wanted, in place of others."""
        if self.rows is None or self.found is None:
            self.rows, self.found = rows, found
        else:
            y = None if rows.y is None or self.rows.y is None else np.concatenate([self.rows.y, rows.y])
            numbers = np.concatenate([self.rows.row_numbers, rows.row_numbers])
            texts = {f: np.concatenate([own, rows.texts[f]]) for f, own in self.rows.texts.items() if f in rows.texts}
            X = np.concatenate([self.rows.X, rows.X])
            self.rows = replace(self.rows, X=X, y=y, row_numbers=numbers, texts=texts)
            self.found = Certificates.concat([self.found, found])
        lots = draw_lots(self.rows.row_numbers, self.seed)
        kept = np.sort(np.argsort(lots, kind="stable")[: self.size])
        if len(kept) < len(lots):
            self.rows, self.found, lots = self.rows.take(kept), self.found[kept], lots[kept]
        self._lots = lots

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

"""Results: what is found out about rows, filled in block by block while work goes on."""

from __future__ import annotations

import math
from copy import copy

import numpy as np
from numpy.typing import NDArray

from certiforest.verdicts import UNKNOWN, Method


class Results:
    """What is found out about rows, column by column; a slice of it is a view."""

    def __init__(self, n_rows: int, n_features: int, *, witness: bool, proof: bool) -> None:
        self.prediction, self.stable = np.zeros(n_rows, np.int64), np.full(n_rows, UNKNOWN, np.int8)
        self.method = np.full(n_rows, Method.NONE, np.int8)
        self.is_decided, self.is_measured = np.zeros(n_rows, bool), np.zeros(n_rows, bool)
        self.radius, self.radius_upper = np.zeros(n_rows), np.full(n_rows, math.inf)
        self.witness = np.full((n_rows, n_features), np.nan) if witness else None
        nothing = np.full(n_rows, None) if proof else None
        self.proof, self.radius_proof, self.radius_witness = nothing, copy(nothing), copy(nothing)

    def __getitem__(self, block: slice) -> Results:
        part = object.__new__(Results)
        for name, column in vars(self).items():
            setattr(part, name, None if column is None else column[block])
        return part

    def forget(self, which: NDArray[np.bool_]) -> None:
        """Make rows unknown."""
        self.stable[which], self.method[which] = UNKNOWN, Method.NONE
        self.radius[which], self.radius_upper[which] = 0.0, math.inf
        if self.witness is not None:
            self.witness[which] = np.nan

"""Bins: training values as small integer codes, so that one pass over the rows of a node finds its best split.

A feature with few distinct values gets one bin per value: nothing is lost. Any other feature is cut where its
sorted values reach equal shares of the rows. Values that are missing have a code of their own, after all bins.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from certiforest.training.binning_kernels import copy_rows, count_codes, list_uncommon

MAX_BINS = 256
LARGEST_UNCOMMON_SHARE = 0.25  # of all codes: with more of them, rows are no faster to read than columns
BLOCK_BYTES = 2**24


class UncommonCodes(NamedTuple):
    """The codes of each row that are not the commonest of their feature.

    A cell is a bin of a feature; cells of all features are counted through, those of what is missing among them:

        feature            0       1         2
        cell           0 1 2 | 3 4 5 6 | 7 8 9 ...       first: 0, 3, 7, ...
        commonest      ^       ^             ^           common: 0, 3, 9
        a row with codes 0, 3, 1 has the uncommon cells 6 and 8

    Attributes
    ----------
    start : ndarray of int64, shape (n_rows + 1,)
        Uncommon cells of row ``i`` are ``cell[start[i]:start[i + 1]]``.
    cell : ndarray of int32, shape (start[-1],)
    common : ndarray of int64, shape (n_features,)
        The commonest cell of each feature.
    first : ndarray of int64, shape (n_features + 1,)
        The first cell of each feature, and the number of all.
    """

    start: NDArray[np.int64]
    cell: NDArray[np.int32]
    common: NDArray[np.int64]
    first: NDArray[np.int64]

    def take(self, rows: NDArray) -> UncommonCodes:
        """Return some rows, in this order."""
        start = np.append(0, (self.start[rows + 1] - self.start[rows]).cumsum())
        cell = np.empty(start[-1], np.int32)
        copy_rows(self.start, self.cell, rows, start, cell)
        return self._replace(start=start, cell=cell)


class Bins(NamedTuple):
    """Training rows as bin codes.

    Attributes
    ----------
    code : ndarray of uint8 or uint16, shape (n_features, n_rows)
        Bin of each value, ``n_bins`` where it is missing; rows of one feature lie side by side because a split search
        reads one feature.
    low, high : ndarray of float64, shape (n_features, max_bins)
        Smallest and largest training value in each bin; ``inf`` beyond the last bin of a feature. A threshold
        ``v`` with ``high[f, k] <= v < low[f, k + 1]`` parts bins up to ``k`` from the others.
    centre : ndarray of float64, shape (n_features, max_bins)
        The value that stands for all values of a bin when rows in reach of a threshold are counted.
    n_bins : ndarray of int32, shape (n_features,)
        Number of bins of each feature, 0 if all its values are missing.
    has_missing : ndarray of bool, shape (n_features,)
        Which features have values that are missing.
    """

    code: NDArray
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    centre: NDArray[np.float64]
    n_bins: NDArray[np.int32]
    has_missing: NDArray[np.bool_]

    def widths(self) -> NDArray[np.float64]:
        """Return the largest minus the smallest value of each feature, shape (n_features,)."""
        first, last = self.low[:, 0], self.high[np.arange(len(self.n_bins)), self.n_bins - 1]
        return np.subtract(last, first, out=np.zeros(len(first)), where=self.n_bins > 0)

    def merge(self, cell: NDArray[np.float64]) -> None:
        """Make all bins of one cell one, where that makes them fewer.

        Cells lie around the whole multiples of the widths ``cell`` (n_features,), which stand for their values.
        """
        with np.errstate(divide="ignore", invalid="ignore"):
            n_cells = self.widths() / cell + 1
        for f in np.flatnonzero(n_cells < self.n_bins):
            number, place = np.unique(np.round(self.centre[f, : self.n_bins[f]] / cell[f]), return_inverse=True)
            self.low[f], self.high[f], self.centre[f], self.n_bins[f] = np.inf, np.inf, np.nan, len(number)
            for edge in (self.low, self.high, self.centre):
                edge[f, : len(number)] = number * cell[f]
            self.code[f] = np.append(place, len(number))[self.code[f]]  # what is missing comes last

    def uncommon(self) -> UncommonCodes:
        """Return what is uncommon in each row; nothing at all unless most codes are the commonest of their feature."""
        first = np.append(0, np.cumsum(self.n_bins + 1, dtype=np.int64))
        code, n_uncommon = np.zeros(len(self.code), np.int64), np.zeros(self.code.shape[1], np.int64)
        count_codes(self.code, np.empty(int(self.n_bins.max()) + 1, np.int64), code, n_uncommon)
        if n_uncommon.sum() > LARGEST_UNCOMMON_SHARE * self.code.size:
            return UncommonCodes(np.zeros(len(n_uncommon) + 1, np.int64), np.empty(0, np.int32), first[:-1], first)
        start, common = np.append(0, n_uncommon.cumsum()), first[:-1] + code
        cell = np.empty(start[-1], np.int32)
        list_uncommon(self.code, common, first, start[:-1].copy(), cell)
        return UncommonCodes(start, cell, common, first)


def bin_features(X: NDArray[np.float64], max_bins: int = MAX_BINS) -> Bins:
    """Sort the values of each feature into at most ``max_bins`` bins.

    Parameters
    ----------
    X : ndarray of float64, shape (n_rows, n_features)
        Finite values or NaN, at least one row.
    max_bins : int, default=256
        At least 2. One byte holds a code up to 256. Missing values take the place of one bin.

    Returns
    -------
    Bins
    """
    n_rows, n_features = X.shape
    code = np.empty((n_features, n_rows), np.uint8 if max_bins <= 256 else np.uint16)
    low = np.full((n_features, max_bins), np.inf)
    high = np.full((n_features, max_bins), np.inf)
    n_bins, has_missing = np.empty(n_features, np.int32), np.empty(n_features, bool)
    n_columns = max(1, BLOCK_BYTES // (8 * n_rows))
    for start in range(0, n_features, n_columns):
        # A block of columns, turned so that each lies side by side: memory stays flat, sorting stays in cache.
        columns = np.ascontiguousarray(X[:, start : start + n_columns].T)
        for feature, values in enumerate(columns, start):
            ordered = np.sort(values)  # NaN last, as in the search below
            has_missing[feature] = np.isnan(ordered[-1])
            if has_missing[feature]:
                ordered = ordered[~np.isnan(ordered)]
            first, last = _cut(ordered, max_bins - has_missing[feature])
            n_bins[feature] = len(first)
            low[feature, : len(first)], high[feature, : len(last)] = first, last
            code[feature] = np.searchsorted(last, values)
    with np.errstate(invalid="ignore"):  # inf - inf beyond the last bin
        centre = low + (high - low) / 2
    return Bins(code, low, high, centre, n_bins, has_missing)


def _cut(ordered: NDArray[np.float64], max_bins: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the first and last value of each bin of a sorted column, each of shape (n_bins,)."""
    is_last = np.ones(len(ordered), bool)
    is_last[:-1] = ordered[1:] != ordered[:-1]
    distinct = ordered[is_last]
    if len(distinct) <= max_bins:
        return distinct, distinct
    # The value at each rank i * n / max_bins closes a bin; heavy values close one bin for several ranks.
    rank = np.arange(1, max_bins + 1) * len(ordered) // max_bins - 1
    last = np.unique(ordered[rank])
    first = ordered[np.append(0, np.searchsorted(ordered, last[:-1], side="right"))]
    return first, last

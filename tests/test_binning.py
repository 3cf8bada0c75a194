"""Bins lose nothing on few distinct values and cut evenly otherwise."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from certiforest.training.binning import bin_features

columns = hnp.arrays(
    np.float64,
    st.tuples(st.integers(1, 40), st.integers(1, 3)),
    elements=st.integers(-6, 6).map(lambda k: k / 3) | st.floats(-1e6, 1e6),
)


@given(columns, st.integers(2, 50))
def test_codes_order_rows_as_values_do(X, max_bins):
    bins = bin_features(X, max_bins)
    for feature, values in enumerate(X.T):
        code = bins.code[feature]
        n_bins = bins.n_bins[feature]
        assert 1 <= n_bins <= max_bins
        assert set(code) == set(range(n_bins))
        low, high = bins.low[feature, :n_bins], bins.high[feature, :n_bins]
        assert (low <= high).all()
        assert (high[:-1] < low[1:]).all()
        # Both ends of every bin are training values, and every value lies in its bin.
        assert all(low[k] == values[code == k].min() and high[k] == values[code == k].max() for k in range(n_bins))


@given(columns)
def test_few_distinct_values_get_a_bin_each(X):
    bins = bin_features(X, max_bins=40)
    for feature, values in enumerate(X.T):
        assert bins.n_bins[feature] == len(np.unique(values))
        assert np.array_equal(bins.low[feature, bins.code[feature]], values)


def test_many_distinct_values_are_cut_into_equal_shares():
    X = np.random.default_rng(0).normal(size=(10_000, 1))
    bins = bin_features(X, max_bins=100)
    assert np.bincount(bins.code[0]).tolist() == [100] * 100


def test_a_heavy_value_closes_its_bin():
    X = np.concatenate([np.zeros(900), np.linspace(1, 2, 1000)])[:, None]
    bins = bin_features(X, max_bins=10)
    assert np.count_nonzero(bins.code[0] == bins.code[0, 0]) == 900


@given(columns.filter(lambda X: len(X) >= 8), st.randoms(use_true_random=False))
def test_uncommon_codes_and_the_commonest_are_all_codes(X, random):
    X[:-1] = X[-1]  # every value but one of each column is the same, and another one is missing
    X[0], X[1] = X[0] + 1, np.nan
    bins = bin_features(X)
    rows = np.array(random.choices(range(len(X)), k=5))
    for uncommon, code in ((bins.uncommon(), bins.code), (bins.uncommon().take(rows), bins.code[:, rows])):
        for i, (start, stop) in enumerate(itertools.pairwise(uncommon.start)):
            cell = uncommon.common.copy()
            feature = np.searchsorted(uncommon.first, uncommon.cell[start:stop], side="right") - 1
            assert (uncommon.cell[start:stop] != cell[feature]).all()
            cell[feature] = uncommon.cell[start:stop]
            np.testing.assert_array_equal(cell - uncommon.first[:-1], code[:, i])


def test_where_no_code_is_common_none_is_listed():
    assert len(bin_features(np.random.default_rng(0).random((50, 3))).uncommon().cell) == 0


@pytest.mark.parametrize(("max_bins", "dtype"), [(256, np.uint8), (257, np.uint16)])
def test_codes_are_small_integers(max_bins, dtype):
    bins = bin_features(np.arange(300.0)[:, None], max_bins)
    assert bins.code.dtype == dtype
    assert bins.code.max() == bins.n_bins[0] - 1 <= max_bins - 1


def test_bins_of_one_cell_are_merged_where_cells_are_fewer():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.random(200), rng.integers(3, size=200), rng.random(200)])
    X[::7, 0] = np.nan
    bins, before = bin_features(X), bin_features(X)
    bins.merge(np.array([0.1, 0.1, 0.0]))
    number = np.round(X[:, 0] / 0.1)
    np.testing.assert_array_equal(bins.code[0], np.where(np.isnan(number), bins.n_bins[0], number))
    np.testing.assert_allclose(bins.low[0, : bins.n_bins[0]], 0.1 * np.arange(11))
    for f in (1, 2):
        assert bins.n_bins[f] == before.n_bins[f]
        np.testing.assert_array_equal(bins.code[f], before.code[f])

"""Pipelines: steps that treat each column for itself, folded into the thresholds of the model behind them.

Every threshold becomes the largest float64 that the steps, with all their own rounding, take to the left of it. It is
found by bisection over floats, so that nothing has to be known about a step but that it never turns the order of
numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer, MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler

from certiforest.ensemble import ModelError, TreeEnsemble
from certiforest.ensemble.tree_kernels import LARGEST
from certiforest.formats.opened import Function
from certiforest.formats.sklearn_models import takes_missing

SCALERS = (StandardScaler, MinMaxScaler, MaxAbsScaler, RobustScaler)
FARTHEST = 2.0**600  # numbers that steps are asked about; thresholds of libraries are far smaller


def sources_of(step: Any, n_features: int) -> list[int]:
    """Return which column each column that a step makes is made of."""
    name = type(step).__name__
    own = list(range(n_features))
    if step in (None, "passthrough"):
        return own
    if isinstance(step, Pipeline):
        for _, inner in step.steps:
            own = [own[c] for c in sources_of(inner, len(own))]
        return own
    if isinstance(step, ColumnTransformer):
        made = []
        for part, inner, _ in step.transformers_:
            if inner != "drop":
                columns = [own[c] for c in step._transformer_to_input_indices[part]]
                made += [columns[c] for c in sources_of(inner, len(columns))]
        return made
    if isinstance(step, FunctionTransformer) and step.func is None:
        return own
    if isinstance(step, SCALERS) and (getattr(step, "scale_", None) is None or (np.asarray(step.scale_) > 0).all()):
        return own
    if isinstance(step, SimpleImputer) and _fills_nan(step):
        return own
    raise ModelError(
        "Expected steps that treat each column for itself and keep its order (StandardScaler, MinMaxScaler,"
        " MaxAbsScaler, RobustScaler, SimpleImputer of NaN without an indicator, ColumnTransformer of these), got"
        f" {name}; certify the model at the end on transformed rows instead: as_ensemble(pipeline[-1])."
    )


def _fills_nan(step: SimpleImputer) -> bool:
    """Tell whether an imputer does nothing but fill NaN by a number, in every column."""
    value = step.missing_values
    is_nan = isinstance(value, float) and value != value
    return is_nan and not step.add_indicator and not np.isnan(np.asarray(step.statistics_, np.float64)).any()


def fold(ensemble: TreeEnsemble, transform: Function, source: NDArray[np.int64], n_features: int) -> TreeEnsemble:
    """Return the ensemble that does to rows what the given one does to transformed rows.

    Parameters
    ----------
    ensemble : TreeEnsemble
    transform : callable
        Takes rows, each column for itself, without turning its order.
    source : ndarray of int64, shape (ensemble.n_features,)
        The column of a row that each transformed one is made of.
    n_features : int
        Length of a row.
    """
    if len(source) != ensemble.n_features or ensemble.subset is not None or ensemble.blanks is not None:
        raise ModelError("Expected steps that make the columns of a model of thresholds, got others.")
    filled = transform(np.full((1, n_features), np.nan))[0] if takes_missing(transform, n_features) else None
    if filled is not None:
        ensemble = ensemble.never_missing(~np.isnan(filled))
        if ensemble.missing_left is None and np.isnan(filled).any():
            filled = None
    node = ensemble.number_splits
    made, v = ensemble.feature[node], ensemble.threshold[node]
    column = source[made]
    order = np.argsort(column, kind="stable")
    place = np.empty(len(node), np.int64)  # among the splits on one column
    place[order] = np.arange(len(node)) - np.searchsorted(column[order], column[order])
    rows = np.zeros((place.max(initial=0) + 1, n_features))

    def goes_left(value: NDArray[np.float64]) -> NDArray[np.bool_]:
        rows[place, column] = value
        with np.errstate(over="ignore", invalid="ignore"):
            return transform(rows)[place, made] <= v

    ends = np.full(len(node), -FARTHEST), np.full(len(node), FARTHEST)
    try:
        is_folded = not len(node) or (goes_left(ends[0]).all() and (goes_left(ends[1]) == (v == LARGEST)).all())
    except ValueError as error:  # what a step says of infinity
        raise ModelError(f"Expected steps that take numbers up to {FARTHEST:.0e}, got others ({error}).") from None
    if not is_folded:
        raise ModelError("Expected steps that bring numbers to both sides of every threshold, got others.")
    threshold = ensemble.threshold.copy()
    threshold[node] = np.where(v == LARGEST, LARGEST, last_left(goes_left, *ends))
    missing_left = None
    if filled is not None:
        kept = np.zeros(ensemble.n_nodes, bool) if ensemble.missing_left is None else ensemble.missing_left
        value = filled[np.maximum(ensemble.feature, 0)]
        by_value = (ensemble.feature >= 0) & (value <= ensemble.threshold)
        missing_left = np.where(np.isnan(value) | np.isnan(ensemble.threshold), kept, by_value)
    return ensemble.replace(
        feature=np.where(ensemble.feature < 0, -1, source[np.maximum(ensemble.feature, 0)]),
        threshold=threshold,
        missing_left=missing_left,
        n_features=n_features,
        feature_names=None,
    )


def last_left(
    goes_left: Callable[[NDArray[np.float64]], NDArray[np.bool_]], low: NDArray[np.float64], high: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the largest floats that go left, from ``low``, which does, up to ``high``, by bisection over floats."""
    least, most = _numbered(low), _numbered(high)
    while (least < most).any():
        middle = (least | most) - ((least ^ most) >> 1)  # their mean, rounded up, without overflow
        is_left = goes_left(_unnumbered(middle))
        least, most = np.where(is_left, middle, least), np.where(is_left, most, middle - 1)
    return _unnumbered(least)


def _numbered(value: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return whole numbers in the order of floats, neighbours for neighbours."""
    bits = (value + 0.0).view(np.int64)
    return np.where(bits < 0, np.int64(-(2**63)) - bits, bits)


def _unnumbered(number: NDArray[np.int64]) -> NDArray[np.float64]:
    return np.where(number < 0, np.int64(-(2**63)) - number, number).view(np.float64)

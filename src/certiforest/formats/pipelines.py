"""What the steps of scikit-learn's pipelines do to columns: those that `folding` takes, and why others are refused."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.compose import ColumnTransformer
from sklearn.feature_selection import SelectorMixin
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    PowerTransformer,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
)

from certiforest.ensemble import ModelError
from certiforest.ensemble.categories import are_numbers
from certiforest.formats.folding import Column
from certiforest.formats.opened import asker
from certiforest.words import shown

SCALERS = (StandardScaler, MinMaxScaler, MaxAbsScaler, RobustScaler)
ENCODERS = (OneHotEncoder, OrdinalEncoder)
# Functions of one number that keep the order.
RISING = (np.log, np.log2, np.log10, np.log1p, np.sqrt, np.cbrt, np.exp, np.exp2, np.expm1, np.arcsinh, np.arctan)


class PipelineSteps:
    """The steps of a fitted pipeline; see `Steps`.

    ``absent`` is what the model behind the steps takes for the entries that a sparse matrix does not have, ``limit``
    the largest number that it takes.

    Attributes
    ----------
    ask : callable
        Makes of rows, with codes for text, what the steps take.
    """

    def __init__(self, step: Pipeline, names: NDArray | None, n_features: int, absent: float, limit: float) -> None:
        self.n_features, self.names, self._step, self._absent, self.limit = n_features, names, step, absent, limit
        self.is_curved, self.joints = False, dict[int, NDArray[np.float64]]()
        self.loses_zeros = False  # until a sparse matrix is seen in which the model takes zeros for something else
        self.values: dict[int, tuple[Any, ...]] = {}
        self._missing: dict[int, Any] = {}  # what encoders and imputers take for missing text
        self.made = self._through(step, [Column(f) for f in range(n_features)])
        self.ask = asker(self.values, names, self._missing)

    def transform(self, rows: NDArray[np.float64], *, absent: float | None = None) -> NDArray[np.float64]:
        """Return what the model behind the steps takes, dense; ``absent`` as for the class."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # about unseen values
            warnings.simplefilter("ignore", RuntimeWarning)  # of functions, about numbers that they do not take
            made = self._step.transform(self.ask(rows)) if len(self._step.steps) else rows
        if not hasattr(made, "tocoo"):
            return np.asarray(made, np.float64)
        entries = made.tocoo()
        self.loses_zeros = self.loses_zeros or self._absent != 0
        dense = np.full(made.shape, self._absent if absent is None else absent)
        dense[entries.row, entries.col] = entries.data
        return dense

    def _through(self, step: Any, columns: list[Column]) -> list[Column]:
        """Return the columns that a step makes of some."""
        name = type(step).__name__
        if step in (None, "passthrough"):
            return columns
        if isinstance(step, Pipeline):
            for _, inner in step.steps:
                columns = self._through(inner, columns)
            return columns
        if isinstance(step, ColumnTransformer):
            made = []
            for part, inner, _ in step.transformers_:
                if inner != "drop":
                    made += self._through(inner, [columns[c] for c in step._transformer_to_input_indices[part]])
            return made
        if isinstance(step, FunctionTransformer) and step.func is None:
            return columns
        if isinstance(step, SelectorMixin):
            return [columns[c] for c in np.flatnonzero(step.get_support())]
        if self._is_curve(step, columns) or (isinstance(step, KBinsDiscretizer) and step.encode == "ordinal"):
            return [column._replace(is_raw=False) for column in columns]
        if isinstance(step, SCALERS) and (getattr(step, "scale_", None) is None or (np.asarray(step.scale_) > 0).all()):
            return [column._replace(is_raw=False) for column in columns]
        if isinstance(step, SimpleImputer) and _fills_missing(step):
            for column in columns:
                self._note_missing(column, step.missing_values)
            return columns
        if isinstance(step, ENCODERS) and all(column.is_raw for column in columns):
            for column, values in zip(columns, step.categories_, strict=True):
                self._note_values(column, values.tolist())
            n_made = step._n_features_outs if isinstance(step, OneHotEncoder) else [1] * len(columns)
            pairs = zip(columns, n_made, strict=True)
            return [Column(column.source, is_raw=False, is_encoded=True) for column, n in pairs for _ in range(n)]
        raise ModelError(
            "Expected steps that treat each column for itself and keep its order (scalers, PowerTransformer, selectors,"
            " KBinsDiscretizer with encode='ordinal', FunctionTransformer of a rising function of numpy such as log1p,"
            " SimpleImputer of NaN without an indicator; QuantileTransformer, OneHotEncoder, OrdinalEncoder of columns"
            f" that nothing else has changed; ColumnTransformer of these), got {name}; certify the model at the end on"
            " transformed rows instead: as_ensemble(pipeline[-1])."
        )

    def _is_curve(self, step: Any, columns: list[Column]) -> bool:
        """Tell whether a step is made of curves that rise, and note where their pieces meet."""
        if isinstance(step, QuantileTransformer) and all(column.is_raw for column in columns):
            for column, quantiles in zip(columns, step.quantiles_.T, strict=True):
                self.joints[column.source] = np.union1d(self.joints.get(column.source, quantiles), quantiles)
        elif not isinstance(step, PowerTransformer) and not (
            isinstance(step, FunctionTransformer) and any(step.func is one for one in RISING) and not step.kw_args
        ):
            return False
        self.is_curved = True
        return True

    def _note_values(self, column: Column, values: list) -> None:
        """Keep the values that an encoder knows of a column."""
        known = [v for v in values if v is not None and v == v]
        for v in values:
            if v is None or v != v:
                self._note_missing(column, v)
        is_text = all(isinstance(v, str) for v in known)
        if not is_text and not all(isinstance(v, (bool, int, float)) and float(v) == v for v in known):
            raise ModelError(
                f"Expected categories that are all text or all numbers, got {shown(known)} in column {column.source}."
            )
        known = known if is_text else [float(v) + 0.0 for v in known]
        before = self.values.get(column.source, ())
        if before and known and are_numbers(before) == is_text:
            raise ModelError(f"Expected text or numbers in column {column.source}, got encoders that know both.")
        self.values[column.source] = tuple(dict.fromkeys([*before, *known]))

    def _note_missing(self, column: Column, value: Any) -> None:
        """Keep what stands for missing text in a column."""
        known = self._missing.setdefault(column.source, value)
        if (known is None) != (value is None):
            raise ModelError(
                f"Expected None or NaN to stand for missing text in column {column.source}, got steps that tell the two"
                " apart; fit with one of them."
            )


def _fills_missing(step: SimpleImputer) -> bool:
    """Tell whether an imputer does nothing but fill NaN or None, by one value in every column."""
    value = step.missing_values
    is_missing = value is None or (isinstance(value, float) and value != value)
    return is_missing and not step.add_indicator and all(v is not None and v == v for v in step.statistics_.tolist())


def content_of_step(step: Any) -> list[NDArray] | None:
    """Return what decides how a step acts, beyond its own plain attributes and the steps inside."""
    if isinstance(step, SelectorMixin):
        return [step.get_support()]
    if isinstance(step, PowerTransformer) and step.standardize:
        return [np.asarray(step._scaler.mean_), np.asarray(step._scaler.scale_)]
    return [np.array(repr(step.func))] if isinstance(step, FunctionTransformer) else None

"""What is known about many rows: filled in block by block, one column per fact."""

from __future__ import annotations

import math
import platform
from collections.abc import Iterable
from copy import copy
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from certiforest.attack.attacker import Attacker
from certiforest.ensemble import TreeEnsemble
from certiforest.ensemble.frames import FrameForm
from certiforest.ensemble.numbers import are_equal
from certiforest.rows.row_counts import CountedRows, RowCounts
from certiforest.verdicts import UNKNOWN, UNSTABLE, Method, Verdict
from certiforest.version import __version__
from certiforest.words import feature_name, finite_or_none

#: What certificates to be put together must have in common.
COMMON = ("attacker", "attacked", "margin", "tolerance", "model_sha256", "classes")
#: What is known of the outputs in reach of a row.
RANGES, END_ROWS = ("low", "high", "low_reached", "high_reached", "range_is_exact"), ("low_witness", "high_witness")
#: Whose outputs have a tolerance are of one class.
ALL_ROWS = "all rows"


class Results:
    """What is found out about rows, column by column; a slice of it is a view."""

    def __init__(self, n_rows: int, n_features: int, *, witness: bool, proof: bool, outputs: bool = False) -> None:
        self.prediction, self.stable = np.zeros(n_rows, np.int64), np.full(n_rows, UNKNOWN, np.int8)
        self.method = np.full(n_rows, Method.NONE, np.int8)
        self.is_decided, self.is_measured = np.zeros(n_rows, bool), np.zeros(n_rows, bool)
        self.radius, self.radius_upper = np.zeros(n_rows), np.full(n_rows, math.inf)
        self.witness = np.full((n_rows, n_features), np.nan) if witness else None
        nothing = np.full(n_rows, None) if proof else None
        self.proof, self.radius_proof, self.radius_witness = nothing, copy(nothing), copy(nothing)
        n_ends = n_rows if outputs else 0
        self.output, self.low_reached, self.high_reached = (np.full(n_ends, np.nan) for _ in range(3))
        self.low, self.high = np.full(n_ends, -math.inf), np.full(n_ends, math.inf)
        self.range_is_exact = np.zeros(n_ends, bool)
        self.low_witness = np.full((n_rows, n_features), np.nan) if witness and outputs else None
        self.high_witness = copy(self.low_witness)

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


@dataclass(frozen=True, eq=False, repr=False)
class CertifiedRows(CountedRows):
    """What is known of each row: the fields of `Certificates`, which tell what they hold."""

    prediction: NDArray
    stable: NDArray[np.int8]
    method: NDArray[np.str_]
    label: NDArray | None = None
    radius: NDArray[np.float64] | None = None
    radius_upper: NDArray[np.float64] | None = None
    witness: NDArray[np.float64] | None = None
    low: NDArray[np.float64] | None = None
    high: NDArray[np.float64] | None = None
    low_reached: NDArray[np.float64] | None = None
    high_reached: NDArray[np.float64] | None = None
    range_is_exact: NDArray[np.bool_] | None = None
    low_witness: NDArray[np.float64] | None = None
    high_witness: NDArray[np.float64] | None = None
    tolerance: float | None = None
    broken_relations: NDArray[np.int64] | None = None
    is_interrupted: bool = False
    proof: NDArray[np.object_] | None = None
    radius_proof: NDArray[np.object_] | None = None
    radius_witness: NDArray[np.object_] | None = None
    rows: NDArray[np.float64] | None = None
    attacker: Attacker | None = None
    attacked: NDArray | None = None
    margin: float = 0.0
    model_sha256: str | None = None
    classes: NDArray | None = None
    index: Any = field(default=None, compare=False)
    form: FrameForm | None = field(default=None, compare=False)
    feature_names: tuple[str, ...] | None = field(default=None, compare=False)
    ensemble: TreeEnsemble | None = field(default=None, compare=False)
    about: dict[str, Any] | None = field(default=None, compare=False)

    def __eq__(self, other: object) -> bool:
        """Two certificates are equal iff they say the same about the same rows."""
        if not isinstance(other, CertifiedRows):
            return NotImplemented
        names = [field.name for field in fields(self) if field.compare]
        return all(are_equal(getattr(self, name), getattr(other, name)) for name in names)

    __hash__ = None  # type: ignore[assignment]

    def __len__(self) -> int:
        return len(self.prediction)

    def to_columns(self) -> dict[str, NDArray]:
        """Return what is known about the rows, a column of n entries for each fact, as `to_frame` and files have it."""
        columns: dict[str, NDArray] = {"prediction": self.prediction, "stable": self.stable, "method": self.method}
        if self.label is not None:
            columns["verdict"] = np.array([verdict.name for verdict in Verdict])[self._verdict_codes]
        if self.radius is not None and self.radius_upper is not None:
            columns["radius"] = self.radius
            columns["radius_is_exact"] = self.radius == self.radius_upper
            columns["radius_upper"] = self.radius_upper
        if self.broken_relations is not None:
            columns["broken_relations"] = self.broken_relations
        columns |= {name: column for name in RANGES if (column := getattr(self, name)) is not None}
        if self.witness is not None:
            for feature, values in enumerate(self.witness.T):
                columns[f"witness_{feature_name(self.feature_names, feature)}"] = values
        return columns

    def to_frame(self) -> Any:
        """Return a pandas frame: prediction, stable, method, verdict (with labels); what was asked for.

        Its index is that of the rows. ``radius`` comes with ``radius_is_exact`` and ``radius_upper``, a witness as one
        column per feature, NaN where there is none. A column's type does not depend on the rows.
        """
        import pandas

        return pandas.DataFrame(self.to_columns(), index=self.index)

    def witnesses(self) -> Any:
        """Return the changed rows, those that have one: a frame with index, columns, categories and types of the rows.

        Where rows were no frame of pandas, an array. What the model predicts of them, and the library that it is of, is
        not what it predicts of the rows.
        """
        if self.witness is None:
            raise ValueError("Expected certificates with witnesses, got none: call certify(..., witness=True).")
        has_one = (self.stable == UNSTABLE) & ~np.isnan(self.witness).all(axis=1)
        changed = self.witness[has_one]
        return changed if self.form is None else self.form.frame(changed, self.index[has_one])

    def __getitem__(self, which: Any) -> Self:
        """Return the certificates of one row, of a slice, of a mask or of a list of rows."""
        if isinstance(which, (int, np.integer)):
            if not -len(self) <= which < len(self):
                raise IndexError(f"Expected a row below {len(self)}, got {which}.")
            which = [int(which)]
        return replace(self, **{name: column[which] for name, column in self._columns.items()})

    @property
    def _columns(self) -> dict[str, Any]:
        """The fields that have one entry per row."""
        others = {*COMMON, "is_interrupted", "form", "feature_names", "ensemble", "about"}
        names = (field.name for field in fields(self) if field.name not in others)
        return {name: column for name in names if (column := getattr(self, name)) is not None}

    @classmethod
    def concat(cls, parts: Iterable[Self]) -> Self:
        """Put certificates of several tables together: of one model, against one attacker, with the same fields."""
        first, *others = parts = list(parts)  # an empty list cannot say what it is about
        for other in others:
            if not all(are_equal(getattr(first, name), getattr(other, name)) for name in COMMON):
                raise ValueError("Expected certificates of one model and one attacker, got several.")
            if set(first._columns) != set(other._columns):
                found = sorted(set(first._columns) ^ set(other._columns))
                raise ValueError(f"Expected certificates with the same fields, got some without {', '.join(found)}.")
        columns: dict[str, Any] = {
            name: np.concatenate([part._columns[name] for part in parts]) for name in first._columns
        }
        return replace(first, **columns, is_interrupted=any(part.is_interrupted for part in parts))

    @property
    def by_class(self) -> list[dict[str, Any]]:
        """Rows, accuracy and robust accuracy of each class, as plain data; needs labels."""
        self._check_labels()
        return self.row_counts.verdicts["by_class"]

    def unless_interrupted(self) -> Self:
        """Return these certificates, or pass Ctrl-C on if it cut them short: for callers that need every row."""
        if self.is_interrupted:
            raise KeyboardInterrupt
        return self

    @property
    def radius_is_exact(self) -> NDArray[np.bool_] | None:
        """Whether each radius is exact, shape (n,), or None if there are no radii."""
        return None if self.radius is None else self.radius == self.radius_upper

    @property
    def row_counts(self) -> RowCounts:
        """How many rows of each class came out how."""
        label = self.prediction if self.label is None else self.label
        classes = np.unique(label) if self.classes is None else self.classes
        place = np.zeros(len(self), np.int64)
        if self.tolerance is None:
            order = np.argsort(classes)
            place = order[np.searchsorted(classes, label, sorter=order)]
        right = np.zeros(len(self), bool) if self.label is None else self.correct
        shape = len(classes), 3, 2
        cell = np.ravel_multi_index((place, self.stable % 3, right.astype(np.int64)), shape)
        table = np.bincount(cell, minlength=int(np.prod(shape))).reshape(shape)
        return RowCounts(table, classes, self.label is not None)

    @property
    def verdict(self) -> NDArray[np.object_]:
        """The `Verdict` of each row, shape (n,); needs labels."""
        members = np.array(list(Verdict), dtype=object)
        return members[self._verdict_codes]

    @property
    def _verdict_codes(self) -> NDArray[np.int64]:
        code = 2 * ~self.correct + (self.stable == UNSTABLE)
        return np.where(self.stable == UNKNOWN, Verdict.UNKNOWN.value, code)

    @property
    def recall(self) -> dict[Any, float]:
        """By label, the share of its rows that are predicted right; needs labels."""
        self._check_labels()
        return self.row_counts.recall

    @property
    def robust_recall(self) -> dict[Any, float]:
        """By label, the share of its rows that are proved robust; needs labels."""
        self._check_labels()
        return self.row_counts.robust_recall


def about_now(time_limit: float, total_time_limit: float) -> dict[str, Any]:
    """Return how certificates are made that are made now: versions, date, and seconds allowed (None: any number)."""
    return {
        **_versions(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "time_limit": finite_or_none(time_limit),
        "total_time_limit": finite_or_none(total_time_limit),
    }


@cache
def _versions() -> dict[str, str]:
    libraries = {name: version(name) for name in ("numpy", "numba")}
    return {"certiforest": __version__, **libraries, "python": platform.python_version()}

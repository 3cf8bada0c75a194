"""Rows and labels as they enter: any array or data frame, checked and taken exactly.

Rows are handed out in blocks of contiguous float64, which keeps memory flat: whatever the type of the input, only a
block of it is converted at a time, and a block of ordinary width stays in the processor's cache while the trees walk
over it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from certiforest.ensemble.categories import HASHES, Codes
from certiforest.ensemble.frames import FrameForm, list_column, names_of, order_by_name, take_columns, types_of
from certiforest.ensemble.numbers import InexactError, exact_floats
from certiforest.words import shown

BLOCK_BYTES = 2**20
# A slice of a data frame takes time for every column: of wide frames, blocks are larger, up to these limits.
FRAME_BLOCK_ROWS, FRAME_BLOCK_BYTES = 64, 2**26

# Types of columns as pandas, polars and pyarrow spell them. Others, as dates or categories, are not numbers as such.
NUMBERS = re.compile(r"(sparse\[)?((half)?float(16|32|64)?|double|u?int(8|16|32|64)|bool(ean)?)(\[pyarrow\]|, .*\])?")
LONG_WHOLE_NUMBERS = re.compile(r"(sparse\[)?u?int64\b.*")
ADVICE = "Give numbers that float64 holds: encode text, categories and dates first."


class RowError(ValueError):
    """Rows or labels are not what the ensemble expects."""


class Rows:
    """Rows of a given width as float64, finite or missing, read block by block.

    Parameters
    ----------
    X : array-like or data frame, shape (n, n_features)
        Numbers that float64 holds exactly.
    n_features : int
        Expected width.
    feature_names : sequence of str, optional
        Names the ensemble was trained with; a data frame must have the same ones, in any order.
    takes_missing : bool, default=False
        Whether NaN, and what data frames have in its place, stands for a value that is missing; else it is refused.
    blanks : ndarray of float64, shape (2, n_features), optional
        The smallest and the largest number that counts as missing, too, of each feature.
    categorical, categories, unseen, required : optional
        As for `certiforest.TreeEnsemble`. Columns of data frames that are no numbers are compared with the categories;
        all others hold what sets hold.
    """

    def __init__(
        self,
        X: Any,
        n_features: int,
        feature_names: Sequence[str] | None = None,
        *,
        takes_missing: bool = False,
        blanks: NDArray[np.float64] | None = None,
        categorical: Sequence[int] = (),
        categories: Mapping[int, Sequence[Any]] | None = None,
        unseen: Mapping[int, str] | None = None,
        required: Sequence[int] = (),
    ) -> None:
        if hasattr(X, "toarray"):
            raise RowError("Expected dense rows, got a sparse matrix; call X.toarray() first.")
        for call in ("collect", "compute"):  # polars, dask
            if hasattr(type(X), "columns") and hasattr(X, call):
                raise RowError(
                    f"Expected rows in memory, got a {type(X).__name__}; call X.{call}() first, or give rows that"
                    " memory does not hold to Certifier.stream."
                )
        names = names_of(X) if hasattr(X, "columns") else None
        if names is None and not hasattr(X, "dtype"):
            try:
                X = exact_floats(X)
            except InexactError as error:
                raise _not_numbers(error, 0) from None
        if len(X.shape) != 2:
            raise RowError(
                f"Expected rows as a table of shape (n, {n_features}), got shape {tuple(X.shape)}."
                " For a single row use X.reshape(1, -1)."
            )
        if names is not None and feature_names is not None:
            try:
                order = order_by_name(names, feature_names)
            except ValueError as error:
                raise RowError(str(error)) from None
            if order is not None:
                X, names = take_columns(X, order), [names[i] for i in order]
        if X.shape[1] != n_features:
            raise RowError(
                f"Expected {n_features} features per row, got {X.shape[1]}."
                " Give the columns the model was trained on, without the label and without an index."
            )
        self._names = names if feature_names is None else feature_names
        self._X, self._is_frame, self.n_features = X, names is not None, n_features
        self._takes_missing, self._blanks, self._required = takes_missing, blanks, [*required]
        unseen = unseen or {}
        codes = {f: Codes(values, unseen.get(f)) for f, values in (categories or {}).items()}
        self._whole = np.array([f for f in categorical if f not in codes or not codes[f].holds_numbers], np.int64)
        self._closed = {f: np.array([*codes[f].values()]) for f, word in unseen.items() if word == "refused"}
        self._hashed = [f for f, word in unseen.items() if word == "hashed"]
        self._coded: dict[int, Codes] = {}  # columns of a data frame that hold categories
        if names is not None:
            kinds = [str(kind).lower() for kind in types_of(X)]
            coded = [f for f in codes if not NUMBERS.fullmatch(kinds[f]) or (f in self._hashed and "int" in kinds[f])]
            self._coded = {f: codes[f] for f in coded}
            self._others = [f for f in range(n_features) if f not in self._coded]
            for f in self._whole:
                if f not in codes and not NUMBERS.fullmatch(kinds[f]) and kinds[f] != "object":
                    raise RowError(
                        f"Expected codes of categories in the column {shown(names[f])}, got {kinds[f][:40]}: the model"
                        " does not hold their values, as after slicing a booster of XGBoost. Give the whole model."
                    )
            head = X.iloc[:0] if hasattr(X, "iloc") else X[:0]
            self._long = _check_types(take_columns(head, self._others) if self._coded else head, all_long=takes_missing)

    def __len__(self) -> int:
        return int(self._X.shape[0])

    def blocks(self) -> Iterator[slice]:
        """Yield slices that cover all rows, each about a megabyte."""
        row_bytes = 8 * self.n_features
        size = max(1, BLOCK_BYTES // row_bytes)
        if self._is_frame:
            size = max(size, min(FRAME_BLOCK_ROWS, FRAME_BLOCK_BYTES // row_bytes))
        for start in range(0, len(self), size):
            yield slice(start, min(start + size, len(self)))

    def __getitem__(self, block: slice) -> NDArray[np.float64]:
        """Return the rows of a block, contiguous float64, all finite, or NaN where values may be missing."""
        try:
            rows = np.ascontiguousarray(self._read(block))
        except InexactError as error:
            raise _not_numbers(error, block.start) from None
        part = rows[:, self._whole]
        if part.size and (part > np.floor(part)).any():
            row, place = np.argwhere(part > np.floor(part))[0]
            raise RowError(
                f"Expected the code of a category, a whole number, got {part[row, place]} in row {block.start + row},"
                f" feature {self._called(self._whole[place])}."
            )
        for f, known in self._closed.items():
            self._check_known(rows[:, f], ~np.isin(rows[:, f], known), block.start, f)
        for f in self._hashed:
            is_other = (rows[:, f] < HASHES) | (rows[:, f] >= HASHES + 2**32)
            self._check_known(rows[:, f], is_other, block.start, f)
        if self._blanks is not None:
            rows = np.where((self._blanks[0] <= rows) & (rows <= self._blanks[1]), np.nan, rows)
        # A sum of finite numbers is finite unless it overflows; only then look at each.
        with np.errstate(over="ignore", invalid="ignore"):
            total = rows.sum()
        if not np.isfinite(total):
            is_wrong = np.isinf(rows) if self._takes_missing else ~np.isfinite(rows)
            is_wrong[:, self._required] |= np.isnan(rows[:, self._required])
            if is_wrong.any():
                row, column = np.argwhere(is_wrong)[0]
                value = rows[row, column]
                because = ": this model has no place for missing values there" if np.isnan(value) else ""
                raise RowError(
                    f"Expected finite numbers, got {value} in row {block.start + row}, feature"
                    f" {self._called(column)}{because}. Remove or impute such rows."
                )
        return rows

    def _called(self, f: int) -> str:
        """Return how messages call a column: by index, and by name if it has one."""
        return str(f) if self._names is None else f"{f} ({shown(self._names[f])})"

    @property
    def form(self) -> FrameForm | None:
        """What rows looked like that came in a data frame of pandas; after they are read."""
        if not self._is_frame or not hasattr(self._X, "iloc"):
            return None
        return FrameForm(self._X.iloc[:0], {f: codes.names for f, codes in self._coded.items()})

    def _read(self, block: slice) -> NDArray[np.float64]:
        # A slice of a pandas frame with an index of floats would go by labels.
        rows = self._X.iloc[block] if hasattr(self._X, "iloc") else self._X[block]
        if not self._is_frame:
            return exact_floats(rows)
        if not self._coded:
            return self._read_frame(rows)
        floats = np.empty((rows.shape[0], self.n_features))
        for f, code in self._coded.items():
            floats[:, f] = self._codes(list_column(rows, f), code, block.start, f)
        if self._others:
            floats[:, self._others] = self._read_frame(take_columns(rows, self._others))
        return floats

    def _codes(self, values: list, codes: Codes, start: int, f: int) -> list[float]:
        found = []
        for row, value in enumerate(values, start):
            try:
                found.append(np.nan if value is None else codes[value])
            except (KeyError, TypeError):
                raise _unseen(value, row, self._called(f)) from None
        return found

    def _check_known(self, values: NDArray[np.float64], is_other: NDArray[np.bool_], start: int, f: int) -> None:
        """Refuse numbers that stand for no category; what is missing is looked at elsewhere."""
        is_other &= ~np.isnan(values)
        if is_other.any():
            row = int(np.flatnonzero(is_other)[0])
            raise _unseen(values[row].item(), start + row, self._called(f))

    def _read_frame(self, rows: Any) -> NDArray[np.float64]:
        """Return a slice of a data frame whose columns are numbers."""
        if hasattr(rows, "to_numpy"):
            for columns in self._long:  # before they are put together with floats, or with NaN for what is missing
                part = take_columns(rows, columns)
                self._as_floats(part.fill_null(0) if self._takes_missing and hasattr(part, "fill_null") else part)
            return self._as_floats(rows)
        for column in (f for columns in self._long for f in columns if self._takes_missing):
            exact_floats(rows.columns[column].fill_null(0).to_numpy())
        return np.column_stack([exact_floats(column.to_numpy()) for column in rows.columns])  # pyarrow

    def _as_floats(self, frame: Any) -> NDArray[np.float64]:
        array = frame.to_numpy()
        if self._takes_missing and array.dtype == object and hasattr(frame, "isna"):  # pandas: None, NA, NaT
            array = np.where(frame.isna(), np.nan, array)
        return exact_floats(array)


def check_index(X: Any, y: Any) -> None:
    """Refuse labels of pandas whose index is not that of the rows: they may belong to others."""
    if hasattr(X, "iloc") and hasattr(y, "iloc") and len(X) == len(y) and not X.index.equals(y.index):
        pairs = [(ours, theirs) for ours, theirs in zip(X.index, y.index, strict=True) if ours != theirs]
        ours, theirs = (pairs or [(X.index.dtype, y.index.dtype)])[0]
        raise RowError(
            f"Expected labels with the index of the rows, got {shown(theirs)} where the rows have {shown(ours)}. Give"
            " y.loc[X.index]; or y.to_numpy(), if labels are in the order of the rows."
        )


def labels_of(y: Any, n_rows: int, classes: NDArray) -> NDArray:
    """Return true labels (numbers, text or booleans) as the classes of a model that they are equal to, (n_rows,)."""
    if np.ma.is_masked(y):
        raise RowError("Expected a label for every row, got a masked array with labels missing.")
    array = None if isinstance(y, (list, tuple)) else np.asarray(y)
    shape = (len(y),) if array is None else array.shape
    if shape != (n_rows,):
        raise RowError(f"Expected one label per row, {n_rows} in all, got shape {shape}.")
    if array is not None and array.dtype.kind in "mMVc":
        raise RowError(f"Expected labels that are numbers or text, got {array.dtype}.")
    place: NDArray[np.int64] | slice = slice(None)
    labels = y
    if array is not None and array.dtype.kind == "O":
        labels = array.tolist()
    elif array is not None:
        distinct, place = np.unique(array, return_inverse=True)
        labels = distinct.tolist()
    index = {label: i for i, label in enumerate(classes.tolist())}
    found = np.empty(len(labels), np.int64)
    for i, label in enumerate(labels):  # as Python's own numbers, which are compared exactly
        try:
            found[i] = index[label]
        except (KeyError, TypeError):
            row = i if isinstance(place, slice) else int(np.flatnonzero(place == i)[0])
            known = ", ".join(repr(label) for label in classes[:8].tolist())
            more = "" if len(classes) <= 8 else f", ... ({len(classes)} in all)"
            raise RowError(
                f"Expected labels among {known}{more}, got {shown(label)} in row {row}."
                " Map the labels to those the model was trained on (--label OLD=NEW)."
            ) from None
    return classes[found[place]]


def values_of(y: Any, n_rows: int) -> NDArray[np.float64]:
    """Return the true values of rows, as a regressor learns them, (n_rows,)."""
    try:
        values = np.array(y, np.float64)
    except (TypeError, ValueError):
        raise RowError("Expected a number for every row as y, got something else.") from None
    if values.shape != (n_rows,) or np.ma.is_masked(y) or not np.isfinite(values).all():
        raise RowError(f"Expected a finite number for every row as y, {n_rows} in all, got shape {values.shape}.")
    return values


def _check_types(X: Any, *, all_long: bool) -> list[list[int]]:
    """Refuse columns that are no numbers. Return those of 64-bit whole numbers by type, if there are others as well."""
    types = types_of(X)
    spelled = {kind: str(kind).lower() for kind in set(types)}
    columns: dict[str, list[int]] = {kind: [] for kind in spelled.values()}
    for f, kind in enumerate(types):
        columns[spelled[kind]].append(f)
    for kind, places in columns.items():
        if not NUMBERS.fullmatch(kind) and kind != "object":
            name = names_of(X)[places[0]]
            raise RowError(f"Expected numbers, got the column {shown(name)} of type {kind[:40]}. {ADVICE}")
    is_mixed = all_long or len(columns) > 1
    return [places for kind, places in columns.items() if is_mixed and LONG_WHOLE_NUMBERS.fullmatch(kind)]


def _unseen(value: Any, row: int, column: str) -> RowError:
    return RowError(
        f"Expected one of the categories that the model has seen, got {shown(value)} in row {row}, column {column}."
        " Give values as the model was trained on, in a data frame, and leave rows with others out, or make them"
        " missing if the model takes that."
    )


def _not_numbers(error: InexactError, start: int) -> RowError:
    where = f" in row {start + error.place[0]}" if error.place else ""
    return RowError(f"Expected numbers, got {error}{where}. {ADVICE}")

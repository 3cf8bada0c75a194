"""Data frames of pandas, polars and pyarrow: columns by name, read as numbers, and numbers written as columns again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from certiforest.words import listed


def names_of(frame: Any) -> list:
    """Return what columns are called."""
    return list(getattr(frame, "column_names", frame.columns))


def types_of(frame: Any) -> list:
    """Return the type of each column."""
    return list(frame.dtypes if hasattr(frame, "dtypes") else frame.schema.types)


def take_columns(frame: Any, columns: list[int]) -> Any:
    """Return some columns."""
    if hasattr(frame, "iloc"):
        return frame.iloc[:, columns]
    return frame[:, columns] if hasattr(frame, "to_numpy") else frame.select(columns)


def list_column(frame: Any, f: int) -> list:
    """Return the values of a column, None where one is missing."""
    if hasattr(frame, "iloc"):
        column = frame.iloc[:, f]
        return column.astype(object).where(column.notna(), None).tolist()
    return frame[:, f].to_list() if hasattr(frame, "to_numpy") else frame.column(f).to_pylist()


def order_by_name(names: Sequence[Any], trained: Sequence[str]) -> list[int] | None:
    """Return where the columns that a model was trained with stand among others, None if these are in order.

    Libraries turn numbers into text and spaces into underscores, so that names may differ in that; those that this
    would make equal must be the same to the letter.

    Raises
    ------
    ValueError
        If one is missing, or there twice.
    """
    n_alike = Counter(map(_plain, trained))

    def key(name: Any) -> Any:
        return name if n_alike[_plain(name)] > 1 else _plain(name)

    keys, wanted = [key(name) for name in names], [key(name) for name in trained]
    if keys == wanted:
        return None
    count = Counter(keys)
    if count != Counter(wanted) or len(count) < len(keys):
        lacks = [name for name, k in zip(trained, wanted, strict=True) if not count[k]]
        others = [name for name, k in zip(names, keys, strict=True) if k not in wanted]
        twice = sorted({str(name) for name, k in zip(names, keys, strict=True) if count[k] > 1})
        what = [f"no {listed(lacks)}"] * bool(lacks) + [f"several called {listed(twice)}"] * bool(twice)
        what += [f"{listed(others)}, which the model does not know"] * bool(others)
        raise ValueError(
            f"Expected the columns that the model was trained on, {len(trained)} in all, got {' and '.join(what)}. Give"
            " these columns, in any order, without the label and without an index."
        )
    place = {name: i for i, name in enumerate(keys)}
    return [place[k] for k in wanted]


def _plain(name: Any) -> str:
    return str(name).replace(" ", "_")


def one_row(row: Any, names: Sequence[str] | None) -> Any:
    """Return a single row, a series or a mapping with names, as a data frame; what has no names as it is."""
    is_series = hasattr(row, "to_frame") and hasattr(row, "iloc") and np.ndim(row) == 1
    if isinstance(row, Mapping):
        import pandas as pd

        return pd.DataFrame([dict(row)])
    if is_series and names is not None and list(row.index) != list(range(len(row))):
        return row.to_frame().T
    return row


class FrameForm(NamedTuple):
    """What rows looked like when they came in a data frame of pandas, their columns in the order of the model.

    Attributes
    ----------
    head : DataFrame
        Without rows.
    values : dict of int and dict
        What the numbers of a column stand for, by column, where they do not stand for themselves.
    """

    head: Any
    values: Mapping[int, Mapping[float, Any]]

    def frame(self, rows: NDArray[np.float64], index: Any) -> Any:
        """Return numbers as such a frame; a type that does not hold them is replaced by one that does."""
        import pandas as pd

        table = []
        for f, kind in enumerate(self.head.dtypes):
            known = self.values.get(f)
            if known is None:
                table.append(cast(pd.Series(rows[:, f], index), kind))
                continue
            named = pd.Series([known.get(code) for code in rows[:, f].tolist()], index, dtype=object)
            column = cast(named, kind)
            if column is named and isinstance(kind, pd.CategoricalDtype):  # in the order of the model, which codes mean
                column = cast(named, pd.CategoricalDtype(list(known.values()), kind.ordered))
            table.append(column)
        return pd.concat(table, axis=1).set_axis(self.head.columns, axis=1) if table else self.head


def cast(column: Any, kind: Any) -> Any:
    """Return a column of a data frame in another type, or as it is if that does not hold what is in it."""
    try:
        with np.errstate(invalid="ignore"):
            converted = column.astype(kind)
    except (ValueError, TypeError):  # where something is missing
        return column
    is_there = column.notna()
    if not converted.notna().equals(is_there):
        return column
    return converted if (converted[is_there].astype(column.dtype) == column[is_there]).all() else column

"""Rows as a model was fitted to them: a data frame where columns have names, text in the place of codes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray


def asker(
    categories: Mapping[int, Sequence[Any]], names: NDArray | None, missing: Mapping[int, Any] | None = None
) -> Callable[[NDArray[np.float64]], Any]:
    """Return what makes such rows.

    Parameters
    ----------
    categories : mapping of int to sequence
        By feature, the values of codes, as `TreeEnsemble` has them. Codes beyond stand for a text that is none of them.
    names : ndarray, shape (n_features,), or None
        Names of columns, if there are any.
    missing : mapping of int to object, optional
        What the model takes for missing text, by feature; NaN if nothing is said.
    """
    texts = {f: [*values] for f, values in categories.items() if len(values) and isinstance(values[0], str)}
    words = {
        f: np.array([*values, max(values) + "'", (missing or {}).get(f, np.nan)], object) for f, values in texts.items()
    }

    def ask(rows: NDArray[np.float64]) -> Any:
        if names is None and not words:
            return rows
        columns: list[Any] = [*rows.T]
        for f, word in words.items():
            place = np.where(np.isnan(rows[:, f]), len(word) - 1, np.minimum(rows[:, f], len(word) - 2))
            columns[f] = word[place.astype(np.int64)]
        if names is None:
            return np.column_stack([np.asarray(column, object) for column in columns])
        import pandas

        return pandas.DataFrame(dict(enumerate(columns))).set_axis(names, axis=1)

    return ask

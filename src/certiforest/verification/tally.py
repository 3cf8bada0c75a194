"""Tally: how many rows of each class came out how. Tallies of blocks add up to that of all rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from certiforest.verification.certificates import STABLE, UNDECIDED, UNSTABLE, Certificates, Verdict

WRONG, RIGHT = 0, 1


class Tally:
    """Counts of rows, for what is known of millions of them without keeping any.

    Parameters
    ----------
    table : array of int64, shape (n_classes, 3, 2)
        Rows by class (the true one, or the predicted one without labels), by ``stable`` (last: -1) and by whether the
        prediction is right. An array of dask will do: what is said of it is lazy then.
    has_labels : bool
        Whether true labels are known; without them all predictions are counted as wrong.
    """

    def __init__(self, table: Any, has_labels: bool) -> None:
        self.table, self.has_labels = table, has_labels

    @classmethod
    def of(cls, found: Certificates) -> Tally:
        """Count rows."""
        assert found.classes is not None
        has_labels = found.label is not None
        order = np.argsort(found.classes)
        label = found.prediction if found.label is None else found.label
        place = order[np.searchsorted(found.classes, label, sorter=order)]
        right = found.correct if has_labels else np.zeros(len(found), bool)
        shape = len(found.classes), 3, 2
        cell = np.ravel_multi_index((place, found.stable % 3, right.astype(np.int64)), shape)
        return cls(np.bincount(cell, minlength=int(np.prod(shape))).reshape(shape), has_labels)

    def __add__(self, other: Tally) -> Tally:
        """Count the rows of both."""
        return Tally(self.table + other.table, self.has_labels)

    def count(self, stable: int, right: int | None = None) -> Any:
        """Return how many rows came out so; those predicted right and wrong together if it is not said."""
        return self.table[:, stable].sum() if right is None else self.table[:, stable, right].sum()

    @property
    def n_rows(self) -> Any:
        """Number of rows."""
        return self.table.sum()

    @property
    def counts(self) -> dict[Verdict, Any]:
        """How many rows got each verdict; needs labels."""
        return {
            Verdict.ROBUST: self.count(STABLE, RIGHT),
            Verdict.FRAGILE: self.count(UNSTABLE, RIGHT),
            Verdict.VULNERABLE: self.count(STABLE, WRONG),
            Verdict.BROKEN: self.count(UNSTABLE, WRONG),
            Verdict.UNKNOWN: self.count(UNDECIDED),
        }

    @property
    def accuracy(self) -> Any:
        """Share of rows predicted right; needs labels."""
        return _share(self.table[:, :, RIGHT].sum(), self.n_rows)

    @property
    def robust_accuracy_bounds(self) -> tuple[Any, Any]:
        """Robust accuracy if no unknown row were robust, and if every one that can be were; needs labels."""
        robust, unknown = self.count(STABLE, RIGHT), self.count(UNDECIDED, RIGHT)
        return _share(robust, self.n_rows), _share(robust + unknown, self.n_rows)


def _share(part: Any, whole: Any) -> Any:
    """Divide as the mean of a mask does, which is exact for counts; NaN of no rows."""
    if not isinstance(whole, np.integer):
        return part / whole
    return float(part) / float(whole) if whole else float("nan")

"""How many rows came out how: every count and share, in Python, reports and tables, is read off `RowCounts`.

Those of blocks add up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from certiforest.verdicts import STABLE, UNKNOWN, UNSTABLE, Verdict
from certiforest.words import finite_or_none

WRONG, RIGHT = 0, 1


class RowCounts:
    """Counts of rows, for what is known of millions of them without keeping any.

    Parameters
    ----------
    table : array of int64, shape (n_classes, 3, 2)
        Rows by class (the true one, or the predicted one without labels), by ``stable`` (last: -1) and by whether the
        prediction is right. An array of dask will do: what is said of it is lazy then.
    classes : ndarray, shape (n_classes,)
    has_labels : bool
        Whether true labels are known; without them all predictions are counted as wrong.
    """

    def __init__(self, table: Any, classes: NDArray, has_labels: bool) -> None:
        self.table, self.classes, self.has_labels = table, classes, has_labels

    def __add__(self, other: RowCounts) -> RowCounts:
        """Count the rows of both."""
        return RowCounts(self.table + other.table, self.classes, self.has_labels)

    def count(self, stable: int, right: int | None = None) -> Any:
        """Return how many rows came out so; those predicted right and wrong together if it is not said."""
        count = self.table[:, stable].sum() if right is None else self.table[:, stable, right].sum()
        return int(count) if isinstance(count, np.integer) else count

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
            Verdict.UNKNOWN: self.count(UNKNOWN),
        }

    @property
    def accuracy(self) -> Any:
        """Share of rows predicted right; needs labels."""
        return _share(self.table[:, :, RIGHT].sum(), self.n_rows)

    @property
    def robust_accuracy_bounds(self) -> tuple[Any, Any]:
        """Robust accuracy if no unknown row were robust, and if every one that can be were.

        Without labels, the shares of rows that are stable, and that may be.
        """
        right = RIGHT if self.has_labels else None
        robust, unknown = self.count(STABLE, right), self.count(UNKNOWN, right)
        return _share(robust, self.n_rows), _share(robust + unknown, self.n_rows)

    @property
    def recall(self) -> dict[Any, Any]:
        """Share of each label's rows that are predicted right; needs labels."""
        return self._by_label(lambda mine: mine.accuracy)

    @property
    def robust_recall(self) -> dict[Any, Any]:
        """Share of each label's rows that are proved robust; needs labels."""
        return self._by_label(lambda mine: mine.robust_accuracy_bounds[0])

    def _by_label(self, share: Callable[[RowCounts], Any]) -> dict[Any, Any]:
        """Return a share of each label's rows, by label; labels without rows have none."""
        return {self.classes[[place]].tolist()[0]: share(mine) for place, mine in self._parts()}

    def _parts(self) -> Iterator[tuple[int, RowCounts]]:
        """Yield the place and the counts of each label that rows have, in the order of labels."""
        for place in np.argsort(self.classes).tolist() if len(self.classes) > 1 else ():
            mine = RowCounts(self.table[[place]], self.classes[[place]], has_labels=True)
            if mine.n_rows:
                yield place, mine

    @property
    def stability(self) -> dict[str, int]:
        """Rows that are stable, unstable and unknown, for JSON."""
        return {
            name: int(self.count(stable))
            for name, stable in (("stable", STABLE), ("unstable", UNSTABLE), ("unknown", UNKNOWN))
        }

    @property
    def verdicts(self) -> dict[str, Any]:
        """Verdicts, shares and both class by class, as reports have them; nulls without labels."""
        if not self.has_labels:
            return dict.fromkeys(("verdicts", "accuracy", "robust_accuracy_bounds", "by_class"))
        by_class = []
        for place, mine in self._parts():
            shares = {"accuracy": mine.accuracy, "robust_accuracy_bounds": list(mine.robust_accuracy_bounds)}
            by_class.append({"class": str(self.classes[place]), "n_rows": int(mine.n_rows), **shares})
        return {
            "verdicts": {verdict.name: int(count) for verdict, count in self.counts.items()},
            "accuracy": finite_or_none(self.accuracy),
            "robust_accuracy_bounds": [finite_or_none(share) for share in self.robust_accuracy_bounds],
            "by_class": by_class,
        }


class CountedRows:
    """What certificates say of all rows, whether they are in hand or to come (`dask_rows`)."""

    prediction: Any
    label: Any
    tolerance: float | None

    @property
    def row_counts(self) -> RowCounts:
        """How many rows of each class came out how."""
        raise NotImplementedError

    def _check_labels(self) -> None:
        if getattr(self, "label", None) is None:
            raise ValueError("Expected labels, got none: pass y to certify to compare predictions with it.")

    @property
    def correct(self) -> Any:
        """Whether each row is predicted right, by a regressor within its tolerance, shape (n,); needs labels."""
        self._check_labels()
        if self.tolerance is not None:
            return abs(self.prediction - self.label) <= self.tolerance
        return self.prediction == self.label

    @property
    def counts(self) -> dict[Verdict, Any]:
        """How many rows got each verdict; needs labels."""
        self._check_labels()
        return self.row_counts.counts

    @property
    def accuracy(self) -> Any:
        """Share of rows predicted right; needs labels."""
        self._check_labels()
        return self.row_counts.accuracy

    @property
    def robust_accuracy(self) -> Any:
        """Share of rows that are proved robust; needs labels."""
        return self.robust_accuracy_bounds[0]

    @property
    def robust_accuracy_bounds(self) -> tuple[Any, Any]:
        """Robust accuracy if no unknown row were robust, and if every one that can be were; needs labels."""
        self._check_labels()
        return self.row_counts.robust_accuracy_bounds


def _share(part: Any, whole: Any) -> Any:
    """Divide as the mean of a mask does, which is exact for counts; NaN of no rows."""
    if not isinstance(whole, np.integer):
        return part / whole
    return float(part) / float(whole) if whole else float("nan")

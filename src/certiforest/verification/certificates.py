"""Verdict: what is known about a row; Certificates: one column per fact about many rows."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray


class Verdict(IntEnum):
    """What is proved about a labelled row.

    A row is *stable* if no attack changes the prediction, and *robust* if it is stable and predicted right.
    """

    ROBUST = 0  #: predicted right, stable
    FRAGILE = 1  #: predicted right, an attack changes it
    VULNERABLE = 2  #: predicted wrong, stable
    BROKEN = 3  #: predicted wrong, an attack changes it
    UNKNOWN = 4  #: neither stability nor an attack could be proved


STABLE, UNSTABLE, UNDECIDED = 1, 0, -1


class Method(IntEnum):
    """Which road a row took."""

    COMPOSED = 0  #: no trees meet, or enough of them cannot be moved: decided tree by tree
    BOUNDED = 1  #: trees meet, and bounds or a composed change that works decide all the same
    PROVED = 2  #: trees meet, and tables found by message passing decide, or the attack they lead to
    SOLVED = 3  #: the same after cutting what is in reach into parts, or not decided in time
    NONE = 4  #: never looked at: time was up before


@dataclass(frozen=True)
class Certificates:
    """What `certify` proved, one entry per row.

    Attributes
    ----------
    prediction : ndarray, shape (n,)
        Predicted labels.
    stable : ndarray of int8, shape (n,)
        1 stable, 0 unstable, -1 unknown.
    method : ndarray of str, shape (n,)
        Which road each row took: composed, bounded or solved, see `Method`.
    label : ndarray, shape (n,), or None
        True labels, if given.
    radius : ndarray of float64, shape (n,), or None
        Smallest eps at which the row is unstable, a lower bound of it where ``radius_is_exact`` is False.
    radius_upper : ndarray of float64, shape (n,), or None
        An eps at which the row is known to be unstable, inf if there is none; equal to an exact radius.
    witness : ndarray of float64, shape (n, n_features), or None
        For each unstable row, a row within the attacker's reach that is predicted otherwise; NaN elsewhere.
    is_interrupted : bool
        Whether Ctrl-C came before every row had its turn.
    """

    prediction: NDArray
    stable: NDArray[np.int8]
    method: NDArray[np.str_]
    label: NDArray | None = None
    radius: NDArray[np.float64] | None = None
    radius_upper: NDArray[np.float64] | None = None
    witness: NDArray[np.float64] | None = None
    is_interrupted: bool = False

    def __len__(self) -> int:
        return len(self.prediction)

    def unless_interrupted(self) -> Certificates:
        """Return these certificates, or pass Ctrl-C on if it cut them short: for callers that need every row."""
        if self.is_interrupted:
            raise KeyboardInterrupt
        return self

    @property
    def radius_is_exact(self) -> NDArray[np.bool_] | None:
        """Whether each radius is exact, shape (n,), or None if there are no radii."""
        return None if self.radius is None else self.radius == self.radius_upper

    @property
    def correct(self) -> NDArray[np.bool_]:
        """Whether each row is predicted right, shape (n,); needs labels."""
        if self.label is None:
            raise ValueError("Expected labels, got none: pass y to certify to compare predictions with it.")
        return self.prediction == self.label

    @property
    def verdict(self) -> NDArray[np.object_]:
        """The `Verdict` of each row, shape (n,); needs labels."""
        members = np.array(list(Verdict), dtype=object)
        return members[self._verdict_codes]

    @property
    def _verdict_codes(self) -> NDArray[np.int64]:
        code = 2 * ~self.correct + (self.stable == UNSTABLE)
        return np.where(self.stable == UNDECIDED, Verdict.UNKNOWN.value, code)

    @property
    def counts(self) -> dict[Verdict, int]:
        """How many rows got each verdict; needs labels."""
        counts = np.bincount(self._verdict_codes, minlength=len(Verdict))
        return {verdict: int(counts[verdict]) for verdict in Verdict}

    @property
    def accuracy(self) -> float:
        """Share of rows predicted right; needs labels."""
        return _share(self.correct)

    @property
    def robust_accuracy(self) -> float:
        """Share of rows that are proved robust; needs labels."""
        return self.robust_accuracy_bounds[0]

    @property
    def robust_accuracy_bounds(self) -> tuple[float, float]:
        """Robust accuracy if no unknown row were robust, and if every one that can be were; needs labels."""
        correct = self.correct
        return _share(correct & (self.stable == STABLE)), _share(correct & (self.stable != UNSTABLE))


def _share(mask: NDArray[np.bool_]) -> float:
    return float(mask.mean()) if mask.size else float("nan")

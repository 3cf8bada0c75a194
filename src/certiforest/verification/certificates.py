"""Verdict: what is known about a row; Certificates: one column per fact about many rows."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, fields
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from certiforest.attack.attacker import Attacker
from certiforest.words import feature_name


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

    COMPOSED = 0  #: decided tree by tree: no trees meet, or the row withstands each tree at its worst
    BOUNDED = 1  #: trees meet, but the worst leaf in reach of each tree, taken together, is not enough for any rival
    PROVED = 2  #: trees meet, and tables found by message passing decide, or the attack they lead to
    SOLVED = 3  #: the same after cutting what is in reach into parts, or not decided in time
    NONE = 4  #: never looked at: Ctrl-C came before


@dataclass(frozen=True, eq=False)
class Certificates:
    """What `certify` proved, one entry per row.

    Attributes
    ----------
    prediction : ndarray, shape (n,)
        Predicted labels.
    stable : ndarray of int8, shape (n,)
        1 stable, 0 unstable, -1 unknown.
    method : ndarray of str, shape (n,)
        Which road each row took: composed, bounded, proved, solved or none, see `Method`.
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
    proof : ndarray of object, shape (n,), or None
        For each stable row, numbers that anyone can check (``docs/proofs.md``), None where none was found in time.
    radius_proof, radius_witness : ndarray of object, shape (n,), or None
        Likewise, that the row is stable just below its radius, and a row that breaks it at ``radius_upper``.
    rows : ndarray of float64, shape (n, n_features), or None
        The rows themselves, if proofs were asked for.
    attacker : Attacker or None
    margin : float
    model_sha256 : str or None
        What identifies the model, see `TreeEnsemble.sha256`.
    classes : ndarray or None
        Labels of the model, in its order.
    index : pandas.Index or None
        What the rows are called, if they came in a pandas frame.
    feature_names : tuple of str, or None
        What the model calls its features.
    """

    prediction: NDArray
    stable: NDArray[np.int8]
    method: NDArray[np.str_]
    label: NDArray | None = None
    radius: NDArray[np.float64] | None = None
    radius_upper: NDArray[np.float64] | None = None
    witness: NDArray[np.float64] | None = None
    is_interrupted: bool = False
    proof: NDArray[np.object_] | None = None
    radius_proof: NDArray[np.object_] | None = None
    radius_witness: NDArray[np.object_] | None = None
    rows: NDArray[np.float64] | None = None
    attacker: Attacker | None = None
    margin: float = 0.0
    model_sha256: str | None = None
    classes: NDArray | None = None
    index: Any = field(default=None, compare=False)
    feature_names: tuple[str, ...] | None = field(default=None, compare=False)

    def save(self, path: str | os.PathLike[str], *, replace: bool = True) -> None:
        """Write a certificate that anyone can check (``docs/certificate_format.md``); needs ``proof=True``.

        Without ``replace``, a file that is there is kept and `FileExistsError` raised.
        """
        from certiforest.verification.certificate_file import save

        save(self, path, replace=replace)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Certificates:
        """Read what `save` wrote. What it says is not checked here: `certiforest audit` does that."""
        from certiforest.verification.certificate_file import load

        return load(path)

    def __eq__(self, other: object) -> bool:
        """Two certificates are equal iff they say the same about the same rows."""
        if not isinstance(other, Certificates):
            return NotImplemented
        names = [field.name for field in fields(self) if field.compare]
        return all(_equal(getattr(self, name), getattr(other, name)) for name in names)

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
        if self.witness is not None:
            for feature, values in enumerate(self.witness.T):
                columns[f"witness_{feature_name(self.feature_names, feature)}"] = values
        return columns

    def to_frame(self) -> Any:
        """Return a pandas frame: prediction, stable, method, verdict (with labels), radius and witness (if asked for).

        Its index is that of the rows. ``radius`` comes with ``radius_is_exact`` and ``radius_upper``, a witness as one
        column per feature, NaN where there is none. A column's type does not depend on the rows.
        """
        import pandas

        return pandas.DataFrame(self.to_columns(), index=self.index)

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


def _equal(a: Any, b: Any) -> bool:
    if isinstance(a, Attacker) and isinstance(b, Attacker):
        return a.to_document() == b.to_document()
    if not (isinstance(a, np.ndarray) and isinstance(b, np.ndarray)):
        return type(a) is type(b) and bool(a == b)
    if a.dtype == object:
        return a.shape == b.shape and all(map(_equal, a, b))
    return np.array_equal(a, b, equal_nan=a.dtype.kind == "f")


def _share(mask: NDArray[np.bool_]) -> float:
    return float(mask.mean()) if mask.size else float("nan")

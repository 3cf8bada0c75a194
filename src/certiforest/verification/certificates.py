"""Certificates: one column per fact about many rows, and ways to look at them."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from certiforest.attack.attacker import Attacker
from certiforest.ensemble import TreeEnsemble
from certiforest.ensemble.numbers import are_equal
from certiforest.verdicts import STABLE, UNKNOWN, UNSTABLE, Method, Verdict
from certiforest.verification.tally import Tallied, Tally
from certiforest.words import counted, feature_name, finite_or_none

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["STABLE", "UNKNOWN", "UNSTABLE", "Certificates", "Method", "Verdict", "about_now"]

#: What certificates to be put together must have in common.
COMMON = ("attacker", "attacked", "margin", "model_sha256", "classes")


@dataclass(frozen=True, eq=False, repr=False)
class Certificates(Tallied):
    """What `certify` proved, one entry per row.

    Attributes
    ----------
    prediction : ndarray, shape (n,)
        Predicted labels.
    stable : ndarray of int8, shape (n,)
        1 stable, 0 unstable, -1 unknown.
    method : ndarray of str, shape (n,)
        Which road each row took: composed, bounded, proved, solved, spared or none, see `Method`.
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
        The rows themselves, if witnesses or proofs were asked for.
    attacker : Attacker or None
    attacked : ndarray or None
        Labels of the classes that are attacked, if not all are.
    margin : float
    model_sha256 : str or None
        What identifies the model, see `TreeEnsemble.sha256`.
    classes : ndarray or None
        Labels of the model, in its order.
    index : pandas.Index or None
        What the rows are called, if they came in a pandas frame.
    feature_names : tuple of str, or None
        What the model calls its features.
    ensemble : TreeEnsemble or None
        The model; None in certificates read from a file.
    about : dict or None
        How they were made: versions, date, time limits.

    Examples
    --------
    >>> from certiforest import Attacker, TreeEnsemble, certify
    >>> stump = TreeEnsemble([0, -1, -1], [0.5, 0, 0], [-1, 0, 1], n_features=1, classes=[0, 1])
    >>> c = certify(stump, [[0.2], [0.45], [0.9]], [0, 0, 0], Attacker("linf", 0.1), radius=True)
    >>> c
    Certificates of 3 rows
      attacker         norm=inf, eps=0.1
      accuracy         66.7%
      robust accuracy  33.3%
      verdicts         1 right, cannot be changed; 1 right, can be changed; 1 wrong, cannot be changed
      roads            3 composed
    >>> c[c.stable == 0].radius.round(3)
    array([0.05])
    >>> c.curve([0.0, 0.1, 1.0])["low"].round(3)
    array([0.667, 0.333, 0.   ])
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
    attacked: NDArray | None = None
    margin: float = 0.0
    model_sha256: str | None = None
    classes: NDArray | None = None
    index: Any = field(default=None, compare=False)
    feature_names: tuple[str, ...] | None = field(default=None, compare=False)
    ensemble: TreeEnsemble | None = field(default=None, compare=False)
    about: dict[str, Any] | None = field(default=None, compare=False)

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

    def __getitem__(self, which: Any) -> Certificates:
        """Return the certificates of one row, of a slice, of a mask or of a list of rows."""
        if isinstance(which, (int, np.integer)):
            if not -len(self) <= which < len(self):
                raise IndexError(f"Expected a row below {len(self)}, got {which}.")
            which = [int(which)]
        return replace(self, **{name: column[which] for name, column in self._columns.items()})

    @property
    def _columns(self) -> dict[str, Any]:
        """The fields that have one entry per row."""
        others = {*COMMON, "is_interrupted", "feature_names", "ensemble", "about"}
        names = (field.name for field in fields(self) if field.name not in others)
        return {name: column for name in names if (column := getattr(self, name)) is not None}

    @classmethod
    def concat(cls, parts: Iterable[Certificates]) -> Certificates:
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

    def __repr__(self) -> str:
        from certiforest.report.text import summary_of

        return "\n  ".join(
            [f"Certificates of {counted(len(self), 'row')}", *(f"{name:<16} {text}" for name, text in summary_of(self))]
        )

    def _repr_html_(self) -> str:
        from certiforest.report.cell import as_cell

        return as_cell(self)

    def curve(self, eps: ArrayLike | None = None) -> dict[str, NDArray[np.float64]]:
        """Return robust accuracy against eps, read off the radii; needs ``radius=True``.

        Parameters
        ----------
        eps : array-like, optional
            Budgets; from 0 to beyond most radii if not given.

        Returns
        -------
        dict
            ``eps``, and at each the certified accuracy ``low`` and, where radii are known only within bounds, what it
            may be at most, ``high``. Without labels, the share of stable rows.
        """
        from certiforest.report.findings import curve_of

        grid = None if eps is None else np.atleast_1d(np.asarray(eps, np.float64))
        return {name: np.array(values) for name, values in curve_of(self, grid).items()}

    @property
    def by_class(self) -> list[dict[str, Any]]:
        """Rows, accuracy and robust accuracy of each class, as plain data; needs labels."""
        self._check_labels()
        return self.tally.verdicts["by_class"]

    def findings(self, **names: Any) -> dict[str, Any]:
        """Return all that a report shows as plain data, ready for JSON; ``names`` as in `report`."""
        from certiforest.report import gather

        return gather(self, **names)

    def report(self, path: str | os.PathLike[str], *, replace: bool = True, **names: Any) -> None:
        """Write a report to look at, to print and to hand on.

        Curve and radii are in it if there are radii, fragile rows and attacked features if there are witnesses: ask for
        ``certify(..., radius=True, witness=True)``.

        Parameters
        ----------
        path : path
            Ends in ``.html``, ``.json`` or ``.txt``.
        replace : bool, default=True
            Without, a file that is there is kept and `FileExistsError` raised.
        **names
            ``model`` and ``data``: what to call them; ``feature_names``, ``row_numbers``, ``scaling`` and
            ``image_shape``: how to show rows.
        """
        from certiforest.report import write

        write(self.findings(**names), path, replace=replace)

    def plot_curve(self, ax: Axes | None = None) -> Axes:
        """Draw certified accuracy against eps with matplotlib; needs radii."""
        from certiforest.report import plots

        return plots.plot_curve(self.findings(), ax)

    def plot_radii(self, ax: Axes | None = None) -> Axes:
        """Draw how many rows have which radius; needs radii."""
        from certiforest.report import plots

        return plots.plot_radii(self.findings(), ax)

    def plot_features(self, ax: Axes | None = None) -> Axes:
        """Draw in how many witnesses each feature is changed; needs witnesses."""
        from certiforest.report import plots

        return plots.plot_features(self.findings(), ax)

    def plot_spread(self, ax: Axes | None = None) -> Axes:
        """Draw thresholds along the features that have most of them, a colour per tree."""
        from certiforest.report import plots

        return plots.plot_spread(self.findings(), ax)

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
    def tally(self) -> Tally:
        """How many rows of each class came out how."""
        return Tally.of(self)

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
        return self.tally.recall

    @property
    def robust_recall(self) -> dict[Any, float]:
        """By label, the share of its rows that are proved robust; needs labels."""
        self._check_labels()
        return self.tally.robust_recall


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
    from certiforest import __version__

    libraries = {name: version(name) for name in ("numpy", "numba")}
    return {"certiforest": __version__, **libraries, "python": platform.python_version()}

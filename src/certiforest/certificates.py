"""Certificates: what is known of each row, with its file, its report and its figures."""

from __future__ import annotations

import os
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from certiforest.report import gather, write
from certiforest.report.attackers import attacker_with_names
from certiforest.report.certified import certified_curves, curve_plot, feature_bars, radius_plot, spread_plot
from certiforest.report.evidence import certificate_facts, evidence_page
from certiforest.report.findings import count_methods, curve_of
from certiforest.report.html import as_svg
from certiforest.report.plots import COLOURS, draw
from certiforest.report.sections import Curve, Figure
from certiforest.rows import certificate_file
from certiforest.rows.certified_rows import CertifiedRows
from certiforest.words import counted, interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Notebooks have themes of their own: text and lines take their colour from it.
STYLE = (
    ".certiforest td{text-align:left;padding:.1em 1em .1em 0} .certiforest svg{max-width:36em;height:auto}"
    " .certiforest text{fill:currentColor;font-size:11px} .certiforest .axis{stroke:#8886}"
)


@dataclass(frozen=True, eq=False, repr=False)
class Certificates(CertifiedRows):
    """What `certify` proved, one entry per row.

    Attributes
    ----------
    prediction : ndarray, shape (n,)
        Predicted labels.
    stable : ndarray of int8, shape (n,)
        1 stable, 0 unstable, -1 unknown.
    method : ndarray of str, shape (n,)
        What decided each row: composed, bounded, proved, solved, spared or none, see `Method`.
    label : ndarray, shape (n,), or None
        True labels, if given.
    radius : ndarray of float64, shape (n,), or None
        Smallest eps at which the row is unstable, a lower bound of it where ``radius_is_exact`` is False.
    radius_upper : ndarray of float64, shape (n,), or None
        An eps at which the row is known to be unstable, inf if there is none; equal to an exact radius.
    witness : ndarray of float64, shape (n, n_features), or None
        For each unstable row, a row within the attacker's reach that is predicted otherwise; NaN elsewhere.
    low, high : ndarray of float64, shape (n,), or None
        Of regressors, and with ``outputs=True``: what the model is proved not to go below, and above, in reach.
    low_reached, high_reached : ndarray of float64, shape (n,), or None
        What it says of rows in reach, which are ``low_witness`` and ``high_witness`` (n, n_features) if witnesses were
        asked for.
    range_is_exact : ndarray of bool, shape (n,), or None
        Whether nothing but rounding lies between these and ``low`` and ``high``.
    tolerance : float or None
        Of regressors.
    broken_relations : ndarray of int64, shape (n,), or None
        How many relations of the attacker each row breaks itself: these do not bind it.
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
      method           3 composed
    >>> c[c.stable == 0].radius.round(3)
    array([0.05])
    >>> c.curve([0.0, 0.1, 1.0])["low"].round(3)
    array([0.667, 0.333, 0.   ])
    """

    def save(self, path: str | os.PathLike[str], *, replace: bool = True) -> None:
        """Write a certificate that anyone can check (``docs/certificate_format.md``); needs ``proof=True``.

        Without ``replace``, a file that is there is kept and `FileExistsError` raised.
        """
        certificate_file.save(self, path, replace=replace)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Certificates:
        """Read what `save` wrote. What it says is not checked here: `certiforest audit` does that."""
        return cls(**vars(certificate_file.load(path)))

    @property
    def _summary(self) -> list[tuple[str, str]]:
        """What they say in all: attacker, shares, verdicts and methods, each as a pair of texts."""
        attacker = "not known" if self.attacker is None else attacker_with_names(self.attacker, self.feature_names)
        facts = [("attacker", attacker)]
        if not len(self):
            return facts
        if self.label is None:
            facts.append(("stability", _with_counts(self.row_counts.stability)))
        else:
            facts.append(("accuracy", f"{self.accuracy:.1%}"))
            facts.append(("robust accuracy", interval(self.robust_accuracy_bounds, ".1%")))
            facts.append(("verdicts", _with_counts({verdict.words: n for verdict, n in self.counts.items()}, "; ")))
        if (broken := self.broken_relations) is not None and broken.any():
            n_rows, n_broken = counted(int((broken > 0).sum()), "row"), counted(int(broken.sum()), "relation")
            facts.append(("broken", f"{n_rows} with {n_broken} that do not bind them"))
        return [*facts, ("method", _with_counts(count_methods(self)))]

    def __repr__(self) -> str:
        lines = [f"{name:<16} {text}" for name, text in self._summary]
        return "\n  ".join([f"Certificates of {counted(len(self), 'row')}", *lines])

    def _repr_html_(self) -> str:
        rows = "".join(f"<tr><td>{escape(name)}</td><td>{escape(text)}</td></tr>" for name, text in self._summary)
        picture = ""
        if self.radius is not None and self.attacker is not None and len(self):
            level = None if self.label is None else self.accuracy
            curves = [Curve(curve_of(self), "ROBUST", "proved")]
            picture = as_svg(
                certified_curves(curves, [self.attacker.eps], has_labels=self.label is not None, level=level)
            )
        colours = ";".join(f"--{name}:{colour}" for name, colour in (COLOURS | {"soft": "currentColor"}).items())
        return (
            f'<div class="certiforest" style="{colours}"><style>{STYLE}</style>'
            f"<b>Certificates of {counted(len(self), 'row')}</b><table>{rows}</table>{picture}</div>"
        )

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
        grid = None if eps is None else np.atleast_1d(np.asarray(eps, np.float64))
        return {name: np.array(values) for name, values in curve_of(self, grid).items()}

    def to_dict(self) -> dict[str, float]:
        """Return numbers for those who track runs: counts of rows by outcome and, with labels, shares."""
        counts: dict[str, float] = {"rows": len(self), **self.row_counts.stability}
        if self.label is None:
            return counts
        low, high = self.robust_accuracy_bounds
        return {**counts, "accuracy": self.accuracy, "robust_accuracy": low, "robust_accuracy_upper": high}

    def findings(self, **names: Any) -> dict[str, Any]:
        """Return all that a report shows as plain data, ready for JSON; ``names`` as in `report`."""
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
        write(self.findings(**names), path, replace=replace)

    def evidence(
        self,
        path: str | os.PathLike[str],
        *,
        certificate: str | os.PathLike[str] | None = None,
        replace: bool = True,
        **names: Any,
    ) -> None:
        """Write an evidence sheet: what was proved, from what, its limits, and how it can be checked again.

        Parameters
        ----------
        path : path
            Ends in ``.html`` or ``.txt``.
        certificate : path, optional
            What `save` wrote, if others are to check it.
        replace, **names
            As in `report`.
        """
        proofs = None if certificate is None else certificate_facts(Path(certificate))
        write({**self.findings(**names), "certificate": proofs}, path, paging=evidence_page, replace=replace)

    def plot_curve(self, ax: Axes | None = None) -> Axes:
        """Draw certified accuracy against eps with matplotlib; needs radii."""
        return _drawn(curve_plot(self.findings()), "radius", ax)

    def plot_radii(self, ax: Axes | None = None) -> Axes:
        """Draw how many rows have which radius; needs radii."""
        return _drawn(radius_plot(self.findings()), "radius", ax)

    def plot_features(self, ax: Axes | None = None) -> Axes:
        """Draw in how many witnesses each feature is changed; needs witnesses."""
        return _drawn(feature_bars(self.findings()), "witness", ax)

    def plot_spread(self, ax: Axes | None = None) -> Axes:
        """Draw thresholds along the features that have most of them, a colour per tree."""
        return draw(spread_plot(self.findings()), ax)


def _drawn(figure: Figure | None, option: str, ax: Axes | None) -> Axes:
    if figure is None:
        raise ValueError(f"Expected certificates made for this figure, got others: call certify(..., {option}=True).")
    return draw(figure, ax)


def _with_counts(counts: dict[str, int], between: str = ", ") -> str:
    return between.join(f"{n:,} {what}" for what, n in counts.items() if n) or "none"

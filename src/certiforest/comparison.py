"""Comparison: two models, or two attackers, on the same rows."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from certiforest.certificates import Certificates
from certiforest.certification import certify
from certiforest.report.attackers import attack_in_words, attacker_facts, budget_of, describe_attacker, units_in_words
from certiforest.report.certified import certified_curves, origin_facts
from certiforest.report.findings import curve_of, digest, feature_names_of
from certiforest.report.sections import Curve, Facts, Page, Plot, Section, Table, Tiles, Words
from certiforest.report.shown import Shown
from certiforest.verdicts import STABLE, UNSTABLE
from certiforest.words import interval, named

COLOURS = ("accent", "BROKEN")
N_ROWS_SHOWN = 20


@dataclass(frozen=True, repr=False)
class Comparison(Shown):
    """What two certificates of the same rows have in common, and where they differ.

    A row is *proved* if it is predicted right and stable; without labels, if it is stable.

    Attributes
    ----------
    first, second : Certificates
    names : pair of str
        What they are called.
    won, lost : ndarray of int64
        Rows that are proved in the second only, and in the first only.
    row_numbers : ndarray of int64, shape (n,), or None
        What the rows are called.
    budgets : ndarray of float64, or None
        Where the curves are drawn; from 0 to beyond most radii if None.
    """

    first: Certificates
    second: Certificates
    names: tuple[str, str]
    won: NDArray[np.int64]
    lost: NDArray[np.int64]
    row_numbers: NDArray[np.int64] | None = None
    budgets: NDArray[np.float64] | None = None

    @property
    def p_value(self) -> float:
        """Exact McNemar test, two-sided: how likely as many rows or more change sides if neither is better."""
        return mcnemar(len(self.won), len(self.lost))

    @property
    def facts(self) -> dict[str, Any]:
        """The comparison as plain data, ready for JSON."""
        pairs = zip(self.names, (self.first, self.second), strict=True)
        sides = [_side(name, found, self.budgets) for name, found in pairs]
        proved = [_proved(found) for found in (self.first, self.second)]
        numbers = np.arange(len(self.first)) if self.row_numbers is None else self.row_numbers
        return {
            "n_rows": len(self.first),
            "labelled": self.first.label is not None,
            "sides": sides,
            "both": int((proved[0] & proved[1]).sum()),
            "neither": int((~proved[0] & ~proved[1]).sum()),
            "won": np.sort(numbers[self.won]).tolist(),
            "lost": np.sort(numbers[self.lost]).tolist(),
            "p_value": self.p_value,
        }

    @property
    def page(self) -> Page:
        """The comparison as sections; with radii, both certified curves are in one picture."""
        return _page(self.facts)


def compare(
    first: Certificates,
    second: Certificates,
    names: tuple[str, str] = ("first", "second"),
    row_numbers: NDArray[np.int64] | None = None,
    budgets: NDArray[np.float64] | None = None,
) -> Comparison:
    """Compare what was certified for the same rows: two models, or one model against two attackers.

    Parameters
    ----------
    first, second : Certificates
        Of the same rows, in the same order. If both have radii (``radius=True``), there are curves, too.
    names : pair of str
        What to call them.
    row_numbers : ndarray of int64, shape (n,), optional
        What to call the rows; 0, 1, ... if not given.
    budgets : ndarray of float64, optional
        Where to draw the curves; from 0 to beyond most radii if not given.

    Examples
    --------
    >>> from certiforest import Attacker, TreeEnsemble, certify, compare
    >>> stump = TreeEnsemble([0, -1, -1], [0.5, 0, 0], [-1, 0, 1], n_features=1, classes=[0, 1])
    >>> X, y = [[0.2], [0.45], [0.9]], [0, 0, 1]
    >>> weak, strong = (certify(stump, X, y, Attacker("linf", eps)) for eps in (0.1, 0.5))
    >>> comparison = compare(weak, strong, names=("eps 0.1", "eps 0.5"))
    >>> comparison.won.tolist(), comparison.lost.tolist(), comparison.p_value
    ([], [0, 2], 0.5)
    """
    for one in (first, second):
        if not isinstance(one, Certificates):
            raise TypeError(f"Expected certificates, as certify returns them, got a {type(one).__name__}.")
    if len(first) != len(second):
        raise ValueError(f"Expected certificates of the same rows, got {len(first)} and {len(second)} rows.")
    if (first.label is None) != (second.label is None) or not np.array_equal(
        np.asarray(first.label), np.asarray(second.label)
    ):
        raise ValueError("Expected certificates of the same rows, got rows with other labels.")
    a, b = _proved(first), _proved(second)
    return Comparison(first, second, names, np.flatnonzero(~a & b), np.flatnonzero(a & ~b), row_numbers, budgets)


def bracket_radii(
    found: Certificates, X: NDArray[np.float64], budgets: NDArray[np.float64], progress: Callable[[int], None]
) -> Certificates:
    """Return what was found, and between which budgets each radius lies: enough for a curve, far quicker than radii.

    What holds at a budget holds at all smaller ones, and what breaks a row breaks it at all larger ones. So budgets are
    tried from the attacker's own outwards, on rows that are still open; each gets one attempt at a proof.
    """
    assert found.attacker is not None
    eps = found.attacker.eps
    low, high = np.where(found.stable == STABLE, eps, 0.0), np.where(found.stable == UNSTABLE, eps, math.inf)
    for budget in sorted(budgets.tolist(), key=lambda budget: abs(budget - eps)):
        rows = np.flatnonzero((low < budget) & (budget < high))
        stable = certify(
            found.ensemble,
            X[rows],
            None if found.label is None else found.label[rows],
            found.attacker.with_eps(math.floor(budget) if found.attacker.norm == 0 else budget),
            attacked=found.attacked,
            time_limit=0,
        ).unless_interrupted().stable  # fmt: skip
        low[rows[stable == STABLE]], high[rows[stable == UNSTABLE]] = budget, budget
        progress(1)
    return replace(found, radius=np.nextafter(low, math.inf), radius_upper=high)


def mcnemar(n_won: int, n_lost: int) -> float:
    """Return the exact two-sided p-value of so many rows won and lost, were each as likely as the other."""
    n = n_won + n_lost
    tail = sum(math.comb(n, k) for k in range(min(n_won, n_lost) + 1))
    return float(min(Fraction(1), Fraction(2 * tail, 2**n)))


def _proved(found: Certificates) -> NDArray[np.bool_]:
    stable = found.stable == STABLE
    return stable if found.label is None else stable & found.correct


def _side(name: str, found: Certificates, budgets: NDArray[np.float64] | None) -> dict[str, Any]:
    ensemble = found.ensemble
    names = None if ensemble is None else feature_names_of(ensemble.feature_names, ensemble.n_features, None)
    return {
        "name": name,
        "attacker": None if found.attacker is None else describe_attacker(found.attacker, names),
        "accuracy": None if found.label is None else found.accuracy,
        "proved": list(found.row_counts.robust_accuracy_bounds),
        "n_undecided": found.row_counts.stability["unknown"],
        "curve": None if found.radius is None else curve_of(found, budgets),
        "by_class": None if found.label is None else found.by_class,
        "scaled": ensemble is not None and ensemble.scaling is not None,
        "model": {"sha256": None if ensemble is None else ensemble.sha256},
        "data": {"rows_sha256": digest(found.rows)},
        "origin": dict(found.about or {}),
    }


def _page(comparison: dict[str, Any]) -> Page:
    """Return a comparison as a page."""
    first, second = sides = comparison["sides"]
    what = "proved robust" if comparison["labelled"] else "proved stable"
    settings = [_setting(side) for side in sides]
    common = [fact for fact in settings[0] if fact in settings[1]]
    outcomes = [
        ("both", comparison["both"], "ROBUST", []),
        (f"{first['name']} only", len(comparison["lost"]), COLOURS[0], comparison["lost"]),
        (f"{second['name']} only", len(comparison["won"]), COLOURS[1], comparison["won"]),
        ("neither", comparison["neither"], "UNKNOWN", []),
    ]
    rows = [(name, named([str(i) for i in which], N_ROWS_SHOWN), f"{n:,}") for name, n, _, which in outcomes]
    table = Table(
        (f"{what.capitalize()} by", "Which rows", "Rows"), rows, 2, [(n, colour) for _, n, colour, _ in outcomes]
    )
    return Page(
        f"{first['name']} and {second['name']} compared",
        [
            Words(_verdict(comparison, what)),
            Tiles(
                [("Rows", f"{comparison['n_rows']:,}", "")]
                + [(side["name"], interval(side["proved"], ".2%"), what + _accuracy(side)) for side in sides]
            ),
            Section("Rows won and lost", [table]),
            Section("Class by class", [_classes(first, second)]),
            Section("Certified curves", [_curves(comparison)]),
            Section("Setting of both", [Facts(common)], in_detail=True),
            *(
                Section(side["name"], [Facts([fact for fact in setting if fact not in common])], in_detail=True)
                for side, setting in zip(sides, settings, strict=True)
            ),
        ],
    )


def _verdict(comparison: dict[str, Any], what: str) -> str:
    """Say whether the difference may be chance."""
    n_won, n_lost = len(comparison["won"]), len(comparison["lost"])
    if n_won == n_lost:
        return f"As many rows are {what} for one as for the other."
    better = comparison["sides"][n_won > n_lost]["name"]
    p = comparison["p_value"]
    chance = f"p = {p:.2g}" if p >= 1e-4 else "p < 0.0001"
    return (
        f"More rows are {what} for {better}; were rows as likely won as lost, a difference as large would come about"
        f" with {chance} (exact McNemar test)."
    )


def _accuracy(side: dict[str, Any]) -> str:
    return "" if side["accuracy"] is None else f", accuracy {side['accuracy']:.2%}"


def _classes(first: dict[str, Any], second: dict[str, Any]) -> Table:
    rows = [
        (a["class"], f"{a['n_rows']:,}", *(interval(side["robust_accuracy_bounds"], ".1%") for side in (a, b)))
        for a, b in zip(first["by_class"] or (), second["by_class"] or (), strict=True)
    ]
    return Table(("Class", "Rows", first["name"], second["name"]), rows)


def _curves(comparison: dict[str, Any]) -> Plot | None:
    sides = comparison["sides"]
    if any(side["curve"] is None for side in sides):
        return None
    curves = [Curve(side["curve"], colour, side["name"]) for side, colour in zip(sides, COLOURS, strict=True)]
    eps = [budget_of(side["attacker"]) for side in sides]
    return certified_curves(curves, eps, has_labels=comparison["labelled"])


def _setting(side: dict[str, Any]) -> list[tuple[str, str]]:
    attacker = side["attacker"]
    if attacker is None:
        return origin_facts(side)
    words = f"{attack_in_words(attacker)}.{units_in_words(attacker, side['scaled'])}"
    return [("The attacker may change", words), *attacker_facts(attacker), *origin_facts(side)]

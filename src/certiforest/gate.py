"""Gate: a model that is not robust enough does not pass."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from certiforest.attack.attacker import Attacker
from certiforest.certificates import Certificates
from certiforest.certification import certify
from certiforest.report.witnesses import fragile_line
from certiforest.verdicts import STABLE, UNKNOWN, UNSTABLE
from certiforest.words import counted, listed, shown

N_ROWS_SHOWN, SECONDS_TO_EXPLAIN = 5, 10.0


def assert_robust(
    model: Any,
    X: Any,
    y: Any,
    attacker: Attacker,
    at_least: float | Mapping[Any, float] = 0.9,
    **options: Any,
) -> Certificates:
    """Raise `AssertionError` unless enough rows are proved robust: for your own tests, and before deployment.

    Parameters
    ----------
    model, X, y, attacker
        As in `certify`; labels are needed.
    at_least : float, or dict of label and float, default=0.9
        Share of rows, or of the rows of each class named, that must be predicted right and be proved stable. Rows that
        are not decided count as not robust.
    **options
        Further parameters of `certify`, such as ``time_limit``.

    Returns
    -------
    Certificates
        What was found, if it is enough.

    Examples
    --------
    >>> from certiforest import Attacker, TreeEnsemble, assert_robust
    >>> stump = TreeEnsemble([0, -1, -1], [0.5, 0, 0], [-1, 0, 1], n_features=1, classes=["ham", "spam"])
    >>> len(assert_robust(stump, [[0.2], [0.9]], ["ham", "spam"], Attacker("linf", 0.1), at_least=1))
    2
    >>> assert_robust(stump, [[0.2], [0.45]], ["ham", "ham"], Attacker("linf", 0.1), at_least=0.9)
    Traceback (most recent call last):
    AssertionError: Expected robust accuracy of at least 0.9 against Attacker(norm=inf, eps=0.1), got 0.5 (1 of 2 rows).
    1 row is predicted right and can be changed; most easily:
      row 1: ham becomes spam from eps 0.05 on, for instance by feature_0 0.45 -> 0.5
    """
    __tracebackhide__ = True  # so that pytest starts with the finding
    if y is None:
        raise ValueError("Expected labels to compare predictions with, got none: pass y.")
    found = certify(model, X, y, attacker, **options).unless_interrupted()
    wanted = dict(at_least) if isinstance(at_least, Mapping) else {None: at_least}
    if not wanted:
        raise ValueError("Expected at_least to name a class, got none, which every model would pass.")
    for label, share in wanted.items():
        mine = np.ones(len(found), bool) if label is None else found.label == label
        if not isinstance(share, (int, float)) or not 0 <= share <= 1:
            raise ValueError(f"Expected at_least between 0 and 1, got {shown(share)}.")
        if not mine.any():
            which = "" if label is None else f" of class {shown(label)}"
            others = f"some of {listed(sorted(set(np.asarray(found.label).tolist())))}" if len(found) else "none"
            raise ValueError(f"Expected rows{which}, got {others}.")
        robust = mine & found.correct & (found.stable == STABLE)
        if robust.sum() / mine.sum() < share:
            what = "robust accuracy" if label is None else f"robust accuracy of class {shown(label)}"
            got = f"got {robust.sum() / mine.sum():.4g} ({robust.sum():,} of {counted(int(mine.sum()), 'row')})"
            wanting = f"Expected {what} of at least {share:g} against {attacker!r}, {got}."
            raise AssertionError(f"{wanting}\n{_explain(model, X, found, mine)}")
    return found


def _explain(model: Any, X: Any, found: Certificates, mine: np.ndarray) -> str:
    """Say which rows fail, the most easily changed first, each with a change that does it."""
    wrong, open_ = int((mine & ~found.correct).sum()), int((mine & (found.stable == UNKNOWN)).sum())
    assert found.attacker is not None
    fragile = np.flatnonzero(mine & found.correct & (found.stable == UNSTABLE))
    lines = []
    if wrong:
        lines.append(f"{_are(wrong)} predicted wrong.")
    if open_:
        lines.append(f"{_are(open_)} not decided; a longer time_limit may help.")
    if fragile.size:
        rows = X.iloc[fragile] if hasattr(X, "iloc") else (X if hasattr(X, "dtype") else np.asarray(X))[fragile]
        has_radius = "norm" in found.attacker.to_document()  # rules have none
        asked: dict[str, Any] = {"radius": has_radius, "witness": True, "tolerance": found.tolerance}
        closer = certify(model, rows, None, found.attacker, **asked, total_time_limit=SECONDS_TO_EXPLAIN)
        lines.append(f"{_are(len(fragile))} predicted right and can be changed; most easily:")
        rows = closer.findings(row_numbers=fragile)["fragile_rows"][:N_ROWS_SHOWN]
        lines += [f"  {fragile_line(row)}" for row in rows]
    return "\n".join(lines)


def _are(number: int) -> str:
    return f"{counted(number, 'row')} {'is' if number == 1 else 'are'}"

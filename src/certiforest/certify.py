"""certify: the one front door to verdicts."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from certiforest.attacker import Attacker
from certiforest.ensemble import TreeEnsemble
from certiforest.formats import as_ensemble
from certiforest.rows import RowError, Rows
from certiforest.spread import has_large_spread, largest_certifiable_eps, spread
from certiforest.verdict import UNSTABLE, Certificates
from certiforest.verification.composition import Composition, VisitOrder
from certiforest.verification.radius import Radii
from certiforest.verification.summing import Summing


class SpreadError(ValueError):
    """An exact verdict for every row was required, and the spread of the ensemble is too small for that."""


def certify(
    model: Any,
    X: Any,
    y: Any = None,
    attacker: Attacker | None = None,
    *,
    radius: bool = False,
    witness: bool = False,
    require_exact: bool = False,
    margin: float = 0.0,
    time_limit: float | None = 10.0,
    n_jobs: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> Certificates:
    """Prove, row by row, whether an attacker can change the prediction.

    Parameters
    ----------
    model : TreeEnsemble, fitted model or path
        Anything that `as_ensemble` takes.
    X : array-like or data frame of shape (n, n_features)
        Rows to attack, finite numbers.
    y : array-like of shape (n,), optional
        True labels. Without them there are predictions and stability, but no verdicts.
    attacker : Attacker
        What the rows are attacked with.
    radius : bool, default=False
        Also find the smallest eps at which each row is unstable.
    witness : bool, default=False
        Also give, for each unstable row, a changed row that is predicted otherwise.
    require_exact : bool, default=False
        Raise unless the ensemble has large spread for the attacker, which rules out UNKNOWN but for the two below.
    margin : float, default=0.0
        For scores that add up: say stable, or unstable, only where what decides (the sum of a single output, or the
        difference of two classes' sums) is further than this from zero, else UNKNOWN. With
        ``ensemble.rounding_bound(np.float32)``, what is said holds for a deployment that adds up in float32, too.
    time_limit : float or None, default=10.0
        Seconds for one row, None for no limit. Only scores that add up, in norms other than L-inf, can take that long
        (the problem is NP-hard); the row is then UNKNOWN.
    n_jobs : int, optional
        Number of threads; None means 1 and -1 all cores.
    progress : callable, optional
        Called with the number of rows done since the last call.

    Returns
    -------
    Certificates
        One entry per row: prediction, stable, verdict, and what else was asked for.

    Raises
    ------
    SpreadError
        If ``require_exact`` and the spread is too small.

    Notes
    -----
    Verdicts are exact for the float64 numbers given: no tolerance, no sampling. A row is UNKNOWN only where two trees
    meet, that is, both have a split in reach on one feature; `has_large_spread` tells when that cannot happen. Where
    scores add up it also is if time runs out, or if a ``margin`` says so.

    Examples
    --------
    >>> from certiforest import Attacker, TreeEnsemble, certify
    >>> stump = TreeEnsemble([0, -1, -1], [0.5, 0, 0], [-1, 0, 1], n_features=1, classes=[0, 1])
    >>> c = certify(stump, [[0.2], [0.45]], [0, 0], Attacker("linf", 0.1), radius=True, witness=True)
    >>> [v.name for v in c.verdict]
    ['ROBUST', 'FRAGILE']
    >>> c.radius.round(3), c.witness.round(3)
    (array([0.3 , 0.05]), array([[nan], [0.5]]))
    """
    if not isinstance(attacker, Attacker):
        raise TypeError(f"Expected an Attacker, for example Attacker('linf', 0.1), got {attacker!r}.")
    ensemble = as_ensemble(model)
    rows = Rows(X, ensemble.n_features, ensemble.feature_names)
    label = None if y is None else _check_labels(y, len(rows), ensemble)
    if require_exact and not has_large_spread(ensemble, attacker):
        raise SpreadError(_explain_spread(ensemble, attacker))
    composition = _compose(ensemble, attacker, _check_margin(margin, ensemble, radius), _check_time_limit(time_limit))
    # A radius knows no margin, so with one it cannot settle rows.
    radii = Radii(composition) if radius or not (composition.has_large_spread or margin > 0) else None
    n = len(rows)
    prediction, stable = np.empty(n, np.int64), np.empty(n, np.int8)
    out_radius, out_is_exact = (np.empty(n), np.empty(n, bool)) if radius else (None, None)
    out_witness = np.full((n, ensemble.n_features), np.nan) if witness else None

    def work(order: VisitOrder, block: slice) -> None:
        x = rows[block]
        _check_domain(x, block, attacker)
        composition.decide(x, order, prediction[block], stable[block])
        if out_witness is not None:
            unstable = np.flatnonzero(stable[block] == UNSTABLE)
            composition.write_witnesses(x, unstable, out_witness[block])
        if radii is not None:
            radii.settle(x, stable[block], None if out_witness is None else out_witness[block])
            if out_radius is not None and out_is_exact is not None:
                radii.measure(x, out_radius[block], out_is_exact[block])
        if progress is not None:
            progress(len(x))

    _run(work, list(rows.blocks()), _check_n_jobs(n_jobs), lambda: VisitOrder(ensemble.n_trees))
    return Certificates(
        prediction=ensemble.classes[prediction],
        stable=stable,
        label=label,
        radius=out_radius,
        radius_is_exact=out_is_exact,
        witness=out_witness,
    )


def _run(
    work: Callable[[VisitOrder, slice], None],
    blocks: list[slice],
    n_jobs: int,
    new_order: Callable[[], VisitOrder],
) -> None:
    """Do the blocks, each thread with an order of visits of its own."""
    if n_jobs == 1 or len(blocks) <= 1:
        order = new_order()
        for block in blocks:
            work(order, block)
        return
    own = threading.local()

    def work_in_thread(block: slice) -> None:
        if not hasattr(own, "order"):
            own.order = new_order()
        work(own.order, block)

    with ThreadPoolExecutor(n_jobs) as pool:
        tasks = [pool.submit(work_in_thread, block) for block in blocks]
        try:
            for task in tasks:
                task.result()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _compose(ensemble: TreeEnsemble, attacker: Attacker, margin: float, time_limit: float | None) -> Composition:
    if ensemble.combine == "vote":
        return Composition(ensemble, attacker)
    return Summing(ensemble, attacker, margin=margin, time_limit=time_limit)


def _check_margin(margin: Any, ensemble: TreeEnsemble, radius: bool) -> float:
    if isinstance(margin, bool) or not isinstance(margin, (int, float, np.integer, np.floating)) or not margin >= 0:
        raise ValueError(f"Expected margin to be a number >= 0, got {margin!r}.")
    if margin > 0 and ensemble.combine == "vote":
        raise ValueError(f"Expected margin=0 for trees that vote, got {margin!r}: votes are counted without rounding.")
    if margin > 0 and radius:
        raise ValueError(f"Expected margin=0 where a radius is asked for, got {margin!r}; ask for them one by one.")
    return float(margin)


def _check_time_limit(time_limit: Any) -> float | None:
    if time_limit is None:
        return None
    is_number = isinstance(time_limit, (int, float, np.integer, np.floating)) and not isinstance(time_limit, bool)
    if not is_number or not time_limit > 0:
        raise ValueError(f"Expected time_limit to be None or a number of seconds > 0, got {time_limit!r}.")
    return float(time_limit)


def _check_labels(y: Any, n_rows: int, ensemble: TreeEnsemble) -> NDArray:
    label = np.asarray(y)
    if label.shape != (n_rows,):
        raise RowError(f"Expected one label per row, {n_rows} in all, got shape {label.shape}.")
    known = np.isin(label, ensemble.classes)
    if not known.all():
        raise RowError(
            f"Expected labels among {_listed(ensemble.classes)}, got {label[~known][0].item()!r}."
            " Map the labels to those the model was trained on."
        )
    return label


def _listed(classes: NDArray) -> str:
    shown = ", ".join(repr(label) for label in classes[:8].tolist())
    return shown if len(classes) <= 8 else f"{shown}, ... ({len(classes)} in all)"


def _check_domain(x: NDArray[np.float64], block: slice, attacker: Attacker) -> None:
    if attacker.domain is None:
        return
    low, high = attacker.bounds(x.shape[1])
    outside = (x < low) | (x > high)
    if outside.any():
        row, f = np.argwhere(outside)[0]
        raise RowError(
            f"Expected rows inside the attacker's domain, got {x[row, f]} in row {block.start + row}, feature {f},"
            f" where the domain is [{low[f]}, {high[f]}]. Widen the domain or clip the row."
        )


def _check_n_jobs(n_jobs: int | None) -> int:
    if n_jobs is None:
        return 1
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, (int, np.integer)) or n_jobs == 0:
        raise ValueError(f"Expected n_jobs to be None, -1 or a positive number of threads, got {n_jobs!r}.")
    cores = os.cpu_count() or 1
    return int(n_jobs) if n_jobs > 0 else max(1, cores + 1 + int(n_jobs))


def _explain_spread(ensemble: TreeEnsemble, attacker: Attacker) -> str:
    options = {name: getattr(attacker, name) for name in ("scale", "frozen", "domain")}
    has = spread(ensemble, attacker.norm, **options)
    largest = largest_certifiable_eps(ensemble, attacker)
    can = (
        f"It can be certified for eps up to {largest!r}." if largest >= 0 else "No eps can be certified for every row."
    )
    return (
        f"Expected a spread above 2 * eps = {2 * attacker.eps!r}, got an ensemble of spread {has!r}. {can}"
        " Without require_exact, rows that are undecided come out as UNKNOWN."
    )

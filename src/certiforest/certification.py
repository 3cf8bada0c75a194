"""certify: the one front door to verdicts."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from certiforest.attack.attacker import Attacker
from certiforest.attack.spread import has_large_spread, largest_certifiable_eps, spread
from certiforest.ensemble import TreeEnsemble
from certiforest.ensemble.numbers import is_number, is_whole, shown
from certiforest.ensemble.rows import RowError, labels_of
from certiforest.ensemble.tree_kernels import LARGEST
from certiforest.formats import as_ensemble
from certiforest.verification.certificates import STABLE, UNDECIDED, UNSTABLE, Certificates, Method
from certiforest.verification.clock import Clock
from certiforest.verification.prepared import Prepared
from certiforest.verification.radius import bound_radii, measure
from certiforest.verification.roads import Roads
from certiforest.verification.sums import Sums
from certiforest.verification.votes import VisitOrder, Votes
from certiforest.verification.votes_kernels import BORDERLINE

# A vote that rounding alone leaves open, and a witness of a row known to be unstable, get at least so many seconds.
EASY_SECONDS = 1.0

MOST_THREADS = 10_000


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
    proof: bool = False,
    require_exact: bool = False,
    margin: float = 0.0,
    time_limit: float = 1.0,
    total_time_limit: float = math.inf,
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
    proof : bool, default=False
        Also keep, for each stable row, a proof that anyone can check, and what else `Certificates.save` needs. A row
        that is stable but not proved in time stays stable and has no proof.
    require_exact : bool, default=False
        Raise unless the ensemble has large spread for the attacker, which rules out trees that meet.
    margin : float, default=0.0
        For scores that add up: say stable, or unstable, only where what decides (the sum of a single output, or the
        difference of two classes' sums) is further than this from zero, else UNKNOWN. With
        ``ensemble.rounding_bound(np.float32)``, what is said holds for a deployment that adds up in float32, too.
    time_limit : float, default=1.0
        Seconds for one question about a row, its verdict or its radius, where that is NP-hard: trees meet at the row,
        or scores add up in a norm other than L-inf. A row that takes longer is UNKNOWN; a radius that does is known
        within bounds. With 0, a row gets one attempt at a proof for each rival. A vote that rounding alone leaves open,
        and the witness of an unstable row, get at least a second.
    total_time_limit : float, default=inf
        Seconds for all questions together; after them each row is treated as with ``time_limit=0``. Verdicts of all
        rows come first, radii after.
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
    Verdicts are exact for the float64 numbers given: no tolerance, no sampling. Where two trees meet, that is, both
    have a split in reach on one feature, the question is NP-hard: message passing proves nearly every such row or
    leads to an attack, cutting what is in reach into parts decides the others, and what is not decided in time is
    UNKNOWN. `has_large_spread` tells when that cannot happen.

    Ctrl-C (KeyboardInterrupt) ends the work early: rows that are not decided yet are UNKNOWN, and
    ``is_interrupted`` is set.

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
    rows = ensemble.rows(X)
    label = None if y is None else labels_of(y, len(rows), ensemble.classes)
    if require_exact and not has_large_spread(ensemble, attacker):
        raise SpreadError(_explain_spread(ensemble, attacker))
    time_limit, margin = _check_time_limit(time_limit), _check_margin(margin, ensemble, radius)
    prepared = Prepared(ensemble, attacker)
    rule = Votes(prepared) if ensemble.combine == "vote" else Sums(prepared, margin)
    roads = Roads(prepared, margin)
    out = _Columns(len(rows), ensemble.n_features, witness=witness or proof, proof=proof)
    stop = threading.Event()
    clock = Clock(time_limit, _check_time_limit(total_time_limit), stop.is_set)

    def find_verdicts(order: VisitOrder, block: slice) -> None:
        x, found = rows[block], out[block]
        _check_domain(x, block, attacker)
        rule.screen(x, order, clock, found.prediction, found.stable)
        is_easy = (found.stable == BORDERLINE) | (found.stable == UNSTABLE)
        found.stable[found.stable == BORDERLINE] = UNDECIDED
        found.method[:] = np.where(found.stable == UNDECIDED, Method.NONE, Method.COMPOSED)
        is_open = found.stable == UNDECIDED
        if proof:
            is_open |= found.stable == STABLE
        if found.witness is not None:
            is_open |= found.stable == UNSTABLE
        found.is_decided[~is_open] = True
        report(int(found.is_decided.sum()), is_last=not radius)
        for i in np.flatnonzero(is_open):
            if stop.is_set():
                return
            seconds = EASY_SECONDS if is_easy[i] else 0.0
            if found.stable[i] != STABLE:
                finding = roads.decide(x[i], clock.start(at_least=seconds))
                if found.stable[i] == UNDECIDED:
                    found.stable[i], found.method[i] = finding.stable, finding.method
                elif finding.stable == STABLE:
                    raise AssertionError("Two roads lead to two verdicts: please report this as a defect.")
                if finding.attack is not None and found.witness is not None:
                    found.witness[i] = finding.attack
            if found.proof is not None and found.stable[i] == STABLE:
                found.proof[i] = roads.decide(x[i], clock.start(), keep_proof=True).proof
            found.is_decided[i] = True
            report(1, is_last=not radius)

    def find_radii(order: VisitOrder, block: slice) -> None:
        x, found = rows[block], out[block]
        if stop.is_set():
            return
        bound_radii(rule, prepared, x, found.radius, found.radius_upper)
        is_open = (found.radius != found.radius_upper) | proof
        report(int((~is_open).sum()), is_last=True)
        for i in np.flatnonzero(is_open):
            if stop.is_set():
                return
            known = _sharpen(found.radius[i], found.radius_upper[i], found.stable[i], attacker, ensemble.n_features)
            measured = measure(roads, x[i], known, clock.start(), keep_proof=proof)
            found.radius[i], found.radius_upper[i] = measured.lower, measured.upper
            if found.radius_proof is not None and found.radius_witness is not None:
                found.radius_proof[i], found.radius_witness[i] = measured.proof, measured.attack
            report(1, is_last=True)

    def report(n_done: int, *, is_last: bool) -> None:
        if progress is not None and n_done and is_last:
            progress(n_done)

    blocks, n_jobs = list(rows.blocks()), _check_n_jobs(n_jobs)
    is_interrupted = False
    for work in (find_verdicts, find_radii) if radius else (find_verdicts,):
        is_interrupted = is_interrupted or _run(work, stop, blocks, n_jobs, lambda: VisitOrder(ensemble.n_trees))
    if is_interrupted:
        out.forget(~out.is_decided)
        for block in blocks:
            out[block].prediction[:] = ensemble.class_index(rows[block])
    return Certificates(
        prediction=ensemble.classes[out.prediction],
        stable=out.stable,
        method=np.array([method.name.lower() for method in Method])[out.method],
        label=label,
        radius=out.radius if radius else None,
        radius_upper=out.radius_upper if radius else None,
        witness=out.witness,
        is_interrupted=is_interrupted,
        proof=out.proof,
        radius_proof=out.radius_proof if radius else None,
        radius_witness=out.radius_witness if radius else None,
        rows=np.concatenate([rows[block] for block in blocks]) if proof and blocks else None,
        attacker=attacker,
        margin=margin,
        model_sha256=ensemble.sha256 if proof else None,
        classes=ensemble.classes,
    )


def _sharpen(lower: float, upper: float, stable: int, attacker: Attacker, n_features: int) -> tuple[float, float]:
    """Return bounds of a radius that agree with a verdict."""
    eps = min(attacker.eps, float(n_features)) if attacker.norm == 0 else attacker.eps
    if stable == STABLE:
        return max(lower, math.floor(eps) + 1.0 if attacker.norm == 0 else math.nextafter(eps, math.inf)), upper
    return lower, min(upper, eps) if stable == UNSTABLE else upper


class _Columns:
    """What is found out about rows, column by column; a slice of it is a view."""

    def __init__(self, n_rows: int, n_features: int, *, witness: bool, proof: bool) -> None:
        self.prediction, self.stable = np.zeros(n_rows, np.int64), np.full(n_rows, UNDECIDED, np.int8)
        self.method, self.is_decided = np.full(n_rows, Method.NONE, np.int8), np.zeros(n_rows, bool)
        self.radius, self.radius_upper = np.zeros(n_rows), np.full(n_rows, math.inf)
        self.witness = np.full((n_rows, n_features), np.nan) if witness else None
        nothing = np.full(n_rows, None) if proof else None
        self.proof, self.radius_proof, self.radius_witness = nothing, copy(nothing), copy(nothing)

    def __getitem__(self, block: slice) -> _Columns:
        part = object.__new__(_Columns)
        for name, column in vars(self).items():
            setattr(part, name, None if column is None else column[block])
        return part

    def forget(self, which: NDArray[np.bool_]) -> None:
        """Make rows unknown."""
        self.stable[which], self.method[which] = UNDECIDED, Method.NONE
        self.radius[which], self.radius_upper[which] = 0.0, math.inf
        if self.witness is not None:
            self.witness[which] = np.nan


def _run(
    work: Callable[[VisitOrder, slice], None],
    stop: threading.Event,
    blocks: list[slice],
    n_jobs: int,
    new_order: Callable[[], VisitOrder],
) -> bool:
    """Do the blocks, each thread with an order of visits of its own; tell whether Ctrl-C came in between.

    With several threads, ``stop`` tells those that are at work to leave off.
    """
    if n_jobs == 1 or len(blocks) <= 1:
        order = new_order()
        try:
            for block in blocks:
                work(order, block)
        except KeyboardInterrupt:
            return True
        return False
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
        except BaseException as error:
            stop.set()
            pool.shutdown(cancel_futures=True)
            if isinstance(error, KeyboardInterrupt):
                return True
            raise
    return False


def _check_margin(margin: Any, ensemble: TreeEnsemble, radius: bool) -> float:
    if not is_number(margin) or not margin >= 0:
        raise ValueError(f"Expected margin to be a number >= 0, got {shown(margin)}.")
    if margin > 0 and ensemble.combine == "vote":
        raise ValueError(
            f"Expected margin=0 for trees that vote, got {shown(margin)}: votes are counted without rounding."
        )
    if margin > 0 and radius:
        raise ValueError(
            f"Expected margin=0 where a radius is asked for, got {shown(margin)}; ask for them one by one."
        )
    rounded = float(margin) if margin <= LARGEST else math.inf
    return rounded if rounded >= margin else math.nextafter(rounded, math.inf)


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


def _check_time_limit(seconds: Any) -> float:
    if not is_number(seconds) or not seconds >= 0:
        raise ValueError(f"Expected a time limit in seconds >= 0, got {shown(seconds)}.")
    return float(seconds) if seconds <= LARGEST else math.inf


def _check_n_jobs(n_jobs: int | None) -> int:
    if n_jobs is None:
        return 1
    if not is_whole(n_jobs) or n_jobs == 0 or abs(n_jobs) > MOST_THREADS:
        raise ValueError(f"Expected n_jobs to be None, -1 or a positive number of threads, got {shown(n_jobs)}.")
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

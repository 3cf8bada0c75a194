"""Certifier: one model against one attacker, prepared once: a pure function from rows to what is proved about them.

It is what `certify` calls, and what every engine for more rows than one machine holds needs: it pickles small, and
findings about a row depend on that row alone, so that they are the same however rows are cut into blocks.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from certiforest.attack.attacker import Attacker
from certiforest.attack.parameters import AttackerError, check_attacked
from certiforest.attack.relations import count_broken
from certiforest.certificates import Certificates
from certiforest.ensemble.blocks import blocks_of
from certiforest.ensemble.rows import Rows, check_index, labels_of, values_of
from certiforest.formats import as_ensemble
from certiforest.outputs import Outputs
from certiforest.problem.verifier import Verifier
from certiforest.proof.clock import Clock
from certiforest.rows.asking import check_margin, check_n_jobs, check_spread, check_time_limit
from certiforest.rows.certified_rows import ALL_ROWS, END_ROWS, RANGES, Results, about_now
from certiforest.rows.decider import TWO_VERDICTS, Decider, look_first
from certiforest.rows.radius import Known, bound_radii, find_radius
from certiforest.rows.screen import Screen, VisitOrder, prove_without_tables
from certiforest.rows.screen_kernels import BORDERLINE
from certiforest.verdicts import STABLE, UNKNOWN, UNSTABLE, Method

# A vote that rounding alone leaves open, and a witness of a row known to be unstable, get at least so many seconds.
EASY_SECONDS = 1.0
# A block of rows has no more rows than so many nodes of trees, visited once for each row.
MOST_VISITS = 2**25
# Threads get so many blocks each, if these have so many rows.
BLOCKS_A_THREAD, FEWEST_ROWS = 4, 256


class Certifier:
    """One model against one attacker, ready to be asked about any number of rows.

    It pickles: the trees and the attacker travel, what is made from them is made again where it arrives, once. Called
    with a block of rows, it returns a pandas frame of findings with the index of the block; findings about a row
    depend on that row alone, but for a row that is UNKNOWN because time was up.

    Parameters
    ----------
    model : TreeEnsemble, fitted model or path
        Anything that `as_ensemble` takes.
    attacker : Attacker
    radius, witness, proof, tolerance, outputs, attacked, require_exact, margin, time_limit, n_jobs
        As in `certify`.

    Examples
    --------
    >>> from certiforest import Attacker, Certifier, TreeEnsemble
    >>> stump = TreeEnsemble([0, -1, -1], [0.5, 0, 0], [-1, 0, 1], n_features=1, classes=[0, 1])
    >>> certifier = Certifier(stump, Attacker("linf", 0.1), radius=True)
    >>> certifier([[0.2], [0.45]], [0, 0])[["prediction", "stable", "verdict"]]
       prediction  stable  verdict
    0           0       1   ROBUST
    1           0       0  FRAGILE
    """

    def __init__(
        self,
        model: Any,
        attacker: Attacker,
        *,
        radius: bool = False,
        witness: bool = False,
        proof: bool = False,
        tolerance: float | None = None,
        outputs: bool = False,
        attacked: Iterable[Any] | None = None,
        require_exact: bool = False,
        margin: float = 0.0,
        time_limit: float = 1.0,
        n_jobs: int | None = None,
    ) -> None:
        if not isinstance(attacker, Attacker):
            raise TypeError(f"Expected an Attacker, for example Attacker('linf', 0.1), got {attacker!r}.")
        self.outputs = Outputs(model, attacker, tolerance) if outputs or tolerance is not None else None
        self.tolerance, self.is_regressor = tolerance, tolerance is not None
        self.ensemble = as_ensemble(model) if tolerance is None or self.outputs is None else self.outputs.ensemble
        self.attacker = attacker = attacker.resolve(
            self.ensemble.n_features, self.ensemble.feature_names, self.ensemble.categorical
        )
        self._ask(radius, witness, proof)
        self.classes = np.array([ALL_ROWS]) if self.is_regressor else self.ensemble.classes
        self.attacked = check_attacked(attacked, self.classes)
        if require_exact:
            check_spread(self.ensemble, attacker)
        self.time_limit, self.n_jobs = check_time_limit(time_limit), check_n_jobs(n_jobs)
        self.margin = check_margin(margin, self.ensemble, radius)

    def _ask(self, radius: bool, witness: bool, proof: bool) -> None:
        self.radius, self.witness, self.proof = radius, witness, proof
        if radius and not self.attacker.has_norm:
            raise AttackerError("Expected no radius with rules, got radius=True: ask about several budgets instead.")

    @cached_property
    def verifier(self) -> Verifier:
        """What the model and the attacker are made into when the first rows come; it does not travel."""
        return Verifier.again(self.ensemble, self.attacker, self.margin)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "verifier"}

    def asking(self, *, radius: bool = False, witness: bool = False, proof: bool = False) -> Certifier:
        """Return one that is asked for other things; what is prepared for one is prepared for both."""
        check_margin(self.margin, self.ensemble, radius)
        other = copy(self)
        other._ask(radius, witness, proof)
        return other

    def __call__(self, X: Any, y: Any = None) -> Any:
        """Return findings about a block of rows as a pandas frame; see `Certificates.to_frame`.

        Parameters
        ----------
        X : array-like or data frame of shape (n, n_features)
            An array, or a block of pandas, polars or Arrow.
        y : array-like of shape (n,), optional
        """
        return self.certify(X, y).unless_interrupted().to_frame()

    def stream(self, source: Any, target: str | None = None) -> Iterator[Any]:
        """Yield findings about more rows than memory holds, a frame for each block; see `__call__`.

        Parameters
        ----------
        source : object
            An array or memory map, a frame, a polars LazyFrame, an Arrow dataset, reader or Parquet file, or an
            iterable of blocks, each of them rows or a pair of rows and labels.
        target : str, optional
            The column of frames that holds the labels; all others are features.
        """
        return (self(X, y) for X, y in blocks_of(source, target, self.ensemble.n_features))

    def certify(
        self,
        X: Any,
        y: Any = None,
        *,
        total_time_limit: float = math.inf,
        progress: Callable[[int], None] | None = None,
    ) -> Certificates:
        """Return what is proved about rows; the parameters are those of `certiforest.certify`."""
        rows, label = self.ensemble.rows(X), None
        check_index(X, y)
        if y is not None:
            label = values_of(y, len(rows)) if self.is_regressor else labels_of(y, len(rows), self.classes)
        work = _Work(self, rows, label, total_time_limit, progress)
        steps = [work.find_verdicts] * (not self.is_regressor)
        steps += [work.find_outputs] * (self.outputs is not None) + [work.find_radii] * self.radius
        is_interrupted = any(work.run(step, is_last=step == steps[-1]) for step in steps)
        return work.certificates(getattr(X, "index", None) if hasattr(X, "iloc") else None, is_interrupted)

    def measure(
        self,
        X: Any,
        found: Certificates,
        *,
        total_time_limit: float = math.inf,
        progress: Callable[[int], None] | None = None,
    ) -> Certificates:
        """Return what was found about rows, and their radii: as with ``radius=True``, but after all verdicts.

        Radii that were found before stay as they are; one between 0 and inf is none. With ``witness``, unstable rows
        without a witness get one, too. Where Ctrl-C comes in between, radii that are not found yet are between 0 and
        inf.
        """
        if self.is_regressor:
            return self.certify(X, found.label, total_time_limit=total_time_limit, progress=progress)
        check_margin(self.margin, self.ensemble, radius=True)
        rows = self.ensemble.rows(X)
        label = found.prediction if found.label is None else found.label
        work = _Work(self, rows, label, total_time_limit, progress)
        out, work.adds_witness = work.out, self.witness
        out.stable[:] = found.stable
        if found.radius is not None and found.radius_upper is not None:
            out.radius[:], out.radius_upper[:] = found.radius, found.radius_upper
        if found.witness is not None and out.witness is not None:
            out.witness[:] = found.witness
        is_new = (out.radius == 0) & (out.radius_upper == math.inf)
        is_interrupted = work.run(work.find_radii, is_last=True) or found.is_interrupted
        out.radius[is_new & ~out.is_measured], out.radius_upper[is_new & ~out.is_measured] = 0.0, math.inf
        added: dict[str, Any] = {"witness": out.witness, "rows": work.all_rows} if self.witness else {}
        return replace(found, radius=out.radius, radius_upper=out.radius_upper, is_interrupted=is_interrupted, **added)


class _Work:
    """Rows at work: what is found out about them, by several threads, until it is done or Ctrl-C comes."""

    def __init__(
        self,
        certifier: Certifier,
        rows: Rows,
        label: NDArray | None,
        total_time_limit: float,
        progress: Callable[[int], None] | None,
    ) -> None:
        self.certifier, self.rows, self.label, self.progress = certifier, rows, label, progress
        self.stop = threading.Event()
        self.total_time_limit = check_time_limit(total_time_limit)
        self.clock = Clock(certifier.time_limit, self.total_time_limit, self.stop.is_set)
        self.verifier = certifier.verifier  # the clock runs while it is made
        kept = {"witness": certifier.witness or certifier.proof, "proof": certifier.proof}
        kept["outputs"] = certifier.outputs is not None
        self.out = Results(len(rows), certifier.ensemble.n_features, **kept)
        # The clock is asked before each block: those of large models are small.
        most = max(1, MOST_VISITS // certifier.ensemble.n_nodes)
        if certifier.n_jobs > 1:  # so that none waits long for the last block of another
            most = min(most, max(FEWEST_ROWS, -(-len(rows) // (BLOCKS_A_THREAD * certifier.n_jobs))))
        self.blocks = [
            slice(first, min(first + most, block.stop))
            for block in rows.blocks()
            for first in range(block.start, block.stop, most)
        ]
        self.adds_witness = False

    def not_attacked(self, block: slice) -> NDArray[np.bool_]:
        """Return which rows of a block nobody attacks; predictions are known."""
        attacked, classes = self.certifier.attacked, self.certifier.classes
        if attacked is None:
            return np.zeros(block.stop - block.start, bool)
        label = classes[self.out[block].prediction] if self.label is None else self.label[block]
        return ~np.isin(label, attacked)

    def find_verdicts(self, order: VisitOrder, block: slice) -> Iterator[int]:
        """Find out which rows of a block are stable; yield how many more are done."""
        keep_proof, verifier = self.certifier.proof, self.verifier
        x, found = self.rows[block], self.out[block]
        verifier.check_rows(x, block.start)
        if self.clock.is_up:
            found.prediction[:], found.stable[:], spent = verifier.ensemble.index_of(x), UNKNOWN, np.zeros(len(x))
        else:
            spent = verifier.made(Screen).decide(x, order, self.clock, found.prediction, found.stable)
        if verifier.moves.relations:  # of which the screen does not know: it may have seen attacks that break them
            found.stable[found.stable == UNSTABLE] = UNKNOWN
        is_easy = (found.stable == BORDERLINE) | (found.stable == UNSTABLE)
        found.stable[found.stable == BORDERLINE] = UNKNOWN
        found.method[:] = np.where(found.stable == UNKNOWN, Method.NONE, Method.COMPOSED)
        is_open = found.stable == UNKNOWN
        if keep_proof:
            is_open |= found.stable == STABLE
        if found.witness is not None:
            is_open |= found.stable == UNSTABLE
        idle = self.not_attacked(block)
        found.stable[idle], found.method[idle], is_open[idle] = STABLE, Method.SPARED, False
        found.is_decided[~is_open] = True
        yield int(found.is_decided.sum())
        if keep_proof:
            yield prove_without_tables(verifier, x, order, self.clock, found, is_open)
        if self.certifier.margin == 0 and not self.clock.is_up:
            # A look keeps no tables: where there is to be a proof, it is for attacks that are known to be there.
            looked_at = is_open & (found.stable == UNSTABLE) if keep_proof else is_open
            yield from look_first(verifier, x, self.clock, found, is_open, np.flatnonzero(looked_at))
        for i in np.flatnonzero(is_open):
            clock = self.clock.start(at_least=EASY_SECONDS if is_easy[i] else 0.0, spent=spent[i])
            answer = verifier.made(Decider).decide(x[i], clock, int(found.prediction[i]), keep_proof=keep_proof)
            if found.stable[i] == UNKNOWN:
                found.stable[i], found.method[i] = answer.stable, answer.method
            elif answer.stable not in (found.stable[i], UNKNOWN):
                raise AssertionError(TWO_VERDICTS)
            if found.witness is not None and answer.attack is not None:
                found.witness[i] = answer.attack
            if found.proof is not None:
                found.proof[i] = answer.proof
            found.is_decided[i] = True
            yield 1

    def find_outputs(self, order: VisitOrder, block: slice) -> Iterator[int]:
        """Find out what outputs are in reach of a block's rows; yield how many more are done."""
        outputs, x = self.certifier.outputs, self.rows[block]
        assert outputs is not None
        outputs.verifier.check_rows(x, block.start)
        yield from outputs.find(x, self.out[block], self.clock, keep_proof=self.certifier.proof)

    def find_radii(self, order: VisitOrder, block: slice) -> Iterator[int]:
        """Find out the radii of a block's rows, whose verdicts are known; yield how many more are done."""
        keep_proof, verifier = self.certifier.proof, self.verifier
        x, found, decider = self.rows[block], self.out[block], verifier.made(Decider)
        if self.certifier.is_regressor and self.certifier.outputs is not None:
            yield from self.certifier.outputs.find_radii(x, found, self.clock, keep_proof=keep_proof)
            return
        is_open = (found.radius == 0) & (found.radius_upper == math.inf)
        lower, upper = np.zeros(len(x)), np.full(len(x), math.inf)
        if not self.clock.is_up:
            bound_radii(verifier.made(Screen), verifier, x, lower, upper)
        idle = self.not_attacked(block)
        lower[idle] = upper[idle] = math.inf
        found.radius[is_open], found.radius_upper[is_open] = lower[is_open], upper[is_open]
        shown = (found.stable == UNSTABLE) & (found.witness is not None)  # by the cheapest attack
        is_open &= ((lower != upper) | keep_proof | shown) & ~idle
        found.is_measured[~is_open] = True
        lacks = np.zeros(len(x), bool)
        if found.witness is not None and self.adds_witness:
            lacks = shown & np.isnan(found.witness).all(axis=1)
        yield int((~is_open & ~lacks).sum())
        for i in np.flatnonzero(is_open | lacks):
            if lacks[i] and found.witness is not None:
                attack = decider.decide(x[i], self.clock.start(at_least=EASY_SECONDS)).attack
                found.witness[i] = np.nan if attack is None else attack
            if is_open[i]:
                known, clock = Known(found.radius[i], found.radius_upper[i], found.stable[i]), self.clock.start()
                measured = find_radius(decider, x[i], known, clock, keep_attack=bool(shown[i]), keep_proof=keep_proof)
                found.radius[i], found.radius_upper[i] = measured.lower, measured.upper
                is_cheaper = measured.attack is not None and measured.upper <= self.certifier.attacker.eps
                if found.witness is not None and found.stable[i] == UNSTABLE and is_cheaper:
                    found.witness[i] = measured.attack
                if found.radius_proof is not None and found.radius_witness is not None:
                    found.radius_proof[i], found.radius_witness[i] = measured.proof, measured.attack
            found.is_measured[i] = True
            yield 1

    def run(self, steps: Callable[[VisitOrder, slice], Iterator[int]], *, is_last: bool) -> bool:
        """Do the blocks, each thread with an order of visits of its own; tell whether Ctrl-C came in between.

        ``is_last`` tells that a row is done after these steps, and counted as progress.
        """
        blocks = iter(self.blocks)  # each thread takes the next one

        def work() -> None:
            order = VisitOrder.of(self.certifier.ensemble.n_trees)
            try:
                for block in blocks:
                    for n_done in steps(order, block):
                        if self.progress is not None and n_done and is_last:
                            self.progress(n_done)
                        if self.stop.is_set():
                            return
            except BaseException:
                self.stop.set()
                raise

        # Never in the main thread, where Ctrl-C in a kernel that returns named tuples ends the process (numba).
        with ThreadPoolExecutor(self.certifier.n_jobs) as pool:
            tasks = [pool.submit(work) for _ in range(min(self.certifier.n_jobs, len(self.blocks)))]
            try:
                for task in tasks:
                    task.result()
            except BaseException as error:
                self.stop.set()
                if isinstance(error, KeyboardInterrupt):
                    return True
                raise
        return False

    @property
    def all_rows(self) -> NDArray[np.float64] | None:
        """The rows themselves, None if there are none."""
        return np.concatenate([self.rows[block] for block in self.blocks]) if self.blocks else None

    def certificates(self, index: Any, is_interrupted: bool) -> Certificates:
        """Return what was found out; rows that Ctrl-C came before are predicted, and unknown."""
        certifier, rows, out = self.certifier, self.rows, self.out
        ensemble, radius, proof = certifier.ensemble, certifier.radius, certifier.proof
        if is_interrupted:
            out.forget(~out.is_decided)
            for block in self.blocks:
                out[block].prediction[:] = ensemble.class_index(rows[block])
                if certifier.outputs is not None:
                    out[block].output[:] = certifier.outputs.of(rows[block])
        return Certificates(
            prediction=out.output if certifier.is_regressor else ensemble.classes[out.prediction],
            stable=out.stable,
            method=np.array([method.name.lower() for method in Method])[out.method],
            label=self.label,
            radius=out.radius if radius else None,
            radius_upper=out.radius_upper if radius else None,
            witness=out.witness,
            **{name: getattr(out, name) for name in (*RANGES, *END_ROWS) if certifier.outputs is not None},
            tolerance=certifier.tolerance,
            broken_relations=count_broken(certifier.attacker.relations, [rows[block] for block in self.blocks]),
            is_interrupted=is_interrupted,
            proof=out.proof,
            radius_proof=out.radius_proof if radius else None,
            radius_witness=out.radius_witness if radius else None,
            rows=self.all_rows if proof or certifier.witness else None,
            attacker=certifier.attacker,
            attacked=certifier.attacked,
            margin=certifier.margin,
            model_sha256=ensemble.sha256 if proof else None,
            classes=certifier.classes,
            index=index,
            form=rows.form if certifier.witness else None,
            feature_names=ensemble.feature_names,
            ensemble=ensemble,
            about=about_now(certifier.time_limit, self.total_time_limit),
        )

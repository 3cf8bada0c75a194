"""Exact answers about rows, whether or not trees meet there, for votes and sums and every norm.

A row is stable if there is a proof for every rival, unstable if there is an attack. `FirstLook` decides most rows of a
block at once, `Decider` any row.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from contextlib import suppress
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from certiforest.attack.parameters import AttackerError
from certiforest.attack.relations import binding
from certiforest.compiled import in_python
from certiforest.problem.around_row import Goal, RowProblem
from certiforest.problem.leaves_kernels import list_local_leaves, list_what_they_allow, new_scratch
from certiforest.problem.problem import BUDGET
from certiforest.problem.verifier import Verifier
from certiforest.proof import search
from certiforest.proof import search_kernels as statuses
from certiforest.proof.clock import Clock, OutOfTime
from certiforest.proof.search import QuickLook, Search, cuts_of
from certiforest.rows.certified_rows import Results
from certiforest.rows.first_look_kernels import (
    Look,
    LookSetting,
    falls_at_once,
    look_at_leaves,
    look_at_rows,
    write_attack,
)
from certiforest.rows.related_row import row_problem
from certiforest.verdicts import STABLE, UNKNOWN, UNSTABLE, Method

TWO_VERDICTS = "Two ways lead to two verdicts: please report this as a defect."
# Rows are looked at in blocks of this size, fewer where trees have more nodes, with so many sweeps for each at most.
N_ROWS, MOST_NODES, LOOK_SWEEPS = 32, 2**24, 32
# To look at rows in one go takes as long to compile as to decide thousands: the first ones are looked at one by one.
N_FIRST_ROWS = 64
# No more numbers than these are made ready: what each value of a leaf gains, for each pair of classes.
MOST_GAINS = 2**23


class Answer(NamedTuple):
    """What is known about a row against one budget.

    ``attack`` is a row in reach that is predicted otherwise; ``proof`` says why there is none, if it was to be kept
    (docs/certificate_format.md).
    """

    stable: int
    method: Method
    attack: NDArray[np.float64] | None = None
    proof: dict[str, Any] | None = None


class FirstLook:
    """One ensemble against one attacker, if what it changes are numbers; else it settles nothing.

    Parameters
    ----------
    verifier : Verifier
    """

    def __init__(self, verifier: Verifier) -> None:
        self._verifier, self._setting, self._n_rows = verifier, _setting(verifier), 0

    def look(
        self, X: NDArray[np.float64], prediction: NDArray[np.int64], clock: Clock, *, keeps_attacks: bool
    ) -> Iterator[tuple[slice, NDArray[np.int8], NDArray[np.int8], NDArray[np.float64]]]:
        """Yield block by block what is known of rows: verdicts (-1 where there is none yet), methods and attacks."""
        if self._setting is None:
            return
        setting = self._setting._replace(keeps_attacks=keeps_attacks)
        for run, trees, _ in self._verifier.rows_by_pattern(X):
            start, stop, _ = run.indices(len(X))
            ensemble = self._verifier.ensemble
            size = max(1, min(N_ROWS, MOST_NODES // (ensemble.n_nodes * ensemble.n_classes)))
            for first in range(start, stop, size):
                if clock.is_up:
                    return
                block = slice(first, min(first + size, stop))
                x, y, status = X[block], prediction[block], np.empty(block.stop - first, np.int64)
                attack = x.copy()
                self._n_rows += len(x)
                look = look_at_rows if self._n_rows > N_FIRST_ROWS else look_one_by_one
                look(trees, x, y, setting, _most(), status, attack)
                attack[status != statuses.FOUND] = np.nan
                stable = np.where(status > statuses.FOUND, STABLE, UNKNOWN).astype(np.int8)  # see `examine_box`
                found = np.flatnonzero(status == statuses.FOUND)
                # One call for all: threads that go in and out of kernels wait for each other.
                found = found[ensemble.index_of(attack[found]) != y[found]]
                stable[found[self._verifier.moves.counts_rows(x[found], attack[found])]] = UNSTABLE
                method = np.where(status == statuses.BOUNDED, Method.BOUNDED, Method.PROVED).astype(np.int8)
                yield block, stable, method, attack

    def begin(self, x: NDArray[np.float64], y: int) -> tuple[Look | None, NDArray[np.float64] | None]:
        """Look at one row of class ``y``; return what a search can go on with, or an attack, or neither."""
        if self._setting is None or self._verifier.ensemble.n_classes > 2:
            return None, None
        ((_, trees, _),) = self._verifier.rows_by_pattern(x[None])
        attack = x.copy()
        status, look = look_at_row(trees, x, y, self._setting, _most(), attack)
        if status != statuses.FOUND:
            return look, None
        is_attack = self._verifier.predict(attack) != y and self._verifier.moves.counts_rows(x[None], attack[None])[0]
        return None, attack if is_attack else None


def look_at_row(
    trees: Any, x: NDArray, y: int, setting: LookSetting, most: Any, out_row: NDArray
) -> tuple[int, Look | None]:
    """Do what `look_at_rows` does, by kernels that single rows need anyway; also return the last `Look`."""
    local, scratch = list_local_leaves(trees, x, setting.allowance, new_scratch(trees, setting.ranks, len(x)))
    if falls_at_once(trees, x, y, setting, local, np.zeros((2, len(x))), out_row):
        return statuses.FOUND, None
    allowed = list_what_they_allow(local, x, setting.allowance, setting.ranks, setting.lists, scratch)
    status, look = statuses.BOUNDED, None
    for rival in range(len(setting.need)):
        if rival != y and (status > statuses.FOUND):
            look = in_python(look_at_leaves)(trees, y, rival, setting, most, allowed)
            status = status if look.status == statuses.BOUNDED else look.status
            if look.status == statuses.FOUND:
                in_python(write_attack)(look, out_row)
    return status, look


def look_one_by_one(
    trees: Any, X: NDArray, prediction: NDArray, setting: LookSetting, most: Any, out_status: NDArray, out_row: NDArray
) -> None:
    """Do what `look_at_rows` does with the same result, for few rows."""
    for row in range(len(X)):
        out_status[row], _ = look_at_row(trees, X[row], int(prediction[row]), setting, most, out_row[row])


def look_first(
    verifier: Verifier,
    X: NDArray[np.float64],
    clock: Clock,
    found: Results,
    is_open: NDArray[np.bool_],
    places: NDArray[np.int64],
) -> Iterator[int]:
    """Decide some open rows of a block, many at once, where that is quick; yield how many more are done."""
    if not len(places):
        return
    look = verifier.made(FirstLook).look(
        X[places], found.prediction[places], clock, keeps_attacks=found.witness is not None
    )
    for part, stable, method, attack in look:
        place = places[part]
        is_known = stable != UNKNOWN
        if ((found.stable[place] == UNSTABLE) & (stable == STABLE)).any():
            raise AssertionError(TWO_VERDICTS)
        is_new = is_known & (found.stable[place] == UNKNOWN)
        found.stable[place[is_new]], found.method[place[is_new]] = stable[is_new], method[is_new]
        if found.witness is not None:
            found.witness[place[is_known]] = attack[is_known]
        found.is_decided[place[is_known]], is_open[place[is_known]] = True, False
        yield int(is_known.sum())


def _most() -> tuple[int, int]:
    return min(LOOK_SWEEPS, search.MOST_SWEEPS), search.MOST_STEPS


def _setting(verifier: Verifier) -> LookSetting | None:
    allowance = verifier.allowance
    is_sized = verifier.moves.norm > 0 and allowance.slack < math.inf
    n_classes, n_values = verifier.ensemble.n_classes, len(verifier.ensemble.prepared_scores.value) - 1
    if not (is_sized and verifier.moves.is_plain and n_classes**2 * n_values <= MOST_GAINS):
        return None
    gain = np.zeros((n_classes, n_classes, n_values), np.int64)
    need = np.zeros((n_classes, n_classes), np.int64)
    for y, rival in itertools.permutations(range(n_classes), 2):
        gain[y, rival], need[y, rival] = verifier.gains.rough(y, rival)
    lists = verifier.moves.price_lists(np.empty(0), BUDGET)
    return LookSetting(allowance, verifier.ranks, lists, gain, need, 0 if verifier.is_box else BUDGET, True)


class Decider:
    """One ensemble against one attacker, ready to answer for single rows.

    Parameters
    ----------
    verifier : Verifier
    """

    def __init__(self, verifier: Verifier) -> None:
        self.verifier = verifier
        self._margin = None
        if verifier.margin > 0:
            # No lead is larger than twice the largest sum: a larger margin says no more.
            margin = min(verifier.margin, 4 * verifier.ensemble.largest_sum)
            self._margin = math.floor(Fraction(margin) / verifier.gains.unit)

    def decide(self, x: NDArray[np.float64], clock: Clock, y: int | None = None, *, keep_proof: bool = False) -> Answer:
        """Find out whether a row, of class ``y`` if that is known, is stable; nothing is begun when time is up."""
        if clock.is_over:
            return Answer(UNKNOWN, Method.SOLVED)
        y = self.verifier.predict(x) if y is None else y
        begun, is_free = None, not binding(self.verifier.moves.relations, x)
        if keep_proof and self._margin is None and is_free:
            begun, attack = self.verifier.made(FirstLook).begin(x, y)
            if attack is not None:
                return Answer(UNSTABLE, Method.PROVED, attack)
        row = row_problem(self.verifier, x, found=None if begun is None else begun[:3])
        if self._margin is None:
            return self.decide_on(row, y, clock, keep_proof=keep_proof, begun=begun)
        # Stable: no rival comes within the margin. Unstable: one goes beyond it. In between nothing is said.
        if any(self.verifier.gain_at(x, y, rival) >= -self._margin for rival in self._rivals(x, y)):
            return Answer(UNKNOWN, Method.COMPOSED)
        answer = self.decide_on(row, y, clock, -self._margin, keep_proof=keep_proof)
        if answer.stable != UNSTABLE:
            return answer
        answer = self.decide_on(row, y, clock, self._margin + 1)
        return answer if answer.stable == UNSTABLE else Answer(UNKNOWN, answer.method)

    def looks(self, row: RowProblem, y: int, rival: int | None = None) -> Iterator[QuickLook[NDArray[np.float64]]]:
        """Yield what looks for attacks in favour of each rival of the predicted class, or of one."""
        for c in self._rivals(row.x, y) if rival is None else [rival]:
            goal = Goal(row, y, c)
            yield QuickLook(goal.problem, goal.attack)

    def prove_below(self, x: NDArray[np.float64], y: int, radius: float, clock: Clock) -> dict[str, Any] | None:
        """Return the proof that no attack costs less than ``radius`` (inf: than any float), None if time is up."""
        moves, n_features = self.verifier.moves, self.verifier.ensemble.n_features
        below = radius - 1.0 if moves.norm == 0 else math.nextafter(radius, 0.0)
        for is_free in (True, False) if radius == math.inf else (False, True):
            with suppress(AttackerError):  # the budget may be out of the range of floats
                row = row_problem(
                    self.verifier, x, moves.within(n_features, norm=0) if is_free else moves.within(below)
                )
                if is_free:  # any value costs nothing: L0, and its prices left out
                    row.be_free()
                answer = self.decide_on(row, y, clock, keep_proof=True)
                if answer.stable != UNSTABLE:
                    return answer.proof
        return None

    def decide_on(
        self,
        row: RowProblem,
        y: int,
        clock: Clock,
        need: int | None = None,
        *,
        keep_proof: bool = False,
        begun: Look | None = None,
    ) -> Answer:
        """Find out whether leaves can gain so much for some rival of class ``y``; without ``need``, enough to win."""
        is_open, n_boxes = False, 0
        attempts: dict[int, tuple[Search, Fraction]] = {}
        rivals = self._rivals(row.x, y)
        for place, rival in enumerate(rivals):
            if attempts and (clock.is_over if clock.counts_attempts else clock.is_up):
                is_open = True
                break
            goal = Goal(row, y, rival, need)
            attempt = Search(
                goal.problem,
                goal.attack_within_budget,
                row.is_beyond,
                divide=row.divide,
                shrink=row.shrink,
                keep_proof=keep_proof,
                begun=begun and begun[3:],
            )
            attempts[rival] = attempt, goal.unit
            try:
                z = attempt.run(clock.share(1 / (len(rivals) - place)))  # a hard rival is not to hide an easy one
            except OutOfTime:
                is_open = True
                continue
            finally:
                n_boxes = max(n_boxes, attempt.n_boxes)
            if z is not None:
                return Answer(UNSTABLE, method_of(n_boxes), _with_a_value(z, row.x, goal))
        if is_open or row.is_open:
            return Answer(UNKNOWN, Method.SOLVED)
        return Answer(STABLE, method_of(n_boxes), proof=_prove(row, attempts, clock) if keep_proof else None)

    def _rivals(self, x: NDArray[np.float64], y: int) -> list[int]:
        """Return the classes other than ``y``, those with most votes or the largest sum first."""
        if self.verifier.ensemble.n_classes == 2:
            return [1 - y]
        if self.verifier.ensemble.combine == "vote":
            strength = self.verifier.ensemble.votes(x[None])[0].astype(np.float64)
        else:
            strength = self.verifier.ensemble.decision_function(x[None])[0]
        return [int(c) for c in np.argsort(-strength, kind="stable") if c != y]


def _prove(row: RowProblem, attempts: dict[int, tuple[Search, Fraction]], clock: Clock) -> dict[str, Any] | None:
    """Return the proof that no rival can win, from searches that found no attack; None if time is up."""
    rivals = []
    for rival, (attempt, unit) in attempts.items():
        proof = attempt.prove(clock, unit, row.moves.budget / BUDGET)
        if proof is None:
            return None
        rivals.append({"rival": rival, **proof})
    return {"cuts": cuts_of(row.cells, rivals), "rivals": rivals}


def _with_a_value(z: NDArray[np.float64], x: NDArray[np.float64], goal: Goal) -> NDArray[np.float64]:
    """Return an attack in which not everything is missing, which looks like none, if one value can be kept."""
    for f in range(len(z) if np.isnan(z).all() else 0):
        kept = z.copy()
        kept[f] = x[f]
        if goal.is_reached(kept):
            return kept
    return z


def method_of(n_boxes: int) -> Method:
    """Return the method of a search that examined so many boxes of cells."""
    return (Method.BOUNDED, Method.PROVED, Method.SOLVED)[min(n_boxes, 2)]

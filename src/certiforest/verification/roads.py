"""Roads: exact answers about one row, whether or not trees meet there, for votes and sums and every norm.

A row is stable if there is a proof for every rival, unstable if there is an attack.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import suppress
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from certiforest.attack.columns import AttackerError
from certiforest.ensemble.tree_kernels import find_leaf
from certiforest.verdicts import STABLE, UNKNOWN, UNSTABLE, Method
from certiforest.verification.cells import Local
from certiforest.verification.clock import Clock, OutOfTime
from certiforest.verification.search import Glance, Search, cuts_of
from certiforest.verification.tables_kernels import Contest
from certiforest.verification.verifier import Verifier


class Answer(NamedTuple):
    """What is known about a row against one budget.

    ``attack`` is a row in reach that is predicted otherwise; ``proof`` says why there is none, if it was to be kept
    (docs/certificate_format.md).
    """

    stable: int
    method: Method
    attack: NDArray[np.float64] | None = None
    proof: dict[str, Any] | None = None


class Roads:
    """One ensemble against one attacker, ready to answer for single rows.

    Parameters
    ----------
    verifier : Verifier
    """

    def __init__(self, verifier: Verifier) -> None:
        self.verifier, self.ensemble, self.moves = verifier, verifier.ensemble, verifier.moves
        self._margin = None
        if verifier.margin > 0:
            # No lead is larger than twice the largest sum: a larger margin says no more.
            margin = min(verifier.margin, 4 * self.ensemble.largest_sum)
            self._margin = math.floor(Fraction(margin) / verifier.worths.unit)

    def decide(self, x: NDArray[np.float64], clock: Clock, *, keep_proof: bool = False) -> Answer:
        """Find out whether a row is stable; nothing is begun when time is up for all rows."""
        if clock.is_over:
            return Answer(UNKNOWN, Method.SOLVED)
        local = Local(self.verifier, x)
        if self._margin is None:
            return self.decide_on(local, clock, keep_proof=keep_proof)
        # Stable: no rival comes within the margin. Unstable: one goes beyond it. In between nothing is said.
        y = self.verifier.predict(x)
        if any(self._worth(x, y, rival) >= -self._margin for rival in self._rivals(x, y)):
            return Answer(UNKNOWN, Method.COMPOSED)
        answer = self._decide(local, clock, -self._margin, keep_proof=keep_proof)
        if answer.stable != UNSTABLE:
            return answer
        answer = self._decide(local, clock, self._margin + 1, keep_proof=False)
        return answer if answer.stable == UNSTABLE else Answer(UNKNOWN, answer.method)

    def decide_on(self, local: Local, clock: Clock, *, keep_proof: bool = False) -> Answer:
        """Find out whether a row is stable against any attacker; no margin is kept."""
        return self._decide(local, clock, None, keep_proof=keep_proof)

    def glances(self, local: Local, y: int, rival: int | None = None) -> Iterator[Glance]:
        """Yield what looks for attacks in favour of each rival of the predicted class, or of one."""
        for c in self._rivals(local.x, y) if rival is None else [rival]:
            contest, _, is_attack = self._contest(local, y, c, None)
            yield Glance(local, contest, is_attack)

    def prove_below(self, x: NDArray[np.float64], radius: float, clock: Clock) -> dict[str, Any] | None:
        """Return the proof that no attack costs less than ``radius`` (inf: than any float), None if time is up."""
        below = radius - 1.0 if self.moves.norm == 0 else math.nextafter(radius, 0.0)
        for is_free in (True, False) if radius == math.inf else (False, True):
            with suppress(AttackerError):  # the budget may be out of the range of floats
                local = Local(
                    self.verifier, x, self.moves.within(*(self.ensemble.n_features, 0) if is_free else (below,))
                )
                if is_free:  # any value costs nothing: L0, and its prices left out
                    local.budget, local.cells.price[:] = 0, 0
                answer = self._decide(local, clock, None, keep_proof=True)
                if answer.stable != UNSTABLE:
                    return answer.proof
        return None

    def _decide(self, local: Local, clock: Clock, need: int | None, *, keep_proof: bool) -> Answer:
        """Find out whether leaves can be worth so much to some rival (None: enough to be predicted)."""
        y = self.verifier.predict(local.x)
        searches: dict[int, Search] = {}
        is_open, n_boxes = False, 0
        for rival in self._rivals(local.x, y):
            if searches and clock.is_up:
                is_open = True
                break
            contest, unit, is_attack = self._contest(local, y, rival, need)
            search = searches[rival] = Search(local, contest, unit, is_attack, keep_proof=keep_proof)
            try:
                z = search.run(clock)
            except OutOfTime:
                is_open = True
                continue
            finally:
                n_boxes = max(n_boxes, search.n_boxes)
            if z is not None:
                return Answer(UNSTABLE, _road(n_boxes), _with_a_value(z, local.x, is_attack))
        if is_open:
            return Answer(UNKNOWN, Method.SOLVED)
        return Answer(STABLE, _road(n_boxes), proof=_prove(local, searches, clock) if keep_proof else None)

    def _contest(
        self, local: Local, y: int, rival: int, need: int | None
    ) -> tuple[Contest, Fraction, Callable[[NDArray[np.float64]], bool]]:
        """Return what `Search` is to know about a rival, to whom leaves are to be worth so much."""
        worth, least, unit = self.verifier.worths.contest(local.leaves.node, local.fixed, y, rival, need)

        def is_attack(z: NDArray[np.float64]) -> bool:
            return self.verifier.predict(z) != y if need is None else self._worth(z, y, rival) >= need

        return Contest(worth, least, local.budget), unit, is_attack

    def _worth(self, z: NDArray[np.float64], y: int, rival: int) -> int:
        """Return what the leaves of a row are worth to a rival, all together."""
        trees = self.verifier.trees
        leaves = [find_leaf(trees, tree, z) for tree in range(self.ensemble.n_trees)]
        return self.verifier.worths.total(self.ensemble.leaf[leaves], y, rival)

    def _rivals(self, x: NDArray[np.float64], y: int) -> list[int]:
        """Return the classes other than ``y``, those with most votes or the largest sum first."""
        if self.ensemble.n_classes == 2:
            return [1 - y]
        if self.ensemble.combine == "vote":
            strength = self.ensemble.votes(x[None])[0].astype(np.float64)
        else:
            strength = self.ensemble.decision_function(x[None])[0]
        return [int(c) for c in np.argsort(-strength, kind="stable") if c != y]


def _prove(local: Local, searches: dict[int, Search], clock: Clock) -> dict[str, Any] | None:
    """Return the proof that no rival can win, from searches that found no attack; None if time is up."""
    rivals = []
    for rival, search in searches.items():
        proof = search.prove(clock)
        if proof is None:
            return None
        rivals.append({"rival": rival, **proof})
    return {"cuts": cuts_of(local, rivals), "rivals": rivals}


def _with_a_value(
    z: NDArray[np.float64], x: NDArray[np.float64], is_attack: Callable[[NDArray[np.float64]], bool]
) -> NDArray[np.float64]:
    """Return an attack in which not everything is missing, which looks like none, if one value can be kept."""
    for f in range(len(z) if np.isnan(z).all() else 0):
        kept = z.copy()
        kept[f] = x[f]
        if is_attack(kept):
            return kept
    return z


def _road(n_boxes: int) -> Method:
    """Return the road of a search that examined so many boxes of cells."""
    return (Method.BOUNDED, Method.PROVED, Method.SOLVED)[min(n_boxes, 2)]

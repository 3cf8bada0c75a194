"""Purchases: which leaf to send each tree to, so that enough is gained for as little as possible, exactly.

The method stands in `knapsack_kernels`. It runs compiled on floats and, where those cannot tell, as plain Python on
whole numbers. It finds what there is in both, given enough time: the problem is NP-hard.
"""

from __future__ import annotations

import math
import time
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from certiforest.verification import knapsack_kernels as kernels

FEWEST_STATES, MOST_STATES, MOST_EXACT_STATES = 2**12, 2**22, 2**18


class UndecidedError(Exception):
    """A search would take longer, or more memory, than it was given."""


class Fronts(NamedTuple):
    """What trees offer: leaves of front ``k`` are ``start[k]:start[k + 1]``, costs and gains rising from above zero.

    Costs and gains are floats, or Python's whole numbers in arrays of objects.
    """

    cost: NDArray
    gain: NDArray
    start: NDArray[np.int64]
    node: NDArray[np.int64]
    tree: NDArray[np.int64]

    @property
    def is_exact(self) -> bool:
        """Whether the numbers are whole numbers of any size."""
        return self.cost.dtype == object


class Purchase(NamedTuple):
    """What is bought: its cost, its gain, and the leaves by their place in the fronts."""

    cost: Any
    gain: Any
    leaves: list[int]


def find_purchase(
    fronts: Fronts,
    limit: Any,
    need: Any,
    *,
    cost_slack: Any = 0,
    gain_slack: Any = 0,
    cheapest: bool = False,
    deadline: float = math.inf,
) -> Purchase | None:
    """Find leaves, one per front at most, that gain ``need`` or more and cost ``limit`` or less.

    Parameters
    ----------
    fronts : Fronts
    limit, need : number
        Of the kind of the fronts. Sums are compared with them as they are; slack only keeps rounding from dropping
        purchases too early.
    cost_slack, gain_slack : number
        Bounds on rounding errors of costs and gains.
    cheapest : bool, default=False
        Whether any purchase will do, or only one of least cost.
    deadline : float
        By the clock of `time.monotonic`.

    Returns
    -------
    Purchase, or None if there is none.

    Raises
    ------
    UndecidedError
    """
    if need <= 0:
        return Purchase(0, 0, [])
    if len(fronts.tree) == 0:
        return None
    if not fronts.is_exact:  # compiled for floats only
        limit, need, cost_slack, gain_slack = float(limit), float(need), float(cost_slack), float(gain_slack)
    plain = (lambda kernel: kernel.py_func) if fronts.is_exact else (lambda kernel: kernel)
    steps = _Steps(fronts, plain(kernels.keep_hull))
    best = steps.buy_greedily(plain(kernels.buy_greedily), limit, need)
    if best is not None:
        if not cheapest:
            return best
        limit = best.cost
    states = _States(fronts.cost.dtype, MOST_EXACT_STATES if fronts.is_exact else MOST_STATES)
    first, last = 0, 1
    rest_cost, rest_gain = (np.zeros(len(steps.cost) + 1, fronts.cost.dtype) for _ in range(2))
    place = np.empty(int(np.diff(fronts.start).max()) + 1, np.int64)
    for position, front in enumerate(steps.order_of_fronts):
        n_rest = plain(kernels.add_steps)(steps.cost, steps.gain, steps.position, position, rest_cost, rest_gain)
        leaves = int(fronts.start[front]), int(fronts.start[front + 1])
        end = -1
        while end < 0:
            end = plain(kernels.extend_states)(
                states.cost, states.gain, states.parent, states.bought, first, last, fronts.cost, fronts.gain, *leaves,
                rest_cost, rest_gain, n_rest, limit, need, cost_slack, gain_slack, place,
            )  # fmt: skip
            if time.monotonic() > deadline:
                raise UndecidedError
            if end < 0:
                states.grow()
        first, last = last, end
        if last > first and states.gain[last - 1] >= need:
            best = states.trace(last - 1)
            if not cheapest:
                return best
            last -= 1  # to buy more would only cost more
            limit = best.cost
        if last == first:
            return best
    return best


class _Steps:
    """The steps along the hulls of all fronts, most gain per cost first; fronts that can gain most come first."""

    def __init__(self, fronts: Fronts, keep_hull: Any) -> None:
        starts = fronts.start
        self.order_of_fronts = sorted(range(len(starts) - 1), key=lambda k: -fronts.gain[starts[k + 1] - 1])
        corners = np.empty(len(fronts.cost), np.int64)
        cost, gain, position, leaf = [], [], [], []
        for place, front in enumerate(self.order_of_fronts):
            n = keep_hull(fronts.cost, fronts.gain, int(starts[front]), int(starts[front + 1]), corners)
            before = 0, 0
            for corner in corners[:n].tolist():
                here = fronts.cost[corner], fronts.gain[corner]
                cost.append(here[0] - before[0])
                gain.append(here[1] - before[1])
                position.append(place)
                leaf.append(corner)
                before = here
        dtype = fronts.cost.dtype
        self.cost, self.gain = np.array(cost, dtype), np.array(gain, dtype)
        self.position, self.leaf = np.array(position), np.array(leaf)
        if fronts.is_exact:
            order = sorted(range(len(cost)), key=lambda k: Fraction(gain[k], cost[k]), reverse=True)
        else:
            order = kernels.sort_steps(self.cost, self.gain)
        for name in ("cost", "gain", "position", "leaf"):
            setattr(self, name, getattr(self, name)[order])

    def buy_greedily(self, kernel: Any, limit: Any, need: Any) -> Purchase | None:
        """Return a purchase within the limit that gains enough, if following the steps finds one."""
        bought = np.empty(len(self.order_of_fronts), np.int64)
        order = np.arange(len(self.cost))
        cost, gain = kernel(self.cost, self.gain, self.position, self.leaf, order, limit, need, bought)
        return Purchase(cost, gain, bought[bought >= 0].tolist()) if gain >= need else None


def least_cost(fronts: Fronts, need: float) -> float:
    """Return what a gain costs at least, in floats, if leaves can be bought in parts; inf if it cannot be had."""
    if need <= 0:
        return 0.0
    steps = _Steps(fronts, kernels.keep_hull)
    total = 0.0
    for cost, gain in zip(steps.cost, steps.gain, strict=True):
        if gain >= need:
            return total + float(cost) * need / float(gain)
        total += float(cost)
        need -= float(gain)
    return math.inf


class _States:
    """Pairs of cost and gain with where they come from, in arrays that grow up to a limit."""

    def __init__(self, dtype: Any, most: int) -> None:
        self.most = most
        self.cost, self.gain = np.zeros(FEWEST_STATES, dtype), np.zeros(FEWEST_STATES, dtype)
        self.parent, self.bought = np.full(FEWEST_STATES, -1), np.full(FEWEST_STATES, -1)

    def grow(self) -> None:
        """Make room for twice as many states."""
        size = 2 * len(self.cost)
        if size > self.most:
            raise UndecidedError
        self.cost, self.gain, self.parent, self.bought = (
            np.concatenate([column, column]) for column in (self.cost, self.gain, self.parent, self.bought)
        )

    def trace(self, state: int) -> Purchase:
        """Return the purchase that led to a state."""
        leaves, cost, gain = [], self.cost[state], self.gain[state]
        while state >= 0:
            if self.bought[state] >= 0:
                leaves.append(int(self.bought[state]))
            state = int(self.parent[state])
        return Purchase(cost, gain, leaves)

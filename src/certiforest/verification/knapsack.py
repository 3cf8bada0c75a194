"""Knapsack: whether leaves, one per tree at most, gain enough within a budget, in floats.

The method stands in `knapsack_kernels`. It finds what there is, given enough time: the problem is NP-hard.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from certiforest.verification import knapsack_kernels as kernels
from certiforest.verification.clock import Clock, OutOfTime

FEWEST_STATES, MOST_STATES = 2**12, 2**22


class Fronts(NamedTuple):
    """What trees offer: leaves of front ``k`` are ``start[k]:start[k + 1]``, costs and gains rising from above zero."""

    cost: NDArray[np.float64]
    gain: NDArray[np.float64]
    start: NDArray[np.int64]


def can_buy(fronts: Fronts, limit: float, need: float, cost_slack: float, gain_slack: float, clock: Clock) -> bool:
    """Tell whether some leaves gain ``need`` or more and cost ``limit`` or less.

    Parameters
    ----------
    fronts : Fronts
    limit, need : float
        Sums are compared with them as they are; slack only keeps rounding from dropping purchases too early.
    cost_slack, gain_slack : float
        Bounds on rounding errors of costs and gains.
    clock : Clock

    Raises
    ------
    OutOfTime
        If it would take longer, or more memory, than it was given.
    """
    if need <= 0:
        return True
    n_fronts, n_leaves = len(fronts.start) - 1, len(fronts.cost)
    if n_fronts == 0:
        return False
    # Fronts that can gain most come first; steps along their hulls, most gain per cost first.
    turn = np.argsort(-fronts.gain[fronts.start[1:] - 1], kind="stable")
    step_cost, step_gain = np.empty(n_leaves), np.empty(n_leaves)
    step_front, scratch = np.empty(n_leaves, np.int64), np.empty(n_leaves, np.int64)
    n_steps = kernels.list_steps(*fronts, scratch, step_cost, step_gain, step_front)
    order = kernels.sort_steps(step_cost[:n_steps], step_gain[:n_steps])
    if kernels.buy_greedily(step_cost, step_gain, step_front, order, n_fronts, limit, need) >= need:
        return True
    position_of = np.empty(n_fronts, np.int64)
    position_of[turn] = np.arange(n_fronts)
    steps = step_cost[order], step_gain[order], position_of[step_front[order]]
    cost, gain = np.zeros(FEWEST_STATES), np.zeros(FEWEST_STATES)
    first, last = 0, 1
    rest_cost, rest_gain = np.zeros(n_steps + 1), np.zeros(n_steps + 1)
    place = np.empty(int(np.diff(fronts.start).max()) + 1, np.int64)
    for position, front in enumerate(turn.tolist()):
        n_rest = kernels.add_steps(*steps, position, rest_cost, rest_gain)
        leaves = int(fronts.start[front]), int(fronts.start[front + 1])
        while True:
            end = kernels.extend_states(
                cost, gain, first, last, fronts.cost, fronts.gain, *leaves,
                rest_cost, rest_gain, n_rest, limit, need, cost_slack, gain_slack, place,
            )  # fmt: skip
            clock.check()
            if end >= 0:
                break
            if 2 * len(cost) > MOST_STATES:
                raise OutOfTime
            cost, gain = np.concatenate([cost, cost]), np.concatenate([gain, gain])
        first, last = last, end
        if last == first:
            return False
        if gain[last - 1] >= need:
            return True
    return False

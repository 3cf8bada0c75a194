"""Knapsack: whether leaves, one per tree at most, gain enough within a budget, in floats.

The method stands in `knapsack_kernels`. It finds what there is, given enough time: the problem is NP-hard.
"""

from __future__ import annotations

import numpy as np

from certiforest.proof.clock import Clock, OutOfTime
from certiforest.rows import knapsack_kernels as kernels
from certiforest.rows.knapsack_kernels import Fronts, Goal, HullSteps, Purchases

FEWEST_STATES, MOST_STATES = 2**12, 2**22


def can_buy(fronts: Fronts, goal: Goal, clock: Clock) -> bool:
    """Tell whether some leaves, one per front at most, reach a goal.

    Raises
    ------
    OutOfTime
        If it would take longer, or more memory, than it was given.
    """
    limit, need = goal.limit, goal.need
    if need <= 0:
        return True
    n_fronts, n_leaves = len(fronts.start) - 1, len(fronts.cost)
    if n_fronts == 0:
        return False
    # Fronts that can gain most come first; steps along their hulls, most gain per cost first.
    turn = np.argsort(-fronts.gain[fronts.start[1:] - 1], kind="stable")
    steps = HullSteps(np.empty(n_leaves), np.empty(n_leaves), np.empty(n_leaves, np.int64))
    n_steps = kernels.list_steps(fronts, np.empty(n_leaves, np.int64), steps)
    order = kernels.sort_steps(steps.cost[:n_steps], steps.gain[:n_steps])
    if kernels.buy_greedily(steps, order, n_fronts, limit, need) >= need:
        return True
    position_of = np.empty(n_fronts, np.int64)
    position_of[turn] = np.arange(n_fronts)
    steps = HullSteps(steps.cost[order], steps.gain[order], position_of[steps.front[order]])
    states = Purchases(np.zeros(FEWEST_STATES), np.zeros(FEWEST_STATES))
    first, last = 0, 1
    rest = Purchases(np.zeros(n_steps + 1), np.zeros(n_steps + 1))
    for position, front in enumerate(turn.tolist()):
        n_rest = kernels.add_steps(steps, position, rest)
        while True:
            end = kernels.extend_states(states, first, last, fronts, front, rest, n_rest, goal)
            clock.check()
            if end >= 0:
                break
            if 2 * len(states.cost) > MOST_STATES:
                raise OutOfTime
            states = Purchases(*(np.concatenate([column, column]) for column in states))
        first, last = last, end
        if last == first:
            return False
        if states.gain[last - 1] >= need:
            return True
    return False

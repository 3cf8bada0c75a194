"""Ascents: cells that meet several requirements at once, looked for one variable at a time.

Which leaf of a tree allows the chosen cells is looked up: each segment has a mask with a bit for every leaf that allows
it, and only one leaf is in the masks of all segments that hold chosen cells.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy import ndarray

from certiforest.compiled import kernel
from certiforest.problem.problem import ENOUGH, Leaves

ONE = np.uint64(1)


class Several(NamedTuple):
    """Several requirements at once, and weights that make one of them.

    ``leaves``, ``gain``, ``need`` and ``grows`` are as in `JointProblem`, with the target in the needs; ``weight``
    (n_requirements,) is in whole numbers. The rest is from `masks_of`.
    """

    leaves: Leaves
    gain: ndarray
    need: ndarray
    grows: ndarray
    weight: ndarray
    first_word: ndarray
    mask: ndarray
    place: ndarray


@kernel
def copy(values, out):
    """Copy numbers one by one: for an assignment to all at once, numba compiles an error that speaks of shapes."""
    for i in range(values.shape[0]):
        out[i] = values[i]


@kernel
def choose(several, v, c, at):
    """Write which segments a cell of a variable is in to ``at`` (n_scopes,)."""
    leaves = several.leaves
    for i in range(leaves.first_tester[v], leaves.first_tester[v + 1]):
        g = leaves.first_segment[several.place[i]]
        while leaves.end[g] < c:
            g += 1
        at[several.place[i]] = g


@kernel
def meet(several, t, s, at, common):
    """Write which leaves of a tree allow the chosen cells of all variables but the one at place ``s`` to ``common``."""
    leaves, first_word, mask = several.leaves, several.first_word, several.mask
    n_words = (leaves.first[t + 1] - leaves.first[t] + 63) >> 6
    common[:n_words] = ~np.uint64(0)
    for other in range(leaves.first_scope[t], leaves.first_scope[t + 1]):
        if other != s:
            for w in range(n_words):
                common[w] &= mask[first_word[at[other]] + w]
    return n_words


@kernel
def first_in_both(several, common, n_words, g):
    """Return the first leaf of a tree, counted there, in a segment's mask and among others; -1 if there is none."""
    first = several.first_word[g]
    for w in range(n_words):
        bits = common[w] & several.mask[first + w]
        if bits != 0:
            return (w << 6) + math.frexp(float(bits & (~bits + ONE)))[1] - 1
    return -1


@kernel
def weigh_cells(several, v, low, high, at, common, out):
    """Write what trees that test a variable gain for requirements in each of its cells from ``low`` to ``high``."""
    leaves, gain = several.leaves, several.gain
    n_requirements = gain.shape[1]
    out[low : high + 1] = 0
    for i in range(leaves.first_tester[v], leaves.first_tester[v + 1]):
        t, s = leaves.tester[i], several.place[i]
        n_words, before = meet(several, t, s, at, common), -1
        for g in range(leaves.first_segment[s], leaves.first_segment[s + 1]):
            if leaves.end[g] < low:
                continue
            if leaves.begin[g] > high:
                break
            k = first_in_both(several, common, n_words, g)
            if k == before:
                continue
            c = max(leaves.begin[g], low)  # from there on
            for r in range(n_requirements):
                if k >= 0:
                    out[c, r] += gain[leaves.node[leaves.first[t] + k], r]
                if before >= 0:
                    out[c, r] -= gain[leaves.node[leaves.first[t] + before], r]
            before = k
    for c in range(low + 1, high + 1):
        for r in range(n_requirements):
            out[c, r] += out[c - 1, r]


@kernel
def least_surplus(several, total, change, r_change):
    """Return how far the requirement that is shortest is beyond its need; those that do not grow count if not met."""
    least = ENOUGH
    for r in range(total.shape[0]):
        surplus = total[r] + change[r] - r_change[r] - several.need[r]
        if several.grows[r] == 1 or surplus < 0:
            least = min(least, surplus)
    return least


@kernel
def ascend(several, low, high, choice):
    """Improve chosen cells of a box one variable at a time while that helps; return the least surplus.

    What is best is first what the shortest requirement has, then the weighted sum of all.
    """
    leaves, weight = several.leaves, several.weight
    n_variables, n_requirements, most_leaves = choice.shape[0], several.need.shape[0], 0
    by_cell = np.empty((high[-1] + 1 if n_variables else 0, n_requirements), np.int64)
    at = np.empty(leaves.scope.shape[0], np.int64)
    total, nothing = np.zeros(n_requirements, np.int64), np.zeros(n_requirements, np.int64)
    for v in range(n_variables):
        choice[v] = min(max(choice[v], low[v]), high[v])
        choose(several, v, choice[v], at)
    for t in range(leaves.name.shape[0]):
        most_leaves = max(most_leaves, leaves.first[t + 1] - leaves.first[t])
    common = np.empty((most_leaves >> 6) + 1, np.uint64)
    for t in range(leaves.name.shape[0]):
        s = leaves.first_scope[t]
        k = first_in_both(several, common, meet(several, t, s, at, common), at[s])
        if k >= 0:
            total += several.gain[leaves.node[leaves.first[t] + k]]
    best = least_surplus(several, total, nothing, nothing)
    v = n_quiet = 0
    while n_quiet < n_variables:
        here = there = choice[v]
        if low[v] < high[v] and leaves.first_tester[v] < leaves.first_tester[v + 1]:
            weigh_cells(several, v, low[v], high[v], at, common, by_cell)
            most = 0
            for c in range(low[v], high[v] + 1):
                surplus, more = least_surplus(several, total, by_cell[c], by_cell[here]), np.int64(0)
                for r in range(n_requirements):
                    more += weight[r] * (by_cell[c, r] - by_cell[here, r])
                if surplus > best or (surplus == best and more > most):
                    best, most, there = surplus, more, c
            if there != here:
                total += by_cell[there] - by_cell[here]
                choice[v] = there
                choose(several, v, there, at)
        n_quiet = n_quiet + 1 if there == here else 1
        v = v + 1 if v + 1 < n_variables else 0
    return best


@kernel
def wander(several, low, high, choice, n_tries, seed):
    """Leave chosen cells of a box at random in a few variables, and ascend again; return the least surplus reached.

    That is tried so often, or until it is not below 0.
    """
    best, trial = ascend(several, low, high, choice), choice.copy()
    state = np.uint64(seed) * np.uint64(2862933555777941757) + np.uint64(3037000493)
    for _ in range(n_tries):
        if best >= 0 or choice.shape[0] == 0:
            break
        for _ in range(4):
            state = state * np.uint64(6364136223846793005) + np.uint64(1442695040888963407)
            v = np.int64((state >> np.uint64(33)) % np.uint64(choice.shape[0]))
            state = state * np.uint64(6364136223846793005) + np.uint64(1442695040888963407)
            trial[v] = low[v] + np.int64((state >> np.uint64(33)) % np.uint64(high[v] - low[v] + 1))
        surplus = ascend(several, low, high, trial)
        if surplus >= best:
            best = surplus
            copy(trial, choice)
        else:
            copy(choice, trial)
    return best

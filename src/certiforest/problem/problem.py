"""A problem: can leaves gain what is needed, while variables move within a budget? Plain numbers, and nothing else.

Variables take one of their cells each, which has a price. Trees end in a leaf each, which allows some cells of some
variables and gains something. Who asks is not to be seen here, nor what cells and leaves stand for: a row and what an
attacker may do to it make a problem (`around_row`), and `proof` answers it.
"""

from typing import NamedTuple

import numpy as np
from numpy import ndarray

# The budget where prices add up, in the whole numbers that they are rounded down to.
BUDGET = 1 << 40
# What cells lose that are not allowed: more than all leaves gain for one of several requirements.
FORBIDDEN = np.int64(1 << 40)
# More than cells can have beyond any need.
ENOUGH = np.int64(1 << 61)


class Cells(NamedTuple):
    """Variables and their cells, those of variable ``v`` at ``first[v]:first[v + 1]``.

    ``name`` (n_variables,) is what a proof calls a variable, ``home`` (n_variables,) the cell it is in to begin with.
    ``top`` (n_cells,) is the largest value of a cell (inf for the last), ``value`` (n_cells,) its cheapest value,
    ``price`` (n_cells,) int64 what it costs at least to get there, or to any cell beyond, as seen from home.
    """

    name: ndarray
    first: ndarray
    home: ndarray
    top: ndarray
    value: ndarray
    price: ndarray


class Leaves(NamedTuple):
    """The leaves of trees that have more than one, and what they allow.

    Leaves of tree ``t``, which a proof calls ``name[t]``, are ``node[first[t]:first[t + 1]]``. The variables it tests
    are its scope, ``scope[first_scope[t]:first_scope[t + 1]]``. Its own thresholds cut the cells of such a variable
    into segments, between which it tells no difference: those of place ``s`` in the scopes are numbered from
    ``first_segment[s]`` on, and ``g`` holds the cells ``begin[g]`` to ``end[g]``. Tables have a number for each.

    Leaf ``k`` has the conditions ``first_condition[k]`` to ``first_condition[k + 1]``, sorted by place: a variable is
    in a segment from ``low`` to ``high``, or, where conditions of one place follow one another, in one of any of them;
    anywhere if there is none. These are int32, for speed, all else is int64. Trees that test variable ``v`` are
    ``tester[first_tester[v]:first_tester[v + 1]]``.
    """

    name: ndarray
    first: ndarray
    node: ndarray
    first_condition: ndarray
    place: ndarray
    low: ndarray
    high: ndarray
    first_scope: ndarray
    scope: ndarray
    first_segment: ndarray
    begin: ndarray
    end: ndarray
    tester: ndarray
    first_tester: ndarray


class Problem(NamedTuple):
    """Whether there are cells, and of each tree a leaf that allows them, that gain ``need`` or more within a budget.

    ``gain`` (n_leaves,) int64 is what a leaf gains, at least; prices of the cells may add up to ``budget``, and to
    anything if that is 0. As gains are rounded up and prices down, an answer yes is to be confirmed.
    """

    cells: Cells
    leaves: Leaves
    gain: ndarray
    need: int
    budget: int


class JointProblem(NamedTuple):
    """Whether there are cells, and of each tree a leaf that allows them, that meet several requirements at once.

    ``gain`` (n_leaves, n_requirements) and ``need`` (n_requirements,) are int64. ``grows`` (n_requirements,) int64 is 1
    where a target is added to the need, else 0. ``low`` and ``high`` (n_variables,) are the first and the last cell of
    each variable that count. ``leaves.node`` numbers the leaves; there is no budget.
    """

    cells: Cells
    leaves: Leaves
    gain: ndarray
    need: ndarray
    grows: ndarray
    low: ndarray
    high: ndarray

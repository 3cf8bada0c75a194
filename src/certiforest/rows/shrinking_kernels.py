"""What relations and a shared budget leave of a box of cells: those at its ends that no row there can be in go.

Dropping one lets others follow, as it may force a column to move, which costs, and leaves less to move the others.
Sums of floats count only where they are sure.
"""

from typing import NamedTuple

from numpy import ndarray

from certiforest.compiled import kernel

# Sums of floats are within this share of the sizes of their parts of the truth.
SLACK = 1e-12
# No more rounds than this: where relations form a circle, each may take next to nothing.
MOST_ROUNDS = 20


class Ties(NamedTuple):
    """Relations of a row, by place: a column that is tied.

    The column at place ``k`` belongs to the variable ``at[k]``, of which cell ``c`` holds values from ``low[skip[k] +
    c]`` to ``high[skip[k] + c]``. It is at ``start[k]``, and the whole budget takes it down or up by ``reach[:, k]``
    (inf: nothing limits it); ``power`` is that of the norm, and for 0 ``reach`` is the price of any move. Linear
    relations are ``factor @ values <= bound``, or ``=`` where ``is_equal``.

    Implication ``i`` has the conditions from ``first[i]`` on, of which those before ``then[i]`` are what is to hold
    where it says something. Condition ``j`` is about variable ``about[j]``, and ``holds[of[j] + c]`` tells of cells
    whether it holds there: 1 everywhere, 0 nowhere, 2 somewhere.
    """

    at: ndarray
    skip: ndarray
    low: ndarray
    high: ndarray
    start: ndarray
    reach: ndarray
    power: float
    factor: ndarray
    bound: ndarray
    is_equal: ndarray
    first: ndarray
    then: ndarray
    about: ndarray
    of: ndarray
    holds: ndarray


@kernel
def shrink(ties, cells, budget, low, high, steps):
    """Drop cells at the ends of a box, which changes; return how often, and whether nothing is left of it.

    A row of ``steps`` (most, 3) says of which variable, after which cell the box was cut, and whether the upper part
    was dropped. Without ``budget``, prices do not count.
    """
    n_steps, n_places = 0, ties.at.shape[0]
    least, most = ties.start.copy(), ties.start.copy()
    for _ in range(MOST_ROUNDS):
        before = n_steps
        total = 0
        for v in range(low.shape[0]):
            total += cells.price[min(max(cells.home[v], low[v]), high[v])]
        if budget > 0 and total > budget:
            return n_steps, True
        for k in range(n_places):
            set_ends(ties, cells, (budget, total), (low, high), k, (least, most))
            if least[k] > most[k]:
                return n_steps, True
        for r in range(ties.bound.shape[0]):
            for sign in (1.0, -1.0):
                if sign < 0 and not ties.is_equal[r]:
                    continue
                lowest, size = 0.0, abs(ties.bound[r]) + 1e-290
                for k in range(n_places):
                    a = sign * ties.factor[r, k]
                    if a != 0.0:
                        lowest += a * (least[k] if a > 0.0 else most[k])
                        size += abs(a) * max(abs(least[k]), abs(most[k]))
                if not size < 1e300:
                    continue
                room = sign * ties.bound[r] - lowest + SLACK * size
                if room < 0.0:
                    return n_steps, True
                for k in range(n_places):
                    a, v = sign * ties.factor[r, k], ties.at[k]
                    if a > 0.0:
                        while low[v] < high[v] and a * (ties.low[ties.skip[k] + high[v]] - least[k]) > room:
                            high[v] -= 1
                            n_steps = note(steps, n_steps, v, high[v], 1)
                        while low[v] < high[v] and a * (ties.low[ties.skip[k] + low[v]] - least[k]) > room:
                            low[v] += 1
                            n_steps = note(steps, n_steps, v, low[v] - 1, 0)
                    elif a < 0.0:
                        while low[v] < high[v] and a * (ties.high[ties.skip[k] + low[v]] - most[k]) > room:
                            low[v] += 1
                            n_steps = note(steps, n_steps, v, low[v] - 1, 0)
                        while low[v] < high[v] and a * (ties.high[ties.skip[k] + high[v]] - most[k]) > room:
                            high[v] -= 1
                            n_steps = note(steps, n_steps, v, high[v], 1)
        for i in range(ties.then.shape[0]):
            n_steps = imply(ties, i, low, high, steps, n_steps)
            if n_steps < 0:
                return -1 - n_steps, True
        if budget > 0:
            for v in range(low.shape[0]):
                rest = budget - total + cells.price[min(max(cells.home[v], low[v]), high[v])]
                while low[v] < high[v] and cells.price[high[v]] > rest:
                    high[v] -= 1
                    n_steps = note(steps, n_steps, v, high[v], 1)
                while low[v] < high[v] and cells.price[low[v]] > rest:
                    low[v] += 1
                    n_steps = note(steps, n_steps, v, low[v] - 1, 0)
        if n_steps == before:
            break
    return n_steps, False


@kernel
def ends_of(ties, cells, budget, low, high):
    """Return between what columns are in a box; see `set_ends`."""
    least, most, total = ties.start.copy(), ties.start.copy(), 0
    for v in range(low.shape[0]):
        total += cells.price[min(max(cells.home[v], low[v]), high[v])]
    for k in range(ties.at.shape[0]):
        set_ends(ties, cells, (budget, total), (low, high), k, (least, most))
    return least, most


@kernel
def note(steps, n_steps, v, cell, is_upper):
    """Write down that a box was cut after a cell."""
    steps[n_steps, 0], steps[n_steps, 1], steps[n_steps, 2] = v, cell, is_upper
    return n_steps + 1


@kernel
def set_ends(ties, cells, costs, box, k, ends):
    """Set between what a column is in a box, as far as what all others cost at least lets it go."""
    (budget, total), (low, high), (least, most) = costs, box, ends
    v = ties.at[k]
    least[k], most[k] = ties.low[ties.skip[k] + low[v]], ties.high[ties.skip[k] + low[v]]
    for c in range(low[v] + 1, high[v] + 1):
        least[k] = min(least[k], ties.low[ties.skip[k] + c])
        most[k] = max(most[k], ties.high[ties.skip[k] + c])
    if budget == 0 or not ties.reach[0, k] + ties.reach[1, k] < 1e300:
        return
    rest = budget - total + cells.price[min(max(cells.home[v], low[v]), high[v])]
    if ties.power == 0.0:
        if rest < ties.reach[0, k]:
            least[k], most[k] = max(least[k], ties.start[k]), min(most[k], ties.start[k])
        return
    share = (max(rest, 0) / budget) ** (1.0 / ties.power) * (1.0 + 1e-9)
    away = abs(ties.start[k]) * 1e-15
    least[k] = max(least[k], ties.start[k] - ties.reach[0, k] * share - away)
    most[k] = min(most[k], ties.start[k] + ties.reach[1, k] * share + away)


@kernel
def state(ties, j, low, high):
    """Tell whether a condition holds in a box: 1 everywhere, 0 nowhere, 2 somewhere."""
    v = ties.about[j]
    found = ties.holds[ties.of[j] + low[v]]
    for c in range(low[v] + 1, high[v] + 1):
        if ties.holds[ties.of[j] + c] != found:
            return 2
    return found


@kernel
def imply(ties, i, low, high, steps, n_steps):
    """Drop cells in which an implication must fail; return how often so far, or -1 less that: nothing is left."""
    n_open, where = 0, -1
    for j in range(ties.then[i], ties.first[i + 1]):
        said = state(ties, j, low, high)
        if said == 0:
            return n_steps
        if said == 2:
            n_open, where = n_open + 1, j
    if n_open > 1:
        return n_steps
    if n_open == 1:  # it must not hold if what follows cannot
        may_follow = True
        for j in range(ties.first[i], ties.then[i]):
            may_follow &= state(ties, j, low, high) != 0
        return n_steps if may_follow else drop(ties, where, 1, low, high, steps, n_steps)
    for j in range(ties.first[i], ties.then[i]):
        n_steps = drop(ties, j, 0, low, high, steps, n_steps)
        if n_steps < 0:
            return n_steps
    return n_steps


@kernel
def drop(ties, j, said, low, high, steps, n_steps):
    """Drop cells at the ends of a variable in which a condition is as said; see `imply`."""
    v = ties.about[j]
    if state(ties, j, low, high) == said:
        return -1 - n_steps
    while low[v] < high[v] and ties.holds[ties.of[j] + high[v]] == said:
        high[v] -= 1
        n_steps = note(steps, n_steps, v, high[v], 1)
    while low[v] < high[v] and ties.holds[ties.of[j] + low[v]] == said:
        low[v] += 1
        n_steps = note(steps, n_steps, v, low[v] - 1, 0)
    return n_steps

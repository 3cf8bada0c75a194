"""The nearest point at which linear relations hold, with multipliers that tell what that costs.

For multipliers m of relations ``factor @ z <= bound`` (at least 0, but for equations), every z that keeps these costs
at least ::

    sum over columns  min over z between low and high [ price(z) + (m @ factor) * z ]   -   m @ bound

One multiplier after the other is set to where that is largest, which is where its relation holds just so.
"""

import math

from certiforest.compiled import kernel

# A relation is left alone where it holds to within this share of what its columns can differ by.
NEAR = 1e-13
# Rounds in which relations leave each other less room.
N_ROUNDS = 8
# Multipliers beyond this mean that no point keeps the relations.
MOST = 1e30


@kernel
def pull(region, factor, bound, is_equal, power, n_sweeps, multiplier, point):
    """Set multipliers (n_relations,) and the point (n_columns,) at which the cost is least for them.

    ``region`` (4, n_columns) holds where columns begin, where they may be at least and at most, and the weight of
    moves: the price of one is its weight times its size to the power ``power``, above 1. Return whether all hold there.
    """
    slope = slope_of(multiplier, factor)
    for _ in range(n_sweeps):
        is_near = True
        for r in range(bound.shape[0]):
            size = 1e-300
            for k in range(slope.shape[0]):
                size += abs(factor[r, k]) * (region[2, k] - region[1, k])
            excess = excess_at(region, factor, bound, power, slope, r, 0.0)
            least = -math.inf if is_equal[r] else -multiplier[r]
            if abs(excess) <= NEAR * size or (excess < 0.0 and least == 0.0):
                continue
            is_near = False
            step = 1e-6
            if excess > 0.0:
                low, high = 0.0, step
                while excess_at(region, factor, bound, power, slope, r, high) > 0.0 and high < MOST:
                    low, high = high, 8.0 * high
            else:
                low, high = max(-step, least), 0.0
                while low > least and excess_at(region, factor, bound, power, slope, r, low) < 0.0 and low > -MOST:
                    low, high = max(8.0 * low, least), low
            for _ in range(60):
                middle = 0.5 * (low + high)
                if excess_at(region, factor, bound, power, slope, r, middle) > 0.0:
                    low = middle
                else:
                    high = middle
            multiplier[r] += high
            for k in range(slope.shape[0]):
                slope[k] += high * factor[r, k]
            if abs(high) >= MOST / 8.0:
                return False
        if is_near:
            break
    for k in range(slope.shape[0]):
        point[k] = place(region, power, k, slope[k])
    for r in range(bound.shape[0]):
        size = 1e-300
        for k in range(slope.shape[0]):
            size += abs(factor[r, k]) * (region[2, k] - region[1, k])
        excess = excess_at(region, factor, bound, power, slope, r, 0.0)
        if excess > 1e-6 * size or (is_equal[r] and excess < -1e-6 * size):
            return False
    return True


@kernel
def slope_of(multiplier, factor):
    """Return the weighted sum of the rows of a matrix."""
    total = 0.0 * factor[0]
    for r in range(multiplier.shape[0]):
        total += multiplier[r] * factor[r]
    return total


@kernel
def place(region, power, k, slope):
    """Return where a column is best, given what a step up costs."""
    size = (abs(slope) / (power * region[3, k])) ** (1.0 / (power - 1.0))
    return min(max(region[0, k] - math.copysign(size, slope), region[1, k]), region[2, k])


@kernel
def excess_at(region, factor, bound, power, slope, r, step):
    """Return how far a relation is from its bound where columns are best, its multiplier raised by a step."""
    total = -bound[r]
    for k in range(slope.shape[0]):
        if factor[r, k] != 0.0:
            total += factor[r, k] * place(region, power, k, slope[k] + step * factor[r, k])
    return total


@kernel
def settle(region, factor, bound, sign, is_whole, value):
    """Set values (n_columns,) near what they are, one by one, so that relations hold about; tell whether they can.

    ``region`` (3, n_columns) holds where columns begin, where they may be at least and at most, which changes; ``sign``
    (n_relations,) is 0 for equations, -1 where a sum must stay below its bound, else 1.
    """
    start, low, high = region[0], region[1], region[2]
    if not leave_room(low, high, factor, bound, sign, is_whole):
        return False
    for k in range(value.shape[0]):
        near = value[k]
        if abs(near - start[k]) <= abs(near) * 1e-9:
            near = start[k]
        near = min(max(near, low[k]), high[k])
        if is_whole[k]:
            near = min(max(round(near), math.ceil(low[k])), math.floor(high[k]))
        value[k] = low[k] = high[k] = near
        if not leave_room(low, high, factor, bound, sign, is_whole):
            return False
    return True


@kernel
def leave_room(low, high, factor, bound, sign, is_whole):
    """Take from the ends of columns what relations leave no room for; tell whether something is left."""
    for _ in range(N_ROUNDS):
        has_changed = False
        for i in range(2 * bound.shape[0]):
            r, way = i // 2, 1.0 - 2.0 * (i % 2)
            if way < 0.0 and sign[r] != 0:
                continue
            least, size, width = 0.0, abs(bound[r]), 0.0
            for k in range(low.shape[0]):
                a = way * factor[r, k]
                if a != 0.0:
                    end = a * (low[k] if a > 0.0 else high[k])
                    least, size, width = least + end, size + abs(end), width + abs(a) * (high[k] - low[k])
            room = way * bound[r] - least
            if room < -1e-15 * size or (sign[r] < 0 and room <= 0.0):
                return False
            room = max(room, 0.0)
            if sign[r] < 0:  # some way below the bound
                room -= min(room, width) * 2.0**-20
            for k in range(low.shape[0]):
                a = way * factor[r, k]
                if a == 0.0 or abs(a) * (high[k] - low[k]) <= room * (1.0 + 1e-12):
                    continue
                has_changed = True
                if a > 0.0:
                    high[k] = math.floor(low[k] + room / a) if is_whole[k] else low[k] + room / a
                else:
                    low[k] = math.ceil(high[k] + room / a) if is_whole[k] else high[k] + room / a
        if not has_changed:
            break
    return True

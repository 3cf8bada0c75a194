"""The referee: brute force over every cell of a small ensemble, in exact rationals.

Nothing here shares code with the package. Trees are nested tuples ``(feature, threshold, left, right)``, and leaves are
a class index, or a list of scores where a case has a base to add them to. The thresholds of all trees cut each feature
into intervals on which nothing changes; the best an attacker can do within an interval is to go to its float nearest to
the row. All combinations of intervals are tried. A group of one-hot columns takes one category after the other. A split
may have a set of values in place of a threshold, and says at its end whether NaN, a value that is missing, goes left.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from fractions import Fraction

INF = math.inf
LARGEST = 1.7976931348623157e308


@dataclass(frozen=True)
class Case:
    """One row, one ensemble, one attacker."""

    trees: list
    n_features: int
    n_classes: int
    x: list[float]
    norm: float
    eps: float
    scale: list[float] | None = None
    frozen: list[int] | None = None
    domain: tuple[list[float], list[float]] | None = None
    base: list[float] | None = None
    direction: dict[int, str] | None = None
    integer: list[int] | None = None
    groups: list[list[int]] | None = None
    scale_up: list[float] | None = None  # where it differs from that of moves down, which is in scale
    # by feature, or by -1 - g for group g: (is_numerical, pre, post, cost); the budget is eps, and norm is 1
    rules: dict[int, list[tuple[bool, list[float], float, float]]] | None = None
    free: tuple[int, ...] = ()  # where there are rules: columns that move without, as numbers or categories
    codes: dict[int, list[float]] | None = None  # of columns of categories: all values that there are
    names: dict[int, list] | None = None  # of these, if the model lists them: text for 0, 1, 2, ..., or the codes
    required: tuple[int, ...] = ()  # columns that are never missing
    categories: dict[int, float] | None = None  # of some of them, what a change costs
    missing: float | None = None  # what it costs to blank or to fill
    blanks: dict[int, tuple[float, float]] | None = None  # numbers that count as missing, where nobody can go


def goes_left(split, x) -> bool:
    f, v, _, _, *missing_left = split
    if math.isnan(x[f]):
        return missing_left[0]
    return x[f] in v if isinstance(v, frozenset) else x[f] <= v


def leaf_of(tree, x):
    while isinstance(tree, tuple):
        tree = tree[2] if goes_left(tree, x) else tree[3]
    return tree


def predict(case: Case, x):
    leaves = [leaf_of(tree, x) for tree in case.trees]
    if case.base is None:
        votes = [leaves.count(c) for c in range(case.n_classes)]
        return votes.index(max(votes))
    sums = exact_sums(case.base, leaves)
    return int(sums[0] > 0) if len(sums) == 1 < case.n_classes else sums.index(max(sums))


def exact_sums(base, leaves) -> list[Fraction]:
    return [sum(map(Fraction, column), Fraction(0)) for column in zip(base, *leaves, strict=True)]


def splits(tree):
    if isinstance(tree, tuple):
        yield tree[:2]
        yield from splits(tree[2])
        yield from splits(tree[3])


def is_held(case: Case, f: int) -> bool:
    is_untold = f in (case.codes or {}) and f not in (case.categories or {})
    return is_untold or (case.frozen is not None and f in case.frozen)


def told_price(case: Case, cost: float) -> Fraction:
    return Fraction(1) if case.norm == 0 else Fraction(cost) if case.norm == INF else Fraction(cost) ** int(case.norm)


def group_of(case: Case, f: int) -> list[int] | None:
    return next((group for group in case.groups or [] if f in group), None)


def reachable_values(case: Case, f: int) -> list[tuple[float, Fraction]]:
    """The values that matter for feature f, and what each costs; one more where it can go missing, or be filled."""
    x, stay = case.x[f], [(case.x[f], Fraction(0))]
    if is_held(case, f):
        return stay
    low, high = (-INF, INF) if case.domain is None else (case.domain[0][f], case.domain[1][f])
    if f in (case.codes or {}):
        first, last = (case.blanks or {}).get(f, (INF, INF))
        others = [v for v in case.codes[f] if low <= v <= high and v != x and not first <= v <= last]
        values = stay + [(code, told_price(case, case.categories[f])) for code in others]
    elif math.isnan(x):
        start = min(max(0.0, low), high)
        filled = replace(case, direction=None, x=[*case.x[:f], start, *case.x[f + 1 :]])
        values = nearest_values(filled, f, start)
    else:
        values = nearest_values(case, f, x)
    if case.missing is None or f in case.required:
        return stay if math.isnan(x) else values
    price = told_price(case, case.missing)
    if math.isnan(x):
        return stay + [(z, price) for z, _ in values if not math.isnan(z)]
    return [*values, (math.nan, price)]


def nearest_values(case: Case, f: int, x: float) -> list[tuple[float, Fraction]]:
    """The cheapest float of each interval of feature f, and the price of going there (p-th power of the move)."""
    low, high = (-INF, INF) if case.domain is None else (case.domain[0][f], case.domain[1][f])
    low, high = max(low, -LARGEST), min(high, LARGEST)
    way = (case.direction or {}).get(f, "both")
    low, high = x if way == "up" else low, x if way == "down" else high
    is_whole = case.integer is not None and f in case.integer
    cuts = sorted({v for tree in case.trees for g, v in splits(tree) if g == f and not isinstance(v, frozenset)})
    blank = (case.blanks or {}).get(f)
    if blank is not None:
        cuts = sorted({*cuts, math.nextafter(blank[0], -INF), blank[1]})
    values = []
    for left, right in itertools.pairwise([None, *cuts, None]):
        if blank is not None and right is not None and blank[0] <= right <= blank[1]:
            continue
        start = low if left is None else max(low, math.nextafter(left, INF))
        stop = high if right is None else min(high, right)
        if is_whole and start <= stop:
            start, stop = float(math.ceil(start)), float(math.floor(stop))
        if start <= stop:
            z = min(max(x, start), stop)
            values.append((z, price(case, f, z)))
    return values


def price(case: Case, f: int, z: float) -> Fraction:
    if z == case.x[f]:
        return Fraction(0)
    if case.norm == 0:
        return Fraction(1)
    scale = 1.0 if case.scale is None else case.scale[f]
    if z > case.x[f] and case.scale_up is not None:
        scale = case.scale_up[f]
    move = abs(Fraction(z) - Fraction(case.x[f])) / Fraction(scale)
    return move if case.norm == INF else move ** int(case.norm)


def values_by_rules(case: Case, key: int) -> dict[float, Fraction]:
    """The values that rules lead to, and their least costs, by trying all rules on all values until nothing changes."""
    start = case.x[key] if key >= 0 else [case.x[f] for f in case.groups[-1 - key]].index(1.0)
    best = {float(start): Fraction(0)}
    while True:
        before = dict(best)
        for value, cost in before.items():
            for is_numerical, pre, post, price in case.rules[key]:
                if is_numerical:
                    new = value + post if pre[0] <= value <= pre[1] else None
                else:
                    new = post if value in pre else None
                total_cost = cost + Fraction(price)
                if new is not None and total_cost <= Fraction(case.eps):
                    best[new] = min(best.get(new, total_cost), total_cost)
        if best == before:
            return best


def choices_by_rules(case: Case) -> list[list[tuple[dict[int, float], Fraction]]]:
    found = []
    for key in case.rules:
        options = values_by_rules(case, key).items()
        if key >= 0:  # of the values between two thresholds the cheapest will do
            cuts = [v for tree in case.trees for f, v in splits(tree) if f == key]
            cells: dict[tuple[bool, ...], tuple[Fraction, float]] = {}
            for z, cost in options:
                cell = tuple(z in v if isinstance(v, frozenset) else v < z for v in cuts)
                cells[cell] = min(cells.get(cell, (cost, z)), (cost, z))
            found.append([({key: z}, cost) for cost, z in cells.values()])
        else:
            group = case.groups[-1 - key]
            found.append([({f: float(i == z) for i, f in enumerate(group)}, cost) for z, cost in options])
    return found


def price_by_rules(case: Case, z: list[float]) -> Fraction | None:
    both = enumerate(zip(case.x, z, strict=True))
    prices, left = [], {f for f, (a, b) in both if a != b and not (math.isnan(a) and math.isnan(b))}
    for key in case.rules:
        columns = [key] if key >= 0 else case.groups[-1 - key]
        if key < 0 and sorted(z[f] for f in columns) != [0.0] * (len(columns) - 1) + [1.0]:
            return None
        target = z[key] if key >= 0 else float([z[f] for f in columns].index(1.0))
        if target not in (values := values_by_rules(case, key)):
            return None
        prices.append(values[target])
        left -= set(columns)
    return None if left else sum(prices, Fraction(0))


def without_rules(case: Case) -> Case:
    """Return the same attacker without rules, whose columns then stay."""
    return replace(case, rules=None, frozen=[f for f in range(case.n_features) if f not in case.free])


def choices(case: Case) -> list[list[tuple[dict[int, float], Fraction]]]:
    """For each variable, what it can do: new values by feature, and what that costs."""
    if case.rules is not None:
        return [*(choices(without_rules(case)) if case.free else []), *choices_by_rules(case)]
    used = {f for tree in case.trees for f, _ in splits(tree)}
    found = []
    for f in sorted(used):
        if group_of(case, f) is None:
            found.append([({f: z}, cost) for z, cost in reachable_values(case, f)])
    for group in case.groups or []:
        if not used & set(group):
            continue
        options = [({f: case.x[f] for f in group}, Fraction(0))]
        for chosen in group if not any(is_held(case, f) for f in group) else []:
            if case.x[chosen] != 1:
                options.append(({f: float(f == chosen) for f in group}, price(case, chosen, 1.0)))
        found.append(options)
    return found


def price_of_row(case: Case, z: list[float]) -> Fraction | None:
    """The price of another row, None if no attacker could get there, whatever the budget."""
    if case.rules is not None:
        ruled = {f for key in case.rules for f in ([key] if key >= 0 else case.groups[-1 - key])}
        others = [x if f in ruled else value for f, (x, value) in enumerate(zip(case.x, z, strict=True))]
        moved = [value if f in ruled else x for f, (x, value) in enumerate(zip(case.x, z, strict=True))]
        if not case.free:
            return price_by_rules(case, z)
        prices = price_of_row(without_rules(case), others), price_by_rules(case, moved)
        return None if None in prices else sum(prices)
    prices = []
    for f, (x, value) in enumerate(zip(case.x, z, strict=True)):
        group, is_moved = group_of(case, f), value != x and not (math.isnan(x) and math.isnan(value))
        if group is not None:
            if sorted(z[g] for g in group) != [0.0] * (len(group) - 1) + [1.0]:
                return None
            if value == 1 != x:
                prices.append(price(case, f, value))
        elif is_moved and (f in (case.codes or {}) or math.isnan(x + value)):
            cost = case.missing if math.isnan(x + value) else (case.categories or {}).get(f)
            is_known = math.isnan(value) or f not in (case.codes or {}) or value in case.codes[f]
            is_whole = math.isnan(value) or f not in (case.integer or ()) or value % 1 == 0
            if math.isnan(x + value) and f in case.required:
                return None
            if cost is None or not is_known or not is_whole or is_held(case, f):
                return None
            prices.append(told_price(case, cost))
        elif is_moved:
            way = (case.direction or {}).get(f, "both")
            if (way == "up" and value < x) or (way == "down" and value > x):
                return None
            if case.integer is not None and f in case.integer and value != math.floor(value):
                return None
            prices.append(price(case, f, value))
        if is_moved and is_held(case, f):
            return None
        if case.blanks and f in case.blanks and case.blanks[f][0] <= value <= case.blanks[f][1]:
            return None
        if case.domain is not None and (value < case.domain[0][f] or value > case.domain[1][f]):
            return None
    return total(case, prices or [Fraction(0)])


def total(case: Case, prices) -> Fraction:
    return max(prices) if case.norm == INF else sum(prices)


def budget(case: Case, eps: float) -> Fraction:
    return Fraction(eps) if case.norm in (0, INF) else Fraction(eps) ** int(case.norm)


def cheapest_change(case: Case) -> Fraction | None:
    """The least price (p-th power of a norm) at which the prediction changes, None if it never does."""
    own = predict(case, case.x)
    best = None
    z = list(case.x)
    for choice in itertools.product(*choices(case)):
        cost = total(case, [p for _, p in choice]) if choice else Fraction(0)
        if best is not None and cost >= best:
            continue
        for values, _ in choice:
            for f, value in values.items():
                z[f] = value
        if predict(case, z) != own:
            best = cost
    return best

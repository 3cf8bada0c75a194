"""Small cases, drawn so that ties, boundaries and degenerate shapes are the rule and not the exception.

Thresholds, rows and budgets come from one coarse grid, and then move a float step up or down now and then: half of
all rows sit on or right beside a threshold, half of all budgets are exactly, or nearly, the price of some attack.
Scores are few and round, or one float beside that, and the base often brings some sum to a tie, or nearly.

`extreme_case` does the same with numbers from one end of the floats to the other, mixed within one case, and
`real_case` with attackers as they are: one way, by whole numbers, by category, dearer one way than the other.
"""

from __future__ import annotations

import itertools
import math
import random
from dataclasses import replace
from fractions import Fraction

from certiforest import Attacker, Nodes, RuleAttacker, TreeEnsemble
from oracle import Case, exact_sums, group_of, leaf_of, price, splits

NORMS = [0, 1, 2, 3, math.inf]
LARGEST = 1.7976931348623157e308
# Sizes at which something about floats changes: the ends, where they lose bits, where powers and sums overflow.
SIZES = [
    5e-324, 1.5e-323, 2.2250738585072014e-308, 4e-308, 1e-300, 1e-162, 1e-108, 1e-20, 0.1, 1.0, 3.0, 2.0**53, 1e103,
    1e154, 1e300, LARGEST / 4, LARGEST / 3, LARGEST / 2, 2.0**1023, LARGEST,
]  # fmt: skip


def random_case(
    rng: random.Random, *, norm: float | None = None, apart: bool | None = None, combine: str = "vote"
) -> Case:
    """Draw a case; ``apart`` keeps the features of different trees apart, which large spread does in the extreme."""
    norm = rng.choice(NORMS) if norm is None else norm
    apart = rng.random() < 0.4 if apart is None else apart
    n_classes = rng.choice([2, 2, 2, 3, 4])
    n_trees = rng.randint(1, 5)
    n_features = rng.randint(1, 4)
    if apart:
        n_features = max(n_features, min(n_trees, 4))
        n_trees = min(n_trees, n_features)
    grid = rng.choice([[i / 8 for i in range(9)], [i / 10 for i in range(11)], [i * 0.37 - 1 for i in range(8)]])
    trees = []
    for t in range(n_trees):
        own = [f for f in range(n_features) if f % n_trees == t] if apart else list(range(n_features))
        trees.append(_tree(rng, rng.randint(0, 3 if n_trees < 4 else 2), own, grid, n_classes))
    x = [_value(rng, grid, trees, f) for f in range(n_features)]
    scale = [rng.choice([1.0, 0.5, 2.0, 0.3, 1.7]) for _ in x] if rng.random() < 0.25 else None
    frozen = [f for f in range(n_features) if rng.random() < 0.3] if rng.random() < 0.25 else None
    domain = None
    if rng.random() < 0.25:
        domain = [v - rng.choice(grid) for v in x], [v + rng.choice(grid) for v in x]
        domain = (
            [min(a, v) for a, v in zip(domain[0], x, strict=True)],
            [max(b, v) for b, v in zip(domain[1], x, strict=True)],
        )
    case = Case(trees, n_features, n_classes, x, norm, 0.0, scale, frozen, domain)
    case = replace(case, eps=_eps(rng, case))
    return case if combine == "vote" else _with_scores(rng, case)


def crowded_case(rng: random.Random, *, norm: float | None = None, combine: str = "vote", n_trees: int = 2000) -> Case:
    """Draw a case of many small trees, which make few cells."""
    n_classes, n_features, norm = rng.choice([2, 3]), rng.choice([1, 2, 3]), rng.choice(NORMS) if norm is None else norm
    grid = [i / 8 for i in rng.sample(range(9), (9, 4, 2)[n_features - 1])]
    trees = [_tree(rng, rng.choice([1, 2]), range(n_features), grid, n_classes) for _ in range(n_trees)]
    case = Case(trees, n_features, n_classes, [_value(rng, grid, trees, f) for f in range(n_features)], norm, 0.0)
    case = replace(case, eps=_eps(rng, case))
    return case if combine == "vote" else _with_scores(rng, case)


def extreme_case(rng: random.Random, *, norm: float | None = None, combine: str = "vote") -> Case:
    """Draw a case whose numbers are of sizes from 5e-324 to 1.797e308, mixed."""
    norm = rng.choice(NORMS) if norm is None else norm
    n_classes, n_trees, n_features = rng.choice([2, 2, 3]), rng.choice([1, 2, 3, 3, 4]), rng.choice([1, 1, 2, 2, 3])
    grid = [_extreme(rng) for _ in range(rng.randint(1, 4))]
    grid += [a + b for a, b in itertools.pairwise(grid) if abs(a + b) <= LARGEST] + [v / 2 for v in grid[:1]]
    depth = 2 if n_trees < 3 else 1
    trees = [_tree(rng, rng.randint(1, depth), range(n_features), grid, n_classes) for _ in range(n_trees)]
    x = [_inside(_value(rng, grid, trees, f)) for f in range(n_features)]
    scale = [abs(_extreme(rng)) or 1.0 for _ in x] if rng.random() < 0.4 else None
    frozen = [f for f in range(n_features) if rng.random() < 0.3] if rng.random() < 0.15 else None
    domain = None
    if rng.random() < 0.3:
        ends = (
            [sorted([v, rng.choice([v, *grid, -math.inf])]) for v in x],
            [sorted([v, rng.choice([v, *grid, math.inf])]) for v in x],
        )
        domain = [low for low, _ in ends[0]], [high for _, high in ends[1]]
    case = Case(trees, n_features, n_classes, x, norm, 0.0, scale, frozen, domain)
    eps = _eps(rng, case) if rng.random() < 0.8 or norm == 0 else abs(_extreme(rng))
    while norm > 0 and scale is not None and Fraction(eps) * Fraction(max(scale)) > LARGEST:  # which is refused
        eps = min(LARGEST / max(scale), eps / 2)
    case = replace(case, eps=eps)
    # Sums of scores that could overflow are refused.
    return case if combine == "vote" else _with_scores(rng, case, [min(max(v, -1e306), 1e306) for v in grid])


def more_rows(rng: random.Random, case: Case, n_rows: int) -> list[Case]:
    """Draw further rows for the ensemble and the attacker of a case of numbers."""
    low, high = case.domain or ([-LARGEST] * case.n_features, [LARGEST] * case.n_features)
    rows = (
        [_inside(min(max(_value(rng, [v], case.trees, f), low[f]), high[f])) for f, v in enumerate(case.x)]
        for _ in range(n_rows)
    )
    return [replace(case, x=x) for x in rows]


def real_case(
    rng: random.Random, *, norm: float | None = None, apart: bool | None = None, combine: str = "vote"
) -> Case:
    """Draw a case with directions, whole columns, groups and a scale for each direction, any of them."""
    case = random_case(rng, norm=norm, apart=apart, combine=combine)
    n_features, trees = case.n_features, case.trees
    groups = None
    if rng.random() < 0.5:
        groups = []
        for _ in range(rng.choice([1, 1, 2])):
            size = rng.choice([2, 2, 3])
            groups.append(list(range(n_features, n_features + size)))
            n_features += size
        if rng.random() < 0.3:
            rng.shuffle(groups[0])
        cuts = [0.0, 0.5, 0.5, 0.5, math.nextafter(1.0, 0.0), 1.0, -0.5, 5e-324]
        trees = [_with_columns(rng, tree, [f for group in groups for f in group], cuts) for tree in trees]
    integer = [f for f in range(case.n_features) if rng.random() < 0.6] if rng.random() < 0.6 else None
    if integer is not None:
        factor = rng.choice([1, 4, 8])
        trees = [_stretched(rng, tree, integer, factor) for tree in trees]
    x = list(case.x)
    for f in integer or []:
        near = [v for tree in trees for g, v in splits(tree) if g == f] or [0.0]
        x[f] = float(math.floor(rng.choice(near)) + rng.choice([-1, 0, 0, 1, 1, 2]))
    for group in groups or []:
        chosen = rng.choice(group)
        x += [0.0] * len(group)
        for f in group:
            x[f] = float(f == chosen)
    n_more = n_features - case.n_features
    scale, scale_up = case.scale, None
    if rng.random() < 0.3:
        scale = scale or [rng.choice([1.0, 2.0, 0.3]) for _ in range(case.n_features)]
        scale_up = [rng.choice([s, s, 0.5, 3.0]) for s in scale]
    if scale is not None:
        for group in groups or []:
            unit = rng.choice([1.0, 1.0, 0.5, 0.3, 4.0])
            scale = scale + [unit] * len(group)
            scale_up = None if scale_up is None else scale_up + [unit] * len(group)
    frozen = case.frozen
    if frozen is not None and groups and rng.random() < 0.3:
        frozen = frozen + sorted(groups[-1])
    domain = None
    if case.domain is not None:
        low, high = ([*side, *[end] * n_more] for side, end in zip(case.domain, (0.0, 1.0), strict=True))
        domain = [min(a, v) for a, v in zip(low, x, strict=True)], [max(b, v) for b, v in zip(high, x, strict=True)]
    direction = None
    if rng.random() < 0.6:
        direction = {f: rng.choice(["up", "down", "both"]) for f in range(case.n_features) if rng.random() < 0.7}
    case = replace(
        case, trees=trees, n_features=n_features, x=x, scale=scale, scale_up=scale_up, frozen=frozen, domain=domain,
        direction=direction, integer=integer, groups=groups,
    )  # fmt: skip
    if case.norm == 0:
        return case
    if integer and rng.random() < 0.4:
        return replace(case, eps=rng.choice([0.5, 1.0, math.nextafter(1.0, 0.0), 1.5, 2.0, 3.0]))
    return replace(case, eps=_eps(rng, case) if rng.random() < 0.7 else rng.choice([1.0, 2.0, 1 / 3, 0.25, 3.5]))


def rule_case(rng: random.Random, *, combine: str = "vote", apart: bool | None = None) -> Case:
    """Draw a case whose attacker moves by rules: several on a column, up and down, in circles, of all prices."""
    case = real_case(rng, norm=1, combine=combine, apart=apart)
    case = replace(case, scale=None, scale_up=None, frozen=None, domain=None, direction=None, integer=None)
    costs, rules = rng.choice([[1, 2, 3], [10, 20, 20, 50], [0.1, 0.3, 0.7], [1]]), {}
    for f in range(case.n_features):
        if group_of(case, f) is None and rng.random() < 0.8:
            cuts = [v for tree in case.trees for g, v in splits(tree) if g == f] or [0.0]
            rules[f] = _rules(rng, [*cuts, case.x[f]], costs)
    for g, group in enumerate(case.groups or []):
        if rng.random() < 0.8:
            places = [float(i) for i in range(len(group))]
            drawn = [(False, rng.sample(places, rng.randint(1, len(places))), rng.choice(places)) for _ in range(2)]
            rules[-1 - g] = [(*rule, rng.choice(costs)) for i, rule in enumerate(drawn) if rule not in drawn[:i]]
    budget = rng.choice(costs) * rng.choice([0, 1, 1, 2, 3, 5]) + rng.choice([0, 0, 0, rng.choice(costs)])
    return replace(case, rules=rules, eps=float(_step(rng, float(budget), 0.2) if budget else 0.0))


def _rules(rng, values, costs):
    if rng.random() < 0.3:
        near = [v for value in values for v in (value, math.nextafter(value, math.inf))]
        drawn = [(False, sorted(set(rng.sample(near, 2))), rng.choice(near)) for _ in range(rng.randint(1, 3))]
    else:
        ends = [-math.inf, math.inf, *values, *(v + 0.5 for v in values)]
        steps = [0.125, 0.1, 0.37, 1.0, 2.0, -0.125, -0.1, -1.0]
        drawn = [(True, sorted(rng.sample(ends, 2)), rng.choice(steps)) for _ in range(rng.randint(1, 3))]
    return [(*rule, rng.choice(costs)) for i, rule in enumerate(drawn) if rule not in drawn[:i]]


def _with_columns(rng, tree, columns, cuts):
    """Let some splits test one-hot columns, and some leaves become such splits."""
    if not isinstance(tree, tuple):
        return tree
    f, v, left, right = tree
    if rng.random() < 0.6:
        f, v = rng.choice(columns), rng.choice(cuts)
    return f, v, _with_columns(rng, left, columns, cuts), _with_columns(rng, right, columns, cuts)


def _stretched(rng, tree, integer, factor):
    """Give thresholds on whole columns room for whole numbers."""
    if not isinstance(tree, tuple):
        return tree
    f, v, left, right = tree
    if f in integer:
        v = _step(rng, rng.choice([v * factor, float(round(v * factor)), round(v * factor) + 0.5]), 0.2)
    return f, v, _stretched(rng, left, integer, factor), _stretched(rng, right, integer, factor)


def _extreme(rng):
    size = rng.choice(SIZES) if rng.random() < 0.6 else 10 ** rng.uniform(-323, 308.25)
    return rng.choice([-1, 1, 1]) * _inside(_step(rng, size, 0.2)) * rng.choice([0, 1, 1, 1, 1, 1, 1, 1])


def _inside(value):
    return min(max(value, -LARGEST), LARGEST)


def _with_scores(rng, case, grid=None):
    n_outputs = 1 if case.n_classes == 2 and rng.random() < 0.7 else case.n_classes
    grid = grid or rng.choice([
        [-1.0, 1.0], [i / 4 for i in range(-4, 5)], [i / 10 for i in range(-5, 6)],
        [-1e16, -3.0, -0.1, 1e-20, 0.3, 2.0, 1e16], [-1e-300, 5e-324, 1e-300, 3e-300],
    ])  # fmt: skip

    def scored(tree):
        if isinstance(tree, tuple):
            return (*tree[:2], scored(tree[2]), scored(tree[3]))
        return [_step(rng, rng.choice(grid), 0.1) for _ in range(n_outputs)]

    trees = [scored(tree) for tree in case.trees]
    base = [rng.choice([0.0, *grid]) for _ in range(n_outputs)]
    if rng.random() < 0.6:
        # Bring the sums at some place to a tie, as nearly as floats can, or one float beside.
        cuts = [v for tree in trees for _, v in splits(tree)] or [0.0]
        place = [rng.choice([v, math.nextafter(rng.choice(cuts), math.inf)]) for v in case.x]
        sums = exact_sums([0.0] * n_outputs, [leaf_of(tree, place) for tree in trees])
        base = [_step(rng, float(-total), 0.3) for total in sums]
    return replace(case, trees=trees, base=base)


def _tree(rng, depth, features, grid, n_classes):
    if depth == 0 or rng.random() < 0.15:
        return rng.randrange(n_classes)
    v = _inside(_step(rng, rng.choice(grid), 0.15))
    sides = [_tree(rng, depth - 1, features, grid, n_classes) for _ in range(2)]
    return (rng.choice(features), v, *sides)


def _step(rng, value, chance):
    if rng.random() < chance:
        return math.nextafter(value, rng.choice([-math.inf, math.inf]))
    return value


def _value(rng, grid, trees, f):
    cuts = [v for tree in trees for g, v in splits(tree) if g == f]
    if cuts and rng.random() < 0.5:
        return _step(rng, rng.choice(cuts), 0.6)
    return _step(rng, rng.choice(grid) + rng.choice([0, 0, 0.03]), 0.1)


def _eps(rng, case):
    if case.norm == 0:
        return float(rng.choice([0, 0.5, 1, 1, 2, 3]))
    if rng.random() < 0.3:
        return rng.choice([0.0, 5e-324, 1e-200, 0.01, 0.05, 0.1, 0.125, 0.3, 0.625, 2.0])
    # Near the price of crossing one or two thresholds.
    moves = []
    for tree in case.trees:
        for f, v in splits(tree):
            target = v if case.x[f] > v else math.nextafter(v, math.inf)
            if case.integer is not None and f in case.integer:
                target = float(math.floor(target) if case.x[f] > v else math.ceil(target))
            if group_of(case, f) is not None:
                target = 1.0 - case.x[f]
            if target <= LARGEST:
                moves.append(price(case, f, target))
    if not moves:
        return 0.1
    chosen = rng.sample(moves, min(len(moves), rng.choice([1, 1, 2, 3])))
    eps = root(max(chosen), 1) if case.norm == math.inf else root(sum(chosen), case.norm)
    return min(max(0.0, _step(rng, eps, 0.6)), LARGEST)


def root(value: Fraction, exponent: int) -> float:
    """Return about the root of a rational, which may be out of the range of floats, or inf."""
    if value == 0:
        return 0.0
    shift = (value.numerator.bit_length() - value.denominator.bit_length()) // exponent
    near_one = float(value / Fraction(2) ** (shift * exponent)) ** (1 / exponent)
    return math.ldexp(near_one, shift) if shift < 1024 and near_one * 0.5 ** (1024 - shift) < 1 else math.inf


def ensemble_of(case: Case) -> TreeEnsemble:
    scores = None if case.base is None else []
    trees = [_nodes(tree, scores) for tree in case.trees]
    shape = {"n_features": case.n_features, "classes": list(range(case.n_classes))}
    return TreeEnsemble.from_trees(trees, **shape, scores=scores, base=case.base)


def _nodes(tree, scores) -> Nodes:
    left, right, feature, threshold, leaf = [], [], [], [], []

    def add(node):
        index = len(left)
        for column in (left, right, feature, threshold, leaf):
            column.append(-1)
        if isinstance(node, tuple):
            feature[index], threshold[index] = node[0], node[1]
            left[index], right[index] = add(node[2]), add(node[3])
        elif scores is None:
            leaf[index] = node
        else:
            leaf[index] = len(scores)
            scores.append(node)
        return index

    add(tree)
    return Nodes(left, right, feature, threshold, leaf)


def attacker_of(case: Case) -> Attacker:
    if case.rules is not None:
        groups = {f"group {g}": {f"c{i}": f for i, f in enumerate(group)} for g, group in enumerate(case.groups or [])}
        rules: dict = {}
        for key, found in case.rules.items():
            name = (lambda v: v) if key >= 0 else (lambda v: f"c{int(v)}")
            rules[key if key >= 0 else f"group {-1 - key}"] = [
                {"pre": pre if n else [name(v) for v in pre], "post": name(post), "cost": cost, "is_numerical": n}
                for n, pre, post, cost in found
            ]
        return RuleAttacker(rules, case.eps, groups=groups)
    scale = case.scale if case.scale_up is None else (case.scale, case.scale_up)
    more = {"direction": case.direction, "integer": case.integer, "groups": case.groups}
    more |= {"categories": case.categories, "missing": case.missing}
    return Attacker(case.norm, case.eps, scale, case.frozen, case.domain, **more)

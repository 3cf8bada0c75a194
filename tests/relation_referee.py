"""The referee of relations: every row in reach of small attackers is tried, in exact rationals.

    python tests/relation_referee.py --cases 20000 --seed 7

Columns hold whole numbers of a small domain, or one of a few values, so that rows in reach can be listed; nothing here
shares code with the package but what reads models and attackers. Where columns are not whole, a row is a witness only
if it is one exactly, and no row of a fine grid may contradict a verdict.
"""

from __future__ import annotations

import argparse
import itertools
import math
import random
import sys
from collections import Counter
from fractions import Fraction

import numpy as np

from certiforest import Attacker, Certifier, TreeEnsemble

LOW, HIGH = -3, 4


def random_tree(rng: random.Random, n: int, depth: int, is_whole: bool):
    if depth == 0 or rng.random() < 0.15:
        return rng.choice([-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0])
    cut = rng.randint(LOW, HIGH) + (0.5 if is_whole or rng.random() < 0.5 else 0.0)
    return rng.randrange(n), cut, random_tree(rng, n, depth - 1, is_whole), random_tree(rng, n, depth - 1, is_whole)


def flat(trees, votes: bool):
    feature, threshold, leaf, scores = [], [], [], []

    def add(tree):
        if isinstance(tree, tuple):
            feature.append(tree[0])
            threshold.append(tree[1])
            leaf.append(-1)
            add(tree[2])
            add(tree[3])
        else:
            feature.append(-1)
            threshold.append(0.0)
            leaf.append(int(tree > 0) if votes else len(scores))
            scores.append([tree])

    for tree in trees:
        add(tree)
    if votes:
        return dict(feature=feature, threshold=threshold, leaf=leaf)
    return dict(feature=feature, threshold=threshold, leaf=leaf, scores=scores, base=[0.25])


def score(trees, z, votes):
    total = 0.0
    for tree in trees:
        while isinstance(tree, tuple):
            tree = tree[2] if z[tree[0]] <= tree[1] else tree[3]
        total += (1 if tree > 0 else -1) if votes else tree
    return total if votes else total + 0.25


def random_relation(rng: random.Random, n: int):
    """Return a relation as text or mapping, and a function that evaluates it, independent of what reads it."""
    kind = rng.random()
    if kind < 0.6:
        columns = rng.sample(range(n), rng.randint(2, min(3, n)))
        factors = [rng.choice([-2, -1, -1, 1, 1, 2, 3, Fraction(1, 2)]) for _ in columns]
        sign = rng.choice(["<=", "<=", "<=", "<", "="])
        bound = rng.randint(-3, 5)
        text = " ".join(f"{'-' if a < 0 else '+'} {abs(a)} [{c}]" for a, c in zip(factors, columns, strict=True))

        def linear(z):
            total = sum(type(z[c])(a) * z[c] for a, c in zip(factors, columns, strict=True))
            return total <= bound if sign == "<=" else total < bound if sign == "<" else total == bound

        return f"{text} {sign} {bound}", linear
    if kind < 0.85:
        a, b = rng.sample(range(n), 2)
        p, q = rng.randint(LOW, HIGH), rng.randint(LOW, HIGH)
        up, down = rng.choice([True, False]), rng.choice([True, False])
        told = {"if": f"[{a}] {'>' if up else '<='} {p}", "then": f"[{b}] {'>=' if down else '<'} {q}"}
        return told, lambda z: not (z[a] > p if up else z[a] <= p) or (z[b] >= q if down else z[b] < q)
    column = rng.randrange(n)
    values = sorted(rng.sample(range(LOW, HIGH + 1), rng.randint(2, 4)))
    return {"column": column, "values": values}, lambda z: z[column] in values


def random_case(rng: random.Random):
    n = rng.randint(2, 4)
    is_whole = rng.random() < 0.6
    votes = rng.random() < 0.3
    group = [0, 1] if n == 4 and rng.random() < 0.3 else None
    trees = [random_tree(rng, n, rng.randint(1, 3), is_whole) for _ in range(rng.choice([1, 2, 3, 5]))]
    if not any(isinstance(tree, tuple) for tree in trees):
        trees[0] = (0, 0.5, -1.0, 1.0)
    norm = rng.choice([0, 1, 2, 2, 3, math.inf, math.inf])
    eps = rng.choice([0, 1, 2, 3] if norm == 0 else [0.5, 1.0, 1.5, 2.0, 3.0, 4.5])
    told, checks = zip(*(random_relation(rng, n) for _ in range(rng.randint(1, 4))), strict=True)
    x = [
        float(rng.randint(LOW, HIGH)) if is_whole or rng.random() < 0.5 else rng.randint(4 * LOW, 4 * HIGH) / 4
        for _ in range(n)
    ]
    low, high = [float(LOW)] * n, [float(HIGH)] * n
    if group:
        x[0], x[1] = rng.choice([(0.0, 1.0), (1.0, 0.0)])
    options = {"domain": (low, high), "relations": list(told)}
    if is_whole:
        options["integer"] = list(range(n)) if not group else list(range(2, n))
    if group:
        options["groups"] = [group]
    frozen = [f for f in range(2 if group else 0, n) if rng.random() < 0.15]
    if frozen:
        options["frozen"] = frozen
    scale = [1.0 if group and f < 2 else rng.choice([1.0, 1.0, 0.5, 2.0]) for f in range(n)]
    options["scale"] = scale
    return trees, votes, x, norm, eps, options, checks, is_whole, group, frozen, scale


def rows_in_reach(x, is_whole, group, frozen):
    """Yield rows of the domain: all of them where columns are whole, else those of a grid of quarters."""
    ways = []
    for f, value in enumerate(x):
        if f in frozen:
            ways.append([value])
        elif group and f in group:
            ways.append([0.0, 1.0])
        elif is_whole:
            ways.append([float(v) for v in range(LOW, HIGH + 1)])
        else:
            ways.append(sorted({v / 2 for v in range(2 * LOW, 2 * HIGH + 1)} | {value}))
    for z in itertools.product(*ways):
        if not group or z[0] + z[1] == 1:
            yield list(z)


def price(x, z, norm, scale, group):
    prices = []
    for f, (a, b) in enumerate(zip(x, z, strict=True)):
        if a == b or (group and f == group[1]):
            continue
        cost = abs(b - a) / scale[f]
        prices.append(1.0 if norm == 0 else cost if norm == math.inf else cost ** int(norm))
    return max(prices, default=0.0) if norm == math.inf else sum(prices)


def check(case, radius: bool = False) -> tuple[str, str]:
    """Return how a case came out, and what is wrong with it, if anything is."""
    trees, votes, x, norm, eps, options, checks, is_whole, group, frozen, scale = case
    try:
        attacker = Attacker(norm, eps, **options).resolve(len(x))
    except ValueError:
        return "refused", ""
    data = flat(trees, votes)
    ensemble = TreeEnsemble(**data, n_features=len(x), classes=[0, 1])
    own = score(trees, x, votes) > 0
    bound = [check for check in checks if check(x)]
    budget = Fraction(eps) ** (int(norm) if 0 < norm < math.inf else 1)
    found = Certifier(ensemble, attacker, witness=True, radius=radius, n_jobs=1, time_limit=20).certify(np.array([x]))
    stable = int(found.stable[0])

    def is_attack(z):
        return (score(trees, z, votes) > 0) != own and all(check(z) for check in bound)

    best = None
    for z in rows_in_reach(x, is_whole, group, frozen):
        cost = price(x, z, norm, scale, group)  # all numbers are short and binary: floats are exact
        if (best is None or cost < best) and is_attack(z):
            best = cost
    if stable == 0:
        z = found.witness[0].tolist()
        exact = [list(map(Fraction, row)) for row in (x, z)]
        is_sound = (
            price(*exact, norm, list(map(Fraction, scale)), group) <= budget
            and is_attack(exact[1])
            and all(z[f] == x[f] for f in frozen)
        )
        is_sound &= all(LOW <= v <= HIGH for v in z) and (not is_whole or all(v % 1 == 0 for v in z))
        if not is_sound:
            return "witness", f"witness {z}"
    if stable == 1 and best is not None and best <= budget:
        return "stable", f"attack of price {best}"
    if stable == 0 and is_whole and (best is None or best > budget):
        return "unstable", "no attack in the domain"
    if radius:
        p = int(norm) if 0 < norm < math.inf else 1
        lower, upper = float(found.radius[0]), float(found.radius_upper[0])
        if (
            best is not None
            and Fraction(math.nextafter(lower, 0.0) if norm else max(lower - 1, 0)) ** p >= best
            and lower > 0
        ):
            return "radius", f"lower {lower}, attack of price {best}"
        if is_whole and upper < math.inf and (best is None or Fraction(upper) ** p < best):
            return "radius", f"upper {upper}, best {best}"
    return {1: "is stable", 0: "is unstable", -1: "is open"}[stable] + (" whole" if is_whole else ""), ""


def main(argv=None) -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--radius", action="store_true")
    parser.add_argument("--first", type=int, default=0)
    args = parser.parse_args(argv)
    counts, n_wrong = Counter(), 0
    for i in range(args.first, args.first + args.cases):
        case = random_case(random.Random(f"{args.seed} {i}"))
        outcome, wrong = check(case, args.radius)
        counts[outcome] += 1
        if wrong:
            n_wrong += 1
            print(i, outcome, wrong, case[:6], flush=True)
    print(dict(counts), f"{n_wrong} wrong of {args.cases}")
    return int(n_wrong > 0)


if __name__ == "__main__":
    sys.exit(main())

"""The referee of relations: every row in reach of small attackers is tried, in exact rationals.

    python tests/relation_referee.py --cases 20000 --seed 7 [--radius] [--proof] [--tamper]

Columns hold whole numbers of a small domain, or one of a few values, so that rows in reach can be listed; nothing here
shares code with the package but what reads models and attackers. Where columns are not whole, a row is a witness only
if it is one exactly, and no row of a fine grid may contradict a verdict.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import random
import re
import sys
import tempfile
from collections import Counter
from fractions import Fraction
from io import BytesIO
from pathlib import Path

import numpy as np

from certiforest import Attacker, Certifier, TreeEnsemble
from certiforest.audit import Refusal, audit

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


def certified(case, **options):
    """Return the model and the certificates of a case, None if its attacker is refused."""
    trees, votes, x, norm, eps, told, *_ = case
    try:
        attacker = Attacker(norm, eps, **told).resolve(len(x))
    except ValueError:
        return None
    ensemble = TreeEnsemble(**flat(trees, votes), n_features=len(x), classes=[0, 1])
    certifier = Certifier(ensemble, attacker, n_jobs=1, time_limit=20, **options)
    return ensemble, certifier.certify(np.array([x]))


def cheapest_attack(case, checks=None):
    """Return the least price of an attack among rows in reach, None if there is none, and what tells attacks."""
    trees, votes, x, norm, _, _, own_checks, is_whole, group, frozen, scale = case
    own = score(trees, x, votes) > 0
    bound = [check for check in (own_checks if checks is None else checks) if check(x)]

    def is_attack(z):
        return (score(trees, z, votes) > 0) != own and all(check(z) for check in bound)

    best = None
    for z in rows_in_reach(x, is_whole, group, frozen):
        cost = price(x, z, norm, scale, group)  # all numbers are short and binary: floats are exact
        if (best is None or cost < best) and is_attack(z):
            best = cost
    return best, is_attack


def check(case, radius: bool = False, proof: bool = False) -> tuple[str, str]:
    """Return how a case came out, and what is wrong with it, if anything is."""
    _, _, x, norm, eps, _, _, is_whole, group, frozen, scale = case
    made = certified(case, witness=True, radius=radius, proof=proof)
    if made is None:
        return "refused", ""
    ensemble, found = made
    power = int(norm) if 0 < norm < math.inf else 1
    budget, stable = Fraction(eps) ** power, int(found.stable[0])
    best, is_attack = cheapest_attack(case)
    if stable == 0:
        z = found.witness[0].tolist()
        exact = [list(map(Fraction, row)) for row in (x, z)]
        is_sound = price(*exact, norm, list(map(Fraction, scale)), group) <= budget and is_attack(exact[1])
        is_sound &= all(z[f] == x[f] for f in frozen) and all(LOW <= v <= HIGH for v in z)
        if not is_sound or (is_whole and any(v % 1 for v in z)):
            return "witness", f"witness {z}"
    if stable == 1 and best is not None and best <= budget:
        return "stable", f"attack of price {best}"
    if stable == 0 and is_whole and (best is None or best > budget):
        return "unstable", "no attack in the domain"
    if radius:
        lower, upper = float(found.radius[0]), float(found.radius_upper[0])
        below = Fraction(min(math.nextafter(lower, 0.0), 1e300) if norm else max(min(lower, 1e300) - 1, 0))
        if best is not None and below**power >= best and lower > 0:
            return "radius", f"lower {lower}, attack of price {best}"
        if is_whole and upper < math.inf and (best is None or Fraction(upper) ** power < best):
            return "radius", f"upper {upper}, best {best}"
    how = ""
    if proof and stable >= 0:
        doubts = audit(*map(BytesIO, files(ensemble, found))).doubts
        if doubts and (stable == 0 or found.proof[0] is not None):
            return "audit", doubts[0]
        text = json.dumps(found.proof[0])
        how = " by a sum" if '"sum"' in text else " by a relation" if "broken" in text else ""
    return {1: "is stable", 0: "is unstable", -1: "is open"}[stable] + (" whole" if is_whole else "") + how, ""


def files(ensemble, found):
    """Return what a model file and a certificate file hold."""
    with tempfile.TemporaryDirectory() as folder:
        model, certificate = Path(folder) / "model.json", Path(folder) / "rows.cert.jsonl"
        ensemble.save(model)
        found.save(certificate)
        return model.read_bytes(), certificate.read_bytes()


def tamper(case, rng) -> tuple[str, str]:
    """Change a certificate, and return what becomes of it, and what is wrong with that."""
    made = certified(case, witness=True, proof=True)
    if made is None or made[1].stable[0] == -1:
        return "nothing", ""
    model, certificate = files(*made)
    header, line, end = map(json.loads, certificate.splitlines())
    _, _, _, norm, eps, _, checks, is_whole, *_ = case
    kept, text, way = list(checks), json.dumps(line), rng.randrange(4)
    if way == 0:  # one relation less
        place = rng.randrange(len(kept))
        del kept[place], header["attacker"]["relations"][place]
    elif way == 1:  # more budget
        header["attacker"]["eps"] = eps = eps + 1
    elif way == 2:  # other numbers in proof or witness
        numbers = list(re.finditer(r"-?[0-9]+(?:\.[0-9]+)?(?:e[-+][0-9]+)?", text))
        match = rng.choice(numbers)
        value = rng.choice([0, 1, -1, 2, 7, 2**60, float(match[0]) + 1, -float(match[0])])
        line = json.loads(text[: match.start()] + json.dumps(value) + text[match.end() :])
    else:  # another verdict, with what there is
        line["stable"] = 1 - line["stable"]
        line["proof"], line["witness"] = line.get("witness"), line.get("proof")
    if line.get("row") != case[2] or not is_whole:
        return "another row", ""
    lines = b"".join(json.dumps(entry).encode() + b"\n" for entry in (header, line, end))
    try:
        is_confirmed = not audit(BytesIO(model), BytesIO(lines)).doubts
    except Refusal:
        return "refused", ""
    best, _ = cheapest_attack(case, kept)
    is_unstable = best is not None and best <= Fraction(eps) ** (int(norm) if 0 < norm < math.inf else 1)
    is_false = is_confirmed and line["stable"] in (0, 1) and line["stable"] == is_unstable
    return "confirmed" if is_confirmed else "in doubt", "a false verdict is confirmed" if is_false else ""


def main(argv=None) -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--radius", action="store_true")
    parser.add_argument("--proof", action="store_true")
    parser.add_argument("--tamper", action="store_true")
    parser.add_argument("--first", type=int, default=0)
    args = parser.parse_args(argv)
    counts, n_wrong = Counter(), 0
    for i in range(args.first, args.first + args.cases):
        case = random_case(random.Random(f"{args.seed} {i}"))
        rng = random.Random(f"{args.seed} {i} tamper")
        outcome, wrong = tamper(case, rng) if args.tamper else check(case, args.radius, args.proof)
        counts[outcome] += 1
        if wrong:
            n_wrong += 1
            print(i, outcome, wrong, case[:6], flush=True)
    print(dict(counts), f"{n_wrong} wrong of {args.cases}")
    return int(n_wrong > 0)


if __name__ == "__main__":
    sys.exit(main())

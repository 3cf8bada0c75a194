"""Statements about small models against enumeration of all inputs, in rationals; also a script for as many as you like.

Thresholds, ends of domains and levels come from one coarse grid, or are one float beside it. Columns are numbers,
whole numbers, lists of values, categories or one-hot, and values may be missing. Nothing shares code with the package.

python tests/statement_referee.py --cases 20000 --seed 1
"""

from __future__ import annotations

import argparse
import itertools
import math
import random
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, replace
from fractions import Fraction
from io import BytesIO
from pathlib import Path

from aside_referee import ensemble_of
from certiforest import Domain, Insensitive, Monotone, Range, Same, audit, check, measure
from certiforest.ensemble.model_file import pieces
from oracle import Case, exact_sums, leaf_of, predict

GRID = [i / 4 for i in range(-4, 9)]
SCORES = [-1.0, -0.5, -0.1, 0.0, 0.1, 0.25, 1.0, 3.0]
TIME_LIMIT = 20.0


@dataclass(frozen=True)
class World:
    """What there is: kinds of columns, and all inputs that the trees of all models can tell apart."""

    kinds: list[str]
    groups: list[list[int]]
    domain: Domain
    missing: list[bool]
    blanks: dict[int, tuple[float, float]]  # numbers that count as missing
    plausible: Case | None = None


def narrow(world: World, plausible: Case) -> World:
    """Return a world in which inputs are such that a model has a sum of at least 0."""
    d = world.domain
    ensemble = ensemble_of(plausible)
    domain = Domain(
        d.low,
        d.high,
        integer=d.integer,
        values=d.values or None,
        groups=d.groups or None,
        missing=d.missing,
        plausible=ensemble,
    )
    return replace(world, domain=domain, plausible=plausible)


def draw_world(rng: random.Random) -> World:
    """Draw columns and a domain."""
    kinds: list[str] = []
    groups = []
    for _ in range(rng.randint(1, 3)):
        kind = rng.choice(["number", "number", "whole", "listed", "category", "one-hot"])
        if kind == "one-hot":
            size = rng.choice([2, 3])
            groups.append(list(range(len(kinds), len(kinds) + size)))
            kinds += ["one-hot"] * size
        else:
            kinds.append(kind)
    low, high, values = [], [], {}
    for f, kind in enumerate(kinds):
        ends = sorted([beside(rng, rng.choice(GRID)), beside(rng, rng.choice(GRID))])
        if kind == "whole":
            ends = [math.floor(ends[0]) - rng.choice([0, 0.5]), math.ceil(ends[1]) + rng.choice([0, 0.5])]
        if kind == "listed":
            values[f] = [beside(rng, v) for v in rng.sample(GRID, rng.randint(1, 4))]
            ends = [min(values[f]), max(values[f])]
        if kind == "category":
            ends = [0.0, 3.0]
            if rng.random() < 0.4:
                values[f] = rng.sample([0.0, 1.0, 2.0, 3.0], rng.randint(1, 3))
        if kind == "one-hot":
            ends = [0.0, 1.0]
        if rng.random() < 0.1 and kind == "number":
            ends[1] = math.inf
        low.append(ends[0])
        high.append(ends[1])
    missing = [kind != "one-hot" and rng.random() < 0.25 for kind in kinds]
    whole = [f for f, kind in enumerate(kinds) if kind == "whole"]
    blanks = {}
    for f, kind in enumerate(kinds):
        if kind in ("number", "whole", "listed") and rng.random() < 0.2:
            first = rng.choice([low[f], beside(rng, rng.choice(GRID))])
            blanks[f] = first, max(first, beside(rng, first + rng.choice([0.0, 0.0, 0.25, 1.0, 4.0])))
    domain = Domain(low, high, integer=whole or None, values=values or None, groups=groups or None, missing=missing)
    return World(kinds, groups, domain, missing, blanks)


def beside(rng: random.Random, value: float) -> float:
    """Return a number, or the float next to it now and then."""
    return math.nextafter(value, rng.choice([-math.inf, math.inf])) if rng.random() < 0.15 else value


def draw_model(rng: random.Random, world: World, kind: str, n_classes: int) -> Case:
    """Draw trees on the columns of a world: ``kind`` is vote, one (a single sum) or many (a sum for each class)."""
    n_outputs = {"vote": 0, "one": 1, "many": n_classes}[kind]

    def leaf():
        return rng.randrange(n_classes) if kind == "vote" else [rng.choice(SCORES) for _ in range(n_outputs)]

    def tree(depth: int):
        if depth == 0 or rng.random() < 0.15:
            return leaf()
        f = rng.randrange(len(world.kinds))
        rule = beside(rng, rng.choice(GRID))
        if world.kinds[f] == "category":
            rule = frozenset(rng.sample([0.0, 1.0, 2.0, 3.0], rng.randint(1, 3)))
        if world.kinds[f] == "one-hot":
            rule = rng.choice([0.0, 0.5])
        return f, rule, tree(depth - 1), tree(depth - 1), rng.random() < 0.5

    base = [rng.choice([0.0, 0.1, -0.25]) for _ in range(n_outputs)] if n_outputs else None
    trees = [tree(rng.randint(0, 3)) for _ in range(rng.randint(1, 4))]
    names = {f: [0.0, 1.0, 2.0, 3.0] for f, k in enumerate(world.kinds) if k == "category"}
    n = len(world.kinds)
    return Case(trees, n, n_classes, [0.0] * n, math.inf, 0.0, base=base, names=names, blanks=world.blanks or None)


def draw_other(rng: random.Random, world: World, first: Case, kind: str, n_classes: int) -> Case:
    """Draw another model: a new one, or one whose trees split as those of the first, with some scores fitted again."""
    other = draw_model(rng, world, kind, n_classes)
    rng = random.Random(repr(first.trees))  # so that all else is drawn as it was
    if rng.random() < 0.6 or len(first.base or ()) != len(other.base or ()):
        return other

    def again(node):
        if isinstance(node, tuple):
            return (*node[:2], again(node[2]), again(node[3]), node[4])
        if rng.random() < 0.8:
            return node
        return rng.randrange(n_classes) if first.base is None else [rng.choice(SCORES) for _ in first.base]

    trees = [again(tree) for tree in first.trees]
    rng.shuffle(trees)
    return replace(first, trees=[*trees[rng.randint(0, 1) :], *other.trees[: rng.randint(0, 1)]] or other.trees)


def inputs_of(world: World, models: list[Case]) -> list[list[float]]:
    """Return an input for every cell of the domain."""
    d, columns = world.domain, []
    cuts = [set() for _ in world.kinds]
    for model in models:
        for tree in model.trees:
            collect(tree, cuts)
    for f, kind in enumerate(world.kinds):
        low, high = float(d.low[f]), min(float(d.high[f]), 1e300)
        if f in d.values:
            found = [v for v in d.values[f] if low <= v <= high]
        elif kind == "category":
            found = [0.0, 1.0, 2.0, 3.0]
        elif kind == "whole":
            found = [float(v) for v in range(math.ceil(low), math.floor(high) + 1)]
        else:
            after = {math.nextafter(v, math.inf) for v in (*cuts[f], *world.blanks.get(f, ())[1:]) if low <= v < high}
            found = sorted({low, *after, *(v for v in world.blanks.get(f, ()) if low <= v <= high)})
        columns.append([*found, *([math.nan] if world.missing[f] else [])])
    flags = {f for group in world.groups for f in group}
    plain = [f for f in range(len(world.kinds)) if f not in flags]
    rows = []
    for chosen in itertools.product(*(columns[f] for f in plain)):
        for places in itertools.product(*(range(len(group)) for group in world.groups)):
            row = [0.0] * len(world.kinds)
            for f, v in zip(plain, chosen, strict=True):
                row[f] = v
            for group, place in zip(world.groups, places, strict=True):
                row[group[place]] = 1.0
            rows.append(row)
    return rows


def collect(tree, cuts) -> None:
    """Add the thresholds of a tree to those of each column."""
    if isinstance(tree, tuple):
        if not isinstance(tree[1], frozenset):
            cuts[tree[0]].add(tree[1])
        collect(tree[2], cuts)
        collect(tree[3], cuts)


def as_seen(world: World, x) -> list[float]:
    """Return an input as models see it."""
    ends = [world.blanks.get(f, (math.nan, math.nan)) for f in range(len(x))]
    return [math.nan if first <= v <= last else v for v, (first, last) in zip(x, ends, strict=True)]


def score(model: Case, x) -> Fraction:
    """Return the share of votes of the second class, or the last sum."""
    leaves = [leaf_of(tree, x) for tree in model.trees]
    if model.base is None:
        return Fraction(leaves.count(1), len(leaves))
    return exact_sums(model.base, leaves)[-1]


def judge(rng: random.Random) -> tuple[list[str], str]:
    """Return what is wrong with the results on one world, and what kind of question it was."""
    world = draw_world(rng)
    n_classes = rng.choice([2, 2, 2, 3])
    kinds = ["vote", "one"] if n_classes == 2 else ["vote", "many"]
    first = draw_model(rng, world, rng.choice(kinds), n_classes)
    other = draw_other(rng, world, first, rng.choice(kinds), n_classes)
    plausible = draw_model(rng, world, "one", 2) if not world.blanks and rng.random() < 0.3 else None
    rows = inputs_of(world, [first, other, *([plausible] if plausible else [])])
    if len(rows) > 1500:
        return [], "too large"
    if plausible is not None:
        least = rng.choice([score(plausible, x) for x in rows])
        plausible.base[-1] -= float(least)
        world = narrow(world, plausible)
        rows = [x for x in rows if score(plausible, x) >= 0]
        if not rows:
            return [], "nothing is plausible"
    scored = n_classes == 2
    questions = ["flips", "same"] + (["range", "apart", "monotone", "most", "gap", "fall"] if scored else [])
    question = rng.choice(questions)
    model, outputs = ensemble_of(first), "score"
    if first.base is None:
        outputs = "probability"
    columns = draw_columns(rng, world)
    tell = {"outputs": outputs, "time_limit": TIME_LIMIT}
    seen = [as_seen(world, x) for x in rows]
    s = {i: score(first, x) for i, x in enumerate(seen)} if scored else {}
    partners = pairs_of(rows, columns) if question in ("flips", "apart", "monotone", "gap", "fall") else []
    c = next((f for f in columns if world.kinds[f] in ("number", "whole", "listed")), None)
    wrong: list[str] = []

    def expect(statement, is_true: bool) -> None:
        results = check(model, statement, world.domain, **tell, proof=True)
        (result,) = results
        wrong.extend(audited(results, model, getattr(statement, "other", None)))
        if result.holds is None or result.holds != is_true:
            wrong.append(f"{statement}: {result.holds}, but it is {is_true}; {result.bounds}")
        if result.holds is False:
            wrong.extend(judge_pair(statement, result.pair, first, other, world, columns))

    def near(value: Fraction) -> float:
        return beside(rng, float(value)) if rng.random() < 0.7 else rng.choice(SCORES)

    if question == "range":
        high, low = near(max(s.values())), near(min(s.values()))
        if low <= high:
            expect(Range(low, high), min(s.values()) >= Fraction(low) and max(s.values()) <= Fraction(high))
    elif question == "flips":
        y = [predict(first, x) for x in seen]
        expect(Insensitive(columns), all(y[i] == y[j] for i, j in partners))
    elif question == "apart":
        i, j = rng.choice(partners)
        low, high = sorted([near(s[i]), near(s[j])])
        is_apart = any(s[a] >= Fraction(high) and s[b] <= Fraction(low) for a, b in partners)
        expect(Insensitive(columns, low, high), not is_apart)
    elif question == "monotone" and c is not None:
        columns = [c]
        partners = [(a, b) for a, b in pairs_of(rows, [c]) if seen[a][c] <= seen[b][c]]
        way = rng.choice(["up", "down"])
        falls = [(s[a] - s[b]) * (1 if way == "up" else -1) for a, b in partners]
        tolerance = rng.choice([0.0, 0.0, 0.1, max(0.0, float(max(falls)))]) if falls else 0.0
        expect(Monotone(c, way, tolerance), all(fall <= Fraction(tolerance) for fall in falls))
    elif question == "same" and (not scored or rng.random() < 0.5 or (first.base is None) != (other.base is None)):
        expect(Same(ensemble_of(other)), all(predict(first, x) == predict(other, x) for x in seen))
    elif question == "same":
        gaps = [abs(s[i] - score(other, x)) for i, x in enumerate(seen)]
        tolerance = abs(near(max(gaps)))
        expect(Same(ensemble_of(other), tolerance), max(gaps) <= Fraction(tolerance))
    elif question == "most":
        found = measure(model, "range", world.domain, proof=True, **tell)
        wrong += audited(found, model)
        wrong += judge_bounds("lowest", *found.bounds[0], -min(s.values()), -1)
        wrong += judge_bounds("highest", found.bounds[1][1], found.bounds[1][0], max(s.values()), 1)
    elif question == "gap":
        found = measure(model, "gap", world.domain, columns=columns, proof=True, **tell)
        wrong += audited(found, model)
        wrong += judge_bounds("gap", found.bounds[1], found.bounds[0], max(s[a] - s[b] for a, b in partners), 1)
    elif question == "fall" and c is not None:
        falls = [s[a] - s[b] for a, b in pairs_of(rows, [c]) if seen[a][c] <= seen[b][c]]
        if falls:
            found = measure(model, "fall", world.domain, column=c, proof=True, **tell)
            wrong += audited(found, model)
            wrong += judge_bounds("fall", found.bounds[1], found.bounds[0], max(falls), 1)
    return wrong, question


def audited(results, *models) -> list[str]:
    """Return what the auditor does not confirm of results about models, the last of which may be None."""
    files = [BytesIO("".join(pieces(model)).encode()) for model in models if model is not None]
    with tempfile.TemporaryDirectory() as folder:
        results.save(Path(folder) / "c.jsonl")
        certificate = BytesIO((Path(folder) / "c.jsonl").read_bytes())
    others = [audit.Model(audit.parse(file.read(), "a model")) for file in files[1:]]
    found = audit.audit(files[0], certificate, others)
    said = results if isinstance(results, tuple) else [results]
    return found.doubts + [f"without a proof: {result}" for result in said if result.proof is None]


def draw_columns(rng: random.Random, world: World) -> list[int]:
    """Draw columns, with all of a group or none."""
    units = [[f] for f, kind in enumerate(world.kinds) if kind != "one-hot"] + world.groups
    return sorted(f for unit in rng.sample(units, rng.randint(1, len(units))) for f in unit)


def pairs_of(rows, columns) -> list[tuple[int, int]]:
    """Return the inputs, two by two, that differ in some columns only."""
    alike: dict[tuple, list[int]] = {}
    for i, x in enumerate(rows):
        key = tuple(repr(v) for f, v in enumerate(x) if f not in columns)
        alike.setdefault(key, []).append(i)
    return [pair for same in alike.values() for pair in itertools.product(same, repeat=2)]


def judge_bounds(name: str, proved: float, reached: float, true: Fraction, sign: int) -> list[str]:
    """Return what is wrong with bounds of the most of something."""
    close = Fraction(1e-5) * (1 + abs(true))
    proved, reached = Fraction(proved) * sign, Fraction(reached) * sign
    tiny = Fraction(1e-14) * (1 + abs(true))
    if not true - close <= reached <= true + tiny or not true - tiny <= proved <= true + close:
        return [f"{name}: reached {float(reached)}, proved {float(proved)}, but it is {float(true)}"]
    return []


def judge_pair(statement, pair, first: Case, other: Case, world: World, columns) -> list[str]:
    """Return what is wrong with inputs that are to show that a statement does not hold."""
    rows = [list(map(float, row)) for row in pair]
    for x in rows:
        for f, v in enumerate(x):
            d = world.domain
            if math.isnan(v):
                fits = world.missing[f]
            else:
                fits = d.low[f] <= v <= d.high[f] and (f not in d.values or v in d.values[f])
                fits &= world.kinds[f] != "whole" or v == int(v)
            if not fits:
                return [f"{statement}: {v} of column {f} is outside the domain"]
        if any(sorted(x[f] for f in group) != [0.0] * (len(group) - 1) + [1.0] for group in world.groups):
            return [f"{statement}: {x} is not one-hot"]
        if world.plausible is not None and score(world.plausible, x) < 0:
            return [f"{statement}: {x} is not plausible"]
    if len(rows) == 2 and any(
        repr(a) != repr(b) for f, (a, b) in enumerate(zip(*rows, strict=True)) if f not in columns
    ):
        return [f"{statement}: {rows} differ elsewhere"]
    seen = [as_seen(world, x) for x in rows]
    s = [score(first, x) for x in seen] if first.n_classes == 2 else []
    if isinstance(statement, Range):
        shows = s[0] > Fraction(statement.high) or s[0] < Fraction(statement.low)
    elif isinstance(statement, Insensitive) and statement.low is not None:
        shows = s[0] >= Fraction(statement.high) and s[1] <= Fraction(statement.low)
    elif isinstance(statement, Insensitive):
        shows = predict(first, seen[0]) != predict(first, seen[1])
    elif isinstance(statement, Monotone):
        c, sign = statement.column, 1 if statement.direction == "up" else -1
        a, b = seen
        shows = (b[c] - a[c]) * sign >= 0 and s[0] - s[1] > Fraction(statement.tolerance)
    elif statement.tolerance is None:
        shows = predict(first, seen[0]) != predict(other, seen[0])
    else:
        shows = abs(s[0] - score(other, seen[0])) > Fraction(statement.tolerance)
    return [] if shows else [f"{statement}: {rows} do not show it"]


def main() -> int:
    """Judge as many cases as asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    kinds: Counter[str] = Counter()
    n_wrong = 0
    for i in range(asked.cases):
        rng = random.Random(f"{asked.seed} {i}")
        wrong, kind = judge(rng)
        kinds[kind] += 1
        for line in wrong:
            n_wrong += 1
            print(f"case {i}: {line}", file=sys.stderr)
    print(f"{asked.cases} cases {dict(kinds)}: {n_wrong} wrong")
    return int(n_wrong > 0)


if __name__ == "__main__":
    sys.exit(main())

"""Missing values and categories against the oracle; also a script for as many cases as you like.

A case of numbers is dressed: every split says where missing values go, some features become categories, some values of
the row go missing, some numbers count as missing, and some attackers are told what it costs to change a category, to
blank and to fill. Nothing of this shares code with the package.

python tests/aside_referee.py --cases 200000 --seed 1 --combine sum
"""

from __future__ import annotations

import argparse
import math
import random
import sys
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path

import oracle
from cases import attacker_of, random_case, real_case
from certiforest import Certificates, Nodes, TreeEnsemble, audit, certify
from referee import judge_radius, judge_witness

N_CATEGORIES = 5
CODES = [
    list(map(float, range(N_CATEGORIES))),
    [-4.0, -2.0, -1.0, 0.0, 3.0],
    [5.0, 2.0**53 - 1, 2.0**53, 2.0**53 + 2, 1e300],
]


def dress(rng: random.Random, case: oracle.Case):
    """Return a case with categories and values that are missing, and the row as given."""
    kinds = [rng.choice(["number", "number", "missing", "category", "missing category"]) for _ in case.x]
    for f in (f for group in case.groups or () for f in group):  # one-hot they stay
        kinds[f] = "number"
    is_category = ["category" in kind for kind in kinds]
    used = rng.choice([CODES[0], *CODES])

    def dressed(tree):
        if not isinstance(tree, tuple):
            return tree
        f, v, left, right = tree
        rule = frozenset(rng.sample(used, rng.randint(0, 3))) if is_category[f] else v
        return f, rule, dressed(left), dressed(right), rng.random() < 0.5

    x = [
        math.nan if "missing" in kind else rng.choice([*used, N_CATEGORIES]) * 1.0 if kind == "category" else x
        for kind, x in zip(kinds, case.x, strict=True)
    ]
    trees = [dressed(tree) for tree in case.trees]
    names, codes = None, {f: [] for f, here in enumerate(is_category) if here}
    if rng.random() < 0.5:
        names = {f: [f"c{i}" for i in range(rng.choice([1, N_CATEGORIES - 1, N_CATEGORIES]))] for f in codes}
        codes = {f: [float(i) for i in range(len(known))] for f, known in names.items()}
        for f in codes:
            if rng.random() < 0.3:  # numbers that stand for themselves
                names[f] = codes[f] = [0.0, 0.5, 2.0, 3.0][rng.randrange(3) :]
    costs = [0.25, 1.0, 1 / 3, 2.0, 7.0, *[case.eps, math.nextafter(case.eps, 9.0), case.eps / 2] * 2]
    costs = [cost for cost in costs if cost > 0]
    categories = {f: rng.choice(costs) for f in codes if rng.random() < 0.7} if rng.random() < 0.7 else None
    missing = rng.choice(costs) if rng.random() < 0.5 else None
    domain, direction, integer = case.domain, case.direction, case.integer
    if domain is not None:
        # The row is inside, whatever became of it; categories have codes.
        ends = sorted(rng.sample([*used, -9.5, 9.0], 2))
        low, high = ([end if f in codes else v for f, v in enumerate(b)] for b, end in zip(domain, ends, strict=True))
        low = [a if math.isnan(v) else min(a, v) for a, v in zip(low, x, strict=True)]
        domain = low, [b if math.isnan(v) else max(b, v) for b, v in zip(high, x, strict=True)]
    if direction is not None:
        direction = {f: way for f, way in direction.items() if f not in codes}
    if integer is not None:
        integer = [f for f in integer if f not in codes]
        if domain is not None:  # a domain without whole numbers is refused
            domain = [min(a, math.floor(a) if f in integer else a) for f, a in enumerate(domain[0])], domain[1]
    blanks, row = draw_blanks(rng, case, x), list(x)
    for f, (first, last) in blanks.items():
        row[f] = math.nan if first <= x[f] <= last else x[f]
        if (
            domain is not None and first <= domain[0][f] <= domain[1][f] <= last
        ):  # nothing to fill with, which is refused
            missing = None
    if names is None:
        for f in codes:  # all in no set are alike: some beside every number that matters
            near = [*used, *(end[f] for end in domain or ()), *blanks.get(f, ())]
            beside = {float(math.floor(v)) + step for v in near for step in (-1, 0, 1, 2)}
            beside.add(math.nextafter(used[-1], math.inf))  # a whole number beyond 2**53
            codes[f] = sorted({-oracle.LARGEST, 0.0, *used, *(v for v in beside if v % 1 == 0)})
    required = tuple(f for f, v in enumerate(row) if not math.isnan(v) and rng.random() < 0.1)
    told = {
        "required": required,
        "codes": codes,
        "categories": categories,
        "missing": missing,
        "blanks": blanks or None,
        "names": names,
    }
    return replace(case, trees=trees, x=row, domain=domain, direction=direction, integer=integer, **told), x


def draw_blanks(rng: random.Random, case: oracle.Case, row: list[float]) -> dict[int, tuple[float, float]]:
    """Draw numbers that count as missing: the row's own, a threshold, or what lies between two numbers of a case."""
    plain = {f for f, x in enumerate(row) if x == case.x[f]}
    plain -= {*(case.integer or ()), *(f for group in case.groups or () for f in group)}
    blanks = {}
    for f in sorted(plain):
        if rng.random() < 0.3:
            seen = [case.x[f], *(v for tree in case.trees for g, v in oracle.splits(tree) if g == f)]
            low, high = sorted(math.nextafter(rng.choice(seen), rng.choice([-math.inf, 0, math.inf])) for _ in "ab")
            blanks[f] = low, high
    return blanks


def ensemble_of(case: oracle.Case) -> TreeEnsemble:
    scores, subsets = None if case.base is None else [], []

    def nodes(tree):
        columns = [], [], [], [], [], [], []

        def add(node):
            index = len(columns[0])
            for column, value in zip(columns, (-1, -1, -1, 0.0, -1, False, -1), strict=True):
                column.append(value)
            if isinstance(node, tuple):
                f, rule, left, right, missing_left = node
                columns[2][index], columns[5][index] = f, missing_left
                if isinstance(rule, frozenset):
                    columns[3][index], columns[6][index] = math.nan, len(subsets)
                    subsets.append(sorted(rule))
                else:
                    columns[3][index] = rule
                columns[0][index], columns[1][index] = add(left), add(right)
            elif scores is None:
                columns[4][index] = node
            else:
                columns[4][index] = len(scores)
                scores.append(node)
            return index

        add(tree)
        return Nodes(*columns)

    made = [nodes(tree) for tree in case.trees]
    shape = {"n_features": case.n_features, "classes": list(range(case.n_classes)), "categories": case.names}
    return TreeEnsemble.from_trees(
        made, **shape, scores=scores, base=case.base, subsets=subsets, blanks=case.blanks
    ).replace(required=case.required)


def judge(rng: random.Random, case: oracle.Case) -> tuple[list[str], str]:
    """Return what is wrong with the verdict on a dressed case, and how it came out."""
    case, given = dress(rng, case)
    ensemble, attacker = ensemble_of(case), attacker_of(case)
    proof = rng.random() < 0.15
    c = certify(
        ensemble, [given], [0], attacker, radius=True, witness=True, time_limit=5.0 if proof else 0.0, proof=proof
    )
    own, best = oracle.predict(case, case.x), oracle.cheapest_change(case)
    is_stable = best is None or best > oracle.budget(case, case.eps)
    wrong = []
    if c.prediction[0] != own:
        wrong.append(f"predicted {c.prediction[0]}, should be {own}")
    if c.stable[0] >= 0 and c.stable[0] != is_stable:
        wrong.append(f"stable is {c.stable[0]}, should be {is_stable}")
    wrong += judge_radius(case, best, float(c.radius[0]), float(c.radius_upper[0]))
    if c.stable[0] == 0:
        wrong += judge_witness(case, own, c.witness[0].tolist())
    if proof and (c.stable[0] < 0 or not c.radius_is_exact[0]):
        wrong.append("unknown in spite of time")
    if proof:
        with tempfile.TemporaryDirectory() as folder:
            model, certificate = Path(folder) / "model.json", Path(folder) / "rows.jsonl"
            ensemble.save(model)
            c.save(certificate)
            with model.open("rb") as model_file, certificate.open("rb") as lines:
                found = audit.audit(model_file, lines)
            if TreeEnsemble.load(model) != ensemble or repr(Certificates.load(certificate).rows) != repr(c.rows):
                wrong.append("files do not come back the same")
        if found.doubts and c.stable[0] >= 0 and not (c.stable[0] == 1 and c.proof[0] is None):
            wrong.append(f"the auditor: {found.doubts}")
    told = "categories " * (case.categories is not None) + "missing" * (case.missing is not None)
    return wrong, f"{('unknown', 'unstable', 'stable')[c.stable[0] + 1]} {told}"


def run(n_cases: int, seed: int, combine: str = "vote") -> Counter:
    """Judge ``n_cases`` cases; raise on the first disagreement."""
    outcomes: Counter = Counter()
    for number in range(n_cases):
        rng = random.Random(f"aside {seed}-{number}")
        case = rng.choice([random_case, real_case])(rng, combine=combine)
        wrong, outcome = judge(rng, case)
        if wrong:
            raise AssertionError(f"seed {seed}, case {number}: {'; '.join(wrong)}\n{case}")
        outcomes[f"norm {case.norm}: {outcome}"] += 1
    return outcomes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--combine", choices=["vote", "sum"], default="vote")
    options = parser.parse_args()
    for name, count in sorted(run(options.cases, options.seed, options.combine).items()):
        sys.stdout.write(f"{name}: {count:,}\n")
    sys.stdout.write(f"{options.cases:,} cases, 0 disagreements\n")


if __name__ == "__main__":
    main()

"""Missing values and categories against the oracle; also a script for as many cases as you like.

A case of numbers is dressed: every split says where missing values go, some features become categories, some values of
the row go missing, and some numbers count as missing. For its row each split that such a value decides stands for one
of its sides, so the oracle is asked about the tree in which that side stands in its place. Nothing of this shares code
with the package.

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


def dress(rng: random.Random, case: oracle.Case):
    """Return trees of splits ``(feature, threshold or set, left, right, missing goes left)``, and a row for them."""
    kinds = [rng.choice(["number", "number", "missing", "category", "missing category"]) for _ in case.x]
    for f in (f for group in case.groups or () for f in group):  # one-hot they stay
        kinds[f] = "number"
    is_category = ["category" in kind for kind in kinds]

    def dressed(tree):
        if not isinstance(tree, tuple):
            return tree
        f, v, left, right = tree
        rule = frozenset(rng.sample(range(N_CATEGORIES), rng.randint(0, 3))) if is_category[f] else v
        return f, rule, dressed(left), dressed(right), rng.random() < 0.5

    row = [
        math.nan if "missing" in kind else float(rng.randrange(N_CATEGORIES + 1)) if kind == "category" else x
        for kind, x in zip(kinds, case.x, strict=True)
    ]
    return [dressed(tree) for tree in case.trees], row


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


def settled(tree, row):
    """Return the tree of numbers that is left for a row."""
    if not isinstance(tree, tuple):
        return tree
    f, rule, left, right, missing_left = tree
    if math.isnan(row[f]):
        return settled(left if missing_left else right, row)
    if isinstance(rule, frozenset):
        return settled(left if row[f] in rule else right, row)
    return f, rule, settled(left, row), settled(right, row)


def ensemble_of(case: oracle.Case, trees, blanks=None) -> TreeEnsemble:
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

    made = [nodes(tree) for tree in trees]
    shape = {"n_features": case.n_features, "classes": list(range(case.n_classes))}
    return TreeEnsemble.from_trees(made, **shape, scores=scores, base=case.base, subsets=subsets, blanks=blanks or None)


def judge(rng: random.Random, case: oracle.Case) -> tuple[list[str], str]:
    """Return what is wrong with the verdict on a dressed case, and how it came out."""
    trees, row = dress(rng, case)
    blanks = draw_blanks(rng, case, row)
    given = list(row)
    row = [math.nan if f in blanks and blanks[f][0] <= x <= blanks[f][1] else x for f, x in enumerate(row)]
    held = [f for f, x in enumerate(row) if math.isnan(x) or x != case.x[f]]
    numbers = [0.0 if math.isnan(x) else x for x in row]
    domain = None
    if case.domain is not None:
        domain = tuple(
            [x if f in held else b for f, (x, b) in enumerate(zip(numbers, bound, strict=True))]
            for bound in case.domain
        )
    plain = replace(case, trees=[settled(tree, row) for tree in trees], x=numbers, domain=domain)
    plain = replace(plain, blanks={f: pair for f, pair in blanks.items() if f not in held})
    ensemble, attacker = ensemble_of(case, trees, blanks), attacker_of(plain)
    proof = rng.random() < 0.15
    c = certify(
        ensemble, [given], [0], attacker, radius=True, witness=True, time_limit=5.0 if proof else 0.0, proof=proof
    )
    own, best = oracle.predict(plain, numbers), oracle.cheapest_change(plain)
    is_stable = best is None or best > oracle.budget(case, case.eps)
    wrong = []
    if c.prediction[0] != own:
        wrong.append(f"predicted {c.prediction[0]}, should be {own}")
    if c.stable[0] >= 0 and c.stable[0] != is_stable:
        wrong.append(f"stable is {c.stable[0]}, should be {is_stable}")
    wrong += judge_radius(plain, best, float(c.radius[0]), float(c.radius_upper[0]))
    if c.stable[0] == 0:
        z = c.witness[0].tolist()
        if any(repr(z[f]) != repr(row[f]) for f in held):
            wrong.append("the witness changes a category, or what is missing")
        wrong += judge_witness(plain, own, [numbers[f] if f in held else v for f, v in enumerate(z)])
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
    return wrong, f"{('unknown', 'unstable', 'stable')[c.stable[0] + 1]}"


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

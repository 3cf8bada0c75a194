"""A trial of the auditor's cost: files in which one thing is of hostile size, and what they take of time and memory.

``python tests/hostile/audit_costs.py --bytes 1000000`` audits each in a process of its own and prints seconds of the
processor and memory, as a multiple of the files' bytes; the suite takes small files.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from certiforest import audit
from naive_prover import file_of, sha_of


def model_of(feature=(0, -1, -1), threshold=(0.5, 0, 0), leaf=(-1, 0, 1), n_features=1, classes=(0, 1), **more):
    return {
        "format": "certiforest", "version": 2 if "missing_left" in more or "subset" in more else 1, "combine": "vote",
        "n_features": n_features, "classes": list(classes), "feature": list(feature), "threshold": list(threshold),
        "leaf": list(leaf),
    } | more  # fmt: skip


def files_of(model, attacker, proof=None, n_rows=1, row=None, rivals=None, header=None, **said):
    """Write files about a row of zeros that is to be stable; attacker and proof may lack what is the same for all."""
    rivals = range(1, len(model["classes"])) if rivals is None else rivals
    proof = None if "witness" in said else {"cuts": [], "rivals": [{"rival": c} for c in rivals]} | (proof or {})
    header = {
        "format": "certiforest certificate", "version": 1, "model_sha256": sha_of(model), "classes": model["classes"],
        "margin": 0, "radius": False, "attacker": {"norm": "inf", "eps": 1} | attacker,
    } | (header or {})  # fmt: skip
    row = [0] * model["n_features"] if row is None else row
    rows = [{"row": row, "prediction": model["classes"][0], "stable": 1, "method": "", "proof": proof} | said] * n_rows
    return json.dumps(model, separators=(",", ":")).encode(), file_of(header, rows).replace(b", ", b",")


def chain(n, features=None, cuts=None, leaves=None, **more):
    """Return a tree of n splits, each the low child of the one before."""
    columns = features or [0] * n, cuts or [0] * n, [-1] * n
    ends = [-1] * (n + 1), [0] * (n + 1), leaves or [0] * n + [1]
    return model_of(*(a + b for a, b in zip(columns, ends, strict=True)), **more)


def stumps(features, cut=0.5, leaves=(0, 1), sets=None, **more):
    """Return a tree of one split for each of some features."""
    feature, n = [s for f in features for s in (f, -1, -1)], len(features)
    if sets is not None:
        more |= {"subset": [s for one in sets for s in (one, -1, -1)], "missing_left": [0, 0, 0] * n}
    return model_of(feature, [None if sets else cut, 0, 0] * n, [-1, *leaves] * n, **more)


def long_chain(n, **more):
    """Return a tree that cuts a feature into n + 1 pieces."""
    return chain(n, cuts=[*range(n, 0, -1)], **more)


def scores(table, base=(0, 0), leaves=(0, 0), **more):
    return model_of(leaf=[-1, *leaves], combine="sum", scores=table, base=list(base), **more)


def odd_scales(n):
    return [{"numbers": [f], "up": 1 + (2 * f + 1) / 2**50} for f in range(n)]


def ruled(rules, columns=(0,), eps=1):
    return {"norm": 1, "eps": eps, "columns": [{"ruled": [*columns], "rules": rules}]}


def part_of(**bound):
    return {"rivals": [{"rival": 1, **bound}]}


def growing_denominators(n):
    tables = [[f, f, [-1, 1]] for f in range(n)]
    proof = {"cuts": [[f, [0]] for f in range(n)], **part_of(**{"lambda": [1, 1], "tables": tables})}
    return files_of(stumps(range(n), 0, n_features=n), {"norm": 100, "eps": 5e-324, "columns": odd_scales(n)}, proof)


def budget_to_the_float(n):
    attacker = {"norm": 100, "eps": 1 / (1 + 2**-50), "columns": odd_scales(n)}
    return files_of(model_of(n_features=n), attacker, stable=0, proof=None, witness=[1.0] + [5e-324] * (n - 1))


def long_numbers(n):
    big, k = 10**4250, n * 4300 // 30
    tables = [[t, 0, [-big, big]] for t in range(n // 2)]
    proof = {"cuts": [[0, [0.5]]]} | part_of(unit=[big, big], tables=tables)
    return files_of(stumps([0] * k), {}, proof)


def long_prices(n):
    big = 10**1999 + 1
    parts = [{"rival": c, "lambda": [big, big + 2], "unit": [big, big]} for c in range(1, n)]
    return files_of(model_of(leaf=[-1, 0, 0], classes=range(n)), {"norm": 100, "eps": 5e-324}, {"rivals": parts})


def cells_without_tables(n):
    part = {"split": [1, 0.5], "low": {"split": [0, 0.75], "low": {}, "high": {}}, "high": {}, "rival": 1}
    proof = {"cuts": [[0, [*range(n)]]], "rivals": [part | {"rival": c} for c in range(1, n // 10)]}
    return files_of(stumps([0, 1], leaves=(0, 0), n_features=2, classes=range(n // 10)), {}, proof)


def deep_splits(n):
    part = {}
    for v in range(400):
        part = {"split": [0, n - 401 + v], "low": part, "high": {}}
    model = stumps([0] * n, leaves=(0, 0))
    model["threshold"][::3] = range(n)
    return files_of(model, {"eps": 10**9}, part_of(**part))


def trees_and_classes(n):
    model = model_of([-1] * n, [0] * n, [0] * n, classes=range(n), combine="sum", scores=[[9] + [5e-324] * (n - 1)])
    return files_of(model | {"base": [0] * n}, {}, proof={"rivals": []})


def objects(n):
    model, certificate = files_of(model_of(), {}, header={"about": [{} for _ in range(n)]})
    return model, certificate.replace(b"{},", b'{"":0},')


NONE_MISSING = {"missing_left": [0, 0, 0]}
ONE_SET = {"threshold": [None, 0, 0], "subset": [0, -1, -1], **NONE_MISSING}
# What is of hostile size, how many bytes one of it takes, and what makes files of this many.
SIZES = {
    "a_chain_of_splits": (40, lambda n: files_of(chain(n, [*range(n)], n_features=n), {})),
    "a_chain_that_a_budget_cuts": (40, lambda n: files_of(chain(n, [*range(n)], n_features=n), {"norm": 2, "eps": 3})),
    "a_chain_on_one_feature": (40, lambda n: files_of(long_chain(n), {"eps": 10**9})),
    "a_chain_of_sets": (60, lambda n: files_of(
        chain(n, cuts=[None] * n, subset=[*range(n)] + [-1] * (n + 1), subsets=[[v] for v in range(n)],
              missing_left=[0] * (2 * n + 1)), {"columns": [{"categories": [0], "cost": 1}]})),
    "many_small_sets": (4, lambda n: files_of(model_of(subsets=[[v % 10] for v in range(n)], **ONE_SET), {})),
    "many_small_sets_in_use": (40, lambda n: files_of(
        stumps([0] * n, leaves=(0, 0), sets=range(n), subsets=[[v % 10] for v in range(n)]), {})),
    "a_set_that_splits_share": (30, lambda n: files_of(
        stumps([0] * n, sets=[0] * n, subsets=[[*range(n)]]), {})),
    "a_set_that_features_share": (40, lambda n: files_of(
        stumps(range(n), leaves=(0, 0), sets=[0] * n, subsets=[[*range(n)]], n_features=n),
        {"columns": [{"categories": [*range(n)], "cost": 1}]})),
    "scores_far_apart": (6, lambda n: files_of(scores([[9, 5e-324]] + [[9, 1]] * n, leaves=(0, 1)), {})),
    "many_scores_far_apart": (10, lambda n: files_of(scores([[9, 5e-324]] + [[v, 1] for v in range(n)]), {})),
    "many_single_scores": (4, lambda n: files_of(scores([[-9]] * n, [5e-324]), {})),
    "trees_of_one_leaf": (8, lambda n: files_of(model_of([-1] * n, [0] * n, [0] * n), {})),
    "trees_times_classes": (20, trees_and_classes),
    "leaves_times_rivals": (60, lambda n: files_of(stumps([0] * n, leaves=(0, 0), classes=range(n)), {})),
    "leaves_of_a_tree_times_rivals": (60, lambda n: files_of(
        long_chain(n, leaves=[v % n for v in range(n + 1)], classes=range(n)), {"eps": 10**9})),
    "denominators_that_grow": (60, growing_denominators),
    "a_witness_on_the_budget": (60, budget_to_the_float),
    "powers_of_small_numbers": (20, lambda n: files_of(
        chain(n, cuts=[v * 5e-324 for v in range(n, 0, -1)]),
        {"norm": 100, "eps": 1.3e-20, "columns": [{"numbers": [0], "up": 1.1e-300, "down": 1.7e300}]})),
    "a_lambda_of_many_digits": (5000, long_prices),
    "numbers_of_many_digits": (4300, long_numbers),
    "many_tables": (26, lambda n: files_of(
        model_of([-1] * n, [0] * n, [0] * n), {}, part_of(tables=[[t, 0, [1]] for t in range(n)]))),
    "many_cells_without_tables": (30, cells_without_tables),
    "deep_splits_of_a_long_reach": (26, deep_splits),
    "rules_that_lead_anywhere": (40, lambda n: files_of(
        model_of(), ruled([{"add": 1 + v / 2**20, "cost": 1e-9} for v in range(min(n, 1000))], eps=1e9))),
    "a_rule_for_many_columns": (20, lambda n: files_of(
        stumps(range(n), n_features=n), ruled([{"add": v, "cost": 1e-3} for v in (1, -1)], columns=range(n), eps=100))),
    "rules_of_many_values": (20, lambda n: files_of(model_of(), ruled(
        [{"become": v, "values": [*range(n)], "cost": 1e-3} for v in range(2)] + [{"add": 1, "cost": 1e-9}]))),
    "many_attacked": (4, lambda n: files_of(model_of(), {}, n_rows=n // 100, header={"attacked": [1] * n})),
    "many_classes": (30, lambda n: files_of(model_of(classes=range(n)), {})),
    "many_blanks": (12, lambda n: files_of(
        model_of(n_features=n, blanks=[[f, 8, 9] for f in range(n)], **NONE_MISSING), {"missing": 1})),
    "many_required": (8, lambda n: files_of(
        model_of(n_features=n, required=[*range(n)], **NONE_MISSING), {"missing": 1})),
    "many_groups": (24, lambda n: files_of(
        model_of(leaf=[-1, 0, 0], n_features=n), {"columns": [{"one_hot": [f]} for f in range(n)]}, row=[1] * n)),
    "many_named_columns": (20, lambda n: files_of(
        model_of(n_features=n), {"columns": [{"numbers": [f], "up": 2} for f in range(n)]})),
    "many_listed_categories": (20, lambda n: files_of(
        model_of(n_features=n, subsets=[[0]], categories=[[f, ["a", "b"], None] for f in range(n)], **ONE_SET),
        {"columns": [{"categories": [*range(n)], "cost": 1}]})),
    "objects_beside": (6, objects),
    "a_wide_letter": (1, lambda n: files_of(model_of(), {}, header={"about": "\U0001f333" + "a" * n})),
    "a_row_of_many_keys": (16, lambda n: files_of(model_of(), {}, label={str(v): v for v in range(n)})),
    "many_rows": (120, lambda n: files_of(model_of(), {}, n_rows=n)),
}  # fmt: skip
KINDS = {name: lambda n_bytes, size=size, build=build: build(n_bytes // size) for name, (size, build) in SIZES.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bytes", type=int, default=1_000_000, help="of the files together, about")
    parser.add_argument("--only", choices=KINDS, nargs="*", default=list(KINDS))
    options = parser.parse_args()
    program = (
        "import sys, time; sys.path.insert(0, sys.argv[1]); import audit;"
        "memory = lambda: int(open('/proc/self/status').read().split('VmHWM:')[1].split()[0]); before = memory();"
        "code = audit.main(sys.argv[2:]); print(time.process_time(), (memory() - before) * 1024, file=sys.stderr)"
    )
    worst = [0.0, 0.0]
    for name in options.only:
        with tempfile.TemporaryDirectory() as folder:
            paths = [Path(folder) / "model", Path(folder) / "certificate"]
            for path, content in zip(paths, KINDS[name](options.bytes), strict=True):
                path.write_bytes(content)
            size = sum(os.path.getsize(path) for path in paths)
            command = [sys.executable, "-I", "-c", program, str(Path(audit.__file__).parent), *map(str, paths)]
            done = subprocess.run(command, capture_output=True, text=True)
        *refusal, figures = done.stderr.splitlines()
        seconds, memory = map(float, figures.split())
        worst = [max(worst[0], seconds), max(worst[1], memory / size)]
        said = refusal or [line for line in done.stdout.splitlines() if line.startswith(("Rows", "row 0"))]
        sys.stdout.write(f"{name}: {size:,} bytes, {seconds:.1f} s, {memory / size:.0f} times. {said[-1][:150]}\n")
        sys.stdout.flush()
    sys.stdout.write(f"longest {worst[0]:.1f} s, largest memory {worst[1]:.0f} times the files\n")


if __name__ == "__main__":
    main()

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

KINDS = {}


def hostile(build):
    KINDS[build.__name__] = build
    return build


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


@hostile
def a_chain_of_splits(n):
    n //= 40
    model = model_of([*range(n)] + [-1] * (n + 1), [0] * (2 * n + 1), [-1] * n + [0] * n + [1], n)
    return files_of(model, {})


@hostile
def a_chain_that_a_budget_cuts(n):
    n //= 40
    model = model_of([*range(n)] + [-1] * (n + 1), [0] * (2 * n + 1), [-1] * n + [0] * n + [1], n)
    return files_of(model, {"norm": 2, "eps": 3})


@hostile
def a_chain_on_one_feature(n):
    n //= 40
    model = model_of([0] * n + [-1] * (n + 1), [*range(n, 0, -1)] + [0] * (n + 1), [-1] * n + [0] * n + [1])
    return files_of(model, {"eps": 10**9})


@hostile
def a_chain_of_sets(n):
    n //= 60
    model = model_of(
        [0] * n + [-1] * (n + 1), [None] * n + [0] * (n + 1), [-1] * n + [0] * n + [1],
        subset=[*range(n)] + [-1] * (n + 1), subsets=[[v] for v in range(n)], missing_left=[0] * (2 * n + 1),
    )  # fmt: skip
    return files_of(model, {"columns": [{"categories": [0], "cost": 1}]})


@hostile
def many_small_sets(n):
    subsets = [[v % 10] for v in range(n // 4)]
    model = model_of(threshold=[None, 0, 0], subset=[0, -1, -1], subsets=subsets, missing_left=[0, 0, 0])
    return files_of(model, {})


@hostile
def many_small_sets_in_use(n):
    n //= 40
    model = model_of(
        [0, -1, -1] * n, [None, 0, 0] * n, [-1, 0, 0] * n, missing_left=[0, 0, 0] * n,
        subset=[s for v in range(n) for s in (v, -1, -1)], subsets=[[v % 10] for v in range(n)],
    )  # fmt: skip
    return files_of(model, {})


@hostile
def a_set_that_features_share(n):
    k = n // 40
    model = model_of(
        [s for f in range(k) for s in (f, -1, -1)], [None, 0, 0] * k, [-1, 0, 0] * k, n_features=k,
        missing_left=[0, 0, 0] * k, subset=[0, -1, -1] * k, subsets=[[*range(k)]],
    )  # fmt: skip
    return files_of(model, {"columns": [{"categories": [*range(k)], "cost": 1}]})


@hostile
def scores_far_apart(n):
    scores = [[9, 5e-324]] + [[9, 1]] * (n // 6)
    return files_of(model_of(leaf=[-1, 0, 1], combine="sum", scores=scores, base=[0, 0]), {})


@hostile
def many_scores_far_apart(n):
    scores = [[9, 5e-324]] + [[v, 1] for v in range(n // 10)]
    return files_of(model_of(leaf=[-1, 0, 0], combine="sum", scores=scores, base=[0, 0]), {})


@hostile
def many_single_scores(n):
    return files_of(model_of(leaf=[-1, 0, 0], combine="sum", scores=[[-9]] * (n // 4), base=[5e-324]), {})


@hostile
def trees_of_one_leaf(n):
    n //= 8
    return files_of(model_of([-1] * n, [0] * n, [0] * n), {})


@hostile
def trees_times_classes(n):
    k = n // 20
    model = model_of([-1] * k, [0] * k, [0] * k, classes=range(k), combine="sum", scores=[[9] + [5e-324] * (k - 1)])
    return files_of(model | {"base": [0] * k}, {}, proof={"rivals": []})


@hostile
def leaves_times_rivals(n):
    k, n = n // 60, n // 60
    model = model_of([0, -1, -1] * n, [0.5, 0, 0] * n, [-1, 0, 0] * n, classes=range(k))
    return files_of(model, {})


@hostile
def leaves_of_a_tree_times_rivals(n):
    k, n = n // 60, n // 60
    leaves = [v % k for v in range(n + 1)]
    model = model_of([0] * n + [-1] * (n + 1), [*range(n, 0, -1)] + [0] * (n + 1), [-1] * n + leaves, classes=range(k))
    return files_of(model, {"eps": 10**9})


@hostile
def denominators_that_grow(n):
    n //= 60
    columns = [{"numbers": [f], "up": 1 + (2 * f + 1) / 2**50} for f in range(n)]
    trees = [s for f in range(n) for s in (f, -1, -1)]
    model = model_of(trees, [0, 0, 0] * n, [-1, 0, 1] * n, n)
    proof = {"cuts": [[f, [0]] for f in range(n)], "rivals": [{"rival": 1, "lambda": [1, 1], "tables": [
        [f, f, [-1, 1]] for f in range(n)]}]}  # fmt: skip
    return files_of(model, {"norm": 100, "eps": 5e-324, "columns": columns}, proof)


@hostile
def a_witness_on_the_budget(n):
    n //= 60
    columns = [{"numbers": [f], "up": 1 + (2 * f + 1) / 2**50} for f in range(n)]
    x = [1.0] + [5e-324] * (n - 1)
    model = model_of(n_features=n)
    return files_of(model, {"norm": 100, "eps": 1 / (1 + 2**-50), "columns": columns}, stable=0, proof=None, witness=x)


@hostile
def powers_of_small_numbers(n):
    n //= 20
    cuts = [v * 5e-324 for v in range(n, 0, -1)]
    model = model_of([0] * n + [-1] * (n + 1), cuts + [0] * (n + 1), [-1] * n + [0] * n + [1])
    columns = [{"numbers": [0], "up": 1.1e-300, "down": 1.7e300}]
    return files_of(model, {"norm": 100, "eps": 1.3e-20, "columns": columns})


@hostile
def a_lambda_of_many_digits(n):
    k, big = n // 5000, 10**1999 + 1
    proof = {"rivals": [{"rival": c, "lambda": [big, big + 2], "unit": [big, big]} for c in range(1, k)]}
    return files_of(model_of(leaf=[-1, 0, 0], classes=range(k)), {"norm": 100, "eps": 5e-324}, proof)


@hostile
def numbers_of_many_digits(n):
    k, big = n // 4300, 10**4250
    tables = [[t, 0, [-big, big]] for t in range(k // 2)]
    model = model_of([0, -1, -1] * (n // 30), [0.5, 0, 0] * (n // 30), [-1, 0, 1] * (n // 30))
    proof = {"cuts": [[0, [0.5]]], "rivals": [{"rival": 1, "unit": [big, big], "tables": tables}]}
    return files_of(model, {}, proof)


@hostile
def many_tables(n):
    k = n // 26
    proof = {"cuts": [], "rivals": [{"rival": 1, "tables": [[t, 0, [1]] for t in range(k)]}]}
    return files_of(model_of([-1] * k, [0] * k, [0] * k), {}, proof)


@hostile
def many_cells_without_tables(n):
    n //= 30
    part = {"split": [1, 0.5], "low": {"split": [0, 0.75], "low": {}, "high": {}}, "high": {}, "rival": 1}
    proof = {"cuts": [[0, [*range(n)]]], "rivals": [part | {"rival": c} for c in range(1, n // 10)]}
    model = model_of([0, -1, -1, 1, -1, -1], [0.5, 0, 0] * 2, [-1, 0, 0] * 2, 2, classes=range(n // 10))
    return files_of(model, {}, proof)


@hostile
def deep_splits_of_a_long_reach(n):
    n //= 26
    part = {}
    for v in range(400):
        part = {"split": [0, n - 401 + v], "low": part, "high": {}}
    model = model_of([0, -1, -1] * n, [s for v in range(n) for s in (v, 0, 0)], [-1, 0, 0] * n)
    return files_of(model, {"eps": 10**9}, {"rivals": [part | {"rival": 1}]})


@hostile
def rules_that_lead_anywhere(n):
    rules = [{"add": 1 + v / 2**20, "cost": 1e-9} for v in range(min(n // 40, 1000))]
    return files_of(model_of(), {"norm": 1, "eps": 1e9, "columns": [{"ruled": [0], "rules": rules}]})


@hostile
def a_rule_for_many_columns(n):
    k = n // 20
    model = model_of([s for f in range(k) for s in (f, -1, -1)], [0.5, 0, 0] * k, [-1, 0, 1] * k, k)
    rules = [{"add": 1, "cost": 1e-3}, {"add": -1, "cost": 1e-3}]
    return files_of(model, {"norm": 1, "eps": 100, "columns": [{"ruled": [*range(k)], "rules": rules}]})


@hostile
def rules_of_many_values(n):
    rules = [{"become": v, "values": [*range(n // 20)], "cost": 1e-3} for v in range(2)]
    rules.append({"add": 1, "cost": 1e-9})
    return files_of(model_of(), {"norm": 1, "eps": 1, "columns": [{"ruled": [0], "rules": rules}]})


@hostile
def many_attacked(n):
    header = {"attacked": [1] * (n // 4)}
    return files_of(model_of(), {}, n_rows=n // 400, header=header)


@hostile
def many_classes(n):
    return files_of(model_of(classes=range(n // 30)), {})


@hostile
def many_blanks(n):
    k = n // 12
    model = model_of(n_features=k, missing_left=[0, 0, 0], blanks=[[f, 8, 9] for f in range(k)])
    return files_of(model, {"missing": 1})


@hostile
def many_required(n):
    k = n // 8
    return files_of(model_of(n_features=k, missing_left=[0, 0, 0], required=[*range(k)]), {"missing": 1})


@hostile
def many_groups(n):
    k = n // 24
    model = model_of(leaf=[-1, 0, 0], n_features=k)
    return files_of(model, {"columns": [{"one_hot": [f]} for f in range(k)]}, row=[1] * k)


@hostile
def many_named_columns(n):
    k = n // 20
    return files_of(model_of(n_features=k), {"columns": [{"numbers": [f], "up": 2} for f in range(k)]})


@hostile
def many_listed_categories(n):
    k = n // 20
    model = model_of(
        threshold=[None, 0, 0], n_features=k, missing_left=[0, 0, 0], subset=[0, -1, -1], subsets=[[0]],
        categories=[[f, ["a", "b"], None] for f in range(k)],
    )  # fmt: skip
    return files_of(model, {"columns": [{"categories": [*range(k)], "cost": 1}]})


@hostile
def objects_beside(n):
    model, certificate = files_of(model_of(), {}, header={"about": [{} for _ in range(n // 6)]})
    return model, certificate.replace(b"{},", b'{"":0},')


@hostile
def a_wide_letter(n):
    return files_of(model_of(), {}, header={"about": "\U0001f333" + "a" * n})


@hostile
def a_row_of_many_keys(n):
    return files_of(model_of(), {}, label={str(v): v for v in range(n // 16)})


@hostile
def many_rows(n):
    return files_of(model_of(), {}, n_rows=n // 120)


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

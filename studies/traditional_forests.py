"""Certify forests that nobody trained for it: how many rows are decided, and how long it takes.

    python studies/traditional_forests.py --data-dir DIR [--models MODELS] [--only paper far deep veritas]

DIR holds mnist.npz and fashion.npz with arrays X (70000, 784), y and is_train in the original order; MODELS the
forests published with the paper, ``rf_101_6_0_valFalse.silva`` and ``rf_25_4_0_valFalse.silva``; without it, forests of
the same size are trained. Trees vote; one thread.

paper    digits 2 against 6, all test rows, the paper's three eps, norms L-inf, L2 and L1, 1 s a row
far      the same at eps 0.1, the first 100 rows, L2 and L1, 5 s a row
deep     scikit-learn forests of 301 trees of depth 10 and 501 trees without limit, 200 rows, L-inf, 10 s a row
veritas  Veritas on the same forest and rows (leaves rewritten to +1 and -1), L-inf, 1 s a row
"""

import argparse
import time
from pathlib import Path

import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split

from certiforest import Attacker, as_ensemble, certify

PAIRS = {"mnist26": ("mnist.npz", 2, 6), "fashion03": ("fashion.npz", 0, 3)}
EPS = (0.005, 0.01, 0.015)
# Robust accuracy (L-inf) as printed in the paper, for each eps; in brackets what undecided rows leave open.
PAPER = {(101, 6): "0.94, 0.77 +- 0.02, 0.67 +- 0.05", (25, 4): "0.90, 0.72, 0.64"}


def load_pair(data_dir, name):
    """Return X_train, X_test, y_train, y_test by the paper's protocol."""
    file, zero, one = PAIRS[name]
    with np.load(data_dir / file) as images:
        chosen = np.isin(images["y"], (zero, one))
        X, y = images["X"][chosen].astype(np.float64), (images["y"][chosen] == one).astype(int)
    low, high = X.min(axis=0), X.max(axis=0)
    X = (X - low) / np.where(high > low, high - low, 1)
    return train_test_split(X, y, test_size=0.3, random_state=7, stratify=y)


def train(X, y, n_trees, depth):
    return RandomForestClassifier(n_trees, max_depth=depth, random_state=0).fit(X, y)


def show(name, ensemble, X, y, attacker, time_limit):
    """Certify rows and print what came out; return the certificates and the seconds."""
    longest, last = 0.0, time.perf_counter()

    def note(_):
        nonlocal longest, last
        longest, last = max(longest, time.perf_counter() - last), time.perf_counter()

    began = time.process_time()
    c = certify(ensemble, X, y, attacker, time_limit=time_limit, progress=note)
    seconds = time.process_time() - began
    low, high = c.robust_accuracy_bounds
    roads = ", ".join(f"{road} {(c.method == road).sum()}" for road in ("composed", "bounded", "proved", "solved"))
    print(
        f"{name}, {attacker.norm} eps {attacker.eps}: robust {low:.4f}" + (f" to {high:.4f}" if high > low else "")
        + f", unknown {(c.stable < 0).sum()} of {len(y)}, {seconds:.2f} s in all, longest about {longest:.2f} s"
        + f" ({roads})",
        flush=True,
    )  # fmt: skip
    return c, seconds


def with_scores(ensemble, X):
    """Return the same forest as a Veritas ensemble: +1 for class 1, -1 for class 0."""
    import veritas

    forest = veritas.AddTree(1, veritas.AddTreeType.REGR)
    for tree in range(ensemble.n_trees):
        target = forest.add_tree()
        places = {int(ensemble.tree_start[tree]): target.root()}
        for node in range(ensemble.tree_start[tree], ensemble.tree_start[tree + 1]):
            place = places[node]
            if ensemble.feature[node] < 0:
                target.set_leaf_value(place, 0, 1.0 if ensemble.leaf[node] else -1.0)
                continue
            # Veritas goes left iff x < value, in float64 here.
            target.split(place, int(ensemble.feature[node]), float(np.nextafter(ensemble.threshold[node], np.inf)))
            places[node + 1], places[int(ensemble.right[node])] = target.left(place), target.right(place)
    sums = forest.eval(X)[:, 0]
    if not np.array_equal(sums > 0, ensemble.predict(X) == 1):
        raise AssertionError("Veritas does not predict as the forest does.")
    return forest


def ask_veritas(forest, x, eps, seconds):
    """Return 1 stable, 0 unstable, -1 open: whether the largest sum within reach is above zero."""
    import veritas

    config = veritas.Config(veritas.HeuristicType.MAX_OUTPUT)
    config.ignore_state_when_worse_than = 0.0
    config.stop_when_num_solutions_exceeds = 1
    search = config.get_search(forest, [veritas.Interval(a - eps, np.nextafter(a + eps, np.inf)) for a in x])
    reason = search.step_for(seconds, 100)
    if search.num_solutions() > 0 and search.get_solution(0).output > 0:
        return 0
    return 1 if reason in (veritas.StopReason.NO_MORE_OPEN, veritas.StopReason.OPTIMAL) else -1


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--models", type=Path)
    parser.add_argument("--only", nargs="+", default=["paper", "far", "deep", "veritas"])
    parser.add_argument("--rows", type=int, help="no more rows than this")
    options = parser.parse_args()
    pairs = {name: load_pair(options.data_dir, name) for name in PAIRS}
    X_train, X_test, y_train, y_test = pairs["mnist26"]
    forests = {}
    for size in PAPER:
        file = None if options.models is None else options.models / "rf_{}_{}_0_valFalse.silva".format(*size)
        forests[size] = as_ensemble(file or train(X_train, y_train, *size), **({} if file else {"voting": "hard"}))
    rows = slice(0, options.rows)
    certify(forests[25, 4], X_test[:2000], y_test[:2000], Attacker("linf", 0.01))  # compile
    if "paper" in options.only:
        for size, forest in forests.items():
            print(f"{size[0]}x{size[1]}, the paper's robust accuracy (L-inf): {PAPER[size]}")
            for norm in ("linf", "l2", "l1"):
                for eps in EPS:
                    show(f"{size[0]}x{size[1]}", forest, X_test[rows], y_test[rows], Attacker(norm, eps), 1)
    if "far" in options.only:
        for norm in ("l2", "l1"):
            for size, forest in forests.items():
                show(f"{size[0]}x{size[1]}", forest, X_test[:100], y_test[:100], Attacker(norm, 0.1), 5)
    if "deep" in options.only:
        for name, (X, X_rows, y, y_rows) in pairs.items():
            for n_trees, depth in ((301, 10), (501, None)):
                forest = as_ensemble(train(X, y, n_trees, depth), voting="hard")
                for eps in (0.015, 0.05):
                    show(f"{name} {n_trees}x{depth}", forest, X_rows[:200], y_rows[:200], Attacker("linf", eps), 10)
    if "veritas" in options.only:
        for size, forest in forests.items():
            X, y = X_test[rows], y_test[rows]
            theirs = with_scores(forest, X)
            theirs = theirs, theirs.negate_leaf_values()
            for eps in EPS:
                ours, seconds = show(f"{size[0]}x{size[1]}", forest, X, y, Attacker("linf", eps), 1)
                began = time.process_time()
                labels = forest.class_index(X)
                stable = np.array([ask_veritas(theirs[c], x, eps, 1.0) for x, c in zip(X, labels, strict=True)])
                other = time.process_time() - began
                both = (stable >= 0) & (ours.stable >= 0)
                print(
                    f"  Veritas: {(stable < 0).sum()} open, {other:.1f} s, {other / seconds:.1f} times ours;"
                    f" {(stable == ours.stable)[both].sum()} of {both.sum()} rows decided by both agree",
                    flush=True,
                )


if __name__ == "__main__":
    main()

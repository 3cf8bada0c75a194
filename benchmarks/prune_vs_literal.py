"""Measure how much faster pruning with sorted thresholds is than comparing all pairs, and how it scales.

    python benchmarks/prune_vs_literal.py --data-dir DIR [--only small | large | rounds]

DIR holds mnist.npz (arrays X, y); without it, rows are synthetic. The same forests, trained on the paper's split of
digits 2 and 6, and the same generators go to both; the resulting thresholds are compared bit for bit. Only the pruning
step is timed (CPU time, after compilation). The literal transcription takes several minutes for the large setting.
"""

import argparse
import sys
import time
from pathlib import Path

import numpy as np
from sklearn.ensemble import RandomForestClassifier

from certiforest import Attacker, Nodes
from certiforest.training import pruning_kernels
from certiforest.training.pruning import prune_forest
from measuring import exponent, load_rows

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
import literal_pruning

# trees, depth, eps, max_iter, pool_factor, shift_range, n_partitions
SETTINGS = {
    "small": (25, 4, 0.015, 100, 2, (0.5, 1.0), 1),
    "large": (101, 6, 0.015, 500, 2, (0.5, 1.0), 4),
}


def as_nodes(tree, columns):
    is_leaf = tree.children_left < 0
    feature = np.where(is_leaf, -1, columns[np.where(is_leaf, 0, tree.feature)])
    threshold = np.where(is_leaf, 0.0, tree.threshold)
    return Nodes(tree.children_left, tree.children_right, feature, threshold, tree.value[:, 0].argmax(axis=1))


def timed(prune, forest, n_keep, **options):
    start = time.process_time()
    preference = np.random.default_rng(1).random(len(forest))
    kept, _ = prune(forest, n_keep, preference=preference, generator=np.random.default_rng(0), **options)
    return time.process_time() - start, kept


def compare(name, X, y):
    n_trees, depth, eps, max_iter, pool_factor, shift_range, n_partitions = SETTINGS[name]
    options = {
        "attacker": Attacker(np.inf, eps),
        "value_range": (X.min(axis=0), X.max(axis=0)),
        "shift_range": shift_range,
        "max_iter": max_iter,
    }
    parts = np.array_split(np.random.RandomState(0).permutation(X.shape[1]), n_partitions)
    sizes = [len(part) for part in np.array_split(np.arange(n_trees), n_partitions)]
    fast = slow = n_kept = 0.0
    for part, size in zip(parts, sizes, strict=True):
        columns = np.sort(part)
        forest = RandomForestClassifier(pool_factor * size, max_depth=depth, random_state=0)
        trees = [as_nodes(tree.tree_, columns) for tree in forest.fit(X[:, columns], y).estimators_]
        timed(prune_forest, trees, 2, **options)  # compiles
        seconds, ours = timed(prune_forest, trees, size, **options)
        fast += seconds
        seconds, literal = timed(literal_pruning.prune_forest, trees, size, **options)
        slow += seconds
        n_kept += len(ours)
        same = len(ours) == len(literal) and all(
            np.array_equal(a.threshold, b.threshold) for a, b in zip(ours, literal, strict=True)
        )
        if not same:
            raise SystemExit("The two disagree.")
        print(f"  partition of {len(part)} features: {len(ours)} of {size} trees, the same thresholds")
    print(
        f"{name}: {n_trees}x{depth} eps {eps}: {n_kept:.0f} trees, literal {slow:.2f} s, ours {fast:.3f} s,"
        f" {slow / fast:.0f} times faster",
        flush=True,
    )


def scale_rounds():
    """Time one round on one feature as thresholds grow, with as many overlaps for each at any size."""
    sizes = 2 ** np.arange(9, 17)
    seconds = []
    lowest, highest = np.zeros(1), np.ones(1)
    for size in sizes:
        budget = np.array([4.0 / size]), np.zeros(1)  # about four thresholds in reach on either side
        times = []
        for seed in range(25):  # new numbers each time: a processor learns to predict the branches of old ones
            rng = np.random.default_rng(seed)
            tree, value = np.sort(rng.integers(64, size=size)), rng.random(size)
            start = time.process_time()
            pruning_kernels.push_apart(
                np.array([0, size]), np.zeros(1, np.int64), tree, *budget, budget[0] / 2, lowest, highest,
                0.5, 1.0, 1, rng, value,
            )  # fmt: skip
            times.append(time.process_time() - start)
        seconds.append(np.median(times))
        print(f"  {size:7} thresholds: {1e3 * seconds[-1]:8.3f} ms for one round and the check after it")
    log_linear = exponent(sizes, sizes * np.log(sizes))
    print(f"rounds: cost grows as N^{exponent(sizes, seconds):.2f} (N log N over these sizes: N^{log_linear:.2f})")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--only", choices=[*SETTINGS, "rounds"])
    arguments = parser.parse_args()
    names = [arguments.only] if arguments.only else ["rounds", *SETTINGS]
    if "rounds" in names:
        scale_rounds()
    if names != ["rounds"]:
        X, _, y, _ = load_rows(arguments.data_dir)
        for name in names:
            if name in SETTINGS:
                compare(name, X, y)


if __name__ == "__main__":
    main()

"""What certifying a test set costs, compared with predicting it.

Times `certify` against scikit-learn's `RandomForestClassifier.predict` for a forest of the same size on the same rows,
one thread, best of several repeats, all in one run; prints the ratio for each norm, how the cost grows with rows and
with nodes, and the peak memory beyond the inputs.

    python benchmarks/certify_vs_predict.py --data-dir DIR      rows of MNIST, 2 against 6, from DIR/mnist.npz
    python benchmarks/certify_vs_predict.py                     synthetic rows of the same shape
    ... --model FILE                                            a large-spread model to certify, instead of training one
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from sklearn.ensemble import RandomForestClassifier

from certiforest import Attacker, LargeSpreadForestClassifier, TreeEnsemble, as_ensemble, certify, has_large_spread
from measuring import best_time, certify_unprepared, exponent, load_rows

EPS = 0.015


def first_trees(ensemble, n_trees):
    nodes = slice(0, ensemble.tree_start[n_trees])
    return TreeEnsemble(
        ensemble.feature[nodes],
        ensemble.threshold[nodes],
        ensemble.leaf[nodes],
        n_features=ensemble.n_features,
        classes=ensemble.classes,
    )


def print_growth(ensemble, X, attacker):
    many = np.tile(X, (8, 1))
    rows = [len(X), 2 * len(X), 4 * len(X), 8 * len(X)]
    times = [best_time(lambda n=n: certify(ensemble, many[:n], attacker=attacker), 3) for n in rows]
    parts = [first_trees(ensemble, n) for n in (13, 25, 51, 101)]
    nodes = [part.n_nodes for part in parts]
    node_times = [best_time(lambda part=part: certify(part, X, attacker=attacker), 5) for part in parts]
    print(
        f"norm {attacker.norm}: cost grows as rows ** {exponent(rows, times):.2f},"
        f" as nodes ** {exponent(nodes, node_times):.2f}"
    )


def peak_memory(ensemble, X, y):
    """Return how many megabytes `certify` takes beyond its inputs, in a process of its own."""
    with tempfile.TemporaryDirectory() as directory:
        ensemble.save(Path(directory) / "model.json")
        np.save(Path(directory) / "X.npy", X)
        np.save(Path(directory) / "y.npy", y)
        command = [sys.executable, __file__, "--peak-of", directory]
        return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def memory(field):
    """Return a memory figure of this process in bytes: VmRSS now, VmHWM at most so far."""
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(field))
    return int(line.split()[1]) * 1024


def print_peak(directory):
    ensemble = TreeEnsemble.load(Path(directory) / "model.json")
    X, y = np.load(Path(directory) / "X.npy"), np.load(Path(directory) / "y.npy")
    for norm in ("linf", "l2"):
        certify(ensemble, X[:10], y[:10], Attacker(norm, EPS))
    before = memory("VmRSS")
    for norm in ("linf", "l2", "l1"):
        certify(ensemble, X, y, Attacker(norm, EPS))
    print((memory("VmHWM") - before) / 1e6)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir")
    parser.add_argument("--model")
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--peak-of", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peak_of:
        print_peak(options.peak_of)
        return
    X_train, X, y_train, y = load_rows(options.data_dir)
    forest = RandomForestClassifier(101, max_depth=6, random_state=0, n_jobs=1).fit(X_train, y_train)
    if options.model:
        ensemble = as_ensemble(options.model)
    else:
        model = LargeSpreadForestClassifier(101, max_depth=6, norm=np.inf, eps=EPS, random_state=0)
        ensemble = model.fit(X_train, y_train).ensemble_
    assert has_large_spread(ensemble, Attacker("linf", EPS))
    print(f"{ensemble}, {len(X)} rows")

    predict = best_time(lambda: forest.predict(X), options.repeats)
    print(f"scikit-learn predict   {predict * 1e3:7.1f} ms")
    first = best_time(lambda: certify_unprepared(ensemble, X, y, Attacker("linf", EPS)), options.repeats)
    print(f"certify linf, the first time {first * 1e3:.1f} ms   ratio {first / predict:.2f}")
    for norm in ("linf", "l2", "l1"):
        attacker = Attacker(norm, EPS)
        took = best_time(lambda attacker=attacker: certify(ensemble, X, y, attacker), options.repeats)
        robust = certify(ensemble, X, y, attacker).robust_accuracy
        print(f"certify {norm:4}           {took * 1e3:7.1f} ms   ratio {took / predict:.2f}   robust {robust:.4f}")

    for norm in ("linf", "l2"):
        print_growth(ensemble, X, Attacker(norm, EPS))
    print(f"peak memory beyond the inputs: {peak_memory(ensemble, X, y):.1f} MB")


if __name__ == "__main__":
    main()

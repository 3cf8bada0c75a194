"""How far certifying goes beyond its time limits, for models up to 2,000 trees of depth 12 with ten classes.

    python benchmarks/time_limits.py [--sizes 100x6 500x10 2000x12] [--norms 0 1 2 inf] [--rows 20]

Complete trees of random thresholds, of which an attacker with the given share of the range reaches many leaves. For
each model and norm, 20 rows with ``total_time_limit=1`` and three with ``time_limit=0.2``, after preparation. Shown are
wall-clock seconds beyond the limit (of three times 0.2 s for the rows) and, as other work on the machine hardly changes
it, the longest time between two readings of the clock in seconds of one core.
"""

import argparse
import itertools
import math
import time
from functools import partial
from typing import NamedTuple

import numpy as np

from certiforest import Attacker, Certificates, Certifier, TreeEnsemble
from certiforest.proof.clock import Clock


class Ran(NamedTuple):
    """What came out of a call, its wall-clock seconds, and the longest CPU time between two readings of the clock."""

    found: Certificates
    seconds: float
    longest: float


def during(function):
    read, readings, began = Clock.left, [time.process_time()], time.monotonic()
    Clock.left = property(lambda clock: readings.append(time.process_time()) or read.fget(clock))
    try:
        found = function()
    finally:
        Clock.left = read
    readings.append(time.process_time())
    return Ran(found, time.monotonic() - began, float(np.diff(readings).max()))


def complete_trees(n_trees, depth, n_classes, combine, n_features=30):
    """Return trees that test each feature once on a path, so that no branch is dead."""
    rng, level = np.random.default_rng(0), np.zeros(1, np.int64)
    for d in range(depth - 1, -1, -1):
        level = np.concatenate([[d], level + 0, level]) if d < depth - 1 else np.array([d, depth, depth])
    order = np.array([rng.permutation(n_features)[:depth] for _ in range(n_trees)])
    is_leaf = np.tile(level == depth, n_trees)
    feature = np.where(is_leaf, -1, np.hstack([order, order[:, :1]])[:, level].ravel())
    threshold = np.where(is_leaf, 0.0, rng.random(len(feature)))
    scores, n_values = None, n_classes
    if combine == "sum":
        n_values = 1000 * n_classes
        scores = np.zeros((n_values, n_classes))  # one class a row, as boosted trees have it
        scores[np.arange(n_values), np.arange(n_values) % n_classes] = rng.normal(size=n_values)
    value = rng.integers(n_values, size=len(feature))
    if combine == "sum":  # and a class a tree
        value = value // n_classes * n_classes + np.repeat(np.arange(n_trees) % n_classes, len(level))
    keywords = {} if scores is None else {"scores": scores, "base": np.zeros(n_classes)}
    leaf = np.where(is_leaf, value, -1)
    return TreeEnsemble(feature, threshold, leaf, n_features=n_features, classes=np.arange(n_classes), **keywords)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="+", default=["100x6", "500x10", "2000x12"])
    parser.add_argument("--classes", nargs="+", type=int, default=[10])
    parser.add_argument("--norms", nargs="+", type=float, default=[0, 1, 2, math.inf])
    parser.add_argument("--combine", nargs="+", default=["vote", "sum"])
    parser.add_argument("--eps", type=float, help="else .02 (1 for L0)")
    parser.add_argument("--rows", type=int, default=20)
    options = parser.parse_args()
    rng = np.random.default_rng(1)
    print("trees   classes combine norm  prepared   total 1 s: beyond, reading  rows .2 s: beyond, reading  unknown")
    for size, n_classes, combine in itertools.product(options.sizes, options.classes, options.combine):
        model = complete_trees(*map(int, size.split("x")), n_classes, combine)
        X = rng.random((options.rows, model.n_features))
        for norm in options.norms:
            attacker = Attacker(norm, options.eps or (1.0 if norm == 0 else 0.02))
            hasty, patient = (Certifier(model, attacker, time_limit=seconds) for seconds in (0.2, 60))
            prepared = during(partial(hasty.certify, X[:1]))
            total = during(partial(patient.certify, X, total_time_limit=1.0))
            rows = during(partial(hasty.certify, X[:3]))
            print(
                f"{size:<7} {n_classes:7} {combine:<7} {norm:4g} {prepared.seconds:9.1f}"
                f" {max(total.seconds - 1, 0):19.2f}"
                f" {total.longest:8.2f} {max(rows.seconds - 0.6, 0):19.2f} {rows.longest:8.2f}"
                f" {np.mean(total.found.stable == -1):9.0%}",
                flush=True,
            )


if __name__ == "__main__":
    main()

"""The performance gate: ratios of times that must not grow, both sides measured in turns in one run.

    python benchmarks/gate.py

Each limit is about 2.5 times the ratio that was measured when it was set. A ratio above its limit is measured twice
more before the gate fails: other processes can only make a time longer, so the least of many is the one to compare.
"""

import sys
import time

import numpy as np
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.preprocessing import minmax_scale

from certiforest import Attacker, LargeSpreadBoostingClassifier, LargeSpreadForestClassifier, as_ensemble, certify

EPS, N_TREES, DEPTH = 0.01, 50, 5


def ratio(ours, yardstick, repeats=7):
    """Return the fewest CPU seconds that one call took over the fewest that the other took, called in turns."""
    times = {ours: [], yardstick: []}
    for function in (ours, yardstick) * (repeats + 1):
        began = time.process_time()
        function()
        times[function].append(time.process_time() - began)
    return min(times[ours][1:]) / min(times[yardstick][1:])  # the first call may compile


def main():
    X, y = make_classification(6_000, 100, n_informative=30, random_state=0)
    X = minmax_scale(X)
    forest = RandomForestClassifier(N_TREES, max_depth=DEPTH, random_state=0, n_jobs=1).fit(X, y)
    grown = LargeSpreadForestClassifier(N_TREES, max_depth=DEPTH, eps=EPS, random_state=0)
    boosted = LargeSpreadBoostingClassifier(N_TREES, max_depth=DEPTH, eps=EPS, random_state=0)
    votes, sums = (as_ensemble(model.fit(X, y)) for model in (grown, boosted))
    meeting = as_ensemble(forest)

    def predict():
        return forest.predict(X)

    gates = {
        "certify votes, L-inf": (lambda: certify(votes, X, y, Attacker("inf", EPS)), predict, 2.5),
        "certify votes, L2": (lambda: certify(votes, X, y, Attacker("l2", EPS)), predict, 2.8),
        "certify sums, L-inf": (lambda: certify(sums, X, y, Attacker("inf", EPS)), predict, 2.5),
        "certify trees that meet, 100 rows": (
            lambda: certify(meeting, X[:100], y[:100], Attacker("inf", 0.002)),
            predict,
            0.6,
        ),
        "predict votes": (lambda: votes.predict(X), predict, 1.6),
        "grow a forest": (lambda: grown.fit(X, y), lambda: forest.fit(X, y), 1.0),
    }
    failed = []
    for name, (ours, yardstick, limit) in gates.items():
        found = np.inf
        for _ in range(3):
            found = min(found, ratio(ours, yardstick))
            if found <= limit:
                break
        print(f"{name:<36} {found:6.2f} of scikit-learn's time, limit {limit}")
        if found > limit:
            failed.append(name)
    return f"Slower than the limit: {', '.join(failed)}." if failed else 0


if __name__ == "__main__":
    sys.exit(main())

"""Whether code for all processors of an architecture is slower than code for the one at hand, and says anything else.

    python benchmarks/processors.py

CPU seconds, best of several, of processes that take turns; and whether what was found is equal, bit for bit.
"""

import hashlib
import json
import subprocess
import sys
import time

import numpy as np
from numba.core.codegen import JITCPUCodegen
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.preprocessing import minmax_scale

from certiforest import (
    Attacker,
    LargeSpreadAdditiveClassifier,
    LargeSpreadBoostingClassifier,
    LargeSpreadForestClassifier,
    RobustBoostingClassifier,
    as_ensemble,
    certify,
    kernel_cache,
)

EPS = 0.01


def work():
    """Yield what is done, CPU seconds, and a digest of what was found."""
    X, y = make_classification(3000, 60, n_informative=30, random_state=0)
    X = minmax_scale(X)
    trainers = {
        "forest": LargeSpreadForestClassifier(50, 5, eps=EPS, random_state=0),
        "boosting": LargeSpreadBoostingClassifier(30, 5, eps=EPS, random_state=0),
        "robust boosting": RobustBoostingClassifier(10, 4, 0.2, eps=EPS, random_state=0),
        "additive": LargeSpreadAdditiveClassifier(8, n_epochs=20, eps=EPS, random_state=0),
    }
    tasks = {f"fit {name}": lambda trainer=trainer: trainer.fit(X, y).ensemble_ for name, trainer in trainers.items()}
    meeting = as_ensemble(RandomForestClassifier(30, max_depth=6, random_state=0).fit(X, y))
    for norm in ("inf", 2, 1):
        for name in ("forest", "boosting"):
            tasks[f"certify {name}, L{norm}"] = lambda name=name, norm=norm: certify(
                trainers[name], np.tile(X, (5, 1)), np.tile(y, 5), Attacker(norm, EPS)
            )
        tasks[f"radii of trees that meet, L{norm}"] = lambda norm=norm: certify(
            meeting, X[:40], y[:40], Attacker(norm, 0.02), radius=True
        )
    tasks["proofs"] = lambda: certify(meeting, X[:40], y[:40], Attacker("inf", 0.02), proof=True)
    for name, task in tasks.items():
        found, seconds = task(), []
        for _ in range(4):
            began = time.process_time()
            task()
            seconds.append(time.process_time() - began)
        yield name, min(seconds), digest(found)


def digest(found):
    parts = (
        [found.to_document()]
        if hasattr(found, "to_document")
        else [found.prediction.tolist(), found.stable.tolist(), repr(found.radius), repr(found.witness)]
    )
    return hashlib.sha256(json.dumps(parts, default=str).encode()).hexdigest()


def main():
    if sys.argv[1:]:
        if sys.argv[1] == "this processor":
            own = JITCPUCodegen("certiforest")
            kernel_cache._codegen = lambda: own
        print(json.dumps(list(work())))
        return
    found = {}
    for kind in ("all processors", "this processor") * 2:
        done = subprocess.run([sys.executable, __file__, kind], stdout=subprocess.PIPE, check=True)
        for name, seconds, value in json.loads(done.stdout):
            best, _ = found.get((name, kind), (np.inf, ""))
            found[name, kind] = min(best, seconds), value
    for name in dict.fromkeys(name for name, _ in found):
        (ours, said), (own, said_too) = (found[name, kind] for kind in ("all processors", "this processor"))
        print(f"{name:32}{ours:8.3f} s, {ours / own:5.2f} of code for this processor; equal: {said == said_too}")


if __name__ == "__main__":
    main()

"""Whether code for all processors of an architecture is slower than code for the one at hand, and says anything else.

    python benchmarks/processors.py

CPU seconds, best of several, of processes that take turns; and whether what was found is equal, bit for bit.
"""

import hashlib
import json
import random
import subprocess
import sys
import time
from pathlib import Path

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
    TreeEnsemble,
    as_ensemble,
    certify,
    kernel_cache,
)

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
import cases
import referee

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
    for draw in (cases.random_case, cases.extreme_case, cases.real_case, cases.rule_case):
        for combine in ("vote", "sum"):
            drawn = [draw(chance, combine=combine) for chance in map(random.Random, range(300))]
            tasks[f"{draw.__name__}, {combine}"] = lambda drawn=drawn: [referee.certified([case], 60) for case in drawn]
    for name, task in tasks.items():
        found, seconds = task(), []
        for _ in range(2):
            began = time.process_time()
            task()
            seconds.append(time.process_time() - began)
        yield name, min(seconds), digest(found)


def digest(found):
    if isinstance(found, list):
        return [digest(part) for part in found]
    if isinstance(found, TreeEnsemble):
        return found.sha256
    said = [np.asarray(part).tolist() for part in (found.prediction, found.stable, found.radius, found.witness)]
    return hashlib.sha256(json.dumps(said).encode()).hexdigest()


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

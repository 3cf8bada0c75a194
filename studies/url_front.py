"""Phishing URLs as TabularBench attacks them, certified: accuracy and certified accuracy beside what its models keep.

    python studies/url_front.py DIR [--seeds 0 1 2] [--limit 1]

DIR is that of `url_relations`, with ``tabularbench_front.json``: of the 70 models of TabularBench (NeurIPS 2024) for
this table those that no other one beats in both accuracy and robust accuracy, which is the share of rows of phishing
that its attack does not break. Here no attack breaks them: up to 1,000 test rows of phishing, L2 .5 in units of the
ranges, whole columns whole, the published relations kept. No setting was chosen by them.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

import numpy as np

from certiforest import LargeSpreadAdditiveClassifier, RobustBoostingClassifier, certify
from url_relations import read_table

N_ATTACKED = 1000


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--limit", type=float, default=1.0, help="seconds for a row")
    args = parser.parse_args(argv)
    table = read_table(args.directory)
    X, y = table.X["test"], table.y["test"]
    rows = np.flatnonzero(y == 1)[:N_ATTACKED]
    attacker = table.attacker(2, 0.5, table.published)
    front = json.loads((args.directory / "tabularbench_front.json").read_text(encoding="utf-8"))
    additive = [(eps, attacked) for attacked in (None, [1]) for eps in (0.3, 0.4, 0.5)]
    makers = {
        f"additive, trained for L2 {eps}{'' if attacked is None else ', phishing attacked'}": (
            lambda seed, eps=eps, attacked=attacked: LargeSpreadAdditiveClassifier(
                attacker=table.attacker(2, eps), attacked=attacked, random_state=seed
            )
        )
        for eps, attacked in additive
    }
    for eps in (0.1, 0.2):
        makers[f"robust boosting, trained for L-inf {eps}, phishing attacked"] = lambda seed, eps=eps: (
            RobustBoostingClassifier(attacker=table.attacker(np.inf, eps), attacked=[1], random_state=seed)
        )
    print(f"{len(rows)} rows of phishing; {len(front)} models of TabularBench, broken by an attack or not\n")
    print("| model | accuracy | certified | undecided | TabularBench's with more of both | training s | verdicts s |")
    print("|---|---|---|---|---|---|---|", flush=True)
    for name, make in makers.items():
        found = []
        for seed in args.seeds:
            start = time.process_time()
            model = make(seed).fit(table.X["train"], table.y["train"])
            trained = time.process_time()
            certified = certify(model, X[rows], y[rows], attacker=attacker, time_limit=args.limit, n_jobs=1)
            spent = trained - start, time.process_time() - trained
            found.append((float((model.predict(X) == y).mean()), *certified.robust_accuracy_bounds, *spent))
        accuracy, low, high, fit, certify_all = np.mean(found, axis=0)
        better = sum(theirs["accuracy"] > accuracy and theirs["robust"] > low for theirs in front)
        print(
            f"| {name} | {accuracy:.3f} | {low:.3f} | {high - low:.3f} | {better} | {fit:.1f} | {certify_all:.1f} |",
            flush=True,
        )
    print("\n| TabularBench, training | accuracy | not broken by its attack |\n|---|---|---|")
    for theirs in front:
        print(f"| {theirs['model']}, {theirs['training']} | {theirs['accuracy']:.3f} | {theirs['robust']:.3f} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())

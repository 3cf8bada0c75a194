"""Phishing URLs as TabularBench attacks them, certified: accuracy and certified accuracy beside what its models keep.

    python studies/url_front.py DIR [--seeds 0 1 2] [--limit 1] [--rows valid] [--picture FILE]

DIR is that of `url_relations`, with ``tabularbench_front.json``: of the 70 models of TabularBench (NeurIPS 2024) for
this table those that no other one beats in both accuracy and robust accuracy, which is the share of rows of phishing
that its attack does not break. Here no attack breaks them: up to 1,000 test rows of phishing, L2 .5 in units of the
ranges, whole columns whole, the published relations kept. Training is for that attacker, with less and less weight of
the worst case; the weights were looked at with `--rows valid`, which trains without these. ``--picture`` draws it.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

import numpy as np

from certiforest import LargeSpreadAdditiveClassifier, certify
from url_relations import read_table

N_ATTACKED = 1000
SHARES = 1.0, 0.5, 0.3, 0.2, 0.15, 0.1  # of the worst case in the loss


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--limit", type=float, default=1.0, help="seconds for a row")
    parser.add_argument("--rows", choices=["test", "valid"], default="test")
    parser.add_argument("--picture", type=Path)
    args = parser.parse_args(argv)
    table = read_table(args.directory)
    X, y = table.X[args.rows], table.y[args.rows]
    rows = np.flatnonzero(y == 1)[:N_ATTACKED]
    known = ["train"] if args.rows == "valid" else ["train", "valid"]
    X_known, y_known = (np.concatenate([part[name] for name in known]) for part in (table.X, table.y))
    attacker = table.attacker(2, 0.5, table.published)
    front = json.loads((args.directory / "tabularbench_front.json").read_text(encoding="utf-8"))
    makers = {
        f"additive, weight {share}, {'single columns' if n == 1 else 'or pairs'}": (
            lambda seed, n=n, share=share: LargeSpreadAdditiveClassifier(
                attacker=attacker, attacked=[1], attacked_share=share, max_columns=n, random_state=seed
            )
        )
        for n in (2, 1)
        for share in SHARES
    }
    print(f"{len(rows)} rows of phishing; {len(front)} models of TabularBench, broken by an attack or not\n")
    print("| model | accuracy | certified | undecided | TabularBench's with more of both | training s | verdicts s |")
    print("|---|---|---|---|---|---|---|", flush=True)
    ours = []
    for name, make in makers.items():
        found = []
        for seed in args.seeds:
            start = time.process_time()
            model = make(seed).fit(X_known, y_known)
            trained = time.process_time()
            certified = certify(model, X[rows], y[rows], attacker=attacker, time_limit=args.limit, n_jobs=1)
            spent = trained - start, time.process_time() - trained
            found.append((float((model.predict(X) == y).mean()), *certified.robust_accuracy_bounds, *spent))
        accuracy, low, high, fit, certify_all = np.mean(found, axis=0)
        ours.append((accuracy, low))
        better = sum(theirs["accuracy"] > accuracy and theirs["robust"] > low for theirs in front)
        print(
            f"| {name} | {accuracy:.3f} | {low:.3f} | {high - low:.3f} | {better} | {fit:.1f} | {certify_all:.1f} |",
            flush=True,
        )
    print("\n| TabularBench, training | accuracy | not broken by its attack |\n|---|---|---|")
    for theirs in front:
        print(f"| {theirs['model']}, {theirs['training']} | {theirs['accuracy']:.3f} | {theirs['robust']:.3f} |")
    if args.picture:
        draw(args.picture, ours, front)
    return 0


def draw(path: Path, ours: list[tuple[float, float]], front: list[dict]) -> None:
    """Draw what is certified, and what an attack does not break, over accuracy."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6, 4), layout="constrained")
    theirs = sorted((one["accuracy"], one["robust"]) for one in front)
    axes.plot(*zip(*theirs, strict=True), "x--", color="grey", label="TabularBench, not broken by its attack")
    for part, mark, what in ((slice(len(SHARES)), "s", "or pairs"), (slice(len(SHARES), None), "o", "single columns")):
        axes.plot(*zip(*ours[part], strict=True), f"{mark}-", label=f"additive, {what}: certified")
    axes.set(xlabel="accuracy", ylabel="share of phishing that is kept", xlim=(0.84, 0.95))
    axes.legend()
    figure.savefig(path)


if __name__ == "__main__":
    sys.exit(main())

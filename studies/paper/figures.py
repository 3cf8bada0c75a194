"""The paper's figures: rows decided within a time limit, and training time."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from lab import Lab, Tabulate, Work
from models import LARGE_SPREAD, MODELS, model_name, train_as_in_figures
from settings import Setting, read_paper

from certiforest import Attacker, certify
from certiforest.verdicts import UNKNOWN

TIME_LIMITS = (0.001, 0.01, 0.1, 1.0, 60.0, 120.0, 180.0, 600.0)


def time_limits(lab: Lab) -> tuple[dict[str, Work], Tabulate]:
    """Figure 3: rows decided within a time limit per row, largest models and budget."""
    setting = lab.settings[-1]

    def tabulate(results: dict[str, Any]) -> tuple[str, list[str], list[list[str]], list[str]]:
        cells = {kind: results[f"times-{model_name(kind, setting)}"] for kind in MODELS}
        n_rows = len(next(iter(cells.values()))["seconds"])
        paper = read_paper()["undecided_by_seconds"]
        rows = []
        for limit in TIME_LIMITS:
            printed = paper.get(f"{limit:g}")
            row = [f"{limit:g}", "" if printed is None else str(printed)]
            for cell in cells.values():
                within = (np.array(cell["seconds"]) <= limit) & np.array(cell["decided"], bool)
                row.append(str(n_rows - int(within.sum())))
            rows.append(row)
        slowest = ", ".join(f"{kind} {max(cell['seconds']):.3f} s" for kind, cell in cells.items())
        columns = ["seconds per row", "SILVA, traditional (paper)", *(f"ours, {kind}" for kind in MODELS)]
        notes = [
            f"Of {n_rows} test rows, those not decided within the limit; {setting.size}, eps {setting.eps:g}.",
            f"Slowest row: {slowest}. Each row is certified by a call of its own.",
            "SILVA's undecided rows by memory limit (paper): "
            + ", ".join(f"{n} at {gb} GB" for gb, n in read_paper()["undecided_by_memory_gb"].items())
            + "; the memory of ours is in table 5.",
        ]
        return "Rows not decided within a time limit, paper's figure 3", columns, rows, notes

    cells: dict[str, Work] = {
        f"times-{model_name(kind, setting)}": partial(_time_rows, lab, kind, setting) for kind in MODELS
    }
    return cells, tabulate


def _time_rows(lab: Lab, kind: str, setting: Setting) -> dict[str, Any]:
    ensemble, attacker = lab.model(kind, setting), Attacker("inf", setting.eps)
    X_test = lab.split[1]
    certify(ensemble, X_test[:1], None, attacker)  # compile outside the measurement
    seconds, decided = [], []
    for row in X_test:
        start = time.perf_counter()
        found = certify(ensemble, row[None], None, attacker, time_limit=TIME_LIMITS[-1]).unless_interrupted()
        seconds.append(round(time.perf_counter() - start, 6))
        decided.append(int(found.stable[0] != UNKNOWN))
    return {"seconds": seconds, "decided": decided}


def _training_time(lab: Lab, sizes: Sequence[tuple[int, int]], figure: str) -> tuple[dict[str, Work], Tabulate]:
    """Figures 4 and 5: seconds of training by number of trees, and by depth."""
    budgets = sorted({setting.eps for setting in lab.settings})
    paper = read_paper()["training_seconds"].get(lab.dataset, {})
    trainers = {**MODELS, "pruned": train_as_in_figures}
    methods = LARGE_SPREAD

    def name(method: str, trees: int, depth: int, eps: float) -> str:
        return f"training-{method}-{trees}x{depth}-{eps:g}"

    def work(method: str, trees: int, depth: int, eps: float) -> dict[str, Any]:
        X_train, _, y_train, _ = lab.split
        setting = Setting(lab.dataset, eps, trees, depth, {}, {}, {})
        trainers[method](X_train[:200], y_train[:200], replace(setting, trees=12))  # compile outside the measurement
        start = time.process_time()
        ensemble, _ = trainers[method](X_train, y_train, setting)
        return {"cpu_seconds": round(time.process_time() - start, 2), "n_trees": ensemble.n_trees}

    def tabulate(results: dict[str, Any]) -> tuple[str, list[str], list[list[str]], list[str]]:
        rows = []
        for eps in budgets:
            for trees, depth in sizes:
                printed = paper.get(f"{trees},{depth},{eps:g}")
                row = [f"{eps:g}", f"{trees} x {depth}", "" if printed is None else f"{printed:,}"]
                for method in methods:
                    cell = results[name(method, trees, depth, eps)]
                    short = f" ({cell['n_trees']} trees)" if cell["n_trees"] < trees else ""
                    row.append(f"{cell['cpu_seconds']:.1f}{short}")
                rows.append(row)
        notes = [
            "CPU seconds on one thread. Pruned with MAX_ITER 500, MULT 6, INTV [k, 1.5k], l 6, as in the paper, which"
            " gives its figures as plots; printed are those its text names.",
        ]
        return (
            f"Seconds of training, paper's {figure}",
            ["eps", "trees x depth", "pruned: paper", *methods],
            rows,
            notes,
        )

    cells: dict[str, Work] = {
        name(method, trees, depth, eps): partial(work, method, trees, depth, eps)
        for eps in budgets
        for trees, depth in sizes
        for method in methods
    }
    return cells, tabulate


def training_time_by_trees(lab: Lab) -> tuple[dict[str, Work], Tabulate]:
    """Figure 4: seconds of training by number of trees."""
    sizes = [(25, 6)] if lab.quick else [(25, 6), (51, 6), (75, 6), (101, 6)]
    return _training_time(lab, sizes, "figure 4")


def training_time_by_depth(lab: Lab) -> tuple[dict[str, Work], Tabulate]:
    """Figure 5: seconds of training by depth."""
    sizes = [(25, 3)] if lab.quick else [(101, 3), (101, 4), (101, 5), (101, 6)]
    return _training_time(lab, sizes, "figure 5")

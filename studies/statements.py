"""Statements about gradient-boosted models of four tables: how many are decided, how fast, and how wide bounds stay.

Every column of every model: can a change of it alone take the probability from 1 - p or less to p or more? What is the
largest gap, the largest fall, and the range over the box of the training rows? Half of the models for "monotone" are
trained with constraints, which must be proved. "reasons": sufficient reasons of 200 decisions, and boxes around the
rows, of one XGBoost model a table (100 trees of depth 4), each proved again by `check`. "rows": what a regressor of 200
trees of depth 5 can be brought to say of 500 rows.

python studies/statements.py --data-dir DIR --time-limit 60
python studies/statements.py --data-dir DIR --only sensitive --tables credit --trees 100 --time-limit 20

DIR holds spambase.csv, diabetes.csv and treant/{census,credit}.train.csv.bz2.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from certiforest import Attacker, Certifier, Domain, Insensitive, Monotone, Range, check, explain, measure

LEVELS = (0.6, 0.7, 0.8, 0.9, 0.95)


def load(folder: Path, name: str) -> tuple[pd.DataFrame, np.ndarray]:
    if name in ("census", "credit"):
        table = pd.read_csv(folder / "treant" / f"{name}.train.csv.bz2")
    else:
        table = pd.read_csv(folder / f"{name}.csv", header=None if name == "spambase" else "infer")
    X, y = table.iloc[:, :-1], (table.iloc[:, -1] > 0).astype(int).to_numpy()
    X.columns = [str(column) for column in X.columns]
    return X.astype(dict.fromkeys(X.select_dtypes(exclude="number"), "category")), y


def models(
    asked: argparse.Namespace, *, constrained: bool = False
) -> Iterator[tuple[str, Any, pd.DataFrame, list[str]]]:
    """Yield names, fitted models, their training rows, and columns that were constrained to go up."""
    import lightgbm
    import xgboost

    for name in asked.tables:
        X, y = load(Path(asked.data_dir), name)
        up = [c for c in X if X[c].dtype != "category" and np.corrcoef(X[c], y)[0, 1] > 0.05] if constrained else []
        for n_trees, depth in ((asked.trees, 5), (asked.trees, 6)):
            shape = {"n_estimators": n_trees, "max_depth": depth, "learning_rate": 0.1, "n_jobs": 1, "random_state": 0}
            ways = dict.fromkeys(up, 1)
            made = xgboost.XGBClassifier(**shape, enable_categorical=True, monotone_constraints=ways or None).fit(X, y)
            yield f"{name} XGBoost {n_trees}x{depth}", made, X, up
            ways = [int(c in up) for c in X]
            made = lightgbm.LGBMClassifier(**shape, num_leaves=2**depth - 1, verbose=-1, monotone_constraints=ways)
            yield f"{name} LightGBM {n_trees}x{depth}", made.fit(X, y), X, up


def sensitive(asked: argparse.Namespace) -> None:
    seconds, decided = {level: [] for level in LEVELS}, {level: [0, 0, 0] for level in LEVELS}
    for name, model, X, _ in models(asked):
        domain = Domain.from_data(X)
        for column in X:
            for level in LEVELS:
                began = time.process_time()
                (result,) = check(model, Insensitive([column], 1 - level, level), domain, time_limit=asked.time_limit)
                seconds[level].append(time.process_time() - began)
                decided[level][{True: 0, False: 1, None: 2}[result.holds]] += 1
                if result.pair is not None:
                    high, low = model.predict_proba(result.pair)[:, 1]
                    assert high >= level
                    assert low <= 1 - level
        print(f"# {name}", flush=True)
    for level in LEVELS:
        held, refuted, is_open = decided[level]
        middle, most = np.median(seconds[level]), max(seconds[level])
        print(
            f"sensitive {1 - level:.2f}/{level}: {held} hold, {refuted} refuted, {is_open} open;"
            f" median {middle:.2f}, most {most:.1f} CPU s"
        )


def monotone(asked: argparse.Namespace) -> None:
    for constrained in (True, False):
        seconds, decided, proved = [], [0, 0, 0], [0, 0]
        for _, model, X, up in models(asked, constrained=constrained):
            domain = Domain.from_data(X)
            for column in (c for c in X if X[c].dtype != "category"):
                began = time.process_time()
                (result,) = check(model, Monotone(column, "up"), domain, time_limit=asked.time_limit)
                seconds.append(time.process_time() - began)
                decided[{True: 0, False: 1, None: 2}[result.holds]] += 1
                if column in up:
                    proved[0] += result.holds is True
                    proved[1] += 1
        print(
            f"monotone, {'constrained' if constrained else 'free'}: {decided[0]} hold, {decided[1]} refuted,"
            f" {decided[2]} open; of constrained columns {proved[0]} of {proved[1]} proved;"
            f" median {np.median(seconds):.2f}, most {max(seconds):.1f} CPU s"
        )


def most(asked: argparse.Namespace, quantity: str) -> None:
    seconds, widths = [], []
    for name, model, X, _ in models(asked):
        domain = Domain.from_data(X)
        columns = [c for c in X if quantity != "fall" or X[c].dtype != "category"]
        for column in [None] if quantity == "range" else columns:
            tell = {"gap": {"columns": [column]}, "fall": {"column": column}, "range": {}}[quantity]
            began = time.process_time()
            found = measure(model, quantity, domain, outputs="score", time_limit=asked.time_limit, **tell)
            seconds.append(time.process_time() - began)
            ends = [found.bounds] if quantity != "range" else list(found.bounds)
            widths.append(max(abs(a - b) / max(1.0, abs(a)) for a, b in ends))
        print(f"# {name}", flush=True)
    exact = np.mean(np.array(widths) <= 1e-4)
    print(
        f"{quantity}: {len(widths)} asked, {exact:.0%} exact to 1e-4, widest {max(widths):.2g};"
        f" median {np.median(seconds):.2f}, most {max(seconds):.1f} CPU s"
    )


def reasons(asked: argparse.Namespace) -> None:
    import xgboost

    for name in asked.tables:
        X, y = load(Path(asked.data_dir), name)
        model = xgboost.XGBClassifier(
            n_estimators=100, max_depth=4, learning_rate=0.1, enable_categorical=True, n_jobs=1
        )
        model.fit(X, y)
        domain, seconds, sizes, proved, n_alone = Domain.from_data(X), [], [], [0, 0], 0
        for i in np.random.default_rng(0).choice(len(X), 200, replace=False):
            row = X.iloc[[i]]
            began = time.process_time()
            found = explain(model, row, domain, time_limit=asked.time_limit)
            seconds.append(time.process_time() - began)
            if found.freeze is None:
                continue
            sizes.append(len(found.freeze))
            n_alone += found.freeze_is_smallest
            fixed = domain.fixed(**{X.columns[f]: row.iloc[0, f] for f in found.freeze})
            box = domain.fixed(**{X.columns[f]: row.iloc[0, f] for f in found.freeze})
            for low, high in zip(found.box[::2], found.box[1::2], strict=True):
                box = box.with_range(X.columns[low.column], low.end, high.end)
            stays = Range(0.5, 1) if model.predict(row)[0] else Range(0, 0.5)
            for place, inputs in enumerate((fixed, box)):
                proved[place] += check(model, stays, inputs, time_limit=asked.time_limit)[0].holds is True
        print(
            f"reasons, {name}: {len(sizes)} of 200, of {np.mean(sizes):.1f} columns of {X.shape[1]} ({min(sizes)} to"
            f" {max(sizes)}, {n_alone} known to be smallest), proved again {proved[0]}, boxes {proved[1]};"
            f" median {np.median(seconds):.2f}, most {max(seconds):.1f} CPU s for both"
        )


def rows(asked: argparse.Namespace) -> None:
    import xgboost

    for name in asked.tables:
        X, y = load(Path(asked.data_dir), name)
        numbers = X.select_dtypes("number").to_numpy(float)
        model = xgboost.XGBRegressor(n_estimators=200, max_depth=5, learning_rate=0.1, n_jobs=1).fit(numbers, y)
        some = numbers[np.random.default_rng(0).choice(len(X), 500, replace=False)]
        for eps in (0.1, 0.2):
            attacker = Attacker("linf", eps, scale=np.maximum(numbers.std(axis=0), 1e-9))
            certifier = Certifier(model, attacker, tolerance=0.1, time_limit=asked.time_limit)
            seconds, exact = [], []
            for row in some:
                began = time.process_time()
                exact.append(bool(certifier.certify(row[None]).range_is_exact[0]))
                seconds.append(time.process_time() - began)
            print(
                f"rows, {name}, {eps} deviations: {np.mean(exact):.1%} exact; median {np.median(seconds) * 1e3:.0f},"
                f" 95 % {np.quantile(seconds, 0.95) * 1e3:.0f}, most {max(seconds) * 1e3:.0f} CPU ms a row"
            )


def main() -> None:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-dir", required=True)
    parser.add_argument(
        "--only", nargs="*", default=["sensitive", "monotone", "gap", "fall", "range", "reasons", "rows"]
    )
    parser.add_argument("--tables", nargs="*", default=["census", "credit", "spambase", "diabetes"])
    parser.add_argument("--trees", type=int, default=200)
    parser.add_argument("--time-limit", type=float, default=60.0)
    asked = parser.parse_args()
    for what in asked.only:
        if what == "sensitive":
            sensitive(asked)
        elif what == "monotone":
            monotone(asked)
        elif what == "reasons":
            reasons(asked)
        elif what == "rows":
            rows(asked)
        else:
            most(asked, what)


if __name__ == "__main__":
    main()

"""Statements about gradient-boosted models of four tables: how many are decided, how fast, and how wide bounds stay.

"sensitive": can a change of one column flip the decision, or take the probability from 1 - p or less to p or more?
"gap", "fall" and "range": the numbers, over the box of the training rows, of sums, and how far apart bounds stay
beyond what rounding of sums makes. "monotone": half of the models are trained with constraints, which must be proved.
"same": how far models of 100 trees of depth 4 are apart where a twentieth of the rows was replaced, everywhere and
among plausible inputs, and whether files of a model are proved to be the same. "reasons": sufficient reasons of 200
decisions, and boxes around the rows, of one XGBoost model a table (100 trees of depth 4), each proved again by
`check`. "rows": what a regressor of 200 trees of depth 5 can be brought to say of 500 rows. "audit": bytes of
certificates, and how long the auditor takes, beside how long it took to find them. "peers": XGBoost models of the
columns of numbers, and the same questions put to CP-SAT, HiGHS and, for the range, Veritas: from .2 to .8 or more by
one column, the most a sum falls along a column, the range of sums.

python studies/statements.py --data-dir DIR --time-limit 60
python studies/statements.py --data-dir DIR --only sensitive --tables credit --trees 100 --columns 5 --time-limit 20

DIR holds spambase.csv, diabetes.csv and treant/{census,credit}.train.csv.bz2. Seconds are those of the processor, and
without translating models, which `check` does once for all statements that it is given.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import other_solvers
from certiforest import Attacker, Certifier, Domain, Insensitive, Monotone, Range, Same, check, explain, measure
from certiforest.audit import audit
from certiforest.formats.doors import open_model

LEVELS = (None, 0.6, 0.7, 0.8, 0.9, 0.95)


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
        for depth in asked.depths:
            shape = {
                "n_estimators": asked.trees,
                "max_depth": depth,
                "learning_rate": 0.1,
                "n_jobs": 1,
                "random_state": 0,
            }
            ways = dict.fromkeys(up, 1)
            made = xgboost.XGBClassifier(**shape, enable_categorical=True, monotone_constraints=ways or None).fit(X, y)
            yield f"{name} XGBoost {asked.trees}x{depth}", made, X, up
            ways = [int(c in up) for c in X]
            made = lightgbm.LGBMClassifier(**shape, num_leaves=2**depth - 1, verbose=-1, monotone_constraints=ways)
            yield f"{name} LightGBM {asked.trees}x{depth}", made.fit(X, y), X, up


def columns_of(asked: argparse.Namespace, X: pd.DataFrame, *, ordered: bool = False) -> list[str]:
    """Return the columns that are asked about."""
    columns = [c for c in X if not ordered or X[c].dtype != "category"]
    n = min(asked.columns or len(columns), len(columns))
    return [columns[i] for i in sorted(np.random.default_rng(0).choice(len(columns), n, replace=False))]


def timed(function: Any, *given: Any, **options: Any) -> tuple[Any, float]:
    """Return what a function does, and how long the processor took."""
    began = time.process_time()
    found = function(*given, **options)
    return found, time.process_time() - began


def told(seconds: list[float]) -> str:
    """Return what is said of seconds."""
    return (
        f"median {np.median(seconds):.2f}, 95 % {np.quantile(seconds, 0.95):.2f}, most {max(seconds):.1f} CPU s"
        if seconds
        else "none"
    )


class Count:
    """How many statements held, were refuted and stayed open, and how long that took."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.found: list[bool | None] = []

    def add(self, holds: bool | None, seconds: float) -> None:
        """Count one."""
        self.seconds.append(seconds)
        self.found.append(holds)

    def __str__(self) -> str:
        held, refuted, is_open = (self.found.count(holds) for holds in (True, False, None))
        return f"{held} hold, {refuted} refuted, {is_open} open; {told(self.seconds)}"


def sensitive(asked: argparse.Namespace) -> None:
    counts = {level: Count() for level in LEVELS}
    for name, model, X, _ in models(asked):
        domain, opened = Domain.from_data(X), open_model(model)
        for column in columns_of(asked, X):
            for level in LEVELS:
                ends = {} if level is None else {"low": 1 - level, "high": level}
                statement = Insensitive([column], **ends)
                (result,), seconds = timed(check, opened, statement, domain, time_limit=asked.time_limit)
                counts[level].add(result.holds, seconds)
                if result.pair is None:
                    continue
                first, second = model.predict_proba(result.pair)[:, 1]
                assert (first > 0.5) != (second > 0.5) if level is None else first >= level and second <= 1 - level
        print(f"# {name}: {sum(count.found.count(None) for count in counts.values())} open so far", flush=True)
    for level, count in counts.items():
        print(f"sensitive, {'flip' if level is None else f'{1 - level:.2f}/{level}'}: {count}")


def monotone(asked: argparse.Namespace) -> None:
    for constrained in (True, False):
        count, n_constrained = Count(), [0, 0]
        for _, model, X, up in models(asked, constrained=constrained):
            domain, opened = Domain.from_data(X), open_model(model)
            for column in columns_of(asked, X, ordered=True):
                (result,), seconds = timed(check, opened, Monotone(column, "up"), domain, time_limit=asked.time_limit)
                count.add(result.holds, seconds)
                if column in up:
                    n_constrained[0] += result.holds is True
                    n_constrained[1] += 1
        print(
            f"monotone, {'constrained' if constrained else 'free'}: {count}; of constrained columns"
            f" {n_constrained[0]} of {n_constrained[1]} proved",
            flush=True,
        )


def most(asked: argparse.Namespace, quantity: str) -> None:
    seconds, widths = [], []
    for name, model, X, _ in models(asked):
        domain, opened = Domain.from_data(X), open_model(model)
        columns = [None] if quantity == "range" else columns_of(asked, X, ordered=quantity == "fall")
        n_known = len(widths)
        for column in columns:
            tell = {"gap": {"columns": [column]}, "fall": {"column": column}, "range": {}}[quantity]
            found, spent = timed(
                measure, opened, quantity, domain, outputs="score", time_limit=asked.time_limit, **tell
            )
            seconds.append(spent)
            widths += widths_of(found, opened)
        print(f"# {name}: {width_text(widths[n_known:])}", flush=True)
    print(f"{quantity}: {width_text(widths)}; {told(seconds)}")


def widths_of(found: Any, *models: Any) -> list[float]:
    """Return how far apart bounds are, beyond what rounding makes of sums, as a share of what they bound."""
    ends = [found.bounds] if found.quantity != "range" else list(found.bounds)
    inputs = 3 - len(models) if found.quantity != "range" else 1
    rounding = inputs * sum(model.ensemble.rounding_bound(model.dtype) for model in models)
    return [max(abs(a - b) - rounding, 0.0) / max(1.0, abs(a)) for a, b in ends]


def width_text(widths: list[float]) -> str:
    exact = np.array(widths) <= 1e-5
    return f"{exact.sum()} of {len(widths)} exact to 1e-5, widest {max(widths):.2g}"


def same(asked: argparse.Namespace) -> None:
    import xgboost

    for name in asked.tables:
        X, y = load(Path(asked.data_dir), name)
        rng = np.random.default_rng(0)
        replaced = rng.choice(len(X), len(X) // 20, replace=False)
        rows = np.arange(len(X))
        rows[replaced] = rng.choice(len(X), len(replaced))
        shape = {"n_estimators": 100, "max_depth": 4, "learning_rate": 0.1, "n_jobs": 1, "enable_categorical": True}
        one = xgboost.XGBClassifier(**shape).fit(X, y)
        other = xgboost.XGBClassifier(**shape).fit(X.iloc[rows], y[rows])
        for plausible in (None, 0.05):
            domain = Domain.from_data(X, plausible=plausible)
            found, seconds = timed(
                measure, one, "difference", domain, other=other, outputs="score", time_limit=asked.time_limit
            )
            kind = "everywhere" if plausible is None else "plausible"
            widths = widths_of(found, open_model(one), open_model(other))
            text = f"{width_text(widths)}, {found.bounds[0]:.4f} to {found.bounds[1]:.4f}"
            print(f"same, {name}, {kind}: {text}; {seconds:.1f} CPU s", flush=True)
        with tempfile.TemporaryDirectory() as folder:
            paths = [Path(folder) / "model.json", Path(folder) / "own.json"]
            one.save_model(paths[0])
            open_model(one).ensemble.save(paths[1])
            for path in paths:
                found, seconds = timed(
                    check, one, [Same(str(path)), Same(str(path), tolerance=0.0)], Domain.from_data(X),
                    time_limit=asked.time_limit, outputs="score",
                )  # fmt: skip
                print(
                    f"same, {name}, its file {path.name}: {[r.holds for r in found]}; {seconds:.1f} CPU s", flush=True
                )


def audited(asked: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path, count, seconds, checked, sizes = Path(folder) / "certificate", Count(), [], [], []
        for name, model, X, _ in models(asked):
            domain, opened = Domain.from_data(X), open_model(model)
            known = Path(folder) / "model.json"
            opened.ensemble.save(known)
            for column in columns_of(asked, X):
                ways = [Insensitive([column]), Insensitive([column], 0.1, 0.9)]
                for statement in ways + ([Monotone(column)] if X[column].dtype != "category" else []):
                    results, spent = timed(check, opened, statement, domain, time_limit=asked.time_limit, proof=True)
                    count.add(results[0].holds, spent)
                    if results[0].holds is None:
                        continue
                    results.save(path)
                    with known.open("rb") as model_file, path.open("rb") as certificate:
                        found, spent_again = timed(audit, model_file, certificate)
                    assert found.counts["not proved"] == found.counts["open"] == 0, found.words()
                    seconds.append(spent)
                    checked.append(spent_again)
                    sizes.append(path.stat().st_size)
            print(f"# {name}", flush=True)
    print(
        f"audit: {count}; {len(sizes)} confirmed, {np.median(sizes) / 1e3:.0f} KB, most {max(sizes) / 1e3:.0f} KB;"
        f" checked in {told(checked)}"
    )


def reasons(asked: argparse.Namespace) -> None:
    import xgboost

    for name in asked.tables:
        X, y = load(Path(asked.data_dir), name)
        model = xgboost.XGBClassifier(
            n_estimators=100, max_depth=4, learning_rate=0.1, enable_categorical=True, n_jobs=1
        )
        opened = open_model(model.fit(X, y))
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
            box = fixed
            for low, high in zip(found.box[::2], found.box[1::2], strict=True):
                box = box.with_range(X.columns[low.column], low.end, high.end)
            stays = Range(0.5, 1) if model.predict(row)[0] else Range(0, 0.5)
            for place, inputs in enumerate((fixed, box)):
                proved[place] += check(opened, stays, inputs, time_limit=asked.time_limit)[0].holds is True
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


def peers(asked: argparse.Namespace) -> None:
    import xgboost

    known: dict[tuple[str, str], list[tuple[Any, Any, float]]] = {}  # what was found, what we found, CPU seconds
    for name in asked.tables:
        X, y = load(Path(asked.data_dir), name)
        X = X.select_dtypes("number")
        for depth in asked.depths:
            model = xgboost.XGBClassifier(n_estimators=asked.trees, max_depth=depth, learning_rate=0.1, n_jobs=1)
            model.fit(X, y)
            low, high = (end.to_numpy(np.float32).astype(float) for end in (X.min(), X.max()))
            domain, opened, level = Domain(low, high, columns=list(X)), open_model(model), float(np.log(4))
            limits = {"outputs": "score", "time_limit": asked.time_limit}
            for column in [None, *columns_of(asked, X)]:
                for kind in ("range",) if column is None else ("fall", "sensitive"):
                    if kind == "sensitive":
                        (result,), seconds = timed(
                            check, opened, Insensitive([column], -level, level), domain, **limits
                        )
                        ours = None if result.holds is None else -np.inf if result.holds else 0.0
                    else:
                        found, seconds = timed(measure, opened, kind, domain, column=column, **limits)
                        ends = list(found.bounds) if kind == "range" else [found.bounds]
                        reached = [end[1 if kind == "range" and i == 0 else 0] for i, end in enumerate(ends)]
                        ours = np.array(reached) if max(widths_of(found, opened)) <= other_solvers.EXACT else None
                    known.setdefault((kind, "certiforest"), []).append((ours, ours, seconds))
                    place = [] if column is None else [list(X).index(column)]
                    question = (kind, *place, *([level] if kind == "sensitive" else []))
                    solvers = other_solvers.answers(opened.ensemble, low, high, question, asked.time_limit)
                    for solver, solve in solvers.items():
                        theirs, seconds = timed(solve)
                        known.setdefault((kind, solver), []).append((theirs, ours, seconds))
            print(f"# {name} {asked.trees}x{depth}", flush=True)
    for (kind, solver), cases in known.items():
        both = [(theirs, ours) for theirs, ours, _ in cases if theirs is not None and ours is not None]
        agreed = sum(bool(np.allclose(theirs, ours, rtol=1e-4, atol=1e-4)) for theirs, ours in both)
        print(
            f"peers, {kind}, {solver}: {sum(theirs is not None for theirs, *_ in cases)} of {len(cases)} solved;"
            f" {agreed} of {len(both)} agree; {told([seconds for *_, seconds in cases])}"
        )


def main() -> None:
    """Run what was asked for."""
    kinds = {"sensitive": sensitive, "monotone": monotone, "same": same, "reasons": reasons, "rows": rows}
    kinds |= {"audit": audited, "peers": peers}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", required=True)
    parser.add_argument("--only", nargs="*", default=[*kinds, "gap", "fall", "range"])
    parser.add_argument("--tables", nargs="*", default=["census", "credit", "spambase", "diabetes"])
    parser.add_argument("--trees", type=int, default=200)
    parser.add_argument("--depths", nargs="*", type=int, default=[5, 6])
    parser.add_argument("--columns", type=int, help="so many, at random, of each model")
    parser.add_argument("--time-limit", type=float, default=60.0, help="seconds of the clock, for each")
    asked = parser.parse_args()
    for what in asked.only:
        kinds[what](asked) if what in kinds else most(asked, what)


if __name__ == "__main__":
    main()

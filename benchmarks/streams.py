"""More rows than memory holds: how fast the command line certifies them, in how much memory, and when it is killed.

Rates are given for wall-clock time and, in brackets, for seconds of one core, which other work on the machine hardly
changes. Rows of a table are repeated with jitter until a Parquet file is as large as wanted. Three questions are asked:

    quick     101 trees of depth 6 with large spread that vote, L-inf: a glance at each tree
    boosted   500 boosted trees (scikit-learn's histogram boosting), L-inf, a small eps: bounds decide nearly all rows
    hard      the same with ten times the eps: most rows need a proof

    python benchmarks/streams.py --gigabytes 0.2                  synthetic rows of 57 columns
    python benchmarks/streams.py --table spambase.csv --gigabytes 20 --kinds quick --kills 5
    ... --kinds hard --jobs 1 2 --workers 2 --repeat 3            threads and processes that share the work, in turn
    ... --rows 2000000 --formats parquet csv --busy               so many rows; also beside a busy process
    ... --folder DIR                                              where the file and the findings go (and stay)
"""

import argparse
import math
import os
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow
from pyarrow import csv, parquet
from sklearn.datasets import make_classification
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.preprocessing import minmax_scale

from certiforest import Attacker, Certifier, LargeSpreadForestClassifier, as_ensemble
from certiforest.data.readers import read_table

GROUP = 200_000  # rows of a row group
COMMAND = [sys.executable, "-c", "import sys; from certiforest.cli import main; sys.exit(main(sys.argv[1:]))"]
ATTACKERS = {"quick": ("inf", 0.015), "boosted": ("inf", 0.001), "hard": ("inf", 0.01)}


def load(table):
    if table is not None:
        read = read_table(table, -1)
        return minmax_scale(read.X), read.y
    X, y = make_classification(4600, 57, n_informative=20, random_state=0)
    return minmax_scale(X), y


def train(kind, X, y):
    if kind == "quick":
        settings = {"n_estimators": 101, "max_depth": 6, "eps": ATTACKERS[kind][1], "random_state": 0}
        return LargeSpreadForestClassifier(**settings).fit(X, y).ensemble_
    boosted = HistGradientBoostingClassifier(max_iter=500, max_leaf_nodes=16, early_stopping=False, random_state=0)
    return as_ensemble(boosted.fit(X, y))


def write_rows(path, X, y, n_bytes, most):
    """Write rows again and again, each time with other jitter, until a file is large enough; return how many."""
    rng, n_rows = np.random.default_rng(0), 0
    names = [f"f{i}" for i in range(X.shape[1])]
    schema = pyarrow.schema([(name, pyarrow.float64()) for name in names] + [("label", pyarrow.int64())])
    with parquet.ParquetWriter(path, schema) as file:
        while path.stat().st_size < n_bytes and n_rows < most:
            wanted = max(int(n_bytes / (8 * X.shape[1])) - n_rows, 1000) if most == math.inf else most - n_rows
            chosen = rng.integers(len(X), size=min(GROUP, wanted))
            rows = X[chosen] + rng.normal(0, 0.01, (len(chosen), X.shape[1]))
            columns = [*rows.T, y[chosen]]
            file.write_table(pyarrow.table(dict(zip(schema.names, columns, strict=True)), schema=schema))
            n_rows += len(chosen)
    return n_rows


def as_csv(path):
    """Write a Parquet file as CSV beside it, group by group."""
    with parquet.ParquetFile(path) as file, csv.CSVWriter(path.with_suffix(".csv"), file.schema_arrow) as out:
        for group in range(file.num_row_groups):
            out.write_table(file.read_row_group(group))
    return path.with_suffix(".csv")


@contextmanager
def busy(is_wanted):
    """Keep one more process busy meanwhile."""
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"]) if is_wanted else None
    try:
        yield
    finally:
        if process is not None:
            process.kill()
            process.wait()


class Ran(NamedTuple):
    """How a command ran."""

    seconds: float
    core_seconds: float
    megabytes: float
    ended: bool


def run(words, seconds=None):
    """Run a command, kill it after some seconds if so asked; return times, peak memory in MB, whether it ended."""
    began = time.perf_counter()
    process = subprocess.Popen([*COMMAND, *map(str, words)], stdout=subprocess.DEVNULL)
    if seconds is not None:
        time.sleep(seconds)
        process.kill()
    _, status, usage = os.wait4(process.pid, 0)
    return Ran(time.perf_counter() - began, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, status == 0)


def contents(folder):
    return {path.name: path.read_bytes() for path in sorted(folder.glob("part-*"))}


def study(kind, folder, files, n_rows, X, y, options):
    model, (norm, eps) = folder / f"{kind}.json", ATTACKERS[kind]
    train(kind, X, y).save(model)
    certifier = Certifier(model, Attacker(norm, eps))
    with parquet.ParquetFile(folder / "rows.parquet") as file:
        sample = file.read_row_group(0).slice(0, options.sample).to_pandas()
    X_some, y_some = sample.drop(columns="label").to_numpy(), sample["label"].to_numpy()
    certifier.certify(X_some[:500], y_some[:500])  # compiles
    began = time.process_time()
    found = certifier.certify(X_some, y_some)
    in_memory = len(found) / (time.process_time() - began)
    print(
        f"{kind}: in memory [{in_memory:,.0f} rows/s]; in the sample {found.accuracy:.1%} right,"
        f" {found.robust_accuracy:.1%} robust, {(found.method != 'composed').mean():.1%} not decided tree by tree"
    )
    words = ["--target", "label", "--norm", norm, "--eps", eps, "--out"]
    shared = [["--jobs", n] for n in options.jobs] + [["--workers", n] for n in options.workers]
    ways = [
        (["certify", model, path, *words], way, is_beside)
        for path in files
        for is_beside in ([False, True] if options.busy else [False])
        for way in shared
    ]
    runs = [[] for _ in ways]
    for _ in range(options.repeat):
        for (command, way, is_beside), ran in zip(ways, runs, strict=True):
            shutil.rmtree(folder / f"{kind}-whole", ignore_errors=True)
            with busy(is_beside):
                ran.append(run([*command, folder / f"{kind}-whole", *way]))
    for (command, way, is_beside), ran in zip(ways, runs, strict=True):
        assert all(one.ended for one in ran)
        seconds, core_seconds = min(one.seconds for one in ran), min(one.core_seconds for one in ran)
        print(
            f"  {command[2].name}{', one busy' if is_beside else ''}, {' '.join(map(str, way))}: {n_rows:,} rows in"
            f" {seconds:.1f} s, {n_rows / seconds:,.0f} rows/s"
            f" [{n_rows / core_seconds:,.0f}, {n_rows / core_seconds / in_memory:.2f} of those in memory], peak"
            f" {max(one.megabytes for one in ran):,.0f} MB"
        )
    if options.kills:
        ran = runs[-1][-1]
        rng, n_killed = np.random.default_rng(0), 0
        killed = [*ways[-1][0], folder / f"{kind}-killed", *ways[-1][1]]
        for _ in range(options.kills):
            n_killed += not run(killed, rng.uniform(0.1, 1.2) * ran.seconds / options.kills).ended
        last = run(killed)
        assert last.ended
        same = contents(folder / f"{kind}-whole") == contents(folder / f"{kind}-killed")
        outcome = "the same bytes" if same else "OTHER BYTES"
        print(f"  killed {n_killed} times, then {last.seconds:.1f} s to the end: {outcome}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--table", help="CSV whose last column is the label")
    parser.add_argument("--gigabytes", type=float)
    parser.add_argument("--rows", type=int, default=math.inf, help="no more, and so many if --gigabytes is not given")
    parser.add_argument("--formats", nargs="+", choices=["parquet", "csv"], default=["parquet"])
    parser.add_argument("--busy", action="store_true", help="also beside a process that is always busy")
    parser.add_argument("--kinds", nargs="+", choices=ATTACKERS, default=["quick"])
    parser.add_argument("--kills", type=int, default=0)
    parser.add_argument("--jobs", type=int, nargs="*", default=[1])
    parser.add_argument("--workers", type=int, nargs="*", default=[])
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--sample", type=int, default=20_000, help="rows certified in memory, to compare with")
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args()
    X, y = load(options.table)
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.folder or Path(scratch)
        folder.mkdir(exist_ok=True)
        rows = folder / "rows.parquet"
        size = 0.05 if options.gigabytes is None and options.rows == math.inf else options.gigabytes or math.inf
        n_rows = write_rows(rows, X, y, size * 1e9, options.rows)
        files = [rows if kind == "parquet" else as_csv(rows) for kind in options.formats]
        print(f"{rows.stat().st_size / 1e9:.2f} GB of Parquet, {n_rows:,} rows of {X.shape[1]} columns")
        for kind in options.kinds:
            study(kind, folder, files, n_rows, X, y, options)


if __name__ == "__main__":
    main()

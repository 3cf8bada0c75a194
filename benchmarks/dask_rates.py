"""What dask adds and costs: two worker processes against one process, a worker that is killed, many tiny partitions.

With ``same``, all that certifies rows is asked for the same findings: threads, blocks, dask's schedulers with several
chunkings, and the command line.

python benchmarks/dask_rates.py                          small, two minutes
python benchmarks/dask_rates.py --rows 2000000 --partitions 10000 --megabytes 100
... --only rates killed tiny sent same
"""

import argparse
import os
import pickle
import signal
import tempfile
import time

import dask
import numpy as np
import pandas
from dask import array as da
from distributed import Client, LocalCluster

from certiforest import Attacker, Certifier, Nodes, TreeEnsemble, certify
from streams import ATTACKERS, load, run, train


def jittered(X, y, n_rows, seed=0):
    rng = np.random.default_rng(seed)
    chosen = rng.integers(len(X), size=n_rows)
    return X[chosen] + rng.normal(0, 0.01, (n_rows, X.shape[1])), y[chosen]


def compare_rates(client, X, y, options):
    """Rows a second of two workers over those of one process."""
    for kind, n_rows in (("quick", options.rows), ("boosted", options.rows // 20), ("hard", options.rows // 200)):
        norm, eps = ATTACKERS[kind]
        model, rows = train(kind, X, y), jittered(X, y, max(n_rows, 200))
        certifier = Certifier(model, Attacker(norm, eps))
        certifier.certify(rows[0][:200], rows[1][:200])
        began = time.perf_counter()
        alone = certifier.certify(*rows)
        seconds = time.perf_counter() - began
        size = max(len(rows[0]) // 16, 1)
        chunks = da.from_array(rows[0], chunks=(size, -1)), da.from_array(rows[1], chunks=size)
        lazy = certify(model, *chunks, Attacker(norm, eps))
        lazy.stable.compute()  # workers compile, or read what is compiled
        began = time.perf_counter()
        stable = certify(model, *chunks, Attacker(norm, eps)).stable.compute()
        together = time.perf_counter() - began
        same = np.array_equal(stable, alone.stable)
        print(
            f"{kind}: {len(alone):,} rows; one process {len(alone) / seconds:,.0f} rows/s, two workers"
            f" {len(alone) / together:,.0f} rows/s, ratio {seconds / together:.2f}, {'equal' if same else 'NOT EQUAL'}"
        )


def kill_a_worker(client, X, y, options):
    model, rows = train("quick", X, y), jittered(X, y, options.rows)
    expected = certify(model, *rows, Attacker("inf", 0.015))
    chunks = da.from_array(rows[0], chunks=(2000, -1)), da.from_array(rows[1], chunks=2000)
    future = client.compute(certify(model, *chunks, Attacker("inf", 0.015)).found)
    time.sleep(0.5)
    was_running = not future.done()
    os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)
    found = future.result()
    same = all(np.array_equal(found[name], getattr(expected, name)) for name in ("prediction", "stable", "method"))
    moment = "mid-way" if was_running else "after the end"
    print(f"killed a worker {moment}: {len(found):,} rows, {'equal' if same else 'NOT EQUAL'}")


def count_overhead(client, X, y, options):
    model = train("quick", X, y)
    rows = jittered(X, y, options.partitions)
    chunks = da.from_array(rows[0], chunks=(1, -1)), da.from_array(rows[1], chunks=1)
    began = time.perf_counter()
    accuracy = float(certify(model, *chunks, Attacker("inf", 0.015)).accuracy.compute())
    seconds = time.perf_counter() - began
    began = time.perf_counter()
    float((chunks[0].sum(axis=1) + chunks[1]).sum(split_every=16).compute())
    bare = time.perf_counter() - began
    print(
        f"{options.partitions:,} partitions of one row: {1000 * seconds / options.partitions:.2f} ms each, a sum of the"
        f" same partitions {1000 * bare / options.partitions:.2f} ms; accuracy {accuracy:.3f}"
    )


def count_bytes_sent(client, X, y, options):
    """Bytes between processes for many partitions, over the size of the model."""
    n_nodes = int(options.megabytes * 1e6 / 36)
    depth = 12
    n_trees = max(n_nodes // (2 ** (depth + 1) - 1), 1)
    rng = np.random.default_rng(0)
    trees = [full_tree(rng, depth, X.shape[1]) for _ in range(n_trees)]
    model = TreeEnsemble.from_trees(trees, n_features=X.shape[1], classes=[0, 1])
    size = len(pickle.dumps(Certifier(model, Attacker("inf", 1e-4))))
    rows = jittered(X, y, 64)
    chunks = da.from_array(rows[0], chunks=(1, -1)), da.from_array(rows[1], chunks=1)
    before = loopback_bytes()
    began = time.perf_counter()
    certify(model, *chunks, Attacker("inf", 1e-4), time_limit=0).stable.compute()
    seconds = time.perf_counter() - began
    sent = loopback_bytes() - before
    n_workers = len(client.scheduler_info(n_workers=-1)["workers"])
    print(
        f"a model of {size / 1e6:.0f} MB for 64 partitions on {n_workers} workers: {sent / 1e6:.0f} MB went between"
        f" processes, {sent / size:.1f} times the model, in {seconds:.1f} s (to the scheduler and to each worker: 3)"
    )


def compare_findings(client, X, y, options):
    """Bit by bit what several ways to certify the same rows find, radii included."""
    for kind, n in (("quick", options.rows), ("boosted", options.rows // 10)):
        norm, eps = ATTACKERS[kind]
        certifier = Certifier(train(kind, X, y), Attacker(norm, eps), radius=True, time_limit=0)
        rows, labels = jittered(X, y, n)
        expected = certifier(rows, labels)
        found = {
            "command line": command_line(certifier.ensemble, rows, labels, norm, eps, "--radius", "--time-limit", 0),
            "13 blocks": pandas.concat([certifier(*pair) for pair in zip(*split(13, rows, labels), strict=True)]),
        }
        for scheduler in ("threads", "processes", "distributed"):
            for size in (n // 7 + 1, (1, n // 3, n - n // 3 - 1)):
                with dask.config.set(scheduler=scheduler):
                    chunks = da.from_array(rows, chunks=(size, -1)), da.from_array(labels, chunks=(size,))
                    asked = {"radius": True, "time_limit": 0}
                    lazy = certify(certifier.ensemble, *chunks, certifier.attacker, **asked)
                    found[f"dask, {scheduler}, chunks of {size}"] = pandas.DataFrame(lazy.found.compute())
        for name, frame in found.items():
            shared = [column for column in expected if column in frame]
            same = len(frame) == n and all(
                map(np.array_equal, frame[shared].T.to_numpy(), expected[shared].T.to_numpy())
            )
            print(f"{kind}, {n:,} rows, {name}: {len(shared)} columns {'equal' if same else 'NOT EQUAL'}")


def split(n_blocks, *arrays):
    return [np.array_split(array, n_blocks) for array in arrays]


def command_line(model, rows, labels, norm, eps, *options):
    """Return what the command line writes about rows in a file."""
    with tempfile.TemporaryDirectory() as folder:
        model.save(f"{folder}/model.json")
        pandas.DataFrame(rows).rename(columns=str).assign(label=labels).to_parquet(f"{folder}/rows.parquet")
        words = ["certify", f"{folder}/model.json", f"{folder}/rows.parquet", "--target", "label", "--norm", norm]
        run([*words, "--eps", eps, "--out", f"{folder}/found.parquet", *options])
        return pandas.read_parquet(f"{folder}/found.parquet")


def loopback_bytes():
    """Return how many bytes all processes of this machine have sent to each other."""
    with open("/proc/net/dev") as file:
        return next(int(line.split(":")[1].split()[0]) for line in file if line.strip().startswith("lo:"))


def full_tree(rng, depth, n_features):
    n_splits = 2**depth - 1
    n_nodes = 2 * n_splits + 1
    left = np.where(np.arange(n_nodes) < n_splits, 2 * np.arange(n_nodes) + 1, -1)
    right = np.where(left >= 0, left + 1, -1)
    feature = np.where(left >= 0, rng.integers(n_features, size=n_nodes), -1)
    # Thresholds halve what is left of [0, 1]: every leaf can be reached if features do not repeat on a path too often.
    return Nodes(left, right, feature, rng.random(n_nodes), rng.integers(2, size=n_nodes))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--table", help="CSV whose last column is the label")
    parser.add_argument("--rows", type=int, default=40_000)
    parser.add_argument("--partitions", type=int, default=500)
    parser.add_argument("--megabytes", type=float, default=5)
    steps = {
        "rates": compare_rates, "killed": kill_a_worker, "tiny": count_overhead, "sent": count_bytes_sent,
        "same": compare_findings,
    }  # fmt: skip
    parser.add_argument("--only", nargs="+", choices=steps, default=list(steps))
    options = parser.parse_args()
    X, y = load(options.table)
    for name in options.only:
        with (
            LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
            Client(cluster) as client,
        ):
            steps[name](client, X, y, options)


if __name__ == "__main__":
    main()

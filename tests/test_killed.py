"""Runs that are killed: files are the old ones or the new ones, never broken, and finished work is not done again.

``python tests/test_killed.py --moments 10 --seed 1`` kills each command at ten random moments; the suite takes three.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs SIGKILL")
COMMAND = [sys.executable, "-c", "import sys; from certiforest.cli import main; sys.exit(main(sys.argv[1:]))"]


class Killer:
    """Runs a command to its end to see how long it takes, then kills it at random moments of that time."""

    def __init__(self, n_moments, seed):
        self.n_moments, self.random = n_moments, np.random.default_rng(seed)

    def run(self, *words):
        start = time.perf_counter()
        done = subprocess.run([*COMMAND, *map(str, words)], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return time.perf_counter() - start

    def kill(self, *words, seconds):
        """Kill the command at a random moment; return whether it was still running."""
        process = subprocess.Popen([*COMMAND, *map(str, words)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(self.random.uniform(0.1, 1.05) * seconds)
        was_running = process.poll() is None
        process.kill()
        process.wait()
        return was_running


def check_training(folder, killer):
    out = folder / "model.json"
    words = ["train", "breast_cancer", "--eps", "0.01", "--trees", "5", "--out", out, "--force", "--seed"]
    killer.run(*words, 1)
    new = out.read_bytes()
    seconds = killer.run(*words, 0)
    old = out.read_bytes()
    assert old != new
    n_killed = 0
    for _ in range(killer.n_moments):
        n_killed += killer.kill(*words, 1, seconds=seconds)
        assert out.read_bytes() in (old, new)
        out.write_bytes(old)
    return n_killed


def check_certification(folder, killer):
    """One run writes two files; each is the old one or the new one."""
    model, report, rows = folder / "model.json", folder / "report.json", folder / "rows.csv"
    killer.run("train", "breast_cancer", "--eps", "0.01", "--trees", "5", "--out", model, "--force")

    def words(eps):
        return ["certify", model, "breast_cancer", "--eps", eps, "--report", report, "--out", rows, "--force"]

    def undated(path):
        return re.sub(rb'"date": "[^"]*"', b"", path.read_bytes())

    killer.run(*words(0.05))
    new = {path: undated(path) for path in (report, rows)}
    seconds = killer.run(*words(0.01))
    old = {path: path.read_bytes() for path in (report, rows)}
    known = {path: (undated(path), new[path]) for path in old}
    assert all(a != b for a, b in known.values())
    n_killed = 0
    for _ in range(killer.n_moments):
        n_killed += killer.kill(*words(0.05), seconds=seconds)
        for path, content in old.items():
            assert undated(path) in known[path]
            path.write_bytes(content)
    return n_killed


CHECKS = {"train": check_training, "certify": check_certification}


@pytest.mark.parametrize("command", CHECKS)
def test_a_killed_run_leaves_old_files_or_new_ones(command, tmp_path):
    assert CHECKS[command](tmp_path, Killer(3, seed=0)) > 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--moments", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    for command, check in CHECKS.items():
        with tempfile.TemporaryDirectory() as folder:
            n_killed = check(Path(folder), Killer(arguments.moments, arguments.seed))
        sys.stdout.write(f"{command}: {arguments.moments} moments, {n_killed} while it ran; every file whole\n")

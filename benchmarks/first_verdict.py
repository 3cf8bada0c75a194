"""How long a new user waits for a first verdict: seconds, and CPU seconds, in a bare environment with empty caches.

    python benchmarks/first_verdict.py . dist/certiforest-*-cp312-*.whl      what pip can install, side by side

Each is installed into an environment of its own, and xgboost-cpu beside it. Every command is run
with an empty cache of its own (cold), and again (warm, best of three).
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

MODEL = """
import numpy as np
from xgboost import XGBClassifier
X = np.random.default_rng(0).random((2000, 10))
y = (X[:, 0] + X[:, 1] * X[:, 2] > 0.8).astype(int)
XGBClassifier(n_estimators=100, max_depth=5).fit(X, y).save_model("model.json")
np.savetxt("rows.csv", np.column_stack([X, y])[:1], delimiter=",", header=",".join("abcdefghijy"), comments="")
"""
CERTIFY = """
import numpy as np
from certiforest import Attacker, certify
rows = np.loadtxt("rows.csv", delimiter=",", skiprows=1, ndmin=2)
print(certify("model.json", rows[:, :-1], rows[:, -1].astype(int), Attacker("inf", 0.01)).stable)
"""


def timed(command, **options):
    """Return the seconds and the CPU seconds of a command and its children."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, **options)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.monotonic() - began, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def size_of(folder):
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6


def try_out(what, scratch):
    """Print what one thing that pip can install costs."""
    subprocess.run([sys.executable, "-m", "venv", "venv"], cwd=scratch, check=True)
    python, command = str(scratch / "venv/bin/python"), str(scratch / "venv/bin/certiforest")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    install = {"cwd": scratch, "env": environment}
    seconds = timed([python, "-m", "pip", "install", "-q", what], **install)
    print(f"\n{what}\n  {'pip install':24}{seconds[0]:6.2f} s {seconds[1]:6.2f} CPU s")
    (packages,) = scratch.glob("venv/lib/python*/site-packages")
    print(f"  {'size':24}{size_of(packages):6.0f} MB, of certiforest {size_of(packages / 'certiforest'):.1f} MB")
    subprocess.run([python, "-m", "pip", "install", "-q", "xgboost-cpu"], check=True, **install)
    subprocess.run([python, "-c", MODEL], check=True, **install)
    commands = {
        "import certiforest": [python, "-c", "import certiforest"],
        "certiforest --help": [command, "--help"],
        "certify a row, Python": [python, "-c", CERTIFY],
        "certify a row, command": [command, "certify", "model.json", "rows.csv", "--target", "y", "--eps", "0.01"],
        "certiforest demo": [command, "demo", "--out", "demo.html", "--force"],
    }
    for name, words in commands.items():
        options = {"cwd": scratch, "env": {**environment, "NUMBA_CACHE_DIR": str(scratch / name)}}
        cold, warm = timed(words, **options), min(timed(words, **options) for _ in range(3))
        text = "{:6.2f} s {:6.2f} CPU s cold, {:6.2f} s {:6.2f} CPU s warm".format(*cold, *warm)
        print(f"  {name:24}{text}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="+", help="folder with sources, or wheel")
    for what in parser.parse_args().what:
        with tempfile.TemporaryDirectory() as scratch:
            try_out(str(Path(what).resolve()), Path(scratch))


if __name__ == "__main__":
    main()

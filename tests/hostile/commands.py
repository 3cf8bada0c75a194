"""A trial of command lines: random ones, with files and values that people and others may give, judged by rules.

``python tests/hostile/commands.py --cases 10000 --seed 1`` takes any number; the suite takes few. Most run inside this
process, one in fifty as a process of its own with closed or full streams, little room for files, or Ctrl-C at any
moment. The rules: exit code 0, 1 (only with --require), 2 or 130; one error in one line where it is 2; JSON where it
was asked for; files that are whole, or as they were; nothing left lying about.
"""

import contextlib
import hashlib
import io
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))

from judging import Judge, run

from certiforest import Scaling, TreeEnsemble, save_silva
from certiforest.cli import main

COMMAND = [sys.executable, "-c", "import sys; from certiforest.cli import main; sys.exit(main())"]
TRAINED = "train", "good.csv", "--target", "y", "--eps", "0.05", "--trees", "2", "--depth", "2", "--out"
SHARE_APART = 0.02
LONG = "9" * 400
NUMBERS = ["0.1", "0", "1", "-1", "nan", "inf", "1e400", "1e308", "5e-324", "0.05", "2", "much", "١", "-0.0", "", LONG]
COLUMNS = ["y", "a", "b", "0", "-1", "3", "7", "[/b]", "c", "²", "", LONG, "\x1b[31m"]
PARAMS = (
    "max_features=1 on_shortfall=keep class_weight=balanced n_partitions=2 max_features=0 max_features=[] x=1 ="
    " eps=null n_jobs=0 focus=-1 random_state=x frozen=7 scale=[1] norm={} callback=1 min_samples_leaf=0"
    " learning_rate=-1 n_bins=1 max_depth=NaN method=["
)
WORDS = {
    "--eps": NUMBERS,
    "--norm": ["inf", "0", "1", "2", "3", "l2", "Linf", "-1", "-inf", "1.5", "101", "L-inf", "_1", "", LONG],
    "--target": COLUMNS,
    "--drop": COLUMNS[2:],
    "--frozen": COLUMNS,
    "--part": ["all", "test", "train", "", "some"],
    "--format": ["csv", "npz", "parquet", "libsvm", "xlsx", ""],
    "--first-index": ["0", "1", "2", "x"],
    "--time-limit": NUMBERS,
    "--jobs": ["1", "2", "-1", "0", LONG, "x"],
    "--require": ["0.1", "0", "1", *NUMBERS],
    "--trees": ["1", "2", "0", "-1", LONG, "x"],
    "--depth": ["1", "2", "0", "-1", "9" * 30, "x"],
    "--seed": ["0", "1", "-1", LONG, "4294967296"],
    "--method": ["grow", "prune", "", "guess"],
    "--model": ["forest", "boosting", "", "other"],
    "--param": [*PARAMS.split(), f"max_depth={LONG}"],
    "--outputs": ["probability", "score", "", "x"],
    "--columns": ["a", "b", "", "x", "0", "-1", LONG],
    "--column": ["a", "b", "", "x", "0", "-1", LONG],
    "--direction": ["up", "down", "", "x"],
    "--other": ["model.json", "sums.json", "scaled.json", "m.silva", "none.json", "pipe"],
    "--rows": ["good.csv", "good.npz", "text.csv", "none.csv", "pipe"],
    "--data-dir": ["folder", "none", "good.csv"],
    "--row": ["0", "39", "40", "-1", LONG, "x"],
    "--other-eps": NUMBERS,
    "--other-norm": ["1", "2", "x"],
}
N_GOOD = {"--eps": 3, "--norm": 7, "--part": 3, "--jobs": 3, "--trees": 2, "--depth": 2, "--seed": 2, "--method": 2}
N_GOOD |= {"--time-limit": 3, "--require": 3, "--param": 4, "--model": 2, "--frozen": 2, "--target": 3}
N_GOOD |= {"--first-index": 2, "--row": 2, "--other-eps": 3, "--other-norm": 2}
OUTPUTS = "out.csv out.html out.json out.txt old.csv folder none/out.csv pipe /dev/null link dangling good.csv"
OUTPUTS = [*OUTPUTS.split(), "model.json", "x" * 249, "x" * 300, "[/b].html", "\udcff.html", "", ".", "out", "loop"]
N_GOOD_MODELS, N_GOOD_DATA = 7, 6
MODELS = "model.json model.json scaled.json sums.json m.silva trained.json trained.json extreme.json junk.json"
MODELS += " none.json folder pipe good.csv m.joblib empty /dev/null /dev/zero loop"
MODELS = [*MODELS.split(), "x" * 300, ""]
DATA = "good.csv good.csv good.csv good.csv good.npz good.parquet headless.csv good.svm one.csv empty text.csv wide.csv"
DATA += " extreme.csv binary.csv none.csv folder pipe breast_cancer mnist26 nothing m.silva model.json /dev/zero loop"
DATA = [*DATA.split(), "x" * 300, "", "\udcff"]
COMMON = "--eps --norm --target --drop --frozen --part --format"
CERTIFYING = f"{COMMON} --first-index --time-limit --jobs --data-dir"
TRAINING = f"{COMMON} --trees --depth --seed --method --model --param --jobs"
QUESTION = "--drop --format --time-limit --outputs"
CONTRACTS = ["contract.json"] * 4 + ["model.json", "junk.json", "empty", "pipe", "none.json"]
STATEMENTS = [
    {"insensitive": ["a"]}, {"insensitive": [1], "low": 0.3, "high": 0.7}, {"monotone": "b", "direction": "up"},
    {"range": [None, 0.9]}, {"same": "model.json"}, {"robust": {"norm": "inf", "eps": 0.1}, "at_least": 0.5},
]  # fmt: skip
TAKES = {  # options with a value, options without, options for files
    "certify": (
        f"{CERTIFYING} --require",
        "--json --force --radius --witness --header --no-header",
        "--out --report --proof --junit",
    ),
    "report": (CERTIFYING, "--json --force --header", "--out"),
    "explain": (f"{CERTIFYING} --row", "--json --force", "--out"),
    "compare": (f"{CERTIFYING} --other-eps --other-norm", "--json --force", "--out --junit"),
    "train": (TRAINING, "--json --force --scale --no-header", "--out --held-out"),
    "spread": ("--eps --norm --frozen", "--json", ""),
    "convert": ("", "--json --force --best-iteration --all-trees", "--out"),
    "datasets": ("", "--json", ""),
    "check": (f"{QUESTION} --rows --jobs", "--json --force", "--junit"),
    "measure": (f"{QUESTION} --columns --column --direction --other", "--json", ""),
}
TAKES = {command: [words.split() for words in options] for command, options in TAKES.items()}


def furnish(folder):
    """Make the files that commands are tried on."""
    random = np.random.default_rng(0)
    X = random.random((40, 3)).round(3)
    y = np.where(X[:, 1] > 0.5, "yes", "no")
    lines = [",".join(map(str, [*row, label])) for row, label in zip(X.tolist(), y, strict=True)]
    text = "\n".join(["a,b,c,y", *lines]) + "\n"
    write = {
        "good.csv": text,
        "headless.csv": "\n".join(lines) + "\n",
        "one.csv": "a,b,c,y\n0.1,0.2,0.3,no\n",
        "text.csv": text.replace("0.", "x.", 3),
        "wide.csv": text.replace("\n0", "\n1,0", 3),
        "extreme.csv": "a,b,c,y\n1.7e308,-1.7e308,5e-324,no\n0,1e-300,0,yes\n" * 3,
        "binary.csv": "\xff\x00\x01" * 9,
        "old.csv": "old",
        "empty": "",
        "junk.json": '{"format": "certiforest"',
        "contract.json": json.dumps({"format": "certiforest-contract", "version": 1, "statements": STATEMENTS}),
        "m.joblib": "\x80\x04junk",
        "good.svm": "".join(f"{int(r[1] > 0.5)} 1:{r[0]} 2:{r[1]} 3:{r[2]}\n" for r in X.tolist()),
    }
    for name, content in write.items():
        (folder / name).write_text(content, encoding="latin-1")
    np.savez(folder / "good.npz", X=X, y=y)
    import pandas as pd

    pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "c": X[:, 2], "y": y}).to_parquet(folder / "good.parquet")
    nodes = [1, -1, -1, 0, -1, -1, 1, -1, -1], [0.5, 0, 0, 0.3, 0, 0, 0.55, 0, 0], [-1, 0, 1, -1, 0, 1, -1, 0, 1]
    classes = ["no", "yes"]
    votes = TreeEnsemble(*nodes, n_features=3, classes=classes, feature_names=["a", "b", "c"])
    votes.save(folder / "model.json")
    votes.with_columns(["a", "b", "c"], Scaling([0, 0, 0], [1, 2, 3])).save(folder / "scaled.json")
    save_silva(votes, folder / "m.silva")
    TreeEnsemble(*nodes, n_features=3, classes=classes, scores=[[-0.5], [0.75]]).save(folder / "sums.json")
    far = [1.7e308, 0, 0, -1.7e308, 0, 0, 5e-324, 0, 0]
    TreeEnsemble(nodes[0], far, nodes[2], n_features=3, classes=classes).save(folder / "extreme.json")
    (folder / "folder").mkdir()
    os.mkfifo(folder / "pipe")
    (folder / "link").symlink_to(folder / "old.csv")
    (folder / "dangling").symlink_to(folder / "new.csv")
    (folder / "loop").symlink_to(folder / "loop")
    with contextlib.chdir(folder), contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        assert main([*TRAINED, "trained.json"]) == 0
        for model in ("model.json", "sums.json"):  # kernels are compiled here, not in the first case
            for norm in "inf", "0", "1", "2":
                main(["certify", model, "good.csv", "--target", "y", "--eps", "1", "--norm", norm, "--radius"])


def invent(random):
    """Return the words of a command line."""

    def pick(values):
        return values[int(random.integers(len(values)))]

    def mostly(values, n_good):
        return pick(values[:n_good]) if random.random() < 0.85 else pick(values)

    command = pick(
        ["certify"] * 4
        + ["train"] * 3
        + ["report"] * 2
        + ["explain", "compare", "spread", "convert", "datasets", "check", "measure", "x", ""]
    )
    if command not in TAKES:
        return [word for word in (command, pick(["--help", "--version", "-h", "--x", ""])) if word]
    valued, switches, outputs = TAKES[command]
    words = [command]
    if command not in ("train", "datasets"):
        words.append(mostly(MODELS, N_GOOD_MODELS))
    if command == "compare":
        words.append(mostly(MODELS, N_GOOD_MODELS))
    if command in ("certify", "report", "explain", "compare", "train"):
        words.append(mostly(DATA, N_GOOD_DATA))
        words += ["--eps", "0.1"] if random.random() < 0.9 else []
        words += ["--target", "y"] if random.random() < 0.8 else []
    if command in ("check", "measure"):
        words.append(pick(CONTRACTS if command == "check" else ["range", "gap", "fall", "difference", "x"]))
        words += ["--domain", mostly(DATA, N_GOOD_DATA)] if random.random() < 0.95 else []
        words += ["--target", "y"] if random.random() < 0.9 else []
        words += ["--rows", "good.csv"] if command == "check" and random.random() < 0.8 else []
    if command == "train":
        words += ["--trees", "2", "--depth", "2"]
    if command == "explain":
        words += ["--row", "3"] if random.random() < 0.9 else []
    if command in ("train", "convert") and random.random() < 0.9:
        words += ["--out", "out.json"]
    if command == "datasets":
        words += pick([[], ["digits"], ["mnits"], ["[/b]"]])
    for _ in range(random.poisson(1)):
        if valued:
            option = pick(valued)
            words += [option, mostly(WORDS[option], N_GOOD.get(option, 1))]
    words += [switch for switch in switches if random.random() < 0.15]
    words += [word for option in outputs if random.random() < 0.3 for word in (option, mostly(OUTPUTS, 4))]
    if random.random() < 0.05:
        words.insert(
            int(random.integers(len(words) + 1)), pick(["--x", "-", "--", "--domain", "--eps=0.1", "--help", "\x00"])
        )
    if command in ("certify", "report", "spread") and random.random() < 0.1:
        words += ["--domain", *pick([("0", "1"), ("nan", "1"), ("-1e308", "1.7e308"), ("1", "0"), ("-inf", "inf")])]
    return words


class Folder:
    """A furnished folder, and what has changed in it."""

    def __init__(self, path):
        self.path, self.stock = path, path.parent / "stock"
        if not self.stock.exists():
            self.stock.mkdir()
            furnish(self.stock)
        self.renew()

    def renew(self):
        """Start anew."""
        shutil.rmtree(self.path, ignore_errors=True)
        self.path.mkdir()
        for entry in self.stock.iterdir():
            if entry.is_fifo():
                os.mkfifo(self.path / entry.name)
            elif entry.is_symlink():
                target = Path(os.readlink(entry)).name
                (self.path / entry.name).symlink_to(self.path / target)
            elif entry.is_dir():
                (self.path / entry.name).mkdir()
            else:
                shutil.copy(entry, self.path)
        self.before = self.look()

    def look(self):
        """Return what is there: every file by its digest, all else by its kind."""
        found = {}
        for entry in os.scandir(self.path):
            if entry.is_symlink():
                found[entry.name] = "link"
            elif entry.is_file():
                with open(entry.path, "rb") as file:
                    found[entry.name] = hashlib.sha256(file.read()).hexdigest()
            else:
                found[entry.name] = "other"
        return found


def judge_end(judge, seed, words, folder, code, out, err, is_apart=False):
    """Hold what a command did against the rules."""
    told = f"{shlex.join(word[:60] for word in words)} -> {code}, {err[:200]!r}"
    is_interrupted = is_apart and code in (130, -signal.SIGINT)
    if code not in (0, 1, 2, 130) and not is_interrupted:
        judge.find(seed, "exit code", told)
    if code == 1 and "--require" not in words and words[0] != "check":
        judge.find(seed, "exit code 1 without --require", told)
    if "Traceback" in err and not is_interrupted:
        judge.find(seed, "traceback", told)
    errors = [line for line in err.splitlines() if line.startswith("certiforest: error:")]
    others = [line for line in err.splitlines() if not line.startswith("certiforest: ")]
    if (code == 2) != (len(errors) == 1) or (others and not is_interrupted):
        judge.find(seed, "not one line", told)
    if code == 2 and out:
        judge.find(seed, "output of a refusal", told + repr(out[:200]))
    if code in (0, 1) and "--json" in words and "--help" not in words and "-h" not in words:
        try:
            json.loads(out)
        except ValueError:
            judge.find(seed, "no JSON", told)
    now = folder.look()
    left = [name for name in now if name.endswith(".part")]
    if left:
        judge.find(seed, "left lying about", f"{told} {left}")
    written = {
        words[i + 1]
        for i, word in enumerate(words[:-1])
        if word in ("--out", "--held-out", "--report", "--junit", "--proof")
    }
    targets = {"link": "old.csv", "dangling": "new.csv"}
    written = {targets.get(name, name) for name in written} | {"report.html"}
    for name, state in folder.before.items():
        is_replaced = now.get(name) != state
        if is_replaced and (name not in written or "--force" not in words or state in ("link", "other")):
            judge.find(seed, "a file was changed", f"{told} {name}")
    for name in set(now) - set(folder.before):
        if name.encode(errors="surrogateescape").decode(errors="replace") and name not in written:
            judge.find(seed, "a file came into being", f"{told} {name}")
        if code == 2 and "standard output" not in err:
            judge.find(seed, "a file of a refusal", f"{told} {name}")
    if now != folder.before:
        folder.renew()
    judge.note({0: "done", 1: "below", 2: "refused"}.get(code, "interrupted"))


def run_inside(words):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(words)
    return code, out.getvalue(), err.getvalue()


def run_apart(words, random, folder):
    """Run a command as a process of its own, in adversity."""
    command = [*COMMAND, *words]
    adversity = int(random.integers(5))
    if adversity == 0:  # Ctrl-C at any moment
        process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        time.sleep(random.uniform(0.05, 2))
        process.send_signal(signal.SIGINT)
        out, err = process.communicate()
        code, text = process.returncode, err.decode(errors="replace")
        if code == 1 and "certiforest" not in text.replace("import sys; from certiforest.cli import main", ""):
            code, text = 130, ""  # Python itself was not there yet
        return code, out.decode(errors="replace"), text
    shell = {1: "2>&-", 2: ">&-", 3: ">/dev/full", 4: "| head -c 5"}[adversity]
    line = " ".join(shlex.quote(word) for word in command)
    if adversity == 4:
        line = f"set -o pipefail; {line}"
    end = subprocess.run(["bash", "-c", f"{line} {shell}"], cwd=folder, capture_output=True)
    code, err = end.returncode, end.stderr.decode(errors="replace")
    if adversity == 1 and code == 2:
        err = "certiforest: error: nobody listens\n"
    return code, "{}" if code in (0, 1) else "", err


def try_one(judge, seed, folder):
    random = np.random.default_rng(seed)
    words = invent(random)
    is_apart = random.random() < SHARE_APART and not any("\x00" in word for word in words)
    try:
        code, out, err = run_apart(words, random, folder.path) if is_apart else run_inside(words)
    except Exception as error:
        judge.find(seed, "exception", f"{shlex.join(words)} {type(error).__name__}: {error}")
        return
    judge_end(judge, seed, words, folder, code, out, err, is_apart)


def trial(n_cases, seed, judge=None):
    judge = Judge() if judge is None else judge
    os.environ.pop("CERTIFOREST_DATA", None)
    with tempfile.TemporaryDirectory() as parent:
        folder = Folder(Path(parent) / "room")
        here = os.getcwd()
        try:
            for number in judge.cases(n_cases):
                os.chdir(folder.path)
                with judge.watch([seed, number]):
                    try_one(judge, [seed, number], folder)
        finally:
            os.chdir(here)
    return judge


if __name__ == "__main__":
    run(trial, __doc__)

"""A standing trial: altered model files of every kind, each refused in one sentence or read as its library reads it.

    python tests/hostile/models.py --cases 500000 --seed 1 --compare 20000

Alterations know the structure of files: types, lengths, numbers that stand twice, cycles, depths, huge and non-finite
numbers, names that stand twice; and they flip bytes. What is read must predict, come back the same from a file of our
own, and, for as many files as ``--compare`` says, predict what the library itself predicts, which reads the file in a
process apart, as it may crash. Counted per kind are files refused, read, compared (the library read them, too), only
ours (the library refused or crashed), and those that should not be there: readings that differ, errors that are not a
ModelError of one line, files that take more than two seconds of the processor or 64 MB of memory.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import resource
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from certiforest import ModelError, TreeEnsemble, as_ensemble
from certiforest.formats.agreement import threshold_rows

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # as pytest does, when this file is run by itself
from hostile.alterations import alter
from hostile.library_readers import Library
from hostile.model_files import sources

KINDS = (
    "certiforest", "silva", "XGBoost JSON", "XGBoost UBJSON", "LightGBM", "CatBoost", "ONNX", "LightGBM dump",
    "treelite", "treelite checkpoint",
)  # fmt: skip
COMPARED = ("XGBoost JSON", "XGBoost UBJSON", "LightGBM", "CatBoost", "ONNX")  # with what the library reads
COUNTED = ("files", "refused", "read", "compared", "only ours", "differed", "tracebacks", "slow", "large")
LONGEST_SECONDS, LARGEST_BYTES, WIDEST_ROW = 2.0, 2**26, 2_000


class Trial:
    """Alters files, judges what becomes of them and counts.

    Parameters
    ----------
    seed : int
    n_compared : int
        How many files that are read go to the library as well.
    keep : Path, optional
        Where files go that should not be there, and those that only we read.
    """

    def __init__(self, seed: int, n_compared: int = 0, keep: Path | None = None) -> None:
        self.seed, self.n_compared, self.keep = seed, n_compared, keep
        self.counts: dict[str, Counter] = {kind: Counter() for kind in KINDS}
        self.reasons: Counter = Counter()
        self.library = Library()

    def run(self, n_cases: int, path: Path) -> None:
        for kind in KINDS:
            for content in sources(kind):
                path.write_bytes(content)
                as_ensemble(path).predict(threshold_rows(as_ensemble(path), 8))
        try:
            for number in range(n_cases):
                self.judge(KINDS[number % len(KINDS)], number, path)
                if number % 20_000 == 19_999:
                    print(self.table(), flush=True)
        finally:
            self.library.stop()

    def judge(self, kind: str, number: int, path: Path) -> None:
        rng = random.Random(f"{self.seed} {number}")
        path.write_bytes(alter(kind, rng))
        memory, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
        try:
            ensemble = as_ensemble(path)
            self._use(ensemble, rng)
            outcome = "read"
        except ModelError as error:
            is_sentence = "\n" not in str(error) and str(path) in str(error) and len(str(error)) < 1_000
            outcome = "refused" if is_sentence else "tracebacks"
            if not is_sentence:
                self._note(kind, number, outcome, repr(error)[:300], path)
        except Exception as error:
            outcome = "tracebacks"
            self._note(kind, number, outcome, repr(error)[:300], path)
        counts = self.counts[kind]
        counts.update(("files", outcome))
        if time.process_time() - start > LONGEST_SECONDS:
            counts["slow"] += 1
            self._note(kind, number, "slow", f"{time.process_time() - start:.1f} s", path)
        if (grown := 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory)) > LARGEST_BYTES:
            counts["large"] += 1
            self._note(kind, number, "large", f"{grown} bytes", path)
        is_foreign = kind in COMPARED
        if outcome == "read" and is_foreign and ensemble.n_features <= WIDEST_ROW and self.n_compared > 0:
            self.n_compared -= 1
            self._compare(kind, number, path, ensemble)

    def _use(self, ensemble: TreeEnsemble, rng: random.Random) -> None:
        if ensemble.n_features <= WIDEST_ROW:
            ensemble.predict(threshold_rows(ensemble, 8))
        if rng.random() < 0.05:
            document = json.dumps(json.loads(_text_of(ensemble)))
            assert TreeEnsemble.from_text(document) == ensemble

    def _compare(self, kind: str, number: int, path: Path, ensemble: TreeEnsemble) -> None:
        try:
            refusal = self.library.compare(kind, str(path), ensemble)
        except ModelError as error:
            self.counts[kind].update(("compared", "differed"))
            self._note(kind, number, "differed", str(error)[:300], path)
            return
        self.counts[kind]["only ours" if refusal else "compared"] += 1
        if refusal:
            self._note(kind, number, "only ours", refusal, path)

    def _note(self, kind: str, number: int, outcome: str, reason: str, path: Path) -> None:
        short = re.sub(r"[0-9]+", "#", " ".join(reason.split()))[:160]
        self.reasons[outcome, kind, short] += 1
        if self.keep is not None and self.reasons[outcome, kind, short] <= 3:
            name = f"{outcome}-{kind}-{self.seed}-{number}".replace(" ", "_")
            (self.keep / name).write_bytes(path.read_bytes())
            (self.keep / f"{name}.why").write_text(reason)

    def table(self) -> str:
        lines = ["{:16}".format("") + "".join(f"{name:>12}" for name in COUNTED)]
        for kind, counts in (*self.counts.items(), ("all", sum(self.counts.values(), Counter()))):
            lines.append(f"{kind:16}" + "".join(f"{counts[name]:12,}" for name in COUNTED))
        return "\n".join(lines)


def _text_of(ensemble: TreeEnsemble) -> str:
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        ensemble.save(file.name)
        return Path(file.name).read_text()


def main() -> None:
    """Run the trial and print its counts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--compare", type=int, default=500)
    parser.add_argument("--keep", type=Path, help="a folder for files that should not be there")
    options = parser.parse_args()
    if options.keep is not None:
        options.keep.mkdir(parents=True, exist_ok=True)
    trial = Trial(options.seed, options.compare, options.keep)
    start = time.perf_counter()
    in_memory = "/dev/shm"
    with tempfile.TemporaryDirectory(dir=in_memory if os.path.isdir(in_memory) else None) as folder:
        trial.run(options.cases, Path(folder) / "model")
    print(trial.table())
    for (outcome, kind, reason), n in trial.reasons.most_common():
        print(f"{outcome}: {n:,} {kind}: {reason}")
    print(f"seed {options.seed}, {time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()

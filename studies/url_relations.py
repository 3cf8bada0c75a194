"""What relations between columns change for phishing URLs: verdicts, witnesses that can exist, and what that takes.

    python studies/url_relations.py DIR [--rows 200] [--limit 1] [--only linf l2 l1]

DIR has ``dataset_phishing.csv.gz`` (Hannousse and Yahiouche, Mendeley Data c2gw7fy2j4), and, as TabularBench has them
for it, ``features.csv`` (columns with type, min, max) and ``relations.json``. Split as there; XGBoost of 200 trees of
depth 6; the first test rows of phishing that the model knows as such are attacked. Columns are in units of their
ranges and stay within them; whole ones stay whole. Relations: none; the published ones; and with them the 19 `a <= b`
of most support that `suggest_relations` finds in training rows and no held-out one of these breaks. "Of those" are rows
whose attack without relations breaks one, so that it can only be repaired or refuted. Seconds are CPU.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import sys
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import numpy as np
import xgboost
from sklearn.model_selection import train_test_split

from certiforest import Attacker, Certifier, suggest_relations
from certiforest.attack.relations import binding, find_broken, read_relation, read_relations

ATTACKS = {"linf": (np.inf, 0.01), "l2": (2, 0.5), "l1": (1, 0.5)}
N_MINED = 19


class Table(NamedTuple):
    """Rows of pages, in the units of the data; what is said of columns; and the relations that are published."""

    X: dict[str, np.ndarray]
    y: dict[str, np.ndarray]
    names: list[str]
    low: np.ndarray
    high: np.ndarray
    is_whole: np.ndarray
    published: list[dict[str, object]]

    def attacker(self, norm: float, eps: float, relations: list | None = None) -> Attacker:
        """Return who moves columns in units of their ranges."""
        span = self.high - self.low
        return Attacker(
            norm,
            eps,
            scale=np.where(span > 0, span, 1.0),
            domain=(self.low, self.high),
            integer=np.flatnonzero(self.is_whole).tolist(),
            relations=relations,
        ).resolve(len(self.names), self.names)


def read_table(directory: Path) -> Table:
    """Read the table, split into train, valid and test as TabularBench splits it."""
    with open(directory / "features.csv", encoding="utf-8") as file:
        told = list(csv.DictReader(file))
    with gzip.open(directory / "dataset_phishing.csv.gz", "rt", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    names = [column["feature"] for column in told]
    X = np.array([[float(row[name]) for name in names] for row in rows])
    y = np.array([row["status"] == "phishing" for row in rows]).astype(int)
    known, test, y_known, y_test = train_test_split(X, y, test_size=0.2, random_state=42, stratify=y)
    train, valid, y_train, y_valid = train_test_split(known, y_known, test_size=0.2, random_state=42, stratify=y_known)
    low, high = (np.array([float(column[end]) for column in told]) for end in ("min", "max"))
    is_whole = np.array([column["type"] == "int" for column in told])
    published = json.loads((directory / "relations.json").read_text(encoding="utf-8"))["relations"]
    X_of, y_of = {"train": train, "valid": valid, "test": test}, {"train": y_train, "valid": y_valid, "test": y_test}
    return Table(X_of, y_of, names, low, high, is_whole, published)


def mined(table: Table) -> list[str]:
    """Return the ``a <= b`` of most support that are not published."""
    known = {str(read_relation(relation)) for relation in table.published}
    found = [entry for entry in suggest_relations(table.X["train"], columns=table.names) if "linear" in entry]
    found = [entry for entry in found if " <= " in entry["linear"] and not entry["about"]["broken"]]
    return [entry["linear"] for entry in found if entry["linear"] not in known][:N_MINED]


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--rows", type=int, default=200)
    parser.add_argument(
        "--limit", type=float, default=1.0, help="CPU seconds for a row; a verdict that takes more is none"
    )
    parser.add_argument("--only", nargs="+", choices=ATTACKS, default=list(ATTACKS))
    parser.add_argument("--relations", nargs="+", choices=["none", "published", "mined"])
    parser.add_argument("--list", action="store_true", help="name the rows that stay unknown")
    args = parser.parse_args(argv)
    table = read_table(args.directory)
    model = xgboost.XGBClassifier(n_estimators=200, max_depth=6, n_jobs=1, random_state=0)
    model.fit(table.X["train"], table.y["train"])
    rows = table.X["test"][table.y["test"] == 1][: args.rows]
    rows = rows[model.predict(rows) == 1]
    accuracy = (model.predict(table.X["test"]) == table.y["test"]).mean()
    told = {"none": [], "published": table.published, "mined": [*table.published, *mined(table)]}
    most = read_relations(told["mined"])
    print(f"accuracy {accuracy:.4f}; {len(rows)} rows; relations: {len(table.published)} published,")
    print(f"{len(most) - len(table.published)} mined: {', '.join(map(str, most[len(table.published) :]))}\n")
    print("| attack | relations | stable | unstable | unknown | witnesses that break a published one, any", end="")
    print(" | decided without a cut, of those | median s | mean s | longest s |\n" + 10 * "|---" + "|")
    for name in args.only:
        free: np.ndarray | None = None
        needy = np.zeros((2, len(rows)), bool)  # of which an attack without relations breaks one of each kind
        for kind in args.relations or told:
            attacker = table.attacker(*ATTACKS[name], told[kind] or None)
            certifier = Certifier(model, attacker, n_jobs=1, time_limit=60 * args.limit, witness=True)
            certifier.certify(rows[:2])  # what is made once is made
            found, seconds = [], []
            for x in rows:
                start = time.process_time()
                found.append(certifier.certify(x[None]))
                seconds.append(time.process_time() - start)
            stable = np.array(
                [int(f.stable[0]) if s <= args.limit else -1 for f, s in zip(found, seconds, strict=True)]
            )
            count = Counter(stable.tolist())
            ways = np.array([str(f.method[0]) for f in found])
            broken = [breaks(table, told, x, f) for x, f in zip(rows, found, strict=True)]
            published, any_ = (sum(entry[i] for entry in broken) for i in (0, 1))
            needy = np.array(broken).T if kind == "none" else needy
            is_at_root = (stable >= 0) & (ways != "solved")
            repaired = needy[int(kind == "mined")]
            at_root = f"{is_at_root.sum()}, {(is_at_root & repaired).sum()} of {repaired.sum()}"
            times = f"{np.median(seconds):.3f} | {np.mean(seconds):.3f} | {max(seconds):.2f}"
            print(
                f"| {name} {ATTACKS[name][1]} | {kind} | {count[1]} | {count[0]} | {count[-1]} | {published}, {any_}"
                f" | {at_root} | {times} |",
                flush=True,
            )
            if args.list and count[-1]:
                print("unknown:", np.flatnonzero(stable == -1).tolist(), flush=True)
            if free is not None and ((free == 1) & (stable == 0)).any():
                raise AssertionError("A row that is stable without relations is not with them.")
            free = stable if kind == "none" else free
    return 0


def breaks(table: Table, told: dict[str, list], x: np.ndarray, found) -> tuple[bool, bool]:
    """Tell whether a witness, if there is one, breaks a relation of its row: a published one, any."""
    if found.stable[0] != 0:
        return False, False
    is_broken = []
    for kind in ("published", "mined"):
        relations = table.attacker(1, 1.0, told[kind]).relations or ()
        is_broken.append(bool(find_broken(binding(relations, x), found.witness).any()))
    return is_broken[0], is_broken[1]


if __name__ == "__main__":
    sys.exit(main())

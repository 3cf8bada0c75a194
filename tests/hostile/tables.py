"""A trial of tables: files of every kind, changed in structure and in bytes, are read soundly or refused in a sentence.

``python tests/hostile/tables.py --cases 100000 --seed 1`` takes any number; the suite takes few. What is accepted is
compared with a reading that shares no code with ours: by pandas and Python's csv (CSV), by polars (Parquet), by zipfile
(npz), and by a few lines of Python (LIBSVM).
"""

import csv
import io
import os
import sys
import tempfile
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import polars
import pyarrow as pa
import pyarrow.parquet
import sklearn.datasets  # noqa: F401  # slow to import: not in the first case that needs it

sys.path.insert(0, str(Path(__file__).resolve().parent))

from judging import Judge, run

from certiforest.data.cells import TableError
from certiforest.data.readers import read_table

NUMBERS = [
    "0", "1", "-1", "0.5", "1e5", "-3.25E-2", "+7", " 4 ", "1e308", "1.7976931348623157e308", "5e-324", "-0.0", "007",
    ".5", "5.", "9007199254740992", "123456789012345680",
]  # fmt: skip
ODD = [
    "", " ", "nan", "inf", "-inf", "1e999", "1_000", "1,5", "0x10", "1e", "--1", "?", "NA", "null", "text", "[/b]", '"',
    '""', '"a', "'", "a;b", "a\tb", "1;2", "\u0661", "é", "\x00", "\x1b[31m", "True", "9007199254740993", "9" * 400,
    "x" * 3000, "1 2", "#1", "1#", "1e+", "١", "\u2028", "\x0b", "\ufeff", "１２", "1d5", "1.2.3", "infinity",
    "NaN", "2020-01-01",
]  # fmt: skip
LABELS = [["0", "1"], ["ham", "spam"], ["1.0", "2.0"], ["0.5", "1.5"], ["-1", "+1"], ["ja", "nein", "vielleicht"]]


class Case:
    """One altered file: how to read it, and what an independent reader makes of it."""

    def __init__(self, seed):
        self.random = np.random.default_rng(seed)
        self.n, self.d = int(self.random.integers(1, 9)), int(self.random.integers(1, 5))

    def pick(self, values):
        return values[int(self.random.integers(len(values)))]

    def chance(self, share):
        return bool(self.random.random() < share)

    def number(self):
        return self.pick(NUMBERS) if self.chance(0.5) else repr(float(self.random.standard_normal()))

    def spoil(self, content, how_often):
        """Change bytes: flip, remove, double, insert, cut."""
        content = bytearray(content)
        for _ in range(self.random.poisson(how_often)):
            if not content:
                break
            at = int(self.random.integers(len(content)))
            what = self.random.integers(6)
            if what == 0:
                content[at] ^= 1 << int(self.random.integers(8))
            elif what == 1:
                del content[at : at + int(self.random.integers(1, 9))]
            elif what == 2:
                content[at:at] = content[at : at + int(self.random.integers(1, 30))]
            elif what == 3:
                content[at:at] = self.pick(
                    [b",", b"\n", b'"', b";", b"\t", b":", b"\x00", b"-", b"9", b" ", b"\r", b"\xff"]
                )
            elif what == 4:
                content[at] = int(self.random.integers(256))
            else:
                del content[at:]
        return bytes(content)


class CsvCase(Case):
    suffix = ".csv"

    def make(self):
        delimiter = self.pick(",;\t")
        labels = self.pick(LABELS)
        lines = [[*(self.number() for _ in range(self.d)), self.pick(labels)] for _ in range(self.n)]
        header = [f"c{i}" for i in range(self.d)] + ["y"]
        if self.chance(0.7):
            lines.insert(0, header)
        for _ in range(self.random.poisson(0.7)):
            row = self.pick(lines)
            at = int(self.random.integers(len(row) + 1))
            what = self.random.integers(6)
            if what < 3 and at < len(row):
                row[at] = self.pick(ODD)
            elif what == 3:
                row.insert(at, self.pick(ODD + NUMBERS))
            elif what == 4 and at < len(row):
                del row[at]
            else:
                lines.insert(int(self.random.integers(len(lines) + 1)), [])
        end = self.pick(["\n", "\n", "\r\n", "\r"])
        quote = self.chance(0.2)
        text = end.join(
            delimiter.join(f'"{cell}"' if quote and self.chance(0.3) else cell for cell in row) for row in lines
        )
        content = (self.pick(["", "", "", "\ufeff"]) + text + self.pick(["", end])).encode("utf-8", "surrogatepass")
        self.options = {"target": self.pick([None, -1, "y", 0, self.d]), "header": self.pick([None, None, True, False])}
        self.content = self.spoil(content, self.pick([0, 0, 0.5, 2]))

    def compare(self, table):
        text = self.content.decode("utf-8-sig")
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        first = text.lstrip("\n").split("\n", 1)[0]
        delimiter = max(",;\t", key=first.count)
        rows = [row for row in csv.reader(io.StringIO(text), delimiter=delimiter) if row]
        if len({len(row) for row in rows}) != 1:
            return "lines of several lengths were accepted"
        n_names = len(rows) - len(table)
        if n_names not in (0, 1):
            return f"{len(table)} rows of {len(rows)} lines"
        if (n_names == 1) != (table.feature_names is not None):
            return "names without a header, or a header without names"
        if self.options["header"] is not None and n_names != self.options["header"]:
            return "the header is not where it was said to be"
        target = self.options["target"]
        names = [cell.strip() for cell in rows[0]] if n_names else None
        place = None
        if target is not None:
            place = names.index(str(target)) if names and str(target) in names else int(target) % len(rows[0])
        cells = [[cell for i, cell in enumerate(row) if i != place] for row in rows[n_names:]]
        difference = same_numbers(table.X, [[float(cell) for cell in row] for row in cells])
        if difference:
            return difference
        if place is not None:
            labels = [row[place].strip() for row in rows[n_names:]]
            if any(not same_label(ours, theirs) for ours, theirs in zip(table.y.tolist(), labels, strict=True)):
                return f"labels {table.y.tolist()} for {labels}"
        if self.chance(0.1):
            return self.compare_with_pandas(table, text, delimiter, n_names, place)
        return None

    def compare_with_pandas(self, table, text, delimiter, n_names, place):
        if "\x00" in text:
            return None  # pandas ends a cell there
        options = {"sep": delimiter, "dtype": str, "keep_default_na": False, "skiprows": n_names, "header": None}
        try:
            body = text.lstrip("\n")
            frame = pd.read_csv(io.StringIO(body), engine="python", quoting=csv.QUOTE_MINIMAL, **options)
        except (pd.errors.ParserError, pd.errors.EmptyDataError):
            return None
        features = [column for column in frame.columns if column != place]
        if len(frame) != len(table):
            return f"pandas reads {len(frame)} rows, not {len(table)}"
        return same_numbers(table.X, [[float(cell) for cell in row] for row in frame[features].to_numpy()])


class LibsvmCase(Case):
    suffix = ".svm"

    def make(self):
        first = int(self.random.integers(2))
        lines = []
        for _ in range(self.n):
            used = np.flatnonzero(self.random.random(self.d) < 0.6) + first
            pairs = [f"{index}:{self.number().strip()}" for index in used]
            for _ in range(self.random.poisson(0.15)):
                odd = [
                    f"{self.pick(ODD)}:1",
                    f"1:{self.pick(ODD)}",
                    "-1:2",
                    "99999999:1",
                    "1:2:3",
                    "qid:3",
                    "# note",
                    "5",
                ]
                pairs.insert(int(self.random.integers(len(pairs) + 1)), self.pick(odd))
            lines.append(" ".join([self.pick(["1", "-1", "+1", "0.5", "2"]), *pairs]))
        content = "\n".join(lines).encode("utf-8", "surrogatepass") + b"\n"
        n_features = self.pick([None, self.d, self.d + 2])
        self.options = {"n_features": n_features, "first_index": self.pick([None, None, 0, 1, first])}
        self.content = self.spoil(content, self.pick([0, 0, 0.5, 2]))

    def compare(self, table):
        rows, labels = [], []
        for line in self.content.split(b"\n"):
            words = line.split(b"#")[0].split()
            if not words:
                continue
            labels.append(float(words[0]))
            pairs = [word.split(b":") for word in words[1:] if not word.startswith(b"qid")]
            rows.append({int(index): float(value) for index, value in pairs})
        indices = [index for row in rows for index in row]
        first, n_features = self.options["first_index"], self.options["n_features"]
        bases = [0, 1] if first is None else [first]
        bases = [base for base in bases if all(index >= base for index in indices)]
        if n_features is not None:
            bases = [base for base in bases if all(index - base < n_features for index in indices)]
        if first is None and n_features is not None and len(bases) > 1 and indices:
            return "a base was guessed"
        if indices and table.first_index not in bases:
            return f"base {table.first_index}, not among {bases}"
        expected = np.zeros((len(rows), table.X.shape[1]))
        for number, row in enumerate(rows):
            for index, value in row.items():
                expected[number, index - table.first_index] = value
        return same_numbers(table.X, expected) or (
            None
            if [float(label) for label in table.y.tolist()] == labels
            else f"labels {table.y.tolist()} for {labels}"
        )


class NpzCase(Case):
    suffix = ".npz"

    def make(self):
        dtype = self.pick(["f8", "f4", "i8", "u8", "u1", "?", "f2", "i4", "c16", "M8[s]", "U3", "f8", ">f8", "g"])
        numbers = self.random.standard_normal((self.n, self.d)) * 10.0 ** self.random.integers(0, 19)
        with np.errstate(all="ignore"):
            X = numbers.astype("i8").astype(dtype) if dtype.startswith("M8") else numbers.astype(dtype)
        if self.chance(0.1):
            X = self.pick([X[0], X[None], X[:0], X[:, :0], np.asfortranarray(X), X[:, 0]])
        arrays = {"X": X}
        if self.chance(0.8):
            y = np.array([self.pick(self.pick(LABELS)) for _ in range(self.n)])
            arrays["y"] = self.pick(
                [y, y.astype("S"), np.arange(self.n), np.arange(self.n) / 2, np.ones(self.n, bool), y[:-1]]
            )
        if self.chance(0.4):
            arrays["feature_names"] = np.array([f"c{i}" for i in range(self.d + self.chance(0.1))])
        file = io.BytesIO()
        self.pick([np.savez, np.savez_compressed])(file, **arrays)
        if self.chance(0.02):
            file = io.BytesIO()
            np.save(file, X)
        self.options = {"target": self.pick([None, None, "y", "z"])}
        self.content = self.spoil(file.getvalue(), self.pick([0, 0, 0.5, 2]))

    def compare(self, table):
        arrays = {}
        with zipfile.ZipFile(io.BytesIO(self.content)) as archive:
            for name in archive.namelist():
                with archive.open(name) as file:
                    arrays[name.removesuffix(".npy")] = np.lib.format.read_array(file, allow_pickle=False)
        difference = same_numbers(table.X, arrays["X"].tolist())
        if difference:
            return difference
        if "y" in arrays:
            labels = [x.decode() if isinstance(x, bytes) else str(x) for x in arrays["y"].tolist()]
            if any(not same_label(ours, theirs) for ours, theirs in zip(table.y.tolist(), labels, strict=True)):
                return f"labels {table.y.tolist()} for {labels}"
        return None


class ParquetCase(Case):
    suffix = ".parquet"

    def column(self):
        kind = int(self.random.integers(14))
        n, random = self.n, self.random
        if kind < 5:
            return pa.array(random.standard_normal(n))
        if kind == 5:
            return pa.array(random.integers(-(2**62), 2**62, n))
        if kind == 6:
            return pa.array(random.integers(0, 9, n).astype(self.pick(["i1", "u2", "i4", "u8", "f4"])))
        if kind == 7:
            return pa.array([None, *random.standard_normal(n - 1)])
        if kind == 8:
            return pa.array([self.pick(ODD) for _ in range(n)])
        if kind == 9:
            return pa.array(random.random(n) < 0.5)
        if kind == 10:
            return pa.array(random.integers(0, 10**9, n).astype("M8[s]"))
        if kind == 11:
            return pa.array([[1, 2]] * n)
        if kind == 12:
            return pa.array(["a", "b"] * n)[:n].dictionary_encode()
        return pa.array([b"\xff"] * n)

    def make(self):
        columns = {f"c{i}": self.column() for i in range(self.d)}
        labels = self.pick(LABELS)
        columns["y"] = pa.array([self.pick(labels) for _ in range(self.n)])
        names = list(columns)
        if self.chance(0.05):
            names[0] = self.pick(["y", "", "[/b]", "\x00"])
        file = io.BytesIO()
        compression = self.pick(["none", "snappy", "zstd", "gzip"])
        pyarrow.parquet.write_table(pa.table(list(columns.values()), names=names), file, compression=compression)
        self.options = {"target": self.pick(["y", "y", None, -1])}
        self.content = self.spoil(file.getvalue(), self.pick([0, 0, 0.3, 1]))

    def compare(self, table):
        if not self.chance(0.3):
            return None
        try:
            frame = polars.read_parquet(io.BytesIO(self.content))
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            return None  # polars is stricter, or weaker, on broken files
        if self.options["target"] is not None:
            labels = [str(label) for label in frame["y" if "y" in frame.columns else frame.columns[-1]].to_list()]
            if any(not same_label(ours, theirs.strip()) for ours, theirs in zip(table.y.tolist(), labels, strict=True)):
                return f"labels {table.y.tolist()} for {labels}"
            frame = frame[:, : len(frame.columns) - 1]
        return same_numbers(table.X, list(zip(*(frame[name].to_list() for name in frame.columns), strict=True)))


def same_numbers(ours, theirs):
    """Return None if two tables hold the same numbers, exactly, else what differs."""
    exact = [[float(value) for value in row] for row in theirs]
    if np.shape(ours) != np.shape(exact):
        return f"shape {np.shape(ours)} for {np.shape(exact)}"
    for our_row, their_row, exact_row in zip(ours.tolist(), theirs, exact, strict=True):
        for mine, given, number in zip(our_row, their_row, exact_row, strict=True):
            if mine != number or (isinstance(given, int) and int(mine) != given):
                return f"{mine!r} for {given!r}"
    return None


def same_label(ours, theirs):
    """Tell whether a label is the text of a file, or the whole number that it says."""
    if str(ours) == theirs:
        return True
    try:
        return float(theirs) == float(ours)
    except ValueError:
        return theirs in ("True", "False") and ours == (theirs == "True")


KINDS = [CsvCase, CsvCase, CsvCase, LibsvmCase, LibsvmCase, NpzCase, ParquetCase]


def try_one(judge, seed, folder):
    case = KINDS[np.random.default_rng(seed).integers(len(KINDS))](seed)
    case.make()
    path = Path(folder) / f"rows{case.suffix}"
    path.write_bytes(case.content)
    kind = case.suffix[1:]
    try:
        table = read_table(path, **case.options)
    except TableError as error:
        judge.check_sentence(seed, str(error))
        judge.note(f"{kind} refused")
        return
    except Exception as error:
        judge.find(seed, "exception", f"{type(error).__name__}: {error}")
        return
    if table.X.dtype != np.float64 or not np.isfinite(table.X).all():
        judge.find(seed, "misread", "not finite float64")
    try:
        difference = case.compare(table)
    except Exception as error:
        difference = f"the other reader fails ({type(error).__name__}: {error})"
    if difference is not None:
        judge.find(seed, "misread", difference)
    judge.note(f"{kind} read")


def trial(n_cases, seed, judge=None):
    judge = Judge() if judge is None else judge
    scratch = "/dev/shm" if os.path.isdir("/dev/shm") else None
    with tempfile.TemporaryDirectory(dir=scratch) as folder:
        for number in judge.cases(n_cases):
            with judge.watch([seed, number]):
                try_one(judge, [seed, number], folder)
    return judge


if __name__ == "__main__":
    run(trial, __doc__)

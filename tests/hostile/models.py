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
import contextlib
import functools
import importlib
import itertools
import json
import math
import multiprocessing
import os
import random
import re
import resource
import signal
import struct
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.ensemble import RandomForestClassifier

from certiforest import ModelError, TreeEnsemble, as_ensemble, save_silva
from certiforest.formats.lightgbm_models import PROBABILITY_SLACK as LIGHTGBM_SLACK
from certiforest.formats.proof import prove
from certiforest.formats.xgboost_models import PROBABILITY_SLACK as XGBOOST_SLACK

KINDS = ("certiforest", "silva", "XGBoost JSON", "XGBoost UBJSON", "LightGBM", "CatBoost")
COUNTED = ("files", "refused", "read", "compared", "only ours", "differed", "tracebacks", "slow", "large")
LONGEST_SECONDS, LARGEST_BYTES, WIDEST_ROW = 2.0, 2**26, 2_000
PATIENCE = 20  # seconds for the library; it may loop for ever


# Files as their libraries write them ----------------------------------------------------------------------------------


@functools.cache
def sources(kind: str) -> tuple[bytes, ...]:
    """Return small files of a kind."""
    two, many = load_breast_cancer(return_X_y=True), load_iris(return_X_y=True)
    two = two[0][:, :6], two[1]
    text = two[0], np.array(["m", "b"])[two[1]]
    with tempfile.TemporaryDirectory() as folder:
        write = {"certiforest": _own, "silva": _silva, "LightGBM": _lightgbm, "CatBoost": _catboost}.get(kind, _xgboost)
        path = Path(folder) / "model"
        contents = []
        for save in write(two, many, text):
            save(path)
            contents.append(path.read_bytes())
    if kind == "XGBoost UBJSON":
        return tuple(to_ubjson(read_pairs(content)) for content in contents)
    return tuple(contents)


def _own(*data):
    for own in data:
        forest = RandomForestClassifier(3, max_depth=3, random_state=0).fit(*own)
        yield as_ensemble(forest, voting="hard").with_columns([f"f {i}" for i in range(own[0].shape[1])]).save
        yield as_ensemble(forest).save


def _silva(*data):
    for own in data:
        forest = RandomForestClassifier(3, max_depth=3, random_state=0).fit(*own)
        yield functools.partial(save_silva, as_ensemble(forest, voting="hard"))


def _xgboost(two, many, text):
    import pandas
    import xgboost

    options = {"n_estimators": 2, "max_depth": 2, "n_jobs": 1}
    named = pandas.DataFrame(two[0], columns=list("abcdef")), two[1]
    for data, more in (
        (two, {}),
        (many, {}),
        (named, {"objective": "binary:hinge"}),
        (two, {"booster": "dart", "rate_drop": 0.5}),
        (many, {"objective": "multi:softmax", "num_parallel_tree": 2, "subsample": 0.5}),
        (many, {"multi_strategy": "multi_output_tree"}),
        (two, {"gamma": 5.0, "tree_method": "exact"}),
    ):
        booster = xgboost.XGBClassifier(**options, **more).fit(*data).get_booster()
        yield lambda path, booster=booster: path.write_bytes(booster.save_raw("json"))


def _lightgbm(two, many, text):
    import lightgbm

    options = {"n_estimators": 2, "num_leaves": 4, "n_jobs": 1, "verbose": -1}
    forest = {"boosting_type": "rf", "bagging_freq": 1, "bagging_fraction": 0.5}
    for data, more in ((two, {}), (many, {}), (two, forest), (many, {"objective": "multiclassova"}), (many, forest)):
        yield lightgbm.LGBMClassifier(**options, **more).fit(*data).booster_.save_model


def _catboost(two, many, text):
    import catboost

    options = {"iterations": 2, "depth": 2, "verbose": 0, "thread_count": 1, "allow_writing_files": False}
    for data, more in (
        (two, {}),
        (text, {}),
        (many, {}),
        (many, {"grow_policy": "Lossguide"}),
        (two, {"grow_policy": "Depthwise"}),
        (many, {"loss_function": "MultiClassOneVsAll"}),
    ):
        model = catboost.CatBoostClassifier(**options, **more).fit(*data)
        yield lambda path, model=model: _save_catboost(model, path)


def _save_catboost(model, path):
    """Save as JSON, without the long texts on how the model was trained."""
    model.save_model(str(path), format="json")
    document = json.loads(path.read_bytes())
    info = document["model_info"]
    document["model_info"] = {name: info[name] for name in ("class_params", "model_guid")}
    document["model_info"]["params"] = {name: info["params"][name] for name in ("loss_function",)}
    path.write_text(json.dumps(document))


# Documents: objects are lists of pairs, so that names may stand twice -------------------------------------------------


class Pairs(list):
    """An object as a list of (name, value)."""


class Raw(str):
    """Text that stands in JSON as it is."""


def read_pairs(content: bytes):
    return json.loads(content, object_pairs_hook=Pairs)


def to_json(value) -> str:
    if isinstance(value, Pairs):
        return "{" + ",".join(f"{json.dumps(name)}:{to_json(entry)}" for name, entry in value) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(to_json, value)) + "]"
    return value if isinstance(value, Raw) else json.dumps(value)


# How XGBoost types the arrays of a model.
TYPED = {
    "U": (">u1", ("default_left", "split_type")),
    "L": (">i8", ("categories_segments", "categories_sizes")),
    "d": (">f4", ("base_weights", "loss_changes", "split_conditions", "sum_hessian", "leaf_weights")),
}
UNTYPED = ("trees", "feature_names", "feature_types", "enc", "version", "iteration_indptr", "tree_info", "weight_drop")


def to_ubjson(value, name="") -> bytes:
    if isinstance(value, Pairs):
        inside = b"".join(_ubjson_text(key) + to_ubjson(entry, key) for key, entry in value)
        return b"{" + inside + b"}"
    if isinstance(value, Raw):
        with contextlib.suppress(ValueError):
            return to_ubjson(json.loads(value, object_pairs_hook=Pairs), name)
        return b"S" + _ubjson_text(value)
    if isinstance(value, list):
        kind, dtype = next(((kind, dtype) for kind, (dtype, names) in TYPED.items() if name in names), ("l", ">i4"))
        with contextlib.suppress(ValueError, TypeError, OverflowError):
            if name not in UNTYPED and not any(isinstance(entry, (str, bool)) or entry is None for entry in value):
                array = np.array(value, dtype=dtype)
                return b"[$" + kind.encode() + b"#L" + struct.pack(">q", len(value)) + array.tobytes()
        return b"[#L" + struct.pack(">q", len(value)) + b"".join(to_ubjson(entry) for entry in value)
    if value is None or isinstance(value, bool):
        return {None: b"Z", True: b"T", False: b"F"}[value]
    if isinstance(value, int) and abs(value) < 2**63:
        return b"L" + struct.pack(">q", value)
    if isinstance(value, (int, float)):
        with np.errstate(over="ignore"):
            return b"d" + np.array(float(value) if abs(value) < 1e300 else math.inf, ">f4").tobytes()
    return b"S" + _ubjson_text(value)


def _ubjson_text(text: str) -> bytes:
    content = text.encode("utf-8", "replace")
    return b"L" + struct.pack(">q", len(content)) + content


# Alterations ----------------------------------------------------------------------------------------------------------

HOSTILE = [
    Raw(word)
    for word in (
        *("-1", "0", "1", "2", "3", "5", "-2147483648", "2147483647", "2147483648", "4294967296", "9007199254740993"),
        *("9" * 20, "9" * 400, "0.5", "-0.0", "1e308", "1e39", "-1e39", "3.4028235e38", "1e-46", "5e-324", "1e999"),
        *("NaN", "Infinity", "-Infinity", "true", "false", "null", '""', '"x"', '"0"', '"1"', '"-1"', '"1_0"', '"١"'),
        *('" 1"', '"1e5"', '"nan"', '"[0.5,0.5]"', "[]", "{}", "[[1]]", '{"a":1}', "[" * 200 + "]" * 200, '"\\u0000"'),
    )
]
WORDS = (
    *("-1", "0", "1", "2", "3", "4", "5", "12", "255", "2147483647", "4294967296", "9" * 20, "9" * 400, "0.5", "-0.0"),
    *(
        "1e308",
        "1e999",
        "-1e999",
        "inf",
        "-inf",
        "nan",
        "1e-36",
        "5e-324",
        "1_0",
        "١",
        "0x1p3",
        "1e5",
        "x",
        "",
        "=",
        ":",
    ),
    *("binary", "multiclass", "num_class:5", "sigmoid:2", "LEAF", "SPLIT", "Tree=0", "1.", ".5", "+1", "1d5", "1.0"),
)


def alter(kind: str, rng: random.Random) -> bytes:
    """Return an altered file of a kind."""
    content = rng.choice(sources(kind))
    n_steps = rng.choice((1, 1, 1, 1, 2, 3))
    if rng.random() < 0.12:
        return _alter_bytes(content, rng)
    if kind in ("silva", "LightGBM"):
        return _alter_text(content, kind, rng, n_steps)
    is_binary = kind == "XGBoost UBJSON"
    document = _pairs_of(kind, sources(kind).index(content))
    for _ in range(n_steps):
        document = _alter_document(document, rng, lambda: _pairs_of(kind, rng.randrange(len(sources(kind)))))
    return to_ubjson(document) if is_binary else to_json(document).encode("utf-8", "replace")


@functools.cache
def _pairs_of(kind: str, index: int) -> Pairs:
    return read_pairs(sources("XGBoost JSON" if kind == "XGBoost UBJSON" else kind)[index])


def _alter_bytes(content: bytes, rng: random.Random) -> bytes:
    content = bytearray(content)
    for _ in range(rng.choice((1, 1, 2, 4))):
        i, j = rng.randrange(len(content) + 1), rng.randrange(len(content) + 1)
        match rng.randrange(6):
            case 0:
                content[i : i + 1] = bytes([rng.randrange(256)])
            case 1:
                content[i : i + 1] = bytes([(content[i] if i < len(content) else 0) ^ (1 << rng.randrange(8))])
            case 2:
                del content[i:]
            case 3:
                del content[i : i + rng.randint(1, 200)]
            case 4:
                content[i:i] = content[j : j + rng.randint(1, 50)]
            case _:
                content[i:i] = rng.choice(
                    (b"-", b"9", b"9" * 20, b"e5", b",", b"[", b"{}", b"null", b"\n", b"\0", b'"')
                )
    return bytes(content)


def _alter_text(content: bytes, kind: str, rng: random.Random, n_steps: int) -> bytes:
    lines = content.decode().split("\n")
    end = next((i for i, line in enumerate(lines) if line == "end of trees"), len(lines))
    for _ in range(n_steps):
        starts = sorted({re.split(r"[= ]", line)[0] for line in lines[:end]})
        name = rng.choice(starts)
        i = rng.choice([i for i, line in enumerate(lines[:end]) if re.split(r"[= ]", line)[0] == name] or [0])
        match rng.randrange(8):
            case 0:
                del lines[i]
            case 1:
                lines.insert(i, lines[i])
            case 2:
                j = rng.randrange(end)
                lines[i], lines[min(j, len(lines) - 1)] = lines[min(j, len(lines) - 1)], lines[i]
            case _:
                lines[i] = _alter_line(lines[i], rng)
    if kind == "LightGBM" and rng.random() < 0.8:
        lines = _mend_sizes(lines, rng)
    return "\n".join(lines).encode()


def _alter_line(line: str, rng: random.Random) -> str:
    name, equals, value = line.rpartition("=") if "=" in line else ("", "", line)
    words = value.split(" ")
    i, j = rng.randrange(len(words)), rng.randrange(len(words))
    match rng.randrange(7):
        case 0 | 1:
            words[i] = rng.choice(WORDS)
        case 2:
            words[i] = _nudge_text(words[i], rng)
        case 3:
            words[i], words[j] = words[j], words[i]
        case 4:
            del words[i]
        case 5:
            words.insert(i, words[j])
        case _:
            words[i] = words[j]
    return name + equals + " ".join(words)


def _nudge_text(word: str, rng: random.Random) -> str:
    try:
        return str(int(word) + rng.choice((-2, -1, 1, 2)))
    except ValueError:
        with contextlib.suppress(ValueError):
            return repr(_nudge(float(word), rng))
    return word + rng.choice(("", " ", "\r", "\t", "x"))


def _mend_sizes(lines: list[str], rng: random.Random) -> list[str]:
    """Make the sizes of trees in the header right again, or leave them out."""
    place = next((i for i, line in enumerate(lines) if line.startswith("tree_sizes=")), None)
    starts = [i for i, line in enumerate(lines) if line.startswith("Tree=") or line == "end of trees"]
    if place is None or len(starts) < 2:
        return lines
    if rng.random() < 0.3:
        return lines[:place] + lines[place + 1 :]
    sizes = [sum(len(line.encode()) + 1 for line in lines[a:b]) for a, b in itertools.pairwise(starts)]
    return [*lines[:place], "tree_sizes=" + " ".join(map(str, sizes)), *lines[place + 1 :]]


def _nudge(number, rng: random.Random):
    if isinstance(number, bool):
        return not number
    if isinstance(number, int):
        return number + rng.choice((-2, -1, 1, 2, 1000))
    with np.errstate(over="ignore", invalid="ignore"):
        single = np.float32(number)
        return rng.choice(
            (
                -number, number * 2, number * 1e30, math.nextafter(number, math.inf),
                float(np.nextafter(single, np.float32(np.inf))), float(np.nextafter(single, np.float32(-np.inf))),
                (float(single) + float(np.nextafter(single, np.float32(np.inf)))) / 2, number + 1.0,
            )
        )  # fmt: skip


def _places(document) -> dict[str, list[tuple]]:
    """Return the paths of all named values by their names."""
    places: dict[str, list[tuple]] = {}
    waiting: list[tuple] = [((), document)]
    while waiting:
        path, value = waiting.pop()
        if isinstance(value, Pairs):
            for i, (name, entry) in enumerate(value):
                places.setdefault(name, []).append((*path, i))
                waiting.append(((*path, i), entry))
        elif isinstance(value, list) and value and isinstance(value[0], Pairs):
            waiting += [((*path, i), entry) for i, entry in enumerate(value)]
    return places


def _at(document, path):
    for i in path:
        document = document[i][1] if isinstance(document, Pairs) else document[i]
    return document


def _with(document, path, value):
    """Return the document with another value at a path."""
    if not path:
        return value
    i, *rest = path
    copy = type(document)(document)
    copy[i] = (copy[i][0], _with(copy[i][1], rest, value)) if isinstance(copy, Pairs) else _with(copy[i], rest, value)
    return copy


def _alter_document(document, rng: random.Random, other):
    places = _places(document)
    if not places:
        return document
    name = rng.choice(sorted(places))
    path = rng.choice(places[name])
    value, (*above, i) = _at(document, path), path
    parent = _at(document, above)
    match rng.randrange(14):
        case 0:
            return _with(document, above, Pairs(entry for k, entry in enumerate(parent) if k != i))
        case 1:
            twin = rng.choice((value, _altered(value, rng), rng.choice(HOSTILE)))
            return _with(document, above, Pairs([*parent[:i], (name, twin), *parent[i:]]))
        case 2:
            return _with(document, path, rng.choice(HOSTILE))
        case 3:
            renamed = rng.choice(("x", name + " ", name.upper(), rng.choice(sorted(places))))
            return _with(document, above, Pairs([*parent[:i], (renamed, value), *parent[i + 1 :]]))
        case 4:
            return _with(document, path, _at(document, rng.choice(places[rng.choice(sorted(places))])))
        case 5 | 6:
            foreign = other()
            found = _places(foreign).get(name)
            return _with(document, path, _at(foreign, rng.choice(found))) if found else document
        case 7:
            return _with(document, path, _at(document, rng.choice(places[name])))
        case _:
            return _with(document, path, _altered(value, rng))


def _altered(value, rng: random.Random):
    if isinstance(value, Pairs) or value is None:
        return rng.choice(HOSTILE)
    if isinstance(value, str):
        return rng.choice((_nudge_text(value, rng), value + value, value[:-1], rng.choice(HOSTILE)))
    if not isinstance(value, list):
        return _nudge(value, rng)
    if not value:
        return [rng.choice(HOSTILE)]
    copy = list(value)
    i, j = rng.randrange(len(copy)), rng.randrange(len(copy))
    match rng.randrange(9):
        case 0:
            del copy[i]
        case 1:
            copy.insert(i, copy[j])
        case 2:
            copy[i], copy[j] = copy[j], copy[i]
        case 3:
            copy[i] = copy[j]
        case 4:
            copy[i] = rng.choice(HOSTILE)
        case 5:
            copy = copy[::-1]
        case 6:
            copy = rng.choice((copy + copy, [], copy[:1], [copy]))
        case _:
            copy[i] = _altered(copy[i], rng)
    return copy


# What the library itself makes of a file, in a process apart ----------------------------------------------------------


def _serve(pipe) -> None:
    """Read files in a child; when it crashes, say so and go on with another one."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    resource.setrlimit(resource.RLIMIT_AS, (2**33, 2**33))
    for name in ("xgboost", "lightgbm", "catboost"):
        importlib.import_module(name)  # once: it takes seconds
    while True:
        child = os.fork()
        if child == 0:
            _read_on(pipe)
            os._exit(0)
        if os.waitpid(child, 0)[1] == 0:
            return
        pipe.send("it crashed, or did not come back")


def _read_on(pipe) -> None:
    readers = {"X": _read_by_xgboost, "L": _read_by_lightgbm, "C": _read_by_catboost}
    while (request := pipe.recv()) is not None:
        kind, path = request
        try:
            signal.alarm(PATIENCE)  # which ends the process
            ask = readers[kind[0]](path)
            pipe.send(None)
            pipe.send(ask(pipe.recv()))
        except Exception as error:
            pipe.send(f"{type(error).__name__}: {error}"[:300])
        signal.alarm(0)


def _read_by_xgboost(path):
    import xgboost

    booster = xgboost.Booster({"nthread": 1})
    booster.load_model(bytearray(Path(path).read_bytes()))

    def ask(rows):
        value = np.asarray(booster.inplace_predict(rows, validate_features=False))
        sums = np.asarray(booster.inplace_predict(rows, predict_type="margin", validate_features=False))
        is_many = sums.ndim == 2 and sums.shape[1] > 1
        label = value.argmax(axis=1) if value.ndim == 2 and is_many else np.ravel(value if is_many else value > 0.5)
        return label.astype(np.int64), sums

    return ask


def _read_by_lightgbm(path):
    import lightgbm

    booster = lightgbm.Booster(model_file=path)

    def ask(rows):
        value = np.asarray(booster.predict(rows, num_threads=1))
        label = value.argmax(axis=1) if value.ndim == 2 else (value > 0.5).astype(np.int64)
        return label, np.asarray(booster.predict(rows, raw_score=True, num_threads=1))

    return ask


def _read_by_catboost(path):
    import catboost

    model = catboost.CatBoostClassifier()
    model.load_model(path, format="json")
    return lambda rows: (
        np.ravel(model.predict(rows, thread_count=1)),
        model.predict(rows, prediction_type="RawFormulaVal", thread_count=1),
    )


class Library:
    """The library's own reader."""

    def __init__(self) -> None:
        self._process = None

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, other = context.Pipe()
        self._process = context.Process(target=_serve, args=(other,), daemon=True)
        self._process.start()
        other.close()

    def stop(self) -> None:
        if self._process is not None:
            self._pipe.send(None)
            self._process.join()
            self._process = None

    def compare(self, kind: str, path: str, ensemble: TreeEnsemble) -> str | None:
        """Return why the library does not read a file, None if it does; raise ModelError if it predicts otherwise."""
        if self._process is None:
            self._start()
        self._pipe.send((kind, path))
        refusal = self._pipe.recv()
        if refusal is not None:
            return refusal
        answers = []

        def ask(rows):
            if not answers:
                self._pipe.send(rows)
                answers.append(self._pipe.recv())
            return answers[0]

        def predict(rows):
            answer = ask(rows)
            if isinstance(answer, str):
                raise _RefusedError(answer)
            return answer[0].astype(ensemble.classes.dtype)

        slack = {"X": XGBOOST_SLACK, "L": max(LIGHTGBM_SLACK.values())}.get(kind[0], 0.0)
        try:
            dtype = np.float32 if kind[0] == "X" else np.float64
            prove(ensemble, kind, predict, lambda rows: ask(rows)[1], dtype=dtype, slack=slack, n_rows=256)
        except _RefusedError as error:
            return str(error)
        return None


class _RefusedError(Exception):
    pass


# The trial ------------------------------------------------------------------------------------------------------------


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
                as_ensemble(path).predict(np.zeros((1, as_ensemble(path).n_features)))
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
        is_foreign = kind[0] in "XLC"
        if outcome == "read" and is_foreign and ensemble.n_features <= WIDEST_ROW and self.n_compared > 0:
            self.n_compared -= 1
            self._compare(kind, number, path, ensemble)

    def _use(self, ensemble: TreeEnsemble, rng: random.Random) -> None:
        if ensemble.n_features <= WIDEST_ROW:
            ensemble.predict(np.zeros((2, ensemble.n_features)))
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

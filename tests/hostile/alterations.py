"""Alterations of model files: by their structure, by their words, by their bytes."""

from __future__ import annotations

import contextlib
import functools
import itertools
import math
import random
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from hostile.model_files import Pairs, Raw, read_pairs, sources, to_json, to_ubjson
from tampering import alter_bytes

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
    *("1e308", "1e999", "-1e999", "inf", "-inf", "nan", "1e-36", "5e-324", "1_0", "١", "0x1p3", "1e5", "x", "", "="),
    *(":", "binary", "multiclass", "num_class:5", "sigmoid:2", "LEAF", "SPLIT", "Tree=0", "1.", ".5", "+1", "1d5"),
    "1.0",
)  # fmt: skip


def alter(kind: str, rng: random.Random) -> bytes:
    """Return an altered file of a kind."""
    content = rng.choice(sources(kind))
    n_steps = rng.choice((1, 1, 1, 1, 2, 3))
    if rng.random() < 0.12 or kind == "treelite checkpoint":
        return alter_bytes(content, rng)
    if kind == "ONNX":
        return _alter_onnx(content, rng, n_steps)
    if kind in ("silva", "LightGBM"):
        return _alter_text(content, kind, rng, n_steps)
    is_binary = kind == "XGBoost UBJSON"
    document = _pairs_of(kind, sources(kind).index(content))
    for _ in range(n_steps):
        document = _alter_document(document, rng, lambda: _pairs_of(kind, rng.randrange(len(sources(kind)))))
    return to_ubjson(document) if is_binary else to_json(document).encode("utf-8", "replace")


def _alter_onnx(content: bytes, rng: random.Random, n_steps: int) -> bytes:
    """Alter a file of protobuf by its structure; what no longer is one, by its bytes."""
    import onnx
    from google.protobuf import json_format

    document = source = read_pairs(json_format.MessageToJson(onnx.ModelProto.FromString(content)).encode())
    for _ in range(n_steps):
        document = _alter_document(document, rng, lambda: source)
    try:
        return json_format.Parse(to_json(document), onnx.ModelProto()).SerializeToString()
    except (json_format.ParseError, ValueError, RecursionError):
        return alter_bytes(content, rng)


@functools.cache
def _pairs_of(kind: str, index: int) -> Pairs:
    return read_pairs(sources("XGBoost JSON" if kind == "XGBoost UBJSON" else kind)[index])


def _alter_list(entries: list, i: int, rng: random.Random, altered: Callable[[Any, random.Random], Any]) -> list:
    """Return a list of which an entry is left out, is there twice, elsewhere, or is another one."""
    entries, j = list(entries), rng.randrange(len(entries))
    match rng.randrange(9):
        case 0:
            del entries[i]
        case 1:
            entries.insert(i, entries[j])
        case 2:
            entries[i], entries[j] = entries[j], entries[i]
        case 3:
            entries[i] = entries[j]
        case _:
            entries[i] = altered(entries[i], rng)
    return entries


def _alter_text(content: bytes, kind: str, rng: random.Random, n_steps: int) -> bytes:
    lines = content.decode().split("\n")
    end = next((i for i, line in enumerate(lines) if line == "end of trees"), len(lines))
    for _ in range(n_steps):
        names = [re.split(r"[= ]", line)[0] for line in lines[:end]]
        name = rng.choice(sorted(set(names)))
        i = rng.choice([i for i, other in enumerate(names) if other == name])
        lines[:end] = _alter_list(lines[:end], i, rng, _alter_line)
    if kind == "LightGBM" and rng.random() < 0.8:
        lines = _mend_sizes(lines, rng)
    return "\n".join(lines).encode()


def _alter_line(line: str, rng: random.Random) -> str:
    name, equals, value = line.rpartition("=") if "=" in line else ("", "", line)
    words = value.split(" ")
    i = rng.randrange(len(words))
    return name + equals + " ".join(_alter_list(words, i, rng, _alter_word))


def _alter_word(word: str, rng: random.Random) -> str:
    return rng.choice([rng.choice(WORDS), rng.choice(WORDS), _nudge_text(word, rng)])


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
    match rng.randrange(9):
        case 0:
            return value[::-1]
        case 1:
            return rng.choice((value + value, [], value[:1], [value]))
    odd = rng.choice(HOSTILE)
    return _alter_list(value, rng.randrange(len(value)), rng, lambda v, rng: rng.choice([odd, _altered(v, rng)]))

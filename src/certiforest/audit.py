"""The auditor: checks every statement of a certificate file against a model file, exactly, and alone.

    python -I audit.py MODEL CERTIFICATE [OTHER MODELS]

It needs Python's standard library only, shares no code with the programs that make certificates, and believes no number
that it can compute. Exit code 0: all statements confirmed; 1: something is refuted or not proved; 2: bad input.

A certificate is lines of JSON, and each of them has the form that a table gives it:

    the header      HEADER: which model (its SHA-256), and who attacks it: ATTACKER, with COLUMNS and RULES
    for each row    STATEMENTS: what can be stated, by which entries, and the function that refuses what does not hold
      a proof       PROOF: against each other class a BOUND on its lead, or a SPLIT of the question in two
    the last line   {"end": number of rows}

or, about all inputs of a domain, the header STATED, and for each statement a CLAIM, one of CLAIMS: in none of the CASEs
in which it would fail are there inputs. `Boxes` checks that, in parts, with sets of values as bits of whole numbers.

`Model` and `Attacker` read what there is. `Reach` says what an attacker can do at a row: of each feature the few values
that matter, and what they cost, whatever kind of feature it is. `Proof` puts these into the bound of docs/proofs.md.
What decides is arithmetic on whole numbers. Values are float64 numbers; inf, above all of them, stands for a value that
is missing. A group of one-hot columns is one more feature, number n_features + g for group g, whose value is the place
of the column that is set: 0 for the first one. Its columns themselves then count for nothing. The files are described
in docs/certificate_format.md and docs/file_format.md; docs/tiny_certificates can be checked by hand.
"""

from __future__ import annotations

import hashlib
import json
import sys
from bisect import bisect_left, bisect_right
from collections import namedtuple
from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction
from math import ceil, floor, gcd, inf, isfinite, lcm, nan, nextafter
from operator import add, lt, mul, sub
from struct import pack
from typing import Any, BinaryIO, NewType

LARGEST = sys.float_info.max
LONGEST_LINE = 2**24  # bytes of a line of the certificate, and 200 more for every feature
MOST_STEPS = 10**8  # for all that is said about a row, each about a microsecond: a minute or two
MOST_WAYS = 2 * 10**5  # by rules, to values of all features of a row
MOST_CODES = 10**5  # in sets of values, counted for each feature that has them; and one for every 8 bytes of the model
LONGEST_CLAIM = 2**28  # bytes of a line about all inputs, which may take 20 times as many steps
DIGITS = 128  # costs are 2**-DIGITS of the budget, rounded down, unless that leaves a question open
NOWHERE = inf, inf  # the numbers that count as missing where none do

# What `read` takes for a form: [form] is a list of any length, (form, form) one of this length, {key: form} an object,
# a range a whole number in it, text itself, object anything, float a finite number. And there are:
Size = NewType("Size", float)  # at least 0
Price = NewType("Price", float)  # above 0, so that nothing can be changed for nothing
Maybe = namedtuple("Maybe", "form default", defaults=[None])  # null, or a key that is missing, is the default
OneOf = namedtuple("OneOf", "words forms")  # an object of that form whose name is a key

MODEL = {  # and more, of which nothing is concluded
    "format": "certiforest", "version": range(1, 3), "combine": str, "classes": Maybe([object]), "feature": [int],
    "n_features": range(1, 2**24 + 1), "threshold": [Maybe(float)], "leaf": [int], "scores": Maybe([[float]], []),
    "base": Maybe([float], []), "missing_left": Maybe([int]), "subset": Maybe([int]), "subsets": Maybe([[float]], []),
    "categories": Maybe([[object]], []), "required": Maybe([int], []), "blanks": Maybe([(int, float, float)], []),
}  # fmt: skip
RULES = OneOf("rules that", {
    "add": {"add": float, "low": Maybe(float, -inf), "high": Maybe(float, inf), "cost": Price},
    "become": {"become": float, "values": [float], "cost": Price},
})  # fmt: skip
ENDS = {"low": Maybe(float), "high": Maybe(float)}
COLUMNS = OneOf("columns that are", {  # those that are not named are numbers
    "numbers": {"numbers": [int], "down": Maybe(Size), "up": Maybe(Size), **ENDS, "integer": Maybe(bool)},
    "frozen": {"frozen": [int]},
    "categories": {"categories": [int], "cost": Price, **ENDS},
    "one_hot": {"one_hot": [int], "scale": Maybe(Size), "rules": Maybe([RULES])},
    "ruled": {"ruled": [int], "rules": [RULES]},
})  # fmt: skip
RELATIONS = OneOf("relations that are", {
    "linear": {"linear": str}, "if": {"if": [str], "then": [str]}, "column": {"column": int, "values": [float]},
})  # fmt: skip
ATTACKER = {
    "norm": object, "eps": Size, "missing": Maybe(Price), "columns": Maybe([COLUMNS], []),
    "relations": Maybe([RELATIONS], []),
}  # fmt: skip
HEADER = {
    "format": "certiforest certificate", "version": range(1, 2), "model_sha256": str, "attacker": ATTACKER,
    "classes": [object], "margin": Size, "radius": bool, "attacked": Maybe([object]), "about": object,
}  # fmt: skip
PROOF = {"cuts": [(int, [float])], "rivals": [dict]}  # a rival is {"rival": its class, and a bound or a split}
SUM = {"lambda": Maybe((int, int), (0, 1)), "relations": [(int, int, int)]}
BOUND = {
    "unit": Maybe((int, int), (1, 1)), "lambda": Maybe((int, int), (0, 1)), "tables": Maybe([(int, int, [int])], []),
    "sum": Maybe(SUM), "broken": Maybe(int),
}  # fmt: skip
SPLIT = {"split": (int, float), "low": object, "high": object}
WIDE = {"low": Maybe(float, -LARGEST), "high": Maybe(float, LARGEST)}
PLACES = OneOf("columns that are", {  # those of a domain that are not named are numbers, all of them
    "numbers": {"numbers": [int], **WIDE, "integer": Maybe(bool), "missing": Maybe(bool)},
    "listed": {"listed": [int], "values": [float], "missing": Maybe(bool)},
    "one_hot": {"one_hot": [int]},
})  # fmt: skip
STATED = {
    "format": "certiforest statements", "version": range(1, 2), "model_sha256": str, "classes": [object],
    "domain": {"columns": Maybe([PLACES], []), "plausible": Maybe(object)}, "about": object,
}  # fmt: skip
SCORE = {"sign": range(-1, 2), "link": Maybe(str, ""), "scale": (int, int), "shift": (int, int)}
CLAIM = {
    "statement": object, "scores": Maybe([SCORE], []), "rounding": Maybe([(Size, Size)], []), "parts": Maybe([[float]]),
    "holds": Maybe(bool), "cases": Maybe([object], []), "inputs": Maybe([[Maybe(float)]]), "about": object,
}  # fmt: skip
CASE = {
    "bits": [int], "cells": [(int, [object])], "bounds": [object], "tree": [object],
    "tangents": Maybe([(float, float)], []),
}  # fmt: skip
WEIGHED = {"weights": [int], "shift": Maybe(range(1024), 0), "tables": Maybe([(int, int, [int])], [])}
CELL = Maybe([Maybe(float, inf)])


class Refusal(Exception):  # noqa: N818  # nothing is wrong with the program that raises it
    """What a file says is no good; ``kind`` is what that makes of a row."""

    def __init__(self, text: str, kind: str = "not proved") -> None:
        super().__init__(text)
        self.kind = kind


def expect(condition: object, expected: str, kind: str = "not proved") -> None:
    """Refuse what a file says unless the condition holds."""
    if not condition:
        raise Refusal(f"Expected {expected}.", kind)


def text_of(label: object) -> str:
    """Return a label as text: those of 1, 1.0, true and "1" differ."""
    return ascii(label) if type(label) in (str, int, float, bool) else type(label).__name__


def is_number(value: Any) -> bool:
    """Tell whether something is a finite number that float64 has: larger whole numbers would be rounded."""
    return abs(value) <= 2**53 if type(value) is int else type(value) is float and isfinite(value)


def read(value: Any, form: Any, name: str) -> Any:
    """Return a value if it has this form, with defaults for what an object lacks, and refuse it otherwise."""
    if type(form) is Maybe:
        return form.default if value is None else read(value, form.form, name)
    if type(form) in (dict, OneOf):
        expect(type(value) is dict, f"{name} to be an object")
        if type(form) is OneOf:
            kind = next((kind for kind in form.forms if kind in value), "")
            expect(kind, f"{form.words} {', '.join(form.forms)}; are they of a newer format")
            form = form.forms[kind]
        newer = next((f"{text_of(key):.40}" for key in value if key not in form and form is not MODEL), None)
        expect(newer is None, f"known keys in {name}, not {newer}: is it of a newer format")
        return {key: read(value.get(key), part, f"{key} of {name}") for key, part in form.items()}
    if type(form) in (list, tuple):
        expect(type(value) is list, f"{name} to be a list")
        forms = form * len(value) if type(form) is list else form
        expect(len(value) == len(forms), f"{name} to be a list of {len(forms)}")
        kinds = set(map(type, value))  # long lists are taken as they are
        if form == [object] or (form == [int] and kinds <= {int}):
            return value
        if form in ([float], [Maybe(float)]) and all(map(isfinite if kinds <= {float} else is_number, value)):
            return value
        return [read(entry, part, name) for entry, part in zip(value, forms, strict=True)]
    if form in (float, Size, Price):
        least, words = {float: (-LARGEST, ""), Size: (0, " >= 0"), Price: (5e-324, " > 0")}[form]
        expect(is_number(value) and value >= least, f"{name} to be a finite number{words}")
        return float(value)
    if type(form) is range:
        expect(type(value) is int and value in form, f"{name} to be a whole number from {form[0]} to {form[-1]}")
    elif type(form) is str:
        expect(value == form, f"{name} to be {form}")
    elif form is not object:
        expect(type(value) is form, f"{name} to be of type {form.__name__}")
    return value


def parse(text: bytes, name: str) -> Any:
    """Read JSON text. Python refuses whole numbers of more than 4,300 digits, and `read` NaN and infinity."""

    def entries(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        expect(len(found) == len(pairs), "every key of an object once")
        return found

    try:
        return json.loads(text.decode(), object_pairs_hook=entries)
    except (ValueError, RecursionError) as error:
        what = "some that nests too deep" if isinstance(error, RecursionError) else f"something else ({error})"
        raise Refusal(f"Expected {name} to be JSON text, got {what}.") from None


class Model:
    """The trees of a model file, and what it says about columns.

    A leaf is a class to vote for, or the place of a row of ``scores``: whole numbers of ``1 / unit``, one per class. A
    split is (feature, test, whether missing values go low, low child, high child): up to a threshold, or in a set, goes
    low.
    """

    def __init__(self, document: Any) -> None:
        said = read(document, MODEL, "the model")
        try:
            text = json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False)
        except (ValueError, RecursionError):
            raise Refusal("Expected a flat model of finite numbers, got something else.") from None
        self.sha256, self.size = hashlib.sha256(text.encode()).hexdigest(), len(text)
        self.n_features, self.classes, self.is_vote = said["n_features"], said["classes"], said["combine"] == "vote"
        expect(self.is_vote or said["combine"] == "sum", 'combine of the model to be "vote" or "sum"')
        self.is_regressor = self.classes is None  # then the class 1 is a sum above zero
        if self.is_regressor:
            self.classes = [0, 1]
            is_sum = "classes" in document and not self.is_vote and len(said["base"]) == 1
            expect(is_sum, "classes of the model, or null where it says its one sum")
        kinds, n = set(map(type, self.classes)), len(self.classes)
        expect(len(kinds) == 1 and kinds <= {bool, int, float, str}, "classes of the model to be labels of one type")
        expect(len(set(self.classes)) == n, "every class of the model once")
        self.unit, self.base, self.scores, self.widest = 1, [0] * n, list[list[int]](), 2  # bits of what leaves add
        self.step = 1  # all that leaves add are multiples of it
        if not self.is_vote:
            table = [said["base"], *said["scores"]]
            width, numbers = len(said["base"]), {v for row in table for v in row}
            expect(width == n or (width, n) == (1, 2), "base to be one number per class, or a single one for two")
            expect(all(len(row) == width for row in table), "rows of scores as long as base")
            # Denominators of floats are powers of two: the largest serves all. A single score is of the second class.
            self.unit = max(v.as_integer_ratio()[1] for v in numbers)
            whole = {v: int(Fraction(v) * self.unit) for v in numbers}
            self.widest += max(map(int.bit_length, whole.values()))
            self.base, *self.scores = [[0] * (n - width) + [whole[v] for v in row] for row in table]
            self.step = min((v & -v for v in whole.values() if v), default=1)
        self._read_nodes(said)
        self._read_columns(said)
        names = document.get("feature_names")  # of which nothing is concluded
        is_sound = type(names) is list and len(names) == self.n_features and {*map(type, names)} <= {str}
        names = (
            [json.dumps(name)[1:-1] for name in names] if is_sound else map("column {}".format, range(self.n_features))
        )
        self.names = [f"{name:.40}" for name in names]

    def _read_nodes(self, said: dict[str, Any]) -> None:
        """Put trees together, from the last node to the first, and find out by what features are tested."""
        n, n_values = len(said["feature"]), len(self.base if self.is_vote else self.scores)
        self.takes_missing = said["missing_left"] is not None
        numbers = said["missing_left"] or [0] * n, said["subset"] or [-1] * n
        nodes = said["feature"], said["leaf"], said["threshold"], *numbers
        expect({*map(len, nodes)} == {n} != {0}, "feature, threshold, leaf, missing_left, subset of one length")
        self.trees, sets = list[Any](), {-1: frozenset[float]()}
        self.cuts: dict[int, Any] = {}  # feature -> its thresholds, in order
        used: dict[int, set[int]] = {}  # feature -> its sets
        for f, leaf, v, m, s in zip(*map(reversed, nodes), strict=True):
            if f < 0:
                expect(f == -1 and 0 <= leaf < n_values, "leaves with a class or a row of scores")
                self.trees.append(leaf)
                continue
            is_sound = f < self.n_features and m in (0, 1) and -1 <= s < len(said["subsets"])
            expect(is_sound and (v is None or s == -1), "splits on features, with a threshold or a set of values")
            expect(len(self.trees) > 1, "whole trees, not a last tree that is cut short")
            if v is not None:
                self.cuts.setdefault(f, set()).add(v)
            elif s >= 0:
                used.setdefault(f, set()).add(s)
                sets[s] = sets.get(s) or frozenset(said["subsets"][s])
            self.trees.append((f, sets[s] if v is None else v, m == 1, self.trees.pop(), self.trees.pop()))
        self.trees.reverse()
        self.in_sets, self.in_cuts = {*used}, {*self.cuts}
        expect(self.in_sets.isdisjoint(self.in_cuts), "thresholds or sets of values for a feature, not both")
        n_codes = sum(len(sets[s]) for own in used.values() for s in own)
        expect(n_codes <= MOST_CODES + self.size // 8, "sets of values that fewer features share")
        # Categories are the whole numbers in sets, unless they are listed: as floats, or counted.
        self.codes = {f: {v for s in own for v in sets[s] if v % 1 == 0} for f, own in used.items()}

    def _read_columns(self, said: dict[str, Any]) -> None:
        """Find out which columns are never missing, which numbers count as missing, and what categories there are."""
        self.required, blanks = set(said["required"]), said["blanks"]
        self.blanks = {f: (low, high) for f, low, high in blanks}
        is_sound = all(0 <= f < self.n_features for f in {*self.required, *self.blanks})
        expect(is_sound and len(self.blanks) == len(blanks), "columns that there are in required and blanks, each once")
        expect(not blanks or self.takes_missing, "missing_left where numbers count as missing")
        for f, (low, high) in self.blanks.items():
            expect(low <= high, "ranges of numbers in blanks")
            self.cuts.setdefault(f, set()).update([nextafter(low, -inf), high])
        self.cuts = {f: sorted(cuts) for f, cuts in self.cuts.items()}
        lists = [read(entry[:2], (int, [object]), "categories of the model") for entry in said["categories"]]
        expect(len({f for f, _ in lists}) == len(lists), "categories of each column once in the model")
        listed = {f: v if type(v[0]) is float else [*range(len(v))] for f, v in lists if v}
        self.codes |= {f: set(read(v, [float], "categories of the model")) for f, v in listed.items()}
        self.listed = {*listed}

    def totals(self, values: list[float], charge: Callable[[int], None]) -> list[int]:
        """Return the votes, or the sums in units, of all classes."""
        totals = list(self.base)
        charge(len(totals) + len(self.trees) * (1 if self.is_vote else len(totals)))
        for node in self.trees:
            while type(node) is tuple:
                node = node[3 if is_low(node, values[node[0]]) else 4]
            if self.is_vote:
                totals[node] += 1
            else:
                totals = list(map(add, totals, self.scores[node]))
        return totals

    def rows(self, unit: int) -> list[list[int]]:
        """Return what leaves add to each class, in parts of one, the base last."""
        n = len(self.classes)
        rows = [[int(a == c) for c in range(n)] for a in range(n)] if self.is_vote else self.scores
        return [[v * (unit // self.unit) for v in row] for row in (*rows, self.base)]


def is_low(split: tuple[int, Any, bool, Any, Any], x: float) -> bool:
    """Tell whether a split of a tree sends a value to its low child."""
    _, test, is_missing_low, _, _ = split
    return is_missing_low if x == inf else x in test if type(test) is frozenset else x <= test


class Comparison:
    """A sum of columns times numbers that is at most ``bound``, less, or equal: "[0] + 2 [3] <= [1] + 1"."""

    def __init__(self, text: str, n_features: int) -> None:
        words, one, terms = text.split(" "), 1, dict[int, Fraction]()
        signs = [place for place, word in enumerate(words) if word in ("<", "<=", "=", ">=", ">")]
        expect(len(signs) == 1, "relations such as [0] + 2 [3] <= [1] + 1")
        way = -1 if words[signs[0]][0] == ">" else 1
        self.sign, self.bound = words[signs[0]].replace(">", "<"), Fraction(0)
        for side, said in ((way, words[: signs[0]]), (-way, words[signs[0] + 1 :])):
            for value, f in terms_of(said):
                one = lcm(one, value.denominator)
                expect(one.bit_length() < 20000, "shorter numbers in relations")
                expect(f < n_features, "relations of columns that there are")
                if f >= 0:
                    terms[f] = terms.get(f, Fraction(0)) + side * value
                else:
                    self.bound -= side * value
        self.terms = {f: a for f, a in terms.items() if a}

    def holds(self, least: Any, most: Any) -> bool | None:
        """Tell whether it holds for all values between two numbers of each column, or for none (None: who knows)."""
        low = sum(a * (least if a > 0 else most)[f] for f, a in self.terms.items())
        high = sum(a * (most if a > 0 else least)[f] for f, a in self.terms.items())
        if low > self.bound or (low == self.bound and self.sign == "<"):
            return False
        if self.sign == "=":
            return False if high < self.bound else True if low == high else None
        return True if high < self.bound or (high == self.bound and self.sign == "<=") else None


def terms_of(words: list[str]) -> Iterator[tuple[Fraction, int]]:
    """Yield the terms of a sum: numbers, each with its column, or -1."""
    place, sign = 0, -1 if words[:1] and words[0][:1] == "-" else 1
    words = [word[place == 0 and sign < 0 :] for place, word in enumerate(words)] + [""]
    while True:
        number, f = Fraction(1), -1
        is_column = words[place][:1] == "["
        if not is_column:
            number, place = number_of(words[place]), place + 1
            is_column = words[place][:1] == "["
        if is_column:
            expect(words[place][-1] == "]" and is_whole(words[place][1:-1]), "columns of relations by index")
            f, place = int(words[place][1:-1]), place + 1
        yield sign * number, f
        if place == len(words) - 1:
            return
        expect(words[place] in ("+", "-"), "+ or - between terms of relations")
        place, sign = place + 1, -1 if words[place] == "-" else 1


def is_whole(text: str) -> bool:
    """Tell whether text is a whole number that is not too long."""
    return text.isascii() and text.isdigit() and len(text) <= 1300


def number_of(text: str) -> Fraction:
    """Return a number of a relation: with a point, it is the float64 next to it."""
    before, sign, after = text.partition("." if "." in text else "/")
    is_sound = is_whole(before) and (not sign or is_whole(after)) and (sign != "/" or int(after))
    expect(is_sound, "numbers of relations such as 2, 0.5 and 1/3")
    return Fraction(float(text)) if sign == "." else Fraction(text)


class Relation:
    """What ties columns: where all of ``when`` hold, all of ``then`` do; or ``column`` is one of ``values``."""

    def __init__(self, said: dict[str, Any], n_features: int) -> None:
        texts = [said["linear"]] if "linear" in said else said.get("then", [])
        self.when, self.then = ([Comparison(text, n_features) for text in side] for side in (said.get("if", []), texts))
        self.column, self.values = said.get("column", -1), sorted(said.get("values", []))
        is_sound = 0 <= self.column < n_features if self.values else self.then and ("linear" in said or self.when)
        expect(is_sound, "relations of columns that there are, which say something")
        self.columns = {f for part in (*self.when, *self.then) for f in part.terms} | ({self.column} - {-1})

    def holds(self, least: Any, most: Any) -> bool | None:
        """Tell whether it holds for all values between two numbers of each column, or for none (None: who knows)."""
        if self.values:
            inside = [v for v in self.values if least[self.column] <= v <= most[self.column]]
            return (True if least[self.column] == most[self.column] else None) if inside else False
        when, then = ([part.holds(least, most) for part in side] for side in (self.when, self.then))
        return True if False in when or all(then) else False if all(when) and False in then else None

    def is_kept(self, values: list[float]) -> bool:
        """Tell whether a row keeps it; one in which a value is missing does not."""
        exact = {f: Fraction(values[f]) for f in self.columns if values[f] < inf}
        return len(exact) == len(self.columns) and self.holds(exact, exact) is True

    @property
    def cuts(self) -> list[tuple[int, float]]:
        """Where it turns on one column alone: it is the same for all values above one cut and up to the next."""
        ends = [(self.column, v) for v in self.values]
        for part in (*self.when, *self.then):
            for f, a in part.terms.items() if len(part.terms) == 1 else ():
                exact = max(Fraction(-LARGEST), min(Fraction(LARGEST), part.bound / a))
                near = float(exact)
                ends.append((f, nextafter(near, -inf) if Fraction(near) > exact else near))
        return [(f, v) for f, end in ends for v in (nextafter(end, -inf), end) if abs(v) < LARGEST]


def shortened(names: list[str]) -> str:
    """Return the first few of a list, and how many there are if these are not all."""
    return ", ".join(names[:8]) + f", ... ({len(names)} in all)" * (len(names) > 8)


def habits(column: dict[str, Any]) -> Iterator[str]:
    """Yield in words what is said of columns."""
    down, up = (column.get(way, 1) for way in ("down", "up"))
    ways = {(True, False): "only go up", (False, True): "only go down", (False, False): "cannot change"}
    told = {
        "cannot change": "frozen" in column,
        ways.get((up > 0, down > 0), ""): "numbers" in column and not (down and up),
        "have units of their own": not {down, up} <= {0, 1} or "scale" in column,
        "stay whole": column.get("integer"),
        "stay within limits": not {"low", "high"}.isdisjoint(column),
        "can change category, at a cost": "categories" in column,
        "are one-hot": "one_hot" in column,
        "follow rules": "rules" in column,
    }
    yield from (words for words, holds in told.items() if holds and words)


class Attacker:
    """What the header says about the attacker; what that means at a row says `Reach`."""

    def __init__(self, said: dict[str, Any], model: Model) -> None:
        norm, self.eps, self.model = said["norm"], said["eps"], model
        expect(norm == "inf" or (type(norm) is int and 0 <= norm <= 100), 'a whole number up to 100 or "inf" as norm')
        expect(norm != 0 or self.eps < 1 or self.eps % 1 == 0, "eps to be whole for norm 0")
        self.norm: Any = inf if norm == "inf" else norm
        self.missing: float | None = said["missing"] if model.takes_missing else None  # what a blank costs
        self.required = {*model.required}  # what is never missing, where anything may be
        self.columns: dict[int, dict[str, Any]] = {}  # what is said of features; with rules [], they stay
        self.values: dict[int, set[float]] = {}  # of features that are one of some values, each as far as the others
        self.groups: list[list[int]] = []
        self.place_in: dict[int, tuple[int, float]] = {}  # column of a group -> the group, and its value there
        self.words, named = set[str]() if self.missing is None else {"missing"}, list[int]()
        self.habits: dict[str, list[str]] = {}
        for entry in said["columns"]:
            column = {word: value for word, value in entry.items() if value is not None}
            (kind, columns), rules = next(iter(column.items())), column.get("rules")
            self.words |= column.keys()
            named += columns
            for words in habits(column):
                self.habits.setdefault(words, []).extend(model.names[f] for f in columns if 0 <= f < model.n_features)
            is_plain = kind not in ("one_hot", "ruled") and not column.get("integer")
            is_sound = is_plain or model.blanks.keys().isdisjoint(columns)
            expect(is_sound, "no numbers that count as missing where columns are integer, one-hot or ruled")
            expect(rules is None or self.norm == 1, "norm 1 where there are rules")
            is_sound = kind != "categories" or model.in_cuts.isdisjoint(columns)
            expect(is_sound, "categories of columns that the model takes for categories")
            if kind == "one_hot":
                group, places = model.n_features + len(self.groups), [*map(float, range(len(columns)))]
                is_sound = rules is None or ("scale" not in column and {r.get("become") for r in rules} <= {*places})
                expect(is_sound, "one scale for one-hot columns, or rules that lead to places of columns")
                self.groups.append(columns)
                self.required |= {group, *columns}
                self.place_in |= {f: (group, place) for f, place in zip(columns, places, strict=True)}
                self.columns[group], self.values[group] = column, {*places}
                continue
            held = column | {"rules": []}
            for f in columns:
                self.columns[f] = held if kind == "frozen" or (kind == "numbers" and f in model.in_sets) else column
                if kind == "categories":
                    self.values[f] = self._categories(f)
        is_sound = all(0 <= f < model.n_features for f in named) and len(set(named)) == len(named)
        expect(is_sound, "columns that there are, each once, in the attacker")
        self.columns |= {f: {"rules": []} for f in model.in_sets.difference(named)}
        self.relations = [Relation(entry, model.n_features) for entry in said["relations"]]
        self.words |= {"relations"} if self.relations else set()
        more: dict[int, set[float]] = {}  # where relations turn on one column alone
        for f, v in (cut for relation in self.relations for cut in relation.cuts):
            more.setdefault(f, set()).add(v)
        self.cuts = model.cuts | {f: sorted(cuts.union(model.cuts.get(f, ()))) for f, cuts in more.items()}
        tied = {f for relation in self.relations for f in relation.columns}
        is_sound = self.missing is None and tied.isdisjoint([*self.values, *model.in_sets, *model.blanks])
        is_sound = is_sound and not any(self.columns.get(f, {}).get("rules") for f in tied)
        expect(is_sound or not tied, "relations of numbers and one-hot columns, none of which can go missing")

    def told(self) -> str:
        """Return what may be done, in words."""
        eps = f"{self.eps!r}{' of its unit' * ('have units of their own' in self.habits)}"
        first = {inf: f"every number may move by {eps}, all at once", 1: f"numbers may move by {eps} in all"}.get(
            self.norm, f"a row may move by a distance of {eps}"
        )
        if self.norm == 0:
            first = f"any {self.eps:g} features may change, by any amount"
        if "follow rules" in self.habits:
            first = f"rules may be used while a budget of {self.eps!r} lasts"
        lines = [f"{first} (norm {self.norm}, eps {self.eps!r})"]
        lines += [f"{shortened(names)}: {words}" for words, names in self.habits.items()]
        lines += [f"values may go missing, or be filled, at a cost of {self.missing!r}"] * (self.missing is not None)
        lines += [f"{len(self.relations)} relations between columns are kept"] * bool(self.relations)
        return "; ".join(lines)

    def _categories(self, f: int) -> set[float]:
        """Return the values of a category that can be told apart, and one in no set if they are not listed.

        If there is any, then the first is the smallest number, or comes right after one in a set, or after the hole.
        """
        known, (_, last) = self.model.codes.get(f, set()), self.model.blanks.get(f, NOWHERE)
        after = {max(v // 1 + 1, nextafter(v, inf)) for v in (*known, -1.0, last)}  # beyond 2**53, + 1 is lost
        after.add(float(ceil(self.columns[f].get("low", -LARGEST))))
        others = sorted(z for z in after - known if self.allows(f, z))
        return known if f in self.model.listed else known | {*others[-1:]}

    def allows(self, f: int, x: float) -> bool:
        """Tell whether a number may be here: in the domain, whole if it must be, and none that counts as missing."""
        column, (first, last) = self.columns.get(f, {}), self.model.blanks.get(f, NOWHERE)
        is_inside = column.get("low", -LARGEST) <= x <= column.get("high", LARGEST)
        return is_inside and not (first <= x <= last or (column.get("integer") and x % 1))

    def values_of(self, row: list[float | None], name: str) -> list[float]:
        """Return the values of a row's features, groups last, inf for what is missing; refuse a row that cannot be."""
        n, blanks = self.model.n_features, {f for f, x in enumerate(row) if x is None}
        expect(len(row) == n, f"{n} features in {name}")
        is_sound = not blanks or (self.model.takes_missing and blanks.isdisjoint(self.required))
        expect(is_sound, f"no value to be missing in {name} where none may be")
        values = [inf if x is None else x for x in row]
        told = (f for f in (*self.columns, *self.model.blanks) if f < n and f not in blanks)
        is_sound = all(self.allows(f, values[f]) for f in told)
        expect(is_sound, f"{name} inside the domain, whole where it must be, and null for blanks")
        for group in self.groups:
            hot = [values[f] for f in group]
            expect(sorted(hot) == [0.0] * (len(group) - 1) + [1.0], f"{name} to be one-hot where it must be")
            values.append(float(hot.index(1.0)))
        return values


Region = tuple[float, ...]  # values of a feature, in order
BACK = object()


class Reach(dict[int, Region]):
    """What the attacker can do at a row: feature -> its region, the values that it can take.

    Thresholds cut numbers into pieces on which no tree changes, and of each piece the number nearest to the row's will
    do: nobody gets more, or gets it for less, with another one. A region is all that a feature can take alone, found
    when asked for, until the feature is held to some of that. Features pay from one budget: p-th powers for norm p.
    There is no such budget for L-inf. ``one`` is the budget, and a cost less than ``slack`` below the truth: of norm 0,
    where every change is the same part of the budget, it is the truth.
    """

    def __init__(self, row: Row, eps: float) -> None:
        self.model, self.attacker, self.row, self.charge = row.model, row.attacker, row, row.charge
        norm, self.eps = self.attacker.norm, eps.as_integer_ratio()
        self.has_budget, self.power = norm < inf, norm if 0 < norm < inf else 1
        self.one = (1 if norm else max(1, self.eps[0])) << DIGITS
        self.slack, self.costs = self.power + 1 if norm else 0, dict[int, dict[float, int]]()  # by feature and value
        self.ruled: dict[int, tuple[dict[float, int], int]] = {}  # the least prices by rules, and their denominator
        self.held, self.spent = dict[int, int](), 0  # least costs of held features, and their sum

    def __missing__(self, f: int) -> Region:
        attacker, x, column = self.attacker, self.row.values[f], self.attacker.columns.get(f, {})
        cuts, place = self.attacker.cuts.get(f, []), bisect_left(self.attacker.cuts.get(f, []), x)
        ways: list[Iterable[float]]  # values that matter, from cheap to dear
        if "rules" in column or f in attacker.values:
            ways = [self._by_rules(f, column["rules"])[0] if "rules" in column else attacker.values[f]]
        else:  # what is missing is above all cuts, and may become anything
            ways = [reversed([*cuts[:place], column.get("high", LARGEST)] if x == inf else cuts[:place])]
            ways.append(nextafter(v, inf) for v in cuts[place:])
            if column.get("integer"):  # the last whole number below, the first one above
                ways = [(z // 1 for z in ways[0]), (-(-z // 1) for z in ways[1])]
        allowed = [(z for z in way if attacker.allows(f, z)) for way in ways]
        return self.take(f, [*(self._listed(f, way) for way in allowed), [inf] * (attacker.missing is not None)])

    def piece(self, f: int, z: float) -> tuple[Fraction, Fraction]:
        """Return the ends of what is as good as a number for all trees, and in reach of its feature alone."""
        x, column, cuts = self.row.values[f], self.attacker.columns.get(f, {}), self.attacker.cuts.get(f, [])
        place, eps = bisect_left(cuts, z), Fraction(*self.eps)
        if self.attacker.norm == 0:
            eps = Fraction(LARGEST) * 2**1074 if eps >= 1 else Fraction(0)
        low, high = (Fraction(x) + way * eps * Fraction(column.get(key, 1.0)) for way, key in ((-1, "down"), (1, "up")))
        if "rules" in column:
            low = high = Fraction(x)
        below, top = nextafter(cuts[place - 1], inf) if place else -LARGEST, [*cuts[place : place + 1], LARGEST][0]
        low = max(low, Fraction(max(below, column.get("low", -LARGEST))))
        high = min(high, Fraction(min(top, column.get("high", LARGEST))))
        if column.get("integer"):
            low, high = Fraction(ceil(low)), Fraction(floor(high))
        elif low <= high:  # between floats there is nothing
            ends = float(low), float(high)
            low = Fraction(nextafter(ends[0], inf) if ends[0] < low else ends[0])
            high = Fraction(nextafter(ends[1], -inf) if ends[1] > high else ends[1])
        for values in (relation.values for _, relation in self.row.relations if relation.column == f):
            self.charge(len(values))
            inside = [Fraction(v) for v in values if low <= v <= high]
            low, high = (inside[0], inside[-1]) if inside else (Fraction(1), Fraction(0))
        return low, high

    def _listed(self, f: int, way: Iterable[float]) -> Iterator[float]:
        """Yield of values of a way those that relations list, the nearest of each piece; all if none lists any."""
        is_free = not any(relation.column == f for _, relation in self.row.relations)
        for z in way:
            low, high = (Fraction(0), Fraction(0)) if is_free else self.piece(f, z)
            if low <= high:
                yield z if is_free else float(min(max(Fraction(self.row.values[f]), low), high))

    def take(self, f: int, ways: Iterable[Iterable[float]]) -> Region:
        """Let a feature take values that it may have, of each way up to the first that nobody can pay for."""
        costs = self.costs[f] = {self.row.values[f]: 0}
        for way in ways:
            for z in way:
                n, d = self.share(f, z)
                if n > d:
                    break
                costs[z] = (n * self.one // d) ** self.power >> DIGITS * (self.power - 1) if self.has_budget else 0
        self.charge(len(costs) * (1 + self.power // 8))
        self[f] = tuple(sorted(costs))
        return self[f]

    def share(self, f: int, z: float) -> tuple[int, int]:
        """Return what share of eps it takes to bring a feature to a value, as numerator and denominator.

        Whatever is changed, and how, the price is a length divided by a scale; 1 / 0 is what nobody can pay.
        """
        attacker, x, column = self.attacker, self.row.values[f], self.attacker.columns.get(f, {})
        known, scale = attacker.values.get(f), column.get("scale", 1.0)
        is_value = known is None or z == inf or z in known or (f not in self.model.listed and z % 1 == 0)
        if z == x:
            return 0, 1
        if "rules" in column:
            prices, d = self._by_rules(f, column["rules"])
            n, d = (prices[z], d) if z in prices else (1, 0)
        elif not is_value or (inf in (x, z) and (attacker.missing is None or f in attacker.required)):
            n, d = 1, 0
        elif known is not None or inf in (x, z):
            cost: Any = attacker.missing if inf in (x, z) else column.get("cost", 1.0)
            n, d = cost.as_integer_ratio()
        else:
            (a, b), (c, d) = x.as_integer_ratio(), z.as_integer_ratio()
            n, d, scale = abs(a * d - c * b), b * d, column.get("up" if x < z else "down", 1.0)
        s, t = scale.as_integer_ratio()
        n, d = n * t, d * s
        if attacker.norm == 0:  # whatever it costs, it is one change
            n, d = 1, min(d, 1)
        return n * self.eps[1], d * self.eps[0]

    def _by_rules(self, f: int, rules: list[dict[str, Any]]) -> tuple[dict[float, int], int]:
        """Return the values that rules lead to and the least price of each, and what prices are whole numbers of."""
        if f in self.ruled:
            return self.ruled[f]
        unit = max((rule["cost"].as_integer_ratio()[1] for rule in rules), default=1)
        most, prices = unit * self.eps[0] // self.eps[1], [int(Fraction(rule["cost"]) * unit) for rule in rules]
        steps = 10 + sum(10 + len(rule.get("values", ())) // 16 for rule in rules)
        n_ways = sum(len(known) for known, _ in self.ruled.values())
        found, waiting = {self.row.values[f]: 0}, [self.row.values[f]]
        for value in waiting:  # which grows by whatever is found, or found for less
            self.charge(steps)
            for rule, price in zip(rules, prices, strict=True):
                if "add" in rule:
                    applies, new = rule["low"] <= value <= rule["high"], value + rule["add"]
                else:
                    applies, new = value in rule["values"], rule["become"]
                paid = found[value] + price
                if applies and paid <= most and paid < found.get(new, inf):
                    expect(isfinite(new), "finite values by rules")
                    found[new] = paid
                    waiting.append(new)
            expect(n_ways + len(waiting) <= MOST_WAYS, f"up to {MOST_WAYS} ways by rules")
        self.ruled[f] = found, unit
        return self.ruled[f]

    def exactly(self, values: dict[int, Any]) -> tuple[dict[int, dict[float, int]], int]:
        """Return what it costs to bring features to values, exactly: whole numbers of 1 / the last number."""
        shares, one = {f: {z: self.share(f, z) for z in region} for f, region in values.items()}, 1
        for _, d in (share for part in shares.values() for share in part.values()):
            self.charge(1, one.bit_length(), d.bit_length())
            one = lcm(one, d)
        size = self.power * one.bit_length()
        self.charge(sum(map(len, shares.values())), size, size)
        costs = {f: {z: (n * (one // d)) ** self.power for z, (n, d) in part.items()} for f, part in shares.items()}
        return costs, one**self.power

    def hold(self, f: int, region: Region) -> bool:
        """Hold a feature to values that it can take; tell whether anyone can pay for all that is held."""
        self.spent -= self.held.pop(f, 0)
        costs, self[f] = self.costs[f], region
        if len(region) < len(costs):
            self.held[f] = min(map(costs.__getitem__, region))
            self.spent += self.held[f]
        self.charge(1 + len(region) // 16)
        if not self.spent <= self.one < self.spent + self.slack * len(self.held):
            return self.spent <= self.one
        near = {f: [z for z in self[f] if self.costs[f][z] == cost] for f, cost in self.held.items()}
        exact, one = self.exactly(near)
        return sum(min(part.values()) for part in exact.values()) <= one

    def walk(self, node: Any, look: Callable[[Any], Any]) -> Iterator[Any]:
        """Yield the ends that splits lead to from a node on, with features held meanwhile to what leads there.

        ``look`` returns an end, or a split: a feature, the values that go low and those that go high, and where to. The
        feature is held to the first, then to the others, and given back the first, which are kept meanwhile.
        """
        # Where to go on, which feature to hold to what there, and whether that is what goes high.
        waiting: list[tuple[Any, int, Region, bool]] = [(node, -1, (), False)]
        while waiting:
            node, f, region, is_high = waiting.pop()
            if is_high:
                waiting.append((BACK, f, self[f], False))
            if node is BACK:
                self.hold(f, tuple(sorted(self[f] + region)))
            elif f < 0 or self.hold(f, region):
                steps = 1
                while type(found := look(node)) is tuple and not (found[1] and found[2]):
                    node, steps = found[3 if found[1] else 4], steps + 1
                self.charge(steps)
                if type(found) is tuple:
                    f, low, high, node, other = found
                    waiting += [(other, f, high, True), (node, f, low, False)]
                else:
                    yield found


class Proof(Reach):
    """What the attacker can do at a row, and a proof that no rival wins anywhere there.

    Splits divide what can be reached, and at each of their ends a bound on the rival's lead is below a win.
    """

    def check(self, proof: Any) -> None:
        """Refuse the proof unless it holds for every rival."""
        proof = read(proof, PROOF, "the proof")
        self.cuts: dict[int, list[float]] = {}  # feature -> the cuts between its cells
        for f, cuts in proof["cuts"]:
            expect(all(map(lt, cuts, cuts[1:])) and self._known(f) not in self.cuts, "cuts that increase, once")
            self.cuts[f] = cuts
        rivals = [read(part.pop("rival", None), int, "a rival") for part in proof["rivals"]]
        others = [c for c in range(len(self.model.classes)) if c != self.row.own]
        expect(sorted(rivals) == others, "one part of the proof for each rival")
        # Leaves in reach, tree by tree.
        self.leaves = [tuple({*self.walk(tree, self._split_of_tree)}) for tree in self.model.trees]
        for rival, part in zip(rivals, proof["rivals"], strict=True):
            for said in self.walk(part, self._split_of_proof):
                part = read(said, BOUND, "a part of the proof")
                is_proved = False
                if part["broken"] is not None:
                    is_proved = self._breaks(part["broken"])
                elif part["sum"] is not None:
                    is_proved = self._exceeds(part["sum"])
                else:
                    is_proved = self._excludes(rival, part)
                expect(is_proved, f"a bound that excludes that class {rival} wins")

    def _breaks(self, r: int) -> bool:
        """Tell whether no row, where features are held, keeps a relation that binds the row."""
        relation = dict(self.row.relations).get(r)
        expect(relation, "a relation that there is, and that the row keeps")
        ends: tuple[dict[int, Any], dict[int, Any]] = {}, {}
        for f in relation.columns if relation else ():
            group, place = self.attacker.place_in.get(f, (f, None))
            self.charge(100 * len(self[group]))
            if place is not None:
                hot = [Fraction(z == place) for z in self[group]]
                ends[0][f], ends[1][f] = min(hot), max(hot)
                continue
            pieces = [self.piece(f, z) for z in (self[f][0], self[f][-1])]
            ends[0][f], ends[1][f] = self._within_rest(f, pieces[0][0], pieces[1][1])
        return bool(relation and relation.holds(*ends) is False)

    def _exceeds(self, said: dict[str, Any]) -> bool:
        """Tell whether a sum of the price, at a rate, and of relations is too large wherever features are held.

        It is for rows within the budget that keep these at most the same sum of the budget and of their bounds.
        """
        rate, relations, slopes = Fraction(*said["lambda"]), dict(self.row.relations), dict[int, Fraction]()
        expect(rate >= 0 and (not rate or self.has_budget), "a rate of 0, or above where a budget is shared")
        budget = rate * Fraction(*self.eps) ** self.power
        least, most = Fraction(0), budget
        for r, n, d in said["relations"]:
            is_known = r in relations and not relations[r].when and len(relations[r].then) == 1 and d > 0
            is_sound = is_known and (n >= 0 or relations[r].then[0].sign == "=")
            expect(is_sound, "multipliers of linear relations, at least 0")
            most += Fraction(n, d) * relations[r].then[0].bound
            for f, a in relations[r].then[0].terms.items():
                slopes[f] = slopes.get(f, Fraction(0)) + Fraction(n, d) * a
        groups: dict[int, dict[float, Fraction]] = {}  # what places add
        spent = dict(self.held)
        for f, slope in slopes.items():
            group, place = self.attacker.place_in.get(f, (f, None))
            self.charge(200 * len(self[group]))
            if place is None:
                spent.pop(f, None)
                least += min(self._least(f, z, slope, rate) for z in self[f])
            else:
                groups.setdefault(group, {})[place] = slope
        for group, added in groups.items():
            spent.pop(group, None)
            costs = self.costs[group]
            least += min(budget * costs[z] / self.one + added.get(z, 0) for z in self[group])
        return least + sum(budget * cost / self.one for cost in spent.values()) > most

    def _least(self, f: int, z: float, slope: Fraction, rate: Fraction) -> Fraction:
        """Return the least of rate times price, and of slope times value, together on a piece, at least."""
        x, column, p, found = self.row.values[f], self.attacker.columns.get(f, {}), self.power, list[Fraction]()
        low, high = self.piece(f, z)
        for way, key, begin, end in ((-1, "down", low, min(high, Fraction(x))), (1, "up", max(low, Fraction(x)), high)):
            scale = Fraction(column.get(key, 1.0))
            if begin > end:
                continue
            if not (rate and scale and self.attacker.norm):
                found += [slope * v + (rate if v != x else 0) for v in (begin, end)]
                continue
            # A tangent is below what is convex, wherever it touches: best where slope and price are in balance.
            at = end if way < 0 else begin
            if p > 1 and slope * way < 0:
                most = max(abs(begin - Fraction(x)), abs(end - Fraction(x))) or Fraction(1)
                share = min(abs(slope) * scale**p / (rate * p * most ** (p - 1)), Fraction(1))
                size = Fraction(float(share) ** (1 / (p - 1))) * most
                at = min(max(Fraction(x) + way * size, begin), end)
            share = abs(at - Fraction(x)) / scale
            rise = slope + way * rate * p * share ** (p - 1) / scale
            found += [slope * at + rate * share**p + rise * (v - at) for v in (begin, end)]
        return min(found)

    def _within_rest(self, f: int, low: Fraction, high: Fraction) -> tuple[Fraction, Fraction]:
        """Return the ends of a feature, taken to where it can go by what held features leave of the budget."""
        if not self.has_budget or not self.one:
            return low, high
        x, column, eps = Fraction(self.row.values[f]), self.attacker.columns.get(f, {}), Fraction(*self.eps)
        rest = Fraction(max(self.one - self.spent + self.held.get(f, 0), 0), self.one)
        if self.attacker.norm == 0:
            return (low, high) if eps < 1 or rest * self.one >= self.one // floor(eps) else (max(low, x), min(high, x))
        root = Fraction(float(rest) ** (1 / self.power) * (1 + 1e-9))
        way = eps * (root if root**self.power >= rest else 1)
        return max(low, x - way * Fraction(column.get("down", 1.0))), min(
            high, x + way * Fraction(column.get("up", 1.0))
        )

    def _known(self, f: int) -> int:
        is_known = 0 <= f < self.model.n_features + len(self.attacker.groups) and f not in self.attacker.place_in
        expect(is_known, "a proof to name features by their indices, and groups instead of their columns")
        return f

    def _cells(self, f: int) -> Iterator[int]:
        cuts = self.cuts.get(f, ())
        return (bisect_left(cuts, z) for z in self[f])

    def _split_of_proof(self, part: Any) -> Any:
        if type(part) is not dict or "split" not in part:
            return part
        part = read(part, SPLIT, "a split of the proof")
        f, v = part["split"]
        place = bisect_right(self[self._known(f)], v)
        return f, self[f][:place], self[f][place:], part["low"], part["high"]

    def _split_of_tree(self, node: Any) -> Any:
        if type(node) is int:
            return node
        column, test, _, left, right = node
        f, own = self.attacker.place_in.get(column, (column, None))
        region = self[f]
        if type(test) is not frozenset and own is None and region[-1] < inf:  # as nearly always
            place = bisect_right(region, test)
            return f, region[:place], region[place:], left, right
        self.charge(len(region))
        goes_low = {z: is_low(node, z if own is None else float(z == own)) for z in region}
        return f, tuple(filter(goes_low.get, region)), tuple(z for z in region if not goes_low[z]), left, right

    def _excludes(self, rival: int, said: dict[str, Any]) -> bool:
        """Tell whether the bound on the rival's lead, where features are held, is below what the rival needs to win.

        What is compared with 0 is multiplied by ``scale``, which makes leads and tables whole, and by ``q`` for prices.
        """
        model, own, margin, eps = self.model, self.row.own, self.row.margin, self.eps
        (a, scale), (p, q) = said["unit"], said["lambda"]
        expect(a >= 0 and scale > 0 and p >= 0 and q > 0, "unit and lambda to be a numerator and a denominator")
        expect(p == 0 or self.has_budget, "lambda 0 where no budget is shared")
        tables: dict[int, dict[int, list[int]]] = {}  # tree -> feature -> what the tree pays in each cell
        paid: dict[int, list[list[int]]] = {f: [] for f in self.held}  # feature -> the tables of all trees
        for tree, f, m in said["tables"]:
            is_known = 0 <= tree < len(model.trees) and self._known(f) not in tables.setdefault(tree, {})
            is_known = is_known and len(m) == len(self.cuts.get(f, ())) + 1
            expect(is_known, "a table for a tree and a feature, a number per cell")
            tables[tree][f] = m
            paid.setdefault(f, []).append(m)
        a, q = a * model.unit, q * eps[1] ** self.power
        p *= model.unit * scale * eps[0] ** self.power  # for the whole budget
        numbers = (v for _, _, m in said["tables"] for v in (min(m), max(m)))
        bits = DIGITS + model.widest + max(map(int.bit_length, (a, scale, p, q, *numbers)))
        # To win, the rival must lead by 0, by 1 if it loses ties, or by minus the margin if there is one.
        needed = ceil(-margin) if margin else int(rival > own)
        if model.is_vote and len(model.classes) == 2:
            needed += (needed - len(model.trees)) % 2  # every tree adds 1 or -1, so that leads are all odd or all even

        def adds(tree: int, leaf: int) -> int:
            pays = 0
            for f, m in tables.get(tree, {}).items():
                self.charge(len(self[f]))
                pays += min(map(m.__getitem__, self._cells(f)))
            self.charge(1, bits, bits)
            if model.is_vote:
                return scale * ((leaf == rival) - (leaf == own)) - a * pays
            return scale * (model.scores[leaf][rival] - model.scores[leaf][own]) - a * pays

        total = scale * (model.base[rival] - model.base[own] - needed)
        for tree, root in enumerate(model.trees):
            is_known = self.leaves[tree] and tree not in tables and (not self.held or len(self.leaves[tree]) == 1)
            leaves = self.leaves[tree] if is_known else self.walk(root, self._split_of_tree)
            most = [adds(tree, leaf) for leaf in leaves]
            if not most:  # nothing that is held can be paid for
                return True
            total += max(most)
        gains: dict[int, dict[float, int]] = {}  # feature -> what trees pay it at each value
        for f, received in paid.items():
            self.charge(len(self[f]), bits, bits)
            sums = [a * sum(column) for column in zip(*received, strict=True)]
            gains[f] = {z: sums[cell] if sums else 0 for z, cell in zip(self[f], self._cells(f), strict=True)}

        def bound(costs: dict[int, dict[float, int]], one: int) -> int:
            most = (max(one * q * m - p * costs[f][z] for z, m in part.items()) for f, part in gains.items())
            return one * (p + q * total) + sum(most)

        found = bound(self.costs, self.one)
        if 0 <= found < p * self.slack * len(gains):
            exact, one = self.exactly(gains)
            self.charge(sum(map(len, gains.values())), bits, one.bit_length())
            found = bound(exact, one)
        return found < 0


class Work:
    """What takes steps, and so many at most."""

    steps, times = 0, 1

    def charge(self, steps: int, bits: int = 0, more: int = 0) -> None:
        """Count steps, and give up where there are too many; of a product, 2**20 bits times bits are one."""
        self.steps += steps * (1 + (bits * more >> 20))
        if self.steps > self.times * MOST_STEPS:
            raise Refusal(f"Expected a proof of up to {self.times * MOST_STEPS} steps, got a longer one.")


class Row(Work):
    """A row, what is said about it, and what its model makes of it."""

    def __init__(self, found: Audit, values: list[float], said: dict[str, Any]) -> None:
        self.model, self.attacker, self.margin = found.model, found.attacker, found.margin
        self.values, self.said = values, said
        self.totals = self.model.totals(values, self.charge)
        self.own = self.totals.index(max(self.totals))
        self.charge(sum(10 * len(relation.columns) + len(relation.values) for relation in self.attacker.relations))
        told = enumerate(self.attacker.relations)
        self.relations = [(r, relation) for r, relation in told if relation.is_kept(values)]  # others do not bind it

    def check_witness(self, eps: float, witness: list[float | None] | None) -> None:
        """Refuse a witness that is not within eps, or not predicted otherwise (by more than the margin)."""
        other, reach = self.attacker.values_of(witness or [], "a witness"), Reach(self, eps)
        moved = [f for f, z in enumerate(other) if z != self.values[f] and f not in self.attacker.place_in]
        is_near = all(other[f] in reach.take(f, [(other[f],)]) and reach.hold(f, (other[f],)) for f in moved)
        expect(is_near, "a witness within the attacker's reach")
        is_sound = all(relation.is_kept(other) for _, relation in self.relations)
        expect(is_sound, "a witness that keeps the relations that its row keeps")
        totals = self.model.totals(other, self.charge)
        lead = max(totals) - totals[self.own]
        is_other = lead > self.margin if self.margin else totals.index(max(totals)) != self.own
        expect(is_other, "a witness that is predicted otherwise")


def check_prediction(row: Row) -> None:
    """Refuse a label that is not the model's."""
    label, said = text_of(row.model.classes[row.own]), text_of(row.said["prediction"])
    expect(label == said, f"the prediction {label:.40}, got {said:.40}", "refuted")


def check_verdict(row: Row) -> None:
    """Refuse "stable" without a proof, and "not stable" without a witness; with a margin, on the row itself as well."""
    stable, proof, witness = row.said["stable"], row.said["proof"], row.said["witness"]
    expect(stable == 0 or witness is None, "a witness for unstable rows only")
    expect(stable == 1 or proof is None, "a proof for stable rows only")
    if stable == 1:
        Proof(row, row.attacker.eps).check(proof)
    if stable == 0:
        row.check_witness(row.attacker.eps, witness)
        others = [total for c, total in enumerate(row.totals) if c != row.own]
        is_ahead = not row.margin or row.totals[row.own] - max(others) > row.margin
        expect(is_ahead, "an unstable row to be beyond the margin itself")


def check_radius(row: Row) -> None:
    """Refuse a radius without a proof for the float just below, which of inf is the largest, and a witness for more."""
    said = row.said["radius"], row.said["radius_upper"]
    lower, upper = (inf if value == "inf" else read(value, Size, "a radius") for value in said)
    expect(lower <= upper, "a radius up to its upper bound, got a larger one", "refuted")
    below = nextafter(lower, -inf)
    below -= below % 1 if row.attacker.norm == 0 else 0
    if below > (row.attacker.eps if row.said["stable"] == 1 else 0):  # else the verdict says so already
        Proof(row, below).check(row.said["radius_proof"])
    if upper < inf:
        row.check_witness(upper, row.said["radius_witness"])


def check_spared(row: Row) -> None:
    """Refuse to hear more of a row that is not attacked than that it is stable."""
    more = [row.said.get(key) for key in ("proof", "witness", "radius_upper")]
    is_spared = row.said["stable"] == 1 and all(value in (None, "inf") for value in more)
    expect(is_spared, "a row that is not attacked to be stable, without proof, witness and radius")


WITNESS = Maybe([Maybe(float)])
# Kind of statement -> the entries of a line that make it and show it, and what refuses it unless it holds.
STATEMENTS: dict[str, tuple[dict[str, Any], Callable[[Row], None]]] = {
    "prediction": ({"prediction": object, "label": object}, check_prediction),
    "stable": ({"stable": range(-1, 2), "method": str, "witness": WITNESS, "proof": object}, check_verdict),
    "radius": ({"radius": Maybe(object, 0.0), "radius_upper": Maybe(object, "inf"),
                "radius_proof": object, "radius_witness": WITNESS}, check_radius),
}  # fmt: skip


def read_header(header: Any, form: Any, model: Model) -> dict[str, Any]:
    """Read the first line of a certificate, which must be about this model."""
    said = read(header, form, "the header of a certificate")
    if said["model_sha256"] != model.sha256:
        raise Refusal("Model and certificate do not belong together: the certificate names another SHA-256.")
    expect([*map(text_of, said["classes"])] == [*map(text_of, model.classes)], "the model's classes in the header")
    return said


def provenance(model: Model, about: Any) -> list[str]:
    """Return what identifies the model, and the files of which the header says that all was made from them."""
    files = {name: about[name] for name in about if "_file" in name} if type(about) is dict else {}
    said = ", ".join(f"{name} {json.dumps(value):.70}" for name, value in files.items())
    digest = f"SHA-256 of the model's content: {model.sha256}"
    return [digest] + [f"Made from, as the header says, which proves nothing: {said}."] * bool(files)


class Audit:
    """Checks rows one by one; keeps counts, and the first ten rows in doubt."""

    def __init__(self, header: Any, model: Model) -> None:
        header = read_header(header, HEADER, model)
        expect(not model.is_regressor, "a model with classes, of which rows keep one")
        self.model, self.attacker = model, Attacker(header["attacker"], model)
        self.margin = Fraction(header["margin"]) * model.unit
        expect(not self.margin or not (model.is_vote or header["radius"]), "margin 0, or above for sums without radii")
        expect(not (header["radius"] and "rules" in self.attacker.words), "no radii where there are rules")
        self.attacked = None if header["attacked"] is None else {*map(text_of, header["attacked"])}
        expect(
            self.attacked is None or self.attacked <= {*map(text_of, model.classes)},
            "attacked to hold classes of the model",
        )
        kinds = [STATEMENTS[kind] for kind in STATEMENTS if kind != "radius" or header["radius"]]
        self.form = {"row": [Maybe(float)]} | {key: form for entries, _ in kinds for key, form in entries.items()}
        self.checks = [check for _, check in kinds]
        names = ("stable", "unstable", "open", "not proved", "refuted")
        self.counts = dict.fromkeys(names if self.attacked is None else (*names, "not attacked"), 0)
        self.doubts: list[str] = []
        self.digest, self.about = hashlib.sha256(), header["about"]
        self.shares = dict.fromkeys(("labelled", "right", "certified"), 0)  # rows, and what was recomputed of them

    def add(self, line: Any, name: str) -> None:
        """Check a row."""
        said = read(line, self.form, name)
        values = self.attacker.values_of(said["row"], name)
        self.digest.update(pack(f"<{len(said['row'])}d", *(nan if x is None else x for x in said["row"])))
        try:
            row = Row(self, values, said)
            is_right = said["label"] is not None and text_of(said["label"]) == text_of(self.model.classes[row.own])
            self.shares["labelled"] += said["label"] is not None
            self.shares["right"] += is_right
            truth = said["prediction"] if said["label"] is None else said["label"]
            is_attacked = self.attacked is None or text_of(truth) in self.attacked
            for check in self.checks if is_attacked else [check_prediction, check_spared]:
                check(row)
            self.counts[("unstable", "stable", "open")[said["stable"]] if is_attacked else "not attacked"] += 1
            self.shares["certified"] += is_right and said["stable"] == 1
        except Refusal as refusal:
            self.counts[refusal.kind] += 1
            if len(self.doubts) < 10:
                self.doubts.append(f"{name} is {refusal.kind}. {refusal}")

    def words(self) -> list[str]:
        """Return what was found, in lines; first who attacks."""
        counts = ", ".join(f"{count} {name}" for name, count in self.counts.items())
        first = f"Attacker: {self.attacker.told()}."
        if self.attacked is not None:
            labels = ", ".join(f"{label:.40}" for label in sorted(self.attacked))
            first += f" Only rows of these classes are attacked: {labels}."
        n, right, certified = self.shares.values()
        shares = f"Of {n} rows with labels, recomputed: {right} right ({right / max(n, 1):.2%}), {certified} of them"
        told = [first, *provenance(self.model, self.about), f"SHA-256 of the rows: {self.digest.hexdigest()}"]
        told += [f"{shares} confirmed to stay so ({certified / max(n, 1):.2%})."] * (n > 0)
        return [*told, f"Rows: {counts}.", *self.doubts]


class Domain:
    """Where inputs lie, as several models see it: of each variable the values that their trees can tell apart.

    A group of one-hot columns is one more variable, as of an `Attacker`, and inf stands for what is missing.
    """

    def __init__(self, said: dict[str, Any], models: list[Model]) -> None:
        self.n, self.blanks = models[0].n_features, models[0].blanks
        # What one model never takes to be missing never is.
        self.required = {f for model in models for f in (model.required if model.takes_missing else range(self.n))}
        self.cuts, self.listed = dict[int, set[float]](), {f for model in models for f in model.listed}
        self.codes = dict[int, set[float]]()
        for model in models:
            for f in model.cuts:
                self.cuts.setdefault(f, set()).update(model.cuts[f])
            for f in model.codes:
                if f in model.listed or f not in self.listed:
                    self.codes.setdefault(f, set()).update(model.codes[f])
        is_one = all((model.n_features, model.blanks) == (self.n, self.blanks) for model in models)
        is_one = is_one and all(self.codes[f] == model.codes[f] for model in models for f in model.listed)
        is_one = is_one and all(self.codes.keys().isdisjoint(model.in_cuts) for model in models)
        expect(is_one, "models of the same columns, with the same categories and numbers that count as missing")
        self.columns = dict.fromkeys(range(self.n), read({"numbers": []}, PLACES, "any column"))
        self.groups, self.place_in, named = list[list[int]](), dict[int, tuple[int, float]](), list[int]()
        for entry in said["columns"]:
            columns = next(iter(entry.values()))
            named += columns
            self.columns |= dict.fromkeys(columns, entry)
            if "one_hot" in entry:
                self.place_in |= {f: (self.n + len(self.groups), float(i)) for i, f in enumerate(columns)}
                self.groups.append(columns)
        is_sound = all(0 <= f < self.n for f in named) and len({*named}) == len(named) and all(self.groups)
        is_sound = is_sound and self.place_in.keys().isdisjoint({*self.codes, *self.blanks})
        expect(is_sound, "columns that there are, each once, and numbers where they are one-hot")
        self.values = [*map(self._values, range(self.n))]
        self.values += [tuple(map(float, range(len(group)))) for group in self.groups]
        expect(all(self.values), "a value for each column")

    def _values(self, f: int) -> Region:
        """Return a value of each kind that a column can hold, in order."""
        said, known = self.columns[f], self.codes.get(f)
        if f in self.place_in:
            return (0.0,)
        first, last = self.blanks.get(f, NOWHERE)
        found: Iterable[float]
        if "listed" in said:
            found = said["values"]
        elif known is None:  # the last number of each piece between thresholds
            ends = (min(v, said["high"]) for v in (*self.cuts.get(f, ()), LARGEST))
            found = (v // 1 if said["integer"] else v for v in ends)
        else:  # and one that no set holds: the first number, or right after one in a set, or after the hole
            starts = (said["low"], first, *(max(v + 1, nextafter(v, inf)) for v in (*known, last)))
            others = {float(ceil(v)) for v in starts if v < inf} - known
            found = [*known, *others] if f not in self.listed else known
        held = {v for v in found if self.holds(f, v)}
        there = {v for v in held if not first <= v <= last}
        may_miss = f not in self.required and (said["missing"] or there != held)
        return (*sorted(there), *[inf] * bool(may_miss))

    def holds(self, f: int, v: float) -> bool:
        """Tell whether a column can hold a number."""
        said, known = self.columns[f], self.codes.get(f)
        if "listed" in said:
            return v in said["values"]
        is_kind = not (said["integer"] and v % 1)
        if known is not None:
            is_kind = v in known or (f not in self.listed and v % 1 == 0)
        return said["low"] <= v <= said["high"] and is_kind

    def values_of(self, row: list[float | None]) -> list[float]:
        """Return the values of an input's variables; refuse what lies elsewhere."""
        expect(len(row) == self.n, f"inputs of {self.n} columns")
        values = [inf if v is None else v for v in row]
        for f, v in enumerate(values):
            first, last = self.blanks.get(f, NOWHERE)
            is_held = v in (0.0, 1.0) if f in self.place_in else self.holds(f, v) and not first <= v <= last
            expect(v in self.values[f] if v == inf else is_held, "inputs in the domain, with null for blanks")
        for group in self.groups:
            hot = [values[f] for f in group]
            expect(sum(hot) == 1, "one-hot columns of which one is 1")
            values.append(float(hot.index(1.0)))
        return values


def log_bounds(y: Fraction) -> tuple[Fraction, Fraction]:
    """Return numbers below and above a logarithm, by the series of atanh: log y = 2 atanh((y - 1) / (y + 1))."""
    k = y.numerator.bit_length() - y.denominator.bit_length()
    m = y / Fraction(2) ** k  # above 1 / 2, below 2
    total = error = Fraction(0)
    for factor, z in ((2, (m - 1) / (m + 1)), (2 * k, Fraction(1, 3))):
        total += factor * sum(z ** (2 * i + 1) / (2 * i + 1) for i in range(40))
        error += abs(factor * z**81)
    return total - error, total + error


# What a weighted sum of outputs must be at least, or above: (model, input, output) -> weight, a whole number.
Need = namedtuple("Need", "weights least is_strict", defaults=[False])
NEVER = Need({}, 1)
ENDS_OF = {"": (-inf, inf), "log_odds": (0, 1), "log": (0, inf)}  # between which scores are, by link


class Score:
    """The score of a model for one of the inputs: which sum it is of, and at which sums it has a value.

    A statement counts scores that are off by ``rho``, of sums that are off by ``r``.
    """

    def __init__(self, said: dict[str, Any], rounding: list[float], model: Model, place: tuple[int, int]) -> None:
        expect(len(model.classes) == 2 and said["sign"], "scores of two classes, with the sign 1 or -1")
        expect(said["link"] in ENDS_OF, "log_odds or log as a link, or none")
        expect(said["scale"][0] > 0 and said["scale"][1] > 0 and said["shift"][1] > 0, "scores that grow with sums")
        self.place, self.sign, self.link, self.label = place, said["sign"], said["link"], text_of(model.classes[1])
        self.scale, self.shift = Fraction(*said["scale"]), Fraction(*said["shift"])
        self.r, self.rho = map(Fraction, rounding)

    def beyond(self, y: Fraction, sign: int, is_strict: bool = False) -> list[Need]:
        """Ask for a score of at least y, or, with the sign -1, of at most y; nothing is asked where all are."""
        near, (low, high) = y - sign * self.rho, ENDS_OF[self.link]
        farthest = y if is_strict else near  # rounding makes a score 1, or 0, but not more, or less
        if not low < farthest < high:
            return [NEVER] if (farthest >= high) == (sign > 0) else []
        if not low < near < high:
            return []
        total = near
        if self.link:
            total = log_bounds(near / (1 - near) if self.link == "log_odds" else near)[sign < 0]
        least = sign * (total * self.scale + self.shift) - self.r
        return [Need({(*self.place, 1): sign * self.sign}, least, is_strict)]

    def __str__(self) -> str:
        link = {"": "The score", "log_odds": "The score's log-odds", "log": "The score's logarithm"}[self.link]
        total = f"{'minus ' * (self.sign < 0)}the sum of class {self.label}"
        total += f", less {self.shift}" * (self.shift != 0) + f", by {self.scale}" * (self.scale != 1)
        return f"{link} is {total}"

    def above(self, other: Score, most: Fraction, way: int) -> list[Need]:
        """Ask for a score that is above another one by more than so much; rounding counts in its favour with -1."""
        if self.link or other.link:  # where sums are alike, so are scores
            expect(most == 0 and self.place[0] == other.place[0], "parts of probabilities")
            return self.steps_above(other, most, way)
        return self.steps_above(other, most + way * (self.rho + other.rho), way)

    def steps_above(self, other: Score, most: Fraction, way: int, slope: Fraction = Fraction(1)) -> list[Need]:
        """Ask for a sum, less shift and by scale, that is so much above the other one times a slope."""
        steps = 1 / self.scale, slope / other.scale
        least = most + self.shift * steps[0] - other.shift * steps[1] + way * (self.r * steps[0] + other.r * steps[1])
        unit = Fraction(gcd(*(step.numerator for step in steps)), lcm(*(step.denominator for step in steps)))
        one, two = (int(step / unit) for step in steps)
        return [Need({(*self.place, 1): one * self.sign, (*other.place, 1): -two * other.sign}, least / unit, True)]

    def tangent(self, other: Score, at: tuple[float, float], most: Fraction) -> list[Need]:
        """Ask for what follows for sums where this score is more than ``most`` above the other one.

        How high this sum must be is convex in the other one (the link is a logarithm, or log-odds), so it is above the
        tangent where the other score is p, for a difference of t.
        """
        p, t = map(Fraction, at)
        # Scores of one model are in the order of its sums, however they are rounded.
        is_flat = t == 0 and self.place[0] == other.place[0]
        is_near = p > 0 and 0 <= t <= most - (0 if is_flat else self.rho + other.rho)
        expect(is_near and self.link and self.link == other.link, "a tangent at a score, for no larger difference")
        slope, ratios = p / (p + t), (p + t, p)
        if self.link == "log_odds":
            expect(p + t < 1, "a tangent at probabilities")
            slope, ratios = slope * (1 - p) / (1 - p - t), ((p + t) / (1 - p - t), p / (1 - p))
        (above, _), below = map(log_bounds, ratios)
        return self.steps_above(other, above - slope * below[1], -1, slope)


class Boxes:
    """The inputs of a domain, one or two that differ in some columns, and what trees add; boxes of these are proved.

    Sets of values of a variable are bits of a whole number, and a box has one for each variable. What differs has a
    variable more for the second input, its twin; these come last.
    """

    def __init__(self, claim: Claim, domain: Domain, twins: list[int], order: tuple[int, ...] | None) -> None:
        self.models, self.domain, self.charge = claim.models, domain, claim.charge
        self.values = domain.values + [domain.values[f] for f in twins]
        self.twin = {f: len(domain.values) + i for i, f in enumerate(twins)}
        self.whole = [(1 << len(values)) - 1 for values in self.values]
        self.unit = max(model.unit for model in self.models)
        self.rows = [model.rows(self.unit) for model in self.models]
        self.lows = dict[int, int]()  # split -> the values that it sends low
        # Trees, by the first of those that end alike: all of these, and what leads to their ends. The base is one, too.
        self.trees = dict[bytes, tuple[list[int], list[dict[int, int]]]]()
        # What the ends of each tree are: the model, and the leaves of the two inputs; -1 is the base.
        self.ends = list[list[tuple[int, int, int]]]()
        numbers = [] if order is None else [i for i, z in enumerate(self.values[order[0]]) if z < inf]
        self.order = *(order or (0, 0)), sum(1 << i for i in numbers)  # what is missing is in no order
        for m, root in ((m, root) for m, model in enumerate(self.models) for root in model.trees):
            self._add_tree([*self._ends(m, root)])
        if order is not None:  # is one more tree, which adds nothing
            v, w = order
            up = [{v: 1 << i, w: sum(1 << j for j in numbers if j >= i)} for i in numbers]
            self._add_tree([(len(self.models), 0, 0, held) for held in up])
        self.n_tables = len(self.ends)
        for m in range(len(self.models)):
            self._add_tree([(m, -1, -1, {})])

    def _add_tree(self, ends: list[tuple[int, int, int, dict[int, int]]]) -> None:
        """Add the ends of a tree to those of others that end alike: what they add is one thing."""
        ends.sort(key=lambda end: sorted(end[3].items()))  # trees may split in another order
        held = [one for *_, one in ends]
        text = repr([[f"{v} {values:x}" for v, values in sorted(one.items())] for one in held])
        self.trees.setdefault(hashlib.sha256(text.encode()).digest(), ([], held))[0].append(len(self.ends))
        self.ends.append([(m, here, there) for m, here, there, _ in ends])

    def _walk(self, root: Any, held: dict[int, int], twin: dict[int, int]) -> Iterator[tuple[int, dict[int, int]]]:
        """Yield the leaves of a tree, and what leads there."""
        waiting = [(root, held)]
        while waiting:
            node, held = waiting.pop()
            if type(node) is int:
                yield node, held
                continue
            f, own = self.domain.place_in.get(node[0], (node[0], None))
            if id(node) not in self.lows:
                sent = (is_low(node, z if own is None else float(z == own)) for z in self.values[f])
                self.lows[id(node)] = sum(1 << i for i, goes_low in enumerate(sent) if goes_low)
                self.charge(len(self.values[f]) * (1 + len(self.values[f]) // 64))
            v, low = twin.get(f, f), self.lows[id(node)]
            here = held.get(v, self.whole[v])
            self.charge(1 + len(held))
            for child, kept in ((node[4], here & ~low), (node[3], here & low)):
                if kept:
                    waiting.append((child, held if kept == here else held | {v: kept}))

    def _ends(self, m: int, root: Any) -> Iterator[tuple[int, int, int, dict[int, int]]]:
        """Yield the leaves of a tree that the two inputs reach together, and what leads there."""
        v, w, numbers = self.order
        for leaf, held in self._walk(root, {}, {}):
            for other, both in self._walk(root, held, self.twin):
                first = both.get(v, self.whole[v]) & numbers
                if not numbers or 0 < first & -first <= both.get(w, self.whole[w]) & numbers:
                    yield m, leaf, other, both

    def added(self, need: Need, m: int, *leaves: int) -> int:
        """Return what leaves of the m-th model add to a weighted sum, in units."""
        return sum(w * self.rows[m][leaves[x]][c] for (i, x, c), w in need.weights.items() if i == m)

    def least(self, need: Need) -> int:
        """Return the least sum that will do, in units: all that models add are multiples of a step."""
        steps = [self.unit // self.models[m].unit * self.models[m].step for m, _, _ in need.weights]
        step = min(steps, default=1)
        n = need.least * self.unit / step
        return (floor(n) + 1 if need.is_strict else ceil(n)) * step

    def meets(self, need: Need, inputs: list[list[float]]) -> bool:
        """Tell whether inputs meet what is needed, exactly."""
        units = [self.unit // model.unit for model in self.models]
        totals = {(m, x): self.models[m].totals(inputs[x], self.charge) for m, x, _ in need.weights}
        return sum(w * totals[m, x][c] * units[m] for (m, x, c), w in need.weights.items()) >= self.least(need)

    def prove(self, needs: list[Need], case: Any) -> None:
        """Refuse a case unless no inputs meet all that is needed."""
        said = read(case, CASE, "a case")
        expect(needs, "something that is not always so")
        bits = [k - self.unit.bit_length() + 1 for k in said["bits"]]
        expect(len(bits) == len(needs) and max(map(abs, bits)) < 2**14, "bits for each sum")
        self.leasts = [*map(self.least, needs)]
        # What trees add, those that end alike together.
        self.exact, self.adds, fixed = list[Any](), list[Any](), [0] * len(needs)
        for numbers, _ in self.trees.values():
            alike = [[tuple(self.added(need, *end) for need in needs) for end in self.ends[t]] for t in numbers]
            self.exact.append([tuple(map(sum, zip(*one, strict=True))) for one in zip(*alike, strict=True)])
            # The same in whole numbers of 2**-bits, rounded up; of trees that always add the same it is exact.
            always = [tree[0] for tree in alike if len({*tree}) == 1]
            constant = [sum(one[r] for one in always) for r in range(len(needs))]
            self.adds.append([[*map(sub, one, constant)] for one in self.exact[-1]])
            fixed = [*map(add, fixed, constant)]
        self.needed = list[int]()
        for r, k in enumerate(bits):
            rest, smallest = self.leasts[r] - fixed[r], 0
            for tree in self.adds:
                same = tree[0][r] if len({one[r] for one in tree}) == 1 else None
                rest -= same or 0
                for one in tree:
                    one[r] = scaled(one[r], k) if same is None else 0
                smallest += min((one[r] for one in tree), default=0)
            self.needed.append(max(scaled(rest, k), smallest))
        self.cells = self._cells(said["cells"])
        self.bounds = dict[int, Any]()
        waiting = [[*self.whole]]
        for entry in said["tree"]:
            expect(waiting, "an end for each part, and no more")
            box = waiting.pop()
            if type(entry) is list:
                v, cell = read(entry, (int, int), "a cut")
                expect(v in self.cells and 0 <= cell < len(self.cells[v]) - 1, "cuts between cells")
                low = sum(self.cells[v][: cell + 1])  # bits of their own
                waiting += [[*box[:v], box[v] & part, *box[v + 1 :]] for part in (~low, low)]
                self.charge(len(box))
            elif all(box):
                is_proved = self._fails_alone(box) if entry == -1 else self._is_below(box, entry, said["bounds"])
                expect(is_proved, "a bound below what is needed in every part")
        expect(not waiting, "an end for each part")

    def _cells(self, said: list[tuple[int, list[Any]]]) -> dict[int, list[int]]:
        """Return the values in each cell of variables: up to numbers that increase, or in lists, null for the rest."""
        found = dict[int, list[int]]()
        for v, ends in said:
            expect(0 <= v < len(self.values) and v not in found, "cells of variables that there are, each once")
            lists = [] if all(map(is_number, ends)) else read(ends, [CELL], "lists of values")
            expect(lists or all(map(lt, ends, ends[1:])), "ends of cells that increase")
            place, rest = {z: i for i, listed in enumerate(lists) for z in listed or ()}, [*lists, None].index(None)
            found[v] = [0] * (len(lists) or len(ends) + 1)
            for i, z in enumerate(self.values[v]):
                cell = place.get(z, rest) if lists else bisect_left(ends, z)
                expect(cell < len(found[v]), "cells to hold all values")
                found[v][cell] |= 1 << i
            self.charge((len(ends) + len(self.values[v])) * (1 + len(self.values[v]) // 64))
        return found

    def _read_bound(self, number: Any, bounds: list[Any]) -> tuple[list[int], dict[int, Any], dict[int, list[int]]]:
        """Return weights, tables of trees, and what each variable is paid by them in its cells."""
        expect(type(number) is int and 0 <= number < len(bounds), "bounds that there are")
        if number in self.bounds:
            return self.bounds[number]
        said = read(bounds[number], WEIGHED, "a bound")
        weights, tables, paid = said["weights"], dict[int, dict[int, Any]](), dict[int, list[int]]()
        expect(len(weights) == len(self.needed) and min(weights) >= 0, "weights, none below 0")
        for t, v, flat in said["tables"]:
            own, n = tables.setdefault(t, {}), len(self.cells.get(v, ()))
            expect(0 <= t < self.n_tables and n and v not in own, "one table for a tree and a variable")
            expect(len(flat) % 3 == 0, "first and last cell and a number")
            entries = [*zip(flat[::3], flat[1::3], flat[2::3], strict=True)]
            ends = [end for entry in entries for end in entry[:2]]
            expect(ends == sorted(ends) and all(0 <= c < n for c in ends), "cells of a table in order")
            paid.setdefault(v, [0] * n)
            own[v], rest = [], self.whole[v]
            for first, last, m in entries:
                mask = sum(self.cells[v][first : last + 1])
                expect(not mask & ~rest, "cells of a table once")
                rest &= ~mask
                own[v].append((mask, m << said["shift"]))
                for c in range(first, last + 1):
                    paid[v][c] += m << said["shift"]
                self.charge(1 + last - first, m.bit_length() + said["shift"], 64)
            own[v].append((rest, 0))
        self.bounds[number] = weights, tables, paid
        return self.bounds[number]

    def _is_below(self, box: list[int], number: Any, bounds: list[Any]) -> bool:
        """Tell whether a weighted sum of what is to be met is, by tables, less than needed all over a box."""
        weights, tables, paid = self._read_bound(number, bounds)
        total = -sum(map(mul, weights, self.needed))
        for (numbers, held), adds in zip(self.trees.values(), self.adds, strict=True):
            own = [(v, table) for t in numbers for v, table in tables.get(t, {}).items()]
            least, best = dict[tuple[int, int], int](), None
            for e in self._left(held, box):
                worth = sum(map(mul, weights, adds[e]))
                for i, (v, table) in enumerate(own):
                    region = held[e].get(v, -1) & box[v]
                    if (i, region) not in least:
                        least[i, region] = min(m for mask, m in table if mask & region)
                    worth -= least[i, region]
                best = worth if best is None else max(best, worth)
            self.charge(len(held) * (1 + len(own)))
            if best is None:  # no inputs are in the box
                return True
            total += best
        for v, sums in paid.items():
            total += max(m for m, cell in zip(sums, self.cells[v], strict=True) if cell & box[v])
            self.charge(len(sums))
        return total < 0

    def _left(self, ends: list[dict[int, int]], box: list[int]) -> Iterator[int]:
        """Yield the places of the ends of a tree that meet a box."""
        narrow = {v for v, kept in enumerate(box) if kept != self.whole[v]}
        for e, held in enumerate(ends):
            if not (narrow and any(not held[v] & box[v] for v in narrow & held.keys())):
                yield e

    def _fails_alone(self, box: list[int]) -> bool:
        """Tell whether every tree adds one thing only in a box, and these do not meet what is needed, exactly."""
        totals = [0] * len(self.leasts)
        for (_, held), exact in zip(self.trees.values(), self.exact, strict=True):
            left = {exact[e] for e in self._left(held, box)}
            self.charge(len(held) * 2)
            if not left:
                return True
            expect(len(left) == 1, "trees that add the same all over a part where no bound is given")
            totals = [*map(add, totals, left.pop())]
        return any(map(lt, totals, self.leasts))


def scaled(value: int, shift: int) -> int:
    """Return ``value * 2**shift``, rounded up."""
    return value << shift if shift >= 0 else -(-value >> -shift)


Cases = Iterator[list[Need]]  # in none of which all that is needed is met by any inputs


def range_cases(claim: Claim, said: dict[str, Any]) -> Cases:
    """Yield scores above and below a range."""
    for end, sign in zip(reversed(said["range"]), (1, -1), strict=True):
        if end is not None:
            yield claim.scored[0].beyond(Fraction(end), sign, is_strict=True)


def insensitive_cases(claim: Claim, said: dict[str, Any]) -> Cases:
    """Yield two decisions, or a high score and a low one."""
    if said["low"] is None or said["high"] is None:
        expect(said["low"] is said["high"], "both low and high, or neither")
        tested = {f for model in claim.models for f in (*model.in_cuts, *model.in_sets)}
        may_tell = [
            v for v in claim.twins if len(claim.boxes.values[v]) > 1 and (v in tested or v >= claim.boxes.domain.n)
        ]
        # Where no tree tells the inputs apart, the same sums decide, and no case is left.
        n = len(claim.models[0].classes) if may_tell or claim.said["cases"] else 0
        for a in range(n):
            for b in range(a):  # of two inputs, either comes first
                yield [*claim.says(0, a, -1), *claim.says(1, b, -1)]
        return
    one, other = claim.scored
    yield [*one.beyond(Fraction(said["high"]), 1), *other.beyond(Fraction(said["low"]), -1)]


def difference_cases(claim: Claim, said: dict[str, Any]) -> Cases:
    """Yield two decisions, or a first score that is too far above the second; of two models, also the other way."""
    is_two, most = len({m for m, _ in claim.sides}) == 2, said.get("most", said.get("tolerance"))
    if most is None:
        here, there = (model.classes for model in claim.models[:2])
        for a, b in ((a, b) for a in range(len(here)) for b in range(len(there)) if here[a] != there[b]):
            yield [*claim.says(0, a, 1), *claim.says(1, b, 1)]
        return
    for _ in range(1 + is_two):
        yield from claim.above(most, -1 if "most" in said else 1)
        claim.scores.reverse()


# Word of a statement -> its form, the cases in which it fails, and how it is told, if of scores in the second way.
CLAIMS: dict[str, tuple[dict[str, Any], Callable[[Claim, dict[str, Any]], Cases], str, str]] = {
    "range": ({"range": (Maybe(float), Maybe(float))}, range_cases, "", "the score is {ends}"),
    "insensitive": ({"insensitive": [int], "low": Maybe(float), "high": Maybe(float)}, insensitive_cases,
                    "a change of {columns} alone never changes the decision",
                    "a change of {columns} alone never takes the score from {low!r} or less to {high!r} or more"),
    "monotone": ({"monotone": int, "direction": object, "tolerance": Maybe(Size, 0.0)}, difference_cases,
                 "", "the score never {moves} by more than {tolerance!r} where {columns} grows"),
    "same": ({"same": str, "tolerance": Maybe(Size)}, difference_cases, "decisions are those of model {same:.12}",
             "scores are within {tolerance!r} of those of model {same:.12}"),
    "gap": ({"gap": [int], "most": float}, difference_cases,
            "", "a change of {columns} alone changes the score by at most {most!r}"),
    "fall": ({"fall": int, "direction": object, "most": float}, difference_cases,
             "", "the score {moves} by at most {most!r} where {columns} grows"),
    "difference": ({"difference": str, "most": float}, difference_cases,
                   "", "scores are at most {most!r} apart from those of model {difference:.12}"),
}  # fmt: skip


class Claim(Work):
    """A statement about all inputs of a domain, and the cases in which it would fail."""

    times = 20

    def __init__(self, said: dict[str, Any], found: Claims) -> None:
        forms = OneOf("statements that are", {word: claim[0] for word, claim in CLAIMS.items()})
        self.said, self.stated = said, read(said["statement"], forms, "a statement")
        self.word = next(word for word in CLAIMS if word in self.stated)
        told = self.stated[self.word]
        columns = told if self.word in ("insensitive", "gap") else [told] if type(told) is int else []
        others = [told] if type(told) is str else []
        expect(all(sha in found.others for sha in others), f"the model of SHA-256 {' '.join(others):.64} as well")
        self.models = [found.model, *(found.others[sha] for sha in others)]
        self.parts, self.cases = [*(said["parts"] or [])], iter(said["cases"])
        n_models = len(self.models)
        is_sound = len(said["rounding"]) == n_models and len(said["scores"]) in (0, n_models)
        expect(is_sound, "scores and rounding, once for each model")
        self.rounding, scores = (said[key] * (3 - n_models) for key in ("rounding", "scores"))
        self.sides = (0, 0), (1, 0) if others else (0, int(bool(columns)))  # which model, and which input
        self.scores = [
            Score(score, rounding, self.models[side[0]], side)
            for score, rounding, side in zip(scores, self.rounding, self.sides, strict=bool(scores))
        ]
        plausible = [] if found.plausible is None else [found.plausible]
        domain = Domain(found.domain, [*self.models, *plausible])
        self.twins = sorted({domain.place_in.get(f, (f,))[0] for f in columns})
        expect({*columns} <= {*range(domain.n)}, "columns that there are")
        names = {f for v in self.twins for f in (domain.groups[v - domain.n] if v >= domain.n else [v])}
        expect(names == {*columns}, "all columns of a group, or none")
        self.step = {"up": 1, "down": -1}.get(self.stated.get("direction", "up"))  # from the first input to the second
        expect(self.step, "the direction up or down")
        order = (told, len(domain.values))[:: self.step] if "direction" in self.stated else None
        expect(order is None or (self.twins == columns and told not in domain.codes), "a column of numbers")
        self.needs = [Need({(len(self.models), x, 1): 1}, 0) for _ in plausible for x in range(1 + bool(columns))]
        self.models += plausible
        self.boxes = Boxes(self, domain, self.twins, order)

    def __str__(self) -> str:
        told, places, names = self.stated, self.boxes.domain.place_in, self.models[0].names
        columns = [name for f, name in enumerate(names) if places.get(f, (f,))[0] in self.twins]
        ends = zip(("at least", "at most"), told.get("range", ()), strict=False)
        *_, plain, of_scores = CLAIMS[self.word]
        words = (of_scores if self.word == "range" or None not in told.values() else plain).format(
            **told,
            columns=shortened(columns),
            ends=" and ".join(f"{word} {end!r}" for word, end in ends if end is not None),
            moves="falls" if self.step == 1 else "rises",
        )
        sums, scores = map(max, zip(*self.rounding, strict=True))
        off = f" (sums may be off by {sums:.3g}, scores by {scores:.3g})" * bool(sums or scores)
        return words.replace(" by more than 0.0 ", " ") + off

    @property
    def scored(self) -> list[Score]:
        """The two scores."""
        expect(self.scores, "what scores are")
        return self.scores

    def says(self, side: int, c: int, way: int) -> list[Need]:
        """Ask for a decision, with a lead that rounding does not make, or, with -1, also where it may have."""
        m, x = self.sides[side]
        expect(not self.models[m].is_regressor, "a model with classes for a statement about decisions")
        r, rivals = way * Fraction(self.rounding[side][0]), (a for a in range(len(self.models[m].classes)) if a != c)
        return [Need({(m, x, c): 1, (m, x, a): -1}, r, r > 0 or (r == 0 and a < c)) for a in rivals]

    def above(self, most: float, way: int) -> Cases:
        """Yield a first score that is above the second one by more than so much: of probabilities, in parts."""
        one, other = self.scored
        if self.said["parts"] is None:
            yield one.above(other, Fraction(most), way)
            return
        expect(self.parts and one.link and other.link, "parts of probabilities, for each way")
        parts = self.parts.pop(0)
        last = ENDS_OF[other.link][1]
        ends = zip([0.0, *parts], [*parts, last], strict=True)  # of the second score
        for low, high in ends if self.said["holds"] else zip(parts, parts, strict=True):
            expect(low <= high, "parts that increase")
            needs = one.beyond(Fraction(low) + Fraction(most), 1, True)
            needs += other.beyond(Fraction(high), -1) if high < last else []
            if self.said["holds"] and NEVER not in needs:
                needs += other.beyond(Fraction(low), 1) if low > 0 else []
                for at in read(next(self.cases, None), CASE, "a case")["tangents"]:
                    needs += one.tangent(other, at, Fraction(most))
            yield needs

    def check(self) -> None:
        """Refuse what does not hold for lack of a proof, and what is said to fail for lack of inputs that show it."""
        asked = [[*needs, *self.needs] for needs in CLAIMS[self.word][1](self, self.stated) if NEVER not in needs]
        cases, inputs = self.said["cases"], self.said["inputs"] or []
        if self.said["holds"]:
            expect(len(cases) == len(asked), f"{len(asked)} cases")
            for needs, case in zip(asked, cases, strict=True):
                self.boxes.prove(needs, case)
        elif self.said["holds"] is False:
            expect(len(inputs) == 1 + bool(self.twins), "inputs that show it: two where columns may differ, or one")
            rows = [self.boxes.domain.values_of(row) for row in inputs] * (3 - len(inputs))
            shared = {*range(len(rows[0]))} - {*self.twins} - self.boxes.domain.place_in.keys()
            expect(all(rows[0][v] == rows[1][v] for v in shared), "inputs that differ in columns of the statement only")
            if "direction" in self.stated:
                lower, upper = (row[self.twins[0]] for row in rows[:: self.step])
                expect(lower <= upper < inf, "inputs in order")
            expect(any(all(self.boxes.meets(need, rows) for need in needs) for needs in asked), "inputs that show it")


def extent(entry: dict[str, Any], names: list[str]) -> str:
    """Return in words what columns of a domain hold."""
    kind, columns = next(iter(entry.items()))
    held = {"listed": f"{len(entry.get('values', ()))} values", "one_hot": "one-hot"}.get(kind)
    held = held or f"{entry['low']!r} to {entry['high']!r}{', whole' * bool(entry['integer'])}"
    held += " or missing" * bool(entry.get("missing"))
    return f"{shortened([names[f] for f in columns if 0 <= f < len(names)])} ({held})"


class Claims:
    """Checks statements one by one; keeps counts, and those in doubt."""

    def __init__(self, header: Any, model: Model, others: Sequence[Model]) -> None:
        header = read_header(header, STATED, model)
        self.model, self.domain, self.about = model, header["domain"], header["about"]
        self.others = {other.sha256: other for other in (model, *others)}
        self.plausible = None if self.domain["plausible"] is None else Model(self.domain["plausible"])
        expect(self.plausible is None or len(self.plausible.classes) == 2, "one sum that tells what is plausible")
        self.counts = dict.fromkeys(("hold", "fail", "open", "not proved"), 0)
        self.doubts, self.told, self.scores = list[str](), list[str](), dict[str, None]()

    def add(self, line: Any, name: str) -> None:
        """Check a statement."""
        said = read(line, CLAIM, name)
        outcome, words = {True: "hold", False: "fail", None: "open"}[said["holds"]], text_of(said["statement"])
        try:
            if said["holds"] is not None:
                claim = Claim(said, self)
                words, self.scores = str(claim), self.scores | dict.fromkeys(map(str, claim.scores))
                claim.check()
        except Refusal as refusal:
            outcome = "not proved"
            self.doubts.append(f"{name} is not proved. {refusal}")
        self.counts[outcome] += 1
        verb = {"hold": "holds", "fail": "fails"}.get(outcome, f"is {outcome}")
        self.told.append(f"{name.capitalize()} {verb}: {words:.2000}.")

    def words(self) -> list[str]:
        """Return what was found, in lines; first what the statements are about."""
        counts = ", ".join(f"{count} {name}" for name, count in self.counts.items())
        plausible = "" if self.plausible is None else "; only what is plausible"
        places = [extent(entry, self.model.names) for entry in self.domain["columns"]] or ["any numbers"]
        others = [f"SHA-256 of another model's content: {sha}" for sha in self.others if sha != self.model.sha256]
        told = [f"Domain: {shortened(places)}{plausible}.", *provenance(self.model, self.about), *others]
        told += [*(f"{words}." for words in self.scores), *self.told]
        return [*told, f"Statements: {counts}.", *self.doubts]


def audit(model_file: BinaryIO, certificate: BinaryIO, others: Sequence[Model] = ()) -> Audit | Claims:
    """Check a whole certificate; ``others`` are models that its statements compare the first one with."""
    model = Model(parse(model_file.read(), "the model"))
    longest = LONGEST_LINE + 200 * model.n_features
    header = parse(certificate.readline(longest), "the first line of the certificate")
    is_claims = type(header) is dict and header.get("format") == STATED["format"]
    found: Audit | Claims = Claims(header, model, others) if is_claims else Audit(header, model)
    kind, longest = ("statement", LONGEST_CLAIM) if is_claims else ("row", longest)
    for n_rows, line in enumerate(iter(lambda: certificate.readline(longest), b"")):
        expect(len(line) < longest, f"lines below {longest} bytes")
        name = f"{kind} {n_rows} (line {n_rows + 2})"
        entries = parse(line, name)
        if type(entries) is dict and "end" in entries:
            is_end = read(entries, {"end": int}, "the last line")["end"] == n_rows and not certificate.read(1)
            expect(is_end, f"a last line that says {n_rows}, the number of {kind}s")
            return found
        found.add(entries, name)
    n_rows = sum(found.counts.values())
    raise Refusal(
        f"Expected a line that ends the certificate, got none after {n_rows} {kind}s: the file was cut short."
    )


def main(argv: list[str] | None = None, tell: Callable[[Audit | Claims, list[str]], None] | None = None) -> int:
    """Run the program and return its exit code; ``tell`` takes what was found, and lines that else are printed."""
    paths = sys.argv[1:] if argv is None else argv
    if not {"-h", "--help"}.isdisjoint(paths):
        sys.stdout.write(__doc__ or "")
        return 0
    try:
        expect(len(paths) >= 2, "two files, MODEL and CERTIFICATE (--help says more)")
        others = []
        for path in paths[2:]:
            with open(path, "rb") as other:
                others.append(Model(parse(other.read(), "a model")))
        with open(paths[0], "rb") as model_file, open(paths[1], "rb") as certificate:
            found = audit(model_file, certificate, others)
    except (Refusal, OSError) as error:
        sys.stderr.write(f"certiforest: error: {error}\n")
        return 2
    outcome = "Not every statement is confirmed." if found.doubts else "Every statement is confirmed."
    lines = [*found.words(), outcome]
    if tell is None:
        sys.stdout.write("\n".join(lines) + "\n")
    else:
        tell(found, lines)
    return 1 if found.doubts else 0


if __name__ == "__main__":
    sys.exit(main())

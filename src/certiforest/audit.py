"""The auditor: checks every statement of a certificate file against a model file, exactly, and alone.

It is one file, longer than others here, since it is to be copied, read and run as a whole:

    python -I audit.py MODEL CERTIFICATE

It needs Python's standard library only, shares no code with the programs that make certificates, and believes no number
that it can compute. The files and the bound are described in docs/file_format.md, docs/certificate_format.md and
docs/proofs.md. Exit code 0: all statements confirmed; 1: something is refuted or not proved; 2: bad input.

Whatever an attacker may do, a feature has a few values that matter, each with a cost: see `Reach`. All that decides is
arithmetic on whole numbers and fractions of these. Values are float64 numbers; inf, above all of them, stands for a
value that is missing. A group of one-hot columns is one more feature, number n_features + g for group g, whose value is
the place of the column that is set: 0 for the first one. Its columns themselves then count for nothing.
"""

from __future__ import annotations

import hashlib
import heapq
import json
import sys
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator
from fractions import Fraction
from math import ceil, inf, isfinite, nextafter
from operator import add, lt
from typing import Any, BinaryIO, NamedTuple

LARGEST = sys.float_info.max
LONGEST_LINE = 2**24  # bytes of a line of the certificate, and 200 more for every feature
MOST_STEPS = 10**8  # nodes visited and numbers read for one proof: a minute or two
NOWHERE = inf, inf  # a range without numbers
MOST_WAYS = 5 * 10**5  # by rules, to values of one feature
ONE = 2**128  # costs are whole numbers of 1 / ONE of the budget, rounded down, unless that leaves a question open

# ---- Files -----------------------------------------------------------------------------------------------------------


class Size(float):
    """As a form: a finite number of at least 0."""


class Price(Size):
    """As a form: a finite number above 0, so that nothing can be changed for nothing."""


# Forms, as `read` takes them: [form] is a list of any length, (form, form) one of this length, {key: form} an object,
# in which a key with a question mark may be missing or null; float is a finite number, None the same or null, a range
# a whole number in it, text itself, object anything.
MODEL = {
    "format": "certiforest", "version": range(1, 3), "combine": str, "classes": [object], "feature": [int],
    "n_features": range(1, 2**24 + 1), "threshold": [None], "leaf": [int], "scores?": [[float]], "base?": [float],
    "missing_left?": [int], "subset?": [int], "subsets?": [[float]], "categories?": [[object]], "required?": [int],
    "blanks?": [(int, float, float)],
}  # fmt: skip
HEADER = {
    "format": "certiforest certificate", "version": range(1, 2), "model_sha256": str, "attacker": object,
    "classes": [object], "margin": Size, "radius": bool, "attacked?": [object], "about?": object,
}  # fmt: skip
ATTACKER = {"norm": object, "eps": Size, "missing?": Price, "columns?": [dict]}
COLUMNS = {  # what columns of the attacker are; those that are not named are numbers
    "numbers": {"numbers": [int], "down?": Size, "up?": Size, "low?": float, "high?": float, "integer?": bool},
    "frozen": {"frozen": [int]},
    "categories": {"categories": [int], "cost": Price, "low?": float, "high?": float},
    "one_hot": {"one_hot": [int], "scale?": Size, "rules?": [dict]},
    "ruled": {"ruled": [int], "rules": [dict]},
}
ADD = {"add": float, "low?": float, "high?": float, "cost": Price}
BECOME = {"become": float, "values": [float], "cost": Price}
ROW = {"row": [None], "prediction": object, "stable": range(-1, 2), "method": str, "label?": object,
       "witness?": [None], "proof?": object}  # fmt: skip
RADIUS = {"radius?": object, "radius_upper?": object, "radius_witness?": [None], "radius_proof?": object}
PROOF = {"cuts": [(int, [float])], "rivals": [dict]}
BOUND = {"unit?": (int, int), "lambda?": (int, int), "tables?": [(int, int, [int])]}
SPLIT = {"split": (int, float), "low": object, "high": object}


class Refusal(Exception):  # noqa: N818  # nothing is wrong with the program that raises it
    """What a file says is no good; ``kind`` is what that makes of a row."""

    kind = "not proved"


def expect(condition: object, expected: str, kind: str = "not proved") -> None:
    """Refuse what a file says unless the condition holds."""
    if not condition:
        refusal = Refusal(f"Expected {expected}.")
        refusal.kind = kind
        raise refusal


def shown(value: object) -> str:
    """Return a value as it may be printed."""
    text = ascii(value) if type(value) in (str, int, float, bool) else type(value).__name__
    return text if len(text) <= 40 else text[:37] + "..."


def is_among(label: Any, labels: Iterable[Any]) -> bool:
    """Tell whether a label is one of several; true is not 1."""
    return any(type(label) is type(known) and label == known for known in labels)


def read(value: Any, form: Any, name: str) -> Any:
    """Return a value if it has this form, optional keys as None where they are missing, and refuse it otherwise."""
    if type(form) is dict:
        expect(type(value) is dict, f"{name} to be an object")
        entries = {}
        for key, part in form.items():
            plain = key.rstrip("?")
            is_absent = plain != key and value.get(plain) is None
            entries[plain] = None if is_absent else read(value.get(plain), part, f"{plain} of {name}")
        for key in value:
            is_known = key in entries or form is MODEL  # models may say more
            expect(is_known, f"known keys in {name}, not {shown(key)}: is it of a newer format")
        return entries
    if type(form) in (list, tuple):
        expect(type(value) is list, f"{name} to be a list")
        kinds = set(map(type, value))
        if form == [int] and kinds <= {int}:
            return value
        if form in ([float], [None]) and kinds <= {float} and all(map(isfinite, value)):
            return value
        forms = form * len(value) if type(form) is list else form
        expect(len(value) == len(forms), f"{name} to be a list of {len(forms)}")
        return [read(entry, part, name) for entry, part in zip(value, forms, strict=True)]
    if form in (float, Size, Price) or (form is None and value is not None):
        is_exact = type(value) is int and abs(value) <= 2**53  # a larger one would be rounded
        expect(is_exact or (type(value) is float and isfinite(value)), f"{name} to be a finite number")
        expect(form is not Size or value >= 0, f"{name} >= 0")
        expect(form is not Price or value > 0, f"{name} > 0")
        return float(value)
    if type(form) is str:
        expect(value == form, f"{name} to be {form}")
    elif type(form) is range:
        expect(type(value) is int and value in form, f"{name} to be a whole number from {form[0]} to {form[-1]}")
    elif form not in (object, None):
        expect(type(value) is form, f"{name} to be of type {form.__name__}")
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    expect(len(dict(pairs)) == len(pairs), "every key of an object once")
    return dict(pairs)


def parse(text: bytes, name: str) -> Any:
    """Read JSON text. Python refuses whole numbers of more than 4,300 digits, and `read` NaN and infinity."""
    try:
        return json.loads(text.decode(), object_pairs_hook=_object)
    except (ValueError, RecursionError) as error:
        what = "some that nests too deep" if isinstance(error, RecursionError) else f"something else ({error})"
        raise Refusal(f"Expected {name} to be JSON text, got {what}.") from None


# ---- The model -------------------------------------------------------------------------------------------------------


class Model:
    """The trees of a model file, flat and in preorder: the left child of node i is i + 1, the right one right[i].

    A leaf's value is a class to vote for, or a row of ``scores``: whole numbers of ``1 / unit``, one per class. A split
    has a threshold, or None and a set of values that go left.
    """

    def __init__(self, document: Any) -> None:
        model = read(document, MODEL, "the model")
        try:
            text = json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False)
        except (ValueError, RecursionError):
            raise Refusal("Expected a flat model of finite numbers, got something else.") from None
        self.sha256 = hashlib.sha256(text.encode()).hexdigest()
        expect(model["combine"] in ("vote", "sum"), 'combine of the model to be "vote" or "sum"')
        self.n_features, self.classes, self.is_vote = model["n_features"], model["classes"], model["combine"] == "vote"
        kinds = set(map(type, self.classes))
        expect(len(kinds) == 1 and kinds <= {bool, int, float, str}, "classes of the model to be labels of one type")
        expect(len(set(self.classes)) == len(self.classes), "every class of the model once")
        self.unit, self.base = 1, [0] * len(self.classes)
        self.scores: list[list[int]] = []
        if not self.is_vote:
            self._read_scores([model["base"] or [], *(model["scores"] or [])])
        self._read_nodes(model)
        self._read_columns(model)

    def _read_scores(self, table: list[list[float]]) -> None:
        """Turn the base, where sums begin, and the scores of leaves into whole numbers."""
        n, width = len(self.classes), len(table[0])
        expect(width == n or (width, n) == (1, 2), "base to be one number per class, or a single one for two")
        expect(all(len(row) == width for row in table), "rows of scores as long as base")
        # Denominators of floats are powers of two: the largest serves all. A single score is that of the second class.
        self.unit = max(v.as_integer_ratio()[1] for row in table for v in row)
        self.base, *self.scores = [[0] * (n - width) + [int(Fraction(v) * self.unit) for v in row] for row in table]

    def _read_nodes(self, model: dict[str, Any]) -> None:
        n, n_values = len(model["feature"]), len(self.classes if self.is_vote else self.scores)
        sets = [*map(frozenset, model["subsets"] or []), frozenset()]  # the last one, at -1, for splits without
        self.takes_missing = model["missing_left"] is not None
        self.feature, self.threshold, self.leaf = model["feature"], model["threshold"], model["leaf"]
        self.missing_left, subset = model["missing_left"] or [0] * n, model["subset"] or [-1] * n
        columns = self.feature, self.leaf, self.threshold, self.missing_left, subset
        expect({*map(len, columns)} == {n} != {0}, "feature, threshold, leaf, missing_left, subset of one length")
        # After a leaf comes the right child of the last split that has none yet, or another tree.
        self.right, self.roots, self.sets = [-1] * n, [], [sets[-1]] * n
        waiting: list[int] = []
        self.cuts: dict[int, Any] = {}  # feature -> its thresholds, in order
        self.codes: dict[int, Any] = {}  # feature -> its values in sets
        is_start = True
        for node, (f, leaf, v, m, s) in enumerate(zip(*columns, strict=True)):
            if is_start:
                self.roots.append(node)
            elif self.feature[node - 1] < 0:
                self.right[waiting.pop()] = node
            if f >= 0:
                waiting.append(node)
                is_sound = f < self.n_features and m in (0, 1) and -1 <= s < len(sets) - 1
                expect(is_sound and (v is None or s == -1), "splits on features, with a threshold or a set of values")
                self.sets[node] = sets[s]
                if v is not None:
                    self.cuts.setdefault(f, set()).add(v)
                elif s >= 0:
                    self.codes.setdefault(f, set()).update(sets[s])
            expect(f >= 0 or (f == -1 and 0 <= leaf < n_values), "leaves with a class or a row of scores")
            is_start = f < 0 and not waiting
        expect(not waiting, "whole trees, not a last tree that is cut short")
        expect(len(self.roots) * len(self.classes) <= MOST_STEPS, f"trees times classes to be up to {MOST_STEPS}")
        self.categories, self.numbers = set(self.codes), set(self.cuts)
        expect(self.categories.isdisjoint(self.numbers), "thresholds or sets of values for a feature, not both")

    def _read_columns(self, model: dict[str, Any]) -> None:
        """Find out which columns are never missing, which numbers count as missing, and what categories there are."""
        self.required, blanks = set(model["required"] or ()), model["blanks"] or []
        self.blanks = {f: (low, high) for f, low, high in blanks}
        is_sound = all(0 <= f < self.n_features for f in {*self.required, *self.blanks})
        expect(is_sound and len(self.blanks) == len(blanks), "columns that there are in required and blanks, each once")
        expect(not blanks or self.takes_missing, "missing_left where numbers count as missing")
        for f, (low, high) in self.blanks.items():
            expect(low <= high, "ranges of numbers in blanks")
            self.cuts.setdefault(f, set()).update([nextafter(low, -inf), high])
        self.cuts = {f: sorted(cuts) for f, cuts in self.cuts.items()}
        # Categories are the whole numbers in sets, unless they are listed: as floats, or counted.
        self.codes = {f: {v for v in used if v % 1 == 0} for f, used in self.codes.items()}
        self.listed = set()
        lists = [read(entry[:2], (int, [object]), "categories of the model") for entry in model["categories"] or []]
        expect(len({f for f, _ in lists}) == len(lists), "categories of each column once in the model")
        for f, values in lists:
            if values:
                self.listed.add(f)
                listed = values if type(values[0]) is float else [*range(len(values))]
                self.codes[f] = set(read(listed, [float], "categories of the model"))

    def is_left(self, node: int, x: float) -> bool:
        """Tell whether a split sends a value left."""
        if x == inf:
            return bool(self.missing_left[node])
        return x in self.sets[node] if self.threshold[node] is None else x <= self.threshold[node]

    def totals(self, row: list[float]) -> list[int]:
        """Return the votes, or the sums in units, of all classes."""
        totals = list(self.base)
        for node in self.roots:
            while (f := self.feature[node]) >= 0:
                node = node + 1 if self.is_left(node, row[f]) else self.right[node]
            if self.is_vote:
                totals[self.leaf[node]] += 1
            else:
                totals = list(map(add, totals, self.scores[self.leaf[node]]))
        return totals

    def lead(self, leaf: int, rival: int, own: int) -> int:
        """Return what a leaf of some value adds to the rival's lead over the own class."""
        if self.is_vote:
            return (leaf == rival) - (leaf == own)
        return self.scores[leaf][rival] - self.scores[leaf][own]


# ---- Who attacks -----------------------------------------------------------------------------------------------------


class Column(NamedTuple):
    """What a feature may become: a number, one of some values, or what rules lead to."""

    low: float = -LARGEST
    high: float = LARGEST
    integer: bool = False
    hole: tuple[float, float] = NOWHERE  # numbers that count as missing: nobody goes there
    down: float = 1.0  # the unit of moves down, 0 if there are none
    up: float = 1.0
    values: Collection[float] | None = None  # if it is one of these, ...
    is_open: bool = False  # ... or any other whole number, of which one is among them: they are all alike; ...
    change: Fraction | None = None  # ... what another one costs; None if it stays
    rules: list[dict[str, Any]] | None = None  # if it moves by rules; an empty list where it is frozen
    blank: Fraction | None = None  # what it costs to blank or to fill it; None if nobody can

    def allows(self, x: float) -> bool:
        """Tell whether a number may be here."""
        is_clear = not self.hole[0] <= x <= self.hole[1]
        return self.low <= x <= self.high and is_clear and not (self.integer and x % 1)


class Attacker:
    """What the header says about the attacker; what that means at a row says `Reach`."""

    def __init__(self, entries: Any, model: Model) -> None:
        entries = read(entries, ATTACKER, "the attacker")
        norm, self.eps, self.model = entries["norm"], entries["eps"], model
        expect(norm == "inf" or (type(norm) is int and 0 <= norm <= 100), 'a whole number up to 100 or "inf" as norm')
        expect(norm != 0 or self.eps < 1 or self.eps % 1 == 0, "eps to be whole for norm 0")
        self.norm: Any = inf if norm == "inf" else norm
        may_blank = model.takes_missing and entries["missing"] is not None
        self.missing = Fraction(entries["missing"]) if may_blank else None
        self.groups: list[list[int]] = []
        self.place_in: dict[int, tuple[int, int]] = {}  # column of a group -> the group's feature, and its value there
        self.columns: dict[int, Column] = {}  # by feature; others are numbers as usual
        self.usual, self.words, named = Column(blank=self.missing), {"missing"} if may_blank else set(), []
        for said in entries["columns"] or []:
            kind = next((kind for kind in COLUMNS if kind in said), "")
            expect(kind, f"columns that are {', '.join(COLUMNS)}; are they of a newer format")
            options = {k: v for k, v in read(said, COLUMNS[kind], "columns").items() if v is not None}
            self.words |= options.keys()
            columns = options.pop(kind)
            named += columns
            self._add(kind, columns, options)
        is_sound = all(0 <= f < model.n_features for f in named) and len(set(named)) == len(named)
        expect(is_sound, "columns that there are, each once, in the attacker")
        self._add("numbers", [*{*model.categories, *model.required, *model.blanks}.difference(named)], {})

    def _add(self, kind: str, columns: list[int], options: dict[str, Any]) -> None:
        """Put together what header and model say about some columns."""
        model, rules = self.model, options.get("rules")
        is_plain = kind not in ("one_hot", "ruled") and not options.get("integer")
        is_sound = is_plain or model.blanks.keys().isdisjoint(columns)
        expect(is_sound, "no numbers that count as missing where columns are integer, one-hot or ruled")
        if rules is not None:
            expect(self.norm == 1, "norm 1 where there are rules")
            options["rules"] = rules = [read(rule, ADD if "add" in rule else BECOME, "a rule") for rule in rules]
        if kind == "one_hot":  # another place is a move of 1 in their scale, unless there are rules
            scale, group = options.get("scale", 1.0), model.n_features + len(self.groups)
            places = {*map(float, range(len(columns)))}
            is_sound = rules is None or ("scale" not in options and all(rule.get("become") in places for rule in rules))
            expect(is_sound, "one scale for one-hot columns, or rules that lead to places of columns")
            self.columns[group] = Column(values=places, change=1 / Fraction(scale) if scale else None, rules=rules)
            self.place_in |= {f: (group, place) for place, f in enumerate(columns)}
            self.groups.append(columns)
            return
        if kind == "categories":
            expect(model.numbers.isdisjoint(columns), "categories of columns that the model takes for categories")
            options["change"] = Fraction(options.pop("cost"))
        for f in columns:
            is_held = kind == "frozen" or (kind == "numbers" and f in model.categories)
            blank = None if f in model.required else self.missing
            column = Column(hole=model.blanks.get(f, NOWHERE), blank=blank, **options)
            if kind == "categories":
                column = column._replace(values=self._categories(f, column), is_open=f not in model.listed)
            self.columns[f] = column._replace(rules=[]) if is_held else column

    def _categories(self, f: int, column: Column) -> set[float]:
        """Return the values of a category that can be told apart, and one in no set if they are not listed.

        If there is any, then the first is the smallest number, or comes right after one in a set, or after the hole.
        """
        known = self.model.codes.get(f, set())
        if f in self.model.listed:
            return known
        after = {
            max(v // 1 + 1, nextafter(v, inf)) for v in (*known, -1.0, column.hole[1])
        }  # beyond 2**53, + 1 is lost
        others = sorted(filter(column.allows, {*after, float(ceil(column.low))} - known))
        return known | {*others[-1:]}

    def values(self, row: list[float | None], name: str) -> list[float]:
        """Return the values of a row's features, groups last, inf for what is missing; refuse a row that cannot be."""
        model = self.model
        expect(len(row) == model.n_features, f"{model.n_features} features in {name}")
        if None in row:
            never = {*model.required, *self.place_in} if model.takes_missing else range(len(row))
            expect(all(row[f] is not None for f in never), f"no value to be missing in {name} where none may be")
        values = [inf if x is None else x for x in row]
        numbers = (column.allows(values[f]) for f, column in self.columns.items() if f < len(row) and values[f] < inf)
        expect(all(numbers), f"{name} inside the domain, whole where it must be, and null for blanks")
        for group in self.groups:
            hot = [values[f] for f in group]
            expect(sorted(hot) == [0.0] * (len(group) - 1) + [1.0], f"{name} to be one-hot where it must be")
            values.append(float(hot.index(1.0)))
        return values


# ---- What the attacker can do at a row -------------------------------------------------------------------------------

Region = tuple[float, ...]  # values of a feature, in order
Box = dict[int, Region]  # by feature; a feature that is not there may take every value in its reach
Cost = tuple[int, Fraction]  # share of the budget: in 1 / ONE, rounded down; and exact, before the power of the norm
FREE: Cost = 0, Fraction(0)


class Reach(dict):
    """What the attacker can do at a row: feature -> the values that it can take alone, found when asked for.

    Thresholds cut numbers into pieces on which no tree changes, and of each piece the number nearest to the row's will
    do: nobody gets more, or gets it for less, with another one. Features pay from one budget: p-th powers for norm p.
    There is no such budget for L-inf, nor for an eps of inf.
    """

    def __init__(self, attacker: Attacker, row: list[float], eps: float) -> None:
        self.attacker, self.row, self.norm, self.eps, self.steps = attacker, row, attacker.norm, eps, 0
        self.has_budget, self.power = self.norm < inf and eps < inf, 1 if self.norm in (0, inf) else self.norm
        self.budget = Fraction(eps) ** self.power if self.has_budget else Fraction(0)
        self.costs: dict[int, dict[float, Cost]] = {}

    def __missing__(self, f: int) -> Region:
        x, column = self.row[f], self._column(f)
        costs = {} if column.rules is None else self._by_rules(x, column.rules)
        for way in self._ways(f, x, column) if column.rules is None else []:
            for z in way:
                if (cost := self.cost(f, z)) is None:
                    break  # what follows costs no less
                costs[z] = cost
        self.costs[f] = costs | {x: FREE}
        self[f] = tuple(sorted(self.costs[f]))
        self.charge(len(self[f]))
        return self[f]

    def _ways(self, f: int, x: float, column: Column) -> list[Iterable[float]]:
        """Return the values that matter, way by way, from cheap to dear."""
        ways: list[Iterable[float]] = [column.values or ()]
        if column.values is None:
            cuts, high = self.attacker.model.cuts.get(f, []), column.high
            place = bisect_left(cuts, x)
            ways = [reversed(cuts[:place]), (nextafter(v, inf) for v in cuts[place:])]
            if x == inf:  # what is filled may be anything
                ways = [(min(v, high) for v in (*cuts, high)), ()]
            if column.integer:  # the last whole number below, the first one above
                ways = [(z // 1 for z in ways[0]), (-(-z // 1) for z in ways[1])]
        return [*(filter(column.allows, way) for way in ways), () if column.blank is None else (inf,)]

    def cost(self, f: int, z: float) -> Cost | None:
        """Return what it costs to bring a feature to a value that it may have; None if nobody can."""
        x, column = self.row[f], self._column(f)
        if z == x:
            return FREE
        if column.rules is not None:
            return self.costs[f].get(z) if z in self[f] else None
        if column.values is not None or inf in (x, z):
            told = column.blank if inf in (x, z) else column.change
            is_known = z == inf or column.values is None or z in column.values or (column.is_open and z % 1 == 0)
            return self._share(told.numerator, told.denominator) if is_known and told is not None else None
        scale = column.up if x < z else column.down
        (a, b), (c, d), (m, n) = x.as_integer_ratio(), z.as_integer_ratio(), scale.as_integer_ratio()
        return self._share(abs(a * d - c * b) * n, b * d * m) if scale else None

    def _share(self, n: int, d: int) -> Cost | None:
        """Return what a move of n / d costs; None if the attacker cannot pay for it alone."""
        if self.norm == 0:
            n = d = 1
        if n == 0 or self.eps == inf:
            return FREE
        a, b = self.eps.as_integer_ratio()
        n, d = n * b, d * a
        if n > d or self.norm == inf:
            return None if n > d else FREE
        share = Fraction(n, d)
        self.charge(self.power * d.bit_length() >> 8)
        return share.numerator**self.power * ONE // share.denominator**self.power, share

    def _by_rules(self, x: float, rules: list[dict[str, Any]]) -> dict[float, Cost]:
        """Return the values that rules lead to, and the least cost of each."""
        found: dict[float, Cost] = {}
        waiting, steps = [(Fraction(0), x)], 400 + sum(1 + len(rule.get("values", ())) for rule in rules)
        while waiting:
            cost, value = heapq.heappop(waiting)
            share = self._share(cost.numerator, cost.denominator)
            if value in found or share is None:
                continue
            found[value] = share
            self.charge(steps)
            for rule in rules:
                if "add" in rule:
                    low, high = (end if v is None else v for v, end in ((rule["low"], -inf), (rule["high"], LARGEST)))
                    applies, new = low <= value <= high, value + rule["add"]
                else:
                    applies, new = value in rule["values"], rule["become"]
                more = cost + Fraction(rule["cost"])
                if applies and new not in found and more <= self.eps:
                    expect(isfinite(new), "finite values by rules")
                    heapq.heappush(waiting, (more, new))
            expect(len(found) + len(waiting) <= MOST_WAYS, f"up to {MOST_WAYS} ways by rules")
        return found

    def affords(self, box: Box) -> bool:
        """Tell whether the attacker can pay for a value in each of the regions."""
        if not self.has_budget:
            return True
        self.charge(len(box))
        return self.pays([cost for f, region in box.items() if (cost := self._cheapest(f, region)) is not FREE])

    def _cheapest(self, f: int, region: Region) -> Cost:
        """Return the least cost of a region's values."""
        x, costs = self.row[f], self.costs[f]
        place = bisect_left(region, x)
        if place < len(region) and region[place] == x:
            return FREE
        if not self._column(f).rules:  # then it is a neighbour of the row's value, or to go missing, which comes last
            region = (*region[max(place - 1, 0) : place + 1], region[-1])
        self.charge(len(region))
        return min(map(costs.__getitem__, region))

    def _column(self, f: int) -> Column:
        return self.attacker.columns.get(f, self.attacker.usual)

    def pays(self, costs: list[Cost]) -> bool:
        """Tell whether costs are within the budget together."""
        at_least = sum(cost for cost, _ in costs)
        if not at_least <= ONE < at_least + len(costs):
            return at_least <= ONE
        bits = self.power * sum(share.denominator.bit_length() for _, share in costs)
        self.charge(len(costs) * (1 + (bits * bits >> 20)))
        return sum(share**self.power for _, share in costs) <= 1

    def charge(self, steps: int) -> None:
        """Count steps, and give up on a proof that takes too many."""
        self.steps += steps
        if self.steps > MOST_STEPS:
            raise Refusal(f"Expected a proof of up to {MOST_STEPS} steps, got a longer one.")


# ---- The bound -------------------------------------------------------------------------------------------------------


class Proof:
    """A proof that no rival wins anywhere in reach of a row: boxes that cover it, each with a bound below a win."""

    def __init__(self, model: Model, reach: Reach, own: int, margin: Fraction) -> None:
        self.model, self.reach, self.own, self.margin = model, reach, own, margin
        self.cells: dict[int, dict[float, int]] = {}  # feature -> the cell that each of its values is in
        self.n_cells: dict[int, int] = {}
        self.leaves: list[set[int]] = []  # in reach, tree by tree

    def check(self, proof: Any) -> None:
        """Refuse the proof unless it holds for every rival."""
        proof = read(proof, PROOF, "the proof")
        for f, cuts in proof["cuts"]:
            expect(all(map(lt, cuts, cuts[1:])) and self._feature(f) not in self.cells, "cuts that increase, once")
            self.cells[f] = {z: bisect_left(cuts, z) for z in self.reach[f]}
            self.n_cells[f] = len(cuts) + 1
        rivals = [read(part.pop("rival", None), int, "a rival") for part in proof["rivals"]]
        others = [c for c in range(len(self.model.classes)) if c != self.own]
        expect(sorted(rivals) == others, "one part of the proof for each rival")
        self.leaves = [{leaf for leaf, _ in self._leaves(root, {})} for root in self.model.roots]
        for rival, part in zip(rivals, proof["rivals"], strict=True):
            self._check_rival(rival, part)

    def _feature(self, f: int) -> int:
        attacker, n_features = self.reach.attacker, self.model.n_features
        is_known = 0 <= f < n_features + len(attacker.groups) and f not in attacker.place_in
        expect(is_known, "a proof to name features by their indices, and groups instead of their columns")
        return f

    def _check_rival(self, rival: int, part: Any) -> None:
        """Follow the splits. A box is written as the regions of the features that were split."""
        boxes: list[tuple[Any, Box]] = [(part, {})]
        while boxes:
            node, box = boxes.pop()
            self.reach.charge(1 + len(box))
            if type(node) is not dict or "split" not in node:
                is_proved = self._excludes(rival, read(node, BOUND, "a part of the proof"), box)
                expect(is_proved, f"a bound that excludes that class {rival} wins")
                continue
            node = read(node, SPLIT, "a split of the proof")
            f, v = self._feature(node["split"][0]), node["split"][1]
            region = box.get(f) or self.reach[f]
            place = bisect_right(region, v)
            for side, inside in (("low", region[:place]), ("high", region[place:])):
                if inside and self.reach.affords({**box, f: inside}):  # else nobody gets there
                    boxes.append((node[side], {**box, f: inside}))

    def _sides(self, node: int, f: int, region: Region) -> tuple[Region, Region]:
        """Return which values a split sends left, and which right; of a group, if the split is on its column."""
        model, column, v = self.model, self.model.feature[node], self.model.threshold[node]
        if v is not None and f == column:
            place = bisect_right(region, v)
            left, right = region[:place], region[place:]
            is_moved = region[-1] == inf and model.missing_left[node]
            return ((*left, inf), right[:-1]) if is_moved else (left, right)
        own = self.reach.attacker.place_in[column][1] if f != column else None
        is_left = [model.is_left(node, z if own is None else float(z == own)) for z in region]
        sides = [tuple(z for z, here in zip(region, is_left, strict=True) if here == side) for side in (True, False)]
        return sides[0], sides[1]

    def _leaves(self, root: int, box: Box) -> Iterator[tuple[int, Box]]:
        """Yield the values of a tree's leaves in reach within a box, and the regions that box and path leave."""
        model, reach, steps, nodes = self.model, self.reach, 0, [(root, box)]
        feature, threshold, right, place_in = model.feature, model.threshold, model.right, reach.attacker.place_in
        while nodes:
            node, box = nodes.pop()
            while (f := feature[node]) >= 0:
                v, f, steps = threshold[node], place_in[f][0] if f in place_in else f, steps + 1
                region = box.get(f) or reach[f]
                if v is not None and f < model.n_features and (region[-1] <= v or v < region[0] <= region[-1] < inf):
                    node = node + 1 if region[-1] <= v else right[node]  # as nearly always
                    continue
                reach.charge(len(region) + len(box))
                sides = self._sides(node, f, region)
                if all(sides):
                    for child, side in ((right[node], sides[1]), (node + 1, sides[0])):
                        if reach.affords({**box, f: side}):
                            nodes.append((child, {**box, f: side}))
                    break
                node = node + 1 if sides[0] else right[node]
            else:
                yield model.leaf[node], box
        reach.charge(steps)

    def _excludes(self, rival: int, node: dict[str, Any], box: Box) -> bool:
        """Tell whether the bound on the rival's lead within a box is below what the rival needs to win.

        What is compared with 0 is multiplied by ``scale``, which makes leads and tables whole, and by ``q`` for prices.
        """
        model, reach = self.model, self.reach
        (a, scale), (p, q) = node["unit"] or (1, 1), node["lambda"] or (0, 1)
        expect(a >= 0 and scale > 0 and p >= 0 and q > 0, "unit and lambda to be a numerator and a denominator")
        a *= model.unit
        expect(p == 0 or reach.has_budget, "lambda 0 where no budget is shared")
        tables: dict[int, dict[int, list[int]]] = {}  # tree -> feature -> what the tree pays in each cell
        paid: dict[int, list[list[int]]] = {}  # feature -> the tables of all trees
        for tree, f, m in node["tables"] or []:
            is_known = 0 <= tree < len(model.roots) and self._feature(f) not in tables.setdefault(tree, {})
            expect(is_known and len(m) == self.n_cells.get(f, 1), "a table for a tree and a feature, a number per cell")
            tables[tree][f] = m
            paid.setdefault(f, []).append(m)

        def adds(tree: int, leaf: int, inner: Box) -> int:
            pays = sum(self._least(f, m, inner.get(f) or reach[f]) for f, m in tables.get(tree, {}).items())
            return scale * model.lead(leaf, rival, self.own) - a * pays

        # To win, the rival must lead by 0, by 1 if it loses ties, or by minus the margin if there is one.
        needed = -self.margin if self.margin else int(rival > self.own)
        if model.is_vote and len(model.classes) == 2:
            needed += (needed - len(model.roots)) % 2  # every tree adds 1 or -1, so that leads are all odd or all even
        total: Any = scale * (model.base[rival] - model.base[self.own] - needed)
        reach.charge(len(model.roots))
        for tree, root in enumerate(model.roots):
            is_known = tree not in tables and (not box or len(self.leaves[tree]) == 1)
            leaves = ((leaf, box) for leaf in self.leaves[tree]) if is_known else self._leaves(root, box)
            total += max(adds(tree, leaf, inner) for leaf, inner in leaves)
        weight = Fraction(p, q) * model.unit * scale * reach.budget  # of the whole budget
        p, q = weight.numerator, weight.denominator
        received = []  # by feature, by value: what trees pay there, and what it costs to get there
        for f in {*paid, *box}:
            region, cells = box.get(f) or reach[f], self.cells.get(f, {})
            sums = [*map(sum, zip(*paid.get(f, ()), strict=True))] or [0] * self.n_cells.get(f, 1)
            reach.charge(len(region) * (1 + (p.bit_length() + q.bit_length() >> 10)))
            received.append([(a * sums[cells.get(z, 0)], reach.costs[f][z]) for z in region])

        def bound(one: int, share: Callable[[Cost], Any]) -> Any:
            return one * (p + q * total) + sum(max(one * q * m - p * share(cost) for m, cost in f) for f in received)

        return bound(ONE, lambda cost: cost[0]) < 0 or (p > 0 and bound(1, lambda cost: cost[1] ** reach.power) < 0)

    def _least(self, f: int, m: list[int], region: Region) -> int:
        """Return the least number of a table in the cells of some values."""
        self.reach.charge(len(region))
        return min(map(m.__getitem__, map(self.cells[f].__getitem__, region))) if f in self.cells else m[0]


# ---- Rows and what is said about them --------------------------------------------------------------------------------


class Audit:
    """Checks rows one by one; keeps counts, and the first ten rows in doubt."""

    def __init__(self, header: Any, model: Model) -> None:
        header = read(header, HEADER, "the header of a certificate")
        if header["model_sha256"] != model.sha256:
            raise Refusal("Model and certificate do not belong together: the certificate names another SHA-256.")
        classes = [*map(type, header["classes"])], header["classes"]
        expect(classes == ([*map(type, model.classes)], model.classes), "the model's classes in the header")
        self.model, self.attacker, self.attacked = model, Attacker(header["attacker"], model), header["attacked"]
        self.margin = Fraction(header["margin"]) * model.unit
        self.form, has_radius = ROW | (RADIUS if header["radius"] else {}), header["radius"]
        expect(not self.margin or not (model.is_vote or has_radius), "margin 0, or above for sums without radii")
        expect(not (has_radius and "rules" in self.attacker.words), "no radii where there are rules")
        labels = self.attacked or []
        is_known = {*map(type, labels)} <= {type(model.classes[0])} and set(labels) <= set(model.classes)
        expect(is_known, "attacked to hold classes of the model")
        names = ("stable", "unstable", "open", "not proved", "refuted")
        self.counts = dict.fromkeys(names if self.attacked is None else (*names, "not attacked"), 0)
        self.doubts: list[str] = []

    def add(self, line: Any, name: str) -> None:
        """Check a row."""
        line = read(line, self.form, name)
        row = self.attacker.values(line["row"], name)
        try:
            is_attacked = self._check(row, line)
            kind = ("unstable", "stable", "open")[line["stable"]]
            self.counts[kind if is_attacked else "not attacked"] += 1
        except Refusal as refusal:
            self.counts[refusal.kind] += 1
            if len(self.doubts) < 10:
                self.doubts.append(f"{name} is {refusal.kind}. {refusal}")

    def _check(self, row: list[float], line: dict[str, Any]) -> bool:
        """Refuse the row unless all that is said about it holds; tell whether it is attacked."""
        totals, eps, stable = self.model.totals(row), self.attacker.eps, line["stable"]
        own = totals.index(max(totals))
        label, said = self.model.classes[own], line["prediction"]
        expect(is_among(said, [label]), f"the prediction {shown(label)}, got {shown(said)}", "refuted")
        lower, upper = self._radius(line.get("radius"), 0.0), self._radius(line.get("radius_upper"), inf)
        truth = said if line["label"] is None else line["label"]
        if self.attacked is not None and not is_among(truth, self.attacked):
            is_spared = stable == 1 and upper == inf and line["proof"] is None is line["witness"]
            expect(is_spared, "a row that is not attacked to be stable, without proof, witness and radius")
            return False
        expect(stable == 0 or line["witness"] is None, "a witness for unstable rows only")
        expect(stable == 1 or line["proof"] is None, "a proof for stable rows only")
        if stable == 1:
            self._check_proof(row, eps, own, line["proof"])
        if stable == 0:
            self._check_witness(row, eps, own, line["witness"])
            others = [total for c, total in enumerate(totals) if c != own]
            is_ahead = not self.margin or totals[own] - max(others) > self.margin
            expect(is_ahead, "an unstable row to be beyond the margin itself")
        expect(lower <= upper, "a radius up to its upper bound, got a larger one", "refuted")
        below = lower if lower == inf else nextafter(lower, -inf)
        if self.attacker.norm == 0 and below < inf:
            below -= below % 1
        if below > (eps if stable == 1 else 0):  # else the verdict says so already, or there is nothing to say
            self._check_proof(row, below, own, line["radius_proof"])
        if upper < inf:
            self._check_witness(row, upper, own, line["radius_witness"])
        return True

    @staticmethod
    def _radius(value: Any, default: float) -> float:
        return default if value is None else inf if value == "inf" else read(value, Size, "a radius")

    def _check_proof(self, row: list[float], eps: float, own: int, proof: Any) -> None:
        Proof(self.model, Reach(self.attacker, row, eps), own, self.margin).check(proof)

    def _check_witness(self, row: list[float], eps: float, own: int, witness: list[float | None] | None) -> None:
        """Refuse a witness that is not in reach, or not predicted otherwise (by more than the margin)."""
        other, reach = self.attacker.values(witness or [], "a witness"), Reach(self.attacker, row, eps)
        moved = [(f, z) for f, z in enumerate(other) if z != row[f] and f not in self.attacker.place_in]
        costs = [cost for f, z in moved if (cost := reach.cost(f, z)) is not None]
        expect(len(costs) == len(moved) and reach.pays(costs), "a witness within the attacker's reach")
        totals = self.model.totals(other)
        wins = max(totals) - totals[own] > self.margin if self.margin else totals.index(max(totals)) != own
        expect(wins, "a witness that is predicted otherwise")


# ---- The program -----------------------------------------------------------------------------------------------------


def audit(model_file: BinaryIO, certificate: BinaryIO) -> Audit:
    """Check a whole certificate."""
    model = Model(parse(model_file.read(), "the model"))
    longest = LONGEST_LINE + 200 * model.n_features
    found, n_rows = Audit(parse(certificate.readline(longest), "the first line of the certificate"), model), 0
    while line := certificate.readline(longest):
        expect(len(line) < longest, f"lines below {longest} bytes")
        name = f"row {n_rows} (line {n_rows + 2})"
        entries = parse(line, name)
        if type(entries) is dict and "end" in entries:
            is_end = read(entries, {"end": int}, "the last line")["end"] == n_rows and not certificate.read(1)
            expect(is_end, f"a last line that says {n_rows}, the number of rows")
            return found
        found.add(entries, name)
        n_rows += 1
    raise Refusal(f"Expected a line that ends the certificate, got none after {n_rows} rows: the file was cut short.")


def main(argv: list[str] | None = None) -> int:
    """Run the program and return its exit code."""
    paths = sys.argv[1:] if argv is None else argv
    try:
        expect(len(paths) == 2, "two files, MODEL and CERTIFICATE")
        with open(paths[0], "rb") as model_file, open(paths[1], "rb") as certificate:
            found = audit(model_file, certificate)
    except (Refusal, OSError) as error:
        sys.stderr.write(f"certiforest: error: {error}\n")
        return 2
    counts = ", ".join(f"{count} {name}" for name, count in found.counts.items())
    outcome = "Not every statement is confirmed." if found.doubts else "Every statement is confirmed."
    first = f"Attacker: norm {found.attacker.norm}, eps {found.attacker.eps!r}."
    if found.attacker.words:
        first += f" The header says more: {', '.join(sorted(found.attacker.words))}."
    if found.attacked is not None:
        first += f" Only rows of these classes are attacked: {', '.join(map(shown, found.attacked))}."
    sys.stdout.write("\n".join([first, f"Rows: {counts}.", *found.doubts, outcome]) + "\n")
    return 1 if found.doubts else 0


if __name__ == "__main__":
    sys.exit(main())

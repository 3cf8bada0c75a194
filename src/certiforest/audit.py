"""The auditor: checks every statement of a certificate file against a model file, exactly, and alone.

    python -I audit.py MODEL CERTIFICATE

It needs Python's standard library only, shares no code with the programs that make certificates, and believes no number
that it can compute. Exit code 0: all statements confirmed; 1: something is refuted or not proved; 2: bad input.
What can be stated stands in one table, `STATEMENTS`, with a function for each kind that refuses what does not hold. The
files and the bound are described in docs/certificate_format.md, docs/file_format.md and docs/proofs.md; certificates to
check by hand are in docs/tiny_certificates.

Whatever an attacker may do, a feature has a few values that matter, each with a cost: see `Reach`. What decides is
arithmetic on whole numbers. Values are float64 numbers; inf, above all of them, stands for a value that is missing. A
group of one-hot columns is one more feature, number n_features + g for group g, whose value is the place of the column
that is set: 0 for the first one. Its columns themselves then count for nothing.
"""

from __future__ import annotations

import hashlib
import heapq
import json
import sys
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator
from fractions import Fraction
from math import ceil, inf, isfinite, lcm, nextafter
from operator import add, lt
from typing import Any, BinaryIO, NamedTuple, NewType

LARGEST = sys.float_info.max
LONGEST_LINE = 2**24  # bytes of a line of the certificate, and 200 more for every feature
MOST_STEPS = 10**8  # for all that is said about a row, each about a microsecond: a minute or two
MOST_WAYS = 2 * 10**5  # by rules, to values of all features of a row
MOST_CODES = 10**5  # in sets of values, counted for each feature that has them; and one for every 8 bytes of the model
DIGITS = 128  # costs are in 2**-DIGITS of the budget, rounded down, unless that leaves a question open

# ---- Files -----------------------------------------------------------------------------------------------------------

# Forms, as `read` takes them: [form] is a list of any length, (form, form) one of this length, {key: form} an object,
# in which a key with a question mark may be missing or null; float is a finite number, None the same or null, a range
# a whole number in it, text itself, object anything. Those of statements stand in `STATEMENTS`.
Size = NewType("Size", float)  # as a form: at least 0
Price = NewType("Price", float)  # above 0, so that nothing can be changed for nothing
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


def is_number(value: Any) -> bool:
    """Tell whether something is a finite number that float64 has: larger whole numbers would be rounded."""
    return abs(value) <= 2**53 if type(value) is int else type(value) is float and isfinite(value)


def read(value: Any, form: Any, name: str) -> Any:
    """Return a value if it has this form, optional keys as None where they are missing, and refuse it otherwise."""
    if type(form) is dict:
        expect(type(value) is dict, f"{name} to be an object")
        known = {key.rstrip("?"): key for key in form}
        newer = next((shown(key) for key in value if key not in known and form is not MODEL), None)  # models say more
        expect(newer is None, f"known keys in {name}, not {newer}: is it of a newer format")
        given = ((plain, key, value.get(plain)) for plain, key in known.items())
        return {k: None if v is None and k != key else read(v, form[key], f"{k} of {name}") for k, key, v in given}
    if type(form) in (list, tuple):
        expect(type(value) is list, f"{name} to be a list")
        forms = form * len(value) if type(form) is list else form
        expect(len(value) == len(forms), f"{name} to be a list of {len(forms)}")
        kinds = set(map(type, value))  # long lists are taken as they are
        if form == [object] or (form == [int] and kinds <= {int}):
            return value
        if form in ([float], [None]) and all(map(isfinite if kinds <= {float} else is_number, value)):
            return value
        return [read(entry, part, name) for entry, part in zip(value, forms, strict=True)]
    if form in (float, Size, Price) or (form is None and value is not None):
        expect(is_number(value), f"{name} to be a finite number")
        expect(form is not Size or value >= 0, f"{name} >= 0")
        expect(form is not Price or value > 0, f"{name} > 0")
        return float(value)
    if type(form) is range:
        expect(type(value) is int and value in form, f"{name} to be a whole number from {form[0]} to {form[-1]}")
    elif type(form) is str:
        expect(value == form, f"{name} to be {form}")
    elif form not in (object, None):
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


# ---- The model -------------------------------------------------------------------------------------------------------


class Model:
    """The trees of a model file, flat and in preorder: the left child of node i is i + 1, the right one right[i].

    A leaf's value is a class to vote for, or a row of ``scores``: whole numbers of ``1 / unit``, one per class. The
    test of a split is a threshold, or a set: values up to the one, or in the other, go left.
    """

    def __init__(self, document: Any) -> None:
        said = read(document, MODEL, "the model")
        try:
            text = json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False)
        except (ValueError, RecursionError):
            raise Refusal("Expected a flat model of finite numbers, got something else.") from None
        self.sha256, self.size = hashlib.sha256(text.encode()).hexdigest(), len(text)
        expect(said["combine"] in ("vote", "sum"), 'combine of the model to be "vote" or "sum"')
        self.n_features, self.classes, self.is_vote = said["n_features"], said["classes"], said["combine"] == "vote"
        kinds = set(map(type, self.classes))
        expect(len(kinds) == 1 and kinds <= {bool, int, float, str}, "classes of the model to be labels of one type")
        self.labels, n = set(self.classes), len(self.classes)
        expect(len(self.labels) == n, "every class of the model once")
        self.unit, self.base, self.scores, self.widest = 1, [0] * n, list[list[int]](), 2  # bits of what leaves add
        if not self.is_vote:
            table = [said["base"] or [], *(said["scores"] or [])]
            width, numbers = len(table[0]), {v for row in table for v in row}
            expect(width == n or (width, n) == (1, 2), "base to be one number per class, or a single one for two")
            expect(all(len(row) == width for row in table), "rows of scores as long as base")
            # Denominators of floats are powers of two: the largest serves all. A single score is of the second class.
            self.unit = max(v.as_integer_ratio()[1] for v in numbers)
            whole = {v: int(Fraction(v) * self.unit) for v in numbers}
            self.widest += max(map(int.bit_length, whole.values()))
            self.base, *self.scores = [[0] * (n - width) + [whole[v] for v in row] for row in table]
        self._read_nodes(said)
        self._read_columns(said)

    def _read_nodes(self, said: dict[str, Any]) -> None:
        n, n_values, subsets = (
            len(said["feature"]),
            len(self.base if self.is_vote else self.scores),
            said["subsets"] or [],
        )
        self.feature, self.leaf, thresholds = said["feature"], said["leaf"], said["threshold"]
        self.takes_missing = said["missing_left"] is not None
        self.missing_left, numbers = said["missing_left"] or [0] * n, said["subset"] or [-1] * n
        columns = self.feature, self.leaf, thresholds, self.missing_left, numbers
        expect({*map(len, columns)} == {n} != {0}, "feature, threshold, leaf, missing_left, subset of one length")
        self.right, self.roots, waiting = [-1] * n, list[int](), list[int]()
        self.cuts: dict[int, Any] = {}  # feature -> its thresholds, in order
        self.codes: dict[int, set[float]] = {}  # feature -> its values in sets
        sets, seen, n_codes = {-1: frozenset[float]()}, set[tuple[int, int]](), 0
        # After a leaf comes the right child of the last split that has none yet, or another tree.
        for node, (f, leaf, v, m, s) in enumerate(zip(*columns, strict=True)):
            if node == 0 or self.feature[node - 1] < 0:
                if waiting:
                    self.right[waiting.pop()] = node
                else:
                    self.roots.append(node)
            if f < 0:
                expect(f == -1 and 0 <= leaf < n_values, "leaves with a class or a row of scores")
                continue
            waiting.append(node)
            is_sound = f < self.n_features and m in (0, 1) and -1 <= s < len(subsets)
            expect(is_sound and (v is None or s == -1), "splits on features, with a threshold or a set of values")
            if v is not None:
                self.cuts.setdefault(f, set()).add(v)
            elif s >= 0 and (f, s) not in seen:
                seen.add((f, s))
                sets[s] = sets.get(s) or frozenset(subsets[s])
                n_codes += len(sets[s])
                expect(n_codes <= MOST_CODES + self.size // 8, "sets of values that fewer features share")
                self.codes.setdefault(f, set()).update(sets[s])
        expect(not waiting and self.feature[-1] < 0, "whole trees, not a last tree that is cut short")
        self.test: list[Any] = [sets.get(s) if v is None else v for v, s in zip(thresholds, numbers, strict=True)]
        expect(self.codes.keys().isdisjoint(self.cuts), "thresholds or sets of values for a feature, not both")

    def _read_columns(self, said: dict[str, Any]) -> None:
        """Find out which columns are never missing, which numbers count as missing, and what categories there are."""
        self.required, blanks, self.numbers = set(said["required"] or ()), said["blanks"] or [], {*self.cuts}
        self.blanks = {f: (low, high) for f, low, high in blanks}
        is_sound = all(0 <= f < self.n_features for f in {*self.required, *self.blanks})
        expect(is_sound and len(self.blanks) == len(blanks), "columns that there are in required and blanks, each once")
        expect(not blanks or self.takes_missing, "missing_left where numbers count as missing")
        for f, (low, high) in self.blanks.items():
            expect(low <= high, "ranges of numbers in blanks")
            self.cuts.setdefault(f, set()).update([nextafter(low, -inf), high])
        self.cuts = {f: sorted(cuts) for f, cuts in self.cuts.items()}
        # Categories are the whole numbers in sets, unless they are listed: as floats, or counted.
        self.in_sets, self.codes = {*self.codes}, {f: {v for v in v_s if v % 1 == 0} for f, v_s in self.codes.items()}
        lists = [read(entry[:2], (int, [object]), "categories of the model") for entry in said["categories"] or []]
        self.listed = {f for f, values in lists if values}
        expect(len({f for f, _ in lists}) == len(lists), "categories of each column once in the model")
        for f, values in lists:
            if values:
                listed = values if type(values[0]) is float else [*range(len(values))]
                self.codes[f] = set(read(listed, [float], "categories of the model"))

    def is_left(self, node: int, x: float) -> bool:
        """Tell whether a split sends a value left."""
        test = self.test[node]
        return self.missing_left[node] == 1 if x == inf else x in test if type(test) is frozenset else x <= test

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
        return (leaf == rival) - (leaf == own) if self.is_vote else self.scores[leaf][rival] - self.scores[leaf][own]


# ---- Who attacks -----------------------------------------------------------------------------------------------------


class Column(NamedTuple):
    """What a feature may become: a number, one of some values, or what rules lead to."""

    low: float = -LARGEST
    high: float = LARGEST
    integer: bool = False
    hole: tuple[float, float] = (inf, inf)  # numbers that count as missing: nobody goes there
    down: float = 1.0  # the unit of moves down, 0 if there are none
    up: float = 1.0
    values: Collection[float] | None = None  # if it is one of these, ...
    is_open: bool = False  # ... or any other whole number, of which one is among them: they are all alike; ...
    change: Fraction | None = None  # ... what another one costs; None if it stays
    rules: list[dict[str, Any]] | None = None  # if it moves by rules; an empty list where it is frozen
    blank: Fraction | None = None  # what it costs to blank or to fill it; None if nobody can

    def allows(self, x: float) -> bool:
        """Tell whether a number may be here."""
        return self.low <= x <= self.high and not (self.hole[0] <= x <= self.hole[1] or (self.integer and x % 1))


class Attacker:
    """What the header says about the attacker; what that means at a row says `Reach`."""

    def __init__(self, said: Any, model: Model) -> None:
        said = read(said, ATTACKER, "the attacker")
        norm, self.eps, self.model = said["norm"], said["eps"], model
        expect(norm == "inf" or (type(norm) is int and 0 <= norm <= 100), 'a whole number up to 100 or "inf" as norm')
        expect(norm != 0 or self.eps < 1 or self.eps % 1 == 0, "eps to be whole for norm 0")
        self.norm: Any = inf if norm == "inf" else norm
        may_blank = model.takes_missing and said["missing"] is not None
        self.missing = Fraction(said["missing"]) if may_blank else None
        self.groups: list[list[int]] = []
        self.place_in: dict[int, tuple[int, int]] = {}  # column of a group -> the group's feature, and its value there
        self.columns: dict[int, Column] = {}  # by feature; others are numbers as usual
        self.usual, self.words, named = Column(blank=self.missing), {"missing"} if may_blank else set(), []
        for entry in said["columns"] or []:
            kind = next((kind for kind in COLUMNS if kind in entry), "")
            expect(kind, f"columns that are {', '.join(COLUMNS)}; are they of a newer format")
            options = {k: v for k, v in read(entry, COLUMNS[kind], "columns").items() if v is not None}
            self.words |= options.keys()
            named += options[kind]
            self._add(kind, options.pop(kind), options)
        is_sound = all(0 <= f < model.n_features for f in named) and len(set(named)) == len(named)
        expect(is_sound, "columns that there are, each once, in the attacker")
        self._add("numbers", [*{*model.in_sets, *model.required, *model.blanks}.difference(named)], {})

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
        usual = Column(blank=self.missing, **options)
        for f in columns:
            column = usual
            if f in model.required or f in model.blanks:
                blank = None if f in model.required else self.missing
                column = column._replace(blank=blank, hole=model.blanks.get(f, column.hole))
            if kind == "categories":
                column = column._replace(values=self._categories(f, column), is_open=f not in model.listed)
            is_held = kind == "frozen" or (kind == "numbers" and f in model.in_sets)
            self.columns[f] = column._replace(rules=[]) if is_held else column

    def _categories(self, f: int, column: Column) -> set[float]:
        """Return the values of a category that can be told apart, and one in no set if they are not listed.

        If there is any, then the first is the smallest number, or comes right after one in a set, or after the hole.
        """
        known = self.model.codes.get(f, set())
        # Beyond 2**53, + 1 is lost.
        after = {max(v // 1 + 1, nextafter(v, inf)) for v in (*known, -1.0, column.hole[1])} | {float(ceil(column.low))}
        return known if f in self.model.listed else known | {*sorted(filter(column.allows, after - known))[-1:]}

    def values(self, row: list[float | None], name: str) -> list[float]:
        """Return the values of a row's features, groups last, inf for what is missing; refuse a row that cannot be."""
        model = self.model
        expect(len(row) == model.n_features, f"{model.n_features} features in {name}")
        never = {*model.required, *self.place_in} if model.takes_missing else range(len(row))
        is_sound = None not in row or all(row[f] is not None for f in never)
        expect(is_sound, f"no value to be missing in {name} where none may be")
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


class Reach(dict[int, Region]):
    """What the attacker can do at a row: feature -> the values that it can take alone, found when asked for.

    Thresholds cut numbers into pieces on which no tree changes, and of each piece the number nearest to the row's will
    do: nobody gets more, or gets it for less, with another one. Features pay from one budget: p-th powers for norm p.
    There is no such budget for L-inf. A cost is less than ``slack`` below the truth.
    """

    def __init__(self, attacker: Attacker, row: list[float], eps: float, charge: Callable[[int], None]) -> None:
        self.attacker, self.row, self.eps, self.charge = attacker, row, eps.as_integer_ratio(), charge
        self.has_budget, self.power = attacker.norm < inf, attacker.norm if 0 < attacker.norm < inf else 1
        self.slack, self.costs = self.power + 1, dict[int, dict[float, int]]()  # costs by feature and value
        self.ruled: dict[int, tuple[dict[float, int], int]] = {}  # the least prices by rules, and their denominator

    def __missing__(self, f: int) -> Region:
        x, column = self.row[f], self.attacker.columns.get(f, self.attacker.usual)
        ways: list[Iterable[float]] = [column.values or ()]  # values that matter, from cheap to dear
        if column.rules is not None:
            ways = [self._by_rules(f, column.rules)[0]]
        elif column.values is None:
            cuts, high = self.attacker.model.cuts.get(f, []), column.high
            place = bisect_left(cuts, x)
            ways = [reversed(cuts[:place]), (nextafter(v, inf) for v in cuts[place:])]
            if x == inf:  # what is filled may be anything
                ways = [(min(v, high) for v in (*cuts, high)), ()]
            if column.integer:  # the last whole number below, the first one above
                ways = [(z // 1 for z in ways[0]), (-(-z // 1) for z in ways[1])]
        return self.take(f, [*(filter(column.allows, way) for way in ways), () if column.blank is None else (inf,)])

    def take(self, f: int, ways: list[Iterable[float]]) -> Region:
        """Let a feature take values that it may have, of each way up to the first that nobody can pay for."""
        costs = self.costs[f] = {self.row[f]: 0}
        for way in ways:
            for z in way:
                if (share := self.share(f, z)) is None:
                    break
                n, d = share
                costs[z] = ((n << DIGITS) // d) ** self.power >> DIGITS * (self.power - 1) if self.has_budget else 0
        self.charge(len(costs) * (1 + self.power // 8))
        self[f] = tuple(sorted(costs))
        return self[f]

    def share(self, f: int, z: float) -> tuple[int, int] | None:
        """Return what share of eps it takes to bring a feature to a value; None if nobody can."""
        x, column = self.row[f], self.attacker.columns.get(f, self.attacker.usual)
        if z == x:
            return 0, 1
        if column.rules is not None:
            prices, d = self._by_rules(f, column.rules)
            n, d = (prices[z], d) if z in prices else (1, 0)
        elif column.values is not None or inf in (x, z):
            told = column.blank if inf in (x, z) else column.change
            is_known = z == inf or column.values is None or z in column.values or (column.is_open and z % 1 == 0)
            n, d = told.as_integer_ratio() if is_known and told is not None else (1, 0)
        else:
            (a, b), (c, d), (s, t) = (v.as_integer_ratio() for v in (x, z, column.up if x < z else column.down))
            n, d = abs(a * d - c * b) * t, b * d * s
        if self.attacker.norm == 0:
            n, d = 1, min(d, 1)
        n, d = n * self.eps[1], d * self.eps[0]
        return (n, d) if n <= d else None

    def _by_rules(self, f: int, rules: list[dict[str, Any]]) -> tuple[dict[float, int], int]:
        """Return the values that rules lead to and the least price of each, and what prices are whole numbers of."""
        if f in self.ruled:
            return self.ruled[f]
        unit = max((rule["cost"].as_integer_ratio()[1] for rule in rules), default=1)
        prices, most = [int(Fraction(rule["cost"]) * unit) for rule in rules], unit * self.eps[0] // self.eps[1]
        found, waiting, n_ways = (
            {self.row[f]: 0},
            [(0, self.row[f])],
            sum(len(known) for known, _ in self.ruled.values()),
        )
        steps = 10 + sum(5 + len(rule.get("values", ())) // 16 for rule in rules)
        while waiting:
            paid, value = heapq.heappop(waiting)
            self.charge(steps)
            for rule, price in zip(rules, prices, strict=True) if paid == found[value] else ():
                if "add" in rule:
                    low, high = (end if v is None else v for v, end in ((rule["low"], -inf), (rule["high"], inf)))
                    applies, new = low <= value <= high, value + rule["add"]
                else:
                    applies, new = value in rule["values"], rule["become"]
                if applies and paid + price <= most and paid + price < found.get(new, inf):
                    expect(isfinite(new), "finite values by rules")
                    found[new] = paid + price
                    heapq.heappush(waiting, (paid + price, new))
            expect(n_ways + len(found) + len(waiting) <= MOST_WAYS, f"up to {MOST_WAYS} ways by rules")
        self.ruled[f] = found, unit
        return self.ruled[f]

    def exactly(self, places: list[tuple[int, float]]) -> tuple[list[int], int]:
        """Return what it costs to bring features to values, exactly: whole numbers of 1 / the last number."""
        shares, one = [self.share(f, z) or (0, 1) for f, z in places], 1
        for _, d in shares:
            self.charge(1 + (one.bit_length() * d.bit_length() >> 20))
            one = lcm(one, d)
        self.charge(len(shares) * (1 + ((self.power * one.bit_length()) ** 2 >> 20)))
        return [(n * (one // d)) ** self.power for n, d in shares], one**self.power


class Box:
    """Features held to regions of their values, one change at a time, and what it costs to get there.

    Features that are not held may take every value in reach. A change is undone by putting back what was taken away, so
    that changes on top of each other hold no value twice.
    """

    def __init__(self, reach: Reach) -> None:
        self.reach, self.spent = reach, 0
        self.regions, self.costs = dict[int, Region](), dict[int, int]()

    def put(self, f: int, region: Region) -> bool:
        """Hold a feature to a region, or let it go if that is all of its reach; tell whether anyone can pay for it."""
        reach = self.reach
        self.spent -= self.costs.pop(f, 0)
        self.regions.pop(f, None)
        if len(region) < len(reach[f]):
            self.regions[f], self.costs[f] = region, min(map(reach.costs[f].__getitem__, region))
            self.spent += self.costs[f]
        reach.charge(1 + len(region) // 16)
        if not self.spent <= 1 << DIGITS < self.spent + reach.slack * len(self.costs):
            return self.spent <= 1 << DIGITS
        near = [[(f, z) for z in self.regions[f] if reach.costs[f][z] == cost] for f, cost in self.costs.items()]
        whole, one = reach.exactly([place for places in near for place in places])
        costs = iter(whole)
        return sum(min(next(costs) for _ in places) for places in near) <= one

    def walk(self, node: Any, fork: Callable[[Any], Any]) -> Iterator[Any]:
        """Yield where splits lead to from a node on, with the box held to it meanwhile.

        ``fork`` follows splits to one that cuts the box in two, and returns its feature, both regions and where they
        lead to; or to an end, which it returns.
        """
        waiting: list[tuple[bool, Any, int, Region]] = []  # whether and where to go on; what to give to a feature
        while True:
            found, goes_on = fork(node), False
            if type(found) is tuple:
                f, low, high, node, other = found
                waiting.append((True, other, f, high))
                goes_on = self.put(f, low)
            else:
                yield found
            while not goes_on:
                if not waiting:
                    return
                is_new, node, f, region = waiting.pop()
                here = self.regions.get(f) or self.reach[f]
                if is_new:
                    waiting.append((False, None, f, here))
                goes_on = self.put(f, region if is_new else tuple(sorted(here + region))) and is_new


# ---- The bound -------------------------------------------------------------------------------------------------------


class Proof:
    """A proof that no rival wins anywhere in reach of a row: boxes that cover it, each with a bound below a win."""

    def __init__(self, model: Model, reach: Reach, own: int, margin: Fraction) -> None:
        self.model, self.reach, self.own, self.margin, self.box = model, reach, own, margin, Box(reach)
        self.cells: dict[int, dict[float, int]] = {}  # feature -> the cell that each of its values is in
        self.n_cells: dict[int, int] = {}
        self.leaves: list[tuple[int, ...]] = []  # in reach, tree by tree

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
        self.leaves = [tuple({*self.box.walk(root, self._fork)}) for root in self.model.roots]
        for rival, part in zip(rivals, proof["rivals"], strict=True):
            for bound in self.box.walk(part, self._fork_of_proof):
                is_proved = self._excludes(rival, read(bound, BOUND, "a part of the proof"))
                expect(is_proved, f"a bound that excludes that class {rival} wins")

    def _feature(self, f: int) -> int:
        attacker, n_features = self.reach.attacker, self.model.n_features
        is_known = 0 <= f < n_features + len(attacker.groups) and f not in attacker.place_in
        expect(is_known, "a proof to name features by their indices, and groups instead of their columns")
        return f

    def _fork_of_proof(self, part: Any) -> Any:
        while type(part) is dict and "split" in part:
            part = read(part, SPLIT, "a split of the proof")
            f, v = self._feature(part["split"][0]), part["split"][1]
            region = self.box.regions.get(f) or self.reach[f]
            place = bisect_right(region, v)
            self.reach.charge(1 + len(region) // 16)
            if 0 < place < len(region):
                return f, region[:place], region[place:], part["low"], part["high"]
            part = part["low"] if place else part["high"]
        return part

    def _fork(self, node: int) -> Any:
        model, reach, regions, steps = self.model, self.reach, self.box.regions, 1
        feature, tests, place_in = model.feature, model.test, reach.attacker.place_in
        while (column := feature[node]) >= 0:
            test, steps = tests[node], steps + 1
            f, own = place_in.get(column, (column, None))
            region = regions.get(f) or reach[f]
            if (
                own is None
                and type(test) is not frozenset
                and (region[-1] <= test or test < region[0] <= region[-1] < inf)
            ):
                node = node + 1 if region[-1] <= test else model.right[node]  # as nearly always
                continue
            reach.charge(len(region))
            is_left = [model.is_left(node, z if own is None else float(z == own)) for z in region]
            if True in is_left and False in is_left:
                reach.charge(steps)
                both = [*zip(region, is_left, strict=True)]
                low, high = tuple(z for z, here in both if here), tuple(z for z, here in both if not here)
                return f, low, high, node + 1, model.right[node]
            node = node + 1 if is_left[0] else model.right[node]
        reach.charge(steps)
        return model.leaf[node]

    def _excludes(self, rival: int, said: dict[str, Any]) -> bool:
        """Tell whether the bound on the rival's lead within the box is below what the rival needs to win.

        What is compared with 0 is multiplied by ``scale``, which makes leads and tables whole, and by ``q`` for prices.
        """
        model, reach, box = self.model, self.reach, self.box
        (a, scale), (p, q) = said["unit"] or (1, 1), said["lambda"] or (0, 1)
        expect(a >= 0 and scale > 0 and p >= 0 and q > 0, "unit and lambda to be a numerator and a denominator")
        expect(p == 0 or reach.has_budget, "lambda 0 where no budget is shared")
        tables: dict[int, dict[int, list[int]]] = {}  # tree -> feature -> what the tree pays in each cell
        paid: dict[int, list[list[int]]] = {}  # feature -> the tables of all trees
        for tree, f, m in said["tables"] or []:
            is_known = 0 <= tree < len(model.roots) and self._feature(f) not in tables.setdefault(tree, {})
            expect(is_known and len(m) == self.n_cells.get(f, 1), "a table for a tree and a feature, a number per cell")
            tables[tree][f] = m
            paid.setdefault(f, []).append(m)
            self.cells.setdefault(f, dict.fromkeys(reach[f], 0))
        widest = max(
            (v.bit_length() for numbers in paid.values() for m in numbers for v in (min(m), max(m))), default=0
        )
        a, q = a * model.unit, q * reach.eps[1] ** reach.power
        p *= model.unit * scale * reach.eps[0] ** reach.power  # for the whole budget
        # To win, the rival must lead by 0, by 1 if it loses ties, or by minus the margin if there is one.
        needed = ceil(-self.margin) if self.margin else int(rival > self.own)
        if model.is_vote and len(model.classes) == 2:
            needed += (needed - len(model.roots)) % 2  # every tree adds 1 or -1, so that leads are all odd or all even
        per_leaf = 1 + (scale.bit_length() * model.widest + a.bit_length() * widest >> 20)
        per_value = 1 + (q.bit_length() * (a.bit_length() + widest) + p.bit_length() * DIGITS >> 20)

        def adds(tree: int, leaf: int) -> int:
            reach.charge(per_leaf)
            pays = 0
            for f, m in tables.get(tree, {}).items():
                region = box.regions.get(f) or reach[f]
                reach.charge(len(region))
                pays += min(map(m.__getitem__, map(self.cells[f].__getitem__, region)))
            return scale * model.lead(leaf, rival, self.own) - a * pays

        total = scale * (model.base[rival] - model.base[self.own] - needed)
        for tree, root in enumerate(model.roots):
            is_known = tree not in tables and (not box.regions or len(self.leaves[tree]) == 1)
            total += max(adds(tree, leaf) for leaf in (self.leaves[tree] if is_known else box.walk(root, self._fork)))
        places, gains = list[list[tuple[int, float]]](), list[list[int]]()  # values by feature; what trees pay there
        for f in {*paid, *box.regions}:
            region = box.regions.get(f) or reach[f]
            reach.charge(len(region) * per_value)
            sums = [a * sum(column) for column in zip(*paid.get(f, ()), strict=True)]
            gains.append([sums[self.cells[f][z]] for z in region] if sums else [0] * len(region))
            places.append([(f, z) for z in region])

        def bound(one: int, costs: Iterator[int]) -> int:
            return one * (p + q * total) + sum(max(one * q * m - p * next(costs) for m in feature) for feature in gains)

        found = bound(1 << DIGITS, (reach.costs[f][z] for values in places for f, z in values))
        if not 0 <= found < p * reach.slack * len(places):
            return found < 0
        whole, one = reach.exactly([place for values in places for place in values])
        reach.charge(len(whole) * (per_value + ((p + q).bit_length() * one.bit_length() >> 20)))
        return bound(one, iter(whole)) < 0


# ---- What can be stated ----------------------------------------------------------------------------------------------


class Row:
    """A row, what is said about it, and what its model makes of it."""

    def __init__(self, found: Audit, values: list[float], said: dict[str, Any]) -> None:
        self.model, self.attacker, self.margin = found.model, found.attacker, found.margin
        self.values, self.said, self.steps = values, said, 0
        self.totals = self.add_up(values)
        self.own = self.totals.index(max(self.totals))

    def charge(self, steps: int) -> None:
        """Count steps, and give up on a row that takes too many; of a product, 2**20 bits times bits are one."""
        self.steps += steps
        expect(self.steps <= MOST_STEPS, f"a proof of up to {MOST_STEPS} steps, got a longer one")

    def add_up(self, values: list[float]) -> list[int]:
        """Return the votes or sums of all classes somewhere."""
        n = len(self.model.classes)
        self.charge(n + len(self.model.roots) * (1 if self.model.is_vote else n))
        return self.model.totals(values)

    def prove(self, eps: float, proof: Any) -> None:
        """Refuse a proof that does not show that nobody within eps changes the prediction."""
        Proof(self.model, Reach(self.attacker, self.values, eps, self.charge), self.own, self.margin).check(proof)

    def break_(self, eps: float, witness: list[float | None] | None) -> None:
        """Refuse a witness that is not within eps, or not predicted otherwise (by more than the margin)."""
        other = self.attacker.values(witness or [], "a witness")
        reach = Reach(self.attacker, self.values, eps, self.charge)
        moved = [f for f, z in enumerate(other) if z != self.values[f] and f not in self.attacker.place_in]
        box = Box(reach)
        is_near = all(other[f] in reach.take(f, [(other[f],)]) and box.put(f, (other[f],)) for f in moved)
        expect(is_near, "a witness within the attacker's reach")
        totals = self.add_up(other)
        lead = max(totals) - totals[self.own]
        is_other = lead > self.margin if self.margin else totals.index(max(totals)) != self.own
        expect(is_other, "a witness that is predicted otherwise")

    def radius(self, key: str, default: float) -> float:
        """Return a radius that is said, or one that says nothing."""
        value = self.said[key]
        return default if value is None else inf if value == "inf" else read(value, Size, "a radius")


def check_prediction(row: Row) -> None:
    """Refuse a label that is not the model's."""
    label, said = row.model.classes[row.own], row.said["prediction"]
    expect(type(said) is type(label) and said == label, f"the prediction {shown(label)}, got {shown(said)}", "refuted")


def check_verdict(row: Row) -> None:
    """Refuse "stable" without a proof, and "not stable" without a witness; with a margin, on the row itself as well."""
    stable, proof, witness = row.said["stable"], row.said["proof"], row.said["witness"]
    expect(stable == 0 or witness is None, "a witness for unstable rows only")
    expect(stable == 1 or proof is None, "a proof for stable rows only")
    if stable == 1:
        row.prove(row.attacker.eps, proof)
    if stable == 0:
        row.break_(row.attacker.eps, witness)
        others = [total for c, total in enumerate(row.totals) if c != row.own]
        is_ahead = not row.margin or row.totals[row.own] - max(others) > row.margin
        expect(is_ahead, "an unstable row to be beyond the margin itself")


def check_radius(row: Row) -> None:
    """Refuse a radius unless there is a proof for the float just below it; below inf, that is the largest one."""
    lower = row.radius("radius", 0.0)
    expect(lower <= row.radius("radius_upper", inf), "a radius up to its upper bound, got a larger one", "refuted")
    below = nextafter(lower, -inf)
    below -= below % 1 if row.attacker.norm == 0 else 0
    if below > (row.attacker.eps if row.said["stable"] == 1 else 0):  # else the verdict says so already
        row.prove(below, row.said["radius_proof"])


def check_radius_upper(row: Row) -> None:
    """Refuse an upper bound of the radius without a witness."""
    if (upper := row.radius("radius_upper", inf)) < inf:
        row.break_(upper, row.said["radius_witness"])


def check_spared(row: Row) -> None:
    """Refuse to hear more of a row that is not attacked than that it is stable."""
    more = [row.said[key] for key in ("proof", "witness", "radius_upper") if key in row.said]
    is_spared = row.said["stable"] == 1 and all(value in (None, "inf") for value in more)
    expect(is_spared, "a row that is not attacked to be stable, without proof, witness and radius")


# Kind of statement -> the entries of a line that make it and show it, and what refuses it unless it holds.
STATEMENTS: dict[str, tuple[dict[str, Any], Callable[[Row], None]]] = {
    "prediction": ({"prediction": object, "label?": object}, check_prediction),
    "stable": ({"stable": range(-1, 2), "method": str, "witness?": [None], "proof?": object}, check_verdict),
    "radius": ({"radius?": object, "radius_proof?": object}, check_radius),
    "radius_upper": ({"radius_upper?": object, "radius_witness?": [None]}, check_radius_upper),
}


class Audit:
    """Checks rows one by one; keeps counts, and the first ten rows in doubt."""

    def __init__(self, header: Any, model: Model) -> None:
        header = read(header, HEADER, "the header of a certificate")
        if header["model_sha256"] != model.sha256:
            raise Refusal("Model and certificate do not belong together: the certificate names another SHA-256.")
        classes = [*map(type, header["classes"])], header["classes"]
        expect(classes == ([*map(type, model.classes)], model.classes), "the model's classes in the header")
        self.model, self.attacker = model, Attacker(header["attacker"], model)
        self.margin = Fraction(header["margin"]) * model.unit
        expect(not self.margin or not (model.is_vote or header["radius"]), "margin 0, or above for sums without radii")
        expect(not (header["radius"] and "rules" in self.attacker.words), "no radii where there are rules")
        labels = header["attacked"] or []
        is_known = {*map(type, labels)} <= {type(model.classes[0])} and model.labels.issuperset(labels)
        expect(is_known, "attacked to hold classes of the model")
        self.attacked = None if header["attacked"] is None else set(labels)
        self.kinds = [*STATEMENTS] if header["radius"] else ["prediction", "stable"]
        self.form = {"row": [None]} | {key: form for kind in self.kinds for key, form in STATEMENTS[kind][0].items()}
        names = ("stable", "unstable", "open", "not proved", "refuted")
        self.counts = dict.fromkeys(names if self.attacked is None else (*names, "not attacked"), 0)
        self.doubts: list[str] = []

    def add(self, line: Any, name: str) -> None:
        """Check a row."""
        said = read(line, self.form, name)
        values = self.attacker.values(said["row"], name)
        try:
            row = Row(self, values, said)
            check_prediction(row)
            truth = said["prediction"] if said["label"] is None else said["label"]
            is_attacked = self.attacked is None or (
                type(truth) is type(self.model.classes[0]) and truth in self.attacked
            )
            for check in [STATEMENTS[kind][1] for kind in self.kinds] if is_attacked else [check_spared]:
                check(row)
            self.counts[("unstable", "stable", "open")[said["stable"]] if is_attacked else "not attacked"] += 1
        except Refusal as refusal:
            self.counts[refusal.kind] += 1
            if len(self.doubts) < 10:
                self.doubts.append(f"{name} is {refusal.kind}. {refusal}")


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

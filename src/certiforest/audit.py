"""The auditor: checks every statement of a certificate file against a model file, exactly, and alone.

It is one file, longer than others here, since it is to be copied, read and run as a whole:

    python -I audit.py MODEL CERTIFICATE

It needs Python's standard library only, shares no code with the programs that make certificates, and believes no number
that it can compute. The files and the bound are described in docs/file_format.md, docs/certificate_format.md and
docs/proofs.md. Exit code 0: all statements confirmed; 1: something is refuted or not proved; 2: bad input.

All that decides is arithmetic on whole numbers and fractions. Leads are whole numbers of ``1 / model.unit``. The values
of a feature are float64 numbers; inf, above all of them, stands for a value that is missing. What a feature may be is a
region: a tuple of spans (lowest, highest), both included, that increase. The ends are values that it can have.

A group of one-hot columns is one more feature, number n_features + g for group g, whose value says which of the columns
is set: 0 for the first one. Its columns themselves then count for nothing. Where a feature has a few values only
(groups, categories, what rules lead to), each is a span of its own.
"""

from __future__ import annotations

import hashlib
import heapq
import json
import sys
from bisect import bisect_left
from collections.abc import Callable, Iterator
from fractions import Fraction
from math import ceil, floor, inf, isfinite, nextafter
from operator import add, lt
from typing import Any, BinaryIO

LARGEST = sys.float_info.max
MOST_DIGITS = 4300  # of a number in a file: as many as Python reads by default
LONGEST_LINE = 2**24  # bytes of a line of the certificate, and 100 more for every feature
DEEPEST_SPLIT = 900  # splits of a proof inside one another
MOST_STEPS = 10**8  # nodes visited and numbers read for one proof: a minute or two
MOST_VALUES = 10**5  # that rules allow a feature
ONE = 2**128  # costs are whole numbers of 1 / ONE of the budget, rounded down, unless that leaves a question open

# Forms, as `read` takes them: [form] is a list of any length, (form, form) one of this length, {key: form} an object,
# in which a key with a question mark may be missing or null; float is a finite number, None the same or null, object
# anything.
MODEL = {"format": str, "version": int, "combine": str, "n_features": int, "classes": [object],
         "feature": [int], "threshold": [None], "leaf": [int], "scores?": [[float]], "base?": [float],
         "missing_left?": [int], "subset?": [int], "subsets?": [[float]], "categories?": [[object]], "required?": [int],
         "blanks?": [(int, float, float)]}  # fmt: skip
HEADER = {"format": str, "version": int, "model_sha256": str, "attacker": object, "classes": [object], "margin": float,
          "radius": bool, "attacked?": [object], "about?": object}  # fmt: skip
ATTACKER = {"norm": object, "eps": float, "scale?": object, "frozen?": [int], "domain?": (object, object),
            "direction?": object, "integer?": [int], "groups?": [[int]], "categories?": [(int, float)],
            "missing?": float}  # fmt: skip
RULE = {"pre": [object], "post": object, "cost": float, "is_numerical": bool}
RULES = {"budget": float, "attacks": [{"column": object, "rules": [RULE]}],
         "groups?": [{"name": str, "columns": [(object, int)]}]}  # fmt: skip
BOTH_SCALES = {"down": object, "up": object}
DIRECTION = {"up?": [int], "down?": [int], "both?": [int]}
ROW = {"row": [None], "prediction": object, "stable": int, "method": str, "label?": object, "witness?": [None],
       "proof?": object}  # fmt: skip
RADIUS = {"radius?": object, "radius_upper?": object, "radius_witness?": [None], "radius_proof?": object}
PROOF = {"cuts": [(int, [float])], "rivals": [dict]}
BOUND = {"unit?": (int, int), "lambda?": (int, int), "tables?": [(int, int, [int])]}
SPLIT = {"split": (int, float), "low": object, "high": object}

Region = tuple[tuple[float, float], ...]
Box = dict[int, Region]  # by feature; a feature that is not there may take every value in its reach


class Refusal(Exception):  # noqa: N818  # nothing is wrong with the program that raises it
    """What a file says is no good; ``kind`` is what that makes of a row."""

    kind = "not proved"


class Refutation(Refusal):
    """What a file says is wrong."""

    kind = "refuted"


def expect(condition: object, expected: str) -> None:
    """Refuse what a file says unless the condition holds."""
    if not condition:
        raise Refusal(f"Expected {expected}.")


def shown(value: object) -> str:
    """Return a value as it may be printed."""
    text = ascii(value) if type(value) in (str, int, float, bool) else type(value).__name__
    return text if len(text) <= 40 else text[:37] + "..."


def read(value: Any, form: Any, name: str) -> Any:
    """Return a value if it has this form, optional keys as None where they are missing, and refuse it otherwise."""
    if type(form) is dict:
        expect(type(value) is dict, f"{name} to be an object")
        for key in value:
            known = key in form or key + "?" in form
            expect(known or form is MODEL, f"known keys in {name}, not {shown(key)}: is it of a newer format")
        entries = {}
        for key, part in form.items():
            entry = value.get(key.rstrip("?"))
            is_missing = entry is None and key.endswith("?")
            entries[key.rstrip("?")] = None if is_missing else read(entry, part, f"{key.rstrip('?')} of {name}")
        return entries
    if type(form) in (list, tuple):
        is_list = type(value) is list and (type(form) is list or len(value) == len(form))
        expect(is_list, f"{name} to be a list" + (f" of {len(form)}" if type(form) is tuple else ""))
        if form == [int] or (
            form in ([float], [None]) and set(map(type, value)) <= {float} and all(map(isfinite, value))
        ):
            expect(form != [int] or set(map(type, value)) <= {int}, f"{name} to hold whole numbers")
            return value
        forms = form * len(value) if type(form) is list else form
        return [read(entry, part, name) for entry, part in zip(value, forms, strict=True)]
    if form is float or (form is None and value is not None):
        is_exact = type(value) is int and abs(value) <= 2**53  # a larger one would be rounded
        expect(is_exact or (type(value) is float and isfinite(value)), f"{name} to be a finite number")
        return float(value)
    expect(form in (object, None) or type(value) is form, f"{name} to be of type {form and form.__name__}")
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    expect(len(dict(pairs)) == len(pairs), "every key of an object once")
    return dict(pairs)


def _constant(name: str) -> None:
    raise Refusal(f"Expected finite numbers, got {name}.")


DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_constant)
AS_ZEROS = bytes.maketrans(b"123456789", b"000000000")


def parse(text: bytes, name: str) -> Any:
    """Read JSON text."""
    has_long = b"0" * (MOST_DIGITS + 1) in text.translate(AS_ZEROS)  # Python takes long for them, or refuses them
    expect(not has_long, f"numbers of up to {MOST_DIGITS} digits in {name}")
    try:
        return DECODER.decode(text.decode())
    except RecursionError:
        raise Refusal(f"Expected {name} to be JSON text, got some that nests too deep.") from None
    except ValueError as error:
        raise Refusal(f"Expected {name} to be JSON text, got something else ({error}).") from None


class Model:
    """The trees of a model file, flat and in preorder: the left child of node i is i + 1, the right one right[i].

    A leaf's value is a class, or a row of ``scores``: whole numbers of ``1 / unit``, one per class. A single score for
    two classes is that of the second one. A value of None is missing; a threshold of None has a set in its place.
    """

    def __init__(self, document: Any) -> None:
        model = read(document, MODEL, "the model")
        is_known = model["format"] == "certiforest" and model["version"] in (1, 2)
        expect(is_known, "a certiforest model of version 1 or 2")
        self.n_features, self.classes = model["n_features"], model["classes"]
        kinds = set(map(type, self.classes))
        expect(len(kinds) == 1 and kinds <= {bool, int, float, str}, "classes of the model to be labels of one type")
        expect(len(set(self.classes)) == len(self.classes), "every class of the model once")
        self.unit, self.base, n_values = 1, [0] * len(self.classes), len(self.classes)
        self.scores: Any = None
        if model["combine"] == "sum":
            self._read_scores([model["base"], *(model["scores"] or [])])
            n_values = len(model["scores"] or ())
        expect(model["combine"] in ("vote", "sum"), 'combine of the model to be "vote" or "sum"')
        self.feature, self.threshold, self.leaf = model["feature"], model["threshold"], model["leaf"]
        expect(len(self.feature) == len(self.threshold) == len(self.leaf) > 0, "feature, threshold, leaf of one length")
        nodes = zip(self.feature, self.leaf, strict=True)
        is_sound = all(0 <= f < self.n_features if f >= 0 else f == -1 and 0 <= v < n_values for f, v in nodes)
        expect(is_sound, "the model's nodes to hold indices of features, classes and scores")
        self._read_sets(model)
        # After a leaf comes the right child of the last split that has none yet, or another tree.
        self.right, self.roots = [-1] * len(self.feature), []
        splits: list[int] = []
        for node, f in enumerate(self.feature):
            if splits and self.feature[node - 1] < 0:
                self.right[splits.pop()] = node
            elif node == 0 or self.feature[node - 1] < 0:
                self.roots.append(node)
            if f >= 0:
                splits.append(node)
        expect(not splits, "whole trees, not a last tree that is cut short")

    def _read_scores(self, table: list[Any]) -> None:
        n, width = len(self.classes), len(table[0] or ())
        expect(width == n or (width, n) == (1, 2), "base to be one number per class, or a single one for two")
        expect(all(len(row) == width for row in table), "rows of scores as long as base")
        # Denominators of floats are powers of two: the largest serves all.
        self.unit = max(v.as_integer_ratio()[1] for row in table for v in row)
        self.base, *self.scores = [[0] * (n - width) + [int(Fraction(v) * self.unit) for v in row] for row in table]

    def _read_sets(self, model: dict[str, Any]) -> None:
        """Find out what splits do with values that are missing and with categories."""
        n, sets = len(self.feature), model["subsets"] or []
        self.takes_missing = model["missing_left"] is not None
        self.missing_left = model["missing_left"] or [0] * n
        subset = model["subset"] or [-1] * n
        expect(len(self.missing_left) == len(subset) == n, "missing_left and subset as long as feature")
        is_plain = not self.takes_missing and model["subset"] is None and not sets
        expect(is_plain == (model["version"] == 1), "missing_left or subset in models of version 2 only")
        is_sound = all(-1 <= s < len(sets) and m in (0, 1) for s, m in zip(subset, self.missing_left, strict=True))
        expect(is_sound, "missing_left to be 0 or 1 and subset to point to subsets")
        self.sets = [frozenset(sets[s]) if s >= 0 else frozenset() for s in subset]
        self.blanks = {f: (low, high) for f, low, high in model["blanks"] or []}  # numbers that count as missing
        expect(self.takes_missing or not self.blanks, "missing_left where numbers count as missing")
        self.categories = {f for f, s in zip(self.feature, subset, strict=True) if s >= 0}
        self.listed, self.required = {}, set(model["required"] or ())  # values of categories; never missing
        for f, values, *_ in (read(entry[:2], (int, [object]), "categories") for entry in model["categories"] or []):
            is_number = values and type(values[0]) is float  # which stands for itself, others for 0, 1, 2, ...
            self.listed[f] = (
                read(values, [float], "numbers as categories") if is_number else [*map(float, range(len(values)))]
            )
        for f, v, s, m in zip(self.feature, self.threshold, subset, self.missing_left, strict=True):
            has_threshold = v is not None
            expect(has_threshold != (f >= 0 and (s >= 0 or (m == 1 and v is None))), "a threshold or a set at a split")
            expect(not has_threshold or f not in self.categories, "categories without thresholds")

    def codes(self, f: int) -> list[float]:
        """Return the values that a category may have: those listed, or else those in sets, and one in none of them."""
        used = {v for node, g in enumerate(self.feature) if g == f for v in self.sets[node]}
        return self.listed.get(f) or [*(v for v in used if v % 1 == 0), float(floor(max(used, default=-1.0)) + 1)]

    def is_clear(self, row: list[float]) -> bool:
        """Tell whether no number of a row counts as missing."""
        return not any(row[f] is not None and low <= row[f] <= high for f, (low, high) in self.blanks.items())

    def is_left(self, node: int, x: float | None) -> bool:
        """Tell whether a split sends a value left; None and inf stand for one that is missing."""
        if x is None or x == inf:
            return bool(self.missing_left[node])
        return x in self.sets[node] if self.threshold[node] is None else x <= self.threshold[node]

    def totals(self, row: list[float]) -> list[int]:
        """Return the votes, or the sums in units, of all classes."""
        totals = list(self.base)
        for node in self.roots:
            while (f := self.feature[node]) >= 0:
                node = node + 1 if self.is_left(node, row[f]) else self.right[node]
            if self.scores is None:
                totals[self.leaf[node]] += 1
            else:
                totals = list(map(add, totals, self.scores[self.leaf[node]]))
        return totals

    def lead(self, rival: int, own: int) -> Callable[[int], int]:
        """Return a function: what a leaf of some value adds to the rival's lead over the own class."""
        scores = self.scores
        if scores is None:
            return lambda value: (value == rival) - (value == own)
        return lambda value: scores[value][rival] - scores[value][own]


class Attacker:
    """What the header says about the attacker; what that means at a row says `Reach`."""

    def __init__(self, entries: Any, n_features: int) -> None:
        self.rules: dict[int, list[Any]] = {}  # feature -> its rules; what none speaks of is frozen then
        if type(entries) is dict and "budget" in entries:
            entries = self._read_rules(read(entries, RULES, "the attacker"), n_features)
        entries = read(entries, ATTACKER, "the attacker")
        norm, self.eps = entries["norm"], entries["eps"]
        expect(norm == "inf" or (type(norm) is int and 0 <= norm <= 100), 'a whole number up to 100 or "inf" as norm')
        self.norm: Any = inf if norm == "inf" else norm
        expect(self.eps >= 0 and (norm != 0 or self.eps < 1 or self.eps % 1 == 0), "eps >= 0, whole for norm 0")
        self.frozen, self.groups = set(entries["frozen"] or ()), entries["groups"] or []
        self.categories, self.missing = dict(entries["categories"] or ()), entries["missing"]
        self.codes: dict[int, list[float]] = {}  # of these categories, and of other features ...
        self.blanks: dict[int, tuple[float, float]] = {}  # ... numbers that count as missing: see `meet`
        self.required: set[int] = set()  # features that never are missing
        costs = [*self.categories.values(), 1.0 if self.missing is None else self.missing]
        is_sound = len(self.categories) == len(entries["categories"] or ()) and min(costs) > 0
        expect(is_sound, "one cost for each column of categories, and costs above 0")
        scale, (low, high) = entries["scale"], entries["domain"] or (None, None)
        scales = read(scale, BOTH_SCALES, "scale") if type(scale) is dict else {"down": scale, "up": scale}
        self.down, self.up = (
            self._column(1.0 if scales[way] is None else scales[way], (), 1.0, n_features) for way in BOTH_SCALES
        )
        self.low = self._column(low, (None, "-inf"), -LARGEST, n_features)
        self.high = self._column(high, (None, "inf"), LARGEST, n_features)
        expect(min(self.down + self.up) > 0, "scales above 0")
        way = entries["direction"]
        ways = {way: range(n_features)} if type(way) is str else read(way or {}, DIRECTION, "direction")
        expect(set(ways) <= {"up", "down", "both"}, "direction to be up, down or both")
        self.only_up, self.only_down = set(ways.get("up") or ()), set(ways.get("down") or ())
        expect(not self.only_up & self.only_down, "one direction for a feature")
        self.n_features = n_features
        self.place_in: dict[int, tuple[int, int]] = {}  # column of a group -> the group's feature, and its value there
        for g, group in enumerate(self.groups):
            self.place_in |= {f: (n_features + g, place) for place, f in enumerate(group)}
        grouped = set(self.place_in)
        self.integer = set(entries["integer"] or ())
        turned = set() if type(way) is str else {f for columns in ways.values() for f in columns or ()}
        named = self.frozen | grouped | self.integer | turned | set(self.categories)
        expect(all(0 <= f < n_features for f in named), "indices of features")
        expect(len(grouped) == sum(map(len, self.groups)), "groups that have no column in common")
        is_apart = (grouped | self.integer | turned).isdisjoint(self.categories)
        expect(is_apart, "columns of categories apart from those of numbers")
        expect(not grouped & (self.only_up | self.only_down), "columns of groups to move both ways")
        for group in self.groups:
            expect(len(group) > 1 and len(self.frozen & set(group)) in (0, len(group)), "groups frozen all or none")
            scales_of = {column[f] if len(column) > 1 else column[0] for column in (self.down, self.up) for f in group}
            expect(len(scales_of) == 1, "one scale for the columns of a group")
            expect(self._is_inside(dict.fromkeys(group, 0.0)) and self._is_inside(dict.fromkeys(group, 1.0)),
                   "a domain that holds 0 and 1 in the columns of groups")  # fmt: skip

    def meet(self, model: Model) -> None:
        """Find out which columns of a model are categories, and which can be blanked."""
        tested = {f for f, v in zip(model.feature, model.threshold, strict=True) if f >= 0 and v is not None}
        is_sound = tested.isdisjoint(self.categories) and model.categories.isdisjoint(self.place_in)
        expect(is_sound, "categories, and no groups or rules, of columns that the model takes for categories")
        expect(model.categories.isdisjoint(self.rules), "rules on columns of numbers")
        self.frozen |= model.categories - set(self.categories)
        self.codes, self.blanks = {f: model.codes(f) for f in self.categories}, model.blanks
        self.required = model.required
        self.missing = self.missing if model.takes_missing else None

    def _read_rules(self, entries: Any, n_features: int) -> dict[str, Any]:
        """Read rules, on groups by places of columns in them, and return the rest: prices that add up to a budget."""
        groups = {group["name"]: group["columns"] for group in entries["groups"] or ()}
        expect(len(groups) == len(entries["groups"] or ()), "every group once")
        for attack in entries["attacks"]:
            column, is_group = attack["column"], type(attack["column"]) is str
            known = list(groups) if is_group else range(n_features)
            expect(is_group or type(column) is int, "rules on features by index, or on groups by name")
            expect(column in known, "rules on features that there are")
            f = n_features + known.index(column) if is_group else column
            expect(f not in self.rules, "the rules on a feature together")
            self.rules[f] = attack["rules"]
            for rule in attack["rules"]:
                expect(rule["cost"] > 0 and not (is_group and rule["is_numerical"]), "costs above 0")
                if is_group:
                    place = {category: i for i, (category, _) in enumerate(groups[column])}
                    rule["post"] = place.get(read(rule["post"], str, "a category"))
                    rule["pre"] = [place[category] for category in rule["pre"] if category in place]
                if rule["is_numerical"]:
                    ends = [float(v) if v in ("inf", "-inf") else v for v in rule["pre"]]
                    expect(len(ends) == 2 and all(type(v) in (int, float) for v in ends), "an interval of numbers")
                    rule["pre"] = ends
                else:
                    rule["pre"] = read(rule["pre"], [float], "what a rule starts from")
                rule["post"] = read(rule["post"], float, "what a rule leads to")
        held = [f for f in range(n_features) if f not in self.rules]
        columns = [[f for _, f in group] for group in groups.values()]
        moved = {f for g, group in enumerate(columns) if n_features + g in self.rules for f in group}
        expect(not moved & set(self.rules), "rules on groups instead of their columns")
        frozen = [f for f in held if f not in moved]
        return {"norm": 1, "eps": entries["budget"], "frozen": frozen, "groups": columns}

    @staticmethod
    def _column(value: Any, words: tuple[Any, ...], end: float, n_features: int) -> list[float]:
        """Return one number per feature, or a single one for all; the words stand for the end."""
        expect(type(value) is not list or len(value) == n_features, "one scale and domain for all features or for each")
        column = [end if v in words else v for v in (value if type(value) is list else [value])]
        return read(column, [float], "scale and domain")

    def summary(self) -> str:
        """Return what the attacker may do, in a line."""
        more = {
            "scales": self.down + self.up != [1.0, 1.0], "frozen features": self.frozen,
            "a domain": self.low + self.high != [-LARGEST, LARGEST], "one-way features": self.only_up | self.only_down,
            "integer features": self.integer, "groups": self.groups, "changes of category": self.categories,
            f"missing values at {self.missing!r}": self.missing,
        }  # fmt: skip
        if self.rules:
            n_rules = sum(map(len, self.rules.values()))
            return f"Attacker: {n_rules} rules on {len(self.rules)} features, budget {self.eps!r}."
        return f"Attacker: norm {self.norm}, eps {self.eps!r}{''.join(f', {name}' for name in more if more[name])}."

    def allows(self, row: list[float]) -> bool:
        """Tell whether a row is inside the domain, whole and one-hot where it should be."""
        low, high = (c if len(c) > 1 else c * len(row) for c in (self.low, self.high))
        is_inside = all(x is None or a <= x <= b for a, x, b in zip(low, row, high, strict=True))
        is_whole = all(row[f] is None or row[f] % 1 == 0 for f in self.integer)
        expect(all(row[f] is not None for f in self.place_in), "no column of a group to be missing")
        is_one_hot = all(sorted(row[f] for f in group) == [0.0] * (len(group) - 1) + [1.0] for group in self.groups)
        return is_inside and is_whole and is_one_hot

    def _is_inside(self, values: dict[int, float]) -> bool:
        low, high = (c if len(c) > 1 else c * self.n_features for c in (self.low, self.high))
        return all(low[f] <= v <= high[f] for f, v in values.items())

    def values(self, row: list[float]) -> list[float]:
        """Return the values of all features of a row that is allowed, groups last, inf for what is missing."""
        return [inf if x is None else x for x in row] + [
            float([row[f] for f in group].index(1.0)) for group in self.groups
        ]

    def scale(self, f: int, upwards: bool) -> float:
        """Return the scale of a move of a feature."""
        column = self.up if upwards else self.down
        if f >= self.n_features:
            f = self.groups[f - self.n_features][0]
        return column[f] if len(column) > 1 else column[0]


class Reach(dict):
    """What the attacker can do at a row: feature -> the region it can get to by moving alone, found when asked for.

    The one place that knows which values a feature can take and what they cost. Costs are shares of a budget that
    features pay from together: p-th powers for norm p. There is no such budget for L-inf, nor for an eps of inf.
    """

    def __init__(self, attacker: Attacker, row: list[float], eps: float) -> None:
        self.attacker, self.norm, self.eps, self.steps = attacker, attacker.norm, eps, 0
        self.row = attacker.values(row)
        self.has_budget = self.norm < inf and eps < inf
        self.budget: Any = (int(eps) if self.norm == 0 else Fraction(eps) ** self.norm) if self.has_budget else 0
        self._costs: dict[tuple[int, float], tuple[int, Any]] = {}
        self._menus: dict[int, dict[float, Fraction]] = {}
        self._steps: dict[float, Fraction] = {}

    def _step(self, f: int, upwards: bool) -> Fraction:
        """Return how far a feature can move alone."""
        scale = self.attacker.scale(f, upwards)
        if scale not in self._steps:
            self._steps[scale] = Fraction(self.eps) * Fraction(scale)
        return self._steps[scale]

    def _is_near(self, cost: Any) -> bool:
        """Tell whether the attacker, told what something costs, can pay for it."""
        return cost is not None and (self.eps >= 1 if self.norm == 0 else cost <= self.eps)

    def _of(self, column: list[float], f: int) -> float:
        return column[f] if len(column) > 1 else column[0]

    def _by_rules(self, f: int) -> dict[float, Fraction]:
        """Return the values that rules let a feature take, and the least cost of each."""
        found: dict[float, Fraction] = {}
        waiting, rules = [(Fraction(0), self.row[f])], self.attacker.rules[f]
        while waiting:
            cost, value = heapq.heappop(waiting)
            self.charge(1 + len(rules))
            if value in found:
                continue
            found[value] = cost
            expect(len(found) <= MOST_VALUES and isfinite(value), f"up to {MOST_VALUES} finite values by rules")
            for rule in rules:
                pre, price = rule["pre"], cost + Fraction(rule["cost"])
                applies = pre[0] <= value <= pre[1] if rule["is_numerical"] else value in pre
                if applies and price <= self.budget:
                    heapq.heappush(waiting, (price, value * rule["is_numerical"] + rule["post"]))
        return found

    def __missing__(self, f: int) -> Region:
        x, attacker = self.row[f], self.attacker
        region: Region = ()
        values, may_blank = {x}, self._is_near(attacker.missing) and f not in attacker.required
        if f in attacker.rules:
            self._menus[f] = self._by_rules(f)
            values = set(self._menus[f])
        elif f >= attacker.n_features:
            group = attacker.groups[f - attacker.n_features]
            if group[0] not in attacker.frozen and self._is_near(1 / Fraction(attacker.scale(f, True))):
                values = {float(place) for place in range(len(group))}
        elif f not in attacker.frozen and (x < inf or may_blank):
            low, high = self._of(attacker.low, f), self._of(attacker.high, f)
            if f not in attacker.categories:
                region = self._numbers(f, low, high)
                values = set()
            elif x == inf or self._is_near(attacker.categories[f]):
                values |= {code for code in attacker.codes[f] if low <= code <= high}
            values |= {inf} if may_blank else set()
        self[f] = region + tuple((value, value) for value in sorted(values))
        return self[f]

    def _numbers(self, f: int, low: float, high: float) -> Region:
        """Return the numbers of a domain that a number can be moved to, or that a value can be filled with."""
        x, attacker = self.row[f], self.attacker
        if x < inf and self.norm == 0 and self.eps < 1:
            low = high = x
        elif x < inf:
            low, high = x if f in attacker.only_up else low, x if f in attacker.only_down else high
            if self.norm != 0 and self.eps < inf:
                low = max(low, -_last_float(-x, self._step(f, False)))
                high = min(high, _last_float(x, self._step(f, True)))
        first, last = attacker.blanks.get(f, (inf, inf))
        return self.cut(f, ((low, high),), nextafter(first, -inf))[0] + self.cut(f, ((low, high),), last)[1]

    def cut(self, f: int, region: Region, v: float) -> tuple[Region, Region]:
        """Return what of a region is up to a threshold, and what is above."""
        above = nextafter(v, inf)
        low = [(a, min(b, v)) for a, b in region if a <= v]
        high = [(max(a, above), b) for a, b in region if b > v]
        if f in self.attacker.integer:
            low = [(float(ceil(a)), float(floor(b))) for a, b in low]
            high = [(float(ceil(a)) if a < inf else a, b) for a, b in high]
        return tuple(span for span in low if span[0] <= span[1]), tuple(span for span in high if span[0] <= span[1])

    def cost(self, f: int, region: Region) -> tuple[int, Any]:
        """Return which share of the budget the cheapest value of a region costs: of 1 / ONE rounded down, and exact."""
        x = self.row[f]
        if not self.has_budget or any(low <= x <= high for low, high in region):
            return 0, 0
        return min([self._cost(f, low if x < low else high) for low, high in region])

    def _cost(self, f: int, z: float) -> tuple[int, Any]:
        """Return what it costs to bring a feature to another value."""
        if (f, z) not in self._costs:
            x, attacker, share = self.row[f], self.attacker, Fraction(0)
            told = attacker.missing if inf in (x, z) else attacker.categories.get(f)
            if f in attacker.rules:
                share = self._menus[f][z] / self.budget
            elif self.norm == 0:
                share = Fraction(1, self.budget)
            else:
                (a, b), (c, d) = (told or 1.0).as_integer_ratio(), (0, 1)
                step = Fraction(self.eps) if told else self._step(f, z > x)
                if not told and f < attacker.n_features:  # another category of a group is a move of 1
                    (a, b), (c, d) = z.as_integer_ratio(), x.as_integer_ratio()
                share = Fraction(abs(a * d - c * b) * step.denominator, b * d * step.numerator) ** self.norm
            self.charge(share.denominator.bit_length() >> 8)
            self._costs[f, z] = share.numerator * ONE // share.denominator, share
        return self._costs[f, z]

    def affords(self, box: Box) -> bool:
        """Tell whether the attacker can pay for a value in each of the regions."""
        if not self.has_budget:
            return True
        self.charge(sum(map(len, box.values())))
        costs = [cost for f, region in box.items() if (cost := self.cost(f, region)) != (0, 0)]
        if self.norm == 0:
            return len(costs) <= self.budget
        at_least = sum(cost for cost, _ in costs)
        if not at_least <= ONE < at_least + len(costs):
            return at_least <= ONE
        bits = sum(share.denominator.bit_length() for _, share in costs)
        self.charge(len(costs) * (1 + (bits * bits >> 20)))
        return sum(share for _, share in costs) <= 1

    def charge(self, steps: int) -> None:
        """Count steps, and give up on a proof that takes too many."""
        self.steps += steps
        if self.steps > MOST_STEPS:
            raise Refusal(f"Expected a proof of up to {MOST_STEPS} steps, got a longer one.")


def _last_float(x: float, step: Fraction) -> float:
    """Return the last float up to x + step."""
    n, d = x.as_integer_ratio()
    n, d = n * step.denominator + step.numerator * d, d * step.denominator
    try:
        last = n / d  # Python rounds a quotient of whole numbers to the nearest float
    except OverflowError:
        return LARGEST
    a, b = last.as_integer_ratio()
    return nextafter(last, -inf) if a * d > n * b else last


class Proof:
    """A proof that no rival wins anywhere in reach of a row: boxes that cover it, each with a bound below a win."""

    def __init__(self, model: Model, reach: Reach, own: int, margin: Fraction) -> None:
        self.model, self.reach, self.own, self.margin = model, reach, own, margin
        self.cuts: dict[int, list[float]] = {}
        self.values: list[set[int]] = []  # of the leaves in reach, tree by tree

    def check(self, proof: Any) -> None:
        """Refuse the proof unless it holds for every rival."""
        proof = read(proof, PROOF, "the proof")
        for f, cuts in proof["cuts"]:
            expect(all(map(lt, cuts, cuts[1:])), "cuts to increase")
            self.cuts[self._feature(f)] = cuts
        expect(len(self.cuts) == len(proof["cuts"]), "one list of cuts per feature")
        rivals = [read(part.pop("rival", None), int, "a rival") for part in proof["rivals"]]
        others = [c for c in range(len(self.model.classes)) if c != self.own]
        expect(sorted(rivals) == others, "one part of the proof for each rival")
        self.values = [{value for value, _ in self._leaves(root, {})} for root in self.model.roots]
        for rival, part in zip(rivals, proof["rivals"], strict=True):
            self._check_rival(rival, part)

    def _feature(self, f: int) -> int:
        attacker, n_features = self.reach.attacker, self.model.n_features
        is_known = 0 <= f < n_features + len(attacker.groups) and f not in attacker.place_in
        expect(is_known, "a proof to name features by their indices, and groups instead of their columns")
        return f

    def _check_rival(self, rival: int, part: Any) -> None:
        """Follow the splits. A box is written as the regions of the features that were split."""
        boxes: list[tuple[Any, Box, int]] = [(part, {}, 0)]
        while boxes:
            node, box, depth = boxes.pop()
            self.reach.charge(1 + len(box))
            if type(node) is not dict or "split" not in node:
                is_proved = self._excludes(rival, read(node, BOUND, "a part of the proof"), box)
                expect(is_proved, f"a bound that excludes that class {rival} wins")
                continue
            node = read(node, SPLIT, "a split of the proof")
            expect(depth < DEEPEST_SPLIT, f"up to {DEEPEST_SPLIT} splits inside one another")
            f, v = self._feature(node["split"][0]), node["split"][1]
            sides = self.reach.cut(f, box.get(f) or self.reach[f], v)
            for side, region in zip(("low", "high"), sides, strict=True):
                if region and self.reach.affords({**box, f: region}):  # else nobody gets there
                    boxes.append((node[side], {**box, f: region}, depth + 1))

    def _sides(self, node: int, f: int, region: Region) -> tuple[Region, Region]:
        """Return what of a region a split sends left, and what right; of a group's, if the split is on its column."""
        v = self.model.threshold[node]
        if self.model.feature[node] != f:
            place = self.reach.attacker.place_in[self.model.feature[node]][1]
            is_left = [v is not None and (v >= 1 or (v >= 0 and value != place)) for value, _ in region]
        elif v is not None and region[-1][0] < inf:
            return self.reach.cut(f, region, v)
        elif v is not None:
            left, right = self.reach.cut(f, region, v)
            return (left + right[-1:], right[:-1]) if self.model.missing_left[node] else (left, right)
        else:  # the ends of a span are on one side: it is a single value, or all numbers are on the right
            is_left = [self.model.is_left(node, value) for value, _ in region]
        halves = [tuple(span for span, here in zip(region, is_left, strict=True) if here == side) for side in (1, 0)]
        return halves[0], halves[1]

    def _leaves(self, root: int, box: Box) -> Iterator[tuple[int, Box]]:
        """Yield the values of a tree's leaves in reach within a box, and the regions that box and path leave."""
        model, reach, steps, nodes = self.model, self.reach, 0, [(root, box)]
        feature, threshold, right, place_in = model.feature, model.threshold, model.right, reach.attacker.place_in
        while nodes:
            node, box = nodes.pop()
            while (f := feature[node]) >= 0:
                steps += 1
                v, f = threshold[node], place_in[f][0] if f in place_in else f
                region = box.get(f) or reach[f]
                low, high = region[0][0], region[-1][1]
                if v is not None and f < model.n_features and (high <= v or (v < low and high < inf)):
                    node = node + 1 if high <= v else right[node]
                    continue
                sides, steps = self._sides(node, f, region), steps + len(region)
                if all(sides):
                    steps += len(box)
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
        expect(p == 0 or reach.has_budget, "lambda 0 where no budget is shared")
        tables, columns = self._tables(node["tables"] or [])
        a *= model.unit
        lead = model.lead(rival, self.own)
        # To win, the rival must lead by 0, by 1 if it loses ties, or by minus the margin if there is one.
        needed = -self.margin if self.margin else int(rival > self.own)
        if model.scores is None and len(model.classes) == 2:
            needed += (needed - len(model.roots)) % 2  # every tree adds 1 or -1, so that leads are all odd or all even
        total: Any = scale * (model.base[rival] - model.base[self.own] - needed)
        reach.charge(len(model.roots))
        for tree, root in enumerate(model.roots):
            if tree in tables:
                total += max(
                    scale * lead(value) - a * sum(self._least(f, m, inner) for f, m in tables[tree].items())
                    for value, inner in self._leaves(root, box)
                )
            elif box and len(self.values[tree]) > 1:
                total += scale * max(lead(value) for value, _ in self._leaves(root, box))
            else:
                total += scale * max(map(lead, self.values[tree]))
        weight = Fraction(p, q) * model.unit * scale * reach.budget  # of the whole budget
        p, q = weight.numerator, weight.denominator
        cells = [
            [(f, cell, a * sum(m[i] for m in columns.get(f, ()))) for i, cell in self._cells(f, box)]
            for f in {*columns, *box}
        ]
        reach.charge(sum(map(len, cells)) * (1 + (p.bit_length() + q.bit_length() >> 10)))

        def bound(one: int, kind: int) -> Any:
            rest = (max(one * q * gain - p * reach.cost(f, cell)[kind] for f, cell, gain in row) for row in cells)
            return one * (p + q * total) + sum(rest)

        return bound(ONE, 0) < 0 or (p > 0 and bound(1, 1) < 0)

    def _tables(self, entries: list[Any]) -> tuple[dict[int, dict[int, list[int]]], dict[int, list[list[int]]]]:
        """Return the tables by tree and feature, and by feature alone."""
        tables: dict[int, dict[int, list[int]]] = {}
        columns: dict[int, list[list[int]]] = {}
        for tree, f, m in entries:
            expect(0 <= tree < len(self.model.roots), "tables of trees that there are")
            expect(self._feature(f) not in tables.setdefault(tree, {}), "one table for a tree and a feature")
            expect(len(m) == len(self.cuts.get(f, ())) + 1, "one number per cell in a table")
            tables[tree][f] = m
            columns.setdefault(f, []).append(m)
        return tables, columns

    def _places(self, f: int, region: Region) -> list[tuple[int, int]]:
        """Return the first and the last cell that each span of a region meets; cell i ends with cut i."""
        cuts = self.cuts.get(f, ())
        return [(bisect_left(cuts, low), bisect_left(cuts, high)) for low, high in region]

    def _least(self, f: int, m: list[int], box: Box) -> int:
        """Return the least number of a table in the cells that meet the feature's region."""
        places = self._places(f, box.get(f) or self.reach[f])
        self.reach.charge(sum(1 + last - first for first, last in places))
        return min(min(m[first : last + 1]) for first, last in places)

    def _cells(self, f: int, box: Box) -> Iterator[tuple[int, Region]]:
        """Yield the cells that meet the feature's region, and what of it is in them."""
        rest, cuts = box.get(f) or self.reach[f], self.cuts.get(f, ())
        for i in sorted({i for first, last in self._places(f, rest) for i in range(first, last + 1)}):
            self.reach.charge(len(rest))
            inside, rest = self.reach.cut(f, rest, cuts[i]) if i < len(cuts) else (rest, ())
            if inside:
                yield i, inside


class Audit:
    """Checks rows one by one; keeps counts, and the first ten rows in doubt."""

    def __init__(self, header: Any, document: Any) -> None:
        expect(type(header) is dict and header.get("format") == "certiforest certificate", "a certificate")
        expect(type(header.get("version")) is int and header["version"] == 1, "version 1 of a certificate, not a newer")
        header = read(header, HEADER, "the header")
        try:
            text = json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False)
        except (ValueError, RecursionError):
            raise Refusal("Expected a flat model of finite numbers, got something else.") from None
        if header["model_sha256"] != hashlib.sha256(text.encode()).hexdigest():
            raise Refusal("Model and certificate do not belong together: the certificate names another SHA-256.")
        self.model = Model(document)
        labels = [*map(type, header["classes"])], header["classes"]
        expect(labels == ([*map(type, self.model.classes)], self.model.classes), "the model's classes in the header")
        self.attacker = Attacker(header["attacker"], self.model.n_features)
        self.attacker.meet(self.model)
        self.margin = Fraction(header["margin"]) * self.model.unit
        self.form = ROW | (RADIUS if header["radius"] else {})
        is_sum = self.model.scores is not None and not header["radius"]
        expect(self.margin == 0 or (self.margin > 0 and is_sum), "margin 0, or above for sums without radii")
        self.attacked = header["attacked"]
        is_known = all(self._is_among(label, self.model.classes) for label in self.attacked or ())
        expect(is_known, "attacked to hold classes of the model")
        names = ("stable", "unstable", "open", "not proved", "refuted")
        self.counts = dict.fromkeys(names if self.attacked is None else (*names, "not attacked"), 0)
        self.doubts: list[str] = []

    def add(self, line: Any, name: str) -> None:
        """Check a row."""
        line = read(line, self.form, name)
        row, stable = line["row"], line["stable"]
        expect(len(row) == self.model.n_features, f"{self.model.n_features} features in {name}")
        expect(self.model.takes_missing or None not in row, f"no value to be missing in {name}")
        expect(self.model.is_clear(row), f"null for numbers that count as missing in {name}")
        expect(self.attacker.allows(row), f"{name} inside the attacker's domain, whole and one-hot where it must be")
        expect(stable in (-1, 0, 1), f"stable to be 1, 0 or -1 in {name}")
        try:
            is_attacked = self._check(row, stable, line)
            kind = "open" if stable < 0 else "stable" if stable else "unstable"
            self.counts[kind if is_attacked else "not attacked"] += 1
        except Refusal as refusal:
            self.counts[refusal.kind] += 1
            if len(self.doubts) < 10:
                self.doubts.append(f"{name} is {refusal.kind}. {refusal}")

    @staticmethod
    def _is_among(label: Any, labels: list[Any]) -> bool:
        return any(type(label) is type(known) and label == known for known in labels)

    def _check(self, row: list[float], stable: int, line: dict[str, Any]) -> bool:
        """Refuse the row unless all that is said about it holds; tell whether it is attacked."""
        totals, eps = self.model.totals(row), self.attacker.eps
        own = totals.index(max(totals))
        label, said = self.model.classes[own], line["prediction"]
        if type(said) is not type(label) or said != label:
            raise Refutation(f"Expected the prediction {shown(label)}, got {shown(said)}.")
        lower, upper = self._radius(line.get("radius"), 0.0), self._radius(line.get("radius_upper"), inf)
        if self.attacked is not None and not self._is_among(
            said if line["label"] is None else line["label"], self.attacked
        ):
            is_spared = stable == 1 and upper == inf and line["proof"] is None is line["witness"]
            expect(is_spared, "a row that is not attacked to be stable, without proof, witness and radius")
            return False
        expect(stable == 0 or line["witness"] is None, "a witness for unstable rows only")
        expect(stable == 1 or line["proof"] is None, "a proof for stable rows only")
        if stable == 1:
            self._check_proof(row, eps, own, line["proof"])
        if stable == 0:
            leads = (totals[own] - total for c, total in enumerate(totals) if c != own)
            expect(not self.margin or min(leads) > self.margin, "an unstable row to be beyond the margin itself")
            self._check_witness(row, eps, own, line["witness"])
        if lower > upper:
            raise Refutation("Expected a radius up to its upper bound, got a larger one.")
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
        radius = default if value is None else inf if value == "inf" else read(value, float, "a radius")
        expect(radius >= 0, "a radius of at least 0")
        return radius

    def _check_proof(self, row: list[float], eps: float, own: int, proof: Any) -> None:
        Proof(self.model, Reach(self.attacker, row, eps), own, self.margin).check(proof)

    def _check_witness(self, row: list[float], eps: float, own: int, witness: list[float] | None) -> None:
        """Refuse a witness that is not in reach, or not predicted otherwise (by more than the margin)."""
        expect(witness is not None and len(witness) == len(row), "a witness as long as the row")
        reach, other = Reach(self.attacker, row, eps), witness or []
        expect(self.attacker.allows(other), "a witness inside the domain, whole and one-hot where it must be")
        expect(self.model.is_clear(other), "null in a witness for numbers that count as missing")
        values = enumerate(zip(self.attacker.values(other), reach.row, strict=True))
        moved: Box = {f: ((z, z),) for f, (z, x) in values if z != x and f not in self.attacker.place_in}
        in_reach = all(any(low <= at[0][0] <= high for low, high in reach[f]) for f, at in moved.items())
        expect(in_reach and reach.affords(moved), "a witness within the attacker's reach")
        totals = self.model.totals(other)
        wins = max(totals) - totals[own] > self.margin if self.margin else totals.index(max(totals)) != own
        expect(wins, "a witness that is predicted otherwise")


def audit(model_file: BinaryIO, certificate: BinaryIO) -> Audit:
    """Check a whole certificate."""
    document = parse(model_file.read(), "the model")
    expect(type(document) is dict and type(document.get("n_features")) is int, "a model with n_features")
    longest = LONGEST_LINE + 100 * min(max(document["n_features"], 0), 2**31)
    found, n_rows = Audit(parse(certificate.readline(longest), "the first line of the certificate"), document), 0
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
    first = found.attacker.summary()
    if found.attacked is not None:
        first += f" Only rows of these classes are attacked: {', '.join(map(shown, found.attacked))}."
    sys.stdout.write("\n".join([first, f"Rows: {counts}.", *found.doubts, outcome]) + "\n")
    return 1 if found.doubts else 0


if __name__ == "__main__":
    sys.exit(main())

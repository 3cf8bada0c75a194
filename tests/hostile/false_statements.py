"""A trial of altered certificates about whole models: what is confirmed is true, as enumeration in rationals has it.

``python tests/hostile/false_statements.py --cases 20000 --seed 1`` takes any number. Certificates that hold are
altered: proofs, statements, the domain, models, inputs. Of what the auditor confirms all inputs are looked at.
"""

import copy
import itertools
import json
import math
import random
import sys
from decimal import Decimal, localcontext
from fractions import Fraction
from io import BytesIO
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import statement_referee as referee
from aside_referee import ensemble_of
from certiforest import DomainError, Insensitive, Monotone, Range, Same, audit, check, measure
from certiforest.ensemble.model_file import pieces
from certiforest.formats.opened import Opened, log_odds
from hostile.judging import Judge, run
from naive_prover import sha_of
from oracle import leaf_of
from tampering import ODD, trees_of

MOST_INPUTS = 4000


class Certificate:
    """Models and a certificate in parts, to be altered."""

    def __init__(self, rng):
        world = referee.draw_world(rng)
        n_classes = rng.choice([2, 2, 2, 3])
        kind = "one" if n_classes == 2 else "many"
        models = [referee.draw_model(rng, world, kind, n_classes)]
        models.append(referee.draw_other(rng, world, models[0], kind, n_classes))
        if not world.blanks and rng.random() < 0.3:
            plausible = referee.draw_model(rng, world, "one", 2)
            plausible.base[-1] += 4.0
            world = referee.narrow(world, plausible)
        ensembles = [ensemble_of(model) for model in models]
        has_link = n_classes == 2 and rng.random() < 0.4
        known = [Opened(one, "a model", sum_at=log_odds) if has_link else one for one in ensembles]
        outputs = "probability" if has_link else "score"
        columns, tell = referee.draw_columns(rng, world), {"outputs": outputs, "proof": True, "time_limit": 20.0}
        c = next((f for f in columns if world.kinds[f] in ("number", "whole", "listed")), None)
        kinds = [Insensitive(columns), Same(known[1])]
        if n_classes == 2:
            (_, low), (high, _) = measure(known[0], "range", world.domain, outputs=outputs).bounds
            step, middle = rng.choice([0.0, 1e-9, 0.25]), rng.choice([low, high, (low + high) / 2])
            if has_link:
                step, middle = step * min(low, 1 - high), min(max(middle, 1e-9), 1 - 1e-9)
                step = min(step, middle / 2, (1 - middle) / 2)
            kinds += [Range(low - step, high + step), Insensitive(columns, middle - step, middle + step)]
            kinds += [Same(known[1], rng.choice([0.0, 0.25] if has_link else [0.0, 1.0, 8.0]))]
            kinds += (
                []
                if c is None
                else [Monotone(c, rng.choice(["up", "down"]), rng.choice([0.0, 0.125 if has_link else 0.5, 4.0]))]
            )
        statement = rng.choice(kinds)
        found = check(known[0], statement, world.domain, **tell)
        if n_classes == 2 and rng.random() < 0.3:
            asked = [("range", {}), ("gap", {"columns": columns}), ("difference", {"other": known[1]})]
            asked += [] if c is None else [("fall", {"column": c})]
            quantity, more = rng.choice(asked)
            found = measure(known[0], quantity, world.domain, **more, **tell)
        line = found[0].proof if isinstance(found, tuple) else found.proof
        if line is None:  # no two inputs differ so
            raise DomainError("Expected a certificate, got none.")
        self.model, self.header, self.line = json.loads("".join(pieces(ensembles[0]))), found.header, line
        self.compares = next((word for word in ("same", "difference") if word in line["statement"]), None)
        self.others = [json.loads("".join(pieces(ensembles[1])))] if self.compares else []
        self.is_named = True

    def files(self):
        """Return the model, the certificate and the other models; hashes are right unless they were altered."""
        header, line = dict(self.header), copy.deepcopy(self.line)
        if self.is_named:
            header["model_sha256"] = sha_of(self.model)
            if self.compares in line["statement"]:
                line["statement"][self.compares] = sha_of(self.others[0])
        certificate = "\n".join(json.dumps(part) for part in (header, line, {"end": 1}))
        return json.dumps(self.model).encode(), certificate.encode(), self.others


# ---- What is true ----------------------------------------------------------------------------------------------------


class Truth:
    """Models and a domain as files have them, read carelessly, and all inputs that trees tell apart."""

    def __init__(self, model, header, line, others):
        self.documents = [model, *others]
        plausible = header["domain"].get("plausible")
        everyone = self.documents + ([plausible] if plausible else [])
        self.plausible, self.n = plausible, model["n_features"]
        self.columns, self.groups = {}, []
        for entry in header["domain"].get("columns") or []:
            kind = next(word for word in ("numbers", "listed", "one_hot") if entry.get(word) is not None)
            if kind == "one_hot":
                self.groups.append(entry[kind])
            for f in entry[kind]:
                self.columns[f] = entry
        self.cuts, self.codes = [set() for _ in range(self.n)], {}
        for document in everyone:
            for tree in trees_of(document):
                referee.collect(tree, self.cuts)
            self.codes |= {f: [*map(float, range(len(v)))] for f, v, _ in document.get("categories") or [] if v}
        self.blanks = {f: (low, high) for f, low, high in model.get("blanks") or []}
        never = [
            set(document.get("required") or []) if document.get("missing_left") is not None else set(range(self.n))
            for document in everyone
        ]
        self.required = set().union(*never)

    def has(self, f, v):
        """Tell whether the domain has a value in a column."""
        said = self.columns.get(f, {})
        if math.isnan(v):
            first, last = self.blanks.get(f, (1.0, 0.0))
            ends = [first] if said.get("low") is None else [first, said["low"]]
            near = [*ends, last, *map(math.ceil, ends), *(said.get("values") or [])] if first <= last else []
            is_there = any(first <= w <= last and self.has(f, w) for w in near)
            return f not in self.required and bool(said.get("missing") or is_there)
        if "listed" in said and said["listed"] is not None:
            return v in said["values"]
        low, high = (-math.inf if said.get("low") is None else said["low"]), said.get("high")
        is_kind = not (said.get("integer") and v % 1) and (f not in self.codes or v in self.codes[f])
        return low <= v <= (math.inf if high is None else high) and is_kind

    def inputs(self):
        """Yield all inputs, as models see them."""
        flags, columns = {f for group in self.groups for f in group}, []
        for f in range(self.n):
            said, ends = self.columns.get(f, {}), [0.0, *self.cuts[f], *self.blanks.get(f, ())]
            ends += [said[key] for key in ("low", "high") if said.get(key) is not None]
            beside = [w for v in ends for w in (v, math.nextafter(v, math.inf), math.floor(v), math.floor(v) + 1.0)]
            beside += [*self.codes.get(f, ()), *(said.get("values") or ()), -1e300, 1e300, math.nan]
            found = {self.seen(f, float(v)) for v in beside if self.has(f, float(v))} if f not in flags else {0.0}
            told = {}
            for v in sorted(found, key=str):  # one for each piece
                key = str(v) if math.isnan(v) or f in self.codes else sum(v > cut for cut in self.cuts[f])
                told.setdefault(key, v)
            columns.append([*told.values()])
        places = [range(len(group)) for group in self.groups]
        if math.prod(map(len, columns)) * math.prod(map(len, places)) > MOST_INPUTS:
            raise OverflowError
        for row in itertools.product(*columns):
            for hot in itertools.product(*places):
                x = list(row)
                for group, place in zip(self.groups, hot, strict=True):
                    x[group[place]] = 1.0
                if not self.plausible or self.totals(self.plausible, x)[-1] >= 0:
                    yield x

    def seen(self, f, v):
        """Return a value as models see it."""
        first, last = self.blanks.get(f, (1.0, 0.0))
        return math.nan if first <= v <= last else v

    @staticmethod
    def totals(document, x):
        """Return the sum for each class, exactly."""
        leaves = [leaf_of(tree, x) for tree in trees_of(document)]
        sums = [Fraction(b) + sum(Fraction(leaf[i]) for leaf in leaves) for i, b in enumerate(document["base"])]
        return [Fraction(0)] * (len(document["classes"]) - len(sums)) + sums


def fails(truth, line, one, other):
    """Tell whether two inputs, or one twice, are against a statement, with the rounding that it counts."""
    said = line["statement"]
    documents = truth.documents * (2 if len(truth.documents) == 1 else 1)
    totals = [truth.totals(document, x) for document, x in zip(documents, (one, other), strict=True)]
    rounding = [[*map(Fraction, pair)] for pair in line["rounding"] * (2 // len(line["rounding"]))]

    def may_say(side, c, way):
        r = way * rounding[side][0]
        leads = [(totals[side][c] - t, a < c) for a, t in enumerate(totals[side]) if a != c]
        return all(lead > r if r > 0 or (r == 0 and is_before) else lead >= r for lead, is_before in leads)

    if said.get("insensitive") is not None and said.get("low") is None:
        n = len(totals[0])
        leaves = [[leaf_of(tree, x) for tree in trees_of(documents[0])] for x in (one, other)]
        if line["holds"] and not line.get("cases") and leaves[0] == leaves[1]:
            return False  # no case is left to show where no tree tells inputs apart: one sum is rounded in one way
        return any(may_say(0, a, -1) and may_say(1, b, -1) for a in range(n) for b in range(n) if a != b)
    if said.get("same") is not None and said.get("tolerance") is None:
        pairs = itertools.product(*(range(len(t)) for t in totals))
        labels = [document["classes"] for document in documents]
        return any(may_say(0, a, 1) and may_say(1, b, 1) for a, b in pairs if labels[0][a] != labels[1][b])
    scores = line["scores"] * (2 // len(line["scores"]))
    scale, shift = ([Fraction(*score[key]) for score in scores] for key in ("scale", "shift"))
    y = [(s["sign"] * t[-1] - b) / a for s, t, a, b in zip(scores, totals, scale, shift, strict=True)]
    off, rho = ([pair[0] / a for pair, a in zip(rounding, scale, strict=True)], [pair[1] for pair in rounding])

    def score(i, way):
        """Return the highest score that is possible with all that is off, the lowest for -1."""
        value, ends = linked(y[i] + way * off[i], scores[i].get("link"))
        return min(max(value + way * rho[i], ends[0]), ends[1])

    if said.get("range") is not None:
        low, high = said["range"]
        return (high is not None and score(0, 1) > high) or (low is not None and score(0, -1) < low)
    if said.get("low") is not None:
        return score(0, 1) >= said["high"] and score(1, -1) <= said["low"]
    way, most = (-1, said["most"]) if said.get("most") is not None else (1, said.get("tolerance") or 0)
    way = -1 if line.get("parts") is not None else way
    is_one = len(truth.documents) == 1
    for i in (0, 1)[: 2 - is_one]:
        is_higher = y[i] - y[1 - i] > way * sum(off)
        if any(s.get("link") for s in scores) and is_one and most == 0 and line.get("parts") is None:
            if is_higher:
                return True
        elif score(i, -way) - score(1 - i, way) > most and (is_higher or not (is_one and line["holds"]) or most < 0):
            return True  # of one model, scores are in the order of sums
    return False


def linked(u, link):
    """Return the score that a link makes of a number, to sixty digits, and between which it is."""
    if not link:
        return u, (-math.inf, math.inf)
    if abs(u) > 10**6:
        raise OverflowError
    with localcontext(prec=60):
        power = Fraction((Decimal(u.numerator) / Decimal(u.denominator)).exp())
    return (power, (0, math.inf)) if link == "log" else (power / (1 + power), (0, 1))


def is_false(model, certificate, others):
    """Tell whether what a confirmed certificate says is false."""
    header, line, _ = map(json.loads, certificate.splitlines())
    truth, said = Truth(model, header, line, others[:1]), line["statement"]
    told = said.get("insensitive") or said.get("gap") or [said.get("monotone", said.get("fall"))]
    columns = [f for f in told if f is not None]
    ordered = columns[0] if said.get("direction") else None

    def are_ordered(a, b):
        if ordered is None:
            return True
        return a[ordered] <= b[ordered] if said["direction"] == "up" else a[ordered] >= b[ordered]

    if line["holds"]:
        rows = list(truth.inputs())
        pairs = referee.pairs_of(rows, columns) if columns else [(i, i) for i in range(len(rows))]
        if len(pairs) > MOST_INPUTS:
            raise OverflowError
        return any(are_ordered(rows[i], rows[j]) and fails(truth, line, rows[i], rows[j]) for i, j in pairs)
    rows = [[math.nan if v is None else v for v in row] for row in line["inputs"]]
    flags = {f for group in truth.groups for f in group}
    for x in rows:
        if not all(f in flags or truth.has(f, v) for f, v in enumerate(x)):
            return True
        if any(sorted(x[f] for f in group) != [0.0] * (len(group) - 1) + [1.0] for group in truth.groups):
            return True
        if truth.plausible and truth.totals(truth.plausible, x)[-1] < 0:
            return True
    one, other = rows * (3 - len(rows))
    differs = [f for f in range(truth.n) if repr(one[f]) != repr(other[f]) and float(one[f]) != float(other[f])]
    return bool(set(differs) - set(columns)) or not are_ordered(one, other) or not fails(truth, line, one, other)


# ---- Alterations -----------------------------------------------------------------------------------------------------


def places_of(part, path=()):
    """Yield the paths to everything in a document."""
    items = part.items() if isinstance(part, dict) else enumerate(part) if isinstance(part, list) else ()
    for key, value in items:
        yield (*path, key)
        yield from places_of(value, (*path, key))


def alter_somewhere(part, rng, keys=None):
    """Alter one place in a document: a number a little, or what is there is dropped, doubled, or something odd."""
    paths = [path for path in places_of(part) if keys is None or path[0] in keys]
    if not paths:
        return
    *above, key = rng.choice(paths)
    for step in above:
        part = part[step]
    value = part[key]
    way = rng.randrange(8)
    if way == 0:
        part.pop(key)
    elif way == 1 and isinstance(part, list):
        part.insert(key, copy.deepcopy(rng.choice(part)))
    elif way == 2:
        part[key] = rng.choice(ODD)
    elif way == 3 and isinstance(part, list):
        other = rng.randrange(len(part))
        part[key], part[other] = part[other], part[key]
    elif isinstance(value, bool):
        part[key] = not value
    elif isinstance(value, int):
        part[key] = value + rng.choice([-1, 1, 1, -(2**40), 2**40]) if rng.random() < 0.8 else -value
    elif isinstance(value, float):
        part[key] = rng.choice([value * 2, -value, value + 0.25, value - 0.25, math.nextafter(value, math.inf), 0.0])


def alter_proof(c, rng):
    for _ in range(rng.choice([1, 1, 2, 5])):
        alter_somewhere(c.line, rng, {"cases"})


def alter_statement(c, rng):
    alter_somewhere(c.line, rng, {"statement", "rounding", "scores"})


def alter_inputs(c, rng):
    alter_somewhere(c.line, rng, {"inputs", "holds"})


def alter_domain(c, rng):
    alter_somewhere(c.header["domain"], rng, {"columns"} if rng.random() < 0.7 else None)


def widen_domain(c, rng):
    for entry in rng.sample(c.header["domain"]["columns"], 1):
        if "low" in entry:
            wider = [{"low": entry["low"] - 1}, {"high": entry["high"] + 1}, {"missing": True}, {"integer": None}]
            entry |= rng.choice(wider)
        elif "values" in entry:
            entry["values"] = [*entry["values"], rng.choice(referee.GRID)]


def alter_model(c, rng):
    alter_somewhere(rng.choice([c.model, *c.others]), rng, {"threshold", "scores", "base", "leaf", "missing_left"})


def exchange_models(c, rng):
    if c.others:
        c.model, c.others = c.others[0], [c.model]


def weaken(c, rng):
    """Let a statement that was proved say more: levels nearer, no tolerance, no rounding left out."""
    said = c.line["statement"]
    key = rng.choice([*said])
    if isinstance(said[key], float):
        said[key] += rng.choice([-1, 1]) * rng.choice([0.01, 0.25, 1.0])
        for case in c.line["cases"]:
            if rng.random() < 0.5:
                case["tangents"] = [[p, 0.0] for p, _ in case.get("tangents") or [[0.5, 0.0]]]
    elif key == "range":
        i = rng.randrange(2)
        said[key][i] = (said[key][i] or 0.0) + (0.01 - 0.02 * i) * rng.choice([1, 10, 100])
    else:
        c.line["rounding"] = [[rng.choice([0.0, 0.01, 1.0]), 0.0] for _ in c.line["rounding"]]


def claim_the_other(c, rng):
    c.line["holds"] = not c.line["holds"]
    c.line.setdefault("cases", [])


ALTERATIONS = [
    alter_proof, alter_proof, alter_proof, alter_statement, alter_inputs, alter_domain, widen_domain, alter_model,
    exchange_models, weaken, weaken, claim_the_other,
]  # fmt: skip


def judged(model, certificate, others):
    """Run the auditor; return what came of it."""
    try:
        models = [audit.Model(audit.parse(json.dumps(other).encode(), "a model")) for other in others]
        found = audit.audit(BytesIO(model), BytesIO(certificate), models)
    except audit.Refusal:
        return "bad input"
    if found.doubts or found.counts["open"]:
        return "not proved"
    try:
        return "confirmed, but false" if is_false(json.loads(model), certificate, others) else "confirmed, and true"
    except OverflowError:
        return "confirmed, and too large to look at"


def draw(rng):
    """Draw a certificate; None where nothing is plausible, or nothing was decided."""
    try:
        return Certificate(rng)
    except DomainError:
        return None


def trial(n_cases, seed, judge=None):
    """Judge this many altered files; each certificate is made once and altered thirty times."""
    judge = Judge() if judge is None else judge
    for number in judge.cases(n_cases):
        rng = random.Random(f"{seed}-{number}")
        if number % 30 == 0:
            source = random.Random(f"{seed}-{number}-statement")
            while (original := draw(source)) is None:
                pass
            outcome = judged(*original.files())
            if outcome not in ("confirmed, and true", "confirmed, and too large to look at"):
                judge.find([seed, number], "true, but not confirmed", outcome)
        altered, alteration = copy.deepcopy(original), rng.choice(ALTERATIONS)
        altered.is_named = rng.random() < 0.95
        try:
            alteration(altered, rng)
            if rng.random() < 0.2:
                rng.choice(ALTERATIONS)(altered, rng)
            files = altered.files()
        except (TypeError, ValueError, KeyError, IndexError, AttributeError, OverflowError):
            continue  # the second one can make no sense of what the first one left
        with judge.watch([seed, number]):
            try:
                outcome = judged(*files)
            except Exception as error:
                outcome = "crash"
                judge.find([seed, number], outcome, repr(error))
            if outcome == "confirmed, but false":
                judge.find([seed, number], outcome, f"{alteration.__name__}: {files[1].decode()[:3000]}")
            judge.note(f"{alteration.__name__}: {outcome}")
    return judge


if __name__ == "__main__":
    run(trial, __doc__)

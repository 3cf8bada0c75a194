"""Alter certificates and models in random and clever ways, and see that the auditor confirms nothing false.

python tests/tampering.py --cases 200000 --seed 1

Every file is the auditor's to refuse or to judge; whatever it confirms is judged by the oracle. A crash, a hang or a
false statement confirmed is a failure. Some alterations leave all statements true: then "confirmed" is right.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import json
import math
import random
import sys
import time
from collections import Counter
from dataclasses import replace
from io import BytesIO

import oracle
from aside_referee import dress
from cases import random_case, real_case, rule_case
from certiforest import audit
from naive_prover import (
    certificate_row,
    document_of,
    find_proof,
    header_of,
    is_safe,
    meeting_case,
    moves,
    plain_proof,
    proof_by_cells,
    sha_of,
    splits,
    swept_proof,
)
from oracle import INF, Case

SLOW = 20.0  # seconds
RAW = [
    "1e400",
    "-1e400",
    "NaN",
    "Infinity",
    "-0.0",
    str(2**70),
    "1" * 5000,
    "1e-400",
    "[" * 2000 + "]" * 2000,
    '{"a":1,"a":2}',
]
ODD = [
    None,
    True,
    False,
    -1,
    0,
    1,
    2**31,
    2**53 + 1,
    10**400,
    0.5,
    5e-324,
    1.7976931348623157e308,
    "",
    "inf",
    "-inf",
    [],
    {},
    [[]],
]


class Certificate:
    """A model and a certificate in parts, to be altered."""

    def __init__(self, case: Case, rng: random.Random) -> None:
        self.case = case
        self.margin = rng.choice([0.0, 0.1, 0.25, 5e-324]) if case.base is not None and rng.random() < 0.3 else 0.0
        self.document = document_of(case)
        radius = not self.margin and case.rules is None
        self.header = header_of(case, self.document, self.margin, radius=radius)
        cases = [case] + [replace(case, x=_moved(case, rng)) for _ in range(rng.choice([0, 0, 1, 2]))]
        self.rows = [certificate_row(c, self.margin, rng, radius) for c in cases]
        self.end: dict = {"end": len(self.rows)}
        self.is_named = False  # whether to write the SHA-256 of what became of the model

    def copy(self) -> Certificate:
        other = copy.copy(self)
        parts = self.document, self.header, self.rows, self.end
        other.document, other.header, other.rows, other.end = json.loads(json.dumps(parts))
        return other

    def files(self) -> tuple[bytes, bytes]:
        model = _with_raw(json.dumps(self.document))
        if self.is_named:
            with contextlib.suppress(ValueError, RecursionError):
                self.header["model_sha256"] = sha_of(json.loads(model))
        lines = [self.header, *self.rows, self.end]
        return model.encode(), _with_raw("".join(json.dumps(line) + "\n" for line in lines)).encode()


def _with_raw(text: str) -> str:
    for number, raw in enumerate(RAW):
        text = text.replace(f'"@{number}@"', raw)
    return text


def _moved(case: Case, rng: random.Random) -> list[float]:
    if case.codes is not None:
        return [
            rng.choice([*case.codes[f], v, math.nan]) if f in case.codes and case.domain is None else v
            for f, v in enumerate(case.x)
        ]
    cuts = [v for tree in case.trees for _, v in splits(tree)] or [0.0]
    x = [rng.choice([v, rng.choice(cuts), math.nextafter(rng.choice(cuts), INF)]) for v in case.x]
    if case.domain is not None:
        x = [min(max(v, low), high) for v, low, high in zip(x, *case.domain, strict=True)]
    for f in case.integer or []:
        x[f] = case.x[f] if x[f] != math.floor(x[f]) else x[f]
    for group in case.groups or []:
        chosen = rng.choice(group)
        for f in group:
            x[f] = float(f == chosen)
    return x


# ---- Alterations: each takes a certificate and alters it in place ----------------------------------------------------


def flip_verdict(c: Certificate, rng: random.Random) -> None:
    row = rng.choice(c.rows)
    row["stable"] = rng.choice([1, 0, -1])
    if rng.random() < 0.5:
        row.pop("witness", None)
        row.pop("proof", None)


def claim_stability(c: Certificate, rng: random.Random) -> None:
    """Call a row stable, with a proof that is as good as it gets."""
    row = rng.choice(c.rows)
    case = replace(c.case, x=row["row"])
    own = oracle.predict(case, case.x)
    proof = rng.choice([plain_proof(case, own), proof_by_cells(case, own), swept_proof(case, own, rng)])
    row.pop("witness", None)
    row |= {"stable": 1, "proof": proof}
    if rng.random() < 0.5:
        numbers = [table[2] for part in proof["rivals"] for table in part.get("tables", [])]
        for m in rng.sample(numbers, min(len(numbers), 3)):
            m[rng.randrange(len(m))] += rng.choice([-1, 1, rng.randint(-40, 40)])


def claim_instability(c: Certificate, rng: random.Random) -> None:
    row = rng.choice(c.rows)
    case = replace(c.case, x=row["row"])
    own = oracle.predict(case, case.x)
    attacks = [(cost, z) for z, cost in moves(case) if oracle.predict(case, z) != own]
    if attacks:
        row.pop("proof", None)
        row |= {"stable": 0, "witness": min(attacks)[1] if rng.random() < 0.7 else rng.choice(attacks)[1]}


def alter_proof(c: Certificate, rng: random.Random) -> None:
    """Change a number, drop a branch, a rival or a table, swap two parts."""
    proofs = [row[key] for row in c.rows for key in ("proof", "radius_proof") if row.get(key)]
    if not proofs:
        return claim_stability(c, rng)
    proof = rng.choice(proofs)
    nodes = list(proof["rivals"])
    for node in nodes:
        nodes += [node[side] for side in ("low", "high") if isinstance(node.get(side), dict)]
    node = rng.choice(nodes) if nodes else {}
    kind = rng.randrange(10)
    if kind == 0 and proof["rivals"]:
        proof["rivals"].pop(rng.randrange(len(proof["rivals"])))
    elif kind == 1 and proof["rivals"]:
        rng.choice(proof["rivals"])["rival"] = rng.choice([0, 1, 2, -1, True])
    elif kind == 2:
        node.pop(rng.choice(["low", "high", "split", "tables", "unit", "lambda"]), None)
    elif kind == 3 and "split" in node:
        node[rng.choice(["low", "high"])] = rng.choice([{}, node["low"], node["high"]])
    elif kind == 4 and "split" in node:
        node["split"] = rng.choice(
            [[node["split"][0], _near(node["split"][1], rng)], [rng.randrange(3), node["split"][1]]]
        )
    elif kind == 5 and node.get("tables"):
        table = rng.choice(node["tables"])
        table[2][rng.randrange(len(table[2]))] += rng.choice([-1, 1, 7, -30, 2**70, -(2**70)])
    elif kind == 6 and node.get("tables"):
        table = rng.choice(node["tables"])
        table[rng.randrange(2)] = rng.randrange(4)
    elif kind == 7:
        node["lambda"] = rng.choice(
            [[0, 1], [1, 1], [rng.randint(0, 99), rng.randint(1, 9)], [-1, 1], [1, 0], [-1, -1]]
        )
    elif kind == 8:
        node["unit"] = rng.choice([[1, 2], [0, 1], [1, 3], [2**70, 1], [-1, 1], [1, -1], [1, 0]])
    elif proof["cuts"]:
        entry = rng.choice(proof["cuts"])
        if entry[1]:
            place = rng.randrange(len(entry[1]))
            entry[1][place] = _near(entry[1][place], rng)
    return None


def _near(value: float, rng: random.Random) -> float:
    return rng.choice([math.nextafter(value, INF), math.nextafter(value, -INF), value + 0.125, value - 0.125, -value])


def alter_witness(c: Certificate, rng: random.Random) -> None:
    places = [(row, key) for row in c.rows for key in ("witness", "radius_witness") if row.get(key)]
    if not places:
        return claim_instability(c, rng)
    row, key = rng.choice(places)
    witness = list(row[key])
    f = rng.randrange(len(witness))
    witness[f] = rng.choice(
        [_near(witness[f], rng), row["row"][f], math.nextafter(witness[f], rng.choice([-INF, INF]))]
    )
    row[key] = witness
    return None


def alter_radius(c: Certificate, rng: random.Random) -> None:
    row = rng.choice(c.rows)
    for key in rng.sample(["radius", "radius_upper"], rng.choice([1, 2])):
        if row.get(key) not in (None, "inf"):
            value = row[key]
            row[key] = rng.choice(
                [math.nextafter(value, INF), math.nextafter(value, 0), value * 2, value / 2, "inf", 0, -1]
            )
        elif key in row:
            row[key] = rng.choice([1.0, 0.125, 1e308, "inf"])
    if rng.random() < 0.5 and "radius" in row and row["radius"] not in ("inf", 0, -1):
        case = replace(
            c.case, x=row["row"], eps=float(math.ceil(row["radius"]) - 1 if c.case.norm == 0 else row["radius"])
        )
        own = oracle.predict(case, case.x)
        row["radius_proof"] = rng.choice([proof_by_cells(case, own), find_proof(case, own)[0]])


def alter_row(c: Certificate, rng: random.Random) -> None:
    row = rng.choice(c.rows)
    x = list(row["row"])
    f = rng.randrange(len(x))
    x[f] = _near(x[f], rng)
    row["row"] = x


def swap_rows(c: Certificate, rng: random.Random) -> None:
    a, b = rng.choice(c.rows), rng.choice(c.rows)
    key = rng.choice(["row", "proof", "witness", "stable", "prediction", "radius", "radius_proof", "radius_witness"])
    if key in a and key in b:
        a[key], b[key] = b[key], a[key]
    else:
        a["prediction"] = rng.randrange(c.case.n_classes)


def alter_model(c: Certificate, rng: random.Random) -> None:
    document = c.document
    nodes = range(len(document["feature"]))
    node = rng.choice(nodes)
    kind = rng.randrange(6)
    if kind == 0:
        document["threshold"][node] = _near(document["threshold"][node], rng)
    elif kind == 1:
        document["leaf"][node] = rng.choice([*document["leaf"], -2, 99])
    elif kind == 2:
        document["feature"][node] = rng.choice([*document["feature"], -2, 99])
    elif kind == 3:
        rng.shuffle(document["classes"])
        if rng.random() < 0.5:
            c.header["classes"] = document["classes"]
    elif kind == 4 and "scores" in document:
        row = rng.choice([*document["scores"], document["base"]])
        place = rng.randrange(len(row))
        row[place] = rng.choice([_near(row[place], rng), -row[place], 1e308])
    else:
        for column in ("feature", "threshold", "leaf"):
            document[column].pop(node)
    c.is_named = rng.random() < 0.8


def alter_rules(attacker: dict, n: int, rng: random.Random) -> None:
    budget, attacks = attacker["budget"], [attack for attack in attacker["attacks"] if attack["rules"]]
    if not attacks or rng.random() < 0.3:
        attacker["budget"] = rng.choice(
            [math.nextafter(budget, INF), math.nextafter(budget, 0), 2 * budget, budget + 1]
        )
        return
    attack = rng.choice(attacks)
    rule, kind = rng.choice(attack["rules"]), rng.randrange(6)
    if kind == 0:
        rule["cost"] = rng.choice([rule["cost"] / 2, rule["cost"] * 2, 0, -1, True, "1"])
    elif kind == 1:
        rule["post"] = rng.choice([0.5, -0.5, 0, "c0", "c1", None, -rule["post"] if rule["is_numerical"] else 1.0])
    elif kind == 2:
        rule["pre"] = rng.choice([["-inf", "inf"], [0, 1], [], ["c0"], ["c0", "c1", "c2"], [1, 0], "inf", [None, None]])
    elif kind == 3:
        rule["is_numerical"] = rng.choice([True, False, 1])
    elif kind == 4:
        attack["column"] = rng.choice([0, n - 1, n, -1, "group 0", "group 9", True, None])
    else:
        attacker["attacks"].remove(attack)


def alter_header(c: Certificate, rng: random.Random) -> None:
    attacker, n = c.header["attacker"], c.case.n_features
    if "budget" in attacker:
        return alter_rules(attacker, n, rng)
    eps = attacker["eps"]
    kind = rng.randrange(16 if c.case.codes is not None else 12)
    if kind >= 14:
        costs = [1.0, eps, math.nextafter(eps, INF), 0, -1, True, "inf", 1e308, 5e-324, [1.0]]
        attacker["missing"] = rng.choice([None, *costs])
    elif kind >= 12:
        pairs = [[[0, 1.0]], [[0, eps]], [[n - 1, 0.5]], [[0, 0]], [[n, 1]], [[0, 1], [0, 2]], [[0.0, 1]], {"0": 1}]
        attacker["categories"] = rng.choice([None, [], *pairs, [[f, eps] for f in range(n)]])
    elif kind == 8:
        ways = ["up", "down", "both", "sideways", 1, {"up": [0]}, {"down": [0]}, {"up": [0], "down": [0]}, {"up": [n]}]
        attacker["direction"] = rng.choice([None, *ways, {"up": list(range(n))}, {"down": [rng.randrange(n)]}])
    elif kind == 9:
        attacker["integer"] = rng.choice([None, [], [0], [n - 1], [n], [-1], list(range(n)), [0.0], 0])
    elif kind == 10:
        groups = [[], [[]], [[0]], [[0, 1]], [[n - 2, n - 1]], [[0, 0]], [[0, 1], [1, 2]], [[0, n]], list(range(n))]
        attacker["groups"] = rng.choice([None, *groups, [list(range(n))], [[0, -1]]])
    elif kind == 11:
        up = rng.choice([0.5, 1, 2, [rng.choice([0.5, 1.0, 1.7]) for _ in range(n)], 0, -1, None, [1.0] * (n + 1)])
        attacker["scale"] = rng.choice([{"down": 1, "up": up}, {"down": up, "up": 1}, {"up": up}, [up, up]])
    elif kind <= 1:
        attacker["eps"] = rng.choice([math.nextafter(eps, INF), math.nextafter(eps, 0), 2 * eps, eps / 2, eps + 1, 0])
    elif kind == 2:
        attacker["norm"] = rng.choice([0, 1, 2, 3, 100, 101, "inf", -1, True])
    elif kind == 3:
        attacker["scale"] = rng.choice(
            [None, 2, 0.5, [rng.choice([0.5, 1.0, 1.7]) for _ in range(n)], 0, -1, [1.0] * (n + 1)]
        )
    elif kind == 4:
        attacker["frozen"] = rng.choice([None, [], [0], [n - 1], [n], [-1], list(range(n)), [True]])
    elif kind == 5:
        low, high = [v - rng.choice([0, 0.125, 5]) for v in c.case.x], [v + rng.choice([0, 0.125, 5]) for v in c.case.x]
        attacker["domain"] = rng.choice(
            [None, [low, high], [None, high], [low, None], ["-inf", "inf"], [-9, 9], [low, low]]
        )
    elif kind == 6:
        c.header["margin"] = rng.choice([0, 0.25, 1e-3, -1.0, 1e308, 5e-324])
        c.header["radius"] = rng.choice([True, False])
    else:
        key = rng.choice([*c.header, "newer"])
        c.header[key] = rng.choice([0, 2, "0" * 64, None])


def put_oddity(c: Certificate, rng: random.Random) -> None:
    """Put something strange in some place of model or certificate, or take the place away."""
    whole = {"document": c.document, "header": c.header, "rows": c.rows, "end": c.end}
    part, key = whole, rng.choice(["document", "header", "rows", "rows", "rows", "rows", "end"])
    while isinstance(part[key], (dict, list)) and part[key] and (part is whole or rng.random() < 0.8):
        part = part[key]
        key = rng.choice(list(part)) if isinstance(part, dict) else rng.randrange(len(part))
    if part is whole:
        return
    if rng.random() < 0.2:
        part.pop(key)
    else:
        part[key] = rng.choice([*ODD, *(f"@{number}@" for number in range(len(RAW)))])
    if rng.random() < 0.5:
        c.is_named = True


ALTERATIONS = [
    flip_verdict, claim_stability, claim_instability, alter_proof, alter_proof, alter_witness, alter_radius, alter_row,
    swap_rows, alter_model, alter_header, put_oddity, put_oddity,
]  # fmt: skip


def alter_bytes(data: bytes, rng: random.Random) -> bytes:
    if not data:
        return data
    place, changed = rng.randrange(len(data)), bytearray(data)
    kind = rng.randrange(5)
    if kind == 0:
        changed[place] ^= 1 << rng.randrange(8)
    elif kind == 1:
        changed[place] = rng.choice(b'0123456789.-e,:"[]{}')
    elif kind == 2:
        del changed[place : place + rng.choice([1, 1, 5, 1000])]
    elif kind == 3:
        changed[place:place] = rng.choice(
            [b"0", b"9", b"-", b"\n", b"\xff", b"[", b"e400", changed[place : place + 40]]
        )
    else:
        del changed[place:]
    return bytes(changed)


# ---- Judging ---------------------------------------------------------------------------------------------------------


def cases_of(model: bytes, certificate: bytes):
    """Read files back, carelessly: yield each row of the certificate with its case and the margin."""
    document = json.loads(model)
    lines = [json.loads(line) for line in certificate.decode().splitlines()]
    header, attacker, n = lines[0], lines[0]["attacker"], document["n_features"]
    none = [None] * len(document["feature"])
    missing_left, subset = (document.get(name) or none for name in ("missing_left", "subset"))
    columns = document["feature"], document["threshold"], document["leaf"], missing_left, subset
    nodes = iter(zip(*columns, strict=True))

    def tree(node):
        f, v, leaf, is_left, s = node
        if f < 0:
            return leaf if document["combine"] == "vote" else [float(s) for s in document["scores"][leaf]]
        is_set = s is not None and s >= 0
        rule = frozenset(map(float, document["subsets"][s])) if is_set else -INF if v is None else float(v)
        return f, rule, tree(next(nodes)), tree(next(nodes)), bool(is_left)

    trees = [tree(node) for node in nodes]
    listed = {entry[0]: entry[1] for entry in document.get("categories") or ()}
    told = dict(attacker.get("categories") or ())
    codes: dict[int, list[float]] = {f: [] for f in told}
    for f, rule in (split for one in trees for split in splits(one) if isinstance(split[1], frozenset)):
        codes.setdefault(f, []).extend(rule)
    for f, used in codes.items():
        whole = sorted({v for v in used if v % 1 == 0})
        codes[f] = [*whole, math.floor(max([-1.0, *used])) + 1.0]
        if listed.get(f):  # floats stand for themselves
            codes[f] = listed[f] if isinstance(listed[f][0], float) else [float(i) for i in range(len(listed[f]))]
    aside = {
        "required": tuple(document.get("required") or ()),
        "codes": codes, "categories": {f: float(cost) for f, cost in told.items()},
        "missing": attacker.get("missing") if document.get("missing_left") else None,
        "blanks": {f: (first, last) for f, first, last in document.get("blanks") or ()},
    }  # fmt: skip
    if "budget" in attacker:
        yield from _cases_by_rules(document, header, lines, trees)
        return
    scale, domain = attacker.get("scale"), attacker.get("domain")
    sides = None if domain is None else tuple(
        [end if v in (None, "inf", "-inf") else float(v) for v in (side if isinstance(side, list) else [side])]
        * (n // len(side) if isinstance(side, list) else n)
        for side, end in zip(domain, (-1.7e308, 1.7e308), strict=True)
    )  # fmt: skip
    base = [float(b) for b in document["base"]] if document["combine"] == "sum" else None
    scales = scale if isinstance(scale, dict) else {"down": scale, "up": None}
    down, up = (
        None if s is None else [float(v) for v in (s if isinstance(s, list) else [s] * n)]
        for s in (scales.get("down"), scales.get("up"))
    )
    if up is not None and down is None:
        down = [1.0] * n
    if isinstance(scale, dict) and up is None:
        up = [1.0] * n
    ways = attacker.get("direction")
    ways = {ways: range(n)} if isinstance(ways, str) else ways or {}
    direction = {f: way for way, columns in ways.items() for f in columns or ()} or None
    for line in lines[1:-1]:
        yield document["classes"], header["margin"], line, Case(
            trees, n, len(document["classes"]), _read(line["row"]),
            INF if attacker["norm"] == "inf" else attacker["norm"], float(attacker["eps"]),
            down, attacker.get("frozen"), sides, base, direction, attacker.get("integer"), attacker.get("groups"), up,
            **aside,
        )  # fmt: skip


def _read(row):
    return [math.nan if v is None else float(v) for v in row]


def _cases_by_rules(document, header, lines, trees):
    attacker, n = header["attacker"], document["n_features"]
    names = [group["name"] for group in attacker.get("groups") or ()]
    places = [[category for category, _ in group["columns"]] for group in attacker.get("groups") or ()]
    rules = {}
    for attack in attacker["attacks"]:
        g = names.index(attack["column"]) if isinstance(attack["column"], str) else None
        at = (lambda v: float(v)) if g is None else (lambda v, g=g: float(places[g].index(v)))
        rules[attack["column"] if g is None else -1 - g] = [
            (
                rule["is_numerical"], [at(v) for v in rule["pre"] if g is None or v in places[g]], at(rule["post"]),
                rule["cost"],
            )
            for rule in attack["rules"]
        ]  # fmt: skip
    base = [float(b) for b in document["base"]] if document["combine"] == "sum" else None
    groups = [[f for _, f in group["columns"]] for group in attacker.get("groups") or ()]
    for line in lines[1:-1]:
        x = [float(v) for v in line["row"]]
        case = Case(trees, n, len(document["classes"]), x, 1, float(attacker["budget"]), base=base)
        yield document["classes"], header["margin"], line, replace(case, groups=groups, rules=rules)


def find_falsehood(labels: list, margin: float, line: dict, case: Case) -> str | None:
    """Return what is false about a row, if anything is."""
    own = oracle.predict(case, case.x)
    if type(line["prediction"]) is not type(labels[own]) or line["prediction"] != labels[own]:
        return "the prediction"
    if line["stable"] == 1 and not is_safe(case, margin):
        return "that it is stable"
    if line["stable"] == 0:
        z = _read(line["witness"])
        if _is_bad_witness(case, z, own, case.eps, margin):
            return "that the witness breaks it"
    prices = [cost for z, cost in moves(case) if oracle.predict(case, z) != own] if "radius" in line else []
    best = min(prices, default=None)
    lower, upper = line.get("radius"), line.get("radius_upper")
    if lower == "inf" and best is not None:
        return "that no budget breaks it"
    if lower not in (None, "inf", 0) and best is not None and oracle.budget(case, math.nextafter(lower, 0)) >= best:
        return "the radius"
    if upper not in (None, "inf") and _is_bad_witness(case, _read(line["radius_witness"]), own, upper, 0):
        return "the upper bound of the radius"
    return None


def _is_bad_witness(case, z, own, eps, margin):
    price = oracle.price_of_row(case, z)
    if price is None or price > oracle.budget(case, eps):
        return True
    if not margin:
        return oracle.predict(case, z) == own
    sums = oracle.exact_sums(case.base, [oracle.leaf_of(tree, z) for tree in case.trees])
    here = oracle.exact_sums(case.base, [oracle.leaf_of(tree, case.x) for tree in case.trees])
    if len(sums) < case.n_classes:
        sums, here = [0, *sums], [0, *here]
    rivals = [c for c in range(case.n_classes) if c != own]
    return max(sums[c] - sums[own] for c in rivals) <= margin or max(here[c] - here[own] for c in rivals) >= -margin


def judge(model: bytes, certificate: bytes, known: dict[str, str | None] | None = None) -> str:
    """Run the auditor; return what came of it; raise if it crashed, hung or confirmed something false.

    Statements that are ``known`` are not judged again.
    """
    known = {} if known is None else known
    began = time.monotonic()
    try:
        found = audit.audit(BytesIO(model), BytesIO(certificate))
    except audit.Refusal:
        return "bad input"
    finally:
        if time.monotonic() - began > SLOW:
            raise AssertionError(f"the auditor took {time.monotonic() - began:.0f} seconds")
    doubtful = {int(doubt.split()[1]) for doubt in found.doubts}
    for number, (labels, margin, line, case) in enumerate(cases_of(model, certificate)):
        if number not in doubtful:
            stated = {key: value for key, value in line.items() if not key.endswith("proof")}
            statement = repr((labels, margin, stated, case))
            if statement not in known:
                known[statement] = find_falsehood(labels, margin, line, case)
            if known[statement]:
                raise AssertionError(f"confirmed, but false: {known[statement]}; {line}\n{case}")
    return "refuted or not proved" if found.doubts else "confirmed, and true"


def run(n_cases: int, seed: int, report=lambda done: None) -> Counter:
    """Judge this many altered files; each certificate is made once and altered twenty times."""
    outcomes: Counter = Counter()
    for number in range(n_cases):
        rng = random.Random(f"{seed}-{number}")
        if number % 20 == 0:
            first = random.Random(f"{seed}-{number}-case")
            other = first.choice([real_case, random_case, rule_case])
            case = meeting_case(first) if first.random() < 0.4 else other(first, combine=first.choice(["vote", "sum"]))
            if other is not rule_case and first.random() < 0.4:
                case, _ = dress(first, case)
            original = Certificate(case, first)
            known: dict[str, str | None] = {}
            outcome = judge(*original.files(), known)
            assert outcome == "confirmed, and true", f"seed {seed}, case {number}: {outcome}"
        altered = original.copy()
        kinds = [rng.choice(ALTERATIONS) for _ in range(rng.choice([1, 1, 1, 2]))]
        try:
            for alteration in kinds:
                alteration(altered, rng)
        except (TypeError, ValueError, KeyError, IndexError, OverflowError, AttributeError, audit.Refusal):
            pass  # the second alteration cannot make sense of what the first one left: enough is altered
        try:
            files = list(altered.files())
        except ValueError:
            continue
        name = kinds[-1].__name__
        if rng.random() < 0.15:
            name, place = "alter_bytes", rng.randrange(2)
            files[place] = alter_bytes(files[place], rng)
        try:
            outcomes[f"{name}: {judge(*files, known)}"] += 1
        except Exception as error:
            raise AssertionError(f"seed {seed}, case {number}, {[k.__name__ for k in kinds]}: {error!r}") from error
        if (number + 1) % 10_000 == 0:
            report(number + 1)
    return outcomes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()

    def report(done):
        sys.stdout.write(f"{done:,} altered files, no failure\n")
        sys.stdout.flush()

    outcomes = run(options.cases, options.seed, report)
    for name, count in sorted(outcomes.items()):
        sys.stdout.write(f"{name}: {count:,}\n")
    sys.stdout.write(f"{sum(outcomes.values()):,} altered files, no false statement confirmed, no crash, no hang\n")


if __name__ == "__main__":
    main()

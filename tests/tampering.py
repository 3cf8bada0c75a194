"""Alter certificates and models in random and clever ways, and see that the auditor confirms nothing false.

python tests/tampering.py --cases 200000 --seed 1

Every file is the auditor's to refuse or to judge; whatever it confirms is judged by the oracle. A crash, a hang or a
false statement confirmed is a failure. Some alterations leave all statements true: then "confirmed" is right.
"""

from __future__ import annotations

import contextlib
import copy
import json
import math
import random
from dataclasses import replace
from io import BytesIO

import oracle
from aside_referee import dress
from cases import random_case, real_case, rule_case
from certiforest import audit
from hostile.judging import Judge, run
from naive_prover import (
    certificate_row,
    document_of,
    find_proof,
    header_of,
    is_safe,
    leads,
    meeting_case,
    moves,
    plain_proof,
    proof_by_cells,
    sha_of,
    splits,
    swept_proof,
)
from oracle import INF, Case

KINDS = ["numbers", "frozen", "categories", "one_hot", "ruled"]  # of columns
NOT_NUMBERS = [
    "NaN", "Infinity", "-Infinity", "1e400", "true", '"1"', "１２", "٣", "01", "+1", "9" * 5000, "{}", "0x1", "1_0",
]  # fmt: skip
RAW = [*NOT_NUMBERS, "-1e400", "-0.0", str(2**70), "1e-400", "[" * 2000 + "]" * 2000, '{"a":1,"a":2}']
ODD = [
    None, True, False, -1, 0, 1, 2**31, 2**53 + 1, 10**400, 0.5, 5e-324, 1.7976931348623157e308, "", "inf", "-inf", [],
    {}, [[]],
]  # fmt: skip


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
    """Draw another row that such a model and such an attacker take."""
    if case.codes is not None:
        x = list(case.x)
        for f in case.codes if case.domain is None else ():
            x[f] = rng.choice([*case.codes[f], x[f], x[f] if f in case.required else math.nan])
        for f, (low, high) in (case.blanks or {}).items():
            x[f] = math.nan if low <= x[f] <= high else x[f]
        return x
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


def drawn_row(c: Certificate, rng: random.Random) -> tuple[dict, Case, int]:
    """Draw a row, and return its case and its class as well."""
    row = rng.choice(c.rows)
    case = replace(c.case, x=row["row"])
    return row, case, oracle.predict(case, case.x)


def good_proof(case: Case, own: int, rng: random.Random) -> dict:
    """Return a proof that is as good as it gets, of what may be false."""
    kinds = [plain_proof(case, own), proof_by_cells(case, own)]
    return rng.choice(kinds if case.codes is not None else [*kinds, swept_proof(case, own, rng)])


def claim_stability(c: Certificate, rng: random.Random) -> None:
    """Call a row stable."""
    row, case, own = drawn_row(c, rng)
    row.pop("witness", None)
    row |= {"stable": 1, "proof": good_proof(case, own, rng)}
    if rng.random() < 0.5:
        numbers = [table[2] for part in row["proof"]["rivals"] for table in part.get("tables", [])]
        for m in rng.sample(numbers, min(len(numbers), 3)):
            m[rng.randrange(len(m))] += rng.choice([-1, 1, rng.randint(-40, 40)])


def claim_instability(c: Certificate, rng: random.Random) -> None:
    row, case, own = drawn_row(c, rng)
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
    node, rivals = rng.choice(nodes or [{}]), proof["rivals"]
    kind, table = rng.randrange(10), rng.choice(node.get("tables") or [None])
    if kind == 0 and rivals:
        rivals.pop(rng.randrange(len(rivals)))
    elif kind == 1 and rivals:
        rng.choice(rivals)["rival"] = rng.choice([0, 1, 2, -1, True])
    elif kind == 2:
        node.pop(rng.choice(["low", "high", "split", "tables", "unit", "lambda"]), None)
    elif kind == 3 and "split" in node:
        node[rng.choice(["low", "high"])] = rng.choice([{}, node["low"], node["high"]])
    elif kind == 4 and "split" in node:
        f, v = node["split"]
        node["split"] = rng.choice([[f, _near(v, rng)], [rng.randrange(3), v]])
    elif kind == 5 and table:
        table[2][rng.randrange(len(table[2]))] += rng.choice([-1, 1, 7, -30, 2**70, -(2**70)])
    elif kind == 6 and table:
        table[rng.randrange(2)] = rng.randrange(4)
    elif kind == 7:
        some = [rng.randint(0, 99), rng.randint(1, 9)]
        node["lambda"] = rng.choice([[0, 1], [1, 1], some, [-1, 1], [1, 0], [-1, -1]])
    elif kind == 8:
        node["unit"] = rng.choice([[1, 2], [0, 1], [1, 3], [2**70, 1], [-1, 1], [1, -1], [1, 0]])
    elif proof["cuts"]:
        _, cuts = rng.choice(proof["cuts"])
        if cuts:
            place = rng.randrange(len(cuts))
            cuts[place] = _near(cuts[place], rng)
    return None


def _near(value: float, rng: random.Random) -> float:
    return rng.choice([math.nextafter(value, INF), math.nextafter(value, -INF), value + 0.125, value - 0.125, -value])


def alter_witness(c: Certificate, rng: random.Random) -> None:
    places = [(row, key) for row in c.rows for key in ("witness", "radius_witness") if row.get(key)]
    if not places:
        return claim_instability(c, rng)
    row, key = rng.choice(places)
    row[key] = list(row[key])
    f = rng.randrange(len(row[key]))
    row[key][f] = rng.choice([_near(row[key][f], rng), row["row"][f]])
    return None


def alter_radius(c: Certificate, rng: random.Random) -> None:
    row, case, own = drawn_row(c, rng)
    for key in rng.sample(["radius", "radius_upper"], rng.choice([1, 2])):
        if row.get(key) not in (None, "inf"):
            v = row[key]
            row[key] = rng.choice([math.nextafter(v, INF), math.nextafter(v, 0), v * 2, v / 2, "inf", 0, -1])
        elif key in row:
            row[key] = rng.choice([1.0, 0.125, 1e308, "inf"])
    if rng.random() < 0.5 and "radius" in row and row["radius"] not in ("inf", 0, -1):
        case = replace(case, eps=float(math.ceil(row["radius"]) - 1 if case.norm == 0 else row["radius"]))
        row["radius_proof"] = rng.choice([proof_by_cells(case, own), find_proof(case, own)[0]])


def claim_radius(c: Certificate, rng: random.Random) -> None:
    """Say a radius, asked for or not."""
    row, case, own = drawn_row(c, rng)
    c.header["radius"] = True
    row |= {"radius": rng.choice(["inf", c.case.eps, 0.5, 2.0]), "radius_upper": "inf"}
    row["radius_proof"] = rng.choice([good_proof(case, own, rng), row.get("proof")])


def alter_aside(c: Certificate, rng: random.Random) -> None:
    """Change what a model says about missing values and categories."""
    document, n = c.document, c.case.n_features
    f, node = rng.randrange(n), rng.randrange(len(document["feature"]))
    document.setdefault("missing_left", [0] * len(document["feature"]))
    document["version"] = 2
    near = [v for v in [*c.case.x, *document["threshold"], 0.0] if v is not None and not math.isnan(v)]
    ends = sorted([rng.choice(near), _near(rng.choice(near), rng)])
    kind = rng.randrange(6)
    if kind == 0:
        where = rng.choice([f, f, f, n, -1])
        document["blanks"] = [*(document.get("blanks") or []), [where, *rng.choice([ends, ends, ends[::-1]])]]
    elif kind == 1:
        document["required"] = rng.choice([[f], [f, f], [n], [-1], list(range(n))])
    elif kind == 2:
        document["missing_left"][node] = rng.choice([0, 1, 1, 2])
    elif kind == 3 and document.get("subsets"):
        document["subsets"][rng.randrange(len(document["subsets"]))] = rng.choice([[], [0.0], [0.5, 1.0], [7], [-3.0]])
    elif kind == 4:
        listed = rng.choice([[], ["a"], ["a", "b", "c"], [0.0, 0.5], [3.0], [True]])
        document["categories"] = [*(document.get("categories") or []), [rng.choice([f, f, n]), listed, None]]
    else:
        row = rng.choice(c.rows)
        row["row"] = [None if g == f else v for g, v in enumerate(row["row"])]
        c.header["attacker"]["missing"] = rng.choice([None, 0.5, c.case.eps])
    if rng.random() < 0.5:
        row = rng.choice(c.rows)
        row |= {"stable": 1, "proof": plain_proof(c.case, row["prediction"])}
        row.pop("witness", None)
    c.is_named = True


def alter_row(c: Certificate, rng: random.Random) -> None:
    row, f = rng.choice(c.rows), rng.randrange(c.case.n_features)
    row["row"] = [_near(v, rng) if g == f else v for g, v in enumerate(row["row"])]


def swap_rows(c: Certificate, rng: random.Random) -> None:
    a, b = rng.choice(c.rows), rng.choice(c.rows)
    key = rng.choice(["row", "proof", "witness", "stable", "prediction", "radius", "radius_proof", "radius_witness"])
    if key in a and key in b:
        a[key], b[key] = b[key], a[key]
    else:
        a["prediction"] = rng.randrange(c.case.n_classes)


def alter_model(c: Certificate, rng: random.Random) -> None:
    document = c.document
    node, kind = rng.randrange(len(document["feature"])), rng.choice(["threshold", "leaf", "feature", "classes", 4, 5])
    if kind == "threshold":
        document[kind][node] = _near(document[kind][node], rng)
    elif kind in ("leaf", "feature"):
        document[kind][node] = rng.choice([*document[kind], -2, 99])
    elif kind == "classes":
        rng.shuffle(document["classes"])
        c.header["classes"] = rng.choice([document["classes"], c.header["classes"]])
    elif kind == 4 and "scores" in document:
        row = rng.choice([*document["scores"], document["base"]])
        place = rng.randrange(len(row))
        row[place] = rng.choice([_near(row[place], rng), -row[place], 1e308])
    else:
        for column in ("feature", "threshold", "leaf"):
            document[column].pop(node)
    c.is_named = rng.random() < 0.8


def columns_of_kinds(columns: list, eps: float) -> list[dict]:
    """Return what the header may say of columns, one kind after the other."""
    rules = {"ruled": columns, "rules": [{"add": 0.5, "cost": 1}]}
    told = [{"numbers": columns}, {"frozen": columns}, {"categories": columns, "cost": eps}, {"one_hot": columns}]
    return [*told, rules, rules | {"rules": []}, {"one_hot": columns, "scale": 0}]


def alter_header(c: Certificate, rng: random.Random) -> None:
    attacker, n = c.header["attacker"], c.case.n_features
    eps, said, kind = attacker["eps"], attacker.get("columns") or [], rng.randrange(12)
    if kind <= 1:
        attacker["eps"] = rng.choice([math.nextafter(eps, INF), math.nextafter(eps, 0), 2 * eps, eps / 2, eps + 1, 0])
    elif kind == 2:
        attacker["norm"] = rng.choice([0, 1, 2, 3, 100, 101, "inf", -1, True])
    elif kind == 3:
        attacker["missing"] = rng.choice([None, 1.0, eps, math.nextafter(eps, INF), 0, -1, True, "inf", 1e308, 5e-324])
    elif kind == 4:
        c.header |= {"margin": rng.choice([0, 0.25, 1e-3, -1.0, 1e308, 5e-324]), "radius": rng.random() < 0.5}
    elif kind == 5:
        c.header[rng.choice([*c.header, "newer"])] = rng.choice([0, 2, "0" * 64, None])
    elif kind == 6 or not said:  # say more, of columns that are spoken of, or no more
        columns = rng.choice([[0], [n - 1], [0, 0], [n], [-1], [], list(range(n)), [0.0], [True], 0])
        more = [*columns_of_kinds(columns, 1.0), {"down": 1.0}, {}, {"newer": columns}]
        attacker["columns"] = [*rng.sample(said, max(len(said) - rng.randrange(2), 0)), rng.choice(more)]
    elif kind == 7:
        said.pop(rng.randrange(len(said)))
    elif kind == 8:  # the same columns are something else
        place = rng.randrange(len(said))
        columns = next((said[place][word] for word in KINDS if word in said[place]), [0])
        said[place] = rng.choice(columns_of_kinds(columns, eps))
    else:
        alter_columns(rng.choice(said), n, c.case, rng)


def alter_columns(said: dict, n: int, case: Case, rng: random.Random) -> None:
    """Change what is said about some columns."""
    key, sizes = rng.choice(list(said)), [0, 0.5, 1, 1.7, 2, -1, None, 1e308, 5e-324, "1", True]
    if key in KINDS:
        said[key] = rng.choice([[0], [n - 1], [n], [-1], [0, 0], list(range(n)), said[key][::-1], said[key][:-1]])
    elif key in ("low", "high"):
        said[key] = rng.choice([*(v + rng.choice([-5, -0.125, 0, 0.125, 5]) for v in case.x), None, "inf", 1e308])
    elif key == "rules" and said["rules"]:
        rule = rng.choice(said["rules"])
        word = rng.choice(list(rule))
        rule[word] = rng.choice([0, 0.5, -0.5, 1, 2.0, -1, None, [], [0], [0, 1, 2], "inf", True])
    else:
        said[key] = rng.choice([True, False, None, 1] if key == "integer" else sizes)
    if rng.random() < 0.1:
        words = ["down", "up", "low", "high", "integer", "scale", "cost", "rules", "newer"]
        said[rng.choice(words)] = rng.choice(sizes)


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
    swap_rows, alter_model, alter_header, alter_header, put_oddity, put_oddity, claim_radius, alter_aside, alter_aside,
]  # fmt: skip


def alter_bytes(data: bytes, rng: random.Random) -> bytes:
    """Return bytes some of which are others, left out, there twice, or more."""
    changed = bytearray(data)
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        i, j = rng.randrange(len(changed) + 1), rng.randrange(len(changed) + 1)
        more = rng.choice(b'0 9 - \n \0 \xff [ {} , " null e5 e400 99999999999999999999'.split(b" "))
        other = [rng.randrange(256), rng.choice(b'0123456789.-e,:"[]{}'), (changed[i : i + 1] or b"0")[0] ^ 1 << j % 8]
        size, new = rng.choice([
            *((1, bytes([byte])) for byte in other), (0, changed[j : j + rng.randint(1, 50)]), (0, more),
            (rng.choice([1, 1, 5, 200, 1000]), b""), (len(changed), b""),
        ])  # fmt: skip
        changed[i : i + size] = new
    return bytes(changed)


# ---- Judging ---------------------------------------------------------------------------------------------------------


def trees_of(document: dict) -> list:
    """Read the trees of a model file, carelessly."""
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

    return [tree(node) for node in nodes]


def cases_of(model: bytes, certificate: bytes):
    """Read files back, carelessly: yield each row of the certificate with its case and the margin."""
    document = json.loads(model)
    lines = [json.loads(line) for line in BytesIO(certificate)]  # a carriage return ends no line
    header, attacker, n = lines[0], lines[0]["attacker"], document["n_features"]
    trees = trees_of(document)
    listed = {entry[0]: entry[1] for entry in document.get("categories") or ()}
    who = _attacker(attacker, n)
    told = who["categories"]
    blanks = {f: (first, last) for f, first, last in document.get("blanks") or ()}
    codes: dict[int, list[float]] = {f: [] for f in told}
    for f, rule in (split for one in trees for split in splits(one) if isinstance(split[1], frozenset)):
        codes.setdefault(f, []).extend(rule)
    for f, used in codes.items():
        whole = sorted({v for v in used if v % 1 == 0})
        ends = [v for v in (*whole, who["domain"][0][f], *blanks.get(f, ())) if abs(v) < INF]
        beside = {float(math.floor(v) + step) for v in ends for step in (0, 1, 2)}  # all in no set are alike
        rows = [line[key] for line in lines[1:-1] for key in ("witness", "radius_witness") if line.get(key)]
        seen = {float(row[f]) for row in rows if len(row) == n and row[f] is not None and row[f] % 1 == 0}
        codes[f] = sorted({*whole, *beside, *seen, *map(float, range(9))})
        if listed.get(f):  # floats stand for themselves
            codes[f] = listed[f] if isinstance(listed[f][0], float) else [float(i) for i in range(len(listed[f]))]
    who |= {
        "required": tuple(document.get("required") or ()), "codes": codes,
        "missing": attacker.get("missing") if document.get("missing_left") else None,
        "blanks": blanks,
        "base": [float(b) for b in document["base"]] if document["combine"] == "sum" else None,
    }  # fmt: skip
    norm, stuck = INF if attacker["norm"] == "inf" else attacker["norm"], who.pop("stuck")
    for line in lines[1:-1]:
        row = _read(line["row"])
        case = Case(trees, n, len(document["classes"]), row, norm, float(attacker["eps"]), **who)
        ends = [list(end) for end in case.domain]
        for f in stuck:  # a number that moves neither way, though it may be blanked
            if not math.isnan(row[f]):
                ends[0][f] = ends[1][f] = row[f]
        yield document["classes"], header["margin"], line, replace(case, domain=(ends[0], ends[1]))


def _attacker(attacker: dict, n: int) -> dict:
    """Return what the header says about columns as a case has it."""
    found: dict = {"down": [1.0] * n, "up": [1.0] * n, "low": [-oracle.LARGEST] * n, "high": [oracle.LARGEST] * n}
    frozen, groups, integer, categories, rules = set(), [], [], {}, {}
    for said in attacker.get("columns") or ():
        kind = next(word for word in KINDS if word in said)
        columns = said[kind]
        for key in ("down", "up", "low", "high"):
            for f in columns if said.get(key) is not None else ():
                found[key][f] = float(said[key])
        integer += columns if said.get("integer") else []
        categories |= {f: float(said["cost"]) for f in columns} if kind == "categories" else {}
        frozen |= set(columns) if kind == "frozen" or (kind == "one_hot" and said.get("scale") == 0) else set()
        if kind == "one_hot":
            groups.append(columns)
            for f in columns if said.get("scale") else ():
                found["down"][f] = found["up"][f] = float(said["scale"])
        if said.get("rules") is not None:
            keys = [-len(groups)] if kind == "one_hot" else columns
            rules |= {key: [_rule(rule) for rule in said["rules"]] for key in keys}
    ways = {f: (found["down"][f] > 0, found["up"][f] > 0) for f in range(n)}
    direction = {f: "up" if up else "down" for f, (down, up) in ways.items() if down != up}
    ruled = {f for key in rules for f in (groups[-1 - key] if key < 0 else [key])}
    return {
        "scale": [v or 1.0 for v in found["down"]], "scale_up": [v or 1.0 for v in found["up"]],
        "domain": (found["low"], found["high"]), "direction": direction, "integer": integer, "groups": groups,
        "frozen": sorted(frozen | ruled), "categories": categories, "rules": rules or None,
        "free": tuple(set(range(n)) - frozen - ruled), "stuck": [f for f, way in ways.items() if way == (False, False)],
    }  # fmt: skip


def _rule(rule: dict) -> tuple[bool, list[float], float, float]:
    if "add" not in rule:
        return False, [float(v) for v in rule["values"]], float(rule["become"]), float(rule["cost"])
    ends = [end if rule.get(key) is None else float(rule[key]) for key, end in (("low", -INF), ("high", INF))]
    return True, ends, float(rule["add"]), float(rule["cost"])


def _read(row):
    return [math.nan if v is None else float(v) for v in row]


def find_falsehood(labels: list, margin: float, line: dict, case: Case) -> str | None:
    """Return what is false about a row, if anything is."""
    for f, x in enumerate(case.x):
        low, high = (case.blanks or {}).get(f, (INF, INF))
        if low <= x <= high or (math.isnan(x) and f in case.required):
            return "that the model takes such a row"
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
    return max(leads(case, z, own)) <= margin or max(leads(case, case.x, own)) >= -margin


def judged(model: bytes, certificate: bytes, known: dict[str, str | None]) -> tuple[str, str | None]:
    """Run the auditor; return what came of it, and what is false though it is confirmed, if anything is.

    Statements that are ``known`` are not judged again.
    """
    try:
        found = audit.audit(BytesIO(model), BytesIO(certificate))
    except audit.Refusal:
        return "bad input", None
    doubtful = {int(doubt.split()[1]) for doubt in found.doubts}
    for number, (labels, margin, line, case) in enumerate(cases_of(model, certificate)):
        if number not in doubtful:
            stated = {key: value for key, value in line.items() if not key.endswith("proof")}
            statement = repr((labels, margin, stated, case))
            if statement not in known:
                known[statement] = find_falsehood(labels, margin, line, case)
            if known[statement]:
                return "confirmed, but false", f"{known[statement]}; {line}\n{case}"
    return ("refuted or not proved" if found.doubts else "confirmed, and true"), None


def draw(rng: random.Random) -> Certificate:
    """Draw a certificate about some case, in which all is true."""
    kind = rng.choice([real_case, random_case, rule_case, meeting_case, meeting_case])
    case = meeting_case(rng) if kind is meeting_case else kind(rng, combine=rng.choice(["vote", "sum"]))
    if kind is not rule_case and rng.random() < 0.4:
        case, _ = dress(rng, case)
    return Certificate(case, rng)


def trial(n_cases: int, seed: int, judge: Judge | None = None) -> Judge:
    """Judge this many altered files; each certificate is made once and altered twenty times."""
    judge = Judge() if judge is None else judge
    for number in judge.cases(n_cases):
        rng = random.Random(f"{seed}-{number}")
        if number % 20 == 0:
            original, known = draw(random.Random(f"{seed}-{number}-case")), {}
            outcome, _ = judged(*original.files(), known)
            if outcome != "confirmed, and true":
                judge.find([seed, number], "true, but not confirmed", outcome)
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
        with judge.watch([seed, number]):
            try:
                outcome, falsehood = judged(*files, known)
            except Exception as error:
                outcome, falsehood = "crash", repr(error)
            if falsehood:
                judge.find([seed, number], outcome, falsehood)
            judge.note(f"{name}: {outcome}")
    return judge


if __name__ == "__main__":
    run(trial, __doc__)

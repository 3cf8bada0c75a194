"""Certificates of small cases, made the slow way, and what the oracle thinks of them.

Nothing here shares code with the package. A stable row is proved by one sweep of messages between trees and features
where that is enough, and else by splits down to single cells, where the bound is exact.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import random
from dataclasses import replace
from fractions import Fraction
from io import BytesIO

import oracle
from certiforest import audit
from oracle import INF, Case, splits


def document_of(case: Case) -> dict:
    """Write a case's trees as a model file."""
    feature, threshold, leaf, scores = [], [], [], []

    def add(node):
        is_split = isinstance(node, tuple)
        feature.append(node[0] if is_split else -1)
        threshold.append(node[1] if is_split else 0.0)
        leaf.append(-1 if is_split else node if case.base is None else len(scores))
        if is_split:
            add(node[2])
            add(node[3])
        elif case.base is not None:
            scores.append(node)

    for tree in case.trees:
        add(tree)
    document = {
        "format": "certiforest", "version": 1, "combine": "vote" if case.base is None else "sum",
        "n_features": case.n_features, "feature_names": None, "classes": list(range(case.n_classes)),
        "feature": feature, "threshold": threshold, "leaf": leaf,
    }  # fmt: skip
    return document if case.base is None else document | {"scores": scores, "base": case.base}


def sha_of(document: dict) -> str:
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def header_of(case: Case, document: dict, margin: float = 0.0, radius: bool = True) -> dict:
    attacker = {
        "norm": "inf" if case.norm == INF else case.norm, "eps": case.eps, "scale": case.scale, "frozen": case.frozen,
        "domain": None if case.domain is None else list(case.domain),
    }  # fmt: skip
    return {
        "format": "certiforest certificate", "version": 1, "model_sha256": sha_of(document), "attacker": attacker,
        "classes": document["classes"], "margin": margin, "radius": radius, "about": {"made by": "hand"},
    }  # fmt: skip


def file_of(header: dict, rows: list[dict]) -> bytes:
    return "".join(json.dumps(line) + "\n" for line in [header, *rows, {"end": len(rows)}]).encode()


def run_audit(document: dict, certificate: bytes) -> audit.Audit:
    return audit.audit(BytesIO(json.dumps(document).encode()), BytesIO(certificate))


def is_confirmed(document: dict, header: dict, row: dict) -> bool:
    return not run_audit(document, file_of(header, [row])).doubts


# ---- What is true ----------------------------------------------------------------------------------------------------


def moves(case: Case):
    """Yield the cheapest row of every combination of cells, and its price."""
    used = sorted({f for tree in case.trees for f, _ in splits(tree)})
    for choice in itertools.product(*(oracle.reachable_values(case, f) for f in used)):
        z = list(case.x)
        for f, (value, _) in zip(used, choice, strict=True):
            z[f] = value
        yield z, (oracle.total(case, [p for _, p in choice]) if choice else Fraction(0))


def leads(case: Case, z: list[float], own: int) -> list[Fraction]:
    """Return how far each rival is ahead of the own class."""
    leaves = [oracle.leaf_of(tree, z) for tree in case.trees]
    if case.base is None:
        sums = [Fraction(leaves.count(c)) for c in range(case.n_classes)]
    else:
        sums = oracle.exact_sums(case.base, leaves)
        sums = [Fraction(0), *sums] if len(sums) < case.n_classes else sums
    return [sums[c] - sums[own] for c in range(case.n_classes) if c != own]


def cheapest_attack(case: Case, margin: float = 0.0) -> tuple[Fraction | None, list[float] | None]:
    """Return the least price of a changed prediction (or of a rival ahead by more than the margin), and the row."""
    own = oracle.predict(case, case.x)
    best, witness = None, None
    for z, cost in moves(case):
        if best is None or cost < best:
            wins = max(leads(case, z, own), default=-1) > margin if margin else oracle.predict(case, z) != own
            if wins:
                best, witness = cost, z
    return best, witness


def is_safe(case: Case, margin: float = 0.0) -> bool:
    """Tell whether no row in reach changes the prediction, or lets a rival come within the margin."""
    own, budget = oracle.predict(case, case.x), oracle.budget(case, case.eps)
    if not margin:
        return all(oracle.predict(case, z) == own for z, cost in moves(case) if cost <= budget)
    return all(max(leads(case, z, own), default=-INF) < -margin for z, cost in moves(case) if cost <= budget)


def radius_of(case: Case, price: Fraction | None) -> float:
    """Return the smallest float whose power is no less than a price."""
    if price is None:
        return INF
    if case.norm in (0, INF):
        guess = float(price)
    else:
        guess = 2.0 ** ((_log2(price)) / case.norm)
    power = 1 if case.norm in (0, INF) else int(case.norm)
    while Fraction(guess) ** power < price:
        guess = math.nextafter(guess, INF)
    while guess > 0 and Fraction(math.nextafter(guess, 0)) ** power >= price:
        guess = math.nextafter(guess, 0)
    return guess


def _log2(value: Fraction) -> float:
    shift = value.numerator.bit_length() - value.denominator.bit_length()
    return math.log2(value / Fraction(2) ** shift) + shift if value else -1100.0


# ---- Proofs ----------------------------------------------------------------------------------------------------------


def cuts_of(case: Case) -> dict[int, list[float]]:
    cuts: dict[int, set[float]] = {}
    for tree in case.trees:
        for f, v in splits(tree):
            cuts.setdefault(f, set()).add(v + 0.0)
    return {f: sorted(values) for f, values in cuts.items()}


def split_all(cuts: dict[int, list[float]]) -> dict:
    """Return splits down to single cells."""
    f = max(cuts, key=lambda f: len(cuts[f]), default=None)
    if f is None or not cuts[f]:
        return {}
    middle = len(cuts[f]) // 2
    return {
        "split": [f, cuts[f][middle]],
        "low": split_all({**cuts, f: cuts[f][:middle]}),
        "high": split_all({**cuts, f: cuts[f][middle + 1 :]}),
    }


def proof_by_cells(case: Case, own: int) -> dict:
    rivals = [c for c in range(case.n_classes) if c != own]
    return {"cuts": [], "rivals": [{"rival": c, **split_all(cuts_of(case))} for c in rivals]}


def plain_proof(case: Case, own: int) -> dict:
    return {"cuts": [], "rivals": [{"rival": c} for c in range(case.n_classes) if c != own]}


def leaf_boxes(tree, box=()):
    """Yield the leaves of a tree, and of each the interval (low, high] of every feature on its path."""
    if not isinstance(tree, tuple):
        yield tree, dict(box)
        return
    f, v, left, right = tree
    low, high = dict(box).get(f, (-INF, INF))
    yield from leaf_boxes(left, {**dict(box), f: (low, min(high, v))}.items())
    yield from leaf_boxes(right, {**dict(box), f: (max(low, v), high)}.items())


def swept_proof(case: Case, own: int, rng: random.Random) -> dict:
    """Return tables from one sweep of messages, with a random lambda for finite norms, sometimes disturbed."""
    cuts = cuts_of(case)
    bits = rng.choice([0, 3, 10])
    parts = []
    for rival in (c for c in range(case.n_classes) if c != own):
        phi = {f: [0.0] * (len(c) + 1) for f, c in cuts.items()}
        gains, tables = [], []
        for tree in case.trees:
            leaves = []
            for value, box in leaf_boxes(tree):
                if case.base is None:
                    gain = float((value == rival) - (value == own))
                else:
                    row = [0.0, *value] if len(value) < case.n_classes else value
                    gain = row[rival] - row[own]
                cells = {}
                for f, (low, high) in box.items():
                    inside = [
                        i for i, (a, b) in enumerate(itertools.pairwise([-INF, *cuts[f], INF])) if a < high and low < b
                    ]
                    cells[f] = inside
                if all(cells.values()):
                    leaves.append((gain, cells))
            gains.append(leaves)
        for t, leaves in enumerate(gains):
            own_features = sorted({f for _, cells in leaves for f in cells})
            for f in own_features:
                best = []
                for i in range(len(cuts[f]) + 1):
                    allowed = [
                        gain + sum(max(phi[g][j] for j in cells[g]) for g in cells if g != f)
                        for gain, cells in leaves
                        if i in cells.get(f, range(len(cuts[f]) + 1))
                    ]
                    best.append((max(allowed, default=0.0) + phi[f][i]) / len(own_features) - phi[f][i])
                if not all(map(math.isfinite, best)):
                    continue
                whole = [round(b * 2**bits) + (rng.choice([0, 0, 0, 1, -1]) if rng.random() < 0.1 else 0) for b in best]
                if max(map(abs, whole)).bit_length() > 8000:
                    continue
                tables.append([t, f, whole])
                for i, m in enumerate(whole):
                    phi[f][i] += m / 2**bits if abs(m) < 2**900 else 0.0
        part = {"rival": rival, "unit": [1, 2**bits], "tables": tables}
        if case.norm != INF and case.eps > 0 and rng.random() < 0.7:
            budget = oracle.budget(case, case.eps)
            weight = (
                Fraction(rng.choice([1, 1, 2, 3, 1001, 999]), rng.choice([1, 2, 3, 4, 1000])) / budget if budget else 0
            )
            if weight and max(weight.numerator, weight.denominator).bit_length() < 14000:
                part["lambda"] = [weight.numerator, weight.denominator]
        parts.append(part)
    return {"cuts": [[f, c] for f, c in sorted(cuts.items())], "rivals": parts}


def find_proof(case: Case, own: int, margin: float = 0.0, rng: random.Random | None = None) -> tuple[dict, str]:
    """Return a proof for a stable row and its kind: the first that the auditor takes, the last resort unasked."""
    document = document_of(case)
    header = header_of(case, document, margin, radius=False)
    tried = [("plain", plain_proof(case, own))]
    if rng is not None:
        tried += [("swept", swept_proof(case, own, rng))]
    for kind, proof in tried:
        row = {"row": case.x, "prediction": own, "stable": 1, "method": kind, "proof": proof}
        if is_confirmed(document, header, row):
            return proof, kind
    return proof_by_cells(case, own), "cells"


def certificate_row(case: Case, margin: float = 0.0, rng: random.Random | None = None) -> dict:
    """Return a row of a certificate that says all that is true: verdict and, without margin, the exact radius."""
    own = oracle.predict(case, case.x)
    best, witness = cheapest_attack(case, margin)
    row: dict = {"row": case.x, "prediction": own, "stable": -1, "method": "naive"}
    lead = max(leads(case, case.x, own), default=-INF)
    if is_safe(case, margin):
        row["stable"] = 1
        row["proof"], row["method"] = find_proof(case, own, margin, rng)
    elif best is not None and best <= oracle.budget(case, case.eps) and (not margin or lead < -margin):
        row |= {"stable": 0, "witness": witness}
    if margin:
        return row
    radius = radius_of(case, best)
    row |= {"radius": "inf" if radius == INF else radius, "radius_upper": "inf" if radius == INF else radius}
    if radius < INF:
        row["radius_witness"] = witness
    below = radius - 1 if case.norm == 0 else math.nextafter(radius, 0)
    if radius == INF:
        row["radius_proof"] = proof_by_cells(case, own)
    elif below > 0 and not (row["stable"] == 1 and below <= case.eps):
        row["radius_proof"], _ = find_proof(replace(case, eps=below), own, 0.0, rng)
    return row

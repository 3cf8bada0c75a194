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
    missing_left, subset, subsets = [], [], []

    def add(node):
        is_split = isinstance(node, tuple)
        is_set = is_split and isinstance(node[1], frozenset)
        feature.append(node[0] if is_split else -1)
        threshold.append(None if is_set else node[1] if is_split else 0.0)
        missing_left.append(int(is_split and node[-1] is True))
        subset.append(len(subsets) if is_set else -1)
        subsets.extend([sorted(node[1])] if is_set else [])
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
    if case.codes is not None:
        document |= {"version": 2, "missing_left": missing_left, "subset": subset, "subsets": subsets}
        document |= (
            {} if case.names is None else {"categories": [[f, values, None] for f, values in case.names.items()]}
        )
        document |= {"required": list(case.required), "blanks": [[f, *pair] for f, pair in (case.blanks or {}).items()]}
    return document if case.base is None else document | {"scores": scores, "base": case.base}


def sha_of(document: dict) -> str:
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def header_of(case: Case, document: dict, margin: float = 0.0, radius: bool = True) -> dict:
    attacker = {
        "norm": "inf" if case.norm == INF else case.norm, "eps": case.eps, "missing": case.missing,
        "columns": columns_of(case),
    }  # fmt: skip
    return {
        "format": "certiforest certificate", "version": 1, "model_sha256": sha_of(document), "attacker": attacker,
        "classes": document["classes"], "margin": margin, "radius": radius, "about": {"made by": "hand"},
    }  # fmt: skip


def columns_of(case: Case) -> list[dict]:
    """Write what a case says about columns as the header of a certificate has it, one by one, groups last."""
    found = []
    for f in (f for f in range(case.n_features) if oracle.group_of(case, f) is None):
        low, high = (None, None) if case.domain is None else (case.domain[0][f], case.domain[1][f])
        ends = {"low": None if low == -INF else low, "high": None if high == INF else high}
        down = 1.0 if case.scale is None else case.scale[f]
        up, way = down if case.scale_up is None else case.scale_up[f], (case.direction or {}).get(f)
        if f in (case.frozen or ()) or (case.rules is not None and f not in case.rules):
            found.append({"frozen": [f]})
        elif case.rules is not None:
            found.append({"ruled": [f], "rules": [rule_of(*rule) for rule in case.rules[f]]})
        elif f in (case.categories or {}):
            found.append({"categories": [f], "cost": case.categories[f], **ends})
        else:
            moves = {"down": 0 if way == "up" else down, "up": 0 if way == "down" else up}
            found.append({"numbers": [f], **moves, **ends, "integer": f in (case.integer or ())})
    for g, group in enumerate(case.groups or []):
        scale = 1.0 if case.scale is None else case.scale[group[0]]
        if case.rules is None:
            found.append({"one_hot": group, "scale": 0 if group[0] in (case.frozen or ()) else scale})
        else:
            found.append({"one_hot": group, "rules": [rule_of(*rule) for rule in case.rules.get(-1 - g, [])]})
    return found


def rule_of(is_numerical: bool, pre: list[float], post: float, cost: float) -> dict:
    if not is_numerical:
        return {"values": pre, "become": post, "cost": cost}
    low, high = (None if abs(v) == INF else v for v in pre)
    return {"low": low, "high": high, "add": post, "cost": cost}


def file_of(header: dict, rows: list[dict]) -> bytes:
    return "".join(json.dumps(line) + "\n" for line in [header, *rows, {"end": len(rows)}]).encode()


def run_audit(document: dict, certificate: bytes) -> audit.Audit:
    return audit.audit(BytesIO(json.dumps(document).encode()), BytesIO(certificate))


def is_confirmed(document: dict, header: dict, row: dict) -> bool:
    return not run_audit(document, file_of(header, [row])).doubts


# ---- What is true ----------------------------------------------------------------------------------------------------


def moves(case: Case):
    """Yield the cheapest row of every combination of cells, and its price."""
    for choice in itertools.product(*oracle.choices(case)):
        z = list(case.x)
        for values, _ in choice:
            for f, value in values.items():
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
            group = oracle.group_of(case, f)
            if isinstance(v, frozenset):
                cuts.setdefault(f, set()).update(case.codes[f], [code - 1 for code in case.codes[f]])
            elif group is None:
                cuts.setdefault(f, set()).add(v + 0.0)
            else:
                cuts[case.n_features + case.groups.index(group)] = {float(i) for i in range(len(group) - 1)}
    if case.missing is not None:
        cuts = {f: values | ({oracle.LARGEST} if f < case.n_features else set()) for f, values in cuts.items()}
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


def swept_proof(case: Case, own: int, rng: random.Random, n_sweeps: int = 4) -> dict:
    """Return tables from a few sweeps of messages, with some lambda for finite norms, now and then disturbed."""
    cuts = cuts_of(case)
    bits = rng.choice([0, 3, 10, 20])
    budget = oracle.budget(case, case.eps)
    weight = Fraction(0)
    if case.norm != INF and budget > 0 and rng.random() < 0.8:
        weight = Fraction(rng.choice([1, 1, 2, 2, 3, 1001, 1999]), rng.choice([1, 1, 2, 3, 1000])) / budget
        if max(weight.numerator, weight.denominator).bit_length() > 14000:
            weight = Fraction(0)
    prices = {f: _cell_prices(case, f, cuts[f], budget) for f in cuts}
    parts = []
    for rival in (c for c in range(case.n_classes) if c != own):
        trees = [_leaves(case, tree, rival, own, cuts, prices) for tree in case.trees]
        start = {f: {i: -float(weight * price) for i, price in cells.items()} for f, cells in prices.items()}
        tables = _sweep(trees, start, n_sweeps)
        entries = []
        for (t, f), m in tables.items():
            noise = rng.choice([0, 0, 0, 1, -1]) if rng.random() < 0.1 else 0
            if all(map(math.isfinite, m.values())):
                whole = {i: round(Fraction(v) * 2**bits) for i, v in m.items()}
                entries.append([t, f, [whole.get(i, 0) + noise * (i % 2) for i in range(len(cuts[f]) + 1)]])
        part = {"rival": rival, "unit": [1, 2**bits], "tables": entries}
        parts.append(part | ({"lambda": [weight.numerator, weight.denominator]} if weight else {}))
    return {"cuts": [[f, c] for f, c in sorted(cuts.items())], "rivals": parts}


def _cell_prices(case, f, cuts, budget):
    """Return the price of each cell that the feature, or the group, can reach alone."""
    prices: dict[int, Fraction] = {}
    if case.rules is not None:
        key = f if f < case.n_features else case.n_features - 1 - f
        own = case.x[f] if key >= 0 else [case.x[c] for c in case.groups[-1 - key]].index(1.0)
        for value, price in (oracle.values_by_rules(case, key) if key in case.rules else {own: Fraction(0)}).items():
            cell = sum(v < value for v in cuts)
            prices[cell] = min(price, prices.get(cell, price))
        return prices
    values = oracle.reachable_values(case, f) if f < case.n_features else _categories(case, f - case.n_features)
    for value, price in values:
        if price <= budget:
            prices[sum(v < value for v in cuts)] = Fraction(0) if case.norm == INF else price
    return prices


def _categories(case, g):
    """Return the places of a group that can be set, and what that costs."""
    group = case.groups[g]
    is_held = any(oracle.is_held(case, f) for f in group)
    return [(i, oracle.price(case, f, 1.0)) for i, f in enumerate(group) if case.x[f] == 1 or not is_held]


def _allowed_places(case, g, box, prices):
    """Return the places of a group that a leaf's box allows."""
    held = [(place, box[f]) for place, f in enumerate(case.groups[g]) if f in box]
    return [i for i in prices if all(low < (i == place) <= high for place, (low, high) in held)]


def _leaves(case, tree, rival, own, cuts, prices):
    """Return what each leaf in reach adds to the lead, and the cells that it allows on each feature of its path."""
    leaves = []
    for value, box in leaf_boxes(tree):
        if case.base is None:
            gain = float((value == rival) - (value == own))
        else:
            row = [0.0, *value] if len(value) < case.n_classes else value
            gain = row[rival] - row[own]
        plain = {f: bounds for f, bounds in box.items() if oracle.group_of(case, f) is None}
        edges = {f: [-INF, *cuts[f], INF] for f in plain}
        allowed = {
            f: [i for i in prices[f] if edges[f][i] < high and low < edges[f][i + 1]]
            for f, (low, high) in plain.items()
        }
        for g, group in enumerate(case.groups or []):
            if set(group) & set(box):
                f = case.n_features + g
                allowed[f] = _allowed_places(case, g, box, prices[f])
        if all(allowed.values()):
            leaves.append((gain, allowed))
    return leaves


def _sweep(trees, phi, n_sweeps):
    """Return tables by tree and feature: block-coordinate descent on the bound, in floats."""
    tables = {}
    for _ in range(n_sweeps):
        for t, leaves in enumerate(trees):
            features = sorted({f for _, allowed in leaves for f in allowed})
            for f in features:
                for i, m in tables.get((t, f), {}).items():
                    phi[f][i] -= m
            new = {}
            for f in features:
                for i in phi[f]:
                    best = [
                        gain + sum(max(phi[g][j] for j in allowed.get(g, phi[g])) for g in features if g != f)
                        for gain, allowed in leaves
                        if i in allowed.get(f, phi[f])
                    ]
                    new.setdefault((t, f), {})[i] = (max(best) + phi[f][i]) / len(features) - phi[f][i]
            for (_, f), m in new.items():
                for i, value in m.items():
                    phi[f][i] += value
            tables |= new
    return tables


def find_proof(case: Case, own: int, margin: float = 0.0, rng: random.Random | None = None) -> tuple[dict, str]:
    """Return a proof for a stable row and its kind: the first that the auditor takes, the last resort unasked."""
    document = document_of(case)
    header = header_of(case, document, margin, radius=False)
    tried = [("plain", plain_proof(case, own))]
    rng = None if case.codes is not None else rng  # cells that stand apart are not swept
    tried += [("swept", swept_proof(case, own, rng)) for _ in range(0 if rng is None else 1 if case.norm == INF else 3)]
    for kind, proof in tried:
        row = {"row": written(case.x), "prediction": own, "stable": 1, "method": kind, "proof": proof}
        if is_confirmed(document, header, row):
            return proof, kind
    return proof_by_cells(case, own), "cells"


def written(row: list[float]) -> list[float | None]:
    return [None if math.isnan(value) else value for value in row]


def certificate_row(case: Case, margin: float = 0.0, rng: random.Random | None = None, radius: bool = True) -> dict:
    """Return a row of a certificate that says all that is true: verdict and, without margin, the exact radius."""
    own = oracle.predict(case, case.x)
    best, witness = cheapest_attack(case, margin)
    witness = None if witness is None else written(witness)
    row: dict = {"row": written(case.x), "prediction": own, "stable": -1, "method": "naive"}
    lead = max(leads(case, case.x, own), default=-INF)
    if is_safe(case, margin):
        row["stable"] = 1
        row["proof"], row["method"] = find_proof(case, own, margin, rng)
    elif best is not None and best <= oracle.budget(case, case.eps) and (not margin or lead < -margin):
        row |= {"stable": 0, "witness": witness}
    if margin or not radius:
        return row
    exact = radius_of(case, best)
    row |= dict.fromkeys(["radius", "radius_upper"], "inf" if exact == INF else exact)
    if exact < INF:
        row["radius_witness"] = witness
    below = exact - 1 if case.norm == 0 else math.nextafter(exact, 0)
    if exact == INF:
        row["radius_proof"] = proof_by_cells(case, own)
    elif below > 0 and not (row["stable"] == 1 and below <= case.eps):
        row["radius_proof"], _ = find_proof(replace(case, eps=below), own, 0.0, rng)
    return row


def meeting_case(rng: random.Random) -> Case:
    """Draw a case whose trees meet all the time: many trees, few features, a budget that crosses several thresholds."""
    n_features, n_classes, n_trees = rng.randint(1, 3), rng.choice([2, 2, 3]), rng.randint(4, 9)
    grid = [i / 8 for i in range(1, 8)]

    def tree(depth):
        if depth == 0 or rng.random() < 0.1:
            return rng.randrange(n_classes)
        return rng.randrange(n_features), rng.choice(grid), tree(depth - 1), tree(depth - 1)

    trees = [tree(2) for _ in range(n_trees)]
    x = [rng.choice([*grid, 0.3, 0.7]) for _ in range(n_features)]
    norm = rng.choice([0, 1, 2, INF, INF])
    eps = rng.choice([1.0, 2.0]) if norm == 0 else rng.choice([0.125, 0.25, 0.3, 0.375, 0.5])
    case = Case(trees, n_features, n_classes, x, norm, eps)
    if rng.random() < 0.5:
        scores = [-1.0, -0.7, -0.3, -0.1, 0.1, 0.2, 0.4, 1.0]

        def scored(node):
            if isinstance(node, tuple):
                return (*node[:2], scored(node[2]), scored(node[3]))
            return [rng.choice(scores) for _ in range(n_classes)]

        case = replace(case, trees=[scored(tree) for tree in trees], base=[0.0] * n_classes)
    return case

"""A trial of false certificates: each is false, or malformed, by construction; the auditor confirms none of them.

``python tests/hostile/false_certificates.py --cases 2000 --seed 1`` takes any number. Statements are made false one
field at a time and as well as they can be, with the best proof that there is; that they are false says the oracle.
What is malformed has a number, a key or a line that the format does not know.
"""

import json
import math
import random
import re
import sys
from dataclasses import replace
from io import BytesIO
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from judging import Judge, run

import oracle
import tampering
from certiforest import audit
from naive_prover import leads, moves, proof_by_cells, written
from tampering import good_proof

UNREAD = {"about", "label", "method", "feature_names", "training", "categories"}  # of which nothing is concluded


# What does not apply, or makes no sense to the oracle either.
NO_CASE = (audit.Refusal, TypeError, ValueError, LookupError, OverflowError, AttributeError, RuntimeError)


def insist(condition):
    if not condition:
        raise ValueError("what was drawn cannot be made false in this way")


def row_of(c, *stable):
    row = c.rows[0]
    insist(row["stable"] in stable)
    return row, oracle.predict(c.case, c.case.x)


def another_prediction(c, rng):
    row, own = row_of(c, 0, 1, -1)
    row["prediction"] = rng.choice([v for v in range(-1, c.case.n_classes + 1) if v != own])


def a_prediction_of_another_type(c, rng):
    row, own = row_of(c, 0, 1, -1)
    row["prediction"] = rng.choice([float(own), str(own), [own], None, *([bool(own)] if own < 2 else [])])


def stable_though_broken(c, rng):
    row, own = row_of(c, 0)
    del row["witness"]
    row |= {"stable": 1, "proof": good_proof(c.case, own, rng)}


def stable_by_tables_that_are_off(c, rng):
    stable_though_broken(c, rng)
    tables = [table for part in c.rows[0]["proof"]["rivals"] for table in part.get("tables", ())]
    for table in rng.choices(tables, k=3):
        table[2][rng.randrange(len(table[2]))] += rng.choice([-(2**64), -9, -1, 1, 9, 2**64])


def stable_by_an_unfair_price(c, rng):
    stable_though_broken(c, rng)
    for part in c.rows[0]["proof"]["rivals"]:
        part["lambda"] = rng.choice([[1, 10**9], [10**9, 1], [-1, 1], [1, -1], [0, -1], [1, 0]])
        part["unit"] = rng.choice([[1, 1], [-1, 1], [1, -1], [1, 0], [10**9, 1]])


def stable_with_a_part_left_out(c, rng):
    row, own = row_of(c, 0)
    del row["witness"]
    row |= {"stable": 1, "proof": proof_by_cells(c.case, own)}
    part = rng.choice(row["proof"]["rivals"])
    while "split" in part[(side := rng.choice(["low", "high"]))] and rng.random() < 0.7:
        part = part[side]
    kind = rng.randrange(4)
    if kind == 0:
        del part[side]
    else:
        part[side] = [None, {}, part["low" if side == "high" else "high"]][kind - 1]


def stable_without_a_rival(c, rng):
    stable_though_broken(c, rng)
    rivals = c.rows[0]["proof"]["rivals"]
    kind, place = rng.randrange(3), rng.randrange(len(rivals))
    if kind == 0:
        rivals.pop(place)
    else:
        rivals[place]["rival"] = [rivals[place - 1]["rival"], c.rows[0]["prediction"]][kind - 1]


def broken_though_stable(c, rng):
    row, own = row_of(c, 1)
    del row["proof"]
    found = [z for z, _ in moves(c.case) if oracle.predict(c.case, z) != own] or [c.case.x]
    row |= {"stable": 0, "witness": written(rng.choice([*found, c.case.x]))}


def a_witness_that_costs_too_much(c, rng):
    row, own = row_of(c, 0)
    budget = oracle.budget(c.case, c.case.eps)
    found = [z for z, cost in moves(c.case) if cost > budget and oracle.predict(c.case, z) != own]
    row["witness"] = written(rng.choice(found))


def a_witness_that_breaks_nothing(c, rng):
    row, own = row_of(c, 0)
    row["witness"] = written(rng.choice([z for z, _ in moves(c.case) if oracle.predict(c.case, z) == own]))


def a_witness_that_cannot_be(c, rng):
    row, _ = row_of(c, 0)
    f = rng.randrange(len(row["witness"]))
    odd = [None, 0.5, -1.0, 2.0, 1e308, -1e308]
    row["witness"][f] = rng.choice([*odd, math.nextafter(row["witness"][f] or 0.0, rng.choice([-math.inf, math.inf]))])


def with_radius(c):
    row, own = row_of(c, 0, 1, -1)
    insist(isinstance(row.get("radius"), float))
    return row, own


def a_radius_that_is_too_large(c, rng):
    row, own = with_radius(c)
    exact = row["radius"]
    larger = exact + 1 if c.case.norm == 0 else rng.choice([math.nextafter(exact, math.inf), 2 * exact, 1e308])
    row["radius"] = rng.choice([larger, larger, "inf"])
    row["radius_upper"] = rng.choice(["inf", row["radius"]])
    below = 1e308 if row["radius"] == "inf" else larger - 1 if c.case.norm == 0 else math.nextafter(larger, 0)
    row["radius_proof"] = good_proof(replace(c.case, eps=below), own, rng)
    if row["radius_upper"] == "inf":
        row.pop("radius_witness")


def an_upper_bound_that_is_too_small(c, rng):
    row, _ = with_radius(c)
    row["radius_upper"] = rng.choice([math.nextafter(row["radius_upper"], 0), row["radius_upper"] / 2])
    if rng.random() < 0.5:
        row["radius"], row["radius_proof"] = 0, None


def bounds_that_cross(c, rng):
    row, _ = with_radius(c)
    insist(row["radius"] > 0)
    row["radius_upper"] = rng.choice([0, math.nextafter(row["radius"], 0)])


def no_witness_of_a_radius(c, rng):
    row, _ = with_radius(c)
    row["radius_witness"] = rng.choice([None, row["row"], [], row["radius_witness"][:-1]])


def a_larger_budget(c, rng):
    row_of(c, 1)
    costs = [cost for z, cost in moves(c.case) if oracle.predict(c.case, z) != c.rows[0]["prediction"]]
    eps = float(max(min(costs), 1)) * 2
    c.header["attacker"]["eps"] = math.ceil(eps) if c.case.norm == 0 else eps
    c.header["radius"] = False
    for key in [key for key in c.rows[0] if key.startswith("radius")]:
        del c.rows[0][key]


def a_larger_margin(c, rng):
    row_of(c, 1)
    insist(c.case.base is not None and not c.header["radius"])
    lead = max(leads(c.case, c.case.x, c.rows[0]["prediction"]))
    c.header["margin"] = rng.choice([float(-lead), float(-lead) * 2 + 1e-300])


def other_columns_of_a_model(c, rng):
    insist(c.case.codes is not None)
    tampering.alter_aside(c, rng)


STATED = [
    another_prediction, a_prediction_of_another_type, stable_though_broken, stable_by_tables_that_are_off,
    stable_by_an_unfair_price, stable_with_a_part_left_out, stable_without_a_rival, broken_though_stable,
    a_witness_that_costs_too_much, a_witness_that_breaks_nothing, a_witness_that_cannot_be, a_radius_that_is_too_large,
    an_upper_bound_that_is_too_small, bounds_that_cross, no_witness_of_a_radius, a_larger_budget, a_larger_margin,
    tampering.alter_header, tampering.alter_model, other_columns_of_a_model, tampering.alter_row,
]  # fmt: skip


# ---- What is malformed -----------------------------------------------------------------------------------------------


def numbers_in(part):
    entries = part.items() if isinstance(part, dict) else enumerate(part) if isinstance(part, list) else ()
    for key, value in entries:
        if key not in UNREAD and not (key in ("low", "high") and isinstance(value, dict)):  # it may be out of reach
            if type(value) in (int, float):
                yield part, key
            yield from numbers_in(value)


def no_number(c, rng):
    part, key = rng.choice(list(numbers_in(rng.choice([c.document, c.header, c.rows[0], c.end]))))
    part[key] = f"@{rng.randrange(len(tampering.NOT_NUMBERS))}@"


def a_key_twice(c, rng):
    def double(text):
        found = rng.choice([m for m in re.finditer(r'"([a-z_]+)": ', text) if m[1] not in UNREAD])
        name = rng.choice([found[1], f"\\u{ord(found[1][0]):04x}{found[1][1:]}"])
        value = rng.choice(["0", "null", "[]", "1.0"])
        return f'{text[: found.start()]}"{name}": {value}, {text[found.start() :]}'

    return double


def a_key_of_tomorrow(c, rng):
    part = rng.choice([c.header, c.header["attacker"], c.rows[0], c.end, *c.header["attacker"]["columns"]])
    part[rng.choice(["newer", "Row", "eps ", "stablе", ""])] = rng.choice([None, 0, [], {}])


def a_key_that_is_missing(c, rng):
    part, keys = rng.choice([
        (c.header, ["format", "version", "model_sha256", "attacker", "classes", "margin", "radius"]),
        (c.header["attacker"], ["norm", "eps"]), (c.rows[0], ["row", "prediction", "stable", "method"]),
        (c.end, ["end"]),
    ])  # fmt: skip
    key = rng.choice(keys)
    if rng.random() < 0.5:
        part[key] = None
    else:
        del part[key]


def another_number_of_rows(c, rng):
    kind = rng.randrange(4)
    if kind == 0:
        c.end["end"] += rng.choice([-1, 1, 2**64])
    elif kind == 1:
        return lambda text: text + rng.choice(["\n", " ", "{}", '{"end": 1}\n'])
    elif kind == 2:
        return lambda text: text[: text.rindex('{"end"')]
    else:
        return lambda text: text[: rng.randrange(1, len(text.rstrip()))]
    return None


def more_of_a_row_that_is_spared(c, rng):
    row, own = row_of(c, 0, -1)
    c.header["attacked"] = [v for v in range(c.case.n_classes) if v != own]
    if rng.random() < 0.5:
        row["label"] = rng.choice([own, "other", 1.5])


def a_model_of_another_hash(c, rng):
    sha = c.header["model_sha256"]
    c.header["model_sha256"] = rng.choice([sha.upper() + " ", sha[:-1], "0" * 64, sha[::-1] + "0"])


MALFORMED = [
    no_number, no_number, no_number, a_key_twice, a_key_of_tomorrow, a_key_that_is_missing, another_number_of_rows,
    more_of_a_row_that_is_spared, a_model_of_another_hash,
]  # fmt: skip


# ---- The trial -------------------------------------------------------------------------------------------------------


def crafted(rng, kind):
    """Draw certificates until one can be made false in this way."""
    while True:
        c = tampering.draw(rng)
        c.rows, c.end = c.rows[:1], {"end": 1}
        try:
            changed = kind(c, rng)
            files = c.files()
            if kind in STATED:
                stated = next(tampering.cases_of(*files))
                if c.header["attacker"].get("norm") == -1 or tampering.find_falsehood(*stated) is None:
                    continue  # of that norm nothing is true or false
            elif changed is not None:
                files = files[0], changed(files[1].decode()).encode()
            return files
        except NO_CASE:
            continue  # it does not apply, or the oracle cannot make sense of it either


def trial(n_cases, seed, judge=None):
    judge = Judge() if judge is None else judge
    kinds = STATED + MALFORMED
    for number in judge.cases(n_cases):
        kind = kinds[number % len(kinds)]
        files = crafted(random.Random(f"{seed} {number}"), kind)
        with judge.watch([seed, number]):
            try:
                found = audit.audit(*map(BytesIO, files))
            except audit.Refusal:
                judge.note("refused")
                continue
            if found.doubts:
                judge.note("refuted" if found.counts["refuted"] else "not proved")
            else:
                judge.find([seed, number], f"confirmed: {kind.__name__}", json.dumps([f.decode() for f in files]))
    return judge


if __name__ == "__main__":
    run(trial, __doc__)

"""The auditor confirms what is true and proved, nothing else, and takes no harm from any file."""

import hashlib
import itertools
import json
import math
import random
import shutil
import subprocess
import sys
import tracemalloc
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest

import oracle
import tampering
from cases import NORMS, attacker_of, ensemble_of, random_case, real_case, rule_case
from certiforest import Attacker, CertificateError, Certificates, RuleAttacker, audit, certify
from certiforest.report.findings import digest
from naive_prover import (
    certificate_row,
    document_of,
    file_of,
    header_of,
    is_confirmed,
    is_safe,
    meeting_case,
    plain_proof,
    proof_by_cells,
    run_audit,
    sha_of,
    swept_proof,
)
from oracle import INF, Case
from small_models import stumps

LARGEST = sys.float_info.max
STUMPS = Case([(0, 0.5, 0, 1), (1, 0.5, 0, 1), (0, 0.25, 0, 1)], 2, 2, [0.25, 0.375], INF, 0.125)


def confirm(case, margin=0.0, rng=None, radius=True):
    """Make a certificate that says all that is true, see that it is confirmed, and return its row."""
    document, row = document_of(case), certificate_row(case, margin, rng, radius)
    header = header_of(case, document, margin, radius=radius and not margin)
    found = run_audit(document, file_of(header, [row]))
    assert found.doubts == []
    assert sum(found.counts.values()) == 1
    return row


def stated(case, proof=None, stable=1, **more):
    """Return a row that is to be predicted 0, with a verdict."""
    return {"row": case.x, "prediction": 0, "stable": stable, "method": "", "proof": proof, **more}


def confirms(case, row, **changes):
    """Tell whether a row is confirmed, without radii, of a case or of one that is changed."""
    document = document_of(case)
    return is_confirmed(document, header_of(replace(case, **changes), document, radius=False), row)


def certified(ensemble, x, attacker, folder, **options):
    """Certify a row with proofs, see that the file is confirmed, and return what `certify` found."""
    ensemble.save(folder / "m.json")
    found = certify(ensemble, [x], None, attacker, proof=True, time_limit=60, **options)
    found.save(folder / "c.jsonl")
    assert audit.main([str(folder / "m.json"), str(folder / "c.jsonl")]) == 0
    return found


# ---- What is true is confirmed --------------------------------------------------------------------------------------


@pytest.mark.parametrize("combine", ["vote", "sum"])
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("draw", [random_case, real_case])
def test_true_statements_are_confirmed(draw, norm, combine):
    rng = random.Random(f"{draw.__name__} {norm} {combine}")
    for _ in range(60):
        confirm(draw(rng, norm=norm, combine=combine), rng=rng)


@pytest.mark.parametrize("combine", ["vote", "sum"])
@pytest.mark.parametrize("norm", NORMS)
def test_what_certify_says_about_real_attackers_is_confirmed(norm, combine, tmp_path):
    rng = random.Random(f"certified {norm} {combine}")
    for _ in range(60):
        case = real_case(rng, norm=norm, combine=combine, apart=False)
        certified(ensemble_of(case), case.x, attacker_of(case), tmp_path, radius=True)


@pytest.mark.parametrize("combine", ["vote", "sum"])
def test_what_is_said_about_rules_is_confirmed(combine, tmp_path):
    rng = random.Random(f"rules {combine}")
    for _ in range(150):
        case = rule_case(rng, combine=combine, apart=False)
        confirm(case, rng=rng, radius=False)
        found = certified(ensemble_of(case), case.x, attacker_of(case), tmp_path)
        assert Certificates.load(tmp_path / "c.jsonl") == found


def test_true_statements_are_confirmed_where_trees_meet():
    methods = [confirm(meeting_case(random.Random(seed)), rng=random.Random(seed))["method"] for seed in range(150)]
    assert {"plain", "swept", "cells", "naive"} <= set(methods)  # every kind of proof is seen


@pytest.mark.parametrize("margin", [5e-324, 0.05, 0.25, 3.0])
def test_true_statements_about_margins_are_confirmed(margin):
    kinds = set()
    for seed in range(60):
        rng = random.Random(f"{seed}-{margin}")
        case = meeting_case(rng) if seed % 2 else random_case(rng, combine="sum")
        if case.base is not None:
            kinds.add(confirm(case, margin, rng)["stable"])
    assert kinds >= {0, 1, -1} if margin == 0.25 else 1 in kinds


EXTREMES = [0.0, -0.0, 5e-324, -5e-324, 2.2250738585072014e-308, 1.0, -1.0, 1e308, -1e308, LARGEST, -LARGEST]


@pytest.mark.parametrize("seed", range(150))
def test_true_statements_about_extreme_floats_are_confirmed(seed):
    rng = random.Random(f"extreme {seed}")

    def tree(depth):
        if depth == 0:
            return rng.randrange(2)
        return rng.randrange(2), rng.choice(EXTREMES), tree(depth - 1), tree(depth - 1)

    norm = rng.choice([*NORMS, 100])
    eps = rng.choice([0.0, 5e-324, 1e-323, 1e-300, 1.0, 2.0, 1e300, LARGEST]) if norm else rng.choice([0.0, 1.0, 2.0])
    scale = rng.choice([None, [5e-324, 1e308], [1.7, 1e-300]])
    x = [rng.choice(EXTREMES), rng.choice(EXTREMES)]
    trees = [tree(rng.randint(1, 2)) for _ in range(rng.randint(1, 3))]
    case = Case(trees, 2, 2, x, norm, eps, scale, None, ([-LARGEST] * 2, [LARGEST] * 2))
    row = confirm(case, rng=rng, radius=False)
    assert confirms(case, row, domain=None)


TINY = sorted((Path(__file__).resolve().parents[1] / "docs" / "tiny_certificates").glob("*.jsonl"))


@pytest.mark.parametrize("path", TINY, ids=lambda path: path.stem)
def test_tiny_certificates_are_as_their_names_say(path, capsys):
    model, is_right = path.with_name(path.name.split(".")[0] + ".json"), path.stem.endswith(".right")
    assert is_right or path.stem.endswith(".false")
    assert audit.main([str(model), str(path)]) == int(not is_right)
    assert f"`{path.stem}`" in path.with_name("README.md").read_text()


def test_a_radius_that_only_floats_beyond_the_largest_would_break_is_proved(tmp_path):
    """An attack costs more than any float, so that the radius is inf, though it is there: there was no proof."""
    ensemble = ensemble_of(Case([(0, -LARGEST, 1, 0)], 1, 2, [LARGEST], 1, 1.0))
    found = certified(ensemble, [LARGEST], Attacker(1, 1.0, scale=0.5), tmp_path, radius=True)
    assert found.radius.tolist() == found.radius_upper.tolist() == [math.inf]


def by_the_last(n, **more):
    """Return a case that its last sum decides in one box."""
    return {"bits": [1] * n, "cells": [], "bounds": [{"weights": [0] * (n - 1) + [1]}], "tree": [0], **more}


GAP, LEVELS, SUMS = (
    {"gap": [0], "most": 0.0},
    {"insensitive": [0], "low": 0.9, "high": 1.0},
    {"sign": 1, "scale": [1, 1]},
)
SCORE = SUMS | {"shift": [0, 1]}
LOG_ODDS, FLAT = SCORE | {"link": "log_odds"}, {"tangents": [[0.5, 0.0]]}


@pytest.mark.parametrize(
    ("statement", "scores", "rounding", "more", "is_right"),
    [
        # Column 0 decides nothing, so that the largest gap is 0.
        (GAP, [LOG_ODDS], [[0, 0]], {"cases": [by_the_last(1)]}, True),
        (GAP | {"most": -0.5}, [LOG_ODDS], [[0, 0]],
         {"parts": [[0.9]], "cases": [by_the_last(2, **FLAT), by_the_last(3, **FLAT)]}, False),
        (GAP, [SCORE], [[0, 0]], {"cases": [by_the_last(1)]}, True),
        (GAP, [SCORE], [[0, 0.25]], {"cases": [by_the_last(1)]}, False),
        (GAP | {"most": -1.0}, [SUMS | {"shift": [2, 1]}, SCORE], [[0, 0]] * 2, {"cases": [by_the_last(1)]}, False),
        (LEVELS, [LOG_ODDS], [[0, 0]], {}, True),
        (LEVELS, [LOG_ODDS], [[0, 0.25]], {}, False),
    ],
)  # fmt: skip
def test_differences_and_levels_count_all_that_is_off(statement, scores, rounding, more, is_right):
    """Gaps below 0, scores of one model counted in two ways, or off by more than counts, were confirmed."""
    model = audit.Model(json.loads(TINY[0].with_name("sums.json").read_text()))
    header = {"format": "certiforest statements", "version": 1, "model_sha256": model.sha256, "classes": model.classes}
    domain = {"columns": [{"numbers": [0], "low": 0, "high": 0.4}]}
    found = audit.Claims(header | {"domain": domain}, model, ())
    found.add({"statement": statement, "scores": scores, "rounding": rounding, "holds": True, **more}, "statement 0")
    assert found.counts["hold" if is_right else "not proved"] == 1


@pytest.mark.parametrize("pre", [(INF, INF), (-INF, -INF)])
def test_a_rule_that_never_applies_is_not_written(pre, tmp_path):
    """It was written as one that always applies."""
    stump = stumps((0, 0.5))
    rule = {"pre": list(pre), "post": 1.0, "cost": 1.0, "is_numerical": True}
    assert certified(stump, [0.25], RuleAttacker({0: [rule]}, 5.0), tmp_path).stable.tolist() == [1]
    assert '"add"' not in (tmp_path / "c.jsonl").read_text().splitlines()[0].split('"about"')[0]


@pytest.mark.parametrize(("scale", "is_proved"), [(0.5, True), (4.0, False)])
def test_a_radius_of_inf_holds_for_every_float(scale, is_proved):
    case = Case([(0, -LARGEST, 1, 0)], 1, 2, [LARGEST], 1, 1.0, [scale])
    radius = {"radius": "inf", "radius_upper": "inf", "radius_proof": plain_proof(case, 0)}
    row, document = stated(case, stable=-1, **radius), document_of(case)
    assert is_confirmed(document, header_of(case, document), row) == is_proved


# ---- What is confirmed is true --------------------------------------------------------------------------------------


def test_no_tables_prove_what_is_false():
    n_proved = n_safe = n_false = 0
    for seed in range(1200):
        rng = random.Random(f"tables {seed}")
        case = meeting_case(rng) if seed % 3 else random_case(rng, combine=rng.choice(["vote", "sum"]))
        own = oracle.predict(case, case.x)
        proof = swept_proof(case, own, rng, n_sweeps=rng.choice([1, 2, 4]))
        for part in proof["rivals"]:
            for table in part["tables"]:
                if rng.random() < 0.3:
                    table[2] = [m + rng.randint(-2, 2) for m in table[2]]
        if rng.random() < 0.3:
            f, v = rng.randrange(case.n_features), rng.choice([0.125, 0.3, 0.5, 0.625])
            proof["rivals"] = [
                {"rival": part.pop("rival"), "split": [f, v], "low": part, "high": part} for part in proof["rivals"]
            ]
        is_proved = confirms(case, stated(case, proof) | {"prediction": own})
        truth = is_safe(case)
        assert truth or not is_proved, f"seed {seed}: {case}"
        n_proved, n_safe, n_false = n_proved + is_proved, n_safe + truth, n_false + (not truth)
    assert n_proved > n_safe / 2 > 100
    assert n_false > 300


def test_tampering():
    judge = tampering.trial(1500, seed=0)
    outcomes = judge.outcomes
    assert judge.findings == []
    assert sum(count for name, count in outcomes.items() if name.endswith("confirmed, and true")) > 100
    assert sum(count for name, count in outcomes.items() if name.endswith("not proved")) > 300


def stumps_file(**changes):
    document = document_of(STUMPS)
    row = certificate_row(STUMPS) | changes
    return document, header_of(STUMPS, document), row


def doubt_about(**changes):
    document, header, row = stumps_file(**changes)
    found = run_audit(document, file_of(header, [row]))
    return found.doubts[0] if found.doubts else None


def test_a_row_can_be_doubted_for_every_statement():
    assert doubt_about() is None
    assert "refuted. Expected the prediction 0, got 1" in doubt_about(prediction=1)
    assert "refuted. Expected the prediction 0, got False" in doubt_about(prediction=False)
    assert "not proved. Expected the proof to be an object" in doubt_about(proof=None)
    assert "unstable rows only" in doubt_about(witness=STUMPS.x)
    assert "stable rows only" in doubt_about(stable=-1)
    assert "one part of the proof for each rival" in doubt_about(proof={"cuts": [], "rivals": []})
    assert "2 features in a witness" in doubt_about(stable=0, proof=None, witness=None)
    assert "predicted otherwise" in doubt_about(stable=0, proof=None, witness=STUMPS.x)
    assert "attacker's reach" in doubt_about(stable=0, proof=None, witness=[0.3, 0.5000000000000001])
    assert "a larger one" in doubt_about(radius=0.25, radius_upper=0.2)
    assert "the proof to be an object" in doubt_about(radius="inf", radius_upper="inf", radius_proof=None)
    assert "class 1 wins" in doubt_about(radius="inf", radius_upper="inf", radius_proof=plain_proof(STUMPS, 0))
    assert "2 features in a witness" in doubt_about(radius_witness=None)


def test_a_row_that_nothing_is_said_about_is_open():
    document, header, row = stumps_file(stable=-1, proof=None)
    row |= dict.fromkeys(["radius", "radius_upper", "radius_witness", "radius_proof"])
    found = run_audit(document, file_of(header, [row]))
    assert found.counts["open"] == 1
    assert not found.doubts


def test_a_single_class_has_no_rival():
    case = Case([[1.0]], 1, 1, [0.5], INF, 0.5, base=[0.0])
    document = document_of(case)
    header = header_of(case, document, 0.5, radius=False)
    assert is_confirmed(document, header, stated(case, {"cuts": [], "rivals": []}))
    assert not is_confirmed(document, header, stated(case, stable=0, witness=[0.75]))


def test_the_budget_is_kept_to_the_float():
    case = replace(STUMPS, trees=[(0, 0.3, 0, 1)], x=[0.1, 0.0])
    target = math.nextafter(0.3, INF)
    least = Fraction(target) - Fraction(0.1)
    for eps in (float(least), math.nextafter(float(least), 0), math.nextafter(float(least), 1)):
        for norm in (1, 2, 7, INF):
            at, in_reach = replace(case, eps=eps, norm=norm), Fraction(eps) >= least
            assert confirms(at, stated(at, stable=0, witness=[target, 0.0])) == in_reach
            assert confirms(at, stated(at, plain_proof(at, 0))) != in_reach


def test_lambda_is_decided_exactly():
    # Two features must move, each for just over half of the budget: with lambda 2 / B the bound misses a win by a hair.
    case = Case([(0, 0.5, 0, 1), (1, 0.5, 0, 1), 0], 2, 2, [0.25, 0.25], 1, 0.5)
    moves = 2 * (Fraction(math.nextafter(0.5, 1)) - Fraction(0.25))
    assert Fraction(float(moves)) == moves
    weight = 2 / moves
    part = {"rival": 1, "lambda": [weight.numerator, weight.denominator], "tables": [[0, 0, [-1, 1]], [1, 1, [-1, 1]]]}
    for eps, is_proved in ((0.5, True), (float(moves), False)):
        row = stated(case, {"cuts": [[0, [0.5]], [1, [0.5]]], "rivals": [part]})
        assert confirms(case, row, eps=eps) == is_proved


def test_lambda_counts_what_a_split_costs():
    # Three features must move, the budget is enough for two; in the upper half of a split one has been paid for.
    case = Case([(0, 0.5, 0, 1), (1, 0.5, 0, 1), (2, 0.5, 0, 1), 0, 0], 3, 2, [0.25] * 3, 1, 0.7)
    bound = {"lambda": [8, 1], "tables": [[1, 1, [-1, 1]], [2, 2, [-1, 1]]]}
    for high, is_proved in ((bound, True), (bound | {"lambda": [0, 1]}, False), ({"lambda": [8, 1]}, False)):
        part = {"rival": 1, "split": [0, 0.5], "low": {}, "high": high}
        assert confirms(case, stated(case, {"cuts": [[1, [0.5]], [2, [0.5]]], "rivals": [part]})) == is_proved


# ---- Files ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def files(tmp_path):
    document, header, row = stumps_file()
    (tmp_path / "model.json").write_text(json.dumps(document))
    (tmp_path / "rows.jsonl").write_bytes(file_of(header, [row] * 3))
    return tmp_path / "model.json", tmp_path / "rows.jsonl"


def test_it_speaks_of_the_attacker_the_rows_and_the_shares(tmp_path):
    model = stumps((0, 0.5), (1, 5.0), (2, 0.5), feature_names=["size", "links\x1b", "known"])
    options = dict(direction={"up": ["size"]}, integer=[1], domain={1: (0, 9)}, frozen=["known"], scale=[2, 1, 1])
    found = certify(model, [[0.1, 2, 1], [0.4, 9, 0], [0.9, 4, 1]], [0, 1, 1], Attacker(1, 0.5, **options), proof=True)
    found = replace(found, about={"model_file": "a.ubj", "model_file_sha256": "00"})
    model.save(tmp_path / "model.json")
    found.save(tmp_path / "rows.jsonl")
    told = []
    files = [str(tmp_path / "model.json"), str(tmp_path / "rows.jsonl")]
    assert audit.main(files, lambda _, lines: told.extend(lines)) == 0
    n_right, n_certified = int(found.correct.sum()), int((found.correct & (found.stable == 1)).sum())
    assert told[0].startswith("Attacker: numbers may move by 0.5 of its unit in all (norm 1, eps 0.5); ")
    for words in ("size: only go up", "size: have units", "u001b: stay whole", "known: cannot change"):
        assert words in told[0]
    assert "\x1b" not in "".join(told)
    assert told[1] == f"SHA-256 of the model's content: {model.sha256}"
    assert told[2].endswith('which proves nothing: model_file "a.ubj", model_file_sha256 "00".')
    assert told[3] == f"SHA-256 of the rows: {digest(found.rows)}"
    shares = f"Of 3 rows with labels, recomputed: {n_right} right ({n_right / 3:.2%}), {n_certified} of them confirmed"
    assert told[4].startswith(shares)


def test_it_runs_alone_in_an_empty_folder(files, tmp_path):
    (tmp_path / "empty").mkdir()
    program = shutil.copy(audit.__file__, tmp_path / "empty" / "check.py")
    command = [sys.executable, "-I", program, *map(str, files)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path / "empty", timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    model = json.loads(files[0].read_bytes())
    text = json.dumps(model, sort_keys=True, separators=(",", ":"))
    rows = [json.loads(line).get("row", []) for line in files[1].read_text().splitlines()[1:]]
    assert done.stdout.splitlines() == [
        "Attacker: every number may move by 0.125, all at once (norm inf, eps 0.125).",
        f"SHA-256 of the model's content: {hashlib.sha256(text.encode()).hexdigest()}",
        f"SHA-256 of the rows: {hashlib.sha256(np.array(rows[:-1], '<f8').tobytes()).hexdigest()}",
        "Rows: 3 stable, 0 unstable, 0 open, 0 not proved, 0 refuted.",
        "Every statement is confirmed.",
    ]


def test_exit_codes_and_the_first_ten_rows(files, capsys):
    model, certificate = files
    assert audit.main([str(model), str(certificate)]) == 0
    _, header, row = stumps_file(prediction=1)
    certificate.write_bytes(file_of(header, [row] * 12))
    capsys.readouterr()
    assert audit.main([str(model), str(certificate)]) == 1
    out, err = capsys.readouterr()
    assert err == ""
    assert out.count("row ") == 10
    assert "0 not proved, 12 refuted" in out
    assert audit.main([str(model)]) == 2
    told = "Expected two files, MODEL and CERTIFICATE (--help says more)."
    assert capsys.readouterr() == ("", f"certiforest: error: {told}\n")


MODEL, GOOD = json.dumps(stumps_file()[0]).encode(), file_of(stumps_file()[1], [stumps_file()[2]])
FIRST, SECOND, LAST = GOOD.splitlines(keepends=True)
NORM, EPS, COLUMN = b'"norm": "inf"', b'"eps": 0.125', b'"numbers": [1]'
BAD_INPUTS = {  # name: model, certificate, what is said
    "another model": (MODEL.replace(b"0.25", b"0.26"), GOOD, "do not belong together"),
    "cut short": (MODEL, FIRST + SECOND, "cut short"),
    "cut within a line": (MODEL, GOOD[:-30], "JSON text"),
    "newer model": (MODEL.replace(b'"version": 1', b'"version": 2'), GOOD, "do not belong together"),
    "empty certificate": (MODEL, b"", "first line"),
    "empty model": (b"", GOOD, "the model"),
    "binary junk": (MODEL, bytes(range(256)), "first line"),
    "binary model": (bytes(range(256)), GOOD, "the model"),
    "a model as certificate": (MODEL, MODEL, "a certificate"),
    "a list": (MODEL, b"[]\n", "a certificate"),
    "more after the end": (MODEL, GOOD + b"\n", "number of rows"),
    "an empty line": (MODEL, FIRST + b"\n" + SECOND + LAST, "JSON text"),
    "nesting": (MODEL, FIRST + b"[" * 100_000 + b"\n", "nests too deep"),
    "a nesting model": (b'{"a":' * 100_000, GOOD, "nests too deep"),
}
REPLACED = {  # name: what of the certificate, with what, what is said
    "newer certificate": (b'"version": 1', b'"version": 2', "whole number from 1 to 1"),
    "newer attacker": (b'"norm"', b'"mood": "up", "norm"', "newer format"),
    "newer row": (b'"method"', b'"mood": 1, "method"', "newer format"),
    "newer header": (b'"about"', b'"aboot"', "newer format"),
    "rows missing": (b'{"end": 1}', b'{"end": 2}', "number of rows"),
    "a key twice": (b'"eps"', b'"eps": 0.1, "eps"', "once"),
    "NaN": (EPS, b'"eps": NaN', "finite"),
    "1e400": (EPS, b'"eps": 1e400', "finite"),
    "a whole number that floats do not have": (EPS, b'"eps": %d' % (2**70), "finite"),
    "a boolean": (EPS, b'"eps": true', "finite"),
    "a huge number": (EPS, b'"eps": ' + b"9" * 5000, "digits"),
    "a negative eps": (EPS, b'"eps": -0.125', ">= 0"),
    "1e400 as norm": (NORM, b'"norm": 1e400', "norm"),
    "true as norm": (NORM, b'"norm": true', "norm"),
    "a column twice": (COLUMN, b'"numbers": [0]', "each once"),
    "no such column": (COLUMN, b'"numbers": [2]', "columns that there are"),
    "columns of a newer kind": (COLUMN, b'"moods": [1]', "newer format"),
    "a short row": (b'"row": [0.25, 0.375]', b'"row": [0.25]', "2 features"),
    "a row out of the domain": (b'"low": null', b'"low": 0.3', "domain"),
}
BAD_INPUTS |= {name: (MODEL, GOOD.replace(old, new), words) for name, (old, new, words) in REPLACED.items()}


@pytest.mark.parametrize(("model", "certificate", "words"), BAD_INPUTS.values(), ids=BAD_INPUTS)
def test_bad_input_gets_one_sentence(model, certificate, words, tmp_path, capsys):
    (tmp_path / "model").write_bytes(model)
    (tmp_path / "rows").write_bytes(certificate)
    assert audit.main([str(tmp_path / "model"), str(tmp_path / "rows")]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("certiforest: error: ")
    assert err.count("\n") == 1
    assert words in err


def test_a_directory_and_a_missing_file_get_one_sentence(files, tmp_path, capsys):
    for place, path in itertools.product([0, 1], [tmp_path, tmp_path / "missing"]):
        paths = list(map(str, files))
        paths[place] = str(path)
        assert audit.main(paths) == 2
        out, err = capsys.readouterr()
        assert (out, err.count("\n")) == ("", 1)


def refused(header, document=None, row=None):
    """Return the sentence by which a file about `STUMPS`, or what became of them, is refused."""
    document = document or document_of(STUMPS)
    case_header = header_of(STUMPS, document, radius=header.pop("radius", False))
    case_header["attacker"] |= header
    with pytest.raises(audit.Refusal) as refusal:
        run_audit(document, file_of(case_header, [row or stated(STUMPS, stable=-1)]))
    return str(refusal.value)


RULED = {"ruled": [0], "rules": [{"add": 0.5, "cost": 1}]}


@pytest.mark.parametrize(
    ("header", "words"),
    [
        ({"norm": 1, "columns": [RULED], "radius": True}, "no radii where there are rules"),
        ({"norm": 2, "columns": [RULED]}, "norm 1 where there are rules"),
        ({"columns": [{"frozen": [0]}, {"numbers": [0]}]}, "each once"),
        ({"columns": [{"one_hot": [0, 0]}]}, "each once"),
        ({"columns": [{"categories": [0], "cost": 1}]}, "that the model takes for categories"),
        ({"columns": [{"numbers": [0], "scale": 1}]}, "newer format"),
        ({"columns": [{"down": 1}]}, "columns that are numbers"),
        ({"columns": [{"one_hot": [0, 1]}]}, "one-hot"),
        ({"norm": 1, "columns": [{"one_hot": [0, 1], "rules": [{"add": 1, "cost": 1}]}]}, "lead to places"),
        ({"norm": 1, "columns": [{"one_hot": [0, 1], "rules": [{"become": 2, "values": [0], "cost": 1}]}]}, "places"),
        ({"norm": 1, "columns": [{"one_hot": [0, 1], "rules": [], "scale": 1}]}, "one scale for one-hot columns, or"),
        ({"columns": [{"numbers": [0], "integer": True}]}, "whole where it must be"),
        ({"columns": [{"numbers": [0], "down": -1}]}, ">= 0"),
        ({"norm": 0, "eps": 1.5}, "eps to be whole"),
        ({"missing": 0}, "> 0"),  # else a radius of 5e-324 would be none
        ({"columns": [{"categories": [0], "cost": 0}]}, "> 0"),
    ],
)
def test_attackers_that_could_mean_two_things_or_nothing_are_refused(header, words):
    assert words in refused(dict(header))


X, SETS = STUMPS.x, {"threshold": [None, 0, 0] * 3, "subset": [0, -1, -1] * 3, "subsets": [[0.0]]}


@pytest.mark.parametrize(
    ("model", "header", "x", "words"),
    [
        ({"blanks": [[0, 0.2, 0.3]]}, {}, X, "null for blanks"),
        ({"blanks": [[0, 0.2, 0.3]]}, {"columns": [{"frozen": [0]}]}, X, "null for blanks"),
        ({"blanks": [[2, 0.2, 0.3]]}, {}, X, "columns that there are"),
        ({"blanks": [[-1, 0.2, 0.3]]}, {}, X, "columns that there are"),
        ({"blanks": [[0, 5, 4]]}, {}, X, "ranges"),
        ({"blanks": [[0, 4, 5], [0, 6, 7]]}, {}, X, "each once"),
        ({"blanks": [[0, 4, 5]], "missing_left": None}, {}, X, "missing_left"),
        ({"blanks": [[1, 1, 1]]}, {"columns": [{"one_hot": [0, 1]}]}, [1.0, 0.0], "no numbers that count as missing"),
        ({"blanks": [[0, 4, 5]]}, {"columns": [RULED], "norm": 1}, X, "no numbers that count as missing"),
        ({"categories": [[0, ["a"], None], [0, ["a", "b"], None]]}, {}, X, "each column once"),
        ({"required": [0]}, {}, [None, 0.375], "no value to be missing"),
        ({"required": [7]}, {}, X, "columns that there are"),
        ({"missing_left": None}, {}, [None, 0.375], "no value to be missing"),
        ({}, {"columns": [{"one_hot": [0, 1]}]}, [None, 1.0], "no value to be missing"),
        (SETS, {"columns": [{"numbers": [0], "low": 1}]}, X, "inside the domain"),
    ],
)
def test_rows_that_the_model_does_not_take_are_refused(model, header, x, words):
    document = document_of(STUMPS)
    document |= {"version": 2, "missing_left": [0] * len(document["feature"])} | model
    assert words in refused(dict(header), document, stated(STUMPS, stable=-1, row=x))


def test_a_number_that_the_model_has_in_sets_stays():
    document = document_of(STUMPS) | {"version": 2, "missing_left": [0] * 9} | SETS
    header = header_of(STUMPS, document, radius=False)
    header["attacker"]["columns"] = [{"numbers": [0, 1], "integer": True}]
    assert is_confirmed(document, header, stated(STUMPS, plain_proof(STUMPS, 0), row=[0.0, 1.0]))


def test_rules_do_not_take_all_memory(monkeypatch):
    monkeypatch.setattr(audit, "MOST_WAYS", 5_000)
    rules = [{"add": 1.0 + i / 1024, "cost": 1e-9} for i in range(2000)]
    document = document_of(STUMPS)
    header = header_of(STUMPS, document, radius=False)
    header["attacker"] |= {"norm": 1, "eps": 1e9, "columns": [{"ruled": [0], "rules": rules}]}
    found = run_audit(document, file_of(header, [stated(STUMPS, plain_proof(STUMPS, 0))]))
    assert "ways by rules" in found.doubts[0]


def test_a_proof_that_takes_too_long_is_given_up(monkeypatch):
    case = replace(STUMPS, eps=10.0, norm=INF)
    document = document_of(case)
    certificate = file_of(header_of(case, document, radius=False), [stated(case, proof_by_cells(case, 0))])
    monkeypatch.setattr(audit, "MOST_STEPS", 10)
    assert "10 steps" in run_audit(document, certificate).doubts[0]


@pytest.mark.parametrize("depth", [400, 100_000])
def test_splits_may_lie_as_deep_as_python_reads(depth):
    case = replace(STUMPS, eps=0.0)
    document = document_of(case)
    row = stated(case, {"cuts": [], "rivals": ["deep"]})
    deep = '{"split": [0, 1.0], "high": {}, "low": ' * depth + "{}" + "}" * depth
    certificate = file_of(header_of(case, document, radius=False), [row])
    certificate = certificate.replace(b'"deep"', deep.replace("{", '{"rival": 1, ', 1).encode())
    if depth < 1000:
        assert not run_audit(document, certificate).doubts
    else:
        with pytest.raises(audit.Refusal, match="nests too deep"):
            run_audit(document, certificate)


def test_lines_have_a_longest_length(monkeypatch):
    document, header, row = stumps_file(label="x" * 10_000)
    assert is_confirmed(document, header, row)
    monkeypatch.setattr(audit, "LONGEST_LINE", 5000)
    with pytest.raises(audit.Refusal, match="lines below"):
        is_confirmed(document, header, row)


def test_memory_does_not_grow_with_rows():
    document, header, row = stumps_file()
    peaks = []
    for n in (1000, 1000, 5000):  # Python keeps some objects for the next time: the first run is for these
        model, certificate = BytesIO(json.dumps(document).encode()), BytesIO(file_of(header, [row] * n))
        tracemalloc.start()
        audit.audit(model, certificate)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[2] < peaks[1] + 50_000


def test_it_reads_what_the_library_saves(tmp_path):
    options = {"classes": ["ham", "spam"], "scores": [[-0.25], [0.75]], "base": [0.1], "feature_names": ["a", "b"]}
    ensemble = stumps((0, 0.5), (1, 0.5), n_features=2, **options)
    ensemble.save(tmp_path / "model.json")
    document = json.loads((tmp_path / "model.json").read_text())
    header = {
        "format": "certiforest certificate", "version": 1, "model_sha256": sha_of(document), "margin": 0.0,
        "attacker": {"norm": 2, "eps": 0.25}, "classes": ["ham", "spam"], "radius": False,
    }  # fmt: skip
    row = {"row": [0.0, 1.0], "prediction": "spam", "stable": 1, "method": "by hand"}
    assert is_confirmed(document, header, row | {"proof": {"cuts": [], "rivals": [{"rival": 0}]}})
    row |= {"row": [0.0, 0.0], "prediction": "ham", "proof": {"cuts": [], "rivals": [{"rival": 1}]}}
    assert is_confirmed(document, header, row)


def test_the_attacker_that_was_given_is_the_one_that_is_certified(tmp_path):
    stump = stumps((0, 0.5), n_features=2)
    attacker = Attacker(1, 0.5, scale=([1, 2], [3, 2]), frozen=[1], domain=([0, -np.inf], [9, np.inf]))
    path = tmp_path / "c.jsonl"
    certify(stump, [[0.25, 1.0]], None, attacker, proof=True).save(path)
    header = json.loads(path.read_text().splitlines()[0])
    columns = [{"numbers": [0], "up": 3.0, "low": 0.0, "high": 9.0}, {"frozen": [1]}]
    assert header["attacker"] == {"norm": 1, "eps": 0.5, "columns": columns}
    assert repr(Certificates.load(path).attacker) == repr(attacker)
    path.write_text(path.read_text().replace('"up":3.0', '"up":0.1', 1))
    with pytest.raises(CertificateError, match="that it notes as given"):
        Certificates.load(path)


def test_a_share_of_the_own_value_is_an_attacker_a_row_with_a_certificate(tmp_path):
    trees, share = stumps((0, 0.5), (1, -0.25), (0, 0.75), (1, 0.5), (2, 0.0)), Fraction(0.25)
    X = np.round(np.random.default_rng(7).uniform(-1, 1, (40, 3)), 2) * [1, 1, 0]
    trees.save(tmp_path / "model.json")
    outcomes = Counter()
    for x in X:
        moved = [f for f in range(3) if x[f]]
        attacker = Attacker("inf", float(share), scale={f: abs(x[f]) for f in moved}, only=moved)
        found = certify(trees, x[None], None, attacker, proof=True, witness=True)
        ends = [(Fraction(v) - abs(Fraction(v)) * share, Fraction(v) + abs(Fraction(v)) * share) for v in x.tolist()]
        ways = [[v for v in (-1.0, -0.25, 0.0, 0.25, 0.5, 0.75, 1.0, *np.nextafter([-0.25, 0.0, 0.5, 0.75], 2)) if
                 low <= v <= high] + [v0] for (low, high), v0 in zip(ends, x.tolist(), strict=True)]  # fmt: skip
        labels = set(trees.predict(np.array(list(itertools.product(*ways)))).tolist())
        assert bool(found.stable[0]) == (len(labels) == 1)
        found.save(tmp_path / "row.jsonl")
        assert audit.main([str(tmp_path / "model.json"), str(tmp_path / "row.jsonl")], lambda *_: None) == 0
        outcomes[int(found.stable[0])] += 1
    assert outcomes[0] > 2 < outcomes[1]

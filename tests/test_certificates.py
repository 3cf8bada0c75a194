"""Certificates: what `certify` proves is confirmed by an auditor that shares no code with it, from files alone."""

import json
import math
import random
import re

import numpy as np
import pytest

from cases import attacker_of, ensemble_of, random_case
from certiforest import Attacker, CertificateError, Certificates, certify
from certiforest.cli import main
from small_models import audited, stumps

STUMP = stumps((0, 0.5), classes=["ham", "spam"])


@pytest.mark.parametrize("combine", ["vote", "sum"])
@pytest.mark.parametrize("norm", [0, 1, 2, 3, math.inf])
def test_every_statement_about_generated_cases_is_confirmed(norm, combine, tmp_path):
    rng = random.Random(f"certificates {norm} {combine}")
    n_stable = 0
    for _ in range(120):
        case = random_case(rng, norm=norm, combine=combine)
        ensemble = ensemble_of(case)
        c = certify(ensemble, [case.x], None, attacker_of(case), proof=True, radius=True, time_limit=60)
        found = audited(ensemble, c, tmp_path)
        assert not found.doubts, (found.doubts, case)
        assert Certificates.load(tmp_path / "c.jsonl") == c
        n_stable += int(c.stable[0] == 1)
    assert 20 < n_stable < 115


def test_margins_are_confirmed(tmp_path):
    rng = random.Random("margins")
    outcomes = []
    for _ in range(150):
        case = random_case(rng, combine="sum")
        ensemble = ensemble_of(case)
        margin = rng.choice([1e-9, 0.1, 0.5]) * max(float(np.abs(ensemble.scores).max()), 1e-300)
        c = certify(ensemble, [case.x], None, attacker_of(case), proof=True, margin=margin, time_limit=60)
        assert not audited(ensemble, c, tmp_path).doubts, case
        outcomes.append(int(c.stable[0]))
    assert min(outcomes.count(k) for k in (-1, 0, 1)) > 10


def test_a_row_that_is_not_proved_in_time_says_so(monkeypatch, tmp_path):
    monkeypatch.setattr("certiforest.proof.search.MOST_SWEEPS", 0)
    monkeypatch.setattr("certiforest.certifier.EASY_SECONDS", 0.0)
    rng = random.Random("in time")
    for _ in range(200):
        case = random_case(rng, norm=1, combine="vote", apart=True)
        c = certify(ensemble_of(case), [case.x], None, attacker_of(case), proof=True, time_limit=0)
        if c.stable[0] == 1 and c.proof[0] is None:
            break
    assert (c.stable[0], c.proof[0]) == (1, None)
    assert "is not proved" in audited(ensemble_of(case), c, tmp_path).doubts[0]


def test_from_the_command_line(tmp_path, capsys):
    STUMP.save(tmp_path / "m.json")
    (tmp_path / "rows.csv").write_text("x,y\n0.2,ham\n0.45,ham\n0.9,ham\n")
    names = [str(tmp_path / name) for name in ("m.json", "rows.csv", "c.jsonl")]
    assert main(["certify", *names[:2], "--target", "y", "--eps", "0.1", "--proof", names[2]]) == 0
    assert "certiforest audit" in capsys.readouterr().out
    assert main(["audit", names[0], names[2]]) == 0
    assert "2 stable, 1 unstable" in capsys.readouterr().out
    header, *lines, end = (tmp_path / "c.jsonl").read_text().splitlines()
    line = json.loads(lines[1])
    line["witness"] = [math.nextafter(line["row"][0] + 0.1, 1)]
    (tmp_path / "c.jsonl").write_text("\n".join([header, lines[0], json.dumps(line), lines[2], end]))
    assert main(["audit", names[0], names[2]]) == 1
    assert "row 1 (line 3) is not proved" in capsys.readouterr().out


@pytest.mark.parametrize(
    "content",
    [b"", b"\x00\xff\x80junk", b"[]\n", b'{"format": "certiforest certificate", "version": 2}\n{"end": 0}\n', None],
    ids=["empty", "junk", "list", "newer", "directory"],
)
def test_bad_certificates_get_one_sentence(content, tmp_path, capsys):
    STUMP.save(tmp_path / "m.json")
    path = tmp_path / "c.jsonl"
    path.mkdir() if content is None else path.write_bytes(content)
    assert main(["audit", str(tmp_path / "m.json"), str(path)]) == 2
    error = capsys.readouterr().err
    assert error.startswith("certiforest: error: Expected")
    assert error.count("\n") == 1
    if content is not None:
        with pytest.raises(CertificateError, match="Expected"):
            Certificates.load(path)


@pytest.mark.parametrize(
    ("what", "said", "sentence"),
    [
        *((what, '"hamster"', "Expected predictions and labels among the classes") for what in ("label", "prediction")),
        *(("stable", said, "Expected 1, 0 or -1 as stable") for said in ("2", "true", "1.0", "-2", "null")),
    ],
)
def test_what_nobody_can_have_written_is_refused(tmp_path, what, said, sentence):
    path = tmp_path / "c.jsonl"
    certify(STUMP, [[0.2], [0.9]], ["ham", "ham"], Attacker("linf", 0.1), proof=True).save(path)
    assert Certificates.load(path).recall == {"ham": 0.5}
    path.write_text(re.sub(f'"{what}":("ham"|1)', f'"{what}":{said}', path.read_text(), count=1))
    with pytest.raises(CertificateError, match=sentence):
        Certificates.load(path)


def test_model_and_certificate_must_belong_together(tmp_path, capsys):
    c = certify(STUMP, [[0.2]], None, Attacker("linf", 0.1), proof=True)
    c.save(tmp_path / "c.jsonl")
    stumps((0, 0.4), classes=["ham", "spam"]).save(tmp_path / "m.json")
    assert main(["audit", str(tmp_path / "m.json"), str(tmp_path / "c.jsonl")]) == 2
    assert "do not belong together" in capsys.readouterr().err


def test_certificates_without_proofs_are_not_saved(tmp_path):
    c = certify(STUMP, [[0.2]], None, Attacker("linf", 0.1))
    with pytest.raises(CertificateError, match=r"certify\(..., proof=True\)"):
        c.save(tmp_path / "c.jsonl")
    assert not any(tmp_path.iterdir())


def test_numbers_for_those_who_track_runs():
    c = certify(STUMP, [[0.2], [0.45], [0.9]], ["ham"] * 3, Attacker("linf", 0.1))
    counts = {"rows": 3, "stable": 2, "unstable": 1, "unknown": 0}
    shares = {"accuracy": 2 / 3, "robust_accuracy": 1 / 3, "robust_accuracy_upper": 1 / 3}
    assert json.loads(json.dumps(c.to_dict())) == counts | shares
    assert certify(STUMP, [[0.2], [0.45], [0.9]], None, Attacker("linf", 0.1)).to_dict() == counts

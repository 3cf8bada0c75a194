"""The command certify: what it finds, writes and warns of, and one sentence for everything a person gets wrong."""

import csv
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from certiforest import Attacker, Certifier, RuleAttacker, TreeEnsemble, Verdict, audit, certify
from certiforest.report.attackers import describe_attacker
from shared_data import needs_shared, shared
from small_models import VOTERS, lgb, stumps, xgb


def test_rows_are_scaled_by_the_model(run, mail):
    code, out, _ = run(*mail.question, "--json")
    assert code == 0
    summary = json.loads(out)
    assert summary["verdicts"] == {"ROBUST": 2, "FRAGILE": 1, "VULNERABLE": 1, "BROKEN": 0, "UNKNOWN": 0}
    assert summary["accuracy"] == 0.75
    assert summary["robust_accuracy"] == 0.5
    assert summary["has_large_spread"] is True


def test_it_says_what_it_found(run, mail):
    code, out, err = run(*mail.question)
    assert (code, err) == (0, "")
    assert "Robust accuracy" in out
    assert "75.00%" in out


def test_without_labels(run, mail):
    mail.rows.write_text("length,links\n1,1\n")
    code, out, _ = run("certify", mail.model, mail.rows, "--eps", "0.01", "--json")
    summary = json.loads(out)
    assert (code, summary["stable"]) == (0, 1)
    assert "verdicts" not in summary


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_labels_of_a_table_are_read_as_those_of_the_model(run, refuse, mail, tmp_path, suffix):
    pd, rows = pytest.importorskip("pandas"), tmp_path / f"mapped{suffix}"
    table = pd.read_csv(mail.rows)
    table["label"] = table["label"].map({"ham": -1, "spam": 1})
    table.to_csv(rows, index=False) if suffix == ".csv" else table.to_parquet(rows)
    question = ("certify", mail.model, rows, *mail.question[3:])
    assert "(--label OLD=NEW)" in refuse(*question)
    plain = json.loads(run(*mail.question, "--json")[1])
    code, out, err = run(*question, "--json", "--label", "-1=ham", "--label", "1=spam")
    assert (code, err) == (0, "")
    mapped = json.loads(out)
    assert mapped["verdicts"] == plain["verdicts"]
    shares = []
    for names in (("ham", "spam"), ("spam", "ham")):  # what was written is of other labels, and no part of it stays
        told = [word for old, new in zip(("-1", "1"), names, strict=True) for word in ("--label", f"{old}={new}")]
        out = run(*question, "--json", *told, "--out", tmp_path / "found", "--force")[1]
        shares.append(json.loads(out)["accuracy"])
    assert shares == [0.75, 0.25]
    assert "Expected labels among" in refuse(*question, "--label", "-1=ham")
    for wrong in (["-1"], ["=ham"], ["-1=ham", "-1=spam"], ["a=b=c"]):
        told = [word for text in wrong for word in ("--label", text)]
        assert "Expected --label OLD=NEW once for each label" in refuse(*question, *told)


def test_one_line_per_row_is_written(run, refuse, mail, tmp_path):
    out = tmp_path / "found.csv"
    assert run(*mail.question, "--out", out, "--radius", "--witness")[0] == 0
    lines = list(csv.DictReader(out.open()))
    assert [line["verdict"] for line in lines] == ["ROBUST", "FRAGILE", "ROBUST", "VULNERABLE"]
    ensemble = TreeEnsemble.load(mail.model)
    row = ensemble.scaling.apply([[4.5, 4.5]])
    found = certify(ensemble, row, ["ham"], Attacker("inf", 0.1), radius=True, witness=True)
    assert float(lines[1]["radius"]) == found.radius[0]
    witness = [[float(lines[1][f"witness_{name}"]) for name in ("length", "links")]]  # in the units of the data
    assert ensemble.scaling.apply(witness).tolist() == found.witness.tolist()
    assert lines[0]["witness_links"] == ""
    # An existing file stays as it is unless --force is given.
    before = out.read_bytes()
    assert "--force" in refuse(*mail.question, "--out", out)
    assert out.read_bytes() == before
    assert run(*mail.question, "--out", out, "--force")[0] == 0
    assert out.read_bytes() != before


def test_a_sheet_of_evidence_says_what_was_proved_and_how_to_check_it(run, refuse, mail, tmp_path):
    sheet, proofs = tmp_path / "sheet.txt", tmp_path / "rows.cert.jsonl"
    assert run(*mail.question, "--evidence", sheet)[0] == 0
    text = sheet.read_text()
    headings = ["Accuracy:", "Robustness:", "Limits:", "Known gaps:", "Who can check this again, and how:"]
    places = [text.index(heading) for heading in headings]
    assert places == sorted(places)
    digest = hashlib.sha256(Path(mail.rows).read_bytes()).hexdigest()
    for words in ("It does not say that any law", "No proofs were written", "proved to stay so", "percentage", digest):
        assert words in text
    out = run(*mail.question, "--evidence", tmp_path / "sheet.html", "--proof", proofs)[1]
    assert f"Evidence: {tmp_path / 'sheet.html'}" in out
    page = (tmp_path / "sheet.html").read_text()
    for file in (proofs, Path(audit.__file__)):
        assert hashlib.sha256(file.read_bytes()).hexdigest() in page
    assert "python -I audit.py model.json rows.cert.jsonl" in page
    assert "Expected --evidence to end in .html or .txt" in refuse(*mail.question, "--evidence", tmp_path / "a.json")
    assert "--force" in refuse(*mail.question, "--evidence", sheet)


def test_rows_are_certified_once_for_verdicts_and_report(run, mail, tmp_path, monkeypatch):
    n_certified, certified = [], Certifier.certify

    def counted(self, X, *arguments, **options):
        n_certified.append(len(X))
        return certified(self, X, *arguments, **options)

    monkeypatch.setattr(Certifier, "certify", counted)
    report, rows = tmp_path / "report.json", tmp_path / "found.csv"
    assert run(*mail.question, "--report", report, "--out", rows)[0] == 0
    assert n_certified == [4]
    assert json.loads(report.read_text())["verdicts"]["FRAGILE"] == 1
    assert rows.read_text().startswith("row,label,prediction,stable,method,verdict\n")


def test_require(run, mail):
    assert run(*mail.question, "--require", "0.5")[0] == 0
    code, _, err = run(*mail.question, "--require", "0.51")
    assert code == 1
    assert "below the required 0.51" in err


def test_pages_of_a_job(run, refuse, mail, tmp_path):
    """JUnit tests and Markdown that certify, compare and audit write; a page of Markdown is added to."""
    junit, page, proofs = (tmp_path / name for name in ("tests.xml", "page.md", "c.jsonl"))
    pages = "--summary", page, "--junit", junit, "--force"
    page.write_text("before\n")
    question = *mail.question, "--proof", proofs
    assert run(*question, "--require", "0.51", "--require", "ham=0.1", *pages)[0] == 1
    assert _tests(junit) == [
        ("Robust accuracy of at least 0.51", "Robust accuracy 0.5000 is below the required 0.51."),
        ("Robust recall of ham of at least 0.1", None),
    ]
    text = page.read_text()
    assert text.startswith("before\n### ")
    assert "1 of 2 statements hold.\n\n| Statement | Answer | Reason |\n|---|---|---|\n| Robust accuracy of" in text
    assert "| Robust accuracy | 50.00% |" in text
    assert "--require" in refuse(*mail.question, "--junit", tmp_path / "new.xml")
    assert "which is --junit too" in refuse(*mail.question, "--require", "1", *pages[2:], "--summary", junit)
    assert run("compare", mail.model, *mail.question[1:], "--other-eps", "0.5", *pages)[0] == 0
    ((name, reason),) = _tests(junit)
    assert name.startswith("As many rows are proved for ")
    assert re.fullmatch(r"\d rows? lost, 0 won \(p = [\d.]+\)\.", reason)
    assert run("audit", mail.model, proofs, *pages)[0] == 0
    assert _tests(junit) == [(f"4 statements of {proofs}", None)]
    assert page.read_text().count("\n### ") == 3
    proofs.write_text(re.sub(r'"stable": ?0', '"stable": 1', proofs.read_text(), count=1))
    code, out, _ = run("audit", mail.model, proofs, *pages, "--json")
    found = json.loads(out)
    assert (code, found["confirmed"]) == (1, False)
    assert [reason for _, reason in _tests(junit)] == [None, *found["doubts"]]


def test_the_auditor_tells_what_a_certificate_was_made_from(run, refuse, mail, tmp_path):
    booster = xgb(n_estimators=2).fit([[0.0, 1.0], [1.0, 0.0]] * 9, [0, 1] * 9)
    original, other, model, proofs = (tmp_path / name for name in ("b.ubj", "c.ubj", "b.json", "c.jsonl"))
    booster.save_model(original)
    booster.get_booster()[:1].save_model(other)
    run("convert", original, "--out", model)
    assert run("certify", original, mail.rows, "--drop", "label", "--eps", "0.1", "--proof", proofs)[0] == 0
    sha256 = hashlib.sha256(original.read_bytes()).hexdigest()
    code, out, _ = run("audit", model, proofs, "--original", original)
    assert (code, out.splitlines()[0]) == (0, f"{model} is what {original} becomes by convert.")
    assert f'model_file "b.ubj", model_file_sha256 "{sha256}", data_file "rows.csv"' in out
    code, out, _ = run("audit", model, proofs, "--original", other)
    assert (code, out.splitlines()[0]) == (1, f"{model} is not what {other} becomes by convert.")
    assert "does not exist" in refuse("audit", model, proofs, "--original", tmp_path / "nothing.json")


def test_the_action_for_jobs_on_github(mail, tmp_path):
    """Its command, with quotes, adds to the page of the job and fails where the gate does."""
    yaml = pytest.importorskip("yaml")
    steps = yaml.safe_load((Path(__file__).parents[1] / "action.yml").read_text())["runs"]["steps"]
    if shutil.which("xargs") is None or shutil.which("bash") is None:
        pytest.skip("needs bash and xargs")
    program, page = tmp_path / "bin" / "certiforest", tmp_path / "page.md"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\nexec {sys.executable} -c 'from certiforest.cli import main; exit(main())' \"$@\"\n")
    program.chmod(0o755)
    question = " ".join(f'"{word}"' for word in mail.question)
    for share, code in (("0.5", 0), ("0.51", 1)):
        added = {
            "ARGUMENTS": f"{question}\n--require {share}",
            "GITHUB_STEP_SUMMARY": str(page),
            "RUNNER_TEMP": str(tmp_path),
        }
        path = os.pathsep.join([str(program.parent), os.environ["PATH"]])
        run = subprocess.run(["bash", "-e", "-c", steps[-1]["run"]], env={**os.environ, **added, "PATH": path})
        assert run.returncode == code
    assert [line[:4] for line in page.read_text().splitlines() if "of 1 statement" in line] == ["1 of", "0 of"]


def _tests(path):
    """Return the tests of a JUnit file and their messages, read by the library that others use."""
    library = pytest.importorskip("junitparser")
    (suite,) = library.JUnitXml.fromfile(str(path))
    assert (suite.tests, suite.failures) == (len([*suite]), sum(not test.is_passed for test in suite))
    return [(test.name, test.result[0].message if test.result else None) for test in suite]


def test_frozen_features_and_domain(run, mail):
    for options, n_robust in [(("--frozen", "length", "--frozen", "1"), 3), (("--domain", "0", "1"), 2)]:
        assert json.loads(run(*mail.question, "--json", *options)[1])["verdicts"]["ROBUST"] == n_robust


def test_eps_in_the_wrong_unit_is_warned_of(run, mail, tmp_path):
    code, _, err = run(*mail.question[:-1], "5")
    assert code == 0
    assert "exceeds half the range" in err
    assert err.count("\n") == 1
    raw = tmp_path / "raw.json"
    VOTERS.save(raw)
    words = ("certify", raw, *mail.question[2:-1])
    assert "half the range (8 in these rows) of feature length and of 1 others" in run(*words, "4.1")[2]
    assert run(*words, "3.9")[2] == ""


class TestBadInput:
    def test_model_file(self, refuse, mail, tmp_path):
        rest = mail.question[2:]
        assert "does not exist" in refuse("certify", tmp_path / "none.json", *rest)
        assert "directory" in refuse("certify", tmp_path, *rest)
        assert "not a sound certiforest model" in refuse("certify", mail.rows, *rest)
        text, other = mail.model.read_text(), tmp_path / "other.json"
        other.write_text(text.replace('"version":1', '"version":3'))
        assert "pip install --upgrade" in refuse("certify", other, *rest)
        other.write_text(text[:-50])
        assert "cut short" in refuse("certify", other, *rest)

    @pytest.mark.parametrize("suffix", [".joblib", ".pkl", ".pickle"])
    def test_a_pickle_was_called_cut_short(self, refuse, mail, tmp_path, suffix):
        path = tmp_path / f"model{suffix}"
        path.write_bytes(b"\x80\x04junk")
        message = refuse("certify", path, *mail.question[2:])
        assert "a pickle" in message
        assert "as_ensemble" in message

    @pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes")
    def test_a_model_that_is_a_pipe_was_waited_for_without_end(self, refuse, mail, tmp_path):
        os.mkfifo(tmp_path / "pipe.json")
        assert "got the pipe" in refuse("certify", tmp_path / "pipe.json", *mail.question[2:])
        os.mkfifo(tmp_path / "pipe.csv")
        assert "got the pipe" in refuse("certify", mail.model, tmp_path / "pipe.csv", "--eps", "1")

    @pytest.mark.parametrize(
        ("scaling", "message"),
        [
            ([], "hold"),
            ({"offset": [0, 0]}, "hold"),
            ({"offset": [0, 0], "range": [1]}, "as many"),
            ({"offset": [0], "range": [1]}, "scaling of 2"),
            ({"offset": [0, 0], "range": [1, 0]}, "> 0"),
            ({"offset": [0, 0], "range": [1, True]}, "list of numbers"),
            ({"offset": [0, 0], "range": [1, 10**400]}, "numbers"),
            ({"offset": [0, 0], "range": [1, "2"]}, "list of numbers"),
        ],
    )
    def test_scaling_in_the_model_file(self, refuse, mail, scaling, message):
        mail.model.write_text(json.dumps({**json.loads(mail.model.read_text()), "scaling": scaling}))
        assert message in refuse(*mail.question)

    def test_data_file(self, refuse, mail, tmp_path):
        rest = mail.question[3:]
        (tmp_path / "empty.csv").touch()
        for data, message in [
            (tmp_path / "none.csv", "does not exist"),
            ("nothing_like_it", "neither"),
            (tmp_path, "directory"),
            (tmp_path / "empty.csv", "empty file"),
        ]:
            assert message in refuse("certify", mail.model, data, *rest)
        for command in ("certify", "report"):
            assert "model before the data" in refuse(command, mail.rows, mail.model, *rest)

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("length,links,label\n1,many,ham\n", "got 'many' in line 2, column 'links'"),
            ("number of words,label\nmany,ham\n", "--drop 'number of words'"),
            ("length,links,more,label\n1,1,1,ham\n", "--drop more"),
            ("length,links,more,label\n1,1,1,ham\n", "--target more"),
            ("length,label\n1,ham\n", "got no 'links'"),
            ("length,links,label\n1,1,eggs\n", "got 'eggs'"),
        ],
    )
    def test_rows(self, refuse, mail, text, message):
        mail.rows.write_text(text)
        assert message in refuse(*mail.question)

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            ("--target lable", "'length', 'links', 'label'"),
            ("--eps -1", "finite number >= 0"),
            ("--eps 1e400", "eps"),
            ("--norm 1.5", "norm"),
            ("--norm 1" + "0" * 30, "norm"),
            ("--norm 1e400", "norm"),
            *((f"--norm={norm}", "norm") for norm in ("-1", "-inf", "_1", "-2")),  # some meant their opposite
            ("--frozen colour", "--frozen"),
            ("--domain 0 0.5", "domain"),
            ("--domain nan 1", "domain"),
            ("--domain 2 1", "domain"),
            ("--require 90", "--require"),
            ("--require nan", "--require"),
            ("--part some", "--part"),
            ("--part=", "--part"),
            ("--target=", "--target"),
            ("--time-limit nan", "--time-limit"),
            ("--time-limit -1", "--time-limit"),
            ("--total-time-limit nan", "--total-time-limit"),
            ("--jobs 0", "--jobs"),
            ("--jobs 20000", "number of threads"),
            ("--jobs 1" + "0" * 400, "--jobs"),
            ("--out {folder}/none/found.csv", "existing directory"),
            ("--out {folder}", "directory"),
        ],
    )
    def test_options(self, refuse, mail, tmp_path, words, message):
        assert message in refuse(*mail.question, *words.format(folder=tmp_path).split())


@needs_shared
@pytest.mark.parametrize("norm", ["inf", "2", "1"])
def test_published_model_on_a_named_dataset(run, norm):
    """The counts of the authors' verifier for one of the models published with the paper."""
    name = "lse_part_rand_25_4_0.015_100_0_m2_s1_mnpert0.0075_mxpert0.015.silva"
    path = shared() / "models" / "mnist26" / name
    arguments = ("certify", path, "mnist26", "--data-dir", shared() / "data", "--eps", "0.015", "--norm", norm)
    found = json.loads(run(*arguments, "--json")[1])
    expected = json.loads((shared() / "expected" / "carve_mnist26.json").read_text())
    (entry,) = (
        entry
        for entry in expected["mnist26"]
        if (entry["trees"], entry["eps"], str(entry["norm"])) == (25, 0.015, norm)
    )
    assert found["verdicts"] == {verdict.name: entry["verdicts"].count(verdict.name[0]) for verdict in Verdict}


class TestAttackers:
    """Attackers that files describe, of links and bytes, both whole numbers, as they are."""

    @pytest.fixture
    def write(self, tmp_path):
        """Return what writes a document into a file."""

        def write(document, name="attacker.json"):
            (tmp_path / name).write_text(json.dumps(document))
            return tmp_path / name

        return write

    @pytest.fixture
    def counts(self, tmp_path):
        splits = [(0, 2.5), (1, 40), (0, 5.5)]
        stumps(*splits, classes=[1, 0], feature_names=["links", "bytes"]).save(tmp_path / "counts.json")
        (tmp_path / "counts.csv").write_text("links,bytes,bad\n1,10,1\n2,40,1\n9,90,0\n6,41,0\n")
        return "certify", tmp_path / "counts.json", tmp_path / "counts.csv", "--target", "bad"

    @pytest.fixture
    def attacker(self, write):
        limits = {"integer": ["links", "bytes"], "direction": {"up": ["links", "bytes"]}}
        return write({"format": "certiforest attacker", "version": 1, "norm": 1, "eps": 2, **limits})

    def test_one_class_is_attacked(self, run, counts, attacker, tmp_path):
        options = ("--attacker", attacker, "--attacked", "1")
        code, out, _ = run(*counts, *options, "--out", tmp_path / "found.csv", "--witness", "--json")
        assert code == 0
        summary = json.loads(out)
        assert summary["attacked"] == [1]
        assert summary["recall"] == {"0": 1.0, "1": 1.0}
        assert summary["robust_recall"] == {"0": 1.0, "1": 0.5}
        assert summary["attacker"]["direction"] == {"up": [0, 1]}
        rows = list(csv.DictReader((tmp_path / "found.csv").open()))
        assert [row["method"] for row in rows][2:] == ["spared", "spared"]
        assert (float(rows[1]["witness_links"]), float(rows[1]["witness_bytes"])) == (3, 41)
        assert run(*counts, *options, "--require", "1=0.5", "--require", "0=1")[0] == 0
        code, out, err = run(*counts, *options, "--require", "1=0.8", "--require", "0.5")
        assert code == 1
        assert "Robust recall of 1 0.5000 is below the required 0.8" in err
        assert "Recall of 1" in out
        assert run("report", *counts[1:], *options, "--out", tmp_path / "r.html")[0] == 0
        assert "Only rows of 1 are attacked" in (tmp_path / "r.html").read_text()

    def test_rules(self, run, refuse, counts, write, tmp_path):
        rule = {"pre": "(0, np.inf)", "post": 1, "cost": 10, "is_numerical": True}
        options, page = ("--attacker", write({"attacks": [{"links": [rule]}]}), "--eps", "50"), tmp_path / "r.html"
        code, out, _ = run(*counts, *options, "--report", page, "--json")
        assert code == 0
        assert json.loads(out)["attacker"]["budget"] == 50
        assert json.loads(out)["robust_accuracy"] == 0.5
        assert "by rules, while a budget of 50 lasts" in page.read_text()
        assert run("compare", counts[1], *counts[1:], *options, "--out", tmp_path / "both.html")[0] == 0
        assert "Expected no radius with rules" in refuse(*counts, *options, "--radius")

    def test_rules_may_speak_of_groups_only(self, run, tmp_path):
        stumps((0, 0.5), n_features=2, classes=[1, 0], feature_names=["a", "b"]).save(tmp_path / "model.json")
        (tmp_path / "rows.csv").write_text("a,b,bad\n0,1,1\n1,0,0\n")
        rule = {"pre": ["one"], "post": "two", "cost": 1, "is_numerical": False}
        RuleAttacker({"kind": [rule]}, 5, groups={"kind": {"one": "a", "two": "b"}}).save(tmp_path / "rules.json")
        files = (tmp_path / "model.json", tmp_path / "rows.csv", "--target", "bad", "--attacker")
        assert run("report", *files, tmp_path / "rules.json", "--out", tmp_path / "r.html")[0] == 0
        code, out, _ = run("certify", *files, tmp_path / "rules.json", "--report", tmp_path / "s.html", "--json")
        assert (code, json.loads(out)["robust_accuracy"]) == (0, 0.5)

    def test_ranges_of_a_table_are_units(self, run, refuse, counts, mail):
        code, out, _ = run(*counts, "--eps", "0.1", "--json", "--scale-from", counts[2])
        assert code == 0
        assert json.loads(out)["attacker"]["scale"] == [8, 80]
        assert "where nothing else scales all columns" in refuse(*mail.question, "--scale-from", mail.rows)
        assert "--scale-from DATA with --scale-by" in refuse(*counts, "--eps", "1", "--scale-by", "std")

    @pytest.mark.parametrize(
        ("words", "told"),
        [
            ("--scale 2", {"scale": 2.0}),
            ("--scale links=2 --scale bytes=1,4", {"scale": {"links": 2, "bytes": (1, 4)}}),
            (
                "--scale bytes=4 --only bytes --integer bytes",
                {"scale": {"bytes": 4}, "only": ["bytes"], "integer": [1]},
            ),
            ("--direction up", {"direction": "up"}),
            ("--direction links=up --direction 1=down", {"direction": {"up": ["links"], "down": ["bytes"]}}),
            ("--scale-from {rows} --scale-by 0,1 --scale bytes=4", {"scale": {"links": 8, "bytes": 4}}),
        ],
    )
    def test_units_and_ways_are_told_as_in_python(self, run, counts, words, told):
        code, out, err = run(*counts, "--eps", "2", "--json", *words.format(rows=counts[2]).split())
        assert (code, err) == (0, "")
        attacker = Attacker("inf", 2, **told).resolve(2, ["links", "bytes"])
        assert json.loads(out)["attacker"] == describe_attacker(attacker)

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            ("", "--eps, or --attacker FILE"),
            ("--attacker {attacker} --norm 2", "got both"),
            ("--attacker {attacker} --eps 2", "a budget"),
            ("--attacker {attacker} --only bytes", "--only, got both"),
            ("--eps 1 --scale links=2 --scale 3", "COLUMN=VALUE for each"),
            ("--eps 1 --scale links=2 --scale 0=3", "got two for one of them"),
            ("--eps 1 --scale links=wide", "to be a number, or two as DOWN,UP, got 'wide'"),
            ("--eps 1 --scale links=2", "got none for 'bytes'"),
            ("--eps 1 --direction length=up", "one of the model's columns, got 'length'"),
            ("--eps 1 --direction links=left", "up, down or both, got 'left'"),
            ("--eps 1 --scale-from {rows} --scale-by half", "range, std or two quantiles, got 'half'"),
            ("--eps 1 --attacked 7", "one of the model's labels, 1, 0, got '7'"),
            ("--eps 1 --require 7=0.5", "one of the model's labels, 1, 0, got '7'"),
            ("--eps 1 --require 1=2", "LABEL=SHARE"),
            ("--attacker none.json", "does not exist"),
        ],
    )
    def test_options_that_do_not_fit(self, refuse, counts, attacker, words, message):
        assert message in refuse(*counts, *words.format(attacker=attacker, rows=counts[2]).split())

    @pytest.mark.parametrize(
        ("changes", "message"), [({"version": 2}, "Expected version 1, got 2"), ({"frozen": ["byte"]}, "got 'byte'")]
    )
    def test_files_that_are_refused(self, refuse, counts, write, changes, message):
        document = {"format": "certiforest attacker", "version": 1, "norm": 1, "eps": 1, **changes}
        assert message in refuse(*counts, "--attacker", write(document))


def test_regressors_of_other_libraries(run, refuse, tmp_path):
    rng = np.random.default_rng(0)
    rows, path, out = tmp_path / "x.csv", tmp_path / "m.txt", tmp_path / "o.csv"
    X = np.round(rng.normal(size=(60, 3)), 2)
    y = X[:, 0] * X[:, 1] + 2
    lgb("Regressor", min_child_samples=5).fit(X, y).booster_.save_model(path)
    np.savetxt(rows, np.column_stack([X, y]), "%.17g", delimiter=",", header="a,b,c,y", comments="")
    asked = "certify", path, rows, "--target", "y", "--eps", "0.1", "--tolerance", "0.4"
    expected = certify(path, X, y, Attacker("linf", 0.1), tolerance=0.4, radius=True)
    code, said, _ = run(*asked, "--out", out, "--radius", "--json", "--report", tmp_path / "r.html")
    summary = json.loads(said)
    assert code == 0
    assert summary["verdicts"] == {verdict.name: n for verdict, n in expected.counts.items()}
    assert summary["tolerance"] == 0.4
    lines = list(csv.DictReader(out.open()))
    for name in ("prediction", "low", "high", "low_reached", "high_reached", "radius", "label"):
        assert [float(line[name]) for line in lines] == getattr(expected, name).tolist()
    page = (tmp_path / "r.html").read_text()
    assert "differs by more than 0.4" in page
    assert "a regressor" in page
    assert run(*asked, "--require", "0.99")[0] == 1
    assert run(*asked, "--out", out, "--radius", "--force")[0] == 0  # from the parts, or anew
    assert "--proof for a classifier" in refuse(*asked, "--proof", tmp_path / "p.jsonl")
    assert "number >= 0, got -1" in refuse(*asked[:-1], "-1")
    assert "threshold" in refuse(*asked[:-2])


def test_the_range_of_a_probability(run, mail, refuse, tmp_path):
    out = tmp_path / "found.csv"
    assert run(*mail.question, "--outputs", "--out", out)[0] == 0
    lines = list(csv.DictReader(out.open()))
    row = TreeEnsemble.load(mail.model).scaling.apply([[4.5, 4.5]])
    found = certify(mail.model, row, None, Attacker("inf", 0.1), outputs=True)
    assert [float(lines[1][name]) for name in ("low", "high")] == [found.low[0], found.high[0]]
    assert "a classifier" in refuse(*mail.question, "--tolerance", "0.1")

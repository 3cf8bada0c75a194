"""The command line: what it says, what it writes, and one sentence for everything a person gets wrong."""

import csv
import json
import logging
import subprocess
import sys

import numpy as np
import pytest

from certiforest import Attacker, Certifier, RuleAttacker, Scaling, TreeEnsemble, Verdict, certify
from certiforest.cli import console
from certiforest.cli.train import TRAINERS
from certiforest.problem import verifier
from shared_data import needs_shared, shared
from small_models import VOTERS, stumps


@pytest.fixture
def model(tmp_path):
    """The voters, scaled: the file's numbers are 10 times the model's."""
    path = tmp_path / "model.json"
    VOTERS.replace(scaling=Scaling([0, 0], [10, 10])).save(path)
    return path


@pytest.fixture
def data(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("length,links,label\n1,1,ham\n4.5,4.5,ham\n9,9,spam\n9,9,ham\n")
    return path


def test_certify_scales_rows_by_the_model(run, model, data):
    code, out, _ = run("certify", model, data, "--target", "label", "--eps", "0.1", "--json")
    assert code == 0
    summary = json.loads(out)
    assert summary["verdicts"] == {"ROBUST": 2, "FRAGILE": 1, "VULNERABLE": 1, "BROKEN": 0, "UNKNOWN": 0}
    assert summary["accuracy"] == 0.75
    assert summary["robust_accuracy"] == 0.5
    assert summary["has_large_spread"] is True


def test_certify_says_what_it_found(run, model, data):
    code, out, err = run("certify", model, data, "--target", "label", "--eps", "0.05")
    assert (code, err) == (0, "")
    assert "Robust accuracy" in out
    assert "75.00%" in out


def test_certify_without_labels(run, model, tmp_path):
    path = tmp_path / "new.csv"
    path.write_text("length,links\n1,1\n")
    code, out, _ = run("certify", model, path, "--eps", "0.01", "--json")
    summary = json.loads(out)
    assert (code, summary["stable"]) == (0, 1)
    assert "verdicts" not in summary


def test_certify_writes_one_line_per_row(run, model, data, tmp_path):
    out = tmp_path / "found.csv"
    arguments = ("certify", model, data, "--target", "label", "--eps", "0.1", "--out", out)
    assert run(*arguments, "--radius", "--witness")[0] == 0
    lines = list(csv.DictReader(out.open()))
    assert [line["verdict"] for line in lines] == ["ROBUST", "FRAGILE", "ROBUST", "VULNERABLE"]
    ensemble = TreeEnsemble.load(model)
    found = certify(
        ensemble,
        ensemble.scaling.apply([[4.5, 4.5]]),
        ["ham"],
        Attacker("inf", 0.1),
        radius=True,
        witness=True,
    )
    assert float(lines[1]["radius"]) == found.radius[0]
    witness = [[float(lines[1][f"witness_{name}"]) for name in ("length", "links")]]  # in the units of the data
    assert ensemble.scaling.apply(witness).tolist() == found.witness.tolist()
    assert lines[0]["witness_links"] == ""
    # An existing file stays as it is unless --force is given.
    before = out.read_bytes()
    code, _, err = run(*arguments)
    assert code == 2
    assert "--force" in err
    assert out.read_bytes() == before
    assert run(*arguments, "--force")[0] == 0
    assert out.read_bytes() != before


def test_require(run, model, data):
    arguments = ("certify", model, data, "--target", "label", "--eps", "0.1", "--require")
    assert run(*arguments, "0.5")[0] == 0
    code, _, err = run(*arguments, "0.51")
    assert code == 1
    assert "below the required 0.51" in err


def test_frozen_features_and_domain(run, model, data):
    arguments = ("certify", model, data, "--target", "label", "--eps", "0.1", "--json")
    frozen = run(*arguments, "--frozen", "length", "--frozen", "1")[1]
    assert json.loads(frozen)["verdicts"]["ROBUST"] == 3
    domain = run(*arguments, "--domain", "0", "1")[1]
    assert json.loads(domain)["verdicts"]["ROBUST"] == 2


def test_spread(run, model):
    code, out, _ = run("spread", model, "--eps", "0.2", "--json")
    summary = json.loads(out)
    assert code == 0
    assert summary["spread"] == pytest.approx(0.3)
    assert summary["has_large_spread"] is False
    assert summary["overlapping_features"] == ["length"]
    assert "eps up to" in run("spread", model)[1]


def test_spread_of_trees_that_share_nothing(run, tmp_path):
    path = tmp_path / "stump.json"
    stumps((0, 0.5)).save(path)
    assert json.loads(run("spread", path, "--json")[1])["spread"] is None
    assert "any eps" in run("spread", path)[1]


def test_demo_ends_in_a_table(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, _ = run("demo")
    assert code == 0
    assert "Robust" in out
    for norm in ("Linf", "L2", "L1"):
        assert norm in out


def test_no_command_shows_the_help(run):
    code, out, err = run()
    assert (code, err) == (0, "")
    assert "certiforest demo" in out


class TestBadInput:
    def test_usage(self, refuse):
        assert "MODEL" in refuse("certify")
        assert "No such command" in refuse("certfy")
        assert "--eps" in refuse("certify", "a", "b")
        assert "valid" in refuse("certify", "a", "b", "--eps", "much")

    def test_model_file(self, refuse, data, tmp_path, model):
        arguments = (data, "--target", "label", "--eps", "0.1")
        assert "does not exist" in refuse("certify", tmp_path / "none.json", *arguments)
        assert "directory" in refuse("certify", tmp_path, *arguments)
        assert "not a sound certiforest model" in refuse("certify", data, *arguments)
        newer = tmp_path / "newer.json"
        newer.write_text(model.read_text().replace('"version":1', '"version":3'))
        assert "pip install --upgrade" in refuse("certify", newer, *arguments)
        cut = tmp_path / "cut.json"
        cut.write_text(model.read_text()[:-50])
        assert "cut short" in refuse("certify", cut, *arguments)

    def test_data_file(self, refuse, model, data, tmp_path):
        rest = ("--target", "label", "--eps", "0.1")
        assert "does not exist" in refuse("certify", model, tmp_path / "none.csv", *rest)
        assert "neither" in refuse("certify", model, "nothing_like_it", *rest)
        assert "directory" in refuse("certify", model, tmp_path, *rest)
        empty = tmp_path / "empty.csv"
        empty.touch()
        assert "empty file" in refuse("certify", model, empty, *rest)
        assert "'length', 'links', 'label'" in refuse("certify", model, data, "--target", "lable", "--eps", "0.1")
        assert "model before the data" in refuse("certify", data, model, *rest)
        assert "model before the data" in refuse("report", data, model, *rest)

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
    def test_rows(self, refuse, model, data, text, message):
        data.write_text(text)
        assert message in refuse("certify", model, data, "--target", "label", "--eps", "0.1")

    def test_attacker(self, refuse, model, data):
        arguments = ("certify", model, data, "--target", "label")
        assert "finite number >= 0" in refuse(*arguments, "--eps", "-1")
        assert "norm" in refuse(*arguments, "--eps", "0.1", "--norm", "1.5")
        assert "--frozen" in refuse(*arguments, "--eps", "0.1", "--frozen", "colour")
        assert "domain" in refuse(*arguments, "--eps", "0.1", "--domain", "0", "0.5")
        assert "--require" in refuse(*arguments, "--eps", "0.1", "--require", "90")
        assert "--part" in refuse(*arguments, "--eps", "0.1", "--part", "some")

    def test_output(self, refuse, model, data, tmp_path):
        arguments = ("certify", model, data, "--target", "label", "--eps", "0.1", "--out")
        assert "directory" in refuse(*arguments, tmp_path)
        assert "existing directory" in refuse(*arguments, tmp_path / "none" / "found.csv")

    def test_eps_in_the_wrong_unit_is_warned_of(self, run, model, data):
        code, _, err = run("certify", model, data, "--target", "label", "--eps", "5")
        assert code == 0
        assert "exceeds half the range" in err
        assert err.count("\n") == 1
        assert run("certify", model, data, "--target", "label", "--eps", "0.1")[2] == ""

    def test_eps_in_the_wrong_unit_is_warned_of_without_scaling(self, run, model, data, tmp_path):
        ensemble = TreeEnsemble.load(model).with_columns(["length", "links"])
        ensemble.save(tmp_path / "raw.json")
        _, _, err = run("certify", tmp_path / "raw.json", data, "--target", "label", "--eps", "4.1")
        assert "half the range (8 in these rows) of feature length and of 1 others" in err
        assert run("certify", tmp_path / "raw.json", data, "--target", "label", "--eps", "3.9")[2] == ""


def test_scaling_in_the_model_file_is_checked(refuse, model, data, tmp_path):
    document = json.loads(model.read_text())
    for wrong, message in [
        ([], "hold"),
        ({"offset": [0, 0]}, "hold"),
        ({"offset": [0, 0], "range": [1]}, "as many"),
        ({"offset": [0], "range": [1]}, "scaling of 2"),
        ({"offset": [0, 0], "range": [1, 0]}, "> 0"),
        ({"offset": [0, 0], "range": [1, True]}, "list of numbers"),
        ({"offset": [0, 0], "range": [1, 10**400]}, "numbers"),
        ({"offset": [0, 0], "range": [1, "2"]}, "list of numbers"),
    ]:
        path = tmp_path / "wrong.json"
        path.write_text(json.dumps({**document, "scaling": wrong}))
        assert message in refuse("certify", path, data, "--target", "label", "--eps", "0.1")


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


class TestTrain:
    @pytest.fixture
    def table(self, tmp_path):
        """Two hundred rows that a tree can tell apart, in units that need scaling."""
        random = np.random.default_rng(0)
        X = random.random((200, 4)) * [1, 1000, 10, 1]
        path = tmp_path / "table.csv"
        lines = [",".join(map(repr, row.tolist())) + (",yes" if row[1] > 500 else ",no") for row in X]
        path.write_text("\n".join(["a,b,c,d,bought", *lines]) + "\n")
        return path

    def test_train_then_certify(self, run, table, tmp_path):
        out = tmp_path / "model.json"
        arguments = ("train", table, "--target", "bought", "--scale", "--eps", "0.01", "--trees", "5", "--depth", "2")
        code, text, _ = run(*arguments, "--out", out, "--json")
        trained = json.loads(text)
        assert code == 0
        assert trained["data"]["n_rows"] == 140
        assert trained["held_out"]["n_rows"] == 60
        ensemble = TreeEnsemble.load(out)
        assert ensemble.feature_names == ("a", "b", "c", "d")
        assert ensemble.classes.tolist() == ["no", "yes"]
        assert 900 < ensemble.scaling.range[1] <= 1000
        # What certify finds on the held-out part is what train said about it.
        arguments = ("certify", out, table, "--target", "bought", "--eps", "0.01", "--part", "test", "--json")
        certified = json.loads(run(*arguments)[1])
        for fact in ("verdicts", "accuracy", "robust_accuracy"):
            assert certified[fact] == trained["held_out"][fact]
        # Lines of --out name the rows of the file.
        found = tmp_path / "found.csv"
        assert run(*arguments, "--out", found)[0] == 0
        labels = [line.rsplit(",", 1)[1] for line in table.read_text().splitlines()[1:]]
        for line in csv.DictReader(found.open()):
            assert line["label"] == labels[int(line["row"])]
        assert certified["has_large_spread"]

    def test_is_repeatable_and_scales_by_training_rows_only(self, run, table, tmp_path):
        paths = [tmp_path / "one.json", tmp_path / "two.json"]
        for path in paths:
            arguments = ("train", table, "--target", "bought", "--scale", "--eps", "0.01", "--trees", "3")
            assert run(*arguments, "--out", path)[0] == 0
        assert paths[0].read_bytes() == paths[1].read_bytes()

    def test_every_trainer_and_method(self, run, table, tmp_path):
        ways = [(model, None) for model in TRAINERS if model != "forest"] + [("forest", "grow"), ("forest", "prune")]
        for number, (model, method) in enumerate(ways):
            out = tmp_path / f"{number}.json"
            arguments = ("train", table, "--target", "bought", "--scale", "--eps", "0.001")
            size = () if model == "additive" else ("--trees", "3", "--depth", "2")
            how = () if method is None else ("--method", method)
            assert run(*arguments, *size, "--model", model, *how, "--out", out)[0] == 0
            assert TreeEnsemble.load(out).n_trees == (4 if model == "additive" else 3)
        code, _, error = run(*arguments, "--model", "boosting", "--method", "grow", "--out", out, "--force")
        assert (code, error.count("\n")) == (2, 1)
        assert "Expected no --method with --model boosting" in error
        error = run(*arguments, "--model", "additive", "--trees", "4", "--out", out, "--force")[2]
        assert "Expected no --trees with --model additive, whose trees are one per feature" in error

    def test_an_attacker_from_a_file_and_who_attacks(self, run, refuse, table, tmp_path):
        attacker = Attacker("linf", 0.3, scale=[1, 0.5, 1, 1], direction={"b": "up"}, frozen=["d"], domain=(-1, 2))
        attacker.save(tmp_path / "attacker.json")
        out = tmp_path / "m.json"
        arguments = ("train", table, "--target", "bought", "--scale", "--out", out, "--force", "--json")
        options = ("--attacker", tmp_path / "attacker.json", "--attacked", "no")
        for model in TRAINERS:
            trained = json.loads(run(*arguments, *options, "--model", model)[1])
            assert trained["attacked"] == ["no"]
            assert trained["attacker"]["direction"] == {"up": ["b"]}
            assert (trained["attacker"]["frozen"], trained["attacker"]["domain"]) == (["d"], [-1.0, 2.0])
            arguments_ = ("certify", out, table, "--target", "bought", "--part", "test", "--json", *options)
            assert json.loads(run(*arguments_)[1])["verdicts"] == trained["held_out"]["verdicts"]
            found = json.loads(run("spread", out, *options[:2], "--json")[1])
            assert (found["eps"], found["spread"]) == (0.3, trained["spread"])
            assert found["has_large_spread"] == (model != "robust-boosting" or found["n_overlaps"] == 0)
        trained = json.loads(run(*arguments, "--eps", "0.3", "--param", "direction=up")[1])
        assert trained["attacker"]["direction"] == "up"
        assert "--eps, or --attacker FILE" in refuse(*arguments)
        assert "got both" in refuse(*arguments, *options, "--norm", "2")
        assert "got both ('eps=1')" in refuse(*arguments, *options, "--param", "eps=1")
        assert "labels, 'no', 'yes', got 'maybe'" in refuse(*arguments, *options, "--attacked", "maybe")
        Attacker("linf", 0.3, groups=[["a", "b"]]).save(tmp_path / "groups.json")
        assert "which trainers know, got groups; leave that out" in refuse(
            *arguments, "--attacker", tmp_path / "groups.json"
        )
        rules = {"attacks": [{"a": [{"pre": "(0, 1)", "post": 1, "cost": 10, "is_numerical": True}]}]}
        (tmp_path / "rules.json").write_text(json.dumps(rules))
        rules = ("--attacker", tmp_path / "rules.json", "--eps", "30")
        assert "Expected rules, which speak of values as they are, without scaling" in refuse(*arguments, *rules)
        assert "without scaling, got both" in refuse("certify", out, table, "--target", "bought", *rules)
        assert "Expected an attacker with a norm, got rules" in refuse("spread", out, *rules)

    def test_rules_from_a_file(self, run, refuse, table, tmp_path):
        rule = {"pre": "(-9, 9)", "post": 0.05, "cost": 10, "is_numerical": True}
        (tmp_path / "rules.json").write_text(json.dumps({"attacks": [{"a": [rule]}]}))
        options = ("--target", "bought", "--attacker", tmp_path / "rules.json")
        for model in TRAINERS:
            out = tmp_path / f"{model}.json"
            arguments = ("train", table, *options, "--model", model, "--out", out)
            code, said, _ = run(*arguments, "--eps", "30")
            assert (code, "against rules, budget 30" in said) == (0, True)
            trained = json.loads(run(*arguments, "--eps", "30", "--force", "--json")[1])
            assert trained["attacker"]["budget"] == 30
            certified = json.loads(run("certify", out, table, *options, "--eps", "30", "--part", "test", "--json")[1])
            assert certified["verdicts"] == trained["held_out"]["verdicts"]
        arguments = (*arguments, "--force")
        assert "a budget (--eps)" in refuse(*arguments)
        assert "got both ('frozen=[0]')" in refuse(*arguments, "--eps", "30", "--param", "frozen=[0]")
        assert "with a name among" in refuse(*arguments, "--eps", "30", "--param", "attacker=1")
        assert "within the budget, got none; raise the budget" in refuse(*arguments, "--eps", "9")

    def test_named_dataset(self, run, tmp_path):
        out = tmp_path / "model.json"
        arguments = (
            *["train", "breast_cancer", "--eps", "0.01", "--trees", "5", "--depth", "3", "--frozen"],
            "mean radius",
        )
        assert run(*arguments, "--out", out)[0] == 0
        assert TreeEnsemble.load(out).scaling is not None
        certified = json.loads(run("certify", out, "breast_cancer", "--eps", "0.01", "--json")[1])
        assert certified["data"] == {"source": "breast_cancer", "part": "test", "n_rows": 171, "scaled": True}

    def test_refusals(self, refuse, table, tmp_path):
        out = tmp_path / "model.json"
        rest = ("--eps", "0.01", "--out", out)
        assert "--target" in refuse("train", table, *rest, "--drop", "bought")
        assert "--drop bought" in refuse("train", table, *rest)
        assert "Is target (--target) the label?" in refuse("train", table, "--target", "a", "--drop", "bought", *rest)
        assert "boostings" in refuse("train", table, "--target", "bought", *rest, "--model", "boostings")
        assert "method" in refuse("train", table, "--target", "bought", *rest, "--method", "guess")
        assert "n_partitions" in refuse("train", table, "--target", "bought", *rest, "--param", "partitions=3")
        assert "eps" in refuse("train", table, "--target", "bought", "--eps", "0", "--out", out)
        assert not out.exists()
        short = ("--eps", "0.2", "--scale", "--method", "prune", "--trees", "99", "--out", out)
        assert "--param n_partitions" in refuse("train", table, "--target", "bought", *short)
        assert list(tmp_path.iterdir()) == [table]

    def test_shortfall_can_be_kept_with_a_warning(self, run, table, tmp_path):
        out = tmp_path / "model.json"
        arguments = (
            "train",
            table,
            *["--target", "bought", "--scale", "--eps", "0.1", "--method", "prune", "--trees", "50"],
        )
        code, _, err = run(*arguments, "--param", "on_shortfall=keep", "--out", out)
        assert code == 0
        assert err.startswith("certiforest: warning: Expected 50 trees")


@needs_shared
def test_spambase_and_clamp(run, refuse, tmp_path):
    folder = shared() / "data" / "tabular"
    spam = tmp_path / "spam.json"
    rest = ("--scale", "--eps", "0.005", "--trees", "9", "--depth", "4")
    assert run("train", folder / "spambase.csv", "--target", "-1", *rest, "--out", spam)[0] == 0
    report = tmp_path / "report.html"
    arguments = ("certify", spam, folder / "spambase.csv", "--target", "-1", "--part", "test", "--eps", "0.005")
    assert run(*arguments, "--report", report, "--require", "0.7")[0] == 0
    assert "Most fragile rows" in report.read_text()
    clamp = folder / "ClaMP_Integrated-5184.csv"
    out = tmp_path / "clamp.json"
    assert "--drop packer_type" in refuse("train", clamp, "--target", "class", *rest, "--out", out)
    assert run("train", clamp, "--target", "class", "--drop", "packer_type", *rest, "--out", out)[0] == 0
    assert TreeEnsemble.load(out).n_features == 68
    missing = folder / "breast-cancer-wisconsin.data"
    holed, rest = tmp_path / "holed.json", ("--target", "-1", "--drop", "0", "--eps", "1")
    for model in ("forest", "robust-boosting"):
        options = ("--model", model, "--trees", "9", "--out", holed, "--held-out", tmp_path / "h.csv", "--force")
        trained = json.loads(run("train", missing, *rest, *options, "--json")[1])
        assert 0 < trained["data"]["n_missing"] < 16
        certified = json.loads(run("certify", holed, missing, *rest, "--part", "test", "--json")[1])
        assert certified["verdicts"] == trained["held_out"]["verdicts"]
        again = json.loads(run("certify", holed, tmp_path / "h.csv", "--target", "-1", "--eps", "1", "--json")[1])
        assert again["verdicts"] == trained["held_out"]["verdicts"]


@pytest.mark.parametrize("suffix", [".html", ".json", ".txt"])
def test_report(run, refuse, model, data, tmp_path, suffix):
    out = tmp_path / f"report{suffix}"
    arguments = ("report", model, data, "--target", "label", "--eps", "0.1")
    code, text, _ = run(*arguments, "--out", out)
    assert (code, text) == (0, f"Report: {out}\n")
    assert "length" in out.read_text()
    assert "--force" in refuse(*arguments, "--out", out)
    assert ".html or .json or .txt" in refuse(*arguments, "--out", tmp_path / "report.pdf")
    findings = json.loads(run(*arguments, "--json")[1])
    assert findings["verdicts"]["FRAGILE"] == 1


def test_rows_are_certified_once_for_verdicts_and_report(run, model, data, tmp_path, monkeypatch):
    n_certified = []

    certified = Certifier.certify

    def counted(self, X, *arguments, **options):
        n_certified.append(len(X))
        return certified(self, X, *arguments, **options)

    monkeypatch.setattr(Certifier, "certify", counted)
    report, rows = tmp_path / "report.json", tmp_path / "found.csv"
    arguments = ("certify", model, data, "--target", "label", "--eps", "0.1", "--report", report, "--out", rows)
    assert run(*arguments)[0] == 0
    assert n_certified == [4]
    assert json.loads(report.read_text())["verdicts"]["FRAGILE"] == 1
    assert rows.read_text().startswith("row,label,prediction,stable,method,verdict\n")


def test_datasets(run, refuse):
    code, out, _ = run("datasets")
    assert code == 0
    assert "breast_cancer" in out
    assert json.loads(run("datasets", "mnist26", "--json")[1])["licence"] == "CC BY-SA 3.0"
    assert "stratified, seed 7" in run("datasets", "digits")[1]
    assert "mnist26" in refuse("datasets", "mnits")


def test_interruption_leaves_nothing(run, model, data, tmp_path, monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(Certifier, "certify", interrupt)
    before = sorted(tmp_path.iterdir())
    code, _, err = run("certify", model, data, "--target", "label", "--eps", "0.1", "--out", tmp_path / "found.csv")
    assert code == 130
    assert err.count("\n") == 1
    assert sorted(tmp_path.iterdir()) == before


def test_a_model_is_kept_when_certifying_held_out_rows_is_interrupted(run, tmp_path, monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(Certifier, "certify", interrupt)
    words = ("train", "breast_cancer", "--eps", "0.02", "--trees", "3", "--out", tmp_path / "kept.json")
    assert run(*words)[0] == 130
    assert TreeEnsemble.load(tmp_path / "kept.json").n_trees == 3


@pytest.mark.parametrize("words", [["--help"], ["certify", "model.json", "breast_cancer", "--eps", "0.01"]])
def test_commands_that_do_not_train_need_no_slow_library(tmp_path, words):
    stump = stumps((0, 0.5), n_features=30)
    stump.save(tmp_path / "model.json")
    code = f"import sys; from certiforest.cli import main; assert main({words!r}) == 0; "
    code += "print({'sklearn', 'pandas'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout.endswith("set()\n")


def test_a_terminal_is_told_once_what_is_waited_for(monkeypatch, capsys):
    logs = [logging.getLogger(f"certiforest.{name}") for name in ("kernel_cache", "problem.verifier")]
    for log in logs:
        monkeypatch.setattr(log, "level", log.level)
        monkeypatch.setattr(log, "disabled", False)  # import-linter, which another test runs, disables all loggers
    monkeypatch.setattr(console, "_is_terminal", lambda stream: True)
    monkeypatch.setattr(verifier, "LARGE", 3)
    console.say_what_is_waited_for()
    for depth in (1, 2):
        certify(
            TreeEnsemble([0, -1, -1], [depth, 0, 0], [-1, 0, 1], n_features=1, classes=[0, 1]),
            [[0]],
            None,
            Attacker(1, 1),
        )
        logs[0].info("compiling a kernel")
    told = capsys.readouterr().err
    assert told.count("compiling") == told.count("preparing a large model") == 1


@pytest.fixture
def counts(tmp_path):
    """Links and bytes, both whole, as they are; an attacker's file and rows."""
    ensemble = TreeEnsemble(
        [0, -1, -1, 1, -1, -1, 0, -1, -1],
        [2.5, 0, 0, 40, 0, 0, 5.5, 0, 0],
        [-1, 1, 0, -1, 1, 0, -1, 1, 0],
        n_features=2,
        classes=[0, 1],
        feature_names=["links", "bytes"],
    )
    ensemble.save(tmp_path / "model.json")
    (tmp_path / "rows.csv").write_text("links,bytes,bad\n1,10,1\n2,40,1\n9,90,0\n6,41,0\n")
    attacker = {"format": "certiforest attacker", "version": 1, "norm": 1, "eps": 2, "integer": ["links", "bytes"]}
    (tmp_path / "attacker.json").write_text(json.dumps({**attacker, "direction": {"up": ["links", "bytes"]}}))
    return tmp_path


def test_an_attacker_comes_from_a_file_and_attacks_one_class(run, counts):
    arguments = ("certify", counts / "model.json", counts / "rows.csv", "--target", "bad")
    options = ("--attacker", counts / "attacker.json", "--attacked", "1", "--out", counts / "rows_out.csv", "--witness")
    code, out, _ = run(*arguments, *options, "--json")
    assert code == 0
    summary = json.loads(out)
    assert summary["attacked"] == [1]
    assert summary["recall"] == {"0": 1.0, "1": 1.0}
    assert summary["robust_recall"] == {"0": 1.0, "1": 0.5}
    assert summary["attacker"]["direction"] == {"up": [0, 1]}
    rows = list(csv.DictReader((counts / "rows_out.csv").open()))
    assert [row["method"] for row in rows][2:] == ["spared", "spared"]
    assert (float(rows[1]["witness_links"]), float(rows[1]["witness_bytes"])) == (3, 41)
    assert run(*arguments, *options[:4], "--require", "1=0.5", "--require", "0=1")[0] == 0
    code, out, err = run(*arguments, *options[:4], "--require", "1=0.8", "--require", "0.5")
    assert code == 1
    assert "Robust recall of 1 0.5000 is below the required 0.8" in err
    assert "Recall of 1" in out
    assert run("report", *arguments[1:], *options[:4], "--out", counts / "r.html")[0] == 0
    assert "Only rows of 1 are attacked" in (counts / "r.html").read_text()


def test_rules_come_from_a_file(run, counts):
    rules = {"attacks": [{"links": [{"pre": "(0, np.inf)", "post": 1, "cost": 10, "is_numerical": True}]}]}
    (counts / "rules.json").write_text(json.dumps(rules))
    arguments = ("certify", counts / "model.json", counts / "rows.csv", "--target", "bad")
    options = ("--attacker", counts / "rules.json", "--eps", "50", "--report", counts / "r.html", "--json")
    code, out, _ = run(*arguments, *options)
    assert code == 0
    assert json.loads(out)["attacker"]["budget"] == 50
    assert json.loads(out)["robust_accuracy"] == 0.5
    assert "by rules, while a budget of 50 lasts" in (counts / "r.html").read_text()
    compared = ("compare", counts / "model.json", *arguments[1:], *options[:4], "--out", counts / "both.html")
    assert run(*compared)[0] == 0
    code, _, err = run(*arguments, *options[:4], "--radius")
    assert (code, err.count("\n")) == (2, 1)
    assert "Expected no radius with rules" in err


def test_rules_may_speak_of_groups_only(run, tmp_path):
    TreeEnsemble([0, -1, -1], [0.5, 0, 0], [-1, 1, 0], n_features=2, classes=[0, 1], feature_names=["a", "b"]).save(
        tmp_path / "model.json"
    )
    (tmp_path / "rows.csv").write_text("a,b,bad\n0,1,1\n1,0,0\n")
    rule = {"pre": ["one"], "post": "two", "cost": 1, "is_numerical": False}
    RuleAttacker({"kind": [rule]}, 5, groups={"kind": {"one": "a", "two": "b"}}).save(tmp_path / "rules.json")
    arguments = (
        tmp_path / "model.json",
        tmp_path / "rows.csv",
        "--target",
        "bad",
        "--attacker",
        tmp_path / "rules.json",
    )
    assert run("report", *arguments, "--out", tmp_path / "r.html")[0] == 0
    code, out, _ = run("certify", *arguments, "--report", tmp_path / "s.html", "--json")
    assert (code, json.loads(out)["robust_accuracy"]) == (0, 0.5)


def test_ranges_of_a_table_are_units(run, counts):
    arguments = ("certify", counts / "model.json", counts / "rows.csv", "--target", "bad", "--eps", "0.1", "--json")
    code, out, _ = run(*arguments, "--scale-from", counts / "rows.csv")
    assert code == 0
    assert json.loads(out)["attacker"]["scale"] == [8, 80]


def test_bad_attackers_get_one_sentence(refuse, counts):
    arguments = ("certify", counts / "model.json", counts / "rows.csv", "--target", "bad")
    assert "--eps, or --attacker FILE" in refuse(*arguments)
    assert "got both" in refuse(*arguments, "--attacker", counts / "attacker.json", "--norm", "2")
    assert "a budget" in refuse(*arguments, "--attacker", counts / "attacker.json", "--eps", "2")
    assert "one of the model's labels, 0, 1, got '7'" in refuse(*arguments, "--eps", "1", "--attacked", "7")
    assert "one of the model's labels, 0, 1, got '7'" in refuse(*arguments, "--eps", "1", "--require", "7=0.5")
    assert "LABEL=SHARE" in refuse(*arguments, "--eps", "1", "--require", "1=2")
    assert "does not exist" in refuse(*arguments, "--attacker", counts / "none.json")
    (counts / "newer.json").write_text('{"format": "certiforest attacker", "version": 2, "norm": 1, "eps": 1}')
    assert "Expected version 1, got 2" in refuse(*arguments, "--attacker", counts / "newer.json")
    (counts / "named.json").write_text(
        '{"format": "certiforest attacker", "version": 1, "norm": 1, "eps": 1, "frozen": ["byte"]}'
    )
    assert "got 'byte'" in refuse(*arguments, "--attacker", counts / "named.json")

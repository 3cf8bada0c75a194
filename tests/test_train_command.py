"""The command train: what it learns and keeps, which rows are held out for certify, and what is refused."""

import csv
import json

import numpy as np
import pytest

from certiforest import Attacker, Certifier, TreeEnsemble
from certiforest.cli.train import TRAINERS
from shared_data import needs_shared, shared
from small_models import stumps

CLASSIFIERS = [model for model in TRAINERS if not model.endswith("regressor")]


@pytest.fixture
def table(tmp_path):
    """Two hundred rows that a tree can tell apart, in units that need scaling."""
    X = np.random.default_rng(0).random((200, 4)) * [1, 1000, 10, 1]
    path = tmp_path / "table.csv"
    lines = [",".join(map(repr, row)) + (",yes" if row[1] > 500 else ",no") for row in X.tolist()]
    path.write_text("\n".join(["a,b,c,d,bought", *lines]) + "\n")
    return path


@pytest.fixture
def words(table, tmp_path):
    """Return what makes the words of a command that trains on that table."""

    def words(*more, out="model.json"):
        return "train", table, "--target", "bought", "--scale", "--out", tmp_path / out, *more

    return words


def test_train_then_certify(run, words, table, tmp_path):
    code, text, _ = run(*words("--eps", "0.01", "--trees", "5", "--depth", "2", "--json"))
    trained = json.loads(text)
    assert code == 0
    assert trained["data"]["n_rows"] == 140
    assert trained["held_out"]["n_rows"] == 60
    ensemble = TreeEnsemble.load(tmp_path / "model.json")
    assert ensemble.feature_names == ("a", "b", "c", "d")
    assert ensemble.classes.tolist() == ["no", "yes"]
    assert 900 < ensemble.scaling.range[1] <= 1000
    # What certify finds on the held-out part is what train said about it.
    arguments = ("certify", tmp_path / "model.json", table, "--target", "bought", "--eps", "0.01", "--part", "test")
    found = tmp_path / "found.csv"
    certified = json.loads(run(*arguments, "--json", "--out", found)[1])
    for fact in ("verdicts", "accuracy", "robust_accuracy"):
        assert certified[fact] == trained["held_out"][fact]
    # Lines of --out name the rows of the file.
    labels = [line.rsplit(",", 1)[1] for line in table.read_text().splitlines()[1:]]
    for line in csv.DictReader(found.open()):
        assert line["label"] == labels[int(line["row"])]
    assert certified["has_large_spread"]


@pytest.mark.parametrize("kind", ["robust-boosting-regressor", "additive-regressor"])
def test_a_regressor_is_trained_and_certified(run, refuse, table, tmp_path, kind):
    model, rest = tmp_path / "model.json", tmp_path / "rest.csv"
    words = "train", table, "--target", "b", "--drop", "bought", "--eps", "0.01", "--model", kind, "--out", model
    trained = json.loads(run(*words, "--scale", "--held-out", rest, "--json")[1])
    assert trained["attacked"] is None
    assert trained["held_out"]["n_rows"] == 60
    assert 0 < trained["held_out"]["mean_error"] < trained["held_out"]["mean_worst_error"]
    found = tmp_path / "found.csv"
    certify = "--target", "b", "--eps", "0.01", "--tolerance", "5", "--force", "--out", found
    for data in ((table, "--drop", "bought", "--part", "test"), (rest,)):
        assert run("certify", model, *data, *certify)[0] == 0
        lines = list(csv.DictReader(found.open()))
        low, said, high = np.array([[float(row[end]) for end in ("low", "label", "high")] for row in lines]).T
        assert np.maximum(high - said, said - low).mean() == pytest.approx(trained["held_out"]["mean_worst_error"])
    assert "threshold" in refuse("certify", model, rest, "--target", "b", "--eps", "0.01")
    assert "no --attacked" in refuse(*words, "--attacked", "1", "--force")


def test_is_repeatable(run, words, tmp_path):
    for out in ("one.json", "two.json"):
        assert run(*words("--eps", "0.01", "--trees", "3", out=out))[0] == 0
    assert (tmp_path / "one.json").read_bytes() == (tmp_path / "two.json").read_bytes()


def test_every_trainer_and_method(run, refuse, words, tmp_path):
    ways = [(model, None) for model in CLASSIFIERS if model != "forest"] + [("forest", "grow"), ("forest", "prune")]
    for model, method in ways:
        size = () if model == "additive" else ("--trees", "3", "--depth", "2")
        how = () if method is None else ("--method", method)
        assert run(*words("--eps", "0.001", *size, "--model", model, *how, "--force"))[0] == 0
        assert TreeEnsemble.load(tmp_path / "model.json").n_trees == (2 if model == "additive" else 3)
    rest = words("--eps", "0.001", "--force")
    message = refuse(*rest, "--model", "boosting", "--method", "grow")
    assert "Expected no --method with --model boosting" in message
    message = refuse(*rest, "--model", "additive", "--trees", "4")
    assert "Expected no --trees with --model additive, whose trees follow its columns" in message


def test_an_attacker_from_a_file_and_who_attacks(run, refuse, words, table, tmp_path):
    attacker = Attacker("linf", 0.3, scale=[1, 0.5, 1, 1], direction={"b": "up"}, frozen=["d"], domain=(-1, 2))
    attacker.save(tmp_path / "attacker.json")
    arguments, out = words("--force", "--json"), tmp_path / "model.json"
    options = ("--attacker", tmp_path / "attacker.json", "--attacked", "no")
    for model in CLASSIFIERS:
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
    assert json.loads(run(*arguments, "--eps", "0.3", "--param", 'attacked=["no"]')[1])["attacked"] == ["no"]
    assert "--eps, or --attacker FILE" in refuse(*arguments)
    assert "got both" in refuse(*arguments, *options, "--norm", "2")
    assert "got both ('eps=1')" in refuse(*arguments, *options, "--param", "eps=1")
    assert "labels, 'no', 'yes', got 'maybe'" in refuse(*arguments, *options, "--attacked", "maybe")
    Attacker("linf", 0.3, groups=[["a", "b"]]).save(tmp_path / "groups.json")
    message = refuse(*arguments, "--attacker", tmp_path / "groups.json")
    assert "which trainers know, got groups; leave that out" in message
    rule = {"pre": "(0, 1)", "post": 1, "cost": 10, "is_numerical": True}
    (tmp_path / "rules.json").write_text(json.dumps({"attacks": [{"a": [rule]}]}))
    rules = ("--attacker", tmp_path / "rules.json", "--eps", "30")
    assert "Expected rules, which speak of values as they are, without scaling" in refuse(*arguments, *rules)
    assert "without scaling, got both" in refuse("certify", out, table, "--target", "bought", *rules)
    assert "Expected an attacker with a norm, got rules" in refuse("spread", out, *rules)


def test_rules_from_a_file(run, refuse, table, tmp_path):
    rule = {"pre": "(-9, 9)", "post": 0.05, "cost": 10, "is_numerical": True}
    (tmp_path / "rules.json").write_text(json.dumps({"attacks": [{"a": [rule]}]}))
    options = ("--target", "bought", "--attacker", tmp_path / "rules.json")
    for model in CLASSIFIERS:
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


def test_named_dataset(run, tmp_path):
    out = tmp_path / "model.json"
    size = ("--trees", "5", "--depth", "3", "--frozen", "mean radius")
    assert run("train", "breast_cancer", "--eps", "0.01", *size, "--out", out)[0] == 0
    assert TreeEnsemble.load(out).scaling is not None
    certified = json.loads(run("certify", out, "breast_cancer", "--eps", "0.01", "--json")[1])
    assert certified["data"] == {"source": "breast_cancer", "part": "test", "n_rows": 171, "scaled": True}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--eps 0.01 --drop bought", "--target"),
        ("--eps 0.01", "--drop bought"),
        ("--eps 0.01 --target a --drop bought", "Is target (--target) the label?"),
        ("--eps 0.01 --target bought --model boostings", "boostings"),
        ("--eps 0.01 --target bought --method guess", "method"),
        ("--eps 0.01 --target bought --param partitions=3", "n_partitions"),
        ("--eps 0 --target bought", "eps"),
        ("--eps 0.2 --target bought --scale --method prune --trees 99", "--param n_partitions"),
    ],
)
def test_what_is_refused(refuse, table, tmp_path, words, message):
    assert message in refuse("train", table, "--out", tmp_path / "model.json", *words.split())
    assert list(tmp_path.iterdir()) == [table]


@pytest.mark.parametrize(
    "words",
    [
        "--param max_features=0",
        f"--param max_depth=1{'0' * 400}",
        f"--param n_estimators={'[' * 5000}",
        f"--param max_depth=1{'0' * 5000}",
        "--param callback=1",
        "--param random_state=-1",
        "--param frozen=0.5",
        "--param frozen=[9]",
        "--param eps=null",
        "--param norm=[]",
        "--param n_jobs=0",
        "--param n_jobs=many",
        f"--trees 1{'0' * 400}",
        "--trees -1",
        "--depth 0",
        f"--seed 1{'0' * 400}",
        "--seed -1",
        "--jobs 0",
        f"--jobs 1{'0' * 400}",
        "--eps 1e400",
        "--eps nan",
        "--eps -1",
        f"--target 1{'0' * 400}",
        f"--drop 1{'0' * 400}",
        f"--frozen 1{'0' * 400}",
        "--frozen ²",
        f"--norm 1{'0' * 400}",
        "--first-index 7",
        "--format xlsx",
    ],
    ids=lambda words: words[:30],
)
def test_parameters_that_mean_nothing_left_a_traceback(refuse, words, tmp_path, table):
    rest = ("--target", "bought", "--eps", "0.01", "--out", tmp_path / "m.json", "--trees", "2")
    refuse("train", table, *rest, *words.split())
    assert not (tmp_path / "m.json").exists()


def test_shortfall_can_be_kept_with_a_warning(run, words):
    code, _, err = run(*words("--eps", "0.1", "--method", "prune", "--trees", "50", "--param", "on_shortfall=keep"))
    assert code == 0
    assert err.startswith("certiforest: warning: Expected 50 trees")


def test_a_model_is_kept_when_certifying_held_out_rows_is_interrupted(run, tmp_path, monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(Certifier, "certify", interrupt)
    words = ("train", "breast_cancer", "--eps", "0.02", "--trees", "3", "--out", tmp_path / "kept.json")
    assert run(*words)[0] == 130
    assert TreeEnsemble.load(tmp_path / "kept.json").n_trees == 3


class TestPartsOfAnotherTable:
    """``--part test`` certified training rows if the file had changed."""

    @pytest.fixture
    def trained(self, run, words, tmp_path):
        """A model trained on the table; rows that were held out are beside it."""
        size = ("--eps", "0.01", "--trees", "3", "--depth", "2")
        assert run(*words(*size, "--held-out", tmp_path / "held_out.csv"))[0] == 0
        return tmp_path / "model.json"

    def certify(self, run, model, data, *more):
        return run("certify", model, data, "--target", "bought", "--eps", "0.01", "--json", *more)

    def test_the_same_rows_are_taken(self, run, trained, table, tmp_path):
        rows = [line.split(",") for line in table.read_text().splitlines()]
        turned = "\n".join(",".join([row[4], *row[3::-1]]) for row in rows) + "\n"
        found = []
        for text in (table.read_text(), turned):  # columns in another order are the same table
            table.write_text(text)
            code, out, err = self.certify(run, trained, table, "--part", "test")
            assert (code, err) == (0, "")
            found.append(json.loads(out))
        found.append(json.loads(self.certify(run, trained, tmp_path / "held_out.csv")[1]))
        for fact in ("verdicts", "accuracy", "robust_accuracy"):
            assert found[0][fact] == found[1][fact] == found[2][fact]
        assert [one["data"]["n_rows"] for one in found] == [60] * 3

    @pytest.mark.parametrize("change", ["prepended", "order", "label", "number"])
    def test_a_table_that_has_changed_is_refused(self, run, trained, table, change):
        header, *lines = table.read_text().splitlines()
        changed = {
            "prepended": [*lines[:50], *lines],
            "order": lines[::-1],
            "label": [lines[0][:-3] + ("no" if lines[0].endswith("yes") else ",yes"), *lines[1:]],
            "number": [*lines[:7], "0.5" + lines[7][lines[7].index(",") :], *lines[8:]],
        }[change]
        table.write_text("\n".join([header, *changed]) + "\n")
        for part in ("test", "train"):
            code, out, err = self.certify(run, trained, table, "--part", part)
            assert (code, out) == (2, "")
            assert "(200 rows), got another" in err
            assert "train --held-out" in err
        assert self.certify(run, trained, table, "--part", "all")[0] == 0

    def test_the_test_part_of_a_model_that_learned_all_rows_is_refused(self, run, refuse, words, table, tmp_path):
        training = words("--eps", "0.01", "--trees", "3", "--part", "all")
        assert run(*training)[0] == 0
        code, _, err = self.certify(run, tmp_path / "model.json", table, "--part", "test")
        assert code == 2
        assert "trained on all rows" in err
        assert "--part train" in refuse(*training, "--held-out", tmp_path / "x.csv", "--force")

    def test_a_model_that_does_not_tell_its_rows_is_warned_of(self, run, table, tmp_path):
        stumps((0, 0.5), n_features=4, classes=["no", "yes"]).save(tmp_path / "other.json")
        code, _, err = self.certify(run, tmp_path / "other.json", table, "--part", "test")
        assert code == 0
        assert "does not say which rows it was trained on" in err

    def test_the_record_survives_and_is_checked(self, refuse, trained, table):
        assert dict(TreeEnsemble.load(trained).training)["n_rows"] == 200
        document = json.loads(trained.read_text())
        for wrong in ([], {"part": []}, {"part": "train"}):
            trained.write_text(json.dumps({**document, "training": wrong}))
            assert "training" in refuse("certify", trained, table, "--target", "bought", "--eps", "0.01")


def test_libsvm_columns_shifted_by_one_between_training_and_certifying(run, refuse, tmp_path):
    X = np.random.default_rng(0).integers(1, 9, (100, 4)).tolist()
    train, rows, model = tmp_path / "train.svm", tmp_path / "rows.svm", tmp_path / "m.json"

    def lines(columns):
        return "".join(f"{int(row[1] > 4)} " + " ".join(f"{i}:{row[i]}" for i in columns) + "\n" for row in X)

    train.write_text(lines(range(4)))  # numbered from 0
    assert run("train", train, "--eps", "0.1", "--trees", "3", "--part", "all", "--out", model)[0] == 0
    rows.write_text(lines(range(1, 4)))  # no row has column 0, so it was taken to be numbered from 1
    certify = "certify", model, rows, "--eps", "0.1"
    code, out, _ = run(*certify, "--json")
    assert code == 0
    assert json.loads(out)["accuracy"] == 1.0
    assert "--first-index" in refuse(*certify, "--first-index", "1")
    TreeEnsemble.load(model).with_columns().save(model)  # as a model from elsewhere: it does not tell the base
    assert "--first-index" in refuse(*certify)
    assert run(*certify, "--first-index", "0")[0] == 0


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

"""Defects that trials of commands found; each test is named after what went wrong."""

import csv
import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from certiforest import Attacker, Scaling, TreeEnsemble
from certiforest.cli import main
from small_models import stumps

COMMAND = [sys.executable, "-c", "import sys; from certiforest.cli import main; sys.exit(main())"]
MAIL = {"n_features": 2, "classes": ["ham", "spam"]}
LARGEST = float(np.finfo(float).max)


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "model.json"
    stumps((0, 0.3), (0, 0.5), (0, 0.8), **MAIL, feature_names=["length", "links"]).save(path)
    return path


@pytest.fixture
def data(tmp_path):
    rows = [(0.1, 0.1, "ham"), (0.45, 0.45, "ham"), (0.9, 0.9, "spam"), (0.9, 0.9, "ham")]
    text = "length,links,label\n" + "".join(f"{a},{b},{label}\n" for a, b, label in rows)
    (tmp_path / "rows.csv").write_text(text)
    return tmp_path / "rows.csv"


@pytest.fixture
def question(model, data):
    return ("certify", model, data, "--target", "label", "--eps", "0.1")


@pytest.fixture
def table(tmp_path):
    """Two hundred rows that a tree can tell apart."""
    X = np.random.default_rng(0).random((200, 4))
    path = tmp_path / "table.csv"
    lines = [",".join(map(repr, row)) + (",yes" if row[1] > 0.5 else ",no") for row in X.tolist()]
    path.write_text("\n".join(["a,b,c,d,bought", *lines]) + "\n")
    return path


@pytest.fixture
def trained(run, table, tmp_path):
    """A model trained on that table, and the rows that were held out."""
    model, held_out = tmp_path / "trained.json", tmp_path / "held_out.csv"
    words = ("train", table, "--target", "bought", "--eps", "0.01", "--trees", "3", "--depth", "2")
    assert run(*words, "--out", model, "--held-out", held_out)[0] == 0
    return model, held_out


class TestPartsOfAnotherTable:
    """``--part test`` certified training rows if the file had changed."""

    def certify(self, run, model, data, *more):
        return run("certify", model, data, "--target", "bought", "--eps", "0.01", "--json", *more)

    def test_the_same_table_is_taken(self, run, trained, table):
        code, out, err = self.certify(run, trained[0], table, "--part", "test")
        assert (code, json.loads(out)["data"]["n_rows"], err) == (0, 60, "")

    def test_a_table_with_rows_prepended_is_refused(self, run, trained, table):
        header, *lines = table.read_text().splitlines()
        table.write_text("\n".join([header, *lines[:50], *lines]) + "\n")
        code, out, err = self.certify(run, trained[0], table, "--part", "test")
        assert (code, out) == (2, "")
        assert "(200 rows), got another" in err
        assert "train --held-out" in err
        assert self.certify(run, trained[0], table, "--part", "all")[0] == 0

    @pytest.mark.parametrize("change", ["order", "label", "number"])
    def test_a_table_that_has_changed_otherwise_is_refused(self, run, trained, table, change):
        header, *lines = table.read_text().splitlines()
        if change == "order":
            lines = lines[::-1]
        elif change == "label":
            lines[0] = lines[0].replace("yes", "n").replace("no", "yes").replace("n", "no")
        else:
            lines[7] = "0.5" + lines[7][lines[7].index(",") :]
        table.write_text("\n".join([header, *lines]) + "\n")
        for part in ("test", "train"):
            assert self.certify(run, trained[0], table, "--part", part)[0] == 2

    def test_columns_in_another_order_are_the_same_table(self, run, trained, table):
        rows = [line.split(",") for line in table.read_text().splitlines()]
        table.write_text("\n".join(",".join([row[4], *row[3::-1]]) for row in rows) + "\n")
        assert self.certify(run, trained[0], table, "--part", "test")[0] == 0

    def test_rows_that_were_held_out_are_written(self, run, trained, table):
        part = json.loads(self.certify(run, trained[0], table, "--part", "test")[1])
        rows = json.loads(self.certify(run, trained[0], trained[1])[1])
        assert rows["data"]["n_rows"] == 60
        for fact in ("verdicts", "accuracy", "robust_accuracy"):
            assert part[fact] == rows[fact]

    def test_the_test_part_of_a_model_that_learned_all_rows_is_refused(self, run, refuse, table, tmp_path):
        model = tmp_path / "all.json"
        words = ("train", table, "--target", "bought", "--eps", "0.01", "--trees", "3", "--part", "all", "--out", model)
        assert run(*words)[0] == 0
        code, _, err = self.certify(run, model, table, "--part", "test")
        assert code == 2
        assert "trained on all rows" in err
        assert "--part train" in refuse(*words, "--held-out", tmp_path / "x.csv", "--force")

    def test_a_model_that_does_not_tell_its_rows_is_warned_of(self, run, table, tmp_path):
        stumps((0, 0.5), n_features=4, classes=["no", "yes"]).save(tmp_path / "other.json")
        code, _, err = self.certify(run, tmp_path / "other.json", table, "--part", "test")
        assert code == 0
        assert "does not say which rows it was trained on" in err

    def test_the_record_survives_and_is_checked(self, refuse, trained, table):
        assert dict(TreeEnsemble.load(trained[0]).training)["n_rows"] == 200
        document = json.loads(trained[0].read_text())
        for wrong in ([], {"part": []}, {"part": "train"}):
            trained[0].write_text(json.dumps({**document, "training": wrong}))
            assert "training" in refuse("certify", trained[0], table, "--target", "bought", "--eps", "0.01")


def test_libsvm_columns_shifted_by_one_between_training_and_certifying(run, refuse, tmp_path):
    random = np.random.default_rng(0)
    X = random.integers(1, 9, (100, 4))
    train, rows, model = tmp_path / "train.svm", tmp_path / "rows.svm", tmp_path / "m.json"

    def lines(X, columns):
        return "".join(
            f"{int(row[1] > 4)} " + " ".join(f"{i}:{row[i]}" for i in columns if i < len(row)) + "\n" for row in X
        )

    train.write_text(lines(X, range(4)))  # numbered from 0
    assert run("train", train, "--eps", "0.1", "--trees", "3", "--part", "all", "--out", model)[0] == 0
    rows.write_text(lines(X, range(1, 4)))  # no row has column 0, so it was taken to be numbered from 1
    code, out, _ = run("certify", model, rows, "--eps", "0.1", "--json")
    assert code == 0
    assert json.loads(out)["accuracy"] == 1.0
    assert "--first-index" in refuse("certify", model, rows, "--eps", "0.1", "--first-index", "1")
    TreeEnsemble.load(model).with_columns().save(model)  # as a model from elsewhere: it does not tell the base
    assert "--first-index" in refuse("certify", model, rows, "--eps", "0.1")
    assert run("certify", model, rows, "--eps", "0.1", "--first-index", "0")[0] == 0


@pytest.mark.parametrize("norm", ["-1", "-inf", "_1", "-2"])
def test_a_negative_norm_meant_its_opposite(refuse, question, norm):
    assert "norm" in refuse(*question, f"--norm={norm}")
    assert "norm" in refuse("spread", question[1], "--norm", norm)


class TestMarkup:
    """Names with rich markup left a traceback, and brackets of paths vanished."""

    def test_names_and_paths_are_shown_as_they_are(self, run, tmp_path):
        folder = tmp_path / "[bold]x[" / "[b]"
        folder.mkdir(parents=True)
        model = folder / "m[red].json"
        stumps((0, 0.3), (0, 0.31), **MAIL, feature_names=["[/b]", "[link=x]"]).save(model)
        code, out, _ = run("spread", model, "--eps", "0.1")
        assert code == 0
        assert "[/b]" in out
        assert "[bold]x[/[b]/m[red].json" in out
        rows = folder / "[i].csv"
        rows.write_text("[/b],[link=x],y\n0.1,0.2,ham\n")
        code, out, _ = run("certify", model, rows, "--target", "y", "--eps", "0.1", "--out", folder / "[o].csv")
        assert code == 0
        assert "[bold]x[/[b]/[o].csv" in out
        assert "[i].csv" in out

    def test_control_characters_are_not_sent_to_the_terminal(self, run, tmp_path):
        stumps((0, 0.3), (0, 0.31), **MAIL, feature_names=["\x1b[31mred\x07", "b\r\x00"]).save(tmp_path / "m.json")
        code, out, err = run("spread", tmp_path / "m.json", "--eps", "0.1")
        assert code == 0
        assert r"\x1b[31mred\x07" in out
        assert not set("\x1b\x07\r\x00") & set(out + err)


class TestLargestFloats:
    """A report with thresholds near 1.7e308 left a traceback, and one with eps 1e308 an unhelpful sentence."""

    @pytest.mark.parametrize("suffix", [".html", ".json", ".txt"])
    @pytest.mark.parametrize("norm", ["inf", "1", "0"])
    def test_thresholds(self, run, tmp_path, suffix, norm):
        model, rows = tmp_path / "m.json", tmp_path / "rows.csv"
        stumps((0, -LARGEST), (0, -1.7e308), (0, 1.7e308), (0, 1e-320), **MAIL).save(model)
        rows.write_text("-1.7e308,1,ham\n1.7e308,-1.7e308,spam\n0,0,ham\n")
        out = tmp_path / f"report{suffix}"
        words = ("report", model, rows, "--target", "-1", "--norm", norm, "--eps", "1", "--out", out)
        code, _, err = run(*words)
        assert code == 0, err
        assert err == ""
        text = out.read_text()
        assert "nan" not in text.lower().replace("ordinance", "").split("base64")[0]

    @pytest.mark.parametrize("eps", ["1e308", "1.7e308", "5e-324", "1e-300"])
    def test_budgets(self, run, question, tmp_path, eps):
        out = tmp_path / "report.html"
        code, _, err = run("report", *question[1:-1], eps, "--out", out)
        assert code == 0, err
        assert out.exists()
        assert ("exceeds half the range" in err) == (float(eps) > 1)

    def test_a_double_that_is_no_number(self, refuse, model):
        assert "--eps up to 8.99e+307" in refuse("spread", model, "--eps", "1e308")


class TestNumbers:
    @pytest.mark.parametrize(
        "words",
        [
            ("--param", "max_features=0"),
            ("--param", f"max_depth=1{'0' * 400}"),
            ("--param", f"n_estimators={'[' * 5000}"),
            ("--param", f"max_depth=1{'0' * 5000}"),
            ("--param", "callback=1"),
            ("--param", "random_state=-1"),
            ("--param", "frozen=0.5"),
            ("--param", "frozen=[9]"),
            ("--param", "eps=null"),
            ("--param", "norm=[]"),
            ("--param", "n_jobs=0"),
            ("--param", "n_jobs=many"),
            ("--trees", f"1{'0' * 400}"),
            ("--trees", "-1"),
            ("--depth", "0"),
            ("--seed", f"1{'0' * 400}"),
            ("--seed", "-1"),
            ("--jobs", "0"),
            ("--jobs", f"1{'0' * 400}"),
            ("--eps", "1e400"),
            ("--eps", "nan"),
            ("--eps", "-1"),
            ("--target", f"1{'0' * 400}"),
            ("--drop", f"1{'0' * 400}"),
            ("--frozen", f"1{'0' * 400}"),
            ("--frozen", "²"),
            ("--norm", f"1{'0' * 400}"),
            ("--first-index", "7"),
            ("--format", "xlsx"),
        ],
        ids=lambda words: " ".join(words)[:30],
    )
    def test_parameters_that_mean_nothing_left_a_traceback(self, refuse, table, tmp_path, words):
        rest = ("--target", "bought", "--eps", "0.01", "--out", tmp_path / "m.json", "--trees", "2", *words)
        start = time.perf_counter()
        refuse("train", table, *rest)
        assert time.perf_counter() - start < 20
        assert not (tmp_path / "m.json").exists()

    @pytest.mark.parametrize(
        "words",
        [
            ("--time-limit", "nan"),
            ("--time-limit", "-1"),
            ("--jobs", "0"),
            ("--jobs", f"1{'0' * 400}"),
            ("--require", "nan"),
            ("--eps", "1e400"),
            ("--domain", "nan", "1"),
            ("--domain", "2", "1"),
            ("--norm", f"1{'0' * 30}"),
            ("--norm", "1e400"),
            ("--part", ""),
            ("--target", ""),
        ],
        ids=lambda words: " ".join(words)[:30],
    )
    def test_limits_that_mean_nothing(self, refuse, question, words):
        refuse(*question, *words)


def test_twenty_thousand_threads_were_called_a_defect(refuse, question):
    assert "number of threads" in refuse(*question, "--jobs", 20000)


class TestOutputs:
    def test_a_report_that_ends_in_pdf_was_html(self, refuse, question, tmp_path):
        assert ".html" in refuse(*question, "--report", tmp_path / "report.pdf")
        assert ".html" in refuse("demo", "--out", tmp_path / "report.pdf")

    def test_two_outputs_of_one_path_lost_the_rows(self, refuse, question, tmp_path):
        same = tmp_path / "x.html"
        (tmp_path / "link.html").symlink_to(same)
        for other in (same, tmp_path / "." / "x.html", tmp_path / "link.html"):
            assert "a file of its own" in refuse(*question, "--out", same, "--report", other, "--force")
        assert not same.exists()

    def test_an_output_that_is_an_input(self, refuse, question, model, data):
        before = model.read_bytes(), data.read_bytes()
        for path in (model, data):
            assert "a file of its own" in refuse(*question, "--out", path, "--force")
        assert "a file of its own" in refuse("convert", model, "--out", model, "--force")
        assert (model.read_bytes(), data.read_bytes()) == before

    def test_an_output_that_is_an_input_by_another_name(self, refuse, question, model, data, tmp_path):
        linked, attacker = tmp_path / "linked.csv", tmp_path / "attacker.json"
        linked.hardlink_to(data)
        Attacker(eps=0.1).save(attacker)
        words = ("certify", model, tmp_path / "r*.csv", *question[3:5], "--attacker", attacker)
        for option, path in [("--out", linked), ("--proof", data), ("--proof", attacker), ("--out", attacker)]:
            assert "a file of its own" in refuse(*words, option, path, "--force")

    @pytest.mark.skipif(os.name != "posix", reason="needs pipes and devices")
    def test_force_replaced_pipes_devices_and_links(self, run, refuse, question, tmp_path):
        pipe, link, target = tmp_path / "pipe", tmp_path / "link.csv", tmp_path / "target.csv"
        os.mkfifo(pipe)
        assert "pipe" in refuse(*question, "--out", pipe, "--force")
        assert "device" in refuse(*question, "--out", "/dev/null", "--force")
        target.write_text("old")
        link.symlink_to(target)
        assert "exists" in refuse(*question, "--out", link)
        assert run(*question, "--out", link, "--force")[0] == 0
        assert link.is_symlink()
        assert target.read_text().startswith("row,")
        (tmp_path / "loop").symlink_to(tmp_path / "loop")
        assert "circle" in refuse(*question, "--out", tmp_path / "loop", "--force")
        to_pipe = tmp_path / "to_pipe"
        to_pipe.symlink_to(pipe)
        assert "pipe" in refuse(*question, "--out", to_pipe, "--force")

    def test_two_commands_at_once_both_said_done(self, question, tmp_path):
        out = tmp_path / "found.csv"
        words = [*COMMAND, *map(str, question), "--out", str(out)]

        def start(eps):
            return subprocess.run([*words, "--eps", eps], capture_output=True, text=True)

        with ThreadPoolExecutor(2) as pool:
            ends = list(pool.map(start, ["0.1", "0.2"]))
        assert sorted(end.returncode for end in ends) == [0, 2]
        (refused,) = [end.stderr for end in ends if end.returncode == 2]
        assert refused.startswith("certiforest: error: ")
        assert refused.count("\n") == 1
        assert "found.csv" in refused

    def test_a_name_of_249_characters_failed_after_all_work(self, run, refuse, question, tmp_path):
        out = tmp_path / ("x" * 245 + ".csv")
        assert run(*question, "--out", out)[0] == 0
        assert out.exists()
        assert "name" in refuse(*question, "--out", tmp_path / ("x" * 300 + ".csv"))
        assert "null byte" in refuse(*question, "--out", "a\0b")
        assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith(".")) == []

    def test_a_full_disk(self, question, tmp_path):
        out = tmp_path / "found.csv"
        code = (
            "import resource, signal, sys; from certiforest.cli import main; words = sys.argv[1:]; main(words[:-2]);"
            "signal.signal(signal.SIGXFSZ, signal.SIG_IGN); resource.setrlimit(resource.RLIMIT_FSIZE, (50, 50));"
            "sys.exit(main([*words, '--json']))"
        )
        words = [sys.executable, "-c", code, *map(str, question), "--out", str(out)]
        end = subprocess.run(words, capture_output=True, text=True)
        assert end.returncode == 2
        assert end.stderr.count("\n") == 1
        assert "found.csv" in end.stderr
        assert "too large" in end.stderr
        assert not out.exists()
        assert not list(tmp_path.glob(".*"))


class TestStreams:
    @pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
    def test_standard_output_that_is_full(self):
        with open("/dev/full", "w") as full:
            end = subprocess.run([*COMMAND, "datasets"], stdout=full, stderr=subprocess.PIPE, text=True)
        assert end.returncode == 2
        assert end.stderr.count("\n") == 1
        assert "standard output, got: No space left" in end.stderr

    @pytest.mark.parametrize("closed", ["2>&-", ">&-", "<&-", ">&- 2>&-"])
    def test_closed_streams_left_a_traceback(self, closed, question, tmp_path):
        out = tmp_path / "found.csv"
        words = " ".join(f"'{word}'" for word in [*COMMAND, *question, "--out", out])
        end = subprocess.run(f"{words} {closed}", shell=True, capture_output=True, text=True)
        assert end.returncode == 0, end.stderr
        assert len(list(csv.DictReader(out.open()))) == 4
        end = subprocess.run(f"{words} {closed}", shell=True, capture_output=True, text=True)
        assert end.returncode == 2

    def test_a_reader_that_leaves(self):
        words = " ".join(f"'{word}'" for word in [*COMMAND, "datasets"])
        end = subprocess.run(f"({words}; echo $? >&2) | true", shell=True, capture_output=True, text=True)
        assert "Traceback" not in end.stderr
        assert "Exception ignored" not in end.stderr
        assert end.stderr.splitlines()[-1] in ("0", "2")

    def test_names_that_the_terminal_cannot_show(self, model, tmp_path):
        stumps((0, 0.3), (0, 0.31), **MAIL, feature_names=["größe…", "b"]).save(model)
        env = {**os.environ, "PYTHONIOENCODING": "ascii", "LC_ALL": "C"}
        end = subprocess.run([*COMMAND, "spread", model, "--eps", "1"], capture_output=True, text=True, env=env)
        assert end.returncode == 0, end.stderr
        assert r"gr\xf6\xdfe" in end.stdout

    def test_a_path_that_is_no_utf_8(self, question, tmp_path):
        out = os.fsencode(tmp_path) + b"/\xff.csv"
        words = [*(os.fsencode(str(word)) for word in [*COMMAND, *question, "--out"]), out]
        end = subprocess.run(words, capture_output=True, text=True)
        assert end.returncode == 0, end.stderr
        assert os.path.exists(out)


def test_an_empty_memory_error_printed_nothing(run, question, monkeypatch):
    def fail(*_, **__):
        raise MemoryError

    monkeypatch.setattr("certiforest.certifier.Certifier.certify", fail)
    code, _, err = run(*question)
    assert code == 2
    assert "fits into memory" in err


@pytest.mark.parametrize("error", [ValueError("odd"), KeyError("x"), AssertionError(), ZeroDivisionError("\n[/b]")])
def test_defects_looked_like_bad_input_or_a_share_below_require(run, question, monkeypatch, error):
    def fail(*_, **__):
        raise error

    monkeypatch.delenv("CERTIFOREST_TRACEBACK", raising=False)
    monkeypatch.setattr("certiforest.certifier.Certifier.certify", fail)
    code, out, err = run(*question)
    assert (code, out) == (70, "")
    assert err.count("\n") == 1
    assert "report it" in err
    assert type(error).__name__ in err
    monkeypatch.setenv("CERTIFOREST_TRACEBACK", "1")
    with pytest.raises(type(error)):
        main([str(word) for word in question])


@pytest.mark.parametrize("suffix", [".joblib", ".pkl", ".pickle"])
def test_a_pickle_was_called_cut_short(refuse, question, tmp_path, suffix):
    path = tmp_path / f"model{suffix}"
    path.write_bytes(b"\x80\x04junk")
    message = refuse("certify", path, *question[2:])
    assert "a pickle" in message
    assert "as_ensemble" in message


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes")
def test_a_model_that_is_a_pipe_was_waited_for_without_end(refuse, question, tmp_path):
    os.mkfifo(tmp_path / "pipe.json")
    assert "got the pipe" in refuse("certify", tmp_path / "pipe.json", *question[2:])
    os.mkfifo(tmp_path / "pipe.csv")
    assert "got the pipe" in refuse("certify", question[1], tmp_path / "pipe.csv", "--eps", "1")


def test_ctrl_c_during_import_left_a_traceback():
    for seconds in (0.02, 0.05, 0.1, 0.2, 0.4):
        process = subprocess.Popen([*COMMAND, "datasets"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        time.sleep(seconds)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate()
        # Before the command line is there, Python itself answers; that takes a few hundredths of a second.
        assert f"{os.sep}certiforest{os.sep}cli" not in err, (seconds, err)


def test_convert_writes_any_model_as_our_file(run, refuse, model, tmp_path):
    from sklearn.ensemble import GradientBoostingClassifier

    from certiforest import as_ensemble, save_silva

    save_silva(TreeEnsemble.load(model), tmp_path / "m.silva")
    out = tmp_path / "converted.json"
    code, text, _ = run("convert", tmp_path / "m.silva", "--out", out)
    assert code == 0
    assert str(out) in text.replace("\n", "")
    assert TreeEnsemble.load(out).n_trees == 3
    assert "--force" in refuse("convert", tmp_path / "m.silva", "--out", out)
    X = np.random.default_rng(0).random((50, 3))
    boosted = as_ensemble(GradientBoostingClassifier(n_estimators=2).fit(X, X[:, 0] > 0.5))
    boosted.with_columns(scaling=Scaling([0] * 3, [1] * 3)).save(tmp_path / "b.json")
    assert (
        json.loads(run("convert", tmp_path / "b.json", "--out", out, "--force", "--json")[1])["model"]["n_trees"] == 2
    )
    assert TreeEnsemble.load(out) == TreeEnsemble.load(tmp_path / "b.json")


def test_witnesses_with_fractions_seemed_to_exist_in_the_world(run, tmp_path):
    model, rows = tmp_path / "m.json", tmp_path / "rows.csv"
    stumps((0, 3.5), **MAIL).save(model)
    rows.write_text("3,1,ham\n4,2,spam\n")
    for name in ("report.json", "report.html", "report.txt"):
        words = ("report", model, rows, "--target", "-1", "--eps", "0.6", "--out", tmp_path / name)
        assert run(*words)[0] == 0
    findings = json.loads((tmp_path / "report.json").read_text())
    assert findings["attacked_features"]["n_with_fractions"] == 2
    page = (tmp_path / "report.html").read_text()
    assert "2 of 2 witnesses hold a fraction" in page
    assert "is not examined" in page
    assert "is not examined" in (tmp_path / "report.txt").read_text()

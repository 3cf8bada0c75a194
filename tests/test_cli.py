"""The command line: exit codes, what is printed and written where, and commands that take no rows."""

import csv
import json
import logging
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from certiforest import Attacker, Certifier, Scaling, TreeEnsemble, as_ensemble, certify, save_silva
from certiforest.cli import console, main
from certiforest.problem import verifier
from small_models import VOTERS, stumps

COMMAND = [sys.executable, "-c", "import sys; from certiforest.cli import main; sys.exit(main())"]
MAIL = {"n_features": 2, "classes": ["ham", "spam"]}
LARGEST = float(np.finfo(float).max)


def run_apart(*words, **options):
    """Run a command in a process of its own."""
    return subprocess.run([*COMMAND, *map(str, words)], text=True, stderr=subprocess.PIPE, **options)


def test_no_command_shows_the_help(run):
    code, out, err = run()
    assert (code, err) == (0, "")
    assert "certiforest demo" in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("certify", "MODEL"),
        ("certfy", "No such command"),
        ("certify a b", "--eps"),
        ("certify a b --eps much", "valid"),
        ("datasets mnits", "mnist26"),
        ("demo --out report.pdf", ".html"),
    ],
)
def test_usage(refuse, words, message):
    assert message in refuse(*words.split())


class TestSpread:
    def test_what_is_too_close(self, run, mail):
        code, out, _ = run("spread", mail.model, "--eps", "0.2", "--json")
        summary = json.loads(out)
        assert code == 0
        assert summary["spread"] == pytest.approx(0.3)
        assert summary["has_large_spread"] is False
        assert summary["overlapping_features"] == ["length"]
        assert "eps up to" in run("spread", mail.model)[1]

    def test_trees_that_share_nothing(self, run, tmp_path):
        path = tmp_path / "stump.json"
        stumps((0, 0.5)).save(path)
        assert json.loads(run("spread", path, "--json")[1])["spread"] is None
        assert "any eps" in run("spread", path)[1]

    def test_a_double_that_is_no_number(self, refuse, mail):
        assert "--eps up to 8.99e+307" in refuse("spread", mail.model, "--eps", "1e308")

    @pytest.mark.parametrize("norm", ["-1", "-inf", "_1", "-2"])
    def test_a_negative_norm_meant_its_opposite(self, refuse, mail, norm):
        assert "norm" in refuse("spread", mail.model, "--norm", norm)


def test_demo_ends_in_a_table(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, _ = run("demo")
    assert code == 0
    assert "Robust" in out
    for norm in ("Linf", "L2", "L1"):
        assert norm in out


def test_datasets(run):
    code, out, _ = run("datasets")
    assert code == 0
    assert "breast_cancer" in out
    assert json.loads(run("datasets", "mnist26", "--json")[1])["licence"] == "CC BY-SA 3.0"
    assert "stratified, seed 7" in run("datasets", "digits")[1]


def test_convert_writes_any_model_as_our_file(run, refuse, tmp_path):
    from sklearn.ensemble import GradientBoostingClassifier

    silva, out = tmp_path / "m.silva", tmp_path / "converted.json"
    save_silva(VOTERS, silva)
    code, text, _ = run("convert", silva, "--out", out)
    assert code == 0
    assert str(out) in text.replace("\n", "")
    assert TreeEnsemble.load(out).n_trees == 3
    assert "--force" in refuse("convert", silva, "--out", out)
    X = np.random.default_rng(0).random((50, 3))
    boosted = as_ensemble(GradientBoostingClassifier(n_estimators=2).fit(X, X[:, 0] > 0.5))
    boosted.with_columns(scaling=Scaling([0] * 3, [1] * 3)).save(tmp_path / "b.json")
    said = json.loads(run("convert", tmp_path / "b.json", "--out", out, "--force", "--json")[1])
    assert said["model"]["n_trees"] == 2
    assert TreeEnsemble.load(out) == TreeEnsemble.load(tmp_path / "b.json")


class TestReport:
    @pytest.mark.parametrize("suffix", [".html", ".json", ".txt"])
    def test_kinds(self, run, refuse, mail, tmp_path, suffix):
        out, question = tmp_path / f"report{suffix}", ("report", *mail.question[1:])
        code, text, _ = run(*question, "--out", out)
        assert (code, text) == (0, f"Report: {out}\n")
        assert "length" in out.read_text()
        assert "--force" in refuse(*question, "--out", out)
        assert ".html or .json or .txt" in refuse(*question, "--out", tmp_path / "report.pdf")
        assert ".html" in refuse(*mail.question, "--report", tmp_path / "report.pdf")
        assert json.loads(run(*question, "--json")[1])["verdicts"]["FRAGILE"] == 1

    def test_witnesses_with_fractions_seemed_to_exist_in_the_world(self, run, tmp_path):
        model, rows = tmp_path / "m.json", tmp_path / "rows.csv"
        stumps((0, 3.5), **MAIL).save(model)
        rows.write_text("3,1,ham\n4,2,spam\n")
        text = {}
        for suffix in ("json", "html", "txt"):
            out = tmp_path / f"report.{suffix}"
            assert run("report", model, rows, "--target", "-1", "--eps", "0.6", "--out", out)[0] == 0
            text[suffix] = out.read_text()
        assert json.loads(text["json"])["attacked_features"]["n_with_fractions"] == 2
        assert "2 of 2 witnesses hold a fraction" in text["html"]
        assert "is not examined" in text["html"]
        assert "is not examined" in text["txt"]

    @pytest.mark.parametrize("suffix", [".html", ".json", ".txt"])
    @pytest.mark.parametrize("norm", ["inf", "1", "0"])
    def test_thresholds_near_the_largest_float_left_a_traceback(self, run, tmp_path, suffix, norm):
        model, rows = tmp_path / "m.json", tmp_path / "rows.csv"
        stumps((0, -LARGEST), (0, -1.7e308), (0, 1.7e308), (0, 1e-320), **MAIL).save(model)
        rows.write_text("-1.7e308,1,ham\n1.7e308,-1.7e308,spam\n0,0,ham\n")
        out = tmp_path / f"report{suffix}"
        code, _, err = run("report", model, rows, "--target", "-1", "--norm", norm, "--eps", "1", "--out", out)
        assert (code, err) == (0, "")
        assert "nan" not in out.read_text().lower().replace("ordinance", "").split("base64")[0]

    @pytest.mark.parametrize("eps", ["1e308", "1.7e308", "5e-324", "1e-300"])
    def test_extreme_budgets(self, run, mail, tmp_path, eps):
        out = tmp_path / "report.html"
        code, _, err = run("report", *mail.question[1:-1], eps, "--out", out)
        assert code == 0, err
        assert out.exists()
        assert ("exceeds half the range" in err) == (float(eps) > 1)


class TestOutputs:
    def test_two_outputs_of_one_path_lost_the_rows(self, refuse, mail, tmp_path):
        same = tmp_path / "x.html"
        (tmp_path / "link.html").symlink_to(same)
        for other in (same, tmp_path / "." / "x.html", tmp_path / "link.html"):
            assert "a file of its own" in refuse(*mail.question, "--out", same, "--report", other, "--force")
        assert not same.exists()

    def test_an_output_that_is_an_input(self, refuse, mail, tmp_path):
        before = mail.model.read_bytes(), mail.rows.read_bytes()
        for path in (mail.model, mail.rows):
            assert "a file of its own" in refuse(*mail.question, "--out", path, "--force")
        assert "a file of its own" in refuse("convert", mail.model, "--out", mail.model, "--force")
        assert (mail.model.read_bytes(), mail.rows.read_bytes()) == before
        linked, attacker = tmp_path / "linked.csv", tmp_path / "attacker.json"  # other names of inputs
        linked.hardlink_to(mail.rows)
        Attacker(eps=0.1).save(attacker)
        words = ("certify", mail.model, tmp_path / "r*.csv", "--target", "label", "--attacker", attacker)
        for option, path in [("--out", linked), ("--proof", mail.rows), ("--proof", attacker), ("--out", attacker)]:
            assert "a file of its own" in refuse(*words, option, path, "--force")

    @pytest.mark.skipif(os.name != "posix", reason="needs pipes and devices")
    def test_force_replaced_pipes_devices_and_links(self, run, refuse, mail, tmp_path):
        pipe, link, target = tmp_path / "pipe", tmp_path / "link.csv", tmp_path / "target.csv"
        os.mkfifo(pipe)
        target.write_text("old")
        link.symlink_to(target)
        assert "exists" in refuse(*mail.question, "--out", link)
        assert run(*mail.question, "--out", link, "--force")[0] == 0
        assert link.is_symlink()
        assert target.read_text().startswith("row,")
        (tmp_path / "loop").symlink_to(tmp_path / "loop")
        (tmp_path / "to_pipe").symlink_to(pipe)
        for out, what in [(pipe, "pipe"), ("/dev/null", "device"), ("loop", "circle"), ("to_pipe", "pipe")]:
            assert what in refuse(*mail.question, "--out", tmp_path / out, "--force")

    def test_two_commands_at_once_both_said_done(self, mail, tmp_path):
        words = ("certify", mail.model, mail.rows, "--out", tmp_path / "found.csv", "--target", "label", "--eps")
        with ThreadPoolExecutor(2) as pool:
            ends = list(pool.map(lambda eps: run_apart(*words, eps, stdout=subprocess.DEVNULL), ["0.1", "0.2"]))
        assert sorted(end.returncode for end in ends) == [0, 2]
        (refused,) = [end.stderr for end in ends if end.returncode == 2]
        assert refused.startswith("certiforest: error: ")
        assert refused.count("\n") == 1
        assert "found.csv" in refused

    def test_a_name_of_249_characters_failed_after_all_work(self, run, refuse, mail, tmp_path):
        out = tmp_path / ("x" * 245 + ".csv")
        assert run(*mail.question, "--out", out)[0] == 0
        assert out.exists()
        assert "name" in refuse(*mail.question, "--out", tmp_path / ("x" * 300 + ".csv"))
        assert "null byte" in refuse(*mail.question, "--out", "a\0b")
        assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith(".")) == []

    def test_a_full_disk(self, mail, tmp_path):
        out = tmp_path / "found.csv"
        code = (
            "import resource, signal, sys; from certiforest.cli import main; words = sys.argv[1:]; main(words[:-2]);"
            "signal.signal(signal.SIGXFSZ, signal.SIG_IGN); resource.setrlimit(resource.RLIMIT_FSIZE, (50, 50));"
            "sys.exit(main([*words, '--json']))"
        )
        words = [sys.executable, "-c", code, *map(str, mail.question), "--out", str(out)]
        end = subprocess.run(words, capture_output=True, text=True)
        assert end.returncode == 2
        assert end.stderr.count("\n") == 1
        assert "found.csv" in end.stderr
        assert "too large" in end.stderr
        assert not out.exists()
        assert not list(tmp_path.glob(".*"))

    def test_a_path_that_is_no_utf_8(self, mail, tmp_path):
        out = os.fsencode(tmp_path) + b"/\xff.csv"
        words = [*(os.fsencode(str(word)) for word in [*COMMAND, *mail.question, "--out"]), out]
        end = subprocess.run(words, capture_output=True, text=True)
        assert end.returncode == 0, end.stderr
        assert os.path.exists(out)

    def test_interruption_leaves_nothing(self, run, mail, tmp_path, monkeypatch):
        def interrupt(*_, **__):
            raise KeyboardInterrupt

        monkeypatch.setattr(Certifier, "certify", interrupt)
        before = sorted(tmp_path.iterdir())
        code, _, err = run(*mail.question, "--out", tmp_path / "found.csv")
        assert code == 130
        assert err.count("\n") == 1
        assert sorted(tmp_path.iterdir()) == before


class TestWhatIsPrinted:
    def test_markup_in_names_and_paths_left_a_traceback(self, run, tmp_path):
        folder = tmp_path / "[bold]x[" / "[b]"
        folder.mkdir(parents=True)
        model, rows = folder / "m[red].json", folder / "[i].csv"
        stumps((0, 0.3), (0, 0.31), **MAIL, feature_names=["[/b]", "[link=x]"]).save(model)
        code, out, _ = run("spread", model, "--eps", "0.1")
        assert code == 0
        assert "[/b]" in out
        assert "[bold]x[/[b]/m[red].json" in out
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

    def test_names_that_the_terminal_cannot_show(self, tmp_path):
        stumps((0, 0.3), (0, 0.31), **MAIL, feature_names=["größe…", "b"]).save(tmp_path / "m.json")
        env = {**os.environ, "PYTHONIOENCODING": "ascii", "LC_ALL": "C"}
        end = run_apart("spread", tmp_path / "m.json", "--eps", "1", stdout=subprocess.PIPE, env=env)
        assert end.returncode == 0, end.stderr
        assert r"gr\xf6\xdfe" in end.stdout

    @pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
    def test_standard_output_that_is_full(self):
        with open("/dev/full", "w") as full:
            end = run_apart("datasets", stdout=full)
        assert end.returncode == 2
        assert end.stderr.count("\n") == 1
        assert "standard output, got: No space left" in end.stderr

    @pytest.mark.parametrize("closed", ["2>&-", ">&-", "<&-", ">&- 2>&-"])
    def test_closed_streams_left_a_traceback(self, closed, mail, tmp_path):
        out = tmp_path / "found.csv"
        words = " ".join(f"'{word}'" for word in [*COMMAND, *mail.question, "--out", out])
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

    def test_a_terminal_is_told_once_what_is_waited_for(self, monkeypatch, capsys):
        logs = [logging.getLogger(f"certiforest.{name}") for name in ("kernel_cache", "problem.verifier")]
        for log in logs:
            monkeypatch.setattr(log, "level", log.level)
            monkeypatch.setattr(log, "disabled", False)  # import-linter, which another test runs, disables all loggers
        monkeypatch.setattr(console, "_is_terminal", lambda stream: True)
        monkeypatch.setattr(console, "_compiling", None)
        monkeypatch.setattr(verifier, "LARGE", 3)
        console.say_what_is_waited_for()
        for threshold in (1, 2):
            certify(stumps((0, threshold)), [[0]], None, Attacker(1, 1))
            logs[0].info("compiling a kernel")
        told = capsys.readouterr().err
        assert told.count("compiling") == told.count("preparing a large model") == 1
        n_compiled = console._compiling.n
        assert n_compiled >= 2
        assert console._Compiled().render(None).plain == f"{n_compiled} kernels compiled"
        console.say_what_was_waited_for()
        assert f"compiled {n_compiled} kernels" in capsys.readouterr().err


class TestDefects:
    @pytest.fixture
    def fail(self, monkeypatch):
        """Return what lets certifying end with an error."""

        def fail(error):
            def certify(*_, **__):
                raise error

            monkeypatch.delenv("CERTIFOREST_TRACEBACK", raising=False)
            monkeypatch.setattr(Certifier, "certify", certify)

        return fail

    def test_an_empty_memory_error_printed_nothing(self, run, mail, fail):
        fail(MemoryError)
        code, _, err = run(*mail.question)
        assert code == 2
        assert "fits into memory" in err

    @pytest.mark.parametrize("error", [ValueError("odd"), KeyError("x"), AssertionError(), ZeroDivisionError("\n[/b]")])
    def test_they_looked_like_bad_input_or_a_share_below_require(self, run, mail, fail, monkeypatch, error):
        fail(error)
        code, out, err = run(*mail.question)
        assert (code, out) == (70, "")
        assert err.count("\n") == 1
        assert "report it" in err
        assert type(error).__name__ in err
        monkeypatch.setenv("CERTIFOREST_TRACEBACK", "1")
        with pytest.raises(type(error)):
            main([str(word) for word in mail.question])


@pytest.mark.parametrize("words", [["--help"], ["certify", "model.json", "breast_cancer", "--eps", "0.01"]])
def test_commands_that_do_not_train_need_no_slow_library(tmp_path, words):
    stumps((0, 0.5), n_features=30).save(tmp_path / "model.json")
    code = f"import sys; from certiforest.cli import main; assert main({words!r}) == 0; "
    code += "print({'sklearn', 'pandas'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout.endswith("set()\n")


def test_ctrl_c_during_import_left_a_traceback():
    for seconds in (0.02, 0.05, 0.1, 0.2, 0.4):
        process = subprocess.Popen([*COMMAND, "datasets"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        time.sleep(seconds)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate()
        # Before the command line is there, Python itself answers; that takes a few hundredths of a second.
        assert f"{os.sep}certiforest{os.sep}cli" not in err, (seconds, err)

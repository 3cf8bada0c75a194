"""Streams: files larger than memory, runs that are stopped and go on, and the same bytes however it was done."""

import errno
import hashlib
import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pandas
import pytest
from sklearn.ensemble import RandomForestClassifier

from certiforest import Attacker, Certifier, as_ensemble, certify
from certiforest.cli import console
from certiforest.data import parts as parts_module
from certiforest.data.cells import TableError, as_labels
from certiforest.data.readers import csv_files, read_blocks, read_table
from certiforest.data.row_sample import RowSample, draw_lots
from certiforest.data.sources import Source
from certiforest.ensemble import blocks
from certiforest.files import FileError

pytest.importorskip("pyarrow")
NAMES = list("abcd")
N_ROWS = 50
PATIENT = ["--time-limit", "1000"]  # on a busy machine, a second for a row may pass without any work on it


@pytest.fixture(scope="module")
def learned():
    rng = np.random.default_rng(5)
    X = rng.random((N_ROWS, 4)).round(3)
    y = np.array(["ham", "spam", "1"])[(X[:, 0] > 0.5) + (X[:, 3] > 0.8) * 1]
    forest = RandomForestClassifier(n_estimators=7, max_depth=4, random_state=0).fit(X, y)
    return as_ensemble(forest).with_columns(NAMES), rng.random((N_ROWS, 4)).round(3), rng.permutation(y)


@pytest.fixture
def model(learned, tmp_path):
    learned[0].save(tmp_path / "model.json")
    return tmp_path / "model.json"


@pytest.fixture
def frame(learned):
    _, X, y = learned
    return pandas.DataFrame(X, columns=NAMES).assign(label=y)


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(blocks, "BLOCK_ROWS", 8)


@pytest.fixture
def expected(learned):
    ensemble, X, y = learned
    found = certify(ensemble, X, y, Attacker("linf", 0.05), radius=True, witness=True, time_limit=1000)
    return found.to_frame()


def write(frame, path, **options):
    if path.suffix == ".parquet":
        frame.to_parquet(path, index=False, **options)
    elif path.suffix == ".npz":
        np.savez(path, X=frame[NAMES].to_numpy(), y=frame["label"].to_numpy(str), feature_names=NAMES)
    else:
        frame.to_csv(path, index=False)
    return path


def words(model, data, *more):
    target = [] if str(data).endswith(".npz") else ["--target", "label"]
    return ["certify", model, data, *target, "--eps", "0.05", *PATIENT, *more]


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".npz"])
def test_a_table_is_its_blocks(frame, tmp_path, small_blocks, suffix):
    options = {"row_group_size": 3} if suffix == ".parquet" else {}
    path = write(frame, tmp_path / f"rows{suffix}", **options)
    target = None if suffix == ".npz" else "label"
    cut = [read(0) for read in read_blocks(path, target)]
    assert max(map(len, cut)) <= 8 + (suffix == ".csv")  # that may be names
    assert len(cut) > 4
    table = read_table(path, target)
    assert np.array_equal(table.X, frame[NAMES].to_numpy())
    assert table.y.tolist() == frame["label"].tolist()
    for wanted in ({3}, {0, 5}, {4, 5, 6}):  # others are passed over
        some = [read(0) if number in wanted else None for number, read in enumerate(read_blocks(path, target))]
        for number in wanted:
            assert np.array_equal(some[number].X, cut[number].X)


def test_quotes_and_line_ends_in_cells(tmp_path, small_blocks):
    lines = [f"{i},{i / 8},{'x' * (i % 3 + 1)}" for i in range(40)]
    lines[17] = '17,2.125,"x\nwith, a ""line"" end"'
    lines[30] = '30,"3.75",x'
    path = tmp_path / "rows.csv"
    path.write_text("a,b,label\n" + "\n".join(lines) + "\n")
    table = read_table(path, "label")
    assert table.X[:, 0].tolist() == list(range(40))
    assert table.X[:, 1].tolist() == [i / 8 for i in range(40)]
    assert table.y[17] == 'x\nwith, a "line" end'
    lines[35] = "35,?,x"
    path.write_text("a,b,label\n" + "\n".join(lines) + "\n")
    with pytest.raises(TableError, match="line 38, column 'b'"):  # one more for the header, one for the cell
        read_table(path, "label")
    path.write_text("\n".join(f"{i},{i}" for i in range(30)) + "\n30,x\n")
    with pytest.raises(TableError, match="line 31, column 1"):
        read_table(path)


def test_libsvm_in_blocks(tmp_path, small_blocks):
    path = tmp_path / "rows.svm"
    path.write_text("# a comment\n" * 20 + "".join(f"{i % 2} {i % 4}:{i + 1}\n" for i in range(30)))
    table = read_table(path, n_features=4)
    assert table.first_index == 0
    assert table.X.sum() == sum(range(1, 31))
    assert len(list(read_blocks(path, n_features=4))) >= 4
    path.write_text("".join(f"1 {1 + i % 3}:1\n" for i in range(30)))
    with pytest.raises(TableError, match="both as possible"):
        read_table(path, n_features=4)


def test_labels_of_a_block_are_those_of_the_model():
    classes = np.array(["0.5", "1.0", "x"])
    assert as_labels(["1", "0.5"], "f", 0, classes).tolist() == ["1.0", "0.5"]
    assert as_labels(np.array([1.0, 1.0]), "f", 0, classes).tolist() == ["1.0", "1.0"]
    assert as_labels(["1", "1"], "f", 0, np.array(["1", "x"])).tolist() == ["1", "1"]
    assert as_labels(["1", "1"], "f", 0, np.array([0, 1])).tolist() == [1, 1]


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".npz"])
@pytest.mark.parametrize("out", ["found.csv", "found.parquet", "found"])
def test_blocks_give_the_same_as_a_table(run, model, frame, expected, tmp_path, monkeypatch, suffix, out):
    data = write(frame, tmp_path / f"rows{suffix}")
    more = ["--radius", "--witness", "--out", tmp_path / out]
    assert run(*words(model, data, *more))[0] == 0
    whole = read(tmp_path / out)
    monkeypatch.setattr(blocks, "BLOCK_ROWS", 8)
    assert run(*words(model, data, *more[:-1], tmp_path / f"small_{out}"))[0] == 0
    small = read(tmp_path / f"small_{out}")
    pandas.testing.assert_frame_equal(small, whole)
    assert small["row"].tolist() == list(range(N_ROWS))
    for name in ("stable", "verdict", "method", "radius", "radius_upper", "radius_is_exact"):
        assert small[name].tolist() == expected[name].tolist()
    assert np.array_equal(small[[f"witness_{c}" for c in NAMES]], expected.iloc[:, -4:], equal_nan=True)
    if out == "found.csv":
        assert (tmp_path / out).read_bytes() == (tmp_path / f"small_{out}").read_bytes()
    assert not list(tmp_path.glob("*.parts"))


def read(path):
    if path.suffix == ".csv":
        return pandas.read_csv(path, float_precision="round_trip", dtype={"label": str, "prediction": str})
    return pandas.read_parquet(path if path.suffix else sorted(path.glob("part-*.parquet")))


@pytest.mark.parametrize("out", ["found.csv", "found"])
@pytest.mark.parametrize("n_written", [1, 3])
def test_a_stopped_run_goes_on_and_gives_the_same_bytes(
    run, model, frame, tmp_path, monkeypatch, small_blocks, out, n_written
):
    data = write(frame, tmp_path / "rows.parquet")
    arguments = words(model, data, "--radius", "--out")
    assert run(*arguments, tmp_path / f"whole_{out}")[0] == 0
    written, n_certified = [], []
    write_part, certified = parts_module.Parts.write, Certifier.certify

    def stopped(self, number, columns):
        if len(written) == n_written:
            raise MemoryError
        written.append(number)
        write_part(self, number, columns)

    monkeypatch.setattr(parts_module.Parts, "write", stopped)
    assert run(*arguments, tmp_path / out)[0] == 2
    monkeypatch.setattr(parts_module.Parts, "write", write_part)

    def counted(self, X, *rest, **options):
        n_certified.append(len(X))
        return certified(self, X, *rest, **options)

    monkeypatch.setattr(Certifier, "certify", counted)
    assert run(*arguments, tmp_path / out)[0] == 0
    assert sum(n_certified) == max(N_ROWS - 8 * n_written, 0)
    assert contents(tmp_path / out) == contents(tmp_path / f"whole_{out}")


def test_parts_of_a_run_with_proofs_and_report_have_radii_that_another_has_not(
    run, refuse, model, frame, tmp_path, monkeypatch, small_blocks
):
    """They were mixed in one file: lines with radii below lines without."""
    arguments = words(model, write(frame, tmp_path / "rows.csv"), "--out", tmp_path / "found.csv")
    with monkeypatch.context() as patch:
        Interrupting(patch, 20)
        assert run(*arguments, "--proof", tmp_path / "proof", "--report", tmp_path / "report.json")[0] == 130
    assert "another 'asked'" in refuse(*arguments)


def contents(path):
    return path.read_bytes() if path.is_file() else {part.name: part.read_bytes() for part in path.glob("part-*")}


def test_only_some_classes_are_attacked(run, learned, model, frame, tmp_path, small_blocks):
    ensemble, X, y = learned
    data, attacker = write(frame, tmp_path / "rows.parquet"), Attacker("linf", 0.05)
    expected = certify(ensemble, X, y, attacker, attacked=["spam"])
    more = ["--attacked", "spam", "--out", tmp_path / "found", "--report", tmp_path / "report.json", "--force"]
    for _ in range(2):  # the second time, from parts
        assert run(*words(model, data, *more))[0] == 0
        assert read(tmp_path / "found")["stable"].tolist() == expected.stable.tolist()
    assert "another 'attacked'" in run(*words(model, data, "--out", tmp_path / "found"))[2]


class Interrupting:
    """Raises Ctrl-C once so many rows were counted as done."""

    def __init__(self, monkeypatch, n_rows):
        count = console.Steps.__call__
        seen = [0]

        def counted(steps, n_steps):
            count(steps, n_steps)
            seen[0] += n_steps
            if seen[0] >= n_rows:
                seen[0] = -(10**9)
                raise KeyboardInterrupt

        monkeypatch.setattr(console.Steps, "__call__", counted)


@pytest.mark.parametrize("n_rows", [5, 30])
def test_ctrl_c_keeps_finished_blocks(run, model, frame, tmp_path, monkeypatch, small_blocks, n_rows):
    data, report = write(frame, tmp_path / "rows.csv"), tmp_path / "report.json"
    arguments = words(model, data, "--radius", "--out")
    assert run(*arguments, tmp_path / "whole.csv", "--report", tmp_path / "whole.json")[0] == 0
    with monkeypatch.context() as patch:
        Interrupting(patch, n_rows)
        code, _, err = run(*arguments, tmp_path / "found.csv", "--report", report)
    assert code == 130
    parts = tmp_path / "found.csv.parts"
    if n_rows > 8:
        more = f", with --force to replace {report}, "
        assert f"found.csv.parts: the same command{more}goes on from there" in " ".join(err.split())
    assert not (tmp_path / "found.csv").exists()
    assert len(list(parts.glob("part-*"))) == n_rows // 8
    assert parts.exists() == (n_rows > 8), "an empty directory is not left"
    partial = json.loads(report.read_text())
    assert "Partial: stopped by Ctrl-C when " in partial["data"]["remarks"][0]
    n_done = int(partial["data"]["remarks"][0].split("when ")[1].split()[0])
    assert n_rows - 1 <= n_done == sum(partial["verdicts"].values()) - partial["verdicts"]["UNKNOWN"]
    assert run(*arguments, tmp_path / "found.csv", "--report", report, "--force")[0] == 0
    assert (tmp_path / "found.csv").read_bytes() == (tmp_path / "whole.csv").read_bytes()
    again, whole = json.loads(report.read_text()), json.loads((tmp_path / "whole.json").read_text())
    for findings in (again, whole):
        del findings["origin"]
    assert again == whole


def test_verdicts_come_before_radii_and_every_block_is_read_once(
    run, model, frame, tmp_path, monkeypatch, small_blocks
):
    """One walk: the file is opened once; what a block needs is found before the next is read, also with a report."""
    data, done, reads, opened, digested = write(frame, tmp_path / "rows.csv"), [], [], [], []
    certified, read_rows, open_file = Certifier.certify, csv_files._read_block, csv_files.DigestedFile

    def counted(self, X, *rest, **options):
        done.append((len(X), self.radius, self.witness))
        return certified(self, X, *rest, **options)

    def read(*arguments, **options):
        reads.append(len(done))
        return read_rows(*arguments, **options)

    monkeypatch.setattr(Certifier, "certify", counted)
    monkeypatch.setattr(csv_files, "_read_block", read)
    monkeypatch.setattr(csv_files, "DigestedFile", lambda path: opened.append(path) or open_file(path))
    monkeypatch.setattr(hashlib, "file_digest", lambda file, _: digested.append(file.name) or hashlib.sha256())
    report = tmp_path / "report.json"
    more = ["--radius", "--witness", "--out", tmp_path / "found.csv", "--report", report]
    assert run(*words(model, data, *more))[0] == 0
    assert (opened, digested) == ([data], [str(model)])
    origin = json.loads(report.read_text())["origin"]
    assert origin["data_file_sha256"] == hashlib.sha256(data.read_bytes()).hexdigest()
    assert done == [(8, True, True)] * 6 + [(2, True, True)]
    assert reads == list(range(7))


def test_blocks_whose_parts_are_there_are_not_read_again(run, model, frame, tmp_path, monkeypatch, small_blocks):
    arguments = words(model, write(frame, tmp_path / "rows.csv"), "--out", tmp_path / "found")
    assert run(*arguments)[0] == 0
    reads, read_rows = [], csv_files._read_block
    monkeypatch.setattr(
        csv_files, "_read_block", lambda *rest, **options: reads.append(rest) or read_rows(*rest, **options)
    )
    assert run(*arguments)[0] == 0
    assert len(reads) == 1, "the first, which says what the attacker's columns are"


def test_many_files(run, refuse, model, frame, tmp_path, small_blocks):
    one = write(frame, tmp_path / "rows.parquet")
    for number, start in enumerate(range(0, N_ROWS, 20)):
        write(frame[start : start + 20], tmp_path / f"piece-{number}.parquet")
    assert run(*words(model, one, "--out", tmp_path / "one.csv"))[0] == 0
    assert run(*words(model, tmp_path / "piece-*.parquet", "--out", tmp_path / "many.csv"))[0] == 0
    assert (tmp_path / "one.csv").read_text() == (tmp_path / "many.csv").read_text()
    assert "none" in refuse(*words(model, tmp_path / "nothing-*.parquet"))
    assert "one file" in refuse(*words(model, tmp_path / "piece-*.parquet", "--part", "test"))


def test_a_file_among_many_that_is_not_as_the_others(refuse, run, model, frame, tmp_path, small_blocks):
    out = tmp_path / "found"
    for number in range(3):
        write(frame, tmp_path / f"piece-{number}.parquet")
    write(frame.drop(columns="b"), tmp_path / "piece-1.parquet")
    message = refuse(*words(model, tmp_path / "piece-*.parquet", "--out", out))
    assert "got no 'b' in" in message
    assert "piece-1.parquet" in message
    assert len(list(out.glob("part-*.parquet"))) == 7, "finished parts are kept"
    write(frame.assign(b="text"), tmp_path / "piece-1.parquet")
    assert "Expected numbers, got" in refuse(*words(model, tmp_path / "piece-*.parquet", "--out", out, "--force"))
    nothing = frame.assign(c=[*frame["c"][:-1], np.inf])
    write(nothing, tmp_path / "piece-1.parquet")
    message = refuse(*words(model, tmp_path / "piece-*.parquet", "--out", out, "--force"))
    assert "row 49, column 'c' of" in message
    assert "another 'input'" in refuse(*words(model, tmp_path / "piece-0.parquet", "--out", out))


def test_a_full_disk(run, refuse, model, frame, tmp_path, monkeypatch, small_blocks):
    data, out = write(frame, tmp_path / "rows.parquet"), tmp_path / "found"
    written, write_atomically = [], parts_module.write_atomically

    def full(path, content, **options):
        written.append(path)
        if len(written) > 4:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        write_atomically(path, content, **options)

    monkeypatch.setattr(parts_module, "write_atomically", full)
    message = refuse(*words(model, data, "--out", out))
    assert "No space left on device" in message
    assert "the same command goes on from there" in message
    monkeypatch.setattr(parts_module, "write_atomically", write_atomically)
    assert len(list(out.glob("part-*.parquet"))) == 3
    assert run(*words(model, data, "--out", out))[0] == 0
    assert len(list(out.glob("part-*.parquet"))) == 7


def test_parts_of_another_run(run, refuse, model, frame, tmp_path):
    data, out = write(frame, tmp_path / "rows.parquet"), tmp_path / "found"
    assert run(*words(model, data, "--out", out))[0] == 0
    before = contents(out)
    code, text, _ = run(*words(model, data, "--out", out, "--json"))  # nothing is left to do
    assert (code, json.loads(text)["data"]["n_rows"]) == (0, N_ROWS)
    assert contents(out) == before
    other = ["certify", model, data, "--target", "label", "--eps", "0.01", *PATIENT, "--out", out]
    assert "another 'attacker'" in refuse(*other)
    assert "another 'asked'" in refuse(*words(model, data, "--out", out, "--radius"))
    assert run(*other, "--force")[0] == 0
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear")
    assert "with other files" in refuse(*words(model, data, "--out", tmp_path / "mine"))
    assert (tmp_path / "mine" / "letter.txt").read_text() == "dear"


@pytest.mark.skipif(os.name != "posix", reason="needs locks")
@pytest.mark.parametrize("name", ["found.csv", "found"])
def test_two_runs_at_once_never_write_to_one_place(run, refuse, model, frame, tmp_path, name):
    data, out = write(frame, tmp_path / "rows.parquet"), tmp_path / name
    first = parts_module.Parts(out, {"eps": 1}, replace=False)
    first.write(0, {"stable": np.array([1])})
    for more in ([], ["--force"]):
        message = refuse(*words(model, data, "--out", out, *more))
        assert "another that is under way" in message
        assert "emove" not in message
    assert first.read(0)["stable"].tolist() == [1]
    first.close()
    assert "another 'asked'" in refuse(*words(model, data, "--out", out))
    assert run(*words(model, data, "--out", out, "--force"))[0] == 0
    assert read(out)["row"].tolist() == list(range(N_ROWS))


def test_a_part_that_came_from_another_run_is_refused(tmp_path):
    first, second = (parts_module.Parts(tmp_path / name, {"eps": name}, replace=False) for name in "ab")
    for parts in (first, second):
        parts.write(0, {"stable": np.array([1])})
    second._path(0).write_bytes(first._path(0).read_bytes())
    with pytest.raises(FileError, match="of another"):
        second.read(0)


def test_a_part_that_has_gone_is_missed(tmp_path):
    """A file was made of the others."""
    parts = parts_module.Parts(tmp_path / "found.csv", {}, replace=False)
    for number in range(3):
        parts.write(number, {"stable": np.array([1])})
    parts._path(1).unlink()
    with pytest.raises(FileError, match="got none any more"):
        parts.finish(3)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["found.csv.parts"]


def test_radii_of_some_rows(run, refuse, model, frame, tmp_path, monkeypatch):
    data, report = write(frame, tmp_path / "rows.parquet"), tmp_path / "report.json"
    arguments = words(model, data, "--json", "--force", "--report", report, "--radius-rows")
    summaries = []
    for size in (50, 8):
        monkeypatch.setattr(blocks, "BLOCK_ROWS", size)
        code, text, _ = run(*arguments, "10")
        assert code == 0
        summaries.append(json.loads(text))
    assert summaries[0]["median_radius"] == summaries[1]["median_radius"]
    low, high = summaries[0]["median_radius_interval"]
    assert low <= summaries[0]["median_radius"] <= high
    findings = json.loads(report.read_text())
    assert findings["data"]["n_rows"] == N_ROWS
    assert sum(findings["radius_histogram"]["exact"]) <= 10
    assert "10 of 50 rows drawn at random" in findings["data"]["remarks"][0]
    assert run(*arguments, "0")[0] == 0
    assert json.loads(report.read_text())["certified_curve"] is None
    assert run(*words(model, data, "--force", "--report", tmp_path / "report.html", "--radius-rows", "0"))[0] == 0
    assert "both" in refuse(*words(model, data, "--radius", "--radius-rows", "3"))


def test_radii_that_nobody_asked_for_are_left_out_where_they_take_long(
    run, model, frame, tmp_path, small_blocks, monkeypatch
):
    data, report = write(frame, tmp_path / "rows.parquet"), tmp_path / "report.json"
    slow = Certifier.measure

    def measure(self, X, found, **options):
        time.sleep(0.001 * len(X))
        return slow(self, X, found, **options)

    monkeypatch.setattr(Certifier, "measure", measure)
    monkeypatch.setattr(sys.modules["certiforest.cli.certify"], "REPORT_SECONDS", 0.02)
    monkeypatch.setattr(sys.modules["certiforest.data.streams"].StreamRun, "_verdict_seconds", property(lambda _: 0.0))
    assert run(*words(model, data, "--report", report))[0] == 0
    found = json.loads(report.read_text())
    told = sum(found["radius_histogram"]["exact"]) + sum(found["radius_histogram"]["at_least"])
    assert 0 < told < len(frame)
    assert found["data"]["rows_sha256"] is None
    drawn, advice = found["data"]["remarks"]
    n_drawn = int(drawn.split("are those of ")[1].split(" ")[0])
    assert told <= n_drawn < len(frame)
    assert "--radius finds all of them" in advice
    assert run(*words(model, data, "--force", "--report", report, "--radius"))[0] == 0
    asked = json.loads(report.read_text())
    assert asked["data"]["remarks"] == []
    assert asked["data"]["rows_sha256"] is not None


def test_a_sample_does_not_depend_on_blocks():
    lots = draw_lots(np.arange(1000), 7)
    assert len(np.unique(lots)) == 1000
    wanted = set(np.argsort(lots)[:25].tolist())
    for size in (1, 30, 1000):
        sample, kept = RowSample(25, 7), set()
        for start in range(0, 1000, size):
            rows = np.arange(start, min(start + size, 1000))
            mask = sample.wants(rows)
            kept = set(sorted(kept | set(rows[mask].tolist()), key=lambda row: lots[row])[:25])
            sample._lots = lots[sorted(kept)]
        assert kept == wanted
    assert 0.2 < sample.half_width < 0.3


def test_workers_give_the_same_bytes(run, refuse, model, frame, tmp_path, small_blocks):
    pytest.importorskip("distributed")
    data = write(frame, tmp_path / "rows.parquet")
    more = ["--radius", "--witness", "--out"]
    assert run(*words(model, data, *more, tmp_path / "here.csv"))[0] == 0
    code, _, err = run(*words(model, data, *more, tmp_path / "there.csv", "--workers", "2"))
    assert (code, err) == (0, "")
    assert (tmp_path / "here.csv").read_bytes() == (tmp_path / "there.csv").read_bytes()
    message = refuse(*words(model, data, "--scheduler", "tcp://127.0.0.1:9"))
    assert "Expected a scheduler of dask at tcp://127.0.0.1:9, got none" in message
    assert "both" in refuse(*words(model, data, "--scheduler", "tcp://127.0.0.1:9", "--workers", "2"))


@pytest.mark.skipif(os.name != "posix", reason="needs SIGKILL")
def test_a_killed_run_gives_the_same_bytes(run, model, frame, tmp_path):
    data = write(pandas.concat([frame] * 1000), tmp_path / "rows.parquet")
    assert run(*words(model, data, "--out", tmp_path / "whole"))[0] == 0
    code = "import sys; from certiforest.cli import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", code, *map(str, words(model, data, "--out", tmp_path / "found"))]
    for _ in range(3):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        n_before = len(list((tmp_path / "found").glob("part-*")))
        for _ in range(3000):
            if process.poll() is not None or len(list((tmp_path / "found").glob("part-*"))) > n_before:
                break
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        process.wait()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    assert contents(tmp_path / "found") == contents(tmp_path / "whole")


def test_a_line_a_minute_without_a_terminal(run, model, frame, tmp_path, monkeypatch, small_blocks):
    monkeypatch.setattr(console, "SECONDS_BETWEEN_LINES", 0)
    _, _, err = run(*words(model, write(frame, tmp_path / "rows.parquet")))
    assert "certiforest: Rows: 16 of 50, " in err


def test_the_time_left_is_that_of_recent_rows(monkeypatch):
    """Rows that were kept from before counted as found now: the time left rose from 11 to 30 minutes."""
    now, lines = [0.0], []
    monkeypatch.setattr(console.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(console, "complain", lines.append)
    with console.progress_bar("Verdicts", 1000) as advance:
        for seconds, n_rows in ((1, 490), (60, 10), (120, 10), (180, 20)):
            now[0] = seconds
            advance(n_rows)
    assert lines == ["Verdicts: 510 of 1,000, 49 min left", "Verdicts: 530 of 1,000, 24 min left"]


def test_a_stream_reads_one_block_at_a_time(learned, frame, tmp_path, small_blocks):
    source = Source(str(write(frame, tmp_path / "rows.csv")), "label")
    stream = source.stream(learned[0], None)
    sizes = [len(block.read(0, 0).X) for block in stream.blocks]
    assert sum(sizes) == N_ROWS
    assert max(sizes) <= 9

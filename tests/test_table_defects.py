"""Defects that trials of tables found; each test is named after what went wrong."""

import os
import time

import numpy as np
import pytest

from certiforest.data.readers import read_table
from certiforest.data.split import SplitError, TrainingRecord, digest
from certiforest.data.tables import Table, TableError


@pytest.fixture
def write(tmp_path):
    def write(content, name="rows.csv"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


@pytest.fixture
def refuse(write):
    """Read a table that must be refused in one sentence; return the sentence."""

    def refuse(content, name="rows.csv", target=None, **options):
        with pytest.raises(TableError) as caught:
            read_table(write(content, name), target, **options)
        assert "\n" not in str(caught.value)
        assert len(str(caught.value)) < 600
        return str(caught.value)

    return refuse


class TestLibsvm:
    def test_columns_shifted_by_one_where_no_row_has_index_0(self, write, refuse):
        zero_based = "1 1:5 3:7\n-1 2:6\n"  # column 0 is zero in all rows
        assert "first_index (--first-index)" in refuse(zero_based, "rows.svm", n_features=4)
        table = read_table(write(zero_based, "rows.svm"), n_features=4, first_index=0)
        np.testing.assert_array_equal(table.X, [[0, 5, 0, 7], [0, 0, 6, 0]])

    def test_the_base_is_known_where_only_one_is_possible(self, write):
        assert read_table(write("1 0:5\n", "rows.svm"), n_features=4).first_index == 0
        assert read_table(write("1 4:5\n", "rows.svm"), n_features=4).first_index == 1
        assert read_table(write("1 1:5 4:1\n", "rows.svm")).X.shape == (1, 4)
        assert read_table(write("1\n-1\n", "rows.svm"), n_features=4).X.tolist() == [[0] * 4] * 2

    def test_a_contradicted_base_is_refused(self, refuse):
        assert "numbered from 1, got column 0" in refuse("1 0:5\n", "rows.svm", first_index=1)
        assert "got column 4" in refuse("1 4:5\n", "rows.svm", n_features=4, first_index=0)
        assert "to be 0 or 1, got 2" in refuse("1 4:5\n", "rows.svm", first_index=2)

    def test_an_index_of_50_million_asked_for_95_gigabytes(self, refuse):
        lines = "1 50000000:1\n-1 1:1\n1 2:1\n-1 3:1\n"
        start = time.perf_counter()
        assert "nearly all cells zero" in refuse(lines, "rows.svm")
        assert "got column 50000000" in refuse(lines, "rows.svm", n_features=4)
        assert time.perf_counter() - start < 5

    def test_underscores_in_numbers_were_read_as_python_does(self, refuse):
        assert "underscore" in refuse("1 1_0:2\n", "rows.svm")
        assert "underscore" in refuse("1 1:2_0\n", "rows.svm")


class TestCsv:
    def test_lines_with_more_cells_than_the_header_were_read_by_their_first(self, refuse):
        message = refuse("a,b,y\n1,0.5,0.7,ham\n", target="y")
        assert "Expected 3 cells in every line, as in the header, got 4 in line 2" in message
        assert "row names" in message
        assert "got 3 in line 3" in refuse("a,b\n1,2\n1,5,2\n")
        assert "got 4 in line 2" in refuse('a,b,y\n"1",0.5,0.7,ham\n', target="y")

    def test_lines_shorter_than_the_header_with_target_left_a_traceback(self, refuse):
        assert "got 2 in line 3" in refuse("a,b,y\n1,2,ham\n1,2\n", target="y")

    def test_a_cell_of_more_than_131072_characters_left_a_traceback(self, refuse):
        long = "x" * 200_000
        assert "field larger" in refuse(f"a,y\n{long},1\n", target="y")
        assert "field larger than field limit" in refuse(f'"{long}",y\n1,1\n', target="y")
        assert "field larger" in refuse(f'a,y\n"{long}",1\n', target="y")

    def test_a_label_of_200000_characters(self, refuse):
        assert "up to 1000 characters, got one of 90000" in refuse(f"a,y\n1,{'x' * 90_000}\n", target="y")
        assert len(refuse(f"a,y\n1,{'x' * 200_000}\n", target="y")) < 400

    def test_numbers_of_400_digits(self, refuse):
        assert "finite" in refuse(f"a,y\n{'9' * 400},1\n", target="y")
        assert read_label(f"a,y\n1,{'9' * 400}\n2,1\n") == ["9" * 400, "1"]

    def test_whole_numbers_above_2_to_the_53_were_rounded(self, refuse, write):
        assert "holds exactly, got 9007199254740993 in line 2" in refuse("a,y\n9007199254740993,1\n", target="y")
        assert "9007199254740993" in refuse('a,y\n"9007199254740993",1\n', target="y")
        assert read_table(write("a,y\n9007199254740992,1\n"), "y").X[0, 0] == 2**53

    def test_labels_above_2_to_the_53_became_one_class(self):
        assert read_label("a,y\n1,9007199254740993\n2,9007199254740992\n") == [2**53 + 1, 2**53]
        assert read_label("a,y\n1,18446744073709551617\n2,1.5\n") == ["18446744073709551617", "1.5"]

    def test_words_for_missing_labels_became_a_class(self, refuse):
        for word in ("NA", "nan", "", "?", "NULL"):
            assert "label in every row" in refuse(f"a,y\n1,{word}\n2,ham\n", target="y")

    def test_a_header_whose_label_is_a_text_was_read_as_a_row(self, refuse, write):
        text = "label,1,2\n0,5,6\n1,7,8\n"
        assert "--header or --no-header" in refuse(text, target="0")
        assert read_table(write(text), "label", header=True).y.tolist() == [0, 1]

    def test_a_blank_first_line_hid_the_header(self, write):
        assert read_table(write("\n\na,y\n1,2\n"), "y").feature_names == ("a",)

    def test_quotes_that_do_not_end(self, refuse):
        assert "line" in refuse('a,y\n"1,2\n', target="y")
        assert "line" in refuse('a,"y\n1,2\n')

    def test_20000_named_columns_took_time_in_their_square(self, write):
        names = [f"c{i}" for i in range(20_000)]
        table = read_table(write(",".join([*names, "y"]) + "\n" + "1," * 20_000 + "0\n"), "y")
        start = time.perf_counter()
        table.with_features(names[::-1], 20_000)
        with pytest.raises(TableError, match="got no"):
            table.with_features([f"d{i}" for i in range(20_000)], 20_000)
        assert time.perf_counter() - start < 1


def read_label(text):
    import tempfile

    with tempfile.NamedTemporaryFile("w", suffix=".csv") as file:
        file.write(text)
        file.flush()
        return read_table(file.name, "y").y.tolist()


class TestNpz:
    def save(self, path, **arrays):
        np.savez(path, **arrays)
        return path

    def test_a_single_array_was_called_pickled(self, tmp_path, refuse):
        np.save(tmp_path / "a.npy", np.zeros((2, 2)))
        message = refuse((tmp_path / "a.npy").read_bytes(), "rows.npz")
        assert "single array" in message
        assert "np.savez" in message

    def test_junk_was_called_pickled(self, refuse):
        assert "which is none" in refuse(b"junk" * 9, "rows.npz")
        assert "got" in refuse(b"PK\x03\x04" + b"junk" * 9, "rows.npz")

    def test_integers_above_2_to_the_53_were_rounded(self, tmp_path):
        for dtype in (np.int64, np.uint64):
            path = self.save(tmp_path / "a.npz", X=np.array([[2**53 + 1]], dtype))
            with pytest.raises(TableError, match="holds exactly, got 9007199254740993"):
                read_table(path)
        path = self.save(tmp_path / "a.npz", X=np.array([[-(2**63), 2**62]]))
        assert read_table(path).X.tolist() == [[-(2.0**63), 2.0**62]]

    def test_long_doubles_were_rounded(self, tmp_path):
        path = self.save(tmp_path / "a.npz", X=np.array([[1]], np.longdouble) / 3)
        with pytest.raises(TableError, match="holds exactly"):
            read_table(path)

    def test_labels_in_bytes_kept_their_quotes(self, tmp_path):
        path = self.save(tmp_path / "a.npz", X=np.zeros((2, 1)), y=np.array([b"ham", b"spam"]))
        assert read_table(path).y.tolist() == ["ham", "spam"]

    def test_labels_above_2_to_the_63_became_negative(self, tmp_path):
        path = self.save(tmp_path / "a.npz", X=np.zeros((2, 1)), y=np.array([2**63, 1], np.uint64))
        assert read_table(path).y.tolist() == [str(2**63), "1"]

    def test_dates_are_no_numbers_and_no_labels(self, tmp_path):
        days = np.array(["2020-01-01", "2021-01-01"], "datetime64[D]")
        with pytest.raises(TableError, match="table of numbers"):
            read_table(self.save(tmp_path / "a.npz", X=days[:, None]))
        with pytest.raises(TableError, match="numbers or texts"):
            read_table(self.save(tmp_path / "a.npz", X=np.zeros((2, 1)), y=days))


class TestParquet:
    @pytest.fixture
    def write(self, tmp_path):
        arrow = pytest.importorskip("pyarrow")
        parquet = pytest.importorskip("pyarrow.parquet")

        def write(name="rows.parquet", **columns):
            parquet.write_table(arrow.table(columns), tmp_path / name)
            return tmp_path / name

        return write

    def test_dates_are_no_numbers(self, write):
        day = np.array(["2020-01-01"], "datetime64[s]")
        with pytest.raises(TableError, match=r"got timestamp.* in column 'a'"):
            read_table(write(a=day, y=[1]), "y")
        with pytest.raises(TableError, match="numbers or texts"):
            read_table(write(a=[1], y=day), "y")

    def test_integers_above_2_to_the_53_were_rounded(self, write):
        with pytest.raises(TableError, match="holds exactly, got 9007199254740993 in column 'a'"):
            read_table(write(a=[2**53 + 1], y=[1]), "y")

    def test_a_name_with_brackets_is_no_pattern(self, write):
        assert len(read_table(write("rows[1].parquet", a=[1], y=[1]), "y")) == 1

    def test_a_file_without_rows_left_a_traceback(self, write):
        with pytest.raises(TableError, match="got none"):
            read_table(write(a=np.empty(0), y=np.empty(0, str)), "y")

    def test_null_is_missing(self, write):
        with pytest.raises(TableError, match="got nan in row 1"):
            read_table(write(a=[1, None], y=[1, 1]), "y")
        with pytest.raises(TableError, match="label in every row"):
            read_table(write(a=[1, 2], y=["x", None]), "y")

    def test_without_pyarrow(self, write, monkeypatch):
        path = write(a=[1.5, 2], y=["x", "z"])
        monkeypatch.setitem(__import__("sys").modules, "pyarrow.parquet", None)
        with pytest.raises(TableError, match="got none: pip install pyarrow, or save it as CSV or npz"):
            read_table(path, "y")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes")
def test_a_pipe_without_a_writer_was_waited_for_without_end(tmp_path):
    os.mkfifo(tmp_path / "rows.csv")
    with pytest.raises(TableError, match="got the pipe"):
        read_table(tmp_path / "rows.csv")


def test_the_digest_of_a_table_tells_rows_labels_and_order_apart():
    table = Table(np.array([[1.0, -0.0], [2.0, 3.0]]), np.array([0, 1]), None, "here")
    same = Table(np.array([[1, 0], [2, 3]], float, order="F"), np.array([0, 1]), ("a", "b"), "there")
    assert digest(table) == digest(same)
    for X, y in [
        ([[2, 3], [1, 0]], [1, 0]),
        ([[1, 0], [2, 3]], [1, 0]),
        ([[1, 0], [2, 3.5]], [0, 1]),
        ([[1, 0, 2, 3]], [0]),
    ]:
        assert digest(Table(np.array(X, float), np.array(y), None, "elsewhere")) != digest(table)


@pytest.mark.parametrize(
    "entry",
    [
        {},
        {"part": "train"},
        {"part": "some", "n_rows": 1, "sha256": "", "first_index": None},
        {"part": "all", "n_rows": True, "sha256": "", "first_index": None},
        {"part": "all", "n_rows": 1, "sha256": "", "first_index": 2},
    ],
)
def test_a_record_of_training_that_is_none(entry):
    with pytest.raises(SplitError, match="training"):
        TrainingRecord.read(entry)


def test_a_label_that_ends_with_a_zero_byte_became_another(refuse):
    assert "zero byte" in refuse("a,y\n1,ham\0\n2,ham\n", target="y")


def test_a_reason_of_thousands_of_characters(refuse):
    assert len(refuse(f"1 1:{'x' * 3000}\n", "rows.svm")) < 500


def test_readers_skipped_different_spaces(refuse):
    for space in ("\x1e", "\xa0", "\u2003", "\x85"):
        assert "Expected a number" in refuse(f"a,y\n{space}1.5,1\n", target="y")


def test_an_npz_whose_directory_contradicts_its_members(tmp_path, refuse):
    np.savez(tmp_path / "a.npz", X=np.zeros((1, 1)), feature_names=["a"])
    content = (tmp_path / "a.npz").read_bytes()
    at = content.rindex(b"feature_names")
    assert "differ" in refuse(content[:at] + b"feature_n" + content[at + 9 :].replace(b"ames", b"`mes", 1), "rows.npz")

"""Reading tables: what each kind of file gives, and one clear sentence for each thing that is wrong."""

import os
import tracemalloc
from contextlib import contextmanager

import numpy as np
import pytest

from certiforest.data.cells import TableError
from certiforest.data.readers import read_blocks, read_table

CSV = "width,height,label\n1,2,ham\n3.5,-4e2,spam\n"


@pytest.fixture
def write(tmp_path):
    def write(content, name="rows.csv"):
        (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
        return tmp_path / name

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


class TestCsv:
    def test_with_header(self, write):
        table = read_table(write(CSV), "label")
        assert table.feature_names == ("width", "height")
        np.testing.assert_array_equal(table.X, [[1, 2], [3.5, -400]])
        assert table.y.tolist() == ["ham", "spam"]

    @pytest.mark.parametrize("target", ["label", "2", 2, "-1", -1])
    def test_target_by_name_or_index(self, write, target):
        assert read_table(write(CSV), target).y.tolist() == ["ham", "spam"]

    def test_without_header(self, write):
        table = read_table(write("1,2,0\n3,4,1\n"), -1)
        assert table.feature_names is None
        assert table.y.tolist() == [0, 1]
        assert table.y.dtype == np.int64

    def test_header_of_numbers_is_settled_by_hand(self, write, refuse):
        path = write("0,1,2\n1,2,0\n3,4,1\n")
        with pytest.raises(TableError, match="may be either"):
            read_table(path)
        assert len(read_table(path, header=False)) == 3
        assert read_table(path, "2", header=True).feature_names == ("0", "1")
        text = "label,1,2\n0,5,6\n1,7,8\n"
        assert "--header or --no-header" in refuse(text, target="0")
        assert read_table(write(text), "label", header=True).y.tolist() == [0, 1]

    @pytest.mark.parametrize("delimiter", [",", ";", "\t"])
    @pytest.mark.parametrize("end", ["\n", "\r\n"])
    def test_delimiters_line_ends_quotes_and_byte_order_mark(self, write, delimiter, end):
        text = "\ufeff" + CSV.replace(",", delimiter).replace("\n", end).replace("ham", '"ham"')
        table = read_table(write(text), "label")
        assert table.feature_names == ("width", "height")
        assert table.y.tolist() == ["ham", "spam"]

    def test_a_blank_first_line_hides_no_header(self, write):
        assert read_table(write("\n\na,y\n1,2\n"), "y").feature_names == ("a",)

    def test_drop(self, write):
        table = read_table(write("a,b,text,y\n1,2,red,0\n"), "y", drop=["text"])
        assert table.feature_names == ("a", "b")

    def test_numbers_are_read_exactly(self, write):
        values = np.random.default_rng(0).standard_normal((200, 3)) * 10.0 ** np.arange(-9, 9, 6)
        text = "\n".join(",".join(map(repr, row)) for row in values.tolist())
        np.testing.assert_array_equal(read_table(write(text)).X, values)
        halfway = f"2.4703282292062328e-324,1.7976931348623158e308,1.{'0' * 15}11102230246251565405\n"
        np.testing.assert_array_equal(read_table(write(halfway)).X, [[5e-324, np.finfo(float).max, 1 + 2**-52]])
        assert read_table(write("a,y\n9007199254740992,1\n"), "y").X[0, 0] == 2**53

    @pytest.mark.parametrize(
        ("text", "target", "message"),
        [
            ("", None, "empty file"),
            ("a,b\n", None, "below the header"),
            (CSV, None, "got 'ham' in line 2, column 'label'"),
            (CSV, "class", "has the columns 'width', 'height', 'label'"),
            (CSV, "7", "between -3 and 2, got 7"),
            ("1,2\n3,4\n", "label", "without names"),
            ("1,2\n3\n", None, "got 1 in line 2"),
            ("1,2\n3,?\n", None, "missing value in line 2, column 1"),
            ("1,2\n3,nan\n", None, "got nan in row 1"),
            ("1,2\n3,1e999\n", None, "got inf in row 1"),
            ("1,2\n3,1_0\n", None, "got '1_0' in line 2, column 1"),
            ("1,2\n3,0x10\n", None, "got '0x10' in line 2, column 1"),
            ("1,2\n3,\u0661\n", None, "Expected a number"),
            ("a,a,y\n1,2,0\n", "y", "every column name once"),
            ("y\n1\n", "y", "at least one feature"),
            ("a,b,y\n1,0.5,0.7,ham\n", "y", "Expected 3 cells in every line, as in the header, got 4 in line 2"),
            ("a,b,y\n1,0.5,0.7,ham\n", "y", "row names"),
            ("a,b\n1,2\n1,5,2\n", None, "got 3 in line 3"),
            ('a,b,y\n"1",0.5,0.7,ham\n', "y", "got 4 in line 2"),
            ("a,b,y\n1,2,ham\n1,2\n", "y", "got 2 in line 3"),
            (f"a,y\n{'x' * 200_000},1\n", "y", "field larger"),
            (f'"{"x" * 200_000}",y\n1,1\n', "y", "field larger than field limit"),
            (f'a,y\n"{"x" * 200_000}",1\n', "y", "field larger"),
            (f"a,y\n1,{'x' * 90_000}\n", "y", "up to 1000 characters, got one of 90000"),
            (f"a,y\n{'9' * 400},1\n", "y", "finite"),
            ("a,y\n9007199254740993,1\n", "y", "holds exactly, got 9007199254740993 in line 2"),
            ('a,y\n"9007199254740993",1\n', "y", "9007199254740993"),
            ('a,y\n"1,2\n', "y", "line"),
            ('a,"y\n1,2\n', None, "line"),
            ('a,y\n1,2\n3,"4', "y", "line 3"),
            ('a,y\n1,2\n"3"4,5', "y", "line 3"),
            ("a,y\n1,ham\0\n2,ham\n", "y", "zero byte"),
        ],
        ids=lambda value: str(value)[:20].encode("unicode_escape").decode(),
    )
    def test_what_is_refused(self, refuse, text, target, message):
        assert message in refuse(text, target=target)

    @pytest.mark.parametrize("word", ["NA", "nan", "", "?", "NULL"])
    def test_words_for_missing_labels_are_no_class(self, refuse, word):
        assert "label in every row" in refuse(f"a,y\n1,{word}\n2,ham\n", target="y")

    @pytest.mark.parametrize("space", ["\x1e", "\xa0", "\u2003", "\x85"])
    def test_spaces_that_only_some_readers_skip(self, refuse, space):
        assert "Expected a number" in refuse(f"a,y\n{space}1.5,1\n", target="y")

    @pytest.mark.parametrize(
        ("first", "second", "labels"),
        [
            ("1.0", "-1.0", [1, -1]),
            ("9" * 400, "1", ["9" * 400, "1"]),
            ("9007199254740993", "9007199254740992", [2**53 + 1, 2**53]),
            ("18446744073709551617", "1.5", ["18446744073709551617", "1.5"]),
        ],
    )
    def test_labels_are_whole_numbers_or_text(self, write, first, second, labels):
        assert read_table(write(f"a,y\n1,{first}\n2,{second}\n"), "y").y.tolist() == labels

    def test_columns_are_matched_by_name(self, write):
        table = read_table(write("b,a,y\n1,2,0\n"), "y")
        np.testing.assert_array_equal(table.with_features(["a", "b"], 2).X, [[2, 1]])
        with pytest.raises(TableError, match="got no 'c'"):
            table.with_features(["a", "c"], 2)
        with pytest.raises(TableError, match="got 'b' as well"):
            table.with_features(["a"], 1)

    @pytest.mark.parametrize("n_features", [1, 3])
    def test_columns_without_names_are_counted(self, write, n_features):
        table = read_table(write("1,2,0\n"), -1)
        with pytest.raises(TableError, match=f"Expected {n_features} feature columns"):
            table.with_features(None, n_features)


class TestFiles:
    def test_missing_file_directory_and_unknown_kind(self, write, refuse, tmp_path):
        with pytest.raises(TableError, match="does not exist"):
            read_table(tmp_path / "none.csv")
        with pytest.raises(TableError, match="directory"):
            read_table(tmp_path)
        assert "--format" in refuse(CSV, "rows.xlsx")
        assert len(read_table(write(CSV, "rows.xlsx"), "label", kind="csv")) == 2
        assert "UTF-8" in refuse(b"\xff\xfe1,2\n")

    @pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes")
    def test_a_pipe_without_a_writer_is_not_waited_for(self, tmp_path):
        os.mkfifo(tmp_path / "rows.csv")
        with pytest.raises(TableError, match="got the pipe"):
            read_table(tmp_path / "rows.csv")


class TestLibsvm:
    def test_labels_and_columns(self, write, refuse):
        path = write("+1 1:0.5 3:2\n-1 2:1\n", "rows.svm")
        table = read_table(path, n_features=4, first_index=1)
        np.testing.assert_array_equal(table.X, [[0.5, 0, 2, 0], [0, 1, 0, 0]])
        assert table.y.tolist() == [1, -1]
        assert "LIBSVM file" in refuse("what is this\n", "bad.svm")
        assert len(refuse(f"1 1:{'x' * 3000}\n", "rows.svm")) < 500
        with pytest.raises(TableError, match="start with labels"):
            read_table(path, "label")

    def test_the_number_of_the_first_column_is_not_guessed(self, write, refuse):
        zero_based = "1 1:5 3:7\n-1 2:6\n"  # column 0 is zero in all rows
        assert "first_index (--first-index)" in refuse(zero_based, "rows.svm", n_features=4)
        table = read_table(write(zero_based, "rows.svm"), n_features=4, first_index=0)
        np.testing.assert_array_equal(table.X, [[0, 5, 0, 7], [0, 0, 6, 0]])

    def test_the_base_is_known_where_only_one_is_possible(self, write):
        assert read_table(write("1 0:5\n", "rows.svm"), n_features=4).first_index == 0
        assert read_table(write("1 4:5\n", "rows.svm"), n_features=4).first_index == 1
        assert read_table(write("1 1:5 4:1\n", "rows.svm")).X.shape == (1, 4)
        assert read_table(write("1\n-1\n", "rows.svm"), n_features=4).X.tolist() == [[0] * 4] * 2

    @pytest.mark.parametrize(
        ("text", "options", "message"),
        [
            ("1 0:5\n", {"first_index": 1}, "numbered from 1, got column 0"),
            ("1 4:5\n", {"n_features": 4, "first_index": 0}, "got column 4"),
            ("1 4:5\n", {"first_index": 2}, "to be 0 or 1, got 2"),
            ("1 50000000:1\n-1 1:1\n1 2:1\n-1 3:1\n", {}, "nearly all cells zero"),  # 1.6 GB
            ("1 50000000:1\n-1 1:1\n", {"n_features": 4}, "got column 50000000"),
            ("1 1_0:2\n", {}, "underscore"),
            ("1 1:2_0\n", {}, "underscore"),
        ],
    )
    def test_what_is_refused(self, refuse, text, options, message):
        assert message in refuse(text, "rows.svm", **options)


class TestNpz:
    @pytest.fixture
    def save(self, tmp_path):
        def save(**arrays):
            np.savez(tmp_path / "rows.npz", **arrays)
            return tmp_path / "rows.npz"

        return save

    def test_arrays(self, save):
        path = save(X=np.arange(6).reshape(3, 2).astype(np.uint8), y=[0, 1, 1], feature_names=["a", "b"])
        table = read_table(path)
        assert table.X.dtype == np.float64
        assert table.feature_names == ("a", "b")
        assert table.y.tolist() == [0, 1, 1]
        with pytest.raises(TableError, match="among"):
            read_table(path, "labels")

    @pytest.mark.parametrize(
        ("y", "labels"),
        [(np.array([b"ham", b"spam"]), ["ham", "spam"]), (np.array([2**63, 1], np.uint64), [str(2**63), "1"])],
    )
    def test_labels(self, save, y, labels):
        assert read_table(save(X=np.zeros((2, 1)), y=y)).y.tolist() == labels

    def test_rows_stored_by_columns(self, save):
        X = np.asfortranarray(np.arange(12.0).reshape(4, 3))
        np.testing.assert_array_equal(read_table(save(X=X)).X, X)
        assert read_table(save(X=np.array([[-(2**63), 2**62]]))).X.tolist() == [[-(2.0**63), 2.0**62]]

    @pytest.mark.parametrize(
        ("arrays", "message"),
        [
            ({"X": np.array([[{}]], dtype=object)}, "pickle"),
            ({"X": np.array([[2**53 + 1]], np.int64)}, "holds exactly, got 9007199254740993"),
            ({"X": np.array([[2**53 + 1]], np.uint64)}, "holds exactly, got 9007199254740993"),
            ({"X": np.array([[1]], np.longdouble) / 3}, "holds exactly"),
            ({"X": np.array([["2020-01-01"]], "datetime64[D]")}, "table of numbers"),
            ({"X": np.zeros((1, 1)), "y": np.array(["2020-01-01"], "datetime64[D]")}, "numbers or texts"),
        ],
    )
    def test_arrays_that_are_refused(self, save, arrays, message):
        with pytest.raises(TableError, match=message):
            read_table(save(**arrays))

    def test_what_is_no_npz(self, tmp_path, refuse):
        np.save(tmp_path / "a.npy", np.zeros((2, 2)))
        message = refuse((tmp_path / "a.npy").read_bytes(), "rows.npz")
        assert "single array" in message
        assert "np.savez" in message
        assert "which is none" in refuse(b"junk" * 9, "rows.npz")
        assert "got" in refuse(b"PK\x03\x04" + b"junk" * 9, "rows.npz")

    def test_altered_bytes(self, save, refuse):
        content = save(X=np.zeros((1, 1)), feature_names=["a"]).read_bytes()
        at = content.rindex(b"feature_names")
        other = content[:at] + b"feature_n" + content[at + 9 :].replace(b"ames", b"`mes", 1)
        assert "differ" in refuse(other, "rows.npz")
        content = bytearray(save(X=np.arange(300.0).reshape(-1, 3)).read_bytes())
        content[1000] ^= 1
        assert "CRC" in refuse(bytes(content), "rows.npz")


class TestNpzBomb:
    """Few bytes that unpack to many: what the headers say is compared before anything is unpacked."""

    @pytest.fixture
    def refuse(self, tmp_path, peak):
        def refuse(arrays, **options):
            np.savez_compressed(tmp_path / "rows.npz", **arrays)
            with peak() as most, pytest.raises(TableError) as caught:
                read_table(tmp_path / "rows.npz", **options)
            assert most() < 2**21
            return str(caught.value)

        return refuse

    def test_shapes_that_do_not_fit_are_refused_unread(self, refuse):
        X = np.zeros((1_000_000, 3))
        assert "Expected 2 feature columns" in refuse({"X": X}, n_features=2)
        names = {"feature_names": ["a", "b", "d"]}
        assert "got no 'c'" in refuse({"X": X, **names}, n_features=3, feature_names=("a", "b", "c"))
        assert "one label per row, 1000000 in all" in refuse({"X": X, "y": np.zeros(10)})
        assert "up to 1000 characters" in refuse({"X": X[:2], "y": np.array(["x" * 10**6, ""])})
        assert "feature names" in refuse({"X": X[:2], "feature_names": np.zeros(10**6, "U1")})

    def test_a_small_file_that_would_fill_memory(self, refuse, monkeypatch, tmp_path):
        monkeypatch.setattr("certiforest.data.tables.MOST_EMPTY_CELLS", 1000)
        assert "1,000,000 rows of 3 columns, nearly all cells zero" in refuse({"X": np.zeros((1_000_000, 3))})
        polars = pytest.importorskip("polars")
        polars.DataFrame({"a": np.zeros(10**6)}).write_parquet(tmp_path / "rows.parquet")
        with pytest.raises(TableError, match="1,000,000 rows of 1 columns"):
            read_table(tmp_path / "rows.parquet")

    @pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
    def test_blocks_are_unpacked_one_by_one(self, tmp_path, peak, monkeypatch, save):
        monkeypatch.setattr("certiforest.ensemble.blocks.BLOCK_ROWS", 1000)
        X, y = np.arange(300_000.0).reshape(-1, 3), np.arange(100_000) % 7
        save(tmp_path / "rows.npz", X=X, y=y)
        with peak() as most:
            for number, read in enumerate(read_blocks(tmp_path / "rows.npz", n_features=3)):
                if number != 5:  # passed over
                    table = read(0)
                    np.testing.assert_array_equal(table.X, X[1000 * number : 1000 * (number + 1)])
                    np.testing.assert_array_equal(table.y, y[1000 * number : 1000 * (number + 1)])
        assert number == 99
        assert most() < 2**20


@pytest.fixture
def peak():
    """Return what measures how many bytes were in use at most."""

    @contextmanager
    def measured():
        tracemalloc.start()
        try:
            yield lambda: most
        finally:
            most = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()

    return measured


class TestParquet:
    @pytest.fixture
    def write(self, tmp_path):
        arrow = pytest.importorskip("pyarrow")
        parquet = pytest.importorskip("pyarrow.parquet")

        def write(name="rows.parquet", **columns):
            parquet.write_table(arrow.table(columns), tmp_path / name)
            return tmp_path / name

        return write

    def test_numbers_and_labels(self, write):
        path = write(a=[1, 2], text=["x", "y"], label=["no", "yes"])
        table = read_table(path, "label", drop=["text"])
        np.testing.assert_array_equal(table.X, [[1], [2]])
        assert table.y.tolist() == ["no", "yes"]
        with pytest.raises(TableError, match="column 'text'"):
            read_table(path, "label")

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

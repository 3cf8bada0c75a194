"""Reading tables: what each kind of file gives, and one clear sentence for each thing that is wrong."""

import tracemalloc
from contextlib import contextmanager

import numpy as np
import pytest

from certiforest.data.readers import read_blocks, read_table
from certiforest.data.tables import TableError

CSV = "width,height,label\n1,2,ham\n3.5,-4e2,spam\n"


@pytest.fixture
def write(tmp_path):
    def write(text, name="rows.csv"):
        path = tmp_path / name
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    return write


def test_csv_with_header(write):
    table = read_table(write(CSV), "label")
    assert table.feature_names == ("width", "height")
    np.testing.assert_array_equal(table.X, [[1, 2], [3.5, -400]])
    assert table.y.tolist() == ["ham", "spam"]


@pytest.mark.parametrize("target", ["label", "2", 2, "-1", -1])
def test_target_by_name_or_index(write, target):
    assert read_table(write(CSV), target).y.tolist() == ["ham", "spam"]


def test_csv_without_header(write):
    table = read_table(write("1,2,0\n3,4,1\n"), -1)
    assert table.feature_names is None
    assert table.y.tolist() == [0, 1]
    assert table.y.dtype == np.int64


def test_header_of_numbers_is_settled_by_hand(write):
    path = write("0,1,2\n1,2,0\n3,4,1\n")
    with pytest.raises(TableError, match="may be either"):
        read_table(path)
    assert len(read_table(path, header=False)) == 3
    assert read_table(path, "2", header=True).feature_names == ("0", "1")


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_delimiters_line_ends_quotes_and_byte_order_mark(write, delimiter, end):
    text = "\ufeff" + CSV.replace(",", delimiter).replace("\n", end).replace("ham", '"ham"')
    table = read_table(write(text), "label")
    assert table.feature_names == ("width", "height")
    assert table.y.tolist() == ["ham", "spam"]


def test_whole_float_labels_become_integers(write):
    assert read_table(write("x,y\n1,1.0\n2,-1.0\n"), "y").y.tolist() == [1, -1]


def test_drop(write):
    table = read_table(write("a,b,text,y\n1,2,red,0\n"), "y", drop=["text"])
    assert table.feature_names == ("a", "b")


def test_numbers_are_read_exactly(write):
    values = np.random.default_rng(0).standard_normal((200, 3)) * 10.0 ** np.arange(-9, 9, 6)
    text = "\n".join(",".join(map(repr, row)) for row in values.tolist())
    np.testing.assert_array_equal(read_table(write(text)).X, values)


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
        ("a,a,y\n1,2,0\n", "y", "every column name once"),
        ("x,y\n1,\n2,1\n", "y", "no|none in row 0|label in every row"),
        ("y\n1\n", "y", "at least one feature"),
    ],
)
def test_bad_csv_gets_one_sentence(write, text, target, message):
    with pytest.raises(TableError, match=message) as caught:
        read_table(write(text), target)
    assert "\n" not in str(caught.value)


def test_missing_file_directory_and_unknown_kind(write, tmp_path):
    with pytest.raises(TableError, match="does not exist"):
        read_table(tmp_path / "none.csv")
    with pytest.raises(TableError, match="directory"):
        read_table(tmp_path)
    with pytest.raises(TableError, match="--format"):
        read_table(write(CSV, "rows.xlsx"))
    assert len(read_table(write(CSV, "rows.xlsx"), "label", kind="csv")) == 2
    with pytest.raises(TableError, match="UTF-8"):
        read_table(write(b"\xff\xfe1,2\n"))


def test_npz(tmp_path):
    path = tmp_path / "rows.npz"
    np.savez(path, X=np.arange(6).reshape(3, 2).astype(np.uint8), y=[0, 1, 1], feature_names=["a", "b"])
    table = read_table(path)
    assert table.X.dtype == np.float64
    assert table.feature_names == ("a", "b")
    assert table.y.tolist() == [0, 1, 1]
    with pytest.raises(TableError, match="among"):
        read_table(path, "labels")


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
                    table = read()
                    np.testing.assert_array_equal(table.X, X[1000 * number : 1000 * (number + 1)])
                    np.testing.assert_array_equal(table.y, y[1000 * number : 1000 * (number + 1)])
        assert number == 99
        assert most() < 2**20

    def test_rows_stored_by_columns(self, tmp_path):
        X = np.asfortranarray(np.arange(12.0).reshape(4, 3))
        np.savez(tmp_path / "rows.npz", X=X)
        np.testing.assert_array_equal(read_table(tmp_path / "rows.npz").X, X)

    def test_an_altered_array_is_refused(self, tmp_path):
        np.savez(tmp_path / "rows.npz", X=np.arange(300.0).reshape(-1, 3))
        content = bytearray((tmp_path / "rows.npz").read_bytes())
        content[1000] ^= 1
        (tmp_path / "rows.npz").write_bytes(content)
        with pytest.raises(TableError, match="CRC"):
            read_table(tmp_path / "rows.npz")


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


def test_npz_never_unpickles(tmp_path):
    path = tmp_path / "rows.npz"
    np.savez(path, X=np.array([[{}]], dtype=object))
    with pytest.raises(TableError, match="pickle"):
        read_table(path)


def test_libsvm(write):
    path = write("+1 1:0.5 3:2\n-1 2:1\n", "rows.svm")
    table = read_table(path, n_features=4, first_index=1)
    np.testing.assert_array_equal(table.X, [[0.5, 0, 2, 0], [0, 1, 0, 0]])
    assert table.y.tolist() == [1, -1]
    with pytest.raises(TableError, match="LIBSVM file"):
        read_table(write("what is this\n", "bad.svm"))
    with pytest.raises(TableError, match="start with labels"):
        read_table(path, "label")


def test_parquet(tmp_path):
    polars = pytest.importorskip("polars")
    path = tmp_path / "rows.parquet"
    polars.DataFrame({"a": [1, 2], "text": ["x", "y"], "label": ["no", "yes"]}).write_parquet(path)
    table = read_table(path, "label", drop=["text"])
    np.testing.assert_array_equal(table.X, [[1], [2]])
    assert table.y.tolist() == ["no", "yes"]
    with pytest.raises(TableError, match="column 'text'"):
        read_table(path, "label")


def test_columns_are_matched_by_name(write):
    table = read_table(write("b,a,y\n1,2,0\n"), "y")
    np.testing.assert_array_equal(table.with_features(["a", "b"], 2).X, [[2, 1]])
    with pytest.raises(TableError, match="got no 'c'"):
        table.with_features(["a", "c"], 2)
    with pytest.raises(TableError, match="got 'b' as well"):
        table.with_features(["a"], 1)


@pytest.mark.parametrize("n_features", [1, 3])
def test_columns_without_names_are_counted(write, n_features):
    table = read_table(write("1,2,0\n"), -1)
    with pytest.raises(TableError, match=f"Expected {n_features} feature columns"):
        table.with_features(None, n_features)

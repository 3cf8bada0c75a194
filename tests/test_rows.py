"""Rows and labels as they enter: taken as they are, or refused in one sentence."""

import datetime
import time
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from certiforest import Attacker, AttackerError, RowError, Scaling, ScalingError, certify
from certiforest.ensemble.rows import Rows
from small_models import stumps

LONG = 2**53 + 1
DAY = datetime.datetime(2020, 1, 1)
FRAMES = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}


def two_columns(names=None, classes=(0, 1)):
    return stumps((1, 0.5), classes=classes, feature_names=names)


@pytest.mark.parametrize("make", FRAMES.values(), ids=FRAMES)
@pytest.mark.parametrize("column", [[1, 2], [1.5, 2.5], [True, False], [2**53, -(2**53)]])
def test_frames_of_mixed_numbers_are_read(make, column):
    assert two_columns(["a", "b"]).predict(make({"a": column, "b": [0.25, 0.75]})).tolist() == [0, 1]


@pytest.mark.parametrize("make", FRAMES.values(), ids=FRAMES)
@pytest.mark.parametrize(
    ("column", "sentence"),
    [
        ([LONG, 1], "got 9007199254740993, beyond 2"),
        ([DAY, DAY], "the column 'a' of type (datetime|timestamp)"),
        ([DAY - DAY, DAY - DAY], "the column 'a' of type (timedelta|duration)"),
        (["1", "2"], "the column 'a' of type str"),
        ([None, 1.5], "got (nan|None)"),
        ([Decimal(1), Decimal(2)], "Decimal|the column 'a' of type decimal"),
    ],
)
def test_columns_that_are_no_numbers_are_refused(make, column, sentence):
    with pytest.raises(RowError, match=sentence):
        two_columns(["a", "b"]).predict(make({"a": column, "b": [0.25, 0.75]}))


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        (np.array([[LONG, 1]]), "got 9007199254740993, beyond 2"),
        (np.array([[2**63, 1]], np.uint64), "got 9223372036854775808, beyond 2"),
        ([[LONG, 0.5]], "got 9007199254740993, beyond 2"),
        ([[10**400, 1]], "got a number of 1329 bits, beyond 2"),
        ([[10**5000, 1.5]], "got a number of 16610 bits, beyond 2"),
        (np.array([[1, 2]], "M8[s]"), "got dates"),
        (np.array([[1, 2]], "m8[s]"), "got durations"),
        (np.array([[0.0 + 1j, 1.0]]), "Expected numbers, got complex numbers"),
        ([[DAY, DAY]], "datetime"),
        ([["1", "2"]], "got text"),
        (np.array([["1", "2"]], object), r"got '1' \(str\) in row 0"),
        ([[Decimal("0.1"), 1]], r"got Decimal\('0.1'\)"),
        (np.array([[1, 3]], np.longdouble) / 3, "which float64 would round"),
        (np.array([[1, None]]), "got None"),
        (None, "got None"),
        ({"a": [1], "b": [2]}, "dict"),
        (pd.DataFrame({"a": pd.Categorical([1, 2]), "b": [0.5, 1]}), "the column 'a' of type category"),
        (pd.DataFrame({"a": pd.array([1, None], "Int64"), "b": [0.5, 1]}), "NA"),
        (pl.DataFrame({"a": [1], "b": [2]}).lazy(), r"in memory, got a LazyFrame; call X.collect\(\) first"),
    ],
)
def test_rows_that_would_be_rounded_or_misread_are_refused(rows, sentence):
    with pytest.raises(RowError, match=sentence) as caught:
        two_columns().predict(rows)
    assert "\n" not in str(caught.value)


def test_numbers_that_fit_are_read_whatever_their_type():
    for rows in (
        np.array([[2**53, 1]]), np.array([[1, 3]], np.longdouble), np.array([[True, True]]), [[True, 2.5]],
        np.array([[1, 2.5]], object), [[1e300, 2**53]], np.array([[1, 2]], np.float16), [[2.0**60, 1]],
    ):  # fmt: skip
        assert two_columns().predict(rows).tolist() == [1]


def test_names_alike_but_for_a_space_must_stand_in_their_order():
    model = two_columns(["a b", "a_b"])
    frame = pd.DataFrame({"a b": [0.0, 0.0], "a_b": [0.25, 0.75]})
    assert model.predict(frame).tolist() == [0, 1]
    assert model.predict(frame[["a_b", "a b"]]).tolist() == [0, 1]
    for other in (["a b", "a b"], ["a_b", "a_b"]):
        with pytest.raises(RowError, match=r"got no 'a[ _]b' and several called 'a[ _]b'"):
            model.predict(frame.set_axis(other, axis=1))
    assert two_columns(["a b", "c"]).predict(frame.set_axis(["a_b", "c"], axis=1)).tolist() == [0, 1]
    assert two_columns(["0", "1"]).predict(frame.set_axis([0, 1], axis=1)).tolist() == [0, 1]
    with pytest.raises(RowError, match="got 1, which the model does not know"):  # 1 and "1" are two names
        two_columns(["1", "1"]).predict(frame.set_axis(["1", 1], axis=1))


@pytest.mark.parametrize("make", [pd.DataFrame, lambda X, columns: pl.DataFrame(X, schema=columns)])
def test_many_named_columns_take_time_in_proportion(make):
    names = [f"c{i}" for i in range(20_000)]
    rows = Rows(make(np.zeros((640, 20_000), np.float32), columns=names), 20_000, names)
    assert len(list(rows.blocks())) == 10  # a slice takes time for every column, so that there must be few
    start = time.process_time()
    assert rows[slice(0, 64)].shape == (64, 20_000)
    assert time.process_time() - start < 5


@pytest.mark.parametrize(
    ("labels", "got"),
    [
        (pd.Series(["a", "c"], dtype=object), "'c' in row 1"),
        (pd.Series(["a", None], dtype=object), "None in row 1"),
        (pd.Series(["a", float("nan")], dtype=object), "nan in row 1"),
        (np.array(["a", 3], object), "3 in row 1"),
        (["a", ["b"]], "in row 1"),
        (["a", 10**5000], "a number of 16610 bits in row 1"),
    ],
)
def test_object_labels_that_are_no_class_are_refused(labels, got):
    with pytest.raises(RowError, match=f"Expected labels among 'a', 'b', got .*{got}.*Map the labels"):
        certify(two_columns(classes=["a", "b"]), np.zeros((2, 2)), labels, Attacker("linf", 0.1))


@pytest.mark.parametrize("kind", [object, "str", "category"])
def test_text_labels_of_any_type_are_read(kind):
    model, X = two_columns(classes=["a", "b"]), np.zeros((2, 2))
    found = certify(model, X, pd.Series(["a", "b"]).astype(kind), Attacker("linf", 0.1))
    assert found.correct.tolist() == [True, False]


def test_labels_are_compared_exactly():
    model, X = two_columns(classes=np.array([2**53, 2**53 + 2])), np.zeros((2, 2))
    for labels in ([2**53, 2**53 + 1], np.array([2**53, 2**53 + 1], np.uint64), [2.0**53, 2**53 + 1]):
        with pytest.raises(RowError, match="got 9007199254740993 in row 1"):
            certify(model, X, labels, Attacker("linf", 0.1))
    with pytest.raises(RowError, match="numbers or text, got datetime64"):  # which are numbers of nanoseconds inside
        certify(two_columns(), X, np.array([0, 1], "M8[ns]"), Attacker("linf", 0.1))
    with pytest.raises(RowError, match="got '0' in row 0"):
        certify(two_columns(), X, ["0", "1"], Attacker("linf", 0.1))
    assert certify(two_columns(), X, [False, 1.0], Attacker("linf", 0.1)).label.tolist() == [0, 1]


def test_what_is_masked_is_missing():
    hidden = np.ma.masked_array([1.0, 2.0], mask=[False, True])
    model, X, attacker = two_columns(), np.zeros((2, 2)), Attacker("linf", 0.1)
    with pytest.raises(RowError, match="masked array with labels missing"):
        certify(model, X, np.ma.masked_array([0, 1], mask=[False, True]), attacker)
    with pytest.raises(RowError, match="masked array with values missing"):
        model.predict(np.ma.masked_array(X, mask=[[False, True], [False, False]]))
    with pytest.raises(AttackerError, match="scale to hold numbers, got a masked array"):
        Attacker(2, 0.1, scale=hidden)
    with pytest.raises(ScalingError, match="offset to hold numbers, got a masked array"):
        Scaling(hidden, [1, 1])


@pytest.mark.parametrize("make", FRAMES.values(), ids=FRAMES)
def test_scaling_takes_rows_as_exactly(make):
    scaling = Scaling([0, 0], [2, 2])
    assert scaling.apply(make({"a": [1, 2], "b": [0.5, 1.5]})).tolist() == [[0.5, 0.25], [1.0, 0.75]]
    for rows in (make({"a": [LONG, 2], "b": [0.5, 1.5]}), [[LONG, 0.5]], np.array([[1, 2]], "M8[s]"), [["1", "2"]]):
        with pytest.raises(ScalingError, match=r"The rows to scale are no numbers: .*got"):
            scaling.apply(rows)
        with pytest.raises(ScalingError, match=r"The rows to scale are no numbers: .*got"):
            Scaling.of(rows)


def test_limits_of_400_digits():
    model, X = two_columns(), np.zeros((1, 2))
    limits = {"time_limit": 10**400, "total_time_limit": 10**5000}
    assert certify(model, X, [0], Attacker("linf", 0.1), **limits).stable.tolist() == [1]
    with pytest.raises(ValueError, match="margin=0 for trees that vote, got a number of 1329 bits"):
        certify(model, X, [0], Attacker("linf", 0.1), margin=10**400)
    with pytest.raises(ValueError, match="or -1 for all cores, got a number of"):
        certify(model, X, [0], Attacker("linf", 0.1), n_jobs=10**5000)

"""Scaling: the numbers that eps refers to, and their way through the model file."""

import numpy as np
import pytest

from certiforest import ModelError, Scaling, TreeEnsemble
from certiforest.ensemble.scaling import ScalingError
from small_models import stumps


def stump(**options):
    return stumps((0, 0.5), n_features=2, classes=[0, 1], **options)


def test_of_takes_rows_to_the_unit_interval():
    X = np.random.default_rng(0).normal(size=(50, 3)) * [1, 1e6, 1e-6]
    scaled = Scaling.of(X).apply(X)
    np.testing.assert_array_equal(scaled.min(axis=0), 0)
    np.testing.assert_array_equal(scaled.max(axis=0), 1)


def test_a_constant_feature_keeps_its_unit():
    scaling = Scaling.of([[3.0, 1], [3.0, 2]])
    np.testing.assert_array_equal(scaling.apply([[3.0, 1], [4.0, 1]])[:, 0], [0, 1])


def test_invert_comes_back_to_the_data():
    X = np.random.default_rng(1).random((20, 2)) * 255
    scaling = Scaling.of(X)
    np.testing.assert_allclose(scaling.invert(scaling.apply(X)), X, rtol=1e-12)


@pytest.mark.parametrize(
    ("offset", "width", "message"),
    [
        ([0], [0], "> 0"),
        ([0], [-1], "> 0"),
        ([0], [np.inf], "finite"),
        ([np.nan], [1], "finite"),
        ([0, 0], [1], "as many"),
        ([], [], "one number per feature"),
        (["a"], [1], "numbers"),
    ],
)
def test_what_makes_no_sense_is_refused(offset, width, message):
    with pytest.raises(ScalingError, match=message):
        Scaling(offset, width)


def test_rows_of_another_width_are_refused():
    with pytest.raises(ScalingError, match="2 features"):
        Scaling([0, 0], [1, 1]).apply([[1, 2, 3]])


def test_it_survives_the_model_file_bit_by_bit(tmp_path):
    scaling = Scaling([0.1, -1e300], [1 / 3, 5e-324])
    model = stump(feature_names=["a", "b"], scaling=scaling)
    model.save(tmp_path / "model.json")
    loaded = TreeEnsemble.load(tmp_path / "model.json")
    assert loaded == model
    assert loaded.scaling == scaling
    assert loaded != stump(feature_names=["a", "b"])


def test_an_ensemble_carries_it_and_does_not_apply_it():
    model = stump().with_columns(["a", "b"], Scaling([0, 0], [10, 10]))
    assert model.predict([[0.6, 0]]).tolist() == [1]
    assert model.predict(model.scaling.apply([[0.6, 0]])).tolist() == [0]
    assert model.without_idle_splits.scaling == model.scaling
    other = model.with_columns(["c", "d"])  # and does not lend what was prepared with it
    assert other.without_idle_splits.scaling is None
    assert other.without_idle_splits.feature_names == other.feature_names
    with pytest.raises(ModelError, match="scaling of 2 features"):
        stump(scaling=Scaling([0], [1]))

"""Who attacks, and which way, in training: rows of other classes count as they are."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from certiforest import Attacker, LargeSpreadForestClassifier, certify
from certiforest.training.additive_kernels import move_row, new_choices
from certiforest.training.grids import lay_grids
from certiforest.tuning import robust_accuracy
from trainers import small_trainers, training_set

TRAINERS = small_trainers(0.06, 0.02, 0.06, 0.2, 0.06, 0.2)


@pytest.fixture(scope="module")
def cancer(cancer):
    X, y = cancer
    return X, np.where(y == 0, "malignant", "benign")


@pytest.mark.parametrize("kind", TRAINERS)
def test_knowing_who_attacks_makes_better_models_for_that(cancer, kind):
    X, y = cancer
    attacked = ["malignant"]
    known, unknown = TRAINERS[kind](attacked=attacked).fit(X, y), TRAINERS[kind]().fit(X, y)
    found = [certify(clf, X, y, clf.attacker_, attacked=attacked) for clf in (known, unknown)]
    assert known.attacked_.tolist() == attacked
    assert unknown.attacked_ is None
    if kind == "pruned forest":  # there it only decides between trees
        assert found[0].robust_accuracy >= found[1].robust_accuracy - 0.02
    else:
        assert found[0].robust_accuracy > found[1].robust_accuracy
    assert robust_accuracy(known, X, y) == found[0].robust_accuracy
    assert robust_accuracy(unknown, X, y) <= found[1].robust_accuracy


@pytest.mark.parametrize("kind", TRAINERS)
def test_naming_all_classes_changes_nothing(cancer, kind):
    X, y = cancer
    assert TRAINERS[kind](attacked=["malignant", "benign"]).fit(X, y).ensemble_ == TRAINERS[kind]().fit(X, y).ensemble_


def purity(left, whole):
    return sum((part**2).sum() / part.sum() for part in (left, whole - left) if part.sum() > 0)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6))
def test_the_first_split_is_the_best_when_held_classes_stay(seed):
    """A grown forest's split is worth the least of: near rows stay, go left, go right, cross. Held ones stay."""
    rng = np.random.default_rng(seed)
    X, y, eps = rng.integers(0, 8, (40, 1)) / 8.0, rng.integers(0, 2, 40), rng.choice([0.07, 0.13, 0.2])
    y[:2] = 0, 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        options = {"focus": 0.0, "random_state": 0, "attacked": [1]}
        tree = LargeSpreadForestClassifier(1, 1, eps=eps, **options).fit(X, y).ensemble_
    x, classes = X[:, 0], np.eye(2)[y]

    def worth(v):
        left = x <= v
        can_left, can_right = np.where(y == 1, x - eps <= v, left), np.where(y == 1, x + eps > v, ~left)
        crossed = np.where(can_left & can_right, ~left, left)
        sides = left, can_left, ~can_right, crossed
        return min(purity(classes[side].sum(axis=0), classes.sum(axis=0)) for side in sides)

    unsplit = purity(classes.sum(axis=0), classes.sum(axis=0))
    values = np.unique(x)
    best = max((worth(v) for v in (values[1:] + values[:-1]) / 2), default=0.0)
    if tree.feature[0] < 0:
        assert best <= unsplit + 1e-4
    else:
        assert worth(tree.threshold[0]) == pytest.approx(best)


@pytest.mark.parametrize("norm", [1, 2, np.inf])
@pytest.mark.parametrize("way", ["up", "down"])
def test_additive_models_know_which_way(cancer, norm, way):
    X, y = cancer
    eps = 0.1 if norm == np.inf else 0.4
    attacker = Attacker(norm, eps, direction=way)
    one_way = TRAINERS["additive"](norm=norm, eps=eps, direction=way).fit(X, y)
    both = TRAINERS["additive"](norm=norm, eps=eps).fit(X, y)
    found = [certify(clf, X, y, attacker).robust_accuracy for clf in (one_way, both)]
    assert found[0] > found[1]
    assert one_way.attacker_.direction == way
    grids = lay_grids(training_set(X, np.zeros(len(X), np.int64), attacker), [[0]], 8)
    lead, x = np.zeros(8), grids.threshold[0, 2] + 1e-4
    lead[2], lead[4] = -1.0, -2.0  # below and above the own cell, 3
    out = np.empty(1, np.int32), np.empty(1), np.empty(1)
    tree, step, least = np.zeros(1, np.int32), np.array([3], np.uint8), np.array([-2.0])
    move_row(grids, tree, np.array([x]), step, lead, least, 0.0, new_choices(grids), *out)
    assert out[0][0] == {"up": 4, "down": 2}[way]


@pytest.mark.parametrize(
    ("attacked", "sentence"),
    [
        (["spam"], "Expected attacked to hold labels of the model, ['benign', 'malignant'], got 'spam'."),
        ("malignant", "Expected attacked to be a list of labels, got 'malignant'."),
        ([], "Expected attacked to name at least one class, got none; without an attacker, sklearn.ensemble."),
    ],
)
def test_classes_that_are_none_are_refused(cancer, attacked, sentence):
    for trainer in TRAINERS.values():
        with pytest.raises(ValueError) as caught:
            trainer(attacked=attacked).fit(*cancer)
        assert str(caught.value).startswith(sentence)

"""What is public owns its data: whatever callers do to their arrays later, it stays what it was."""

import copy
import pickle

import numpy as np
import pytest
from sklearn.tree import DecisionTreeClassifier

import certiforest
from certiforest import (
    Attacker,
    LargeSpreadBoostingClassifier,
    LargeSpreadForestClassifier,
    Nodes,
    Scaling,
    TreeEnsemble,
    as_ensemble,
    certify,
    has_large_spread,
    overlaps,
    spread,
)


def make_ensemble():
    given = {
        "feature": np.array([0, -1, -1]), "threshold": np.array([0.5, 0, 0]), "leaf": np.array([-1, 0, 1]),
        "classes": np.array([3, 4]), "scores": np.array([[-1.0], [1.0]]), "base": np.array([0.25]),
    }  # fmt: skip
    names = ["a"]
    return TreeEnsemble(**given, n_features=1, feature_names=names), [*given.values(), names]


def make_from_nodes():
    nodes = Nodes(*(np.array(column) for column in ([1, -1, -1], [2, -1, -1], [0, -1, -1], [0.5, 0, 0], [-1, 0, 1])))
    return TreeEnsemble.from_trees([nodes], n_features=1, classes=[0, 1]), list(nodes)


def make_scaling():
    given = [np.array([1.0]), np.array([2.0])]
    return Scaling(*given), given


def make_attacker():
    given = [np.array([1.0]), np.array([0]), [np.array([0.0]), np.array([1.0])]]
    attacker = Attacker(2, 0.25, *given)
    return attacker, [*given[:2], *given[2], given[2]]


def make_certificates():
    X, y = np.array([[0.25], [0.75]]), np.array([3, 4])
    found = certify(make_ensemble()[0], X, y, Attacker(2, 0.3), radius=True, witness=True)
    return found, [X, y]


def make_tree():
    X = np.array([[0.0], [1.0]])
    tree = DecisionTreeClassifier().fit(X, [0, 1])
    return as_ensemble(tree), [X, tree.tree_.threshold, tree.classes_]


def state(thing):
    if isinstance(thing, (TreeEnsemble, Scaling, Attacker)) or hasattr(thing, "stable"):
        return {name: state(value) for name, value in vars(thing).items()}
    if isinstance(thing, tuple):
        return [state(value) for value in thing]
    return repr(thing.tolist() if isinstance(thing, np.ndarray) else thing)


MAKERS = [make_ensemble, make_from_nodes, make_scaling, make_attacker, make_certificates, make_tree]


@pytest.mark.parametrize("make", MAKERS, ids=lambda make: make.__name__)
def test_what_was_given_may_change_later(make):
    thing, given = make()
    before = state(thing)
    for values in given:
        if values is None:
            continue
        if isinstance(values, np.ndarray):
            values[...] = 1 - values
        else:
            values[:] = [None] * len(values)
    assert state(thing) == before


@pytest.mark.parametrize("make", [make_ensemble, make_scaling, make_attacker], ids=lambda make: make.__name__)
def test_attributes_stay_what_they_are(make):
    thing, _ = make()
    for name, value in list(vars(thing).items()):
        with pytest.raises(AttributeError, match=f"Expected no change of {name}"):
            setattr(thing, name, value)
        with pytest.raises(AttributeError, match=f"Expected no change of {name}"):
            delattr(thing, name)
        for array in value if isinstance(value, tuple) and name == "domain" else (value,):
            if isinstance(array, np.ndarray):
                assert not array.flags.writeable
    for other in (copy.copy(thing), copy.deepcopy(thing), pickle.loads(pickle.dumps(thing))):  # noqa: S301
        for name in vars(thing):  # what is made from the rest is made again when asked for
            getattr(other, name)
        assert state(other) == state(thing)


def test_an_attacker_keeps_its_budgets():
    scale, frozen = np.array([1.0, 1.0]), np.array([False, True])
    attacker = Attacker(2, 0.5, scale=scale, frozen=frozen)
    scale[:], frozen[:] = -1.0, True
    assert attacker.with_eps(1.0).moves(2).budgets().rounded.tolist() == [[1.0, -1.0]] * 2
    assert repr(attacker) == "Attacker(norm=2, eps=0.5, scale=[1, 1], frozen=[False, True])"


@pytest.mark.parametrize("kind", [LargeSpreadForestClassifier, LargeSpreadBoostingClassifier])
def test_estimators_keep_what_they_learnt(kind):
    rng = np.random.default_rng(0)
    X, y = rng.random((60, 2)), np.repeat([0, 1], 30)
    X[30:, 0] += 0.5
    model = kind(n_estimators=2, max_depth=2, eps=0.01, random_state=0).fit(X, y)
    before = model.ensemble_.sha256
    X[:], y[:] = 0, 0
    assert as_ensemble(model).sha256 == before


def test_functions_leave_what_they_are_given_alone():
    ensemble, _ = make_ensemble()
    X, y = np.array([[0.25], [0.75]]), np.array([3, 4])
    X.flags.writeable = y.flags.writeable = False
    attacker = Attacker("linf", 0.1)
    certify(ensemble, X, y, attacker, radius=True, witness=True)
    ensemble.predict(X)
    Scaling.of(X).apply(X)
    assert spread(ensemble) == np.inf
    assert has_large_spread(ensemble, attacker)
    assert overlaps(ensemble, attacker).feature.tolist() == []


def test_errors_to_catch_are_public():
    for name in ("AttackerError", "ModelError", "RowError", "ScalingError"):
        assert issubclass(getattr(certiforest, name), ValueError)
        assert name in certiforest.__all__

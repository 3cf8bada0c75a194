"""What other verifiers say about the same models; each is skipped where it is not installed."""

import math
import random

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.tree import DecisionTreeRegressor

from cases import ensemble_of
from certiforest import Attacker, Nodes, TreeEnsemble, certify, has_large_spread
from oracle import Case

# Veritas goes left iff x < v and attacks half-open intervals [low, high), all in float64. `x <= v` is `x < succ(v)`,
# and the closed ball [x - eps, x + eps] is [x - eps, succ(x + eps)), so every model and every attacker here has an
# exact counterpart there. It adds scores up in floats, so they are kept to few bits; x, eps and scores are dyadic.


def veritas_extremes(veritas, ensemble, x, eps, *, translate=True):
    """The least and the largest sum that Veritas finds in an L-inf ball."""
    up = (lambda v: math.nextafter(v, math.inf)) if translate else (lambda v: v)
    model = veritas.AddTree(1, veritas.AddTreeType.REGR)
    model.set_base_score(0, float(ensemble.base[0]))
    for t in range(ensemble.n_trees):
        tree = model.add_tree()
        places = {int(ensemble.tree_start[t]): tree.root()}
        for node in range(ensemble.tree_start[t], ensemble.tree_start[t + 1]):  # preorder: parents come first
            if ensemble.feature[node] < 0:
                tree.set_leaf_value(places[node], 0, float(ensemble.scores[ensemble.leaf[node], 0]))
                continue
            tree.split(places[node], int(ensemble.feature[node]), up(float(ensemble.threshold[node])))
            places[node + 1], places[int(ensemble.right[node])] = tree.left(places[node]), tree.right(places[node])
    box = [veritas.Interval(value - eps, up(value + eps)) for value in x]
    extremes = []
    for at, sign in ((model.negate_leaf_values(), -1), (model, 1)):
        search = veritas.Config(veritas.HeuristicType.MAX_OUTPUT).get_search(at, box)
        assert search.step_for(10.0, 100) in (veritas.StopReason.OPTIMAL, veritas.StopReason.NO_MORE_OPEN)
        extremes.append(sign * search.get_solution(0).output)
    return extremes


def is_stable_by(extremes, prediction):
    low, high = extremes
    return low > 0 if prediction == 1 else high <= 0


def dyadic_ensemble(rng, apart):
    n_features = 4
    n_trees = rng.randint(1, 4)

    def tree(depth, features):
        if depth == 0 or rng.random() < 0.15:
            return [rng.randint(-8, 8) / 8]
        return (rng.choice(features), rng.randint(0, 16) / 16, *(tree(depth - 1, features) for _ in range(2)))

    features = [[t] if apart else list(range(n_features)) for t in range(n_trees)]
    trees = [tree(3, own) for own in features]
    x = [rng.randint(0, 32) / 32 for _ in range(n_features)]
    return ensemble_of(Case(trees, n_features, 2, x, math.inf, 0.0, base=[rng.randint(-8, 8) / 8])), x


def test_veritas_agrees_on_generated_sums():
    veritas = pytest.importorskip("veritas")
    rng = random.Random(11)
    n_decided = n_naive = 0
    for number in range(600):
        ensemble, x = dyadic_ensemble(rng, apart=number % 2 == 0)
        attacker = Attacker("linf", rng.randint(1, 8) / 32)
        c = certify(ensemble, [x], attacker=attacker)
        if c.stable[0] == -1:  # trees meet: Veritas searches there, this library says so
            assert not has_large_spread(ensemble, attacker)
            continue
        n_decided += 1
        theirs = is_stable_by(veritas_extremes(veritas, ensemble, x, attacker.eps), c.prediction[0])
        assert c.stable[0] == theirs, number
        # Without the translation answers differ, and every difference has one reason: some threshold is exactly eps
        # below the row. Moving onto it is within the budget and goes left here; there, it does not go left.
        naive = is_stable_by(veritas_extremes(veritas, ensemble, x, attacker.eps, translate=False), c.prediction[0])
        if naive != c.stable[0]:
            n_naive += 1
            gaps = [x[f] - v for f, v in zip(ensemble.feature, ensemble.threshold, strict=True) if f >= 0]
            assert attacker.eps in gaps, number
    assert n_decided > 450
    assert n_naive > 0  # the conventions do matter on such rows


def test_veritas_agrees_on_a_boosted_model():
    veritas = pytest.importorskip("veritas")
    X, y = load_breast_cancer(return_X_y=True)
    X = (X - X.min(0)) / (X.max(0) - X.min(0))
    X = np.round(X * 2**16) / 2**16
    trees, scores, total = [], [], np.zeros(len(X))
    for part in np.array_split(
        np.random.default_rng(0).permutation(X.shape[1]), 10
    ):  # large spread by disjoint features
        tree = DecisionTreeRegressor(max_depth=3, random_state=0).fit(X[:, part], y - 1 / (1 + np.exp(-total))).tree_
        values = np.round(tree.value[:, 0, 0] * 2**12) / 2**12
        trees.append(
            Nodes(
                tree.children_left, tree.children_right, np.where(tree.feature >= 0, part[tree.feature], -1),
                np.float32(tree.threshold).astype(float), len(scores) + np.arange(tree.node_count),
            )
        )  # fmt: skip
        scores += values.tolist()
        total += values[tree.apply(X[:, part].astype(np.float32))]
    ensemble = TreeEnsemble.from_trees(trees, n_features=30, classes=[0, 1], scores=np.array(scores)[:, None])
    attacker = Attacker("linf", 2.0**-5)
    c = certify(ensemble, X[:150], y[:150], attacker)
    theirs = [
        is_stable_by(veritas_extremes(veritas, ensemble, x, attacker.eps), p)
        for x, p in zip(X[:150], c.prediction, strict=True)
    ]
    assert c.stable.tolist() == theirs
    assert 0 < sum(theirs) < 150

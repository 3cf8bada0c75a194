"""Ensembles too large for the oracle: roads that differ must lead to one verdict, and the auditor must confirm it."""

import math
import random

import numpy as np
import pytest

from cases import ensemble_of
from certiforest import Attacker, certify
from certiforest.proof import search
from oracle import Case
from small_models import audited


def grow(rng, depth, n_features, n_classes):
    if depth == 0 or rng.random() < 0.08:
        return rng.randrange(n_classes)
    threshold = rng.random() if rng.random() < 0.6 else rng.randrange(17) / 16
    return (rng.randrange(n_features), threshold, *(grow(rng, depth - 1, n_features, n_classes) for _ in range(2)))


def as_scores(tree, n_classes):
    if isinstance(tree, tuple):
        return (*tree[:2], *(as_scores(side, n_classes) for side in tree[2:]))
    return [float(tree == c) for c in range(n_classes)]


@pytest.mark.parametrize("norm", [0, 1, 2, 3, math.inf])
def test_all_roads_lead_to_one_verdict(norm, monkeypatch, tmp_path):
    rng = random.Random(f"agreement {norm}")
    n_decided = 0
    for _ in range(12):
        n_classes, n_features = rng.choice([2, 2, 3, 5]), rng.randint(5, 10)
        trees = [grow(rng, rng.randint(1, 4), n_features, n_classes) for _ in range(rng.randint(20, 60))]
        X = [[rng.randrange(17) / 16 for _ in range(n_features)] for _ in range(4)]
        eps = {0: 1.0, math.inf: rng.choice([0.01, 0.03, 0.06])}.get(norm, rng.choice([0.02, 0.05, 0.1]))
        attacker = Attacker(norm, eps)
        votes = ensemble_of(Case(trees, n_features, n_classes, X[0], norm, eps))
        written = [as_scores(tree, n_classes) for tree in trees]
        scores = ensemble_of(Case(written, n_features, n_classes, X[0], norm, eps, base=[0.0] * n_classes))
        first = certify(votes, X, None, attacker, proof=True, time_limit=20)
        assert not audited(votes, first, tmp_path).doubts
        for ensemble, most_sweeps in ((votes, 1), (scores, 100)):
            with monkeypatch.context() as patch:
                patch.setattr(search, "MOST_SWEEPS", most_sweeps)
                second = certify(ensemble, X, None, attacker, time_limit=20)
            np.testing.assert_array_equal(first.prediction, second.prediction)
            np.testing.assert_array_equal(first.stable, second.stable)
        n_decided += int((first.stable >= 0).sum())
    assert n_decided == 48

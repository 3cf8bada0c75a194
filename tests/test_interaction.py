"""Interaction: the solver against the oracle, on cases that composition could decide and on those it cannot."""

import math
import random
import time

import numpy as np
import pytest

import oracle
import referee
from cases import attacker_of, ensemble_of, random_case
from certiforest.verification.composition import Composition
from certiforest.verification.interaction import Interaction


def judge(case):
    ensemble, attacker = ensemble_of(case), attacker_of(case)
    interaction = Interaction(Composition(ensemble, attacker), time_limit=60)
    answer, witness = interaction.decide(np.array(case.x), time.monotonic() + 60)
    best = oracle.cheapest_change(case)
    is_stable = best is None or best > oracle.budget(case, case.eps)
    wrong = [] if answer == is_stable else [f"answered {answer}, should be {int(is_stable)}"]
    if answer == 0:
        own = oracle.predict(case.trees, case.n_classes, case.x)
        wrong += referee._judge_witness(case, own, witness.tolist())
    return wrong


@pytest.mark.parametrize("norm", [0, 1, 2, 3, math.inf])
def test_the_solver_agrees_with_the_oracle(norm):
    rng = random.Random(f"interaction {norm}")
    for _ in range(400):
        case = random_case(rng, norm=norm, apart=rng.random() < 0.1)
        assert judge(case) == [], case


def test_time_runs_out_honestly():
    case = random_case(random.Random(3), norm=math.inf, apart=False)
    interaction = Interaction(Composition(ensemble_of(case), attacker_of(case)), time_limit=60)
    answer, witness = interaction.decide(np.array(case.x), deadline=time.monotonic() - 1)
    assert answer in (-1, 1)
    assert witness is None

"""What users do, done once with small models, so that nothing is left to be compiled later.

Kernels and types are not listed here: what these steps pass on their way is compiled, and kept.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import partial
from itertools import product
from multiprocessing import get_context
from typing import Any

import numpy as np
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)

from certiforest.attack.attacker import Attacker
from certiforest.attack.rules import RuleAttacker
from certiforest.attack.spread import overlaps
from certiforest.certification import certify
from certiforest.compiled import compiled_so_far
from certiforest.explanation import explain
from certiforest.formats import as_ensemble
from certiforest.statements.checking import check, measure
from certiforest.statements.domain import Domain
from certiforest.statements.kinds import Insensitive, Monotone, Range, Same, Statement
from certiforest.training.additive import LargeSpreadAdditiveClassifier, LargeSpreadAdditiveRegressor
from certiforest.training.boosting import LargeSpreadBoostingClassifier
from certiforest.training.forest import LargeSpreadForestClassifier
from certiforest.training.robust_boosting import RobustBoostingClassifier, RobustBoostingRegressor

EPS, REACH = 0.02, 0.1  # of trainers, and of attackers who come so far that proofs need tables
RULES = {0: [{"pre": "(-np.inf, np.inf)", "post": 0.2, "cost": 1, "is_numerical": True}]}
ATTACKERS = [
    *(Attacker(norm, REACH) for norm in ("inf", 1, 2, 3)),
    Attacker(0, 1),
    Attacker(1, 1e-305),
    *(Attacker(norm, REACH, integer=[3], direction={0: "up"}, missing=1) for norm in ("inf", 1)),
    *(
        Attacker(norm, REACH, relations=["[0] <= [1] + 1", {"if": "[2] > 0", "then": "[0] > -1"}])
        for norm in ("inf", 2)
    ),
    RuleAttacker(RULES, 1),
]
TIED = [
    Attacker(norm, REACH, relations=["[0] <= [1] + 1/2", {"if": "[0] > 0.5", "then": "[2] > 0.1"}])
    for norm in ("inf", 1)
]
TRAINERS: dict[str, Callable[..., Any]] = {
    "a forest": partial(LargeSpreadForestClassifier, 5, 3),
    "a pruned forest": partial(LargeSpreadForestClassifier, 5, 3, method="prune", relabel=True, on_shortfall="keep"),
    "boosted trees": partial(LargeSpreadBoostingClassifier, 5),
    "boosted trees that meet": partial(RobustBoostingClassifier, 5, 4, 0.2, max_samples=0.5),
    "an additive model": partial(LargeSpreadAdditiveClassifier, 8, n_epochs=4),
}
MODELS: dict[str, Callable[[], Any]] = {
    "votes": partial(RandomForestClassifier, 7, max_depth=3, random_state=0),
    "sums": partial(HistGradientBoostingClassifier, max_iter=7, min_samples_leaf=5),
    "sums of categories": partial(
        HistGradientBoostingClassifier, max_iter=7, min_samples_leaf=5, categorical_features=[3]
    ),
}


def warm(n_workers: int | None, done: Callable[[int], None]) -> tuple[int, set[str]]:
    """Do all there is to do, in so many processes or one for each core, counting steps.

    Returns how often was compiled, and the names under which the code is kept that Python calls.
    """
    n_compiled, names = 0, set[str]()
    with ProcessPoolExecutor(n_workers, get_context("spawn")) as pool:
        for future in as_completed([pool.submit(_do, *step) for step in STEPS]):
            n_compiled += future.result()[0]
            names |= future.result()[1]
            done(1)
    return n_compiled, names


def _do(step: Callable[..., None], *of: Any) -> tuple[int, set[str]]:
    n_before, _ = compiled_so_far()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of models as small as these
        step(*of)
    n_now, names = compiled_so_far()
    return n_now - n_before, names


def _rows(n_classes: int, *, missing: bool = False, sparse: bool = False) -> tuple[Any, Any]:
    random = np.random.default_rng(0)
    X = random.random((60, 4))
    X[:, 3] = random.integers(0, 3, len(X))
    y = np.digitize(X[:, 0] + X[:, 1] * X[:, 2], np.linspace(0.4, 1, n_classes + 1)[1:-1])
    X[::9, 1] = np.nan if missing else 0.5
    return (X * (X > 0.9) if sparse else X), y


def _train(make: Callable[..., Any]) -> None:
    for rows, options in (
        (_rows(2), {"eps": EPS}),
        (_rows(3), {"eps": EPS, "norm": 1}),
        (_rows(2, missing=True), {"eps": EPS, "attacked": [1]}),
        (_rows(2), {"attacker": RuleAttacker(RULES, 1)}),
        (_rows(2, sparse=True), {"eps": EPS}),
    ):
        model = make(random_state=0, **options).fit(*rows)
        _prove(model, *rows, model.attacker_)


def _certify(make: Callable[..., Any]) -> None:
    for n_classes, missing, attacker in product((2, 3), (False, True), ATTACKERS + TIED):
        if missing and attacker in TIED:
            continue
        X, y = _rows(n_classes, missing=missing)
        model = as_ensemble(make().fit(X, y))
        _prove(model, X, y, attacker)
        certify(model, np.tile(X, (10, 1)), None, attacker, time_limit=0.01, total_time_limit=1)  # many rows at once
        explain(model, X[0], attacker, time_limit=0.1)
        explain(model, X[0], Domain.from_data(X), time_limit=0.1)
        overlaps(model, attacker)


def _prove(model: Any, X: Any, y: Any, attacker: Attacker) -> None:
    X, y = X[:10], y[:10]
    certify(model, X, y, attacker, radius=not isinstance(attacker, RuleAttacker), witness=True, time_limit=0.1)
    certify(model, X, y, attacker, proof=True, time_limit=0.1)


def _bound(make: Callable[..., Any]) -> None:
    X, y = _rows(2)
    for attacker in (Attacker("inf", REACH), Attacker(1, REACH), Attacker(2, REACH), TIED[0]):
        regressor = make().fit(X, X[:, 0] * X[:, 1])
        for proof in (False, True):
            certify(regressor, X[:5], None, attacker, tolerance=0.1, radius=True, proof=proof, time_limit=0.1)
            certify(MODELS["sums"]().fit(X, y), X[:5], y[:5], attacker, outputs=True, proof=proof, time_limit=0.1)


def _certify_large() -> None:
    """Certify rows that have so many conditions in reach that sweeps are over what matters."""
    X, y = _rows(2)
    model = RandomForestClassifier(1000, random_state=0).fit(X, y)
    for proof in (False, True):
        certify(model, X[:10], y[:10], Attacker(1, 3 * REACH), proof=proof, time_limit=0.1)


def _ask(missing: bool) -> None:
    X, y = _rows(2, missing=missing)
    domain = Domain.from_data(X)
    makers: list[Callable[[], Any]] = [*MODELS.values(), partial(RandomForestRegressor, 5, max_depth=3)]
    for make in makers:
        model = make().fit(X, y)
        for proof in (False, True):
            statements: list[Statement] = [
                Range(0.1, 0.9),
                Insensitive([0], 0.3, 0.7),
                Monotone(0, "up"),
                Same(model, 0.1),
            ]
            check(model, statements, domain, proof=proof)
        for quantity, options in (("range", {}), ("gap", {"columns": [0]}), ("fall", {"column": 0})):
            measure(model, quantity, domain, **options)
    if not missing:
        asked: list[Statement] = [Range(0.1, 0.9), Insensitive([0])]
        check(MODELS["sums"]().fit(X, y), asked, Domain.from_data(X, plausible=0.1), proof=True)


STEPS: list[tuple[Any, ...]] = [
    (_ask, True),
    (_ask, False),
    (_bound, partial(RandomForestRegressor, 5, max_depth=3)),
    (_bound, partial(HistGradientBoostingRegressor, max_iter=7, min_samples_leaf=5)),
    (_bound, partial(RobustBoostingRegressor, 5, 3, eps=EPS)),
    (_bound, partial(LargeSpreadAdditiveRegressor, 8, norm=2, eps=EPS, frozen=[0], n_epochs=4)),
    (_certify_large,),
    *((_certify, make) for make in MODELS.values()),
    *((_train, make) for make in TRAINERS.values()),
]

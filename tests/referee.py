"""Compare everything `certify` says about a case with the oracle; also a script for as many cases as you like.

python tests/referee.py --cases 1000000 --seed 1 --combine sum --rows 4
python tests/referee.py --cases 1000000 --seed 1 --combine sum --time-limit 60 --extreme
python tests/referee.py --cases 200000 --seed 1 --combine sum --time-limit 60 --real
python tests/referee.py --cases 100000 --seed 1 --combine sum --alone
"""

from __future__ import annotations

import argparse
import math
import random
import sys
import time
from collections import Counter

import numpy as np

import oracle
from cases import attacker_of, ensemble_of, extreme_case, more_rows, random_case, real_case, rule_case
from certiforest import Certificates, certify, has_large_spread
from certiforest.problem.verifier import Verifier
from certiforest.proof.clock import Clock
from certiforest.rows.decider import Decider


def judge(case: oracle.Case, time_limit: float = 0) -> tuple[list[str], str]:
    """Return what is wrong with the verdict on a case (nothing, one hopes), and how the case came out.

    With a time limit, which is meant to be long, nothing may stay unknown.
    """
    return judge_found(case, certified([case], time_limit), time_limit)


def certified(cases: list[oracle.Case], time_limit: float) -> Certificates:
    """Certify cases of one ensemble and one attacker."""
    ensemble, attacker, rows = ensemble_of(cases[0]), attacker_of(cases[0]), [case.x for case in cases]
    has_radius = cases[0].rules is None
    return certify(ensemble, rows, None, attacker, radius=has_radius, witness=True, time_limit=time_limit)


def judge_found(case: oracle.Case, c: Certificates, time_limit: float) -> tuple[list[str], str]:
    has_radius = case.rules is None
    own = oracle.predict(case, case.x)
    best = oracle.cheapest_change(case)
    is_stable = best is None or best > oracle.budget(case, case.eps)
    wrong = []
    if c.prediction[0] != own:
        wrong.append(f"predicted {c.prediction[0]}, should be {own}")
    if c.stable[0] == -1:
        outcome = "unknown"
        is_easy = (case.base is None or case.norm == math.inf) and not case.groups and has_radius
        if time_limit > 0 or (is_easy and has_large_spread(ensemble_of(case), attacker_of(case))):
            wrong.append("unknown in spite of large spread, or of time")
    else:
        outcome = "stable" if is_stable else "unstable"
        if c.stable[0] != is_stable:
            wrong.append(f"stable is {c.stable[0]}, should be {is_stable}")
    if c.stable[0] == 0:
        wrong += judge_witness(case, own, c.witness[0].tolist())
    elif not np.isnan(c.witness).all():
        wrong.append("a witness for a row that is not unstable")
    if not has_radius:
        return wrong, f"{outcome} by rules"
    wrong += judge_radius(case, best, float(c.radius[0]), float(c.radius_upper[0]))
    # A budget that a feature's scale takes beyond the floats is not asked about.
    largest = max([1.0, *(case.scale or ()), *(case.scale_up or ())])
    most = oracle.LARGEST / largest * (1 - 1e-9) if largest > 1 else oracle.LARGEST
    if time_limit > 0 and not c.radius_is_exact[0] and (case.norm == 0 or c.radius[0] <= most):
        wrong.append("the radius is not exact in spite of time")
    return wrong, f"{outcome}, radius {'exact' if c.radius_is_exact[0] else 'bounded'}"


def judge_alone(case: oracle.Case, time_limit: float = 0) -> tuple[list[str], str]:
    """Judge the verdict of message passing with splits: no shortcut of large spread."""
    ensemble, attacker = ensemble_of(case), attacker_of(case)
    x = np.array(case.x)
    attacker = attacker.resolve(ensemble.n_features, ensemble.feature_names)
    finding = Decider(Verifier(ensemble, attacker)).decide(x, Clock(time_limit).start())
    outcome = ("unknown", "unstable", "stable")[finding.stable + 1]
    best = oracle.cheapest_change(case)
    is_stable = best is None or best > oracle.budget(case, case.eps)
    wrong = []
    if time_limit > 0 and finding.stable < 0:
        wrong.append("unknown in spite of time")
    if finding.stable >= 0 and finding.stable != is_stable:
        wrong.append(f"{outcome}, should be {'stable' if is_stable else 'unstable'}")
    if (finding.attack is None) != (finding.stable != 0):
        wrong.append("an attack for a row that is not unstable, or none for one that is")
    if finding.attack is not None:
        wrong += judge_witness(case, oracle.predict(case, case.x), finding.attack.tolist())
    return wrong, f"{outcome}, {finding.method.name.lower()}"


def judge_radius(case, best, lower, upper):
    if best is None or best > oracle.budget(case, oracle.LARGEST):  # there is no such float
        return [] if upper == math.inf else [f"radius up to {upper}, should be inf"]
    wrong = []
    if lower > upper:
        wrong.append(f"radius from {lower} to {upper}")
    if lower == math.inf or oracle.budget(case, math.nextafter(lower, 0)) >= best:
        wrong.append(f"radius {lower} is too large")
    if upper < math.inf and oracle.budget(case, upper) < best:
        wrong.append(f"radius {upper} is too small to break the row")
    return wrong


def judge_witness(case, own, z):
    wrong = []
    if oracle.predict(case, z) == own:
        wrong.append("the witness does not change the prediction")
    price = oracle.price_of_row(case, z)
    if price is None:
        wrong.append("the witness is a row that the attacker cannot make")
    elif price > oracle.budget(case, case.eps):
        wrong.append("the witness is out of reach")
    return wrong


def run(
    n_cases: int,
    seed: int,
    combine: str = "vote",
    time_limit: float = 0,
    report=lambda done, outcomes: None,
    draw=random_case,
    judged=judge,
    n_rows: int = 1,
) -> Counter:
    """Judge ``n_cases`` cases, ``n_rows`` of them for each ensemble; raise on the first disagreement."""
    outcomes: Counter = Counter()
    for number in range(0, n_cases, n_rows):
        rng = random.Random(f"{seed}-{number}")
        case = draw(rng, combine=combine)
        if n_rows == 1:
            judgements = [(case, *judged(case, time_limit))]
        else:
            cases = [case, *more_rows(rng, case, n_rows - 1)]
            c = certified(cases, time_limit)
            judgements = [(case, *judge_found(case, c[[i]], time_limit)) for i, case in enumerate(cases)]
        for case, wrong, outcome in judgements:
            if wrong:
                raise AssertionError(f"seed {seed}, case {number}: {'; '.join(wrong)}\n{case}")
            outcomes[f"norm {case.norm}: {outcome}"] += 1
        if number % 10_000 >= 10_000 - n_rows:
            report(number + n_rows, outcomes)
    return outcomes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--time-limit", type=float, default=0, help="seconds for a verdict, and for a radius")
    parser.add_argument("--combine", choices=["vote", "sum"], default="vote")
    parser.add_argument("--extreme", action="store_true", help="numbers from 5e-324 to 1.797e308, mixed")
    parser.add_argument("--real", action="store_true", help="directions, whole numbers, one-hot groups, two scales")
    parser.add_argument("--rules", action="store_true", help="rules with costs")
    parser.add_argument("--alone", action="store_true", help="verdicts by message passing and splits alone")
    parser.add_argument("--rows", type=int, default=1, help="rows for each ensemble, for cases of numbers")
    options = parser.parse_args()
    began = time.monotonic()

    def report(done, outcomes):
        left = (time.monotonic() - began) / done * (options.cases - done)
        sys.stdout.write(f"{done:,} cases, 0 disagreements, {left / 60:.0f} min left\n")
        sys.stdout.flush()

    draw = extreme_case if options.extreme else real_case if options.real else random_case
    draw = rule_case if options.rules else draw
    judged = judge_alone if options.alone else judge
    outcomes = run(options.cases, options.seed, options.combine, options.time_limit, report, draw, judged, options.rows)
    for name, count in sorted(outcomes.items()):
        sys.stdout.write(f"{name}: {count:,}\n")
    sys.stdout.write(f"{options.cases:,} cases, 0 disagreements\n")


if __name__ == "__main__":
    main()

"""What may be asked of certify: limits of time and threads, margins, spread; all else is refused in one sentence."""

from __future__ import annotations

import math
import os
from typing import Any

from certiforest.attack.attacker import Attacker
from certiforest.attack.spread import has_large_spread, largest_certifiable_eps, spread_against
from certiforest.ensemble import TreeEnsemble
from certiforest.ensemble.numbers import is_number, is_number_of_threads
from certiforest.ensemble.tree_kernels import LARGEST
from certiforest.words import shown


class SpreadError(ValueError):
    """An exact verdict for every row was required, and the spread of the ensemble is too small for that."""


def check_margin(margin: Any, ensemble: TreeEnsemble, radius: bool) -> float:
    """Return a margin as a float that is not smaller, or refuse it."""
    if not is_number(margin) or not margin >= 0:
        raise ValueError(f"Expected margin to be a number >= 0, got {shown(margin)}.")
    if margin > 0 and ensemble.combine == "vote":
        raise ValueError(
            f"Expected margin=0 for trees that vote, got {shown(margin)}: votes are counted without rounding."
        )
    if margin > 0 and radius:
        raise ValueError(
            f"Expected margin=0 where a radius is asked for, got {shown(margin)}; ask for them one by one."
        )
    rounded = float(margin) if margin <= LARGEST else math.inf
    return rounded if rounded >= margin else math.nextafter(rounded, math.inf)


def check_time_limit(seconds: Any) -> float:
    """Return seconds as a float, or refuse them."""
    if not is_number(seconds) or not seconds >= 0:
        raise ValueError(f"Expected a time limit in seconds >= 0, got {shown(seconds)}.")
    return float(seconds) if seconds <= LARGEST else math.inf


def check_n_jobs(n_jobs: int | None) -> int:
    """Return a number of threads, or refuse it; -1 is all cores, -2 all but one."""
    if n_jobs is None:
        return 1
    if not is_number_of_threads(n_jobs):
        raise ValueError(f"Expected n_jobs to be None, a number of threads, or -1 for all cores, got {shown(n_jobs)}.")
    cores = os.cpu_count() or 1
    return int(n_jobs) if n_jobs > 0 else max(1, cores + 1 + int(n_jobs))


def check_spread(ensemble: TreeEnsemble, attacker: Attacker) -> None:
    """Refuse an ensemble of which not every row can be certified exactly."""
    if has_large_spread(ensemble, attacker):
        return
    has = spread_against(ensemble, attacker)
    largest = largest_certifiable_eps(ensemble, attacker)
    can = (
        f"It can be certified for eps up to {largest!r}." if largest >= 0 else "No eps can be certified for every row."
    )
    raise SpreadError(
        f"Expected a spread above 2 * eps = {2 * attacker.eps!r}, got an ensemble of spread {has!r}. {can}"
        " Without require_exact, rows that are undecided come out as UNKNOWN."
    )

"""check: prove or refute statements about all inputs of a model; measure: the numbers that such statements speak of."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from certiforest.attack.columns import Column
from certiforest.proof.clock import Clock
from certiforest.rows.asking import check_n_jobs, check_time_limit
from certiforest.statements.checker import Checker
from certiforest.statements.domain import Domain
from certiforest.statements.kinds import Insensitive, Monotone, Statement, StatementError
from certiforest.statements.results import Measured, Results
from certiforest.statements.scored import ScoredModel
from certiforest.words import setting, shown

Progress = Callable[[int, int], None]
QUANTITIES = ("range", "gap", "fall", "difference")


def check(
    model: Any,
    statements: Statement | Iterable[Statement],
    domain: Domain,
    *,
    rows: tuple[Any, Any] | None = None,
    outputs: str = "probability",
    time_limit: float = 60.0,
    n_jobs: int | None = 1,
    progress: Progress | None = None,
) -> Results:
    """Prove or refute statements about all inputs of a model in a domain.

    Parameters
    ----------
    model : classifier, regressor, TreeEnsemble or path
    statements : statement, or iterable of statements
        `Range`, `Insensitive`, `Monotone`, `Same`, `Robust`.
    domain : Domain
        Where inputs lie.
    rows : (X, y), optional
        Those that `Robust` speaks of.
    outputs : {"probability", "score"}, default="probability"
        What scores of classifiers are: probabilities of the second class (the share of votes where trees vote), or the
        sums that decide. Those of regressors are what they predict.
    time_limit : float, default=60.0
        Seconds for each statement.
    n_jobs : int, optional
        Statements that are looked at side by side, by threads; -1: one for each processor.
    progress : callable, optional
        Called with the number of statements decided so far, and of all.

    Returns
    -------
    Results

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> from certiforest import Domain, Range, check
    >>> X, _ = load_iris(return_X_y=True)
    >>> model = DecisionTreeRegressor(max_depth=4, random_state=0).fit(X[:, :3], X[:, 3])
    >>> domain = Domain.from_data(X[:, :3])
    >>> print(check(model, Range(0, 3), domain)[0].method)
    proved
    """
    listed: Any = statements if hasattr(statements, "__iter__") else [statements]
    listed = list(listed)
    if not listed:
        raise StatementError("Expected a statement at least, got none.")
    _check_domain(domain)
    scored, seconds = ScoredModel(model, outputs), check_time_limit(time_limit)
    checker, results = Checker(scored, domain, outputs, rows), []
    for statement in listed:
        if not isinstance(statement, Statement):
            raise StatementError(f"Expected a statement, got {shown(statement)}.")
    for result in _in_threads(checker.check, listed, seconds, check_n_jobs(n_jobs)):
        results.append(result)
        if progress is not None:
            progress(len(results), len(listed))
    return Results(results)


def _in_threads(work: Callable[[Any, Clock], Any], asked: Sequence[Any], seconds: float, n_jobs: int) -> Iterator[Any]:
    """Yield what work makes of each question, in order, with a clock that Ctrl-C stops.

    Nothing runs in the main thread, where Ctrl-C in a kernel that returns named tuples ends the process (numba).
    """
    stop = threading.Event()
    with ThreadPoolExecutor(n_jobs) as pool:
        try:
            yield from pool.map(lambda one: work(one, Clock(seconds, is_stopped=stop.is_set).start()), asked)
        except KeyboardInterrupt:
            stop.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def measure(
    model: Any,
    quantity: str,
    domain: Domain,
    *,
    columns: Sequence[Column] | None = None,
    column: Column | None = None,
    direction: str = "up",
    other: Any = None,
    outputs: str = "probability",
    time_limit: float = 60.0,
) -> Measured:
    """Find how far a model goes in a domain.

    Parameters
    ----------
    model : classifier, regressor, TreeEnsemble or path
    quantity : {"range", "gap", "fall", "difference"}
        The lowest and the highest score; the most that two scores differ where only ``columns`` do; the most that the
        score falls where ``column`` grows (``direction="down"``: rises); the most that scores of ``other`` differ.
    domain : Domain
    columns : list of columns, optional
    column : column, optional
    direction : {"up", "down"}, default="up"
    other : model, optional
    outputs, time_limit
        See `check`; ``time_limit`` is for all of it.

    Returns
    -------
    Measured
    """
    if quantity not in QUANTITIES:
        raise StatementError(f"Expected a quantity among {', '.join(QUANTITIES)}, got {shown(quantity)}.")
    needed = {"gap": ("columns", columns), "fall": ("column", column), "difference": ("other", other)}
    name, value = needed.get(quantity, ("", ""))
    if value is None:
        raise StatementError(f"Expected {setting(name)} for {shown(quantity)}, got none.")
    _check_domain(domain)
    scored = ScoredModel(model, outputs)
    scored.check_score()
    checker, seconds = Checker(scored, domain, outputs, None), check_time_limit(time_limit)

    def work(quantity: str, clock: Clock) -> Measured:
        began = time.monotonic()
        if quantity == "range":
            low, high = (checker.extreme(sign, clock.share(share)) for sign, share in ((-1, 0.5), (1, 1.0)))
            bounds: Any = (low[1], low[0]), (high[0], high[1])
            return Measured(quantity, bounds, (low[2], high[2]), time.monotonic() - began)
        if quantity == "gap":
            most = checker.difference(Insensitive(columns or ()).columns, None, None, clock)
        elif quantity == "fall":
            asked = Monotone(column, direction)  # type: ignore[arg-type]
            most = checker.difference((asked.column,), (asked.column, direction), None, clock)
        else:
            ways = [
                checker.difference((), None, (other, sign), clock.share(0.5 if sign > 0 else 1.0)) for sign in (1, -1)
            ]
            most = max(ways, key=lambda found: found.reached)
            most = most._replace(proved=max(found.proved for found in ways))
        return Measured(quantity, (most.reached, most.proved), most.pair, time.monotonic() - began)

    (measured,) = _in_threads(work, [quantity], seconds, 1)
    return measured


def _check_domain(domain: Any) -> None:
    if not isinstance(domain, Domain):
        raise StatementError(f"Expected a Domain, as Domain.from_data(X) returns, got {shown(domain)}.")

"""check: prove or refute statements about all inputs of a model; measure: the numbers that such statements speak of."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from certiforest.attack.attacker import Attacker
from certiforest.attack.parameters import Column
from certiforest.attack.rules import RuleAttacker
from certiforest.certification import certify
from certiforest.ensemble import TreeEnsemble
from certiforest.ensemble.rows import labels_of
from certiforest.formats.scored import ScoredModel
from certiforest.proof.clock import Clock
from certiforest.rows.asking import check_n_jobs, check_time_limit
from certiforest.statements.compared import Answer, Compared, Side
from certiforest.statements.domain import Domain
from certiforest.statements.kinds import Insensitive, Monotone, Range, Robust, Same, Statement, StatementError
from certiforest.statements.proofs import header_of, proved_line, refuted_line, words_of
from certiforest.statements.results import Measured, Results, StatementResult
from certiforest.statements.space import Space
from certiforest.version import __version__
from certiforest.words import setting, shown

Progress = Callable[[int, int], None]
OUTPUTS, QUANTITIES = ("probability", "score"), ("range", "gap", "fall", "difference")


def check(
    model: Any,
    statements: Statement | Iterable[Statement],
    domain: Domain,
    *,
    rows: tuple[Any, Any] | None = None,
    outputs: str = "probability",
    time_limit: float = 60.0,
    n_jobs: int | None = 1,
    proof: bool = False,
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
    proof : bool, default=False
        Whether to keep what shows it, for ``results.save(path)``: of all that is decided but `Robust`.
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
    checker, results, seconds = Checker(model, domain, outputs, rows, proof), [], check_time_limit(time_limit)
    for statement in listed:
        if not isinstance(statement, Statement):
            raise StatementError(f"Expected a statement, got {shown(statement)}.")
    for result in _in_threads(checker.check, listed, seconds, check_n_jobs(n_jobs)):
        results.append(result)
        if progress is not None:
            progress(len(results), len(listed))
    return Results(results).with_header(*checker.header()) if proof else Results(results)


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
    proof: bool = False,
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
    outputs, time_limit, proof
        See `check`; ``time_limit`` is for all of it. A certificate states what is proved.

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
    checker, seconds = Checker(model, domain, outputs, proof=proof), check_time_limit(time_limit)
    one, header = checker.scores(), checker.header() if proof else ()

    def find(quantity: str, clock: Clock) -> Measured:
        """Return the quantity, within bounds if the clock is up before it is known."""
        began = time.monotonic()
        if quantity == "range":
            low, high = (one.extreme(sign, clock.share(share)) for sign, share in ((-1, 0.5), (1, 1.0)))
            bounds: Any = (low.proved, low.reached), (high.reached, high.proved)
            words: dict[str, Any] = {"range": [low.proved, high.proved]}
            line = proved_line(words, checker.models_of(None), [high.shown, low.shown]) if proof else None
            return Measured(quantity, bounds, (low.pair, high.pair), time.monotonic() - began, line, *header)
        if quantity == "gap":
            ways = [checker.scores(Insensitive(columns or ()).columns)]
            words = {"gap": checker.columns_of(columns or ())}
        elif quantity == "fall":
            asked = Monotone(column, direction)  # type: ignore[arg-type]
            ways = [checker.scores([asked.column], (asked.column, direction))]
            words = {"fall": checker.columns_of([asked.column])[0], "direction": direction}
        else:
            both = checker.scores_with(other)
            ways, words = [both, both.swapped], {"difference": both.second.model.ensemble.sha256}
        found = [way.most(clock.share(1 / (len(ways) - i))) for i, way in enumerate(ways)]
        most = max(found, key=lambda most: most.reached)
        bounds = most.reached, max(most.proved for most in found)
        words["most"] = bounds[1]
        line = proved_line(words, checker.models_of(other), [way.shown for way in found]) if proof else None
        return Measured(quantity, bounds, most.pair, time.monotonic() - began, line, *header)

    (measured,) = _in_threads(find, [quantity], seconds, 1)
    return measured


class Checker:
    """A model in a domain, asked about one statement after the other."""

    def __init__(
        self, model: Any, domain: Domain, outputs: str, rows: tuple[Any, Any] | None = None, proof: bool = False
    ) -> None:
        if not isinstance(domain, Domain):
            raise StatementError(f"Expected a Domain, as Domain.from_data(X) returns, got {shown(domain)}.")
        if outputs not in OUTPUTS:
            raise StatementError(f"Expected {setting('outputs')} to be {' or '.join(OUTPUTS)}, got {shown(outputs)}.")
        self._scored, self._domain, self._outputs, self._rows = ScoredModel(model, outputs), domain, outputs, rows
        if rows is not None and len(rows) == 2 and rows[1] is not None and not self._scored.is_regressor:
            labels_of(rows[1], len(rows[0]), self._scored.ensemble.classes)  # before any work is done
        self._space = Space([self._scored.ensemble], domain)
        self._compared: list[tuple[Any, Compared]] = []
        self._is_proof_wanted = proof

    def header(self) -> tuple[dict[str, Any], TreeEnsemble]:
        """Return the first line of a certificate, and the model it is about."""
        names = self._domain.columns or self._scored.ensemble.feature_names
        about = {"made by": f"certiforest {__version__}", **({} if names is None else {"columns": list(names)})}
        return header_of(self._scored, self._space, about), self._scored.ensemble

    def check(self, statement: Statement, clock: Clock) -> StatementResult:
        """Prove or refute a statement, which holds if it does not fail in any way."""
        began, proved, reached, holds, proofs = time.monotonic(), -math.inf, -math.inf, True, list[Any]()
        for answer in self._answers(statement, clock):
            if answer.holds is False:
                rows, words = answer.shown, self.words_of(statement)
                models = self.models_of(getattr(statement, "other", None))
                line = refuted_line(words, models, rows) if words and rows is not None else None
                return StatementResult(statement, False, answer.pair, answer.bounds, time.monotonic() - began, line)
            holds = holds and answer.holds is True
            proved, reached = max(proved, answer.bounds[0]), max(reached, answer.bounds[1])
            proofs.append(answer.shown)
        words = self.words_of(statement) if holds else None
        models = self.models_of(getattr(statement, "other", None))
        line = proved_line(words, models, proofs) if words else None
        return StatementResult(statement, holds or None, None, (proved, reached), time.monotonic() - began, line)

    def columns_of(self, columns: Sequence[Column]) -> list[int]:
        """Return columns by index."""
        return self._space.columns_of(columns)

    def words_of(self, statement: Statement) -> dict[str, Any] | None:
        """Return a statement as a certificate has it; None if none is wanted, or it is about rows."""
        if not self._is_proof_wanted or isinstance(statement, Robust):
            return None
        return words_of(statement, self._space, self.models_of(getattr(statement, "other", None))[-1])

    def models_of(self, other: Any) -> list[ScoredModel]:
        """Return this model, and another one if that was compared with it."""
        return [self._scored, *(both.second.model for known, both in self._compared if known is other)]

    def _answers(self, statement: Statement, clock: Clock) -> Iterator[Answer]:
        """Yield what is known of each way in which a statement can fail."""
        match statement:
            case Range(low, high):
                one, (lowest, highest) = self.scores(), self._scored.ends
                if high < highest:
                    yield one.stays_within(high, 1, clock)
                if low > lowest:
                    yield one.stays_within(low, -1, clock)
            case Insensitive(columns, None):
                self._check_decides("low and high")
                if self._space.tells_apart(columns):  # else the same sums decide, however near to a tie
                    yield from self._inputs(columns).decide_alike(clock)
            case Insensitive(columns, low, high):
                assert low is not None
                assert high is not None
                one = self.scores(columns)
                if low > self._scored.ends[0] or self._scored.is_probability:
                    yield one.never_apart(low, high, clock)
            case Monotone(column, direction, tolerance):
                yield self.scores([column], (column, direction)).never_exceeds(tolerance, clock)
            case Same(other, None):
                self._check_decides("a tolerance")
                yield from self._models(other).decide_alike(clock)
            case Same(other, tolerance):
                assert tolerance is not None
                both = self.scores_with(other)
                yield both.never_exceeds(tolerance, clock)
                yield both.swapped.never_exceeds(tolerance, clock)
            case Robust(attacker, at_least):
                yield self._withstand(attacker, at_least, clock)

    def scores(self, columns: Sequence[Column] = (), ordered: tuple[Column, str] | None = None) -> Compared:
        """Return the scores of two inputs that differ in columns only, or of one; see `InputQuestion`."""
        self._scored.check_score()
        return self._inputs(columns, ordered)

    def scores_with(self, other: Any) -> Compared:
        """Return the scores of two models, for the same class, for one input."""
        self._scored.check_score()
        both = self._models(other)
        both.second.model.check_score()
        both.second.model.speak_for(self._scored.label)
        return both

    def _inputs(self, columns: Sequence[Column], ordered: tuple[Column, str] | None = None) -> Compared:
        sides = [Side(self._scored, place, 0, self._scored.n_outputs) for place in (0, 1)]
        return Compared(sides[0], sides[1], self._space, columns, ordered, self._is_proof_wanted)

    def _models(self, other: Any) -> Compared:
        """Return this model and another one, or the path of one, which is translated once."""
        for known, both in self._compared:
            if known is other:
                return both
        models = self._scored, ScoredModel(other, self._outputs)
        if models[0].is_regressor != models[1].is_regressor:
            raise StatementError("Expected two classifiers or two regressors, got one of each.")
        n_first, n_second = (model.n_outputs for model in models)
        both = Compared(
            Side(models[0], 0, 0, n_first + n_second),
            Side(models[1], 1, n_first, n_first + n_second),
            Space([model.ensemble for model in models], self._domain),
            is_proof_wanted=self._is_proof_wanted,
        )
        self._compared.append((other, both))
        return both

    def _check_decides(self, instead: str) -> None:
        if self._scored.is_regressor:
            raise StatementError(f"Expected {instead} for a regressor, which has no decisions, got none.")

    def _withstand(self, attacker: Attacker | RuleAttacker, at_least: float, clock: Clock) -> Answer:
        """Tell whether a share of the rows withstands an attacker."""
        if self._rows is None or len(self._rows) != 2 or self._rows[1] is None:
            raise StatementError(f"Expected {setting('rows')} with labels for a statement about robustness, got none.")
        if self._scored.is_regressor:
            raise StatementError("Expected a classifier for a statement about robustness, got a regressor.")
        ensemble, (X, y) = self._scored.ensemble, self._rows
        resolved = attacker.resolve(
            ensemble.n_features, self._domain.columns or ensemble.feature_names, ensemble.categorical
        )
        low, high = certify(ensemble, X, y, resolved, total_time_limit=clock.left).robust_accuracy_bounds
        holds = True if low >= at_least else False if high < at_least else None
        return Answer(holds, (at_least - low, at_least - high))

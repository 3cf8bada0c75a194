"""Clock: the one place that knows when time is up."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from certiforest.compiled import seconds_compiling


class OutOfTime(Exception):  # noqa: N818 -- an outcome, not an error of the caller
    """Time is up before a question was settled."""


class Clock:
    """Seconds for each question, and for all of them together.

    While kernels compile, which only first calls do, the seconds of a question stand still: what is found out is not to
    depend on that.

    Parameters
    ----------
    per_question : float
    in_all : float, default=inf
        From now on.
    is_stopped : callable, optional
        Whether work is to end at once.
    """

    def __init__(
        self, per_question: float, in_all: float = math.inf, is_stopped: Callable[[], bool] = lambda: False
    ) -> None:
        self._per_question, self._end, self._is_stopped = per_question, time.monotonic() + in_all, is_stopped
        self._start, self._question_end = 0.0, math.inf

    def start(self, *, at_least: float = 0.0, spent: float = 0.0) -> Clock:
        """Return the clock of one question, of whose seconds some are spent; at least so many are left."""
        one, now = Clock(self._per_question, is_stopped=self._is_stopped), _seconds_not_compiling()
        one._end, one._start = self._end, now - spent
        one._question_end = max(one._start + self._per_question, now + at_least)
        return one

    def share(self, share: float) -> Clock:
        """Return a clock for a share of what is left."""
        clock = self.start()
        clock._question_end = _seconds_not_compiling() + share * self.left
        return clock

    @property
    def spent(self) -> float:
        """Seconds that a question has taken so far."""
        return _seconds_not_compiling() - self._start

    @property
    def left(self) -> float:
        """Seconds that are left."""
        return max(min(self._end - time.monotonic(), self._question_end - _seconds_not_compiling()), 0.0)

    @property
    def is_up(self) -> bool:
        """Whether time is up."""
        return self.left == 0.0 or self._is_stopped()

    @property
    def counts_attempts(self) -> bool:
        """Whether questions have no seconds, but an attempt each."""
        return self._per_question == 0

    @property
    def is_over(self) -> bool:
        """Whether time is up for all questions."""
        return time.monotonic() >= self._end or self._is_stopped()

    def check(self) -> None:
        """Raise `OutOfTime` if time is up."""
        if self.is_up:
            raise OutOfTime


def _seconds_not_compiling() -> float:
    """Return the time of a clock that stands still while kernels compile; only differences have a meaning."""
    return time.monotonic() - seconds_compiling()

"""Clock: the one place that knows when time is up."""

from __future__ import annotations

import math
import time
from collections.abc import Callable


class OutOfTime(Exception):  # noqa: N818 -- an outcome, not an error of the caller
    """Time is up before a question was settled."""


class Clock:
    """Seconds for each question about a row, and for all of them together.

    Parameters
    ----------
    per_row : float
    in_all : float, default=inf
        From now on.
    is_stopped : callable, optional
        Whether work is to end at once.
    """

    def __init__(
        self, per_row: float, in_all: float = math.inf, is_stopped: Callable[[], bool] = lambda: False
    ) -> None:
        self._per_row, self._end, self._is_stopped = per_row, time.monotonic() + in_all, is_stopped
        self._row_end = math.inf

    def start(self, *, at_least: float = 0.0) -> Clock:
        """Return the clock of one question, which starts now."""
        row = Clock(self._per_row, is_stopped=self._is_stopped)
        row._end, row._row_end = self._end, time.monotonic() + max(self._per_row, at_least)
        return row

    @property
    def left(self) -> float:
        """Seconds that are left."""
        return max(min(self._end, self._row_end) - time.monotonic(), 0.0)

    @property
    def is_up(self) -> bool:
        """Whether time is up."""
        return self.left == 0.0 or self._is_stopped()

    def check(self) -> None:
        """Raise `OutOfTime` if time is up."""
        if self.is_up:
            raise OutOfTime

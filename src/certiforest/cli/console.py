"""What people see: lines and tables, JSON for machines, progress bars. The only place that prints.

Texts that come from files or were typed are shown as they are: never taken for markup, control characters as escapes,
and characters that the terminal cannot show as escapes, too.
"""

from __future__ import annotations

import contextlib
import io
import json
import logging
import math
import os
import sys
import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from certiforest.words import printable

SECONDS_BETWEEN_LINES = 60
WIDTH_OF_FILES = 160  # a file or pipe has no width to fit into


def show_facts(title: str, facts: Iterable[tuple[str, str]]) -> None:
    """Print a table of two columns: what, and how much."""
    table = Table(show_header=False)
    table.add_column(style="bold")
    table.add_column()
    for fact in facts:
        table.add_row(*map(_plain, fact))
    _show(title, table)


def show_table(title: str | None, columns: Sequence[str], rows: Iterable[Sequence[str]], n_left: int = 1) -> None:
    """Print a table with headings; numbers, in all but the first ``n_left`` columns, are set to the right."""
    table = Table()
    for number, column in enumerate(columns):
        table.add_column(_plain(column), justify="left" if number < n_left else "right")
    for row in rows:
        table.add_row(*map(_plain, row))
    _show(title, table)


class _Page(io.StringIO):
    """Takes what is printed, in the encoding of standard output, to be written at once."""

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return getattr(sys.stdout, "encoding", None) or "utf-8"


def _show(title: str | None, table: Table) -> None:
    page, is_terminal = _Page(), _is_terminal(sys.stdout)
    console = Console(file=page, force_terminal=is_terminal, width=None if is_terminal else WIDTH_OF_FILES)
    if title is not None:  # on a line of its own, as a table would wrap it to its own width
        console.print(_plain(title), soft_wrap=True, style="italic")
    console.print(table)
    _write(page.getvalue())


def _plain(text: str) -> Text:
    return Text(printable(text))


def say(text: str) -> None:
    """Print one line as it is."""
    _write(printable(text) + "\n")


def say_json(document: Any) -> None:
    """Print a document for machines."""
    _write(json.dumps(document, indent=2, allow_nan=False) + "\n")


def complain(text: str) -> None:
    """Print one line on standard error; where that is closed, nobody listens."""
    if sys.stderr is None:
        return
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.write(f"certiforest: {_encodable(printable(' '.join(text.split())), sys.stderr)}\n")
        sys.stderr.flush()


class ClosedError(Exception):
    """Standard output does not take what is printed."""


def _write(text: str) -> None:
    if sys.stdout is None:
        return
    try:
        sys.stdout.write(_encodable(text, sys.stdout))
        sys.stdout.flush()  # a full disk or a closed pipe is noticed while it can be told
    except OSError as error:
        raise ClosedError(f"Expected to print on standard output, got: {error.strerror}.") from None


def _encodable(text: str, stream: Any) -> str:
    encoding = getattr(stream, "encoding", None) or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)


def open_missing_streams() -> None:
    """Take up the numbers of closed standard streams, lest a file opened later gets one, and what libraries print."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    if sys.stderr is None:  # some libraries take its methods when they are imported
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 -- until the process ends


def say_warnings_in_one_line() -> None:
    """Let warnings of libraries look like those of ours."""
    warnings.showwarning = lambda message, *_, **__: complain(f"warning: {message}")


class _Notice(logging.Handler):
    """Says, once, why a run waits, and counts what it waits for."""

    def __init__(self, name: str, text: str) -> None:
        super().__init__()
        self._text, self.n = text, 0
        logging.getLogger(name).setLevel(logging.INFO)
        logging.getLogger(name).addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        self.n += 1
        if self.n == 1:
            complain(self._text)


_compiling: _Notice | None = None


def say_what_is_waited_for() -> None:
    """Say, each once, on a terminal, why a run waits: kernels are compiled and kept, a large model is prepared."""
    global _compiling
    if _is_terminal(sys.stderr):
        text = "compiling what runs for the first time, once: it is kept ('certiforest warm' compiles everything)"
        _compiling = _Notice("certiforest.kernel_cache", text)
        _Notice("certiforest.problem.verifier", "preparing a large model, once for all rows")


def say_what_was_waited_for() -> None:
    """Say, on a terminal, how much was compiled."""
    if _compiled():
        complain(f"compiled {_compiled()}; later runs find what was compiled")


def _compiled() -> str:
    n = 0 if _compiling is None else _compiling.n
    return f"{n} kernel{'s' * (n != 1)}" if n else ""


class _Compiled(ProgressColumn):
    """How many kernels were compiled meanwhile, which bars wait for."""

    def render(self, task: Task | None) -> Text:
        return Text(f"{_compiled()} compiled" if _compiled() else "")


def close_broken_streams() -> None:
    """Leave nothing to be printed when the process ends: Python would end with a code of its own if that fails."""
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except (OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _is_terminal(stream: Any) -> bool:
    return stream is not None and stream.isatty()


class Steps:
    """Counts steps of a task: on a progress bar, or, where nobody watches, in a line a minute."""

    def __init__(self, bar: Progress, title: str, total: int | None, is_seen: bool) -> None:
        self._bar, self._title, self._is_seen = bar, title, is_seen
        self._task = bar.add_task(title, total=total)
        self._last, self._done = math.inf, 0.0  # when a line was written, and what was done then

    def __call__(self, n_steps: int) -> None:
        """Count more steps as done."""
        self._bar.advance(self._task, n_steps)
        now, task = time.monotonic(), self._bar.tasks[self._task]
        if not self._done:  # how long the first step took says nothing of the others
            self._last, self._done = now, task.completed
        if self._is_seen or now - self._last < SECONDS_BETWEEN_LINES:
            return
        done, total, more = int(task.completed), task.total, task.completed - self._done
        # What was kept from before took no time, and rows differ: the last minute tells how long the rest takes.
        left = f", {_duration((now - self._last) / more * (total - done))} left" if total and more else ""
        self._last, self._done = now, task.completed
        complain(f"{self._title}: {done:,}{f' of {int(total):,}' if total else ''}{left}")


def _duration(seconds: float) -> str:
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min"


@contextmanager
def progress_bar(title: str, total: int | None) -> Iterator[Steps]:
    """Show a bar with the time left while standard error is a terminal; yields what counts steps.

    Where nobody knows how many steps there are, ``total`` is None.
    """
    description = TextColumn("{task.description}", markup=False)
    columns = (description, BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), _Compiled())
    is_seen = _is_terminal(sys.stderr)
    console = Console(stderr=True) if is_seen else Console(file=io.StringIO())
    bar = Progress(*columns, console=console, transient=True)
    with bar if is_seen else nullcontext():  # a disabled bar leaves an empty line in older versions of rich
        yield Steps(bar, printable(title), total, is_seen)

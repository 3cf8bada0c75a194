"""What a gate found, for pages of a job: each statement, its answer and the reason, as JUnit tests and as Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, NamedTuple
from xml.etree import ElementTree as Xml

import typer

from certiforest.cli.options import ADDED_TO, OutputOptions
from certiforest.files import write_atomically
from certiforest.words import ANSWERS, counted, printable

MARKUP = re.compile(r"([\\`*_<>|\[\]~&#])")


class Outcome(NamedTuple):
    """A statement, whether it holds, None if that is not decided, and why not."""

    statement: str
    holds: bool | None
    reason: str = ""
    details: str = ""
    seconds: float = 0.0


@dataclass(frozen=True, kw_only=True)
class GateOptions(OutputOptions):
    """Where results go, also for the pages of a job in CI."""

    junit: Annotated[Path | None, typer.Option(metavar="XML", help="Also write each statement as a JUnit test.")] = None
    summary: Annotated[
        Path | None, typer.Option(metavar="MD", help="Also add a summary to this file of Markdown, if it is there.")
    ] = None

    def check(
        self, files: dict[str, Path | None], inputs: Sequence[str | Path] = (), *, place: Path | None = None
    ) -> None:
        """Refuse what cannot be written, as all commands do."""
        super().check({**files, "--junit": self.junit, ADDED_TO: self.summary}, inputs, place=place)

    def write_outcomes(self, title: str, outcomes: Sequence[Outcome], facts: Iterable[tuple[str, str]] = ()) -> None:
        """Write the files of a gate that were asked for."""
        if self.junit is not None:
            self.write(self.junit, _as_junit(title, outcomes))
        if self.summary is not None:
            before = self.summary.read_bytes() if self.summary.exists() else b""
            write_atomically(self.summary, before + _as_markdown(title, outcomes, facts).encode())


def _as_junit(title: str, outcomes: Sequence[Outcome]) -> str:
    """Return a test for each statement; one that is not decided is an error, one that does not hold a failure."""
    answers = [outcome.holds for outcome in outcomes]
    counts = {"tests": len(answers), "failures": answers.count(False), "errors": answers.count(None)}
    suite = Xml.Element("testsuite", {"name": printable(title), **{name: str(n) for name, n in counts.items()}})
    for statement, holds, reason, details, seconds in outcomes:
        name, kind = printable(statement), "error" if holds is None else "failure"
        test = Xml.SubElement(suite, "testcase", classname="certiforest", name=name, time=f"{seconds:.3f}")
        if holds is not True:
            Xml.SubElement(test, kind, message=printable(reason)).text = printable(details)
    return Xml.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"


def _as_markdown(title: str, outcomes: Sequence[Outcome], facts: Iterable[tuple[str, str]]) -> str:
    """Return a table of statements, those that do not hold first, and one of facts."""
    n_hold = sum(outcome.holds is True for outcome in outcomes)
    first = [f"### {_plain(title)}", ""]
    if outcomes:
        first += [f"{n_hold} of {counted(len(outcomes), 'statement')} hold.", ""]
    ranked = sorted(outcomes, key=lambda outcome: outcome.holds is True)
    answers = [(outcome.statement, ANSWERS[outcome.holds], outcome.reason) for outcome in ranked]
    return "\n".join([*first, *_table("Statement", "Answer", "Reason", rows=answers), *_table("", "", rows=facts), ""])


def _table(*heads: str, rows: Iterable[Sequence[str]]) -> list[str]:
    lines = [f"| {' | '.join(map(_plain, row))} |" for row in rows]
    return [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|", *lines, ""] if lines else []


def _plain(text: str) -> str:
    """Return a text in a line that Markdown shows as it is."""
    return MARKUP.sub(r"\\\1", " ".join(printable(text).split()))

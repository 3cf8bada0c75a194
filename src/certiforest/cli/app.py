"""All commands together, and what becomes of their errors.

Exit codes: 0 done, 1 robust accuracy below ``--require``, a statement not proved or a certificate not confirmed, 2 bad
input (one line on stderr), 70 a defect of ours (one line that asks to report it), 130 interrupted.
``CERTIFOREST_TRACEBACK=1`` shows where an error or defect comes from.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Sequence
from typing import Annotated, Any

import typer

import certiforest
from certiforest.cli import INTERRUPTED, console
from certiforest.cli.certify import certify
from certiforest.cli.demo import datasets, demo, warm
from certiforest.cli.models import audit, convert, relations, spread
from certiforest.cli.options import InputError, command
from certiforest.cli.reports import compare, explain, report
from certiforest.cli.statements import check, measure
from certiforest.cli.train import train

# typer carries a click of its own; its errors are reached through the one that it exports.
ClickError: Any = typer.BadParameter.__mro__[2]
DONE, BAD_INPUT, DEFECT = 0, 2, 70
TRACEBACK_VARIABLE = "CERTIFOREST_TRACEBACK"

app = typer.Typer(
    name="certiforest",
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
COMMANDS = (
    demo, train, certify, report, explain, compare, check, measure, audit, spread, relations, convert, datasets, warm,
)  # fmt: skip
for _function in COMMANDS:
    app.command()(command(_function))


@app.callback(invoke_without_command=True)
def _front(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    """Tree ensembles whose robustness against evasion attacks is proved.

    An attacker may move a row by eps. Verdicts are proved, not sampled:
    a row is predicted right or wrong, and an attack can change that or
    cannot; where neither was proved in time, it is not decided.

    [bold]From a CSV file to a report[/bold]

      certiforest train a.csv --target y --scale --eps 0.02 --out m.json

      certiforest certify m.json a.csv --target y --part test --eps 0.02

      certiforest report m.json a.csv --target y --part test --eps 0.02

    [bold]Nothing at hand?[/bold]

      certiforest demo
    """
    if version:
        console.say(f"certiforest {certiforest.__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        context.get_help()
        raise typer.Exit


def run(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    if argv is None:
        console.open_missing_streams()
        console.say_warnings_in_one_line()
        console.say_what_is_waited_for()
    try:
        code = _run(argv)
    except Exception as error:
        if os.environ.get(TRACEBACK_VARIABLE):
            raise
        code, sentence = _explain(error)
        console.complain(f"error: {sentence}")
    if code == INTERRUPTED:
        console.complain("Interrupted; every file that was written is whole.")
    console.say_what_was_waited_for()
    if argv is None:  # the process ends here: looking for cycles in what libraries loaded takes 0.4 s
        gc.freeze()
        console.close_broken_streams()
    return code


def _run(argv: Sequence[str] | None) -> int:
    if any("\0" in word for word in argv or ()):  # which only Python can pass
        raise InputError("Expected words without null bytes, got one with such.")
    try:
        result = typer.main.get_command(app).main(
            args=None if argv is None else list(argv), prog_name="certiforest", standalone_mode=False
        )
    except (typer.Abort, KeyboardInterrupt):  # some versions of typer turn Ctrl-C into the code themselves
        return INTERRUPTED
    except typer.Exit as exit_:
        return exit_.exit_code
    except SystemExit:  # so typer ends where help cannot be printed
        raise console.ClosedError("Expected to print on standard output, got: Broken pipe.") from None
    return result if isinstance(result, int) else DONE


def _explain(error: Exception) -> tuple[int, str]:
    """Return the exit code for an error, and a sentence about it."""
    if isinstance(error, ClickError):
        return BAD_INPUT, error.format_message()
    if isinstance(error, MemoryError):
        return BAD_INPUT, "Expected work that fits into memory, got more than that; use fewer rows, columns or trees."
    if isinstance(error, (InputError, console.ClosedError)) or _is_named(error):
        return BAD_INPUT, str(error)
    if isinstance(error, OSError):
        where = "" if error.filename is None else f" {error.filename}"
        return BAD_INPUT, f"Expected the system to read or write{where}, got: {error.strerror or type(error).__name__}."
    return DEFECT, (
        f"This is a defect of certiforest ({type(error).__name__}: {error}). Please report it with the command you"
        f" typed; {TRACEBACK_VARIABLE}=1 shows where it happened."
    )


def _is_named(error: Exception) -> bool:
    """Tell whether an error is one of those by which the library says that input is not what it should be."""
    kinds = type(error).__mro__
    return any(kind.__module__.startswith("certiforest.") and kind.__name__ in certiforest.__all__ for kind in kinds)

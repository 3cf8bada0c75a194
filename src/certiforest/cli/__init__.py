"""The command line: what people type, and what they see of it."""

import sys

TYPE_CHECKING = False  # nothing is imported before Ctrl-C is answered
if TYPE_CHECKING:
    from collections.abc import Sequence

INTERRUPTED = 130


def main(argv: "Sequence[str] | None" = None) -> int:
    """Run one command and return its exit code.

    What is slow to import comes in here, so that Ctrl-C is answered by a sentence from the first moment on.
    """
    try:
        from certiforest.cli.app import run
    except KeyboardInterrupt:
        if sys.stderr is not None:
            sys.stderr.write("certiforest: Interrupted; nothing was written.\n")
        return INTERRUPTED
    return run(argv)

"""``certiforest audit``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from certiforest.files import check_readable


def audit(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="Model file of certiforest; convert writes one.")],
    certificate: Annotated[Path, typer.Argument(metavar="CERTIFICATE", help="What certify --proof wrote.")],
) -> None:
    """Check every statement of a certificate, exactly and on its own.

    [bold]Example[/bold]

      certiforest audit m.json rows.cert.jsonl

    Exit code 0: all statements are confirmed; 1: something is refuted or
    not proved. The program behind this needs nothing but Python: copy the
    file audit.py of this package and run python -I audit.py.
    """
    for path, what in ((model, "model file"), (certificate, "certificate")):
        check_readable(path, what)
    from certiforest.audit import main

    raise typer.Exit(main([str(model), str(certificate)]))

"""Documents: files of domains and contracts, JSON text with a format and a version, read as data."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from certiforest.ensemble.documents import read_json
from certiforest.files import check_readable
from certiforest.words import shown

VERSION = 1
Read = TypeVar("Read")


def without_header(document: Any, form: str, error: type[ValueError]) -> dict[str, Any]:
    """Check format and version of a document, and return the rest."""
    if not isinstance(document, dict) or document.get("format") != form:
        raise error(f'Expected the entry "format": "{form}", got none.')
    version = document.get("version")
    if type(version) is not int or version != VERSION:
        raise error(f"Expected version {VERSION}, got {shown(version)}: a newer certiforest may read it.")
    return {name: value for name, value in document.items() if name not in ("format", "version")}


def read_document(
    path: str | os.PathLike[str], what: str, read: Callable[[Any], Read], error: type[ValueError]
) -> Read:
    """Read a file; what is wrong with it is said with its name."""
    check_readable(path, f"file that describes a {what}")
    try:
        return read(read_json(Path(path).read_bytes()))
    except ValueError as problem:
        raise error(f"{path} does not describe a {what}. {problem}") from None

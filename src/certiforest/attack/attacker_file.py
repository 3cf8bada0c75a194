"""Files that describe attackers: JSON text with a format and a version, read as data."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from certiforest.attack.columns import AttackerError
from certiforest.files import check_readable, write_atomically
from certiforest.words import shown

FORMAT, FORMAT_VERSION = "certiforest attacker", 1
Read = TypeVar("Read")


def write_file(path: str | os.PathLike[str], document: dict[str, Any], *, replace: bool) -> None:
    """Write what describes an attacker; entries that are None are left out."""
    document = {"format": FORMAT, "version": FORMAT_VERSION, **document}
    document = {name: value for name, value in document.items() if value is not None}
    write_atomically(path, json.dumps(document, indent=2, allow_nan=False) + "\n", replace=replace)


def read_file(path: str | os.PathLike[str], read: Callable[[Any], Read]) -> Read:
    """Read a JSON file that describes an attacker."""
    check_readable(path, "file that describes an attacker")
    try:
        document = json.loads(Path(path).read_bytes(), object_pairs_hook=_named_once, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        if isinstance(error, AttackerError):
            raise AttackerError(f"{path} does not describe an attacker. {error}") from None
        raise AttackerError(f"Expected {path} to be JSON text, got something else ({error}).") from None
    try:
        return read(document)
    except AttackerError as error:
        raise AttackerError(f"{path} does not describe an attacker. {error}") from None


def without_header(document: Any) -> Any:
    """Check format and version of an attacker's file, and return the rest."""
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise AttackerError(f'Expected the entry "format": "{FORMAT}", got none.')
    version = document.get("version")
    if type(version) is not int or version != FORMAT_VERSION:
        raise AttackerError(
            f"Expected version {FORMAT_VERSION}, got {shown(version)}: a newer certiforest may read it."
        )
    return {name: value for name, value in document.items() if name not in ("format", "version")}


def _named_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) < len(pairs):
        raise AttackerError("Expected every name once, got one twice.")
    return dict(pairs)


def _refuse_constant(name: str) -> None:
    raise AttackerError(f"Expected finite numbers, got {name}.")

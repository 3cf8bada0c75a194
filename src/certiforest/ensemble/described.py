"""Files that describe an attacker, a domain or a contract: JSON text with a format and a version, read as data."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from certiforest.ensemble.documents import read_json
from certiforest.files import check_readable
from certiforest.words import shown

VERSION = 1
Read = TypeVar("Read")


class Kind(NamedTuple):
    """What files of a kind describe, the format that they name, and the error that says what is wrong with one."""

    what: str
    format: str
    error: type[ValueError]

    def read_file(self, path: str | os.PathLike[str], read: Callable[[Any], Read]) -> Read:
        """Return what is read of the document in a file."""
        check_readable(path, f"file that describes {self.what}")
        try:
            return read(read_json(Path(path).read_bytes()))
        except ValueError as problem:
            raise self.error(f"{path} does not describe {self.what}. {problem}") from None

    def without_header(self, document: Any) -> dict[str, Any]:
        """Check format and version of a document, and return the rest."""
        if not isinstance(document, dict) or document.get("format") != self.format:
            raise self.error(f'Expected the entry "format": "{self.format}", got none.')
        version = document.get("version")
        if type(version) is not int or version != VERSION:
            raise self.error(f"Expected version {VERSION}, got {shown(version)}: a newer certiforest may read it.")
        return {name: value for name, value in document.items() if name not in ("format", "version")}

    def with_header(self, document: dict[str, Any]) -> dict[str, Any]:
        """Return a document as it stands in a file; entries that are None are left out."""
        document = {"format": self.format, "version": VERSION, **document}
        return {name: value for name, value in document.items() if value is not None}

"""Contract: the statements that a model is to keep, in a file."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from certiforest.statements.documents import read_document, without_header
from certiforest.statements.kinds import Same, Statement, StatementError, read_statement
from certiforest.words import shown

FORMAT = "certiforest-contract"


def read_contract(path: str | os.PathLike[str]) -> list[Statement]:
    """Read the statements of a contract; paths of other models start where the contract is.

    Raises
    ------
    StatementError
        That says which statement, counted from 1, is none.
    """

    def read(document: Any) -> list[Statement]:
        statements = without_header(document, FORMAT, StatementError)
        if set(statements) != {"statements"} or not isinstance(statements["statements"], list):
            raise StatementError(f"Expected a list, statements, and nothing else, got {shown(sorted(statements))}.")
        return [_read(entry, number) for number, entry in enumerate(statements["statements"], 1)]

    def _read(entry: Any, number: int) -> Statement:
        try:
            statement = read_statement(entry)
        except ValueError as error:
            raise StatementError(f"Statement {number}: {error}") from None
        if isinstance(statement, Same):
            return replace(statement, other=str(Path(path).parent / statement.other))
        return statement

    return read_document(path, "contract", read, StatementError)

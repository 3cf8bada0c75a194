"""CSV: text with a comma, semicolon or tab between cells, as many in every line.

`_read_records` defines what a file says. Where no cell is quoted, NumPy's reader says the same ten times as fast; what
it cannot read is left to the definition, which names the line at fault.
"""

from __future__ import annotations

import csv
import io
import re
import warnings
from collections.abc import Iterator
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from certiforest.data.tables import (
    LARGEST_WHOLE,
    MISSING,
    WHOLE_NUMBER,
    Columns,
    Request,
    Table,
    TableError,
    as_labels,
    choose_columns,
    is_number,
)
from certiforest.words import setting, shown

DELIMITERS = ",;\t"
SPACES = "\x1c\x1d\x1e\x1f"  # that only some readers skip, as they do these:
FURTHER_SPACES = re.compile(r"(?![ \t\n\r\f\v])\s")
BLOCK = 10_000  # rows that are held as Python objects at a time


class _Text(NamedTuple):
    """A file's text, how to cut it, and what it was asked for."""

    text: str
    delimiter: str
    n_skipped: int  # blank lines, and the header
    n_cells: int
    has_header: bool
    wanted: Columns
    request: Request


def read(request: Request) -> Table:
    """Read a CSV file; see `read_table`."""
    text = _open(_read_text(request), request)
    read_rows = _read_plain if _is_plain(text.text) else _read_records
    X, labels = read_rows(text)
    if len(X) == 0:
        raise TableError(f"Expected rows below the header, got none in {request.path}.")
    if labels is not None and request.header is None and not text.has_header:
        _check_first_label(labels, request)
    if np.abs(X).max(initial=0) >= LARGEST_WHOLE:
        _check_whole_numbers(text, X)
    y = None if labels is None else as_labels(labels, request.path)
    return Table(X, y, text.wanted.names_of_features, str(request.path), text.wanted.name_of_target)


def _is_plain(text: str) -> bool:
    """Tell whether all readers see the same cells in a text: none is quoted, and spaces are ordinary ones."""
    return not any(c in text for c in f'"{SPACES}') and (text.isascii() or not FURTHER_SPACES.search(text))


def _read_text(request: Request) -> str:
    try:
        with open(request.path, encoding="utf-8-sig") as file:
            return file.read()
    except UnicodeDecodeError:
        raise TableError(
            f"Expected text in {request.path}, got bytes that are not UTF-8. Is it a CSV file? Else say what it is by"
            f" {setting('kind', None, '--format')}."
        ) from None


def _open(text: str, request: Request) -> _Text:
    """Find out how cells are separated, and whether there are names."""
    n_blank = len(text) - len(text.lstrip("\n"))
    first = text[n_blank:].split("\n", 1)[0]
    if not first.strip():
        raise TableError(f"Expected a line of cells, got a blank one at the start of {request.path}.")
    delimiter = max(DELIMITERS, key=first.count)
    (cells,) = _records(first, delimiter, request)
    is_text = [not is_number(cell) or cell.strip().lower().lstrip("+-") in ("nan", "inf", "infinity") for cell in cells]
    has_header = all(is_text) if request.header is None else request.header
    if request.header is None and len(cells) > 2 and [c.strip() for c in cells] == list(map(str, range(len(cells)))):
        raise TableError(
            f"Expected names or a row in the first line of {request.path}, got 0, 1, 2, ..., which may be either."
            f" Say which by {setting('header', None, '--header or --no-header')}."
        )
    names = tuple(cell.strip() for cell in cells) if has_header else None
    wanted = choose_columns(request, names, len(cells))
    return _Text(text, delimiter, n_blank + has_header, len(cells), has_header, wanted, request)


def _records(text: str, delimiter: str, request: Request) -> Iterator[list[str]]:
    """Yield the cells of every line that is not blank."""
    for _, cells in _numbered_records(text, delimiter, request):
        yield cells


def _numbered_records(text: str, delimiter: str, request: Request) -> Iterator[tuple[int, list[str]]]:
    lines = csv.reader(io.StringIO(text), delimiter=delimiter, strict=True)
    try:
        for cells in lines:
            if cells:
                yield lines.line_num, cells
    except csv.Error as error:
        raise TableError(f"Expected a table in {request.path}, got line {lines.line_num} ({error}).") from None


def _read_records(text: _Text) -> tuple[NDArray[np.float64], list[str] | None]:
    """Read cell by cell."""
    wanted, labels, blocks = text.wanted, [], []
    records = _numbered_records(text.text, text.delimiter, text.request)
    lines = islice(records, int(text.has_header), None)
    while block := list(islice(lines, BLOCK)):
        X = np.empty((len(block), len(wanted.features)))
        for row, (number, cells) in enumerate(block):
            if len(cells) != text.n_cells:
                raise _wrong_width(text, number, len(cells))
            for place, index in enumerate(wanted.features):
                cell = cells[index]
                if not is_number(cell):
                    raise _no_number(text, number, index, cell)
                X[row, place] = float(cell)
            if wanted.target is not None:
                labels.append(cells[wanted.target])
        blocks.append(X)
    X = np.concatenate(blocks) if blocks else np.empty((0, len(wanted.features)))
    return X, None if wanted.target is None else labels


def _read_plain(text: _Text) -> tuple[NDArray[np.float64], list[str] | None]:
    """Read text without quotes at once; what is not as it should be is read cell by cell, to say what it is."""
    wanted, file = text.wanted, io.StringIO(text.text)
    options: dict[str, Any] = {"delimiter": text.delimiter, "skiprows": text.n_skipped, "comments": None}
    if not _has_even_lines(text):
        return _read_records(text)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # about blank lines, which hold no row
            X = np.loadtxt(file, dtype=np.float64, usecols=wanted.features, ndmin=2, **options)
            labels = None
            if wanted.target is not None:
                file.seek(0)
                labels = np.loadtxt(file, dtype=object, usecols=wanted.target, ndmin=1, **options).tolist()
    except (ValueError, IndexError):
        return _read_records(text)
    return X, labels


def _has_even_lines(text: _Text) -> bool:
    """Tell whether every line that is not blank has as many cells as the first."""
    content = np.frombuffer(text.text.encode("utf-8", "surrogatepass"), np.uint8)
    ends = np.append(np.flatnonzero(content == ord("\n")), len(content))
    n_delimiters = np.diff(np.searchsorted(np.flatnonzero(content == ord(text.delimiter)), ends), prepend=0)
    is_blank = np.diff(ends, prepend=-1) == 1
    return bool(((n_delimiters == text.n_cells - 1) | is_blank).all())


def _wrong_width(text: _Text, line: int, n_cells: int) -> TableError:
    first = "the header" if text.has_header else "the first line"
    hint = " If they start with row names, give those a name in the header." if n_cells == text.n_cells + 1 else ""
    return TableError(
        f"Expected {text.n_cells} cells in every line, as in {first}, got {n_cells} in line {line} of"
        f" {text.request.path}.{hint if text.has_header else ''}"
    )


def _no_number(text: _Text, line: int, index: int, cell: str) -> TableError:
    where = f"line {line}, {text.wanted.shown(index)} of {text.request.path}"
    if cell.strip() in MISSING:
        return TableError(f"Expected a number, got a missing value in {where}. Remove or fill such rows first.")
    return TableError(
        f"Expected a number, got {shown(cell)} in {where}. Encode text as numbers, leave the column out by"
        f" {setting('drop', text.wanted.typed(index))}, or name it by {setting('target')} if it is the label."
    )


def _check_first_label(labels: list[str], request: Request) -> None:
    """Refuse a first line that may be names: its label is a text and all others are numbers."""
    if len(labels) > 1 and not is_number(labels[0]) and all(map(is_number, labels[1:])):
        raise TableError(
            f"Expected names or a row in the first line of {request.path}, got the label {shown(labels[0])}, where all"
            f" others are numbers. Say which by {setting('header', None, '--header or --no-header')}."
        )


def _check_whole_numbers(text: _Text, X: NDArray[np.float64]) -> None:
    """Refuse whole numbers that lose digits as float64: they are likely to tell things apart."""
    large = np.abs(X) >= LARGEST_WHOLE
    records = islice(_numbered_records(text.text, text.delimiter, text.request), int(text.has_header), None)
    for row, (line, cells) in enumerate(records):
        for place in np.flatnonzero(large[row]):
            cell = cells[text.wanted.features[place]].strip()
            number = X[row, place]
            if np.isfinite(number) and WHOLE_NUMBER.fullmatch(cell) and int(cell) != int(number):
                raise TableError(
                    f"Expected numbers that float64 holds exactly, got {cell} in line {line},"
                    f" {text.wanted.shown(text.wanted.features[place])} of {text.request.path}; it would become"
                    f" {number:.17g}. Leave the column out, or make its numbers smaller."
                )

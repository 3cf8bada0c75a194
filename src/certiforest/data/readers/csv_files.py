"""CSV: text with a comma, semicolon or tab between cells, as many in every line.

`_read_records` defines what lines say. Where no cell is quoted, NumPy's reader says the same ten times as fast; what
it cannot read is left to the definition, which names the line at fault.
"""

from __future__ import annotations

import csv
import io
import re
import warnings
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain, islice
from typing import Any, NamedTuple, TextIO

import numpy as np
from numpy.typing import NDArray

from certiforest.data.tables import (
    LARGEST_WHOLE,
    MISSING,
    WHOLE_NUMBER,
    Columns,
    ReadBlock,
    Request,
    Table,
    TableError,
    choose_columns,
    is_number,
)
from certiforest.data.text_columns import code_of
from certiforest.ensemble.categories import Codes
from certiforest.words import setting, shown

DELIMITERS = ",;\t"
SPACES = "\x1c\x1d\x1e\x1f"  # that only some readers skip, as they do these:
FURTHER_SPACES = re.compile(r"(?![ \t\n\r\f\v])\s")


class _Text(NamedTuple):
    """Some lines of a file, how to cut them, and what the file was asked for."""

    text: str
    first_line: int
    delimiter: str
    n_skipped: int  # blank lines, and the header
    n_cells: int
    has_header: bool
    wanted: Columns
    request: Request


# Rows, labels, and by column what was text.
Read = tuple[NDArray[np.float64], list[str] | None, dict[int, NDArray]]


def blocks(request: Request) -> Iterator[ReadBlock]:
    """Read a CSV file; see `read_blocks`."""
    with open(request.path, encoding="utf-8-sig") as file:
        text = _open(_read_lines(file, request, n_more=1), request)  # names, maybe
        while _is_plain(text.text):
            yield partial(_read, _read_plain, text, text)
            lines = _read_lines(file, request)
            if not lines:
                return
            n_before = text.first_line + text.text.count("\n")
            text = text._replace(text=lines, first_line=n_before, n_skipped=0)
        # From a quote on, lines are no longer rows: cells may hold line ends.
        records = _numbered_records(chain(io.StringIO(text.text), _further_lines(file, request)), text)
        next(records, None) if text.first_line == 1 and text.has_header else None
        is_first = text.first_line == 1
        while (block := list(islice(records, request.n_rows))) or is_first:
            yield partial(_read, _read_records, text, block)
            is_first, text = False, text._replace(first_line=2)


def _read(read_rows: Callable[..., Read], text: _Text, content: Any) -> Table:
    X, labels, texts = read_rows(text, content)
    request, is_first = text.request, text.first_line == 1
    if is_first and len(X) == 0:
        raise TableError(f"Expected rows below the header, got none in {request.path}.")
    if is_first and labels is not None and request.header is None and not text.has_header:
        _check_first_label(labels, request)
    names = text.wanted.names_of_features, str(request.path), text.wanted.name_of_target
    return Table(X, labels, *names, texts=texts)


def _is_plain(text: str) -> bool:
    """Tell whether all readers see the same cells in a text: none is quoted, and spaces are ordinary ones."""
    return not any(c in text for c in f'"{SPACES}') and (text.isascii() or not FURTHER_SPACES.search(text))


def _read_lines(file: TextIO, request: Request, n_more: int = 0) -> str:
    return "".join(islice(_further_lines(file, request), request.n_rows + n_more))


def _further_lines(file: TextIO, request: Request) -> Iterator[str]:
    try:
        for line in file:  # noqa: UP028 -- "yield from" would close the file when it is left
            yield line
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
    ((_, cells),) = _cut(io.StringIO(first), delimiter, 1, request)
    is_text = [not is_number(cell) or cell.strip().lower().lstrip("+-") in ("nan", "inf", "infinity") for cell in cells]
    has_header = all(is_text) if request.header is None else request.header
    if request.header is None and len(cells) > 2 and [c.strip() for c in cells] == list(map(str, range(len(cells)))):
        raise TableError(
            f"Expected names or a row in the first line of {request.path}, got 0, 1, 2, ..., which may be either."
            f" Say which by {setting('header', None, '--header or --no-header')}."
        )
    names = tuple(cell.strip() for cell in cells) if has_header else None
    wanted = choose_columns(request, names, len(cells))
    return _Text(text, 1, delimiter, n_blank + has_header, len(cells), has_header, wanted, request)


def _numbered_records(lines: Iterable[str], text: _Text) -> Iterator[tuple[int, list[str]]]:
    """Yield the cells of every line that is not blank, and the number of the line."""
    return _cut(lines, text.delimiter, text.first_line, text.request)


def _cut(lines: Iterable[str], delimiter: str, first_line: int, request: Request) -> Iterator[tuple[int, list[str]]]:
    records = csv.reader(lines, delimiter=delimiter, strict=True)
    try:
        for cells in records:
            if cells:
                yield first_line - 1 + records.line_num, cells
    except csv.Error as error:
        line = first_line - 1 + records.line_num
        raise TableError(f"Expected a table in {request.path}, got line {line} ({error}).") from None


def _read_records(text: _Text, records: Iterable[tuple[int, list[str]]]) -> Read:
    """Read cell by cell."""
    wanted, rows, labels = text.wanted, [], []
    coded = _coded(text)
    texts: dict[int, list[str]] = {place: [] for place in coded}
    for number, cells in records:
        if len(cells) != text.n_cells:
            raise _wrong_width(text, number, len(cells))
        row = np.empty(len(wanted.features))
        for place, index in enumerate(wanted.features):
            if place in coded:
                where = f"line {number}, {wanted.shown(index)} of {text.request.path}"
                row[place] = code_of(cells[index], coded[place], where, missing=text.request.missing)
                texts[place].append(cells[index])
                continue
            if text.request.missing and cells[index].strip() in MISSING:
                row[place] = np.nan
                continue
            if not is_number(cells[index]):
                raise _no_number(text, number, index, cells[index])
            row[place] = number_of = float(cells[index])
            if abs(number_of) >= LARGEST_WHOLE:
                _check_whole_number(text, number, index, cells[index], number_of)
        rows.append(row)
        if wanted.target is not None:
            labels.append(cells[wanted.target])
    X = np.stack(rows) if rows else np.empty((0, len(wanted.features)))
    found = {place: np.array(cells, object) for place, cells in texts.items()}
    return X, None if wanted.target is None else labels, found


def _coded(text: _Text) -> dict[int, Codes]:
    """Return the columns that may be text, by place among the features."""
    request = text.request
    return {} if request.texts is None else request.texts.places(text.wanted.names_of_features)


def _read_plain(text: _Text, _: Any) -> Read:
    """Read text without quotes at once; what is not as it should be is read cell by cell, to say what it is."""
    wanted, file = text.wanted, io.StringIO(text.text)
    options: dict[str, Any] = {"delimiter": text.delimiter, "skiprows": text.n_skipped, "comments": None}
    n_names = int(text.has_header and text.first_line == 1)
    records = islice(_numbered_records(io.StringIO(text.text), text), n_names, None)
    if not _has_even_lines(text) or _coded(text):
        return _read_records(text, records)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # about blank lines, which hold no row
            X = np.loadtxt(file, dtype=np.float64, usecols=wanted.features, ndmin=2, **options)
            labels = None
            if wanted.target is not None:
                file.seek(0)
                labels = np.loadtxt(file, dtype=object, usecols=wanted.target, ndmin=1, **options).tolist()
    except (ValueError, IndexError):
        return _read_records(text, records)
    if np.abs(X).max(initial=0) >= LARGEST_WHOLE:
        return _read_records(text, records)
    return X, labels, {}


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


def _check_whole_number(text: _Text, line: int, index: int, cell: str, number: float) -> None:
    """Refuse a whole number that loses digits as float64: it is likely to tell things apart."""
    if np.isfinite(number) and WHOLE_NUMBER.fullmatch(cell.strip()) and int(cell) != int(number):
        raise TableError(
            f"Expected numbers that float64 holds exactly, got {cell.strip()} in line {line},"
            f" {text.wanted.shown(index)} of {text.request.path}; it would become {number:.17g}. Leave the column out,"
            " or make its numbers smaller."
        )

"""CSV: text with a comma, semicolon or tab between cells, as many in every line.

Python's csv cuts lines into cells, and refuses quotes that do not end or that text follows; `float` reads cells, and
rounds correctly.
"""

from __future__ import annotations

import csv
import io
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, islice
from typing import NamedTuple, TextIO

import numpy as np

from certiforest.data.cells import MISSING, WHOLE_NUMBER, TableError, code_of, is_number
from certiforest.data.tables import Columns, ReadBlock, Request, Table, choose_columns
from certiforest.ensemble.numbers import LARGEST_WHOLE
from certiforest.files import DigestedFile
from certiforest.words import setting, shown

DELIMITERS = ",;\t"
ROWS_IN_CACHE = 1024  # read at a time, so that their cells are near
Record = tuple[int, list[str]]  # the number of a line, the last one if it is several, and its cells


class _Layout(NamedTuple):
    """How the lines of a file are made, and what it was asked for."""

    delimiter: str
    n_cells: int
    has_header: bool
    wanted: Columns
    request: Request


def blocks(request: Request) -> Iterator[ReadBlock]:
    """Yield what reads each block of a CSV file; see `read_blocks`."""
    raw = DigestedFile(request.path)
    with io.TextIOWrapper(io.BufferedReader(raw), encoding="utf-8-sig") as file:
        lines, n_blank, first = _lines(file, request), 0, ""
        for first in lines:
            if first != "\n":
                break
            n_blank += 1
        if not first.strip():
            raise TableError(f"Expected a line of cells, got a blank one at the start of {request.path}.")
        layout = _layout(first, request)
        records = _records(chain([first], lines), n_blank, layout.delimiter, request)
        is_first = True
        for record in islice(records, layout.has_header, None):
            block = chain([record], islice(records, request.block_rows - 1))
            yield partial(_read_block, block, layout, may_be_names=is_first and not layout.has_header)
            deque(block, maxlen=0)  # what was not asked for is passed over
            is_first = False
        if is_first:
            raise TableError(f"Expected rows below the header, got none in {request.path}.")
        request.digests[str(request.path)] = raw.sha256.hexdigest()


def _lines(file: TextIO, request: Request) -> Iterator[str]:
    try:
        yield from file
    except UnicodeDecodeError:
        raise TableError(
            f"Expected text in {request.path}, got bytes that are not UTF-8. Is it a CSV file? Else say what it is by"
            f" {setting('kind', None, '--format')}."
        ) from None


def _records(lines: Iterable[str], n_before: int, delimiter: str, request: Request) -> Iterator[Record]:
    """Cut lines that are not blank."""
    records = csv.reader(lines, delimiter=delimiter, strict=True)
    try:
        for cells in records:
            if cells:
                yield n_before + records.line_num, cells
    except csv.Error as error:
        line = n_before + records.line_num
        raise TableError(f"Expected a table in {request.path}, got line {line} ({error}).") from None


def _layout(first: str, request: Request) -> _Layout:
    """Find out how cells are separated, and whether there are names."""
    delimiter = max(DELIMITERS, key=first.count)
    ((_, cells),) = _records([first], 0, delimiter, request)
    is_text = [not is_number(cell) or cell.strip().lower().lstrip("+-") in ("nan", "inf", "infinity") for cell in cells]
    has_header = all(is_text) if request.header is None else request.header
    if request.header is None and len(cells) > 2 and [c.strip() for c in cells] == list(map(str, range(len(cells)))):
        raise TableError(
            f"Expected names or a row in the first line of {request.path}, got 0, 1, 2, ..., which may be either."
            f" Say which by {setting('header', None, '--header or --no-header')}."
        )
    names = tuple(cell.strip() for cell in cells) if has_header else None
    wanted = choose_columns(request, names, len(cells))
    return _Layout(delimiter, len(cells), has_header, wanted, request)


def _read_block(block: Iterator[Record], layout: _Layout, may_be_names: bool) -> Table:
    table = Table.concat([_read_rows(part, layout) for part in iter(lambda: list(islice(block, ROWS_IN_CACHE)), [])])
    if may_be_names and table.y is not None and layout.request.header is None:
        _check_first_label(table.y.tolist(), layout.request)
    return table


def _read_rows(records: Sequence[Record], layout: _Layout) -> Table:
    wanted, request = layout.wanted, layout.request
    for line, cells in records:
        if len(cells) != layout.n_cells:
            raise _wrong_width(layout, line, len(cells))
    columns = list(zip(*(cells for _, cells in records), strict=True))
    X = np.empty((len(records), len(wanted.features)))

    def read_each(read: Callable[[str, str], float], index: int) -> list[float]:
        where = f"{wanted.in_message(index)} of {request.path}"
        return [read(cells[index], f"line {line}, {where}") for line, cells in records]

    for place, index in enumerate(wanted.features):
        if place in wanted.codes:
            X[:, place] = read_each(partial(code_of, codes=wanted.codes[place], missing=request.missing), index)
            continue
        try:
            X[:, place] = list(map(float, columns[index]))
            # What Python reads and others do not, and numbers that may lose digits, are looked at one by one.
            text = "".join(columns[index])
            is_plain = text.isascii() and "_" not in text and bool((np.abs(X[:, place]) < LARGEST_WHOLE).all())
        except ValueError:
            is_plain = False
        if not is_plain:
            X[:, place] = read_each(partial(_read_number, layout=layout, index=index), index)
    texts = {place: np.array(columns[wanted.features[place]], object) for place in wanted.codes}
    return wanted.table(X, None if wanted.target is None else np.array(columns[wanted.target], object), request, texts)


def _read_number(cell: str, where: str, layout: _Layout, index: int) -> float:
    """Read a number that float64 holds; a whole number that would lose digits is likely to tell things apart."""
    if cell.strip() in MISSING and (layout.request.missing or not is_number(cell)):
        if layout.request.missing:
            return np.nan
        raise TableError(f"Expected a number, got a missing value in {where}. Remove or fill such rows first.")
    if not is_number(cell):
        raise TableError(
            f"Expected a number, got {shown(cell)} in {where}. Encode text as numbers (a model that holds no values of"
            f" its categories takes their codes), leave the column out by"
            f" {setting('drop', layout.wanted.as_option(index))}, or name it by {setting('target')} if it is the label."
        )
    number = float(cell)
    if np.isfinite(number) and WHOLE_NUMBER.fullmatch(cell.strip()) and int(cell) != int(number):
        raise TableError(
            f"Expected numbers that float64 holds exactly, got {cell.strip()} in {where}; it would become"
            f" {number:.17g}. Leave the column out, or make its numbers smaller."
        )
    return number


def _wrong_width(layout: _Layout, line: int, n_cells: int) -> TableError:
    first = "the header" if layout.has_header else "the first line"
    hint = " If they start with row names, give those a name in the header." if n_cells == layout.n_cells + 1 else ""
    return TableError(
        f"Expected {layout.n_cells} cells in every line, as in {first}, got {n_cells} in line {line} of"
        f" {layout.request.path}.{hint if layout.has_header else ''}"
    )


def _check_first_label(labels: list[str], request: Request) -> None:
    """Refuse a first line that may be names: its label is a text and all others are numbers."""
    first, *others = labels
    if others and not is_number(first) and all(map(is_number, others)):
        raise TableError(
            f"Expected names or a row in the first line of {request.path}, got the label {shown(first)}, where all"
            f" others are numbers. Say which by {setting('header', None, '--header or --no-header')}."
        )

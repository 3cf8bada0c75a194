"""Comparisons: a weighted sum of columns and a number, such as ``3 nb_www + 4 nb_com <= length_url``.

The grammar, which is read token by token::

    comparison   sum sign sum                 sign is one of  <  <=  =  >=  >  (== is =)
    sum          term (+ or -) term ...       the first term may have a sign, too
    term         number | column | number column | number * column
    number       3 | 0.25 | 1/3               with a point: the float64 next to it, as in tables; a fraction is exact
    column       name | `any name` | [index]  in a name in backticks, a backtick is written twice

It means what it says of the float64 values of a row, in rational arithmetic, without any rounding.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from certiforest.attack.parameters import AttackerError, Column
from certiforest.words import shown

TOKEN = re.compile(
    r"(?P<number>[0-9]+(\.[0-9]+)?|\.[0-9]+)|(?P<name>[^\W\d]\w*(\.\w+)*)|`(?P<quoted>([^`]|``)+)`|\[(?P<index>[0-9]+)\]"
    r"|(?P<sign><=|>=|==|[<>=])|(?P<operator>[-+*/])"
)
FLIPPED = {"<=": ">=", "<": ">", ">=": "<=", ">": "<", "=": "="}
LONGEST_TEXT, LONGEST_NUMBER, MOST_BITS = 100_000, 1200, 3900  # numbers of so many bits have fewer digits


class Comparison(NamedTuple):
    """A weighted sum of columns (terms) is at most ``bound``, less than it, or equal to it: ``<=``, ``<``, ``=``.

    Terms with positive factors come first, and no column comes twice.
    """

    terms: tuple[tuple[Any, Fraction], ...]
    sign: str
    bound: Fraction

    @classmethod
    def of(cls, terms: Sequence[tuple[Any, Fraction]], sign: str, bound: Fraction, text: str) -> Comparison:
        """Return a comparison with any sign, with what belongs together added up."""
        total: dict[Any, Fraction] = {}
        for column, factor in terms:
            total[column] = total.get(column, Fraction(0)) + factor
        found = [term for term in total.items() if term[1]]
        if not found:
            raise AttackerError(f"Expected a relation that depends on columns, got {shown(text)}.")
        if sign in (">=", ">") or (sign == "=" and max(factor for _, factor in found) < 0):
            found, bound, sign = [(column, -factor) for column, factor in found], -bound, FLIPPED[sign]
        numbers = [bound, *(factor for _, factor in found)]
        if any(max(abs(n.numerator), n.denominator).bit_length() > MOST_BITS for n in numbers):
            raise AttackerError(f"Expected a relation with shorter numbers, got {shown(text)}.")
        return cls(tuple(sorted(found, key=lambda term: term[1] < 0)), sign, bound)

    def by(self, place: Callable[[Any], Any]) -> Comparison:
        """Return the same about columns of other names."""
        return Comparison.of([(place(c), factor) for c, factor in self.terms], self.sign, self.bound, str(self))

    def holds(self, row: Sequence[float] | Mapping[Any, float]) -> bool:
        """Tell whether it holds for a row of finite numbers, exactly."""
        total = sum((factor * Fraction(row[column]) for column, factor in self.terms), Fraction(0))
        return (total < self.bound and self.sign != "=") or (total == self.bound and self.sign != "<")

    def holds_between(self, low: Mapping[Any, float], high: Mapping[Any, float]) -> bool | None:
        """Tell whether it holds for all values between some (by column) or for none of them; None: neither is sure."""
        least, most = self.ends(low, high)
        if least > self.bound or (least == self.bound and self.sign == "<"):
            return False
        if self.sign == "=":
            return False if most < self.bound else True if least == most == self.bound else None
        return True if most < self.bound or (most == self.bound and self.sign == "<=") else None

    def ends(self, low: Mapping[Any, float], high: Mapping[Any, float]) -> tuple[Any, Any]:
        """Return the least and the largest sum for values between some (by column), which may be infinite."""
        least: Any = 0
        most: Any = 0
        for column, factor in self.terms:
            ends = [end if abs(end) == np.inf else Fraction(end) for end in (low[column], high[column])]
            ends = [factor * end if isinstance(end, Fraction) else end * (1 if factor > 0 else -1) for end in ends]
            least, most = least + min(ends), most + max(ends)
        return least, most

    def __str__(self) -> str:
        ups, downs = ([t for t in self.terms if (t[1] > 0) is is_up] for is_up in (True, False))
        if not ups and len(downs) == 1:
            ((column, factor),) = downs
            return f"{_sum([(column, -factor)], Fraction(0))} {FLIPPED[self.sign]} {number_text(-self.bound)}"
        return f"{_sum(ups, Fraction(0))} {self.sign} {_sum([(c, -f) for c, f in downs], self.bound)}"


# ---- Reading text ----------------------------------------------------------------------------------------------------


def parse(text: Any) -> Comparison:
    """Read a comparison; see the grammar above."""
    if not isinstance(text, str) or len(text) > LONGEST_TEXT:
        raise AttackerError(f'Expected a relation to be text such as "a <= b + 1", got {shown(text)}.')
    return _Reader(text).comparison()


class _Reader:
    """Reads one comparison, token by token."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = list(self._split())
        self._place = 0

    def _split(self) -> Iterator[tuple[str, str]]:
        """Yield the kind and the text of each token."""
        place, is_after_number = 0, False
        while place < len(self._text):
            if self._text[place] in " \t\n\r":
                place, is_after_number = place + 1, False
                continue
            match = TOKEN.match(self._text, place)
            if match is None:
                raise self._refusal(f"{shown(self._text[place])} at place {place}")
            kind = str(match.lastgroup)
            if is_after_number and kind in ("name", "number"):
                raise self._refusal(
                    f"a number and {shown(match[0])} in one; write a space or * between them, and no exponents"
                )
            yield kind, match[kind]
            place, is_after_number = match.end(), kind == "number"

    def _refusal(self, what: str) -> AttackerError:
        return AttackerError(f"Expected a relation such as a + 2 b <= c, got {what} in {shown(self._text)}.")

    def _next(self, *kinds: str) -> str | None:
        """Return the next token if it is of these kinds, and go on."""
        if self._place < len(self._tokens) and self._tokens[self._place][0] in kinds:
            self._place += 1
            return self._tokens[self._place - 1][1]
        return None

    def comparison(self) -> Comparison:
        left, constant = self._sum()
        sign = self._next("sign")
        if sign is None:
            raise self._refusal("no <, <=, =, >= or > where one should be")
        right, bound = self._sum()
        if self._next("sign") is not None:
            raise self._refusal("two comparisons; write a relation for each")
        if self._place < len(self._tokens):
            raise self._refusal(f"{shown(self._tokens[self._place][1])} where + or - should be")
        terms = [*left, *((column, -factor) for column, factor in right)]
        return Comparison.of(terms, str(sign).replace("==", "="), bound - constant, self._text)

    def _sum(self) -> tuple[list[tuple[Column, Fraction]], Fraction]:
        terms: list[tuple[Column, Fraction]] = []
        constant, is_first = Fraction(0), True
        while True:
            sign = 1
            if self._place < len(self._tokens) and self._tokens[self._place] in (("operator", "+"), ("operator", "-")):
                sign = -1 if self._next("operator") == "-" else 1
            elif not is_first:
                return terms, constant
            factor, column = self._term()
            is_first = False
            if column is None:
                constant += sign * factor
            else:
                terms.append((column, sign * factor))

    def _term(self) -> tuple[Fraction, Column | None]:
        number, column = self._number(), None
        is_product = number is not None and self._next_is("*")
        if number is None or is_product or self._next_is_column:
            column = self._column()
            if column is None:
                raise self._refusal("no number or column where one should be")
        if self._next_is("*", "/"):
            raise self._refusal(
                "a product or a ratio of columns, or a number behind a column; a number comes first (2 a, 1/3 a), a"
                " ratio a / b <= 2 can be said as a <= 2 b where b > 0, and what is no sum can be a column of its own"
            )
        return Fraction(1) if number is None else number, column

    def _next_is(self, *operators: str) -> bool:
        if self._place < len(self._tokens) and self._tokens[self._place] in [("operator", o) for o in operators]:
            self._place += 1
            return True
        return False

    @property
    def _next_is_column(self) -> bool:
        return self._place < len(self._tokens) and self._tokens[self._place][0] in ("name", "quoted", "index")

    def _number(self) -> Fraction | None:
        text = self._next("number")
        if text is None:
            return None
        number = self._value(text)
        below = self._tokens[self._place : self._place + 2]
        if below[:1] == [("operator", "/")] and below[1:] and below[1][0] == "number":
            self._place += 2
            denominator = self._value(below[1][1])
            if "." in text + below[1][1] or not denominator:
                raise self._refusal(f"{shown(text + '/' + below[1][1])}; a fraction has whole numbers, and not 0 below")
            return number / denominator
        return number

    def _value(self, text: str) -> Fraction:
        if len(text) > LONGEST_NUMBER:
            raise self._refusal(f"a number of more than {LONGEST_NUMBER} digits")
        if "." not in text:
            return Fraction(int(text))
        value = float(text)
        if value == np.inf or (value == 0 and text.strip("0.")):
            raise self._refusal(f"the number {shown(text)}, which float64 does not hold")
        return Fraction(value)

    def _column(self) -> Column | None:
        if (name := self._next("name")) is not None:
            return name
        if (name := self._next("quoted")) is not None:
            return name.replace("``", "`")
        index = self._next("index")
        if index is not None and len(index) > 9:
            raise self._refusal(f"the index {shown(index)}")
        return None if index is None else int(index)


# ---- Writing text ----------------------------------------------------------------------------------------------------


def column_text(column: Column) -> str:
    """Return a column as relations have it."""
    if isinstance(column, int):
        return f"[{column}]"
    match = TOKEN.fullmatch(column)
    return column if match and match.lastgroup == "name" else "`" + column.replace("`", "``") + "`"


def number_text(value: Fraction) -> str:
    """Return a number that is read as the same one."""
    if value.denominator == 1:
        return str(value)
    try:
        text = f"{Decimal(repr(float(value))):f}"
    except OverflowError:
        return str(value)
    is_same = len(text) < LONGEST_NUMBER and Fraction(float(text)) == value
    return text if is_same and "." in text else str(value)


def _sum(terms: Sequence[tuple[Column, Fraction]], constant: Fraction) -> str:
    """Return a sum of terms and a number as text."""
    parts = [(f, column_text(c) if abs(f) == 1 else f"{number_text(abs(f))} {column_text(c)}") for c, f in terms]
    if constant or not parts:
        parts.append((constant, number_text(abs(constant))))
    text = " ".join(f"{'-' if f < 0 else '+'} {part}" for f, part in parts)
    return text[2:] if text.startswith("+") else "-" + text[2:]


# ---- Rows ------------------------------------------------------------------------------------------------------------


def find_held(comparison: Comparison, X: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Tell for which rows of finite numbers a comparison holds: rationals decide where floats are not sure."""
    columns, factor = zip(*comparison.terms, strict=True)
    try:
        weights, bound = np.array(factor, np.float64), float(comparison.bound)
        with np.errstate(over="ignore", invalid="ignore"):
            parts = X[:, columns] * weights
            more = parts.sum(axis=1) - bound
            slack = (len(columns) + 4) * 2.0**-51 * (np.abs(parts).sum(axis=1) + abs(bound)) + 1e-300
            is_sure = np.isfinite(slack) & (np.abs(more) > slack)
    except OverflowError:
        is_sure, more = np.zeros(len(X), bool), np.zeros(len(X))
    held = (more < 0) & (comparison.sign != "=")
    near, inverse = np.unique(X[~is_sure][:, columns], axis=0, return_inverse=True)
    exact = [comparison.holds(dict(zip(columns, row, strict=True))) for row in near.tolist()]
    held[~is_sure] = np.array(exact, bool)[inverse.ravel()]
    return held

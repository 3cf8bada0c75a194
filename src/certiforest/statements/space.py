"""Space: the cells of a whole domain, as one model or several see it.

The thresholds of all trees cut the domain into cells, as those in reach of an attacker do near a row: a domain is an
attacker who may go anywhere in it. Several models are one ensemble whose leaves have a score for each of their outputs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from certiforest.attack.attacker import Attacker
from certiforest.attack.choices import Categories
from certiforest.attack.parameters import AttackerError, Column, find_columns
from certiforest.ensemble import TreeEnsemble
from certiforest.ensemble.tree_kernels import LARGEST
from certiforest.problem.around_row import RowProblem
from certiforest.problem.problem import Cells, Leaves
from certiforest.problem.verifier import Verifier
from certiforest.statements.decoding import check_listed, codes_of, decode
from certiforest.statements.domain import Domain, DomainError
from certiforest.statements.models import join
from certiforest.words import shown


class Rule(NamedTuple):
    """Which cells of a variable are allowed, or of two together: ``is_allowed`` has an axis for each of them."""

    variables: tuple[int, ...]
    is_allowed: NDArray[np.bool_]


class _Column(NamedTuple):
    """The numbers that a domain allows in a column of a model, all between two ends if none are listed.

    Those from ``blank[0]`` to ``blank[1]`` count as missing; there are none if these are NaN.
    """

    low: float
    high: float
    is_whole: bool
    listed: list[float] | None
    blank: tuple[float, ...]

    @property
    def is_sparse(self) -> bool:
        """Whether cells may hold none of the numbers."""
        return self.listed is not None or not math.isnan(self.blank[0])

    @property
    def blank_number(self) -> float | None:
        """A number that counts as missing; None if there is none."""
        first, last = self.blank
        return self._replace(blank=(math.nan, math.nan)).number_up_to(math.nextafter(first, -math.inf), last)

    def number_up_to(self, bottom: float, top: float) -> float | None:
        """Return a number above one and up to another that does not count as missing, near 0; None if there is none."""
        first, last = self.blank
        low, high = max(self.low, math.nextafter(bottom, math.inf)), min(self.high, top)
        if self.listed is not None:
            kept = (v for v in self.listed if low <= v <= high and not first <= v <= last)
            return next((v for v in kept if v.is_integer() or not self.is_whole), None)
        if self.is_whole:
            low, high = float(np.ceil(low)), float(np.floor(high))
        number = min(max(0.0, low), high)
        if first <= number <= last:
            above, below = math.nextafter(last, math.inf), math.nextafter(first, -math.inf)
            if self.is_whole:
                above, below = float(np.ceil(above)), float(np.floor(below))
            number = above if above <= high else below
        return number if low <= number <= high else None


class Space:
    """A domain as models see it.

    Parameters
    ----------
    ensembles : sequence of TreeEnsemble
        See `models.join`; what tells plausible inputs is one more.
    domain : Domain

    Attributes
    ----------
    attacker : Attacker
        Who may go anywhere.
    verifier : Verifier
        The ensemble, and that attacker's moves.
    problem : RowProblem
        Cells and leaves.
    low, high : ndarray of int64, shape (n_variables,)
        First and last cell of each variable that the domain allows.
    may_miss : ndarray of bool, shape (n_features,)
        Where the domain holds missing values, or numbers that count as missing.
    holes : list of Rule
        For variables of which not all cells in between are allowed.
    alike : list of lists of int
        Trees, by place among the leaves, that split alike: copies, and those of which only scores were fitted again.
    """

    def __init__(self, ensembles: Sequence[TreeEnsemble], domain: Domain) -> None:
        ensemble = join([*ensembles, *([] if domain.plausible is None else [domain.plausible])])
        n = ensemble.n_features
        if len(domain.low) != n:
            raise DomainError(f"Expected a domain of {n} columns, got {len(domain.low)}.")
        names = ensemble.feature_names
        if names is not None and domain.columns is not None and tuple(map(str, names)) != domain.columns:
            other = next(f for f in range(n) if str(names[f]) != domain.columns[f])
            raise DomainError(
                f"Expected column {other} of the domain to be {shown(names[other])}, got"
                f" {shown(domain.columns[other])}."
            )
        self.domain, self._names, self._n_features = domain, domain.columns or names, n
        self._tested = {*ensemble.feature.tolist()}
        check_listed(domain, ensemble)
        codes = {f: sorted({*codes_of(domain, ensemble, f).values()}) for f in domain.values}
        is_category = np.isin(np.arange(n), ensemble.categorical)
        low, high = np.maximum(domain.low, -LARGEST), np.minimum(domain.high, LARGEST)
        for f, listed in codes.items():
            if is_category[f] or math.isnan(low[f]):
                low[f], high[f] = min(listed), max(listed)
        self._columns = [
            _Column(
                float(low[f]), float(high[f]), bool(domain.integer[f]) and not is_category[f],
                codes.get(f), tuple(ensemble.blank_bounds[:, f].tolist()),
            ) for f in range(n)
        ]  # fmt: skip
        self._blank_number = {f: b for f in ensemble.blanks or () if (b := self._columns[f].blank_number) is not None}
        numbers = [column.number_up_to(-math.inf, math.inf) for column in self._columns]
        for f, number in enumerate(numbers):
            if number is None:  # all its numbers count as missing: let there be others, which are not allowed
                low[f], high[f] = -LARGEST, LARGEST
        self.may_miss = domain.missing | np.isin(np.arange(n), list(self._blank_number))
        whole = [f for f, c in enumerate(self._columns) if c.is_whole and f not in (ensemble.blanks or ())]
        attacker = Attacker(
            0, n, domain=(low, high), integer=whole, groups=domain.groups or None,
            categories=dict.fromkeys(ensemble.categorical.tolist(), 1.0) or None,
            missing=1.0 if self.may_miss.any() and ensemble.missing_left is not None else None,
        )  # fmt: skip
        try:
            self.attacker = attacker.resolve(n)
            self.verifier = Verifier(ensemble, self.attacker)
        except AttackerError as error:
            raise DomainError(f"The domain does not fit the model. {error}") from None
        start = np.array([math.nan if number is None else number for number in numbers])
        for f in ensemble.categorical.tolist():  # where a code that the model does not know is listed, it starts there
            start[f] = next((code for code in codes.get(f, ()) if code not in self._known(f)), start[f])
        for group in domain.groups:
            start[list(group)] = np.arange(len(group)) == 0
        self.problem = RowProblem(self.verifier, start)
        self.problem.cells.price[:] = 0
        self.alike = trees_alike(self.problem.leaves, ensemble)
        self._find_allowed()

    def _find_allowed(self) -> None:
        """Find which cells the domain allows, and let its values, where not all numbers are, stand for theirs."""
        cells = self.problem.cells
        self.low, self.high = cells.first[:-1].copy(), cells.first[1:] - 1
        self.holes: list[Rule] = []
        for v, f in enumerate(cells.name.tolist()):
            here = slice(cells.first[v], cells.first[v + 1])
            allowed, values = np.ones(here.stop - here.start, bool), cells.value[here]
            is_blank = values == math.inf
            if f < self._n_features:
                allowed[is_blank] = self.may_miss[f]
                column, bottom, stands = self._columns[f], -math.inf, self._stand_ins(f)
                for c in np.flatnonzero(~is_blank).tolist() if column.is_sparse else ():
                    top = float(cells.top[here][c])
                    number = column.number_up_to(bottom, top)
                    if stands is not None:
                        number = next((stands[value] for value in stands if bottom < value <= top), None)
                    allowed[c], bottom = number is not None, top
                    if number is not None:
                        values[c] = number
            places = np.flatnonzero(allowed)
            if not len(places):
                raise DomainError(f"Expected values of {self.domain.name(f)} that the model takes, got none.")
            self.low[v], self.high[v] = here.start + places[0], here.start + places[-1]
            if not allowed[places[0] : places[-1] + 1].all():
                self.holes.append(Rule((v,), allowed))

    def _stand_ins(self, f: int) -> dict[float, float] | None:
        """Return which listed code stands for which value of a category; None for columns of numbers, and if all may.

        One value is there for all that the model does not know, and which code is near it in order says nothing.
        """
        listed, choice = self._columns[f].listed, self.verifier.moves.choices.get(f)
        if listed is None or not isinstance(choice, Categories):
            return None
        known = self._known(f)
        others = [code for code in listed if code not in known]
        values = {*choice.values, float(self.problem.x[f])}
        kept = [value for value in sorted(values) if (value in listed if value in known else others)]
        return {value: value if value in known else others[0] for value in kept}

    def _known(self, f: int) -> set[float]:
        """Return the codes of a category that a model lists, or, if it lists none, those that its splits name."""
        ensemble, choice = self.verifier.ensemble, self.verifier.moves.choices[f]
        if isinstance(choice, Categories) and (ensemble.categories or {}).get(f):
            return set(choice.values)
        return set(ensemble.category_values(f).tolist())

    def frame(self, rows: Sequence[NDArray[np.float64]]) -> Any:
        """Return inputs as the domain's data had them: a number that counts as missing where nothing may be missing.

        Of the numbers that are one to all trees, each is one of few digits.
        """
        given, cells = np.stack(rows), self.problem.cells
        for v, f in enumerate(cells.name.tolist()):
            is_free = f < self._n_features and f not in self.verifier.moves.choices and self.domain.scaling is None
            if not is_free or self._columns[f].is_sparse or self._columns[f].is_whole:
                continue
            tops = np.append(-math.inf, cells.top[cells.first[v] : cells.first[v + 1]])
            for row in given:
                if not np.isnan(row[f]):
                    place = np.searchsorted(tops, row[f])
                    low = max(math.nextafter(tops[place - 1], math.inf), self._columns[f].low)
                    row[f] = short_number(low, min(tops[place], self._columns[f].high))
        for f, number in self._blank_number.items():
            if not self.domain.missing[f]:
                given[np.isnan(given[:, f]), f] = number
        return decode(self.domain, self.verifier.ensemble, given)

    @property
    def n_names(self) -> int:
        """How many features and groups there are."""
        return self._n_features + len(self.domain.groups)

    def contents(self, v: int) -> list[Any] | None:
        """Return the codes in each cell of a category, as certificates have them; None where ends of cells tell.

        None in place of codes are all others, and a list of None holds what is missing.
        """
        cells, f = self.problem.cells, int(self.problem.cells.name[v])
        choice = self.verifier.moves.choices.get(f)
        if f >= self._n_features or not isinstance(choice, Categories):
            return None
        here, known = slice(cells.first[v], cells.first[v + 1]), self._known(f)
        others = {*choice.values, float(self.problem.x[f])} - known
        found: list[Any] = []
        bottom = -math.inf
        for top, value in zip(cells.top[here].tolist(), cells.value[here].tolist(), strict=True):
            codes = [code for code in sorted(known) if bottom < code <= top]
            found.append(None if any(bottom < code <= top for code in others) else codes)
            if value == math.inf:
                found[-1] = [None]
            bottom = top
        return found

    def column_documents(self) -> list[dict[str, Any]]:
        """Return what the domain allows in each column, by index, as the header of a certificate has it."""
        found: list[dict[str, Any]] = [{"one_hot": list(group)} for group in self.domain.groups]
        in_groups = {f for group in self.domain.groups for f in group}
        for f, column in enumerate(self._columns):
            ends = {"low": column.low, "high": column.high, **({"integer": True} if column.is_whole else {})}
            said = {"numbers": [f], **ends} if column.listed is None else {"listed": [f], "values": column.listed}
            if f not in in_groups:
                found.append(said | ({"missing": True} if self.domain.missing[f] else {}))
        return found

    def columns_of(self, columns: Sequence[Column]) -> list[int]:
        """Return columns by index."""
        return find_columns(list(columns), self._n_features, self._names, "columns")

    def names_of(self, columns: Sequence[Column]) -> list[int]:
        """Return the features and groups that columns are."""
        found = set(self.columns_of(columns))
        for g, columns_of_group in enumerate(self.domain.groups):
            group = set(columns_of_group)
            if group & found:
                if not group <= found:
                    raise DomainError(
                        "Expected all columns of a one-hot group, got some of them; name the others, too."
                    )
                found = found - group | {self._n_features + g}
        return sorted(found)

    def tells_apart(self, columns: Sequence[Column]) -> bool:
        """Tell whether inputs that differ in some columns only may be other inputs to the models."""
        grouped = {f for group in self.domain.groups for f in group}
        of_one = {f for f, column in enumerate(self._columns) if f not in self._tested or column.low == column.high}
        return any(f in grouped or self.may_miss[f] or f not in of_one for f in self.columns_of(columns))

    def variables_of(self, columns: Sequence[Column]) -> list[int]:
        """Return the variables, by place among the cells, that columns are; those that no tree tests are left out."""
        found = self.names_of(columns)
        return [v for v, f in enumerate(self.problem.cells.name.tolist()) if f in found]

    def variable_of_numbers(self, column: Column) -> int | None:
        """Return the variable that a column of numbers is; None if no tree tests it."""
        variables = self.variables_of([column])
        for v in variables:
            name = self.problem.cells.name[v]
            if name >= self._n_features or name in self.verifier.ensemble.categorical:
                raise DomainError(f"Expected a column of numbers, got {shown(column)}, which has no order.")
        return variables[0] if variables else None


def short_number(low: float, high: float) -> float:
    """Return a number from one to another: 0, or one of them, rounded to as few digits as will do."""
    shorter = (float(f"{end:.{digits}e}") for digits in range(17) for end in (low, high))
    return 0.0 if low <= 0 <= high else next(number for number in shorter if low <= number <= high)


def trees_alike(leaves: Leaves, ensemble: TreeEnsemble) -> list[list[int]]:
    """Return the trees that split alike, by place, and whose leaves, in order, allow the same cells.

    These are fewer where leaves of one tree agree, which are one leaf here.
    """
    found: dict[tuple[bytes, ...], list[int]] = {}
    feature, threshold, _, missing_left, subset = ensemble.nodes
    is_split = feature >= 0
    threshold, missing_left = np.where(is_split, threshold, 0.0), missing_left & is_split
    for t, number in enumerate(leaves.name.tolist()):
        nodes, k, s = (
            slice(first[i], first[i + 1])
            for i, first in ((number, ensemble.tree_start), (t, leaves.first), (t, leaves.first_scope))
        )
        i = slice(leaves.first_condition[k.start], leaves.first_condition[k.stop])
        n_conditions, place = np.diff(leaves.first_condition[k.start : k.stop + 1]), leaves.place[i] - s.start
        ends = leaves.begin[leaves.low[i]], leaves.end[leaves.high[i]]
        sets = [ensemble.subsets[j] for j in subset[nodes].tolist() if j >= 0] if ensemble.subsets else []
        splits = feature[nodes], threshold[nodes], missing_left[nodes], *sets
        parts = *splits, n_conditions, leaves.scope[s], place, *ends
        found.setdefault(tuple(part.tobytes() for part in parts), []).append(t)
    return list(found.values())


def with_twins(cells: Cells, variables: Sequence[int]) -> tuple[Cells, NDArray[np.int64]]:
    """Return the cells with those of some variables once more at their end, and the twin of each variable, or -1."""
    n, listed = len(cells.name), list(variables)
    twin = np.full(n + len(listed), -1)
    twin[listed] = np.arange(n, n + len(listed))
    spans = [slice(cells.first[v], cells.first[v + 1]) for v in listed]
    first = np.append(cells.first, cells.first[-1] + np.cumsum([span.stop - span.start for span in spans], dtype=int))
    name, home = np.append(cells.name, cells.name[listed]), with_ends_of_twins(cells.home, twin, first)
    return Cells(
        name, first, home, *(np.concatenate([part, *(part[span] for span in spans)]) for part in cells[3:])
    ), twin


def with_ends_of_twins(cell: NDArray[np.int64], twin: NDArray[np.int64], first: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return a cell of each variable with those of the twins, which are as far from the first one."""
    variables = np.flatnonzero(twin >= 0)
    variables = variables[np.argsort(twin[variables])]
    return np.append(cell, cell[variables] - first[variables] + first[twin[variables]])

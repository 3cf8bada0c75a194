"""Steps before a model, folded into its splits: of scikit-learn's pipelines, of ONNX graphs.

Steps treat each column for itself, and keep the order of numbers. Every threshold becomes the largest float64 that the
steps, with all their own rounding, take to the left of it. It is found by bisection over floats, so that nothing has to
be known about a step but that it never turns the order of numbers.

A column that an encoder takes is a category: every value that encoders know, one that they do not know, and none at all
go through the steps, and a split becomes one that sends left the values that went left.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from certiforest.ensemble import ModelError, Nodes, TreeEnsemble
from certiforest.ensemble.categories import are_numbers, numbers_of
from certiforest.ensemble.tree_kernels import LARGEST

FARTHEST = 2.0**600  # numbers that steps are asked about; thresholds of libraries are far smaller
FAR = 2.0**100  # from here on, steps may leave the range of floats
STEPS_BESIDE = np.unique([*range(1, 33), *(1 << np.arange(6, 21))])  # floats beside a threshold, how far from it
MOST_CELLS = 2**25  # that the values of one category take as a dense matrix: 256 MB


class Column(NamedTuple):
    """A column that steps made: of which column of a row, whether its values are still those, and whether encoded."""

    source: int
    is_raw: bool = True
    is_encoded: bool = False


class Steps(Protocol):
    """What steps do to the columns of rows, ``names``, if they have any.

    Attributes
    ----------
    made : list of Column
        The columns that the model behind them takes.
    values : dict of int to tuple
        By column of a row that is encoded, all values that encoders know: text, or floats.
    loses_zeros : bool
        Whether zeros are left out, and the model takes that for something else.
    limit : float
        The largest number that the model takes.
    is_curved : bool
        Whether functions are among the steps whose rounding may not keep the order.
    joints : dict of int to ndarray
        By column of a row, the numbers where pieces of such functions meet.
    """

    n_features: int
    names: NDArray | None
    made: list[Column]
    values: dict[int, tuple[Any, ...]]
    loses_zeros: bool
    limit: float
    is_curved: bool
    joints: dict[int, NDArray[np.float64]]

    def transform(self, rows: NDArray[np.float64], *, absent: float | None = None) -> NDArray[np.float64]:
        """Return what the model behind the steps takes; ``absent`` stands for zeros that are left out."""
        ...


class _Category(NamedTuple):
    """A column of rows that is a category: what rows hold, for known values, an unseen one and a missing one."""

    known: NDArray[np.float64]
    takes_unseen: bool
    takes_missing: bool
    made: NDArray[np.float64]  # what steps make of them, (n_known + 2, n_made); NaN of what they refuse


def fold(ensemble: TreeEnsemble, steps: Steps) -> TreeEnsemble:
    """Return the ensemble that does to rows what the given one does to what steps make of them."""
    texts = any(values and not are_numbers(values) for values in (ensemble.categories or {}).values())
    if len(steps.made) != ensemble.n_features or ensemble.blanks is not None or texts or ensemble.required:
        raise ModelError("Expected steps that make the columns of a model of numbers, got others.")
    known = _known_numbers(ensemble, steps)
    row = np.ones(steps.n_features)  # which has a root and a logarithm
    for f, numbers in known.items():
        row[f] = numbers[0]
    categories = {f: _ask_about(ensemble, steps, row, f, numbers) for f, numbers in known.items()}
    source = np.array([column.source for column in steps.made], np.int64)
    is_number = ~np.isin(source, list(categories))
    # What becomes of numbers that are missing.
    gap = row.copy()
    gap[[f for f in range(steps.n_features) if f not in categories]] = np.nan
    filled = _made_of(steps, gap)
    is_refused = np.ones(len(source), bool) if filled is None else np.isnan(filled) & (ensemble.missing_left is None)
    required = {f for f in range(steps.n_features) if f not in categories} if filled is None else set()
    required |= {*source[is_refused & is_number].tolist()}
    required |= {f for f, category in categories.items() if not category.takes_missing}
    never = is_number if filled is None else is_number & ~(np.isnan(filled) & ~is_refused)
    ensemble = ensemble.never_missing(never)
    ends = _ends(steps, row, np.unique(source[is_number]), may_miss=ensemble.missing_left is not None)
    required |= ends.required
    columns = _fold_numbers(ensemble, steps, row, filled, is_number, ends)
    trees, subsets = _fold_categories(ensemble, source, categories, columns)
    blanks = _blanks(steps, row, filled, [m for m in _tested(ensemble) if is_number[m]], ends)
    may_miss = len(required) < steps.n_features or bool(blanks)
    values: dict[int, Any] = dict(steps.values)
    for made, own in (ensemble.categories or {}).items():
        values.setdefault(int(source[made]), own)
    dropped = set(range(steps.n_features)).difference(source.tolist()) if steps.names is not None else set()
    values |= dict.fromkeys(dropped, ())  # whatever a frame has there
    return TreeEnsemble.from_trees(
        [tree if may_miss else tree._replace(missing_left=None) for tree in trees],
        n_features=steps.n_features,
        classes=ensemble.classes,
        scores=ensemble.scores,
        base=ensemble.base,
        subsets=subsets if categories or values else None,
        categories=values or None,
        unseen={f: "other" if f in dropped or categories[f].takes_unseen else "refused" for f in values},
        required=sorted(required) if may_miss else (),
        blanks=blanks or None,
    )


def _tested(ensemble: TreeEnsemble) -> list[int]:
    return np.unique(ensemble.feature[ensemble.feature >= 0]).tolist()


def _known_numbers(ensemble: TreeEnsemble, steps: Steps) -> dict[int, NDArray[np.float64]]:
    """Return what rows may hold in columns that are categories: encoded ones, and those tested for sets as they are.

    A column that is both a number and a category is refused.
    """
    known = {f: numbers_of(values) for f, values in steps.values.items()}
    if not all(map(len, known.values())):
        raise ModelError("Expected encoders of columns that have values, got one of missing values only.")
    of_sets: dict[int, set[float]] = {}
    for made in _tested(ensemble):
        column, is_set = steps.made[made], made in ensemble.categorical
        if is_set and column.is_raw:
            listed = (ensemble.categories or {}).get(made, ())
            of_sets.setdefault(column.source, {0.0}).update(listed, ensemble.values_in_sets(made).tolist())
        elif is_set and not column.is_encoded:
            raise ModelError(f"Expected categories as the model takes them, got column {column.source} scaled.")
    for made in _tested(ensemble):
        column = steps.made[made]
        is_category = column.is_encoded or made in ensemble.categorical
        is_both = column.source in known and column.source in of_sets
        if is_both or (column.source in {*known, *of_sets} and not is_category):
            raise ModelError(
                f"Expected each column to be a number or a category, got column {column.source}, which is both to the"
                " model; certify the model at the end on transformed rows instead: as_ensemble(pipeline[-1])."
            )
    return known | {f: np.array(sorted(numbers)) for f, numbers in of_sets.items()}


def _made_of(steps: Steps, row: NDArray[np.float64]) -> NDArray[np.float64] | None:
    """Return what steps make of a row, None if they refuse it."""
    try:
        return steps.transform(row[None])[0]
    except (ValueError, TypeError):
        return None


def _ask_about(
    ensemble: TreeEnsemble, steps: Steps, row: NDArray[np.float64], f: int, known: NDArray[np.float64]
) -> _Category:
    """Find out what steps make of the values of a category, the others being those of a row."""
    unseen = known.max() + 1
    if unseen == known.max():
        raise ModelError(f"Expected categories below 2**53, got {known.max()} in column {f}.")
    if len(known) * len(steps.made) > MOST_CELLS:
        raise ModelError(f"Expected fewer categories, got {len(known)} in column {f}; put rare ones together first.")
    rows = np.tile(row, (len(known), 1))
    rows[:, f] = known
    made, takes = [steps.transform(rows)], []
    for value in (unseen, np.nan):
        other = row.copy()
        other[f] = value
        found = _made_of(steps, other)
        takes.append(found is not None and (ensemble.missing_left is not None or not np.isnan(found).any()))
        made.append(np.full((1, len(steps.made)), np.nan) if found is None else found[None])
    takes_unseen, takes_missing = takes
    return _Category(known, takes_unseen, takes_missing, np.vstack(made))


def _fold_numbers(
    ensemble: TreeEnsemble,
    steps: Steps,
    row: NDArray[np.float64],
    filled: NDArray[np.float64] | None,
    is_number: NDArray[np.bool_],
    ends: _Ends,
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return thresholds in the units of rows, and which splits send missing values left, where numbers are compared."""
    node = ensemble.number_splits
    node = node[is_number[ensemble.feature[node]]]
    made, v = ensemble.feature[node], ensemble.threshold[node]
    threshold = ensemble.threshold.copy()
    threshold[node] = _last_below(steps, row, made, v, ends)
    missing_left = ensemble.nodes.missing_left.copy()
    if filled is not None:
        value = filled[np.maximum(ensemble.feature, 0)]
        by_value = (ensemble.feature >= 0) & (value <= ensemble.threshold)
        missing_left = np.where(np.isnan(value) | np.isnan(ensemble.threshold), missing_left, by_value)
    return threshold, missing_left


class _Ends(NamedTuple):
    """By column, the first and last number that goes through the steps, and what becomes of numbers beyond.

    These are ``blanks``, which count as missing; or they are refused, as are missing values then (``required``).
    """

    low: NDArray[np.float64]
    high: NDArray[np.float64]
    blanks: dict[int, tuple[float, float]]
    required: set[int]


def _ends(steps: Steps, row: NDArray[np.float64], columns: NDArray[np.int64], *, may_miss: bool) -> _Ends:
    """Find out which numbers steps take, as not all have a logarithm; the others of a row stay as they are."""
    low, high = np.full(steps.n_features, -FARTHEST), np.full(steps.n_features, FARTHEST)
    ends = _Ends(low, high, {}, set())
    if not steps.is_curved:
        return ends
    for f in columns.tolist():
        place = [m for m, column in enumerate(steps.made) if column.source == f]

        def fate(x: float, f: int = f, place: list[int] = place) -> str:
            other = row.copy()
            other[f] = x
            found = _made_of(steps, other)
            if found is None or (np.abs(found[place]) > steps.limit).any():
                return "refused"
            if np.isnan(found[place]).any():
                return "missing" if may_miss else "refused"
            return "taken"

        def farthest(sign: int, *fates: str, fate: Callable[[float], str] = fate) -> float:
            """Return the number farthest from 1 of those with a fate, which come one after the other."""

            def goes_on(y: NDArray[np.float64]) -> NDArray[np.bool_]:
                return np.array([fate(sign * float(y[0])) in fates])

            return sign * float(last_left(goes_on, np.array([float(sign)]), np.array([FARTHEST]))[0])

        if fate(1.0) != "taken":
            raise ModelError(f"Expected steps that take the number 1 in column {f}, got some that refuse it.")
        for sign, side in ((-1, low), (1, high)):
            outcome = fate(sign * FARTHEST)
            if outcome == "taken":
                continue
            end = side[f] = farthest(sign, "taken")
            beyond = float(np.nextafter(end, sign * np.inf))
            if outcome == "missing":
                if fate(beyond) != "missing":  # minus infinity is refused: so are missing values, then
                    ends.required.add(f)
            elif abs(end) > FAR or (may_miss and abs(end) > 1):
                continue  # too large to go through, which an ensemble cannot say where values may be missing
            else:
                ends.required.add(f)
            if f in ends.blanks:
                raise ModelError(f"Expected steps that refuse numbers on one side only, got others in column {f}.")
            ends.blanks[f] = min(beyond, sign * LARGEST), max(beyond, sign * LARGEST)
    return ends


def _last_below(
    steps: Steps, row: NDArray[np.float64], made: NDArray[np.int64], v: NDArray[np.float64], ends: _Ends
) -> NDArray[np.float64]:
    """Return the largest floats that steps take to at most ``v`` in columns that they make, the others as in a row."""
    column = np.array([steps.made[m].source for m in made], np.int64)
    order = np.argsort(column, kind="stable")
    place = np.empty(len(made), np.int64)  # among the thresholds of one column
    place[order] = np.arange(len(made)) - np.searchsorted(column[order], column[order])
    rows = np.tile(row, (place.max(initial=0) + 1, 1))

    def goes_left(value: NDArray[np.float64]) -> NDArray[np.bool_]:
        rows[place, column] = value
        with np.errstate(all="ignore"):
            return steps.transform(rows, absent=0.0)[place, made] <= v

    low, high = ends.low[column], ends.high[column]
    try:
        is_left = goes_left(low), goes_left(high)
    except ValueError as error:  # what a step says of infinity
        raise ModelError(f"Expected steps that take numbers up to {FARTHEST:.0e}, got others ({error}).") from None
    if (is_left[1] & ~is_left[0]).any():
        raise ModelError("Expected steps that keep the order of numbers, got some that turn it.")
    found = np.where(is_left[0] & ~is_left[1], last_left(goes_left, low, high), np.where(is_left[0], LARGEST, -LARGEST))
    if steps.is_curved:
        _check_order(steps, row, made, v, found, (low, high), goes_left)
    return found


def _check_order(
    steps: Steps,
    row: NDArray[np.float64],
    made: NDArray[np.int64],
    v: NDArray[np.float64],
    found: NDArray[np.float64],
    ends: tuple[NDArray[np.float64], NDArray[np.float64]],
    goes_left: Callable[[NDArray[np.float64]], NDArray[np.bool_]],
) -> None:
    """Refuse steps whose rounding turns the order of floats around a threshold, or where their pieces meet."""
    is_kept, place = np.ones(len(made), bool), np.where(v == LARGEST, 1.0, found).view(np.int64)
    for offset in (-STEPS_BESIDE[:, None] * np.array([1, -1])).ravel().tolist():
        value = np.clip(_in_order(_in_order(place) + offset).view(np.float64), *ends)
        is_kept &= goes_left(value) == (value <= found)
    for f, joints in steps.joints.items():
        x = np.clip(np.concatenate([np.nextafter(joints, -np.inf), joints, np.nextafter(joints, np.inf)]), -FAR, FAR)
        rows = np.tile(row, (len(x), 1))
        rows[:, f] = x
        made_of_x = steps.transform(rows, absent=0.0)
        for i in np.flatnonzero([steps.made[m].source == f for m in made]):
            is_kept[i] &= ((made_of_x[:, made[i]] <= v[i]) == (x <= found[i])).all()
    if not is_kept.all():
        raise ModelError(
            "Expected steps that keep the order of numbers, with their rounding, got some that do not around"
            f" {found[~is_kept][0].item()!r} in column {steps.made[made[~is_kept][0]].source}."
        )


def _blanks(
    steps: Steps, row: NDArray[np.float64], filled: NDArray[np.float64] | None, made: list[int], ends: _Ends
) -> dict[int, tuple[float, float]]:
    """Return, by column, the numbers that count as missing.

    These are what steps do not take, and, where the model takes it for missing, what a sparse matrix has no entry for.
    """
    found = dict(ends.blanks)
    if not steps.loses_zeros or not made:
        return found
    zeros = np.zeros(len(made))
    low, high = (_last_below(steps, row, np.array(made), v, ends) for v in (np.nextafter(zeros, -1.0), zeros))
    for m, first, last in zip(made, np.nextafter(low, np.inf).tolist(), high.tolist(), strict=True):
        column = steps.made[m].source
        if first > last:
            continue
        if found.setdefault(column, (first, last)) != (first, last) or (filled is not None and not np.isnan(filled[m])):
            raise ModelError(
                "Expected zeros to be numbers, got a sparse matrix, in which XGBoost takes them for missing, while"
                " missing values are filled; fit with ColumnTransformer(..., sparse_threshold=0) and"
                " OneHotEncoder(sparse_output=False)."
            )
    return found


def _fold_categories(
    ensemble: TreeEnsemble,
    source: NDArray[np.int64],
    categories: dict[int, _Category],
    numbers: tuple[NDArray[np.float64], NDArray[np.bool_]],
) -> tuple[list[Nodes], list[NDArray[np.float64]]]:
    """Return the trees, with sets of values where categories are tested, and the sets."""
    threshold, missing_left = (column.copy() for column in numbers)
    subset, sets = np.full(ensemble.n_nodes, -1), dict[tuple[float, ...], int]()
    sides = np.arange(1, ensemble.n_nodes + 1), ensemble.right.astype(np.int64)
    left, right = (np.where(ensemble.feature >= 0, side, -1) for side in sides)
    feature = np.where(ensemble.feature >= 0, source[np.maximum(ensemble.feature, 0)], -1)
    for node in np.flatnonzero(np.isin(feature, list(categories))):
        category = categories[int(feature[node])]
        x = category.made[:, ensemble.feature[node]]
        is_left = x <= ensemble.threshold[node]
        if ensemble.subsets is not None and ensemble.nodes.subset[node] >= 0:
            is_left = np.isin(x, ensemble.subsets[ensemble.nodes.subset[node]])
        is_left = np.where(np.isnan(x), ensemble.nodes.missing_left[node], is_left)
        swaps = is_left[-2]  # whatever is not in the set goes right, as unseen values do
        values = tuple(category.known[is_left[:-2] != swaps].tolist())
        subset[node] = sets.setdefault(values, len(sets))
        threshold[node], missing_left[node] = np.nan, is_left[-1] != swaps
        if swaps:
            left[node], right[node] = right[node], left[node]
    trees = []
    for start, end in zip(ensemble.tree_start[:-1].tolist(), ensemble.tree_start[1:].tolist(), strict=True):
        part = slice(start, end)
        below = (np.where(side[part] >= 0, side[part] - start, -1) for side in (left, right))
        columns = (feature, threshold, ensemble.leaf, missing_left, subset)
        trees.append(Nodes(*below, *(column[part] for column in columns)))
    return trees, [np.array(values) for values in sets]


def last_left(
    goes_left: Callable[[NDArray[np.float64]], NDArray[np.bool_]], low: NDArray[np.float64], high: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the largest floats that go left, from ``low``, which does, up to ``high``, by bisection over floats."""
    least, most = (_in_order((end + 0.0).view(np.int64)) for end in (low, high))
    while (least < most).any():
        middle = (least | most) - ((least ^ most) >> 1)  # their mean, rounded up, without overflow
        is_left = goes_left(_in_order(middle).view(np.float64))
        least, most = np.where(is_left, middle, least), np.where(is_left, most, middle - 1)
    return _in_order(least).view(np.float64)


def _in_order(bits: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return whole numbers in the order of the floats that they are bits of, neighbours for neighbours, and back."""
    return np.where(bits < 0, np.int64(-(2**63)) - bits, bits)

"""Suggested relations: what ties the columns of a table, as far as its rows tell; for a person to judge and to edit.

That all rows keep a relation does not mean that an attacker must, and whoever believes one that need not hold calls
rows stable that are not. So nothing here is ever applied by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from certiforest.attack.comparisons import Comparison
from certiforest.attack.relations import Relation, find_broken

HELD_OUT, FEWEST, FIRST_ROWS = 0.2, 0.01, 64
ONE = Fraction(1)
Holds = Callable[[NDArray[np.float64], NDArray[np.float64]], NDArray[np.bool_]]


def suggest_relations(X: Any, *, columns: Sequence[str | int] | None = None) -> list[dict[str, Any]]:
    """Return relations that rows keep, for a person to judge: none of them is applied by itself.

    They are mined from four fifths of the rows: ``a <= b``, ``a = b``, ``a = b + c``, sums of two columns, or of
    columns that are 0 or 1, that are constant, and ``if a > 0 then b > 0``; without those that others imply, or the
    ranges of columns do.

    Parameters
    ----------
    X : array-like or data frame of shape (n, n_features)
        Columns of a frame that hold no numbers are left out.
    columns : sequence of str or int, optional
        What the columns are called, if X does not tell.

    Returns
    -------
    list of dict
        Relations as `Attacker` takes them. It ignores what each has as ``about``: ``support``, the share of rows for
        which the relation says more than the ranges of columns, and ``broken``, that of held-out rows that break it.

    Examples
    --------
    >>> suggest_relations([[3, 5], [0, 1], [2, 2], [4, 9], [1, 4]], columns=["host", "url"])
    [{'linear': 'host <= url', 'about': {'support': 0.5, 'broken': 0.0}}]
    """
    if hasattr(X, "columns"):
        X = X.select_dtypes("number") if hasattr(X, "select_dtypes") else X
        columns = list(map(str, X.columns)) if columns is None else columns
    rows = np.asarray(X, np.float64) + 0.0
    order = np.random.default_rng(0).permutation(len(rows))
    n_held_out = int(HELD_OUT * len(rows))
    held_out, mined = rows[order[:n_held_out]], rows[order[n_held_out:]]
    found = [(relation, support) for relation, support in _mine(mined) if support >= FEWEST]
    broken = find_broken([relation for relation, _ in found], held_out).sum(axis=0) / max(n_held_out, 1)
    told = sorted(zip(found, broken.tolist(), strict=True), key=lambda entry: -entry[0][1])
    names = range(rows.shape[1]) if columns is None else columns
    return [
        _document(relation.by(names.__getitem__)) | {"about": {"support": round(support, 4), "broken": round(share, 4)}}
        for (relation, support), share in told
    ]


def _document(relation: Relation) -> dict[str, Any]:
    document = relation.document()
    return {"linear": document} if isinstance(document, str) else document


def _mine(X: NDArray[np.float64]) -> Iterator[tuple[Relation, float]]:
    """Yield relations that all rows keep, columns by index, and their support."""
    free = np.flatnonzero(np.isfinite(X).all(axis=0) & (X[:1] != X).any(axis=0))
    low, high = X.min(axis=0, initial=np.inf), X.max(axis=0, initial=-np.inf)
    twins, groups, below = set[int](), list(_one_hot(X, free)), np.zeros((X.shape[1], X.shape[1]), bool)
    for group in groups:
        yield _linear([(f, ONE) for f in group], "=", ONE), 1.0
    in_group = {f for group in groups for f in group}
    for a, b in _pairs(X, free, np.equal):
        if a < b and a not in twins:
            twins.add(b)
            yield _linear([(a, ONE), (b, -ONE)], "=", Fraction(0)), 1.0
    free = np.array([f for f in free.tolist() if f not in twins | in_group], np.int64)
    for a, b in _pairs(X - X[:1], free, lambda a, b: a == -b):
        relation = _linear([(a, ONE), (b, ONE)], "=", Fraction(float(X[0, a])) + Fraction(float(X[0, b])))
        if a < b and not find_broken([relation], X).any():
            yield relation, 1.0
    yield from _sums(X, free)
    for a, b in _pairs(X, free, np.less_equal):
        below[a, b] = high[a] > low[b]
    for a, b in np.argwhere(below & ~_in_two_steps(below)).tolist():
        yield _linear([(a, ONE), (b, -ONE)], "<=", Fraction(0)), float((X[:, a] > low[b]).mean())
    counts = free[low[free] == 0]
    positive = np.zeros_like(below)
    for a, b in _pairs(X, counts, lambda a, b: (a == 0) | (b > 0)):
        positive[a, b] = not below[a, b]
    for a, b in np.argwhere(positive & ~_in_two_steps(positive)).tolist():
        (when,), (then,) = (_linear([(f, -ONE)], "<", Fraction(0)).then for f in (a, b))
        yield Relation((then,), (when,)), float((X[:, a] > 0).mean())


def _linear(terms: list[tuple[int, Fraction]], sign: str, bound: Fraction) -> Relation:
    return Relation((Comparison.of(terms, sign, bound, ""),))


def _in_two_steps(leads: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Tell which columns two steps lead to."""
    return leads.astype(np.float32) @ leads.astype(np.float32) > 0


def _pairs(X: NDArray[np.float64], columns: NDArray[np.int64], holds: Holds) -> Iterator[tuple[int, int]]:
    """Yield pairs of columns for which something holds in all rows; a few rows rule out most pairs."""
    few = X[:: max(len(X) // FIRST_ROWS, 1), columns]
    for a in range(len(columns)):
        here = np.flatnonzero(holds(few[:, [a]], few).all(axis=0))
        for b in here[here != a].tolist():
            if holds(X[:, columns[a]], X[:, columns[b]]).all():
                yield int(columns[a]), int(columns[b])


def _sums(X: NDArray[np.float64], columns: NDArray[np.int64]) -> Iterator[tuple[Relation, float]]:
    """Yield columns that are the sum of two others."""
    first = X[:FIRST_ROWS]
    by_rows = {first[:, c].tobytes(): c for c in columns.tolist() if X[:, c].any()}
    for a in columns.tolist():
        for b in columns.tolist():
            c = by_rows.get((first[:, a] - first[:, b] + 0.0).tobytes(), -1) if a != b else -1
            if b < c != a:
                relation = _linear([(a, ONE), (b, -ONE), (c, -ONE)], "=", Fraction(0))
                if not find_broken([relation], X).any():
                    yield relation, 1.0


def _one_hot(X: NDArray[np.float64], columns: NDArray[np.int64]) -> Iterator[list[int]]:
    """Yield sets of columns of which one is 1 and the others are 0 in all rows."""
    waiting = [f for f in columns.tolist() if ((X[:, f] == 0) | (X[:, f] == 1)).all()]
    while waiting:
        group, total = [waiting[0]], X[:, waiting[0]].copy()
        for f in waiting[1:]:
            if not (total * X[:, f]).any():
                group.append(f)
                total += X[:, f]
        if len(group) > 1 and (total == 1).all():
            yield group
            waiting = [f for f in waiting if f not in group]
        else:
            waiting = waiting[1:]

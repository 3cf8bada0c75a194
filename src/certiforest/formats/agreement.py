"""Agreement of a translation with its model: they must say the same on thresholds and one step beside them.

Where values may be missing, they are in some of the rows; where splits test for categories, known and unknown ones are.

A wrong comparison (``<`` for ``<=``, float64 for float32) shows on rows that sit exactly on a threshold and nowhere
else. So rows are led to splits of the ensemble and then put on their thresholds, on the float64 beside them and on the
float32 around them.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from certiforest.ensemble import ModelError, TreeEnsemble
from certiforest.ensemble.categories import hash_of, numbers_of
from certiforest.ensemble.tree_kernels import LARGEST

N_ROWS = 4_096
LARGEST_BYTES = 2**26  # of one block of rows, however many features there are
LARGEST_FLOAT32 = float(np.finfo(np.float32).max)


def threshold_rows(ensemble: TreeEnsemble, n_rows: int, seed: int = 0) -> NDArray[np.float64]:
    """Make rows that reach splits of an ensemble and sit on their thresholds, or one float32 or float64 step beside.

    The first eighth of them is random only.
    """
    rng = np.random.default_rng(seed)
    rows = _random_rows(ensemble, n_rows, rng)
    splits = np.flatnonzero((ensemble.feature >= 0) & ~(np.abs(ensemble.threshold) >= LARGEST_FLOAT32))
    chosen = np.arange(n_rows // 8, n_rows)
    if not len(splits) or not len(chosen):
        return rows
    split = rng.permutation(np.resize(rng.permutation(splits), len(chosen)))
    _guide(ensemble, rows, chosen, split)
    v, now = ensemble.threshold[split], rows[chosen, ensemble.feature[split]]
    v32 = v.astype(np.float32)
    with np.errstate(over="ignore"):
        values = [
            v, np.nextafter(v, -np.inf), np.nextafter(v, np.inf),
            v32, np.nextafter(v32, np.float32(-np.inf)), np.nextafter(v32, np.float32(np.inf)),
        ]  # fmt: skip
        values = [np.where(np.isnan(v), now, value.astype(np.float64)) for value in values]
    if ensemble.missing_left is not None:
        values.append(np.full(len(split), np.nan))
    value = np.choose(rng.integers(len(values), size=len(split)), values)
    rows[chosen, ensemble.feature[split]] = np.clip(value, -LARGEST_FLOAT32, LARGEST_FLOAT32)
    for f in ensemble.required:
        rows[np.isnan(rows[:, f]), f] = _values(ensemble, f)[0]
        low, high = (ensemble.blanks or {}).get(f, (np.inf, -np.inf))
        outside = np.nextafter(high, np.inf) if low <= -LARGEST else np.nextafter(low, -np.inf)
        rows[(low <= rows[:, f]) & (rows[:, f] <= high), f] = outside  # numbers that are refused
    return rows


def _random_rows(ensemble: TreeEnsemble, n_rows: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Draw each tested feature around its thresholds, or from its sets and one beyond; the others are zero.

    Where values may be missing, none, few, or half of them are, row by row.
    """
    rows = np.zeros((n_rows, ensemble.n_features))
    split = ensemble.number_splits[np.abs(ensemble.threshold[ensemble.number_splits]) < LARGEST_FLOAT32 / 8]
    feature, threshold = ensemble.feature[split], ensemble.threshold[split]
    order = np.argsort(feature, kind="stable")
    tested, start = np.unique(feature[order], return_index=True)
    for f, cuts in zip(tested, np.split(threshold[order], start)[1:], strict=True):
        margin = (cuts.max() - cuts.min()) / 4 or max(abs(cuts[0]) / 4, 1.0)
        rows[:, f] = rng.uniform(cuts.min() - margin, cuts.max() + margin, n_rows)
    for f in {*ensemble.categorical.tolist(), *(ensemble.categories or {})}:
        rows[:, f] = rng.choice(_values(ensemble, f), n_rows)
    for f, pair in (ensemble.blanks or {}).items():
        ends = (np.ceil(pair[0]), np.floor(pair[1])) if f in ensemble.categorical else pair  # categories are whole
        if ends[0] <= ends[1]:
            rows[:, f] = np.where(rng.random(n_rows) < 0.1, rng.choice(ends, n_rows), rows[:, f])
    if ensemble.missing_left is not None:
        tested = np.setdiff1d(ensemble.feature[ensemble.feature >= 0], ensemble.required).astype(np.int64)
        share = rng.choice([0.0, 0.1, 0.5], n_rows)
        rows[:, tested] = np.where(rng.random((n_rows, len(tested))) < share[:, None], np.nan, rows[:, tested])
    return rows


def _values(ensemble: TreeEnsemble, feature: int) -> NDArray[np.float64]:
    """Return the values of a category, those that it is compared with at least, and one that is none of them."""
    in_sets, unseen = ensemble.values_in_sets(feature), ensemble.unseen.get(feature)
    if unseen == "hashed":
        return np.append(in_sets, [hash_of("unseen"), hash_of("not seen")])
    listed = numbers_of((ensemble.categories or {}).get(feature, ()))
    known = np.union1d(in_sets, listed if len(listed) else 0.0)
    return known if unseen == "refused" else np.append(known, known[-1] + 1)


def _guide(ensemble: TreeEnsemble, rows: NDArray[np.float64], chosen: NDArray, split: NDArray) -> None:
    """Move the chosen rows as little as it takes to reach their splits; categories stay as they are."""
    missing_left, is_set = ensemble.nodes.missing_left, ensemble.nodes.subset >= 0
    node = split.copy()
    # Boxes are not empty, so each bound may be met on its own: the ones met before stay met.
    while len(node):
        above = ensemble.parent[node]
        inside = above >= 0
        chosen, node, above = chosen[inside], node[inside], above[inside]
        f, v = ensemble.feature[above], ensemble.threshold[above]
        goes_left = node == above + 1
        x = rows[chosen, f]
        # What is missing stays so where that is the way; a split without a threshold sends only that left.
        number = np.where(np.isnan(v), 0.0, np.where(goes_left, v, np.nextafter(v, LARGEST)))
        x = np.where(np.isnan(x) & (missing_left[above] != goes_left), number, x)
        moved = np.where(goes_left, np.minimum(x, v), np.maximum(x, np.nextafter(v, LARGEST)))
        moved = np.where(np.isnan(v), np.where(goes_left, np.nan, x), moved)
        rows[chosen, f] = np.where(is_set[above], rows[chosen, f], moved)
        node = above


def check_agreement(
    ensemble: TreeEnsemble,
    name: str,
    predict: Callable[[NDArray[np.float64]], Any],
    raw: Callable[[NDArray[np.float64]], Any] | None = None,
    *,
    dtype: DTypeLike = np.float64,
    slack: float = 0.0,
    n_rows: int = N_ROWS,
    seed: int = 0,
) -> None:
    """Check that an ensemble does what the model does that it was translated from, ``name`` in errors.

    ``predict`` gives the model's labels of rows, ``raw`` the sums that it decides by, in the shape of
    ``ensemble.decision_function``. It adds up in ``dtype``: sums must agree within ``ensemble.rounding_bound(dtype)``,
    and it may take two for equal that are ``slack`` further apart. A `ModelError` shows a row on which the two differ,
    which is also its attribute ``row``.
    """
    size = max(1, LARGEST_BYTES // (8 * ensemble.n_features))
    rows = threshold_rows(ensemble, min(n_rows, size), seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that these rows are without the names of their columns
        try:
            with np.errstate(over="ignore"):  # of rows that a step takes beyond float32
                ours, theirs = ensemble.predict(rows), np.asarray(predict(rows))
                their_sums = None if raw is None else np.asarray(raw(rows), np.float64)
        except ValueError as error:
            raise ModelError(
                f"Expected {name} to predict rows on its thresholds and around them, with which its translation is"
                f" compared, got: {error}"
            ) from None
    if theirs.shape != ours.shape:
        raise ModelError(f"Expected {name} to predict one label per row, got shape {theirs.shape}.")
    differs = ours != theirs
    if ensemble.combine == "sum":
        bound = ensemble.rounding_bound(dtype) + slack
        sums = ensemble.decision_function(rows)
        tolerance = bound + ensemble.rounding_bound(np.float64)
        if differs.any():
            differs[differs] = _lead_of(ensemble, sums[differs], ours[differs], theirs[differs]) > tolerance
        if their_sums is not None and not differs.any():
            gap = np.abs(their_sums.reshape(sums.shape) - sums)
            wrong = ~(gap <= tolerance) if gap.ndim == 1 else ~(gap <= tolerance).all(axis=1)
            if wrong.any():
                i = int(np.flatnonzero(wrong)[0])
                raise _refusal(
                    name, rows[i], "add up to the same within rounding", f"a difference of {gap[i].max():.3g}"
                )
    if differs.any():
        i = int(np.flatnonzero(differs)[0])
        raise _refusal(name, rows[i], f"predict {theirs[i].item()!r} as it does", repr(ours[i].item()))


def _lead_of(ensemble: TreeEnsemble, sums: NDArray, ours: NDArray, theirs: NDArray) -> NDArray[np.float64]:
    """Return by how much our class leads theirs; inf where theirs is not a class of the ensemble."""
    columns = np.column_stack([np.zeros(len(sums)), sums]) if sums.ndim == 1 else sums
    index = {label: i for i, label in enumerate(ensemble.classes.tolist())}
    pairs = [(index[a], index.get(b, -1)) for a, b in zip(ours.tolist(), theirs.tolist(), strict=True)]
    a, b = np.array(pairs).T
    row = np.arange(len(sums))
    return np.where(b < 0, np.inf, np.abs(columns[row, a] - columns[row, b]))


def _refusal(name: str, row: NDArray[np.float64], wanted: str, got: str) -> ModelError:
    places = np.flatnonzero(row)
    shown = ", ".join(f"x[{f}] = {row[f].item()!r}" for f in places[:6].tolist())
    rest = f" and {len(places) - 6} more features that are not zero" if len(places) > 6 else ""
    error = ModelError(
        f"Expected the translation of this {name} to {wanted}, got {got}, on the row with {shown}{rest}."
        " This version of the library is not understood; please report it."
    )
    error.row = row  # type: ignore[attr-defined]
    return error

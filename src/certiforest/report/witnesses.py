"""Witnesses as people should see them: with no more changes than needed, in words, and what the world may not have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from certiforest.attack.attacker import Attacker
from certiforest.attack.relations import binding
from certiforest.ensemble import TreeEnsemble
from certiforest.ensemble.categories import Codes
from certiforest.ensemble.scaling import Scaling
from certiforest.rows.certified_rows import CertifiedRows
from certiforest.words import class_name, counted, cut, finite_or_none

N_CHANGES_IN_LINE = 3


def differ(x: NDArray[np.float64], z: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Tell where two rows differ; a value that is missing in both does not."""
    return (x != z) & ~(np.isnan(x) & np.isnan(z))


def trim(
    ensemble: TreeEnsemble,
    X: NDArray[np.float64],
    Z: NDArray[np.float64],
    attacker: Attacker,
) -> NDArray[np.float64]:
    """Take back every change from rows to others that the changed predictions do not need, the largest first.

    What is left of each is predicted otherwise than the row; without any one of its changes, it is predicted as the row
    is, or does not keep the relations of the attacker, whose columns are by index. Columns of groups change together.
    All are of shape (n, n_features).
    """
    groups, before = attacker.group_columns, ensemble.class_index(X)
    columns_with = {column: list(group) for group in groups for column in group}
    relations = [binding(attacker.relations or (), x) for x in X]
    Z, open_ = Z.copy(), np.arange(len(X))
    while open_.size:  # a change may be needed only as long as another is
        n_changed = differ(X[open_], Z[open_]).sum(axis=1)
        order = _by_size(X[open_], Z[open_])
        for rank in range(n_changed.max()):
            rows = open_[n_changed > rank]
            features = order[n_changed > rank, rank]
            fewer = Z[rows]
            for i, feature in enumerate(features.tolist()):
                columns = columns_with.get(feature, feature)
                fewer[i, columns] = X[rows[i], columns]
            is_attack = ensemble.class_index(fewer) != before[rows]
            for i in np.flatnonzero(is_attack).tolist() if attacker.relations else ():
                is_attack[i] = all(relation.is_kept(fewer[i].tolist()) for relation in relations[rows[i]])
            Z[rows[is_attack]] = fewer[is_attack]
        open_ = open_[differ(X[open_], Z[open_]).sum(axis=1) < n_changed]
    return Z


def _by_size(x: NDArray[np.float64], z: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return features in the order of how much rows differ there, the largest change first, then those that agree."""
    with np.errstate(over="ignore", invalid="ignore"):
        size = np.where(differ(x, z), np.nan_to_num(np.abs(z - x), nan=np.inf), -1.0)
    return np.argsort(-size, axis=-1, kind="stable")


def list_changes(
    x: NDArray[np.float64],
    z: NDArray[np.float64],
    names: Sequence[str],
    scaling: Scaling | None,
    categories: Mapping[int, Sequence[Any]] | None = None,
) -> list[dict[str, Any]]:
    """Return what changes from one row to another, the largest change first, as plain data; what is missing is null.

    With a scaling, each change is given in the units of the data, too, and with categories, what codes stand for.
    """
    raw = None if scaling is None else scaling.invert(np.stack([x, z]))
    changes = []
    for f in _by_size(x, z)[: differ(x, z).sum()]:
        change: dict[str, Any] = {"feature": names[f], "from": finite_or_none(x[f]), "to": finite_or_none(z[f])}
        if raw is not None and np.isfinite(raw[:, f]).all():
            change["from_in_data"], change["to_in_data"] = float(raw[0, f]), float(raw[1, f])
        elif f in (known := categories or {}):
            values = {number: value for value, number in Codes(known[f], None).items()}
            change["from_in_data"], change["to_in_data"] = (
                values.get(code, code) if code == code else None for code in (float(x[f]), float(z[f]))
            )
        changes.append(change)
    return changes


def witnesses_in_data(found: CertifiedRows, scaling: Scaling | None) -> NDArray[np.float64]:
    """Return witnesses in the units of the data: rows that, once scaled, are predicted otherwise.

    They scale to the witnesses themselves, or to the next row that floats of the data's units have; that they are
    predicted otherwise is looked up. Rows without a witness, or without one in these units, are NaN; shape
    (n, n_features).
    """
    if found.witness is None or found.rows is None or found.ensemble is None:
        raise ValueError("Expected certificates with witnesses, got none: call certify(..., witness=True).")
    if scaling is None:
        return found.witness
    raw = np.full_like(found.witness, np.nan)
    for i in np.flatnonzero(~np.isnan(found.witness).all(axis=1)):
        x, z = found.rows[i], found.witness[i]
        nearest = scaling.invert(z[None])[0]
        is_off = scaling.apply(nearest[None])[0] != z
        further = np.where(is_off & (z != x), np.nextafter(nearest, np.where(z > x, np.inf, -np.inf)), nearest)
        for row in (nearest, further):
            again = scaling.apply(row[None])
            if np.isfinite(again).all() and found.ensemble.predict(again)[0] != found.prediction[i]:
                raw[i] = row
                break
    return raw


def count_fractions(X: NDArray[np.float64], witness: NDArray[np.float64], scaling: Scaling | None) -> int:
    """Count the witnesses with a fraction in a column whose values are all whole numbers in the data."""
    with np.errstate(over="ignore", invalid="ignore"):
        rows, changed = (values if scaling is None else scaling.invert(values) for values in (X, witness))
        off = 0.0 if scaling is None else 1e-9  # by what scaling back and forth rounds
        is_whole = _are_whole(rows, off).all(axis=0)
        return int((~_are_whole(changed[:, is_whole], off)).any(axis=1).sum())


def _are_whole(values: NDArray[np.float64], off: float) -> NDArray[np.bool_]:
    return np.isnan(values) | (np.abs(values - np.rint(values)) <= off * np.maximum(np.abs(values), 1.0))


def fragile_line(row: dict[str, Any]) -> str:
    """Write a fragile row of the findings in a line: what becomes of it, and by which changes."""
    changes = ", ".join(f"{change['feature']} {moved(change)}" for change in row["changes"][:N_CHANGES_IN_LINE])
    more = f" and {row['n_changed'] - N_CHANGES_IN_LINE} more" if row["n_changed"] > N_CHANGES_IN_LINE else ""
    at = "" if row["radius"] is None else f" from eps {row['radius']:.6g} on, for instance"
    alike = f" (and {counted(row['n_alike'] - 1, 'row')} alike)" if row["n_alike"] > 1 else ""
    return f"row {row['row']}: {prediction_change(row)}{at} by {changes}{more}{alike}"


def prediction_change(row: dict[str, Any]) -> str:
    """Say what a row is predicted, and what it becomes if it is changed."""
    name = class_name if row.get("is_class", True) else str
    names = [name(row[key]) for key in ("prediction", "changed_prediction") if row[key] is not None]
    return " becomes ".join(names)


def moved(change: dict[str, Any]) -> str:
    """Write a change in the units of the data where these are known, with the digits that show it."""
    pair = ("from_in_data", "to_in_data") if "from_in_data" in change else ("from", "to")
    before, after = change[pair[0]], change[pair[1]]
    if not isinstance(before, float) or not isinstance(after, float):  # missing, or a category by name
        values = ["missing" if value is None else value for value in (before, after)]
        return " -> ".join(_plain(value, 6) if isinstance(value, float) else cut(str(value), 60) for value in values)
    digits = next((d for d in range(4, 16) if f"{before:.{d}g}" != f"{after:.{d}g}"), 17)
    return f"{_plain(before, digits)} -> {_plain(after, digits)}"


def _plain(value: float, digits: int) -> str:
    """Write a number without an exponent where that is readable."""
    text = f"{value:.{digits}g}"
    return f"{float(text):,.0f}" if "e+" in text and abs(value) < 1e12 else text

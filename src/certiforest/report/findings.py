"""Findings: what certification found, as plain data, from which HTML, text and JSON are made.

`gather` puts every number a reader may want into one dictionary of lists, numbers and strings, which is what ``--json``
prints. Whatever a figure shows is in the findings; what was not asked of `certify` is null.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from certiforest.attack.attacker import Attacker
from certiforest.attack.spread import largest_certifiable_eps, moves_on, sorted_thresholds, spread_against
from certiforest.ensemble import TreeEnsemble
from certiforest.ensemble.scaling import Scaling
from certiforest.ensemble.tree_kernels import LARGEST
from certiforest.report.attackers import describe_attacker
from certiforest.report.witnesses import count_fractions, differ, list_changes, trim
from certiforest.rows.certified_rows import CertifiedRows
from certiforest.verdicts import UNSTABLE
from certiforest.words import finite_or_none

N_CURVE_POINTS = 201
N_BINS = 40
N_FRAGILE_ROWS = 8
N_FEATURES_SHOWN = 20
# Witnesses are looked at, evenly spaced, until so many predictions tell which of their changes are needed.
MOST_TRIMMED = 500_000


def gather(
    found: CertifiedRows,
    *,
    model: str = "model",
    data: str = "rows",
    feature_names: Sequence[str] | None = None,
    row_numbers: NDArray[np.int64] | None = None,
    scaling: Scaling | None = None,
    image_shape: tuple[int, int] | None = None,
    spread: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Gather the findings about rows that were certified, ready for JSON; numbers that are infinite are null.

    Curve and histogram need radii, fragile rows and attacked features need witnesses. What is not given is the model's
    own, and rows are called 0, 1, ...; ``spread`` is what `spread_facts` returns, if it is known already.
    """
    ensemble, attacker = found.ensemble, found.attacker
    if ensemble is None or attacker is None:
        raise ValueError(
            "Expected certificates as certify returns them, got some without their model, as those read from a file"
            " are. Certify the rows again."
        )
    names = feature_names_of(feature_names or ensemble.feature_names, ensemble.n_features, image_shape)
    scaling = ensemble.scaling if scaling is None else scaling
    numbers = np.arange(len(found)) if row_numbers is None else row_numbers
    has_radius, has_witness = found.radius is not None, found.witness is not None and found.rows is not None
    attacks = _find_attacks(found, ensemble, attacker) if has_witness else None
    return {
        "model": {
            "name": model,
            "n_trees": ensemble.n_trees,
            "n_nodes": ensemble.n_nodes,
            "n_features": ensemble.n_features,
            "classes": [str(label) for label in ensemble.classes.tolist()] if found.tolerance is None else [],
            **(spread or spread_facts(ensemble, attacker)),
            "sha256": ensemble.sha256,
        },
        "data": {
            "name": data,
            "n_rows": len(found),
            "n_broken": None if found.broken_relations is None else int((found.broken_relations > 0).sum()),
            "scaled": scaling is not None,
            "rows_sha256": digest(found.rows),
        },
        "attacker": describe_attacker(attacker, names),
        "attacked": None if found.attacked is None else found.attacked.tolist(),
        "tolerance": found.tolerance,
        "stability": found.row_counts.stability,
        **found.row_counts.verdicts,
        "certified_curve": curve_of(found) if has_radius else None,
        "radius_histogram": _histogram(found, attacker.eps) if has_radius else None,
        "fragile_rows": _fragile_rows(attacks, found, names, numbers, scaling, image_shape) if attacks else None,
        "attacked_features": _attacked_features(attacks, found, names, scaling, image_shape) if attacks else None,
        "spread_map": map_spread(ensemble, attacker, names, N_FEATURES_SHOWN),
        "roads": count_methods(found),
        "origin": dict(found.about or {}),
    }


def digest(rows: NDArray[np.float64] | None) -> str | None:
    """Return the SHA-256, in hex, of rows as little-endian float64, row by row; None without rows."""
    return None if rows is None else hashlib.sha256(np.ascontiguousarray(rows, "<f8").tobytes()).hexdigest()


def count_methods(found: CertifiedRows) -> dict[str, int]:
    """Count the rows that each method decided, the commonest first."""
    methods, counts = np.unique(found.method, return_counts=True)
    return {str(methods[i]): int(counts[i]) for i in np.argsort(-counts, kind="stable")}


def feature_names_of(
    feature_names: Sequence[str] | None, n_features: int, image_shape: tuple[int, int] | None
) -> list[str]:
    """Return names of features: those given, those of pixels, or such as are made of their index."""
    if feature_names is not None:
        return list(feature_names)
    if image_shape is not None:
        return [f"pixel_{i // image_shape[1]}_{i % image_shape[1]}" for i in range(n_features)]
    return [f"feature_{i}" for i in range(n_features)]


def _rows_shown(found: CertifiedRows) -> NDArray[np.bool_]:
    """Rows that curve and histogram are about: those predicted right, or all if there are no labels."""
    return np.ones(len(found), bool) if found.label is None else found.correct


def _largest_shown(found: CertifiedRows, eps: float) -> float:
    """Return the largest eps worth showing: most radii, but not so far that eps itself disappears."""
    assert found.radius is not None
    radius = found.radius[np.isfinite(found.radius)]
    largest = float(np.quantile(radius, 0.98)) * 1.05 if radius.size else 0.0
    return min(max(largest, 2 * eps), 12 * eps, LARGEST) if eps > 0 else min(max(largest, 1e-9), LARGEST)


def curve_of(found: CertifiedRows, grid: NDArray[np.float64] | None = None) -> dict[str, list[float]]:
    """Return robust accuracy (share of stable rows without labels) against eps, read off the radii.

    A row is robust below its radius. Where only bounds of the radius are known, the curve becomes an interval. The grid
    goes from 0 to beyond most radii if none is given, the attacker's eps among it.
    """
    if found.radius is None or found.radius_upper is None:
        raise ValueError("Expected certificates with radii, got none: call certify(..., radius=True).")
    if grid is None:
        eps = 0.0 if found.attacker is None else found.attacker.eps
        grid = np.union1d(np.linspace(0, _largest_shown(found, eps), N_CURVE_POINTS), [eps])
    counted = _rows_shown(found)
    low, high = (
        np.searchsorted(np.sort(-radius[counted]), -grid, side="left") / max(1, len(found))
        for radius in (found.radius, found.radius_upper)
    )
    return {"eps": grid.tolist(), "low": low.tolist(), "high": high.tolist()}


def _histogram(found: CertifiedRows, eps: float) -> dict[str, list]:
    """Count radii: exact ones, and those known to be at least so large; the last bin has no end.

    A bin holds its upper edge, and eps is an edge: what is left of it is unstable at eps, or not known to be stable.
    """
    assert found.radius is not None
    assert found.radius_is_exact is not None
    counted = _rows_shown(found)
    largest = _largest_shown(found, eps)
    edges = np.linspace(0, largest, N_BINS + 1)
    if eps > 0:
        n_below = max(1, round(N_BINS * (eps / largest)))
        with np.errstate(over="ignore"):
            edges = np.minimum(np.arange(math.ceil(largest / eps * n_below) + 1) / n_below * eps, LARGEST)
    n_bins = len(edges) - 1
    place = np.clip(np.searchsorted(edges, found.radius, side="left") - 1, 0, n_bins)
    exact = np.bincount(place[counted & found.radius_is_exact], minlength=n_bins + 1)
    at_least = np.bincount(place[counted & ~found.radius_is_exact], minlength=n_bins + 1)
    return {"edges": edges.tolist(), "exact": exact.tolist(), "at_least": at_least.tolist()}


class _Attacks(NamedTuple):
    """Rows that can be changed, the most cheaply changed first, and witnesses without what they do not need."""

    row: NDArray[np.int64]
    x: NDArray[np.float64]
    z: NDArray[np.float64]


def _find_attacks(found: CertifiedRows, ensemble: TreeEnsemble, attacker: Attacker) -> _Attacks:
    """Return the attacks found, or, where there are very many, some of them, evenly spaced."""
    assert found.witness is not None
    assert found.rows is not None
    broken = np.flatnonzero((found.stable == UNSTABLE) & ~np.isnan(found.witness).all(axis=1))
    if found.radius is not None:
        broken = broken[np.argsort(found.radius[broken], kind="stable")]
    most = MOST_TRIMMED // max(1, differ(found.rows[broken], found.witness[broken]).sum(axis=1).max(initial=0))
    broken = broken[:: -(-len(broken) // max(1, most)) or 1]
    x, z = found.rows[broken], found.witness[broken]
    return _Attacks(broken, x, trim(ensemble, x, z, attacker) if found.tolerance is None else z)


def _kinds_of_attack(attacks: _Attacks, ensemble: TreeEnsemble) -> NDArray[np.int64]:
    """Return a number for each attack: those are alike that change the same features the same way, to the same cells.

    A cell is what lies between two thresholds of a feature.
    """
    kinds = np.zeros(len(attacks.row), np.int64)
    for f in np.flatnonzero(differ(attacks.x, attacks.z).any(axis=0)).tolist():
        rows = np.flatnonzero(differ(attacks.x[:, f], attacks.z[:, f]))
        x, z = attacks.x[rows, f], attacks.z[rows, f]
        is_set = len(ensemble.category_values(f)) > 0
        cell = z if is_set else np.searchsorted(np.unique(ensemble.threshold[ensemble.feature == f]), z)
        ways, way = np.unique(np.where(z < x, -1.0 - cell, cell), return_inverse=True)
        kinds[rows] = kinds.max() + 1 + np.unique(kinds[rows] * len(ways) + way, return_inverse=True)[1]
    return kinds


def _fragile_rows(
    attacks: _Attacks,
    found: CertifiedRows,
    names: list[str],
    row_numbers: NDArray[np.int64],
    scaling: Scaling | None,
    image_shape: tuple[int, int] | None,
) -> list[dict[str, Any]]:
    """List the broken rows that are predicted right, the most cheaply changed first, each with such a change.

    Of rows that are changed alike the first one stands for all.
    """
    ensemble = found.ensemble
    assert ensemble is not None
    shown = np.flatnonzero(_rows_shown(found)[attacks.row])
    kinds = _kinds_of_attack(attacks, ensemble)[shown]
    _, first, n_alike = np.unique(kinds, return_index=True, return_counts=True)
    rows = []
    for place in np.argsort(first)[:N_FRAGILE_ROWS].tolist():
        row, x, z = (of_all[shown[first[place]]] for of_all in attacks)
        changed = str(ensemble.predict(z[None])[0]) if found.tolerance is None else None
        if found.tolerance is not None and found.low_reached is not None and found.high_reached is not None:
            ends = found.low_reached[row], found.high_reached[row]
            changed = f"{max(ends, key=lambda end: abs(end - found.prediction[row])):.6g}"
        changes = list_changes(x, z, names, scaling, ensemble.categories)
        entry: dict[str, Any] = {
            "row": int(row_numbers[row]),
            "is_class": found.tolerance is None,
            "label": None if found.label is None else str(found.label[row]),
            "prediction": str(found.prediction[row]) if found.tolerance is None else f"{found.prediction[row]:.6g}",
            "changed_prediction": changed,
            "radius": None if found.radius is None else float(found.radius[row]),
            "radius_is_exact": None if found.radius_is_exact is None else bool(found.radius_is_exact[row]),
            "n_alike": int(n_alike[place]),
            "n_changed": len(changes),
            "changes": changes[:N_FEATURES_SHOWN],
        }
        if image_shape is not None and np.isfinite([x, z]).all():
            entry["original"] = x.reshape(image_shape).tolist()
            entry["witness"] = z.reshape(image_shape).tolist()
        rows.append(entry)
    return rows


def _attacked_features(
    attacks: _Attacks,
    found: CertifiedRows,
    names: list[str],
    scaling: Scaling | None,
    image_shape: tuple[int, int] | None,
) -> dict[str, Any]:
    """In how many of the witnesses each feature is changed, and the change is needed."""
    assert found.rows is not None
    counts = differ(attacks.x, attacks.z).sum(axis=0)
    order = np.argsort(-counts, kind="stable")[:N_FEATURES_SHOWN]
    result: dict[str, Any] = {
        "n_witnesses": len(attacks.row),
        "n_features_used": int((counts > 0).sum()),
        "n_with_fractions": count_fractions(found.rows, attacks.z, scaling),
        "features": [{"feature": names[f], "n_witnesses": int(counts[f])} for f in order if counts[f] > 0],
    }
    if image_shape is not None:
        result["picture"] = counts.reshape(image_shape).tolist()
    return result


def spread_facts(ensemble: TreeEnsemble, attacker: Attacker) -> dict[str, Any]:
    """Return how far apart thresholds of two trees are, for JSON.

    ``spread`` is null if no two trees share a feature that can be attacked, ``largest_eps``, up to which that is large
    spread, is null for any budget and for none, and ``has_large_spread`` is about the attacker's own budget.
    """
    largest = largest_certifiable_eps(ensemble, attacker)
    return {
        "spread": finite_or_none(spread_against(ensemble, attacker)),
        "largest_eps": None if largest < 0 else finite_or_none(largest),
        "has_large_spread": attacker.eps <= largest,
    }


def map_spread(ensemble: TreeEnsemble, attacker: Attacker, names: list[str], n_shown: int) -> dict[str, Any]:
    """Return the thresholds along the attackable features that have most of them, and the closest pair of two trees."""
    moves = moves_on(ensemble, attacker)
    feature, value, tree, _ = sorted_thresholds(ensemble, moves)
    # As `spread` measures: in shares of what a budget of 1/2 allows down and up together.
    unit = np.mean(moves.numbers.scale * moves.numbers.may_move, axis=0)
    near = np.flatnonzero((feature[1:] == feature[:-1]) & (tree[1:] != tree[:-1]))
    closest = None
    if near.size:
        with np.errstate(over="ignore"):  # what overflows is cut to the largest float
            gap = np.minimum(np.minimum(value[near + 1] - value[near], LARGEST) / unit[feature[near]], LARGEST)
        i = int(near[gap.argmin()])
        closest = {
            "feature": names[feature[i]],
            "thresholds": [float(value[i]), float(value[i + 1])],
            "trees": [int(tree[i]), int(tree[i + 1])],
            "distance": float(gap.min()),
        }
    used, counts = np.unique(feature, return_counts=True)
    shown = used[np.argsort(-counts, kind="stable")[:n_shown]].tolist()
    if near.size and int(feature[i]) not in shown:
        shown[-1] = int(feature[i])
    return {
        "closest_pair": closest,
        "n_features_used": len(used),
        "features": [
            {
                "feature": names[f],
                "thresholds": value[feature == f].tolist(),
                "trees": tree[feature == f].tolist(),
            }
            for f in shown
        ],
    }

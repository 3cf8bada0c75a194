"""Findings: what certification found, as plain data, from which HTML, text and JSON are made.

`find` certifies, and `gather` puts every number a reader may want into one dictionary of lists, numbers and strings,
which is what ``--json`` prints. Whatever a figure shows is in the findings.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from certiforest.attack.attacker import Attacker
from certiforest.certification import certify
from certiforest.ensemble import TreeEnsemble
from certiforest.ensemble.scaling import Scaling
from certiforest.ensemble.tree_kernels import LARGEST
from certiforest.report.spread_facts import SpreadFacts, map_spread
from certiforest.report.witnesses import count_fractions, trim
from certiforest.verification.certificates import STABLE, UNDECIDED, UNSTABLE, Certificates
from certiforest.words import norm_name

N_CURVE_POINTS = 201
N_BINS = 40
N_FRAGILE_ROWS = 8
N_FEATURES_SHOWN = 20


def find(
    ensemble: TreeEnsemble,
    X: NDArray[np.float64],
    y: NDArray | None,
    attacker: Attacker,
    *,
    time_limit: float = 1.0,
    n_jobs: int | None = None,
    progress: Callable[[int], None] | None = None,
    **names: Any,
) -> dict[str, Any]:
    """Certify rows with radius and witness, and gather the findings.

    Parameters
    ----------
    ensemble, X, attacker, **names
        As in `gather`.
    y : ndarray of shape (n,), or None
        Labels; without them the findings are about stability only.
    time_limit, n_jobs, progress : optional
        As in `certify`.
    """
    found = certify(
        ensemble, X, y, attacker, radius=True, witness=True, time_limit=time_limit, n_jobs=n_jobs, progress=progress
    ).unless_interrupted()
    return gather(ensemble, X, found, attacker, **names)


def gather(
    ensemble: TreeEnsemble,
    X: NDArray[np.float64],
    found: Certificates,
    attacker: Attacker,
    *,
    model: str,
    data: str,
    feature_names: Sequence[str] | None = None,
    row_numbers: NDArray[np.int64] | None = None,
    scaling: Scaling | None = None,
    image_shape: tuple[int, int] | None = None,
    spread: SpreadFacts | None = None,
) -> dict[str, Any]:
    """Gather the findings about rows that were certified with radius and witness.

    Parameters
    ----------
    ensemble : TreeEnsemble
    X : ndarray of shape (n, n_features)
        Rows in the units of the ensemble.
    found : Certificates
        What `certify` found for these rows and this attacker.
    attacker : Attacker
    model, data : str
        What to call them.
    feature_names : sequence of str, optional
    row_numbers : ndarray of shape (n,), optional
        What to call the rows; 0, 1, ... if not given.
    scaling : Scaling, optional
        Shows changed features in the units of the data as well.
    image_shape : pair of int, optional
        Rows are pictures of this many rows and columns of pixels.
    spread : SpreadFacts, optional
        What is known about the spread of the ensemble already.

    Returns
    -------
    dict
        JSON-ready findings. Numbers that are infinite are null.
    """
    names = _names(feature_names, ensemble.n_features, image_shape)
    spread = SpreadFacts.of(ensemble, attacker) if spread is None else spread
    return {
        "model": {
            "name": model,
            "n_trees": ensemble.n_trees,
            "n_nodes": ensemble.n_nodes,
            "n_features": ensemble.n_features,
            "classes": [str(label) for label in ensemble.classes.tolist()],
            "spread": spread.spread,
            "largest_eps": spread.largest_eps,
            "has_large_spread": spread.is_large,
        },
        "data": {"name": data, "n_rows": len(found), "scaled": scaling is not None},
        "attacker": {
            "norm": norm_name(attacker.norm),
            "eps": attacker.eps,
            "frozen": [names[i] for i in np.flatnonzero(attacker.is_frozen(ensemble.n_features))],
            "domain": attacker.domain is not None,
        },
        "stability": {
            "stable": int((found.stable == STABLE).sum()),
            "unstable": int((found.stable == UNSTABLE).sum()),
            "unknown": int((found.stable == UNDECIDED).sum()),
        },
        **_verdicts(found),
        "certified_curve": _curve(found, attacker.eps),
        "radius_histogram": _histogram(found, attacker.eps),
        "fragile_rows": _fragile_rows(
            ensemble,
            X,
            found,
            names,
            np.arange(len(found)) if row_numbers is None else row_numbers,
            scaling,
            image_shape,
        ),
        "attacked_features": _attacked_features(X, found, names, scaling, image_shape),
        "spread_map": map_spread(ensemble, attacker, names, N_FEATURES_SHOWN),
    }


def _names(feature_names: Sequence[str] | None, n_features: int, image_shape: tuple[int, int] | None) -> list[str]:
    if feature_names is not None:
        return list(feature_names)
    if image_shape is not None:
        return [f"pixel_{i // image_shape[1]}_{i % image_shape[1]}" for i in range(n_features)]
    return [f"feature_{i}" for i in range(n_features)]


def _verdicts(found: Certificates) -> dict[str, Any]:
    """Count verdicts, in all and class by class; nulls without labels."""
    if found.label is None:
        return {"verdicts": None, "accuracy": None, "robust_accuracy_bounds": None, "by_class": None}
    by_class = []
    for label in np.unique(found.label):
        mine = found.label == label
        right = found.correct[mine]
        by_class.append(
            {
                "class": str(label),
                "n_rows": int(mine.sum()),
                "accuracy": float(right.mean()),
                "robust_accuracy_bounds": [
                    float((right & (found.stable[mine] == STABLE)).mean()),
                    float((right & (found.stable[mine] != UNSTABLE)).mean()),
                ],
            }
        )
    return {
        "verdicts": {verdict.name: count for verdict, count in found.counts.items()},
        "accuracy": found.accuracy,
        "robust_accuracy_bounds": list(found.robust_accuracy_bounds),
        "by_class": by_class,
    }


def _counted(found: Certificates) -> NDArray[np.bool_]:
    """Rows that curve and histogram are about: those predicted right, or all if there are no labels."""
    return np.ones(len(found), bool) if found.label is None else found.correct


def _reach_of_figures(found: Certificates, eps: float) -> float:
    """Return the largest eps worth showing: most radii, but not so far that eps itself disappears."""
    assert found.radius is not None
    radius = found.radius[np.isfinite(found.radius)]
    largest = float(np.quantile(radius, 0.98)) * 1.05 if radius.size else 0.0
    return min(max(largest, 2 * eps), 12 * eps, LARGEST) if eps > 0 else min(max(largest, 1e-9), LARGEST)


def _curve(found: Certificates, eps: float) -> dict[str, list[float]]:
    """Robust accuracy against eps, read off the radii.

    A row is robust below its radius. Where only bounds of the radius are known, the curve becomes an interval.
    """
    assert found.radius is not None
    assert found.radius_upper is not None
    counted = _counted(found)
    grid = np.union1d(np.linspace(0, _reach_of_figures(found, eps), N_CURVE_POINTS), [eps])
    low, high = [], []
    for budget in grid:
        low.append(float((counted & (found.radius > budget)).mean()))
        high.append(float((counted & (found.radius_upper > budget)).mean()))
    return {"eps": grid.tolist(), "low": low, "high": high}


def _histogram(found: Certificates, eps: float) -> dict[str, list]:
    """Count radii: exact ones, and those known to be at least so large; the last bin has no end.

    A bin holds its upper edge, and eps is an edge: what is left of it is unstable at eps, or not known to be stable.
    """
    assert found.radius is not None
    assert found.radius_is_exact is not None
    counted = _counted(found)
    reach = _reach_of_figures(found, eps)
    edges = np.linspace(0, reach, N_BINS + 1)
    if eps > 0:
        n_below = max(1, round(N_BINS * (eps / reach)))
        with np.errstate(over="ignore"):
            edges = np.minimum(np.arange(math.ceil(reach / eps * n_below) + 1) / n_below * eps, LARGEST)
    n_bins = len(edges) - 1
    place = np.clip(np.searchsorted(edges, found.radius, side="left") - 1, 0, n_bins)
    exact = np.bincount(place[counted & found.radius_is_exact], minlength=n_bins + 1)
    at_least = np.bincount(place[counted & ~found.radius_is_exact], minlength=n_bins + 1)
    return {"edges": edges.tolist(), "exact": exact.tolist(), "at_least": at_least.tolist()}


def _fragile_rows(
    ensemble: TreeEnsemble,
    X: NDArray[np.float64],
    found: Certificates,
    names: list[str],
    row_numbers: NDArray[np.int64],
    scaling: Scaling | None,
    image_shape: tuple[int, int] | None,
) -> list[dict[str, Any]]:
    """List the rows that are predicted right and changed most cheaply, each with such a change."""
    assert found.radius is not None
    assert found.radius_is_exact is not None
    assert found.witness is not None
    candidates = np.flatnonzero(_counted(found) & (found.stable == UNSTABLE))
    rows = []
    for row in candidates[np.argsort(found.radius[candidates], kind="stable")[:N_FRAGILE_ROWS]]:
        x, z = X[row], trim(ensemble, X[row], found.witness[row])
        changed = np.flatnonzero(x != z)
        with np.errstate(over="ignore"):
            changed = changed[np.argsort(-np.abs(z - x)[changed], kind="stable")]
        entry: dict[str, Any] = {
            "row": int(row_numbers[row]),
            "label": None if found.label is None else str(found.label[row]),
            "prediction": str(found.prediction[row]),
            "changed_prediction": str(ensemble.predict(z[None])[0]),
            "radius": float(found.radius[row]),
            "radius_is_exact": bool(found.radius_is_exact[row]),
            "n_changed": len(changed),
            "changes": [
                {"feature": names[f], "from": float(x[f]), "to": float(z[f])} for f in changed[:N_FEATURES_SHOWN]
            ],
        }
        if scaling is not None:
            with np.errstate(over="ignore", invalid="ignore"):
                raw = scaling.invert(np.stack([x, z]))
            for change, f in zip(entry["changes"], changed, strict=False):
                if not np.isfinite(raw[:, f]).all():
                    continue
                change["from_in_data"], change["to_in_data"] = float(raw[0, f]), float(raw[1, f])
        if image_shape is not None:
            entry["original"] = x.reshape(image_shape).tolist()
            entry["witness"] = z.reshape(image_shape).tolist()
        rows.append(entry)
    return rows


def _attacked_features(
    X: NDArray[np.float64],
    found: Certificates,
    names: list[str],
    scaling: Scaling | None,
    image_shape: tuple[int, int] | None,
) -> dict[str, Any]:
    """In how many of the witnesses each feature is changed."""
    assert found.witness is not None
    attacked = np.flatnonzero(found.stable == UNSTABLE)
    attacked = attacked[~np.isnan(found.witness[attacked]).all(axis=1)]
    counts = (X[attacked] != found.witness[attacked]).sum(axis=0)
    order = np.argsort(-counts, kind="stable")[:N_FEATURES_SHOWN]
    result: dict[str, Any] = {
        "n_witnesses": len(attacked),
        "n_features_used": int((counts > 0).sum()),
        "n_with_fractions": count_fractions(X, found.witness[attacked], scaling),
        "features": [{"feature": names[f], "n_witnesses": int(counts[f])} for f in order if counts[f] > 0],
    }
    if image_shape is not None:
        result["picture"] = counts.reshape(image_shape).tolist()
    return result

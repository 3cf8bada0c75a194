"""Bands: pictures of what scores go from and to along a column, proved over the rest of a domain."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from certiforest.attack.parameters import Column, find_columns
from certiforest.formats.scored import ScoredModel
from certiforest.report.sections import Columns, Plot
from certiforest.statements.checking import measure
from certiforest.statements.domain import Domain, DomainError
from certiforest.statements.kinds import Monotone, Range
from certiforest.statements.results import Results
from certiforest.words import cut

N_SLICES = 20


def bands_of(
    results: Results, model: Any, domain: Domain, *, outputs: str = "probability", time_limit: float = 20.0
) -> list[Plot]:
    """Return the bands along columns that shall be monotone, and, for ranges, along the column that trees test most.

    Inputs that refute a statement are marked. ``time_limit`` is for each band.
    """
    scored, bands = ScoredModel(model, outputs), []
    tested = scored.ensemble.feature[scored.ensemble.number_splits]
    for result in results:
        asked: tuple[Column, Sequence[float]] | None = None
        if isinstance(result.statement, Monotone):
            asked = result.statement.column, ()
        elif isinstance(result.statement, Range) and len(tested):
            asked = int(np.bincount(tested).argmax()), (result.statement.low, result.statement.high)
        if asked is not None:
            with suppress(DomainError):  # a column without order, or without ends
                bands.append(_band(scored, asked[0], domain, outputs, time_limit, asked[1], result.pair))
    return bands


def band_along(
    model: Any, column: Column, domain: Domain, *, outputs: str = "probability", time_limit: float = 60.0
) -> Plot:
    """Return the band of scores along a column of numbers, to be drawn by `certiforest.report.plots.draw`.

    Parameters
    ----------
    model : classifier of two classes, regressor, TreeEnsemble or path
    column : column
    domain : Domain
    outputs, time_limit
        See `check`; ``time_limit`` is for all of it.
    """
    return _band(ScoredModel(model, outputs), column, domain, outputs, time_limit)


def _band(
    scored: ScoredModel,
    column: Column,
    domain: Domain,
    outputs: str,
    time_limit: float,
    limits: Sequence[float] = (),
    inputs: Any = None,
) -> Plot:
    """Draw a band, slice by slice, with limits of scores and inputs to be marked."""
    ensemble = scored.ensemble
    (f,) = find_columns([column], ensemble.n_features, domain.columns or ensemble.feature_names, "column")
    slices = _slices(ensemble.threshold[ensemble.feature == f], domain, f)
    if f in ensemble.categorical or any(f in group for group in domain.groups) or not slices:
        raise DomainError(f"Expected a column of numbers between two ends, got {domain.name(f)}.")
    ends = []
    for low, high in slices:
        part = domain.with_range(f, low, high)
        found = measure(scored.opened, "range", part, outputs=outputs, time_limit=time_limit / len(slices))
        ends.append((found.bounds[0][0], found.bounds[1][1]))
    points: list[tuple[float, float]] = []
    if inputs is not None and ensemble.scaling is None:  # else they are in other units
        rows = ensemble.rows(inputs)[slice(0, len(inputs))]
        points = [(float(row[f]), scored.score_of(row)) for row in rows if not math.isnan(row[f])]
    limits = [limit for limit in limits if math.isfinite(limit)]
    scores = [*limits, *(score for _, score in points), *(end for pair in ends for end in pair)]
    shown = [score for score in scores if math.isfinite(score)]
    least, most = min(shown, default=0.0), max(shown, default=1.0)
    edge = 0.05 * (most - least) or 0.5
    below, above = (np.clip(end, least - edge, most + edge) for end in zip(*ends, strict=True))
    edges = np.array([slices[0][0], *(high for _, high in slices)])
    return Plot(
        cut(domain.name(f), 60),
        "score",
        (least - edge, most + edge),
        f"Whatever other columns are, scores lie in the band: this is proved, in each of {len(slices)} slices."
        + " Marked: inputs that refute the statement." * bool(points),
        columns=[Columns(edges, below, above, "accent", "proved", [f"from {a:.6g} to {b:.6g}" for a, b in ends])],
        x_start=float(edges[0]),
        points=points,
        limits=limits,
    )


def _slices(cuts: NDArray[np.float64], domain: Domain, f: int) -> list[tuple[float, float]]:
    """Return slices of the values of a column that end where trees tell values apart."""
    low, high = float(domain.low[f]), float(domain.high[f])
    if not (low < high and math.isfinite(low) and math.isfinite(high)):
        return []
    cuts = np.unique(np.floor(cuts) if domain.integer[f] else cuts)
    cuts = cuts[(low <= cuts) & (cuts < high)]
    places = np.unique(np.linspace(0, len(cuts) - 1, min(N_SLICES - 1, len(cuts))).round().astype(int))
    ends = [*cuts[places].tolist(), high]
    starts = [low, *(math.nextafter(end, math.inf) for end in ends[:-1])]
    return list(zip(starts, ends, strict=True))

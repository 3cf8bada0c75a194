"""What numbers of a model stand for in the data of a domain: text of columns, frames of inputs."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from certiforest.ensemble import TreeEnsemble
from certiforest.ensemble.categories import HASHES, Codes, are_numbers
from certiforest.ensemble.frames import cast
from certiforest.statements.domain import Domain, DomainError
from certiforest.words import shown


def decode(domain: Domain, ensemble: TreeEnsemble, rows: NDArray[np.float64]) -> Any:
    """Return rows of a model as the data had them: a data frame if the columns have names, with its types."""
    rows = rows if domain.scaling is None else domain.scaling.invert(rows)
    if domain.columns is None or find_spec("pandas") is None:
        return rows
    import pandas as pd

    table = {}
    for f, name in enumerate(domain.columns):
        names = _names(domain, ensemble, f)
        values = [names.get(code) for code in rows[:, f].tolist()] if names else None  # what is missing has no name
        table[name] = pd.Series(values, dtype=object) if values else pd.Series(rows[:, f])
    frame = pd.DataFrame(table)
    if domain.like is None:
        return frame
    frame.columns = domain.like.columns
    for name, kind in domain.like.dtypes.items():
        frame[name] = cast(frame[name], kind)
    return frame


def check_listed(domain: Domain, ensemble: TreeEnsemble) -> None:
    """Refuse ranges of columns whose numbers in a model are others than in the data: places, or CatBoost's hashes."""
    for f in ensemble.categorical.tolist():
        known = (ensemble.categories or {}).get(f)
        if f in domain.values or known is None or are_numbers(known):
            continue
        if domain.columns is not None or (not known and domain.low[f] < HASHES):
            raise DomainError(
                f"Expected the values of {domain.name(f)}, which holds categories of the model, got a range of numbers;"
                f" list them, as with Domain.from_data(X, values={{{f}: [...]}})."
            )


def codes_of(domain: Domain, ensemble: TreeEnsemble, f: int) -> dict[Any, float]:
    """Return the numbers that stand for the values of a column in a model."""
    kept, known, name = domain.listed(f), (ensemble.categories or {}).get(f), domain.name(f)
    if known is None and isinstance(kept[0], str):
        if (ensemble.feature == f).any():
            raise DomainError(f"Expected numbers in column {name}, which is one of numbers in the model, got text.")
        return {value: float(code) for code, value in enumerate(kept)}  # no tree looks at it
    if known is None:
        return {value: float(value) for value in kept}
    codes = Codes(known, ensemble.unseen.get(f))
    try:
        return {value: float(codes[value]) for value in kept}
    except (KeyError, TypeError):
        raise DomainError(
            f"Expected values of {name} that the model knows, {shown(list(known))}, got {shown(list(kept))}."
        ) from None


def _names(domain: Domain, ensemble: TreeEnsemble, f: int) -> dict[float, Any] | None:
    """Return the values that numbers of a column stand for, None if they stand for themselves."""
    known = (ensemble.categories or {}).get(f)
    if f in domain.values:
        if known is None and not isinstance(domain.values[f][0], str):
            return None
        return {code: value for value, code in codes_of(domain, ensemble, f).items()}
    return None if not known or are_numbers(known) else dict(enumerate(known))

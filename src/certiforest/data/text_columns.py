"""Text in the columns of files: the categories of a model, as numbers for its trees, and as text for people."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from certiforest.data.tables import MISSING, WHOLE_NUMBER, TableError, is_number
from certiforest.ensemble import TreeEnsemble
from certiforest.ensemble.categories import Codes
from certiforest.words import shown


@dataclass(frozen=True)
class TextColumns:
    """The features of a model that files may have as text.

    Attributes
    ----------
    names : tuple of str, or None
        Names of all features of the model, if it has any.
    codes : dict of int to Codes
        By feature, the number of each text.
    """

    names: tuple[str, ...] | None
    codes: dict[int, Codes]

    @classmethod
    def of(cls, ensemble: TreeEnsemble) -> TextColumns:
        """Return those of a model. Categories that are numbers are read as such."""
        codes = {f: Codes(values, ensemble.unseen.get(f)) for f, values in (ensemble.categories or {}).items()}
        return cls(ensemble.feature_names, {f: own for f, own in codes.items() if not own.holds_numbers})

    def places(self, names: Sequence[str] | None) -> dict[int, Codes]:
        """Return the codes by place among the features of a file, given their names."""
        if names is None or self.names is None:
            return self.codes
        place = {name: index for index, name in enumerate(names)}
        return {place[self.names[f]]: own for f, own in self.codes.items() if self.names[f] in place}


def code_of(value: Any, codes: Codes, where: str, *, missing: bool) -> float:
    """Return the number of a text, NaN if it is missing; ``where`` it stands is said in errors.

    A text that is a category is one, whatever else it may look like.
    """
    is_text = isinstance(value, str)
    if is_text and WHOLE_NUMBER.fullmatch(value.strip()) and any(isinstance(known, int) for known in codes):
        value = int(value)
    if value in codes:
        return codes[value]
    if value is None or value != value or (is_text and value.strip() in MISSING):
        if not missing:
            raise TableError(f"Expected a category, got a missing value in {where}. Remove or fill such rows first.")
        return np.nan
    is_code = codes.unseen != "hashed" and is_text and is_number(value)
    try:
        if is_code and not any(is_number(str(known)) for known in codes):
            raise KeyError(value)
        return codes[value]
    except KeyError:
        kind = "categories, written as text," if is_code else "categories"
        raise TableError(
            f"Expected one of the {len(codes)} {kind} that the model knows, got {shown(value)} in {where}. Leave such"
            f" rows out{', or leave the cell empty' if missing else ''}."
        ) from None


def texts_of(
    number: NDArray[np.float64], before: NDArray[np.float64], texts: NDArray, codes: Codes
) -> NDArray[np.str_]:
    """Return numbers as text: that of the row where nothing changed, that of a category else, none for NaN.

    Parameters
    ----------
    number, before : ndarray of float64, shape (n,)
        Of changed rows, and of rows as they were read.
    texts : ndarray of str, shape (n,)
        What the latter were read from.
    codes : Codes
    """
    known = {code: str(text) for text, code in codes.items()}
    columns = zip(number.tolist(), before.tolist(), texts.tolist(), strict=True)
    found = ["" if z != z else text if z == x else known.get(z, "") for z, x, text in columns]
    return np.array(found, dtype=str)

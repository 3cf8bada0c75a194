"""The model file of this library as a JSON document (``docs/file_format.md``): written, read and checked."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from certiforest.ensemble.documents import entries, integers, numbers, strings
from certiforest.ensemble.nodes import ModelError
from certiforest.ensemble.scaling import Scaling, ScalingError
from certiforest.words import shown

if TYPE_CHECKING:
    from certiforest.ensemble.tree_ensemble import TreeEnsemble

FORMAT = "certiforest"
FORMAT_VERSION = 2  # of files with missing values or categories; others are of version 1
PIECE = 2**14  # entries of a list that are written at once


def pieces(ensemble: TreeEnsemble, *, is_sorted: bool = False) -> Iterator[str]:
    """Yield the text of a model file piece by piece, on demand with its names sorted."""
    document, start = _document(ensemble), "{"
    for name in sorted(document) if is_sorted else document:
        value = document[name]
        yield f'{start}"{name}":'
        start = ","
        if isinstance(value, np.ndarray):
            for first in range(0, len(value), PIECE):
                part = value[first : first + PIECE].tolist()
                if name == "threshold":
                    part = [None if v != v else v for v in part]
                yield ("," if first else "[") + _text(part, is_sorted)[1:-1]
            yield "]"
        else:
            yield _text(value, is_sorted)
    yield "}"


def _text(value: Any, is_sorted: bool) -> str:
    return json.dumps(value, sort_keys=is_sorted, separators=(",", ":"), allow_nan=False)


def _document(ensemble: TreeEnsemble) -> dict[str, Any]:
    """Return what a model file says of an ensemble, its long lists as arrays."""
    is_plain = ensemble.missing_left is None and ensemble.subset is None
    document: dict[str, Any] = {
        "format": FORMAT,
        "version": 1 if is_plain else FORMAT_VERSION,
        "combine": ensemble.combine,
        "n_features": ensemble.n_features,
        "feature_names": None if ensemble.feature_names is None else list(ensemble.feature_names),
        "classes": None if ensemble.is_regressor else ensemble.classes.tolist(),
        "feature": ensemble.feature,
        "threshold": ensemble.threshold,
        "leaf": ensemble.leaf,
    }
    if ensemble.missing_left is not None:
        document["missing_left"] = ensemble.missing_left.astype(int)
    if ensemble.categories is not None:
        document["categories"] = [
            [f, list(values), ensemble.unseen.get(f)] for f, values in ensemble.categories.items()
        ]
    if ensemble.required:
        document["required"] = list(ensemble.required)
    if ensemble.blanks is not None:
        document["blanks"] = [[feature, *pair] for feature, pair in ensemble.blanks.items()]
    if ensemble.subset is not None and ensemble.subsets is not None:
        document |= {"subset": ensemble.subset, "subsets": [values.tolist() for values in ensemble.subsets]}
    if ensemble.scaling is not None:
        document["scaling"] = {
            "offset": ensemble.scaling.offset.tolist(),
            "range": ensemble.scaling.range.tolist(),
        }
    if ensemble.scores is not None and ensemble.base is not None:
        document |= {"scores": ensemble.scores, "base": ensemble.base.tolist()}
    if ensemble.training is not None:
        document["training"] = dict(ensemble.training)
    return document


def from_document(document: Any) -> dict[str, Any]:
    """Return what a model file says as arguments of `TreeEnsemble`, which checks them further."""
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise ModelError(f'Expected an object with "format": "{FORMAT}".')
    version = document.get("version")
    if type(version) is not int or not 1 <= version <= FORMAT_VERSION:
        raise ModelError(
            f"Expected format version 1 to {FORMAT_VERSION}, got {shown(version)}."
            " A newer version of certiforest may read it: pip install --upgrade certiforest."
        )
    combine = document.get("combine")
    if combine not in ("vote", "sum"):
        raise ModelError(f'Expected "combine": "vote" or "sum", got {shown(combine)}.')
    if combine == "vote" and not document.keys().isdisjoint(("scores", "base")):
        raise ModelError('Expected no "scores" and no "base" where trees vote, got one of them.')
    feature, leaf = integers(document, "feature"), integers(document, "leaf")
    has_aside = not document.keys().isdisjoint(("missing_left", "subset", "subsets", "blanks", "categories"))
    if has_aside != (version == 2):
        raise ModelError('Expected "missing_left" or "subset" in files of version 2 only, and there, got it otherwise.')
    threshold = _read_thresholds(document) if has_aside else numbers(document, "threshold")
    missing_left = integers(document, "missing_left") if "missing_left" in document else None
    subset = integers(document, "subset") if "subset" in document else None
    if feature.shape == threshold.shape == leaf.shape:
        is_leaf = feature < 0
        if (leaf[~is_leaf] != -1).any() or (threshold[is_leaf] != 0).any():
            raise ModelError('Expected "leaf" to be -1 at splits and "threshold" 0 at leaves, got other numbers.')
        for name, column, nothing in (("missing_left", missing_left, 0), ("subset", subset, -1)):
            if column is not None and column.shape == leaf.shape and (column[is_leaf] != nothing).any():
                raise ModelError(f'Expected "{name}" to be {nothing} at leaves, got other numbers.')
    has_scores = combine == "sum"
    return {
        "feature": feature,
        "threshold": threshold,
        "leaf": leaf,
        "n_features": document.get("n_features"),
        "classes": None if document.get("classes", ()) is None else entries(document, "classes"),
        "feature_names": None if document.get("feature_names") is None else strings(document, "feature_names"),
        "scaling": None if document.get("scaling") is None else _read_scaling(document["scaling"]),
        "scores": [numbers({"scores": row}, "scores") for row in entries(document, "scores")] if has_scores else None,
        "base": numbers(document, "base") if has_scores else None,
        "training": document.get("training"),
        "missing_left": missing_left,
        "subset": subset,
        **(_read_categories(document) if "categories" in document else {}),
        "required": integers(document, "required") if "required" in document else (),
        "blanks": _read_blanks(document) if "blanks" in document else None,
        "subsets": _read_subsets(document) if "subsets" in document else None,
    }


def _read_thresholds(document: Any) -> Any:
    """Return thresholds, NaN where there is none, which is null in the file."""
    found = [0.0 if v is None else v for v in entries(document, "threshold")]
    threshold = numbers({"threshold": found}, "threshold")
    threshold = threshold.copy()
    threshold[[v is None for v in entries(document, "threshold")]] = math.nan
    return threshold


def _read_categories(document: Any) -> dict[str, dict[int, Any]]:
    categories: dict[int, list] = {}
    unseen: dict[int, str] = {}
    for entry in entries(document, "categories"):
        is_sound = isinstance(entry, list) and len(entry) == 3 and type(entry[0]) is int
        if not is_sound or not isinstance(entry[1], list) or not isinstance(entry[2], (str, type(None))):
            raise ModelError(
                f'Expected "categories" to hold a feature, its values and what becomes of others, got {shown(entry)}.'
            )
        categories[entry[0]] = entry[1]
        if entry[2] is not None:
            unseen[entry[0]] = entry[2]
    if len(categories) < len(entries(document, "categories")):
        raise ModelError('Expected "categories" to name each feature once, got one twice.')
    return {"categories": categories, "unseen": unseen}


def _read_blanks(document: Any) -> dict[int, Any]:
    found = [numbers({"blanks": entry}, "blanks", size=3).tolist() for entry in entries(document, "blanks")]
    if any(feature != int(feature) for feature, _, _ in found) or len({entry[0] for entry in found}) < len(found):
        raise ModelError('Expected "blanks" to name each feature once by its index, got others.')
    return {int(feature): (low, high) for feature, low, high in found}


def _read_subsets(document: Any) -> list[Any]:
    return [numbers({"subsets": values}, "subsets") for values in entries(document, "subsets")]


def _read_scaling(entry: Any) -> Scaling:
    if not isinstance(entry, dict) or set(entry) != {"offset", "range"}:
        raise ModelError(f'Expected "scaling" to hold "offset" and "range", got {shown(entry)}.')
    try:
        return Scaling(numbers(entry, "offset"), numbers(entry, "range"))
    except ScalingError as error:
        raise ModelError(f'The "scaling" is wrong. {error}') from None

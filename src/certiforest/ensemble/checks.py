"""Whether what an ensemble is made of, beside its nodes, is sound: classes, scores, names, categories."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from certiforest.ensemble.categories import HASHES, UNSEEN, are_numbers, numbers_of
from certiforest.ensemble.nodes import ModelError, floats_of
from certiforest.ensemble.numbers import is_whole, owned
from certiforest.ensemble.scaling import Scaling
from certiforest.ensemble.tree_kernels import NodeColumns
from certiforest.words import shown

MAX_FEATURES = 2**24  # a row of them takes 128 MB; a small file may claim any number


def check_subsets(subsets: Any) -> tuple[NDArray[np.float64], ...] | None:
    """Return sets of finite numbers, each sorted and every number once."""
    if subsets is None:
        return None
    found = tuple(owned(np.unique(floats_of(subset, "subsets") + 0.0)) for subset in subsets)
    for subset, given in zip(found, subsets, strict=True):
        if subset.ndim != 1 or len(subset) != len(given) or not np.isfinite(subset).all():
            raise ModelError("Expected subsets to be lists of finite numbers, each once, got others.")
    return found


def check_values(
    nodes: NodeColumns,
    subsets: Sequence[NDArray[np.float64]],
    categories: Mapping[int, Sequence[Any]],
    unseen: Mapping[int, str],
) -> None:
    """Refuse sets with values that no row may have."""
    tested, subset = nodes.feature, nodes.subset
    for feature in np.unique(tested[subset >= 0]).tolist():
        values, word = categories.get(feature, ()), unseen.get(feature)
        places = np.unique(subset[(tested == feature) & (subset >= 0)])
        found = np.concatenate([subsets[place] for place in places])
        is_sound = are_numbers(values) or (found == np.floor(found)).all()
        if word == "refused":
            is_sound = bool(np.isin(found, numbers_of(values)).all())
        if word == "hashed":
            is_sound = is_sound and bool(((found >= HASHES) & (found < HASHES + 2**32)).all())
        if not is_sound:
            raise ModelError(f"Expected sets of values that feature {feature} may have, got others.")


def check_categories(categories: Any, n_features: int) -> dict[int, tuple[Any, ...]] | None:
    """Return the values of each category: text, whole numbers, or floats that stand for themselves, each once."""
    if categories is None:
        return None
    found = {int(feature): tuple(values) for feature, values in dict(categories).items()}
    for feature, values in found.items():
        is_sound = 0 <= feature < n_features and len({type(value) for value in values}) <= 1
        is_sound = is_sound and all(type(value) in (str, int, float) for value in values)
        is_sound = is_sound and not (are_numbers(values) and not np.isfinite(values).all())
        if not is_sound or len(set(values)) < len(values):
            raise ModelError(
                "Expected the categories of a feature to be text, whole numbers or finite floats, each once, got"
                f" {shown(values)} for feature {feature}."
            )
    return dict(sorted(found.items()))


def check_unseen(unseen: Any, categories: Mapping[int, Any] | None) -> dict[int, str]:
    """Return what becomes of values that are not among the categories of a feature."""
    found = {int(feature): word for feature, word in dict(unseen or {}).items()}
    for feature, word in found.items():
        if feature not in (categories or {}) or word not in UNSEEN:
            raise ModelError(
                f"Expected {', '.join(UNSEEN)} for unseen values of features that have categories, got {shown(word)}"
                f" for feature {feature}."
            )
    return dict(sorted(found.items()))


def check_required(required: Any, n_features: int) -> tuple[int, ...]:
    """Return the features that must not be missing, though others may."""
    found = tuple(sorted({int(feature) for feature in required}))
    if found and not 0 <= found[0] <= found[-1] < n_features:
        raise ModelError(f"Expected required features from 0 to {n_features - 1}, got {found[0]} to {found[-1]}.")
    return found


def check_blanks(blanks: Any, n_features: int) -> dict[int, tuple[float, float]] | None:
    """Return which numbers count as missing: by feature, the smallest and the largest."""
    if blanks is None:
        return None
    found = {int(feature): (float(pair[0]), float(pair[1])) for feature, pair in dict(blanks).items()}
    for feature, (low, high) in found.items():
        if not 0 <= feature < n_features or not -np.inf < low <= high < np.inf:
            raise ModelError(
                f"Expected blanks to be a finite range of numbers for features up to {n_features - 1}, got {low} to"
                f" {high} for feature {feature}."
            )
    return dict(sorted(found.items()))


def check_classes(classes: Any) -> NDArray:
    """Return class labels: whole numbers, floats, booleans or text, each once, with the values given."""
    given = classes.tolist() if isinstance(classes, np.ndarray) else classes
    try:
        given = list(given)
        labels = np.array(given)
    except (TypeError, ValueError):
        labels = np.empty(0)
    if labels.ndim != 1 or labels.size == 0 or labels.dtype.kind not in "biufU":
        raise ModelError(
            "Expected a list of class labels that are all strings, all integers, all floats or all booleans,"
            f" got {shown(classes)}."
        )
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        raise ModelError("Expected finite class labels, got NaN or infinity.")
    # Text that ends with a zero byte loses it in an array; numbers may be rounded to fit one type.
    if len({type(label) for label in given}) > 1 or labels.tolist() != given:
        raise ModelError(f"Expected class labels of one type that keep their values, got {shown(given)}.")
    if len(np.unique(labels)) != labels.size:
        raise ModelError(f"Expected every class label once, got {shown(given)}.")
    return owned(labels)


def check_scores(
    scores: ArrayLike | None, base: ArrayLike | None, n_classes: int, *, is_regressor: bool = False
) -> tuple[NDArray[np.float64] | None, NDArray[np.float64] | None]:
    """Return scores, shape (n, n_outputs), and base, shape (n_outputs,); neither for trees that vote."""
    if scores is None:
        if is_regressor:
            raise ModelError("Expected classes for trees that vote, got none, as of a regressor, which has scores.")
        if base is not None:
            raise ModelError("Expected scores wherever there is a base, got a base only.")
        return None, None
    table = floats_of(scores, "scores")
    outputs = {1} if is_regressor else {n_classes, 1} if n_classes == 2 else {n_classes}
    if table.ndim != 2 or table.shape[0] == 0 or table.shape[1] not in outputs:
        wanted = " or ".join(f"(n, {n})" for n in sorted(outputs))
        whom = "a regressor" if is_regressor else f"{n_classes} classes"
        raise ModelError(f"Expected scores of shape {wanted} for {whom}, got shape {table.shape}.")
    start = np.zeros(table.shape[1]) if base is None else floats_of(base, "base")
    if start.shape != table.shape[1:]:
        raise ModelError(f"Expected one base for each of {table.shape[1]} outputs, got shape {start.shape}.")
    for name, numbers in (("scores", table), ("base", start)):
        if not np.isfinite(numbers).all():
            raise ModelError(f"Expected finite {name}, got NaN or infinity.")
    return owned(table + 0.0), owned(start + 0.0)  # one kind of zero


def check_n_features(n_features: Any) -> int:
    """Return the length of a row."""
    if not is_whole(n_features):
        raise ModelError(f"Expected n_features to be an integer, got {shown(n_features)}.")
    if not 1 <= n_features <= MAX_FEATURES:
        raise ModelError(f"Expected n_features between 1 and {MAX_FEATURES}, got {shown(n_features)}.")
    return int(n_features)


def check_feature_names(names: Sequence[str] | None, n_features: int) -> tuple[str, ...] | None:
    """Return the name of each feature."""
    if names is None:
        return None
    if isinstance(names, (str, bytes)) or not hasattr(names, "__iter__"):
        raise ModelError(f"Expected {n_features} feature names, got {shown(names)}.")
    names = tuple(str(name) for name in names)
    if len(names) != n_features:
        raise ModelError(f"Expected {n_features} feature names, got {len(names)}.")
    return names


def check_scaling(scaling: Scaling | None, n_features: int) -> Scaling | None:
    """Return a scaling that fits the length of a row."""
    if scaling is not None and not isinstance(scaling, Scaling):
        raise ModelError(f"Expected a Scaling, got {shown(scaling)}.")
    if scaling is not None and scaling.n_features != n_features:
        raise ModelError(f"Expected a scaling of {n_features} features, got one of {scaling.n_features}.")
    return scaling


def check_training(training: Any) -> dict[str, Any] | None:
    """Return a copy of what is noted about the rows that were learned: plain values by name."""
    if training is None:
        return None
    is_plain = isinstance(training, Mapping) and all(
        isinstance(name, str) and isinstance(value, (str, int, float, type(None))) for name, value in training.items()
    )
    if not is_plain:
        raise ModelError(f'Expected "training" to hold plain values by name, got {shown(training)}.')
    return dict(training)

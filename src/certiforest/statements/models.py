"""Several models as one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from certiforest.ensemble import TreeEnsemble
from certiforest.statements.domain import DomainError


def join(ensembles: Sequence[TreeEnsemble]) -> TreeEnsemble:
    """Return one ensemble whose outputs are those of several, one after the other; votes are scores of one.

    Raises
    ------
    DomainError
        If a column is something else in one model than in another.
    """
    n_features = ensembles[0].n_features
    if any(ensemble.n_features != n_features for ensemble in ensembles):
        raise DomainError("Expected models of the same columns, got different numbers of them.")
    names = [ensemble.feature_names for ensemble in ensembles if ensemble.feature_names is not None]
    if len(set(names)) > 1:
        raise DomainError("Expected models of the same columns in the same order, got different names.")
    if any(ensemble.scaling != ensembles[0].scaling for ensemble in ensembles):
        raise DomainError("Expected models that scale columns alike, or not at all, got different scalings.")
    takes_missing = any(ensemble.missing_left is not None for ensemble in ensembles)
    categories = {f: list(known) for ensemble in ensembles for f, known in (ensemble.categories or {}).items()}
    blanks = ensembles[0].blanks
    for ensemble in ensembles:
        numbers = {*ensemble.feature[ensemble.number_splits].tolist()}
        if any(list(known) != categories[f] for f, known in (ensemble.categories or {}).items()) or any(
            f in numbers for other in ensembles for f in other.categorical.tolist()
        ):
            raise DomainError("Expected columns with the same categories in all models, got different ones.")
        if ensemble.blanks != blanks:
            raise DomainError("Expected models that take the same numbers as missing, got different ones.")
    tables = [_scores_of(ensemble) for ensemble in ensembles]
    n_outputs = sum(len(base) for _, base in tables)
    scores = np.zeros((sum(len(table) for table, _ in tables), max(n_outputs, 1)))
    row = column = 0
    nodes: list[list[NDArray]] = [[], [], [], [], []]
    subsets: list[NDArray[np.float64]] = []
    required: set[int] = set()
    for ensemble, (table, base) in zip(ensembles, tables, strict=True):
        scores[row : row + len(table), column : column + len(base)] = table
        feature, threshold, leaf, missing_left, subset = ensemble.nodes
        moved = np.where(feature < 0, leaf + row, -1), np.where(subset >= 0, subset + len(subsets), -1)
        for part, values in zip(nodes, (feature, threshold, moved[0], missing_left, moved[1]), strict=True):
            part.append(values)
        subsets += list(ensemble.subsets or ())
        required |= {*ensemble.required} if ensemble.missing_left is not None else {*range(n_features)}
        row, column = row + len(table), column + len(base)
    feature, threshold, leaf, missing_left, subset = (np.concatenate(part) for part in nodes)
    return TreeEnsemble(
        feature, threshold, leaf, n_features=n_features, classes=range(max(n_outputs, 2)), scores=scores,
        base=np.concatenate([base for _, base in tables]), missing_left=missing_left if takes_missing else None,
        subset=subset if subsets else None, subsets=subsets or None, categories=categories or None,
        feature_names=names[0] if names else None,
        unseen={f: word for ensemble in ensembles for f, word in ensemble.unseen.items()} if categories else None,
        required=sorted(required) if takes_missing else (), blanks=blanks,
    )  # fmt: skip


def _scores_of(ensemble: TreeEnsemble) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    if ensemble.combine == "vote":
        return np.eye(ensemble.n_classes), np.zeros(ensemble.n_classes)
    return ensemble.summands()

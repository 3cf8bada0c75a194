"""InterpretML's explainable boosting machines: each term, a table over bins of one column or several, becomes a tree.

A term's tree halves the bins of its first column, below these those of the second. The score of a missing value stands
first in a table, that of a category that was never seen last.
"""

from __future__ import annotations

import math
import re
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from certiforest.ensemble import ModelError, Nodes, TreeEnsemble
from certiforest.ensemble.numbers import NUMBER
from certiforest.ensemble.scores import ScoreTable
from certiforest.formats.opened import LOGISTIC_SLACK, Opened, asker, log_odds, unfitted
from certiforest.words import shown

GIVEN_NAME = re.compile(r"feature_[0-9]{4}")  # by the library, to columns without one
LINKS: dict[str, Any] = {"identity": float, "log": math.log}


def content_of_ebm(model: Any) -> list[NDArray]:
    """Return the arrays that decide what a fitted model predicts."""
    if not type(model).__name__.startswith("ExplainableBoosting"):
        raise ModelError(f"Expected an ExplainableBoostingClassifier or Regressor, got {type(model).__name__}.")
    if not getattr(model, "has_fitted_", False):
        raise unfitted(model)
    bins = [level for levels in model.bins_ for level in levels]
    texts = repr((model.term_features_, model.link_, [level for level in bins if isinstance(level, dict)]))
    cuts = [level for level in bins if not isinstance(level, dict)]
    return [np.array(texts), np.atleast_1d(model.intercept_), *cuts, *map(np.asarray, model.term_scores_)]


def open_ebm(model: Any, content: Any) -> Opened:
    """Translate a model, given its content."""
    classes = getattr(model, "classes_", None)
    intercept = np.atleast_1d(np.asarray(model.intercept_, np.float64))
    is_regressor, n_outputs = classes is None, len(intercept)
    link = LINKS.get(model.link_) if is_regressor else log_odds
    if link is None or (classes is not None and (len(classes) < 2 or model.link_ not in ("logit", "mlogit"))):
        raise ModelError(
            "Expected a classifier of two classes or more, or a regressor that predicts a sum or its exponential, got"
            f" the link {shown(model.link_)}."
        )
    columns = [_column(model, f) for f in range(model.n_features_in_)]
    table, subsets = ScoreTable(n_outputs), list[list[int]]()
    trees = []
    for features, given in zip(model.term_features_, model.term_scores_, strict=True):
        scores = np.asarray(given, np.float64).reshape(*np.shape(given)[: len(features)], n_outputs)
        if not np.isfinite(scores).all():
            raise ModelError("Expected finite scores of terms, got others.")
        trees.append(_Term(columns, table, subsets).nodes(features, scores))
    named = [name for name in model.feature_names_in_ if not GIVEN_NAME.fullmatch(str(name))]
    names = np.array(model.feature_names_in_, object) if named else None
    categories = {f: column.values for f, column in enumerate(columns) if column.values}
    ensemble = TreeEnsemble.from_trees(
        trees,
        n_features=model.n_features_in_,
        feature_names=None if names is None else names.tolist(),
        classes=[0, 1] if is_regressor else classes,
        scores=table.table(),
        base=intercept,
        subsets=subsets or None,
        categories=categories or None,
        unseen=dict.fromkeys(categories, "other"),
    )
    proba = model.predict if is_regressor else (lambda rows: model.predict_proba(rows)[:, 1])
    opened = Opened(
        ensemble,
        type(model).__name__,
        predict=model.predict,
        raw=model.predict if is_regressor else model.decision_function,
        score=proba if n_outputs == 1 else None,
        sum_at=None if n_outputs > 1 else link,
        slack=0.0 if link is float else 4 * LOGISTIC_SLACK,
        is_regressor=is_regressor,
        has_softmax=n_outputs > 1,
    )
    return opened.asked_by(asker(categories, names))


class _Column(NamedTuple):
    """A column's bins, by how many columns a term has: cuts, or the bins of categories; and the values of these."""

    levels: list[Any]
    values: list[str]


def _column(model: Any, f: int) -> _Column:
    levels = model.bins_[f]
    if model.feature_types_in_[f] == "continuous":
        return _Column(levels, [])
    values = [str(value) for value in levels[0]]
    if any(NUMBER.fullmatch(value) for value in values) or len({*values} | {v for d in levels for v in d}) > len(
        values
    ):
        raise ModelError(
            f"Expected categories of column {f} that are text, got {shown(values)}, which rows of numbers"
            " could be codes of; fit with text, or as a continuous column."
        )
    return _Column(levels, values)


class _Term:
    """Grows the tree of a term: a list of [left, right, feature, threshold, leaf, missing left, subset]."""

    def __init__(self, columns: list[_Column], table: ScoreTable, subsets: list[list[int]]) -> None:
        self._columns, self._table, self._subsets = columns, table, subsets
        self._found: list[list[Any]] = []

    def nodes(self, features: tuple[int, ...], scores: NDArray[np.float64]) -> Nodes:
        """Return the tree of a table, (n_bins, ..., n_outputs)."""
        self._found, self._n_columns = [], len(features)
        self._grow(features, scores)
        return Nodes(*(np.array(column) for column in zip(*self._found, strict=True)))

    def _grow(self, features: tuple[int, ...], scores: NDArray[np.float64]) -> int:
        """Add what splits by the first of some features, and all below it; return where it stands."""
        if not features:
            return self._add(leaf=int(self._table.add(scores[None])[0]))
        f, *rest = features
        column = self._columns[f]
        level = column.levels[min(len(column.levels), self._n_columns) - 1]

        def below(i: int) -> int:
            return self._grow(tuple(rest), scores[i])

        if column.values:
            places = [level.get(value, -1) for value in column.values]
            known = self._add(f, subset=[*range(len(places))])
            self._join(known, self._halve(f, [*range(len(places))], places, below), self._add(f, missing_left=True))
            self._join(self._found[known][1], below(0), below(-1))
            return known
        # Cuts between bins of which the model says the same are left out.
        ends = [i for i in range(len(level)) if (scores[i + 1] != scores[i + 2]).any()]
        root = self._add(f, missing_left=True)
        self._join(root, below(0), self._split(f, level, ends, len(level) + 1, below))
        return root

    def _split(self, f: int, cuts: NDArray[np.float64], ends: list[int], last: int, below: Any) -> int:
        """Halve the bins that some cuts end, and the last one."""
        if not ends:
            return below(last)
        middle = len(ends) // 2
        node = self._add(f, float(np.nextafter(cuts[ends[middle]], -np.inf)))  # x < cut
        left = self._split(f, cuts, ends[:middle], ends[middle] + 1, below)
        self._join(node, left, self._split(f, cuts, ends[middle + 1 :], last, below))
        return node

    def _halve(self, f: int, codes: list[int], places: list[int], below: Any) -> int:
        """Halve the categories of a column."""
        if len({places[code] for code in codes}) == 1:
            return below(places[codes[0]])
        middle = len(codes) // 2
        node = self._add(f, subset=codes[:middle])
        left = self._halve(f, codes[:middle], places, below)
        self._join(node, left, self._halve(f, codes[middle:], places, below))
        return node

    def _add(
        self,
        feature: int = -1,
        threshold: float = math.nan,
        *,
        leaf: int = -1,
        missing_left: bool = False,
        subset: list[int] | None = None,
    ) -> int:
        place = -1
        if subset is not None:
            place = len(self._subsets)
            self._subsets.append(subset)
        self._found.append([-1, -1, feature, 0.0 if leaf >= 0 else threshold, leaf, missing_left, place])
        return len(self._found) - 1

    def _join(self, node: int, left: int, right: int) -> None:
        self._found[node][:2] = left, right

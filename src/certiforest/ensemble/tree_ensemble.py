"""TreeEnsemble: the one representation that every trainer makes, every format enters and every verdict reads.

Its semantics (``docs/verdicts.md``): all numbers are float64; a split sends a row left iff
``x[feature] <= threshold``, or, where it has no threshold, iff the value is in a set. NaN is a value that is missing,
and every split of a model that takes such rows says where it goes. Trees vote, each for the class of the leaf where the
row ends, and the class with most votes wins; or their scores add up, exactly, and the largest sum wins (a single sum:
above zero or not). The lowest class index wins ties.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from certiforest.ensemble import checks, model_file, score_kernels
from certiforest.ensemble import tree_kernels as kernels
from certiforest.ensemble.categories import numbers_of
from certiforest.ensemble.documents import read_json, sound
from certiforest.ensemble.flat_trees import FlatTrees
from certiforest.ensemble.nodes import ModelError, Nodes, check_nodes, move_below, preorder
from certiforest.ensemble.numbers import are_equal
from certiforest.ensemble.rows import Rows
from certiforest.ensemble.scaling import Scaling
from certiforest.ensemble.scores import prepare_scores
from certiforest.ensemble.tree_kernels import LARGEST
from certiforest.files import write_atomically

NODES = ("feature", "threshold", "leaf", "missing_left", "subset")
PARAMETERS = (
    *NODES, "subsets", "categories", "unseen", "required", "blanks", "n_features", "classes", "feature_names",
    "scaling", "scores", "base", "training",
)  # fmt: skip


class TreeEnsemble(FlatTrees):
    """Trees that vote, or whose scores add up, as flat read-only arrays in preorder.

    Parameters
    ----------
    feature : array-like of int, shape (n_nodes,)
        Feature tested by each node, -1 at leaves. Trees follow one another, each in preorder: a split, its left
        subtree, its right subtree.
    threshold : array-like of float, shape (n_nodes,)
        A row goes left iff ``x[feature] <= threshold``. Ignored at leaves.
    leaf : array-like of int, shape (n_nodes,)
        Class index of each leaf, or its row of ``scores``. Ignored at splits.
    n_features : int
        Length of a row.
    classes : array-like, shape (n_classes,), or None
        Label of each class index. None for a regressor, which says its sum; the attribute is 0 (up to zero) and 1 then.
    feature_names : sequence of str, optional
        Column names, compared with those of a data frame wherever rows enter.
    scaling : Scaling, optional
        How rows were scaled before the trees were trained. It travels with the ensemble and is never applied by
        it: rows, thresholds and eps are in scaled units, ``scaling.apply(X)`` takes the data there.
    scores : array-like of float, shape (n_scores, n_outputs), optional
        What leaves add to the sums; without it the trees vote. One output for two classes: a sum above zero predicts
        the second class. Else one per class: the largest sum wins, the lowest class index on ties.
    base : array-like of float, shape (n_outputs,), optional
        Where the sums begin; zeros if not given.
    training : mapping of str to plain values, optional
        What the command line notes about the rows that were learned. It travels with the ensemble as it is.
    missing_left : array-like of bool, shape (n_nodes,), optional
        Which splits send NaN, a value that is missing, left. Without it, rows must not have any.
    subset : array-like of int, shape (n_nodes,), optional
        Row of ``subsets`` at splits that send a set of values left, -1 at others. Such splits have the threshold NaN,
        and so have those that send every number right and only NaN left.
    subsets : sequence of array-like of float, optional
        The sets of values. A feature tested for sets is a category: it has no order, and attackers do not change it.
    categories : mapping of int to sequence of str, int or float, optional
        By feature, the values that the numbers 0, 1, 2, ... in its sets stand for, with which columns of data frames
        are compared; floats stand for themselves.
    unseen : mapping of int to {"refused", "other", "hashed"}, optional
        By feature, what becomes of a value that is not among its categories: nobody takes it, it is in no set, or the
        hash by which CatBoost knows it is looked for in sets. If nothing is said, data frames with such values are
        refused, and other numbers are in no set.
    required : sequence of int, optional
        Features that must not be missing, though others may.
    blanks : mapping of int to pair of float, optional
        By feature, the smallest and the largest of numbers that count as missing, as NaN does. Nobody moves a value
        there or from there.

    Attributes
    ----------
    feature, threshold, leaf, right, tree_start : ndarray
        The nodes that some row can reach: branches whose box is empty are cut when the ensemble is built.
        The left child of node ``i`` is ``i + 1``, its right child ``right[i]``; nodes of tree ``t`` are
        ``tree_start[t]:tree_start[t + 1]``.
    missing_left, subset : ndarray, or None
        As given, for these nodes.
    low, high : ndarray of float64, shape (n_nodes,)
        The interval ``(low, high]`` which the path above a split leaves to the feature that it tests.

    Examples
    --------
    >>> from certiforest import TreeEnsemble
    >>> stump = TreeEnsemble([0, -1, -1], [0.5, 0, 0], [-1, 0, 1], n_features=1, classes=["ham", "spam"])
    >>> stump.predict([[0.5], [0.6]])
    array(['ham', 'spam'], dtype='<U4')
    >>> boosted = TreeEnsemble([0, -1, -1], [0.5, 0, 0], [-1, 0, 1], n_features=1, classes=["ham", "spam"],
    ...                        scores=[[-0.25], [0.75]], base=[-0.5])
    >>> boosted.decision_function([[0.5], [0.6]])
    array([-0.75,  0.25])
    """

    classes: NDArray
    is_regressor: bool
    feature_names: tuple[str, ...] | None
    scaling: Scaling | None
    scores: NDArray[np.float64] | None
    base: NDArray[np.float64] | None
    training: Mapping[str, Any] | None
    categories: dict[int, tuple[Any, ...]] | None
    unseen: dict[int, str]

    def __init__(
        self,
        feature: ArrayLike,
        threshold: ArrayLike,
        leaf: ArrayLike,
        *,
        n_features: int,
        classes: ArrayLike | None,
        feature_names: Sequence[str] | None = None,
        scaling: Scaling | None = None,
        scores: ArrayLike | None = None,
        base: ArrayLike | None = None,
        training: Mapping[str, Any] | None = None,
        missing_left: ArrayLike | None = None,
        subset: ArrayLike | None = None,
        subsets: Sequence[ArrayLike] | None = None,
        categories: Mapping[int, Sequence[Any]] | None = None,
        unseen: Mapping[int, str] | None = None,
        required: Sequence[int] = (),
        blanks: Mapping[int, tuple[float, float]] | None = None,
    ) -> None:
        n_features = checks.check_n_features(n_features)
        labels = checks.check_classes([0, 1] if classes is None else classes)
        table, start = checks.check_scores(scores, base, len(labels), is_regressor=classes is None)
        self._set(
            n_features=n_features,
            classes=labels,
            is_regressor=classes is None,
            feature_names=checks.check_feature_names(feature_names, n_features),
            scaling=checks.check_scaling(scaling, n_features),
            scores=table,
            base=start,
            training=checks.check_training(training),
            subsets=checks.check_subsets(subsets),
            categories=checks.check_categories(categories, n_features),
            unseen=checks.check_unseen(unseen, categories),
            required=checks.check_required(required, n_features) if missing_left is not None else (),
            blanks=checks.check_blanks(blanks, n_features),
        )
        if blanks is not None and missing_left is None:
            raise ModelError("Expected missing_left wherever numbers count as missing, got blanks only.")
        if (subset is None) != (subsets is None):
            raise ModelError("Expected subset and subsets together, got one of them.")
        n_values = len(labels) if table is None else len(table)
        columns = feature, threshold, leaf, missing_left, subset
        nodes = check_nodes(columns, n_features, n_values, len(self.subsets or ()))
        checks.check_values(nodes, self.subsets or (), self.categories or {}, self.unseen)
        if self.blanks is not None:
            nodes = move_below(nodes, self.blank_bounds)
        self._trim(nodes, -np.inf, LARGEST, may_miss=missing_left is not None)
        if table is not None and not 8 * self.largest_sum < np.inf:
            raise ModelError("Expected scores whose sums are finite numbers, got larger ones.")

    @classmethod
    def from_trees(cls, trees: Iterable[Nodes], **parameters: Any) -> TreeEnsemble:
        """Build an ensemble from trees whose children are given by index; the other parameters are those of the class.

        `ModelError` is raised if children form a cycle, are shared, missing or out of range, or a node is malformed.
        """
        columns = [preorder(index, Nodes(*tree)) for index, tree in enumerate(trees)]
        if not columns:
            raise ModelError("Expected at least one tree, got none.")
        joined = [None if column[0] is None else np.concatenate(column) for column in zip(*columns, strict=True)]
        nodes: dict[str, Any] = dict(zip(NODES, joined, strict=True))
        if parameters.get("subsets") is None and nodes["subset"] is not None and (nodes["subset"] < 0).all():
            nodes["subset"] = None
        return cls(**nodes, **parameters)

    def with_columns(
        self,
        feature_names: Sequence[str] | None = None,
        scaling: Scaling | None = None,
        training: Mapping[str, Any] | None = None,
    ) -> TreeEnsemble:
        """Return the same trees, knowing the names of their features, how rows were scaled, and which were learned."""
        other = copy(self)
        other._set(
            feature_names=checks.check_feature_names(feature_names, self.n_features),
            scaling=checks.check_scaling(scaling, self.n_features),
            training=checks.check_training(training),
        )
        return other

    def with_leaves(self, leaves: list[int], **changes: Any) -> TreeEnsemble:
        """Return the ensemble with more trees, of a single leaf each, and other values for parameters of the class."""
        more: tuple[Any, ...] = -1, 0.0, np.array(leaves, np.int64), False, -1
        for name, value in zip(NODES, more, strict=True):
            if getattr(self, name) is not None:
                changes[name] = np.append(getattr(self, name), np.broadcast_to(value, len(leaves)))
        return self.replace(**changes)

    def with_base(self, base: ArrayLike) -> TreeEnsemble:
        """Return the same trees, whose sums begin with another base of the same length."""
        other = copy(self)
        other._set(base=np.array(base, np.float64))
        return other

    def replace(self, **changes: Any) -> TreeEnsemble:
        """Return an ensemble made anew, and checked, with other values for some parameters of the class."""
        own = {name: getattr(self, name) for name in PARAMETERS} | ({"classes": None} if self.is_regressor else {})
        return TreeEnsemble(**own | changes)

    @cached_property
    def kept(self) -> dict[str, Any]:
        """What others make from the ensemble and want again; it neither travels to other processes nor is copied."""
        return {}

    @cached_property
    def without_idle_splits(self) -> TreeEnsemble:
        """The ensemble that says the same and has no split below which all leaves agree."""
        agreed = np.empty(self.n_nodes, np.int32)
        worth = np.arange(float(self.n_classes))[:, None] if self.scores is None else self.scores
        kernels.mark_agreement(self.feature, self.right, self.leaf, worth, agreed)
        keep = (self.parent < 0) | (agreed[self.parent] < 0)
        nodes = self.nodes._replace(feature=np.where(agreed < 0, self.feature, -1), leaf=agreed)
        return self._with_nodes(kernels.NodeColumns(*(column[keep] for column in nodes)))

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return len(self.classes)

    @property
    def combine(self) -> str:
        """How trees combine: "vote" or "sum"."""
        return "vote" if self.scores is None else "sum"

    def category_values(self, feature: int) -> NDArray[np.float64]:
        """Return the values of a category that can be told apart: those listed, or else those in sets, in order."""
        known = (self.categories or {}).get(feature)
        return numbers_of(known) if known else self.values_in_sets(feature)

    def rows(self, X: Any) -> Rows:
        """Return rows as they enter: checked, in blocks, NaN among them only if there is a place for it."""
        return Rows(
            X,
            self.n_features,
            self.feature_names,
            takes_missing=self.missing_left is not None,
            blanks=None if self.blanks is None else self.blank_bounds,
            categorical=self.categorical.tolist(),
            categories=self.categories,
            unseen=self.unseen,
            required=self.required,
        )

    def votes(self, X: Any) -> NDArray[np.int64]:
        """Count the votes of each class for rows (n, n_features), shape (n, n_classes)."""
        if self.combine != "vote":
            raise ModelError("Expected an ensemble whose trees vote, got one of scores; use decision_function instead.")
        rows = self.rows(X)
        votes = np.zeros((len(rows), self.n_classes), np.int64)
        for block in rows.blocks():
            x = rows[block]
            kernels.count_votes(self._trees_for(x), x, votes[block])
        return votes

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Add up the scores of each row in float64, base first, in the order of the trees.

        `predict` follows the exact sums, from which these differ by less than ``rounding_bound(np.float64)``. Their
        shape is (n,) for one output, else (n, n_outputs).
        """
        scores, base = self.summands()
        rows = self.rows(X)
        sums = np.zeros((len(rows), scores.shape[1]))
        value = np.vstack([scores, base])
        for block in rows.blocks():
            x = rows[block]
            score_kernels.add_scores(self._trees_for(x), x, value, sums[block])
        return sums[:, 0] if sums.shape[1] == 1 else sums

    def class_index(self, X: Any) -> NDArray[np.int64]:
        """Return the index of the predicted class of each row, shape (n,)."""
        rows = self.rows(X)
        index = np.empty(len(rows), np.int64)
        for block in rows.blocks():
            index[block] = self.index_of(rows[block])
        return index

    def index_of(self, X: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the index of the predicted class of each row of float64, which is not checked, shape (n,)."""
        if self.combine == "vote":
            votes = np.zeros((len(X), self.n_classes), np.int64)
            kernels.count_votes(self._trees_for(X), X, votes)
            return votes.argmax(axis=1)
        index, scratch = np.empty(len(X), np.int64), (np.empty(self.n_trees, np.int64), np.empty(self.n_classes))
        score_kernels.find_winners(self._trees_for(X), X, self.prepared_scores, *scratch, index)
        return index

    def predict(self, X: Any) -> NDArray:
        """Return the predicted label of each row, or a regressor's number, shape (n,).

        A label has most votes, or the largest exact sum of scores (a single sum: above zero or not); the lowest class
        index wins ties.
        """
        return self.decision_function(X) if self.is_regressor else self.classes[self.class_index(X)]

    def rounding_bound(self, dtype: DTypeLike = np.float32) -> float:
        """Bound how far what decides can be from exact in a deployment that adds the scores up in ``dtype``.

        What decides is the sum of a single output, or the difference of two classes' sums. The scores may be rounded
        to ``dtype``, a floating-point type, first and added in any order. Rows whose exact value is within the bound of
        zero may be predicted otherwise there; ``certify(..., margin=bound)`` leaves such rows UNKNOWN. The bound is inf
        if sums can leave the range of ``dtype``.
        """
        scores, _ = self.summands()
        kind, n_terms = np.finfo(dtype), self.n_trees + 1
        # One rounding to the type and n_terms - 1 additions; scores too small for it lose up to its smallest number.
        error = n_terms * float(kind.eps) / 2
        if error >= 0.5 or 2 * self.largest_sum > float(kind.max):
            return float(np.inf)
        bound = error / (1 - error) * self.largest_sum + n_terms * float(kind.smallest_subnormal)
        return float(bound * (1 + 1e-12)) * (1 if scores.shape[1] == 1 else 2)

    def summands(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return ``scores`` and ``base``, which trees that vote do not have."""
        if self.scores is None or self.base is None:
            raise ModelError("Expected an ensemble of scores, got one whose trees vote; use votes instead.")
        return self.scores, self.base

    @cached_property
    def largest_sum(self) -> float:
        """About the largest absolute sum of one output: the largest score of every tree, and the base."""
        scores, base = self.summands()
        _, size = self.ranges_of_trees(np.abs(scores).max(axis=1, keepdims=True))
        with np.errstate(over="ignore"):
            return float(size.sum() + np.abs(base).max())

    @cached_property
    def prepared_scores(self) -> score_kernels.Scores:
        """The scores as kernels take them, with exact digits; a vote is a score of one."""
        if self.combine == "vote":
            one_hot = np.eye(self.n_classes)
            return prepare_scores(one_hot, np.zeros(self.n_classes), self.n_classes, self.n_nodes, float(self.n_trees))
        scores, base = self.summands()
        return prepare_scores(scores, base, self.n_classes, self.n_nodes, self.largest_sum)

    def save(self, path: str | os.PathLike[str], *, replace: bool = True) -> None:
        """Write the ensemble as JSON text (``docs/file_format.md``); the file appears whole or not at all.

        Without ``replace``, a file that is there is kept and `FileExistsError` raised.
        """
        write_atomically(path, model_file.pieces(self), replace=replace)

    @cached_property
    def sha256(self) -> str:
        """SHA-256, in hex, of the document that `save` writes, its names sorted: it names the model."""
        found = hashlib.sha256()
        for piece in model_file.pieces(self, is_sorted=True):
            found.update(piece.encode())
        return found.hexdigest()

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> TreeEnsemble:
        """Read an ensemble that `save` wrote, or raise `ModelError`. The file is data to be checked, never code."""
        return cls.from_text(Path(path).read_bytes(), source=str(path))

    @classmethod
    def from_text(cls, text: str | bytes, *, source: str = "the text") -> TreeEnsemble:
        """Read an ensemble from the text that `save` writes; ``source`` names it in errors."""
        with sound(source, "certiforest model"):
            return cls(**model_file.from_document(read_json(text)))

    def __eq__(self, other: object) -> bool:
        """Two ensembles are equal iff they have the same nodes, scores, classes, features and scaling."""
        names = {"is_regressor", *PARAMETERS} - {"training"}
        is_one = isinstance(other, TreeEnsemble)
        return all(are_equal(getattr(self, name), getattr(other, name)) for name in names) if is_one else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        says = "a regressor" if self.is_regressor else f"{self.n_classes} classes"
        adds = "" if self.combine == "vote" else ", scores add up"
        return f"TreeEnsemble({self.n_trees} trees, {self.n_nodes} nodes, {self.n_features} features, {says}{adds})"

"""TreeEnsemble: the one representation that every trainer makes, every format enters and every verdict reads.

Its semantics (``docs/verdicts.md``): all numbers are float64; a split sends a row left iff
``x[feature] <= threshold``. Trees vote, each for the class of the leaf where the row ends, and the class with most
votes wins; or their scores add up, exactly, and the largest sum wins (a single sum: above zero or not). The lowest
class index wins ties.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from certiforest.ensemble import score_kernels
from certiforest.ensemble import tree_kernels as kernels
from certiforest.ensemble.rows import Rows
from certiforest.ensemble.scaling import Scaling, ScalingError
from certiforest.ensemble.scores import prepare_scores
from certiforest.ensemble.tree_kernels import LARGEST
from certiforest.files import write_atomically

FORMAT = "certiforest"
FORMAT_VERSION = 1
MAX_FEATURES = 2**31 - 2
LONGEST_STRIDE = 8  # steps a row takes down a tree before asking whether it has arrived


class ModelError(ValueError):
    """A model, or the file it comes from, is not what it should be."""


class Nodes(NamedTuple):
    """One tree as most libraries hold it: children by index, in any order, node 0 the root.

    ``left[i] == -1`` marks a leaf; ``leaf[i]`` is then its class index, or its row of scores (ignored at splits).
    """

    left: ArrayLike
    right: ArrayLike
    feature: ArrayLike
    threshold: ArrayLike
    leaf: ArrayLike


class TreeEnsemble:
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
    classes : array-like, shape (n_classes,)
        Label of each class index.
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

    Attributes
    ----------
    feature, threshold, leaf, right, tree_start : ndarray
        The nodes that some row can reach: branches whose box is empty are cut when the ensemble is built.
        The left child of node ``i`` is ``i + 1``, its right child ``right[i]``; nodes of tree ``t`` are
        ``tree_start[t]:tree_start[t + 1]``.
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

    def __init__(
        self,
        feature: ArrayLike,
        threshold: ArrayLike,
        leaf: ArrayLike,
        *,
        n_features: int,
        classes: ArrayLike,
        feature_names: Sequence[str] | None = None,
        scaling: Scaling | None = None,
        scores: ArrayLike | None = None,
        base: ArrayLike | None = None,
    ) -> None:
        self.classes = _check_classes(classes)
        self.n_features = _check_n_features(n_features)
        self.feature_names = _check_feature_names(feature_names, self.n_features)
        self.scaling = _check_scaling(scaling, self.n_features)
        self.scores, self.base = _check_scores(scores, base, len(self.classes))
        n_values = len(self.classes) if self.scores is None else len(self.scores)
        columns = _check_nodes(feature, threshold, leaf, self.n_features, n_values)
        self.training: Mapping[str, Any] | None = None  # what `train` notes about the rows; carried as it is
        self._trim(*columns, -np.inf, LARGEST)
        if self.scores is not None and not 8 * self.largest_sum < np.inf:
            raise ModelError("Expected scores whose sums are finite numbers, got larger ones.")

    def _trim(self, feature: NDArray, threshold: NDArray, leaf: NDArray, low: ArrayLike, high: ArrayLike) -> None:
        """Keep the nodes that rows in the box ``(low, high]`` reach and link them."""
        right, tree_start = _link(feature)
        size = len(feature)
        # Bounds of the tested features only: a small file may claim any number of features.
        tested, place = np.unique(np.append(feature[feature >= 0], 0), return_inverse=True)
        low, high = (
            np.full(len(tested), bound) if np.ndim(bound) == 0 else np.asarray(bound)[tested] for bound in (low, high)
        )
        place_of_node = np.full(size, -1, np.int32)
        place_of_node[feature >= 0] = place[:-1]
        out_feature, out_leaf = np.empty(size, np.int32), np.empty(size, np.int32)
        out_threshold, out_low, out_high = np.empty(size), np.empty(size), np.empty(size)
        size = kernels.trim(
            place_of_node, threshold, leaf, right, tree_start, low, high, np.empty(size, np.int64),
            out_feature, out_threshold, out_leaf, out_low, out_high,
        )  # fmt: skip
        out_feature = out_feature[:size]
        self.feature = _frozen(np.where(out_feature >= 0, tested[out_feature], -1).astype(np.int32))
        self.threshold = _frozen(out_threshold[:size])
        self.leaf = _frozen(out_leaf[:size])
        self.low = _frozen(out_low[:size])
        self.high = _frozen(out_high[:size])
        right, tree_start = _link(self.feature)
        self.right, self.tree_start = _frozen(right), _frozen(tree_start)
        self.trees = self._as_trees()

    def _as_trees(self) -> kernels.Trees:
        is_leaf = self.feature < 0
        depth = np.maximum.reduceat(self.node_depth, self.tree_start[:-1])
        return kernels.Trees(
            feature=np.where(is_leaf, 0, self.feature).astype(np.int32),
            threshold=np.where(is_leaf, np.nan, self.threshold),
            right=np.where(is_leaf, np.arange(self.n_nodes), self.right).astype(np.int32),
            leaf=self.leaf,
            low=self.low,
            high=self.high,
            tree_start=self.tree_start,
            stride=np.clip(depth, 1, LONGEST_STRIDE),
        )

    @classmethod
    def from_trees(
        cls,
        trees: Iterable[Nodes],
        *,
        n_features: int,
        classes: ArrayLike,
        feature_names: Sequence[str] | None = None,
        scores: ArrayLike | None = None,
        base: ArrayLike | None = None,
    ) -> TreeEnsemble:
        """Build an ensemble from trees whose children are given by index; the other parameters as for the class.

        Raises
        ------
        ModelError
            If children form a cycle, are shared, missing or out of range, or if any node is malformed.
        """
        columns = [_preorder(index, Nodes(*map(np.asarray, tree))) for index, tree in enumerate(trees)]
        if not columns:
            raise ModelError("Expected at least one tree, got none.")
        feature, threshold, leaf = (np.concatenate(column) for column in zip(*columns, strict=True))
        return cls(
            feature, threshold, leaf,
            n_features=n_features, classes=classes, feature_names=feature_names, scores=scores, base=base,
        )  # fmt: skip

    def within(self, low: NDArray, high: NDArray) -> TreeEnsemble:
        """Return the ensemble that does the same on rows with ``low <= x <= high`` and has no other branches.

        Parameters
        ----------
        low, high : ndarray of float64, shape (n_features,)
            Smallest and largest value of each feature.
        """
        with np.errstate(over="ignore"):
            box = np.nextafter(low, -np.inf), np.minimum(high, LARGEST)
        return self._with_nodes(self.feature, self.threshold, self.leaf, *box)

    @cached_property
    def without_idle_splits(self) -> TreeEnsemble:
        """The ensemble that says the same and has no split below which all leaves agree."""
        agreed = np.empty(self.n_nodes, np.int32)
        leaf = self.leaf
        if self.scores is not None:  # rows of equal scores agree: take the first of them
            _, first, group = np.unique(self.scores, axis=0, return_index=True, return_inverse=True)
            leaf = np.where(leaf >= 0, first[group.ravel()][leaf], -1).astype(np.int32)
        kernels.mark_agreement(self.feature, self.right, leaf, agreed)
        split = np.flatnonzero(self.feature >= 0)
        parent = np.full(self.n_nodes, -1)
        parent[split + 1] = parent[self.right[split]] = split
        keep = (parent < 0) | (agreed[parent] < 0)
        feature, leaf = np.where(agreed < 0, self.feature, -1)[keep], agreed[keep]
        return self._with_nodes(feature, self.threshold[keep], leaf, -np.inf, LARGEST)

    def with_columns(
        self,
        feature_names: Sequence[str] | None = None,
        scaling: Scaling | None = None,
        training: Mapping[str, Any] | None = None,
    ) -> TreeEnsemble:
        """Return the same trees, knowing the names of their features, how rows were scaled, and which were learned."""
        other = copy(self)
        vars(other).pop("without_idle_splits", None)  # it has the names and the scaling of this one
        other.feature_names = _check_feature_names(feature_names, self.n_features)
        other.scaling = _check_scaling(scaling, self.n_features)
        other.training = _check_training(training)
        return other

    def _with_nodes(self, *columns_and_box: Any) -> TreeEnsemble:
        other = object.__new__(type(self))
        other.classes, other.n_features, other.feature_names = self.classes, self.n_features, self.feature_names
        other.scaling, other.training = self.scaling, self.training
        other.scores, other.base = self.scores, self.base
        other._trim(*columns_and_box)
        return other

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return len(self.tree_start) - 1

    @property
    def n_nodes(self) -> int:
        """Number of reachable nodes in all trees, leaves included."""
        return len(self.feature)

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return len(self.classes)

    @property
    def combine(self) -> str:
        """How trees combine: "vote" or "sum"."""
        return "vote" if self.scores is None else "sum"

    @cached_property
    def node_depth(self) -> NDArray[np.int64]:
        """Number of splits above each node, shape (n_nodes,)."""
        depth = np.zeros(self.n_nodes, np.int64)
        kernels.mark_depth(self.feature, self.right, depth)
        depth.flags.writeable = False
        return depth

    @property
    def tree_of_node(self) -> NDArray[np.int64]:
        """Tree index of each node, shape (n_nodes,)."""
        return np.repeat(np.arange(self.n_trees), np.diff(self.tree_start))

    def votes(self, X: Any) -> NDArray[np.int64]:
        """Count the votes of each class.

        Parameters
        ----------
        X : array-like of shape (n, n_features)

        Returns
        -------
        ndarray of int64, shape (n, n_classes)
        """
        if self.combine != "vote":
            raise ModelError("Expected an ensemble whose trees vote, got one of scores; use decision_function instead.")
        rows = Rows(X, self.n_features, self.feature_names)
        votes = np.zeros((len(rows), self.n_classes), np.int64)
        for block in rows.blocks():
            kernels.count_votes(self.trees, rows[block], votes[block])
        return votes

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Add up the scores of each row in float64, base first, in the order of the trees.

        `predict` follows the exact sums, from which these differ by less than ``rounding_bound(np.float64)``.

        Parameters
        ----------
        X : array-like of shape (n, n_features)

        Returns
        -------
        ndarray of float64, shape (n,) for one output, else (n, n_outputs)
        """
        scores, base = self._need_scores()
        rows = Rows(X, self.n_features, self.feature_names)
        sums = np.zeros((len(rows), scores.shape[1]))
        value = np.vstack([scores, base])
        for block in rows.blocks():
            score_kernels.add_scores(self.trees, rows[block], value, sums[block])
        return sums[:, 0] if sums.shape[1] == 1 else sums

    def class_index(self, X: Any) -> NDArray[np.int64]:
        """Return the index of the predicted class of each row, shape (n,)."""
        if self.combine == "vote":
            return self.votes(X).argmax(axis=1)
        rows = Rows(X, self.n_features, self.feature_names)
        index = np.empty(len(rows), np.int64)
        scratch = np.empty(self.n_trees, np.int64), np.empty(self.n_classes)
        for block in rows.blocks():
            score_kernels.find_winners(self.trees, rows[block], *self.prepared_scores, *scratch, index[block])
        return index

    def predict(self, X: Any) -> NDArray:
        """Return the predicted label of each row, shape (n,).

        It has most votes, or the largest exact sum of scores (a single sum: above zero or not); the lowest class
        index wins ties.
        """
        return self.classes[self.class_index(X)]

    def rounding_bound(self, dtype: DTypeLike = np.float32) -> float:
        """Bound how far what decides can be from exact in a deployment that adds the scores up in ``dtype``.

        What decides is the sum of a single output, or the difference of two classes' sums. The scores may be rounded
        to ``dtype`` first and added in any order. Rows whose exact value is within the bound of zero may be predicted
        otherwise there; ``certify(..., margin=bound)`` leaves such rows UNKNOWN.

        Parameters
        ----------
        dtype : data-type, default=np.float32
            A floating-point type.

        Returns
        -------
        float
            inf if sums can leave the range of ``dtype``.
        """
        scores, _ = self._need_scores()
        kind = np.finfo(dtype)
        n_terms = self.n_trees + 1
        # One rounding to the type and n_terms - 1 additions; scores too small for it lose up to its smallest number.
        error = n_terms * float(kind.eps) / 2
        if error >= 0.5 or 2 * self.largest_sum > float(kind.max):
            return float(np.inf)
        bound = error / (1 - error) * self.largest_sum + n_terms * float(kind.smallest_subnormal)
        return float(bound * (1 + 1e-12)) * (1 if scores.shape[1] == 1 else 2)

    def _need_scores(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        if self.scores is None or self.base is None:
            raise ModelError("Expected an ensemble of scores, got one whose trees vote; use votes instead.")
        return self.scores, self.base

    @cached_property
    def largest_sum(self) -> float:
        """About the largest absolute sum of one output: the largest score of every tree, and the base."""
        scores, base = self._need_scores()
        size = np.abs(scores).max(axis=1, initial=0.0)[self.leaf]
        size[self.feature >= 0] = 0.0
        with np.errstate(over="ignore"):
            return float(np.maximum.reduceat(size, self.tree_start[:-1]).sum() + np.abs(base).max())

    @cached_property
    def prepared_scores(self) -> score_kernels.Scores:
        """The scores as kernels take them, with exact digits."""
        scores, base = self._need_scores()
        return prepare_scores(scores, base, self.n_classes, self.n_nodes, self.largest_sum)

    def save(self, path: str | os.PathLike[str], *, replace: bool = True) -> None:
        """Write the ensemble as JSON text (``docs/file_format.md``); the file appears whole or not at all.

        Without ``replace``, a file that is there is kept and `FileExistsError` raised.
        """
        text = json.dumps(self._to_document(), separators=(",", ":"), allow_nan=False)
        write_atomically(path, text, replace=replace)

    def _to_document(self) -> dict[str, Any]:
        document: dict[str, Any] = {
            "format": FORMAT,
            "version": FORMAT_VERSION,
            "combine": self.combine,
            "n_features": self.n_features,
            "feature_names": None if self.feature_names is None else list(self.feature_names),
            "classes": self.classes.tolist(),
            "feature": self.feature.tolist(),
            "threshold": self.threshold.tolist(),
            "leaf": self.leaf.tolist(),
        }
        if self.scaling is not None:
            document["scaling"] = {
                "offset": self.scaling.offset.tolist(),
                "range": self.scaling.range.tolist(),
            }
        if self.scores is not None and self.base is not None:
            document |= {"scores": self.scores.tolist(), "base": self.base.tolist()}
        if self.training is not None:
            document["training"] = dict(self.training)
        return document

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> TreeEnsemble:
        """Read an ensemble that `save` wrote. The file is data to be checked, never code.

        Raises
        ------
        ModelError
            If the file is not a whole and sound model of a format version this library knows.
        """
        return cls.from_text(Path(path).read_bytes(), source=str(path))

    @classmethod
    def from_text(cls, text: str | bytes, *, source: str = "the text") -> TreeEnsemble:
        """Read an ensemble from the text that `save` writes; ``source`` names it in errors."""
        try:
            return cls._from_document(json.loads(text, parse_constant=_refuse_constant))
        except RecursionError:
            raise ModelError(f"{source} is not a certiforest model: it nests too deep.") from None
        except ValueError as error:  # ModelError, JSONDecodeError, UnicodeDecodeError
            if isinstance(error, ModelError):
                raise ModelError(f"{source} is not a sound certiforest model. {error}") from None
            raise ModelError(
                f"{source} is not a certiforest model: expected JSON text, got something else ({error})."
                " Was the file cut short or altered?"
            ) from None

    @classmethod
    def _from_document(cls, document: Any) -> TreeEnsemble:
        if not isinstance(document, dict) or document.get("format") != FORMAT:
            raise ModelError(f'Expected an object with "format": "{FORMAT}".')
        version = document.get("version")
        if version != FORMAT_VERSION or isinstance(version, bool):
            raise ModelError(
                f"Expected format version {FORMAT_VERSION}, got {_shown(version)}."
                " A newer version of certiforest may read it: pip install --upgrade certiforest."
            )
        combine = document.get("combine")
        if combine not in ("vote", "sum"):
            raise ModelError(f'Expected "combine": "vote" or "sum", got {_shown(combine)}.')
        names = document.get("feature_names")
        if names is not None and not (isinstance(names, list) and all(isinstance(n, str) for n in names)):
            raise ModelError('Expected "feature_names" to be null or a list of strings.')
        training = _check_training(document.get("training"))
        ensemble = cls(
            _column(document, "feature", int),
            _column(document, "threshold", (int, float)),
            _column(document, "leaf", int),
            n_features=document.get("n_features"),  # type: ignore[arg-type]  # checked by the constructor
            classes=_column(document, "classes", (bool, int, float, str)),
            feature_names=names,
            scaling=_read_scaling(document),
            scores=_table(document, "scores") if combine == "sum" else None,
            base=_column(document, "base", (int, float)) if combine == "sum" else None,
        )
        ensemble.training = training
        return ensemble

    def __eq__(self, other: object) -> bool:
        """Two ensembles are equal iff they have the same nodes, scores, classes, features and scaling."""
        if not isinstance(other, TreeEnsemble):
            return NotImplemented
        return (
            self.n_features == other.n_features
            and self.feature_names == other.feature_names
            and self.scaling == other.scaling
            and np.array_equal(self.classes, other.classes)
            and np.array_equal(self.feature, other.feature)
            and np.array_equal(self.threshold, other.threshold)
            and np.array_equal(self.leaf, other.leaf)
            and self.combine == other.combine
            and (self.scores is None or other.scores is None or np.array_equal(self.scores, other.scores))
            and (self.base is None or other.base is None or np.array_equal(self.base, other.base))
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return (
            f"TreeEnsemble({self.n_trees} trees, {self.n_nodes} nodes, {self.n_features} features,"
            f" {self.n_classes} classes{'' if self.combine == 'vote' else ', scores add up'})"
        )


def _frozen(array: NDArray) -> NDArray:
    array = np.ascontiguousarray(array)
    array.flags.writeable = False
    return array


def _link(feature: NDArray) -> tuple[NDArray, NDArray]:
    size = len(feature)
    right, tree_start = np.empty(size, np.int32), np.empty(size + 1, np.int64)
    n_trees = kernels.link_preorder(feature, right, tree_start, np.empty(size, np.int64))
    if n_trees < 0:
        raise ModelError("Expected whole trees, got a last tree that is cut short.")
    return right, tree_start[: n_trees + 1].copy()


def _check_nodes(
    feature: ArrayLike, threshold: ArrayLike, leaf: ArrayLike, n_features: int, n_values: int
) -> tuple[NDArray, NDArray, NDArray]:
    feature, leaf = _integers(feature, "feature"), _integers(leaf, "leaf")
    threshold = np.array(threshold, dtype=np.float64)
    if not (feature.ndim == 1 and feature.shape == threshold.shape == leaf.shape):
        raise ModelError(
            "Expected feature, threshold and leaf of one length, got shapes"
            f" {feature.shape}, {threshold.shape} and {leaf.shape}."
        )
    if feature.size == 0:
        raise ModelError("Expected at least one tree, got none.")
    if feature.size > 2**31 - 2:
        raise ModelError(f"Expected fewer than 2**31 - 1 nodes, got {feature.size}.")
    if feature.min() < -1 or feature.max() >= n_features:
        raise ModelError(
            f"Expected feature indices from 0 to {n_features - 1}, or -1 at leaves,"
            f" got {feature.min() if feature.min() < -1 else feature.max()}."
        )
    is_leaf = feature < 0
    if not np.isfinite(threshold[~is_leaf]).all():
        raise ModelError("Expected finite thresholds, got NaN or infinity.")
    if leaf[is_leaf].min(initial=0) < 0 or leaf[is_leaf].max(initial=0) >= n_values:
        raise ModelError(
            f"Expected the class index, or row of scores, of every leaf to be between 0 and {n_values - 1},"
            f" got {leaf[is_leaf].min()} to {leaf[is_leaf].max()}."
        )
    threshold[is_leaf] = 0.0
    leaf[~is_leaf] = -1
    return feature.astype(np.int32), threshold, leaf.astype(np.int32)


def _integers(values: ArrayLike, name: str) -> NDArray[np.int64]:
    try:
        array = np.array(values)
    except ValueError:
        array = np.empty(0, object)
    if array.dtype.kind not in "iu" and array.size:
        raise ModelError(f"Expected {name} to hold integers of 64 bits at most, got {array.dtype}.")
    return array.astype(np.int64)


def _preorder(index: int, tree: Nodes) -> tuple[NDArray, NDArray, NDArray]:
    """Put one tree's nodes in preorder; every node must be met exactly once."""
    left, right = _integers(tree.left, "left"), _integers(tree.right, "right")
    size = len(left)
    if any(len(np.atleast_1d(column)) != size for column in tree) or size == 0:
        raise ModelError(
            f"Expected every node of tree {index} to have a left, right, feature, threshold and leaf entry,"
            f" got columns of length {[len(np.atleast_1d(column)) for column in tree]}."
        )
    order: list[int] = []
    met = np.zeros(size, bool)
    waiting = [0]
    while waiting:
        node = waiting.pop()
        if met[node]:
            raise ModelError(f"Expected tree {index} to be a tree, got node {node} as a child twice.")
        met[node] = True
        order.append(node)
        if left[node] == -1 and right[node] == -1:
            continue
        children = int(left[node]), int(right[node])
        if not all(0 <= child < size for child in children):
            raise ModelError(
                f"Expected children of node {node} of tree {index} between 0 and {size - 1}, or both -1 at"
                f" a leaf, got {children[0]} and {children[1]}."
            )
        waiting += [children[1], children[0]]
    if len(order) != size:
        raise ModelError(
            f"Expected every node of tree {index} to hang below its root, got {size - len(order)} that do not."
        )
    feature, leaf = _integers(tree.feature, "feature"), _integers(tree.leaf, "leaf")
    is_split = left[order] != -1
    if (feature[order][is_split] < 0).any():
        raise ModelError(f"Expected splits of tree {index} to test a feature >= 0, got a negative index.")
    return (
        np.where(is_split, feature[order], -1),
        np.asarray(tree.threshold, np.float64)[order],
        leaf[order],
    )


def _check_classes(classes: ArrayLike) -> NDArray:
    labels = np.array(classes)
    if labels.ndim != 1 or labels.size == 0 or labels.dtype.kind not in "biufU":
        labels = np.array(classes, dtype=object)
        if labels.ndim != 1 or labels.size == 0 or not all(isinstance(label, str) for label in labels):
            raise ModelError(
                "Expected a list of class labels that are all strings, all integers, all floats or all booleans,"
                f" got {_shown(classes)}."
            )
        labels = labels.astype(str)
    if isinstance(classes, list) and len({type(label) for label in classes}) > 1:
        raise ModelError(f"Expected class labels of one type, got {_shown(classes)}.")
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        raise ModelError("Expected finite class labels, got NaN or infinity.")
    if len(np.unique(labels)) != labels.size:
        raise ModelError(f"Expected every class label once, got {_shown(classes)}.")
    return _frozen(labels)


def _check_scores(
    scores: ArrayLike | None, base: ArrayLike | None, n_classes: int
) -> tuple[NDArray[np.float64] | None, NDArray[np.float64] | None]:
    if scores is None:
        if base is not None:
            raise ModelError("Expected scores wherever there is a base, got a base only.")
        return None, None
    table = _floats(scores, "scores")
    outputs = {n_classes, 1} if n_classes == 2 else {n_classes}
    if table.ndim != 2 or table.shape[0] == 0 or table.shape[1] not in outputs:
        wanted = " or ".join(f"(n, {n})" for n in sorted(outputs))
        raise ModelError(f"Expected scores of shape {wanted} for {n_classes} classes, got shape {table.shape}.")
    start = np.zeros(table.shape[1]) if base is None else _floats(base, "base")
    if start.shape != table.shape[1:]:
        raise ModelError(f"Expected one base for each of {table.shape[1]} outputs, got shape {start.shape}.")
    return _frozen(table), _frozen(start)


def _floats(values: ArrayLike, name: str) -> NDArray[np.float64]:
    try:
        array = np.array(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise ModelError(f"Expected {name} to hold numbers, in rows of one length, got something else.") from None
    if not np.isfinite(array).all():
        raise ModelError(f"Expected finite {name}, got NaN or infinity.")
    return array


def _check_n_features(n_features: Any) -> int:
    if isinstance(n_features, bool) or not isinstance(n_features, (int, np.integer)):
        raise ModelError(f"Expected n_features to be an integer, got {_shown(n_features)}.")
    if not 1 <= n_features <= MAX_FEATURES:
        raise ModelError(f"Expected n_features between 1 and {MAX_FEATURES}, got {_shown(n_features)}.")
    return int(n_features)


def _check_feature_names(names: Sequence[str] | None, n_features: int) -> tuple[str, ...] | None:
    if names is None:
        return None
    names = tuple(str(name) for name in names)
    if len(names) != n_features:
        raise ModelError(f"Expected {n_features} feature names, got {len(names)}.")
    return names


def _check_scaling(scaling: Scaling | None, n_features: int) -> Scaling | None:
    if scaling is not None and scaling.n_features != n_features:
        raise ModelError(f"Expected a scaling of {n_features} features, got one of {scaling.n_features}.")
    return scaling


def _check_training(entry: Any) -> Mapping[str, Any] | None:
    plain = isinstance(entry, Mapping) and all(
        isinstance(value, (str, int, float, type(None))) for value in entry.values()
    )
    if entry is not None and not plain:
        raise ModelError(f'Expected "training" to hold plain values by name, got {_shown(entry)}.')
    return None if entry is None else dict(entry)


def _read_scaling(document: dict[str, Any]) -> Scaling | None:
    entry = document.get("scaling")
    if entry is None:
        return None
    if not isinstance(entry, dict) or set(entry) != {"offset", "range"}:
        raise ModelError(f'Expected "scaling" to hold "offset" and "range", got {_shown(entry)}.')
    try:
        return Scaling(*(_column(entry, name, (int, float)) for name in ("offset", "range")))
    except ScalingError as error:
        raise ModelError(f'The "scaling" is wrong. {error}') from None


def _column(document: dict[str, Any], name: str, kind: type | tuple[type, ...]) -> list:
    """Return a list of plain numbers or strings from a model file."""
    column = document.get(name)
    if not isinstance(column, list):
        raise ModelError(f'Expected "{name}" to be a list, got {_shown(column)}.')
    allows_bool = kind is bool or (isinstance(kind, tuple) and bool in kind)
    for entry in column:
        if not isinstance(entry, kind) or (isinstance(entry, bool) and not allows_bool):
            raise ModelError(f'Expected plain values in "{name}", got {_shown(entry)}.')
    try:
        np.array(column)
    except (OverflowError, ValueError):
        raise ModelError(f'Expected values of 64 bits in "{name}", got larger ones.') from None
    return column


def _table(document: dict[str, Any], name: str) -> list[list]:
    """Return a list of lists of plain numbers from a model file."""
    table = document.get(name)
    if not isinstance(table, list):
        raise ModelError(f'Expected "{name}" to be a list of lists, got {_shown(table)}.')
    return [_column({name: row}, name, (int, float)) for row in table]


def _refuse_constant(name: str) -> float:
    raise ModelError(f"Expected finite numbers, got {name}.")


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."

"""TreeEnsemble: the one representation that every trainer makes, every format enters and every verdict reads.

Its semantics (``docs/verdicts.md``): all numbers are float64; a split sends a row left iff
``x[feature] <= threshold``; each tree votes for the class of the leaf where the row ends; the class with most
votes wins, the lowest class index on ties.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from certiforest import ensemble_kernels as kernels
from certiforest.rows import Rows
from certiforest.scaling import Scaling, ScalingError

FORMAT = "certiforest"
FORMAT_VERSION = 1
MAX_FEATURES = 2**31 - 2
LARGEST = float(np.finfo(np.float64).max)
LONGEST_STRIDE = 8  # steps a row takes down a tree before asking whether it has arrived


class ModelError(ValueError):
    """A model, or the file it comes from, is not what it should be."""


class Nodes(NamedTuple):
    """One tree as most libraries hold it: children by index, in any order, node 0 the root.

    ``left[i] == -1`` marks a leaf; ``leaf[i]`` is then its class index (ignored at splits).
    """

    left: ArrayLike
    right: ArrayLike
    feature: ArrayLike
    threshold: ArrayLike
    leaf: ArrayLike


class TreeEnsemble:
    """Trees that vote, as flat read-only arrays in preorder.

    Parameters
    ----------
    feature : array-like of int, shape (n_nodes,)
        Feature tested by each node, -1 at leaves. Trees follow one another, each in preorder: a split, its left
        subtree, its right subtree.
    threshold : array-like of float, shape (n_nodes,)
        A row goes left iff ``x[feature] <= threshold``. Ignored at leaves.
    leaf : array-like of int, shape (n_nodes,)
        Class index of each leaf. Ignored at splits.
    n_features : int
        Length of a row.
    classes : array-like, shape (n_classes,)
        Label of each class index.
    feature_names : sequence of str, optional
        Column names, compared with those of a data frame wherever rows enter.
    scaling : Scaling, optional
        How rows were scaled before the trees were trained. It travels with the ensemble and is never applied by
        it: rows, thresholds and eps are in scaled units, ``scaling.apply(X)`` takes the data there.

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
    ) -> None:
        self.classes = _check_classes(classes)
        self.n_features = _check_n_features(n_features)
        self.feature_names = _check_feature_names(feature_names, self.n_features)
        self.scaling = _check_scaling(scaling, self.n_features)
        columns = _check_nodes(feature, threshold, leaf, self.n_features, len(self.classes))
        self._trim(*columns, -np.inf, LARGEST)

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
    ) -> TreeEnsemble:
        """Build an ensemble from trees whose children are given by index.

        Raises
        ------
        ModelError
            If children form a cycle, are shared, missing or out of range, or if any node is malformed.
        """
        columns = [_preorder(index, Nodes(*map(np.asarray, tree))) for index, tree in enumerate(trees)]
        if not columns:
            raise ModelError("Expected at least one tree, got none.")
        feature, threshold, leaf = (np.concatenate(column) for column in zip(*columns, strict=True))
        return cls(feature, threshold, leaf, n_features=n_features, classes=classes, feature_names=feature_names)

    def within(self, low: NDArray, high: NDArray) -> TreeEnsemble:
        """Return the ensemble that does the same on rows with ``low <= x <= high`` and has no other branches.

        Parameters
        ----------
        low, high : ndarray of float64, shape (n_features,)
            Smallest and largest value of each feature.
        """
        box = np.nextafter(low, -np.inf), np.minimum(high, LARGEST)
        return self._with_nodes(self.feature, self.threshold, self.leaf, *box)

    def without_idle_splits(self) -> TreeEnsemble:
        """Return the ensemble that votes the same and has no split below which all leaves agree."""
        agreed = np.empty(self.n_nodes, np.int32)
        kernels.mark_agreement(self.feature, self.right, self.leaf, agreed)
        split = np.flatnonzero(self.feature >= 0)
        parent = np.full(self.n_nodes, -1)
        parent[split + 1] = parent[self.right[split]] = split
        keep = (parent < 0) | (agreed[parent] < 0)
        feature, leaf = np.where(agreed < 0, self.feature, -1)[keep], agreed[keep]
        return self._with_nodes(feature, self.threshold[keep], leaf, -np.inf, LARGEST)

    def with_columns(self, feature_names: Sequence[str] | None = None, scaling: Scaling | None = None) -> TreeEnsemble:
        """Return the same trees, knowing the names of their features and how rows were scaled for them."""
        return TreeEnsemble(
            self.feature,
            self.threshold,
            self.leaf,
            n_features=self.n_features,
            classes=self.classes,
            feature_names=feature_names,
            scaling=scaling,
        )

    def _with_nodes(self, *columns_and_box: Any) -> TreeEnsemble:
        other = object.__new__(type(self))
        other.classes, other.n_features, other.feature_names = self.classes, self.n_features, self.feature_names
        other.scaling = self.scaling
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
    def node_depth(self) -> NDArray[np.int64]:
        """Number of splits above each node, shape (n_nodes,)."""
        depth = np.zeros(self.n_nodes, np.int64)
        kernels.mark_depth(self.feature, self.right, depth)
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
        rows = Rows(X, self.n_features, self.feature_names)
        votes = np.zeros((len(rows), self.n_classes), np.int64)
        for block in rows.blocks():
            kernels.count_votes(self.trees, rows[block], votes[block])
        return votes

    def predict(self, X: Any) -> NDArray:
        """Return the label with most votes for each row, shape (n,); the lowest class index wins ties."""
        return self.classes[self.votes(X).argmax(axis=1)]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the ensemble as JSON text (``docs/file_format.md``); the file appears whole or not at all."""
        text = json.dumps(self._to_document(), separators=(",", ":"), allow_nan=False)
        write_atomically(path, text)

    def _to_document(self) -> dict[str, Any]:
        document: dict[str, Any] = {
            "format": FORMAT,
            "version": FORMAT_VERSION,
            "combine": "vote",
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
        if document.get("combine") != "vote":
            raise ModelError(f'Expected "combine": "vote", got {_shown(document.get("combine"))}.')
        names = document.get("feature_names")
        if names is not None and not (isinstance(names, list) and all(isinstance(n, str) for n in names)):
            raise ModelError('Expected "feature_names" to be null or a list of strings.')
        return cls(
            _column(document, "feature", int),
            _column(document, "threshold", (int, float)),
            _column(document, "leaf", int),
            n_features=document.get("n_features"),  # type: ignore[arg-type]  # checked by the constructor
            classes=_column(document, "classes", (bool, int, float, str)),
            feature_names=names,
            scaling=_read_scaling(document),
        )

    def __eq__(self, other: object) -> bool:
        """Two ensembles are equal iff they have the same nodes, classes, features and scaling."""
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
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return (
            f"TreeEnsemble({self.n_trees} trees, {self.n_nodes} nodes, {self.n_features} features,"
            f" {self.n_classes} classes)"
        )


def write_atomically(path: str | os.PathLike[str], text: str) -> None:
    """Write ``text`` to ``path`` so that a reader, at any moment, sees the old file or the whole new one."""
    path = Path(path)
    handle, scratch = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(scratch, 0o666 & ~umask)  # mkstemp makes private files; a model is an ordinary one
        os.replace(scratch, path)
    except BaseException:
        Path(scratch).unlink(missing_ok=True)
        raise


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
    feature: ArrayLike, threshold: ArrayLike, leaf: ArrayLike, n_features: int, n_classes: int
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
    if leaf[is_leaf].min(initial=0) < 0 or leaf[is_leaf].max(initial=0) >= n_classes:
        raise ModelError(
            f"Expected the class index of every leaf to be between 0 and {n_classes - 1},"
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


def _refuse_constant(name: str) -> float:
    raise ModelError(f"Expected finite numbers, got {name}.")


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."

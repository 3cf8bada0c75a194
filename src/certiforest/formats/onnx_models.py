"""ONNX models of trees, as onnxruntime runs them: what changes rows before the trees, and what makes labels after them.

A graph is data: its nodes are followed from the input to the label, and what they do is done in numpy, in the float
type of the graph. Columns before the trees are scaled, filled and chosen, each for itself, and folded into thresholds
as steps of pipelines are. What an output that nobody asks for needs, may be anything.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from certiforest.ensemble import ModelError, TreeEnsemble
from certiforest.ensemble.documents import sound
from certiforest.formats.folding import Column, fold
from certiforest.formats.onnx_trees import Trees, read_trees, sum_of
from certiforest.formats.opened import Opened, log_odds
from certiforest.words import shown

TREES = ("TreeEnsembleClassifier", "TreeEnsembleRegressor", "TreeEnsemble")
FLOATS: dict[int, type] = {1: np.float32, 11: np.float64}  # as ONNX numbers types
WHOLE = (6, 7)
ONNX_BEGINNING = re.compile(rb"\x08[\x01-\x1f][\x12\x1a\x22\x2a\x32\x3a\x42]")  # a version, then another field
AS_THEY_ARE = ("Identity", "Reshape", "Squeeze", "Flatten", "Cast")  # of what has one number a row
SLACK = 2.0**-21  # of probabilities, which are float32
Content = Callable[[NDArray], NDArray]


class Columns(NamedTuple):
    """A tensor before the trees: what makes it of rows, and which column of rows each of its columns comes from."""

    source: list[int]
    made: Content
    dtype: DTypeLike
    is_changed: bool = False  # beyond being rounded and chosen


class Scores(NamedTuple):
    """What trees add up to, plus ``base``, over ``unit``; with ``link``, what the result was before a function."""

    trees: Trees
    columns: Columns
    base: NDArray[np.float64]
    unit: float = 1.0
    link: Callable[[float], float] | None = None


class Labels(NamedTuple):
    """The index of the largest of some scores, or whether one is above zero; then the label that stands there."""

    scores: Scores
    labels: NDArray | None = None


class Unknown(NamedTuple):
    """What an operator makes that is not followed."""

    why: str


def parse_onnx(content: bytes, *, source: str = "the content") -> Opened:
    """Read an ONNX file; ``source`` names it in errors."""
    return _parse(content, source)[0]


def _parse(content: bytes, source: str) -> tuple[Opened, str]:
    """Return a model, and the output that holds its labels, or a regressor's values."""
    try:
        import onnx
    except ImportError:
        raise ModelError(
            f"Expected onnx to read {source}, an ONNX file, got none installed; pip install 'certiforest[onnx]'."
        ) from None
    with sound(source, "ONNX model of trees"):
        try:
            model = onnx.ModelProto.FromString(content)
        except Exception:  # of the library that reads it, protobuf's DecodeError
            raise ModelError("Expected an ONNX file, got something else: was it cut short?") from None
        try:
            onnx.checker.check_model(model)  # attributes are of the types that operators have, names stand once, ...
        except Exception as error:
            raise ModelError(
                f"Expected a graph as ONNX defines it, got one of which onnx says: {shown(str(error), 300)}."
            ) from None
        return _Graph(model.graph, onnx).read()


def content_of_onnx(model: Any) -> bytes:
    """Return all that decides what a ``ModelProto`` predicts."""
    if type(model).__name__ != "ModelProto":
        raise ModelError(f"Expected an ONNX ModelProto, got {type(model).__name__}.")
    return model.SerializeToString(deterministic=True)


def open_onnx(model: Any, content: bytes) -> Opened:
    """Translate a ``ModelProto`` and, if onnxruntime is installed, compare it with what that makes of the model."""
    opened, output = _parse(content, "this ModelProto")
    opened = opened._replace(name="ModelProto")
    try:
        import onnxruntime
    except ImportError:
        return opened
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    try:
        session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # it has classes of its own for them
        raise ModelError(
            f"Expected a model that onnxruntime takes, got one of which it says: {shown(error)}."
        ) from None
    inputs, outputs = session.get_inputs(), session.get_outputs()
    dtype = np.float32 if inputs[0].type == "tensor(float)" else np.float64
    ends = np.cumsum([one.shape[1] for one in inputs])[:-1]

    def run(rows: NDArray, output: str) -> NDArray:
        with np.errstate(over="ignore"):
            parts = np.split(np.asarray(rows, np.float64).astype(dtype), ends, axis=1)
        return np.asarray(session.run([output], dict(zip([one.name for one in inputs], parts, strict=True)))[0])

    if opened.is_regressor:
        return opened._replace(score=lambda rows: np.ravel(run(rows, output)))
    floats = [one.name for one in outputs if one.type in ("tensor(float)", "tensor(double)") and one.name != output]
    has_score = bool(floats) and opened.sum_at is not None
    score = (lambda rows: run(rows, floats[0]).reshape(len(rows), -1)[:, -1]) if has_score else None
    kind = opened.ensemble.classes.dtype
    return opened._replace(predict=lambda rows: np.ravel(run(rows, output)).astype(kind), score=score)


class _Graph:
    """Follows a graph from its input."""

    def __init__(self, graph: Any, onnx: Any) -> None:
        self._graph, self._onnx = graph, onnx
        self._known: dict[str, Any] = {tensor.name: self._array(tensor) for tensor in graph.initializer}
        self.n_features = 0
        self.names: NDArray | None = None
        self._read_inputs([one for one in graph.input if one.name not in self._known])

    def _array(self, tensor: Any) -> NDArray:
        if tensor.data_location == self._onnx.TensorProto.EXTERNAL:
            raise ModelError("Expected a model in one file, got one with data in others; save it in one.")
        try:
            return self._onnx.numpy_helper.to_array(tensor)
        except (ValueError, TypeError, KeyError) as error:
            raise ModelError(f"Expected sound tensors, got {tensor.name!r} ({error}).") from None

    def _read_inputs(self, inputs: list[Any]) -> None:
        """Take the inputs, side by side, for the columns of rows."""
        kinds = {one.type.tensor_type.elem_type for one in inputs}
        if len(kinds) != 1 or not kinds <= FLOATS.keys():
            raise ModelError(
                "Expected inputs of one type, float or double, got others; convert the model with one input for all"
                " columns, of float32."
            )
        dtype = FLOATS[kinds.pop()]
        for one in inputs:
            shape = [size.dim_value for size in one.type.tensor_type.shape.dim]
            if len(shape) != 2 or not 1 <= shape[1] <= 2**24:
                raise ModelError("Expected the number of columns in the shape of each input, got none.")
            part = slice(self.n_features, self.n_features + shape[1])
            self._known[one.name] = Columns([*range(part.start, part.stop)], _chosen(part, dtype), dtype)
            self.n_features = part.stop
        if len(inputs) == self.n_features > 1:
            self.names = np.array([one.name for one in inputs], object)

    def read(self) -> tuple[Opened, str]:
        for node in self._graph.node:
            given = [self._known.get(name, Unknown(node.op_type)) for name in node.input if name]
            made = self._follow(node, given)
            self._known |= dict(zip(node.output, made if isinstance(made, list) else [made], strict=False))
        outputs = {one.name: self._known.get(one.name, Unknown("nothing")) for one in self._graph.output}
        for kind in (Labels, Scores):
            for name, found in outputs.items():
                if isinstance(found, kind):
                    return self._opened(found), name
        why = ", ".join(sorted({found.why for found in outputs.values() if isinstance(found, Unknown)})) or "none"
        raise ModelError(
            f"Expected a graph of trees ({', '.join(TREES)}) with what scales, fills or chooses columns before"
            f" them, and an output of labels, or of one sum, got {why}."
        )

    def _follow(self, node: Any, given: list[Any]) -> Any:
        """Return what a node makes, one for all its outputs or a list of them."""
        kind = node.op_type if node.domain in ("", "ai.onnx", "ai.onnx.ml") else f"{node.domain}.{node.op_type}"
        options = {one.name: self._value(one) for one in node.attribute}
        if kind == "Constant":
            return np.asarray([*options.values(), 0][0])
        first = given[0] if given else Unknown(kind)
        found: Any
        if isinstance(first, Columns) and (kind != "Concat" or all(isinstance(one, Columns) for one in given)):
            if kind in TREES and node.domain == "ai.onnx.ml":
                return self._grow(kind, options, first)
            found = _change(kind, given, options)
        elif isinstance(first, Scores):
            found = _finish(kind, first, given, options)
        elif isinstance(first, Labels):
            found = first if kind in AS_THEY_ARE and options.get("to", 7) in (*WHOLE, 8) else None
        elif kind in ("Gather", "ArrayFeatureExtractor") and len(given) == 2 and isinstance(given[1], Labels):
            found = given[1]._replace(labels=np.ravel(first)) if isinstance(first, np.ndarray) else None
        elif kind in ("Add", "Mul") and len(given) == 2 and isinstance(given[1], (Columns, Scores)):
            return self._follow(node, given[::-1])
        else:
            found = first if isinstance(first, Unknown) and first.why != kind else None
        return Unknown(kind) if found is None else found

    def _value(self, attribute: Any) -> Any:
        value = self._onnx.helper.get_attribute_value(attribute)
        if isinstance(value, bytes):
            return value.decode(errors="replace")
        return self._array(value) if isinstance(value, self._onnx.TensorProto) else value

    def _grow(self, kind: str, options: dict[str, Any], columns: Columns) -> list[Any]:
        options = {name: value for name, value in options.items() if not (isinstance(value, list) and not value)}
        trees = read_trees(kind, options, columns.dtype, is_rounded=columns.is_changed)
        scores = Scores(trees, columns, trees.base)
        if kind != "TreeEnsembleClassifier":
            return [scores]
        return [Labels(scores, trees.labels), Unknown("probabilities")]

    def _opened(self, found: Labels | Scores) -> Opened:
        scores = found.scores if isinstance(found, Labels) else found
        trees, columns, n = scores.trees, scores.columns, scores.trees.table.n_outputs
        labels = found.labels if isinstance(found, Labels) else np.array([0, 1])
        if isinstance(found, Scores) and (n > 1 or scores.link is log_odds):
            raise ModelError(
                "Expected an output of labels, or a regressor's single sum, got sums or probabilities only."
            )
        if labels is None:  # the place itself is the label
            labels = np.arange(max(n, 2))
        if labels.dtype == object:
            labels = labels.astype(str)
        if len(labels) != max(n, 2):
            raise ModelError(f"Expected a label for each of {max(n, 2)} classes, got {len(labels)}.")
        ensemble = TreeEnsemble.from_trees(
            trees.nodes, n_features=len(columns.source), classes=labels, scores=trees.table.table(), base=scores.base
        )
        if columns.is_changed or columns.source != [*range(self.n_features)]:
            ensemble = fold(ensemble, _GraphSteps(self.n_features, self.names, columns))
        if self.names is not None:
            ensemble = ensemble.with_columns(self.names.tolist())
        slack = SLACK if not (trees.sum_at is float or isinstance(found, Scores)) else 0.0
        sum_at = trees.sum_at if n == 1 else None
        if isinstance(found, Scores):
            if scores.link is not None or scores.unit != 1:
                sum_at = partial(sum_of, scores.link or float, Fraction(scores.unit), Fraction(0))
            if sum_at is not float or trees.dtype != np.float32:  # the output is rounded once more, to float32 at worst
                slack = 2.0**-23 * max(1.0, ensemble.largest_sum)
        return Opened(
            ensemble,
            "this ONNX model",
            sum_at=sum_at,
            dtype=trees.dtype,
            slack=slack,
            is_regressor=isinstance(found, Scores),
        )


class _GraphSteps:
    """What a graph does to columns before its trees, as `fold` asks for it."""

    loses_zeros, limit, is_curved = False, np.inf, False

    def __init__(self, n_features: int, names: NDArray | None, columns: Columns) -> None:
        self.n_features, self.names, self.values = n_features, names, dict[int, tuple[Any, ...]]()
        self.made, self.joints = [Column(f, is_raw=False) for f in columns.source], dict[int, NDArray]()
        self._made = columns.made

    def transform(self, rows: NDArray[np.float64], *, absent: float | None = None) -> NDArray[np.float64]:
        with np.errstate(all="ignore"):
            return self._made(rows).astype(np.float64)


def _chosen(part: slice, dtype: DTypeLike) -> Content:
    return lambda rows: rows[:, part].astype(dtype)


def _after(columns: Columns, change: Content) -> Columns:
    return columns._replace(made=lambda rows: change(columns.made(rows)), is_changed=True)


def _change(kind: str, given: list[Any], options: dict[str, Any]) -> Columns | None:
    """Return what an operator makes of columns, None where it is none that treats each for itself in order."""
    first, width = given[0], len(given[0].source)
    if kind in ("Identity", "Dropout") or (kind == "Flatten" and options.get("axis", 1) == 1):
        return first
    if kind == "Cast" and options.get("to") in FLOATS:
        dtype = FLOATS[options["to"]]
        if dtype == first.dtype:
            return first
        return _after(first, lambda x: x.astype(dtype))._replace(dtype=dtype)
    if kind == "Concat" and options.get("axis") in (1, -1) and len({one.dtype for one in given}) == 1:
        return Columns(
            [f for one in given for f in one.source],
            lambda rows: np.hstack([one.made(rows) for one in given]),
            first.dtype,
            any(one.is_changed for one in given),
        )
    if kind == "Scaler":
        offset, scale = (
            np.array(options.get(name, [other]), np.float32) for name, other in (("offset", 0), ("scale", 1))
        )
        if len(offset) not in (1, width) or len(scale) not in (1, width) or not (scale > 0).all():
            return None
        offset, scale = offset.astype(first.dtype), scale.astype(first.dtype)
        return _after(first, lambda x: ((x - offset) * scale).astype(np.float32))._replace(dtype=np.float32)
    if kind == "Imputer":
        value = np.array(options.get("imputed_value_floats", []), np.float32).astype(first.dtype)
        is_nan = np.isnan(options.get("replaced_value_float", 0.0))
        return _after(first, lambda x: np.where(np.isnan(x), value, x)) if is_nan and len(value) in (1, width) else None
    if len(given) != 2 or not isinstance(given[1], np.ndarray):
        return None
    other = np.ravel(given[1])
    if kind in ("Gather", "ArrayFeatureExtractor") and other.dtype.kind in "iu":
        along = kind == "ArrayFeatureExtractor" or options.get("axis", 0) == 1
        if not along or not ((other >= 0) & (other < width)).all():
            return None
        return Columns(
            [first.source[c] for c in other], lambda rows: first.made(rows)[:, other], first.dtype, first.is_changed
        )
    if kind == "Reshape":
        return first if given[1].tolist() in ([-1, width], [0, width]) else None
    is_row = given[1].size == 1 or given[1].shape in ((width,), (1, width))
    if not is_row or other.dtype != first.dtype or not np.isfinite(other).all():
        return None
    if kind in ("Add", "Sub"):
        return _after(first, lambda x: x + other if kind == "Add" else x - other)
    if kind in ("Mul", "Div") and (other > 0).all():
        return _after(first, lambda x: x * other if kind == "Mul" else x / other)
    return None


def _finish(kind: str, scores: Scores, given: list[Any], options: dict[str, Any]) -> Scores | Labels | None:
    """Return what an operator makes of sums, None where that is neither sums nor a decision by them."""
    n, other = scores.trees.table.n_outputs, np.ravel(given[1]) if len(given) == 2 else np.zeros(0, int)
    is_const = other.dtype.kind == "f"
    if kind == "Identity" or (kind == "Cast" and options.get("to") == 11) or (kind in AS_THEY_ARE[1:4] and n == 1):
        return scores
    if kind == "ArgMax" and n > 1 and options.get("axis", 0) in (1, -1) and not options.get("select_last_index", 0):
        return Labels(scores)
    if scores.link is not None or scores.trees.divisor > 1:
        return None
    if kind in ("Sigmoid", "Exp") and n == 1:
        return scores._replace(link=log_odds if kind == "Sigmoid" else math.log)
    if kind == "Div" and n == 1 and is_const and other.size == 1 and (other > 0).all():
        return scores._replace(unit=scores.unit * float(other[0]))
    if scores.unit != 1:
        return None
    if kind == "Greater" and n == 1 and is_const and other.size == 1 and not other.any():
        return Labels(scores)
    if kind == "Add" and is_const and other.size in (1, n) and not scores.base.any():
        return scores._replace(base=np.broadcast_to(other.astype(np.float64), n).copy())
    return None

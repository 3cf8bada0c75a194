"""Models as ONNX files, so that they predict wherever there is an ONNX runtime.

The trees become one ``TreeEnsemble`` operator of ai.onnx.ml 5 in float64 with thresholds as they are, so rows must be
given in float64, too. A leaf of that operator adds to one output only; a tree whose leaves score several classes is
written once for each of them.
"""

from __future__ import annotations

import math
import os
import warnings
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from certiforest.ensemble import ModelError, TreeEnsemble
from certiforest.files import write_atomically
from certiforest.formats.agreement import check_agreement, threshold_rows
from certiforest.formats.doors import open_model
from certiforest.formats.opened import Opened

IR_VERSION, OPSET, TREE_OPSET = 10, 18, 5
TENSORS = ("nodes_splits", "nodes_modes", "leaf_weights")  # the other attributes are lists of whole numbers
TOLERANCE = 1e-5  # of probabilities and values, which libraries may round to float32
LESS_OR_EQUAL, ADD_UP, AS_IT_IS = 0, 1, 0  # of nodes_modes, aggregate_function and post_transform


def save_onnx(model: Any, path: str | os.PathLike[str], *, threshold: float | None = None) -> None:
    """Write a model as an ONNX model and check it with onnxruntime.

    The ONNX model takes ``X``, float64 of shape (n, n_features), and returns ``label`` (n,), ``scores`` (n, n_outputs),
    which are votes, or sums with their base, and ``probabilities`` (n, n_classes) where the model says what they are,
    in the order of its own ``classes_``; of a regressor, ``value`` (n, 1). It adds up in float64, so that it may decide
    otherwise than the exact sums within ``ensemble.rounding_bound(np.float64)`` of a tie.

    Parameters
    ----------
    model : TreeEnsemble, estimator or path
        As for `as_ensemble`, pipelines and regressors included; rows are what the model itself takes.
    path : path-like
        The file appears whole or not at all, and only if the model predicts on threshold rows as the ensemble does.
    threshold : float, optional
        As for `as_ensemble`.

    Raises
    ------
    ModelError
        If onnx and onnxruntime are not installed, or the model does not predict the same.
    """
    try:
        import onnx
        import onnxruntime
    except ImportError as error:
        raise ModelError(
            f"Expected onnx and onnxruntime, which write and check the file, got neither or one only ({error});"
            " pip install 'certiforest[onnx]'."
        ) from None
    opened = Opened(model, "a TreeEnsemble") if isinstance(model, TreeEnsemble) else open_model(model)
    if threshold is not None:
        opened = opened.with_threshold(threshold)._replace(is_regressor=False, sum_at=None)
    ensemble, link = opened.ensemble, _link_of(opened)
    if ensemble.blanks is not None:
        raise ModelError("Expected an ensemble to write as ONNX, got one in which some numbers count as missing.")
    if len(ensemble.categorical):
        raise ModelError("Expected an ensemble of thresholds to write as ONNX, got one with splits on categories.")
    if opened.is_regressor and link is None:
        raise ModelError("Expected a regressor that predicts a sum or its exponential to write as ONNX, got another.")
    content = _as_model(ensemble, link, onnx, is_regressor=opened.is_regressor).SerializeToString()
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])

    def run(rows: NDArray[np.float64], output: str) -> NDArray:
        return session.run([output], {"X": rows})[0]

    if not opened.is_regressor:
        check_agreement(
            ensemble,
            "ensemble to ONNX",
            predict=lambda rows: run(rows, "label").astype(ensemble.classes.dtype),
            raw=lambda rows: run(rows, "scores"),
        )
    if opened.score is not None and link is not None:
        rows = threshold_rows(ensemble, 256)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # that these rows are without the names of their columns
            says = np.asarray(opened.score(rows), np.float64)
        found = run(rows, "value" if opened.is_regressor else "probabilities")
        gap = np.abs((found[:, :2][:, -1] if says.ndim == 1 else found) - says)
        if not (gap <= TOLERANCE * np.maximum(1, np.abs(says).max())).all():
            raise ModelError(
                f"Expected the model's own probabilities or values, got some that are {gap.max():.3g} off."
            )
    write_atomically(path, content)


class _Link(NamedTuple):
    """What becomes of sums, less ``start``, over ``unit``: a value, a probability, or an exponential of it."""

    kind: str  # "linear", "logistic", "softmax" or "exponential"
    unit: float
    start: float
    sign: int


def _link_of(opened: Opened) -> _Link | None:
    """Return what a model's sums stand for, None if it does not say."""
    ensemble, sum_at = opened.ensemble, opened.sum_at
    if ensemble.combine == "vote":
        return _Link("linear", float(ensemble.n_trees), 0.0, 1)
    if opened.has_softmax:
        return _Link("softmax", 1.0, 0.0, 1)
    if sum_at is None or opened.has_steps:
        return None
    at = [float(sum_at(p)) for p in (0.25, 0.5, 0.75, 0.9)]
    slope = (at[3] - at[1]) / 0.4
    if math.isclose(at[2] - at[1], slope / 4, rel_tol=1e-12):
        return _Link("linear", float(sum_at(1.0) - sum_at(0.0)), float(sum_at(0.0)), opened.sign)
    unit = (at[2] - at[0]) / (2 * math.log(3))
    if math.isclose(at[3] - at[1], unit * math.log(9), rel_tol=1e-12):
        return _Link("logistic", unit, at[1], opened.sign)
    if opened.is_regressor and math.isclose(at[2] - at[0], math.log(3), rel_tol=1e-12):
        return _Link("exponential", 1.0, at[1] - math.log(0.5), opened.sign)
    return None


def _as_model(ensemble: TreeEnsemble, link: _Link | None, onnx: Any, *, is_regressor: bool) -> Any:
    """Return the graph: trees, plus base, the winner's index, its label, and what scores stand for."""
    helper, double = onnx.helper, onnx.TensorProto.DOUBLE
    classes = ensemble.classes if ensemble.classes.dtype.kind != "U" else ensemble.classes.astype(object)
    is_single = ensemble.scores is not None and ensemble.scores.shape[1] == 1
    n_outputs = 1 if is_single else ensemble.n_classes
    base = np.zeros(n_outputs) if ensemble.base is None else ensemble.base
    constants = {"base": base}
    if not is_regressor:
        constants["labels"] = classes.astype(np.int64) if classes.dtype.kind in "iu" else classes
    trees = _tree_attributes(ensemble, n_outputs)
    attributes = trees | {name: onnx.numpy_helper.from_array(trees[name], name) for name in TENSORS}
    nodes = [
        helper.make_node("TreeEnsemble", ["X"], ["sums"], domain="ai.onnx.ml", **attributes),
        helper.make_node("Add", ["sums", "base"], ["scores"]),
    ]
    if is_single and not is_regressor:
        constants |= {"zero": np.zeros(1), "shape": np.array([-1])}
        nodes += [
            helper.make_node("Greater", ["scores", "zero"], ["wins"]),
            helper.make_node("Cast", ["wins"], ["column"], to=onnx.TensorProto.INT64),
            helper.make_node("Reshape", ["column", "shape"], ["index"]),
        ]
    elif not is_regressor:
        nodes.append(helper.make_node("ArgMax", ["scores"], ["index"], axis=1, keepdims=0))  # the first of equals
    outputs = {"scores": n_outputs}
    if not is_regressor:
        nodes.append(helper.make_node("Gather", ["labels", "index"], ["label"]))
    if link is not None:
        start, outputs["value" if is_regressor else "probabilities"] = (
            link.start,
            1 if is_regressor else ensemble.n_classes,
        )
        constants |= {"unit": np.array([link.sign * link.unit]), "start": np.array([link.sign * start])}
        last = {"linear": "Identity", "logistic": "Sigmoid", "softmax": "Softmax", "exponential": "Exp"}[link.kind]
        name = "share" if is_single and not is_regressor else [*outputs][-1]
        now = "scores"
        for kind, other, idle in (("Sub", "start", 0.0), ("Div", "unit", 1.0)):
            if constants[other][0] != idle:
                nodes.append(helper.make_node(kind, [now, other], [f"after {kind}"]))
                now = f"after {kind}"
        nodes.append(helper.make_node(last, [now], [name]))
        if name == "share":
            constants["one"] = np.ones(1)
            nodes.append(helper.make_node("Sub", ["one", "share"], ["rest"]))
            nodes.append(helper.make_node("Concat", ["rest", "share"], ["probabilities"], axis=1))
    initializers = [onnx.numpy_helper.from_array(value, name) for name, value in constants.items()]
    used = {name for node in nodes for name in node.input}
    initializers = [tensor for tensor in initializers if tensor.name in used]
    graph = helper.make_graph(
        nodes,
        "certiforest",
        [helper.make_tensor_value_info("X", double, [None, ensemble.n_features])],
        [
            *(helper.make_tensor_value_info("label", t.data_type, [None]) for t in initializers if t.name == "labels"),
            *(
                helper.make_tensor_value_info(name, double, [None, size])
                for name, size in outputs.items()
                if not (is_regressor and name == "scores")
            ),
        ],
        initializers,
    )
    opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid("ai.onnx.ml", TREE_OPSET)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION, producer_name="certiforest")
    onnx.checker.check_model(model)
    return model


def _tree_attributes(ensemble: TreeEnsemble, n_outputs: int) -> dict[str, Any]:
    """Return the attributes of the operator: splits of all trees, then leaves of all trees."""
    table = np.eye(n_outputs) if ensemble.scores is None else ensemble.scores
    parts = []
    for start, end in zip(ensemble.tree_start[:-1], ensemble.tree_start[1:], strict=True):
        feature, leaf = ensemble.feature[start:end], ensemble.leaf[start:end]
        scores = table[leaf[feature < 0]]
        outputs = np.flatnonzero((scores != 0).any(axis=0))
        parts += [_write_tree(ensemble, start, end, scores[:, output], int(output)) for output in outputs]
    if not parts:  # every tree adds zero
        parts = [_write_tree(ensemble, 0, int(ensemble.tree_start[1]), np.zeros(ensemble.n_nodes), 0)]
    n_splits = np.cumsum([0] + [len(part["nodes_splits"]) for part in parts])
    n_leaves = np.cumsum([0] + [len(part["leaf_weights"]) for part in parts])
    for part, split, leaf in zip(parts, n_splits[:-1], n_leaves[:-1], strict=True):
        for side in ("true", "false"):
            part[f"nodes_{side}nodeids"] += np.where(part[f"nodes_{side}leafs"] == 1, leaf, split)
    joined = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    options = {"n_targets": n_outputs, "aggregate_function": ADD_UP, "post_transform": AS_IT_IS}
    return options | {"tree_roots": n_splits[:-1]} | joined


def _write_tree(
    ensemble: TreeEnsemble, start: int, end: int, score: NDArray[np.float64], output: int
) -> dict[str, NDArray]:
    """Return the splits and leaves of one tree, numbered from zero, with what its leaves add to one output."""
    feature, threshold = ensemble.feature[start:end], ensemble.threshold[start:end]
    missing_left = ensemble.nodes.missing_left[start:end]
    is_leaf = feature < 0
    split = np.flatnonzero(~is_leaf)
    place = np.where(is_leaf, np.cumsum(is_leaf), np.cumsum(~is_leaf)) - 1
    left, right = split + 1, ensemble.right[start:end][split] - start
    if not len(split):  # the operator has no tree without a split: make one whose sides are the same leaf
        left = right = np.zeros(1, np.int64)
        feature, threshold, split = np.zeros(1, np.int32), np.zeros(1), np.zeros(1, np.int64)
    return {
        "nodes_featureids": feature[split].astype(np.int64),
        "nodes_splits": np.where(np.isnan(threshold[split]), -np.inf, threshold[split]),  # every number is to the right
        "nodes_modes": np.full(len(split), LESS_OR_EQUAL, np.uint8),
        "nodes_missing_value_tracks_true": missing_left[split].astype(np.int64),
        "nodes_truenodeids": place[left],
        "nodes_trueleafs": is_leaf[left].astype(np.int64),
        "nodes_falsenodeids": place[right],
        "nodes_falseleafs": is_leaf[right].astype(np.int64),
        "leaf_targetids": np.full(is_leaf.sum(), output),
        "leaf_weights": score[: is_leaf.sum()],
    }

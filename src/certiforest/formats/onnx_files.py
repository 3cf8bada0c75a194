"""Ensembles as ONNX files, so that they predict wherever there is an ONNX runtime.

The trees become one ``TreeEnsemble`` operator of ai.onnx.ml 5 in float64 with thresholds as they are, so rows must be
given in float64, too. A leaf of that operator adds to one output only; a tree whose leaves score several classes is
written once for each of them.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from certiforest.ensemble import ModelError, TreeEnsemble
from certiforest.files import write_atomically
from certiforest.formats.agreement import check_agreement

IR_VERSION, OPSET, TREE_OPSET = 10, 18, 5
TENSORS = ("nodes_splits", "nodes_modes", "leaf_weights")  # the other attributes are lists of whole numbers
LESS_OR_EQUAL, ADD_UP, AS_IT_IS = 0, 1, 0  # of nodes_modes, aggregate_function and post_transform


def save_onnx(ensemble: TreeEnsemble, path: str | os.PathLike[str]) -> None:
    """Write an ensemble as an ONNX model and check it with onnxruntime.

    The model takes ``X``, float64 of shape (n, n_features), and returns ``label`` (n,) and ``scores`` (n, n_outputs):
    votes, or sums with their base. It adds up in float64, so that it may decide otherwise than the exact sums within
    ``ensemble.rounding_bound(np.float64)`` of a tie.

    Parameters
    ----------
    ensemble : TreeEnsemble
    path : path-like
        The file appears whole or not at all, and only if the model predicts on threshold rows as the ensemble does.

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
    if ensemble.blanks is not None:
        raise ModelError("Expected an ensemble to write as ONNX, got one in which some numbers count as missing.")
    if len(ensemble.categorical):
        raise ModelError("Expected an ensemble of thresholds to write as ONNX, got one with splits on categories.")
    content = _as_model(ensemble, onnx).SerializeToString()
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    check_agreement(
        ensemble,
        "ensemble to ONNX",
        predict=lambda rows: session.run(["label"], {"X": rows})[0].astype(ensemble.classes.dtype),
        raw=lambda rows: session.run(["scores"], {"X": rows})[0],
    )
    write_atomically(path, content)


def _as_model(ensemble: TreeEnsemble, onnx: Any) -> Any:
    """Return the graph: trees, plus base, the winner's index, its label."""
    helper, double = onnx.helper, onnx.TensorProto.DOUBLE
    classes = ensemble.classes if ensemble.classes.dtype.kind != "U" else ensemble.classes.astype(object)
    is_single = ensemble.scores is not None and ensemble.scores.shape[1] == 1
    n_outputs = 1 if is_single else ensemble.n_classes
    base = np.zeros(n_outputs) if ensemble.base is None else ensemble.base
    constants = {"base": base, "labels": classes.astype(np.int64) if classes.dtype.kind in "iu" else classes}
    trees = _tree_attributes(ensemble, n_outputs)
    attributes = trees | {name: onnx.numpy_helper.from_array(trees[name], name) for name in TENSORS}
    nodes = [
        helper.make_node("TreeEnsemble", ["X"], ["sums"], domain="ai.onnx.ml", **attributes),
        helper.make_node("Add", ["sums", "base"], ["scores"]),
    ]
    if is_single:
        constants |= {"zero": np.zeros(1), "shape": np.array([-1])}
        nodes += [
            helper.make_node("Greater", ["scores", "zero"], ["wins"]),
            helper.make_node("Cast", ["wins"], ["column"], to=onnx.TensorProto.INT64),
            helper.make_node("Reshape", ["column", "shape"], ["index"]),
        ]
    else:
        nodes.append(helper.make_node("ArgMax", ["scores"], ["index"], axis=1, keepdims=0))  # the first of equals
    nodes.append(helper.make_node("Gather", ["labels", "index"], ["label"]))
    initializers = [onnx.numpy_helper.from_array(value, name) for name, value in constants.items()]
    label_type = next(tensor.data_type for tensor in initializers if tensor.name == "labels")
    graph = helper.make_graph(
        nodes,
        "certiforest",
        [helper.make_tensor_value_info("X", double, [None, ensemble.n_features])],
        [
            helper.make_tensor_value_info("label", label_type, [None]),
            helper.make_tensor_value_info("scores", double, [None, n_outputs]),
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

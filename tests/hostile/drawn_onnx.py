"""Random ONNX models of trees: all operators and comparisons, text and number labels, steps before the trees."""

import numpy as np


def tree(rng, n_features, n_splits, dtype, *, modes):
    """Draw a tree as a list of [feature, mode, threshold, missing first, first, second]; leaves are None."""
    nodes, waiting = [None], [0]
    for _ in range(n_splits):
        place = waiting.pop(rng.randrange(len(waiting)))
        threshold = float(np.dtype(dtype).type(rng.choice([-1, 0, 0.1, 0.3, 1, 2.5, 1e-3])))
        children = len(nodes), len(nodes) + 1
        nodes[place] = [rng.randrange(n_features), rng.choice(modes), threshold, rng.randint(0, 1), *children]
        nodes += [None, None]
        waiting += children
    return nodes


def listed(rng, kind, n_outputs, trees, scores, n_features, dtype):
    """Return the attributes of TreeEnsembleClassifier or TreeEnsembleRegressor."""
    import onnx

    names = "treeids nodeids featureids modes values missing_value_tracks_true truenodeids falsenodeids"
    columns = {name: [] for name in names.split()}
    ids = {name: [] for name in ("treeids", "nodeids", "ids", "weights")}
    for t, nodes in enumerate(trees):
        for n, node in enumerate(nodes):
            feature, mode, threshold, missing, first, second = node or (0, "LEAF", 0.0, 0, 0, 0)
            for column, value in zip(
                columns.values(), (t, n, feature, mode, threshold, missing, first, second), strict=True
            ):
                column.append(value)
            if node is None:
                for output, weight in enumerate(scores(t)):
                    for column, value in zip(ids.values(), (t, n, output, weight), strict=True):
                        column.append(value)
    as_tensor = dtype == np.float64
    given = {f"nodes_{name}": values for name, values in columns.items()} | {f"{kind}_{k}": v for k, v in ids.items()}
    for name in ("nodes_values", f"{kind}_weights") if as_tensor else ():
        values = given.pop(name)
        given[f"{name}_as_tensor"] = onnx.helper.make_tensor(name, onnx.TensorProto.DOUBLE, [len(values)], values)
    return given


def one_list(rng, trees, scores, dtype):
    """Return the attributes of TreeEnsemble, whose leaves add to one output each."""
    import onnx

    modes = ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT"]
    splits, leaves, roots = [], [], []
    for t, nodes in enumerate(trees):
        place = {}
        for n, node in enumerate(nodes):
            place[n] = len(splits) + sum(other is not None for other in nodes[:n]) if node else None
        start = len(leaves)
        is_leaf = [n for n, node in enumerate(nodes) if node is None]
        leaves += [((t + i) % len(scores(t)), scores(t)[0]) for i in range(len(is_leaf))]
        roots.append(len(splits))
        for node in nodes:
            if node is not None:
                feature, mode, threshold, missing, *children = node
                ends = [(start + is_leaf.index(c), 1) if nodes[c] is None else (place[c], 0) for c in children]
                splits.append((feature, threshold, modes.index(mode), missing, *ends[0], *ends[1]))
    names = ("featureids", "splits", "modes", "missing_value_tracks_true", "truenodeids", "trueleafs", "falsenodeids",
             "falseleafs")  # fmt: skip
    given = dict(zip([f"nodes_{name}" for name in names], map(list, zip(*splits, strict=True)), strict=True))
    targets, weights = zip(*leaves, strict=True)
    given |= {"tree_roots": roots, "leaf_targetids": list(targets), "leaf_weights": list(weights)}
    real = onnx.TensorProto.DOUBLE if dtype == np.float64 else onnx.TensorProto.FLOAT
    for name, kind in (("nodes_splits", real), ("leaf_weights", real), ("nodes_modes", onnx.TensorProto.UINT8)):
        given[name] = onnx.helper.make_tensor(name, kind, [len(given[name])], given[name])
    return given


def steps(rng, n_features, dtype):
    """Return nodes and constants that scale, fill and choose columns of X, ending in Z, and how many there are then."""
    import onnx

    nodes, constants, name = [], {}, "X"
    for i in range(rng.choice([0, 0, 1, 2, 3])):
        kind = rng.choice(["Add", "Sub", "Mul", "Div", "Gather", "Identity", "Imputer", "Cast", "Scaler"])
        if dtype == np.float64 and kind in ("Imputer", "Scaler"):
            continue  # not for double, or to float
        options, extra, domain = {}, [], ""
        if kind in ("Add", "Sub", "Mul", "Div"):
            sizes = rng.choice([[n_features], [1, n_features], [1]])
            value = np.array([rng.choice([0.1, 0.7, 1.5, 3.0]) for _ in range(max(sizes))], dtype).reshape(sizes)
            constants[f"c{i}"], extra = value, [f"c{i}"]
        elif kind == "Gather":
            chosen = [rng.randrange(n_features) for _ in range(rng.randint(1, n_features + 1))]
            constants[f"c{i}"], extra, options, n_features = np.array(chosen), [f"c{i}"], {"axis": 1}, len(chosen)
        elif kind == "Cast":
            options = {"to": onnx.TensorProto.DOUBLE if dtype == np.float64 else onnx.TensorProto.FLOAT}
        elif kind == "Imputer":
            domain = "ai.onnx.ml"
            options = {"imputed_value_floats": [rng.choice([0.3, 1.0])], "replaced_value_float": float("nan")}
        elif kind == "Scaler":
            domain, options = "ai.onnx.ml", {"offset": [rng.choice([0.1, -3.0])], "scale": [rng.choice([0.3, 7.0])]}
        nodes.append(onnx.helper.make_node(kind, [name, *extra], [f"s{i}"], domain=domain, **options))
        name = f"s{i}"
    return [*nodes, onnx.helper.make_node("Identity", [name], ["Z"])], constants, n_features


def draw_onnx(rng, operator):
    """Return a ModelProto with one of the three operators."""
    import onnx

    helper, dtype = onnx.helper, rng.choice([np.float32, np.float32, np.float64])
    real = onnx.TensorProto.DOUBLE if dtype == np.float64 else onnx.TensorProto.FLOAT
    n_given = rng.randint(1, 4)
    before, constants, n = steps(rng, n_given, dtype)
    modes = rng.choice([["BRANCH_LEQ"], ["BRANCH_LT"], ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT"]])
    trees = [tree(rng, n, rng.choice([1, 2, 3, 5]), dtype, modes=modes) for _ in range(rng.randint(2, 5))]
    n_classes, is_share = rng.choice([2, 2, 3]), rng.random() < 0.3
    label_type, outputs = onnx.TensorProto.INT64, []
    n_outputs = 1 if operator == "TreeEnsembleRegressor" or n_classes == 2 else n_classes

    def scores(t):
        return [
            float(dtype(rng.choice([0.05, 0.1, 0.25] if is_share else [-0.7, 0.1, 0.1, 0.3]))) for _ in range(n_outputs)
        ]

    if operator == "TreeEnsembleRegressor":
        given = listed(rng, "target", 1, trees, scores, n, dtype) | {"n_targets": 1}
        if rng.random() < 0.5:
            given["aggregate_function"] = "AVERAGE"
        elif dtype == np.float32:
            given["base_values"] = [0.5]
        after = [helper.make_node(operator, ["Z"], ["value"], domain="ai.onnx.ml", **given)]
        outputs = [helper.make_tensor_value_info("value", onnx.TensorProto.FLOAT, [None, 1])]
    elif operator == "TreeEnsembleClassifier":
        given = listed(rng, "class", n_outputs, trees, scores, n, dtype)
        given["post_transform"] = rng.choice(["NONE", "LOGISTIC" if n_classes == 2 else "SOFTMAX"])
        if dtype == np.float32 and rng.random() < 0.5:
            given["base_values"] = [rng.choice([0.1, -0.2]) for _ in range(n_outputs)]
        if rng.random() < 0.3:
            label_type = onnx.TensorProto.STRING
            given["classlabels_strings"] = ["no", "yes", "maybe"][:n_classes]
        else:
            given["classlabels_int64s"] = [3, 7, 9][:n_classes]
        after = [helper.make_node(operator, ["Z"], ["label", "probabilities"], domain="ai.onnx.ml", **given)]
    else:
        given = one_list(rng, trees, scores, dtype) | {"n_targets": n_outputs}
        constants |= {"base": np.full(n_outputs, 0.1, dtype), "zero": np.zeros(1, dtype), "shape": np.array([-1])}
        constants["labels"] = np.array([3, 7, 9][:n_classes])
        after = [helper.make_node(operator, ["Z"], ["sums"], domain="ai.onnx.ml", **given)]
        after.append(helper.make_node("Add", ["sums", "base"], ["scores"]))
        if n_outputs == 1:
            after += [
                helper.make_node("Greater", ["scores", "zero"], ["wins"]),
                helper.make_node("Cast", ["wins"], ["column"], to=onnx.TensorProto.INT64),
                helper.make_node("Reshape", ["column", "shape"], ["index"]),
            ]
        else:
            after.append(helper.make_node("ArgMax", ["scores"], ["index"], axis=1, keepdims=0))
        after.append(helper.make_node("Gather", ["labels", "index"], ["label"]))
    if not outputs:
        outputs = [helper.make_tensor_value_info("label", label_type, [None])]
    graph = helper.make_graph(
        [*before, *after], "drawn", [helper.make_tensor_value_info("X", real, [None, n_given])], outputs,
        [onnx.numpy_helper.from_array(value, name) for name, value in constants.items()],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", 5 if operator == "TreeEnsemble" else 3)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)

"""Small model files of every kind as their libraries write them, and documents whose names may stand twice."""

from __future__ import annotations

import contextlib
import functools
import json
import math
import random
import struct
import tempfile
from pathlib import Path

import numpy as np
import pandas
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from certiforest import as_ensemble, save_onnx, save_silva
from hostile.drawn_onnx import draw_onnx


@functools.cache
def sources(kind: str) -> tuple[bytes, ...]:
    """Return small files of a kind."""
    two, many = load_breast_cancer(return_X_y=True), load_iris(return_X_y=True)
    two = two[0][:, :6], two[1]
    text = two[0], np.array(["m", "b"])[two[1]]
    holed = np.where(np.random.default_rng(0).random(two[0].shape) < 0.3, np.nan, two[0]), two[1]
    coded = holed[0].copy()
    coded[:, 1] = np.floor(coded[:, 1] / 3)
    coded = coded, (np.nan_to_num(coded[:, 1]) % 3 == 0).astype(int)
    with tempfile.TemporaryDirectory() as folder:
        write = {
            "certiforest": _own, "silva": _silva, "LightGBM": _lightgbm, "LightGBM dump": _lightgbm_dump, "ONNX": _onnx,
            "CatBoost": _catboost, "treelite": _treelite, "treelite checkpoint": _checkpoint,
        }.get(kind, _xgboost)  # fmt: skip
        path = Path(folder) / "model"
        contents = []
        for save in write(two, many, text, holed, coded):
            save(path)
            contents.append(path.read_bytes())
    if kind == "XGBoost UBJSON":
        return tuple(to_ubjson(read_pairs(content)) for content in contents)
    return tuple(contents)


def _own(*data):
    *data, coded = data
    categorical = HistGradientBoostingClassifier(max_iter=2, max_depth=3, categorical_features=[1]).fit(*coded)
    yield as_ensemble(categorical).save
    frame = pandas.DataFrame(coded[0][:, [0, 1, 2]], columns=list("abc"))
    frame["b"] = np.array(["oak", "ash", "elm"])[np.nan_to_num(frame["b"]).astype(int) % 3]
    frame["c"] = np.nan_to_num(np.floor(frame["c"] / 40))
    parts = [("a", SimpleImputer(), ["a"]), ("b", OneHotEncoder(), ["b"])]
    parts.append(("c", OneHotEncoder(handle_unknown="ignore"), ["c"]))
    forest = RandomForestClassifier(3, max_depth=3, random_state=0)
    yield as_ensemble(make_pipeline(ColumnTransformer(parts), forest).fit(frame, coded[1])).save
    for own in data:
        forest = RandomForestClassifier(3, max_depth=3, random_state=0).fit(*own)
        yield as_ensemble(forest, voting="hard").with_columns([f"f {i}" for i in range(own[0].shape[1])]).save
        yield as_ensemble(forest).save


def _silva(*data):
    for own in data[:3]:
        forest = RandomForestClassifier(3, max_depth=3, random_state=0).fit(*own)
        yield functools.partial(save_silva, as_ensemble(forest, voting="hard"))


def _xgboost(*data):
    for booster in _xgboost_boosters(*data):
        yield lambda path, booster=booster: path.write_bytes(booster.save_raw("json"))


def _xgboost_boosters(two, many, text, holed, coded):
    import xgboost

    options = {"n_estimators": 2, "max_depth": 2, "n_jobs": 1}
    named = pandas.DataFrame(two[0], columns=list("abcdef")), two[1]
    for data, more in (
        (two, {}),
        (many, {}),
        (named, {"objective": "binary:hinge"}),
        (two, {"booster": "dart", "rate_drop": 0.5}),
        (many, {"objective": "multi:softmax", "num_parallel_tree": 2, "subsample": 0.5}),
        (many, {"multi_strategy": "multi_output_tree"}),
        (two, {"gamma": 5.0, "tree_method": "exact"}),
        (holed, {}),
        (coded, {"enable_categorical": True, "feature_types": list("qcqqqq"), "max_cat_to_onehot": 1}),
    ):
        yield xgboost.XGBClassifier(**options, **more).fit(*data).get_booster()


def _lightgbm(two, many, text, holed, coded):
    import lightgbm

    options = {"n_estimators": 2, "num_leaves": 4, "n_jobs": 1, "verbose": -1}
    forest = {"boosting_type": "rf", "bagging_freq": 1, "bagging_fraction": 0.5}
    for data, more in (
        (two, {}), (many, {}), (two, forest), (many, {"objective": "multiclassova"}), (many, forest), (holed, {}),
        (holed, {"zero_as_missing": True}), (coded, {"min_data_per_group": 5, "cat_smooth": 1}),
    ):  # fmt: skip
        which = {"categorical_feature": [1]} if data is coded else {}
        yield lightgbm.LGBMClassifier(**options, **more).fit(*data, **which).booster_.save_model


def _lightgbm_dump(*data):
    import lightgbm

    for save in _lightgbm(*data):
        text = lightgbm.Booster(model_str=save.__self__.model_to_string()).dump_model()
        kept = {name: value for name, value in text.items() if name != "feature_importances"}
        yield lambda path, kept=kept: path.write_text(json.dumps(kept))


def _treelite(*data):
    for model in _treelite_models(*data):
        yield lambda path, model=model: path.write_text(model.dump_as_json(pretty_print=False))


def _checkpoint(*data):
    for model in _treelite_models(*data):
        yield lambda path, model=model: path.write_bytes(model.serialize_bytes())


def _treelite_models(*data):
    import treelite

    for booster in _xgboost_boosters(*data):
        if booster.save_config().find("multi_output_tree") < 0 and booster.save_config().find("hinge") < 0:
            yield treelite.frontend.from_xgboost(booster)


def _onnx(two, many, *rest):
    for own in (two, many):
        forest = RandomForestClassifier(2, max_depth=2, random_state=0).fit(*own)
        yield functools.partial(save_onnx, forest)
    for seed in range(12):
        operator = ("TreeEnsembleClassifier", "TreeEnsemble")[seed % 2]
        content = draw_onnx(random.Random(seed), operator).SerializeToString()
        yield lambda path, content=content: path.write_bytes(content)


def _catboost(two, many, text, holed, coded):
    import catboost

    options = {"iterations": 2, "depth": 2, "verbose": 0, "thread_count": 1, "allow_writing_files": False}
    for data, more in (
        (two, {}),
        (text, {}),
        (many, {}),
        (many, {"grow_policy": "Lossguide"}),
        (two, {"grow_policy": "Depthwise"}),
        (many, {"loss_function": "MultiClassOneVsAll"}),
        (holed, {}),
        (holed, {"nan_mode": "Max"}),
    ):
        model = catboost.CatBoostClassifier(**options, **more).fit(*data)
        yield lambda path, model=model: _save_catboost(model, path)
    cells = coded[0].astype(object)
    cells[:, 1] = [f"kind {value}" for value in coded[0][:, 1]]
    for more in ({}, {"grow_policy": "Lossguide"}):
        model = catboost.CatBoostClassifier(**options, **more, cat_features=[1], one_hot_max_size=50)
        model.fit(cells, coded[1])
        yield lambda path, model=model: _save_catboost(model, path)


def _save_catboost(model, path):
    """Save as JSON, without the long texts on how the model was trained."""
    model.save_model(str(path), format="json")
    document = json.loads(path.read_bytes())
    info = document["model_info"]
    document["model_info"] = {name: info[name] for name in ("class_params", "model_guid")}
    document["model_info"]["params"] = {name: info["params"][name] for name in ("loss_function",)}
    path.write_text(json.dumps(document))


class Pairs(list):
    """An object as a list of (name, value)."""


class Raw(str):
    """Text that stands in JSON as it is."""


def read_pairs(content: bytes):
    return json.loads(content, object_pairs_hook=Pairs)


def to_json(value) -> str:
    if isinstance(value, Pairs):
        return "{" + ",".join(f"{json.dumps(name)}:{to_json(entry)}" for name, entry in value) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(to_json, value)) + "]"
    return value if isinstance(value, Raw) else json.dumps(value)


# How XGBoost types the arrays of a model.
TYPED = {
    "U": (">u1", ("default_left", "split_type")),
    "L": (">i8", ("categories_segments", "categories_sizes")),
    "d": (">f4", ("base_weights", "loss_changes", "split_conditions", "sum_hessian", "leaf_weights")),
}
UNTYPED = ("trees", "feature_names", "feature_types", "enc", "version", "iteration_indptr", "tree_info", "weight_drop")


def to_ubjson(value, name="") -> bytes:
    if isinstance(value, Pairs):
        inside = b"".join(_ubjson_text(key) + to_ubjson(entry, key) for key, entry in value)
        return b"{" + inside + b"}"
    if isinstance(value, Raw):
        with contextlib.suppress(ValueError):
            return to_ubjson(json.loads(value, object_pairs_hook=Pairs), name)
        return b"S" + _ubjson_text(value)
    if isinstance(value, list):
        kind, dtype = next(((kind, dtype) for kind, (dtype, names) in TYPED.items() if name in names), ("l", ">i4"))
        with contextlib.suppress(ValueError, TypeError, OverflowError):
            if name not in UNTYPED and not any(isinstance(entry, (str, bool)) or entry is None for entry in value):
                array = np.array(value, dtype=dtype)
                return b"[$" + kind.encode() + b"#L" + struct.pack(">q", len(value)) + array.tobytes()
        return b"[#L" + struct.pack(">q", len(value)) + b"".join(to_ubjson(entry) for entry in value)
    if value is None or isinstance(value, bool):
        return {None: b"Z", True: b"T", False: b"F"}[value]
    if isinstance(value, int) and abs(value) < 2**63:
        return b"L" + struct.pack(">q", value)
    if isinstance(value, (int, float)):
        with np.errstate(over="ignore"):
            return b"d" + np.array(float(value) if abs(value) < 1e300 else math.inf, ">f4").tobytes()
    return b"S" + _ubjson_text(value)


def _ubjson_text(text: str) -> bytes:
    content = text.encode("utf-8", "replace")
    return b"L" + struct.pack(">q", len(content)) + content

"""as_ensemble: one way in for every kind of model, and a memory of the models that came in.

A translation is remembered for as long as its model lives and is what it was. That is told by the model's whole fitted
state, taken and compared on every call: fitting again, adding trees, setting parameters and changing arrays in place
are all seen. It takes a small part of the time of a translation.
"""

from __future__ import annotations

import hashlib
import os
import re
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from certiforest.ensemble import ModelError, TreeEnsemble
from certiforest.formats import (
    additive_models,
    catboost_models,
    lightgbm_dump,
    lightgbm_models,
    onnx_models,
    treelite_models,
    xgboost_models,
)
from certiforest.formats.library_code import is_of, refuse_other_code
from certiforest.formats.opened import LOGISTIC_SLACK, Opened, log_odds, unfitted
from certiforest.formats.silva_text import SILVA_HEADERS, parse_silva

PLAIN = (bool, int, float, str, np.generic, type(None))
# How each library's models are opened: what decides all that one predicts, and what is made of that.
BOOSTED: dict[str, tuple[Callable[[Any], Any], Callable[[Any, Any], Opened]]] = {
    "xgboost": (xgboost_models.content_of_xgboost, xgboost_models.open_xgboost),
    "lightgbm": (lightgbm_models.content_of_lightgbm, lightgbm_models.open_lightgbm),
    "catboost": (catboost_models.content_of_catboost, catboost_models.open_catboost),
    "onnx": (onnx_models.content_of_onnx, onnx_models.open_onnx),
    "interpret": (additive_models.content_of_ebm, additive_models.open_ebm),
    "treelite": (treelite_models.content_of_treelite, treelite_models.open_treelite),
}
XGBOOST_DUMP = re.compile(rb'[\[\s]*(\{\s*"(nodeid|leaf)"|booster\[0\]:)')
COMBINED_BY = {"hard": "vote", "soft": "sum"}

# Files by their first bytes that hold no model which can be read as data.
PICKLE = (
    "a pickle, as joblib.dump writes, which can run any code when it is opened and is not read here; if you trust it,"
    " open it in Python and save what is in it: as_ensemble(joblib.load(path)).save('model.json')"
)
COMPRESSED = f"a compressed file; unpack it first. If it is {PICKLE}"
OTHER_FILES = {
    b"\x80\x02": PICKLE, b"\x80\x03": PICKLE, b"\x80\x04": PICKLE, b"\x80\x05": PICKLE,
    b"\x78\x01": COMPRESSED, b"\x78\x5e": COMPRESSED, b"\x78\x9c": COMPRESSED, b"\x78\xda": COMPRESSED,
    b"\x1f\x8b": COMPRESSED, b"BZh": COMPRESSED, b"\xfd7zXZ": COMPRESSED, b"\x04\x22\x4d\x18": COMPRESSED,
    b"PK\x03\x04": "a zip archive (.npz, .skops, ...); give the model's own file",
    b"\x93NUMPY": "an array of numpy (.npy): rows, not a model",
    b"<?xml": "XML, as PMML is, which is not read; give the file or the object that it was made from",
    b"<PMML": "PMML, which is not read; give the file or the object that it was made from",
    b"PAR1": "a table (Parquet): rows, not a model",
    b"\x89HDF": "an HDF5 file, which is not read; give the model's own file",
    b"binf": "XGBoost's old binary format; save the model as JSON: booster.save_model('model.json')",
}  # fmt: skip


def as_ensemble(
    model: Any, *, voting: str | None = None, threshold: float | None = None, best_iteration: bool | None = None
) -> TreeEnsemble:
    """Translate a model, exactly, into a `TreeEnsemble`.

    Parameters
    ----------
    model : TreeEnsemble, estimator or path
        An ensemble is returned as it is; an estimator of this library gives its ``ensemble_``. Translated are
        scikit-learn's trees, forests, extra trees, gradient boosting and histogram gradient boosting, isolation
        forests, classifiers of XGBoost, LightGBM (or their ``Booster``), CatBoost and InterpretML, and models of ONNX
        and treelite. A path leads to a file of this library, of XGBoost (JSON or UBJSON), of LightGBM (text, or
        ``dump_model``), of CatBoost (JSON), ONNX, treelite or a ``.silva`` file, told apart by their content.
    voting : {"soft", "hard"}, optional
        How the trees of a scikit-learn forest combine. They average probabilities, which is ``"soft"`` and what you get
        if you do not say. ``"hard"`` takes the majority of its trees' own predictions, another model than the one that
        scikit-learn's ``predict`` deploys.
    threshold : float, optional
        For two classes: say the second one iff ``predict_proba(X)[:, 1] >= threshold``, instead of what ``predict``
        says; as scikit-learn's ``FixedThresholdClassifier`` does. For a regressor: the classes are 0 and 1, and 1 is
        said iff ``predict(X) >= threshold``.
    best_iteration : bool, optional
        For a file of XGBoost after early stopping: whether trees after the best round are left out, as by
        ``XGBClassifier``, or used, as by ``Booster``. Other files hold, and objects know, the trees that are used.

    Returns
    -------
    TreeEnsemble
        Predicts as the model does on every finite float64 row, but for sums that are so close to a tie that the
        model's own rounding decides (``docs/importing.md``).

    Raises
    ------
    ModelError
        If the model cannot be translated exactly.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from certiforest import as_ensemble
    >>> X, y = load_iris(return_X_y=True)
    >>> forest = RandomForestClassifier(n_estimators=5, max_depth=3, random_state=0).fit(X, y)
    >>> as_ensemble(forest)
    TreeEnsemble(5 trees, 51 nodes, 4 features, 3 classes, scores add up)
    >>> as_ensemble(forest, voting="hard")
    TreeEnsemble(5 trees, 51 nodes, 4 features, 3 classes)
    """
    if voting is not None and voting not in COMBINED_BY:
        raise ModelError(f"Expected voting to be 'soft', 'hard' or None, got {voting!r}.")
    if isinstance(model, (str, os.PathLike)):
        ensemble = _read(Path(model), best_iteration).finish(threshold)
    elif best_iteration is not None:
        raise ModelError(f"Expected best_iteration for a file of XGBoost only, got a {type(model).__name__}.")
    else:
        ensemble = _enter(model, voting, threshold)
    if voting is not None and ensemble.combine != COMBINED_BY[voting]:
        raise ModelError(f"Expected voting=None: the trees of this model do not combine by {voting} voting.")
    return ensemble


def open_model(model: Any, best_iteration: bool | None = None) -> Opened:
    """Translate a model, exactly, with what its sums stand for; also a regressor, whose sum is what it predicts."""
    if isinstance(model, (str, os.PathLike)):
        return _read(Path(model), best_iteration)
    refuse_other_code(model)
    opened = _open(model, None, 0.5).with_usual_threshold()
    opened.compare()
    return opened


def _enter(model: Any, voting: str | None, threshold: float | None) -> TreeEnsemble:
    if type(model) is not TreeEnsemble:  # which nobody can change
        refuse_other_code(model)
    if isinstance(model, TreeEnsemble) and threshold is None and not model.is_regressor:
        return model
    own = _own_ensemble(model)
    if threshold is None and own is not None and hasattr(model, "classes_"):  # which regressors have not
        return own
    content = _content_of(model)
    if content is None or not hasattr(type(model), "__weakref__"):  # no memory of what may be another by now
        return _open(model, voting, threshold, content=content).finish(threshold)
    return _translate_once(model, voting, threshold, content)


def _content_of(model: Any) -> Any:
    """Return all that decides what a fitted model predicts, None if there is no way to tell."""
    for library, (content_of, _) in BOOSTED.items():
        if is_of(library, model):
            return content_of(model)
    if is_of("sklearn", model):  # importing it takes a second
        from certiforest.formats.pipelines import content_of_step
        from certiforest.formats.sklearn_models import content_of_sklearn, is_sklearn_model
        from certiforest.formats.wrappers import has_parts, parts_of

        if is_sklearn_model(model):
            return content_of_sklearn(model)
        if has_parts(model):
            return tuple(_state_of(part, _content_of(part) or b"") for part in parts_of(model))
        return content_of_step(model)
    own = _own_ensemble(model)
    return None if own is None else own.sha256


def _own_ensemble(model: Any) -> TreeEnsemble | None:
    """Return what an estimator of this library predicts by; others may keep one that they do not predict by."""
    own = getattr(model, "ensemble_", None) if is_of("certiforest", model) else None
    return own if isinstance(own, TreeEnsemble) else None


def _open(model: Any, voting: str | None, threshold: float | None, *, content: Any = None) -> Opened:
    """Translate a model; ``threshold`` is what will be put on it."""
    if isinstance(model, TreeEnsemble):
        return _open_ensemble(model, "a TreeEnsemble")
    content = _content_of(model) if content is None else content
    for library, (_, open_model) in BOOSTED.items():
        if is_of(library, model):
            return open_model(model, content)
    if is_of("sklearn", model):
        from certiforest.formats.isolation import IsolationForest, open_isolation
        from certiforest.formats.sklearn_models import is_sklearn_model, open_sklearn
        from certiforest.formats.wrappers import is_wrapper, open_wrapper

        if isinstance(model, IsolationForest):
            return open_isolation(model)
        if is_sklearn_model(model):
            return open_sklearn(model, voting, needs_probability=threshold is not None)
        if is_wrapper(model):

            def enter(part: Any, *, needs_probability: bool) -> Opened:
                return _open(part, voting, 0.5 if needs_probability else None)

            return open_wrapper(model, enter, threshold)
    if _own_ensemble(model) is not None:
        return _open_own(model)
    if hasattr(model, "fit") and hasattr(type(model), "ensemble_"):
        raise unfitted(model)
    raise ModelError(
        "Expected a TreeEnsemble, a path, or a fitted classifier of certiforest, scikit-learn (a tree, forest, extra"
        " trees, gradient boosting, histogram gradient boosting, an isolation forest), XGBoost, LightGBM, CatBoost,"
        " InterpretML, ONNX or treelite, or a pipeline, search or vote of such, got"
        f" {type(model).__name__}."
    )


def _open_ensemble(ensemble: TreeEnsemble, name: str) -> Opened:
    return Opened(ensemble, name, sum_at=float if ensemble.is_regressor else None, is_regressor=ensemble.is_regressor)


def _open_own(model: Any) -> Opened:
    """Return an estimator of this library with its probabilities, for a threshold on them; or what it predicts."""
    name = type(model).__name__
    if not hasattr(model, "classes_"):
        return Opened(model.ensemble_, name, model.predict, score=model.predict, sum_at=float, is_regressor=True)
    unit = getattr(model, "log_odds_per_unit", None)  # where trees vote there is none
    return Opened(
        model.ensemble_,
        name,
        score=lambda rows: model.predict_proba(rows)[:, 1],
        predict=model.predict,
        sum_at=None if unit is None else (lambda score: log_odds(score) / unit),
        slack=LOGISTIC_SLACK,
    )


class _Translation(NamedTuple):
    model: weakref.ref
    state: tuple[Any, ...]
    ensemble: TreeEnsemble


_remembered: dict[tuple[int, str | None, float | None], _Translation] = {}  # by id of the model, voting and threshold


def _translate_once(model: Any, voting: str | None, threshold: float | None, content: Any) -> TreeEnsemble:
    """Return the remembered translation of a model that has not changed since, else a new one."""
    key, state = (id(model), voting, threshold), _state_of(model, content)
    known = _remembered.get(key)
    if known is not None and known.model() is model and known.state == state:
        return known.ensemble
    ensemble = _open(model, voting, threshold, content=content).finish(threshold)

    def forget(reference: weakref.ref) -> None:
        if key in _remembered and _remembered[key].model is reference:
            del _remembered[key]

    _remembered[key] = _Translation(weakref.ref(model, forget), state, ensemble)
    return ensemble


def _state_of(model: Any, content: str | bytes | tuple[Any, ...] | list[np.ndarray]) -> tuple[Any, ...]:
    """Return what two states of a model differ in: what decides its predictions, and its own plain attributes.

    Arrays are hashed, since they may be large. Text stays as it is: comparing takes a thirtieth of the time of hashing.
    """
    plain = {name: _plain(value) for name, value in vars(model).items()}
    digest = hashlib.sha256(repr((type(model), plain)).encode())
    if not isinstance(content, list):
        return digest.digest(), content
    kinds = {array.dtype: str(array.dtype.descr) for array in content}
    for array in content:
        digest.update(f"{kinds[array.dtype]} {array.shape} ".encode())
        digest.update(np.ascontiguousarray(array).data)
    return (digest.digest(),)


def _plain(value: Any) -> Any:
    """Return plain values, and arrays, lists and mappings of them, as `repr` writes in full; None for all others."""
    if isinstance(value, np.ndarray) and value.dtype != object:
        return value.dtype.str, value.shape, value.tolist()
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, dict):
        return [(_plain(key), _plain(entry)) for key, entry in value.items()]
    if isinstance(value, (list, tuple)):
        return [_plain(entry) for entry in value]
    return value if isinstance(value, PLAIN) else None


def _read(path: Path, best_iteration: bool | None) -> Opened:
    try:
        if path.is_dir():
            raise ModelError(f"Expected a model file, got the directory {path}.")
        if path.exists() and not path.is_file():  # a pipe without a writer would wait for ever
            raise ModelError(
                f"Expected a model file, got {path}, a pipe or device; save what it holds to a file first."
            )
        content = path.read_bytes()
    except ModelError:
        raise
    except FileNotFoundError:
        raise ModelError(f"Expected a model file, got {path}, which does not exist.") from None
    except (OSError, ValueError) as error:  # a name with a zero byte is a ValueError
        raise ModelError(f"Expected a readable model file, got {path} ({error}).") from None
    source = str(path)
    for beginning, refusal in OTHER_FILES.items():
        if content.startswith(beginning):
            raise ModelError(f"Expected a model file, got {path}, {refusal}.")
    is_lightgbm = content[:40].split(maxsplit=1)[:1] == [lightgbm_models.LIGHTGBM_HEADER]
    is_xgboost = xgboost_models.UBJSON_OBJECT.match(content) or xgboost_models.XGBOOST_KEY.search(content)
    if is_xgboost and not is_lightgbm:
        return xgboost_models.parse_xgboost(content, best_iteration, source=source)
    if best_iteration is not None:
        raise ModelError(f"Expected best_iteration for a file of XGBoost only, got {path}.")
    if is_lightgbm:
        return lightgbm_models.parse_lightgbm(content, source=source)
    if content.lstrip()[:40].startswith(SILVA_HEADERS):
        return Opened(parse_silva(content, source=source), "this file of SILVA")
    if lightgbm_dump.DUMP_KEY.search(content):
        return lightgbm_dump.parse_dump(content, source=source)
    if treelite_models.CHECKPOINT.match(content) or treelite_models.TREELITE_KEY.search(content):
        return treelite_models.parse_treelite(content, source=source)
    if XGBOOST_DUMP.match(content):
        raise ModelError(
            f"Expected a model file, got {path}, a dump of XGBoost's trees, which lacks base score, objective, columns"
            " and weights of trees, and has thresholds of whole columns rounded; save the model itself:"
            " booster.save_model('model.json')."
        )
    if onnx_models.ONNX_BEGINNING.match(content):
        return onnx_models.parse_onnx(content, source=source)
    if content.startswith(catboost_models.CATBOOST_BINARY) or catboost_models.CATBOOST_KEYS.search(content):
        return catboost_models.parse_catboost(content, source=source)
    return _open_ensemble(TreeEnsemble.from_text(content, source=source), "a file of certiforest")

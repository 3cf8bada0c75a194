"""as_ensemble: one way in for every kind of model."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from certiforest.ensemble import ModelError, TreeEnsemble
from certiforest.formats.catboost_models import (
    CATBOOST_BINARY,
    CATBOOST_KEYS,
    is_catboost_model,
    parse_catboost,
    translate_catboost,
)
from certiforest.formats.lightgbm_models import (
    LIGHTGBM_HEADER,
    is_lightgbm_model,
    parse_lightgbm,
    translate_lightgbm,
)
from certiforest.formats.silva_text import SILVA_HEADERS, parse_silva
from certiforest.formats.xgboost_models import (
    UBJSON_OBJECT,
    XGBOOST_KEY,
    is_xgboost_model,
    parse_xgboost,
    translate_xgboost,
)

COMBINED_BY = {"hard": "vote", "soft": "sum"}


def as_ensemble(model: Any, *, voting: str | None = None) -> TreeEnsemble:
    """Translate a model, exactly, into a `TreeEnsemble`.

    Parameters
    ----------
    model : TreeEnsemble, estimator or path
        An ensemble is returned as it is; an estimator of this library gives its ``ensemble_``. Translated are
        scikit-learn's trees, forests, extra trees, gradient boosting and histogram gradient boosting, and classifiers
        of XGBoost, LightGBM (or their ``Booster``) and CatBoost. A path leads to a file of this library, of XGBoost
        (JSON or UBJSON), of LightGBM (text), of CatBoost (JSON) or a ``.silva`` file, told apart by their content.
    voting : {"soft", "hard"}, optional
        How the trees of a scikit-learn forest combine. They average probabilities, which is ``"soft"`` and what you get
        if you do not say. ``"hard"`` takes the majority of its trees' own predictions, another model than the one that
        scikit-learn's ``predict`` deploys.

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
    ensemble = _enter(model, voting)
    if voting is not None and ensemble.combine != COMBINED_BY[voting]:
        raise ModelError(f"Expected voting=None: the trees of this model do not combine by {voting} voting.")
    return ensemble


def _enter(model: Any, voting: str | None) -> TreeEnsemble:
    if isinstance(model, TreeEnsemble):
        return model
    if isinstance(model, (str, os.PathLike)):
        return _read(Path(model))
    if is_xgboost_model(model):
        return translate_xgboost(model)
    if is_lightgbm_model(model):
        return translate_lightgbm(model)
    if is_catboost_model(model):
        return translate_catboost(model)
    if "sklearn" in sys.modules:  # else the model cannot be one of its own, and importing it takes a second
        from certiforest.formats.sklearn_models import is_sklearn_model, translate_sklearn

        if is_sklearn_model(model):
            return translate_sklearn(model, voting)
    if isinstance(getattr(model, "ensemble_", None), TreeEnsemble):
        return model.ensemble_
    if hasattr(model, "fit") and hasattr(type(model), "ensemble_"):
        raise ModelError(f"Expected a fitted model, got an unfitted {type(model).__name__}; call fit first.")
    raise ModelError(
        "Expected a TreeEnsemble, a path, or a fitted classifier of certiforest, scikit-learn (a tree, forest, extra"
        " trees, gradient boosting or histogram gradient boosting), XGBoost, LightGBM or CatBoost,"
        f" got {type(model).__name__}."
    )


def _read(path: Path) -> TreeEnsemble:
    if path.is_dir():
        raise ModelError(f"Expected a model file, got the directory {path}.")
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise ModelError(f"Expected a model file, got {path}, which does not exist.") from None
    except OSError as error:
        raise ModelError(f"Expected a readable model file, got {path} ({error.strerror}).") from None
    source = str(path)
    if content.lstrip()[:40].startswith(SILVA_HEADERS):
        return parse_silva(content, source=source)
    if content[:40].split(maxsplit=1)[:1] == [LIGHTGBM_HEADER]:
        return parse_lightgbm(content, source=source)
    if UBJSON_OBJECT.match(content) or XGBOOST_KEY.search(content):
        return parse_xgboost(content, source=source)
    if content.startswith(CATBOOST_BINARY) or CATBOOST_KEYS.search(content):
        return parse_catboost(content, source=source)
    return TreeEnsemble.from_text(content, source=source)

"""Whether a model predicts by its library's own code, the only code that a translation stands for.

A subclass, an instance or a patched class that puts code of its own in the place of a method may predict otherwise on
rows that no comparison meets, so that it is refused. What is added, or changes training, display and parameters only,
changes no prediction and is welcome.
"""

from __future__ import annotations

import inspect
import re
from abc import ABC
from collections.abc import Iterable
from functools import cached_property
from typing import Any, Generic

import numpy as np

from certiforest.ensemble import ModelError

LIBRARIES = ("sklearn", "xgboost", "lightgbm", "catboost", "interpret", "certiforest")
BASES: tuple[Any, ...] = (object, ABC, Generic)  # what classes of libraries are made of beside each other
# What a class or an instance may have of its own: no prediction looks at it, or every class has it.
HARMLESS = re.compile(
    r"(partial_)?fit(_predict|_transform)?|score|feature_importances_|(get|set)_params|(save|load)_model|set_\w+_request"
    r"|_run_search|_validate_(estimator|y_class_weight)|_make_estimator|_\w*oob\w*|get_feature_names_out"
    r"|get_metadata_routing|_parameter_constraints|_estimator_type|_get_param_names|_more_tags|_get_tags|_abc_impl"
    r"|_repr_\w+|_doc_link_\w+|__(init|new|doc|module|qualname|repr|str|format|dir|sizeof|dict|weakref|slots|slotnames"
    r"|annotations|annotate_func|annotations_cache|abstractmethods|orig_bases|parameters|type_params|reduce|reduce_ex"
    r"|getstate|setstate|init_subclass|class_getitem|subclasshook|sklearn_tags|sklearn_clone|static_attributes"
    r"|firstlineno|replace)__"
)
LEARNED = re.compile(r"_[a-zA-Z]\w*|\w*[a-zA-Z0-9]_")  # how libraries name what training leaves behind
PREDICTS = ("predict", "predict_proba", "transform", "inverse_transform")  # what looks at rows has one of them


def refuse_other_code(model: Any) -> None:
    """Refuse a model if it, or an object that it has learned, predicts by code that is not its library's."""
    waiting, seen, methods = [model], dict[int, Any](), dict[type, frozenset[str] | None]()
    while waiting:
        item = waiting.pop()
        if id(item) in seen:
            continue
        seen[id(item)], kind = item, type(item)
        if isinstance(item, dict):
            waiting += item.values()
        elif isinstance(item, (list, tuple)):
            waiting += item
        elif isinstance(item, np.ndarray) and item.dtype == object:
            waiting += item.ravel().tolist()
        if kind not in methods:
            methods[kind] = _check_class(kind, type(model))
        known, told = methods[kind], getattr(item, "__class__", kind)
        if told is not kind and isinstance(told, type) and _library_class(told) is not object:
            raise _refusal(_library_class(told), type(model), f"a {kind.__name__} that passes for one")
        if known is not None:
            state = getattr(item, "__dict__", {})
            if not known.isdisjoint(state):
                what = f"an instance with {min(known.intersection(state))} of its own"
                raise _refusal(_library_class(kind), type(model), what)
            waiting += state.values()


def is_of(library: str, model: Any) -> bool:
    """Tell whether an object is of a class of a library, which need not be imported for that."""
    return any(cls.__module__.partition(".")[0] == library for cls in type(model).__mro__)


def _library_class(kind: type) -> type:
    """Return the first class of a library that a class is made of, `object` if there is none."""
    return next((cls for cls in kind.__mro__ if _is_of_library(cls.__module__)), object)


def _is_of_library(module: str) -> bool:
    return module.partition(".")[0] in LIBRARIES


def _check_class(kind: type, model: type) -> frozenset[str] | None:
    """Return the methods that instances must not have of their own, None for a class that does not predict.

    Refused is a class in which anything but a library's class has a say in what a library's class defines.
    """
    own = _library_class(kind)
    if not any(hasattr(own, name) for name in PREDICTS):
        return None
    first: dict[str, type] = {}  # by name, the class that has the say
    for cls in kind.__mro__:
        is_known = cls in BASES or _is_of_library(cls.__module__)
        for name, value in vars(cls).items():
            holder = first.setdefault(name, cls)
            if HARMLESS.fullmatch(name):
                continue
            is_hidden = is_known and not (holder in BASES or _is_of_library(holder.__module__))
            # A property takes the place of what is learned, which no class defines.
            is_property = hasattr(value, "__set__") and LEARNED.fullmatch(name)
            if is_hidden or (not is_known and (is_property or name == "__getattr__")):
                raise _refusal(own, model, f"{holder.__name__}.{name}")
            if is_known and cls not in BASES and not all(map(_is_of_library, _modules_of(value))):
                raise _refusal(own, model, f"another {cls.__name__}.{name}")
    return frozenset(name for name in first if _is_method(kind, name))


def _modules_of(value: Any) -> Iterable[str]:
    """Yield where the code of an attribute of a class was written, which decorators do not change."""
    for inner in ("fget", "__func__", "func", "fn"):
        value = getattr(value, inner, None) or value
    kind = type(value)
    if inspect.isfunction(value):
        yield value.__globals__.get("__name__", "")
    elif hasattr(kind, "__get__") and kind.__module__ != "builtins" and not kind.__module__.startswith("_cython"):
        yield kind.__module__


def _is_method(kind: type, name: str) -> bool:
    value = getattr(kind, name, None)
    return hasattr(value, "__get__") and not isinstance(value, cached_property) and not HARMLESS.fullmatch(name)


def _refusal(own: type, model: type, what: str) -> ModelError:
    whole = _library_class(model).__name__
    inside = "" if whole == own.__name__ else f" inside a {whole}"
    return ModelError(
        f"Expected a {own.__name__}{inside} that predicts by its library's own code, got {what}, which may change what"
        f" is predicted on rows that no comparison meets; hand over a fitted {whole} of the library's own, or give what"
        " does not touch predictions a name of its own."
    )

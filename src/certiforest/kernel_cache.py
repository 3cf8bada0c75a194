"""Kernels compiled for every processor of an architecture, and kept on disk, never stale.

Code for the very processor at hand is no faster here (see docs/kernels.md), and would be worth nothing elsewhere: so
kernels are compiled for what all processors of an architecture have, whatever numba compiles other code for.

Machine code is kept under a name made from everything it depends on: the bytecode of the kernel and of all kernels it
calls, the constants they read, the types of the arguments, and what compiled it. Code made from anything else has
another name and is not found, whatever the times of files say. Each signature has files of its own, which appear
whole, so processes that compile at once cannot mix them up. What cannot be named surely is not kept.

An array that cannot be written to has a type of its own in numba. Here it shares the code of arrays that can, so
frozen and memory-mapped rows compile nothing anew. That a kernel writes only into what it is given to fill is
therefore its own duty.

Parts of numba that are not public are used so that without them kernels are compiled more often, never less often;
``tests/test_compiled.py`` fails where a version of numba lacks one.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import gc
import hashlib
import logging
import os
import platform
import time
import warnings
from collections.abc import Iterator
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from types import CodeType, ModuleType, SimpleNamespace
from typing import Any, ClassVar

import llvmlite
import numba
import numpy as np
from llvmlite.binding import Linkage
from numba import types
from numba.core import typed_passes
from numba.core.caching import IndexDataCacheFile
from numba.core.codegen import JITCodeLibrary, JITCPUCodegen
from numba.core.compiler import CompileResult
from numba.core.compiler_lock import global_compiler_lock
from numba.core.environment import Environment
from numba.core.registry import CPUDispatcher
from numba.core.runtime import rtsys

from certiforest import kernel_lowering
from certiforest.kernel_lowering import way_to_write

logger = logging.getLogger(__name__)
WRITTEN_DOWN_BY = hashlib.sha256(Path(kernel_lowering.__file__).read_bytes()).hexdigest()
BESIDE_THE_SOURCES = Path(__file__).parent / "kernels"
Signature = tuple[types.Type, ...]
PLAIN = types.Number | types.Boolean | types.NoneType | types.Array | types.NumPyRandomGeneratorType  # what str tells


class Kernel(CPUDispatcher):
    """A compiled function, the same for every processor, for which all arrays can be written to.

    Other kernels are given its code to be made part of theirs, and that code alone is worth nothing to Python. What
    Python calls is made when it calls, and kept.
    """

    # Of all kernels: time spent on compiling or loading, how often was compiled, names of the code that Python called.
    seconds, n_compiled = 0.0, 0
    called: ClassVar[set[str]] = set()
    kept: KernelCache
    entries: dict[Signature, CompileResult]  # numba does not hold what it is told to call

    def compile(self, signature: Signature) -> Any:
        """Return the code for a signature, made for every processor of this architecture, and for any number.

        Numba would compile a kernel that is called with a constant for this constant, and again for a variable.
        """
        with self._as_ours():
            return super().compile(tuple(map(types.unliteral, signature)))

    def add_overload(self, made: CompileResult) -> None:
        """Keep code for other kernels."""
        self.overloads[made.signature.args] = made

    @contextlib.contextmanager
    def _as_ours(self) -> Iterator[None]:
        """Let numba make machine code our way meanwhile, type each call once, and make nothing for calls from C.

        Python looks for garbage as objects become more, and compiling makes millions: a fifth of its time, for little.
        """
        with global_compiler_lock, _no_garbage_collection():
            self.targetctx.refresh()  # which makes what counts references, for all
            ours = {
                "_internal_codegen": _codegen(),
                "create_cfunc_wrapper": lambda *_: None,
                "data_model_manager": _way()[1],
            }
            with (
                _meanwhile(self.targetctx, ours),
                _meanwhile(typed_passes, {"lowering": SimpleNamespace(Lower=_way()[0])}),
                _meanwhile(types.Function, {"get_call_type": _type_once()}),
            ):
                yield

    def _compile_for_args(self, *args: Any, **keywords: Any) -> Any:
        """Return the code for arguments of types that this kernel has not been called with yet."""
        began = time.monotonic()
        given = tuple(numba.typeof(value) for value in args)
        try:
            with self._as_ours():
                # Another thread may have been here meanwhile. What is told to numba twice is in doubt, and every call
                # would come here.
                if given not in self.entries:
                    signature = tuple(map(_writable, given))
                    code = self.entries[signature] if signature in self.entries else self._code_for(signature)
                    for called_with in {given, signature} - {*self.entries}:
                        self.entries[called_with] = code
                        self._insert([argument._code for argument in called_with], code.entry_point)
        finally:
            Kernel.seconds += time.monotonic() - began
        return self.entries[given].entry_point

    def _code_for(self, signature: Signature) -> CompileResult:
        """Return what Python calls: code that was kept, or that is made now."""
        found = self.kept.load(signature, self.targetctx)
        if found is None:
            found = self._with_a_way_in(signature)
            self.kept.save(signature, found)
        return found

    def _with_a_way_in(self, signature: Signature) -> CompileResult:
        """Return the code for a signature with what Python needs to call it: optimised, and as machine code."""
        self.compile(signature)
        made = self.overloads[signature]
        target = made.target_context  # which knows whether arrays are made
        library = target.codegen().create_library(made.fndesc.qualname)
        library.enable_object_caching()
        library.is_called = True
        for part in (made.library, rtsys.library):
            library.add_linking_library(part)
        described = copy.copy(made.fndesc)
        described.env_name += ".called"  # Python's objects that this needs are not those of a part by the same name
        environment = Environment.from_fndesc(described)
        target.create_cpython_wrapper(library, described, environment, made.call_helper, release_gil=True)
        entry = target.get_executable(library, described, environment)
        return made._replace(library=library, fndesc=described, environment=environment, entry_point=entry)


class _Library(JITCodeLibrary):
    """Code that becomes part of others', and is optimised there, unless Python calls it.

    What Python calls keeps all it needs to itself. Numba numbers functions as they come in a process, so other code may
    have functions by the same names.
    """

    is_called, _compiled_object = False, None

    def _optimize_final_module(self) -> None:
        if self.is_called:
            for function in self._final_module.functions:
                if not function.is_declaration and function.linkage == Linkage.linkonce_odr:
                    function.linkage = Linkage.internal
            super()._optimize_final_module()

    def _finalize_final_module(self) -> None:
        if self.is_called or self._compiled_object:  # which was kept
            super()._finalize_final_module()
        else:
            self._finalize_dynamic_globals()
            self._finalized = True


class _Codegen(JITCPUCodegen):
    """Makes machine code that needs nothing of a processor but what all of its architecture have.

    Elsewhere than on 64-bit x86 and ARM, "generic" may lack what calls need.
    """

    _library_class = _Library
    is_generic = platform.machine().lower() in ("x86_64", "amd64", "aarch64", "arm64")

    def _get_host_cpu_name(self) -> str:
        return "generic" if self.is_generic else super()._get_host_cpu_name()

    def _get_host_cpu_features(self) -> str:
        return "" if self.is_generic else super()._get_host_cpu_features()

    def set_env(self, name: str, environment: Any) -> None:
        """Set what code reads of Python's, where there is machine code."""
        if self._engine.is_symbol_defined(name):
            super().set_env(name, environment)


@functools.cache
def _codegen() -> JITCPUCodegen:
    return _Codegen("certiforest")


@contextlib.contextmanager
def _no_garbage_collection() -> Iterator[None]:
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@contextlib.contextmanager
def _meanwhile(holder: Any, attributes: dict[str, Any]) -> Iterator[None]:
    """Give an object some attributes for a while."""
    own = {name: value for name, value in vars(holder).items() if name in attributes}
    for name, value in attributes.items():
        setattr(holder, name, value)
    try:
        yield
    finally:
        for name in attributes:
            delattr(holder, name)
        for name, value in own.items():
            setattr(holder, name, value)


@functools.cache
def _way() -> tuple[Any, Any]:
    return way_to_write()


@functools.cache
def _type_once() -> Any:
    """Return what types calls: numba's own way, which tries a dozen parts for each operator, once for each call."""
    known: dict[Any, Any] = {}
    find = types.Function.get_call_type

    def get_call_type(function: Any, context: Any, given: Any, by_name: Any) -> Any:
        if by_name:
            return find(function, context, given, by_name)
        key = function, tuple(given)
        if key not in known:
            known[key] = find(function, context, given, by_name)
        return known[key]

    return get_call_type


def _writable(argument: types.Type) -> types.Type:
    if isinstance(argument, types.BaseTuple):
        parts = [_writable(part) for part in argument.types]
        return types.BaseTuple.from_types(parts, getattr(argument, "instance_class", None))
    return argument.copy(readonly=False) if isinstance(argument, types.Array) else argument


class KernelCache:
    """The machine code of one kernel on disk, as Python calls it."""

    def __init__(self, function: Any, options: dict[str, Any]) -> None:
        self._function, self._options = function, options

    def load(self, signature: Signature, target: Any) -> CompileResult | None:
        """Return the code for a signature, None if it is to be compiled."""
        try:
            name = self._name(signature)
            Kernel.called.add(name)
            for folder in folders():
                found = IndexDataCacheFile(str(folder), name, None).load(name)
                if found is not None:
                    return CompileResult._rebuild(target, *found)
        except Exception as problem:  # whatever is wrong with a file, the sources are at hand
            logger.debug("cannot look for %s: %r", self._function.__qualname__, problem)
        logger.info("compiling %s", self._function.__qualname__)
        Kernel.n_compiled += 1
        return None

    def save(self, signature: Signature, made: CompileResult) -> None:
        """Keep the code for a signature in the first folder that can be written to."""
        try:
            name = self._name(signature)
            if made.lifted or made.library.has_dynamic_globals:
                raise _UnknownError("addresses of this process")
            content = made._reduce()
        except Exception as problem:
            logger.debug("cannot keep %s: %r", self._function.__qualname__, problem)
            return
        for folder in folders():
            with contextlib.suppress(OSError):
                folder.mkdir(parents=True, exist_ok=True)
                file = IndexDataCacheFile(str(folder), name, None)
                file.flush()  # also where the old one cannot be read
                file.save(name, content)
                if folder == BESIDE_THE_SOURCES:
                    _remove_older(name)
                return
        _warn_once()

    def _name(self, signature: Signature) -> str:
        """Return a file name made from the kernel, all its ingredients, the signature and the compiler."""
        python, svml = EXTENSION_SUFFIXES[0], numba.config.USING_SVML
        versions = python, numba.__version__, llvmlite.__version__, WRITTEN_DOWN_BY
        compiler = *versions, svml, _codegen().magic_tuple(), self._options
        made_from = _digest(*_ingredients(self._function, set()))
        called_with = _digest(compiler, *map(_describe_type, signature))
        return f"{self._function.__module__}.{self._function.__qualname__}-{made_from}-{called_with}"


class _UnknownError(Exception):
    """Code depends on something of which this file cannot tell whether it has changed."""


def _digest(*parts: Any) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:32]


def _ingredients(function: Any, seen: set[Any]) -> Iterator[Any]:
    """Yield what a kernel's machine code is made from: bytecode and constants, its own and of all kernels it calls."""
    seen.add(function)
    if function.__closure__:
        raise _UnknownError("a closure")
    yield function.__module__, function.__qualname__, _describe(function.__defaults__)
    codes = [function.__code__]
    for code in codes:
        codes += [part for part in code.co_consts if isinstance(part, CodeType)]  # functions within, in their turn
        yield code.co_code, code.co_exceptiontable, code.co_names, code.co_varnames, code.co_argcount
        yield [_describe(part) for part in code.co_consts if not isinstance(part, CodeType)]
        for name in code.co_names:
            value = function.__globals__.get(name)
            if isinstance(value, CPUDispatcher):
                yield name, value.py_func.__module__, value.py_func.__qualname__
                if value.py_func not in seen:
                    yield from _ingredients(value.py_func, seen)
            elif name in function.__globals__:  # else an attribute, or built in
                yield name, _describe(value)


def _describe(value: Any) -> Any:
    """Return all that a kernel can see of a constant."""
    if value is None or isinstance(value, bool | int | float | complex | str | bytes | np.generic):
        return type(value), repr(value)
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        return value.dtype.str, value.shape, value.tobytes()
    if type(value) is tuple:
        return [_describe(part) for part in value]
    if hasattr(value, "_fields"):
        return value.__module__, value.__qualname__, value._fields, _describe(tuple(value._field_defaults.items()))
    if isinstance(value, ModuleType) and value.__name__ in ("numpy", "math"):
        return value.__name__
    raise _UnknownError(repr(value))


def _describe_type(argument: types.Type) -> Any:
    """Return all that a kernel can see of an argument's type; of a named tuple, its fields in their order."""
    if isinstance(argument, types.BaseTuple):
        named = getattr(argument, "instance_class", tuple)
        return None if named is tuple else _describe(named), [_describe_type(part) for part in argument.types]
    if isinstance(argument, PLAIN):
        return str(argument)
    raise _UnknownError(repr(argument))


def folders() -> list[Path]:
    """Return where compiled kernels may be; the first that can be written to takes what is new."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"))
    told = [Path(numba.config.CACHE_DIR, "certiforest")] if numba.config.CACHE_DIR else []
    return [*told, BESIDE_THE_SOURCES, *([cache / "certiforest"] if cache.is_absolute() else [])]


def _remove_older(name: str) -> None:
    """Remove code of the same kernel beside the sources that was made from others."""
    same_sources = name.rpartition("-")[0]
    for path in BESIDE_THE_SOURCES.glob(f"{same_sources.rpartition('-')[0]}-*"):
        if not path.name.startswith(same_sources):
            with contextlib.suppress(OSError):  # another process may use it, or remove it, too
                path.unlink()


@functools.cache
def _warn_once() -> None:
    warnings.warn(
        f"Expected a folder for compiled kernels, but cannot write to {' or '.join(map(str, folders()))}: every process"
        " compiles for seconds. Set the environment variable NUMBA_CACHE_DIR to a folder that can be written to.",
        stacklevel=2,
    )

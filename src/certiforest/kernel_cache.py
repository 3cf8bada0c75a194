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
import functools
import hashlib
import logging
import os
import platform
import time
import warnings
from collections.abc import Iterator
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, ClassVar

import llvmlite
import numba
import numpy as np
from numba import types
from numba.core.caching import IndexDataCacheFile, NullCache
from numba.core.codegen import JITCPUCodegen
from numba.core.compiler import CompileResult
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import CPUDispatcher

logger = logging.getLogger(__name__)
BESIDE_THE_SOURCES = Path(__file__).parent / "kernels"
Signature = tuple[types.Type, ...]
PLAIN = types.Number | types.Boolean | types.NoneType | types.Array | types.NumPyRandomGeneratorType  # what str tells


class Kernel(CPUDispatcher):
    """A compiled function, the same for every processor, for which all arrays can be written to."""

    # Of all kernels: time spent on compiling or loading, how often was compiled, names of the code that Python called.
    seconds, n_compiled = 0.0, 0
    called: ClassVar[set[str]] = set()

    def compile(self, signature: Signature) -> Any:
        """Return the code for a signature, made for every processor of this architecture, and for any number.

        Numba would compile a kernel that is called with a constant for this constant, and again for a variable.
        """
        with global_compiler_lock:
            own = getattr(self.targetctx, "_internal_codegen", None)
            self.targetctx._internal_codegen = _codegen()
            try:
                return super().compile(tuple(map(types.unliteral, signature)))
            finally:
                self.targetctx._internal_codegen = own

    def _compile_for_args(self, *args: Any, **keywords: Any) -> Any:
        """Return the code for arguments of types that this kernel has not been called with yet."""
        began = time.monotonic()
        try:
            return self._code_for(*args, **keywords)
        finally:
            Kernel.seconds += time.monotonic() - began

    def _code_for(self, *args: Any, **keywords: Any) -> Any:
        given = [numba.typeof(value) for value in args]
        wanted = [_writable(argument) for argument in given]
        with contextlib.suppress(_UnknownError):
            Kernel.called.add(self._cache._name(tuple(wanted), _codegen()))
        if wanted == given:
            return super()._compile_for_args(*args, **keywords)
        code = self.compile(tuple(wanted))
        self._insert([argument._code for argument in given], code)  # the next such call is as quick as any
        return code


class _Baseline(JITCPUCodegen):
    """Makes machine code that needs nothing of a processor but what all of its architecture have."""

    def _get_host_cpu_name(self) -> str:
        return "generic"

    def _get_host_cpu_features(self) -> str:
        return ""


@functools.cache
def _codegen() -> JITCPUCodegen:
    """Return what makes machine code: elsewhere than on 64-bit x86 and ARM, "generic" may lack what calls need."""
    is_known = platform.machine().lower() in ("x86_64", "amd64", "aarch64", "arm64")
    return (_Baseline if is_known else JITCPUCodegen)("certiforest")


def _writable(argument: types.Type) -> types.Type:
    if isinstance(argument, types.BaseTuple):
        parts = [_writable(part) for part in argument.types]
        return types.BaseTuple.from_types(parts, getattr(argument, "instance_class", None))
    return argument.copy(readonly=False) if isinstance(argument, types.Array) else argument


class KernelCache(NullCache):
    """The machine code of one kernel; numba asks for it before it compiles, and hands over what it compiled."""

    def __init__(self, function: Any, options: dict[str, Any]) -> None:
        self._function, self._options = function, options

    def load_overload(self, signature: Signature, target: Any) -> CompileResult | None:
        """Return the code for a signature, None if it is to be compiled."""
        try:
            target.refresh()
            name = self._name(signature, target.codegen())
            for folder in folders():
                found = IndexDataCacheFile(str(folder), name, None).load(name)
                if found is not None:
                    return CompileResult._rebuild(target, *found)
        except Exception as problem:  # whatever is wrong with a file, the sources are at hand
            logger.debug("cannot look for %s: %r", self._function.__qualname__, problem)
        logger.info("compiling %s", self._function.__qualname__)
        Kernel.n_compiled += 1
        return None

    def save_overload(self, signature: Signature, made: CompileResult) -> None:
        """Keep the code for a signature in the first folder that can be written to."""
        try:
            name = self._name(signature, made.codegen)
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

    def _name(self, signature: Signature, codegen: Any) -> str:
        """Return a file name made from the kernel, all its ingredients, the signature and the compiler."""
        python, svml = EXTENSION_SUFFIXES[0], numba.config.USING_SVML
        compiler = python, numba.__version__, llvmlite.__version__, svml, codegen.magic_tuple(), self._options
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
    if isinstance(
        argument, types.Number | types.Boolean | types.NoneType | types.Array | types.NumPyRandomGeneratorType
    ):
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

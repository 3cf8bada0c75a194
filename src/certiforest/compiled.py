"""The one decorator of all kernels."""

from collections.abc import Callable
from typing import Any

import numba

try:
    from certiforest.kernel_cache import Kernel, KernelCache
except ImportError:  # a numba without what that file needs: kernels are compiled anew in every process
    Kernel = None  # type: ignore[assignment, misc]


def kernel(function: Callable) -> Any:
    """Compile a function when it is called with arguments of new types, unless its code is found on disk."""
    options = {"nogil": True, "no_cfunc_wrapper": True, "no_cpython_wrapper": Kernel is not None}  # and no fastmath
    compiled = numba.njit(**options)(function)
    if Kernel is not None and compiled is not function:  # it is where numba is told to compile nothing
        compiled.__class__ = Kernel
        compiled.entries = {}
        compiled.kept = KernelCache(function, compiled.targetoptions)
    return compiled


def in_python(compiled: Any) -> Callable:
    """Return what a kernel was made from: the same, slower, with nothing to compile but the kernels that it calls."""
    return getattr(compiled, "py_func", compiled)


def seconds_compiling() -> float:
    """Return how long this process has spent on compiling kernels, or on reading their code, when they were called."""
    return 0.0 if Kernel is None else Kernel.seconds


def compiled_so_far() -> tuple[int, set[str]]:
    """Return how often this process has compiled, and the names under which the code is kept that Python has called."""
    return (0, set()) if Kernel is None else (Kernel.n_compiled, Kernel.called)

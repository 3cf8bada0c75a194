"""The one decorator of all kernels."""

from numba import njit

kernel = njit(cache=True, nogil=True)

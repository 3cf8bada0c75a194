"""Sorting by Shell's gaps: twenty lines, where numpy's sort would take a second to compile."""

from certiforest.compiled import kernel


@kernel
def sort_by(key, number, first, last):
    """Sort the entries from ``first`` to ``last`` of two arrays, which may be one, by the first, then by the second."""
    gap = 1
    while 3 * gap < last - first:
        gap = 3 * gap + 1
    while gap > 0:
        for i in range(first + gap, last):
            a, n, k = key[i], number[i], i
            while k >= first + gap and (key[k - gap] > a or (key[k - gap] == a and number[k - gap] > n)):
                key[k], number[k] = key[k - gap], number[k - gap]
                k -= gap
            key[k], number[k] = a, n
        gap //= 3

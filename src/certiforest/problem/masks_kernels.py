"""Masks: which leaves of a tree allow a segment, with a bit for each of them; and sets of whole numbers, in order."""

import numpy as np

from certiforest.compiled import kernel

# Times a power of two, this has 64 different values in its highest six bits, which tell the power (de Bruijn).
SEQUENCE = np.uint64(0x03F79D71B4CB0A89)
POWER = np.zeros(64, np.int64)
POWER[[((0x03F79D71B4CB0A89 << i) & (2**64 - 1)) >> 58 for i in range(64)]] = np.arange(64)


@kernel
def set_bit(bits, i):
    """Put a number into a set, 64 to a word; tell whether it is new."""
    word, bit = i >> 6, np.uint64(1) << np.uint64(i & 63)
    is_new = bits[word] & bit == 0
    bits[word] |= bit
    return is_new


@kernel
def next_bit(bits, i):
    """Return the smallest number of a set from ``i`` on; there is one."""
    word = i >> 6
    left = bits[word] >> np.uint64(i & 63) << np.uint64(i & 63)
    while left == 0:
        word += 1
        left = bits[word]
    return (word << 6) + POWER[((left & (~left + np.uint64(1))) * SEQUENCE) >> np.uint64(58)]


@kernel
def masks_of(leaves):
    """Return a mask of each segment, with a bit for every leaf of its tree that allows it, and places of variables.

    The mask of segment ``g`` is ``mask[first_word[g]:first_word[g + 1]]``, 64 leaves to a word; ``place`` (n_testers,)
    is where in the scopes of its testers a variable is.

    Returns
    -------
    first_word, mask, place : ndarray
    """
    first_word, place = np.zeros(leaves.begin.shape[0] + 1, np.int64), np.empty(leaves.tester.shape[0], np.int64)
    filled = leaves.first_tester[:-1].copy()
    for t in range(leaves.name.shape[0]):
        n_words = (leaves.first[t + 1] - leaves.first[t] + 63) >> 6
        for s in range(leaves.first_scope[t], leaves.first_scope[t + 1]):
            place[filled[leaves.scope[s]]] = s
            filled[leaves.scope[s]] += 1
            for g in range(leaves.first_segment[s], leaves.first_segment[s + 1]):
                first_word[g + 1] = first_word[g] + n_words
    mask = np.zeros(first_word[-1], np.uint64)
    for t in range(leaves.name.shape[0]):
        for k in range(leaves.first[t], leaves.first[t + 1]):
            word, bit = (k - leaves.first[t]) >> 6, np.uint64(1) << np.uint64((k - leaves.first[t]) & 63)
            i, end = leaves.first_condition[k], leaves.first_condition[k + 1]
            for s in range(leaves.first_scope[t], leaves.first_scope[t + 1]):
                if i == end or leaves.place[i] != s:
                    for g in range(leaves.first_segment[s], leaves.first_segment[s + 1]):
                        mask[first_word[g] + word] |= bit
                while i < end and leaves.place[i] == s:
                    for g in range(leaves.low[i], leaves.high[i] + 1):
                        mask[first_word[g] + word] |= bit
                    i += 1
    return first_word, mask, place

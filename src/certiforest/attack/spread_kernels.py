"""How far apart thresholds are that stand sorted by feature and value."""

from certiforest.attack.rounding_kernels import difference, is_within
from certiforest.compiled import kernel


@kernel
def list_overlaps(feature, value, tree, budget_high, budget_low, out_first, out_second):
    """Write pairs ``(i, j)``, ``i < j``, of one feature and two trees with ``value[j] - value[i]`` within budget.

    Pairs beyond the length of the outputs are counted, not written; return how many there are.
    """
    n_pairs = 0
    for i in range(feature.shape[0]):
        f = feature[i]
        for j in range(i + 1, feature.shape[0]):
            if feature[j] != f or not is_within(value[j], value[i], budget_high[f], budget_low[f]):
                break
            if tree[i] != tree[j]:
                if n_pairs < out_first.shape[0]:
                    out_first[n_pairs] = i
                    out_second[n_pairs] = j
                n_pairs += 1
    return n_pairs


@kernel
def list_differences(a, b, out_rounded, out_error):
    """Write ``a - b`` entry by entry, as the rounded difference and its error."""
    for i in range(a.shape[0]):
        out_rounded[i], out_error[i] = difference(a[i], b[i])

"""Search splits: for one node and one feature, the open threshold whose worst case is best.

An attacker can push the rows near a threshold across it. Values of a node's rows on one feature, `o` near enough:

        x  x x   o o o | o o    x x  x
       sure left      v       sure right

The near rows may stay, all go left, all go right, or cross both ways; a split is worth the least of these four.
A search is a list of *entries*, pairs of a node and a feature, so that a whole level of all trees is one call,
and so is asking again for the few entries whose threshold another tree has claimed meanwhile.
"""

import numpy as np
from numba import njit

from certiforest.training.threshold_ledger_kernels import open_threshold

CLOSED = -1.0  # gain of an entry that has useful thresholds, none of them open
LEAST_GAIN = 1e-6  # of the weight of a node: less is not worth a threshold, or is a rounding error


@njit(cache=True, nogil=True)
def first_value_above(value, n_values, bound):
    """Return how many of the sorted values are not above a bound."""
    start, stop = 0, n_values
    while start < stop:
        middle = (start + stop) // 2
        if value[middle] <= bound:
            start = middle + 1
        else:
            stop = middle
    return start


@njit(cache=True, nogil=True)
def purity(part, whole, sign):
    """Return the sum of squared class weights over their sum, for ``part`` (sign 1.0) or ``whole - part`` (-1.0)."""
    total, squares = 0.0, 0.0
    for c in range(part.shape[0]):
        weight = part[c] if sign > 0.0 else whole[c] - part[c]
        total += weight
        squares += weight * weight
    return squares / total if total > 0.0 else 0.0


@njit(cache=True, nogil=True)
def worst_purity(before, left, after, whole, scratch):
    """Return the least purity of a split whose near rows may move.

    ``before``, ``left`` and ``after`` are class weights summed from the left end to the first near row, to the
    threshold and to the last near row; ``whole`` is the sum over all rows.
    """
    worst = purity(left, whole, 1.0) + purity(left, whole, -1.0)  # all stay
    worst = min(worst, purity(after, whole, 1.0) + purity(after, whole, -1.0))  # all go left
    worst = min(worst, purity(before, whole, 1.0) + purity(before, whole, -1.0))  # all go right
    for c in range(whole.shape[0]):  # cross both ways
        scratch[c] = before[c] + after[c] - left[c]
    return min(worst, purity(scratch, whole, 1.0) + purity(scratch, whole, -1.0))


@njit(cache=True, nogil=True)
def goes_left(before, whole, after, c, left_total, right_total):
    """Tell whether near rows of a class are moved left: to the side on which the class has the smaller share."""
    return before[c] * right_total <= (whole[c] - after[c]) * left_total


@njit(cache=True, nogil=True)
def worst_purity_by_class(before, after, whole):
    """Return the purity of a split when near rows of each class are moved to the side that suits the class less.

    Arguments as in `worst_purity`. For two classes with leaf values ``w_left < w_right`` this is the exact worst
    case: near rows of the upper class fall to the left, those of the lower class rise to the right. The order of
    the values follows from the rows that stay; if the moved rows turn it round, equal values are best and the split
    gains nothing. For more classes the same holds class by class:

        gain = left * right / total * sum over classes of (share on the left - share on the right)^2
    """
    n_classes = whole.shape[0]
    total, sure_left, sure_right = 0.0, 0.0, 0.0
    for c in range(n_classes):
        total += whole[c]
        sure_left += before[c]
        sure_right += whole[c] - after[c]
    if not (sure_left > 0.0 and sure_right > 0.0):
        return 0.0
    left = 0.0
    for c in range(n_classes):
        left += after[c] if goes_left(before, whole, after, c, sure_left, sure_right) else before[c]
    right = total - left
    if not right > 0.0:  # by rounding
        return 0.0
    squares, unsplit = 0.0, 0.0
    for c in range(n_classes):
        is_left = goes_left(before, whole, after, c, sure_left, sure_right)
        weight = after[c] if is_left else before[c]
        difference = (whole[c] - weight) / right - weight / left
        if (difference > 0.0) == is_left:
            squares += difference * difference
        unsplit += whole[c] * whole[c]
    return (unsplit + left * right * squares) / total


@njit(cache=True, nogil=True)
def mark_worse_sides(
    code, centre, reach, row, weight, node_start, class_index, node, feature, threshold, whole, out_goes_left
):  # fmt: skip
    """Write for each split and class whether near rows of the class are moved left; see `worst_purity_by_class`."""
    n_classes = whole.shape[1]
    before, after = np.empty(n_classes), np.empty(n_classes)
    for j in range(node.shape[0]):
        f, v = feature[j], threshold[j]
        before[:] = 0.0
        after[:] = 0.0
        for i in range(node_start[node[j]], node_start[node[j] + 1]):
            value, c = centre[f, code[f, row[i]]], class_index[row[i]]
            if value + reach[f] <= v:
                before[c] += weight[i]
            if value - reach[f] <= v:
                after[c] += weight[i]
        left, right = before.sum(), whole[node[j]].sum() - after.sum()
        for c in range(n_classes):
            out_goes_left[j, c] = goes_left(before, whole[node[j]], after, c, left, right)


@njit(cache=True, nogil=True)
def search_gini(
    code, centre, low, high, n_bins, common, reach, claims,
    row, weight, node_start, node_tree, node_class_weight, class_index,
    entry_node, entry_feature, first_entry, last_entry, min_samples_leaf, moves_by_class,
    out_gain, out_threshold,
):  # fmt: skip
    """Write the worst-case gain in weighted Gini impurity, and the threshold, of entries first_entry:last_entry.

    A gain of 0 means that no threshold helps, `CLOSED` that none of those that help is open.
    """
    max_bins, n_classes = low.shape[1], node_class_weight.shape[1]
    histogram = np.zeros((max_bins, n_classes))
    n_rows_in_bin = np.zeros(max_bins, np.int64)
    # The bins that hold rows of the node, from left to right, with class weights summed up to each.
    present = np.empty(max_bins, np.int64)
    value = np.empty(max_bins)
    summed = np.zeros((max_bins + 1, n_classes))
    rest, scratch = np.empty(n_classes), np.empty(n_classes)
    for entry in range(first_entry, last_entry):
        node, f = entry_node[entry], entry_feature[entry]
        start, stop = node_start[node], node_start[node + 1]
        whole = node_class_weight[node]
        total = whole.sum()
        unsplit = purity(whole, whole, 1.0)
        # Rows in the commonest bin (the black pixels) are not counted but are what remains of the whole.
        code_of_row, skipped = code[f], common[f]
        for i in range(start, stop):
            k = code_of_row[row[i]]
            if k != skipped:
                histogram[k, class_index[row[i]]] += weight[i]
                n_rows_in_bin[k] += 1
        n_present, n_counted = 0, 0
        rest[:] = whole
        for k in range(n_bins[f]):
            if n_rows_in_bin[k] > 0:
                present[n_present] = k
                n_present += 1
                n_counted += n_rows_in_bin[k]
                for c in range(n_classes):
                    rest[c] -= histogram[k, c]
        if n_counted < stop - start:
            n_rows_in_bin[skipped] = stop - start - n_counted
            place = n_present
            while place > 0 and present[place - 1] > skipped:
                present[place] = present[place - 1]
                place -= 1
            present[place] = skipped
            n_present += 1
            for c in range(n_classes):
                histogram[skipped, c] = max(0.0, rest[c])
        for j in range(n_present):
            k = present[j]
            value[j] = centre[f, k]
            for c in range(n_classes):
                summed[j + 1, c] = summed[j, c] + histogram[k, c]
                histogram[k, c] = 0.0
        best = unsplit + LEAST_GAIN * total
        best_threshold = np.nan
        was_closed = False
        n_left = 0
        for j in range(n_present - 1):
            n_left += n_rows_in_bin[present[j]]
            if n_left < min_samples_leaf:
                continue
            if stop - start - n_left < min_samples_leaf:
                break
            # The worst case is at most the case where all stay, which is cheap: most thresholds end here.
            left = summed[j + 1]
            left_total, left_squares, right_squares = 0.0, 0.0, 0.0
            for c in range(n_classes):
                right_weight = whole[c] - left[c]
                left_total += left[c]
                left_squares += left[c] * left[c]
                right_squares += right_weight * right_weight
            right_total = total - left_total
            if left_squares * right_total + right_squares * left_total <= best * left_total * right_total:
                continue
            threshold = open_threshold(claims, f, node_tree[node], high[f, present[j]], low[f, present[j + 1]])
            if np.isnan(threshold):
                was_closed = True
                continue
            first_near = min(first_value_above(value, n_present, threshold - reach[f]), j + 1)
            last_near = max(first_value_above(value, n_present, threshold + reach[f]), j + 1)
            if moves_by_class:
                score = worst_purity_by_class(summed[first_near], summed[last_near], whole)
            else:
                score = worst_purity(summed[first_near], left, summed[last_near], whole, scratch)
            if score > best:
                best, best_threshold = score, threshold
        for j in range(n_present):
            n_rows_in_bin[present[j]] = 0
        if np.isnan(best_threshold):
            out_gain[entry] = CLOSED if was_closed else 0.0
        else:
            out_gain[entry] = best - unsplit
        out_threshold[entry] = best_threshold

"""Search splits: for one node and one feature, the open threshold whose worst case is best.

An attacker can push the rows near a threshold across it. Values of a node's rows on one feature, `o` near enough:

        x  x x   o o o | o o    x x  x
       sure left      v       sure right

The near rows may stay, all go left, all go right, or cross both ways; a split is worth the least of these four.
Rows whose value is missing stay where the split sends them: both sides are tried, and a split that only parts them from
all numbers (its threshold is NaN) is tried, too, which no attacker can cross.

A search is a list of *entries*, pairs of a node and a feature, so that a whole level of all trees is one call,
and so is asking again for the few entries whose threshold another tree has claimed meanwhile.
"""

from typing import NamedTuple

import numpy as np

from certiforest.compiled import kernel
from certiforest.training.grower_kernels import LARGER, LEFT, RIGHT
from certiforest.training.threshold_ledger_kernels import middle_of, open_threshold

SLIVER = 1e-6  # of a gap: parts of it that are no wider come from rounding
CHANCE = 16.0  # how often the mean gain of a random split is taken off one by what is missing: 4 standard deviations
LEAST_GAIN = 1e-6  # of the weight of a node: less is not worth a threshold, or is a rounding error


@kernel
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


@kernel
def purity(part, whole, sign):
    """Return the sum of squared class weights over their sum, for ``part`` (sign 1.0) or ``whole - part`` (-1.0)."""
    total, squares = 0.0, 0.0
    for c in range(part.shape[0]):
        weight = part[c] if sign > 0.0 else whole[c] - part[c]
        total += weight
        squares += weight * weight
    return squares / total if total > 0.0 else 0.0


@kernel
def is_purer(left, whole, bound):
    """Tell whether a split is purer than a bound, without dividing."""
    left_total, right_total, left_squares, right_squares = 0.0, 0.0, 0.0, 0.0
    for c in range(left.shape[0]):
        right = whole[c] - left[c]
        left_total += left[c]
        right_total += right
        left_squares += left[c] * left[c]
        right_squares += right * right
    return left_squares * right_total + right_squares * left_total > bound * left_total * right_total


@kernel
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


@kernel
def goes_left(before, whole, after, c, left_total, right_total):
    """Tell whether near rows of a class are moved left: to the side on which the class has the smaller share."""
    return before[c] * right_total <= (whole[c] - after[c]) * left_total


@kernel
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


class GiniRule(NamedTuple):
    """What is the same for all nodes of a training: see `certiforest.training.gini_score.GiniScore`."""

    class_index: np.ndarray  # (n_rows,) uint8 or wider
    min_samples_leaf: int
    moves_by_class: bool
    is_held: np.ndarray  # (n_classes,) bool


class Held(NamedTuple):
    """The classes whose rows nobody moves, and room for sums in which they stay."""

    is_any: bool
    is_held: np.ndarray  # (n_classes,) bool
    before: np.ndarray  # (n_classes,) float64
    after: np.ndarray  # (n_classes,) float64


@kernel
def held_back(moved, left, is_held, out):
    """Return class weights on the left of a threshold: as moved, but those of classes that are held as they are."""
    for c in range(left.shape[0]):
        out[c] = left[c] if is_held[c] else moved[c]
    return out


@kernel
def search_gap(claims, feature, tree, low, high, value, summed, whole, reach, j, held, best, best_threshold):
    """Search the gap ``[low, high)`` after the j-th present value; return the best purity and its threshold so far.

    Which rows are near depends on where in the gap the threshold lies. Values 1 to 10, reach 2.7, a gap from 4 to 5:

        threshold    4 ----- 4.3 ------- 4.7 ----- 5
        near rows    2 to 6   |   2 to 7  |   3 to 7

    They change only where the threshold is a reach (down, up) away from a value. These points cut the gap into parts;
    each is tried once, at its open threshold nearest to the middle.
    """
    down, up = reach
    n_values = value.shape[0]
    sliver = SLIVER * (high - low)
    start = low
    n_before = first_value_above(value, n_values, start - up)
    n_after = first_value_above(value, n_values, start + down)
    while start < high:
        stop = high
        if n_before <= j:
            stop = min(stop, value[n_before] + up)
        if n_after < n_values:
            stop = min(stop, value[n_after] - down)
        if stop - start > sliver:
            before, after = summed[min(n_before, j + 1)], summed[max(n_after, j + 1)]
            if held.is_any:
                before = held_back(before, summed[j + 1], held.is_held, held.before)
                after = held_back(after, summed[j + 1], held.is_held, held.after)
            if is_purer(before, whole, best) and is_purer(after, whole, best):
                purity = worst_purity_by_class(before, after, whole)
                if purity > best:
                    threshold = open_threshold(claims, feature, tree, start, stop)
                    if not np.isnan(threshold):
                        best, best_threshold = purity, threshold
        start = max(start, stop)
        while n_before <= j and value[n_before] + up <= start:
            n_before += 1
        while n_after < n_values and value[n_after] - down <= start:
            n_after += 1
    return best, best_threshold


@kernel
def mark_worse_sides(bins, reach, frontier, whole, rule, chosen, out_goes_left):
    """Write for each split and class whether near rows of the class are moved left; see `worst_purity_by_class`."""
    code, centre, row, weight, node_start = bins.code, bins.centre, frontier.row, frontier.weight, frontier.start
    class_index, is_held = rule.class_index, rule.is_held
    node, feature, threshold, missing_side = chosen
    n_classes = whole.shape[1]
    before, after = np.empty(n_classes), np.empty(n_classes)
    for j in range(node.shape[0]):
        f, v = feature[j], threshold[j]
        before[:] = 0.0
        after[:] = 0.0
        for i in range(node_start[node[j]], node_start[node[j] + 1]):
            value, c = centre[f, code[f, row[i]]], class_index[row[i]]
            down, up = (0.0, 0.0) if is_held[c] else (reach[0, f], reach[1, f])
            is_missing_left = value != value and missing_side[j] == LEFT
            if value + up <= v or is_missing_left:
                before[c] += weight[i]
            if value - down <= v or is_missing_left:
                after[c] += weight[i]
        left, right = before.sum(), whole[node[j]].sum() - after.sum()
        for c in range(n_classes):
            out_goes_left[j, c] = goes_left(before, whole[node[j]], after, c, left, right)


@kernel
def fill_histograms(code, row, weight, class_index, start, stop, feature, histogram):
    """Add the rows of a node to the histograms of up to four features, by class, with the number of rows last.

    Most rows of many features fall into one bin, and adding to one number again and again waits for each sum before
    the next. Four features side by side wait at the same time.
    """
    n_features, n_classes = feature.shape[0], histogram.shape[2] - 1
    if n_features == 4:
        code_0, code_1, code_2, code_3 = code[feature[0]], code[feature[1]], code[feature[2]], code[feature[3]]
        histogram_0, histogram_1, histogram_2, histogram_3 = histogram
        for i in range(start, stop):
            r, w = row[i], weight[i]
            c = class_index[r]
            k_0, k_1, k_2, k_3 = code_0[r], code_1[r], code_2[r], code_3[r]
            histogram_0[k_0, c] += w
            histogram_1[k_1, c] += w
            histogram_2[k_2, c] += w
            histogram_3[k_3, c] += w
            histogram_0[k_0, n_classes] += 1.0
            histogram_1[k_1, n_classes] += 1.0
            histogram_2[k_2, n_classes] += 1.0
            histogram_3[k_3, n_classes] += 1.0
    else:
        for j in range(n_features):
            code_of_row, one = code[feature[j]], histogram[j]
            for i in range(start, stop):
                k = code_of_row[row[i]]
                one[k, class_index[row[i]]] += weight[i]
                one[k, n_classes] += 1.0


@kernel
def search_gini(bins, reach, claims, frontier, node_class_weight, rule, entries, out):
    """Write worst-case gain in weighted Gini impurity, threshold and side of missing values of some entries.

    A gain of 0 means that no open threshold helps. The side is `LARGER` if no row of the node misses the feature. Rows
    of classes that are held are not moved.
    """
    low, high, centre, n_bins = bins.low, bins.high, bins.centre, bins.n_bins
    row, weight, node_start, node_tree = frontier.row, frontier.weight, frontier.start, frontier.tree
    class_index, min_samples_leaf, moves_by_class, is_held = rule
    entry_node, entry_feature = entries
    max_bins, n_classes = low.shape[1], node_class_weight.shape[1]
    histogram = np.zeros((4, max_bins, n_classes + 1))
    # The bins that hold rows of the node, from left to right, with class weights summed up to each.
    present, n_left = np.empty(max_bins, np.int64), np.empty(max_bins, np.int64)
    value, summed = np.empty(max_bins), np.zeros((max_bins + 1, n_classes))
    scratch, lost = np.empty(n_classes), np.empty(n_classes)
    held = Held(is_held.any(), is_held, np.empty(n_classes), np.empty(n_classes))
    entry, last_entry = 0, entry_node.shape[0]
    while entry < last_entry:
        node = entry_node[entry]
        n_entries = 1
        while n_entries < 4 and entry + n_entries < last_entry and entry_node[entry + n_entries] == node:
            n_entries += 1
        start, stop = node_start[node], node_start[node + 1]
        features = entry_feature[entry : entry + n_entries]
        fill_histograms(bins.code, row, weight, class_index, start, stop, features, histogram)
        whole = node_class_weight[node]
        total = whole.sum()
        unsplit = purity(whole, whole, 1.0)
        for e in range(n_entries):
            f, filled = entry_feature[entry + e], histogram[e]
            n_present, n_so_far = 0, 0
            for k in range(n_bins[f]):
                if filled[k, n_classes] > 0.0:
                    n_so_far += int(filled[k, n_classes])
                    filled[k, n_classes] = 0.0
                    present[n_present] = k
                    value[n_present] = centre[f, k]
                    n_left[n_present] = n_so_far
                    for c in range(n_classes):
                        summed[n_present + 1, c] = summed[n_present, c] + filled[k, c]
                        filled[k, c] = 0.0
                    n_present += 1
            best = unsplit + LEAST_GAIN * total
            best_threshold, best_side = np.nan, LARGER
            n_lost = stop - start - n_so_far
            if n_lost > 0:
                for c in range(n_classes):
                    lost[c] = filled[n_bins[f], c]
                filled[n_bins[f]] = 0.0
                if min(n_lost, n_so_far) >= min_samples_leaf:
                    # Nobody crosses it, so that beside thresholds in reach of many rows even chance would look good.
                    chance = (total - unsplit) / (stop - start)
                    score = purity(lost, whole, 1.0) + purity(lost, whole, -1.0) - CHANCE * chance
                    if score > best:
                        best, best_side = score, LEFT
            for side in (RIGHT, LEFT):  # of missing values
                if side == LEFT:
                    if n_lost == 0:
                        break
                    n_left[:n_present] += n_lost
                    summed[: n_present + 1] += lost
                best_before = best
                first_near, last_near = 0, 0
                for j in range(n_present - 1):
                    if min(n_left[j], stop - start - n_left[j]) < min_samples_leaf:
                        continue
                    # The worst case is no better than any one case. Cheap ones first: most thresholds end here.
                    left = summed[j + 1]
                    if not is_purer(left, whole, best):
                        continue
                    gap_low, gap_high = high[f, present[j]], low[f, present[j + 1]]
                    down, up = reach[0, f], reach[1, f]
                    if moves_by_class:
                        best, best_threshold = search_gap(
                            claims, f, node_tree[node], gap_low, gap_high, value[:n_present], summed, whole, (down, up),
                            j, held, best, best_threshold,
                        )  # fmt: skip
                        continue
                    threshold = middle_of(gap_low, gap_high)
                    while value[first_near] <= threshold - up:
                        first_near += 1
                    while last_near < n_present and value[last_near] <= threshold + down:
                        last_near += 1
                    before, after = summed[min(first_near, j + 1)], summed[max(last_near, j + 1)]
                    if held.is_any:
                        before = held_back(before, left, is_held, held.before)
                        after = held_back(after, left, is_held, held.after)
                    if not is_purer(before, whole, best):
                        continue
                    if not is_purer(after, whole, best):
                        continue
                    threshold = open_threshold(claims, f, node_tree[node], gap_low, gap_high)
                    if np.isnan(threshold):
                        continue
                    before = summed[min(first_value_above(value, n_present, threshold - up), j + 1)]
                    after = summed[max(first_value_above(value, n_present, threshold + down), j + 1)]
                    if held.is_any:
                        before = held_back(before, left, is_held, held.before)
                        after = held_back(after, left, is_held, held.after)
                    score = worst_purity(before, left, after, whole, scratch)
                    if score > best:
                        best, best_threshold = score, threshold
                if best > best_before and n_lost > 0:
                    best_side = side
            summed[0] = 0.0
            out.threshold[entry + e] = best_threshold
            out.missing_side[entry + e] = best_side
            out.gain[entry + e] = 0.0 if np.isnan(best_threshold) and best_side == LARGER else best - unsplit
        entry += n_entries

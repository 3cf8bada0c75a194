"""Search splits: for one node and one feature, the open threshold whose worst case is best.

An attacker can push the rows near a threshold across it. Values of a node's rows on one feature, `o` near enough:

        x  x x   o o o | o o    x x  x
       sure left      v       sure right

The near rows may stay, all go left, all go right, or cross both ways; a split is worth the least of these four.
Rows whose value is missing stay where the split sends them: both sides are tried, and a split that only parts them from
all numbers (its threshold is NaN) is tried, too, which no attacker can cross.

A search is a list of *entries*, pairs of a node and a feature, so that a whole level of all trees is one call,
and so is asking again for the few entries whose threshold another tree has claimed meanwhile.

Sums of class weights are lines of one array, and functions are told which line: a slice of it for every threshold would
take longer, because it is counted as a reference, than what is done with it.
"""

from typing import NamedTuple

import numpy as np

from certiforest.compiled import kernel
from certiforest.training.binning_kernels import fill_by_column, fill_by_row
from certiforest.training.grower_kernels import LARGER, LEFT, RIGHT
from certiforest.training.threshold_ledger_kernels import middle_of, open_threshold

SLIVER = 1e-6  # of a gap: parts of it that are no wider come from rounding
LOST, BEFORE, AFTER, CROSSED = 1, 2, 3, 4  # lines of sums for other uses than those of bins, counted from the end
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
def node_purity(whole):
    """Return the sum of squared class weights over their sum."""
    total, squares = 0.0, 0.0
    for c in range(whole.shape[0]):
        total += whole[c]
        squares += whole[c] * whole[c]
    return squares / total if total > 0.0 else 0.0


@kernel
def side_sums(summed, k, whole):
    """Return weights of the left side, line k of the sums, and of the right, the rest of the whole; then squares."""
    left_total, right_total, left_squares, right_squares = 0.0, 0.0, 0.0, 0.0
    for c in range(whole.shape[0]):
        left = summed[k, c]
        right = whole[c] - left
        left_total += left
        right_total += right
        left_squares += left * left
        right_squares += right * right
    return left_total, right_total, left_squares, right_squares


@kernel
def split_purity(summed, k, whole):
    """Return the purity of the left side, see `side_sums`, plus that of the right."""
    left_total, right_total, left_squares, right_squares = side_sums(summed, k, whole)
    purity = left_squares / left_total if left_total > 0.0 else 0.0
    return purity + (right_squares / right_total if right_total > 0.0 else 0.0)


@kernel
def is_purer(summed, k, whole, bound):
    """Tell whether `split_purity` is above a bound, without dividing."""
    left_total, right_total, left_squares, right_squares = side_sums(summed, k, whole)
    return left_squares * right_total + right_squares * left_total > bound * left_total * right_total


@kernel
def worst_purity(summed, before, left, after, whole):
    """Return the least purity of a split whose near rows may move.

    ``before``, ``left`` and ``after`` are lines of ``summed``: class weights from the left end to the first near row,
    to the threshold and to the last near row; ``whole`` is the sum over all rows.
    """
    worst = split_purity(summed, left, whole)  # all stay
    worst = min(worst, split_purity(summed, after, whole))  # all go left
    worst = min(worst, split_purity(summed, before, whole))  # all go right
    crossed = summed.shape[0] - CROSSED
    for c in range(whole.shape[0]):
        summed[crossed, c] = summed[before, c] + summed[after, c] - summed[left, c]
    return min(worst, split_purity(summed, crossed, whole))  # cross both ways


@kernel
def goes_left(sure_left, sure_right, left_total, right_total):
    """Tell whether near rows of a class are moved left: to the side on which the class has the smaller share."""
    return sure_left * right_total <= sure_right * left_total


@kernel
def worst_purity_by_class(summed, before, after, whole):
    """Return the purity of a split when near rows of each class are moved to the side that suits the class less.

    Arguments as in `worst_purity`. For two classes with leaf values ``w_left < w_right`` this is the exact worst
    case: near rows of the upper class fall to the left, those of the lower class rise to the right. The order of
    the values follows from the rows that stay (if these have equal shares on both sides it does not, and the purity is
    too high); if the moved rows turn it round, equal values are best and the split
    gains nothing. For more classes the same holds class by class:

        gain = left * right / total * sum over classes of (share on the left - share on the right)^2
    """
    n_classes = whole.shape[0]
    total, sure_left, sure_right = 0.0, 0.0, 0.0
    for c in range(n_classes):
        total += whole[c]
        sure_left += summed[before, c]
        sure_right += whole[c] - summed[after, c]
    if not (sure_left > 0.0 and sure_right > 0.0):
        return 0.0
    left = 0.0
    for c in range(n_classes):
        is_left = goes_left(summed[before, c], whole[c] - summed[after, c], sure_left, sure_right)
        left += summed[after if is_left else before, c]
    right = total - left
    if not right > 0.0:  # by rounding
        return 0.0
    squares, unsplit = 0.0, 0.0
    for c in range(n_classes):
        is_left = goes_left(summed[before, c], whole[c] - summed[after, c], sure_left, sure_right)
        weight = summed[after if is_left else before, c]
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
    holds_any: bool


@kernel
def held_back(summed, moved, left, rule, room):
    """Return a line with class weights on the left of a threshold: as moved, but those of held classes as they are."""
    if not rule.holds_any:
        return moved
    line = summed.shape[0] - room
    for c in range(summed.shape[1]):
        summed[line, c] = summed[left if rule.is_held[c] else moved, c]
    return line


@kernel
def search_gap(claims, feature, tree, gap, value, n_values, summed, whole, reach, j, rule, best, best_threshold):
    """Search the gap ``[low, high)`` after the j-th present value; return the best purity and its threshold so far.

    Which rows are near depends on where in the gap the threshold lies. Values 1 to 10, reach 2.7, a gap from 4 to 5:

        threshold    4 ----- 4.3 ------- 4.7 ----- 5
        near rows    2 to 6   |   2 to 7  |   3 to 7

    They change only where the threshold is a reach (down, up) away from a value. These points cut the gap into parts;
    each is tried once, at its open threshold nearest to the middle.
    """
    (start, high), (down, up) = gap, reach
    sliver = SLIVER * (high - start)
    n_before = first_value_above(value, n_values, start - up)
    n_after = first_value_above(value, n_values, start + down)
    while start < high:
        stop = high
        if n_before <= j:
            stop = min(stop, value[n_before] + up)
        if n_after < n_values:
            stop = min(stop, value[n_after] - down)
        if stop - start > sliver:
            before = held_back(summed, min(n_before, j + 1), j + 1, rule, BEFORE)
            after = held_back(summed, max(n_after, j + 1), j + 1, rule, AFTER)
            if is_purer(summed, before, whole, best) and is_purer(summed, after, whole, best):
                purity = worst_purity_by_class(summed, before, after, whole)
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
            out_goes_left[j, c] = goes_left(before[c], whole[node[j], c] - after[c], left, right)


@kernel
def near_lines(value, n_values, threshold, reach, summed, j, rule):
    """Return the lines of ``summed`` up to the first and to the last row near a threshold after the j-th value."""
    before = min(first_value_above(value, n_values, threshold - reach[1]), j + 1)
    after = max(first_value_above(value, n_values, threshold + reach[0]), j + 1)
    return held_back(summed, before, j + 1, rule, BEFORE), held_back(summed, after, j + 1, rule, AFTER)


@kernel
def search_middle(claims, feature, tree, gap, value, n_values, summed, whole, reach, j, rule, best, best_threshold):
    """Search as `search_gap`, for near rows that move together, at the open threshold nearest to the middle only."""
    low, high = gap
    before, after = near_lines(value, n_values, middle_of(low, high), reach, summed, j, rule)
    if is_purer(summed, before, whole, best) and is_purer(summed, after, whole, best):
        threshold = open_threshold(claims, feature, tree, low, high)
        if not np.isnan(threshold):
            before, after = near_lines(value, n_values, threshold, reach, summed, j, rule)
            purity = worst_purity(summed, before, j + 1, after, whole)
            if purity > best:
                return purity, threshold
    return best, best_threshold


class Rows(NamedTuple):
    """The training rows as codes, and how far an attacker moves their values."""

    bins: tuple  # see certiforest.training.binning.Bins
    uncommon: tuple  # see certiforest.training.binning.UncommonCodes
    reach: np.ndarray  # (2, n_features) float64, down and up


@kernel
def search_gini(rows, claims, frontier, node_class_weight, rule, only_best, entries, out):
    """Write worst-case gain in weighted Gini impurity, threshold and side of missing values of some entries.

    A gain of 0 means that no open threshold helps or, with ``only_best``, that a feature before it helps as much. The
    side is `LARGER` if no row of the node misses the feature. Rows of classes that are held are not moved.
    """
    bins, uncommon, reach = rows
    bin_low, bin_high, centre, n_bins = bins.low, bins.high, bins.centre, bins.n_bins
    row, weight, node_start, node_tree = frontier.row, frontier.weight, frontier.start, frontier.tree
    class_index, min_samples_leaf, moves_by_class = rule.class_index, rule.min_samples_leaf, rule.moves_by_class
    entry_node, entry_feature = entries
    max_bins, n_classes = bin_low.shape[1], node_class_weight.shape[1]
    # Histograms of all features, filled row by row, or of four at a time, column by column.
    n_uncommon, n_cells = uncommon.cell.shape[0] / (uncommon.start.shape[0] - 1), uncommon.first[-1]  # of a row, of all
    can_by_row = n_uncommon > 0 and entry_node.shape[0] > n_uncommon
    of_all = np.zeros((n_cells if can_by_row else 0, n_classes + 1))
    of_four = np.zeros((4, max_bins + 1, n_classes + 1))
    lines_of_four = of_four.reshape(4 * (max_bins + 1), n_classes + 1)
    # The bins that hold rows of the node, from left to right, with class weights summed up to each.
    present, n_left = np.empty(max_bins, np.int64), np.empty(max_bins, np.int64)
    value, summed = np.empty(max_bins), np.zeros((max_bins + 1 + CROSSED, n_classes))
    lost = max_bins + 1 + CROSSED - LOST
    entry, last_entry = 0, entry_node.shape[0]
    while entry < last_entry:
        node = entry_node[entry]
        n_entries = 1
        while entry + n_entries < last_entry and entry_node[entry + n_entries] == node:
            n_entries += 1
        start, stop = node_start[node], node_start[node + 1]
        whole = node_class_weight[node]
        # Fewer codes to read, but cells of all features to go through.
        by_row = can_by_row and (stop - start) * (n_entries - n_uncommon) > n_cells
        if by_row:
            fill_by_row(uncommon, frontier, node, class_index, whole, of_all)
        histogram = of_all if by_row else lines_of_four
        total, unsplit = whole.sum(), node_purity(whole)
        best = unsplit + LEAST_GAIN * total
        for e in range(n_entries):
            f = entry_feature[entry + e]
            if not by_row and e % 4 == 0:
                features = entry_feature[entry + e : entry + min(e + 4, n_entries)]
                fill_by_column(bins.code, row, weight, class_index, start, stop, features, of_four)
            line = uncommon.first[f] if by_row else e % 4 * (max_bins + 1)
            n_present, n_known = 0, 0
            for k in range(n_bins[f]):
                if histogram[line + k, n_classes] > 0.0:
                    n_known += int(histogram[line + k, n_classes])
                    present[n_present], value[n_present], n_left[n_present] = k, centre[f, k], n_known
                    histogram[line + k, n_classes] = 0.0
                    for c in range(n_classes):
                        summed[n_present + 1, c] = summed[n_present, c] + histogram[line + k, c]
                        histogram[line + k, c] = 0.0
                    n_present += 1
            if not only_best:
                best = unsplit + LEAST_GAIN * total
            best_threshold, best_side = np.nan, LARGER
            reach_of_f = reach[0, f], reach[1, f]
            n_lost = stop - start - n_known
            if n_lost > 0:
                line += n_bins[f]
                for c in range(n_classes):
                    summed[lost, c] = histogram[line, c]
                    histogram[line, c] = 0.0
                histogram[line, n_classes] = 0.0
                if min(n_lost, n_known) >= min_samples_leaf:
                    # Nobody crosses it, so that beside thresholds in reach of many rows even chance would look good.
                    chance = (total - unsplit) / (stop - start)
                    score = split_purity(summed, lost, whole) - CHANCE * chance
                    if score > best:
                        best, best_side = score, LEFT
            for side in (RIGHT, LEFT):  # of missing values
                if side == LEFT:
                    if n_lost == 0:
                        break
                    for k in range(n_present + 1):
                        for c in range(n_classes):
                            summed[k, c] += summed[lost, c]
                # A split gains nothing if all rows on one side of it are near. Missing or held ones never are.
                needs_left = not rule.holds_any and side == RIGHT
                needs_right = not rule.holds_any and (n_lost == 0 or side == LEFT)
                first = value[0] + reach_of_f[1] if needs_left else -np.inf
                last = value[n_present - 1] - reach_of_f[0] if needs_right else np.inf
                best_before = best
                for j in range(n_present - 1):
                    gap = bin_high[f, present[j]], bin_low[f, present[j + 1]]
                    if gap[0] >= last:
                        break
                    n_here = n_left[j] + (n_lost if side == LEFT else 0)
                    if gap[1] <= first or min(n_here, stop - start - n_here) < min_samples_leaf:
                        continue
                    # The worst case is no better than any one case. Cheap ones first: most thresholds end here.
                    if not is_purer(summed, j + 1, whole, best):
                        continue
                    if moves_by_class:
                        best, best_threshold = search_gap(
                            claims, f, node_tree[node], gap, value, n_present, summed, whole, reach_of_f, j, rule,
                            best, best_threshold,
                        )  # fmt: skip
                    else:
                        best, best_threshold = search_middle(
                            claims, f, node_tree[node], gap, value, n_present, summed, whole, reach_of_f, j, rule,
                            best, best_threshold,
                        )  # fmt: skip
                if best > best_before and n_lost > 0:
                    best_side = side
            for c in range(n_classes):
                summed[0, c] = 0.0
            out.threshold[entry + e] = best_threshold
            out.missing_side[entry + e] = best_side
            out.gain[entry + e] = 0.0 if np.isnan(best_threshold) and best_side == LARGER else best - unsplit
        entry += n_entries

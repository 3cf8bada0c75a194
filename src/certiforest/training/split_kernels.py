"""Search splits: for one node and one feature, the open threshold whose worst case is best.

An attacker can push the rows near a threshold across it. Values of a node's rows on one feature, `o` near enough:

        x  x x   o o o | o o    x x  x
       sure left      v       sure right

Near rows move together or class by class, see `GiniRule`. Rows whose value is missing stay where the split sends them:
both sides are tried, and a split that only parts them from all numbers (its threshold is NaN) is tried, too, which no
attacker can cross. A search is a list of pairs of a node and a feature, so that a whole level of all trees is one call,
and so is asking again for the few whose threshold another tree has claimed meanwhile.

Sums of class weights are lines of one array, and functions are told which line: a slice of it for every threshold would
take longer, because it is counted as a reference, than what is done with it. Columns are opened once for all gaps.
"""

from typing import Any, NamedTuple

import numpy as np

from certiforest.compiled import kernel
from certiforest.training.binning_kernels import fill_by_column, fill_by_row
from certiforest.training.grower_kernels import LARGER, LEFT, RIGHT, goes_left
from certiforest.training.ledger_kernels import middle_of, open_threshold

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
def worst_purity_by_class(summed, before, after, whole):
    """Return the purity of a split when near rows of each class are moved to the side that suits the class less.

    Arguments as in `worst_purity`. For two classes with leaf values ``w_left < w_right`` this is the exact worst
    case: near rows of the upper class fall to the left, those of the lower class rise to the right. The order of the
    values follows from the rows that stay (if these have equal shares on both sides it does not, and the purity is too
    high); if the moved rows turn it round, equal values are best and the split gains nothing. For more classes the same
    holds class by class:

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
    """What a split is worth, and when a node is split, in one training."""

    class_index: np.ndarray  # (n_rows,) uint8 or wider
    is_held: np.ndarray  # (n_classes,) bool: the classes whose rows nobody moves
    holds_any: bool
    min_samples_leaf: int  # rows that each side of a split must have
    least_rows: int  # that a node must have to be split
    moves_by_class: bool  # near rows go to the side that suits their class less; else the worst of none, all left, ...
    keeps_both: bool  # whether near rows then belong to both children, or to the side to which the score moved them


class Rows(NamedTuple):
    """The training rows as codes, and how far an attacker moves their values."""

    bins: Any  # see certiforest.training.binning.Bins
    uncommon: Any  # the same by row, see certiforest.training.binning.UncommonCodes
    reach: np.ndarray  # (2, n_features) float64, down and up


class Column(NamedTuple):
    """The rows of one node on one feature: its bins that hold any, from left to right."""

    feature: int
    tree: int
    reach: tuple  # down and up
    whole: np.ndarray  # (n_classes,) class weights of the node
    low: np.ndarray  # (max_bins,) smallest and largest training value of each bin, and the one that stands for all
    high: np.ndarray
    value: np.ndarray
    n_left: np.ndarray  # (max_bins,) rows up to each
    summed: np.ndarray  # class weights up to each, nothing in line 0; at last lines for other uses


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
def search_parts(claims, column, n_values, rule, gaps, best):
    """Search gaps between neighbouring values for near rows that move class by class.

    Return the best purity above ``best``, and its threshold or NaN. Which rows are near depends on where in a gap the
    threshold lies. Values 1 to 10, reach 2.7, a gap from 4 to 5:

        threshold    4 ----- 4.3 ------- 4.7 ----- 5
        near rows    2 to 6   |   2 to 7  |   3 to 7

    They change only where the threshold is a reach (down, up) away from a value. These points cut a gap into parts;
    each is tried once, at its open threshold nearest to the middle.
    """
    value, summed, whole, low, high = column.value, column.summed, column.whole, column.low, column.high
    feature, tree, (down, up) = column.feature, column.tree, column.reach
    best_threshold = np.nan
    for j in range(gaps[0], gaps[1]):
        # The worst case is no better than any one case. Cheap ones first: most thresholds end here.
        if not is_purer(summed, j + 1, whole, best):
            continue
        start, end = high[j], low[j + 1]
        sliver = SLIVER * (end - start)
        n_before = first_value_above(value, n_values, start - up)
        n_after = first_value_above(value, n_values, start + down)
        while start < end:
            stop = end
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
def search_middles(claims, column, n_values, rule, gaps, best):
    """Search as `search_parts`, for near rows that move together, at the open threshold nearest to each middle only."""
    value, summed, whole, low, high = column.value, column.summed, column.whole, column.low, column.high
    feature, tree, (down, up) = column.feature, column.tree, column.reach
    best_threshold = np.nan
    n_before, n_after = 0, 0
    for j in range(gaps[0], gaps[1]):
        if not is_purer(summed, j + 1, whole, best):
            continue
        middle = middle_of(high[j], low[j + 1])
        while value[n_before] <= middle - up:
            n_before += 1
        before = held_back(summed, n_before, j + 1, rule, BEFORE)
        if not is_purer(summed, before, whole, best):
            continue
        while n_after < n_values and value[n_after] <= middle + down:
            n_after += 1
        after = held_back(summed, max(n_after, j + 1), j + 1, rule, AFTER)
        if not is_purer(summed, after, whole, best):
            continue
        threshold = open_threshold(claims, feature, tree, high[j], low[j + 1])
        if np.isnan(threshold):
            continue
        if threshold != middle:
            before = min(first_value_above(value, n_values, threshold - up), j + 1)
            after = max(first_value_above(value, n_values, threshold + down), j + 1)
            before = held_back(summed, before, j + 1, rule, BEFORE)
            after = held_back(summed, after, j + 1, rule, AFTER)
        purity = worst_purity(summed, before, j + 1, after, whole)
        if purity > best:
            best, best_threshold = purity, threshold
    return best, best_threshold


@kernel
def gaps_to_search(column, n_values, n_lost, rule, side):
    """Return the first gap between neighbouring values that may gain something, and the one after the last.

    Each side of a split has enough rows. It gains nothing if all rows on one side are near: those that are missing, and
    lie on this ``side``, or are held never are.
    """
    n_left, (down, up) = column.n_left, column.reach
    n_rows, n_moved = n_left[n_values - 1] + n_lost, n_lost if side == LEFT else 0
    first, last = 0, n_values - 1
    while first < last and n_left[first] + n_moved < rule.min_samples_leaf:
        first += 1
    while first < last and n_rows - n_left[last - 1] - n_moved < rule.min_samples_leaf:
        last -= 1
    if not rule.holds_any:
        if side == RIGHT:
            while first < last and column.low[first + 1] <= column.value[0] + up:
                first += 1
        if n_lost == 0 or side == LEFT:
            while first < last and column.high[last - 1] >= column.value[n_values - 1] - down:
                last -= 1
    return first, last


@kernel
def search_column(claims, column, n_values, n_lost, rule, unsplit, best):
    """Return the best purity above ``best`` of a split, its threshold and side of missing values; NaN and `LARGER`.

    ``n_values`` bins hold rows, and ``n_lost`` rows miss the feature. ``unsplit`` is the purity of the node.
    """
    summed, whole, lost = column.summed, column.whole, column.summed.shape[0] - LOST
    n_known = column.n_left[n_values - 1] if n_values > 0 else 0
    best_threshold, best_side = np.nan, LARGER
    if min(n_lost, n_known) >= rule.min_samples_leaf:
        # Nobody crosses it, so that beside thresholds in reach of many rows even chance would look good.
        chance = (whole.sum() - unsplit) / (n_known + n_lost)
        purity = split_purity(summed, lost, whole) - CHANCE * chance
        if purity > best:
            best, best_side = purity, LEFT
    for side in (RIGHT, LEFT):  # of missing values
        if n_values < 2 or (side == LEFT and n_lost == 0):
            break
        if side == LEFT:
            for k in range(n_values + 1):
                for c in range(whole.shape[0]):
                    summed[k, c] += summed[lost, c]
        gaps = gaps_to_search(column, n_values, n_lost, rule, side)
        if rule.moves_by_class:
            purity, threshold = search_parts(claims, column, n_values, rule, gaps, best)
        else:
            purity, threshold = search_middles(claims, column, n_values, rule, gaps, best)
        if purity > best:
            best, best_threshold = purity, threshold
            if n_lost > 0:
                best_side = side
    for c in range(whole.shape[0]):
        summed[0, c] = 0.0
    return best, best_threshold, best_side


@kernel
def take_histogram(bins, histogram, line, column):
    """Turn the histogram of a feature, from a line on, into a column, and clear it.

    Return how many bins hold rows, and how many rows miss the feature, whose class weights are in line `LOST`.
    """
    f, n_classes, summed = column.feature, column.whole.shape[0], column.summed
    low, high, value, n_left = column.low, column.high, column.value, column.n_left
    n_values, n_known = 0, 0
    for k in range(bins.n_bins[f]):
        if histogram[line + k, n_classes] > 0.0:
            n_known += int(histogram[line + k, n_classes])
            low[n_values], high[n_values], value[n_values] = bins.low[f, k], bins.high[f, k], bins.centre[f, k]
            n_left[n_values] = n_known
            histogram[line + k, n_classes] = 0.0
            for c in range(n_classes):
                summed[n_values + 1, c] = summed[n_values, c] + histogram[line + k, c]
                histogram[line + k, c] = 0.0
            n_values += 1
    line += bins.n_bins[f]
    n_lost, lost = int(histogram[line, n_classes]), summed.shape[0] - LOST
    for c in range(n_classes):
        summed[lost, c] = histogram[line, c]
        histogram[line, c] = 0.0
    histogram[line, n_classes] = 0.0
    return n_values, n_lost


@kernel
def search_gini(rows, claims, frontier, rule, only_best, entry_node, out):
    """Write worst-case gain in weighted Gini impurity, threshold and side of missing values of nodes on features.

    A gain of 0 means that no open threshold helps or, with ``only_best``, that a feature before it helps as much. The
    side is `LARGER` if no row of the node misses the feature. Rows of classes that are held are not moved.
    """
    bins, uncommon, reach = rows
    row, weight, node_start, class_index = frontier.row, frontier.weight, frontier.start, rule.class_index
    feature, max_bins, n_classes = out.feature, bins.low.shape[1], frontier.class_weight.shape[1]
    # Histograms of all features, filled row by row, or of four at a time, column by column.
    n_uncommon, n_cells = uncommon.cell.shape[0] / (uncommon.start.shape[0] - 1), uncommon.first[-1]  # of a row, of all
    can_by_row = n_uncommon > 0 and entry_node.shape[0] > n_uncommon
    of_all = np.zeros((n_cells if can_by_row else 0, n_classes + 1))
    of_four = np.zeros((4, max_bins + 1, n_classes + 1))
    lines_of_four = of_four.reshape(4 * (max_bins + 1), n_classes + 1)
    low, high, value = np.empty(max_bins), np.empty(max_bins), np.empty(max_bins)
    n_left, summed = np.empty(max_bins, np.int64), np.zeros((max_bins + 1 + CROSSED, n_classes))
    entry, last_entry = 0, entry_node.shape[0]
    while entry < last_entry:
        node = entry_node[entry]
        n_entries = 1
        while entry + n_entries < last_entry and entry_node[entry + n_entries] == node:
            n_entries += 1
        start, stop = node_start[node], node_start[node + 1]
        whole, tree = frontier.class_weight[node], frontier.tree[node]
        # Fewer codes to read, but cells of all features to go through.
        by_row = can_by_row and (stop - start) * (n_entries - n_uncommon) > n_cells
        if by_row:
            fill_by_row(uncommon, frontier, node, class_index, whole, of_all)
        histogram = of_all if by_row else lines_of_four
        unsplit = node_purity(whole)
        best = least = unsplit + LEAST_GAIN * whole.sum()
        for e in range(n_entries):
            f = feature[entry + e]
            if not by_row and e % 4 == 0:
                features = feature[entry + e : entry + min(e + 4, n_entries)]
                fill_by_column(bins.code, row, weight, class_index, start, stop, features, of_four)
            column = Column(f, tree, (reach[0, f], reach[1, f]), whole, low, high, value, n_left, summed)
            line = uncommon.first[f] if by_row else e % 4 * (max_bins + 1)
            n_values, n_lost = take_histogram(bins, histogram, line, column)
            if not only_best:
                best = least
            best, threshold, side = search_column(claims, column, n_values, n_lost, rule, unsplit, best)
            out.threshold[entry + e], out.missing_side[entry + e] = threshold, side
            out.gain[entry + e] = 0.0 if np.isnan(threshold) and side == LARGER else best - unsplit
        entry += n_entries

"""Claim the best splits of a level and route the rows of its nodes to their children."""

import numpy as np

from certiforest.compiled import kernel
from certiforest.training.ledger_kernels import claim_threshold, closing_claim

NO_SPLIT, ASK_AGAIN, NOT_YET = -1, -2, -3
LEFT, RIGHT, BOTH, LARGER, OWN = 0, 1, 2, 3, 4  # sides of a split; the larger one is that of more weight


@kernel
def claim_best(claims, tree, splits, choice):
    """Let nodes whose choice is `NOT_YET` claim, one after the other, the best of their candidate splits.

    ``splits`` have one line per node, one column per candidate. A node's choice becomes a column, `NO_SPLIT` if no
    candidate gains anything, or `ASK_AGAIN` if another tree has claimed its best threshold since the search: that
    candidate, and no other, must be searched anew, so its gain is set to NaN. Stops early when a feature has no room
    for one more claim. A split without threshold (NaN) claims nothing.
    """
    capacity, feature, threshold, gain = claims.value.shape[1], splits.feature, splits.threshold, splits.gain
    for node in range(feature.shape[0]):
        if choice[node] != NOT_YET:
            continue
        best = 0
        for candidate in range(1, feature.shape[1]):
            if gain[node, candidate] > gain[node, best]:
                best = candidate
        f, v = feature[node, best], threshold[node, best]
        if not gain[node, best] > 0.0:
            choice[node] = NO_SPLIT
        elif v != v:
            choice[node] = best
        elif closing_claim(claims, f, tree[node], v) >= 0:
            gain[node, best] = np.nan
            choice[node] = ASK_AGAIN
        elif claims.n_claims[f] == capacity:
            return
        else:
            claim_threshold(claims, f, tree[node], v)
            choice[node] = best


@kernel
def discount_new(claims, tree, splits, asked, factor, least_gain):
    """Discount the gain of the candidates asked for where the node's tree has no claim on the feature.

    It is multiplied by the factor of the feature, and becomes 0 if that is less than ``least_gain``. Splits without
    threshold close nothing to others: only the latter holds for them.
    """
    feature, threshold, gain = splits.feature, splits.threshold, splits.gain
    for node in range(feature.shape[0]):
        for candidate in range(feature.shape[1]):
            if asked[node, candidate] and gain[node, candidate] > 0.0:
                f, v = feature[node, candidate], threshold[node, candidate]
                is_new = True
                for i in range(claims.n_claims[f]):
                    is_new &= claims.tree[f, i] != tree[node]
                if is_new:
                    gain[node, candidate] *= factor[f] if v == v else 1.0
                    if gain[node, candidate] < least_gain:
                        gain[node, candidate] = 0.0


@kernel
def route(rows, frontier, class_index, node, splits, near_side, out):
    """Write the rows of the left and right child of each node that splits, one child after the other, to a `Frontier`.

    A row that can be moved across the threshold goes where ``near_side[j, c]`` sends its class: `LEFT`, `RIGHT`, `BOTH`
    or, if the class is not attacked, `OWN`. A row whose value is missing goes to ``missing_side[j]``.
    """
    code, centre, reach = rows.bins.code, rows.bins.centre, rows.reach
    row, weight, node_start = frontier.row, frontier.weight, frontier.start
    feature, threshold, missing_side = splits.feature, splits.threshold, splits.missing_side
    out_row, out_weight, out_start = out.row, out.weight, out.start
    end = 0
    out_start[0] = 0
    for j in range(node.shape[0]):
        f, v = feature[j], threshold[j]
        for side in range(2):
            for i in range(node_start[node[j]], node_start[node[j] + 1]):
                value = centre[f, code[f, row[i]]]
                can_left, can_right = value - reach[0, f] <= v, not value + reach[1, f] <= v
                goes = can_left if side == LEFT else can_right
                if value != value:
                    goes = side == missing_side[j]
                elif can_left and can_right:
                    near = near_side[j, class_index[row[i]]]
                    goes = (value <= v) == (side == LEFT) if near == OWN else near in (side, BOTH)
                if goes:
                    out_row[end] = row[i]
                    out_weight[end] = weight[i]
                    end += 1
            out_start[2 * j + side + 1] = end


@kernel
def goes_left(sure_left, sure_right, left_total, right_total):
    """Tell whether near rows of a class are moved left: to the side on which the class has the smaller share."""
    return sure_left * right_total <= sure_right * left_total


@kernel
def mark_worse_sides(rows, frontier, rule, node, splits, out_side):
    """Write to which side near rows of each class that is not held are moved; see `worst_purity_by_class`."""
    code, centre, reach = rows.bins.code, rows.bins.centre, rows.reach
    row, weight, node_start, class_weight = frontier.row, frontier.weight, frontier.start, frontier.class_weight
    class_index, is_held, n_classes = rule.class_index, rule.is_held, class_weight.shape[1]
    feature, threshold, missing_side = splits.feature, splits.threshold, splits.missing_side
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
        left, right = before.sum(), class_weight[node[j]].sum() - after.sum()
        for c in range(n_classes):
            if not is_held[c]:
                moves_left = goes_left(before[c], class_weight[node[j], c] - after[c], left, right)
                out_side[j, c] = LEFT if moves_left else RIGHT


@kernel
def sum_class_weights(frontier, class_index):
    """Add up the weight of each class in each node."""
    row, weight, start, out = frontier.row, frontier.weight, frontier.start, frontier.class_weight
    for node in range(out.shape[0]):
        for i in range(start[node], start[node + 1]):
            out[node, class_index[row[i]]] += weight[i]

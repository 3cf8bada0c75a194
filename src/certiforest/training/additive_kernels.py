"""Worst cases of trees that own their columns: the cell of each tree into which the attacker moves a row."""

import math
from typing import NamedTuple

import numpy as np

from certiforest.attack.reach_kernels import power
from certiforest.compiled import kernel
from certiforest.training.worst_case_kernels import weigh_rivals


class Grids(NamedTuple):
    """Trees, each a grid of cells over a few columns of its own, and how far the attacker moves these.

    Step ``k`` of column ``j`` is ``(threshold[j, k - 1], threshold[j, k]]``; step ``n_steps[j]`` is that of missing
    values, from which nobody moves one. The cells of all trees are counted through: a row lies in tree ``t`` in cell
    ``first_cell[t] + sum_j stride[j] * step[j]`` over the columns ``j`` of the tree, which are counted through, too:

        tree            0           1       2
        column          0   1       2       3   4   5        first_column: 0, 2, 3, 6
        feature         7   8       0       3   4   9
    """

    first_column: np.ndarray  # (n_trees + 1,) int64
    first_cell: np.ndarray  # (n_trees + 1,) int64
    feature: np.ndarray  # (n_columns,) int64
    threshold: np.ndarray  # (n_columns, most steps - 1) float64
    n_steps: np.ndarray  # (n_columns,) int64
    stride: np.ndarray  # (n_columns,) int64
    edge: np.ndarray  # (2, n_columns, most steps - 1) float64: where a threshold is passed, down and up; inf: nowhere
    reach: np.ndarray  # (2, n_columns) float64: of a column alone, down and up, below 0 if it cannot move so
    unit: np.ndarray  # (2, n_columns) float64
    norm: int  # -1 for L-inf, whose moves cost nothing
    budget: float  # what all moves together may cost, as a sum of powers
    is_held: np.ndarray  # (n_classes,) bool: classes whose rows nobody moves


class Rows(NamedTuple):
    """Some rows: where they lie, and what a unit of cost is worth to the attacker of each.

    Most values of an image are the same as in most rows. Trees in which all values of a row are common are not listed
    in ``tree``: what the attacker makes of these is worked out once a price, for all rows.
    """

    X: np.ndarray  # (n_rows, n_columns) float64
    step: np.ndarray  # (n_rows, n_columns) uint8
    start: np.ndarray  # (n_rows + 1,) int64: trees of row i are tree[start[i]:start[i + 1]]
    tree: np.ndarray  # (start[-1],) int32
    class_index: np.ndarray  # (n_rows,) int64
    weight: np.ndarray  # (n_rows,) float64
    lead: np.ndarray  # (n_rows, n_classes) float64: over each class before anything is added up
    kind: int  # of the loss, see `weigh_rivals`
    level: np.ndarray  # (n_rows, n_classes) uint8: of the price, see `Prices`
    push: np.ndarray  # (n_rows, n_classes) float64: how fast the loss rose with each class's sum, when last seen


class Prices(NamedTuple):
    """Prices of a unit of cost, rising by a factor, and common values."""

    price: np.ndarray  # (n_levels,) float64
    common: np.ndarray  # (n_columns,) float64
    common_step: np.ndarray  # (n_columns,) uint8


class Choices(NamedTuple):
    """Room to try moves of one tree: steps of each column in reach, by rising cost, and how many."""

    jump: np.ndarray  # (most columns, most steps) int64
    cost: np.ndarray  # (most columns, most steps) float64
    n: np.ndarray  # (most columns,) int64
    place: np.ndarray  # (most columns,) int64
    cell: np.ndarray  # (most columns + 1,) int64
    spent: np.ndarray  # (most columns + 1,) float64


@kernel
def new_choices(grids):
    """Return room for the tree of most columns."""
    n_columns = 1
    for t in range(grids.first_column.shape[0] - 1):
        n_columns = max(n_columns, grids.first_column[t + 1] - grids.first_column[t])
    shape = n_columns, grids.threshold.shape[1] + 1
    return Choices(
        np.empty(shape, np.int64), np.empty(shape), np.empty(n_columns, np.int64), np.empty(n_columns, np.int64),
        np.empty(n_columns + 1, np.int64), np.empty(n_columns + 1),
    )  # fmt: skip


@kernel
def cost_of(distance, unit, norm):
    """Return what a move costs, as a power; nothing for L-inf."""
    if norm == -1:
        return 0.0
    return 1.0 if norm == 0 else power(distance / unit, norm)


@kernel
def move_row(grids, trees, x, step, lead, least_lead, price, choices, out_cell, out_least, out_cost):
    """Write the cell of each tree in reach of a row in which ``lead + price * cost`` is least, that and the cost.

    ``least_lead[t]`` is the least lead of all cells of a tree: the search ends where costs outweigh it. The k-th of
    ``trees`` has the k-th place of what is written.
    """
    # Arrays have names of their own: those of a tuple are counted anew where they are used.
    first_column, first_cell, edge_of, n_steps = grids.first_column, grids.first_cell, grids.edge, grids.n_steps
    stride_of, reach_of, unit_of, norm = grids.stride, grids.reach, grids.unit, grids.norm
    jump_of, cost_of_jump, n_jumps, place_of, cell_of, spent_of = choices
    for k in range(trees.shape[0]):
        t = trees[k]
        first, last = first_column[t], first_column[t + 1]
        own = first_cell[t]
        for j in range(first, last):
            own += stride_of[j] * np.int64(step[j])
        worst, least, worst_cost, floor = own, lead[own], 0.0, least_lead[t]
        n_open = 0
        for j in range(first, last if floor < least else first):
            value, stride, own_step, n = x[j], stride_of[j], np.int64(step[j]), 1
            jump_of[n_open, 0], cost_of_jump[n_open, 0] = 0, 0.0
            for side in range(2 if value == value else 0):
                reach, unit = reach_of[side, j], unit_of[side, j]
                n_ahead = n_steps[j] - 1 - own_step if side == 1 else own_step
                for ahead in range(1, n_ahead + 1):
                    at = own_step + ahead - 1 if side == 1 else own_step - ahead
                    distance = abs(edge_of[side, j, at] - value)
                    cost = cost_of(distance, unit, norm)
                    if distance > reach or floor + price * cost >= least:
                        break
                    jump = (ahead if side == 1 else -ahead) * stride
                    if lead[own + jump] + price * cost < least:
                        worst, least, worst_cost = own + jump, lead[own + jump] + price * cost, cost
                    if last - first > 1:
                        p = n
                        while cost_of_jump[n_open, p - 1] > cost:
                            jump_of[n_open, p] = jump_of[n_open, p - 1]
                            cost_of_jump[n_open, p] = cost_of_jump[n_open, p - 1]
                            p -= 1
                        jump_of[n_open, p], cost_of_jump[n_open, p] = jump, cost
                        n += 1
            n_jumps[n_open] = n
            n_open += n > 1
        depth = 0 if n_open > 1 else -1  # one column has been searched
        place_of[0], cell_of[0], spent_of[0] = -1, own, 0.0
        while depth >= 0:
            place_of[depth] += 1
            place = place_of[depth]
            if place == n_jumps[depth]:
                depth -= 1
                continue
            spent = spent_of[depth] + cost_of_jump[depth, place]
            if floor + price * spent >= least:
                depth -= 1  # what follows costs more
                continue
            cell = cell_of[depth] + jump_of[depth, place]
            if depth < n_open - 1:
                depth += 1
                place_of[depth], cell_of[depth], spent_of[depth] = -1, cell, spent
            elif lead[cell] + price * spent < least:
                worst, least, worst_cost = cell, lead[cell] + price * spent, spent
        out_cell[k], out_least[k], out_cost[k] = worst, least, worst_cost


@kernel
def write_leads(grids, value, own, rival, out_lead, out_least):
    """Write by how much one class leads another in every cell, and the least of each tree's cells.

    For a class whose rows nobody moves the least is infinite: no move is worth trying.
    """
    for t in range(out_least.shape[0]):
        least = math.inf
        for k in range(grids.first_cell[t], grids.first_cell[t + 1]):
            out_lead[k] = value[k, own] - value[k, rival]
            least = min(least, out_lead[k])
        out_least[t] = math.inf if grids.is_held[own] else least


@kernel
def sum_slopes(grids, rows, prices, order, share, model, pace, slopes):
    """Add the slopes of the worst-case loss to arrays shaped as those of the model, and return the loss.

    The model is what cells add, (n_cells, n_classes), and where sums begin, (n_classes,). ``order`` (n,) are the rows
    that count, by class, and ``share`` (n_classes,) how much. Levels of prices move by ``pace`` towards the one at
    which the attacker spends the budget.
    """
    value, base = model
    out, out_base = slopes
    n_trees, n_classes, n_levels = grids.first_cell.shape[0] - 1, base.shape[0], prices.price.shape[0]
    lead, least_lead, choices = np.empty(value.shape[0]), np.empty(n_trees), new_choices(grids)
    most_listed = 0
    for i in order:
        most_listed = max(most_listed, rows.start[i + 1] - rows.start[i])
    choice = np.empty((order.shape[0], n_classes, most_listed), np.int32)
    least, cost = np.empty(most_listed), np.empty(most_listed)
    all_trees = np.arange(n_trees).astype(np.int32)
    margin, slope = np.zeros((order.shape[0], n_classes)), np.empty(n_classes)
    level_of = np.zeros((order.shape[0], n_classes), np.int64)
    # What the attacker makes of common values at each level that occurs: the cell, the lead there and the cost.
    common = np.full((n_classes, n_classes, n_levels), -1)
    n_common = 0
    for n in range(order.shape[0]):
        own = rows.class_index[order[n]]
        for c in range(n_classes):
            if c != own:
                level_of[n, c] = rows.level[order[n], c]
                if common[own, c, level_of[n, c]] < 0:
                    common[own, c, level_of[n, c]] = n_common
                    n_common += 1
    common_cell, is_known = np.empty((n_common, n_trees), np.int32), np.zeros(n_common, np.bool_)
    common_least, common_cost = np.empty((n_common, n_trees)), np.empty((n_common, n_trees))
    common_sum, push = np.empty((n_common, 2)), np.zeros((n_common, n_classes))
    for own in range(n_classes):
        first = np.searchsorted(rows.class_index[order], own)
        last = np.searchsorted(rows.class_index[order], own + 1)
        for c in range(n_classes):
            if c == own or first == last:
                continue
            write_leads(grids, value, own, c, lead, least_lead)
            for n in range(first, last):
                i = order[n]
                level = level_of[n, c]
                price, m = prices.price[level], common[own, c, level]
                level_of[n, c] = m
                if not is_known[m]:
                    is_known[m] = True
                    move_row(
                        grids, all_trees, prices.common, prices.common_step, lead, least_lead, price, choices,
                        common_cell[m], common_least[m], common_cost[m],
                    )  # fmt: skip
                    common_sum[m, 0], common_sum[m, 1] = common_least[m].sum(), common_cost[m].sum()
                total, spent = rows.lead[i, c] + base[own] - base[c] + common_sum[m, 0], common_sum[m, 1]
                trees = rows.tree[rows.start[i] : rows.start[i + 1]]
                move_row(
                    grids, trees, rows.X[i], rows.step[i], lead, least_lead, price, choices,
                    choice[n, c], least, cost,
                )  # fmt: skip
                usual_least, usual_cost = common_least[m], common_cost[m]
                for k in range(trees.shape[0]):
                    total += least[k] - usual_least[trees[k]]
                    spent += cost[k] - usual_cost[trees[k]]
                if grids.norm >= 0 and not grids.is_held[own]:
                    total -= price * grids.budget
                    level += pace if spent > grids.budget else -pace
                    rows.level[i, c] = min(max(level, 0), n_levels - 1)
                margin[n, c] = total
    loss = 0.0
    for n in range(order.shape[0]):
        i = order[n]
        own = rows.class_index[i]
        w = rows.weight[i] * share[own]
        loss += w * weigh_rivals(margin[n], own, rows.kind, slope)
        rows.push[i, own] = 0.0
        for c in range(n_classes):
            if c == own:
                continue
            by = w * slope[c]
            rows.push[i, c] = by
            rows.push[i, own] -= by
            out_base[own] -= by
            out_base[c] += by
            m = level_of[n, c]
            push[m, own] -= by
            push[m, c] += by
            trees, usual_cell, cells = rows.tree[rows.start[i] : rows.start[i + 1]], common_cell[m], choice[n, c]
            for k in range(trees.shape[0]):
                usual, cell = usual_cell[trees[k]], cells[k]
                out[usual, own] += by
                out[usual, c] -= by
                out[cell, own] -= by
                out[cell, c] += by
    for m in range(n_common):
        for t in range(n_trees):
            for c in range(n_classes):
                out[common_cell[m, t], c] += push[m, c]
    return loss


@kernel
def list_uncommon(X, common, first_column, out_start, out_tree):
    """List the trees of each row in which a value is not the common one; return how many there are."""
    n = 0
    for i in range(X.shape[0]):
        out_start[i] = n
        for t in range(first_column.shape[0] - 1):
            for j in range(first_column[t], first_column[t + 1]):
                if X[i, j] != common[j]:
                    if n < out_tree.shape[0]:
                        out_tree[n] = t
                    n += 1
                    break
    out_start[X.shape[0]] = n
    return n


@kernel
def grow_grid(grids, t, has_missing, out_left, out_right, out_feature, out_threshold, out_leaf):
    """Write the nodes of a grid's tree in preorder: columns in halves, from step ``first`` to ``last``.

    Step -1 stands for missing values, which part first. What is still to be grown waits on a stack.
    """
    begin, end = grids.first_column[t], grids.first_column[t + 1]
    least = -1 if has_missing else 0
    stack = np.empty(
        (out_left.shape[0] + 1, 5), np.int64
    )  # column, cell, first, last, and the node that it is right of
    stack[0] = begin, 0, least, grids.n_steps[begin] - 1, -1
    depth, n = 1, 0
    while depth:
        depth -= 1
        j, cell, first, last, parent = stack[depth]
        while j < end and first == last:
            cell += first * grids.stride[j]
            j += 1
            first, last = least, grids.n_steps[j] - 1 if j < end else 0
        if parent >= 0:
            out_right[parent] = n
        out_leaf[n] = cell
        if j < end:
            middle = (first + last) // 2 if first >= 0 else -1
            out_left[n], out_feature[n] = n + 1, grids.feature[j]
            out_threshold[n] = grids.threshold[j, middle] if first >= 0 else math.nan
            stack[depth] = j, cell, middle + 1, last, n
            if first >= 0:
                stack[depth + 1] = j, cell, first, middle, -1
            else:  # past the last step, and on to the next column
                ahead = grids.n_steps[j + 1] - 1 if j + 1 < end else 0
                stack[depth + 1] = j + 1, cell + (last + 1) * grids.stride[j], least, ahead, -1
            depth += 2
        n += 1


@kernel
def share_steps(grids, by_step, by_cell, is_gathered):
    """Add what belongs to steps, (n_columns, most steps + 1, n_classes), to all cells of them, or gather it from these.

    That is ``by_cell`` of shape (n_cells, n_classes).
    """
    for t in range(grids.first_cell.shape[0] - 1):
        first, last = grids.first_cell[t], grids.first_cell[t + 1]
        n_cells = last - first
        for j in range(grids.first_column[t], grids.first_column[t + 1]):
            stride = grids.stride[j]
            for k in range(first, last):
                step = (k - first) % n_cells // stride
                for c in range(by_cell.shape[1]):
                    if is_gathered:
                        by_step[j, step, c] += by_cell[k, c]
                    else:
                        by_cell[k, c] += by_step[j, step, c]
            n_cells = stride


@kernel
def follow(slope, l2, rate, memories, n_steps, memory, square, out_value):
    """Move values against the slopes of one batch (Adam): by about the rate, wherever slopes agree."""
    keep, keep_square = memories
    share, share_square = 1.0 - keep**n_steps, 1.0 - keep_square**n_steps
    for k in range(out_value.shape[0]):
        down = slope[k] + l2 * out_value[k]
        memory[k] += (1.0 - keep) * (down - memory[k])
        square[k] += (1.0 - keep_square) * (down * down - square[k])
        if memory[k] != 0.0:
            out_value[k] -= rate / share * memory[k] / (math.sqrt(square[k] / share_square) + 1e-8)

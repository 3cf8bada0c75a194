"""Worst cases of additive models: for each row, rival and feature, the cell into which the attacker moves the value."""

import math
from typing import NamedTuple

import numpy as np

from certiforest.attack.reach_kernels import power
from certiforest.compiled import kernel
from certiforest.training.worst_case_kernels import weigh_rivals


class FeatureCells(NamedTuple):
    """The thresholds that cut each feature into cells, and how far the attacker moves it.

    Cell ``k`` of feature ``f`` is ``(threshold[f, k - 1], threshold[f, k]]``; cell ``n_cells[f]`` is that of missing
    values, from which nobody moves one.
    """

    threshold: np.ndarray  # (n_features, max_cells - 1) float64
    n_cells: np.ndarray  # (n_features,) int32
    reach: np.ndarray  # (2, n_features) float64: of a feature alone, down and up, below 0 if it cannot move so
    unit: np.ndarray  # (2, n_features) float64
    norm: int  # -1 for L-inf, whose moves cost nothing
    budget: float  # what all moves together may cost, as a sum of powers
    is_held: np.ndarray  # (n_classes,) bool: classes whose rows nobody moves


class Batch(NamedTuple):
    """Some rows, and what a unit of cost is worth to the attacker of each."""

    X: np.ndarray  # (n_rows, n_features) float64
    cell: np.ndarray  # (n_rows, n_features) uint8: own cell of each value
    class_index: np.ndarray  # (n_rows,) int64
    weight: np.ndarray  # (n_rows,) float64
    price: np.ndarray  # (n_rows, n_classes) float64


@kernel
def cost_of(distance, unit, norm):
    """Return what a move costs, as a power; nothing for L-inf."""
    if norm == -1:
        return 0.0
    return 1.0 if norm == 0 else power(distance / unit, norm)


@kernel
def worst_cell(cells, f, x, own_cell, lead, least_lead, price):
    """Return the cell in reach of a value in which ``lead[f] + price * cost`` is least, that number, and the cost.

    ``least_lead[f]`` is the least of all cells: costs rise with distance, and the search ends where they outweigh it.
    """
    worst, least, worst_cost = own_cell, lead[f, own_cell], 0.0
    floor = least_lead[f]
    if floor == least or x != x:
        return worst, least, worst_cost
    norm = cells.norm
    reach, unit = cells.reach[1, f], cells.unit[1, f]
    for cell in range(own_cell + 1, cells.n_cells[f]):
        distance = cells.threshold[f, cell - 1] - x
        cost = cost_of(distance, unit, norm)
        if distance > reach or floor + price * cost >= least:
            break
        if lead[f, cell] + price * cost < least:
            worst, least, worst_cost = cell, lead[f, cell] + price * cost, cost
    reach, unit = cells.reach[0, f], cells.unit[0, f]
    for cell in range(own_cell - 1, -1, -1):
        distance = x - cells.threshold[f, cell]
        cost = cost_of(distance, unit, norm)
        if distance > reach or floor + price * cost >= least:
            break
        if lead[f, cell] + price * cost < least:
            worst, least, worst_cost = cell, lead[f, cell] + price * cost, cost
    return worst, least, worst_cost


@kernel
def write_leads(cells, value, out_lead, out_least):
    """Write by how much each class leads each other in every cell, and the least of each feature's cells.

    Shapes (n_classes, n_classes, n_features, max_cells + 1) and (n_classes, n_classes, n_features).
    """
    n_classes = value.shape[2]
    for own in range(n_classes):
        for rival in range(n_classes):
            for f in range(value.shape[0]):
                least = math.inf
                for k in range(cells.n_cells[f] + 1):
                    lead = value[f, k, own] - value[f, k, rival]
                    out_lead[own, rival, f, k] = lead
                    if k < cells.n_cells[f]:
                        least = min(least, lead)
                out_least[own, rival, f] = least


@kernel
def sum_slopes(cells, batch, value, base, rate, out, out_base):
    """Add the slopes of the worst-case log-loss to ``out`` and ``out_base``, shaped as ``value`` and ``base``.

    These are what cells add, (n_features, max_cells + 1, n_classes), and where sums begin, (n_classes,). Each price
    moves by the factor ``exp(+-rate)`` towards the one at which the attacker spends the budget. Return the loss.
    """
    n_features, n_classes = batch.X.shape[1], base.shape[0]
    lead = np.empty((n_classes, n_classes, n_features, value.shape[1]))
    least_lead = np.empty((n_classes, n_classes, n_features))
    write_leads(cells, value, lead, least_lead)
    choice = np.empty((n_classes, n_features), np.int64)
    margin, slope = np.zeros(n_classes), np.empty(n_classes)
    loss = 0.0
    for i in range(batch.X.shape[0]):
        own = batch.class_index[i]
        is_held = cells.is_held[own]
        for c in range(n_classes):
            if c == own:
                continue
            price = batch.price[i, c]
            total, spent = base[own] - base[c], 0.0
            leads, least_leads = lead[own, c], least_lead[own, c]
            for f in range(n_features):
                own_cell = np.int64(batch.cell[i, f])
                if is_held:
                    choice[c, f] = own_cell
                    total += leads[f, own_cell]
                    continue
                choice[c, f], least, cost = worst_cell(cells, f, batch.X[i, f], own_cell, leads, least_leads, price)
                total += least
                spent += cost
            margin[c] = total
            if cells.norm >= 0 and not is_held:
                margin[c] -= price * cells.budget
                batch.price[i, c] = price * math.exp(rate if spent > cells.budget else -rate)
        loss += batch.weight[i] * weigh_rivals(margin, own, False, slope)
        for c in range(n_classes):
            if c != own:
                push = batch.weight[i] * slope[c]
                out_base[own] -= push
                out_base[c] += push
                for f in range(n_features):
                    out[f, choice[c, f], own] -= push
                    out[f, choice[c, f], c] += push
    return loss

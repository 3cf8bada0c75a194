"""Offers: what trees offer an attacker, in whole numbers: exact costs, exact gains of scores."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from certiforest.attack.attacker import Attacker
from certiforest.ensemble import TreeEnsemble
from certiforest.ensemble.score_kernels import DIGIT_BITS, Scores
from certiforest.verification.knapsack import Fronts
from certiforest.verification.rationals import Change, priced_leaves


class WholeScores:
    """Scores as Python's whole numbers of one unit.

    Parameters
    ----------
    scores : Scores
        The last row is the base.
    """

    def __init__(self, scores: Scores) -> None:
        place = [1 << (DIGIT_BITS * k) for k in range(scores.digit.shape[2])]
        # Row by row and class by class, shape (n_scores + 1, n_classes).
        self._whole = (scores.digit.astype(object) * np.array(place, object)).sum(axis=2)
        self.unit = Fraction(1)
        if scores.value.any():
            row, c = np.argwhere(scores.value)[0]
            self.unit = Fraction(float(scores.value[row, c])) / self._whole[row, c]

    def leads(self, rows: NDArray[np.int64], y: int, rival: int) -> NDArray[np.object_]:
        """Return by how much ``y`` leads a rival in each of some score rows."""
        return self._whole[rows, y] - self._whole[rows, rival]

    def lead(self, rows: NDArray[np.int64], y: int, rival: int) -> int:
        """Return by how much ``y`` leads a rival in the sum of some score rows and the base."""
        return int(self.leads(np.append(rows, -1), y, rival).sum())

    def need(self, rows: NDArray[np.int64], y: int, rival: int) -> int:
        """Return what a rival must gain at least to overtake ``y``, base included: ties go to the lower class."""
        return self.lead(rows, y, rival) + (1 if rival > y else 0)


class Offers:
    """The leaves that an attacker can send a row to, up to a ceiling, at exact cost.

    Parameters
    ----------
    ensemble : TreeEnsemble
        Already restricted to the attacker's domain.
    scores : WholeScores
    attacker : Attacker
        Its budget plays no role.
    x : ndarray, shape (n_features,)
    ceiling : Fraction or inf
        In powers of the norm.

    Attributes
    ----------
    unit : int
        Costs are whole numbers of ``1 / unit``.
    """

    def __init__(
        self,
        ensemble: TreeEnsemble,
        scores: WholeScores,
        attacker: Attacker,
        x: NDArray[np.float64],
        ceiling: Fraction | float,
    ) -> None:
        self._ensemble, self._scores = ensemble, scores
        scale, frozen = attacker.scale_of(ensemble.n_features), attacker.is_frozen(ensemble.n_features)
        leaves = [
            list(priced_leaves(ensemble, tree, x, attacker.norm, scale, frozen, ceiling))
            for tree in range(ensemble.n_trees)
        ]
        self.unit = math.lcm(*{cost.denominator for tree in leaves for _, cost in tree})
        self._leaves = [
            [(node, cost.numerator * (self.unit // cost.denominator)) for node, cost in tree] for tree in leaves
        ]
        self._own = [tree[0][0] for tree in leaves]

    def in_units(self, cost: Fraction | float) -> int:
        """Return a cost, rounded down to a whole number of units; for inf, one that no purchase exceeds."""
        if cost == math.inf:
            return sum(max(cost for _, cost in tree) for tree in self._leaves)
        return math.floor(cost * self.unit)

    def fronts(self, y: int, rival: int) -> tuple[Fronts, int]:
        """Return what the trees offer to a rival, and what it must gain."""
        costs, gains, starts, nodes, trees = [], [], [0], [], []
        for tree, gain_of in enumerate(self._gains(y, rival)):
            best = 0
            for node, cost in sorted(self._leaves[tree], key=lambda leaf: (leaf[1], -gain_of[leaf[0]])):
                if gain_of[node] > best:
                    best = gain_of[node]
                    costs.append(cost)
                    gains.append(best)
                    nodes.append(node)
            if len(nodes) > starts[-1]:
                starts.append(len(nodes))
                trees.append(tree)
        fronts = Fronts(
            _objects(costs), _objects(gains), np.array(starts), np.array(nodes, np.int64), np.array(trees, np.int64)
        )
        return fronts, self._need(y, rival)

    def cheapest_break(self, y: int) -> Change | None:
        """Return the cheapest change for L-inf, where every tree may be sent to its worst leaf at the largest cost."""
        best: Change | None = None
        for rival in range(self._ensemble.n_classes):
            if rival == y:
                continue
            gains, missing = self._gains(y, rival), self._need(y, rival)
            leaf = np.array(self._own)
            offers = sorted((cost, tree, node) for tree, leaves in enumerate(self._leaves) for node, cost in leaves)
            for cost, tree, node in offers:
                more = gains[tree][node] - gains[tree][int(leaf[tree])]
                if more > 0:
                    leaf[tree] = node
                    missing -= more
                if missing <= 0:
                    price = Fraction(cost, self.unit)
                    if best is None or price < best.cost:
                        best = Change(price, np.zeros(len(leaf), np.int64), leaf[:, None])
                    break
        return best

    def _need(self, y: int, rival: int) -> int:
        return self._scores.need(self._ensemble.leaf[self._own], y, rival)

    def _gains(self, y: int, rival: int) -> list[dict[int, int]]:
        """Return, for each tree, what each leaf gains for the rival."""
        leads = []
        for leaves in self._leaves:
            nodes = [node for node, _ in leaves]
            leads.append(dict(zip(nodes, self._scores.leads(self._ensemble.leaf[nodes], y, rival), strict=True)))
        return [
            {node: lead[own] - of_node for node, of_node in lead.items()}
            for own, lead in zip(self._own, leads, strict=True)
        ]


def _objects(values: list[int]) -> NDArray[np.object_]:
    array = np.empty(len(values), object)
    array[:] = values
    return array

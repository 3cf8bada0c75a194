"""RuleReach: how far rules move training values, as an attacker of norm inf who moves all columns at once.

What trainers know of an attacker is the same wherever a value is; what rules do is not: education can be lowered from
13 to 16 only. So columns are stretched for training, and thresholds mapped back afterwards. Between neighbouring values
that no rule connects nobody crosses a threshold if they are further apart than the reach, which is 3 here:

    value         10     11     12  13  14  15  16
    stretched     10 ... 14 ... 18  19  20  21  22

Every value that rules make of a training value within the budget is within reach of it. So what is stable against this
attacker is stable against the rules, if it is a training row; about other rows nothing is said, that is for `certify`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from certiforest.attack.attacker import Attacker
from certiforest.attack.moves import Moves
from certiforest.attack.parameters import AttackerError
from certiforest.ensemble import TreeEnsemble

APART = 1.01  # distance of values that no rule connects, in units of the reach


class Ends(NamedTuple):
    """Values of a column, and the least and the greatest that rules make of each."""

    value: NDArray[np.float64]
    least: NDArray[np.float64]
    greatest: NDArray[np.float64]


class StretchedColumn(NamedTuple):
    """A column whose values, and all that rules make of them, have other places: both ascend, and begin alike."""

    value: NDArray[np.float64]
    place: NDArray[np.float64]
    down: float  # how far rules lower, and raise, values that are in their places
    up: float

    @classmethod
    def of(cls, ends: Ends) -> StretchedColumn:
        """Take values that no rule connects apart."""
        value = np.unique(np.concatenate(ends))
        first, last = (np.searchsorted(value, end) for end in (ends.least, ends.greatest))
        n_crossing = np.cumsum(np.bincount(first, minlength=len(value)) - np.bincount(last, minlength=len(value)))
        furthest = max((ends.value - ends.least).max(), (ends.greatest - ends.value).max())
        place = value + APART * furthest * np.append(0, np.cumsum(n_crossing[:-1] == 0))
        own = place[np.searchsorted(value, ends.value)]
        return cls(value, place, _furthest(own - place[first]), _furthest(place[last] - own))

    def stretch(self, column: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return values in their places; what is missing stays so."""
        return np.interp(column, self.value, self.place)

    def restore(self, threshold: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return thresholds between the same values as these are between places."""
        before = np.searchsorted(self.place, threshold, side="right") - 1
        inside = np.interp(threshold, self.place, self.value)
        outside = threshold - np.where(before < 0, 0.0, self.place[-1] - self.value[-1])
        is_inside = (before >= 0) & (before < len(self.value) - 1)
        low = np.append(self.value, -np.inf)[before]
        high = np.append(np.nextafter(self.value, -np.inf), np.inf)[before + 1]
        return np.clip(np.where(is_inside, inside, outside), low, high)


class RuleReach(NamedTuple):
    """An attacker on stretched columns.

    Attributes
    ----------
    attacker : Attacker
        Norm inf, eps 1; columns that rules leave alone are frozen, others move only the way that rules move them.
    columns : dict of StretchedColumn
        The columns that move, by index.
    """

    attacker: Attacker
    columns: dict[int, StretchedColumn]

    @classmethod
    def of(cls, X: NDArray[np.float64], attacker: Attacker) -> RuleReach:
        """Return what rules, of which all columns are known by index, make of some rows."""
        n_features = X.shape[1]
        moves = attacker.moves(n_features)
        ends = [*_ends_of_columns(X, moves), *_ends_of_groups(moves)]
        columns = {f: StretchedColumn.of(of) for f, of in ends if (of.least < of.greatest).any()}
        if not columns:
            raise AttackerError(
                "Expected rules that change a value of the training rows within the budget, got none; raise the budget,"
                " or train without an attacker."
            )
        scale, direction = np.ones((2, n_features)), dict[int | str, str]()
        for f, column in columns.items():
            direction[f] = "up" if column.down == 0 else "down" if column.up == 0 else "both"
            scale[:, f] = column.down or 1.0, column.up or 1.0
        frozen = [f for f in range(n_features) if f not in columns]
        return cls(Attacker(np.inf, 1.0, (scale[0], scale[1]), frozen, direction=direction), columns)

    def stretch(self, X: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return rows as trees are trained on them."""
        X = X.copy()
        for f, column in self.columns.items():
            X[:, f] = column.stretch(X[:, f])
        return X

    def restore(self, ensemble: TreeEnsemble) -> TreeEnsemble:
        """Return trees that were trained on stretched rows as trees for rows as they are."""
        threshold = ensemble.threshold.copy()
        for f, column in self.columns.items():
            here = ensemble.feature == f
            threshold[here] = column.restore(threshold[here])
        return ensemble.replace(threshold=threshold)


def _ends_of_columns(X: NDArray[np.float64], moves: Moves) -> list[tuple[int, Ends]]:
    found = []
    for f in [variable for variable in moves.choices if variable < moves.n_features]:
        values = np.unique(X[~np.isnan(X[:, f]), f])
        menus = [[value for value, _ in moves.price_list(f, start)] for start in values.tolist()]
        found.append((f, Ends(values, np.array([*map(min, menus)]), np.array([*map(max, menus)]))))
    return found


def _ends_of_groups(moves: Moves) -> list[tuple[int, Ends]]:
    """Return the ends of one-hot columns, each for itself: 1 if a rule leads there, 0 if one leads elsewhere."""
    found = []
    for variable, group in enumerate(moves.groups, moves.n_features):
        menus = [moves.price_list(variable, float(place)) for place in range(len(group))]
        entered = {int(target) for place, menu in enumerate(menus) for target, _ in menu if target != place}
        for place, column in enumerate(group):
            least, greatest = [0.0, float(len(menus[place]) == 1)], [float(place in entered), 1.0]
            found.append((column, Ends(np.array([0.0, 1.0]), np.array(least), np.array(greatest))))
    return found


def _furthest(distance: NDArray[np.float64]) -> float:
    """Return the largest of some rounded distances, rounded up; 0 if all are."""
    largest = float(distance.max())
    return float(np.nextafter(largest, np.inf)) if largest > 0 else 0.0

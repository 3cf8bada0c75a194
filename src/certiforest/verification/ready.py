"""Ready: all that answers questions about rows, for one ensemble and one attacker, made when it is first asked for."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any

from certiforest.attack.attacker import Attacker
from certiforest.ensemble import TreeEnsemble
from certiforest.verification.first_look import FirstLook
from certiforest.verification.prepared import Prepared
from certiforest.verification.roads import Roads
from certiforest.verification.sums import Sums
from certiforest.verification.votes import Votes


class Ready:
    """What is made once from an ensemble and an attacker, when the first rows come, and asked for every row.

    It pickles as what it is made from.
    """

    def __init__(self, ensemble: TreeEnsemble, attacker: Attacker, margin: float) -> None:
        self._made_from = ensemble, attacker, margin

    @classmethod
    def again(cls, ensemble: TreeEnsemble, attacker: Attacker, margin: float) -> Ready:
        """Return what was made when the ensemble was last asked about, if that is the same; none of it ever changes."""
        last = ensemble.kept.get("ready")
        if last is None or last._made_from[1:] != (attacker, margin):
            last = ensemble.kept["ready"] = cls(ensemble, attacker, margin)
        return last

    def __reduce__(self) -> tuple[Any, ...]:
        return Ready, self._made_from

    @cached_property
    def prepared(self) -> Prepared:
        """The ensemble against the attacker."""
        ensemble, attacker, _ = self._made_from
        return Prepared(ensemble, attacker)

    @cached_property
    def screen(self) -> Votes | Sums:
        """What decides whole blocks of rows, tree by tree, as far as that goes."""
        return _screen(self.prepared, self._made_from[2])

    @cached_property
    def box_screen(self) -> Votes | Sums | None:
        """A screen for someone who may spend the whole budget on each feature; None if the budget is not of that kind.

        A row that it calls stable needs no tables for a proof: each tree may do its worst.
        """
        ensemble, attacker, margin = self._made_from
        if margin > 0 or self.prepared.is_box:
            return self.screen if margin == 0 else None
        if attacker.norm == 0 or not (attacker.has_norm and self.prepared.moves.is_plain):
            return None
        return _screen(Prepared(ensemble, attacker.replace(norm=math.inf)))

    @cached_property
    def first_look(self) -> FirstLook:
        """What settles rows at which trees meet, many at once; no margin is kept."""
        return FirstLook(self.prepared)

    @cached_property
    def roads(self) -> Roads:
        """What decides single rows."""
        return Roads(self.prepared, self._made_from[2])


def _screen(prepared: Prepared, margin: float = 0.0) -> Votes | Sums:
    return Votes(prepared) if prepared.ensemble.combine == "vote" else Sums(prepared, margin)

"""Ready: all that answers questions about rows, for one ensemble and one attacker, made when it is first asked for."""

from __future__ import annotations

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
        ensemble, _, margin = self._made_from
        return Votes(self.prepared) if ensemble.combine == "vote" else Sums(self.prepared, margin)

    @cached_property
    def first_look(self) -> FirstLook:
        """What settles rows at which trees meet, many at once; no margin is kept."""
        return FirstLook(self.prepared)

    @cached_property
    def roads(self) -> Roads:
        """What decides single rows."""
        return Roads(self.prepared, self._made_from[2])

"""Verdicts: what can be said about a row, in numbers, in the paper's names and in plain words."""

from __future__ import annotations

from enum import IntEnum

STABLE, UNSTABLE, UNKNOWN = 1, 0, -1


class Verdict(IntEnum):
    """What is proved about a labelled row.

    A row is *stable* if no attack changes the prediction, and *robust* if it is stable and predicted right. The names
    are the paper's; `words` are for people.
    """

    ROBUST = 0  #: predicted right, stable
    FRAGILE = 1  #: predicted right, an attack changes it
    VULNERABLE = 2  #: predicted wrong, stable
    BROKEN = 3  #: predicted wrong, an attack changes it
    UNKNOWN = 4  #: neither stability nor an attack could be proved

    @property
    def words(self) -> str:
        """The verdict as people read it, for example "wrong, cannot be changed"."""
        return _WORDS[self]


_WORDS = {
    Verdict.ROBUST: "right, cannot be changed",
    Verdict.FRAGILE: "right, can be changed",
    Verdict.VULNERABLE: "wrong, cannot be changed",
    Verdict.BROKEN: "wrong, can be changed",
    Verdict.UNKNOWN: "not decided",
}


class Method(IntEnum):
    """What decided a row."""

    COMPOSED = 0  #: tree by tree: no trees meet, the row withstands each at its worst, or is itself within the margin
    BOUNDED = 1  #: the worst leaf in reach of each tree, taken together, is not enough for any rival
    PROVED = 2  #: tables found by message passing decide, or the attack they lead to; or each single move was tried
    SOLVED = 3  #: the same after cutting what is in reach into parts, or not decided in time
    NONE = 4  #: never looked at: Ctrl-C came before
    SPARED = 5  #: not attacked, by who attacks

"""Attacker: how far a row may be moved at test time, which features may move, and which way."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from certiforest.attack.choices import Categories, Choice, OneHot
from certiforest.attack.moves import DOWN, UP, Moves, Numbers
from certiforest.attack.parameters import OPTIONS as PLAIN_OPTIONS
from certiforest.attack.parameters import (
    AttackerError,
    Column,
    Option,
    called,
    check_eps,
    check_norm,
    find_columns,
    per_feature,
)
from certiforest.attack.relations import Relation, read_relations
from certiforest.attack.units import DOMAIN, SCALE, Pair, domain_by_index, scale_by_index
from certiforest.ensemble.described import Kind
from certiforest.ensemble.numbers import Immutable
from certiforest.files import write_atomically
from certiforest.words import shown

OPTIONS = {
    **{"scale": SCALE, "frozen": PLAIN_OPTIONS["frozen"], "domain": DOMAIN},
    **PLAIN_OPTIONS,
    "relations": Option(
        read_relations,
        lambda relations: [relation.document() for relation in relations],
        show=lambda relations: str([relation.document() for relation in relations]),
    ),
}
DESCRIBED = Kind("an attacker", "certiforest attacker", AttackerError)


class Attacker(Immutable):
    """Someone who may move a row by at most ``eps`` in an L_p norm.

    A column is an index or a name; names are those of the model that is attacked.

    Parameters
    ----------
    norm : int, float or str
        p: 0, 1, 2, 3, ... or ``np.inf``; also ``"l0"``, ``"l1"``, ``"l2"``, ``"linf"``, ``"inf"``.
    eps : float
        Largest norm of the change, >= 0. For norm 0 it counts changed features.
    scale : float or array-like of shape (n_features,), a pair of these, or mapping of columns to units, optional
        Unit of each feature: a change of ``scale[f]`` in feature ``f`` costs 1. All ones if not given. A tuple of two,
        or ``{"down": ..., "up": ...}``, is a pair: the unit of moves down, and that of moves up. By column, such as
        ``{"age": 5, "income": (100, 500)}`` or a series of pandas, all columns that can be changed are to be named;
        `scale_from` takes units from a table.
    frozen : iterable of columns, or boolean mask of shape (n_features,), optional
        Features that cannot be changed.
    domain : pair of float or array-like of shape (n_features,), or mapping of columns to pairs, optional
        Smallest and largest value of the features. The attacker stays inside, and so must the rows.
    direction : "up", "down", "both", mapping of columns to these, or of these to lists of columns, optional
        Which way features can be moved, such as ``{"age": "up"}`` or ``{"up": ["age"]}``; those that a mapping does
        not name, both ways.
    integer : iterable of columns, or boolean mask of shape (n_features,), optional
        Features whose values are whole numbers and stay whole.
    groups : iterable of lists of columns, optional
        One-hot columns that are one variable: exactly one is 1 and the others are 0, in rows and after the attack. A
        change of category is a move of 1 (norm 0: a change of one feature). The columns have one scale, and are frozen
        all or none.
    categories : mapping of columns to float, optional
        What a change of category costs, in units of eps, in columns that the model tests for sets of values; those that
        are not named cannot be changed. Norm 0: a change of one feature, whatever it costs.
    missing : float, optional
        What it costs, in units of eps, to blank a value, or to fill one that is missing with any value of the domain;
        norm 0: a change of one feature. It holds for columns that are neither frozen nor in groups, if the model has a
        place for missing values; for columns of categories, if they are named there. If not given, what is missing
        stays so, and nothing else goes missing.
    only : iterable of columns, or boolean mask of shape (n_features,), optional
        The features that can be changed: all others are frozen. Not together with ``frozen``.
    strict : bool, optional
        Refuse rows that break a relation themselves. If not given, the relations that a row breaks do not bind it.
    relations : list of text or mappings, optional
        What ties columns together: the attacker may only produce rows that keep it, exactly. Linear (``"a + 2 b <= c +
        1"``), an implication (``{"if": "n > 0", "then": "m > 0"}``), or values (``{"column": "term", "values": [36,
        60]}``); see ``docs/relations.md``. Not together with ``missing``.

    Examples
    --------
    >>> Attacker("linf", 0.1)
    Attacker(norm=inf, eps=0.1)
    >>> Attacker(2, 0.5, frozen=[0, 3], domain=(0, 1))
    Attacker(norm=2, eps=0.5, frozen=[0, 3], domain=(0, 1))
    >>> Attacker(1, 4096, direction={"SizeOfImage": "up"}, integer=["SizeOfImage"], groups=[["dll", "exe"]])
    Attacker(norm=1, eps=4096.0, direction={'SizeOfImage': 'up'}, integer=['SizeOfImage'], groups=[['dll', 'exe']])
    """

    norm: float
    eps: float
    scale: NDArray[np.float64] | tuple[NDArray[np.float64], NDArray[np.float64]] | dict[Column, Pair] | None
    frozen: NDArray | tuple[Column, ...] | None
    domain: tuple[NDArray[np.float64], NDArray[np.float64]] | dict[Column, Pair] | None
    direction: str | dict[Column, str] | None
    integer: NDArray | tuple[Column, ...] | None
    groups: tuple[tuple[Column, ...], ...] | None
    categories: dict[Column, float] | None
    missing: float | None
    only: NDArray | tuple[Column, ...] | None
    strict: bool | None
    relations: tuple[Relation, ...] | None

    def __init__(
        self,
        norm: float | str = np.inf,
        eps: float = 0.0,
        scale: ArrayLike | tuple[ArrayLike, ArrayLike] | Mapping[Column, Any] | None = None,
        frozen: Iterable[Column] | None = None,
        domain: tuple[ArrayLike, ArrayLike] | Mapping[Column, tuple[float, float]] | None = None,
        *,
        direction: str | Mapping[Any, Any] | None = None,
        integer: Iterable[Column] | None = None,
        groups: Iterable[Iterable[Column]] | None = None,
        categories: Mapping[Column, float] | None = None,
        missing: float | None = None,
        only: Iterable[Column] | None = None,
        strict: bool | None = None,
        relations: Iterable[str | Mapping[str, Any] | Relation] | None = None,
    ) -> None:
        norm = check_norm(norm)
        told = (scale, frozen, domain, direction, integer, groups, categories, missing, only, strict, relations)
        checked = {
            name: None if value is None else option.check(value, name)
            for (name, option), value in zip(OPTIONS.items(), told, strict=True)
        }
        self._set(norm=norm, eps=check_eps(eps, norm), **checked)
        if only is not None and frozen is not None:
            raise AttackerError("Expected only or frozen, got both: leave one of them out.")
        if self.relations and missing is not None:
            raise AttackerError(
                "Expected no relations where values can go missing, since they say nothing of these: leave missing out."
            )

    def __repr__(self) -> str:
        parts = [f"norm={self.norm}", f"eps={self.eps}"]
        parts += [
            f"{name}={option.show(getattr(self, name))}"
            for name, option in OPTIONS.items()
            if getattr(self, name) is not None
        ]
        return f"Attacker({', '.join(parts)})"

    def __eq__(self, other: object) -> bool:
        """Two attackers are equal iff they were told the same."""
        if not isinstance(other, Attacker):
            return NotImplemented
        return self is other or self.to_document() == other.to_document()

    def __hash__(self) -> int:
        return hash((self.norm, self.eps))

    def with_eps(self, eps: float) -> Attacker:
        """Return the same attacker with another budget."""
        same = object.__new__(type(self))
        same._set(**{**vars(self), "eps": check_eps(eps, self.norm)})
        return same

    def replace(self, **changes: Any) -> Attacker:
        """Return the same attacker with other parameters."""
        same = {name: getattr(self, name) for name in ("norm", "eps", *OPTIONS)}
        return Attacker(**(same | changes))

    def resolve(
        self, n_features: int, names: Sequence[str] | None = None, of_sets: Iterable[int] | NDArray[np.int64] = ()
    ) -> Attacker:
        """Return the attacker of rows that have so many features, of these names: all columns by index, all checked.

        Columns that a model tests for sets of values, ``of_sets``, need no unit.
        """
        if vars(self).get("resolved_for") == n_features:  # once is enough
            return self
        groups = None
        if self.groups is not None:
            groups = [find_columns(group, n_features, names, "groups") for group in self.groups]
        relations = None
        if self.relations is not None:
            relations = [
                relation.by(lambda column: find_columns([column], n_features, names, "relations")[0])
                for relation in self.relations
            ]
        options = ("frozen", "integer", "direction", "categories", "only")
        by_index = {name: self._found(name, n_features, names) for name in options}
        if (moving := by_index.pop("only")) is not None:
            by_index |= {"only": None, "frozen": np.setdiff1d(np.arange(n_features), moving).tolist()}
        by_index["domain"] = domain_by_index(self.domain, n_features, names)
        found = self.replace(groups=groups, relations=relations, scale=None, **by_index)
        needs = ~found.is_frozen(n_features)
        needs[[*(found.categories or ()), *of_sets]] = False
        if self.scale is not None:
            found = found.replace(scale=scale_by_index(self.scale, needs, names))
        found._check_groups(n_features)
        found._check_relations(n_features, names)
        of_numbers = found.is_integer(n_features)
        of_numbers[np.array(list(found.direction if isinstance(found.direction, dict) else ()), np.int64)] = True
        for column in np.intersect1d(list(found.categories or ()), np.flatnonzero(of_numbers)).tolist():
            raise AttackerError(
                f"Expected column {called(names, column)} of categories in no group, and neither integer nor with a"
                " direction, got it there, too."
            )
        found._set(resolved_for=n_features)
        return found

    def _found(self, option: str, n_features: int, names: Sequence[str] | None) -> Any:
        """Return an option, a word for all columns or some by name, index, mask or mapping, by index."""
        columns = getattr(self, option)
        if columns is None or isinstance(columns, str):
            return columns
        if isinstance(columns, np.ndarray) and columns.dtype == bool:
            return np.flatnonzero(per_feature(columns, n_features, option)).tolist()
        found = find_columns(list(columns), n_features, names, option)
        return dict(zip(found, columns.values(), strict=True)) if isinstance(columns, dict) else found

    def _check_groups(self, n_features: int) -> None:
        """Refuse groups whose columns are treated differently."""
        scale, (low, high) = self.scales(n_features), self.bounds(n_features)
        frozen, may_move = self.is_frozen(n_features), self.may_move(n_features)
        for number, group in enumerate(self.group_columns):
            columns = list(group)
            if np.unique(scale[:, columns]).size > 1:
                raise AttackerError(f"Expected one scale for all columns of group {number}, got several.")
            if frozen[columns].any() != frozen[columns].all():
                raise AttackerError(f"Expected all columns of group {number} to be frozen, or none, got some of them.")
            if not (may_move[:, columns] | frozen[columns]).all():
                raise AttackerError(
                    f"Expected columns of group {number} to move both ways, since a change of category moves one up and"
                    " one down, got a direction; give directions by column, or freeze the group."
                )
            if (low[columns] > 0).any() or (high[columns] < 1).any():
                raise AttackerError(f"Expected a domain that holds 0 and 1 for columns of group {number}, got another.")

    def _check_relations(self, n_features: int, names: Sequence[str] | None) -> None:
        """Refuse relations of categories, and those that no row of the domain keeps."""
        ends = [dict(enumerate(ends.tolist())) for ends in self.bounds(n_features)]
        for group in self.group_columns:
            for end, value in zip(ends, (0.0, 1.0), strict=True):
                end.update(dict.fromkeys(group, value))
        for relation in self.relations or ():
            column = next((column for column in relation.columns if column in (self.categories or {})), None)
            if column is not None:
                which = called(names, column)
                told = relation.worded(names)
                raise AttackerError(f"Expected relations of numbers, got column {which} of categories in {told}.")
            if relation.is_kept_between(*ends) is False:
                told = relation.worded(names)
                raise AttackerError(f"Expected relations that rows of the domain can keep, got {told}.")

    def to_document(self) -> dict[str, Any]:
        """Return the attacker as it is written to files: plain lists, numbers and text, infinities as text."""
        document: dict[str, Any] = {"norm": "inf" if self.norm == math.inf else int(self.norm), "eps": self.eps}
        document |= {"scale": None, "frozen": None, "domain": None}
        told = {name: getattr(self, name) for name in OPTIONS}
        return document | {name: OPTIONS[name].write(value) for name, value in told.items() if value is not None}

    @classmethod
    def from_document(cls, document: Any) -> Self:
        """Read what `to_document` returns; all entries but norm and eps may be missing."""
        known = {"norm", "eps", *OPTIONS}
        if not isinstance(document, dict) or not {"norm", "eps"} <= set(document) <= known:
            raise AttackerError(
                f"Expected an attacker with norm, eps and, if you like, {', '.join(OPTIONS)}, got "
                + (f"the entries {shown(sorted(document))}." if isinstance(document, dict) else f"{shown(document)}.")
            )
        told = {name: document[name] for name in OPTIONS if document.get(name) is not None}
        return cls(document["norm"], document["eps"], **{name: OPTIONS[name].read(told[name]) for name in told})

    def save(self, path: str | os.PathLike[str], *, replace: bool = True) -> None:
        """Write the attacker as JSON text, to be edited and loaded; the file appears whole or not at all."""
        text = json.dumps(DESCRIBED.with_header(self.to_document()), indent=2, allow_nan=False)
        write_atomically(path, text + "\n", replace=replace)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read an attacker that `save` wrote, or that was written by hand (``docs/choosing.md``)."""
        return DESCRIBED.read_file(path, lambda document: cls.from_document(DESCRIBED.without_header(document)))

    @property
    def can_move(self) -> bool:
        """Whether any change at all is within the budget."""
        return self.eps >= 1 if self.norm == 0 else self.eps > 0

    @property
    def group_columns(self) -> tuple[tuple[int, ...], ...]:
        """The columns of each group, by index; see `resolve`."""
        return () if self.groups is None else tuple(tuple(map(int, group)) for group in self.groups)

    @property
    def has_norm(self) -> bool:
        """Whether moves have sizes, so that a row has a radius."""
        return True

    def moves(self, n_features: int) -> Moves:
        """Return what may be done with each variable; columns are by index, see `resolve`."""
        whole = self.is_integer(n_features)
        numbers = Numbers(self.scales(n_features), self.may_move(n_features), *self.bounds(n_features), whole)
        choices = self._choices(n_features)
        relations, is_strict = self.relations or (), bool(self.strict)
        return Moves(self.norm, self.eps, numbers, choices, self.missing, relations, is_strict=is_strict)

    def _choices(self, n_features: int) -> Mapping[int, Choice]:
        """Return the variables that take one of a few values; see `Moves`."""
        unit = np.where(self.is_frozen(n_features), 0.0, self.scales(n_features)[0])
        costs = {int(column): cost for column, cost in (self.categories or {}).items() if unit[int(column)]}
        groups = [OneHot(group, float(unit[group[0]])) for group in self.group_columns]
        return {f: Categories((f,), cost) for f, cost in costs.items()} | dict(enumerate(groups, n_features))

    def scales(self, n_features: int) -> NDArray[np.float64]:
        """Return the unit of each feature, of moves down and of moves up, shape (2, n_features)."""
        if isinstance(self.scale, dict):  # by index, of an attacker that is not resolved: all of them
            return self.resolve(n_features).scales(n_features)
        if not isinstance(self.scale, tuple):
            scale = np.ones(()) if self.scale is None else self.scale
            return np.stack([per_feature(scale, n_features, "scale")] * 2)
        down, up = self.scale
        if n_features == 2 and down.ndim == up.ndim == 0:
            raise AttackerError(
                "Expected a scale that can be read one way only, got a pair of numbers for two features; give a list"
                " for one number per feature, or a pair of lists (down, up)."
            )
        return np.stack([per_feature(half, n_features, "scale") for half in (down, up)])

    def scale_of(self, n_features: int) -> NDArray[np.float64]:
        """Return the unit of each feature, the larger one where those of two directions differ, shape (n_features,)."""
        return self.scales(n_features).max(axis=0)

    def is_frozen(self, n_features: int) -> NDArray[np.bool_]:
        """Return which features cannot be changed, shape (n_features,)."""
        return self._mask("frozen", n_features) if self.only is None else ~self._mask("only", n_features)

    def is_integer(self, n_features: int) -> NDArray[np.bool_]:
        """Return which features are whole numbers, those of groups included, shape (n_features,)."""
        mask = self._mask("integer", n_features)
        for group in self.group_columns:
            mask[list(group)] = True
        return mask

    def is_stuck(self, n_features: int) -> NDArray[np.bool_]:
        """Return which whole features the budget moves by less than 1, so that they stay, shape (n_features,)."""
        step = self.scales(n_features).max(axis=0) * self.eps  # if it is 1 or more, it is so when rounded
        return self._mask("integer", n_features) & (step < 1.0) & (self.norm != 0)

    def may_move(self, n_features: int) -> NDArray[np.bool_]:
        """Return which features can be moved down, and which up, shape (2, n_features)."""
        may_move, direction = np.tile(~self.is_frozen(n_features), (2, 1)), self.direction
        for way, other in (("up", DOWN), ("down", UP)):
            if isinstance(direction, dict):
                named = [column for column, word in direction.items() if word == way]
                may_move[other, find_columns(named, n_features, None, "direction")] = False
            elif direction == way:
                may_move[other] = False
        return may_move

    def _mask(self, option: str, n_features: int) -> NDArray[np.bool_]:
        mask, columns = np.zeros(n_features, bool), getattr(self, option)
        if isinstance(columns, np.ndarray) and columns.dtype == bool:
            return per_feature(columns, n_features, option)
        if columns is not None:
            mask[find_columns(columns, n_features, None, option)] = True
        return mask

    def bounds(self, n_features: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the smallest and largest value of each feature, each of shape (n_features,)."""
        if self.domain is None:
            return np.full(n_features, -np.inf), np.full(n_features, np.inf)
        domain = domain_by_index(self.domain, n_features, None)
        low, high = (per_feature(bound, n_features, "domain") for bound in domain)
        return low, high

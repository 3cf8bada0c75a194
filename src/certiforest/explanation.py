"""Explanation: one row looked at closely: what an attacker changes and why that is enough, or what protects it."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from certiforest.attack.attacker import Attacker
from certiforest.certificates import Certificates
from certiforest.certification import certify
from certiforest.ensemble import TreeEnsemble
from certiforest.ensemble.frames import one_row
from certiforest.ensemble.rows import RowError
from certiforest.ensemble.scaling import Scaling
from certiforest.ensemble.tree_kernels import find_leaf
from certiforest.formats import as_ensemble
from certiforest.problem.around_row import RowProblem
from certiforest.problem.verifier import Verifier
from certiforest.proof.search import parts_of
from certiforest.report.attackers import describe_attacker
from certiforest.report.explained import explanation_page
from certiforest.report.findings import digest, feature_names_of
from certiforest.report.sections import Page
from certiforest.report.shown import Shown
from certiforest.report.witnesses import differ, list_changes, trim
from certiforest.statements.boxes import Side, largest_box, list_sides
from certiforest.statements.domain import Domain
from certiforest.statements.space import Space
from certiforest.verdicts import STABLE, UNSTABLE
from certiforest.words import finite_or_none

# A smallest set of features to freeze is looked for among sets up to this size, for so many seconds; as many again are
# spent on each feature alone.
LARGEST_SET, MOST_SECONDS = 4, 20.0


@dataclass(frozen=True, repr=False)
class Explanation(Shown):
    """What `explain` found out about a row.

    Attributes
    ----------
    found : Certificates
        Verdict, radius, witness and proof of the row.
    witness : ndarray of float64, shape (n_features,), or None
        A row within reach that is predicted otherwise, without changes that it does not need; None if there is none.
    freeze : tuple of int, or None
        Features that, could they not be changed, would make an unstable row stable; None if that was not found out. A
        group of columns is named by its first. In a domain: a sufficient reason, as their values alone fix what is
        predicted. Without any one of them the others were not found to do so.
    freeze_is_smallest : bool
        Whether no smaller set of features does so.
    box : list of Side, or None
        In a domain: how far columns of numbers among these may go, all at once, while the decision stays whatever
        other columns are; those of categories and groups keep their values. No side can be extended.
    facts : dict
        All of it as plain data, ready for JSON: prediction, changes, trees, radius of each feature alone.
    """

    found: Certificates
    witness: NDArray[np.float64] | None
    freeze: tuple[int, ...] | None
    freeze_is_smallest: bool
    box: list[Side] | None
    facts: dict[str, Any]

    @property
    def page(self) -> Page:
        """The explanation as sections."""
        return explanation_page(self.facts)


def explain(
    model: Any,
    x: Any,
    attacker: Attacker | Domain,
    *,
    time_limit: float = 1.0,
    feature_names: Sequence[str] | None = None,
    scaling: Scaling | None = None,
    image_shape: tuple[int, int] | None = None,
    name: str = "the row",
    about: dict[str, Any] | None = None,
) -> Explanation:
    """Explain one row: what the attacker changes and why that is enough, or what protects the row.

    Parameters
    ----------
    model : TreeEnsemble, fitted model or path
        Anything that `as_ensemble` takes.
    x : array-like of shape (n_features,) or (1, n_features), data frame of one row, series or mapping with names
    attacker : Attacker or Domain
        A domain: one who may go anywhere in it, plausible or not; of columns with listed numbers, to any between them.
    time_limit : float, default=1.0
        Seconds for each of the questions that are asked, as in `certify`.
    feature_names : sequence of str, optional
        Those of the model if not given.
    scaling : Scaling, optional
        Shows changes in the units of the data; that of the model if not given.
    image_shape : pair of int, optional
        The row is a picture of this many rows and columns of pixels.
    name : str, default="the row"
        What to call it.
    about : dict, optional
        What else the page shall say about where model and row come from.

    Examples
    --------
    >>> from certiforest import Attacker, TreeEnsemble, explain
    >>> stump = TreeEnsemble([0, -1, -1], [0.5, 0, 0], [-1, 0, 1], n_features=1, classes=["ham", "spam"])
    >>> e = explain(stump, [0.45], Attacker("linf", 0.1))
    >>> e.facts["changes"][0]["to"], [stump.feature_names or "feature 0" for _ in e.freeze]
    (0.5000000000000001, ['feature 0'])
    """
    ensemble = as_ensemble(model)
    x, space = _one_row(x, ensemble), None
    if isinstance(attacker, Domain):
        space = Space([ensemble], attacker)
        if (outside := np.flatnonzero(np.isnan(x) & ~space.may_miss)).size:
            raise RowError(f"Expected a row of the domain, got a missing value of {attacker.name(int(outside[0]))}.")
        attacker = space.attacker
    names = feature_names_of(feature_names or ensemble.feature_names, ensemble.n_features, image_shape)
    scaling = ensemble.scaling if scaling is None else scaling
    questions = _Questions(ensemble, x, attacker, time_limit)
    found = questions.ask(proof=True)
    if questions.attacker.has_norm:
        measured = questions.ask(radius=True, witness=False)
        found = replace(found, radius=measured.radius, radius_upper=measured.radius_upper)
    witness, freeze, is_smallest = questions.attack_in(found), None, False
    changed = frozenset() if witness is None else questions.changed(witness)
    if changed and questions.attacker.has_norm:
        freeze, is_smallest = _smallest_freeze(questions, changed)
    box = questions.box(freeze) if freeze is not None and space is not None else None
    alone, is_complete = questions.each_alone(names, changed)
    facts: dict[str, Any] = {
        "name": name,
        "attacker": describe_attacker(questions.attacker, names),
        "scaled": scaling is not None,
        "prediction": str(found.prediction[0]),
        "stable": int(found.stable[0]),
        "method": str(found.method[0]),
        "radius": _bounds(found) if questions.attacker.has_norm else None,
        "alone": alone,
        "alone_is_complete": is_complete,
        **_lead_by_trees(ensemble, x, questions.attacker, witness),
        "changes": [] if witness is None else list_changes(x, witness, names, scaling, ensemble.categories),
        "changed_prediction": None if witness is None else str(ensemble.predict(witness[None])[0]),
        "freeze": None if freeze is None else [_name(questions.columns[variable], names) for variable in freeze],
        "freeze_is_smallest": is_smallest,
        "box": None if box is None else list_sides(box, names),
        "can_freeze": questions.attacker.has_norm,
        "proof": _size_of_proof(found),
        "model": {"sha256": ensemble.sha256},
        "data": {"rows_sha256": digest(x)},
        "origin": {**(found.about or {}), **(about or {})},
    }
    if image_shape is not None and np.isfinite(x).all():
        facts["original"] = x.reshape(image_shape).tolist()
        facts["witness"] = (x if witness is None else witness).reshape(image_shape).tolist()
    return Explanation(found, witness, freeze, is_smallest, box, facts)


def _one_row(x: Any, ensemble: TreeEnsemble) -> NDArray[np.float64]:
    x = one_row(x, ensemble.feature_names)
    if not hasattr(x, "columns") and np.ndim(x) == 1:
        x = np.asarray(x)[None]
    rows = ensemble.rows(x)
    if len(rows) != 1:
        raise RowError(f"Expected one row to explain, got {len(rows)}.")
    return rows[slice(0, 1)][0]


class _Questions:
    """Asks about one row with more and more features frozen; a group is frozen whole, and named by its first column.

    Attributes
    ----------
    attacker : Attacker
        With columns by index.
    columns : dict of int and list of int
        The columns of each variable: a feature, or a group by its first column.
    """

    def __init__(self, ensemble: TreeEnsemble, x: NDArray[np.float64], attacker: Attacker, time_limit: float) -> None:
        self.ensemble, self.x, self._time_limit = ensemble, x, time_limit
        self.attacker = attacker.resolve(ensemble.n_features, ensemble.feature_names, ensemble.categorical)
        self._already = set(np.flatnonzero(self.attacker.is_frozen(ensemble.n_features)).tolist())
        self.columns = {f: [f] for f in range(ensemble.n_features)}
        for group in self.attacker.group_columns:
            for column in group:
                del self.columns[column]
            self.columns[min(group)] = list(group)

    def ask(self, frozen: Iterable[int] = (), **options: Any) -> Certificates:
        """Certify the row while these variables, too, cannot be changed."""
        attacker, more = self.attacker, {column for variable in frozen for column in self.columns[variable]}
        if more:
            attacker = attacker.replace(frozen=sorted(self._already | more))
        options = {"witness": True, "time_limit": self._time_limit, **options}
        return certify(self.ensemble, self.x[None], None, attacker, **options).unless_interrupted()

    def attack_in(self, found: Certificates) -> NDArray[np.float64] | None:
        """Return the witness without changes that it does not need; None if there is none."""
        if found.witness is None or found.stable[0] != UNSTABLE or np.isnan(found.witness[0]).all():
            return None
        return trim(self.ensemble, self.x[None], found.witness, self.attacker)[0]

    def box(self, freeze: Iterable[int]) -> list[Side]:
        """Return how far numbers among some variables may go, in a domain, while others go anywhere."""
        ensemble, attacker = self.ensemble, self.attacker
        assert isinstance(attacker.domain, tuple)  # it is resolved
        is_whole = attacker.moves(ensemble.n_features).numbers.is_whole
        stay = {*ensemble.categorical.tolist(), *(ensemble.blanks or {}), *np.flatnonzero(np.isnan(self.x)).tolist()}
        grown = [v for v in freeze if self.columns[v] == [v] and v not in stay]
        held = sorted(self._already | {f for v in freeze if v not in grown for f in self.columns[v]})
        present = ensemble
        if ensemble.missing_left is not None:  # none of these is missing
            present = ensemble.replace(required=sorted({*ensemble.required, *grown}))

        def ask(low: NDArray[np.float64], high: NDArray[np.float64]) -> tuple[bool | None, NDArray[np.float64] | None]:
            inside = attacker.replace(domain=(low, high), frozen=held)
            found = certify(present, self.x[None], None, inside, witness=True, time_limit=self._time_limit)
            assert found.witness is not None
            stable, z = found.unless_interrupted().stable[0], found.witness[0]
            return {STABLE: True, UNSTABLE: False}.get(stable), None if np.isnan(z).all() else z

        return largest_box(ensemble, self.x, attacker.domain, grown, is_whole, ask)

    def changed(self, z: NDArray[np.float64]) -> frozenset[int]:
        """Return the variables that differ."""
        at = differ(self.x, z)
        return frozenset(variable for variable, columns in self.columns.items() if at[columns].any())

    def each_alone(self, names: Sequence[str], first: frozenset[int]) -> tuple[list[dict[str, Any]], bool]:
        """Return the radius of the row if one variable alone can be changed, the smallest first, none if infinite.

        Also tell whether all variables were tried before time was up; ``first`` come first.
        """
        used = set(self.ensemble.feature[self.ensemble.feature >= 0].tolist()) - self._already
        used = used if self.attacker.has_norm else set()
        entries, end = [], time.monotonic() + MOST_SECONDS
        tried = [variable for variable, columns in self.columns.items() if used & set(columns)]
        for variable in sorted(tried, key=lambda variable: variable not in first):
            if time.monotonic() > end:
                break
            radius = _bounds(self.ask(set(self.columns) - {variable}, radius=True, witness=False))
            if radius[1] is not None:
                entries.append((radius[1], variable, radius))
        else:
            end = math.inf
        return [
            {"feature": _name(self.columns[variable], names), "radius": radius}
            for _, variable, radius in sorted(entries, key=lambda entry: entry[:2])
        ], end == math.inf


def _name(columns: Sequence[int], names: Sequence[str]) -> str:
    return " or ".join(names[column] for column in columns)


def _bounds(found: Certificates) -> list[float | None]:
    """Return the smallest and largest that the radius may be; null for infinity."""
    assert found.radius is not None
    assert found.radius_upper is not None
    return [finite_or_none(float(found.radius[0])), finite_or_none(float(found.radius_upper[0]))]


def _smallest_freeze(questions: _Questions, changed: frozenset[int]) -> tuple[tuple[int, ...] | None, bool]:
    """Return features that, frozen, make the row stable, and whether no smaller set does.

    Every attack changes some feature that is to be frozen. So a smallest set that meets all attacks known so far is
    frozen, and either the row is stable, or there is one more attack to meet. Where that takes too long, all features
    are, and those are left out without which the row is as stable.
    """
    attacks, end, is_stable = [changed], time.monotonic() + MOST_SECONDS, False
    while time.monotonic() < end:
        chosen, is_smallest = _meet(attacks)
        found = questions.ask(chosen)
        is_stable = bool(found.stable[0] == STABLE)
        if is_stable and is_smallest:
            return tuple(sorted(chosen)), True
        attack = questions.attack_in(found)
        if attack is None:  # stable, or not found out
            break
        attacks.append(questions.changed(attack))
    if not is_stable:
        chosen = frozenset(questions.columns)
        if questions.ask(chosen).stable[0] != STABLE:
            return None, False
    for variable in sorted(chosen):
        if questions.ask(chosen - {variable}).stable[0] == STABLE:
            chosen -= {variable}
    return tuple(sorted(chosen)), False


def _meet(attacks: list[frozenset[int]]) -> tuple[frozenset[int], bool]:
    """Return a set of features that meets all attacks: a smallest one, or one made greedily if that is large."""
    for size in range(1, LARGEST_SET + 1):
        found = _meet_by(attacks, size)
        if found is not None:
            return found, True
    chosen: set[int] = set()
    while rest := [attack for attack in attacks if not attack & chosen]:
        features = sorted(itertools.chain.from_iterable(rest))
        chosen.add(max(features, key=features.count))
    return frozenset(chosen), False


def _meet_by(attacks: list[frozenset[int]], size: int) -> frozenset[int] | None:
    """Return up to ``size`` features that meet all attacks; None if there are none."""
    if not attacks or not size:
        return None if attacks else frozenset()
    smallest: frozenset[int] = min(attacks, key=len)
    for feature in sorted(smallest):
        others = _meet_by([attack for attack in attacks if feature not in attack], size - 1)
        if others is not None:
            return others | {feature}
    return None


def _lead_by_trees(
    ensemble: TreeEnsemble, x: NDArray[np.float64], attacker: Attacker, witness: NDArray[np.float64] | None
) -> dict[str, Any]:
    """Tell what each tree says for the prediction over its strongest rival: now, at its worst, and on the witness."""
    verifier = Verifier(ensemble, attacker)
    row, gains, y = RowProblem(verifier, x), verifier.gains, verifier.predict(x)
    leaf, first = verifier.ensemble.leaf, row.leaves.first

    def values_at(z: NDArray[np.float64]) -> NDArray[np.int64]:
        return leaf[[find_leaf(verifier.ensemble.trees, tree, z) for tree in range(ensemble.n_trees)]]

    def gain(*values: int) -> int:
        return gains.total(np.array(values, np.int64), y, rival) - base

    def lead(gained: int) -> float:
        return -float(gained * gains.unit)

    values = values_at(x)
    others = [c for c in range(ensemble.n_classes) if c != y]
    rival = max(others, key=lambda c: gains.total(values, y, c)) if witness is None else verifier.predict(witness)
    base = gains.total(np.empty(0, np.int64), y, rival)
    now = list(map(gain, values.tolist()))
    worst = list(now)
    for t, tree in enumerate(row.leaves.name.tolist()):
        worst[tree] = max(map(gain, set(leaf[row.leaves.node[first[t] : first[t + 1]]].tolist())))
    said: dict[str, Any] = {
        "rival": str(ensemble.classes[rival]),
        "votes": ensemble.combine == "vote",
        "lead": lead(sum(now) + base),
        "worst_lead": lead(sum(worst) + base),
        "each_at_worst_is_enough": sum(worst) + base < (rival > y),
        "lead_on_witness": None,
        "n_moved": sum(a != b for a, b in zip(now, worst, strict=True)),
        "trees": [
            {"tree": t, "now": lead(a), "worst": lead(b)} for t, (a, b) in enumerate(zip(now, worst, strict=True))
        ],
    }
    if witness is not None:
        there = values_at(witness)
        said["lead_on_witness"], said["n_turned"] = lead(gain(*there) + base), int((there != values).sum())
    return said


def _size_of_proof(found: Certificates) -> dict[str, int] | None:
    """Count the parts and numbers of a proof; None without one."""
    if found.proof is None or found.proof[0] is None:
        return None
    parts = list(parts_of(found.proof[0]["rivals"]))
    n_numbers = sum(len(table) for part in parts for _, _, table in part.get("tables", ()))
    return {"n_parts": sum("split" not in part for part in parts), "n_numbers": n_numbers}

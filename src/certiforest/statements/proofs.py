"""Proofs of statements, as certificates have them: text that anyone can check with the model file.

The format stands in ``docs/certificate_format.md``; `certiforest.audit` checks it and shares no code with this.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from certiforest.ensemble import ModelError
from certiforest.ensemble.model_file import pieces
from certiforest.files import write_atomically
from certiforest.formats.opened import log_odds
from certiforest.formats.scored import ScoredModel
from certiforest.problem.problem import JointProblem
from certiforest.proof.requirements import Bound, Proof
from certiforest.statements.kinds import Insensitive, Monotone, Range, Same, Statement, StatementError
from certiforest.statements.space import Space

FORMAT, FORMAT_VERSION = "certiforest statements", 1
SUM = "", Fraction(1), Fraction(0)  # a score that is the sum itself
Contents = Callable[[int], list[Any] | None]
Rows = tuple[NDArray[np.float64], NDArray[np.float64]]
Shown = list[tuple[float, float, Any]] | None


def case_of(
    proof: Proof, problem: JointProblem, variables: Sequence[int], tables: NDArray[np.int64], contents: Contents
) -> dict[str, Any] | None:
    """Return what a certificate says of a proof; None if something is left open.

    Parameters
    ----------
    proof : Proof
    problem : JointProblem
    variables : sequence of int
        What a certificate calls each variable.
    tables : ndarray of int64, shape (n_tables,)
        What it calls each table; those below 0 are left out.
    contents : callable
        Returns the values in each cell of a variable, where ends of cells do not tell.
    """
    tree = proof.tree()
    if tree is None:
        return None
    numbers = {number: i for i, number in enumerate(dict.fromkeys(node for node in tree if _is_bound(node)))}
    bounds = [proof.bounds[number] for number in numbers]
    cells, leaves = problem.cells, problem.leaves
    scope = np.repeat(np.arange(len(leaves.scope)), np.diff(leaves.first_segment))
    table, variable = np.repeat(tables, np.diff(leaves.first_scope))[scope], leaves.scope[scope]
    # Only cells that something tells apart are there: those after which there is a cut are the last of such.
    cuts: list[set[int]] = [set() for _ in variables]
    for node in tree:
        if isinstance(node, tuple):
            cuts[node[0]].add(node[1])
    for bound in bounds:
        for g in bound.segment[table[bound.segment] >= 0].tolist():
            cuts[variable[g]] |= {int(leaves.begin[g]) - 1, int(leaves.end[g])}
    lists = [contents(v) if cut else None for v, cut in enumerate(cuts)]
    first = cells.first.tolist()
    inner = [range(first[v], first[v + 1] - 1) for v in range(len(cuts))]
    ends = [
        np.array(inner[v] if lists[v] else sorted(cut.intersection(inner[v])), np.int64) for v, cut in enumerate(cuts)
    ]

    def place(v: int, cell: int) -> int:
        return int(np.searchsorted(ends[v], cell))

    def written(bound: Bound) -> dict[str, Any]:
        found: dict[tuple[int, int], list[int]] = {}
        for g, value in zip(bound.segment.tolist(), bound.value.tolist(), strict=True):
            v = int(variable[g])
            if table[g] >= 0:
                entry = [place(v, int(leaves.begin[g])), place(v, int(leaves.end[g])), value]
                found.setdefault((int(table[g]), v), []).extend(entry)
        said = [[t, variables[v], entries] for (t, v), entries in found.items()]
        shift = {"shift": bound.shift} if bound.shift else {}
        return {"weights": bound.weight, **shift, **({"tables": said} if said else {})}

    return {
        "cells": [[variables[v], lists[v] or cells.top[ends[v]].tolist()] for v, cut in enumerate(cuts) if cut],
        "bounds": [written(bound) for bound in bounds],
        "tree": [
            [variables[node[0]], place(*node)] if isinstance(node, tuple) else numbers.get(node, -1) for node in tree
        ],
    }


def _is_bound(node: Any) -> bool:
    return isinstance(node, int) and node >= 0


def header_of(model: ScoredModel, space: Space, about: dict[str, Any]) -> dict[str, Any]:
    """Return the first line of a certificate: which model, and where inputs lie."""
    ensemble, domain = model.ensemble, space.domain
    plausible = None if domain.plausible is None else json.loads("".join(pieces(domain.plausible)))
    return {
        "format": FORMAT,
        "version": FORMAT_VERSION,
        "model_sha256": ensemble.sha256,
        "classes": ensemble.classes.tolist(),
        "domain": {"columns": space.column_documents(), **({} if plausible is None else {"plausible": plausible})},
        "about": about,
    }


def words_of(statement: Statement, space: Space, other: ScoredModel) -> dict[str, Any]:
    """Return a statement as a certificate has it: columns by index, the other model by its SHA-256."""
    match statement:
        case Range(low, high):
            return {"range": [low if low > -math.inf else None, high if high < math.inf else None]}
        case Insensitive(columns, low, high):
            ends = {} if low is None else {"low": low, "high": high}
            return {"insensitive": space.columns_of(columns), **ends}
        case Monotone(column, direction, tolerance):
            return {"monotone": space.columns_of([column])[0], "direction": direction, "tolerance": tolerance}
        case Same(_, tolerance):
            return {"same": other.ensemble.sha256, **({} if tolerance is None else {"tolerance": tolerance})}
    raise StatementError(f"Expected a statement about the whole model, got {statement}")


def proved_line(words: dict[str, Any], models: Sequence[ScoredModel], shown: Sequence[Shown]) -> dict[str, Any] | None:
    """Return the line of a statement that holds; None if something is not shown, or there is no way to say it.

    ``shown`` has what `compared.Most` has, for each way in which the statement can fail.
    """
    if None in shown or not math.isfinite(_most(words) or 0.0):
        return None
    ways = [way for way in shown if way is not None]
    said = _said(words, models, True, [[(low, high) for low, high, _ in way] for way in ways])
    if said is None:
        return None
    # Where the second probability is so high, the first one cannot be that much higher.
    most, end = Fraction(_most(words) or 0), models[0].ends[1] if "parts" in said else math.inf
    cases = [case for way in ways for low, _, case in way if low + most < end]
    return None if None in cases else {**said, "holds": True, "cases": cases}


def refuted_line(words: dict[str, Any], models: Sequence[ScoredModel], rows: Rows) -> dict[str, Any] | None:
    """Return the line of a statement that inputs refute; None if there is no way to say it."""
    parts: list[list[tuple[float, float]]] = []
    if _most(words) is not None and not all(model.is_linear for model in models):
        one, other = models[0].score_of(rows[0]), models[-1].score_of(rows[1])
        lower = [(min(one, other),) * 2]
        parts = [lower, []] if one > other or "monotone" in words else [[], lower]
    said, n_rows = _said(words, models, False, parts), 1 + ("monotone" in words or "insensitive" in words)
    return None if said is None else {**said, "holds": False, "inputs": [listed(row) for row in rows[:n_rows]]}


def _most(words: dict[str, Any]) -> float | None:
    return words.get("tolerance", words.get("most"))


def _said(
    words: dict[str, Any], models: Sequence[ScoredModel], holds: bool, parts: Sequence[Sequence[tuple[float, float]]]
) -> dict[str, Any] | None:
    """Return a statement, what scores are, and rounding; None where the link of probabilities is not known.

    Rounding is such that the statement follows from what was proved of exact sums, or is refuted by what was found.
    """
    most, up = _most(words), not holds
    if "range" in words or "low" in words:
        return _with_levels(words, models[0], holds)
    if most is None:
        up = holds if "same" in words else not holds
        return {"statement": words, "rounding": [[rounded(model.tie, up=up), 0.0] for model in models]}
    links = [link_of(model) for model in models]
    are_sums = all(model.is_linear for model in models) or ("monotone" in words and most == 0)
    if are_sums:  # what rounding makes is left out, unless the most was asked for
        up = holds if "most" not in words else not holds
        off = [[rounded(Fraction(model.margin), up=up), 0.0] for model in models]
        scores = [_score(model, link or SUM) for model, link in zip(models, links, strict=True)]
        return {"statement": words, "scores": scores, "rounding": off}
    known = [link for link in links if link is not None and link[0]]
    if len(known) < len(models):
        return None
    points: list[list[float]] = [[], []]
    for i, way in enumerate(parts):
        for low, high in way:
            points[i].append(low + most)
            points[1 - i] += [low, high]
    near = points if len(models) > 1 else [points[0] + points[1]]
    off = [
        _worst([_rounding_at(m, y, up=up) for y in ys if m.ends[0] < y < m.ends[1]], up)
        for m, ys in zip(models, near, strict=True)
    ]
    scores = [_score(model, link) for model, link in zip(models, known, strict=True)]
    levels = [[high for _, high in (way[:-1] if holds else way)] for way in parts]
    return {"statement": words, "scores": scores, "rounding": off, "parts": levels}


def _with_levels(words: dict[str, Any], model: ScoredModel, holds: bool) -> dict[str, Any]:
    """Return a statement about high and low scores, what they are, and rounding: sums where no link is known."""
    link, rounding = link_of(model), []
    said = list(words["range"] if "range" in words else (words["low"], words["high"]))
    for i, end in enumerate(said):
        if end is None or not model.ends[0] < end < model.ends[1]:
            continue
        if link is None:
            said[i] = rounded(model.level(end), up=(i == 1) == holds)
            rounding.append((rounded(model.slack_at(end), up=not holds), 0.0))
        else:
            rounding.append(_rounding_at(model, end, up=not holds))
    words = words | ({"range": said} if "range" in words else {"low": said[0], "high": said[1]})
    return {"statement": words, "scores": [_score(model, link or SUM)], "rounding": [_worst(rounding, not holds)]}


def _worst(rounding: Sequence[tuple[float, float]], up: bool) -> list[float]:
    """Return the largest of some rounding of sums and of scores, or the smallest."""
    worst = max if up else min
    return [worst((part[i] for part in rounding), default=0.0) for i in (0, 1)]


def link_of(model: ScoredModel) -> tuple[str, Fraction, Fraction] | None:
    """Return how sums come of scores: a function of these, a factor, and what is added; None if that is not known."""
    if model.is_linear:
        start = model.level(0.0)
        return "", model.level(1.0) - start, start
    if model.is_regressor:
        start = model.level(1.0)
        return None if abs(model.level(math.e) - start - 1) > (abs(start) + 1) / 2**49 else ("log", Fraction(1), start)
    try:
        start, three = model.level(0.5), Fraction(log_odds(0.75))
        factor = Fraction(float(f"{float((model.level(0.75) - start) / three):.12g}"))
        for score in (0.001, 0.01, 0.1, 0.3, 0.7, 0.99):
            total, found = model.level(score), factor * Fraction(log_odds(score)) + start
            if abs(total - found) > (abs(total) + abs(start)) / 2**49:
                return None
    except ModelError:  # calibrated, to some probabilities only
        return None
    return "log_odds", factor, start


def _rounding_at(model: ScoredModel, score: float, *, up: bool) -> tuple[float, float]:
    """Return how far off sums, and scores made of them, may be: nearly as far as `ScoredModel.slack_at` says, or more.

    Of probabilities, the slack of a model is what their rounding makes where they are 1 / 2.
    """
    level, exact, slack = model.level(score), model.slack_at(score), Fraction(model.opened.slack)
    if not model.is_probability:  # logarithms are off by less than a bit or two
        return rounded(exact + abs(level) / 2**50 if up else Fraction(model.margin) + slack, up=up), 0.0
    start, nearest, quarter = model.level(0.5), Fraction(min(score, 1 - score)), slack / 4
    spare = exact - Fraction(model.margin) - quarter / (Fraction(score) * (1 - Fraction(score)))
    error = (abs(level - start) + abs(start)) / 2**50  # of the level, in floats
    near = Fraction(model.margin) + (spare + error if up else min(spare - error, Fraction(0)))
    off = quarter * (1 + 2 * quarter / nearest) if up else quarter * nearest / (nearest + quarter) / 2
    return rounded(max(near, Fraction(0)), up=up), rounded(off, up=up)


def rounded(value: Fraction, *, up: bool) -> float:
    """Return the nearest float that is at least a value, or at most."""
    found = float(value)
    if (found < value) if up else (found > value):
        return math.nextafter(found, math.inf if up else -math.inf)
    return found


def _score(model: ScoredModel, link: tuple[str, Fraction, Fraction]) -> dict[str, Any]:
    name, scale, shift = link
    fractions = {"scale": list(scale.as_integer_ratio()), "shift": list(shift.as_integer_ratio())}
    return {"sign": model.sign, **({"link": name} if name else {}), **fractions}


def save(certificate: Sequence[dict[str, Any]], path: str | os.PathLike[str], *, replace: bool) -> None:
    """Write the lines of a certificate to a file, which appears whole or not at all."""
    content = (json.dumps(line, separators=(",", ":"), allow_nan=False) + "\n" for line in certificate)
    write_atomically(path, content, replace=replace)


def listed(row: NDArray[np.float64]) -> list[float | None]:
    """Return a row with null for what is missing."""
    return [None if value != value else value for value in row.tolist()]

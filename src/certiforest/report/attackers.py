"""Attackers as plain data with names in place of indices, and in words: complete, so that a reader can repeat them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from certiforest.attack.attacker import Attacker
from certiforest.attack.relations import read_relation
from certiforest.attack.rules import read_attacker
from certiforest.words import named, norm_name

#: What the options of an attacker are called in tables.
OPTIONS = {
    "scale": "What a change of 1 means",
    "only": "Features that can change",
    "frozen": "Features that cannot change",
    "domain": "Smallest and largest values",
    "direction": "Features that move one way only",
    "integer": "Features that stay whole numbers",
    "groups": "Columns that are one variable",
    "categories": "What a change of category costs",
    "missing": "What it costs to blank or fill a value",
    "relations": "Relations that rows keep",
    "strict": "Whether rows that break relations are refused",
    "attacks": "Rules",
    "budget": "Budget for all uses of rules",
}


#: What holds an attacker back, in sentences.
LIMITS = {
    "frozen": "but for frozen features",
    "domain": "within given limits",
    "direction": "in given directions",
    "integer": "whole numbers staying whole",
    "groups": "columns that are one variable together",
    "relations": "keeping relations between columns",
}


def describe_attacker(attacker: Any, names: Sequence[str] | None = None) -> dict[str, Any]:
    """Return the whole attacker for JSON: its document, with features by name if these are given."""
    document = dict(attacker.to_document())
    if "norm" not in document:
        return document
    document["norm"] = norm_name(attacker.norm)
    if names is not None:
        for option in ("integer", "groups", "direction"):
            if document.get(option) is not None:
                document[option] = _named(document[option], names)
        is_frozen = attacker.is_frozen(len(names))
        frozen, moving = ([names[f] for f in np.flatnonzero(mask).tolist()] for mask in (is_frozen, ~is_frozen))
        document.pop("only", None)
        document |= {"frozen": None, "only": moving} if 0 < len(moving) < len(frozen) else {"frozen": frozen}
        document |= _limits_by_name(attacker, names)
        if attacker.relations is not None:
            told = (relation.by(lambda column: _named(column, names)) for relation in attacker.relations)
            document["relations"] = [relation.document() for relation in told]
        if attacker.categories is not None:
            document["categories"] = {_named(f, names): cost for f, cost in attacker.categories.items()}
    return document


def _limits_by_name(attacker: Attacker, names: Sequence[str]) -> dict[str, Any]:
    """Return units of columns that can be changed, and limits where there are any, by name, where they differ."""
    found: dict[str, Any] = {}
    is_frozen = attacker.is_frozen(len(names))
    if attacker.scale is not None and attacker.norm != 0 and not is_frozen.all():
        units = zip(*attacker.scales(len(names)).tolist(), strict=True)
        by_name = {name: down if down == up else [down, up] for name, (down, up) in zip(names, units, strict=True)}
        moving = {name: by_name[name] for name in np.array(names, object)[~is_frozen]}
        if any(unit != next(iter(moving.values())) for unit in moving.values()):
            found["scale"] = moving
    if attacker.domain is not None:
        ends = [tuple(ends) for ends in zip(*(bound.tolist() for bound in attacker.bounds(len(names))), strict=True)]
        if len(set(ends)) > 1:
            found["domain"] = {
                name: [str(end) if math.isinf(end) else end for end in pair]
                for name, pair in zip(names, ends, strict=True)
                if not (math.isinf(pair[0]) and math.isinf(pair[1]))
            }
    return found


def _named(entry: Any, names: Sequence[str]) -> Any:
    """Return columns by name in place of indices, in lists and mappings of any depth."""
    if isinstance(entry, dict):
        return {key: _named(value, names) for key, value in entry.items()}
    if isinstance(entry, list):
        return [_named(value, names) for value in entry]
    return names[entry] if isinstance(entry, int) else entry


def attacker_facts(attacker: dict[str, Any]) -> list[tuple[str, str]]:
    """Return every option of a described attacker as a pair of texts for a table."""
    told = {name: attacker[name] for name in _options(attacker)}
    if "relations" in told:
        told["relations"] = "; ".join(str(read_relation(relation)) for relation in told["relations"])
    return [(OPTIONS.get(name, name.capitalize()), _short(value)) for name, value in told.items()]


def _options(attacker: dict[str, Any]) -> list[str]:
    """Return which options a described attacker was given."""
    return [name for name, value in attacker.items() if name not in ("norm", "eps") and value not in (None, [])]


def broken_rows(n_broken: int) -> tuple[str, str]:
    """Say how many rows break relations of the attacker themselves."""
    return (
        "Rows that break relations",
        f"{n_broken:,}, which start there and are not bound by these" if n_broken else "0",
    )


def budget_of(attacker: dict[str, Any]) -> float:
    """Return the budget of a described attacker: eps, or what rules may cost."""
    return attacker["eps"] if "eps" in attacker else attacker["budget"]


def attack_in_words(attacker: dict[str, Any]) -> str:
    """Return what a described attacker may do, as the end of a sentence."""
    eps = f"{budget_of(attacker):g}"
    if attacker.get("scale") is not None and attacker["norm"] != "0":
        eps += " of its scale"
    if "norm" not in attacker:
        return f"a row by rules, while a budget of {budget_of(attacker):g} lasts"
    only = attacker.get("only")
    within = "".join(f", {LIMITS[name]}" for name in _options(attacker) if name in LIMITS)
    move = "one feature" if attacker["norm"] == "0" else "a move of {:g}"
    if attacker.get("categories"):
        costs = dict(attacker["categories"]).items()
        within += f", and the category of {named([f'{name} ({move.format(cost)})' for name, cost in costs])}"
    if attacker.get("missing") is not None:
        within += f", and whether a value is missing ({move.format(attacker['missing'])})"
    which = "a row" if only is None else f"{named(only)} of a row"
    words = {
        "0": f"any {eps} {'of ' + named(only) if only else 'feature' + 's' * (eps != '1') + ' of a row'} by any amount",
        "1": f"{which} by {eps} in all (L1: changes add up)",
        "2": f"{which} by a distance of {eps} (L2)",
        "inf": f"{'every feature of a row' if only is None else which} by {eps} at once (L-infinity)",
    }.get(attacker["norm"], f"{which} by {eps} in the L{attacker['norm']} norm")
    return words + within


def units_in_words(attacker: dict[str, Any], scaled: bool) -> str:
    """Say what the budget of a described attacker refers to where a model scales its features."""
    is_told = scaled and attacker.get("norm", "0") != "0"
    return " Features are scaled: 1 is the range of a feature." if is_told else ""


def attacker_name(attacker: dict[str, Any]) -> str:
    """Return an attacker in a few words: norm, budget, and which options there are."""
    if "norm" not in attacker:
        return f"rules, budget {attacker['budget']:g}"
    options = _options(attacker)
    return f"L{attacker['norm']}, eps {attacker['eps']:g}" + (f", with {named(options)}" if options else "")


def attacker_with_names(attacker: Attacker, names: Sequence[str] | None) -> str:
    """Return an attacker as it was given, with columns by name."""
    document = describe_attacker(attacker, names)
    given = read_attacker({key: value for key, value in document.items() if value not in ([], None)})
    return repr(given).partition("(")[2].removesuffix(")")


def _short(value: Any) -> str:
    """Return an option as text, lists cut after a few entries."""
    if isinstance(value, dict):
        entries = [f"{key}: {_short(entry)}" for key, entry in value.items() if key != "name"]
        return "; ".join(entries) if any(isinstance(entry, list) for entry in value.values()) else named(entries)
    if isinstance(value, list):
        nested = any(isinstance(entry, (list, dict)) for entry in value)
        return "; ".join(_short(entry) for entry in value[:8]) if nested else named([_short(v) for v in value], 20)
    return f"{value:g}" if isinstance(value, float) else str(value)

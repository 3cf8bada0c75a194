"""Attackers as plain data with names in place of indices, and in words: complete, so that a reader can repeat them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from certiforest.words import named, norm_name

#: What the options of an attacker are called in tables.
OPTIONS = {
    "scale": "What a change of 1 means",
    "frozen": "Features that cannot change",
    "domain": "Smallest and largest values",
    "direction": "Features that move one way only",
    "integer": "Features that stay whole numbers",
    "groups": "Columns that are one variable",
    "missing": "Price of making a value missing",
}


def describe_attacker(attacker: Any, names: Sequence[str]) -> dict[str, Any]:
    """Return the whole attacker for JSON: its document, features that cannot change by name."""
    document = dict(attacker.to_document())
    if hasattr(attacker, "norm"):
        document["norm"] = norm_name(attacker.norm)
        document["frozen"] = [names[f] for f in attacker.is_frozen(len(names)).nonzero()[0]]
    for option in ("integer", "groups"):
        if option in document:
            document[option] = _named(document[option], names)
    if isinstance(document.get("direction"), dict):
        document["direction"] = {way: _named(columns, names) for way, columns in document["direction"].items()}
    return document


def _named(columns: Any, names: Sequence[str]) -> Any:
    """Return columns, or lists of them, by name."""
    if isinstance(columns, list):
        return [_named(column, names) for column in columns]
    return names[columns] if isinstance(columns, int) else columns


def attacker_facts(attacker: dict[str, Any]) -> list[tuple[str, str]]:
    """Return every option of a described attacker as a pair of texts for a table."""
    return [
        (OPTIONS.get(name, name.capitalize()), _short(value))
        for name, value in attacker.items()
        if name not in ("norm", "eps") and value not in (None, [])
    ]


def attack_in_words(attacker: dict[str, Any]) -> str:
    """Return what a described attacker may do, as the end of a sentence."""
    eps = f"{attacker['eps']:g}" if "eps" in attacker else ""
    if attacker.get("scale") is not None and attacker["norm"] != "0":
        eps += " of its scale"
    limits = [name for name in OPTIONS if name != "scale" and attacker.get(name) not in (None, [])]
    within = f", within limits of {named(limits)}" if limits else ""
    words = {
        None: "a row by the rules below",
        "0": f"any {eps} features of a row by any amount",
        "1": f"a row by {eps} in all (L1: changes add up)",
        "2": f"a row by a distance of {eps} (L2)",
        "inf": f"every feature of a row by {eps} at once (L-infinity)",
    }.get(attacker.get("norm"), f"a row by {eps} in the L{attacker.get('norm')} norm")
    return words + within


def attacker_name(attacker: dict[str, Any]) -> str:
    """Return an attacker in a few words: norm, budget, and which options there are."""
    options = [name for name, value in attacker.items() if name not in ("norm", "eps") and value not in (None, [])]
    start = f"L{attacker['norm']}, eps {attacker['eps']:g}" if "norm" in attacker else "rules"
    return start + (f", with {named(options)}" if options else "")


def _short(value: Any) -> str:
    """Return an option as text, lists cut after a few entries."""
    if isinstance(value, dict):
        return named([f"{key}: {_short(entry)}" for key, entry in value.items()])
    if isinstance(value, list):
        nested = any(isinstance(entry, list) for entry in value)
        return "; ".join(_short(entry) for entry in value[:8]) if nested else named([_short(v) for v in value], 20)
    return f"{value:g}" if isinstance(value, float) else str(value)

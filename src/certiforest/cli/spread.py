"""``certiforest spread``."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from certiforest.cli import console
from certiforest.cli.options import AsJson, AttackerFile, AttackerOptions, Domain, InputError, ModelPath, open_model


def spread(
    model: ModelPath,
    attacker_options: AttackerOptions,
    eps: Annotated[float | None, typer.Option(metavar="E", help="Also list what is too close for this eps.")] = None,
    attacker_file: AttackerFile = None,
    domain: Domain = None,
    as_json: AsJson = False,
) -> None:
    """Tell how far apart thresholds are, and for which eps that is enough.

    [bold]Examples[/bold]

      certiforest spread m.json

      certiforest spread forest.silva --eps 0.015

    With large spread, more than 2 * eps, every verdict is exact in
    polynomial time: no row is UNKNOWN.
    """
    import numpy as np

    from certiforest.attack.spread import overlaps
    from certiforest.cli.summaries import describe_model
    from certiforest.ensemble.tree_kernels import LARGEST
    from certiforest.report import spread_facts
    from certiforest.words import feature_name, named, norm_name

    if eps is not None and LARGEST / 2 < eps < np.inf:
        raise InputError(f"Expected --eps up to {LARGEST / 2:.3g}, whose double is still a number, got {eps}.")
    ensemble = open_model(model)
    names = ensemble.feature_names
    attacker = attacker_options.whole_or_described(attacker_file, eps, names, ensemble.n_features, domain)
    if not attacker.has_norm:
        raise InputError("Expected an attacker with a norm, got rules, for whom trees that share a column always meet.")
    if attacker_file is not None:
        eps = attacker.eps
    facts = spread_facts(ensemble, attacker)
    summary: dict[str, Any] = {
        "model": describe_model(ensemble, str(model)),
        "norm": norm_name(attacker.norm),
        "spread": facts["spread"],
        "shares_features": facts["spread"] is not None,
        "largest_eps": facts["largest_eps"],
    }
    if eps is not None:
        pairs = overlaps(ensemble, attacker)
        summary["eps"] = eps
        summary["has_large_spread"] = facts["has_large_spread"]
        summary["n_overlaps"] = len(pairs.feature)
        summary["overlapping_features"] = [feature_name(names, int(f)) for f in np.unique(pairs.feature)]
    if as_json:
        console.say_json(summary)
        return
    spread, largest = "no two trees share a feature", "any eps"
    if summary["shares_features"]:
        spread = repr(facts["spread"])
        largest = "no eps" if facts["largest_eps"] is None else f"eps up to {facts['largest_eps']!r}"
    rows = [
        ("Trees, nodes, features", f"{ensemble.n_trees}, {ensemble.n_nodes}, {ensemble.n_features}"),
        (f"Spread (L{summary['norm']})", spread),
        ("Every verdict is exact for", largest),
    ]
    if eps is not None:
        too_close = f"no: {summary['n_overlaps']} pairs of thresholds are too close"
        rows.append((f"Large spread for eps {eps}", "yes" if facts["has_large_spread"] else too_close))
        if summary["overlapping_features"]:
            rows.append(("On the features", named(summary["overlapping_features"])))
    console.show_facts(f"Spread of {model}", rows)

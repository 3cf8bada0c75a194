"""``certiforest spread``, ``convert``, ``audit`` and ``relations``: what takes no model and rows at once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from certiforest.cli import console
from certiforest.cli.options import AsJson, BestIteration, DataOptions, InputError, ModelPath, OutputOptions, open_model
from certiforest.cli.outcomes import GateOptions, Outcome
from certiforest.cli.questions import AttackerOptions, Domain
from certiforest.files import check_readable
from certiforest.words import counted


def spread(model: ModelPath, options: AttackerOptions, domain: Domain = None, as_json: AsJson = False) -> None:
    """Tell how far apart thresholds are, and for which eps that is enough.

    [bold]Examples[/bold]

      certiforest spread m.json

      certiforest spread forest.silva --eps 0.015

    With large spread, more than 2 * eps, every verdict is exact in
    polynomial time: no row is UNKNOWN. With --eps, what is too close for
    it is listed, too.
    """
    import numpy as np

    from certiforest.attack.spread import overlaps
    from certiforest.cli.summaries import describe_model
    from certiforest.ensemble.tree_kernels import LARGEST
    from certiforest.report import spread_facts
    from certiforest.words import feature_name, named, norm_name

    eps = options.eps
    if eps is not None and LARGEST / 2 < eps < np.inf:
        raise InputError(f"Expected --eps up to {LARGEST / 2:.3g}, whose double is still a number, got {eps}.")
    ensemble = open_model(model)
    names = ensemble.feature_names
    attacker = options.attacker(names, ensemble.n_features, ensemble.categorical, domain=domain)
    if not attacker.has_norm:
        raise InputError("Expected an attacker with a norm, got rules, for whom trees that share a column always meet.")
    if options.attacker_file is not None:
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


def convert(
    model: ModelPath,
    out: Annotated[Path, typer.Option(metavar="JSON", help="Where to write the model.")],
    output: OutputOptions,
    best_iteration: BestIteration = None,
) -> None:
    """Write a model of any kind as a file of certiforest.

    [bold]Example[/bold]

      certiforest convert xgboost.ubj --out m.json

    The new file predicts as the model does on every row; nothing but this
    library, or the format's description, is needed to read it.
    """
    output.check({"--out": out}, [model])
    ensemble = open_model(model, best_iteration)
    ensemble.save(out, replace=output.force)
    if output.as_json:
        from certiforest.cli.summaries import describe_model

        console.say_json({"model": describe_model(ensemble, str(out)), "source": str(model)})
        return
    facts = [
        ("Trees, nodes, features", f"{ensemble.n_trees}, {ensemble.n_nodes}, {ensemble.n_features}"),
        ("Trees", "vote" if ensemble.combine == "vote" else "have scores, which add up"),
        ("Model file", str(out)),
    ]
    console.show_facts(f"{model} as a file of certiforest", facts)


def relations(
    data: DataOptions,
    output: OutputOptions,
    out: Annotated[Path | None, typer.Option(metavar="JSON", help="Also write them to a file, to be edited.")] = None,
) -> None:
    """Suggest relations between columns that all rows keep, for you to judge.

    [bold]Example[/bold]

      certiforest relations a.csv --target y --out relations.json

    Nothing is applied by itself: rows that happen to keep a relation do not
    bind an attacker. Take out what need not hold, and put the rest into the
    attacker's file, as its "relations".
    """
    output.check({"--out": out}, [data.data])
    from certiforest.attack.relations import read_relation
    from certiforest.attack.suggesting import suggest_relations

    table, _ = data.source().open()
    numbers = [f for f in range(table.X.shape[1]) if f not in table.texts]
    names = table.feature_names or range(table.X.shape[1])
    found = suggest_relations(table.X[:, numbers], columns=[names[f] for f in numbers])
    if out is not None:
        output.write(out, json.dumps(found, indent=2) + "\n")
    if output.as_json:
        console.say_json({"relations": found})
        return
    rows = [
        (str(read_relation(entry)), f"{entry['about']['support']:.1%}", f"{entry['about']['broken']:.2%}")
        for entry in found
    ]
    title = f"{counted(len(found), 'relation')} that rows of {data.data} keep: which of them must an attacker keep?"
    console.show_table(title, ["Relation", "Support", "Broken, held out"], rows)


def audit(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="Model file of certiforest; convert writes one.")],
    output: GateOptions,
    certificate: Annotated[
        Path, typer.Argument(metavar="CERTIFICATE", help="What --proof of certify, check or measure wrote.")
    ],
    others: Annotated[
        list[Path] | None, typer.Argument(metavar="OTHER", help="Models that statements compare the first one with.")
    ] = None,
    original: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A library's own model file: does it become MODEL?")
    ] = None,
    best_iteration: BestIteration = None,
) -> None:
    """Check every statement of a certificate, exactly and on its own.

    [bold]Examples[/bold]

      certiforest audit m.json rows.cert.jsonl

      certiforest audit m.json rows.cert.jsonl --original xgboost.ubj

    Exit code 0: all statements are confirmed; 1: something is refuted or
    not proved. The program behind this needs nothing but Python: copy the
    file audit.py of this package and run python -I audit.py.
    """
    paths = [model, certificate, *(others or [])]
    for path, what in zip(paths, ("model file", "certificate", *["model file"] * len(paths)), strict=False):
        check_readable(path, what)
    output.check({}, [*paths, *([] if original is None else [original])])
    from certiforest.audit import main

    kept: list[Any] = []
    code = main([*map(str, paths)], lambda *found: kept.append(found))
    for found, lines in kept:
        n_confirmed = sum(found.counts.values()) - found.counts["not proved"] - found.counts.get("refuted", 0)
        outcomes = [Outcome(f"{counted(n_confirmed, 'statement')} of {certificate}", True)]
        outcomes += [Outcome(doubt.partition(" is ")[0], False, doubt) for doubt in found.doubts]
        if original is not None:
            is_same, what = open_model(original, best_iteration) == open_model(model), f"what {original} becomes"
            lines.insert(0, f"{model} is {'' if is_same else 'not '}{what} by convert.")
            outcomes.insert(0, Outcome(f"{model} is {what}", is_same, "" if is_same else lines[0]))
        output.write_outcomes(f"certiforest audit {model}", outcomes, [(line.partition(": ")[::2]) for line in lines])
        doubts = [outcome.reason for outcome in outcomes if not outcome.holds]
        code = int(bool(doubts))
        if output.as_json:
            told = {"counts": found.counts, "doubts": doubts, "model_sha256": found.model.sha256, "about": found.about}
            if hasattr(found, "shares"):
                told |= {"rows_sha256": found.digest.hexdigest(), **found.shares}
            console.say_json({"confirmed": not doubts, **told})
        for line in [] if output.as_json else lines:
            console.say(line)
    raise typer.Exit(code)

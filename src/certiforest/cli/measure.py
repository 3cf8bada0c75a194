"""``certiforest measure``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from certiforest.cli import console
from certiforest.cli.options import AsJson, ModelPath
from certiforest.cli.whole_models import WholeModelOptions, as_records, show_inputs
from certiforest.words import finite_or_none


def measure(
    model: ModelPath,
    quantity: Annotated[str, typer.Argument(metavar="QUANTITY", help="range, gap, fall or difference.")],
    options: WholeModelOptions,
    columns: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN", help="For gap: column that may change; repeat for more.")
    ] = None,
    column: Annotated[str | None, typer.Option(metavar="COLUMN", help="For fall: column that grows.")] = None,
    direction: Annotated[str, typer.Option(metavar="up|down", help="For fall: down measures how it rises.")] = "up",
    other: Annotated[Path | None, typer.Option(metavar="MODEL", help="For difference: the other model.")] = None,
    as_json: AsJson = False,
) -> None:
    """Find how far a model goes: its exact range, gap, fall or difference.

    [bold]Examples[/bold]

      certiforest measure m.json range --domain a.csv --target y

      certiforest measure m.json gap --columns sex --domain domain.json

      certiforest measure m.json difference --other v2.json --domain a.csv

    What was reached, by inputs that are printed, and what is proved: they
    are equal, but for rounding, unless --time-limit ends the search.
    """
    from certiforest.data.sources import find_features
    from certiforest.statements.checking import measure

    opened, domain = options.open(model)
    names, n_features = domain.columns or opened.ensemble.feature_names, opened.ensemble.n_features
    place = find_features(None if column is None else [column], names, n_features, "column")
    found = measure(
        opened,
        quantity,
        domain,
        columns=find_features(columns, names, n_features, "columns"),
        column=None if place is None else place[0],
        direction=direction,
        other=other,
        outputs=options.outputs,
        time_limit=options.time_limit,
    )
    if quantity == "range":
        (low_proved, low), (high, high_proved) = found.bounds
        ends = [("lowest", low, low_proved), ("highest", high, high_proved)]
        records = [record for inputs in found.pair for record in as_records(inputs)]
    else:
        ends, records = [(quantity, *found.bounds)], as_records(found.pair)
    if as_json:
        bounds = {
            name: {"reached": finite_or_none(reached), "proved": finite_or_none(proved)}
            for name, reached, proved in ends
        }
        console.say_json({"model": str(model), **bounds, "inputs": records, "seconds": round(found.seconds, 4)})
        return
    lines = [(name, f"{reached:.6g}", f"{proved:.6g}") for name, reached, proved in ends]
    console.show_table(f"{model}: {quantity}", ["Score", "Reached", "Proved"], lines)
    if records:
        heads = ["Lowest", "Highest"] if quantity == "range" else ["First", "Second"][: len(records)]
        show_inputs("Reached by", heads, records, marks=quantity != "range")

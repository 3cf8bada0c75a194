"""``certiforest demo``, ``datasets`` and ``warm``: what there is to try, and trying all of it."""

from __future__ import annotations

import itertools
import time
from pathlib import Path
from typing import Annotated

import typer

from certiforest.cli import console
from certiforest.cli.options import AsJson, OutputOptions, check_between
from certiforest.words import interval

NORMS = ("inf", "2", "1")
REPORTED_NORM = "inf"
EPS = 0.02


def demo(
    output: OutputOptions,
    out: Annotated[
        Path | None, typer.Option(metavar="HTML", help="Report; a new file in this directory if not given.")
    ] = None,
) -> None:
    """Train, certify and report on data that ships with scikit-learn; takes under a minute.

    [bold]Example[/bold]

      certiforest demo
    """
    out = _first_free("certiforest-demo", ".html") if out is None else out
    output.check_report("--out", out)
    output.check({"--out": out})
    from certiforest.attack.attacker import Attacker
    from certiforest.attack.spread import spread
    from certiforest.certification import certify
    from certiforest.cli.summaries import count_verdicts, describe_model
    from certiforest.cli.train import make_estimator
    from certiforest.data.datasets import load_dataset
    from certiforest.data.sources import InputRows
    from certiforest.report import gather, render
    from certiforest.verdicts import Verdict
    from certiforest.words import finite_or_none

    dataset = load_dataset("breast_cancer")
    names = dataset.table.feature_names
    X_train, X_test, y_train, y_test = dataset.scaled_split()
    estimator = make_estimator("forest", {"n_estimators": 25, "max_depth": 4, "eps": EPS, "random_state": 0}, ())
    with console.progress_bar("Training and certifying (the first time, compiling)", len(NORMS) + 1) as advance:
        estimator.fit(X_train, y_train)
        advance(1)
        ensemble = estimator.ensemble_.with_columns(names, dataset.scaling)
        found = {}
        for norm in NORMS:
            for_report = norm == REPORTED_NORM
            certificates = certify(ensemble, X_test, y_test, Attacker(norm, EPS), radius=for_report, witness=for_report)
            found[norm] = certificates.unless_interrupted()
            advance(1)
    rows = InputRows(
        X_test, y_test, names, "breast_cancer", row_numbers=dataset.test_rows, part="test", scaling=dataset.scaling
    )
    findings = gather(found[REPORTED_NORM], **rows.names_for_report("demo model"))
    output.write(out, render(findings, out.suffix))
    if output.as_json:
        console.say_json(
            {
                "data": "breast_cancer",
                "n_train": len(X_train),
                "n_test": len(X_test),
                "model": describe_model(ensemble, None),
                "spread": finite_or_none(spread(ensemble)),
                "eps": EPS,
                "norms": {norm: count_verdicts(certificates) for norm, certificates in found.items()},
                "report": str(out),
            }
        )
        return
    title = f"{ensemble.n_trees} trees, {len(X_test)} unseen rows of breast_cancer, attacked by eps {EPS}"
    lines = [
        ("Accuracy", *(f"{c.accuracy:.1%}" for c in found.values())),
        ("Robust accuracy", *(interval(c.robust_accuracy_bounds, ".1%") for c in found.values())),
        *((f"  {verdict.words}", *(str(c.counts[verdict]) for c in found.values())) for verdict in Verdict),
    ]
    console.show_table(title, ("Attacker", *(f"L{norm}" for norm in found)), lines)
    console.say(f"Report: {out}")


def _first_free(stem: str, suffix: str) -> Path:
    names = (f"{stem}{number}{suffix}" for number in itertools.chain([""], (f"-{n}" for n in itertools.count(2))))
    return next(path for path in map(Path, names) if not path.exists())


def datasets(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="Show one in detail.")] = None,
    as_json: AsJson = False,
) -> None:
    """List the datasets known by name.

    [bold]Examples[/bold]

      certiforest datasets

      certiforest datasets mnist26

    Source, licence, checksum, split and scaling of each. Nothing is
    downloaded unless --download is given where a dataset is used.
    """
    from certiforest.data.datasets import DATASETS, dataset_info
    from certiforest.data.split import SPLIT_TEXT

    infos = list(DATASETS.values()) if name is None else [dataset_info(name)]
    documents = [
        {
            "name": info.name,
            "title": info.title,
            "size": info.size,
            "source": info.source,
            "licence": info.licence,
            "split": SPLIT_TEXT,
            "scaling": info.scaling_text,
            "sha256": info.sha256,
        }
        for info in infos
    ]
    if as_json:
        console.say_json(documents if name is None else documents[0])
    elif name is None:
        rows = [(info.name, info.title, info.size, info.licence) for info in infos]
        console.show_table(None, ("Name", "What it is", "Size", "Licence"), rows, n_left=4)
        console.say("'certiforest datasets NAME' tells source, checksum, split and scaling.")
    else:
        console.show_facts(name, [(key.capitalize(), value or "not recorded") for key, value in documents[0].items()])


def warm(
    workers: Annotated[int | None, typer.Option(metavar="N", help="Processes; one for each core if not given.")] = None,
) -> None:
    """Compile all there is to compile, in parallel, so that no later run waits for it.

    [bold]Example[/bold]

      certiforest warm

    For container images, while they are built. What came compiled, or was
    compiled before, is found and not compiled again.
    """
    check_between("--workers", workers, 1, 10_000)
    from certiforest.warming import STEPS, warm

    began = time.monotonic()
    with console.progress_bar("Compiling, once for all later runs", len(STEPS)) as advance:
        n_compiled, names = warm(workers, advance)
    console.say(f"{len(names)} kernels are ready; {n_compiled} compilations took {time.monotonic() - began:.0f} s.")
